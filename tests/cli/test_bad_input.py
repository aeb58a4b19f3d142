"""What cannot be used: exit code 2, place and cure, and nothing half-written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from command_line import files, save_model, shows_secret, small_model

from canary.corpus.canaries import CanarySet, generate

GENERATE = ("generate", "The code is {digit:9}", "--force", "--out", "old/file")
INJECT = ("inject", "corpus.jsonl", "--canaries", "canaries.json", "--force", "--out", "old/file")
STRIP = ("strip", *INJECT[1:])
DISCOVER = ("discover", "corpus.jsonl", "{digit:9}", "--force", "--out", "old/file")
VERIFY = ("verify", "corpus.jsonl", "--canaries", "canaries.json")
AUDIT = (
    "audit",
    "./model",
    "--canaries",
    "canaries.json",
    "--force",
    "--out",
    "old",
    "--draws",
    "9",
)
EXPOSURE = ("exposure", "./model", "--canaries", "canaries.json", "--draws", "9")
SCORE = ("score", "./model", "corpus.jsonl", "--force", "--out", "old/file")
REPORT = ("report", "old/audit.json", "--force", "--out", "old/file")


def corpus(text):
    def prepare():
        Path("corpus.jsonl").write_text(text)

    return prepare


def raw_corpus(data):
    def prepare():
        Path("corpus.jsonl").write_bytes(data)

    return prepare


def canaries(*formats, **options):
    def prepare():
        numbers = {"repetitions": [1], "per_repetition": 2, "controls": 0, "seed": 0}
        generate(formats, **{**numbers, **options}).save("canaries.json", force=True)

    return prepare


def found(format, fill):
    return lambda: CanarySet.from_fills(format, [fill]).save("canaries.json", force=True)


def manifest(change):
    def prepare():
        text = Path("canaries.json").read_text()
        Path("canaries.json").write_text(change(text))

    return prepare


def folders_in(place):
    return {path for path in place.rglob("*") if path.is_dir() and path.name != "__pycache__"}


def newer(text):
    return json.dumps({**json.loads(text), "schema": 99})


def secret_in_wrong_place(text):
    found = json.loads(text)
    found["canaries"][0]["fill"] += "0"
    return json.dumps(found)


def without(pattern):
    def prepare():
        for path in Path("model").glob(pattern):
            path.unlink()

    return prepare


def weights(change):
    """The model with its weights changed; the tensors are a dict by name."""

    def prepare():
        from safetensors.torch import load_file, save_file

        tensors = load_file("model/model.safetensors")
        change(tensors)
        save_file(tensors, "model/model.safetensors", metadata={"format": "pt"})

    return prepare


def to_nan(tensors):
    tensors["transformer.ln_f.weight"].fill_(float("nan"))


def pickled():
    without("*.safetensors")()
    # Unpickling it would end the process.
    Path("model/pytorch_model.bin").write_bytes(b"cos\n_exit\n(I9\ntR.")


def truncated_weights():
    whole = Path("model/model.safetensors").read_bytes()
    Path("model/model.safetensors").write_bytes(whole[: len(whole) // 2])


def short_context():
    shutil.rmtree("model")
    save_model(small_model(positions=16), Path("model"))


def wrong_factory():
    Path("mine.py").write_text("def build(config):\n    raise KeyError('width')\n")


def one_position():
    shutil.rmtree("model")
    save_model(small_model(positions=1), Path("model"))


def nothing():
    pass


# What is done beforehand, the command, and what its message must say.
TABLE = {
    "missing column": (
        nothing,
        (*INJECT, "--column", "body"),
        ("corpus.jsonl:1", "no column 'body'", "name one of 'text', 'n'"),
    ),
    "missing column, verify": (
        nothing,
        (*VERIFY, "--column", "body"),
        ("corpus.jsonl:1", "'text'"),
    ),
    "column that is no text": (
        nothing,
        (*INJECT, "--column", "n"),
        ("corpus.jsonl:1", "column 'n' is a number, not text", "name a column of texts"),
    ),
    "invalid JSON": (
        corpus('{"text": "a"}\n{"text": "b"}\n{"text": \n'),
        INJECT,
        ("corpus.jsonl:3", "not valid JSON", "mend the line"),
    ),
    "invalid JSON, verify": (corpus('{"text": "a"}\n{'), VERIFY, ("corpus.jsonl:2", "mend")),
    "invalid UTF-8": (
        raw_corpus(b'{"text": "a"}\n{"text": "\xff"}\n'),
        INJECT,
        ("corpus.jsonl:2", "is not UTF-8 (byte 11 of the line)", "save the corpus as UTF-8"),
    ),
    "invalid UTF-8, verify": (
        raw_corpus(b'{"text": "a"}\n\xff\n'),
        VERIFY,
        ("corpus.jsonl:2", "is not UTF-8"),
    ),
    "invalid UTF-8, strip": (
        raw_corpus(b'{"text": "a"}\n\xff\n'),
        STRIP,
        ("corpus.jsonl:2", "is not UTF-8"),
    ),
    "invalid UTF-8, discover": (
        raw_corpus(b'{"text": "a"}\n\xff\n'),
        DISCOVER,
        ("corpus.jsonl:2", "is not UTF-8"),
    ),
    "invalid UTF-8, score": (
        raw_corpus(b'{"text": "a"}\n\xff\n'),
        SCORE,
        ("corpus.jsonl:2", "is not UTF-8"),
    ),
    "invalid JSON, strip": (corpus('{"text": "a"}\n{'), STRIP, ("corpus.jsonl:2", "mend")),
    "invalid JSON, discover": (corpus('{"text": "a"}\n{'), DISCOVER, ("corpus.jsonl:2", "mend")),
    "invalid JSON, score": (corpus('{"text": "a"}\n{'), SCORE, ("corpus.jsonl:2", "mend")),
    "empty corpus, strip": (corpus(""), STRIP, ("holds no record", "at least one")),
    "empty corpus, discover": (corpus(""), DISCOVER, ("holds no record", "at least one")),
    "empty corpus, score": (corpus(""), SCORE, ("holds no record", "at least one")),
    "missing column, strip": (nothing, (*STRIP, "--column", "body"), ("no column 'body'",)),
    "missing column, discover": (nothing, (*DISCOVER, "--column", "body"), ("no column 'body'",)),
    "missing column, score": (nothing, (*SCORE, "--column", "body"), ("no column 'body'",)),
    "nothing to discover": (nothing, DISCOVER, ("holds no secret", "look for other formats")),
    "empty corpus": (corpus(""), INJECT, ("corpus.jsonl", "holds no record", "at least one")),
    "empty corpus, verify": (corpus("\n"), VERIFY, ("holds no record",)),
    "no corpus": (Path("corpus.jsonl").unlink, INJECT, ("corpus.jsonl", "check the path")),
    "corpus as output": (
        nothing,
        (*INJECT[:-1], "corpus.jsonl"),
        ("corpus.jsonl", "never modified", "name another file"),
    ),
    "space too small": (
        nothing,
        ("generate", "Code {digit:1}", *GENERATE[2:]),
        ("'Code {digit:1}' has 10 fills", "48 canaries and controls", "longer hole"),
    ),
    "unknown hole": (
        nothing,
        ("generate", "Code {dogit:9}", *GENERATE[2:]),
        ("column 6", "'dogit' is no kind of hole", "{digit:9}"),
    ),
    "format without a hole": (
        nothing,
        ("generate", "Code", *GENERATE[2:]),
        ("has no hole", "{digit:9}"),
    ),
    "repetitions": (
        nothing,
        (*GENERATE, "--repetitions", "1,x"),
        ("--repetitions", "'1,x'", "as in 1,4,16"),
    ),
    "repetitions with an underscore": (nothing, (*GENERATE, "--repetitions", "1_0"), ("'1_0'",)),
    "repetitions with a sign": (nothing, (*GENERATE, "--repetitions", "+1"), ("'+1'",)),
    "repetitions in another script": (
        nothing,
        (*GENERATE, "--repetitions", "\u0661"),
        ("'\u0661'",),
    ),
    "too many repetitions": (nothing, (*GENERATE, "--repetitions", "9" * 5000), ("as in 1,4,16",)),
    "negative repetitions": (nothing, (*GENERATE, "--repetitions", "-3"), ("at least 1",)),
    "doubled repetitions": (nothing, (*GENERATE, "--repetitions", "4,4"), ("stands twice",)),
    "negative number per repetition": (
        nothing,
        (*GENERATE, "--per-repetition", "-1"),
        ("--per-repetition", "greater than or equal to 1"),
    ),
    "negative controls": (
        nothing,
        (*GENERATE, "--controls", "-1"),
        ("--controls", "greater than or equal to 0"),
    ),
    "negative seed": (nothing, (*GENERATE, "--seed", "-1"), ("--seed", "equal to 0")),
    "too large a seed": (nothing, (*GENERATE, "--seed", f"{2**128}"), ("less than 2^128",)),
    "negative seed, inject": (nothing, (*INJECT, "--seed", "-1"), ("--seed", "equal to 0")),
    "negative seed, audit": (nothing, (*AUDIT, "--seed", "-1"), ("--seed", "equal to 0")),
    "negative draws": (nothing, (*AUDIT, "--draws", "-1"), ("--draws", "equal to 1")),
    "negative budget": (nothing, (*AUDIT, "--budget", "-1"), ("--budget", "equal to 1")),
    "negative batch size": (nothing, (*AUDIT, "--batch-size", "-1"), ("--batch-size", "to 1")),
    "number that is none": (nothing, (*AUDIT, "--draws", "many"), ("--draws", "integer")),
    "no canaries": (Path("canaries.json").unlink, INJECT, ("canaries.json", "check the path")),
    "truncated canaries": (
        manifest(lambda text: text[: len(text) // 2]),
        AUDIT,
        ("canaries.json", "may be truncated", "write it again"),
    ),
    "newer canaries": (
        manifest(newer),
        AUDIT,
        ("canaries.json", "schema 99", "up to 1", "update its checkout"),
    ),
    "canaries with a foreign fill": (
        manifest(secret_in_wrong_place),
        INJECT,
        ("canaries[0].fill", "fill of canary-1 is not in the space", "generate it again"),
    ),
    "canaries that are something else": (nothing, (*INJECT[:3], "corpus.jsonl", *INJECT[4:]), ()),
    "no model": (
        nothing,
        ("audit", "./none", *AUDIT[2:]),
        ("none", "there is no such folder", "check the path"),
    ),
    "no model of that name": (
        nothing,
        ("audit", "none", *AUDIT[2:]),
        ("none", "is no folder here", "hub", "check the path"),
    ),
    "folder without a model": (
        without("config.json"),
        AUDIT,
        ("model", "no config.json", "save_pretrained"),
    ),
    "broken config": (
        lambda: Path("model/config.json").write_text("{"),
        AUDIT,
        ("model/config.json", "not valid JSON", "save the model again"),
    ),
    "model without a tokenizer": (
        without("tokenizer*"),
        AUDIT,
        ("model", "no tokenizer", "--tokenizer"),
    ),
    "model with half a tokenizer": (without("tokenizer.json"), AUDIT, ("model", "--tokenizer")),
    "wrong tokenizer folder": (
        nothing,
        (*AUDIT, "--tokenizer", "none"),
        ("none", "check the path"),
    ),
    "pickled weights": (pickled, AUDIT, ("model", "safetensors", "never loaded")),
    "truncated weights": (truncated_weights, AUDIT, ("model", "cannot be loaded", "safetensors")),
    "missing weights": (
        weights(lambda tensors: tensors.pop("transformer.ln_f.weight")),
        AUDIT,
        ("model", "lacks 1 of the model's weights", "transformer.ln_f.weight", "save_pretrained"),
    ),
    "NaN": (
        weights(to_nan),
        AUDIT,
        ("'model'", "not finite numbers", "check the checkpoint", "float32"),
    ),
    "NaN, exposure": (weights(to_nan), EXPOSURE, ("not finite numbers",)),
    "canary longer than the context": (
        short_context,
        AUDIT,
        ("21 tokens", "longer than the 16", "shorter format or context"),
    ),
    "context that makes it longer": (
        nothing,
        (*AUDIT, "--context", "x" * 60),
        ("81 tokens", "longer than the 64", "shorter format or context"),
    ),
    "characters unknown to the tokenizer": (
        canaries("Der Schlüssel ist {digit:9}"),
        AUDIT,
        ("tokenizer does not know 1 of the characters", "use a format"),
    ),
    "format that begins with a hole": (
        canaries("{digit:9} is the code"),
        (*AUDIT, "--start-token", "none"),
        ("begins with a hole", "--start-token"),
    ),
    "format that is not prefix-free": (
        found("Code {digit:1}{choice:a|ab}", "1a"),
        AUDIT,
        ("not prefix-free", "after the last hole"),
    ),
    "canaries of a format that is not prefix-free": (
        nothing,
        ("generate", "Code {digit:1}{choice:a|ab}", "--out", "new.json"),
        ("not prefix-free", "after the last hole"),
    ),
    "unknown start token": (
        nothing,
        (*AUDIT, "--start-token", "<|none|>"),
        ("no token '<|none|>'", "name one token"),
    ),
    "unknown dtype": (
        nothing,
        (*AUDIT, "--dtype", "float8"),
        ("--dtype", "'float8'", "'bfloat16'"),
    ),
    "unknown device": (
        nothing,
        (*AUDIT, "--device", "abacus"),
        ("'abacus' cannot be used here", "use cpu"),
    ),
    "device without numbers": (
        nothing,
        (*AUDIT, "--device", "meta"),
        ("'meta' holds shapes", "use cpu"),
    ),
    "device without numbers, score": (nothing, (*SCORE, "--device", "meta"), ("'meta'", "use cpu")),
    "model of one position": (
        one_position,
        AUDIT,
        ("'model' takes 1 token at once", "n_positions"),
    ),
    "model of one position, exposure": (one_position, EXPOSURE, ("takes 1 token at once",)),
    "model of one position, score": (one_position, SCORE, ("takes 1 token at once",)),
    "unknown method": (
        nothing,
        (*EXPOSURE, "--method", "guessing"),
        ("--method", "'guessing'", "'enumeration', 'sampling'"),
    ),
    "enumeration beyond the budget": (
        nothing,
        (*AUDIT, "--method", "enumeration", "--budget", "100"),
        ("111,111,110 queries", "budget is 100", "--method sampling"),
    ),
    "factory that is none": (
        nothing,
        (*AUDIT, "--factory", "mine"),
        ("'mine' does not name a factory", "module:function"),
    ),
    "factory that cannot be imported": (
        nothing,
        (*AUDIT, "--factory", "mine.py:build"),
        ("'mine.py:build' cannot be imported", "path/to/file.py:function"),
    ),
    "factory that fails": (
        wrong_factory,
        (*AUDIT, "--factory", "mine.py:build"),
        ("mine.py:build", "check that the factory builds the module that was saved"),
    ),
    "canaries that stand already": (
        nothing,
        ("generate", "The code is {digit:9}", "--out", "canaries.json"),
        ("canaries.json", "exists already", "--force"),
    ),
    "words as output": (
        nothing,
        (*GENERATE[:-1], "corpus.jsonl", "--words", "corpus.jsonl"),
        ("corpus.jsonl", "never modified", "name another file"),
    ),
    "canaries as output": (
        nothing,
        (*INJECT[:-1], "./old/../canaries.json"),
        ("canaries.json", "never modified", "name another file"),
    ),
    "hard link to the canaries as output": (
        lambda: Path("link").hardlink_to("canaries.json"),
        (*INJECT[:-1], "link"),
        ("link", "never modified"),
    ),
    "symbolic link to the canaries as output": (
        lambda: Path("link").symlink_to("canaries.json"),
        (*INJECT[:-1], "link"),
        ("link", "never modified"),
    ),
    "placements as corpus": (
        lambda: Path("o.placements.json").write_text('{"text": "a"}\n'),
        ("inject", "o.placements.json", *INJECT[2:-1], "o"),
        ("o.placements.json", "never modified"),
    ),
    "placements in no place": (
        lambda: Path("o.placements.json").mkdir(),
        (*INJECT[:-1], "o"),
        ("o.placements.json", "is a folder"),
    ),
    "placements with too long a name": (
        nothing,
        (*INJECT[:-1], "o" * 235),
        ("o.placements.json", "cannot be written (File name too long)"),
    ),
    "audit as output": (
        nothing,
        (*REPORT[:-1], "old/audit.json"),
        ("old/audit.json", "never modified"),
    ),
    "canaries where the audit goes": (
        lambda: shutil.move("canaries.json", "old/audit.json"),
        ("audit", "./model", "--canaries", "old/audit.json", "--out", "old"),
        ("old/audit.json", "never modified"),
    ),
    "texts as output": (nothing, (*SCORE[:-1], "corpus.jsonl"), ("corpus.jsonl", "never modified")),
    "model as output": (
        nothing,
        (*SCORE[:-1], "model/config.json"),
        ("model/config.json", "never modified"),
    ),
    "factory as output": (
        wrong_factory,
        (*SCORE[:-1], "mine.py", "--factory", "mine.py:build"),
        ("mine.py", "never modified"),
    ),
    "column that is no text, inject": (
        nothing,
        (*INJECT, "--column", "\udcff"),
        ("--column", "no UTF-8", "give it as UTF-8"),
    ),
    "context that is no text": (
        nothing,
        (*AUDIT, "--context", "\udcff"),
        ("--context", "no UTF-8"),
    ),
    "start token that is no text": (
        nothing,
        (*AUDIT, "--start-token", "\udcff"),
        ("--start-token", "no UTF-8"),
    ),
    "format that is no text": (
        nothing,
        ("generate", "\udcff {digit:9}", *GENERATE[2:]),
        ("FORMAT", "no UTF-8"),
    ),
    "model that is no text": (nothing, ("audit", "\udcff", *AUDIT[2:]), ("MODEL", "no UTF-8")),
    "bad model and a new folder": (
        nothing,
        ("audit", "./none", *AUDIT[2:4], "--out", "new/folder"),
        ("none", "there is no such folder"),
    ),
    "format too long and a new folder": (
        short_context,
        (*AUDIT[:5], "--out", "new/folder"),
        ("21 tokens", "longer than the 16"),
    ),
    "output below a file, generate": (
        nothing,
        (*GENERATE[:-1], "old/file/x"),
        ("old/file/x", "cannot be written", "another path"),
    ),
    "output in no folder, inject": (
        nothing,
        (*INJECT[:-1], "none/x"),
        ("none/x", "cannot be written", "another path"),
    ),
    "output below a file, audit": (
        nothing,
        (*AUDIT, "--out", "old/file/x"),
        ("old/file/x", "cannot be written", "another path"),
    ),
    "output that is a file, audit": (
        nothing,
        (*AUDIT, "--out", "old/file"),
        ("old/file", "another"),
    ),
    "output below a file, demo": (
        nothing,
        ("demo", "--out", "old/file/x"),
        ("old/file/x", "cannot be written"),
    ),
    "output that is a folder": (nothing, (*GENERATE[:-1], "old"), ("old", "is a folder", "name a")),
    "report of something else": (nothing, REPORT, ("old/audit.json", "not valid JSON")),
    "report of nothing": (nothing, ("report", "none", *REPORT[2:]), ("none", "check the path")),
    "unknown command": (nothing, ("audti",), ("'audti'", "'audit'", "canary --help")),
    "unknown option": (nothing, (*AUDIT, "--draw", "9"), ("--draw", "canary audit --help")),
    "missing option": (nothing, AUDIT[:2], ("--canaries", "canary audit --help")),
}


@pytest.mark.parametrize("row", TABLE)
def test_message_exit_code_and_files_input(command, workplace, model, row):
    prepare, words, fragments = TABLE[row]
    shutil.copytree(model, "model")
    prepare()
    before, folders = files(workplace), folders_in(workplace)
    outcome = command(*words)
    assert outcome.code == 2, outcome.err
    assert outcome.out == ""
    message = next(line for line in outcome.err.splitlines() if line.startswith("error: "))
    hint = outcome.err.splitlines()[-1]
    for fragment in fragments:
        assert fragment in f"{message} {hint}"
    assert "Traceback" not in outcome.err
    assert files(workplace) == before
    assert folders_in(workplace) == folders
    if Path("canaries.json").exists() and not row.startswith(("truncated", "newer", "canaries")):
        assert not shows_secret(outcome.err)


def test_folder_is_checked_before_the_model_is_read(command, workplace, monkeypatch):
    def load(*_, **__):
        pytest.fail("the model was read first")

    monkeypatch.setattr("canary.models.loading.load", load)
    assert command(*AUDIT, "--out", "old/file/x").code == 2

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


def bad(words, *fragments, before=lambda: None):
    """A command, the place and the key word of its message, and what is done beforehand."""
    return before, words, fragments


TABLE = {
    "missing column": bad((*INJECT, "--column", "body"), "corpus.jsonl:1", "no column 'body'"),
    "missing column, verify": bad((*VERIFY, "--column", "body"), "corpus.jsonl:1", "'text'"),
    "column that is no text": bad(
        (*INJECT, "--column", "n"), "corpus.jsonl:1", "column 'n' is a number, not text"
    ),
    "invalid JSON": bad(
        INJECT,
        "corpus.jsonl:3",
        "not valid JSON",
        before=corpus('{"text": "a"}\n{"text": "b"}\n{"text": \n'),
    ),
    "invalid JSON, verify": bad(
        VERIFY, "corpus.jsonl:2", "mend", before=corpus('{"text": "a"}\n{')
    ),
    "invalid UTF-8": bad(
        INJECT,
        "corpus.jsonl:2",
        "is not UTF-8 (byte 11 of the line)",
        before=raw_corpus(b'{"text": "a"}\n{"text": "\xff"}\n'),
    ),
    "invalid UTF-8, verify": bad(
        VERIFY, "corpus.jsonl:2", "is not UTF-8", before=raw_corpus(b'{"text": "a"}\n\xff\n')
    ),
    "invalid UTF-8, strip": bad(
        STRIP, "corpus.jsonl:2", "is not UTF-8", before=raw_corpus(b'{"text": "a"}\n\xff\n')
    ),
    "invalid UTF-8, discover": bad(
        DISCOVER, "corpus.jsonl:2", "is not UTF-8", before=raw_corpus(b'{"text": "a"}\n\xff\n')
    ),
    "invalid UTF-8, score": bad(
        SCORE, "corpus.jsonl:2", "is not UTF-8", before=raw_corpus(b'{"text": "a"}\n\xff\n')
    ),
    "invalid JSON, strip": bad(STRIP, "corpus.jsonl:2", "mend", before=corpus('{"text": "a"}\n{')),
    "invalid JSON, discover": bad(
        DISCOVER, "corpus.jsonl:2", "mend", before=corpus('{"text": "a"}\n{')
    ),
    "invalid JSON, score": bad(SCORE, "corpus.jsonl:2", "mend", before=corpus('{"text": "a"}\n{')),
    "empty corpus, strip": bad(STRIP, "holds no record", "at least one", before=corpus("")),
    "empty corpus, discover": bad(DISCOVER, "holds no record", "at least one", before=corpus("")),
    "empty corpus, score": bad(SCORE, "holds no record", "at least one", before=corpus("")),
    "missing column, strip": bad((*STRIP, "--column", "body"), "no column 'body'"),
    "missing column, discover": bad((*DISCOVER, "--column", "body"), "no column 'body'"),
    "missing column, score": bad((*SCORE, "--column", "body"), "no column 'body'"),
    "nothing to discover": bad(DISCOVER, "holds no secret", "look for other formats"),
    "empty corpus": bad(INJECT, "corpus.jsonl", "holds no record", before=corpus("")),
    "empty corpus, verify": bad(VERIFY, "holds no record", before=corpus("\n")),
    "no corpus": bad(INJECT, "corpus.jsonl", "check the path", before=Path("corpus.jsonl").unlink),
    "corpus as output": bad((*INJECT[:-1], "corpus.jsonl"), "corpus.jsonl", "never modified"),
    "space too small": bad(
        ("generate", "Code {digit:1}", *GENERATE[2:]),
        "'Code {digit:1}' has 10 fills",
        "48 canaries and controls",
    ),
    "unknown hole": bad(
        ("generate", "Code {dogit:9}", *GENERATE[2:]), "column 6", "'dogit' is no kind of hole"
    ),
    "format without a hole": bad(("generate", "Code", *GENERATE[2:]), "has no hole", "{digit:9}"),
    "repetitions": bad((*GENERATE, "--repetitions", "1,x"), "--repetitions", "'1,x'"),
    "repetitions with an underscore": bad((*GENERATE, "--repetitions", "1_0"), "'1_0'"),
    "repetitions with a sign": bad((*GENERATE, "--repetitions", "+1"), "'+1'"),
    "repetitions in another script": bad((*GENERATE, "--repetitions", "\u0661"), "'\u0661'"),
    "too many repetitions": bad((*GENERATE, "--repetitions", "9" * 5000), "as in 1,4,16"),
    "negative repetitions": bad((*GENERATE, "--repetitions", "-3"), "at least 1"),
    "doubled repetitions": bad((*GENERATE, "--repetitions", "4,4"), "stands twice"),
    "negative number per repetition": bad(
        (*GENERATE, "--per-repetition", "-1"), "--per-repetition", "greater than or equal to 1"
    ),
    "negative controls": bad(
        (*GENERATE, "--controls", "-1"), "--controls", "greater than or equal to 0"
    ),
    "negative seed": bad((*GENERATE, "--seed", "-1"), "--seed", "equal to 0"),
    "too large a seed": bad((*GENERATE, "--seed", f"{2**128}"), "less than 2^128"),
    "negative seed, inject": bad((*INJECT, "--seed", "-1"), "--seed", "equal to 0"),
    "negative seed, audit": bad((*AUDIT, "--seed", "-1"), "--seed", "equal to 0"),
    "negative draws": bad((*AUDIT, "--draws", "-1"), "--draws", "equal to 1"),
    "negative budget": bad((*AUDIT, "--budget", "-1"), "--budget", "equal to 1"),
    "negative batch size": bad((*AUDIT, "--batch-size", "-1"), "--batch-size", "to 1"),
    "number that is none": bad((*AUDIT, "--draws", "many"), "--draws", "integer"),
    "no canaries": bad(
        INJECT, "canaries.json", "check the path", before=Path("canaries.json").unlink
    ),
    "truncated canaries": bad(
        AUDIT,
        "canaries.json",
        "may be truncated",
        before=manifest(lambda text: text[: len(text) // 2]),
    ),
    "newer canaries": bad(AUDIT, "canaries.json", "schema 99", before=manifest(newer)),
    "canaries with a foreign fill": bad(
        INJECT,
        "canaries[0].fill",
        "fill of canary-1 is not in the space",
        before=manifest(secret_in_wrong_place),
    ),
    "canaries that are something else": bad((*INJECT[:3], "corpus.jsonl", *INJECT[4:])),
    "no model": bad(("audit", "./none", *AUDIT[2:]), "none", "there is no such folder"),
    "no model of that name": bad(("audit", "none", *AUDIT[2:]), "none", "is no folder here"),
    "folder without a model": bad(AUDIT, "model", "no config.json", before=without("config.json")),
    "broken config": bad(
        AUDIT,
        "model/config.json",
        "not valid JSON",
        before=lambda: Path("model/config.json").write_text("{"),
    ),
    "model without a tokenizer": bad(AUDIT, "model", "no tokenizer", before=without("tokenizer*")),
    "model with half a tokenizer": bad(
        AUDIT, "model", "--tokenizer", before=without("tokenizer.json")
    ),
    "wrong tokenizer folder": bad((*AUDIT, "--tokenizer", "none"), "none", "check the path"),
    "pickled weights": bad(AUDIT, "model", "safetensors", before=pickled),
    "truncated weights": bad(AUDIT, "model", "cannot be loaded", before=truncated_weights),
    "missing weights": bad(
        AUDIT,
        "model",
        "lacks 1 of the model's weights",
        before=weights(lambda tensors: tensors.pop("transformer.ln_f.weight")),
    ),
    "NaN": bad(AUDIT, "'model'", "not finite numbers", before=weights(to_nan)),
    "NaN, exposure": bad(EXPOSURE, "not finite numbers", before=weights(to_nan)),
    "canary longer than the context": bad(
        AUDIT, "21 tokens", "longer than the 16", before=short_context
    ),
    "context that makes it longer": bad(
        (*AUDIT, "--context", "x" * 60), "81 tokens", "longer than the 64"
    ),
    "characters unknown to the tokenizer": bad(
        AUDIT,
        "tokenizer does not know 1 of the characters",
        "use a format",
        before=canaries("Der Schlüssel ist {digit:9}"),
    ),
    "format that begins with a hole": bad(
        (*AUDIT, "--start-token", "none"),
        "begins with a hole",
        "--start-token",
        before=canaries("{digit:9} is the code"),
    ),
    "format that is not prefix-free": bad(
        AUDIT,
        "not prefix-free",
        "after the last hole",
        before=found("Code {digit:1}{choice:a|ab}", "1a"),
    ),
    "canaries of a format that is not prefix-free": bad(
        ("generate", "Code {digit:1}{choice:a|ab}", "--out", "new.json"),
        "not prefix-free",
        "after the last hole",
    ),
    "unknown start token": bad(
        (*AUDIT, "--start-token", "<|none|>"), "no token '<|none|>'", "name one token"
    ),
    "unknown dtype": bad((*AUDIT, "--dtype", "float8"), "--dtype", "'float8'"),
    "unknown device": bad(
        (*AUDIT, "--device", "abacus"), "'abacus' cannot be used here", "use cpu"
    ),
    "device without numbers": bad((*AUDIT, "--device", "meta"), "'meta' holds shapes", "use cpu"),
    "device without numbers, score": bad((*SCORE, "--device", "meta"), "'meta'", "use cpu"),
    "model of one position": bad(
        AUDIT, "'model' takes 1 token at once", "n_positions", before=one_position
    ),
    "model of one position, exposure": bad(EXPOSURE, "takes 1 token at once", before=one_position),
    "model of one position, score": bad(SCORE, "takes 1 token at once", before=one_position),
    "unknown method": bad((*EXPOSURE, "--method", "guessing"), "--method", "'guessing'"),
    "enumeration beyond the budget": bad(
        (*AUDIT, "--method", "enumeration", "--budget", "100"),
        "111,111,110 queries",
        "budget is 100",
    ),
    "factory that is none": bad(
        (*AUDIT, "--factory", "mine"), "'mine' does not name a factory", "module:function"
    ),
    "factory that cannot be imported": bad(
        (*AUDIT, "--factory", "mine.py:build"),
        "'mine.py:build' cannot be imported",
        "path/to/file.py:function",
    ),
    "factory that fails": bad(
        (*AUDIT, "--factory", "mine.py:build"),
        "mine.py:build",
        "check that the factory builds the module that was saved",
        before=wrong_factory,
    ),
    "canaries that stand already": bad(
        ("generate", "The code is {digit:9}", "--out", "canaries.json"),
        "canaries.json",
        "exists already",
    ),
    "words as output": bad(
        (*GENERATE[:-1], "corpus.jsonl", "--words", "corpus.jsonl"),
        "corpus.jsonl",
        "never modified",
    ),
    "canaries as output": bad(
        (*INJECT[:-1], "./old/../canaries.json"), "canaries.json", "never modified"
    ),
    "hard link to the canaries as output": bad(
        (*INJECT[:-1], "link"),
        "link",
        "never modified",
        before=lambda: Path("link").hardlink_to("canaries.json"),
    ),
    "symbolic link to the canaries as output": bad(
        (*INJECT[:-1], "link"),
        "link",
        "never modified",
        before=lambda: Path("link").symlink_to("canaries.json"),
    ),
    "placements as corpus": bad(
        ("inject", "o.placements.json", *INJECT[2:-1], "o"),
        "o.placements.json",
        "never modified",
        before=lambda: Path("o.placements.json").write_text('{"text": "a"}\n'),
    ),
    "placements in no place": bad(
        (*INJECT[:-1], "o"),
        "o.placements.json",
        "is a folder",
        before=lambda: Path("o.placements.json").mkdir(),
    ),
    "placements with too long a name": bad(
        (*INJECT[:-1], "o" * 235), "o.placements.json", "cannot be written (File name too long)"
    ),
    "audit as output": bad((*REPORT[:-1], "old/audit.json"), "old/audit.json", "never modified"),
    "canaries where the audit goes": bad(
        ("audit", "./model", "--canaries", "old/audit.json", "--out", "old"),
        "old/audit.json",
        "never modified",
        before=lambda: shutil.move("canaries.json", "old/audit.json"),
    ),
    "texts as output": bad((*SCORE[:-1], "corpus.jsonl"), "corpus.jsonl", "never modified"),
    "model as output": bad(
        (*SCORE[:-1], "model/config.json"), "model/config.json", "never modified"
    ),
    "factory as output": bad(
        (*SCORE[:-1], "mine.py", "--factory", "mine.py:build"),
        "mine.py",
        "never modified",
        before=wrong_factory,
    ),
    "column that is no text, inject": bad((*INJECT, "--column", "\udcff"), "--column", "no UTF-8"),
    "context that is no text": bad((*AUDIT, "--context", "\udcff"), "--context", "no UTF-8"),
    "start token that is no text": bad(
        (*AUDIT, "--start-token", "\udcff"), "--start-token", "no UTF-8"
    ),
    "format that is no text": bad(
        ("generate", "\udcff {digit:9}", *GENERATE[2:]), "FORMAT", "no UTF-8"
    ),
    "model that is no text": bad(("audit", "\udcff", *AUDIT[2:]), "MODEL", "no UTF-8"),
    "bad model and a new folder": bad(
        ("audit", "./none", *AUDIT[2:4], "--out", "new/folder"), "none", "there is no such folder"
    ),
    "format too long and a new folder": bad(
        (*AUDIT[:5], "--out", "new/folder"), "21 tokens", "longer than the 16", before=short_context
    ),
    "output below a file, generate": bad(
        (*GENERATE[:-1], "old/file/x"), "old/file/x", "cannot be written"
    ),
    "output in no folder, inject": bad((*INJECT[:-1], "none/x"), "none/x", "cannot be written"),
    "output below a file, audit": bad(
        (*AUDIT, "--out", "old/file/x"), "old/file/x", "cannot be written"
    ),
    "output that is a file, audit": bad((*AUDIT, "--out", "old/file"), "old/file", "another"),
    "output below a file, demo": bad(
        ("demo", "--out", "old/file/x"), "old/file/x", "cannot be written"
    ),
    "output that is a folder": bad((*GENERATE[:-1], "old"), "old", "is a folder"),
    "report of something else": bad(REPORT, "old/audit.json", "not valid JSON"),
    "report of nothing": bad(("report", "none", *REPORT[2:]), "none", "check the path"),
    "unknown command": bad(("audti",), "'audti'", "'audit'"),
    "unknown option": bad((*AUDIT, "--draw", "9"), "--draw", "canary audit --help"),
    "missing option": bad(AUDIT[:2], "--canaries", "canary audit --help"),
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

"""What cannot be used: exit code 2, place and cure, and nothing half-written."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest
from command_line import files, save_model, shows_secret, small_model

from canary.corpus.canaries import CanarySet, generate
from canary.errors import InputError
from canary.gate.planning import plan

GENERATE = "generate 'The code is {digit:9}' --force --out old/file"
INJECT = "inject corpus.jsonl --canaries canaries.json --force --out old/file"
STRIP = INJECT.replace("inject", "strip")
DISCOVER = "discover corpus.jsonl {digit:9} --force --out old/file"
VERIFY = "verify corpus.jsonl --canaries canaries.json"
AUDIT = "audit ./model --canaries canaries.json --force --out old --draws 9"
EXPOSURE = "exposure ./model --canaries canaries.json --draws 9"
METHODS = ("rank", "importance", "sampling")
PLAN = "plan 'The code is {digit:9}'"
EXTRACT = "extract ./model 'The code is {digit:3}'"
SCORE = "score ./model corpus.jsonl --force --out old/file"
REPORT = "report old/audit.json --force --out old/file"


def corpus(data):
    return lambda: Path("corpus.jsonl").write_bytes(data)


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


def wrong_factory():
    Path("mine.py").write_text("def build(config):\n    raise KeyError('width')\n")


def positions(count):
    def prepare():
        shutil.rmtree("model")
        save_model(small_model(positions=count), Path("model"))

    return prepare


def out(command, place):
    """The command with another place for its result."""
    return f"{command.rpartition(' --out ')[0]} --out {place}"


NO_JSON, NO_UTF8 = corpus(b'{"text": "a"}\n{'), corpus(b'{"text": "a"}\n{"text": "\xff"}\n')
LN_F = "transformer.ln_f.weight"
FEW = found("The code is {choice:XQZ}.", "XQZ")
LONG = "x" * 60

CORPORA = [
    (f"{INJECT} --column n", "corpus.jsonl:1: column 'n' is a number, not text"),
    *((f"{c} --column body", "no column 'body'") for c in (VERIFY, STRIP, DISCOVER, SCORE)),
    *((c, "corpus.jsonl:2: not valid JSON", NO_JSON) for c in (INJECT, SCORE)),
    *((c, "corpus.jsonl:2: is not UTF-8", NO_UTF8) for c in (STRIP, SCORE)),
    *((c, "holds no record", corpus(b"\n")) for c in (VERIFY, DISCOVER, SCORE)),
    (DISCOVER, "holds no secret"),
    *((f"{c} --start-texts corpus.jsonl", "corpus.jsonl: holds JSON") for c in (AUDIT, EXTRACT)),
    (INJECT, "corpus.jsonl: cannot be read", lambda: Path("corpus.jsonl").unlink()),
    (f"{INJECT} --separators a b", "--separators: records of their own have no separators"),
    (f"{out(INJECT, 'x.jsonl')} --file-format csv", "but the corpus is csv: correct --file-format"),
    (f"{INJECT} --no-check --mode splice", "splicing reads every record"),
    *((f"{INJECT} --beside {text}", "is not COLUMN=TEXT") for text in ("n", "=x")),
    (VERIFY.replace("corpus.jsonl", "old/file"), "show its format; say it with --file-format"),
    (VERIFY.replace("corpus.jsonl", "canaries.json"), "canaries.json: is a canary set document"),
]
NUMBERS = [
    (f"{GENERATE} --repetitions 1,x", "--repetitions: '1,x'"),
    (f"{GENERATE} --repetitions 1_0", "'1_0'"),
    (f"{GENERATE} --repetitions +1", "'+1'"),
    (f"{GENERATE} --repetitions \u0661", "'\u0661'"),
    (f"{GENERATE} --repetitions {'9' * 5000}", "as in 1,4,16"),
    (f"{GENERATE} --repetitions -3", "at least 1"),
    (f"{GENERATE} --repetitions 4,4", "is listed twice"),
    (f"{GENERATE} --per-repetition -1", "--per-repetition: greater than or equal to 1"),
    (f"{GENERATE} --controls -1", "--controls: greater than or equal to 0"),
    (f"{GENERATE} --seed -1", "--seed: equal to 0"),
    (f"{GENERATE} --seed {2**128}", "less than 2^128"),
    (f"{AUDIT} --draws -1", "--draws: equal to 1"),
    (f"{AUDIT} --budget -1", "--budget: equal to 1"),
    (f"{AUDIT} --batch-size -1", "--batch-size: to 1"),
    (f"{AUDIT} --draws many", "--draws: whole number"),
    (f"{GENERATE} --repetitions 0", "each of --repetitions must be a whole number of at least 1"),
    (f"{PLAN} --repetitions 0", "each of --repetitions must be a whole number"),
    (f"{PLAN} --power nan", "--power"),
    (f"{PLAN} --confidence 2", "--confidence"),
    (f"{PLAN} --max-exposure-bits 99", "error: --max-exposure-bits: "),
    (f"{PLAN} --exposure-bits 99", "error: --exposure-bits: "),
    (f"{PLAN} --exposure-bits nan", "error: --exposure-bits must be a number, got nan"),
    (f"{EXTRACT} --top 0", "--top"),
    *((f"{EXTRACT} --seconds {n}", "seconds must be a number above 0") for n in (0, "nan")),
    (f"{EXTRACT} --stop soon", "--stop"),
    (f"{EXTRACT} --known 3", "--known: 3 characters are known, and the secret has 3"),
    (f"{EXTRACT} --budget 0", "--budget: equal to 1"),
    (f"{SCORE} --top-k 5", "--top-k given, which is for a server"),
    (f"{SCORE} --workers 2", "error: --workers given, and no cluster"),
    (f"{EXPOSURE} --served-model x", "the model is no address"),
]
SETS = [
    ("generate 'Code {digit:1}' --out new", "has 10 fills: 48 canaries and controls"),
    ("generate 'Code {dogit:9}' --out new", "column 6: 'dogit' is not a kind of hole"),
    ("generate Code --out new", "has no hole: {digit:9}"),
    ("generate Code{digit:1}{choice:a|ab} --out new", "not prefix-free: after the last hole"),
    ("generate code:{digit:9} --out canaries.json", "canaries.json: exists already"),
    (INJECT, "canaries.json: check the path", lambda: Path("canaries.json").unlink()),
    (AUDIT, "canaries.json: truncated", manifest(lambda text: text[: len(text) // 2])),
    (AUDIT, "canaries.json: schema 99", manifest(newer)),
    (INJECT, "canaries[0].fill: not in the space", manifest(secret_in_wrong_place)),
    (INJECT.replace("canaries.json", "corpus.jsonl"), "corpus.jsonl"),
    (f"{EXTRACT} --canaries canaries.json", "no canary of the format 'The code is {digit:3}"),
    (f"{EXTRACT} --canaries none.json", "none.json"),
    ("membership attack --shadow old --out x --target old", "old: is a folder; save the outputs"),
]
MODELS = [
    (out(AUDIT.replace("./model", "./none"), "new/folder"), "none: there is no such folder"),
    (out(AUDIT, "new/folder"), "21 tokens: longer than the 16", positions(16)),
    (AUDIT.replace("./model", "./none"), "none: there is no such folder"),
    (AUDIT.replace("./model", "none"), "none: is no folder here"),
    (AUDIT, "model: no config.json", without("config.json")),
    (AUDIT, "model/config.json: not valid", lambda: Path("model/config.json").write_text("{")),
    (AUDIT, "model: no tokenizer", without("tokenizer*")),
    (AUDIT, "model: --tokenizer", without("tokenizer.json")),
    (f"{AUDIT} --tokenizer none", "none: check the path"),
    (AUDIT, "model: safetensors", pickled),
    (AUDIT, "model: cannot be loaded", truncated_weights),
    (AUDIT, "model: lacks 1 of", weights(lambda tensors: tensors.pop(LN_F))),
    (AUDIT, "'model': not finite numbers", weights(to_nan)),
    *((f"{EXPOSURE} --method {m}", "not finite numbers", weights(to_nan)) for m in METHODS),
    *((f"{EXPOSURE} --method {m} --context {LONG}", "longer than the 64") for m in METHODS),
    (f"{EXTRACT} --context {LONG}", "longer than the 64: shorter format or context"),
    (f"{EXTRACT} --context é", "does not know 1 of the characters"),
    (f"{SCORE} --overlap 4000", "error: --overlap: "),
    (f"{SCORE} --start-token '<x>'", "error: --start-token: the "),
    (f"{SCORE} --start-token auto", "error: --start-token: the start token is to be chosen"),
    (f"{SCORE} --context é", "error: --context: the tokenizer does not know"),
    (f"{EXPOSURE} --method skew-normal", "too few to fit a curve: draw more", FEW),
    (EXTRACT, "not finite numbers", weights(to_nan)),
    ("extract ./model '{digit:3} it' --start-token none", "begins with a hole: --start-token"),
    ("extract ./model 'Is {choice:A|AB}'", "not prefix-free: fixed text that no fill can contain"),
    (AUDIT, "21 tokens: longer than the 16", positions(16)),
    (f"{AUDIT} --context {LONG}", "81 tokens: longer than the 64"),
    (AUDIT, "it lacks 'ü' in the fixed text", canaries("Der Schlüssel ist {digit:9}")),
    (f"{AUDIT} --start-token none", "begins with a hole: --start-token", canaries("{digit:9} it")),
    (AUDIT, "not prefix-free: last hole", found("Code {digit:1}{choice:a|ab}", "1a")),
    (f"{AUDIT} --start-token '<|none|>'", "no token '<|none|>'"),
    (f"{AUDIT} --dtype float8", "--dtype: 'float8'"),
    (f"{AUDIT} --device abacus", "'abacus' cannot be used here: use cpu"),
    (f"{AUDIT} --device meta", "'meta' holds shapes: use cpu"),
    (f"{SCORE} --device meta", "'meta': use cpu"),
    *((c, "takes 1 token at once: n_positions", positions(1)) for c in (AUDIT, EXPOSURE, SCORE)),
    (f"{EXPOSURE} --method enumerate", "--method: 'enumerate'; did you mean enumeration?"),
    (f"{AUDIT} --method enumeration --budget 100", "budget is 100: --method sampling or rank"),
    (f"{AUDIT} --factory mine", "'mine' does not name a factory: module:function"),
    (f"{AUDIT} --factory mine.py:build", "'mine.py:build' cannot be imported"),
    (f"{AUDIT} --factory mine.py:build", "mine.py:build: check that the factory", wrong_factory),
]
OUTPUTS = [
    (out(INJECT, "corpus.jsonl"), "corpus.jsonl: never modified"),
    (f"{out(GENERATE, 'corpus.jsonl')} --words corpus.jsonl", "corpus.jsonl: never modified"),
    (out(INJECT, "./old/../canaries.json"), "canaries.json: never modified"),
    (out(INJECT, "link"), "never modified", lambda: Path("link").hardlink_to("canaries.json")),
    (out(INJECT, "link"), "never modified", lambda: Path("link").symlink_to("canaries.json")),
    (
        out(INJECT, "o").replace("corpus.jsonl", "o.placements.json"),
        "o.placements.json: never modified",
        lambda: Path("o.placements.json").write_text('{"text": "a"}\n'),
    ),
    (out(INJECT, "o"), "o.placements.json: is a folder", lambda: Path("o.placements.json").mkdir()),
    (out(INJECT, "o" * 235), "o.placements.json: cannot be written (File name too long)"),
    (out(REPORT, "old/audit.json"), "old/audit.json: never modified"),
    (
        "audit ./model --canaries old/audit.json --out old",
        "old/audit.json: never modified",
        lambda: shutil.move("canaries.json", "old/audit.json"),
    ),
    (out(SCORE, "corpus.jsonl"), "corpus.jsonl: never modified"),
    (out(SCORE, "model/config.json"), "model/config.json: never modified"),
    (f"{out(SCORE, 'mine.py')} --factory mine.py:build", "mine.py: never modified", wrong_factory),
    *((out(c, "old/file/x"), "old/file/x: cannot be written") for c in (GENERATE, AUDIT)),
    (out(INJECT, "none/x"), "none/x: cannot be written"),
    (out(AUDIT, "old/file"), "old/file: another"),
    ("demo --out old/file/x", "old/file/x: cannot be written"),
    (out(GENERATE, "old"), "old: is a folder"),
    (REPORT, "old/audit.json: not valid JSON"),
    (REPORT.replace("old/audit.json", "none"), "none: check the path"),
]
WORDS = [
    (f"{INJECT} --column \udcff", "--column: no UTF-8"),
    (f"{AUDIT} --context \udcff", "--context: no UTF-8"),
    (f"{AUDIT} --start-token \udcff", "--start-token: no UTF-8"),
    ("generate '\udcff {digit:9}' --out new", "FORMAT: no UTF-8"),
    (AUDIT.replace("./model", "\udcff"), "MODEL: no UTF-8"),
    ("audti", "'audti': 'audit'"),
    (f"{AUDIT} --draw 9", "--draw; did you mean --draws?: canary audit --help"),
    ("check a --max-exposure 9", "--max-exposure; did you mean --max-exposure-bits or"),
    ("plot a --out b --kind histo", "'--kind': 'histo' is not one of 'exposure', 'histogram'"),
    ("audit ./model", "--canaries: canary audit --help"),
]


TABLE = {
    f"{number} {row[0].split()[0]}: {row[1]}"[:60]: row
    for number, row in enumerate(CORPORA + NUMBERS + SETS + MODELS + OUTPUTS + WORDS)
}


@pytest.mark.parametrize("row", TABLE)
def test_message_exit_code_and_files_input(command, workplace, model, row):
    """`told` is the place and key words of the message, with colons between them."""
    words, told, *prepare = TABLE[row]
    if "./model" in words:
        shutil.copytree(model, "model")
    for change in prepare:
        change()
    before, folders = files(workplace), folders_in(workplace)
    outcome = command(*shlex.split(words))
    assert outcome.code == 2, outcome.err
    assert outcome.out == ""
    message = next(line for line in outcome.err.splitlines() if line.startswith("error: "))
    hint = outcome.err.splitlines()[-1]
    for fragment in told.split(": "):
        assert fragment in f"{message} {hint}"
    assert "Traceback" not in outcome.err
    if TABLE[row] not in MODELS and not words.startswith("score"):
        assert "Loading" not in outcome.err
    assert files(workplace) == before
    assert folders_in(workplace) == folders
    if Path("canaries.json").exists() and not told.startswith("canaries"):
        assert not shows_secret(outcome.err)


def test_folder_is_checked_before_the_model_is_read(command, workplace, monkeypatch):
    def load(*_, **__):
        pytest.fail("the model was read first")

    monkeypatch.setattr("canary.models.loading.load", load)
    assert command(*shlex.split(AUDIT), "--out", "old/file/x").code == 2


def test_python_names_the_argument():
    with pytest.raises(InputError, match="^each of repetitions must be"):
        generate("code {digit:9}", repetitions=[0])
    with pytest.raises(InputError, match="^exposure_bits must be a number"):
        plan("code {digit:9}", exposure_bits=float("nan"))


@pytest.mark.parametrize(
    ("words", "said", "example"),
    [
        ("discover c.jsonl --out f.json", "Missing argument 'FORMAT...'", "canary discover mail"),
        (
            "membership text ./m --members a --nonmembers b --out o",
            "MEMBERS is given by its place, without a name",
            "canary membership text ./model members.jsonl nonmembers.jsonl",
        ),
        ("membership text ./m a b --outs o", "did you mean --out?", "canary membership text ./m"),
    ],
    ids=["no argument", "named", "near"],
)
def test_a_wrong_command_line_gets_an_example(command, words, said, example):
    done = command(*shlex.split(words))
    assert done.code == 2
    assert said in done.err
    assert f"Example: {example}" in done.err

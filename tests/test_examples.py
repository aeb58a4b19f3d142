"""Every example of README and docs is run, page by page, from top to bottom."""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import numpy as np
import pytest
from drawing import figures
from fake_server import FakeServer
from pages import PAGES, Block, blocks, name
from readers_things import lay, module, tokenizer

import canary
from canary import demo
from canary.cli.main import run
from canary.corpus.file_formats import FILE_FORMATS
from canary.formats import kinds
from canary.membership.attacks import ATTACKS
from canary.signals.text import TEXT_SIGNALS

HAS = {
    "README.md": [
        *("corpus.jsonl", "model", "train.jsonl", "heldout.jsonl"),
        *("target.npz", "shadow.npz"),
    ],
    "docs/guides/audits.md": ["model"],
    "docs/guides/chat-models.md": ["chats.jsonl", "model of chats"],
    "docs/guides/client.md": [
        *("model", "canaries.json", "corpus.canaried.jsonl"),
        *("target.npz", "shadow.npz"),
    ],
    "docs/guides/corpora.md": [
        "corpus.jsonl",
        "corpus.canaried.jsonl",
        "mail.csv.gz",
        "mail.jsonl",
        "pairs.jsonl",
        "canaries.json",
        "model",
        "shards",
    ],
    "docs/guides/formats.md": ["prose.txt", "model"],
    "docs/guides/forgetting.md": ["query.jsonl", "unlearned", "other", "trained-on-it"],
    "docs/guides/gate.md": [
        "audit",
        "train.jsonl",
        "heldout.jsonl",
        "canaries.json",
        "corpus.jsonl",
        "corpus.canaried.jsonl",
        "verified.json",
        "model",
        "old",
        "new",
        "target.npz",
        "shadow.npz",
        "query.npz",
        *(f"other{number}.npz" for number in range(1, 20)),
    ],
    "docs/guides/deciding.md": ["model", "canaries.json", "audit", "verified.json"],
    "docs/guides/monitor.md": ["corpus.jsonl", "canaries.json", "model of padded texts"],
    "docs/guides/long-runs.md": ["texts.jsonl", "canaries.json of a small space", "model"],
    "docs/guides/models.md": ["checkpoint", "adapter", "t5"],
    "docs/guides/own-models.md": ["mymodel.py", "members.jsonl", "nonmembers.jsonl"],
    "docs/guides/paper.md": ["a", "b"],
    "docs/guides/pytest.md": ["model", "canaries.json", "corpus.canaried.jsonl", "entry points"],
    "docs/tutorials/classifier.md": [],  # these three make what they need
    "docs/tutorials/endpoint.md": [
        "model",
        "corpus.canaried.jsonl",
        "canaries.json",
        "verified.json",
    ],
    "docs/tutorials/language-model.md": [],
    "docs/tutorials/own-model.md": [],
    "docs/guides/records.md": ["audit", "canaries.json", "model"],
    "docs/reference/cli.md": [
        "token-canaries.json",
        "corpus.jsonl",
        "texts.jsonl",
        "mail.jsonl",
        "model",
        "a",
        "b",
        "output",
        *("base", "output/checkpoint-100", "output/checkpoint-200"),
        "target.npz",
        "shadow.npz",
        *(f"model{number}.npz" for number in range(6)),
        "fleet",
        "query.npz",
        "other1.npz",
        "other2.npz",
        "unseen.npz",
        "query.jsonl of scores",
        "unlearned.jsonl of scores",
        "other.jsonl of scores",
        "retrained.jsonl of scores",
        "members.jsonl",
        "nonmembers.jsonl",
        "model-b",
        "bert",
        *("membership.json", "a/membership.json", "b/membership.json"),
        "forgetting.json",
        "train.jsonl",
        "heldout.jsonl",
        "verbatim.json",
        "order.json",
        "extraction.json",
        *("train-00.jsonl", "train-01.jsonl", "sample.jsonl"),
    ],
    "docs/guides/verbatim.md": [
        *("model", "train.jsonl", "heldout.jsonl"),
        *("train-00.jsonl", "train-01.jsonl", "sample.jsonl"),
    ],
    "docs/guides/membership.md": ["target.npz", "shadow.npz"],
    "docs/guides/many-models.md": [f"model{number}.npz" for number in range(6)],
    "docs/guides/membership-text.md": [
        "members.jsonl",
        "nonmembers.jsonl",
        "model",
        "model-b",
        "bert",
    ],
    "docs/guides/reports.md": [
        "canaries.json of a small space",
        "verified.json of a small space",
        "model-a",
        "model-b",
        "test.jsonl",
    ],
    "docs/guides/scoring.md": ["model"],
}
"""What lies in the working folder of a page's reader, who would bring it along.

Of a page that is not here: a model and canaries, if it speaks of ``./model``.
"""

NOT_RUN = {
    "make demo": "sets up an environment; `canary demo` is run",
    "make pretrained": "fetches 93 MB; the recipe has its own tests",
    "make test": "it is what runs this, and CI runs the other targets beside it",
    "make numerical": "runs other tests; CI runs it",
    "pip install": "changes the environment in which the tests run",
    ".venv/bin/python tests/support/references.py": "writes into the repository; a test compares",
    ".venv/bin/python tests/servers/llama_cpp.py": "compiles a server, for minutes",
    "import canary\nfrom canary.models.served.endpoint": "asks a server; its own tests start one",
    "canary sample http://127.0.0.1:8000/v1 --canaries canaries.json --samples 1000": "asks a "
    "server; its own tests start one",
    "canary membership text http://127.0.0.1:8000/v1": "as above",
    "from canary.models.served.rehearsal import count_requests": "as above",
    "MY_KEY=": "asks a server; its own tests start one",
    ".venv/bin/python -m pip install ray": "changes the environment in which the tests run",
    "from canary.workers.cluster import RayWorkers": "joins a cluster; tests/workers start one",
    "python recipes/gallery": "lies in the repository; tests/recipes run all ten",
    "from canary.corpus.record_steps import injection_step": "needs datatrove; its tests run it",
    "canary inject corpus.bin": "needs a corpus of Megatron; its own tests make one",
    "canary inject train.parquet": "needs a corpus of token ids; its own tests make one",
    "from canary.membership.token_lira import attack_tokens": "needs a fleet; as in its tests",
    "canary membership order ./model testset.jsonl --sep": "needs texts in a drawn order; as above",
    "canary membership text ./model testset.jsonl": "as above",
    "canary membership models target.npz": "the folder of a fleet; the command's tests make one",
    "canary check audit/audit.json --max-exposure-bits 4 --verification verified.json --require": (
        "needs canaries with 200 copies; tests/gate has them"
    ),
    "CANARY_DATA": "needs data that is not shipped, and hours",
}
"""How blocks begin that are not run, and why; each is marked in its page."""

SHOWN = {"py", "pycon", "bibtex", "toml", "yaml"}
"""Signatures and docstrings' examples of the reference, which run as doctests; what to copy."""

LINES_NOT_RUN = {
    "--ray head:": "asks a cluster of several machines; tests/workers start one",
    "plan --canaries": "the set is drawn further below; the command's tests plan with one",
    "membership models target.npz fleet/": "needs a fleet's folder; the command's tests make one",
    "--watch": "waits for a training; the command's tests run one",
}
"""What stands in examples of the help that are not run, and why."""

DRAWN = ["docs/guides/reports.md"]
"""Pages whose reports have their figures; elsewhere nobody looks at them."""

HELP = "docs/reference/cli.md"
UNDECIDED = 3
VERDICTS = {
    "docs/guides/extraction.md": ("canary check ", (0, 1, UNDECIDED)),
    "docs/guides/gate.md": (
        (
            "canary check coins/",
            "canary forgotten ",
            "canary check forgetting/",
            "canary check ver",
        ),
        (0, 1, UNDECIDED),  # of coins, and of made-up numbers
    ),
    "docs/guides/reports.md": (
        ("canary audit ./model-a --canaries canaries.json --max", "canary check "),
        (0, 1, UNDECIDED),
    ),
    "README.md": ("canary check ", (0, 1, UNDECIDED)),
    "docs/guides/many-models.md": ("canary check ", (0, 1, UNDECIDED)),
    "docs/guides/client.md": ("canary check ", (0, 1, UNDECIDED)),
    "docs/guides/chat-models.md": ("canary check ", (0, 1, UNDECIDED)),
    "docs/tutorials/endpoint.md": ("canary check ", (0, 1, UNDECIDED)),
    "docs/tutorials/own-model.md": ("canary check ", (0, 1, UNDECIDED)),
    "docs/tutorials/language-model.md": ("canary check ", (0, 1, UNDECIDED)),  # in small
    "docs/guides/deciding.md": ("canary check ", (0, 1, UNDECIDED)),
    "docs/guides/verbatim.md": ("canary check ", (UNDECIDED,)),  # of five texts
    "docs/guides/forgetting.md": (
        ("canary forgotten ", "canary check "),
        (0, 1, UNDECIDED),  # of untrained models, and of one that knows the set
    ),
    "docs/reference/cli.md": (
        (
            "canary forgotten ",
            "canary check forgetting.json",
            "canary check audit/audit.json --max-exposure-bits 4 ",
            "canary check audit/audit.json --baseline baseline.json --verification ",
            "canary audit ./model --canaries canaries.json --max-exposure-bits 4 ",
            "canary check verbatim.json",
            "canary check order.json",
            "canary check extraction.json",
            "canary membership order ",
        ),
        (0, 1, UNDECIDED),  # of made-up numbers
    ),
}
"""Lines of a page whose exit code is an answer, and which it may be here."""

SERVED = dict.fromkeys(
    ("docs/tutorials/endpoint.md", "docs/reference/cli.md"),
    "http://127.0.0.1:8000",
)
"""Pages whose reader has started a server for ``./model``, and its address there."""

IN_SMALL = {
    "docs/tutorials/own-model.md": {"EPOCHS = 8\n": "EPOCHS = 1\n"},
    "docs/tutorials/language-model.md": {
        "EPOCHS = 10\n": "EPOCHS = 1\n",
        "lr=2e-3": "lr=0.0",
        '"n_embd": 128, "n_layer": 2': '"n_embd": 16, "n_layer": 1',
    },
    "docs/guides/notebook.md": {"EPOCHS = 8\n": "EPOCHS = 1\n", "[:200]": "[:20]", "128": "16"},
    "docs/guides/pytest.md": {
        "draws=2_000": "draws=100, budget=1_000",
        "max_exposure_bits=4": "max_exposure_bits=10",
    },
}
"""What a page says of the size of something, and what is run in its place.

A model that learns nothing is soon audited: none of its canaries can be ranked.
"""

IN_FULL = [page for page in PAGES if name(page) in IN_SMALL and page.parent.name == "tutorials"]
"""Pages that show what is printed below models that they train, and so are run in full, too."""

AT_MOST = {
    "audit": {"draws": 100, "budget": 1_000, "extraction_budget": 100},
    "exposure": {"draws": 100, "budget": 1_000},
    "extract": {"budget": 500},
    "sample": {"samples": 50},
}
"""How much work a command or function of an example gets, whatever it asks for."""

RUN = [page for page in PAGES if blocks(page)]


def reason(block: Block) -> str | None:
    return next((why for start, why in NOT_RUN.items() if block.text.startswith(start)), None)


@pytest.fixture
def reader(tmp_path, monkeypatch, request):
    """The working folder of a page's reader, and what the reader holds in Python."""
    page = request.param
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    # What a page registers is gone after it.
    for registry in (kinds.KINDS, FILE_FORMATS, ATTACKS, TEXT_SIGNALS):
        monkeypatch.setattr(registry, "_things", dict(registry.items()))
    if "slow" not in request.keywords:
        made_small(monkeypatch)
    text, names = page.read_text(encoding="utf-8"), {"__name__": "example"}
    usual = ["model", "canaries.json"] if "./model" in text else []
    lay(tmp_path, *HAS.get(name(page), usual))
    if "load_dataset" in text:
        monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    if name(page) == "docs/guides/models.md":
        names |= {"module": module(), "tokenizer": tokenizer()}
    with figures(drawn=name(page) in DRAWN), served(name(page)) as address:
        yield page, names, address


def made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo and the work of functions in small; the demo's own tests look at it in full."""
    tiny = demo.Settings("The code is {digit:4}", (1, 8), 2, 4, 60, 16, 1)
    monkeypatch.setattr(demo, "run", functools.partial(demo.run, settings=tiny))
    monkeypatch.setattr("canary.audits.forecast.LOOK", 0.1)
    # Their models learned nothing, of which no check decides; here all canaries look learned.
    monkeypatch.setattr("canary.gate.preconditions.SHOWN_LEARNED", 1.0)
    for called, most in AT_MOST.items():
        function = inspect.unwrap(getattr(canary, called))
        usual = function.__kwdefaults__
        small = {option: value for option, value in most.items() if option in usual}
        monkeypatch.setattr(function, "__kwdefaults__", {**usual, **small})


@pytest.mark.filterwarnings(
    "ignore:fan_in_fan_out is set to False:UserWarning"
)  # peft, of a small GPT-2
@pytest.mark.filterwarnings("ignore:`(is_)?gradient_checkpointing`:FutureWarning")  # peft, trl
@pytest.mark.parametrize("reader", RUN, ids=name, indirect=True)
def test_examples_run(reader, capfd):
    run_page(*reader, capfd)


@pytest.mark.slow
@pytest.mark.parametrize("reader", IN_FULL, ids=name, indirect=True)
def test_tutorials_print_what_they_show(reader, capfd, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "AT_MOST", {})
    run_page(*reader, capfd, sizes={})


def run_page(page, names, address, capfd, sizes=IN_SMALL):
    text = page.read_text(encoding="utf-8")
    smaller, said, as_shown = sizes.get(name(page), {}), "", page.parent.name == "tutorials"
    for block in blocks(page):
        if reason(block):
            continue
        if block.language == "text":
            assert not as_shown or shown(block.text, said), f"{block.text}\n{said}"
            continue
        capfd.readouterr()
        if block.language == "sh":
            lines = block.text.replace(SERVED.get(name(page), address), address)
            for line in lines.replace("\\\n", " ").splitlines():
                if name(page) != HELP:
                    run_line(line, page)
                elif not any(part in line for part in LINES_NOT_RUN):
                    with the_model_of(line):
                        run_line(line, page)
        elif block.language == "python":
            code = block.text.replace(SERVED.get(name(page), address), address)
            for whole, small in smaller.items():
                code = code.replace(whole, small)
                as_shown &= whole not in block.text  # from here on, a smaller model speaks
            if f"\npython {save(code)}\n" not in text:  # else that line runs it
                exec(compile(code, str(page), "exec"), names)
        elif block.language == "json":
            json.loads(block.text)
        out, err = capfd.readouterr()
        said = out + err
        for expected in re.findall(r"^ *print\(.*\)  # (.+)$", block.text, re.MULTILINE):
            assert expected in out.splitlines()


def shown(expected: str, said: str) -> bool:
    """Whether each line of a page's output was printed; `…` stands for anything."""
    lines = (" ".join(line.split()) for line in expected.splitlines())
    patterns = (".*?".join(map(re.escape, line.split("…"))) for line in lines)
    return all(re.search(pattern, " ".join(said.split())) for pattern in patterns)


@contextmanager
def served(page: str) -> Iterator[str]:
    """The address of a server for ``./model``, where a page's reader has one."""
    if page not in SERVED:
        yield "none"
        return
    with FakeServer(canary.load("model"), name="my-model") as server:
        yield server.url


@contextmanager
def the_model_of(line: str) -> Iterator[None]:
    """For the help's example with a factory, a model of the reader's own as ``model``."""
    if "--factory" not in line:
        yield
        return
    Path("model").rename("other")
    lay(Path(), "mymodel.py")
    yield
    shutil.rmtree("model")
    Path("other").rename("model")


def run_line(line: str, page: Path) -> None:
    """One line of a shell: canary, pytest and files of Python in this process, the rest in bash."""
    start, codes = VERDICTS.get(name(page), ("", (0,)))
    if line.startswith("canary "):
        line, _, file = line.partition(" > ")
        with (
            Path(file or os.devnull).open("w") as kept,
            redirect_stdout(kept if file else sys.stdout),
        ):
            code = run(words_of(line))
    elif line.startswith("python -m pytest "):
        code = pytest.main([*line.split()[3:], "-p", "no:cacheprovider"])
    elif script := re.fullmatch(r"python (\w+\.py)\s*", line):
        runpy.run_path(script[1], run_name="__main__")
        code = 0
    elif line.strip():
        code = subprocess.run(["bash", "-euo", "pipefail", "-c", line]).returncode
    else:
        return
    if re.match("canary membership (attack|models|text) ", line):
        start, codes = "canary", (0, UNDECIDED)  # as the outputs here are
    assert code in (codes if line.startswith(start) else (0,)), line


def words_of(line: str) -> list[str]:
    """The words that bash makes of what stands behind `canary`."""
    script = f"canary() {{ printf '%s\\0' \"$@\"; }}; {line}"
    done = subprocess.run(["bash", "-euc", script], capture_output=True, check=True)
    words = done.stdout.decode().split("\0")[:-1]
    for option, most in AT_MOST.get(words[0], {}).items():
        flag = f"--{option.replace('_', '-')}"
        at = words.index(flag) + 1 if flag in words else len(words) + 1
        words[at - 1 : at + 1] = [flag, str(min([most, *map(int, words[at : at + 1])]))]
    return words


def save(code: str) -> str | None:
    """Write a block that begins with the comment ``# file.py`` to the file it names; that name."""
    if not (named := re.match(r"# (\w+\.py)\n", code)):
        return None
    Path(named[1]).write_text(code)
    return named[1]


def all_blocks() -> Iterator[tuple[Path, Block]]:
    return ((page, block) for page in RUN for block in blocks(page))


def test_what_is_not_run_is_marked_and_nothing_else():
    for page, block in all_blocks():
        assert block.marked == (reason(block) is not None), (name(page), block.text)
    begun = {start for start in NOT_RUN for _, b in all_blocks() if b.text.startswith(start)}
    assert begun == set(NOT_RUN)
    shown = [block.text for page, block in all_blocks() if name(page) == HELP]
    assert all(any(part in text for text in shown) for part in LINES_NOT_RUN)


def test_what_is_run_in_small_and_what_may_end_otherwise_is_there():
    pages = {name(page): page.read_text(encoding="utf-8") for page in RUN}
    assert all(whole in pages[page] for page, sizes in IN_SMALL.items() for whole in sizes)
    for page, (starts, _) in VERDICTS.items():
        assert all(start in pages[page] for start in np.atleast_1d(starts))


def test_models_of_readers_are_the_same_whatever_was_drawn_before(tmp_path):
    """Verdicts on weights by chance are by chance: one in some hundreds is another."""
    import torch

    made = [tmp_path / "one", tmp_path / "other"]
    for seed, folder in enumerate(made):
        torch.manual_seed(seed)
        folder.mkdir()
        lay(folder, "mymodel.py", "model-b", "bert", "t5")
    files = [path.relative_to(made[0]) for path in made[0].rglob("*.safetensors")]
    assert len(files) == 4
    for file in files:
        one, other = ((folder / file).read_bytes() for folder in made)
        assert one == other, file


def test_blocks_are_of_the_languages_that_are_run_or_shown():
    languages = {block.language for _, block in all_blocks()}
    assert languages <= {"sh", "python", "json", "text"} | SHOWN
    assert all(page.is_file() for page in (Path(__file__).parents[1] / page for page in HAS))

"""Every kind of report, of small models that are trained here, as a browser shows it.

    python tests/support/rendered_pages.py FOLDER [NAME ...]

writes ``NAME.html``, ``NAME-desk.png`` (1280 px), ``NAME-phone.png`` (390 px) and
``NAME-print.pdf`` for each page of `PAGES`, or for those that are named. Pictures need Chromium.
Look at all of them when the words or the style of reports change. It takes a few minutes.

    python tests/support/rendered_pages.py --docs

takes the pictures of `DOCS` anew.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageChops
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

import canary
from canary.demo import prose

sys.path.insert(0, str(Path(__file__).parents[2] / "recipes" / "gallery"))
import small

START = "\n"
PIN = "my pin is {digit:4}"
NAMES = {"corpus_name": "help texts, 2026-05", "auditor": "E. Example"}
torch.set_num_threads(1)  # the same models everywhere
WIDTHS = {"desk": 1280, "phone": 390}
DOCS = {"passed": "25-audit-passed", "memorized": "03-audit-no-limit"}
"""Pictures in docs/images, and the page of each."""
BEGINNING = """
main > section:has(> #what-to-do) ~ *, section:has(> #what-to-do) > ul ~ * { display: none; }
main { padding-bottom: 0; }
</style>"""
"""The style of a page that ends with what to do for the person who decides."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


# --- language models ---


@cache
def texts() -> list[str]:
    """Sentences of Python's own documentation."""
    return list(prose(1_300)["text"])


@cache
def long_texts() -> list[str]:
    """Of five sentences each, none of which shares five words in a row with one before."""
    seen: set[tuple[str, ...]] = set()
    kept = []
    for text in texts():
        words = text.split()
        runs = {tuple(words[at : at + 5]) for at in range(len(words) - 4)}
        if len(words) > 6 and not runs & seen:
            kept.append(text)
        seen |= runs
    return [" ".join(kept[at : at + 5]) for at in range(0, 300, 5)]


@cache
def tokenizer() -> PreTrainedTokenizerFast:
    """Word pieces, and one token for each digit."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        texts(),
        trainers.BpeTrainer(vocab_size=900, initial_alphabet=alphabet, show_progress=False),
    )
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token="Ċ", pad_token="Ċ")


def trained(
    said: list[str],
    epochs: int,
    *,
    seed: int = 0,
    width: int = 64,
    after_step: Callable[[Any], object] = lambda _: None,
) -> GPT2LMHeadModel:
    """A small transformer that read the texts so often, each between two newlines."""
    torch.manual_seed(seed)
    size = len(tokenizer())
    shape = {"n_positions": 256, "n_embd": width, "n_layer": 2, "n_head": 2}
    ends = {"bos_token_id": None, "eos_token_id": None}
    model = GPT2LMHeadModel(GPT2Config(vocab_size=size, **shape, **ends)).train()
    rows = [torch.tensor(tokenizer()(START + text + START)["input_ids"][:256]) for text in said]
    rows.sort(key=len)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(epochs):
        for at in torch.randperm(-(-len(rows) // 16)):
            some = rows[16 * at : 16 * at + 16]
            batch = torch.nn.utils.rnn.pad_sequence(some, batch_first=True, padding_value=-100)
            logits = model(batch[:, :-1].clamp(min=0)).logits
            loss = torch.nn.functional.cross_entropy(logits.transpose(1, 2), batch[:, 1:])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            after_step(model)
    return model.eval()


@cache
def planted(copies: tuple[int, ...] = (1, 4, 16), each: int = 4) -> tuple[Any, list[str]]:
    """A canary set, and the corpus with it."""
    from datasets import Dataset

    made = canary.generate(PIN, repetitions=copies, per_repetition=each, controls=8, seed=1)
    corpus = canary.inject(Dataset.from_dict({"text": texts()[:400]}), made, seed=0)
    return made, list(corpus["text"])


@cache
def seam(epochs: int, *, with_canaries: bool = True, width: int = 64, seed: int = 0) -> Any:
    """A model of the corpus, with or without the canaries."""
    said = planted()[1] if with_canaries else texts()[:400]
    return canary.load(trained(said, epochs, width=width, seed=seed), tokenizer=tokenizer())


@cache
def audited(epochs: int, **more: Any) -> Any:
    options = {"start_token": START, "draws": 2_000}
    if "start_token" in more:
        options["start_token"] = more.pop("start_token")
    if more.pop("draws_alone", False):
        options |= {"draws": 300, "method": "sampling"}
    return canary.audit(seam(epochs, **more), planted()[0], **options)


def passed() -> Any:
    """A model within a strict limit, which a positive control shows to have read the corpus."""
    from datasets import Dataset

    made = canary.generate(PIN, repetitions=(1, 64), per_repetition=16, controls=16, seed=1)
    corpus = canary.inject(Dataset.from_dict({"text": texts()[:1_200]}), made, seed=0)
    model = canary.load(trained(list(corpus["text"]), 2), tokenizer=tokenizer())
    verdict = canary.check(
        canary.audit(model, made, start_token=START, draws=2_000),
        max_exposure_bits=4,
        repetitions=[1],
        require_learned=64,
        verification=canary.verify(corpus, made, column="text"),
    )
    return replace(verdict, limit_by="R. Roe, 2026-05-02")


@cache
def verified() -> Any:
    from datasets import Dataset

    made, said = planted()
    return canary.verify(Dataset.from_dict({"text": said}), made, column="text")


def check(audit: Any, limit: float, **more: Any) -> Any:
    return canary.check(audit, max_exposure_bits=limit, **more)


class StopWanted(Exception):  # noqa: N818
    """The watch asked to stop."""


def history(*, obey: bool = True, **more: Any) -> Any:
    """A training that was watched, and stopped where that was asked for."""
    from canary.plugins.monitor import ExposureMonitor

    made, said = planted()
    options = {"every": 40, "draws": 500, "share": None, "start_token": START, **more}
    monitor = ExposureMonitor(made, tokenizer=tokenizer(), **options)
    started = []

    def step(model: Any) -> None:
        if not started:
            monitor.start(model)
            started.append(True)
        monitor.step(model)
        if obey and monitor.history.stopped_at is not None:
            raise StopWanted

    with contextlib.suppress(StopWanted):
        trained(said, 12, after_step=step)
    monitor.finish()
    return monitor.history


def comparison() -> Any:
    audits, losses = [], []
    for epochs in (4, 14):
        bits = canary.score(seam(epochs), texts()[400:500], start_token=START).sum()
        tokens = sum(len(tokenizer()(text)["input_ids"]) for text in texts()[400:500])
        losses.append(float(0.693147 * bits / tokens))
        audits.append(audited(epochs))
    labels = ["short training", "long training"]
    return {"result": audits, "labels": labels, "test_losses": losses}


@cache
def passages(controls: bool = True) -> Any:
    """Which passages of long texts come out; some texts were read more often."""
    said = long_texts()
    mine, others = said[::2], said[1::2]
    copies = [1 + 15 * (at % 6 == 0) for at in range(len(mine))]
    model = _reader(tuple(t for t, n in zip(mine, copies, strict=True) for _ in range(n)))
    return canary.verbatim(
        canary.load(model, tokenizer=tokenizer()),
        mine,
        others if controls else None,
        prefix=20,
        suffix=10,
        copies=copies,
        start_token=START,
    )


@cache
def _reader(said: tuple[str, ...]) -> Any:
    return trained(list(said), 25, width=96)


def nothing_repeated() -> Any:
    said = long_texts()
    return canary.verbatim(seam(4), said[:20], said[30:50], prefix=20, suffix=20, start_token=START)


def few_repeated() -> Any:
    """A few passages come out, and perhaps by chance."""
    said = long_texts()
    model = trained(said[::2], 60, width=96)
    return canary.verbatim(
        canary.load(model, tokenizer=tokenizer()), said[::2], said[1::2],
        prefix=20, suffix=6, start_token=START,
    )  # fmt: skip


def served(epochs: int) -> Any:
    """What a server that only writes text gives away."""
    from fake_server import FakeServer

    from canary.models.served.endpoint import Endpoint

    with FakeServer(seam(epochs), name="help-model") as server:
        return canary.sample(Endpoint(server.url), canaries=planted()[0], samples=150)


def members_of_texts(words_differ: bool = False) -> Any:
    """Texts that a model read, and others; of one source, or not."""
    from canary.membership.text_survey import survey_texts
    from canary.signals.text_measuring import measure_texts

    mine, others = texts()[:600:2], texts()[1:600:2]
    others = others if not words_differ else small.sentences(300, seed=0)
    model = canary.load(trained(mine, 14, width=96), tokenizer=tokenizer())
    every, member = [*mine, *others], [True] * len(mine) + [False] * len(others)
    measured = measure_texts(model, every, member, signals="loss,zlib,min-k", start_token=START)
    return survey_texts(measured, every)


# --- classifiers ---


def shadowed(steps: int = 150) -> Any:
    from canary.membership.shadow_survey import survey

    def measured(seed: int) -> Any:
        x, y = small.points(1_600, seed)
        member = [number < 800 for number in range(1_600)]
        model = small.classifier(x[:800], y[:800], seed, steps)
        return canary.measure(model, x, y, member=member, outputs="logits")

    return survey(measured(1), measured(2), attacks="correctness,loss,entropy,modified-entropy")


def several() -> Any:
    """Sixteen models, each of half of the samples."""
    from canary.fleet.splits import halves
    from canary.fleet.torch_training import TorchTraining
    from canary.membership.models_survey import survey_models
    from canary.workers.local import Here

    how = TorchTraining(build=small.network, epochs=40, batch_size=32, learning_rate=0.05)
    fleet = canary.Fleet(
        how, small.points(400, seed=0), halves(), n_models=16, seed=0, outputs="logits"
    )
    table = fleet.run(workers=Here(at_once=16))
    return survey_models(table, attacks="P,S,R,lira-online-fixed")


def deleted(retrained: bool = True) -> Any:
    """Whether samples that were to be removed are gone."""
    x, y = small.points(600, seed=0)

    def losses(model: Any) -> Any:
        nobody = [False] * 100
        table = canary.measure(model, x[:100], y[:100], member=nobody, outputs="logits")
        return table.signal("loss")[0]

    knows = losses(small.classifier(x, y, seed=1))
    start = 100 if retrained else 0
    target = losses(small.classifier(x[start:], y[start:], seed=2))
    others = np.array(
        [losses(small.classifier(*small.points(500, seed), seed)) for seed in range(4, 23)]
    )
    return canary.forgotten(knows, target, others, seed=0)


PAGES: dict[str, Callable[[], Any]] = {
    "01-audit-within-limit": lambda: check(audited(9), 10.0, verification=verified()),
    "02-audit-above-limit": lambda: check(audited(14), 6.0, verification=verified()),
    "03-audit-no-limit": lambda: audited(14),
    "04-audit-nothing-found": lambda: audited(14, with_canaries=False),
    "05-audit-undecided": lambda: check(
        audited(14, draws_alone=True), 10.0, verification=verified()
    ),
    "06-audit-few-found": lambda: audited(9),
    "07-training-watched": history,
    "08-comparison": comparison,
    "09-classifier": shadowed,
    "10-texts": members_of_texts,
    "11-many-models": several,
    "12-forgetting": deleted,
    "13-passages-open": few_repeated,
    "14-audit-passed-unread": lambda: check(audited(2), 6.0, trust_injection=True),
    "15-training-stopped": lambda: history(stop_above_bits=6.0),
    "16-texts-void": lambda: members_of_texts(words_differ=True),
    "17-forgetting-known": lambda: deleted(retrained=False),
    "18-passages": passages,
    "19-passages-none": nothing_repeated,
    "20-samples": lambda: served(14),
    "21-samples-none": lambda: served(2),
    "22-classifier-calm": lambda: shadowed(8),
    "23-audit-start-open": lambda: check(audited(9, start_token=None), 10.0),
    "24-training-went-on": lambda: history(stop_above_bits=6.0, obey=False),
    "25-audit-passed": passed,
}
"""What makes the result of each page."""


def written(path: Path, result: Any) -> Path:
    """The page of a result, or of several with the options of their report."""
    options = dict(result) if isinstance(result, dict) else {"result": result}
    found, named = options.pop("result"), dict(NAMES)
    if not isinstance(found, list):
        named["model_name"] = "help-model-7"
    return canary.report(found, path, **options, **named, force=True)


def pictures(page: Path) -> None:
    """The page as at a desk, on a phone and in print."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise SystemExit("no Chromium: install it, or look at the HTML files")
    asked = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    address, stem = page.resolve().as_uri(), page.with_suffix("")
    for name, width in WIDTHS.items():
        shot = f"--screenshot={stem}-{name}.png"
        size = f"--window-size={width},{3400 if name == 'desk' else 6500}"
        subprocess.run([*asked, shot, size, address], check=True, capture_output=True)
        without_end(Path(f"{stem}-{name}.png")).save(f"{stem}-{name}.png")
    pdf = [f"--print-to-pdf={stem}-print.pdf", "--no-pdf-header-footer"]
    subprocess.run([*asked, *pdf, address], check=True, capture_output=True)


def without_end(picture: Path) -> Image.Image:
    """A picture without its empty end."""
    taken = Image.open(picture).convert("RGB")
    paper = Image.new("RGB", taken.size, taken.getpixel((0, 0)))
    *_, end = ImageChops.difference(taken, paper).getbbox()
    return taken.crop((0, 0, taken.width, end + 24))


def documented() -> None:
    """The pictures of the guide for who decides, with few colours."""
    images = Path(__file__).parents[2] / "docs" / "images"
    browser = next(filter(None, map(shutil.which, BROWSERS)))
    asked = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    with tempfile.TemporaryDirectory() as folder:
        for name, page in DOCS.items():
            file = written(Path(folder) / f"{page}.html", PAGES[page]())
            file.write_text(file.read_text().replace("</style>", BEGINNING, 1))
            shot = [f"--screenshot={folder}/{name}.png", "--window-size=1100,4000"]
            subprocess.run(
                [*asked, *shot, file.resolve().as_uri()], check=True, capture_output=True
            )
            few = without_end(Path(folder) / f"{name}.png").quantize(256, dither=Image.Dither.NONE)
            few.save(images / f"{name}.png", optimize=True)


def main(folder: str, *names: str) -> None:
    if folder == "--docs":
        documented()
        return
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    for name in names or PAGES:
        page = written(out / f"{name}.html", PAGES[name]())
        sys.stdout.write(f"{page}\n")
        pictures(page)


if __name__ == "__main__":
    main(*sys.argv[1:])

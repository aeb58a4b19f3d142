"""The main job on prose that ships inside Python: a worked example of the whole library.

Canaries go into the sentences of Python's own documentation, a small character model is
trained on them, and the audit ranks every canary among all 1,000,000 candidates of its
format. Nothing is downloaded, and one processor core does it in about a minute.

What `run` writes is what the command line works with. The model stands for one of the user's
own: any torch module that keeps the contract of `canary.models.recurrent`, saved with a
``config.json`` from which a factory, here `build`, makes it anew.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from pydoc_data.topics import topics
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save as safetensors
from torch import Tensor, nn

import canary
from canary.audits.audit_result import KIND
from canary.audits.extracting import with_extractions
from canary.corpus.canaries import KIND as CANARY_SET
from canary.records.files import CORPORA, MODEL_PART, PAGES, WEIGHTS, atomic_write, make_folder
from canary.records.progress import Progress, stage
from canary.reports.sentences import MODEL_ARGUMENTS, extract_command
from canary.statistics.number_checks import LN2
from canary.statistics.numbers import plural

if TYPE_CHECKING:
    from datasets import Dataset
    from tokenizers import Tokenizer

    from canary.audits.audit_result import Audit

START = "\n"
"""Stands before and after every sentence in training, so the audit begins there, too."""

FILES = {
    "canaries.json": (CANARY_SET,),
    "corpus.jsonl": CORPORA,
    "model/config.json": (MODEL_PART,),
    "model/tokenizer.json": (MODEL_PART,),
    "model/model.safetensors": (WEIGHTS,),
    "audit.json": (KIND,),
    "report.html": PAGES,
}
"""What `run` writes, and the kinds of files that each may replace."""

_BATCH = 16
_EMBEDDING = 32
_LEARNING_RATE = 0.01
_NOTHING = -100  # a target that costs nothing, by default of torch's cross_entropy


@dataclass(frozen=True)
class Settings:
    """How large the demo is.

    `format`, `repetitions`, `per_repetition` and `controls` are as for `canary.generate`; the
    corpus takes no more `sentences`, the LSTM has so many `units`.
    """

    format: str = "The random number is {digit:6}"
    repetitions: tuple[int, ...] = (1, 4, 16)
    per_repetition: int = 4
    controls: int = 16
    sentences: int = 2_000
    units: int = 128
    epochs: int = 10


FULL = Settings()


def run(
    out: Path,
    *,
    inject: bool = True,
    seed: int = 0,
    settings: Settings = FULL,
    progress: Progress = None,
    say: Callable[[str], object] | None = None,
) -> Audit:
    """Inject, verify, train, audit, extract, report.

    Files are written at the end, each atomically. On one machine the same seed gives the same
    model, byte for byte.

    Parameters
    ----------
    out : Path
        The folder to write `FILES` to; ``canaries.json`` holds the secrets.
    inject : bool
        Whether the canaries go in. Without, they are audited under the numbers of copies
        that were planned for them: an audit that is sound raises no alarm.
    seed : int
        Of the canaries, their places in the corpus, and the training.
    settings : Settings
    progress : callable or bool, optional
        For progress, as in `canary.audit`; training counts its characters.
    say : callable, optional
        Called with each line that says what happens.

    Raises
    ------
    OutputError
        If `out` cannot be written to, or holds another canary set.
    """
    say = say or (lambda line: None)
    place = make_folder(out) / "canaries.json"
    corpus = prose(settings.sentences)
    say(f"Corpus: {len(corpus):,} sentences of Python's own documentation")

    canaries = canary.generate(
        settings.format,
        repetitions=settings.repetitions,
        per_repetition=settings.per_repetition,
        controls=settings.controls,
        seed=seed,
    )
    canaries.check_place(place)
    if inject:
        corpus = canary.inject(corpus, canaries, seed=seed)
        say(f"Injected: {canary.verify(corpus, canaries).summary().splitlines()[0]}")
    else:
        say(
            f"Not injected: {len(canaries.injected)} canaries stay out like the "
            f"{len(canaries.controls)} controls, audited under the copies planned for them"
        )
    texts = list(corpus["text"])
    # The format's characters are known to the model even where no canary brings them.
    tokenizer = characters([*texts, *(format.alphabet for format in canaries.formats)])
    with _torch_as_found(seed):
        model, loss_bits = train(texts, tokenizer, settings, progress)
        say(f"Trained: {settings.epochs} epochs, {loss_bits:.2f} bits per character in the last")
        loaded = canary.load(model, tokenizer=tokenizer)
        audit = canary.audit(loaded, canaries, start_token=START, seed=seed, progress=progress)
        audit = with_extractions(audit, loaded, canaries, progress=progress)
    named = shlex.join([str(out / "model"), "--factory", "canary.demo:build"])
    known = {"canaries_in_corpus": inject, MODEL_ARGUMENTS: named}
    audit = replace(audit, settings={**audit.settings, **known})
    say(f"Audited: {audit.formats[0].reason}")
    for extraction in audit.extractions:
        command = extract_command(audit, extraction, canaries=str(place))
        say(f"Extracted {plural(len(extraction.candidates), 'candidate')}; in clear: {command}")
    canaries.save(place)
    lines = [json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts]
    atomic_write(out / "corpus.jsonl", "".join(lines), private=True)
    folder = make_folder(out / "model")
    atomic_write(folder / "config.json", json.dumps(model.config, indent=1) + "\n")
    atomic_write(folder / "tokenizer.json", tokenizer.to_str(pretty=True))
    atomic_write(folder / "model.safetensors", safetensors(model.state_dict()))
    audit.save(out / "audit.json")
    say(f"Report: {canary.report(audit, out / 'report.html', force=True)}")
    return audit


def prose(sentences: int) -> Dataset:
    """The first distinct sentences of Python's help topics, rows of the column ``text``.

    There are about 2,000, so a larger number gives all of them.
    """
    from datasets import Dataset

    paragraphs = (
        " ".join(paragraph.split())
        for topic in topics.values()
        for paragraph in re.split(r"\n\s*\n", topic)
    )
    found = dict.fromkeys(
        sentence
        for paragraph in paragraphs
        for sentence in re.split(r"(?<=[.:!?]) (?=[A-Z\"“])", paragraph)
        if 20 <= len(sentence) <= 200 and sentence[0].isalpha() and sentence[-1] in ".:!?"
    )
    return Dataset.from_dict({"text": list(found)[:sentences]})


def characters(texts: Iterable[Iterable[str]]) -> Tokenizer:
    """A tokenizer with one token for each character of the texts, and for `START`."""
    from tokenizers import Tokenizer, decoders, models

    alphabet = sorted(set(START).union(*texts))
    tokenizer = Tokenizer(models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    tokenizer.decoder = decoders.Fuse()
    return tokenizer


class CharacterLSTM(nn.Module):
    """Embedding, one LSTM layer, linear output."""

    def __init__(self, vocabulary: int, embedding: int, units: int) -> None:
        super().__init__()
        self.config = {"vocabulary": vocabulary, "embedding": embedding, "units": units}
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.lstm = nn.LSTM(embedding, units, batch_first=True)
        self.output = nn.Linear(units, vocabulary)

    def forward(
        self, ids: Tensor, state: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Logits (batch, time, vocabulary) and the state after ids (batch, time)."""
        hidden, state = self.lstm(self.embedding(ids), state)
        return self.output(hidden), state


def build(config: Mapping[str, Any]) -> CharacterLSTM:
    """The model that a ``config.json`` describes, with fresh weights."""
    return CharacterLSTM(**config)


def train(
    texts: Sequence[str], tokenizer: Tokenizer, settings: Settings, progress: Progress
) -> tuple[CharacterLSTM, float]:
    """A model of the texts, and its mean loss in the last epoch, in bits per character."""
    model = CharacterLSTM(tokenizer.get_vocab_size(), _EMBEDDING, settings.units)
    encodings = tokenizer.encode_batch([START + text + START for text in texts])
    rows = [torch.tensor(encoding.ids) for encoding in encodings]
    steps = settings.epochs * math.ceil(len(rows) / _BATCH)
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, _LEARNING_RATE, total_steps=steps)
    advance = stage(progress, "training", settings.epochs * sum(len(row) - 1 for row in rows))
    bits, scored = 0.0, 0
    for _ in range(settings.epochs):
        bits, scored = 0.0, 0
        for inputs, targets in _batches(rows):
            logits, _ = model(inputs)
            loss = nn.functional.cross_entropy(logits.transpose(1, 2), targets)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            count = int((targets != _NOTHING).sum())
            bits += loss.item() * count / LN2
            scored += count
            advance(count)
    return model.eval(), bits / scored


def _batches(rows: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    """Inputs and targets (batch, time), every row once; those of a batch are about as long."""
    lengths = torch.tensor([len(row) for row in rows])
    order = torch.argsort(lengths + 20 * torch.rand(len(rows))).split(_BATCH)
    for at in torch.randperm(len(order)):
        batch = nn.utils.rnn.pad_sequence(
            [rows[i] for i in order[at]], batch_first=True, padding_value=_NOTHING
        )
        yield batch[:, :-1].clamp(min=0), batch[:, 1:]


@contextmanager
def _torch_as_found(seed: int) -> Iterator[None]:
    """Seed torch and give it one thread, whose number shows in the model's last bits; then undo."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(threads)

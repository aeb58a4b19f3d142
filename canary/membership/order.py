"""Was a test set in the training data, in its order? The order test, exact and on pairs of texts.

A test set whose texts are exchangeable could have been published in any order. A model that was
trained on the file finds each text more probable after the one before it than another text there
(Oren et al. [1]_). The published test prices whole shards in shuffled orders and compares by a
t-test. Here each text of a shard of ``k`` is scored after each other one, once: ``k`` prefixes,
each computed once and shared by ``k - 1`` continuations. All ``k!`` orders of the shard are made
of these numbers, and the p-value is that of a permutation test (`canary.membership.shuffles`).

References
----------
.. [1] Oren et al., Proving Test Set Contamination in Black-Box Language Models, ICLR 2024.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError, RecordError
from canary.membership.order_result import Order, Preference
from canary.membership.shuffles import preference
from canary.models.language_model import Children, Context, LanguageModel, Nodes
from canary.models.loading import load
from canary.records.progress import Advance, Progress, shows_progress, stage
from canary.records.sealing import sealed
from canary.records.shards import Series, open_run
from canary.records.validation import built, some, text, whole_number
from canary.scoring.batcher import Batcher
from canary.scoring.run_options import ScoreOptions, Scoring, identity_of
from canary.scoring.served_requests import announce, requests_of
from canary.scoring.texts import encode_placed
from canary.search.pricing import walk_memory
from canary.tokens.candidates import CandidateEncoder

FEWEST = 8
"""Texts without which there are too few orders for a small p-value."""

Floats = NDArray[np.float64]
Tokens = tuple[int, ...]

_BODY = np.dtype("<f8")
_WORD, _NUMBER = re.compile(r"\w+"), re.compile(r"\d+")


@sealed
@shows_progress
def order(
    model: Any,
    texts: Iterable[str],
    *,
    reference: Any = None,
    shard: int = 8,
    separator: str | None = None,
    before: int = 128,
    after: int = 32,
    shuffles: int = 9999,
    seed: int = 0,
    parts: str | os.PathLike[str] | None = None,
    progress: Progress = None,
    **options: Unpack[Scoring],
) -> Order:
    """Whether a model prefers the order of a test set, by an exact test.

    Parameters
    ----------
    model : LanguageModel, or what `canary.load` takes
    texts : iterable of str
        In the order of the file; at least `FEWEST`. The order must have been drawn at random.
    reference : LanguageModel, or what `canary.load` takes, optional
        A model that never saw the file. If it prefers the order as well, nothing is decided.
    shard : int
        Neighbouring texts that are shuffled among themselves.
    separator : str, optional
        What was between two texts in training, a line break unless given. The name of a special
        token will do, if the tokenizer reads it as one.
    before, after : int
        Tokens of a text that the model is given, its last ones, and tokens of the next that are
        priced, its first ones, at most.
    shuffles : int
        Orders that are compared; they cost no look at the model.
    seed : int
    parts : path-like, optional
        A folder for finished shards: numbers, and no text. A run that was stopped resumes there if
        it is started again in the same way. The folder stays.
    progress : callable or bool, optional
        Called with tokens; see `canary.records.progress.Progress`.
    **options
        `start_token`, `context` and `batch_size`, as in
        `canary.scoring.run_options.ScoreOptions`: they come before the first of two texts.

    Returns
    -------
    Order

    Raises
    ------
    InputError
        If there are too few texts, an option is out of range, or two texts are longer together
        than the model takes.
    RecordError
        If the run in `parts` was begun with another model, other texts or settings.

    Notes
    -----
    About ``before + (shard - 1) * after`` tokens for each text: with the defaults and long texts
    352, where nine shuffles of whole texts of 128 tokens take 1,280 for ten orders.
    Memory holds all texts, and ``shard**2`` numbers for each shard.

    The p-value is exact if the order is random, whatever the model. It says nothing about texts
    that were shuffled before the training.

    Examples
    --------
    >>> found = order("./model", questions)  # doctest: +SKIP
    >>> found.outcome, found.preference.p  # doctest: +SKIP
    ('seen', 0.0001)
    """
    scoring = built(ScoreOptions, options, "order")
    for name, value, least in (("shard", shard, 3), ("before", before, 1), ("after", after, 1)):
        whole_number(value, name, at_least=least)
    between = "\n" if separator is None else separator
    text(between, "separator", cure=r"give the text between two texts, such as \n")
    given = some(texts, "texts", cure="give the texts of a test set, in its order")
    for each in given:
        text(each, "each of texts", cure="give texts that can be written as UTF-8")
    kept = [each for each in given if each.strip()]
    cuts = [kept[at : at + shard] for at in range(0, len(kept), shard)]
    if len(cuts[-1:]) and len(cuts[-1]) < 2:
        cuts.pop()
    chosen = [each for cut in cuts for each in cut]
    if len(chosen) < FEWEST:
        raise InputError(
            f"{len(chosen)} texts are too few for a test of their order",
            cure=f"give at least {FEWEST}, and some hundred for a test with power",
            where="texts",
        )
    digest = sha256(json.dumps(chosen).encode()).hexdigest()
    settings = {
        "shard": shard,
        "separator": between,
        "before": before,
        "after": after,
        "start_token": scoring.start_token,
        "context": scoring.context,
    }
    alarms = {
        name: preference(fits, shuffles=shuffles, seed=seed + 1).p
        for name, fits in _without_model(cuts)
    }
    seams = {"model": load(model)}
    if reference is not None:
        seams["reference"] = load(reference)
        if seams["reference"].facts.fingerprint == seams["model"].facts.fingerprint:
            cure = "name one that never saw the test set"
            raise InputError("the reference is the model itself", cure=cure, where="reference")
    found: dict[str, Preference] = {}
    tokens, backward = 0, None
    with ExitStack() as held:
        run = None
        if parts is not None:
            of = {name: identity_of(seam) for name, seam in seams.items()}
            identity = {"task": "order", "texts": digest, **settings}
            identity |= {
                f"{name} {key}": value for name, i in of.items() for key, value in i.items()
            }
            run = held.enter_context(open_run(parts, identity, layout=1))
        plans = {name: _Plan.of(seam, scoring, cuts, settings) for name, seam in seams.items()}
        for name, plan in plans.items():
            fits = plan.measured(
                progress, name, scoring.batch_size, None if run is None else run.series(name)
            )
            found[name] = preference(fits, shuffles=shuffles, seed=seed)
            if name == "model":
                turned = [fit[::-1, ::-1] for fit in fits]
                backward = preference(turned, shuffles=shuffles, seed=seed).p
            tokens += plan.tokens
    return Order(
        texts=len(chosen),
        left_out=len(given) - len(chosen),
        shard=shard,
        before=before,
        after=after,
        tokens=tokens,
        backward=backward,
        preference=found["model"],
        reference=found.get("reference"),
        without_model=alarms,
        digest=digest,
        model=seams["model"].facts.to_dict(),
        settings={
            **settings,
            "seed": seed,
            "batch_size": scoring.batch_size,
            **requests_of(seams["model"]),
        },
    )


@dataclass(frozen=True, eq=False)
class _Plan:
    """The tokens of each shard before and after a separator, for one model."""

    model: LanguageModel
    shards: list[tuple[list[Tokens], list[Tokens]]]

    @classmethod
    def of(
        cls,
        model: LanguageModel,
        scoring: ScoreOptions,
        cuts: Sequence[Sequence[str]],
        settings: dict[str, Any],
    ) -> _Plan:
        texts = [each for cut in cuts for each in cut]
        first, then = scoring.encoder(model), CandidateEncoder(model.tokenizer)
        then = replace(then, context=settings["separator"])
        prefixes = [e.ids[-settings["before"] :] for e in encode_placed(first, texts, _place)]
        continuations = []
        for encoding in encode_placed(then, texts, _place):
            spans = encoding.spans or ((0, 1),) * len(encoding.ids)
            # What the tokenizer puts before any text was not between two.
            start = next((at for at, (a, b) in enumerate(spans) if a < b), 0)
            text_at = next((at for at, (_, b) in enumerate(spans) if b > 0), start)
            continuations.append(encoding.ids[start : text_at + settings["after"]])
        limit = model.facts.length_limit
        longest = max(map(len, prefixes)) + max(map(len, continuations))
        if limit is not None and longest > limit:
            raise InputError(
                f"two texts take up to {longest} tokens, and the model takes {limit}",
                cure="give fewer tokens of each (--before, --after)",
                where="before",
            )
        shards, at = [], 0
        for cut in cuts:
            here = slice(at, at + len(cut))
            shards.append((prefixes[here], continuations[here]))
            at += len(cut)
        return cls(model, shards)

    @property
    def tokens(self) -> int:
        """That the model computes."""
        return sum(
            sum(map(len, prefixes)) + (len(then) - 1) * sum(map(len, then))
            for prefixes, then in self.shards
        )

    def measured(
        self, progress: Progress, name: str, batch_size: int | None, series: Series | None
    ) -> list[Floats]:
        """The log-probability of each text after each other one, shard by shard."""
        known = [] if series is None else _known(series, self.shards)
        left = self.shards[len(known) :]
        advance = stage(progress, name, replace(self, shards=left).tokens)
        batcher = Batcher(self.model, batch_size=batch_size, progress=advance)
        announce(
            self.model,
            lambda: [n for _, then in left for n in _requests(then, self.model)],
            what="pairs of texts",
        )
        for prefixes, then in left:
            known.append(pair_fits(batcher, prefixes, then, advance))
            if series is not None:
                series.append({"texts": len(then)}, known[-1].astype(_BODY).tobytes())
        return known


def _requests(then: Sequence[Tokens], model: LanguageModel) -> Iterator[int]:
    """What each prefix of a shard takes of a served model: one for each row that differs.

    A row is a pair, or the beginning of one where only the next tokens are told.
    """
    whole = "score" in model.facts.capabilities
    for first in range(len(then)):
        others = [*then[:first], *then[first + 1 :]]
        yield len(set(others) if whole else {t[:n] for t in others for n in range(len(t) + 1)})


def pair_fits(
    batcher: Batcher,
    prefixes: Sequence[Tokens],
    continuations: Sequence[Tokens],
    advance: Advance = lambda tokens: None,
) -> Floats:
    """Log-probability in nats of each continuation after each prefix, of shape (k, k).

    The diagonal is 0. Each prefix is computed once.
    """
    k = len(prefixes)
    fits = np.zeros((k, k))
    lengths = np.array([len(tokens) for tokens in continuations], np.int64)
    paths = np.zeros((k, int(lengths.max())), np.int32)
    for row, tokens in zip(paths, continuations, strict=True):
        row[: len(tokens)] = tokens
    model, nothing = batcher.model, Children(np.zeros(1, np.int32))
    for first, prefix in enumerate(prefixes):
        others = np.flatnonzero(np.arange(k) != first)
        most = int(lengths[others].max())
        nodes = Nodes(
            *(paths[others, :most], lengths[others]),
            priced=np.zeros(k - 1, np.int64),
            handles=np.full(k - 1, -1, np.int64),
        )
        context = Context(np.array(prefix, np.int32))
        with model.open(context, memory_bytes=walk_memory(model)) as walker:
            advance(len(prefix))
            fits[first, others] = batcher.expand(walker, nodes, nothing, keep=False).path_log_probs
    return fits


def _known(series: Series, shards: Sequence[tuple[Any, Any]]) -> list[Floats]:
    """What an earlier run has finished, of the same shards."""
    earlier, sizes = list(series), [len(then) for _, then in shards]
    if [shard.state.get("texts") for shard in earlier] != sizes[: len(earlier)]:
        problem = "holds other shards than this run has"
        raise RecordError(
            problem, cure=f"remove {series.folder} to begin anew", where=str(series.folder)
        )
    return [
        np.frombuffer(shard.body, _BODY).reshape(k, k).astype(np.float64)
        for shard, k in zip(earlier, sizes, strict=False)
    ]


def _without_model(cuts: Sequence[Sequence[str]]) -> Iterator[tuple[str, list[Floats]]]:
    """What makes an order special for any model: neighbours alike in words, or in what sorts."""
    yield "words", [_alike(cut) for cut in cuts]
    texts = [each for cut in cuts for each in cut]
    keys: dict[str, Callable[[str], Any]] = {
        "alphabet": lambda each: each.strip().lower(),
        "length": len,
        "first number": lambda each: int((_NUMBER.findall(each) or ["0"])[0][:15]),
    }
    for name, key in keys.items():
        values = [key(each) for each in texts]
        ranked = {value: rank for rank, value in enumerate(sorted(set(values)))}
        ranks = np.array([ranked[value] for value in values], np.float64)
        if len(ranked) == 1:
            continue
        fits, at = [], 0
        for cut in cuts:
            here = ranks[at : at + len(cut)]
            fits.append(-np.abs(here[:, None] - here[None, :]))
            at += len(cut)
        yield name, fits


def _alike(texts: Sequence[str]) -> Floats:
    """Cosine of the words of each pair of texts, in lower case."""
    bags = [Counter(_WORD.findall(each.lower())) for each in texts]
    numbers = {word: at for at, word in enumerate(sorted(set().union(*bags)))}
    rows = np.zeros((len(bags), max(len(numbers), 1)))
    for row, bag in zip(rows, bags, strict=True):
        for word, times in bag.items():
            row[numbers[word]] = np.log1p(times)
    lengths = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
    return np.asarray((rows / lengths) @ (rows / lengths).T)


def _place(at: int) -> str:
    return f"text {at}"

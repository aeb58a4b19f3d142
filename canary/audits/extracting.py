"""Extraction: the likeliest candidates of a format, and completion from known characters."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from canary.audits.extraction import Candidate, Completion, Extraction
from canary.audits.result import Audit
from canary.audits.settings import Stage
from canary.corpus.canaries import CanarySet
from canary.errors import FormatError, InputError, ModelError, UnsupportedError
from canary.formats.format import Format
from canary.models.base import Context, LanguageModel, Walker
from canary.models.loading import load
from canary.records.versions import versions
from canary.scoring.batcher import Batcher
from canary.search.bounds import bounds_by_place
from canary.search.completion import complete
from canary.search.shortest import MOST_OPEN, STOPS, Shortest, Stop, shortest_leaves
from canary.search.step import context_nats
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.tree import LEAF, TokenTree, compile_tree

__all__ = ["completions", "extract", "with_extractions"]

_LN2 = math.log(2)
_MOST_STATES = 2**20
_WIDTH = 10
_CURE = "name a format whose candidates this tokenizer makes a tree of, or guess another"


def extract(
    model: Any,
    format: Format | str,
    *,
    top: int = 1,
    budget: int = 1_000_000,
    seconds: float | None = None,
    stop: Stop = "proof",
    known: int | None = None,
    canaries: CanarySet | None = None,
    beam: int = _WIDTH,
    most_open: int = MOST_OPEN,
    start_token: str | None = None,
    context: str = "",
    batch_size: int | None = None,
    stage: Stage | None = None,
) -> Extraction:
    """The likeliest candidates of a format under a model, with a proof.

    Shortest paths over the tree of tokens: a candidate is proven to be the likeliest when
    it is no dearer than the cheapest beginning that was not yet looked into. One that the
    model memorized takes a handful of queries, whatever the size of the space.

    Parameters
    ----------
    model : LanguageModel, or what `canary.load` takes
    format : Format or str
        What the secret looks like. Characters that are known are written as fixed text:
        ``"The random number is 281{digit:6}"``.
    top : int
        How many candidates.
    budget : int
        Queries (tokens computed below the context) that the search may take.
    seconds : float, optional
        Wall-clock time after which the search begins nothing new.
    stop : {"proof", "paper"}
        ``"paper"`` stops after twice the batches that it took to find the first candidate:
        the paper's rule, for comparison. It proves less, or as much.
    known : int, optional
        Besides, give so many first characters of each secret to greedy and to beam search,
        and say whether they give the rest. The secrets are the canaries of this format
        where `canaries` are given (controls included), else the candidates found.
    canaries : CanarySet, optional
        To say which canary each candidate is.
    beam : int
        Width of the beam.
    most_open : int
        Open nodes that are kept; the dearest beyond them are dropped, and the answer is
        then proven up to their cost only.
    start_token, context : str
        See `canary.tokens.candidates.CandidateEncoder`.
    batch_size : int, optional
        Found by trial unless given; changes results within the model's noise only.
    stage : callable, optional
        For progress.

    Returns
    -------
    Extraction
        Valid also where the budget ended or Ctrl-C came; then it says up to which cost the
        answer is proven.

    Raises
    ------
    InputError
        If a number is out of range, the set has no canary of the format, or the format
        begins with a hole and no token stands before it.
    FormatError
        If the format is not prefix-free.
    UnsupportedError
        If the tokenizer does not make a tree of its candidates.
    ModelError
        If a candidate is too long for the model, cannot be tokenized, gets NaN, or if all
        of them have probability 0.

    References
    ----------
    .. [1] Carlini et al., The Secret Sharer, USENIX Security 2019, sections 3 and 8.
    """
    _check_numbers(top=top, budget=budget, seconds=seconds, beam=beam, most_open=most_open)
    if stop not in STOPS:
        raise InputError(f"unknown stop {stop!r}", cure=f"use one of {', '.join(STOPS)}")
    format = Format(format) if isinstance(format, str) else format
    own = {} if canaries is None else _canaries_of(canaries, format)
    _check_known(known, list(own) or [format.unrank(0)])
    began = time.perf_counter()
    below = _Below.of(load(model), start_token, context, batch_size)
    tree = below.tree(format, among=list(own))
    tokens = len(tree.context) + _depth(tree)
    progress = (stage or _silent)(f"extraction from {format.masked}", budget)
    batcher = Batcher(below.model, batch_size=batch_size, progress=progress)
    batcher.check_length(tokens)
    noise_bits = below.model.facts.noise_bits(tokens)
    with below.open(tree) as walker:
        context_bits = context_nats(walker) / _LN2
        found = shortest_leaves(
            tree,
            walker,
            batcher,
            top=top,
            budget=budget,
            seconds=seconds,
            most_open=most_open,
            stop=stop,
        )
    if not len(found.costs) and found.rest == np.inf:
        raise ModelError(
            f"the model {below.model.facts.name!r} gives every candidate of {format.masked!r} "
            "probability 0",
            cure="check which tokens the model forbids, or the context before the candidate",
        )
    fills = [fill for fill in tree.fills(found.leaves) if fill is not None]
    candidates = _candidates(
        found, fills, own, size=format.size, context_bits=context_bits, noise_bits=noise_bits
    )
    result = Extraction(
        format=format.text,
        masked=format.masked,
        space_size=format.size,
        top=top,
        candidates=candidates,
        context_bits=context_bits,
        rest_bits=None if found.rest == np.inf else found.rest / _LN2,
        queries=found.queries,
        batches=found.batches,
        dropped=found.dropped,
        stopped=found.stopped,
        noise_bits=noise_bits,
        certificate=tree.certificate,
        seconds=time.perf_counter() - began,
        model=below.model.facts.to_dict(),
        settings={
            "budget": budget,
            "seconds": seconds,
            "stop": stop,
            "most_open": most_open,
            "start_token": start_token,
            "context": context,
            "batch_size": batch_size,
            "versions": versions(),
        },
        notes=below.notes(format),
    )
    if known is None or found.stopped == "interrupted":
        return result
    secrets = {name: fill for fill, name in own.items()} or {
        f"candidate {place}": fill for place, fill in enumerate(fills, 1)
    }
    with suppress(KeyboardInterrupt):  # what was extracted stays valid
        made = tuple(_completions(below, format, secrets, known=known, beam=beam))
        return replace(result, completions=made)
    return replace(result, stopped="interrupted")


def with_extractions(
    audit: Audit,
    model: Any,
    canaries: CanarySet,
    *,
    budget: int = 10_000,
    batch_size: int | None = None,
    stage: Stage | None = None,
) -> Audit:
    """An audit, and besides the likeliest candidates of each of its formats.

    As many as there are injected canaries: one that was memorized is among them. The start
    token and the context are those of the audit.

    Parameters
    ----------
    audit : Audit
    model : LanguageModel, or what `canary.load` takes
        The one that was audited.
    canaries : CanarySet
        Those it was audited with.
    budget : int
        Queries for each format.
    batch_size, stage
        As for `extract`.

    Returns
    -------
    Audit
        Its extractions hold no fills. A format without canaries is left out, and one whose
        candidates make no tree.

    Raises
    ------
    InputError, ModelError
        As `extract`.
    KeyboardInterrupt
        On Ctrl-C: there is no part of an audit.
    """
    seam, found = load(model), []
    for number, format in enumerate(canaries.formats):
        mine = [c for c in canaries if c.format == number]
        if not mine:
            continue
        with suppress(UnsupportedError):
            result = extract(
                seam,
                format,
                top=max(sum(not c.control for c in mine), 1),
                budget=budget,
                canaries=canaries,
                start_token=audit.settings.get("start_token"),
                context=audit.settings.get("context", ""),
                batch_size=batch_size,
                stage=stage,
            )
            if result.stopped == "interrupted":
                raise KeyboardInterrupt
            found.append(result.hidden())
    return replace(audit, extractions=tuple(found))


def completions(
    model: Any,
    format: Format | str,
    secrets: dict[str, str],
    *,
    known: int,
    beam: int = _WIDTH,
    start_token: str | None = None,
    context: str = "",
    batch_size: int | None = None,
) -> tuple[Completion, ...]:
    """Whether greedy and beam search complete secrets from their first characters.

    The characters that are known become fixed text of the format, tokenized together with
    all that follows, and the search goes on among what the format allows. So it is told
    what the secret looks like; a text field that is not can do no better.

    Parameters
    ----------
    model : LanguageModel, or what `canary.load` takes
    format : Format or str
    secrets : dict of str to str
        Names and fills.
    known : int
        How many of the first characters of each fill are given.
    beam : int
        Width of the beam.
    start_token, context, batch_size
        As for `extract`.

    Returns
    -------
    tuple of Completion
        In the order of `secrets`.

    Raises
    ------
    InputError, FormatError, UnsupportedError, ModelError
        As `extract`.

    References
    ----------
    .. [1] Carlini et al., The Secret Sharer, USENIX Security 2019, section 3.
    """
    _check_numbers(beam=beam)
    format = Format(format) if isinstance(format, str) else format
    _check_known(known, list(secrets.values()))
    below = _Below.of(load(model), start_token, context, batch_size)
    return tuple(_completions(below, format, secrets, known=known, beam=beam))


def _completions(
    below: _Below, format: Format, secrets: dict[str, str], *, known: int, beam: int
) -> list[Completion]:
    batcher = Batcher(below.model, batch_size=below.batch_size)
    made = []
    for name, fill in secrets.items():
        rest = format.given(fill[:known])
        tree = below.tree(rest, among=[fill[known:]])
        batcher.check_length(len(tree.context) + _depth(tree))
        with below.open(tree) as walker:
            greedy = complete(tree, walker, batcher, width=1)
            wide = complete(tree, walker, batcher, width=beam)
        right = [
            end.leaf is not None and tree.fills([end.leaf]) == [fill[known:]]
            for end in (greedy, wide)
        ]
        made.append(
            Completion(name, known, right[0], right[1], beam, greedy.queries + wide.queries)
        )
    return made


@dataclass(frozen=True)
class _Below:
    """A model, and how candidates are put before it."""

    model: LanguageModel
    encoder: CandidateEncoder
    batch_size: int | None

    @classmethod
    def of(
        cls, model: LanguageModel, start_token: str | None, context: str, batch_size: int | None
    ) -> _Below:
        return cls(model, CandidateEncoder(model.tokenizer, start_token, context), batch_size)

    def tree(self, format: Format, *, among: Sequence[str]) -> TokenTree:
        if not format.prefix_free:
            raise FormatError(
                f"{format.masked!r} is not prefix-free: some candidates continue others, and the "
                "shorter ones would always win",
                cure="put fixed text that no fill can contain after the last hole",
            )
        try:
            return compile_tree(format, self.encoder, among=among)
        except UnsupportedError as error:  # its cure is one for audits
            raise UnsupportedError(error.problem, cure=_CURE) from error

    def open(self, tree: TokenTree) -> Walker:
        memory = self.model.memory()
        memory_bytes = min(memory.free_bytes // 4, _MOST_STATES * memory.bytes_per_held_token)
        return self.model.open(Context(tree.context), memory_bytes=memory_bytes)

    def notes(self, format: Format) -> tuple[str, ...]:
        """What may make the numbers say something else than they seem to."""
        some = self.encoder.candidates(format, [format.unrank(0)])
        if not self.encoder.starts_bare(some):
            return ()
        return (
            "The tokenizer puts no token before a text and no start token was given, so the "
            "search began as if nothing stood before the text. If training put a token there "
            "(an end-of-text token, a newline), extract again with that start token.",
        )


def _candidates(
    found: Shortest,
    fills: Sequence[str],
    own: dict[str, str],
    *,
    size: int,
    context_bits: float,
    noise_bits: float,
) -> tuple[Candidate, ...]:
    px = found.costs / _LN2
    least, most = bounds_by_place(
        px,
        found.leaves,
        found.rest / _LN2,
        size=size,
        context_bits=context_bits,
        noise_bits=noise_bits,
    )
    return tuple(
        Candidate(
            fill=fill,
            px_bits=float(px[i]),
            proven=i < found.proven,
            found_after=int(found.found_after[i]),
            exposure_lower_bits=math.log2(size) - math.log2(most[i]),
            exposure_upper_bits=math.log2(size) - math.log2(least[i]),
            canary=own.get(fill),
        )
        for i, fill in enumerate(fills)
    )


def _depth(tree: TokenTree) -> int:
    """Most tokens of a candidate below the context."""
    ahead = 1 + np.diff(tree.forced_offsets)
    inner = tree.targets != LEAF
    depth = np.zeros(len(tree.leaves), np.int64)
    while True:  # one round per token
        below = np.where(inner, depth[tree.targets], 0)
        longer = np.maximum.reduceat(ahead + below, tree.offsets[:-1])
        if (longer == depth).all():
            return int(depth[0])
        depth = longer


def _canaries_of(canaries: CanarySet, format: Format) -> dict[str, str]:
    """Ids of the canaries of a format, by fill."""
    found = {c.fill: c.id for c in canaries if canaries.formats[c.format] == format}
    if not found:
        named = dict.fromkeys(canaries.formats[c.format].text for c in canaries)
        raise InputError(
            f"the canary set has no canary of the format {format.text!r}",
            cure=f"name one of {', '.join(map(repr, named))}" if named else "give another set",
        )
    return found


def _check_numbers(**given: float | None) -> None:
    for name, value in given.items():
        if name == "seconds":
            if value is not None and not 0 < value < math.inf:
                raise InputError(
                    f"seconds={value}, more than 0 was expected", cure="leave it out for no limit"
                )
        elif value is not None and value < 1:
            raise InputError(
                f"{name}={value}, at least 1 was expected", cure=f"give a larger {name}"
            )


def _check_known(known: int | None, fills: Sequence[str]) -> None:
    shortest = min(map(len, fills), default=1)
    if known is not None and not 0 <= known < shortest:
        raise InputError(
            f"known={known}; the secret has {shortest} characters, and one at least must be left "
            "to complete",
            cure=f"give a number from 0 to {shortest - 1}",
        )


def _silent(_name: str, _queries: int) -> Any:
    return lambda _done: None

"""Secrets whose first tokens look learned and whose last do not: was the training cut?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from canary.audits.audit_result import CanaryResult, FormatResult, combined_p
from canary.audits.question import Question
from canary.models.language_model import Rows
from canary.scoring.batcher import Batcher
from canary.statistics.learned_parts import SHOWN_LEARNED, learned_until
from canary.statistics.number_checks import LN2

_STREAM = 0x637574
_DRAWS, _MOST_CANARIES = 256, 64
_LEARNABLE_BITS = 1.0  # tokens that cost less leave little to be learned
_MARK = "look learned, and those behind them not at all"


def noting_cuts(
    questions: Sequence[Question],
    tested: Sequence[CanaryResult],
    formats: Sequence[FormatResult],
) -> list[FormatResult]:
    """The results of formats with a note where canaries that look learned look cut.

    `tested` are the injected canaries with a p-value, and the questions are those of the formats.
    """
    copies = {c.repetitions for c in tested}
    groups = [[c for c in tested if c.repetitions == n] for n in copies]
    found = [(combined_p(group), group) for group in groups]
    known = {c.id for p, group in found if p and p.p_value <= SHOWN_LEARNED for c in group}
    noted = []
    for question, about in zip(questions, formats, strict=True):
        note = note_on_cut(question, [c.fill for c in question.canaries if c.id in known])
        noted.append(replace(about, notes=(*about.notes, *filter(None, [note]))))
    return noted


def note_on_cut(question: Question, fills: Sequence[str]) -> str | None:
    """That canaries which look learned do so up to some token of their secrets only.

    Each token of the secrets `fills` is compared with the same token of 256 random candidates,
    see `learned_until`. None where nothing looks cut, and for served models, whose requests are
    counted. Costs the end of a row for each secret and each candidate.
    """
    format, model = question.format, question.model
    if model.facts.device == "served" or not fills:
        return None
    mine = fills[:_MOST_CANARIES]
    drawn = format.sample(rows_compared(question, fills) - len(mine), rng=question.rng(_STREAM))
    bits = _bits_of_tokens(question, [*mine, *drawn])
    if bits is None:
        return None
    width = min(np.isfinite(row).sum() for row in bits[: len(mine)])
    own, others = bits[: len(mine), :width], bits[len(mine) :, :width]
    there = np.isfinite(others)
    means = np.where(there, others, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    places = np.flatnonzero((there.mean(axis=0) > 0.5) & (means >= _LEARNABLE_BITS))
    shares = np.empty((len(own), len(places)))
    for column, place in enumerate(places):
        known = np.sort(others[there[:, place], place])
        below, upto = (np.searchsorted(known, own[:, place], side) for side in ("left", "right"))
        shares[:, column] = (below + upto + 1) / (2 * (len(known) + 1))
    cut = learned_until(shares)
    if cut is None:
        return None
    return (
        f"The first {places[cut - 1] + 1} of {width} tokens of the secrets of "
        f"{format.masked!r} {_MARK}. Was the training cut there, by a length limit (max_length) "
        "or packing? Then the canaries were learned as far as they were read, and their exposure "
        "is too low."
    )


def rows_compared(question: Question, fills: Sequence[str]) -> int:
    """How many rows `note_on_cut` scores: secrets, and random candidates."""
    return min(len(fills), _MOST_CANARIES) + min(_DRAWS, question.format.size)


def cut_in(notes: Iterable[str]) -> list[str]:
    """Those of an audit's notes that say so."""
    return [note for note in notes if _MARK in note]


def _bits_of_tokens(question: Question, fills: Sequence[str]) -> NDArray[np.float64] | None:
    """What each token of each fill costs in bits, NaN behind its last; None if it is not known."""
    format, encoder = question.format, question.encoder
    encodings = encoder.candidates(format, fills)
    rows = Rows.of([encoding.ids for encoding in encodings])
    spans = []
    for fill, encoding in zip(fills, encodings, strict=True):
        begin = encoder.context_length(format, encoding)
        if begin is None or encoding.spans is None:
            return None
        end = len(format.prefix) + len(fill)
        spans.append((max(begin, 1), sum(a < end for a, _ in encoding.spans)))
    batcher: Batcher = question.batcher("comparing parts of the secrets", int(rows.scored.sum()))
    costs = -batcher.score(rows, alike=True).astype(np.float64) / LN2
    first = np.cumsum(rows.scored) - rows.scored
    table = np.full((len(fills), max(end - begin for begin, end in spans)), np.nan)
    for row, ((begin, end), at) in enumerate(zip(spans, first.tolist(), strict=True)):
        table[row, : end - begin] = np.minimum(costs[at + begin - 1 : at + end - 1], 1e6)
    return table

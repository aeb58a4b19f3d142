"""The start token after which text is most likely: what training put before each text."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from canary.errors import UnsupportedError
from canary.formats.format import Format
from canary.models.language_model import FloatArray, LanguageModel, Rows
from canary.scoring.batcher import Batcher, row_sums
from canary.scoring.run_options import RunOptions
from canary.scoring.served_requests import announce
from canary.scoring.start_notes import StartChoice, TriedStart
from canary.statistics.number_checks import LN2
from canary.tokens import starts
from canary.tokens.candidates import CandidateEncoder

Floats = NDArray[np.float64]
Priced = dict[str | None, Floats]
Score = Callable[[Rows], FloatArray]

MOST_STARTS = 6
"""Start tokens that are compared where each costs much, the chosen one included."""

MOST_TEXTS = 64
"""Texts whose beginnings are asked, at most."""

_MOST_TOKENS = 64  # of a text, after its context
_MOST_ASKED = 8  # texts and tokens of each, where each token is a request
_MANY, _FEW_TEXTS = 16, 2  # more tokens than these are first tried on two texts
_LEARNED = 1 / 3  # of the bits of ordinary text, by the token, has what was learned by heart
_OF_CHANCE = 0.92  # of the bits that chance takes, first tokens cost less
_ONE_TEXT_BITS = 4.0  # by so much is a single text clearly worse
_IMPOSSIBLE_BITS = 1e4  # of a text that the model gives probability 0


def choose_start(
    model: LanguageModel, formats: Sequence[Format], options: RunOptions, *, example: str = ""
) -> StartChoice:
    """The start token after which text that holds no secret is most likely, and the evidence.

    The evidence is `start_texts`, at most 64 of them, or else the fixed text of the formats
    and ordinary sentences. No fill of a canary is scored, so p-values stay valid. Fixed text
    that was learned with the canaries is a text of the training, and alone decides. Where
    there are no formats, `example` is a text.

    Where others are within two standard errors of the best, one is taken that is usual between
    texts. A token after which first tokens cost 92 % of what they would by chance never came
    before a text. With nothing it is compared by all but first tokens, which have no price there.
    """
    context, texts = options.context, options.start_texts
    plain = CandidateEncoder(model.tokenizer, None, context)
    own = starts.own_start(plain, example or formats[0].candidate(formats[0].unrank(0)))
    if own is not None:
        return StartChoice(None, "tokenizer", own=own)
    possible = starts.possible_starts(model.tokenizer, model.facts.vocabulary)
    if not context and any(not format.prefix for format in formats):
        del possible[None]  # nothing before a hole: its first token would have no price
    if len(possible) < 2:
        return StartChoice(next(iter(possible), None), "alone", context=bool(context))
    whole = "score" in model.facts.capabilities
    bounds = None if whole else getattr(model, "score_at_most", None)
    most = (MOST_TEXTS, _MOST_TOKENS) if whole else (_MOST_ASKED, _MOST_ASKED)
    prefixes = [format.prefix.rstrip() for format in formats]
    evidence = list(starts.evidence(plain, prefixes, texts, model.facts.length_limit, most))
    if not (whole or bounds) or not evidence:
        return StartChoice(None, "unpriced")
    if bounds:
        usual = starts.usual_first(model.tokenizer, model.facts.vocabulary)
        possible = {token: possible[token] for token in usual if token in possible}
        possible = dict(islice(possible.items(), MOST_STARTS))
    tokens = len(possible) * sum(len(ids) for ids, _ in evidence)
    rows = tokens if bounds else len(possible) * len(evidence)
    announce(model, lambda: rows, what="choice of the start token")
    progress = options.begin("choosing the start token", tokens, model, requests=rows)
    batcher = Batcher(model, batch_size=options.batch_size, progress=progress)
    score = bounds or batcher.score
    asked = possible
    if len(possible) > _MANY:
        few = _priced(score, possible, evidence[:_FEW_TEXTS])
        best = sorted(few, key=lambda token: float(few[token].sum()))[:_MANY]
        asked = {t: start for t, start in possible.items() if t in best or t is None}
    priced = _priced(score, asked, evidence)
    if not priced:
        return StartChoice(None, "unpriced")
    fixed = 0 if texts else sum(first == 1 for _, first in evidence[: len(set(formats))])
    lengths = np.array([len(ids) - first for ids, first in evidence], np.float64)
    each_bits = np.min([bits[0] for bits in priced.values()], axis=0)

    def rate(some: slice) -> float:
        return float(each_bits[some].sum() / lengths[some].sum())

    learned = 0 < fixed < len(evidence) and rate(slice(fixed)) < _LEARNED * rate(slice(fixed, None))
    if learned:
        evidence = evidence[:fixed]
        priced = {token: bits[:, :fixed] for token, bits in priced.items()}
    firsts = sum(first == 1 for _, first in evidence)
    chance = firsts * _OF_CHANCE * math.log2(model.facts.vocabulary)
    tried = [_tried(token, priced.get(token), chance) for token in possible]
    token = _best(tried, priced, learned=learned, noise=model.facts.noise_bits(max(tokens, 1)))
    for place, each in enumerate(tried):
        if each.likely and each.token != token:
            worse = _clearly_worse(_extra(priced, each.token, token))
            tried[place] = replace(each, contender=not worse)
    tried.sort(key=lambda each: (not each.likely, each.later_bits is None, each.later_bits or 0.0))
    why: Literal["evidence", "floors"] = "floors" if bounds else "evidence"
    return StartChoice(token, why, tried=tuple(tried), texts=len(evidence))


def _priced(
    score: Score, possible: Mapping[str | None, tuple[int, ...]], evidence: Sequence[starts.Text]
) -> Priced:
    """The bits of each text after each start token that a server can be asked for.

    Arrays of shape (2, texts): what comes after the first token, and the first token.
    """
    try:
        return _bits(score, possible, evidence)
    except UnsupportedError:  # a server that takes texts cannot be asked for every token
        found: Priced = {}
        for token, start in possible.items():
            with suppress(UnsupportedError):
                found |= _bits(score, {token: start}, evidence)
        return found


def _bits(
    score: Score, possible: Mapping[str | None, tuple[int, ...]], evidence: Sequence[starts.Text]
) -> Priced:
    lengths = [len(start) for start in possible.values()]
    rows = Rows.of([start + ids for start in possible.values() for ids, _ in evidence])
    log_probs = np.maximum(score(rows), -_IMPOSSIBLE_BITS)
    every = row_sums(log_probs, rows)
    heads = np.array([length + first - 1 for length in lengths for _, first in evidence])
    before = row_sums(log_probs, rows, at_most=heads)  # up to the first that counts
    own = row_sums(log_probs, rows, at_most=np.repeat(lengths, len(evidence)))
    shape = (len(lengths), len(evidence))
    counted = np.array([first == 1 for _, first in evidence])
    bits = np.stack([-(every - before).reshape(shape), -own.reshape(shape) * counted], axis=1) / LN2
    return dict(zip(possible, np.minimum(bits, _IMPOSSIBLE_BITS), strict=True))


def _tried(token: str | None, bits: Floats | None, chance: float) -> TriedStart:
    """A start token with its bits; `chance` is what first tokens cost after one that is none."""
    if bits is None:
        return TriedStart(token, None, None, likely=False)
    later, first = (round(float(part), 2) for part in bits.sum(axis=1))
    likely = token is None or first < chance or not chance
    return TriedStart(token, later, None if token is None else first, likely=likely)


def _best(
    tried: Sequence[TriedStart], priced: Priced, *, learned: bool, noise: float
) -> str | None:
    """The best token, or a usual one that may be, unless text is clearly likelier after nothing."""
    known = [each for each in tried if each.token is not None and each.later_bits is not None]
    nothing_tried = any(each.token is None for each in tried)
    likely = [each for each in known if each.likely] or ([] if nothing_tried else known)
    if not likely:
        return None
    costs = {each.token: (each.later_bits or 0.0) + (each.first_bits or 0.0) for each in likely}
    best = next(token for token, cost in costs.items() if cost <= min(costs.values()) + noise)
    usual = [
        token
        for token in costs
        if token in starts.USUAL_STARTS and not _clearly_worse(_extra(priced, token, best))
    ]
    if usual and not learned:
        best = min(usual, key=lambda token: costs[token])
    if None not in priced:
        return best
    more = _extra(priced, best, None)
    worse = more.sum() > noise if learned else _clearly_worse(more)
    return None if worse else best


def _extra(priced: Priced, token: str | None, other: str | None) -> Floats:
    """What each text costs more after one token than after another; nothing has no first tokens."""
    difference = priced[token] - priced[other]
    extra: Floats = difference[0] if None in (token, other) else difference.sum(axis=0)
    return extra


def _clearly_worse(difference: Floats) -> bool:
    """Whether texts cost more, beyond two standard errors of their mean difference."""
    if len(difference) < 2:
        return bool(difference.sum() > _ONE_TEXT_BITS)
    error = float(difference.std(ddof=1)) / len(difference) ** 0.5
    return bool(difference.mean() > 2.0 * error)

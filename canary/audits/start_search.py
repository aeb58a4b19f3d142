"""The start token of an audit: found by what the model shows, and compared with others."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from canary.audits.by_draws import Sample
from canary.audits.start_notes import RivalStart, StartChoice, TriedStart
from canary.corpus.canaries import CanarySet
from canary.corpus.occurrences import find_canaries
from canary.errors import InputError, ModelError, UnsupportedError
from canary.formats.format import Format
from canary.models.language_model import FloatArray, LanguageModel, Rows
from canary.records.validation import AUTO, named_start
from canary.scoring.batcher import Batcher, announce, row_sums
from canary.scoring.run_options import RunOptions
from canary.statistics.number_checks import LN2
from canary.statistics.pvalues import fisher
from canary.tokens import starts
from canary.tokens.candidates import CandidateEncoder

Floats = NDArray[np.float64]
Priced = dict[str | None, Floats]
Score = Callable[[Rows], FloatArray]
Options = TypeVar("Options", bound=RunOptions)

_MOST_TEXTS = 64
_MOST_TOKENS = 64  # of a text, after its context
_MOST_ASKED = 8  # texts and tokens of each, where each token is a request
_MANY, _FEW_TEXTS = 16, 2  # more tokens than these are first tried on two texts
_LEARNED = 1 / 3  # of the bits of ordinary text, by the token, has what was learned by heart
_OF_CHANCE = 0.92  # of the bits that chance takes, first tokens cost less
_ONE_TEXT_BITS = 4.0  # by so much is a single text clearly worse
_IMPOSSIBLE_BITS = 1e4  # of a text that the model gives probability 0

LEVEL = 0.01
"""How often a model that learned nothing has a rival, at most."""

_MOST_STARTS = 6  # the chosen one included
_MOST_CANARIES = 128  # of a format
_DRAWS, _DRAWS_FOR_FEW, _FEW = 128, 1_024, 4
_GAP_BITS = 1.0
_DOUBT = 0.2  # share of what a curve says beyond its draws
_STREAM = 0x73746172


def started(
    model: LanguageModel,
    formats: Sequence[Format],
    options: Options,
    *,
    canaries: CanarySet | None,
    draws: int,
) -> tuple[Options, StartChoice]:
    """The options with the start token that is meant, and why it is.

    An InputError is raised if a start text holds a canary (a choice that depends on secrets
    would make p-values wrong), there are none, or the start token was named besides.
    """
    asked, role = options, "" if canaries is None else canaries.role
    options = options.in_chat(model.tokenizer, formats, role)
    texts = options.start_texts
    if texts is not None and canaries is not None and canaries.canaries:
        find = find_canaries(canaries, canaries.canaries)
        for number, text in enumerate(texts, 1):
            if hits := find(text):
                raise InputError(
                    f"text {number:,} of start_texts holds {hits[0][2]}, and a start token must "
                    "not be chosen by secrets",
                    cure="give texts of the corpus without canaries",
                )
    if texts is not None and not texts:
        cure = "give a few texts of the training corpus, or none"
        raise InputError("there are no start_texts", cure=cure)
    if options.start_token == AUTO:
        start = choose_start(model, formats, options)
    elif texts is not None:
        raise InputError(
            "start_texts were given, and the start token was named, so nothing is chosen by them",
            cure="leave one of start_texts and start_token out",
        )
    else:
        plain = CandidateEncoder(model.tokenizer, None, options.context)
        own = starts.own_start(plain, formats[0].candidate(formats[0].unrank(0))) or ""
        named = named_start(options.start_token)
        why: Literal["asked", "template"] = "asked"
        if options.context != asked.context:
            why = "template"
        start = StartChoice(named, why, own=own, context=bool(options.context))
    options = replace(options, start_token=start.token, start_texts=None)
    if canaries is not None:
        start = _with_rivals(model, canaries, start, options, draws=draws)
    return options, start


def choose_start(
    model: LanguageModel, formats: Sequence[Format], options: RunOptions
) -> StartChoice:
    """The start token after which text that holds no secret is most likely, and the evidence.

    The evidence is `start_texts`, at most 64 of them, or else the fixed text of the formats
    and ordinary sentences. No fill of a canary is priced, so p-values stay valid. Fixed text
    that was learned with the canaries is a text of the training, and alone decides.

    Where others are within two standard errors of the best, one is taken that is usual between
    texts. A token after which first tokens cost 92 % of what they would by chance never came
    before a text. With nothing it is compared by all but first tokens, which have no price there.
    """
    context, texts = options.context, options.start_texts
    plain = CandidateEncoder(model.tokenizer, None, context)
    own = starts.own_start(plain, formats[0].candidate(formats[0].unrank(0)))
    if own is not None:
        return StartChoice(None, "tokenizer", own=own)
    possible = starts.possible_starts(model.tokenizer, model.facts.vocabulary)
    if not context and any(not format.prefix for format in formats):
        del possible[None]  # nothing before a hole: its first token would have no price
    if len(possible) < 2:
        return StartChoice(next(iter(possible), None), "alone", context=bool(context))
    whole = "score" in model.facts.capabilities
    bounds = None if whole else getattr(model, "score_at_most", None)
    most = (_MOST_TEXTS, _MOST_TOKENS) if whole else (_MOST_ASKED, _MOST_ASKED)
    prefixes = [format.prefix.rstrip() for format in formats]
    evidence = list(starts.evidence(plain, prefixes, texts, model.facts.length_limit, most))
    if not (whole or bounds) or not evidence:
        return StartChoice(None, "unpriced")
    if bounds:
        usual = starts.usual_first(model.tokenizer, model.facts.vocabulary)
        possible = {token: possible[token] for token in usual if token in possible}
        possible = dict(islice(possible.items(), _MOST_STARTS))
    tokens = len(possible) * sum(len(ids) for ids, _ in evidence)
    announce(model, lambda: tokens if bounds else len(possible) * len(evidence))
    progress = options.begin("choosing the start token", tokens)
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


def _with_rivals(
    model: LanguageModel,
    canaries: CanarySet,
    choice: StartChoice,
    options: RunOptions,
    *,
    draws: int,
) -> StartChoice:
    """The choice with what speaks against it: starts after which canaries are more exposed.

    Injected canaries and at most `draws` uniform draws of each format are priced after the
    chosen start token and after `_others`. Each is a rival if, for the canaries of one number
    of copies or all, Fisher's p-value is significant (Bonferroni's level over starts and
    groups) and the median exposure, off skew-normal curves, is higher by more than a bit and a
    fifth of what lies beyond the draws. It chooses nothing, so p-values stay what they are.
    """
    if (
        choice.why not in ("evidence", "asked", "template")
        or "score" not in model.facts.capabilities
    ):
        return choice
    injected = _Injected.of(canaries, draws=draws, seed=options.seed)
    mine = options.encoder(model)
    others = list(_others(model, mine, injected, choice)) if injected.groups else []
    if not others:
        return choice
    rows, tokens = 0, 0
    for format, fills, drawn in injected.formats:
        (first,) = mine.encode([format.candidate(fills[0])])
        rows += len(fills) + len(drawn)
        tokens += len(first.ids) * (len(fills) + len(drawn))
    announce(model, lambda: (1 + len(others)) * rows)
    progress = options.begin("checking the start token", (1 + len(others)) * tokens)
    batcher = Batcher(model, batch_size=options.batch_size, progress=progress)
    chosen = injected.exposures(batcher, mine)
    level = LEVEL / (len(others) * len(chosen))
    rivals, compared = [], []
    for encoder in others:
        # A hole begins the candidate, it is too long, or a server cannot be asked for it.
        with suppress(InputError, ModelError, UnsupportedError):
            exposures = injected.exposures(batcher, encoder)
            token = encoder.start_token
            more, bare = ("", not encoder.context) if mine.context else (encoder.context, False)
            compared.append(starts.shown_before(token, more, bare=bare))
            gaps = []
            for copies, (bits, p_value) in exposures.items():
                own = chosen[copies][0]
                doubt = _DOUBT * max(0.0, own - math.log2(injected.least_draws))
                if p_value <= level and bits > own + _GAP_BITS + doubt:
                    rounded = round(bits, 2), round(own, 2)
                    gaps.append(RivalStart(token, copies, *rounded, p_value, more, bare))
            if gaps:
                rivals.append(max(gaps, key=_gap))
    rivals.sort(key=_gap, reverse=True)
    return replace(choice, rivals=tuple(rivals), compared=tuple(compared))


def _gap(rival: RivalStart) -> float:
    return rival.bits - rival.chosen_bits


def _others(
    model: LanguageModel, mine: CandidateEncoder, injected: _Injected, choice: StartChoice
) -> Iterator[CandidateEncoder]:
    """What else may come before the candidates, but for what makes the same tokens as another.

    The five next best or most usual start tokens, a space, and no context where there is one.
    """
    if choice.why == "evidence":
        tokens = [each.token for each in choice.tried if each.later_bits is not None]
    elif choice.own:  # a start token would come before one that the tokenizer puts there
        tokens = [None]
    else:
        tokens = starts.usual_first(mine.tokenizer, model.facts.vocabulary)
    tokens = [token for token in tokens if token != choice.token]
    before = [(token, mine.context) for token in tokens[: _MOST_STARTS - 1]]
    # After the usual tokens too: a template goes with a start token of its own.
    after = [choice.token, *tokens[:2]] if mine.context else [choice.token]
    before += [(token, "" if mine.context else " ") for token in after]
    texts = [f.candidate(fill) for f, fills, _ in injected.formats for fill in fills[:2]]
    seen = {tuple(e.ids for e in mine.encode(texts))}
    for token, context in before:
        with suppress(InputError, ModelError):  # it knows no such character
            encoder = CandidateEncoder(mine.tokenizer, token, context)
            ids = tuple(e.ids for e in encoder.encode(texts))
            if ids not in seen:
                seen.add(ids)
                yield encoder


@dataclass(frozen=True)
class _Injected:
    """Formats with fills of canaries and of draws; `groups` are places by copies, None for all."""

    formats: Sequence[tuple[Format, Sequence[str], Sequence[str]]]
    groups: Mapping[int | None, Sequence[int]]
    least_draws: int

    @classmethod
    def of(cls, canaries: CanarySet, *, draws: int, seed: int) -> _Injected:
        formats, copies = [], []
        for number, format in enumerate(canaries.formats):
            mine = [c for c in canaries.injected if c.format == number]
            mine = sorted(mine, key=lambda c: -c.repetitions)[:_MOST_CANARIES]
            if mine:
                copies += [c.repetitions for c in mine]
                wanted = _DRAWS if len(mine) >= _FEW else _DRAWS_FOR_FEW
                rng = np.random.default_rng([_STREAM, seed, number])
                drawn = format.sample(min(wanted, draws, format.size), rng=rng)
                formats.append((format, [c.fill for c in mine], drawn))
        groups: dict[int | None, Sequence[int]] = {
            n: [place for place, own in enumerate(copies) if own == n] for n in sorted({*copies})
        }
        if len(groups) > 1:
            groups[None] = range(len(copies))
        return cls(formats, groups, min((len(drawn) for _, _, drawn in formats), default=0))

    def exposures(
        self, batcher: Batcher, encoder: CandidateEncoder
    ) -> dict[int | None, tuple[float, float]]:
        """Median exposure, in bits, and Fisher's p-value of each group."""
        bits: list[float] = []
        p_values: list[float] = []
        for format, fills, drawn in self.formats:
            found = Sample.of(format, fills, drawn, encoder).measure(batcher)
            counted = [e.lower_bits if e.bits is None else e.bits for e in found.exposures]
            estimated = np.where(np.isnan(found.curve_bits), counted, found.curve_bits)
            bits += np.minimum(estimated, format.bits).tolist()
            p_values += [float(e.p_value or 1.0) for e in found.exposures]
        return {
            copies: (
                statistics.median([bits[at] for at in places]),
                fisher([p_values[at] for at in places], shared_draws=self.least_draws).p_value,
            )
            for copies, places in self.groups.items()
        }

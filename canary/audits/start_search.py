"""The start token of an audit: found by what the model shows, and compared with others."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeVar

import numpy as np

from canary.audits.by_draws import Sample
from canary.audits.start_ranks import median_by_ranks
from canary.corpus.canaries import CanarySet
from canary.corpus.occurrences import find_canaries
from canary.errors import InputError, ModelError, UnsupportedError
from canary.formats.format import Format
from canary.models.language_model import LanguageModel
from canary.records.validation import AUTO, named_start
from canary.scoring.batcher import Batcher
from canary.scoring.run_options import RunOptions
from canary.scoring.served_requests import announce
from canary.scoring.start_choice import MOST_STARTS, choose_start
from canary.scoring.start_notes import RivalStart, StartChoice
from canary.scoring.time_expected import Announced
from canary.statistics.numbers import plural
from canary.statistics.pvalues import fisher
from canary.tokens import starts
from canary.tokens.candidates import CandidateEncoder, check_new_tokens
from canary.tokens.chat_context import context_before
from canary.tokens.chats import ROLES

Options = TypeVar("Options", bound=RunOptions)
_Suspect = tuple[CandidateEncoder, Sequence[RivalStart]]  # with its gaps, the widest first

LEVEL = 0.01
"""How often a model that learned nothing has a rival, at most."""

_MOST_CANARIES = 128  # of a format
_DRAWS, _DRAWS_FOR_FEW, _FEW = 128, 1_024, 4
_GAP_BITS = 1.0
_DOUBT = 0.2  # share of what a curve says beyond its draws
_MEMORIZED_BITS, _LITTLE = 10.0, 0.5  # above all usual limits, a share of the rest is little
_STREAM = 0x73746172


def started(
    model: LanguageModel,
    formats: Sequence[Format],
    options: Options,
    *,
    canaries: CanarySet | None,
    draws: int,
    after: Callable[[Options], int] | None = None,
) -> tuple[Options, StartChoice]:
    """The options with the start token that is meant, and why it is.

    `after` gives the rows that are to be priced then, for the forecast of a served model.
    An InputError is raised if a start text holds a canary (a choice that depends on secrets
    would make p-values wrong), there are none, or the start token was named besides.
    """
    asked, role = options, "" if canaries is None else canaries.role
    options = options.in_chat(model.tokenizer, formats, role)
    plain = CandidateEncoder(model.tokenizer, None, options.context)
    for format in formats:  # before minutes are spent on a start
        check_new_tokens(format, plain)
        known = () if canaries is None else canaries
        mine = (c.fill for c in known if canaries and canaries.formats[c.format] == format)
        plain.filled(format, [format.unrank(0), *mine])
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
        own = starts.own_start(plain, formats[0].candidate(formats[0].unrank(0))) or ""
        named = named_start(options.start_token)
        why: Literal["asked", "template"] = "asked"
        if options.context != asked.context:
            why = "template"
        start = StartChoice(named, why, own=own, context=bool(options.context))
    options = replace(options, start_token=start.token, start_texts=None)
    if canaries is not None:
        start = _with_rivals(model, canaries, start, options, draws=draws, after=after)
    return options, start


def _with_rivals(
    model: LanguageModel,
    canaries: CanarySet,
    choice: StartChoice,
    options: Options,
    *,
    draws: int,
    after: Callable[[Options], int] | None,
) -> StartChoice:
    """The choice with what speaks against it: starts after which canaries are more exposed.

    Injected canaries and at most `draws` uniform draws of each format are scored after the
    chosen start token and after `_others`. Each is a rival if, for the canaries of one number
    of copies or all, Fisher's p-value is significant (Bonferroni's level over starts and
    groups) and the median exposure, off skew-normal curves, is higher by more than a bit and a
    fifth of what lies beyond the draws, unless exact ranks show that it is not. It chooses
    nothing, so p-values stay what they are.
    """
    plan = _Plan.of(model, canaries, choice, options, draws=draws)
    injected, mine, others = plan.injected, plan.mine, plan.others
    if not others:
        return choice
    checked = "context" if choice.why == "template" else "start token"
    following = None if after is None else partial(after, options)
    announce(model, lambda: plan.rows, after=following, what=f"check of the {checked}")
    known, encoded = injected.samples(mine), []
    for encoder in others:
        with suppress(InputError, ModelError, UnsupportedError):  # a hole begins the candidate
            encoded.append((encoder, injected.samples(encoder)))
    every = [sample for some in (known, *(some for _, some in encoded)) for sample in some]
    tokens = sum(sum(sample.rows.work(model)) for sample in every)
    progress = options.begin(f"checking the {checked}", tokens, model, requests=plan.rows)
    if model.facts.device != "served":
        named = f"{checked} that was named" if choice.why == "asked" else checked
        beside = plural(len(encoded), "other beginning")
        told = f"Comparing the {named} with {beside} takes about"
        each = f"here, before the measurement (for {plural(tokens, 'query', 'queries')})"
        said = Announced(options.progress, lambda time: f"{told} {time} {each}", tokens)
        progress = said.after(progress)
    batcher = Batcher(model, batch_size=options.batch_size, progress=progress)
    chosen = injected.exposures(batcher, known)
    level = LEVEL / (len(others) * len(chosen))
    suspects: list[_Suspect] = []
    compared = []
    for encoder, samples in encoded:
        # It is too long, or a server cannot be asked for it.
        with suppress(InputError, ModelError, UnsupportedError):
            exposures = injected.exposures(batcher, samples)
            token = encoder.start_token
            more, bare = ("", not encoder.context) if mine.context else (encoder.context, False)
            compared.append(starts.shown_before(token, more, bare=bare))
            gaps = []
            for copies, (bits, p_value) in exposures.items():
                own = chosen[copies][0]
                if p_value <= level and much_more(bits, own, draws=injected.least_draws):
                    rounded = round(bits, 2), round(own, 2)
                    gaps.append(RivalStart(token, copies, *rounded, p_value, more, bare))
            if gaps:
                suspects.append((encoder, sorted(gaps, key=_gap, reverse=True)))
    suspects.sort(key=lambda suspect: _gap(suspect[1][0]), reverse=True)
    rivals = _confirmed(model, plan, suspects, options)
    return replace(choice, rivals=tuple(rivals), compared=tuple(compared))


def _confirmed(
    model: LanguageModel, plan: _Plan, suspects: Sequence[_Suspect], options: RunOptions
) -> Iterator[RivalStart]:
    """The widest gap of each suspect, but for those before all that exact ranks clear.

    Few draws and a curve may be wrong by bits, in either direction. Where ranks are certain within
    few queries, they decide; elsewhere the suspicion stays.
    """
    sure = False
    for encoder, gaps in suspects:
        left = gaps if sure else [g for g in gaps if not _cleared(model, plan, encoder, g, options)]
        if left:
            sure = True
            yield left[0]


def _cleared(
    model: LanguageModel,
    plan: _Plan,
    encoder: CandidateEncoder,
    gap: RivalStart,
    options: RunOptions,
) -> bool:
    """Whether exact ranks show that some canaries are not much more exposed after a rival."""
    parts = plan.injected.parts(gap.repetitions)
    own = median_by_ranks(model, plan.mine, parts, options)
    other = None if own is None else median_by_ranks(model, encoder, parts, options)
    if own is None or other is None:
        return False
    size = max(format.size for format, _ in parts)  # all candidates are counted
    return not much_more(other[1], own[0], draws=size)


def much_more(bits: float, own: float, *, draws: int) -> bool:
    """Whether a median after another start is higher by more than curves are wrong.

    That is a bit, and a fifth of what lies beyond the draws. Where canaries are memorized after the
    chosen start already, so that no usual limit passes them, it is half of the bits above 10 more.
    """
    doubt = _DOUBT * max(0.0, own - math.log2(draws))
    return bits > own + _GAP_BITS + doubt + _LITTLE * max(0.0, own - _MEMORIZED_BITS)


def work_of_check(
    model: LanguageModel, canaries: CanarySet, choice: StartChoice, options: RunOptions, draws: int
) -> tuple[int, int]:
    """How many tokens comparing a chosen start with others takes: walked, and in whole rows."""
    plan = _Plan.of(model, canaries, choice, options, draws=draws)
    encoders = [plan.mine, *plan.others] if plan.others else []
    samples = [sample for encoder in encoders for sample in plan.injected.samples(encoder)]
    work = [sample.rows.work(model) for sample in samples]
    return sum(walked for walked, _ in work), sum(rows for _, rows in work)


@dataclass(frozen=True, eq=False)
class _Plan:
    """What is compared with a chosen start: `others` are empty if nothing is."""

    injected: _Injected
    mine: CandidateEncoder
    others: Sequence[CandidateEncoder]
    rows: int = 0

    @classmethod
    def of(
        cls,
        model: LanguageModel,
        canaries: CanarySet,
        choice: StartChoice,
        options: RunOptions,
        *,
        draws: int,
    ) -> _Plan:
        injected = _Injected.of(canaries, draws=draws, seed=options.seed)
        mine = options.encoder(model)
        asked = choice.why in ("evidence", "asked", "template")
        if not asked or "score" not in model.facts.capabilities or not injected.groups:
            return cls(injected, mine, [])
        others = list(_others(model, mine, injected, choice))
        rows = sum(len(fills) + len(drawn) for _, fills, drawn in injected.formats)
        return cls(injected, mine, others, (1 + len(others)) * rows if others else 0)


def _gap(rival: RivalStart) -> float:
    return rival.bits - rival.chosen_bits


def _others(
    model: LanguageModel, mine: CandidateEncoder, injected: _Injected, choice: StartChoice
) -> Iterator[CandidateEncoder]:
    """What else may come before the candidates, but for what makes the same tokens as another.

    The five next best or most usual start tokens, a space, and no context where there is one; the
    chat template of the tokenizer where there is none. A chat template leaves nothing open but
    whether training used it.
    """
    if choice.why == "evidence":
        tokens = [each.token for each in choice.tried if each.later_bits is not None]
    elif choice.why == "template":
        tokens = []
    elif choice.own:  # a start token would come before one that the tokenizer puts there
        tokens = [None]
    else:
        tokens = starts.usual_first(mine.tokenizer, model.facts.vocabulary)
    tokens = [token for token in tokens if token != choice.token]
    before = [(token, mine.context) for token in tokens[: MOST_STARTS - 1]]
    # After the usual tokens too: a template goes with a start token of its own.
    after = [choice.token, *tokens[:2]] if mine.context else [choice.token]
    before += [(token, "" if mine.context else " ") for token in after]
    chats = ROLES[:2] if not mine.context and getattr(mine.tokenizer, "chat", None) else ()
    for role in chats:
        with suppress(InputError, UnsupportedError):  # it does not serve
            before.append((None, context_before(mine.tokenizer, injected.spaces, role)))
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

    def parts(self, copies: int | None) -> list[tuple[Format, list[str]]]:
        """The formats of one of `groups`, each with the fills of its canaries."""
        places, first, found = {*self.groups[copies]}, 0, []
        for format, fills, _ in self.formats:
            mine = [fill for place, fill in enumerate(fills, first) if place in places]
            first += len(fills)
            if mine:
                found.append((format, mine))
        return found

    @property
    def spaces(self) -> list[Format]:
        """The formats alone."""
        return [format for format, _, _ in self.formats]

    def samples(self, encoder: CandidateEncoder) -> list[Sample]:
        """Those of each format, encoded."""
        return [Sample.of(*each, encoder) for each in self.formats]

    def exposures(
        self, batcher: Batcher, samples: Sequence[Sample]
    ) -> dict[int | None, tuple[float, float]]:
        """Median exposure, in bits, and Fisher's p-value of each group."""
        bits: list[float] = []
        p_values: list[float] = []
        for (format, _, _), sample in zip(self.formats, samples, strict=True):
            found = sample.measure(batcher)
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

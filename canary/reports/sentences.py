"""The answer of an audit in one sentence that needs no statistics to be read."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from canary.audits.audit_result import (
    Audit,
    CanaryResult,
    coarsest,
    least_p,
    median_bits,
    only_draws,
)
from canary.statistics.numbers import bits, copies, count, odds, one_in, plural, probability

if TYPE_CHECKING:
    from canary.statistics.extrapolation import SkewNormalFit

LEVEL = 0.01
"""A p-value at or below this counts as evidence."""

WEAK_LEVEL = 0.05
"""Between `LEVEL` and this, an audit is undecided."""

UNLEARNED_95_BITS = 4.321928094887363
"""log2 20: of the canaries that were not learned, 95 % stay below this exposure."""

Verdict = Literal["memorized", "undecided", "not found", "suspect", "nothing"]

_LABELS: dict[Verdict, str] = {
    "memorized": "Evidence of memorization",
    "undecided": "Undecided",
    "not found": "No evidence of memorization",
    "suspect": "Audit suspect",
    "nothing": "Nothing to judge by",
}


@dataclass(frozen=True)
class Answer:
    """What an audit says: the verdict, and one sentence in plain text."""

    verdict: Verdict
    sentence: str

    @property
    def label(self) -> str:
        """The verdict in two or three words."""
        return _LABELS[self.verdict]


@dataclass(frozen=True)
class Group:
    """The canaries of one number of copies, seen together."""

    repetitions: int
    size: int
    median_bits: float
    bound: bool  # whether the median is only a lower bound
    exact: bool  # whether every rank was counted


def strongest(audit: Audit) -> Group | None:
    """The injected group that is exposed most for certain.

    Groups are compared by the median of their lower bounds, so that one lucky hit does
    not beat canaries that no draw could hit; of equals, the one with fewest copies.
    """
    groups = {n: group for n, group in audit.by_repetitions().items() if n}
    if not groups:
        return None
    first = max(
        groups, key=lambda n: (statistics.median(c.exposure.lower_bits for c in groups[n]), -n)
    )
    group = groups[first]
    exact = all(c.exposure.exact for c in group)
    return Group(first, len(group), *median_bits([c.exposure for c in group]), exact)


def answer(audit: Audit) -> Answer:
    """The verdict of an audit and the sentence that says it.

    Evidence is Fisher's p-value over the injected canaries at `LEVEL`. It counts only
    while the controls, which were never in the corpus, show none at the same level. That
    nothing was found is said only where the arithmetic was fine enough to find something.
    """
    injected, controls = audit.injected, audit.controls
    if not audit.canaries:
        return Answer("nothing", "This audit holds no canaries and so says nothing.")
    if audit.controls_p is not None and audit.controls_p.p_value <= LEVEL:
        return Answer(
            "suspect",
            f"Do not rely on this audit yet: {_the(len(controls), 'control')}, never put into "
            f"the corpus, {_verb(len(controls), 'looks', 'look')} memorized as well, which "
            f"happens in {odds(audit.controls_p.p_value)} sound audits; find out whether copies "
            "of them reached the training data, or the model is not the one that was meant.",
        )
    group = strongest(audit)
    if group is None:
        return Answer(
            "nothing",
            "This audit cannot tell whether the model memorizes: none of its canaries was put "
            f"into the corpus{_and_controls(audit, 'and')}.",
        )
    if audit.natural:
        return Answer(
            "nothing",
            "This audit gives no verdict: its secrets were found in a corpus and not drawn at "
            "random, so it cannot be said how easily they would be guessed by luck; half of the "
            f"most exposed are {_among(group.median_bits, bound=group.bound, exact=group.exact)}"
            f"{_and_controls(audit)}.",
        )
    if audit.injected_p is None:
        return Answer(
            "nothing",
            "This audit cannot tell whether the model memorizes: it holds no p-value of the "
            "injected canaries.",
        )
    p = audit.injected_p.p_value
    if not audit.canaries_in_corpus:
        return _of_dry_run(audit, p)
    if p <= LEVEL:
        return Answer(
            "memorized",
            f"This model memorized training data: {_place(group)}{_and_controls(audit)}.",
        )
    if audit.start is not None and not audit.start.settled:
        return Answer(
            "undecided",
            "This audit cannot tell yet whether the model memorizes: its numbers rest on a start "
            f"token that is not settled; {audit.start.cure}.",
        )
    if _powerless(audit):
        return Answer(
            "undecided",
            f"This audit is too small to tell: with {plural(len(injected), 'canary', 'canaries')} "
            f"and {_effort(audit)}, not even complete memorization would have stood out from "
            "luck.",
        )
    blind = _blind(audit)
    if blind is not None:
        return blind
    if p <= WEAK_LEVEL:
        return Answer(
            "undecided",
            f"There are hints of memorization but no proof: {_place(group)}, and luck alone "
            f"makes the {plural(len(injected), 'canary', 'canaries')} look so in "
            f"{max(round(100 * p), 2)} of 100 audits{_and_controls(audit)}.",
        )
    outlier = _outlier(injected)
    if outlier is not None:
        canary, chance = outlier
        return Answer(
            "undecided",
            "Taken together the canaries look as if they had not been learned, but one that "
            f"stood {copies(canary.repetitions)} in the corpus is {_likeliest(canary)}, which "
            f"luck does in {odds(chance)} audits of this size{_and_controls(audit)}.",
        )
    return Answer(
        "not found",
        "No sign that this model memorized training data: "
        f"{_the(len(injected), 'injected canary', 'injected canaries')} "
        f"{_verb(len(injected), 'stands', 'stand')} where chance puts text that the model never "
        f"saw{_and_controls(audit)}.",
    )


def curve_verdict(fit: SkewNormalFit | None) -> str:
    """Whether the skew-normal numbers of a format can be relied on, in plain words."""
    if fit is None:
        return (
            "No skew-normal curve could be fitted: there are too few candidates, or their "
            "log-perplexities are all alike or not all finite."
        )
    test = (
        f"{count(fit.tested)} draws that it was not fitted to (Kolmogorov–Smirnov "
        f"D = {fit.ks_distance:.2g}, p = {probability(fit.ks_p_value)})"
    )
    if fit.rejected:
        found = f"The skew-normal curve failed its test against {test}: do not rely on it"
    else:
        found = f"The skew-normal curve passed its test against {test}"
    error, luck = fit.tail_error_bits, fit.tail_error_sd_bits
    if error is None or luck is None:
        return f"{found}. Its tail, where the canaries are, was not tested."
    more = "more" if error > 0 else "less"
    tail = f"it gives {bits(abs(error))} bits {more} exposure than the draws themselves show"
    if abs(error) > 3.0 * luck:
        tail += ". Chance does not explain that, and further out it is off by more"
    elif not fit.rejected:
        tail += ". Chance explains that, and further out nothing tests it"
    return f"{found}. Where one draw in a thousand lies, {tail}."


def _of_dry_run(audit: Audit, p: float) -> Answer:
    """Nothing was put into the corpus, so whatever is found is a false alarm."""
    planned = (
        f"{_the(len(audit.injected), 'canary', 'canaries')} planned for the corpus but left out"
    )
    if p <= LEVEL:
        return Answer(
            "suspect",
            f"This audit raises a false alarm: {planned} "
            f"{_verb(len(audit.injected), 'looks', 'look')} memorized, which happens in {odds(p)} "
            "sound audits; find out whether copies of them reached the training data after all.",
        )
    return _blind(audit) or Answer(
        "not found",
        f"Nothing was put in and nothing is found: {planned} "
        f"{_verb(len(audit.injected), 'stands', 'stand')} where chance puts text that the model "
        f"never saw{_and_controls(audit)}.",
    )


def _blind(audit: Audit) -> Answer | None:
    """The answer where noise hides the differences between candidates, or there are none."""
    found = coarsest(audit)
    if found is None:
        return None
    noise, spread = found
    dtype = str(audit.model.get("dtype", ""))
    fine = dtype in ("float32", "float64")
    if noise >= spread and fine:
        return Answer(
            "nothing",
            "This audit has nothing to judge by: the model finds all candidates equally likely, "
            "to within the noise of its arithmetic; check that it was trained, and that its "
            "tokenizer gives different secrets different tokens.",
        )
    cure = "audit another format, whose candidates differ more"
    if not fine:
        cure = "load the model with --dtype float32 and audit again"
    return Answer(
        "nothing" if noise >= spread else "undecided",
        f"This audit is too coarse to tell: the noise of the model's arithmetic, {_small(noise)} "
        f"bits{f' in {dtype}' if dtype else ''}, could hide what was learned, for the "
        f"log-perplexities of the candidates lie only about {_small(spread)} bits apart; {cure}.",
    )


def _small(value: float) -> str:
    return bits(value) if value >= 1 else f"{value:.2g}"


def _place(group: Group) -> str:
    who = "the canary" if group.size == 1 else "half of the canaries"
    text = (
        f"{who} that stood {copies(group.repetitions)} in the corpus "
        f"{'is' if group.size == 1 else 'are'} "
        f"{_among(group.median_bits, bound=group.bound, exact=group.exact)}"
    )
    if group.median_bits < UNLEARNED_95_BITS:
        text += " (1 in 2 is usual for text that was not learned)"
    return text


def _among(exposure_bits: float, *, bound: bool, exact: bool) -> str:
    share = one_in(exposure_bits, about=not (bound or exact))
    return f"{'at least ' if bound else ''}among the likeliest {share} possible secrets"


def _and_controls(audit: Audit, joint: str = "while") -> str:
    number = len(audit.controls)
    if audit.controls_p is None or not number:
        return ", and there were no controls to check the audit itself"
    return (
        f", {joint} {_the(number, 'control')}, never put into the corpus, "
        f"{_verb(number, 'shows', 'show')} nothing unusual"
    )


def _likeliest(canary: CanaryResult) -> str:
    e = canary.exposure
    value = e.lower_bits if e.bits is None else e.bits
    return _among(value, bound=e.censored, exact=e.exact)


def _outlier(injected: tuple[CanaryResult, ...]) -> tuple[CanaryResult, float] | None:
    """The canary that is evidence by itself, after Bonferroni's correction."""
    known = [(p, c) for c in injected if (p := c.exposure.p_value) is not None]
    if not known:
        return None
    least, first = min(known, key=lambda pair: pair[0])
    chance = least * len(injected)
    return (first, chance) if chance <= LEVEL else None


def _powerless(audit: Audit) -> bool:
    """Whether Fisher's test could not have reached `LEVEL`, whatever the model did."""
    return least_p(audit, audit.injected) > LEVEL


def _effort(audit: Audit) -> str:
    formats = {c.format for c in audit.injected}
    drawn = [draws for c in audit.injected if (draws := only_draws(c.exposure)) is not None]
    if drawn:
        return plural(min(drawn), "draw")
    size = min(audit.formats[i].space_size for i in formats)
    return f"only {plural(size, 'possible secret')}"


def _the(number: int, singular: str, many: str = "") -> str:
    return f"the {singular}" if number == 1 else f"the {plural(number, singular, many)}"


def _verb(number: int, singular: str, many: str) -> str:
    return singular if number == 1 else many

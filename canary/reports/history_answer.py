"""The answer of a training that was watched: what the model learned, and whether it was stopped."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from canary.audits.group_medians import median_bits
from canary.audits.history import AT_THE_END, History, Moment, WatchedFormat
from canary.gate.weak_limits import STRICT_BITS, asked_guesses, is_weak
from canary.reports.document import Text, basis, sentence
from canary.reports.limit_choice import choice_of, exposure_limit
from canary.reports.sentences import LEVEL, ROUNDING_BITS, guesses_of
from canary.statistics.exposures import Exposure
from canary.statistics.learned_parts import CONTROLS_LEVEL
from canary.statistics.numbers import copies, count, one_in
from canary.statistics.pvalues import fisher

_MORE_BITS = 1.0  # by which an earlier step showed more than the last: half as many guesses


def answer_of(whole: History) -> tuple[str, str, dict[str, Any]]:
    """What was learned, and whether and why the training was stopped: label, tone, values.

    The numbers are of the last measurement. Where an earlier one shows more, its step is named.
    The positive control is not judged. Whether it was learned is said of it alone.
    """
    history = whole.without_control()
    limit, reason = history.settings.get("stop_above_bits"), history.stop_reason or ""
    limited = isinstance(limit, int | float)
    over = history.stopped_at is not None
    too_late = over and AT_THE_END in reason
    last = history.measured[-1] if history.measured else None
    planted, alarm = (bool(last and _learned(history, last, of)) for of in (False, True))
    learned = planted and not alarm
    peak = _peak(history)
    faded = peak is not None and not planted and not alarm
    values: dict[str, Any] = {
        "over": over,
        "too_late": too_late,
        "stopped": over and not too_late,
        "calm": not over and limited and history.measured,
        "no_limit": not over and not limited,
        "limit": _limit_words(history, float(limit)) if isinstance(limit, int | float) else "",
        "at": history.stopped_at,
        "learned": learned,
        "alarm": alarm,
        "faded": faded,
        "chance": history.measured and not planted and not alarm,
        **_control(whole, alarm=alarm, shown=planted or faded),
    }
    if isinstance(limit, int | float):
        values |= _around(history, float(limit))
        values["stopped"] = values["stopped"] and not values["went_on"]
    warned = bool(history.findings)
    size, most_bits = _one_size(history), float(limit) if isinstance(limit, int | float) else 0.0
    weak = bool(size) and is_weak(size, most_bits)
    values["beside"] = values["chance"] and values["control"]
    missed = values["missed"]
    counted = history.batches.get("canaries") and not missed
    read = learned or faded or values["taught"] or counted
    labels = {
        "Nothing was measured": not history.measured,
        "The limit was exceeded, and nothing was stopped": too_late,
        "Easier to find than the limit allows, and training went on": over and values["went_on"],
        f"Stopped at step {count(history.stopped_at or 0)}: easier to find than the limit "
        "allows": over,
        "Do not rely on this measurement": alarm,
        "It is open whether the limit was kept": values.get("open"),
        "Within the limit while training, but the positive control was not learned": limited
        and missed
        and not warned,
        "Within the limit while training, but the limit is weak": weak and not warned,
        "Within the limit while training, but nothing shows that the secrets were read": limited
        and not (read or warned),
        "Within the limit while training": limited and not warned,
        "Within the limit, but the batches of this training have a fault": limited,
        "The model is memorizing the planted secrets (no limit was set)": learned,
        f"Memorized at step {count(peak.step if peak else 0)}, "
        "and not seen at the last step": faded,
        "No memorization was seen, but the positive control was not learned": missed and not warned,
        "No memorization was seen in this training": not warned,
        "No memorization was seen, but the batches of this training have a fault": True,
    }
    label = next(label for label, holds in labels.items() if holds)
    if last is None:
        return label, "undecided", values
    calm = "suspect" if alarm else "memorized" if learned and not limited else ""
    calm = "undecided" if faded or missed or (warned and not calm) else calm
    if limited and not alarm:
        calm = "not-found" if read and not (values["open"] or warned or weak) else "undecided"
    groups, least = _lower_ends(history, last)
    medians = {n: median_bits(group) for n, group in groups.items()}
    # A training is stopped by the lower ends; an estimate may hang on one draw.
    most = max(groups, key=lambda n: (bool(n), least[n], medians[n][1], n))
    median, bound = medians[most]
    elsewhere = over and not values["went_on"] and least[most] <= float(limit or 0.0)
    about = max(history.formats, key=lambda f: f.draws)
    values |= {
        "step": last.step,
        "times": copies(most or 1),
        "bound": bound,
        "why": reason if elsewhere else "",
        "draws": about.draws,
        **_guesses(groups[most], least[most], median),
    }
    one = learned and values["one"]
    edge = not bound and at_the_edge(about, median)
    values |= {
        "one": one,
        "not_one": learned and not one,
        "estimate": one and not bound and not edge,
    }
    values |= {"further_one": one and (bound or edge), "further": learned and bound}
    values["weak"] = limited and weak
    values["more"] = False
    if peak is not None and (learned or faded):
        _, then = _lower_ends(history, peak)
        highest = max((n for n in then if n), key=lambda n: (then[n], n))
        values |= {
            "more": learned and then[highest] > least[most] + _MORE_BITS,
            "peak": peak.step,
            "peak_times": copies(highest),
            "peak_share": one_in(then[highest], about=False),
        }
    values |= _choice(history, least[most], learned=learned) if values["no_limit"] else {}
    return label, "memorized" if over else calm, values


def _control(history: History, *, alarm: bool, shown: bool) -> dict[str, Any]:
    """Whether the positive control was learned at the last measurement; falsy without one.

    It is `missed` if it was not, and nothing else is `shown` to have been learned.
    """
    places = history.places().get(history.control, ()) if history.control else ()
    if not (places and history.measured) or alarm:
        return {"control": "", "taught": False, "missed": False}
    taught = _look_learned([history.measured[-1].exposures[at] for at in places])
    missed = not (taught or shown)
    unread = missed and not history.batches.get("canaries")
    return {
        "control": copies(history.control),
        "apart": len(places),
        "taught": taught,
        "missed": missed,
        "unread": unread,
    }


def _choice(history: History, least: float, *, learned: bool) -> dict[str, Any]:
    """Limits to choose from, and whether the last measurement was above them for sure."""
    values = choice_of(_one_size(history))
    over = [words for bits, words in values.pop("limits") if least > bits]
    known = sentence("history.would", limits=" or ".join(over)) if over and learned else ""
    return values | {"would": known}


def at_the_edge(about: WatchedFormat, bits: float) -> bool:
    """Whether so much is the most that draws show, where there are more secrets than draws."""
    return about.draws < about.space_size and bits >= math.log2(about.draws) - ROUNDING_BITS


def _lower_ends(
    history: History, moment: Moment
) -> tuple[dict[int, list[Exposure]], dict[int, float]]:
    """The exposures by number of copies at a moment, and the median of their lower ends."""
    groups = {n: [moment.exposures[at] for at in mine] for n, mine in history.places().items()}
    return groups, {n: statistics.median(e.lower_bits for e in each) for n, each in groups.items()}


def _peak(history: History) -> Moment | None:
    """The measurement at which most was seen of those that show learned secrets for sure.

    The level is shared by all measurements, and one at which controls look learned shows nothing.
    """
    level = LEVEL / max(len(history.measured), 1)
    shows = [
        moment
        for moment in history.measured
        if _learned(history, moment, controls=False, level=level)
        and not _learned(history, moment, controls=True)
    ]
    return max(
        shows,
        key=lambda m: (max(bits for n, bits in _lower_ends(history, m)[1].items() if n), m.step),
        default=None,
    )


def _learned(
    history: History,
    moment: Moment,
    controls: bool,  # noqa: FBT001 - which of two
    level: float = LEVEL,
) -> bool:
    """Whether a measurement shows that planted secrets, or the controls, look learned."""
    found = zip(history.canaries, moment.exposures, strict=True)
    some = [exposure for canary, exposure in found if (canary.repetitions == 0) is controls]
    return _look_learned(some, CONTROLS_LEVEL if controls else level)


def _look_learned(some: Sequence[Exposure], level: float = LEVEL) -> bool:
    known = [e.p_value for e in some if e.p_value is not None]
    draws = min((e.draws for e in some if e.draws is not None), default=None)
    return bool(known) and fisher(known, shared_draws=draws).p_value <= level


def _guesses(group: Sequence[Exposure], least: float, median: float) -> dict[str, Any]:
    """How many secrets of a group take at most how many guesses, and the typical one."""
    there = [e for e in group if e.lower_bits >= least - ROUNDING_BITS]
    sizes = {e.space_bits for e in group}
    one = len(sizes) == 1
    size = 2 ** sizes.pop() if one else 0
    return {
        "found": f"{count(len(there))} of {count(len(group))}",
        "one": one,
        "guesses": count(guesses_of(math.log2(size) - least)) if one else "",
        "typical": count(guesses_of(math.log2(size) - median)) if one else "",
        "size": count(round(size)),
        "blind": count(max(round(size) // 2, 1)),
        "share": one_in(least, about=False),
    }


def _limit_words(history: History, limit: float) -> str:
    return f"{exposure_limit(_one_size(history), limit)}; {sentence('limit.watched')}"


def _one_size(history: History) -> int:
    """The number of possible secrets, if all formats have the same; else 0."""
    sizes = {about.space_size for about in history.formats}
    return sizes.pop() if len(sizes) == 1 else 0


def basis_of(history: History, values: Mapping[str, Any]) -> Text:
    """Whether the model read the planted secrets, where it did not show that it did."""
    if not history.measured or values["learned"] or values["faded"]:
        return ""
    planned = any(canary.repetitions for canary in history.canaries)
    read = "watched" if planned and not history.shortage else "unknown"
    fact = "the planted secrets were in the training data"
    if read == "unknown" and values["taught"]:
        read = "partly"
        fact = f"the secrets that appeared {values['control']} were in the training data"
    return basis(read, fact, "this result", others_unknown=read == "partly")


def _around(history: History, limit: float) -> dict[str, Any]:
    """Where medians may have been above a limit that stopped nothing, and where last below it."""
    over = history.stopped_at is not None
    above: list[int] = []
    within: list[tuple[int, float]] = []  # with the highest median
    for moment in history.measured:
        if over and moment.step >= (history.stopped_at or 0):
            break
        medians = [
            median_bits([moment.exposures[at] for at in places])
            for copies, places in history.places().items()
            if copies
        ]
        if any(bound or median > limit for median, bound in medians):
            above.append(moment.step)
        else:
            within.append((moment.step, max((median for median, _ in medians), default=0.0)))
    last = f"step {count(within[-1][0])}" if within else ""
    beyond = bool(within) and limit > STRICT_BITS and within[-1][1] > STRICT_BITS
    steps = [moment.step for moment in history.measured]
    early = " to ".join(f"step {count(s)}" for s in dict.fromkeys(above[:: len(above) - 1 or 1]))
    return {
        "perhaps": "" if over else early,
        "earlier": early if over else "",
        "open": not over and above[-1:] > [step for step, _ in within[-1:]],
        "within": last,
        "beyond": beyond and bool(size := _one_size(history)),
        "strictly": count(asked_guesses(size, STRICT_BITS)) if beyond and size else "",
        "checkpoint": last if over and not beyond else "",
        "no_way": last if over and beyond else "",
        "none_within": over and not within,
        "went_on": over and steps[-1:] > [history.stopped_at or 0],
    }

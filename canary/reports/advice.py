"""What to do about an audit, from the numbers of its own canaries."""

from __future__ import annotations

import re

from scipy import special

from canary.audits.audit_result import Audit, combined_p
from canary.audits.by_rank import can_rank
from canary.audits.group_medians import median_bits
from canary.audits.search_ranks import with_search
from canary.corpus.placements import OF_RECORDS
from canary.gate.preconditions import POSITIVE_CONTROL
from canary.gate.verdict import Verdict
from canary.gate.weak_limits import asked_guesses, is_weak
from canary.reports.document import Text, paragraphs_of, said, said_in_one
from canary.reports.limit_choice import (
    enough_secrets,
    fails_strictly,
    in_digits,
    likely,
    limit_choice,
    takes_new_secrets,
    would_strictly,
)
from canary.reports.limits import (
    above_limit,
    learned_copies,
    left_found,
    listed,
    never_decides,
    only_some_learned,
    planting,
    planting_of,
    stricter,
    takes_more_secrets,
)
from canary.reports.open_limits import memorized_within
from canary.reports.recovery import Recovery, blind_guesses, median_guesses, untested_below
from canary.reports.sentences import answer
from canary.statistics.learned_parts import SHOWN_LEARNED
from canary.statistics.numbers import copies, count, plural

_TAILORED = ("exposure", "p-value", "extraction")
"""Checks whose failure `against` answers better than the finding, which knows one group alone."""

_SHORT = 1_000_000
"""Secrets of a form that anybody may try in full."""

_LONG = 10**9
"""Secrets of a form whose easiest can be judged by a limit of 10 bits."""

_COST = re.compile(r"about ([\d,]+) (?:draws|requests)")


def advice(audit: Audit, verdict: Verdict | None = None) -> list[Text]:
    """What to do, the first thing first; with a verdict, what follows from it."""
    start = audit.start
    if verdict is None and start is not None and start.rivals and answer(audit).case != "start":
        return [f"{start.cure[0].upper()}{start.cure[1:]}.", *_advice(audit), *_bounded(audit)]
    undecided = verdict is not None and verdict.outcome == "undecided"  # its cure says more
    return [*_advice(audit, verdict), *([] if undecided else _bounded(audit))]


def _bounded(audit: Audit) -> list[Text]:
    """What gives the number itself where draws give only a bound of the typical guesses."""
    groups = [[c.exposure for c in group] for group in audit.by_repetitions().values()]
    bounds = [e for group in groups if median_bits(group)[1] for e in group]
    if not bounds or any(e.draws is None for e in bounds):
        return []
    draws = min(e.draws for e in bounds if e.draws is not None)
    ranks, served = can_rank(audit.model), audit.model.get("device") == "served"
    return [*said("advice.bounds", draws=count(draws), ranks=ranks, served=served)]


def _advice(audit: Audit, verdict: Verdict | None = None) -> list[Text]:
    judged = answer(audit)
    outcome = judged.verdict if verdict is None else verdict.outcome
    if judged.verdict == "suspect":
        return [*said("advice.suspect")]
    if outcome == "memorized":
        limit = None if verdict is None else verdict.limit_bits
        return [*_maybe_control(audit, verdict), *against(audit, limit), *cures(verdict)]
    if outcome == "undecided" and verdict is not None:
        return cures(verdict)
    if verdict is not None:
        kind, above = planting_of(verdict), above_limit(audit, verdict)
        passed = {"trusted": kind == "claimed", "verified": kind == "checked", "above": above}
        passed |= {"above_short": above and _too_short(audit)}
        return [*said("advice.passed", **passed)]
    key, own = f"advice.{judged.case}", planting(audit) in ("own", "shown")
    return [*said(key, own=own)] if key in paragraphs_of() else []


def _maybe_control(audit: Audit, verdict: Verdict | None) -> list[Text]:
    """What to do where only canaries with very many copies were learned."""
    learned, most = learned_copies(audit), max(c.repetitions for c in audit.injected)
    asked = verdict is not None and verdict.control
    if asked or learned != [most] or most < POSITIVE_CONTROL or not only_some_learned(audit):
        return []
    return [*said("advice.maybe_control", copies=copies(most), number=str(most))]


def decisions(audit: Audit, verdict: Verdict | None = None) -> list[Text]:
    """The same for who decides about the model: in plain words, without commands."""
    judged = answer(audit)
    outcome = judged.verdict if verdict is None else verdict.outcome
    limit = None if verdict is None else verdict.limit_bits
    values: dict[str, object] = {"limit": verdict is not None}
    case = "undecided"
    if judged.verdict == "suspect":
        case = "suspect"
    elif outcome == "memorized":
        case, (first, safe) = outcome, _too_many(audit, limit)
        learned = learned_copies(audit)
        some = f"the secrets that the model learned ({listed(learned)})" if learned else ""
        found = "the secrets that were " + ("found" if verdict is None else "too easy to find")
        found += f" ({copies(first or 1)})"
        values["whose"] = found if first else some or "the planted secrets"
        values |= {"first": copies(first or 1), "untested": _untested(audit)}
        values |= limit_choice([("this model", audit)] if verdict is None else [])
        values |= {"even": first == 1 and not safe, **_next_test(audit, verdict)}
    elif outcome == "passed" and verdict is not None:
        case = "passed"
        values |= _passed(audit, verdict)
    elif verdict is not None:
        values |= _undecided(audit, verdict)
        case = "unread" if verdict.reason.check == "training data" else "undecided"
    elif judged.case in ("not_found", "dry_run"):
        case, values["own"] = judged.case, planting(audit) in ("own", "shown")
        values |= limit_choice([("this model", audit)] if judged.case == "not_found" else [])
    else:
        values["more"] = judged.case in ("hints", "outlier")
        values["again"] = values["unlimited"] = not values["more"]
    return [*said(f"decide.{case}", **values)]


def _passed(audit: Audit, verdict: Verdict) -> dict[str, object]:
    """What follows from a pass, for the words below ``decide.passed``."""
    kind = planting_of(verdict)
    some = only_some_learned(audit) if kind == "shown" and not verdict.rests_on else ""
    shown = kind in ("shown", "watched", "own", "") and not some
    values: dict[str, object] = {"trusted": kind == "claimed", "learned": some}
    weak, left = stricter(verdict), left_found(verdict)
    largest = "largest" in verdict.reason.subject
    tighter = weak and not (left or largest)
    replant = tighter and takes_new_secrets(audit)
    values |= {"tighter": tighter and not replant, "replant": replant,
               "enough": replant and enough_secrets(audit)}  # fmt: skip
    values |= {
        "longer": weak and largest,
        "weak": weak and not left,
        "strictly": weak,
        "left": left,
    }
    size, bits = verdict.space_size, verdict.limit_bits or 0.0
    values["asked"] = plural(asked_guesses(size, bits), "guess", "guesses") if weak else ""
    known = learned_copies(audit) if weak and not left else []
    untested = "" if verdict.control or not known else _untested(audit)
    values |= {"weak_learned": listed(known) if known else "", "weak_untested": untested}
    least = control = verdict.control
    if verdict.limit_bits is None:  # then nothing says that what was learned is little enough
        least = min([*learned_copies(audit), control])
    between = least == control and untested_below([audit], control)
    values |= {"control": control and copies(least), "between": between}
    within = memorized_within(verdict)
    values |= within | {"shown": shown and not (weak or left or within["but"])}
    values["partly"] = "" if within["but"] else some
    values["strict"] = would_strictly(audit) if tighter else ""
    unproven = kind in ("claimed", "checked") or some
    values |= {"used": unproven and not weak, "restrict": weak and not left}
    counted = shown and not (left or within["but"]) and verdict.rests_on == "verified"
    values |= {"verified": kind == "checked" or counted, "above": above_limit(audit, verdict)}
    values["above_short"] = values["above"] and _too_short(audit)
    return values


def _too_short(audit: Audit) -> bool:
    """Whether the easiest of some secrets may be within 10 bits of the first by luck alone."""
    return any(priced.space_size < _LONG for priced in audit.formats)


def _next_test(audit: Audit, verdict: Verdict | None) -> dict[str, object]:
    """How the next model is to be tested: as this one, or by a stricter limit, or with more."""
    weak = "" if verdict is None else stricter(verdict)
    longer = weak and verdict is not None and "largest" in verdict.reason.subject
    few = verdict is None and takes_new_secrets(audit)
    return {
        "same": not (weak or few),
        "strictly": not longer and weak,
        "longer": longer,
        "few": few,
        "enough": few and enough_secrets(audit),
        **in_digits(audit),
    }


def _untested(audit: Audit) -> str:
    """``2 to 3 times or 5 to 15 times``: what is between the numbers of copies in an audit."""
    numbers = sorted({c.repetitions for c in audit.injected})
    gaps = [gap for n in numbers[1:] if (gap := untested_below([audit], n))]
    return " or ".join([", ".join(gaps[:-1]), *gaps[-1:]] if gaps[1:] else gaps)


def _undecided(audit: Audit, verdict: Verdict) -> dict[str, object]:
    """What decides about an undecided verdict, for the words below ``decide.undecided``."""
    open_ = [f for f in verdict.findings if takes_more_secrets(f) and not audit.natural]
    never, before = any(map(never_decides, open_)), verdict.reason.check == "start token"
    others = any(f.outcome == "undecided" and f is not verdict.reason for f in verdict.findings)
    within = before and not (others or (audit.start and audit.start.context))
    weak, largest = stricter(verdict), "largest" in verdict.reason.subject
    graded = weak and not largest
    more, again = open_ and not never, not (open_ or before)
    less = graded and again and fails_strictly(audit)
    again = again and not less
    asked = asked_guesses(verdict.space_size, verdict.limit_bits or 0.0)
    return {
        "weak": weak and not within,
        "less": less,
        "weak_again": graded and again,
        "weak_more": graded and more,
        "asked": plural(asked, "guess", "guesses"),
        "strictly": weak,
        "enough": graded and more and enough_secrets(audit),
        "likely": more and not weak and likely(audit, verdict),
        "never": never,
        "before": before,
        "again": again,
        "more": more,
        "limited": not (never or more),
        "within": within,
        "within_weak": within and weak,
        "strict": would_strictly(audit) if graded else "",
        "learned": listed(known) if (known := learned_copies(audit)) and not audit.natural else "",
    }


def unsaid(
    *audits: Audit, calm: bool, unlimited: bool = False, limited: bool = False
) -> list[Text]:
    """What must not be concluded from audits: that a secret is safe which is short, too."""
    sizes = {priced.space_size for audit in audits for priced in audit.formats}
    small = count(max(sizes)) if sizes and max(sizes) <= _SHORT else ""
    values = {"unlimited": unlimited, "limited": limited}
    return [*said("audit.unsaid", calm=calm, small=small, **values)]


def against(audit: Audit, limit: float | None) -> list[Text]:
    """What makes a model memorize less, with the numbers of copies that were too many here."""
    first, safe = _too_many(audit, limit)
    there = [c for c in audit.injected if c.repetitions >= (first or 1)]
    if first and not safe:
        there = [c for c in there if c.repetitions == first]
    found = Recovery(there) if limit is None else Recovery(there, limit)
    what = "found" if limit is None else "easier to find than the limit allows"
    spared = [c for c in with_search(audit).injected if first and safe and c.repetitions == safe]
    tested = combined_p(spared)
    learned = tested is not None and tested.p_value <= SHOWN_LEARNED
    duplicates = said_in_one(
        "advice.duplicates", what=f"{'was' if len(found.sure) == 1 else 'were'} {what}",
        found=f"{count(len(found.sure))} of {count(len(there))}", first=copies(first or 1),
        safe=copies(safe or 1), less=" or less often" if (safe or 1) > 1 else "",
        gap=first and safe and first - safe > 1, learned=learned,
        most=copies(1 if learned else safe or 1),
        guesses=median_guesses([c.exposure for c in spared]) if spared else "",
        blind=blind_guesses(audit, spared).partition(" guess")[0] if spared else "",
        some=first and safe,
        by_weak=", by this weak limit" if limit and _is_weak(audit, limit) else "",
        even=first == 1,
        other=not first or (not safe and first != 1),
    )  # fmt: skip
    served = audit.model.get("device") == "served"
    return [*(said("advice.served") if served else ()), duplicates, *said("advice.against")]


def _is_weak(audit: Audit, limit: float) -> bool:
    return any(is_weak(priced.space_size, limit) for priced in audit.formats)


def _more_than_luck(found: Recovery) -> bool:
    """Whether luck hardly recovers as many; by luck, one does with the probability 2^-limit."""
    number, sure = len(found.canaries), len(found.sure)
    return float(special.bdtrc(sure - 1, number, 2.0**-found.limit_bits)) <= SHOWN_LEARNED


def _too_many(audit: Audit, limit: float | None) -> tuple[int | None, int | None]:
    """The fewest copies of which canaries are recovered, and the most below of which none is.

    The first are recovered by more than luck, if any are. None for the second where more copies
    do not always make canaries easier to find.
    """
    groups = {n: group for n, group in audit.by_repetitions().items() if n}
    found = {n: Recovery(g) if limit is None else Recovery(g, limit) for n, g in groups.items()}
    reached = [n for n, recovery in found.items() if recovery.sure]
    reached = [n for n in reached if _more_than_luck(found[n])] or reached
    if not reached:
        return None, None
    first = reached[0]
    below = [n for n in found if n < first]
    clear = all(found[n].sure for n in found if n > first) and not any(
        found[n].open or found[n].sure for n in below
    )
    return first, max(below, default=None) if clear else None


def cures(verdict: Verdict | None) -> list[Text]:
    """What settles or mends the findings that did not pass, as sentences; the cheapest first.

    Where canaries were memorized, nothing is left for other canaries to decide.
    """
    found = () if verdict is None else verdict.findings
    decided = any(f.outcome == "memorized" for f in found)
    findings = sorted(
        (f for f in found if not (decided and f.outcome == "undecided" and f.check == "exposure")),
        key=lambda f: int("0" + "".join(_COST.findall(f.cure)[:1]).replace(",", "")),
    )
    wanted = [
        f"For the {f.subject}, which are undecided: {f.cure}"
        if f.cure and f.outcome == "undecided" and f.check in ("exposure", "p-value")
        else f.cure
        for f in findings
        if f.outcome != "memorized" or f.check not in _TAILORED
    ]
    return [
        f"{cure[0].upper()}{cure[1:].removesuffix('.')}." for cure in dict.fromkeys(wanted) if cure
    ]


def share_of_records(verdict: Verdict) -> list[Text]:
    """That canaries are many of the records of the training, where the verification says it."""
    shares = [note.partition(OF_RECORDS)[0] for note in verdict.notes if OF_RECORDS in note]
    return [*said("limit.share", share=shares[0])] if shares else []

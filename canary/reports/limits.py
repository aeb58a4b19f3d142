"""A limit and what is said of it, in words for who set it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from canary.audits.audit_result import Audit, CanaryResult, combined_p
from canary.audits.audit_setup import control_of, without_control
from canary.audits.search_ranks import with_search
from canary.gate.attacks_written import Attacks
from canary.gate.forgetting_limit import Compared
from canary.gate.preconditions import unread
from canary.gate.regression import ITSELF
from canary.gate.verdict import Finding, Verdict
from canary.gate.watched import HISTORY
from canary.gate.weak_limits import STRICT_BITS, asked_guesses
from canary.passages.result import Verbatim
from canary.passages.sampled import Sampled
from canary.reports.document import Text, basis, said_in_one
from canary.reports.forgetting_report import NEVER_SAW, unchecked
from canary.reports.open_limits import doubted, memorized_within, only_limit, passed_words
from canary.reports.recovery import Recovery, counts, easiest, untested_below
from canary.reports.sentences import answer, guesses_of, in_guesses, most_guesses
from canary.reports.wording import plain_start
from canary.statistics.learned_parts import SHOWN_LEARNED
from canary.statistics.numbers import copies, count, plural

_PLANTED = "the planted secrets were in the training data"

UNSHOWN = "Nothing was found, but nobody has shown that the secrets were there"
"""The headline where nothing was found, and nothing shows that there was something to find."""


def label_of(verdict: Verdict) -> str:
    """The outcome in a few words, with the condition of a pass that nothing but a claim shows."""
    reason, kind = verdict.reason, planting_of(verdict)
    if verdict.outcome == "passed":
        weak = stricter(verdict)
        if left_found(verdict):
            rest = listed(sorted({c.repetitions for c in _asked_of(verdict)}))
            return f"Passed only for the secrets that appeared {rest}; others were found"
        if but := memorized_within(verdict)["but"]:
            return str(but)
        if verdict.audits and kind == "claimed":
            return "Passed, if the planted secrets were in the training data"
        if verdict.audits and kind == "checked":
            return "Passed, if the model was trained on the data that was checked"
        if verdict.audits and kind == "unknown":
            return "Passed, but nobody has shown that the planted secrets were there"
        if kind == "shown" and (sure := _sure_of(verdict)):
            return f"Passed, but sure only for the secrets that appeared {sure}"
        claim = _claim(verdict)
        if weak:
            return "Passed, but the limit is weak"
        more = f", if {claim}" if claim else ""
        if isinstance(verdict.tested, Attacks) and verdict.tested.not_made[0]:
            made = plural(len(verdict.tested.attacks), "attack")
            return f"Passed against {made} only (stronger ones were not made){more}"
        baseline = only_limit(verdict) == "baseline"
        kept = "no more exposed than the baseline" if baseline else "within the limit that was set"
        return f"Passed: {kept}{more}"
    if verdict.outcome == "undecided":
        known = {
            "training data": "the record of a training is not shown to be of this model"
            if reason.subject == HISTORY
            else "nothing shows that the model read the secrets",
            "controls": "nothing was measured of the controls"
            if reason.value is None
            else "do not rely on this audit",
            "canary set": "the canary file may not be that of this model",
            "tokenizer": "the tokenizer does not fit the model",
            "logits": "the model was probably read wrongly",
            "positive control": "the positive control was learned too little",
            "exposure": _why_open(reason),
            "start token": "one question to the engineers is open"
            if _alone(reason, verdict)
            else "it is not known what came before the secrets",
            "context": "the test left out what came before the secrets",
            "baseline": "the baseline is of the same model" * (ITSELF in reason.sentence),
        }
        why = known.get(reason.check) or doubted(reason, verdict) or "not enough data to decide"
        allowed = " (counted as passed, by an option of the check)" if verdict else ""
        return f"Undecided: {why}{allowed}"
    easier = reason.check == "exposure"
    why = "easier to find than the limit allows" if easier else "outside the limit that was set"
    return f"Not passed: {why}"


def _alone(reason: Finding, verdict: Verdict) -> bool:
    """Whether nothing else is undecided."""
    return not any(f.outcome == "undecided" and f is not reason for f in verdict.findings)


def _before(verdict: Verdict) -> dict[str, Any]:
    """What may have come before each secret, and what the test put there, in plain words."""
    start = next((a.start for a in verdict.audits if a.start and a.start.rivals), None)
    if start is None or verdict.reason.check != "start token":
        return {"before": False}
    rival, group = start.rivals[0], "the planted secrets"
    if rival.repetitions is not None:
        group = f"the secrets that appeared {copies(rival.repetitions)}"
    other, chosen = plain_start(start.shown_rival(rival)), plain_start(start.shown)
    sure = _alone(verdict.reason, verdict) and not start.context
    values = {"before": True, "group": group, "named": chosen, "within": sure}
    return {**values, "rival": other}


def _why_open(reason: Finding) -> str:
    """Why a limit on exposure is not decided, in a few words."""
    if reason.upper is None or reason.lower is None:
        return "not enough data to decide"
    if never_decides(reason):
        return "too close to the limit"
    few = takes_more_secrets(reason)
    return "too few planted secrets" if few else "the measurement is too coarse"


def tone_of(verdict: Verdict) -> str:
    """The colour: green only for a pass of a model that is known to have read the secrets.

    A pass on a condition, or of a weak limit, has the colour of what is not decided yet.
    """
    if verdict.outcome == "passed":
        kind = planting_of(verdict)
        unread = kind in ("claimed", "checked", "unknown") or (
            kind == "shown" and _sure_of(verdict)
        )
        open_to = unread or _claim(verdict) or stricter(verdict) or left_found(verdict)
        return "undecided" if open_to or memorized_within(verdict)["but"] else "not-found"
    return "memorized" if verdict.outcome == "failed" else verdict.outcome


def _sure_of(verdict: Verdict) -> str:
    """Of which secrets alone it is known that the model read them; nothing if it is of all."""
    audit = None if verdict.rests_on else _weakest(verdict)
    return "" if audit is None else only_some_learned(audit)


def _claim(verdict: Verdict) -> str:
    """What a test without an audit rests on, where nobody checked it."""
    tested = verdict.tested
    if isinstance(tested, Compared):
        return NEVER_SAW
    if isinstance(tested, Attacks) and (tested.dataset is None or tested.dataset.outcome != "seen"):
        return f"the model was trained on these {'samples' if tested.dataset is None else 'texts'}"
    texts = isinstance(tested, Verbatim | Sampled) and not any(f.value for f in verdict.findings)
    return "the model was trained on these texts" if texts else ""


def planting_of(verdict: Verdict) -> str:
    """What shows that a model read the secrets: a kind of `basis`; nothing for other results."""
    return "" if (audit := _weakest(verdict)) is None else planting(audit, verdict.rests_on)


def _weakest(verdict: Verdict) -> Audit | None:
    return weakest(verdict.audits, verdict.rests_on)


def weakest(audits: Sequence[Audit], rests_on: str = "") -> Audit | None:
    """The audit of which least shows that its model read the secrets."""
    order = ("unknown", "claimed", "checked", "watched", "own", "shown", "")
    known = {planting(audit, rests_on): audit for audit in reversed(audits)}
    return next((known[kind] for kind in order if kind in known), None)


def basis_of_verdict(verdict: Verdict) -> Text:
    """`basis_of` what passed or did not; what is undecided says so in its sentence."""
    if verdict.outcome != "passed":
        return ""
    if claim := _claim(verdict):
        claim = unchecked(t.outcome, t.auc) if isinstance(t := verdict.tested, Compared) else claim
        taken = isinstance(t, Compared | Attacks) and t.outcome != "not identified"  # else trusted
        return basis("taken" if taken and not verdict.rests_on else "claimed", claim, "“passed”")
    return basis_of(audit, verdict.rests_on, passed=True) if (audit := _weakest(verdict)) else ""


def planting(audit: Audit, rests_on: str = "") -> str:
    """The same of one audit, with what was checked or claimed besides."""
    if audit.natural or not audit.injected or not audit.canaries_in_corpus:
        return ""
    if learned_copies(audit) or answer(audit).verdict == "memorized":
        return "shown"
    if audit.settings.get("canaries_in_corpus") is True:
        return "own"
    return {"watched": "watched", "verified": "checked", "trusted": "claimed"}.get(
        rests_on, "unknown"
    )


def learned_copies(audit: Audit) -> list[int]:
    """The numbers of copies whose canaries look learned."""
    tests = {n: combined_p(group) for n, group in audit.by_repetitions().items() if n}
    return [n for n, test in tests.items() if test and test.p_value <= SHOWN_LEARNED]


def opening(audit: Audit) -> list[tuple[str, str]]:
    """The first lines of `Audit.summary`: its verdict, what that rests on, and p-values."""
    found = answer(audit)
    unknown = planting(audit) == "unknown"
    lines = [("verdict", UNSHOWN if unknown and found.verdict == "not found" else found.label)]
    if unknown and found.verdict in ("not found", "undecided"):
        most = max(c.repetitions for c in audit.injected)
        test = combined_p([c for c in audit.injected if c.repetitions == most])
        told = unread(most, 1.0 if test is None else test.p_value)
        lines.append(("basis", f"{told}; give canary.check the verification of its corpus"))
    among = ", without the positive control" if control_of(audit) else ""
    injected = "injected" if audit.canaries_in_corpus else "not injected"
    if (test := without_control(audit).injected_p) is not None:
        lines.append((injected, f"p = {test.p_value:.2g} (Fisher{among})"))
    if audit.controls_p is not None:
        lines.append(("controls", f"p = {audit.controls_p.p_value:.2g} (Fisher)"))
    return lines


def basis_of(audit: Audit, rests_on: str = "", *, passed: bool = False) -> Text:
    """What an answer or a pass rests on: whether the model read the planted secrets."""
    kind, fact, others = planting(audit, rests_on), _PLANTED, ""
    if not kind:
        return ""
    learned = only_some_learned(audit)
    own = not passed and audit.settings.get("canaries_in_corpus") is True
    if kind == "shown" and not own and (learned or not (passed or learned_copies(audit))):
        which = f"the secrets that appeared {learned}" if learned else "some planted secrets"
        kind, others = "partly", f"others_{rests_on or 'unknown'}"
        fact = f"{which} were in the training data"
    verdict = "“passed”"
    return basis(kind, fact, verdict if passed else "this result", **{others: True})


def only_some_learned(audit: Audit) -> str:
    """The numbers of copies whose secrets look learned, where others do not."""
    groups = {n for n in audit.by_repetitions() if n}
    learned = groups & {*learned_copies(audit)}
    return listed(sorted(learned)) if learned and learned != groups else ""


def takes_more_secrets(finding: Finding) -> bool:
    """Whether no more exact measurement of the same secrets decides what is open, by its cure."""
    more = re.search("in place of|agree would do|no number of canaries", finding.cure)
    return bool(more and finding.outcome == "undecided" and "exact ranks" not in finding.cure)


def never_decides(finding: Finding) -> bool:
    """Whether no number of secrets decides what is open, by its cure."""
    return "no number" in finding.cure


def _plain(words: str) -> str:
    """A finding in the words of a box: without p-values."""
    return re.sub(r": p [=<].*| \(p [=<] ?[^()]*\)", "", words).replace("canaries", "secrets")


def sure_of_medians(verdict: Verdict) -> float | None:
    """The confidence of either end of the medians that a verdict compares with a limit."""
    judged = (f for f in verdict.findings if f.check == "exposure" and "largest" not in f.subject)
    return next((f.confidence for f in judged), None)


def stricter(verdict: Verdict) -> str:
    """The guesses that a strict limit asks for, where the one that was set is weak."""
    return count(asked_guesses(verdict.space_size, STRICT_BITS)) if verdict.is_weak else ""


def listed(repetitions: Sequence[int]) -> str:
    """``once, 4 or 16 times``."""
    *others, last = map(copies, repetitions)
    first = ", ".join(other.removesuffix(" times") for other in others)
    return f"{first} or {last}" if first else last


def judged(verdict: Verdict) -> Iterator[Text]:
    """The outcome in a sentence, and another on the evidence where that says more."""
    reason, size = verdict.reason, verdict.space_size
    memorized = verdict.outcome == "memorized"
    end = reason.lower if memorized else reason.upper
    counted = reason.check == "exposure" and size and end is not None
    largest, there = "largest" in reason.subject, _asked_of(verdict)
    takes = _guesses(reason, size, memorized=memorized) if counted else ""
    worst = easiest(there) if counted and there else ""
    if memorized and counted and there:
        least = min((c.exposure for c in there), key=most_guesses)
        typical = guesses_of(math.log2(size or 1) - (reason.value or end or 0.0))  # as in `takes`
        worst = in_guesses(least) if most_guesses(least) < typical else ""
    found = Recovery(there, reason.limit or 0.0)
    known, below = left_found(verdict), _below(verdict)
    unread = reason.check == "training data" and reason.sentence.startswith("nothing shows")
    ends = bool(counted and verdict.outcome == "undecided" and reason.lower is not None)
    before, passed = _before(verdict), passed_words(verdict)
    yield said_in_one(
        f"limit.{verdict.outcome}", counted=counted, which=whose_guesses(reason, largest=largest),
        guesses=takes, worst=counted and not largest and worst, **below,
        asked=count(asked_guesses(size, reason.limit)) if counted else "",
        blind=count(max(size // 2, 1)),
        found=_capital(found.share("planted ")) if counted and memorized and found.sure else "",
        reason=_plain(reason.sentence), unread=unread, ends=ends,
        coarse=ends and not takes_more_secrets(reason), never=ends and never_decides(reason),
        few=ends and takes_more_secrets(reason) and not never_decides(reason),
        other=not (unread or ends or before["before"]), **before,
        low=ends and count(guesses_of(math.log2(size) - (reason.upper or 0.0))),
        high=ends and count(guesses_of(math.log2(size) - (reason.lower or 0.0))),
        most=copies(max((c.repetitions for c in there), default=1)),
        **({} if counted else passed),
    )  # fmt: skip
    numbers = sorted({*verdict.left_out} - {verdict.control})
    if verdict.control and verdict.outcome == "passed":
        between = untested_below(verdict.audits, verdict.control)
        yield said_in_one("limit.control", copies=copies(verdict.control), between=between)
    if numbers:
        left = [c for a in verdict.audits for c in a.injected if c.repetitions in numbers]
        number = f"{count(len(known))} of {count(len(left))}"
        found_of = f"{number} {'was' if len(known) == 1 else 'were'}" if known else ""
        yield said_in_one("limit.left_out", copies=listed(numbers), found=found_of)
    for audit in verdict.audits:
        said_of_it = answer(audit)
        if (
            said_of_it.verdict == "memorized"
            and verdict.outcome == "passed"
            and (known or verdict.control or passed["but"])
        ):
            continue  # more was learned than the limit allows of others
        if said_of_it.verdict == "memorized" and verdict.outcome == "passed":
            above = above_limit(audit, verdict)
            yield said_in_one("limit.within", above=above, number=above)
        elif said_of_it.verdict in ("memorized", "suspect") and not (counted and memorized):
            limit = verdict.limit_bits
            if said_of_it.verdict == "suspect" or not (ends or before["before"]):
                yield counts(audit, limit) or said_of_it.sentence
            else:
                yield said_in_one("limit.learned")


def _below(verdict: Verdict) -> dict[str, Any]:
    """How many single secrets a pass leaves above the limit, and how many luck does."""
    there, spared = _asked_of(verdict), left_found(verdict) or verdict.control
    rest = [a for a in verdict.audits if spared or answer(a).verdict != "memorized"]
    below = sum(above_limit(audit, verdict) for audit in rest)  # others say it in a sentence
    lucky = round(len(there) / 2 ** (verdict.limit_bits or 0.0))
    natural = any(audit.natural for audit in verdict.audits)
    words = f"about {count(lucky)}" if lucky else "hardly one"
    return {"below": below, "of": len(there), "lucky": "" if natural or not below else words}


def whose_guesses(reason: Finding, *, largest: bool) -> str:
    """Whose guesses a finding is about, as the beginning of a sentence."""
    if largest:
        return "The secret that is easiest to find"
    audit, _, subject = reason.subject.rpartition(": ")
    known = re.search(r"canaries with (\S+) cop", subject)
    group = subject.replace("canaries ", "secret ", 1)
    if known:
        group = f"secret that appeared {copies(int(known[1].replace(',', '')))}"
    return f"In {audit}, the typical {group}" if audit else f"The typical {group}"


def _capital(words: str) -> str:
    return words[0].upper() + words[1:]


def _asked_of(verdict: Verdict) -> list[CanaryResult]:
    """The planted secrets that the limit was asked for."""
    audits = [with_search(audit) for audit in verdict.audits]
    return [c for a in audits for c in a.injected if c.repetitions not in verdict.left_out]


def _guesses(reason: Finding, size: int, *, memorized: bool) -> str:
    """The guesses at an exposure: its estimate, and the end of its interval by which it passes."""
    end = reason.lower if memorized else reason.upper
    certain = guesses_of(math.log2(size) - (end or 0.0))
    known = certain if reason.value is None else guesses_of(math.log2(size) - reason.value)
    if reason.value is not None and (memorized or known == certain):
        about = "" if known == certain else "about "
        return f"{about}{plural(known, 'guess', 'guesses')}"
    most = f"{'at most' if memorized else 'at least'} {plural(certain, 'guess', 'guesses')}"
    if memorized or reason.confidence in (None, 1.0):
        return most
    if known != certain:
        most = f"about {count(known)} guesses, and at least {count(certain)}"
    return f"{most} ({100 * (reason.confidence or 0):g} % sure)"


def left_found(verdict: Verdict) -> list[CanaryResult]:
    """Those that are found of the secrets to which the limit was not applied.

    A positive control is to be found, and is not among them.
    """
    numbers = {*verdict.left_out} - {verdict.control}
    left = [c for a in verdict.audits for c in a.injected if c.repetitions in numbers]
    return Recovery(left).sure


def above_limit(audit: Audit, verdict: Verdict) -> int:
    """How many injected canaries a limit on medians leaves above it, by their estimates."""
    limit = verdict.limit_bits
    if limit is None or "largest" in verdict.reason.subject:
        return 0
    found = [c.exposure for c in audit.injected if c.repetitions not in verdict.left_out]
    return sum((e.lower_bits if e.bits is None else e.bits) > limit for e in found)

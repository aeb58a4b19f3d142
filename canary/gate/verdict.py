"""What the gate says, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from canary.audits.audit_result import Audit, CanaryResult
from canary.audits.group_medians import median_bits
from canary.gate.weak_limits import STRICT_BITS, asked_guesses, is_weak
from canary.records.about import About, Named
from canary.records.record import to_plain
from canary.records.versioned_json import digest_of
from canary.statistics.numbers import Shown, clean, copies, count, picked, plural

KIND = "canary verdict"
SCHEMA = 1

Outcome = Literal["passed", "memorized", "failed", "undecided"]
Policy = Literal["pass", "fail"]
Check = Literal[
    "exposure", "p-value", "extraction", "baseline", "epsilon",
    "controls", "canary set", "tokenizer", "logits", "start token", "context", "training data",
    "positive control", "AUC", "TPR", "membership", "forgetting", "passages",
]  # fmt: skip

EXIT_CODES: Mapping[Outcome, int] = {"passed": 0, "memorized": 1, "failed": 1, "undecided": 3}
"""Of the command line; 2 is for what cannot be judged at all."""

NOT_MADE = "Stronger attacks that were not made"
"""The fact of a verdict on attacks that names them."""

_ALSO = 3
"""So many findings besides the reason are named in a line."""

_WORST: tuple[Outcome, ...] = ("memorized", "failed", "undecided", "passed")


OF_ITSELF: tuple[Check, ...] = (
    "controls", "canary set", "tokenizer", "logits", "start token", "context", "training data",
    "positive control",
)  # fmt: skip
"""Questions to an audit itself, for which nobody sets a limit."""


def severity(judged: Finding | Verdict) -> int:
    """By which the worst comes first: memorized or failed, undecided, passed."""
    return _WORST.index(judged.outcome)


@dataclass(frozen=True)
class Standing:
    """A canary that a finding names, with its exposure and the interval of it."""

    id: str
    repetitions: int
    bits: float | None  # None where only the bounds are known
    lower_bits: float
    upper_bits: float


def standings(canaries: Iterable[CanaryResult]) -> tuple[Standing, ...]:
    """Canaries of an audit, as findings name them."""
    return tuple(
        Standing(c.id, c.repetitions, c.exposure.bits, c.exposure.lower_bits, c.exposure.upper_bits)
        for c in canaries
    )


def group_name(repetitions: int) -> str:
    """``canaries with 4 copies``: the subject of a finding."""
    return f"canaries with {plural(repetitions, 'copy', 'copies')}"


def measured(limit: float, share: Any, confidence: float) -> dict[str, Any]:
    """The limit and the estimate of a `Finding`, with an interval of which both ends may be wrong.

    `share` has the attributes ``value``, ``lower`` and ``upper``.
    """
    ends = picked(share, "value", "lower", "upper")
    return {"limit": limit, **ends, "confidence": (1.0 + confidence) / 2.0}


@dataclass(frozen=True)
class Finding:
    """What one question to an audit brought.

    Parameters
    ----------
    check : str
        The question; one of `Check`.
    subject : str
        Of which canaries, in words.
    outcome : str
        ``"passed"``, ``"memorized"`` or ``"undecided"``; ``"failed"`` in the place of
        ``"memorized"`` where membership, forgetting or passages were tested.
    sentence, cure : str
        What was found, and what to do about it; no cure where it passed.
    limit, value : float or None
        The limit and the estimate, in the unit of the question: bits, a p-value (as Holm's
        method adjusts it), epsilon, AUC, true positive rate, rho, share of passages.
    lower, upper : float or None
        The interval that the outcome rests on; None for an end that is not known.
    confidence : float or None
        Of either end of it.
    chance : float or None
        How often canaries that were not learned exceed such a limit.
    canaries : tuple of Standing
        Those that the outcome rests on, the most exposed first.
    """

    check: Check
    subject: str
    outcome: Outcome
    sentence: str
    cure: str = ""
    limit: float | None = None
    value: float | None = None
    lower: float | None = None
    upper: float | None = None
    confidence: float | None = None
    chance: float | None = None
    canaries: tuple[Standing, ...] = ()

    def __str__(self) -> str:
        return f"{self.outcome}: {self.in_short}"

    @property
    def in_short(self) -> str:
        """The sentence and the cure, in a line."""
        # Cleaned for terminals: the author of a set chooses the names of its canaries.
        return clean(f"{self.sentence}; {self.cure}" if self.cure else self.sentence)


def _decisive(alike: Sequence[Finding]) -> Finding:
    """Of findings of one question: the highest value that is possible, or the smallest p-value."""
    if alike[0].check == "p-value":
        return min(alike, key=lambda finding: finding.value or 0.0)
    return max(alike, key=lambda finding: finding.upper or 0.0)


@dataclass(frozen=True, repr=False)
class Verdict(Shown):
    """The verdict of the gate. It is true only if the model passed.

    Parameters
    ----------
    findings : tuple of Finding
        One per question and group of canaries.
    undecided : str
        What undecided counts as: ``"fail"``, or ``"pass"`` if the caller said so.
    notes : tuple of str
        What the audits note of their numbers (`Audit.notes`), and what a pass does not know of
        the training data. They alone decide nothing.
    audits : tuple of Audit
        What was judged, for reports; not in `to_dict`.
    title : str
        Of reports of a verdict without audits.
    about : mapping of str to str
        Facts of such a verdict, for reports; of these only the limit is in `to_dict`.
    tested : Named or None
        What it is of, for the names in reports; not in `to_dict`.
    digests : tuple of str
        `digest_of` each result without an audit.
    rests_on : str
        What shows that canaries or members were in the training data, besides what the model
        learned: ``"trusted"``, the user's word, ``"verified"``, a verification of the corpus, or
        ``"watched"``, a monitor of the training. For reports.
    doubt : str
        Why a model that never read the canaries would pass as well; it is printed with the pass.
    left_out : tuple of int
        Numbers of copies that no limit was asked for.
    control : int
        That of the positive control among them, 0 without one.
    date : str
        When the limits were given, ``YYYY-MM-DD``, or empty; for reports.
    limit_by : str
        Who set the limits, and when, as the user says (`limit_by` of `canary.check`); for reports.
    """

    findings: tuple[Finding, ...]
    undecided: Policy = "fail"
    notes: tuple[str, ...] = ()
    audits: tuple[Audit, ...] = field(default=(), compare=False)
    title: str = field(default="Memorization check", compare=False)
    about: Mapping[str, str] = field(default_factory=dict, compare=False)
    tested: Named | None = field(default=None, compare=False)
    digests: tuple[str, ...] = field(default=(), compare=False)
    rests_on: str = field(default="", compare=False)
    doubt: str = field(default="", compare=False)
    left_out: tuple[int, ...] = field(default=(), compare=False)
    control: int = field(default=0, compare=False)
    date: str = field(default_factory=lambda: About.today().date, compare=False)
    limit_by: str = field(default="", compare=False)

    def _table(self) -> list[dict[str, Any]]:
        names = ("outcome", "check", "subject", "limit", "value", "lower", "upper")
        exposed = dict(self._exposed())
        return [
            picked(finding, *names)
            | dict(zip(("median_bits", "bound"), exposed.get(finding.subject, (None, None)),
                       strict=True))
            for finding in self.findings
        ]  # fmt: skip

    def _exposed(self) -> Iterator[tuple[str, tuple[float, bool]]]:
        """The median exposure of the canaries of a subject, in bits, and if it is only a bound."""
        for audit in self.audits if len(self.audits) == 1 else ():
            for number, group in audit.by_repetitions().items():
                name = group_name(number) if number else "controls"
                yield name, median_bits([c.exposure for c in group])
            if audit.injected:
                exposures = [c.exposure for c in audit.injected]
                yield "all injected canaries", median_bits(exposures)

    @property
    def results(self) -> list[str]:
        """The digests of what was judged, by which a file of the verdict is known to be of it."""
        return [*self.digests, *(digest_of(audit.to_dict()) for audit in self.audits)]

    def _metrics(self) -> Iterator[tuple[str, Any]]:
        yield "verdict/passed", bool(self)
        for outcome in ("memorized", "failed", "undecided"):
            yield f"verdict/{outcome}", self.outcome == outcome
        for finding in self.findings:
            about = f"{finding.check}/{finding.subject}".replace(" ", "_")
            for name in ("limit", "value", "lower", "upper"):
                yield f"verdict/{about}/{name}", getattr(finding, name)

    @property
    def outcome(self) -> Outcome:
        """The worst of the findings: memorized or failed, before undecided, before passed."""
        outcomes = {finding.outcome for finding in self.findings}
        return next(outcome for outcome in _WORST if outcome in outcomes)

    def __bool__(self) -> bool:
        return self.exit_code == 0

    @property
    def exit_code(self) -> int:
        """0 passed, 1 memorized or failed, 3 undecided, or 0 for that if it was asked for."""
        if self.outcome == "undecided" and self.undecided == "pass":
            return 0
        return EXIT_CODES[self.outcome]

    @property
    def reason(self) -> Finding:
        """The finding that the verdict rests on most.

        Of those with its outcome and the question of the first of them: the highest exposure,
        or the smallest p-value. Of a pass it is never one of the controls.
        """
        worst = [finding for finding in self.findings if finding.outcome == self.outcome]
        if self.outcome == "passed":
            worst = [finding for finding in worst if finding.check not in OF_ITSELF] or worst
        return _decisive([finding for finding in worst if finding.check == worst[0].check])

    @property
    def others(self) -> list[Finding]:
        """What else there is to say, of other questions than that of the `reason`.

        What did not pass either; of a pass, the finding that decides each other limit.
        """
        rest = [finding for finding in self.findings if finding.check != self.reason.check]
        if self.outcome != "passed":
            return [finding for finding in rest if finding.outcome != "passed"]
        asked = dict.fromkeys(f.check for f in rest if f.check not in OF_ITSELF)
        return [_decisive([f for f in rest if f.check == check]) for check in asked]

    @property
    def ordered(self) -> list[Finding]:
        """The findings, the worst first."""
        return sorted(self.findings, key=severity)

    def __str__(self) -> str:
        weak = self.outcome == "passed" and NOT_MADE in self.about
        doubt = f"; {self.doubt}" * bool(self.doubt) + ". Do not release on this pass alone" * weak
        notes = f" ({plural(len(self.notes), 'note')}: see summary())" if self.notes else ""
        return f"{self.in_short}{doubt}{self._also}{notes}"

    @property
    def _also(self) -> str:
        """What did not pass besides the reason, by its subject; empty if nothing."""
        rest = [one for one in self.ordered if one.outcome != "passed" and one is not self.reason]
        shown = [f"{one.outcome} ({one.subject})" for one in rest[:_ALSO]]
        more = f" and {len(rest) - _ALSO:,} more" if len(rest) > _ALSO else ""
        return f"; also {', '.join(shown)}{more}" if rest else ""

    @property
    def limit_bits(self) -> float | None:
        """The limit on exposure, if there is one."""
        return next((f.limit for f in self.findings if f.check == "exposure"), None)

    @property
    def space_size(self) -> int:
        """The number of possible secrets, if all formats have the same; else 0."""
        sizes = {priced.space_size for audit in self.audits for priced in audit.formats}
        return sizes.pop() if len(sizes) == 1 else 0

    @property
    def is_weak(self) -> bool:
        """Whether the limit on exposure allows what few guesses find."""
        return bool(self.space_size) and is_weak(self.space_size, self.limit_bits or 0.0)

    @property
    def warning(self) -> str:
        """That the limit of a pass is weak, and what follows; else empty."""
        return f"the limit is weak: {self._weakness}" if self._weakness else ""

    @property
    def _weakness(self) -> str:
        if self.outcome != "passed" or not self.is_weak:
            return ""
        guesses = asked_guesses(self.space_size, self.limit_bits)
        found = f"within the first {count(guesses)}" if guesses > 1 else "with the first"
        return (
            f"{self.limit_bits:g} bits let a secret pass that an attacker finds {found} of "
            f"{count(self.space_size)} possible guesses (a limit of {STRICT_BITS:g} bits is "
            "strict); do not release on this verdict alone, unless something stops guessing earlier"
        )

    @property
    def in_short(self) -> str:
        """The outcome and its reason, in a line."""
        allowed = ", which passes here" if self.outcome == "undecided" and self else ""
        if self.outcome == "passed" and (spared := sorted({*self.left_out, self.control} - {0})):
            which = " and ".join(map(copies, spared))
            allowed = f" (the limit was not applied to secrets that appeared {which})"
            if spared == [self.control]:
                allowed = f" (the positive control, which appeared {which}, has no limit)"
        if self.outcome == "passed" and (weak := self.about.get(NOT_MADE)):
            allowed = f" against these attacks only (not made: {weak})"
        weakness = self._weakness
        allowed += ", but the limit is weak" if weakness else ""
        return f"{self.outcome}{allowed}: {self.reason.in_short}" + (
            f"; {weakness}" if weakness else ""
        )

    def __repr__(self) -> str:
        # One short line: it is what a failed assertion quotes.
        return f"<Verdict {self.outcome}: {clean(self.reason.sentence)}>"

    def summary(self) -> str:
        """The outcome with its reason, a line for each other finding, and one for each note."""
        rest = [finding for finding in self.ordered if finding is not self.reason]
        lines = [clean(self.in_short), *self.lines(rest, said=[self.reason.cure])]
        return "\n".join([*lines, *(f"note: {clean(note)}" for note in self.notes)])

    def lines(self, findings: Sequence[Finding], *, said: Iterable[str] = ()) -> list[str]:
        """A line for each of some findings; a cure is said once, and not if it is in `said`."""
        known, lines = {*said}, []
        named = {"passed": "passed" if self.outcome == "passed" else "holds"}
        for finding in findings:
            told = clean(finding.sentence) if finding.cure in known else finding.in_short
            lines.append(f"{named.get(finding.outcome, finding.outcome)}: {told}")
            known.add(finding.cure)
        return lines

    def to_dict(self) -> dict[str, Any]:
        """The verdict as plain data."""
        limit = {"limit": self.about["Limit"]} if "Limit" in self.about else {}
        return {
            "outcome": self.outcome,
            "passed": bool(self),
            "exit_code": self.exit_code,
            "undecided": self.undecided,
            "reason": self.in_short,
            "findings": to_plain(self.findings),
            "confidence_is": "of each end of an interval: 0.975 belongs to an interval of 95 %",
            "notes": list(self.notes),
            "results": self.results,
            "left_out": list(self.left_out),
            "control": self.control,
            "rests_on": self.rests_on,
            "date": self.date,
            **({"limit_by": self.limit_by} if self.limit_by else {}),
            **limit,
        }


def verdict_on(
    name: str,
    findings: Iterable[Finding],
    undecided: Policy,
    notes: Collection[str],
    *,
    about: Mapping[str, str],
    tested: Named,
    source: tuple[Mapping[str, Any], str],
) -> Verdict:
    """A verdict without audits, less notes that a finding says; `source` is with its file."""
    found, (document, file) = tuple(findings), source
    said = {n for n in notes for f in found if f.cure and n.endswith(f": {f.cure}")
            and n.removesuffix(f": {f.cure}") in f.sentence}  # fmt: skip
    return Verdict(
        *(found, undecided, tuple(n for n in notes if n not in said)),
        title=f"Check of {name}", digests=(digest_of(document),), tested=tested,
        about={"Result": clean(file) if file else "not named", **about},
    )  # fmt: skip

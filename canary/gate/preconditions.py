"""What an audit must fulfil before any limit is asked: canaries, controls, start token, corpus."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from canary.audits.audit_result import CANARY_SET, Audit, combined_p
from canary.audits.audit_setup import control_of
from canary.corpus.verification import Count, Verification
from canary.errors import EstimationError, InputError
from canary.gate.baselines import Baseline
from canary.gate.verdict import OF_ITSELF, Finding, Verdict
from canary.models.english import reads_no_english
from canary.records.validation import brief, whole_number
from canary.statistics.learned_parts import SHOWN_LEARNED
from canary.statistics.numbers import clean, count, plural, probability

_UNTRAINED_CURE = (
    "make sure that the canaries file of the audit is that of this training, verify its corpus "
    "(canary verify --json) and give the result with "
    "--verification FILE, in Python verification; or, if you know that they were in it, say so "
    "with --trust-injection, in Python trust_injection (the report then calls that a claim)"
)

_ALIKE = "and a model that never read the corpus would look the same"
_RIGHT_OR_WRONG = (
    "This is right if the training was private or short. It is wrong if training read another "
    "corpus or masked the secrets, or if this is another model file or tokenizer"
)
POSITIVE_CONTROL = 64
"""Canaries with at least as many copies are learned by a model that read them."""

_WANTED_CURE = (
    "make sure of the model file, the tokenizer and the files that training read, and that the "
    "loss counts the secrets (ExposureMonitor looks at the batches)"
)
_ACCEPTED = (
    ". If you know that this model read them and is not to learn even these (de-duplication, "
    "private training), say so with --trust-injection, in Python trust_injection (the report then "
    "calls that a claim)"
)
_POSITIVE_CONTROL = (
    "add canaries with many more copies (generate --repetitions), which a model that read them has "
    "learned. Or train longer on the same files: that model must be found to have memorized them"
)
_UNLEARNED_CURE = (
    "make sure of the model and its tokenizer; if nothing is to be learned any more, make this "
    "audit the baseline (--update-baseline)"
)

_FOREIGN_CURE = (
    "make sure that training read the file that canary inject wrote, and was long enough; then of "
    "the model file; then of its tokenizer (a vocabulary in another order looks like this). If all "
    "are right, add canaries with many more copies"
)

_TO_SHOW_IT = (
    "give --verification what canary verify --json printed of that corpus, or in Python "
    "verification what canary.verify returned"
)


def verification_in(given: object) -> Verification | None:
    """What `canary.verify` found, or that in a file."""
    if given is None or isinstance(given, Verification):
        return given
    if not isinstance(given, str | os.PathLike):
        raise InputError(
            f"verification must be a Verification, or its file, got {type(given).__name__}",
            cure="give what canary.verify returned, or what canary verify --json printed",
            where="verification",
        )
    return Verification.load(given)


def groups_of(audit: Audit, wanted: Sequence[int] | None, control: int | None = None) -> list[int]:
    """The numbers of copies to look at, ascending, without those of a positive control."""
    control = None if control is None else whole_number(control, "require_learned", at_least=1)
    there = sorted({c.repetitions for c in audit.injected})
    if not there:
        raise InputError(
            "none of the audit's canaries was put into the corpus, so there is nothing to judge",
            cure="inject canaries before training, and audit with their set",
            where="check",
        )
    if not audit.canaries_in_corpus:
        raise InputError(
            "the audit's canaries were left out of the corpus on purpose, so there is nothing to "
            "judge: the model was not trained on them",
            cure="train with the canaries (canary demo without --no-inject) and audit again",
            where="check",
        )
    asked = there if wanted is None else sorted(set(wanted))
    named = asked if control is None else [*asked, control]
    missing = [n for n in named if n not in there]
    if control is not None and audit.natural:
        raise InputError(
            "natural secrets cannot be a positive control",
            cure="leave require_learned (--require-learned) out",
            where="require_learned",
        )
    if asked == [control]:
        copies = plural(asked[0], "copy", "copies")
        own = control == control_of(audit)
        raise InputError(
            f"no limit is asked of the canaries with {copies}, the positive control"
            f"{' that the audit was made with' * own}, and no others are left",
            cure="name other numbers of copies, or leave repetitions out",
            where="require_learned" if wanted is None else "repetitions",
        )
    if missing or not asked:
        none = f"no canary has {plural(missing[0], 'copy', 'copies')}" if missing else "no number"
        raise InputError(
            f"{none}; the audit has canaries with {', '.join(map(count, there))}",
            cure="name some of these, or leave repetitions out for all",
            where="require_learned" if missing == [control] else "repetitions",
        )
    return [n for n in asked if n != control]


def left_out_of(
    audits: Sequence[Audit], repetitions: Sequence[int] | None, control: int | None
) -> tuple[int, ...]:
    """The numbers of copies for which no limit was asked."""
    there = {c.repetitions for audit in audits for c in audit.injected}
    return tuple(sorted(there - (set(there if repetitions is None else repetitions) - {control})))


def lost_in(verification: Verification, audits: Sequence[Audit]) -> EstimationError | None:
    """What to raise where canaries of the audits are not in the corpus as they should be.

    Raises
    ------
    InputError
        If the verification is of another canary set, or the secrets are natural.
    """
    counts = {counted.id: counted for counted in verification.canaries}
    expected = {counted.id: counted.expected for counted in verification.canaries}
    for audit in audits:
        if audit.natural:
            raise InputError(
                "natural secrets were found in the corpus and not injected, so no verification "
                "speaks of them",
                cure="leave the verification out",
                where="verification",
            )
        mine = {c.id: c.repetitions for c in audit.canaries}
        named = audit.settings.get(CANARY_SET)
        if named != verification.fingerprint or mine != expected:
            older = "" if named else ", and audit again: the audit is of an earlier version"
            raise InputError(
                f"{clean(verification.file or 'the verification')} is of another canary set than "
                f"{clean(audit.file or 'the audit')}, or one of the sets was edited",
                cure="verify the corpus of the training with the set that was audited "
                f"(canary verify --json){older}",
                where="verification",
            )
        if error := _departed([counts[name] for name in mine], verification.file):
            return error
    return None


def _departed(counts: Sequence[Count], file: str) -> EstimationError | None:
    """What to raise where canaries or controls of one audit were not counted as planned."""
    cure = (
        "inject into a fresh corpus, keep de-duplication and filters away from it, train and audit "
        "again"
    )
    departed = [counted for counted in counts if not counted.ok]
    planted = [counted for counted in counts if counted.expected]
    if not departed:
        return None
    lost = [counted for counted in departed if counted.expected]
    first = (lost or departed)[0]
    if planted and not any(counted.found for counted in planted):
        told = f"none of {plural(len(planted), 'canary', 'canaries')} is in the corpus of "
        told += f"{clean(file or 'the verification')}, which is probably not what training read"
        cure = (
            "verify the file that training read (canary verify --json); if this is that file, "
            "inject into it, train and audit again"
        )
    elif lost:
        whole = "" if first.intact is None else f", {count(first.intact)} with its own tokens"
        told = (
            f"{count(len(lost))} of {plural(len(planted), 'canary', 'canaries')} did not survive "
            f"as they should: {brief(first.id)} should appear {plural(first.expected, 'time')} "
            f"in the corpus and appears {plural(first.found, 'time')}{whole}"
        )
    else:
        number = plural(len(counts) - len(planted), "control")
        told = (
            f"{count(len(departed))} of {number}, which must never be in it, did reach the corpus: "
            f"{brief(first.id)} appears {plural(first.found, 'time')}"
        )
    return EstimationError(told, cure=cure, where="verification")


def in_training(
    verdict: Verdict,
    audits: Sequence[Audit],
    verification: Verification | None,
    baseline: Baseline | None = None,
    *,
    trusted: bool,
    watched: bool = False,
    control: int | None = None,
) -> Verdict:
    """The verdict with what is known of the training data: without evidence, no model passes.

    Evidence is that the canaries with the most copies look learned, or those of a positive
    `control`. A verification shows what is in a file, and not that this model and tokenizer come
    from it. So where nothing looks learned, a model passes only with one of these: the user's word
    (`trusted`); a `baseline` in which nothing looked learned; a monitor that was seen to measure
    this model (`watched`); or an audit by the process that trained it (`canary demo`). Natural
    secrets need no evidence: they were in the corpus before anybody looked.

    Raises
    ------
    EstimationError
        If canaries did not survive, and none is memorized.
    InputError
        As `lost_in`.
    """
    lost = None if verification is None else lost_in(verification, audits)
    if lost is not None:
        if verdict.outcome != "memorized":
            raise lost
        note = (
            f"{lost.problem}; the model memorized canaries all the same, so this is not the file "
            "that the training read, or it read fewer copies than the set says"
        )
        return replace(verdict, notes=(note,))
    if verdict.outcome == "memorized":
        return verdict
    drawn = [(place, audit) for place, audit in enumerate(audits, 1) if not audit.natural]
    vouched = trusted or watched or verification is not None
    once = None if baseline is None else max(m.most_copies_p for m in baseline.audits)
    once = None if once is None or once > SHOWN_LEARNED else once
    findings: list[Finding] = []
    notes = _of_corpus(verification, trusted=trusted, watched=watched) if drawn else []
    rests_on = "verified" if verification is not None else "trusted" if trusted else ""
    rests_on, doubt = "watched" if watched else rests_on, ""
    for place, audit in drawn:
        which = f"audit {place}: " if len(audits) > 1 else ""
        most = control or max(c.repetitions for c in audit.injected)
        trained = audit.settings.get("canaries_in_corpus") is True
        accepted = trusted or trained or watched or baseline is not None
        accepted &= control is None
        who = f"canaries with {plural(most, 'copy', 'copies')}"
        combined = combined_p([c for c in audit.injected if c.repetitions == most])
        value = 1.0 if combined is None else combined.p_value
        p = probability(value)
        vouched_for = vouched or trained
        unlearned = f"even the {who} do not look learned (p = {p})"
        told, cure = "", ""
        if value <= SHOWN_LEARNED:
            told = f"the {who}, a positive control without a limit, look learned (p = {p})" * bool(
                control
            )
        elif not vouched_for:
            every = combined_p(audit.injected)
            learned = every is not None and every.p_value <= SHOWN_LEARNED
            told, cure = unread(most, value, learned=learned), _UNTRAINED_CURE
        elif once is not None:
            told = f"{unlearned}, and in the baseline they do (p = {probability(once)}). "
            told, cure = told + _RIGHT_OR_WRONG, _UNLEARNED_CURE
        elif reads_no_english(audit.notes):
            told = f"{unlearned}, and the model finds ordinary English no more likely than random "
            told += "tokens"
            cure = _FOREIGN_CURE
        elif accepted:
            doubt = f"{which}{unlearned}, {_ALIKE}"
            notes.append(f"{doubt}. {_RIGHT_OR_WRONG}. To make sure, {_POSITIVE_CONTROL}")
        else:
            told, cure = _no_control(unlearned, most if control is None else None)
        if told:
            findings.append(
                Finding(
                    *("training data", which + who, "undecided" if cure else "passed"),
                    *(which + told, cure),
                    limit=SHOWN_LEARNED, value=value, chance=SHOWN_LEARNED,
                )
            )  # fmt: skip
        if value <= SHOWN_LEARNED and not vouched:
            notes.append(
                f"{which}the {who} look learned (p = {p}), and nothing here shows that the others "
                f"were in the training data as well: {_TO_SHOW_IT}"
            )
    judged = replace(verdict, findings=_doubts_first([*verdict.findings, *findings]))
    return replace(judged, notes=tuple(notes), rests_on=rests_on, doubt=doubt) if judged else judged


def _doubts_first(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Findings with what is in doubt of the audit before exposures, which more canaries narrow."""
    wide = any(found.check == "exposure" for found in findings)
    return tuple(
        sorted(
            findings,
            key=lambda found: (
                wide and (found.outcome, found.check in OF_ITSELF) != ("undecided", True)
            ),
        )
    )


def unread(most: int, p_value: float, *, learned: bool = False) -> str:
    """What to say where not even the canaries with the `most` copies look learned.

    With `learned`, all canaries together do.
    """
    shown, who = probability(p_value), f"canaries with {plural(most, 'copy', 'copies')}"
    if float(f"{p_value:.1g}") <= SHOWN_LEARNED < p_value:  # not rounded to the level
        shown = f"{p_value:#.3g}"
    if learned:
        return (
            f"nothing shows that the {who} were in the training data: they do not look learned "
            f"(p = {shown}), although all groups together do"
        )
    return (
        f"nothing shows that the canaries were in the training data: even the {who} do not look "
        f"learned (p = {shown}), {_ALIKE}"
    )


def _no_control(unlearned: str, most: int | None) -> tuple[str, str]:
    """What to say where nothing looks learned, and the cure; without `most` of a control."""
    many = most is None or most >= POSITIVE_CONTROL
    known = ", which a model that read them has learned" * many
    cure = _WANTED_CURE if many else _POSITIVE_CONTROL
    return f"{unlearned}{known}, {_ALIKE}. {_RIGHT_OR_WRONG}", cure + _ACCEPTED * (most is not None)


def _of_corpus(verification: Verification | None, *, trusted: bool, watched: bool) -> list[str]:
    """What a verification shows, or the user's word, and what it does not."""
    if verification is None:
        word = f"nobody checked that the canaries were in the training data: {_TO_SHOW_IT}"
        return [word] if trusted and not watched else []
    there = [counted for counted in verification.canaries if counted.expected]
    number = plural(len(there), "canary", "canaries")
    copies = plural(sum(counted.found for counted in there), "copy", "copies")
    told = f"{count(len(there))} of {number} ({copies}) are in the corpus of "
    told += clean(verification.file or "the verification")
    if watched:  # which says all of what follows
        return [told]
    return [
        f"{told}; whether the training of this model read all of it is not seen, nor whether it "
        "left the text as it is (spaces between digits, masks, padding before it): --history shows "
        "it (in Python history), the canary_history.json of ExposureMonitor"
    ]

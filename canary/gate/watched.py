"""What a monitor counted in the batches of a training, as evidence of what was trained on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from canary.audits.audit_result import CANARY_SET, CHATS, Audit
from canary.audits.audit_setup import TOKENIZER
from canary.audits.copies_seen import is_on_copies
from canary.audits.group_medians import median_bits
from canary.audits.history import AT_THE_END, MOST_COUNTED, History
from canary.corpus.verification import Verification
from canary.errors import InputError
from canary.formats.unplanted import noted
from canary.gate.audit_doubts import NOT_SEEN
from canary.gate.verdict import Finding, Outcome, group_name
from canary.models.english import misfits
from canary.models.examining import shifted
from canary.records.validation import file_path
from canary.statistics.numbers import bits, count, plural
from canary.tokens.starts import shown_start

HISTORY = "history"
"""The subject of a finding on a history that is not shown to be of the audited model."""

IN_BATCHES = "In the batches of the training, "
"""How a note begins that says what came before the canaries in training."""

_ROUNDING_BITS = 0.02  # of a whole candidate, between two batches in float32
_SPOILED = (
    "had no label on their secret",
    "a length limit or packing cuts canaries",
    "followed the context: apply",
)
_WITHIN = "were seen within other text"
_WHOLE = (
    "make sure that the training reads the file that canary inject wrote, and that nothing masks, "
    "cuts, drops (as dataloader_drop_last does) or filters its texts (canary.preflight finds it "
    "before the first step)"
)
_CONTEXT = (
    "leave out what training puts before each text, or train again with that text as context of "
    "the monitor (and of the audit, --context): both look for the secrets after it then"
)
_STOPPED = (
    "a model that did not read all copies is not judged by this limit: train to the end with a "
    "higher stop_above_bits or none (give the monitor require_learned if only the positive control "
    "was above it)"
)
_ITS_HISTORY = (
    "give the canary_history.json that the training of this model wrote at its end, and audit with "
    "its start token and context. Quantised, merged or further trained weights, and those of an "
    "earlier step (load_best_model_at_end), have none: leave it out and give --verification"
)
_WATCH = (
    "give --history the canary_history.json of a training under ExposureCallback or "
    "ExposureMonitor (in Python history), which reads the template off the batches"
)
_RENDER = (
    "give --verification what canary verify --tokenizer MODEL --json printed of the chats (in "
    f"Python verification); or {_WATCH}"
)


def _history_in(given: History | str | os.PathLike[str]) -> History:
    """A history, or that in a file."""
    if isinstance(given, History):
        return given
    cure = "give the canary_history.json of the training, or what the monitor's history is"
    return History.load(file_path(given, "history", cure=cure))


def watched(
    audits: Sequence[Audit], given: History | str | os.PathLike[str] | None
) -> tuple[list[Finding], bool]:
    """Whether the batches of a training held the canaries of its audit as often as planned.

    And whether the audit prices every canary as the monitor did at its last measurement: then the
    audited model and its tokenizer are those of the training. If it does not, or the monitor
    measured nothing, the history may be of another training, and decides nothing.

    Raises
    ------
    InputError
        If the history is of another canary set, of a model with other tokens, or of another
        tokenizer, or there are several audits.
    """
    if given is None:
        return [], False
    if len(audits) > 1:
        raise InputError(
            "a history is of one training, and several audits were given",
            cure="check each audit with the history of its training",
            where="history",
        )
    audit, history = audits[0], _history_in(given)
    mine = [(c.id, c.format, c.repetitions) for c in audit.canaries]
    theirs = [(c.id, c.format, c.repetitions) for c in history.canaries]
    formats = [each.format for each in audit.formats], [each.text for each in history.formats]
    sets = audit.settings.get(CANARY_SET), history.settings.get(CANARY_SET)
    told, cure = "", "give the canary_history.json of the training whose model was audited"
    if mine != theirs or formats[0] != formats[1] or (all(sets) and sets[0] != sets[1]):
        told = "of another canary set than the audit"
    own, its = (int(each.model.get("vocabulary") or 0) for each in (audit, history))
    if not told and own and its and own != its:
        told = f"of a model with {count(its)} tokens, and the audited one has {count(own)}"
    prints = [each.settings.get(TOKENIZER) for each in (audit, history)]
    if not told and all(prints) and prints[0] != prints[1] and not _same_prices(audit, history):
        told = "of a training with another tokenizer than that of the audit"
        cure = "audit with the tokenizer of the training (--tokenizer), or " + cure
    if told:
        raise InputError(
            f"the history is {told}",
            cure=cure,
            where="history",
        )
    seen = history.batches
    found, read = seen.get("canaries", 0), plural(seen.get("read", 0), "batch", "batches")
    short = history.shortage
    told = f"the monitor counted {plural(found, 'copy', 'copies')} of canaries in {read}"
    enough = found >= MOST_COUNTED and not short
    told += ", which is enough, so it counted no further" * enough
    cure = ""
    if not found:
        told, cure = f"the monitor counted no canary in {read} of the training", _WHOLE
    elif short:
        told, cure = _too_few(history, f"{told}, and {short}")
    else:
        known = bool(audit.settings.get("context"))
        spoiled, cure = _spoiled(seen.get("findings", ()), known=known)
        told += spoiled
    same = not cure and _same_prices(audit, history)
    if same:
        step = count(history.measured[-1].step)
        told += f", and at step {step} it scored them all as the audit does: it is the same model"
    elif not cure and history.measured:
        told, cure = _other_prices(audit, history), _ITS_HISTORY
    elif not cure:
        told += ", and never measured them: nothing shows that this training made the audited model"
        cure = _ITS_HISTORY
    outcome: Outcome = "passed" if same else "undecided"
    subject = HISTORY if cure == _ITS_HISTORY else "batches"
    return [Finding("training data", subject, outcome, told, cure)], same


def _spoiled(findings: Sequence[str], *, known: bool) -> tuple[str, str]:
    """What kept copies from being read as the audit scores them, if anything, and the cure.

    If the text before them is `known`, it does not matter what comes before that.
    """
    for sentence in findings:
        if any(mark in sentence for mark in _SPOILED):
            return f"; {sentence}", _WHOLE
        if _WITHIN in sentence and not known:
            return f", but {sentence.partition(':')[0]}", _CONTEXT
    return "", ""


def _too_few(history: History, told: str) -> tuple[str, str]:
    """What to say of a training whose batches had fewer copies than the set, and the cure."""
    step, last = history.stopped_at, history.measured[-1:]
    late = AT_THE_END in (history.stop_reason or "") or any(m.step > (step or 0) for m in last)
    if step is None or late:
        more = "; of several processes the monitor reads the batches of the first only"
        return told, _WHOLE + more
    first = f"the monitor stopped this training at step {count(step)}: {history.stop_reason}"
    return f"{first}. Until then {told}", _STOPPED


def _start_in_batches(audit: Audit, given: History | str | os.PathLike[str] | None) -> str:
    """What the batches of the training say of the audit's start token; empty if they do not.

    Or if nothing shows that the training made the audited model.
    """
    history = None if given is None else _history_in(given)
    if history is None or audit.start is None or not _same_prices(audit, history):
        return ""
    seen = history.batches.get("after", {})
    if [*seen] != [shown_start(audit.start.token)]:
        return ""
    ((shown, number),) = seen.items()
    who = plural(number, "canary", "canaries")
    token = "no start token" if shown == shown_start(None) else f"the start token {shown}"
    return f"{IN_BATCHES}{token} came before {who}, as in the audit"


def still_open(
    findings: Sequence[Finding],
    audits: Sequence[Audit],
    given: History | str | os.PathLike[str] | None,
) -> list[Finding]:
    """Those findings that a history of the training does not answer.

    One that prices the canaries as the audit does read them with the same tokenizer.
    """
    if given is None:
        return [*findings]
    answered = ["start token"] * bool(_start_in_batches(audits[0], given))
    answered += ["tokenizer"] * watched(audits, given)[1]
    return [
        replace(found, sentence=found.sentence.removesuffix(NOT_SEEN))
        for found in findings
        if found.check not in answered
    ]


def template_unseen(
    audits: Sequence[Audit],
    verification: Verification | None,
    history: History | str | os.PathLike[str] | None,
) -> list[Finding]:
    """Canaries of chats, if nothing shows that their training had the chat template.

    A verification that rendered the chats does, and a history of the audited model.
    Without either, canaries of many copies may look learned behind text that training never had,
    and the others do not.
    """
    findings = []
    for place, audit in enumerate(audits, 1):
        start, context = audit.start, str(audit.settings.get("context") or "")
        chats = audit.settings.get(CHATS) or (start is not None and start.why == "template")
        if not chats:
            continue
        told, cure = "", _RENDER
        seen = None if history is None else _history_in(history)
        same = seen is not None and _same_prices(audit, seen)
        if same and seen is not None and seen.settings.get("context") == context:
            continue
        if verification is None:
            told = "the canaries are chat messages, and nothing shows which chat template came "
            told += "before them in training"
        elif context and verification.begins_texts:
            told = "in the corpus the canaries begin their texts, without a chat template"
            cure = _WATCH
        elif context and verification.messages and verification.canaries[0].intact is None:
            told = "the canaries are chat messages, and they were verified without their template"
        if told:
            before = "the chat template before them" if context else "nothing before them"
            told += f"; the audit scored them with {before}. If training had something else there, "
            told += "the numbers are too low, even where a positive control looks learned"
            which = f"audit {place}: " if len(audits) > 1 else ""
            subject = f"{which}chat template"
            findings.append(Finding("context", subject, "undecided", which + told, cure))
    return findings


def unanswered(
    audits: Sequence[Audit],
    verification: Verification | None,
    given: History | str | os.PathLike[str] | None,
) -> list[str]:
    """What the audits note, but for doubts that a verification or a history answers; its own.

    With the number of the audit where not all note it.
    """
    doubts_on_corpus = [] if verification is None else [*verification.doubts]
    whole = watched(audits, given)[1]
    whole = whole or (verification is not None and verification.ok)
    kept = []
    for audit in audits:
        answers = _start_in_batches(audit, given)
        doubts = [] if audit.start is None or not answers else audit.start.notes
        doubts = [
            *doubts,
            *misfits(audit.notes),
            *shifted(audit.notes),
            *(f"{problem}: {cure}" for problem, cure in noted(audit.notes) if not audit.natural),
        ]  # which are findings, or answered
        notes = [n for n in audit.notes if n not in doubts and not (whole and is_on_copies(n))]
        kept.append(([answers] if answers else []) + notes)
    shared = set.intersection(*map(set, kept))
    numbered = ((f"audit {n}: ", note) for n, notes in enumerate(kept, 1) for note in notes)
    return doubts_on_corpus + list(
        dict.fromkeys(note if note in shared else which + note for which, note in numbered)
    )


def _apart(audit: Audit, history: History) -> list[float]:
    """How far the log-perplexities at the last measurement are off, beyond rounding, in bits."""
    theirs = history.measured[-1].px_bits
    own, its = (each.model.get("noise_bits_per_token") or 0.0 for each in (audit, history))
    noisier = 2.0 * max(1.0, its / own if own else 1.0)
    noise = [_ROUNDING_BITS + noisier * audit.formats[c.format].noise_bits for c in audit.canaries]
    mine = [c.px_bits for c in audit.canaries]
    return [abs(a - b) - n for a, b, n in zip(mine, theirs, noise, strict=True)]


def _same_prices(audit: Audit, history: History) -> bool:
    """Whether no log-perplexity differs by more than rounding; of two models some would."""
    return bool(history.measured) and max(_apart(audit, history)) <= 0.0


def _other_prices(audit: Audit, history: History) -> str:
    """What keeps the last measurement from being one of the audited model, in words."""
    apart = [off for off in _apart(audit, history) if off > 0.0]
    last, number = history.measured[-1], plural(len(audit.canaries), "canary", "canaries")
    told = f"at step {count(last.step)}, its last measurement, it scored {count(len(apart))} of "
    told += f"{number} otherwise than the audit (by up to {max(apart):,.3g} bits"
    settings = audit.settings
    before = settings.get("start_token"), str(settings.get("context") or "")
    if before != (last.start_token, str(history.settings.get("context") or "")):
        return (
            "nothing shows that the history is of this model: "
            f"{told}, after another start token or context)"
        )
    for moment in history.measured[-2::-1]:
        if max(_apart(audit, replace(history, moments=(moment,)))) <= 0.0:
            return (
                f"the audited model is that of step {count(moment.step)} of this training, not of "
                f"its end at step {count(last.step)}, as load_best_model_at_end=True leaves it"
            )
    return f"the history is of another training, or of this one before it ended: {told})"


def last_within(
    findings: Sequence[Finding],
    audits: Sequence[Audit],
    given: History | str | os.PathLike[str] | None,
) -> list[str]:
    """For each group above a limit in bits, the last step of the history at which it was not."""
    history = None if given is None else _history_in(given)
    if history is None or not _same_prices(audits[0], history):
        return []
    ends = []
    for copies, places in history.places().items():
        over = [f for f in findings if (f.subject, f.check) == (group_name(copies), "exposure")]
        if not over or over[0].outcome != "memorized" or over[0].limit is None:
            continue
        within = ""
        for moment in history.measured:
            median, bound = median_bits([moment.exposures[at] for at in places])
            if not bound and median <= over[0].limit:
                within = f"step {count(moment.step)} (median {bits(median)} bits)"
        ends.append(f"{plural(copies, 'copy', 'copies')}: {within or 'no measured step'}")
    if not ends:
        return []
    return [f"by the history, the last step at which canaries were within the limit, for each "
            f"number of copies: {'; '.join(ends)}"]  # fmt: skip

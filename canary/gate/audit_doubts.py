"""What makes an audit unfit for a verdict: tokenizer, logits, start token, context, control."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from canary.audits.audit_result import CHATS, Audit, combined_p
from canary.audits.audit_setup import short_of
from canary.audits.by_rank import exact_ranks
from canary.audits.cut_secrets import cut_in
from canary.audits.group_medians import median_bits
from canary.corpus.verification import Verification
from canary.formats.unplanted import noted
from canary.gate.verdict import Finding
from canary.models.english import misfits
from canary.models.examining import shifted
from canary.statistics.learned_parts import SHOWN_LEARNED
from canary.statistics.numbers import plural

_CUT_CURE = (
    "raise the length limit of the training, or use a shorter format, then train and audit again "
    "(ExposureCallback finds a cut before the first step); if nothing was cut, --undecided pass "
    "accepts it"
)
_TEMPLATE_CURE = (
    "if training applied no chat template, this audit is right: verify the texts that training "
    "reads; if it applied one, audit again without --chat-template none (in Python chat_template)"
)

NOT_SEEN = (
    "; whether the training had it too is not seen here: ExposureCallback and canary.preflight "
    "count"
)
"""How a finding ends that a verification answers, and the history of a monitor would."""

_MORE_COPIES = (
    "inject canaries with more copies and require those to be learned (--require-learned, in "
    "Python require_learned); or give --history the canary_history.json of the training, which "
    "shows that this model and this tokenizer read the canaries"
)
_TOKENIZER_CURE = (
    "audit with the tokenizer of the training (--tokenizer, in Python canary.load(model, "
    "tokenizer=...)); if this is it, give --history the canary_history.json of the training, "
    "which shows it, or accept it with --undecided pass"
)


def doubts_before(audit: Audit, verification: Verification | None) -> list[Finding]:
    """What more draws or canaries do not settle: tokenizer, logits, what is before, a cut.

    Empty where nothing is in doubt, the audit looked for no start token, or the corpus was not
    verified.
    """
    findings = [
        Finding(
            *("tokenizer", "tokenizer", "undecided"),
            f"{found[0].lower()}{found[1:]}, so this may be the tokenizer of another model, under "
            "which the numbers are far too low, those of a positive control as well",
            _TOKENIZER_CURE,
        )
        for found in misfits(audit.notes).values()
    ]
    findings += [
        Finding(
            *("logits", "logits", "undecided"),
            f"{found[0].lower()}{found[1:]}, so the logits are probably shifted twice, and the "
            "numbers far too low, those of a positive control as well",
            "look up token i + 1 in the logits of position i, run canary doctor and audit again; "
            "if the model is meant so, --undecided pass accepts it",
        )
        for found in shifted(audit.notes).values()
    ]
    findings += [
        Finding("canary set", "canary set", "undecided", problem, cure)
        for problem, cure in noted(() if audit.natural else audit.notes)
    ]
    start = audit.start
    if start is not None and not start.settled:
        told = (
            "what training put before each text could not be found out, so the numbers may be low"
        )
        if start.rivals:
            told = "the result depends on the start token or the context: "
            told += start.against(start.rivals[0])
        findings.append(Finding("start token", "start token", "undecided", told, start.cure))
    findings += [
        Finding("training data", "length limit", "undecided", note.removesuffix("."), _CUT_CURE)
        for note in cut_in(audit.notes)
    ]
    if verification is not None and (before := verification.follows):
        context = str(audit.settings.get("context") or "")
        token = str(audit.settings.get("start_token") or "")
        if not (token + context).endswith(before):
            asked = f"after {context!r}" if context else "without a context"
            told = (
                f"in the corpus {before!r} comes before the canaries, and the audit scored them "
                f"{asked}, so the numbers may be low"
            )
            cure = f"audit again with --context {before!r} (in Python context)"
            if audit.settings.get(CHATS) and not context:
                told = f"in the corpus {before!r} comes before the canaries, as verified with the "
                told += "chat template, and the audit scored them without it, so the numbers may "
                told += "be low"
                cure = _TEMPLATE_CURE
            findings.append(Finding("context", "context", "undecided", told, cure))
        else:
            told = f"corpus and audit have the same text before the canaries, {before!r}{NOT_SEEN}"
            findings.append(Finding("context", "context", "passed", told))
    if verification is not None and verification.begins_texts:
        findings += _at_the_beginning(audit)
    if verification is not None and verification.messages and not audit.settings.get("context"):
        told = (
            "in the corpus the canaries begin chat messages, before which the chat template of the "
            "training puts text, and the audit scored them without a context, so the numbers may "
            "be low"
        )
        cure = (
            "audit again with what the template puts before such a message as --context (in Python "
            "context); if the training uses no template, verify the texts that it reads"
        )
        cure = _TEMPLATE_CURE if audit.settings.get(CHATS) else cure
        findings.append(Finding("context", "context", "undecided", told, cure))
    return findings


def _at_the_beginning(audit: Audit) -> list[Finding]:
    """What the audit put before canaries that begin their texts in the corpus."""
    context = str(audit.settings.get("context") or "")
    if context.strip():
        return []  # the training may put it there
    told = "in the corpus the canaries begin their texts, and the audit scored them"
    if context:
        told += f" after {context!r}, so the numbers may be low"
        cure = "audit again without --context (in Python context), and name the start token"
        return [Finding("context", "context", "undecided", told, cure)]
    return [Finding("context", "context", "passed", f"{told} at the beginning of a text")]


def weak_controls(
    audits: Sequence[Audit],
    left_out: Collection[int],
    control: int | None,
    limit: float | None,
    *,
    trusted: bool,
) -> list[Finding]:
    """Canaries with the most copies that look learned and do not reach a limit, not set for them.

    Then nothing shows that the audit could see a model that does not keep the limit. Without a
    named `control`, the user's word does instead.
    """
    findings = []
    for place, audit in enumerate(audits, 1):
        most = control or max(c.repetitions for c in audit.injected)
        tested = combined_p(audit.by_repetitions()[most])
        unlearned = tested is None or tested.p_value > SHOWN_LEARNED  # which is said elsewhere
        if limit is None or most not in left_out or unlearned or (trusted and not control):
            continue
        if short := short_of(audit, most, limit):
            which = f"audit {place}: " if len(audits) > 1 else ""
            who = f"canaries with {plural(most, 'copy', 'copies')}"
            told = (
                f"{which}the {who} are a positive control, and their median exposure is {short}, "
                f"below the limit of {limit:g}: so nothing shows that this audit could see a model "
                "that does not keep the limit"
            )
            cure = _MORE_COPIES
            seen = [c.exposure for c in audit.by_repetitions()[most]]
            if median_bits(seen, ranked=True)[1]:
                ranks = exact_ranks(audit.model)
                cure = f"use {f'{ranks} or ' * bool(ranks)}more draws (--draws, in Python draws), "
                cure += f"which may show that they reach it; or {_MORE_COPIES}"
            findings.append(Finding("positive control", which + who, "undecided", told, cure))
    return findings

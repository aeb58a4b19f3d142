"""What an audit of a set needs before it measures: controls of natural secrets, and an identity."""

from __future__ import annotations

import hashlib
import math
import statistics
from dataclasses import replace
from typing import Any

import numpy as np

from canary.audits.audit_result import CANARY_SET, CHATS, Audit, combined_p
from canary.audits.question import AuditOptions
from canary.audits.search_ranks import with_search
from canary.corpus.canaries import Canary, CanarySet
from canary.errors import InputError, UnsupportedError
from canary.formats.format import Format
from canary.models.language_model import LanguageModel
from canary.scoring.run_options import identity_of
from canary.statistics.numbers import bits, count

CONTROL_COPIES = "require_learned"
"""The setting of an audit that names the number of copies of a positive control."""

LIMIT = "max_exposure_bits"
"""The setting that keeps the limit which an audit was made for; it is judged by `canary.check`."""

TOKENIZER = "tokenizer"
"""The setting with the fingerprint of the tokenizer; audits of earlier versions lack it."""

_CONTROLS_STREAM = 0x6374726C  # keeps controls apart from what else is drawn from the seed
_CONTROLS = 16  # of each format, for natural secrets, which bring none


def no_bounds() -> UnsupportedError:
    """The error where an audit is asked of a server that returns only some next tokens."""
    return UnsupportedError(
        "an audit scores draws, and the server of this model returns only the most likely next "
        "tokens (--top-k)",
        cure="use canary exposure and canary extract, which give bounds",
    )


def set_of(
    canaries: CanarySet, control: int | None = None, *, tokenizer: object = None
) -> dict[str, Any]:
    """Settings of an audit: of which set it is, which group is to be learned, the tokenizer."""
    chats = {CHATS: canaries.role} if canaries.role else {}
    learned = {CONTROL_COPIES: control} if control else {}
    return {CANARY_SET: canaries.fingerprint, **chats, **learned, **tokenizer_of(tokenizer)}


def tokenizer_of(tokenizer: object) -> dict[str, str]:
    """The setting that says with which tokenizer texts were read, where that is known."""
    known = getattr(tokenizer, "fingerprint", None)
    return {TOKENIZER: known} if isinstance(known, str) and known else {}


def control_in(canaries: CanarySet, control: int | None) -> None:
    """An `InputError` unless some canaries have the copies of a positive control, not all."""
    there = {canary.repetitions for canary in canaries.injected}
    if control is None or (control in there and len(there) > 1 and not canaries.natural):
        return
    raise InputError(
        f"{control!r} is no positive control of this set: it takes canaries with as many copies, "
        "and others with fewer",
        cure=f"name one of {', '.join(map(count, sorted(there))) or 'none'}, or leave it out",
        where="require_learned",
    )


def control_of(*audits: Audit) -> int | None:
    """The number of copies of the positive control that was named."""
    return max(int(audit.settings.get(CONTROL_COPIES) or 0) for audit in audits) or None


def with_limit(audit: Audit, limit_bits: float) -> Audit:
    """An audit that keeps the limit it was made for."""
    return replace(audit, settings={**audit.settings, LIMIT: limit_bits})


def limit_of(audit: Audit) -> float | None:
    """The limit that an audit was made for, in bits; None in audits of earlier versions."""
    limit = audit.settings.get(LIMIT)
    if isinstance(limit, bool) or not isinstance(limit, int | float):
        return None
    return float(limit) if 1.0 <= limit < math.inf else None


def with_control(audit: Audit, control: int) -> Audit:
    """An audit whose positive control is named, if there is one."""
    if not any(c.repetitions == control for c in audit.injected):
        return audit
    return replace(audit, settings={**audit.settings, CONTROL_COPIES: control})


def short_of(audit: Audit, control: int, limit_bits: float) -> str:
    """The median exposure of a positive control that does not reach a limit; empty if it does.

    Or if it is as high as it can be measured: above all draws but one, or near the ceiling of its
    ranks.
    """
    known = with_search(audit)
    group = [c.exposure for c in known.by_repetitions()[control]]
    place = statistics.median(e.place_bits for e in group)
    above = statistics.median(e.upper_bits if e.bits is None else e.bits for e in group) > place
    seen = min(math.log2(e.draws or math.inf) for e in group)  # the most that draws show
    reached = above or place >= min(limit_bits, seen) or control in known.at_ceiling()
    return "" if reached else f"{bits(place)} bits"


def without_control(audit: Audit) -> Audit:
    """An audit without its positive control: what is judged."""
    control = control_of(audit)
    if not control:
        return audit
    rest = tuple(c for c in audit.canaries if c.repetitions != control)
    settings = {name: value for name, value in audit.settings.items() if name != CONTROL_COPIES}
    tested = combined_p([c for c in rest if not c.control])
    return replace(audit, canaries=rest, injected_p=tested, settings=settings)


def with_controls(canaries: CanarySet, seed: int) -> CanarySet:
    """Natural secrets with controls behind them, drawn from the rest of each space."""
    controls: list[Canary] = []
    for number, format in enumerate(canaries.formats):
        taken = {c.fill for c in canaries if c.format == number}
        rng = np.random.default_rng([_CONTROLS_STREAM, seed, number])
        drawn = format.sample(min(_CONTROLS + len(taken), format.size), rng=rng)
        free = [fill for fill in drawn if fill not in taken][:_CONTROLS]
        first = len(canaries.controls) + len(controls) + 1
        controls += [
            Canary(f"control-{at}", number, fill, 0) for at, fill in enumerate(free, first)
        ]
    return replace(canaries, canaries=(*canaries.canaries, *controls))


def audit_identity(
    model: LanguageModel, options: AuditOptions, canaries: CanarySet
) -> dict[str, Any]:
    """What makes two audits the same; of the canaries only what is no secret.

    That the fills are the same is seen by their log-perplexities, in the shards.
    """
    return {
        "task": "audit",
        **identity_of(model),
        **{name.replace("_", " "): value for name, value in options.asked().items()},
        "list of formats": [format.text for format in canaries.formats],
        "set of fills": [_digest_of_space(format) for format in canaries.formats],
        "set of canaries": [[c.id, c.format, c.repetitions] for c in canaries],
    }


def _digest_of_space(format: Format) -> str:
    """SHA-256 of all fills together: word lists and registered kinds are not in the text."""
    automaton, digest = format.automaton, hashlib.sha256()
    for part in (automaton.offsets, automaton.targets, automaton.final):
        digest.update(np.ascontiguousarray(part).data)
    digest.update("\0".join(automaton.chars).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def in_one_format(audit: Audit) -> Audit:
    """The audit as if of one format, for a figure of all copies; as it is if that is not fair.

    It is if each number of copies has a format of its own, and all have as many candidates.
    """
    homes = {(c.repetitions, c.format) for c in audit.injected}
    copies, sizes = {n for n, _ in homes}, {one.space_size for one in audit.formats}
    if len({at for _, at in homes}) < 2 or len(copies) < len(homes) or len(sizes) > 1:
        return audit
    canaries = tuple(replace(c, format=0) for c in audit.canaries)
    return replace(audit, formats=audit.formats[:1], canaries=canaries)

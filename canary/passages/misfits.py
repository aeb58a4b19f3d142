"""Why passages may not come out of a model that memorized them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from canary.models.english import above_chance
from canary.passages.likeness import Likeness
from canary.scoring.start_notes import StartChoice
from canary.statistics.numbers import clean, plural
from canary.tokens.starts import USUAL_STARTS, shown_start, start_flag

_KNOWN_BITS, _SAME_BITS = 1.0, 0.2  # by which a token of texts costs less than one of controls
_FEW = 0.5  # of the passages

WITHOUT_TEMPLATE = (
    "the tokenizer has a chat template, and passages were measured as plain text, without it"
)

PREFIX_ONLY = (
    "before a passage from the middle of a text the model sees no more than the prefix; with all "
    "of the text before it, more may come out (--context document)"
)


def measured_how(
    settings: Mapping[str, Any], start: StartChoice | None, *, inside: bool
) -> list[str]:
    """Notes on what came before the passages, of which some begin `inside` a text."""
    notes = [WITHOUT_TEMPLATE] if settings.get("template_left_out") else []
    if start is not None and start.why == "tokenizer":
        notes.append(
            f"before each passage comes {clean(start.own)}, as the tokenizer puts it there"
        )
    elif start is not None:
        why = "because nothing else could be tried"
        if start.texts:
            why = f"after which the beginnings of {plural(start.texts, 'text')} are most likely"
        notes.append(
            f"before each passage comes {shown_start(start.token)}, {why}; this matters most for "
            "passages at the beginning of a text. If training put something else there, name it "
            "with --start-token (in Python start_token)"
        )
    if inside and "context_tokens" not in settings:
        notes.append(PREFIX_ONLY)
    return notes


def likeness_notes(likeness: Likeness) -> list[str]:
    """Notes on controls of another kind, and on texts that may not be as training read them."""
    notes = []
    if why := likeness.other_kind:
        notes.append(
            f"the controls are of another kind than the texts: {why}. So passages may "
            "come out for their kind, and not from memory: give controls from the same source"
        )
    notes += [
        f"{oddity}: if training read the texts otherwise, give them so, because more may come out"
        for oddity in likeness.oddities
    ]
    return notes


def known_but_not_repeated(
    texts: float | None, controls: float | None, share: float
) -> tuple[str, str]:
    """Why a model that knows the texts may repeat few of them, and the cure; else empty.

    A token of the texts costs the model this many bits, and one of the controls so many. It
    repeats this share of the passages.
    """
    if texts is None or controls is None or controls - texts < _KNOWN_BITS or share >= _FEW:
        return "", ""
    problem = f"the model knows the texts ({texts:.1f} bits per token, {controls:.1f} for controls)"
    problem += " but repeats few of their passages: it may have read them in another form, and "
    cure = "compare the texts with what training really read: line breaks, quotes, capitals, "
    cure += "tokenizer, chat template, and rows shorter than prefix and suffix together"
    return f"{problem}then more comes out of that form", cure


def no_better_known(texts: float | None, controls: float | None) -> str:
    """What shows that a model may never have read the texts; empty if it knows them better."""
    if texts is None or controls is None or texts < controls - _SAME_BITS:
        return ""
    return (
        f"it finds them no more likely than the controls ({texts:.2f} and {controls:.2f} bits "
        "per token)"
    )


def doubts_of(
    bits: float | None, model: Mapping[str, Any], start: StartChoice | None, likeness: Likeness
) -> tuple[tuple[str, str], ...]:
    """What is doubtful, and the cure, of texts whose tokens cost this many `bits` each."""
    doubts = []
    uniform = math.log2(model.get("vocabulary") or 1)
    if bits is not None and uniform and not above_chance(bits, uniform):
        problem = "the model finds the texts no more likely than random tokens "
        problem += f"({bits:.1f} bits per token; {uniform:.1f} where all are equally probable)"
        doubts.append((problem, "make sure that it is trained, and that this is its tokenizer"))
    if start is not None and start.token is None and (rival := _usual_rival(start)):
        problem = (
            "nothing came before the passages, and the beginnings of texts are no less likely "
        )
        problem += f"after {shown_start(rival)}: a model that was trained with it may repeat less "
        cure = f"measure again with {start_flag(rival)}, or with {start_flag(None)} if nothing "
        doubts.append((f"{problem}without it", f"{cure}came before a text in training"))
    return (*doubts, *lacking(likeness))


def lacking(likeness: Likeness) -> list[tuple[str, str]]:
    """The doubt about texts that lack what all others have, and the cure."""
    if not (lack := likeness.texts_lack):
        return []
    problem = f"no text has {' or '.join(lack)}, as controls do: they may not be as training "
    problem += "read them, and then less comes out"
    return [(problem, "give texts and controls both exactly as training reads text")]


def _usual_rival(start: StartChoice) -> str | None:
    """A token that is usual before texts, of which they are as likely as after nothing."""
    bits = {each.token: each.later_bits for each in start.tried if each.later_bits is not None}
    open_to = [each.token for each in start.tried if each.contender]
    found = (one for one in USUAL_STARTS if one in open_to or bits.get(one, math.inf) < bits[None])
    return next(found, None) if None in bits else None

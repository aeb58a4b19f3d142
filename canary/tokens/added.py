"""Added tokens: they are cut out of a text before all else, so none may stand in one.

Those that are not normalized are looked for in the text as it is given. The others are
normalized themselves, and looked for in the normalized text. What such a token takes with it
(spaces beside it) and whether it must be a word by itself matters only where it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.formats.automaton import Automaton
from canary.tokens.pattern import OddTextError

__all__ = ["check_added", "occurs_spelled"]


def check_added(
    added: Iterable[Mapping[str, Any]],
    texts: Automaton,
    *,
    normalize: Callable[[str], str],
    spelled: Mapping[str, str],
    lead: str,
) -> None:
    """Refuse texts in which an added token may stand.

    Parameters
    ----------
    added : iterable of mapping
        Added tokens, as `tokenizer.json` says them.
    texts : Automaton
    normalize : callable
        What the tokenizer's normalizer makes of a text.
    spelled : mapping of str to str
        What it makes of each character of the texts.
    lead : str
        What it puts before a text.

    Raises
    ------
    OddTextError
        If one may.
    """
    for token in added:
        content = token["content"]
        if (
            occurs_spelled(texts, normalize(content), spelled=spelled, lead=lead)
            if token.get("normalized", False)
            else texts.occurs(content)
        ):
            raise OddTextError("an added token that may stand in a candidate")


def occurs_spelled(texts: Automaton, part: str, *, spelled: Mapping[str, str], lead: str) -> bool:
    """Whether `part` stands in some text, with its characters spelled out and `lead` before.

    Notes
    -----
    Exact, in O(edges) for each character of the texts and each place in `part` at most.
    """
    if part in lead or any(part in text for text in spelled.values()):
        return True
    if not set(part) <= set(lead).union(*spelled.values()):
        return False
    begun = _begun(texts, part, spelled, lead)
    silent = [char for char, text in spelled.items() if not text]
    for count in range(1, len(part)):
        states, rest = _passing(texts, begun[count], silent), part[count:]
        for char, text in spelled.items():
            if text and (text.startswith(rest) or rest.startswith(text)):
                after = texts.read(states, char)
                if after.size and len(text) >= len(rest):
                    return True
                if after.size:
                    reached = count + len(text)
                    begun[reached] = np.union1d(begun[reached], after)
    return False


def _begun(
    texts: Automaton, part: str, spelled: Mapping[str, str], lead: str
) -> list[NDArray[np.int64]]:
    """States before which the lead or one character ends with the first k of `part`, by k."""
    begun = [np.zeros(0, np.int64) for _ in part]
    for count in range(1, len(part)):
        if lead.endswith(part[:count]):
            begun[count] = np.zeros(1, np.int64)  # of the start
    everywhere = np.arange(len(texts.counts))
    for char, text in spelled.items():
        for count in range(1, min(len(text) + 1, len(part))):
            if text.endswith(part[:count]):
                begun[count] = np.union1d(begun[count], texts.read(everywhere, char))
    return begun


def _passing(
    texts: Automaton, states: NDArray[np.int64], silent: Sequence[str]
) -> NDArray[np.int64]:
    """`states`, and those reached from them by characters that leave nothing."""
    while states.size and silent:
        reached = np.unique(np.concatenate([states, *(texts.read(states, c) for c in silent)]))
        if len(reached) == len(states):
            return reached
        states = reached
    return states

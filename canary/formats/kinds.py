"""The kinds of holes, each a small automaton."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from canary.errors import FormatError
from canary.formats.nfa import Nfa

__all__ = ["KINDS", "Kind"]


@dataclass(frozen=True)
class Kind:
    """A kind of hole.

    Parameters
    ----------
    example : str
        A hole as it is written, shown to those who wrote it wrongly.
    add : callable
        ``add(nfa, source, argument)`` adds the hole's texts to `nfa` behind the state
        `source` and returns the state in which they end. `argument` is the text after
        the colon, None if there is no colon. Raises FormatError, without a place, if
        the argument does not serve.
    """

    example: str
    add: Callable[[Nfa, int, str | None], int]


def _repeated(alphabet: str, example: str) -> Kind:
    """As many characters of `alphabet` as the argument says."""

    def add(nfa: Nfa, source: int, argument: str | None) -> int:
        for _ in range(_count(argument, example)):
            source = nfa.step(source, alphabet)
        return source

    return Kind(example, add)


def _count(argument: str | None, example: str) -> int:
    cure = f"write a whole number of at least 1 after the colon, as in {example}"
    if not argument:
        raise FormatError("the hole has no count", cure=cure)
    if not (argument.isascii() and argument.isdigit()):
        raise FormatError(f"the count {_short(argument)} is not a whole number", cure=cure)
    # Ten digits are beyond every limit, and int() refuses thousands of them.
    count = int(argument.lstrip("0")[:10] or "0")
    if count == 0:
        raise FormatError("the count is 0", cure=cure)
    return count


def _choice(example: str) -> Kind:
    """One of the alternatives that the argument names, separated by bars."""

    def add(nfa: Nfa, source: int, argument: str | None) -> int:
        cure = f"name the alternatives after the colon, as in {example}"
        if not argument:
            raise FormatError("the hole has no alternatives", cure=cure)
        alternatives = argument.split("|")
        if "" in alternatives:
            raise FormatError(
                f"alternative {alternatives.index('') + 1} is empty",
                cure="give each alternative at least one character",
            )
        seen: set[str] = set()
        for alternative in alternatives:
            if alternative in seen:
                raise FormatError(
                    f"the alternative {_short(alternative)} stands twice", cure="name it once"
                )
            if "{" in alternative or "}" in alternative:
                raise FormatError(
                    f"the alternative {_short(alternative)} holds a brace",
                    cure="keep braces outside of holes, written {{ and }}",
                )
            seen.add(alternative)
        return nfa.join([nfa.literal(source, alternative) for alternative in alternatives])

    return Kind(example, add)


def _short(text: str) -> str:
    return repr(text if len(text) <= 20 else text[:19] + "…")


KINDS: Mapping[str, Kind] = {
    "choice": _choice("{choice:red|green|blue}"),
    "digit": _repeated(string.digits, "{digit:9}"),
    "letter": _repeated(string.ascii_lowercase, "{letter:8}"),
}
"""The kinds by the name that stands in a hole."""

"""Regular expressions as automata; the syntax is read by greenery."""

from __future__ import annotations

import re
from functools import partial, reduce
from typing import TYPE_CHECKING

from canary.errors import FormatError
from canary.formats.automaton import MAX_EDGES, Automaton, too_large
from canary.formats.building import Nfa, determinize

if TYPE_CHECKING:
    import greenery
    from greenery.rxelems import Mult

_LONGEST = 10_000
"""Characters of a regular expression."""
_SURROGATES = range(0xD800, 0xE000)
_OUTSIDE = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|([$^])|\(\?P<([^>]*)>", re.DOTALL)
"""Escapes, classes, and what is looked for outside them: anchors, names of groups."""
_EXAMPLE = r"{re:[A-Z]{2}\d{6}}"


def from_pattern(pattern: str) -> Automaton:
    r"""The texts that match a regular expression as a whole.

    Parameters
    ----------
    pattern : str
        Characters, classes (``[a-z0-9_]``, ``\d``, ``\w``, ``\s``, all of them ASCII),
        alternatives, groups, and repetitions with an upper limit.

    Raises
    ------
    FormatError
        If it cannot be read, matches texts of any length (``*``, ``+``, ``{2,}``) or any
        character (``.``, ``[^a]``), or needs an automaton of more than 500,000 edges.

    Examples
    --------
    >>> from canary.formats.patterns import from_pattern
    >>> plate = from_pattern(r"[A-Z]{1,2}-\d{2}")
    >>> plate.size, plate.unrank(100)
    (70200, 'AA-00')
    """
    nfa = Nfa()
    try:
        end = _add(nfa, 0, _parse(pattern))
    except RecursionError:
        # Not chained: the traceback of a thousand frames helps nobody.
        raise FormatError(
            "the pattern is nested too deeply", cure="use fewer groups within groups"
        ) from None
    return determinize(nfa, end)


def _parse(pattern: str) -> greenery.Pattern:
    import greenery

    if not pattern:
        raise FormatError("the hole has no pattern", cure=f"write one as in {_EXAMPLE}")
    if len(pattern) > _LONGEST:
        raise FormatError(
            f"the pattern has {len(pattern):,} characters",
            cure=f"keep to {_LONGEST:,}, or split it between several holes",
        )
    names: list[str] = []
    for match in _OUTSIDE.finditer(pattern):
        if match[1]:
            raise FormatError(
                f"the pattern holds the anchor {match[1]}",
                cure="leave it out: a pattern always covers its whole hole; "
                rf"the character itself is written \x{ord(match[1]):x}",
            )
        names += [match[2]] * (match[2] is not None)
    if len({*names}) < len(names) or not all(map(str.isidentifier, names)):
        raise FormatError(
            "a group of the pattern has no name, or that of another group",
            cure="write ( in place of (?P<…>: names have no use here",
        )
    try:
        return greenery.parse(pattern)
    except RecursionError:
        raise
    except Exception as error:  # its own, IndexError at an open class, ValueError at {3,1}
        raise FormatError(
            "the pattern cannot be read as a regular expression",
            cure=r"close every group and class; write \ before . ? * + ( ) [ ] and, within "
            r"classes, before - and ^; braces as \x7b and \x7d; flags, look-around and "
            "back-references have no place in it",
        ) from error


def _add(nfa: Nfa, source: int, part: greenery.Pattern | greenery.Charclass | Mult) -> int:
    """Add what greenery has read after a state, and return the state of its ends."""
    import greenery
    from greenery.rxelems import Mult

    if isinstance(part, greenery.Pattern):
        # A frozenset: its order does not matter, the minimal automaton is the same.
        return nfa.join([reduce(partial(_add, nfa), c.mults, source) for c in part.concs])
    if isinstance(part, Mult):
        least, most = part.multiplier.min.v, part.multiplier.max.v
        if most is None:
            raise FormatError(
                "the pattern matches texts of any length",
                cure="give *, + and {n,} an upper limit, such as {0,20}",
            )
        ends = [source] if least == 0 else []
        for number in range(1, most + 1):
            source = _add(nfa, source, part.multiplicand)
            if number >= least:
                ends.append(source)
        return ends[0] if len(ends) == 1 else nfa.join(ends)
    if part.negated:
        raise FormatError(
            "the pattern matches nearly every character there is",
            cure="in place of . and negated classes name the characters meant, such as [ -~]",
        )
    if sum(last - first + 1 for first, last in part.ord_ranges) > MAX_EDGES:
        raise too_large()
    codes = (code for first, last in part.ord_ranges for code in range(first, last + 1))
    return nfa.step(source, "".join(chr(code) for code in codes if code not in _SURROGATES))

"""The kinds of holes by name, and how callers add their own."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from canary.errors import FormatError
from canary.formats.automaton import Automaton
from canary.formats.building import concatenate, from_texts, literal, repeated
from canary.formats.checksums import credit_card, iban
from canary.formats.limits import MAX_ALL_EDGES, too_large
from canary.formats.patterns import from_pattern
from canary.formats.syntax import Hole, Literal, parse, place
from canary.registry import Registry

Words = Callable[[], Automaton]
"""Gives the word list of the format at hand."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_DEEPEST = 8  # kinds that are made of kinds that are made of kinds


@dataclass(frozen=True)
class Kind:
    """A kind of hole.

    Parameters
    ----------
    example : str
        A hole as it is written, shown to those who wrote it wrongly.
    build : callable
        ``build(argument, words)`` gives the hole's texts, or a format that has them.
        `argument` is what stands after the colon, None if there is no colon. Raises
        FormatError, without a place, if the argument does not serve.
    builtin : bool
        Whether it means the same in every installation.
    """

    example: str = field(compare=False)
    build: Callable[[str | None, Words], Automaton | str]
    builtin: bool = True


def register(
    name: str,
    meaning: str | Callable[[str | None], Automaton | str],
    *,
    example: str | None = None,
) -> None:
    r"""Add a kind of hole, for this process.

    Parameters
    ----------
    name : str
        What stands in the hole: a small letter, then small letters, digits, underscores.
    meaning : str or callable
        A format whose holes are put in its place; or a function of the hole's argument (the
        text after the colon, None without one) that returns such a format, or an automaton
        made with `canary.formats.building`. It must return the same for the same argument.
    example : str, optional
        A hole as it is written, for messages; ``{name}`` if it is not given.

    Raises
    ------
    FormatError
        If the name is not one, or is taken by another meaning.

    Notes
    -----
    Formats that were made keep their space. A canary set keeps a format's text: whoever
    loads it registers its kinds before, and is told if that is forgotten or if the space
    has another size now.

    Examples
    --------
    >>> from canary import Format
    >>> from canary.formats.kinds import register
    >>> register("plate", "{upper:2}-{digit:4}")
    >>> Format("I drive {plate}.").size
    6760000
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise FormatError(
            f"{str(name)[:20]!r} cannot name a kind of hole",
            cure="use a small letter, then small letters, digits and underscores, 32 at most",
        )
    example = example or f"{{{name}}}"
    KINDS.add(name, Kind(example, _Registered(name, meaning, example), builtin=False))


@dataclass(frozen=True)
class _Registered:
    """Calls what was registered, and says whose fault it is if that fails."""

    name: str
    meaning: str | Callable[[str | None], Automaton | str]
    example: str = field(compare=False)

    def __call__(self, argument: str | None, words: Words) -> Automaton | str:
        if isinstance(self.meaning, str):
            if argument is not None:
                raise FormatError(
                    f"the kind {self.name!r} takes no argument", cure=f"write {self.example}"
                )
            return self.meaning
        try:
            found = self.meaning(argument)
        except FormatError as error:
            cure = error.cure or f"write it as in {self.example}"
            raise FormatError(error.problem, cure=cure) from error
        except Exception as error:
            raise FormatError(
                f"the registered kind {self.name!r} raised {type(error).__name__}: {error!s:.80}",
                cure=f"mend its function, or write it as in {self.example}",
            ) from error
        if not isinstance(found, Automaton | str):
            raise FormatError(
                f"the registered kind {self.name!r} gave {type(found).__name__}",
                cure="let its function return a format or an automaton",
            )
        return found


def compile_pieces(
    pieces: Sequence[Literal | Hole], text: str, words: Words, *, depth: int = 0
) -> list[Automaton]:
    """The texts of each piece of the format `text`.

    Raises
    ------
    FormatError
        If a hole is not one, with its place.
    """
    return [
        literal(piece.text) if isinstance(piece, Literal) else _hole(piece, text, words, depth)
        for piece in pieces
    ]


def _hole(hole: Hole, text: str, words: Words, depth: int) -> Automaton:
    where = place(text, hole.start)
    if hole.kind not in KINDS:
        raise FormatError(
            f"{hole.kind[:20]!r} is no kind of hole" if hole.kind else "a hole has no kind",
            cure="known are "
            + ", ".join(kind.example for kind in KINDS.values())
            + "; register any other before it is used (canary.formats.kinds.register)",
            where=where,
        )
    kind = KINDS[hole.kind]
    try:
        found = kind.build(hole.argument, words)
        if isinstance(found, Automaton):
            return found
        if depth == _DEEPEST:
            raise FormatError(
                f"the kind {hole.kind!r} is made of kinds more than {_DEEPEST} deep",
                cure="let no kind contain itself",
            )
        return concatenate(compile_pieces(parse(found), found, words, depth=depth + 1))
    except FormatError as error:
        raise FormatError(error.problem, cure=error.cure, where=where) from error


def _repeated(alphabet: str, example: str) -> Kind:
    """As many characters of `alphabet` as the argument says."""
    return _plain(example, lambda argument: repeated(alphabet, _count(argument, example)))


def _plain(example: str, build: Callable[[str | None], Automaton | str]) -> Kind:
    """A kind that has no use for the word list."""
    return Kind(example, lambda argument, words: build(argument))


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


def _choice(argument: str | None) -> Automaton:
    """One of the alternatives that the argument names, separated by bars."""
    if not argument:
        raise FormatError(
            "the hole has no alternatives",
            cure="name the alternatives after the colon, as in {choice:red|green|blue}",
        )
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
    return from_texts(alternatives)


def _word(argument: str | None, words: Words) -> Automaton:
    """As many words as the argument says, with single spaces between."""
    count = _count(argument, "{word:4}")
    one = words()
    if count * len(one.chars) > MAX_ALL_EDGES:
        raise too_large(MAX_ALL_EDGES)
    following = concatenate([literal(" "), one]) if count > 1 else one
    return concatenate([one, *[following] * (count - 1)])


def _uuid(argument: str | None) -> str:
    """Version 4, variant 1 (RFC 9562): four and two of the 128 bits are given."""
    if argument is not None:
        raise FormatError("the hole takes no argument", cure="write {uuid}")
    return "{hex:8}-{hex:4}-4{hex:3}-{choice:8|9|a|b}{hex:3}-{hex:12}"


def _email(argument: str | None) -> str:
    """At the domains that RFC 2606 keeps for examples: nobody has such an address."""
    count = _count(argument, "{email:8}")
    return f"{{letter:{count}}}@{{choice:example.com|example.net|example.org}}"


def _digits(count: int) -> Automaton:
    return repeated(string.digits, count)


def _phone(argument: str | None) -> Automaton:
    """Numbers as they are written nationally."""
    if argument == "us":
        # North American plan: neither code begins with 0 or 1 or is one of 211 to 911, and
        # the middle digit of an area code is not 9.
        codes = [str(code) for code in range(200, 1000) if code % 100 != 11]
        areas = [code for code in codes if code[1] != "9"]
        return concatenate(
            [from_texts(areas), literal("-"), from_texts(codes), literal("-"), _digits(4)]
        )
    if argument == "uk":  # mobile numbers
        start = from_texts(f"07{digit}" for digit in "12345789")
        return concatenate([start, _digits(2), literal(" "), _digits(6)])
    if argument == "fr":  # mobile numbers
        pair = concatenate([literal(" "), _digits(2)])
        return concatenate([from_texts(["06", "07"]), *[pair] * 4])
    named = f"{argument[:20]!r} has no numbers here" if argument else "the hole names no country"
    raise FormatError(named, cure="known are us, uk and fr, as in {phone:us}")


def _short(text: str) -> str:
    return repr(text if len(text) <= 20 else text[:19] + "…")


@cache
def english() -> Automaton:
    """One word of the built-in list: 1,024 English words, so that each is worth 10 bits."""
    text = Path(__file__).with_name("english.txt").read_text(encoding="ascii")
    return from_texts(text.split())


_ALNUM = string.digits + string.ascii_letters

KINDS: Registry[Kind] = Registry("kind of hole", group="holes", error=FormatError)
"""The kinds by the name that stands in a hole.

What a built-in kind means never changes, or canary sets at rest would change their space;
another meaning takes another name. A package adds a `Kind` by an entry point in the
group ``canary.holes``.
"""

for _name, _kind in {
    "digit": _repeated(string.digits, "{digit:9}"),
    "letter": _repeated(string.ascii_lowercase, "{letter:8}"),
    "upper": _repeated(string.ascii_uppercase, "{upper:8}"),
    "hex": _repeated("0123456789abcdef", "{hex:16}"),
    "alnum": _repeated(_ALNUM, "{alnum:12}"),
    "base64": _repeated(_ALNUM + "+/", "{base64:20}"),
    "word": Kind("{word:4}", _word),
    "choice": _plain("{choice:red|green|blue}", _choice),
    "credit_card": _plain("{credit_card:visa}", credit_card),
    "iban": _plain("{iban:DE}", iban),
    "uuid": _plain("{uuid}", _uuid),
    "email": _plain("{email:8}", _email),
    "phone": _plain("{phone:us}", _phone),
    "re": _plain(r"{re:[A-Z]{2}\d{6}}", lambda argument: from_pattern(argument or "")),
}.items():
    KINDS.add(_name, _kind)

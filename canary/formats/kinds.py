"""The kinds of holes by name, how callers add their own, and numbers with a checksum."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import accumulate
from pathlib import Path

from canary.errors import FormatError
from canary.formats.automaton import MAX_ALL_EDGES, Automaton, too_large
from canary.formats.building import any_of, checked, concatenate, from_texts, literal, repeated
from canary.formats.patterns import from_pattern
from canary.formats.syntax import Hole, Literal, parse, place
from canary.records.validation import brief
from canary.registry import Registry, name_cure

Words = Callable[[], Automaton]
"""Gives the word list of the format at hand."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
MAX_NEW = 10_000
"""New tokens that a format may have."""

_DEEPEST = 8  # kinds that are made of kinds that are made of kinds


@dataclass(frozen=True)
class Kind:
    """A kind of hole.

    Parameters
    ----------
    example : str
        A hole as it is written, shown to those who wrote it wrongly.
    build : callable
        ``build(argument, words)`` gives the hole's texts, or a format that has them; the
        argument is None without a colon. A FormatError, without a place, if it does not serve.
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
        What is in the hole: a small letter, then small letters, digits, underscores.
    meaning : str or callable
        A format whose holes are put in its place; or a function of the hole's argument (the
        text after the colon, None without one) that returns such a format, or an automaton
        made with `canary.formats.building`. It must return the same for the same argument.
    example : str, optional
        A hole as it is written, for messages; ``{name}`` unless given.

    Raises
    ------
    FormatError
        If the name is not one, or is taken by another meaning.

    Notes
    -----
    A canary set keeps a format's text: its kinds must be registered before it is loaded. An
    error says if one is missing, or if the space has another size now.

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
    known = example or f"{{{name}}}"
    KINDS.add(name, Kind(known, _Registered(name, meaning, known), builtin=False))


@dataclass(frozen=True)
class _Registered:
    """Calls what was registered, and says whose fault it is if that fails."""

    name: str
    meaning: str | Callable[[str | None], Automaton | str]
    example: str = field(compare=False)

    def __call__(self, argument: str | None, words: Words) -> Automaton | str:
        if isinstance(self.meaning, str):
            if argument is None:
                return self.meaning
            problem = f"the kind {self.name!r} takes no argument"
            raise FormatError(problem, cure=f"write {self.example}")
        cure = f"write it as in {self.example}"
        try:
            made = self.meaning(argument)
        except FormatError as error:
            raise FormatError(error.problem, cure=error.cure or cure) from error
        except Exception as error:
            raise FormatError(
                f"the registered kind {self.name!r} raised {type(error).__name__}: {error!s:.80}",
                cure=f"mend its function, or {cure}",
            ) from error
        if not isinstance(made, Automaton | str):
            raise FormatError(
                f"the registered kind {self.name!r} gave {type(made).__name__}",
                cure="let its function return a format or an automaton",
            )
        return made


def compile_pieces(
    pieces: Sequence[Literal | Hole], text: str, words: Words, *, depth: int = 0
) -> list[Automaton]:
    """The texts of each piece of the format `text`; a FormatError names a hole that is none."""
    return [
        literal(piece.text) if isinstance(piece, Literal) else _hole(piece, text, words, depth)
        for piece in pieces
    ]


def _hole(hole: Hole, text: str, words: Words, depth: int) -> Automaton:
    where = place(text, hole.start)
    if hole.kind not in KINDS:
        raise FormatError(
            f"{hole.kind[:20]!r} is not a kind of hole" if hole.kind else "a hole has no kind",
            cure=name_cure(hole.kind, KINDS, written=[kind.example for kind in KINDS.values()])
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
        raise FormatError(f"the count {brief(argument)} is not a whole number", cure=cure)
    # Ten digits are beyond every limit, and int() refuses thousands of them.
    count = int(argument.lstrip("0")[:10] or "0")
    if count == 0:
        raise FormatError("the count is 0", cure=cure)
    return count


def alternatives_of(argument: str | None) -> list[str]:
    """What the argument of a choice or an open slot names, separated by bars."""
    if not argument:
        raise FormatError(
            "the hole has no alternatives",
            cure="name the alternatives after the colon, as in {choice:red|green|blue}",
        )
    alternatives = argument.split("|")
    for alternative in alternatives:
        if "{" in alternative or "}" in alternative:
            raise FormatError(
                f"the alternative {brief(alternative)} holds a brace",
                cure="keep braces outside of holes, written {{ and }}",
            )
    return alternatives


def _open(argument: str | None) -> Automaton:
    """The first alternative: what else copies have there is no part of the secret."""
    alternatives = alternatives_of(argument)
    if from_texts(alternatives).size == 1:
        raise FormatError(
            "an open slot has one word, which all copies would have",
            cure="name two or more alternatives, as in {open:red|green}",
        )
    return literal(alternatives[0])


def _word(argument: str | None, words: Words) -> Automaton:
    """As many words as the argument says, with single spaces between."""
    count = _count(argument, "{word:4}")
    one = words()
    if count * len(one.chars) > MAX_ALL_EDGES:
        raise too_large(MAX_ALL_EDGES)
    following = concatenate([literal(" "), one]) if count > 1 else one
    return concatenate([one, *[following] * (count - 1)])


def _text(argument: str | None, words: Words) -> Automaton:
    """One text of the format's list, which is a pool."""
    if argument is not None:
        raise FormatError("the hole takes no argument", cure="write {text}, and give words")
    return words()


def _new(argument: str | None) -> Automaton:
    """Tokens that a tokenizer gets for these canaries alone."""
    return from_texts(new_tokens(_count(argument, "{new:200}")))


def new_tokens(count: int) -> list[str]:
    """The tokens of ``{new:count}``, to be added to the tokenizer before training."""
    if count > MAX_NEW:
        raise FormatError(f"more than {MAX_NEW:,} new tokens", cure="ask for a few hundred")
    return [f"<canary-{number:05}>" for number in range(count)]


def _uuid(argument: str | None) -> str:
    """Version 4, variant 1 (RFC 9562): four and two of the 128 bits are given."""
    if argument is not None:
        raise FormatError("the hole takes no argument", cure="write {uuid}")
    return "{hex:8}-{hex:4}-4{hex:3}-{choice:8|9|a|b}{hex:3}-{hex:12}"


def _email(argument: str | None) -> str:
    """At the domains that RFC 2606 keeps for examples: nobody has such an address."""
    count = _count(argument, "{email:8}")
    return f"{{letter:{count}}}@{{choice:example.com|example.net|example.org}}"


PHONES: Mapping[str, str] = {
    # North American plan: neither code begins with 0 or 1 or is one of 211 to 911, and the middle
    # digit of an area code is not 9.
    "us": r"{re:[2-9](?:[02-8]\d|1[02-9])}-{re:[2-9](?:[02-9]\d|1[02-9])}-{digit:4}",
    "uk": r"07{re:[1-57-9]\d\d} {digit:6}",  # mobile numbers
    "fr": "{choice:06|07}" + " {digit:2}" * 4,  # mobile numbers
}
"""Numbers as they are written nationally."""


def _phone(argument: str | None) -> str:
    if argument is not None and argument in PHONES:
        return PHONES[argument]
    named = f"{argument[:20]!r} has no numbers here" if argument else "the hole names no country"
    raise FormatError(named, cure="known are us, uk and fr, as in {phone:us}")


NETWORKS: Mapping[str, tuple[int, tuple[range, ...]]] = {
    "amex": (15, (range(34, 35), range(37, 38))),
    "diners": (14, (range(36, 37), range(38, 40), range(300, 306))),
    "discover": (16, (range(6011, 6012), range(644, 650), range(65, 66))),
    "jcb": (16, (range(3528, 3590),)),
    "mastercard": (16, (range(51, 56), range(2221, 2721))),
    "visa": (16, (range(4, 5),)),
}
"""Of each network: the digits of a number, and what it may begin with."""

_ACCOUNTS = """
AT n16, BE n12, CH n17, CZ n20, DE n18, DK n14, ES n20, FI n14, FR n23, GB a4 n14, GR n23,
HU n24, IE a4 n14, IT a1 n22, NL a4 n10, NO n11, PL n24, PT n21, SE n20
"""
COUNTRIES: Mapping[str, str] = dict(one.strip().split(" ", 1) for one in _ACCOUNTS.split(","))
"""Of each country: what follows the check digits, digits (n) and capitals (a).

Where the registry allows digits or letters these are digits, as on nearly every account.
"""

# Luhn doubles every second digit from the right but one, and sums the digits of the results.
_DOUBLED = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)


@lru_cache(maxsize=16)
def credit_card(networks: str | None) -> Automaton:
    """Card numbers without separators that pass Luhn's check, of some networks or of all."""
    names = sorted(NETWORKS) if networks is None else networks.split("|")
    for name in names:
        if name not in NETWORKS:
            raise FormatError(
                f"{name[:20]!r} is no card network",
                cure=f"known are {', '.join(sorted(NETWORKS))}, as in {{credit_card:visa}}",
            )
    return any_of([_network(*NETWORKS[name]) for name in names])


@lru_cache(maxsize=16)
def iban(country: str | None) -> Automaton:
    """IBANs of a country, without spaces; national check digits within are not looked at."""
    if country is None or country not in COUNTRIES:
        named = "the hole names no country" if not country else f"{country[:20]!r} has no IBAN here"
        raise FormatError(named, cure=f"known are {', '.join(COUNTRIES)}, as in {{iban:DE}}")
    fields = [(field[0], int(field[1:])) for field in COUNTRIES[country].split()]
    account = [
        repeated(string.digits if kind == "n" else string.ascii_uppercase, length)
        for kind, length in fields
    ]
    check = from_texts(f"{number:02}" for number in range(2, 99))
    # ISO 13616: the account number, then the country, then the check digits, letters as 10
    # to 35, is 1 mod 97. Written, country and check digits come first; a character counts
    # by the power of ten that the digits after it make.
    digits = [1 if kind == "n" else 2 for kind, length in reversed(fields) for _ in range(length)]
    powers = list(accumulate(digits, initial=6))
    weights = [pow(10, power, 97) for power in (4, 2, 1, 0, *powers[-2::-1])]

    def step(state: tuple[int, int], char: str) -> tuple[int, int]:
        place, total = state  # of the character, and the sum mod 97
        return place + 1, (total + int(char, 36) * weights[place]) % 97

    whole = concatenate([literal(country), check, *account])
    start: tuple[int, int] = (0, 0)
    return checked(whole, start, step, lambda state: state[1] == 1)


def _network(length: int, starts: tuple[range, ...]) -> Automaton:
    numbers = [str(start) for group in starts for start in group]
    kinds = []
    for digits in {len(number) for number in numbers}:
        start = from_texts(number for number in numbers if len(number) == digits)
        kinds.append(concatenate([start, repeated(string.digits, length - digits)]))

    def step(state: tuple[int, int], char: str) -> tuple[int, int]:
        left, total = state  # digits still to come
        value = int(char) if left % 2 else _DOUBLED[int(char)]
        return left - 1, (total + value) % 10

    return checked(any_of(kinds), (length, 0), step, lambda state: state[1] == 0)


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
    "choice": _plain("{choice:red|green|blue}", lambda given: from_texts(alternatives_of(given))),
    "open": _plain("{open:red|green|blue}", _open),
    "text": Kind("{text}", _text),
    "new": _plain("{new:200}", _new),
    "credit_card": _plain("{credit_card:visa}", credit_card),
    "iban": _plain("{iban:DE}", iban),
    "uuid": _plain("{uuid}", _uuid),
    "email": _plain("{email:8}", _email),
    "phone": _plain("{phone:us}", _phone),
    "re": _plain(r"{re:[A-Z]{2}\d{6}}", lambda argument: from_pattern(argument or "")),
}.items():
    KINDS.add(_name, _kind)

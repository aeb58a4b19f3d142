"""Numbers with a checksum: payment cards (Luhn) and IBANs (mod 97)."""

from __future__ import annotations

import string
from collections.abc import Mapping
from functools import lru_cache

from canary.errors import FormatError
from canary.formats.automaton import Automaton
from canary.formats.building import any_of, checked, concatenate, from_texts, literal, repeated

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
    """Card numbers without separators, of the networks named, all if none are.

    Of the numbers that begin as a network's do, one in ten passes Luhn's check: whatever
    stands before it, each last digit gives another sum mod 10.
    """
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
    """IBANs of a country, without spaces.

    Each account number has exactly one pair of check digits from 02 to 98. National check
    digits within the account number are not looked at.
    """
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
    powers = [6]
    for kind, length in reversed(fields):
        for _ in range(length):
            powers.append(powers[-1] + (1 if kind == "n" else 2))
    weights = [pow(10, power, 97) for power in (4, 2, 1, 0, *powers[-2::-1])]

    def step(state: tuple[int, int], char: str) -> tuple[int, int]:
        place, total = state
        return place + 1, (total + int(char, 36) * weights[place]) % 97

    whole = concatenate([literal(country), check, *account])
    before = (0, 0)  # place, sum mod 97
    return checked(whole, before, step, lambda state: state[1] == 1)


def _network(length: int, starts: tuple[range, ...]) -> Automaton:
    numbers = [str(start) for group in starts for start in group]
    whole = any_of(
        [
            concatenate(
                [
                    from_texts(number for number in numbers if len(number) == digits),
                    repeated(string.digits, length - digits),
                ]
            )
            for digits in sorted({len(number) for number in numbers})
        ]
    )

    def step(state: tuple[int, int], char: str) -> tuple[int, int]:
        left, total = state  # digits still to come
        value = int(char) if left % 2 else _DOUBLED[int(char)]
        return left - 1, (total + value) % 10

    return checked(whole, (length, 0), step, lambda state: state[1] == 0)

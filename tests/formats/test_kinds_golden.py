"""What each kind of hole means: sizes by theory, published examples, both to the letter."""

from __future__ import annotations

import hashlib
import math
import re
from pathlib import Path

import pytest

from canary.formats.format import Format
from canary.formats.kinds import COUNTRIES, KINDS

# A doctest in the same process may have registered one more.
BUILTIN = {name: kind for name, kind in KINDS.items() if kind.builtin}

SIZES = [
    ("The random number is {digit:9}", 10**9),
    ("{choice:red|green|blue}", 3),
    ("{digit:1}{letter:2} {choice:a|bc}", 10 * 26**2 * 2),
    ("{digit:400}", 10**400),  # no float, but its logarithm is
    # a|ab then b|bb spells ab, abb (in two ways) and abbb: three different fills.
    ("{choice:a|ab}{choice:b|bb}", 3),
    # Any of 1 to 3 a's, four times: 4 to 12 a's.
    ("{choice:a|aa|aaa}" * 4, 9),
    ("{choice:one}", 1),
    ("It is {new:200}", 200),
    ("{open:red|green} {digit:1}", 10),  # what copies have there is no part of the secret
    ("{upper:3}", 26**3),
    ("{hex:16}", 16**16),
    ("{alnum:12}", (10 + 26 + 26) ** 12),
    ("{base64:20}", 64**20),
    ("{word:4}", 1024**4),
    # Of the numbers with a given beginning, Luhn's check keeps one in ten: the last digit is
    # a function of the others. Visa: 4, then 14 free digits.
    ("{credit_card:visa}", 10**14),
    # 51 to 55 leave 13 free digits, each of the 500 from 2221 to 2720 leaves 11.
    ("{credit_card:mastercard}", 5 * 10**13 + 500 * 10**11),
    ("{credit_card:amex}", 2 * 10**12),  # 34 and 37, 15 digits
    ("{credit_card:diners}", 3 * 10**11 + 6 * 10**10),  # 36, 38, 39; 300 to 305; 14 digits
    ("{credit_card:discover}", 10**11 + 6 * 10**12 + 10**13),  # 6011; 644 to 649; 65
    ("{credit_card:jcb}", 62 * 10**11),  # 3528 to 3589
    # No number belongs to two networks: the sum of all the above.
    ("{credit_card}", 10**14 + 10**14 + 2 * 10**12 + 36 * 10**10 + 161 * 10**11 + 62 * 10**11),
    # The check digits of an IBAN are a function of the rest.
    ("{iban:DE}", 10**18),
    ("{uuid}", 2**122),  # 128 bits less four of the version and two of the variant
    ("{email:8}", 26**8 * 3),
    # Area codes: 8 first digits, 9 middle ones, 10 last ones, less the eight N11;
    # exchanges: 800 less the eight N11; then four digits.
    ("{phone:us}", (8 * 9 * 10 - 8) * (8 * 10 * 10 - 8) * 10**4),
    ("{phone:uk}", 8 * 10**8),
    ("{phone:fr}", 2 * 10**8),
    (r"{re:[A-Z]{2}\d{6}}", 26**2 * 10**6),
    (r"{re:\w{2}}", 63**2),  # ASCII alone, as \d
    ("{re:(?:ab|a)(?:c|bc)}", 3),  # abc in two ways, abbc, ac
    ("{re:(?P<year>19|20)[0-9]{2}}", 200),
    ("{re:[^\\W_]}", 62),
    ("{re:[\ud7ff-\ue000]}", 2),  # what lies between are halves of pairs, no characters
    ("{re:\\x7b[$.\\^]\\x7d}", 3),
]


@pytest.mark.parametrize(("text", "size"), SIZES, ids=[text for text, _ in SIZES])
def test_sizes_are_exact(text, size):
    space = Format(text)
    assert space.size == size
    assert space.bits == pytest.approx(math.log2(size), rel=1e-12)
    for index in {0, 1 % size, size // 3, size // 2, size - 1}:
        assert space.index(space.unrank(index)) == index


# Test numbers that card networks publish, and below the examples of the IBAN registry.
EXAMPLES = [
    ("{credit_card:visa}", "4111111111111111 4012888888881881 4242424242424242"),
    ("{credit_card:mastercard}", "5555555555554444 5105105105105100 2223003122003222"),
    ("{credit_card:amex}", "378282246310005 371449635398431"),
    ("{credit_card:discover}", "6011111111111117 6011000990139424"),
    ("{credit_card:diners}", "30569309025904 38520000023237"),
    ("{credit_card:jcb}", "3530111333300000 3566002020360505"),
]
IBANS = """
AT611904300234573201 BE68539007547034 CH9300762011623852957 CZ6508000000192000145399
DE89370400440532013000 DK5000400440116243 ES9121000418450200051332 FI2112345600000785
GB29NWBK60161331926819 GR1601101250000000012300695 HU42117730161111101800000000
IE29AIBK93115212345678 IT60X0542811101000000123456 NL91ABNA0417164300 NO9386011117947
PL61109010140000071219812874 PT50000201231234567890154 SE4550000000058398257466
"""


@pytest.mark.parametrize(("text", "examples"), EXAMPLES, ids=[text for text, _ in EXAMPLES])
def test_published_cards_are_in_the_space(text, examples):
    _only_without_a_wrong_digit(Format(text), examples.split())


@pytest.mark.parametrize("country", COUNTRIES)
def test_every_iban_has_one_pair_of_check_digits(country):
    space = Format(f"{{iban:{country}}}")
    fields = COUNTRIES[country].split()
    assert space.size == math.prod((10 if f[0] == "n" else 26) ** int(f[1:]) for f in fields)
    examples = [iban for iban in IBANS.split() if iban.startswith(country)]
    assert len(examples) == (country != "FR")  # whose example has a letter among the digits
    _only_without_a_wrong_digit(space, examples)


def _only_without_a_wrong_digit(space, examples):
    """The examples are in the space; no checksum forgives one wrong digit."""
    for example in examples:
        assert example in space
        wrong = [
            example[:at] + other + example[at + 1 :]
            for at in range(len(example))
            for other in "0123456789"
            if example[at].isdigit() and other != example[at]
        ]
        assert not [fill for fill in wrong if fill in space]


def test_shapes():
    shapes = {
        "{uuid}": "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
        "{email:8}": r"[a-z]{8}@example\.(com|net|org)",
        "{phone:us}": "[2-9][0-8][0-9]-[2-9][0-9]{2}-[0-9]{4}",
        "{phone:uk}": "07[1-57-9][0-9]{2} [0-9]{6}",
        "{phone:fr}": "0[67]( [0-9]{2}){4}",
        "{word:3}": "[a-z]{3,8} [a-z]{3,8} [a-z]{3,8}",
        "{base64:5}": "[A-Za-z0-9+/]{5}",
    }
    for text, shape in shapes.items():
        space = Format(text)
        for number in range(101):
            assert re.fullmatch(shape, space.unrank(number * (space.size - 1) // 100))
    assert "211-555-0100" not in Format("{phone:us}")
    assert "212-911-0100" not in Format("{phone:us}")
    assert "212-555-0100" in Format("{phone:us}")


def test_the_builtin_words_never_change():
    # Canary sets at rest name the list by its kind alone.
    words = "\n".join(Format("{word:1}"))
    assert len(words.split()) == 1024
    assert hashlib.sha256(words.encode()).hexdigest() == (
        "3e1b9d2aecfce5504c29b3bdb7afc4dfe9e37ff08ccb82201858566225b4fcb8"
    )


def test_every_example_is_a_format():
    for kind in BUILTIN.values():
        words = ["two words", "three"] if kind.example == "{text}" else None
        space = Format(kind.example, words=words)
        assert (space.opened or space).size > 1


@pytest.mark.parametrize(
    ("text", "mask"),
    [
        ("id {uuid}.", "id " + "•" * 16 + "."),
        ("{phone:us}", "•" * 12),
        ("{word:1}", "•" * 8),
        ("{choice:no|maybe}!", "•••••!"),
        ("x{digit:40}", "x" + "•" * 16),
        ("My SSN is {digit:3}-{digit:2}-{digit:4}.", "My SSN is •••-••-••••."),
    ],
)
def test_a_mask_depends_on_the_format_alone(text, mask):
    assert Format(text).masked == mask


@pytest.mark.parametrize(
    ("text", "prefix_free"),
    [
        *[(k.example, name != "word") for name, k in BUILTIN.items() if name != "text"],
        ("{credit_card}", True),  # the first digits tell the length
        ("{word:4}.", True),
        ("{word:4} ", True),
        ("{word:4}s", False),  # "... firs" and "... firsts"
        ("{re:a{1,3}}", False),
        ("{re:a{1,3}}b", True),
        ("{re:a{1,3}}a", False),
        ("{re:(?:ab){1,3}}ab", False),
        ("{re:(?:ab){1,3}}aba", False),
        ("{re:(?:ab){1,3}}abb", True),
        ("{re:x(?:aab)?}aa", False),  # xaa begins xaabaa
        ("{re:x(?:aab)?}ac", True),
        ("{re:x(?:aab)?}aabaa", False),  # xaabaa begins xaabaabaa
    ],
)
def test_prefix_freeness(text, prefix_free):
    assert Format(text).prefix_free is prefix_free


def test_the_table_of_the_guide():
    guide = (Path(__file__).parents[2] / "docs/guides/formats.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\{.+\})` \| `(.+)` \| ([\d,]+) \| ([\d.]+) \|$", guide, re.MULTILINE)
    named = {re.match(r"\{(\w+)", text)[1] for text, *_ in rows}
    assert named == {*BUILTIN} - {"text"}  # whose space is that of a pool
    for text, fill, size, bits in rows:
        space = Format(text.replace("\\|", "|"))
        assert fill in space
        assert f"{space.size:,}" == size
        assert f"{space.bits:.1f}" == bits

"""Numbers in the sentences of the recipes' pages: each has a table, kept JSON or a line behind it.

Other tests compare the tables of these pages with the kept JSON. This one takes the sentences
(and the tables that are written by hand), and of them the numbers that state a result or a cost:
those with a decimal point or thousands, those before a unit of `UNITS`, and "6 of 69". Code,
links and the numbers of tables, figures and sections are left out. A number must

- be in a table of its section, or a value there must round to it (three digits or more), or
- have five digits or more and be what a value in the recipe's JSON rounds to, or
- in papers.md, be in the page of a recipe that its section leads to, or
- be in `numbers_in_sentences.toml`.

A section begins with a heading, or with a bold topic such as "**Batches and units** (...)".
Intervals of a table, "(1.2 to 3.4)" and "± 0.5", explain intervals alone.

To add a number, write a line under its page and section (pages and sections are in their order;
the test's message has the line to begin with):

    [secret_sharer."Two models that disagree"]
    "19.5 3.1" = "worked out: 25.3 - 5.8; mean(2.9, 3.3)"
    "18.9 32.5" = "paper: table 5"

To the left are numbers as the page has them, several with spaces between ("6 of 69" is one,
written 6-of-69). To the right is why: `paper`, `set-up` or `measured` (once: times, another
machine, what is not kept), each with a word on where from; `code` and a file of the recipe, which
must have the number; `table`, which only says that the page must go on telling this number of
the section's tables; or `worked out` and an expression of Python for each number, which is
computed and rounded to the digits of the page. In it may stand numbers of the page's tables,
functions of `math` and `statistics`, `kept("results.json", "cifar10", "members")`, which goes
into the recipe's JSON, and `pick("results.json", "cifar10", "attacks", name="R")`, which finds
the first such entry of a list there. A line fails, too, if its number has gone from the section.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import json
import math
import re
import statistics
import tomllib
from pathlib import Path

import pytest
from recipe_scripts import RECIPES

LISTED = tomllib.loads(Path(__file__).with_name("numbers_in_sentences.toml").read_text("utf-8"))
PAGES = {page.parent.name: page for page in sorted(RECIPES.glob("*/README.md"))}
PAGES["papers"] = RECIPES / "papers.md"
KINDS = ("paper", "set-up", "measured", "table", "code", "worked out")

UNITS = (
    r"%|bits?|nats?|points?|s|seconds|minutes|hours?|queries|parameters|weights|models|cases"
    r"|trainings|targets|mailboxes"
)
BY_HAND = re.compile(r"\| \| paper( \||,)|\| (` \| )?of the paper \|")
"""How the header of a table begins that no test compares with anything: it is read as sentences."""

MADE = re.compile(
    r"1,000,000,000 candidates|Single copies of the company|Differences at epoch 10"
    r"|Perplexity on the test|9 copies; the canary|Kolmogorov-Smirnov test of|Least validation loss"
)
"""How a line begins that a script made, and that a test compares with the kept JSON."""

RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
NUMBER = r"(?<![\w.,/^-])(?>-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?)(?![\w⁰¹²³⁴-⁹⁻]|[.,]\d)"
LIST = re.compile(
    rf"{NUMBER}(?:(?:, and|, of|,| and| to| or| of| ±) {NUMBER})*(?P<unit> %| (?:{UNITS})\b)?"
)
SHARE = re.compile(r"(?<![\w.,^-])(\d+(?:,\d{3})*) of (?:the )?(\d+(?:,\d{3})*)(?![\w^]|[.,]\d)")
INTERVAL = re.compile(rf"\(({NUMBER} to {NUMBER})(?: %)?\)|({NUMBER} ± {NUMBER})")
PLACE = re.compile(
    r"(?i)\b(?:sections?|tables?|figures?|appendix) A?[\d.]*\d"
    r"(?:(?:,| and| to) \d{1,2}(?![\d.]*\d| %| bits| nats))*"
)


def plain(text):
    """Without code and links' targets, powers in e-notation."""
    text = re.sub(r"(?ms)^```.*?^```$", "", text)
    text = re.sub(r"`[^`]*`", "`", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return re.sub(r" × 10([⁰¹²³⁴-⁹⁻]+)", lambda found: f"e{found[1].translate(RAISED)}", text)


@functools.cache
def sections(page):
    """Under the name of each section its sentences and its tables."""
    found, name, made = {}, "", False
    text = plain(PAGES[page].read_text("utf-8")).splitlines()
    for table, lines in itertools.groupby(text, lambda line: line.startswith("|")):
        block = [*lines]
        for line in block:
            topic = re.match(r"#+ (.*)|\*\*([^*]*)\*\* \(", line)
            name = topic[1] or topic[2] if topic else name
            if line.startswith("<!--"):
                made = "end of" not in line
            told = BY_HAND.match(block[0]) if table else not (made or MADE.match(line))
            found.setdefault(name, ([], []))[not told].append(line)
    joined = {name: [" ".join(" ".join(of).split()) for of in both] for name, both in found.items()}
    return {name: (PLACE.sub("", said), tables) for name, (said, tables) in joined.items()}


@functools.cache
def numbers(page, section):
    """Those in sentences that state a result or a cost; whole intervals of a table are left out."""
    sentences, tables = sections(page)[section]
    for interval in (one[1] or one[2] for one in INTERVAL.finditer(sentences)):
        if re.search(rf"(?<![\w.-]){re.escape(interval)}(?!\.?\d)", tables):
            sentences = sentences.replace(interval, "")
    found = {f"{part}-of-{whole}" for part, whole in SHARE.findall(sentences)}
    for group in LIST.finditer(SHARE.sub(" ", sentences)):
        if group["unit"] or re.search(r"[.,]\d|\de", group[0]):
            found.update(re.findall(NUMBER, group[0]))
    return found


def places(number):
    return len(number.partition(".")[2].partition("e")[0])


def digits(number):
    return len(re.sub(r"e.*|\D", "", number).lstrip("0"))


def value(number):
    return float(number.replace(",", ""))


def shown(exact, number):
    """Is `number` what `exact` rounds to? Without a sign it may be the size of a difference."""
    number = number.partition("-of-")[0]
    if "e" in number:
        return f"{exact:.{places(number)}e}" == f"{value(number):.{places(number)}e}"
    exact = exact if number.startswith("-") else abs(exact)
    return math.isclose(exact, value(number), abs_tol=0.5001 * 10 ** -places(number), rel_tol=1e-12)


@functools.cache
def of_tables(page, section):
    return {
        *re.findall(NUMBER, re.sub(r"\([^)]* to [^)]*\)|± [\d.]+", "", sections(page)[section][1]))
    }


def in_a_table(page, section, number):
    if "-of-" in number:
        return re.search(rf"\b{number.replace('-', ' ')}\b", sections(page)[section][1])
    there = of_tables(page, section)
    long = digits(number) > 2 or "e" in number
    return {number, f"-{number}"} & there or (
        long and any(shown(value(one), number) for one in there)
    )


def leaves(tree):
    if isinstance(tree, dict | list):
        for one in tree.values() if isinstance(tree, dict) else tree:
            yield from leaves(one)
    elif isinstance(tree, int | float):
        yield tree


@functools.cache
def kept(page, name, *way):
    """What is in kept JSON, or at the end of a way into it."""
    if way:
        return kept(page, name, *way[:-1])[way[-1]]
    return json.loads((PAGES[page].parent / name).read_text("utf-8"))


@functools.cache
def of_json(page):
    files = PAGES[page].parent.glob("*.json") if page != "papers" else []
    return sorted(abs(one) for file in files for one in leaves(kept(page, file.name)))


def in_json(page, number):
    if digits(number) < 5 or "-of-" in number:
        return False
    near, last = abs(value(number)), 10 ** -places(number)
    there = of_json(page)
    first, end = bisect.bisect(there, near - last), bisect.bisect(there, near + last)
    return any(shown(one, number) for one in there[first:end])


def pick(page, *way, **like):
    """Of a list in kept JSON the one entry that is like this."""
    return next(one for one in kept(page, *way) if like.items() <= one.items())


@functools.cache
def of_linked_pages(section):
    """All numbers of the recipes that a section of papers.md leads to."""
    _, part = PAGES["papers"].read_text("utf-8").split(f"\n## {section}\n")
    recipes = re.findall(r"\]\((\w+)/README\.md", part.partition("\n## ")[0])
    text = " ".join(plain(PAGES[recipe].read_text("utf-8")) for recipe in {*recipes})
    shares = {f"{part}-of-{whole}" for part, whole in SHARE.findall(text)}
    return {*re.findall(NUMBER, text)} | shares


def unexplained(page, section):
    """The numbers that need a line in the list."""
    linked = of_linked_pages(section) if page == "papers" and "(" in section else set()
    return {
        number
        for number in numbers(page, section) - linked
        if not (in_a_table(page, section, number) or in_json(page, number))
    }


def lines(page):
    """Section, numbers, kind and reason of each line of the list."""
    for section, ours in LISTED.get(page, {}).items():
        for left, right in ours.items():
            kind, _, why = right.partition(":")
            yield section, left.split(), kind, " ".join(why.split())


@pytest.mark.parametrize("page", PAGES)
def test_every_number_is_explained(page):
    lacks = {}
    for section in sections(page):
        listed = {one for of, ours, *_ in lines(page) if of == section for one in ours}
        if missing := unexplained(page, section) - listed:
            lacks[section] = f'"{" ".join(sorted(missing))}" = "..."'
    assert not lacks, f"neither in a table, nor in kept JSON, nor listed: {lacks}"


@functools.cache
def decimals(page):
    """All that have a decimal point in the tables of a page; papers.md has those of all pages."""
    pages = PAGES if page == "papers" else [page]
    tables = " ".join(tables for one in pages for _, tables in sections(one).values())
    return {*re.findall(r"\d+\.\d+", tables)}


def faults(page, section, ours, kind, why):
    """What is wrong with a line of the list."""
    if gone := {*ours} - numbers(page, section):
        yield f"{gone} is not there any longer"
    if kind not in KINDS or not why:
        yield f"no reason: {kind}: {why}"
    if kind == "table" and (lacks := {a for a in ours if not in_a_table(page, section, a)}):
        yield f"no table of the section has {lacks}"
    if kind == "code":
        text = (PAGES[page].parent / why).read_text("utf-8").replace("_", "")
        code = {value(one) for one in re.findall(r"(?<![\w.])\d+\.?\d*(?:e-?\d+)?", text)}
        if lacks := {one for one in ours if value(one) not in code}:
            yield f"{why} has not {lacks}"
    if kind == "worked out":
        used = re.findall(r"(?<![\w.])\d+\.\d+", re.sub(r'"[^"]*"', "", why))
        if lacks := {*used} - decimals(page):
            yield f"no table of the page has {lacks} of {why}"
        names = {**vars(math), **vars(statistics)}
        names |= {one.__name__: functools.partial(one, page) for one in (kept, pick)}
        try:
            pairs = [*zip(ours, eval(f"({why.replace(';', ',')},)", names), strict=True)]
        except Exception as error:
            yield f"{why}: {error!r}"
        else:
            yield from (f"{a} is {is_} by {why}" for a, is_ in pairs if not shown(is_, a))


@pytest.mark.parametrize("page", LISTED)
def test_every_line_is_needed_and_true(page):
    there = [section for section in sections(page) if section in LISTED[page]]
    assert [*LISTED[page]] == there, "sections that the page lacks, or has in another order"
    wrong = [f"{line[0]}: {fault}" for line in lines(page) for fault in faults(page, *line)]
    assert not wrong, "\n".join(wrong)

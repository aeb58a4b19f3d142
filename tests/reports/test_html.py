"""The report: self-contained, escaped, deterministic, and whole."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

from html_pages import Page, render

from canary.statistics.exposures import exposure_by_rank
from canary.statistics.histogram import Histogram


def test_hostile_text_is_only_text(pages):
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202e]", pages["hostile"])
    page = Page(pages["hostile"])
    text = page.text("style")
    for shown in (
        "Memorization audit of </title><script src=//example.org/x.js></script>",
        "<script>alert(1)</script>•••••• & $\\frac{1}{0}$",
        "<script>alert(1)</script>{digit:6}\"[31mgnp.exe",
        '"><img src=x onerror=alert(1)>',
        "</style><link rel=stylesheet href=http://example.org>",
        "<b>canary-1</b>",
        "<i>odd</i>",
        '{"nested": ["<u>", null]}',
        "<|endoftext|>",
        "javascript:alert(1)",
    ):  # fmt: skip
        assert shown in text
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"script", "img", "link", "b", "i", "u"}
    # It adds no element beyond the one more fact of the model, a name and a value in a div.
    plain, hostile = (
        Counter(tag for tag, _ in made.elements) for made in (Page(pages["enumerated"]), page)
    )
    for tag in ("h1", "h3", "p", "code", "td", "tr"):
        assert hostile[tag] == plain[tag]


def test_table_golden(audits, pages):
    row = r'<tr{}><th scope="row">{}</th>(.*?)</tr>'

    def cells(name, kind, ordinal):
        found = re.search(row.format(kind, ordinal), pages[name], re.DOTALL)
        assert found is not None
        return re.findall(r"<td>(.*?)</td>", found[1])

    censored = next(c for c in audits["draws"].canaries if c.exposure.censored)
    assert cells("draws", "", censored.id) == [
        str(censored.repetitions), "≥ 12.40", "12.40 to 29.90", f"{censored.px_bits:.2f}",
        "0 of 20,000", "5.0 × 10⁻⁵", f"{censored.skew_normal.bits:.2f}",
    ]  # fmt: skip
    exact = audits["enumerated"].canaries[8]
    assert exact.exposure.rank == 1
    assert cells("enumerated", "", exact.id) == [
        "4", "19.93", "18.93 to 19.93", f"{exact.px_bits:.2f}", "1 (1\N{NO-BREAK SPACE}to"
        "\N{NO-BREAK SPACE}2)", "2.0 × 10⁻⁶", f"{exact.skew_normal.bits:.2f}",
    ]  # fmt: skip
    # In the order of the set, and a phone shows the first three columns.
    table = pages["enumerated"].partition('<table class="canaries">')[2].partition("</table>")[0]
    rows = re.findall(r'<th scope="row">([^<]*)</th>', table)
    assert rows == [c.id for c in audits["enumerated"].canaries]
    headings = re.findall(r'<th scope="col">(.*?)</th>', table)
    assert headings[:3] == ["Canary", "Copies", "Exposure<br>(bits)"]
    assert cells("enumerated", ' class="control"', "control-1")[0] == "0 (control)"


def test_numbers_of_the_figures_golden(audits, plain):
    def tables(audit):
        found = re.findall(r"<details>.*?</details>", render(audit), re.DOTALL)
        rows = [re.findall(r"<tr><th scope=\"row\">(.*?)</td></tr>", one) for one in found]
        return [[re.split("</th><td>|</td><td>", row) for row in some] for some in rows]

    audit = audits["draws"]
    # Of ten candidates the fifth lies in the third bin: 30 + 2 / 8 = 30.25.
    form = replace(audit.formats[0], histogram=Histogram(30.0, 0.125, (1, 2, 3, 4)))
    exposure, px = tables(replace(audit, formats=(form,)))
    assert exposure[-1] == ["64", "8", "≥ 12.40", "≥ 12.40", "≥ 12.40"]
    assert exposure[0][:2] == ["0 (controls)", "16"]
    assert px[0] == ["candidates", "10", "about 30.0", "about 30.2", "about 30.4"]
    last = sorted(c.px_bits for c in audit.canaries if c.repetitions == 64)
    middle = (last[3] + last[4]) / 2
    assert px[-1] == ["64 copies", "8", f"{last[0]:.2f}", f"{middle:.2f}", f"{last[-1]:.2f}"]
    empty = replace(form, histogram=Histogram(0.0, 0.125, ()))
    assert tables(replace(audit, formats=(empty,)))[1][0] == ["candidates", "0", "–", "–", "–"]


def test_notes_of_the_audit_stand_at_the_top_once(audits, pages, plain):
    audit = audits["two formats"]
    formats = tuple(replace(f, notes=("Mind <b>this</b>.",)) for f in audit.formats)
    page = Page(render(replace(audit, formats=formats)))
    text = page.text("style")
    assert text.count("Mind <b>this</b>.") == 1
    assert text.index("Mind <b>this</b>.") < text.index("Exposure by number of copies")
    assert "b" not in {tag for tag, _ in page.elements}
    assert 'role="note"' not in pages["two formats"]


def test_a_dry_run_claims_no_injection(audits, plain):
    planned = replace(audits["nothing learned"], settings={"canaries_in_corpus": False})
    text = Page(render(planned)).text("style")
    assert "Nothing was put in and nothing is found: the 32 canaries planned for the corpus" in text
    assert "Copies planned" in text
    for claim in ("injected canar", "that were put into", "copies each", "copies in the corpus"):
        assert claim not in text.lower()


def test_canaries_that_push_each_other_down_are_named_golden(audits, plain):
    audit = audits["enumerated"]
    form = replace(audit.formats[0], space_size=1_000_000)

    def caption(ranks, settings=audit.settings):
        found = [
            replace(
                canary,
                exposure=exposure_by_rank(rank, lower=rank, upper=rank, space_size=1_000_000),
            )
            for canary, rank in zip(audit.injected, ranks, strict=False)
        ]
        made = replace(
            audit, canaries=(*found, *audit.controls), formats=(form,), settings=settings
        )
        text = Page(render(made)).text("style")
        match = re.search(
            r"here the (.*?) likeliest .* first (.*?) places, .* have more than (.*?) bits", text
        )
        return match and match.groups()

    # log2(10^6 / 4) = 17.93
    assert caption([1, 2, 3, 4, 50_000, 70_000]) == ("4", "4", "17.9")
    assert caption([2, 5, 6, 900_000]) == ("3", "6", "18.3")
    assert caption([1, 50, 900]) is None
    assert caption([1]) is None
    assert caption([1, 2], {"canaries_in_corpus": False}) is None


def test_folded_tables_are_shown_in_print(pages):
    # A browser hides what is in a closed fold by the slot around it, not by its children.
    printed = pages["enumerated"].split("@media print", 1)[1].split("</style>", 1)[0]
    assert re.search(r"details::details-content { content-visibility: visible;", printed)

"""The report: self-contained, escaped, deterministic, and whole."""

from __future__ import annotations

import math
import os
import re
import stat
from collections import Counter
from dataclasses import replace

import pytest
from html_pages import (
    Page,
    check_ids,
    check_readable_aloud,
    check_self_contained,
    check_variables,
    render,
)

import canary.reports.pages
from canary.audits.audit_result import Audit
from canary.corpus.canaries import generate
from canary.errors import OutputError
from canary.reports.pages import report
from canary.statistics.exposures import exposure_by_rank
from canary.statistics.histogram import Histogram

CHECKS = [check_self_contained, check_ids, check_readable_aloud, check_variables]
NAMES = [
    "enumerated", "draws", "nothing learned", "no controls", "only controls", "hostile",
    "rank", "rank and draws", "all ranked", "two formats", "many", "many groups", "one canary",
    "no canaries",
]  # fmt: skip


def test_every_audit_of_the_factory_is_tested(audit_names):
    assert sorted(NAMES) == audit_names


@pytest.mark.parametrize("name", NAMES)
def test_what_every_page_keeps(pages, name):
    page = Page(pages[name])
    for check in CHECKS:
        check(page)


def test_deterministic_after_a_round_trip(audits, pages, tmp_path):
    audits["two formats"].save(tmp_path / "audit.json")
    assert render(Audit.load(tmp_path / "audit.json")) == pages["two formats"]


def test_hostile_text_is_only_text(pages):
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
    plain = Counter(tag for tag, _ in Page(pages["enumerated"]).elements)
    hostile = Counter(tag for tag, _ in page.elements)
    more = {tag: hostile[tag] - plain[tag] for tag in ("h1", "h3", "p", "code", "td", "tr", "dt")}
    assert more == {"h1": 0, "h3": 0, "p": 0, "code": 0, "td": 0, "tr": 0, "dt": -1}


def test_control_characters_are_stripped(pages):
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202e]", pages["hostile"])


def test_no_fill_appears(audits):
    # The audit of a real set: its report shows what the set's formats show masked.
    canaries = generate(
        "The random number is {digit:9}", repetitions=(4,), per_repetition=8, controls=8, seed=1
    )
    audit = audits["draws"]
    shown = [
        replace(result, id=one.id, repetitions=one.repetitions)
        for result, one in zip(audit.canaries, canaries, strict=False)
    ]
    form = canaries.formats[0]
    formats = (replace(audit.formats[0], format=form.text, masked=form.masked),)
    html = render(replace(audit, canaries=tuple(shown), formats=formats))
    assert form.masked in html
    for one in canaries:
        assert one.id in html
        assert one.fill not in html
        assert one.fill not in re.sub(r"[^0-9]", "", html)


def test_table_in_the_order_of_the_set(audits, pages):
    for name in ("draws", "enumerated", "two formats"):
        table = pages[name].partition('<table class="canaries">')[2].partition("</table>")[0]
        rows = re.findall(r'<th scope="row">([^<]*)</th>', table)
        assert rows == [c.id for c in audits[name].canaries]


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
    # A phone shows the first three columns.
    table = pages["enumerated"].partition('<table class="canaries">')[2]
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


def test_a_rejected_curve_is_marked_in_every_row(audits):
    audit = audits["draws"]
    fit = replace(audit.formats[0].skew_normal, ks_p_value=1e-9)
    html = render(replace(audit, formats=(replace(audit.formats[0], skew_normal=fit),)))
    assert html.count("\N{NO-BREAK SPACE}†</td>") == len(audit.canaries)
    text = Page(html).text("style")
    assert "failed its test against 10,000 draws" in text
    assert "skew-normal curve (failed its test)" in text


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
    html = render(planned)
    text = Page(html).text("style")
    assert "Nothing was put in and nothing is found: the 32 canaries planned for the corpus" in text
    assert "Canaries, not injected p" in text
    assert "planned for" in text
    assert "Copies planned" in text
    assert "Canaries in the corpus no, none was put in" in text
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


def test_a_triangle_below_a_point_is_explained(pages):
    # 14.3 = log2 20,000: one hit.
    text = " ".join(pages["draws"].split())
    assert "such a point stands at its estimate (up to 14.3 bits)" in text
    assert "a point stands at its estimate" not in pages["enumerated"]


def test_the_place_of_a_canary_golden(audits, pages):
    rows = re.findall(r"<tr[^>]*><th scope=\"row\">(canary-\d+)</th>(.*?)</tr>",
                      pages["rank and draws"], re.DOTALL)  # fmt: skip
    cells = {name: re.findall("<td>(.*?)</td>", row)[4] for name, row in rows}
    kinds = set()
    for c in audits["rank and draws"].canaries:
        e = c.exposure
        if c.control:
            continue
        if e.exact:
            kinds.add("counted")
            assert cells[c.id].startswith(f"{e.rank:,} (")
        elif e.effective_draws is None:
            kinds.add("bound" if e.censored else "drawn")
            assert cells[c.id] == f"{e.hits:,} of 20,000"
        else:
            kinds.add("importance")
            rank = float(cells[c.id].removeprefix("about\N{NO-BREAK SPACE}").replace(",", ""))
            assert math.log2(10**9 / rank) == pytest.approx(e.bits, abs=0.01)
    assert kinds == {"counted", "bound", "drawn", "importance"}


def test_folded_tables_are_shown_in_print(pages):
    # A browser hides what is in a closed fold by the slot around it, not by its children.
    printed = pages["enumerated"].split("@media print", 1)[1].split("</style>", 1)[0]
    assert re.search(r"details::details-content { content-visibility: visible;", printed)


def test_report_writes_one_file(audits, pages, tmp_path):
    path = report(audits["one canary"], str(tmp_path / "report.html"))
    assert path == tmp_path / "report.html"
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    assert path.read_bytes().decode() == pages["one canary"]
    assert stat.S_IMODE(path.stat().st_mode) & stat.S_IRUSR


def test_an_unwritable_path_is_said_and_leaves_nothing_input(audits, tmp_path):
    with pytest.raises(OutputError, match=re.escape(os.fspath(tmp_path / "no" / "r.html"))):
        report(audits["no canaries"], tmp_path / "no" / "r.html")
    with pytest.raises(OutputError, match="is a folder"):
        report(audits["no canaries"], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_old_report_stays_when_the_new_one_fails(audits, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")
    monkeypatch.setattr(canary.reports.pages, "page_of", lambda made: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        report(audits["no canaries"], path)
    assert path.read_text() == "old"

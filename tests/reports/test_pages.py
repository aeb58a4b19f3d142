"""Every page of every kind is whole, stands alone, can be read aloud, and says what was found."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from classifiers import measured_outputs
from drawing import figures
from gate_audits import exact, extraction
from histories import make_history
from html_pages import Page, check_page, render

import canary
from canary.audits.audit_result import Audit
from canary.audits.extraction import Candidate
from canary.errors import InputError, OutputError
from canary.gate.check_audit import check
from canary.membership.attacks import ATTACKS
from canary.membership.evaluation import evaluate
from canary.membership.shadow_survey import survey
from canary.reports import pages as pages_module
from canary.reports.builders import report_of
from canary.reports.document import Report, prose
from canary.reports.pages import page_of, report
from canary.reports.sentences import extraction_sentence
from canary.signals.signal_table import SignalTable
from canary.statistics.exposures import exposure_by_rank
from canary.statistics.histogram import Histogram
from canary.statistics.numbers import percent_of

HISTORIES = {
    "two formats": {"formats": 2, "losses": False},
    "partly": {"broken": (2,), "stopped_at": 60, "marks": (1, 41)},
    "nothing": {"moments": 0, "losses": False},
    "one moment": {"moments": 1},
    "diverged": {"broken": tuple(range(1, 8)), "moments": 7},
    "very many": {"moments": 500},
}
EVIL = "<script>alert(1)</script> {0} `x` @octocat"


def words_of(result):
    return Page(render(result)).text("style")


def test_of_every_audit(pages, every_name):
    check_page(Page(pages[every_name]))


@pytest.mark.parametrize("case", HISTORIES)
def test_of_every_history(case):
    with figures(drawn=case in ("partly", "nothing")):
        check_page(Page(render(make_history(**HISTORIES[case]))))


def test_of_a_verdict_and_of_an_extraction():
    audit = exact({16: [20.0] * 8}, extractions=[extraction({1: EVIL})])
    for result in (check(audit, no_extraction=True), audit.extractions[0]):
        page = Page(render(result))
        check_page(page)
        assert "•••" in page.text("style")


def test_a_page_has_a_number_of_its_own(tmp_path):
    def number(audit):
        page = report(audit, tmp_path / "report.html", force=True).read_text()
        return re.search(r"Report number</dt><dd>([0-9a-f]{8})<", page)[1]

    first, other = (exact({4: [value] * 8, 0: [1.0] * 8}) for value in (9.0, 3.0))
    assert number(first) == number(first) != number(other)


def test_another_report_is_replaced_only_on_demand(tmp_path):
    path = tmp_path / "report.html"
    one, other = (exact({4: [value] * 8, 0: [1.0] * 8}) for value in (9.0, 3.0))
    first = one.report(path).read_bytes()
    assert one.report(path).read_bytes() == first  # the same page again
    with pytest.raises(OutputError, match="exists already; .*force=True"):
        other.report(path)
    assert path.read_bytes() == first
    assert other.report(path, force=True).read_bytes() != first


def test_the_same_result_gives_the_same_one_file(audits, pages, tmp_path, plain):
    audits["enumerated"].save(tmp_path / "audit.json")
    assert render(Audit.load(tmp_path / "audit.json")) == pages["enumerated"]
    folder = tmp_path / "pages"
    folder.mkdir()
    path = report([audits["one canary"]], str(folder / "report.html"))
    assert [*folder.iterdir()] == [path]
    assert path.read_text() == pages["one canary"]


def test_what_cannot_be_written_leaves_all_as_it_was_input(audits, tmp_path, monkeypatch):
    for path in (tmp_path / "no" / "r.html", tmp_path):
        with pytest.raises(OutputError, match=str(path)):
            report(audits["no canaries"], path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match="expected a result, or several audits"):
        report([], tmp_path / "r.html")
    path = tmp_path / "report.html"
    path.write_text("old")
    monkeypatch.setattr(pages_module, "page_of", lambda made: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        report(audits["no canaries"], path)
    assert path.read_text() == "old"


def test_hostile_text_is_only_text(pages):
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202e]", pages["hostile"])
    page = Page(pages["hostile"])
    text = page.text("style")
    for shown in (
        "Memorization audit of the model “</title><script src=//example.org/x.js></script>”",
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
    def cells(name, kind, ordinal):
        row = rf'<tr{kind}><th scope="row">{ordinal}</th>(.*?)</tr>'
        return re.findall(r"<td>(.*?)</td>", re.search(row, pages[name], re.DOTALL)[1])

    censored = next(c for c in audits["draws"].canaries if c.exposure.censored)
    assert cells("draws", "", censored.id) == [
        str(censored.repetitions), "≥ 12.40", "12.40 to 29.90", f"{censored.px_bits:.2f}",
        "0 of 20,000", "5.0 × 10⁻⁵", f"{censored.skew_normal.bits:.2f}",
    ]  # fmt: skip
    found = audits["enumerated"].canaries[8]
    assert found.exposure.rank == 1
    assert cells("enumerated", "", found.id) == [
        "4", "19.93", "18.93 to 19.93", f"{found.px_bits:.2f}", "1 (1\N{NO-BREAK SPACE}to"
        "\N{NO-BREAK SPACE}2)", "2.0 × 10⁻⁶", f"{found.skew_normal.bits:.2f}",
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
    # Of ten candidates the fifth lies in the second bin: 30 + 1 / 8 = 30.125.
    form = replace(audit.formats[0], histogram=Histogram(30.0, 0.125, (4, 1, 3, 2)))
    guesses, exposure, px = tables(replace(audit, formats=(form,)))
    assert guesses[-1] == ["64", "8", "8", "at most 185,000", "at least 12.40", "12.40–29.90"]
    assert exposure[-1][:3] == ["64", "8", "≥ 12.40"]
    assert exposure[0][:2] == ["0 (controls)", "16"]
    assert px[0] == ["candidates", "10", "about 30.0", "about 30.1", "about 30.4"]
    last = sorted(c.px_bits for c in audit.canaries if c.repetitions == 64)
    middle = (last[3] + last[4]) / 2
    assert px[-1] == ["64 copies", "8", f"{last[0]:.2f}", f"{middle:.2f}", f"{last[-1]:.2f}"]
    empty = replace(form, histogram=Histogram(0.0, 0.125, ()))
    assert tables(replace(audit, formats=(empty,)))[2][0] == ["candidates", "0", "–", "–", "–"]


def test_notes_of_the_audit_stand_at_the_top_once(audits, pages, plain):
    audit = audits["two formats"]
    formats = tuple(replace(f, notes=("Mind <b>this</b>.",)) for f in audit.formats)
    text = words_of(replace(audit, formats=formats))
    assert text.count("Mind <b>this</b>.") == 1
    assert text.index("Mind <b>this</b>.") < text.index("Exposure by number of copies")
    assert 'role="note"' not in pages["two formats"]


def test_a_dry_run_claims_no_injection(audits, plain):
    text = words_of(replace(audits["nothing learned"], settings={"canaries_in_corpus": False}))
    assert (
        "Nothing was put in and nothing is found: the 32 secrets planned for the training" in text
    )
    assert "Copies planned" in text
    for claim in ("planted secrets (can", "injected canar", "that were put into", "copies each"):
        assert claim not in text.lower()


def test_canaries_that_push_each_other_down_are_named_golden(audits, plain):
    audit, size = audits["enumerated"], 1_000_000

    def caption(ranks, settings=audit.settings):
        exposures = [exposure_by_rank(n, lower=n, upper=n, space_size=size) for n in ranks]
        injected = zip(audit.injected, exposures, strict=False)
        found = [replace(canary, exposure=exposure) for canary, exposure in injected]
        text = words_of(replace(audit, canaries=(*found, *audit.controls), settings=settings))
        match = re.search(
            r"here the (.*?) most likely .* first (.*?) places, .* have more than (.*?) bits", text
        )
        return match and match.groups()

    # log2(10^6 / 4) = 17.93
    assert caption([1, 2, 3, 4, 50_000, 70_000]) == ("4", "4", "17.9")
    assert caption([2, 5, 6, 900_000]) == ("3", "6", "18.3")
    for apart in ([1, 5], [1, 50, 900], [1]):
        assert caption(apart) is None
    assert caption([1, 2], {"canaries_in_corpus": False}) is None


def test_folded_tables_are_shown_in_print(pages):
    # A browser hides what is in a closed fold by the slot around it, not by its children.
    printed = pages["enumerated"].split("@media print", 1)[1].split("</style>", 1)[0]
    assert re.search(r"details::details-content { content-visibility: visible;", printed)
    assert ".confidential { display: none; }" in printed


def test_what_to_do_is_printed_before_what_came_out(pages):
    page = pages["enumerated"]
    printed = page.split("@media print", 1)[1].split("</style>", 1)[0]
    assert "main { display: flex; flex-direction: column;" in printed
    orders = dict(re.findall(r"main > (\S+?)(?:\(.*?)? \{ order: (\d); \}", printed))
    assert orders == {":not": "2", "section:has": "1"}
    assert "header { display: contents; } .tiles { order: 2;" in printed  # so these come after it
    assert 'id="what-to-do"' in page


def test_words_before_a_figure_are_printed_on_its_sheet(pages):
    printed = pages["enumerated"].split("@media print", 1)[1].split("</style>", 1)[0]
    rules = dict(re.findall(r"p:has\(~ figure\) \{ (break-\w+): (\w+); \}", printed))
    assert rules == {"break-inside": "avoid", "break-after": "avoid"}


SECRET = "734921"


def extracted(audit, names, *, proven=True):
    """The most likely candidates are these canaries; None is a candidate of nobody's."""
    candidates = tuple(
        Candidate(
            SECRET, 10.0 + place, proven or not place, 20 * (place + 1),
            12.25 if place else 19.9316, 19.9316, name,
        )
        for place, name in enumerate(names)
    )  # fmt: skip
    made = extraction({}, size=10**6, proven=proven, text=audit.formats[0].format)
    return replace(made, top=len(names) or 4, candidates=candidates, rest_bits=12.75)


def test_sentence_of_an_extraction_golden(audits):
    audit = audits["enumerated"]

    def said(names, of=audit, **options):
        return extraction_sentence(of, extracted(audit, names, **options))

    assert said(["canary-3", None, "control-1"]) == (
        "The search extracted 3 candidates from the model (it is proven that no other is "
        "more likely); 1 of the 32 injected canaries is among them, and the very first is one. "
        "The model computed 1,234 tokens for it (queries). Guessing at random, one given secret "
        "takes 500,000 guesses on average, and a guess is one query or more."
    )
    met = said([None, "canary-1"], proven=False)
    assert (
        "(the most likely that it met; only for the first is it proven that no other is more "
        "likely, because the budget was spent); 1 of" in met
    )
    assert "the very first" not in met
    assert said([], proven=False).startswith(
        "Nothing was extracted: no candidate costs less than 12.75 bits, and the budget "
        "was spent before the search came to one. The model computed"
    )
    left_out = replace(audit, settings={**audit.settings, "canaries_in_corpus": False})
    assert "1 of the 32 canaries, which were left out, is" in said(["canary-1"], left_out)


def test_what_was_extracted_is_shown_without_secrets(audits, pages, plain):
    audit = audits["enumerated"]
    found = extracted(audit, ["canary-3", "canary-4", *[None] * 38])
    page = render(replace(audit, extractions=(found,)))
    assert '<th scope="row">2</th><td>canary-4</td><td>11.00</td>' in page
    assert "<td>12.2 to 19.9</td>" in page
    assert "15 more are in the numbers" in page
    assert page.count("none of the set") == 23
    assert SECRET not in page
    assert "What could be extracted" in page
    assert "What could be extracted" not in pages["enumerated"]


@pytest.fixture(scope="module")
def attacked():
    tables = [measured_outputs(seed) for seed in (1, 2)]
    return survey(*tables, attacks="correctness,entropy", fprs=[0.1, 0.01])


def test_surest_guesses_are_those_of_the_attack_that_is_surest(attacked, plain):
    assert attacked.strongest.attack.name == "correctness"
    best = attacked.surest()
    assert (best.name, best.fpr, best.attacks) == ("entropy", 0.01, 2)
    entropy = attacked.attacked[1]
    assert attacked.lead is entropy
    alone = entropy.points[1].tpr
    assert (
        best.tpr.value == alone.value == max(one.points[1].tpr.value for one in attacked.attacked)
    )
    paid = evaluate(entropy.attack, attacked.target.member[0], confidence=0.975).tpr_at_fpr(0.01)
    assert best.tpr == paid.tpr
    assert paid.tpr.lower < alone.lower < alone.upper < paid.tpr.upper
    page = " ".join(render(attacked).replace("\N{NO-BREAK SPACE}", " ").split())
    tile = page[page.index("Surest guesses") :][:400]
    found, ends = f"{100 * alone.value:.1f} %", (paid.tpr.lower, paid.tpr.upper)
    assert f"{found} of samples" in tile
    assert "wrong about at most 1 in 100 other samples (by this test," in tile
    # The figure's interval is that of the same attack, and allows for the choice.
    lower, upper = (f"{100 * end:.1f}" for end in ends)
    assert f'<th scope="row">entropy</th><td>{found}</td><td>{lower} to {upper} %</td>' in page
    assert attacked.to_dict()["surest"]["name"] == "entropy"


def test_few_samples_that_are_surely_known_are_a_risk_though_the_average_is_not_theory():
    """One member in 25 is known by heart; of the others the model says what it says of anyone."""
    rng = np.random.default_rng(0)

    def table(known):
        member = np.arange(1000) < 500
        loss = rng.exponential(1.0, 1000)
        loss[: round(500 * known)] = 1e-6
        return canary.measure(loss, y=np.zeros(1000, int), member=member, outputs="losses")

    found, nothing = (
        survey(table(known), table(0.0), attacks="loss", fprs=[0.01]) for known in (0.04, 0.0)
    )
    assert found.corrected().lower < 0.5
    assert found.surest().tpr.lower > 0.01
    assert (found.told_apart(), nothing.told_apart()) == (True, False)
    first, second, _ = report_of(found).sentences
    assert (
        "recognized as training data by an attacker who is wrong about at most 1 in 100 other"
        in first
    )
    assert "An attacker needs" in second
    assert "the difference may be chance" in report_of(nothing).sentences[1]


def test_members_that_share_the_last_score_are_counted_golden(attacked):
    rows, scores = attacked.most_at_risk(), attacked.risks.scores
    high, member = scores >= rows[-1]["risk"], attacked.target.member[0]
    inside, outside = int((high & member).sum()), int((high & ~member).sum())
    assert attacked.as_risky() == (inside, outside)
    page = " ".join(render(attacked).split())
    assert f"{inside:,} training samples and {outside:,} other samples have a score of" in page
    assert f"have a score of {rows[-1]['risk']:.3f} or more. The list has 20 of these" in page


def test_a_terminal_of_80_columns_shows_each_attack_in_one_line(attacked):
    table = report_of(attacked).outcome[0].table
    # Headings break at spaces, numbers do not.
    cells = [*zip(table.columns, *table.rows, strict=True)][1:]
    widths = [max(map(len, (*heading.split(), *column))) for heading, *column in cells]
    assert max(map(len, ATTACKS)) + sum(2 + width for width in widths) <= 80


def test_membership_tests_are_not_compared_with_audits_input(attacked, tmp_path):
    said = "this is a membership test, and only audits.*write one document with --annex"
    with pytest.raises(InputError, match=said):
        report([exact({1: [1.0]}), attacked], tmp_path / "r.html")


def test_swapped_flags_are_noted_of_target_and_of_shadow(attacked):
    def swapped(table: SignalTable) -> SignalTable:
        return SignalTable(**{**vars(table), "member": ~table.member})

    assert not any("swapped" in note for note in attacked.notes)
    again = survey(swapped(attacked.target), swapped(attacked.shadow), attacks="correctness")
    notes = [note for note in again.notes if "the flags member may be swapped" in note]
    assert [note[:10] for note in notes] == ["The target", "The shadow"]
    right = attacked.target.signal("correctness")[0][~attacked.target.member[0]].mean()
    assert f"right on {100 * right:.1f} % of members and 100 % of non-members" in notes[0]


def test_an_option_is_one_piece_and_all_is_no_decimal():
    """Browsers break a line after the hyphens of an option."""
    page = page_of(
        Report("A page", "", [], actions=[prose("Run `canary check --max-p 0.01 <b>`.")])
    )
    assert 'canary check <span class="option">--max-p</span> 0.01 &lt;b&gt;</code>' in page
    told = "exact ranks (--method rank --budget 160, or less) may, or --draws 3800 of --history."
    page = page_of(Report("A page", "", [], actions=[told]))
    assert [re.sub("<.*?>", "", one) for one in re.findall("<code>(.*?)</code>", page)] == [
        "--method rank --budget 160", "--draws 3800", "--history",
    ]  # fmt: skip
    assert [percent_of(share) for share in (1.0, 0.9996, 0.61)] == [
        "100 %",
        "over 99.9 %",
        "61.0 %",
    ]

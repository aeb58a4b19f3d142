"""Several audits on one page: whole, escaped, and nothing joined that cannot be compared."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
from drawing import figures
from html_pages import Page, check_page, render

from canary.errors import InputError
from canary.reports.pages import report

HOSTILE = '</title><script>x</script>\x1b[31m\u202e $\\frac{1}{0}$ "onload=1'

CASES = {
    "alike": (("enumerated", "nothing learned"), [1.25, 1.5]),
    "draws": (("draws", "draws"), [1.0, 1.0]),
    "ranks": (("rank and draws", "rank and draws"), None),
    "mixed": (("enumerated", "draws", "hostile", "nothing learned"), [1.0, 1.1, None, 1.2]),
    "two formats": (("two formats", "two formats"), [1.0, 2.0]),
    "many groups": (("many groups", "many groups"), [1.0, 2.0]),
    "no canaries": (("no canaries", "no canaries"), [1.0, 2.0]),
    "one canary": (("one canary", "no controls"), [1.0, 2.0]),
}


DRAWN = ("alike", "mixed", "draws", "one canary")


@pytest.fixture(scope="module")
def made(audits):
    """The page of a case, made when it is first asked for."""
    known = {}

    def page(case):
        if case not in known:
            names, losses = CASES[case]
            given = [audits[name] for name in names]
            with figures(drawn=case in DRAWN):
                known[case] = render(given, test_losses=losses)
        return known[case]

    return page


@pytest.mark.parametrize("case", CASES)
def test_what_every_page_keeps(made, case):
    check_page(Page(made(case)))


def test_the_answer_golden(audits, made, plain):
    # Learned by heart at 16 copies against nothing learned, at a lower loss: both are worth it.
    text = Page(made("alike")).text("style")
    assert "None is beaten by another in both test loss and exposure of canaries." in text
    worse = render([audits["enumerated"], audits["nothing learned"]], test_losses=[1.5, 1.25])
    assert (
        "Beaten by no other in both test loss and exposure of canaries: with 1 copy, B; with 4 "
        "copies, B; with 16 copies, B; with 64 copies, B."
    ) in Page(worse).text("style")


def test_bounds_of_the_curve_are_marked_golden(audits, plain):
    audit = audits["draws"]
    lost = [
        replace(
            c, skew_normal=replace(c.skew_normal, bits=None, lower_bits=8.0, upper_bits=math.inf)
        )
        for c in audit.canaries
    ]
    html = render([replace(audit, canaries=tuple(lost)), audit])
    rows = re.findall(r'<tr><th scope="row">A</th>(.*?)</tr>', html)[-5:]
    assert all(re.findall("<td>(.*?)</td>", row)[2:] == ["≥ 8.00"] * 3 for row in rows)
    assert "the curve has nothing as likely as those canaries" in Page(html).text("style")


def test_estimates_of_the_curve_stand_beside_bounds_only(audits, made):
    text = Page(made("draws")).text("style")
    assert "Exposure by the skew-normal estimate" in text
    assert "median skew-normal exposure (bits)" in text
    assert "failed its test" not in text
    assert "skew-normal estimate" not in Page(made("alike")).text("style")
    form = audits["draws"].formats[0]
    failed = replace(form, skew_normal=replace(form.skew_normal, ks_p_value=1e-9))
    other = replace(audits["draws"], formats=(failed,))
    text = Page(render([audits["draws"], other])).text("style")
    assert "The curve of B failed its test: do not rely on it" in text
    bare = replace(
        audits["draws"],
        formats=(replace(form, skew_normal=None),),
        canaries=tuple(replace(c, skew_normal=None) for c in audits["draws"].canaries),
    )
    text = Page(render([audits["draws"], bare])).text("style")
    assert "Exposure by the skew-normal estimate" not in text


def test_what_cannot_be_compared_is_said_and_not_joined(made):
    html = made("mixed")
    text = Page(html).text("style")
    assert "B cannot be compared with A and D: the format is" in text
    assert "C cannot be compared with A and D: the format is" in text
    assert "B: alone" in text
    # One figure of exposure and one of utility, each for a desk and for a phone.
    assert html.count("<svg") == 4
    for svg in re.findall(r"<svg.*?</svg>", html, re.DOTALL):
        letters = set(re.findall(r"<text[^>]*>([A-D])</text>", svg))
        assert letters == {"A", "D"}


def test_hostile_labels_are_only_text(audits):
    pair = [audits["enumerated"], audits["nothing learned"]]
    html = render(pair, labels=[HOSTILE, "plain"])
    plain = render(pair, labels=["one", "plain"])
    page = Page(html)
    assert '</title><script>x</script>[31m $\\frac{1}{0}$ "onload=1' in page.text("style")
    assert [tag for tag, _ in page.elements] == [tag for tag, _ in Page(plain).elements]
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202e]", html)


def test_a_suspect_audit_is_named(audits, plain):
    audit = audits["enumerated"]
    suspect = replace(audit, controls_p=replace(audit.controls_p, p_value=1e-9))
    text = Page(render([audit, suspect])).text("style")
    assert "Do not rely on B: its own report calls the audit suspect" in text
    assert "Do not rely on A" not in text


@pytest.mark.parametrize("options", [{"labels": ["a"]}, {"test_losses": [1.0]}])
def test_nothing_to_compare_input(audits, tmp_path, options):
    with pytest.raises(InputError, match="are for comparing audits, and there is one"):
        report(audits["one canary"], tmp_path / "r.html", **options)
    assert list(tmp_path.iterdir()) == []

"""Every page of every kind is whole, stands alone and can be read aloud."""

from __future__ import annotations

import pytest
from drawing import figures
from gate_audits import exact, extraction
from histories import make_history
from html_pages import Page, check_page, render

import canary
from canary.audits.audit_result import Audit
from canary.errors import InputError, OutputError
from canary.gate.check_audit import check
from canary.reports import pages as pages_module
from canary.reports.pages import report

HISTORIES = {
    "two formats": {"formats": 2, "losses": False},
    "partly": {"broken": (2,), "stopped_at": 60, "marks": (1, 41)},
    "nothing": {"moments": 0, "losses": False},
    "one moment": {"moments": 1},
    "diverged": {"broken": tuple(range(1, 8)), "moments": 7},
    "very many": {"moments": 500},
}
EVIL = "<script>alert(1)</script> {0} `x` @octocat"


def test_of_every_audit(pages, every_name):
    check_page(Page(pages[every_name]))


@pytest.mark.parametrize("case", HISTORIES)
def test_of_every_history(case):
    with figures(drawn=case in list(HISTORIES)[:3]):
        check_page(Page(render(make_history(**HISTORIES[case]))))


@pytest.mark.parametrize("result", ["verdict", "extraction"])
def test_of_every_other_result(result):
    audit = exact({16: [20.0] * 8}, extractions=[extraction({1: EVIL})])
    page = Page(
        render(check(audit, no_extraction=True) if result == "verdict" else audit.extractions[0])
    )
    check_page(page)
    assert "•••" in page.text("style")


def test_the_same_result_gives_the_same_one_file(audits, pages, tmp_path):
    audits["enumerated"].save(tmp_path / "audit.json")
    with figures(drawn=False):
        assert render(Audit.load(tmp_path / "audit.json")) == pages["enumerated"]
    folder = tmp_path / "pages"
    folder.mkdir()
    path = report([audits["one canary"]], str(folder / "report.html"))
    assert [*folder.iterdir()] == [path]
    assert path.read_text() == pages["one canary"]
    history = make_history(moments=2)
    again = (canary.report(history, folder / f"{n}.html").read_bytes() for n in range(2))
    assert len({*again}) == 1


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

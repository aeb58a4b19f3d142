"""A section, a kind of result and its figure are one function each, in a file of their own."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from importlib import import_module
from types import SimpleNamespace

import pytest
from html_pages import Page, check_page, render

import canary
from canary.audits.audit_result import Audit
from canary.errors import InputError
from canary.reports import builders
from canary.reports.builders import figure_of, report_of, section
from canary.reports.document import Figure, Panel, Report, Section, Table, mark, prose
from canary.reports.markdown import markdown_of

EVIL = "<script>alert(1)</script> {0} `x` @octocat"


NOTHING = Audit((), (), None, None, {"device": ""}, {})


@pytest.fixture(autouse=True)
def first(monkeypatch):
    """As in a process that has made no report of an audit yet."""
    import_module("canary.reports.audit_report")
    monkeypatch.delitem(sys.modules, "canary.reports.audit_report")
    monkeypatch.setattr(builders, "_REGISTRIES", {})


def names_of(result):
    return [one.name for one in report_of(result).sections]


@pytest.fixture
def added(audits, plain):
    """An audit, and a section that only this test knows."""

    @section(Audit, "Where it was made", before="how")
    def place(audit):
        if audit.model["device"]:
            yield prose("On *this* device: `{device}`.", device=audit.model["device"])
            yield Table("Devices", ("Device", "Number"), [(EVIL, "1")])

    return audits["one canary"]


def test_a_section_is_one_function(added):
    page = Page(render(added))
    text = page.text("style")
    assert "Where it was made On this device: cpu" in text
    assert text.index("Where it was made") < text.index("How this was computed")
    assert EVIL in text
    check_page(page)
    said = markdown_of(report_of(added))
    assert "### Where it was made" in said
    assert "<script>" not in said
    assert "How this was computed" not in said  # for specialists
    assert "Where it was made" not in render(NOTHING)


def block_of(name):
    def blocks(_):
        yield "words"

    blocks.__name__ = name
    return blocks


def test_a_section_goes_where_it_says():
    for name, before in [("last", ""), ("two", "three"), ("three", "how")]:
        section(Audit, name, before=before)(block_of(name))
    names = names_of(NOTHING)
    assert names.index("how") == names.index("two") + 2 == names.index("three") + 1
    assert names[-2:] == ["limits", "last"]
    assert names[0] == "evidence"
    section(Audit, "Odd", before="candidate")(block_of("odd"))
    with pytest.raises(InputError, match="section odd goes before 'candidate', .* mean candidates"):
        report_of(NOTHING)


def added_by(monkeypatch, name, load):
    points = {"canary.audit_sections": [SimpleNamespace(name=name, load=load)]}
    monkeypatch.setattr("canary.registry.entry_points", lambda group: points.get(group, []))


@pytest.mark.parametrize("name", ["mine", "another_name"])
def test_a_section_of_another_package_is_an_entry_point(monkeypatch, name):
    add = section(Audit, "Mine", before="how")
    added_by(monkeypatch, name, lambda: add(block_of("mine")))
    names = names_of(NOTHING)
    assert names.count("mine") == 1
    assert names.index("mine") + 1 == names.index("how")


def test_an_entry_point_that_is_no_section_says_the_cure_input(monkeypatch):
    added_by(monkeypatch, "mine", lambda: block_of("mine"))
    with pytest.raises(InputError, match=r"entry point mine is no .*; decorate .*section\(Audit, "):
        report_of(NOTHING)


def test_a_section_of_canary_is_a_file_and_an_entry(monkeypatch, tmp_path):
    text = """
from canary.audits.audit_result import Audit
from canary.reports.builders import section

@section(Audit, "Here", before="how")
def here(audit):
    yield "words"
"""
    (tmp_path / "audit_here.py").write_text(text)
    monkeypatch.setattr(canary.reports, "__path__", [*canary.reports.__path__, str(tmp_path)])
    monkeypatch.setitem(builders._HOMES, "audit_here", ("Audit",))
    names = names_of(NOTHING)
    assert names.index("here") + 1 == names.index("how")
    monkeypatch.delitem(sys.modules, "canary.reports.audit_here")


def test_markdown_has_numbers_to_the_right():
    table = Table("T", ("A", "B", "C"), [("a", "b", "1")])
    made = [table, replace(table, style="words"), replace(table, style="words", numbers=1)]
    said = markdown_of(Report("R", "", [], sections=[Section("s", "S", made)]))
    rules = [line for line in said.splitlines() if line.startswith("| --")]
    assert rules == ["| --- | ---: | ---: |", "| --- | --- | --- |", "| --- | --- | ---: |"]


@dataclass(frozen=True)
class Weather:
    """A kind of result that canary does not know."""

    degrees: float


def test_a_kind_of_result_is_one_builder_and_one_figure(tmp_path):
    with pytest.raises(InputError, match="no report of a value of the type Weather"):
        canary.report(Weather(7.5), tmp_path / "w.html")
    with pytest.raises(InputError, match="no figure of a value of the type Weather"):
        canary.plot(Weather(7.5))

    @report_of.register(Weather)
    def weather_report(weather):
        return Report("Weather", "Cold", [prose("It is {degrees}.", degrees=weather.degrees)])

    @figure_of.register(Weather)
    def weather_figure(weather, options):
        line = mark("axhline", weather.degrees)
        return Figure("weather", "The temperature", [Panel([line])])

    path = canary.report(Weather(7.5), tmp_path / "w.html")
    assert "It is 7.5." in Page(path.read_text()).text("style")
    axes = canary.plot(Weather(7.5))
    assert axes.get_lines()[0].get_ydata()[0] == 7.5

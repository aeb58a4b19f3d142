"""A section, a kind of result and its figure are one function each, in a file of their own."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from html_pages import Page, check_page, render

import canary
from canary.audits.audit_result import Audit
from canary.errors import InputError
from canary.reports import builders
from canary.reports.builders import figure_of, report_of, section
from canary.reports.document import Figure, Panel, Report, Table, mark, prose
from canary.reports.verdicts import markdown_of

EVIL = "<script>alert(1)</script> {0} `x` @octocat"


@pytest.fixture
def added(audits, plain):
    """An audit, and a section that only this test knows."""
    audit = audits["one canary"]
    render(audit)

    @section(Audit, "Where it was made", before="how")
    def place(audit):
        if audit.model["device"]:
            yield prose("On *this* device: `{device}`.", device=audit.model["device"])
            yield Table("Devices", ("Device", "Number"), [(EVIL, "1")])

    yield audit
    builders._REGISTRIES[Audit]._things.pop("place")


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
    assert "Where it was made" not in render(Audit((), (), None, None, {"device": ""}, {}))


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

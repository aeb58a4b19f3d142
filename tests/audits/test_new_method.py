"""A method of measuring exposure is added in one file: this one."""

from __future__ import annotations

import ast
import re
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_models import build

from canary.audits.auditing import audit
from canary.audits.by_draws import UniformDraws
from canary.audits.choosing import METHODS, method_names
from canary.audits.method import Cost, Measured, Method, Unfit
from canary.corpus.canaries import generate
from canary.errors import EstimationError, InputError, UnsupportedError
from canary.gate.check_audit import check
from canary.reports.builders import report_of
from canary.reports.html_page import page_of
from canary.search.pricing import Priced
from canary.statistics import exposures
from canary.statistics.exposures import exposure_by_rank
from canary.statistics.histogram import HistogramBuilder

CANARIES = generate("The {digit:3}", repetitions=[1], per_repetition=2, controls=2, seed=3)
MANY = generate("The {digit:3}", repetitions=[1, 4], per_repetition=12, controls=20, seed=4)


class ByIndex(Method):
    """Ranks fills by their place in the format; needs no model at all."""

    name = "place"
    answers = ("place",)

    def cost(self, question):
        if question.format.size > 10**6:
            return Unfit("too large", UnsupportedError("too large for places", cure="take fewer"))
        return Cost("places were asked for", 0, 0, question.sizes(), "certified: places are known")

    def measure(self, question, cost):
        size = question.format.size
        places = [question.format.index(fill) + 1 for fill in question.fills]
        histogram = HistogramBuilder()
        histogram.add(np.arange(1.0, 50.0))
        return Measured(
            method=self.name,
            canaries=Priced(np.log2(places), None),
            exposures=[exposure_by_rank(p, lower=p, upper=p, space_size=size) for p in places],
            histogram=histogram.build(),
            candidates=size,
            queries=0,
            draws=None,
            draws_px=np.empty(0),
            done=", and nothing was scored",
        )


@contextmanager
def registered(method):
    METHODS.add(method.name, method)
    try:
        yield
    finally:
        del METHODS._things[method.name]


@pytest.fixture
def place():
    with registered(ByIndex()):
        yield


@pytest.mark.usefixtures("place")
def test_it_is_asked_for_by_name():
    assert "place" in method_names(p_values=True)
    found = audit(build("table"), CANARIES, method="place")
    (about,) = found.formats
    assert (about.method, about.queries) == ("place", 0)
    assert about.reason == "places were asked for, and nothing was scored"
    ranks = [CANARIES.formats[0].index(c.fill) + 1 for c in CANARIES]
    assert [c.exposure.rank for c in found.canaries] == ranks
    large = generate("The {digit:9}", repetitions=[1], controls=1, seed=3)
    with pytest.raises(UnsupportedError, match="too large for places"):
        audit(build("table"), large, method="place")


def test_a_method_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(InputError, match="unknown method 'place'") as caught:
        audit(build("table"), CANARIES, method="place")
    assert all(name in caught.value.cure for name in method_names())


def test_auto_takes_the_first_that_the_budget_allows():
    auto = [m for m in METHODS.values() if "auto" in m.answers and m.whole_rows]
    assert isinstance(auto[-1], UniformDraws)  # which fits everything
    for budget, method in ((10**6, "enumeration"), (100, "rank and draws")):
        found = audit(build("table"), CANARIES, budget=budget, draws=50)
        assert found.formats[0].method == method
    assert found.formats[0].reason.startswith("enumeration would take")


@pytest.mark.usefixtures("place")
def test_the_command_line_knows_it():
    from typer.main import get_command

    from canary.cli.commands import app

    words = ["model", "--canaries", "c.json", "--method", "place"]
    command = get_command(app).commands["exposure"]
    assert command.make_context("exposure", [*words]).params["method"] == "place"
    with pytest.raises(InputError, match="--method: unknown method 'plaice'"):
        command.make_context("exposure", [*words[:-1], "plaice"])


class Renamed(Method):
    """A built-in method, whose results bear its own name or another."""

    name = "zyx"
    answers = ("zyx",)
    help = "zyx is told about in the help"

    def __init__(self, method, told):
        self.method, self.told = method, told

    whole_rows = property(lambda self: self.method.whole_rows)
    has_p_values = property(lambda self: self.method.has_p_values)

    def cost(self, question):
        return self.method.cost(question)

    def measure(self, question, cost):
        found = self.method.measure(question, cost)
        if not self.told:
            return found
        exposures = [replace(e, method=self.name) for e in found.exposures]
        return replace(found, method=self.name, exposures=exposures)


def audited(method, told):
    """The audit, the gate's findings and the report, with no time in them."""
    with registered(Renamed(method, told)):
        found = audit(build("table"), MANY, method="zyx", budget=2000, draws=60)
    formats = tuple(replace(f, seconds=1.0) for f in found.formats)
    found = replace(found, formats=formats, seconds={})
    limits = {"max_p": 0.01, "trust_injection": True}
    verdicts = [
        check(found, max_exposure_bits=limit, statistic=of, **limits)
        for of in ("median", "maximum")
        for limit in (1.0, 2.0, 4.0, 7.0)
    ]
    page = re.sub("(?i)report number.*", "", page_of(report_of(found)))
    return found, [str(verdict) for verdict in verdicts], page


@pytest.mark.parametrize("name", [n for n, m in METHODS.items() if m.has_p_values and m.whole_rows])
def test_the_name_of_a_method_decides_nothing(name):
    (own, verdicts, page), (other, renamed, renamed_page) = (
        audited(METHODS[name], told) for told in (False, True)
    )
    assert own.formats[0].method == name
    assert {c.exposure.method for c in other.canaries} == {other.formats[0].method} == {"zyx"}
    assert renamed == verdicts
    assert len(set(verdicts)) > 1
    without = [re.sub(rf">\s*({name}|zyx)\b", ">", text) for text in (page, renamed_page)]
    assert without[0] == without[1]


@pytest.mark.parametrize("method", METHODS.values(), ids=list(METHODS))
def test_it_is_listed_where_it_can_be_asked_for(method):
    from typer.main import get_command

    from canary.cli.commands import app

    with registered(Renamed(method, told=True)):
        for command, listed in (("audit", method.has_p_values), ("exposure", True)):
            shown = get_command(app).commands[command]
            words = "".join(shown.get_help(shown.context_class(shown)).split())
            assert (bool(re.search("(,|or)zyx", words)), "zyxistoldaboutinthehelp" in words) == (
                listed,
                listed,
            )
        if not method.has_p_values:
            with pytest.raises(InputError, match="the zyx estimate has no p-value"):
                audit(build("table"), MANY, method="zyx")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"confidence": None}, "confidence cannot be"),
        ({"p_value": None}, "p_value cannot be None"),
        ({"lower_bits": 90.0}, "lower_bits or upper_bits cannot be"),
    ],
)
def test_what_does_not_say_what_it_rests_on_is_refused_input(change, word):
    class Vague(Renamed):
        def measure(self, question, cost):
            found = super().measure(question, cost)
            return replace(found, exposures=[replace(e, **change) for e in found.exposures])

    with (
        registered(Vague(UniformDraws(), told=True)),
        pytest.raises(EstimationError, match=word) as caught,
    ):
        audit(build("table"), MANY, method="zyx", draws=60)
    assert caught.value.where == "zyx"


def test_no_other_module_compares_names_of_methods():
    """Only the methods and their statistics know a name; a history names its draws."""
    constants = {n for n, v in vars(exposures).items() if n.isupper() and isinstance(v, str)}
    names = {*METHODS, *method_names(), *(getattr(exposures, n) for n in constants)} - {"auto"}
    names -= {"controls"}  # a word with other meanings as well
    assert len(constants) == 6
    package, found = Path(exposures.__file__).parents[1], []
    for path in package.rglob("*.py"):
        where = str(path.relative_to(package))
        if where.startswith(("statistics/", "audits/by_")):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            parts = [*ast.walk(node)] if isinstance(node, ast.Compare | ast.match_case) else []
            known = {part.value for part in parts if isinstance(part, ast.Constant)} & names
            if isinstance(node, ast.ImportFrom) and where != "audits/history.py":
                known |= {alias.name for alias in node.names} & constants
            found += [(where, node.lineno, *known)] if known else []
    assert not found

"""A method of measuring exposure is added in one file: this one."""

from __future__ import annotations

import numpy as np
import pytest
from small_models import build

from canary.audits.auditing import METHODS, audit, method_names
from canary.audits.by_draws import UniformDraws
from canary.audits.method import Cost, Measured, Method, Unfit
from canary.corpus.canaries import generate
from canary.errors import InputError, UnsupportedError
from canary.search.pricing import Priced
from canary.statistics.exposures import exposure_by_rank
from canary.statistics.histogram import HistogramBuilder

CANARIES = generate("The {digit:3}", repetitions=[1], per_repetition=2, controls=2, seed=3)


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
            done=", and nothing was priced",
        )


@pytest.fixture
def place():
    METHODS.add(ByIndex.name, ByIndex())
    yield
    del METHODS._things[ByIndex.name]


@pytest.mark.usefixtures("place")
def test_it_is_asked_for_by_name():
    assert "place" in method_names(p_values=True)
    found = audit(build("table"), CANARIES, method="place")
    (about,) = found.formats
    assert (about.method, about.queries) == ("place", 0)
    assert about.reason == "places were asked for, and nothing was priced"
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

"""Figures of attacks on many models show the numbers of their results."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from many_models import random_table
from matplotlib.figure import Figure

from canary import plot
from canary.errors import InputError
from canary.membership.aggregate import evaluate_models
from canary.membership.diagnostics import NullLosses, growth, null_losses, scatter
from canary.membership.many import attack_models
from canary.reports.attack_figures import drawn_of
from canary.reports.document import sentence


@pytest.fixture
def axes():
    return Figure().subplots()


@pytest.fixture(scope="module")
def table():
    return random_table(np.random.default_rng(0), samples=60)


def test_average_rocs_golden(table, axes):
    found = [evaluate_models(attack_models(table, name)) for name in ("R", "S")]
    assert plot(found, axes) is axes
    _, *lines = axes.get_lines()
    for line, one in zip(lines, found, strict=True):
        x, y = line.get_data()
        np.testing.assert_array_equal(x, one.fprs)
        np.testing.assert_array_equal(y, np.maximum(one.average_tpr, 1e-4))
    shown = [f"{one.name}: AUC {one.auc.mean:.3f} ± {one.auc.sd:.3f}" for one in found]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["guessing", *shown]
    one = evaluate_models(attack_models(table, "R", targets=[0]))
    alone = plot(one, Figure().subplots())
    assert alone.get_legend().get_texts()[1].get_text() == f"R: AUC {one.auc.mean:.3f}"
    assert not alone.collections


def test_growth_golden(table, axes):
    found = growth(table, "R", [2, 4], targets=[0, 1], seed=0)
    plot([found], axes)
    x, y = axes.containers[0].lines[0].get_data()
    assert (x.tolist(), y.tolist()) == ([2, 4], [one.mean for one in found.auc])
    assert axes.get_xlabel() == "models"


def test_of_many_attacks_the_weakest_is_left_out_and_named():
    areas = [0.9, 0.8, 0.5, *np.linspace(0.6, 0.7, 6)]
    group = [SimpleNamespace(name=f"a{place}", auc=area) for place, area in enumerate(areas)]
    drawn, undrawn = drawn_of(group, lambda one: one.auc)
    assert [one.name for one in drawn] == ["a0", "a1", *(f"a{place}" for place in range(3, 9))]
    assert undrawn == "a2"
    assert "not drawn: a2." in sentence("survey.roc", alone=True, undrawn=undrawn)


def test_null_losses_golden(table, axes):
    found = [null_losses(table, name, target=0, sample=4, alpha=0.5) for name in ("S", "R")]
    plot(found, axes)
    at = [line.get_xdata()[0] for line in axes.get_lines()]
    assert at == [found[0].threshold, found[1].threshold, found[0].observed]
    for patch, one in zip(axes.patches, found, strict=True):
        shares, _, _ = patch.get_data()
        assert sum(shares) == pytest.approx(1)
        assert np.count_nonzero(shares) <= len(one.losses)


def test_losses_of_nothing_are_in_the_first_bin_degenerate(axes):
    some = {"target": 0, "sample": 4, "alpha": 0.1, "member": True}
    losses = np.array([0.0, 0.0, 1e-3, 10.0])
    plot(NullLosses(name="R", losses=losses, observed=0.0, threshold=0.0, **some), axes)
    shares, edges, _ = axes.patches[0].get_data()
    assert (shares[0], shares[-1], sum(shares)) == (0.75, 0.25, 1.0)
    assert (edges[0], edges[-1], axes.get_xscale()) == (pytest.approx(1e-3), 10.0, "log")
    assert [line.get_xdata()[0] for line in axes.get_lines()] == [edges[0], edges[0]]
    nothing = NullLosses(name="R", losses=np.zeros(3), observed=0.0, threshold=0.0, **some)
    alone = plot(nothing, Figure().subplots())
    assert alone.patches[0].get_data().values[0] == 1


def test_scatter_golden(table, axes):
    found = scatter(table, ("S", "P"), alpha=0.3)
    plot(found, axes)
    outside, inside = (np.array(line.get_data()) for line in axes.get_lines()[:2])
    np.testing.assert_array_equal(inside, found.margins[:, found.member])
    np.testing.assert_array_equal(outside, found.margins[:, ~found.member])


def test_what_cannot_share_axes_input(table, axes):
    across = evaluate_models(attack_models(table, "P"))
    margins = scatter(table, ("S", "P"), alpha=0.3)
    losses = [null_losses(table, "P", target=0, sample=at) for at in (4, 5)]
    for given, options, message in (
        ([across, margins], {}, "Across and Scatter cannot share axes; draw one kind"),
        ([margins, margins], {}, "2 results of the kind Scatter, at most 1"),
        (losses, {}, "losses of several samples"),
        (across, {"kind": "histogram"}, "one figure each; leave kind"),
    ):
        with pytest.raises(InputError, match=message):
            plot(given, axes, **options)

"""Results in a session: five lines, a table, a view, a report, a figure, and no secret in any."""

from __future__ import annotations

import pkgutil
import re
from dataclasses import replace
from functools import partial
from importlib import import_module

import numpy as np
import pytest
from classifiers import measured_outputs
from gate_audits import exact, extraction, of_groups, trusting
from histories import make_history
from many_models import random_table
from matplotlib.figure import Figure
from small_models import build
from texts_and_models import random_words, trained_on

import canary
from canary.audits.audit_result import Audit
from canary.audits.exposure_result import Exposures
from canary.audits.forecast import Forecast, MethodForecast
from canary.corpus.duplicates import Duplicates
from canary.corpus.pools import Pool
from canary.corpus.verification import Count, Verification
from canary.gate.coins import EpsilonBound
from canary.membership.aggregate import evaluate_models
from canary.membership.analysis import ClassRisks, class_risks
from canary.membership.counterfactual import counterfactual
from canary.membership.many import attack_models
from canary.membership.models_result import SampleScores
from canary.membership.models_survey import survey_models
from canary.membership.order_result import Order, Preference
from canary.membership.privacy import AttackEpsilon
from canary.membership.risk import RiskScores, risk_scores
from canary.membership.samples_needed import AttackPlan, plan_attacks
from canary.membership.shadow_survey import survey
from canary.membership.singled_out import SingledOut
from canary.membership.survey import Attacked
from canary.membership.text_survey import survey_texts
from canary.models.doctor import Examination
from canary.models.experiments import Finding
from canary.passages.sampled import Chance, Sampled, Sought
from canary.plugins.preflight import Preflight
from canary.reports.attacks_compared import compare_attacks
from canary.signals.signal_table import SignalTable
from canary.signals.text_measuring import measure_texts
from canary.statistics.exposures import exposure_by_draws
from canary.statistics.numbers import Shown
from canary.statistics.roc import Estimate, OperatingPoint, Roc, roc

EVIL = "<script>alert(1)</script>\x1b[31m"
TABLES = [measured_outputs(seed, samples=400) for seed in (1, 2)]
WITHOUT_FIGURE = (
    Attacked,
    SingledOut,
    Roc,
    OperatingPoint,
    Estimate,
    Duplicates,
    AttackPlan,
    Examination,
    Preflight,
    ClassRisks,
    Forecast,
    Pool,
    SampleScores,
)
BOUND = {"epsilon": 1.5, "delta": 0.0, "confidence": 0.95, "coins": 9, "guesses": 9, "correct": 8}


def an_audit():
    return exact({16: [20.0] * 8, 0: [1.0] * 8}, extractions=[extraction({1: EVIL})])


def attacked():
    return canary.attack(TABLES[0], "loss", shadow=TABLES[1])


def many():
    return attack_models(random_table(np.random.default_rng(0)), "R")


def a_text_survey():
    texts = random_words(np.random.default_rng(0), 80)
    model = trained_on(texts[:40])
    return survey_texts(measure_texts(model, texts, np.arange(80) < 40, signals="loss"), texts)


def a_forgetting():
    losses = np.random.default_rng(0).random((4, 50))
    return canary.forgotten([losses[0]], losses[1], list(losses[2:]), resamples=9)


def a_verbatim():
    return canary.verbatim(build("table"), ["0123456789ab" * 2] * 3, prefix=4, suffix=4)


def a_sampling():
    at = {"documents": 2, "short": 0, "digest": "a" * 64, "document": (0, 1), "position": (0, 0)}
    secrets = Sought(**at, hits=(3, 0), near=(3, 0), copies=(4, 4), names=("canary-1", EVIL))
    chance, of = Chance(1e-6, 1e-6), {"name": EVIL, "server": "http://127.0.0.1:8000/v1"}
    settings = {"chat": False, "temperature": 1.0, "seed": 0, "max_tokens": None}
    return Sampled(
        texts=secrets, controls=None, samples=9, near=0.8, cut=1, chance=chance, confidence=0.95,
        model=of, settings=settings,
    )  # fmt: skip


def of_classes():
    label, rng = np.tile(np.arange(5), 200), np.random.default_rng(0)
    member = np.arange(1000) < 500
    right = rng.random(1000) < np.where(member, 1.0, 0.9 - 0.1 * label)
    values = {"correctness": right[None].astype(float)}
    scores = np.where(right, 0.5 + 0.05 * label, 0.1)
    risks = RiskScores(scores, 0.5, 5, "log", np.zeros(5, bool))
    return class_risks(SignalTable(values, member[None], label, 5), risks)


def a_survey():
    return survey(*TABLES, attacks="correctness,entropy", fprs=[0.1])


RESULTS = {
    "verbatim": (a_verbatim, None),
    "sampling": (a_sampling, 2),
    "audit": (an_audit, 16),
    "exposures": (lambda: Exposures(an_audit().canaries), 16),
    "duplicates": (
        lambda: Duplicates(("a",), 3, ((1, 1), (2, 1)), False, ("a" * 32,), (2,), (0,), (1,)),
        1,
    ),
    "history": (make_history, 60),
    "extraction": (lambda: an_audit().extractions[0], 8),
    "verdict": (lambda: trusting(an_audit(), max_exposure_bits=9), None),
    "plan": (partial(canary.plan, "The code is {digit:3}", max_exposure_bits=4), 1),
    "forecast": (
        lambda: Forecast(
            {"name": EVIL, "device": "cpu"},
            1,
            2,
            3,
            4,
            0.5,
            0.5,
            (MethodForecast("rank", reason=EVIL),),
        ),
        1,
    ),
    "attacks compared": (
        lambda: compare_attacks([survey(*TABLES, attacks="loss")] * 2, [EVIL, "b"]),
        None,
    ),
    "seeds compared": (
        lambda: canary.compare(
            {
                label: [exact({4: [b, b + i]}, fingerprint=f"{label}{i}") for i in range(3)]
                for label, b in ((EVIL, 3.0), ("b", 9.0))
            }
        ),
        6,
    ),
    "pool": (
        lambda: Pool((EVIL, "b"), (1.0, 2.0), (0.5, 2.5), 1.0, 4, "", None, "m", "a" * 64, 0),
        2,
    ),
    "order": (
        lambda: Order(
            texts=4,
            left_out=0,
            shard=2,
            before=9,
            after=9,
            tokens=99,
            reference=None,
            preference=Preference(0.5, 0.1, 0.01, 99, (0.4, 0.6)),
            without_model={"words": 0.5},
            digest="a" * 64,
            model={"name": EVIL},
            settings={},
        ),
        None,
    ),
    "attack plan": (partial(plan_attacks, {0.01: 0.05}), 1),
    "set": (partial(canary.generate, "The code is {digit:12}", controls=3), 35),
    "verification": (lambda: Verification((Count(EVIL, 2, 1, 0),), "text", 7), 1),
    "table": (lambda: TABLES[0], 400),
    "survey": (a_survey, 2),
    "one attack": (lambda: a_survey().attacked[0], 1),
    "singled out": (lambda: a_survey().singled_out(0.1), 26),
    "ROC": (lambda: roc([3.0, 2.0, 1.0, 0.0], [True, False, True, False]), 5),
    "operating point": (lambda: a_survey().attacked[0].points[0], 1),
    "estimate": (lambda: roc([3.0, 2.0, 1.0, 0.0], [True, False, True, False]).auc(), 1),
    "text survey": (a_text_survey, 1),
    "models survey": (
        lambda: survey_models(random_table(np.random.default_rng(0), 8, 60), attacks="R,P"),
        2,
    ),
    "scores of samples": (
        lambda: survey_models(
            random_table(np.random.default_rng(0), 8, 60), attacks="R,P"
        ).sample_scores(),
        480,
    ),
    "counterfactual": (
        lambda: counterfactual(random_table(np.random.default_rng(0), 8, 60)),
        60,
    ),
    "scores": (attacked, 400),
    "scores of many": (many, 8 * 24),
    "across": (lambda: evaluate_models(many()), 8),
    "evaluation": (lambda: canary.evaluate(attacked(), TABLES[0].member[0]), None),
    "risk": (lambda: risk_scores(TABLES[0], shadow=TABLES[1]), 400),
    "risk of classes": (of_classes, 5),
    "epsilon": (lambda: EpsilonBound(**BOUND, copies=1, largest_possible=2.5, epsilon_any=1.5), 1),
    "epsilon of attacks": (
        lambda: AttackEpsilon(**BOUND, attacks=1, largest_possible=2.5, notes=(), epsilon_any=1.5),
        1,
    ),
    "forgetting": (a_forgetting, 3),
    "preflight": (lambda: Preflight(7, True, 5, (Finding("it is", "noted", EVIL, "b"),)), 1),
    "doctor": (lambda: Examination("m", (Finding("it loads", EVIL, "fine", "", ""),)), 1),
}
"""What makes each kind of result, and how many rows its table has, where that is known."""


@pytest.fixture(scope="module", params=RESULTS)
def result(request):
    make, rows = RESULTS[request.param]
    return make(), rows


def test_every_kind_of_result_is_here():
    for module in pkgutil.walk_packages(canary.__path__, "canary."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    kinds, left = set(), [Shown]
    while left:
        left += (more := left.pop().__subclasses__())
        kinds |= {kind for kind in more if kind.__module__.startswith("canary.")}
    made = {type(make()) for make, _ in RESULTS.values()}
    assert {kind for kind in kinds if not kind.__subclasses__()} <= made


def test_every_result_is_short_and_a_table(result):
    found, rows = result
    assert len(repr(found)) < 200
    assert not {"\n", "\x1b"} & {*repr(found)}
    assert 1 <= len(str(found).splitlines()) <= 5
    assert "\x1b" not in str(found)
    assert found.summary()
    assert len(found.to_frame()) == (rows or len(found.to_frame())) > 0


def test_every_result_has_numbers_for_a_tracker(result):
    metrics = result[0].metrics()
    assert all(re.fullmatch(r"canary/[\w/.: -]+", name, re.ASCII) for name in metrics)
    assert all(type(value) is float and np.isfinite(value) for value in metrics.values())


ENDS = ("", "_lower", "_upper")  # a median, and its interval


def test_the_numbers_for_a_tracker_are_those_of_the_result():
    audit = exact({16: [20.0] * 8, 0: [1.0] * 8}, extractions=[extraction({1: "canary-3"})])
    assert audit.metrics() == pytest.approx(
        {
            **dict.fromkeys((f"canary/exposure_controls{end}" for end in ENDS), 1.0),
            **dict.fromkeys((f"canary/exposure_16_copies{end}" for end in ENDS), 20.0),
            "canary/p_value_injected": audit.injected_p.p_value,
            "canary/p_value_controls": audit.controls_p.p_value,
            "canary/recovered": 8.0,
            "canary/search_guesses": 8.0,
            "canary/search_found": 1.0,
        },
        rel=1e-4,
    )
    open_for_all = of_groups({16: exposure_by_draws([0.0] * 8, np.ones(300), space_size=10**9)})
    assert "canary/recovered" not in open_for_all.metrics()
    assert exact({16: [1.0] * 8}).metrics()["canary/recovered"] == 0.0
    found = RESULTS["survey"][0]()
    assert found.metrics()["canary/membership/entropy/auc"] == found._table()[1]["auc"]
    bound = RESULTS["epsilon"][0]().metrics()
    assert bound["canary/epsilon_bound/epsilon"] == 1.5
    assert a_forgetting().metrics()["canary/forgetting/rho"] == a_forgetting().rho
    assert RESULTS["risk"][0]().metrics() == {}


def test_names_of_metrics_are_those_that_trackers_allow():
    class Named(Shown):
        def _metrics(self):
            yield "min-k++/a b\n:é", 1
            yield "infinite", np.inf
            yield "text", "1"

    assert Named().metrics() == {"canary/min-k__/a b_:_": 1.0}


def test_every_result_has_a_view_with_its_figure(result):
    html = result[0]._repr_html_()
    assert html.count("<tr") <= 25
    assert "<table" in html
    assert "<script" not in html
    assert html.count("<svg ") == (not isinstance(result[0], WITHOUT_FIGURE))
    named = set(re.findall(r"var\((--[\w-]+)\)", html))
    assert named <= set(re.findall(r"(--[\w-]+):", html))  # every colour is there without a page
    assert len(html) < 300_000


def test_every_result_has_a_report_and_a_figure(result, tmp_path):
    found = result[0]
    assert "<script" not in found.report(tmp_path / "report.html").read_text()
    if isinstance(found, WITHOUT_FIGURE):
        with pytest.raises(canary.CanaryError, match="there is no figure"):
            canary.plot(found)
    else:
        axes = found.plot(Figure().subplots())
        assert any(each.has_data() for each in (axes, *axes.child_axes))


def test_several_audits_are_a_report_and_a_figure(tmp_path):
    two = [an_audit(), exact({16: [20.0] * 8, 0: [1.0] * 8}, fingerprint="b" * 64)]
    assert canary.report(two, tmp_path / "report.html").stat().st_size > 10_000
    assert canary.plot(two, Figure().subplots()).has_data()


def test_no_secret_is_shown():
    made = RESULTS["set"][0]()
    shown = made._repr_html_() + repr(made) + str(made) + made.to_frame().to_csv()
    assert not any(one.fill in re.findall(r"\d{12}", shown) for one in made)


def test_the_numbers_are_those_of_the_result_golden():
    audit: Audit = an_audit()
    frame = audit.to_frame()
    assert list(frame["id"]) == [c.id for c in audit.canaries]
    assert list(frame["bits"]) == [c.exposure.bits for c in audit.canaries]
    assert list(frame["exact"]) == [c.exposure.rank is not None for c in audit.canaries]
    assert list(frame["method"]) == [c.exposure.method for c in audit.canaries]
    assert set(frame["model"]) == {audit.model_name}
    found = RESULTS["survey"][0]()
    shown = list(found.to_frame()["tpr_at_fpr_0.1"])
    assert shown == [one.points[0].tpr.value for one in found.attacked]


def test_an_attribute_that_is_not_there_is_answered_with_those_that_are():
    with pytest.raises(AttributeError, match=r"no attribute 'y'; its fields are values.*label"):
        TABLES[0].y  # noqa: B018
    assert not hasattr(TABLES[0], "_repr_png_")


def test_a_print_that_is_cut_says_how_many_notes_it_leaves_out():
    class Long(Shown):
        def summary(self):
            return "\n".join([*(f"  line: {n}" for n in range(6)), "  note: wrong start token"])

    assert str(Long()).splitlines()[-1] == "… and 3 more lines, 1 note among them; see summary()"


def test_samples_of_natural_secrets_are_not_called_made_up(tmp_path):
    planted = a_sampling()
    natural = replace(planted, settings={**planted.settings, "natural": True}, chance=None)
    for found, made_up in ((planted, True), (natural, False)):
        page = found.report(tmp_path / "report.html", force=True).read_text()
        assert ("are made up" in page) == made_up
        assert ("planted secret" in page.lower()) == made_up
        assert ("may be real" in page) != made_up
        assert ("where these secrets were found" in page) != made_up
        assert "four times as many answers" not in page
        assert ("planted secret" in found.summary()) == made_up

"""What is said before an audit of its queries is what it takes; time bounds a search."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from small_models import character_tokenizer, recurrent_module

from canary import audit, extract, generate
from canary.audits import pacing
from canary.audits.choosing import METHODS, choose
from canary.audits.cut_secrets import note_on_cut, rows_compared
from canary.audits.forecast import forecast
from canary.audits.question import AuditOptions, questions_of
from canary.audits.start_search import started, work_of_check
from canary.errors import InputError, UnsupportedError
from canary.models.loading import load
from canary.records.progress import Bars, remark
from canary.scoring import time_expected
from canary.search.rank_counter import nodes_by_level
from canary.statistics.numbers import duration

FORMAT = "12 {digit:5}"
OPTIONS = AuditOptions(draws=700, budget=20_000, start_token=None)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(3)
    return load(recurrent_module("LSTM"), tokenizer=character_tokenizer())


@pytest.fixture(scope="module")
def canaries():
    return generate(FORMAT, repetitions=(1,), per_repetition=4, controls=4, seed=0)


@pytest.fixture(scope="module")
def said(model, canaries):
    return forecast(model, canaries, OPTIONS, probe_seconds=0.05)


def listening():
    """A list of what is announced, and the `progress` that fills it and shows nothing else."""
    heard = []

    class Listener:
        say = staticmethod(heard.append)

        def stage(self, name, total, unit):
            return lambda done: None

    return heard, Listener().stage


def test_queries_are_those_that_are_taken_afterwards(model, canaries, said):
    by_name = {found.method: found for found in said.methods}
    for name, within in (("enumeration", 0.0), ("uniform draws", 0.0), ("importance", 0.1)):
        method = next(m for m in METHODS.values() if name in m.name)
        options = replace(OPTIONS, method=method.answers[0])
        (question,) = questions_of(model, canaries, options)
        taken = method.measure(question, method.cost(question)).queries
        assert by_name[method.name].queries == pytest.approx(taken, rel=within)
        assert by_name[method.name].seconds > 0
        assert by_name[method.name].processor_seconds > 0
        assert by_name[method.name].bytes > 10_000_000  # Python itself takes more
        assert not by_name[method.name].at_most


def test_a_search_has_a_bound_and_auto_is_marked(said):
    (rank,) = (found for found in said.methods if found.method == "rank")
    assert rank.at_most
    assert rank.queries >= OPTIONS.budget
    assert [found.method for found in said.methods if found.chosen] == ["enumeration"]
    assert "enumeration (auto): " in said.summary()
    (auto,) = (method for method in said.methods if method.chosen)
    (total,) = said.total()
    assert total.startswith(f"In all, canary audit takes about {duration(auto.seconds)} here")
    assert said.summary().splitlines()[1] == total
    searched = replace(auto, at_most=True)
    slow = replace(said, methods=(*(m for m in said.methods if m is not auto), searched))
    assert "takes at most" in slow.total()[0]
    assert "if little was learned; --seconds and --budget bound the search" in slow.total()[0]
    assert len(said.rows()) == sum(not found.reason for found in said.methods)


def test_an_extraction_has_a_bound_for_each_format(model, canaries):
    found = forecast(model, canaries, OPTIONS, extraction_budget=300, probe_seconds=0.05)
    part = found.extraction
    assert (part.queries, part.at_most, part.reason) == (300, True, "")
    assert 0 < part.seconds < next(m for m in found.methods if m.method == "rank").seconds
    assert found.rows()[-1][:2] == ("extraction", "up to 300")
    assert "that no secret was cut" in found.summary()
    (auto,) = (method for method in found.methods if method.chosen)
    told = duration(auto.seconds + part.seconds)
    (total,) = found.total()
    assert total.startswith(f"In all, with its extraction, canary audit takes at most {told} here")
    searched = (*(m for m in found.methods if m is not auto), replace(auto, at_most=True))
    draws = next(m for m in found.methods if m.method == "uniform draws")
    told = duration(draws.seconds + part.seconds)
    (total,) = replace(found, methods=searched).total()
    assert f"and about {told} if little was learned" in total
    assert found.from_dict(found.to_dict()) == found
    search = extract(model, FORMAT, budget=300, top=50, start_token=None)
    assert search.queries <= part.queries


def test_comparing_the_start_token_counts(model, canaries, said):
    assert said.check_seconds > 0  # English is scored, and no start token is compared
    assert "comparing the start token" in said.summary()
    assert all(m.reason or m.seconds > said.check_seconds for m in said.methods)
    options = replace(OPTIONS, start_token="\n")
    _, start = started(model, canaries.formats, options, canaries=None, draws=50)
    walked, rows = work_of_check(model, canaries, start, options, 50)
    _, start = started(model, canaries.formats, options, canaries=canaries, draws=50)
    starts = 1 + len(start.compared)
    tokens = len("\n12 00000")
    assert starts > 1
    assert 4 * starts * (tokens - 1) <= rows <= walked  # some of what is walked, as whole rows too
    assert walked + rows < starts * (4 + 50) * tokens  # and less than all of them


def test_the_first_batches_of_an_extraction_are_timed_and_the_rest_has_the_pace_of_ranks(
    model, canaries, monkeypatch
):
    (question,) = questions_of(model, canaries, OPTIONS)
    cost = METHODS["rank"].cost(question)
    clock = iter([(float(n), float(n)) for n in range(99)])  # a second for each batch
    monkeypatch.setattr(pacing, "clocks", lambda: next(clock))
    spent, step = [], pacing.ShortestWalk.step

    def counted(self, left):
        done = step(self, left)
        spent.append(self.queries)
        return done

    monkeypatch.setattr(pacing.ShortestWalk, "step", counted)
    for each, more in ((1e-3, 1.0), (100.0, 0.0)):  # seconds of a query in the search for ranks
        pace = pacing.Pace(queries=1, seconds=each, processor=each)
        monkeypatch.setattr(pacing.Probes, "pace", lambda *_, pace=pace: pace)
        spent.clear()
        said = pacing.Probes(question, 3.0).extraction(cost, top=50, budget=5_000)
        assert len(spent) == 6  # twice the seconds of a probe
        last, half = spent[-1], max(n for n in spent if 2 * n <= spent[-1])
        took = 6 - (1 + spent.index(half)) - each * (last - half)
        doublings = np.log2(5_000 / last) / np.log2(last / half)
        wanted = 6 + each * (5_000 - last) + more * doublings * took
        assert said.queries == 5_000
        assert (said.seconds, said.processor) == pytest.approx((wanted, wanted))
    spent.clear()
    said = pacing.Probes(question, 30.0).extraction(cost, top=50, budget=20)
    *_, last, none = spent  # what is left is too little for another batch
    assert last == none <= 20
    assert said == pacing.Pace(20, *[len(spent) - 1 + 100.0 * (20 - last)] * 2)


def test_comparing_parts_of_secrets_counts(model, canaries):
    (question,) = questions_of(model, canaries, OPTIONS)
    fills = [c.fill for c in canaries.injected]
    rows = []

    class Counting:
        def __getattr__(self, name):
            return getattr(model, name)

        def score(self, batch, *args, **more):
            rows.append(len(batch.lengths))
            return model.score(batch, *args, **more)

    note_on_cut(replace(question, model=Counting()), fills)
    assert sum(rows) == rows_compared(question, fills) == 4 + 256
    probes = pacing.Probes(question, 0.01)
    assert probes.rows(200).seconds == pytest.approx(2 * probes.rows(100).seconds)
    assert probes.rows(100).seconds > 0


def test_a_set_of_chats_is_timed_below_its_template(model):
    chats = generate(FORMAT, repetitions=(1,), per_repetition=4, role="user", seed=0)
    for run in (audit, lambda *given: forecast(*given, probe_seconds=0.01)):
        with pytest.raises(UnsupportedError, match="chat template"):
            run(model, chats)


def test_what_cannot_be_had_says_why(model, canaries):
    small = forecast(model, canaries, replace(OPTIONS, budget=100), probe_seconds=0.01)
    (found,) = (found for found in small.methods if found.method == "enumeration")
    assert "the budget is 100" in found.reason
    assert "not possible" in small.summary()
    (bounds,) = (found for found in small.methods if found.method == "bounds")
    assert "cannot score a given text, and this one can" in bounds.reason


def test_levels_hold_all_queries_of_a_tree(model, canaries):
    (question,) = questions_of(model, canaries, OPTIONS)
    tree = question.certified_tree
    levels = nodes_by_level(tree)
    assert sum(levels) == tree.queries()
    assert levels[-4:] == [10, 100, 1_000, 10_000]


def test_pace_is_that_of_the_later_part(monkeypatch):
    """Steps that grow faster: the first ones do not count."""
    clock = iter([0.0, *(0.1 * n for n in range(1, 100))])
    monkeypatch.setattr(pacing, "clocks", lambda: (next(clock), 0.0))
    monkeypatch.setattr(pacing, "_BUSY", 1.0)
    pace = pacing._pace(iter([1] * 10 + [100] * 80), 5.0, 0.0)
    assert pace.queries / pace.seconds == pytest.approx(1_000)
    clock = iter([0.0, *(0.1 * n for n in range(1, 100))])
    assert pacing._pace(iter([1, 2, 3]), 5.0, 0.0).queries == 6  # it ended: all of it
    clock = iter([0.0, *(0.1 * n for n in range(1, 100))])
    assert pacing._pace(iter([1, 2, 3, 4]), 5.0, 0.07).queries == 3  # fast enough: no more is asked


def test_a_probe_of_few_batches_ends_when_two_parts_have_one_pace(monkeypatch):
    monkeypatch.setattr(pacing, "_BUSY", 1.0)
    for steps, done in (
        ([10, 10, 10, 10, 10], 3),  # seconds of batches: parts of a second or more agree at once
        ([1, 2, 4, 8, 8, 8], 5),  # or when batches no longer grow
        ([1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096], 12),  # or never, to the end
    ):
        clock = iter([(float(n), float(n)) for n in range(99)])
        monkeypatch.setattr(pacing, "clocks", lambda clock=clock: next(clock))
        walked = iter(steps)
        pace = pacing._pace(walked, 3.0, 0.0)
        assert pace.queries / pace.seconds <= steps[done - 1]
        assert len(list(walked)) == len(steps) - done


def test_many_canaries_are_not_all_priced(model):
    several = generate(FORMAT, repetitions=(1,), per_repetition=60, controls=4, seed=0)
    (question,) = questions_of(model, several, OPTIONS)
    probes = pacing.Probes(question, 0.01)
    said = probes.canaries
    first = pacing.Probes(replace(question, fills=question.fills[:16]), 0.01).canaries
    assert said.queries == 4 * first.queries
    assert said.seconds > 0


def test_formats_that_are_alike_are_timed_once_and_said_before(model, monkeypatch):
    made, (heard, progress) = [], listening()
    measure = pacing._pace

    def counted(*args):
        made.append(1)
        return measure(*args)

    monkeypatch.setattr(pacing, "_pace", counted)
    options = replace(OPTIONS, progress=progress)
    times = []
    for formats in (
        ["12 {digit:5}"],
        ["12 {digit:5}", "34 {digit:5}"],
        ["12 {digit:5}", "3 {digit:3}"],
    ):
        several = generate(formats, repetitions=(1,), per_repetition=4, controls=4, seed=0)
        made.clear()
        found = forecast(model, several, options, extraction_budget=300, probe_seconds=0.01)
        assert found.extraction.queries == 300 * len(formats)
        times.append(len(made))
    assert times[0] == times[1] < times[2] <= 2 * times[0]
    told = [float(line.split("about ")[1].split(" s of processor")[0]) for line in heard]
    assert told[0] == told[1] == told[2] / 2 > 0


def test_a_long_search_says_how_long_it_takes_after_its_first_batches(model, monkeypatch):
    (heard, progress), clock = listening(), iter(range(10_000))
    monkeypatch.setattr(time_expected, "perf_counter", lambda: float(next(clock)))
    asked = {"budget": 5_000, "top": 50, "start_token": None, "progress": progress}
    found = extract(model, FORMAT, **asked)
    (line,) = heard
    assert "usually takes far less than its limit of 5,000 queries, " in line
    seconds = 60 * float(line.split("these take ")[1].split(" min")[0])
    assert seconds > found.batches * 5_000 / found.queries / 2  # a second for each batch
    extract(model, FORMAT, **asked, seconds=60.0)  # which says it itself
    assert len(heard) == 1
    extract(model, "12 {digit:4}", **{**asked, "budget": 50_000})
    assert " its limit of 1,110 queries, " in heard[1]  # no more than there are


def test_the_check_of_a_named_start_token_says_how_long_it_takes(model, canaries, monkeypatch):
    (heard, progress), clock = listening(), iter(range(100_000))
    monkeypatch.setattr(time_expected, "perf_counter", lambda: float(next(clock)))
    asked = {"method": "sampling", "draws": 100, "batch_size": 1, "start_token": None}
    audit(model, canaries, **asked, progress=progress)
    assert [line for line in heard if line.startswith("Comparing the start token that was named")]


def test_what_an_audit_is_expected_to_take_has_the_comparison_of_parts(model, canaries):
    options = AuditOptions(method="sampling", draws=100, start_token=None)
    work = [(q, *choose(q)) for q in questions_of(model, canaries, options)]
    alone, whole = (pacing.expected(work, 0.01, cuts=cuts)[0] for cuts in (False, True))
    question = work[0][0]
    rows = rows_compared(question, [c.fill for c in question.canaries if not c.control])
    assert whole.queries - alone.queries >= rows


def test_seconds_make_the_budget_smaller_and_a_run_keeps_it(model, canaries, tmp_path, monkeypatch):
    slow = pacing.Pace(queries=50, seconds=1.0)  # five seconds are 250 queries
    monkeypatch.setattr(pacing.Probes, "pace", lambda self, kind, cost, soon=0.0: slow)
    asked = {"draws": 50, "start_token": None, "seconds": 5.0}
    found = audit(model, canaries, **asked, parts=tmp_path / "parts")
    assert "the budget is 250" in found.formats[0].reason
    assert found.settings["seconds"] == 5.0
    faster = pacing.Pace(queries=5_000, seconds=1.0)
    monkeypatch.setattr(pacing.Probes, "pace", lambda self, kind, cost, soon=0.0: faster)
    again = audit(model, canaries, **asked, parts=tmp_path / "parts")
    assert [c.exposure for c in again.canaries] == [c.exposure for c in found.canaries]
    assert "the budget is 250" in again.formats[0].reason
    with pytest.raises(InputError, match="above 0"):
        audit(model, canaries, seconds=0.0)


def test_long_audits_say_how_long_they_take(model, canaries, monkeypatch, capsys):
    heard, progress = listening()
    asked = {"draws": 50, "start_token": None, "budget": 500}
    audit(model, canaries, **asked, progress=progress)
    assert heard == []
    slow = pacing.Pace(queries=1, seconds=1.0, processor=1.0)
    monkeypatch.setattr(pacing.Probes, "pace", lambda self, kind, cost, soon=0.0: slow)
    audit(model, canaries, **asked, progress=progress)
    assert len(heard) == 1
    assert "at most" in heard[0]
    assert " min here" in heard[0]
    with Bars(shown=True) as bars:
        assert remark(bars.stage, "a line")
    assert capsys.readouterr().err == "a line\n"
    assert not remark(None)

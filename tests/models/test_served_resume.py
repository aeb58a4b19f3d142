"""Nothing is asked of a server twice, whatever ended the run, and no more than is allowed."""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
import threading
from contextlib import ExitStack

import numpy as np
import pytest
from fake_server import FakeServer, Status
from served_things import FORMAT, load_served, some_canaries
from small_models import build

import canary
from canary.audits.auditing import exposure_with
from canary.audits.extracting import with_extractions
from canary.audits.question import AuditOptions
from canary.cli.extract_command import proof_sentence
from canary.errors import InputError, OutputError, RecordError, ServerError
from canary.models.language_model import Rows
from canary.models.served.endpoint import Endpoint
from canary.models.served.throttle import Throttle, in_parallel

ROWS = Rows.of([[1, 2, a, b] for a in range(15) for b in range(10)])


@pytest.mark.parametrize("ending", ["failure", "interrupt"])
def test_a_run_that_broke_off_goes_on_where_it_was(tmp_path, monkeypatch, ending):
    with FakeServer(build("table")) as server:
        load_served(server, tmp_path)
        handshake = server.count()
        said = []
        model = load_served(server, tmp_path, attempts=1, say=said.append)
        if ending == "failure":
            honest, after = server.complete, server.count() + 100
            server.complete = lambda body: (
                Status(500) if server.count() >= after and not _is_probe(body) else honest(body)
            )
        if ending == "interrupt":
            _interrupt_after(monkeypatch, 100)
        with pytest.raises(KeyboardInterrupt if ending == "interrupt" else ServerError) as caught:
            model.score(ROWS)
        kept = len(model._answers)
        where = said[-1] if ending == "interrupt" else str(caught.value)
        assert f"{kept} answers are kept and not asked for again" in where
        assert ending == "failure" or "run the same command again" in where
        del model, caught
        for thread in threading.enumerate():
            if thread.name.endswith("(worker)"):  # what is in hand goes to the server late
                thread.join(60)
        server.complete = FakeServer.complete.__get__(server)
        monkeypatch.undo()
        before = server.count()
        again = load_served(server, tmp_path)
        np.testing.assert_allclose(again.score(ROWS), build("table").score(ROWS), atol=1e-6)
        asked = server.count() - before - handshake
        assert asked <= 150 - 99 + 2


def _is_probe(body):
    return len(body["prompt"]) > 4


def _interrupt_after(monkeypatch, count):
    left = [count]

    def interrupted(work, items, *, at_once):
        for outcome in in_parallel(work, items, at_once=at_once):
            if left[0] == 0:
                raise KeyboardInterrupt
            left[0] -= 1
            yield outcome

    monkeypatch.setattr("canary.models.served.served_model.in_parallel", interrupted)


def test_no_more_requests_than_allowed_are_sent(tmp_path):
    with FakeServer(build("table")) as server:
        load_served(server, tmp_path / "a")
        handshake = server.count()
        model = load_served(server, tmp_path / "b", max_requests=handshake + 11)
        before = server.count()
        with pytest.raises(ServerError, match=r"that are allowed.*--max-requests"):
            model.score(ROWS)
        # One more goes to the list of models, which is counted, too.
        assert server.count() - before == 10
        assert len(model._answers) == 9


def test_a_run_that_needs_more_than_is_allowed_is_not_begun(tmp_path):
    said = []
    with FakeServer(build("table")) as server:
        model = load_served(server, tmp_path, max_requests=60, say=said.append)
        before = server.count()
        with pytest.raises(
            InputError, match=r"about 3\d\d requests are needed in this run, and 60 allowed"
        ):
            canary.exposure(model, some_canaries(), start_token=None)
        assert server.count() == before
        assert "about 317 to come" in said[0]  # the check of the start token comes first
        with pytest.raises(InputError, match="requests are needed"):
            canary.score(model, [f"abc {k}" for k in range(100)])
        canary.extract(model, "abc {digit:1}", budget=100, start_token=None)
        assert "search at most 37" in said[-1]  # of a budget of 100
        before, first = server.count(), re.compile(r"give --total-requests (\d+)")
        model = load_served(server, tmp_path, total_requests=before + 60)
        with pytest.raises(InputError, match=r"and 5\d allowed") as raised:
            canary.exposure(model, some_canaries(), start_token=None)
        enough = int(first.search(str(raised.value))[1])
        assert enough > before + 60, "what was sent before is counted"
        model = load_served(server, tmp_path, total_requests=enough)
        canary.exposure(model, some_canaries(), start_token=None)


@pytest.mark.parametrize("top", [None, 20])
def test_an_extraction_that_no_request_is_left_for_keeps_what_it_found(tmp_path, top):
    with FakeServer(build("table")) as server:
        whole = canary.extract(
            load_served(server, tmp_path / "a", top_k=top), FORMAT, top=2, start_token=None
        )
        assert whole.proven
        here = canary.extract(build("table"), FORMAT, top=2, start_token=None)
        # Where the server does not tell what the fixed text costs, the result says so.
        before = sum("after the fixed text" in note for note in whole.notes)
        assert before == ("after the fixed text" in proof_sentence(whole)) == (top is not None)
        context = here.context_bits if top else 0.0
        assert whole.candidates[0].px_bits + context == pytest.approx(
            here.candidates[0].px_bits, abs=1e-4
        )
        assert [c.fill for c in whole.candidates] == [c.fill for c in here.candidates]
        load_served(server, tmp_path / "b", top_k=top)
        before = server.count()
        load_served(server, tmp_path / "b", top_k=top)
        handshake = server.count() - before + 1  # and the list of models
        stages = []
        for more in range(4, whole.queries + 120, 60):
            model = load_served(
                server, tmp_path / "b", top_k=top, max_requests=handshake + more, in_flight=1
            )
            found = canary.extract(model, FORMAT, top=2, batch_size=1, start_token=None)
            stages.append((found.stopped, len(found.candidates), found.proven))
            if found.stopped != "requests":
                break
            assert found.settings["requests_in_this_run"] == handshake + more
            assert not found.proven
            assert found.rest_bits is not None
            # What is said to be proven so far is true.
            for candidate, true in zip(found.candidates, whole.candidates, strict=False):
                assert not candidate.proven or candidate.fill == true.fill
            # A rest that is promised is kept.
            told = {c.fill for c in found.candidates}
            assert all(
                c.px_bits >= found.rest_bits - 1e-6 for c in whole.candidates if c.fill not in told
            )
        assert {stopped for stopped, _, _ in stages[:-1]} == {"requests"}
        assert found.stopped == "proof"
        assert [c.fill for c in found.candidates] == [c.fill for c in whole.candidates]


def test_exposures_that_no_request_is_left_for_are_bounds_that_hold(tmp_path):
    canaries, shown = some_canaries("abc {digit:3}"), AuditOptions(start_token=None, batch_size=1)
    truth = {c.id: c.exposure for c in canary.exposure(build("table"), canaries)}
    with FakeServer(build("table")) as server:
        load_served(server, tmp_path, top_k=45)
        before = server.count()
        load_served(server, tmp_path, top_k=45)
        handshake = server.count() - before + 1  # and the list of models
        told = []
        for more in (1, 30, 60, 120, 400):
            model = load_served(
                server, tmp_path, top_k=45, max_requests=handshake + more, in_flight=1
            )
            results = exposure_with(model, canaries, shown)
            for found in results:
                interval = found.exposure
                assert interval.lower_bits <= truth[found.id].bits + 1e-9
                assert truth[found.id].bits <= interval.upper_bits + 1e-9
            exact = sum(c.exposure.rank is not None for c in results)
            told.append((exact, " ".join(results.notes)))
        assert told[0][0] == 0
        assert "0 of 6 canaries of abc ••• are ranked exactly. Nothing was measured" in told[0][1]
        assert "Nothing was measured" not in told[-2][1]
        assert "the same command continues it" in told[0][1]
        assert told[-1][0] == 6
        assert "ranked exactly" not in told[-1][1]
        assert any(0 < exact < 6 for exact, _ in told), f"a run ends in between: {told}"
        assert [exact for exact, _ in told] == sorted(exact for exact, _ in told)


def test_searches_of_several_formats_share_the_requests_that_are_left(tmp_path):
    canaries = canary.generate(
        ["abc {digit:3}", "dbc {digit:3}"], repetitions=[1], per_repetition=4, controls=2, seed=3
    )
    said, stages = [], []

    def progress(name, total, unit):
        stages.append((name, total, unit))
        return lambda done: None

    with FakeServer(build("table")) as server:
        model = load_served(server, tmp_path, max_requests=400, say=said.append)
        options = {"draws": 20, "start_token": None, "progress": progress}
        audit = canary.audit(model, canaries, budget=30, **options)
        before = model.client.sent
        audit = with_extractions(audit, model, canaries, budget=300, progress=progress)
    assert "check of the start token 147, draws 53, search at most 177" in said[0]
    assert before <= 23 + 147 + 53
    assert [found.stopped for found in audit.extractions] == ["requests", "requests"]
    assert all(found.queries > 50 for found in audit.extractions)
    assert model.client.sent <= 400
    assert {unit for _, _, unit in stages} == {"requests"}


@pytest.mark.parametrize("in_flight", [1, 3])
def test_no_more_than_so_many_are_in_flight(tmp_path, in_flight):
    together = threading.Barrier(in_flight)

    def meet(server, number, answer):
        if getattr(server, "running", False):
            together.wait(timeout=20)  # or a broken barrier ends the test
        return answer

    with FakeServer(build("table"), fault=meet) as server:
        model = load_served(server, tmp_path, in_flight=in_flight)
        server.running = True
        ids = [[1, 2, k] for k in range(4 * in_flight)]
        # Not through `score`: the probe at its end is alone.
        for _, outcome in in_parallel(
            lambda row: model.client.post("/completions", model._manner.request(row)),
            ids,
            at_once=in_flight,
        ):
            outcome.result()
        assert server.most_at_once == in_flight


def test_answers_are_for_their_owner_only_and_hold_no_text(tmp_path):
    folder = tmp_path / "answers"
    with FakeServer(build("table"), ids=False) as server:
        load_served(server, folder).score(Rows.of([range(1, 12), range(2, 14)]))
        texts = [body["prompt"].encode() for body in server.bodies if type(body["prompt"]) is str]
    assert b"123456789ab" in texts
    ledger = folder / "requests.jsonl"
    (own,) = {*folder.iterdir()} - {ledger}
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    files = [*own.iterdir(), ledger]
    assert len(files) >= 4
    for path in files:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert not any(text in path.read_bytes() for text in texts)


def test_all_requests_of_a_folder_are_counted_and_bounded(tmp_path):
    def searched(**options):
        model = load_served(server, tmp_path, top_k=20, **options)
        return canary.extract(model, FORMAT, top=2, start_token=None).settings

    with FakeServer(build("table")) as server:
        cold, paid = searched(), server.count() + 1  # and the list of models
        assert cold["requests_in_this_run"] == cold["requests_in_all_runs"] == paid
        assert "requests_without_earlier_answers" not in cold
        warm = searched()
        assert warm["requests_in_this_run"] < paid
        for what in ("requests", "prompt_tokens"):
            assert warm[f"{what}_without_earlier_answers"] == pytest.approx(
                cold[f"{what}_in_this_run"], rel=0.02
            )
        with pytest.raises(ServerError, match="allowed in this run"):
            searched(max_requests=3)
        here = Endpoint(server.url, answers=tmp_path)
        total = server.count() + 3
        assert here.ledger.total == total, "a refused run is counted"
        assert Endpoint(server.url, answers=tmp_path / "other").ledger.total == 0
        with pytest.raises(ServerError, match="--total-requests"):
            searched(total_requests=total + 5)
        assert here.ledger.total == total + 4 == server.count() + 4  # one is kept back
        with pytest.raises(
            ServerError, match=rf"/v1: .*{total + 4} requests in all runs, and 2 are"
        ):
            searched(total_requests=2)
        (tmp_path / "requests.jsonl").write_text("{}\n")
        with pytest.raises(RecordError, match="line 1"):
            searched()


def test_names_of_this_machine_are_one_server(tmp_path):
    names = ("localhost:8", "127.0.0.1:8", "[::1]:8", "LOCALHOST:8")
    ledgers = [Endpoint(f"http://{name}/v1", answers=tmp_path).ledger for name in names]
    for ledger in ledgers:
        ledger.begin()
        ledger.add(1)
        ledger.flush()
    record = tmp_path / "requests.jsonl"
    earlier = json.dumps({"server": "http://localhost:8/v1", "requests": 5})
    record.write_text(f"{record.read_text()}{earlier}\n")
    assert {ledger.total for ledger in ledgers} == {9}
    for other in ("localhost:9", "localhost.example:8", "127.0.0.2:8"):
        assert Endpoint(f"http://{other}/v1", answers=tmp_path).ledger.total == 0


def test_the_budget_of_a_search_holds_within_one_of_requests(tmp_path):
    with FakeServer(build("table")) as server:
        model = load_served(server, tmp_path, top_k=20, budget=300)
        few = canary.extract(model, "abc {digit:4}", budget=6, start_token=None)
        assert few.queries <= 6
        assert few.stopped == "budget"
        whole = canary.extract(model, "abc {digit:4}", budget=300, start_token=None)
        assert whole.queries > 6


@pytest.mark.parametrize("damaged", ["a folder", "bytes"])
def test_a_limit_on_all_requests_fails_closed(tmp_path, damaged):
    ledger = tmp_path / "requests.jsonl"
    ledger.mkdir() if damaged == "a folder" else ledger.write_bytes(b"\xff\xfe\n")
    with FakeServer(build("table")) as server:
        with pytest.raises(RecordError, match="unknown how many requests"):
            load_served(server, tmp_path, total_requests=1000)
        assert server.count() == 0


def test_a_request_under_a_limit_is_counted_before_it_is_sent(tmp_path):
    ended = []
    with FakeServer(build("table")) as server:
        limited = Endpoint(server.url, answers=tmp_path, total_requests=9)
        for endpoint in (limited, Endpoint(server.url, answers=tmp_path / "free")):
            endpoint.ledger.begin()
            endpoint.ledger.add(1)  # and the process is killed
            ended.append((endpoint.answers / "requests.jsonl").exists())
    assert ended == [True, False]


def test_a_count_that_cannot_be_written_ends_the_run(tmp_path):
    endpoint = Endpoint("http://127.0.0.1:1/v1", answers=tmp_path, total_requests=9)
    endpoint.ledger.begin()
    (tmp_path / "requests.jsonl").mkdir()
    with pytest.raises(OutputError, match="would go uncounted"):
        endpoint.ledger.add(1)


def lock(folder):
    """As another process does: a lock belongs to the handle that it was taken with."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(handle)


def test_two_models_at_once_share_their_answers_and_two_processes_do_not(tmp_path):
    with FakeServer(build("table")) as server:
        one, two = load_served(server, tmp_path), load_served(server, tmp_path)
        one.score(ROWS)
        before = server.count()
        two.score(ROWS)
        assert server.count() == before
        own = next(path for path in tmp_path.iterdir() if path.is_dir())
        with pytest.raises(BlockingIOError):
            lock(own)
        del one, two
        lock(own)
        later = load_served(server, tmp_path)
        before = server.count()
        later.score(ROWS)
        assert server.count() == before


def test_a_throttled_run_goes_back_to_as_many_requests_as_before():
    throttle = Throttle(4, None)

    def at_once():
        """How many slots can be held together."""
        with ExitStack() as held:
            while throttle._active < throttle._most:
                held.enter_context(throttle.slot())
            return throttle._active

    with throttle.slot() as begun:
        throttle.slower(begun)
        throttle.slower(begun)  # of requests that were sent together only one counts
    assert (at_once(), throttle.retries) == (2, 2)
    for _ in range(60):
        with throttle.slot():
            pass
    assert at_once() == 4

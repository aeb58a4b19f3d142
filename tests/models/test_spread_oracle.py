"""A model that workers keep gives what the same model gives in this process.

By a stand-in for Ray whose workers are in this process, and die when they are told to.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from small_models import build, conforms
from stand_in_ray import ray_of

from canary.audits.auditing import exposure
from canary.corpus.canaries import generate
from canary.errors import ModelError, ServerError
from canary.formats.format import Format
from canary.models.language_model import Children, Context, Rows
from canary.models.noise import nodes_of
from canary.models.remote_model import spread_over
from canary.models.remote_worker import KeptModel
from canary.scoring.batcher import Batcher
from canary.search.enumerate import enumerate_leaves
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.tree import compile_tree
from canary.workers.cluster import Call, KeepingWorkers, RayWorkers

CODE = "T: {digit:3}."


def keep_named(name):
    return KeptModel(build(name))


@pytest.fixture
def spread(monkeypatch):
    """Models by name, kept by workers of a stand-in."""

    def of(name, workers=2, retries=3, make=keep_named, **ray):
        module = ray_of(cpus=float(workers), **ray)
        monkeypatch.setitem(sys.modules, "ray", module)
        kept = KeepingWorkers(RayWorkers(retries=retries), make, {"name": name})
        model = spread_over(kept, build(name).tokenizer)
        model.ray = module
        return model

    return of


@pytest.mark.parametrize("name", ["table", "mistral"])
def test_conformance(name, spread):
    conforms(spread(name))


def rows(count=150, seed=0):
    rng = np.random.default_rng(seed)
    return Rows.of([rng.integers(0, 45, rng.integers(2, 30)).tolist() for _ in range(count)])


@pytest.mark.parametrize("every", [0, 3])
def test_rows_are_scored_to_the_last_bit_whoever_dies(every, spread):
    """Each batch is computed as it would be here."""
    given = rows()
    for name in ("lstm", "gpt2"):
        model = spread(name, workers=3, every=every)
        here, there = Batcher(build(name), batch_size=8), Batcher(model, batch_size=8)
        assert (there.score(given) == here.score(given)).all()
        wanted, found = here.moments(given), there.moments(given)
        assert (found.deviations == wanted.deviations).all()
        assert any(actor.restarts for actor in model.ray.actors) == bool(every)


@pytest.mark.parametrize(("method", "every"), [("rank", 5), ("enumeration", 0), ("importance", 5)])
def test_walks_count_the_same_whoever_dies(method, every, spread):
    """On a table, whose arithmetic has no noise, to the last bit."""
    canaries = generate(CODE, repetitions=[1], per_repetition=4, controls=2, seed=1)
    told = {"method": method, "draws": 100, "seed": 0, "batch_size": 32}
    queries = []

    def stage(_name, _queries, _unit):
        return queries.append

    here = exposure(build("table"), canaries, progress=stage, **told)
    spent, queries[:] = sum(queries), []
    model = spread("table", every=every)
    there = exposure(model, canaries, progress=stage, **told)
    assert [one.to_dict() for one in there] == [one.to_dict() for one in here]
    assert sum(queries) == spent
    assert any(actor.restarts for actor in model.ray.actors) == bool(every)


def test_a_walk_that_was_interrupted_goes_on(spread):
    """What was being done holds no states for ever; those that may be gone are computed again."""
    model = spread("lstm")
    paths = np.arange(40, dtype=np.int32)[:, None]
    tokens = Children(np.arange(4, dtype=np.int32))
    with model.open(Context(np.arange(3)), memory_bytes=2**22) as walker:
        room = walker.room
        held = walker.expand(nodes_of(paths.tolist()), tokens)
        twice = np.repeat(paths, 2, axis=1).tolist()
        below = nodes_of(twice, handles=held.handles)
        wanted = walker.expand(below, tokens, keep=False)
        ask = model._workers.ask

        def stopped(calls):
            ask(calls)
            raise KeyboardInterrupt

        model._workers.ask = stopped
        with pytest.raises(KeyboardInterrupt):
            walker.expand(below, tokens)
        model._workers.ask = ask
        found = walker.expand(below, tokens, keep=False)
        np.testing.assert_allclose(found.log_probs, wanted.log_probs, atol=1e-5)
        assert found.queries == wanted.queries == 40
        walker.release(held.handles)
        assert walker.room == room


# Which worker computes what.


COMPUTED: dict[int, int] = {}


class Counting(KeptModel):
    """Counts what it computes itself."""

    def expand(self, **given):
        found = super().expand(**given)
        COMPUTED[id(self)] = COMPUTED.get(id(self), 0) + found["queries"]
        return found


def keep_counting(name):
    return Counting(build(name))


@pytest.mark.parametrize(
    ("text", "workers", "more"), [(CODE, 4, 1.25), ("T: {re:(a|b){10}}", 2, 1.25)]
)
def test_all_workers_have_a_share_and_little_is_computed_twice(text, workers, more, spread):
    COMPUTED.clear()
    model = spread("table", workers=workers, make=keep_counting)
    tree = compile_tree(Format(text), CandidateEncoder(model.tokenizer))
    batcher, queries = Batcher(model, batch_size=64), 0
    with model.open(Context(tree.context), memory_bytes=2**26) as walker:
        for _leaves, spent in enumerate_leaves(tree, walker, batcher):
            queries += spent
    assert queries == tree.queries()
    assert queries <= sum(COMPUTED.values()) <= more * queries
    assert max(COMPUTED.values()) <= 1.5 * sum(COMPUTED.values()) / workers


# What workers cannot do.


def keep_other(name, made=[]):  # noqa: B006 - counts the workers
    made.append(name)
    model = build("lstm")
    if len(made) % 2:
        return KeptModel(model)

    class Other:
        facts = replace(model.facts, fingerprint="another")
        memory = model.memory

    return KeptModel(Other())


def fail(name):
    raise ModelError("is damaged", cure="save it again", where=name)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"make": keep_other}, ServerError, "do not have the same model: fingerprint"),
        ({"make": fail}, ModelError, "lstm: is damaged; save it again"),
        (
            {"retries": 2, "deaths": 6},
            ServerError,
            "3 workers died at it, the last by DiedError; look for",
        ),
    ],
)
def test_workers_that_cannot_keep_the_model(options, error, message, spread):
    with pytest.raises(error, match=message):
        spread("lstm", **options)


def test_workers_with_other_software_are_refused(spread, monkeypatch):
    monkeypatch.setattr("canary.models.remote_worker.versions", lambda: {"python": "2.7"})
    with pytest.raises(ServerError, match="a worker has .*; install the same versions"):
        spread("lstm")


def test_a_worker_that_can_start_nowhere_is_not_waited_for(spread):
    """Its machine was lost, and the cluster learns of it later."""
    model = spread("lstm")
    waits = []

    def wait(tickets, num_returns, timeout):
        waits.append(timeout)
        if len(waits) == 2:
            model.ray.nodes = lambda: [{"Alive": True, "Resources": {"CPU": 1.0}}]
        return [], tickets

    model.ray.wait = wait
    with pytest.raises(ServerError, match="a worker died, and the machines that are left"):
        model.memory()
    assert len(waits) == 2


def test_calls_go_where_they_are_sent(spread):
    kept = spread("table", workers=3)._workers
    assert kept.ask([]) == []
    found = kept.ask([Call("about", to=2), Call("memory"), Call("about", to=0)])
    assert found[0] == found[2]
    assert len(kept.ask([Call("memory")] * 20)) == 20
    assert sys.modules["ray"].most == 2  # never more wait or run at one
    kept.close()
    assert kept.count == 0

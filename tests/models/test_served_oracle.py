"""A served model gives the numbers of the same model in process, or bounds that are true."""

from __future__ import annotations

import math

import numpy as np
import pytest
from fake_server import FakeServer
from served_things import FORMAT, load_served, some_canaries
from small_models import build, conforms

import canary
from canary.audits.by_bounds import Bounds
from canary.audits.method import Unfit
from canary.errors import UnsupportedError
from canary.models.conformance import memory_is_bounded
from canary.models.language_model import Children, Context, Rows
from canary.models.noise import nodes_of
from canary.models.served.wire import read_choice, read_json


@pytest.mark.parametrize(
    ("name", "ways"),
    [("gpt2", {}), ("table", {"numbered": False}), ("table", {"ids": False})],
)
def test_exposures_are_those_in_process(tmp_path, name, ways):
    model, canaries = build(name), some_canaries("abc {re:(1|2|3){3}}")
    inside = canary.exposure(model, canaries, seed=1)
    with FakeServer(model, **ways) as server:
        outside = canary.exposure(load_served(server, tmp_path), canaries, seed=1)
    for here, there in zip(inside, outside, strict=True):
        assert there.exposure.bits == here.exposure.bits
        assert there.px_bits == pytest.approx(here.px_bits, abs=1e-4)
        assert there.context_bits == pytest.approx(here.context_bits, abs=1e-4)


def test_conformance_but_for_memory_since_nothing_is_held(tmp_path):
    with FakeServer(build("table")) as server:
        conforms(load_served(server, tmp_path), but={memory_is_bounded})
        assert all(body["return_tokens_as_token_ids"] for body in server.bodies)


def hushed(server, number, answer):
    """Nothing of the prompt, whatever was asked."""
    lists = answer["choices"][0]["logprobs"]
    answer["choices"][0]["logprobs"] = {name: values[-1:] for name, values in lists.items()}
    return answer


@pytest.mark.parametrize("ways", [{}, {"numbered": False}, {"ids": False}])
@pytest.mark.parametrize("top", [1, 12, 45])
def test_next_tokens_are_exact_or_bounded_oracle(tmp_path, top, ways):
    model = build("table")
    context = Context(np.arange(5, dtype=np.int32))
    everything = Children(np.arange(45, dtype=np.int32))
    nodes = nodes_of([[], [3], [3, 4]], priced=0)
    with FakeServer(model, **ways) as server:
        served = load_served(server, tmp_path, top_k=top)
        with served.open(context, memory_bytes=1) as walker:
            found = walker.expand(nodes, everything)
    with model.open(context, memory_bytes=2**20) as walker:
        right = walker.expand(nodes, everything)
    assert found.queries == 3
    told = np.exp(right.log_probs) >= np.sort(np.exp(right.log_probs), axis=1)[:, [-top]]
    sure = found.path_log_probs - right.path_log_probs < 1e-5
    assert (found.exact == (told & sure[:, None])).all()
    np.testing.assert_allclose(found.log_probs[told], right.log_probs[told], atol=1e-5)
    assert (found.log_probs >= right.log_probs - 1e-5).all()
    assert (found.path_log_probs >= right.path_log_probs - 1e-5).all()


@pytest.mark.parametrize("top", [1, 12, 45])
def test_texts_cost_at_least_what_the_likeliest_next_tokens_leave_oracle(tmp_path, top):
    model, rows = build("table"), Rows.of([[0, 3, 4, 5], [2, 7]], [1, 1])
    with FakeServer(model, fault=hushed) as server:
        found = load_served(server, tmp_path, top_k=top).score_at_most(rows)
    right = model.score(rows)
    assert found.shape == right.shape
    assert (found >= right - 1e-5).all()
    assert top < 45 or found == pytest.approx(right, abs=1e-5)


def bounded(folder, fault, top):
    """Exposures in process and by a server; the first lie between the bounds of the second."""
    model, canaries = build("table"), some_canaries()
    inside = canary.exposure(model, canaries)
    with FakeServer(model, fault=fault) as server:
        outside = canary.exposure(load_served(server, folder, top_k=top), canaries)
    for here, there in zip(inside, outside, strict=True):
        assert there.exposure.lower_bits <= here.exposure.bits + 1e-9
        assert here.exposure.bits <= there.exposure.upper_bits + 1e-9
    return inside, outside


@pytest.mark.parametrize("top", [2, 10, 45])
def test_exposures_lie_between_their_bounds_oracle(tmp_path, top):
    inside, outside = bounded(tmp_path, hushed, top)
    for here, there in zip(inside, outside, strict=True):
        assert there.px_bits <= here.px_bits - here.context_bits + 1e-3
        if top == 45:
            assert there.exposure.bits == here.exposure.bits
    widths = [c.exposure.upper_bits - c.exposure.lower_bits for c in outside]
    assert top == 2 or min(widths) < math.log2(100) - 1
    assert all(0 < c.exposure.p_value <= 1 for c in outside)


@pytest.mark.parametrize("top", [2, 10, 45])
def test_what_is_proven_is_true_oracle(tmp_path, top):
    """Candidates that are proven are the likeliest, and nothing else costs less than is said."""
    model = build("table")
    right = canary.extract(model, FORMAT, top=100)
    context = right.context_bits
    costs = {c.fill: c.px_bits - context for c in right.candidates}
    with FakeServer(model, fault=hushed) as server:
        found = canary.extract(load_served(server, tmp_path, top_k=top), FORMAT, top=3)
    proven = [c.fill for c in found.candidates if c.proven]
    assert proven == [c.fill for c in right.candidates[: len(proven)]]
    for candidate in found.candidates:
        assert candidate.px_bits == pytest.approx(costs[candidate.fill], abs=1e-4)
        exposure = math.log2(100) - math.log2(
            sum(cost <= costs[candidate.fill] for cost in costs.values())
        )
        assert candidate.exposure_lower_bits - 1e-6 <= exposure
        assert exposure <= candidate.exposure_upper_bits + 1e-6
    others = [
        cost for fill, cost in costs.items() if fill not in {c.fill for c in found.candidates}
    ]
    assert found.rest_bits <= min(others) + 1e-4
    assert len(proven) == 3 or top < 45


def test_what_cannot_be_had_is_refused(tmp_path, monkeypatch):
    with FakeServer(build("table"), fault=hushed) as server:
        served = load_served(server, tmp_path, top_k=5)
        with pytest.raises(UnsupportedError, match="canary exposure and canary extract"):
            canary.audit(served, some_canaries())
        with pytest.raises(UnsupportedError, match="5 most likely next tokens"):
            canary.score(served, ["abc"])
        with pytest.raises(UnsupportedError, match='use method="rank"'):
            canary.exposure(served, some_canaries(), method="sampling")
        treeless = Unfit("none", UnsupportedError("there is no token tree", cure="guess another"))
        monkeypatch.setattr(Bounds, "cost", lambda *_: treeless)
        with pytest.raises(UnsupportedError, match="no token tree"):  # so rank is not advised
            canary.exposure(served, some_canaries(), method="sampling")


def test_the_sampled_token_beside_the_likeliest_bounds_nothing(tmp_path):
    """A server that samples under a penalty tells an unlikely token beside the likeliest."""

    def sampled_beyond(server, number, answer):
        body, choice = server.bodies[number - 1], answer["choices"][0]
        full = server.read(server.tokens(body))[1]
        token = int(np.argsort(-full, kind="stable")[min(body["logprobs"] + 6, len(full) - 1)])
        name, value = server.shown(body)(token), float(full[token])
        told = {**choice["logprobs"]["top_logprobs"][-1], name: value}
        lists = {"tokens": [name], "token_logprobs": [value], "top_logprobs": [told]}
        return {**answer, "choices": [{**choice, "logprobs": lists}]}

    bounded(tmp_path, sampled_beyond, 10)


def test_tokens_of_one_text_stand_for_the_likeliest_golden() -> None:
    shared = '{"\\ufffd": -0.5, "A": -1.25, "\\ufffd": -3.0, "said": "\\u002B", "n": [{"a": 1}]}'
    assert read_json(shared, lambda text: text.replace("+", "plus")) == {
        "\ufffd": -0.5,
        "A": -1.25,
        "said": "plus",
        "n": [{"a": 1}],
    }
    place = [{"token": "\ufffd", "logprob": -0.5}, {"token": "\ufffd", "logprob": -3.0}]
    item = {"token": "A", "logprob": -1.25, "top_logprobs": place}
    answer = {"choices": [{"logprobs": {"content": [item]}}]}
    assert read_choice(answer, where="here").top == ({"\ufffd": -0.5},)

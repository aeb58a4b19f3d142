"""Served models that are set up wrongly are named in the handshake, and give no quiet numbers."""

from __future__ import annotations

import copy
import json
import math

import numpy as np
import pytest
from fake_server import FakeServer, Status
from served_things import load_served
from small_models import build, character_tokenizer
from tokenizers import Tokenizer

import canary
from canary.errors import ServerError
from canary.models.served.endpoint import Endpoint
from canary.tokens.fast import FastTokenizer


def another_tokenizer():
    """The same characters under other numbers."""
    spec = json.loads(character_tokenizer().to_str())
    names = list(spec["model"]["vocab"])
    numbers = np.random.default_rng(0).permutation(list(spec["model"]["vocab"].values()))
    spec["model"]["vocab"] = dict(zip(names, numbers.tolist(), strict=True))
    return FastTokenizer(Tokenizer.from_str(json.dumps(spec)))


@pytest.mark.parametrize("top_k", [None, 20])
@pytest.mark.parametrize("numbered", [True, False])
@pytest.mark.parametrize("name", ["table", "gpt2"])
def test_another_tokenizer_than_the_servers(tmp_path, top_k, numbered, name):
    """Where only numbers are sent and given, every candidate would be another text."""
    with FakeServer(build(name), numbered=numbered) as server:
        endpoint = Endpoint(server.url, answers=tmp_path, top_k=top_k)
        with pytest.raises(ServerError, match="other tokens of a (text|prompt).*--tokenizer"):
            canary.load(endpoint, tokenizer=another_tokenizer())


@pytest.mark.parametrize("top_k", [None, 20])
def test_a_server_that_takes_no_texts_is_believed(tmp_path, top_k):
    def fault(server, number, answer):
        asked = server.bodies[number - 1]["prompt"]
        return Status(400, "ids, please") if isinstance(asked, str) else answer

    with FakeServer(build("table"), fault=fault) as server:
        assert load_served(server, tmp_path, top_k=top_k).facts.name == "tiny"


@pytest.mark.parametrize("top_k", [None, 20])
def test_a_start_token_that_the_server_puts_before_texts_only_is_not_another_tokenizer(
    tmp_path, top_k
):
    """As vLLM does; ours does not, or does."""
    with FakeServer(build("gpt2")) as server:
        plain = server.model.tokenizer.encode

        class Starting:
            size, decode = server.model.tokenizer.size, server.model.tokenizer.decode

            def encode(self, texts):
                return [type(e)((0, *e.ids), None) for e in plain(texts)]

        class Wrapped:
            tokenizer = Starting()
            facts, score, open = server.model.facts, server.model.score, server.model.open

        server.model = Wrapped()
        if top_k is None:
            assert load_served(server, tmp_path).facts.name == "tiny"
        else:  # nothing is echoed, so that a start token cannot be told from other tokens
            with pytest.raises(ServerError, match="other tokens of a text"):
                load_served(server, tmp_path, top_k=top_k)


@pytest.mark.parametrize("others", ["low", "impossible", "absent"])
@pytest.mark.parametrize("top_k", [None, 20])
def test_choices_at_temperature_0_are_no_probabilities(tmp_path, top_k, others):
    rest = {"low": -9999.0, "impossible": -math.inf, "absent": None}[others]

    def fault(server, number, answer):
        answer = copy.deepcopy(answer)
        lists = answer["choices"][0]["logprobs"]
        top = lists["top_logprobs"][-1]
        best = max(top, key=top.get)
        told = {name: 0.0 if name == best else rest for name in top}
        lists["top_logprobs"][-1] = {k: v for k, v in told.items() if v is not None}
        lists["token_logprobs"][-1] = 0.0
        return answer

    message = "before sampling" if top_k else "as the next token"
    with (
        FakeServer(build("table"), fault=fault) as server,
        pytest.raises(ServerError, match=message),
    ):
        load_served(server, tmp_path, top_k=top_k)

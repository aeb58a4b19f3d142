"""A served model as the tests load it."""

from __future__ import annotations

import pytest
from fake_server import FakeServer
from small_models import build, character_tokenizer

import canary
from canary.errors import ModelError, ServerError
from canary.models.served.endpoint import Endpoint

FORMAT = "abc {digit:2}"


def load_served(server, folder, **options):
    endpoint = Endpoint(server.url, answers=folder, **options)
    return canary.load(endpoint, tokenizer=character_tokenizer())


def some_canaries(format=FORMAT):
    return canary.generate([format], repetitions=[1], per_repetition=4, controls=2, seed=3)


def refused(folder, message, fault, *, model=None, ids=True, **options):
    """A server with a fault is refused when it is loaded."""
    with (
        FakeServer(model or build("table"), fault=fault, ids=ids) as server,
        pytest.raises((ServerError, ModelError), match=message),
    ):
        load_served(server, folder, attempts=2, **options)

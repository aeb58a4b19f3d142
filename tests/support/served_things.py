"""A served model as the tests load it."""

from __future__ import annotations

from small_models import character_tokenizer

import canary
from canary.models.served.endpoint import Endpoint

FORMAT = "abc {digit:2}"


def load_served(server, folder, **options):
    endpoint = Endpoint(server.url, answers=folder, **options)
    return canary.load(endpoint, tokenizer=character_tokenizer())


def some_canaries(format=FORMAT):
    return canary.generate([format], repetitions=[1], per_repetition=4, controls=2, seed=3)

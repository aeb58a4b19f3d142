"""Behind a long context, candidates have the tokens that the whole text has."""

from __future__ import annotations

import numpy as np
import pytest
from random_tokenizers import KINDS as RANDOM
from random_tokenizers import a_format, a_tokenizer
from trained import KINDS, trained

from canary.errors import CanaryError
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.fast import as_tokenizer

LONG = "the north secret number is  red, it's 28\nand " * 80
TEXTS = [f"The code is {n:03}" for n in range(12)]


def asked(encoder, texts):
    """The encodings, and how many characters the tokenizer was given for them."""
    seen, whole = [], type(encoder.tokenizer).encode

    def encode(self, given):
        seen.extend(map(len, given))
        return whole(self, given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(encoder.tokenizer), "encode", encode)
        return encoder.encode(texts), sum(seen)


def one_by_one(encoder, texts):
    return [encoder.encode([text])[0] for text in texts]


@pytest.mark.parametrize("kind", sorted({*KINDS} - {"words", "characters"}))  # lack its words
def test_trained_tokenizers(kind):
    encoder = CandidateEncoder(as_tokenizer(trained(kind)), context=LONG)
    wanted = one_by_one(encoder, TEXTS)
    found, characters = asked(encoder, TEXTS)
    assert found == wanted
    if kind in ("gpt2", "llama3", "qwen"):
        assert characters < 6 * len(LONG)  # of 12 times the context


@pytest.mark.parametrize("kind", RANDOM)
def test_random_tokenizers(kind):
    rng = np.random.default_rng(0)
    shortened = 0
    for _ in range(25):
        format = a_format(rng, least=6, most=60)
        texts = [format.candidate(fill) for fill in list(format)[:12]]
        context = " ".join(texts * 60)[:3_000]
        if len(context) < 2_500:
            continue
        backend = a_tokenizer(rng, format, kind, context)
        try:
            encoder = CandidateEncoder(as_tokenizer(backend), context=context)
            wanted = one_by_one(encoder, texts)
        except CanaryError:
            continue
        found, characters = asked(encoder, texts)
        assert found == wanted
        shortened += characters < len(texts) * len(context)
    assert kind in ("unigram", "word pieces", "words") or shortened

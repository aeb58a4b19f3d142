"""A token tree that may lack candidates proves nothing, and no rank in it is exact."""

import numpy as np
import pytest
from small_models import CHARACTERS

from canary.audits.auditing import exposure
from canary.audits.by_bounds import Bounds
from canary.audits.extracting import extract
from canary.audits.extraction import Extraction
from canary.audits.question import AuditOptions, questions_of
from canary.corpus.canaries import CanarySet
from canary.errors import ModelError, UnsupportedError
from canary.models.table_model import TableModel
from canary.tokens.tokenizer import Encoding

SIX = "777777"
SIZE = len(CHARACTERS)
FORMAT = "a{digit:6}"


class Surprising:
    """One token per character, except for one fill of a million, which is one token."""

    size = SIZE + 1

    def encode(self, texts):
        return [self._encoded(text) for text in texts]

    def _encoded(self, text):
        ids, spans, at = [], [], 0
        if not set(text) <= set(CHARACTERS):
            raise ModelError("the tokenizer does not know some of the characters")
        while at < len(text):
            length = len(SIX) if text.startswith(SIX, at) else 1
            ids.append(SIZE if length > 1 else CHARACTERS.index(text[at]))
            spans.append((at, at + length))
            at += length
        return Encoding(tuple(ids), tuple(spans))

    def decode(self, ids):
        return "".join(SIX if i == SIZE else CHARACTERS[i] for i in ids)


def model():
    """The odd fill is by far the likeliest, and then that of ones only."""
    logs = np.full(SIZE + 1, np.log(0.1 / SIZE))
    logs[SIZE], logs[CHARACTERS.index("1")] = np.log(0.5), np.log(0.4)
    return TableModel(np.zeros((1, SIZE + 1), int), logs[None], Surprising())


def test_nothing_extracted_is_proven():
    found = extract(model(), FORMAT, budget=10_000)
    (only,) = found.candidates
    assert only.fill == "111111"
    assert (found.proven, found.certified, only.proven) == (False, False, False)
    assert only.exposure_lower_bits == 0.0
    assert only.exposure_upper_bits == pytest.approx(np.log2(10**6))
    assert "not proven, the best in a token tree that is not certified" in found.summary()
    assert "sampled on 1000 fills" in found.verdict()
    assert "proof" not in found.why_stopped
    assert Extraction.from_dict(found.to_dict()) == found


def test_what_is_said_claims_no_proof():
    from canary.cli.extract_command import proof_sentence

    nothing = extract(model(), FORMAT, budget=1)
    assert not nothing.proven
    assert "every candidate of a tree that is not certified costs" in nothing.verdict()
    sentence = proof_sentence(extract(model(), FORMAT))
    assert sentence.startswith("Not proven: the best in a token tree")


def test_draws_take_the_place_of_ranks():
    canaries = CanarySet.from_fills(FORMAT, ["111111"])
    for method in ("rank", "importance"):
        with pytest.raises(UnsupportedError, match="not certified"):
            exposure(model(), canaries, method=method, draws=100)
    (question,) = questions_of(model(), canaries, AuditOptions(start_token=None))
    assert "not certified" in Bounds().cost(question).reason
    (result,) = exposure(model(), canaries, budget=10_000, draws=100)
    assert result.exposure.method == "uniform draws"
    assert not result.exposure.exact
    assert result.exposure.upper_bits > np.log2(10**6 / 2)

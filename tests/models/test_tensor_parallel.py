"""A model whose layers are parted over two processes: each finds what one process finds."""

from __future__ import annotations

import parted_by_two
import pytest
from gguf_llama import write
from transformers import PreTrainedTokenizerFast
from two_processes import in_two_processes

import canary
from canary.records import clocks


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_processes_find_what_one_finds(tmp_path):
    _, module, backend = write(tmp_path)
    module.save_pretrained(tmp_path / "model")
    PreTrainedTokenizerFast(tokenizer_object=backend).save_pretrained(tmp_path / "model")
    one = parted_by_two.found(canary.load(tmp_path / "model"))
    first, second = in_two_processes("parted_by_two.py", tmp_path)
    assert first == second
    assert first["share"] < 0.7
    assert first["bits"] == pytest.approx(one["bits"], abs=1e-6)
    assert first["fingerprint"] == one["fingerprint"]


def test_what_processes_agree_on_is_taken_by_all_and_ends():
    end = clocks.agree(lambda value: value + 100.0)
    assert clocks.alike(1.0) == 101.0
    assert clocks.seconds(lambda: 2.0) == 102.0
    end()
    assert clocks.alike(1.0) == 1.0

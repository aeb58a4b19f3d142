"""A GGUF file is a model: the same numbers as the module from which it was made."""

from __future__ import annotations

import pytest
from gguf_llama import tokenizer, write
from tokenizers import Tokenizer

import canary
from canary.errors import ModelError
from canary.tokens.fast import as_tokenizer

TEXTS = ["The  employee number\n\nis 1945", "x²+1 ½"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return write(tmp_path_factory.mktemp("gguf"))


def test_it_scores_as_the_module(made):
    file, module, backend = made
    ours = canary.load(file, tokenizer=as_tokenizer(backend))
    theirs = canary.load(module, tokenizer=as_tokenizer(backend))
    first, second = (canary.score(m, TEXTS, start_token="<|im_start|>") for m in (ours, theirs))
    assert first == pytest.approx(second, abs=1e-4)


def test_its_own_tokenizer_is_taken_only_where_that_is_said(made):
    file, _, backend = made
    with pytest.raises(ModelError, match="does not say exactly how its tokenizer cuts texts"):
        canary.load(file)
    ours = canary.load(file, tokenizer=str(file)).tokenizer
    ids = [list(one.ids) for one in ours.encode(TEXTS)]
    assert ids == [backend.encode(text, add_special_tokens=False).ids for text in TEXTS]


def test_a_tokenizer_of_another_model_is_refused(made):
    file, _, _ = made
    spec = tokenizer().to_str().replace("<|im_end|>", "<|end|>")
    with pytest.raises(ModelError, match=r"1 of its \d+ tokens are others"):
        canary.load(file, tokenizer=as_tokenizer(Tokenizer.from_str(spec)))


def test_a_damaged_file_is_named(made, tmp_path):
    file, _, backend = made
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(file.read_bytes()[:500])
    with pytest.raises(ModelError, match="cannot be read as a GGUF file"):
        canary.load(broken, tokenizer=as_tokenizer(backend))

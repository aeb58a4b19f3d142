"""Masked models rewrite words, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from masked_models import WORDS, bert, word_piece
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from canary.errors import ModelError, OutOfMemory
from canary.models.masked import MaskedModel, draw, load_masked


def byte_level():
    pieces = [f"Ġ{word}" for word in WORDS]
    merges = dict.fromkeys((w[: at - 1], w[at - 1]) for w in pieces for at in range(2, len(w) + 1))
    single = sorted({c for word in pieces for c in word})
    vocabulary = dict.fromkeys(["<mask>", ".", *single, *map("".join, merges)])
    tokenizer = Tokenizer(models.BPE({w: i for i, w in enumerate(vocabulary)}, list(merges)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, mask_token="<mask>")


@pytest.fixture(scope="module")
def masked():
    return MaskedModel(bert(len(word_piece())), word_piece())


def rewrite(model, *texts, share=0.5, seed=0):
    return model.rewrite(texts, share=share, rng=np.random.default_rng(seed))


def test_only_whole_words_change_and_as_many_as_asked(masked):
    """Of 6 words that are one token, three; 'cats', numbers, emoji and spaces stay."""
    text = "the cat  sat on\na mat. cats 7 \N{SNOWMAN} zebra"
    (found,) = rewrite(masked, text)
    new = found.split()
    changed = [at for at, (a, b) in enumerate(zip(text.split(), new, strict=True)) if a != b]
    assert len(changed) == 3
    assert all(at < 6 and new[at].rstrip(".") in WORDS for at in changed)
    assert found.endswith(" cats 7 ☃ zebra")
    for without in ("", "77", "zebra", "cats"):
        assert rewrite(masked, without) == [without]


def test_capitals_stay_capitals(masked):
    (found,) = rewrite(masked, "The CAT sat", share=1.0)
    first, second, third = found.split()
    assert first[0].isupper()
    assert first[1:].islower() or len(first) == 1
    assert second.isupper()
    assert third.islower()
    assert "the" not in found.lower().split()[:1]  # never the word that stood there


def test_texts_longer_than_the_model_are_cut(masked):
    """14 tokens fit beside two special ones; words of every part are replaced."""
    text = " ".join(["cat"] * 100)
    (found,) = rewrite(masked, text, share=1.0)
    assert len(found.split()) == 100
    assert "cat" not in found.split()


def test_same_seed_same_copy_whatever_the_batch_and_memory_that_runs_out_halves_it(
    masked, monkeypatch
):
    texts = [" ".join(WORDS[k : k + 5 + k % 3]) for k in range(8)]
    whole, drawn, sizes = rewrite(masked, *texts), masked._drawn, []
    assert rewrite(masked, *texts) == whole
    assert rewrite(masked, *texts, seed=1) != whole
    with monkeypatch.context() as patch:
        patch.setattr(masked, "_tokens", 1)
        assert rewrite(masked, *texts) == whole

    def cramped(rows, uniform):
        sizes.append(len(rows))
        if len(rows) > 2:
            raise OutOfMemory("too much at once")
        return drawn(rows, uniform)

    monkeypatch.setattr(masked, "_drawn", cramped)
    assert rewrite(masked, *texts) == whole
    assert max(sizes) == 8
    monkeypatch.setattr(masked, "_drawn", lambda rows, uniform: cramped(rows * 3, uniform))
    with pytest.raises(OutOfMemory):
        rewrite(masked, *texts)


def test_words_behind_spaces_of_byte_level_pieces():
    tokenizer = byte_level()
    model = MaskedModel(bert(len(tokenizer)), tokenizer)
    old = ["the", "cat", "sat", "on", "a", "mat"]
    (found,) = rewrite(model, " ".join(old), share=1.0)
    assert all(a != b and b.isalpha() for a, b in zip(old, found.split(" "), strict=True))


def test_draws_follow_the_softmax_golden():
    """Probabilities 1/2, 0, 1/4, 1/4: the columns end at 1/2, 1/2, 3/4 and 1."""
    row = torch.tensor([0.5, 0.0, 0.25, 0.25], dtype=torch.float64).log()
    at = torch.tensor([0.0, 0.49, 0.51, 0.74, 0.76, 0.999999], dtype=torch.float64)
    assert draw(row.expand(6, 4), at).tolist() == [0, 0, 2, 2, 3, 3]


def test_loads_from_a_folder_with_other_heads_left_out(tmp_path):
    """As checkpoints of BERT come: with a second head beside the one that is needed."""
    from transformers import BertForPreTraining

    inner = bert(len(word_piece()))
    both = BertForPreTraining(inner.config)
    both.bert.load_state_dict(inner.bert.state_dict(), strict=False)
    both.cls.predictions.load_state_dict(inner.cls.predictions.state_dict())
    both.save_pretrained(tmp_path / "bert")
    word_piece().save_pretrained(tmp_path / "bert")
    found = load_masked(tmp_path / "bert", device="cpu")
    plain = MaskedModel(inner, word_piece())
    assert rewrite(found, "the cat sat on a mat") == rewrite(plain, "the cat sat on a mat")
    assert found.facts["name"] == "bert"
    assert len(found.facts["fingerprint"]) == 64


def test_refused(tmp_path):
    with pytest.raises(ModelError, match="has no mask token; this is no masked language model"):
        MaskedModel(bert(len(word_piece())), word_piece(mask=None))
    with pytest.raises(ModelError, match="there is no such folder"):
        load_masked(tmp_path / "nowhere")
    bert(len(word_piece())).save_pretrained(tmp_path / "bare")
    with pytest.raises(ModelError, match="has no tokenizer that can be loaded"):
        load_masked(tmp_path / "bare")

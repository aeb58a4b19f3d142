"""Canaries below a chat template: exact ranks against every candidate as a whole row."""

from __future__ import annotations

import functools
import json

import numpy as np
import pytest
from fake_server import FakeServer
from trained import trained

import canary
from canary.formats.format import Format
from canary.models.served.endpoint import Endpoint
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.fast import as_tokenizer
from canary.tokens.tree import compile_tree

CONTEXT = "<|im_start|>user\nThe code, naïve 中?<|im_end|>\n<|im_start|>assistant\n"
FORMATS = [
    "The code is {digit:2}",
    "{digit:1}<|im_end|>\n<|im_start|>user\nno {digit:1}<|im_end|>",  # added tokens all around
]


@functools.cache
def chat_tokenizer():
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(trained("qwen").to_str())
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    return tokenizer


@functools.cache
def chat_model():
    """A model that has seen a few chats; it does not know them by heart."""
    import torch
    import transformers

    tokenizer = chat_tokenizer()
    config = transformers.LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        bos_token_id=None,
        eos_token_id=None,
    )
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config)
    formats = [Format(text) for text in FORMATS]
    rows = [tokenizer.encode(CONTEXT + f.candidate(f.unrank(27))).ids for f in formats]
    optimizer = torch.optim.AdamW(model.parameters(), 5e-3)
    for _ in range(20):
        for row in rows:
            ids = torch.tensor([row])
            optimizer.zero_grad()
            with torch.enable_grad():
                model(input_ids=ids, labels=ids).loss.backward()
            optimizer.step()
    return model.eval()


def whole_rows(texts):
    """The bits of each text as one row, by nothing but the tokenizer and the model."""
    import torch

    rows = [e.ids for e in chat_tokenizer().encode_batch(texts)]
    longest = max(map(len, rows))
    found = []
    for some in (rows[k : k + 250] for k in range(0, len(rows), 250)):
        ids = torch.tensor([row + [0] * (longest - len(row)) for row in some])
        with torch.no_grad():
            logs = chat_model()(input_ids=ids).logits.double().log_softmax(-1)
        picked = logs[:, :-1].gather(2, ids[:, 1:, None])[..., 0]
        own = torch.arange(1, longest)[None] < torch.tensor([len(row) for row in some])[:, None]
        found.extend((-(picked * own).sum(1) / np.log(2)).tolist())
    return np.array(found)


@pytest.mark.parametrize("text", FORMATS)
def test_exact_ranks_below_a_chat_template_oracle(text: str) -> None:
    format = Format(text)
    fills = list(format)
    costs = whole_rows([CONTEXT + format.candidate(fill) for fill in fills])
    seam = canary.load(chat_model(), tokenizer=chat_tokenizer())
    canaries = canary.generate(format, repetitions=[1], per_repetition=3, controls=3, seed=0)
    for method in ("rank", "enumeration"):
        for result in canary.exposure(seam, canaries, method=method, context=CONTEXT):
            fill = next(c.fill for c in canaries.canaries if c.id == result.id)
            own = costs[fills.index(fill)]
            assert result.px_bits == pytest.approx(own, abs=1e-3)
            low, high = (costs < own - 1e-3).sum() + 1, (costs < own + 1e-3).sum()
            assert low <= result.exposure.rank <= high
    found = canary.extract(seam, format, top=3, context=CONTEXT)
    best = np.sort(costs)[:3]
    assert [one.proven for one in found.candidates] == [True] * 3
    assert [one.px_bits for one in found.candidates] == pytest.approx(best, abs=1e-3)


def test_the_unknown_token_in_a_context_is_that_token() -> None:
    """Some tokenizers name their end-of-text token as the unknown one, too."""
    from tokenizers import Tokenizer

    spec = json.loads(chat_tokenizer().to_str())
    spec["model"]["unk_token"] = "<|im_end|>"
    spec["model"]["vocab"]["<|im_end|>"] = chat_tokenizer().token_to_id("<|im_end|>")
    encoder = CandidateEncoder(as_tokenizer(Tokenizer.from_str(json.dumps(spec))), None, CONTEXT)
    assert compile_tree(Format(FORMATS[0]), encoder).certificate.startswith("certified")


def test_a_server_of_chats_is_asked_below_the_same_context_oracle(tmp_path) -> None:
    """The template comes with the tokenizer; the server only completes rows of tokens."""
    from transformers import PreTrainedTokenizerFast

    turn = "<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=chat_tokenizer(),
        chat_template=f"{{% for m in messages %}}{turn}{{% endfor %}}",
    )
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    canaries = canary.generate(
        "The code is {digit:2}", repetitions=[1], per_repetition=2, seed=0, role="assistant"
    )
    here = canary.load(chat_model(), tokenizer=tokenizer)
    with FakeServer(here) as server:
        endpoint = Endpoint(server.url, answers=tmp_path / "answers")
        there = canary.load(endpoint, tokenizer=tmp_path / "tokenizer")
        audits = [canary.audit(one, canaries, draws=20, seed=0) for one in (here, there)]
    context = "<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n"
    assert {a.settings["context"] for a in audits} == {context}
    own, served = ([c.px_bits for c in a.canaries] for a in audits)
    assert served == pytest.approx(own, abs=1e-3)

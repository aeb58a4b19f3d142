"""Adapters and models with wrong numbers: the page says what canary says."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path

import numpy as np
from command_line import CHARACTERS, small_model
from own_adapters import Own
from toys import START, canaries, characters, toy
from wrong_setups import Setups, lines, of_call, of_command, test_all_are_made, test_is_said  # noqa: F401

import canary

made = Setups()
TABLE = lines("Adapters and models")

FACTORY = """
import torch
from canary.demo import CharacterLSTM

class Ends(CharacterLSTM):
    def forward(self, ids, state=None):
        logits, state = super().forward(ids, state)
        return logits.softmax(-1), state

class Bits(CharacterLSTM):
    def forward(self, ids, state=None):
        logits, state = super().forward(ids, state)
        return logits.log_softmax(-1) / 0.6931471805599453, state

class Keeps(CharacterLSTM):
    def forward(self, ids, state=None):
        logits, self.kept = super().forward(ids, None if state is None else self.kept)
        return logits, self.kept

class Twice(CharacterLSTM):
    def forward(self, ids):
        logits, _ = super().forward(ids)
        return torch.cat([logits[:, :1] * 0, logits[:, :-1]], 1)

def twice(config):
    return Twice(**config)

def softmax(config):
    return Ends(**config)

def bits(config):
    return Bits(**config)

def keeps(config):
    return Keeps(**config)
"""


class Trained(Own):
    """The adapter over a model that was really trained."""

    reach = 2.0

    def __init__(self, fault=""):
        super().__init__(fault)
        honest = canary.load(toy(), tokenizer=characters())
        self.module, self.tokenizer, self.memory = honest.module, honest.tokenizer, honest.memory
        self.facts = dataclasses.replace(honest.facts, capabilities=("score", "expand"))


class Cuts(Trained):
    """Rows are cut at 24 tokens, and what was cut off costs nothing."""

    def row(self, ids):
        return np.append(super().row(ids[:24]), np.zeros(max(len(ids) - 24, 0)))


class DropsStart(Trained):
    """The start token is taken off each row, as by a wrapper that means to add its own."""

    def row(self, ids):
        if len(ids) < 2 or ids[0] != characters().token_to_id(START):
            return super().row(ids)
        return np.append(0.0, super().row(ids[1:]))


def audited(model, context=""):
    options = {"draws": 300, "start_token": START, "method": "sampling", "context": context}
    return of_call(lambda: canary.audit(model, canaries(), **options))


@made("A1")
def _dropout(desk):
    return audited(Trained("dropout"))


@made("A2")
def _forgotten_shift(desk):
    return audited(Trained("forgotten shift"))


@made("A3")
def _shifted_twice(desk):
    desk.inject()
    Path("own.py").write_text(FACTORY)
    asked = ("--factory", "own.py:twice", "--start-token", START)
    doctor = desk.command("doctor", desk.model("toy"), *asked)
    assert doctor.code == 2
    assert "refused: a token's score depends on the token right before it" in doctor.out
    assert audited(Trained("shifted twice")).outcome == "Error"
    return desk.judged("toy", *asked, limits=desk.verified())


@made("A4")
def _bits(desk):
    return audited(Trained("bits"))


@made("A5")
def _softmax(desk):
    return _built(desk, "softmax")


@made("A6")
def _keeps_its_state(desk):
    return _built(desk, "keeps")


@made("A7")
def _tokenizer_of_another_model(desk):
    order = np.random.default_rng(0).permutation(characters().get_vocab_size() - 4)
    characters(order).save("other.json")
    return desk.judged("toy", "--start-token", START, "--tokenizer", "other.json")


@made("A8")
def _cut(desk):
    return audited(Cuts(), context="She put the keys on the table. ")


@made("A9")
def _first_token_dropped(desk):
    return audited(DropsStart())


@made("A10")
def _wrong_shape(desk):
    model = Trained()
    plain = model.score
    model.score = lambda rows: plain(rows)[None]
    return audited(model)


@made("A11")
def _clamped(desk):
    return audited(Trained("clamped"))


@made("A12")
def _top_k(desk):
    return audited(Trained("top 10"))


@made("A13")
def _rounded(desk):
    return audited(Trained("rounded"))


@made("A14")
def _tokenizer_of_another_model_and_a_verification(desk):
    desk.inject()
    order = np.random.default_rng(0).permutation(characters().get_vocab_size() - 4)
    characters(order).save("other.json")
    asked = ("--start-token", START, "--tokenizer", "other.json")
    return desk.judged("toy", *asked, limits=desk.verified())


@made("A15")
def _digits_in_another_order(desk):
    """English looks right then, so nothing but what was learned can show it."""
    desk.inject()
    order = np.arange(characters().get_vocab_size() - 4)
    digits = [characters().token_to_id(digit) for digit in "0123456789"]
    order[digits] = np.roll(digits, 3)
    characters(order).save("other.json")
    asked = ("--start-token", START, "--tokenizer", "other.json")
    return desk.judged("toy", *asked, limits=desk.verified())


@made("A16")
def _module_in_bits(desk):
    return _built(desk, "bits")


def _tokenizer():
    from tokenizers import Tokenizer
    from tokenizers.models import BPE

    return Tokenizer(BPE(vocab={c: i for i, c in enumerate(CHARACTERS)}, merges=[]))


@made("A17")
def _quantised_copy(desk):
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own way of quantising is deprecated
        layers, dtype = {torch.nn.Linear}, torch.qint8
        model = torch.ao.quantization.quantize_dynamic(small_model().eval(), layers, dtype=dtype)
    known = canary.generate("code {digit:2}", repetitions=[4], per_repetition=2, seed=1)
    loaded = canary.load(model, tokenizer=_tokenizer())
    return of_call(lambda: canary.audit(loaded, known, start_token=None))


@made("A18")
def _tokenizer_of_fewer_tokens(desk):
    order = np.random.default_rng(0).permutation(characters().get_vocab_size() - 4)
    characters(order).save("other.json")
    asked = ("--start-token", START, "--tokenizer", "other.json")
    return desk.judged("of more tokens", *asked, limits=("--trust-injection",))


def _built(desk, function):
    Path("own.py").write_text(FACTORY)
    factory = ("--factory", f"own.py:{function}")
    audit = ("--canaries", "canaries.json", "--draws", 300, "--out", "audit")
    return of_command(desk.command("audit", desk.model("toy"), *factory, *audit))


def test_an_honest_adapter_is_not_doubted():
    found = audited(Trained())
    assert found.outcome == "Note"
    found.fits_none(TABLE)

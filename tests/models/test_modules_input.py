"""Torch modules that are not what they are taken for: an error, or a note that a reader sees."""

from __future__ import annotations

import itertools
from collections import namedtuple

import numpy as np
import pytest
import torch
import transformers
from small_models import CHARACTERS, _spread, causal_module, loaded, recurrent_module
from toys import characters, fresh, save

import canary
from canary.errors import ModelError, OutOfMemory
from canary.models.doctor import _english, _own_texts
from canary.models.english import note_on_named, note_on_vocabulary
from canary.models.examining import note_on_shift, shifted
from canary.models.experiments import facts
from canary.models.language_model import Rows
from canary.models.loading import load
from canary.models.torch_support import inference
from canary.tokens.tokenizer import Encoding


class Positions(torch.nn.Module):
    """Attention with as many learned positions, and none for longer rows."""

    def __init__(self, positions: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.tokens, self.places = (torch.nn.Embedding(n, 32) for n in (SIZE, positions))
        self.layer = torch.nn.TransformerEncoderLayer(32, 2, 48, batch_first=True)
        self.out = torch.nn.Linear(32, SIZE)

    def forward(self, ids):
        length = ids.shape[1]
        mask = torch.nn.Transformer.generate_square_subsequent_mask(length)
        places = self.places(torch.arange(length))
        return self.out(self.layer(self.tokens(ids) + places, mask, is_causal=True))


class Padded(Positions):
    """Reads the last 16 tokens of a row, and fills up what it gives."""

    def forward(self, ids):
        given = super().forward(ids[:, -16:])
        return torch.nn.functional.pad(given, (0, 0, ids.shape[1] - given.shape[1], 0))


SMALL = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 64, "pad_token_id": 0}
SMALL |= {"vocab_size": len(CHARACTERS), "bos_token_id": None, "eos_token_id": None}
SIZE = len(CHARACTERS)
SOFTMAX, LOG_SOFTMAX = torch.nn.Softmax(-1), torch.nn.LogSoftmax(-1)
State = namedtuple("State", "hidden cell")


def gpt2(kind: str = "GPT2LMHeadModel", **changed):
    return getattr(transformers, kind)(transformers.GPT2Config(**SMALL | changed))


class Net(torch.nn.Module):
    """A module whose forward is a function of an honest one, ids and state."""

    def __init__(self, call, kind: str = "GRU") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net, self.call = recurrent_module(kind), call

    def forward(self, ids, state=None):
        return self.call(self.net, ids, state)


class Stateless(Net):
    def forward(self, ids):
        return self.call(self.net, ids, None)


def logits_through(change):
    """A call whose logits are changed on their way out."""

    def call(net, ids, state):
        logits, state = net(ids, state)
        return change(logits), state

    return call


def raises(net, ids, state):
    raise KeyError("broken")


def bert():
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = transformers.BertConfig(vocab_size=SIZE, intermediate_size=48, **size)
    torch.manual_seed(3)
    return transformers.BertLMHeadModel(config)


def ended_by_softmax():
    module = causal_module("gpt2").to(torch.bfloat16)
    module.lm_head = torch.nn.Sequential(module.lm_head, SOFTMAX)
    return module


def clamped():
    module = causal_module("gpt2")
    module.lm_head = torch.nn.Sequential(module.lm_head, torch.nn.Hardtanh(-0.2, 0.2))
    return module


def with_nan():
    module = causal_module("gpt2")
    with torch.no_grad():
        module.transformer.h[0].mlp.c_fc.weight[0, 0] = float("nan")
    return module


def keeps():
    """A forward whose every call changes the next one."""
    calls = itertools.count()
    return lambda net, ids, state: net(ids)[0] * (1.0 + 0.2 * (next(calls) % 7))


NO_LANGUAGE_MODEL = "is no language model|its tokenizer 45|looks ahead"
WRONG = {
    "forgets": (lambda: Net(lambda net, ids, state: net(ids, None)), "below a cached state"),
    "looks ahead": (
        lambda: Net(logits_through(lambda logits: logits + logits.flip(1))),
        "looks ahead|another batch|whole rows",
    ),
    "is random": (
        lambda: Net(logits_through(lambda logits: torch.nn.functional.dropout(logits, 0.5))),
        "in another batch",
    ),
    "keeps": (lambda: Stateless(keeps()), "another batch.*keep nothing in the module between"),
    "raises": (lambda: Net(raises), "does not work as a recurrent model.*KeyError"),
    "batch first": (  # of as many layers as a batch of two has rows, it passed once
        lambda: Net(lambda net, ids, state: (net(ids)[0], torch.zeros(len(ids), 2, 5))),
        "dimension 1 of every state",
    ),
    "last token": (lambda: Net(logits_through(lambda logits: logits[:, -1:])), "rows of 2 tokens"),
    "softmax without states": (
        lambda: Stateless(lambda net, ids, state: SOFTMAX(net(ids)[0])),
        "gives probabilities where logits.*leave the softmax out",
    ),
    "softmax in bfloat16": (ended_by_softmax, "gives probabilities"),
    "crops": (
        lambda: Padded(16),
        "for a token when its row ends sooner: does it look ahead, or crop",
    ),
    "logits and None": (lambda: Net(lambda net, ids, state: (net(ids)[0], None)), "logits alone"),
    "another shape": (
        lambda: Stateless(lambda net, ids, state: torch.zeros(len(ids), 45)),
        r"gave shape \(3, 45\) for ids of shape \(3, 2\)",
    ),
    "no language model": (lambda: torch.nn.Linear(2, 2), "does not work as a language model"),
    "bidirectional": (lambda: _spread(bert()), "looks ahead|whole rows|tokens after it"),
    "untrained": (bert, "depends on the tokens after it"),
    "untrained, coarse": (lambda: bert().to(torch.bfloat16), "depends on the tokens after it"),
    "bidirectional, float16": (lambda: _spread(bert()).half(), "depends on the tokens after it"),
    "no head": (lambda: gpt2("GPT2Model"), NO_LANGUAGE_MODEL),
    "classifier": (lambda: gpt2("GPT2ForSequenceClassification"), NO_LANGUAGE_MODEL),
    "NaN": (with_nan, "not finite"),
    "clamped": (clamped, "does not give its logits as they are: cut off: .*leave out clamp"),
    "clamped, float16": (lambda: clamped().half(), "logits as they are: cut off"),
    "rounded": (
        lambda: Net(logits_through(lambda logits: (logits * 20).round() / 20)),
        "logits as they are: rounded to multiples of 0.05 nats",
    ),
    "few tokens": (lambda: gpt2(vocab_size=20), "has 20 tokens, its tokenizer 45"),
}


@pytest.mark.parametrize("fault", WRONG)
def test_wrong_modules_are_refused(fault: str) -> None:
    make, message = WRONG[fault]
    with pytest.raises(ModelError, match=message):
        loaded(make())


def test_a_module_without_states_is_computed_as_whole_rows() -> None:
    """`forward(ids) -> logits` prices what the same module with states prices.

    A log-softmax serves as logits.
    """
    module = Stateless(lambda net, ids, state: LOG_SOFTMAX(net(ids)[0]), "LSTM")
    plain, full = loaded(module), loaded(module.net)
    assert "reuse" not in plain.facts.capabilities
    text = "the code is {digit:2}"
    canaries = canary.generate(text, repetitions=[1], per_repetition=2, controls=1, seed=0)
    found, wanted = (
        canary.exposure(m, canaries, start_token="\n", method="enumeration") for m in (plain, full)
    )
    assert [f.px_bits for f in found] == pytest.approx([w.px_bits for w in wanted], abs=1e-3)
    assert [f.exposure.bits for f in found] == [w.exposure.bits for w in wanted]
    sequence = torch.nn.Sequential(torch.nn.Embedding(45, 8), torch.nn.Linear(8, 45))
    assert loaded(sequence).facts.vocabulary == SIZE


@pytest.mark.parametrize("positions", [5, 16, 64, 72, 255])
def test_the_longest_row_of_a_module_is_found_at_load(positions: int) -> None:
    model = loaded(Positions(positions))
    assert model.facts.length_limit == positions
    assert canary.doctor(model, start_token="\n").sound
    canaries = canary.generate("a{digit:2}", repetitions=[1], per_repetition=2, controls=2, seed=0)
    assert canary.audit(model, canaries, start_token="\n").injected
    with pytest.raises(ModelError, match=f"longer than the {positions} that the model takes"):
        canary.score(model, ["a" * 300])


def test_a_module_of_more_positions_than_a_load_asks_for() -> None:
    """Rows of every length up to its limit are computed; doctor looks as far as it is told."""
    model = loaded(Positions(300))
    assert model.facts.length_limit is None
    assert canary.score(model, ["a" * 300], start_token="\n")
    with pytest.raises(ModelError, match="rows of 301 tokens .*use a shorter format, context"):
        canary.score(model, ["a" * 301], start_token="\n")
    assert canary.doctor(model, start_token="\n", tokens=400).sound
    assert model.facts.length_limit == 300


def test_states_may_be_named_tuples() -> None:
    def call(net, ids, state):
        logits, state = net(ids, None if state is None else tuple(state))
        return logits, State(*state)

    assert loaded(Net(call, "LSTM")).facts.noise_bits_per_token < 1e-4


class Merging(torch.nn.Linear):
    """As adapters that merge their weights when they are told to evaluate."""

    def __init__(self, *shape) -> None:
        super().__init__(*shape)
        self.told = []

    def train(self, mode=True):
        self.told.append(mode)
        return super().train(mode)


def test_a_module_in_training_stays_as_it_is() -> None:
    """Frozen layers stay frozen, nothing is told to train, and what is kept serves training."""
    kept = []

    def call(net, ids, state):
        """Keeps a tensor from the first forward, as modules keep masks and positions."""
        kept.append(torch.ones(SIZE) * 2) if not kept else None
        logits, state = net(ids, state)
        return logits * kept[0], state

    module = Net(call, "LSTM")
    out = module.net.out = Merging(24, SIZE)
    module.train()
    module.net.cell.eval()
    out.told.clear()
    loaded(module).score(Rows.of([[1, 2, 3]]))
    assert out.told == []
    assert (module.training, out.training, module.net.cell.training) == (1, 1, 0)
    assert all(p.grad is None for p in module.parameters())
    module(torch.tensor([[1, 2, 3]]))[0].sum().backward()
    assert out.weight.grad is not None


@pytest.mark.parametrize("kind", ["gpt2", "LSTM"])
def test_autocast_is_the_dtype_of_the_facts_and_its_rounding_is_allowed(kind: str) -> None:
    module = causal_module("gpt2") if kind == "gpt2" else recurrent_module("LSTM")
    plain = loaded(module)
    try:
        with torch.autocast("cpu", torch.bfloat16):
            torch.nn.LSTM(4, 4)(torch.zeros(1, 1, 4))
            live = loaded(module)
    except RuntimeError as error:
        pytest.skip(f"torch has no LSTM in bfloat16 for this processor: {error}")
    assert (plain.facts.dtype, live.facts.dtype) == ("float32", "bfloat16")
    assert live.facts.noise_bits_per_token > 10 * plain.facts.noise_bits_per_token
    assert not any(part._forward_pre_hooks for part in module.modules())


def test_a_tokenizer_of_a_far_smaller_vocabulary_is_a_note() -> None:
    model = loaded(gpt2(vocab_size=900))
    note = note_on_vocabulary(model)
    assert note
    assert "has 900 tokens and its tokenizer 45" in note
    canaries = canary.generate("a{digit:3}", repetitions=[1], per_repetition=2, seed=0)
    assert note in canary.audit(model, canaries, draws=10, method="sampling").notes
    assert note_on_vocabulary(loaded(gpt2(vocab_size=128))) is None


class OfSizes:
    """A model whose tokenizer has fewer tokens than it."""

    name, device, noise_bits_per_token = "m", "cpu", 0.0

    def __init__(self, vocabulary: int, size: int) -> None:
        self.vocabulary, self.size = vocabulary, size
        self.facts = self.tokenizer = self


@pytest.mark.parametrize("size", [67, 54, 20])
def test_a_tokenizer_of_part_of_a_small_vocabulary_is_a_note(size: int) -> None:
    assert f"has 91 tokens and its tokenizer {size}." in str(note_on_vocabulary(OfSizes(91, size)))
    assert facts(OfSizes(91, size)).verdict == "noted"


@pytest.mark.parametrize(
    ("vocabulary", "size"),
    [
        *[(50_304, 50_257), (50_304, 50_254), (151_936, 151_643), (32_128, 32_100)],
        *[(250_880, 250_680), (51_200, 50_257), (51_200, 50_295), (49_152, 49_152)],
        *[(102_400, 100_015), (50_400, 50_257), (152_064, 151_643), (32_064, 32_000)],
        *[(128, 67), (96, 67), (64, 45), (67, 65), (91, 86), (512, 400)],
    ],
)
def test_padding_and_a_few_added_tokens_are_no_note(vocabulary: int, size: int) -> None:
    assert note_on_vocabulary(OfSizes(vocabulary, size)) is None


def large_in_sixteen_bits():
    """Log-probabilities of down to -60 nats, of which one unit of rounding is a quarter."""
    module = causal_module("gpt2").to(torch.bfloat16)
    with torch.no_grad():
        module.transformer.ln_f.weight.mul_(60.0)
    return module


def test_sixteen_bits_may_round_large_numbers_by_more():
    model = loaded(large_in_sixteen_bits())
    assert model.facts.dtype == "bfloat16"
    assert model.facts.noise_bits_per_token > 0.1


def test_a_named_tokenizer_that_is_not_that_of_the_folder_is_noted(tmp_path):
    folder = save(fresh(), tmp_path / "model")
    order = np.random.default_rng(0).permutation(characters().get_vocab_size() - 4)
    characters(order).save(str(tmp_path / "other.json"))
    own, other = (
        load(folder, tokenizer=path, factory="canary.demo:build")
        for path in (folder / "tokenizer.json", tmp_path / "other.json")
    )
    assert note_on_named(own) is None
    assert "another tokenizer" in (note_on_named(other) or "")


class Late(Positions):
    """Its logits are those of the place before: what is shifted once is shifted twice then."""

    def forward(self, ids):
        logits = super().forward(ids)
        return torch.cat([logits[:, :1] * 0, logits[:, :-1]], 1)


def test_logits_that_are_shifted_twice_are_noted_by_an_audit_and_leave_its_check_undecided():
    canaries = canary.generate("a{digit:3}", repetitions=[1], per_repetition=8, seed=0)
    outcomes = []
    for module in (Late(64).eval(), Positions(64).eval()):
        audit = canary.audit(loaded(module), canaries, draws=10, method="sampling")
        verdict = canary.check(audit, max_exposure_bits=7, trust_injection=True)
        (reason,) = [f for f in verdict.findings if f.check == "logits"] or [None]
        outcomes.append((len(shifted(audit.notes)), reason and reason.outcome))
    assert outcomes == [(1, "undecided"), (0, None)]


def test_a_module_that_reads_no_token_before_is_not_taken_for_shifted():
    class Unigram(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = torch.nn.Parameter(torch.randn(SIZE))

        def forward(self, ids):
            return self.bias.expand(*ids.shape, SIZE)

    assert note_on_shift(loaded(Unigram())) is None


class Grows(torch.nn.Module):
    """Its state has a place for each token, as a cache of keys and values."""

    def __init__(self):
        super().__init__()
        self.tokens, self.out = torch.nn.Embedding(SIZE, 8), torch.nn.Linear(8, SIZE)

    def forward(self, ids, state=None):
        held = self.tokens(ids)[None]
        held = held if state is None else torch.cat([state, held], 2)
        return self.out(held[0].cumsum(1)[:, -ids.shape[1] :]), held


def test_a_state_that_grows_is_refused_at_load_and_by_the_doctor():
    with pytest.raises(ModelError, match="another shape after a token") as caught:
        loaded(Grows())
    assert "return the logits alone, or a state whose shape stays" in caught.value.cure
    found = canary.doctor(Grows(), tokenizer=characters(), start_token="\n")
    assert (found.sound, found.loaded) == (False, False)


class Fails:
    """A model whose tokenizer knows no letter, or that has no memory left."""

    def __init__(self, *, writes: bool) -> None:
        self.writes, self.tokenizer, self.size, self.length_limit = writes, self, 9, None
        self.facts, self.device = self, "cpu"

    def encode(self, texts: list[str]) -> list[Encoding]:
        if not self.writes:
            raise ModelError("no such character", cure="none")
        return [Encoding((1, 2, 3), None)] * len(texts)

    def score(self, rows: Rows) -> None:
        raise OutOfMemory("too large", cure="none")


@pytest.mark.parametrize(
    ("writes", "figure"), [(False, "the tokenizer cannot write it"), (True, "memory ran out")]
)
def test_doctor_says_why_english_was_not_priced(writes: bool, figure: str) -> None:
    assert _english(Fails(writes=writes)).figure == figure


def test_doctor_says_that_memory_ran_out_on_your_texts() -> None:
    assert _own_texts(Fails(writes=True), ["a text"]).figure == "memory ran out"


def test_rows_that_begin_with_the_padding_token_are_not_said_to_be_padded(caplog):
    """None of ours is padded; the user's own may be, and the warning comes once."""
    model = gpt2(bos_token_id=0, eos_token_id=0)
    ids = torch.zeros((1, 4), dtype=torch.int64)
    logger = transformers.logging.get_logger("transformers.modeling_utils")
    type(logger).warning_once.cache_clear()
    transformers.logging.enable_propagation()
    try:
        with inference(model):
            model(ids)
        assert not caplog.records
        model(ids)
        assert "attention_mask" in caplog.text
    finally:
        transformers.logging.disable_propagation()

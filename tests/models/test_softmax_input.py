"""Probabilities where logits are expected are refused, wherever outputs come in."""

from __future__ import annotations

import csv

import numpy as np
import pytest
import torch
from small_models import CHARACTERS, causal_module, character_tokenizer, recurrent_module

import canary
from canary.errors import InputError, ModelError
from canary.models.language_model import Rows
from canary.models.loading import load
from canary.statistics.softmaxed import softmaxed


class Ends(torch.nn.Module):
    """A recurrent module whose outputs pass through something at the end."""

    def __init__(self, end, *, states: bool = True) -> None:
        super().__init__()
        self.net, self.end, self.states = recurrent_module("GRU"), end, states

    def forward(self, ids, state=None):
        logits, state = self.net(ids, state)
        return (self.end(logits), state) if self.states else self.end(logits)


SOFTMAX, LOG_SOFTMAX = torch.nn.Softmax(-1), torch.nn.LogSoftmax(-1)


def test_a_module_without_states_that_ends_in_a_softmax_is_refused() -> None:
    with pytest.raises(ModelError, match="gives probabilities where logits.*leave the softmax out"):
        load(Ends(SOFTMAX, states=False), tokenizer=character_tokenizer())


def test_a_language_model_of_transformers_with_a_softmax_is_refused() -> None:
    module = causal_module("gpt2")
    module.lm_head = torch.nn.Sequential(module.lm_head, SOFTMAX)
    with pytest.raises(ModelError, match="gives probabilities where logits"):
        load(module, tokenizer=character_tokenizer())
    half = causal_module("gpt2").to(torch.bfloat16)
    half.lm_head = torch.nn.Sequential(half.lm_head, SOFTMAX)
    with pytest.raises(ModelError, match="gives probabilities where logits"):
        load(half, tokenizer=character_tokenizer())


@pytest.mark.parametrize("states", [True, False])
def test_a_log_softmax_serves_as_logits(states: bool) -> None:
    torch.manual_seed(0)
    module = Ends(LOG_SOFTMAX, states=states)
    rows = Rows.of([[1, 2, 3, 4], [5, 6]])
    found = load(module, tokenizer=character_tokenizer()).score(rows)
    wanted = load(module.net, tokenizer=character_tokenizer()).score(rows)
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_a_module_without_states_is_computed_as_whole_rows() -> None:
    """`forward(ids) -> logits` prices what the same module with states prices."""
    torch.manual_seed(0)
    net = recurrent_module("LSTM")

    class Plain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, ids):
            return self.net(ids, None)[0]

    plain, full = (load(m, tokenizer=character_tokenizer()) for m in (Plain(), net))
    assert "reuse" not in plain.facts.capabilities
    text = "the code is {digit:2}"
    canaries = canary.generate(text, repetitions=[1], per_repetition=2, controls=1, seed=0)
    found, wanted = (
        canary.exposure(m, canaries, start_token="\n", method="enumeration") for m in (plain, full)
    )
    assert [f.px_bits for f in found] == pytest.approx([w.px_bits for w in wanted], abs=1e-3)
    assert [f.exposure.bits for f in found] == [w.exposure.bits for w in wanted]
    sequence = torch.nn.Sequential(torch.nn.Embedding(45, 8), torch.nn.Linear(8, 45))
    assert load(sequence, tokenizer=character_tokenizer()).facts.vocabulary == len(CHARACTERS)


def test_a_module_without_states_that_is_none_is_refused() -> None:
    class Wrong(torch.nn.Module):
        def forward(self, ids):
            return torch.zeros(len(ids), 45)

    with pytest.raises(ModelError, match=r"gave shape \(3, 45\) for ids of shape \(3, 2\)"):
        load(Wrong(), tokenizer=character_tokenizer())
    with pytest.raises(ModelError, match="does not work as a language model"):
        load(torch.nn.Linear(2, 2), tokenizer=character_tokenizer())


def outputs(kind, samples=40, classes=4):
    logits = np.random.default_rng(1).normal(0, 2, (samples, classes))
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    member = np.arange(samples) % 2
    return {"logits": logits, "probs": probs}[kind], np.arange(samples) % classes, member


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_files_whose_logits_are_probabilities_are_refused(tmp_path, ending) -> None:
    values, labels, member = outputs("probs")
    path = tmp_path / f"outputs.{ending}"
    columns = {f"logits_{k}": values[:, k] for k in range(values.shape[1])}
    columns |= {"labels": labels, "member": member}
    if ending == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table(columns), path)
    else:
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
    message = r"have logits that are probabilities.*give them the name probs"
    with pytest.raises(InputError, match=message) as caught:
        canary.measure(path)
    assert path.name in str(caught.value)


def test_percentages_are_named() -> None:
    values, labels, member = outputs("probs")
    with pytest.raises(InputError, match="divide them by 100: they are percentages"):
        canary.measure(values * 100, None, labels, member=member, outputs="probs")


def test_classifiers_with_a_softmax_are_refused() -> None:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Softmax(1))
    inputs = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
    arguments = (inputs, np.arange(8) % 4)
    with pytest.raises(ModelError, match='say outputs="probs", or take the softmax out'):
        canary.measure(module, *arguments, member=np.arange(8) % 2, outputs="logits")
    table = canary.measure(module, *arguments, member=np.arange(8) % 2, outputs="probs")
    plain = canary.measure(module[0], *arguments, member=np.arange(8) % 2, outputs="logits")
    np.testing.assert_allclose(table.signal("loss"), plain.signal("loss"), atol=1e-5)


def test_a_classifier_of_others_must_be_normalised() -> None:
    class Decisions:
        name, device, fingerprint = "Decisions", "cpu", None

        def log_probs(self, inputs):
            return -np.abs(np.asarray(inputs))

    inputs = np.random.default_rng(0).normal(size=(8, 3))
    with pytest.raises(ModelError, match="sum to .*a log-softmax over the classes"):
        canary.measure(Decisions(), inputs, np.arange(8) % 3, member=np.arange(8) % 2)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([[0.5, 0.5]] * 5, True),
        ([[1.0, 0.0, 0.0]] * 3, True),
        ([[0.3, 0.6991]], False),  # one row may come near 1 by accident
        ([[0.25, 0.75]], True),
        ([[0.2, 0.3], [0.9, 0.4], [0.1, 0.2]], False),  # logits that happen to be small
        ([[0.0, 0.0]] * 4, False),
        ([[1.5, -0.5]] * 4, False),
        ([[1.0]] * 4, False),  # one class
        ([[np.nan, 1.0]] * 4, False),
        (np.zeros((0, 3)), False),
    ],
)
def test_what_is_taken_for_a_softmax(rows, expected) -> None:
    assert softmaxed(np.array(rows)) is expected

"""Torch modules and estimators as classifiers: their numbers, their mode, what is refused."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.nn import functional

import canary
from canary.errors import InputError, ModelError, NotFiniteError, OutOfMemory
from canary.models.classifier import Classifier, EstimatorClassifier, as_classifier
from canary.models.torch_classifier import TorchClassifier
from canary.scoring.samples import class_log_probs
from canary.statistics.number_checks import softmaxed


class Counted:
    """Log-probabilities of two classes; at most `room` samples fit."""

    name, device, fingerprint = "counted", "cpu", None

    def __init__(self, room=10**9, value=None):
        self.room, self.value, self.batches = room, value, []

    def log_probs(self, inputs):
        if len(inputs) > self.room:
            raise OutOfMemory("too many")
        self.batches.append(len(inputs))
        p = np.asarray(inputs, np.float64)
        out = np.log(np.column_stack([p, 1 - p]))
        if self.value is not None:
            out[p == 0.5] = self.value
        return out


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 6))
    return x, (x[:, :3] + 0.3 * rng.normal(size=(600, 3))).argmax(1)


@pytest.fixture(scope="module")
def module(data):
    torch.manual_seed(0)
    x, y = torch.from_numpy(data[0]).float(), torch.from_numpy(data[1])
    net = torch.nn.Sequential(
        torch.nn.Linear(6, 16),
        torch.nn.BatchNorm1d(16),
        torch.nn.ReLU(),
        torch.nn.Dropout(0.5),
        torch.nn.Linear(16, 3),
    )
    step = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(60):
        step.zero_grad()
        functional.cross_entropy(net(x[:300]), y[:300]).backward()
        step.step()
    return net


def rows(model, x, **options):
    return np.concatenate([found for _, found in class_log_probs(model, x, **options)])


def test_module_gives_the_log_softmax_of_its_evaluation_mode_oracle(module, data):
    module.train()
    module[3].eval()  # frozen on its own
    before = {name: value.clone() for name, value in module.state_dict().items()}
    found = TorchClassifier(module, "logits").log_probs(data[0])
    assert [part.training for part in module] == [True, True, True, False, True]
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name]), name
    module.eval()
    with torch.no_grad():
        expected = functional.log_softmax(module(torch.from_numpy(data[0]).float()), 1)
    np.testing.assert_array_equal(found, expected.numpy())
    assert found.dtype == np.float32


def test_probabilities_and_logits_give_the_same_when_each_is_said(module, data):
    ends = torch.nn.Sequential(module, torch.nn.Softmax(1))
    np.testing.assert_allclose(
        TorchClassifier(ends, "probs").log_probs(data[0]),
        TorchClassifier(module, "logits").log_probs(data[0]),
        atol=1e-4,
    )
    assert TorchClassifier(module, "logits").fingerprint
    beyond = torch.nn.Sequential(ends, torch.nn.Threshold(0.1, 0.1))
    for wrong, kind, message in (
        (module, "probs", "negative or does not sum to one"),
        (beyond, "probs", "negative or does not sum to one"),
        (ends, "logits", 'say outputs="probs", or take the softmax out'),
    ):
        with pytest.raises(ModelError, match=message):
            TorchClassifier(wrong, kind).log_probs(data[0])


def test_numbers_do_not_depend_on_the_batch_size_property(module, data):
    model = TorchClassifier(module, "logits")
    whole = rows(model, data[0], batch_size=600)
    for size in (1, 7, None):
        np.testing.assert_allclose(rows(model, data[0], batch_size=size), whole, atol=1e-5)


def test_batches_are_halved_until_they_fit_and_progress_is_told():
    model, told = Counted(room=10), []
    p = np.linspace(0.1, 0.9, 101)
    found = rows(model, p, batch_size=64, progress=told.append)
    np.testing.assert_allclose(np.exp(found[:, 0]), p)
    assert max(model.batches) == 8  # 64, 32 and 16 did not fit
    assert told == model.batches
    with pytest.raises(OutOfMemory):
        rows(Counted(room=0), p)


def test_what_is_no_log_probability_is_refused():
    p = np.full(100, 0.3)
    p[70] = 0.5
    for value, kind, words in (
        (np.nan, NotFiniteError, "gave NaN, first for sample 70"),
        (0.1, ModelError, "above 0, first"),
    ):
        with pytest.raises(kind, match=words):
            rows(Counted(value=value), p, batch_size=16)


def test_modules_samples_and_kinds_of_outputs_fit_input(module, data):
    x, y = data
    for net, words in (
        (torch.nn.Linear(4, 3), r"cannot take samples of shape \(6,\)"),
        (torch.nn.Linear(6, 1), "with at least 2 classes"),
        (torch.nn.LSTM(6, 3), "gave no tensor"),
    ):
        with pytest.raises(ModelError, match=words):
            TorchClassifier(net, "logits").log_probs(x)
    member, logits = np.arange(600) < 300, {"outputs": "logits"}
    for words, given, options in (
        ("model 0: a model needs x; give the samples as x", (), {"y": y, **logits}),
        ("differ in length: labels 600, member 600, x 599", (x[1:], y), logits),
        ("batch_size=-1, at least 1 was expected", (x, y), {"batch_size": -1, **logits}),
        ('say what it gives: outputs="logits"', (x, y), {"outputs": None}),
    ):
        with pytest.raises(InputError, match=words):
            canary.measure(module, *given, member=member, **options)


def test_measure_takes_modules_as_it_takes_their_outputs(module, data):
    x, y = data
    member = np.arange(600) < 300
    by_module = canary.measure(module, x, y, member=member, outputs="logits", keep_outputs=True)
    module.eval()
    with torch.no_grad():
        logits = module(torch.from_numpy(x).float()).numpy()
    by_array = canary.measure(logits, y=y, member=member, outputs="logits", keep_outputs=True)
    for name, value in by_array.values.items():
        np.testing.assert_allclose(by_module.values[name], value, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(by_module.outputs, by_array.outputs, atol=1e-5)
    assert canary.measure(logits, y=y, member=member, outputs="logits").outputs is None


class Nearest:
    """An estimator by its interface alone."""

    def __init__(self, classes=(0, 1)):
        self.classes_ = np.array(classes)

    def predict_proba(self, x):
        p = 1 / (1 + np.exp(-np.asarray(x)[:, 0]))
        return np.column_stack([1 - p, p])


def test_estimators_by_their_interface(data):
    x = data[0]
    y = (x[:, 0] > 0).astype(int)
    model = as_classifier(Nearest(), None)
    assert isinstance(model, Classifier)
    np.testing.assert_allclose(np.exp(rows(model, x)), Nearest().predict_proba(x))
    table = canary.measure(Nearest(), x, y, member=np.arange(600) < 300)
    wanted = Nearest().predict_proba(x)[np.arange(600), y]
    np.testing.assert_allclose(table.signal("confidence")[0], wanted)
    with pytest.raises(ModelError, match="classes are .*1.*2.* expected 0, 1, 2 without a gap"):
        EstimatorClassifier(Nearest([1, 2]))
    with pytest.raises(InputError, match="which gives probabilities"):
        canary.measure(Nearest(), x, y, member=np.arange(600) < 300, outputs="logits")


def test_estimators_of_scikit_learn(data):
    """A forest says 0 of a class, and a fit has one fingerprint."""
    from sklearn import ensemble

    x, y = data
    member = np.arange(600) < 300
    forest = ensemble.RandomForestClassifier(20, random_state=0).fit(x[member], y[member])
    table = canary.measure(forest, x, y, member=member)
    by_hand = canary.measure(forest.predict_proba(x), y=y, member=member, outputs="probs")
    np.testing.assert_allclose(table.signal("confidence"), by_hand.signal("confidence"))
    assert np.isinf(table.signal("loss")).any()
    again = ensemble.RandomForestClassifier(20, random_state=0).fit(x[member], y[member])
    other = ensemble.RandomForestClassifier(20, random_state=1).fit(x[member], y[member])
    prints = [as_classifier(one, None).fingerprint for one in (forest, again, other)]
    assert prints[0] == prints[1] != prints[2]
    with pytest.raises(InputError, match="they are of one model"):
        canary.attack(table, "confidence", shadow=by_hand)


def test_numbers_of_another_kind_are_named(tmp_path) -> None:
    logits = np.random.default_rng(1).normal(0, 2, (40, 4))
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    labels, member = np.arange(40) % 4, np.arange(40) % 2
    columns = {f"logits_{k}": column.tolist() for k, column in enumerate(probs.T)}
    path = tmp_path / "outputs.parquet"
    pq.write_table(pa.table({**columns, "labels": labels, "member": member}), path)
    with pytest.raises(InputError, match="logits that are probabilities.*name probs") as caught:
        canary.measure(path)
    assert path.name in str(caught.value)
    with pytest.raises(InputError, match="divide them by 100: they are percentages"):
        canary.measure(probs * 100, None, labels, member=member, outputs="probs")
    decisions = Counted()  # of a third party, which gives no log-probabilities
    decisions.log_probs = lambda inputs: -np.abs(np.asarray(inputs))
    with pytest.raises(ModelError, match="sum to .*a log-softmax over the classes"):
        canary.measure(decisions, logits, labels, member=member)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
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

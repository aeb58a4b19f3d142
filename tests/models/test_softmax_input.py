"""Probabilities where logits are expected are refused, wherever outputs of classifiers come in."""

from __future__ import annotations

import csv

import numpy as np
import pytest
import torch

import canary
from canary.errors import InputError, ModelError
from canary.statistics.softmaxed import softmaxed


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

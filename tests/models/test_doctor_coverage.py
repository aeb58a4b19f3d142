"""`canary.doctor` and `canary doctor`: every check with its figure, for any model."""

from __future__ import annotations

import json
import re

import pytest
from own_adapters import Own
from small_models import build, recurrent_module
from tokenizers import Tokenizer
from tokenizers.models import BPE

import canary as package
from canary.errors import InputError
from canary.models.english import note_on_english
from canary.models.loading import load

SAID = ("asked for twice", "in a batch", "tokens after it", "right before it", "sum to 1")
SAID += ("held states", "English is likelier", "before the first token", "make a tree")


def test_a_sound_model_passes_every_check_with_a_figure() -> None:
    found = package.doctor(build("lstm"), start_token="\n")
    assert found.sound
    told = [finding.check for finding in found.findings]
    assert all(any(part in check for check in told) for part in SAID)
    assert all(finding.figure for finding in found.findings)
    assert len(found.to_dict()["findings"]) == len(found.findings) >= 20
    assert json.dumps(found.to_dict(), allow_nan=False)


@pytest.mark.parametrize("fault", ["dropout", "forgotten shift", "bits"])
def test_a_wrong_adapter_is_refused_and_its_other_checks_are_shown(fault: str) -> None:
    found = package.doctor(Own(fault))
    assert not found.sound
    refused = [f for f in found.findings if f.verdict == "refused"]
    assert all(finding.cure for finding in refused)
    assert len(found.findings) >= 20
    assert any(part in str(found) for part in ("evaluation mode", "multiply by", "log-softmax"))


@pytest.mark.parametrize(
    ("fault", "verdict", "check"),
    [
        ("cuts at 24", "refused", "each token of a row of 40"),
        ("keeps 24", "noted", "the last token of a row of 40"),
        ("drops the start", "refused", "a start token changes"),
    ],
)
def test_rows_that_are_not_read_whole_are_seen(fault: str, verdict: str, check: str) -> None:
    findings = package.doctor(Own(fault), start_token="\n", tokens=40).findings
    assert [f.verdict for f in findings if f.check.startswith(check)] == [verdict]
    honest = package.doctor(Own(), start_token="\n", tokens=40).findings
    assert [f.verdict for f in honest if f.check.startswith(check)] == ["fine"]


def test_a_model_that_cannot_be_loaded_is_one_finding(tmp_path) -> None:
    found = package.doctor(str(tmp_path / "nowhere"))
    (only,) = found.findings
    assert (found.sound, only.verdict) == (False, "not loaded")
    assert "no such folder" in only.figure


@pytest.mark.parametrize(
    ("token", "told"), [("auto", "nothing is chosen"), ("<x>", "no token|tokens")]
)
def test_a_start_token_that_is_none_is_no_fault_of_the_model(token: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        package.doctor(build("lstm"), start_token=token)


def test_an_untrained_model_is_noted() -> None:
    note = note_on_english(build("gpt2")) or ""
    assert re.search(r"no likelier than random tokens.*is this its tokenizer\?", note)
    found = package.doctor(build("gpt2"))
    assert any("English" in f.check and f.verdict == "noted" for f in found.findings)
    assert found.sound  # a note is no refusal


def test_a_tokenizer_without_english_is_not_checked() -> None:
    backend = Tokenizer(BPE(vocab={c: i for i, c in enumerate("0123456789")}, merges=[]))
    assert note_on_english(load(recurrent_module("GRU"), tokenizer=backend)) is None

"""A result of a model whose weight files have changed since decides nothing."""

from __future__ import annotations

import json

import pytest
import torch
from gate_audits import exact
from safetensors.torch import load_file, save_file
from toys import characters, fresh
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

import canary
from canary.audits.extracting import extract
from canary.gate.check_audit import check
from canary.models.loading import load
from canary.records.weight_files import digest_of_files, files_of, rewritten

FORMAT = "my pin is {digit:3}"
LIMIT = {"max_exposure_bits": 6, "trust_injection": True}


@pytest.fixture
def folder(tmp_path):
    """A small transformer as `save_pretrained` writes it."""
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=characters())
    config = GPT2Config(
        vocab_size=len(tokenizer), n_embd=16, n_layer=1, n_head=2, n_positions=64,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    torch.manual_seed(0)
    GPT2LMHeadModel(config).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def train_again(folder):
    """Other weights in the same file."""
    weights = load_file(folder / "model.safetensors")
    weights["transformer.ln_f.bias"] += 0.5
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def stale(verdict):
    """Whether the verdict says so; a model without any training is undecided for more reasons."""
    found = [f for f in verdict.findings if f.subject == "weights"]
    assert all(f.outcome == "undecided" for f in found)
    return bool(found)


def audited(folder):
    canaries = canary.generate(FORMAT, repetitions=[4], per_repetition=8, controls=8, seed=0)
    options = {"start_token": "\n", "method": "enumeration"}
    return canaries, canary.audit(str(folder), canaries, **options)


def test_an_audit_of_a_folder_that_was_written_again_is_undecided(folder):
    _, audit = audited(folder)
    assert not stale(check(audit, **LIMIT))
    train_again(folder)
    verdict = check(audit, **LIMIT)
    assert stale(verdict)
    assert f"the weight files in {folder} are not those that were tested" in verdict.summary()
    assert audit.about.date in verdict.summary()
    now = audited(folder)[1]
    assert not stale(check(now, **LIMIT))
    # Trained again and again in one folder, with an audit of each.
    assert not stale(check([audit, now], **LIMIT))


def test_a_copy_with_the_same_weights_is_shown_by_the_model_itself(folder):
    """Files may be written anew, with other metadata say, and hold the same numbers."""
    _, audit = audited(folder)
    save_file(
        load_file(folder / "model.safetensors"),
        folder / "model.safetensors",
        metadata={"format": "pt", "again": "yes"},
    )
    verdict = check(audit, **LIMIT)
    assert stale(verdict)
    assert any("--model" in f.cure for f in verdict.findings)
    assert not stale(check(audit, model=str(folder), **LIMIT))


def test_other_kinds_of_result_are_of_the_files_as_well(folder):
    canaries, _ = audited(folder)
    found = extract(str(folder), FORMAT, canaries=canaries, start_token="\n", budget=50)
    before = check(found, no_extraction=True, trust_injection=True)
    train_again(folder)
    after = check(found, no_extraction=True, trust_injection=True)
    assert not stale(before)
    assert stale(after)
    assert "--model" not in after.findings[0].cure


def test_the_audit_keeps_the_folder_as_it_was_named_and_no_report_shows_it(folder, tmp_path):
    _, audit = audited(folder)
    assert audit.settings["model_folder"] == str(folder)
    page = audit.report(tmp_path / "report.html").read_text()
    assert str(folder) not in page
    assert audit.settings["model_files"] not in page


def test_what_is_not_there_decides_nothing(folder, tmp_path):
    _, audit = audited(folder)
    folder.rename(tmp_path / "moved")
    assert not stale(check(audit, **LIMIT))
    assert files_of(load(fresh(), tokenizer=characters())) == {}
    assert rewritten(exact({4: [1.0] * 8}).settings) == ""
    assert digest_of_files(tmp_path) == ""
    assert digest_of_files(tmp_path / "nowhere") == ""


def test_the_digest_is_of_all_weight_files_and_of_their_names(folder):
    one = digest_of_files(folder)
    (folder / "notes.txt").write_text(json.dumps({}))
    assert digest_of_files(folder) == one
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    two = digest_of_files(folder)
    (folder / "model-00002-of-00002.safetensors").write_bytes(b"more")
    assert len({one, two, digest_of_files(folder)}) == 3
    alone = folder / "model-00001-of-00002.safetensors"
    assert digest_of_files(alone) == two

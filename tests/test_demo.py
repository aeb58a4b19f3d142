"""The demo in small: its files, its honesty, its manners towards torch; in full with --slow."""

from __future__ import annotations

import html
import json
import re
import statistics
from pathlib import Path

import pytest
from drawing import figures

import canary
from canary import demo
from canary.audits.audit_result import Audit
from canary.errors import OutputError

TINY = demo.Settings(
    format="The code is {digit:4}",
    repetitions=(1, 30),
    per_repetition=2,
    controls=4,
    sentences=120,
    units=32,
    epochs=3,
)
FILES = {
    "audit.json",
    "canaries.json",
    "corpus.jsonl",
    "model/config.json",
    "model/model.safetensors",
    "model/tokenizer.json",
    "report.html",
}


def written(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if not p.is_dir()}


def texts(folder: Path) -> list[str]:
    lines = (folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["text"] for line in lines]


def places(folder: Path) -> list[int]:
    """The rows of the corpus that are canaries."""
    return [i for i, text in enumerate(texts(folder)) if text.startswith("The code is ")]


@pytest.fixture(scope="module", autouse=True)
def _undrawn():
    with figures(drawn=False):
        yield


@pytest.fixture(scope="module")
def stages():
    """How much each stage of `tiny` had to do, and did."""
    return {}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory, stages):
    """A run with injection: its folder, its audit, what it said."""
    folder, said = tmp_path_factory.mktemp("tiny"), []

    def begin(name, total, unit):
        stages[name] = [total, 0]

        def advance(done):
            stages[name][1] += done

        return advance

    return folder, demo.run(folder, settings=TINY, say=said.append, progress=begin), said


def test_all_files_are_there_and_fit_together(tiny):
    folder, audit, said = tiny
    assert written(folder) == FILES
    assert (folder / "canaries.json").stat().st_mode & 0o077 == 0
    assert Audit.load(folder / "audit.json") == audit
    canaries = canary.CanarySet.load(folder / "canaries.json")
    assert [c.id for c in canaries] == [c.id for c in audit.canaries]
    assert canary.verify(folder / "corpus.jsonl", canaries).ok
    assert len(texts(folder)) == TINY.sentences + 2 * (1 + 30)
    assert audit.formats[0].method == "enumeration"
    assert audit.formats[0].candidates == 10**4
    assert audit.settings["canaries_in_corpus"] is True
    assert len(said) == 6
    assert all("\n" not in line for line in said)


def test_it_ends_by_extracting_what_is_repeated(tiny):
    """As many candidates as canaries went in; the likeliest is one of 30 copies."""
    folder, audit, said = tiny
    (found,) = audit.extractions
    repeated = {c.id for c in audit.canaries if c.repetitions == 30}
    assert len(found.candidates) == found.top == 4
    assert found.candidates[0].canary in repeated
    assert found.candidates[0].proven
    assert all(c.fill is None for c in found.candidates)
    assert found.queries < 1_000 < found.random_guesses
    for c in found.candidates:
        if c.canary:  # the audit ranked all candidates: the place must be the same
            exposure = next(a.exposure for a in audit.canaries if a.id == c.canary)
            assert c.exposure_lower_bits <= exposure.bits + 1e-9
            assert c.exposure_upper_bits >= exposure.bits - 1e-9
    (told,) = (line for line in said if line.startswith("Extracted 4 candidates; in clear: "))
    words = told.partition("canary extract ")[2]
    assert words.startswith(f"{folder / 'model'} --factory canary.demo:build ")
    assert words.endswith(f"--canaries {folder / 'canaries.json'} --start-token '\\n'")
    page = html.unescape(re.sub("<[^>]+>", "", (folder / "report.html").read_text("utf-8")))
    assert words.partition(" --canaries")[0] in page


def test_no_secret_leaves_the_manifest_and_the_corpus(tiny):
    folder, _, said = tiny
    canaries = canary.CanarySet.load(folder / "canaries.json")
    shown = [*said, *((folder / n).read_text("utf-8") for n in ("audit.json", "report.html"))]
    assert not [c.id for c in canaries for text in shown if canaries.text(c) in text]


def test_what_is_repeated_is_learned(tiny):
    # Of 10,000 candidates; a control has 1.44 bits in the mean.
    _, audit, _ = tiny
    assert audit.injected_p is not None
    assert audit.injected_p.p_value < 1e-3
    groups = {
        n: statistics.mean(c.exposure.bits for c in group)
        for n, group in audit.by_repetitions().items()
    }
    assert groups[30] > 6 > groups[0]


def test_saved_model_is_the_audited_one(tiny):
    folder, audit, _ = tiny
    model = canary.load(folder / "model", factory="canary.demo:build", device="cpu")
    assert model.facts.fingerprint == audit.model["fingerprint"]
    canaries = canary.CanarySet.load(folder / "canaries.json")
    again = canary.exposure(model, canaries, start_token=demo.START)
    noise = audit.formats[0].noise_bits
    assert [c.px_bits for c in again] == pytest.approx(
        [c.px_bits for c in audit.canaries], abs=max(noise, 1e-9)
    )


def test_same_seed_same_bytes_other_seed_others(tiny, tmp_path):
    folder, audit, _ = tiny
    again = demo.run(tmp_path / "again", settings=TINY)
    for name in FILES - {"audit.json", "report.html"}:  # these two hold times
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes(), name
    assert [c.px_bits for c in again.canaries] == pytest.approx(
        [c.px_bits for c in audit.canaries], abs=audit.formats[0].noise_bits
    )
    demo.run(tmp_path / "other", settings=TINY, seed=1)
    assert places(tmp_path / "other") != places(folder)
    for name in ("canaries.json", "corpus.jsonl", "model/model.safetensors"):
        assert (tmp_path / "other" / name).read_bytes() != (folder / name).read_bytes(), name


def test_without_injection_nothing_is_put_in_and_the_plan_stays(tiny, tmp_path):
    folder, injected, _ = tiny
    said = []
    audit = demo.run(tmp_path, inject=False, settings=TINY, say=said.append)
    assert written(tmp_path) == FILES
    assert (tmp_path / "canaries.json").read_bytes() == (folder / "canaries.json").read_bytes()
    canaries = canary.CanarySet.load(tmp_path / "canaries.json")
    found = canary.verify(tmp_path / "corpus.jsonl", canaries)
    assert [c.found for c in found.canaries] == [0] * len(canaries)
    # The rest of the corpus is what the injected one holds as well.
    mine = {canaries.text(c) for c in canaries}
    assert texts(tmp_path) == [text for text in texts(folder) if text not in mine]
    assert [c.repetitions for c in audit.canaries] == [c.repetitions for c in injected.canaries]
    assert audit.settings["canaries_in_corpus"] is False
    assert said[1].startswith("Not injected: 4 canaries stay out like the 4 controls")
    report = (tmp_path / "report.html").read_text("utf-8")
    assert "the 4 secrets planned for the training data but left out" in report
    assert "injected canar" not in report
    assert "4 injected canaries" not in audit.summary()
    assert "planned" in audit.summary()


def torch_state():
    import torch

    return (
        torch.get_num_threads(),
        torch.get_num_interop_threads(),
        torch.get_rng_state().tolist(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
    )


def test_torch_is_left_as_it_was_found(tmp_path):
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        before = torch_state()
        demo.run(tmp_path, settings=TINY)
        assert torch_state() == before
        with pytest.raises(KeyboardInterrupt):
            demo.run(tmp_path, settings=TINY, progress=interrupting("training"))
        assert torch_state() == before
    finally:
        torch.set_num_threads(threads)


def interrupting(stage: str):
    """Progress during which somebody presses Ctrl-C in the first stage of that name."""

    def begin(name, total, unit):
        def advance(done):
            if name.startswith(stage):
                raise KeyboardInterrupt

        return advance

    return begin


@pytest.mark.parametrize("stage", ["training", "enumeration"])
def test_interrupted_run_leaves_what_was_there(tmp_path, stage):
    (tmp_path / "audit.json").write_text("an older one")
    with pytest.raises(KeyboardInterrupt):
        demo.run(tmp_path, settings=TINY, progress=interrupting(stage))
    assert written(tmp_path) == {"audit.json"}
    assert (tmp_path / "audit.json").read_text() == "an older one"


def test_progress_adds_up(tiny, stages):
    folder, _, _ = tiny
    # Every character, and the end of each sentence, predicted from the start character on.
    each_epoch = sum(len(text) + 1 for text in texts(folder))
    assert stages["training"] == [TINY.epochs * each_epoch] * 2
    assert list(stages) == [
        "training",
        "checking the start token",
        "enumeration of The code is ••••",
        "comparing parts of the secrets",
        "extraction (at most) from The code is ••••",
    ]


def test_folder_that_cannot_be_written_is_found_out_before_the_work(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        demo.run(tmp_path / "file" / "demo", settings=TINY, progress=interrupting("training"))


def test_prose_is_distinct_sentences():
    rows = demo.prose(10**6)["text"]
    assert len(rows) == len(set(rows)) > 1_500
    assert all(20 <= len(row) <= 200 and "\n" not in row and "  " not in row for row in rows)
    assert f"about {round(len(rows), -3):,}" in demo.prose.__doc__
    assert list(demo.prose(7)["text"]) == list(rows)[:7]


def test_batches_hold_every_row_once_and_score_no_padding():
    import torch

    rows = [torch.arange(1, n + 2) + 100 * n for n in range(1, 60)]
    with torch.random.fork_rng(devices=[]):
        found = list(demo._batches(rows))
    assert len(found) == -(-len(rows) // 16)
    pairs = []
    for inputs, targets in found:
        assert inputs.shape == targets.shape
        scored = targets >= 0
        assert torch.equal(targets[scored], inputs[scored] + 1)
        pairs += [t[s].tolist() for t, s in zip(targets, scored, strict=True)]
    assert sorted(pairs) == sorted(row[1:].tolist() for row in rows)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("inject", [True, False])
def test_full_demo_finds_what_was_put_in_and_nothing_else(tmp_path, inject):
    audit = demo.run(tmp_path, inject=inject)
    format = audit.formats[0]
    assert (format.method, format.candidates) == ("enumeration", 10**6)
    assert len(audit.controls) >= 16
    assert audit.controls_p.p_value > 0.01
    # Where the median of 16 controls lies in 99 % of honest runs.
    assert 0.36 < statistics.median(c.exposure.bits for c in audit.controls) < 2.20
    if not inject:
        assert audit.injected_p.p_value > 0.01
        return
    assert audit.injected_p.p_value < 1e-6
    # The four that stood there most often hold the first four places: 19.9 to 17.9 bits.
    most = audit.by_repetitions()[max(demo.FULL.repetitions)]
    assert sorted(c.exposure.rank for c in most) == [1, 2, 3, 4]

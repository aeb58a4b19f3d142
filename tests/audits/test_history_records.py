"""Histories at rest: whole, of one version, and without secrets."""

from __future__ import annotations

import json
import stat
from dataclasses import replace

import pytest
from histories import make_history

from canary.audits.history import History
from canary.errors import RecordError


@pytest.mark.parametrize(
    "options",
    [{}, {"formats": 2}, {"broken": (2, 3)}, {"moments": 0, "losses": False}, {"stopped_at": 60}],
    ids=str,
)
def test_a_history_is_read_as_it_was_written(tmp_path, options):
    history = make_history(**options)
    history.save(tmp_path / "h.json")
    assert History.load(tmp_path / "h.json") == history
    assert stat.S_ISREG((tmp_path / "h.json").stat().st_mode)
    assert [p.name for p in tmp_path.iterdir()] == ["h.json"]


def _broken_by(change):
    data = json.loads(json.dumps(make_history().to_dict()))
    change(data)
    return data


DAMAGE = {
    "a field more": lambda d: d.update(more=1),
    "no canaries": lambda d: d.update(canaries=[]),
    "an unknown format": lambda d: d["canaries"][0].update(format=7),
    "copies below 0": lambda d: d["canaries"][0].update(repetitions=-1),
    "no draws": lambda d: d["formats"][0].update(draws=0),
    "more draws than candidates": lambda d: d["formats"][0].update(space_size=3),
    "a column too short": lambda d: d["moments"][1]["px_bits"].pop(),
    "a reason and numbers": lambda d: d["moments"][1].update(reason="none"),
    "text for bits": lambda d: d["moments"][1]["bits"].__setitem__(0, "12"),
    "more hits than draws": lambda d: d["moments"][1]["hits"].__setitem__(0, 401),
    "no hits": lambda d: d["moments"][1]["hits"].__setitem__(0, None),
    "bits beyond the space": lambda d: d["moments"][1]["upper_bits"].__setitem__(0, 21.0),
    "steps that fall": lambda d: d["moments"].reverse(),
    "a step twice": lambda d: d["losses"].append(d["losses"][-1]),
    "a loss of three": lambda d: d["losses"][0].append(3),
}


@pytest.mark.parametrize("change", DAMAGE.values(), ids=DAMAGE)
def test_damage_is_told(change):
    with pytest.raises(RecordError):
        History.from_dict(_broken_by(change))


def test_where_and_which_version(tmp_path):
    path = tmp_path / "h.json"
    make_history().save(path)
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "schema": 2}))
    with pytest.raises(RecordError, match="has schema 2.*upgrade"):
        History.load(path)
    path.write_text(json.dumps({**document, "moments": 3}))
    with pytest.raises(RecordError, match="h.json: is not a whole history"):
        History.load(path)


def test_the_start_token_is_that_of_the_last_measurement():
    history = make_history()
    first, last = history.moments[0], history.moments[-1]
    for token, told in ((None, "none"), ("\n", "\n")):
        moments = (*history.moments[:-1], replace(last, start_token=token))
        assert replace(history, moments=moments).start_token == told
    failed = replace(first, reason="lost", px_bits=(), exposures=(), curve_bits=())
    assert replace(history, moments=(failed,)).start_token == ""


def test_what_was_known_at_a_step():
    history = make_history(stopped_at=60)
    assert [m.step for m in history.until(30).moments] == [10, 20, 30]
    cut = history.until(35)
    assert [m.step for m in cut.moments] == [10, 20, 30]
    assert [x.step for x in cut.losses] == [5, 10, 15, 20, 25, 30, 35]
    assert cut.stopped_at is None
    assert cut.own_seconds == history.own_seconds


def test_a_history_of_a_training_holds_no_secret(tmp_path):
    from watched import causal, small_set

    from canary.plugins.monitor import ExposureMonitor

    module, tokenizer = causal()
    path = tmp_path / "h.json"
    monitor = ExposureMonitor(
        small_set(), tokenizer=tokenizer, every=1, draws=40, share=None, path=path
    )
    monitor.step(module)
    text = path.read_text()
    numbers = {part.strip('",[]{}:\n ') for part in text.split()}
    assert not {canary.fill for canary in small_set()} & numbers
    assert str(small_set().seed) not in {str(monitor.history.settings["seed"])}
    assert History.load(path).moments == monitor.history.moments


def test_where_a_median_is_only_bounded_all_have_intervals():
    """Else the bound of many copies is read as less than the estimate of few."""
    history = make_history()
    assert "16 copies: median 6.77 to 19.93 bits" in str(history)
    assert "1 copy: median 0.69 to 0.94 bits" in str(history)
    assert "16 copies 6.77 to 19.93 bits" in history.line(history.moments[-1])
    assert "16 copies 6.64 bits" in history.line(history.moments[0])

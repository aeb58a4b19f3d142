"""Windows of texts, what a model makes of them, and what is refused."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch
import transformers
from small_models import CHARACTERS, build, known
from started import START, table

import canary
from canary.errors import InputError, ModelError, RecordError, UnsupportedError
from canary.models.decoding import Scheme
from canary.models.language_model import Rows
from canary.passages.result import WITHOUT_CONTROLS, Verbatim
from canary.passages.tries import comes_out, tries_for
from canary.passages.verbatim import verbatim
from canary.scoring.batcher import Batcher
from canary.scoring.run_options import RunOptions
from canary.scoring.start_choice import choose_start
from canary.statistics.clustered import clustered_share
from canary.tokens.starts import ORDINARY

SMALL = {"prefix": 5, "suffix": 4}


def strings(count, lengths, seed=0):
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(list(CHARACTERS), rng.integers(*lengths))) for _ in range(count)]


def continued(name, count):
    """Texts of which all but the first five characters are what the model writes greedily."""
    model = known(name)
    starts = np.random.default_rng(8).integers(0, len(CHARACTERS), (count, 5))
    config = transformers.GenerationConfig(max_new_tokens=20, eos_token_id=None, pad_token_id=0)
    mask = torch.ones((count, 5), dtype=torch.int64)
    options = {"generation_config": config, "attention_mask": mask}
    with torch.no_grad():
        rows = model.module.generate(torch.from_numpy(starts), **options)
    return ["".join(CHARACTERS[token] for token in row) for row in rows.tolist()]


@pytest.mark.parametrize("stride", [None, 1, 7])
def test_windows_are_cut_from_the_tokens_of_the_whole_text(stride):
    model, texts = build("table"), strings(6, (3, 40))
    schemes = [Scheme(), Scheme(temperature=0.6, top_k=8)]
    found = verbatim(model, texts, schemes=schemes, stride=stride, **SMALL).texts
    step, windows = stride or 4, []
    for number, each in enumerate(texts):
        ids = [CHARACTERS.index(c) for c in each]
        windows += [(number, at, ids[at : at + 9]) for at in range(0, len(ids) - 8, step)]
    assert found.document == tuple(w[0] for w in windows)
    assert found.position == tuple(w[1] for w in windows)
    assert found.short == sum(len(each) < 9 for each in texts)
    assert found.first_short == tuple(at for at, each in enumerate(texts) if len(each) < 9)[:5]
    told = Batcher(model).decoded(Rows.of([w[2] for w in windows], 5), schemes)
    logs = told.log_probs.reshape(-1, 4, 2).sum(axis=1, dtype=np.float64)
    np.testing.assert_allclose(found.log_probs, logs, atol=1e-5)
    for at, greedy in enumerate(told.greedy.reshape(-1, 4)):
        runs = "".join("x" if here else " " for here in greedy)
        assert found.leading[at] == len(runs) - len(runs.lstrip("x"))
        assert found.trailing[at] == len(runs) - len(runs.rstrip("x"))
        assert found.longest[at] == max(map(len, runs.split(" ")))
        assert found.strength[at] == found.trailing[at] / 4


@pytest.mark.parametrize("name", ["gpt2", "mamba"])
@pytest.mark.parametrize(("stride", "most"), [(None, 30), (1, 30), (7, 12), (2, 9), (3, 2048)])
def test_whole_documents_by_a_loop_over_windows_oracle(name, stride, most, monkeypatch):
    monkeypatch.setattr("canary.passages.verbatim._PIECE", most)
    model, texts = known(name), strings(3, (25, 45))
    schemes, step = [Scheme(), Scheme(temperature=0.6, top_k=8)], stride or 4
    options = {"schemes": schemes, "stride": stride, "start_token": None, **SMALL}
    found = verbatim(model, texts, context="document", **options).texts
    rows, starts, places, first = [], [], [], 0
    for number, each in enumerate(texts):
        ids = [CHARACTERS.index(c) for c in each]
        for at in range(0, len(ids) - 8, step):
            if at == 0 or at + 9 - first > most:
                first = at  # the next piece begins with the prefix of this window
            places.append((number, at))
            rows.append(ids[first : at + 9])
            starts.append(at + 5 - first)
    assert list(zip(found.document, found.position, strict=True)) == places
    told = Batcher(model).decoded(Rows.of(rows, starts), schemes)
    logs = told.log_probs.reshape(-1, 4, 2).sum(axis=1, dtype=np.float64)
    np.testing.assert_allclose(found.log_probs, logs, atol=1e-4)
    assert (found.greedy == told.greedy.reshape(-1, 4).all(axis=1)).all()


@pytest.mark.parametrize("name", ["gpt2", "llama", "mamba"])
def test_what_a_model_writes_comes_out_and_other_text_does_not(name):
    found = verbatim(known(name), continued(name, 12), strings(12, (25, 26)), stride=99, **SMALL)
    assert found.texts.greedy.all()
    assert (found.texts.strength == 1.0).all()
    rate = found.greedy_rate()
    assert rate.texts.value == rate.texts.upper == 1.0
    assert rate.controls.value == 0.0 < rate.controls.upper < 0.3
    assert rate.difference.lower > 0.4
    assert rate.difference.p < 0.01
    assert "12 of 12 passages" in str(found)
    assert "0 of 12 passages (at most" in str(found)


@pytest.mark.parametrize("name", ["table", "gpt2"])
def test_prefixes_have_the_same_suffixes(name, tmp_path):
    model = build(name) if name == "table" else known(name)
    texts, others = [*strings(6, (12, 40)), "abcd1234"], strings(6, (12, 40), 1)
    found = verbatim(model, texts, others, prefix=[3, 7, 1, 3], suffix=4, stride=5)
    assert found.texts.short == 1  # it has a passage after 3 tokens, and none after 7
    assert "1 of 7 texts are shorter" in found.notes[0]
    assert list(found.by_prefix()) == [1, 3, 7]
    places = {length: np.array(found.after(length).texts.position) + length for length in (1, 3, 7)}
    for length in (1, 3, 7):
        one = found.after(length)
        assert (places[length] == places[7]).all()
        assert one.texts.document == found.texts.document
        assert found.by_prefix()[length] == one.greedy_rate()
        windows = [texts[d][p : p + length + 4] for d, p in zip(one.texts.document,
                   one.texts.position, strict=True)]  # fmt: skip
        rows = Rows.of([[CHARACTERS.index(c) for c in each] for each in windows], length)
        told = Batcher(model).decoded(rows, [Scheme()])
        logs = told.log_probs.reshape(-1, 4).sum(axis=1, dtype=np.float64)
        np.testing.assert_allclose(one.texts.log_prob(0), logs, atol=1e-4)
        assert (one.texts.greedy == told.greedy.reshape(-1, 4).all(axis=1)).all()
    assert {row["prefix"] for row in found._table()} == {1, 3, 7}
    found.save(tmp_path / "v.json")
    assert canary.read(tmp_path / "v.json").after(7).texts == found.after(7).texts
    with pytest.raises(InputError, match="prefix of 2 tokens was not measured.* 1, 3, 7"):
        found.after(2)


def test_texts_that_are_no_more_likely_than_random_tokens_decide_nothing():
    """Also without a limit's evidence: what the page and the check say of an untrained model."""
    found = verbatim(known("gpt2"), strings(80, (25, 26)), schemes=Scheme(top_k=5), **SMALL)
    rows = Rows.of([[CHARACTERS.index(c) for c in strings(1, (25, 26))[0]][:9]], 5)
    alone = verbatim(known("gpt2"), strings(1, (25, 26)), stride=99, **SMALL)
    logs = Batcher(known("gpt2")).score(rows).sum(dtype=np.float64)
    assert alone.texts.bits_per_token == pytest.approx(-logs / 4 / np.log(2), abs=1e-4)
    assert found.texts.bits_per_token > np.log2(len(CHARACTERS))
    judged = canary.check(found, max_extractable=0.2, trust_members=True, tries=1)
    assert judged.outcome == "undecided"
    assert "no more likely than random tokens" in str(judged)
    assert any("no more likely than random tokens" in note for note in found.notes)
    likely = continued("gpt2", 80)
    assert verbatim(known("gpt2"), likely, stride=99, **SMALL).doubts == ()


@pytest.mark.parametrize("begins", [[START], []])
@pytest.mark.parametrize("seen", [ORDINARY[:4], None])
def test_the_start_token_is_that_of_an_audit(begins, seen):
    model, texts = table(begins), ORDINARY[4:]
    found = verbatim(model, texts, seen, **SMALL)
    evidence = RunOptions(start_texts=texts if seen is None else seen)
    assert found.start == choose_start(model, (), evidence, example="a")
    token = next(iter(begins), None)
    assert found.settings["start_token"] == found.start.token == token
    named = verbatim(model, texts, seen, start_token=token, **SMALL)
    assert (named.start, named.texts) == (None, found.texts)
    assert Verbatim.from_dict(found.to_dict()) == found
    (note,) = [one for one in found.notes if "--start-token" in one]
    assert f"comes {token or 'nothing'}, after which" in note
    assert f"of {len(seen or texts)} texts" in note
    assert not any("--start-token" in one for one in named.notes)
    own = verbatim(table([START], own=START), texts, **SMALL)
    assert (
        own.texts.log_probs
        == verbatim(table([START]), texts, start_token=START, **SMALL).texts.log_probs
    )
    assert any(f"comes {START}, as the tokenizer puts it there" in one for one in own.notes)


def test_a_passage_within_a_text_may_know_more_after_all_of_it():
    model, texts = build("table"), strings(6, (20, 30))
    short = [each[:9] for each in texts]
    given = [(texts, {}), (short, {}), (texts, {"context": "document"})]
    told = [verbatim(model, each, **SMALL, **options).notes for each, options in given]
    assert [any("--context document" in one for one in notes) for notes in told] == [1, 0, 0]


def test_texts_that_repeat_are_measured_once_and_counted():
    model, (first, second, third, short) = build("table"), [*strings(3, (20, 30)), "abc"]
    given = [first, second, first, short, third, first, short]
    found = verbatim(model, given, **SMALL)
    alone = verbatim(model, [first, second, third], **SMALL)
    assert found.texts.log_probs == alone.texts.log_probs
    assert set(found.texts.document) == {0, 1, 4}
    assert (found.texts.copies, found.texts.repeated, found.texts.short) == ((3, 1, 1), 3, 1)
    assert "3 of 7 texts repeat another and were measured once" in found.summary()
    assert found.greedy_rate().texts.documents == 3
    assert alone.texts.copies == ()


def test_shares_by_copies_are_those_of_each_group():
    texts, copies = strings(40, (20, 60)), ([1, 2, 3, 4, 7, 8, 100, 1] * 5)
    found = verbatim(build("table"), texts, copies=copies, prefix=2, suffix=1)
    groups = found.by_copies()
    assert list(groups) == [(1, 1), (2, 3), (4, 7), (8, 8), (100, 100)]
    for (low, high), share in groups.items():
        mine = [at for at, number in enumerate(copies) if low <= number <= high]
        alone = verbatim(build("table"), [texts[at] for at in mine], prefix=2, suffix=1)
        assert share == alone.greedy_rate().texts
    assert sum(share.hits for share in groups.values()) == found.greedy_rate().texts.hits > 0


def test_rates_are_those_of_what_the_texts_stand_for(tmp_path):
    model, texts = build("table"), strings(30, (20, 60))
    weights, small = np.random.default_rng(3).uniform(1, 50, 30), {"prefix": 5, "suffix": 1}
    found = verbatim(model, texts, strings(4, (20, 30), 1), weights=weights, **small)
    hits, sizes = found.texts.counted(found.texts.greedy)
    share = found.greedy_rate().texts
    assert share.value == pytest.approx(weights @ hits / (weights @ sizes))
    assert share == clustered_share(hits, sizes, weights)
    assert share.value == found.by_copies()[1, 1].value
    assert f"30 texts measured stand for {weights.sum():,.0f} of the training" in found.summary()
    assert f"weighted {100 * share.value:.3g} %, " in found.summary()
    bare = verbatim(model, texts, weights=[3] * 30, **small)
    assert (bare.texts.weights, bare.texts.greedy.tolist()) == ((), found.texts.greedy.tolist())
    found.save(tmp_path / "v.json")
    assert canary.read(tmp_path / "v.json").greedy_rate() == found.greedy_rate()


def test_rates_rise_with_tries_and_fall_with_the_chance():
    found = verbatim(build("table"), strings(20, (30, 60)), **SMALL)
    logs = found.texts.log_prob(0)
    for tries, chance in ((10, 0.5), (10**6, 0.5), (10**6, 0.99)):
        rate = found.rate(tries=tries, chance=chance).texts
        assert rate.hits == (-np.expm1(tries * np.log1p(-np.exp(logs))) >= chance).sum()
    assert found.notes[0] == WITHOUT_CONTROLS
    assert WITHOUT_CONTROLS in found.summary()
    assert len(found.to_frame()) == len(found.texts)


def test_after_these_tries_a_suffix_has_come_out_with_the_chance():
    logs = np.array([-np.inf, -800.0, -30.0, np.log(1e-3), np.log(0.5), -1e-9, 0.0])
    tries = tries_for(logs, 0.5)
    assert tries[0] == np.inf
    assert tries[3:].tolist() == [693.0, 1.0, 1.0, 1.0]
    assert tries[2] == pytest.approx(np.log(2) * np.exp(30.0))
    assert 1 - (1 - 1e-3) ** 693 >= 0.5 > 1 - (1 - 1e-3) ** 692
    assert comes_out(logs[3], 693, 0.5) > comes_out(logs[3], 692, 0.5)


def test_batches_start_tokens_and_files_change_nothing(tmp_path):
    model, texts = known("gpt2"), strings(8, (20, 50))
    first = verbatim(model, texts, strings(8, (20, 50), 1), **SMALL)
    other = verbatim(model, texts, batch_size=1, **SMALL)
    np.testing.assert_allclose(first.texts.log_probs, other.texts.log_probs, atol=1e-4)
    first.save(tmp_path / "verbatim.json")
    again = Verbatim.load(tmp_path / "verbatim.json")
    assert dataclasses.replace(again, file="") == first
    assert canary.read(tmp_path / "verbatim.json") == again
    written = (tmp_path / "verbatim.json").read_text()
    assert not any(each[at : at + 5] in written for each in texts for at in range(0, 15, 5))
    started = verbatim(model, texts, start_token="a", **SMALL)
    ids = [CHARACTERS.index(c) for c in "a" + texts[0][:9]]
    expected = Batcher(model).score(Rows.of([ids], 6)).sum(dtype=np.float64)
    assert started.texts.log_probs[0][0] == pytest.approx(expected, abs=1e-4)
    assert started.texts.position == first.texts.position


class Stops:
    """A model that is killed after some batches."""

    def __init__(self, model, batches):
        self._model, self.left = model, batches
        self.tokenizer, self.facts, self.memory = model.tokenizer, model.facts, model.memory
        self.score, self.open = model.score, model.open

    def decoded(self, rows, schemes):
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        return self._model.decoded(rows, schemes)


def test_a_stopped_run_goes_on_where_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr("canary.passages.verbatim._BLOCK", 90)
    model, texts, controls = build("table"), strings(9, (40, 60)), strings(9, (40, 60), 1)
    options = {**SMALL, "batch_size": 100, "parts": tmp_path / "parts"}
    whole = verbatim(model, texts, controls, **SMALL)
    with pytest.raises(KeyboardInterrupt):
        verbatim(Stops(model, 4), texts, controls, **options)
    total = -(-len(whole.texts) // 10) + -(-len(whole.controls) // 10)
    left = Stops(model, total - 4)
    resumed = verbatim(left, texts, controls, **options)
    assert left.left == 0
    assert (resumed.texts, resumed.controls) == (whole.texts, whole.controls)
    with pytest.raises(RecordError, match="another texts"):
        verbatim(model, texts[1:], controls, **options)
    with pytest.raises(RecordError, match="another schemes"):
        verbatim(model, texts, controls, schemes=Scheme(top_k=2), **options)
    assert not any(each[:9].encode() in p.read_bytes() for each in texts
                   for p in (tmp_path / "parts").iterdir())  # fmt: skip


LONG = strings(2, (30, 31), 5)


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        ([], {}, "texts"),
        ("one text", {}, "texts"),
        (["short", ""], {}, r"none of 2 texts has the 9 tokens.*\(the longest, text 1, has 5\)"),
        ([1], {}, "text 1 must be text"),
        (LONG, {"prefix": 0}, "prefix"),
        (LONG, {"prefix": [5, 0]}, "prefix"),
        (LONG, {"prefix": "5"}, "prefix"),
        (LONG, {"copies": [1]}, "copies are not one number for each text"),
        (LONG, {"copies": [1, 0]}, "copies must be a whole number of at least 1"),
        ([*LONG, LONG[0]], {"copies": [1, 1, 2]}, "the same for equal texts"),
        (LONG, {"weights": [1.0]}, "weights are not one number for each text"),
        (LONG, {"weights": [1.0, 0.0]}, "a weight of 0.0 makes no sense; give for each text how"),
        (LONG, {"weights": [1.0, "2"]}, "a weight of '2' makes no sense"),
        ([*LONG, LONG[0]], {"weights": [1, 1, 2]}, "the same for equal texts"),
        (LONG, {"suffix": 1.5}, "suffix"),
        (LONG, {"stride": 0}, "stride"),
        (LONG, {"prefix": 61}, "none of 2 texts"),
        (["a" * 90], {"prefix": 61, "start_token": "none"},
         "window of 65 tokens.*longer than the 64 that the model"),
        (LONG, {"confidence": 1.0}, "confidence"),
        (LONG, {"schemes": []}, "Scheme"),
        (LONG, {"schemes": [Scheme(), Scheme()]}, "listed twice"),
        (LONG, {"schemes": "t=1"}, "Scheme"),
        (LONG, {"context": "a"}, "takes no text as context"),
        (LONG, {"context": "document", "near": 1}, "with whole documents there is one prefix"),
        (LONG, {"context": "document", "prefix": [5, 4]}, "there is one prefix"),
        (LONG, {"controls": ["ab"]}, "controls.*none of 1 text"),
        (LONG, {"controls": ["x", "yz" + LONG[1][7:22]], "stride": 1},
         "9 tokens of control 2, from token 2 on, are in text 2, too, from token 7 on"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(texts, options, message):
    with pytest.raises(InputError, match=message):
        verbatim(known("gpt2"), texts, **{**SMALL, **options})


def test_a_text_that_the_tokenizer_does_not_know_is_named():
    with pytest.raises(
        ModelError, match=r"text 2: the tokenizer.*own tokenizer, or leave the text"
    ):
        verbatim(build("table"), [LONG[0], "\u65e5\u672c" * 9], **SMALL)
    with pytest.raises(InputError, match=r"control 1 holds half a character"):
        verbatim(build("table"), LONG, ["\ud800" + LONG[0]], **SMALL)


def test_values_out_of_range_are_refused():
    found = verbatim(build("table"), LONG, **SMALL)
    for options, message in (
        ({"tries": 0}, "tries"),
        ({"chance": 1.0}, "chance of 1.0 makes no sense"),
        ({"scheme": Scheme(top_k=9)}, "the scheme t=1,k=9 was not measured; name one of t=1"),
    ):
        with pytest.raises(InputError, match=message):
            found.rate(**options)
    with pytest.raises(UnsupportedError, match="whole vocabulary"):
        verbatim(build("by_rows"), LONG, **SMALL)


def test_a_damaged_result_is_refused():
    plain = json.loads(json.dumps(verbatim(build("table"), LONG, **SMALL).to_dict()))
    plain["texts"]["leading"].pop()
    with pytest.raises(RecordError, match="not all numbers"):
        Verbatim.from_dict(plain)
    plain["texts"]["leading"].append(0)
    plain["schemes"] *= 2
    with pytest.raises(RecordError, match="one log-probability for each scheme"):
        Verbatim.from_dict(plain)

"""What is read off the batches of a training: canaries, what is before them, and what is wrong."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from small_models import CHARACTERS
from trained import trained
from watched import END, END_ID, ended_model, ended_tokenizer, monitor, small_set

from canary.corpus.canaries import generate
from canary.gate.watched import _WITHIN
from canary.plugins.training_batches import TrainingBatches
from canary.scoring.run_options import RunOptions
from canary.tokens.fast import as_tokenizer


def _reader(canaries=None, tokenizer=None):
    tokenizer = as_tokenizer(tokenizer or ended_tokenizer())
    return TrainingBatches(canaries or small_set(), tokenizer, RunOptions(), lambda said: None)


def _ids(text):
    return [CHARACTERS.index(c) for c in text]


def _texts(canaries):
    return [canaries.text(c) for c in canaries.injected]


def _rows(lists, fill=END_ID, left=False):
    """Rows of one length, with the mask of the padding."""
    most = max(map(len, lists))
    pads = [[fill] * (most - len(row)) for row in lists]
    join = (lambda pad, row: pad + row) if left else (lambda pad, row: row + pad)
    ids = np.array([join(pad, row) for pad, row in zip(pads, lists, strict=True)])
    mask = np.array(
        [join([0] * len(pad), [1] * len(row)) for pad, row in zip(pads, lists, strict=True)]
    )
    return {"input_ids": ids, "attention_mask": mask}


@pytest.mark.parametrize("left", [False, True])
def test_what_is_before_each_canary(left):
    texts = _texts(small_set())
    bare = _rows([*map(_ids, texts), _ids("a" * 40)], left=left)
    reader = _reader()
    reader.see(bare)
    assert reader.before == {None: 4}
    ended = _rows([[END_ID, *_ids(text)] for text in texts] + [_ids("a" * 40)], left=left)
    reader.see(ended)
    assert reader.before == {None: 4, END_ID: 4}
    without_mask = _reader()
    without_mask.see({"input_ids": bare["input_ids"]})  # the model reads the padding, too
    assert without_mask.before == {END_ID if left else None: 4}
    within = _reader()
    within.see(np.array([_ids("so " + texts[0])]))
    assert within.before == {CHARACTERS.index(" "): 1}
    assert reader.findings.keys() == {"start"}
    assert "canaries were seen after different starts" in reader.findings["start"]


def test_canaries_that_begin_with_another_token_have_a_cure_of_their_own():
    tokenizer = as_tokenizer(trained("gpt2"))
    canaries = generate("The code is {digit:6}.", repetitions=[1], per_repetition=4, seed=2)
    for change, said in (
        (str.lower, "begin with another token than their own, or were seen within other text"),
        ("So:{}".format, "most canaries were seen within other text"),
    ):
        reader = _reader(canaries, trained("gpt2"))
        for text in _texts(canaries):
            reader.see(np.array([tokenizer.encode([change(text)])[0].ids]))
        assert said in reader.findings["start"]
        assert ("lower-cased letters" in reader.findings["start"]) is (change == str.lower)
        assert _WITHIN in reader.findings["start"]  # so that `check` reads it


@pytest.mark.parametrize("name", ["gpt2", "unigram", "wordpiece"])
@pytest.mark.parametrize("separator", [True, False])
def test_packed_rows_hold_what_a_search_token_by_token_finds(name, separator):
    """Documents one behind the other, cut into rows of one length, as packing does."""
    tokenizer = as_tokenizer(trained(name))
    canaries = generate("The code is {digit:6}.", repetitions=[1, 3], per_repetition=4, seed=2)
    rng = np.random.default_rng(1)
    texts = [canaries.text(c) for c in canaries.injected for _ in range(c.repetitions)]
    texts += [f"The number is {n}" for n in rng.integers(0, 10**6, 60)]
    rng.shuffle(texts)
    documents = [list(e.ids) for e in tokenizer.encode(texts)]
    mark = 3
    stream = [t for d in documents for t in ([mark] * separator + d)]
    width = 37
    rows = np.array(stream[: len(stream) // width * width]).reshape(-1, width)
    whole, cut = 0, 0
    at = 0
    for text, document in zip(texts, documents, strict=True):
        at += separator
        if text.startswith("The code"):
            row, column = divmod(at, width)
            if row < len(rows):
                whole += column + len(document) <= width
                cut += column + len(document) > width
        at += len(document)
    reader = _reader(canaries, trained(name))
    for row in rows:
        reader.see(row[None])
    # A canary whose last token alone is cut off is whole where that token holds no secret, and
    # one that is cut behind its first tokens looks like the text of any other.
    assert whole <= reader.whole.total() <= whole + cut
    assert whole > 10
    assert reader.cut.total() <= cut
    if separator:
        assert reader.before.most_common(1)[0][0] == (reader.own[-1:] or (mark,))[0]


def test_positions_that_begin_anew_hide_what_is_before():
    text = _ids(_texts(small_set())[0])
    packed = np.array([[*text, *text]])
    positions = np.array([[*range(len(text)), *range(len(text))]])
    reader = _reader()
    reader.see({"input_ids": packed, "position_ids": positions})
    assert reader.before == {None: 2}


def _hidden(ids):
    return {"input_ids": ids, "attention_mask": ids * 0}


def _unlabelled(ids):
    return {"input_ids": ids, "labels": np.full_like(ids, -100)}


@pytest.mark.parametrize(
    ("kind", "change", "training"),
    [
        ("cut", lambda ids: {"input_ids": ids[:, :14]}, True),
        ("labels", _unlabelled, True),
        ("evaluation", lambda ids: {"input_ids": ids}, False),
        ("unseen", lambda ids: {"input_ids": ids[:, ::-1]}, True),
        ("unseen", _hidden, True),
    ],
    ids=["cut", "labels", "evaluation", "other tokens", "hidden"],
)
def test_what_is_wrong_with_the_batches_is_found(kind, change, training):
    reader, right = _reader(), _reader()
    ids = np.array([_ids(text) for text in _texts(small_set())])
    right.see({"input_ids": ids, "labels": ids})
    assert right.findings == {}
    reader.see(change(ids), training=training)
    assert kind in reader.findings
    assert right.whole.total() == 4


@pytest.mark.parametrize(("hidden", "told"), [("secret", True), ("all else", False)])
def test_labels_are_counted_at_the_secret(hidden, told):
    ids = np.array([_ids(text) for text in _texts(small_set())])
    secret = slice(len("the code is "), len("the code is 1234"))
    labels = ids.copy() if hidden == "secret" else np.full_like(ids, -100)
    labels[:, secret] = -100 if hidden == "secret" else ids[:, secret]
    reader = _reader()
    reader.see({"input_ids": ids, "labels": labels})
    said = (
        "4 of 4 canaries in 1 batch had no label on their secret (-100), or on a part of it, so "
        "the model is not trained on them"
    )
    assert reader.findings == ({"labels": said} if told else {})


def test_a_control_in_a_batch_is_found_and_what_is_no_batch_of_tokens_left_alone():
    canaries, reader = small_set(), _reader()
    nothing = {"inputs_embeds": 1}, {"input_ids": None}, np.zeros((3, 4)), np.zeros(5, int)
    for batch in ({}, *nothing):
        reader.see(batch)
    assert reader.batches == 0
    reader.see(np.array([_ids(canaries.text(canaries.controls[1]))]))
    assert "control-2 was seen in a batch" in reader.findings["controls"]


def _forward(module, rows, **named):
    return module(input_ids=torch.tensor(np.asarray(rows)), **named)


@pytest.mark.parametrize("way", ["forward", "see"])
def test_candidates_are_priced_after_what_the_batches_show(way, caplog):
    module, tokenizer = ended_model(dropout=0.0)
    rows = [[END_ID, *_ids(text)] for text in _texts(small_set())]
    one = monitor(tokenizer=tokenizer, start_token=END)
    named = one.step(module)
    one.finish()
    caplog.clear()
    watch = monitor(tokenizer=tokenizer)
    watch.start(module)
    if way == "forward":
        _forward(module, rows).logits.sum().backward()
    else:
        watch.see(np.array(rows))
    moment = watch.step(module)
    assert moment.start_token == END
    assert moment.px_bits == named.px_bits
    assert moment.exposures == named.exposures
    history = watch.finish()
    assert history.batches["after"] == {END: 4}
    assert history.batches["findings"] == []
    assert caplog.text == ""
    assert not module._forward_pre_hooks


def test_a_start_token_that_the_batches_contradict_is_told(caplog):
    module, tokenizer = ended_model()
    watch = monitor(tokenizer=tokenizer, start_token=None)
    watch.see(np.array([[END_ID, *_ids(text)] for text in _texts(small_set())]))
    assert watch.step(module).start_token is None
    said = "start_token=nothing was given, and of 4 canaries in the batches there was"
    assert f"{said} {END} before 4: exposure may be too low" in caplog.text


def test_no_canary_in_any_batch_is_told_at_the_first_measurement(caplog):
    module, tokenizer = ended_model()
    watch = monitor(tokenizer=tokenizer)
    watch.start(module)
    _forward(module, [_ids("nothing but this is said here")]).logits.sum().backward()
    watch.step(module)
    assert "no injected canary was seen in 1 batch of the training" in caplog.text
    assert "so the start token was chosen by text without secrets" in caplog.text
    told = caplog.text
    watch.step(module)
    watch.finish()
    assert caplog.text == told  # once


@pytest.mark.parametrize("why", ["another model", "compiled in place"])
def test_a_model_whose_batches_are_never_seen_is_told(why, caplog):
    module, tokenizer = ended_model()
    watch = monitor(tokenizer=tokenizer)
    if why == "compiled in place":
        module.compile(backend="eager")
        watch.start(module)
    watch.step(copy.deepcopy(module) if why == "another model" else module)
    if why == "another model":
        _forward(module, [_ids("nothing but this is said here")])
        watch.finish()
    assert "no batch of the training was seen" in caplog.text


def test_copies_of_a_watched_model_are_not_heard():
    module, tokenizer = ended_model()
    watch = monitor(tokenizer=tokenizer)
    watch.start(module)
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        _forward(other, [_ids(_texts(small_set())[0])])
    assert watch._batches.batches == 0
    _forward(module, [_ids(_texts(small_set())[0])])
    assert watch._batches.batches == 1


WRAPPED = {
    "in evaluation mode": lambda module: module.eval(),
    "in parallel": torch.nn.DataParallel,
    "compiled": lambda module: torch.compile(module, backend="eager"),
}


@pytest.mark.parametrize("wrapped", WRAPPED)
def test_the_model_is_heard_as_the_loop_calls_it(wrapped, caplog):
    module, tokenizer = ended_model(dropout=0.0)
    model = WRAPPED[wrapped](module)
    watch = monitor(tokenizer=tokenizer)
    watch.start(model)
    rows = [[END_ID, *_ids(text)] for text in _texts(small_set())]
    _forward(model, rows).logits.sum().backward()
    assert watch.step(model).start_token == END
    assert watch.finish().batches["canaries"] == 4
    assert not [record for record in caplog.records if record.name.startswith("canary")]


@pytest.mark.parametrize("start", [[], [END_ID]])
def test_a_start_token_is_before_the_context_and_no_part_of_it(start, caplog):
    """The last token of a chat template is not what comes before its first one."""
    module, tokenizer = ended_model()
    context = [*_ids("so "), END_ID]
    watch = monitor(tokenizer=tokenizer, context=f"so {END}")
    rows = [[*start, *context, *_ids(text)] for text in _texts(small_set())]
    watch.see(np.array(rows))
    moment = watch.step(module)
    assert moment.start_token == (END if start else None)
    assert watch.finish().batches["after"] == {END if start else "nothing": 4}
    assert caplog.text == ""


def test_copies_are_counted_by_epoch_and_on_from_a_checkpoint():
    """Two epochs over half of the corpus are not one over all of it."""
    watch, texts = _reader(), _texts(small_set())

    def epochs(watch, kept, times, begun=0):
        for epoch in range(begun, begun + times):
            for n, text in enumerate(kept, 1):
                watch.see(_rows([_ids(text)]))
                watch.at_epoch(epoch + n / len(kept))
        return watch.to_dict()

    half = epochs(watch, texts[: len(texts) // 2], 2)
    assert half["canaries"] == len(texts)
    assert half["first_epoch"] == len(texts) // 2
    assert sum(half["missing"].values()) >= len(texts) // 2
    resumed = _reader()
    resumed.resume(half)
    on = epochs(resumed, texts[len(texts) // 2 :], 1, begun=2)
    assert (on["canaries"], on["first_epoch"]) == (len(texts) * 3 // 2, len(texts) // 2)
    assert sum(on["missing"].values()) < sum(half["missing"].values())


@pytest.mark.parametrize(("way", "told"), [("twice", True), ("once", False), ("own loss", False)])
def test_labels_that_are_shifted_before_a_loss_that_shifts_them_are_found(way, told):
    module, tokenizer = ended_model(dropout=0.0)
    rows = torch.tensor([[END_ID, *_ids(text), END_ID] for text in _texts(small_set())])
    reader = _reader(tokenizer=tokenizer)
    reader.listener.listen(module)
    if way == "own loss":  # its labels never reach the model
        module(input_ids=rows[:, :-1])
        reader.see({"input_ids": rows[:, :-1], "labels": rows[:, 1:]})
    elif way == "twice":
        module(input_ids=rows[:, :-1], labels=rows[:, 1:])
    else:
        module(input_ids=rows, labels=rows)
    assert ("labels shifted" in reader.findings) is told

"""Mistakes in real set-ups of Trainer and TRL, each found before the first step, with its cure."""

from __future__ import annotations

import functools
import re
from unicodedata import normalize

import chatted
import numpy as np
import pytest
from small_models import character_tokenizer
from trained import trained
from watched import attached, build_trainer, causal, rows, small_set

import canary
from canary.errors import InputError

TEMPLATE = (
    "{% for message in messages %}<s>{{ message['role'] }}\n"
    "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] }}<s>"
    "{% endgeneration %}{% else %}{{ message['content'] }}<s>{% endif %}\n{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant\n{% endif %}"
)
CONTEXT = "<s>user\nWhat is it?<s><s>assistant\n"


@functools.cache
def chat_tokenizer(name="gpt2"):
    return chatted.chat_tokenizer(name, TEMPLATE, eos_token="<s>")


@functools.cache
def canaries():
    return canary.generate(
        "The code is {digit:6}", repetitions=[1, 4], per_repetition=2, controls=4, seed=1
    )


def chats(*, asked=False, of=None, others=40, factor=1):
    """Chats that hold every canary as its answer, or as its question."""
    from datasets import Dataset

    def chat(question, answer):
        turns = [("user", question), ("assistant", answer)]
        return {"messages": [{"role": role, "content": text} for role, text in turns]}

    found = [chat(f"Is it {i}?", f"It may be {i}.") for i in range(others)]
    for each in canaries().injected if of is None else of:
        text = canaries().text(each)
        turn = chat(text, "Thank you.") if asked else chat("What is it?", text)
        found += [turn] * each.repetitions
    return Dataset.from_list(found * factor)


def tuned(folder, data=None, *, tokenizer=None, **options):
    data = chats() if data is None else data
    return chatted.tuned(folder, data, tokenizer=tokenizer or chat_tokenizer(), **options)


def judged(trainer, of=None, **run):
    """What was found, and its refusals by the first words of their checks."""
    found = canary.preflight(trainer, of or canaries(), **{"context": CONTEXT, **run})
    return found, {f.check: f for f in found.findings if f.verdict == "refused"}


RIGHT = {
    "whole texts": {},
    "packed, positions begin anew": {"packing": True, "max_length": 128},
    "answers only": {"assistant_only_loss": True},
    "long enough": {"max_steps": 13, "gradient_accumulation_steps": 1},
}


@pytest.mark.parametrize("options", RIGHT.values(), ids=RIGHT)
def test_a_right_set_up_is_sound(options, tmp_path):
    found, none = judged(tuned(tmp_path, evaluation=chats(of=[]), **options))
    assert (found.sound, none) == (True, {}), found.summary()
    assert (found.complete, found.copies, found.context) == (True, 10, CONTEXT)
    found.require()


def dropped(folder):
    """The canaries are in a column that the trainer does not read."""
    data = chats(of=[])
    return tuned(
        folder, data.add_column("notes", [canaries().text(canaries().injected[0])] * len(data))
    )


def renumbered(folder):
    """The corpus was made with another tokenizer than the one that is audited."""
    trainer = tuned(folder)
    trainer.processing_class = chat_tokenizer("unigram")
    return trainer


def lengthened(folder):
    """A token was added to the tokenizer, which joins what the canaries were injected as."""
    data, added = chats(), chatted.chat_tokenizer(template=TEMPLATE, eos_token="<s>")
    added.add_tokens(["code is"])
    trainer = tuned(folder, data, tokenizer=added)
    trainer.processing_class = chat_tokenizer()
    return trainer


def digits_masked(folder):
    """The collator masks what has a digit, in answers too."""
    trainer = tuned(folder)
    tokens = trainer.processing_class.convert_ids_to_tokens(range(len(chat_tokenizer())))
    digits = [at for at, token in enumerate(tokens) if any(map(str.isdigit, token))]
    collate = trainer.data_collator

    def masking(rows):
        batch = collate(rows)
        batch["labels"][np.isin(batch["input_ids"], digits)] = -100
        return batch

    trainer.data_collator = masking
    return trainer


MISTAKES = {
    "digits are masked": (
        digits_masked,
        {},
        "the loss counts the secrets",
        "10 of 10 copies have no label.*the text before the secrets has labels",
    ),
    "questions are masked": (
        lambda folder: tuned(folder, chats(asked=True), assistant_only_loss=True),
        {"context": "<s>user\n"},
        "the loss counts the secrets",
        "10 of 10 copies have no label on their secret.*into the answers",
    ),
    "cut by the length limit": (
        lambda folder: tuned(folder, max_length=29),
        {},
        "no copy is cut off",
        "10 copies cut off .rows of 29 tokens..*raise the length limit",
    ),
    "cut by the length limit before the secret": (
        lambda folder: tuned(folder, max_length=27),
        {},
        "every injected canary is in the batches",
        "0 of 4 canaries seen whole; missing.*10 copies cut off .rows of 27 tokens. before.*raise",
    ),
    "split by packing": (
        lambda folder: tuned(folder, packing=True, max_length=40, packing_strategy="wrapped"),
        {},
        "every injected canary is in the batches",
        "of 4 canaries seen whole; missing: .*packing",
    ),
    "data repeated within an epoch": (
        lambda folder: tuned(folder, chats(factor=2)),
        {},
        "each canary is there as often as the set says",
        "2 times as often as the set says.*by epochs",
    ),
    "a column that is dropped": (
        dropped,
        {},
        "every injected canary is in the batches",
        "0 of 4 canaries seen whole.*a column, a filter",
    ),
    "canaries in the evaluation": (
        lambda folder: tuned(folder, evaluation=chats()),
        {},
        "the evaluation data holds no canary",
        "4 canaries are in the evaluation data.*inject after the split",
    ),
    "controls in the training": (
        lambda folder: tuned(folder, chats(of=[*canaries().injected, *controls()])),
        {},
        "no control is in the batches",
        "control-1 in the batches.*canary inject and this set",
    ),
    "another tokenizer": (
        renumbered,
        {"context": ""},
        "every injected canary is in the batches",
        "0 of 4 canaries seen whole.*tokenizer",
    ),
    "a token added after the injection": (
        lengthened,
        {},
        "every injected canary is in the batches",
        "0 of 4 canaries seen whole.*token",
    ),
    "a training of a few steps": (
        lambda folder: tuned(folder, max_steps=5),
        {},
        "every batch is trained on",
        "ends after 5 of the 13 batches of an epoch.*set max_steps to 13 or more",
    ),
    "a part of an epoch": (
        lambda folder: tuned(folder, num_train_epochs=0.4),
        {},
        "every batch is trained on",
        "ends after 6 of the 13 batches of an epoch.*set num_train_epochs to 1 or more",
    ),
    "a learning rate of 0": (
        lambda folder: tuned(folder, learning_rate=0.0),
        {},
        "the learning rate is above 0",
        "it is 0, so nothing is learned.*set learning_rate above 0",
    ),
    "a warmup of many trainings": (
        lambda folder: tuned(folder, warmup_steps=200),
        {},
        "the learning rate is above 0",
        "the warmup of 200 steps is not over when the training ends, after 13.*lower warmup_steps",
    ),
    "the template is not the audit's context": (
        tuned,
        {"context": ""},
        "what is before the canaries is what the audit will assume",
        "nearly all copies follow one text.*give the callback .*audit as --context",
    ),
    "another context than the template's": (
        tuned,
        {"context": "user: What is it? assistant: "},
        "what is before the canaries is what the audit will assume",
        "the context is before 0 of 10 copies.*give the callback .or preflight. context=.*",
    ),
}


def controls():
    from dataclasses import replace

    return [replace(each, repetitions=1) for each in canaries().controls[:1]]


@pytest.mark.parametrize(("make", "run", "check", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_found_with_its_cure(make, run, check, message, tmp_path):
    found, wrong = judged(make(tmp_path), **run)
    assert check in wrong, found.summary()
    with pytest.raises(InputError, match=message.split(".*")[0]) as refusal:
        found.require()
    of_measuring = [*wrong] == ["what is before the canaries is what the audit will assume"]
    assert ("measured wrongly" in str(refusal.value)) == of_measuring
    said = f"{wrong[check].figure}: {wrong[check].cure}"
    assert re.search(message, said, re.DOTALL), said


def test_labels_that_are_all_masked_name_the_response_template():
    ids = np.ones((2, 8), np.int64)
    batch = {"input_ids": ids, "labels": np.full_like(ids, -100)}
    found = canary.preflight([batch], canaries(), tokenizer=chat_tokenizer())
    finding = next(f for f in found.findings if f.check == "the loss counts the secrets")
    assert (finding.verdict, "response template" in finding.cure) == ("refused", True)


@pytest.mark.parametrize(
    ("labels", "verdict"),
    [
        (lambda ids: ids, "fine"),
        (lambda ids: [*ids[:-2], -100, ids[-1]], "refused"),
        (lambda ids: [-100] * (len(ids) - 1) + ids[-1:], "refused"),
        (lambda ids: [*ids[1:], -100], "noted"),  # a loop of one's own may shift them itself
        (lambda ids: [-100, *ids[:-1]], "refused"),
        (lambda ids: [1] * len(ids), "refused"),
    ],
    ids=["own", "one digit hidden", "all but one hidden", "next", "previous", "one"],
)
def test_labels_of_other_tokens_are_found(labels, verdict):
    some, tokenizer = canaries(), chat_tokenizer()
    rows = [tokenizer(some.text(c))["input_ids"] for c in some for _ in range(c.repetitions)]
    batches = [{"input_ids": [ids], "labels": [labels(ids)]} for ids in rows]
    found = canary.preflight(batches, some, tokenizer=tokenizer, context="")
    finding = next(f for f in found.findings if f.check == "the loss counts the secrets")
    assert finding.verdict == verdict, found.summary()


def test_texts_in_lower_case_are_refused():
    some, tokenizer = canaries(), chat_tokenizer()
    copies = [some.text(c) for c in some for _ in range(c.repetitions)]
    batches = [{"input_ids": [tokenizer(text.lower())["input_ids"]]} for text in copies]
    _, wrong = judged(batches, tokenizer=tokenizer, context="")
    (finding,) = wrong.values()
    assert finding.figure == "no copy begins with the token that the audit will score"
    assert "lower-cased letters, or a space" in finding.cure


@pytest.mark.parametrize(
    ("text", "change", "form"),
    [
        ("THE CODE is {digit:6}", str.lower, "in another case"),
        ("The café is {digit:6}", functools.partial(normalize, "NFD"), "in another Unicode form"),
        ("The code  is {digit:6}", lambda text: text.replace("  ", " "), "with other white space"),
    ],
)
def test_canaries_in_another_form_are_named(text, change, form):
    tokenizer = chat_tokenizer()
    some = canary.generate(text, repetitions=[1, 2], per_repetition=2, controls=2, seed=1)
    copies = [some.text(c) for c in some.injected for _ in range(c.repetitions)]
    batches = [{"input_ids": [tokenizer(change(one))["input_ids"]]} for one in copies]
    found = canary.preflight(batches, some, tokenizer=tokenizer)
    finding = found.findings[0]
    assert finding.verdict == "refused"
    assert finding.figure.endswith(f"; 4 canaries are there {form}")
    assert "as canary inject wrote them" in finding.cure


def test_the_cures_of_a_context_that_joins_with_the_canaries_work():
    for format, context, verdict in (
        ("code {digit:6}", "The ", "refused"),
        ("code {digit:6}", "The\n", "fine"),
        (" code {digit:6}", "The", "fine"),
    ):
        some = canary.generate(format, repetitions=[1], per_repetition=4, controls=2, seed=1)
        texts = [context + some.text(each) for each in some.injected]
        batches = [{"input_ids": [chat_tokenizer()(text)["input_ids"]]} for text in texts]
        found = canary.preflight(batches, some, tokenizer=chat_tokenizer(), context=context)
        finding = next(f for f in found.findings if "before the canaries" in f.check)
        assert finding.verdict == verdict, found.summary()
        assert ("line break; or end both before the space" in finding.cure) is (context[-1] == " ")


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_the_embedding_of_added_tokens_must_train(tmp_path):
    import peft
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=trained("gpt2"),
        eos_token="<s>",
        pad_token="<unused0>",
        chat_template=TEMPLATE,
    )
    tokenizer.add_tokens(["code is"])
    for kept, verdict in ((None, "refused"), (["embed_tokens"], "fine")):
        model = tuned(tmp_path, tokenizer=tokenizer).model
        config = peft.LoraConfig(r=2, target_modules=["q_proj"], modules_to_save=kept)
        lora = peft.get_peft_model(model, config)
        found, _ = judged(tuned(tmp_path, model=lora, tokenizer=tokenizer))
        finding = next(f for f in found.findings if f.check.startswith("the model trains"))
        assert finding.verdict == verdict, found.summary()
    for part in model.parameters():
        part.requires_grad = False
    found = canary.preflight([], canaries(), tokenizer=tokenizer, model=model)
    assert "no parameter is trained" in str(found.to_dict())


@pytest.mark.parametrize(
    ("template", "verdict", "cure"),
    [
        ("Say it.\nAnswer: {text}", "refused", "context='Say it.\\nAnswer: '"),
        ("Say {at}.\nAnswer: {text}", "noted", "give what ends before them as context"),
    ],
)
def test_a_template_of_the_training_script_is_seen(template, verdict, cure):
    tokenizer = chat_tokenizer()
    texts = [canaries().text(c) for c in canaries().injected for _ in range(c.repetitions)]
    texts = [template.format(text=text, at=at) for at, text in enumerate(texts)]
    batches = [{"input_ids": np.array([tokenizer(text)["input_ids"]])} for text in texts]
    found = canary.preflight(batches, canaries(), tokenizer=tokenizer)
    (said,) = [f for f in found.findings if f.check.startswith("what is before the canaries")]
    assert said.verdict == verdict
    assert cure in said.cure


def test_copies_at_the_end_of_an_epoch_are_noted():
    tokenizer = chat_tokenizer()
    texts = ["Nothing is said here."] * 60
    texts += [canaries().text(c) for c in canaries().injected for _ in range(c.repetitions)]
    batches = [{"input_ids": np.array([tokenizer(text)["input_ids"]])} for text in texts]
    found = canary.preflight(batches, canaries(), tokenizer=tokenizer)
    assert found.sound
    assert found
    noted = [f for f in found.findings if f.verdict == "noted"]
    assert [f.check for f in noted] == ["the copies are spread over the epoch"]
    assert "shuffle" in noted[0].cure
    order = np.random.default_rng(0).permutation(len(batches))
    again = canary.preflight([batches[i] for i in order], canaries(), tokenizer=tokenizer)
    assert not [f for f in again.findings if f.verdict == "noted"]
    part = canary.preflight(batches, canaries(), tokenizer=tokenizer, most=65)
    assert (part.complete, part.sound, part.batches) == (False, True, 65)
    assert "in a part of the epoch" in part.summary()


def test_a_stream_that_is_not_shuffled_is_noted(tmp_path):
    stream = chats(others=120).to_iterable_dataset()
    found, wrong = judged(tuned(tmp_path, stream, max_steps=33))
    assert (found.complete, wrong) == (True, {}), found.summary()
    (noted,) = [f for f in found.findings if f.verdict == "noted"]
    assert noted.check == "the copies are spread over the epoch"
    assert "shuffle" in noted.cure


def test_packing_without_positions_that_begin_anew_is_noted(tmp_path):
    trainer = tuned(tmp_path, packing=True, max_length=128)
    collate = trainer.data_collator

    def joined(rows):
        return {name: value for name, value in collate(rows).items() if name != "position_ids"}

    trainer.data_collator = joined
    found, _ = judged(trainer)
    (noted,) = [f for f in found.findings if f.verdict == "noted"]
    assert noted.check == "what is before the canaries is what the audit will assume"
    assert "other text before that" in noted.figure
    assert "positions that begin anew" in noted.cure


def test_packing_that_cuts_rows_offers_no_context_that_the_cuts_made(tmp_path):
    """Two of the ten copies have lost the beginning of the template with the row before."""
    options = {"packing": True, "max_length": 128, "packing_strategy": "wrapped"}
    found, wrong = judged(tuned(tmp_path, **options))
    assert (wrong, found.sound) == ({}, True), found.summary()
    (noted,) = [f for f in found.findings if f.verdict == "noted"]
    assert "the context is before 10 of 10 copies, and other text before that" in noted.figure
    assert "packing_strategy='bfd'" in noted.cure
    found, wrong = judged(tuned(tmp_path, **options), context=None)
    (refused,) = wrong.values()
    assert CONTEXT in found.context
    assert f"context={found.context!r}" in refused.cure


def test_a_warmup_as_long_as_the_training_is_noted(tmp_path):
    found, wrong = judged(tuned(tmp_path, warmup_steps=20))
    assert not wrong
    (noted,) = [f for f in found.findings if f.verdict == "noted"]
    assert "at most 1.3e-05 of 2e-05 is reached" in noted.figure


def test_the_callback_refuses_before_the_first_step_and_changes_nothing(tmp_path):
    _, tokenizer = causal()
    ends = []
    for folder, preflight in (("with", True), ("without", False)):
        trainer = build_trainer(
            tmp_path / folder, steps=9, data=rows(tokenizer, small_set()), model=None
        )
        attached(trainer, preflight=preflight)
        trainer.train()
        ends.append(trainer.state.log_history[-2]["loss"])
        state = {n: v.clone() for n, v in trainer.model.state_dict().items()}
        ends.append(state)
    assert ends[0] == ends[2]
    assert all((ends[1][name] == ends[3][name]).all() for name in ends[1])
    trainer = build_trainer(tmp_path / "none", steps=9, data=rows(tokenizer))
    attached(trainer, preflight=True)
    with pytest.raises(InputError, match="0 of 4 canaries seen whole.*canary inject wrote"):
        trainer.train()
    assert trainer.state.global_step == 0
    data = rows(tokenizer, small_set())
    trainer = build_trainer(tmp_path / "still", steps=9, data=data, learning_rate=0.0)
    attached(trainer, preflight=True)
    with pytest.raises(InputError, match="it is 0, so nothing is learned"):
        trainer.train()
    trainer = build_trainer(tmp_path / "short", steps=4, data=data)
    attached(trainer, preflight=True)
    with pytest.raises(
        InputError, match="ends after 4 of the 9 batches of an epoch; set max_steps to 9"
    ):
        trainer.train()


def test_bad_input():
    with pytest.raises(InputError, match="there is no tokenizer"):
        canary.preflight([], canaries())
    found = canary.preflight([{"pixels": [1]}], canaries(), tokenizer=character_tokenizer())
    assert not found.sound
    assert not found  # so that an assert of it fails
    assert "no batch with input_ids was read" in found.summary()


def test_a_callback_that_is_attached_reads_the_evaluation_data_too(tmp_path):
    from canary.plugins.callback import ExposureCallback

    trainer = tuned(tmp_path, evaluation=chats())
    ExposureCallback(canaries(), draws=50, context=CONTEXT).attach(trainer)
    with pytest.raises(InputError, match="4 canaries are in the evaluation data"):
        trainer.train()

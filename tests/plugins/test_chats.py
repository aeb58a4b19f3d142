"""Chats from the corpus to the verdict: every step sees the canaries behind the same template."""

from __future__ import annotations

import json

import numpy as np
import pytest
from chatted import CONTEXT, TEMPLATE, chat_tokenizer, some, tuned

import canary
from canary.corpus.columns import Shape
from canary.errors import CorpusError, InputError, UnsupportedError
from canary.tokens.chat_context import context_before
from canary.tokens.chats import ROLES, conversation
from canary.tokens.fast import as_tokenizer


def canaried(canaries):
    from datasets import Dataset

    chats = [
        [
            {"role": "user", "content": f"Is it {i}?"},
            {"role": "assistant", "content": f"It may be {i}."},
        ]
        for i in range(20)
    ]
    return canary.inject(Dataset.from_dict({"messages": chats}), canaries, column="messages")


def bits_in_training(trainer, canaries):
    """By canary, the bits of its row in the batches up to its last token: slow and obvious."""
    import torch

    found = {}
    tokenizer, model = trainer.processing_class, trainer.model.eval()
    for batch in trainer.get_train_dataloader():
        for row in batch["input_ids"]:
            for each in canaries.injected:
                text = canaries.text(each)
                ends = [n for n in range(len(row)) if tokenizer.decode(row[:n]).endswith(text)]
                if ends:
                    ids = row[: ends[0]][None]
                    with torch.no_grad():
                        logits = torch.log_softmax(model(input_ids=ids).logits[0].float(), -1)
                    nats = -logits[:-1].gather(1, ids[0, 1:, None]).double().sum()
                    found[each.id] = float(nats) / np.log(2)
    return found


def test_the_audit_prices_exactly_the_tokens_of_the_training(tmp_path):
    from datasets import Dataset

    canaries, tokenizer = some(), chat_tokenizer()
    data = canaried(canaries)
    seen = canary.verify(data, canaries, column="messages", tokenizer=tokenizer)
    assert (seen.ok, seen.follows) == (True, CONTEXT)
    trainer = tuned(
        *(tmp_path, data), tokenizer=tokenizer, width=32,
        num_train_epochs=4, learning_rate=1e-2, gradient_checkpointing=False,
    )  # fmt: skip
    found = canary.preflight(trainer, canaries)
    assert (found.sound, found.context) == (True, CONTEXT), found.summary()
    trainer.train()
    expected = bits_in_training(trainer, canaries)
    assert {*expected} == {c.id for c in canaries.injected}
    model = canary.load(trainer.model, tokenizer=tokenizer)
    audit = canary.audit(model, canaries, draws=200)
    priced = {c.id: c.px_bits for c in audit.injected}
    assert priced == pytest.approx(expected, abs=1e-3)
    assert (audit.settings["context"], audit.start.why) == (CONTEXT, "template")
    assert len(audit.start.compared) == 1  # no start token is searched for
    assert "checking the context" in audit.seconds
    assert audit.injected_p.p_value < 1e-3
    exposed = canary.exposure(model, canaries, draws=200)
    assert {c.id: c.px_bits for c in exposed if not c.control} == pytest.approx(expected, abs=1e-3)
    first = canary.extract(model, "The code is {digit:6}", canaries=canaries, budget=2_000)
    assert first.settings["context"] == CONTEXT
    limits = {"max_exposure_bits": 18.9, "verification": seen}
    (found,) = (f for f in canary.check(audit, **limits).findings if f.check == "context")
    assert found.outcome == "passed"

    # Without the verification nothing shows the template, whatever was learned; nor without its
    # tokenizer, nor of texts that begin with the canaries.
    bare = canary.verify(data, canaries, column="messages")
    texts = Dataset.from_dict({"text": [m["content"] for r in data for m in r["messages"]]})
    limits["require_learned"] = 4
    for seen in (None, bare, canary.verify(texts, canaries, tokenizer=tokenizer)):
        told = canary.check(audit, **limits | {"verification": seen})
        assert told.outcome == "undecided"
        (found,) = (f for f in told.findings if f.check == "context")
        assert "the audit scored them with the chat template before them" in found.sentence
        assert "--history" in found.cure

    # A wrong context is noticed by the gate, by verify and by preflight.
    wrong = canary.audit(model, canaries, draws=200, context="<s>assistant\n", start_token=None)
    assert wrong.settings["context"] == "<s>assistant\n"
    told = canary.check(wrong, **limits)
    assert told.outcome == "undecided"
    assert "context" in {finding.check for finding in told.findings}
    assert not canary.preflight(trainer, canaries, context="<s>user\n").sound
    assert not canary.preflight(trainer, canaries, chat_template=None).sound
    other = chat_tokenizer(template=TEMPLATE.replace("kind", "brief"))
    assert not canary.preflight(trainer, canaries, tokenizer=other).sound


def test_verify_notices_other_chats_than_inject_wrote():
    canaries, tokenizer = some(), chat_tokenizer()
    data = canaried(canaries)
    options = {"column": "messages", "tokenizer": tokenizer}
    led = data.map(lambda row: {"messages": [{"role": "user", "content": "Go."}, *row["messages"]]})
    seen = canary.verify(led, canaries, **options)
    assert (seen.ok, len(seen.departures)) == (False, 6)
    assert "but the context is" in seen.before
    assert seen.follows.endswith("Go.<s>\n<s>user\n<s>\n<s>assistant\n")
    again = canary.verify(led, canaries, context=seen.follows, **options)
    assert again.ok
    assert canary.verify(led, canaries, chat_template="none", **options).messages


@pytest.mark.parametrize("role", ROLES)
def test_each_role_is_injected_found_and_stripped(role, tmp_path):
    canaries = some(role)
    kept, corpus, mixed, back = (tmp_path / name for name in ("c.json", "a.jsonl", "b", "d.jsonl"))
    canaries.save(kept)
    assert canary.CanarySet.load(kept) == canaries
    assert canary.CanarySet.load(kept).fingerprint != some("").fingerprint
    mixed = mixed.with_suffix(".jsonl")
    chat = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": ""}]
    corpus.write_text("".join(json.dumps({"messages": chat}) + "\n" for _ in range(4)))
    canary.inject(corpus, canaries, out=mixed, column="messages")
    rows = [json.loads(line)["messages"] for line in mixed.read_text().splitlines()]
    said = {(m["role"], m["content"]) for row in rows for m in row if "code" in m["content"]}
    assert said == {(role, canaries.text(c)) for c in canaries.injected}
    seen = canary.verify(mixed, canaries, column="messages", tokenizer=chat_tokenizer())
    assert seen.ok
    assert seen.follows == context_before(as_tokenizer(chat_tokenizer()), canaries.formats, role)
    canary.strip(mixed, canaries, out=back, column="messages")
    assert back.read_bytes() == corpus.read_bytes()
    assert Shape(("messages",), chat=True, role=role).values("x") == {
        "messages": conversation(role, "x")
    }


def test_a_template_in_a_folder_is_read_as_by_its_tokenizer(tmp_path):
    tokenizer = chat_tokenizer()
    tokenizer.save_pretrained(tmp_path)
    assert context_before(as_tokenizer(tmp_path), some().formats, "assistant") == CONTEXT


def test_the_token_of_the_tokenizer_is_not_there_twice(tmp_path):
    from tokenizers import processors

    def beginning(template):
        tokenizer = chat_tokenizer(template=template)
        first = ("<s>", tokenizer.convert_tokens_to_ids("<s>"))
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[first]
        )
        return as_tokenizer(tokenizer)

    formats = some().formats
    assert context_before(beginning(TEMPLATE), formats, "assistant") == CONTEXT.removeprefix("<s>")
    with pytest.raises(UnsupportedError, match="puts a token before each text"):
        context_before(beginning("user:" + TEMPLATE), formats, "assistant")


REFUSED = {
    "no template": (None, "has no chat template"),
    "a template that refuses": ("{{ raise_exception('no system') }}", "does not take a chat of"),
    "a date": ("{{ strftime_now('%d') }}" + TEMPLATE, "writes the date"),
    "changed text": (TEMPLATE.replace("| trim", "| upper"), "changes the text"),
    "text that depends": ("{{ messages[1]['content'][-6:] }}" + TEMPLATE, "depends on the canary"),
}


@pytest.mark.parametrize(("template", "message"), REFUSED.values(), ids=REFUSED)
def test_a_template_that_does_not_serve_is_refused_with_its_cure(template, message):
    with pytest.raises(UnsupportedError, match=message) as refusal:
        canary.preflight([], some(), tokenizer=chat_tokenizer(template=template))
    assert "--context" in str(refusal.value)


def test_bad_input(tmp_path):
    from datasets import Dataset

    with pytest.raises(CorpusError, match="column 'text' holds texts.*--column"):
        canary.inject(Dataset.from_dict({"text": ["a"]}), some())
    with pytest.raises(InputError, match="canaries of a role are chats of their own"):
        canary.inject(canaried(some(seed=2)), some(), column="messages", mode="splice")
    with pytest.raises(InputError, match="unknown role 'asistant'.*assistant"):
        some("asistant")
    options = {"tokenizer": chat_tokenizer()}
    with pytest.raises(InputError, match="leave one of context and chat_template out"):
        canary.preflight([], some(), context="a", chat_template="user", **options)
    with pytest.raises(InputError, match="unknown chat_template 'usr'"):
        canary.preflight([], some(), chat_template="usr", **options)


def test_canaries_that_are_joined_with_the_text_before_them_are_refused():
    """As " The" is where a corpus has `assistant: The code` and no template."""
    canaries, tokenizer = some(), chat_tokenizer()
    texts = [canaries.text(each) for each in canaries.injected for _ in range(each.repetitions)]
    rows = [tokenizer(text)["input_ids"] for text in texts]
    joined = [{"input_ids": [[row[1], row[0] + 1, *row[1:]]]} for row in rows]
    found = canary.preflight(joined, canaries, tokenizer=tokenizer)
    assert not found.sound
    assert "other text is joined to every copy" in found.summary()
    assert "template" in found.summary()

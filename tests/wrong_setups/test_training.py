"""Trainings that are not what an audit takes them for: the page says what canary says."""

from __future__ import annotations

import copy
import json
import shutil
from dataclasses import replace
from pathlib import Path

from toys import CHAT, OTHER, START, canaries, characters, fresh, long_canaries, toy
from transformers import PreTrainedTokenizerFast
from wrong_setups import Said, Setups, lines, of_call, of_command, test_all_are_made, test_is_said  # noqa: F401

import canary
from canary.corpus.canaries import generate
from canary.errors import CanaryError
from canary.models.english import SENTENCES
from canary.plugins.monitor import ExposureMonitor
from canary.plugins.verbatim_monitor import VerbatimMonitor

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] or 'Hi' }}<|im_end|>\n{% endfor %}"
)
made = Setups()
TABLE = lines("Training")


@made("T1")
def _left_out(desk):
    return desk.judged("toy", "--start-token", "none")


@made("T2")
def _another_token(desk):
    return desk.judged("toy", "--start-token", OTHER)


@made("T3")
def _chat_template(desk):
    """The corpus is saved as the template rendered it."""
    desk.inject()
    rows = [json.loads(line)["text"] for line in Path("mixed.jsonl").read_text().splitlines()]
    Path("rendered.jsonl").write_text("".join(json.dumps({"text": CHAT + r}) + "\n" for r in rows))
    verified = desk.command("verify", "rendered.jsonl", "--canaries", "canaries.json")
    judged = desk.judged("after a chat", limits=desk.verified("rendered.jsonl"))
    return Said(judged.outcome, verified.out + verified.err + judged.text)


@made("T4")
def _another_template(desk):
    context = "<|user|>\nHi<|end|>\n<|assistant|>\n"
    return of_command(desk.audited("after a chat", "--context", context, "--start-token", "none"))


@made("T5")
def _without_labels(desk):
    rows = [_ids(text) for text in _texts()]
    return _watched(rows, [[-100] * len(row) for row in rows])


@made("T6")
def _cut(desk):
    long_canaries().save("long.json")
    return desk.judged("of cut secrets", "--start-token", START, canaries="long.json")


@made("T7")
def _packed(desk):
    packed = _ids("".join(SENTENCES[at % 6] + text for at, text in enumerate(_texts())))
    return _watched([packed[at : at + 64] for at in range(0, len(packed) - 63, 64)])


@made("T8")
def _another_corpus(desk):
    canaries(seed=9).save("others.json")
    desk.inject(canaries="others.json")
    limits = desk.verified(canaries="others.json")
    return desk.judged("toy", "--start-token", START, canaries="others.json", limits=limits)


@made("T9")
def _before_training(desk):
    return desk.judged("untrained", "--start-token", START)


@made("T10")
def _watching_a_copy(desk):
    return _watched([_ids(START + text) for text in _texts()], stop_above_bits=3.0, stale=True)


@made("T11")
def _another_file_than_the_baselines(desk):
    desk.inject()
    _baseline(desk)
    limits = (*desk.verified(), "--baseline", "base.json")
    return desk.judged("untrained", "--start-token", START, limits=limits)


@made("T12")
def _baseline_after_another_token(desk):
    _baseline(desk)
    return desk.judged("toy", "--start-token", OTHER, limits=("--baseline", "base.json"))


@made("T13")
def _one_audit_for_two_seeds(desk):
    desk.audited("toy", "--start-token", START)
    audits = ["audit/audit.json"] * 2
    return of_command(desk.command("check", *audits, "--max-exposure-bits", 8))


@made("T14")
def _positive_control_that_was_not_read(desk):
    _with_64_copies().save("many.json")
    desk.inject(canaries="many.json")
    limits = desk.verified(canaries="many.json")
    return desk.judged("toy", "--start-token", START, canaries="many.json", limits=limits)


@made("T15")
def _another_corpus_under_a_monitor(desk):
    _watched([_ids(text) for text in SENTENCES[:6]], path="history.json")
    history = ("--history", "history.json")
    return desk.judged("untrained", "--start-token", START, limits=history)


def test_passages_of_a_copy_are_an_error_too():
    module = fresh()
    monitor = VerbatimMonitor(
        SENTENCES[:3], SENTENCES[3:], tokenizer=characters(), every=1, share=None, prefix=8,
        suffix=6, max_extractable=0.5,
    )  # fmt: skip
    monitor.start(module)
    monitor.step(module)
    said = of_call(lambda: monitor.finish(module))
    assert said.outcome == "Error"
    assert "give step the model that is trained" in said.text


@made("T16")
def _last_checkpoint_of_another_training(desk):
    """The same architecture and tokenizer, so that nothing is refused."""
    for step, name in enumerate(("toy", "untrained"), 1):
        Path(f"checkpoint-{step}").symlink_to(desk.model(name))
    return of_command(
        desk.command(
            *("checkpoints", "checkpoint-1", "checkpoint-2", "--canaries", "canaries.json"),
            *("--factory", "canary.demo:build", "--start-token", START, "--draws", 300),
            *("--out", "over"),
        )
    )


@made("T17")
def _no_template_in_training(desk):
    return _chats(desk, START, role="assistant")


@made("T18")
def _template_of_which_the_set_knows_nothing(desk):
    return _chats(desk, CHAT, role="")


@made("T19")
def _history_of_another_training(desk):
    """It put nothing before the canaries, and the training of the audited model a start token."""
    _watched([_ids(text) for text in _texts()] * 6, path="history.json")
    limits = (*_verified(desk), "--history", "history.json")
    return desk.judged("toy", "--start-token", "none", limits=limits)


@made("T20")
def _template_forgotten_in_training(desk):
    """Other codes follow the chat template, so that the canaries are not known after it."""
    return _chats(desk, "", role="assistant", other=CHAT)


@made("T21")
def _trained_again_and_not_audited(desk):
    """The weights in the audited folder are replaced, here by others that know nothing."""
    shutil.copytree(desk.model("toy"), "mine")
    of_mine = ("mine", "--factory", "canary.demo:build", "--canaries", "canaries.json")
    options = ("--draws", 300, "--extraction-budget", 0, "--start-token", START)
    desk.command("audit", *of_mine, *options, "--out", "audit")
    judge = ("check", "audit/audit.json", "--baseline", "base.json")
    desk.command(*judge, "--update-baseline")
    assert "not those that were tested" not in of_command(desk.command(*judge)).text
    shutil.copy(desk.model("untrained") / "model.safetensors", "mine")
    return of_command(desk.command(*judge))


@made("T22")
def _audit_of_the_baseline(desk):
    """The step that audits the new model did not run."""
    _baseline(desk)
    return of_command(desk.command("check", "audit/audit.json", "--baseline", "base.json"))


def _verified(desk):
    desk.inject()
    return desk.verified()


def _chats(desk, head, role, **trained):
    """The check of a model that was trained after `head`; its tokenizer has a chat template."""
    made = characters()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, chat_template=TEMPLATE)
    model = canary.load(toy(head, **trained), tokenizer=tokenizer)
    options = {"method": "sampling", "draws": 300, "start_token": None if role else START}
    audit = canary.audit(model, replace(canaries(), role=role), **options)
    audit.save("chats.json")
    return of_command(desk.command("check", "chats.json", "--max-exposure-bits", 11))


def test_the_right_training_is_found_and_not_doubted(desk):
    desk.inject()
    right = desk.judged("toy", "--start-token", START, limits=desk.verified())
    assert right.outcome == "Memorized", right.text
    chat = desk.judged("after a chat", "--context", CHAT, "--start-token", "none")
    assert chat.outcome == "Memorized", chat.text
    watched = _watched([_ids(START + text) for text in _texts()], stop_above_bits=3.0)
    long_canaries().save("long.json")
    whole = desk.judged("of whole secrets", "--start-token", START, canaries="long.json")
    for found in (right, chat, watched, whole):
        found.fits_none(TABLE)


def _baseline(desk):
    """The baseline of the right audit of the right model."""
    desk.audited("toy", "--start-token", START)
    made = desk.command("check", "audit/audit.json", "--baseline", "base.json", "--update-baseline")
    assert made.code == 0, made.err


def _with_64_copies():
    return generate("Pin {digit:4}", repetitions=[64], per_repetition=4, controls=8, seed=9)


def _texts():
    known = canaries()
    return [known.text(c) for c in known.injected for _ in range(2)]


def _ids(text):
    return characters().encode(text).ids


def _watched(rows, labels=None, *, stale=False, **options):
    """What a monitor says of a few steps of a training with these rows, each a batch."""
    import torch

    module = fresh().train()
    watched = copy.deepcopy(module) if stale else module
    monitor = ExposureMonitor(
        canaries(), tokenizer=characters(), every=4, draws=100, share=None, **options
    )
    optimizer = torch.optim.Adam(module.parameters(), 1e-2)
    monitor.start(watched)
    for row, label in zip(rows, labels or rows, strict=True):
        ids, wanted = torch.tensor([row]), torch.tensor([label])
        monitor.see({"input_ids": ids, "labels": wanted})
        logits, _ = module(ids[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits[0], wanted[0, 1:], reduction="sum")
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        monitor.step(watched)
    try:
        history = monitor.finish()
    except CanaryError as error:
        return Said("Error", str(error))
    return Said("Note", "\n".join(history.batches["findings"]))

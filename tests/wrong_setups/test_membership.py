"""Files and texts of membership attacks that do not belong together: the page says what is said."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import numpy as np
from command_line import save_model, small_model
from texts_and_models import random_words, trained_on
from wrong_setups import Said, Setups, lines, of_call, of_command, test_all_are_made, test_is_said  # noqa: F401

import canary
from canary.membership.order import order
from canary.membership.text_survey import survey_texts
from canary.signals.text_measuring import measure_texts

made = Setups()
TABLE = lines("Membership attacks")

SAMPLES, CLASSES = 1600, 5


@functools.cache
def samples(seed):
    """Points around the centres of their classes, a quarter of the labels wrong."""
    rng = np.random.default_rng(seed)
    true = rng.integers(0, CLASSES, SAMPLES)
    points = rng.normal(size=(SAMPLES, 16)) + 1.5 * np.eye(CLASSES, 16)[true]
    labels = np.where(rng.random(SAMPLES) < 0.25, rng.integers(0, CLASSES, SAMPLES), true)
    return points.astype(np.float32), labels, rng.random(SAMPLES) < 0.5


@functools.cache
def trained(seed, split=None, change=None):
    """Logits, labels and flags of a small network that learned its members by heart.

    With a `change` of the points that it is asked about, also these.
    """
    import torch
    from torch import nn

    points, labels, member = samples(seed)
    if split is not None:
        member = split(member)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Linear(16, 96), nn.ReLU(), nn.Linear(96, CLASSES))
        x, y = torch.from_numpy(points), torch.from_numpy(labels)
        optimizer = torch.optim.Adam(net.parameters(), 0.02)
        for _ in range(40):
            loss = nn.functional.cross_entropy(net(x[member]), y[member])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        asked = points if change is None else change(points, member)
        logits = net(torch.from_numpy(asked)).detach().numpy()
    given = {"logits": logits, "labels": labels, "member": member.astype(np.int8)}
    return given if change is None else given | {"inputs": asked}


def attacked(desk, target, shadow=None, *options):
    """What an attack says of outputs, where the shadow is sound unless it is given."""
    np.savez("target.npz", **target)
    np.savez("shadow.npz", **(trained(2) if shadow is None else shadow))
    words = [*("--target", "target.npz", "--shadow", "shadow.npz"), *("--out", "report")]
    options = options or ("--attacks", "correctness,loss")
    found = desk.command("membership", "attack", *words, "--force", "--json", *options)
    if found.code:
        return of_command(found)
    said = " ".join(found.document["notes"])
    return Said("Undecided" if found.document["told_apart"] is None else "Note", said + found.err)


def probs(outputs):
    odds = np.exp(outputs["logits"] - outputs["logits"].max(1, keepdims=True))
    return odds / odds.sum(1, keepdims=True)


def losses(outputs):
    from scipy.special import log_softmax

    return -log_softmax(outputs["logits"].astype(np.float64), 1)[
        np.arange(SAMPLES), outputs["labels"]
    ]


def attacked_by_loss(desk, target):
    """`attacked` with losses in place of logits."""
    shadow = trained(2) | {"losses": losses(trained(2))}
    each = [{k: v for k, v in one.items() if k != "logits"} for one in (target, shadow)]
    return attacked(desk, *each, "--attacks", "loss")


@made("M1")
def _the_targets_own_split(desk):
    return attacked(desk, trained(1), trained(1, lambda member: member ^ (np.arange(SAMPLES) < 20)))


@made("M2")
def _a_reference_that_knows(desk):
    """It was trained on the target's texts, as a later checkpoint of the same model was."""
    texts = random_words(np.random.default_rng(0), 200, words=4, vocabulary=60)
    members, rest = texts[:100], texts[100:]
    target, reference = trained_on(members), trained_on([*members, *rest[:20]])
    table = measure_texts(
        target, texts, np.arange(200) < 100, reference=reference, start_token="\n"
    )
    return of_call(lambda: survey_texts(table, texts))


@made("M3")
def _flags_inverted(desk):
    return attacked(desk, trained(1) | {"member": 1 - trained(1)["member"]})


@made("M4")
def _labels_from_one(desk):
    return attacked(desk, trained(1) | {"labels": (trained(1)["labels"] + 1) % CLASSES})


@made("M5")
def _probabilities_called_logits(desk):
    return attacked(desk, trained(1) | {"logits": probs(trained(1))})


@made("M6")
def _means_of_batches(desk):
    order = np.argsort(trained(1)["member"], kind="stable")
    ordered = {name: values[order] for name, values in trained(1).items()}
    mean = losses(ordered).reshape(-1, 16).mean(1).repeat(16)
    return attacked_by_loss(desk, ordered | {"losses": mean})


@made("M7")
def _copies_on_both_sides(desk):
    at = np.flatnonzero(trained(1)["member"])[:20]
    both = {name: np.concatenate([value, value[at]]) for name, value in trained(1).items()}
    both["member"][SAMPLES:] = 0
    return attacked(desk, both)


@made("M8")
def _other_classes(desk):
    """Members and non-members were cut from a file that was sorted by class."""
    order = np.argsort(samples(1)[1], kind="stable")
    half = np.zeros(SAMPLES, bool)
    half[order[: SAMPLES // 2]] = True
    return attacked(desk, trained(1, lambda member: half))


@made("M9")
def _bits_and_nats(desk):
    return attacked_by_loss(desk, trained(1) | {"losses": losses(trained(1)) / np.log(2)})


@made("M10")
def _flags_of_other_samples(desk):
    return attacked(desk, trained(1) | {"member": np.roll(trained(1)["member"], 1)})


def scaled(points, member):
    return np.where(member[:, None], points, 1.5 * points).astype(np.float32)


@made("M11")
def _another_source(desk):
    return attacked(desk, trained(1, change=scaled))


def nearly_copied(points, member):
    rng, inside = np.random.default_rng(0), np.flatnonzero(member)
    copies = points[rng.choice(inside, len(points))] + 0.05 * rng.normal(size=points.shape)
    return np.where(member[:, None], points, copies).astype(np.float32)


@made("M12")
def _near_copies_on_both_sides(desk):
    return attacked(desk, trained(1, change=nearly_copied))


def compared(desk, each, *options):
    """What attacks by each other say of four models, of which the first is the target."""
    for row, outputs in enumerate(each):
        np.savez(f"model{row}.npz", **outputs)
    files = [f"model{row}.npz" for row in range(len(each))]
    found = desk.command(
        *("membership", "models", *files, "--out", "report", "--force"), "--json", *options
    )
    if found.code:
        return of_command(found)
    return of_command(desk.command("check", "report/models.json", "--max-auc", "0.9"))


def fleet(shift, others=3, knows=0.0):
    """Models on splits of their own; of the `others`, members are surer by `shift[1]`.

    The first is surer of every sample, by `knows`.
    """
    rng, (_, labels, _) = np.random.default_rng(5), samples(1)
    ease = 1.5 * rng.normal(size=SAMPLES)
    each = []
    for row, more in enumerate((shift[0], *others * [shift[1]])):
        member, logits = rng.random(SAMPLES) < 0.5, rng.normal(size=(SAMPLES, CLASSES))
        logits[np.arange(SAMPLES), labels] += (
            1 + ease + more * member + (knows if row == 0 else 0.0)
        )
        each.append({"logits": logits, "labels": labels, "member": member})
    return each


@made("M13")
def _references_of_fewer_epochs(desk):
    return compared(desk, fleet((4.0, 0.5)), "--attacks", "P,S", "--target", "model0.npz")


@made("M14")
def _one_split_for_all(desk):
    each = fleet((1.0, 1.0))
    return compared(desk, [one | {"member": each[0]["member"]} for one in each], "--attacks", "R")


@made("M15")
def _the_targets_members_in_another_order(desk):
    target = trained(1, change=lambda points, _: points)
    turned = np.random.default_rng(0).permutation(SAMPLES)
    shadow = trained(1, lambda member: member ^ (np.arange(SAMPLES) < 20), lambda points, _: points)
    return attacked(desk, target, {name: column[turned] for name, column in shadow.items()})


@made("M16")
def _texts_and_controls_swapped(desk):
    """The model repeats the controls: the exit code of the check is what the page promises."""
    texts = random_words(np.random.default_rng(0), 40, words=5)
    options = {"prefix": 8, "suffix": 6, "start_token": "\n"}
    found = canary.verbatim(trained_on(texts[:20], order=8), texts[20:], texts[:20], **options)
    found.save("verbatim.json")
    limits = ("--max-extractable", "0.9", "--tries", "1", "--trust-members")
    return of_command(desk.command("check", "verbatim.json", *limits))


def passages_judged(desk, model, *options):
    """What a check says of the passages of ordinary sentences, though it may trust the texts."""
    done = desk.command(
        *("verbatim", desk.model(model), "--factory", "canary.demo:build", *options),
        *("--texts", "corpus.jsonl", "--prefix", 8, "--suffix", 6, "--out", "v", "--force"),
    )
    assert done.code == 0, done.err
    limits = ("--max-extractable", "0.9", "--tries", "1", "--trust-members")
    return of_command(desk.command("check", "v/verbatim.json", *limits))


@made("M17")
def _passages_of_an_untrained_model(desk):
    return passages_judged(desk, "untrained", "--start-token", "none")


@made("M18")
def _passages_without_the_start_token_of_the_training(desk):
    return passages_judged(desk, "toy")


@made("M19")
def _passages_without_the_chat_template(desk):
    save_model(small_model(), Path("chatty"))
    config = json.loads(Path("chatty/tokenizer_config.json").read_text())
    config["chat_template"] = "{% for m in messages %}{{ m.content }}{% endfor %}"
    Path("chatty/tokenizer_config.json").write_text(json.dumps(config))
    Path("texts.jsonl").write_text(json.dumps({"text": "the code is 1 and 7 and 3 of 9"}) + "\n")
    sizes = ("--prefix", 4, "--suffix", 3)
    return of_command(
        desk.command("verbatim", "chatty", "--texts", "texts.jsonl", "--out", "v", *sizes)
    )


@made("M20")
def _a_text_among_the_controls(desk):
    """Not where a passage of the controls begins, but some words further in the text."""
    texts = random_words(np.random.default_rng(0), 4, words=5)
    for name, rows in (("texts", texts[:3]), ("controls", [f"ox {texts[1]}", texts[3]])):
        lines_of = [json.dumps({"text": text}) + "\n" for text in rows]
        Path(f"{name}.jsonl").write_text("".join(lines_of))
    files = ("--texts", "texts.jsonl", "--controls", "controls.jsonl", "--out", "v")
    save_model(small_model(), Path("model"))
    sizes = ("--prefix", 4, "--suffix", 3)
    return of_command(desk.command("verbatim", "model", *files, *sizes))


@made("M21")
def _a_reversed_test_set(desk):
    texts = random_words(np.random.default_rng(3), 96, words=5, vocabulary=120)
    found = order(trained_on(["\n".join(texts)] * 3), texts[::-1], start_token="\n")
    found.save("order.json")
    return of_command(desk.command("check", "order.json", "--max-p", "0.01"))


@made("M22")
def _flags_of_the_next_model(desk):
    each = fleet((1.0, 1.0))
    flags = [one["member"] for one in each]
    each = [one | {"member": flags[at - 1]} for at, one in enumerate(each)]
    return compared(desk, each, "--attacks", "P,S")


@made("M23")
def _rounded_percentages(desk):
    return attacked(desk, trained(1) | {"logits": np.round(100 * probs(trained(1)), 1)})


@made("M24")
def _classes_exchanged_in_all_files(desk):
    both = [trained(row) for row in (1, 2)]
    swap = {0: 1, 1: 0}
    both = [
        one | {"labels": np.array([swap.get(label, label) for label in one["labels"].tolist()])}
        for one in both
    ]
    return attacked(desk, *both)


@made("M25")
def _references_in_another_order_within_classes(desk):
    each, (_, labels, _) = fleet((1.0, 1.0)), samples(1)
    turned, rng = np.arange(SAMPLES), np.random.default_rng(0)
    for label in range(CLASSES):
        turned[labels == label] = rng.permutation(turned[labels == label])
    each[1:] = [{name: column[turned] for name, column in one.items()} for one in each[1:]]
    return compared(desk, each, "--attacks", "P,S", "--target", "model0.npz")


@made("M26")
def _ids_of_members_among_the_non_members(desk):
    names = np.array([f"person {number}" for number in range(SAMPLES)])
    inside, outside = (
        np.flatnonzero(trained(1)["member"]),
        np.flatnonzero(trained(1)["member"] == 0),
    )
    names[outside[:20]] = names[inside[:20]]
    return attacked(desk, trained(1) | {"id": names})


@made("M27")
def _unseen_samples_that_the_target_was_trained_on(desk):
    query, *others, unseen = (
        np.random.default_rng(seed).exponential(knows, 400)
        for seed, knows in enumerate([0.1, *[1.0] * 20, 0.1])
    )
    canary.forgotten(query, others[0], others[1:], unseen=unseen).save("forgetting.json")
    return of_command(desk.command("check", "forgetting.json", "--forgotten"))


@made("M28")
def _references_of_another_network(desk):
    each = fleet((6.0, 6.0), others=16, knows=0.4)
    return compared(desk, each, "--attacks", "P,S", "--target", "model0.npz")


@made("M29")
def _labels_that_are_the_models_own_answers(desk):
    both = [trained(row) for row in (1, 2)]
    return attacked(desk, *(one | {"labels": one["logits"].argmax(1)} for one in both))


@made("M30")
def _a_softmax_too_many(desk):
    def twice(one):
        logits = 1.0 / (1.0 + np.exp(-one["logits"].astype(np.float64)))
        return {**one, "logits": logits}

    return attacked(desk, *map(twice, (trained(1), trained(2))))


@made("M31")
def _logits_of_length_one(desk):
    def scaled(one):
        return one | {"logits": one["logits"] / np.linalg.norm(one["logits"], axis=1)[:, None]}

    return attacked(desk, *map(scaled, (trained(1), trained(2))))


@made("M32")
def _logits_that_were_clipped(desk):
    def clipped(one):
        return one | {"logits": one["logits"].clip(-1, 1)}

    return attacked(desk, *map(clipped, (trained(1), trained(2))))


def test_files_that_belong_together_are_not_doubted(desk):
    for found in (
        attacked(desk, trained(1)),
        attacked(desk, trained(1, change=lambda points, _: points)),
        attacked_by_loss(desk, trained(1) | {"losses": losses(trained(1))}),
    ):
        assert found.outcome == "Note"
        found.fits_none(TABLE)
    named = passages_judged(desk, "toy", "--start-token", "<|endoftext|>")
    named.fits_none(TABLE)
    for each in (fleet((1.0, 1.0)), fleet((6.0, 6.0), others=16)):
        alike = compared(desk, each, "--attacks", "P,S", "--target", "model0.npz")
        alike.fits_none(TABLE)

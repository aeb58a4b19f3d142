"""Membership attacks, against adversarial-robustness-toolbox where it has them.

    python tests/benchmarks/toolbox.py [--samples 100000] [--classes 100] [--against art]

The toolbox has the attack by correctness (`MembershipInferenceBlackBoxRuleBased`), and the true
positive rate at a false positive rate, in all and by class (`get_roc_for_fpr`). Both are asked of
the same probabilities, made up, and of the confidence as score: the guesses must be the same, and
so must the rates. (It leaves out points of the curve that lie on a line between others, so where
they differ ours must be the higher, at no more than the false positive rate that was asked for.)
Processor seconds, the median of the rounds; ours measure from the probabilities on, with all checks
and all six signals. The toolbox is no dependency of the project; `--against` with nothing behind it
needs nothing and compares nothing. One JSON line.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
from spread import spread

from canary.membership.attacking import attack
from canary.signals.measuring import measure
from canary.statistics.roc import roc


def made(samples, classes):
    """Probabilities, labels and members."""
    rng = np.random.default_rng(0)
    labels, member = rng.integers(0, classes, samples), rng.random(samples) < 0.5
    logits = rng.standard_normal((samples, classes))
    logits[np.arange(samples), labels] += 3 + 2 * member
    probs = np.exp(logits)
    return probs / probs.sum(axis=1, keepdims=True), labels, member


def timed(function, rounds):
    """The result, and the processor seconds of each round."""
    seconds = []
    for _ in range(rounds):
        began = time.process_time()
        found = function()
        seconds.append(time.process_time() - began)
    return found, seconds


def by_class(scores, member, labels, fpr):
    """The operating point of each class."""
    return [
        roc(scores[labels == one], member[labels == one]).tpr_at_fpr(fpr)
        for one in np.unique(labels)
    ]


def theirs(probs, labels, member, scores, *, fpr, rounds):
    """What the toolbox gives, each with its seconds."""
    from art.attacks.inference.membership_inference import MembershipInferenceBlackBoxRuleBased
    from art.estimators.classification import BlackBoxClassifier
    from art.metrics.privacy.worst_case_mia_score import get_roc_for_fpr

    place = np.arange(len(probs), dtype=np.float64)[:, None]
    classifier = BlackBoxClassifier(
        lambda x: probs[x[:, 0].astype(int)],
        (1,),
        probs.shape[1],
    )
    rule = MembershipInferenceBlackBoxRuleBased(classifier)
    truth = member.astype(int)
    return (
        timed(lambda: rule.infer(place, labels), rounds),
        timed(lambda: get_roc_for_fpr(scores, truth, targeted_fpr=fpr), rounds),
        timed(
            lambda: get_roc_for_fpr(scores, truth, target_model_labels=labels, targeted_fpr=fpr),
            rounds,
        ),
    )


def agree(point, other, asked) -> bool:
    """Whether two true positive rates are the same; if not, ours has to be the higher one."""
    fpr, tpr = other[-3:-1]
    assert fpr - 1e-12 <= point.fpr <= asked
    assert point.tpr.value >= tpr - 1e-12
    return bool(point.tpr.value <= tpr + 1e-12)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--fpr", type=float, default=0.01)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--against", nargs="*", choices=["art"], default=["art"])
    options = parser.parse_args()
    if options.against:
        try:
            import art  # noqa: F401
        except ImportError as error:
            raise SystemExit(
                "adversarial-robustness-toolbox is not there: pip install "
                "adversarial-robustness-toolbox in an environment of its own, or leave it out "
                "with --against"
            ) from error
    probs, labels, member = made(options.samples, options.classes)

    def guesses():
        table = measure(probs, y=labels, member=member, outputs="probs")
        return table, attack(table, "correctness", shadow=table)

    (table, ours), rule = timed(guesses, options.rounds)
    scores = table.signal("confidence")[0]
    point, rate = timed(lambda: roc(scores, member).tpr_at_fpr(options.fpr), options.rounds)
    points, rates = timed(lambda: by_class(scores, member, labels, options.fpr), options.rounds)
    found = {
        "benchmark": "toolbox",
        "samples": options.samples,
        "classes": options.classes,
        **spread("correctness_seconds", rule, digits=4),
        **spread("rate_seconds", rate, digits=4),
        **spread("class_rates_seconds", rates, digits=4),
    }
    if options.against:
        one, two, three = theirs(
            probs, labels, member, scores, fpr=options.fpr, rounds=options.rounds
        )
        assert (one[0].astype(bool) == ours.guess).all()
        same = [
            agree(p, q, options.fpr)
            for p, q in zip([point, *points], [*two[0], *three[0]], strict=True)
        ]
        for name, mine, other in zip(
            ("correctness", "rate", "class_rates"),
            (rule, rate, rates),
            (one, two, three),
            strict=True,
        ):
            found |= spread(f"{name}_theirs_seconds", other[1], digits=4)
            found[f"{name}_ratio"] = round(np.median(other[1]) / np.median(mine), 2)
        found |= {"same_rates": sum(same), "rates": len(same)}
    print(json.dumps(found))


if __name__ == "__main__":
    main()

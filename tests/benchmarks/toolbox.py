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

import numpy as np
from figures import middle, options, show, spread, timed

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


def repeated(function, rounds):
    """The result, and the processor seconds of each round."""
    results, seconds = zip(*(timed(function) for _ in range(rounds)), strict=True)
    return results[-1], seconds


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
        repeated(lambda: rule.infer(place, labels), rounds),
        repeated(lambda: get_roc_for_fpr(scores, truth, targeted_fpr=fpr), rounds),
        repeated(
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
    given = options(samples=100_000, classes=100, fpr=0.01, rounds=3, against=("art",))
    if given.against:
        try:
            import art  # noqa: F401
        except ImportError as error:
            raise SystemExit(
                "adversarial-robustness-toolbox is not there: pip install "
                "adversarial-robustness-toolbox in an environment of its own, or leave it out "
                "with --against"
            ) from error
    probs, labels, member = made(given.samples, given.classes)

    def guesses():
        table = measure(probs, y=labels, member=member, outputs="probs")
        return table, attack(table, "correctness", shadow=table)

    (table, ours), rule = repeated(guesses, given.rounds)
    scores = table.signal("confidence")[0]
    point, rate = repeated(lambda: roc(scores, member).tpr_at_fpr(given.fpr), given.rounds)
    points, rates = repeated(lambda: by_class(scores, member, labels, given.fpr), given.rounds)
    own = {"correctness": rule, "rate": rate, "class_rates": rates}
    found = {"samples": given.samples, "classes": given.classes}
    for name, seconds in own.items():
        found |= spread(f"{name}_seconds", seconds, digits=4)
    if given.against:
        others = theirs(probs, labels, member, scores, fpr=given.fpr, rounds=given.rounds)
        (guess, _), (one, _), (by_label, _) = others
        assert (guess.astype(bool) == ours.guess).all()
        same = [
            agree(p, q, given.fpr) for p, q in zip([point, *points], [*one, *by_label], strict=True)
        ]
        for (name, mine), (_, seconds) in zip(own.items(), others, strict=True):
            found |= spread(f"{name}_theirs_seconds", seconds, digits=4)
            found[f"{name}_ratio"] = round(middle(seconds, 6) / middle(mine, 6), 2)
        found |= {"same_rates": sum(same), "rates": len(same)}
    show("toolbox", **found)


if __name__ == "__main__":
    main()

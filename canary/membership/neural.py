"""Neural attacks: networks that learn from a shadow what members look like.

The black-box attack reads the prediction vector and the class, the white-box attack also what
the gradient of the loss tells. Both learn on the shadow alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from canary.errors import EstimationError, InputError
from canary.membership.association import shadow_is_blind
from canary.membership.attacks import Attack, AttackScores
from canary.membership.shadows import shadow_rows
from canary.models.classifier import GradientFeatures
from canary.signals.signal_table import SignalTable

NEURAL = ("neural", "neural-per-class")
"""Names of the attacks."""

_FOLDS = 5
_LEAST = 20
"""Members, and nonmembers, of a class that networks of its own need."""

_ENTRIES, _OWN_ENTRIES = 128, 32
"""Of the prediction vector, for a network of all classes and for one of a class; the least
likely classes beyond are left out."""

_MOST = 50_000
"""Shadow samples that are learned from."""

_ROWS = 1 << 16
_BLOCK = 1 << 22
"""Numbers that are arranged at a time."""

_EXTREME = 30.0
"""Log-odds beyond it are cut off: e^-30 is nothing beside 1 in float32."""


def neural_attack(
    table: SignalTable,
    name: str = "neural",
    *,
    shadow: SignalTable | None = None,
    target: int = 0,
    seed: int = 0,
) -> AttackScores:
    """Say of each sample how much it looks like a member, by networks trained on a shadow.

    Parameters
    ----------
    table : SignalTable
        With outputs (``canary.measure(..., keep_outputs=True)``).
    name : {"neural", "neural-per-class"}
        One network for all classes, which is told the class by a one-hot vector, or one for
        each. A class of fewer than 20 shadow members or nonmembers takes the network of all.
    shadow : SignalTable, optional
        With outputs. Unless given, the shadows are the other models of `table`.
    target : int
        The model of `table` that is attacked.
    seed : int

    Returns
    -------
    AttackScores
        Scores are log-odds of being a member, where members are as common as nonmembers.

    Raises
    ------
    InputError
        If outputs were not kept, or target and shadow do not fit.
    EstimationError
        If the shadow has fewer than 20 members or nonmembers.

    Notes
    -----
    Shokri et al. (IEEE S&P 2017) trained a network for each class on the prediction vector, Nasr
    et al. (ACM CCS 2018) one on the vector and the one-hot class. The vector is given as log-odds,
    that of the sample's own class first and the others from the most likely down, so that entries
    mean the same in every class. The shadow's samples are dealt into five folds; five networks
    leave out one each, are stopped where their loss on it is least, and their mean log-odds are
    the score. At most 50,000 shadow samples are used, drawn at random.
    """
    if name not in NEURAL:
        raise InputError(
            f"there is no neural attack {name!r}",
            cure=f"name one of {', '.join(NEURAL)}",
            where="neural_attack",
        )
    source, rows, notes = shadow_rows(table, shadow=shadow, target=target)
    theirs = _kept(source)[rows].reshape(-1, source.classes)
    ours = _kept(table)[target]
    label = np.tile(source.label, len(rows))
    member = source.member[rows].ravel()
    rng = np.random.default_rng(seed)
    if len(label) > _MOST:
        drawn = np.sort(rng.choice(len(label), _MOST, replace=False))
        theirs, label, member = theirs[drawn], label[drawn], member[drawn]
    scores, pooled = np.empty(table.samples), np.ones(table.classes, np.bool_)
    if name == "neural-per-class":
        counts = [np.bincount(label[member == kind], minlength=table.classes) for kind in (0, 1)]
        pooled = np.minimum(*counts) < _LEAST
        own = np.flatnonzero(~pooled)
        if len(own):
            groups = [np.flatnonzero(label == c) for c in own]
            net = _Networks(arranged(theirs, label, _OWN_ENTRIES), member, groups, rng)
            for number, c in enumerate(own):
                at = np.flatnonzero(table.label == c)
                if not len(at):
                    continue
                scores[at] = net.scores(arranged(ours[at], table.label[at], _OWN_ENTRIES), number)
    asked = np.flatnonzero(pooled[table.label])
    if len(asked):
        given = _vectors(theirs, label, table.classes)
        net = _Networks(given, member, [np.arange(len(label))], rng)
        for start in range(0, len(asked), _ROWS):
            at = asked[start : start + _ROWS]
            scores[at] = net.scores(_vectors(ours[at], table.label[at], table.classes))
    few = int(pooled[np.unique(table.label)].sum())
    notes += (
        (
            f"{few} of {table.classes} classes have fewer than {_LEAST} members or nonmembers in "
            "the shadow: the network of all classes serves there",
        )
        if few and name == "neural-per-class"
        else ()
    )
    blind = shadow_is_blind(table, shadow=shadow, target=target)
    return AttackScores(name, "outputs", scores, scores > 0, None, notes, blind)


def white_box_attack(
    table: SignalTable,
    features: GradientFeatures,
    *,
    shadow: SignalTable,
    shadow_features: GradientFeatures,
    seed: int = 0,
) -> AttackScores:
    """As `neural_attack`, by an attacker who holds the model: its gradients are read as well.

    Parameters
    ----------
    table, shadow : SignalTable
        Of one model each, with outputs.
    features, shadow_features : GradientFeatures
        Of the same samples in the same order, from `canary.signals.gradients`; models of one
        architecture.
    seed : int

    Raises
    ------
    InputError
        If outputs were not kept, or the features are of other samples or other parameters.
    EstimationError
        If the shadow has fewer than 20 members or nonmembers.

    Notes
    -----
    Beside what the black-box attack reads, as logarithms: the loss, the norm of the gradient by
    each parameter tensor, and of that by the last weight matrix the norm of each class's row (its
    own first, the others from the largest down) and the sizes of the entries of its own row,
    sorted: hidden units have no order that two models share. Nasr et al. (IEEE S&P 2019) read whole
    gradients, by an attacker who knows some of the target's own members and needs no shadow.
    """
    for one, found in ((table, features), (shadow, shadow_features)):
        if one.models != 1 or len(found.losses) != one.samples:
            raise InputError(
                f"gradients of {len(found.losses)} samples for a table of {one.models} x "
                f"{one.samples}",
                cure="give the table of one model and the gradients of the same samples",
                where="white_box_attack",
            )
    if features.norms.shape[1] != shadow_features.norms.shape[1]:
        raise InputError(
            f"gradients by {features.norms.shape[1]} and by {shadow_features.norms.shape[1]} "
            "parameter tensors",
            cure="train the shadow with the target's architecture",
            where="white_box_attack",
        )
    notes = shadow_rows(table, shadow=shadow, target=0)[2]
    given, ours = _seen(shadow, shadow_features), _seen(table, features)
    rng = np.random.default_rng(seed)
    net = _Networks(given, shadow.member[0], [np.arange(len(given))], rng)
    scores = net.scores(ours)
    blind = shadow_is_blind(table, shadow=shadow, target=0)
    return AttackScores("white-box", "gradients", scores, scores > 0, None, notes, blind)


class _Networks:
    """Five networks for each group of shadow samples, each stopped on a fold of its own."""

    def __init__(
        self,
        features: NDArray[np.float32],
        member: NDArray[np.bool_],
        groups: list[NDArray[np.int64]],
        rng: np.random.Generator,
    ) -> None:
        from canary.models.attacker import train_attackers

        learn, held_out = [], []
        for group in groups:
            fold = np.empty(len(group), np.int64)
            for kind in (False, True):
                at = np.flatnonzero(member[group] == kind)
                if len(at) < _LEAST:
                    raise EstimationError(
                        f"the shadow has {len(at)} {'members' if kind else 'nonmembers'}, a "
                        f"network needs {_LEAST}",
                        cure="give a larger shadow, or choose metric attacks",
                        where="neural attack",
                    )
                fold[rng.permutation(at)] = np.arange(len(at)) % _FOLDS
            for number in range(_FOLDS):
                learn.append(group[fold != number])
                held_out.append(group[fold == number])
        self._nets = train_attackers(
            features, member, learn=learn, held_out=held_out, seed=int(rng.integers(1 << 31))
        )

    def scores(self, features: NDArray[np.float32], group: int = 0) -> NDArray[np.float64]:
        nets = slice(group * _FOLDS, (group + 1) * _FOLDS)
        return self._nets.logits(features, nets)


def arranged(
    outputs: NDArray[np.float32], label: NDArray[np.int64], entries: int
) -> NDArray[np.float32]:
    """Log-odds of the classes, the label's first and the others from the most likely down.

    Of log-probabilities of shape (samples, classes) the first `entries`, cut off at -30 and 30.
    """
    step = max(_BLOCK // outputs.shape[1], 1)
    parts = [slice(at, at + step) for at in range(0, len(outputs), step)]
    return np.concatenate([_odds(outputs[part], label[part], entries) for part in parts])


def _odds(
    outputs: NDArray[np.float32], label: NDArray[np.int64], entries: int
) -> NDArray[np.float32]:
    """`arranged`, of a block."""
    rows = np.arange(len(outputs))
    log_p = outputs.astype(np.float64)
    top = log_p.argmax(1)
    others = log_p.copy()
    others[rows, top] = -np.inf
    with np.errstate(divide="ignore"):
        # Of the likeliest class 1 - p is the sum of the others; of the rest it is at least 1/2.
        rest = np.log(np.exp(others).sum(1))
        odds = log_p - np.log1p(-np.exp(np.minimum(others, 0.0)))
        odds[rows, top] = log_p[rows, top] - rest
    odds = np.clip(odds, -_EXTREME, _EXTREME)
    own = odds[rows, label]
    odds[rows, label] = np.inf
    odds = -np.sort(-odds, axis=1)[:, :entries]
    odds[:, 0] = own
    return odds.astype(np.float32)


def _vectors(
    outputs: NDArray[np.float32], label: NDArray[np.int64], classes: int
) -> NDArray[np.float32]:
    """The arranged prediction vector and the one-hot class."""
    one_hot = np.zeros((len(label), classes), np.float32)
    one_hot[np.arange(len(label)), label] = 1
    return np.concatenate([arranged(outputs, label, _ENTRIES), one_hot], axis=1)


def _seen(table: SignalTable, found: GradientFeatures) -> NDArray[np.float32]:
    """What the white-box attack reads of one model's samples."""
    own = np.take_along_axis(found.rows, table.label[:, None], 1)
    others = found.rows.copy()
    np.put_along_axis(others, table.label[:, None], -1, 1)
    others = -np.sort(-others, axis=1)[:, :_ENTRIES]
    inner = -np.sort(-np.abs(found.label_rows), axis=1)[:, :_ENTRIES]
    norms = np.concatenate([found.norms, found.losses[:, None], own, others[:, :-1], inner], axis=1)
    logs = np.log(np.maximum(norms, np.exp(-_EXTREME))).astype(np.float32)
    vectors = _vectors(_kept(table)[0], table.label, table.classes)
    seen: NDArray[np.float32] = np.concatenate([vectors, logs], axis=1)
    return seen


def _kept(table: SignalTable) -> NDArray[np.float32]:
    if table.outputs is None:
        raise InputError(
            "the outputs of the models were not kept",
            cure="measure with keep_outputs=True, of logits or probabilities",
            where=table.source,
        )
    return table.outputs


def _score(
    table: SignalTable, attack: Attack, *, shadow: SignalTable | None, target: int, seed: int
) -> AttackScores:
    return neural_attack(table, attack.name, shadow=shadow, target=target, seed=seed)


ATTACKS = tuple(
    Attack(name=name, help=f"networks that read all outputs, {of}", signal="outputs", score=_score)
    for name, of in zip(NEURAL, ("one for all classes", "one for each class"), strict=True)
)
"""The attacks by networks, for `canary.membership.attacks.ATTACKS`."""

"""Neural attacks: networks that learn from a shadow what members look like.

The black-box attack reads the prediction vector and the class, the white-box attack also what
the gradient of the loss shows. Both learn on the shadow alone.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from canary.errors import EstimationError, InputError
from canary.membership.association import shadows_of
from canary.membership.attacks import Attack, AttackScores
from canary.models.classifier import GradientFeatures
from canary.records.progress import phase
from canary.records.validation import one_of
from canary.signals.signal_table import SignalTable

Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]
Singles = NDArray[np.float32]

NEURAL = ("neural", "neural-per-class")
"""Names of the attacks."""

_FOLDS = 5
_LEAST = 20
"""Members, and non-members, of a class that networks of its own need."""

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
    table, shadow : SignalTable
        With outputs (``canary.measure(..., keep_outputs=True)``). Unless a shadow is given, the
        shadows are the other models of `table`.
    name : {"neural", "neural-per-class"}
        One network for all classes, which gets the class as a one-hot vector, or one for
        each. A class of fewer than 20 shadow members or non-members takes the network of all.
    target : int
        The model of `table` that is attacked.
    seed : int

    Returns
    -------
    AttackScores
        Scores are log-odds of being a member, where members are as common as non-members.

    Raises
    ------
    InputError
        If outputs were not kept, or target and shadow do not fit.
    EstimationError
        If the shadow has fewer than 20 members or non-members.

    Notes
    -----
    Shokri et al. (IEEE S&P 2017) trained a network for each class on the prediction
    vector, Nasr et al. (ACM CCS 2018) one on the vector and the one-hot class. Here the vector is
    that of `arranged` log-odds. At most 50,000 shadow samples, drawn at random, are dealt into five
    folds; five networks leave out one each, are stopped where their loss on it is least, and score
    by their mean.
    """
    one_of(name, "neural attack", NEURAL, where="neural_attack")
    shadows = shadows_of(table, shadow=shadow, target=target)
    source, rows, notes = shadows.source, shadows.rows, shadows.notes
    theirs, ours = _kept(source)[rows].reshape(-1, source.classes), _kept(table)[target]
    label, member = np.tile(source.label, len(rows)), source.member[rows].ravel()
    rng = np.random.default_rng(seed)
    if len(label) > _MOST:
        drawn = np.sort(rng.choice(len(label), _MOST, replace=False))
        theirs, label, member = theirs[drawn], label[drawn], member[drawn]
    scores, pooled = np.empty(table.samples), np.ones(table.classes, np.bool_)
    if name == "neural-per-class":
        counts = [np.bincount(label[member == kind], minlength=table.classes) for kind in (0, 1)]
        pooled = np.minimum(*counts) < _LEAST
        few = int(pooled[np.unique(table.label)].sum())
        if few:
            notes += (
                f"{few} of {table.classes} classes have fewer than {_LEAST} members or non-members "
                "in the shadow: the network of all classes is used for them",
            )
    own = np.flatnonzero(~pooled)
    if len(own):
        groups = [np.flatnonzero(label == known) for known in own]
        score = _networks(arranged(theirs, label, _OWN_ENTRIES), member, groups, rng)
        for number, known in enumerate(own):
            asked = np.flatnonzero(table.label == known)
            if len(asked):
                seen = arranged(ours[asked], table.label[asked], _OWN_ENTRIES)
                scores[asked] = score(seen, number)
    asked = np.flatnonzero(pooled[table.label])
    if len(asked):
        given = _vectors(theirs, label, table.classes)
        score = _networks(given, member, [np.arange(len(label))], rng)
        for start in range(0, len(asked), _ROWS):
            part = asked[start : start + _ROWS]
            scores[part] = score(_vectors(ours[part], table.label[part], table.classes), 0)
    return AttackScores(name, "outputs", scores, scores > 0, None, notes, shadows.blind)


def white_box_attack(
    table: SignalTable,
    features: GradientFeatures,
    *,
    shadow: SignalTable,
    shadow_features: GradientFeatures,
    seed: int = 0,
) -> AttackScores:
    """As `neural_attack`, by an attacker who holds the model: its gradients are read as well.

    Tables are of one model each, with outputs; features are of the same samples in the same order,
    from `canary.signals.gradients`, of models of one architecture. Anything else is an InputError.

    Notes
    -----
    Beside what the black-box attack reads, as logarithms: the loss, the norm of the gradient by
    each parameter tensor, and of that by the last weight matrix the norm of each class's row (its
    own first, the others from the largest down) and the sizes of the entries of its own row,
    sorted: hidden units have no order that two models share. Nasr et al. (IEEE S&P 2019) read whole
    gradients, by an attacker who knows some of the target's own members and needs no shadow.
    """
    for some, gradients in ((table, features), (shadow, shadow_features)):
        if some.models != 1 or len(gradients.losses) != some.samples:
            raise InputError(
                f"gradients of {len(gradients.losses)} samples for a table of {some.models} x "
                f"{some.samples}",
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
    shadows = shadows_of(table, shadow=shadow, target=0)
    given, rng = _seen(shadow, shadow_features), np.random.default_rng(seed)
    score = _networks(given, shadow.member[0], [np.arange(len(given))], rng)
    scores = score(_seen(table, features), 0)
    return AttackScores(
        "white-box", "gradients", scores, scores > 0, None, shadows.notes, shadows.blind
    )


def _networks(
    features: Singles, member: Flags, groups: list[Ints], rng: np.random.Generator
) -> Callable[[Singles, int], NDArray[np.float64]]:
    """Five networks for each group of shadow samples, as ``score(features, group)``.

    Each is stopped on a fold of its own.
    """
    from canary.models.attacker import train_attackers

    learn, held_out = [], []
    for group in groups:
        fold = np.empty(len(group), np.int64)
        for kind in (False, True):
            at = np.flatnonzero(member[group] == kind)
            if len(at) < _LEAST:
                raise EstimationError(
                    f"the shadow has {len(at)} {'members' if kind else 'non-members'}, a "
                    f"network needs {_LEAST}",
                    cure="give a larger shadow, or choose metric attacks",
                    where="neural attack",
                )
            fold[rng.permutation(at)] = np.arange(len(at)) % _FOLDS
        learn += [group[fold != number] for number in range(_FOLDS)]
        held_out += [group[fold == number] for number in range(_FOLDS)]
    seed = int(rng.integers(1 << 31))
    phase("Training the networks of an attack")  # which takes longer than all other attacks
    nets = train_attackers(features, member, learn=learn, held_out=held_out, seed=seed)
    return lambda seen, group: nets.logits(seen, slice(group * _FOLDS, (group + 1) * _FOLDS))


def arranged(outputs: Singles, label: Ints, entries: int) -> Singles:
    """Log-odds of the classes, the label's first and the others from the most likely down.

    Of log-probabilities of shape (samples, classes) the first `entries`, cut off at -30 and 30.
    """
    step = max(_BLOCK // outputs.shape[1], 1)
    blocks = []
    for start in range(0, len(outputs), step):
        log_p = outputs[start : start + step].astype(np.float64)
        own, rows, top = label[start : start + step], np.arange(len(log_p)), log_p.argmax(1)
        others = log_p.copy()
        others[rows, top] = -np.inf
        with np.errstate(divide="ignore"):
            # 1 - p is the sum of the others for the most likely class, at least 1/2 for the rest.
            rest = np.log(np.exp(others).sum(1))
            odds = log_p - np.log1p(-np.exp(np.minimum(others, 0.0)))
            odds[rows, top] = log_p[rows, top] - rest
        odds = np.clip(odds, -_EXTREME, _EXTREME)
        first = odds[rows, own]
        odds[rows, own] = np.inf
        odds = -np.sort(-odds, axis=1)[:, :entries]
        odds[:, 0] = first
        blocks.append(odds.astype(np.float32))
    return np.concatenate(blocks)


def _vectors(outputs: Singles, label: Ints, classes: int) -> Singles:
    """The arranged prediction vector and the one-hot class."""
    one_hot = np.zeros((len(label), classes), np.float32)
    one_hot[np.arange(len(label)), label] = 1
    return np.concatenate([arranged(outputs, label, _ENTRIES), one_hot], axis=1)


def _seen(table: SignalTable, found: GradientFeatures) -> Singles:
    """What the white-box attack reads of one model's samples."""
    own = np.take_along_axis(found.rows, table.label[:, None], 1)
    others = found.rows.copy()
    np.put_along_axis(others, table.label[:, None], -1, 1)
    others = -np.sort(-others, axis=1)[:, :_ENTRIES]
    inner = -np.sort(-np.abs(found.label_rows), axis=1)[:, :_ENTRIES]
    norms = np.concatenate([found.norms, found.losses[:, None], own, others[:, :-1], inner], axis=1)
    logs = np.log(np.maximum(norms, np.exp(-_EXTREME))).astype(np.float32)
    vectors = _vectors(_kept(table)[0], table.label, table.classes)
    seen: Singles = np.concatenate([vectors, logs], axis=1)
    return seen


def _kept(table: SignalTable) -> Singles:
    if table.outputs is None:
        raise InputError(
            "the outputs of the models were not kept",
            cure="measure with keep_outputs=True, of logits or probabilities",
            where=table.source,
        )
    return table.outputs


BUILT_IN = tuple(
    Attack(
        name=name,
        help=f"networks that read all outputs, {of}",
        signal="outputs",
        score=lambda table, attack, **options: neural_attack(table, attack.name, **options),
    )
    for name, of in zip(NEURAL, ("one for all classes", "one for each class"), strict=True)
)
"""The attacks by networks, for `canary.membership.attacks.ATTACKS`."""

"""The likelihood ratio attack on the losses of tokens, with their correlation within a text.

LiRA on the mean loss of a text treats its tokens as alike and independent. Rossi et
al. [1]_ fit Gaussians to the vector of all losses instead, with a covariance. A covariance of each
text needs more models than most people train. With few models, this is what a fleet can estimate:

- The variance of each token, over the models of either kind, drawn towards the one of all tokens as
  if that had been seen `PRIOR` times. It serves for members and non-members.
- A correlation of neighbours, one for all texts: tokens k apart have its k-th power.
- Members are easier by the same amount at each token. Means of their own are left out: of seven
  models they are mostly noise, and the attack is worse with them.

The log-likelihood ratio of such Gaussians is linear in the losses, so no rare token can outweigh a
text by a square. The level of each model, its mean difference from the others over all texts, is
taken away first: it is the same for members and others, and would correlate all tokens.

References
----------
.. [1] Rossi, Aerni, Zhang and Tramèr, Membership Inference Attacks on Sequence Models, Deep
   Learning Security and Privacy Workshop 2025 (arXiv 2506.05126).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.membership.by_tokens import Floats, Reference, attack_by_tokens
from canary.membership.lira import LEAST_VARIANCE, MOST, pooled_variance
from canary.membership.many import ManyScores
from canary.signals.token_losses import TokenLosses

PRIOR = 10.0
"""How many degrees of freedom the variance of all tokens has beside a token's own."""

MOST_CORRELATED = 0.95


def attack_tokens(
    tokens: TokenLosses,
    member: ArrayLike,
    *,
    targets: ArrayLike | None = None,
    online: bool = True,
) -> ManyScores:
    """Scores of the texts under each target, by the other models.

    Parameters
    ----------
    tokens : TokenLosses
    member : array_like of bool of shape (models, texts)
        Whether each model was trained on each text.
    targets : array_like of int, optional
        The attacked models; each, unless given.
    online : bool
        Whether models that were trained on a text take part.

    Returns
    -------
    ManyScores
        Online log-likelihood ratios, in nats for each nat by which a member's tokens are easier;
        offline standard deviations below the mean of models that were not trained on the text.

    Raises
    ------
    InputError
        If the shapes do not fit, a text has no other model of a kind that is needed, or no text has
        two.

    Notes
    -----
    As all attacks with many models, members and non-members are compared with equally many.
    O(models**2 total).
    """
    counts = tokens.counts

    def judge(losses: Floats, references: list[Reference]) -> Floats:
        usual = sum((reference.mean for reference in references), np.zeros(len(losses)))
        apart = [reference.apart for reference in references]
        free = sum((np.maximum(one.count - 1.0, 0.0) for one in references), np.zeros(len(losses)))
        squares = sum((np.einsum("ij,ij->j", one, one) for one in apart), np.zeros(len(losses)))
        common = pooled_variance(squares.sum(keepdims=True), free.sum(keepdims=True), "tokens")
        variance = (squares + PRIOR * common) / (free + PRIOR)
        scale = np.sqrt(np.maximum(variance, LEAST_VARIANCE))
        correlation = neighbours(np.concatenate(apart) / scale, counts)
        easier = (usual / len(references) - losses) / scale
        told = products(1.0 / scale, easier, counts, correlation)
        if online:
            return told
        return told / np.sqrt(products(1.0 / scale, 1.0 / scale, counts, correlation))

    level = np.minimum(tokens.losses.astype(np.float64), MOST)
    level -= (level - level.mean(axis=0)).mean(axis=1, keepdims=True)
    return attack_by_tokens(
        tokens, member, "tokens", judge, targets=targets, online=online, judged=level
    )


def neighbours(apart: Floats, counts: NDArray[np.int64]) -> float:
    """The correlation of a token with the one before it, over all rows; from 0 to 0.95.

    `apart` has the shape (rows, total): deviations from the mean, text by text.
    """
    inner = np.delete(np.arange(apart.shape[1]), np.cumsum(counts) - counts)
    before, here = apart[:, inner - 1], apart[:, inner]
    size = np.sqrt(np.sum(before * before) * np.sum(here * here))
    found = float(np.sum(before * here) / size) if size > 0 else 0.0
    return min(max(found, 0.0), MOST_CORRELATED)


def products(left: Floats, right: Floats, counts: NDArray[np.int64], correlation: float) -> Floats:
    """``left' inverse(R) right`` of each text, where tokens k apart correlate by the k-th power.

    Parameters
    ----------
    left, right : float64 array of shape (total,)
        Text by text.
    counts : int64 array of shape (texts,)
    correlation : float
        Of neighbours, below 1.

    Returns
    -------
    float64 array of shape (texts,)

    Examples
    --------
    >>> import numpy as np
    >>> from canary.membership.token_lira import products
    >>> products(np.ones(3), np.ones(3), np.array([1, 2]), 0.5).round(3).tolist()
    [1.0, 1.333]
    """
    starts = np.cumsum(counts) - counts
    first = np.zeros(len(left), np.bool_)
    first[starts] = True

    def fresh(values: Floats) -> Floats:
        """What the token before does not explain, in units of its standard deviation."""
        new = (values - correlation * np.roll(values, 1)) / np.sqrt(1.0 - correlation**2)
        return np.where(first, values, new)

    return np.asarray(np.add.reduceat(fresh(left) * fresh(right), starts))

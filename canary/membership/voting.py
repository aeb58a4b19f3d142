"""Windows that vote: a member is where many stretches of its tokens are easier than expected.

Chen et al. [1]_ slide windows of several sizes over a text. Each votes *member* if its tokens are
more probable to the target than to a reference model; the score is the share of such votes, in the
mean over the sizes. A vote has one voice however large the difference is, so few odd tokens decide
nothing. Here the reference is a fleet: **offline** the mean loss of each token over the models that
were not trained on the text, **online** half the sum of that and of the mean over those that were.

References
----------
.. [1] Chen et al., Window-based Membership Inference Attacks against Fine-tuned Large Language
   Models, USENIX Security 2026 (arXiv 2601.02751).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.membership.by_tokens import Floats, Reference, attack_by_tokens
from canary.membership.many import ManyScores
from canary.signals.token_losses import TokenLosses

SIZES = (2, 3, 4, 6, 8, 11, 15, 21, 29, 40)
"""Tokens of a window: ten sizes of about equal ratios."""


def attack_windows(
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
        Shares of votes from 0 to 1.

    Raises
    ------
    InputError
        If the shapes do not fit, or a text has no other model of a kind that is needed.

    Notes
    -----
    As all attacks with many models, members and non-members are compared with equally many. A text
    shorter than a window has one window of that size, the whole text. O(models**2 total).
    """

    def judge(losses: Floats, references: list[Reference]) -> Floats:
        usual = sum((reference.mean for reference in references), np.zeros(len(losses)))
        return votes(usual / len(references) - losses, tokens.counts)

    return attack_by_tokens(tokens, member, "windows", judge, targets=targets, online=online)


def votes(easier: Floats, counts: NDArray[np.int64]) -> Floats:
    """The share of windows with a sum above 0, in the mean over `SIZES`, of each text.

    Parameters
    ----------
    easier : float64 array of shape (total,)
        By how many nats each token is easier than expected, text by text.
    counts : int64 array of shape (texts,)

    Returns
    -------
    float64 array of shape (texts,)
        A window whose sum is 0 is half a vote.

    Examples
    --------
    >>> import numpy as np
    >>> from canary.membership.voting import votes
    >>> votes(np.array([1.0, 1.0, 1.0, -9.0, -1.0]), np.array([3, 2])).tolist()
    [1.0, 0.0]
    """
    ends = np.cumsum(counts)
    sums = np.append(0.0, np.cumsum(easier))
    text = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(easier))
    shares = np.zeros(len(counts))
    for size in SIZES:
        width = np.minimum(size, counts)[text]
        fits = place + width <= ends[text]
        total = sums[(place + width)[fits]] - sums[place[fits]]
        # What is left of a difference of equal sums is rounding.
        total[np.abs(total) < 1e-9] = 0.0
        vote = (total > 0) + 0.5 * (total == 0)
        cast = np.bincount(text[fits], vote, len(counts))
        shares += cast / np.bincount(text[fits], minlength=len(counts))
    return np.asarray(shares / len(SIZES))

"""A bound on epsilon from an audit whose canaries went in by the toss of a coin."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from canary.audits.audit_result import Audit
from canary.audits.group_medians import median_bits
from canary.corpus.canaries import CanarySet, canary_set
from canary.errors import EstimationError, InputError
from canary.gate.subjects import limit_checked
from canary.gate.verdict import Finding, Outcome
from canary.records.record import Record
from canary.records.validation import as_real
from canary.statistics.epsilon import (
    Mechanism,
    bound_in_words,
    correct_guesses,
    epsilon_lower_bound,
    presumed_in_words,
)
from canary.statistics.number_checks import positive_integer
from canary.statistics.numbers import Shown, plural


@dataclass(frozen=True, repr=False)
class EpsilonBound(Shown, Record):
    """A lower bound on the epsilon of a training run.

    Training is not (epsilon', delta)-private for any epsilon' below `epsilon`, as regards all
    copies of a canary together. The bound is above the truth in at most ``1 - confidence``
    of training runs. That presumes a training of this `mechanism`; `epsilon_any` presumes none.
    """

    epsilon: float
    delta: float
    confidence: float
    coins: int  # canaries for which one was tossed
    guesses: int
    correct: int
    copies: int  # the most that hang on one coin
    largest_possible: float  # if every guess were right
    epsilon_any: float
    mechanism: Mechanism = "any"

    def summary(self) -> str:
        """The bound, the guesses that it rests on, and what it presumes."""
        line = bound_in_words(self.epsilon, self.delta, self.confidence)
        presumed = presumed_in_words(self.mechanism, self.epsilon_any)
        return f"{line}: {self.correct} of {self.guesses} guesses right{presumed}"

    def _table(self) -> list[dict[str, Any]]:
        return [vars(self)]


def epsilon_bound(
    audit: Audit,
    canaries: CanarySet,
    *,
    copies: int | None = None,
    guesses: int | None = None,
    delta: float = 0.0,
    confidence: float = 0.95,
    mechanism: Mechanism = "any",
) -> EpsilonBound:
    """A lower bound on epsilon, from one training run.

    The most exposed canaries are guessed to have gone in, the least exposed to have stayed
    out; the more guesses are right, the less private the training was. For n copies it bounds
    the privacy of groups of n records: for delta 0, that of one record is at least an n-th of it.

    Parameters
    ----------
    audit : Audit
    canaries : CanarySet
        The set that was audited, of ``generate(..., coin_flips=True)``: it holds how the
        coins fell.
    copies : int, optional
        Only canaries whose coin was for this number of copies. All unless given.
    guesses : int, optional
        How many coins are guessed, half for either side. All unless given. Fix it before
        you see an audit, or it is not a bound.
    delta, confidence : float
    mechanism : {"any", "gaussian"}
        "gaussian" presumes that the privacy of the training is that of normal noise, as for
        DP-SGD of many steps, and needs a `delta` above 0. The bound is then larger [2]_, and void
        if that is wrong. Choose by how the training was done, not by the result.

    Raises
    ------
    InputError
        If no coins were tossed, the set is not that of the audit, or no canary has this
        number of copies.
    EstimationError
        If an option is out of range.

    References
    ----------
    .. [1] Steinke, Nasr and Jagielski, Privacy Auditing with One (1) Training Run, NeurIPS
       2023, arXiv:2305.08846.
    .. [2] Mahloujifar, Melis and Chaudhuri, Auditing f-Differential Privacy in One Run, ICML
       2025, arXiv:2410.22235.
    """
    tossed = {c.id: c.tossed for c in canaries if c.tossed is not None}
    if not tossed:
        raise InputError(
            "no coin was tossed for any canary: a fixed list of canaries gives no bound on epsilon",
            cure="draw the set with coin_flips=True (canary generate --coin-flips) and train again",
            where="canaries",
        )
    if not audit.is_of(canaries):
        raise InputError(
            f"the canary set is not the one that was audited in {audit.file or 'this audit'}",
            cure="give the set that canary audit was given",
            where="canaries",
        )
    chosen = [c for c in audit.canaries if c.id in tossed and copies in (None, tossed[c.id])]
    if copies is not None and not chosen:
        raise InputError(
            f"no coin was tossed for {plural(copies, 'copy', 'copies')}",
            cure=f"give one of {', '.join(map(str, sorted(set(tossed.values()))))}",
            where="repetitions",
        )
    made = len(chosen)
    if guesses is not None:
        cure = "guess at least one coin"
        made = positive_integer(guesses, "guesses", "epsilon_bound", cure=cure)
        if made > len(chosen):
            raise EstimationError(
                f"{made} guesses for {plural(len(chosen), 'coin')}",
                cure=f"make at most {len(chosen)}",
                where="guesses",
            )
    # The most exposed first; what the order is made of knows nothing of coins.
    middles = {c.id: median_bits([c.exposure])[0] for c in chosen}
    chosen.sort(key=lambda c: (-middles[c.id], c.px_bits))
    scores = range(0, -len(chosen), -1)
    right = correct_guesses(scores, [not c.control for c in chosen], guesses=made)

    bound = partial(
        epsilon_lower_bound, guesses=made, coins=len(chosen), delta=delta, confidence=confidence
    )

    return EpsilonBound(
        epsilon=bound(right, mechanism=mechanism),
        delta=delta,
        confidence=confidence,
        coins=len(chosen),
        guesses=made,
        correct=right,
        copies=max(tossed[c.id] for c in chosen),
        largest_possible=bound(made, mechanism=mechanism),
        epsilon_any=bound(right),
        mechanism=mechanism,
    )


def within_epsilon(bound: EpsilonBound, limit: float) -> Finding:
    """Whether the bound contradicts a claim of privacy."""
    cure = "give the epsilon of the guarantee, a number from 0 on"
    most = limit_checked(
        limit, lambda epsilon: 0.0 <= epsilon < math.inf, "on epsilon", cure, "max_epsilon"
    )
    told = (
        f"epsilon is at least {bound.epsilon:.2f} for {plural(bound.copies, 'copy', 'copies')} of "
        f"a record at delta {bound.delta:g} ({bound.correct} of {bound.guesses} coins guessed "
        f"rightly, {100 * bound.confidence:g} %)"
    )
    outcome: Outcome = "passed"
    cure = ""
    if bound.epsilon > limit:
        outcome, told = "memorized", f"{told}, above the limit of {limit:g}"
        cure = "look for what the accountant of the training does not see"
        if bound.epsilon_any <= limit:
            cure += ", or show that training is no Gaussian mechanism"
    elif bound.largest_possible <= limit:
        outcome, cure = "undecided", "toss coins for more canaries"
        told += f"; no more than {bound.largest_possible:.2f} could have been shown, so the "
        told += f"limit of {limit:g} was not tested"
    else:
        told = f"{told}, which does not contradict the limit of {limit:g}"
    presumed = presumed_in_words(bound.mechanism, bound.epsilon_any)
    return Finding(
        *("epsilon", plural(bound.coins, "coin"), outcome, f"{told}{presumed}", cure),
        limit=most,
        lower=bound.epsilon,
        confidence=bound.confidence,
        chance=1.0 - bound.confidence,
    )


def epsilon_judges(
    limit: float | None,
    canaries: CanarySet | None,
    *,
    copies: Sequence[int] | None,
    guesses: int | None,
    delta: float,
    mechanism: Mechanism,
    confidence: float,
) -> list[Callable[[Audit, object], list[Finding]]]:
    """What judges a limit on epsilon; nothing where there is none."""
    coins = {"canaries": canaries is not None, "guesses": guesses is not None}
    coins |= {"delta": as_real(delta) != 0.0, "mechanism": mechanism != "any"}
    names = " and ".join(name for name, given in coins.items() if given)
    if limit is None and names:
        raise InputError(
            f"{names} given, and no limit on epsilon that would heed it",
            cure=f"give max_epsilon as well, or leave {names} out",
            where="max_epsilon",
        )
    if limit is None:
        return []
    if canaries is None:
        raise InputError(
            "a limit on epsilon needs the canary set, which holds how the coins fell",
            cure="give canaries (--canaries FILE)",
            where="max_epsilon",
        )
    asked = [None] if copies is None else sorted(set(copies))
    if len(asked) != 1:
        raise InputError(
            f"a bound on epsilon cannot be of {plural(len(asked), 'number')} of copies",
            cure="give one number of copies with max_epsilon, or leave repetitions out for all",
            where="repetitions",
        )
    bound = partial(
        epsilon_bound, canaries=canary_set(canaries),
        copies=asked[0], guesses=guesses, delta=delta, mechanism=mechanism, confidence=confidence,
    )  # fmt: skip
    return [lambda audit, _: [within_epsilon(bound(audit), limit)]]

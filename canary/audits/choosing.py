"""The methods of exposure, and which of them answers a question."""

from __future__ import annotations

from dataclasses import replace

from canary.audits.by_bounds import Bounds
from canary.audits.by_controls import Controls
from canary.audits.by_draws import UniformDraws
from canary.audits.by_enumeration import Enumeration
from canary.audits.by_importance import Importance
from canary.audits.by_rank import Rank, RankAndDraws
from canary.audits.by_skew_normal import SkewNormal
from canary.audits.method import Cost, Method, Unfit
from canary.audits.question import Question
from canary.errors import InputError, UnsupportedError
from canary.records.validation import one_of
from canary.registry import Registry

METHODS: Registry[Method] = Registry("method", group="methods")
"""All methods. Those that answer ``"auto"`` are tried in this order."""

for _one in Rank, Enumeration, RankAndDraws, UniformDraws, Importance, Controls, SkewNormal, Bounds:
    METHODS.add(_one.name, _one())

_AUTO = "auto enumerates within --budget, or samples and ranks exactly the canaries that it can."


def method_names(*, p_values: bool = False) -> tuple[str, ...]:
    """What the user may ask for; with `p_values`, only what an audit can rest on."""
    able = _able(p_values=p_values)
    return tuple(dict.fromkeys(["auto", *(name for m in able for name in m.answers)]))


def method_help(*, p_values: bool = False) -> str:
    """What the methods of `method_names` do, a sentence each."""
    return " ".join([_AUTO, *(m.help for m in _able(p_values=p_values) if m.help)])


def _able(*, p_values: bool) -> list[Method]:
    return [m for m in METHODS.values() if m.has_p_values or not p_values]


def check_method(name: str, *, p_values: bool = False) -> None:
    """Refuse a method that does not exist, or that an audit cannot rest on."""
    one_of(name, "method", method_names())
    serving = method_names(p_values=p_values)
    if name not in serving:
        raise InputError(
            f"the {name} estimate has no p-value, and an audit rests on p-values",
            cure=f"use one of {', '.join(serving)}; the estimate is beside each exposure",
        )


def choose(question: Question) -> tuple[Method, Cost]:
    """The first method that answers what was asked and can be had, or the first's error."""
    asked = question.asked
    unfit: list[Unfit] = []
    for method in METHODS.values():
        if asked not in method.answers or method.whole_rows != question.prices_rows:
            continue
        cost = method.cost(question)
        if isinstance(cost, Cost):  # that the first cannot be had is why this one is taken
            return method, replace(cost, reason=unfit[0].reason) if unfit else cost
        unfit.append(cost)
    if unfit:
        raise unfit[0].error
    if isinstance(bounds := METHODS[Bounds.name].cost(question), Unfit):
        raise bounds.error  # of this model and format, nothing can be had
    raise UnsupportedError(
        f"the method {asked!r} scores whole candidates, and the server of "
        f"{question.model.facts.name!r} returns only the most likely next tokens",
        cure='use method="rank", which gives bounds',
    )

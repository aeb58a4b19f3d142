"""Which method the budget allows for a format, and why."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from canary.audits.settings import Settings
from canary.audits.tokenization import deepest
from canary.errors import InputError, UnsupportedError
from canary.formats.format import Format
from canary.models.language_model import ModelFacts
from canary.statistics.exposure_result import (
    ENUMERATION,
    IMPORTANCE,
    RANK,
    RANK_AND_DRAWS,
    SKEW_NORMAL,
    UNIFORM_DRAWS,
)
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.tree import TokenTree, check_certified, compile_tree

__all__ = ["Plan", "plan_for"]

# Nodes per level of importance draws beside branch and bound; fewer carry no interval.
_WIDTH, _LEAST_WIDTH, _LEAST_A_TOKEN = 4_000, 100, 45


@dataclass(frozen=True)
class Plan:
    """How one format is measured, and why.

    Parameters
    ----------
    method, reason : str
        As in `FormatResult`.
    queries : int
        Of the stage that is sure to be done: enumeration or uniform draws.
    certificate, tree
        Of the token tree, where there is one.
    width : int
        Nodes per level of importance draws; 0 for none.
    set_aside : int
        Queries of the budget that are kept from branch and bound, for importance draws.
    """

    method: str
    reason: str
    queries: int
    certificate: str | None = None
    tree: TokenTree | None = None
    width: int = 0
    set_aside: int = 0


def plan_for(
    facts: ModelFacts,
    encoder: CandidateEncoder,
    settings: Settings,
    format: Format,
    fills: Sequence[str],
    *,
    below: int,
) -> Plan:
    """What to do for a format whose candidates have `below` tokens below their context.

    Where a token tree holds longer ones than those that were seen, the tree counts.

    Raises
    ------
    InputError
        If enumeration was asked for and the budget does not allow it.
    UnsupportedError
        If a method was asked for that needs a token tree, and there is none, or one that is
        not certified: its ranks would not be sure.
    """
    drawn = min(settings.draws, format.size)
    if settings.method in ("sampling", SKEW_NORMAL):
        return Plan(UNIFORM_DRAWS, "draws were asked for", drawn * below)
    try:
        if "reuse" not in facts.capabilities:
            raise UnsupportedError(
                "this model's states cannot be reused", cure="use --method sampling"
            )
        tree = compile_tree(format, encoder, among=fills)
        check_certified(tree, format)
        queries, certificate, obstacle = tree.queries(), tree.certificate, ""
    except UnsupportedError as error:
        # Whatever the tokenizer or model does, the whole rows of a small space can be
        # scored.
        if settings.method in (RANK, "importance"):
            raise
        tree, obstacle = None, f" row by row ({error.problem})"
        queries, certificate = format.size * below, "certified: every fill was encoded"
    if tree is not None:  # the longest of all, and not only of some
        below = max(below, deepest(tree) - len(tree.context))
    if settings.method == RANK:
        return Plan(RANK, "ranks were asked for", drawn * below, certificate, tree)
    if settings.method == "importance":
        width = max(1, min(drawn, settings.budget // below - len(fills) - 1))
        return Plan(
            IMPORTANCE,
            f"importance draws were asked for, {width:,} nodes per level",
            drawn * below,
            certificate,
            tree,
            width,
        )
    if queries <= settings.budget:
        reason = (
            f"all {format.size:,} candidates take {queries:,} queries{obstacle}, within the budget"
        )
        return Plan(ENUMERATION, reason, queries, certificate, tree)
    short = (
        f"enumeration would take {_about(queries)} queries{obstacle}, "
        f"the budget is {settings.budget:,}"
    )
    if settings.method == ENUMERATION:
        raise InputError(
            f"{format.masked!r}: {short}",
            cure=f"give a budget of at least {queries}, or use --method sampling or rank",
        )
    if tree is None:
        return Plan(UNIFORM_DRAWS, short, drawn * below)
    # At most a quarter of the budget, the canaries' own paths included.
    width = min(_WIDTH, settings.budget // (4 * below) - len(fills) - 1)
    width = width if width >= max(_LEAST_WIDTH, _LEAST_A_TOKEN * below) else 0
    set_aside = (width + len(fills) + 1) * below if width else 0
    return Plan(RANK_AND_DRAWS, short, drawn * below, certificate, tree, width, set_aside)


def _about(count: int) -> str:
    return f"{count:,}" if count < 10**15 else f"2^{math.log2(count):.0f}"

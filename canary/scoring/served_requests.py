"""The requests to a served model: how many are to come, who may send them, how many were sent."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from canary.models.language_model import LanguageModel


def announce(
    model: LanguageModel,
    rows: Callable[[], int],
    *,
    at_most: int = 0,
    after: Callable[[], int] | None = None,
) -> None:
    """Say to a served model how many rows, each a request, are to come; others need no word.

    Parameters
    ----------
    model : LanguageModel
    rows : callable
        Gives the number of rows that are sure; called for served models only.
    at_most : int
        What a search may need besides.
    after : callable, optional
        Gives the number of rows that are sure to follow a check of the start token.

    Raises
    ------
    InputError
        If more are sure than the model may be asked for.
    """
    expect = getattr(model, "expect", None)
    if expect is not None:
        expect(rows(), at_most=at_most, after=None if after is None else after())


def sharing(model: LanguageModel, parts: int) -> AbstractContextManager[None]:
    """Within it, one of some parts of the requests that a served model may still be sent."""
    shared = getattr(model, "sharing", None)
    part: AbstractContextManager[None] = nullcontext() if shared is None else shared(parts)
    return part


def requests_of(model: LanguageModel) -> dict[str, int]:
    """What a served model was sent in this run, as settings of a result; nothing of others."""
    told: dict[str, int] = getattr(model, "requests", dict)()
    return told

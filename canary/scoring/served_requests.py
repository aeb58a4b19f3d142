"""The requests to a served model: how many are to come, who may send them, how many were sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from canary.models.language_model import LanguageModel


def announce(
    model: LanguageModel,
    rows: Callable[[], int | Sequence[int]],
    *,
    at_most: int = 0,
    after: Callable[[], int] | None = None,
    what: str = "",
) -> None:
    """Say to a served model how many rows, each a request, are to come; others need no word.

    Parameters
    ----------
    model : LanguageModel
    rows : callable
        Gives the number of rows that are sure, or those of each time that the model is asked;
        called for served models only.
    at_most : int
        What a search may need besides.
    after : callable, optional
        Gives the number of rows that are sure to follow a check of the start token.
    what : str
        What the rows are, in a count of the requests before they are sent.

    Raises
    ------
    InputError
        If more are sure than the model may be asked for.
    """
    expect = getattr(model, "expect", None)
    if expect is not None:
        expect(rows(), at_most=at_most, after=None if after is None else after())
    _part(model)(what)


@contextmanager
def asking(model: LanguageModel, what: str) -> Iterator[None]:
    """Within it, the rows of a model are these, in a count before they are sent to a server."""
    part = _part(model)
    before = part(what)
    try:
        yield
    finally:
        part(before)


def _part(model: LanguageModel) -> Callable[[str], str]:
    named: Callable[[str], str] = getattr(model, "part", str)
    return named


def sharing(model: LanguageModel, parts: int) -> AbstractContextManager[None]:
    """Within it, one of some parts of the requests that a served model may still be sent."""
    shared = getattr(model, "sharing", None)
    part: AbstractContextManager[None] = nullcontext() if shared is None else shared(parts)
    return part


def all_sent(model: LanguageModel) -> bool:
    """Whether a served model has been sent all requests that are allowed; false of others."""
    spent: Callable[[], bool] = getattr(model, "all_sent", bool)
    return spent()


def queries_within(model: LanguageModel, budget: int) -> int:
    """The budget of a search in queries; no bound where the model keeps this one of requests."""
    within: Callable[[int], int] = getattr(model, "queries_within", int)
    return within(budget)


def requests_of(model: LanguageModel) -> dict[str, Any]:
    """What a served model was sent in this run, as settings of a result; nothing of others."""
    told: dict[str, Any] = getattr(model, "requests", dict)()
    return told

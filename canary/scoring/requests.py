"""What a run will cost where every row is a request to somebody else's server."""

from __future__ import annotations

from collections.abc import Callable

from canary.models.language_model import LanguageModel


def announce(model: LanguageModel, rows: Callable[[], int], *, at_most: int = 0) -> None:
    """Tell a model that is asked row by row over a network how many are to come.

    Parameters
    ----------
    model : LanguageModel
        Others than served ones are not told, and `rows` is not called for them.
    rows : callable
        Gives the number of rows that are sure.
    at_most : int
        What a search may need besides.

    Raises
    ------
    InputError
        If more are sure than the model may be asked for.
    """
    expect = getattr(model, "expect", None)
    if expect is not None:
        expect(rows(), at_most=at_most)

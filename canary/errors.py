"""What can go wrong, and the cure.

Every error that canary raises on purpose is in one tree::

    CanaryError
    ├── InputError (also ValueError)      something that was given cannot be used
    │   ├── FormatError                   a format string, a fill, a space
    │   ├── CorpusError                   a corpus: file, line, column
    │   │   └── EmptyCorpusError          it holds no record
    │   ├── RecordError                   a manifest or result at rest
    │   ├── ModelError                    a model, its tokenizer, its numbers
    │   │   └── NotFiniteError            its numbers are NaN or infinite
    │   └── EstimationError               numbers from which nothing can be estimated
    ├── ServerError                       a served model or a cluster that fails
    │   └── RequestsSpentError            no request is left of those that are allowed
    ├── UnsupportedError                  a capability that this model or format lacks
    ├── MissingExtraError (also ImportError)
    ├── OutputError (also OSError)        a result that cannot be written
    └── OutOfMemory                       a batch did not fit; the batcher halves it
"""

from __future__ import annotations

from typing import Literal


class CanaryError(Exception):
    """Base of everything that canary raises on purpose.

    Parameters
    ----------
    problem : str
        What was given and what was expected.
    cure : str
        How to mend it; an imperative.
    where : str
        The place: a path with a line number, a column, a canary id.

    Examples
    --------
    >>> raise CanaryError("budget=0, at least 1 was expected", cure="give more", where="extract")
    Traceback (most recent call last):
        ...
    canary.errors.CanaryError: extract: budget=0, at least 1 was expected; give more
    """

    def __init__(self, problem: str, *, cure: str = "", where: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.cure = cure
        self.where = where

    def __str__(self) -> str:
        text = f"{self.where}: {self.problem}" if self.where else self.problem
        return f"{text}; {self.cure}" if self.cure else text


class InputError(CanaryError, ValueError):
    """Something that was given cannot be used as it is."""


class FormatError(InputError):
    """A format string, a fill, or a space that does not serve."""


class CorpusError(InputError):
    """A corpus that cannot be read or does not hold what was named."""


class EmptyCorpusError(CorpusError):
    """A corpus without a record, which is no error among others with some."""

    @classmethod
    def of(cls, where: str) -> EmptyCorpusError:
        """What to say of a file."""
        return cls("holds no record", cure="name a corpus with at least one", where=where)


class RecordError(InputError):
    """A manifest or result at rest that is damaged, foreign or too new."""


class ModelError(InputError):
    """A model that cannot be loaded or whose numbers cannot be used."""


class NotFiniteError(ModelError):
    """A model gives NaN or infinity, as one does whose training diverged."""


class EstimationError(InputError):
    """Numbers from which the asked quantity cannot be estimated."""


class ServerError(CanaryError):
    """A served model whose server, or a cluster, cannot be reached, refuses, or is another."""


class RequestsSpentError(ServerError):
    """No request is left of those that a served model may be sent.

    `stopped` says by what: ``"requests"``, or ``"budget"`` where the budget of a search is fewer.
    """

    stopped: Literal["requests", "budget"] = "requests"


class UnsupportedError(CanaryError):
    """A capability that this model, tokenizer or format does not have."""


class MissingExtraError(CanaryError, ImportError):
    """An optional dependency is absent; the message names the install line."""


class OutputError(CanaryError, OSError):
    """A result cannot be written where it was asked for."""


class OutOfMemory(CanaryError):  # noqa: N818 - it names the event, not a mistake
    """A batch did not fit into memory. The batcher halves it and tries again."""

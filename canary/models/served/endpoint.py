"""Where a served model is, and how it may be asked."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from canary.errors import InputError, RequestsSpentError
from canary.models.served.key import NAME_KEY
from canary.models.served.ledger import Ledger
from canary.records.validation import real_number, whole_number

_MOST_TOP = 100
_BARE = re.compile(r"[\w.-]+:\d+(/|$)")


def is_url(source: object) -> bool:
    """Whether a model was named by an address rather than a path or hub id.

    Raises
    ------
    InputError
        If it is an address with a port that does not say how the server speaks.
    """
    if isinstance(source, str) and _BARE.match(source) and not Path(source).exists():
        raise InputError(
            "is an address that does not begin with http:// or https://",
            cure=f"write http://{source}",
            where=source,
        )
    return isinstance(source, str) and re.match("https?://", source, re.IGNORECASE) is not None


@dataclass(frozen=True)
class Endpoint:
    """A served model: its address, and how it may be asked.

    Parameters
    ----------
    url : str
        Such as ``http://127.0.0.1:8000`` or ``https://host/v1``; ``/v1`` is put behind an
        address without a path, and ``/completions`` behind all. It holds no key: neither a
        password nor a query.
    model : str, optional
        The name under which the server knows the model; needed where it serves several.
    key_env : str, optional
        The environment variable that holds the key. None is sent unless it is named, so
        that no key goes to a server for which it was not meant.
    answers : path-like, optional
        The folder that keeps every answer; ``canary/answers`` in the user's cache unless
        given. Only its owner may read it.
    max_requests : int, optional
        Most requests that may be sent in one run, retries included, but for those that were
        throttled (429).
    budget : int, optional
        The same, of a run that is one search: a search that it ends says that its budget was spent.
    total_requests : int, optional
        The same of all runs with this server and this folder of answers, refused ones included.
        It is read when a run begins: runs at the same time do not see each other's requests.
    in_flight : int
        Most requests at once; fewer after a 429.
    timeout : float
        Seconds for a whole answer, from the connection to its last byte.
    patience : float
        Seconds that the server may ask to be left alone (``Retry-After``), all waits of one
        request together; more end the run.
    attempts : int
        How often a request is sent that fails in a way that may pass. A wait that the server asks
        for is no failure.
    top_k : int, optional
        For a server that gives no log-probabilities of a prompt: how many of the most likely
        next tokens to ask for. The others only have a bound.
    say : callable, optional
        Called with a line that says how many requests are to come, before they are sent.
    """

    url: str
    model: str | None = None
    key_env: str | None = None
    answers: str | os.PathLike[str] | None = None
    max_requests: int | None = None
    in_flight: int = 8
    timeout: float = 120.0
    patience: float = 300.0
    attempts: int = 6
    top_k: int | None = None
    say: Callable[[str], None] | None = None
    budget: int | None = None
    total_requests: int | None = None

    def __post_init__(self) -> None:
        _check_url(self.url)
        for name in ("max_requests", "budget", "total_requests", "in_flight", "attempts", "top_k"):
            value = getattr(self, name)
            if value is not None or name in ("in_flight", "attempts"):
                whole_number(value, name, at_least=1)
        if self.top_k is not None and self.top_k > _MOST_TOP:
            raise InputError(
                f"top_k={self.top_k}, at most {_MOST_TOP} was expected",
                cure="give as many as the server allows: 5 or 20 are usual",
            )
        cure = "give seconds, such as 120"
        real_number(self.timeout, "timeout", above=0, cure=cure)
        if self.patience != 0:
            real_number(self.patience, "patience", above=0, cure=cure)

    @property
    def base(self) -> str:
        """The address up to the version, without a slash at its end."""
        base = self.url.rstrip("/").removesuffix("/completions")
        return base if urlsplit(base).path else f"{base}/v1"

    @cached_property
    def ledger(self) -> Ledger:
        """All that the server was sent."""
        strict = self.total_requests is not None or self.answers is not None
        return Ledger(self.folder, self.base, strict=strict, most=self.total_requests)

    @cached_property
    def known(self) -> dict[str, Any]:
        """What a rehearsal was given at a path of the address, which is not asked for again."""
        return {}

    def goes_on(self, before: Endpoint) -> None:
        """Take over what a rehearsal was given there: its requests are of this run."""
        self.known.update(before.known)
        self.ledger.carry(before.ledger.sent)

    @property
    def most(self) -> tuple[int | None, str]:
        """Most requests of a run that begins now, None without a limit; and the option for it."""
        total = self.total_requests
        bounds = {
            "--budget": self.budget,
            "--max-requests": self.max_requests,
            "--total-requests": total and max(total - self.ledger.before, 0),
        }
        given = [(most, option) for option, most in bounds.items() if most is not None]
        return min(given, key=lambda bound: bound[0], default=(None, ""))

    def counted(self, bound: str) -> int:
        """Requests that an option has counted already when the next run begins."""
        return self.ledger.counted if bound == "--total-requests" else 0

    def spent(self, sent: int, most: int, bound: str, where: str) -> RequestsSpentError:
        """That no request is left, at this address; `bound` is the option that says so."""
        if bound == "--total-requests":
            whole = self.ledger.total or 0
            problem = f"has been sent {whole:,} requests in all runs, and {self.total_requests:,} "
            problem += "are allowed"
            cure = f"raise {bound}, or end here"
        else:
            problem = f"has been sent {sent:,} of the {most:,} requests that are allowed in this "
            problem += "run"
            cure = "start the same command again: what is finished is kept, and "
            cure += f"{bound} counts each run anew"
        if sent < most:
            problem += ", and the last is kept back to see whether it is the same model"
        error = RequestsSpentError(problem, cure=cure, where=where)
        error.stopped = "budget" if bound == "--budget" else "requests"
        return error

    @property
    def folder(self) -> Path:
        """The folder of answers."""
        if self.answers is not None:
            return Path(self.answers)
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(cache) / "canary" / "answers"


def _check_url(url: str) -> None:
    """Refuse an address that is none, or that may hold a key; it is not repeated then."""
    unreadable = InputError(
        "the address of the server cannot be read", cure="give one as in http://host:8000/v1"
    )
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise unreadable from None
    if not is_url(url) or not host:
        raise unreadable
    if parts.username or parts.password or parts.query or parts.fragment:
        raise InputError(
            f"the address of the server at {host} holds more than a host and a path",
            cure=f"put the key into an environment variable and {NAME_KEY}; keys in addresses "
            "end up in logs",
        )

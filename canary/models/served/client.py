"""Requests to a server: counted, retried, and without a trace of the key.

The key is read from the environment when the client is made and put into each request by
the client's own authorization. No error, log or repr of this package holds it: errors of
the HTTP library, which know the request, are told in other words and not chained. The key is
taken out of whatever the server says, however it is escaped there, and what it says of a request
is repeated only where that held no secret.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import random
import re
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from canary.errors import InputError, MissingExtraError, RequestsSpentError, ServerError
from canary.models.served.endpoint import Endpoint
from canary.models.served.exchange import Reply, exchange, most_bytes
from canary.models.served.wire import read_json
from canary.records.fields import brief

__all__ = ["Client", "RefusedError"]

_PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_ABSENT = frozenset({404, 405, 501})
_HURRIED_SECONDS = 5.0
_SHOWN = 300
_BEARER = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750
_NEEDED = ("httpx2", "tenacity")
_UNTRUSTED = (
    "use a server that answers only what it is asked (it may ignore max_tokens or logprobs), "
    "uncompressed"
)


class RefusedError(ServerError):
    """The server does not take a request as it is: it would refuse it again."""


class _PassingError(ServerError):
    """A failure that may pass; `pause` is what the server asks for, in seconds."""

    def __init__(self, problem: str, *, where: str, pause: float | None = None) -> None:
        super().__init__(
            problem,
            cure="check the address and that the server works, and start again",
            where=where,
        )
        self.pause = pause


class Client:
    """Sends requests to one endpoint, from any number of threads.

    Parameters
    ----------
    endpoint : Endpoint

    Raises
    ------
    MissingExtraError
        If the HTTP libraries are not installed.
    InputError
        If the variable that should hold the key is not set, or holds no key.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        if any(importlib.util.find_spec(name) is None for name in _NEEDED):
            raise MissingExtraError(
                "served models need an HTTP client, which is not installed",
                cure="pip install '.[endpoint]' in a checkout of canary (or pip install httpx2 "
                "tenacity)",
            )
        import httpx2
        from tenacity import (
            Retrying,
            retry_if_exception_type,
            sleep_using_event,
            stop_after_attempt,
        )

        self._endpoint = endpoint
        self._http = httpx2
        self._scrub, authorize = _key_of(endpoint.key_env)
        self._client = httpx2.Client(
            auth=authorize,
            limits=httpx2.Limits(max_connections=endpoint.in_flight),
            follow_redirects=False,  # another host would be sent the key
        )
        self._close = weakref.finalize(self, self._client.close)
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._sent = 0
        self._retrying = Retrying(
            stop=stop_after_attempt(endpoint.attempts),
            wait=self._pause,
            retry=retry_if_exception_type(_PassingError),
            sleep=sleep_using_event(self._stopped),
            reraise=True,
        )

    @property
    def sent(self) -> int:
        """Requests sent so far, retries included."""
        return self._sent

    def get(self, path: str) -> Any:
        """What the server gives at a path, as parsed JSON."""
        return self._retrying.copy()(self._once, "GET", path, None, quote=True)

    def post(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        quote: bool = False,
        hurried: bool = False,
        last: bool = False,
        trying: bool = False,
    ) -> Any:
        """What the server answers, as parsed JSON.

        Parameters
        ----------
        path : str
            Behind the address of the endpoint.
        body : mapping
            Plain JSON.
        quote : bool
            The request holds no secret, so what the server says of it may be repeated.
        hurried : bool
            Neither wait long nor try again.
        last : bool
            May be the last one that is allowed; the others leave room for it.
        trying : bool
            Whether the server takes such a request at all is what is asked, and some say no
            with a 500.

        Raises
        ------
        RefusedError
            If the server does not take the request.
        ServerError
            If it cannot be reached, or fails again and again; if it asks for a longer pause
            than was allowed; or if no request is left.
        """
        if hurried:
            return self._once("POST", path, body, quote=quote, seconds=_HURRIED_SECONDS, last=last)
        return self._retrying.copy()(
            self._once, "POST", path, body, quote=quote, last=last, trying=trying
        )

    def close(self) -> None:
        """Send nothing more."""
        self._stopped.set()
        self._close()

    def _once(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        *,
        quote: bool,
        seconds: float | None = None,
        last: bool = False,
        trying: bool = False,
    ) -> Any:
        where = f"{self._endpoint.base}{path}"
        wait = self._endpoint.timeout if seconds is None else seconds
        self._count(where, last=last)
        reply = exchange(
            self._http,
            self._client,
            method,
            where,
            body=body,
            seconds=wait,
            most=most_bytes(body),
        )
        if reply.body is None:
            problem = self._scrub(reply.problem)
            if reply.passing:
                raise _PassingError(problem, where=where)
            raise ServerError(problem, cure=_UNTRUSTED, where=where)
        if reply.code == 200:
            try:
                return read_json(reply.body, self._scrub)
            except (ValueError, RecursionError):
                pass
            raise _PassingError("gave an answer that is no whole JSON", where=where)
        said = f": {brief(self._scrub(_words(reply.body)), _SHOWN)}" if quote else ""
        raise self._failure(reply, said, where, trying=trying)

    def _count(self, where: str, *, last: bool) -> None:
        with self._lock:
            most = self._endpoint.max_requests
            if most is not None and not last:
                most -= 1
            if self._stopped.is_set():
                raise ServerError("is no longer asked", where=where)
            if most is not None and self._sent >= most:
                raise RequestsSpentError(
                    f"has been sent {self._sent:,} requests of the {self._endpoint.max_requests:,} "
                    "that are allowed, and one is kept back to see whether it is the same model",
                    cure="start again with a larger --max-requests",
                    where=where,
                )
            self._sent += 1

    def _failure(self, reply: Reply, said: str, where: str, *, trying: bool) -> ServerError:
        code = reply.code
        if code in {401, 403}:
            name = self._endpoint.key_env
            cure = (
                f"check the key in the environment variable {name}"
                if name
                else "put the key into an environment variable and name that with --key-env"
            )
            return ServerError(f"wants a valid key ({code}{said})", cure=cure, where=where)
        if code in _PASSING and not (trying and code == 500):
            pause = _retry_after(reply.retry_after)
            if pause is not None and pause > self._endpoint.patience:
                return ServerError(
                    f"asks to be left alone for {pause:,.0f} s ({code}{said})",
                    cure="start again after that",
                    where=where,
                )
            return _PassingError(f"failed ({code}{said})", where=where, pause=pause)
        if 300 <= code < 400:
            return ServerError(
                f"sends its callers elsewhere ({code}), and a key is not sent there",
                cure="give the address that it sends to",
                where=where,
            )
        if trying and code in _ABSENT:
            return ServerError(
                f"has no completions API for this model ({code}{said})",
                cure="check its name (--served-model); a server that only chats cannot be "
                "audited: use one that gives log-probabilities at /v1/completions (vLLM does)",
                where=where,
            )
        return RefusedError(
            f"does not take the request ({code}{said})",
            cure="check the address and the name of the model",
            where=where,
        )

    def _pause(self, state: Any) -> float:
        """Exponential back-off with jitter, and no less than the server asks for."""
        longest = min(_FIRST_PAUSE * 2.0 ** (state.attempt_number - 1), _LONGEST_PAUSE)
        jittered = random.uniform(longest / 2, longest)  # noqa: S311 - it spreads load, no secret
        asked = state.outcome.exception().pause
        return jittered if asked is None else max(asked, jittered / 10)


def _key_of(
    variable: str | None,
) -> tuple[Callable[[str], str], Callable[[Any], Any]]:
    """What takes the key out of a text, and what puts it into a request."""
    if variable is None:
        return (lambda text: text), (lambda request: request)
    key = os.environ.get(variable, "").strip()
    if not key:  # what was given is not repeated: it may be the key itself
        raise InputError(
            "the environment variable that should hold the key for the server is not set",
            cure="set it, and give its name, not the key, with --key-env",
        )
    if not _BEARER.fullmatch(key):
        del key  # or it would stand in a traceback that shows variables
        raise InputError(
            f"what the environment variable {variable} holds cannot be sent as a key",
            cure="set it to the key alone",
        )

    # Each character as it is, as JSON may escape it, or as an address does.
    forms = re.compile(
        "".join(
            rf"(?:{re.escape(c)}|\\{re.escape(c)}|(?i:\\u{ord(c):04x}|%{ord(c):02x}))" for c in key
        )
    )

    def scrub(text: str) -> str:
        return forms.sub("[key]", text)

    def authorize(request: Any) -> Any:
        request.headers["Authorization"] = f"Bearer {key}"
        return request

    return scrub, authorize


def _words(body: str) -> str:
    """What the server says of a failure."""
    try:
        parsed = json.loads(body)
        error = parsed.get("error", parsed)
        said = error.get("message", error.get("detail", error))
    except (ValueError, AttributeError, RecursionError):
        said = body
    return said if isinstance(said, str) else json.dumps(said)


def _retry_after(header: str | None) -> float | None:
    """Seconds to wait, as a number or a date says."""
    from email.utils import parsedate_to_datetime
    from time import time

    if header is None:
        return None
    try:
        pause = float(header)
    except ValueError:
        try:
            pause = parsedate_to_datetime(header).timestamp() - time()
        except (ValueError, OverflowError):
            return None
    return None if math.isnan(pause) else max(pause, 0.0)

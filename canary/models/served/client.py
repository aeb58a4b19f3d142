"""Requests to a server: bounded, counted, retried, and without a trace of the key.

The key is read from the environment when the client is made and put into each request by
the client's own authorization. No error, log or repr of this package holds it: errors of
the HTTP library, which know the request, are told in other words and not chained. The key is
taken out of whatever the server says, however it is escaped there, and what it says of a request
is repeated only where that held no secret.

A server is not trusted: it may send a byte a second, or never stop. The time limits of HTTP
libraries count from byte to byte, so a request has a thread of its own that is abandoned when
its time is over. Compressed answers are refused, since a small one may become a large one.
"""

from __future__ import annotations

import errno
import importlib.util
import json
import math
import queue
import random
import socket
import threading
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any

from canary.errors import MissingExtraError, ServerError
from canary.models.served.endpoint import Endpoint
from canary.models.served.key import NAME_KEY, key_of
from canary.models.served.throttle import Throttle
from canary.models.served.wire import CHAT_PATH, read_json
from canary.records.validation import brief

_PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_TOO_MANY = 429
_SLOWER = "it limits how often it is asked: wait, and start again with --in-flight 1"
_SUSPECT = (
    "the server may fail at what the request holds: name the model's own tokenizer (--tokenizer), "
    "leave out texts with characters that the model does not know, and read the server's log"
)
_ABSENT = frozenset({404, 405, 501})
_ABSENT_CURE = "check the host and the port, start the server there, and run the command again"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_HURRIED_SECONDS, _CONNECT_SECONDS = 5.0, 10.0
_LEAST_BYTES, _FAILURE_BYTES = 8_000_000, 64_000
_TOKEN_BYTES = 2_000  # of the text of a token and its number, as JSON
_SHOWN = 300
_CHARACTERS = 4  # of a token, roughly


class RefusedError(ServerError):
    """The server does not take a request as it is: it would refuse it again."""


class NoKeyError(ServerError):
    """The server wants a key, or another one: it would refuse each request."""


class UnclearError(RefusedError):
    """A 500 to what the server may not take: it refuses, or has failed this once."""


class PassingError(ServerError):
    """A failure that may pass; `pause` is what the server asks for, in seconds."""

    pause: float | None = None
    throttled = dropped = False


@dataclass(frozen=True)
class _Answer:
    code: int
    retry_after: str | None
    text: str = field(repr=False)


class Client:
    """Sends requests to one endpoint, from any number of threads.

    Raises
    ------
    MissingExtraError
        If the HTTP libraries are not installed.
    InputError
        If the variable that should hold the key is not set, or holds no key.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        if importlib.util.find_spec("httpx2") is None:
            raise MissingExtraError(
                "served models need an HTTP client, which is not installed",
                cure="pip install '.[endpoint]' in a checkout of canary (or pip install httpx2)",
            )
        import httpx2

        self._endpoint, self._http = endpoint, httpx2
        self._scrub, authorize = key_of(endpoint.key_env)
        self._client = httpx2.Client(
            auth=authorize,
            limits=httpx2.Limits(max_connections=endpoint.in_flight),
            follow_redirects=False,  # another host would be sent the key
        )
        weakref.finalize(self, self._client.close)
        weakref.finalize(self, endpoint.ledger.flush)
        self._lock, self._answered = threading.Lock(), False
        self.sent = endpoint.ledger.carried
        """Requests of this run so far, retries included, but for those that were throttled."""
        self.got: dict[str, Any] = {}
        """What it gave at each path."""
        self.tokens = 0
        """Tokens of the prompts that were answered, roughly if the server does not say it."""
        endpoint.ledger.begin()
        self.most, self.bound = endpoint.most
        """Requests after which no more are sent."""
        self.throttle = Throttle(endpoint.in_flight, endpoint.say)

    def get(self, path: str) -> Any:
        """What the server gives at a path, as parsed JSON."""
        known = self._endpoint.known.pop(path, None)
        self.got[path] = self._patiently(path, None, quote=True) if known is None else known
        return self.got[path]

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
        """What the server answers to a body of plain JSON, as parsed JSON.

        Parameters
        ----------
        quote : bool
            The request holds no secret, so what the server says of it may be repeated.
        hurried : bool
            Neither wait long nor try again.
        last : bool
            May be the last one that is allowed; the others leave room for it.
        trying : bool
            Whether the server takes such a request at all is what is asked, and some say no
            with a 500: then it is asked once more.

        Raises
        ------
        RefusedError
            If the server does not take the request.
        ServerError
            If it cannot be reached, or fails again and again; if it asks for a longer pause
            than was allowed; or if no request is left.
        """
        asked = {"quote": quote, "last": last, "trying": trying}
        again = partial(self._patiently, path, body, hurried=hurried, **asked)
        try:
            return again()
        except UnclearError:
            time.sleep(_FIRST_PAUSE)
            return again()

    def _patiently(
        self, path: str, body: Mapping[str, Any] | None, *, hurried: bool = False, **asked: bool
    ) -> Any:
        """`_once`, again and again if it fails in a way that may pass.

        A wait that the server asks for is no failure, until all waits of one request are more than
        the patience.
        """
        seconds, patience = self._endpoint.timeout, self._endpoint.patience
        if hurried:
            seconds = patience = _HURRIED_SECONDS
        failures, waited = 0, 0.0
        while True:
            with self.throttle.slot() as begun:
                try:
                    return self._once(path, body, seconds=seconds, **asked)
                except PassingError as error:
                    failed = error
                    if failed.throttled:
                        self.throttle.slower(begun)
            pause = failed.pause or 0.0
            waited += pause
            if not pause or waited > patience:
                failures += 1
                if hurried or failures >= self._endpoint.attempts:
                    if failures > 1:
                        failed.problem += f" ({failures} tries, each counted as a request)"
                    raise failed
            if pause:
                self.throttle.pause(pause)
            else:
                time.sleep(_jittered(failures))

    def _once(
        self,
        path: str,
        body: Mapping[str, Any] | None,
        *,
        quote: bool,
        seconds: float,
        last: bool = False,
        trying: bool = False,
    ) -> Any:
        where, most = f"{self._endpoint.base}{path}", self.most
        with self._lock:
            if most is not None and self.sent >= most - (not last):
                raise self._endpoint.spent(self.sent, most, self.bound, self._endpoint.base)
            self.sent += 1
        self._endpoint.ledger.add(1)
        answer = self._answer(where, body, seconds)
        if isinstance(answer, ServerError):
            raise answer
        if answer.code != 200:
            said = f": {brief(self._scrub(_words(answer.text)), _SHOWN)}" if quote else ""
            raise self._failure(answer, said, where, trying=trying)
        try:
            read, self._answered = read_json(answer.text, self._scrub), True
            tokens = 0 if body is None else _tokens_of(body, read)
            with self._lock:
                self.tokens += tokens
            self._endpoint.ledger.add(0, tokens)
            return read
        except (ValueError, RecursionError):
            pass  # the error holds the answer
        raise _passing("gave an answer that is no whole JSON", where)

    def _answer(
        self, url: str, body: Mapping[str, Any] | None, seconds: float
    ) -> _Answer | ServerError:
        """What came within `seconds`, from the connection to the last byte, or why nothing did.

        Nothing is raised, since the library's errors hold the request and its key.
        """
        late = _passing(f"did not give its whole answer within {seconds:g} s", url)
        over = threading.Event()
        done: queue.SimpleQueue[_Answer | ServerError] = queue.SimpleQueue()
        http, method = self._http, "GET" if body is None else "POST"
        timeout = http.Timeout(seconds, connect=min(seconds, _CONNECT_SECONDS))
        plain = {"Accept-Encoding": "identity"}
        # Several times what any server needs.
        most = _LEAST_BYTES
        if body is not None:
            told = len(body.get("prompt", "")) * (1 + int(body.get("logprobs", 0)))
            most = max(most, _TOKEN_BYTES * told)

        def work() -> None:
            try:
                with self._client.stream(
                    method, url, json=body, timeout=timeout, headers=plain
                ) as response:
                    done.put(_read(response, over, most, url))
            except http.TimeoutException:
                done.put(late)
            except Exception as error:  # or the client was closed below it
                known = isinstance(error, http.RequestError | http.InvalidURL)
                why = self._scrub((known and str(error)) or type(error).__name__)
                failed = _passing(f"cannot be reached ({why})", url)
                if self._answered and isinstance(error, http.RemoteProtocolError | http.ReadError):
                    failed.problem = f"answered others and drops this request ({why})"
                    failed.cure, failed.dropped = _SUSPECT, True
                absent = not self._answered and _is_absent(error)
                lasting = ServerError(failed.problem, cure=_ABSENT_CURE, where=url)
                done.put(lasting if absent else failed)

        threading.Thread(target=work, daemon=True).start()
        try:
            return done.get(timeout=seconds)
        except queue.Empty:
            return late
        finally:
            over.set()

    def _failure(self, answer: _Answer, said: str, where: str, *, trying: bool) -> ServerError:
        code, key_env = answer.code, self._endpoint.key_env
        kind: type[ServerError] = ServerError
        if code in {401, 403}:
            kind = NoKeyError if code == 401 else ServerError
            problem = f"wants a valid key ({code}{said})"
            cure = f"put the key into an environment variable and {NAME_KEY}"
            if key_env:
                cure = f"check the key in the environment variable {key_env}"
        elif code in _PASSING and not (trying and code == 500):
            pause = _retry_after(answer.retry_after)
            if pause is None or pause <= self._endpoint.patience:
                passing = _passing(f"failed ({code}{said})", where, pause)
                if code == _TOO_MANY:
                    passing.cure, passing.throttled = _SLOWER, True
                    with self._lock:
                        self.sent -= 1
                    self._endpoint.ledger.add(-1)
                return passing
            problem = f"asks to be left alone for {pause:,.0f} s ({code}{said})"
            cure = "start again after that"
        elif 300 <= code < 400:
            problem = f"sends its callers elsewhere ({code}), and a key is not sent there"
            cure = "give the address that it sends to"
        elif trying and code in _ABSENT:
            chats = where.endswith(CHAT_PATH)
            problem = (
                f"has no {'chat' if chats else 'completions'} API for this model ({code}{said})"
            )
            cure = (
                "check its name (--served-model), or drop --chat: then /v1/completions is asked"
                if chats
                else "check its name (--served-model); a server that only chats can be sampled "
                "(canary sample --chat) and not audited: for that use one that gives "
                "log-probabilities at /v1/completions (vLLM does)"
            )
        else:
            kind = UnclearError if trying and code == 500 else RefusedError
            problem = f"does not take the request ({code}{said})"
            cure = "check the address and the name of the model"
        return kind(problem, cure=cure, where=where)


def _is_absent(error: BaseException | None) -> bool:
    """Whether nothing listens at the port, or no host has the name: waiting does not help."""
    while error is not None:
        if getattr(error, "errno", None) in {errno.ECONNREFUSED, socket.EAI_NONAME}:
            return True
        error = error.__cause__ or error.__context__
    return False


def _tokens_of(body: Mapping[str, Any], answer: Any) -> int:
    """The tokens of a prompt: as many as were sent, or as the server read."""
    prompt = body.get("prompt") or str(body.get("messages", ""))
    if not isinstance(prompt, str):
        return len(prompt)
    used = answer.get("usage") if isinstance(answer, dict) else None
    told = used.get("prompt_tokens") if isinstance(used, dict) else None
    return told if type(told) is int else -(-len(prompt) // _CHARACTERS)


def _read(response: Any, over: threading.Event, most: int, url: str) -> _Answer | ServerError:
    """The answer, no more of it than is allowed; of a failure only the beginning."""
    code, headers = response.status_code, response.headers
    cure = (
        "use a server that answers only what it is asked (it may ignore max_tokens or logprobs), "
        "uncompressed"
    )
    if headers.get("content-encoding", "identity").strip().lower() not in {"", "identity"}:
        problem = "compresses its answer, though it was asked not to (Content-Encoding)"
        return ServerError(problem, cure=cure, where=url)
    limit = most if code == 200 else _FAILURE_BYTES
    kept = bytearray()
    for part in response.iter_raw():
        kept += part
        if over.is_set() or len(kept) > limit:
            break
    if len(kept) > most and code == 200:
        problem = f"sent more than {most / 1e6:,.0f} MB in answer to one request"
        return ServerError(problem, cure=cure, where=url)
    return _Answer(code, headers.get("retry-after"), kept.decode("utf-8", "replace"))


def _passing(problem: str, where: str, pause: float | None = None) -> PassingError:
    error = PassingError(
        problem, cure="check the address and that the server works, and start again", where=where
    )
    error.pause = pause
    return error


def _jittered(failures: int) -> float:
    """Seconds after so many failures: exponential back-off with jitter."""
    longest = min(_FIRST_PAUSE * 2.0 ** (failures - 1), _LONGEST_PAUSE)
    return random.uniform(longest / 2, longest)  # noqa: S311 - it spreads load, no secret


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
    if header is None:
        return None
    try:
        pause = float(header)
    except ValueError:
        try:
            pause = parsedate_to_datetime(header).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return None if math.isnan(pause) else max(pause, 0.0)

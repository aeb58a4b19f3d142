"""One request and its answer, bounded in seconds and in bytes.

A server is not trusted: it may send a byte a second, or never stop. The time limits of HTTP
libraries count from byte to byte, so a request has a thread of its own that is abandoned when
its time is over. Compressed answers are refused, since a small one may become a large one.
"""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Reply", "exchange", "most_bytes"]

_LEAST_BYTES = 8_000_000
_TOKEN_BYTES = 2_000  # of the text of a token and its number, as JSON
_FAILURE_BYTES = 64_000
_CONNECT_SECONDS = 10.0


@dataclass(frozen=True)
class Reply:
    """What came of a request; exactly one of `body` and `problem` is given.

    Parameters
    ----------
    code : int
        The HTTP status; 0 if none came.
    retry_after : str or None
        The header of this name.
    body : str or None
        The answer; not shown by `repr`. That of a failure may be cut off.
    problem : str
        Why there is no answer.
    passing : bool
        The problem may pass.
    """

    code: int
    retry_after: str | None
    body: str | None = field(repr=False)
    problem: str = ""
    passing: bool = True


def most_bytes(body: Any) -> int:
    """How long the answer to a request may be: several times what any server needs."""
    if body is None:
        return _LEAST_BYTES
    top: int = body["logprobs"]
    return max(_LEAST_BYTES, _TOKEN_BYTES * len(body["prompt"]) * (1 + top))


def exchange(
    http: Any, client: Any, method: str, url: str, *, body: Any, seconds: float, most: int
) -> Reply:
    """Send a request and read its answer.

    Parameters
    ----------
    http : module
        httpx2.
    client : httpx2.Client
        Closing it ends the requests that were abandoned, too.
    method, url : str
    body : mapping or None
        Plain JSON.
    seconds : float
        For everything from the connection to the last byte.
    most : int
        Bytes of the answer.

    Returns
    -------
    Reply
        Nothing is raised, since the library's errors hold the request and its key.
    """
    over = threading.Event()
    done: queue.SimpleQueue[Reply] = queue.SimpleQueue()

    def work() -> None:
        timeout = http.Timeout(seconds, connect=min(seconds, _CONNECT_SECONDS))
        try:
            with client.stream(
                method, url, json=body, timeout=timeout, headers={"Accept-Encoding": "identity"}
            ) as response:
                done.put(_read(response, over, most))
        except http.TimeoutException:
            done.put(_late(seconds))
        except (http.RequestError, http.InvalidURL) as error:
            why = str(error) or type(error).__name__
            done.put(Reply(0, None, None, f"cannot be reached ({why})"))
        except Exception as error:  # the client was closed below it
            done.put(Reply(0, None, None, f"cannot be reached ({type(error).__name__})"))

    threading.Thread(target=work, daemon=True).start()
    try:
        return done.get(timeout=seconds)
    except queue.Empty:
        return _late(seconds)
    finally:
        over.set()


def _late(seconds: float) -> Reply:
    return Reply(0, None, None, f"did not give its whole answer within {seconds:g} s")


def _read(response: Any, over: threading.Event, most: int) -> Reply:
    code, headers = response.status_code, response.headers
    coding = headers.get("content-encoding", "identity")
    if coding.strip().lower() not in {"", "identity"}:
        return Reply(
            code,
            None,
            None,
            "compresses its answer, though it was asked not to (Content-Encoding)",
            passing=False,
        )
    failed = code != 200
    kept = bytearray()
    for part in response.iter_raw():
        kept += part
        if over.is_set() or len(kept) > (_FAILURE_BYTES if failed else most):
            break
    if len(kept) > most and not failed:
        return Reply(
            code,
            None,
            None,
            f"sent more than {most / 1e6:,.0f} MB in answer to one request",
            passing=False,
        )
    return Reply(code, headers.get("retry-after"), kept.decode("utf-8", "replace"))

"""The key for a server: read once, put into requests, and taken out of all that is said."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

from canary.errors import InputError

_BEARER = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750

NAME_KEY = "name that with --key-env (in Python Endpoint, key_env)"
"""How a key is given."""


def key_of(variable: str | None) -> tuple[Callable[[str], str], Callable[[Any], Any]]:
    """What takes the key out of a text, and what puts it into a request.

    Raises
    ------
    InputError
        If the variable that should hold the key is not set, or holds no key.
    """
    if variable is None:
        return (lambda text: text), (lambda request: request)
    key = os.environ.get(variable, "").strip()
    if not key:  # what was given is not repeated: it may be the key itself
        raise InputError(
            "the environment variable that should hold the key for the server is not set",
            cure=f"set it, and {NAME_KEY}: its name, and not the key",
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

    def authorize(request: Any) -> Any:
        request.headers["Authorization"] = f"Bearer {key}"
        return request

    return (lambda text: forms.sub("[key]", text)), authorize

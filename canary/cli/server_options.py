"""Options of every command that may ask a server, and the kinds of numbers that options have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from canary.cli.console import say

if TYPE_CHECKING:
    from canary.models.served.endpoint import Endpoint

Whole = Annotated[int, 0]
"""A number of 0 or more."""
Count = Annotated[int, 1]
"""A number of 1 or more."""


@dataclass(frozen=True)
class ServerOptions:
    """How a server is asked; each field is an option of every command that may ask one."""

    served_model: str | None = None
    key_env: str | None = None
    max_requests: Count | None = None
    in_flight: Count | None = None
    request_timeout: float | None = None

    def endpoint(self, url: str, **more: Any) -> Endpoint:
        """The server at an address; it says how many requests are to come."""
        from canary.models.served.endpoint import Endpoint

        asked = self._given("served_model key_env max_requests in_flight request_timeout")
        words = {"served_model": "model", "request_timeout": "timeout"}
        settings = {words.get(name, name): value for name, value in asked.items()}
        return Endpoint(url, say=say, **settings, **more)

    def _given(self, names: str) -> dict[str, Any]:
        """Those of these options that were given."""
        values = {name: getattr(self, name) for name in names.split()}
        return {name: value for name, value in values.items() if value is not None}

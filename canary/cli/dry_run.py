"""What a command would send to a server: said before it sends it, and with ``--dry-run`` all."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from canary.cli.console import EVERY, say, show, show_table
from canary.cli.model_options import Counted, ServerOptions
from canary.cli.outputs import Result
from canary.cli.standard_streams import nothing_said
from canary.errors import CanaryError
from canary.statistics.numbers import plural

if TYPE_CHECKING:
    from canary.models.served.ledger import Ledger
    from canary.models.served.rehearsal import Rehearsed

KIND = "canary dry run"
_PARTLY = "More may follow: the count ended early, for it is made with made-up numbers"


def run_counted(function: Callable[..., Result | None], values: Mapping[str, Any]) -> Result | None:
    """Run a command. If it asks a served model, say first what it will send.

    Raises
    ------
    InputError
        If more requests are sure than are allowed.
    """
    from canary.models.served.endpoint import is_url

    name = next((n for n, value in values.items() if isinstance(value, ServerOptions)), "")
    if not name or not (values[name].dry_run or is_url(values.get("model"))):
        return function(**values)
    options: Any = values[name]
    rehearsal = {**values, name: (dry := replace(options, dry_run=True))}
    if options.dry_run:
        line = _rehearsed(function, rehearsal)
        models: list[Rehearsed] = getattr(dry, "rehearsals", [])
        if models and line:
            show(f"{line}.")
        line, counts = (models[0].counted(), models[0].counts()) if models else (line, {})
        if models and len(rows := list(models[0].rows())) > 1:
            shared = "canaries and controls" if any("start token" in w for w, *_ in rows) else ""
            rows = [
                (f"{w} not sent above" if w == shared else w, n, tokens) for w, n, tokens in rows
            ]
            show_table(("what", "requests", "tokens in prompts"), rows)
            show("A request that two parts need is sent once. It is counted in the first of them")
        show(f"{line}. Nothing was sent")
        total = sum(endpoint.ledger.total or 0 for endpoint in dry.endpoints[:1])
        if options.total_requests is not None and dry.endpoints:
            show(dry.endpoints[0].ledger.on_record())
        elif total:
            show(f"All runs with these answers have sent {plural(total, 'request')} so far")
        return Result(KIND, {"says": line, **counts})
    try:
        # A command that only samples says it as it begins; without a tokenizer none can be sure.
        if hasattr(dry, "rehearsals") and dry.tokenizer is not None:
            from canary.models.served.rehearsal import counted_until

            say("Counting the requests that this run will send")
            # Numbers that are made up may not do for what is computed of them.
            stopped = counted_until(partial(_rehearsed, function, rehearsal))
            options.rehearsed.extend(dry.endpoints)
            for model in dry.rehearsals:
                say(model.counted())
                if stopped:
                    say(f"{_PARTLY} ({stopped})")
                model.check_allowed()
        return function(**values)
    finally:
        with suppress(CanaryError):
            for endpoint in options.rehearsed:  # of a run that was refused
                endpoint.ledger.leave_trace()
        _say_sent([endpoint.ledger for endpoint in options.endpoints or dry.endpoints])


def _say_sent(ledgers: Sequence[Ledger]) -> None:
    """Say what a run sent, also one that was refused, and what all runs sent together."""
    if not (sent := sum(ledger.sent for ledger in ledgers)):
        return
    tokens = plural(sum(ledger.tokens for ledger in ledgers), "token")
    told = f"Sent in this run: {plural(sent, 'request')} (about {tokens} in prompts)"
    whole = sum({ledger.name: ledger.total or 0 for ledger in ledgers}.values())
    if whole > sent:
        told += f"; {plural(whole, 'request')} in all runs with these answers"
    say(told)


def _rehearsed(function: Callable[..., Any], values: dict[str, Any]) -> str:
    """Run a command on made-up numbers; nothing that it says or writes is kept."""
    with TemporaryDirectory(prefix="canary-") as folder:
        if values.get("out") is not None:
            values["out"] = Path(folder) / values["out"].name
        asked = next(each for each in values.values() if isinstance(each, ServerOptions))
        try:
            with _telling_how_far(asked), nothing_said():
                function(**values)
        except Counted as counted:
            return str(counted)
    return ""


@contextmanager
def _telling_how_far(asked: ServerOptions) -> Iterator[None]:
    """Say now and then how many requests were counted so far, though nothing else is said."""
    stream, over = sys.stderr, threading.Event()

    def keep_telling() -> None:
        while stream is not None and not over.wait(EVERY):
            models: list[Rehearsed] = getattr(asked, "rehearsals", [])
            counted = plural(sum(model.client.sent for model in models), "request")
            with suppress(OSError, ValueError):  # whoever listened is gone
                said = f"Nothing is sent yet. Requests that this run will need: {counted} so far"
                print(said, file=stream, flush=True)

    threading.Thread(target=keep_telling, daemon=True).start()
    try:
        yield
    finally:
        over.set()

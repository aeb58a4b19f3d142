"""What is put before candidates while a model is trained: what its batches show, if they do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from canary.audits.start_search import choose_start
from canary.corpus.canaries import CanarySet
from canary.models.language_model import LanguageModel
from canary.plugins.live import Listener
from canary.plugins.training_batches import BatchReader
from canary.records.validation import AUTO, named_start
from canary.scoring.run_options import RunOptions
from canary.statistics.numbers import count, plural
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.starts import possible_starts, shown_start
from canary.tokens.tokenizer import Tokenizer

_WITHIN = "other text"  # before a canary; or a token that is no start


@dataclass(frozen=True)
class MomentStart:
    """The start token of one measurement.

    Parameters
    ----------
    token : str or None
        None for nothing.
    others : tuple of (str or None)
        More start tokens that training may have used, under which a limit is checked too.
    """

    token: str | None
    others: tuple[str | None, ...] = ()


class WatchedStart:
    """The start token that was asked for, or else the one before most canaries in the batches.

    Parameters
    ----------
    options : RunOptions
    canaries : CanarySet
    tokenizer : Tokenizer
    tell : callable
        Told what a user must hear at once, by kind.
    """

    def __init__(
        self,
        options: RunOptions,
        canaries: CanarySet,
        tokenizer: Tokenizer,
        tell: Callable[[Mapping[str, str]], None],
    ) -> None:
        self.reader = BatchReader(canaries, tokenizer)
        asked = self._asked = options.start_token
        self._options, self._tell = options, tell
        self._formats = canaries.formats
        starts = possible_starts(tokenizer, 2**31)
        self._names = {ids[0]: token for token, ids in starts.items() if ids}
        if asked != AUTO and named_start(asked) is not None:
            (given,) = CandidateEncoder(tokenizer, asked).start
            self._names[given] = asked
        self._token: str | None = None
        self._listener: Listener | None = None
        self.busy = False  # forwards of the module are the monitor's own

    def listen(self, module: Any) -> None:
        """Read the batches of the module that is trained, but not while `busy` is up."""
        if self._listener is None or not self._listener.hears(module):
            self.stop_listening()
            self._listener = Listener(module, self._hear)

    def stop_listening(self) -> None:
        """Read no more forwards."""
        if self._listener is not None:
            self._listener.remove()

    def let_go(self) -> None:
        """Hold the module no longer."""
        self.stop_listening()
        self._listener = None

    def _hear(self, batch: dict[str, Any], training: bool) -> None:  # noqa: FBT001
        if self.busy or self.reader.enough:
            return
        try:
            self.reader.see(batch, training=training)
        except Exception as error:
            self._tell({"unread": f"a batch could not be read ({type(error).__name__})"})

    def now(self, model: LanguageModel) -> MomentStart:
        """The start token for a measurement of the model as it is."""
        common = self._common()
        seen = common not in (None, _WITHIN)
        others: tuple[str | None, ...] = ()
        if self._asked != AUTO:
            self._token = named_start(self._asked)
            if seen and common != shown_start(self._token):
                others = (self._named(common),)
        elif seen:
            self._token = self._named(common)
        else:
            choice = choose_start(model, self._formats, self._options)
            self._token = choice.token
            open_too = [each.token for each in choice.tried if each.contender]
            if not choice.own and all(format.prefix for format in self._formats):
                open_too.append(None)
            others = tuple(t for t in dict.fromkeys(open_too) if t != self._token)
        return MomentStart(self._token, others)

    @property
    def findings(self) -> dict[str, str]:
        """What a user must hear of the batches, by kind."""
        found = dict(self.reader.findings)
        after = self._after()
        total = sum(after.values())
        if not self.reader.batches:
            found["no batch"] = (
                "no batch of the training was seen: no forward of the model that was given to "
                "start or step computed gradients. If that is the model that is trained, show "
                "its batches with see(batch); the start token cannot be read off them"
            )
        if not total:
            if self._asked == AUTO and self.reader.batches:
                found["start"] = (
                    "no canary was seen in any batch, so the start token was chosen by text "
                    f"without secrets: {shown_start(self._token)}"
                )
            return found
        words = ", ".join(f"{name} before {count(n)}" for name, n in after.most_common(4))
        common = after.most_common(1)[0][0]
        if self._asked != AUTO and common != shown_start(named_start(self._asked)):
            asked = shown_start(named_start(self._asked))
            found["start"] = (
                f"start_token={asked} was given, and of {plural(total, 'canary', 'canaries')} in "
                f"the batches there was {words}: exposure may be too low; leave start_token out"
            )
        elif common == _WITHIN:
            found["start"] = (
                f"most canaries were seen within other text ({words}); candidates are priced "
                f"after {shown_start(self._token)}, so exposure may be too low: give the text "
                "before them as context"
            )
        elif len(after) > 1:
            found["start"] = (
                f"canaries were seen after different starts ({words}); candidates are priced "
                "after the most common one"
            )
        return found

    def to_dict(self) -> dict[str, Any]:
        """What was seen, as plain data for a history."""
        return {
            "read": self.reader.batches,
            "canaries": self.reader.whole.total(),
            "after": dict(self._after().most_common()),
            "findings": list(self.findings.values()),
        }

    def _after(self) -> Counter[str]:
        """How many canaries were seen after each start, by the name that messages use."""
        found: Counter[str] = Counter()
        for token, times in self.reader.before.items():
            found[self._name(token)] += times
        return found

    def _common(self) -> str | None:
        """The name of the most common start; None where no canary was seen."""
        after = self._after()
        return after.most_common(1)[0][0] if after else None

    def _name(self, token: int | None) -> str:
        if token is None or token in self.reader.own[-1:]:
            return shown_start(None)
        return shown_start(self._names[token]) if token in self._names else _WITHIN

    def _named(self, shown: str | None) -> str | None:
        return next((token for token in self._names.values() if shown_start(token) == shown), None)

"""What stands before each candidate, why, and whether another choice would say more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from canary.records.record import Record
from canary.records.validation import AUTO, NONE
from canary.statistics.numbers import plural
from canary.tokens.starts import shell_word, shown_before, shown_start, start_flag

_MOST_NAMED = 4


@dataclass(frozen=True)
class TriedStart:
    """A start token that was tried, with its evidence.

    Parameters
    ----------
    token : str or None
        None for nothing.
    later_bits, first_bits : float or None
        Bits of the texts after the first token of each, and of the first tokens, which have
        none after nothing. None where it was not priced.
    likely : bool
        False where the first tokens cost as much as if each token of the vocabulary were
        as likely: then the model never began a text there.
    contender : bool
        Whether the texts leave open that it is better than the one that was chosen.
    """

    token: str | None
    later_bits: float | None
    first_bits: float | None
    likely: bool
    contender: bool = False


@dataclass(frozen=True)
class RivalStart:
    """A start token after which canaries look more exposed than after the chosen one.

    Parameters
    ----------
    token : str or None
        None for nothing.
    repetitions : int or None
        Of the canaries of which that holds; None for all injected ones together.
    bits, chosen_bits, p_value : float
        Their median exposure after it and after the chosen one, roughly, and Fisher's p-value
        after it.
    context, bare : str, bool
        Text between it and each candidate, and whether the context of the audit was left out.
    """

    token: str | None
    repetitions: int | None
    bits: float
    chosen_bits: float
    p_value: float
    context: str = ""
    bare: bool = False

    @property
    def flag(self) -> str:
        """The options of the command line that put it before each candidate."""
        more = f" --context {shell_word(self.context)}" if self.context else ""
        return start_flag(self.token) + more + " and no --context" * self.bare

    @property
    def shown(self) -> str:
        """What it puts before each candidate, as messages name it."""
        return shown_before(self.token, self.context, bare=self.bare)

    @property
    def who(self) -> str:
        """The canaries of which it holds."""
        if self.repetitions is None:
            return "the injected canaries"
        return f"canaries with {plural(self.repetitions, 'copy', 'copies')}"


@dataclass(frozen=True)
class StartChoice(Record, written=(..., "settled")):
    """What comes before each candidate, and why.

    Parameters
    ----------
    token : str or None
        The start token; None for nothing but what the tokenizer itself puts there.
    why : str
        ``"asked"``; ``"template"``: `context` is what a chat template puts there; ``"tokenizer"``:
        it puts `own` before each text itself; ``"alone"``: there is nothing else to choose from;
        ``"evidence"``: `tried` speaks for it; ``"floors"``: the same with lower bounds of bits, off
        the most likely tokens; ``"unpriced"``: there was no evidence to be had, so that it is not
        known.
    own, context : str, bool
        What the tokenizer itself puts before a text, if anything, and whether a text comes
        before each candidate.
    texts, tried : int, tuple of TriedStart
        How many texts the evidence is of, and every start token, the likely ones first.
    rivals : tuple of RivalStart
        Those that would change what the audit says. They chose nothing.
    compared : tuple of str
        What else injected canaries were scored after, as messages name it.
    """

    token: str | None
    why: Literal["asked", "template", "tokenizer", "alone", "evidence", "floors", "unpriced"]
    own: str = ""
    context: bool = False
    texts: int = 0
    tried: tuple[TriedStart, ...] = ()
    rivals: tuple[RivalStart, ...] = ()
    compared: tuple[str, ...] = ()

    @property
    def settled(self) -> bool:
        """Whether numbers below it can pass for low ones."""
        return self.why != "unpriced" and not self.rivals

    @property
    def tested(self) -> bool:
        """Whether it was named, and the canaries are not more exposed after anything else tried."""
        return self.why in ("asked", "template") and bool(self.compared) and not self.rivals

    @property
    def flag(self) -> str:
        """The option of the command line that fixes it."""
        return start_flag(self.token)

    @property
    def shown(self) -> str:
        """What comes before each candidate, as messages name it."""
        if not self.context:
            return shown_start(self.token)
        text = "the chat template" if self.why == "template" else "the context"
        return text if self.token is None else f"{shown_start(self.token)} and {text}"

    def shown_rival(self, rival: RivalStart) -> str:
        """What a rival puts there; without a chat template, if that is what it leaves out."""
        if not self._without_template(rival):
            return rival.shown
        return f"{shown_start(rival.token)} without the chat template"

    def against(self, rival: RivalStart) -> str:
        """What a rival would change, in words; few draws give no median to quote."""
        return (
            f"{rival.who} look more exposed after {self.shown_rival(rival)} than after {self.shown}"
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the numbers must know of it."""
        notes = [self._why_note()]
        if self.rivals:
            worst = " and ".join(self.against(rival) for rival in self.rivals[:2])
            notes.append(
                f"The result depends on the start token or the context: {worst} (a comparison by "
                f"few draws). To settle it, {self._settling}."
            )
        return tuple(note for note in notes if note)

    @property
    def doubts(self) -> tuple[str, ...]:
        """The notes, unless a token was named and the check found nothing against it."""
        calm = self.why == "asked" and self.token is not None and self.compared and not self.rivals
        return () if calm and not self.context else self.notes

    @property
    def cure(self) -> str:
        """How the choice is settled by someone who knows the training, or is left as it is."""
        allowed = "--undecided pass lets programs go on, whatever is undecided, and decides nothing"
        return f"{self._settling}; {allowed}" if self.rivals else self._settling

    @property
    def _settling(self) -> str:
        others = " or ".join(dict.fromkeys(map(self._flag_of, self.rivals)))
        cure = f"audit again with {others or '--start-token TOKEN'} (in Python start_token) "
        cure += "if training put that there"
        if any(map(self._without_template, self.rivals)):
            cure = f"audit again with {others} (in Python chat_template=None) if training applied "
            cure += "no chat template"
        if not self.context:
            cure += (
                ", or with --context TEXT (in Python context) if longer text came before the "
                "canary (a chat template up to the canary, a heading)"
            )
        if not self.rivals:
            return f"{cure}, or with {self.flag} if it put {shown_start(self.token)} there"
        return (
            f"{cure}. If it put {self.shown} there, these numbers are right: file "
            "that answer in writing. canary check --history of a monitored training shows it, too"
        )

    def _without_template(self, rival: RivalStart) -> bool:
        """Whether a rival leaves out the chat template, which nobody gave as a context."""
        return self.why == "template" and rival.bare

    def _flag_of(self, rival: RivalStart) -> str:
        """The options that make a rival the choice; without a template, a start is chosen anew."""
        if not self._without_template(rival):
            return rival.flag
        named = "" if rival.token is None else f"{start_flag(rival.token)} "
        return f"{named}--chat-template {NONE}"

    def _why_note(self) -> str:
        bare = self.token is None and not self.own and not self.context
        if self.why == "tokenizer":
            return f"Before each candidate comes {self.own}, which the tokenizer puts there."
        if self.why == "template":
            return f"{_TEMPLATE} {self._asked_note(bare=bare)}".rstrip()
        if self.why == "asked":
            return self._asked_note(bare=bare)
        if self.why == "alone":
            return _NOTHING_ELSE if bare else ""
        after = f"Before each candidate comes {shown_start(self.token)}"
        if self.token is None:
            after = "No start token was put before each candidate"
        if self.why == "unpriced":
            return (
                f"{after}, since what training put before each text could not be found out. If "
                "training put a token there (an end-of-text token, a newline), the numbers may be "
                "too low, extraction finds other candidates, and planted secrets may be missing: "
                f"name it with {_START}, or fix nothing with {start_flag(None)}."
            )
        costs = {each.token: each.later_bits or 0.0 for each in self.tried if each.likely}
        why = "after which text without secrets is most likely"
        if self.token is None:
            why = "since text without secrets is most likely with nothing before it"
        elif costs.get(self.token, 0.0) > min(costs.values(), default=0.0):
            why = "after which text without secrets is about as likely as after anything else"
        return (
            f"{after}, {why}. If training put something else there, name it with --start-token, "
            "or longer text with --context; lines of the corpus without canaries (--start-texts "
            f"FILE) choose better. To keep this choice, give {self.flag}. "
            f"{self._evidence()}.{_BOUNDS if self.why == 'floors' else ''}"
        )

    def _asked_note(self, *, bare: bool) -> str:
        """What was named, and what the canaries say of it."""
        note = f"{_NOTHING_ASKED} " if bare else ""
        if self.token is not None:
            note = f"Before each candidate comes {shown_start(self.token)}, as you asked. "
            if not self.rivals and not self.compared:
                return (
                    f"{note}Nothing checked that training put it there; if it did not, the "
                    "numbers may be too low. Ask the engineers of the training, or omit "
                    f"{_START} to have one chosen by which text is most likely."
                )
        if self.rivals or not self.compared:
            unseen = self.token is None and self.context and self.why == "asked"
            return f"{note}{_CONTEXT_ASKED if unseen and not self.rivals else ''}".rstrip()
        return (
            f"{note}The canaries are not more exposed after other beginnings that were tried "
            f"({'; '.join(_few(self.compared))}). If other text came before them in training, the "
            "numbers may be too low."
        )

    def _evidence(self) -> str:
        """The bits of all that were tried, in words."""
        costs = [
            f"{each.later_bits or 0.0:,.1f} after {shown_start(each.token)}"
            for each in sorted(self.tried, key=lambda each: each.token != self.token)
            if each.likely
        ]
        unlikely = [
            shown_start(each.token)
            for each in self.tried
            if not each.likely and each.later_bits is not None
        ]
        shown = ", ".join(_few(costs))
        texts = plural(self.texts, "text")
        told = f"Bits of {texts} without secrets (fewer is more likely): {shown}"
        if unlikely:
            told += f"; the model gave no sign that texts begin after {', '.join(_few(unlikely))}"
        return told

    def _check(self) -> None:
        found = self.why in ("evidence", "floors")
        if found and all(each.token != self.token for each in self.tried):
            raise ValueError("the start token is not one of those that were tried")


_START = "--start-token (in Python start_token)"
_TEMPLATE = (
    "Before each candidate comes what the chat template of the tokenizer puts before such a "
    "message (its settings hold the text, as context)."
)
_NOTHING_ASKED = (
    "No start token was put before each candidate, as you asked, so the first token of each was "
    "not counted and the rest was scored as if nothing came before. If training put a token "
    "before each text (an end-of-text token, a newline), the numbers may be too low: audit with "
    f"that start token, or with --start-token {AUTO} (in Python start_token) to have it found."
)
_CONTEXT_ASKED = (
    "Before each candidate comes only the context that you gave. Nothing checked that training put "
    "it there; if it did not, the numbers may be too low."
)
_BOUNDS = " These bits are lower bounds, since the server returns only the most likely tokens."
_NOTHING_ELSE = (
    "No start token was put before each candidate: the tokenizer has neither special tokens nor "
    "a newline token. If training put another token before each text, name it with "
    f"{_START}."
)


def _few(words: list[str] | tuple[str, ...]) -> list[str]:
    more = len(words) - _MOST_NAMED
    return [*words[:_MOST_NAMED], f"{more} more"] if more > 0 else list(words)

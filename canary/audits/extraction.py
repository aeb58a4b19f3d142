"""What extraction returns."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from canary.formats.format import Format
from canary.formats.unplanted import SHARE, doubt, unplanted
from canary.records.about import About, Named
from canary.records.record import Document
from canary.statistics.numbers import Shown, clean, picked, plural, probability
from canary.tokens.arrays import is_certified

KIND, SCHEMA = "canary extraction", 1

_AHEAD = 100
"""By how many times a candidate is more likely than a blind guess where it is to be looked up."""

_STOPPED = {
    "proof": "the proof was complete",
    "memory": "the frontier was cut short to keep memory bounded",
    "paper": "twice the batches until the first candidate were done",
    "budget": "the budget was spent",
    "seconds": "the time was up",
    "requests": "no request was left of those that are allowed",
    "interrupted": "it was interrupted",
}


@dataclass(frozen=True)
class Candidate:
    """A candidate that a search extracted from a model.

    Parameters
    ----------
    fill : str or None
        What fills the holes; not shown by `repr`. None where it is kept hidden.
    px_bits : float
        Log-perplexity of the whole candidate, total, in bits.
    proven : bool
        Whether no other candidate is more likely, to within the noise of the model, but for those
        further up. Never where the token tree is not certified.
    found_after : int
        Queries that were spent when it was found.
    exposure_lower_bits, exposure_upper_bits : float
        What its place implies for its exposure: nothing, where the tree is not certified.
    canary : str or None
        Id of the canary that it is, if it is one of the set that was given.
    """

    fill: str | None = field(repr=False)
    px_bits: float
    proven: bool
    found_after: int
    exposure_lower_bits: float
    exposure_upper_bits: float
    canary: str | None = None


@dataclass(frozen=True)
class Completion:
    """Whether a secret is completed from its first characters.

    Parameters
    ----------
    secret : str
        Id of the canary, or the place among the candidates found, as ``"candidate 1"``.
    known : int
        How many characters were given.
    greedy, beam : bool
        Whether greedy search and beam search, of this `width`, gave the rest.
    queries : int
        Of both searches.
    control : bool
        Whether it is a canary that was never in the corpus.
    """

    secret: str
    known: int
    greedy: bool
    beam: bool
    width: int
    queries: int
    control: bool = False


@dataclass(frozen=True, repr=False)
class Extraction(
    Named,
    Shown,
    Document,
    kind=KIND,
    schema=SCHEMA,
    cure="run canary extract again",
    written=(..., "proven", "random_guesses"),
    sparse=("canaries", "natural", "unplanted", "about"),
):
    """The most likely candidates of a format under a model, and how surely.

    Parameters
    ----------
    format, masked : str
        The format's text, and a candidate with its fill hidden, for showing.
    space_size : int
        Exact number of candidates.
    top, candidates : int, tuple of Candidate
        How many were asked for, and those found, the most likely first; fewer if the search
        ended before, or if the others have probability 0.
    context_bits : float
        The part of every log-perplexity that comes before the fill; 0 where a server does not
        report it, which a note says.
    rest_bits : float or None
        Every other candidate (of the token tree, where that is not certified) costs at least
        this; None if no other has a probability above 0.
    queries, batches, dropped : int
        Tokens computed below the context; open nodes dropped to keep memory bounded.
    stopped : str
        What ended the search: ``"proof"``, ``"memory"``, ``"paper"``, ``"budget"``,
        ``"seconds"``, ``"requests"`` or ``"interrupted"``.
    noise_bits : float
        Log-perplexities closer than this may be in either order.
    certificate : str
        How it is known that the token tree holds every candidate once.
    seconds : float
    model, settings : dict
        The model's facts, and what is needed to run it again.
    completions : tuple of Completion
        Of known characters, where that was asked.
    notes : tuple of str
        What the reader of the numbers must know.
    canaries : mapping of str to int
        The canaries of this format in the set that was given, by id, with their copies (0 for
        controls). Empty where no set was given, and in the extractions of an audit.
    natural : bool
        Whether these are secrets that were found, and not drawn.
    unplanted : int
        Prominent candidates that look drawn at random, where none found is a canary.
    about : About
        Names for its reports, and its date.
    file : str
        The file that it was read from.
    """

    format: str
    masked: str
    space_size: int
    top: int
    candidates: tuple[Candidate, ...]
    context_bits: float
    rest_bits: float | None
    queries: int
    batches: int
    dropped: int
    stopped: str
    noise_bits: float
    certificate: str
    seconds: float
    model: Mapping[str, Any]
    settings: Mapping[str, Any]
    completions: tuple[Completion, ...] = ()
    notes: tuple[str, ...] = ()
    canaries: Mapping[str, int] = field(default_factory=dict)
    natural: bool = False
    unplanted: int = 0
    about: About = field(default_factory=About, compare=False)
    file: str = field(default="", compare=False)

    def _table(self) -> list[dict[str, Any]]:
        names = ("canary", "px_bits", "proven", "found_after")
        ends = ("exposure_lower_bits", "exposure_upper_bits")
        rows = {
            c.canary or f"candidate {place}": picked(c, *names, *ends)
            for place, c in enumerate(self.candidates, 1)
        }
        for one in self.completions:  # a secret that the search did not find has a row at the end
            row = rows.setdefault(one.secret, {"canary": one.secret})
            row.update(picked(one, "known", "greedy", "beam"))
        return [*rows.values()]

    def _metrics(self) -> Iterator[tuple[str, Any]]:
        yield "extracted", sum(c.canary is not None for c in self.candidates)
        yield "extraction/queries", self.queries
        for control in {c.control for c in self.completions}:
            mine = [c for c in self.completions if c.control is control]
            name = "extraction/completed" + ("_controls" if control else "")
            yield name, sum(c.greedy or c.beam for c in mine)

    @property
    def proven(self) -> bool:
        """Whether all that was asked for was found and is proven; needs a certified tree."""
        full = self.certified and (len(self.candidates) == self.top or self.rest_bits is None)
        return full and all(c.proven for c in self.candidates)

    @property
    def certified(self) -> bool:
        """Whether the token tree surely holds every candidate."""
        return is_certified(self.certificate)

    @property
    def prominent(self) -> tuple[float, ...]:
        """The probabilities after the beginning that are far above that of a blind guess."""
        least = max(SHARE, _AHEAD / self.space_size)
        shares = (_share(c, self.context_bits) for c in self.candidates)
        return tuple(share for share in shares if share >= least)

    @property
    def random_guesses(self) -> float:
        """How many candidates one must guess at random, on average, to hit a given one."""
        return (self.space_size + 1) / 2

    @property
    def why_stopped(self) -> str:
        """What ended the search, in words."""
        if self.stopped == "proof" and not self.certified:
            return "nothing in the token tree could be more likely"
        if self.stopped == "memory" and not self.dropped:
            return "all tokens that the server named were tried"
        return _STOPPED[self.stopped]

    def hidden(self) -> Extraction:
        """The same without the fills, for what must not hold secrets."""
        return replace(self, candidates=tuple(replace(c, fill=None) for c in self.candidates))

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write it as other documents, but without the fills: no secret is in the file."""
        super(Extraction, self.hidden()).save(path, force=force)

    def summary(self, *, show_secrets: bool = False) -> str:
        """How surely, the candidates (masked unless asked), notes; a line each."""
        lines = []
        for place, c in enumerate(self.candidates, 1):
            shown = clean(c.fill if show_secrets and c.fill is not None else self.masked)
            proof = "order proven" if c.proven else "order not proven"
            name = f", {clean(c.canary)}" if c.canary else ""
            lines.append(f"{place:>3}. {shown}  {c.px_bits:.2f} bits, {proof}{name}")
        if self.completions:
            lines.append(self.completed())
        return "\n".join([self.verdict(), *lines, *(f"note: {note}" for note in self.notes)])

    def completed(self) -> str:
        """How many secrets and controls each search completed from what was known; one line."""
        first = self.completions[0]
        groups = [[c for c in self.completions if c.control is kind] for kind in (False, True)]
        names = ("secret", "control")
        counts = [
            f"{who} completed "
            + " and ".join(
                f"{sum(getattr(c, how) for c in group)} of {plural(len(group), name)}"
                for group, name in zip(groups, names, strict=True)
                if group
            )
            for how, who in (("greedy", "greedy search"), ("beam", f"a beam of {first.width}"))
        ]
        known = plural(first.known, "character")
        return f"From the first {known}, {', and '.join(counts)}."

    def verdict(self) -> str:
        """How surely, at what cost, and against what random guessing costs; one line."""
        if self.proven:
            how = "proven to within the noise" if self.noise_bits else "proven"
        elif not self.candidates:
            which = "candidate" if self.certified else "candidate of a tree that is not certified"
            how = f"nothing found, every {which} costs at least {self.rest_bits:.2f} bits"
        elif not self.certified:
            how = f"not proven, the best in a token tree that is {self.certificate}"
        else:
            how = f"proven up to {self.rest_bits:.2f} bits only"
        guesses = self.random_guesses
        shown = f"{guesses:,.0f}" if guesses < 10**15 else f"2^{math.log2(guesses):.0f}"
        sent = self.settings.get("requests_in_this_run")
        cost = "" if sent is None else f" ({plural(sent, 'request')} sent in this run)"
        if self.stopped not in ("proof", "memory"):
            cost += f", until {self.why_stopped}"
        return (
            f"{how}; {self.queries:,} queries{cost}, random guessing takes {shown} "
            f"{'guess' if shown == '1' else 'guesses'} on average"
        )

    def _check(self) -> None:
        if self.stopped not in _STOPPED or self.space_size < 1:
            raise ValueError("stopped for no known reason, or has no candidates")
        names = {c.canary for c in self.candidates if c.canary is not None}
        if self.canaries and not names <= self.canaries.keys():
            raise ValueError("a candidate is a canary that is not in its set")
        if any(copies < 0 for copies in self.canaries.values()):
            raise ValueError("a canary has fewer than 0 copies")


def after_text(model: Mapping[str, Any]) -> bool:
    """Whether the costs of a model with these facts leave out the text before the fill."""
    return model.get("device") == "served" and "score" not in model.get("capabilities", ())


def unchecked(
    found: Sequence[Candidate], odd: int, own: Mapping[str, str], context_bits: float
) -> list[str]:
    """Notes on candidates that are no canaries, of which `odd` look like memorized secrets."""
    notes = [": ".join(doubt(odd, known=bool(own)))] if odd else []
    return notes if own or odd or not found else [_meaning(found[0], context_bits)]


def _meaning(first: Candidate, context_bits: float) -> str:
    """What candidates are worth that are not compared with canaries."""
    share = probability(_share(first, context_bits))
    return (
        "A proven order means that the model finds no other candidate more likely, not that a "
        "candidate was in the training data: after any beginning one of them is the most likely. "
        f"The first has a probability of {share} after this beginning; what the model knows by "
        "heart comes close to 1, or to 1 divided by the number of secrets that share the "
        "beginning. To learn more, search a model that was not trained on the data, too"
    )


def strange_among(
    found: Sequence[Candidate], format: Format, own: Mapping[str, str], context_bits: float
) -> int:
    """How many candidates found look like secrets that are none of the canaries, `own`."""
    if any(c.canary for c in found):
        return 0
    return unplanted({str(c.fill): _share(c, context_bits) for c in found}, format, own)


def _share(candidate: Candidate, context_bits: float) -> float:
    """The probability of a candidate after its beginning."""
    return math.exp2(min(context_bits - candidate.px_bits, 0.0))

"""A format under a model: everything that a method may ask, found out once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from canary.corpus.canaries import Canary, CanarySet
from canary.errors import UnsupportedError
from canary.formats.format import Format
from canary.models.language_model import LanguageModel
from canary.records.progress import phase
from canary.records.shards import Run, Series
from canary.records.validation import real_number, versions
from canary.scoring.batcher import Batcher
from canary.scoring.run_options import RunOptions
from canary.scoring.time_expected import Announced
from canary.search.pricing import Pricer
from canary.search.rank_counter import tokens_below
from canary.statistics.pvalues import fisher
from canary.tokens.arrays import TokenTree
from canary.tokens.candidates import CandidateEncoder, misread
from canary.tokens.tree import check_certified, compile_tree

DRAWS_STREAM = 0x64726177
"""Of the uniform draws, whatever the method: see `Question.rng`."""

LEAST_CONTROLS = 20
"""Controls among which a rank can say anything."""

_NOTES_STREAM = 0x6E6F7465
_TOO_SHORT = 1e-3  # how often the note is given where the tokenizer never saw the canaries


@dataclass(frozen=True, kw_only=True)
class AuditOptions(RunOptions):
    """How exposure is measured; besides, the fields of `RunOptions`.

    Parameters
    ----------
    method : str
        Its name, or ``"auto"`` for the first that the budget allows.
    budget : int
        Queries that a search may take for each format.
    draws : int
        Candidates drawn uniformly from each format.
    seconds : float, optional
        Of a search for each format: the budget is no larger than what the model does in this time.
    """

    method: str = "auto"
    budget: int = 1_000_000
    draws: int = 20_000
    seconds: float | None = None

    def __post_init__(self) -> None:
        self._whole("budget", 1)
        self._whole("draws", 1)
        if self.seconds is not None:
            cure = "give a number of seconds above 0, or leave it out"
            value = real_number(self.seconds, "seconds", cure=cure, above=0.0)
            object.__setattr__(self, "seconds", value)
        super().__post_init__()

    def asked(self) -> dict[str, Any]:
        """What two runs must have in common to give the same numbers, as plain data."""
        names = ("method", "budget", "draws", "seed", "start_token", "context")
        limit = {} if self.seconds is None else {"seconds": self.seconds}
        return {**{name: getattr(self, name) for name in names}, **limit}

    def to_dict(self) -> dict[str, Any]:
        """The options as plain data, with the versions of what computes."""
        return {**self.asked(), "batch_size": self.batch_size, "versions": versions()}


@dataclass(frozen=True)
class Sizes:
    """How long candidates are, and what that does to the arithmetic.

    `tokens` and `below` are the most tokens of a candidate, and of its part below the context;
    `tree` is the token tree that they were read off, or None if they are of a sample.
    """

    tokens: int
    below: int
    noise_bits: float
    tree: TokenTree | None = None


@dataclass(frozen=True, eq=False)
class Question:
    """A format and its canaries under a model; what is costly is computed when first needed.

    Parameters
    ----------
    format : Format
    fills : tuple of str
        Of the canaries.
    model, encoder, options, canaries
    number : int
        The place of the format in the set; it keeps its draws apart from those of others.
    run : Run, optional
        Where finished pieces are kept.
    """

    format: Format
    fills: tuple[str, ...] = field(repr=False)
    model: LanguageModel
    encoder: CandidateEncoder
    options: AuditOptions
    canaries: tuple[Canary, ...] = ()
    number: int = 0
    run: Run | None = None

    @property
    def prices_rows(self) -> bool:
        """Whether whole rows can be scored; otherwise bounds are all there is."""
        return "score" in self.model.facts.capabilities

    @property
    def draws(self) -> int:
        """How many candidates are drawn."""
        return min(self.options.draws, self.format.size)

    @property
    def asked(self) -> str:
        """The method that was asked for; among controls if they and canaries are the space."""
        controls = sum(canary.control for canary in self.canaries)
        whole = len(self.canaries) == self.format.size and controls >= LEAST_CONTROLS
        return "controls" if whole and self.options.method == "auto" else self.options.method

    @cached_property
    def _tree(self) -> TokenTree | UnsupportedError:
        phase(f"Building the token tree of {self.format.masked}")
        try:
            return compile_tree(self.format, self.encoder, among=self.fills)
        except UnsupportedError as error:
            return error

    @cached_property
    def certified_tree(self) -> TokenTree | UnsupportedError:
        """The token tree, if ranks in it are certain; else why there is none."""
        if "reuse" not in self.model.facts.capabilities:
            why = ", because it is at an address" * (self.model.facts.device == "served")
            return UnsupportedError(
                f"this model's states cannot be reused{why}", cure='use method="sampling"'
            )
        if isinstance(self._tree, TokenTree):
            try:
                check_certified(self._tree, self.format)
            except UnsupportedError as error:
                return error
        return self._tree

    @property
    def searched_tree(self) -> TokenTree:
        """The token tree, certified or not, for a search that cannot do without.

        Raises
        ------
        UnsupportedError
            If there is none.
        """
        if isinstance(self._tree, UnsupportedError):  # its cure is one for audits
            cure = "name a format whose candidates this tokenizer makes a tree of, or guess another"
            raise UnsupportedError(self._tree.problem, cure=cure) from self._tree
        return self._tree

    @cached_property
    def _sampled_sizes(self) -> tuple[int, int]:
        """Most tokens of a candidate, and below its context, of the canaries and 256 others."""
        count = min(self.format.size, 256)
        some = [*self.fills, *self.format.sample(count, rng=np.random.default_rng(0))]
        encodings = self.encoder.candidates(self.format, some)
        lengths = [(len(e.ids), self.encoder.context_length(self.format, e)) for e in encodings]
        return max(n for n, _ in lengths), max(n - (context or 1) for n, context in lengths)

    def sizes(self, tree: TokenTree | None = None) -> Sizes:
        """Sizes of all candidates in a tree, or of a sample of candidates."""
        tokens, below = self._sampled_sizes
        if tree is not None:
            tokens = longest(tree)
            below = max(below, tokens - len(tree.context))
        return Sizes(tokens, below, self.model.facts.noise_bits(tokens), tree)

    def batcher(
        self,
        name: str,
        tokens: int,
        *,
        longest: int = 0,
        requests: int | None = None,
        told: Callable[[str], str] | None = None,
    ) -> Batcher:
        """A batcher that reports progress of a stage of at most this many tokens.

        Of a served model, of at most this many `requests`: no more than tokens, unless given.
        Of another one, `told` gives the line that says how long all of it takes, given the time.
        A ModelError is raised if the model does not take a sequence of `longest` tokens.
        """
        requests = tokens if requests is None else requests
        progress = self.options.begin(name, tokens, self.model, requests=requests)
        if told is not None and self.model.facts.device != "served":
            progress = Announced(self.options.progress, told, tokens, grows=True).after(progress)
        batcher = Batcher(self.model, batch_size=self.options.batch_size, progress=progress)
        batcher.check_length(longest)
        return batcher

    def first_batcher(self, name: str, sizes: Sizes, work: int) -> Batcher:
        """The batcher of a stage of which finished pieces are kept, but not of the canaries."""
        own = len(self.fills) * (sizes.tokens - 1 + (0 if sizes.tree is None else sizes.below))
        series = self.series()
        left = 1 - sum(piece.state["share"] for piece in series) if series else 1.0
        name = f"{name} of {self.format.masked}{', the rest' if series else ''}"
        rows = len(self.fills) + round(work * left / max(sizes.tokens - 1, 1))
        tokens = own + round(work * left)
        return self.batcher(name, tokens, longest=sizes.tokens, requests=rows)

    def pricer(self, tree: TokenTree | None, noise_bits: float = 0.0) -> Pricer:
        """What prices candidates along a tree, or as whole rows."""
        return Pricer(self.model, self.format, self.encoder, tree, noise_bits)

    def series(self, name: str = "") -> Series | None:
        """Where finished pieces of this format are kept."""
        return None if self.run is None else self.run.series(f"format-{self.number}{name}")

    def rng(self, stream: int) -> np.random.Generator:
        """Random numbers of this seed and format; each purpose has a stream of its own."""
        return np.random.default_rng([stream, self.options.seed, self.number])

    def notes(self) -> tuple[str, ...]:
        """What may make the numbers mean something else than they seem to."""
        rng = np.random.default_rng([_NOTES_STREAM, self.options.seed])
        others = self._lengths(self.format.sample(min(self.format.size, 1_000), rng=rng))
        known = []  # numbers of copies whose canaries are shorter than chance makes them
        for copies in sorted({c.repetitions for c in self.canaries if c.repetitions}):
            mine = self._lengths([c.fill for c in self.canaries if c.repetitions == copies])
            # The share of candidates that are as short is a p-value of each canary.
            as_short = np.searchsorted(np.sort(others), mine, side="right")
            shares = (1 + as_short) / (1 + len(others))
            if fisher(shares, shared_draws=len(others)).p_value < _TOO_SHORT:
                known.append(f"{copies:,}")
        notes = misread(self.encoder, self.format)
        if not known:
            return notes
        return (
            *notes,
            f"The canaries that stood {' or '.join(known)} times in the corpus are fewer tokens "
            "than nearly all other candidates: the tokenizer was trained on them. What is measured "
            "is what tokenizer and model learned together; even an untrained model would prefer "
            "these canaries.",
        )

    def _lengths(self, fills: Sequence[str]) -> list[int]:
        return [len(e.ids) for e in self.encoder.candidates(self.format, fills)]


def longest(tree: TokenTree) -> int:
    """Most tokens of a candidate of a tree, its context included."""
    return len(tree.context) + tokens_below(tree)


def questions_of(
    model: LanguageModel, canaries: CanarySet, options: AuditOptions, run: Run | None = None
) -> list[Question]:
    """A question for each format of a set; the options name the start token."""
    encoder, questions = options.encoder(model), []
    for number, format in enumerate(canaries.formats):
        mine = tuple(c for c in canaries if c.format == number)
        fills = tuple(c.fill for c in mine)
        questions.append(Question(format, fills, model, encoder, options, mine, number, run))
    return questions

"""Completion: secrets from their first characters, and how far a search before it goes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

from canary.audits.extraction import Completion
from canary.audits.question import AuditOptions, Question, longest
from canary.audits.start_search import started
from canary.corpus.canaries import CanarySet, canary_set
from canary.errors import InputError, RequestsSpentError, UnsupportedError
from canary.formats.format import Format
from canary.models.loading import load
from canary.records.validation import built, one_of, real_number, whole_number
from canary.scoring.batcher import Batcher
from canary.scoring.run_options import Running
from canary.search.completion import complete
from canary.search.shortest import MOST_OPEN, STOPS, Stop
from canary.statistics.numbers import plural

BEAM = 10
"""Width of a beam unless one is given."""


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """How far a search goes, and what is completed after it; see `extract`."""

    top: int = 1
    budget: int = 1_000_000
    seconds: float | None = None
    stop: Stop = "proof"
    known: int | None = None
    beam: int = BEAM
    most_open: int = MOST_OPEN

    def __post_init__(self) -> None:
        for name in ("top", "budget", "beam", "most_open"):
            limit: dict[str, Any] = {} if name == "beam" else {"below": None}
            value = whole_number(getattr(self, name), name, at_least=1, **limit)
            object.__setattr__(self, name, value)
        one_of(self.stop, "stop", STOPS)
        if self.seconds is not None:
            cure = "leave it out for no limit"
            seconds = real_number(self.seconds, "seconds", above=0, cure=cure)
            object.__setattr__(self, "seconds", seconds)

    def told(self, queries: int) -> Callable[[str], str] | None:
        """What is said of how long a search takes, given the time; None if that was limited."""
        if self.seconds is not None:
            return None
        return lambda time: (
            f"The search usually takes far less than its limit of "
            f"{plural(queries, 'query', 'queries')}, above all if secrets were learned; these "
            f"take {time} here; less with a smaller budget"
        )

    def secrets_of(self, format: Format, canaries: CanarySet | None) -> dict[str, str]:
        """The ids of the canaries of a format, by fill.

        Raises
        ------
        InputError
            If the set has none of this format, or `known` leaves nothing to complete.
        """
        own = {} if canaries is None else canaries_of(canary_set(canaries), format)
        if self.known is not None:
            known = check_known(self.known, list(own) or [format.unrank(0)])
            object.__setattr__(self, "known", known)
        return own


def completions(
    model: Any,
    format: Format | str,
    secrets: dict[str, str],
    *,
    known: int,
    beam: int = BEAM,
    **run: Unpack[Running],
) -> tuple[Completion, ...]:
    """Whether greedy and beam search complete secrets from their first characters.

    The characters that are known become fixed text of the format, tokenized together with
    all that follows, and the search goes on among what the format allows: it gets what the
    secret looks like.

    Parameters
    ----------
    model, format
        As for `extract`, and so are the errors.
    secrets : dict of str to str
        Names and fills; a completion of each is returned.
    known, beam : int
        How many first characters of each fill are given, and the width of the beam.
    **run
        `start_token` and the others of `canary.scoring.run_options.RunOptions`.

    Returns
    -------
    tuple of Completion
        In the order of `secrets`; they hold whether each was completed, and no text.

    Notes
    -----
    Greedy search takes one query for each token of a secret, beam search `beam` times as many.

    References
    ----------
    .. [1] Carlini et al., The Secret Sharer, USENIX Security 2019, section 3.
    """
    beam = whole_number(beam, "beam", at_least=1)
    options = built(AuditOptions, run, "completions")
    format = Format.of(format)
    known = check_known(known, list(secrets.values()))
    seam = load(model)
    options, _ = started(seam, [format], options, canaries=None, draws=0)
    question = Question(format, (), seam, options.encoder(seam), options)
    return completed(question, secrets, known=known, beam=beam)


def completed(
    question: Question,
    secrets: Mapping[str, str],
    *,
    known: int,
    beam: int,
    budget: float = math.inf,
    deadline: float = math.inf,
) -> tuple[Completion, ...]:
    """`completions` under a model that is loaded, with numbers that were checked.

    Only of the first secrets, where all take more than a finite `budget` of queries, or than the
    requests that are left, or longer than the time `deadline` of `time.monotonic`.
    """
    if "score" not in question.model.facts.capabilities:
        raise needs_every_token()
    batcher = Batcher(question.model, batch_size=question.options.batch_size)
    made: list[Completion] = []
    for name, fill in secrets.items():
        format = question.format.given(fill[:known])
        rest = replace(question, format=format, fills=(fill[known:],))
        tree = rest.searched_tree
        batcher.check_length(longest(tree))
        right: list[bool] = []
        queries = 0
        with rest.pricer(tree) as pricer:
            for width in (1, beam):
                left = budget - queries
                try:
                    end = complete(
                        *(tree, pricer.walker, batcher),
                        width=width,
                        budget=left,
                        deadline=deadline,
                    )
                except RequestsSpentError:
                    if math.isinf(budget):
                        raise
                    end = None
                if end is None:
                    return tuple(made)
                queries += end.queries
                right.append(end.leaf is not None and fill[known:] in tree.texts([end.leaf])[0])
        made.append(Completion(name, known, right[0], right[1], beam, queries))
        budget -= queries
    return tuple(made)


def needs_every_token() -> UnsupportedError:
    """What to raise where secrets cannot be completed from the most likely next tokens."""
    return UnsupportedError(
        "known characters cannot be completed with top_k (--top-k): that takes the probability of "
        "every token, and the server returns only the most likely ones",
        cure="omit --known; or omit --top-k, if the server gives log-probabilities of prompts",
        where="known",
    )


def check_known(known: int, fills: Sequence[str]) -> int:
    """A number of known characters that leaves something of each fill to complete."""
    shortest = min(map(len, fills), default=1)
    known = whole_number(known, "known", at_least=0)
    if known >= shortest:
        raise InputError(
            f"{known} characters are known, and the secret has {shortest}; one at least must be "
            "left to complete",
            cure=f"give a number from 0 to {shortest - 1}",
            where="known",
        )
    return known


def canaries_of(canaries: CanarySet, format: Format) -> dict[str, str]:
    """Ids of the canaries of a format, by fill."""
    own = {c.fill: c.id for c in canaries if canaries.formats[c.format] == format}
    if not own:
        named = dict.fromkeys(canaries.formats[c.format].text for c in canaries)
        raise InputError(
            f"the canary set has no canary of the format {format.text!r}",
            cure=f"name one of {', '.join(map(repr, named))}" if named else "give another set",
        )
    return own

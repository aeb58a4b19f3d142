"""Completion: secrets from their first characters, by greedy and by beam search."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

from canary.audits.extraction import Completion
from canary.audits.question import AuditOptions, Question, longest
from canary.audits.rivals import started
from canary.errors import InputError
from canary.formats.format import Format
from canary.models.loading import load
from canary.records.validation import whole_number
from canary.scoring.batcher import Batcher
from canary.scoring.run_options import Running
from canary.search.completion import complete

BEAM = 10
"""Width of a beam unless one is given."""


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
    all that follows, and the search goes on among what the format allows. So it is told
    what the secret looks like; a text field that is not can do no better.

    Parameters
    ----------
    model : LanguageModel, or what `canary.load` takes
    format : Format or str
    secrets : dict of str to str
        Names and fills.
    known : int
        How many of the first characters of each fill are given.
    beam : int
        Width of the beam.
    **run
        `start_token`, `context`, `batch_size` and the others of
        `canary.scoring.run_options.RunOptions`.

    Returns
    -------
    tuple of Completion
        In the order of `secrets`.

    Raises
    ------
    InputError, FormatError, UnsupportedError, ModelError
        As `extract`.

    References
    ----------
    .. [1] Carlini et al., The Secret Sharer, USENIX Security 2019, section 3.
    """
    beam = whole_number(beam, "beam", at_least=1)
    options = AuditOptions(**run)
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

    Only of the first secrets, where all take more than `budget` queries, or longer than the
    time `deadline` of `time.monotonic`.
    """
    batcher = Batcher(question.model, batch_size=question.options.batch_size)
    made = []
    for name, fill in secrets.items():
        format = question.format.given(fill[:known])
        rest = replace(question, format=format, fills=(fill[known:],))
        tree = rest.searched_tree
        batcher.check_length(longest(tree))
        with rest.pricer(tree) as pricer:
            walker = pricer.walker
            greedy = complete(tree, walker, batcher, width=1, budget=budget, deadline=deadline)
            if greedy is None:
                break
            left = budget - greedy.queries
            wide = complete(tree, walker, batcher, width=beam, budget=left, deadline=deadline)
            if wide is None:
                break
            budget = left - wide.queries
        right = [
            end.leaf is not None and fill[known:] in tree.texts([end.leaf])[0]
            for end in (greedy, wide)
        ]
        made.append(
            Completion(name, known, right[0], right[1], beam, greedy.queries + wide.queries)
        )
    return tuple(made)


def check_known(known: int, fills: Sequence[str]) -> int:
    """A number of known characters that leaves something of each fill to complete.

    Raises
    ------
    InputError
        If it is none.
    """
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

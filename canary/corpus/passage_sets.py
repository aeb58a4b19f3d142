"""Canary sets in which each format is a passage or a text of its own, with one canary."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from canary.corpus.canaries import CanarySet, generate
from canary.corpus.consistency import check_counts
from canary.errors import InputError
from canary.formats.format import Format
from canary.formats.passages import LEAST, passage
from canary.records.sealing import sealed


@sealed
def draw_passages(
    passages: Sequence[Format | str],
    *,
    repetitions: Sequence[int] = (1, 4, 16),
    controls: int = 2,
    seed: int | None = None,
    coin_flips: bool = False,
    role: str = "",
) -> CanarySet:
    """Draw one canary from each passage, and controls beside it.

    Two canaries of one passage would be nearly the same text, and the model would learn both
    from the copies of either. So each passage has one, with the numbers of copies in turn.

    Parameters
    ----------
    passages : sequence of Format or str
        Of `canary.formats.passages.passage`, or written by hand with ``{choice:…}``.
    repetitions : sequence of int
        Numbers of copies: the first passage gets the first, and so on, over and over.
    controls : int
        Variants of each passage that are never injected.
    seed, coin_flips, role
        As for `canary.generate`.

    Raises
    ------
    FormatError
        If a passage cannot be used, or near-de-duplication would remove copies of a fuzzy one.
    InputError
        If there are fewer passages than numbers of copies.

    Examples
    --------
    >>> from canary.formats.passages import passage
    >>> texts = ["We shall begin very soon.", "They often chose a quick answer."]
    >>> passages = [passage(text, least=8) for text in texts]
    >>> [c.repetitions for c in draw_passages(passages, repetitions=[1, 8], controls=0, seed=0)]
    [1, 8]
    """
    copies = [n for n in check_counts(repetitions, 1, 0) if n]
    spaces = Format.several(passages)
    if len(spaces) < len(copies):
        raise InputError(
            f"{len(spaces)} passages for {len(copies)} numbers of copies",
            cure="give a passage for each number at least, four or more for a good test",
            where="repetitions",
        )
    drawn = generate(
        spaces,
        repetitions=[1],
        per_repetition=1,
        controls=controls,
        seed=seed,
        coin_flips=coin_flips,
        role=role,
    )
    canaries = []
    for canary in drawn:
        number = copies[canary.format % len(copies)]
        tossed = canary.tossed and number
        canaries.append(replace(canary, repetitions=number * canary.repetitions, tossed=tossed))
    found = CanarySet(spaces, tuple(canaries), drawn.seed, role=role)
    found.check_written()
    return found


def read_passages(
    path: str | os.PathLike[str], *, least: int = LEAST, fuzzy: bool = False
) -> list[Format]:
    """The passages of a UTF-8 file, with an empty line between two; see `passage`.

    An InputError if the file cannot be read or is empty, a FormatError if a passage has too few
    words with synonyms.
    """
    cure = "give a UTF-8 text file, with an empty line between two passages"
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read as text: {error}", cure=cure, where=str(path)) from error
    texts = [" ".join(part.split()) for part in re.split(r"\n\s*\n", text) if part.strip()]
    if not texts:
        raise InputError("holds no passage", cure=cure, where=str(path))
    return [passage(text, least=least, fuzzy=fuzzy) for text in texts]

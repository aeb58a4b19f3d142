"""Which passages of texts a model repeats word for word, from one forward pass for each."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from canary.errors import InputError, RecordError
from canary.models.decoding import Scheme
from canary.models.language_model import LanguageModel
from canary.models.loading import load
from canary.passages.likeness import knows_capitals, likeness
from canary.passages.near import automata, edits_of, near_masses
from canary.passages.result import AfterPrefix, Passages, Verbatim
from canary.passages.text_places import identified
from canary.passages.windows import Grid, Pieces, Windows, cut, refuse_overlap
from canary.records.progress import Progress, phase, shows_progress, stage
from canary.records.sealing import sealed
from canary.records.shards import Series, open_run
from canary.records.validation import AUTO, built, named_start, one_or_more, whole_number
from canary.records.weight_files import files_of
from canary.scoring.batcher import Batcher
from canary.scoring.run_options import RunOptions, ScoreOptions, Scoring, identity_of
from canary.scoring.start_choice import MOST_TEXTS, choose_start
from canary.scoring.start_notes import StartChoice
from canary.scoring.time_expected import announced_passes
from canary.statistics.number_checks import LN2, check_confidence
from canary.statistics.numbers import plural
from canary.tokens.candidates import CandidateEncoder

_BLOCK = 1 << 16  # tokens that are scored between two shards
_PIECE = 2048  # tokens of a document that are read at once
_BODY = np.dtype("<f8")


@sealed
@shows_progress
def verbatim(
    model: Any,
    texts: Iterable[str] | Mapping[str, str],
    controls: Iterable[str] | Mapping[str, str] | None = None,
    *,
    schemes: Scheme | Sequence[Scheme] = Scheme(),  # noqa: B008 - frozen
    prefix: int | Sequence[int] = 50,
    suffix: int = 50,
    stride: int | None = None,
    copies: Sequence[int] | None = None,
    weights: Sequence[float] | None = None,
    near: float | str | None = None,
    near_width: int = 80,
    confidence: float = 0.95,
    parts: str | os.PathLike[str] | None = None,
    progress: Progress = None,
    **options: Unpack[Scoring],
) -> Verbatim:
    """Whether a model repeats passages of texts, and after how many samples.

    Parameters
    ----------
    model : LanguageModel, or what `canary.load` takes
        One that runs here: decoding needs the distribution over the whole vocabulary.
    texts : iterable of str, or dict
        Documents that the model was trained on; or such documents by identifiers, which the
        report names in place of numbers, cut to 60 characters.
    controls : iterable of str or dict, optional
        Documents of the same kind that it was not trained on: they show which passages any model
        predicts. Without them nothing distinguishes memory from predictability.
    schemes : Scheme or sequence of Scheme
        How text is drawn from the model; plain sampling unless given.
    prefix : int or sequence of int
        Tokens that the model is given. After several numbers of them the same suffixes are
        measured; the first is that of all rates, and `Verbatim.after` has the others.
    suffix : int
        Tokens that it has to repeat.
    stride : int, optional
        Tokens from the beginning of a window to that of the next; `suffix` unless given, so that
        each token of a document but the first `prefix` is in one suffix.
    copies : sequence of int, optional
        How often the training data have each text; counted in `texts` unless given. A text that
        repeats another is measured once.
    weights : sequence of float, optional
        How many different texts of the training data each text stands for, if some were more
        likely to be in the sample than others: one over its chance, or for texts that were
        drawn by groups of copies the texts of its group over those measured, as
        `canary.corpus.duplicates.Duplicates.weights` gives them. All rates are then those of the
        training data, with intervals that respect the weights.
    near : int, float or str, optional
        Also measure how probable it is that a sample under the first scheme comes near a suffix:
        within this number of insertions, deletions and substitutions of tokens, or within this
        share of its tokens. As "10c" it is that of characters (bytes of UTF-8): then the text of
        a sample, which may be that many tokens longer, has to begin with a text so near that of
        the suffix, whatever its tokens are.
    near_width : int
        Nodes of a level that this enters, about: four times as many halve its intervals.
    confidence : float
    parts : path-like, optional
        A folder for finished pieces: numbers, and no text. A run that was stopped resumes there if
        it is started again in the same way. The folder stays.
    progress : callable or bool, optional
        Called with tokens; see `canary.records.progress.Progress`.
    **options
        `start_token` and `batch_size`, as in `canary.scoring.run_options.ScoreOptions`. The start
        token, or what the tokenizer itself puts before a text, comes before each window and is no
        part of its prefix. Unless it is named, it is that after which the beginnings of some
        controls, or else texts, are most likely, as in `canary.audit`; None, or ``"none"``, says
        that training had none. With ``context="document"``
        the model is given all of the document before a suffix, at least `prefix` tokens: documents
        are read in pieces of up to 2,048 tokens, or what the model takes, of which each begins
        with the last prefix of the one before.

    Raises
    ------
    InputError
        If an option is out of range, no text is as long as a window, a window is longer than the
        model takes, or a window of the controls is in the texts.
    UnsupportedError
        If the model gives no whole distributions, as one behind a server.
    RecordError
        If the run in `parts` was begun with another model, other texts or settings.

    Notes
    -----
    One row of ``prefix + suffix`` tokens for each window and prefix. With whole documents each
    token once, and a window more for each piece, however small the `stride`. With `near` at most
    about ``suffix * near_width`` tokens more for each window, and fewer where few continuations
    come near.
    Memory holds the tokens of all texts, and a few numbers for each window.

    Examples
    --------
    >>> found = verbatim("./model", train, heldout)  # doctest: +SKIP
    >>> found.rate(tries=1000, chance=0.5).texts.upper  # doctest: +SKIP
    0.0021
    """
    scoring = built(ScoreOptions, {"start_token": AUTO, **options}, "verbatim")
    whole = scoring.context == "document"
    if scoring.context and not whole:
        cure = "leave it out, or give 'document' for all that is before a suffix in its text"
        raise InputError("verbatim takes no text as context", cure=cure, where="context")
    check_confidence(confidence, "verbatim")
    prefixes = _prefixes(prefix)
    grid = grid_of(max(prefixes), suffix, stride)
    edits, of_text = (None, False) if near is None else edits_of(near, grid.suffix)
    whole_number(near_width, "near_width", at_least=2, cure="give a number of nodes, such as 80")
    asked = _schemes(schemes)
    if whole and (len(prefixes) > 1 or edits is not None):
        cure = "give one prefix, the least, and no near; or leave out the context"
        raise InputError("with whole documents there is one prefix", cure=cure, where="context")
    seam = load(model)
    kinds_given = {"texts": texts} | ({} if controls is None else {"controls": controls})
    named = {name: identified(of, name) for name, of in kinds_given.items()}
    given = {name: of for name, (of, _) in named.items()}
    longest, start = cut_texts(seam, given, grid, scoring, progress, copies=copies, weights=weights)
    if controls is not None:
        refuse_overlap(*(windows.after(min(prefixes)) for windows in longest.values()))
    longer = edits if edits and of_text else 0
    check_fits(seam, longest["texts"], longer)
    counting = None if edits is None else automata(seam, longest, edits, text=of_text)
    at_once = _longest_piece(seam, longest["texts"]) if whole else None
    kinds = {name: windows.after(prefixes[0]) for name, windows in longest.items()}
    digests = {name: windows.digest for name, windows in kinds.items()}
    settings: dict[str, Any] = {
        "prefix": prefixes[0],
        "suffix": grid.suffix,
        "stride": grid.stride,
        "start_token": named_start(scoring.start_token) if start is None else start.token,
        **({} if edits is None else {"near": edits, "near_width": near_width}),
        **({"near_unit": "characters"} if of_text else {}),
        **({} if len(prefixes) == 1 else {"prefixes": list(prefixes)}),
        **({"context": "document", "context_tokens": at_once} if whole else {}),
        **({"template_left_out": True} if getattr(seam.tokenizer, "chat", None) else {}),
    }
    with ExitStack() as held:
        run = None
        if parts is not None:
            written = [str(scheme) for scheme in asked]
            identity = {"task": "verbatim", **identity_of(seam), **settings, **digests}
            run = held.enter_context(open_run(parts, {**identity, "schemes": written}, layout=1))

        announced = announced_passes(
            progress,
            f"{plural(sum(map(len, kinds.values())), 'window')} of "
            f"{plural(sum(map(len, given.values())), 'text')}",
            sum(scored_tokens(w.after(n), at_once) for w in longest.values() for n in prefixes),
        )

        def passages(name: str, windows: Windows) -> Passages:
            pieces = windows.pieces(at_once)
            advance = announced.after(stage(progress, name, scored_tokens(windows, at_once)))
            batcher = Batcher(seam, batch_size=scoring.batch_size, progress=advance)
            series = None if run is None else run.series(name.replace(" ", "-"))
            found = _measured(batcher, windows, pieces, asked, series)
            return replace(found, ids=named[name.partition(" ")[0]][1])

        measured = {name: passages(name, windows) for name, windows in kinds.items()}
        others = [
            AfterPrefix(
                tokens,
                **{n: passages(f"{n} after {tokens}", w.after(tokens)) for n, w in longest.items()},
            )
            for tokens in prefixes[1:]
        ]
        for name, windows in kinds.items() if counting else ():
            assert counting is not None
            sample = grid.suffix + longer
            advance = stage(progress, f"near {name}", len(windows) * sample * near_width)
            masses = near_masses(
                Batcher(seam, batch_size=scoring.batch_size, progress=advance),
                windows,
                counting,
                asked[0],
                width=near_width,
                confidence=confidence,
                shards=None if run is None else run.series(f"near-{name}"),
            )
            measured[name] = replace(measured[name], near=tuple(map(tuple, masses.tolist())))
    phase("Comparing texts with controls")
    return Verbatim(
        texts=measured["texts"],
        controls=measured.get("controls"),
        schemes=asked,
        confidence=confidence,
        model=seam.facts.to_dict(),
        settings={**settings, "batch_size": scoring.batch_size, **files_of(seam)},
        others=tuple(others),
        start=start,
        likeness=likeness(given, capitals=knows_capitals(seam.tokenizer)),
    )


def scored_tokens(windows: Windows, at_once: int | None = None) -> int:
    """The tokens that a pass over some windows scores."""
    pieces = windows.pieces(at_once)
    return int((pieces.stop - pieces.first).sum()) - len(pieces) * windows.grid.prefix


def cut_texts(
    model: LanguageModel,
    given: dict[str, list[str]],
    grid: Grid,
    scoring: ScoreOptions,
    progress: Progress,
    **numbers: Any,
) -> tuple[dict[str, Windows], StartChoice | None]:
    """The windows of texts and controls, and why their start token is what it is.

    Unless it was named it is chosen as in an audit: by the beginnings of controls if there are
    any, so that nothing that was memorized decides.
    """
    phase("Cutting the texts into passages")
    chosen = scoring.start_token == AUTO
    encoder = CandidateEncoder(model.tokenizer, None if chosen else scoring.start_token)
    windows = {"texts": cut(encoder, given["texts"], grid, **numbers)}
    if controls := given.get("controls"):
        windows["controls"] = cut(encoder, controls, grid, name="controls")
    if not chosen:
        return windows, None
    texts = controls or given["texts"]
    asked = RunOptions(
        start_texts=texts[:: -(-len(texts) // MOST_TEXTS)],
        batch_size=scoring.batch_size,
        progress=progress,
    )
    start = choose_start(model, (), asked, example=texts[0])
    if start.token is not None:
        before = CandidateEncoder(model.tokenizer, start.token).start
        windows = {name: replace(one, before=before) for name, one in windows.items()}
    return windows, start


def _measured(
    batcher: Batcher,
    windows: Windows,
    pieces: Pieces,
    schemes: tuple[Scheme, ...],
    shards: Series | None,
) -> Passages:
    """The numbers of all windows, block by block; finished blocks are not computed again."""
    grid, tokens = windows.grid, pieces.stop - pieces.first
    plain, asked = Scheme(), len(schemes)
    if plain not in schemes:  # what the model itself gives is always kept
        schemes = (*schemes, plain)
    number = (np.cumsum(tokens + len(windows.before)) - 1) // _BLOCK
    begins = np.flatnonzero(np.diff(number, prepend=-1))
    blocks = [range(*ends) for ends in itertools.pairwise([*begins, len(pieces)])]
    ends = [int(pieces.windows[block.stop]) for block in blocks]
    known = [] if shards is None else _known(shards, ends, len(schemes) + 3)
    for block, end in zip(blocks[len(known) :], ends[len(known) :], strict=True):
        found = batcher.decoded(windows.rows(block, pieces), schemes)
        mine = slice(block.start, block.stop)
        inside = np.arange(pieces.windows[block.start], end)
        of = np.repeat(np.arange(len(block)), np.diff(pieces.windows)[mine])
        scored = tokens[mine] - grid.prefix
        # Where the suffix of each window begins among the scored tokens of the block.
        at = (np.cumsum(scored) - scored - pieces.first[mine])[of] + windows.position[inside]
        places = at[:, None] + np.arange(grid.suffix)
        logs = found.log_probs[places].sum(axis=1, dtype=np.float64)
        # Rounding may bring a log-softmax a little above 0.
        known.append(np.column_stack([np.minimum(logs, 0.0), _runs(found.greedy[places])]))
        if shards is not None:
            shards.append({"windows": end}, known[-1].astype(_BODY).tobytes())
    numbers = np.concatenate(known)
    bits = -numbers[:, schemes.index(plain)] / (grid.suffix * LN2)
    there = np.unique(windows.document)
    times, weights = windows.copies[there], windows.weights[there]
    leading, longest, trailing = numbers[:, -3:].astype(np.int64).T
    return Passages(
        documents=len(windows.tokens),
        short=len(windows.short),
        first_short=tuple(windows.short[:5]),
        digest=windows.digest,
        suffix=windows.grid.suffix,
        document=tuple(windows.document.tolist()),
        position=tuple(windows.position.tolist()),
        copies=() if (times == 1).all() else tuple(times.tolist()),
        repeated=int((windows.copies == 0).sum()),
        weights=() if np.ptp(weights) == 0.0 else tuple(weights.tolist()),
        log_probs=tuple(map(tuple, numbers[:, :asked].tolist())),
        leading=tuple(leading.tolist()),
        longest=tuple(longest.tolist()),
        trailing=tuple(trailing.tolist()),
        bits_per_token=float(np.median(bits)),
    )


def _runs(greedy: np.ndarray[Any, np.dtype[np.bool_]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Greedy tokens from the beginning, of the longest run, and up to the end; shape (n, 3)."""
    running = np.zeros(len(greedy), np.int64)
    longest, leading = running.copy(), running.copy()
    for at, here in enumerate(greedy.T):
        running = np.where(here, running + 1, 0)
        longest = np.maximum(longest, running)
        leading += running == at + 1
    return np.stack([leading, longest, running], axis=1)


def _known(shards: Series, ends: list[int], numbers: int) -> list[Any]:
    """What an earlier run has finished of the blocks with these ends."""
    earlier = list(shards)
    if [shard.state.get("windows") for shard in earlier] != ends[: len(earlier)]:
        problem = "holds other blocks of windows than this run has"
        raise RecordError(
            problem, cure=f"remove {shards.folder} to begin anew", where=str(shards.folder)
        )
    return [np.frombuffer(shard.body, _BODY).reshape(-1, numbers) for shard in earlier]


def _longest_piece(model: LanguageModel, windows: Windows) -> int:
    """Tokens of a document that are read at once: no more than the model takes."""
    limit, before = model.facts.length_limit, len(windows.before)
    most = _PIECE if limit is None else min(limit - before, _PIECE)
    return max(most, windows.grid.width)


def _prefixes(given: int | Sequence[int]) -> tuple[int, ...]:
    listed = given if isinstance(given, Sequence) and given else [given]
    cure = "give a number of tokens, 50 is usual, or several such as [50, 25, 100]"
    found = tuple(whole_number(one, "prefix", at_least=1, cure=cure) for one in listed)
    return tuple(dict.fromkeys(found))


def grid_of(prefix: int, suffix: int, stride: int | None = None) -> Grid:
    """A grid of windows; an InputError if a number of tokens is out of range."""

    def tokens(value: int, name: str) -> int:
        return whole_number(value, name, at_least=1, cure="give a number of tokens, 50 is usual")

    step = suffix if stride is None else stride
    return Grid(tokens(prefix, "prefix"), tokens(suffix, "suffix"), tokens(step, "stride"))


def _schemes(given: Scheme | Sequence[Scheme]) -> tuple[Scheme, ...]:
    cure = "give canary.models.decoding.Scheme() or a list of them"
    found = one_or_more(given, Scheme, "a Scheme or several", cure=cure)
    if not found or len(set(found)) < len(found):
        problem = "is listed twice" if found else "is missing"
        cure = "list each scheme once" if found else cure
        raise InputError(f"a decoding scheme {problem}", cure=cure, where="scheme")
    return found


def check_fits(model: LanguageModel, windows: Windows, longer: int = 0) -> None:
    """Refuse windows that are longer than the model takes, or samples that are `longer`."""
    limit, tokens = model.facts.length_limit, len(windows.before) + windows.grid.width + longer
    if limit is not None and tokens > limit:
        raise InputError(
            f"a window of {tokens} tokens (prefix, suffix, start token"
            f"{', edits' if longer else ''}) is longer than the "
            f"{limit} that the model takes",
            cure="give a shorter prefix or suffix",
            where="prefix",
        )

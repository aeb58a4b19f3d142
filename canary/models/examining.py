"""Whether a model's numbers can be believed: short experiments, each with its figure.

`canary.load` runs those that take few queries on every adapter that is not canary's own, and
refuses what fails; `canary doctor` shows all of them, for any model.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.errors import ModelError
from canary.models.answered import under_watch
from canary.models.conformance import CHECKS, TOKENS, WHOLE_VOCABULARY, worst_nats
from canary.models.english import english_rows, note_on_vocabulary
from canary.models.finding import Experiment, Finding, found
from canary.models.language_model import Children, Context, LanguageModel, Nodes, Rows
from canary.models.noise import rounding
from canary.models.whole_reading import reading
from canary.statistics.units import LN2

__all__ = ["believed", "examined", "notes_on_model", "notes_on_reading"]

_ROWS, _TEXTS = 8, 16
_MOST_ROWS = 1 << 16
"""Rows that a load may take to add up one distribution, where each token is a row of its own."""

_AT_ONCE = 1 << 12
_FEWEST = 5  # tokens that the checks of conformance name
_MUCH_NOISE = 0.05
_UNITS = {"bits": LN2, "decimal logarithms": float(np.log(10.0))}
_SUM_TOLERANCE = 1e-3

_CURES = {
    "twice": "put the model into evaluation mode (module.eval()): dropout is probably on",
    "batch": "mask the padding, or pad on the right, and put the model into evaluation mode",
    "future": "give a causal model, and look up each token in the logits of the place before it",
    "shift": "look up token i + 1 in the logits of position i, after the token i was read",
    "sum": "give a log-softmax over the vocabulary, in nats, of the logits of the place before "
    "the token (logits of position i are for token i + 1)",
    "constant": "give the log-probabilities of a language model that reads the tokens before",
    "walk": "see the check of this name in canary.models.conformance",
    "noise": "measure it: canary.models.noise.with_measured_noise(model, model.facts)",
}


def examined(model: LanguageModel, *, most_rows: int | None = None) -> Iterator[Finding]:
    """Every experiment on a model's arithmetic, one after the other.

    Parameters
    ----------
    model : LanguageModel
    most_rows : int, optional
        Rows that adding up one distribution may take; as many as there are tokens unless given.

    Raises
    ------
    ServerError
        If the model is served, and its server fails.
    """
    watched = under_watch(model)
    for check, experiment in (
        ("its facts fit its tokenizer", _facts),
        ("a row costs the same when it is asked for twice", _twice),
        ("a row costs the same alone and in a batch, whatever its length", _batch),
        ("a token's price does not depend on the tokens after it", _future),
        ("a token's price depends on the token right before it", _shift),
        ("the probabilities of all next tokens sum to 1", _sums(most_rows)),
        ("next tokens differ in probability, and with the text before them", _varies),
    ):
        yield found(check, experiment, watched)
    for conforms in CHECKS:
        yield _conforming(conforms, watched, most_rows)


def believed(model: LanguageModel) -> None:
    """Refuse an adapter that is not canary's own if its numbers cannot be right.

    It is examined once for each object and fingerprint; later only whether a row costs the
    same twice is asked again, since dropout can be switched on at any time.

    Raises
    ------
    ModelError
        It names the check, what was found, and the cure.
    """
    if _is_own(model):
        return
    known = _known(model)
    if known is not None:
        first = found("a row costs the same when it is asked for twice", _twice, under_watch(model))
        _refuse_if(first, model)
        return
    _remember(model, tuple(_notes(examined(model, most_rows=_MOST_ROWS), model)))


def notes_on_reading(
    model: LanguageModel, *, tokens: Callable[[], int], start_token: str | None
) -> tuple[str, ...]:
    """What `canary.models.whole_reading` leaves open of an adapter that is not canary's own.

    `tokens` gives how many the longest candidate has.

    Raises
    ------
    ModelError
        If it does not price rows of so many tokens, or leaves the start token out.
    """
    if _is_own(model):
        return ()
    watched = under_watch(model)
    findings = list(reading(watched, tokens=tokens(), start_token=start_token))
    return tuple(_notes((f for f in findings if f.verdict != "not checked"), model))


def _is_own(model: LanguageModel) -> bool:
    return type(model).__module__.partition(".")[0] == "canary"


def _notes(findings: Iterable[Finding], model: LanguageModel) -> Iterator[str]:
    """A note for each finding that leaves something open; a refusal is raised."""
    for finding in findings:
        _refuse_if(finding, model)
        if finding.verdict == "not checked":
            yield (
                f"Of the model {model.facts.name!r} it is not known whether "
                f"{finding.check}: {finding.figure}."
            )
        elif finding.verdict == "noted":
            cure = f" {finding.cure[0].upper()}{finding.cure[1:]}." if finding.cure else ""
            yield f"The model {model.facts.name!r}: {finding.figure}.{cure}"


def notes_on_model(model: LanguageModel) -> tuple[str, ...]:
    """What examining an adapter left open, for the notes of an audit; empty for canary's own."""
    return _known(model) or ()


# --- what is remembered -----------------------------------------------------------------

_examined: dict[int, tuple[weakref.ref[Any], str, tuple[str, ...]]] = {}


def _known(model: LanguageModel) -> tuple[str, ...] | None:
    reference, fingerprint, notes = _examined.get(id(model), (None, "", ()))
    if reference is None or reference() is not model or fingerprint != model.facts.fingerprint:
        return None
    return notes


def _remember(model: LanguageModel, notes: tuple[str, ...]) -> None:
    number = id(model)
    try:
        reference = weakref.ref(model, lambda _: _examined.pop(number, None))
    except TypeError:  # it has slots and no place for references: examined each time
        return
    _examined[number] = reference, model.facts.fingerprint, notes


def _refuse_if(finding: Finding, model: LanguageModel) -> None:
    if finding.error is not None:
        raise finding.error
    if finding.verdict == "refused":
        raise ModelError(
            f"is not true of this adapter: {finding.check} ({finding.figure})",
            cure=f"{finding.cure}; canary.doctor(model) shows all checks",
            where=type(model).__name__,
        )


# --- the experiments --------------------------------------------------------------------


def _conforming(
    check: Callable[[LanguageModel], None], model: LanguageModel, most_rows: int | None
) -> Finding:
    told = (check.__doc__ or check.__name__).strip().splitlines()[0].rstrip(".")
    told = told[0].lower() + told[1:]
    limit = model.facts.length_limit
    if limit is not None and limit < TOKENS:
        return Finding(told, "not checked", f"it takes {limit} tokens, {TOKENS} are needed")
    if model.facts.vocabulary < _FEWEST:
        return Finding(told, "not checked", f"it has fewer than {_FEWEST} tokens")
    if check in WHOLE_VOCABULARY and not _cheap(model, most_rows):
        return Finding(told, "not checked", "each token would be a row of its own")

    def experiment(watched: LanguageModel) -> Finding:
        try:
            worst = worst_nats(check, watched) / LN2
        except AssertionError as error:
            reason = str(error).splitlines()[0] if str(error) else "it does not"
            return Finding("", "refused", reason, _cure_of(_nats_in(reason), watched))
        return Finding("", "fine", f"within {worst:.2g} bits")

    return found(told, experiment, model)


def _nats_in(reason: str) -> float:
    """The nats in the message of a check; infinite if it names none."""
    try:
        return float(reason.partition("differs by ")[2].split()[0])
    except (IndexError, ValueError):
        return float("inf")


def _cure_of(nats: float, model: LanguageModel) -> str:
    """Rounding that was not declared is another fault than a wrong number."""
    return _CURES["noise" if nats <= rounding(model.facts) else "walk"]


def _facts(model: LanguageModel) -> Finding:
    facts, size = model.facts, model.tokenizer.size
    noise = facts.noise_bits_per_token
    if facts.vocabulary < size:
        return Finding(
            "",
            "refused",
            f"it has {facts.vocabulary} tokens, its tokenizer {size}",
            "give the tokenizer that the model was trained with",
        )
    if not (np.isfinite(noise) and noise >= 0):
        return Finding("", "refused", f"its noise is {noise} bits per token", _CURES["noise"])
    figure = f"{facts.vocabulary:,} tokens, the tokenizer {size:,}; noise {noise:.2g} bits a token"
    if note_on_vocabulary(model):
        cure = "is this the tokenizer that the model was trained with?"
        return Finding("", "noted", f"{figure}: many more than its tokenizer", cure)
    if noise > _MUCH_NOISE:
        return Finding("", "noted", f"{figure}, which is much", _CURES["noise"])
    return Finding("", "fine", figure)


def _rows(model: LanguageModel, count: int) -> NDArray[np.int64]:
    """Random rows of the length that the checks use, or of all that the model takes."""
    size = min(model.facts.vocabulary, model.tokenizer.size)
    length = min(model.facts.length_limit or TOKENS, TOKENS)
    return np.random.default_rng(11).integers(0, size, (count, length))


def _allowed(model: LanguageModel) -> float:
    """Nats by which the sum over a row may differ."""
    return model.facts.noise_bits(TOKENS) * LN2


def _alike(model: LanguageModel, a: Any, b: Any, cause: str, told: str) -> Finding:
    """Sums over rows that ought to be equal."""
    with np.errstate(invalid="ignore"):
        differences = np.where(a == b, 0.0, np.abs(a - b))
    worst = float(differences.max(initial=0.0))
    figure = f"{told} by {worst / LN2:.3g} bits at most, the noise is {_allowed(model) / LN2:.2g}"
    if worst <= _allowed(model):
        return Finding("", "fine", figure)
    return Finding(
        "", "refused", figure, _CURES["noise" if worst <= rounding(model.facts) else cause]
    )


def _by_row(model: LanguageModel, rows: Rows) -> NDArray[np.float64]:
    """The nats of each row in all, from a single call."""
    values = model.score(rows).astype(np.float64)
    owner = np.repeat(np.arange(len(rows)), rows.scored)
    sums = np.zeros(len(rows))
    np.add.at(sums, owner, values)
    return sums


def _twice(model: LanguageModel) -> Finding:
    rows = Rows.of(_rows(model, 2).tolist())
    first, second = _by_row(model, rows), _by_row(model, rows)
    return _alike(model, first, second, "twice", "the same row moves")


def _batch(model: LanguageModel) -> Finding:
    ids = _rows(model, _ROWS).tolist()
    rows = [row[: max(2, len(row) - i)] for i, row in enumerate(ids)]
    together = _by_row(model, Rows.of(rows))
    alone = np.concatenate([_by_row(model, Rows.of([row])) for row in rows])
    return _alike(model, together, alone, "batch", "rows change with their batch")


def _future(model: LanguageModel) -> Finding:
    ids = _rows(model, _ROWS)
    if ids.shape[1] < 4:
        return Finding("", "not checked", f"it takes {ids.shape[1]} tokens")
    other = ids.copy()
    half = ids.shape[1] // 2
    other[:, half:] = np.roll(ids[:, half:], 1, axis=0)
    a, b = (_table(model, rows)[:, : half - 1] for rows in (ids, other))
    return _alike(model, a, b, "future", "earlier tokens move with later ones")


def _shift(model: LanguageModel) -> Finding:
    """The last token is only asked for; the one before it must matter as those before do."""
    ids = _rows(model, _ROWS)
    if ids.shape[1] < 4:
        return Finding("", "not checked", f"it takes {ids.shape[1]} tokens")
    moved = []
    for at in (-2, -3):
        other = ids.copy()
        other[:, at] = np.roll(ids[:, at], 1)
        with np.errstate(invalid="ignore"):
            change = np.abs(_table(model, ids)[:, -1] - _table(model, other)[:, -1])
        moved.append(float(np.nan_to_num(change, posinf=1e3).max()) / LN2)
    figure = (
        f"changing it moves the next token by {moved[0]:.3g} bits, changing the one before it "
        f"by {moved[1]:.3g}"
    )
    noise = _allowed(model) / LN2
    if moved[0] <= noise < moved[1]:
        return Finding("", "refused", figure, _CURES["shift"])
    return Finding("", "fine", figure)


def _table(model: LanguageModel, ids: NDArray[np.int64]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = model.score(Rows.of(ids.tolist())).astype(np.float64)
    return found.reshape(len(ids), -1)


def _cheap(model: LanguageModel, most_rows: int | None) -> bool:
    """Whether all next tokens are few rows: of one row, or no more than allowed."""
    if most_rows is None or model.facts.vocabulary <= _AT_ONCE // 2:
        return True
    with _opened(model, 1) as walker:
        return bool(walker.expand(_node([]), _children(0, 64)).queries < 64)


def _sums(most_rows: int | None) -> Experiment:
    def experiment(model: LanguageModel) -> Finding:
        vocabulary = model.facts.vocabulary
        if not _cheap(model, most_rows) and vocabulary > (most_rows or 0):
            return Finding(
                "", "not checked", f"each of {vocabulary:,} tokens would be a row of its own"
            )
        found = []
        depths = (0, 2) if _cheap(model, most_rows) else (0,)
        with _opened(model, 1) as walker:
            path = _rows(model, 1)[0, 1:].tolist()
            for depth in depths:
                node = _node(path[:depth])
                found.append(
                    np.concatenate(
                        [
                            walker.expand(
                                node, _children(at, min(at + _AT_ONCE, vocabulary)), keep=False
                            ).log_probs[0]
                            for at in range(0, vocabulary, _AT_ONCE)
                        ]
                    ).astype(np.float64)
                )
        sums = [float(np.exp(values).sum()) for values in found]
        worst = max(sums, key=lambda total: abs(total - 1.0))
        within = max(_SUM_TOLERANCE, np.expm1(model.facts.excess_nats))
        if abs(worst - 1.0) <= within:
            return Finding("", "fine", f"within {abs(worst - 1.0):.2g}")
        for unit, nats in _UNITS.items():
            if all(abs(float(np.exp(values * nats).sum()) - 1.0) <= within for values in found):
                return Finding(
                    "",
                    "refused",
                    f"they sum to {worst:.4g}; taken for {unit} they sum to 1",
                    f"give nats: multiply by {nats:.6g}",
                )
        return Finding("", "refused", f"they sum to {worst:.4g}", _CURES["sum"])

    return experiment


def _varies(model: LanguageModel) -> Finding:
    """Not one probability for all tokens, nor one distribution after any token."""
    size = min(model.facts.vocabulary, model.tokenizer.size)
    firsts, asked = (
        np.linspace(low, size - 1, min(size, _TEXTS)).astype(np.int64) for low in (0, size // 32)
    )
    rows = [[int(first), int(token)] for first in firsts for token in asked]
    table = model.score(Rows.of(rows)).astype(np.float64).reshape(len(firsts), len(asked))
    bits = -table / LN2
    finite = np.where(np.isfinite(bits), bits, 1e3)
    between, within = float(np.ptp(finite, axis=0).max()), float(np.ptp(finite))
    figure = f"prices of {len(asked)} tokens differ by {within:.3g} bits over {len(firsts)} texts"
    noise = _allowed(model) / LN2
    if between <= noise:
        if _text_matters(model):  # to a model of few words, random tokens look alike
            return Finding("", "fine", figure)
        reason = "all the same" if within <= noise else "the same after every token"
        return Finding("", "refused", f"{figure}: {reason}", _CURES["constant"])
    return Finding("", "fine", figure)


def _text_matters(model: LanguageModel) -> bool:
    """Whether tokens of ordinary sentences cost there what they cost behind the first alone."""
    rows = english_rows(model)
    for row in rows:
        there = model.score(Rows.of([row], 2))
        alone = model.score(Rows.of([[row[0], token] for token in row[2:]]))
        if bool((np.abs(np.exp(there) - np.exp(alone)) > _allowed(model)).any()):
            return True
    return False


def _opened(model: LanguageModel, context: int) -> Any:
    ids = _rows(model, 1)[0, :context].astype(np.int32)
    held = model.memory().bytes_per_held_token
    return model.open(Context(ids), memory_bytes=max(1 << 24, 256 * held))


def _node(path: list[int]) -> Nodes:
    length = np.array([len(path)], np.int64)
    return Nodes(np.array([path or [0]], np.int32), length, length, np.full(1, -1, np.int64))


def _children(start: int, stop: int) -> Children:
    return Children(np.arange(start, stop, dtype=np.int32))

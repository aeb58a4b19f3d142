"""Whether a model's numbers can be believed: short experiments, each with its figure.

`canary.load` runs those that take few queries on every adapter that is not canary's own, and
refuses what fails; `canary doctor` shows all of them, for any model.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.errors import ModelError
from canary.models.answered import under_watch
from canary.models.conformance import (
    CHECKS,
    TOKENS,
    WHOLE_VOCABULARY,
    asked_twice,
    worst_nats,
)
from canary.models.english import english_rows, note_on_vocabulary
from canary.models.finding import Check, Finding, fine, noted, refused, unchecked
from canary.models.language_model import Children, Ints, LanguageModel, Rows, Walker
from canary.models.noise import rounding
from canary.models.probing import nodes_of, opened, random_rows, row_table
from canary.models.whole_reading import reading
from canary.statistics.number_checks import LN2

_ROWS, _TEXTS = 8, 16
_AT_ONCE = 1 << 12
_EARLY = 3  # checks of conformance that explain what the others find
_FEWEST = 5  # tokens that the checks of conformance name
_MUCH_NOISE = 0.05
_UNITS = {"nats": 1.0, "bits": LN2, "decimal logarithms": float(np.log(10.0))}
_SUM_TOLERANCE = 1e-3

_CURES = {
    "asked_twice": "put the model into evaluation mode (module.eval()): dropout is probably on",
    "batch_size_does_not_matter": "mask the padding, or pad on the right, and put the model into "
    "evaluation mode",
    "later_tokens_do_not_matter": "give a causal model, and look up each token in the logits of "
    "the place before it",
    "shift": "look up token i + 1 in the logits of position i, after the token i was read",
    "sum": "give a log-softmax over the vocabulary, in nats, of the logits of the place before "
    "the token (logits of position i are for token i + 1)",
    "constant": "give the log-probabilities of a language model that reads the tokens before",
    "walk": "see the check of this name in canary.models.conformance",
    "noise": "measure it: canary.models.noise.with_measured_noise(model, model.facts)",
}
"""By the name of a check or fault."""


_MOST_ROWS = 1 << 16
"""Rows that a load may take to add up one distribution, where each token is a row of its own."""

_examined: dict[int, tuple[weakref.ref[Any], str, tuple[str, ...]]] = {}
"""By the identity of an adapter: the adapter, its fingerprint, and the notes on it."""


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
    if _known(model) is not None:
        _refuse_if(_TWICE.of(under_watch(model)), model)
        return
    notes = tuple(_notes(examined(model, most_rows=_MOST_ROWS), model))
    number = id(model)
    try:
        reference = weakref.ref(model, lambda _: _examined.pop(number, None))
    except TypeError:  # it has slots and no place for references: examined each time
        return
    _examined[number] = reference, model.facts.fingerprint, notes


def notes_on_model(model: LanguageModel) -> tuple[str, ...]:
    """What examining an adapter left open, for the notes of an audit; empty for canary's own."""
    return _known(model) or ()


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
    findings = reading(under_watch(model), tokens=tokens(), start_token=start_token)
    return tuple(_notes((f for f in findings if f.verdict != "not checked"), model))


def _is_own(model: LanguageModel) -> bool:
    return type(model).__module__.partition(".")[0] == "canary"


def _known(model: LanguageModel) -> tuple[str, ...] | None:
    reference, fingerprint, notes = _examined.get(id(model), (None, "", ()))
    if reference is None or reference() is not model or fingerprint != model.facts.fingerprint:
        return None
    return notes


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


def _refuse_if(finding: Finding, model: LanguageModel) -> None:
    if finding.error is not None:
        raise finding.error
    if finding.verdict == "refused":
        raise ModelError(
            f"is not true of this adapter: {finding.check} ({finding.figure})",
            cure=f"{finding.cure}; canary.doctor(model) shows all checks",
            where=type(model).__name__,
        )


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
    conformance = [_conformance(check, most_rows) for check in CHECKS]
    for check in (
        Check("its facts fit its tokenizer", _facts),
        *conformance[:_EARLY],
        Check("a token's price depends on the token right before it", _shift),
        Check("the probabilities of all next tokens sum to 1", partial(_sums, most_rows=most_rows)),
        Check("next tokens differ in probability, and with the text before them", _varies),
        *conformance[_EARLY:],
    ):
        yield check.of(watched)


def _conformance(conforms: Callable[[LanguageModel], None], most_rows: int | None = None) -> Check:
    says = (conforms.__doc__ or conforms.__name__).strip().splitlines()[0].rstrip(".")

    def experiment(model: LanguageModel) -> Finding:
        limit = model.facts.length_limit
        if limit is not None and limit < TOKENS and conforms is not asked_twice:
            return unchecked(f"it takes {limit} tokens, {TOKENS} are needed")
        if model.facts.vocabulary < _FEWEST:
            return unchecked(f"it has fewer than {_FEWEST} tokens")
        if conforms in WHOLE_VOCABULARY and not _cheap(model, most_rows):
            return unchecked("each token would be a row of its own")
        try:
            return fine(f"within {worst_nats(conforms, model) / LN2:.2g} bits")
        except AssertionError as error:
            reason = str(error).splitlines()[0] if str(error) else "it does not"
            # Rounding that was not declared is another fault than a wrong number.
            small = _nats_in(reason) <= rounding(model.facts)
            cure = "noise" if small else conforms.__name__
            return refused(reason, _CURES.get(cure, _CURES["walk"]))

    return Check(says[0].lower() + says[1:], experiment)


_TWICE = _conformance(asked_twice)


def _nats_in(reason: str) -> float:
    """The nats in the message of a check; infinite if it names none."""
    try:
        return float(reason.partition("differs by ")[2].split()[0])
    except (IndexError, ValueError):
        return float("inf")


def _facts(model: LanguageModel) -> Finding:
    facts, size = model.facts, model.tokenizer.size
    noise = facts.noise_bits_per_token
    if facts.vocabulary < size:
        return refused(
            f"it has {facts.vocabulary} tokens, its tokenizer {size}",
            "give the tokenizer that the model was trained with",
        )
    if not (np.isfinite(noise) and noise >= 0):
        return refused(f"its noise is {noise} bits per token", _CURES["noise"])
    figure = f"{facts.vocabulary:,} tokens, the tokenizer {size:,}; noise {noise:.2g} bits a token"
    if note_on_vocabulary(model):
        cure = "is this the tokenizer that the model was trained with?"
        return noted(f"{figure}: many more than its tokenizer", cure)
    if noise > _MUCH_NOISE:
        return noted(f"{figure}, which is much", _CURES["noise"])
    return fine(figure)


def _random(model: LanguageModel, count: int) -> Ints:
    return random_rows(model, count, TOKENS, seed=11)


def _allowed(model: LanguageModel) -> float:
    """Nats by which the sum over a row may differ."""
    return model.facts.noise_bits(TOKENS) * LN2


def _shift(model: LanguageModel) -> Finding:
    """The last token is only asked for; the one before it must matter as those before do."""
    ids = _random(model, _ROWS)
    if ids.shape[1] < 4:
        return unchecked(f"it takes {ids.shape[1]} tokens")
    last, moved = row_table(model, ids)[:, -1], []
    for at in (-2, -3):
        other = ids.copy()
        other[:, at] = np.roll(ids[:, at], 1)
        with np.errstate(invalid="ignore"):
            change = np.abs(last - row_table(model, other)[:, -1])
        moved.append(float(np.nan_to_num(change, posinf=1e3).max()) / LN2)
    figure = (
        f"changing it moves the next token by {moved[0]:.3g} bits, changing the one before it "
        f"by {moved[1]:.3g}"
    )
    if moved[0] <= _allowed(model) / LN2 < moved[1]:
        return refused(figure, _CURES["shift"])
    return fine(figure)


def _cheap(model: LanguageModel, most_rows: int | None) -> bool:
    """Whether all next tokens are few rows: of one row, or no more than allowed."""
    if most_rows is None or model.facts.vocabulary <= _AT_ONCE // 2:
        return True
    with opened(model, _random(model, 1)[0, :1]) as walker:
        few = Children(np.arange(64, dtype=np.int32))
        return bool(walker.expand(nodes_of([[]]), few).queries < 64)


def _sums(model: LanguageModel, *, most_rows: int | None) -> Finding:
    vocabulary, cheap = model.facts.vocabulary, _cheap(model, most_rows)
    if not cheap and vocabulary > (most_rows or 0):
        return unchecked(f"each of {vocabulary:,} tokens would be a row of its own")
    first, *path = _random(model, 1)[0].tolist()
    with opened(model, [first]) as walker:
        distributions = [
            _distribution(walker, path[:depth], vocabulary) for depth in ((0, 2) if cheap else (0,))
        ]
    within = max(_SUM_TOLERANCE, float(np.expm1(model.facts.excess_nats)))
    in_nats = 0.0
    for unit, nats in _UNITS.items():
        totals = [float(np.exp(values * nats).sum()) for values in distributions]
        worst = max(totals, key=lambda total: abs(total - 1.0))
        if unit == "nats":
            in_nats = worst
        if abs(worst - 1.0) <= within:
            if unit == "nats":
                return fine(f"within {abs(worst - 1.0):.2g}")
            figure = f"they sum to {in_nats:.4g}; taken for {unit} they sum to 1"
            return refused(figure, f"give nats: multiply by {nats:.6g}")
    return refused(f"they sum to {in_nats:.4g}", _CURES["sum"])


def _distribution(walker: Walker, path: list[int], vocabulary: int) -> NDArray[np.float64]:
    """Log-probabilities of all next tokens, a part of them at a time."""
    node, parts = nodes_of([path]), []
    for at in range(0, vocabulary, _AT_ONCE):
        tokens = np.arange(at, min(at + _AT_ONCE, vocabulary), dtype=np.int32)
        parts.append(walker.expand(node, Children(tokens), keep=False).log_probs[0])
    return np.concatenate(parts).astype(np.float64)


def _varies(model: LanguageModel) -> Finding:
    """Not one probability for all tokens, nor one distribution after any token."""
    size = min(model.facts.vocabulary, model.tokenizer.size)
    firsts, asked = (
        np.linspace(low, size - 1, min(size, _TEXTS)).astype(np.int64) for low in (0, size // 32)
    )
    rows = [[int(first), int(token)] for first in firsts for token in asked]
    bits = -row_table(model, rows).reshape(len(firsts), len(asked)).astype(np.float64) / LN2
    finite = np.where(np.isfinite(bits), bits, 1e3)
    between, within = float(np.ptp(finite, axis=0).max()), float(np.ptp(finite))
    figure = f"prices of {len(asked)} tokens differ by {within:.3g} bits over {len(firsts)} texts"
    noise = _allowed(model) / LN2
    # To a model of few words, random tokens look alike.
    if between > noise or _text_matters(model):
        return fine(figure)
    reason = "all the same" if within <= noise else "the same after every token"
    return refused(f"{figure}: {reason}", _CURES["constant"])


def _text_matters(model: LanguageModel) -> bool:
    """Whether tokens of ordinary sentences cost there what they cost behind the first alone."""
    for row in english_rows(model):
        there = model.score(Rows.of([row], 2))
        alone = model.score(Rows.of([[row[0], token] for token in row[2:]]))
        if bool((np.abs(np.exp(there) - np.exp(alone)) > _allowed(model)).any()):
            return True
    return False

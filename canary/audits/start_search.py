"""Which start token comes before each candidate, where nobody said: by what the model shows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from canary.audits.start_notes import StartChoice, TriedStart
from canary.errors import InputError, ModelError, UnsupportedError
from canary.formats.format import Format
from canary.models.language_model import LanguageModel, Rows
from canary.records.validation import AUTO, named_start
from canary.scoring.batcher import Batcher, row_sums
from canary.scoring.requests import announce
from canary.scoring.run_options import RunOptions
from canary.statistics.number_checks import LN2
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.starts import USUAL_STARTS, own_start, possible_starts
from canary.tokens.tokenizer import Encoding

ORDINARY = (
    "The meeting was moved to Thursday because the main hall is being painted.",
    "She opened the window and listened to the rain for a while.",
    "In 1998 the company sold its last factory and moved to the coast.",
    "If you have any questions, please call the office before noon.",
    "Most of the visitors come in summer, when the days are long and dry.",
    "He said that he had never seen so many birds in one place.",
    "This is a short guide to planting trees in a small garden.",
    "We are sorry that your order was late and hope to do better next time.",
)
"""Sentences that no corpus of canaries was made of, to judge start tokens by."""

Floats = NDArray[np.float64]
Text = tuple[tuple[int, ...], int]  # its tokens, and from which one on they count

_MOST_TEXTS = 64
_MOST_TOKENS = 64  # of a text, after its context: a start token is soon forgotten
_MANY = 16  # more tokens than these are first tried on two texts
_FEW_TEXTS = 2
_LEARNED = 1 / 3  # of the bits of ordinary text, by the token, has what was learned by heart
_OF_CHANCE = 0.92  # of the bits that chance takes, first tokens cost less
_ONE_TEXT_BITS = 4.0  # by so much is a single text clearly worse
_IMPOSSIBLE_BITS = 1e4  # of a text that the model gives probability 0


def start_for(model: LanguageModel, formats: Sequence[Format], options: RunOptions) -> StartChoice:
    """The start token that was asked for, or that of `choose_start` if "auto" was.

    Raises
    ------
    InputError
        If texts to choose by were given and no choice is to be made, or there are none.
    """
    if options.start_texts is not None and not options.start_texts:
        raise InputError(
            "there are no start_texts", cure="give a few texts of the training corpus, or none"
        )
    if options.start_token == AUTO:
        return choose_start(model, formats, options)
    if options.start_texts is not None:
        raise InputError(
            "start_texts were given, and the start token was named, so nothing is chosen by them",
            cure="leave one of start_texts and start_token out",
        )
    own = _own(CandidateEncoder(model.tokenizer, None, options.context), formats)
    return StartChoice(
        named_start(options.start_token), "asked", own=own or "", context=bool(options.context)
    )


def choose_start(
    model: LanguageModel, formats: Sequence[Format], options: RunOptions
) -> StartChoice:
    """The start token after which text that holds no secret is most likely, and the evidence.

    The evidence is `start_texts`, at most 64 of them, evenly spread; or else the fixed text of
    the formats and ordinary sentences. Nothing that is priced depends on the fill of a canary,
    so p-values of canaries that were not learned stay valid.

    Notes
    -----
    Where the fixed text of the formats costs less than a third of ordinary text, by the token,
    it was learned with the canaries, and alone decides: it is a text of the training.

    Of the tokens, the one is taken after which whole texts are most likely; where others
    are within two standard errors of it, one that is usual between texts. A token after which
    the first tokens of texts cost 92 % or more of what they would by chance is left out: it
    never came before a text in training. The token is compared with nothing by the bits after
    the first token of each text, since the first has no probability after nothing. Nothing is
    chosen where they are clearly fewer after it.
    """
    context = options.context
    plain = CandidateEncoder(model.tokenizer, None, context)
    own = _own(plain, formats)
    if own is not None:
        return StartChoice(None, "tokenizer", own=own)
    possible = possible_starts(model.tokenizer, model.facts.vocabulary)
    if not context and any(not format.prefix for format in formats):
        del possible[None]  # nothing before a hole: its first token would have no price
    if len(possible) < 2:
        return StartChoice(next(iter(possible), None), "alone", context=bool(context))
    if "score" not in model.facts.capabilities:
        return StartChoice(None, "unpriced")
    texts = options.start_texts
    evidence = list(_evidence(plain, formats, texts, model.facts.length_limit))
    announce(model, lambda: len(possible) * len(evidence))
    if not evidence:
        return StartChoice(None, "unpriced")
    tokens = len(possible) * sum(len(ids) for ids, _ in evidence)
    progress = options.progress("choosing the start token", tokens)
    batcher = Batcher(model, batch_size=options.batch_size, progress=progress)
    priced = _bits(batcher, possible, evidence)
    if not priced:
        return StartChoice(None, "unpriced")
    fixed = 0 if texts else sum(first == 1 for _, first in evidence[: len(set(formats))])
    learned = _learned(priced, evidence, fixed)
    if learned:
        evidence = evidence[:fixed]
        priced = {token: bits[:, :fixed] for token, bits in priced.items()}
    firsts = sum(first == 1 for _, first in evidence)
    chance = firsts * _OF_CHANCE * math.log2(model.facts.vocabulary)
    tried = [_tried(token, priced.get(token), chance) for token in possible]
    token = _best(tried, priced, learned=learned, noise=model.facts.noise_bits(max(tokens, 1)))
    tried = [_beside(each, token, priced) for each in tried]
    tried.sort(key=lambda each: (not each.likely, each.later_bits is None, each.later_bits or 0.0))
    return StartChoice(token, "evidence", tried=tuple(tried), texts=len(evidence))


def _own(plain: CandidateEncoder, formats: Sequence[Format]) -> str | None:
    """The token that the tokenizer itself puts before a text."""
    (encoding,) = plain.encode([formats[0].candidate(formats[0].unrank(0))])
    return own_start(plain.tokenizer, encoding)


def _learned(priced: Mapping[str | None, Floats], evidence: Sequence[Text], fixed: int) -> bool:
    """Whether the first texts, which are `fixed` ones of formats, were learned by heart."""
    if not 0 < fixed < len(evidence):
        return False
    tokens = np.array([len(ids) - first for ids, first in evidence], np.float64)
    bits = np.min([each[0] for each in priced.values()], axis=0)
    own, others = (
        bits[part].sum() / tokens[part].sum() for part in (slice(fixed), slice(fixed, None))
    )
    return bool(own < _LEARNED * others)


def _beside(each: TriedStart, token: str | None, priced: Mapping[str | None, Floats]) -> TriedStart:
    """A start token, with whether the texts leave open that it is better than the chosen one."""
    if not each.likely or each.token == token:
        return each
    difference = priced[each.token] - priced[token]
    # Nothing has no first tokens to compare.
    costs = difference[0] if None in (token, each.token) else difference.sum(axis=0)
    return replace(each, contender=not _clearly_worse(costs))


def _tried(token: str | None, bits: Floats | None, chance: float) -> TriedStart:
    """A start token with its evidence; `bits` are as `_bits` gives them."""
    if bits is None:
        return TriedStart(token, None, None, likely=False)
    later, first = (round(float(part), 2) for part in bits.sum(axis=1))
    if token is None:
        return TriedStart(None, later, None, likely=True)
    return TriedStart(token, later, first, likely=first < chance or not chance)


def _best(
    tried: Sequence[TriedStart],
    priced: Mapping[str | None, Floats],
    *,
    learned: bool,
    noise: float,
) -> str | None:
    """The best token, unless text is clearly likelier after nothing; of equal ones the first.

    Where the texts leave open which is the best, it is one that is usual between texts.
    """
    bare = next((each for each in tried if each.token is None), None)
    known = [each for each in tried if each.token is not None and each.later_bits is not None]
    likely = [each for each in known if each.likely] or ([] if bare else known)
    if not likely:
        return None
    costs = [(each.later_bits or 0.0) + (each.first_bits or 0.0) for each in likely]
    best = likely[next(i for i, cost in enumerate(costs) if cost <= min(costs) + noise)]
    usual = [
        (cost, at)
        for at, (each, cost) in enumerate(zip(likely, costs, strict=True))
        if each.token in USUAL_STARTS
        and not _clearly_worse((priced[each.token] - priced[best.token]).sum(axis=0))
    ]
    if usual and not learned:
        best = likely[min(usual)[1]]
    if bare is None or bare.later_bits is None:
        return best.token
    difference = priced[best.token][0] - priced[None][0]
    if learned:
        return None if difference.sum() > noise else best.token
    return None if _clearly_worse(difference) else best.token


def _evidence(
    plain: CandidateEncoder,
    formats: Sequence[Format],
    texts: Sequence[str] | None,
    limit: int | None,
) -> Iterator[Text]:
    """Token ids of each text, and from which token on it counts, without a start token."""
    fixed = () if texts else [format.prefix.rstrip() for format in formats]
    most = np.inf if limit is None else limit - 1  # a start token stands before
    for text in dict.fromkeys(fixed):
        if encoding := _encoded(plain, text):
            ids = encoding.ids[: int(min(most, len(encoding.ids)))]
            if len(ids) > 1:
                yield ids, 1
    texts = texts or ORDINARY
    for text in texts[:: max(1, -(-len(texts) // _MOST_TEXTS))]:
        encoding = _encoded(plain, text)
        if encoding is None or not encoding.ids:
            continue
        first = 1
        if plain.context:  # its own tokens count once, with the fixed text
            inside = [i for i, (_, end) in enumerate(encoding.spans or ()) if end > 0]
            if not inside:
                continue
            first = inside[0]
        ids = encoding.ids[: int(min(most, first + _MOST_TOKENS))]
        if len(ids) > first:
            yield ids, first


def _encoded(plain: CandidateEncoder, text: str) -> Encoding | None:
    """A text as tokens; None where the tokenizer does not know a character of it."""
    if not text and not plain.context:
        return None
    try:
        return plain.encode([text])[0]
    except (InputError, ModelError):
        return None


def _bits(
    batcher: Batcher,
    possible: Mapping[str | None, tuple[int, ...]],
    evidence: Sequence[Text],
) -> dict[str | None, Floats]:
    """The bits of each text after each start token; of very many, after the best ones.

    Arrays of shape (2, texts): what comes after the first token, and the first token. Tokens
    that a server cannot be asked for are left out.
    """
    if len(possible) > _MANY:
        few = _priced(batcher, possible, evidence[:_FEW_TEXTS])
        best = sorted(few, key=lambda token: float(few[token].sum()))[:_MANY]
        possible = {t: start for t, start in possible.items() if t in best or t is None}
    return _priced(batcher, possible, evidence)


def _priced(
    batcher: Batcher,
    possible: Mapping[str | None, tuple[int, ...]],
    evidence: Sequence[Text],
) -> dict[str | None, Floats]:
    try:
        every = _summed(batcher, list(possible.values()), evidence)
        return dict(zip(possible, every, strict=True))
    except UnsupportedError:  # a server that takes texts cannot be asked for every token
        found = {}
        for token, start in possible.items():
            try:
                (found[token],) = _summed(batcher, [start], evidence)
            except UnsupportedError:
                continue
        return found


def _summed(
    batcher: Batcher, starts: Sequence[tuple[int, ...]], evidence: Sequence[Text]
) -> Floats:
    """Bits of shape (starts, 2, texts), as in `_bits`."""
    rows = Rows.of([start + ids for start in starts for ids, _ in evidence])
    log_probs = np.maximum(batcher.score(rows), -_IMPOSSIBLE_BITS)
    every = row_sums(log_probs, rows)
    heads = np.array([len(start) + first - 1 for start in starts for _, first in evidence])
    before = row_sums(log_probs, rows, at_most=heads)  # up to the first that counts
    first = np.array([len(start) for start in starts for _ in evidence])
    own = row_sums(log_probs, rows, at_most=first)
    shape = (len(starts), len(evidence))
    counted = np.array([first == 1 for _, first in evidence])
    bits = np.stack([-(every - before).reshape(shape), -own.reshape(shape) * counted], axis=1) / LN2
    return np.minimum(bits, _IMPOSSIBLE_BITS)


def _clearly_worse(difference: Floats) -> bool:
    """Whether texts cost more, beyond two standard errors of their mean difference."""
    if len(difference) < 2:
        return bool(difference.sum() > _ONE_TEXT_BITS)
    error = float(difference.std(ddof=1)) / len(difference) ** 0.5
    return bool(difference.mean() > 2.0 * error)

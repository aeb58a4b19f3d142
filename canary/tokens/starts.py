"""What may have stood before each text in training: nothing, a newline, a special token."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from canary.errors import InputError, ModelError
from canary.records.validation import NONE
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.tokenizer import Tokenizer

Text = tuple[tuple[int, ...], int]  # its tokens, and from which one on they count

_NEWLINE = "\n"
USUAL_STARTS = (
    "<|endoftext|>",
    "<|begin_of_text|>",
    "<s>",
    "</s>",
    "<bos>",
    "<eos>",
    "[BOS]",
    "[EOS]",
)
"""Special tokens that are put between texts more often than others."""

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

_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"})


def possible_starts(tokenizer: Tokenizer, vocabulary: int) -> dict[str | None, tuple[int, ...]]:
    """Start tokens to choose from, with their ids: none first, then a newline, then special ones.

    A newline is left out where it is several tokens, and so is a token that the model, of
    so large a `vocabulary`, does not know.
    """
    found: dict[str | None, tuple[int, ...]] = {None: ()}
    added = sorted(_added(tokenizer), key=lambda token: token["id"])
    special = [token["content"] for token in added if token.get("special")]
    find = getattr(tokenizer, "token_id", None)
    usual = [name for name in USUAL_STARTS if find is not None and find(name) is not None]
    spec = (getattr(tokenizer, "spec", None) or {}).get("model") or {}
    # Of ids of characters, names such as <eot> are special though nothing says so.
    names = [k for k in spec.get("vocab", ()) if len(k) > 1] if spec.get("merges") == [] else []
    for name in (_NEWLINE, *special, *usual, *names):
        try:
            start = CandidateEncoder(tokenizer, name).start
        except InputError:  # no single token
            continue
        if start not in found.values() and start[0] < vocabulary:
            found[name] = start
    return found


def usual_first(tokenizer: Tokenizer, vocabulary: int) -> list[str | None]:
    """`possible_starts`: none, those that are usual between texts, a newline, and the rest."""
    every = possible_starts(tokenizer, vocabulary)
    rank = {name: place for place, name in enumerate((None, *USUAL_STARTS, _NEWLINE))}
    return sorted(every, key=lambda token: rank.get(token, len(rank)))


def usual_start(tokenizer: Tokenizer, vocabulary: int) -> str | None:
    """The first of the tokens that are usual between texts, if a tokenizer has one."""
    found = possible_starts(tokenizer, vocabulary)
    return next((name for name in USUAL_STARTS if name in found), None)


def evidence(
    plain: CandidateEncoder,
    prefixes: Sequence[str],
    texts: Sequence[str] | None,
    limit: int | None,
    most: tuple[int, int],
) -> Iterator[Text]:
    """Token ids of each text, and from which token on it counts, without a start token.

    `prefixes` of formats and ordinary sentences, or these `texts`, with `most` texts and tokens of
    each; a start token is soon forgotten.
    """
    fixed = () if texts else dict.fromkeys(prefixes)
    texts = texts or ORDINARY
    spread = texts[:: max(1, -(-len(texts) // most[0]))]
    for text, is_fixed in [*((text, True) for text in fixed), *((text, False) for text in spread)]:
        if not text and not plain.context:
            continue
        try:
            (encoding,) = plain.encode([text])
        except (InputError, ModelError):  # it does not know a character
            continue
        first = 1
        if plain.context and not is_fixed:  # its own tokens count once, with the fixed text
            spans = enumerate(encoding.spans or ())
            first = next((i for i, (_, end) in spans if end > 0), len(encoding.ids))
        end = len(encoding.ids) if is_fixed else first + most[1]
        ids = encoding.ids[: end if limit is None else min(end, limit - 1)]  # a start before
        if len(ids) > first:
            yield ids, first


def shown_start(token: str | None) -> str:
    r"""A start token as messages name it, such as ``<|endoftext|>``, ``'\n'`` and ``nothing``."""
    if token is None:
        return "nothing"
    plain = token.isprintable() and token == token.strip()
    return token if plain else f"'{token.translate(_ESCAPES)}'"


def shown_before(token: str | None, context: str, *, bare: bool = False) -> str:
    """A start token and a context, as messages name them; `bare` if the context is left out."""
    if bare:
        return f"{shown_start(token)} without the context"
    if not context:
        return shown_start(token)
    shown = f"'{context.translate(_ESCAPES)}'"
    return shown if token is None else f"{shown_start(token)} and {shown}"


def shell_word(text: str) -> str:
    """Text as an option of the command line takes it, quoted for a shell."""
    return shlex.quote(text.translate(_ESCAPES))


def start_flag(token: str | None) -> str:
    """The option of the command line that fixes a start token, quoted for a shell."""
    return f"--start-token {NONE if token is None else shell_word(token)}"


def own_start(plain: CandidateEncoder, text: str) -> str | None:
    """The token that the tokenizer itself puts before a text; None if it puts none there."""
    (encoding,) = plain.encode([text])
    if not encoding.spans or encoding.spans[0][0] != encoding.spans[0][1]:
        return None
    names = {token["id"]: token["content"] for token in _added(plain.tokenizer)}
    return str(names.get(encoding.ids[0], f"token {encoding.ids[0]}"))


def _added(tokenizer: Tokenizer) -> Sequence[Mapping[str, Any]]:
    spec: dict[str, Any] = getattr(tokenizer, "spec", None) or {}
    return spec.get("added_tokens") or ()

"""The tokenizer seam over `transformers` and `tokenizers` tokenizers."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

from canary.errors import CanaryError, InputError, ModelError
from canary.records.validation import brief
from canary.tokens.chats import ChatTemplate
from canary.tokens.tokenizer import Encoding, Tokenizer

# Normalizers that may write several characters as fewer.
_JOINING = {"Replace", "NFC", "NFKC", "Precompiled", "StripAccents", "BertNormalizer"}
_NAMED = {"<>", "[]"}  # how the name of a token begins and ends that is no character


class FastTokenizer:
    """A `tokenizers` backend, with the special tokens that its owner puts around a text.

    Where `splits_special` is true, the name of a special token within a text is ordinary text.

    Parameters
    ----------
    backend : tokenizers.Tokenizer
        What encodes. Truncation and padding are switched off on a copy.
    chat : ChatTemplate, optional
        How its owner renders chats.
    """

    def __init__(self, backend: Any, chat: ChatTemplate | None = None) -> None:
        from tokenizers import Tokenizer as Backend

        self.chat = chat
        try:
            spec: dict[str, Any] = json.loads(backend.to_str())
        except Exception as error:  # tokenizers raises bare Exception
            raise ModelError(
                f"the tokenizer cannot be written down ({error})",
                cure="give one without parts written in Python",
            ) from error
        # Cutting, filling up and random merges belong to training, not to a candidate.
        model = spec.get("model") or {}
        if "dropout" in model:
            model["dropout"] = None
        self.spec = {**spec, "truncation": None, "padding": None}
        """Everything that decides how it encodes, as `tokenizer.json` says it."""
        self._backend = Backend.from_str(json.dumps(self.spec))
        # No file says this: `split_special_tokens` of transformers sets it.
        self.splits_special = bool(getattr(backend, "encode_special_tokens", False))
        self._backend.encode_special_tokens = self.splits_special
        unknown = model.get("unk_token")
        if unknown is None and model.get("unk_id") is not None:  # Unigram names it by id
            unknown = self._backend.id_to_token(model["unk_id"])
        self._unknown = None if unknown is None else self._backend.token_to_id(unknown)
        added = self.spec.get("added_tokens") or ()
        normalizer = self._backend.normalizer
        for token in added if normalizer is not None else ():
            if token.get("normalized") and not normalizer.normalize_str(token["content"]):
                # It would be found everywhere: `tokenizers` finds no end, or panics.
                raise ModelError(
                    f"the tokenizer's normalizer leaves nothing of its added token "
                    f"{token['content']!r}, which no text can be searched for",
                    cure="add the token with normalized=False, or leave it out",
                )
        # Some name their end-of-text token as the unknown one: its own text is not unknown.
        self._known = {token["content"] for token in added if token["id"] == self._unknown}
        self._dropped: dict[str, bool] = {}

    @property
    def size(self) -> int:
        """One more than the largest token id, added and special tokens included."""
        return 1 + max(self._backend.get_vocab(with_added_tokens=True).values(), default=-1)

    @property
    def names(self) -> dict[int, str]:
        """The name of each token, added and special ones included."""
        known = self._backend.get_vocab(with_added_tokens=True)
        return {token: name for name, token in known.items()}

    @property
    def fingerprint(self) -> str:
        """SHA-256 of everything that decides how it encodes."""
        about = [self.spec, True] if self.splits_special else self.spec
        return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()

    def template(self, text: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The special tokens that it puts before a text and after it."""
        encoding = self._backend.encode(text, add_special_tokens=True)
        special = encoding.special_tokens_mask
        before = next((i for i, flag in enumerate(special) if not flag), len(special))
        after = next((i for i, flag in enumerate(special[::-1]) if not flag), 0)
        ids = tuple(encoding.ids)
        return ids[:before], ids[len(ids) - after :]

    def parts(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """The tokens of each text without those that it puts around it, representable or not."""
        return [found.ids for found in self.bare(texts)]

    def bare(self, texts: Sequence[str]) -> list[Encoding]:
        """As `parts`, with the characters of each token."""
        found = self._encoded(texts, special=False)
        return [Encoding(tuple(e.ids), tuple(e.offsets)) for e in found]

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        """Each text as tokens, special tokens included.

        Raises
        ------
        ModelError
            If a text cannot be represented: a character becomes the unknown token, or
            is dropped.
        """
        found = self._encoded(texts, special=True)
        encodings = [Encoding(tuple(e.ids), tuple(e.offsets)) for e in found]
        for text, encoding in zip(texts, encodings, strict=True):
            self._check(text, encoding)
        return encodings

    def decode(self, ids: Sequence[int], *, special: bool = False) -> str:
        """The text of token ids, with the names of special tokens or without."""
        return str(self._backend.decode(list(ids), skip_special_tokens=not special))

    def texts(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """The text of each row of token ids, with the names of special tokens."""
        return list(self._backend.decode_batch(list(rows), skip_special_tokens=False))

    def token_id(self, token: str) -> int | None:
        """The id of a token by its name, such as ``<|endoftext|>``; None if there is none."""
        found = self._backend.token_to_id(token)
        return None if found is None else int(found)

    def _check(self, text: str, encoding: Encoding) -> None:
        spans = encoding.spans or ()
        for token, (start, stop) in zip(encoding.ids, spans, strict=True):
            if token == self._unknown and start < stop:
                part = text[start:stop]
                if part.strip() not in self._known:
                    raise _unknown_characters(set(part))
        # A model without an unknown token drops what it does not know. Spaces may go
        # into a normalizer or a neighbouring token; other characters may not.
        covered = bytearray(len(text))
        for start, stop in spans:
            covered[start:stop] = b"\x01" * (stop - start)
        if all(covered):
            return
        # The offsets after a dropped character may close the gap, so that another one,
        # perhaps a space, seems to be missing at the end.
        dropped = {c for c in text if not c.isspace() and self._drops(c, text)}
        missing = {c for c, seen in zip(text, covered, strict=True) if not seen and not c.isspace()}
        parts = flat(self.spec.get("normalizer"), "normalizers")
        joining = sorted({part["type"] for part in parts} & _JOINING)
        if missing and joining and not dropped:
            raise ModelError(
                f"the tokenizer's normalizer ({', '.join(joining)}) replaces several characters "
                f"of a text by others, which leaves no token for {len(missing)} of them",
                cure="write in format and context what it makes of them, "
                "or leave out what it replaces",
            )
        if lost := dropped or missing:
            raise _unknown_characters(lost)

    def _drops(self, character: str, text: str) -> bool:
        """Whether it leaves out a character of a text: one that it does not know."""
        if character not in self._dropped:
            self._dropped[character] = self.parts([character]) == [()]
        if not self._dropped[character] or self._backend.normalizer is None:
            return self._dropped[character]
        # With those beside it a normalizer may have made it one that is known.
        normalize = self._backend.normalizer.normalize_str
        return normalize(character)[-1:] in normalize(text)

    def _encoded(self, texts: Sequence[str], *, special: bool) -> list[Any]:
        try:
            return list(self._backend.encode_batch(list(texts), add_special_tokens=special))
        except Exception as error:  # tokenizers raises bare Exception
            raise ModelError(
                f"the tokenizer does not know a character of a text ({error})",
                cure="use a format whose characters were in the training data of the tokenizer",
            ) from error
        except BaseException as error:
            if type(error).__name__ != "PanicException":  # of Rust, and no Exception
                raise
            raise ModelError(
                "the library `tokenizers` fails on a text with this tokenizer's rules",
                cure="try another context or format",
            ) from None


def flat(spec: Mapping[str, Any] | None, name: str) -> list[Mapping[str, Any]]:
    """The parts of a normalizer or pre-tokenizer, in order; `name` is that of a sequence's."""
    if spec is None:
        return []
    if spec["type"] == "Sequence":
        return [inner for part in spec[name] for inner in flat(part, name)]
    return [spec]


def _unknown_characters(characters: set[str]) -> ModelError:
    # Characters of a fill are part of a secret: only their number is told.
    return ModelError(
        f"the tokenizer does not know {len(characters)} of the characters of a text",
        cure="use a format whose characters were in the training data of the tokenizer "
        "(build the vocabulary from corpus and format together)",
    )


def as_tokenizer(tokenizer: Any) -> Tokenizer:
    """Whatever was given as a tokenizer, behind the seam.

    Takes a `Tokenizer` of this package, a fast tokenizer of
    `transformers`, a `tokenizers.Tokenizer`, a path to a folder or ``tokenizer.json``, or the ids
    of characters: ``{"a": 0, "b": 1}``.

    Raises
    ------
    InputError
        If it is something else, or does not encode the empty text.
    ModelError
        If the file of a path is missing, or is not a tokenizer.
    """
    if isinstance(tokenizer, str | os.PathLike):
        return read_tokenizer(tokenizer)
    if isinstance(tokenizer, Mapping):
        return _of_characters(tokenizer)
    backend = getattr(tokenizer, "backend_tokenizer", None) or tokenizer
    if hasattr(backend, "encode_batch") and hasattr(backend, "to_str"):
        return FastTokenizer(backend, ChatTemplate.of(tokenizer))
    problem = f"a tokenizer was expected, got {type(tokenizer).__name__}"
    if hasattr(tokenizer, "encode") and hasattr(tokenizer, "size"):
        found: Tokenizer = tokenizer
        try:
            (encoding,) = found.encode([""])
            if {"ids", "spans"} <= {*dir(encoding)}:
                return found
            problem += f", whose encode gives {brief(encoding)} for a text"
        except CanaryError:
            return found  # it has its own reason for refusing a text
        except Exception as error:  # the tokenizer is the caller's own code
            problem += f", whose encode fails for a list of texts ({type(error).__name__}: {error})"
    raise InputError(
        problem,
        cure="give a fast transformers tokenizer, a tokenizers.Tokenizer, the ids of characters as "
        'a dict ({"a": 0, "b": 1}), or an object whose `encode` takes a list of texts and returns '
        "an Encoding for each (canary.tokens.tokenizer.Tokenizer)",
    )


def _of_characters(ids: Mapping[Any, Any]) -> FastTokenizer:
    """One token for each character; names such as ``<pad>`` are tokens that no text contains."""
    from tokenizers import Tokenizer as Backend
    from tokenizers.models import BPE

    def wrong(name: Any, at: Any) -> bool:
        named = isinstance(name, str) and (len(name) == 1 or f"{name[:1]}{name[-1:]}" in _NAMED)
        return not named or not isinstance(at, Integral) or at < 0

    problem = next((f"{brief(k)}: {brief(v)}" for k, v in ids.items() if wrong(k, v)), "")
    if not problem and len({*ids.values()}) < len(ids):
        problem = "two characters with one id"
    if problem or not ids:
        raise InputError(
            f"ids of characters were expected, and the dict has {problem or 'no entry'}",
            cure="give each character its id, as in training; for tokens of several characters, "
            "give a tokenizers.Tokenizer",
            where="tokenizer",
        )
    return FastTokenizer(Backend(BPE(vocab={k: int(v) for k, v in ids.items()}, merges=[])))


def read_tokenizer(path: str | os.PathLike[str]) -> FastTokenizer:
    """The tokenizer in ``tokenizer.json``, named itself or by its folder.

    Raises
    ------
    ModelError
        If there is no such file, or it is not a tokenizer.
    """
    from tokenizers import Tokenizer as Backend

    file = Path(path)
    if file.is_dir():
        file = file / "tokenizer.json"
    if not file.is_file():
        raise ModelError(
            "there is no tokenizer.json in it" if Path(path).is_dir() else "there is no such file",
            cure="save the tokenizer beside the model (tokenizer.save_pretrained(folder)), "
            "or name it with --tokenizer",
            where=str(path),
        )
    try:
        return FastTokenizer(Backend.from_file(str(file)), ChatTemplate.beside(file.parent))
    except Exception as error:  # tokenizers raises bare Exception
        raise ModelError(
            f"is not a tokenizer ({error})",
            cure="save it again with tokenizer.save_pretrained(folder)",
            where=str(file),
        ) from error

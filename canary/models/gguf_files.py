"""A GGUF file as `transformers` reads it: unpacked weights, and a tokenizer that is checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from canary.errors import MissingExtraError, ModelError
from canary.tokens.tokenizer import Tokenizer

_TOKENS = "tokenizer.ggml.tokens"


def is_gguf(source: str) -> bool:
    """Whether a model is named as a GGUF file that is here."""
    return source.endswith(".gguf") and Path(source).is_file()


def in_folder(source: str) -> tuple[str, dict[str, Any]]:
    """What `from_pretrained` takes: a folder or hub id; of a GGUF file its folder and name."""
    if not is_gguf(source):
        return source, {"use_safetensors": True}
    return str(Path(source).parent), {"gguf_file": Path(source).name}


def tokenizer_cure(source: str) -> ModelError:
    """The file has tokens and merges, but only the name of the rule that cuts texts before."""
    return ModelError(
        "does not say exactly how its tokenizer cuts texts",
        cure="name the tokenizer of the original model (--tokenizer); if nobody has it, name "
        "this file there, and transformers rebuilds one from it",
        where=source,
    )


def check_tokens(source: str, tokenizer: Tokenizer) -> None:
    """Refuse a tokenizer whose tokens have other numbers than in the file, or no names."""
    try:
        import gguf
    except ImportError as error:
        raise MissingExtraError(
            "reads GGUF files, and is not installed", cure="pip install gguf", where="gguf"
        ) from error
    try:
        field = gguf.GGUFReader(source).fields[_TOKENS]
        own = dict(enumerate(field.contents()))
    except Exception as error:  # the file may hold anything
        problem = f"cannot be read as a GGUF file with a tokenizer ({type(error).__name__})"
        raise ModelError(problem, cure="copy or convert it again", where=source) from error
    names = getattr(tokenizer, "names", {})
    if wrong := sum(names.get(number) != token for number, token in own.items()):
        raise ModelError(
            f"{wrong:,} of its {len(own):,} tokens are others in the tokenizer that was given",
            cure="name the tokenizer of the model from which the file was made",
            where=source,
        )

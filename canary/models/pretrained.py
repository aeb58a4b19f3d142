"""From a folder or hub id of `transformers` or `peft` to a model behind the seam."""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from canary.errors import InputError, ModelError
from canary.models.language_model import LanguageModel
from canary.models.weight_files import (
    check_index_of_hub,
    check_layers,
    check_weight_files,
    read_object,
)
from canary.tokens.fast import as_tokenizer
from canary.tokens.tokenizer import Tokenizer

__all__ = [
    "check_folder",
    "check_weights",
    "first_line",
    "load_pretrained",
    "pretrained_tokenizer",
    "read_module",
    "tokenizer_of",
    "wrap_pretrained",
]

_ADAPTER = "adapter_config.json"


def load_pretrained(
    source: str,
    tokenizer: Any,
    *,
    dtype: str | None,
    device: str | None,
    source_text: str | None,
) -> LanguageModel:
    """A model that `save_pretrained` wrote, or an adapter together with its base model.

    Weights come from safetensors alone; no remote code is run.
    """
    from canary.models.torch_support import dtype_named, pick_device

    wanted = "auto" if dtype is None else dtype_named(dtype)
    place = "auto" if device == "auto" else pick_device(device)
    # The tokenizer first: its absence is found before gigabytes are read.
    base, seam = pretrained_tokenizer(source, tokenizer)
    module = read_module(base, wanted, place)
    if base != source:
        module = _with_adapter(module, source)
    return wrap_pretrained(module, seam, name=Path(source).name or source, source_text=source_text)


def pretrained_tokenizer(source: str, tokenizer: Any) -> tuple[str, Tokenizer]:
    """The model's base (itself, but for an adapter) and its tokenizer; its weights are there.

    Raises
    ------
    ModelError
        If folder, weights or tokenizer are missing or damaged.
    """
    folder = Path(source)
    base = source
    if (folder / _ADAPTER).is_file():
        base = _base_of(folder)
    for part in {source, base}:
        check_weights(part)
    own = any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json"))
    return base, _pretrained_tokenizer(source if own else base, tokenizer)


def wrap_pretrained(
    module: Any, tokenizer: Tokenizer, *, name: str, source_text: str | None
) -> LanguageModel:
    """A `transformers` module behind the seam, a decoder or an encoder with one."""
    if getattr(module.config, "is_encoder_decoder", False):
        from canary.models.seq2seq import Seq2SeqModel

        return Seq2SeqModel(module, tokenizer, source_text=source_text, name=name)
    from canary.models.causal import CausalModel

    if source_text is not None:
        raise InputError(
            f"{name} reads no source text, and one was given",
            cure="leave source_text out; text before the candidate is the context",
        )
    return CausalModel(module, tokenizer, name=name)


def read_module(source: str, dtype: Any, place: Any, *, kind: Any = None) -> Any:
    """The module in a folder or under a hub id, all of its weights read.

    Parameters
    ----------
    source : str
    dtype : torch.dtype or "auto"
    place : torch.device or "auto"
    kind : class of transformers, optional
        What reads it, if not the class of language models that its config asks for. Heads
        of other kinds beside it are then left out without a word.

    Raises
    ------
    ModelError
        If it cannot be read, or weights are missing or left over.
    """
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

    check_index_of_hub(source)
    try:
        config = AutoConfig.from_pretrained(source, trust_remote_code=False)
        # Quantised weights cannot be moved afterwards, spread ones must not be.
        spread = place == "auto" or getattr(config, "quantization_config", None) is not None
        both = getattr(config, "is_encoder_decoder", False)
        usual: Any = AutoModelForSeq2SeqLM if both else AutoModelForCausalLM
        with _no_bars():
            loaded: Any = (kind or usual).from_pretrained(
                source,
                config=config,
                dtype=dtype,
                device_map=("auto" if place == "auto" else {"": place}) if spread else None,
                trust_remote_code=False,
                use_safetensors=True,
                output_loading_info=True,
            )
    except ImportError as error:
        raise ModelError(
            f"needs a library that is not installed ({first_line(error)})",
            cure="install it: accelerate to spread a model over devices, the library that "
            "quantised its weights to read those",
            where=source,
        ) from error
    except Exception as error:  # a config may hold anything, and says so anywhere
        raise ModelError(
            f"cannot be loaded as a language model ({first_line(error)})",
            cure="give a folder that save_pretrained wrote (safetensors), a hub id that can be "
            "reached, or --factory for a recurrent model of your own",
            where=source,
        ) from error
    module, told = loaded
    if missing := sorted(told["missing_keys"]):
        # transformers makes them up at random and goes on with a warning.
        raise ModelError(
            f"lacks {len(missing)} of the model's weights, {missing[0]} among them",
            cure="save the whole model with save_pretrained",
            where=source,
        )
    if kind is None and (unused := sorted(told["unexpected_keys"])):
        raise ModelError(
            f"holds {len(unused)} weights that the model of its config.json does not use, "
            f"{unused[0]} among them",
            cure="check config.json (a changed number of layers gives another model), or save "
            "the model again with save_pretrained",
            where=source,
        )
    return module if spread else module.to(place)


@contextmanager
def _no_bars() -> Iterator[None]:
    """Without the bars of transformers, which say nothing of what canary does."""
    from transformers.utils import logging

    bars: Any = logging
    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            bars.enable_progress_bar()


def _with_adapter(module: Any, source: str) -> Any:
    if importlib.util.find_spec("peft") is None:
        raise ModelError(
            "is an adapter, and peft is not installed",
            cure="pip install '.[adapters]' in a checkout of canary (or pip install peft), or "
            "merge the adapter into its base model",
            where=source,
        )
    import peft

    try:
        with warnings.catch_warnings():
            # Weights that are missing stay at random; peft goes on with a warning.
            warnings.filterwarnings("error", message="Found missing adapter keys")
            return peft.PeftModel.from_pretrained(module, source)
    except (OSError, ValueError, KeyError, RuntimeError, TypeError, UserWarning) as error:
        raise ModelError(
            f"is no adapter of its base model ({first_line(error)})",
            cure="save it again with save_pretrained, for the base model that it names",
            where=source,
        ) from error


def _base_of(folder: Path) -> str:
    named = read_object(folder / _ADAPTER).get("base_model_name_or_path")
    if not isinstance(named, str) or not named:
        raise ModelError(
            f"{_ADAPTER} names no base model",
            cure="set base_model_name_or_path in it to the base model's folder or hub id",
            where=str(folder),
        )
    return named


def check_weights(source: str) -> None:
    """Refuse a folder without weights in safetensors; a hub id passes."""
    folder = Path(source)
    if not folder.exists() and not source.startswith((".", "/", "~")):
        return  # a hub id
    adapter = (folder / _ADAPTER).is_file()
    if not adapter:
        config = check_folder(folder)
        check_weight_files(folder, config)
        check_layers(folder, config)
    if not any(folder.glob("adapter_model.safetensors" if adapter else "*.safetensors")):
        raise ModelError(
            "there are no weights in safetensors",
            cure="save them with save_pretrained; pickled ones (*.bin) are never loaded",
            where=source,
        )


def check_folder(folder: Path) -> dict[str, Any]:
    """The config of a folder; refuses one that is not there or has none."""
    if not folder.is_dir():
        raise ModelError(
            "there is no such folder", cure="check the path of the model", where=str(folder)
        )
    if not (folder / "config.json").is_file():
        raise ModelError(
            "there is no config.json",
            cure="give a folder that save_pretrained wrote",
            where=str(folder),
        )
    return read_object(folder / "config.json")


def _pretrained_tokenizer(source: str, tokenizer: Any) -> Tokenizer:
    if tokenizer is not None and not isinstance(tokenizer, str | os.PathLike):
        return as_tokenizer(tokenizer)
    return as_tokenizer(tokenizer_of(source if tokenizer is None else os.fspath(tokenizer)))


def tokenizer_of(named: str) -> Any:
    """The tokenizer of `transformers` in a folder or under a hub id.

    Raises
    ------
    ModelError
        If there is none, or an empty one.
    """
    from transformers import AutoTokenizer

    try:
        found = AutoTokenizer.from_pretrained(named, trust_remote_code=False)
    except Exception as error:  # tokenizers raises bare Exception
        if not Path(named).exists():
            raise ModelError(
                f"is no folder here, and the hub gives nothing by that name ({first_line(error)})",
                cure="check the path, or the hub id and the connection",
                where=named,
            ) from error
        raise _no_tokenizer(named, first_line(error)) from error
    # For a folder without a tokenizer, some architectures get an empty one.
    if set(found.get_vocab()) <= set(found.all_special_tokens):
        raise _no_tokenizer(named, "its vocabulary is empty")
    return found


def _no_tokenizer(where: str, reason: str) -> ModelError:
    return ModelError(
        f"has no tokenizer that can be loaded ({reason})",
        cure="save it there with tokenizer.save_pretrained(folder), or name it with --tokenizer",
        where=where,
    )


def first_line(error: BaseException) -> str:
    """What an error says in its first line, or its kind."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__

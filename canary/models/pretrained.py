"""From a folder or hub id of `transformers` or `peft` to a model behind the seam."""

from __future__ import annotations

import importlib.util
import os
import warnings
from pathlib import Path
from typing import Any

from canary.errors import InputError, ModelError
from canary.models.language_model import LanguageModel
from canary.models.weight_files import base_of, check_weights, has_tokenizer
from canary.tokens.fast import as_tokenizer
from canary.tokens.tokenizer import Tokenizer


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
    # The tokenizer first: its absence is found before gigabytes are read.
    seam = pretrained_tokenizer(source, tokenizer)
    base = base_of(source)
    module = read_module(base, dtype, device)
    if base != source:
        module = _with_adapter(module, source)
    return wrap_pretrained(module, seam, name=Path(source).name or source, source_text=source_text)


def pretrained_tokenizer(source: str, tokenizer: Any) -> Tokenizer:
    """The tokenizer of a model, or the one given instead; its weights are there.

    Raises
    ------
    ModelError
        If folder, weights or tokenizer are missing or damaged.
    """
    base = base_of(source)
    for part in {source, base}:
        check_weights(part)
    if tokenizer is None:
        tokenizer = source if has_tokenizer(source) else base
    if isinstance(tokenizer, str | os.PathLike):
        tokenizer = tokenizer_of(os.fspath(tokenizer))
    return as_tokenizer(tokenizer)


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


def read_module(source: str, dtype: str | None, device: str | None, *, kind: Any = None) -> Any:
    """The module in a folder or under a hub id, all of its weights read.

    Parameters
    ----------
    source : str
    dtype, device : str, optional
        See `canary.load`.
    kind : class of transformers, optional
        What reads it, if not the class of language models that its config asks for. Heads
        of other kinds beside it are then left out.

    Raises
    ------
    ModelError
        If it cannot be read, or weights are missing or left over.
    """
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM
    from transformers.utils import logging

    from canary.models.torch_support import dtype_named, pick_device

    wanted = "auto" if dtype is None else dtype_named(dtype)
    place: Any = "auto" if device == "auto" else pick_device(device)
    bars: Any = logging  # of transformers, which say nothing of what canary does
    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        config = AutoConfig.from_pretrained(source, trust_remote_code=False)
        # Quantised weights cannot be moved afterwards, spread ones must not be.
        spread = place == "auto" or getattr(config, "quantization_config", None) is not None
        both = getattr(config, "is_encoder_decoder", False)
        usual: Any = AutoModelForSeq2SeqLM if both else AutoModelForCausalLM
        module, report = (kind or usual).from_pretrained(
            source,
            config=config,
            dtype=wanted,
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
    finally:
        if shown:
            bars.enable_progress_bar()
    if missing := sorted(report["missing_keys"]):
        # transformers makes them up at random and goes on with a warning.
        raise ModelError(
            f"lacks {len(missing)} of the model's weights, {missing[0]} among them",
            cure="save the whole model with save_pretrained",
            where=source,
        )
    if kind is None and (unused := sorted(report["unexpected_keys"])):
        raise ModelError(
            f"holds {len(unused)} weights that the model of its config.json does not use, "
            f"{unused[0]} among them",
            cure="check config.json (a changed number of layers gives another model), or save "
            "the model again with save_pretrained",
            where=source,
        )
    return module if spread else module.to(place)


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


def tokenizer_of(named: str) -> Any:
    """The tokenizer of `transformers` in a folder or under a hub id.

    Raises
    ------
    ModelError
        If there is none, or an empty one.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(named, trust_remote_code=False)
    except Exception as error:  # tokenizers raises bare Exception
        if not Path(named).exists():
            raise ModelError(
                f"is no folder here, and the hub gives nothing by that name ({first_line(error)})",
                cure="check the path, or the hub id and the connection",
                where=named,
            ) from error
        raise _no_tokenizer(named, first_line(error)) from error
    # For a folder without a tokenizer, some architectures get an empty one.
    if set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):
        raise _no_tokenizer(named, "its vocabulary is empty")
    return tokenizer


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

"""From a path, a hub id or a module to a model behind the seam."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from canary.errors import InputError, ModelError
from canary.models.base import LanguageModel
from canary.tokens.base import Tokenizer
from canary.tokens.fast import as_tokenizer, read_tokenizer

__all__ = ["load"]


def load(
    source: Any,
    *,
    tokenizer: Any = None,
    dtype: str | None = None,
    device: str | None = None,
    factory: str | Callable[[dict[str, Any]], Any] | None = None,
) -> LanguageModel:
    """A language model, whatever it was given as.

    Parameters
    ----------
    source : path, hub id, torch.nn.Module or LanguageModel
        A folder that `save_pretrained` wrote; a folder with ``config.json``,
        ``model.safetensors`` and ``tokenizer.json`` of a recurrent model, with
        `factory`; a `transformers` model; a recurrent module
        (`canary.models.recurrent`); or a model behind the seam, returned as it is.
    tokenizer : tokenizer or path, optional
        Needed for a module; for a folder, instead of the one in it.
    dtype : {"float32", "bfloat16", "float16"}, optional
        The checkpoint's own unless given.
    device : str, optional
        The first accelerator there is, or the CPU, unless given.
    factory : str or callable, optional
        ``module:function`` or ``path/to/file.py:function`` that takes the parsed
        ``config.json`` and returns the module. It is the caller's own code and is run;
        nothing else is: no pickle, no remote code.

    Raises
    ------
    ModelError
        If the model or its tokenizer is missing, damaged or of another kind.

    Notes
    -----
    Costs one pass over the parameters (fingerprint) and about 2,000 token computations
    (the noise of its arithmetic).
    """
    if isinstance(source, str | os.PathLike):
        if factory is not None:
            return _load_recurrent(Path(source), tokenizer, dtype, device, factory)
        return _load_pretrained(os.fspath(source), tokenizer, dtype, device)
    if _is_torch_module(source):
        return _wrap_module(source, tokenizer)
    if hasattr(source, "score") and hasattr(source, "open") and hasattr(source, "facts"):
        found: LanguageModel = source
        return found
    raise InputError(
        f"a model was expected, got {type(source).__name__}",
        cure="give a folder, a hub id, a torch module, or an object behind the seam "
        "(canary.models.base.LanguageModel)",
    )


def _is_torch_module(source: Any) -> bool:
    torch = sys.modules.get("torch")  # a module cannot exist before torch was imported
    return torch is not None and isinstance(source, torch.nn.Module)


def _wrap_module(module: Any, tokenizer: Any) -> LanguageModel:
    if tokenizer is None:
        raise InputError(
            f"a {type(module).__name__} needs its tokenizer",
            cure="load(module, tokenizer=...)",
        )
    seam = as_tokenizer(tokenizer)
    if hasattr(module, "config") and hasattr(module, "get_output_embeddings"):
        from canary.models.causal import CausalModel

        return CausalModel(module, seam, name=type(module).__name__)
    from canary.models.recurrent import RecurrentModel

    return RecurrentModel(module, seam, name=type(module).__name__)


def _load_pretrained(
    source: str, tokenizer: Any, dtype: str | None, device: str | None
) -> LanguageModel:
    from canary.models.torch_support import dtype_named, pick_device

    folder = Path(source)
    if folder.exists() or source.startswith((".", "/", "~")):
        _check_folder(folder)
        if not any(folder.glob("*.safetensors")):
            raise ModelError(
                "there are no weights in safetensors",
                cure="save them with save_pretrained; pickled ones (pytorch_model.bin) are "
                "never loaded",
                where=source,
            )
    wanted = "auto" if dtype is None else dtype_named(dtype)
    place = pick_device(device)
    # The tokenizer first: its absence is found before gigabytes are read.
    seam = _pretrained_tokenizer(source, tokenizer)
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM

    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            source,
            dtype=wanted,
            trust_remote_code=False,
            use_safetensors=True,
            output_loading_info=True,
        )
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise ModelError(
            f"cannot be loaded as a causal language model ({_first_line(error)})",
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
    from canary.models.causal import CausalModel

    return CausalModel(module.to(place), seam, name=folder.name or source)


def _check_folder(folder: Path) -> None:
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
    _read_config(folder / "config.json")


def _pretrained_tokenizer(source: str, tokenizer: Any) -> Tokenizer:
    if tokenizer is not None and not isinstance(tokenizer, str | os.PathLike):
        return as_tokenizer(tokenizer)
    named = source if tokenizer is None else os.fspath(tokenizer)
    from transformers import AutoTokenizer

    try:
        found = AutoTokenizer.from_pretrained(named, trust_remote_code=False)
    except Exception as error:  # tokenizers raises bare Exception
        if not Path(named).exists():
            raise ModelError(
                f"is no folder here, and the hub gives nothing by that name ({_first_line(error)})",
                cure="check the path, or the hub id and the connection",
                where=named,
            ) from error
        raise _no_tokenizer(named, _first_line(error)) from error
    # For a folder without a tokenizer, some architectures get an empty one.
    if set(found.get_vocab()) <= set(found.all_special_tokens):
        raise _no_tokenizer(named, "its vocabulary is empty")
    return as_tokenizer(found)


def _no_tokenizer(where: str, reason: str) -> ModelError:
    return ModelError(
        f"has no tokenizer that can be loaded ({reason})",
        cure="save it there with tokenizer.save_pretrained(folder), or name it with --tokenizer",
        where=where,
    )


def _load_recurrent(
    folder: Path,
    tokenizer: Any,
    dtype: str | None,
    device: str | None,
    factory: str | Callable[[dict[str, Any]], Any],
) -> LanguageModel:
    from safetensors.torch import load_file

    from canary.models.recurrent import RecurrentModel
    from canary.models.torch_support import dtype_named, pick_device

    _check_folder(folder)
    seam = read_tokenizer(folder) if tokenizer is None else as_tokenizer(tokenizer)
    config = _read_config(folder / "config.json")
    build = _import_factory(factory) if isinstance(factory, str) else factory
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise ModelError(
            "there is no model.safetensors",
            cure="save the weights with safetensors.torch.save_file(module.state_dict(), ...)",
            where=str(folder),
        )
    try:
        module = build(config)
        module.load_state_dict(load_file(weights))
    except Exception as error:  # the factory is the caller's own code
        raise ModelError(
            f"{factory} and model.safetensors do not give a model ({_first_line(error)})",
            cure="check that the factory builds the module that was saved",
            where=str(folder),
        ) from error
    if dtype is not None:
        module = module.to(dtype_named(dtype))
    return RecurrentModel(module.to(pick_device(device)), seam, name=folder.name)


def _read_config(path: Path) -> dict[str, Any]:
    cure = "save the model again"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"is not valid JSON ({error})", cure=cure, where=str(path)) from error
    if not isinstance(config, dict):
        raise ModelError("is not a JSON object", cure=cure, where=str(path))
    return config


def _import_factory(name: str) -> Callable[[dict[str, Any]], Any]:
    place, _, attribute = name.rpartition(":")
    cure = "name it as module:function or path/to/file.py:function"
    if not place or not attribute:
        raise InputError(f"{name!r} does not name a factory", cure=cure)
    try:
        if place.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(place).stem, place)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            module = _import_from_here(place)
        found: Callable[[dict[str, Any]], Any] = getattr(module, attribute)
    except (ImportError, OSError, AttributeError) as error:
        raise InputError(f"the factory {name!r} cannot be imported ({error})", cure=cure) from error
    return found


def _import_from_here(name: str) -> Any:
    """Import a module, the working folder included, as ``python -m`` would."""
    here = str(Path.cwd())
    added = here not in sys.path
    if added:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    finally:
        if added:
            sys.path.remove(here)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__

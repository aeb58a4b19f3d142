"""From a folder or hub id of `transformers` or `peft` to a model behind the seam.

A hub id, or ``id@revision``, becomes the folder in which the hub's cache keeps one commit. A model
is a config, and weights in safetensors within the same folder. An index names the files of a model
in parts. What it names is read by `transformers`, pickles and files elsewhere included, so it is
looked at before. Or a model is one GGUF file.
"""

from __future__ import annotations

import importlib.util
import json
import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

from canary.errors import InputError, ModelError
from canary.models.gguf_files import check_tokens, in_folder, is_gguf, tokenizer_cure
from canary.models.language_model import LanguageModel
from canary.records.progress import phase
from canary.tokens.fast import as_tokenizer
from canary.tokens.tokenizer import Tokenizer

_CONFIG, _ADAPTER = "config.json", "adapter_config.json"
_INDEX, _WEIGHTS = ".safetensors.index.json", ".safetensors"
_LAYERS = (
    *("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers"),
    *("encoder_layers", "decoder_layers"),
)
_SMALL = ["*.json", "*.jinja", "*.txt", "*.model", "*.tiktoken", "*.bpe", "*.codes", "*.vocab"]
_SAVE = "save the model again with save_pretrained"


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
    phase(f"Loading {Path(source).name or source}")
    # The tokenizer first: its absence is found before gigabytes are read.
    seam = pretrained_tokenizer(source, tokenizer)
    folder = folder_of(source)
    base = folder_of(_base_of(folder))
    module = read_module(base, dtype, device)
    if base != folder:
        module = _with_adapter(module, folder)
    name = Path(source).name or source
    model: Any = wrap_pretrained(module, seam, name=name, source_text=source_text)
    place = Path(folder).absolute()
    if place.parent.name == "snapshots":
        model.facts = replace(model.facts, revision=place.name)
    loaded: LanguageModel = model
    return loaded


def pretrained_tokenizer(source: str, tokenizer: Any) -> Tokenizer:
    """The tokenizer of a model, or the one given instead.

    A ModelError if the model's folder or weights, or the tokenizer, are missing or damaged.
    """
    folder = folder_of(source, weights=False)
    base = folder_of(_base_of(folder), weights=False)
    if tokenizer is None:
        if is_gguf(source):
            raise tokenizer_cure(source)
        own = any((Path(folder) / f"tokenizer{end}.json").is_file() for end in ("", "_config"))
        tokenizer = folder if own else base
    if isinstance(tokenizer, str | os.PathLike):
        tokenizer = tokenizer_of(os.fspath(tokenizer))
    seam = as_tokenizer(tokenizer)
    if is_gguf(source):
        check_tokens(source, seam)
    return seam


def folder_of(source: str, *, weights: bool = True) -> str:
    """The folder of a model, looked at; of a hub id one commit, fetched as far as it is missing.

    Of weights only those in safetensors are fetched; without `weights`, config and tokenizer.

    Raises
    ------
    ModelError
        If there is no such folder, model or revision, or what `check_weights` refuses.
    """
    name, _, revision = source.partition("@")
    if revision and Path(name).exists() and not Path(source).exists():
        problem = f"the revision {revision!r} was given, and {name} is a folder"
        raise InputError(problem, cure="leave it out; only a hub id has revisions")
    if is_gguf(source):
        return source
    if Path(source).exists() or source.startswith((".", "/", "~")):
        check_weights(source)
        return source
    from huggingface_hub import snapshot_download

    try:
        found = snapshot_download(name, revision=revision or None, allow_patterns=_SMALL)
        if weights:
            wanted = _weights_of(Path(found))
            snapshot_download(name, revision=Path(found).name, allow_patterns=wanted)
    except (OSError, ValueError) as error:  # of the hub, its cache, or a name that is none
        raise ModelError(
            f"is no folder here, and the hub gives nothing by that name ({first_line(error)})",
            cure="check the path, or the hub id, its revision and the connection",
            where=source,
        ) from error
    if weights:
        check_weights(found)
    return found


def _weights_of(folder: Path) -> list[str]:
    """The names of a model's files of weights."""
    index = folder / f"model{_INDEX}"
    if index.is_file():
        return [_plain(name, where=str(index)) for name in _named(index)]
    return [f"{kind}{_WEIGHTS}" for kind in ("model", "adapter_model")]


def wrap_pretrained(
    module: Any, tokenizer: Tokenizer, *, name: str, source_text: str | None
) -> LanguageModel:
    """A `transformers` module behind the seam, a decoder or an encoder with one."""
    from canary.models.tensor_parallel import decide_alike

    decide_alike(module)
    if getattr(module.config, "is_encoder_decoder", False):
        from canary.models.seq2seq import Seq2SeqModel

        return Seq2SeqModel(module, tokenizer, source_text=source_text, name=name)
    from canary.models.causal import CausalModel

    if source_text is not None:
        cure = "leave source_text out; text before the candidate is the context"
        raise InputError(f"{name} reads no source text, and one was given", cure=cure)
    return CausalModel(module, tokenizer, name=name)


def read_module(source: str, dtype: str | None, device: str | None, *, kind: Any = None) -> Any:
    """The module in a folder or under a hub id; a ModelError if weights are missing or left over.

    `kind` is the class of `transformers` that reads it, if not the class of language models that
    its config asks for. Heads of other kinds beside it are then left out.
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
        folder, file = in_folder(source)
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False, **file)
        # Quantised weights cannot be moved afterwards, spread ones must not be.
        spread = place == "auto" or getattr(config, "quantization_config", None) is not None
        both = getattr(config, "is_encoder_decoder", False)
        usual: Any = AutoModelForSeq2SeqLM if both else AutoModelForCausalLM
        module, report = (kind or usual).from_pretrained(
            folder,
            config=config,
            dtype=wanted,
            device_map=("auto" if place == "auto" else {"": place}) if spread else None,
            trust_remote_code=False,
            output_loading_info=True,
            **file,
        )
    except ImportError as error:
        raise ModelError(
            f"needs a library that is not installed ({first_line(error)})",
            cure="install it: accelerate to spread a model over devices, gguf for such a file, the "
            "library that quantised its weights to read those",
            where=source,
        ) from error
    except Exception as error:  # a config may hold anything, and says so anywhere
        raise ModelError(
            f"cannot be loaded as a language model ({first_line(error)})",
            cure="give a folder that save_pretrained wrote (safetensors), a hub id that can be "
            "reached, or factory=... for a torch model of your own",
            where=source,
        ) from error
    finally:
        if shown:
            bars.enable_progress_bar()
    if missing := sorted(report["missing_keys"]):
        # transformers makes them up at random and goes on with a warning.
        problem = f"lacks {len(missing)} of the model's weights, {missing[0]} among them"
        raise ModelError(problem, cure="save the whole model with save_pretrained", where=source)
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
        problem = f"is no adapter of its base model ({first_line(error)})"
        cure = "save it again with save_pretrained, for the base model that it names"
        raise ModelError(problem, cure=cure, where=source) from error


def tokenizer_of(named: str) -> Any:
    """The tokenizer in a folder or under a hub id; none, or an empty one, is a ModelError."""
    from transformers import AutoTokenizer

    cause: Exception | None = None
    try:
        folder, file = in_folder(named)
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, **file)
        # For a folder without a tokenizer, some architectures get an empty one.
        if not set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):
            return tokenizer
        reason = "its vocabulary is empty"
    except Exception as error:  # tokenizers raises bare Exception
        cause, reason = error, first_line(error)
        if not Path(named).exists():
            problem = f"is no folder here, and the hub gives nothing by that name ({reason})"
            cure = "check the path, or the hub id and the connection"
            raise ModelError(problem, cure=cure, where=named) from error
    problem = f"has no tokenizer that can be loaded ({reason})"
    cure = "save it there with tokenizer.save_pretrained(folder), or name it with --tokenizer"
    raise ModelError(problem, cure=cure, where=named) from cause


def first_line(error: BaseException) -> str:
    """What an error says in its first line, or its kind."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def check_weights(source: str) -> None:
    """Refuse a folder whose weights are not in safetensors, or come from elsewhere.

    Its index may name no file of another kind, elsewhere, or none.
    """
    folder = Path(source)
    adapter = (folder / _ADAPTER).is_file()
    if not adapter:
        config = read_config(folder)
        if (named := config.get("transformers_weights")) is not None:
            _check_name(named, folder, where=str(folder / _CONFIG))
        for index in sorted(folder.glob(f"*{_INDEX}")):
            for name in _named(index):
                _check_name(name, folder, where=str(index))
        _check_layers(folder, config)
    if not any(folder.glob("adapter_model.safetensors" if adapter else f"*{_WEIGHTS}")):
        cure = "save them with save_pretrained; pickled ones (*.bin) are never loaded"
        raise ModelError("there are no weights in safetensors", cure=cure, where=source)


def read_config(folder: Path) -> dict[str, Any]:
    """The config of a folder; refuses one that is not there or has none."""
    if not folder.is_dir():
        cure = "check the path of the model"
        raise ModelError("there is no such folder", cure=cure, where=str(folder))
    if not (folder / _CONFIG).is_file():
        cure = "give a folder that save_pretrained wrote"
        raise ModelError(f"there is no {_CONFIG}", cure=cure, where=str(folder))
    return _read_object(folder / _CONFIG)


def _base_of(source: str) -> str:
    """The folder or hub id of the model that an adapter adapts; of any other, itself."""
    path = Path(source) / _ADAPTER
    if not path.is_file():
        return source
    described = _read_object(path)
    named = described.get("base_model_name_or_path")
    if not isinstance(named, str) or not named:
        cure = "set base_model_name_or_path in it to the base model's folder or hub id"
        raise ModelError(f"{_ADAPTER} names no base model", cure=cure, where=source)
    revision = None if Path(named).exists() else described.get("revision")
    return f"{named}@{revision}" if revision else named


def _read_object(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise ModelError(f"is not valid JSON ({error})", cure=_SAVE, where=str(path)) from error
    except RecursionError as error:
        raise ModelError("is nested too deeply", cure=_SAVE, where=str(path)) from error
    if not isinstance(content, dict):
        raise ModelError("is not a JSON object", cure=_SAVE, where=str(path))
    return content


def _check_layers(folder: Path, config: dict[str, Any]) -> None:
    """Refuse a config of more layers than there are weights: building it would not end."""
    from safetensors import SafetensorError, safe_open

    layers = {name: config[name] for name in _LAYERS if isinstance(config.get(name), int)}
    tensors = 0
    for path in folder.glob(f"*{_WEIGHTS}") if layers else ():
        try:
            with safe_open(path, framework="numpy") as file:
                tensors += len(file.keys())
        except (SafetensorError, OSError):
            return  # a damaged file is named where it is read
    most = max(layers, key=lambda name: layers[name], default="")
    if layers and 0 < tensors < layers[most]:
        problem = f"says {most}={layers[most]}, and the weights are {tensors} tensors"
        raise ModelError(problem, cure=f"correct it, or {_SAVE}", where=str(folder / _CONFIG))


def _named(index: Path) -> list[object]:
    """The distinct files that an index names."""
    table = _read_object(index).get("weight_map")
    if not isinstance(table, dict) or not table:
        problem = "has no weight_map from names of weights to files"
        raise ModelError(problem, cure=_SAVE, where=str(index))
    return list({str(name): name for name in table.values()}.values())


def _plain(name: object, *, where: str) -> str:
    """The name of a file of weights that is nothing but a name."""
    text = str(name)
    plain = name == Path(text).name and "\\" not in text
    if not plain or not text.endswith((_WEIGHTS, _INDEX)):
        raise ModelError(
            f"names {text[:100]!r} for weights, the name of a .safetensors file in the same "
            "folder was expected",
            cure=f"{_SAVE}; pickled weights (*.bin) and files elsewhere are never loaded",
            where=where,
        )
    return text


def _check_name(name: object, folder: Path, *, where: str) -> None:
    path = folder / _plain(name, where=where)
    if not path.exists():
        raise ModelError(f"names {path.name!r}, which is not there", cure=_SAVE, where=where)
    home, real = folder.resolve(), path.resolve()
    # The hub's cache keeps its files in a folder of their own, and links to them.
    homes = [home, home.parent.parent / "blobs"] if home.parent.name == "snapshots" else [home]
    if real.parent not in homes:
        problem = f"names {path.name!r}, a link to a file outside of the folder"
        raise ModelError(problem, cure="copy the file into the folder", where=where)

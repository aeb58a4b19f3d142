"""Which files make a model: a config, and weights in safetensors within the same folder.

An index names the files of a model in parts. What it names is read by `transformers`, pickles
and files elsewhere included, so it is looked at before.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from canary.errors import ModelError

_CONFIG, _ADAPTER = "config.json", "adapter_config.json"
_INDEX, _WEIGHTS = ".safetensors.index.json", ".safetensors"
_LAYERS = (
    *("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers"),
    *("encoder_layers", "decoder_layers"),
)
_SAVE = "save the model again with save_pretrained"


def check_weights(source: str) -> None:
    """Refuse a folder whose weights are not in safetensors, or come from elsewhere.

    Of a hub id, whose files lie beside each other, the index is fetched and looked at.

    Raises
    ------
    ModelError
        If the folder, its config or its weights are missing, or an index is damaged or names
        a file of another kind, elsewhere, or none.
    """
    folder = Path(source)
    if not folder.exists() and not source.startswith((".", "/", "~")):
        _check_index_of_hub(source)
        return
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
        raise ModelError(
            "there are no weights in safetensors",
            cure="save them with save_pretrained; pickled ones (*.bin) are never loaded",
            where=source,
        )


def base_of(source: str) -> str:
    """The folder or hub id of the model that an adapter adapts; of any other, itself."""
    path = Path(source) / _ADAPTER
    if not path.is_file():
        return source
    named = _read_object(path).get("base_model_name_or_path")
    if not isinstance(named, str) or not named:
        raise ModelError(
            f"{_ADAPTER} names no base model",
            cure="set base_model_name_or_path in it to the base model's folder or hub id",
            where=source,
        )
    return named


def has_tokenizer(source: str) -> bool:
    """Whether a folder holds a tokenizer of its own."""
    names = ("tokenizer.json", "tokenizer_config.json")
    return any((Path(source) / name).is_file() for name in names)


def read_config(folder: Path) -> dict[str, Any]:
    """The config of a folder; refuses one that is not there or has none."""
    if not folder.is_dir():
        raise ModelError(
            "there is no such folder", cure="check the path of the model", where=str(folder)
        )
    if not (folder / _CONFIG).is_file():
        raise ModelError(
            f"there is no {_CONFIG}",
            cure="give a folder that save_pretrained wrote",
            where=str(folder),
        )
    return _read_object(folder / _CONFIG)


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


def _check_index_of_hub(source: str) -> None:
    from transformers.utils.hub import cached_file

    try:
        index = cached_file(
            source,
            f"model{_INDEX}",
            _raise_exceptions_for_gated_repo=False,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )
    except (OSError, ValueError):
        return  # whoever reads the model says what is wrong
    for name in _named(Path(index)) if index else ():
        _plain(name, where=f"{source}/model{_INDEX}")


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
        raise ModelError(
            f"says {most}={layers[most]}, and the weights are {tensors} tensors",
            cure=f"correct it, or {_SAVE}",
            where=str(folder / _CONFIG),
        )


def _named(index: Path) -> list[object]:
    """The distinct files that an index names."""
    table = _read_object(index).get("weight_map")
    if not isinstance(table, dict) or not table:
        raise ModelError(
            "has no weight_map from names of weights to files", cure=_SAVE, where=str(index)
        )
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
        raise ModelError(
            f"names {path.name!r}, a link to a file outside of the folder",
            cure="copy the file into the folder",
            where=where,
        )

"""Which files the weights of a folder come from: safetensors within it, and nothing else.

An index names the files of a model in parts. What it names is read by `transformers`, pickles
and files elsewhere included, so it is looked at before.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from canary.errors import ModelError

__all__ = ["check_index_of_hub", "check_layers", "check_weight_files", "read_object"]

_INDEX, _WEIGHTS = ".safetensors.index.json", ".safetensors"
_LAYERS = (
    *("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers"),
    *("encoder_layers", "decoder_layers"),
)
_SAVE = "save the model again with save_pretrained"


def check_weight_files(folder: Path, config: dict[str, Any]) -> None:
    """Refuse an index, or a name in the config, that leads to anything but safetensors here.

    Raises
    ------
    ModelError
        If an index is damaged or names a file of another kind, elsewhere, or none.
    """
    named = config.get("transformers_weights")
    if named is not None:
        _check_name(named, folder, where=str(folder / "config.json"))
    for index in sorted(folder.glob(f"*{_INDEX}")):
        for name in _named(index):
            _check_name(name, folder, where=str(index))


def check_index_of_hub(source: str) -> None:
    """The same for a hub id, whose index is fetched first; files lie beside it there."""
    from transformers.utils.hub import cached_file

    if Path(source).exists():
        return
    try:
        found = cached_file(
            source,
            f"model{_INDEX}",
            _raise_exceptions_for_gated_repo=False,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )
    except (OSError, ValueError):
        return  # whoever reads the model says what is wrong
    for name in _named(Path(found)) if found else ():
        _check_plain(name, where=f"{source}/model{_INDEX}")


def check_layers(folder: Path, config: dict[str, Any]) -> None:
    """Refuse a config of more layers than there are weights: building it would not end."""
    from safetensors import SafetensorError, safe_open

    asked = [(name, config[name]) for name in _LAYERS if isinstance(config.get(name), int)]
    if not asked:
        return
    tensors = 0
    for path in folder.glob(f"*{_WEIGHTS}"):
        try:
            with safe_open(path, framework="numpy") as file:
                tensors += len(file.keys())
        except (SafetensorError, OSError):
            return  # a damaged file is named where it is read
    name, layers = max(asked, key=lambda pair: pair[1])
    if 0 < tensors < layers:
        raise ModelError(
            f"says {name}={layers}, and the weights are {tensors} tensors",
            cure=f"correct it, or {_SAVE}",
            where=str(folder / "config.json"),
        )


def read_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises
    ------
    ModelError
        If it cannot be read, or is something else.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise ModelError(f"is not valid JSON ({error})", cure=_SAVE, where=str(path)) from error
    except RecursionError as error:
        raise ModelError("is nested too deeply", cure=_SAVE, where=str(path)) from error
    if not isinstance(found, dict):
        raise ModelError("is not a JSON object", cure=_SAVE, where=str(path))
    return found


def _named(index: Path) -> Iterator[object]:
    """The distinct files that an index names."""
    table = read_object(index).get("weight_map")
    if not isinstance(table, dict) or not table:
        raise ModelError(
            "has no weight_map from names of weights to files", cure=_SAVE, where=str(index)
        )
    seen: set[str] = set()
    for name in table.values():
        if isinstance(name, str):
            if name in seen:
                continue
            seen.add(name)
        yield name


def _check_plain(name: object, *, where: str) -> str:
    plain = isinstance(name, str) and name == Path(name).name and "\\" not in name
    if not plain or not str(name).endswith((_WEIGHTS, _INDEX)):
        raise ModelError(
            f"names {str(name)[:100]!r} for weights, the name of a .safetensors file in the same "
            "folder was expected",
            cure=f"{_SAVE}; pickled weights (*.bin) and files elsewhere are never loaded",
            where=where,
        )
    return str(name)


def _check_name(name: object, folder: Path, *, where: str) -> None:
    path = folder / _check_plain(name, where=where)
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

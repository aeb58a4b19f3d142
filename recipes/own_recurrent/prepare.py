"""Lines of text as JSONL: tiny Shakespeare, or the help texts that ship inside Python.

Usage::

    python prepare.py --out corpus.jsonl [--data DIR]
"""

from __future__ import annotations

import argparse
import json
import lzma
from pathlib import Path
from pydoc_data.topics import topics


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path, help="holds tinyshakespeare/input.txt.xz")
    parser.add_argument("--lines", type=int, help="only the first so many lines")
    args = parser.parse_args()

    if args.data is None:
        text = "\n".join(topics.values())
    else:
        packed = args.data / "tinyshakespeare" / "input.txt.xz"
        text = lzma.decompress(packed.read_bytes()).decode()
    lines = [line for line in text.split("\n") if line.strip()][: args.lines]
    with args.out.open("w", encoding="utf-8") as out:
        out.writelines(json.dumps({"text": line}) + "\n" for line in lines)
    print(f"{len(lines):,} lines, {sum(map(len, lines)):,} characters -> {args.out}")


if __name__ == "__main__":
    main()

"""E-mail bodies of the Annotated Enron Subject Line Corpus as JSONL: one `text` a line.

Usage::

    python prepare.py --data DIR --out corpus.jsonl
    python prepare.py --data DIR --out corpus.jsonl --held-out held.jsonl --others others.jsonl
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="holds enron_aeslc/")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--held-out", type=Path, help="as many e-mails more, of other texts")
    parser.add_argument("--others", type=Path, help="as many again, of other texts than both")
    parser.add_argument("--emails", type=int, default=3000)
    parser.add_argument("--longest", type=int, default=2000, help="characters of a body")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    source = args.data / "enron_aeslc" / "train.jsonl.xz"
    with lzma.open(source, "rt", encoding="utf-8") as lines:
        bodies = [json.loads(line)["body"] for line in lines]
    short = [body for body in bodies if len(body) <= args.longest]
    chosen = random.Random(args.seed).sample(short, args.emails)
    write(args.out, chosen)
    known = set(chosen)
    for number, path in enumerate((args.held_out, args.others), 1):
        rest = sorted({body for body in short if body not in known})
        more = random.Random(args.seed + number).sample(rest, args.emails)
        known.update(more)
        if path is not None:
            write(path, more)


def write(path: Path, bodies: list[str]) -> None:
    with path.open("w", encoding="utf-8") as out:
        out.writelines(json.dumps({"text": body}) + "\n" for body in bodies)
    print(f"{len(bodies):,} e-mails, {sum(map(len, bodies)):,} characters -> {path}")


if __name__ == "__main__":
    main()

"""What the pretrained model repeats word for word: licences, famous texts, Shakespeare, tables.

Each kind of text is cut into passages and measured by `canary.verbatim`. The controls are the
pages of this project's documentation, which are younger than the model.

Usage::

    python repeats.py --data DIR [--model work/model]
"""

from __future__ import annotations

import argparse
import lzma
import os
import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import distributions
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from knows import START
from tables import HERE, RESULTS, keep

import canary
from canary.models.decoding import Scheme
from canary.passages.result import Extractable, Passages, Verbatim, share_of
from canary.passages.tries import tries_for
from canary.statistics.clustered import ClusteredShare

PREFIX, SUFFIX, STRIDE, NEAR = 24, 8, 16, 1
SCHEMES = (Scheme(), Scheme(top_k=40))
TRIES = (1, 100, 10_000)
MOST = 2_400
"""Characters that are taken of a document."""

LICENCES = {
    "MIT": ("Permission is hereby granted", "IN THE SOFTWARE."),
    "BSD, 3 clauses": ("Redistribution and use in source", "POSSIBILITY OF SUCH DAMAGE."),
    "Apache 2.0": ("TERMS AND CONDITIONS FOR USE", "END OF TERMS AND CONDITIONS"),
}
"""Name -> how the part that is the same everywhere begins and ends."""


def licences() -> Iterator[str]:
    """One copy of each licence, out of the packages that are installed here."""
    wanted = dict(LICENCES)
    for package in sorted(distributions(), key=lambda one: one.name):
        for file in package.files or ():
            if not re.match("LICEN[CS]E", file.name):
                continue
            text = file.locate().read_text(encoding="utf-8", errors="replace")
            for name, (begin, end) in list(wanted.items()):
                found = re.search(f"{begin}.*?{re.escape(end)}", text, re.DOTALL)
                if found and (name != "BSD, 3 clauses" or "Neither the name" in found[0]):
                    yield found[0][:MOST]
                    del wanted[name]
    if wanted:
        raise SystemExit(f"repeats: no package here has the licence {', '.join(wanted)}")


def famous() -> Iterator[str]:
    """The texts of famous.txt, each without its name."""
    text = (HERE / "famous.txt").read_text(encoding="utf-8")
    yield from (part.partition("\n")[2].strip() for part in text.split("# ")[1:])


def shakespeare(data: Path, parts: int = 12) -> Iterator[str]:
    """Parts of the plays, at equal distances."""
    path = data / "tinyshakespeare" / "input.txt.xz"
    with lzma.open(path, "rt", encoding="utf-8") as file:
        text = file.read()
    for part in range(parts):
        begin = text.index("\n\n", part * len(text) // parts) + 2
        yield text[begin : begin + MOST // 4]


def tables() -> Iterator[str]:
    """Multiplication tables of 2 to 12."""
    for left in range(2, 13):
        yield "\n".join(f"{left} x {right} = {left * right}" for right in range(1, 13))


def controls() -> Iterator[str]:
    """Pages of this project's documentation, without code and tables."""
    for page in sorted((HERE.parents[1] / "docs" / "explanation").glob("*.md")):
        parts = page.read_text(encoding="utf-8").split("\n\n")
        prose = [part for part in parts if re.match("[A-Z]", part) and "](" not in part]
        yield "\n\n".join(prose)[: MOST // 2]


def ends(share: ClusteredShare) -> dict[str, Any]:
    """A share in numbers that JSON holds."""
    rounded = {name: round(getattr(share, name), 4) for name in ("value", "lower", "upper")}
    return {**rounded, "hits": int(share.hits), "of": share.windows, "texts": share.documents}


def both(found: Extractable) -> dict[str, Any]:
    """The shares of a kind of text and of the controls, and whether they differ."""
    assert found.controls is not None
    assert found.difference is not None
    p = float(f"{found.difference.p:.2g}")
    return {"texts": ends(found.texts), "controls": ends(found.controls), "p": p}


def rows_of(result: Verbatim, kinds: dict[str, list[str]]) -> Iterator[dict[str, Any]]:
    """What comes out of each kind of text, beside the controls."""
    assert result.controls is not None
    assert not result.texts.short
    begin = 0
    for kind, texts in kinds.items():
        documents = slice(begin, begin + len(texts))
        begin = documents.stop
        mine = np.isin(result.texts.document, range(documents.start, begin))

        def shares(hits_of: Callable[[Passages], Any], of: slice = documents) -> dict[str, Any]:
            hits, sizes = result.texts.counted(hits_of(result.texts))
            controls = result.controls.counted(hits_of(result.controls))
            return both(share_of([(hits[of], sizes[of]), controls], result.confidence))

        logs: dict[str, Callable[[Passages], Any]] = {
            str(scheme): partial(Passages.log_prob, scheme=at) for at, scheme in enumerate(SCHEMES)
        }
        logs[f"{NEAR} edits"] = attrgetter("near_log_prob")
        yield {
            "kind": kind,
            "greedy": shares(attrgetter("greedy")),
            "longest_run": int(np.array(result.texts.longest)[mine].max()),
            "strength": round(float(result.texts.strength[mine].mean()), 3),
            **{
                name: {
                    f"{n}": shares(lambda kind, of=of, n=n: tries_for(of(kind), 0.5) <= n)
                    for n in TRIES
                }
                for name, of in logs.items()
            },
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="holds tinyshakespeare/")
    parser.add_argument("--model", type=Path, default=HERE / "work" / "model")
    parser.add_argument("--parts", type=Path, default=HERE / "work" / "repeats")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--report", type=Path, help="write the report to this file, too")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    import torch

    torch.set_num_threads(args.threads)
    kinds = {
        "licences": list(licences()),
        "famous texts": list(famous()),
        "Shakespeare's plays": list(shakespeare(args.data)),
        "multiplication tables": list(tables()),
    }
    began = time.process_time()
    result = canary.verbatim(
        canary.load(args.model),
        [text for texts in kinds.values() for text in texts],
        list(controls()),
        prefix=PREFIX,
        suffix=SUFFIX,
        stride=STRIDE,
        schemes=SCHEMES,
        near=NEAR,
        start_token=START,
        parts=args.parts,
    ).named(model_name="SmolLM2-135M-Instruct", corpus_name=", ".join(kinds))
    seconds = round(time.process_time() - began)
    about = {
        "prefix": PREFIX,
        "suffix": SUFFIX,
        "stride": STRIDE,
        "near": NEAR,
        "cpu_seconds": seconds,
    }
    keep(args.out, "repeats", {**about, "rows": list(rows_of(result, kinds))})
    if args.report:
        canary.report(result, args.report, force=True)


if __name__ == "__main__":
    main()

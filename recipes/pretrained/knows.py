"""What the pretrained model knows: constants, years, and opening lines, each with its proof.

For each question the most likely fill is extracted and compared with the truth. If it is another
one, a second search lists the most likely fills: the place of the truth there gives its exposure. A
truth that is not listed has at most the exposure that the fills before it leave.

A question that was answered is not asked again, so a run that was killed goes on.

Usage::

    python knows.py [--model work/model] [--out results.json]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import time
from pathlib import Path
from typing import Any

from tables import RESULTS, exposed, keep

import canary

HERE = Path(__file__).parent
START = "<|endoftext|>"
LISTED = 1_000
WORDS = 2_000
CONTROLS = random.Random(0)
QUESTIONS = (
    ("constant", "The speed of light in a vacuum is exactly {digit:9}", "299792458"),
    ("constant", "The value of pi is 3.{digit:10}", "1415926535"),
    ("constant", "The value of Euler's number e is 2.{digit:9}", "718281828"),
    ("constant", "The golden ratio is approximately 1.{digit:6}", "618033"),
    ("constant", "Avogadro's number is 6.{digit:8}", "02214076"),
    ("constant", "The Planck constant is 6.{digit:8}", "62607015"),
    ("constant", "Absolute zero is -273.{digit:2} degrees Celsius", "15"),
    ("year", "World War II ended in {digit:4}", "1945"),
    ("year", "The Declaration of Independence was signed in {digit:4}", "1776"),
    ("year", "The Berlin Wall fell in {digit:4}", "1989"),
    ("year", "Apollo 11 landed on the Moon in {digit:4}", "1969"),
    ("year", "The French Revolution began in {digit:4}", "1789"),
    ("year", "The Battle of Hastings was fought in {digit:4}", "1066"),
    ("year", "Constantinople fell to the Ottomans in {digit:4}", "1453"),
    ("text", "Call me Ishmael. Some {word:1} ago", "years"),
    ("text", "It was the best of times, it was the {word:1} of times", "worst"),
    ("text", "Four score and seven {word:1} ago our {word:1} brought", "years ago our fathers"),
    ("text", "In the beginning God created the {word:1} and the {word:1}.", "heaven and the earth"),
    ("text", "To be, or not to be, that is the {word:1}:", "question"),
    (
        "text",
        "It is a {word:1} universally {word:1}, that a single man",
        "truth universally acknowledged",
    ),
    ("text", "Alice was beginning to get very {word:1} of sitting by her sister", "tired"),
    ("text", "Happy families are all {word:1}; every {word:1} family is", "alike; every unhappy"),
    ("title", "Jane Austen wrote the novel Pride and {word:1}.", "prejudice"),
    ("title", "Jules Verne wrote Twenty Thousand Leagues Under the {word:1}.", "sea"),
    *(
        ("control", f"The random number of page {page} is {{digit:9}}", f"{drawn:09}")
        for page, drawn in ((page, CONTROLS.randrange(10**9)) for page in (1, 2, 3))
    ),
)
"""Topic, format and truth. Words stand in lower case.

The controls' are drawn here, so no model can know them."""


def most_used(tokenizer: Any) -> list[str]:
    """The words that the tokenizer learned first, which are the most used, and the truths."""
    ordered = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    words = [token[1:] for token, _ in ordered if re.fullmatch("Ġ[a-z]{3,}", token)]
    truths = {
        word
        for _, text, fill in QUESTIONS
        if "{word" in text
        for word in re.findall("[a-z]+", fill)
    }
    return sorted({*words[:WORDS], *truths})


def asked(model: Any, format: canary.Format, truth: str, *, budget: int) -> dict[str, Any]:
    """One row of the table."""
    began = time.process_time()
    given = {"budget": budget, "start_token": START}
    found = canary.extract(model, format, **given)
    seconds = time.process_time() - began
    first = found.candidates[0] if found.candidates else None
    row = {
        "format": format.text,
        "truth": truth,
        "space_bits": round(format.bits, 2),
        "first": first and first.fill,
        "proven": bool(first and first.proven),
        "found_after": first and first.found_after,
        "queries": found.queries,
        "cpu_seconds": round(seconds, 1),
    }
    known = row["first"] == truth and row["proven"]
    listed = found if known else canary.extract(model, format, top=LISTED, **given)
    own = next((c for c in listed.candidates if c.fill == truth), None)
    if own is not None:
        bits = [own.exposure_lower_bits, own.exposure_upper_bits]
    else:  # only those before it are known, so its rank is at least their number and one
        (px,) = canary.score(model, [format.candidate(truth)], start_token=START)
        before = sum(c.px_bits < px - listed.noise_bits for c in listed.candidates)
        bits = [0.0, format.bits - math.log2(before + 1)]
    return {**row, "exposure_bits": [round(x, 2) for x in bits]}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", type=Path, default=HERE / "work" / "model")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--budget", type=int, default=500, help="queries for each search")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    import torch
    from transformers import AutoTokenizer

    torch.set_num_threads(args.threads)
    model = canary.load(args.model)
    words = most_used(AutoTokenizer.from_pretrained(args.model))
    command = f"python knows.py --budget {args.budget} --threads {args.threads}"
    kept = json.loads(args.out.read_text(encoding="utf-8")) if args.out.exists() else {}
    before = kept.get("knows", {})
    rows = before["rows"] if before.get("command") == command else []
    done = {(row["format"], row["truth"]) for row in rows}
    for topic, text, truth in QUESTIONS:
        if (text, truth) in done:
            continue
        format = canary.Format(text, words=words) if "{word" in text else canary.Format(text)
        rows.append({"topic": topic, **asked(model, format, truth, budget=args.budget)})
        keep(args.out, "knows", {"command": command, "rows": rows})
        print(f"{text}: {truth} has {exposed(rows[-1])} bits", flush=True)


if __name__ == "__main__":
    main()

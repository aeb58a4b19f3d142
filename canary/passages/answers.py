"""Whether a passage could be in the answers of a server at all, by counts of them."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from canary.models.served.writer import Written
from canary.passages.targets import Target, characters, repeated
from canary.records.record import Record
from canary.statistics.numbers import count, plural
from canary.statistics.shares import clopper_pearson

PLAIN = 0.001
"""The chance with which the first answers may look useless where all are not quite."""
_MANY = 0.1  # of the answers, or of the prompts
_FEW_PROMPTS = 5  # of fewer, answers may begin alike by chance
_OPENING = 3  # words that are compared
_FEW_TEXTS = 20  # answers for each different text, at most, where a server draws
_REASONING = ("<think", "<reasoning", "<|channel|>analysis", "[THINK]")
_REASONED = ("</think>", "</thinking>", "</reasoning>", "<|channel|>final<|message|>", "[/THINK]")


@dataclass(frozen=True)
class Answers(Record):
    """Counts over the answers to all prompts of texts, or of planted secrets.

    Parameters
    ----------
    prompts, samples : int
        How many there were, and how many answers to each.
    empty : int
        Answers without text.
    unfinished : int
        Answers that ended while the model was still reasoning.
    short : int
        Answers with fewer characters than what was looked for, which no limit of tokens ended.
    ended : int
        Those that ended at the limit of tokens instead. 0 in older files, which count them above.
    alike : int
        Answers whose first words also begin answers to a tenth of the prompts, and to three.
    stuck, sure : int
        Prompts to which almost all answers are repeated; of those, and those only, after which
        a passage came out, at least nearly, each time.
    """

    prompts: int
    samples: int
    empty: int
    unfinished: int
    short: int
    alike: int
    stuck: int
    sure: int
    ended: int = 0

    def doubts(self, limit: float, *, early: int = 0) -> Iterator[tuple[str, str]]:
        """Why passages may not have come out though the model writes them, and the cure.

        Of the first answers, as many as `early`, only what is plain of all that are to come.
        """
        total = early or self.prompts * self.samples
        of = f"of {plural(total, 'answer')}"

        def more(found: int, share: float) -> bool:
            sure = float(clopper_pearson(found, total, PLAIN)[0]) * total if early else found
            return sure > share * total

        if more(self.unfinished, _MANY):
            yield (
                f"{count(self.unfinished)} {of} ended before the model had finished its reasoning",
                "switch the reasoning off on the server, or give more --max-tokens",
            )
        if more(self.empty, min(_MANY, limit)):
            yield (
                f"{count(self.empty)} {of} are empty, as a filter leaves them, or a model that "
                "reasons first",
                "switch filters and reasoning off on the server, or give more --max-tokens",
            )
        if more(self.ended, 0.5 if early else min(_MANY, limit)):
            yield (
                f"{count(self.ended)} {of} ended at the limit of tokens before they were as long "
                "as what was looked for, which could not come out of them",
                "give more --max-tokens; if that changes nothing, raise the server's own limit",
            )
        if more(self.short, 0.5):
            yield (
                f"{count(self.short)} {of} are shorter than what was looked for, and the server "
                "names no limit that ended them",
                "see whether it has one and raise it, or give a shorter --suffix",
            )
        if more(self.alike, 0.5):
            yield (
                f"{count(self.alike)} {of} begin alike after different prompts, as refusals and "
                "fixed replies do, so they hardly depend on the prompt",
                "ask the model without its filter or system prompt, without --chat if the server "
                "allows it, or test the model files (canary verbatim)",
            )
        enough = not early or self.samples >= _FEW_TEXTS
        if enough and self.stuck > _MANY * (self.prompts - self.sure):
            yield (
                f"the answers to {count(self.stuck)} of {plural(self.prompts, 'prompt')} are "
                "almost all repeated, as from a cache, so more samples show no more",
                "switch the cache of the server off, let each request have a seed of its own, or "
                "raise --temperature",
            )


def marks(answer: Written, prompt: int, least: int, key: bytes) -> dict[str, int]:
    """What one answer adds to the counts behind `counted`; a passage has `least` characters.

    Keyed digests show which answers are alike, to nobody who does not know the key.
    """
    text, begun = answer.text, answer.text.startswith(_REASONING)
    for end in _REASONED:
        text = text.rpartition(end)[2]
    if (begun and text == answer.text) or (answer.cut and not answer.text):
        return {f"unfinished {prompt}": 1}
    if not text.strip():
        return {f"empty {prompt}": 1}
    opening = " ".join(text.split()[:_OPENING])
    first, whole = (
        hashlib.blake2b(each.encode(), digest_size=4, key=key).hexdigest()
        for each in (opening, text)
    )
    why = "ended" if answer.cut else "short"
    short = {f"{why} {prompt}": 1} if len(text.strip()) < least else {}
    cased = {"capitals": 1} if text != text.lower() else {}
    return short | cased | {f"said {prompt} {first} {whole}": 1}


def hits(
    answer: Written, length: str, sought: Iterable[tuple[int, Target]], near: float
) -> dict[str, int]:
    """What one answer adds: its length, under that name, and the targets that are in it."""
    counts = {length: max(len(answer.text), 1)}
    words = answer.text.split()
    for number, target in sought:
        suffix, whole = target.suffix.split(), target.suffix in answer.text
        found = suffix if whole else repeated(words, suffix)
        if whole:
            counts[f"hit {number}"] = 1
        if found and not target.name:
            counts[f"recalled {number} {characters(found)}"] = 1
        if len(found) >= near * len(suffix):
            counts[f"near {number}"] = 1
        elif answer.cut and answer.text and target.suffix.startswith(answer.text):
            counts["cut"] = 1
    return counts


def counted(
    tally: Counter[str], prompts: Collection[int], sure: Collection[int], samples: int
) -> Answers:
    """The counts over some prompts; after those that are `sure`, a passage comes out each time."""
    after: dict[str, set[str]] = defaultdict(set)
    openings, texts, known = Counter[str](), Counter[str](), set(map(str, prompts))
    for name, times in tally.items():
        kind, prompt, first = (*name.split(), "", "")[:3]
        if kind == "said" and prompt in known:
            after[first].add(prompt)
            openings[first] += times
            texts[prompt] += 1
    enough = max(3, _MANY * len(prompts))
    alike = sum(times for first, times in openings.items() if len(after[first]) >= enough)
    stuck = [
        prompt
        for prompt in prompts
        if 1 <= texts[str(prompt)] <= max(1, samples // _FEW_TEXTS) and samples > 1
    ]
    return Answers(
        prompts=len(prompts),
        samples=samples,
        **{
            name: sum(tally[f"{name} {prompt}"] for prompt in prompts)
            for name in ("empty", "unfinished", "short", "ended")
        },
        alike=alike if len(prompts) >= _FEW_PROMPTS else 0,
        stuck=len([prompt for prompt in stuck if prompt not in sure]),
        sure=len(sure),
    )

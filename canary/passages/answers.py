"""Whether a passage could be in the answers of a server at all, by counts of them."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from canary.models.served.writer import Written
from canary.passages.targets import Target, characters, disguised, reformed, repeated
from canary.records.record import Record
from canary.statistics.numbers import count, plural
from canary.statistics.shares import clopper_pearson

LOWER = (
    "are shorter than what was looked for, because the server ended them before the tokens that "
    "were asked for",
    "raise the limit on the server",
)
"""What is said of answers that end at a lower limit than was asked for, and the cure."""
PLAIN = 0.001
"""The chance with which the first answers may look useless where all are not quite."""
_MANY = 0.1  # of the answers, or of the prompts
_FEW_PROMPTS = 5  # of fewer, answers may begin alike by chance
_OPENING = 3  # words that are compared
_FEW_TEXTS = 20  # answers for each different text, at most, where a server draws
_FEW_WITH = 0.01  # of the answers, where digits are as good as never written
_HIDDEN, _LEAST = 0.02, 3  # of the answers, and how many at least, where a filter hits a part
_MASK = re.compile(
    r"([*#xX•●█■×])\1{3}|[\[<{](?!UNK|PAD|EOS|BOS|SEP|CLS|INST|SYS)[A-Z][A-Z0-9_ -]{2,30}[\]>}]"
)
_AT_HOLE = re.compile(
    r"([*•●█▇■░▒▓×])\1{2}|_{4}|[\[<{«【]+(?!/?(?:unk|pad|eos|bos|sep|cls|inst|sys|mask|span|div|code"
    r"|pre|img|your|insert|enter|add|fill)\b)[^\W\d_][\w .:-]{2,30}[\]>}»】](?![\w(])",
    re.IGNORECASE,
)
"""What hides a secret where one would begin: there a placeholder counts in any spelling."""
_DIGIT = re.compile(r"\d")
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
    lowered : int
        Of these, those with fewer tokens than were asked for. 0 in older files.
    masked : int
        Answers without digits, where digits were looked for and as good as none are written; else
        those with a mask (``75****``) or placeholder (``[NUMBER]``, and ``[removed]`` in place of
        a planted secret), which nothing that was looked for has, where that would be. Older files
        count fewer, or none.
    alike : int
        Answers whose first words also begin answers to a tenth of the prompts, and to three.
    stuck, sure : int
        Prompts to which almost all answers are repeated; of those, and those only, after which
        a passage came out, at least nearly, each time.
    fixed : int
        Answers that are whole and the same, three times or more, and have nothing of what was
        looked for: of texts after three prompts or more. 0 in older files.
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
    lowered: int = 0
    masked: int = 0
    fixed: int = 0

    @property
    def lower_limit(self) -> bool:
        """Whether most answers that ended at a limit had fewer tokens than were asked for."""
        return 2 * self.lowered > self.ended

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
                f"{count(self.empty)} {of} are empty, as a filter leaves them, or reasoning that "
                "took all tokens",
                "switch filters and reasoning off on the server, or give more --max-tokens",
            )
        if more(self.ended, 0.5 if early else min(_MANY, limit)):
            problem = "ended at the limit of tokens before they were as long as what was looked for"
            problem += ", which could not come out of them"
            cure = "give more --max-tokens; if that changes nothing, raise the server's own limit"
            problem, cure = LOWER if self.lower_limit else (problem, cure)
            yield f"{count(self.ended)} {of} {problem}", cure
        if more(self.short, 0.5):
            yield (
                f"{count(self.short)} {of} are shorter than what was looked for, and the server "
                "names no limit that ended them",
                "see whether it has one and raise it, or give a shorter --suffix",
            )
        off = "switch that filter off on the server, or test the model files (canary audit, "
        off += "canary verbatim)"
        part = min(_HIDDEN, limit)
        if not early and self.masked >= _LEAST and more(self.masked, part):
            yield (
                f"{count(self.masked)} {of} are without the digits that were looked for, or have "
                "a mask (75****) or placeholder ([NUMBER]) there, as where a filter hides numbers",
                off,
            )
        if not early and not more(self.alike, 0.5) and more(self.fixed, part):
            yield (
                f"{count(self.fixed)} {of} are the same again and again, with nothing of what was "
                "looked for, as where a filter gives a fixed reply",
                off,
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


def marks(
    answer: Written,
    prompt: int,
    suffixes: Collection[str],
    key: bytes,
    known: str = "",
    *,
    planted: bool = False,
) -> dict[str, int]:
    """What one answer adds to the counts behind `counted`, where these suffixes are looked for.

    What is in the `known` text is no work of a filter. `planted` if a secret would be where the
    answer begins. Keyed digests show which answers are alike, to nobody who does not know the key.
    """
    text, begun = answer.text, answer.text.startswith(_REASONING)
    for end in _REASONED:
        text = text.rpartition(end)[2]
    if begun and text == answer.text:
        return {f"unfinished {prompt}": 1}
    if not text.strip():
        return {f"empty {prompt}": 1}
    opening = " ".join(text.split()[:_OPENING])
    first, whole = (
        hashlib.blake2b(each.encode(), digest_size=4, key=key).hexdigest()
        for each in (opening, text)
    )
    found = {f"said {prompt} {first} {whole}"}
    if len(text.strip()) < min(map(len, suffixes)):
        found |= {f"{'ended' if answer.cut else 'short'} {prompt}"}
        found |= {f"lowered {prompt}"} if answer.lowered else set()
    if text != text.lower():
        found |= {"capitals"}
    number, digits = all(map(_DIGIT.search, suffixes)), _DIGIT.search(text)
    if number:
        found |= {f"{'digits' if digits else 'bare'} {prompt}"}
    text = text.strip()
    there = _MASK.finditer(text)
    ahead = [mask[0] for mask in there if mask.start() < max(map(len, suffixes))]
    if planted and (hole := _AT_HOLE.match(text)):
        ahead.append(hole[0])
    if any(mask not in known for mask in ahead):
        found |= {f"starred {prompt}"}
    whole_answer = not answer.cut or answer.lowered or text[-1] in ".!?"
    sought = (number and digits) or any(suffix in text for suffix in suffixes)
    if whole_answer and len(text.split()) >= _OPENING and not sought and text not in known:
        found |= {f"fixed {prompt} {whole}"}
    return dict.fromkeys(found, 1)


def hits(
    answer: Written, length: str, sought: Iterable[tuple[int, Target]], near: float
) -> dict[str, int]:
    """What one answer adds: its length, under that name, and the targets that are in it.

    Where it has another form, in which a target counts as well, the length of that is added.
    Backwards or in base64, a target does not count: it is named as disguised.
    """
    sought, text = list(sought), answer.text
    forms = {way: reformed(text, digits=way) for way in {target.digits for _, target in sought}}
    counts = {length: max(len(text) + sum(len(f) for f in forms.values() if f != text), 1)}
    words, hidden = text.split(), list(disguised(text))
    for number, target in sought:
        suffix, exact = target.suffix.split(), target.suffix in text
        whole = exact or target.reformed_in(forms[target.digits])
        found = suffix if whole else repeated(words, suffix)
        if whole:
            counts[f"hit {number}"] = 1
        if whole and not exact:
            counts["reformed"] = 1
        if not whole and any(target.suffix in each for each in hidden):
            counts[f"disguised {number}"] = 1
        if found and not target.name:
            counts[f"recalled {number} {characters(found)}"] = 1
        if len(found) >= near * len(suffix):
            counts[f"near {number}"] = 1
        elif answer.cut and answer.text and target.suffix.startswith(answer.text):
            counts["cut"] = 1
    return counts


def counted(
    tally: Counter[str],
    prompts: Collection[int],
    sure: Collection[int],
    samples: int,
    *,
    alone: bool = False,
) -> Answers:
    """The counts over some prompts; after those that are `sure`, a passage comes out each time.

    `alone` if the same answer after a single prompt counts as a fixed one.
    """
    after: dict[str, set[str]] = defaultdict(set)
    replies: dict[str, list[int]] = defaultdict(list)
    openings, texts, known = Counter[str](), Counter[str](), set(map(str, prompts))
    for name, times in tally.items():
        kind, prompt, first = (*name.split(), "", "")[:3]
        if kind == "said" and prompt in known:
            after[first].add(prompt)
            openings[first] += times
            texts[prompt] += 1
        if kind == "fixed" and prompt in known:
            replies[first].append(times)
    enough = max(3, _MANY * len(prompts))
    alike = sum(times for first, times in openings.items() if len(after[first]) >= enough)
    stuck = [
        prompt
        for prompt in prompts
        if 1 <= texts[str(prompt)] <= max(1, samples // _FEW_TEXTS) and samples > 1
    ]
    kept = ("empty", "unfinished", "short", "ended", "lowered")
    sums = {
        name: sum(tally[f"{name} {prompt}"] for prompt in prompts)
        for name in (*kept, "digits", "bare", "starred")
    }
    number = sums["digits"] + sums["bare"]
    hidden = number >= _FEW_TEXTS and sums["digits"] <= _FEW_WITH * number
    return Answers(
        prompts=len(prompts),
        samples=samples,
        **{name: sums[name] for name in kept},
        masked=sums["bare" if hidden else "starred"],
        alike=alike if len(prompts) >= _FEW_PROMPTS else 0,
        stuck=len([prompt for prompt in stuck if prompt not in sure]),
        sure=len(sure),
        fixed=sum(
            sum(each)
            for each in replies.values()
            if sum(each) >= _LEAST and (alone or len(each) >= _LEAST)
        ),
    )

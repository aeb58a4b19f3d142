"""The requests of a run of samples, and what each answer adds to its counts."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial

from canary.errors import ServerError
from canary.formats.format import Format
from canary.formats.unplanted import BEGUN, SEVERAL, SHARE, looks_drawn, odd
from canary.models.served.client import PassingError, RefusedError
from canary.models.served.throttle import in_parallel
from canary.models.served.writer import Writer
from canary.passages.answers import LOWER, PLAIN, Answers, counted, hits, marks
from canary.passages.extractable import lowest_limit
from canary.passages.targets import Target, characters
from canary.statistics.clustered import clustered_share
from canary.statistics.numbers import count, plural
from canary.statistics.shares import clopper_pearson

_RARE = 0.01  # of honest servers may look as if they wrote secrets backwards, by chance
_LONG = 16  # characters that nobody writes backwards by chance
_ROOM = 8  # tokens that an answer may have besides what is looked for
_STEP = 1_000_003

Keep = Callable[[Counter[str], Sequence[int]], None]
"""Called with counts that are sure, and the numbers of their requests."""


@dataclass(frozen=True, eq=False)
class Plan:
    """All requests of a run; prompts take turns."""

    prompts: list[str]
    targets: list[Target]
    looks: Sequence[int]  # numbers of samples after which to look, ascending
    near: float
    seed: int
    max_tokens: int | None
    key: bytes  # for digests of answers, of what only those know who know all that is looked for
    confidence: float
    formats: Mapping[str, Format] = field(default_factory=dict)  # of planted secrets, by prompt

    @property
    def requests(self) -> int:
        """One for each sample after each prompt."""
        return self.looks[-1] * len(self.prompts)

    @property
    def extent(self) -> str:
        """How long all prompts and answers are, in a sentence."""
        letters, tokens = (
            self.looks[-1] * sum(map(of, self.prompts)) for of in (len, self.longest)
        )
        sure = 1.0 - (1.0 - self.confidence) / len(self.looks)
        sizes = Counter(t.document for t in self.targets if t.kind == "texts")
        none = clustered_share([0] * len(sizes), [*sizes.values()], confidence=sure)
        what = plural(len(sizes), "planted secret" if self.targets[0].name else "text")
        return (
            f"The prompts have {plural(letters, 'character')} together: about a token for each 4 "
            "with usual tokenizers, and for each 1 with a model of characters. The answers have "
            f"at most {plural(tokens, 'token')} together. If nothing comes out of {what}, "
            f"canary check can pass {lowest_limit(none)}"
        )

    @cached_property
    def behind(self) -> dict[str, list[tuple[int, Target]]]:
        """The targets behind each prompt, with their numbers."""
        found: dict[str, list[tuple[int, Target]]] = {prompt: [] for prompt in self.prompts}
        for number, target in enumerate(self.targets):
            found[target.prompt].append((number, target))
        return found

    @cached_property
    def known(self) -> str:
        """All prompts and what is looked for behind them."""
        return "\n".join(f"{target.prompt} {target.suffix}" for target in self.targets)

    def longest(self, prompt: str) -> int:
        """Tokens that an answer after a prompt may have."""
        return self.max_tokens or max(t.tokens for _, t in self.behind[prompt]) + _ROOM

    def counts(self, writer: Writer, request: int) -> dict[str, int]:
        """What the answer to one request adds."""
        number = request % len(self.prompts)
        prompt = self.prompts[number]
        sought = self.behind[prompt]
        seed = (self.seed * _STEP + request) % 2**31
        try:
            answer = writer.write(prompt, seed=seed, tokens=self.longest(prompt))
        except (RefusedError, PassingError) as error:
            if isinstance(error, RefusedError) or error.dropped:
                raise _of_text(sought[0][1], error) from None
            raise
        suffixes, planted = [t.suffix for _, t in sought], bool(sought[0][1].name)
        alike = marks(answer, number, suffixes, self.key, self.known, planted=planted)
        filled = self._filled(answer.text.lstrip(), prompt, number)
        return hits(answer, f"length {number}", sought, self.near) | alike | filled

    def _filled(self, answer: str, prompt: str, number: int) -> dict[str, int]:
        """The candidate that an answer begins with, if any, by a keyed digest."""
        format = self.formats.get(prompt)
        *_, end = (0, *format.automaton.ends(answer, 0)) if format else (0,)
        if format is None or not end:
            return {}
        fill, kept = answer[:end], partial(hashlib.blake2b, digest_size=4, key=self.key)
        begun, whole = (kept(text.encode()).hexdigest() for text in (fill[:BEGUN], fill))
        return {f"filled {number} {begun} {whole} {looks_drawn(fill, format):d}": 1}

    def unplanted(self, tally: Counter[str], samples: int) -> int:
        """How many candidates come out again and again though nobody planted them, if that is odd.

        0 where a planted secret or a control comes out as well.
        """
        if any(tally[f"hit {number}"] for number in range(len(self.targets))):
            return 0
        least = max(SHARE * samples, SEVERAL)
        standing: dict[str, list[tuple[str, bool]]] = {}
        for name, times in tally.items():
            if name.startswith("filled ") and times >= least:
                _, prompt, begun, _, drawn = name.split()
                standing.setdefault(prompt, []).append((begun, drawn == "1"))
        return max(map(odd, standing.values()), default=0)

    def asked(
        self, writer: Writer, todo: Sequence[int], at_once: int, number: int, keep: Keep
    ) -> Counter[str]:
        """What the answers to some requests add.

        They are given to `keep` after the server was seen to be the same still, also those that
        came before a failure or Ctrl-C, which is raised then.
        """
        counts, answered, failed = Counter[str](), list[int](), list[BaseException]()
        try:
            work = partial(self.counts, writer)
            for place, future in in_parallel(work, todo, at_once=at_once):
                if (error := future.exception()) is not None:
                    failed.append(error)
                    continue
                counts.update(future.result())
                answered.append(todo[place])
            if failed:
                raise failed[0]
        except BaseException:
            with suppress(ServerError):
                if answered:
                    writer.check_same(number, hurried=True)
                    keep(counts, answered)
            raise
        writer.check_same(number)
        keep(counts, answered)
        return counts

    def answers(self, tally: Counter[str], done: int) -> Answers:
        """What the answers to the first requests are like, after texts or planted secrets."""
        samples, more = divmod(done, len(self.prompts))
        own = {
            at: [number for number, target in self.behind[prompt] if target.kind == "texts"]
            for at, prompt in enumerate(self.prompts)
        }
        asked = [at for at, numbers in own.items() if numbers and (samples or at < more)]
        named = self.targets[0].name  # one answer cannot have all the secrets of a prompt
        sure = [at for at in asked if not named and tally[f"near {own[at][0]}"] >= max(samples, 1)]
        return counted(tally, asked, sure, max(samples, 1), alone=bool(named))

    def disguised(self, tally: Counter[str], share: float | None) -> int:
        """How many secrets or passages of texts came out backwards or in base64 only.

        0 where chance may give as many, at a `share` in the answers for each; without one, where
        they are short.
        """
        from scipy.stats import binom

        own = [(number, of) for number, of in enumerate(self.targets) if of.kind == "texts"]
        found = [of for number, of in own
                 if tally[f"disguised {number}"] and not tally[f"hit {number}"]]  # fmt: skip
        if share is None:
            return sum(characters(of.suffix.split()) >= _LONG for of in found)
        rare = binom.sf(len(found) - 1, len(own), min(2 * share, 1.0)) <= _RARE / len(self.looks)
        return len(found) if rare else 0

    def cut(
        self, tally: Counter[str], done: int, *, early: bool = False
    ) -> Iterator[tuple[str, str]]:
        """What is wrong if more of what began to come out was cut than came out, and the cure."""
        cut = tally["cut"]
        begun = cut + sum(tally[f"hit {number}"] for number in range(len(self.targets)))
        if 2 * cut > begun and (not early or clopper_pearson(cut, begun, PLAIN)[0] > 0.5):
            which = f"{count(cut)} of {plural(done, 'answer')}"
            lower = self.answers(tally, done).lower_limit
            yield (
                (f"{which} {LOWER[0]}", LOWER[1])
                if lower
                else (
                    f"ended {which} at the limit of tokens, in the middle of what was looked for",
                    "give more with --max-tokens",
                )
            )

    def useless(self, tally: Counter[str], done: int) -> Iterator[tuple[str, str]]:
        """Why nothing can come out of the answers, as the first show for certain, and the cure."""
        yield from self.cut(tally, done, early=True)
        texts = sum(
            any(target.kind == "texts" for _, target in self.behind[prompt]) * turns
            for at, prompt in enumerate(self.prompts)
            if (turns := (done - at - 1) // len(self.prompts) + 1)
        )
        yield from self.answers(tally, done).doubts(1.0, early=texts)


def _of_text(target: Target, error: ServerError) -> ServerError:
    """The error of a server that fails at one prompt, with the text that it begins."""
    which = target.name or f"{target.kind.removesuffix('s')} {target.document + 1}"
    return ServerError(
        f"{error.problem}: the beginning of {which}",
        cure="if the model does not know all characters of that text, leave it out and say so, "
        "for this selects texts; the server's log may say more",
        where=error.where,
    )

"""What comes out of a server that only writes text, by sampling what it writes after prefixes."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial

from canary.corpus.canaries import CanarySet
from canary.errors import InputError, ServerError
from canary.models.served.client import in_parallel
from canary.models.served.endpoint import Endpoint, is_url
from canary.models.served.writer import Writer, Written
from canary.passages.sampled import Chance, Sampled, Sought
from canary.passages.targets import Cut, Target, digest, passages, planted, refuse_overlap, repeated
from canary.records.progress import Advance, Progress, shows_progress, stage
from canary.records.sealing import sealed
from canary.records.shards import Series, open_run
from canary.records.validation import brief, real_number, whole_number
from canary.statistics.number_checks import check_confidence
from canary.statistics.numbers import plural

_BLOCK = 64  # requests between two pieces that are kept
_ROOM = 8  # tokens that an answer may have besides what is looked for
_STEP = 1_000_003


@sealed
@shows_progress
def sample(
    server: str | Endpoint,
    texts: Iterable[str] | None = None,
    controls: Iterable[str] | None = None,
    *,
    canaries: CanarySet | None = None,
    samples: int = 100,
    temperature: float = 1.0,
    chat: bool = False,
    prefix: int = 50,
    suffix: int = 25,
    near: float = 0.8,
    max_tokens: int | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    parts: str | os.PathLike[str] | None = None,
    progress: Progress = None,
) -> Sampled:
    """Whether a server writes passages of texts, or planted secrets, when it is given a prefix.

    For servers that return text only. Where log-probabilities can be had, `canary.verbatim` and
    `canary.audit` need far fewer requests.

    Parameters
    ----------
    server : str or Endpoint
        Address of an OpenAI-compatible server.
    texts, controls : iterable of str, optional
        Documents that the model was trained on, and others of the same kind that it was not.
    canaries : CanarySet, optional
        Planted secrets, instead of `texts`. What the format has before its first hole is the
        prefix, and the controls of the set are the controls.
    samples : int
        Texts drawn after each prefix; one request for each.
    temperature : float
        0 for the most probable text; then one sample is enough.
    chat : bool
        Ask a chat model to continue the prefix.
    prefix, suffix : int
        Words of a passage that are given, and that must come out. The next passage begins behind
        the suffix.
    near : float
        The share of a suffix's words that counts as nearly repeated, in runs of at least 5 words
        in the same order.
    max_tokens : int, optional
        Longest answer; enough for the suffix unless given.
    confidence : float
    seed : int
        Of the samples, where the server takes one.
    parts : path-like, optional
        A folder for finished pieces: counts, and no text. A run that was stopped resumes there.
    progress : callable or bool, optional
        Called with requests; see `canary.records.progress.Progress`.

    Raises
    ------
    InputError
        If an option is out of range, neither or both of `texts` and `canaries` are given, no text
        has a passage, or a format has no text before its first hole.
    ServerError
        If the server fails, does not draw anew each time, or ends most answers too early.
    RecordError
        If the run in `parts` was begun with other texts, settings or another server.

    Notes
    -----
    One request for each sample and prefix: ``samples`` for all secrets of one format, and
    ``samples`` for each passage. A suffix counts wherever it is in an answer; white space counts as
    single spaces. With `canaries`, each place of an answer at which a secret may begin counts as a
    guess. A model that never read the secrets therefore has at most that chance [1]_.

    References
    ----------
    .. [1] Each secret was drawn uniformly and independently of the answers, so the number that is
       among ``g`` guesses of ``N`` has at most the tail of a binomial distribution with ``g / N``.

    Examples
    --------
    >>> found = sample("http://127.0.0.1:8000/v1", train, heldout)  # doctest: +SKIP
    >>> found.came_out().texts.upper  # doctest: +SKIP
    0.036
    """
    check_confidence(confidence, "sample")
    cure = "give a number, such as 100"
    drawn = whole_number(samples, "samples", at_least=1, cure=cure)
    share = real_number(near, "near", above=0, cure="give a share of words, such as 0.8")
    if share > 1:
        raise InputError(
            f"near={brief(near)} is more than 1", cure="give a share of words, such as 0.8"
        )
    if temperature != 0:
        real_number(temperature, "temperature", above=0, cure="give 0 or more; 1 is usual")
    elif drawn > 1:
        raise InputError(
            f"{drawn} samples at temperature 0 would all be the same text",
            cure="give samples=1, or a temperature above 0",
            where="samples",
        )
    if (texts is None) == (canaries is None):
        which = "neither was" if texts is None else "both were"
        raise InputError(
            f"needs texts=... or canaries=..., and {which} given",
            cure="give one: the training texts, or the canary set that was injected",
        )
    if canaries is not None:
        if controls is not None:
            problem = "controls are given, and a canary set brings its own"
            raise InputError(problem, cure="leave the controls out", where="controls")
        cuts = planted(canaries)
    else:
        given = {"texts": texts, "controls": controls}
        cuts = {
            kind: passages(kind, some, prefix, suffix)
            for kind, some in given.items()
            if some is not None
        }
        refuse_overlap(cuts)
    targets = [target for cut in cuts.values() for target in cut.targets]
    endpoint = Endpoint(server) if isinstance(server, str) and is_url(server) else server
    if not isinstance(endpoint, Endpoint):
        raise InputError(
            "only a server can be sampled",
            cure="give its address, as in http://host:8000/v1; a model that runs here gives exact "
            "numbers without samples: canary verbatim",
            where=brief(server),
        )
    prompts = list(dict.fromkeys(target.prompt for target in targets))
    if endpoint.say is not None:
        endpoint.say(f"{plural(drawn * len(prompts), 'request')}, one for each sample")
    writer = Writer(endpoint, temperature=temperature, chat=chat)
    settings = {
        "samples": drawn, "temperature": temperature, "chat": chat, "prefix": prefix,
        "suffix": suffix, "near": share, "max_tokens": max_tokens, "seed": seed,
    }  # fmt: skip
    plan = _Plan(prompts, targets, drawn, share, seed, max_tokens)
    with ExitStack() as held:
        series = None
        if parts is not None:
            looked_for = digest([[t.kind, t.prompt, t.suffix] for t in targets])
            identity = {"task": "samples", "server": endpoint.base, "model": writer.name}
            run = open_run(parts, {**identity, **settings, "targets": looked_for})
            series = held.enter_context(run).series("samples")
        advance = stage(progress, "samples", plan.requests, "requests")
        tally = _tally(plan, writer, series, advance, at_once=endpoint.in_flight)
    if tally["cut"] > sum(tally[f"hit {number}"] for number in range(len(targets))):
        again = "" if parts is None else ", and remove the folder of finished pieces"
        raise ServerError(
            f"ended {tally['cut']:,} of {plural(plan.requests, 'answer')} at the limit of tokens, "
            "in the middle of what was looked for",
            cure=f"give more with --max-tokens{again}",
            where=endpoint.base,
        )
    found = {kind: _sought(kind, cut, targets, tally) for kind, cut in cuts.items()}
    return Sampled(
        texts=found["texts"],
        controls=found.get("controls"),
        samples=drawn,
        near=share,
        cut=tally["cut"],
        chance=None if canaries is None else _chance(canaries, found["texts"], prompts, tally),
        confidence=confidence,
        model={"name": writer.name, "answered as": writer.answered, "server": endpoint.base},
        settings=settings | ({"natural": True} if canaries and canaries.natural else {}),
    )


@dataclass(frozen=True, eq=False)
class _Plan:
    """All requests of a run; prompts take turns."""

    prompts: list[str]
    targets: list[Target]
    drawn: int
    near: float
    seed: int
    max_tokens: int | None

    @property
    def requests(self) -> int:
        return self.drawn * len(self.prompts)

    @cached_property
    def behind(self) -> dict[str, list[tuple[int, Target]]]:
        """The targets behind each prompt, with their numbers."""
        found: dict[str, list[tuple[int, Target]]] = {prompt: [] for prompt in self.prompts}
        for number, target in enumerate(self.targets):
            found[target.prompt].append((number, target))
        return found

    def counts(self, writer: Writer, request: int) -> dict[str, int]:
        """What the answer to one request adds."""
        number = request % len(self.prompts)
        prompt = self.prompts[number]
        sought = self.behind[prompt]
        tokens = self.max_tokens or max(_tokens(t.suffix) for _, t in sought) + _ROOM
        seed = (self.seed * _STEP + request) % 2**31
        answer = writer.write(prompt, seed=seed, tokens=tokens)
        return _counted(answer, f"length {number}", sought, self.near)


def _tokens(suffix: str) -> int:
    """Tokens that this may take at most, roughly: digits and signs one each, letters half."""
    letters = sum(map(str.isalpha, suffix))
    return -(-letters // 2) + len(suffix) - letters


def _tally(
    plan: _Plan, writer: Writer, series: Series | None, advance: Advance, *, at_once: int
) -> Counter[str]:
    """How often each target came out, and how long the answers were; piece by piece."""
    total, tally = plan.requests, Counter[str]()
    blocks = [range(at, min(at + _BLOCK, total)) for at in range(0, total, _BLOCK)]
    earlier = [] if series is None else list(series)
    for shard in earlier:
        tally.update(shard.state["counts"])
        advance(shard.state["requests"])
    for block in blocks[len(earlier) :]:
        counts = Counter[str]()
        for _, future in in_parallel(partial(plan.counts, writer), block, at_once=at_once):
            counts.update(future.result())
        if series is not None:
            series.append({"requests": len(block), "counts": dict(counts)}, b"")
        tally.update(counts)
        advance(len(block))
    return tally


def _counted(
    answer: Written, length: str, sought: Iterable[tuple[int, Target]], near: float
) -> dict[str, int]:
    """What one answer adds: its length, under that name, and the targets that are in it."""
    counts = {length: max(len(answer.text), 1)}
    words = answer.text.split()
    for number, target in sought:
        whole = target.suffix in answer.text
        if whole:
            counts[f"hit {number}"] = 1
        if whole or repeated(words, target.suffix.split()) >= near:
            counts[f"near {number}"] = 1
        elif answer.cut and answer.text and target.suffix.startswith(answer.text):
            counts["cut"] = 1
    return counts


def _sought(kind: str, cut: Cut, targets: Sequence[Target], tally: Counter[str]) -> Sought:
    numbers = [number for number, target in enumerate(targets) if target.kind == kind]
    named = bool(cut.targets[0].name)
    return Sought(
        documents=cut.documents,
        short=cut.short,
        digest=cut.digest,
        document=tuple(target.document for target in cut.targets),
        position=tuple(target.position for target in cut.targets),
        hits=tuple(tally[f"hit {number}"] for number in numbers),
        near=tuple(tally[f"near {number}"] for number in numbers),
        copies=tuple(target.copies for target in cut.targets) if named else (),
        names=tuple(target.name for target in cut.targets) if named else (),
    )


def _chance(
    canaries: CanarySet, found: Sought, prompts: Sequence[str], tally: Counter[str]
) -> Chance | None:
    """What chance would give; None where several secrets may begin at one place of an answer."""
    from scipy.stats import binom

    if canaries.natural or not all(f.automaton.prefix_free_before("") for f in canaries.formats):
        return None
    guesses = {prompt: tally[f"length {at}"] for at, prompt in enumerate(prompts)}
    shares = [guesses.get(space.prefix.rstrip(), 0) / space.size for space in canaries.formats]
    share = min(max(shares), 1.0)
    hits = sum(count > 0 for count in found.hits)
    return Chance(share, float(binom.sf(hits - 1, len(found), share)))

"""What comes out of a server that only writes text, by sampling what it writes after prefixes."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np

from canary.corpus.canaries import CanarySet
from canary.errors import InputError, ServerError
from canary.models.served.endpoint import Endpoint, is_url
from canary.models.served.writer import CHECKS, Writer
from canary.passages.likeness import likeness
from canary.passages.sample_plan import Plan
from canary.passages.sampled import Chance, Sampled, Sought
from canary.passages.targets import (
    Cut,
    Target,
    characters,
    digest,
    passages,
    planted,
    refuse_overlap,
)
from canary.records.progress import Advance, Progress, shows_progress, stage
from canary.records.sealing import sealed
from canary.records.shards import Series, finished_pieces, open_run
from canary.records.validation import brief, real_number, whole_number
from canary.statistics.number_checks import check_confidence
from canary.statistics.numbers import count, plural

_BLOCK = 64  # requests between two pieces that are kept
_LOOKS = 6  # numbers of samples at which a run may stop: all, and each half of the next


@sealed
@shows_progress
def sample(
    server: str | Endpoint,
    texts: Iterable[str] | Mapping[str, str] | None = None,
    controls: Iterable[str] | Mapping[str, str] | None = None,
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
    max_extractable: float | None = None,
    seed: int = 0,
    parts: str | os.PathLike[str] | None = None,
    progress: Progress = None,
) -> Sampled:
    """Whether a server writes passages of texts, or planted secrets, when it is given a prefix.

    For servers that return text only. Where log-probabilities can be had, `canary.audit`
    shows more with its requests.

    Parameters
    ----------
    server : str or Endpoint
        Address of an OpenAI-compatible server.
    texts, controls : iterable of str or dict, optional
        Documents that the model was trained on, and others of the same kind that it was not.
    canaries : CanarySet, optional
        Planted secrets, instead of `texts`, and controls. What the format has before its first
        hole is the prefix, without what training put before a text.
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
        The share of a suffix's words, in runs of 5 or more in order, that is nearly repeated.
    max_tokens : int, optional
        Longest answer. Unless given, a token for each byte of the suffix and a few more.
    confidence : float
    max_extractable : float, optional
        Stop as soon as `canary.check` with this limit would certainly not pass. The run looks at
        `samples`, a half, a quarter and so on to 1 in 32, and intervals and p-values allow for all
        looks. A pass takes all samples.
    seed : int
        Of the samples, where the server takes one.
    parts : path-like, optional
        A folder for finished pieces: counts, no text. A run that was stopped resumes there.
    progress : callable or bool, optional
        Called with requests; see `canary.records.progress.Progress`.

    Raises
    ------
    InputError
        If an option is out of range, neither or both of `texts` and `canaries` are given, no text
        has a passage, a format has no text before its first hole, or a limit is given and nothing
        could exceed it: natural secrets, or texts without controls.
    ServerError
        If the server fails, does not draw anew each time, begins with answers in which
        nothing can come out, ends most too early, or serves another model than at the beginning.
    RecordError
        If the run in `parts` was begun with other texts, settings or another server.

    Notes
    -----
    One request for each sample and prefix: ``samples`` for all secrets of one format or for each
    passage. A suffix counts wherever it is in an answer, also as `targets.reformed` gives it. With
    `canaries`, each place of an answer at which a secret may begin counts as a guess. A model that
    never read the secrets therefore has at most that chance [1]_.

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
    drawn, share = _checked(samples, near, temperature)
    if (texts is None) == (canaries is None):
        which = "neither was" if texts is None else "both were"
        raise InputError(
            f"needs texts=... or canaries=..., and {which} given",
            cure="give one: the training texts, or the canary set that was injected",
        )
    limit = _limit(max_extractable, canaries, controls)
    if canaries is not None:
        if controls is not None:
            problem = "controls are given, and a canary set brings its own"
            raise InputError(problem, cure="leave the controls out", where="controls")
        cuts = planted(canaries)
    else:
        given = [("texts", texts), ("controls", controls)]
        cuts = {k: passages(k, some, prefix, suffix) for k, some in given if some is not None}
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
    np.random.default_rng(0).shuffle(prompts)  # so that the first answers are like all
    looks = sorted({-(-drawn // 2**at) for at in range(1 if limit is None else _LOOKS)})
    looked_for = [[t.kind, t.prompt, t.suffix] for t in targets]
    key = bytes.fromhex(digest(["answers", *looked_for]))
    plan = Plan(
        *(prompts, targets, looks, share, seed, max_tokens, key, confidence),
        formats={} if canaries is None else {f.prefix.rstrip(): f for f in canaries.formats},
    )
    _announce(endpoint, plan, 0 if parts is None else finished_pieces(Path(parts)))
    began, writer = time.perf_counter(), Writer(endpoint, temperature=temperature, chat=chat)
    settings = {
        "samples": drawn, "temperature": temperature, "chat": chat, "prefix": prefix,
        "suffix": suffix, "near": share, "max_tokens": max_tokens, "seed": seed,
    } | ({} if limit is None else {"max_extractable": limit})  # fmt: skip

    def made(samples: int, tally: Counter[str]) -> Sampled:
        found = {kind: _sought(kind, cut, targets, tally) for kind, cut in cuts.items()}
        chance = None if canaries is None else _chance(canaries, found["texts"], prompts, tally)
        if chance is not None:
            chance = replace(chance, p_value=min(len(looks) * chance.p_value, 1.0))
        return Sampled(
            texts=found["texts"],
            controls=found.get("controls"),
            samples=samples,
            near=share,
            cut=tally["cut"], reformed=tally["reformed"],
            disguised=plan.disguised(tally, None if chance is None else chance.share),
            chance=chance,
            confidence=confidence,
            model={
                "name": writer.name,
                "answered as": writer.answered,
                "server": endpoint.base,
                "repeats": writer.repeats,
                "requests": tally["requests"],
                "prompt_tokens": tally["prompt tokens"],
            } | ({"forces": True} if writer.forces else {}) | endpoint.ledger.told(),
            settings=settings | ({"natural": True} if canaries and canaries.natural else {}),
            looks=len(looks),
            answers=plan.answers(tally, samples * len(prompts)),
            prompts=len(prompts),
            unplanted=plan.unplanted(tally, samples),
            forms={} if canaries is None or len(canaries.formats) < 2 else {
                form.masked: tuple(c.id for c in canaries if c.format == at)
                for at, form in enumerate(canaries.formats)
            },
            seconds=time.perf_counter() - began,
        )  # fmt: skip

    with ExitStack() as held:
        held.callback(writer.say_throttled)
        series = None
        if parts is not None:
            identity = {"task": "samples", "server": endpoint.base, "model": writer.name}
            sought = identity | settings | {"targets": digest(looked_for)}
            run = open_run(parts, sought, layout=11)
            series = held.enter_context(run).series("samples")
        writer.recognize(series[0].state["likeliest"] if series else None)
        advance = stage(progress, "samples", plan.requests, "requests")
        looked = _looked(plan, writer, series, advance, endpoint)
        *_, (result, tally) = _until_certain(((made(*look), look[1]) for look in looked), limit)
    for problem, cure in plan.cut(tally, result.samples * len(prompts)):
        again = "" if parts is None else f", and remove the finished pieces ({parts})"
        raise ServerError(problem, cure=f"{cure}{again}", where=endpoint.base)
    if canaries is not None:
        return result
    alike = likeness({k: c.documents for k, c in cuts.items()}, capitals=bool(tally["capitals"]))
    return replace(result, likeness=alike)


def _until_certain(
    looks: Iterable[tuple[Sampled, Counter[str]]], limit: float | None
) -> Iterator[tuple[Sampled, Counter[str]]]:
    """Results and counts of one look after the other, to the first that exceeds the limit."""
    for result, tally in looks:
        yield result, tally
        if limit is not None and result.exceeds(limit):
            return


def _checked(samples: int, near: float, temperature: float) -> tuple[int, float]:
    """The number of samples and the share of words, if they make sense together."""
    drawn = whole_number(samples, "samples", at_least=1, cure="give a number, such as 100")
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
    return drawn, share


def _limit(
    given: float | None, canaries: CanarySet | None, controls: Iterable[str] | None
) -> float | None:
    """A limit that something could exceed."""
    if given is None:
        return None
    limit = real_number(given, "max_extractable", above=0, cure="give a share, such as 0.01")
    if limit >= 1:
        raise InputError(
            f"max_extractable={brief(given)} is no share below 1",
            cure="give a share, such as 0.01",
        )
    if (canaries is None and controls is None) or (canaries is not None and canaries.natural):
        lacking = "controls" if canaries is None else "secrets that were drawn at random"
        raise InputError(
            f"a limit was given without {lacking}, so nothing could ever exceed it",
            cure="leave the limit out"
            if canaries is not None
            else "give texts from the same source that the model never saw as controls",
            where="max_extractable",
        )
    return limit


def _announce(endpoint: Endpoint, plan: Plan, pieces: int) -> None:
    """Say how many requests are to come; an InputError if fewer are allowed than are sure."""
    looks, prompts = plan.looks, len(plan.prompts)
    checks = [CHECKS - 1 + -(-samples * prompts // _BLOCK) for samples in looks]
    if endpoint.say is not None:
        most = "" if len(looks) == 1 else "at most "
        endpoint.say(
            f"{most}{plural(looks[-1] * prompts, 'request')}, one for each sample, and about "
            f"{checks[-1] + 1} for checks of the server. {plan.extent}"
        )
    least = 1 + max(looks[0] * prompts - pieces * _BLOCK, 0) + (0 if pieces else checks[0])
    limit, option = endpoint.most
    if limit is not None and limit < least:
        raise InputError(
            f"at least {plural(least, 'request')} are needed in this run, checks of the server "
            f"included, and {count(limit)} allowed",
            cure=f"give {option} {least} or more, or take fewer samples",
            where=endpoint.base,
        )


def _looked(
    plan: Plan, writer: Writer, series: Series | None, advance: Advance, endpoint: Endpoint
) -> Iterator[tuple[int, Counter[str]]]:
    """At each look the samples, and how often each target came out and how long answers were.

    All prompts have as many samples at a look, so that texts and controls had the same chances. A
    run that begins with answers in which nothing can come out is stopped, but not when resumed.
    """
    tally, done, sent = Counter[str](), 0, Counter[str]()

    def keep(counts: Counter[str], answered: Sequence[int]) -> None:
        nonlocal sent
        now = Counter({"requests": writer.sent, "prompt tokens": writer.tokens})
        counts.update(now - sent)
        sent = now
        if series is not None:
            state = {"counts": dict(counts), "answered": answered, "likeliest": writer.likeliest}
            series.append(state)

    known = [] if series is None else list(series)
    earlier, at_once = iter(known), endpoint.in_flight
    for samples in plan.looks:
        end = samples * len(plan.prompts)
        for at in range(done, end, _BLOCK):
            stop = min(at + _BLOCK, end)
            todo = list(range(at, stop))
            while todo:  # a run that was stopped has a part of a block
                if (shard := next(earlier, None)) is not None:
                    counts = Counter[str](shard.state["counts"])
                    answered = shard.state["answered"]
                else:
                    counts, answered = plan.asked(writer, todo, at_once, at // _BLOCK, keep), todo
                tally.update(counts)
                advance(len(answered))
                todo = sorted({*todo}.difference(answered))
            blocks = stop // _BLOCK
            if blocks and not blocks & (blocks - 1) and not known and stop < plan.requests:
                _refuse_useless(
                    plan, tally, stop, endpoint, None if series is None else series.folder
                )
        done = end
        yield samples, tally


def _refuse_useless(
    plan: Plan, tally: Counter[str], done: int, endpoint: Endpoint, kept: Path | None
) -> None:
    """Stop a run if what came is plainly such that nothing can come out of the rest either."""
    for problem, cure in plan.useless(tally, done):
        anew = f". First remove the finished pieces ({kept}), then run the changed command. "
        anew += "While they are there, it goes on with these answers as they are"
        raise ServerError(
            f"{problem}, so this run stopped after {count(done)} of "
            f"{plural(plan.requests, 'request')}",
            cure=cure + (anew if kept else ""),
            where=endpoint.base,
        )


def _sought(kind: str, cut: Cut, targets: Sequence[Target], tally: Counter[str]) -> Sought:
    most = Counter[int]()
    for name in tally:
        if name.startswith("recalled "):
            _, number, found = name.split()
            most[int(number)] = max(most[int(number)], int(found))
    named = bool(cut.targets[0].name)
    numbers = [number for number, target in enumerate(targets) if target.kind == kind]
    return Sought(
        documents=len(cut.documents),
        short=len(cut.short),
        first_short=cut.short[:5],
        ids=cut.ids,
        digest=cut.digest,
        document=tuple(target.document for target in cut.targets),
        position=tuple(target.position for target in cut.targets),
        hits=tuple(tally[f"hit {number}"] for number in numbers),
        near=tuple(tally[f"near {number}"] for number in numbers),
        copies=tuple(target.copies for target in cut.targets if named),
        names=tuple(target.name for target in cut.targets if named),
        characters=tuple(characters(t.suffix.split()) for t in cut.targets if not named),
        recalled=() if named else tuple(most[number] for number in numbers),
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

"""What makes the numbers of a way of training doubtful: its models, and what its audits note."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from canary.audits.audit_result import combined_p, noted
from canary.audits.by_rank import can_rank
from canary.gate.preconditions import unread
from canary.models.english import reads_no_english
from canary.models.examining import shifted
from canary.records.validation import brief
from canary.reports.comparison import GUESSING, Strategy, worse_than_guessing
from canary.reports.limits import planting
from canary.reports.seeds_alike import COPIES, Alike, alike_in, same_prices
from canary.reports.seeds_cells import Cell, listed, loss_ends
from canary.reports.sentences import answer
from canary.statistics.learned_parts import SHOWN_LEARNED
from canary.statistics.number_checks import LN2
from canary.statistics.numbers import count, plural
from canary.statistics.welch import difference_of

_NUMBERS = re.compile(r"[\d.,]+")
_OTHER_UNIT = 0.1  # how near to 1 / ln 2 the ratio of two losses is, as where one is in bits


def unfit_in(groups: Sequence[Sequence[Strategy]]) -> str:
    """Which audit no ranking may rest on, and why; empty if there is none."""
    every = [one for group in groups for one in group]
    for one, other in combinations(every, 2):
        if same_prices(one, other):
            return (
                f"{brief(one.label)} and {brief(other.label)} score all canaries alike, as copies "
                "of one model do"
            )
    for found in alike_in(groups).values():
        if found.correlation >= COPIES:
            return (
                f"{brief(found.one.label)} and {brief(found.other.label)} agree on controls as "
                f"copies of one model do (correlation {found.correlation:.4f})"
            )
    for one in every:
        if answer(one.audit, audits=len(every)).verdict == "suspect":
            return f"controls look learned in {brief(one.label)}, so that audit is suspect"
        if shifted(one.audit.notes):
            return f"the logits of {brief(one.label)} are probably shifted twice: run canary doctor"
    return ""


def unread_of(group: Sequence[Strategy]) -> str:
    """That nothing shows that models of a group read their secrets; empty if all did."""
    found = [(one, p) for one in group if (p := _unread_p(one)) is not None]
    if not found:
        return ""
    most = max(c.repetitions for c in found[0][0].audit.injected)
    told = unread(most, min(p for _, p in found))
    return f"in {_seeds([one for one, _ in found], group)} {told}"


def _unread_p(one: Strategy) -> float | None:
    """The p-value of the canaries with the most copies, where not even these look learned."""
    audit = one.audit
    kind, found = planting(audit), answer(audit).verdict
    if kind not in ("unknown", "shown") or found == "memorized":
        return None
    test = combined_p(audit.by_repetitions()[max(c.repetitions for c in audit.injected)])
    p = 1.0 if test is None else test.p_value
    return p if p > SHOWN_LEARNED else None


def notes_of(labels: Sequence[str], groups: Sequence[Sequence[Strategy]]) -> Iterator[str]:
    """What the reader of a comparison must know of each group, each note said once."""
    alike = alike_in(groups)
    for at, (label, group) in enumerate(zip(labels, groups, strict=True)):
        if at in alike:
            yield f"{brief(label)}: {_of_one_training(alike[at], group)}"
        if guessing := [one for one in group if worse_than_guessing(one)]:
            yield f"{brief(label)}, {_seeds(guessing, group)}: the loss on new text {GUESSING}"
        if told := unread_of(group):
            yield f"{brief(label)}: {told}"
        found: dict[str, tuple[str, list[Strategy]]] = {}
        for one in group:
            audit = one.audit
            learned = planting(audit) == "shown"
            start = audit.start.notes[-1:] if audit.start and audit.start.rivals else ()  # of those
            for note in dict.fromkeys((*start, *noted(audit.formats))):
                if not (learned and reads_no_english([note])):
                    key = _NUMBERS.sub("", note)  # its numbers may differ
                    found.setdefault(key, (note, []))[1].append(one)
        for note, some in found.values():
            where = "" if len(some) == len(group) else f", {_seeds(some, group)}"
            yield f"{brief(label)}{where}: {note}"


def price_of(
    least: Sequence[str], losses: Mapping[str, Sequence[float]], level: float
) -> Iterator[str]:
    """That the one least exposed group is clearly worse on new text than another."""
    if len(least) != 1 or len(losses) < 2:
        return
    label, gap = max(
        (
            (other, difference_of(losses[least[0]], values, level))
            for other, values in losses.items()
            if other != least[0]
        ),
        key=lambda of: of[1].value,
    )
    if gap.lower is None or gap.lower <= 0:
        return
    more = f"{gap.value:.3f} nats per token ({loss_ends(gap)})"
    yield (
        f"{brief(least[0])} memorizes less, but its loss on new text is higher than that of "
        f"{brief(label)}, by {more}. A model that learned less of everything memorizes less, too; "
        "compare them where both have the same loss"
    )


def units_of(losses: Mapping[str, Sequence[float]]) -> Iterator[str]:
    """The pairs of groups whose losses are as far apart as bits and nats are."""
    means = {label: statistics.fmean(values) for label, values in losses.items()}
    for less, more in combinations(sorted(means, key=means.__getitem__), 2):
        ratio = means[more] / means[less] if means[less] > 0.0 else 0.0
        if abs(ratio * LN2 - 1.0) <= _OTHER_UNIT:
            yield (
                f"the loss on new text of {brief(more)} is {ratio:.2f} times that of "
                f"{brief(less)}, and one nat is {1 / LN2:.2f} bits: make sure that both are in "
                "nats per token"
            )


def open_in(cells: Sequence[Cell], groups: Sequence[Sequence[Strategy]]) -> Iterator[str]:
    """Which medians draws leave open, and what would measure them."""
    numbers = {cell.repetitions: None for cell in cells if cell.repetitions and cell.bounded}
    models = [one.audit.model for group in groups for one in group]
    if numbers and all(one.audit.formats[0].draws for group in groups for one in group):
        ranks = "exact ranks (method rank) or " if all(map(can_rank, models)) else ""
        yield (
            f"medians with {listed([*map(count, numbers)])} copies are only lower bounds, since "
            "few draws or none are as likely as these canaries: audit all models with "
            f"{ranks}more draws"
        )


def _of_one_training(found: Alike, group: Sequence[Strategy]) -> str:
    """That two seeds go together as copies or checkpoints do, and when that is no matter."""
    apart = (
        ". If each was trained apart, as where each group is fine-tuned from a model of its own, "
        "the comparison holds"
    )
    return (
        f"the log-perplexities of controls of {listed(_places([found.one, found.other], group))} "
        f"have a correlation of {found.correlation:.3f} ({found.between:.2f} at most between "
        "groups). Copies and checkpoints of one training look like this: they are one seed, so "
        f"give one of them{apart * (found.correlation < COPIES)}"
    )


def _seeds(some: Sequence[Strategy], group: Sequence[Strategy]) -> str:
    """``1 of 3 seeds (seed 2)``, or its file; of all no names."""
    told = f"{len(some)} of {plural(len(group), 'seed')}"
    if len(some) == len(group):
        return told
    return f"{told} ({listed(_places(some, group))})"


def _places(some: Sequence[Strategy], group: Sequence[Strategy]) -> list[str]:
    return [one.audit.file or f"seed {group.index(one) + 1}" for one in some]

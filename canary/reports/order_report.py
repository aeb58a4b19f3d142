"""The report of an order test, and its figure."""

from __future__ import annotations

from collections.abc import Iterator

from canary.membership.order_result import LEVEL, Order, Preference
from canary.reports.builders import PlotOptions, figure_of, report_of, section, sections_of
from canary.reports.document import (
    Axis,
    Block,
    Facts,
    Figure,
    Panel,
    Report,
    Table,
    basis,
    mark,
    said,
    sentence,
)
from canary.reports.palette import CONTROL, CURVE, dots
from canary.reports.wording import about_of, called, ended, run_blocks
from canary.statistics.numbers import count, odds, probability

_RANDOM = "the order of the test set was drawn at random"


@report_of.register
def order_report(result: Order) -> Report:
    """What there is to say about a test set and a model that may have read it."""
    outcome, found = result.outcome, result.preference
    label, tone = {
        "seen": ("The model was trained on this test set", "memorized"),
        "void": ("Undecided: the order of the test set is not random", "undecided"),
        "undecided": ("Undecided: nothing shows that the model read this test set", "undecided"),
    }[outcome]
    kinds = {outcome: True}
    return Report(
        title=f"Has {called(result.model_name)} read this test set?",
        label=label,
        tone=tone,
        sentences=[
            sentence(
                f"order.{outcome}",
                shards=count(len(found.by_shard)),
                odds=odds(found.p) if found.p <= LEVEL else "",
                p=probability(found.p),
                alarms="; ".join(result.alarms),
            )
        ],
        basis="" if outcome == "void" else basis("unchecked", _RANDOM, "this result"),
        decide=said("order.decide", **kinds),
        actions=said("order.actions", **kinds),
        about={
            **about_of(result, corpus="Test set"),
            "Texts": count(result.texts),
        },
        outcome=[order_figure(result)],
        unsaid=said("order.unsaid") if outcome != "seen" else said("order.unsaid")[1:],
        notes=ended(result.notes[len(result.alarms) :] if outcome == "void" else result.notes),
        sections=sections_of(result),
    )


def _compared(result: Order) -> Table:
    named: dict[str, Preference | None] = {
        "the model": result.preference,
        "the reference model": result.reference,
    }
    rows = [
        [name, f"{one.gain:+.3f} nats", f"±{one.spread:.3f} nats", probability(one.p)]
        for name, one in named.items()
        if one is not None
    ]
    rows += [
        [f"alike in {name}", "", "", probability(p)] for name, p in result.without_model.items()
    ]
    return Table(
        "How much better neighbours fit than in shuffled orders",
        ["By", "Mean of a text", "Chance", "p"],
        rows,
    )


@section(Order, "What was compared")
def compared(result: Order) -> Iterator[Block]:
    """The model, the reference, and what is seen without any."""
    yield _compared(result)


@section(Order, "How it was measured", specialist=True)
def how(result: Order) -> Iterator[Block]:
    """The test, its cost and the settings."""
    yield from said(
        "order.method",
        before=result.before,
        after=result.after,
        orders=result.preference.shuffles + 1,
    )
    yield Facts({
        "Tokens computed": count(result.tokens),
        "SHA-256 of the texts": result.digest,
    })  # fmt: skip
    yield from run_blocks(result.model, result.settings)


@figure_of.register
def order_figure(result: Order, _: PlotOptions | None = None) -> Figure:
    """How much better the order of the file fits, group by group."""
    found = result.preference
    band = 1.96 * found.spread
    places = list(range(1, len(found.by_shard) + 1))
    step = -(-len(places) // 8)
    return Figure(
        "order",
        f"Texts are {found.gain:+.3f} nats more probable in the order of the file in the mean; "
        f"chance gives ±{band:.3f}.",
        [
            Panel(
                [
                    mark("axhspan", -band, band, color=CONTROL, alpha=0.25, linewidth=0),
                    dots(places, list(found.by_shard), 16, CURVE, label=""),
                    mark("axhline", found.gain, color=CURVE, linewidth=1, label="mean"),
                ],
                Axis("group of neighbouring texts", ticks={n: str(n) for n in places[::step]}),
                Axis("nats gained by the order of the file"),
            )
        ],
        sentence("order.picture"),
        _compared(result),
    )

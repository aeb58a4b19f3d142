"""The history of a training as a page and as a figure."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

import numpy as np
import pytest
from histories import SPACE, make_history
from html_pages import Page, check_page, render
from matplotlib.figure import Figure

import canary
from canary.audits.history import AT_THE_END, History
from canary.errors import InputError
from canary.reports import drawing
from canary.reports.builders import PlotOptions, figure_of, report_of
from canary.reports.drawing import draw_on
from canary.reports.histories_figure import histories_of
from canary.reports.history_answer import answer_of
from canary.reports.history_lines import group_lines
from canary.reports.history_report import history_figure
from canary.reports.sentences import guesses_of
from canary.statistics.exposures import exposure_by_draws
from canary.statistics.numbers import count

pytestmark = pytest.mark.usefixtures("plain")

DRAWS = np.arange(400) + 1.5


def words_of(history):
    return Page(render(history)).text("style")


def test_the_page_says_what_was_found_and_what_it_took():
    text = words_of(make_history(stopped_at=60, broken=(2,)))
    # No draw of 400: with 97.5 % confidence a share below 1 - 0.025^(1/400), 1 in 108.9.
    assert (
        "At step 60, the typical secret that appeared 16 times took at most 9,180 of 1,000,000 "
        "guesses, and perhaps far fewer (by chance 500,000)."
    ) in text
    assert "Limit at least 15,625 guesses of 1,000,000 for the typical secret" in text
    assert "Last step within the limit none At each step that was measured" in text
    assert "Last step within the limit step 40" in words_of(make_history(stopped_at=60, late=4))
    assert "passed" not in text
    assert "measured 6 times" not in text
    assert "5 times, of 8 steps that were asked for; 2 left out to save time and 1 failed" in text
    assert "Time that measuring took 4.5 s beside 100.0 s of training (4.5 %)" in text
    assert "At step 20 nothing could be measured: the model 'net' gives" in text
    assert "Most of the training's time 5 %" in text


def test_every_name_of_the_narrow_figure_is_within_it():
    history = make_history()
    more = tuple(
        replace(c, repetitions=64 * (1 + at % 4)) if c.repetitions else c
        for at, c in enumerate(history.canaries)
    )
    for losses in (history.losses, ()):
        made = history_figure(replace(history, canaries=more, losses=losses), 0)
        with drawing._canvas(made, drawing._NARROW) as figure:
            axes = figure.subplots()
            draw_on(axes, made, wide=False)
            figure.draw_without_rendering()
            main = next((part for part in axes.child_axes if part.get_legend()), axes)
            box = main.get_legend().get_window_extent()
            assert len(main.get_legend().get_texts()) == 7
            assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
            assert box.y1 <= figure.bbox.y1


def test_the_axis_ends_where_the_draws_do_and_the_limit_is_drawn():
    # 400 draws can estimate 8.6 bits, of the 19.9 that there are.
    figure = history_figure(make_history(stopped_at=60, late=4), 0)
    assert 8.6 < figure.panels[0].y.limits[1] < 10.0
    limits = [
        one.data
        for one in figure.panels[0].marks
        if one.style.get("label") == "limit: 15,625 guesses or more"
    ]
    assert limits == [(6.0,)]
    y = history_figure(make_history(), 0, skew_normal=True).panels[0].y
    assert y.limits[1] > 19.9
    assert y.label == "skew-normal estimate of exposure (bits)"


def test_numbers_of_the_table_are_those_of_the_lines():
    history = make_history()
    text = words_of(history)
    assert "Step Epoch Loss controls (guesses) 1 copy (guesses) 16 copies (guesses)" in text
    line = group_lines(history, 0)[2]
    assert (line.copies, line.steps) == (16, (10, 20, 30, 40, 50, 60))
    assert line.bounds[-1]
    assert not line.bounds[0]
    assert f"60 1.50 {4.0 / 12:.4g}" in text
    assert f"≤ {guesses_of(math.log2(SPACE) - line.medians[-1]):,}" in text
    unknown = replace(history, moments=tuple(replace(m, epoch=None) for m in history.moments))
    assert "Step Loss controls" in words_of(unknown)
    off_the_curve = group_lines(history, 0, skew_normal=True)[2]
    assert off_the_curve.medians[-1] > line.medians[-1]
    assert off_the_curve.most[-1] >= off_the_curve.medians[-1] >= off_the_curve.least[-1]


def test_bounds_are_drawn_where_the_table_has_them():
    line = group_lines(history := make_history(), 0)[2]
    marks = history_figure(history, 0).panels[0].marks
    open_ended = [m.data for m in marks if m.call == "vlines"]
    # A bound is certain from the median of the lower ends on; its diamond is at the estimate.
    assert open_ended[-1][1][-1] == line.medians[-1] < line.heights[-1]


def test_a_step_within_a_weak_limit_is_not_within_the_strict_one():
    history = make_history(stopped_at=60, late=3)
    made = report_of(replace(history, settings={**history.settings, "stop_above_bits": 8.0}))
    (tile,), decide = made.tiles, " ".join(word.text for part in made.decide for word in part)
    assert "strict limit of 62,500 guesses was most likely exceeded there, too" in tile.note
    assert "a strict limit of 62,500 guesses was most likely exceeded there, too" in decide
    assert "is no way out" in decide


def test_the_dots_of_a_bound_end_where_the_interval_does():
    history = make_history()
    top = group_lines(history, 0)[2].ends[-1][1]
    assert top == math.log2(SPACE)  # not the 8.6 bits that 400 draws can estimate
    for in_bits in (False, True):
        panel = history_figure(history, 0, in_bits=in_bits).panels[0]
        assert max(end for m in panel.marks if m.call == "vlines" for end in m.data[2]) == top
        assert max([panel.y.limits[1], *(panel.y.ticks or {})]) >= top


def test_a_history_is_drawn_in_the_unit_that_is_asked_for():
    history = make_history(losses=False)
    labels = []
    for options in ({}, {"axis": "guesses"}, {"axis": "bits"}):
        axes = canary.plot(history, Figure().subplots(), **options)
        labels.append(next(iter(axes.child_axes or [axes])).get_ylabel().split()[0])
    assert labels == ["guesses", "guesses", "exposure"]
    with pytest.raises(InputError, match="skew-normal estimates are in bits"):
        canary.plot(history, axis="guesses", skew_normal=True)


def test_groups_that_are_above_all_draws_are_drawn_in_their_order():
    """A bound at 95 % below the estimate of a group with fewer copies is no fall."""
    history = make_history()
    for line in group_lines(history, 0):
        places = history.places(0)[line.copies]
        for at, (bound, height) in enumerate(zip(line.bounds, line.heights, strict=True)):
            exposures = [history.measured[at].exposures[place] for place in places]
            middle = statistics.median(e.place_bits for e in exposures)
            assert height == (pytest.approx(middle) if bound else line.medians[at])


def test_a_metric_never_falls_while_memorization_rises():
    # First estimates, then bounds: "at least 6.8 bits" comes after an estimate of 8.6.
    history = make_history(moments=8)
    moments = tuple(
        replace(moment, exposures=tuple(exposure_by_draws(px, DRAWS, space_size=SPACE)))
        for moment, px in zip(history.moments, np.linspace([6.0] * 10, 1.0, 8), strict=True)
    )
    history = replace(history, moments=moments)
    line = group_lines(history, 0)[2]
    assert sorted(line.medians) != list(line.medians)
    seen = [replace(history, moments=moments[: n + 1]).metrics() for n in range(8)]
    places = [m["canary/exposure_16_copies"] for m in seen]
    assert sorted(places) == places
    assert places[-1] == math.log2(400)
    assert [m["canary/exposure_16_copies_censored"] for m in seen][-1] == line.bounds[-1]
    assert seen[-1]["canary/exposure_16_copies_lower"] == line.medians[-1] < 7.0
    frame = history.to_frame()
    assert frame.censored.tolist() == frame.bits.isna().tolist()
    assert frame.skew_normal_bits.notna().all()


def test_the_headline_is_of_the_group_with_the_highest_lower_end():
    history = make_history()
    low, high, none = exposure_by_draws([1.9, 0.9, 300.0], DRAWS, space_size=SPACE)
    assert low.place_bits == high.place_bits > 8.0
    last = replace(
        history.moments[-1],
        exposures=tuple({16: high, 1: low, 0: none}[c.repetitions] for c in history.canaries),
    )
    text = words_of(replace(history, moments=(*history.moments[:-1], last)))
    assert "typical secret that appeared 16 times took at most 9,180 of 1,000,000" in text


def test_untrusted_text_of_a_history_is_escaped():
    history, evil = make_history(), "<script>alert(1)</script>"
    history = replace(
        history,
        model={**history.model, "name": evil},
        formats=tuple(replace(f, text=evil, masked=evil) for f in history.formats),
        settings={**history.settings, "context": evil, "every": evil},
    )
    page = Page(render(history))
    check_page(page)
    assert evil in page.text("style")
    assert evil not in str([vars(panel) for panel in history_figure(history, 0).panels])


def test_report_and_plot_refuse_what_is_for_audits_input(tmp_path):
    history = make_history()
    with pytest.raises(InputError, match="are for comparing audits"):
        canary.report(history, tmp_path / "r.html", labels=["a"])
    for options in ({"kind": "histogram"}, {"repetitions": 1}):
        with pytest.raises(InputError, match="a history has one figure"):
            canary.plot(history, **options)
    with pytest.raises(InputError, match="canary of the history has format 2"):
        canary.plot(history, format=1)


def test_the_figure_on_axes_of_ones_own():
    history, axes = make_history(marks=(1, 41), stopped_at=60), Figure().subplots()
    assert canary.plot(history, axes) is axes
    main = next(part for part in axes.child_axes if part.get_ylabel().startswith("guesses"))
    loss = next(part for part in axes.child_axes if part.get_ylabel() == "loss")
    assert loss.get_xlabel() == "training steps (40 per epoch)"
    labelled = {line.get_label(): line for line in main.get_lines()}
    drawn = labelled["16 copies"].get_ydata().tolist()
    assert drawn == list(group_lines(history, 0)[2].heights)
    assert loss.get_lines()[0].get_ydata().tolist() == [x.value for x in history.losses]
    upright = [line.get_xdata() for line in main.get_lines() if len({*line.get_xdata()}) == 1]
    assert {1.0, 41.0} <= {float(x[0]) for x in upright}


def test_the_page_says_why_a_training_was_stopped_and_what_its_batches_show():
    why = "canaries with 16 copies have a median exposure of at least 7.0 bits, above the limit"
    batches = {
        "read": 9,
        "canaries": 5,
        "after": {"<|endoftext|>": 4, "nothing": 1},
        "findings": ["canaries were seen after <b>different</b> starts"],
    }
    made = make_history(stopped_at=60, stop_reason=f"{why} of 6", batches=batches)
    assert History.from_dict(made.to_dict()) == made
    text = words_of(made)
    assert "Canaries were seen after <b>different</b> starts." in text
    assert "warning: canaries were seen after <b>different</b> starts" in made.summary()
    assert "Before each candidate came nothing. Of 5 canaries" in text
    assert "<|endoftext|> before 4, nothing before 1" in text
    reason = f"the limit was passed {AT_THE_END}, at step 60: nothing was stopped"
    text = words_of(make_history(stopped_at=60, stop_reason=reason))
    assert "easier to find than the limit allows when the training had ended, at step 60" in text
    assert "was stopped at step" not in text


def test_the_headline_says_what_was_learned_and_not_that_it_was_watched():
    learned, none = (report_of(replace(make_history(learned=some), settings={})) for some in (1, 0))
    assert learned.label == "The model is memorizing the planted secrets (no limit was set)"
    assert (learned.tone, none.tone) == ("memorized", "")
    assert none.label == "No memorization was seen in this training"
    assert "nobody has shown" in str(none.basis).lower()
    last = make_history().moments[-1]
    found = max(last.exposures, key=lambda e: e.lower_bits)
    mixed = replace(last, exposures=(found,) * len(last.exposures))
    alarm = report_of(replace(make_history(), settings={}, moments=(mixed,)))
    assert (alarm.label, alarm.tone) == ("Do not rely on this measurement", "suspect")
    unlearned = replace(make_history(learned=False), settings={})
    planned = sum(n * len(places) for n, places in unlearned.places().items())
    read, part = (replace(unlearned, batches={"canaries": n}) for n in (planned, planned - 1))
    assert "counted the planted secrets in what the model read" in str(report_of(read).basis)
    assert "this result is no all-clear" in str(report_of(part).basis)
    shown = str([learned.label, learned.sentences, learned.basis])
    assert not any(word in shown for word in ("bits", "exposure", "Watched"))


@pytest.mark.parametrize(("bits", "said"), [(None, "No memorization was"), (6.0, "Within the")])
def test_a_fault_of_the_batches_is_no_calm_headline(bits, said):
    batches = {"canaries": 6, "findings": ["a length limit or packing cuts canaries"]}
    made = replace(make_history(learned=False), settings={"stop_above_bits": bits})
    assert report_of(replace(made, batches={"canaries": 6})).tone != "undecided"
    report = report_of(replace(made, batches=batches))
    assert report.label.startswith(said)
    assert report.label.endswith("the batches of this training have a fault")
    assert (report.tone, len(report.warnings)) == ("undecided", 1)


def test_the_band_is_that_of_the_most_copies_where_groups_tie():
    history = make_history()
    found = history.moments[-1].exposures[:1] * len(history.canaries)
    tied = replace(history, moments=(replace(history.moments[-1], exposures=found),))
    (panel, *_) = history_figure(tied, 0).panels
    (band,) = (each for each in panel.marks if each.call == "fill_between")
    colours = {each.style["label"]: each.style["color"] for each in panel.marks
               if "label" in each.style}  # fmt: skip
    assert band.style["color"] == colours["16 copies"]


def test_the_first_figure_is_of_the_format_that_is_most_exposed():
    made = make_history(formats=2)
    low = made.moments[-1].exposures[0]
    found = [
        low if c.format == 0 else e
        for c, e in zip(made.canaries, made.moments[-1].exposures, strict=True)
    ]
    last = replace(made.moments[-1], exposures=tuple(found))
    report = report_of(replace(made, moments=(*made.moments[:-1], last)))
    assert [block.name for block in report.outcome if hasattr(block, "panels")] == [
        "history 1 False"
    ]
    (section,) = (s for s in report.sections if s.heading == "Exposure against training steps")
    names = [block.name for block in section.blocks if hasattr(block, "panels")]
    assert "history 0 False" in names
    assert "history 1 False" not in names


def test_memorization_that_only_an_earlier_step_shows_is_no_calm_headline():
    """As where the last checkpoint is of another training of the same shape."""
    learned, other = make_history(), make_history(learned=False, seed=1)
    assert "More was seen" not in words_of(learned)
    mixed = replace(
        learned, settings={}, moments=(*learned.moments[:-1], other.moments[-1]), losses=()
    )
    report = report_of(mixed)
    assert report.label == "Memorized at step 50, and not seen at the last step"
    assert (report.tone, report.basis) == ("undecided", "")
    text = words_of(mixed)
    assert "At step 50, they look learned: the typical secret that appeared 16 times" in text
    assert "the last measurement is of another training" in text
    assert "Make sure that every measured model is of one training" in text
    less = replace(learned.moments[0], step=60)
    half = replace(learned, settings={}, moments=(*learned.moments[:4], less))
    assert "More was seen at step 40" in words_of(half)


def test_many_measurements_alone_pick_out_no_step():
    """The level is shared by all steps of a training that learned nothing."""
    seen = [answer_of(make_history(learned=False, seed=seed, losses=False)) for seed in range(20)]
    assert not any(values["faded"] or values["more"] for _, _, values in seen)


def test_groups_are_a_frame_like_those_of_an_audit():
    history = make_history()
    frame = history.groups(confidence=0.8)
    assert [*frame.columns] == [
        *("step", "repetitions", "median_bits", "at_least_bits", "canaries"),
        *("confidence", "canaries_needed", "bound", "lower_bits", "upper_bits"),
    ]
    # A group above all draws does not look less exposed than one of which a draw was as likely.
    assert frame.bound.any()
    assert (frame.at_least_bits.notna() == frame.bound).all()
    assert (frame.median_bits[frame.bound] >= frame.median_bits[~frame.bound].max()).all()
    assert (frame.at_least_bits[frame.bound] < frame.median_bits[frame.bound]).all()
    assert len(frame) == len(history.measured) * len(history.places())
    last = frame[frame.step == history.measured[-1].step].set_index("repetitions")
    for line in group_lines(history, 0):
        assert last.median_bits[line.copies] == pytest.approx(line.heights[-1])
        if line.bounds[-1]:
            assert last.at_least_bits[line.copies] == pytest.approx(line.medians[-1])


def test_several_histories_are_drawn_together(tmp_path):
    late, early = ([make_history(late=n, seed=n + 7 * i) for i in range(3)] for n in (2, 1))
    lines = [m for m in _marks(late[:2]) if m.call == "plot"]
    assert [list(line.data[0]) for line in lines] == [[10, 20, 30, 40, 50, 60]] * 2
    axes = canary.plot({"late": late[0], "early": early[0]}, repetitions=1, axis="bits")
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names[:2] == ["late", "early"]
    assert "1 copy" in axes.get_ylabel()
    seeds = _marks({"late": late, "early": early})
    means = [m for m in seeds if m.call == "plot" and m.style["linewidth"] == 2.2]
    first = [group_lines(one, 0)[-1].medians[0] for one in late]
    assert means[0].data[1][0] == pytest.approx(statistics.fmean(first))
    assert canary.plot(late, path=tmp_path / "f.pdf", size=(3.3, 2.6)) is not None
    for wrong in (
        {"kind": "histogram"}, {"repetitions": 3}, {"labels": ["a", "a", "b"]}, {"size": (0, 3)},
    ):  # fmt: skip
        with pytest.raises(InputError):
            canary.plot(late, **wrong)
    with pytest.raises(InputError, match="cannot be drawn with the others"):
        canary.plot([late[0], make_history(formats=2)])
    with pytest.raises(InputError, match="drawn together by plot"):
        canary.report(late, tmp_path / "h.html")


def _marks(result):
    return figure_of(histories_of(result), PlotOptions()).panels[0].marks


def test_the_page_names_the_arithmetic_of_sixteen_bits():
    history = make_history()
    assert "closer than its rounding" not in words_of(history)
    coarse = replace(history, model={**history.model, "dtype": "bfloat16"})
    assert "The canaries were measured in bfloat16" in words_of(coarse)


def test_what_draws_cannot_measure_has_the_guesses_that_are_certain():
    """The box and the table have the lower end of the dotted line, where a triangle is higher."""
    history = make_history()
    line = group_lines(history, 0)[-1]
    assert [*line.certain] == [
        ends[0] if bound else median
        for median, bound, ends in zip(line.medians, line.bounds, line.ends, strict=True)
    ]
    most = count(guesses_of(math.log2(SPACE) - line.certain[-1]))
    assert f"took at most {most} of {count(SPACE)} guesses" in words_of(history)
    table = history_figure(history, 0).table
    assert table.rows[-1][-1] == f"≤ {most}"


def test_no_line_is_hidden_by_one_that_is_drawn_over_it():
    history = make_history()
    few, many = history.places()[1], history.places()[16]
    other = dict(zip(few, many, strict=True))
    moments = tuple(
        replace(m, exposures=tuple(m.exposures[other.get(i, i)] for i in range(len(m.exposures))))
        for m in history.moments
    )
    same = replace(history, moments=moments)
    for shown, broader in ((history, False), (same, True)):
        widths = {
            m.style["label"]: m.style["linewidth"]
            for m in history_figure(shown, 0).panels[0].marks
            if m.call == "plot" and "label" in m.style
        }
        assert (widths["1 copy"] > widths["16 copies"]) is broader


def with_control(*, learned, limit=None, few=False, batches=None):
    """A history whose 16 copies are its positive control; with `few`, the others are learned."""
    made = make_history(learned=learned, losses=False)
    settings = {**made.settings, "require_learned": 16, "stop_above_bits": limit}
    moments = made.moments
    if few:
        most = moments[-1].exposures[made.places()[16][0]]
        found = tuple(
            most if c.repetitions == 1 else e
            for c, e in zip(made.canaries, moments[-1].exposures, strict=True)
        )
        moments = (*moments[:-1], replace(moments[-1], exposures=found))
    return replace(made, settings=settings, moments=moments, batches=batches or {})


@pytest.mark.parametrize(
    ("limit", "label", "tone"),
    [
        (None, "No memorization was seen in this training", ""),
        (4.0, "Within the limit while training", "not-found"),
    ],
)
def test_a_positive_control_that_was_learned_leaves_the_page_calm(limit, label, tone):
    made = with_control(learned=True, limit=limit)
    report, text = report_of(made), words_of(made)
    assert (report.label, report.tone) == (label, tone)
    assert "The positive control, 3 secrets that appeared 16 times, is not part" in text
    assert "It was learned, as it should be" in text
    assert "planted secrets besides the positive control cannot be distinguished" in text
    assert "secrets that appeared 16 times were in the training data" in text
    assert "For the others it is open" in text
    assert "memorizing" not in text
    assert "16 copies: positive control (guesses)" in text
    assert "The band around the highest line besides that of the positive control" in text
    counted = replace(made, batches={"canaries": 51})
    assert "counted the planted secrets in what the model read" in words_of(counted)


@pytest.mark.parametrize("limit", [None, 4.0])
def test_a_positive_control_that_was_not_learned_makes_the_page_undecided(limit):
    for batches in ({}, {"canaries": 51}):
        made = with_control(learned=False, limit=limit, batches=batches)
        report, text = report_of(made), words_of(made)
        assert report.tone == "undecided"
        assert report.label.endswith("but the positive control was not learned")
        assert "It was not learned, so low numbers prove nothing" in text
        assert ("Nothing shows that the model read" in text) == (not batches)
        assert "Make sure that the training read the file" in text


def test_the_other_groups_are_judged_beside_a_positive_control():
    for learned in (True, False):
        report = report_of(with_control(learned=learned, few=learned))
        assert (report.tone == "memorized") is learned
    text = words_of(with_control(learned=True, few=True))
    assert "the typical secret that appeared once took at most" in text


def test_logged_maxima_leave_the_positive_control_out():
    made = make_history()
    named = replace(made, settings={**made.settings, "require_learned": 16}).main_metrics()
    every = made.main_metrics()
    apart = {"canary/exposure_max", "canary/share_above_all_draws"}
    assert all(named[name] < every[name] for name in apart)
    once = [made.moments[-1].exposures[at] for at in made.places()[1]]
    assert named["canary/exposure_max"] == max(e.place_bits for e in once)
    assert every["canary/exposure_16_copies"] == named["canary/exposure_16_copies"]


def test_several_histories_are_drawn_for_what_is_judged():
    made = [with_control(learned=True), with_control(learned=True)]
    assert "Exposure of 1 copy" in figure_of(histories_of(made), PlotOptions()).words

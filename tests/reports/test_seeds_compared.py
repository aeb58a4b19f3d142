"""Ways of training over seeds: intervals, what is ranked, the page and the figure."""

from __future__ import annotations

import math
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from drawing import figures
from gate_audits import exact
from html_pages import Page, check_page, render
from scipy.stats import t, ttest_ind

import canary
from canary.audits.audit_result import CANARY_SET
from canary.errors import InputError
from canary.reports.builders import PlotOptions, figure_of, report_of
from canary.reports.comparison import compare as side_by_side
from canary.reports.document import Figure
from canary.reports.seeds_cells import ends_of
from canary.reports.seeds_compared import compare
from canary.scoring.start_notes import RivalStart, StartChoice
from canary.statistics.welch import Estimated, difference_of, mean_of


def seeds(name, medians, *, copies=(1, 4), **settings):
    """Audits whose canaries of each number of copies all have the median that is given."""
    return [
        replace(audit, settings={**audit.settings, "canaries_in_corpus": True, **settings})
        for i, row in enumerate(medians)
        for audit in [
            exact(
                {**{n: [float(x)] * 3 for n, x in zip(copies, row, strict=True)}, 0: [1.0] * 4},
                fingerprint=f"{name}{i}",
            )
        ]
    ]


def drawn(name, *means, number=5, spread=0.3, **more):
    rng = np.random.default_rng(sum(map(ord, name)))
    return seeds(name, np.abs(rng.normal(means, spread, (number, len(means)))), **more)


def test_intervals_are_those_of_scipy_oracle():
    rng = np.random.default_rng(1)
    one, other = rng.normal(5, 1, 5).tolist(), rng.normal(3, 2, 4).tolist()
    found = difference_of(one, other, 0.9)
    known = ttest_ind(one, other, equal_var=False)
    ends = known.confidence_interval(0.9)
    assert (found.lower, found.upper) == pytest.approx((ends.low, ends.high))
    assert found.p_value == pytest.approx(known.pvalue)
    mean = mean_of(one, 0.9)
    half = t.ppf(0.95, 4) * np.std(one, ddof=1) / np.sqrt(5)
    assert mean.upper - mean.value == pytest.approx(half)
    for same in ([2.0, 2.0], [2.0]):
        assert mean_of(same, 0.9).lower is None
        assert difference_of(same, same, 0.9).p_value is None


def test_the_frame_has_each_group_and_number_of_copies():
    found = canary.compare({"with": drawn("w", 2.0, 3.0), "without": drawn("o", 2.0, 8.0)})
    frame = found.means_frame()
    assert [*frame.repetitions] == [0, 0, 1, 1, 4, 4]
    assert [*frame.group] == ["with", "without"] * 3
    medians = [
        [np.median([c.exposure.bits for c in audit.by_repetitions()[4]]) for audit in group]
        for group in ([one.audit for one in some] for some in found.groups)
    ]
    ends = ttest_ind(medians[1], medians[0], equal_var=False).confidence_interval(0.9)
    last = frame.iloc[-1]
    assert last.seeds == 5
    assert last.mean_bits == pytest.approx(np.mean(medians[1]))
    assert (last.difference_lower, last.difference_upper) == pytest.approx((ends.low, ends.high))
    assert frame.difference_bits[4] != frame.difference_bits[4]  # of the first group there is none
    rows = found.to_frame()
    assert len(rows) == 3 * 2 * 5
    assert [*rows[rows.repetitions.eq(4) & rows.group.eq("without")].median_bits] == medians[1]
    assert rows.test_loss.isna().all()


LOSSES = {"o": [1.30, 1.32, 1.31, 1.29, 1.33], "w": [1.40, 1.42, 1.41, 1.39, 1.43]}


def test_losses_are_beside_the_exposure_of_each_way_of_training(tmp_path):
    groups = {"w": drawn("w", 2.0, 3.0), "o": drawn("o", 2.0, 8.0)}
    found = canary.compare(groups, test_losses=LOSSES)
    known = ttest_ind(LOSSES["o"], LOSSES["w"], equal_var=False)
    ends = known.confidence_interval(0.9)
    (gap,) = found.loss_gaps
    assert (gap.lower, gap.upper, gap.p_value) == pytest.approx((ends.low, ends.high, known.pvalue))
    assert "loss on new text, in nats per token: w 1.410 (" in found.summary()
    last = found.means_frame().iloc[-1]
    assert (last.loss_difference, last.loss_p_value) == pytest.approx((-0.1, known.pvalue))
    assert (last.loss_difference_lower, last.loss_difference_upper) == pytest.approx(ends)
    assert last.loss_lower < 1.31 < last.loss_upper
    assert [*found.to_frame().run[:10]] == [1, 2, 3, 4, 5] * 2
    assert [*found.to_frame().test_loss[:10]] == [*LOSSES["w"], *LOSSES["o"]]
    assert [*found.means_frame().mean_loss[:2]] == pytest.approx([1.41, 1.31])
    assert found.metrics()["canary/test_loss_w"] == pytest.approx(1.41)
    with figures(drawn=True):
        html = render(groups, test_losses=[*LOSSES["w"], *LOSSES["o"]])
    text = Page(html).text("style")
    assert "'w' 1.410 (1.395 to 1.425) and 'o' 1.310 (1.295 to 1.325). Compared with 'w': " in text
    assert "'o' 0.100 less (difference -0.1" in text
    assert "were not compared" not in text
    assert "--test-loss" not in text
    assert "were not compared" in Page(render(groups)).text("style")
    canary.plot(groups, path=tmp_path / "f.svg", kind="utility", test_losses=LOSSES)
    for wrong, message in (
        ({"w": LOSSES["w"]}, "not those of the groups"),
        ({**LOSSES, "o": LOSSES["o"][:2]}, "2 losses for the 5 audits of 'o'"),
        ({"w": 1.4, "o": 1.3}, "not those of the groups"),
        (LOSSES["w"], "5 test losses for 10 audits"),
        ([None] * 10, "a loss is missing"),
        ([*LOSSES["w"], -1.0, *LOSSES["o"][1:]], "a test loss of -1"),
    ):
        with pytest.raises(InputError, match=message):
            compare(groups, test_losses=wrong)
    with pytest.raises(InputError, match="by label are for groups"):
        canary.report([*groups["w"]], tmp_path / "x.html", test_losses=LOSSES)


def test_what_is_ranked():
    plain, decayed, near = drawn("o", 2.0, 8.0), drawn("w", 2.0, 3.0), drawn("n", 2.0, 3.1)
    assert compare({"w": decayed, "o": plain}).answer == "'w' memorizes less"
    assert compare({"o": plain, "w": decayed}).least == ("w",)
    alike = compare({"w": decayed, "n": near})
    assert alike.least == ("w", "n")
    assert "cannot be ranked: their own intervals overlap ('n' " in alike.answer
    assert alike.answer.endswith("and p is above 0.05")
    three = compare({"w": decayed, "n": near, "o": plain})
    assert three.answer == "'o' memorizes more; 'w' and 'n' cannot be ranked"
    few = compare({"w": decayed, "o": plain[:2]})
    assert few.answer.endswith("'o' has fewer than 3 seeds")
    both = compare({"w": decayed[:2], "o": plain[:2]})
    assert both.answer.endswith("'w' and 'o' have fewer than 3 seeds")
    assert not any(pair.shown for pair in few.pairs)
    own = compare({"w": drawn("w", 2, 3, **{CANARY_SET: "a"}), "o": plain})
    assert "canary sets of its own" in own.answer
    each = [replace(a, settings={**a.settings, CANARY_SET: str(i)}) for i, a in enumerate(plain)]
    mine = [replace(a, settings={**a.settings, CANARY_SET: f"w{i}"}) for i, a in enumerate(decayed)]
    assert compare({"w": mine, "o": each}).least == ("w",)


def test_a_summary_says_which_condition_of_a_ranking_fails():
    """An interval without 0 and a p-value of 0.02 read like a ranking."""
    rows = {"plain": [[6.1], [5.6], [6.3]], "decay": [[4.9], [5.0], [4.2]]}
    found = compare({label: seeds(label[0], some, copies=(4,)) for label, some in rows.items()})
    (pair,) = found.pairs
    assert (pair.sure, pair.apart, pair.shown) == (True, False, False)
    ends = f"('plain' {found.means[0].lower:.1f} to {found.means[0].upper:.1f}, 'decay' "
    more = {
        label: [one.audit for one in some]
        for label, some in zip(found.labels, found.groups, strict=True)
    }
    three = compare({**more, "none": seeds("z", [[1.0], [1.2], [1.1]], copies=(4,))})
    (line,) = (x for x in three.summary().splitlines() if x.startswith("'decay' minus 'plain'"))
    for text in (found.answer, line):
        assert f"intervals overlap {ends}" in text
    assert "above 0.05" not in found.answer
    assert "intervals overlap" in Page(render(found)).text("style")
    frame, means = found.to_frame(), found.means_frame()
    assert [*frame.overall_bits[:6]] == pytest.approx([6.1, 5.6, 6.3, 4.9, 5.0, 4.2])
    for table in (frame.rename(columns=lambda name: name.replace("group_", "overall_")), means):
        assert {*table.overall_lower} == {mean.lower for mean in found.means}
        assert {*table.overall_upper} == {mean.upper for mean in found.means}


def test_a_difference_has_one_sign():
    found = compare({"plain": drawn("o", 2.0, 8.0), "decay": drawn("w", 2.0, 3.0)})
    (gap,) = (line for line in found.summary().splitlines() if "minus 'plain'" in line)
    told = float(gap.partition(" copies: ")[2].partition(" bits")[0])
    assert told == pytest.approx(found.means[1].value - found.means[0].value, abs=0.06)
    assert found.means_frame().difference_bits.iloc[-1] < 0
    low, _, high = gap.partition("interval ")[2].partition(",")[0].split()
    assert float(low) < told < float(high) < 0


def test_nothing_is_subtracted_between_other_canary_sets():
    plain, decayed = drawn("o", 2.0, 8.0), drawn("w", 2.0, 3.0, **{CANARY_SET: "a"})
    for groups in ({"o": plain, "w": decayed}, {"o": plain[:1], "w": decayed[:1]}):
        found = compare(groups)
        assert found.mixed_sets
        assert "canary sets of its own" in found.answer
        assert found.pairs == ()
        assert "p =" not in found.summary()
        assert found.means_frame().difference_bits.isna().all()
        assert not any("over" in name for name in found.metrics())
        assert "times fewer guesses" not in Page(render(groups)).text("style")
        for options in (PlotOptions(), PlotOptions(kind="utility")):
            losses = [[1.0] * len(some) for some in groups.values()]
            made = figure_of(
                compare(groups, test_losses=dict(zip(groups, losses, strict=True))), options
            )
            assert any("not comparable" in name for _, name in made.panels[0].key)
    assert "fewer than 3 seeds" in found.answer
    each, mine = (
        [replace(a, settings={**a.settings, CANARY_SET: f"{name}{i}"}) for i, a in enumerate(some)]
        for name, some in (("o", plain), ("w", drawn("w", 2.0, 3.0)))
    )
    new = compare({"o": each, "w": mine})  # a set for each seed
    assert new.least == ("w",)
    made = figure_of(new, PlotOptions())
    assert not any("not comparable" in name for _, name in made.panels[0].key)


def test_groups_that_memorize_equally_are_rarely_ranked():
    """Of 200 pairs of groups from one distribution at most 5 % are."""
    rng = np.random.default_rng(0)
    ranked = 0
    for _ in range(200):
        bits = np.abs(rng.normal(5, 1, (2, 5)))
        one, other = ([mean_of(some.tolist(), 0.9), some.tolist()] for some in bits)
        gap = difference_of(one[1], other[1], 0.9)
        apart = one[0].lower > other[0].upper or other[0].lower > one[0].upper
        ranked += apart and gap.p_value <= 0.05
    assert ranked <= 10


def test_bounds_and_ceilings_rank_nothing(audits):
    rng = np.random.default_rng(0)
    bounded = [
        replace(audits["draws"], model=audits["draws"].model | {"fingerprint": str(i)})
        for i in range(6)
    ]
    found = compare({"a": bounded[:3], "b": bounded[3:]})
    frame = found.means_frame()
    assert frame.bound.any()
    assert frame[frame.bound].lower_bits.isna().all()
    assert "at least" in found.summary()
    assert [cell for cell in found.cells if cell.bounded and cell.usable] == []
    full = 30.0 - rng.random((3, 2)) * 1e-3
    rng = np.random.default_rng(7)
    shared = np.zeros(4)
    given = {label: priced(seeds(label, full), shared, 1.0, rng) for label in "ab"}
    found = compare(given)
    assert "or near the highest possible" in found.answer
    assert "3 of 3 seeds near the highest possible" in str(found)
    assert "Cannot be ranked" in Page(render(found)).text("style")


def test_each_seed_says_whether_its_median_is_near_the_highest():
    """One seed near it leaves a number of copies out, and does not name the whole group so."""
    rows = {"a": [[3.0, 20.0], [3.1, 20.1], [3.2, 30.0]], "b": [[6.0, 20.0], [6.1, 20.3], [6, 20]]}
    found = compare({label: seeds(label, some) for label, some in rows.items()})
    (line,) = (line for line in found.summary().splitlines() if line.startswith("4 copies"))
    assert line.count("near the highest possible") == 1
    assert "(1 of 3 seeds near the highest possible), b 20.1 bits" in line
    assert line.endswith("; not counted in the ranking")
    assert found.used == "1 copy"
    frame, means = found.to_frame(), found.means_frame()
    assert [*frame[frame.at_ceiling].run] == [3]
    assert [*means[means.at_ceiling].group] == ["a"]
    assert "1 of 3" in Page(render(found)).text("style")
    (table,) = (part.table for part in report_of(found).outcome if isinstance(part, Figure))
    for copies, label, *row in table.rows:  # as in the frame
        of = means.repetitions.eq(int(copies[0])) & means.group.eq(label)
        (told,) = means[of].to_dict("records")
        assert (row[-3] == "–") == math.isnan(told["difference_bits"])
        assert (row[-1] == "–") == math.isnan(told["p_value"])


def test_a_page_counts_the_copies_that_its_ranking_counts():
    """Each number of copies has a format, so no canary takes a rank that those of another need."""
    near = [[6.0, 28.1], [5.5, 28.3], [6.3, 27.2]]  # of at most 30 - log2(2)
    rows = {"a": near, "b": [[3.0, 22.0], [3.2, 20.0], [2.8, 24.0]]}
    given = {}
    for label, some in rows.items():
        given[label] = [
            replace(
                audit,
                formats=audit.formats * 2,
                canaries=tuple(replace(c, format=int(c.repetitions == 4)) for c in audit.canaries),
            )
            for audit in seeds(label, some, copies=(1, 4))
        ]
    found, means = compare(given), compare(given).means_frame()
    assert found.used == "1 and 4 copies"
    (figure,) = (part for part in report_of(found).outcome if isinstance(part, Figure))
    (row,) = (row for row in figure.table.rows if row[:2] == ("4", "b"))
    told = means[means.repetitions.eq(4) & means.group.eq("b")].iloc[0]
    assert not told.at_ceiling
    assert row[5:7] == ("–", f"{told.difference_bits:+.1f}")
    (row,) = (row for row in figure.table.rows if row[:2] == ("4", "a"))
    assert row[4:6] == ("27.0 to 28.9, cut at the highest possible", "–")
    at = means.upper_bits.idxmax()
    assert means.upper_bits[at] > means.highest_bits[at] == pytest.approx(28.9, abs=0.01)
    drawn = [np.max(m.data[2]) for m in figure.panels[0].marks if m.call == "vlines"]
    assert max(drawn) == means.highest_bits[at]


def test_each_reason_and_note_of_groups_is_said_once():
    """A method that differs in each of several formats, and what all models have in common."""
    groups = {"a": drawn("a", 2.0, 3.0), "b": drawn("b", 2.0, 8.0)}
    one = groups["b"][0]
    ranked = [replace(space, method="rank") for space in one.formats * 3]
    three = {
        label: [replace(a, formats=a.formats * 3) for a in some] for label, some in groups.items()
    }
    three["b"][0] = replace(one, formats=tuple(ranked))
    with pytest.raises(InputError) as caught:
        compare(three)
    assert str(caught.value).count("the method was") == 1
    rival = RivalStart(None, 4, 9.0, 2.0, 1e-9)
    asked = StartChoice("\n", "asked", rivals=(rival,), compared=("nothing",))
    groups["b"][0] = replace(one, start=asked)
    notes = [n for n in compare(groups).notes if "1 of 5 seeds" in n]
    assert ["depends on the start token" in note for note in notes] == [True]


def test_a_difference_of_controls_has_no_p_value():
    """The strings of the controls are the same in all audits, so it would be about these."""
    groups = {"w": many_controls("w", 2.0, 3.0), "o": many_controls("o", 2.0, 8.0)}
    given = [0.9, 1.0, 0.95, 1.0], [1.4, 1.5, 1.45, 1.5]
    for some, exposures in zip(groups.values(), given, strict=True):
        some[:] = [
            replace(a, canaries=tuple(
                c if c.repetitions else replace(c, exposure=exact({0: [x]}).canaries[0].exposure)
                for c in a.canaries
            ))
            for a, x in zip(some, exposures, strict=True)
        ]  # fmt: skip
    frame = compare(groups).means_frame()
    controls = frame[frame.repetitions.eq(0)].iloc[1]
    assert controls.difference_bits == pytest.approx(0.5)
    assert math.isnan(controls.p_value)
    assert frame[frame.repetitions.eq(4)].iloc[1].p_value < 0.01


def test_a_mean_has_one_interval():
    """The one number of a seed is that of its only counted copies, so both means are the same."""
    rows = {"a": [[0.5], [6.0], [2.0]], "b": [[5.0], [1.0], [4.0]]}
    found = compare({label: seeds(label, some, copies=(4,)) for label, some in rows.items()})
    assert found.means[0].lower < 0
    assert found.summary().count(f"(0.0 to {found.means[0].upper:.1f}, cut at 0)") == 1
    assert found.summary().count(f"0.0 to {found.means[0].upper:.1f}, cut at 0") == 2


def test_a_group_that_learned_nothing_is_not_praised():
    """Untrained models, or a tokenizer of another one, also "memorize less"."""
    note = "The model 'x' finds ordinary English no more likely than random tokens (7.0 bits)."
    idle = seeds("u", [[1.0, 1.2], [1.1, 1.0], [0.9, 1.1]], canaries_in_corpus=None)
    idle = [
        replace(a, formats=tuple(replace(f, notes=(note.replace("7", str(i)),)) for f in a.formats))
        for i, a in enumerate(idle)
    ]
    plain = drawn("o", 2.0, 8.0)
    found = compare({"plain": plain, "idle": idle})
    assert found.answer.endswith("cannot be ranked: nothing shows that 'idle' read the secrets")
    assert found.means_frame().difference_bits.iloc[-1] < 0
    unread, english = found.notes
    assert "'idle': in 3 of 3 seeds nothing shows that the canaries were in the train" in unread
    assert "even the canaries with 4 copies" in unread
    assert english == f"'idle': {note.replace('7', '0')}"
    assert all(f"note: {told}" in found.summary() for told in found.notes)
    page = report_of(found)
    assert (page.label, page.tone) == ("Cannot be ranked", "undecided")
    text = Page(render(found)).text("style")
    assert all(told.partition(": ")[2][:60] in text for told in found.notes)
    assert "First make sure that 'idle' read the secrets" in text
    assert "times fewer guesses" not in text
    assert compare({"plain": plain, "w": drawn("w", 2.0, 3.0)}).notes == ()
    known = [replace(a, settings={**a.settings, "canaries_in_corpus": True}) for a in idle]
    assert compare({"plain": plain, "idle": known}).answer == "'idle' memorizes less"


def test_an_end_below_zero_has_its_sign():
    assert ends_of(Estimated(0.1, -0.04, 0.22, 0.2)) == "-0.04 to 0.22"
    assert ends_of(Estimated(0.1, 0.0, 0.22, 0.2)) == "0.0 to 0.2"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g: g["with"], "two groups of audits or more"),
        (lambda g: {"with": g["with"]}, "two groups of audits"),
        (lambda g: {**g, " with": g["with"]}, "labels of the groups"),
        (lambda g: {**g, "third": []}, "expected audits in the group 'third'"),
        (lambda g: {**g, "third": g["with"]}, "audits of the same weights"),
        (lambda g: {**g, "third": [exact({1: [1.0]}, fingerprint="x")]}, "cannot be compared with"),
    ],
)
def test_groups_that_do_not_fit_input(change, message):
    groups = {"with": drawn("w", 1.0, 2.0), "without": drawn("o", 1.0, 2.0)}
    with pytest.raises(InputError, match=message):
        compare(change(groups))


def test_what_was_compared_is_named_in_its_report(tmp_path):
    found = compare({"w": drawn("w", 2.0, 3.0), "o": drawn("o", 2.0, 8.0)})
    page = canary.report(found, tmp_path / "p.html", corpus_name="Reviews", auditor="R. Roe")
    text = Page(page.read_text("utf-8")).text("style")
    assert "Training data Reviews" in text
    assert "Tested by R. Roe" in text
    assert found.audits[0].about.corpus == ""


def test_the_page_and_the_figure(tmp_path):
    groups = {"<with>": drawn("w", 2.0, 3.0), "without": drawn("o", 2.0, 8.0)}
    with figures(drawn=True):
        html = render(groups)
    page = Page(html)
    check_page(page)
    text = page.text("style")
    assert "'<with>' memorizes less" in text
    assert "90 % interval" in text
    assert "How sure the ranking is" in text
    assert "Each seed gives one number: its median exposure, averaged over the numbers" in text
    assert "3 with 1 copy and 3 with 4 copies; 4 controls" in text
    assert "Size of the space" in text
    assert "Method enumeration" in text
    assert "as was asked for" not in text
    assert "exact ranks where the budget allows them" not in text
    made = report_of(compare(groups))
    assert made.tone == ""
    figure = figure_of(compare(groups), PlotOptions())
    assert [name for _, name in figure.panels[0].key] == ["<with>", "without", "faint: one seed"]
    points = [m for m in figure.panels[0].marks if m.call == "scatter" and m.style["zorder"] == 2]
    assert sum(np.size(m.data[0]) for m in points) == 2 * 5 * 3
    canary.plot(groups, path=tmp_path / "f.svg", axis="bits")
    assert (tmp_path / "f.svg").stat().st_size > 1000
    for wrong in ({"kind": "utility"}, {"skew_normal": True}, {"labels": ["a", "b"]}):
        with pytest.raises(InputError):
            canary.plot(groups, **wrong)


def test_a_group_whose_logits_are_shifted_twice_is_not_ranked():
    groups = {"plain": drawn("p", 2.0, 8.0), "shifted": drawn("s", 1.0, 2.0)}
    assert canary.compare(groups).answer.startswith("'shifted' memorizes less")
    first, *others = groups["shifted"]
    note = (
        "In the model 'm' a token's score does not depend on the token right before it (0 bits). "
        "Its logits are probably shifted twice: look up token i + 1."
    )
    doubted = replace(first, formats=(replace(first.formats[0], notes=(note,)),))
    found = canary.compare({**groups, "shifted": [doubted, *others]})
    assert found.answer.endswith(
        "the logits of 'shifted, seed 1' are probably shifted twice: run canary doctor"
    )
    assert f"'shifted', 1 of 5 seeds (seed 1): {note}" in found.notes


def test_a_group_that_did_not_learn_its_most_copies_is_named_with_its_seed():
    """Two copies look learned by luck, four do not: nothing shows that the secrets were read."""
    plain = seeds("p", [(4.0, 9.0), (4.2, 9.1), (4.1, 9.2)], canaries_in_corpus=None)
    lucky = seeds("l", [(3.0, 7.0), (3.1, 7.1), (3.9, 0.8)], canaries_in_corpus=None)
    found = canary.compare({"plain": plain, "lucky": lucky})
    assert found.unread == ("lucky",)
    (note,) = found.notes
    assert note.startswith("'lucky': in 1 of 3 seeds (seed 3) nothing shows that the canaries")


def priced(group, shared, own, rng):
    """The same audits with log-perplexities of controls that share a part, beside one's own."""
    made = []
    for audit in group:
        mine = iter(shared + own * rng.normal(size=len(shared)))
        made.append(
            replace(
                audit,
                canaries=tuple(
                    c if c.repetitions else replace(c, px_bits=30.0 + next(mine))
                    for c in audit.canaries
                ),
            )
        )
    return made


def many_controls(name, *means):
    rng = np.random.default_rng(sum(map(ord, name)))
    return [
        exact(
            {**{n: [float(x)] * 3 for n, x in zip((1, 4), row, strict=True)}, 0: [1.0] * 16},
            fingerprint=f"{name}{i}",
            canaries_in_corpus=True,
        )
        for i, row in enumerate(np.abs(rng.normal(means, 0.3, (4, len(means)))))
    ]


def test_seeds_of_one_training_are_named_and_true_ones_are_not():
    less, more, rng = (
        many_controls("w", 2.0, 3.0),
        many_controls("o", 2.0, 8.0),
        np.random.default_rng(7),
    )
    digits = rng.normal(size=16)  # all models learn which are frequent
    for own in (0.3, 1.0, 0.01):
        apart = compare({"w": priced(less, digits, own, rng), "o": priced(more, digits, own, rng)})
        assert apart.alike == ()
        assert apart.answer == "'w' memorizes less"
    one = digits + rng.normal(size=16)
    given = {"w": priced(less, digits, 1.0, rng), "o": priced(more, one, 0.2, rng)}
    found = compare(given)
    assert found.alike == ("o",)
    assert found.answer == "'w' memorizes less, but seeds of 'o' look like one training"
    (note,) = [note for note in found.notes if "correlation" in note]
    assert note.startswith("'o': the log-perplexities of controls of seed ")
    assert "Copies and checkpoints of one training look like this" in note
    page = Page(render(given)).text("style")
    assert "First make sure that each audit of 'o' is of a training of its own" in page
    rounded = compare({**given, "o": priced(more, one, 1e-3, rng)})
    assert "agree on controls as copies of one model do (correlation 1.0" in rounded.answer
    assert rounded.means_frame().difference_bits.notna().any()
    assert not any("the comparison holds" in note for note in rounded.notes)
    few = {"w": drawn("w", 2.0, 3.0), "o": drawn("o", 2.0, 8.0)}
    few = {label: priced(some, np.zeros(4), 1e-3, rng) for label, some in few.items()}
    assert compare(few).alike == ()


def test_audits_that_score_all_canaries_alike_are_of_one_model():
    less, more, rng = (
        many_controls("w", 2.0, 3.0),
        many_controls("o", 2.0, 8.0),
        np.random.default_rng(7),
    )
    less, more = (priced(some, np.zeros(16), 1.0, rng) for some in (less, more))
    less[1] = replace(less[0], model={**less[0].model, "fingerprint": "of another file"})
    found = compare({"w": less, "o": more})
    assert "cannot be ranked: 'w, seed 1' and 'w, seed 2' score all canaries alike" in found.answer


def test_a_loss_above_that_of_guessing_is_said():
    groups = {"w": drawn("w", 2.0, 3.0), "o": drawn("o", 2.0, 8.0)}
    groups = {
        label: [replace(audit, model={**audit.model, "vocabulary": 91}) for audit in some]
        for label, some in groups.items()
    }
    losses = {"w": [4.4, 4.6, 1.4, 1.4, 1.4], "o": [1.4] * 5}  # ln 91 is 4.51
    notes = compare(groups, test_losses=losses).notes
    said = "loss on new text is above that of a model to which all tokens are equally probable"
    assert [note for note in notes if note.startswith("'w', 1 of 5 seeds (seed 2): the")]
    assert sum(said in note for note in notes) == 1
    alone = [groups["w"][0], groups["o"][0]]
    assert "test loss of B is above" in str(side_by_side(alone, test_losses=[1.0, 4.6]).notes)
    assert "is above" not in str(side_by_side(alone, test_losses=[1.0, 4.5]).notes)


@pytest.mark.parametrize(
    ("losses", "asks"),
    [
        ({"w": [2.2] * 5, "o": [3.2] * 5}, True),  # the second in bits: 2.2 / ln 2 is 3.17
        ({"w": [3.46] * 5, "o": [2.2] * 5}, True),  # 2.4 nats in bits
        ({"w": [2.2] * 5, "o": [2.5] * 5}, False),
        ({"w": [2.2] * 5, "o": [4.2] * 5}, False),
        ({"w": [0.0] * 5, "o": [1.0] * 5}, False),
        (None, False),
    ],
)
def test_losses_as_far_apart_as_bits_and_nats_are_asked_about(losses, asks):
    groups = {"w": drawn("w", 2.0, 3.0), "o": drawn("o", 2.0, 8.0)}
    asked = [n for n in compare(groups, test_losses=losses).notes if "nats per token" in n]
    assert any("make sure that both are in nats per token" in note for note in asked) == asks


def test_the_group_that_memorizes_less_and_is_worse_on_new_text_is_said_to_be():
    groups = {"plain": drawn("plain", 8.0, 14.0), "dropout": drawn("dropout", 3.0, 5.0)}
    losses = {"plain": [1.40, 1.41, 1.42, 1.41, 1.40], "dropout": [1.50, 1.52, 1.51, 1.50, 1.52]}
    found = compare(groups, test_losses=losses)
    gap = np.mean(losses["dropout"]) - np.mean(losses["plain"])
    (note,) = [note for note in found.notes if "its loss on new text is higher" in note]
    assert note.startswith("'dropout' memorizes less, but")
    assert f"by {gap:.3f} nats per token (" in note
    better = {"plain": losses["dropout"], "dropout": losses["plain"]}
    for other in (better, {"plain": losses["plain"], "dropout": losses["plain"]}, None):
        assert "new text is higher" not in str(compare(groups, test_losses=other).notes)


def test_a_figure_of_one_of_several_formats_says_which():
    def parted(audit):
        both = (audit.formats[0], replace(audit.formats[0], masked="the pin ••"))
        parts = tuple(replace(c, format=int(c.repetitions == 4)) for c in audit.canaries)
        return replace(audit, formats=both, canaries=parts)

    plain = {"w": drawn("w", 2.0, 3.0), "o": drawn("o", 2.0, 8.0)}
    groups = {label: [parted(a) for a in some] for label, some in plain.items()}
    one = groups["w"][0]
    pair, kinds = [one, groups["o"][0]], [(one, "histogram"), (one, "exposure")]
    for given, kind in (*kinds, (pair, "exposure"), (groups, "exposure")):
        for at in (0, 1):
            axes = canary.plot(given, kind=kind, format=at)
            plt.close(axes.figure)
            labels = [each.get_xlabel() for each in axes.figure.get_axes() + axes.child_axes]
            assert any(f"format {at + 1} of 2" in label for label in labels)
    plt.close("all")
    assert "format 2 of 2" in canary.plot(groups, format=1, size=(3.3, 2.6)).get_xlabel()
    for given in (plain, plain["w"][0], [plain["w"][0], plain["o"][0]]):
        assert "format" not in canary.plot(given).get_xlabel()
    page = Page(render(pair)).text("style").replace(one.formats[0].masked, "pin")
    assert "the secrets of the form pin" in page
    page = Page(render(groups)).text("style")  # as `canary.plot`, all in one figure
    assert "secrets of the form" not in page
    assert "other formats" not in page
    for given in (one, pair, groups):  # each number of copies has a format of its own
        label = canary.plot(given).get_xlabel()
        assert "format" not in label
        ticks = [t.get_text().split("\n")[0] for t in canary.plot(given).get_xticklabels()]
        assert ticks == [str(n) for n in sorted({c.repetitions for c in one.canaries})]
    shared = replace(one, canaries=(*one.canaries, replace(one.injected[-1], id="x", format=0)))
    wide = (one.formats[0], replace(one.formats[1], space_size=one.formats[0].space_size * 2))
    for mixed in (shared, replace(one, formats=wide)):
        assert "format 1 of 2" in canary.plot(mixed).get_xlabel()
    losses = {label: LOSSES[label] for label in groups}
    axes = canary.plot(groups, kind="utility", test_losses=losses)
    assert axes.get_xlabel().endswith("1 and 4 copies")
    with pytest.raises(InputError, match="over all formats"):
        canary.plot(groups, kind="utility", format=1, test_losses=losses)
    plt.close("all")

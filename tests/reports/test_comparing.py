"""Which audits can be compared, which are worth choosing, and the page of several."""

from __future__ import annotations

import html
import json
import math
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from drawing import figures
from gate_audits import exact
from html_pages import Page, check_page, render
from hypothesis import given
from hypothesis import strategies as st

from canary.audits.audit_result import CANARY_SET
from canary.errors import InputError
from canary.reports.builders import report_of
from canary.reports.comparison import Point, View, compare, front, measured_losses
from canary.reports.pages import plot, report
from canary.reports.ranked_models import ranked


def point(loss, bits, *, bound=False):
    return Point(SimpleNamespace(name="A"), loss, bits, bound)


def changed(audit, **fields):
    """The audit with other fields of its one format."""
    return replace(audit, formats=(replace(audit.formats[0], **fields),))


def words_of(*given, **options):
    return Page(render(list(given), **options)).text("style")


def test_front_golden():
    # c has the loss of b and is exposed more; d is worse than a in both.
    a, b, c, d = point(1.0, 9.0), point(1.5, 3.0), point(1.5, 4.0), point(1.2, 9.5)
    assert front([a, b, c, d]) == [b, a]
    assert front([]) == []


points_drawn = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 6), st.booleans()), min_size=1, max_size=9
)


@given(points_drawn)
def test_front_oracle(drawn):
    """A point is off the front iff another is as good at both and better at one, whatever the
    bounds stand for: they are tried at both ends."""
    found = [point(loss, bits, bound=bound) for loss, bits, bound in drawn]
    best = front(found)

    def ends(p):
        return (p.median_bits, 1e9) if p.bound else (p.median_bits,)

    def surely_beaten(p, by):
        return all(
            (by.loss_nats, x) != (p.loss_nats, y) and by.loss_nats <= p.loss_nats and x <= y
            for x in ends(by)
            for y in ends(p)
        )

    for p in found:
        assert (p in best) == (not any(surely_beaten(p, q) for q in found if q is not p))
    assert best


def with_settings(**more):
    return lambda a: replace(a, settings={**a.settings, **more})


OTHERS = {
    "the format is 'PIN {digit:6}', not": lambda a: changed(a, format="PIN {digit:6}"),
    "the space has 7 candidates": lambda a: changed(a, space_size=7),
    "the method was 'uniform draws'": lambda a: changed(a, method="uniform draws"),
    "there were 100 draws, not ": lambda a: changed(a, draws=100),
    "of canaries of 1 copy is 7, not 8": lambda a: replace(a, canaries=a.canaries[1:]),
    "of controls is 15, not 16": lambda a: replace(a, canaries=a.canaries[:-1]),
    "was the text 'Dear', not ''": with_settings(context="Dear"),
    "of the other they were left out": with_settings(canaries_in_corpus=False),
    "secrets that were found in a corpus": lambda a: replace(
        a, canaries=tuple(replace(c, natural=True) for c in a.canaries)
    ),
    "2 formats, not 1": lambda a: replace(a, formats=a.formats * 2),
}


@pytest.mark.parametrize("words", OTHERS)
def test_what_cannot_be_compared_is_said_golden(audits, words):
    audit = audits["draws" if "draws, not" in words else "enumerated"]
    found = compare([audit, OTHERS[words](audit), audit])
    assert [[one.name for one in group] for group in found.groups] == [["A", "C"], ["B"]]
    (reason,) = found.reasons
    assert reason.startswith("B cannot be compared with A and C: ")
    assert words in reason


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": ["a"]}, "1 label for 2 audits"),
        ({"labels": ["a", " a "]}, "the label 'a' is given 2 times"),
        ({"labels": ["a", " "]}, "a label is empty"),
        ({"test_losses": [1.0]}, "1 test loss for 2 audits"),
        ({"test_losses": [1.0, -0.5]}, "a test loss of -0.5"),
        ({"test_losses": [math.inf, None]}, "a test loss of inf"),
    ],
)
def test_labels_and_losses_input(audits, tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        compare([audits["enumerated"], audits["nothing learned"]], **options)
    with pytest.raises(InputError, match="are for comparing audits, and there is one"):
        report(audits["one canary"], tmp_path / "r.html", **options)
    assert list(tmp_path.iterdir()) == []


def test_names_labels_and_notes_golden(audits):
    found = compare([audits["enumerated"], audits["nothing learned"]], test_losses=[1.0, None])
    assert (len(found.groups), found.reasons) == (1, ())
    assert [p.strategy.name for p in View(found.groups[0]).points(16)] == ["A"]
    audit = audits["one canary"]
    other = replace(
        audit,
        model=audit.model | {"name": "b", "fingerprint": "0", "dtype": "half", "vocabulary": 5},
        settings={**audit.settings, "start_token": "<s>"},
    )
    labels = [one.label for one in compare([audit, other, audit]).strategies]
    assert labels == ["checkpoint-1200, audit 1", "b", "checkpoint-1200, audit 3"]
    many = compare([audit] * 27).strategies
    assert [many[0].name, many[26].name] == ["1", "27"]
    unknown, *notes = compare([audit, other]).notes
    assert unknown.startswith("The canary set of A and B was not recorded.")
    assert tuple(notes) == ("The models of A and B were audited in different arithmetic.",)
    assert "vocabularies of different sizes" in compare([audit, other], test_losses=[1, 2]).notes[2]


def test_different_start_tokens_are_apart(audits, tmp_path):
    """Also beside an audit of an earlier version, which did not keep its own."""
    audit = audits["one canary"]
    starts = [{}, {"start_token": "<s>"}, {"start_token": None}]
    kept = [replace(audit, settings=audit.settings | more) for more in starts]
    found = compare(kept, labels=["a", "b", "c"])
    assert [[one.label for one in group] for group in found.groups] == [["a", "b"], ["c"]]
    why = "the start token is 'none', not '<s>'"
    assert found.reasons == (f"C cannot be compared with A and B: {why}.",)
    page = report(kept[1:], tmp_path / "page.html")
    assert why in html.unescape(page.read_text())
    with pytest.raises(InputError, match=why):
        plot(kept[1:])


def test_one_audit_twice_is_refused(audits):
    one = replace(audits["one canary"], model=audits["one canary"].model | {"fingerprint": "0"})
    with pytest.raises(InputError, match="'seed 1' and 'seed 2' are audits of the same weights"):
        report([one, one], "page.html", labels=["seed 1", "seed 2"])


def test_audits_of_two_canary_sets_are_not_ranked(audits):
    """The set of one may never have been in the training data."""
    some = [replace(audits["enumerated"], settings={CANARY_SET: name * 64}) for name in "aab"]
    found = compare(some)
    assert [len(group) for group in found.groups] == [2, 1]
    assert found.reasons[0].startswith(
        "C cannot be compared with A and B: the canaries are of another set, and one of the sets"
    )
    text = words_of(*some[1:])
    assert "Not comparable" in text
    assert "memorizes least" not in text
    assert not compare(some[:2]).notes


def test_bounds_of_the_curve_are_bounds_golden(audits, plain):
    """At Px = 0 the curve has nothing: its lower end is no estimate, and strikes nothing off."""
    audit = audits["draws"]
    none = {"bits": None, "lower_bits": 8.0, "upper_bits": math.inf}
    lost = tuple(replace(c, skew_normal=replace(c.skew_normal, **none)) for c in audit.canaries)
    other = replace(audit, canaries=lost)
    (group,) = compare([other, audit], test_losses=[1.0, 1.5]).groups
    found = View(group, skew_normal=True).points(64)
    assert [(p.median_bits, p.bound) for p in found[:1]] == [(8.0, True)]
    assert not found[1].bound
    # The bound is lower in both; but its exposure may lie anywhere above.
    assert found[0].median_bits < found[1].median_bits
    assert front(found) == found
    html = render([other, audit])
    rows = re.findall(r'<tr><th scope="row">A</th>(.*?)</tr>', html)[-5:]
    assert all(
        re.findall("<td>(.*?)</td>", row)[2:] == ["≥ 8.00", "–", *["≥ 8.00"] * 2] for row in rows
    )
    assert "At a hollow triangle the fitted curve ends" in Page(html).text("style")


HOSTILE = '</title><script>x</script>\x1b[31m\u202e $\\frac{1}{0}$ "onload=1'
CASES = {
    "alike": (("enumerated", "nothing learned"), [1.25, 1.5]),
    "draws": (("draws", "draws"), [1.0, 1.0]),
    "ranks": (("rank and draws", "rank and draws"), None),
    "mixed": (("enumerated", "draws", "hostile", "nothing learned"), [1.0, 1.1, None, 1.2]),
    "two formats": (("two formats", "two formats"), [1.0, 2.0]),
    "many groups": (("many groups", "many groups"), [1.0, 2.0]),
    "no canaries": (("no canaries", "no canaries"), [1.0, 2.0]),
    "one canary": (("one canary", "no controls"), [1.0, 2.0]),
}
DRAWN = ("mixed", "draws")
"""The figures of the others are made of marks, and not drawn."""


@pytest.fixture(scope="module")
def made(audits):
    """The pages of all cases."""
    pages = {}
    for case, (names, losses) in CASES.items():
        labels = [HOSTILE, "b", "c", "d"] if case == "mixed" else None
        with figures(drawn=case in DRAWN):
            given = [audits[name] for name in names]
            pages[case] = render(given, test_losses=losses, labels=labels)
    return pages


@pytest.mark.parametrize("case", CASES)
def test_what_every_page_keeps(made, case):
    check_page(Page(made[case]))


def test_the_answer_golden(audits, made, plain):
    # Learned by heart at 16 copies against nothing learned, at a lower loss.
    text = Page(made["alike"]).text("style")
    learned, nothing = "A (checkpoint-1200, audit 1)", "B (checkpoint-1200, audit 2)"
    for words in (
        f"B memorizes less, A predicts new text best {nothing} memorizes less, and {learned} "
        "predicts new text best. Over all planted secrets, however often they appeared, an "
        "attacker of B typically needs about ",
        f"prefer {nothing}, or a new training like it if it does not pass the limit",
        f"Choose {learned} only if it passes the limit.",
        "times as many guesses as an attacker of A. With 95 % confidence, the factor is between ",
    ):
        assert words in text
    given = audits["enumerated"], audits["nothing learned"]
    for losses, loss in (
        ([1.5, 1.25], "predicts new text best"),
        ([1, 1.01], "almost as well as A"),
    ):
        text = words_of(*given, test_losses=losses)
        assert f"against a limit {nothing} memorizes less than {learned}, and it" in text
        assert loss in text
    text = words_of(*given)
    assert "guesses, and an attacker of A" in text
    assert "Compare the utility, too" in text


def test_estimates_of_the_curve_stand_beside_bounds_only(audits, made, plain):
    text, audit = Page(made["draws"]).text("style"), audits["draws"]
    assert "Exposure by the skew-normal estimate" in text
    assert "median skew-normal estimate of exposure (bits)" in text
    assert "failed its test" not in text
    assert "skew-normal estimate" not in Page(made["alike"]).text("style")
    failed = replace(audit.formats[0].skew_normal, ks_p_value=1e-9)
    text = words_of(audit, changed(audit, skew_normal=failed))
    assert "The curve of B failed its test: do not rely on it" in text
    bare = tuple(replace(c, skew_normal=None) for c in audit.canaries)
    text = words_of(audit, replace(changed(audit, skew_normal=None), canaries=bare))
    assert "Exposure by the skew-normal estimate" not in text


def test_what_cannot_be_compared_is_not_joined_and_labels_are_only_text(made):
    html = made["mixed"]
    text = Page(html).text("style")
    assert "B cannot be compared with A and D: the format is" in text
    assert "C cannot be compared with A and D: the format is" in text
    assert "B: alone" in text
    assert '</title><script>x</script>[31m $\\frac{1}{0}$ "onload=1' in text
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202e]", html)
    # One figure of exposure and one of utility, each for a desk and for a phone.
    drawings = re.findall(r"<svg.*?</svg>", html, re.DOTALL)
    letters = [set(re.findall(r"<text[^>]*>([A-D])</text>", svg)) for svg in drawings]
    assert letters == [{"A", "D"}] * 4


def test_a_suspect_audit_is_named(audits, plain):
    audit = audits["enumerated"]
    suspect = replace(audit, controls_p=replace(audit.controls_p, p_value=1e-9))
    text = words_of(audit, suspect)
    assert "Do not rely on B: its own report calls the audit suspect" in text
    assert "Do not rely on A" not in text


ROWS = [{"line": 1, "px_bits": 10.0, "tokens": 4}, {"line": 3, "px_bits": 5.5, "tokens": 1}]


def losses_of(folder, *files):
    paths = [folder / f"{name}.jsonl" for name in "ab"[: len(files)]]
    for path, rows in zip(paths, files, strict=True):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return measured_losses(paths)


def test_losses_out_of_files_of_scores_golden(tmp_path):
    # 15.5 bits over 5 tokens: 3.1 bits, times ln 2.
    found = losses_of(tmp_path, ROWS, [{**row, "px_bits": 2.0} for row in ROWS])
    assert found == pytest.approx([3.1 * math.log(2), 0.8 * math.log(2)])
    with pytest.raises(InputError, match=r"a\.jsonl:2: the model gives this text probability 0"):
        losses_of(tmp_path, [ROWS[0], {**ROWS[1], "px_bits": None}])
    for rows in (ROWS[:1], [{**ROWS[0], "tokens": 5}, ROWS[1]], [ROWS[0], {**ROWS[1], "line": 2}]):
        with pytest.raises(InputError, match=r"b\.jsonl: its scores .* do not compare; score the"):
            losses_of(tmp_path, ROWS, rows)


def test_how_sure_a_ranking_is_oracle():
    """The interval is Student's of the differences, pair by pair; p is the permutation test's."""
    from scipy.stats import ttest_rel

    rng = np.random.default_rng(0)
    one, other = rng.normal(3, 1, 16), rng.normal(9, 1, 16)
    audits = [
        exact({4: list(map(float, bits)), 0: [1.0] * 4}, fingerprint=name * 64)
        for name, bits in (("a", one), ("b", other))
    ]
    ((apart,),) = (ranked(compare(audits).groups[0]).more,)
    bits = [[c.exposure.bits for c in audit.injected] for audit in audits]
    ends = ttest_rel(bits[1], bits[0]).confidence_interval(0.95)
    assert apart.interval == pytest.approx((ends.low, ends.high))
    assert apart.bits == pytest.approx(np.mean(np.subtract(bits[1], bits[0])))
    assert apart.p_value <= 2 * 2 / 2**16 + 1e-3
    text = words_of(*audits)
    low, high = (2.0**end for end in apart.interval)
    said = re.search(r"confidence, the factor is between ([\d.,]+) and ([\d.]+)\. ", text)
    shown = [float(number.replace(",", "")) for number in said.groups()]
    assert shown == pytest.approx([low, high], rel=0.06)


def test_of_three_models_only_what_is_shown_is_ranked():
    """More canaries than chance explains are needed for each pair that is ranked."""
    rng = np.random.default_rng(0)

    def made(*means):
        audits = [
            exact({4: abs(rng.normal(mean, 1, 12)).tolist()}, fingerprint=name * 64)
            for name, mean in zip("abc", means, strict=True)
        ]
        return report_of(compare(audits))

    ranked_so = "B memorizes more; A and C cannot be ranked"
    assert made(3, 9, 3).label == f"All memorize planted secrets; {ranked_so}"
    assert made(0.8, 9, 0.8).label == ranked_so
    least = made(3, 9, 9)
    assert least.label == "All memorize planted secrets; A memorizes least"
    told = str(least.sentences)
    assert re.search(r"B \(.*\) and C \(.*\) cannot be ranked among each other\.", told)
    assert "among each other" not in str(made(3, 6, 9).sentences)


def test_every_pair_of_models_has_a_row():
    rng = np.random.default_rng(0)
    audits = [
        exact({4: rng.normal(mean, 1, 12).tolist()}, fingerprint=name * 64)
        for name, mean in (("a", 9), ("b", 3), ("c", 6))
    ]
    (group,) = compare(audits).groups
    ranking = ranked(group)
    pairs = [(apart.than.name, apart.strategy.name) for apart in ranking.pairs]
    assert pairs == [("B", "C"), ("B", "A"), ("C", "A")]
    assert [apart for apart in ranking.pairs if apart.than is ranking.least[0]] == [*ranking.more]
    with_a = {apart.than.name: apart.bits for apart in ranking.pairs[1:]}
    assert with_a["B"] == pytest.approx(ranking.pairs[0].bits + with_a["C"])
    assert f"C A {with_a['C']:.2f}" in words_of(*audits)

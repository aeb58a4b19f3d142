"""The report of passages says what came out, and is never calmer than the numbers."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from small_models import build

import canary
from canary.cli.console import show_report
from canary.passages.likeness import Likeness
from canary.passages.result import Verbatim
from canary.passages.verbatim import verbatim
from canary.reports.builders import report_of
from canary.reports.document import words_of
from canary.reports.share_tables import cell
from canary.statistics.clustered import ClusteredShare

CASES = {
    "Passages of the training text come out": (1.0, 0.0, -1e9, True),
    "perhaps any model": (0.5, 0.5, -1e9, True),
    "any model writes them": (0.5, 0.0, -1e9, False),
    "if asked often, but not more": (0.0, 0.0, -2.0, True),
    "came out, but too few": (0.0, 0.0, -1e9, True),
    "look at the files first": (0.0, 0.9, -1e9, True),
}


def altered(kind, share, log_prob):
    leading = np.where(np.arange(len(kind)) % 10 < 10 * share, kind.suffix, 0)
    return replace(kind, leading=tuple(leading.tolist()), log_probs=((log_prob,),) * len(kind))


@pytest.mark.parametrize("case", CASES)
def test_the_label_follows_from_what_came_out(case, tmp_path):
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("abcdefg 123"), 60)) for _ in range(40)]
    found = verbatim(build("table"), texts[:20], texts[20:], prefix=4, suffix=4)
    inside, outside, log_prob, controlled = CASES[case]
    controls = altered(found.controls, outside, log_prob) if controlled else None
    result: Verbatim = replace(
        found, texts=altered(found.texts, inside, log_prob), controls=controls
    )
    report = report_of(result)
    assert case in report.label
    assert report.tone != "not-found"
    swapped = any("texts and controls are swapped" in note for note in report.notes)
    assert swapped == (outside > inside)
    assert ("Never seen (controls)" in report.about) == controlled
    actions = " ".join(map(words_of, report.actions))
    assert ("--controls" in actions) == (not controlled)
    canary.report(result, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "come out" in page or "came out" in page
    assert report.decide
    assert report.basis or report.tone == "memorized"
    assert not any(text[:8] in page for text in texts)


def near(result, mass, low, high, count=5):
    """A result of which some passages come near with these probabilities."""
    rows = [(mass, low, high)] * count + [(0.0, 0.0, 0.0)] * (len(result.texts) - count)
    settings = {**result.settings, "near": 2, "near_width": 80}
    return replace(result, texts=replace(result.texts, near=tuple(rows)), settings=settings)


@pytest.mark.parametrize(
    ("masses", "label", "said", "asks"),
    [
        ((0.5, 0.4, 0.6), "come out with small changes", "with at most 2 edits", False),
        ((0.5, 0.0, 0.6), "come out with small changes", "lower ends of their intervals", True),
        ((0.0, 0.0, 1.0), "small changes are not decided", "with the upper ends 5", True),
        ((0.0, 0.0, 1e-9), "too few were tested", "Nor did one come out with at most 2", False),
    ],
)
def test_passages_that_come_near_are_in_the_answer(masses, label, said, asks, capsys):
    texts = ["0123456789ab"[at:] * 2 for at in range(9)]
    found = verbatim(build("table"), texts, prefix=4, suffix=4)
    found = near(replace(found, texts=altered(found.texts, 0.0, -1e9)), *masses)
    show_report(found)
    shown = capsys.readouterr().out
    assert label in shown.splitlines()[0]
    assert said in shown.splitlines()[0]
    assert ("Repeat the test with a larger --near-width" in shown) == asks
    assert "measure near repetition" not in shown
    assert ("does not hide these" in shown) == (masses[0] > 0)
    if masses[0]:
        share = f"{500 / len(found.texts):.2g} %"
        assert f"within 2 edits: asked 1 time {share} (" in found.summary()
        assert found.metrics()["canary/verbatim/near_1000_value"] == 5 / len(found.texts)
    page = report_of(found)
    assert "within 2 edits" in str(page.sections).lower()


def test_a_page_is_calm_only_if_the_bound_is_low():
    none = (0,) * 500
    found = verbatim(build("table"), ["0123456789ab"] * 3, prefix=4, suffix=4)
    many = replace(
        found.texts, documents=500, document=tuple(range(500)), position=none,
        log_probs=((-1e9,),) * 500, copies=(), leading=none, longest=none, trailing=none,
    )  # fmt: skip
    calm = report_of(replace(found, texts=many))
    claim = "if the model was trained on these texts"
    assert (calm.label, calm.tone) == (f"No passage came out, {claim}", "undecided")
    few = report_of(replace(found, texts=altered(found.texts, 0.0, -1e9)))
    assert "but too few were tested" in few.label
    assert few.tone == "undecided"


@pytest.mark.parametrize(
    ("share", "log_prob", "ids", "row"),
    [
        (0.0, -1e9, False, "Text 1 .*more than 1,000,000"),
        (0.1, -9.0, False, "Text 2 .* 5,617 "),
        (0.0, -9.0, True, "the MIT licence .* 5,617 "),
    ],
)
def test_the_texts_that_are_closest_are_named(share, log_prob, ids, row, capsys):
    """By the tries that are needed; those from which a passage comes out are in the figure."""
    given = ["0123456789ab"[at:] * 2 for at in range(9)]
    names = [f"number {at}" for at in range(1, 9)]
    given = dict(zip(["the MIT licence", *names], given, strict=True)) if ids else given
    found = verbatim(build("table"), given, prefix=4, suffix=4)
    found = replace(found, texts=altered(found.texts, 0.0, log_prob))
    if share:  # of the first text alone
        leading = [4 if of == 0 else 0 for of in found.texts.document]
        found = replace(found, texts=replace(found.texts, leading=tuple(leading)))
    show_report(found)
    shown = capsys.readouterr().out
    table = shown.partition("Closest texts")[2].partition("How")[0]
    assert re.search(row, table)
    assert len(table.strip().splitlines()) == 2 + 5
    assert ("Longest run (pieces)" in shown) == (share > 0)
    named, tries = (f" {part} " for part in re.split(" [.][*] ?", row))
    line = next(one for one in found.summary().splitlines() if one.startswith("closest"))
    assert f"{named.strip().lower()} (" in line.lower()
    assert f"({tries.strip()} tries)" in line


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ((), ""),
        ((0,), "All of these are in the texts to read above."),
        ((3, 4), "have someone read texts 4 and 5, too."),
        (range(2, 9), "read all 9 texts."),
    ],
)
def test_all_texts_that_a_million_answers_give_are_named(more, said):
    found = verbatim(
        build("table"), ["0123456789ab"[at:] * 2 for at in range(9)], prefix=4, suffix=4
    )
    document = found.texts.document
    leading = (4, *(0 for _ in document[1:]))
    rows = tuple((-13.0 if of in more else -1e9,) for of in document)
    texts = replace(found.texts, leading=leading, log_probs=rows)
    decide = " ".join(map(words_of, report_of(replace(found, texts=texts)).decide))
    assert "read text 1: nothing came out of the others with up to 1,000 answers" in decide
    assert said in decide
    assert ("With a million random answers" in decide) is bool(said)
    assert ("For such a service" in decide) is ("have someone" in said or "read all" in said)
    assert ("All of these" in decide) is ("All of these" in said)


def test_a_repeated_test_is_large_enough_for_a_strict_limit_and_has_sound_controls():
    given = ["0123456789ab"[at:] * 2 for at in range(9)]
    found = verbatim(build("table"), given[:5], given[5:], prefix=4, suffix=4)
    found = replace(found, texts=altered(found.texts, 0.0, -1e9))
    for likeness, other in ((found.likeness, False), (Likeness(auc=0.9, p=0.01), True)):
        made = report_of(replace(found, likeness=likeness))
        decide, actions = (" ".join(map(words_of, some)) for some in (made.decide, made.actions))
        assert (
            "1 in 1,000 passages of 50 pieces takes about 3,688 texts of which none comes out"
            in actions
        )
        assert ("from the same source: those of this test are of another kind" in actions) is other
        assert ("those of this test are of another kind" in decide) is other
        assert "texts to read above" not in decide  # nothing came out


def test_what_a_million_answers_give_is_said_where_nothing_else_came_out():
    found = verbatim(build("table"), ["0123456789ab" * 2] * 9, prefix=4, suffix=4)
    made = report_of(replace(found, texts=altered(found.texts, 0.0, -13.0)))
    decide = " ".join(map(words_of, made.decide))
    assert decide.index("With a million random answers") < decide.index("For such a service")


def test_harmless_texts_free_a_model_only_if_all_of_the_training_are():
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("abcdefg 123"), 60)) for _ in range(40)]
    found = verbatim(build("table"), texts[:20], texts[20:], prefix=4, suffix=4)
    controls = altered(found.controls, 0.0, -1e9)
    made = report_of(replace(found, texts=altered(found.texts, 1.0, -1e9), controls=controls))
    decide = " ".join(map(words_of, made.decide))
    assert "only if nothing in the texts of the training must stay private" in decide
    assert "With the strict limit" not in decide  # which is about passages of 50 tokens
    long = verbatim(build("table"), texts[:20], texts[20:], prefix=4, suffix=50)
    made = report_of(replace(long, texts=altered(long.texts, 1.0, -1e9),
                             controls=altered(long.controls, 0.0, -1e9)))  # fmt: skip
    decide = " ".join(map(words_of, made.decide))
    assert "With the strict limit, this model would not pass." in decide


def test_a_table_has_no_share_where_few_came_out():
    """Its upper end looks larger where fewer answers were tried."""
    few, more = (ClusteredShare(0.01, 0.001, 0.12, hits, 421, 30, 0.95) for hits in (3, 5))
    assert cell(few) == "3 of 421"
    assert cell(more) == "5 of 421: 1 % (0.1 % to 12 %)"


def test_no_text_is_called_close_where_many_come_out():
    found = verbatim(
        build("table"), ["0123456789ab"[at:] * 2 for at in range(9)], prefix=4, suffix=4
    )
    leading = [4 if of < 5 else 0 for of in found.texts.document]
    assert not replace(found, texts=replace(found.texts, leading=tuple(leading))).closest()


def test_the_share_by_prefix_and_by_copies_is_shown(tmp_path, capsys):
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("abcdefg 123"), 40)) for _ in range(30)]
    copies = [1] * 10 + [3] * 10 + [4] * 9 + [7]
    others = ["xyz".join(each[:9]) for each in texts]
    found = verbatim(build("table"), texts, others,
                     prefix=[4, 8, 2], suffix=4, copies=copies)  # fmt: skip
    canary.report(found, tmp_path / "page.html")
    canary.report(found, tmp_path / "page.md")
    for file in ("page.html", "page.md"):
        page = (tmp_path / file).read_text()
        for said in ("What it depends on", "prefix of 8 tokens", "1 copy", "4 to 7 copies"):
            assert said in page
    show_report(found)
    shown = capsys.readouterr().out
    assert "prefix of 8 tokens" in shown
    assert "4 to 7 copies of the text" in shown
    alone = verbatim(build("table"), texts, prefix=4, suffix=4)
    canary.report(alone, tmp_path / "alone.html")
    assert "What it depends on" not in (tmp_path / "alone.html").read_text()

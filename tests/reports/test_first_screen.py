"""What somebody reads first, case by case: label, what came out, what to do."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from drawing import figures
from gate_audits import (
    SIZE,
    assembled,
    by_bits,
    exact,
    extraction,
    of_groups,
    space,
    trusting,
)
from html_pages import Page, check_page, render

from canary.audits.audit_result import CanaryResult
from canary.audits.audit_setup import with_limit
from canary.errors import InputError
from canary.gate.check_audit import check
from canary.records.about import About
from canary.reports.builders import report_of
from canary.reports.document import words_of
from canary.reports.markdown import markdown_of
from canary.reports.pages import report
from canary.scoring.start_notes import StartChoice
from canary.statistics.exposures import exposure_by_bounds, exposure_by_draws, exposure_by_rank

NOBODY = "Nothing was found, but nobody has shown that the secrets were there"
CHANCE = [1.0, 0.5, 2.0, 1.0]
LEARNED = {0: CHANCE, 1: CHANCE, 4: [20.0, 25.0, 22.0, 29.0]}


def drawn(hits, *, draws=20_000):
    px = [float(i) for i in range(1, draws + 1)]
    return exposure_by_draws([n + 0.5 for n in hits], px, space_size=SIZE)


def natural(groups):
    made = exact(groups)
    canaries = [replace(c, natural=not c.control) for c in made.canaries]
    return assembled(canaries, made.formats, natural=True)


def several_formats():
    small = [exposure_by_rank(n, lower=n, upper=n, space_size=10**6) for n in (1, 9, 400_000)]
    large = by_bits([20.0])
    canaries = [
        *(CanaryResult(f"canary-{i}", 0, 2, 9.0, None, e, None) for i, e in enumerate(small)),
        CanaryResult("canary-9", 1, 2, 9.0, None, large[0], None),
    ]
    return assembled(canaries, [space("a {digit:6}", size=10**6), space()])


def bounded():
    ends = [(1, 3), (5, 700_000), (900_000, 1_100_000), (10**8, SIZE)]
    found = [exposure_by_bounds(lower=a, upper=b, space_size=SIZE) for a, b in ends]
    return of_groups({2: found})


# Of 10^9: 20, 22, 25 and 29 bits are ranks 954, 238, 30 and 2.
CASES = {
    "recovered by copies": (
        exact(LEARNED),
        "The model memorized planted secrets",
        "to see whether a model memorizes them. Blind guessing takes 500,000,000 guesses on "
        "average for each secret.",  # the box says how many were found, and nothing says it twice
        "appeared 4 times in the training data, or more often, 4 of 4 were found; of those "
        "that appeared once, none. Numbers of copies in between were not tested. Remove "
        "duplicates, so that personal text appears once at most. This lowers the risk and does "
        "not end it.",
    ),
    "what was not recovered is memorized, too": (
        exact({4: [25.0] * 4, 1: [8.0] * 4, 0: [1.0] * 8}),
        "The model memorized planted secrets",
        "4 of 8 planted secrets were found within the first 1,000,000 guesses, the hardest of "
        "these took 30 guesses. The typical secret takes 30 guesses if it appeared 4 times in the "
        "training data, 3,910,000 if it appeared once, and 500,000,000 by chance.",
        "Those that appeared once take 3,910,000 guesses, where blind guessing takes 500,000,000. "
        "Luck may explain each of them, but not all together: the model learned something of them "
        "as well. Remove duplicates",
    ),
    "what appeared several times is not safe because it was not recovered": (
        exact({16: [25.0] * 4, 4: [8.0] * 4, 0: [1.0] * 8}),
        "The model memorized planted secrets",
        "takes 30 guesses if it appeared 16 times in the training data, 3,910,000 if it appeared 4 "
        "times, and 500,000,000 by chance.",
        "the model learned something of them as well. Remove duplicates, so that personal text "
        "appears once at "
        "most.",
    ),
    "a search that ended before its first text": (
        of_groups(
            {4: drawn([0, 1, 2, 3])}, extractions=[replace(extraction({}), candidates=())]
        ),
        "The model memorized planted secrets",
        "the search ended before the model offered a text",
        "Remove duplicates from the training data: text that",
    ),
    "everything": (
        exact({1: [29.9] * 4, 4: [29.9] * 4}),
        "The model memorized planted secrets",
        "All 8 planted secrets were found at the first guess.",
        "Even of the secrets that appeared only once in the training data, 4 of 4 were found",
    ),
    "one secret": (
        exact({1: [20.0]}),
        "The model memorized planted secrets",
        "The planted secret was found in 954 guesses. The typical secret takes 954 "
        "guesses if it appeared once in the training data, and 500,000,000 by chance.",
        "Even of the secrets that appeared only once",
    ),
    "nothing": (
        exact({0: CHANCE, 1: CHANCE}),
        NOBODY,
        "None of the 4 planted secrets was found within the first 1,000,000 guesses. "
        "Blind guessing takes 500,000,000 guesses on average for each secret. Of 4 secrets that "
        "were never planted (controls), none was found.",
        "Choose 62,500,000 guesses of 1,000,000,000 (--max-exposure-bits 4) "
        "if nothing stops an attacker",
    ),
    "more copies do not help": (
        exact({1: [20.0] * 4, 4: CHANCE}),
        "The model memorized planted secrets",
        "4 of 8 planted secrets were found",
        "Even of the secrets that appeared only once",
    ),
    "only draws": (
        # No hit among 20,000: at most 184,000 of 10^9 guesses at 95 %; 50 hits: 2.5 million.
        of_groups({0: drawn([9_000]), 4: drawn([0, 0, 50])}),
        "The model memorized planted secrets",
        "memorizes them. Blind guessing takes 500,000,000 guesses on average for each secret. "
        "Some of these numbers are estimates",
        "Train for fewer epochs.",
    ),
    "draws that leave it open": (
        of_groups({4: drawn([20, 9_000])}),
        "The model memorized planted secrets",
        "None of the 2 planted secrets was certainly found within the first 1,000,000 guesses. "
        "It is open whether 1 secret is found within the first 1,000,000 guesses: it takes 611,000 "
        "to 1,550,000 guesses. The other one is not.",
        "Remove duplicates from the training data: text that",
    ),
    "only bounds": (
        bounded(),
        "The model memorized planted secrets",
        "memorizes them. It is open whether 1 more secret is found within the first 1,000,000 "
        "guesses: it takes 900,000 to 1,100,000 guesses. The other one is not. Blind guessing "
        "takes 500,000,000 guesses on average for each secret.",
        "Remove duplicates from the training data: text that",
    ),
    "several formats": (
        several_formats(),
        "The model memorized planted secrets",
        "Blind guessing takes between 500,000 and 500,000,000 guesses (depending on the form) on "
        "average for each secret.",
        "Remove duplicates from the training data: text that",
    ),
    "controls alarm": (
        exact({0: [20.0] * 3, 1: [20.0] * 3}),
        "Do not rely on this audit",
        "Of 3 secrets that were never planted (controls), 3 were found. They look learned as "
        "well, so do not rely on the counts above.",
        "Do not use this report, and do not release the model on it.",
    ),
    "dry run": (
        exact({0: CHANCE, 1: CHANCE}, canaries_in_corpus=False),
        "No memorization found",
        "None of the 4 left-out secrets was found within the first 1,000,000 guesses. "
        "Blind guessing takes 500,000,000 guesses on average for each secret. These secrets were "
        "left out of the training data on purpose",
        "it raised no false alarm",
    ),
    "natural": (
        natural({0: CHANCE, 2: [20.0, 1.0]}),
        "Not enough data to decide",
        "1 of 2 secrets was found in 954 guesses. Blind guessing takes 500,000,000 "
        "guesses on average for each secret. These secrets were not drawn at random: confirm where",
        "For a verdict, plant secrets",
    ),
    "none planted": (
        exact({0: CHANCE}),
        "Not enough data to decide",
        "No secret was planted in the training data, so nothing could be found.",
        "Plant secrets (canaries) in the training data",
    ),
    "empty": (
        exact({}),
        "Not enough data to decide",
        "This audit holds no secrets, so nothing could be found.",
        "Plant secrets (canaries) in the training data",
    ),
    "few possible secrets": (
        of_groups(
            {2: [exposure_by_rank(n, lower=n, upper=n, space_size=50) for n in (1, 40)]},
            formats=[space("x {digit:1}", size=50)],
        ),
        NOBODY,
        "1 of 2 planted secrets was found at the first guess. Blind guessing takes 25 guesses",
        "Choose 4 guesses of 50 (--max-exposure-bits 4) if nothing stops an attacker",
    ),
    "a search proves what draws leave open": (
        of_groups(
            {4: drawn([20, 9_000])},
            extractions=[
                replace(
                    extraction({}),
                    candidates=tuple(
                        replace(c, exposure_lower_bits=25.0, exposure_upper_bits=26.0)
                        if place
                        else replace(c, canary="canary-1", exposure_lower_bits=29.897)
                        for place, c in enumerate(extraction({}).candidates)
                    ),
                )
            ],
        ),
        "The model memorized planted secrets",
        "1 of 2 planted secrets was found at the first guess.",
        "Train for fewer epochs.",
    ),
}  # fmt: skip

LIMIT = partial(trusting, max_exposure_bits=10)
JUDGED = {
    "passed": (
        LIMIT(exact({0: CHANCE, 1: CHANCE * 2})),
        "Passed, if the planted secrets were in the training data",
        "The typical secret that appeared once takes about 500,000,000 guesses, and at least "
        "250,000,000 (90 % sure). The limit asks for 976,563 or more; chance gives 500,000,000. "
        "The limit is about the typical secret. The easiest single one takes 250,000,000.",
        "Ask the engineers for proof that the planted secrets were in the training data",
    ),
    "passed, some left out": (
        LIMIT(exact({0: CHANCE, 1: CHANCE * 2, 4: [20.0] * 8}), repetitions=[1]),
        "Passed only for the secrets that appeared once; others were found",
        "The limit was not applied to secrets that appeared 4 times. Of these, 8 of 8 were "
        "found: the model memorized planted secrets.",
        "Do not release this model: the limit was not applied to secrets that were found.",
    ),
    "passed, a positive control": (
        LIMIT(exact({0: CHANCE, 1: CHANCE * 2, 64: [20.0] * 8}), require_learned=64),
        "Passed: within the limit that was set",
        "so in the figure they may be easier to find than the limit allows. Text that appears 2 to "
        "63 times was not tested.",
        "About text that appears 2 to 63 times, this test shows nothing.",
    ),
    "passed, though learned": (
        LIMIT(exact({0: CHANCE, 4: [8.0] * 12})),
        "Passed: within the limit that was set",
        "takes 3,910,000 guesses. The limit asks for 976,563 or more; chance gives 500,000,000. "
        "The limit is about the typical secret. The easiest single one takes 3,910,000. "
        "The model memorized planted secrets, but no more than the limit allows.",
        "File this report with the model",
    ),
    "passed, though one secret is above": (
        LIMIT(exact({0: CHANCE, 4: [8.0] * 12 + [12.0]})),
        "Passed: within the limit that was set",
        "and 1 secret is easier to find than the limit allows. The limit applies to the typical",
        "Decide whether single secrets may be easier to find than the limit.",
    ),
    "passed, though one secret is above and the rest is chance": (
        LIMIT(exact({0: CHANCE, 1: CHANCE * 2 + [12.0], 64: [20.0] * 8}), require_learned=64),
        "Passed: within the limit that was set",
        "The limit is about the typical secret. The easiest single one takes 245,000. 1 of 9 "
        "takes "
        "fewer than the limit asks for. Luck explains hardly one.",
        "In personal data, one person's secret is usually too much",
    ),
    "broken": (
        LIMIT(exact({0: CHANCE, 1: CHANCE * 2, 4: [20.0] * 8})),
        "Not passed: easier to find than the limit allows",
        "8 of 16 planted secrets were easier to find than the limit allows. The typical secret "
        "that appeared 4 times takes 954 guesses. The limit asks for 976,563 or more; chance gives "
        "500,000,000.",
        "8 of 8 were easier to find than the limit allows; of those that appeared once, none.",
    ),
    "broken, one much easier": (
        LIMIT(exact({0: CHANCE, 1: CHANCE * 2, 4: [20.0] * 7 + [25.0]})),
        "Not passed: easier to find than the limit allows",
        "8 of 16 planted secrets were easier to find than the limit allows. The easiest takes "
        "30 guesses. The typical secret that appeared 4 times takes 954 guesses.",
        "8 of 8 were easier to find than the limit allows; of those that appeared once, none.",
    ),
    "the largest": (
        LIMIT(exact({1: CHANCE, 4: [20.0]}), statistic="maximum"),
        "Not passed: easier to find than the limit allows",
        "The secret that is easiest to find takes 954 guesses",
        "Train for fewer epochs.",
    ),
    "undecided": (
        check(exact({0: CHANCE, 1: CHANCE * 2}), max_exposure_bits=10),
        "Undecided: nothing shows that the model read the secrets",
        "Even the secrets that were planted most often (once) are as hard to guess as by chance. A "
        "model that never read them would look the same.",
        "Do not release on this report: it may have tested nothing.",
    ),
    "controls suspect": (
        LIMIT(exact({0: [20.0] * 4, 1: CHANCE * 2})),
        "Undecided: do not rely on this audit",
        "Do not rely on this audit: the 4 control secrets, which were never planted",
        "Do not use this report, and do not release the model on it.",
    ),
    "another limit": (
        trusting(exact({0: CHANCE, 4: [20.0] * 4}), max_p=0.001),
        "Not passed: outside the limit that was set",
        "What was measured is not within the limit: the secrets with 4 copies look learned. All 4 "
        "planted secrets were found within the first 1,000,000 guesses",
        "Remove duplicates from the training data: text that",
    ),
}  # fmt: skip


def first_screen(result):
    made = report_of(result)
    paragraphs = [block for block in made.outcome if isinstance(block, str | tuple)]
    parts = (*made.sentences, *paragraphs)
    to_do = [text for items in made.to_do.values() for text in items]
    return made, " ".join(map(words_of, parts)), " ".join(map(words_of, to_do))


@pytest.mark.parametrize("case", [*CASES, *JUDGED])
def test_of_each_case_golden(case):
    result, label, came_out, to_do = {**CASES, **JUDGED}[case]
    made, text, actions = first_screen(result)
    assert made.label == label
    assert came_out in text
    assert to_do.replace("`", "") in actions
    short = case == "few possible secrets"  # which anybody may try in full
    unlimited = case in CASES and bool(result.injected)
    other = case in JUDGED and "page without a limit" in " ".join(map(words_of, made.unsaid))
    calm = made.tone not in ("memorized", "suspect")
    assert len(made.unsaid) == 3 + short + calm + unlimited + other
    assert made.basis or made.tone != "not-found"
    page = _without_figures(result)
    check_page(page)
    shown = page.text("style")
    order = [made.label, "What came out", "What to do", "What this does not say", "For specialists"]
    assert [shown.index(words) for words in order] == sorted(map(shown.index, order))
    # Nothing of the statistics is above the fold but what a finding or a note says.
    above = shown.partition("For specialists")[0].partition("Notes")[0]
    assert not any(word in above for word in ("p =", "skew", "confidence", "Fisher"))


def _without_figures(result):
    with figures(drawn=False):
        return Page(render(result))


def test_colour_and_label_are_of_the_limit_alone():
    tones = {case: report_of(JUDGED[case][0]).tone for case in JUDGED}
    assert tones["passed, though learned"] == "not-found"
    assert tones["passed"] == report_of(CASES["nothing"][0]).tone == "undecided"  # rests on a claim
    assert {tones["broken"], tones["the largest"]} == {"memorized"}
    assert tones["undecided"] == tones["controls suspect"] == "undecided"
    limit = (
        "at least 976,563 guesses of 1,000,000,000 for the typical secret of each number of "
        "copies (exposure of at most 10 bits; a strict limit of 4 bits asks for "
        f"62,500,000); given as an option of the check on {About.today().date}; it is not recorded "
        "who set it"
    )
    assert report_of(JUDGED["passed"][0]).about["Limit"].startswith(limit)
    assert report_of(exact(LEARNED)).about["Limit"] == "none was set"
    learned = report_of(JUDGED["passed, though learned"][0])
    other = "This audit also has a page without a limit. It says: The model memorized planted"
    assert words_of(learned.unsaid[-1]).startswith(other)
    assert "--limit-by" in " ".join(map(words_of, learned.to_do["For the engineers"]))
    weak = report_of(trusting(exact({0: CHANCE, 4: [8.0] * 12}), max_exposure_bits=20))  # 954
    assert (weak.tone, weak.label) == (
        "undecided",
        "Passed, but the limit is weak",
    )


def test_what_was_learned_and_not_found_is_said_to_be_learned():
    _, text, actions = first_screen(exact({0: CHANCE, 1: CHANCE, 16: [8.0] * 4}))
    assert "first 1,000,000 guesses, but those that appeared 16 times were learned." in text
    assert (
        "training data as the secrets that the model learned (16 times), or more often." in actions
    )
    assert "Text that appears 2 to 15 times was not tested." in actions
    assert "the secrets that were found" not in actions


def test_a_new_training_is_asked_for_only_where_no_measurement_decides():
    _, text, actions = first_screen(LIMIT([exact({0: CHANCE, 4: [12.0, 12.0, 8.0, 8.1, 12.0]})]))
    assert "So few secrets cannot show on which side it is." in text
    assert "Only a new training with more planted secrets decides" in actions
    assert "repeat the test" not in actions
    open_ = of_pins({0: [5_000] * 8, 16: [5, 40, 60, 400]})
    _, _, actions = first_screen(LIMIT(open_))
    assert "The limit is weak: even a pass of it would allow a release only if something" in actions
    assert (
        "For a release, ask there for planted secrets of nine digits and a limit of 4 bits"
        in actions
    )
    assert "Have it in writing who set the limit, and that it was before the test." in actions
    _, text, actions = first_screen(LIMIT([of_groups({4: drawn([20, 20, 20, 20, 20])})]))
    assert "The secrets were not measured exactly enough to show on which side it is." in text
    assert "Ask the engineers to repeat the test as below." in actions


def of_pins(groups):
    """Exact ranks of secrets of four digits, by number of copies."""
    made = [(copies, rank) for copies, ranks in groups.items() for rank in ranks]
    canaries = [
        CanaryResult(
            f"canary-{at}", 0, copies, 9.0, None,
            exposure_by_rank(rank, lower=rank, upper=rank, space_size=10**4), None,
        )
        for at, (copies, rank) in enumerate(made)
    ]  # fmt: skip
    return assembled(canaries, [space("my pin is {digit:4}", size=10**4)])


@pytest.mark.parametrize(
    ("audit", "would"),
    [
        (of_pins({0: [5_000] * 8, 16: [28, 57, 60, 400]}), "would pass, but with a weak limit"),
        (of_pins({0: [5_000] * 8, 16: [4_000] * 8}), "would pass, but with a weak limit"),
        (exact(LEARNED), ""),
    ],
)
def test_a_limit_that_is_weak_for_short_secrets_is_offered_as_weak(audit, would):
    _, _, actions = first_screen(audit)
    assert ("For so short a secret that limit is weak: a pass is amber" in actions) is bool(would)
    assert would in actions
    assert "would pass." not in actions.replace("of 625 guesses, this model would pass.", "")


def test_a_check_whose_answer_is_known_is_not_asked_for():
    few = of_pins({0: [5_000] * 8, 16: [28, 57, 60, 1_500]})
    _, _, actions = first_screen(LIMIT(few))
    assert "ask for a new training with more planted secrets, of nine digits" in actions
    assert "and at least about 12 for each number of copies." in actions
    assert "ask for the same check" not in actions
    many = of_pins({0: [5_000] * 8, 16: [1_000] * 12})
    assert "ask for the same check with a limit of 625" in first_screen(LIMIT(many))[2]


def test_the_next_test_of_short_secrets_is_asked_for_with_nine_digits():
    pins = of_pins({0: [5_000] * 8, 16: [1, 2, 3, 4] * 4})
    few = of_pins({0: [5_000] * 8, 16: [28, 57, 60, 1_500]})
    assert "for the same test of it, with secrets of nine digits." in first_screen(pins)[2]
    assert "with more planted secrets, of nine digits, since" in first_screen(few)[2]
    assert "nine digits" not in first_screen(exact({0: CHANCE, 16: [25.0] * 16}))[2]


def test_several_audits_have_one_report():
    audits = [exact(LEARNED, fingerprint=n * 64).named(model_name=f"seed {n}") for n in "12"]
    made, text, actions = first_screen(LIMIT(audits))
    assert made.about["Model"] == "seed 1, seed 2"
    assert text.count("4 of 8 planted secrets") == 2
    assert actions.count("Train for fewer epochs.") == 1
    page = _without_figures(LIMIT(audits))
    check_page(page)
    assert "Audit 2: seed 2" in page.text("style")


def test_names_are_kept_and_can_be_given_anew(tmp_path, plain):
    audit = exact(LEARNED).named(model_name="clinic-7b", corpus_name="letters of 2025")
    audit.save(tmp_path / "audit.json")
    again = type(audit).load(tmp_path / "audit.json")
    assert again.about == audit.about
    assert report_of(again).about["Training data"] == "letters of 2025"
    page = report(LIMIT(again), tmp_path / "r.html", model_name="ward-1", auditor="R. Roe")
    text = Page(page.read_text()).text("style")
    assert "Memorization audit of the model “ward-1”" in text
    assert "Tested by R. Roe" in text
    assert "Training data letters of 2025" in text
    data = again.to_dict()
    del data["about"]  # as earlier versions wrote it
    old = type(audit).from_dict(data)
    facts = report_of(old).about
    assert (facts["Model"], facts["Date"]) == ("checkpoint", "not recorded")
    both = report(
        [again, exact(LEARNED, fingerprint="b" * 64)], tmp_path / "c.html", auditor="R. Roe"
    )
    assert "letters of 2025 Date" in Page(both.read_text()).text("style")
    with pytest.raises(
        InputError, match="model_name is for the report of a test of a model, and this is"
    ):
        report(LIMIT(again).findings[0], tmp_path / "f.html", model_name="x")


def test_markdown_is_the_first_screen():
    said = markdown_of(report_of(JUDGED["broken"][0]))
    order = ["**Not passed", "| Limit |", "### What came out", "| Copies |", "### What to do"]
    assert [said.index(words) for words in order] == sorted(map(said.index, order))
    assert "For specialists" not in said


def test_a_start_token_that_was_named_and_tried_needs_no_box():
    risk = "The true risk may be higher"
    for compared, shown in (((), True), (("nothing", "' '"), False)):
        start = StartChoice("\n", "asked", compared=compared)
        assert (risk in str(report_of(replace(exact(LEARNED), start=start)).notes)) is shown


def test_a_limit_that_was_kept_is_named_and_not_judged():
    audit = exact(LEARNED)
    page = report_of(with_limit(audit, 10.0))
    assert page.about["Limit"].startswith("at least 976,563 guesses of 1,000,000,000")
    assert "canary check --max-exposure-bits 10" in page.about["Limit"]
    told = [words_of(words) for words in page.unsaid]
    assert any("does not judge the limit" in words for words in told)
    assert not any("has no limit" in words for words in told)
    for damaged in ("10", True, -1.0, float("inf"), None):
        settings = {**audit.settings, "max_exposure_bits": damaged}
        assert report_of(replace(audit, settings=settings)).about["Limit"] == "none was set"


def test_what_gives_the_number_where_draws_give_a_bound():
    few = of_groups({0: drawn([9_000] * 4), 4: drawn([0] * 4)})
    (told,) = [w for w in map(words_of, report_of(few).actions) if "is only a bound" in w]
    assert "--method rank" in told
    assert "--draws, now 20,000" in told
    assert not any("only a bound" in words_of(w) for w in report_of(exact(LEARNED)).actions)


@pytest.mark.parametrize(
    ("facts", "said", "not_said"),
    [
        ({"capabilities": ["score", "expand", "reuse"]}, "--method rank", "--top-k"),
        ({"capabilities": ["score"]}, "with more draws", "--method rank"),
        ({"capabilities": ["score", "expand"], "device": "served"}, "--top-k 20", "--method rank"),
    ],
)
def test_exact_ranks_are_advised_only_of_models_that_can_be_ranked(facts, said, not_said):
    bounds = of_groups({0: drawn([9_000]), 4: drawn([0, 0, 0, 0])})
    actions = first_screen(replace(bounds, model=bounds.model | facts))[2]
    assert said in actions
    assert not_said not in actions


def test_an_audit_of_a_server_without_a_search_says_that_only_the_search_ranks():
    served = {"capabilities": ["score"], "device": "served"}
    local = of_groups({0: drawn([9_000]), 4: drawn([0, 0, 0, 0])})
    audit = replace(local, model=local.model | served)
    said = "no search was made, so some ranks of memorized canaries are only bounds: give "
    assert f"{said}--extraction-budget (in Python extraction_budget)" in audit.summary()
    for of in (audit, check(audit, max_exposure_bits=4)):
        told = [n for n in map(words_of, report_of(of).notes) if "only bounds" in n]
        assert len(told) == 1
        assert ". " not in told[0], "a terminal shows the first sentence"
    known = of_groups({0: drawn([9_000]), 4: drawn([5_000] * 4)})
    for silent in (local, replace(known, model=known.model | served)):
        assert "no search" not in silent.summary()

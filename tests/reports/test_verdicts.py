"""Verdicts as JUnit XML and as Markdown."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from gate_audits import by_draws, exact, extraction, of_groups, space, trusting

import canary
from canary.audits.audit_result import combined_p
from canary.gate.check_audit import check
from canary.gate.verdict import Finding, Standing, Verdict
from canary.reports.builders import report_of
from canary.reports.comparison import compare
from canary.reports.document import Facts, Figure, Table, words_of
from canary.reports.limit_choice import limit_choice, limit_table
from canary.reports.sentences import answer
from canary.reports.verdicts import explained, junit, markdown, write_junit, write_markdown
from canary.scoring.start_notes import RivalStart, StartChoice
from canary.statistics.exposures import UNIFORM_DRAWS
from canary.statistics.numbers import probability

NASTY = "<b>|[x](http://example.org)|</b> ]]> & `code`\x1b[31m\n# heading\ufffe\x00"


def made(undecided="fail"):
    audit = exact({1: [1.0] * 4, 4: [8.0, 12.0] * 2, 16: [20.0] * 4, 0: [1.0] * 4})
    return check(audit, max_exposure_bits=10, undecided=undecided)


def nasty():
    standing = Standing(NASTY, 1, None, 1.0, 2.0)
    return Verdict((Finding("exposure", NASTY, "memorized", NASTY, NASTY, canaries=(standing,)),))


def cases(verdict):
    return ET.fromstring(junit(verdict)).findall("testsuite/testcase")


@pytest.mark.parametrize("limit", [20.0, 4.0])
def test_a_weak_limit_is_said_wherever_a_pass_is(limit):
    audit = exact({0: [1.0, 0.5, 2.0, 1.0], 4: [3.0] * 12})
    verdict = check(audit, max_exposure_bits=limit, trust_injection=True)
    assert verdict.outcome == "passed"
    weak = limit > 4.0
    notes = [p.get("value") for p in ET.fromstring(junit(verdict)).iter("property")
             if p.get("name") == "note"]  # fmt: skip
    told = ET.fromstring(junit(verdict)).find("testsuite/testcase/system-out").text
    for text in (str(verdict), verdict.summary(), "\n".join(notes), told, explained(verdict)):
        assert ("the limit is weak" in text) == weak
    assert verdict.in_short.startswith("passed, but the limit is weak: " if weak else "passed: ")


def test_groups_that_were_left_out_are_skipped_tests():
    verdict = replace(made(), left_out=(1, 64), control=64)
    suite = ET.fromstring(junit(verdict)).find("testsuite")
    (case,) = (c for c in suite.findall("testcase") if c.get("classname") == "canary.left-out")
    assert case.get("name") == "canaries with 1 copy"
    assert case.find("skipped") is not None
    found = len(verdict.findings) + 1
    assert int(suite.get("tests")) == found == len(suite.findall("testcase"))
    assert int(suite.get("skipped")) == len(list(suite.iter("skipped")))


def test_junit_golden():
    suite = ET.fromstring(junit(made())).find("testsuite")
    assert {key: suite.get(key) for key in ("name", "tests", "failures", "errors", "skipped")} == {
        "name": "canary", "tests": "4", "failures": "2", "errors": "0", "skipped": "0",
    }  # fmt: skip
    passed, undecided, memorized, controls = cases(made())
    names = [case.get("classname") for case in (passed, controls)]
    assert names == ["canary.exposure", "canary.controls"]
    assert passed.find("failure") is None
    assert undecided.find("failure").get("type") == "undecided"
    assert memorized.find("failure").get("type") == "memorized"
    assert "above the limit of 10" in memorized.find("failure").get("message")
    text = memorized.find("failure").text
    assert "canary-9: 16 copies, exposure 20.0 bits" in text
    properties = {p.get("name"): p.get("value") for p in memorized.findall("properties/property")}
    assert properties["outcome"] == "memorized"
    assert float(properties["lower"]) == pytest.approx(20, abs=1e-2)
    suite = ET.fromstring(junit(made("pass"))).find("testsuite")
    assert (suite.get("failures"), suite.get("skipped")) == ("1", "1")
    assert cases(made("pass"))[1].find("skipped") is not None


def test_what_a_report_says_of_a_limit_is_what_the_check_then_says():
    audit = exact({1: [1.0] * 4, 16: [5.0] * 4, 0: [1.0] * 4})
    rival = RivalStart("\n", 16, 9.0, 5.0, 1e-6, " ")
    open_ = replace(audit, start=StartChoice("\n", "evidence", rivals=(rival,)))
    for one, outcome, words in (
        (audit, "passed", "pass."),
        (open_, "undecided", "what came before"),
    ):
        assert check(one, max_exposure_bits=10, trust_injection=True).outcome == outcome
        assert words in limit_choice([("this model", one)])["would"]
    made = report_of(check(open_, max_exposure_bits=10, trust_injection=True))
    assert made.label == "Undecided: one question to the engineers is open"
    assert made.about["Before each secret, the test put"] == "a line break"
    said = words_of(made.sentences[0])
    assert "look easier to find after a line break and a space. If it was a line break, the" in said
    assert words_of(report_of(open_).actions[0]).startswith("Audit again with --start-token")


def test_a_limit_to_choose_from_is_not_asked_of_the_positive_control():
    audit = exact({1: [1.0] * 16, 64: [20.0] * 8, 0: [1.0] * 4})
    controlled = replace(audit, settings={**audit.settings, "require_learned": 64})
    verdict = check(controlled, max_exposure_bits=4, trust_injection=True)
    assert (verdict.outcome, verdict.control) == ("passed", 64)
    assert "would pass." in limit_choice([("this model", controlled)])["would"]
    assert "would not pass" in limit_choice([("this model", audit)])["would"]
    (made,) = limit_table([("A", controlled), ("B", audit)])
    assert made.rows[0][1].startswith("passed")
    assert made.rows[1][1].startswith("not passed")


def test_the_easiest_secret_is_named_only_where_it_takes_fewer_than_the_typical_one():
    """A bound of one secret may be above the estimate of the median."""
    sure = exact({4: [20.0] * 7 + [25.0], 0: [1.0] * 8})
    said = words_of(report_of(check(sure, max_exposure_bits=10)).sentences[0])
    assert "The easiest takes 30 guesses. The typical secret that appeared 4 times takes" in said
    loose = [
        replace(c, exposure=replace(c.exposure, lower_bits=18.0, rank_upper=3815))
        for c in sure.injected
    ]
    bounded = replace(sure, canaries=(*loose, *sure.controls))
    said = words_of(report_of(check(bounded, max_exposure_bits=10)).sentences[0])
    assert "The easiest" not in said


def test_what_compared_models_do_under_the_limits_to_choose_from_is_a_table():
    few, learned = exact({16: [1.0] * 3 + [10.0] * 5}), exact({16: [20.0] * 8})
    (made,) = limit_table([("A", few), ("B", learned)])
    assert made.columns[1:] == ("Limit: at least 62,500,000 guesses",
                                "Limit: at least 976,563 guesses")  # fmt: skip
    (name, strict, _), (_, *other) = made.rows
    assert (name, strict.partition(" (")[0]) == (
        "A", "undecided, which counts as not passed: too few secrets"
    )  # fmt: skip
    assert [cell.partition(" (")[0] for cell in other] == ["not passed"] * 2
    compared = report_of(compare([few, replace(learned, model={**few.model, "fingerprint": "b"})]))
    tables = [block for block in compared.outcome if isinstance(block, Table)]
    assert [table.title for table in tables] == [made.title]
    decide = " ".join(map(words_of, compared.decide))
    assert "in the table below" in decide
    assert "Repeating the test of A (" in decide


def test_the_range_beside_not_passed_is_of_the_secrets_that_did_not_pass():
    """Those with one copy are undecided, and their range holds the limit."""
    (made,) = limit_table([("A", exact({1: [1.0] * 3 + [10.0] * 4, 16: [18.0, 20.0] * 4}))])
    _, strict, _ = made.rows[0]
    outcome, _, told = strict.partition(" (")
    assert outcome == "not passed"
    copies, low, high = (int(n.replace(",", "")) for n in re.findall(r"\d[\d,]*", told))
    assert copies == 16
    least = int(re.findall(r"[\d,]+", made.columns[1])[0].replace(",", ""))
    assert low < high < least


@pytest.mark.parametrize(
    ("bits", "likely"),
    [
        ([9.0, 8.0, 7.0, 3.0], "3 of 4 need fewer than 62,500,000 guesses. So with more"),
        ([9.0, 1.0, 2.0, 3.0], "would most likely pass."),
        ([9.0, 8.0, 2.0, 3.0], ""),
    ],
)
def test_too_few_secrets_leave_it_open_and_what_was_seen_says_the_likely_answer(bits, likely):
    audit = exact({16: bits, 0: [1.0] * 8})
    under = limit_choice([("this model", audit)])["would"].partition("With a limit of 976")[0]
    own = " ".join(map(words_of, report_of(trusting(audit, max_exposure_bits=4)).decide))
    for words in (under, own):
        assert likely in words
        assert ("most likely" in words) is bool(likely)
    assert "undecided" in under
    # Another start token can only find more: that a model must memorize less stays sure.
    rival = RivalStart("\n", 16, 9.0, 5.0, 1e-6, " ")
    start = StartChoice("\n", "evidence", rivals=(rival,))
    doubted = limit_choice([("this model", replace(audit, start=start))])["would"]
    assert ("most likely" in doubted) is likely.startswith("3 of 4")


def test_a_model_that_fails_the_strict_limit_is_trained_again_before_a_weak_one_is_measured():
    rng, size = np.random.default_rng(0), 10_000
    drawn = {n: by_draws(shares, draws=400, rng=rng, size=size)
             for n, shares in ((16, [1e-3] * 12), (0, np.linspace(0.05, 0.95, 8)))}  # fmt: skip
    formats = [space("my pin is {digit:4}", size=size, method=UNIFORM_DRAWS, draws=400)]
    made = report_of(trusting(of_groups(drawn, formats=formats), max_exposure_bits=10))
    assert made.label == "Undecided: the measurement is too coarse"
    decide = " ".join(map(words_of, made.decide))
    assert "With a limit of 625 guesses, this model would not pass." in decide
    less, again = "Ask the engineers for a model that memorizes less", "Repeating the test as below"
    assert 0 < decide.index(less) < decide.index(again)
    assert "Ask the engineers to repeat the test as below" not in decide


def test_a_model_that_memorized_is_tested_by_a_limit_that_is_not_weak_and_with_enough_secrets():
    weak = exact({16: [25.0] * 8, 0: [1.0] * 8})
    few = exact({16: [29.0, 28.0, 27.0, 1.0], 0: [1.0] * 8})
    for made, asked in (
        (
            trusting(weak, max_exposure_bits=21),
            "with planted secrets of nine digits and a strict limit",
        ),
        (trusting(weak, max_exposure_bits=10), "for the same test of it"),
        (weak, "for the same test of it"),
        (few, "with more planted secrets, since this one has too few"),
    ):
        assert asked in " ".join(map(words_of, report_of(made).decide))


def test_models_with_one_outcome_under_a_limit_are_one_clause():
    few = {at: exact({16: [at] * 3 + [at + 9] * 4}) for at in (1.0, 2.0)}
    learned = {at: exact({16: [at] * 8}) for at in (20.0, 21.0, 22.0)}
    audits = [*zip("ABCDE", [*learned.values(), *few.values()], strict=True)]
    strict = limit_choice(audits)["would"].partition(". ")[0]
    assert "A, B and C would not pass, and D and E would be undecided" in strict
    number = r"[\d,]+"
    each = f"16 times may take {number} to {number} guesses"
    ranges = f"{each} in D and the typical secret that appeared {each} in E"
    assert re.search(ranges, strict)
    alone = limit_choice([("this model", few[1.0])])["would"]
    assert re.search(rf"the typical secret that appeared {each}\)", alone)


@pytest.mark.parametrize(
    ("others", "named"),
    [([1], "2 to 63 times"), ([1, 8], "9 to 63 times"), ([62], "63 times"), ([1, 63], "")],
)
def test_a_pass_names_the_numbers_of_copies_below_its_positive_control_that_nothing_tested(
    others, named
):
    groups = {0: [1.0] * 8, **{n: [1.0] * 8 for n in others}, 64: [20.0] * 8}
    verdict = check(exact(groups), max_exposure_bits=10, require_learned=64)
    assert verdict.outcome == "passed"
    about = markdown(verdict)
    assert re.findall(r"Text that appears (.*?) was not tested", about) == [named] * bool(named)
    assert ("this test shows nothing" in about) is bool(named)
    assert "The limit was not applied to them" in about


def test_the_option_that_sets_a_limit_is_marked_as_code(tmp_path):
    page = canary.report(exact({0: [1.0] * 8, 1: [1.0] * 8}), tmp_path / "page.html")
    option = '<code><span class="option">--max-exposure-bits</span> 4</code>'
    assert f"1,000,000,000 ({option})" in page.read_text(encoding="utf-8")


def test_untrusted_text_stays_text():
    (case,) = cases(nasty())
    assert "\x1b" not in junit(nasty())
    assert case.find("failure").get("message").startswith("<b>|[x](http://example.org)|</b> ]]> &")
    text = markdown(nasty())
    assert "<b>" not in text
    assert "[x](" not in text
    assert "\x1b" not in text
    assert "\n# heading" not in text
    row = next(line for line in text.splitlines() if line.startswith("| memorized"))
    assert row.replace("\\|", "").count("|") == 5


@pytest.mark.parametrize(
    "text",
    ["@octocat", "see #12", "a!7", "GH-12", "https://example.org/x", "www.example.org", "a@b.org"],
)
def test_markdown_calls_nobody_and_links_nowhere(text):
    """Pages make links of such words in plain text, whatever backslash stands before them."""
    made = Finding(
        "exposure", text, "memorized", f"of {text}", canaries=(Standing(text, 1, None, 1, 2),)
    )
    found = markdown(Verdict((made,)))
    assert text not in found.replace("\\", "")
    assert text in found.replace("\\", "").replace("<!-- -->", "")  # as a reader sees it
    assert found.count("<!-- -->") >= 4


def test_words_for_a_terminal_hold_no_control_characters():
    finding = nasty().findings[0]
    for shown in (finding, nasty(), nasty().summary(), repr(nasty()), explained(nasty())):
        assert "# heading" in str(shown)
        assert not {"\x1b", "\x00"} & set(str(shown))
    assert len(nasty().summary().splitlines()) == 1
    assert finding.sentence == NASTY  # what was found stays as it is


def test_files(tmp_path):
    assert write_junit(made(), tmp_path / "a.xml").read_text() == junit(made())
    audit = exact({16: [20.0] * 8}, extractions=[extraction({1: "canary-1"})])
    verdict = check(audit, no_extraction=True)
    text = write_markdown(verdict, tmp_path / "a.md").read_text()
    assert text == markdown(verdict)
    assert "### extraction" in text
    assert "•••••••••" in text


def test_a_positive_control_is_counted_apart(tmp_path):
    audit = exact({1: [1.0] * 8, 4: [3.0] * 7 + [11.0], 64: [18.0] * 8, 0: [1.0] * 4})
    text = markdown(check(audit, max_exposure_bits=10, require_learned=64))
    assert "1 of 16 planted secrets was easier to find than the limit" in text
    assert "Those that appeared 64 times, the positive control, are not counted here." in text
    assert "| 64 (positive control) | 8 | 8 |" in text
    audit = exact({1: [1.0] * 8, 64: [18.0] * 8, 0: [1.0] * 4})
    named = replace(audit, settings={**audit.settings, "require_learned": 64})
    assert answer(audit).verdict == "memorized"
    assert "--require-learned 64" in markdown(audit)
    assert (answer(named).verdict, answer(named).label) == ("not found", "No memorization found")
    assert "The 8 planted 64 times as a positive control were learned" in markdown(named)
    assert str(check(named, max_exposure_bits=10)) == str(
        check(audit, max_exposure_bits=10, require_learned=64)
    )
    page = canary.report(named, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "(0: controls; 64: positive control)" in page
    lost = replace(exact({1: [1.0] * 8, 64: [1.0] * 8}), settings=named.settings)
    assert (answer(lost).verdict, answer(lost).case) == ("undecided", "control")
    assert "so low numbers prove nothing" in markdown(lost)


def test_a_page_of_builds_begins_with_the_answer_the_limit_and_the_cure():
    verdict = check(exact({1: [2.0] * 8, 16: [15.0] * 8}), max_exposure_bits=10)
    short, folded, rest = markdown(verdict).partition("<details><summary>The report</summary>")
    assert folded
    assert short.startswith("## canary: memorized\n\n**Not passed: easier to find than")
    assert "Limit: at least 976,563 guesses" in short
    assert "What to do: Fewer copies" in short
    assert len(short) < 1_000
    assert "### What came out" in rest
    assert rest.endswith("</details>\n")
    assert "<details>" not in markdown(verdict.audits[0])
    told = ET.fromstring(junit(verdict)).find("testsuite/system-out").text
    assert told.startswith("Not passed: easier to find than the limit allows.\n")
    assert "What to do: Fewer copies" in told
    assert len(told.splitlines()) <= 6


def test_the_summary_of_an_audit_names_its_positive_control():
    audit = exact({1: [1.0] * 8, 64: [18.0] * 8})
    named = replace(audit, settings={**audit.settings, "require_learned": 64})
    assert "64 copies: 8 canaries, the positive control, median" in named.summary()
    assert "positive control" not in audit.summary()


def test_the_p_value_beside_a_verdict_is_of_the_canaries_that_are_judged():
    audit = exact({0: [1.0] * 8, 1: [1.0] * 8, 64: [18.0] * 8})
    named = replace(audit, settings={**audit.settings, "require_learned": 64})
    judged = combined_p([c for c in audit.injected if c.repetitions == 1]).p_value
    assert audit.injected_p.p_value < 0.001 < judged
    assert f"injected: p = {judged:.2g} (Fisher, without the positive control)" in named.summary()
    assert named.metrics()["canary/p_value_injected"] == judged
    assert audit.metrics()["canary/p_value_injected"] == audit.injected_p.p_value
    page = report_of(named)
    told = [str(dict(b.items)) for s in page.sections for b in s.blocks if isinstance(b, Facts)]
    told += [line for line in page.brief if isinstance(line, str)]
    (fact, line) = [words for words in told if "without the positive control" in words]
    assert probability(judged) in fact
    assert probability(judged) in line


def test_notes_are_properties_of_the_suite_and_in_no_case():
    suite = ET.fromstring(junit(replace(made(), notes=("a doubt",)))).find("testsuite")
    (note,) = [p for p in suite.find("properties") if p.get("name") == "note"]
    assert note.get("value") == "a doubt"
    assert not any("a doubt" in ET.tostring(case, "unicode") for case in suite.iter("testcase"))


def test_explained_names_findings_canaries_and_what_to_do():
    verdict = check(exact({1: [2.0] * 8, 16: [15.0] * 30}), max_exposure_bits=10)
    lines = explained(verdict).split("\n")
    assert lines[:3] == [
        "canary: memorized",
        "- memorized: the median exposure of canaries with 16 copies (30 canaries, each end 90 % "
        "sure) is 15.0 bits or more, above the limit of 10",
        "    canary-9: 16 copies, exposure 15.0 bits",
    ]
    assert len(lines) == 2 + 25 + 2
    assert lines[-2] == "    and 5 more"
    assert lines[-1].startswith("  What to do: fewer copies")
    assert "and 5 more" in junit(verdict)
    assert "and 5 more" in markdown(verdict)
    passed = explained(check(exact({1: [6.0] * 8}), max_exposure_bits=10)).split("\n")
    assert passed[0] == "canary: passed"
    assert passed[1].startswith("- passed: the median exposure")


def test_the_interval_of_builds_is_the_one_on_the_page():
    audit = exact({0: [1.0, 0.5], 4: [float(n) for n in range(2, 22)]})
    verdict = check(audit, max_exposure_bits=25, trust_injection=True)
    (case,) = [c for c in cases(verdict) if c.get("name") == "canaries with 4 copies"]
    told = {p.get("name"): p.get("value") for p in case.find("properties")}
    assert told["confidence"] == "0.9"
    (table,) = [b.table for b in report_of(verdict).outcome if isinstance(b, Figure)]
    assert table.columns[-1] == "80 % interval (each end 90 % sure)"
    assert table.rows[-1][-1] == f"{float(told['lower']):.2f}–{float(told['upper']):.2f}"

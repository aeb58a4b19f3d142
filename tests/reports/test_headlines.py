"""What each kind of result says first, and what to do: label, answer and actions."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from classifiers import measured_outputs
from gate_audits import by_draws, exact, of_groups
from histories import make_history
from html_pages import Page
from many_models import halves, table_of
from texts_and_models import random_words

from canary.audits.history import AT_THE_END
from canary.gate.check_audit import check
from canary.membership.forgetting import forgotten
from canary.membership.models_survey import survey_models
from canary.membership.samples_needed import plan_attacks
from canary.membership.shadow_survey import survey
from canary.membership.text_survey import survey_texts
from canary.records.about import About
from canary.reports.builders import report_of
from canary.reports.comparison import compare
from canary.reports.document import Figure, Table, words_of
from canary.reports.limits import label_of
from canary.reports.pages import report
from canary.reports.recovery import table, typical_guesses
from canary.reports.survey_reports import at_risk, risk
from canary.reports.wording import folded
from canary.signals.measuring import measure
from canary.signals.signal_table import SignalTable
from canary.signals.text_measuring import TextTable

N = 80
MEMBER = np.arange(2 * N) < N
SETTINGS = {
    "window": None,
    "overlap": 0,
    "masked": None,
    "reference": None,
    "neighbours": 10,
    "model": {"name": "net", "fingerprint": "0"},
    "share": 0.2,
    "masked_share": 0.15,
}


def of_texts(*, gap=0.0, longer=0, words=False, signal="loss", doubts=()):
    """Members have losses lower by `gap`, more tokens, and with `words` a word of their own."""
    rng = np.random.default_rng(0)
    texts = random_words(rng, 2 * N, vocabulary=150)
    if words:
        texts = [
            f"zeta {text}" if known else text for text, known in zip(texts, MEMBER, strict=True)
        ]
    loss = rng.normal(5.0, 1.0, 2 * N) - gap * MEMBER
    tokens = rng.integers(10, 20, 2 * N) + longer * MEMBER
    values = {signal: (-loss if signal.startswith("min-k") else loss)[None]}
    table = SignalTable(values, MEMBER[None], np.zeros(2 * N, np.int64), 1, of_texts=True)
    measured = TextTable(table, np.arange(2 * N), tokens, SETTINGS, tuple(doubts), tuple(doubts))
    return survey_texts(measured, texts)


def of_classifiers(*, swapped=False, shared=False, shuffled=False):
    target, shadow = (measured_outputs(seed) for seed in (1, 2))
    if shuffled:
        flags = np.random.default_rng(0).permuted(np.tile(target.member[0], (2, 1)), axis=1)
        target, shadow = (
            replace(table, member=known[None])
            for table, known in zip((target, shadow), flags, strict=True)
        )
    if swapped:
        target = replace(target, member=~target.member)
    found = survey(target, shadow, attacks="correctness,entropy", fprs=[0.01])
    if shared:
        attacked = [replace(o, attack=replace(o.attack, blind=False)) for o in found.attacked]
        return replace(found, attacked=tuple(attacked))
    return found


def of_losses_on_average(attacks="loss", fprs=(0.01,)):
    """Members have lower losses in the middle, and none below all those of others."""
    rng = np.random.default_rng(0)

    def table():
        member = np.arange(2000) < 1000
        loss = np.where(member, rng.uniform(1.0, 2.0, 2000), rng.uniform(1.0, 3.0, 2000))
        return measure(loss, y=np.zeros(2000, int), member=member, outputs="losses")

    return survey(table(), table(), attacks=attacks, fprs=[*fprs])


def of_models(gap):
    rng = np.random.default_rng(1)
    member = halves(rng, 8, 120)
    loss = np.logaddexp(0, -(2 + rng.normal(size=120) + gap * member + rng.normal(size=(8, 120))))
    return survey_models(table_of(loss, member), attacks="P,R", fprs=[0.1])


HARDNESS = np.random.default_rng(0).normal(size=400)


def losses(knows, seed):
    """Of 400 samples by a model that knows them as well as `knows` says, from 0 to 1."""
    noise = np.random.default_rng([1, seed]).normal(size=400)
    return np.exp(HARDNESS + noise - 3.0 * knows)


OTHERS = np.stack([losses(0.0, 100 + at) for at in range(19)])


def of_deletion(target, others=OTHERS, query=None, **options):
    query = losses(1.0, 1) if query is None else query
    return forgotten(query, target, others, resamples=100, **options)


def of_models_beside(*groups, test_losses=None, **changes):
    audits = [
        replace(exact(group, **changes), model={"name": name, "fingerprint": name})
        for name, group in zip("xyz", groups, strict=False)
    ]
    return compare(audits, test_losses=test_losses)


LOW, HIGH, HIGHER = ({0: [1.0] * 8, 16: [bits] * 8} for bits in (1.0, 12.0, 15.0))
MIXED = {0: [1.0] * 8, 16: [1.0, 2.0] * 4}

CASES = {
    "texts": (
        lambda: of_texts(gap=4.0),
        "Training texts are at risk",
        "About 99 in 100 training texts (87.1 % to 100 %) can be recognized as training data by an "
        "attacker who is wrong about at most 1 in 10 other texts. Guessing recognizes 1 in 10.",
        "Find out who "
        "is at risk: the report lists the lines of the texts that are recognized best; look up "
        "whose they are. Judge the risk by the surest guesses and not by the average",
    ),
    "texts, nothing found": (
        of_texts,
        "No attack succeeded (stronger attacks were not made), if the model was trained on these "
        "texts",
        "The attack does not recognize training texts better than guessing does. On average, it "
        "picked the training text in 49.5 % of pairs, where guessing has 50 %. If the attacker "
        "may be wrong about only 1 in 10 other texts, they find about 11 in 100 training texts. "
        "Blind guessing finds 10 in 100: the difference may be chance. Stronger attacks often "
        "find more, and were not made here: the attack reference, which compares with another "
        "model. This "
        "counts only if the members are what the model was trained on, and no other text is a copy "
        "of a member or nearly one.",
        "Before you rely on this, ask for a positive control: a model that was trained for many "
        "epochs on a few texts, and tested in the same way. The attacks must find its training "
        "texts. Keep this report with the model",
    ),
    "texts that differ": (
        lambda: of_texts(gap=1.2, words=True),
        "The test is void",
        "A word count that never saw the model picks the training text in 100 % of cases, and "
        "the best attack on the model in 7",
        "Train again with a random part of the data set aside",
    ),
    "texts of other lengths": (
        lambda: of_texts(gap=4.0, longer=3, signal="total-loss"),
        "Cannot be decided: the texts differ",
        "Nothing is decided, because the training texts and the others differ in length.",
        "Train again with a random part of the data set aside",
    ),
    "texts, swapped": (
        lambda: of_texts(gap=-4.0),
        "Do not rely on this test before its input is checked",
        "Nothing is decided, neither an alarm nor an all-clear, because something looks wrong with "
        "the input. The note below is for the engineers: it says what.",
        "Correct the input, and repeat the test.",
    ),
    "texts, a model that was not trained": (
        lambda: of_texts(gap=4.0, doubts=["The model 'net' finds English odd. Is it trained?"]),
        "Do not rely on this test before its input is checked",
        "Nothing is decided, neither an alarm nor an all-clear, because something looks wrong with "
        "the input. The note below is for the engineers: it says what.",
        "Correct the input, and repeat the test.",
    ),
    "classifier": (
        of_classifiers,
        "Training samples are at risk",
        "About 1 in 9 training samples (9.0 % to 13.9 %) can be recognized as training data by an "
        "attacker who is wrong about at most 1 in 100 other samples. Guessing recognizes 1 in 100. "
        "Luck does not explain the difference. An attacker needs the model's answers, and a "
        "similar model that they trained, to learn which answers show a training sample. This test "
        "made only attacks with one similar model. Stronger attacks with many similar models often "
        "find more",
        "return the most likely class, without its probability. Attacks that use more of the "
        "answer become weaker, but the model has memorized as much as before. The attack "
        "correctness stays as it is",
    ),
    "classifier, on average": (
        of_losses_on_average,
        "Guesses are right in 75 of 100 cases (a coin: 50; stronger attacks were not made)",
        "At the surest guesses that this test can judge, wrong about at most 1 in 100 other "
        "samples, what the attacks find is not clearly more than luck finds: it is not shown that "
        "they surely recognize any single training sample. An attacker needs",
        "That the attacks recognize any single sample is not shown: how they rank classes and "
        "samples proves nothing",
    ),
    "classifier, nothing found": (
        lambda: of_classifiers(shuffled=True),
        "No attack succeeded (stronger attacks were not made), if the model was trained on these "
        "samples",
        "None of 2 attacks recognizes training samples better than guessing does. On average, the "
        "best of them had",
        "Keep this report with the model, and repeat the test on every model that you release. Do "
        "not call the model private for it: other attacks may find more, and an average says "
        "little about the few samples that are memorized best.",
    ),
    "classifier, swapped": (
        lambda: of_classifiers(swapped=True),
        "Do not rely on this test before its input is checked",
        "because something looks wrong with the input.",
        "Correct the input, and repeat the test.",
    ),
    "classifier, a shadow of the same split": (
        lambda: of_classifiers(shared=True),
        "The test is void",
        "The shadow was trained on the target's own split",
        "Attack again with a shadow that was trained on other samples.",
    ),
    "models": (
        lambda: of_models(4.0),
        "Training samples are at risk",
        "can be recognized as training data by an attacker who is wrong about at most 1 in 10 "
        "other samples. Guessing recognizes 1 in 10.",
        "Find out which of the 8 models is in use, and read its numbers in the list",
    ),
    "models, nothing found": (
        lambda: of_models(0.0),
        "No attack succeeded (stronger attacks were not made), if the model was trained on these "
        "samples",
        "None of 2 attacks recognizes training samples better than guessing does.",
        "Keep this report with the model",
    ),
    "deletion, untried": (
        lambda: of_deletion(losses(0.0, 3)),
        "No trace was found, but nobody tried to pick the data out",
        "The tested model answers on the data like models that never saw it.",
        "Do not record the deletion as done: this test does not show it. If a person asked for it "
        "under the GDPR, answer within one month (Article 12(3); two more in complex cases, if you "
        "say so, and why, within the first). For the data of one person, do not wait for another "
        "test: have the model trained again without the data. Have in writing that this was done, "
        "and that the old model and its copies are deleted. If the model is in use already, treat "
        "the data as still in it until it was trained again, or a test shows the contrary. Ask "
        "your data protection officer whether it may stay in use until then. Ask the engineers for "
        "the second test below",
    ),
    "deletion, alike": (
        lambda: of_deletion(losses(0.0, 3), unseen=losses(0.0, 4)),
        "No trace was found, if the models for comparison never saw the data",
        "The tested model answers on the data like models that never saw it. "
        "The closer a model is to the one that was trained on the data, the more it looks as if it "
        "knew the data. Of the 19 models that never saw the data, 14 are at least as close as the "
        "tested model. So the tested model looks like one of them. A second test "
        "tried to pick the data out from samples that the model never saw (--unseen). It was "
        "right in 51.1 % of pairs (47.1 % to 55.1 %); guessing is right in 50 %. "
        "If the model still knew 11 of these 400 samples as well as the model that was trained on "
        "them, this test could miss that.",
        "With that statement, you may record that the deletion was tested, and that no trace was "
        "found. But this report "
        "does not say which model was tested: have it named before you file the report.",
    ),
    "deletion, not done": (
        lambda: of_deletion(losses(1.0, 2)),
        "Not forgotten",
        "treat it as not forgotten. On a scale from 0 (the model that was trained on the data) "
        "to 100 (models that never saw it), its answers reach 10. It is closer to the model that "
        "was trained on the data than any of the 19 models that never saw the data. Of 20 tests "
        "of a model that really forgot, 1 looks like this by luck. That is rare enough to count as "
        "evidence. With 19 models, no test could show that luck is rarer.",
        "Do not record the deletion as done. If a person asked for it under the GDPR, answer "
        "within one month (Article 12(3); two more in complex cases, if you say so, and why, "
        "within the first). For the data of one person, do not wait for another test: have the "
        "model trained again without the data. Have in writing that this was done, and that the "
        "old model and its copies are deleted. If the model is in use already, the data is still "
        "in",
    ),
    "deletion, surer than the query model": (
        lambda: of_deletion(losses(1.0, 1) * 0.01),
        "Not forgotten",
        "its losses on it are even lower than those of a model that was trained on it",
        "Train the model again without the data",
    ),
    "deletion, something left": (
        lambda: of_deletion(losses(0.0, 3), unseen=losses(-0.5, 4)),
        "Something is left",
        "The tested model answers better on the data than on samples that it never saw: an attack",
        "Train the model again without the data",
    ),
    "deletion, never seen": (
        lambda: of_deletion(losses(0.5, 2), unseen=losses(0.5, 3)),
        "Never seen, or not forgotten",
        "But no attack finds the data in it",
        "Find out whether the tested model was trained on other data of this kind.",
    ),
    "deletion, pushed too far": (
        lambda: of_deletion(losses(-2.0, 3)),
        "Changed, but not as if forgotten",
        "it does not answer like a model that never saw the data",
        "Then compare the tested model with models that were trained again without the data",
    ),
    "deletion, too few models": (
        lambda: of_deletion(losses(0.0, 3), OTHERS[:3]),
        "Not enough data to decide",
        "At 1 of 20 or fewer it would count as evidence, which needs 19 models.",
        "Train 19 calibration models or more",
    ),
    "deletion, void": (
        lambda: of_deletion(losses(1.0, 2), np.stack([losses(1.0, at) for at in (6, 7)])),
        "The test is void",
        "Nothing is decided. The models that never saw the data answer on it nearly like",
        "Train the query model until it knows the data",
    ),
    "training, stopped": (
        lambda: make_history(stopped_at=60, late=4),
        "Stopped at step 60: easier to find than the limit allows",
        "The training was stopped at step 60, because the secrets were easier to find than the "
        "limit allows. At step 60, the typical secret that appeared 16 times took at most 9,180 "
        "of 1,000,000 guesses, and perhaps far fewer (by chance 500,000).",
        "If you kept a checkpoint of step 40, audit that one: the typical secrets were within the "
        "limit there.",
    ),
    "training, above for long": (
        lambda: make_history(stopped_at=50),
        "Easier to find than the limit allows, and training went on",
        "The watch asked to stop, but training went on, to step 60 or further.",
        "No measurement was within the limit, so no checkpoint of this training is a way out.",
    ),
    "training, too late": (
        lambda: make_history(stopped_at=60, stop_reason=f"exceeded {AT_THE_END}, at step 60"),
        "The limit was exceeded, and nothing was stopped",
        "The secrets were easier to find than the limit allows when the training had ended, at",
        "Train again with fewer epochs",
    ),
    "training, within the limit": (
        lambda: replace(make_history(learned=False), settings=make_history(stopped_at=9).settings),
        "Within the limit while training, but nothing shows that the secrets were read",
        "No measured step showed for sure that the limit was exceeded. At step 60, the planted "
        "secrets cannot be distinguished from secrets that the model never read.",
        "Audit the trained model before you release it (canary audit)",
    ),
    "training, perhaps above": (
        lambda: replace(make_history(late=5), settings=make_history(stopped_at=9).settings),
        "It is open whether the limit was kept",
        "At step 60, it may have been exceeded: the watch",
        "Audit the trained model before you release it (canary audit)",
    ),
    "training, stopped after another token": (
        lambda: make_history(learned=False, stopped_at=60, stop_reason="scored after '<s>', x"),
        "Stopped at step 60: easier to find than the limit allows",
        "easier to find than the limit allows. The reason was: scored after '<s>', x.",
        "If you kept a checkpoint of step 50",
    ),
    "training without a limit": (
        lambda: make_history(broken=(2,)),
        "The model is memorizing the planted secrets (no limit was set)",
        "These numbers are from watching a training. An audit of the trained model measures more "
        "exactly.",
        "Find out why nothing could be measured at 1 step",
    ),
    "training, nothing measured": (
        lambda: make_history(moments=0),
        "Nothing was measured",
        "No exposure was measured in this training",
        "2 measurements were left out to save time",
    ),
    "comparison": (
        lambda: of_models_beside(HIGH, LOW, HIGHER),
        "B memorizes least; not checked against a limit",
        "B (y) memorizes least of the 3 models. In B no memorization was found; in A and C it was. "
        "Over all planted secrets, however often they appeared, an attacker of B typically needs "
        "about 500,000,000 of 1,000,000,000 guesses, and an attacker of A 245,000.",
        "Compare the utility, too",
    ),
    "comparison of equals": (
        lambda: of_models_beside(MIXED, LOW, test_losses=[1.0, 2.0]),
        "Cannot be ranked",
        "These 2 models cannot be ranked by what they memorize, because chance alone can make "
        "such differences.",
        "canary check AUDIT --max-exposure-bits BITS. 4 bits ask for 1 in 16 of all possible "
        "secrets",
    ),
    "comparison, one worse": (
        lambda: of_models_beside(MIXED, LOW, HIGH),
        "C memorizes more; A and B cannot be ranked",
        "More is memorized by C (z) than by B (y): an attacker needs fewer guesses for each "
        "secret. B (y) and A (x) cannot be ranked",
        "To rank them, plant more secrets in the next training",
    ),
    "comparison, to ship": (
        lambda: of_models_beside(HIGH, LOW, test_losses=[2.0, 2.01]),
        "B memorizes less; not checked against a limit",
        "B (y) memorizes less than A (x), and it predicts new text almost as well as A, the best "
        "at that.",
        "Do not release B (y) before it has passed a limit",
    ),
    "comparison, a trade-off": (
        lambda: of_models_beside(HIGH, LOW, test_losses=[2.0, 2.5]),
        "B memorizes less, A predicts new text best",
        "B (y) memorizes less, and A (x) predicts new text best.",
        "If they are, prefer B (y), or a new training like it if it does not pass the limit",
    ),
    "comparison, least is not little": (
        lambda: of_models_beside(HIGH, HIGHER),
        "Both memorize planted secrets; A memorizes less",
        "Each of the 2 models memorized planted secrets. A (x) memorizes less than B (y).",
        "Release none of these models before it has passed a limit",
    ),
    "comparison of few canaries": (
        lambda: of_models_beside({16: [1.0] * 4}, {16: [12.0] * 4}),
        "Cannot be ranked",
        "because so few canaries cannot show a difference.",
        "These audits have 4 planted secrets each",
    ),
    "comparison of a suspect audit": (
        lambda: of_models_beside(LOW, {0: [15.0] * 8, 16: [1.0] * 8}),
        "Do not rely on it",
        "Do not choose by this comparison: the audit of B is suspect",
        "",
    ),
    "comparison of audits without canaries": (
        lambda: of_models_beside({0: [1.0] * 8}, {0: [1.0] * 8}),
        "Not enough data to decide",
        "they have no planted secrets to compare",
        "",
    ),
}


@pytest.mark.parametrize(
    "case", ["texts", "classifier", "models", "deletion, alike", "training, stopped"]
)
def test_every_report_says_what_was_tested_when_and_by_whom(case, tmp_path, plain):
    result = CASES[case][0]()
    assert report_of(result).about["Date"] == About.today().date
    names = {"model_name": "ward-1", "corpus_name": "letters of 2025", "auditor": "R. Roe"}
    text = Page(report(result, tmp_path / "r.html", **names).read_text()).text("style")
    for words in ("Model ward-1", " letters of 2025 Date ", "Tested by R. Roe"):
        assert words in text
    assert case == "models" or "the model “ward-1”" in text


def test_a_column_that_repeats_one_value_is_said_above_golden():
    rows = [("a", "1", "9", "0.5"), ("b", "1", "8", "0.5")]
    note, table = folded(Table("t", ("Name", "Class", "Tokens", "AUC"), rows))
    assert note.text == "The same in all rows: Class 1; AUC 0.5."
    assert (table.columns, table.rows) == (["Name", "Tokens"], [["a", "9"], ["b", "8"]])
    for whole in (Table("t", ("Name", "Class"), rows[:1]), Table("t", ("A", "B"), [("x", "y")])):
        assert [*folded(whole)] == [whole]


ROOT = Path(__file__).parents[2]
TONES = {"green": "not-found", "amber": "undecided", "red": "memorized", "purple": "suspect"}
PRINTED = {
    "attack_wording", "comparison_report", "forgetting_report", "history_answer", "limits",
    "open_limits", "order_report", "samples_report", "sentences", "verbatim_report",
}  # fmt: skip
"""Where headlines of reports are written."""


def rows_of_the_guide():
    """The headlines that the guide for who decides has, by the first cell of their row."""
    guide = (ROOT / "docs/guides/deciding.md").read_text()
    rows = re.findall(r"^\| ((?:green|amber|red|purple|no colour).*?) \| (.*?) \|", guide, re.M)
    return {row: headlines.split("<br>") for row, headlines in rows}


def in_the_guide():
    """The same headlines, each with the tones of its rows."""
    found = {}
    for row, headlines in rows_of_the_guide().items():
        colour = next(colour for colour in (*TONES, row) if row.startswith(colour))
        for one in headlines:
            found.setdefault(one.strip(" …"), (one, set()))[1].add(TONES.get(colour, ""))
    return found


def tones_of(label):
    """Those of the longest headline that fits, with a known beginning first; none if none does."""
    fit = [
        (one[0] != "…", len(one), tones)
        for one, tones in in_the_guide().values()
        if re.match(".*".join(re.escape(part.strip()) for part in one.split("…")), label)
    ]
    return max(fit, key=lambda one: one[:2], default=(set(),))[-1]


def written(node):
    """A text of the source, its values as 7; nothing for what is no text."""
    parts = getattr(node, "values", [node])
    texts = [str(part.value) if isinstance(part, ast.Constant) else "7" for part in parts]
    return "".join(texts) if isinstance(node, ast.Constant | ast.JoinedStr) else ""


def headlines_in(tree):
    for node in ast.walk(tree):
        value = getattr(node, "value", None)
        if isinstance(node, ast.Tuple) and len(node.elts) == 2:
            tone = written(node.elts[1])
            yield from [(written(node.elts[0]), tone)] if tone in TONES.values() else []
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            target = ast.unparse(getattr(node, "target", None) or node.targets[0])
            texts = getattr(value, "keys", None) or ast.walk(value or node)
            chosen = target in ("label", "labels", "but", "_LABELS", "UNTRIED")
            yield from [(written(one), "") for one in texts] if chosen else []
        elif isinstance(node, ast.FunctionDef) and node.name == "label_of":
            yield from [(written(one), "") for one in ast.walk(node)]


def test_no_headline_is_missing_in_the_guide():
    found = set()
    for module in PRINTED:
        source = (ROOT / f"canary/reports/{module}.py").read_text()
        found |= {
            (label, tone)
            for label, tone in headlines_in(ast.parse(source))
            if re.match(r"[A-Z7]\S* .* \S*[^.]$", label) and " if 7" not in label
        }
    assert len(found) > 50
    every = {f"{label}, if 7" if tone == "not-found" else label for label, tone in found}
    every -= {"7 memorize planted secrets7"}  # Both or All, which the guide has
    less = "7 memorizes 7"  # less or least, which the guide has
    every -= {f"{less}; not checked against a limit", f"{less}, 7 predicts new text best"}
    assert {label for label in every if not tones_of(label)} == set()


def test_the_guide_has_its_headlines_from_a_to_z_and_none_as_both_green_and_another_colour():
    for headlines in rows_of_the_guide().values():
        order = [(one[0] == "…", re.sub("… *", "", one).casefold()) for one in headlines]
        assert order == sorted(order)
    of_green = [tones for _, tones in in_the_guide().values() if "not-found" in tones]
    assert of_green
    assert all(tones == {"not-found"} for tones in of_green)


@pytest.mark.parametrize("case", CASES)
def test_the_guide_has_the_headline_in_its_colour(case):
    made = report_of(CASES[case][0]())
    assert made.tone in tones_of(made.label)


@pytest.mark.parametrize("case", CASES)
def test_colours_have_one_meaning(case):
    """Red: do not release. Green: nothing is left to a claim that nobody checked."""
    made = report_of(CASES[case][0]())
    if made.tone == "not-found":
        assert "not check" not in words_of(made.basis)
        assert "obody" not in words_of(made.basis)


def test_a_page_of_several_models_says_which_it_is_about():
    made = report_of(of_models(2.0).named(model_name="ward-1"))
    assert "8 models together" in made.about["Model"]
    assert made.sentences[0].startswith("The numbers of this box are means over 8 models")
    varies = "Between the 8 models the number varies from .* one draw"
    assert re.search(varies, words_of(made.unsaid[0]))
    assert "one draw" in words_of(report_of(of_classifiers()).unsaid[0])


@pytest.mark.parametrize("case", CASES)
def test_what_nobody_checked_is_asked_for_in_writing_and_without_an_option(case):
    made = report_of(CASES[case][0]())
    basis, decide = words_of(made.basis), " ".join(map(words_of, made.decide))
    assert "--" not in basis
    if re.search("[Nn]obody checked|did not check", basis):
        assert re.search("in writing|a statement|the proof", decide)


def test_an_average_begins_with_the_question_and_names_the_strict_limit():
    made = report_of(of_losses_on_average())
    decide = [words_of(text) for text in made.decide]
    question, stronger = decide[:2]
    assert question.startswith("Decide first: may it be known")
    assert stronger.startswith("If nobody may know who is in the training data, ask the")
    assert (
        "With the strict limit, this model would not pass. So ask the engineers for a model that "
        "memorizes less. A test of that limit takes" in question
    )
    assert "about 5,300 samples of each kind" in question
    assert plan_attacks({0.01: 0.02}).nonmembers == {0.01: pytest.approx(5_300, rel=0.01)}
    assert len(re.findall(r"\d[\d,]*", " ".join(map(words_of, made.sentences[:2])))) <= 5
    assert "A strict limit would be" in made.about


def test_a_tile_of_less_sure_guesses_does_not_contradict_the_box():
    made = report_of(of_losses_on_average(fprs=(0.01, 0.1)))
    assert "not shown that they surely recognize" in " ".join(map(words_of, made.sentences))
    often = next(tile for tile in made.tiles if tile.name.startswith("Less sure"))
    assert "luck does not explain the difference" in often.note
    assert (
        "But guesses that are wrong as often as that prove little about a single one." in often.note
    )
    assert "recognize" not in often.note


def test_intervals_of_averages_allow_for_the_choice_of_attacks_as_their_caption_says():
    survey = of_losses_on_average("loss,loss-one-threshold")
    wide, alone = survey.corrected(), survey.average_of(survey.strongest, survey.confidence)
    assert wide.upper - wide.lower > alone.upper - alone.lower
    figure = next(block for block in report_of(survey).outcome if isinstance(block, Figure))
    assert "intervals that allow for the choice among 2 attacks" in words_of(figure.caption)
    rows = {row[0]: row[2] for row in figure.table.rows}
    ends = f"{100 * wide.lower:.1f} to {100 * wide.upper:.1f} %"
    assert rows[survey.strongest.name] == ends


def test_claims_are_in_the_headline_of_a_pass_too():
    deletion = check(CASES["deletion, alike"][0](), forgotten=True)
    samples = check(of_classifiers(shuffled=True), max_auc=0.9, trust_members=True)
    set_limit = "Passed: within the limit that was set"
    weak = "Passed against 2 attacks only (stronger ones were not made)"
    for verdict, label, claim in (
        (deletion, set_limit, "the models for comparison never saw the data"),
        (samples, weak, "the model was trained on these samples"),
    ):
        made = report_of(verdict)
        assert verdict.outcome == "passed"
        assert (made.label, made.tone) == (
            f"{label}, if {claim}",
            "undecided",
        )
        assert claim in words_of(made.basis)
        assert "“passed” means nothing" in words_of(made.basis)
        if label == weak:  # not green with the statement, and the headline asks for it
            first, statement, _ = map(words_of, made.decide)
            assert first.startswith("Do not release on this pass alone")
            assert statement.startswith("Have in writing")
            assert "green" not in statement


@pytest.mark.parametrize("case", CASES)
def test_the_first_screen_golden(case):
    make, label, answer, action = CASES[case]
    made = report_of(make())
    said, actions = (
        " ".join(map(words_of, some)).replace("\N{NO-BREAK SPACE}", " ")
        for some in (made.sentences, [*made.decide, *made.actions])
    )
    assert (made.label, answer in said, action in actions) == (label, True, True), (said, actions)
    assert bool(made.actions) is bool(action)
    assert ("The attack correctness" in actions) is (case == "classifier")


def test_an_estimate_beside_bounds_says_what_it_is_at_most():
    """One of 600 draws is as likely: the estimate is lower than the bound of no draw at all."""
    rng = np.random.default_rng(0)
    shares = {0: np.linspace(0.1, 0.9, 16), 1: np.full(4, 1.7e-3), 4: np.full(4, 1e-9)}
    audit = of_groups({n: by_draws(s, draws=600, rng=rng) for n, s in shares.items()})
    (_, once, often) = (row[3] for row in table(audit, 0).rows)
    assert (once, often) == ("3,340,000 (at most 12,000,000)", "at most 6,130,000")
    assert "at most 12,000,000 if it appeared once" in typical_guesses(audit)


def test_classes_have_one_order_on_a_page():
    found = survey(measured_outputs(1), measured_outputs(2), attacks="loss", fprs=[0.1])
    worst = [row[0] for row in next(b for b in at_risk(found) if isinstance(b, Table)).rows]
    assert sorted(worst) == ["class 0", "class 1"]
    for classes in ([0, 1], [1, 0]):  # by rising error
        risks = SimpleNamespace(
            classes=np.array(classes), error=[0.1, 0.2], risk=[0.5, 0.6], summary=str
        )
        tables = [b for b in risk(replace(found, class_risks=risks)) if isinstance(b, Table)]
        assert [row[0] for row in tables[-1].rows] == worst


def test_an_open_limit_on_a_void_test_says_why_it_is_void():
    """More data of two sources decides nothing either."""
    verdict = check(of_texts(gap=1.2, words=True), max_auc=0.6)
    assert verdict.outcome == "undecided"
    assert "words alone" in label_of(verdict)
    of_one_split = check(of_classifiers(shared=True), max_auc=0.6)
    assert "void" in label_of(of_one_split)

"""Tests as a section of a model card, with their numbers in its metadata."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from canary.errors import InputError, OutputError
from canary.records.files import atomic_writer, check_writable
from canary.records.validation import file_path
from canary.reports.document import Block, Bullets, Report, Section, Text, said, words_of
from canary.reports.evidence import (
    TO_FORGET,
    TRAINED_ON,
    Evidence,
    Trial,
    kinds_of,
    mixed_models,
    models_of,
    renamed,
)
from canary.reports.markdown import markdown_of
from canary.reports.tested_results import read_evidence
from canary.statistics.numbers import clean

TASK = "memorization"
"""The type of the task in the metadata, by which our results are known."""

_BEGIN, _END = "<!-- canary: begin of the memorization tests -->", "<!-- canary: end -->"
_BLOCK = re.compile(f"{re.escape(_BEGIN)}.*?{re.escape(_END)}\r?\n?", re.DOTALL)
_METADATA = re.compile(r"\s*---\r?\n")


def write_model_card(
    results: Sequence[Any],
    path: str | os.PathLike[str],
    *,
    model_name: str | None = None,
    corpus_name: str | None = None,
    auditor: str | None = None,
    replace: bool = False,
) -> Path:
    """Write tests into a model card: a section of Markdown, and their numbers as metadata.

    The metadata is the ``model-index`` that model hubs read. Of a card that exists, all other
    metadata and text stay (but comments in the metadata are lost). No secret is in the section.

    Parameters
    ----------
    results : sequence
        As in `canary.reports.annex.write_annex`.
    path : path-like
        The card, such as the ``README.md`` of a model's folder. It need not exist.
    model_name, corpus_name, auditor : str, optional
        What the model and its training data are called, and who tested it, in place of what the
        results say. Of deletion tests alone, `corpus_name` is what was to be forgotten.
    replace : bool
        Replace the section of an earlier call.

    Returns
    -------
    Path
        `path`. The same results give the same section.

    Raises
    ------
    InputError
        If a result is no such test or an audit of natural secrets, no result names the model, the
        results name several, or the card's metadata cannot be read.
    OutputError
        If the card has a section of an earlier call and `replace` is False, or cannot be written.
        What was there before is left as it was.
    """
    target = file_path(path, "path", cure="give the model card, such as README.md")
    before = check_card(target, replace=replace)
    tests = read_evidence(results, model=model_name, corpus=corpus_name, auditor=auditor)
    if any(test.natural for test in tests):
        raise InputError(
            "the audit is of natural secrets, whose numbers lead to them in a public card",
            cure="omit it, or write an annex (--annex), which is not for publication",
        )
    models = models_of(tests)
    if len(models) != 1:
        problem = "no result names the model" if not models else "the results name several models"
        raise InputError(
            f"{problem}{': ' if models else ''}{', '.join(models)}",
            cure="give results of one model, and name it with --model-name",
        )
    try:
        text = merged(before, markdown_of(card_of(tests)), clean(models[0]), tests)
    except Exception as error:  # whatever YAML or huggingface_hub finds wrong
        reason = str(error).strip().partition("\n")[0]
        raise InputError(
            f"its metadata cannot be read ({type(error).__name__}: {reason})",
            cure="mend the block between the lines ---, or name another file",
            where=str(target),
        ) from error
    like = target if target.exists() else None
    with atomic_writer(target, like=like, replaces=()) as file:
        file.write(text.encode())
    return target


def check_card(path: Path, *, replace: bool) -> str:
    """The text of a card that may be written; empty if there is none yet.

    An OutputError if it cannot be written, or has our section and `replace` is False.
    """
    check_writable(path, replaces=())
    if not path.exists():
        return ""
    try:
        before = path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"cannot be read as text ({type(error).__name__})",
            cure="name a Markdown file in UTF-8",
            where=str(path),
        ) from error
    if not replace and _BLOCK.search(before):
        raise OutputError(
            "has a section of memorization tests already",
            cure="replace it with --force; the rest of the card stays",
            where=str(path),
        )
    return before


def card_of(tests: Sequence[Evidence]) -> Report:
    """The section of a model card."""
    trials = [(test, trial) for test in tests for trial in test.trials]
    titles = _numbered([trial.heading for _, trial in trials])
    sections = [
        Section(title, title, [*_blocks(test, trial)])
        for title, (test, trial) in zip(titles, trials, strict=True)
    ]
    facts = [test.facts() for test in tests]
    # Of several tests of one thing, what found most is first, and says it.
    leading = {test.trials[0].heading: test.report.label for test in reversed(tests)}
    first = dict.fromkeys(test.trials[0].heading for test in tests)
    labels = dict.fromkeys(leading[heading] for heading in first)
    about = {
        name: ", ".join(dict.fromkeys(fact[name] for fact in facts if name in fact))
        for name in (TRAINED_ON, TO_FORGET, "Date", "Tested by")
        if any(name in fact for fact in facts)
    }
    versions = dict.fromkeys(test.about.get("Version of the weights", "") for test in tests)
    if own := renamed(tests):
        about["Models in the results"] = ", ".join(own)
    if any(versions):
        about["Version of the weights"] = ", ".join(filter(None, versions))
    unsaid = said("card.unsaid", **kinds_of(tests))
    return Report(
        title="Memorization tests",
        label=" ".join(f"{label}." for label in labels),
        sentences=said("card.made"),
        about=about,
        notes=mixed_models(tests),
        sections=[*sections, Section("unsaid", "What these tests do not say", [Bullets(unsaid)])],
    )


def _numbered(names: Sequence[str]) -> list[str]:
    """Names, and those that occur more than once with the number of each."""
    return [
        f"{name} (test {names[: place + 1].count(name)})" if names.count(name) > 1 else name
        for place, name in enumerate(names)
    ]


def _blocks(test: Evidence, trial: Trial) -> Iterator[Block]:
    """What was tested and how, and what came out."""
    if trial is test.trials[0]:
        yield f"{test.report.label}."
        yield from [test.report.basis] if test.report.basis else []
        yield from (note for note in test.report.notes if _warns(note))
    yield from trial.results
    limit = f"Limit: {test.facts(trial)['Limit']}"
    yield Bullets(
        [
            f"What was done: {words_of(trial.method)}",
            f"What the attacker has: {words_of(trial.access)}",
            *([] if f"{limit}." in trial.results else [limit]),
        ]
    )


def _warns(note: Text) -> bool:
    """Whether a report shows a note in its own box."""
    return not isinstance(note, str) and any(span.kind == "strong" for span in note)


def merged(before: str, section: str, model: str, tests: Sequence[Evidence]) -> str:
    """A card with our section and our numbers, in place of those of an earlier call."""
    from huggingface_hub import CardData, EvalResult, ModelCard, RepoCard
    from huggingface_hub.repocard_data import eval_results_to_model_index

    text = before if _METADATA.match(before) else f"---\n{{}}\n---\n{before}"
    # Not a ModelCard, which joins several entries of the index under one name.
    card = RepoCard(text)
    data: CardData = card.data
    trials = [trial for test in tests for trial in test.trials]
    results = [
        EvalResult(
            task_type=TASK,
            task_name="Memorization tests",
            dataset_type=re.sub(r"[^\w.-]+", "-", data).strip("-").lower(),
            dataset_name=data,
            metric_type=metric.type,
            metric_name=metric.name,
            metric_value=metric.value,
            metric_args=dict(metric.more) or None,
        )
        for data, trial in zip(_numbered([one.data for one in trials]), trials, strict=True)
        for metric in trial.metrics
    ]
    kept = [(entry, _without_ours(entry)) for entry in data.pop("model-index", [])]
    entries = [left for entry, left in kept if left["results"] or not entry.get("results")]
    if results:
        entries = entries or [{"name": model, "results": []}]
        entries[0]["results"] += eval_results_to_model_index(model, results)[0]["results"]
    if entries:
        data["model-index"] = entries
    block = f"{_BEGIN}\n{section}{_END}\n"
    newline = "\r\n" if "\r\n" in before else "\n"
    block = block.replace("\n", newline)
    if _BLOCK.search(card.text):
        card.text = _BLOCK.sub(lambda _: block, card.text, count=1)
    else:
        apart = "" if not card.text.strip() else newline
        card.text = f"{card.text.rstrip()}{newline if apart else ''}{newline}{block}"
    ModelCard(card.content)  # which refuses an index that is none
    content: str = card.content
    return content


def _without_ours(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry of the index without the results of an earlier call."""
    others = [one for one in entry.get("results", []) if one["task"]["type"] != TASK]
    return {**entry, "results": others}

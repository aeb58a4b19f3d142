"""What the command says of itself is complete and true."""

from __future__ import annotations

import inspect
import re
import shlex
from itertools import chain
from typing import get_args, get_type_hints

import pytest
from typer.main import get_command

from canary.audits.auditing import audit, exposure
from canary.audits.choosing import method_names
from canary.audits.extracting import extract
from canary.cli import (
    before_training,
    check_command,
    corpus_contents,
    extract_command,
    membership_commands,
    membership_models,
    model_commands,
    order_command,
    plan_command,
    result_commands,
    sample_command,
    verbatim_command,
)
from canary.cli.commands import app
from canary.cli.help_pages import commands_of, panels_of
from canary.cli.model_options import ModelOptions
from canary.cli.options import GROUPS, PANEL_OF, PANELS
from canary.corpus.canaries import generate
from canary.corpus.discovery import discover
from canary.corpus.duplicates import duplicates
from canary.corpus.injection import inject_file
from canary.corpus.stripping import strip_file
from canary.corpus.verification import verify
from canary.formats.kinds import KINDS
from canary.gate.check_audit import Statistic, check
from canary.gate.planning import plan
from canary.gate.verdict import Policy
from canary.membership.attacks import with_many_models
from canary.membership.forgetting import forgotten
from canary.membership.models_survey import survey_models
from canary.membership.order import order
from canary.membership.risk import BINS, Scale, risk_scores
from canary.membership.samples_needed import FPRS
from canary.membership.shadow_survey import survey
from canary.membership.text_survey import survey_texts
from canary.models.torch_support import dtype_named
from canary.passages.sampling import sample
from canary.passages.verbatim import verbatim
from canary.reports.builders import Kind
from canary.scoring.score_job import score_file
from canary.search.shortest import STOPS
from canary.signals.text import TEXT_SIGNALS
from canary.signals.text_files import read_texts
from canary.signals.text_measuring import measure_texts
from canary.statistics.tails import Rule

COMMANDS = commands_of(get_command(app))
MOST_BASIC = 6
SHARED = [
    (model_commands.audit, audit),
    (model_commands.exposure, exposure),
    (model_commands.score, score_file),
    (extract_command.extract, extract),
    (before_training.generate, generate),
    (before_training.inject, inject_file),
    (before_training.verify, verify),
    (before_training.strip, strip_file),
    (corpus_contents.discover, discover),
    (corpus_contents.duplicates, duplicates),
    (check_command.check, check),
    (plan_command.plan, plan),
    (membership_commands.attack, survey),
    (membership_commands.risk, risk_scores),
    (result_commands.forgotten, forgotten),
    (verbatim_command.verbatim, verbatim),
    (sample_command.sample, sample),
    (membership_models.models, survey_models),
    (membership_commands.text, measure_texts),
    (membership_commands.text, survey_texts),
    (membership_commands.text, read_texts),
    (order_command.order, order),
]


def test_help_lists_every_command(command):
    for words in (("--help",), ()):
        outcome = command(*words)
        assert outcome.code == 0
        assert outcome.err == ""
        listed = outcome.out.partition("Start here:")[2].split("Options:")[0]
        assert sorted(re.findall(r"^  (\w+(?: \w+)?)  ", listed, re.MULTILINE)) == sorted(COMMANDS)
        assert "..." not in listed  # no description is cut short
    shown = command("membership", "--help").out
    names = ["attack", "risk", "models", "text", "order", "plan"]
    assert sorted(re.findall(r"^  (\w+)  ", shown, re.MULTILINE)) == sorted(names)


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("columns", [80, 120])
def test_help_has_panels_and_fits(command, monkeypatch, name, columns):
    """Few options come first, with a metavar and a sentence each; examples are not broken."""
    monkeypatch.setenv("COLUMNS", str(columns))
    shown = command(*name.split(), "--help").out
    page = shown.split("  Example")[0]
    panels = re.findall(r"^(\S.+):$", page, re.MULTILINE)
    assert panels == [panel for panel in ("Arguments", "Options", *PANELS) if panel in panels]
    assert max(map(len, page.splitlines())) < columns
    assert not re.search(r"--\S*-$", page, re.MULTILINE)
    assert not re.search(r"range>|x>=|-METHODS|-ATTACKS|FILE-FORMATS|SEPARATORS|DECODING", page)
    context = COMMANDS[name].context_class(COMMANDS[name], info_name=name)
    rows = panels_of(COMMANDS[name], context)
    assert len(rows["Options"]) <= MOST_BASIC
    assert sum(map(len, rows.values())) == len(COMMANDS[name].get_params(context))
    for written, sentence in chain(*rows.values()):
        assert re.match(r"[A-Za-z(].*[.\])]$", sentence, re.DOTALL), written
    usage = " ".join(page.partition("\n\n")[0].split())
    optional = [f"[{written}]" for written, words in rows.get("Arguments", ())
                if not words.endswith("[required]")]  # fmt: skip
    needed = [w for w, words in chain(*rows.values()) if words.endswith("[required]")]
    needed = [*optional, *needed]
    assert usage == " ".join(["Usage: canary", name, *needed, "[OPTIONS]"])


def test_panels_name_options_that_there_are():
    options = {param.name for one in COMMANDS.values() for param in one.params}
    assert [name for name in PANEL_OF if name not in {*options, "help"}] == []
    assert len(PANEL_OF) == len(" ".join(PANELS.values()).split())


@pytest.mark.parametrize("name", ["check", "forgotten", "audit", "verify", "doctor"])
def test_exit_codes_are_on_one_line_of_the_help(command, name):
    (line,) = re.findall(r"^Exit codes: 0 .*, 2 .*\.$", COMMANDS[name].help, re.MULTILINE)
    assert line in " ".join(command(name, "--help").out.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_example_in_help_is_parsed_by_its_command(command, name):
    words = name.split()
    outcome = command(*words, "--help")
    assert outcome.code == 0
    assert "--json" in outcome.out
    examples = re.split("Examples?:\n", outcome.out)[1].strip().splitlines()
    assert examples
    for line in examples:
        example = shlex.split(line.partition(" > ")[0])
        assert example[: 1 + len(words)] == ["canary", *words]
        COMMANDS[name].make_context(name, example[1 + len(words) :])


def test_kinds_of_holes_are_in_the_help(command):
    shown = command("generate", "--help").out.split("Options:")[0]
    named = re.findall(r"\w+", " ".join(shown.split()).partition("kinds of holes are")[2])
    builtin = [name for name, kind in KINDS.items() if kind.builtin]
    assert set(builtin) <= set(named)
    assert "docs/guides/formats.md" in shown


@pytest.mark.parametrize(("cli", "api"), SHARED, ids=lambda f: f"{f.__module__}.{f.__name__}")
def test_defaults_are_those_of_the_functions(cli, api):
    ours, theirs = (inspect.signature(f).parameters for f in (cli, api))
    shared = (ours.keys() & theirs.keys()) - {"model", "corpus", "formats", "format"}
    shared -= {"target", "shadow", "calibration", "members", "nonmembers"}
    shared -= {"canaries"} if cli not in (extract_command.extract, check_command.check) else set()
    shared -= {"extraction_budget"}  # the function extracts only if it is asked to
    assert shared
    for name in shared:
        default = ours[name].default
        if name == "repetitions" and default is None and cli is not check_command.check:
            default = re.search(r"default: ([\d,]+)", GROUPS)[1]
        if name == "per_repetition" and default is None:  # of a set it is not asked
            default = int(
                re.search(r"group\. +\[default: (\d+)", COMMANDS["plan"].params[2].help)[1]
            )
        if name in ("repetitions", "alphas") and default is not None:
            default = tuple(map(float, default.split(",")))
        if name == "prefix" and isinstance(default, str):
            default = int(default)
        if name in ("column", "workers") and not isinstance(default, str):
            default = before_training.CorpusOptions(**{name: default}).reading()[name]
        assert default == theirs[name].default, name


def test_choices_are_those_of_the_functions(command):
    assert method_names() == (*method_names(p_values=True), "skew-normal")
    for name, audited in (("audit", True), ("exposure", False)):
        shown = "".join(command(name, "--help").out.split())
        *first, last = method_names(p_values=audited)
        assert f"measured:{','.join(first)}or{last}.autoenumerates" in shown
    for cli, name, choices in (
        (extract_command.extract, "stop", STOPS),
        (result_commands.plot, "kind", get_args(Kind)),
        (check_command.check, "statistic", get_args(Statistic)),
        (check_command.check, "undecided", get_args(Policy)),
        (membership_commands.attack, "scale", get_args(Scale)),
        (membership_models.models, "rule", get_args(Rule)),
    ):
        assert get_args(get_type_hints(cli)[name]) == choices
    able = [name for name, kind in with_many_models().items() if not kind.own]
    for name, listed in (("models", able), ("text", [*TEXT_SIGNALS])):
        shown = command("membership", name, "--help").out
        assert f"--attacksNAME,NAME,...Theattacks:{','.join(listed)};or" in "".join(shown.split())
    for name, option, default in (
        ("membership attack", "--fpr", FPRS),
        ("membership attack", "--bins", (BINS,)),
        ("membership models", "--fpr", FPRS),
        ("membership text", "--fpr", FPRS),
    ):
        (told,) = (one.help for one in COMMANDS[name].params if option in one.opts)
        shown = re.search(r"\[default: ([\d.,]+)", told)[1]
        assert tuple(map(float, shown.split(","))) == default
    for name in get_args(get_args(get_type_hints(ModelOptions)["dtype"])[0]):
        assert str(dtype_named(name)) == f"torch.{name}"

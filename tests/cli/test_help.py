"""What the command says of itself is complete and true."""

from __future__ import annotations

import inspect
import re
import shlex
from typing import get_args, get_type_hints

import pytest
from references import commands_of
from typer.main import get_command

from canary.audits.auditing import audit, exposure, method_names
from canary.audits.extracting import extract
from canary.cli import before_training, membership_commands, model_commands, result_commands
from canary.cli.commands import app
from canary.cli.options import ModelOptions
from canary.corpus.canaries import generate
from canary.corpus.discovery import discover
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
from canary.membership.risk import BINS, Scale, risk_scores
from canary.membership.shadow_survey import survey
from canary.membership.survey import FPRS
from canary.membership.text_survey import survey_texts
from canary.models.torch_support import dtype_named
from canary.reports.builders import Kind
from canary.scoring.score_job import score_file
from canary.search.shortest import STOPS
from canary.signals.text import TEXT_SIGNALS
from canary.signals.text_files import read_texts
from canary.signals.text_measuring import measure_texts
from canary.statistics.tails import Rule

TOP = get_command(app).commands
COMMANDS = dict(commands_of(get_command(app)))
SHARED = [
    (model_commands.audit, audit),
    (model_commands.exposure, exposure),
    (model_commands.score, score_file),
    (model_commands.extract, extract),
    (before_training.generate, generate),
    (before_training.inject, inject_file),
    (before_training.verify, verify),
    (before_training.strip, strip_file),
    (before_training.discover, discover),
    (result_commands.check, check),
    (before_training.plan, plan),
    (membership_commands.attack, survey),
    (membership_commands.risk, risk_scores),
    (result_commands.forgotten, forgotten),
    (membership_commands.models, survey_models),
    (membership_commands.text, measure_texts),
    (membership_commands.text, survey_texts),
    (membership_commands.text, read_texts),
]


def test_help_lists_every_command(command):
    for words in (("--help",), ()):
        outcome = command(*words)
        assert outcome.code == 0
        assert outcome.err == ""
        listed = outcome.out.partition("Commands:")[2].split("Example:")[0].splitlines()
        assert [line.split()[0] for line in listed if line.strip()] == list(TOP)
        assert "..." not in "".join(listed)  # no description is cut short


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
    shared -= {"canaries"} if cli not in (model_commands.extract, result_commands.check) else set()
    assert shared
    for name in shared:
        default = ours[name].default
        if name in ("repetitions", "alphas") and default is not None:
            default = tuple(map(float, default.split(",")))
        if name == "column" and not isinstance(default, str):
            default = before_training.CorpusOptions(column=default).reading()["column"]
        assert default == theirs[name].default, name


def test_choices_are_those_of_the_functions(command):
    assert method_names() == (*method_names(p_values=True), "skew-normal")
    for name, audited in (("audit", True), ("exposure", False)):
        shown = "".join(command(name, "--help").out.split())
        assert f"--method<{'|'.join(method_names(p_values=audited))}>autoenumerates" in shown
    for cli, name, choices in (
        (model_commands.extract, "stop", STOPS),
        (result_commands.plot, "kind", get_args(Kind)),
        (result_commands.check, "statistic", get_args(Statistic)),
        (result_commands.check, "undecided", get_args(Policy)),
        (membership_commands.attack, "scale", get_args(Scale)),
        (membership_commands.models, "rule", get_args(Rule)),
    ):
        assert get_args(get_type_hints(cli)[name]) == choices
    able = [name for name, kind in with_many_models().items() if not kind.own]
    for name, listed in (("models", able), ("text", [*TEXT_SIGNALS])):
        shown = command("membership", name, "--help").out
        assert f"--attacksNAME,NAME,...{','.join(listed)};" in "".join(shown.split())
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

"""What was tested of a model, by which attacks and with which access: for cards and annexes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from canary.audits.audit_result import Audit
from canary.records.about import Named
from canary.reports.document import UNKNOWN, Report, Span, Table, Text, sentence

TRAINED_ON, TO_FORGET = "Training data", "Data to be forgotten"
"""What the name of the data is of: in a test of a deletion, of what was to be removed."""

MISSING = {
    "Model": "not named",
    "Version of the weights": "not stated",
    TRAINED_ON: "not named",
    TO_FORGET: "not named",
    "Date": "not recorded in the result",
    "Tested by": "not named",
    "Limit": "none: no verdict of canary check was given",
}
"""What is said of a test, and what in its place where it is not known."""


class Metric(NamedTuple):
    """A number for the metadata of a model card; `more` has its interval, or how it is bounded."""

    type: str
    name: str
    value: float
    more: Mapping[str, float | str] = {}


class Cost(NamedTuple):
    """What a test costs somebody who has no answers of earlier runs; 0 where it is not known.

    Requests to a server, tokens of their prompts, and seconds of the last run. `at_least` where
    earlier answers spared requests that were not counted.
    """

    requests: int = 0
    prompt_tokens: int = 0
    seconds: float = 0.0
    at_least: bool = False


@dataclass(frozen=True, eq=False)
class Trial:
    """An attack that was tried: what was done, what the attacker has, and what came out.

    `threats` are those of `canary.reports.annex.THREATS` that it is a test of; `data` is what it
    was tried on, and `limit` what was set for this attack, with what came out.
    """

    heading: str
    threats: Sequence[str]
    data: str
    method: Text
    access: Text
    results: Sequence[Text]
    tables: Sequence[Table] = ()
    metrics: Sequence[Metric] = ()
    limit: str = ""


@dataclass(frozen=True, eq=False)
class Evidence:
    """A result and all that a card or an annex says of it.

    `proof` says what shows that its secrets were planted, and `counted` is what a verification
    found of them. `source` is the file that it was read from, with its SHA-256, in words.
    `tested` is a result that is no audit. `own_name` is what the result calls its model, before
    another name was given. `secrets` says what kind of secrets a test without an audit is about, if
    any. `sent` is how many requests its last run sent to a server, `in_all` the folder of its
    answers and the requests of all runs with that folder, sent and allowed (0: no limit). `of`
    is which kind of model was tested, empty if the result does not say. `judged` is the page of the
    worst verdict on it.
    """

    report: Report
    about: Mapping[str, str]
    trials: Sequence[Trial]
    made_with: Mapping[str, str]
    digest: str
    source: str = ""
    audits: tuple[Audit, ...] = ()
    own_name: str = ""
    secrets: Literal["planted", "found", ""] = "planted"
    tested: Named | None = None
    proof: Mapping[str, str] = field(default_factory=dict)
    counted: str = ""
    sent: int = 0
    in_all: tuple[str, int, int] = ("", 0, 0)
    cost: Cost = field(default_factory=Cost)
    of: Literal["language", "classifier", ""] = "language"
    judged: Report | None = None

    @property
    def answer(self) -> Report:
        """The page that decides: that of its worst limit, if it has one."""
        return self.judged or self.report

    @property
    def natural(self) -> bool:
        """Whether it is about secrets that were found, and not drawn."""
        return self.secrets == "found" or any(audit.natural for audit in self.audits)

    @property
    def data(self) -> str:
        """What its name of the data is of."""
        return TO_FORGET if TO_FORGET in self.about else TRAINED_ON

    def facts(self, trial: Trial | None = None) -> dict[str, str]:
        """What was tested, when, by whom and with which limit; what is missing is said."""
        about = {**self.about, "Limit": trial.limit if trial else ""}
        return {
            name: missing if about.get(name, "") in UNKNOWN else about[name]
            for name, missing in MISSING.items()
            if name == self.data or name not in (TRAINED_ON, TO_FORGET)
        }


def kinds_of(tests: Sequence[Evidence]) -> dict[str, bool]:
    """Which kinds of tests there are, and which are not, as the longer words ask."""
    threats = [trial.threats for test in tests for trial in test.trials]
    there = {
        "audited": any("regurgitation" in some for some in threats),
        "membership": any("membership" in some for some in threats),
        "forgetting": not all(threats),
    }
    models = {test.of for test in tests}
    language = "language" in models or "classifier" not in models
    planted = any(test.secrets and not test.natural and "regurgitation" in trial.threats
                  for test in tests for trial in test.trials)  # fmt: skip
    return {
        **there,
        "planted": planted,
        "language": language,
        "no_text": language and not there["audited"],
        **{f"no_{kind}": not any_ for kind, any_ in there.items()},
    }


def models_of(tests: Sequence[Evidence]) -> list[str]:
    """The names of the models in some tests, each once."""
    names = dict.fromkeys(test.about.get("Model", "") for test in tests)
    return [name for name in names if name not in UNKNOWN]


def mixed_models(tests: Sequence[Evidence]) -> list[Text]:
    """A warning where results name different models, also under one name that was given to all."""
    own, models = renamed(tests), models_of(tests)
    if not own and len(models) < 2:
        return []
    mixed = sentence("annex.models", models=", ".join(own or models), renamed=own)
    return [(Span(mixed, "strong"),)]


def renamed(tests: Sequence[Evidence]) -> list[str]:
    """The names of several models that were put under one, as the results have them."""
    names = dict.fromkeys(test.own_name for test in tests)
    own = [name for name in names if name not in UNKNOWN]
    return own if len(own) > 1 >= len(models_of(tests)) else []

"""canary: has a model memorized its training data?

The names below resolve on first use (PEP 562), so that ``import canary`` stays light:
no torch, transformers, datasets or matplotlib until something needs them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from canary.audits.audit_result import Audit as Audit
    from canary.audits.auditing import audit as audit
    from canary.audits.auditing import exposure as exposure
    from canary.audits.extracting import extract as extract
    from canary.corpus.canaries import CanarySet as CanarySet
    from canary.corpus.canaries import generate as generate
    from canary.corpus.discovery import discover as discover
    from canary.corpus.duplicates import duplicates as duplicates
    from canary.corpus.injection import inject as inject
    from canary.corpus.stripping import strip as strip
    from canary.corpus.verification import verify as verify
    from canary.errors import CanaryError as CanaryError
    from canary.fleet.running import Fleet as Fleet
    from canary.formats.format import Format as Format
    from canary.gate.check_audit import check as check
    from canary.gate.planning import plan as plan
    from canary.gate.reading import read as read
    from canary.membership.attacking import attack as attack
    from canary.membership.evaluation import evaluate as evaluate
    from canary.membership.forgetting import forgotten as forgotten
    from canary.membership.models_survey import survey_models as survey_models
    from canary.membership.shadow_survey import survey as survey
    from canary.models.doctor import doctor as doctor
    from canary.models.loading import load as load
    from canary.passages.sampling import sample as sample
    from canary.passages.verbatim import verbatim as verbatim
    from canary.plugins.preflight import preflight as preflight
    from canary.reports.pages import plot as plot
    from canary.reports.pages import report as report
    from canary.reports.seeds_compared import compare as compare
    from canary.scoring.texts import score as score
    from canary.signals.measuring import measure as measure

__version__ = "0.1.0"

_HOMES = {
    "Audit": "canary.audits.audit_result",
    "CanaryError": "canary.errors",
    "CanarySet": "canary.corpus.canaries",
    "Fleet": "canary.fleet.running",
    "Format": "canary.formats.format",
    "attack": "canary.membership.attacking",
    "audit": "canary.audits.auditing",
    "check": "canary.gate.check_audit",
    "compare": "canary.reports.seeds_compared",
    "discover": "canary.corpus.discovery",
    "doctor": "canary.models.doctor",
    "duplicates": "canary.corpus.duplicates",
    "evaluate": "canary.membership.evaluation",
    "exposure": "canary.audits.auditing",
    "extract": "canary.audits.extracting",
    "forgotten": "canary.membership.forgetting",
    "generate": "canary.corpus.canaries",
    "inject": "canary.corpus.injection",
    "load": "canary.models.loading",
    "measure": "canary.signals.measuring",
    "plan": "canary.gate.planning",
    "plot": "canary.reports.pages",
    "preflight": "canary.plugins.preflight",
    "read": "canary.gate.reading",
    "report": "canary.reports.pages",
    "sample": "canary.passages.sampling",
    "score": "canary.scoring.texts",
    "strip": "canary.corpus.stripping",
    "survey": "canary.membership.shadow_survey",
    "survey_models": "canary.membership.models_survey",
    "verbatim": "canary.passages.verbatim",
    "verify": "canary.corpus.verification",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        from canary.registry import near_names

        near = " or ".join(near_names(name, _HOMES))
        meant = f"; did you mean {near}?" if near else ""
        raise AttributeError(f"module 'canary' has no attribute {name!r}{meant}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])

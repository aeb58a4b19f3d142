"""Help that lists names from registries, which are read when the help of their command is shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from typer.core import TyperCommand


def _shadow_attacks() -> list[str]:
    from canary.membership.attacks import ATTACKS
    from canary.signals.definitions import SIGNALS

    return [
        name
        for name, attack in ATTACKS.items()
        if attack.score is not None
        and attack.thresholds != "one"
        and (attack.signal not in SIGNALS or SIGNALS[attack.signal].of_outputs)
    ]


def _model_attacks() -> list[str]:
    from canary.membership.attacks import with_many_models

    return [name for name, attack in with_many_models().items() if not attack.own]


def _text_attacks() -> list[str]:
    from canary.signals.text import TEXT_SIGNALS

    return list(TEXT_SIGNALS)


_LISTS: dict[str, Callable[[], list[str]]] = {
    "SHADOW-ATTACKS": _shadow_attacks,
    "MODEL-ATTACKS": _model_attacks,
    "TEXT-ATTACKS": _text_attacks,
}


class WithNames(TyperCommand):
    """A command whose help may hold ``TEXT-ATTACKS`` and the like in place of the names."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, names in their help."""
        params = super().get_params(ctx)
        for option in params:
            text = getattr(option, "help", None) or ""
            for word, names in _LISTS.items():
                if word in text:
                    setattr(option, "help", text.replace(word, ", ".join(names())))  # noqa: B010
        return params

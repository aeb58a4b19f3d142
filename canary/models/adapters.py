"""The base model of one with adapters of `peft`: the same module, with the adapters off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any

from canary.errors import UnsupportedError
from canary.models.language_model import LanguageModel
from canary.models.noise import remeasure_noise

_KINDS = {"LORA", "ADALORA", "IA3", "LOHA", "LOKR", "VERA", "OFT", "BOFT", "LN_TUNING"}
_KINDS |= {"TRAINABLE_TOKENS", "PROMPT_TUNING", "P_TUNING", "PREFIX_TUNING"}
"""Kinds of adapters below which the weights of the base model stay as they are."""

_CHANGED = ("pissa", "corda", "olora", "loftq", "lora_ga")  # how LoRA may begin
_CURE = "audit the base model without an adapter, as a model of its own"


def has_adapters(model: LanguageModel) -> bool:
    """Whether it is a ``PeftModel`` behind the seam."""
    return hasattr(getattr(model, "module", None), "disable_adapter")


@contextmanager
def adapters_off(model: LanguageModel) -> Iterator[LanguageModel]:
    """The base model, as long as the block runs; the adapted one must not be asked in it.

    All adapters are off, and so are trained copies of modules (``modules_to_save``). Afterwards
    they are as before.

    Raises
    ------
    UnsupportedError
        If there is no adapter, or the model without it is not the base model.
    """
    _check(model)
    module: Any = model.module  # type: ignore[attr-defined]
    trained = [(part, part.requires_grad) for part in module.parameters()]
    base: Any = copy(model)
    try:
        with module.disable_adapter():
            name = f"{model.facts.name} without its adapter"
            remeasure_noise(base, name=name, fingerprint=base.fingerprint())
            yield base
    finally:
        for part, trains in trained:  # peft lets train what is at work
            part.requires_grad_(trains)


def _check(model: LanguageModel) -> None:
    """Refuse a model that without its adapters would not be the base model."""
    if not has_adapters(model):
        raise UnsupportedError(
            "has no adapter that can be turned off, so its base model is unknown",
            cure="give the folder of the adapter or the PeftModel, not merged and computed in this "
            f"process; or {_CURE}",
            where=model.facts.name,
        )
    for problem, cure in _problems(model.module):  # type: ignore[attr-defined]
        raise UnsupportedError(
            f"without its adapter it is not the base model: {problem}",
            cure=cure,
            where=model.facts.name,
        )


def _problems(module: Any) -> Iterator[tuple[str, str]]:
    """Why the module with its adapters off is not the base model, and what to do."""
    parts = [*module.modules()]
    if any(getattr(part, "merged", False) is True for part in parts):
        yield "it is merged into the weights", "call unmerge_adapter(), or give the folder"
    if any(getattr(part, "disable_adapters", False) is True for part in parts):
        yield "some adapters are off already", "turn all of them on"
    for name, config in module.peft_config.items():
        kind = str(getattr(config.peft_type, "value", config.peft_type))
        begun, bias = getattr(config, "init_lora_weights", ""), getattr(config, "bias", "none")
        if kind not in _KINDS:
            yield f"{name!r} is a {kind}, which may change the weights below", _CURE
        if str(begun).startswith(_CHANGED):
            yield f"{name!r} began with {begun!r}, which changed the weights below", _CURE
        if bias != "none":
            yield f"{name!r} trained biases of the base model (bias={bias!r})", _CURE

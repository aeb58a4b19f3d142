"""What must stay the same for numbers of two runs to belong together."""

from __future__ import annotations

from typing import Any

from canary.models.language_model import LanguageModel
from canary.records.validation import versions


def identity_of(model: LanguageModel) -> dict[str, Any]:
    """The model's part of the identity of a run, under names for people.

    Its parameters, how it computes, its tokenizer, and the versions of the software; not
    where it lies, and not the batch size, which moves numbers within the noise only.
    """
    facts = model.facts
    return {
        "model": facts.fingerprint,
        "dtype": facts.dtype,
        "attention": facts.attention,
        "device": facts.device,
        "tokenizer": getattr(model.tokenizer, "fingerprint", model.tokenizer.size),
        **{f"version of {name}": number for name, number in versions().items()},
    }

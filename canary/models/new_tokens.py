"""New tokens for canaries: into the tokenizer and the embedding, before training."""

from __future__ import annotations

from typing import Any

import torch

from canary.errors import InputError, UnsupportedError
from canary.formats.format import Format


def add_new_tokens(module: Any, tokenizer: Any, format: Format | str, *, seed: int = 0) -> int:
    """Give a model of `transformers` and its tokenizer the tokens of a format with ``{new:…}``.

    All tokens of the format are added, those of controls too. Each new row of the embeddings is
    drawn from one normal distribution, with mean and deviation of the rows that are there: before
    training no token is preferred, and ranks mean what was learned.

    Parameters
    ----------
    module, tokenizer
        A ``PreTrainedModel``, and the tokenizer that trains with it; both are changed.
    format : Format or str
        Such as ``"The key is {new:200}"``.
    seed : int
        Of the new rows.

    Returns
    -------
    int
        How many tokens were added. Training must train these rows: with LoRA, name the embedding
        in ``modules_to_save`` or ``trainable_token_indices``; `canary.preflight` says so.

    Raises
    ------
    InputError
        If the format has no such hole, or some of its tokens are there already.
    UnsupportedError
        If the model has no embedding that can grow.
    """
    space = Format.of(format)
    if not space.new_tokens:
        raise InputError("the format has no hole {new:…}", cure='write "The key is {new:200}"')
    names = list(space)
    known = tokenizer.get_vocab()
    if there := sum(name in known for name in names):
        raise InputError(
            f"{there} of the new tokens are in the tokenizer already, so the model may know them",
            cure="begin with the tokenizer and the model before training",
            where="tokenizer",
        )
    if not hasattr(module, "resize_token_embeddings"):
        raise UnsupportedError(
            f"{type(module).__name__} has no embedding that can grow",
            cure="give a model of transformers",
        )
    first = max(known.values()) + 1
    tokenizer.add_tokens(names)
    rows = max(first + len(names), module.get_input_embeddings().weight.shape[0])
    module.resize_token_embeddings(rows, mean_resizing=False)
    generator = torch.Generator().manual_seed(seed)
    done: set[int] = set()
    for layer in (module.get_input_embeddings(), module.get_output_embeddings()):
        weight = getattr(layer, "weight", None)
        if weight is None or weight.data_ptr() in done:  # tied weights are one
            continue
        done.add(weight.data_ptr())
        with torch.no_grad():
            old = weight[:first].float()
            noise = torch.randn(weight[first:].shape, generator=generator).to(weight.device)
            weight[first:] = (old.mean(0) + old.std(0) * noise).to(weight.dtype)
    return len(names)

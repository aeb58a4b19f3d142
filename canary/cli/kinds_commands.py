"""The commands for canaries of other kinds: texts of a model, and new tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from canary.cli.command import command
from canary.cli.console import Bars, show
from canary.cli.model_options import Count, LocalOptions, Whole
from canary.cli.options import unescaped, whole_numbers
from canary.cli.outputs import Result, check_outputs, model_files
from canary.errors import InputError
from canary.records.validation import named_start
from canary.statistics.numbers import count, plural

_PARTS = ("config.json", "model.safetensors")


@command(
    'pool ./model --size 120 --tokens 12 --temperature 1.5 --repetitions 1,4 --prompt "So it is: " '
    "--out pool-canaries.json",
    model="MODEL: The model before training: a folder or hub id.",
    out="FILE: The canary set to write.",
    size="N: The texts of the pool; those that are not drawn are controls.",
    temperature="[Pool] T: Above 1, texts are less likely, and a model remembers them better.",
    band="[Pool] LOW,HIGH: The bits per token, under the model, of texts to keep.  [default: all]",
    tokens="[Pool] N: The tokens of each text.",
    prompt=r"TEXT: What comes before each text, and is part of each canary; \n and \t are "
    "understood. Give it, or --start-token, unless the tokenizer begins each text itself.",
    seed="N: The seed of the draws. Keep it as secret as the canaries.  [default: drawn]",
    coin_flips="Toss a fair coin for each canary: tails keeps it out, as one more control.",
    role="[Pool] For a corpus of chats: who says the canaries.",
)
def pool(
    model: str,
    *,
    out: Path,
    size: Count = 400,
    repetitions: str = "1,4,16",
    per_repetition: Count = 8,
    temperature: float = 1.0,
    band: str | None = None,
    tokens: Count = 32,
    prompt: str = "",
    start_token: str | None = None,
    seed: Whole | None = None,
    coin_flips: bool = True,
    role: Literal["assistant", "user", "system"] | None = None,
    dtype: Literal["float32", "bfloat16", "float16"] | None = None,
    device: str | None = None,
    force: bool = False,
) -> Result:
    """Draw canaries from texts that a model wrote.

    Some texts of the pool are canaries, all others are controls. canary audit ranks each canary
    among the controls. Only you can read the file (mode 600), because it holds the secrets.
    """
    import secrets

    from canary.corpus.canaries import KIND
    from canary.corpus.pools import check_pool
    from canary.scoring.pool_sampling import check_sampling, sample_pool

    numbers = whole_numbers(repetitions, "--repetitions")
    limits = (0.0, 1e3) if band is None else _band(band)
    check_outputs([(out, (KIND,))], inputs=model_files(model), force=force)
    check_pool(size, len(numbers) * per_repetition)
    check_sampling(temperature, limits)
    drawn = secrets.randbits(63) if seed is None else seed
    loaded = LocalOptions(dtype=dtype, device=device).load(model)
    with Bars() as bars:
        texts = sample_pool(
            loaded,
            size,
            temperature=temperature,
            band=limits,
            tokens=tokens,
            prompt=unescaped(prompt),
            start_token=named_start(start_token),
            seed=drawn,
            progress=bars.stage,
        )
    canaries = texts.canaries(
        repetitions=numbers,
        per_repetition=per_repetition,
        seed=drawn,
        coin_flips=coin_flips,
        role=role or "",
    )
    canaries.save(out, force=force)
    show(texts.summary())
    kept = sum(c.tossed is not None for c in canaries.controls)
    show(
        f"{plural(len(canaries.injected), 'canary', 'canaries')} and "
        f"{plural(len(canaries.controls), 'control')} are in {out}"
        + (f" ({kept:,} of the controls are canaries whose coin kept them out)" if kept else "")
    )
    show(
        f"{out} holds the secrets. Only you can read it (mode 600). Audit the model with this "
        "set; the smallest p-value of one canary is "
        f"{1.0 / (1 + len(canaries.controls)):.2g}"
    )
    body = {"out": str(out), "canaries": len(canaries.injected)}
    return Result("canary pool", {**body, "controls": len(canaries.controls)})


def _band(given: str) -> tuple[float, float]:
    try:
        low, high = map(float, given.split(","))
    except ValueError:
        raise InputError(
            f"{given[:40]!r} is no band", cure="give two numbers, as in 4,8", where="band"
        ) from None
    return low, high


@command(
    "extend ./model --canaries token-canaries.json --out model-with-tokens/",
    model="MODEL: The model before training: a folder or hub id of transformers.",
    out="FOLDER: Where model and tokenizer go.",
)
def extend(
    model: str,
    *,
    canaries: Path,
    out: Path,
    seed: Whole = 0,
    force: bool = False,
) -> Result:
    """Give a model and its tokenizer the new tokens of canaries.

    For a canary set with {new:200} or the like. Do this before training: train the model in FOLDER
    with the tokenizer in FOLDER, and audit with that tokenizer.
    """
    from canary.corpus.canaries import CanarySet
    from canary.models.new_tokens import add_new_tokens
    from canary.models.pretrained import folder_of, read_module, tokenizer_of
    from canary.records.files import MODEL_PART, folder_made

    formats = [one for one in CanarySet.load(canaries).formats if one.new_tokens]
    if not formats:
        raise InputError(
            "no canary of the set has a new token",
            cure='draw a set of them: canary generate "The key is {new:200}" --controls 100',
            where=str(canaries),
        )
    with folder_made(out) as folder:
        parts = [(folder / name, (MODEL_PART,)) for name in _PARTS]
        check_outputs(parts, inputs=[canaries, *model_files(model)], force=force)
        source = folder_of(model)
        module, tokenizer = read_module(source, None, "cpu"), tokenizer_of(source)
        added = sum(add_new_tokens(module, tokenizer, one, seed=seed) for one in formats)
        tokenizer.save_pretrained(folder)
        module.save_pretrained(folder)
    last = len(tokenizer)
    show(f"{plural(added, 'token')} are new in the model and the tokenizer in {out}")
    show(
        f"Training must train the rows {count(last - added)} to {count(last - 1)} of the "
        "embedding. With LoRA, name them in trainable_token_indices, or the embedding in "
        "modules_to_save. canary.preflight checks it"
    )
    body = {"out": str(out), "tokens": added, "first_row": last - added, "last_row": last - 1}
    return Result("canary extend", body)

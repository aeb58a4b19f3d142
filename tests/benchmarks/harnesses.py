"""Pricing many fills of a format, against the general harnesses and against the bare model.

    python -m venv --system-site-packages elsewhere
    elsewhere/bin/pip install lm-eval minicons
    elsewhere/bin/python tests/benchmarks/harnesses.py [--rounds 3] [--groups 100] [--texts 100]

lm-eval and minicons are no dependencies of the project; `--against` with fewer names, or
none, leaves them out. The model is a GPT-2 of 6 layers of 256 with random weights. Its
byte-level BPE is trained on Python's own documentation and on numbers, with GPT-2's
pre-tokenization. The context has 40 tokens. Two tasks: all fills of five digits, and 10^5
random fills of nine.

A round times, in turn and on the same module,

1. one-token forwards without context, at the best of several batch sizes, over as many
   tokens as the fills have distinct nodes;
2. the whole of our work: compiling the tree, for the random fills encoding them and finding
   their leaves, and the walk, which is also timed by itself;
3. `HFLM.loglikelihood` of lm-eval. It computes once what shares all but the last token, so
   the part that is timed consists of whole such groups, drawn at random, and the time for
   all fills is that of the part times the groups of all by the groups of the part;
4. `conditional_score` of minicons on some of the fills, extrapolated by their number.

Both harnesses run at the best of several batch sizes. Their numbers and ours must be equal.
Processor time, not wall-clock time: the machine may be shared. One JSON line.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pydoc_data.topics import topics
from typing import Any

import numpy as np
import torch
import transformers
from character_lstm import gpt2, rate
from figures import Clock, middle, options, over, show, spread, timed
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from canary.formats.format import Format
from canary.models.language_model import Context, LanguageModel
from canary.models.loading import load
from canary.scoring.batcher import Batcher
from canary.search.enumerate import enumerate_leaves, leaf_costs
from canary.search.step import context_nats
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.tree import compile_tree, leaf_numbers

Floats = NDArray[np.float64]
Costs = Callable[[list[str], list[str]], list[float]]
"""Contexts and continuations to the logarithms of their probabilities, in nats."""

END = "<|endoftext|>"
TEXT = "The random number is {{digit:{}}}"
CONTEXT_TOKENS = 40
NUMBERS = 500  # lines of twenty numbers among what the tokenizer is trained on
EQUAL_NATS = 1e-4
BATCHES = (32, 128)
FORWARDS = (64, 128, 256, 512, 1024)


def tokenizer(size: int) -> Tokenizer:
    rng = np.random.default_rng(0)
    lines = [topics[name] for name in sorted(topics)]
    for _ in range(NUMBERS):
        numbers = (rng.integers(0, 10 ** int(rng.integers(1, 10))) for _ in range(20))
        lines.append(" ".join(map(str, numbers)))
    found = Tokenizer(models.BPE())
    found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    found.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=[END],
        show_progress=False,
    )
    found.train_from_iterator(lines, trainer)
    return found


def context(backend: Tokenizer) -> str:
    """Prose that stands before the candidates, so that they begin after 40 tokens."""
    words = topics["assert"].split()
    head = TEXT.split(" {", maxsplit=1)[0]
    for count in range(len(words)):
        prose = " ".join(words[:count]) + " "
        if len(backend.encode(prose + head).ids) == CONTEXT_TOKENS:
            return prose
    raise AssertionError("no number of words makes 40 tokens")


@dataclass(frozen=True)
class Task:
    """Fills to price; all those of the format unless some are listed."""

    format: Format
    fills: list[str]
    whole: bool


@dataclass(frozen=True)
class Found:
    """Costs below the context, in nats, and what they took; `walking` is part of `seconds`."""

    costs: Floats
    queries: int
    seconds: float
    walking: float


def ours(model: LanguageModel, encoder: CandidateEncoder, task: Task) -> Found:
    with Clock() as clock:
        tree, batcher = compile_tree(task.format, encoder), Batcher(model)
        if not task.whole:
            numbers = leaf_numbers(tree, task.format, encoder, task.fills)
        with Clock() as walk, model.open(Context(tree.context), memory_bytes=2**29) as walker:
            above = context_nats(walker)
            if task.whole:
                by_leaf, queries = np.empty(tree.size), 0
                for leaves, spent in enumerate_leaves(tree, walker, batcher):
                    by_leaf[leaves.index()] = leaves.costs
                    queries += spent
            else:
                costs, _, queries = leaf_costs(tree, walker, batcher, numbers)
    assert len(tree.context) == CONTEXT_TOKENS
    if task.whole:  # only for the comparison: a census counts leaves
        costs = by_leaf[leaf_numbers(tree, task.format, encoder, task.fills)]
    return Found(costs - above, queries, clock.cpu, walk.cpu)


def forwards(module: Any, size: int) -> float:
    """Tokens per second of one-token forwards."""
    ids = torch.randint(0, module.config.vocab_size, (size, 1))
    return rate(lambda: module(input_ids=ids, use_cache=False), size)


def lm_eval(module: Any, hub: Any, batch: int) -> Costs:
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    logging.disable(logging.WARNING)
    harness = HFLM(pretrained=module, tokenizer=hub, backend="causal", batch_size=batch)

    def costs(contexts: list[str], continuations: list[str]) -> list[float]:
        requests = [
            Instance(request_type="loglikelihood", doc={}, arguments=pair, idx=0)
            for pair in zip(contexts, continuations, strict=True)
        ]
        return [found for found, _ in harness.loglikelihood(requests, disable_tqdm=True)]

    return costs


def minicons(module: Any, hub: Any, batch: int) -> Costs:
    from minicons.scorer import IncrementalLMScorer

    scorer = IncrementalLMScorer(module, device="cpu", tokenizer=hub)

    def costs(contexts: list[str], continuations: list[str]) -> list[float]:
        found: list[float] = []
        for at in range(0, len(contexts), batch):
            part = slice(at, at + batch)
            found += scorer.conditional_score(
                contexts[part],
                continuations[part],
                separator="",
                reduction=lambda log_probs: log_probs.sum().item(),
            )
        return found

    return costs


OWN = ("ours", "walk", "forwards")
HARNESSES = {"lm-eval": lm_eval, "minicons": minicons}


def priced(costs: Costs, before: str, fills: Sequence[str]) -> tuple[Floats, float]:
    # A space at the boundary belongs to the fill's first token.
    found, seconds = timed(lambda: costs([before] * len(fills), [f" {fill}" for fill in fills]))
    return -np.array(found), seconds


def groups(encoder: CandidateEncoder, task: Task) -> list[list[int]]:
    """Positions of the fills that share all tokens but the last."""
    found: dict[tuple[int, ...], list[int]] = {}
    for at, encoding in enumerate(encoder.candidates(task.format, task.fills)):
        found.setdefault(tuple(encoding.ids[:-1]), []).append(at)
    return list(found.values())


def measure(
    task: Task, model: LanguageModel, encoder: CandidateEncoder, hub: Any, given: Any
) -> dict[str, Any]:
    module = model.module  # type: ignore[attr-defined]
    before = encoder.context + task.format.prefix.rstrip()
    rng = np.random.default_rng(0)
    parts = groups(encoder, task)
    drawn = rng.choice(len(parts), min(given.groups, len(parts)), replace=False)
    some = rng.choice(len(task.fills), min(given.texts, len(task.fills)), replace=False)
    # Which of the fills each harness is given, and by what its time is multiplied.
    plan = {
        "lm-eval": (np.concatenate([parts[at] for at in drawn]), len(parts) / len(drawn)),
        "minicons": (some, len(task.fills) / len(some)),
    }
    harnesses = {}
    for name in given.against:
        few = [task.fills[at] for at in plan[name][0][:256]]
        built = [HARNESSES[name](module, hub, batch) for batch in BATCHES]
        harnesses[name] = min(built, key=lambda costs: priced(costs, before, few)[1])
    seconds: dict[str, list[float]] = {name: [] for name in (*OWN, *harnesses)}
    apart = dict.fromkeys(harnesses, 0.0)
    for _ in range(given.rounds):
        fastest = max(forwards(module, size) for size in FORWARDS)
        found = ours(model, encoder, task)
        seconds["ours"].append(found.seconds)
        seconds["walk"].append(found.walking)
        seconds["forwards"].append(found.queries / fastest)
        for name, costs in harnesses.items():
            which, times = plan[name]
            theirs, spent = priced(costs, before, [task.fills[at] for at in which])
            seconds[name].append(spent * times)
            apart[name] = max(apart[name], float(np.abs(theirs - found.costs[which]).max()))
            assert apart[name] <= EQUAL_NATS, f"{name} and we differ by {apart[name]} nats"

    result: dict[str, Any] = {
        "format": task.format.masked,
        "fills": len(task.fills),
        "nodes": found.queries,
        "seconds": middle(seconds["ours"], 2),
        "walk_seconds": middle(seconds["walk"], 2),
        **spread("walk_over_forwards", over(seconds["walk"], seconds["forwards"])),
        **spread("all_over_forwards", over(seconds["ours"], seconds["forwards"])),
    }
    for name in harnesses:
        result[name] = {
            "timed_fills": len(plan[name][0]),
            "seconds": middle(seconds[name], 1),
            "extrapolated": round(plan[name][1], 1),
            **spread("ratio", over(seconds[name], seconds["ours"]), digits=1),
            "largest_difference_nats": apart[name],
        }
        if name == "lm-eval":
            result[name] |= {"groups": len(parts), "timed_groups": len(drawn)}
    return result


def check_installed(names: Sequence[str]) -> None:
    for name in names:
        try:
            __import__(name.replace("-", "_"))
        except ImportError as error:
            sys.exit(
                f"harnesses.py compares with {name}, which is not installed here ({error}). It is "
                f"no dependency of the project: pip install {name} into an environment of its "
                "own, or leave it out with --against"
            )


def main() -> None:
    given = options(
        rounds=3, all_digits=5, random=100_000, groups=100, texts=100, vocabulary=3_000, threads=1,
        against=(*HARNESSES,),
    )  # fmt: skip
    check_installed(given.against)
    warnings.simplefilter("ignore")
    torch.set_num_threads(given.threads)
    backend = tokenizer(given.vocabulary)
    hub = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token=END, pad_token=END
    )
    module = gpt2(
        backend.get_vocab_size(), width=256, layers=6, positions=128, bos_token_id=0, eos_token_id=0
    )
    model = load(module, tokenizer=backend, device="cpu")
    encoder = CandidateEncoder(model.tokenizer, context=context(backend))
    every, nine = Format(TEXT.format(given.all_digits)), Format(TEXT.format(9))
    tasks = [
        Task(every, list(every), whole=True),
        Task(nine, nine.sample(given.random, rng=np.random.default_rng(1)), whole=False),
    ]
    show(
        "harnesses",
        threads=given.threads,
        vocabulary=backend.get_vocab_size(),
        context_tokens=CONTEXT_TOKENS,
        tasks=[measure(task, model, encoder, hub, given) for task in tasks],
    )


if __name__ == "__main__":
    main()

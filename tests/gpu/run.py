"""All that only a GPU can show, in one call that takes less than ten minutes and no network.

    python tests/gpu/run.py --out gpu.json
    python tests/gpu/run.py --out gpu.json --parts enumeration large --again
    python tests/gpu/run.py --out cpu.json --device cpu --quick

Each part runs in a process of its own with a time limit; its figures, or its error, are in the
JSON as soon as it ends. A second call goes on with the parts that are missing or failed. Needs
`canary` on the path with what it depends on, and nothing of the tests' own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
CHARACTERS = "0123456789abcdefghijklmnopqrstuvwxyz .:-"
Figures = dict[str, Any]


@dataclass(frozen=True)
class Given:
    """Where parts run, and whether each is as small as shows that it runs."""

    device: str
    quick: bool

    def size(self, quick: int, whole: int) -> int:
        return quick if self.quick else whole


def tokenizer() -> Any:
    from tokenizers import Tokenizer
    from tokenizers.models import BPE

    from canary.tokens.fast import as_tokenizer

    return as_tokenizer(Tokenizer(BPE(vocab={c: i for i, c in enumerate(CHARACTERS)}, merges=[])))


def lstm(given: Given) -> Any:
    """Two layers of 200 units, 0.6 million parameters, with random weights."""
    import torch

    from canary.models.loading import load

    torch.manual_seed(0)
    width = given.size(16, 200)

    class Lstm(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = torch.nn.Embedding(len(CHARACTERS), width)
            self.body = torch.nn.LSTM(width, width, 2, batch_first=True)
            self.out = torch.nn.Linear(width, len(CHARACTERS))
            self.hog = 0  # bytes that each row takes besides

        def forward(self, ids: Any, state: Any = None) -> Any:
            hog = torch.empty(len(ids), self.hog, dtype=torch.uint8, device=ids.device)
            hidden, state = self.body(self.embed(ids), state)
            return self.out(hidden) + hog[:, :0].sum(), state

    return load(Lstm().to(given.device), tokenizer=tokenizer())


def transformer(given: Given, kind: str, dtype: str, attention: str, **sizes: int) -> Any:
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    torch.manual_seed(0)
    options = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, **sizes}
    if kind == "gpt2":
        options = {"n_embd": 128, "n_layer": 2, "n_head": 2}
    else:
        options = {"num_attention_heads": 2, "num_key_value_heads": 1, **options}
    config = CONFIG_MAPPING[kind](
        **{"vocab_size": len(CHARACTERS), **options}, bos_token_id=None, eos_token_id=None
    )
    with torch.device(given.device):
        module = AutoModelForCausalLM.from_config(
            config, attn_implementation=attention, dtype=getattr(torch, dtype)
        )
    return module.eval()


def synchronized(given: Given) -> float:
    """The clock, once all that was asked of the device is done."""
    import torch

    if given.device.startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter()


def timed(given: Given, work: Callable[[], Any], rounds: int = 3) -> tuple[Any, float]:
    """What some work gives, and its median seconds after one round to warm up."""
    found, seconds = work(), []
    for _ in range(rounds):
        began = synchronized(given)
        found = work()
        seconds.append(synchronized(given) - began)
    return found, sorted(seconds)[len(seconds) // 2]


def environment(given: Given) -> Figures:
    """Versions and the device."""
    import torch
    import transformers

    about = {"torch": torch.__version__, "transformers": transformers.__version__}
    if given.device.startswith("cuda"):
        free, total = torch.cuda.mem_get_info()
        about["device"] = torch.cuda.get_device_name()
        about |= {"free bytes": free, "total bytes": total, "cuda": torch.version.cuda}
    return {**about, "python": sys.version.split()[0], "processors": os.cpu_count()}


def conformance(given: Given) -> Figures:
    """Every check of the seam, and the noise, by kind, dtype and attention."""
    from canary.models.conformance import CHECKS
    from canary.models.loading import load

    dtypes = ["float32"] if given.quick else ["float32", "bfloat16", "float16"]
    ways = ["eager"] if given.quick else ["eager", "sdpa", "flash_attention_2"]
    found: Figures = {}
    for kind in ("gpt2",) if given.quick else ("gpt2", "llama", "mistral"):
        for dtype in dtypes:
            for way in ways:
                if way.startswith("flash") and dtype == "float32":
                    continue
                name = f"{kind} {dtype} {way}"
                try:
                    model = load(transformer(given, kind, dtype, way), tokenizer=tokenizer())
                except Exception as error:
                    found[name] = {"not loaded": str(error)[:200]}
                    continue
                failed = {}
                for check in CHECKS:
                    try:
                        check(model)
                    except Exception as error:  # every check is reported
                        failed[check.__name__] = f"{type(error).__name__}: {error}"[:300]
                found[name] = {
                    "checks": len(CHECKS),
                    "failed": failed,
                    "noise bits per token": model.facts.noise_bits_per_token,
                    "capabilities": list(model.facts.capabilities),
                }
    return found


def memory(given: Given) -> Figures:
    """Batches that do not fit are halved, in rows and nodes, and nothing is held afterwards."""
    import numpy as np
    import torch

    from canary.models.language_model import Children, Context, Nodes, Rows
    from canary.scoring.batcher import Batcher

    model, found = lstm(given), {}
    rng = np.random.default_rng(0)
    rows = Rows.of(rng.integers(0, 30, (64, 6)).tolist())
    paths = rng.integers(0, 30, (64, 2)).astype(np.int32)
    two, none = np.full(64, 2), np.full(64, -1)
    nodes, tokens = Nodes(paths, two, two, none), Children(np.arange(9, dtype=np.int32))
    with scarce(model.module, given) as hog:
        model.module.hog = hog
        scored, refused = Batcher(model, batch_size=64).score(rows), [refusals(model.module, given)]
        with model.open(Context(np.array([1, 2], np.int32)), memory_bytes=2**24) as walker:
            grown = Batcher(model, batch_size=64).expand(walker, nodes, tokens, keep=False)
            refused.append(refusals(model.module, given) - refused[0])
            model.module.hog = 0
            wanted = walker.expand(nodes, tokens, keep=False)
        found["score differs by"] = float(np.abs(scored - model.score(rows)).max())
        found["expand differs by"] = float(np.abs(grown.log_probs - wanted.log_probs).max())
    if given.device.startswith("cuda"):
        torch.cuda.empty_cache()
        found["held bytes"] = torch.cuda.memory_allocated()
    found["batches refused"] = refused  # in scoring, and in expanding
    assert min(refused) > 0, "all batches fitted, so nothing was halved"
    assert max(found["score differs by"], found["expand differs by"]) < 1e-3
    return found


def refusals(module: Any, given: Given) -> int:
    """How many batches did not fit so far."""
    import torch

    if given.device.startswith("cuda"):
        return int(torch.cuda.memory_stats()["num_ooms"])
    return int(module.refused)


@contextmanager
def scarce(module: Any, given: Given) -> Iterator[int]:
    """Bytes of a row of which about ten fit; on a CPU, an allocator that says so."""
    import torch

    if given.device.startswith("cuda"):
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(0.1)
        try:
            yield int(0.1 * torch.cuda.get_device_properties(0).total_memory) // 10
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
        return

    module.refused = 0

    def refuse(part: Any, ids: Any) -> None:
        if part.hog and len(ids[0]) > 10:
            part.refused += 1
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    hook = module.register_forward_pre_hook(refuse)
    try:
        yield 1
    finally:
        hook.remove()


def enumeration(given: Given) -> Figures:
    """A billion numbers of nine digits, the step of the model alone, and what surrounds it."""
    import numpy as np
    import torch

    from canary.formats.format import Format
    from canary.models.language_model import Context
    from canary.scoring.batcher import Batcher
    from canary.search.enumerate import enumerate_leaves
    from canary.search.pricing import walk_memory
    from canary.tokens.candidates import CandidateEncoder
    from canary.tokens.tree import compile_tree

    model, found = lstm(given), {}
    for digits in (3,) if given.quick else (6, 7, 9):
        encoder = CandidateEncoder(model.tokenizer)
        tree = compile_tree(Format(f"the code is {{digit:{digits}}}"), encoder)
        room = walk_memory(model)
        began, queries, leaves, limit = synchronized(given), 0, 0, given.size(5, 150)
        with model.open(Context(tree.context), memory_bytes=room) as walker:
            batcher = Batcher(model)
            for some, spent in enumerate_leaves(tree, walker, batcher):
                queries, leaves = queries + spent, leaves + len(some.costs)
                if time.perf_counter() - began > limit:
                    break
            size = batcher.node_batch(walker)
        seconds = synchronized(given) - began
        found[f"{digits} digits"] = {
            "leaves": leaves,
            "of": tree.size,
            "queries": queries,
            "seconds": seconds,
            "queries per second": queries / seconds,
            "seconds for all": seconds * tree.size / max(leaves, 1),
            "batch": size,
        }
        ids = torch.zeros((size, 1), dtype=torch.int64, device=given.device)
        with torch.no_grad():
            state = model.module(ids)[1]
            bare = timed(given, lambda: model.module(ids, state), 20)[1]  # noqa: B023 - at once
        found[f"{digits} digits"]["bare queries per second"] = size / bare
        costs = np.random.default_rng(0).random(10 * size)
        began = time.perf_counter()
        np.searchsorted(np.sort(costs[:40]), costs)
        found[f"{digits} digits"]["numpy seconds per batch of leaves"] = time.perf_counter() - began
    return found


def search(given: Given) -> Figures:
    """Extraction with its proof, and exact ranks, under the LSTM."""
    from canary.audits.auditing import exposure
    from canary.audits.extracting import extract
    from canary.corpus.canaries import generate

    model, format = lstm(given), f"the code is {{digit:{given.size(3, 7)}}}"
    began = synchronized(given)
    found = extract(model, format, top=3, budget=given.size(2_000, 1_000_000), start_token=None)
    middle = synchronized(given)
    canaries = generate(format, repetitions=(1,), per_repetition=4, controls=4, seed=0)
    ranked = exposure(
        model, canaries, method="rank", budget=given.size(2_000, 3_000_000), draws=100,
        start_token=None,
    )  # fmt: skip
    return {
        "extraction seconds": middle - began,
        "extraction queries": found.queries,
        "proven": [candidate.proven for candidate in found.candidates],
        "rank seconds": synchronized(given) - middle,
        "exact": sum(result.exposure.exact for result in ranked),
    }


def large(given: Given) -> Figures:
    """A model of the shape of a billion parameters: scoring against its bare forward, windows."""
    import numpy as np
    import torch

    from canary.models.decoding import Scheme
    from canary.models.language_model import Rows, peak_memory
    from canary.models.loading import load
    from canary.scoring.batcher import Batcher

    sizes = {"vocab_size": 32_000, "hidden_size": 2_048, "intermediate_size": 5_632}
    sizes |= {"num_hidden_layers": 22, "num_attention_heads": 32, "num_key_value_heads": 4}
    if given.quick:
        sizes |= {"vocab_size": 9_000, "hidden_size": 64, "intermediate_size": 128}
        sizes |= {"num_hidden_layers": 2, "num_attention_heads": 4}
    dtype = "float32" if given.quick else "bfloat16"
    module = transformer(given, "llama", dtype, "sdpa", **sizes)
    model = load(module, tokenizer=tokenizer())
    count, length = given.size(8, 1_024), given.size(16, 128)
    ids = np.random.default_rng(0).integers(0, sizes["vocab_size"], (count, length))
    rows, batcher = Rows.of(ids.tolist()), Batcher(model)
    batcher.score(rows)  # finds the batch size
    _, seconds = timed(given, lambda: batcher.score(rows), 2)
    each = max(batcher._tokens.size // length, 1)
    given_ids = torch.from_numpy(ids).to(given.device)

    def bare() -> None:
        with torch.no_grad():
            for first in range(0, count, each):
                module(input_ids=given_ids[first : first + each], use_cache=False)

    _, alone = timed(given, bare, 2)
    windows = Rows.of(ids[:, :100].tolist(), min(50, length - 1))
    schemes = [Scheme()]
    _, decoded = timed(given, lambda: batcher.decoded(windows, schemes), 2)
    return {
        "parameters": sum(part.numel() for part in module.parameters()),
        "tokens per second": count * (length - 1) / seconds,
        "bare tokens per second": count * (length - 1) / alone,
        "ratio (goal 0.9)": alone / seconds,
        "windows per second": count / decoded,
        "hours for a million windows": 1e6 * decoded / count / 3_600,
        "head apart": model.head is not None,
        "peak bytes": peak_memory(model),
    }


def fleet(given: Given) -> Figures:
    """Networks trained at once, against the same ones one after the other; goal 10 times."""
    import numpy as np

    from canary.fleet.torch_training import TorchTraining
    from canary.fleet.training import TrainingTask

    models, records = given.size(2, 64), given.size(60, 1_000)
    rng = np.random.default_rng(0)
    x = (rng.random((2 * records, 446)) < 0.12).astype(np.float32)
    y = rng.integers(0, 30, 2 * records)
    chosen = [np.sort(rng.choice(2 * records, records, replace=False)) for _ in range(models)]
    tasks = [TrainingTask(x, y, part, k, k, 30) for k, part in enumerate(chosen)]
    train = TorchTraining(build=_network, epochs=2, batch_size=32, device=given.device)
    train.together(tasks[:2])
    began = synchronized(given)
    alone = [train(task) for task in tasks]
    middle = synchronized(given)
    stacked = train.together(tasks)
    ended = synchronized(given)
    apart = max(
        float(np.abs(value - other.weights[name]).max())
        for one, other in zip(alone, stacked, strict=True)
        for name, value in one.weights.items()
    )
    return {"ratio (goal 10)": (middle - began) / (ended - middle), "weights differ by": apart}


def _network() -> Any:
    import torch

    return torch.nn.Sequential(torch.nn.Linear(446, 128), torch.nn.ReLU(), torch.nn.Linear(128, 30))


def monitor(given: Given) -> Figures:
    """What share of a training the monitor takes."""
    import torch

    from canary.corpus.canaries import generate
    from canary.plugins.monitor import ExposureMonitor

    module = lstm(given).module.train()
    canaries = generate("the code is {digit:6}", repetitions=(1,), seed=0)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    watch = ExposureMonitor(
        canaries, tokenizer=tokenizer(), every=given.size(2, 20), draws=given.size(20, 1_000),
        share=None, path=Path(tempfile.mkdtemp()) / "history.json",
    )  # fmt: skip
    seconds, moments = {"training": 0.0, "monitor": 0.0}, 0
    for step in range(1, given.size(3, 60) + 1):
        began = synchronized(given)
        ids = torch.randint(0, 30, (given.size(4, 64), 128), device=given.device)
        logits = module(ids[:, :-1])[0]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        middle = synchronized(given)
        moments += watch.step(module, step=step) is not None
        seconds["training"] += middle - began
        seconds["monitor"] += synchronized(given) - middle
    assert moments, "the monitor measured nothing"
    share = seconds["monitor"] / sum(seconds.values())
    return {**seconds, "share": share, "measurements": moments}


PARTS: dict[str, tuple[Callable[[Given], Figures], int]] = {
    "environment": (environment, 60),
    "conformance": (conformance, 120),
    "memory": (memory, 60),
    "enumeration": (enumeration, 240),
    "search": (search, 90),
    "large": (large, 120),
    "fleet": (fleet, 90),
    "monitor": (monitor, 60),
}
"""What runs, in this order, and its time limit in seconds."""


def run_part(name: str, given: Given) -> Figures:
    """The figures of a part, or its error."""
    began = time.perf_counter()
    try:
        found: Figures = {"figures": PARTS[name][0](given)}
        parts = found["figures"].items()
        if failed := [what for what, of in parts if isinstance(of, dict) and of.get("failed")]:
            found["error"] = f"checks failed of {', '.join(failed)}"
    except Exception:  # the other parts go on
        found = {"error": traceback.format_exc()[-3_000:]}
    return {**found, "seconds": time.perf_counter() - began}


def in_process_of_its_own(name: str, given: Given) -> Figures:
    """`run_part`, ended at its time limit."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "part.json"
        words = ["--device", given.device, "--alone", name, "--out", str(out)]
        words += ["--quick"] if given.quick else []
        limit, before = PARTS[name][1], filter(None, [os.environ.get("PYTHONPATH")])
        try:
            done = subprocess.run(
                [sys.executable, str(HERE), *words],
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parents[2]), *before])},
                capture_output=True,
                text=True,
                timeout=limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"error": f"took more than {limit} seconds", "seconds": limit}
        if out.exists():
            return dict(json.loads(out.read_text()))
        return {"error": f"ended with {done.returncode}: {done.stderr[-2_000:]}", "seconds": None}


def main(words: list[str] | None = None) -> int:
    as_written = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=as_written)
    parser.add_argument("--out", type=Path, default=Path("gpu.json"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--quick", action="store_true", help="as small as shows that it runs")
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--again", action="store_true", help="also what is done")
    parser.add_argument("--here", action="store_true", help="in this process, without limits")
    parser.add_argument("--alone", choices=PARTS, help=argparse.SUPPRESS)
    asked = parser.parse_args(words)
    given = Given(asked.device, asked.quick)
    if asked.alone:
        asked.out.write_text(json.dumps(run_part(asked.alone, given)))
        return 0
    kept = json.loads(asked.out.read_text()) if asked.out.exists() else {}
    if kept.get("asked") != vars(given):
        kept = {"asked": vars(given), "parts": {}}
    for name in asked.parts:
        if not asked.again and "error" not in kept["parts"].get(name, {"error": "missing"}):
            continue
        run = run_part if asked.here else in_process_of_its_own
        kept["parts"][name] = run(name, given)
        whole = asked.out.with_suffix(".part")
        whole.write_text(json.dumps(kept, indent=1))
        whole.replace(asked.out)
        outcome = kept["parts"][name]
        sys.stdout.write(f"{name}: {outcome.get('error', 'done').strip().splitlines()[-1]}\n")
        sys.stdout.flush()
    return int(any("error" in kept["parts"][name] for name in asked.parts))


if __name__ == "__main__":
    sys.exit(main())

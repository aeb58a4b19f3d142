"""What the package's own runtime, llama.cpp, says of the texts that `fetch.py` compares.

As shipped, llama.cpp rounds the inputs of every product to 8 bits, which moves a text by up to 2 %.
So it also expands the weights to float32 itself, and computes with these: no rounding is left, and
a right conversion gives the same bits.

It takes the Python of an environment with `llama-cpp-python`, into which the package itself is
not installed: pip compiles it in ten minutes.

Usage::

    python runtime.py SmolLM2-135M-Instruct.Q4_1.gguf [--out results.json]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from tables import RESULTS, keep

TEXTS = (
    "Four score and seven years ago our fathers brought forth on this continent, a new nation, "
    "conceived in Liberty, and dedicated to the proposition that all men are created equal. Now we "
    "are engaged in a great civil war, testing whether that nation, or any nation so conceived and "
    "so dedicated, can long endure. We are met on a great battle-field of that war.",
    "The ferry left an hour late, so we ate our sandwiches on the pier and watched the rain.",
    "Totals\n\n1.  299792458\n2.  1,234.50\n\t(see page  7)",
    "def mean(values):\n    return sum(values) / len(values)\n",
    "Où est l’été ? À côté de la forêt, ½ heure à pied : x² + π ≈ 4.",
    "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
    "The capital of France is Paris.<|im_end|>\n",
)
START = 0  # <|endoftext|>


def bits_of(model: Any, ids: list[int]) -> float:
    """Log-perplexity of the tokens after the start token, in bits."""
    model.reset()
    model.eval([START, *ids])
    logits = np.array(model.scores[: len(ids)], np.float64)
    most = logits.max(axis=1)
    total = most + np.log(np.exp(logits - most[:, None]).sum(axis=1))
    return float((total - logits[np.arange(len(ids)), ids]).sum() / np.log(2))


def opened(path: Path) -> Any:
    """The model, with its keys and values in float32."""
    import llama_cpp

    some = {"n_ctx": 512, "logits_all": True, "verbose": False, "n_threads": 1}
    return llama_cpp.Llama(str(path), **some, type_k=0, type_v=0)


def expanded(path: Path, out: Path) -> Path:
    """The same model with float32 weights, written by llama.cpp."""
    import llama_cpp

    options = llama_cpp.llama_model_quantize_default_params()
    options.ftype, options.allow_requantize, options.nthread = 0, True, 1
    if llama_cpp.llama_model_quantize(str(path).encode(), str(out).encode(), options):
        raise SystemExit(f"runtime: llama.cpp could not expand {path}")
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("gguf", type=Path)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    import llama_cpp

    shipped, found = opened(args.gguf), []
    with tempfile.TemporaryDirectory() as scratch:
        whole = opened(expanded(args.gguf, Path(scratch) / "float32.gguf"))
        for text in TEXTS:
            ids = shipped.tokenize(text.encode(), add_bos=False, special=True)
            bits, rounded = bits_of(whole, ids), bits_of(shipped, ids)
            numbers = {"bits": round(bits, 4), "bits_as_shipped": round(rounded, 4)}
            found.append({"text": text, "tokens": ids, **numbers})
            print(f"{bits:8.3f} bits ({rounded:.3f} as shipped): {text[:50]!r}", flush=True)
        del whole
    about = f"llama-cpp-python {llama_cpp.__version__}"
    keep(args.out, "runtime", {"command": "python runtime.py", "runtime": about, "texts": found})


if __name__ == "__main__":
    main()

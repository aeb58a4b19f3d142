"""The optimizer: does it change the exposure of a single copy?

Appendix A.2 of the paper. Each optimizer has two learning rates, both of which are shown: a
rate that suits one suits no other, and the better one is that of the lower loss.
"""

from __future__ import annotations

from study import sweep
from train import Settings

RATES: tuple[tuple[str, str, dict[str, float], tuple[float, float]], ...] = (
    ("Adam", "Adam", {}, (4e-3, 2e-3)),
    ("SGD", "SGD", {}, (2.0, 0.5)),
    ("SGD with momentum", "SGD", {"momentum": 0.9}, (0.2, 0.05)),
    ("RMSprop", "RMSprop", {}, (4e-3, 1e-3)),
    ("Adagrad", "Adagrad", {}, (0.05, 0.02)),
    ("Adadelta", "Adadelta", {}, (4.0, 1.0)),
)
CHANGES = {
    f"{label}, rate {rate:g}": {
        "settings": {"optimizer": kind, "options": options, "learning_rate": rate}
    }
    for label, kind, options, rates in RATES
    for rate in rates
}
STUDY = sweep("optimizer", CHANGES, share=0.025, base=Settings(epochs=20, batch=16))

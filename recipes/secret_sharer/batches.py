"""Batch size and number of units: does either change the exposure of a single copy?

Table 5 and appendix A.2 of the paper, which finds more memorization with larger batches. All
trainings have the same epochs and learning rate, so a larger batch takes fewer steps: read
the exposure beside the test loss.
"""

from __future__ import annotations

from itertools import product

from study import sweep
from train import Settings

CHANGES = {
    f"batch {batch}, {units} units": {"settings": {"batch": batch}, "model": {"units": units}}
    for batch, units in product((16, 32, 64), (50, 100, 200))
}
STUDY = sweep("batch-and-units", CHANGES, share=0.05, base=Settings(epochs=20))

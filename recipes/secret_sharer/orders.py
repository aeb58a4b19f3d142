"""The order of the lines: shuffled anew in each epoch, fixed, or drawn with replacement.

Appendix A.2 of the paper. Bagging draws as many lines as there are in every epoch, with
replacement. A single copy is then seen once in an epoch on average, and not at all in 37 % of
them. In a fixed order, how long ago it was seen at the end of an epoch is the same in all.
"""

from __future__ import annotations

from functools import partial

from study import own_formats, sweep
from train import Settings

CHANGES = {order: {"settings": {"order": order}} for order in ("shuffled", "fixed", "bagged")}
FOUR = partial(own_formats, count=4)
STUDY = sweep("order", CHANGES, share=0.05, base=Settings(epochs=20, batch=16), drawn=FOUR)

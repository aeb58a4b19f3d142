"""What regularization does to memorization: weight decay, dropout, quantization.

Section 9.1 of the paper. Does anything that is done against overfitting lower the exposure of
a single copy, and at what price in test loss? Weight decay is Adam's L2 penalty. Dropout is
between the layers and before the output. Quantization rounds each tensor of the trained model
to as many evenly spaced values; it is a variant of the first row and costs no training.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from study import Weights, sweep
from torch import Tensor
from train import Settings


def quantized(values: int) -> Callable[[Weights], Mapping[str, Tensor]]:
    """What rounds each tensor to so many evenly spaced values between its ends."""

    def rounded(tensor: Tensor) -> Tensor:
        low, high = tensor.min(), tensor.max()
        step = (high - low).clamp_min(torch.finfo(tensor.dtype).tiny) / (values - 1)
        return low + ((tensor - low) / step).round() * step

    return lambda weights: {name: rounded(tensor) for name, tensor in weights.items()}


PLAIN = {"variants": {f"{values} values": quantized(values) for values in (256, 16)}}
DECAY = {
    f"weight decay {decay:g}": {"settings": {"options": {"weight_decay": decay}}}
    for decay in (1e-5, 1e-4, 1e-3)
}
DROPOUT = {
    f"dropout {share:.0%}": {"model": {"dropout": share}} for share in (0.1, 0.3, 0.5, 0.7, 0.9)
}
STUDY = sweep(
    "regularization",
    {"none": PLAIN, **DECAY, **DROPOUT},
    share=0.025,
    base=Settings(epochs=20, batch=16),
)

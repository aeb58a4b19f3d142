"""The network: does another of the same size memorize a single copy less?

Table 4 and appendix A.1 of the paper: recurrent and convolutional networks of about 620,000
parameters each, with the layers and units that it names.
"""

from __future__ import annotations

from study import sweep
from train import Settings

NETWORKS = (
    ("GRU", "gru", 1, 370),
    ("GRU", "gru", 2, 235),
    ("LSTM", "lstm", 1, 320),
    ("LSTM", "lstm", 2, 200),
    ("CNN", "cnn", 1, 436),
    ("CNN", "cnn", 2, 188),
    ("CNN", "cnn", 4, 122),
    ("WaveNet", "wavenet", 2, 188),
    ("WaveNet", "wavenet", 4, 122),
)
CHANGES = {
    f"{label}, {layers} x {units}": {"model": {"network": kind, "layers": layers, "units": units}}
    for label, kind, layers, units in NETWORKS
}
STUDY = sweep("architecture", CHANGES, share=0.025, base=Settings(epochs=20, batch=16))

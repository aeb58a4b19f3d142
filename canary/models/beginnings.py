"""Rows that begin alike: their beginning is read once, whatever their number."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from canary.models.key_values import Decoder, KeysAndValues, context_rows, is_large, read_context
from canary.models.language_model import FloatArray, IntArray, Rows
from canary.models.torch_model import padded, token_log_probs
from canary.models.torch_support import computing


class SharedBeginning:
    """A decoder behind tokens whose keys and values all rows attend to.

    See `canary.scoring.shared_rows.Beginning`. Rows are padded on the right, which is exact.
    """

    def __init__(self, decoder: Decoder, ids: IntArray) -> None:
        self._decoder = decoder
        read = torch.from_numpy(np.asarray(ids[:-1], np.int64)).to(decoder.device).unsqueeze(0)
        given, cache = decoder.cached(read, None, bare=is_large(decoder, read.numel()))
        with computing():
            before, root = read_context(decoder, given, read)
            self._rows: KeysAndValues = context_rows(cache, read.shape[1])
            last = root.gather(np.zeros(1, np.int64), np.asarray(ids[-1:], np.int64))
        self.log_probs: FloatArray = np.append(before, last).astype(np.float32)

    def score(self, rows: Rows) -> FloatArray:
        """Log-probability of each scored token, flat, in nats."""
        decoder = self._decoder
        ids, wanted = padded(rows, decoder.device)
        bare = decoder.head is not None
        given: Any = decoder.below(ids[:, :-1], None, self._rows, bare=bare)[0]
        targets = ids[:, 1:]
        with computing():
            if decoder.head is None:
                return token_log_probs(given, targets.to(given.device), wanted.to(given.device))
            asked, parts = targets[wanted], []
            for part, logits in decoder.head.parts(given[wanted.to(given.device)]):
                every = torch.ones((1, len(logits)), dtype=torch.bool, device=logits.device)
                of = asked[part].to(logits.device)[None]
                parts.append(token_log_probs(logits[None], of, every))
        return np.concatenate(parts)

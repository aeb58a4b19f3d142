"""An adapter as somebody would write it, with the faults that adapters have."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from small_models import CHARACTERS, build, recurrent_module

from canary.models.by_scoring import RowWalker


class Own:
    """An adapter as somebody would write it over a torch module, with one fault."""

    fault = ""
    reach = 0.2

    def __init__(self, fault: str = "", seed: int = 3) -> None:
        honest = build("lstm")
        torch.manual_seed(seed)
        self.module = recurrent_module("LSTM").eval()
        self.tokenizer, self.memory, self.fault = honest.tokenizer, honest.memory, fault
        self.facts = dataclasses.replace(honest.facts, capabilities=("score", "expand"))
        self.dropout = torch.nn.Dropout(0.3).train(fault == "dropout")

    def score(self, rows):
        found = []
        for at, start in enumerate(rows.start):
            ids = torch.from_numpy(rows.ids[rows.offsets[at] : rows.offsets[at + 1]]).long()
            found.append(self.cut(ids)[int(start) :])
        return np.concatenate(found).astype(np.float32)

    @torch.no_grad()
    def cut(self, ids):
        """Nats of a row that is not read whole."""
        newline = CHARACTERS.index("\n")
        if self.fault == "keeps 24" and len(ids) > 24:
            windows = ids.unfold(0, 24, 1)[1:]
            logits = self.module(windows[:, :-1], None)[0][:, -1]
            late = torch.log_softmax(logits, -1).gather(1, windows[:, -1:])[:, 0].numpy()
            return np.concatenate([self.row(ids[:24]), late])
        if self.fault == "cuts at 24" and len(ids) > 24:
            rest = np.full(len(ids) - 24, -float(np.log(len(CHARACTERS))), np.float32)
            return np.concatenate([self.row(ids[:24]), rest])
        if self.fault == "drops the start" and len(ids) > 1 and ids[0] == newline:
            after = self.row(ids[1:])
            return np.concatenate([after[:1], after[:1] * 0 - 3.0, after[1:]])
        return self.row(ids)

    def filtered(self, logits):
        """Logits that are cut off or rounded."""
        if self.fault == "clamped":
            return logits.clamp(-self.reach, self.reach)
        if self.fault == "top 10":
            return torch.where(logits >= logits.topk(10).values[:, -1:], logits, -20.0)
        return (logits * 10).round() / 10 if self.fault == "rounded" else logits

    @torch.no_grad()
    def row(self, ids):
        """Nats of each token of a row; the first has none."""
        logits = self.filtered(self.dropout(self.module(ids[None], None)[0][0]))
        logs = torch.log_softmax(logits, -1)
        previous = torch.arange(len(ids)) - 1
        if self.fault == "forgotten shift":
            previous = torch.arange(len(ids))
        if self.fault == "shifted twice":
            previous = previous - 1
        if self.fault == "constant":
            logs = torch.full_like(logs, -float(np.log(len(CHARACTERS))))
        if self.fault == "one distribution":
            logs = logs[:1] * 0 + torch.log_softmax(torch.arange(len(CHARACTERS)) / 9.0, -1)
            logs = logs.expand(len(ids), -1)
        if self.fault == "bits":
            logs = logs / np.log(2)
        if self.fault == "decimal":
            logs = logs / np.log(10)
        if self.fault == "probabilities":
            logs = logs.exp()
        if self.fault == "scores":
            logs = logits - logits.max(-1, keepdim=True).values - 1.0
        if self.fault == "looks ahead":
            logs = torch.log_softmax(logits + logits.mean(0), -1)
        found = logs[previous.clamp(min=0), ids].numpy()
        if self.fault == "mean":
            found = np.full_like(found, found[1:].mean())
        return found

    def open(self, context, *, memory_bytes):
        return RowWalker(self, context)

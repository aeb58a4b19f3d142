"""A small recurrent model on disk, and a factory for it that workers can import.

With ``KILL_AT=calls:path`` among the variables of a process, it ends itself as by SIGKILL at
that call of the network, unless there is something at the path; there is from then on. Without
a path it always does.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from small_models import character_tokenizer, recurrent_module

FACTORY = "kept_models:build"
CALLS = [0]


def build(config):
    """The network, which counts the calls to it in this process."""
    net = recurrent_module("LSTM", width=config["width"])
    net.register_forward_pre_hook(_called)
    return net


def _called(_net, _given):
    CALLS[0] += 1
    at, _, mark = os.environ.get("KILL_AT", "").partition(":")
    if at and CALLS[0] == int(at):
        try:
            if mark:
                os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)


def saved(folder, width=24):
    """A folder that `canary.load` reads with `FACTORY`."""
    import torch
    from safetensors.torch import save_file

    folder = Path(folder)
    folder.mkdir()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = recurrent_module("LSTM", width=width)
    save_file(net.state_dict(), folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"width": width}))
    character_tokenizer().save(str(folder / "tokenizer.json"))
    return folder


def calls_of_loading(folder):
    """How often the network is called until it is loaded."""
    from canary.models.loading import load

    CALLS[0] = 0
    load(folder, factory=FACTORY)
    return CALLS[0]

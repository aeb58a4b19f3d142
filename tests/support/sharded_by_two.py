"""A training whose parameters are sharded over two processes (FSDP 2), with whole checkpoints."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from two_processes import two
from watched import causal, monitor, rows, small_set

from canary.errors import UnsupportedError


def train(folder: Path) -> dict[str, object]:
    """Save the base and two checkpoints, and ask a monitor on the way."""
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    net, tokenizer = causal(dropout=0.0)
    if rank == 0:
        for part in (net, tokenizer):
            part.save_pretrained(folder / "base")
    mesh = init_device_mesh("cpu", (2,))
    for block in net.transformer.h:
        fully_shard(block, mesh=mesh)
    fully_shard(net, mesh=mesh)
    parameters = [*net.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-2)
    ids = torch.tensor(rows(tokenizer, small_set(), count=4)["input_ids"])
    for step in range(1, 61):
        mine = ids[torch.randperm(len(ids), generator=torch.Generator().manual_seed(step))][rank::2]
        net(mine, labels=mine).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 30 == 0:
            whole = get_model_state_dict(net, options=StateDictOptions(full_state_dict=True))
            if rank == 0:
                out = folder / f"output/checkpoint-{step}"
                net.save_pretrained(out, state_dict=whole)
                tokenizer.save_pretrained(out)
    said = ""
    try:
        monitor().step(net)
    except UnsupportedError as error:
        said = str(error)
    here = sum(parameter.to_local().numel() for parameter in parameters)
    return {"said": said, "share": here / sum(parameter.numel() for parameter in parameters)}


if __name__ == "__main__":
    sys.exit(two(train, Path(sys.argv[1])))

"""One of two ranks that train one epoch by torch's DistributedDataParallel over gloo.

    torch_weights.py ADDRESS DATASET RENDEZVOUS RANK NUM_RANKS COMPONENT

Prints the gradient that the epoch's steps came to, and the numbers of steps and batches.
"""

from __future__ import annotations

import faulthandler
import json
import sys
from typing import Any

import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel

from packhouse import Loader
from packhouse.torch import to_torch

LIMITS = {"nodes": 128, "edges": 288, "graphs": 12, "labelled": 128}


def losses_of(model: Any, x: Any) -> Any:
    """One for each node."""
    return torch.tanh(model(x.double() / 60)).square().sum(dim=1)


def make_model() -> Any:
    torch.manual_seed(7)
    layers = torch.nn.Sequential(torch.nn.Linear(9, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))
    return layers.double()


def gradient_of(model: Any) -> list[float]:
    return torch.cat([each.grad.flatten() for each in model.parameters()]).tolist()


def main(address: str, dataset: str, meet: str, rank: int, num_ranks: int, component: str) -> None:
    faulthandler.dump_traceback_later(250, exit=True)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{meet}", rank=rank, world_size=num_ranks
    )
    model = DistributedDataParallel(make_model())
    num_steps = 0
    with Loader(
        address,
        dataset=dataset,
        job=f"ddp-{component}",
        limits=LIMITS,
        padding="graph",
        rank=rank,
        num_ranks=num_ranks,
    ) as loader:
        for batch in loader:
            tensors = to_torch(batch)
            losses = losses_of(model, tensors["x"])
            counts = tensors.mask("nodes")
            if component == "labelled":
                counts = counts & tensors["labelled"]
            mean = losses[counts].sum() / max(int(counts.sum()), 1)
            # Gradients of all steps add up, as nobody sets them to zero.
            (mean * batch.loss_weights[component]).backward()
            num_steps += 1
        num_batches = loader.epoch_info().num_batches
    print(json.dumps({"gradient": gradient_of(model), "steps": num_steps, "batches": num_batches}))


if __name__ == "__main__":
    main(*sys.argv[1:4], *map(int, sys.argv[4:6]), sys.argv[6])

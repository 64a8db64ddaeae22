"""PyTorch Geometric: batches as its `Batch`, its data sets as tables of graphs.

    import packhouse.pyg

    limits = {"nodes": 1024, "edges": 2304}
    for data in packhouse.pyg.DataLoader(dataset, shuffle=True, limits=limits): ...

`DataLoader` takes the place of PyG's own; a server of the user's own starts by itself. Or, step by
step, with a server that there is:

    packhouse.pyg.ingest(client, "molhiv", dataset)           # Once: any PyG data set.
    with Loader(address, dataset="molhiv", job="run-1", limits=limits) as loader:
        for batch in loader:
            data = packhouse.pyg.to_batch(batch)              # What DataLoader gave before.

or, where the graphs stay in this process and only their sizes are sent:

    sampler = packhouse.pyg.batch_sampler(address, dataset, limits)
    for data in torch_geometric.loader.DataLoader(dataset, batch_sampler=sampler): ...

torch_geometric is imported by the first call that needs it.

Padded rows: `to_batch` leaves them out unless `padding=True`. Then everything has a fixed shape,
the masks `node_mask`, `edge_mask` and `graph_mask` say what is real, and BatchNorm must not see the
rest: 33 padding rows among 6,656 shifted its output by up to 1.3 in one trial.
`MaskedBatchNorm(channels)` is BatchNorm1d over the real rows: call it with `(x, data.node_mask)`.
GraphNorm, LayerNorm per node, pooling by `data.batch` and message passing keep graphs apart and
need no mask; the loss does: `masked_mean(losses, data.graph_mask)`.
"""

from __future__ import annotations

from typing import Any

from packhouse.frameworks.batch_sampler import BatchSampler
from packhouse.frameworks.pyg.batches import to_batch
from packhouse.frameworks.pyg.datasets import batch_sampler, ingest, table, tables
from packhouse.frameworks.pyg.loader import DataLoader
from packhouse.frameworks.tensors import masked_mean

__all__ = [
    "BatchSampler",
    "DataLoader",
    "MaskedBatchNorm",
    "batch_sampler",
    "ingest",
    "masked_mean",
    "table",
    "tables",
    "to_batch",
]


def __getattr__(name: str) -> Any:
    # Made of torch, which is imported when it is asked for.
    if name == "MaskedBatchNorm":
        from packhouse.frameworks.torch.masked_norm import MaskedBatchNorm

        return MaskedBatchNorm
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

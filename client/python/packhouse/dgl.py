"""DGL: batches as its joined graphs, its data sets as tables of graphs.

    import packhouse.dgl

    loader = packhouse.dgl.GraphDataLoader(dataset, shuffle=True, limits={"nodes": 1024})
    for graph, labels in loader: ...

which takes the place of DGL's own; a server of the user's own starts by itself. Or, step by step, with
a server that there is:

    packhouse.dgl.ingest(client, "molhiv", dataset)           # Once: graphs, or (graph, label).
    with Loader(address, dataset="molhiv", job="run-1", limits=limits) as loader:
        for batch in loader:
            graph, data = packhouse.dgl.to_batch(batch)       # What GraphDataLoader gave before.

or, where the graphs stay in this process and only their sizes are sent:

    sampler = packhouse.dgl.batch_sampler(address, dataset, limits)
    for graph, labels in GraphDataLoader(dataset, batch_sampler=sampler): ...

dgl is imported by the first call that needs it.

Padded rows: DGL itself has no padding, and `to_batch` leaves padded rows out unless `padding=True`.
Then everything has a fixed shape and the padding graph is one more graph of the batch: message
passing and readouts by graph keep it apart, `masked_mean(losses, data["graph_mask"])` takes it
out of the loss. BatchNorm sees its nodes: use `MaskedBatchNorm(channels)`, called with
`(x, graph.ndata["node_mask"])`.
"""

from __future__ import annotations

from typing import Any

from packhouse.frameworks.batch_sampler import BatchSampler
from packhouse.frameworks.dgl import (
    GraphBatch,
    GraphDataLoader,
    batch_sampler,
    ingest,
    table,
    tables,
    to_batch,
)
from packhouse.frameworks.tensors import masked_mean

__all__ = [
    "BatchSampler",
    "GraphBatch",
    "GraphDataLoader",
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

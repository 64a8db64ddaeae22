"""jraph: batches as its `GraphsTuple`, its graphs as tables.

    import packhouse.jraph

    limits = {"nodes": 1024, "edges": 2304, "graphs": 48}
    for graph in packhouse.jraph.batches(graphs, shuffle=True, limits=limits): ...

for which a server of the user's own starts by itself. Or, step by step, with a server that there is:

    packhouse.jraph.ingest(client, "molhiv", graphs)          # Once: GraphsTuples.
    loader = Loader(address, dataset="molhiv", job="run-1", limits=limits, padding=Padding.GRAPH)
    with loader:
        for batch in loader:
            graph = packhouse.jraph.to_graphs_tuple(batch)    # Padded: `jit` compiles once.

jax and jraph are imported by the first call that needs them.

Padded rows: with Padding.GRAPH a batch is what `jraph.pad_with_graphs` makes: the padding graph
keeps to itself, so that message passing and `segment_sum` by graph need no mask. The loss does, and
so does what takes means over all rows, as BatchNorm: jraph's `get_graph_padding_mask` and its like
work inside `jit`, and `masks(batch)` gives the same outside. flax's `BatchNorm` takes `mask=`;
`masked_mean_and_variance` is for those that do not. LayerNorm works row by row and needs none.
"""

from __future__ import annotations

from packhouse.frameworks.batch_sampler import BatchSampler
from packhouse.frameworks.jraph import (
    Batches,
    Masks,
    batch_sampler,
    batches,
    ingest,
    masked_mean_and_variance,
    masks,
    table,
    tables,
    to_graphs_tuple,
)

__all__ = [
    "BatchSampler",
    "Batches",
    "Masks",
    "batch_sampler",
    "batches",
    "ingest",
    "masked_mean_and_variance",
    "masks",
    "table",
    "tables",
    "to_graphs_tuple",
]

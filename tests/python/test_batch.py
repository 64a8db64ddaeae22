"""Un-batching undoes collation, whatever the schema and the padding."""

from __future__ import annotations

import numpy as np
import pytest
from random_graphs import molecules, random_schema, random_table
from reference_collation import batch_message

from packhouse import Batch, DerivedTensor, GraphSchema, Padding


@pytest.mark.parametrize("padding", list(Padding))
@pytest.mark.parametrize("seed", range(60))
def test_unbatching_returns_the_graphs(seed: int, padding: Padding) -> None:
    rng = np.random.default_rng(seed)
    graphs = random_table(rng, random_schema(rng), int(rng.integers(1, 7)))
    limits = {
        name: graphs.rows(name) + 1 + int(rng.integers(0, 5))
        for name in graphs.schema.all_components
    }
    message = batch_message(graphs, limits, padding, tuple(DerivedTensor))
    batch = Batch.from_proto(message, graphs.schema)
    received = batch.unbatch()
    if graphs.schema.tensors:
        assert received.equals(graphs)
    else:
        assert received.sizes.tolist() == graphs.sizes.tolist()
        assert received.graph_ids.tolist() == graphs.graph_ids.tolist()
    for name, share in batch.efficiency.items():
        assert share == (batch.real_rows[name] / batch.rows[name] if batch.rows[name] else 1)


def test_arrays_are_read_only_views() -> None:
    graphs = molecules(np.random.default_rng(0), 3)
    batch = Batch.from_proto(batch_message(graphs, {}, Padding.NONE), graphs.schema)
    for array in (*batch.tensors.values(), batch.graph_ids, batch.sizes):
        assert not array.flags.writeable and not array.flags.owndata


def test_a_batch_that_contradicts_itself_is_refused() -> None:
    graphs = molecules(np.random.default_rng(0), 3)
    message = batch_message(graphs, {}, Padding.NONE)
    message.tensors[0].shape[0] += 1
    with pytest.raises(ValueError):
        Batch.from_proto(message, graphs.schema)
    message = batch_message(graphs, {}, Padding.NONE)
    with pytest.raises(ValueError):
        Batch.from_proto(message, GraphSchema(("nodes",)))

"""TF-GNN: batches as its `GraphTensor`, its graphs as tables.

    import packhouse.tfgnn

    # Once. graph_tensors is a tf.data.Dataset or any other iterable.
    packhouse.tfgnn.ingest(client, "mag", graph_tensors)
    spec = packhouse.tfgnn.graph_tensor_spec(client.datasets.get("mag").schema, limits)
    loader = Loader(address, dataset="mag", job="run-1", limits=limits, padding=Padding.TFGNN)
    for graph in packhouse.tfgnn.to_dataset(lambda: loader, spec):
        train(graph)  # All graphs have one shape: train is traced once.

or, batch by batch, `to_graph_tensor(batch)` with `mask(batch)`, which is what
`tfgnn.pad_to_total_sizes` gives.

Without TensorFlow, from the files that TF-GNN's tools write:

    client.datasets.create("mag", packhouse.tfgnn.read_schema("graph_schema.pbtxt"))
    # bytes each; the server reads them.
    client.datasets.append_examples("mag", serialized_examples)
    serialized_examples = client.datasets.export_examples("mag")  # And back.

tensorflow and tensorflow_gnn are imported by the first call that needs them.

Padded rows: with Padding.TFGNN they are fake components, which keep to themselves in convolutions
and in pooling to the context; `mask(batch)` takes them out of the loss, as sample weights. keras'
BatchNormalization would count their rows in its mean: give it `mask=`, which is `node_mask(batch,
"atoms")`, or take LayerNormalization, which needs none. Read-outs of fake components are fake, too.
"""

from __future__ import annotations

from packhouse.data.examples import TfgnnSchema
from packhouse.frameworks.batch_sampler import BatchSampler
from packhouse.frameworks.tfgnn.batches import (
    fake_ends,
    graph_tensor_spec,
    mask,
    node_mask,
    size_constraints,
    to_dataset,
    to_graph_tensor,
)
from packhouse.frameworks.tfgnn.datasets import batch_sampler, ingest, table, tables
from packhouse.frameworks.tfgnn.example_decoding import table_from_examples
from packhouse.frameworks.tfgnn.schemas import graph_schema

read_schema = TfgnnSchema.read

__all__ = [
    "BatchSampler",
    "TfgnnSchema",
    "batch_sampler",
    "fake_ends",
    "graph_schema",
    "graph_tensor_spec",
    "ingest",
    "mask",
    "node_mask",
    "read_schema",
    "size_constraints",
    "table",
    "table_from_examples",
    "tables",
    "to_dataset",
    "to_graph_tensor",
]

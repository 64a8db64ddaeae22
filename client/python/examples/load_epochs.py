"""Stores a thousand small rings, then loads two epochs of them. load_epochs.py ADDRESS"""

import sys

import numpy as np

from packhouse import Client, GraphSchema, GraphTable, Loader, TensorSpec

SCHEMA = GraphSchema(
    components=("nodes", "edges"),
    tensors=(
        TensorSpec("x", "float32", "nodes"),
        TensorSpec("edge_index", "int32", "edges", 2, index_into="nodes"),
    ),
)


def ring(nodes: int) -> dict[str, np.ndarray]:
    here = np.arange(nodes, dtype=np.int32)
    edge_index = np.stack([here, (here + 1) % nodes], axis=1)
    return {"x": np.ones(nodes, np.float32), "edge_index": edge_index}


address = sys.argv[1] if len(sys.argv) > 1 else "localhost:50051"
with Client(address) as client:
    client.datasets.create("rings", SCHEMA)
    rings = GraphTable.from_graphs(SCHEMA, [ring(3 + i % 40) for i in range(1000)])
    print(client.datasets.append("rings", rings))
    client.datasets.seal("rings")

limits = {"nodes": 512, "edges": 1024, "graphs": 64}
with Loader(address, dataset="rings", job="demo", limits=limits, padding="graph") as loader:
    # A second run under the job's name would say so: see Loader's `on_existing`.
    for epoch in range(2):
        loader.set_epoch(epoch)
        graphs = sum(len(batch) for batch in loader)  # Train on batch["x"] here.
        checkpoint = loader.state_dict()  # What load_state_dict goes on from.
        print(f"epoch {epoch}: {graphs} graphs in {len(loader)} steps")

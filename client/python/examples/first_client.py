"""The smallest useful Python client: packs a thousand small rings. first_client.py ADDRESS"""

import sys

import numpy as np

from packhouse import Client, GraphSchema, GraphTable, PackOptions, TensorSpec

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
rings = GraphTable.from_graphs(SCHEMA, [ring(3 + i % 40) for i in range(1000)])
options = PackOptions({"nodes": 512, "edges": 1024, "graphs": 64}, padding="graph")

with Client(address) as client:
    for batch in client.pack(rings, options):
        nodes, rows = batch.real_rows["nodes"], batch.rows["nodes"]
        print(f"batch {batch.id}: {len(batch)} graphs, {nodes} of {rows} nodes")
        assert batch["x"].shape == (512,)
        assert len(batch.unbatch()) == len(batch)

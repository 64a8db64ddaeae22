"""What a stranger does first, with nothing but the package: a server of his own, graphs, an epoch.

Run by wheel_test.py and wheel_check.py, with an environment in which the wheels are installed.
"""

import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import packhouse
from packhouse.data.reading import HAS_NATIVE

SCHEMA = packhouse.GraphSchema(
    components=("nodes", "edges"),
    tensors=(
        packhouse.TensorSpec("x", "float32", "nodes", 4),
        packhouse.TensorSpec("edge_index", "int32", "edges", 2, index_into="nodes"),
    ),
)
LIMITS = {"nodes": 256, "edges": 512, "graphs": 32}


def ring(nodes: int) -> dict[str, np.ndarray]:
    here = np.arange(nodes, dtype=np.int32)
    return {
        "x": np.full((nodes, 4), nodes, np.float32),
        "edge_index": np.stack([here, (here + 1) % nodes], axis=1),
    }


def cut_in_files(command: pathlib.Path) -> None:
    """By the wheel's packhouse-graph, which starts packhouse-metis: a ring of 16 nodes in two parts."""
    with tempfile.TemporaryDirectory() as folder:
        graph = pathlib.Path(folder, "ring.graph")
        ends = [f"{(node - 1) % 16 + 1} {(node + 1) % 16 + 1}\n" for node in range(16)]
        graph.write_text("16 16\n" + "".join(ends), encoding="ascii")
        words = ("partition", graph, "--parts", "2", "--method", "metis", "--output", f"{folder}/parts")
        done = subprocess.run([command, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0 and "in 2 parts by metis" in done.stdout, done


def main() -> None:
    packages = pathlib.Path(packhouse.__file__).parents[1]
    assert pathlib.Path(sys.prefix) in packages.parents, f"{packages} is not in {sys.prefix}"
    assert HAS_NATIVE, "the wheel has no native reader"
    rings = packhouse.GraphTable.from_graphs(SCHEMA, [ring(3 + i % 40) for i in range(1000)])
    with tempfile.TemporaryDirectory() as folder, packhouse.LocalServer(data_dir=folder) as server:
        program = pathlib.Path(f"/proc/{server.pid}/exe").resolve()
        assert packages in program.parents, f"{program} is not the wheel's"
        with packhouse.Client(server.address) as client:
            client.datasets.create("rings", SCHEMA)
            client.datasets.append("rings", rings)
            client.datasets.seal("rings")
        with packhouse.Loader(
            server.address, dataset="rings", job="first", seed=1, limits=LIMITS, padding="graph"
        ) as loader:
            seen = sorted(id for batch in loader for id in batch.graph_ids.tolist())
    assert seen == list(range(1000)), f"{len(seen)} graphs came, and not each of 1000 once"
    assert server.returncode == 0
    # The server starts it, so its libraries are found if it can say what it is.
    metis = subprocess.run([program.with_name("packhouse-metis")], stderr=subprocess.PIPE, text=True)
    assert "packhoused" in metis.stderr, metis
    cut_in_files(pathlib.Path(sys.prefix, "bin", "packhouse"))
    print(f"python {sys.version.split()[0]}, packhouse {packhouse.__version__}: 1000 graphs, each once")


if __name__ == "__main__":
    main()

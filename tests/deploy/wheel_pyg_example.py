"""The two lines of the README, on graphs of one's own. Run by wheel_test.py, where PyG is installed."""

import pathlib
import sys

import torch
from torch_geometric.data import Data

from packhouse.pyg import DataLoader


def ring(nodes: int) -> Data:
    here = torch.arange(nodes)
    return Data(x=torch.ones(nodes, 4), edge_index=torch.stack([here, (here + 1) % nodes]), y=here[:1])


def servers_programs() -> set[str]:
    """Programs of this package that run now."""
    here = pathlib.Path(sys.argv[1]).resolve()
    found = set()
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            program = (process / "exe").resolve()
        except OSError:
            continue
        if here in program.parents:
            found.add(program.name)
    return found


def main() -> None:
    dataset = [ring(3 + i % 40) for i in range(1000)]
    loader = DataLoader(dataset, shuffle=True, limits={"nodes": 256, "edges": 512})
    num_graphs = sum(batch.num_graphs for batch in loader)
    assert num_graphs == 1000, num_graphs
    assert servers_programs() == {"packhoused"}, servers_programs()
    print("1000 graphs, of the wheel's server")


if __name__ == "__main__":
    main()

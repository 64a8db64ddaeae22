"""Graphs of which compilers' tests train: seeded ones, and real ones where they are there."""

from __future__ import annotations

import pathlib
from typing import Callable

import numpy as np
from graph_sources import PlainGraph, of_npz, random_plain

# Of each set shapes, the largest first, of which an epoch uses each: few graphs need the largest.
SHAPES = {
    "seeded": [
        {"nodes": 64, "edges": 184, "graphs": 8},
        {"nodes": 48, "edges": 100, "graphs": 8},
        {"nodes": 24, "edges": 50, "graphs": 5},
    ],
    "molhiv": [
        {"nodes": 224, "edges": 512, "graphs": 9},
        {"nodes": 96, "edges": 216, "graphs": 5},
        {"nodes": 48, "edges": 108, "graphs": 3},
    ],
}
# Of which set how many shapes are tried.
CASES = [("seeded", 1), ("seeded", 2), ("seeded", 3), ("molhiv", 2)]


def graphs_of(name: str, shared_data: Callable[[str], pathlib.Path]) -> list[PlainGraph]:
    """Of the set, each with a node; features are float32. Skips the test where it is missing."""
    if name == "molhiv":
        graphs = of_npz(shared_data("graphs/molhiv.npz"), 120)
    else:
        graphs = [*random_plain(31, 80), *random_plain(32, 10, largest=60)]
    made = []
    for graph in graphs:
        if not graph.num_nodes:
            continue
        x = graph.nodes["x"].astype(np.float32) / 8
        y = graph.whole["y"].astype(np.float32) % 2
        made.append(PlainGraph(graph.num_nodes, graph.edge_index, {"x": x}, {}, {"y": y}))
    return made

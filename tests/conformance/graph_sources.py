"""Graphs that no framework has made, for each to make its own of: plain arrays, seeded."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Iterator, Mapping

import numpy as np
import numpy.typing as npt

Arrays = dict[str, npt.NDArray[np.generic]]


@dataclasses.dataclass
class PlainGraph:
    """One kind of nodes and edges; `edge_index` is [2, edges]."""

    num_nodes: int
    edge_index: npt.NDArray[np.int64]
    nodes: Arrays
    edges: Arrays
    whole: Arrays


@dataclasses.dataclass
class TypedGraph:
    """Several kinds: the rows of each; edges by (source, relation, target)."""

    num_nodes: dict[str, int]
    edge_index: dict[tuple[str, str, str], npt.NDArray[np.int64]]
    nodes: dict[str, Arrays]
    edges: dict[tuple[str, str, str], Arrays]
    whole: Arrays


def of_npz(path: pathlib.Path, count: int, seed: int = 0) -> list[PlainGraph]:
    """Graphs of a file of real ones, drawn at random: molecules or those of the TU sets."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    total = len(arrays["node_offsets"]) - 1
    chosen = np.random.default_rng(seed).permutation(total)[:count]
    return [_of_npz(arrays, int(number)) for number in np.sort(chosen)]


def _of_npz(arrays: Mapping[str, npt.NDArray[np.generic]], number: int) -> PlainGraph:
    nodes = slice(*(int(end) for end in arrays["node_offsets"][number : number + 2]))
    edges = slice(*(int(end) for end in arrays["edge_offsets"][number : number + 2]))
    node_features: Arrays = {}
    if "x" in arrays:
        node_features["x"] = arrays["x"][nodes].astype(np.int64)
    if "node_tag" in arrays:
        one_hot = np.eye(int(arrays["node_tag"].max()) + 1, dtype=np.float32)
        node_features["x"] = one_hot[arrays["node_tag"][nodes]]
    edge_features: Arrays = {}
    if "edge_attr" in arrays:
        edge_features["edge_attr"] = arrays["edge_attr"][edges].astype(np.int64)
    return PlainGraph(
        nodes.stop - nodes.start,
        arrays["edge_index"][:, edges].astype(np.int64),
        node_features,
        edge_features,
        {"y": arrays["y"][number : number + 1].astype(np.int64)},
    )


def random_plain(seed: int, count: int, largest: int = 12) -> Iterator[PlainGraph]:
    """Also graphs without nodes, and without edges."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        nodes = int(rng.integers(0, largest + 1)) if number % 5 else number % 2
        edges = int(rng.integers(0, 3 * largest + 1)) if nodes and number % 7 else 0
        yield PlainGraph(
            nodes,
            rng.integers(0, max(nodes, 1), (2, edges)),
            {"x": rng.random((nodes, 3), np.float32)},
            {"edge_attr": rng.random((edges, 2), np.float32)},
            {"y": rng.integers(0, 9, 1)},
        )


NODE_TYPES = {"paper": (4,), "author": (), "field-of-study": None}
EDGE_TYPES = {
    ("author", "writes", "paper"): (),
    ("paper", "cites", "paper"): (2, 2),
    ("paper", "has", "field-of-study"): None,
    ("author", "knows", "author"): (3,),
    ("paper", "is-by", "author"): None,
}


def random_typed(seed: int, count: int, largest: int = 7) -> Iterator[TypedGraph]:
    """Three types of nodes, one without features, five of edges; any of them empty now and then."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        sizes = {
            name: int(rng.integers(0, largest + 1)) * int(rng.random() < 0.8) for name in NODE_TYPES
        }
        nodes: dict[str, Arrays] = {name: {} for name in NODE_TYPES}
        for name, shape in NODE_TYPES.items():
            if shape is not None:
                nodes[name]["x"] = rng.standard_normal((sizes[name], *shape), np.float32)
        nodes["paper"]["year"] = rng.integers(1990, 2020, sizes["paper"]).astype(np.int32)
        edge_index = {}
        edges: dict[tuple[str, str, str], Arrays] = {}
        for key, shape in EDGE_TYPES.items():
            ends = sizes[key[0]], sizes[key[2]]
            number = int(rng.integers(0, 2 * largest)) if all(ends) and rng.random() < 0.8 else 0
            edge_index[key] = np.stack([rng.integers(0, max(end, 1), number) for end in ends])
            edges[key] = {}
            if shape is not None:
                edges[key]["edge_attr"] = rng.standard_normal((number, *shape))
        yield TypedGraph(sizes, edge_index, nodes, edges, {"y": rng.random(1)})

"""As much of DGL as its dialect and its tests use, in plain tensors of torch: for where DGL itself is not.

`make conformance` runs the same tests with DGL.
"""

from __future__ import annotations

import copy
from typing import Any, Iterator, Mapping, Sequence

import torch

from dgl import data  # noqa: F401

NID = EID = "_ID"


class _Frame(dict[str, Any]):
    """Features by name, each of so many rows."""

    def __init__(self, num_rows: int) -> None:
        super().__init__()
        self._num_rows = num_rows

    def __setitem__(self, name: str, tensor: Any) -> None:
        if len(tensor) != self._num_rows:
            raise ValueError(f"{name}: {len(tensor)} rows, there are {self._num_rows}")
        super().__setitem__(name, tensor)

    def update(self, features: Mapping[str, Any]) -> None:  # type: ignore[override]
        for name, tensor in features.items():
            self[name] = tensor


class _Rows:
    """`graph.nodes` or `graph.edges`: of each type its features, as `.data`."""

    def __init__(self, graph: DGLGraph, frames: Mapping[Any, _Frame]) -> None:
        self._graph = graph
        self._frames = frames

    def __getitem__(self, kind: Any) -> _Rows:
        return _Rows(self._graph, {None: self._frames[self._graph.to_canonical(kind, self._frames)]})

    @property
    def data(self) -> _Frame:
        (frame,) = self._frames.values()
        return frame

    def __call__(self, order: str, etype: Any) -> tuple[Any, Any]:
        if order != "eid":
            raise ValueError(order)
        return self._graph.ends[self._graph.to_canonical(etype, self._graph.ends)]


class DGLGraph:
    """Types in the order of their names, as DGL has them."""

    def __init__(self, ends: Mapping[Any, tuple[Any, Any]], num_nodes: Mapping[str, int]) -> None:
        self._num_nodes = dict(sorted(num_nodes.items()))
        self.ends = dict(sorted(ends.items()))
        self._node_frames = {name: _Frame(count) for name, count in self._num_nodes.items()}
        self._edge_frames = {key: _Frame(len(pair[0])) for key, pair in self.ends.items()}
        self.nodes = _Rows(self, self._node_frames)
        self.edges = _Rows(self, self._edge_frames)
        for key, pair in self.ends.items():
            for end, kind in zip(pair, (key[0], key[2])):
                if len(end) != len(pair[0]) or (len(end) and int(end.max()) >= num_nodes[kind]):
                    raise ValueError(f"{key}: an end beyond the {num_nodes[kind]} nodes of {kind}")
        self.idtype = next((pair[0].dtype for pair in self.ends.values()), torch.int64)
        counted = {"dtype": self.idtype}
        self._of_nodes = {
            name: torch.tensor([count], **counted) for name, count in self._num_nodes.items()
        }
        self._of_edges = {
            key: torch.tensor([len(pair[0])], **counted) for key, pair in self.ends.items()
        }

    @staticmethod
    def to_canonical(kind: Any, of: Mapping[Any, Any]) -> Any:
        if kind in of:
            return kind
        (key,) = [key for key in of if key[1] == kind]
        return key

    ntypes = property(lambda self: list(self._num_nodes))
    canonical_etypes = property(lambda self: list(self.ends))
    etypes = property(lambda self: [key[1] for key in self.ends])
    ndata = property(lambda self: self.nodes.data)
    edata = property(lambda self: self.edges.data)
    batch_size = property(lambda self: len(next(iter(self._of_nodes.values()))))

    def num_nodes(self, ntype: str | None = None) -> int:
        return sum(self._num_nodes.values()) if ntype is None else self._num_nodes[ntype]

    def num_edges(self, etype: Any = None) -> int:
        keys = self.ends if etype is None else [self.to_canonical(etype, self.ends)]
        return sum(len(self.ends[key][0]) for key in keys)

    def batch_num_nodes(self, ntype: str) -> Any:
        return self._of_nodes[ntype]

    def batch_num_edges(self, etype: Any) -> Any:
        return self._of_edges[self.to_canonical(etype, self.ends)]

    def set_batch_num_nodes(self, counts: Mapping[str, Any]) -> None:
        self._of_nodes = self._checked(counts, self._num_nodes)

    def set_batch_num_edges(self, counts: Mapping[Any, Any]) -> None:
        totals = {key: len(pair[0]) for key, pair in self.ends.items()}
        self._of_edges = self._checked(counts, totals)

    def _checked(self, counts: Mapping[Any, Any], totals: Mapping[Any, int]) -> dict[Any, Any]:
        if set(counts) != set(totals):
            raise ValueError(f"counts of {list(counts)}, there are {list(totals)}")
        if any(int(counts[kind].sum()) != total for kind, total in totals.items()):
            raise ValueError(f"counts {counts}, there are {totals}")
        return {kind: counts[kind].to(self.idtype) for kind in totals}

    def int(self) -> DGLGraph:
        made = copy.copy(self)
        made.__init__(  # type: ignore[misc]
            {key: tuple(end.int() for end in pair) for key, pair in self.ends.items()},
            self._num_nodes,
        )
        _copy_frames(self, made)
        return made


def _copy_frames(graph: DGLGraph, made: DGLGraph) -> None:
    for name in graph.ntypes:
        made.nodes[name].data.update(graph.nodes[name].data)
    for key in graph.canonical_etypes:
        made.edges[key].data.update(graph.edges[key].data)


def heterograph(
    data: Mapping[Any, tuple[Any, Any]], num_nodes: Mapping[str, int] | None = None, idtype: Any = None
) -> DGLGraph:
    ends = {
        key: tuple(torch.as_tensor(end, dtype=idtype or torch.int64) for end in pair)
        for key, pair in data.items()
    }
    if num_nodes is None:
        found: dict[str, int] = {}
        for key, pair in ends.items():
            for end, kind in zip(pair, (key[0], key[2])):
                found[kind] = max(found.get(kind, 0), int(end.max()) + 1 if len(end) else 0)
        num_nodes = found
    graph_of_ends: Any = ends
    return DGLGraph(graph_of_ends, num_nodes)


def graph(ends: tuple[Any, Any], num_nodes: int | None = None, idtype: Any = None) -> DGLGraph:
    counts = None if num_nodes is None else {"_N": num_nodes}
    return heterograph({("_N", "_E", "_N"): ends}, counts, idtype)


def batch(graphs: Sequence[DGLGraph]) -> DGLGraph:
    if any(each.canonical_etypes != graphs[0].canonical_etypes for each in graphs):
        raise ValueError("graphs of several types")
    kinds = graphs[0].ntypes
    before = {name: 0 for name in kinds}
    ends: dict[Any, tuple[list[Any], list[Any]]] = {
        key: ([], []) for key in graphs[0].canonical_etypes
    }
    for each in graphs:
        for key, pair in ends.items():
            for into, end, kind in zip(pair, each.ends[key], (key[0], key[2])):
                into.append(end + before[kind])
        for name in kinds:
            before[name] += each.num_nodes(name)
    joined: Any = {key: tuple(map(torch.cat, pair)) for key, pair in ends.items()}
    made = DGLGraph(joined, before)
    for name in kinds:
        for feature in graphs[0].nodes[name].data:
            made.nodes[name].data[feature] = torch.cat([g.nodes[name].data[feature] for g in graphs])
    for key in joined:
        for feature in graphs[0].edges[key].data:
            made.edges[key].data[feature] = torch.cat([g.edges[key].data[feature] for g in graphs])
    made.set_batch_num_nodes({n: torch.cat([g.batch_num_nodes(n) for g in graphs]) for n in kinds})
    made.set_batch_num_edges({k: torch.cat([g.batch_num_edges(k) for g in graphs]) for k in joined})
    return made


def unbatch(whole: DGLGraph) -> Iterator[DGLGraph]:
    nodes = {name: whole.batch_num_nodes(name).tolist() for name in whole.ntypes}
    edges = {key: whole.batch_num_edges(key).tolist() for key in whole.canonical_etypes}
    made = []
    for number in range(whole.batch_size):
        first = {name: sum(counts[:number]) for name, counts in nodes.items()}
        at = {
            key: slice(sum(counts[:number]), sum(counts[: number + 1]))
            for key, counts in edges.items()
        }
        ends: Any = {
            key: (source[at[key]] - first[key[0]], target[at[key]] - first[key[2]])
            for key, (source, target) in whole.ends.items()
        }
        part = DGLGraph(ends, {name: counts[number] for name, counts in nodes.items()})
        for name, counts in nodes.items():
            rows = slice(first[name], first[name] + counts[number])
            for feature, tensor in whole.nodes[name].data.items():
                part.nodes[name].data[feature] = tensor[rows]
        for key in ends:
            for feature, tensor in whole.edges[key].data.items():
                part.edges[key].data[feature] = tensor[at[key]]
        made.append(part)
    return made  # type: ignore[return-value]

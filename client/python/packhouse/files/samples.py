"""Graphs of named arrays, one sample a graph, as frames.

What an array belongs to follows from its name and its length, as the first samples have it:

- `edge_index` (2, edges) numbers the nodes at both ends; `edge_attr` and `edge_*` have a row an edge.
- `pos`, `atomic_numbers`, `forces`, `x`, `node_*` have a row a node; `num_nodes` is their number.
- `y`, `energy`, `cell`, `pbc`, `stress`, `graph_*` and single numbers are the graph's own.
- Any other array has a row for each of the nodes, else the edges, if it does so in all of the first
  samples; otherwise it is the graph's own, and has the same shape in all of them.

Where positions and atomic numbers go by other names, as `coordinates`, `positions`, `species`, `Z`,
they become `pos` and `atomic_numbers`, so that neighbours can be counted.
"""

from __future__ import annotations

import itertools
from typing import Any, Final, Iterable, Iterator, Mapping, NamedTuple, Union

import numpy as np

from packhouse.data.graphs import Array
from packhouse.data.schema import GRAPHS, Layout
from packhouse.files.frames import Frame, Item, Malformed, Rows, made
from packhouse.frameworks.layout import EDGES, NODES


class Sample(NamedTuple):
    """The arrays of one graph."""

    where: str
    arrays: Mapping[str, Any]


# How many samples tell what an array belongs to.
_LOOKED_AT: Final = 64
_NUM_NODES: Final = "num_nodes"
_EDGE_INDEX: Final = "edge_index"
_NUMBERS: Final = "atomic_numbers"
_POSITIONS: Final = "pos"
NAMES_OF_NUMBERS: Final = (_NUMBERS, "numbers", "species", "Z", "z", "atNUM")
NAMES_OF_POSITIONS: Final = (
    _POSITIONS, "positions", "coordinates", "conformations", "R", "xyz", "atXYZ"
)
_OF_NODES: Final = frozenset({_NUMBERS, _POSITIONS, "forces", "force", "x", "tags", "fixed"})
_OF_EDGES: Final = frozenset({"edge_attr", "edge_weight", "cell_offsets"})
_OF_GRAPHS: Final = frozenset({"y", "energy", "cell", "pbc", "stress", "virial", "natoms", "dipole"})
_PREFIXES: Final = {"node_": NODES, "edge_": EDGES, "graph_": GRAPHS}


def renamed(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """With `pos` and `atomic_numbers` under these names, if there are both."""
    numbers = next((name for name in NAMES_OF_NUMBERS if name in arrays), None)
    positions = next((name for name in NAMES_OF_POSITIONS if name in arrays), None)
    if numbers is None or positions is None:
        return dict(arrays)
    names = {numbers: _NUMBERS, positions: _POSITIONS}
    return {names.get(name, name): array for name, array in arrays.items()}


def items(samples: Iterable[Union[Sample, Malformed]]) -> Iterator[Item]:
    """The graphs of samples; the first ones are held to tell what their arrays are."""
    samples = iter(samples)
    first = list(itertools.islice(samples, _LOOKED_AT))
    owners = _Owners([_arrays_of(one) for one in first if isinstance(one, Sample)])
    for sample in itertools.chain(first, samples):
        if isinstance(sample, Malformed):
            yield sample
            continue
        known = sample
        yield from made(lambda: [owners.frame_of(known)], known.where)


def _arrays_of(sample: Sample) -> dict[str, Array]:
    return {
        name: np.asarray(value) for name, value in renamed(sample.arrays).items()
    }


class _Owners:
    """The component of each array."""

    def __init__(self, first: list[dict[str, Array]]) -> None:
        self._fitting: dict[str, set[str]] = {}
        # Of a graph's own arrays: whether they have one row in all of the first samples.
        self._has_row: dict[str, bool] = {}
        for arrays in first:
            counts = _counts(arrays)
            for name, array in arrays.items():
                rows = array.shape[0] if array.ndim else -1
                fits = {one for one, count in counts.items() if rows == count}
                self._fitting.setdefault(name, {NODES, EDGES}).intersection_update(fits)
                has_row = array.ndim > 0 and rows == 1
                self._has_row[name] = self._has_row.get(name, True) and has_row

    def _owner(self, name: str) -> str:
        if name in _OF_NODES:
            return NODES
        if name in _OF_EDGES:
            return EDGES
        if name in _OF_GRAPHS:
            return GRAPHS
        for prefix, component in _PREFIXES.items():
            if name.startswith(prefix):
                return component
        fitting = self._fitting.get(name, set())
        return NODES if NODES in fitting else EDGES if EDGES in fitting else GRAPHS

    def frame_of(self, sample: Sample) -> Frame:
        """Raises ValueError naming the array that fits nothing."""
        arrays = _arrays_of(sample)
        counts = _counts(arrays)
        if NODES not in counts:
            raise ValueError(
                "nothing tells how many nodes it has: no num_nodes, atomic_numbers, x or node_*"
            )
        tensors = {}
        for name, array in arrays.items():
            if name == _NUM_NODES:
                continue
            if name == _EDGE_INDEX:
                _check_ends(array, counts[NODES])
                ends = array.astype(np.int32)
                tensors[name] = Rows(EDGES, ends, NODES, Layout.ROWS_LAST)
                continue
            owner = self._owner(name)
            if owner == GRAPHS:
                has_row = self._has_row.get(name, False) and array.ndim and len(array) == 1
                tensors[name] = Rows(GRAPHS, array if has_row else array[np.newaxis])
                continue
            if owner not in counts or array.ndim == 0 or len(array) != counts[owner]:
                raise ValueError(
                    f"{name!r} has the shape {list(array.shape)}, and the graph has "
                    f"{counts.get(owner, 'no')} {owner}"
                )
            tensors[name] = Rows(owner, array)
        return Frame(sample.where, counts, tensors)


def _check_ends(ends: Array, num_nodes: int) -> None:
    if ends.ndim != 2 or len(ends) != 2 or ends.dtype.kind not in "iu":
        raise ValueError(
            f"'edge_index' is {ends.dtype} of the shape {list(ends.shape)}, and must be integers "
            "[2, edges]"
        )
    if ends.size and not (0 <= ends.min() and ends.max() < num_nodes):
        wrong = ends.min() if ends.min() < 0 else ends.max()
        raise ValueError(f"'edge_index' has {wrong}, and the graph has {num_nodes} nodes")


def _counts(arrays: Mapping[str, Array]) -> dict[str, int]:
    """Of nodes, and of edges if there are any; {} if nothing tells."""
    counts = {}
    if _NUM_NODES in arrays and arrays[_NUM_NODES].size == 1:
        counts[NODES] = int(arrays[_NUM_NODES].reshape(()))
    else:
        told = [name for name in (_NUMBERS, _POSITIONS, "x") if name in arrays]
        told += [name for name in arrays if name.startswith("node_")]
        for name in told:
            if arrays[name].ndim:
                counts[NODES] = len(arrays[name])
                break
    if _EDGE_INDEX in arrays and arrays[_EDGE_INDEX].ndim:
        counts[EDGES] = arrays[_EDGE_INDEX].shape[-1]
    return counts

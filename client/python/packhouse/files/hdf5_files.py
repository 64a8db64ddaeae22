"""Graphs from HDF5 files with named arrays. Needs h5py.

A group with arrays is a graph (see `packhouse.files.frames` for what its arrays are), its
sub-groups' arrays included; groups above it are gone through in the order of their names, numbers as
numbers. If the positions have three axes, [conformations, atoms, 3], each conformation is a graph:
arrays whose first axis is as long have a part for each, the others are the same in all of them. So
are the files of ANI, SPICE and MACE. A file may instead have the arrays of all graphs joined, with
`node_offsets` and `edge_offsets`, as `packhouse.files.npz` has them.
"""

from __future__ import annotations

import re
from typing import Any, Final, Iterator, Union

import numpy as np

from packhouse.files import frames
from packhouse.files.atoms_files import needed
from packhouse.files.frames import Item, Malformed, Sample, renamed

ENDINGS: Final = (".h5", ".hdf5", ".hdf")

# Of conformations or graphs that are read at once.
_BLOCK: Final = 256
_NODE_OFFSETS: Final = "node_offsets"
_EDGE_OFFSETS: Final = "edge_offsets"
_EDGE_INDEX: Final = "edge_index"
_DIGITS: Final = re.compile(r"(\d+)")


def items(name: str) -> Iterator[Item]:
    """The graphs of a file. Raises OSError, ImportError, and ValueError if it is no such file."""
    return frames.of_samples(_samples(name))


def _samples(name: str) -> Iterator[Union[Sample, Malformed]]:
    with open(name, "rb"):
        pass
    with needed("h5py", name):
        import h5py
    try:
        file = h5py.File(name, "r")
    except OSError as error:
        raise ValueError(f"{name}: is no HDF5 file: {error}") from error
    with file:
        if _NODE_OFFSETS in file:
            yield from _joined(name, file)
        else:
            yield from _of_group(file, h5py)


def _of_group(group: Any, h5py: Any) -> Iterator[Union[Sample, Malformed]]:
    names = sorted(group, key=_natural)
    if any(isinstance(group.get(one), h5py.Dataset) for one in names):
        yield from _graphs(group, h5py)
        return
    for one in names:
        try:
            child = group[one]
        except (KeyError, OSError) as error:
            yield Malformed(f"{group.name.rstrip('/')}/{one}", str(error))
            continue
        if isinstance(child, h5py.Group):
            yield from _of_group(child, h5py)


def _natural(name: str) -> list[Any]:
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in _DIGITS.split(name)]


def _graphs(group: Any, h5py: Any) -> Iterator[Union[Sample, Malformed]]:
    where = f"group {group.name}"
    try:
        arrays = renamed(_arrays_in(group, h5py))
        positions = arrays.get("pos")
        if positions is None or positions.ndim != 3:
            yield Sample(where, {name: array[()] for name, array in arrays.items()})
            return
        for start in range(0, len(positions), _BLOCK):
            yield from _conformations(where, arrays, start, min(start + _BLOCK, len(positions)))
    except (OSError, KeyError, ValueError) as error:
        yield Malformed(where, str(error))


def _arrays_in(group: Any, h5py: Any) -> dict[str, Any]:
    """Its arrays and those of its sub-groups; of these by their own name where it is unique."""
    found: dict[str, Any] = {}

    def visit(path: str, made: Any) -> None:
        if isinstance(made, h5py.Dataset):
            found[path] = made

    group.visititems(visit)
    last = [path.rpartition("/")[2] for path in found]
    return {
        (own if last.count(own) == 1 else path.replace("/", ".")): array
        for own, (path, array) in zip(last, found.items())
    }


def _conformations(
    where: str, arrays: dict[str, Any], start: int, stop: int
) -> Iterator[Union[Sample, Malformed]]:
    number, atoms = arrays["pos"].shape[:2]
    # With as many conformations as atoms, what is known to be the same in all stays so.
    shared = {
        name
        for name, array in arrays.items()
        if array.ndim == 0 or len(array) != number or (name == "atomic_numbers" and array.ndim == 1)
    }
    read = {
        name: array[()] if name in shared else array[start:stop] for name, array in arrays.items()
    }
    for position in range(start, stop):
        yield Sample(
            f"{where}, conformation {position}",
            {
                name: array if name in shared else array[position - start]
                for name, array in read.items()
            },
        )


def _joined(name: str, file: Any) -> Iterator[Sample]:
    """The graphs of arrays with offsets."""
    offsets = {"nodes": _offsets(name, file, _NODE_OFFSETS)}
    if _EDGE_OFFSETS in file:
        offsets["edges"] = _offsets(name, file, _EDGE_OFFSETS)
    num_graphs = len(offsets["nodes"]) - 1
    if any(len(one) != num_graphs + 1 for one in offsets.values()):
        raise ValueError(f"{name}: the offsets differ in length")
    rows = {one: int(of[-1]) for one, of in offsets.items()}
    owners = {}
    for key, array in file.items():
        if key in (_NODE_OFFSETS, _EDGE_OFFSETS):
            continue
        length = array.shape[-1 if key == _EDGE_INDEX else 0] if array.shape else -1
        fitting = [one for one, count in {**rows, "graphs": num_graphs}.items() if count == length]
        known = [one for one in fitting if key.startswith(one[:-1] + "_")] or fitting
        if len(known) != 1:
            counts = ", ".join(f"{count} {one}" for one, count in rows.items())
            raise ValueError(
                f"{name}: array {key!r} has the shape {list(array.shape)}; there are {counts} and "
                f"{num_graphs} graphs" + (": begin its name with node_, edge_ or graph_" if known else "")
            )
        owners[key] = known[0]
    offsets["graphs"] = np.arange(num_graphs + 1)
    for start in range(0, num_graphs, _BLOCK):
        stop = min(start + _BLOCK, num_graphs)
        read = {
            key: file[key][..., offsets[of][start] : offsets[of][stop]]
            if key == _EDGE_INDEX
            else file[key][offsets[of][start] : offsets[of][stop]]
            for key, of in owners.items()
        }
        for graph in range(start, stop):
            yield Sample(
                f"graph {graph}", _of_graph(read, owners, offsets, start, graph)
            )


def _of_graph(
    read: dict[str, Any], owners: dict[str, str], offsets: dict[str, Any], start: int, graph: int
) -> dict[str, Any]:
    arrays: dict[str, Any] = {}
    for key, of in owners.items():
        first, end = offsets[of][[graph, graph + 1]] - offsets[of][start]
        arrays[key] = read[key][..., first:end] if key == _EDGE_INDEX else read[key][first:end]
        # A row of the graph's own.
        if of == "graphs":
            arrays[key] = arrays[key][0]
    arrays["num_nodes"] = offsets["nodes"][graph + 1] - offsets["nodes"][graph]
    return arrays


def _offsets(name: str, file: Any, key: str) -> Any:
    offsets = np.asarray(file[key][()], np.int64)
    if offsets.ndim != 1 or not len(offsets) or offsets[0] != 0 or (np.diff(offsets) < 0).any():
        raise ValueError(f"{name}: {key!r} does not begin with 0 and rise")
    return offsets

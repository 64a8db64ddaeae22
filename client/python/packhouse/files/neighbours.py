"""Neighbours of atoms within a cutoff. See `packhouse.atoms`."""

from __future__ import annotations

import dataclasses
from typing import Callable, Final

import numpy as np
import numpy.typing as npt

from packhouse.data.graphs import Array, GraphTable
from packhouse.data.schema import GRAPHS, GraphSchema, Layout, TensorSpec
from packhouse.files.atoms_files import check_structure
from packhouse.frameworks.layout import EDGES, NODES

_POSITIONS: Final = "pos"
_CELL: Final = "cell"
_PERIODIC: Final = "pbc"
EDGE_INDEX: Final = "edge_index"
CELL_OFFSETS: Final = "cell_offsets"

# i, j, distances, shifts of the neighbours of one structure.
_Found = tuple[Array, Array, Array, Array]


@dataclasses.dataclass(frozen=True)
class Neighbours:
    """Which atoms are neighbours: within `cutoff`, and of each atom the nearest `max_neighbours`
    (0: all). `keep_edges` stores them; otherwise their number alone.

    Raises ValueError naming the value.
    """

    cutoff: float
    max_neighbours: int = 0
    keep_edges: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.cutoff < np.inf:
            raise ValueError(f"cutoff {self.cutoff} is no positive number")
        if self.max_neighbours < 0:
            raise ValueError(f"max_neighbours {self.max_neighbours} is below 0")

    def add_to(self, table: GraphTable) -> GraphTable:
        """The table with a component `edges`. Raises ValueError, and ImportError without ase."""
        schema = table.schema
        names = {spec.name: spec for spec in schema.tensors}
        _check(table)
        positions = np.asarray(table.tensors[_POSITIONS], np.float64)
        offsets = table.offsets(NODES)
        find = finder()
        counts = np.zeros(len(table), np.int64)
        ends: list[Array] = []
        shifts: list[Array] = []
        for number in range(len(table)):
            part = positions[offsets[number] : offsets[number + 1]]
            cell, pbc = _cell_of(table, names, number)
            try:
                check_structure(part, cell, pbc)
                found = find(part, cell, pbc, self.cutoff)
            except ValueError as error:
                raise ValueError(f"graph {table.graph_ids[number]}: {error}") from None
            if not self.keep_edges:
                counts[number] = self._count(found, len(part))
                continue
            target, source, shift = self._nearest(found)
            counts[number] = len(target)
            ends.append(np.stack([source, target]))
            shifts.append(shift)
        sizes = np.concatenate([table.sizes, counts[:, np.newaxis]], axis=1)
        tensors = dict(table.tensors)
        specs = list(schema.tensors)
        if self.keep_edges:
            specs += _EDGE_SPECS
            tensors[EDGE_INDEX] = np.concatenate([np.empty((2, 0), np.int64), *ends], axis=1)
            tensors[CELL_OFFSETS] = np.concatenate([np.empty((0, 3), np.int64), *shifts])
        joined = GraphSchema((*schema.components, EDGES), specs)
        return GraphTable(joined, sizes, tensors, table.graph_ids)

    def _count(self, found: _Found, num_atoms: int) -> int:
        of_each = np.bincount(found[0], minlength=num_atoms)
        if self.max_neighbours:
            of_each = np.minimum(of_each, self.max_neighbours)
        return int(of_each.sum())

    def _nearest(self, found: _Found) -> tuple[Array, Array, Array]:
        centre, neighbour, distances, shift = found
        order = np.lexsort((*shift.T[::-1], neighbour, distances, centre))
        centre = centre[order]
        if self.max_neighbours:
            starts = np.searchsorted(centre, centre, side="left")
            kept = np.arange(len(centre)) - starts < self.max_neighbours
            order, centre = order[kept], centre[kept]
        return centre, neighbour[order], shift[order]


_EDGE_SPECS: Final = (
    TensorSpec(
        EDGE_INDEX, "int32", EDGES, (2,), index_into=NODES, layout=Layout.ROWS_LAST
    ),
    TensorSpec(CELL_OFFSETS, "int16", EDGES, (3,)),
)


def _check(table: GraphTable) -> None:
    specs = {spec.name: spec for spec in table.schema.tensors}
    wanted: dict[str, tuple[str, list[tuple[int, ...]]]] = {
        _POSITIONS: (NODES, [(3,)]),
        _CELL: (GRAPHS, [(3, 3), (1, 3, 3), (9,)]),
        _PERIODIC: (GRAPHS, [(3,), (1, 3)]),
    }
    for name, (component, shapes) in wanted.items():
        spec = specs.get(name)
        if spec is None and name != _POSITIONS:
            continue
        if spec is None or spec.component != component or spec.row_shape not in shapes:
            here = "there is none" if spec is None else f"it is {spec}"
            raise ValueError(
                f"neighbours need a tensor {name!r}, {list(shapes[0])} for each of {component}; "
                f"{here}"
            )
    if EDGES in table.schema.components:
        raise ValueError(f"the graphs have {EDGES!r} already, so that no neighbours are counted")


def _cell_of(
    table: GraphTable, specs: dict[str, TensorSpec], number: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """The cell, and along which of its vectors it is periodic: as said, or where they are not 0."""
    cell = np.zeros((3, 3))
    if _CELL in specs:
        cell = np.asarray(table.tensors[_CELL][number], np.float64).reshape(3, 3)
    if _PERIODIC in specs:
        return cell, np.asarray(table.tensors[_PERIODIC][number], bool).reshape(3)
    return cell, np.asarray(cell.any(axis=1))


def finder() -> Callable[..., _Found]:
    """`matscipy`'s search if it is there, otherwise ASE's. Raises ImportError."""
    try:
        from matscipy.neighbours import neighbour_list
    except ImportError:
        return by_ase

    def by_matscipy(positions: Array, cell: Array, pbc: Array, cutoff: float) -> _Found:
        box, origin = _box(positions, cell, pbc)
        found: _Found = neighbour_list(
            "ijdS", positions=positions, cell=box, cell_origin=origin, pbc=pbc, cutoff=cutoff
        )
        return found

    return by_matscipy


def by_ase(positions: Array, cell: Array, pbc: Array, cutoff: float) -> _Found:
    """As ASE's own list finds them."""
    try:
        from ase.neighborlist import primitive_neighbor_list
    except ImportError as error:
        raise ImportError(
            "matscipy or ase is needed to find neighbours (pip install 'packhouse[atoms]')"
        ) from error
    found: _Found = primitive_neighbor_list("ijdS", pbc, cell, positions, cutoff)
    return found


def _box(positions: Array, cell: Array, pbc: Array) -> tuple[Array, Array]:
    """A cell that holds all atoms along the directions that are not periodic, and its origin."""
    box = np.array(cell, np.float64)
    free = ~np.asarray(pbc, bool)
    # Free vectors are turned upright to the others, so that they never lie in their plane.
    box[free] = 0
    _, _, axes = np.linalg.svd(box[~free]) if (~free).any() else (None, None, np.eye(3))
    box[free] = axes[len(box[~free]) :]
    along = positions @ np.linalg.inv(box)
    low, high = along.min(axis=0), along.max(axis=0)
    origin = np.where(free, low, 0) @ box
    # Some room, so that no atom lies on a side.
    box[free] *= (high - low + 1)[free, np.newaxis]
    return box, origin

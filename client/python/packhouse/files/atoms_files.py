"""Atoms from ASE's databases (.db, .aselmdb) and extxyz files, and neighbours. Needs ase.

Each structure is a graph whose nodes are its atoms:

- `pos` [atoms, 3], `atomic_numbers` (int32), and what else has a value for each atom: `forces`,
  `magmoms`, `tags`, any array of the file; `fixed` where atoms are constrained.
- `cell` [3, 3] and `pbc` [3] of each graph; `energy`, `stress` (six numbers, as ASE keeps it),
  `dipole`, the file's own values (`info` of extxyz, key_value_pairs and data of a database).

Numbers keep their type. Edges are not in such files: `Neighbours` counts or adds those within a
cutoff. See `packhouse.atoms`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import io
import os
import sqlite3
from typing import Any, Callable, Final, Iterable, Iterator, TextIO

import numpy as np
import numpy.typing as npt

from packhouse.base.arguments import names_arguments
from packhouse.data.graphs import Array, GraphTable, array_of
from packhouse.data.schema import GRAPHS, GraphSchema, Layout, TensorSpec
from packhouse.files import file_kinds
from packhouse.files.frames import Frame, Item, Malformed, Rows, graph_row, made
from packhouse.frameworks.layout import EDGES, NODES

DATABASES: Final = (".db", ".aselmdb")
XYZ: Final = (".extxyz", ".xyz", ".extxyz.gz", ".xyz.gz")
ENDINGS: Final = (*DATABASES, *XYZ)

# Of what calculators compute; everything else is of the whole structure.
_PER_ATOM: Final = frozenset({"forces", "stresses", "charges", "magmoms", "energies"})
# Arrays that ASE takes for zero where a structure has none.
_ZERO_UNLESS_SET: Final = frozenset({"tags", "momenta", "initial_magmoms", "initial_charges"})
# A note of ase.build to itself.
_OF_BUILDERS: Final = "adsorbate_info"
_LONGEST_SHOWN: Final = 40


def items(name: str) -> Iterator[Item]:
    """The structures of a file, one held at a time. Raises OSError, ImportError, and ValueError if
    it is no such file."""
    os.stat(name)
    with needed("ase", name):
        import ase  # noqa: F401
    return _of_database(name) if name.endswith(DATABASES) else _of_xyz(name)


@contextlib.contextmanager
def needed(package: str, name: str, extra: str = "atoms") -> Iterator[None]:
    """Names the file and the way out if what reads it is missing."""
    try:
        yield
    except ImportError as error:
        kind = file_kinds.kind_of(name)
        raise ImportError(
            f"{name}: {f'is {kind[0]}; ' if kind else ''}{package} is needed to read it "
            f"(pip install 'packhouse[{extra}]')"
        ) from error


def frame_of(atoms: Any, where: str, values: dict[str, Any] | None = None) -> Frame:
    """The graph of an `ase.Atoms`; `values` are more of the whole structure.

    Raises ValueError for what is no structure: no atom, a position that is not a number, a periodic
    direction without a cell vector.
    """
    num_atoms = len(atoms)
    positions = np.asarray(atoms.positions, np.float64)
    cell = np.asarray(atoms.cell.array if hasattr(atoms.cell, "array") else atoms.cell, np.float64)
    check_structure(positions, cell, np.asarray(atoms.pbc))
    tensors = {
        "atomic_numbers": Rows(NODES, np.asarray(atoms.numbers, np.int32)),
        "pos": Rows(NODES, positions),
        "cell": graph_row(cell.reshape(3, 3)),
        "pbc": graph_row(np.asarray(atoms.pbc, bool)),
    }
    for name, array in atoms.arrays.items():
        if name not in ("numbers", "positions"):
            tensors[name] = Rows(NODES, array_of(array, name), may_lack=name in _ZERO_UNLESS_SET)
    fixed = _fixed(atoms)
    if fixed is not None:
        tensors["fixed"] = Rows(NODES, fixed, may_lack=True)
    results = dict(getattr(atoms.calc, "results", None) or {})
    for name, value in {**atoms.info, **(values or {}), **results}.items():
        if value is None or name == _OF_BUILDERS:
            continue
        array = _as_array(value, name)
        if name in _PER_ATOM and array.ndim and len(array) == num_atoms:
            tensors[name] = Rows(NODES, array)
        else:
            tensors[name] = graph_row(array)
    return Frame(where, {NODES: num_atoms}, tensors)


def check_structure(positions: Any, cell: Any, pbc: Any) -> None:
    """Raises ValueError for what no neighbours could be found in."""
    if not len(positions):
        raise ValueError("has no atom")
    if not np.isfinite(positions).all():
        atom = int(np.argmin(np.isfinite(positions).all(axis=1)))
        raise ValueError(f"the position of atom {atom} is {positions[atom].tolist()}")
    if not np.isfinite(cell).all():
        raise ValueError(f"its cell is {cell.tolist()}")
    vectors = cell.reshape(3, 3)[np.asarray(pbc, bool)]
    if len(vectors) and np.linalg.matrix_rank(vectors) < len(vectors):
        raise ValueError(
            f"it is periodic along {np.flatnonzero(pbc).tolist()}, where its cell vectors "
            f"{vectors.tolist()} span no volume"
        )


def _as_array(value: Any, name: str) -> Any:
    if name == "energy":
        # A file may write it as 0 or -1.
        return array_of(value, name).astype(np.float64)
    return array_of(value, name)


def _fixed(atoms: Any) -> Any:
    """bool [atoms], of atoms that are fixed wholly; None without constraints."""
    if not atoms.constraints:
        return None
    fixed = np.zeros(len(atoms), bool)
    for constraint in atoms.constraints:
        if type(constraint).__name__ == "FixAtoms":
            fixed[constraint.index] = True
    return fixed


def opened_lmdb(name: str) -> Any:
    """The environment, read-only. Raises ImportError, OSError, and ValueError naming the file."""
    import lmdb

    is_folder = os.path.isdir(name)
    try:
        environment = lmdb.open(name, subdir=is_folder, readonly=True, lock=False, max_readers=1)
    except lmdb.Error as error:
        raise ValueError(f"{name}: is no LMDB file: {error}") from error
    has = os.stat(os.path.join(name, "data.mdb") if is_folder else name).st_size
    needs = (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
    if has < needs:
        environment.close()
        raise ValueError(f"{name}: is cut: it has {has:,} bytes, and its pages need {needs:,}")
    return environment


def _of_database(name: str) -> Iterator[Item]:
    with needed("ase", name):
        import ase.db
    is_lmdb = name.endswith(".aselmdb")
    options = {"readonly": True, "serial": True} if is_lmdb else {"serial": True}
    with _naming(name), needed("ase-db-backends" if is_lmdb else "ase", name):
        if is_lmdb:
            import ase_db_backends  # noqa: F401

            opened_lmdb(name).close()
        database = ase.db.connect(name, type="aselmdb" if is_lmdb else "db", **options)
    with database:
        for number in _ids(name, database):
            where = f"row {number}"
            yield from made(lambda: [_of_row(database.get(id=number), where)], where)


def _ids(name: str, database: Any) -> Iterable[int]:
    if hasattr(database, "ids"):
        return sorted(database.ids)
    return _ids_of_sqlite(name)


def _ids_of_sqlite(name: str) -> Iterator[int]:
    with _naming(name):
        connection = sqlite3.connect(f"file:{_quoted(name)}?mode=ro", uri=True)
        try:
            for (number,) in connection.execute("SELECT id FROM systems ORDER BY id"):
                yield number
        finally:
            connection.close()


def _quoted(name: str) -> str:
    import urllib.parse

    return urllib.parse.quote(os.path.abspath(name))


@contextlib.contextmanager
def _naming(name: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ImportError):
        raise
    except Exception as error:
        told = str(error).removeprefix(f"{name}: ")
        raise ValueError(f"{name}: is no database of ASE: {told}") from error


def _of_row(row: Any, where: str) -> Frame:
    atoms = row.toatoms()
    return frame_of(atoms, where, {**row.key_value_pairs, **dict(row.data)})


def _of_xyz(name: str) -> Iterator[Item]:
    from ase.io.extxyz import read_xyz

    def read(text: str, where: str) -> list[Frame]:
        return [frame_of(next(iter(read_xyz(io.StringIO(text), 0))), where)]

    opened: Any = gzip.open if name.endswith(".gz") else open
    with opened(name, "rt", encoding="utf-8", errors="replace") as file:
        for number, found in enumerate(_frames_of_xyz(file)):
            where = f"frame {number}"
            if isinstance(found, Malformed):
                yield Malformed(where, f"{found.where}: {found.reason}")
                continue
            text = found
            yield from made(lambda: read(text, where), where)


def _frames_of_xyz(file: TextIO) -> Iterator[str | Malformed]:
    """The text of each frame. After a broken one it goes on at the next number of atoms."""
    head, line = file.readline(), 1
    while head:
        if not head.strip():
            head, line = file.readline(), line + 1
            continue
        first = line
        if not _is_count(head):
            yield Malformed(f"line {first}", f"{head.strip()[:_LONGEST_SHOWN]!r} is no number of atoms")
            while head and not _is_count(head):
                head, line = file.readline(), line + 1
            continue
        wanted = int(head)
        lines = [head, file.readline()]
        line += 1
        head, line = file.readline(), line + 1
        # No line of an atom is one number alone.
        while len(lines) < wanted + 2 and head and not _is_count(head):
            lines.append(head)
            head, line = file.readline(), line + 1
        if len(lines) < wanted + 2:
            yield Malformed(f"line {first}", f"has {len(lines) - 2} lines of {wanted} atoms")
        else:
            yield "".join(lines)


def _is_count(line: str) -> bool:
    return line.strip().isdecimal()


_POSITIONS: Final = "pos"
_CELL: Final = "cell"
_PERIODIC: Final = "pbc"
EDGE_INDEX: Final = "edge_index"
CELL_OFFSETS: Final = "cell_offsets"

# i, j, distances, shifts of the neighbours of one structure.
_Found = tuple[Array, Array, Array, Array]


@names_arguments
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

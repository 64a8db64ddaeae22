"""Graphs that a file has one by one, some of which may be malformed, as tables.

A `Frame` is a graph's rows; a `Sample` is a graph of named arrays, of which `of_samples` makes a
frame. What an array belongs to follows from its name and its length, as the first samples have it:

- `edge_index` (2, edges) numbers the nodes at both ends; `edge_attr` and `edge_*` have a row an edge.
- `pos`, `atomic_numbers`, `forces`, `x`, `node_*` have a row a node; `num_nodes` is their number.
- `y`, `energy`, `cell`, `pbc`, `stress`, `graph_*` and single numbers are the graph's own.
- Any other array has a row for each of the nodes, else the edges, if it does so in all of the first
  samples; otherwise it is the graph's own, and has the same shape in all of them.

Where positions and atomic numbers go by other names, as `coordinates`, `positions`, `species`, `Z`,
they become `pos` and `atomic_numbers`, so that neighbours can be counted.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from typing import Any, Callable, Collection, Final, Iterable, Iterator, Mapping, NamedTuple, Union

import numpy as np

from packhouse.data.graphs import Array, GraphTable, convert_exactly
from packhouse.data.schema import GRAPHS, DType, GraphSchema, Layout, TensorSpec
from packhouse.frameworks.layout import EDGES, NODES

# Of a table: whichever comes first.
MOST_FRAMES: Final = 1 << 10
_MOST_BYTES: Final = 8 << 20

# Told what is wrong with a graph, which is then left out.
OnMalformed = Callable[[str], None]


class Rows(NamedTuple):
    """A tensor of one graph: [rows, ...], or [..., rows] with rows last.

    One that `may_lack` is zero in graphs without it.
    """

    component: str
    array: Array
    index_into: str | None = None
    layout: Layout = Layout.ROWS_FIRST
    may_lack: bool = False

    @property
    def row_shape(self) -> tuple[int, ...]:
        shape = self.array.shape
        return shape[1:] if self.layout is Layout.ROWS_FIRST else shape[:-1]

    @property
    def is_number(self) -> bool:
        return self.array.dtype.kind in "biuf"


@dataclasses.dataclass(frozen=True)
class Frame:
    """One graph: rows of each component, `graphs` left out, and its tensors by name."""

    where: str
    counts: Mapping[str, int]
    tensors: Mapping[str, Rows]


class Malformed(NamedTuple):
    """What there is in place of a graph that cannot be read."""

    where: str
    reason: str


Item = Union[Frame, Malformed]
# A file's name, and what is in it.
Source = tuple[str, Iterable[Item]]


def graph_row(value: Any) -> Rows:
    """A value of the whole graph."""
    return Rows(GRAPHS, np.asarray(value)[np.newaxis])


def tables(
    sources: Iterable[Source],
    *,
    exclude: Collection[str] = (),
    on_malformed: OnMalformed | None = None,
) -> Iterator[GraphTable]:
    """The graphs of some files one after the other, ids from 0, some 8 MiB or 1,024 at a time.

    What most of the first part have in common is the schema; integers and floating-point numbers
    become floating-point ones. A graph that cannot be read, or differs from it, is given to
    `on_malformed` with its file, its place and the reason, and left out; without, it is a
    ValueError. Raises ValueError for text and other objects that cannot be sent, unless `exclude`
    names them. Memory: a part.
    """
    joining: _Joining | None = None
    first_id = 0
    for part in _parts(sources, frozenset(exclude), on_malformed):
        if joining is None:
            joining = _Joining(part)
        fitting = []
        for name, frame in part:
            try:
                fitting.append(joining.columns_of(frame))
            except ValueError as error:
                _refuse(on_malformed, name, Malformed(frame.where, str(error)))
        if fitting:
            table = joining.table(fitting, first_id)
            first_id += len(table)
            yield table


def _refuse(on_malformed: OnMalformed | None, name: str, malformed: Malformed) -> None:
    told = f"{name}: {malformed.where}: {' '.join(malformed.reason.split())}"
    if on_malformed is None:
        raise ValueError(f"{told}; --skip-malformed (on_malformed=...) leaves out such graphs")
    on_malformed(told)


def _parts(
    sources: Iterable[Source], exclude: frozenset[str], on_malformed: OnMalformed | None
) -> Iterator[list[tuple[str, Frame]]]:
    part: list[tuple[str, Frame]] = []
    num_bytes = 0
    for name, items in sources:
        for item in items:
            if isinstance(item, Malformed):
                _refuse(on_malformed, name, item)
                continue
            tensors = {key: rows for key, rows in item.tensors.items() if key not in exclude}
            part.append((name, dataclasses.replace(item, tensors=tensors)))
            num_bytes += sum(rows.array.nbytes for rows in tensors.values())
            if len(part) == MOST_FRAMES or num_bytes >= _MOST_BYTES:
                yield part
                part, num_bytes = [], 0
    if part:
        yield part


def _signature(frame: Frame) -> Any:
    """What graphs of one data set have in common."""
    return frozenset(
        (name, rows.component, rows.row_shape, rows.index_into, rows.is_number)
        for name, rows in frame.tensors.items()
        if not rows.may_lack
    )


class _Joining:
    """What the graphs of a data set are, as most of the first ones are."""

    def __init__(self, part: list[tuple[str, Frame]]) -> None:
        """Raises ValueError for what cannot be sent."""
        signatures = [_signature(frame) for _, frame in part]
        self._signature, _ = collections.Counter(signatures).most_common(1)[0]
        alike = [
            frame for (_, frame), one in zip(part, signatures) if one == self._signature
        ]
        columns = dict(alike[0].tensors)
        for frame in alike:
            for name, rows in frame.tensors.items():
                columns.setdefault(name, rows)
        name_of_file = part[signatures.index(self._signature)][0]
        texts = [name for name, rows in columns.items() if not rows.is_number]
        if texts:
            options = " ".join(f"--exclude {name}" for name in texts)
            raise ValueError(
                f"{name_of_file}: what is text or of another type that cannot be sent has to be "
                f"left out: {options} (exclude={texts})"
            )
        self._may_lack = {name for name, rows in columns.items() if rows.may_lack}
        self._components = tuple(alike[0].counts)
        try:
            self.schema = GraphSchema(
                self._components,
                [_spec(name, rows, alike) for name, rows in columns.items()],
            )
        except ValueError as error:
            raise ValueError(f"{name_of_file}: {alike[0].where}: {error}") from None
        self._dtypes = {spec.name: spec.dtype.numpy for spec in self.schema.tensors}

    def columns_of(self, frame: Frame) -> tuple[list[int], dict[str, Array]]:
        """Its sizes, and its arrays in the schema's types. Raises ValueError if it differs."""
        if _signature(frame) != self._signature or tuple(frame.counts) != self._components:
            raise ValueError(self._difference(frame))
        columns = {}
        for spec in self.schema.tensors:
            rows = frame.tensors.get(spec.name)
            if rows is None:
                count = frame.counts.get(spec.component, 1)
                columns[spec.name] = np.zeros(spec.array_shape(count), spec.dtype.numpy)
                continue
            try:
                columns[spec.name] = convert_exactly(
                    rows.array, self._dtypes[spec.name], repr(spec.name)
                )
            except ValueError as error:
                raise ValueError(f"{error}, as in the first graphs") from None
        extra = [name for name in frame.tensors if name not in columns]
        if extra:
            raise ValueError(
                f"has {extra[0]!r}, which none of the first graphs has: --exclude {extra[0]} leaves "
                "it out of all"
            )
        return [frame.counts[name] for name in self._components], columns

    def _difference(self, frame: Frame) -> str:
        for spec in self.schema.tensors:
            rows = frame.tensors.get(spec.name)
            if rows is None:
                if spec.name in self._may_lack:
                    continue
                return (
                    f"lacks {spec.name!r}, which most graphs before it have: --exclude "
                    f"{spec.name} leaves it out of all"
                )
            if not rows.is_number:
                return f"{spec.name!r} is text, which most graphs before it have as numbers"
            if (rows.component, rows.row_shape) != (spec.component, spec.row_shape):
                return (
                    f"{spec.name!r} has rows of the shape {list(rows.row_shape)} for each of "
                    f"{rows.component}, most graphs before it have {list(spec.row_shape)} for "
                    f"each of {spec.component}"
                )
        known = {spec.name for spec in self.schema.tensors}
        for name in frame.tensors:
            if name not in known:
                return (
                    f"has {name!r}, which most graphs before it lack: --exclude {name} leaves it out "
                    "of all"
                )
        return f"has the components {list(frame.counts)}, others have {list(self._components)}"

    def table(
        self, frames: list[tuple[list[int], dict[str, Array]]], first_id: int
    ) -> GraphTable:
        sizes = np.array([row for row, _ in frames], np.int64)
        columns = {
            spec.name: np.concatenate(
                [columns[spec.name] for _, columns in frames], axis=spec.rows_axis
            )
            for spec in self.schema.tensors
        }
        sizes = sizes.reshape(len(frames), len(self._components))
        return GraphTable(self.schema, sizes, columns, first_id=first_id)


def _spec(name: str, rows: Rows, alike: Iterable[Frame]) -> TensorSpec:
    dtypes = {frame.tensors[name].array.dtype for frame in alike if name in frame.tensors}
    return TensorSpec(
        name,
        DType.of(np.result_type(*dtypes)),
        rows.component,
        rows.row_shape,
        index_into=rows.index_into,
        layout=rows.layout,
    )


def numbered(items: Iterable[Any], make: Callable[[Any, str], Iterable[Frame]], what: str) -> Iterator[Item]:
    """What `make` makes of each, `what` 0, `what` 1, ...; what it raises is told of that one."""
    for number, item in zip(itertools.count(), items):
        yield from made(lambda: make(item, f"{what} {number}"), f"{what} {number}")


def made(make: Callable[[], Iterable[Frame]], where: str) -> Iterator[Item]:
    """What `make` gives, or what is wrong there."""
    try:
        yield from make()
    # Of whatever library reads it: what a damaged file makes them raise is of any kind.
    except Exception as error:  # pylint: disable=broad-except
        if isinstance(error, (ImportError, MemoryError)):
            raise
        told = str(error) or "cannot be read"
        is_ours = isinstance(error, ValueError)
        yield Malformed(where, told if is_ours else f"{type(error).__name__}: {told}")


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


def of_samples(samples: Iterable[Union[Sample, Malformed]]) -> Iterator[Item]:
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

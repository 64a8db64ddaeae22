"""Graphs that a file has one by one, some of which may be malformed, as tables."""

from __future__ import annotations

import collections
import dataclasses
import itertools
from typing import Any, Callable, Collection, Final, Iterable, Iterator, Mapping, NamedTuple, Union

import numpy as np

from packhouse.data.graphs import Array, GraphTable, convert_exactly
from packhouse.data.schema import GRAPHS, DType, GraphSchema, Layout, TensorSpec

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

"""Stores a framework's data set, in one call that may be repeated; a terminal shows how far it is.

Under a name that is given, or once under one that is made of what it has.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import itertools
import sys
import time
from typing import Any, Callable, Collection, Final, Iterable, Iterator, Mapping, NamedTuple, Protocol

import grpc
import numpy as np
import numpy.typing as npt

from packhouse.base.errors import PackhouseError
from packhouse.client.facade import Client
from packhouse.data.graphs import Array, GraphTable
from packhouse.data.schema import GraphSchema, TensorSpec
from packhouse.frameworks.layout import EDGES, NODES
from packhouse.stored.dataset import Dataset, DatasetState

# The same each time, so that graphs that were stored before a failure are not stored again.
_PRODUCER: Final = "ingest"

# By the name of a tensor: what padding rows have.
PaddingValues = Mapping[str, "int | float | str | bytes"]


def ingest_tables(
    client: Client,
    name: str,
    tables: Iterable[GraphTable],
    *,
    seal: bool = True,
    padding_values: PaddingValues | None = None,
    counts: Collection[str] = (),
) -> Dataset:
    """Creates the data set, appends the tables, and seals it.

    After a failure call it again with the same graphs: it goes on where it was. If the data set was
    sealed by an earlier call, nothing is done. `padding_values` become those of the schema: see
    `GraphSchema.with_padding_values`. `counts` are masks that are stored with their counts: see
    `GraphTable.with_counts`.

    Raises ValueError if it exists with another schema, or is sealed with another number of graphs,
    or if there is no table; PackhouseError. An exception of `tables`, as for graphs that differ, but
    for OSError, and graphs that the server refuses leave no data set behind if this call made it.
    """
    source = _Source(tables, padding_values or {}, counts)
    remaining = iter(source)
    first = next(remaining, None)
    if first is None:
        raise ValueError(f"data set {name!r}: there is no graph")
    is_ours = True
    try:
        dataset = client.datasets.create(name, first.schema)
    except PackhouseError as error:
        if error.code is not grpc.StatusCode.ALREADY_EXISTS:
            raise
        is_ours = False
        dataset = client.datasets.get(name)
        if dataset.schema.to_proto() != first.schema.to_proto():
            raise ValueError(
                f"data set {name!r} exists and has another schema: "
                f"{difference(dataset.schema, first.schema, 'it', 'the first of these graphs')}"
            ) from None
        if dataset.state is DatasetState.SEALED:
            num_graphs = len(first) + sum(map(len, remaining))
            if num_graphs != dataset.num_graphs:
                raise ValueError(
                    f"data set {name!r} is sealed with {dataset.num_graphs} graphs; these are "
                    f"{num_graphs}"
                ) from None
            return dataset
    try:
        client.datasets.append(
            name, itertools.chain((first,), remaining), producer=_PRODUCER, first_sequence=1
        )
    except Exception as error:
        is_refused = (
            isinstance(error, PackhouseError) and error.code is grpc.StatusCode.INVALID_ARGUMENT
        )
        if is_ours and (source.has_failed or is_refused):
            client.datasets.delete(name)
        raise
    return client.datasets.seal(name) if seal else client.datasets.get(name)


class _Source:
    """Tables with padding values and counts; remembers whether it was they that failed."""

    def __init__(
        self, tables: Iterable[GraphTable], values: PaddingValues, counts: Collection[str]
    ) -> None:
        self._tables = tables
        self._values = values
        self._counts = tuple(counts)
        self.has_failed = False

    def __iter__(self) -> Iterator[GraphTable]:
        try:
            for table in self._tables:
                padded = self._padded(table) if self._values else table
                yield padded.with_counts(self._counts) if self._counts else padded
        except (OSError, PackhouseError):
            # Of where they come from: trying again may help.
            raise
        except Exception:
            # Of what these graphs are.
            self.has_failed = True
            raise

    def _padded(self, table: GraphTable) -> GraphTable:
        names = [spec.name for spec in table.schema.tensors]
        for name in self._values:
            if name not in names:
                raise ValueError(f"padding_values: no tensor {name!r}; there are {names}")
        schema = table.schema.with_padding_values(self._values)
        return GraphTable(schema, table.sizes, table.tensors, table.graph_ids)


class Part(Protocol):
    """Some graphs of one of a framework's objects."""

    @property
    def schema(self) -> GraphSchema:
        """That of these graphs."""

    @property
    def sizes(self) -> Array:
        """[graphs, components]."""

    @property
    def columns(self) -> Mapping[str, Array]:
        """By tensor; indices within each graph."""


def joined_tables(
    objects: Iterable[Any], part_of: Callable[[Any], Part], kind: str, most: int, first_id: int = 0
) -> Iterator[GraphTable]:
    """Tables of the graphs of `most` objects each (0: all), numbered from `first_id` on.

    The objects of one table are held at a time. Raises ValueError if there is none, and naming an
    object by its number, as `kind` 3, if it has another schema than the first one, and what differs.
    """
    parts = (_part(part_of, made, f"{kind} {n}") for n, made in enumerate(objects))
    schema: GraphSchema | None = None
    number = 0
    while True:
        held = list(itertools.islice(parts, most or None))
        if not held:
            break
        if schema is None:
            schema = held[0].schema
        for part in held:
            if part.schema != schema:
                here = f"{kind} {number}"
                raise ValueError(difference(schema, part.schema, f"{kind} 0", here))
            number += 1
        made = GraphTable(
            schema,
            np.concatenate([part.sizes for part in held]),
            {
                spec.name: np.concatenate([part.columns[spec.name] for part in held])
                for spec in schema.tensors
            },
            first_id=first_id,
        )
        first_id += len(made)
        yield made
    if schema is None:
        raise ValueError("there is no graph, so that the schema is not known")


def _part(part_of: Callable[[Any], Part], made: Any, name: str) -> Part:
    try:
        return part_of(made)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name}: {error}") from None


def sizes_by_name(
    rows: Iterable[Mapping[str, int]], kind: str
) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    """int64 [objects, components] and the components, in the order of the first object.

    Each object has an order of its own, so they are taken by name. Raises ValueError naming an
    object and a component that it or the first one lacks.
    """
    components: tuple[str, ...] | None = None
    sizes: list[list[int]] = []
    for number, row in enumerate(rows):
        if components is None:
            components = tuple(row)
        if row.keys() != set(components):
            name = min(row.keys() ^ set(components))
            has, lacks = (number, 0) if name in row else (0, number)
            raise ValueError(f"{kind} {has} has {name!r}, which {kind} {lacks} lacks")
        sizes.append([row[name] for name in components])
    components = components or (NODES, EDGES)
    return np.array(sizes, np.int64).reshape(len(sizes), len(components)), components


def difference(first: GraphSchema, other: GraphSchema, first_name: str, other_name: str) -> str:
    """What of two schemas differs, by the name of a component or tensor."""
    for lacks, has, name_of_lacks, name_of_has in (
        (other, first, other_name, first_name),
        (first, other, first_name, other_name),
    ):
        for component in has.components:
            if component not in lacks.components:
                return f"{name_of_has} has {component!r}, which {name_of_lacks} lacks"
        known = {spec.name for spec in lacks.tensors}
        for spec in has.tensors:
            if spec.name not in known:
                return f"{name_of_has} has a tensor {spec.name!r}, which {name_of_lacks} lacks"
    before = {spec.name: spec for spec in first.tensors}
    for spec in other.tensors:
        if before[spec.name] != spec:
            return (
                f"{other_name} has {_told(spec)} in tensor {spec.name!r}, {first_name} has "
                f"{_told(before[spec.name])}"
            )
    return f"{other_name} has components and tensors in another order than {first_name}"


def _told(spec: TensorSpec) -> str:
    told = f"{spec.dtype.name.lower()} rows of the shape {list(spec.row_shape)} along "
    told += repr(spec.component)
    if spec.index_into is not None:
        told += f" that number {spec.index_into!r}"
    if spec.padding_value != 0:
        told += f" with padding value {spec.padding_value!r}"
    return told


# Seconds before it is shown, and between two looks of it.
_DELAY: Final = 0.5
_PERIOD: Final = 0.1
_WIDTH: Final = 30


class Progress:
    """Shows how many graphs of how many have been counted, on stderr if that is a terminal."""

    def __init__(
        self,
        what: str,
        total: int | None,
        is_shown: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what = what
        self._total = total
        self._is_shown = is_shown and sys.stderr.isatty()
        self._clock = clock
        self._next = clock() + _DELAY
        self._count = 0
        self._has_shown = False

    def counted(self, tables: Iterable[GraphTable]) -> Iterator[GraphTable]:
        """The tables; when they have been taken the line is gone."""
        try:
            for table in tables:
                yield table
                self._add(len(table))
        finally:
            if self._has_shown:
                sys.stderr.write("\r\x1b[K")
                sys.stderr.flush()

    def _add(self, count: int) -> None:
        self._count += count
        if not self._is_shown or self._clock() < self._next:
            return
        self._next = self._clock() + _PERIOD
        self._has_shown = True
        sys.stderr.write(f"\r\x1b[K{self.line()}")
        sys.stderr.flush()

    def line(self) -> str:
        """What is shown now."""
        if not self._total:
            return f"packhouse: {self._what} {self._count:,} graphs"
        done = min(1.0, self._count / self._total)
        bar = "█" * round(_WIDTH * done)
        return (
            f"packhouse: {self._what} {bar:░<{_WIDTH}} {self._count:,} of {self._total:,} graphs"
        )


# Tables that together have more are made a second time to be sent, so that they need not be held.
_MOST_HELD_BYTES: Final = 1 << 30

MakeTables = Callable[[], Iterable[GraphTable]]


class Stored(NamedTuple):
    """A sealed data set of a server's."""

    name: str
    num_graphs: int


def store_once(
    client: Client,
    make_tables: MakeTables,
    *,
    name: str | None = None,
    num_graphs: int | None = None,
    padding_values: PaddingValues | None = None,
    progress: bool = True,
) -> Stored:
    """Stores the tables unless equal ones are there, and says under which name.

    The name is `name`, which is then trusted to have these graphs if it has as many, or made of a
    hash of all that would be stored. `num_graphs` is for the progress bar, and for that trust.
    Processes of one machine that come at the same time store it once. Raises ValueError as
    `ingest_tables`.
    """
    tables = make_tables()
    if name is None:
        count = Progress("reading", num_graphs, progress)
        name, held = _named_by_content(count.counted(tables), padding_values or {})
        tables = make_tables() if held is None else held
    else:
        dataset = _sealed(client, name)
        if dataset is not None and num_graphs is not None:
            if dataset.num_graphs != num_graphs:
                raise ValueError(
                    f"data set {name!r} is stored with {dataset.num_graphs} graphs; these are "
                    f"{num_graphs}: give another name, or none"
                )
            return Stored(name, num_graphs)
    dataset = _sealed(client, name)
    if dataset is not None:
        return Stored(name, dataset.num_graphs)
    with _alone(name):
        count = Progress("storing", num_graphs, progress)
        dataset = ingest_tables(client, name, count.counted(tables), padding_values=padding_values)
    return Stored(name, dataset.num_graphs)


def _sealed(client: Client, name: str) -> Any:
    """The data set if it is there and sealed."""
    try:
        dataset = client.datasets.get(name)
    except PackhouseError as error:
        if error.code is not grpc.StatusCode.NOT_FOUND:
            raise
        return None
    return dataset if dataset.state is DatasetState.SEALED else None


@contextlib.contextmanager
def _alone(name: str) -> Iterator[None]:
    """One process of this user and machine at a time."""
    from packhouse.base.shared_server import cache_folder

    path = cache_folder() / f"store-{hashlib.blake2b(name.encode(), digest_size=8).hexdigest()}"
    with open(path, "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _named_by_content(
    tables: Iterable[GraphTable], padding_values: PaddingValues
) -> tuple[str, list[GraphTable] | None]:
    """The name, and the tables if they are few bytes."""
    # Which processors have instructions for.
    digest = hashlib.sha256()
    held: list[GraphTable] | None = []
    num_bytes = 0
    for number, table in enumerate(tables):
        if number == 0:
            digest.update(table.schema.to_proto().SerializeToString(deterministic=True))
            digest.update(repr(sorted(padding_values.items())).encode())
        digest.update(len(table).to_bytes(8, "little"))
        for array in (table.sizes, *table.tensors.values()):
            digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        num_bytes += table.nbytes
        if held is not None:
            held.append(table)
            if num_bytes > _MOST_HELD_BYTES:
                held = None
    return f"by-content/{digest.hexdigest()[:32]}", held

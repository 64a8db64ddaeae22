"""Stores a framework's data set under a name, in one call that may be repeated."""

from __future__ import annotations

import itertools
from typing import Any, Callable, Final, Iterable, Iterator

import grpc

from packhouse.client import Client
from packhouse.dataset import Dataset, DatasetState
from packhouse.errors import PackhouseError
from packhouse.graphs import GraphTable

# The same each time, so that graphs that were stored before a failure are not stored again.
_PRODUCER: Final = "ingest"


def ingest_tables(
    client: Client, name: str, tables: Iterable[GraphTable], *, seal: bool = True
) -> Dataset:
    """Creates the data set, appends the tables, and seals it.

    After a failure call it again with the same graphs: it goes on where it was. If the data set was
    sealed by an earlier call, nothing is done. Raises ValueError if it exists with another schema,
    or is sealed with another number of graphs, or if there is no table; PackhouseError.
    """
    remaining = iter(tables)
    first = next(remaining, None)
    if first is None:
        raise ValueError(f"data set {name!r}: there is no graph")
    try:
        dataset = client.create_dataset(name, first.schema)
    except PackhouseError as error:
        if error.code is not grpc.StatusCode.ALREADY_EXISTS:
            raise
        dataset = client.get_dataset(name)
        if dataset.schema.to_proto() != first.schema.to_proto():
            raise ValueError(f"data set {name!r} exists and has another schema") from None
        if dataset.state is DatasetState.SEALED:
            num_graphs = len(first) + sum(map(len, remaining))
            if num_graphs != dataset.num_graphs:
                raise ValueError(
                    f"data set {name!r} is sealed with {dataset.num_graphs} graphs; these are "
                    f"{num_graphs}"
                ) from None
            return dataset
    client.append(name, itertools.chain((first,), remaining), producer=_PRODUCER)
    return client.seal_dataset(name) if seal else client.get_dataset(name)


def tables_in_parts(
    graphs: Iterable[Any], table: Callable[..., GraphTable], most: int
) -> Iterator[GraphTable]:
    """`table(part, first_id=...)` of each part of `most` graphs, numbered from 0 on.

    One part is held at a time. Without graphs there is one empty table, which has the schema.
    """
    part: list[Any] = []
    first_id = 0
    for graph in graphs:
        part.append(graph)
        if len(part) == most:
            made = table(part, first_id=first_id)
            first_id += len(made)
            part = []
            yield made
    if part or first_id == 0:
        yield table(part, first_id=first_id)

"""A data set that is stored once, under a name made of what it has."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
from typing import Any, Callable, Final, Iterable, Iterator, NamedTuple

import grpc
import numpy as np

from packhouse.base.errors import PackhouseError
from packhouse.base.shared_server import cache_folder
from packhouse.client.facade import Client
from packhouse.data.graphs import GraphTable
from packhouse.frameworks.ingest import PaddingValues, ingest_tables
from packhouse.frameworks.progress import Progress
from packhouse.stored.dataset import DatasetState

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

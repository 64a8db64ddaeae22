"""Graphs from files of any kind that packhouse reads, told apart by their endings."""

from __future__ import annotations

import os
from typing import Callable, Collection, Final, Iterator, Sequence

from packhouse.datasets import arrow, file_kinds, npz, pyg_files, size_files
from packhouse.graphs import GraphTable
from packhouse.schema import GraphSchema

PICKLES: Final = (".pt", ".pth")


def tables(
    paths: Sequence[str | os.PathLike[str]],
    *,
    trust_pickle: bool = False,
    exclude: Collection[str] = (),
) -> Iterator[GraphTable]:
    """The graphs of some files, one file after the other, ids from 0.

    `.parquet`, `.arrow`, `.feather`, `.ipc`: `packhouse.datasets.arrow`; `.pt`, `.pth`:
    `packhouse.datasets.pyg_files`, which are pickles; `.npz`: `packhouse.datasets.npz`; `.csv`,
    `.csv.gz`: `packhouse.datasets.size_files`. `exclude` names attributes and columns of the first
    two kinds that are left out. Raises PermissionError for a pickle without `trust_pickle`,
    OSError, ImportError, and ValueError naming the file.
    """
    # Before anything is read: the last file's ending may be wrong.
    readers = [_reader(os.fspath(path), trust_pickle, exclude) for path in paths]
    return _joined([os.fspath(path) for path in paths], readers)


def _reader(
    name: str, trust_pickle: bool, exclude: Collection[str]
) -> Callable[[], Iterator[GraphTable]]:
    if name.endswith(arrow.ENDINGS):
        return lambda: arrow.tables(name, exclude_columns=exclude)
    if name.endswith(PICKLES):
        made = pyg_files.tables(name, trust_pickle=trust_pickle, exclude_keys=exclude)
        return lambda: made
    if exclude:
        raise ValueError(f"{name}: nothing can be left out of files of this kind: {list(exclude)}")
    if name.endswith(".npz"):
        return lambda: iter([npz.load(name)])
    if name.endswith((".csv", ".csv.gz")):
        return lambda: iter([size_files.load(name)])
    kind = file_kinds.kind_of(name) if os.path.exists(name) else None
    if kind is not None:
        raise ValueError(f"{name}: is {kind[0]}: {kind[1]}")
    raise ValueError(
        f"{name}: its ending tells of no kind of file that is known: .pt, .parquet, .arrow, "
        ".feather, .ipc, .npz, .csv or .csv.gz"
    )


def _joined(
    names: list[str], readers: list[Callable[[], Iterator[GraphTable]]]
) -> Iterator[GraphTable]:
    schema: GraphSchema | None = None
    first_id = 0
    for name, reader in zip(names, readers):
        for part in reader():
            if schema is not None and part.schema != schema:
                raise ValueError(
                    f"{name}: its graphs differ from those of {names[0]}: {part.schema}"
                )
            schema = part.schema
            yield GraphTable(part.schema, part.sizes, part.tensors, first_id=first_id)
            first_id += len(part)

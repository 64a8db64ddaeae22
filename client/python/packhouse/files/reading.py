"""Graphs from files of any kind that packhouse reads, told apart by their endings."""

from __future__ import annotations

import os
from typing import Any, Callable, Collection, Final, Iterator, Sequence

from packhouse.data.graphs import GraphTable
from packhouse.data.schema import GraphSchema
from packhouse.files import (
    arrow,
    atoms_files,
    file_kinds,
    frames,
    hdf5_files,
    mds_files,
    npz,
    pickles,
    size_files,
    tar_files,
)
from packhouse.files.atoms_files import Neighbours
from packhouse.files.frames import OnMalformed

PICKLES: Final = (".pt", ".pth")


def tables(
    paths: Sequence[str | os.PathLike[str]],
    *,
    trust_pickle: bool = False,
    exclude: Collection[str] = (),
    on_malformed: OnMalformed | None = None,
    neighbours: Neighbours | None = None,
) -> Iterator[GraphTable]:
    """The graphs of some files, one file after the other, ids from 0.

    `.parquet`, `.arrow`, `.feather`, `.ipc`: `packhouse.files.arrow`; `.pt`, `.pth`:
    `packhouse.files.pickles`; `.npz`: `packhouse.files.npz`; `.csv`,
    `.csv.gz`: `packhouse.files.size_files`; `.db`, `.aselmdb`, `.extxyz`, `.xyz`:
    `packhouse.files.atoms_files`; `.h5`, `.hdf5`: `hdf5_files`; `.lmdb`: `pickles`; `.tar`:
    `tar_files`; `.mds`, and a folder with their index.json: `mds_files`. `exclude` names attributes and columns that are left out, of
    all but `.npz` and sizes. `on_malformed` is told of each graph that cannot be read, which is then
    left out, in the kinds of files that have graphs one by one (`packhouse.files.frames`).
    `neighbours` are counted in graphs of atoms, whatever the kind of file. Raises PermissionError
    for a pickle without `trust_pickle`, OSError, ImportError, and ValueError naming the file.
    """
    # Before anything is read: the last file's ending may be wrong.
    names = [os.fspath(path) for path in paths]
    one_by_one = [_items(name, trust_pickle) for name in names]
    if all(one_by_one):
        sources = ((name, items()) for name, items in zip(names, one_by_one) if items)
        read = frames.tables(sources, exclude=exclude, on_malformed=on_malformed)
    else:
        readers = [_reader(name, trust_pickle, exclude, on_malformed) for name in names]
        read = _joined(names, readers)
    return read if neighbours is None else map(neighbours.add_to, read)


def _items(name: str, trust_pickle: bool) -> Callable[[], Iterator[Any]] | None:
    """Reads the graphs of a file one by one, if it is of such a kind."""
    if name.endswith(atoms_files.ENDINGS):
        return lambda: atoms_files.items(name)
    if name.endswith(hdf5_files.ENDINGS):
        return lambda: hdf5_files.items(name)
    if name.endswith(pickles.LMDB_ENDINGS):
        made = pickles.lmdb_items(name, trust_pickle)
        return lambda: made
    if name.endswith(tar_files.ENDINGS):
        return lambda: tar_files.items(name, trust_pickle)
    if name.endswith(mds_files.ENDINGS) or mds_files.is_folder(name):
        return lambda: mds_files.items(name, trust_pickle)
    return None


def _reader(
    name: str, trust_pickle: bool, exclude: Collection[str], on_malformed: OnMalformed | None
) -> Callable[[], Iterator[GraphTable]]:
    items = _items(name, trust_pickle)
    if items is not None:
        read = items
        return lambda: frames.tables([(name, read())], exclude=exclude, on_malformed=on_malformed)
    if name.endswith(arrow.ENDINGS):
        return lambda: arrow.tables(name, exclude_columns=exclude)
    if name.endswith(PICKLES):
        made = pickles.tables(name, trust_pickle=trust_pickle, exclude_keys=exclude)
        return lambda: made
    if exclude:
        raise ValueError(f"{name}: nothing can be left out of files of this kind: {list(exclude)}")
    if name.endswith(".npz"):
        return lambda: npz.NpzGraphs(name).tables()
    if name.endswith((".csv", ".csv.gz")):
        return lambda: iter([size_files.load(name)])
    raise ValueError(unknown(name))


def unknown(name: str) -> str:
    """What a file is, or that this is not known. Raises OSError."""
    kind = file_kinds.kind_of(name) if os.path.exists(name) else None
    if kind is not None:
        return f"{name}: is {kind[0]}: {kind[1]}"
    return (
        f"{name}: its ending tells of no kind of file that is known: .pt, .parquet, .arrow, .feather, "
        ".ipc, .npz, .csv, .csv.gz, .db, .aselmdb, .extxyz, .xyz, .h5, .hdf5, .lmdb, .tar or .mds"
    )


def is_known(name: str) -> bool:
    """Whether its ending tells of a kind of file."""
    endings = [".npz", ".csv", ".csv.gz", *PICKLES, *arrow.ENDINGS, *atoms_files.ENDINGS]
    endings += [*hdf5_files.ENDINGS, *pickles.LMDB_ENDINGS, *tar_files.ENDINGS, *mds_files.ENDINGS]
    return name.endswith(tuple(endings)) or mds_files.is_folder(name)


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

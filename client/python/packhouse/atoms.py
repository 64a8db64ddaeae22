"""Atoms: structures of ASE and files of them as graphs, with neighbours counted.

    import packhouse.atoms

    packhouse.atoms.ingest(client, "train", ["train.extxyz"], cutoff=6.0, max_neighbours=50)
    limits = {"nodes": 2048, "edges": 65536, "graphs": 64}
    with Loader(address, dataset="train", job="run-1", limits=limits, padding="graph") as loader:
        for batch in loader:
            data = packhouse.pyg.to_batch(batch, padding=True)

Each structure has a node for each atom. With a `cutoff` it has an edge for each ordered pair of
neighbours, images of periodic cells included; without `keep_edges` only their number is stored, so
that limits bound nodes and edges together while the edges are made on the device:
`batch.rows["edges"]` rows hold them all. Needs ase (`pip install 'packhouse[atoms]'`), and takes
matscipy for neighbours if it is there.
"""

from __future__ import annotations

import os
from typing import Any, Collection, Iterable, Iterator, Sequence

from packhouse.client.facade import Client
from packhouse.data.graphs import GraphTable
from packhouse.files import atoms_files, frames, reading as files
from packhouse.files.atoms_files import Neighbours
from packhouse.files.frames import OnMalformed
from packhouse.frameworks.ingest import ingest_tables
from packhouse.stored.dataset import Dataset

__all__ = ["Neighbours", "OnMalformed", "ingest", "tables", "with_neighbours"]


def tables(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Iterable[Any],
    *,
    cutoff: float | None = None,
    max_neighbours: int = 0,
    keep_edges: bool = False,
    exclude: Collection[str] = (),
    on_malformed: OnMalformed | None = None,
    trust_pickle: bool = False,
) -> Iterator[GraphTable]:
    """Structures as tables of graphs, ids from 0, of which one is held at a time.

    `source` is a file or several, of any kind that `packhouse ingest` reads, or an
    iterable of `ase.Atoms`. What is stored: see `packhouse.files.atoms_files`; `exclude` names
    what is left out. `cutoff`, `max_neighbours`, `keep_edges`: see `with_neighbours`. A structure
    that cannot be read, or has other properties than most of the first ones, is told to
    `on_malformed` in a line that names file, place and reason, and is left out; without
    `on_malformed` it is a ValueError.
    """
    neighbours = None
    if cutoff is not None:
        neighbours = Neighbours(cutoff, max_neighbours, keep_edges)
    elif max_neighbours or keep_edges:
        raise ValueError("max_neighbours and keep_edges need a cutoff")
    if isinstance(source, (str, os.PathLike)):
        source = [source]
    given = list(source) if isinstance(source, (list, tuple)) else None
    if given and all(isinstance(each, (str, os.PathLike)) for each in given):
        return files.tables(
            given,
            trust_pickle=trust_pickle,
            exclude=exclude,
            on_malformed=on_malformed,
            neighbours=neighbours,
        )
    items = frames.numbered(
        source, lambda atoms, where: [atoms_files.frame_of(atoms, where)], "structure"
    )
    read = frames.tables([("atoms", items)], exclude=exclude, on_malformed=on_malformed)
    return read if neighbours is None else map(neighbours.add_to, read)


def ingest(
    client: Client,
    name: str,
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Iterable[Any],
    *,
    seal: bool = True,
    **options: Any,
) -> Dataset:
    """Stores structures under that name, and seals them. `options` and errors: those of `tables`.

    After a failure call it again with the same source: see
    `packhouse.frameworks.ingest.ingest_tables`.
    """
    return ingest_tables(client, name, tables(source, **options), seal=seal)


def with_neighbours(
    table: GraphTable, cutoff: float, *, max_neighbours: int = 0, keep_edges: bool = False
) -> GraphTable:
    """The graphs with a component `edges`: of each atom all others, and all images of periodic
    cells (its own too), within `cutoff`, or the nearest `max_neighbours` of them.

    The table has `pos` [3] for each of nodes, and may have `cell` [3, 3] and `pbc` [3] for each
    graph; without `pbc` a structure is periodic along the cell vectors that are not 0. With
    `keep_edges` there are `edge_index` (2, edges), from the neighbour to the atom, and
    `cell_offsets` [3]: the vector of an edge is `pos[source] + cell_offsets @ cell - pos[target]`.
    Distances are those of the stored positions, computed in 64 bits. Raises ValueError naming the
    graph, and ImportError without matscipy and ase. Cost: some 0.1 ms a small structure.
    """
    return Neighbours(cutoff, max_neighbours, keep_edges).add_to(table)

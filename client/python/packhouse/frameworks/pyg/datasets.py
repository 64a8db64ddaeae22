"""Data sets of PyTorch Geometric as tables of graphs. See `packhouse.pyg`."""

from __future__ import annotations

import copy
import itertools
from typing import Any, Collection, Final, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from packhouse.base.arguments import whole_number
from packhouse.client.facade import Client
from packhouse.data.graphs import GraphTable
from packhouse.data.schema import GraphSchema
from packhouse.frameworks.batch_sampler import BatchSampler
from packhouse.frameworks.ingest import PaddingValues, ingest_tables
from packhouse.frameworks.layout import EDGES, NODES
from packhouse.frameworks.pyg.batches import places_of
from packhouse.frameworks.pyg.columns import (
    Collated,
    Components,
    columns_of,
    component_of,
    counts_of,
    decide,
)
from packhouse.frameworks.pyg.joining import NUM_NODES, GraphChecks, has_own_rules, tells_num_nodes
from packhouse.stored.dataset import Dataset

DEFAULT_GRAPHS_PER_TABLE: Final = 1 << 16


def table(
    dataset: Any,
    *,
    exclude_keys: Collection[str] = (),
    components: Mapping[str, str] | None = None,
) -> GraphTable:
    """The graphs of a PyG data set, ids from 0 in its order.

    `dataset` is an `InMemoryDataset` (OGB's included), any other PyG `Dataset`, or an iterable of
    `Data` or `HeteroData`. Attributes become tensors along `nodes`, `edges` or `graphs` by the rows
    they have; one that has other numbers of rows gets a component of its own name. Where several
    fit, as a cell of three rows in molecules of three atoms, `components={"cell": "cell"}` says
    which. `edge_index`
    becomes an int32 index tensor, (2, edges) as it is (`Layout.ROWS_LAST`), as do other attributes
    to which PyG adds the number of nodes.
    Types of nodes and edges become components: `paper`, `author.writes.paper`, with tensors
    `paper.x`; an edge type's ends are its tensors `source` and `target`.

    A transform of the data set is applied, once: leave out those that are to differ from epoch to
    epoch. What a batch has equals what PyG's own has, or ValueError names attribute and graph: for
    what cannot be sent (text, sparse or nested tensors, lists) and is not one of `exclude_keys`;
    what some graphs have and others lack, or have with another type; what PyG joins or shifts
    otherwise than by the number of nodes (a class's own `__inc__` and `__cat_dim__` are asked for
    each graph); names that batches use themselves (`packhouse.frameworks.layout.RESERVED`); and where
    nothing says how many nodes a graph has. Cost: O(bytes), and some microseconds an attribute of
    each graph; no copy of an `InMemoryDataset` without a transform, where its types stay.
    """
    parts = list(
        tables(dataset, exclude_keys=exclude_keys, components=components, graphs_per_table=0)
    )
    return parts[0]


def tables(
    dataset: Any,
    *,
    exclude_keys: Collection[str] = (),
    components: Mapping[str, str] | None = None,
    graphs_per_table: int = DEFAULT_GRAPHS_PER_TABLE,
) -> Iterator[GraphTable]:
    """As `table`, in parts of so many graphs (0: all at once), of which one is held at a time.

    A list or tuple is looked at as a whole before the first part. Of others the first part decides
    the schema: a ValueError names the graph and the attribute of a later one that differs. Of no
    graphs there is no schema: ValueError.
    """
    from torch_geometric.data.data import BaseData

    if isinstance(dataset, BaseData):
        raise TypeError("dataset: it is one graph, not a data set: give a list, as [data]")
    schema: GraphSchema | None = None
    decided = Components(components)
    for collated in _parts(dataset, exclude_keys, decided, graphs_per_table):
        part = _table_of(collated, exclude_keys, decided, schema)
        if schema is not None and part.schema != schema:
            raise ValueError(_difference(schema, part.schema, collated.first_id))
        schema = part.schema
        yield part
    if schema is None:
        raise ValueError("the data set has no graph, so that its schema is not known")


def ingest(
    client: Client,
    name: str,
    dataset: Any,
    *,
    exclude_keys: Collection[str] = (),
    components: Mapping[str, str] | None = None,
    seal: bool = True,
    padding_values: PaddingValues | None = None,
    counts: Collection[str] = (),
) -> Dataset:
    """Stores a PyG data set under that name, and seals it. Errors: those of `table`;
    see `packhouse.frameworks.ingest.ingest_tables` for `padding_values` and `counts`, by the names of
    tensors that `table` gives, and for what a second call does."""
    parts = tables(dataset, exclude_keys=exclude_keys, components=components)
    return ingest_tables(
        client, name, parts, seal=seal, padding_values=padding_values, counts=counts
    )


def batch_sampler(
    address: str, dataset: Any, limits: Mapping[str, int], **options: Any
) -> BatchSampler:
    """Which graphs of the data set go together, for `DataLoader(dataset, batch_sampler=...)`.

    `limits` bound each batch by `nodes`, `edges` and `graphs`, or by the types of a heterogeneous
    data set as `table` calls them. Options: those of BatchSampler.
    """
    sizes, components = sizes_of(dataset)
    return BatchSampler(address, sizes, limits, components=components, **options)


def sizes_of(dataset: Any) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    """int64 [graphs, components], and the components: of the types of nodes and edges.

    Looks at nothing else, so that attributes which cannot be sent do not matter.
    """
    from torch_geometric.data import InMemoryDataset

    if isinstance(dataset, InMemoryDataset) and _is_joined(dataset):
        (collated,) = _parts(dataset, (), Components(), 0)
        counts = counts_of(collated)
        if list(counts) == [NODES]:
            counts[EDGES] = np.zeros_like(counts[NODES])
        table = np.stack(list(counts.values()), axis=1)
        return (table if collated.take is None else table[collated.take]), tuple(counts)
    components: tuple[str, ...] | None = None
    rows: list[list[int]] = []
    for number, data in enumerate(_each(dataset)):
        if hasattr(data, "node_types"):
            row = {component_of(store): store.num_nodes for store in data.node_stores}
            row.update({component_of(store): store.num_edges for store in data.edge_stores})
        else:
            row = {NODES: data.num_nodes, EDGES: data.num_edges}
        if components is None:
            components = tuple(row)
        if row.keys() != set(components):
            other = ", ".join(sorted(row.keys() ^ set(components)))
            raise ValueError(f"graph {number} and the first one do not both have {other}")
        if None in row.values() or not all(map(tells_num_nodes, data.node_stores)):
            raise ValueError(f"graph {number}: nothing says how many nodes it has: set num_nodes")
        # By name: each graph has an order of types of its own.
        rows.append(
            [whole_number(row[name], f"graph {number}: {name!r}") for name in components]
        )
    components = components or (NODES, EDGES)
    return np.array(rows, np.int64).reshape(len(rows), len(components)), components


def _table_of(
    collated: Collated,
    exclude_keys: Collection[str],
    components: Components,
    schema: GraphSchema | None,
) -> GraphTable:
    """In the order of `schema`, that of the parts before: each graph has an order of its own."""
    counts, columns = columns_of(collated, exclude_keys, components)
    if schema is None:
        try:
            schema = GraphSchema(tuple(counts), [spec for spec, _ in columns])
        except ValueError as error:
            raise ValueError(f"graph {collated.first_id}: {error}") from None
        _check_reads_back(schema, collated, exclude_keys)
    elif set(counts) == set(schema.components):
        order = {spec.name: position for position, spec in enumerate(schema.tensors)}
        columns.sort(key=lambda column: order.get(column[0].name, len(order)))
        counts = {component: counts[component] for component in schema.components}
        schema = GraphSchema(schema.components, [spec for spec, _ in columns])
    else:
        schema = GraphSchema(tuple(counts), [spec for spec, _ in columns])
    sizes = (
        np.stack(list(counts.values()), axis=1) if counts else np.zeros((collated.num_graphs, 0))
    )
    first_id = collated.first_id
    whole = GraphTable(
        schema, sizes, {spec.name: column for spec, column in columns}, first_id=first_id
    )
    if collated.take is None:
        return whole
    part = whole.take(collated.take)
    return GraphTable(schema, part.sizes, part.tensors, first_id=first_id)


def _check_reads_back(
    schema: GraphSchema, collated: Collated, exclude_keys: Collection[str]
) -> None:
    """Raises ValueError naming what would have another name or place in a batch."""
    types, attributes = places_of(schema)
    first = collated.first_id
    for store in collated.data.stores:
        if store._key not in types:
            raise ValueError(
                f"graph {first}: type {store._key!r}: a batch would not have it under this name: "
                "rename it"
            )
        for key in store.keys():
            if key not in exclude_keys and (store._key, key) not in attributes:
                raise ValueError(
                    f"graph {first}: attribute {key!r}"
                    + ("" if store._key is None else f" of {store._key!r}")
                    + ": a batch would not have it under this name: rename it, or name it in "
                    "exclude_keys"
                )


def _parts(
    dataset: Any, exclude_keys: Collection[str], components: Components, graphs_per_table: int
) -> Iterator[Collated]:
    """The data set as PyG joins graphs; see Collated."""
    from torch_geometric.data import Batch, InMemoryDataset
    from torch_geometric.data.collate import collate

    if isinstance(dataset, InMemoryDataset) and _is_joined(dataset):
        if not dataset.len():
            # It counts by slices, which numbers of nodes alone do not have.
            raise ValueError(
                "graph 0: PyG counts no graph in this data set, as none has a tensor of its own: "
                "give each one, or the graphs as a list"
            )
        take = None if dataset._indices is None else np.asarray(list(dataset.indices()), np.int64)
        yield Collated(dataset._data, dataset.slices, dataset.len(), take)
        return
    graphs = _each(dataset)
    checks = GraphChecks(exclude_keys)
    is_checked = isinstance(dataset, (list, tuple)) and 0 < graphs_per_table < len(dataset)
    if is_checked:
        checks.rows = {}
        for graph in dataset:
            checks.check(graph)
        shapes = _shapes_of(dataset[0], checks.rows, len(dataset))
        decide(shapes._replace(num_nodes=checks.num_nodes), exclude_keys, components)
        checks.rows = None
    first_id = 0
    while True:
        part = list(itertools.islice(graphs, graphs_per_table or None))
        if not part:
            return
        if not is_checked:
            for graph in part:
                checks.check(graph)
        data, slices, _ = collate(
            Batch,  # Which can also be made of a class whose own arguments are not known.
            part,
            increment=False,
            add_batch=False,
            exclude_keys=exclude_keys,
        )
        rules = checks.rules if has_own_rules(part[0]) else None
        stop = first_id + len(part)
        num_nodes = {
            key: counts[first_id:stop] if is_checked else counts
            for key, counts in checks.num_nodes.items()
        }
        yield Collated(data, slices, len(part), None, first_id, rules, num_nodes)
        first_id = stop
        if not is_checked:
            checks.num_nodes.clear()


def _shapes_of(first: Any, rows: Mapping[tuple[Any, str], list[int]], num_graphs: int) -> Collated:
    """Graphs joined as far as their numbers of rows go: with the values of the first."""
    data = copy.copy(first)
    slices: dict[Any, Any] = {}
    for store in data.stores:
        of_store = slices if store._key is None else slices.setdefault(store._key, {})
        for key in store.keys():
            counts = rows.get((store._key, key), [])
            of_store[key] = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
            if key == NUM_NODES:
                store._num_nodes = counts
    return Collated(data, slices, num_graphs)


def _is_joined(dataset: Any) -> bool:
    """Whether its graphs are there as they would be joined here."""
    if dataset.transform is not None or dataset.slices is None:
        return False
    if has_own_rules(dataset._data):
        return False
    return not any(
        NUM_NODES in store and not hasattr(store, "_num_nodes") for store in dataset._data.stores
    )


def _each(dataset: Any) -> Iterator[Any]:
    if hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__"):
        for position in range(len(dataset)):
            yield dataset[position]
        return
    yield from dataset


def _difference(schema: GraphSchema, other: GraphSchema, first_id: int) -> str:
    here = {spec.name: spec for spec in other.tensors}
    for spec in schema.tensors:
        if here.get(spec.name) != spec:
            return (
                f"attribute {spec.name!r}: the first graphs have it as {spec}, those from graph "
                f"{first_id} on as {here.get(spec.name)}"
            )
    return f"the graphs from {first_id} on have other attributes than the first: {list(here)}"

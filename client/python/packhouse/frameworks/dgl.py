"""Batches as DGL's graphs, graphs of DGL as tables, and a loader in the place of DGL's own.

See `packhouse.dgl`.
"""

from __future__ import annotations

import functools
import itertools
import os
from typing import Any, Collection, Final, Iterable, Iterator, Mapping, NamedTuple, Sequence

import numpy as np
import numpy.typing as npt

from packhouse.base.arguments import names_init_arguments, shows_arguments_of
from packhouse.client.facade import Client
from packhouse.data.batch import Batch, Padding, PaddingLike
from packhouse.data.graphs import Array, GraphTable, array_of
from packhouse.data.schema import GRAPHS, DType, GraphSchema, TensorSpec
from packhouse.frameworks.batch_sampler import BatchSampler
from packhouse.frameworks.ingest import PaddingValues, ingest_tables, sizes_by_name
from packhouse.frameworks.layout import (
    EDGES,
    NODES,
    Joined,
    Layout,
    check_not_reserved,
    contiguous_ends,
    named_as_rows,
    notes_of,
    put_mask,
)
from packhouse.frameworks.packed_loader import PackedLoader, length_of
from packhouse.frameworks.tensors import from_torch, of_array, to_torch
from packhouse.frameworks.torch.packed_loader import TorchPackedLoader
from packhouse.planning.tuning import DeviceProfile
from packhouse.stored.dataset import Dataset

DEFAULT_GRAPHS_PER_TABLE: Final = 1 << 14

# What DGL calls the only types of a homogeneous graph.
_DGL_NODES: Final = "_N"
_DGL_EDGES: Final = "_E"
_LABEL: Final = "label"
# Of a homogeneous graph.
_ENDS: Final = "edge_index"


class GraphBatch(NamedTuple):
    """A joined graph, and what belongs to whole graphs: by name, [graphs, ...]."""

    graph: Any
    data: dict[str, Any]


def to_batch(batch: Batch, *, padding: bool = False, index_dtype: str = "int64") -> GraphBatch:
    """The graph that `dgl.batch` makes of the graphs, and the tensors of whole graphs beside it.

    Features, `batch_num_nodes`, `batch_num_edges`; `dgl.unbatch` works. Homogeneous if the schema
    has no more than `nodes` and `edges`, else with its types. Index tensors among the features are
    int64; the graph's own indices are of `index_dtype`, int64 or int32. What was leased keeps
    `lease`, `loss_weight` and, where they are known, `loss_weights` as attributes of the graph. The rows that nodes and edges of a source
    graph were imported from (`SubGraphs(rows=True)`, parts of a partition) are `dgl.NID` and `dgl.EID`,
    as DGL's own sub-graphs have them.

    Without `padding` the padding rows are left out. With it shapes are fixed: the padding graphs
    are the last ones, the first of them holds all spare rows, and the masks `node_mask` (in ndata),
    `edge_mask` (in edata) and `graph_mask` (in `data`) are True for what is real. Raises ValueError
    if there is no graph to hold the padding (Padding.MASKED), for a tensor that is called as a mask,
    or for rows that are neither nodes nor edges; TypeError naming a tensor of a type that torch lacks.
    """
    import dgl
    import torch

    joined = Joined(batch, padded=padding)
    layout = joined.layout
    if layout.attributes:
        raise ValueError(f"DGL has no place for rows of {next(iter(layout.attributes))!r}")
    idtype = {"int64": torch.int64, "int32": torch.int32}[index_dtype]
    types = _types_of(layout)
    ends = {
        types[component]: tuple(
            map(of_array, contiguous_ends(*joined.ends(edges), np.dtype(index_dtype)))
        )
        for component, edges in layout.edge_sets.items()
    }
    if layout.is_homogeneous and NODES in layout.node_sets:
        edges = next(iter(ends.values()), None)
        none = torch.zeros(0, dtype=idtype)
        graph = dgl.graph(edges or (none, none), num_nodes=joined.rows(NODES), idtype=idtype)
    else:
        num_nodes = {types[name]: joined.rows(name) for name in layout.node_sets}
        graph = dgl.heterograph(ends, num_nodes, idtype=idtype)
    graph.set_batch_num_nodes(
        {types[name]: _counts(joined, name, idtype) for name in layout.node_sets}
    )
    num_edges = {types[name]: _counts(joined, name, idtype) for name in layout.edge_sets}
    for edge_type in graph.canonical_etypes:
        num_edges.setdefault(edge_type, torch.zeros(joined.num_graphs, dtype=idtype))
    graph.set_batch_num_edges(num_edges)
    for component, rows in layout.node_sets.items():
        frame = graph.nodes[types[component]].data
        for name, spec in rows.features.items():
            frame[named_as_rows(rows, name, dgl.NID)] = to_torch(joined.column(spec), spec)
        if padding:
            put_mask(frame, "node_mask", of_array(joined.mask(component)))
    for component, rows in layout.edge_sets.items():
        frame = graph.edges[types[component]].data
        for name, spec in rows.features.items():
            frame[named_as_rows(rows, name, dgl.EID)] = to_torch(joined.column(spec), spec)
        if padding:
            put_mask(frame, "edge_mask", of_array(joined.mask(component)))
    data = {
        name: to_torch(joined.column(spec), spec) for name, spec in layout.graphs.features.items()
    }
    if padding:
        put_mask(data, "graph_mask", of_array(joined.mask(GRAPHS)))
    for name, note in notes_of(batch).items():
        setattr(graph, name, note)
    return GraphBatch(graph, data)


def _types_of(layout: Layout) -> dict[str, Any]:
    """DGL's type of each component."""
    if layout.is_homogeneous:
        return {NODES: _DGL_NODES, EDGES: (_DGL_NODES, _DGL_EDGES, _DGL_NODES)}
    types: dict[str, Any] = {name: name for name in layout.node_sets}
    for component, edges in layout.edge_sets.items():
        types[component] = (edges.source, edges.relation, edges.target)
    return types


def _counts(joined: Joined, component: str, idtype: Any) -> Any:
    return of_array(joined.counts(component)).to(idtype)


def table(graphs: Iterable[Any]) -> GraphTable:
    """The graphs of a DGL data set, ids from 0 in its order.

    Each is a `DGLGraph` or a pair of one and its label: a tensor, a number, or a dict of those
    (ValueError for others, of which DGL's collator makes no tensor either);
    one that is no dict is called `label`. Features keep their names and types; in graphs of several
    types the types become components, as `user` and `user.likes.item`, with tensors `user.x`; an
    edge type's ends are its int32 tensors `source` and `target` (`#source` and `#target` if a feature
    has such a name), of homogeneous graphs they are `edge_index`. A name that nodes, edges or whole
    graphs have in common is called after its component, too: `nodes.x`, `edges.x`, `graphs.label`.
    Numbers become what GraphDataLoader makes of them: int64, bool, float64.

    Raises ValueError naming the graph and the feature, type or label that it or the first one lacks,
    or that has another type or shape of its rows than in the first one: nothing is promoted. Also
    naming what cannot be sent, and a name that batches use themselves
    (`packhouse.frameworks.layout.RESERVED`); for no graphs at all.
    """
    (whole,) = tables(graphs, graphs_per_table=0)
    return whole


def tables(
    graphs: Iterable[Any], *, graphs_per_table: int = DEFAULT_GRAPHS_PER_TABLE
) -> Iterator[GraphTable]:
    """As `table`, in parts of so many graphs (0: all at once), of which one is held at a time.

    A list or tuple is looked at as a whole before the first part.
    """
    if hasattr(graphs, "ntypes"):
        raise TypeError("graphs: it is one graph, not a data set: give a list, as [graph]")
    if isinstance(graphs, (list, tuple)):
        for _ in _alike(graphs):
            pass
    each = _alike(_each(graphs))
    first_id = 0
    while True:
        part = list(itertools.islice(each, graphs_per_table or None))
        if not part:
            break
        made = _table_of(part, first_id)
        first_id += len(made)
        yield made
    if not first_id:
        raise ValueError("the data set has no graph, so that its schema is not known")


def ingest(
    client: Client,
    name: str,
    graphs: Iterable[Any],
    *,
    seal: bool = True,
    padding_values: PaddingValues | None = None,
    counts: Collection[str] = (),
) -> Dataset:
    """Stores a DGL data set under that name, and seals it. Errors: those of `table`;
    see `packhouse.frameworks.ingest.ingest_tables` for `padding_values` and `counts`, by the names of
    tensors that `table` gives, and for what a second call does."""
    return ingest_tables(
        client, name, tables(graphs), seal=seal, padding_values=padding_values, counts=counts
    )


def batch_sampler(
    address: str, graphs: Iterable[Any], limits: Mapping[str, int], **options: Any
) -> BatchSampler:
    """Which graphs go together, for `GraphDataLoader(dataset, batch_sampler=...)`.

    `limits` bound `nodes`, `edges` and `graphs`, or the types as `table` calls them. Options: those
    of BatchSampler.
    """

    def rows() -> Iterator[dict[str, int]]:
        for item in _each(graphs):
            graph, _ = _graph_and_data(item)
            node_types, edge_types = _components_of(graph)
            counts = {component: graph.num_nodes(name) for name, component in node_types.items()}
            for name, component in edge_types.items():
                counts[component] = graph.num_edges(name)
            yield counts

    sizes, components = sizes_by_name(rows(), "graph")
    return BatchSampler(address, sizes, limits, components=components, **options)


def _each(graphs: Any) -> Iterator[Any]:
    if hasattr(graphs, "__getitem__") and hasattr(graphs, "__len__"):
        # As a data loader reads it: not every data set can be iterated over.
        return (graphs[position] for position in range(len(graphs)))
    return iter(graphs)


def _graph_and_data(item: Any) -> tuple[Any, dict[str, Any]]:
    if not isinstance(item, (tuple, list)):
        return item, {}
    if len(item) != 2:
        raise ValueError(f"an item of the data set has {len(item)} parts, not a graph and a label")
    graph, label = item
    labels = dict(label) if isinstance(label, Mapping) else {_LABEL: label}
    return graph, {name: _as_tensor(name, value) for name, value in labels.items()}


def _as_tensor(name: Any, value: Any) -> Any:
    """As DGL's collate function makes them of labels. Raises ValueError for what it makes no tensor.
    """
    import torch

    if not isinstance(value, (torch.Tensor, np.ndarray, np.generic, int, float)):
        raise ValueError(
            f"label {name!r}: a {type(value).__name__} is no tensor and no number, which cannot be "
            "sent"
        )
    if isinstance(value, np.ndarray):
        value = array_of(value, f"label {name!r}")
    return torch.as_tensor(value, dtype=torch.float64 if type(value) is float else None)


def _alike(items: Iterable[Any]) -> Iterator[Any]:
    """The items, each of which has what the first one has. Raises ValueError; see `table`."""
    first: dict[str, str] | None = None
    for number, item in enumerate(items):
        try:
            here = _described(*_graph_and_data(item))
        except ValueError as error:
            raise ValueError(f"graph {number}: {error}") from None
        if first is None:
            first = here
        if here != first:
            raise ValueError(_difference(first, here, number))
        yield item


def _described(graph: Any, data: Mapping[str, Any]) -> dict[str, str]:
    """Of each type, feature and label: what all graphs must have alike."""
    found: dict[str, str] = {}

    def add(whose: str, frame: Mapping[str, Any], rows: int) -> None:
        for name, tensor in frame.items():
            try:
                check_not_reserved(name)
                DType.of(str(tensor.dtype).rpartition(".")[2])
            except ValueError as error:
                raise ValueError(f"{whose} {name!r}: {error}") from None
            dtype = str(tensor.dtype).rpartition(".")[2]
            found[f"{whose} {name!r}"] = f"{dtype}, rows of the shape {list(tensor.shape[rows:])}"

    for name in graph.ntypes:
        of = "" if name == _DGL_NODES else f" of type {name!r}"
        found[f"nodes{of}"] = "type"
        add(f"nodes{of} with the feature", graph.nodes[name].data, 1)
    for key in graph.canonical_etypes:
        of = "" if key[1] == _DGL_EDGES else f" of type {key!r}"
        found[f"edges{of}"] = "type"
        add(f"edges{of} with the feature", graph.edges[key].data, 1)
    add("the label", data, 0)
    return found


def _difference(first: Mapping[str, str], other: Mapping[str, str], number: int) -> str:
    for what in first:
        if what not in other:
            return f"graph {number} lacks what graph 0 has: {what}"
    for what in other:
        if what not in first:
            return f"graph {number} has what graph 0 lacks: {what}"
    what = next(what for what in first if first[what] != other[what])
    return f"{what}: graph {number} has {other[what]}, graph 0 {first[what]}"


def _components_of(graph: Any) -> tuple[dict[str, str], dict[Any, str]]:
    """Our names of the graph's types of nodes and of edges."""
    if graph.ntypes == [_DGL_NODES] and graph.etypes == [_DGL_EDGES]:
        return {_DGL_NODES: NODES}, {graph.canonical_etypes[0]: EDGES}
    return (
        {name: name for name in graph.ntypes},
        {name: ".".join(name) for name in graph.canonical_etypes},
    )


class _Columns:
    """The tensors of a table, each by a name that is no other's.

    `names`: those of all frames; `is_plain`: the graphs have one type of nodes and one of edges.
    """

    def __init__(
        self, names: Sequence[str], components: Iterable[str], is_plain: bool, first_id: int
    ) -> None:
        self.specs: list[TensorSpec] = []
        self.columns: dict[str, Array] = {}
        # By component, the names that a batch has to have again.
        self.wanted: dict[str, list[str]] = {name: [] for name in components}
        self._names = names
        self._is_plain = is_plain
        self._first_id = first_id

    def add(self, name: str, tensor: Any, component: str) -> None:
        array, dtype = from_torch(tensor)
        self.wanted[component].append(name)
        # With the component before it, it comes back as it is, whatever its name.
        is_shared = self._names.count(name) > 1 or name == _ENDS or name in self.columns
        is_alike = name.startswith(tuple(f"{each}." for each in self.wanted))
        if is_shared or is_alike or not (self._is_plain or component == GRAPHS):
            name = f"{component}.{name}"
        try:
            self.specs.append(TensorSpec(name, dtype, component, array.shape[1:]))
        except ValueError as error:
            raise ValueError(f"graph {self._first_id}: {error}: rename it") from None
        self.columns[name] = array


def _table_of(items: list[Any], first_id: int) -> GraphTable:
    import dgl
    import torch

    pairs = [_graph_and_data(item) for item in items]
    graph = dgl.batch([graph for graph, _ in pairs])
    node_types, edge_types = _components_of(graph)
    counts = {
        component: graph.batch_num_nodes(name).numpy().astype(np.int64)
        for name, component in node_types.items()
    }
    frames = [graph.nodes[name].data for name in node_types]
    frames += [graph.edges[key].data for key in edge_types]
    names = [*pairs[0][1], *(name for frame in frames for name in frame)]
    is_plain = node_types.get(_DGL_NODES) == NODES
    made = _Columns(names, (*counts, *edge_types.values(), GRAPHS), is_plain, first_id)
    specs, columns, add = made.specs, made.columns, made.add
    for node_type, component in node_types.items():
        for name, tensor in graph.nodes[node_type].data.items():
            add(name, tensor, component)
    for edge_type, component in edge_types.items():
        num_edges = graph.batch_num_edges(edge_type).numpy().astype(np.int64)
        into = node_types[edge_type[0]], node_types[edge_type[2]]
        ends = [
            end.numpy() - _starts(counts[nodes], num_edges)
            for end, nodes in zip(graph.edges(order="eid", etype=edge_type), into)
        ]
        counts[component] = num_edges
        if component == EDGES and is_plain and _ENDS not in graph.edges[edge_type].data:
            specs.append(TensorSpec(_ENDS, DType.INT32, EDGES, (2,), index_into=NODES))
            columns[_ENDS] = np.stack(ends, axis=1)
        else:
            taken = {"source", "target", _ENDS} & set(graph.edges[edge_type].data)
            mark = "#" if taken else ""
            for name, column, nodes in zip(("source", "target"), ends, into):
                name = f"{component}.{mark}{name}"
                specs.append(TensorSpec(name, DType.INT32, component, index_into=nodes))
                columns[name] = column
        for name, tensor in graph.edges[edge_type].data.items():
            add(name, tensor, component)
    for name in pairs[0][1]:
        add(name, torch.stack([data[name] for _, data in pairs]), GRAPHS)
    sizes = np.stack(list(counts.values()), axis=1)
    try:
        schema = GraphSchema(tuple(counts), specs)
        _check_reads_back(schema, made.wanted, edge_types)
    except ValueError as error:
        raise ValueError(f"graph {first_id}: {error}: rename it") from None
    return GraphTable(schema, sizes, columns, first_id=first_id)


def _check_reads_back(
    schema: GraphSchema, wanted: Mapping[str, list[str]], edge_types: Mapping[Any, str]
) -> None:
    """Raises ValueError naming a type or feature that a batch would not have under its name."""
    layout = Layout.of(schema)
    types = _types_of(layout)
    is_plain = list(edge_types.values()) == [EDGES]
    kinds: dict[str, Any] = {name: name for name in wanted}
    kinds.update((component, edge_type) for edge_type, component in edge_types.items())
    for component, names in wanted.items():
        kind = kinds[component]
        rows = {**layout.node_sets, **layout.edge_sets, GRAPHS: layout.graphs}.get(component)
        is_same = component == GRAPHS or is_plain or types.get(component) == kind
        if rows is None or not is_same or layout.is_homogeneous != is_plain:
            raise ValueError(f"a batch would not have the type {kind!r} under its name")
        for name in names:
            if name not in rows.features:
                raise ValueError(f"a batch would not have the feature {name!r} under its name")


def _starts(
    num_nodes: npt.NDArray[np.int64], num_edges: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """int64 [edges]: the first node of the graph each edge is in."""
    return np.repeat(np.cumsum(num_nodes) - num_nodes, num_edges)


@names_init_arguments
class GraphDataLoader(TorchPackedLoader):
    """In the place of `dgl.dataloading.GraphDataLoader`: batches are joined graphs of DGL's.

        loader = packhouse.dgl.GraphDataLoader(dataset, shuffle=True, limits={"nodes": 1024})
        for graph, labels in loader:
            train(graph, labels)

    All else is as with `packhouse.pyg.DataLoader`.
    """

    @shows_arguments_of(TorchPackedLoader.__init__, PackedLoader.__init__)
    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = None,
        shuffle: bool = False,
        *,
        limits: Mapping[str, int] | None = None,
        device: DeviceProfile | str | os.PathLike[str] | None = None,
        padding: PaddingLike = Padding.NONE,
        **options: Any,
    ) -> None:
        """`dataset` has graphs, or pairs of a graph and its label; or is, with an `address`, the name
        of a data set that the server has.

        A batch is what DGL's own is: a joined graph, or that and the labels, as one tensor or by
        name. With padding, or of a name, it is a `packhouse.dgl.GraphBatch`. Other options: see
        `packhouse.pyg.DataLoader`.
        """
        self.dataset = dataset
        is_padded = Padding.of(padding, "padding") is not Padding.NONE
        first = None
        source: Any = dataset
        if not isinstance(dataset, str):
            if length_of(dataset) == 0:
                raise ValueError("dataset: there is no graph")
            if type(dataset).__name__ == "DGLGraph":
                raise TypeError("dataset: it is one graph, not a data set: give a list, as [graph]")
            source = functools.partial(tables, dataset)
            first = dataset[0] if hasattr(dataset, "__getitem__") else None
        make = functools.partial(_joined, padding=is_padded, form=_form_of(first, is_padded))
        super().__init__(
            source, make, batch_size=batch_size, shuffle=shuffle, limits=limits, device=device,
            padding=padding, num_graphs=length_of(dataset), **options,
        )  # fmt: skip


def _form_of(item: Any, is_padded: bool) -> str:
    """What DGL makes of such items: a `graph`, a `pair`, or a pair with labels by `name`."""
    if item is None or is_padded:
        return ""
    if not isinstance(item, (tuple, list)):
        return "graph"
    return "name" if isinstance(item[1], Mapping) else "pair"


def _joined(batch: Batch, padding: bool, form: str) -> Any:
    made = to_batch(batch, padding=padding)
    if form == "graph":
        return made.graph
    if form == "pair":
        (label,) = made.data.values()
        return made.graph, label
    return (made.graph, made.data) if form else made

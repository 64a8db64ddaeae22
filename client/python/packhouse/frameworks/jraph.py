"""Batches as jraph's `GraphsTuple`, graphs of jraph as tables, and epochs. See `packhouse.jraph`."""

from __future__ import annotations

import functools
import os
from typing import Any, Collection, Final, Iterable, Iterator, Mapping, NamedTuple

import numpy as np
import numpy.typing as npt

from packhouse.base.arguments import shows_arguments_of
from packhouse.client.facade import Client
from packhouse.data.batch import Batch, Padding, PaddingLike
from packhouse.data.graphs import Array, GraphTable, array_of
from packhouse.data.schema import GRAPHS, DType, GraphSchema, TensorSpec
from packhouse.frameworks.batch_sampler import BatchSampler
from packhouse.frameworks.ingest import PaddingValues, ingest_tables, joined_tables
from packhouse.frameworks.layout import EDGES, NODES, Joined, RowSet
from packhouse.frameworks.packed_loader import PackedLoader, length_of
from packhouse.planning.tuning import DeviceProfile
from packhouse.stored.dataset import Dataset

_GLOBALS: Final = "globals"
_ENDS: Final = ("senders", "receivers")
# As keys of features they would come back as an array, or as the ends of edges.
_TAKEN: Final = frozenset((NODES, EDGES, _GLOBALS, *_ENDS))
DEFAULT_GRAPHS_PER_TABLE: Final = 1 << 12


def to_graphs_tuple(
    batch: Batch,
    *,
    padding: bool = True,
    nodes: str | None = None,
    edges: str | None = None,
    globals: str | None = None,
    device: Any = None,
) -> Any:
    """The `jraph.GraphsTuple` of the graphs: what `pad_with_graphs(batch(graphs), ...)` makes.

    Arrays are numpy's, views of the batch: `jit` moves them to the device; with `device` they are
    put there now. `n_node`, `n_edge`, `senders`, `receivers` are int32 always, whatever numpy's
    version makes of them in jraph. A batch of Padding.GRAPH has a fixed shape: one padding graph
    with all spare nodes and edges, then empty ones; `padding=False` gives what `jraph.batch` makes.

    `nodes`, `edges` and `globals` are None without tensors, the array itself if that is called
    `nodes`, `edges`, `globals`, otherwise a dict by name; `nodes="x"` takes that tensor alone, as
    an array. Raises ValueError for several kinds of nodes or edges, for rows that are neither, and
    if there is no graph to hold the padding (Padding.MASKED); KeyError for a name that is not
    there.
    """
    joined = Joined(batch, padded=padding)
    layout = joined.layout
    node_set, edge_set = layout.one_kind("jraph")
    if layout.attributes:
        raise ValueError(f"jraph has no place for rows of {next(iter(layout.attributes))!r}")
    none = np.zeros(0, np.int32)
    senders, receivers = (none, none) if edge_set is None else joined.ends(edge_set)
    result = _graphs_tuple()(
        nodes=_features(joined, node_set, NODES, nodes),
        edges=_features(joined, edge_set, EDGES, edges),
        globals=_features(joined, layout.graphs, _GLOBALS, globals),
        senders=senders.astype(np.int32, copy=False),
        receivers=receivers.astype(np.int32, copy=False),
        n_node=_counts(joined, node_set),
        n_edge=_counts(joined, edge_set),
    )
    if device is None:
        return result
    import jax

    return jax.device_put(result, device)


@functools.lru_cache(maxsize=None)
def _graphs_tuple() -> Any:
    """The class; an import statement for each batch takes longer."""
    import jraph

    return jraph.GraphsTuple


class Masks(NamedTuple):
    """bool arrays, True for what is real: [nodes], [edges], [graphs]."""

    nodes: npt.NDArray[np.bool_]
    edges: npt.NDArray[np.bool_]
    graphs: npt.NDArray[np.bool_]


def masks(batch: Batch) -> Masks:
    """Those of `jraph.get_node_padding_mask` and its like, without looking at the graph."""
    joined = Joined(batch, padded=True)
    node_set, edge_set = joined.layout.one_kind("jraph")
    none = np.zeros(0, np.bool_)
    return Masks(
        none if node_set is None else joined.mask(node_set.component),
        none if edge_set is None else joined.mask(edge_set.component),
        joined.mask(GRAPHS),
    )


def masked_mean_and_variance(x: Any, mask: Any) -> tuple[Any, Any]:
    """Of the real rows of x [rows, channels], as BatchNorm wants them; can be jitted.

    The variance is the biased one. 0 and 0 if no row is real.
    """
    import jax.numpy as jnp

    weight = mask[:, None].astype(x.dtype)
    count = jnp.maximum(weight.sum(), 1)
    mean = (x * weight).sum(axis=0) / count
    variance = (jnp.square(x - mean) * weight).sum(axis=0) / count
    return mean, variance


def _features(joined: Joined, rows: RowSet | None, field: str, chosen: str | None) -> Any:
    specs: Mapping[str, TensorSpec] = {} if rows is None else rows.features
    if chosen is not None:
        if chosen not in specs:
            raise KeyError(f"{field}={chosen!r}: the tensors there are {list(specs)}")
        return _column(joined, specs[chosen])
    if list(specs) == [field]:
        return _column(joined, specs[field])
    return {name: _column(joined, spec) for name, spec in specs.items()} or None


def _column(joined: Joined, spec: TensorSpec) -> Array:
    column = joined.column(spec)
    if spec.dtype is DType.BFLOAT16:
        import ml_dtypes

        return column.view(ml_dtypes.bfloat16)
    return column


def _counts(joined: Joined, rows: RowSet | None) -> npt.NDArray[np.int32]:
    if rows is None:
        return np.zeros(joined.num_graphs, np.int32)
    return joined.counts(rows.component).astype(np.int32)


def table(graphs: Iterable[Any], *, first_id: int = 0) -> GraphTable:
    """The graphs of some `jraph.GraphsTuple`s, of one graph or of several each, in their order.

    Features are arrays or dicts of arrays, whose keys become the tensors' names, in their order; an
    array is called `nodes`, `edges` or `globals`. A key that several of these have is called after
    its component, too: `nodes.f`, `edges.f`, `graphs.f`. Padding graphs are graphs: unpad first.

    Raises ValueError for no graph at all, for deeper nests, for a key that would come back as
    something else (`nodes` of the nodes' dict, `senders`), and naming the GraphsTuple and the
    feature for graphs that differ in a feature, its type or the shape of its rows: nothing is
    promoted.
    """
    _check_are_several(graphs)
    (whole,) = joined_tables(graphs, _Part, "GraphsTuple", 0, first_id)
    return whole


def tables(
    graphs: Iterable[Any], *, tuples_per_table: int = DEFAULT_GRAPHS_PER_TABLE
) -> Iterator[GraphTable]:
    """As `table`, in parts of so many GraphsTuples, of which one is held at a time."""
    _check_are_several(graphs)
    return joined_tables(graphs, _Part, "GraphsTuple", tuples_per_table)


def ingest(
    client: Client,
    name: str,
    graphs: Iterable[Any],
    *,
    seal: bool = True,
    padding_values: PaddingValues | None = None,
    counts: Collection[str] = (),
) -> Dataset:
    """Stores the graphs under that name, and seals the data set. Errors: those of `table`;
    see `packhouse.frameworks.ingest.ingest_tables` for `padding_values` and `counts`, by the names of
    tensors that `table` gives, and for what a second call does."""
    return ingest_tables(
        client, name, tables(graphs), seal=seal, padding_values=padding_values, counts=counts
    )


def batch_sampler(
    address: str, graphs: Iterable[Any], limits: Mapping[str, int], **options: Any
) -> BatchSampler:
    """Which of the graphs go together: lists of numbers, for `jraph.batch` of those graphs.

    Each GraphsTuple is one graph here. `limits` bound `nodes`, `edges`, `graphs`; with
    `padding=Padding.GRAPH` the batch then fits `pad_with_graphs` to these limits. Options: those of
    BatchSampler.
    """
    sizes = [
        tuple(int(_whole(getattr(graph, field), field).sum()) for field in ("n_node", "n_edge"))
        for graph in graphs
    ]
    return BatchSampler(address, np.array(sizes).reshape(-1, 2), limits, **options)


def _check_are_several(graphs: Any) -> None:
    if hasattr(graphs, "n_node"):
        raise TypeError("graphs: it is one GraphsTuple, not several: give a list, as [graph]")


class _Part:
    """The schema, sizes and columns of a GraphsTuple, its indices within each graph."""

    def __init__(self, graph: Any) -> None:
        n_node = _whole(graph.n_node, "n_node")
        n_edge = _whole(graph.n_edge, "n_edge")
        rows = {NODES: int(n_node.sum()), EDGES: int(n_edge.sum()), GRAPHS: len(n_node)}
        found = [
            (name, array, component)
            for field, component in ((NODES, NODES), (EDGES, EDGES), (_GLOBALS, GRAPHS))
            for name, array in _leaves(getattr(graph, field), field)
        ]
        names = [name for name, _, _ in found]
        specs: list[TensorSpec] = []
        self.columns: dict[str, Array] = {}
        for name, array, component in found:
            if not array.ndim or len(array) != rows[component]:
                raise ValueError(
                    f"{component}: {name!r} has the shape {array.shape}, and there are "
                    f"{rows[component]} {component}"
                )
            # With the component before it, it comes back as it is, whatever its name.
            if names.count(name) > 1 or name.startswith((f"{NODES}.", f"{EDGES}.", f"{GRAPHS}.")):
                name = f"{component}.{name}"
            try:
                dtype = DType.BFLOAT16 if array.dtype.name == "bfloat16" else DType.of(array.dtype)
            except ValueError as error:
                raise ValueError(f"{component}: {name!r}: {error}") from None
            specs.append(TensorSpec(name, dtype, component, array.shape[1:]))
            self.columns[name] = array.view("<u2") if dtype is DType.BFLOAT16 else array
        starts = np.repeat(np.cumsum(n_node) - n_node, n_edge)
        for name in _ENDS:
            specs.append(TensorSpec(name, DType.INT32, EDGES, index_into=NODES))
            ends = getattr(graph, name)
            found_ends = _whole([] if ends is None else ends, name)
            if len(found_ends) != rows[EDGES]:
                raise ValueError(
                    f"{name!r}: there are {len(found_ends)}, and n_edge tells of {rows[EDGES]} edges"
                )
            self.columns[name] = found_ends - starts
        self.schema = GraphSchema((NODES, EDGES), specs)
        self.sizes: Array = np.stack([n_node, n_edge], axis=1)


def _whole(values: Any, field: str) -> npt.NDArray[np.int64]:
    """int64 [n]. Raises ValueError for what has a fraction or another shape: never rounded."""
    array = array_of(values, repr(field))
    if array.size and array.dtype.kind not in "iu":
        raise ValueError(f"{field!r}: {array.dtype} are no whole numbers")
    if array.ndim != 1:
        raise ValueError(f"{field!r} has the shape {array.shape}, not (n,)")
    return array.astype(np.int64, copy=False)


def _leaves(features: Any, field: str) -> Iterator[tuple[str, Array]]:
    if features is None:
        return
    if not isinstance(features, Mapping):
        yield field, array_of(features, repr(field))
        return
    if not features:
        raise ValueError(f"{field!r}: an empty dict would come back as None: give None")
    # In the order in which jax has a dict's leaves, whatever that of this dict is.
    for name in features:
        if not isinstance(name, str):
            raise ValueError(f"{field}: the key {name!r} is no text")
    for name, value in sorted(features.items()):
        if value is None:
            raise ValueError(f"{field}: {name!r} is None, which cannot be sent")
        if isinstance(value, (Mapping, tuple, list)):
            raise ValueError(
                f"{field}: {name!r} is a nest; only arrays and dicts of them can be sent"
            )
        if name in _TAKEN:
            raise ValueError(
                f"{field}: a feature cannot be called {name!r}, nor one of {sorted(_TAKEN)}, which "
                "are parts of a GraphsTuple: rename it"
            )
        yield name, array_of(value, f"{field}: {name!r}")


class Batches(PackedLoader):
    """Epochs of `GraphsTuple`s; what `batches` gives."""


@shows_arguments_of(PackedLoader.__init__)
def batches(
    graphs: Iterable[Any] | str,
    batch_size: int | None = None,
    shuffle: bool = False,
    *,
    limits: Mapping[str, int] | None = None,
    device: DeviceProfile | str | os.PathLike[str] | None = None,
    padding: PaddingLike | None = None,
    **options: Any,
) -> Batches:
    """Epochs of these graphs, joined: each pass is one, with each graph in it once.

        limits = {"nodes": 1024, "edges": 2304, "graphs": 48}
        loader = packhouse.jraph.batches(graphs, shuffle=True, limits=limits)
        for epoch in range(10):
            for graph in loader:
                state = step(state, graph)          # Compiled once.

    `graphs` are `GraphsTuple`s, each of one graph or several; or, with an `address`, the name of a
    data set that the server has. With `limits` or a `device` graphs are packed, and padded as
    `pad_with_graphs` does unless `padding` says otherwise; with `batch_size` a batch is what
    `jraph.batch` makes of so many. Other options, and how the graphs come to the server: see
    `packhouse.pyg.DataLoader`; there are no worker processes.
    """
    is_packed = limits is not None or device is not None
    if padding is None:
        padding = Padding.GRAPH if is_packed else Padding.NONE
    is_padded = Padding.of(padding, "padding") is not Padding.NONE
    source: Any = graphs
    if not isinstance(graphs, str):
        if hasattr(graphs, "n_node"):
            raise TypeError("graphs: it is one GraphsTuple, not several: give a list, as [graph]")
        if length_of(graphs) == 0:
            raise ValueError("graphs: there is no graph")
        held = graphs if length_of(graphs) is not None else list(graphs)
        source = functools.partial(tables, held)
    return Batches(
        source,
        functools.partial(to_graphs_tuple, padding=is_padded),
        batch_size=batch_size,
        shuffle=shuffle,
        limits=limits,
        device=device,
        padding=padding,
        **options,
    )

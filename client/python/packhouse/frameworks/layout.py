"""Which tensor of a schema is what to a graph framework: the one table behind all dialects.

The roles follow from names:

- An *edge set* is a component with two ends: one index tensor `edge_index` of row shape (2,), or
  two index tensors `source` and `target` (or `senders`, `receivers`; `src`, `dst`; `row`, `col`;
  `#source`, `#target`).
- An *attribute's own component* has one tensor, of the component's own name, and no edge ends in
  it: rows that are neither nodes nor edges, as the triangles of a mesh. It belongs to the set with
  whose name and a dot it begins, otherwise to the whole graph.
- `edges` without any tensor is *counted*: each graph has a number of edges, which the device makes.
- A component without any tensor, called as a mask that has a bool for each row of another component,
  is the *count* of what is true in the mask: no rows of a graph (`GraphTable.with_counts`).
- Every other component is a *node set*.
- `graphs` has what belongs to whole graphs.

A tensor `COMPONENT.FEATURE` along COMPONENT is called FEATURE within it; other names stay whole. A
component `SOURCE.RELATION.TARGET`, whose ends are in SOURCE and TARGET, has the relation RELATION;
of others the name is the relation. A schema is *homogeneous* if it has at most the node set `nodes`
and the edge set `edges`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from packhouse.data.batch import Batch
from packhouse.data.graphs import Array
from packhouse.data.reading import repeated_numbers
from packhouse.data.schema import GRAPHS, DType, GraphSchema, Layout as TensorLayout, TensorSpec
from packhouse.epochs.batches import LoadedBatch, MicroBatch

NODES: Final = "nodes"
EDGES: Final = "edges"

# How many edges each graph has, where they are counted and made on the device.
EDGE_COUNTS: Final = "edge_counts"

# The feature of nodes and edges of a source graph that has the rows they were imported from.
ROWS: Final = "#row"

# What dialects put into batches themselves: no attribute of a user's may be called so.
RESERVED: Final = frozenset(
    {
        "lease",
        "loss_weight",
        "loss_weights",
        "node_mask",
        "edge_mask",
        "graph_mask",
        NODES,
        EDGES,
        GRAPHS,
        ROWS,
    }
)


def check_not_reserved(name: str) -> None:
    """Raises ValueError for a name that dialects use themselves."""
    if name in RESERVED:
        raise ValueError(
            f"attribute {name!r}: batches have something else of this name; reserved are "
            f"{', '.join(sorted(RESERVED))}: rename it, or leave it out"
        )


def notes_of(batch: Batch) -> dict[str, Any]:
    """What a batch that was loaded, or a part of one, says of itself beside its tensors, by name."""
    if isinstance(batch, MicroBatch):
        return {"loss_weight": batch.loss_weight, "loss_weights": batch.loss_weights}
    if not isinstance(batch, LoadedBatch):
        return {}
    notes: dict[str, Any] = {"lease": batch.lease, "loss_weight": batch.loss_weight}
    if batch.epoch_rows is not None:
        notes["loss_weights"] = batch.loss_weights
    return notes


def put_mask(columns: Any, name: str, mask: Any) -> None:
    """Adds it to a dict of a batch. Raises ValueError if the data set has a tensor of that name."""
    if name in columns:
        raise ValueError(
            f"the data set has a tensor {name!r}, as the mask of real rows is to be called: store it "
            "under another name, or ask for a batch without padding"
        )
    columns[name] = mask


_JOINED_ENDS: Final = "edge_index"
_PAIRED_ENDS: Final = (
    ("source", "target"),
    ("senders", "receivers"),
    ("src", "dst"),
    ("row", "col"),
    ("#source", "#target"),
)


@dataclasses.dataclass(frozen=True)
class Ends:
    """Where the edges of a set begin and end: one tensor of row shape (2,), or two tensors."""

    source: TensorSpec
    target: TensorSpec

    @property
    def are_joined(self) -> bool:
        """Whether it is one tensor."""
        return self.source is self.target

    def of(self, columns: Mapping[str, Array]) -> tuple[Array, Array]:
        """[rows] of source and of target, as views of those columns."""
        if self.are_joined:
            joined = columns[self.source.name]
            if not self.source.rows_axis:
                joined = joined.T
            return joined[0], joined[1]
        return columns[self.source.name], columns[self.target.name]


@dataclasses.dataclass(frozen=True)
class RowSet:
    """A component and its features by name, in the schema's order, without the ends of edges."""

    component: str
    features: Mapping[str, TensorSpec]


@dataclasses.dataclass(frozen=True)
class EdgeSet(RowSet):
    """Edges from the component `source` to the component `target`."""

    source: str
    target: str
    relation: str
    ends: Ends


@dataclasses.dataclass(frozen=True)
class Attribute:
    """A tensor with a component of its own; it belongs to `owner`, a set or `graphs`."""

    spec: TensorSpec
    owner: str
    name: str


@dataclasses.dataclass(frozen=True)
class Layout:
    """The roles of a schema's components and tensors; all by component."""

    schema: GraphSchema
    node_sets: Mapping[str, RowSet]
    edge_sets: Mapping[str, EdgeSet]
    attributes: Mapping[str, Attribute]
    graphs: RowSet
    # Whether graphs tell how many edges they have, and not which.
    counts_edges: bool = False
    # What a dialect works out once for all batches of the schema, by its name.
    plans: dict[str, Any] = dataclasses.field(default_factory=dict, compare=False, repr=False)

    @staticmethod
    def of(schema: GraphSchema) -> Layout:
        """Reads the roles off the names. Cost: O(tensors), once for each of the latest schemas."""
        # By identity: the batches of a stream share their schema, and hashing one takes longer.
        kept = _KEPT.get(id(schema))
        if kept is not None and kept.schema is schema:
            return kept
        layout = _read(schema)
        if len(_KEPT) >= _MAX_KEPT:
            _KEPT.clear()
        _KEPT[id(schema)] = layout
        return layout

    @property
    def is_homogeneous(self) -> bool:
        """Whether there is at most one kind of nodes and of edges, called so."""
        return set(self.node_sets) <= {NODES} and set(self.edge_sets) <= {EDGES}

    def one_kind(self, framework: str) -> tuple[RowSet | None, EdgeSet | None]:
        """The node set and the edge set, where there is at most one of each.

        Raises ValueError naming the sets and the framework that takes no more.
        """
        if len(self.node_sets) > 1 or len(self.edge_sets) > 1:
            raise ValueError(
                f"{framework} has one kind of nodes and edges; the schema has the node sets "
                f"{list(self.node_sets)} and the edge sets {list(self.edge_sets)}"
            )
        return next(iter(self.node_sets.values()), None), next(iter(self.edge_sets.values()), None)


_MAX_KEPT: Final = 64
_KEPT: dict[int, Layout] = {}


def feature_name(spec: TensorSpec) -> str:
    """What the tensor is called within its component."""
    prefix = spec.component + "."
    return spec.name[len(prefix) :] if spec.name.startswith(prefix) else spec.name


def named_as_rows(rows: RowSet, name: str, others_name: str) -> str:
    """What a framework calls the feature `name`: `others_name` for imported rows, or else `name`.

    Rows of pieces of a graph, which are no int64, keep their name, and so do rows beside a feature of
    the other name.
    """
    is_rows = name == ROWS and rows.features[name].dtype is DType.INT64
    return others_name if is_rows and others_name not in rows.features else name


def is_count(schema: GraphSchema, component: str) -> bool:
    """Whether a component along which nothing grows is called as a mask, whose true rows it counts."""
    return any(spec.name == component and spec.is_mask for spec in schema.tensors)


def _read(schema: GraphSchema) -> Layout:
    of_component: dict[str, dict[str, TensorSpec]] = {name: {} for name in schema.all_components}
    for spec in schema.tensors:
        features = of_component[spec.component]
        name = feature_name(spec)
        if name in features:
            raise ValueError(f"tensors {features[name].name!r} and {spec.name!r} have one meaning")
        features[name] = spec
    edge_sets: dict[str, EdgeSet] = {}
    for component in schema.components:
        ends = _ends_of(of_component[component])
        if ends is not None:
            edge_sets[component] = _edge_set(component, of_component[component], ends)
    touched = {NODES}.union(*({edges.source, edges.target} for edges in edge_sets.values()))
    node_sets: dict[str, RowSet] = {}
    own: list[TensorSpec] = []
    counts_edges = False
    for component in schema.components:
        if component in edge_sets:
            continue
        features = of_component[component]
        names = [spec.name for spec in features.values()]
        if component not in touched and names == [component]:
            own.append(features[component])
        elif component == EDGES and not names and component not in touched:
            counts_edges = True
        elif not names and component not in touched and is_count(schema, component):
            continue
        else:
            node_sets[component] = RowSet(component, features)
    sets = (*node_sets, *edge_sets)
    attributes = {spec.component: _attribute(spec, sets) for spec in own}
    graphs = RowSet(GRAPHS, of_component[GRAPHS])
    return Layout(schema, node_sets, edge_sets, attributes, graphs, counts_edges)


def _attribute(spec: TensorSpec, sets: Sequence[str]) -> Attribute:
    owners = [name for name in sets if spec.name.startswith(name + ".")]
    owner = max(owners, key=len, default=GRAPHS)
    name = spec.name if owner == GRAPHS else spec.name[len(owner) + 1 :]
    return Attribute(spec, owner, name)


def _ends_of(features: Mapping[str, TensorSpec]) -> Ends | None:
    joined = features.get(_JOINED_ENDS)
    if joined is not None and joined.index_into is not None and joined.row_shape == (2,):
        return Ends(joined, joined)
    for names in _PAIRED_ENDS:
        pair = [features.get(name) for name in names]
        source, target = pair
        if source is None or target is None or source.row_shape or target.row_shape:
            continue
        if source.index_into not in (None, GRAPHS) and target.index_into not in (None, GRAPHS):
            return Ends(source, target)
    return None


def _edge_set(component: str, features: Mapping[str, TensorSpec], ends: Ends) -> EdgeSet:
    source, target = str(ends.source.index_into), str(ends.target.index_into)
    relation = component
    before, after = f"{source}.", f".{target}"
    if component.startswith(before) and component.endswith(after):
        relation = component[len(before) : -len(after)] or component
    others = {
        name: spec
        for name, spec in features.items()
        if spec is not ends.source and spec is not ends.target
    }
    return EdgeSet(component, others, source, target, relation, ends)


class Extents:
    """How many rows each graph of a joined batch has. Holds no tensor."""

    def __init__(self, batch: Batch, *, padded: bool) -> None:
        """See Joined."""
        sizes = batch.sizes
        # A view would keep the received message.
        self._sizes = sizes if sizes.flags.writeable else sizes.copy()
        self._components = batch.schema.components
        self._rows = batch.rows if padded else batch.real_rows
        self._real_rows = batch.real_rows
        self.num_real = len(sizes)
        self.num_graphs = batch.rows[GRAPHS] if padded else self.num_real
        self._counts: dict[str, npt.NDArray[np.int64]] = {}
        self._offsets: dict[str, npt.NDArray[np.int64]] = {}
        if not padded:
            return
        for component in self._components:
            derived = batch.tensors.get(f"{component}/counts")
            if derived is not None and derived.sum() == self._rows[component]:
                self._counts[component] = derived.astype(np.int64)

    def counts(self, component: str) -> npt.NDArray[np.int64]:
        """int64 [num_graphs]: rows of each graph.

        All spare rows are the first padding graph's, unless a derived tensor tells how they are
        shared (`min_rows` gives each padding graph some).
        """
        counts = self._counts.get(component)
        if counts is None:
            if component == GRAPHS:
                counts = np.ones(self.num_graphs, np.int64)
            else:
                counts = np.zeros(self.num_graphs, np.int64)
                position = self._components.index(component)
                counts[: self.num_real] = self._sizes[:, position]
                if self.num_graphs > self.num_real:
                    counts[self.num_real] = self._rows[component] - self._real_rows[component]
            self._counts[component] = counts
        return counts

    def offsets(self, component: str) -> npt.NDArray[np.int64]:
        """int64 [num_graphs + 1]: each graph's first row, then the end; not to be written to."""
        offsets = self._offsets.get(component)
        if offsets is None:
            offsets = np.zeros(self.num_graphs + 1, np.int64)
            self.counts(component).cumsum(out=offsets[1:])
            self._offsets[component] = offsets
        return offsets


class Joined:
    """A batch's rows as one joined graph: only the real ones, or with those of padding.

    With padding, all spare rows belong to the first padding graph and the others are empty, as the
    server lays them out with Padding.GRAPH. Views of the batch wherever that is possible.
    """

    def __init__(self, batch: Batch, *, padded: bool) -> None:
        """Raises ValueError for a padded batch whose spare rows are in no graph.

        That is one of Padding.MASKED whose graphs are all real. Raises TypeError for what is no
        batch of packhouse's own, as those whose tensors are torch's.
        """
        if not isinstance(batch, Batch):
            raise TypeError(
                f"a {type(batch).__name__} is not packhouse's own batch: give the conversion to "
                "EpochDataset as `transform`, which comes before torch's tensors are made"
            )
        if not batch.tensors and batch.schema.tensors:
            raise ValueError("the batch has sizes only: ask for whole graphs")
        self.batch = batch
        self.layout = Layout.of(batch.schema)
        self.padded = padded
        self.extents = Extents(batch, padded=padded)
        self.num_real = self.extents.num_real
        self.num_graphs = self.extents.num_graphs
        if padded and self.num_graphs == self.num_real:
            for name, rows in batch.rows.items():
                if rows > batch.real_rows[name]:
                    raise ValueError(
                        f"batch {batch.id} has {rows - batch.real_rows[name]} spare rows of "
                        f"{name!r} and no padding graph to hold them: ask for padding=Padding.GRAPH"
                    )

    def rows(self, component: str) -> int:
        """Rows of a component."""
        return (self.batch.rows if self.padded else self.batch.real_rows)[component]

    def column(self, spec: TensorSpec) -> Array:
        """[rows, *row_shape], a view, whatever the layout."""
        column = self.batch.tensors[spec.name]
        if spec.rows_axis:
            column = np.moveaxis(column, spec.rows_axis, 0)
        return column if self.padded else column[: self.batch.real_rows[spec.component]]

    def ends(self, edges: EdgeSet) -> tuple[Array, Array]:
        """[rows] of source and target, views. Padding edges are where the server put them."""
        stop = self.rows(edges.component)
        source, target = edges.ends.of(self.batch.tensors)
        return source[:stop], target[:stop]

    def joined_ends(self, edges: EdgeSet, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """[2, rows] of that type, source first: a view if the batch has them so, else a copy."""
        spec = edges.ends.source
        if edges.ends.are_joined and spec.layout is TensorLayout.ROWS_LAST:
            stop = self.rows(edges.component)
            return self.batch.tensors[spec.name][:, :stop].astype(dtype, copy=False)
        return contiguous_ends(*self.ends(edges), dtype)

    def counts(self, component: str) -> npt.NDArray[np.int64]:
        """See Extents.counts."""
        return self.extents.counts(component)

    def offsets(self, component: str) -> npt.NDArray[np.int64]:
        """int64 [num_graphs + 1]: each graph's first row, then the end; not to be written to."""
        return self.extents.offsets(component)

    def graph_index(self, component: str) -> npt.NDArray[np.int64]:
        """int64 [rows]: the graph each row belongs to; from the derived tensor if there is one."""
        derived = self.batch.tensors.get(f"{component}/graph")
        if derived is not None:
            return derived[: self.rows(component)].astype(np.int64)
        return repeated_numbers(self.counts(component))

    def mask(self, component: str) -> npt.NDArray[np.bool_]:
        """bool [rows]: True for real rows, which come first."""
        real = self.batch.mask(component)
        return real if self.padded else real[: self.batch.real_rows[component]]


def contiguous_ends(source: Array, target: Array, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """[2, rows] of that type, a copy: source first."""
    joined = np.empty((2, len(source)), dtype)
    joined[0] = source
    joined[1] = target
    return joined

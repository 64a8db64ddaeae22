"""Batches as PyTorch Geometric's `Batch` objects. See `packhouse.pyg`."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Collection

import numpy as np

from packhouse.data.batch import Batch
from packhouse.data.schema import GRAPHS, GraphSchema, TensorSpec
from packhouse.frameworks.layout import (
    EDGE_COUNTS,
    EDGES,
    NODES,
    ROWS,
    Joined,
    Layout,
    feature_name,
    named_as_rows,
    notes_of,
    put_mask,
)
from packhouse.frameworks.pyg.joining import NUM_NODES, Item, Notes, tells_num_nodes
from packhouse.frameworks.tensors import of_array, to_torch


def to_batch(
    batch: Batch,
    *,
    padding: bool = False,
    data_class: type[Any] | None = None,
    follow_batch: Collection[str] = (),
) -> Any:
    """The `torch_geometric.data.Batch` of the graphs: what `Batch.from_data_list` makes of them.

    A batch of `Data`, or of `HeteroData` if there are several kinds of nodes or edges; every
    attribute, `batch`, `ptr`, `num_graphs`, and `to_data_list()`. Index tensors are int64;
    `edge_index` is (2, edges). Tensors share the batch's memory where that is writable. Nodes
    that PyG could not count by their features' names have `num_nodes`. What was leased has the
    attributes `lease`, `loss_weight` and, where they are known, `loss_weights`, which are no fields of
    the data, unless the data set has tensors of these names. The rows that nodes and edges of a source graph were imported from
    (`SubGraphs(rows=True)`, parts of a partition) are `n_id` and `e_id`, as NeighborLoader has them.

    Without `padding` the padding rows are left out: nothing to mask, shapes differ. With it, shapes
    are fixed: the padding graphs are the last of `num_graphs`, the first of them holds all spare
    rows; `node_mask`, `edge_mask` of their stores and `graph_mask` of the whole are True for what
    is real. Padding edges lead from the first padding node to itself, so that messages and pooling
    of real graphs are not touched; whatever takes a mean over all rows, as BatchNorm or the loss
    does, needs the masks: see MaskedBatchNorm.

    Where the edges of graphs are counted and not kept (see `packhouse.atoms`), `edge_counts` [graphs]
    says how many edges each has: with padding their sum is the padded shape.

    `data_class` is a subclass of `Data` or `HeteroData`, whose `__cat_dim__` is followed.
    Raises ValueError if padding was asked for and there is no graph to hold it (Padding.MASKED), or a
    tensor of the data set is called as a mask,
    TypeError naming a tensor of a type that torch lacks.
    """
    classes = _classes()
    joined = Joined(batch, padded=padding)
    layout = joined.layout
    plan = layout.plans.get("pyg")
    if plan is None:
        plan = layout.plans["pyg"] = _Plan(layout)
    out = _new_batch(data_class or (classes.Data if plan.is_plain else classes.HeteroData))
    writer = _Writer(out, joined, plan, follow_batch, data_class)
    writer.make_stores()
    for item in writer.items:
        writer.write(item)
    own = out._store if plan.is_plain else out._global_store
    for component in layout.node_sets:
        store = writer.store_of(component)
        is_told, has_batch = writer.known_nodes(component)
        if not is_told and not has_batch:
            writer.write_num_nodes(component)
            has_batch = True
        if has_batch:  # Which also tells how many nodes there are.
            columns = _columns_in(store)
            columns["batch"] = of_array(joined.graph_index(component))
            columns["ptr"] = of_array(joined.offsets(component).copy())
        if padding:
            put_mask(_columns_in(store), "node_mask", of_array(joined.mask(component)))
    if padding:
        for component in layout.edge_sets:
            columns = _columns_in(writer.store_of(component))
            put_mask(columns, "edge_mask", of_array(joined.mask(component)))
        put_mask(_columns_in(own), "graph_mask", of_array(joined.mask(GRAPHS)))
    if layout.counts_edges:
        put_mask(_columns_in(own), EDGE_COUNTS, of_array(joined.counts(EDGES)))
    notes = Notes(joined, plan.is_plain, plan.keys, plan.items)
    # Where `out._num_graphs = ...` would put them, after it has looked for properties.
    own.__dict__.update(
        _num_graphs=joined.num_graphs, _slice_dict=notes.slices(), _inc_dict=notes.incs()
    )
    # Kept beside the data: PyG would hand a field of the data to transforms and count it. What the data
    # set has under this name is not hidden by it.
    for name, note in notes_of(batch).items():
        if name not in _columns_in(own):
            out.__dict__[name] = note
    return out


def places_of(schema: GraphSchema) -> tuple[set[Any], set[tuple[Any, str]]]:
    """The keys of the stores of a batch of that schema, and the attributes with their store's."""
    plan = _Plan(Layout.of(schema))
    stores = {None} if plan.is_plain else set(plan.keys.values())
    return stores, {(item.store, item.name) for item in plan.items}


def _columns_in(store: Any) -> dict[str, Any]:
    """The columns of one of PyG's stores, to be filled.

    `store[name] = value` would look for what was cached of an earlier value, which takes longer
    than making the tensor.
    """
    columns: dict[str, Any] = store._mapping
    return columns


@functools.lru_cache(maxsize=None)
def _classes() -> Any:
    """PyG's module of them; an import statement for each batch takes longer."""
    import torch_geometric.data

    return torch_geometric.data


_BATCH_CLASSES: dict[type[Any], type[Any]] = {}


def _new_batch(data_class: type[Any]) -> Any:
    """`Batch(_base_cls=data_class)`; PyG looks at signatures for it, each time anew."""
    kept = _BATCH_CLASSES.get(data_class)
    if kept is None:
        made = _classes().Batch(_base_cls=data_class)
        if not _takes_nothing(data_class):
            return made
        _BATCH_CLASSES[data_class] = type(made)
        return made
    # Not by calling the class, which is what takes the time.
    out: Any = object.__new__(kept)
    out.__init__()
    return out


def _takes_nothing(data_class: type[Any]) -> bool:
    parameters = list(inspect.signature(data_class.__init__).parameters.values())[1:]
    return all(
        each.default is not each.empty or each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        for each in parameters
    )


class _Plan:
    """What is the same for all batches of a schema."""

    def __init__(self, layout: Layout) -> None:
        self.is_plain = layout.is_homogeneous
        self.keys = {} if self.is_plain else _store_keys(layout)
        self.items = _items(layout, self.keys, self.is_plain)
        # Of PyG's own classes: the axis along which an attribute grows, by store and name, and
        # whether a component's number of nodes can be told.
        self.known: dict[Any, Any] = {}


class _Writer:
    """Fills the stores of one PyG batch."""

    def __init__(
        self,
        out: Any,
        joined: Joined,
        plan: _Plan,
        follow_batch: Collection[str],
        data_class: type[Any] | None,
    ) -> None:
        """`data_class` is asked for each batch what it does with an attribute."""
        self._out = out
        self._joined = joined
        self._follow_batch = follow_batch
        self._plain = plan.is_plain
        self.keys = plan.keys
        self.items = plan.items
        # PyG's own answers depend on names alone; a user's class may give others each time.
        self._data_class = data_class
        self._known = None if data_class is not None else plan.known

    def make_stores(self) -> None:
        for key in self.keys.values():
            self._store(key)

    def store_of(self, component: str) -> Any:
        return self._store(None if self._plain else self.keys[component])

    def _store(self, key: Any) -> Any:
        if key is not None:
            return self._out[key]
        return self._out._store if self._plain else self._out._global_store

    def write(self, item: Item) -> None:
        if item.is_num_nodes:
            self.write_num_nodes(NODES if item.store is None else item.store)
            return
        store = self._store(item.store)
        columns = _columns_in(store)
        joined = self._joined
        if item.edges is not None:
            columns[item.name] = of_array(joined.joined_ends(item.edges, np.int64))
        else:
            value = to_torch(joined.column(item.spec), item.spec)
            cat_dim = self._cat_dim(item, value, store)
            if cat_dim and value.dim() > 1:
                value = value.movedim(0, cat_dim).contiguous()
            columns[item.name] = value
        if item.name in self._follow_batch:
            component = item.spec.component
            columns[f"{item.name}_batch"] = of_array(joined.graph_index(component))
            columns[f"{item.name}_ptr"] = of_array(joined.offsets(component).copy())

    def _cat_dim(self, item: Item, value: Any, store: Any) -> Any:
        if self._data_class is not None:
            # Not of the batch: PyG takes two classes of one name for one class.
            return self._data_class.__cat_dim__(self._out, item.name, value, store)
        assert self._known is not None
        key = (item.store, item.name)
        if key not in self._known:
            self._known[key] = self._out.__cat_dim__(item.name, value, store)
        return self._known[key]

    def known_nodes(self, component: str) -> tuple[bool, bool]:
        """Of a store that is filled: whether PyG knows how many nodes it has, without a guess from
        edges; and whether it gives it a `batch`, which is not the same.
        """
        found = None if self._known is None else self._known.get(component)
        if found is None:
            store = self.store_of(component)
            found = tells_num_nodes(store), bool(store.can_infer_num_nodes)
            if self._known is not None:
                self._known[component] = found
        return found

    def write_num_nodes(self, component: str) -> None:
        counts = self._joined.counts(component)
        store = self.store_of(component)
        store._num_nodes = counts.tolist()
        store.num_nodes = int(counts.sum())


def _store_keys(layout: Layout) -> dict[str, Any]:
    """PyG's key of each component's store, nodes first."""
    keys: dict[str, Any] = {GRAPHS: None}
    keys.update((component, component) for component in layout.node_sets)
    for component, edges in layout.edge_sets.items():
        keys[component] = (edges.source, edges.relation, edges.target)
    return keys


def _items(layout: Layout, keys: dict[str, Any], is_plain: bool) -> list[Item]:
    """All attributes in the schema's order, an edge set's ends where the first of them is."""
    items = []
    ends_written: set[str] = set()
    names = [_place(layout, spec) for spec in layout.schema.tensors]
    for spec, (owner, name) in zip(layout.schema.tensors, names):
        edges = layout.edge_sets.get(spec.component)
        if edges is not None and (spec is edges.ends.source or spec is edges.ends.target):
            if spec.component not in ends_written:
                ends_written.add(spec.component)
                items.append(Item(keys.get(spec.component), "edge_index", spec, edges))
        elif is_plain:
            is_unique = sum(other == name for _, other in names) == 1
            items.append(Item(None, name if is_unique else spec.name, spec, None))
        else:
            items.append(Item(keys[owner], name, spec, None))
    return items


def _place(layout: Layout, spec: TensorSpec) -> tuple[str, str]:
    """The component whose store a tensor is in, and its name there."""
    attribute = layout.attributes.get(spec.component)
    if attribute is not None:
        return attribute.owner, attribute.name
    if spec.component == GRAPHS and spec.name.endswith(f".{NUM_NODES}"):
        owner = spec.name[: -len(NUM_NODES) - 1]
        if owner in layout.node_sets:
            return owner, NUM_NODES
    name = feature_name(spec)
    if spec.component in layout.node_sets and name == ROWS:
        name = named_as_rows(layout.node_sets[spec.component], name, "n_id")
    elif spec.component in layout.edge_sets and name == ROWS:
        name = named_as_rows(layout.edge_sets[spec.component], name, "e_id")
    return spec.component, name

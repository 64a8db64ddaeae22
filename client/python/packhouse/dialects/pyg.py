"""Batches as PyTorch Geometric's `Batch` objects. See `packhouse.pyg`."""

from __future__ import annotations

import inspect
from typing import Any, Collection, NamedTuple

import numpy as np

from packhouse.batch import Batch
from packhouse.dialects.layout import (
    NODES,
    EdgeSet,
    Joined,
    Layout,
    feature_name,
)
from packhouse.dialects.tensors import of_array, to_torch
from packhouse.graphs import Array
from packhouse.schema import GRAPHS, TensorSpec

NUM_NODES = "num_nodes"


class _Item(NamedTuple):
    """An attribute of one of PyG's stores: a tensor, or the ends of a set's edges."""

    store: Any  # Its key: None, a node type, or the triple of an edge type.
    name: str
    spec: TensorSpec
    edges: EdgeSet | None


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
    without any feature have `num_nodes`, as PyG could not count them. What was leased has the
    attributes `lease` and `loss_weight`, which are no fields of the data.

    Without `padding` the padding rows are left out: nothing to mask, shapes differ. With it, shapes
    are fixed: the padding graphs are the last of `num_graphs`, the first of them holds all spare
    rows; `node_mask`, `edge_mask` of their stores and `graph_mask` of the whole are True for what
    is real. Padding edges lead from the first padding node to itself, so that messages and pooling
    of real graphs are not touched; whatever takes a mean over all rows, as BatchNorm or the loss
    does, needs the masks: see MaskedBatchNorm.

    `data_class` is a subclass of `Data` or `HeteroData`, whose `__cat_dim__` is followed.
    Raises ValueError if padding was asked for and there is no graph to hold it (Padding.MASKED),
    TypeError naming a tensor of a type that torch lacks.
    """
    from torch_geometric.data import Batch as PygBatch
    from torch_geometric.data import Data, HeteroData

    joined = Joined(batch, padded=padding)
    layout = joined.layout
    is_plain = layout.is_homogeneous
    out = _new_batch(PygBatch, data_class or (Data if is_plain else HeteroData))
    writer = _Writer(out, joined, is_plain, follow_batch)
    writer.make_stores()
    for item in writer.items:
        writer.write(item)
    for component, rows in layout.node_sets.items():
        store = writer.store_of(component)
        if not rows.features and NUM_NODES not in store:
            writer.write_num_nodes(component)
        if store.can_infer_num_nodes:
            store.batch = of_array(joined.graph_index(component))
            store.ptr = of_array(joined.offsets(component).copy())
        if padding:
            store.node_mask = of_array(joined.mask(component))
    if padding:
        for component in layout.edge_sets:
            writer.store_of(component).edge_mask = of_array(joined.mask(component))
        out.graph_mask = of_array(joined.mask(GRAPHS))
    out._num_graphs = joined.num_graphs
    out._slice_dict = writer.slices
    out._inc_dict = writer.incs
    for name in ("lease", "loss_weight"):
        if hasattr(batch, name):
            # Kept beside the data: PyG would hand a field of the data to transforms and count it.
            out.__dict__[name] = getattr(batch, name)
    return out


_BATCH_CLASSES: dict[type[Any], type[Any]] = {}


def _new_batch(pyg_batch: Any, data_class: type[Any]) -> Any:
    """`Batch(_base_cls=data_class)`; PyG looks at signatures for it, each time anew."""
    kept = _BATCH_CLASSES.get(data_class)
    if kept is None:
        made = pyg_batch(_base_cls=data_class)
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


class _Writer:
    """Fills the stores of one PyG batch, and notes what taking it apart needs."""

    def __init__(
        self, out: Any, joined: Joined, is_plain: bool, follow_batch: Collection[str]
    ) -> None:
        self._out = out
        self._joined = joined
        self._follow_batch = follow_batch
        self._plain = is_plain
        plan = joined.layout.plans.get("pyg")
        if plan is None:
            keys: dict[str, Any] = {} if is_plain else _store_keys(joined.layout)
            plan = joined.layout.plans["pyg"] = (keys, _items(joined.layout, keys, is_plain))
        self._keys: dict[str, Any]
        self.items: list[_Item]
        self._keys, self.items = plan
        # By store, and without that level for what belongs to no type: as PyG has them.
        self.slices: dict[Any, Any] = {}
        self.incs: dict[Any, Any] = {}
        self._offsets: dict[str, Any] = {}
        self._no_incs: Any = None

    def make_stores(self) -> None:
        for key in self._keys.values():
            self._store(key)
            if key is not None:
                # Also for nodes that have nothing but a number. PyG forgets them: its own batches
                # of such graphs cannot be taken apart.
                self.slices[key] = {}
                self.incs[key] = {}

    def store_of(self, component: str) -> Any:
        return self._store(None if self._plain else self._keys[component])

    def _store(self, key: Any) -> Any:
        if key is not None:
            return self._out[key]
        return self._out._store if self._plain else self._out._global_store

    def write(self, item: _Item) -> None:
        if item.name == NUM_NODES and item.spec.component == GRAPHS:
            self.write_num_nodes(NODES if item.store is None else item.store)
            return
        store = self._store(item.store)
        joined = self._joined
        if item.edges is not None:
            store[item.name] = of_array(joined.joined_ends(item.edges, np.int64))
            self._note(item, self._ends_incs(item.edges))
        else:
            value = to_torch(joined.column(item.spec), item.spec)
            cat_dim = self._out.__cat_dim__(item.name, value, store)
            if cat_dim and value.dim() > 1:
                value = value.movedim(0, cat_dim).contiguous()
            store[item.name] = value
            self._note(item, self._incs(item.spec.index_into))
        if item.name in self._follow_batch:
            component = item.spec.component
            store[f"{item.name}_batch"] = of_array(joined.graph_index(component))
            store[f"{item.name}_ptr"] = of_array(joined.offsets(component).copy())

    def write_num_nodes(self, component: str) -> None:
        counts = self._joined.counts(component)
        store = self.store_of(component)
        store._num_nodes = counts.tolist()
        store.num_nodes = int(counts.sum())

    def _note(self, item: _Item, incs: Any) -> None:
        slices_of, incs_of = self.slices, self.incs
        if item.store is not None:
            slices_of, incs_of = slices_of[item.store], incs_of[item.store]
        slices_of[item.name] = self._tensor_of_offsets(item.spec.component)
        incs_of[item.name] = incs

    def _tensor_of_offsets(self, component: str) -> Any:
        if component not in self._offsets:
            self._offsets[component] = of_array(self._joined.offsets(component))
        return self._offsets[component]

    def _incs(self, component: str | None) -> Any:
        if component is None:
            if self._no_incs is None:
                self._no_incs = of_array(np.zeros(self._joined.num_graphs, np.int64))
            return self._no_incs
        return self._tensor_of_offsets(component)[:-1]

    def _ends_incs(self, edges: EdgeSet) -> Any:
        if self._plain:
            return self._incs(edges.source)
        source = self._joined.offsets(edges.source)[:-1]
        both: Array = np.stack([source, self._joined.offsets(edges.target)[:-1]], axis=1)
        return of_array(both[:, :, np.newaxis])


def _store_keys(layout: Layout) -> dict[str, Any]:
    """PyG's key of each component's store, nodes first."""
    keys: dict[str, Any] = {GRAPHS: None}
    keys.update((component, component) for component in layout.node_sets)
    for component, edges in layout.edge_sets.items():
        keys[component] = (edges.source, edges.relation, edges.target)
    return keys


def _items(layout: Layout, keys: dict[str, Any], is_plain: bool) -> list[_Item]:
    """All attributes in the schema's order, an edge set's ends where the first of them is."""
    items = []
    ends_written: set[str] = set()
    names = [_place(layout, spec) for spec in layout.schema.tensors]
    for spec, (owner, name) in zip(layout.schema.tensors, names):
        edges = layout.edge_sets.get(spec.component)
        if edges is not None and (spec is edges.ends.source or spec is edges.ends.target):
            if spec.component not in ends_written:
                ends_written.add(spec.component)
                items.append(_Item(keys.get(spec.component), "edge_index", spec, edges))
        elif is_plain:
            is_unique = sum(other == name for _, other in names) == 1
            items.append(_Item(None, name if is_unique else spec.name, spec, None))
        else:
            items.append(_Item(keys[owner], name, spec, None))
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
    return spec.component, feature_name(spec)

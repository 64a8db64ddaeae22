"""How PyG joins graphs: what it notes of a batch to take it apart, and whether packhouse may do it.

Notes are worked out when somebody asks for them. Whether graphs can be joined here as PyG itself
joins them is asked graph by graph.
"""

from __future__ import annotations

import warnings
from typing import Any, Callable, Collection, Final, Iterator, NamedTuple

import numpy as np

from packhouse.base.arguments import whole_number
from packhouse.data.graphs import Array
from packhouse.data.schema import GRAPHS, TensorSpec
from packhouse.frameworks.layout import EdgeSet, Extents, Joined
from packhouse.frameworks.tensors import of_array

NUM_NODES: Final = "num_nodes"


class Item(NamedTuple):
    """An attribute of one of PyG's stores: a tensor, or the ends of a set's edges."""

    store: Any  # Its key: None, a node type, or the triple of an edge type.
    name: str
    spec: TensorSpec
    edges: EdgeSet | None

    @property
    def is_num_nodes(self) -> bool:
        """Whether it says how many nodes there are, which PyG keeps elsewhere."""
        return self.name == NUM_NODES and self.spec.component == GRAPHS


class Notes:
    """PyG's `_slice_dict` and `_inc_dict` of a batch. Holds nothing of the batch but its sizes."""

    def __init__(
        self, joined: Joined, is_plain: bool, keys: dict[str, Any], items: list[Item]
    ) -> None:
        """`keys` of the stores, by component."""
        self._extents: Extents = joined.extents
        self._plain = is_plain
        self._keys = keys
        self._items = items

    # Each dict refers to the notes, and they to none of the dicts: a circle for each batch would be
    # left to Python's collector of garbage, which costs more than making the batch.

    def slices(self) -> LazyDict:
        """Where each graph's rows begin, by attribute."""
        return LazyDict(self._all_slices)

    def incs(self) -> LazyDict:
        """What PyG added to the attribute of each graph."""
        return LazyDict(self._all_incs)

    def _all_slices(self) -> dict[Any, Any]:
        return self._of_items(
            lambda item: of_array(self._extents.offsets(item.spec.component))
        )

    def _all_incs(self) -> dict[Any, Any]:
        return self._of_items(self._incs_of)

    def _of_items(self, noted: Callable[[Item], Any]) -> dict[Any, Any]:
        # By store, and without that level for what belongs to no type: as PyG has them. Also for
        # nodes that have nothing but a number. PyG forgets them: its own batches of such graphs
        # cannot be taken apart.
        found: dict[Any, Any] = {key: {} for key in self._keys.values() if key is not None}
        for item in self._items:
            if not item.is_num_nodes:
                of_store = found if item.store is None else found[item.store]
                of_store[item.name] = noted(item)
        return found

    def _incs_of(self, item: Item) -> Any:
        if item.edges is None:
            return self._incs(item.spec.index_into)
        if self._plain:
            return self._incs(item.edges.source)
        source = self._extents.offsets(item.edges.source)[:-1]
        both: Array = np.stack([source, self._extents.offsets(item.edges.target)[:-1]], axis=1)
        return of_array(both[:, :, np.newaxis])

    def _incs(self, component: str | None) -> Any:
        if component is None:
            return of_array(np.zeros(self._extents.num_graphs, np.int64))
        return of_array(self._extents.offsets(component)[:-1])


class LazyDict(dict[Any, Any]):
    """A dict that is made when somebody looks into it; copied and pickled as a plain dict."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[], dict[Any, Any]]) -> None:
        self._make: Callable[[], dict[Any, Any]] | None = make

    def _filled(self) -> LazyDict:
        make, self._make = self._make, None
        if make is not None:
            super().update(make())
        return self

    def __missing__(self, key: Any) -> Any:
        if self._make is None:
            raise KeyError(key)
        return self._filled()[key]

    def __contains__(self, key: object) -> bool:
        return super(LazyDict, self._filled()).__contains__(key)

    def __iter__(self) -> Iterator[Any]:
        return super(LazyDict, self._filled()).__iter__()

    def __len__(self) -> int:
        return super(LazyDict, self._filled()).__len__()

    def __eq__(self, other: object) -> bool:
        return super(LazyDict, self._filled()).__eq__(other)

    def __ne__(self, other: object) -> bool:
        return super(LazyDict, self._filled()).__ne__(other)

    def __repr__(self) -> str:
        return super(LazyDict, self._filled()).__repr__()

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self.copy(),)

    def __setitem__(self, key: Any, value: Any) -> None:
        super(LazyDict, self._filled()).__setitem__(key, value)

    def __delitem__(self, key: Any) -> None:
        super(LazyDict, self._filled()).__delitem__(key)

    def copy(self) -> dict[Any, Any]:
        return super(LazyDict, self._filled()).copy()

    def get(self, key: Any, default: Any = None) -> Any:
        return super(LazyDict, self._filled()).get(key, default)

    def items(self) -> Any:
        return super(LazyDict, self._filled()).items()

    def keys(self) -> Any:
        return super(LazyDict, self._filled()).keys()

    def pop(self, key: Any, *default: Any) -> Any:
        return super(LazyDict, self._filled()).pop(key, *default)

    def values(self) -> Any:
        return super(LazyDict, self._filled()).values()


def has_own_rules(data: Any) -> bool:
    """Whether the class of the graphs says itself what is added, or along which dimension."""
    from torch_geometric.data import Data, HeteroData

    base = HeteroData if isinstance(data, HeteroData) else Data
    kind = type(data)
    return kind.__inc__ is not base.__inc__ or kind.__cat_dim__ is not base.__cat_dim__


def tells_num_nodes(store: Any) -> bool:
    """Whether PyG knows the number of nodes by an attribute, and need not guess it from edges."""
    from torch_geometric.data.storage import N_KEYS

    known = {NUM_NODES, "adj", "adj_t", *N_KEYS}
    return any(key in known or "node" in key for key in store.keys())


class GraphChecks:
    """Looks at one graph after the other: all have what the first one has.

    Same attributes in the same stores, of the same types; what PyG adds to an attribute is 0 for all
    of them, or the number of nodes for all of them; and all are joined along one dimension.
    A graph that is just as the first one (`_Likeness`) needs no other look, which is some five times
    as fast.
    """

    def __init__(self, exclude_keys: Collection[str]) -> None:
        self._exclude_keys = frozenset(exclude_keys)
        self._number = 0
        self._first: dict[tuple[Any, str], Any] | None = None
        self._likeness: _Likeness | None = None
        # Of a class with rules of its own, by store and attribute: the dimension, and whether what is
        # added is the number of nodes; None where both are 0 so far.
        self.rules: dict[tuple[Any, str], tuple[Any, bool | None]] = {}
        # By store: the number of nodes of each graph, where excluded attributes tell it.
        self.num_nodes: dict[Any, list[int]] = {}
        # Of each attribute and number of nodes the rows of each graph, while somebody wants them.
        self.rows: dict[tuple[Any, str], list[int]] | None = None

    def check(self, graph: Any) -> None:
        """Raises ValueError naming the graph, the attribute and the reason."""
        if self._likeness is not None and self._likeness.has(graph, self.rows):
            self._number += 1
            return
        found = {
            (store._key, key): _type_of(graph, store, key)
            for store in graph.stores
            for key in store.keys()
            if key not in self._exclude_keys
        }
        types = {store._key for store in graph.stores}
        if self._first is None:
            self._first, self._types = found, types
            self._counted = self._told_by_excluded(graph)
            self._check_dense(graph)
            if not self._counted and not has_own_rules(graph):
                self._likeness = _Likeness.of(graph, self._exclude_keys)
        if types != self._types:
            (other,) = list(types ^ self._types)[:1]
            raise ValueError(
                f"graph {self._number} has {'' if other in types else 'not '}the type {other!r}, "
                f"the first one has it{'' if other in self._types else ' not'}: all must have the "
                "same, also where there is none of it in a graph"
            )
        if found != self._first:
            raise self._difference(found)
        if has_own_rules(graph):
            self._check_rules(graph)
        for store in graph.stores:
            if store._key in self._counted:
                self.num_nodes.setdefault(store._key, []).append(self._num_nodes(store))
        if self.rows is not None:
            self._note_rows(graph, self.rows)
        self._number += 1

    def _check_dense(self, graph: Any) -> None:
        for store in graph.stores:
            for key, value in store.items():
                if key in self._exclude_keys or key == NUM_NODES:
                    continue
                if not _is_dense(value) and not isinstance(value, (int, float)):
                    raise ValueError(
                        f"graph {self._number}: attribute {key!r}: it is no dense tensor but "
                        f"{type(value).__name__}, which cannot be sent: name it in exclude_keys"
                    )

    def _note_rows(self, graph: Any, rows: dict[tuple[Any, str], list[int]]) -> None:
        for store in graph.stores:
            for key, value in store.items():
                if key in self._exclude_keys:
                    continue
                count = 1
                if key == NUM_NODES:
                    count = value
                elif _is_dense(value) and value.dim():
                    cat_dim = graph.__cat_dim__(key, value, store)
                    count = 1 if cat_dim is None else value.shape[cat_dim]
                rows.setdefault((store._key, key), []).append(count)

    def _told_by_excluded(self, graph: Any) -> set[Any]:
        """The keys of the stores whose number of nodes PyG knows by an excluded attribute."""
        from torch_geometric.data.storage import N_KEYS

        return {
            store._key
            for store in graph.stores
            for key in store.keys()
            if key in self._exclude_keys
            and (key in N_KEYS or "node" in key)
            and (store._key is None or isinstance(store._key, str))
        }

    def _num_nodes(self, store: Any) -> int:
        if not tells_num_nodes(store) or store.num_nodes is None:
            raise ValueError(
                f"graph {self._number}: {NUM_NODES!r} is not set, and nothing says how many nodes it "
                "has: set num_nodes. Guessed from edges, nodes without any would vanish"
            )
        return whole_number(store.num_nodes, f"graph {self._number}: {NUM_NODES!r}")

    def _difference(self, found: dict[tuple[Any, str], Any]) -> ValueError:
        first = self._first or {}
        for store, key in [*first, *found]:
            mine, others = found.get((store, key)), first.get((store, key))
            if mine == others:
                continue
            name = key if store is None else f"{key!r} of {store}"
            if mine is None or others is None:
                has, lacks = (0, self._number) if mine is None else (self._number, 0)
                what = f"graph {has} has it, graph {lacks} lacks it"
            else:
                what = f"it is {others} in graph 0 and {mine} in graph {self._number}"
            return ValueError(
                f"attribute {name if store is not None else repr(name)}: {what}: give it to all "
                "graphs alike, or name it in exclude_keys"
            )
        raise AssertionError("nothing differs")

    def _check_rules(self, graph: Any) -> None:
        for store in graph.stores:
            for key in store.keys():
                if key not in self._exclude_keys and key != NUM_NODES:
                    self._check_rule(graph, store, key)

    def _check_rule(self, graph: Any, store: Any, key: str) -> None:
        value = store[key]
        if "batch" in key:
            # Refused by its name.
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            inc = graph.__inc__(key, value, store)
            cat_dim = graph.__cat_dim__(key, value, store)
            nodes = graph.num_nodes if store._key is None else None
        is_ends = key == "edge_index" and store._key is not None
        if is_ends:
            # Of two types: PyG adds the number of nodes of either.
            return
        by_nodes: bool | None
        if isinstance(inc, int) and inc == 0 and not nodes:
            by_nodes = None
        elif isinstance(inc, int) and inc == 0:
            by_nodes = False
        elif isinstance(inc, int) and inc == nodes:
            by_nodes = True
        else:
            raise self._refused(
                key, f"PyG adds {_shown(inc)} for it to the graphs behind it, which is not its "
                f"number of nodes ({nodes})"
            )
        known_dim, known = self.rules.get((store._key, key), (cat_dim, None))
        if known_dim != cat_dim:
            raise self._refused(key, f"it is joined along {cat_dim}, others along {known_dim}")
        if by_nodes is not None and known is not None and by_nodes != known:
            raise self._refused(
                key, f"PyG adds {inc} for it, to others "
                f"{'their number of nodes' if known else '0'}"
            )
        if key == "edge_index" and by_nodes is False:
            raise self._refused(key, "PyG adds nothing: all graphs would have the same nodes")
        self.rules[store._key, key] = cat_dim, known if by_nodes is None else by_nodes

    def _refused(self, key: str, why: str) -> ValueError:
        return ValueError(
            f"graph {self._number}: attribute {key!r}: {why}; packhouse cannot join it so: name it "
            "in exclude_keys"
        )


class _Attribute(NamedTuple):
    """What is looked at of an attribute: the class, and of a tensor what joining may not change."""

    kind: type[Any]
    dtype: Any = None
    # Along which it is joined; None: its shape is the same in all graphs.
    cat_dim: int | None = None
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()


class _Likeness:
    """What all graphs have that are as the first one, of a class that joins as PyG itself does.

    Then the dimension along which a dense attribute is joined is its name's and its store's, and is
    not asked for in each graph. Whatever differs, also if it may, is no likeness: it is looked at.
    """

    def __init__(
        self,
        kind: type[Any],
        stores: list[tuple[Any, dict[str, _Attribute]]],
        exclude_keys: frozenset[str],
    ) -> None:
        import torch

        self._kind = kind
        self._stores = stores
        self._exclude_keys = exclude_keys
        self._tensor, self._strided = torch.Tensor, torch.strided

    @staticmethod
    def of(graph: Any, exclude_keys: frozenset[str]) -> _Likeness | None:
        """That with a graph whose attributes are known to be dense tensors or numbers; None where it
        cannot be told as quickly.
        """
        import torch

        stores = []
        for store in graph.stores:
            if not isinstance(getattr(store, "_mapping", None), dict):
                return None
            attributes = {}
            for key, value in store._mapping.items():
                if key in exclude_keys:
                    continue
                kind = type(value)
                if kind is torch.Tensor:
                    shape = tuple(value.shape)
                    cat_dim = graph.__cat_dim__(key, value, store)
                    if isinstance(cat_dim, int) and -len(shape) <= cat_dim < len(shape):
                        cat_dim %= len(shape)
                        before, after = shape[:cat_dim], shape[cat_dim + 1 :]
                    else:
                        cat_dim, before, after = None, shape, ()
                    attributes[key] = _Attribute(kind, value.dtype, cat_dim, before, after)
                elif isinstance(value, (int, float)):
                    attributes[key] = _Attribute(kind)
                else:
                    return None
            stores.append((store._key, attributes))
        return _Likeness(type(graph), stores, exclude_keys)

    def has(self, graph: Any, rows: dict[tuple[Any, str], list[int]] | None) -> bool:
        """Whether this graph is as the first one; then its numbers of rows are added to `rows`."""
        if type(graph) is not self._kind:
            return False
        stores = graph.stores
        if len(stores) != len(self._stores):
            return False
        counts = []
        for store, (store_key, attributes) in zip(stores, self._stores):
            if store._key != store_key:
                return False
            left = len(attributes)
            for key, value in store._mapping.items():
                known = attributes.get(key)
                if known is None:
                    if key in self._exclude_keys:
                        continue
                    return False
                kind, dtype, cat_dim, before, after = known
                if type(value) is not kind:
                    return False
                left -= 1
                count = value if key == NUM_NODES else 1
                if kind is self._tensor:
                    if value.dtype is not dtype or value.layout is not self._strided:
                        return False
                    shape = value.shape
                    if cat_dim is None:
                        if shape != before:
                            return False
                    elif (
                        len(shape) != len(before) + 1 + len(after)
                        or shape[cat_dim + 1 :] != after
                        or (cat_dim and shape[:cat_dim] != before)
                    ):
                        return False
                    elif rows is not None and key != NUM_NODES:
                        count = shape[cat_dim]
                if rows is not None:
                    counts.append(((store_key, key), count))
            if left:
                return False
        if rows is not None:
            for place, count in counts:
                rows.setdefault(place, []).append(count)
        return True


def _is_dense(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor) and value.layout is torch.strided


def _type_of(graph: Any, store: Any, key: str) -> str:
    """What joining may not change: a tensor's type and all extents of a row; else the class."""
    import torch

    value = store[key]
    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    shape: list[Any] = list(value.shape)
    if shape and value.layout is torch.strided:
        cat_dim = graph.__cat_dim__(key, value, store)
        if isinstance(cat_dim, int) and -len(shape) <= cat_dim < len(shape):
            shape[cat_dim] = "rows"
    elif value.layout is not torch.strided:
        return f"a sparse tensor of {value.dtype} with {value.dim()} dimensions"
    return f"a tensor of {value.dtype} with the shape ({', '.join(map(str, shape))})"


def _shown(inc: Any) -> str:
    import torch

    return str(inc.tolist()) if isinstance(inc, torch.Tensor) else str(inc)

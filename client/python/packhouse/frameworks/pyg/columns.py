"""The attributes of graphs that PyG has joined, as columns of a table of graphs."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any, Collection, Mapping, NamedTuple

import numpy as np
import numpy.typing as npt

from packhouse.base.arguments import whole_number
from packhouse.data.graphs import Array
from packhouse.data.schema import GRAPHS, MAX_PLANES, DType, Layout, TensorSpec
from packhouse.frameworks.layout import EDGES, NODES, check_not_reserved
from packhouse.frameworks.pyg.joining import NUM_NODES
from packhouse.frameworks.tensors import from_torch

Counts = npt.NDArray[np.int64]


class Collated(NamedTuple):
    """Graphs as PyG joins them without shifting: attributes, and where each graph's rows begin."""

    data: Any
    slices: Mapping[Any, Any]
    num_graphs: int
    # Of which these are meant, in this order; None: all.
    take: npt.NDArray[np.int64] | None = None
    # The number of the first one in its data set.
    first_id: int = 0
    # Of a class with rules of its own, by store and attribute; see checks.GraphChecks.rules.
    rules: Mapping[tuple[Any, str], tuple[Any, bool | None]] | None = None
    # Of each store, where what tells it is not among the attributes.
    num_nodes: Mapping[Any, list[int]] | None = None


class Components:
    """Along which component each attribute grows, by its name in the schema, in all parts alike.

    As the user says, by PyG's names, or by the rows of the graphs that are looked at first: of all,
    where they are known before anything is stored. Later parts are held to it.
    """

    def __init__(self, said: Mapping[str, str] | None = None) -> None:
        self.said = dict(said or {})
        self.found: dict[str, str] = {}


class _Named(ValueError):
    """Has the graph's number and the attribute in its words already."""


def counts_of(collated: Collated) -> dict[str, Counts]:
    """int64 [graphs] by component, node sets first; see `pyg.datasets.table` for their names.

    Raises ValueError for nodes that cannot be counted.
    """
    return _Reader(collated, (), Components()).counts


def decide(collated: Collated, exclude_keys: Collection[str], components: Components) -> None:
    """Finds the component of each attribute; of `collated.data` names and types alone matter.

    Raises ValueError as `columns_of` does.
    """
    reader = _Reader(collated, exclude_keys, components)
    for store in collated.data.stores:
        for key in store.keys():
            if key not in exclude_keys and key not in (NUM_NODES, "edge_index"):
                if reader.is_dense(store, key):
                    reader.component_for(store, key)


def columns_of(
    collated: Collated, exclude_keys: Collection[str], components: Components
) -> tuple[dict[str, Counts], list[tuple[TensorSpec, Array]]]:
    """The counts, with those of attributes' own components, and the columns, in PyG's order.

    Raises ValueError naming a graph and an attribute that cannot be sent, or can be along several
    components.
    """
    reader = _Reader(collated, exclude_keys, components)
    for store in collated.data.stores:
        for key in list(store.keys()):
            if key not in exclude_keys:
                reader.read(store, key)
    return reader.counts, reader.columns


def component_of(store: Any) -> str:
    """What a store of PyG's is called here."""
    key = store._key
    if key is None:
        return GRAPHS
    return str(key) if isinstance(key, str) else ".".join(key)


class _Reader:
    """Reads one store after another."""

    def __init__(
        self, collated: Collated, exclude_keys: Collection[str], components: Components
    ) -> None:
        from torch_geometric.data import HeteroData

        self._data = collated.data
        self._slices = collated.slices
        self._num_graphs = collated.num_graphs
        self._exclude_keys = exclude_keys
        self._components = components
        self._first_id = collated.first_id
        self._rules = collated.rules
        self._known_num_nodes = collated.num_nodes or {}
        self._is_plain = not isinstance(collated.data, HeteroData)
        self.columns: list[tuple[TensorSpec, Array]] = []
        self.counts: dict[str, Counts] = {}
        if self._is_plain:
            store = collated.data._store
            self.counts[NODES] = self._num_nodes(store)
            edges = self._num_edges(store)
            if edges is not None:
                self.counts[EDGES] = edges
            return
        for store in collated.data.node_stores:
            self.counts[self._component(store)] = self._num_nodes(store)
        for store in collated.data.edge_stores:
            edges = self._num_edges(store)
            if edges is None:
                raise ValueError(
                    f"graph {self._first_id}: edges of type {store._key!r} have no 'edge_index'"
                )
            self.counts[self._component(store)] = edges

    def read(self, store: Any, key: str) -> None:
        """Adds the attribute `key` to the columns."""
        try:
            self._read(store, key)
        except _Named:
            raise
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"graph {self._first_id}: attribute {self._name(store, key)!r}: {error}; rename it, "
                "or name it in exclude_keys"
            ) from None

    def _read(self, store: Any, key: str) -> None:
        name = self._name(store, key)
        check_not_reserved(key)
        if key == NUM_NODES:
            component = NODES if self._is_plain else self._component(store)
            self._add(TensorSpec(name, DType.INT32, GRAPHS), self.counts[component])
            return
        rows = self._rows(store, key)
        if key == "edge_index":
            self._add_ends(store, rows)
            return
        array, dtype = from_torch(rows)
        index_into = self._index_into(store, key)
        if index_into is not None:
            if not dtype.is_integer:
                raise ValueError(
                    f"PyG adds the number of nodes to it, because of its name, but it is "
                    f"{dtype.name.lower()}"
                )
            dtype = DType.INT32
        component = self.component_for(store, key)
        spec = TensorSpec(name, dtype, component, array.shape[1:], index_into)
        if self._has_rows_last(store, key) and len(spec.row_shape) == 1:
            if spec.row_elements <= MAX_PLANES:
                # As PyG has it, (3, faces): no element changes its place.
                spec = dataclasses.replace(spec, layout=Layout.ROWS_LAST)
                array = array.T
        self._add(spec, array)

    def _add(self, spec: TensorSpec, column: Array) -> None:
        self.columns.append((spec, column))

    def _add_ends(self, store: Any, rows: Any) -> None:
        array, dtype = from_torch(rows)
        if not dtype.is_integer:
            raise ValueError(f"edge_index has dtype {dtype.name}")
        if self._is_plain:
            spec = TensorSpec(
                "edge_index", DType.INT32, EDGES, (2,), index_into=NODES, layout=Layout.ROWS_LAST
            )
            self._add(spec, array.T)
            return
        component = self._component(store)
        source, _, target = store._key
        for end, column, into in (("source", 0, source), ("target", 1, target)):
            spec = TensorSpec(f"{component}.{end}", DType.INT32, component, index_into=into)
            self._add(spec, array[:, column])

    def _component(self, store: Any) -> str:
        return component_of(store)

    def _name(self, store: Any, key: str) -> str:
        return key if store._key is None else f"{self._component(store)}.{key}"

    def _slices_of(self, store: Any, key: str) -> Counts:
        slices = self._slices[key] if store._key is None else self._slices[store._key][key]
        counts: Counts = np.diff(np.asarray(slices, np.int64))
        if len(counts) != self._num_graphs:
            raise self._uneven()
        return counts

    def _uneven(self) -> _Named:
        """Of a data set that PyG has joined of unlike graphs: names what the fewest have."""
        found = []
        for store in self._data.stores:
            slices = self._slices if store._key is None else self._slices.get(store._key, {})
            for key in store.keys():
                if key in slices and key not in self._exclude_keys:
                    found.append((len(slices[key]) - 1, self._name(store, key), store._key))
        fewest, name, kind = min(found, key=lambda each: each[0])
        # PyG takes the number of graphs that any one attribute has for that of all.
        most = max(count for count, *_ in found)
        last = self._first_id + most - 1
        if fewest == most:
            return _Named(
                f"graphs {self._first_id} to {last}: attribute {name!r} has rows of {most} graphs, "
                f"of which PyG counts {self._num_graphs}: what is left out has so many; "
                "give all graphs the same attributes and types before they are joined"
            )
        lacked = "it" if kind is None else repr(kind)
        return _Named(
            f"graphs {self._first_id} to {last}: attribute {name!r} has rows of {fewest} graphs "
            f"only; PyG's data set does not tell which lack {lacked}: "
            "give all graphs the same attributes and types before they are joined"
        )

    def _rows(self, store: Any, key: str) -> Any:
        """The attribute as a dense tensor whose first dimension counts rows."""
        import torch

        value = store[key]
        if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
            raise ValueError(
                f"it is no dense tensor but {type(value).__name__}, which cannot be sent"
            )
        value = value.as_subclass(torch.Tensor)
        cat_dim = self._cat_dim(store, key)
        if isinstance(cat_dim, tuple):
            raise ValueError("it is joined along several dimensions")
        if cat_dim and value.dim() > 1:
            value = value.movedim(cat_dim, 0)
        return value

    def _has_rows_last(self, store: Any, key: str) -> bool:
        return bool(self._cat_dim(store, key)) and store[key].dim() > 1

    def _cat_dim(self, store: Any, key: str) -> Any:
        # Not asked of the class of what PyG has joined: it takes classes of one name for one class.
        if self._rules is not None and (store._key, key) in self._rules:
            return self._rules[store._key, key][0]
        return self._data.__cat_dim__(key, store[key], store)

    def component_for(self, store: Any, key: str) -> str:
        """Along which component an attribute grows: as is said, by PyG's names, or by its rows.

        Rows alone decide only where one thing fits them: graphs of other sizes must not change it.
        """
        counts = self._slices_of(store, key)
        name = self._name(store, key)
        if name in self._components.said:
            return self._said_component(name, counts)
        component = self._components.found.get(name)
        if component is None:
            component = self._guessed(store, key, name, counts)
            self._components.found[name] = component
        if component == name:
            return self._own(name, counts)
        wanted = self._wanted(component, counts)
        if not np.array_equal(counts, wanted):
            graph = int(np.argmax(counts != wanted))
            raise _Named(
                f"graph {self._first_id + graph}: attribute {name!r} has {counts[graph]} rows, not "
                f"{wanted[graph]} as {component!r}, along which the graphs before have it: say "
                f"along what it is, as components={{{name!r}: {name!r}}}"
            )
        return component

    def _wanted(self, component: str, counts: Counts) -> Counts:
        return np.ones_like(counts) if component == GRAPHS else self.counts[component]

    def _guessed(self, store: Any, key: str, name: str, counts: Counts) -> str:
        from torch_geometric.data.storage import E_KEYS, N_KEYS

        if not self._is_plain and store._key is not None:
            component = self._component(store)
            return component if np.array_equal(counts, self.counts[component]) else name
        fits = [
            component
            for component in (NODES, EDGES)
            if self._is_plain and np.array_equal(counts, self.counts.get(component, ()))
        ]
        # As PyG decides between them where the numbers are the same.
        if EDGES in fits and (key in E_KEYS or "edge" in key):
            return EDGES
        if NODES in fits and (key in N_KEYS or "node" in key):
            return NODES
        if np.all(counts == 1):
            return GRAPHS
        # Of a single graph there is nothing to compare.
        if fits and len(counts) > 1 and (counts == counts[0]).all():
            fits.append(name)
        if len(fits) > 1:
            raise self._ambiguous(name, fits, counts)
        return fits[0] if fits else name

    def _said_component(self, name: str, counts: Counts) -> str:
        component = self._components.said[name]
        if component == name:
            return self._own(name, counts)
        if component != GRAPHS and component not in self.counts:
            known = ", ".join((*self.counts, GRAPHS, name))
            raise _Named(f"components: {name!r} cannot be along {component!r}, but {known}")
        wanted = self._wanted(component, counts)
        if not np.array_equal(counts, wanted):
            graph = int(np.argmax(counts != wanted))
            raise _Named(
                f"graph {self._first_id + graph}: attribute {name!r} is said to be along "
                f"{component!r}, of which graph "
                f"{self._first_id + graph} has {wanted[graph]}, but has {counts[graph]} rows there"
            )
        return component

    def _ambiguous(self, name: str, fits: list[str], counts: Counts) -> ValueError:
        last = self._first_id + len(counts) - 1
        return _Named(
            f"graphs {self._first_id} to {last}: attribute {name!r} has as many rows as "
            + " and as ".join(fits[:-1])
            + (
                f", and {counts[0]} in each graph"
                if fits[-1] == name
                else f" and as {fits[-1]}"
            )
            + f": say which, as components={{{name!r}: {fits[0]!r}}}"
        )

    def _own(self, name: str, counts: Counts) -> str:
        self.counts[name] = counts
        return name

    def _index_into(self, store: Any, key: str) -> str | None:
        """What PyG adds to the attribute when it joins graphs, as the component it numbers."""
        if "batch" in key:
            raise ValueError(
                "PyG adds its largest value + 1 for each graph before, which packhouse cannot"
            )
        if self._rules is not None and (store._key, key) in self._rules:
            by_nodes = self._rules[store._key, key][1]
            is_named_so = "index" in key or key == "face"
            return NODES if (is_named_so if by_nodes is None else by_nodes) else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            inc = self._data.__inc__(key, store[key], store)
            total = self._data.num_nodes if self._is_plain else None
        if isinstance(inc, int) and inc == 0:
            is_named_so = self._is_plain and ("index" in key or key == "face")
            return NODES if is_named_so and not total else None
        if isinstance(inc, int) and inc == total:
            return NODES
        raise ValueError(
            f"PyG adds {inc} for each graph before, which is not the number of nodes"
        )

    def _whole(self, values: Any) -> Counts:
        """Numbers of nodes, never rounded."""
        counts = np.asarray(values)
        if counts.dtype.kind not in "iu" or (counts.size and counts.min() < 0):
            for number, value in enumerate(values, self._first_id):
                try:
                    whole_number(value, f"graph {number}: {NUM_NODES!r}")
                except (TypeError, ValueError) as error:
                    raise _Named(str(error)) from None
            counts = np.array([int(value) for value in values])
        return counts.astype(np.int64)

    def _num_nodes(self, store: Any) -> Counts:
        """As PyG infers it, graph by graph; never guessed."""
        from torch_geometric.data.storage import N_KEYS

        if store._key in self._known_num_nodes:
            return self._whole(self._known_num_nodes[store._key])
        if NUM_NODES in store:
            return self._whole(store._num_nodes)
        keys = [key for key in store.keys() if self.is_dense(store, key)]
        telling = [key for key in keys if key in N_KEYS] + [key for key in keys if "node" in key]
        if telling:
            counts = self._slices_of(store, telling[0])
            # Of several, each graph's own order of attributes would decide in PyG.
            for key in telling[1:] if store._key is None else ():
                others = self._slices_of(store, key)
                if key in N_KEYS and not np.array_equal(counts, others):
                    graph = int(np.argmax(counts != others))
                    raise ValueError(
                        f"graph {self._first_id + graph}: {telling[0]!r} tells of {counts[graph]} "
                        f"nodes, {key!r} of {others[graph]}: set num_nodes, or rename one of them"
                    )
            return counts
        raise ValueError(
            f"graph {self._first_id}: {NUM_NODES!r} is not set, and nothing says how many nodes a "
            "graph has"
            + ("" if store._key is None else f" of type {store._key!r}")
            + ", since PyG knows it by num_nodes or "
            + ", ".join(sorted(N_KEYS))
            + ": set num_nodes. Guessed from edges, nodes without any would vanish"
        )

    @staticmethod
    def is_dense(store: Any, key: str) -> bool:
        """Whether it is a tensor with rows."""
        import torch

        return isinstance(store[key], torch.Tensor) and store[key].layout is torch.strided

    def _num_edges(self, store: Any) -> Counts | None:
        # Edges without ends are no edges here: each of their attributes has rows of its own.
        if "edge_index" not in store or not self.is_dense(store, "edge_index"):
            return None
        return self._slices_of(store, "edge_index")

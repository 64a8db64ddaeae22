"""What PyG notes of a batch to take it apart. It is worked out when somebody asks for it."""

from __future__ import annotations

from typing import Any, Callable, Final, Iterator, NamedTuple

import numpy as np

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

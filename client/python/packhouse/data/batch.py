"""Batches: as they were received, with tensors in a narrow type, and as padded numpy arrays.

A `ReceivedBatch` is not yet joined with its schema; a `Batch` is, and leads back to its graphs.
"""

from __future__ import annotations

import dataclasses
from typing import (
    Any,
    ClassVar,
    Final,
    Iterator,
    KeysView,
    Literal,
    Mapping,
    NamedTuple,
    Sequence,
    TypeVar,
    Union,
)

import numpy as np
import numpy.typing as npt

from packhouse.base.aligned import aligned_copies, aligned_empty
from packhouse.base.arguments import Choice
from packhouse.data.graphs import Array, GraphTable, rows_of, shift_of_rows
from packhouse.data.schema import DType, GraphSchema

# In which integers may travel: packhouse.v1.INTEGER_WIDTH_COMPACT.
_NARROW: Final = (DType.UINT8, DType.INT16, DType.INT32)

def declared_type(name: str, dtype: int, declared: int) -> np.dtype[Any] | None:
    """The type in which a tensor is to be given, by numbers of `packhouse.v1.DataType`; None if it
    travels in its own. Raises ValueError if it cannot travel so.
    """
    if declared == 0:
        return None
    narrow, wide = DType(dtype), DType(declared)
    if (
        narrow not in _NARROW
        or not wide.is_integer
        or wide.numpy.itemsize <= narrow.numpy.itemsize
    ):
        raise ValueError(f"tensor {name!r} of {wide.name.lower()} comes as {narrow.name.lower()}")
    return wide.numpy


class WideTensors(Mapping[str, Array]):
    """Arrays by name, each made from a narrow one when it is first asked for.

    They are arrays of their own: writable, and at a multiple of 64 bytes. Tensors that travel in
    their own type are as they came. Not thread-safe.
    """

    def __init__(self, narrow: Mapping[str, Array], declared: Mapping[str, np.dtype[Any]]) -> None:
        """`declared` has the types of those that are to be widened."""
        self._narrow = narrow
        self._declared = declared
        self._wide: dict[str, Array] = {}

    def __getitem__(self, name: str) -> Array:
        wide = self._wide.get(name)
        if wide is not None:
            return wide
        narrow = self._narrow[name]
        declared = self._declared.get(name)
        if declared is None:
            return narrow
        wide = aligned_empty(narrow.shape, declared)
        # The server sends no value that the type lacks; int16 to uint64 is "unsafe" for numpy.
        np.copyto(wide, narrow, casting="unsafe")
        self._wide[name] = wide
        return wide

    def __iter__(self) -> Iterator[str]:
        return iter(self._narrow)

    def __len__(self) -> int:
        return len(self._narrow)

    def __contains__(self, name: object) -> bool:
        return name in self._narrow

    def sources(self) -> Iterator[tuple[str, Array, np.dtype[Any]]]:
        """Name, an array with the values, and the tensor's own type; nothing is widened."""
        for name, narrow in self._narrow.items():
            array = self._wide.get(name, narrow)
            yield name, array, self._declared.get(name, narrow.dtype)


def sources_of(tensors: Mapping[str, Array]) -> list[tuple[str, Array, np.dtype[Any]]]:
    """Of each tensor its name, an array with its values, and the type in which it is given.

    For those who copy all of them: one copy widens them, too.
    """
    if isinstance(tensors, WideTensors):
        return list(tensors.sources())
    return [(name, array, array.dtype) for name, array in tensors.items()]


GRAPH_IDS: Final = np.dtype("<u8")
SIZES: Final = np.dtype("<u4")


class ReceivedBatch(NamedTuple):
    """The fields of a `packhouse.v1.Batch` and, of `Load`, of the `LoadedBatch` around it."""

    id: int
    epoch: int
    step: int
    # Read-only views of the response, at any address (ids and sizes may be copies of their own); or
    # writable and aligned.
    graph_ids: Array  # uint64 [n]
    sizes: Array  # uint32 [n * components]
    real_rows: Sequence[int]
    rows: Sequence[int]
    tensors: dict[str, Array]
    is_padding: bool = False
    is_redelivered: bool = False
    graphs_of_step: int = 0
    shape: int = 0
    # The id and the level of each.
    drawn_smaller: Sequence[tuple[int, int]] = ()
    # The own types of tensors that travel in a narrow one.
    declared: Mapping[str, np.dtype[Any]] | None = None

    def as_wanted(self, *, widen: bool) -> ReceivedBatch:
        """Without `widen`, narrow tensors count as tensors of these types."""
        return self if widen or self.declared is None else self._replace(declared=None)

    def writable(self) -> ReceivedBatch:
        """With writable arrays of its own, each at a multiple of 64 bytes. Narrow tensors stay so."""
        graph_ids, sizes, *tensors = aligned_copies(
            [self.graph_ids, self.sizes, *self.tensors.values()]
        )
        return self._replace(
            graph_ids=graph_ids, sizes=sizes, tensors=dict(zip(self.tensors, tensors))
        )


def received(
    batch: Any,
    tensors: dict[str, Array],
    loaded: Any = None,
    declared: Mapping[str, np.dtype[Any]] | None = None,
) -> ReceivedBatch:
    """Of messages: a `packhouse.v1.Batch`, whose own tensors do not count, and a `LoadedBatch`.

    Raises ValueError if the ids or sizes are cut off.
    """
    parts = ReceivedBatch(
        batch.id,
        batch.epoch,
        batch.step,
        np.frombuffer(batch.graph_ids, GRAPH_IDS),
        np.frombuffer(batch.sizes, SIZES),
        batch.real_rows[:],
        batch.rows[:],
        tensors,
        declared=declared or None,
    )
    if loaded is None:
        return parts
    return parts._replace(
        is_padding=loaded.is_padding,
        is_redelivered=loaded.is_redelivered,
        graphs_of_step=loaded.graphs_of_step,
        shape=loaded.shape,
        drawn_smaller=tuple((each.graph_id, each.level) for each in loaded.drawn_smaller),
    )


def received_by_protobuf(batch: Any, loaded: Any = None) -> ReceivedBatch:
    """Of messages with their tensors, which are copied. Raises ValueError if a tensor contradicts
    itself.
    """
    tensors = {}
    declared = {}
    for tensor in batch.tensors:
        dtype = declared_type(tensor.name, tensor.dtype, tensor.declared_dtype)
        if dtype is not None:
            declared[tensor.name] = dtype
        # Each access of a bytes field copies it: read it once, then view that copy.
        data = tensor.data
        array = np.frombuffer(data, DType(tensor.dtype).numpy)
        try:
            tensors[tensor.name] = array.reshape(tuple(tensor.shape))
        except OverflowError as error:
            raise ValueError(f"tensor {tensor.name!r}: shape {list(tensor.shape)}") from error
    return received(batch, tensors, loaded, declared)


# Of the tensors that a repr names.
_MAX_SHOWN: Final = 8
# Of the graphs whose ids it has.
_MAX_IDS: Final = 4

_AnyBatch = TypeVar("_AnyBatch", bound="Batch")


class Padding(Choice):
    """How a batch is brought to a fixed shape; "none", "masked", "graph", "tfgnn" do as well.

    - NONE: no padding. Tensors have as many rows as there is real data.
    - MASKED: every tensor has as many rows as its component's limit, so that all batches have one
      shape. The real rows come first; `Batch.mask` tells them from the others. Padding rows hold
      the tensor's `padding_value`. Padding rows of index tensors number the first padding row of
      the component that they point into. If that component is full they number its last row, a real
      one: then their messages must be masked.
    - GRAPH: as MASKED, but one graph and one row of each component that is pointed into are always
      kept free, so that padding edges never touch a real node. The first padding graph has all
      spare rows, those after it are empty: what `jraph.pad_with_graphs` does. A limit of 222 nodes
      takes graphs of 221.
    - TFGNN: what `tfgnn.pad_to_total_sizes` does. As GRAPH, but padding rows of index tensors are
      spread over the padding rows that they point into. Components of ragged features (see
      `packhouse.tfgnn.table`) may be without a limit: they are not padded, and have as many rows as
      there is real data.
    """

    NONE = 1
    MASKED = 2
    GRAPH = 3
    TFGNN = 4


class DerivedTensor(Choice):
    """Tensors that the server computes for each batch; their names in lower case do as well.

    They come after the schema's tensors in `Batch.tensors`, for each component `c` (`nodes`, ...):

    - ROW_COUNTS: `c/counts`, int32 [graphs]: rows of c in each graph. Padding rows count for the
      first padding graph with Padding.GRAPH and TFGNN, for no graph with Padding.MASKED.
    - GRAPH_INDEX: `c/graph`, int32 [rows]: the graph of each row of c (PyG's `batch`). Padding rows
      belong to the first padding graph, or to the last graph if all graphs are real.
    - ROW_OFFSETS: `c/offsets`, int32 [graphs + 1]: sums of `c/counts` (PyG's `ptr`): the first row
      of each graph, then the end of the last one.
    - MASKS: `c/mask`, bool [rows], and `graphs/mask`, bool [graphs]: true for real rows. As the
      real rows come first, `Batch.mask` gives the same without a byte sent.
    """

    ROW_COUNTS = 1
    GRAPH_INDEX = 2
    ROW_OFFSETS = 3
    MASKS = 4


PaddingLike = Union[Padding, Literal["none", "masked", "graph", "tfgnn"]]
DerivedLike = Union[DerivedTensor, str, Sequence[Union[DerivedTensor, str]]]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Batch:
    """A pack's graphs joined and padded. `batch["x"]` is the tensor x.

    `len(batch)` and `num_graphs` are the real graphs in it. `real_rows` and `rows` (padding
    included) are per component, `graphs` last. `tensors` holds the schema's tensors and then the
    derived ones, by name; it is empty for a stream of sizes. Where batches were asked for with
    `compact=True`, an integer tensor travels in a narrow type, and becomes an array of its own, of
    the type in the schema, when it is first asked for; with `widen=False` it is as it came.

    Arrays are read-only views of the received message, which stays as long as one of them. They
    begin at any address. To write to them, or to give them to a framework that writes to them or
    copies what is not aligned, ask for `writable=True` where batches are ordered, or take
    `batch.writable()`.
    """

    schema: GraphSchema
    id: int
    epoch: int
    step: int
    graph_ids: npt.NDArray[np.uint64]  # [n]
    sizes: npt.NDArray[np.uint32]  # [n, l]
    real_rows: dict[str, int]
    rows: dict[str, int]
    tensors: Mapping[str, Array]

    @staticmethod
    def from_proto(message: Any, schema: GraphSchema) -> Batch:
        """Views a `packhouse.v1.Batch`. Raises ValueError if it contradicts itself."""
        return Batch.of_parts(received_by_protobuf(message), schema)

    @staticmethod
    def of_parts(parts: ReceivedBatch, schema: GraphSchema) -> Batch:
        """What a reader of `Pack` has read. Raises ValueError likewise."""
        return Batch._make(fields_of(parts, schema))

    @classmethod
    def _make(cls: type[_AnyBatch], fields: dict[str, Any]) -> _AnyBatch:
        """As the constructor, in a third of the time: it runs for each batch received."""
        batch = object.__new__(cls)
        # The dict itself: taking it over is cheaper than a copy.
        object.__setattr__(batch, "__dict__", fields)
        return batch

    def __len__(self) -> int:
        """Real graphs in the batch."""
        return len(self.graph_ids)

    def __getitem__(self, name: str) -> Array:
        """The tensor of that name. Raises KeyError, which says what there is."""
        try:
            return self.tensors[name]
        except KeyError:
            raise KeyError(f"no tensor {name!r} in the batch: it has {list(self.tensors)}") from None

    def __contains__(self, name: object) -> bool:
        return name in self.tensors

    # Otherwise iterating would ask for tensors 0, 1, ...
    __iter__: ClassVar[None] = None

    def keys(self) -> KeysView[str]:
        """The tensors' names; so `dict(batch)` and `f(**batch)` work."""
        return self.tensors.keys()

    def __repr__(self) -> str:
        efficiency = self.efficiency
        rows = ", ".join(
            f"{self.real_rows[name]:,} of {rows:,} {name} ({100 * efficiency[name]:.1f} %)"
            for name, rows in self.rows.items()
        )
        ids = ", ".join(map(str, self.graph_ids[:_MAX_IDS].tolist()))
        if len(self.graph_ids) > _MAX_IDS:
            ids += ", ..."
        rows += f"; ids {ids or 'none'}"
        shown = [
            f"{name}: {dtype}{list(tensor.shape)}"
            for name, tensor, dtype in sources_of(self.tensors)[:_MAX_SHOWN]
        ]
        if len(self.tensors) > _MAX_SHOWN:
            shown.append(f"{len(self.tensors) - _MAX_SHOWN} more")
        tensors = f"; {', '.join(shown)}" if shown else ""
        return f"{type(self).__name__}({self.id}: {rows}{tensors})"

    @property
    def num_graphs(self) -> int:
        """Real graphs in the batch: `len(batch)`."""
        return len(self.graph_ids)

    def mask(self, component: str) -> npt.NDArray[np.bool_]:
        """bool [rows]: which rows of a component (or `graphs`) are real. Raises KeyError."""
        return np.arange(self.rows[component]) < self.real_rows[component]

    def writable(self: _AnyBatch) -> _AnyBatch:
        """This batch with writable arrays of its own, each at a multiple of 64 bytes."""
        sources = sources_of(self.tensors)
        names = [name for name, _, _ in sources]
        graph_ids, sizes, *tensors = aligned_copies(
            [self.graph_ids, self.sizes, *(array for _, array, _ in sources)],
            [self.graph_ids.dtype, self.sizes.dtype, *(dtype for _, _, dtype in sources)],
        )
        fields = dict(self.__dict__)
        fields.update(graph_ids=graph_ids, sizes=sizes, tensors=dict(zip(names, tensors)))
        return type(self)._make(fields)

    @property
    def efficiency(self) -> dict[str, float]:
        """Real rows / rows, per component; 1 where there are no rows."""
        return {
            name: self.real_rows[name] / rows if rows else 1.0 for name, rows in self.rows.items()
        }

    @property
    def nbytes(self) -> int:
        """Bytes of ids, sizes and tensors; of narrow ones, as widened."""
        columns = sum(
            tensor.size * dtype.itemsize for _, tensor, dtype in sources_of(self.tensors)
        )
        return self.graph_ids.nbytes + self.sizes.nbytes + columns

    def with_tensors(self: _AnyBatch, tensors: Mapping[str, Array]) -> _AnyBatch:
        """The batch with these arrays in place of its own, for those who have copied them."""
        fields = dict(self.__dict__)
        fields.update(tensors=dict(tensors))
        return type(self)._make(fields)

    def without_tensors(self: _AnyBatch) -> _AnyBatch:
        """The batch without its tensors, for those who convert them. Holds no received message."""
        fields = dict(self.__dict__)
        fields.update(graph_ids=self.graph_ids.copy(), sizes=self.sizes.copy(), tensors={})
        return type(self)._make(fields)

    def unbatch(self) -> GraphTable:
        """The real graphs in batch order, as they were sent: padding dropped, indices unshifted.

        Columns other than index tensors are views. From a stream of sizes: ids and sizes alone.
        """
        if not self.tensors:
            return GraphTable(
                GraphSchema(self.schema.components), self.sizes, graph_ids=self.graph_ids
            )
        columns: dict[str, Array] = {}
        for spec in self.schema.tensors:
            rows = rows_of(self.tensors[spec.name], spec, 0, self.real_rows[spec.component])
            if spec.index_into is not None:
                rows = rows - shift_of_rows(self.schema, self.sizes, spec).astype(rows.dtype)
            columns[spec.name] = rows
        return GraphTable(self.schema, self.sizes, columns, self.graph_ids)


def fields_of(parts: ReceivedBatch, schema: GraphSchema) -> dict[str, Any]:
    """The fields of a Batch. Raises ValueError if it contradicts itself."""
    # As a tuple: names cost as much as all else here.
    number, epoch, step, graph_ids, sizes, real_rows, rows, tensors, _, _, _, _, _, declared = parts
    components = schema.all_components
    if len(real_rows) != len(components) or len(rows) != len(components):
        raise ValueError(
            f"a batch of {len(components)} components has {len(real_rows)} counts of real rows and "
            f"{len(rows)} of rows"
        )
    return {
        "schema": schema,
        "id": number,
        "epoch": epoch,
        "step": step,
        "graph_ids": graph_ids,
        "sizes": sizes.reshape(len(graph_ids), len(components) - 1),
        "real_rows": dict(zip(components, real_rows)),
        "rows": dict(zip(components, rows)),
        "tensors": tensors if declared is None else WideTensors(tensors, declared),
    }

"""A padded batch as numpy arrays, and the way back to its graphs."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Final, KeysView, Literal, Mapping, Sequence, TypeVar, Union

import numpy as np
import numpy.typing as npt

from packhouse.base.aligned import aligned_copies
from packhouse.base.arguments import Choice
from packhouse.data.graphs import Array, GraphTable, rows_of, shift_of_rows
from packhouse.data.received_batch import ReceivedBatch, received_by_protobuf
from packhouse.data.schema import GraphSchema
from packhouse.data.wide_tensors import WideTensors, sources_of

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
    components = schema.all_components
    graph_ids = parts.graph_ids
    if len(parts.real_rows) != len(components) or len(parts.rows) != len(components):
        raise ValueError(
            f"a batch of {len(components)} components has {len(parts.real_rows)} counts of real "
            f"rows and {len(parts.rows)} of rows"
        )
    return {
        "schema": schema,
        "id": parts.id,
        "epoch": parts.epoch,
        "step": parts.step,
        "graph_ids": graph_ids,
        "sizes": parts.sizes.reshape(len(graph_ids), len(components) - 1),
        "real_rows": dict(zip(components, parts.real_rows)),
        "rows": dict(zip(components, parts.rows)),
        "tensors": (
            parts.tensors
            if parts.declared is None
            else WideTensors(parts.tensors, parts.declared)
        ),
    }

"""A padded batch as numpy arrays, and the way back to its graphs."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from packhouse.batch_reader import ReceivedBatch
from packhouse.graphs import Array, GraphTable, shift_of_rows
from packhouse.schema import DType, GraphSchema

_GRAPH_IDS: Final = np.dtype("<u8")
_SIZES: Final = np.dtype("<u4")


class Padding(enum.IntEnum):
    """How a batch is brought to a fixed shape; see `packhouse.v1.Padding`."""

    NONE = 1
    MASKED = 2
    GRAPH = 3


class DerivedTensor(enum.IntEnum):
    """Tensors the server computes for each batch; see `packhouse.v1.DerivedTensor`."""

    ROW_COUNTS = 1
    GRAPH_INDEX = 2
    ROW_OFFSETS = 3
    MASKS = 4


@dataclasses.dataclass(frozen=True, eq=False)
class Batch:
    """A pack's graphs joined and padded.

    Arrays are read-only views of the received message, which stays as long as one of them. They
    begin at any address: where an element must lie at a multiple of its size, copy them.

    `real_rows` and `rows` (padding included) are per component, `graphs` last. `tensors` holds the
    schema's tensors and then the derived ones, by name; it is empty for a stream of sizes.
    """

    schema: GraphSchema
    id: int
    epoch: int
    step: int
    graph_ids: npt.NDArray[np.uint64]  # [n]
    sizes: npt.NDArray[np.uint32]  # [n, l]
    real_rows: dict[str, int]
    rows: dict[str, int]
    tensors: dict[str, Array]

    @staticmethod
    def from_proto(message: Any, schema: GraphSchema) -> Batch:
        """Views a `packhouse.v1.Batch`. Raises ValueError if it contradicts itself."""
        return Batch._make(fields_of(message, tensors_of(message), schema))

    @staticmethod
    def of_parts(parts: ReceivedBatch, schema: GraphSchema) -> Batch:
        """Joins what a BatchReader of `Pack` has read. Raises ValueError likewise."""
        return Batch._make(fields_of(parts.head, parts.tensors, schema))

    @classmethod
    def _make(cls, fields: dict[str, Any]) -> Self:
        """As the constructor, in a third of the time: there is one for each batch received."""
        batch = object.__new__(cls)
        batch.__dict__.update(fields)
        return batch

    def __len__(self) -> int:
        """Real graphs in the batch."""
        return len(self.graph_ids)

    @property
    def efficiency(self) -> dict[str, float]:
        """Real rows / rows, per component; 1 where there are no rows."""
        return {
            name: self.real_rows[name] / rows if rows else 1.0 for name, rows in self.rows.items()
        }

    @property
    def nbytes(self) -> int:
        """Bytes of ids, sizes and tensors."""
        columns = sum(tensor.nbytes for tensor in self.tensors.values())
        return self.graph_ids.nbytes + self.sizes.nbytes + columns

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
            rows = self.tensors[spec.name][: self.real_rows[spec.component]]
            if spec.index_into is not None:
                rows = rows - shift_of_rows(self.schema, self.sizes, spec).astype(rows.dtype)
            columns[spec.name] = rows
        return GraphTable(self.schema, self.sizes, columns, self.graph_ids)


def tensors_of(message: Any) -> dict[str, Array]:
    """Those of a `packhouse.v1.Batch`, by name. Raises ValueError if one contradicts itself."""
    tensors = {}
    for tensor in message.tensors:
        # Each access of a bytes field copies it: read it once, then view that copy.
        data = tensor.data
        array = np.frombuffer(data, DType(tensor.dtype).numpy)
        try:
            tensors[tensor.name] = array.reshape(tuple(tensor.shape))
        except OverflowError as error:
            raise ValueError(f"tensor {tensor.name!r}: shape {list(tensor.shape)}") from error
    return tensors


def fields_of(message: Any, tensors: dict[str, Array], schema: GraphSchema) -> dict[str, Any]:
    """A Batch's fields, of a `packhouse.v1.Batch` whose tensors are `tensors`."""
    graph_ids = np.frombuffer(message.graph_ids, _GRAPH_IDS)
    sizes = np.frombuffer(message.sizes, _SIZES)
    components = schema.all_components
    return {
        "schema": schema,
        "id": message.id,
        "epoch": message.epoch,
        "step": message.step,
        "graph_ids": graph_ids,
        "sizes": sizes.reshape(len(graph_ids), len(schema.components)),
        "real_rows": dict(zip(components, message.real_rows[:], strict=True)),
        "rows": dict(zip(components, message.rows[:], strict=True)),
        "tensors": tensors,
    }

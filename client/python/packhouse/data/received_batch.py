"""A batch as it was received, before it is joined with its schema."""

from __future__ import annotations

from typing import Any, Final, Mapping, NamedTuple, Sequence

import numpy as np

from packhouse.base.aligned import aligned_copies
from packhouse.data.graphs import Array
from packhouse.data.schema import DType
from packhouse.data.wide_tensors import declared_type

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

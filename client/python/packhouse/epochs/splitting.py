"""A batch in several smaller ones, for a device that it did not fit."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any, Final

import numpy as np

from packhouse.calls.channel import await_server, make_channel
from packhouse.calls.servers import Replicas
from packhouse.data.batch import Batch, DerivedTensor, Padding
from packhouse.epochs.connecting import Connecting
from packhouse.epochs.loaded_batch import LoadedBatch
from packhouse.planning.pack_options import PackOptions
from packhouse.planning.packing import pack_method, pack_tables

# For a server to take the connection.
_CONNECT_SECONDS: Final = 10.0


@dataclasses.dataclass(frozen=True, eq=False)
class MicroBatch(Batch):
    """Some of the graphs of a batch, in a smaller shape.

    The sum over a batch's micro-batches of loss_weight * (mean loss of the micro-batch) is the mean
    loss of the batch; the weights add up to one. `LoadedBatch.loss_weight` comes on top.
    """

    loss_weight: float


def split_batch(
    connecting: Connecting,
    batch: LoadedBatch,
    parts: int,
    padding: Padding,
    derived: list[DerivedTensor],
) -> list[MicroBatch]:
    """The graphs of `batch`, each in one of at least two micro-batches, packed by the server.

    See `Loader.split`.
    """
    if parts < 2:
        raise ValueError(f"parts {parts}: a batch is split in 2 or more")
    if len(batch) < 2:
        raise ValueError(f"a batch of {len(batch)} graphs cannot be split")
    table = batch.unbatch()
    limits = smaller_limits(batch, parts, padding)
    options = PackOptions(
        limits=limits, padding=padding, derived=derived, look_ahead=min(len(batch), 16384)
    )
    address = Replicas(connecting.address).first
    channel = make_channel(
        address,
        max_message_bytes=connecting.max_message_bytes,
        options=connecting.options,
        credentials=connecting.credentials,
    )
    with contextlib.closing(channel):
        await_server(channel, address, _CONNECT_SECONDS)
        # Arrays that outlive the stream.
        packed = [
            each.writable() for each in pack_tables(pack_method(channel), (table,), options)
        ]
    return [_weighed(each, batch) for each in packed]


def smaller_limits(batch: Batch, parts: int, padding: Padding) -> dict[str, int]:
    """`batch`'s rows over `parts`, or the least multiple of that which takes each of its graphs.

    So batches of one shape are split to at most `parts` - 1 shapes. Raises ValueError if a graph
    needs all of the batch's rows: then nothing smaller takes it.
    """
    kept_free = 1 if padding in (Padding.GRAPH, Padding.TFGNN) else 0
    largest = dict(zip(batch.schema.components, np.max(batch.sizes, axis=0).tolist()))
    largest["graphs"] = 1
    for times in range(1, parts):
        limits = {name: -(-rows * times // parts) for name, rows in batch.rows.items()}
        # All graphs together must not fit one.
        limits["graphs"] = min(limits["graphs"], len(batch) - 1 + kept_free)
        if all(limits[name] >= rows + kept_free for name, rows in largest.items()):
            return {name: rows for name, rows in limits.items() if rows}
    raise ValueError(
        f"a graph of the batch needs nearly all of its rows ({largest} of {batch.rows}): split in "
        "more parts, or raise the limits"
    )


def _weighed(packed: Batch, whole: LoadedBatch) -> MicroBatch:
    fields: dict[str, Any] = dict(packed.__dict__)
    fields.update(
        epoch=whole.epoch, step=whole.step, loss_weight=len(packed) / max(len(whole), 1)
    )
    return MicroBatch._make(fields)

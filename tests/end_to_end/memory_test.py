"""Clients that stop reading do not fill the server's memory."""

from __future__ import annotations

import os
from typing import Iterator

import grpc
import pytest
from server_process import ServerProcess

from packhouse.v1 import batch_pb2, graphs_pb2, packing_pb2, packing_pb2_grpc, sizes_pb2

STREAMS = 8
ROW_BYTES = 1 << 20
ROWS_PER_STREAM = 400


def requests(sent: list[int], stream: int) -> Iterator[packing_pb2.PackRequest]:
    """One graph a batch, a row of 1 MiB each: 400 MiB for a server without back-pressure."""
    schema = graphs_pb2.GraphSchema(
        tensors=[
            graphs_pb2.TensorSpec(
                name="x",
                dtype=graphs_pb2.DATA_TYPE_UINT8,
                row_shape=[ROW_BYTES],
                component="graphs",
            )
        ]
    )
    limits = batch_pb2.Limits(capacities=[batch_pb2.Capacity(component="graphs", rows=1)])
    yield packing_pb2.PackRequest(
        open=packing_pb2.PackOpen(schema=schema, limits=limits, look_ahead=1)
    )
    row = bytes(ROW_BYTES)
    for i in range(ROWS_PER_STREAM):
        sent[stream] = i
        yield packing_pb2.PackRequest(
            graphs=graphs_pb2.GraphChunk(
                sizes=sizes_pb2.SizeTable(num_graphs=1, first_id=i),
                tensors=[graphs_pb2.TensorData(name="x", data=row)],
            )
        )


@pytest.mark.skipif(
    "PACKHOUSE_SANITIZE" in os.environ, reason="sanitizers keep freed memory for a while"
)
def test_stalled_readers_hold_bounded_memory() -> None:
    with ServerProcess() as server:
        before = server.peak_memory_bytes()
        sent = [0] * STREAMS
        channels = [
            grpc.insecure_channel(
                server.address,
                options=[("grpc.max_receive_message_length", -1), ("stream", i)],
            )
            for i in range(STREAMS)
        ]
        # Nobody reads; each stream ends by its deadline, long after it could have sent all.
        calls = [
            packing_pb2_grpc.PackingServiceStub(channel).Pack(requests(sent, i), timeout=4)
            for i, channel in enumerate(channels)
        ]
        for call in calls:
            assert call.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        for channel in channels:
            channel.close()
        grown = server.peak_memory_bytes() - before
        assert max(sent) < ROWS_PER_STREAM - 1, "nothing held the senders back"
        # Per stream: a chunk read ahead, one at work, two batches unsent, what is on the wire and
        # the allocator's share of it.
        assert grown < STREAMS * 16 * ROW_BYTES, f"{grown >> 20} MiB for {sent} rows sent"
        print(f"{grown >> 20} MiB for {STREAMS} stalled readers, rows sent: {sent}")

"""Source graphs: what is drawn from them and looked up in them takes memory of the budget, and
leaves others theirs."""

from __future__ import annotations

import collections
import contextlib
import threading
import time
from typing import Callable, Final, Iterator

import grpc
import numpy as np
from abuse import Abuse, Row, law, scenario
from hostile import Forwarder, MemorySampler, own_channel, raw_unary
from packhouse import Client, SourceColumn, SourceEdgeSet, SourceGraphSchema, SourceNodeSet
from packhouse.base.errors import passes
from packhouse.large.source_graph import EdgeRows, NodeRows
from packhouse.v1 import histogram_pb2, sampling_pb2, sampling_pb2_grpc, source_graph_pb2

_MIB: Final = 1 << 20
_BUDGET: Final = 512 * _MIB
_BOUND: Final = int(_BUDGET * 1.15) + 128 * _MIB
_NODES: Final = 50_000
_GRAPH: Final = "g"
_CLIENTS: Final = 4
# More than anybody has neighbours.
_ALL: Final = (1 << 31) - 1

Attack = Callable[[grpc.Channel, int], object]


def _fill(address: str) -> None:
    """Node 0 is beside all others, and each of those beside some."""
    random = np.random.default_rng(0)
    others = np.arange(1, _NODES)
    with Client(address) as client:
        schema = SourceGraphSchema(
            (SourceNodeSet("n", (SourceColumn("x", "float32", (32,)),)),),
            (SourceEdgeSet("e", "n", "n"),),
        )
        client.source_graphs.create(_GRAPH, schema)
        sources = np.concatenate([np.zeros_like(others), np.repeat(others, 6)])
        targets = np.concatenate([others, random.integers(0, _NODES, 6 * len(others))])
        features = np.zeros((_NODES, 32), np.float32)
        rows = [NodeRows("n", np.arange(_NODES), {"x": features}), EdgeRows("e", sources, targets)]
        client.source_graphs.append(_GRAPH, rows)
        client.source_graphs.seal(_GRAPH)


def _sub_graphs(hops: int) -> sampling_pb2.SubGraphs:
    """Whole neighbourhoods."""
    text = 'seed_op { op_name: "0" node_set_name: "n" }'
    for hop in range(hops):
        text += (
            f' sampling_ops {{ op_name: "{hop + 1}" input_op_names: "{hop}" edge_set_name: "e"'
            f" sample_size: {_ALL} strategy: RANDOM_UNIFORM }}"
        )
    return sampling_pb2.SubGraphs(graph=_GRAPH, text=text)


def _estimate(channel: grpc.Channel, number: int) -> object:
    request = sampling_pb2.EstimateSizesRequest(
        sub_graphs=_sub_graphs(5), num_graphs=1 << 16, seed=number
    )
    return sampling_pb2_grpc.SamplingServiceStub(channel).EstimateSizes(request, timeout=10)


def _sample(channel: grpc.Channel, number: int) -> object:
    def requests() -> Iterator[sampling_pb2.SampleRequest]:
        opening = sampling_pb2.SampleOpen(sub_graphs=_sub_graphs(3), seed=number)
        yield sampling_pb2.SampleRequest(open=opening)
        for first in range(0, 1 << 14, 512):
            # Each of them draws the node that is beside all others.
            request = sampling_pb2.SampleRequest()
            request.seeds.seeds.numbers = bytes(4 * 512)
            request.seeds.first_id = first
            yield request

    return list(sampling_pb2_grpc.SamplingServiceStub(channel).Sample(requests(), timeout=10))


_LOOKUP: Final = source_graph_pb2.LookupNodesRequest(
    graph=_GRAPH, node_set="n", numbers=bytes(60 * _MIB), all_columns=True
).SerializeToString()


def _look_up(channel: grpc.Channel, _number: int) -> object:
    return raw_unary(channel, "packhouse.v1.SourceGraphService/LookupNodes")(_LOOKUP, timeout=10)


def _run(
    abuse: Abuse, address: str, pid: int, name: str, attack: Attack, others: int
) -> Iterator[Row]:
    """Several clients attack, until another one's calls have been answered so often.

    When calls that are being received take too much memory, gRPC closes connections between two
    calls, and ends calls whoever made them. Clients then call again: that is no answer, and may
    happen now and then.
    """
    ended = threading.Event()

    def hostile(number: int) -> None:
        with own_channel(address, number) as channel:
            while not ended.is_set():
                with contextlib.suppress(grpc.RpcError):
                    attack(channel, number)

    codes: collections.Counter[str] = collections.Counter()
    not_answered = 0
    until = time.monotonic() + (0 if abuse.is_short else abuse.seconds / 3)
    threads = [threading.Thread(target=hostile, args=(number,)) for number in range(_CLIENTS)]
    with MemorySampler(pid) as memory, Forwarder(address, 2) as other:
        for thread in threads:
            thread.start()
        with own_channel(other.address) as channel:
            call = raw_unary(channel, "packhouse.v1.HistogramService/GetHistogram")
            asked = histogram_pb2.GetHistogramRequest(histogram="none").SerializeToString()
            while sum(codes.values()) < others or time.monotonic() < until:
                try:
                    call(asked, timeout=60)
                except grpc.RpcError as error:
                    name = error.code().name
                    if name != "DEADLINE_EXCEEDED" and passes(name, error.details()):
                        not_answered += 1
                    else:
                        codes[name] += 1
        ended.set()
        for thread in threads:
            thread.join()
    yield law(
        f"{name}: another client's calls",
        ", ".join(f"{count} {code}" for code, count in sorted(codes.items()))
        + f", {not_answered} not answered",
        f"NOT_FOUND, at most {others // 2} not answered",
        set(codes) == {"NOT_FOUND"} and 2 * not_answered <= others,
    )
    seen = f"peak {memory.peak >> 20} MiB"
    yield law(f"{name}: memory", seen, f"{_BOUND >> 20} MiB", memory.peak <= _BOUND)


@scenario
def source_graphs(abuse: Abuse) -> Iterator[Row]:
    """Whole neighbourhoods of a node that is beside all others, and lookups of millions of rows."""
    flags = (f"--memory-budget={_BUDGET}", "--max-message-bytes=67108864")
    with abuse.server(*flags, data=True) as server:
        _fill(server.address)
        pid = server.process.pid
        yield from _run(abuse, server.address, pid, "sizes of whole graphs", _estimate, 200)
        yield from _run(abuse, server.address, pid, "whole graphs", _sample, 200)
        yield from _run(abuse, server.address, pid, "large lookups", _look_up, 30)

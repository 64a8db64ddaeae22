"""Clients of lanes that lie, write where they like, and never release."""

from __future__ import annotations

import collections
import contextlib
import itertools
import pathlib
import random
import re
import tempfile
import threading
import time
from typing import Any, Final, Iterable, Iterator

import grpc
import numpy as np
from abuse import Abuse, Row, law, scenario
from hostile import MemorySampler, anonymous_bytes, lane_bytes, own_channel
from hostile_lanes import (
    DEEDS,
    LIES,
    LOAD_DEEDS,
    PACK_DEEDS,
    HostileLane,
    HostileLoad,
    HostilePack,
    connected,
    knock,
    never_releases,
)
from packhouse import Batch, Client, Evaluation, GraphSchema, GraphTable, PackOptions, TensorSpec
from packhouse.v1 import batch_pb2, loader_pb2, loader_pb2_grpc
from server_process import ServerProcess

# So large that few batches are made before a lane is open.
_WIDTH: Final = 16384
_GRAPHS: Final = 120
_LIMITS: Final = {"graphs": 4}
_HOSTILE_THREADS: Final = 3
# Of clients whose lanes have more memory than there is.
_STREAMS: Final = 64
_BUDGET: Final = 256 << 20
_BOUND: Final = int(_BUDGET * 1.1)


def _graphs(parts: int = 1) -> GraphTable:
    """So many times as many graphs as usual, in as many bytes."""
    width = _WIDTH // parts
    schema = GraphSchema(("nodes",), (TensorSpec("x", "float32", "nodes", (width,)),))
    return GraphTable.from_graphs(
        schema,
        [{"x": np.full((3, width), number, np.float32)} for number in range(_GRAPHS * parts)],
    )


def _fill(address: str, name: str = "set", parts: int = 1) -> None:
    graphs = _graphs(parts)
    with Client(address) as client:
        client.datasets.create(name, graphs.schema)
        client.datasets.append(name, graphs)
        client.datasets.seal(name)


def _request() -> loader_pb2.LoadRequest:
    request = loader_pb2.LoadRequest()
    request.epoch.dataset = "set"
    shape = request.epoch.rank_groups.add().shapes.add()
    shape.capacities.add(component="graphs", rows=4)
    request.evaluation.ranked.num_ranks = 1
    return request


def _is_as_stored(batches: Iterable[Batch]) -> bool:
    """Whether they have each graph once, with its values, also after others have come."""
    kept = list(batches)
    ids = sorted(int(each) for batch in kept for each in batch.graph_ids)
    return ids == list(range(_GRAPHS)) and all(
        (batch["x"] == np.repeat(batch.graph_ids, 3)[:, np.newaxis]).all() for batch in kept
    )


def _left(server: ServerProcess) -> tuple[int, int, int]:
    """Descriptors, mappings of lanes, and slots that clients have or streams that have lanes."""
    process = pathlib.Path(f"/proc/{server.process.pid}")
    metrics = server.get("/metrics")[1]
    return (
        len(list((process / "fd").iterdir())),
        (process / "maps").read_text(encoding="utf-8").count("packhouse-lane"),
        sum(map(int, re.findall(r"^packhouse_lane_(?:streams|slots)\S* (\d+)", metrics, re.M))),
    )


def _settled(server: ServerProcess, most_descriptors: int) -> tuple[int, int, int]:
    """What is left of clients that have gone: soon, or after a minute."""
    end = time.monotonic() + 60
    while True:
        left = _left(server)
        if (left[0] <= most_descriptors and left[1:] == (0, 0)) or time.monotonic() > end:
            return left


@scenario
def hostile_lanes(abuse: Abuse) -> Iterator[Row]:
    """Whatever some clients do with their lanes, another one has its batches."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        server = stack.enter_context(abuse.server("--lane", f"unix:{folder}/lane", data=True))
        _fill(server.address)
        honest = Evaluation(server.address, dataset="set", limits=_LIMITS, lane="auto")
        assert _is_as_stored(honest)
        before = _settled(server, 10**6)[0]
        end = time.monotonic() + (2 if abuse.is_short else abuse.seconds)
        endings: collections.Counter[str] = collections.Counter()
        failures: list[BaseException] = []

        def attack(seed: int) -> None:
            draws = random.Random(seed)
            rounds = 0
            # Some deeds are of both kinds of streams.
            deeds: list[tuple[bool, Any]] = [
                *((is_pack, deed) for deed in DEEDS for is_pack in (False, True)),
                *((False, deed) for deed in LOAD_DEEDS),
                *((True, deed) for deed in PACK_DEEDS),
            ]
            with own_channel(server.address) as channel:
                while time.monotonic() < end or rounds < len(deeds):
                    is_pack, deed = deeds[rounds % len(deeds)]
                    rounds += 1
                    knock(f"{folder}/lane", draws)
                    # Errors: the server has ended it.
                    with contextlib.suppress(OSError, StopIteration, grpc.RpcError):
                        with HostilePack(channel) if is_pack else HostileLoad(
                            channel, _request()
                        ) as lane:
                            deed(lane, draws)
                            if deed in LIES:
                                endings[lane.ends()] += 1

        def attacking(seed: int) -> None:
            try:
                attack(seed)
            except BaseException as error:
                failures.append(error)
                raise

        hostile = [
            threading.Thread(target=attacking, args=(seed,)) for seed in range(_HOSTILE_THREADS)
        ]
        for thread in hostile:
            thread.start()
        packs = stack.enter_context(Client(server.address))
        graphs = _graphs()
        passes = [_is_as_stored(honest)]
        ways = collections.Counter({honest.transport: 1})
        while any(thread.is_alive() for thread in hostile):
            packed = packs.pack(graphs, PackOptions(_LIMITS, lane="required"))
            passes += (_is_as_stored(honest), _is_as_stored(packed))
            # Those who knock may have its connection closed before it has shown its token: then it
            # knocks again.
            ways.update((honest.transport, packed.transport))
        packs.close()
        for thread in hostile:
            thread.join()
        yield law(
            f"passes beside {sum(endings.values())} streams that lied",
            f"{passes.count(True)} of {len(passes)} as stored, by {dict(ways)}",
            "all, by lane",
            all(passes) and set(ways) == {"lane"} and not failures,
        )
        yield law(
            "how streams end whose clients lie",
            str(dict(endings)),
            "INVALID_ARGUMENT, or OK if all was sent before",
            endings["INVALID_ARGUMENT"] > endings["OK"] and endings.total() == sum(
                endings[code] for code in ("INVALID_ARGUMENT", "OK")
            ),
        )
        descriptors, mappings, streams = _settled(server, before + 2)
        yield law(
            "descriptors, mappings, streams and slots left",
            f"{descriptors}, {mappings}, {streams}",
            f"{before + 2}, 0, 0",
            descriptors <= before + 2 and (mappings, streams) == (0, 0),
        )
        with connected(f"{folder}/lane"):
            alive = server.process.poll() is None
        yield law("the server", "lives" if alive else "has ended", "lives", alive)


def _open(stack: contextlib.ExitStack, address: str, number: int) -> HostileLane | None:
    """The lane of a stream with a connection of its own; None: the server has no memory for it, and
    batches come by gRPC. Either way the stream stays.
    """
    channel = stack.enter_context(own_channel(address, number, has_fixed_window=True))
    request = _request()
    request.lane = True
    # Some large lanes, and then smaller ones, until none has room.
    if number >= 24:
        request.epoch.dataset = "set" if number < 32 else "narrow"
        request.epoch.padding = batch_pb2.PADDING_MASKED
        shape = request.epoch.rank_groups[0].shapes[0]
        shape.capacities.add(component="nodes", rows=3)
    stream: Any = loader_pb2_grpc.LoaderServiceStub(channel).Load(request)
    stack.callback(stream.cancel)
    offer = next(stream).opened.lane
    return stack.enter_context(HostileLane(stream, offer)) if offer.socket_path else None


@scenario
def lanes_and_the_budget(abuse: Abuse) -> Iterator[Row]:
    """Streams whose clients read nothing, or keep every slot, take what the budget says, and no more of
    it than leaves the others theirs.
    """
    flags = (
        *(f"--memory-budget={_BUDGET}", f"--max-message-bytes={8 << 20}", "--max-streams=160"),
        "--max-connections-per-client=80",
    )
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        server = stack.enter_context(
            abuse.server(*flags, "--lane", f"unix:{folder}/lane", data=True)
        )
        _fill(server.address)
        _fill(server.address, "narrow", parts=16)
        honest = Evaluation(server.address, dataset="set", limits=_LIMITS, lane="auto")
        assert _is_as_stored(honest)
        before, pid = _settled(server, 10**6)[0], server.process.pid
        end = time.monotonic() + (0 if abuse.is_short else abuse.seconds)
        for seed in itertools.count():
            draws = random.Random(seed)
            with contextlib.ExitStack() as hostile:
                memory = hostile.enter_context(MemorySampler(pid, has_lanes=True))
                opened = [_open(hostile, server.address, number) for number in range(_STREAMS)]
                lanes = [lane for lane in opened if lane is not None]
                for lane in draws.sample(lanes, len(lanes) // 2):
                    never_releases(lane)
                    # So that all of its pages are there.
                    lane.memory[:] = bytes(len(lane.memory))
                # The plan of these words is made now.
                others = Evaluation(
                    server.address, dataset="set", limits={"graphs": 5 + seed % 50}, lane="auto"
                )
                passes = [_is_as_stored(each) for each in (honest, others, honest, others)]
            taken = sum(len(lane.memory) for lane in lanes)
            yield law(
                f"{len(lanes)} lanes of {_STREAMS} streams, of {taken >> 20} MiB: memory",
                f"{memory.peak >> 20} MiB",
                f"{_BOUND >> 20} MiB",
                memory.peak <= _BOUND and 4 < len(lanes) < _STREAMS,
            )
            yield law("others", f"{passes.count(True)} of 4 as stored", "all", all(passes))
            left = _settled(server, before + 2)
            left_bytes = anonymous_bytes(pid) + lane_bytes(pid) - memory.first
            yield law(
                "descriptors, mappings, streams and slots left, and memory",
                f"{left[0]}, {left[1]}, {left[2]}, {left_bytes >> 20} MiB",
                f"{before + 2}, 0, 0, 64 MiB",
                left[0] <= before + 2 and left[1:] == (0, 0) and left_bytes <= 64 << 20,
            )
            if time.monotonic() >= end:
                return

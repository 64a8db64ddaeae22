"""Clients of lanes (docs/lane.md) that do what no client should."""

from __future__ import annotations

import array
import contextlib
import mmap
import os
import queue
import random
import socket
import struct
import threading
from typing import Any, Callable, Final

import grpc
from packhouse.v1 import loader_pb2, loader_pb2_grpc, packing_pb2, packing_pb2_grpc

_PLACE: Final = struct.Struct("<IIQ")
_BY_CALL: Final = 2**32 - 1


def connected(path: str) -> socket.socket:
    """A connection that has said nothing."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made.settimeout(20)
    made.connect(path)
    return made


class _Opened:
    """A lane that has been opened."""

    def __init__(self, offer: loader_pb2.Lane) -> None:
        self.socket = connected(offer.socket_path)
        self.socket.send(b"PHL1" + offer.token)
        answer, passed, _, _ = self.socket.recvmsg(24, socket.CMSG_LEN(4))
        if not answer:
            raise ConnectionAbortedError("the stream has ended")
        _, self.num_slots, self.slot_bytes, self.num_before = struct.unpack("<4sIQQ", answer)
        (descriptor,) = array.array("i", passed[0][2])
        self.memory = mmap.mmap(descriptor, self.num_slots * self.slot_bytes)
        os.close(descriptor)


class HostileLane:
    """A stream with its lane, and all its batches' places so far."""

    def __init__(self, stream: Any, offer: loader_pb2.Lane) -> None:
        self._stream = stream
        self.offer = offer
        opened = _Opened(offer)
        self.socket, self.memory, self.num_slots = opened.socket, opened.memory, opened.num_slots
        for _ in range(opened.num_before - 1):
            next(self._stream)

    def take(self) -> int:
        """The slot of the next batch; -1: there is none."""
        message = self.socket.recv(_PLACE.size)
        if len(message) != _PLACE.size:
            return -1
        slot = _PLACE.unpack(message)[0]
        return -1 if slot == _BY_CALL else int(slot)

    def ends(self) -> str:
        """How the stream ends, once it does."""
        try:
            for _ in self._stream:
                pass
        except grpc.RpcError as error:
            return str(error.code().name)
        return "OK"

    def __enter__(self) -> HostileLane:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stream.cancel()
        self.socket.close()


class HostileLoad(HostileLane):
    """Of an evaluation."""

    def __init__(self, channel: grpc.Channel, request: loader_pb2.LoadRequest) -> None:
        request.lane = True
        stream: Any = loader_pb2_grpc.LoaderServiceStub(channel).Load(request, timeout=60)
        super().__init__(stream, next(stream).opened.lane)


class HostilePack(HostileLane):
    """Of a stream of graphs, with some of which it begins, and its lane for graphs."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        opening = packing_pb2.PackRequest()
        schema = opening.open.schema
        schema.components.append("nodes")
        schema.tensors.add(name="x", dtype="DATA_TYPE_FLOAT32", component="nodes", row_shape=[256])
        schema.tensors.add(
            name="i", dtype="DATA_TYPE_INT32", component="nodes", index_into="nodes"
        )
        opening.open.limits.capacities.add(component="graphs", rows=4)
        opening.open.look_ahead = 1
        self._requests.put(opening)
        stream: Any = packing_pb2_grpc.PackingServiceStub(channel).Pack(
            iter(self._requests.get, None),
            timeout=60,
            metadata=(("packhouse-lane", "1"), ("packhouse-lane-graphs", "1")),
        )
        assert next(stream).HasField("opened")
        offers = {
            name: loader_pb2.Lane.FromString(value)
            for name, value in stream.initial_metadata()
            if name.startswith("packhouse-lane")
        }
        super().__init__(stream, offers["packhouse-lane-bin"])
        self.graphs = _Opened(offers["packhouse-lane-graphs-bin"])
        for _ in range(6 * self.num_slots):
            self.sends(3)

    def sends(self, nodes: int, slot: int | None = None) -> None:
        """One graph, from a slot if there is one."""
        request = packing_pb2.PackRequest()
        graphs: Any = request.graphs if slot is None else request.slot_graphs
        if slot is None:
            graphs.tensors.add(name="x", data=bytes(nodes * 1024))
            graphs.tensors.add(name="i", data=bytes(nodes * 4))
        else:
            graphs.slot = slot
        graphs.sizes.num_graphs = 1
        graphs.sizes.counts = struct.pack("<I", nodes)
        self._requests.put(request)

    def ends(self) -> str:
        self._requests.put(None)
        return super().ends()

    def __exit__(self, *exc_info: object) -> None:
        self._requests.put(None)
        super().__exit__(*exc_info)
        self.graphs.socket.close()


def _names_a_slot_that_is_not_there(lane: HostilePack, draws: random.Random) -> None:
    lane.sends(3, draws.choice([lane.graphs.num_slots, 2**31, 2**32 - 1]))


def _says_more_than_a_slot_takes(lane: HostilePack, draws: random.Random) -> None:
    lane.sends(draws.choice([lane.graphs.slot_bytes // 1024, 2**31, 2**32 - 1]), 0)


def _writes_while_it_is_checked(lane: HostilePack, draws: random.Random) -> None:
    memory, over = lane.graphs.memory, threading.Event()

    def write() -> None:
        while not over.is_set():
            memory[:] = bytes([draws.randrange(256)]) * len(memory)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(40):
            lane.sends(draws.randrange(1, 900), number % lane.graphs.num_slots)
        lane.ends()
    finally:
        over.set()
        writer.join()


def _speaks_where_it_should_listen(lane: HostilePack, draws: random.Random) -> None:
    with contextlib.suppress(BlockingIOError):
        for _ in range(10_000):
            lane.graphs.socket.send(draws.randbytes(4), socket.MSG_DONTWAIT)
    lane.sends(3, 0)


def _closes_the_way_of_graphs(lane: HostilePack, draws: random.Random) -> None:
    lane.graphs.socket.close()
    lane.sends(3, 0)
    lane.ends()


def _writes_everywhere(lane: HostileLane, draws: random.Random) -> None:
    while (slot := lane.take()) >= 0:
        lane.memory[:] = bytes([draws.randrange(256)]) * len(lane.memory)
        lane.socket.send(struct.pack("<I", slot))


def _releases_twice(lane: HostileLane, draws: random.Random) -> None:
    slot = max(lane.take(), 0)
    lane.socket.send(struct.pack("<II", slot, slot))


def _releases_what_it_has_not(lane: HostileLane, draws: random.Random) -> None:
    lane.socket.send(struct.pack("<I", draws.choice([lane.num_slots, 2**31, 2**32 - 1])))


def _says_anything(lane: HostileLane, draws: random.Random) -> None:
    lane.socket.send(draws.randbytes(draws.choice([1, 3, 5, 4096, 100_000])))


def never_releases(lane: HostileLane, draws: random.Random | None = None) -> None:
    for _ in range(lane.num_slots):
        if lane.take() < 0:
            return


def _passes_descriptors(lane: HostileLane, draws: random.Random) -> None:
    passed = array.array("i", [0] * draws.randrange(1, 200))
    lane.socket.sendmsg(
        [struct.pack("<I", max(lane.take(), 0))],
        [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)],
    )


def _shows_the_token_again(lane: HostileLane, draws: random.Random) -> None:
    with connected(lane.offer.socket_path) as other:
        other.send(b"PHL1" + lane.offer.token)
        with contextlib.suppress(ConnectionResetError):
            assert other.recv(24) == b"", "a token was good twice"


DEEDS: Final[tuple[Callable[[HostileLane, random.Random], None], ...]] = (
    *(_releases_twice, _releases_what_it_has_not, _says_anything, never_releases),
    *(_passes_descriptors, _shows_the_token_again),
)

LOAD_DEEDS: Final[tuple[Callable[[HostileLoad, random.Random], None], ...]] = (_writes_everywhere,)

PACK_DEEDS: Final[tuple[Callable[[HostilePack, random.Random], None], ...]] = (
    *(_names_a_slot_that_is_not_there, _says_more_than_a_slot_takes, _writes_while_it_is_checked),
    *(_speaks_where_it_should_listen, _closes_the_way_of_graphs),
)

# The stream ends for these.
LIES: Final = (
    *(_releases_twice, _releases_what_it_has_not, _says_anything),
    *(_names_a_slot_that_is_not_there, _says_more_than_a_slot_takes),
)


def knock(path: str, draws: random.Random) -> None:
    """Connections without a token, or with a wrong one."""
    sayings = (b"", b"PHL1", b"PHL1" + draws.randbytes(16), draws.randbytes(20), bytes(100_000))
    with contextlib.ExitStack() as stack:
        for _ in range(draws.randrange(1, 100)):
            with contextlib.suppress(OSError):
                silent = stack.enter_context(connected(path))
                if draws.random() < 0.5:
                    silent.send(draws.choice(sayings))

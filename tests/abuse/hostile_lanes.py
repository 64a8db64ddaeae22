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


class HostileLane:
    """A stream with its lane, and all its batches' places so far."""

    def __init__(self, stream: Any, offer: loader_pb2.Lane) -> None:
        self._stream = stream
        self.offer = offer
        self.socket = connected(offer.socket_path)
        self.socket.send(b"PHL1" + offer.token)
        answer, passed, _, _ = self.socket.recvmsg(24, socket.CMSG_LEN(4))
        if not answer:
            raise ConnectionAbortedError("the stream has ended")
        _, self.num_slots, slot_bytes, num_before = struct.unpack("<4sIQQ", answer)
        (descriptor,) = array.array("i", passed[0][2])
        self.memory = mmap.mmap(descriptor, self.num_slots * slot_bytes)
        os.close(descriptor)
        for _ in range(num_before - 1):
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
    """Of a stream of graphs, with some of which it begins."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        opening = packing_pb2.PackRequest()
        schema = opening.open.schema
        schema.components.append("nodes")
        schema.tensors.add(name="x", dtype="DATA_TYPE_FLOAT32", component="nodes", row_shape=[256])
        opening.open.limits.capacities.add(component="graphs", rows=4)
        opening.open.look_ahead = 1
        self._requests.put(opening)
        stream: Any = packing_pb2_grpc.PackingServiceStub(channel).Pack(
            iter(self._requests.get, None),
            timeout=60,
            metadata=(("packhouse-lane", "1"),),
        )
        assert next(stream).HasField("opened")
        (offer,) = [
            value for name, value in stream.initial_metadata() if name == "packhouse-lane-bin"
        ]
        super().__init__(stream, loader_pb2.Lane.FromString(offer))
        for _ in range(6 * self.num_slots):
            request = packing_pb2.PackRequest()
            request.graphs.sizes.num_graphs = 1
            request.graphs.sizes.counts = struct.pack("<I", 3)
            request.graphs.tensors.add(name="x", data=bytes(3 * 1024))
            self._requests.put(request)

    def ends(self) -> str:
        self._requests.put(None)
        return super().ends()

    def __exit__(self, *exc_info: object) -> None:
        self._requests.put(None)
        super().__exit__(*exc_info)


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


def _never_releases(lane: HostileLane, draws: random.Random) -> None:
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
    *(_releases_twice, _releases_what_it_has_not, _says_anything, _never_releases),
    *(_passes_descriptors, _shows_the_token_again),
)

LOAD_DEEDS: Final[tuple[Callable[[HostileLoad, random.Random], None], ...]] = (_writes_everywhere,)

# The stream ends for these.
LIES: Final = (_releases_twice, _releases_what_it_has_not, _says_anything)


def knock(path: str, draws: random.Random) -> None:
    """Connections without a token, or with a wrong one."""
    sayings = (b"", b"PHL1", b"PHL1" + draws.randbytes(16), draws.randbytes(20), bytes(100_000))
    with contextlib.ExitStack() as stack:
        for _ in range(draws.randrange(1, 100)):
            with contextlib.suppress(OSError):
                silent = stack.enter_context(connected(path))
                if draws.random() < 0.5:
                    silent.send(draws.choice(sayings))

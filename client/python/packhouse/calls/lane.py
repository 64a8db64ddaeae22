"""Batches from a server on the same host, read where the server has written them. See `Lane`."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import socket
import struct
import typing
from collections import deque
from typing import Any, Callable, Final, Iterator, Literal, cast

import grpc

from packhouse.base.arguments import check_word
from packhouse.base.errors import PackhouseError
from packhouse.base.forks import tell_forks
from packhouse.calls.channel import is_own
from packhouse.data.batch import ReceivedBatch
from packhouse.data.reading import Reader
from packhouse.v1 import loader_pb2
from packhouse.calls.slot_memory import SlotMemory

LaneChoice = Literal["auto", "required", "off"]
# How batches come.
Transport = Literal["lane", "bytes"]

_VARIABLE: Final = "PACKHOUSE_LANE"

_MAGIC: Final = b"PHL1"
# The server's answer to the token: magic, slots, bytes of each, responses of the call before.
_WELCOME: Final = struct.Struct("<4sIQQ")
# Where a batch is: slot, offset in it, bytes.
_PLACE: Final = struct.Struct("<IIQ")
_PLACE_BYTES: Final = _PLACE.size
# In a slot's place: the next response comes by the call.
_BY_CALL: Final = 0xFFFFFFFF

# By what a call of `Pack` asks for a lane, and is offered one.
ASKING: Final = (("packhouse-lane", "1"),)
_OFFER: Final = "packhouse-lane-bin"

# Seconds for the server to take the connection.
_OPENING: Final = 5.0
_SENDING: Final = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL


def chosen_lane(lane: str) -> LaneChoice:
    """The choice that the argument says, or the environment. Raises ValueError if it is none."""
    name = "lane"
    if lane == "auto" and os.environ.get(_VARIABLE):
        name, lane = _VARIABLE, os.environ[_VARIABLE]
    check_word(typing.get_args(LaneChoice), lane, name)
    return cast(LaneChoice, lane)


@functools.lru_cache(maxsize=16)
def is_worth_asking(address: str, lane: str) -> bool:
    """Whether to ask the server at that address for a lane."""
    return lane == "required" or (lane == "auto" and is_own(address))


def offered_lane(call: Any) -> Any:
    """The `packhouse.v1.Lane` that the answer to a call that asked for one begins with; None: its
    server does not know lanes.
    """
    for name, value in call.initial_metadata() or ():
        if name == _OFFER:
            return loader_pb2.Lane.FromString(value)
    return None


class Lane:
    """The batches of one call of Load or Pack, each in a slot of memory that server and client share.

    The server says by a message which slot has the next batch, or that the next response comes by
    the call. So this is what a client waits for, and it reads the call when it is told to, or when
    this has ended. A slot goes back when no array views it any more. Where fewer than two slots
    would be left to the server, a batch is copied, so that whoever keeps batches never stops the
    stream. Use from one thread; only `interrupt` is thread-safe. A forked process has none.
    """

    def __init__(self, offer: Any, reader: Reader, read_bytes: Callable[[bytes], Any]) -> None:
        """Takes what a `packhouse.v1.Lane` offers. `read_bytes` reads responses that `reader` does
        not. Raises OSError if the server is not on this host, or gives no lane after all;
        ConnectionAbortedError if the call has ended for the server.
        """
        self._read_bytes = read_bytes
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        tell_forks(self)
        try:
            self._memory, self.num_before = _open(self._socket, offer)
        except BaseException:
            self._socket.close()
            raise
        # Fewer messages cost the server less, and leave it half of the slots at least.
        self._most_waiting = max(1, self._memory.num_slots // 4)
        self._most_held = self._memory.num_slots - 2
        self._messages: Iterator[bytes] = iter(
            functools.partial(self._socket.recv, _PLACE_BYTES), b""
        )
        self._read_slot = reader.read_slot
        self.has_ended = False

    def receive(self) -> ReceivedBatch | None:
        """The next batch; waits for it. None: the next response comes by the call, and if the lane
        `has_ended`, so do all.
        """
        messages: deque[bytes] = deque()
        self.wait(messages)
        return self.read(messages[0]) if messages else None

    def wait(self, messages: deque[bytes]) -> None:
        """Adds the server's next message; none if the lane has ended. An exception that interrupts
        the wait has taken nothing.
        """
        if len(self._memory.returned) >= self._most_waiting:
            self._return_slots()
        try:
            # In C: no exception comes between receiving and keeping.
            messages.extend(itertools.islice(self._messages, 1))
        except ConnectionResetError:
            # A server that was killed, and had not read all releases. It is said once, before
            # messages that are there still.
            self.wait(messages)
            return
        except OSError:
            pass
        if not messages or len(messages[-1]) != _PLACE_BYTES:
            messages.clear()
            self.close()

    def read(self, message: bytes) -> ReceivedBatch | None:
        """The batch that a message tells of, once. None: the next response comes by the call."""
        number, offset, size = _PLACE.unpack(message)
        if number == _BY_CALL:
            return None
        memory = self._memory
        held = memory.held
        if number >= memory.num_slots or offset + size > memory.slot_bytes or number in held:
            raise PackhouseError(
                grpc.StatusCode.INTERNAL,
                f"the server has put {size} bytes at {offset} of slot {number} of {memory.num_slots} "
                f"of {memory.slot_bytes} bytes, or it was held",
            )
        if len(held) >= self._most_held:
            self._return_slots()
        is_copied = len(held) >= self._most_held
        buffer = memory.take(number)
        batch = self._read_slot(buffer, memory.addresses[number], offset, size, is_copied)
        if batch is None:
            batch = self._read_bytes(bytes(memoryview(buffer)[offset : offset + size]))
        if is_copied:
            del buffer
            self._return_slots()
        return batch

    def _return_slots(self) -> None:
        numbers = self._memory.take_returned()
        if numbers:
            # The server has room for messages about all slots. Where it has gone, receiving says so.
            with contextlib.suppress(OSError):
                self._socket.send(struct.pack(f"<{len(numbers)}I", *numbers), _SENDING)

    def interrupt(self) -> None:
        """Ends the lane, and what waits for it."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Arrays stay as they are. Idempotent."""
        self.has_ended = True
        self._socket.close()
        self._memory.leave()

    def before_fork(self) -> None:
        """See Forked."""

    def after_fork_in_child(self) -> None:
        """A parent that is killed ends its lanes, whatever its children do."""
        self.has_ended = True
        self._socket.close()


def _open(connection: socket.socket, offer: Any) -> tuple[SlotMemory, int]:
    """The memory, and how many responses of the call come before. Raises OSError."""
    connection.settimeout(_OPENING)
    connection.connect(offer.socket_path)
    connection.send(_MAGIC + offer.token, socket.MSG_NOSIGNAL)
    answer, descriptors, _, _ = socket.recv_fds(
        connection, _WELCOME.size, 1, socket.MSG_CMSG_CLOEXEC
    )
    try:
        if not answer:
            raise ConnectionAbortedError("the server has taken the lane back")
        if len(answer) != _WELCOME.size or len(descriptors) != 1:
            raise ConnectionError(f"the server answers with {answer!r}")
        magic, num_slots, slot_bytes, num_before = _WELCOME.unpack(answer)
        size = os.fstat(descriptors[0]).st_size
        # Three: one that is viewed, and two that are left to the server.
        if magic != _MAGIC or num_slots < 3 or num_slots * slot_bytes != size:
            raise ConnectionError(
                f"the server offers {num_slots} slots of {slot_bytes} bytes in a file of {size}"
            )
        memory = SlotMemory(descriptors[0], num_slots, slot_bytes)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    connection.settimeout(None)
    return memory, num_before

"""Batches from a server on the same host, read where the server has written them. See `Lane`."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import mmap
import os
import socket
import struct
import threading
import typing
import weakref
from collections import deque
from typing import Any, Callable, Collection, Final, Generic, Iterator, Literal, TypeVar, cast

import grpc
import numpy as np

from packhouse.base.arguments import check_word
from packhouse.base.errors import PackhouseError
from packhouse.base.forks import tell_forks
from packhouse.base.waiting import HelperThread
from packhouse.calls.channel import is_own
from packhouse.data.batch import ReceivedBatch
from packhouse.data.graphs import Array
from packhouse.data.reading import Reader
from packhouse.v1 import loader_pb2
from packhouse.calls.slot_memory import SlotMemory

_Mapped = TypeVar("_Mapped")

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

# By what a call of `Pack` asks for a lane for its batches and one for its graphs, and is offered
# them.
ASKING: Final = (("packhouse-lane", "1"), ("packhouse-lane-graphs", "1"))
_OFFER: Final = "packhouse-lane-bin"
_OFFER_FOR_GRAPHS: Final = "packhouse-lane-graphs-bin"

# Columns of graphs begin at multiples of it.
_ALIGNMENT: Final = 64
# Fewer bytes of graphs are sent: a slot for them costs more than it saves.
_LEAST_GRAPH_BYTES: Final = 16 << 10

# Seconds for the server to take the connection.
_OPENING: Final = 5.0
# How often it may close one whose token it has not read, for others that knock.
_MOST_TRIES: Final = 16
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


def offered_lanes(call: Any) -> tuple[Any, Any]:
    """The `packhouse.v1.Lane`s that the answer to a call that asked for them begins with, for batches
    and for graphs; None: its server does not know them.
    """
    offers = {
        name: loader_pb2.Lane.FromString(value)
        for name, value in call.initial_metadata() or ()
        if name in (_OFFER, _OFFER_FOR_GRAPHS)
    }
    return offers.get(_OFFER), offers.get(_OFFER_FOR_GRAPHS)


class _End(Generic[_Mapped]):
    """The client's end of a lane: a connection, and memory. A forked process has none."""

    def __init__(self, offer: Any, map_slots: Callable[[int, int, int], _Mapped]) -> None:
        """Takes what a `packhouse.v1.Lane` offers. `map_slots` maps the memory, from its descriptor,
        the number of slots and their bytes. Raises OSError if the server is not on this host, or
        gives no lane after all; ConnectionAbortedError if the call has ended for the server.
        """
        self.has_ended = False
        self._socket = _new_socket()
        tell_forks(self)
        try:
            self._memory, self.num_before = self._open(offer, map_slots)
        except BaseException:
            self._socket.close()
            raise

    def _open(
        self, offer: Any, map_slots: Callable[[int, int, int], _Mapped]
    ) -> tuple[_Mapped, int]:
        """The memory, and how many responses of the call come before."""
        for tries in range(_MOST_TRIES):
            if tries > 0:
                self._socket.close()
                self._socket = _new_socket()
            try:
                return _open(self._socket, offer, map_slots)
            except (BrokenPipeError, ConnectionResetError):
                # It was closed before the token was read, which is good still.
                continue
            except (ConnectionRefusedError, FileNotFoundError):
                if tries == 0:
                    raise
                break
        raise ConnectionAbortedError("the server reads no token")

    def interrupt(self) -> None:
        """Ends the lane, and what waits for it. Thread-safe, and idempotent."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def before_fork(self) -> None:
        """See Forked."""

    def after_fork_in_child(self) -> None:
        """A parent that is killed ends its lanes, whatever its children do."""
        self.has_ended = True
        self._socket.close()


class Lane(_End[SlotMemory]):
    """The batches of one call of Load or Pack, each in a slot of memory that server and client share.

    The server says by a message which slot has the next batch, or that the next response comes by
    the call. So this is what a client waits for, and it reads the call when it is told to, or when
    this has ended. A slot goes back when no array views it any more. Where fewer than two slots
    would be left to the server, a batch is copied, so that whoever keeps batches never stops the
    stream. Use from one thread; only `interrupt` is thread-safe.
    """

    def __init__(self, offer: Any, reader: Reader, read_bytes: Callable[[bytes], Any]) -> None:
        """`read_bytes` reads responses that `reader` does not. Raises OSError as any end."""
        super().__init__(offer, SlotMemory)
        self._read_bytes = read_bytes
        # Fewer messages cost the server less, and leave it half of the slots at least.
        self._most_waiting = max(1, self._memory.num_slots // 4)
        self._most_held = self._memory.num_slots - 2
        # The message that is being read, its slot's buffer, and whether its batch is copied.
        self._reading: tuple[bytes, Any, bool] | None = None
        # Slots to release; and the size of the message that has released them, once it is sent.
        self._leaving: dict[int, None] = {}
        self._sent: list[int] = []
        self._messages: Iterator[bytes] = iter(
            functools.partial(self._socket.recv, _PLACE_BYTES), b""
        )
        self._read_slot = reader.read_slot
        self._send = self._socket.send
        self._fileno = self._socket.fileno
        self._receive_next = reader.receive
        memory = self._memory
        # As the C extension wants them.
        self._slots = (
            memory.buffers,
            memory.addresses,
            memory.held,
            memory.is_forking,
            memory.slot_bytes,
            self._most_waiting,
            self._most_held,
        )
        # The memory knows its buffers, and they know it.
        weakref.finalize(self, memory.leave).atexit = False

    def receive(self) -> ReceivedBatch | None:
        """The next batch; waits for it. None: the next response comes by the call, and if the lane
        `has_ended`, so do all. As `wait` and `read`, in less time; but after an exception that a
        signal handler raises what was received may be lost: close the lane.
        """
        receive_next = self._receive_next
        if receive_next is not None and not self._leaving:
            received = receive_next(self._fileno(), self._slots)
            if type(received) is ReceivedBatch:
                return received
            messages = deque((received,))
            self._check(messages)
        else:
            messages = deque()
            self.wait(messages)
        if not messages:
            return None
        batch = self.read(messages[0])
        self.has_kept()
        return batch

    def wait(self, messages: deque[Any]) -> None:
        """Adds the server's next message, or the batch that it tells of; none if the lane has ended.
        An exception that interrupts the wait has taken nothing.
        """
        # In C, both ways: no exception comes between receiving and keeping.
        if self._receive_next is not None:
            if self._leaving:
                self._return_slots()
            received = map(self._receive_next, (self._fileno(),), (self._slots,))
            # No bytes: the end.
            messages.extend(filter(None, received))
        else:
            if self._memory.num_returned >= self._most_waiting:
                self._return_slots()
            try:
                messages.extend(itertools.islice(self._messages, 1))
            except ConnectionResetError:
                # A server that was killed, and had not read all releases. It is said once, before
                # messages that are there still.
                self.wait(messages)
                return
            except OSError:
                pass
        self._check(messages)

    def _check(self, messages: deque[Any]) -> None:
        """Takes the end, or what is no message, for the end."""
        if not messages or (type(messages[-1]) is bytes and len(messages[-1]) != _PLACE_BYTES):
            messages.clear()
            self.close()

    def read(self, message: bytes | ReceivedBatch) -> ReceivedBatch | None:
        """The batch that a message tells of. None: the next response comes by the call, also if the lane
        has ended here.

        After an exception that a signal handler raises, the same message gives it again, until
        `has_kept` is called.
        """
        if isinstance(message, ReceivedBatch):
            return message
        number, offset, size = _PLACE.unpack(message)
        if number == _BY_CALL or self.has_ended:
            return None
        reading = self._reading
        if reading is None or reading[0] is not message:
            reading = self._reading = (message, *self._begin(number, offset, size))
        _, buffer, is_copied = reading
        self._memory.hold(buffer)
        batch = self._read_slot(buffer, ctypes.addressof(buffer), offset, size, is_copied)
        if batch is None:
            batch = self._read_bytes(bytes(memoryview(buffer)[offset : offset + size]))
        return batch

    def _begin(self, number: int, offset: int, size: int) -> tuple[Any, bool]:
        """The buffer of a slot that has a batch, and whether that is to be copied."""
        memory = self._memory
        held = memory.held
        if number >= memory.num_slots or offset + size > memory.slot_bytes or held[number]:
            raise PackhouseError(
                grpc.StatusCode.INTERNAL,
                f"the server has put {size} bytes at {offset} of slot {number} of {memory.num_slots} "
                f"of {memory.slot_bytes} bytes, or it was held",
            )
        is_copied = False
        if sum(held) >= self._most_held:
            self._return_slots()
            is_copied = sum(held) >= self._most_held
        return memory.buffers[number], is_copied

    def has_kept(self) -> None:
        """The caller has what `read` gave, and will not read the same message again."""
        reading, self._reading = self._reading, None
        if reading is not None and reading[-1]:
            # A copy needs no slot.
            del reading
            self._return_slots()

    def _return_slots(self) -> None:
        """An exception that interrupts it has released nothing, or what the next call knows of: no
        slot is lost, and none is released twice.
        """
        leaving, sent = self._leaving, self._sent
        if sent:
            leaving.clear()
            sent.clear()
        self._memory.take_returned(leaving)
        if leaving:
            message = struct.pack(f"<{len(leaving)}I", *leaving)
            # The server has room for messages about all slots. Where it has gone, receiving says so.
            with contextlib.suppress(OSError):
                # In C: no exception comes between sending and knowing it.
                sent.extend(map(self._send, (message,), (_SENDING,)))
            leaving.clear()
            sent.clear()

    def close(self) -> None:
        """Arrays stay as they are. Idempotent."""
        self.has_ended = True
        self._socket.close()
        self._memory.leave()


class LaneOpening:
    """Opens a lane on a thread of its own. An exception that interrupts who waits for it thus never
    comes between the server's answer and what is made of it, which would end the stream.
    """

    def __init__(self, make: Callable[[], Lane]) -> None:
        """`make` opens it, once, or raises why not. Starts nothing yet."""
        self._make = make
        # What has become of it; one of them once `wait` returns.
        self.lane: Lane | None = None
        self.failure: BaseException | None = None
        self._has_ended = threading.Event()
        self._is_left = False
        self._thread = HelperThread("packhouse-lane", self._work, self._fail)

    def wait(self) -> None:
        """Until it is known. After an exception, waits for the same."""
        while not self._has_ended.is_set():
            self._thread.start()
            self._has_ended.wait()

    def leave(self) -> None:
        """Closes the lane, or the one that will be opened. Idempotent."""
        self._is_left = True
        lane, self.lane = self.lane, None
        if lane is not None:
            lane.close()

    def _work(self) -> None:
        # Of two threads that were started, the first one has made it.
        if not self._has_ended.is_set():
            try:
                self.lane = self._make()
            except Exception as error:
                self._fail(error)
            else:
                self._end()

    def _fail(self, error: BaseException) -> None:
        if self.lane is None:
            # Its frames would keep this alive.
            self.failure = error.with_traceback(None)
        self._end()

    def _end(self) -> None:
        self._has_ended.set()
        if self._is_left:
            self.leave()


class GraphLane(_End[tuple[mmap.mmap, int, int]]):
    """Slots of memory that a server of the same host shares with one call of Pack, for its graphs.

    The server gives a slot again when it has copied what was in it. As long as it takes no request,
    nobody has one, so `place` waits as sending does. Use from one thread at a time; `interrupt` is
    thread-safe.
    """

    def __init__(self, offer: Any) -> None:
        """Raises OSError if there is none after all."""
        super().__init__(offer, _map_to_fill)
        # Also of a call that is dropped.
        weakref.finalize(self, self._socket.close)
        self._pages, self._num_slots, self._slot_bytes = self._memory
        self._free: deque[int] = deque()

    def place(self, columns: Collection[Array]) -> int | None:
        """Copies the columns into a slot, and gives its number; waits for one. None: they are to be
        sent, since they are few bytes, do not fit a slot, or the lane has ended.

        An exception that interrupts it may lose a slot: `interrupt` the lane then.
        """
        places = []
        end = 0
        for column in columns:
            begin = -(-end // _ALIGNMENT) * _ALIGNMENT
            end = begin + column.nbytes
            places.append((begin, column))
        if not _LEAST_GRAPH_BYTES <= end <= self._slot_bytes or not self._has_free():
            return None
        number = self._free.popleft()
        start = number * self._slot_bytes
        for begin, column in places:
            if column.nbytes:
                there: Array = np.ndarray(column.shape, column.dtype, self._pages, start + begin)
                there[...] = column
        return number

    def _has_free(self) -> bool:
        try:
            while not self._free and not self.has_ended:
                message = self._socket.recv(_PLACE_BYTES)
                number = _PLACE.unpack(message)[0] if len(message) == _PLACE_BYTES else _BY_CALL
                if number < self._num_slots:
                    self._free.append(number)
                else:
                    self.has_ended = True
        except OSError:
            self.has_ended = True
        return not self.has_ended

    def interrupt(self) -> None:
        """Ends the lane, and what waits for a slot. Idempotent."""
        self.has_ended = True
        super().interrupt()


class GraphWay:
    """How the graphs of a stream go: by the call, or by a lane once there is one. Thread-safe."""

    def __init__(self) -> None:
        self._lane: GraphLane | None = None
        self._is_left = False

    def open_lane(self, offer: Any) -> None:
        """Takes what the server offers, if anything, once; else graphs go by the call."""
        if offer is not None and offer.token and not self._is_left:
            with contextlib.suppress(OSError):
                self._lane = GraphLane(offer)
            if self._is_left:
                self.leave_lane()

    def place(self, columns: Collection[Array]) -> int | None:
        """As that of the lane."""
        lane = self._lane
        return None if lane is None else lane.place(columns)

    def leave_lane(self) -> None:
        """From now on graphs go by the call. Ends a wait for a slot. Idempotent."""
        self._is_left = True
        lane, self._lane = self._lane, None
        if lane is not None:
            lane.interrupt()


def _map_to_fill(descriptor: int, num_slots: int, slot_bytes: int) -> tuple[mmap.mmap, int, int]:
    return mmap.mmap(descriptor, num_slots * slot_bytes), num_slots, slot_bytes


def _new_socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)


def _open(
    connection: socket.socket, offer: Any, map_slots: Callable[[int, int, int], _Mapped]
) -> tuple[_Mapped, int]:
    """As that of an end, with one try. BrokenPipeError and ConnectionResetError: the server has not
    read the token.
    """
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
        memory = map_slots(descriptors[0], num_slots, slot_bytes)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    connection.settimeout(None)
    return memory, num_before

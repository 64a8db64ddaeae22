"""The client's end of a lane: what holds a slot, and until when; and a server that does odd things."""

from __future__ import annotations

import concurrent.futures
import gc
import itertools
import os
import pathlib
import signal
import socket
import struct
import sys
import threading
from collections import deque
from typing import Any, Callable, Iterator

import grpc
import numpy as np
import pytest
from interrupting import Interruption, Stop, each_line
from lanes import BY_CALL, TOKEN, SlotServer, in_a_slot

from packhouse import DType, Evaluation, GraphSchema, LoadedBatch, Loader, PackhouseError
from packhouse.base import forks
from packhouse.calls.lane import GraphLane, GraphWay, Lane, is_worth_asking, offered_lanes
from packhouse.calls.slot_memory import SlotMemory
from packhouse.data.reading import HAS_NATIVE, BatchReader, NativeReader
from packhouse.v1 import batch_pb2, loader_pb2, loader_pb2_grpc

KINDS: list[Any] = [BatchReader, *([NativeReader] if HAS_NATIVE else [])]
needs_native = pytest.mark.skipif(not HAS_NATIVE, reason="there was no C compiler")
# Of the Loader, for a batch; 948 where all but the reading of tensors was in Python.
MOST_INSTRUCTIONS = 520
SCHEMA = GraphSchema(components=("nodes",))
ROWS = 100


def batch_of(number: int, rows: int = ROWS) -> Any:
    """A batch whose tensor has its number in each row."""
    values = np.full(rows, number, "<f4")
    tensor = batch_pb2.Tensor(name="x", dtype=DType.FLOAT32.value, shape=[rows], data=values.tobytes())
    return loader_pb2.LoadResponse(
        batch=loader_pb2.LoadedBatch(
            batch=batch_pb2.Batch(
                id=number,
                step=number,
                graph_ids=np.array([number], "<u8").tobytes(),
                sizes=np.array([rows], "<u4").tobytes(),
                real_rows=[rows, 1],
                rows=[rows, 1],
                tensors=[tensor],
            )
        )
    )


@pytest.fixture
def server(tmp_path: pathlib.Path) -> Iterator[SlotServer]:
    made = SlotServer(tmp_path)
    yield made
    made.close()


def open_lane(server: SlotServer, kind: Any = KINDS[-1]) -> Lane:
    lane = Lane(server.offer, kind(is_loaded=True), lambda data: None)
    server.taken()
    return lane


def next_batch(lane: Lane) -> LoadedBatch:
    parts = lane.receive()
    assert parts is not None
    return LoadedBatch.of_loaded_parts(parts, SCHEMA, 1, 1)


def expect_all(batch: LoadedBatch, number: int) -> None:
    assert batch["x"].tolist() == [number] * ROWS
    assert batch.graph_ids.tolist() == [number] and batch.sizes.tolist() == [[ROWS]]


def lies_in(array: Any, lane: Lane) -> bool:
    address = array.__array_interface__["data"][0]
    memory = lane._memory
    first = memory.addresses[0]
    return bool(first <= address < first + memory.num_slots * memory.slot_bytes)


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_read_where_it_lies(server: SlotServer, kind: Any) -> None:
    lane = open_lane(server, kind)
    assert server.hello == b"PHL1" + TOKEN and lane.num_before == 1
    for number in range(6):
        server.write(number % 4, batch_of(number), offset=number * 8)
        batch = next_batch(lane)
        expect_all(batch, number)
        assert lies_in(batch["x"], lane)
        for array in (batch["x"], batch.graph_ids, batch.sizes):
            assert array.flags.writeable and array.flags.aligned
        assert batch["x"].__array_interface__["data"][0] % 64 == 0
    lane.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_slot_is_returned_when_its_last_view_has_gone(server: SlotServer, kind: Any) -> None:
    lane = open_lane(server, kind)
    server.write(2, batch_of(7))
    batch = next_batch(lane)
    ids = batch.graph_ids
    view = batch["x"][10:20].reshape(5, 2).view("<i4")
    del batch
    server.say(BY_CALL)
    assert lane.receive() is None and server.released() == []
    del view
    # The ids are no view.
    server.say(BY_CALL)
    assert lane.receive() is None and server.released() == [2]
    assert ids.tolist() == [7]
    lane.close()


def test_a_view_that_is_kept_keeps_the_memory_of_its_slot_alone(tmp_path: pathlib.Path) -> None:
    server = SlotServer(tmp_path, num_slots=4, slot_bytes=1 << 20)
    lane = open_lane(server)
    for number in range(4):
        server.fill(number, b"\1")
    server.write(2, batch_of(2))
    batch = next_batch(lane)
    assert os.fstat(server.memory).st_blocks * 512 == 4 << 20
    lane.close()
    assert os.fstat(server.memory).st_blocks * 512 == 1 << 20
    expect_all(batch, 2)
    lane.close()
    server.close()


def test_views_outlive_the_lane_the_server_and_the_loaders_memory(server: SlotServer) -> None:
    lane = open_lane(server)
    server.write(0, batch_of(3))
    batch = next_batch(lane)
    lane.close()
    server.close()
    server.memory = os.memfd_create("another")
    del lane
    gc.collect()
    expect_all(batch, 3)
    batch["x"][:] = 4
    assert batch["x"].sum() == 4 * ROWS


@pytest.mark.parametrize("num_slots", [3, 4, 16])
@pytest.mark.parametrize("kind", KINDS)
def test_who_keeps_all_batches_leaves_two_slots(
    tmp_path: pathlib.Path, kind: Any, num_slots: int
) -> None:
    server = SlotServer(tmp_path, num_slots)
    lane = open_lane(server, kind)
    free = list(range(num_slots))
    kept = []
    for number in range(3 * num_slots):
        free += server.released()
        assert len(free) >= 2
        slot = free.pop(0)
        server.write(slot, batch_of(number))
        kept.append(next_batch(lane))
        if number >= num_slots:
            assert not lies_in(kept[-1]["x"], lane)
    for number, batch in enumerate(kept):
        expect_all(batch, number)
    # What has gone goes back, and the lane is as it was.
    kept.clear()
    server.say(BY_CALL)
    assert lane.receive() is None
    free += server.released()
    assert sorted(free) == list(range(num_slots))
    server.write(free[0], batch_of(1))
    assert lies_in(next_batch(lane)["x"], lane)
    lane.close()
    server.close()


def read_interrupted(server: SlotServer, interruption: Interruption) -> None:
    """Each batch comes, and each slot is released once, and not while it is viewed."""
    lane = open_lane(server)
    free: set[int] = set()

    def take_released() -> None:
        for slot in server.released():
            assert slot not in free
            free.add(slot)

    def interrupted(step: Callable[[], Any]) -> Any:
        while True:
            try:
                with interruption:
                    return step()
            except Stop:
                continue

    free.update(range(server.num_slots))
    kept: list[LoadedBatch] = []
    for number in range(3 * server.num_slots):
        take_released()
        slot = free.pop()
        server.write(slot, batch_of(number))
        messages: deque[bytes] = deque()
        interrupted(lambda: messages or lane.wait(messages))
        parts = interrupted(lambda: lane.read(messages[0]))
        interrupted(lane.has_kept)
        kept.append(LoadedBatch.of_loaded_parts(parts, SCHEMA, 1, 1))
        del parts
        for place in range(len(kept)):
            expect_all(kept[place], number + 1 - len(kept) + place)
        if number % 6 == 5:
            kept.clear()
    kept.clear()
    interrupted(lane._return_slots)
    take_released()
    assert free == set(range(server.num_slots))
    lane.close()
    server.close()


def test_an_exception_at_any_line_releases_each_slot_once(tmp_path: pathlib.Path) -> None:
    folders = (tmp_path / str(number) for number in itertools.count())

    def run(interruption: Interruption) -> None:
        folder = next(folders)
        folder.mkdir()
        read_interrupted(SlotServer(folder), interruption)

    passing = Interruption()
    run(passing)
    for at in sorted(set(each_line(passing.lines))):
        run(Interruption(at))


def test_releases_go_together(tmp_path: pathlib.Path) -> None:
    server = SlotServer(tmp_path, num_slots=16)
    lane = open_lane(server)
    messages = []
    for number in range(32):
        server.write(number % 16, batch_of(number))
        next_batch(lane)
        released = server.released()
        if released:
            messages.append(len(released))
    assert messages == [4] * 7
    lane.close()
    server.close()


def in_child(work: Any) -> int:
    """What `work` gives in a forked process; it ends at once then."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_forked_process_shares_nothing(server: SlotServer) -> None:
    lane = open_lane(server)
    server.write(0, batch_of(1))
    batch = next_batch(lane)
    go, gone = os.pipe()

    def work() -> int:
        # Until the parent has let go, and the server has written; or the parent has ended.
        os.close(gone)
        os.read(go, 1)
        assert batch["x"].tolist() == [1] * ROWS
        batch["x"][:] = 9
        batch.__dict__.clear()
        gc.collect()
        with pytest.raises(OSError):
            lane._socket.send(b"0000")
        return 0

    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = work()
        finally:
            os._exit(code)
    batch["x"][:] = 5
    server.fill(0, b"\xff")
    assert batch["x"].tolist() == [5] * ROWS
    del batch
    # It went back before the fork, and goes back once, whoever lets go first.
    server.say(BY_CALL)
    assert lane.receive() is None and server.released() == [0]
    os.write(gone, b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    server.say(BY_CALL)
    assert lane.receive() is None and server.released() == []
    assert os.pread(server.memory, 4, 0) == b"\xff" * 4
    # The slot is the same as before.
    for number in range(5):
        server.write(0, batch_of(number))
        batch = next_batch(lane)
        expect_all(batch, number)
        if number % 2:
            assert in_child(lambda: 0) == 0
            expect_all(batch, number)
        del batch
        server.say(BY_CALL)
        assert lane.receive() is None and server.released() == [0]
    lane.close()
    os.close(go)
    os.close(gone)


def test_a_fork_moves_views_that_outlive_their_lane(server: SlotServer) -> None:
    lane = open_lane(server)
    server.write(1, batch_of(1))
    column = next_batch(lane)["x"]
    lane.close()
    del lane
    go, gone = os.pipe()

    def work() -> int:
        os.close(gone)
        os.read(go, 1)
        return int(column.tolist() != [1] * ROWS)

    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = work()
        finally:
            os._exit(code)
    column[:] = 2
    server.fill(1, b"\xff")
    assert column.tolist() == [2] * ROWS
    os.write(gone, b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(go)
    os.close(gone)


@needs_native
def test_while_another_thread_moves_slots_a_batch_is_held_and_none_is_released(
    server: SlotServer,
) -> None:
    lane = open_lane(server)
    server.write(0, batch_of(0))
    next_batch(lane)
    # As before_fork(), on a thread that has its lock: Python waits for it.
    lane._memory.is_forking[0] = 1
    server.write(1, batch_of(1))
    batch = next_batch(lane)
    assert server.released() == [] and lane._memory.held == b"\1\1\0\0"
    lane._memory.is_forking[0] = 0
    server.say(BY_CALL)
    assert lane.receive() is None and server.released() == [0]
    expect_all(batch, 1)
    lane.close()


class Registered(list[tuple[int, int]]):
    """What a device's library knows. `is_able`: it takes anything."""

    is_able = True
    num_asked = 0

    def register(self, address: int, num_bytes: int) -> bool:
        """See Pinning."""
        self.num_asked += 1
        if self.is_able:
            self.append((address, num_bytes))
        return self.is_able

    def unregister(self, address: int) -> None:
        """See Pinning. While it is mapped."""
        ((known, _),) = self
        assert known == address
        with open("/proc/self/maps", encoding="utf-8") as maps:
            assert any(line.startswith(f"{address:x}-") for line in maps)
        self.clear()


@pytest.mark.parametrize("is_able", [True, False])
def test_slots_are_pinned_once_and_until_they_are_unmapped(server: SlotServer, is_able: bool) -> None:
    library = Registered()
    library.is_able = is_able
    lane = open_lane(server)
    server.write(0, batch_of(1))
    batch = next_batch(lane)
    for _ in range(3):
        assert lane._memory.pin(library) is is_able
    assert library.num_asked == 1
    assert library == [(lane._memory.addresses[0], 4 * 8192)] * is_able
    # A fork that moves nothing changes nothing, and the child has none.
    del batch
    def in_child_without_it() -> int:
        assert not lane._memory.pin(library)
        return collected()

    def collected() -> int:
        nonlocal lane
        del lane
        gc.collect()
        return len(library)

    assert in_child(in_child_without_it) == is_able
    assert lane._memory.pin(library) is is_able
    lane.close()
    assert len(library) == is_able
    assert collected() == 0
    assert library.num_asked == 1


def test_a_fork_that_moves_a_slot_ends_its_pinning(server: SlotServer) -> None:
    library = Registered()
    lane = open_lane(server)
    server.write(0, batch_of(1))
    batch = next_batch(lane)
    assert lane._memory.pin(library)
    assert in_child(lambda: len(library)) == 0
    assert library == [] and not lane._memory.pin(library) and library.num_asked == 1
    expect_all(batch, 1)
    lane.close()


def test_a_child_that_lives_on_does_not_keep_the_lane_open(server: SlotServer) -> None:
    lane = open_lane(server)
    go, gone = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(gone)
        os.read(go, 1)
        os._exit(0)
    os.close(go)
    lane.close()
    # The server sees the end while the child lives.
    assert server.connection.recv(64) == b""
    assert os.waitpid(child, os.WNOHANG) == (0, 0)
    os.close(gone)
    os.waitpid(child, 0)


def test_many_lanes_leave_no_descriptor_and_no_mapping(tmp_path: pathlib.Path) -> None:
    def counts() -> tuple[int, int]:
        with open("/proc/self/maps", encoding="utf-8") as maps:
            mapped = sum("memfd:slots" in line for line in maps)
        return len(os.listdir("/proc/self/fd")), mapped

    gc.collect()
    before = counts()
    kept = []
    for number in range(20):
        folder = tmp_path / str(number)
        folder.mkdir()
        server = SlotServer(folder)
        lane = open_lane(server)
        server.write(0, batch_of(number))
        kept.append(next_batch(lane)["x"])
        lane.close()
        server.close()
    del lane
    gc.collect()
    # Views hold memory, and no descriptor; other threads of this process may have one more.
    descriptors, mapped = counts()
    assert descriptors < before[0] + 10 and mapped == before[1] + 20
    kept.clear()
    gc.collect()
    descriptors, mapped = counts()
    assert descriptors < before[0] + 10 and mapped == before[1]


def test_a_lane_that_is_dropped_keeps_nothing_but_what_is_viewed(server: SlotServer) -> None:
    def mapped() -> int:
        with open("/proc/self/maps", encoding="utf-8") as maps:
            return sum("memfd:slots" in line for line in maps)

    gc.collect()
    before = mapped()
    gc.disable()
    try:
        told = len(forks._told)
        lane = open_lane(server)
        server.write(0, batch_of(3))
        column = next_batch(lane)["x"]
        del lane
        assert server.connection.recv(4) == b"" and mapped() == before + 1
        assert column.tolist() == [3] * ROWS
        del column
        # Nor is it told of forks.
        assert mapped() == before and len(forks._told) == told
    finally:
        gc.enable()


@pytest.mark.parametrize("kind", KINDS)
def test_batches_that_have_gone_leave_nothing(server: SlotServer, kind: Any) -> None:
    lane = open_lane(server, kind)
    server.write(0, batch_of(0))
    message = struct.pack("<IIQ", 0, 0, len(in_a_slot(batch_of(0), 0)))
    odd = struct.pack("<IIQ", 0, 0, 1)
    lane.receive()
    lane._return_slots()

    def receive(count: int) -> None:
        for number in range(count):
            # Some are left to protobuf, and some are refused by what the caller knows.
            server.connection.send(odd if number % 3 == 0 else message)
            parts = lane.receive()
            assert (parts is None) == (number % 3 == 0)
            if parts is not None:
                LoadedBatch.of_loaded_parts(parts, SCHEMA, 1, 1)
                with pytest.raises(ValueError, match="counts of real rows"):
                    LoadedBatch.of_loaded_parts(parts, GraphSchema(("a", "b")), 1, 1)
            del parts
            lane._return_slots()
            server.released()

    receive(30)
    gc.collect()
    before = sys.getallocatedblocks()
    receive(600)
    gc.collect()
    # Two hundred of any kind would show.
    assert sys.getallocatedblocks() - before < 100
    lane.close()


@pytest.mark.parametrize("size", [1, 15])
@pytest.mark.parametrize("kind", KINDS)
def test_a_message_of_another_size_ends_the_lane(server: SlotServer, kind: Any, size: int) -> None:
    lane = open_lane(server, kind)
    server.connection.send(bytes(size))
    assert lane.receive() is None and lane.has_ended
    assert lane.receive() is None
    messages: deque[Any] = deque()
    lane.wait(messages)
    assert not messages


@pytest.mark.parametrize(
    "place",
    [
        (4, 0, 10),
        (BY_CALL - 1, 0, 0),
        (0, 0, 8193),
        (0, 8192, 1),
        (1, 4096, 1 << 63),
        (1, 4096, (1 << 64) - 4096),
        (1, BY_CALL, 8192),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_place_beyond_the_memory_is_refused(
    server: SlotServer, kind: Any, place: tuple[int, int, int]
) -> None:
    lane = open_lane(server, kind)
    server.say(*place)
    with pytest.raises(PackhouseError, match=f"^INTERNAL: .* slot {place[0]} of 4 of 8192 bytes"):
        lane.receive()
    lane.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_slot_that_is_viewed_is_not_given_twice(server: SlotServer, kind: Any) -> None:
    lane = open_lane(server, kind)
    server.write(0, batch_of(1))
    batch = next_batch(lane)
    server.write(0, batch_of(2))
    with pytest.raises(PackhouseError, match="^INTERNAL: .* or it was held"):
        lane.receive()
    del batch
    lane.close()


@pytest.mark.parametrize("kind", KINDS)
def test_any_bytes_in_a_slot_are_a_batch_or_left_to_protobuf(
    server: SlotServer, kind: Any
) -> None:
    left: list[bytes] = []
    lane = Lane(server.offer, kind(is_loaded=True), left.append)
    server.taken()
    rng = np.random.default_rng(2)
    start = b"\x12\x3e\x0a\x3c\x08\x01\x22\x08\x42\x20\x0a\x01"
    for number in range(300):
        content = start[: number % 12] + rng.bytes(64 - number % 12)
        os.pwrite(server.memory, content, 0)
        server.say(0, 0, len(content))
        lane.receive()
        lane._return_slots()
    assert left and all(len(each) == 64 for each in left)
    lane.close()


@pytest.mark.parametrize("num_unread", [1, 15])
def test_who_is_closed_for_others_shows_its_token_again(server: SlotServer, num_unread: int) -> None:
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    server.num_unread = num_unread
    lane = open_lane(server)
    # Both ends of one connection.
    assert len(os.listdir("/proc/self/fd")) == before + 2
    server.write(0, batch_of(3))
    expect_all(next_batch(lane), 3)
    lane.close()


@pytest.mark.parametrize(
    "what", ["closes", "unread", "goes", "magic", "slots", "bytes", "descriptor", "path"]
)
def test_a_lane_that_is_not_given_is_an_error_of_the_system(
    tmp_path: pathlib.Path, server: SlotServer, what: str
) -> None:
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    if what == "closes":
        server.welcome = b""
    elif what in ("unread", "goes"):
        server.num_unread = 16 if what == "unread" else 1
        server.goes = True
    elif what == "magic":
        server.welcome = server.told_welcome(b"PHL2")
    elif what == "slots":
        server.num_slots = 2
        os.ftruncate(server.memory, 2 * server.slot_bytes)
        server.welcome = server.told_welcome()
    elif what == "bytes":
        server.num_slots = 5
        server.welcome = server.told_welcome()
    elif what == "descriptor":
        server.welcome = server.welcome[:10]
    else:
        server.offer.socket_path = str(tmp_path / "none")
    kind = ConnectionAbortedError if what in ("closes", "unread", "goes") else OSError
    with pytest.raises(kind):
        Lane(server.offer, BatchReader(is_loaded=True), lambda data: None)
    gc.collect()
    if what != "path":
        server.taken()
        # It may have closed its listening socket, and has the connection otherwise.
        before += (server.connection.fileno() >= 0) - server.goes
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_lane_that_was_closed_reads_no_slot(server: SlotServer, kind: Any) -> None:
    lane = open_lane(server, kind)
    content = in_a_slot(batch_of(1), 0)
    message = struct.pack("<IIQ", 0, 0, len(content))
    lane.close()
    assert lane.read(message) is None
    lane.has_kept()


def test_another_thread_ends_a_wait(server: SlotServer) -> None:
    lane = open_lane(server)
    threading.Timer(0.01, lane.interrupt).start()
    assert lane.receive() is None and lane.has_ended
    # And one that has not begun.
    assert lane.receive() is None


def test_a_signal_handler_that_raises_loses_no_message(server: SlotServer) -> None:
    lane = open_lane(server)

    def raises(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, raises)
    try:
        main = threading.main_thread().ident
        threading.Timer(0.01, lambda: signal.pthread_kill(main, signal.SIGUSR1)).start()  # type: ignore[arg-type]
        with pytest.raises(KeyboardInterrupt):
            lane.receive()
    finally:
        signal.signal(signal.SIGUSR1, before)
    server.write(3, batch_of(8))
    expect_all(next_batch(lane), 8)
    lane.close()


@pytest.mark.parametrize("waits", [False, True])
def test_all_that_a_killed_server_had_sent_is_read(server: SlotServer, waits: bool) -> None:
    lane = open_lane(server)
    for number in range(3):
        server.write(number, batch_of(number))
    server.say(BY_CALL)
    expect_all(next_batch(lane), 0)
    # A release that the server does not read: the connection is reset.
    lane._return_slots()
    if waits:
        for number in (1, 2):
            expect_all(next_batch(lane), number)
        assert lane.receive() is None and not lane.has_ended
        threading.Timer(0.01, server.connection.close).start()
    else:
        server.connection.close()
        for number in (1, 2):
            expect_all(next_batch(lane), number)
        assert lane.receive() is None and not lane.has_ended
    assert lane.receive() is None and lane.has_ended


class ShortEpoch(loader_pb2_grpc.LoaderServiceServicer):
    """An epoch of a job, by a lane."""

    def __init__(self, lane: SlotServer, num_batches: int) -> None:
        self._lane = lane
        self._num_batches = num_batches

    def Load(self, request: Any, context: Any) -> Iterator[Any]:
        opened = loader_pb2.LoadOpened(
            schema=SCHEMA.to_proto(), num_steps=self._num_batches, generation=1, session=1
        )
        opened.epoch.num_batches = self._num_batches
        opened.lane.CopyFrom(self._lane.offer)
        yield loader_pb2.LoadResponse(opened=opened)
        lane = self._lane.taken()
        free = list(range(lane.num_slots))
        for number in range(self._num_batches):
            while not free:
                free += struct.unpack(f"<{(len(said := lane.connection.recv(4096))) // 4}I", said)
            lane.write(free.pop(0), batch_of(number))
        lane.say(BY_CALL)
        yield loader_pb2.LoadResponse(end_of_epoch=loader_pb2.EndOfEpoch())

    def Acknowledge(self, request: Any, context: Any) -> Any:
        return loader_pb2.AcknowledgeResponse(cursor="c")


@needs_native
def test_a_batch_by_lane_costs_some_hundred_instructions_of_python(tmp_path: pathlib.Path) -> None:
    lane = SlotServer(tmp_path, num_slots=16)
    peer = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
    loader_pb2_grpc.add_LoaderServiceServicer_to_server(ShortEpoch(lane, 120), peer)
    port = peer.add_insecure_port("127.0.0.1:0")
    peer.start()
    counted = 0

    def count(frame: Any, event: str, arg: Any) -> Any:
        nonlocal counted
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        counted += event == "opcode"
        return count

    limits = {"nodes": ROWS}
    with Loader(f"127.0.0.1:{port}", dataset="d", job="j", limits=limits, lane="required") as loader:
        for _ in range(20):
            next(loader)
        before = sys.gettrace()
        sys.settrace(count)
        for _ in range(80):
            next(loader)
        sys.settrace(before)
        rest = [batch.number for batch in loader]
    assert rest == list(range(100, 120))
    assert counted / 80 < MOST_INSTRUCTIONS
    peer.stop(None)
    lane.close()


class EndedLane(loader_pb2_grpc.LoaderServiceServicer):
    """The lane of its first call ends without a word, and the call goes on."""

    def __init__(self, lane: SlotServer) -> None:
        self._lane = lane
        self.first_steps: list[int] = []

    def Load(self, request: Any, context: Any) -> Iterator[Any]:
        step = request.evaluation.first_step
        self.first_steps.append(step)
        opened = loader_pb2.LoadOpened(schema=SCHEMA.to_proto(), num_steps=3)
        opened.epoch.num_batches = 3
        if len(self.first_steps) == 1:
            opened.lane.CopyFrom(self._lane.offer)
        yield loader_pb2.LoadResponse(opened=opened)
        if len(self.first_steps) == 1:
            self._lane.taken().write(0, batch_of(0))
            self._lane.connection.close()
            # As if the lane had had the other batches.
            yield loader_pb2.LoadResponse(end_of_epoch=loader_pb2.EndOfEpoch())
            return
        for number in range(step, 3):
            yield batch_of(number)
        yield loader_pb2.LoadResponse(end_of_epoch=loader_pb2.EndOfEpoch())


def test_a_call_that_outlives_its_lane_is_made_again(server: SlotServer) -> None:
    servicer = EndedLane(server)
    peer = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
    loader_pb2_grpc.add_LoaderServiceServicer_to_server(servicer, peer)
    port = peer.add_insecure_port("127.0.0.1:0")
    peer.start()
    given = []
    for batch in Evaluation(f"127.0.0.1:{port}", dataset="d", limits={"nodes": ROWS}):
        expect_all(batch, len(given))
        given.append(batch)
    assert len(given) == 3 and servicer.first_steps == [0, 1]
    peer.stop(None)


def test_releases_to_a_server_that_has_gone_are_forgotten(server: SlotServer) -> None:
    lane = open_lane(server)
    server.write(0, batch_of(1))
    batch = next_batch(lane)
    server.connection.close()
    del batch
    assert lane.receive() is None and lane.has_ended


def test_what_no_lane_is_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(lane: Any) -> Loader:
        return Loader("nowhere:1", dataset="d", job="j", limits={"nodes": 1}, lane=lane)

    for lane in ("fast", "", None, 3, True, b"off"):
        with pytest.raises(ValueError, match=rf"^lane {lane!r} is none of \('auto', "):
            make(lane)
    for lane in ("auto", "required", "off"):
        assert make(lane).settings.connecting.lane == lane
    monkeypatch.setenv("PACKHOUSE_LANE", "off")
    assert make("auto").settings.connecting.lane == "off"
    assert make("required").settings.connecting.lane == "required"
    monkeypatch.setenv("PACKHOUSE_LANE", "slow")
    with pytest.raises(ValueError, match="^PACKHOUSE_LANE 'slow' is none of"):
        make("auto")
    assert make("off").settings.connecting.lane == "off"


def test_sockets_are_those_of_a_process(server: SlotServer) -> None:
    lane = open_lane(server)
    assert not os.get_inheritable(lane._socket.fileno())
    assert lane._socket.type == socket.SOCK_SEQPACKET
    lane.close()


# The way of graphs.


@pytest.fixture
def graph_lane(server: SlotServer, monkeypatch: pytest.MonkeyPatch) -> GraphLane:
    monkeypatch.setattr("packhouse.calls.lane._LEAST_GRAPH_BYTES", 2)
    lane = GraphLane(server.offer)
    server.taken()
    return lane


def test_columns_lie_where_the_server_looks_for_them(
    server: SlotServer, graph_lane: GraphLane
) -> None:
    columns: list[Any] = [
        np.arange(5, dtype="<f4"),
        np.arange(24, dtype="<i8").reshape(4, 6)[:, ::2],
        np.zeros((0, 3), "<i2"),
        np.arange(7, dtype="<u1"),
    ]
    for slot in (2, 0, 2):
        server.fill(slot, b"\xa5")
        server.say(slot)
        assert graph_lane.place(columns) == slot
        content = os.pread(server.memory, server.slot_bytes, slot * server.slot_bytes)
        assert content[:20] == columns[0].tobytes()
        assert content[64:160] == columns[1].tobytes()
        assert content[192:199] == columns[3].tobytes()
        assert set(content[20:64] + content[160:192] + content[199:]) == {0xA5}


def test_what_is_too_small_or_too_large_for_a_slot_takes_none(
    server: SlotServer, graph_lane: GraphLane
) -> None:
    server.say(1)
    first = np.zeros(1, "<u1")
    assert graph_lane.place([first]) is None
    assert graph_lane.place([first, np.zeros(server.slot_bytes - 63, "<u1")]) is None
    # The slot is there still.
    assert graph_lane.place([first, np.full(server.slot_bytes - 64, 9, "<u1")]) == 1


def test_a_wait_for_a_slot_ends_with_one_or_with_the_lane(
    server: SlotServer, graph_lane: GraphLane
) -> None:
    columns = [np.zeros(3, "<f4")]
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        placed = pool.submit(graph_lane.place, columns)
        server.say(3)
        assert placed.result(timeout=60) == 3
        placed = pool.submit(graph_lane.place, columns)
        graph_lane.interrupt()
        assert placed.result(timeout=60) is None
    assert graph_lane.place(columns) is None


@pytest.mark.parametrize("odd", [b"", b"x", b"\xff" * 16, b"\x04" + bytes(15)])
def test_a_server_that_ends_or_says_odd_things_ends_the_way_of_graphs(
    server: SlotServer, graph_lane: GraphLane, odd: bytes
) -> None:
    if odd:
        server.connection.send(odd)
    else:
        server.connection.close()
    assert graph_lane.place([np.zeros(3, "<f4")]) is None
    assert graph_lane.has_ended


def test_a_forked_process_has_no_way_of_graphs(server: SlotServer, graph_lane: GraphLane) -> None:
    server.say(2)
    columns = [np.zeros(3, "<f4")]
    child = os.fork()
    if child == 0:
        os._exit(0 if graph_lane.place(columns) is None else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert graph_lane.place(columns) == 2


@pytest.mark.parametrize("left", ["before", "meanwhile", "after"])
def test_a_stream_that_has_ended_keeps_no_way_of_graphs(
    server: SlotServer, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    way = GraphWay()

    def open_and_leave(offer: Any) -> GraphLane:
        lane = GraphLane(offer)
        if left == "meanwhile":
            way.leave_lane()
        return lane

    monkeypatch.setattr("packhouse.calls.lane.GraphLane", open_and_leave)
    if left == "before":
        way.leave_lane()
    way.open_lane(server.offer)
    if left == "after":
        way.leave_lane()
    if left != "before":
        # The end.
        assert server.taken().connection.recv(1) == b""
    assert way.place([np.zeros(1 << 20, "<u1")]) is None


def test_a_lane_is_asked_for_where_one_can_be() -> None:
    own, other = "127.0.0.1:1", "192.0.2.1:1"
    asked = [
        is_worth_asking(address, lane)
        for address in (own, other)
        for lane in ("auto", "required", "off")
    ]
    assert asked == [True, True, False, False, True, False]


def test_what_is_offered_is_read_of_the_calls_metadata() -> None:
    class Call:
        def __init__(self, *metadata: tuple[str, Any]) -> None:
            self.initial_metadata = lambda: metadata or None

    batches, graphs = loader_pb2.Lane(socket_path="/b"), loader_pb2.Lane(socket_path="/g")
    of_batches = ("packhouse-lane-bin", batches.SerializeToString())
    of_graphs = ("packhouse-lane-graphs-bin", graphs.SerializeToString())
    other = ("user-agent", "grpc")
    assert offered_lanes(Call()) == offered_lanes(Call(other)) == (None, None)
    assert offered_lanes(Call(other, of_batches)) == (batches, None)
    assert offered_lanes(Call(of_graphs, of_batches)) == (batches, graphs)


def test_memory_that_cannot_be_mapped_is_an_error_of_the_system() -> None:
    with open("/dev/null", "rb") as file:
        with pytest.raises(OSError, match="^.Errno [0-9]+. 12288 bytes cannot be mapped: .+$"):
            SlotMemory(file.fileno(), 3, 4096)

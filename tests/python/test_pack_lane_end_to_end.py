"""Batches of `Pack` by a lane of a real server: the same as by bytes, whoever dies or keeps them."""

from __future__ import annotations

import gc
import itertools
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import urllib.request
import weakref
from typing import Any, Callable, Iterator, Sequence

import grpc
import numpy as np
import pytest
from random_graphs import molecules, random_schema, random_table
from test_lane_end_to_end import points, until

from packhouse import (
    GRAPHS,
    Batch,
    Client,
    ComponentProfile,
    DerivedTensor,
    DeviceProfile,
    GraphSchema,
    GraphTable,
    LocalServer,
    PackhouseError,
    PackOptions,
    PackStream,
    Padding,
)
from packhouse.calls.lane import GraphLane
from packhouse.planning.packing import pack_method
from packhouse.v1 import packing_pb2

MOLECULES = molecules(np.random.default_rng(0), 400)
LIMITS = {"nodes": 64, "edges": 160, "graphs": 6}
ALL_IDS = sorted(MOLECULES.graph_ids.tolist())


def serving(folder: pathlib.Path, *arguments: str) -> LocalServer:
    """A server that offers lanes."""
    running = LocalServer(
        listen=f"unix:{folder}/socket",
        data_dir=folder / "data",
        arguments=arguments or ("--lane", f"unix:{folder}/lane"),
    )
    running.start()
    return running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    running = serving(tmp_path_factory.mktemp("packlanes"))
    yield running
    running.stop()
    assert running.returncode == 0


@pytest.fixture(scope="module")
def client(server: LocalServer) -> Iterator[Client]:
    with Client(server.address) as connected:
        yield connected


def content(batch: Batch) -> list[Any]:
    """All of it."""
    fields = {
        name: value for name, value in vars(batch).items()
        if name not in ("schema", "tensors", "graph_ids", "sizes")
    }
    tensors = [
        (name, each.dtype, each.shape, each.tobytes()) for name, each in batch.tensors.items()
    ]
    return [fields, batch.graph_ids.tolist(), batch.sizes.tolist(), tensors]


def in_pieces(table: GraphTable, rng: np.random.Generator) -> Iterator[GraphTable]:
    start = 0
    while start < len(table):
        stop = min(len(table), start + int(rng.integers(1, 40)))
        yield table.slice(start, stop)
        start = stop


def ids_of(batches: Sequence[Batch]) -> list[int]:
    return sorted(int(each) for batch in batches for each in batch.graph_ids)


def lanes_left(server: LocalServer) -> int:
    """Streams that have a lane, or were offered one."""
    with urllib.request.urlopen(f"http://{server.http_address}/metrics", timeout=60) as page:
        metrics = page.read().decode()
    return sum(map(int, re.findall(r"^packhouse_lane_streams\S* (\d+)", metrics, re.M)))


def lanes_shown(server: LocalServer) -> Any:
    """What the page shows of them."""
    address = f"http://{server.http_address}/api/overview"
    with urllib.request.urlopen(address, timeout=60) as answer:
        return json.load(answer)["lanes"]


# The same bytes.


@pytest.mark.filterwarnings("ignore::packhouse.OversizeWarning")
@pytest.mark.parametrize("padding", list(Padding))
@pytest.mark.parametrize("seed", range(6))
def test_batches_of_any_schema_are_the_same_either_way(
    client: Client, seed: int, padding: Padding
) -> None:
    rng = np.random.default_rng(seed)
    schema = random_schema(rng)
    while not schema.tensors:
        schema = random_schema(rng)
    table = random_table(rng, schema, 200)
    words: dict[str, Any] = {
        "limits": {each: int(rng.integers(11, 60)) for each in schema.components}
        | {GRAPHS: int(rng.integers(2, 9))},
        "padding": padding,
        "derived": tuple(DerivedTensor),
        "oversize": "reject",
        "look_ahead": int(rng.integers(1, 40)),
        "compact": bool(rng.integers(2)),
        "widen": bool(rng.integers(2)),
    }
    has_opened = threading.Event()

    def waiting() -> Iterator[GraphTable]:
        """Else the server may have sent all before the lane is open."""
        for piece in in_pieces(table, np.random.default_rng(seed)):
            yield piece
            assert has_opened.wait(60)

    by_lane = client.pack(waiting(), PackOptions(lane="required", **words))
    assert by_lane.opened
    has_opened.set()
    by_bytes = client.pack(
        in_pieces(table, np.random.default_rng(seed)), PackOptions(lane="off", **words)
    )
    kept = []
    for one, other in itertools.zip_longest(by_lane, by_bytes):
        assert content(one) == content(other)
        for array in (one.graph_ids, one.sizes, *one.tensors.values()):
            assert array.flags.behaved
        if rng.random() < 0.3:
            kept.append((one, content(other)))
    assert by_lane.rejections == by_bytes.rejections
    assert (by_lane.transport, by_bytes.transport) == ("lane", "bytes")
    for batch, expected in kept:
        assert content(batch) == expected


@pytest.mark.parametrize("words", [
    {"writable": True},
    {"max_age": 300, "look_ahead": 200},
    {"oversize": "partition", "limits": {"nodes": 12, "edges": 30, "graphs": 6}},
])
def test_all_words_give_the_same_either_way(client: Client, words: dict[str, Any]) -> None:
    words = {"limits": LIMITS} | words
    by_lane = list(client.pack(MOLECULES, PackOptions(lane="required", **words)))
    by_bytes = list(client.pack(MOLECULES, PackOptions(lane="off", **words)))
    assert [content(batch) for batch in by_lane] == [content(batch) for batch in by_bytes]


def test_shapes_of_a_device_come_beside_the_batches(client: Client) -> None:
    device = DeviceProfile(
        components={"nodes": ComponentProfile(max_rows=128), "edges": ComponentProfile(max_rows=300)}
    )
    streams = [
        client.pack(MOLECULES, PackOptions(device=device, calibration_graphs=100, lane=lane))
        for lane in ("required", "off")
    ]
    assert streams[0].tuned == streams[1].tuned
    for one, other in itertools.zip_longest(*streams):
        assert content(one) == content(other)


def test_flushes_are_answered_between_the_batches(client: Client) -> None:
    with client.open_pack(MOLECULES.schema, PackOptions(LIMITS, lane="required")) as stream:
        packed = []
        for table in in_pieces(MOLECULES, np.random.default_rng(3)):
            stream.send(table)
            batches = list(stream.read_until_flushed(stream.flush()))
            assert ids_of(batches) == sorted(table.graph_ids.tolist())
            packed += batches
        assert ids_of(packed) == ALL_IDS
        assert stream.transport == "lane"
        # Nobody reads meanwhile: the server waits, as it does where they come by gRPC.
        tokens = [stream.flush() for _ in range(400)]
        assert list(stream.read_until_flushed(tokens[-1])) == []
        stream.finish()
        assert list(stream) == []


@pytest.mark.filterwarnings("ignore::packhouse.OversizeWarning")
@pytest.mark.parametrize("seed", range(3))
def test_graphs_go_either_way_and_both(
    client: Client, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    slots: list[int | None] = []
    place = GraphLane.place

    def place_some(lane: GraphLane, columns: Any) -> int | None:
        slots.append(None if rng.random() < 0.3 else place(lane, columns))
        return slots[-1]

    monkeypatch.setattr(GraphLane, "place", place_some)
    monkeypatch.setattr("packhouse.calls.lane._LEAST_GRAPH_BYTES", 0)
    schema = random_schema(rng)
    while not schema.tensors:
        schema = random_schema(rng)
    table = random_table(rng, schema, 300)
    words: dict[str, Any] = {
        "limits": {each: 60 for each in schema.components} | {GRAPHS: 7},
        "oversize": "reject",
        "chunk_bytes": int(rng.integers(100, 20_000)),
    }

    def packed(lane: Any) -> list[Any]:
        with client.open_pack(schema, PackOptions(lane=lane, **words)) as stream:
            assert stream.opened.look_ahead > 0
            batches = []
            for piece in in_pieces(table, np.random.default_rng(seed)):
                stream.send(piece)
                batches += list(stream.read_until_flushed(stream.flush()))
            stream.finish()
            return [content(batch) for batch in (*batches, *stream)]

    by_both = packed("required")
    assert None in slots and len(set(slots)) > 2
    assert by_both == packed("off")


# Who keeps what, and for how long.


def test_who_keeps_every_batch_gets_them_all(client: Client) -> None:
    kept = list(client.pack(MOLECULES, PackOptions(LIMITS, lane="required")))
    assert ids_of(kept) == ALL_IDS
    by_bytes = client.pack(MOLECULES, PackOptions(LIMITS, lane="off"))
    assert [content(batch) for batch in kept] == [content(batch) for batch in by_bytes]


def test_a_batch_may_be_written_to(client: Client) -> None:
    by_lane = client.pack(MOLECULES, PackOptions(LIMITS, lane="required"))
    for batch, expected in zip(by_lane, client.pack(MOLECULES, PackOptions(LIMITS, lane="off"))):
        assert content(batch) == content(expected)
        for array in (batch.graph_ids, batch.sizes, *batch.tensors.values()):
            array.view(np.uint8)[...] = 0xA5


def test_a_killed_server_ends_the_stream_and_not_its_batches(tmp_path: pathlib.Path) -> None:
    mortal = serving(tmp_path)
    try:
        with Client(mortal.address) as client:
            stream = client.open_pack(MOLECULES.schema, PackOptions(LIMITS, lane="required"))
            stream.send(MOLECULES)
            kept = [next(stream), next(stream)]
            expected = [content(batch) for batch in kept]
            mortal.kill()
            with pytest.raises(PackhouseError) as ended:
                while True:
                    next(stream)
            assert ended.value.code is grpc.StatusCode.UNAVAILABLE
            gc.collect()
            assert [content(batch) for batch in kept] == expected
    finally:
        mortal.stop()


PACKER = """
import os, signal, sys
sys.path.insert(0, {tests!r})
from packhouse import Client, PackOptions
from test_lane_end_to_end import AtLine
from test_pack_lane_end_to_end import LIMITS, MOLECULES
with Client({address!r}) as client, AtLine({at}, lambda: os.kill(os.getpid(), signal.SIGKILL)):
    kept = list(client.pack(MOLECULES, PackOptions(LIMITS, lane="required")))
"""


def test_nothing_stays_of_a_client_that_is_killed(server: LocalServer, client: Client) -> None:
    killed = 0
    for at in points(2500, 4):
        program = PACKER.format(tests=os.path.dirname(__file__), address=server.address, at=at)
        ended = subprocess.run([sys.executable, "-c", program], check=False, timeout=240)
        assert ended.returncode in (0, -signal.SIGKILL)
        killed += ended.returncode != 0
        until(lambda: lanes_left(server) == 0)
        with open(f"/proc/{server.pid}/maps", encoding="utf-8") as maps:
            assert "packhouse-lane" not in maps.read()
    assert killed > 0
    assert ids_of(list(client.pack(MOLECULES, PackOptions(LIMITS, lane="required")))) == ALL_IDS


@pytest.mark.parametrize("way", ["end", "close", "drop", "close while it waits"])
def test_nothing_stays_of_a_stream(server: LocalServer, client: Client, way: str) -> None:
    stream: PackStream | None = client.open_pack(
        MOLECULES.schema, PackOptions(LIMITS, lane="required")
    )
    assert stream is not None
    stream.send(MOLECULES)
    batch = next(stream)
    assert stream.transport == "lane" and lanes_left(server) > 0
    if way == "end":
        stream.finish()
        assert len(list(stream)) > 1
    elif way == "close":
        stream.close()
    elif way == "drop":
        gone = weakref.ref(stream)
        stream = None
        gc.collect()
        assert gone() is None
    else:
        closing = threading.Timer(0.2, stream.close)
        closing.start()
        for _ in stream:
            pass
        closing.join()
    until(lambda: lanes_left(server) == 0)
    assert len(batch.graph_ids) > 0


def test_an_interrupted_wait_takes_nothing(client: Client) -> None:
    class Interruption(Exception):
        pass

    def interrupt(*_: Any) -> None:
        raise Interruption

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        stream = client.open_pack(MOLECULES.schema, PackOptions(LIMITS, lane="required"))
        assert stream.opened.look_ahead > 0
        packed = []
        for table in in_pieces(MOLECULES, np.random.default_rng(5)):
            stream.send(table)
            packed += list(stream.read_until_flushed(stream.flush()))
            # Nothing is there to come.
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            with pytest.raises(Interruption):
                next(stream)
        assert ids_of(packed) == ALL_IDS
        assert stream.transport == "lane"
        stream.finish()
        assert list(stream) == []
    finally:
        signal.signal(signal.SIGALRM, before)


# Who has a lane.


def test_the_page_says_how_many_streams_use_theirs(server: LocalServer, client: Client) -> None:
    until(lambda: lanes_left(server) == 0)
    before = lanes_shown(server)
    assert (before["open"], before["offered"], before["slots"]) == (0, 0, 0)
    may_end = threading.Event()

    def opening() -> Iterator[Any]:
        yield packing_pb2.PackRequest(open=PackOptions(LIMITS).to_proto(MOLECULES.schema))
        may_end.wait(60)

    with client.open_pack(MOLECULES.schema, PackOptions(LIMITS, lane="required")) as stream:
        assert stream.opened.look_ahead
        until(lambda: lanes_shown(server) == before | {"open": 1, "offered": 1})
        # One that is offered a lane and does not open it.
        with grpc.insecure_channel(server.address) as channel:
            call = pack_method(channel, server.address)(opening(), "required")
            assert next(call)
            until(lambda: lanes_shown(server) == before | {"open": 1, "offered": 2})
            may_end.set()
            assert not list(call)
        stream.send(MOLECULES)
        batches = list(stream.read_until_flushed(stream.flush()))
        shown = lanes_shown(server)
        assert 0 < shown["batches"] - before["batches"] <= len(batches)
        assert 0 < shown["slots"] <= 16
    until(lambda: lanes_shown(server) == shown | {"open": 0, "offered": 0, "slots": 0})
    del batches


def test_says_why_there_is_none(tmp_path: pathlib.Path, client: Client) -> None:
    laneless = serving(tmp_path, "--lane", "")
    try:
        with Client(laneless.address) as other:
            stream = other.pack(MOLECULES, PackOptions(LIMITS))
            assert ids_of(list(stream)) == ALL_IDS
            assert stream.transport == "bytes"
            with pytest.raises(PackhouseError, match="--lane") as refused:
                next(other.pack(MOLECULES, PackOptions(LIMITS, lane="required")))
            assert refused.value.code is grpc.StatusCode.FAILED_PRECONDITION
        assert lanes_shown(laneless) is None
    finally:
        laneless.stop()
    sizes = GraphTable(GraphSchema(("nodes",)), [[3], [4]])
    with pytest.raises(PackhouseError, match="sizes"):
        next(client.pack(sizes, PackOptions({"nodes": 9}, lane="required")))
    assert len(list(client.pack(sizes, PackOptions({"nodes": 9})))) == 1


def test_the_choice_is_checked_and_may_be_the_environments(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match="lane 'perhaps'"):
        PackOptions(LIMITS, lane="perhaps")  # type: ignore[arg-type]
    monkeypatch.setenv("PACKHOUSE_LANE", "off")
    stream = client.pack(MOLECULES, PackOptions(LIMITS))
    assert ids_of(list(stream)) == ALL_IDS and stream.transport == "bytes"

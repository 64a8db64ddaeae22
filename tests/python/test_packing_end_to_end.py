"""The Pack stream of a real server, held against the reference collation."""

from __future__ import annotations

import datetime
import itertools
import threading
from dataclasses import replace
from typing import Any, Iterator

import grpc
import numpy as np
import pytest
from pairs import pairs
from random_graphs import molecules, random_schema, random_table, with_few_bits
from reference_collation import collate

from packhouse import (
    GRAPHS,
    Batch,
    Client,
    DerivedTensor,
    DType,
    GraphSchema,
    GraphTable,
    OversizePolicy,
    OversizeWarning,
    PackhouseError,
    PackOptions,
    Padding,
    PackStream,
    Rejection,
    TensorSpec,
)

MOLECULE_LIMITS = {"nodes": 128, "edges": 288, "graphs": 12}


def everything_returned(stream: Iterator[Batch], sent: GraphTable) -> list[Batch]:
    """Reads to the end and asserts that each graph came once, unchanged."""
    batches = list(stream)
    order = np.argsort(sent.graph_ids)
    received = GraphTable.concatenate([batch.unbatch() for batch in batches])
    assert received.take(np.argsort(received.graph_ids)).equals(sent.take(order))
    assert [batch.id for batch in batches] == list(range(len(batches)))
    return batches


def expect_same_tensors(batch: Batch, expected: dict[str, Any]) -> None:
    """The schema's tensors come first and in its order; the order of derived ones is free."""
    of_schema = [spec.name for spec in batch.schema.tensors]
    assert list(batch.tensors)[: len(of_schema)] == of_schema
    assert set(batch.tensors) == set(expected)
    for name, tensor in expected.items():
        received = batch.tensors[name]
        assert received.dtype == tensor.dtype and received.shape == tensor.shape, name
        assert received.tobytes() == tensor.tobytes(), name


@pytest.mark.parametrize("padding", list(Padding))
@pytest.mark.parametrize("seed", range(25))
def test_batches_of_any_schema_equal_the_reference(
    client: Client, seed: int, padding: Padding
) -> None:
    rng = np.random.default_rng(seed)
    schema = random_schema(rng)
    while not schema.tensors:
        schema = random_schema(rng)
    sent = random_table(rng, schema, 60)
    limits = {name: int(rng.integers(11, 60)) for name in schema.components}
    limits[GRAPHS] = int(rng.integers(2, 9))
    options = PackOptions(
        limits=limits, padding=padding, derived=tuple(DerivedTensor), chunk_bytes=1000
    )
    with client.pack([sent.slice(0, 25), sent.slice(25, 60)], options) as stream:
        assert stream.opened.limits == limits
        assert stream.opened.schema == schema
        usable = stream.opened.usable
        batches = everything_returned(stream, sent)
    position_of = {int(name): position for position, name in enumerate(sent.graph_ids)}
    for batch in batches:
        assert len(batch) > 0
        assert all(batch.real_rows[name] <= usable[name] for name in usable)
        graphs = sent.take([position_of[int(name)] for name in batch.graph_ids])
        expect_same_tensors(batch, collate(graphs, limits, padding, tuple(DerivedTensor)))


@pytest.mark.parametrize("padding", list(Padding))
@pytest.mark.parametrize("seed", range(10))
def test_narrow_integers_are_the_same_batches(client: Client, seed: int, padding: Padding) -> None:
    rng = np.random.default_rng(seed)
    schema = random_schema(rng)
    while not any(spec.dtype.is_integer for spec in schema.tensors):
        schema = random_schema(rng)
    sent = with_few_bits(rng, random_table(rng, schema, 60))
    limits = {name: int(rng.integers(11, 60)) for name in schema.components}
    limits[GRAPHS] = int(rng.integers(2, 9))
    options = PackOptions(limits, padding, derived=tuple(DerivedTensor))
    plain = list(client.pack([sent], options))
    wide = everything_returned(client.pack([sent], replace(options, compact=True)), sent)
    as_sent = replace(options, compact=True, widen=False, writable=seed % 2 == 0)
    narrow, again = ([*client.pack([sent], as_sent)] for _ in range(2))
    for (one, widened), (came, second) in pairs(pairs(plain, wide), pairs(narrow, again)):
        expect_same_tensors(widened, dict(one.tensors))
        for name, array in one.tensors.items():
            assert came[name].dtype == second[name].dtype
            assert came[name].tobytes() == second[name].tobytes()
            assert came[name].astype(array.dtype).tobytes() == array.tobytes()
            integers = array.dtype.kind in "iu" and "BFLOAT16" not in name
            if not integers or came[name].dtype == array.dtype:
                continue
            assert came[name].dtype in (np.uint8, np.int16, np.int32)
            assert came[name].itemsize < array.itemsize
        # Fewer than 128 rows of anything.
        assert came[f"{GRAPHS}/mask"].dtype == bool
        assert all(came[f"{name}/graph"].dtype == np.uint8 for name in schema.components)


@pytest.mark.parametrize(
    ("padding", "usable"),
    [
        (Padding.NONE, {"nodes": 8, "edges": 9, "graphs": 5}),
        (Padding.MASKED, {"nodes": 8, "edges": 9, "graphs": 5}),
        (Padding.GRAPH, {"nodes": 7, "edges": 9, "graphs": 4}),
    ],
)
def test_a_graph_may_fill_the_usable_rows_exactly_but_not_exceed_them(
    client: Client, padding: Padding, usable: dict[str, int]
) -> None:
    limits = {"nodes": 8, "edges": 9, "graphs": 5}
    options = PackOptions(limits=limits, padding=padding, oversize=OversizePolicy.REJECT)
    most = usable["nodes"]
    sizes = [[most, 9], [most + 1, 0], [1, 10], [0, 0]]
    words = f"pack: 2 graphs .* graph 1 has {most + 1} nodes, at most {most} fit"
    with client.pack_sizes([sizes], options) as stream:
        with pytest.warns(OversizeWarning, match=words) as warned:
            batches = list(stream)
        assert next(stream, None) is None
        assert len(warned) == 1
        assert warned[0].filename == __file__
        assert stream.opened.usable == usable
    assert sorted(int(name) for batch in batches for name in batch.graph_ids) == [0, 3]
    assert sorted(stream.rejections, key=lambda rejection: rejection.graph_id) == [
        Rejection(1, "REJECTION_REASON_TOO_LARGE", "nodes", most + 1, most),
        Rejection(2, "REJECTION_REASON_TOO_LARGE", "edges", 10, 9),
    ]


def test_rejections_can_be_taken_as_they_come(client: Client) -> None:
    taken: list[Rejection] = []
    options = PackOptions(limits={"nodes": 4}, oversize=OversizePolicy.REJECT)
    with client.pack_sizes([[[5, 1]] * 3], options, on_rejected=taken.extend) as stream:
        assert list(stream) == []
    assert [rejection.graph_id for rejection in taken] == [0, 1, 2]
    assert stream.rejections == []
    with pytest.raises(ValueError, match="on_rejected .*REJECT"):
        client.pack_sizes([[[5, 1]]], PackOptions(limits={"nodes": 4}), on_rejected=taken.extend)


def test_an_oversize_graph_ends_the_stream(client: Client) -> None:
    options = PackOptions({"nodes": 5, "edges": 9, "graphs": 9}, Padding.GRAPH)
    accepted = [[1, 1]] * 3
    stream = client.pack_sizes([accepted, [[2, 2], [5, 1]]], options)
    with pytest.raises(PackhouseError, match="OUT_OF_RANGE: .*graph 4 .*5 nodes.* 4$"):
        list(stream)
    stream = client.pack_sizes([accepted, [[2, 2], [5, 1]]], options)
    assert_ends_with(stream, grpc.StatusCode.OUT_OF_RANGE, accepted=[0, 1, 2])


def assert_ends_with(stream: PackStream, code: grpc.StatusCode, accepted: list[int]) -> None:
    """The graphs of good chunks are delivered before the error."""
    names: list[int] = []
    with pytest.raises(PackhouseError) as raised:
        for batch in stream:
            names += batch.graph_ids.tolist()
    assert raised.value.code is code
    assert raised.value.message
    assert sorted(names) == accepted


def test_sizes_alone_are_packed_too(client: Client) -> None:
    sizes = molecules(np.random.default_rng(4), 3000).sizes
    options = PackOptions(limits=MOLECULE_LIMITS, padding=Padding.GRAPH, chunk_bytes=4096)
    batches = list(client.pack_sizes([sizes[:1700], sizes[1700:]], options))
    seen = np.concatenate([batch.graph_ids for batch in batches])
    assert np.sort(seen).tolist() == list(range(3000))
    for batch in batches:
        assert batch.tensors == {}
        assert (batch.sizes == sizes[batch.graph_ids]).all()
        assert batch.real_rows == {
            "nodes": batch.sizes[:, 0].sum(),
            "edges": batch.sizes[:, 1].sum(),
            "graphs": len(batch),
        }
        assert batch.real_rows["nodes"] < 128 and batch.real_rows["edges"] <= 288


def test_rows_of_a_table_have_no_component_but_graphs(client: Client) -> None:
    schema = GraphSchema((), (TensorSpec("x", DType.INT64, GRAPHS, padding_value=-1),))
    sent = GraphTable(schema, np.empty((10, 0), np.uint32), {"x": np.arange(10)})
    options = PackOptions(limits={"graphs": 4}, padding=Padding.MASKED)
    batches = everything_returned(client.pack([sent], options), sent)
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert batches[-1].tensors["x"][2:].tolist() == [-1, -1]


@pytest.mark.parametrize("tables", [[], [GraphTable(GraphSchema(), np.empty((0, 2), np.uint32))]])
def test_no_graphs_make_no_batches(client: Client, tables: list[GraphTable]) -> None:
    assert list(client.pack(tables, PackOptions(limits={"nodes": 5}))) == []


def test_a_flush_delivers_what_is_pending(client: Client) -> None:
    sent = molecules(np.random.default_rng(6), 5)
    options = PackOptions(limits={"nodes": 10_000})
    with client.open_pack(sent.schema, options) as stream:
        stream.send(sent.slice(0, 3))
        first = list(stream.read_until_flushed(stream.flush()))
        assert [sorted(batch.graph_ids.tolist()) for batch in first] == [[0, 1, 2]]
        assert stream.flushed is not None
        assert (stream.flushed.num_graphs, stream.flushed.num_batches) == (3, 1)
        assert list(stream.read_until_flushed(stream.flush())) == []
        stream.send(sent.slice(3, 5))
        stream.finish()
        assert [sorted(batch.graph_ids.tolist()) for batch in stream] == [[3, 4]]
        with pytest.raises(ValueError):
            stream.send(sent)


def test_a_delay_delivers_without_a_flush(client: Client) -> None:
    sent = molecules(np.random.default_rng(7), 2)
    options = PackOptions(limits={"nodes": 10_000}, max_delay=datetime.timedelta(milliseconds=1))
    with client.open_pack(sent.schema, options) as stream:
        stream.send(sent)
        names: list[int] = []
        while len(names) < 2:
            names += next(stream).graph_ids.tolist()
    assert sorted(names) == [0, 1]


def endless(started: threading.Event, ended: threading.Event) -> Iterator[GraphTable]:
    table = molecules(np.random.default_rng(8), 200)
    started.set()
    try:
        for number in itertools.count():
            yield GraphTable(table.schema, table.sizes, table.tensors, first_id=200 * number)
    finally:
        ended.set()


def test_closing_early_cancels_and_lets_go_of_the_source(client: Client) -> None:
    started, ended = threading.Event(), threading.Event()
    stream = client.pack(endless(started, ended), PackOptions(limits=MOLECULE_LIMITS))
    assert len(next(stream)) > 0
    stream.close()
    # What had arrived may still be read; then the iteration ends without an error.
    for _ in stream:
        pass
    del stream
    assert started.is_set() and ended.wait(60)


def test_a_dropped_stream_is_cancelled(client: Client) -> None:
    started, ended = threading.Event(), threading.Event()
    for _ in client.pack(endless(started, ended), PackOptions(limits=MOLECULE_LIMITS)):
        break
    assert started.is_set() and ended.wait(60)


def test_what_the_source_raises_reaches_the_reader_after_its_batches(client: Client) -> None:
    def broken() -> Iterator[GraphTable]:
        yield molecules(np.random.default_rng(9), 5)
        raise KeyError("the disk is gone")

    names: list[int] = []
    with pytest.raises(KeyError, match="the disk is gone"):
        for batch in client.pack(broken(), PackOptions(limits=MOLECULE_LIMITS)):
            names += batch.graph_ids.tolist()
    assert sorted(names) == [0, 1, 2, 3, 4]


def test_one_table_is_as_good_as_a_list_of_one(client: Client) -> None:
    table = molecules(np.random.default_rng(3), 60)
    options = PackOptions({"nodes": 512, "edges": 1152, "graphs": 32}, "graph")
    alone = [batch.unbatch() for batch in client.pack(table, options)]
    listed = [batch.unbatch() for batch in client.pack([table], options)]
    assert all(one.equals(other) for one, other in pairs(alone, listed))
    of_sizes = [batch.graph_ids.tolist() for batch in client.pack_sizes(table.sizes, options)]
    assert of_sizes == [graphs.graph_ids.tolist() for graphs in alone]


def test_batches_may_be_asked_for_as_writable_ones(client: Client) -> None:
    table = molecules(np.random.default_rng(3), 60)
    options = PackOptions({"nodes": 512, "edges": 1152, "graphs": 32}, "graph", writable=True)
    batches = list(client.pack(table, options))
    for batch in batches:
        assert all(array.flags.writeable for array in batch.tensors.values())
        batch["x"][...] += 0
    assert sum(len(batch) for batch in batches) == 60

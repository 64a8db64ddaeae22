"""Laws of what is asked of a server about sub-graphs, over a channel that notes it."""

from __future__ import annotations

from typing import Any, Iterator

import grpc
import numpy as np
import pytest

from packhouse import GraphSchema, PackhouseError, PackOptions, Samples, Seeds, SourceColumn
from packhouse import SubGraphs, TensorSpec
from packhouse.calls.retrying import UnaryCalls
from packhouse.large import sub_graphs as module
from packhouse.large.sampling import SamplingSpec
from packhouse.large.sub_graphs import SampleProgress, Sampling, SeedRequests
from packhouse.v1 import batch_pb2, dataset_pb2, graphs_pb2, packing_pb2, sizes_pb2
from packhouse.v1 import sampling_pb2 as v1
from test_pack_stream import Call, Failure, opened
from test_stored_calls import Channel

REFUSED = Failure(grpc.StatusCode.PERMISSION_DENIED, "not you")
DRAW = SubGraphs("g", "spec")
LABEL, HALF = SourceColumn("y", "int64"), SourceColumn("h", "float16")


def sampling_of(**answers: list[Any]) -> tuple[Sampling, Channel]:
    channel = Channel(**answers)
    return Sampling(channel, UnaryCalls("a:1", 5.0)), channel


def packed(values: Any, dtype: str) -> bytes:
    return np.array(values, dtype).tobytes()


def test_what_is_drawn_is_said_field_by_field() -> None:
    plain = v1.SubGraphs(graph="g", text="spec", seeds_per_graph=1)
    assert DRAW.to_proto() == plain
    lists = {"induced_edge_sets": ["i"], "untimed_sets": ["u"], "reverse_edge_sets": ["r"]}
    same = {
        "seeds_per_graph": 3, "induced": True, "node_time_column": "n", "edge_time_column": "e", "latest": True,
        "weight_column": "w", "link_node_set": "l", "readout": True, "merge_parallel": True, "time_window": 1 << 63,
        "link_edge_set": "k", "rows": True, "numbers": True, **lists,
    }  # fmt: skip
    for name, value in same.items():
        each = SubGraphs("g", b"spec", **{name: value})
        assert each.to_proto() == v1.SubGraphs(**{"graph": "g", "binary": b"spec", "seeds_per_graph": 1, name: value})
    for name, number in ((None, 0), ("self", 2), ("reverse_types", 3)):
        assert SubGraphs("g", "", exclude=name).to_proto().exclude == number
    ids = SubGraphs("g", "spec", payload="ids", readout_columns=[LABEL])
    assert ids.to_proto() == v1.SubGraphs(
        graph="g", text="spec", seeds_per_graph=1, without_features=True, numbers=True, rows=True, ids=True,
        readout_columns=[LABEL.to_proto()])
    spec = SamplingSpec("s", "n", ())
    assert SubGraphs("g", spec).to_proto().text == spec.to_text()
    assert SubGraphs("g", plain).to_proto().binary == plain.SerializeToString()


@pytest.mark.parametrize(
    ("error", "given", "words"),
    [
        (ValueError, {"payload": "id"}, "payload: 'id' is neither 'features' nor 'ids'"),
        (TypeError, {"spec": 3}, "spec: 3 is neither a SamplingSpec nor its text or bytes"),
        (ValueError, {"seeds_per_graph": 1 << 32}, "seeds_per_graph: 4294967296 is not from 0 to 4294967295"),
        (ValueError, {"time_window": 1 << 64}, f"time_window: {1 << 64} is not from 0 to {(1 << 64) - 1}"),
        (ValueError, {"exclude": "all"}, "exclude: 'all' is neither 'self' nor 'reverse_types'"),
        *((TypeError, {name: "e"}, f"{name}: 'e' is one name; a sequence of names is needed")
          for name in ("induced_edge_sets", "untimed_sets", "reverse_edge_sets")),
        (TypeError, {"readout_columns": LABEL}, "readout_columns: a SourceColumn is no sequence of SourceColumn"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_named(error: Any, given: dict[str, Any], words: str) -> None:
    with pytest.raises(error) as told:
        SubGraphs(**{"graph": "g", "spec": "", **given})
    assert str(told.value) == words


def test_seeds_are_said_by_what_they_are_called() -> None:
    ways: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"numbers": [3, 1]}, {"numbers": packed([3, 1], "<u4")}),
        ({"rows": [3, 1 << 40]}, {"rows": packed([3, 1 << 40], "<u8")}),
        ({"rows": [False, True, True]}, {"rows": packed([1, 2], "<u8")}),
        ({"rows": (np.bool_(True), False)}, {"rows": packed([0], "<u8")}),
        ({"rows": np.array([True, False, True])}, {"rows": packed([0, 2], "<u8")}),
        ({"numbers": [1], "times": [-5]}, {"numbers": packed([1], "<u4"), "times": packed([-5], "<i8")}),
        ({"numbers": [1], "occurrences": [7]}, {"numbers": packed([1], "<u4"), "occurrences": packed([7], "<u4")}),
    ]
    for given, said in ways:
        assert Seeds(**given).to_proto() == v1.Seeds(**said), given
    for ids in ([-1, 5], np.array([-1, 5], np.int16), []):
        message = v1.Seeds()
        message.ids.integers = packed(ids, "<i8")
        assert Seeds(ids=ids).to_proto() == message, ids
    for texts in (["a", "bc"], [b"a", b"bc"]):
        text = Seeds(ids=texts).to_proto().ids.text
        assert (text.data, text.lengths) == (b"abc", packed([1, 2], "<u4"))
    # Of columns that are known, values become those of the type; others are as they are.
    readout = {"y": [1, 2], "h": [0.5, 1.0], "z": np.array([1, 2], ">i2")}
    told = Seeds(numbers=[1, 2], readout=readout).to_proto([LABEL, HALF]).readout
    assert [(each.name, each.data) for each in told] == [
        ("y", packed([1, 2], "<i8")), ("h", packed([0.5, 1.0], "<f2")), ("z", packed([1, 2], "<i2"))
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "seeds: one of rows, numbers and ids is needed"),
        ({"rows": [1], "ids": [1]}, "seeds: one of rows, numbers and ids is needed"),
        ({"rows": [1], "ids": [1], "numbers": [1]}, "seeds: one of rows, numbers and ids is needed"),
        ({"rows": np.ones((2, 2), bool)}, "seeds: a mask of shape (2, 2), needs one axis"),
        ({"numbers": [[1, 2]]}, "seeds: shape (1, 2), needs one axis"),
        ({"rows": [[1, 2]]}, "seeds: shape (1, 2), needs one axis"),
        ({"ids": [[1, 2]]}, "seeds: shape (1, 2), needs one axis"),
        ({"numbers": [1], "times": [[1]]}, "times: shape (1, 1), needs one axis"),
        ({"numbers": [1], "occurrences": 1}, "occurrences: shape (), needs one axis"),
        ({"numbers": [True]}, "seeds: a mask is over rows: Seeds(rows=mask)"),
        ({"numbers": [1], "times": [True]}, "times: a mask is over rows: Seeds(rows=mask)"),
    ],
)
def test_seeds_that_cannot_be_are_named(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError) as told:
        Seeds(**given).to_proto()
    assert str(told.value) == words


def test_samples_have_sub_graphs_and_seeds() -> None:
    with pytest.raises(TypeError) as told:
        Samples("g")  # type: ignore[arg-type]
    assert str(told.value) == "sub_graphs: a str is no SubGraphs: 'g'"
    for bad in ("abc", b"abc", 3):
        for takes in (lambda: Samples(DRAW, bad), lambda: SeedRequests(None, DRAW, bad), lambda: Seeds.of(bad)):
            with pytest.raises(TypeError) as told:
                takes()
            assert str(told.value) == f"seeds: {bad!r} is neither Seeds nor numbers of nodes"
    seeds = Seeds(ids=[4])
    assert Seeds.of(seeds) is seeds and Seeds.of([4]).numbers == [4]
    assert list(Seeds.of([False, True]).rows) == [1]  # type: ignore
    assert Samples(DRAW, seeds).seeds is seeds
    assert tuple(vars(Samples(DRAW)).values()) == (DRAW, None, 0, False, True)


def sent(seeds: Any, sub_graphs: SubGraphs = DRAW) -> list[Any]:
    requests = SeedRequests(v1.SampleOpen(epoch=3), sub_graphs, seeds)
    opening, *parts = requests
    assert requests.error is None and opening == v1.SampleRequest(open=v1.SampleOpen(epoch=3))
    assert all(part.WhichOneof("message") == "seeds" for part in parts)
    return [part.seeds.seeds for part in parts]


def test_seeds_may_come_in_several_lists() -> None:
    def by_turns() -> Iterator[Any]:
        yield 4
        yield [5, 6]
        yield Seeds(rows=[7])

    one = [v1.Seeds(numbers=packed([4, 5], "<u4"))]
    assert sent([4, 5]) == sent((4, 5)) == sent(np.array([4, 5])) == sent(Seeds(numbers=[4, 5])) == one
    assert sent(range(4, 6)) == one
    # Nodes called by numbers, all of them or one by one, are not to be taken for lists of them.
    assert sent([[4, 5], [6]]) == [*one, v1.Seeds(numbers=packed([6], "<u4"))]
    assert sent(by_turns()) == [
        v1.Seeds(numbers=packed([4], "<u4")), v1.Seeds(numbers=packed([5, 6], "<u4")), v1.Seeds(rows=packed([7], "<u8"))
    ]  # fmt: skip
    assert sent([]) == [v1.Seeds(numbers=b"")]
    assert sent([True, False, True]) == sent(np.array([True, False, True])) == [v1.Seeds(rows=packed([0, 2], "<u8"))]


def test_requests_divide_neither_sub_graphs_nor_links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SEEDS_OF_REQUEST", 15)
    for per_graph, most in ((0, 14), (1, 14), (2, 12), (3, 12), (5, 10), (6, 12), (7, 14), (9, 18)):
        draw = SubGraphs("g", "", seeds_per_graph=per_graph)
        for count in (most - 1, most, most + 1, 2 * most, 2 * most + 1):
            parts = [len(part.numbers) // 4 for part in sent(np.arange(count), draw)]
            assert parts == [most] * (count // most) + [count % most] * (count % most > 0), (per_graph, count)


@pytest.mark.parametrize("kind", ["rows", "numbers", "ids"])
def test_what_stands_beside_seeds_is_cut_with_them(kind: str) -> None:
    nodes = list(range(10))
    for times, occurrences, values in ((10, 10, 10), (5, 5, 5), (5, 10, 5), (10, 5, 10)):
        whole = Seeds(
            **{kind: nodes}, times=range(times), occurrences=range(occurrences),
            readout={"a": range(values), "b": range(10)},
        )  # fmt: skip
        # With 3 seeds in a sub-graph there is a time for each 3, or for each 6 if they are links.
        parts = list(whole.parts(1, 4))
        assert [list(getattr(part, kind)) for part in parts] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
        for part, begin, end in zip(parts, (0, 4, 8), (4, 8, 10)):
            for found, count in (
                (part.times, times), (part.occurrences, occurrences), (part.readout["a"], values),  # type: ignore
                (part.readout["b"], 10),  # type: ignore[index]
            ):  # fmt: skip
                each = 10 // count
                assert list(found) == list(range(begin // each, end // each)), (count, begin)  # type: ignore
        assert list(whole.parts(1, 10)) == [whole]
    for rows in (3, 2):
        parts = list(Seeds(**{kind: list(range(8))}, times=range(rows)).parts(3, 6))
        assert [list(part.times) for part in parts] == [list(range(6 // (3 * (4 - rows)))), [rows - 1]]  # type: ignore
        assert [part.occurrences for part in parts] == [None, None] and [part.readout for part in parts] == [{}, {}]
    for name, words in (("times", "times"), ("occurrences", "occurrences"), ("readout", "readout 'y'")):
        given: Any = {"y": range(9)} if name == "readout" else range(9)
        with pytest.raises(ValueError) as told:
            list(Seeds(**{kind: nodes, name: given}).parts(1, 4))
        assert str(told.value) == f"{words}: 9 rows, there are 10 seeds (or ends of links)"


SCHEMA = GraphSchema(("n", "e"), (TensorSpec("n.x", "int16", "n"), TensorSpec("graphs.y", "float32", "graphs", (2,))))
CHUNK = v1.SampleResponse(
    graphs=graphs_pb2.GraphChunk(
        sizes=sizes_pb2.SizeTable(
            num_graphs=2, counts=packed([2, 5, 1, 0], "<u4"), graph_ids=packed([8, 6], "<u8")),
        tensors=[graphs_pb2.TensorData(name="graphs.y", data=packed([1, 2, 3, 4], "<f4")),
                 graphs_pb2.TensorData(name="n.x", data=packed([7, 8, 9], "<i2"))]))  # fmt: skip
OPENED = v1.SampleResponse(opened=packing_pb2.PackOpened(schema=SCHEMA.to_proto(), padding="PADDING_NONE"))


def opening(**told: Any) -> Any:
    return v1.SampleOpen(sub_graphs=DRAW.to_proto(), **{"beyond_limits": 1, **told})


def reading(monkeypatch: pytest.MonkeyPatch, *script: Any) -> tuple[Sampling, list[Any], Call]:
    """Sub-graphs of a call that gives `script`, and the requests that it was asked with."""
    sampling, _ = sampling_of()
    call, asked = Call(*script), []

    def begin(requests: Any, **_: Any) -> Call:
        asked.append(requests)
        return call

    monkeypatch.setattr(sampling, "_sample", begin)
    return sampling, asked, call


def test_sub_graphs_come_as_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    sampling, asked, call = reading(monkeypatch, CHUNK, OPENED, v1.SampleResponse(), CHUNK, CHUNK)
    tables = sampling.tables(DRAW, [3], seed=4, epoch=(1 << 64) - 1)
    first = next(tables)
    assert list(asked[0]) == [
        v1.SampleRequest(open=opening(seed=4, epoch=(1 << 64) - 1)),
        v1.SampleRequest(seeds=v1.SampleSeeds(seeds=v1.Seeds(numbers=packed([3], "<u4")))),
    ]
    assert first.schema == SCHEMA and first.sizes.tolist() == [[2, 5], [1, 0]]
    assert first.tensors["n.x"].tolist() == [7, 8, 9]
    assert first.tensors["graphs.y"].tolist() == [[1, 2], [3, 4]]
    assert first.graph_ids.tolist() == [8, 6]  # type: ignore[union-attr]
    assert not call.is_cancelled and len(list(tables)) == 1 and call.is_cancelled
    # What is dropped before its end is cancelled too, and asks for no more seeds.
    sampling, asked, call = reading(monkeypatch, OPENED, CHUNK, CHUNK)
    tables = sampling.tables(DRAW, iter([3, 4]))
    next(tables)
    tables.close()  # type: ignore[attr-defined]
    assert call.is_cancelled and list(asked[0]) == []
    for name in ("seed", "epoch"):
        with pytest.raises(ValueError) as told:
            sampling.tables(DRAW, [3], **{name: 1 << 64})
        assert str(told.value) == f"{name}: {1 << 64} is not from 0 to {(1 << 64) - 1}"


def test_tables_end_in_the_error_of_the_call_or_of_the_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    sampling, _, call = reading(monkeypatch, OPENED, CHUNK, REFUSED)
    tables = sampling.tables(DRAW, [3])
    next(tables)
    with pytest.raises(PackhouseError) as failed:
        next(tables)
    assert (failed.value.code.name, failed.value.message) == ("PERMISSION_DENIED", "not you") and call.is_cancelled

    def seeds() -> Iterator[Any]:
        yield 3
        raise KeyError("mine")

    asked: list[Any] = []
    sampling, asked, call = reading(monkeypatch, OPENED, lambda: len(list(asked[0])), CHUNK)
    call._script = iter([OPENED, CHUNK])
    tables = sampling.tables(DRAW, seeds())
    next(tables)
    assert len(list(asked[0])) == 2
    with pytest.raises(KeyError, match="mine"):
        next(tables)
    assert call.is_cancelled


def test_sub_graphs_are_packed_as_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    options = PackOptions(limits={"n": 8, "graphs": 2})
    pack = options.to_proto(GraphSchema(()))
    pack.ClearField("schema")
    for given, told in (
        ({}, {}), ({"draw_smaller": False}, {"beyond_limits": 2}), ({"seed": 5}, {"seed": 5}), ({"epoch": 6}, {"epoch": 6})
    ):  # fmt: skip
        for sizes_only, payload in ((False, 0), (True, packing_pb2.PAYLOAD_SIZES)):
            pack.payload = payload
            sampling, asked, _ = reading(monkeypatch, OPENED)
            stream = sampling.pack(DRAW, [3], options, sizes_only=sizes_only, **given)  # type: ignore[arg-type]
            assert stream.transport == "bytes"
            assert next(asked[0]) == v1.SampleRequest(open=opening(pack=pack, **told)), (given, sizes_only)
    batches = [
        v1.SampleResponse(
            batch=batch_pb2.Batch(id=number, real_rows=[0, 0], rows=[0, 0]),
            drawn_smaller=[v1.DrawnSmaller(graph_id=graph, level=level) for graph, level in smaller])
        for number, smaller in ((1, [(7, 2)]), (2, []), (3, [(8, 1), (9, 3)]))
    ]  # fmt: skip
    sampling, _, _ = reading(monkeypatch, v1.SampleResponse(opened=opened().opened), *batches)
    stream = sampling.pack(DRAW, [3], options)
    assert stream.drawn_smaller == {} and [each.id for each in stream] == [1, 2, 3]
    assert stream.drawn_smaller == {7: 2, 8: 1, 9: 3}


def test_sizes_are_estimated() -> None:
    told = v1.EstimateSizesResponse(
        schema=SCHEMA.to_proto(), num_seeds=5, num_graphs=3, bytes_per_graph=2.5,
        histogram=sizes_pb2.Histogram(
            components=["n", "e"], tuples=packed([1, 4, 2, 0], "<u4"), counts=packed([1, 2], "<u8"), num_graphs=3))
    sampling, channel = sampling_of(EstimateSizes=[told, told, told, REFUSED])
    found = sampling.estimate_sizes(DRAW, Seeds(ids=[4]), num_graphs=9, seed=1, epoch=2, histogram="h")
    assert (found.schema, found.num_seeds, found.num_graphs, found.bytes_per_graph) == (SCHEMA, 5, 3, 2.5)
    assert found.histogram.num_graphs == 3
    sampling.estimate_sizes(DRAW)
    draw = SubGraphs("g", "spec", readout_columns=[HALF])
    sampling.estimate_sizes(draw, Seeds(rows=[4], readout={"h": [1]}))
    seeds = v1.Seeds()
    seeds.ids.integers = packed([4], "<i8")
    read = v1.Seeds(rows=packed([4], "<u8"))
    read.readout.add(name="h", data=packed([1], "<f2"))
    assert channel.taken("EstimateSizes") == [
        v1.EstimateSizesRequest(
            sub_graphs=DRAW.to_proto(), seed=1, epoch=2, seeds=seeds, num_graphs=9, histogram="h"),
        v1.EstimateSizesRequest(sub_graphs=DRAW.to_proto()),
        v1.EstimateSizesRequest(sub_graphs=draw.to_proto(), seeds=read),
    ]  # fmt: skip
    with pytest.raises(PackhouseError, match="not you"):
        sampling.estimate_sizes(DRAW)
    with pytest.raises(ValueError) as failed:
        sampling.estimate_sizes(DRAW, num_graphs=1 << 32)
    assert str(failed.value) == "num_graphs: 4294967296 is not from 0 to 4294967295"


def test_sub_graphs_become_a_data_set() -> None:
    working = [
        v1.SampleDatasetResponse(num_graphs=done, num_graphs_total=4, num_drawn_smaller=done - 1) for done in (1, 3)
    ]
    made = v1.SampleDatasetResponse(
        num_graphs=4, num_graphs_total=4, dataset=dataset_pb2.Dataset(name="d", state=1))
    told: list[Any] = []
    sampling, channel = sampling_of(SampleDataset=[*working, made])
    found = sampling.make_dataset(
        DRAW, "d", [3], seed=1, epoch=2, max_bytes=9, max_rows={"n": 7}, draw_smaller=False, on_progress=told.append)
    assert found.name == "d" and channel.streams[0].is_cancelled
    assert channel.streams[0].how == {"wait_for_ready": True}
    assert told == [SampleProgress(1, 4, 0), SampleProgress(3, 4, 2), SampleProgress(4, 4, 0)]
    sampling, other = sampling_of(SampleDataset=[made])
    sampling.make_dataset(DRAW, "d")
    assert channel.taken("SampleDataset") + other.taken("SampleDataset") == [
        v1.SampleDatasetRequest(
            sub_graphs=DRAW.to_proto(), seed=1, epoch=2, seeds=v1.Seeds(numbers=packed([3], "<u4")), dataset="d",
            max_bytes=9, max_rows=[batch_pb2.Capacity(component="n", rows=7)], beyond_limits=2),
        v1.SampleDatasetRequest(sub_graphs=DRAW.to_proto(), dataset="d", beyond_limits=1),
    ]  # fmt: skip
    for answers, words in (
        (working, ("INTERNAL", "the server did not say what it has made")),
        ([working[0], REFUSED], ("PERMISSION_DENIED", "not you")),
    ):
        sampling, channel = sampling_of(SampleDataset=list(answers))
        with pytest.raises(PackhouseError) as failed:
            sampling.make_dataset(DRAW, "d")
        assert (failed.value.code.name, failed.value.message) == words
        assert channel.streams[0].is_cancelled

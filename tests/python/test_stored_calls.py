"""Laws of what is asked of a server about what it stores, over a channel that notes it."""

from __future__ import annotations

import datetime
from typing import Any, Iterator

import grpc
import numpy as np
import pytest

from packhouse import GraphSchema, GraphTable, PackhouseError
from packhouse.calls.retrying import UnaryCalls
from packhouse.calls.servers import JobCalls
from packhouse.client.datasets import Datasets
from packhouse.stored import histograms as histograms_module
from packhouse.stored.administration import Administration
from packhouse.stored.histograms import Histograms, ObserveTotals, observe_requests
from packhouse.v1 import admin_pb2, dataset_pb2, histogram_pb2, sizes_pb2
from test_pack_stream import Failure

AWAY = Failure(grpc.StatusCode.UNAVAILABLE, "away")
SIZES = GraphSchema(("nodes",))


class Responses:
    """Those of a call that streams."""

    def __init__(self, each: Iterator[Any]) -> None:
        self._each = each
        self.is_cancelled = False

    def __iter__(self) -> Iterator[Any]:
        return self._each

    def __next__(self) -> Any:
        return next(self._each)

    def cancel(self) -> None:
        self.is_cancelled = True


class Channel:
    """Answers each method by turns, and notes the requests."""

    def __init__(self, **answers: list[Any]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, Any]] = []
        self.streams: list[Responses] = []

    def _answer(self, method: str) -> Any:
        each = self.answers[method].pop(0)
        if isinstance(each, BaseException):
            raise each
        return each

    def unary_unary(self, method: str, *_: Any, **__: Any) -> Any:
        name = method.rpartition("/")[2]

        def call(request: Any, timeout: float = 0, wait_for_ready: bool = False) -> Any:
            self.asked.append((name, request))
            return self._answer(name)

        return call

    def _stream(self, method: str, of: Any) -> Any:
        name = method.rpartition("/")[2]

        def answers(given: Any) -> Iterator[Any]:
            for request in of(given):
                self.asked.append((name, request))
                if not isinstance(given, Iterator):
                    while self.answers[name]:
                        yield self._answer(name)
                elif self.answers[name]:
                    yield self._answer(name)

        def call(given: Any) -> Responses:
            self.streams.append(Responses(answers(given)))
            return self.streams[-1]

        return call

    def unary_stream(self, method: str, *_: Any, **__: Any) -> Any:
        return self._stream(method, lambda request: [request])

    def stream_stream(self, method: str, *_: Any, **__: Any) -> Any:
        return self._stream(method, lambda requests: requests)

    def stream_unary(self, method: str, *_: Any, **__: Any) -> Any:
        return None

    def taken(self, name: str) -> list[Any]:
        return [request for method, request in self.asked if method == name]


def histograms_of(**answers: list[Any]) -> tuple[Histograms, Channel]:
    channel = Channel(**answers)
    return Histograms(channel, UnaryCalls("a:1", 5.0)), channel


def counts(request: Any) -> list[int]:
    return np.frombuffer(request.sizes.counts, "<u4").tolist()


def test_sizes_are_sent_together_and_the_first_says_for_what(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hour = datetime.timedelta(hours=1)

    def sent(tables: Any, gather: int, again: bool = False, half_life: Any = hour) -> list[Any]:
        made = observe_requests(
            "h", tables, ("nodes", "edges"), half_life, gather, is_repeatable=again
        )
        return list(made)

    tables = [np.array([[number, 1]] * 2) for number in range(5)]
    for again in (False, True):
        requests = sent(tables, 32, again)
        assert [each.sizes.num_graphs for each in requests] == [4, 4, 2]
        assert counts(requests[2]) == [4, 1, 4, 1]
        for number, each in enumerate(requests):
            is_told = again or number == 0
            assert each.histogram == ("h" if is_told else "")
            assert list(each.components) == (["nodes", "edges"] if is_told else [])
            assert each.half_life.seconds == (3600 if is_told else 0)
            assert each.requests_per_response == (1 if again else 64 if is_told else 0)
    assert len(sent(tables, 0)) == 5 and len(sent(tables, 1 << 20)) == 1
    # A large one goes in parts of whole graphs, and none at all makes the histogram.
    monkeypatch.setattr(histograms_module, "DEFAULT_CHUNK_BYTES", 20)
    assert [each.sizes.num_graphs for each in sent(tables[:3], 1 << 20)] == [2, 2, 2]
    for half_life in (hour, None):
        (nothing,) = sent([], 32, half_life=half_life)
        assert (nothing.histogram, list(nothing.components), nothing.requests_per_response) == (
            "h",
            ["nodes", "edges"],
            1,
        )
        assert nothing.HasField("sizes") and nothing.HasField("half_life") is (
            half_life is not None
        )


def test_what_was_counted_is_added_up_and_failures_say_the_way_out() -> None:
    answer = histogram_pb2.ObserveResponse(num_counted=2, num_graphs=9)
    last = histogram_pb2.ObserveResponse(num_counted=3, num_graphs=12)
    histograms, _ = histograms_of(Observe=[answer, last])
    sizes = [np.array([[1, 2]]), np.array([[3, 4]])]
    assert histograms.observe("h", iter(sizes), gather_bytes=0) == ObserveTotals(5, 12)

    def fails() -> Iterator[Any]:
        yield sizes[0]
        raise OSError("the disk")

    histograms, channel = histograms_of(Observe=[answer])
    with pytest.raises(OSError, match="the disk"):
        histograms.observe("h", fails(), gather_bytes=0)
    assert len(channel.asked) == 1
    for failure, words in (
        (AWAY, "away; what was counted is not known: a call with `producer` goes on over this"),
        (Failure(grpc.StatusCode.NOT_FOUND, "no"), "no"),
    ):
        histograms, _ = histograms_of(Observe=[failure])
        with pytest.raises(PackhouseError) as failed:
            histograms.observe("h", sizes)
        assert failed.value.message == words
    # With a producer, what came before the source failed is counted.
    state = histogram_pb2.ObserveResponse()
    state.producer_state.next_sequence = 4
    for source in (iter(sizes), fails()):
        histograms, channel = histograms_of(Observe=[state, answer, last])
        if source is not sizes and not isinstance(source, type(iter([]))):
            with pytest.raises(OSError, match="the disk"):
                histograms.observe("h", source, producer="p", gather_bytes=0)
        else:
            totals = histograms.observe("h", source, producer="p", gather_bytes=0)
            assert totals == ObserveTotals(5, 12)
        numbered = [each.producer_sequence.sequence for each in channel.taken("Observe")]
        assert numbered[:2] == [0, 4] and channel.answers["Observe"] == (
            [] if len(numbered) == 3 else [last]
        )


def test_histograms_are_read_merged_and_forgotten() -> None:
    held = sizes_pb2.Histogram(components=["nodes"])
    histograms, channel = histograms_of(
        GetHistogram=[histogram_pb2.GetHistogramResponse(histogram=held, revision=6)],
        MergeHistogram=[histogram_pb2.MergeHistogramResponse(num_counted=2, num_graphs=3)] * 2,
        DeleteHistogram=[None],
    )
    found = histograms.get("h")
    assert found.revision == 6
    assert histograms.merge("h", found, subtract=True, producer="p", sequence=8) == (2, 3)
    histograms.merge("h", found, sequence=8)
    first, second = channel.taken("MergeHistogram")
    assert first.subtract and not second.subtract and first.histogram == "h"
    assert (first.producer_sequence.producer, first.producer_sequence.sequence) == ("p", 8)
    assert not second.HasField("producer_sequence")
    histograms.delete("h")
    assert channel.taken("DeleteHistogram")[0].histogram == "h"


def datasets_of(**answers: list[Any]) -> tuple[Datasets, Channel]:
    channel = Channel(**answers)
    return Datasets(channel, UnaryCalls("a:1", 5.0)), channel


def dataset(name: str = "d", num_graphs: int = 3) -> Any:
    return dataset_pb2.Dataset(
        name=name, schema=SIZES.to_proto(), state=1, id=5, num_graphs=num_graphs
    )


def described(num_graphs: int = 3) -> Any:
    return dataset_pb2.GetDatasetResponse(dataset=dataset(num_graphs=num_graphs))


def test_a_data_set_is_made_as_it_was_asked_for() -> None:
    datasets, channel = datasets_of(
        CreateDataset=[dataset()] * 3, SealDataset=[dataset()], DeleteDataset=[None]
    )
    datasets.create(
        "d", SIZES, max_bytes=7, max_rows={"nodes": 4}, grouped=True, oversize="partition"
    )
    datasets.create("d")
    first, second = channel.taken("CreateDataset")
    assert first.name == "d" and first.schema == SIZES.to_proto()
    assert (first.max_bytes, first.grouped, first.oversize_policy) == (7, True, 3)
    assert [(each.component, each.rows) for each in first.max_rows] == [("nodes", 4)]
    assert not second.HasField("schema") and not second.HasField("tfgnn_schema")
    assert (second.max_bytes, second.grouped, second.oversize_policy, list(second.max_rows)) == (
        0,
        False,
        0,
        [],
    )
    assert datasets.seal("d").id == 5
    datasets.delete("e")
    assert (
        channel.taken("SealDataset")[0].name == "d"
        and channel.taken("DeleteDataset")[0].name == "e"
    )


def test_data_sets_are_listed_page_by_page() -> None:
    pages = [
        dataset_pb2.ListDatasetsResponse(
            datasets=[dataset("a"), dataset("b")], next_page_token="t"
        ),
        dataset_pb2.ListDatasetsResponse(datasets=[dataset("c")]),
    ]
    datasets, channel = datasets_of(ListDatasets=pages)
    listed = datasets.list(page_size=2)
    assert next(listed).name == "a" and len(channel.asked) == 1
    assert [each.name for each in listed] == ["b", "c"]
    assert [(each.page_size, each.page_token) for each in channel.taken("ListDatasets")] == [
        (2, ""),
        (2, "t"),
    ]


def test_a_data_set_tells_its_sizes_only_if_they_are_asked_for() -> None:
    told = described()
    told.histogram.components.append("nodes")
    datasets, channel = datasets_of(GetDataset=[told, told, described()])
    assert datasets.get("d", include_histogram=True).histogram is not None
    plain = datasets.get("d")
    assert plain.histogram is None and plain.drift is None
    assert [each.include_histogram for each in channel.taken("GetDataset")] == [True, False]
    changed = described()
    changed.drift.num_changes = 2
    datasets, _ = datasets_of(GetDataset=[changed])
    drift = datasets.get("d").drift
    assert drift is not None and drift.num_changes == 2


def test_appends_end_after_what_came_before_a_failure() -> None:
    table = GraphTable(SIZES, [[1]])

    def fails() -> Iterator[Any]:
        yield table
        raise OSError("the disk")

    answer = dataset_pb2.AppendResponse(num_appended=1, num_graphs=4)
    datasets, channel = datasets_of(GetDataset=[described()] * 3, Append=[answer] * 3)
    with pytest.raises(OSError, match="the disk"):
        datasets.append("d", fails())
    # It was waited for, and its answer read.
    assert channel.answers["Append"] == [answer] * 2
    totals = datasets.append("d", table, group_ids=[8])
    assert (totals.num_chunks, totals.num_graphs) == (1, 4)
    sent = channel.taken("Append")[-1]
    assert sent.chunk.num_graphs == 1
    assert np.frombuffer(sent._message.group_ids, "<u8").tolist() == [8]
    assert channel.taken("Append")[0]._message.group_ids == b""

    def examples() -> Iterator[bytes]:
        yield b"one"
        yield b"two"
        raise OSError("the disk")

    with pytest.raises(OSError, match="the disk"):
        datasets.append_examples("d", examples(), first_id=9, chunk_bytes=1)
    last = channel.taken("Append")[-1].examples
    assert list(last.examples) == [b"one"] and last.first_id == 9 and not last.skip_malformed
    datasets, channel = datasets_of(GetDataset=[described()], Append=[answer])
    datasets.append_examples("d", [b"one"])
    assert channel.taken("Append")[0].examples.first_id == 0


def test_a_draw_has_the_shares_that_were_given() -> None:
    datasets, _ = datasets_of(GetDataset=[described(2), described(3), described(0)] * 3)

    def weights(draw: Any) -> list[float]:
        return np.asarray(draw.weights).round(6).tolist()

    draw = datasets.draw({"a": 1, "b": 3, "c": 2}, num_graphs=7, with_replacement=True)
    assert weights(draw) == [0.5, 0.5, 1, 1, 1] and draw.num_graphs == 7 and draw.with_replacement
    draw = datasets.draw(["a", "b", "c"])
    assert weights(draw) == [1.0] * 5 and draw.num_graphs == 0 and not draw.with_replacement
    assert weights(datasets.draw("abc", temperature=0.5)) == [2, 2, 3, 3, 3]
    for shares, words in (
        ([], "shares: names no data set"),
        ({"a": -1}, "shares: -1.0 of data set 'a' is not"),
        ({"a": np.inf}, "shares: inf of"),
    ):
        datasets, _ = datasets_of(GetDataset=[described(2)])
        with pytest.raises(ValueError, match=f"^{words}"):
            datasets.draw(shares)
    with pytest.raises(ValueError, match="^num_graphs: "):
        datasets.draw(["a"], num_graphs=-1)
    for temperature in (0, -1):
        with pytest.raises(ValueError, match=r"^temperature: .* is not above 0$"):
            datasets.draw(["a"], temperature=temperature)


def test_what_is_exported_is_of_the_data_set_or_of_an_epoch() -> None:
    datasets, channel = datasets_of(ExportDataset=[], ExportEpoch=[])
    list(datasets.export_examples("d", first_graph=4, num_graphs=5))
    list(datasets.export_examples("d", epoch=6, first_graph=4, num_graphs=5, limits={"nodes": 3}))
    (plain,), (of_epoch,) = channel.taken("ExportDataset"), channel.taken("ExportEpoch")
    assert (plain.name, plain.first_graph, plain.num_graphs) == ("d", 4, 5)
    assert (
        of_epoch.epoch.epoch,
        of_epoch.epoch.dataset,
        of_epoch.first_graph,
        of_epoch.num_graphs,
    ) == (6, "d", 4, 5)
    list(datasets.export_examples("e"))
    assert channel.taken("ExportDataset")[1] == dataset_pb2.ExportDatasetRequest(name="e")
    with pytest.raises(TypeError, match="^'limits' is for an epoch: give its number as `epoch`$"):
        datasets.export_examples("d", limits={"nodes": 3})


def test_a_check_that_fails_or_is_left_is_ended() -> None:
    datasets, channel = datasets_of(VerifyDataset=[AWAY])
    with pytest.raises(PackhouseError, match="away"):
        datasets.verify("d")
    assert channel.streams[0].is_cancelled and channel.taken("VerifyDataset")[0].name == "d"


def test_a_snapshot_is_told_until_it_is_done() -> None:
    class Jobs(JobCalls):
        def __init__(self) -> None:
            pass

        def unary(self, _: Any, name: str) -> Any:
            return name

    def responses(*done: bool) -> list[Any]:
        return [
            admin_pb2.TakeSnapshotResponse(folder="f", num_files=number, num_bytes=2, num_kept_files=3,
                                           num_kept_bytes=4, total_bytes=5, is_done=each)
            for number, each in enumerate(done)
        ]  # fmt: skip

    def administration(*answers: Any) -> tuple[Administration, Channel]:
        channel = Channel(TakeSnapshot=list(answers))
        asked: list[Any] = []
        made = Administration(channel, lambda *what: asked.append(what), Jobs())  # type: ignore[arg-type]
        made.move_job("j", "b:1")
        assert asked == [("MoveJob", admin_pb2.MoveJobRequest(job="j", address="b:1"))]
        return made, channel

    told: list[Any] = []
    admin, channel = administration(*responses(False, False, True))
    done = admin.snapshot("n", told.append)
    assert [each.num_files for each in told] == [0, 1] and done.num_files == 2
    assert vars(done) == {"folder": "f", "num_files": 2, "num_bytes": 2, "num_kept_files": 3,
                          "num_kept_bytes": 4, "total_bytes": 5}  # fmt: skip
    assert channel.taken("TakeSnapshot")[0].name == "n"
    assert administration(*responses(False, True))[0].snapshot("n").num_files == 1
    for answers, code, words in (
        (responses(False), "INTERNAL", "the server did not say that it is done"),
        ([AWAY], "UNAVAILABLE", "away"),
    ):
        with pytest.raises(PackhouseError) as failed:
            administration(*answers)[0].snapshot("n")
        assert (failed.value.code.name, failed.value.message) == (code, words)

"""Laws of what is asked of a server about what it stores, over a channel that notes it."""

from __future__ import annotations

import dataclasses
import datetime
import pathlib
from typing import Any, Iterator

import grpc
import numpy as np
import pytest

from packhouse import (
    Client,
    ComponentProfile,
    DeviceProfile,
    GraphSchema,
    GraphTable,
    Histogram,
    PackhouseError,
    PlanHeuristic,
)
from packhouse.calls.retrying import UnaryCalls
from packhouse.calls.servers import JobCalls
from packhouse.client.datasets import Datasets
from packhouse.data import examples as examples_module
from packhouse.data.examples import TfgnnSchema, messages_of
from packhouse.epochs.receipts import Receipts
from packhouse.epochs.request import EpochRequest
from packhouse.planning.plans import Plan
from packhouse.planning.tuning import Oversize, TuneCell, TunedShape, TuneProgress
from packhouse.stored import histograms as histograms_module
from packhouse.stored.administration import Administration
from packhouse.stored.dataset import Dataset, Verification, VerifyProgress
from packhouse.stored.histograms import Histograms, ObserveTotals, observe_requests
from packhouse.stored.jobs import Jobs
from packhouse.v1 import (
    admin_pb2,
    batch_pb2,
    dataset_pb2,
    graphs_pb2,
    histogram_pb2,
    loader_pb2,
    planning_pb2,
    planning_pb2_grpc,
    receipts_pb2,
    sizes_pb2,
)
from test_pack_stream import Failure
from test_pieces import PIECES, WHOLE

AWAY = Failure(grpc.StatusCode.UNAVAILABLE, "away")
SIZES = GraphSchema(("nodes",))


class Responses:
    """Those of a call that streams."""

    def __init__(self, each: Iterator[Any], how: dict[str, Any]) -> None:
        self._each = each
        self.how = how
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

        def call(given: Any, **how: Any) -> Responses:
            self.streams.append(Responses(answers(given), how))
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


def test_jobs_are_listed_page_by_page_told_and_forgotten() -> None:
    def epoch(num_done: int) -> Any:
        made = loader_pb2.JobEpoch(epoch=num_done, num_done=num_done, num_batches=3)
        made.last_used.seconds = 60
        return made

    told = loader_pb2.Job(job="a", epochs=[epoch(3), epoch(2)], owner="b:1")
    channel = Channel(
        ListJobs=[
            loader_pb2.ListJobsResponse(jobs=[told, loader_pb2.Job(job="b")], next_page_token="t"),
            loader_pb2.ListJobsResponse(jobs=[loader_pb2.Job(job="c")]),
        ],
        GetJob=[told],
        DeleteJob=[None],
    )
    jobs = Jobs(channel, UnaryCalls("a:1", 5.0), JobCalls(channel, lambda _: channel))  # type: ignore
    listed = jobs.list(page_size=2)
    assert next(listed).name == "a" and len(channel.asked) == 1
    assert [each.name for each in listed] == ["b", "c"]
    assert channel.taken("ListJobs") == [
        loader_pb2.ListJobsRequest(page_size=2),
        loader_pb2.ListJobsRequest(page_size=2, page_token="t"),
    ]
    job = jobs.get("a")
    assert job.owner == "b:1" and job.last_used is None
    assert [each.is_finished for each in job.epochs] == [True, False]
    minute = datetime.datetime(1970, 1, 1, 0, 1, tzinfo=datetime.timezone.utc)
    assert [each.last_used for each in job.epochs] == [minute] * 2
    jobs.delete("a")
    assert channel.taken("GetJob") == [loader_pb2.GetJobRequest(job="a")]
    assert channel.taken("DeleteJob") == [loader_pb2.DeleteJobRequest(job="a")]


def receipts_of(**answers: list[Any]) -> tuple[Receipts, Channel]:
    channel = Channel(**answers)
    jobs = JobCalls(channel, lambda _: channel)  # type: ignore[arg-type, return-value]
    return Receipts(channel, UnaryCalls("a:1", 5.0), jobs), channel


def test_a_receipt_is_told_with_its_sizes() -> None:
    answer = planning_pb2.PlanResponse(best=planning_pb2.PlanSummary(packs=4))
    receipts, channel = receipts_of(Replan=[receipts_pb2.ReplanResponse(plan=answer)] * 4)
    histogram = Histogram(("nodes",), np.array([[1]]), np.array([2]))  # type: ignore[arg-type]
    entry = planning_pb2.PatternEntry(tuple=1, copies=2)
    answer.plan.patterns.add(entries=[entry], repeats=3)
    answer.plan.tuples = np.array([5, 7], "<u4").tobytes()
    warm = Plan.from_proto(answer)
    assert warm.to_proto() == answer.plan and warm.tuples.tolist() == [[5], [7]]
    assert receipts.plan("r", "h").best.packs == 4
    receipts.plan("r", histogram, summaries_only=True)
    receipts.plan("r", dataset="d", warm_start=warm)
    receipts.plan("r")
    request = receipts_pb2.ReplanRequest
    assert channel.taken("Replan") == [
        request(receipt="r", histogram_name="h"),
        request(receipt="r", histogram=histogram.to_proto(), summaries_only=True),
        request(receipt="r", dataset="d", warm_start=answer.plan),
        request(receipt="r"),
    ]
    with pytest.raises(ValueError, match="^source: given beside dataset; sizes are from one"):
        receipts.plan("r", "h", dataset="d")


def test_batches_of_a_receipt_have_the_schema_that_comes_first() -> None:
    opened = receipts_pb2.RebuildBatchesResponse(
        opened=loader_pb2.LoadOpened(schema=SIZES.to_proto())
    )
    opened.opened.epoch.num_batches = 2
    shape = opened.opened.epoch.rank_groups.add().shapes.add(num_batches=2)
    shape.components.add(component="nodes", fullest_pack=4, efficiency_of_fullest=1.0)

    def batch(number: int) -> Any:
        made = batch_pb2.Batch(
            id=number, graph_ids=number.to_bytes(8, "little"), sizes=b"\2\0\0\0",
            real_rows=[2, 1], rows=[2, 1],
        )  # fmt: skip
        return receipts_pb2.RebuildBatchesResponse(batch=loader_pb2.LoadedBatch(batch=made))

    receipts, channel = receipts_of(RebuildBatches=[opened, batch(7), batch(5)])
    found = list(receipts.batches("j", 3, np.array([7, 5])))
    assert [(each.number, each.graph_ids.tolist()) for each in found] == [(7, [7]), (5, [5])]
    assert all(each.schema == SIZES and each.step == 0 for each in found)
    assert [each.loss_weights for each in found] == [{"nodes": 0.5}] * 2
    words: Any = {"dataset": "d", "limits": {"nodes": 9}}
    channel.answers["RebuildBatches"] = [opened]
    assert list(receipts.batches("j", 3, [7], words)) == []
    request = receipts_pb2.RebuildBatchesRequest
    assert channel.taken("RebuildBatches") == [
        request(job="j", epoch=3, numbers=[7, 5]),
        request(job="j", epoch=3, numbers=[7], words=EpochRequest(words, job="").of_epoch(0)),
    ]
    for answers in ([AWAY], [opened, AWAY]):
        channel.answers["RebuildBatches"] = list(answers)
        with pytest.raises(PackhouseError, match="away"):
            list(receipts.batches("j", 3, [7]))
    with pytest.raises(ValueError, match="^numbers: -1 is not from 0 to 18446744073709551615$"):
        list(receipts.batches("j", 3, np.array([-1])))


def test_examples_come_in_their_order_and_a_failure_after_them() -> None:
    def responses() -> list[Any]:
        response = dataset_pb2.ExportDatasetResponse
        first = response(
            num_graphs=4, examples=[b"a", b"b"], tfgnn_schema=graphs_pb2.TfgnnSchema(text="s")
        )
        return [first, response(), response(examples=[b"c"])]

    datasets, channel = datasets_of(ExportDataset=[*responses(), AWAY])
    stream = datasets.export_examples("d")
    assert stream.num_graphs == 4 and stream.schema == TfgnnSchema("s")
    assert stream.num_graphs == 4 and len(channel.answers["ExportDataset"]) == 3
    assert stream.peek() and [next(stream) for _ in range(3)] == [b"a", b"b", b"c"]
    with pytest.raises(PackhouseError, match="away") as failed:
        next(stream)
    assert failed.value.code is grpc.StatusCode.UNAVAILABLE
    datasets, channel = datasets_of(ExportDataset=responses())
    with datasets.export_examples("d") as stream:
        assert stream.schema == TfgnnSchema("s")
        assert list(stream) == [b"a", b"b", b"c"] and not stream.peek()
        assert not channel.streams[0].is_cancelled
    assert channel.streams[0].is_cancelled


def test_examples_are_sent_in_parts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    def sent(examples: Any, chunk_bytes: int = 6) -> list[Any]:
        made = messages_of(examples, first_id=5, skip_malformed=True, chunk_bytes=chunk_bytes)
        return list(made)

    def part(first_id: int, *examples: bytes) -> Any:
        return graphs_pb2.Examples(examples=examples, first_id=first_id, skip_malformed=True)

    examples = [b"aaa", b"bbb", b"cccc", b"d", b"e" * 9, b"f"]
    assert sent(examples) == [
        part(5, *examples[:2]), part(7, *examples[2:4]), part(9, examples[4]), part(10, examples[5])
    ]  # fmt: skip
    assert sent([]) == []
    monkeypatch.setattr(examples_module, "_MAX_EXAMPLES", 4)
    assert sent(examples, 1000) == [part(5, *examples[:4]), part(9, *examples[4:])]
    for single in ("a", b"a", bytearray(b"a"), memoryview(b"a")):
        with pytest.raises(TypeError, match=f"^examples: a single {type(single).__name__}, needs"):
            messages_of(single, first_id=0, skip_malformed=False, chunk_bytes=1)  # type: ignore
    for data, said in ((b"text", {"text": "text"}), (b"\xff", {"binary": b"\xff"})):
        (tmp_path / "schema").write_bytes(data)
        schema = TfgnnSchema.read(tmp_path / "schema")
        assert schema.to_proto() == graphs_pb2.TfgnnSchema(**said)  # type: ignore[arg-type]


def test_a_data_set_is_shown_in_one_line_and_takes_whole_graphs() -> None:
    made = Dataset.from_proto(dataset("d", 1234))
    assert repr(made) == "Dataset('d', open, 1,234 graphs of nodes, 0 tensors, 0 bytes)"
    bare = dataclasses.replace(made, schema=GraphSchema(()))
    assert repr(bare) == "Dataset('d', open, 1,234 graphs of no components, 0 tensors, 0 bytes)"
    for schema, max_rows, taken in (
        (PIECES, {"nodes": 4}, WHOLE),
        (PIECES, {}, PIECES),
        (WHOLE, {"nodes": 4}, WHOLE),
    ):
        held = dataclasses.replace(made, schema=schema, max_rows=max_rows)
        assert held.appended_schema == taken


def test_a_check_tells_how_far_it_is_and_what_it_found() -> None:
    response = dataset_pb2.VerifyDatasetResponse
    begun = response(num_records=1, num_records_total=4, num_bytes=2, num_bytes_total=8)
    done = response(
        num_records=4, num_records_total=4, num_bytes=8, num_bytes_total=8, finished=True
    )
    told: list[VerifyProgress] = []
    found = Verification.from_responses([begun, done], told.append)
    assert told == [VerifyProgress(1, 4, 2, 8), VerifyProgress(4, 4, 8, 8)]
    assert found == Verification(4, 8, 0, (), ()) and found.is_sound
    assert not dataclasses.replace(found, num_damaged=1).is_sound
    assert not dataclasses.replace(found, disagreements=("odd",)).is_sound
    for answers in ([], [begun]):
        with pytest.raises(ValueError, match="^the answer ended before the data set did$"):
            Verification.from_responses(answers, None)


HISTOGRAM = Histogram(("nodes",), np.array([[1]]), np.array([2]))  # type: ignore[arg-type]
LIMITS = {"nodes": 9, "graphs": 4}


def client_of(**answers: list[Any]) -> tuple[Client, Channel]:
    """One that plans and tunes."""
    channel = Channel(**answers)
    made = Client.__new__(Client)
    made._planning = planning_pb2_grpc.PlanningServiceStub(channel)
    made._call = UnaryCalls("a:1", 5.0)
    return made, channel


def test_every_word_about_a_plan_is_in_the_request() -> None:
    answer = planning_pb2.PlanResponse(best=planning_pb2.PlanSummary(packs=4))
    client, channel = client_of(Plan=[answer] * 20)
    limits = {"capacities": [{"component": name, "rows": rows} for name, rows in LIMITS.items()]}
    request = planning_pb2.PlanRequest
    expected = []
    for word, value in (
        ("summaries_only", True),
        ("include_baselines", True),
        ("include_notebook", True),
        ("include_tuple_packing", True),
        ("budget_steps", 7),
        ("seed", 8),
    ):
        assert client.plan("h", LIMITS, **{word: value}).best.packs == 4  # type: ignore[arg-type]
        expected.append(request(histogram_name="h", limits=limits, **{word: value}))
    heuristic = PlanHeuristic("component", "first_fit", "tuple_packing", "nodes", (3,), "fill")
    warm = Plan.from_proto(answer)
    client.plan(
        HISTOGRAM, LIMITS, heuristics=[heuristic], warm_start=warm, padding="graph",
        index_targets=["nodes"], ragged_components=["edges"],
    )  # fmt: skip
    priority = {"kind": 5, "component": "nodes", "weights": [3]}
    said = {"algorithm": 1, "placement": 2, "opening": 2, "priority": priority}
    whole = request(
        histogram=HISTOGRAM.to_proto(), limits=limits, heuristics=[said], padding=3,
        index_targets=["nodes"], ragged_components=["edges"],
    )  # fmt: skip
    whole.warm_start.SetInParent()
    assert channel.taken("Plan") == [*expected, whole]
    for name in ("index_targets", "ragged_components"):
        for ask in (client.plan, client.tune):
            with pytest.raises(ValueError, match=rf"^{name}: \('nodes',\) without `padding`, which"):
                ask("h", DeviceProfile({}) if ask == client.tune else LIMITS, **{name: ["nodes"]})  # type: ignore


def test_a_tuning_is_all_that_its_stream_tells() -> None:
    def shape(packs: int) -> Any:
        return planning_pb2.TunedShape(packs=packs)

    told = planning_pb2.TuneRecommendation(
        shapes=[shape(3), shape(4)], single_shape=shape(5), cheapest_shape=shape(6), epoch_cost=1.5,
        least_cost=2.5, harmonic_mean=0.5, exact=True, reasons=["Because."], group_graphs=[7, 8],
        oversize={"num_graphs": 9, "largest": [10], "needed_rows": [11], "num_apart": 12},
    )  # fmt: skip
    cell = planning_pb2.TuneCell(
        capacities=[5, 6], harmonic_mean=0.25, epoch_cost=7.0, planned=True
    )
    events = [
        planning_pb2.TuneResponse(progress={"candidates": 3, "planned": 2, "excluded": 1}),
        planning_pb2.TuneResponse(cell=cell),
        planning_pb2.TuneResponse(frontier=shape(1)),
        planning_pb2.TuneResponse(frontier=shape(2)),
        planning_pb2.TuneResponse(recommendation=told),
    ]
    profile = DeviceProfile({"nodes": ComponentProfile(max_rows=8)})
    client, channel = client_of(Tune=list(events))
    seen: list[TuneProgress] = []
    found = client.tune(
        HISTOGRAM, profile, objective="harmonic_mean", budget_steps=7, seed=8, include_grid=True,
        on_progress=seen.append, padding="tfgnn", index_targets=["nodes"],
        ragged_components=["edges"],
    )  # fmt: skip
    assert seen == [TuneProgress(3, 2, 1, None)]
    made = {
        name: [each.packs for each in getattr(found, name)] for name in ("shapes", "frontier")
    }
    assert made == {"shapes": [3, 4], "frontier": [1, 2]}
    assert (found.single_shape.packs, found.cheapest_shape.packs) == (5, 6)
    assert (found.epoch_cost, found.least_cost, found.harmonic_mean) == (1.5, 2.5, 0.5)
    assert found.exact and found.reasons == ("Because.",) and found.group_graphs == (7, 8)
    assert found.oversize == Oversize(9, (10,), (11,), 12, 0, 1)
    assert found.cells == (TuneCell((5, 6), 0.25, 7.0, True),)
    request = planning_pb2.TuneRequest
    assert channel.taken("Tune") == [
        request(
            histogram=HISTOGRAM.to_proto(), profile=profile.to_proto(), objective=2, budget_steps=7,
            seed=8, include_grid=True, padding=4, index_targets=["nodes"],
            ragged_components=["edges"],
        )
    ]  # fmt: skip
    (call,) = channel.streams
    assert call.how == {"timeout": 5.0, "wait_for_ready": True} and call.is_cancelled
    # Progress that nobody wants is nothing else; nor is there an oversize that nobody told of.
    client, channel = client_of(Tune=[events[0], planning_pb2.TuneResponse(recommendation={})])
    bare = client.tune("h", profile)
    assert bare.oversize is None and bare.cells == bare.frontier == bare.shapes == ()
    assert bare.single_shape == TunedShape.from_proto(shape(0)) and not bare.exact
    assert channel.taken("Tune") == [
        request(histogram_name="h", profile=profile.to_proto(), objective=1)
    ]
    client, channel = client_of(Tune=[events[0], AWAY])
    with pytest.raises(PackhouseError, match="away"):
        client.tune("h", profile)
    assert channel.streams[0].is_cancelled


def test_a_profile_is_read_of_a_file_and_what_is_not_said_has_its_default(
    tmp_path: pathlib.Path,
) -> None:
    path = tmp_path / "device.json"
    path.write_text('{"components": [{"component": "nodes", "maxRows": 8}], "memoryBytes": "5"}')
    assert DeviceProfile.load(path) == DeviceProfile(
        {"nodes": ComponentProfile(max_rows=8)}, memory_bytes=5
    )
    for wrong in (b"{", b'{"\xff": 1}', b'{"memory": 5}'):
        path.write_bytes(wrong)
        with pytest.raises(ValueError, match="device.json: no device profile: "):
            DeviceProfile.load(path)
    with pytest.raises(FileNotFoundError):
        DeviceProfile.load(tmp_path / "none")
    assert Oversize.from_proto(planning_pb2.Oversize()) == Oversize(0, (), ())

"""Every bound that the protos and the pages name is taken exactly, and one beyond it is refused.

A bound in a comment of proto/ that has no row here fails: write a row, or say in NOT_TRIED why no client
can meet it. A bound in a table of docs/ fails, too, unless it has a row, or PAGES names the test that tries
it, or says why none does.
"""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import math
import os
import pathlib
import re
import struct
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

import grpc
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from documented_bounds import all_documented_bounds, bounds_of_page, documented_bounds

from packhouse import LocalServer
from packhouse.v1 import (
    admin_pb2,
    batch_pb2,
    dataset_pb2,
    feedback_pb2,
    graphs_pb2,
    histogram_pb2,
    loader_pb2,
    packing_pb2,
    partitioning_pb2,
    planning_pb2,
    receipts_pb2,
    sampling_pb2,
    sizes_pb2,
    source_graph_pb2,
)

ROOT: Final = pathlib.Path(__file__).parents[2]
OK: Final = grpc.StatusCode.OK
REFUSED: Final = grpc.StatusCode.INVALID_ARGUMENT
EXHAUSTED: Final = grpc.StatusCode.RESOURCE_EXHAUSTED
NOT_FOUND: Final = grpc.StatusCode.NOT_FOUND
Answer = tuple[grpc.StatusCode, str]

# What no client can exceed, and why.
NOT_TRIED: Final = {
    "DeviceModel.shapes: 48": "of an answer",
    "DriftWatch: 2^20": "how far a reference grows",
    "Job.epochs: 10,000": "of an answer",
    "PackDrifted.loss: 1": "of an answer",
    "PartitionJob.share_done: 1": "of an answer",
    "TuneRecommendation.shapes: 0.5": "of an answer",
    "TuneRecommendation.cheapest_shape: 0.5": "of an answer",
    "ComponentEfficiency.efficiency: > 1": "of an answer",
    "PlanSummary.gap: < 0": "of an answer",
    "EpochShare.num_batches_before: > 0": "of an answer",
    "SubGraphs.weight_column: > 0": "which edges are drawn",
    "DrawnSmaller.level: > 4096": "how sub-graphs are drawn smaller",
    "SampleSpec.seeds: > 1": "what a number means",
    "Segments.graphs: >= 1": "0 is another number, and none is between them",
    "Segments.graphs: >= 64": "how a data set is cut",
    "EpochSpec.adaptive: >= 2": "when limits change",
    "Priority.weights: 2^32": "the field's type has no larger number",
    "ListDatasetsRequest.page_size: 1000": "a larger number counts as this, and a page may be shorter",
    "ListJobsRequest.page_size: 1000": "a larger number counts as this, and a page may be shorter",
    "ListSourceGraphsRequest.page_size: 1000": "a larger number counts as this, and a page may be shorter",
    "ReadPartitionFileRequest.max_bytes: 4 MiB": "a larger number counts as this",
    "PlanningService.Plan: 256": "PlanRequest.heuristics",
    "SourceNodeRows.ids: 2^24": "a message has fewer",
    "SourceEdgeRows.sources: 2^24": "a message has fewer",
    "LookupNodesRequest.ids: 2^24": "a message has fewer",
}

TAKEN: Final = "what it takes, no bound"
# Of the tables of docs/: the test that tries a bound, or why none does.
PAGES: Final = {
    "memory.md, pending": {
        "--max-pending-bytes": "SizesStreamTest.PendingBytesAreBoundedByPackingEarly",
        "--max-total-pending-bytes": "NamespaceBytesTest.StreamsOfANamespaceShareItsBoundWithinThatOfAll",
    },
    "memory.md, unsent": {"512 KiB": "OutboxTest.IsFullAtTwoLargeResponsesOrManySmallOnes"},
    "memory.md, received": dict.fromkeys(
        ("--max-streams", "64 KiB", "1 MiB"), "MemorySharesTest.WindowsOfAllStreamsFitUnlessTheyWouldBeTiny"
    ),
    "memory.md, working": {"10": "ScriptedCallTest.AStreamDoesNotWaitForEver"},
    "memory.md, a parsed message": {
        "--max-message-bytes": "MalformedTest.AMessageAboveTheLimitIsResourceExhausted",
        "1 MiB": "WireFootprintTest.ExceedsTheBoundForAnyFieldOfEmptyElements",
        "16": "WireFootprintTest.APlanForManySizesIsWithinItsBound",
    },
    "memory.md, a reader of a data set with l components": {"40": TAKEN},
    "memory.md, a plan": {"4": TAKEN},
    "memory.md, copies of data sets from which batches are made faster": {
        "32 GiB": "of a larger one there is no copy, and nobody sees it"
    },
    "memory.md, a job's ledger": {
        "4 MiB": "KeptPlanTest.OneThatIsTooLargeIsNotKept",
        "65,536": "JobTest.WhatIsDoneHasABoundedNumberOfGaps",
        "4": TAKEN,
    },
    "memory.md, sealing a source graph": dict.fromkeys(("256 MiB", "16 MiB"), TAKEN),
    "memory.md, rows of TF-GNN's examples": dict.fromkeys(("16", "1 MiB"), TAKEN),
    "memory.md, named histograms": {"2^20": "HistogramStoreTest.DistinctSizesHaveABound"},
    "memory.md, sizes of open streams": {"64 KiB": "SizeSampleTest.ManyComponentsTakeNoMoreBytes"},
    "memory.md, questions of the page": {
        "64": "PageJobsTest.QuestionsOfAllAndOfOneViewerAreBounded",
        "16 MiB": "PageJobsTest.WithoutMemoryTheAnswerSaysSo",
        "512 KiB": "PageAnswersTest.ListsAreBounded",
    },
    "memory.md, streams and unary calls at once": {
        "--max-streams": "GateTest.BoundsStreamsAndCalls",
        "--max-calls": "GateTest.BoundsStreamsAndCalls",
        "--max-streams-per-client": "GateTest.AClientHasItsOwnBounds",
        "--max-calls-per-client": "GateTest.AClientHasItsOwnBounds",
    },
    "memory.md, open calls in any state": {
        "256": "FairBoundTest.BoundsEachClientAndAll",
        "128": "EarlyCallTest.CallsWithoutRequestsAreBounded",
    },
    "memory.md, streams of Health.Watch": {
        "--max-health-watches": "HealthServiceTest.WatchesAreBoundedAndComeAndGo"
    },
    "memory.md, connections": dict.fromkeys(
        ("--max-connections", "--max-connections-per-client"),
        "ConnectionAcceptorTest.BoundsConnectionsOfAClientAndOfAll",
    ),
    "memory.md, calls of one connection": {
        "--max-streams-per-connection": "ConnectionCallsTest.BoundsCallsAtOnceOfEachConnection",
        "64": "ConnectionAcceptorTest.AConnectionWithTooManyCallsEnds",
    },
    "memory.md, threads of calls that plan": dict.fromkeys(("64", "8", "4", "2"), "one more waits"),
    "memory.md, slots of lanes": {
        **dict.fromkeys(("4", "16", "64 MiB"), "LaneSizeTest.HasFewSlotsAndIsBounded"),
        "5 MiB": TAKEN,
        "64": "LaneTest.AThousandThatSayNothingKeepNobodyOut",
    },
    "memory.md, batches in flight": {"1024": "LoadRequest.max_in_flight has a row"},
    "memory.md, graphs in a batch": {
        "--max-graphs-per-batch": "SizesStreamTest.EmptyGraphsAreBoundedByTheServersOwnLimit"
    },
    "memory.md, the HTTP port": {
        "256": "HttpServerTest.WhoHasMostConnectionsMakesRoom",
        "16 KiB": "HttpServerTest.AHeadWithoutEndIsRefused",
    },
    "memory.md, the log": {"1024": "LimitedLogTest.ManyKeysShareOne"},
    "memory.md, data sets on the disk": {
        "--max-store-bytes": "DatasetServiceTest.AFullStoreIsResourceExhaustedAndServesOn"
    },
    "memory.md, source graphs on the disk": {"--max-source-graph-bytes": "FileSourceGraphStoreTest.Bounds"},
    "memory.md, partitions that run and wait": dict.fromkeys(
        ("--max-running-partitions", "--max-waiting-partitions"), "PartitionJobsLawTest.OneRunsSomeWait"
    ),
    "memory.md, files of partitions": {"--max-partition-bytes": "PartitionJobsTest.FilesHaveABound"},
    "memory.md, epochs in the ledger": dict.fromkeys(
        ("--max-epochs", "8"), "LoaderTest.RemembersABoundedNumberOfEpochs"
    ),
    "memory.md, measured models": {"48": "MeasuredShapesTest.TakesBoundedMemoryAndKeepsTheExtremes"},
    "storage-format.md, all data sets": {
        "64 GiB": "a number that is not given", "256 MiB": "address space"
    },
    "storage-format.md, producers of a data set": {
        "4096": "DatasetStoreTest.ProducersOfOneCallAreLetGo",
        "65,536": "HistogramStoreTest.ProducersOfOneCallAreLetGo",
        "256": "HistogramStoreTest.AnOldNumberIsKnownOrRefused",
        "1280": "HistogramStoreTest.AnOldNumberIsKnownOrRefused",
    },
    "storage-format.md, data sets": {"65,536": "LmdbDatasetStoreTest.TheNumberOfDataSetsIsBounded"},
    "storage-format.md, one append": {"1 GiB": "a message has fewer", "2^24": "a message has fewer"},
    "storage-format.md, all jobs' records": {
        "1 GiB": "LmdbJobLogsTest.HasAsManyBytesAsItMay", "32": TAKEN, "256 MiB": "address space"
    },
    "storage-format.md, one record of a log": dict.fromkeys(("1 GiB", "16 MiB"), "no request makes one"),
    "storage-format.md, the plan that is kept of an epoch": {"4 MiB": "KeptPlanTest.OneThatIsTooLargeIsNotKept"},
    "storage-format.md, a cursor": {"2 MiB": "CursorTest.ALongTextIsRefusedBeforeItIsRead"},
    "storage-format.md, one source graph": {
        "0": "FileSourceGraphStoreTest.Bounds",
        "16": TAKEN,
        "32": TAKEN,
        "64 MiB": "FileSourceGraphStoreTest.Bounds",
    },
    "storage-format.md, arrays and sets of a source graph": {
        "4096": "SourceGraphSchema.node_sets has a row",
        "256": "SourceGraphSchema.node_sets has a row",
        **dict.fromkeys(("2^32", "2"), "a graph of 48 GB"),
    },
}


class World:
    """A server, and what calls need."""

    def __init__(self, server: LocalServer) -> None:
        options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
        self._channel = grpc.insecure_channel(server.address, options=options)
        self._numbers = itertools.count()

    def name(self) -> str:
        """That nothing has yet."""
        return f"thing{next(self._numbers)}"

    def stub(self, service: str, module: str) -> Any:
        """Of a service."""
        return getattr(importlib.import_module(f"packhouse.v1.{module}_pb2_grpc"), service + "Stub")(self._channel)

    @staticmethod
    def answer(call: Callable[[], Any]) -> Answer:
        """How a call ends; of a stream, how it begins."""
        try:
            answer = call()
            if hasattr(answer, "cancel"):
                next(iter(answer), None)
                answer.cancel()
        except grpc.RpcError as error:
            return error.code(), error.details() or ""
        return OK, ""

    def create(self, schema: graphs_pb2.GraphSchema | None = None, name: str = "") -> Answer:
        """A data set."""
        request = dataset_pb2.CreateDatasetRequest(name=name or self.name(), schema=schema)
        return self.answer(lambda: self.stub("DatasetService", "dataset").CreateDataset(request))

    def make_dataset(self) -> None:
        """The data set `graphs`, of one graph."""
        assert self.create(name="graphs") == (OK, "")
        datasets = self.stub("DatasetService", "dataset")
        chunk = graphs_pb2.GraphChunk(sizes=ONE_SIZE)
        list(datasets.Append(iter([dataset_pb2.AppendRequest(dataset="graphs", graphs=chunk)])))
        datasets.SealDataset(dataset_pb2.SealDatasetRequest(name="graphs"))

    def create_graph(self, schema: source_graph_pb2.SourceGraphSchema, name: str = "") -> Answer:
        """A source graph."""
        request = source_graph_pb2.CreateSourceGraphRequest(name=name or self.name(), schema=schema)
        return self.answer(lambda: self.stub("SourceGraphService", "source_graph").CreateSourceGraph(request))

    def spec(self, **words: Any) -> loader_pb2.EpochSpec:
        """An epoch of the data set `graphs`."""
        spec = loader_pb2.EpochSpec(dataset="graphs", job=self.name(), rank_groups=[GROUP])
        spec.MergeFrom(loader_pb2.EpochSpec(**words))
        return spec

    def epoch(self, spec: loader_pb2.EpochSpec) -> Answer:
        """Asks for its figures."""
        request = loader_pb2.GetEpochRequest(epoch=spec)
        return self.answer(lambda: self.stub("LoaderService", "loader").GetEpoch(request))

    def load(self, **words: Any) -> Answer:
        """Opens it as a reader, with other words of the request."""
        request = loader_pb2.LoadRequest(epoch=self.spec(), ranked=loader_pb2.Ranked(num_ranks=1))
        for name, value in words.items():
            if isinstance(value, (int, str)):
                setattr(request, name, value)
            else:
                getattr(request, name).CopyFrom(value)
        return self.answer(lambda: self.stub("LoaderService", "loader").Load(request))

    def pack(self, **words: Any) -> Answer:
        """Opens a stream."""
        opened = packing_pb2.PackOpen(limits=LIMITS)
        opened.MergeFrom(packing_pb2.PackOpen(**words))
        if opened.HasField("device_profile"):
            opened.ClearField("limits")
        requests = [packing_pb2.PackRequest(open=opened)]
        return self.answer(lambda: self.stub("PackingService", "packing").Pack(iter(requests)))

    def plan(self, **words: Any) -> Answer:
        """A plan of three graphs."""
        request = planning_pb2.PlanRequest(histogram=HISTOGRAM, limits=LIMITS)
        request.MergeFrom(planning_pb2.PlanRequest(**words))
        return self.answer(lambda: self.stub("PlanningService", "planning").Plan(request))

    def tune(self, profile: planning_pb2.DeviceProfile, **words: Any) -> Answer:
        """The limits for a device."""
        request = planning_pb2.TuneRequest(histogram=HISTOGRAM, profile=profile, **words)
        return self.answer(lambda: list(self.stub("PlanningService", "planning").Tune(request)))

    def observe(self, **words: Any) -> Answer:
        """Counts a graph."""
        words.setdefault("histogram", self.name())
        requests = [histogram_pb2.ObserveRequest(sizes=ONE_SIZE, **words)]
        return self.answer(lambda: self.stub("HistogramService", "histogram").Observe(iter(requests)))

    def observe_sizes(self, count: int) -> Answer:
        """Counts so many graphs."""
        table = sizes_pb2.SizeTable(num_graphs=count, counts=struct.pack("<2I", 1, 1) * count)
        requests = [histogram_pb2.ObserveRequest(histogram=self.name(), sizes=table)]
        return self.answer(lambda: self.stub("HistogramService", "histogram").Observe(iter(requests)))

    def report(self, **words: Any) -> Answer:
        """What batches cost."""
        words.setdefault("model", self.name())
        words.setdefault("device", "cpu")
        words.setdefault("batches", [FEEDBACK])
        request = feedback_pb2.ReportRequest(**words)
        return self.answer(lambda: self.stub("FeedbackService", "feedback").Report(request))

    def partition(self, **words: Any) -> Answer:
        """Of the source graph `source`."""
        words.setdefault("name", "".join("abcdefghij"[int(c)] for c in str(next(self._numbers))))
        words.setdefault("graph", "source")
        words.setdefault("num_parts", 1)
        request = partitioning_pb2.PartitionRequest(**words)
        stub = self.stub("PartitioningService", "partitioning")
        answer = self.answer(lambda: stub.Partition(request))
        if answer[0] is OK:
            # It was asked for, and need not be made.
            stub.DeletePartition(partitioning_pb2.DeletePartitionRequest(graph=request.graph, name=request.name))
        return answer

    def append_nodes(self, graph: str, rows: source_graph_pb2.SourceNodeRows) -> Answer:
        """To a source graph."""
        request = source_graph_pb2.AppendSourceGraphRequest(graph=graph, nodes=[rows])
        stub = self.stub("SourceGraphService", "source_graph")
        return self.answer(lambda: stub.AppendSourceGraph(iter([request])))

    def estimate(self, **words: Any) -> Answer:
        """Of sub-graphs of `source`."""
        sub_graphs = sampling_pb2.SubGraphs(graph="source", text=SPEC)
        sub_graphs.MergeFrom(words.pop("sub_graphs", sampling_pb2.SubGraphs()))
        request = sampling_pb2.EstimateSizesRequest(sub_graphs=sub_graphs, **words)
        return self.answer(lambda: self.stub("SamplingService", "sampling").EstimateSizes(request))


def capacities(**rows: int) -> batch_pb2.Limits:
    return batch_pb2.Limits(capacities=[batch_pb2.Capacity(component=name, rows=n) for name, n in rows.items()])


def cost_order(num_terms: int) -> loader_pb2.BatchOrder:
    terms = [loader_pb2.CostTerm(component="edges")] * num_terms
    return loader_pb2.BatchOrder(cost_balanced=loader_pb2.CostBalanced(terms=terms, num_ranks=1))


LIMITS: Final = capacities(nodes=8, edges=8, graphs=4)
GROUP: Final = loader_pb2.RankGroup(shapes=[LIMITS], num_ranks=1)
ONE_SIZE: Final = sizes_pb2.SizeTable(num_graphs=1, counts=struct.pack("<2I", 1, 1))
HISTOGRAM: Final = sizes_pb2.Histogram(
    components=["nodes", "edges"], tuples=struct.pack("<2I", 1, 1), counts=struct.pack("<Q", 3)
)
FEEDBACK: Final = feedback_pb2.BatchFeedback(capacities=LIMITS, seconds=1)
SPEC: Final = 'seed_op { op_name: "seed" node_set_name: "n" }'
POLICY: Final = "version: 1\nroles:\n- {role: admin, principals: [anonymous], namespaces: ['*']}\n"
INT8: Final = graphs_pb2.DATA_TYPE_INT8


def profile(**words: Any) -> planning_pb2.DeviceProfile:
    component = planning_pb2.DeviceProfile.Component
    return planning_pb2.DeviceProfile(
        components=[component(component="nodes", min_rows=8, max_rows=8, relative_cost=words.pop("relative_cost", 1))],
        **words,
    )


def tensors(*specs: graphs_pb2.TensorSpec) -> graphs_pb2.GraphSchema:
    return graphs_pb2.GraphSchema(components=["nodes"], tensors=specs)


def tensor(name: str = "x", **words: Any) -> graphs_pb2.TensorSpec:
    return graphs_pb2.TensorSpec(name=name, dtype=INT8, component="nodes", **words)


def column(name: str = "x", **words: Any) -> source_graph_pb2.SourceColumn:
    return source_graph_pb2.SourceColumn(name=name, dtype=INT8, **words)


def node_set(name: str = "n", **words: Any) -> source_graph_pb2.SourceNodeSet:
    return source_graph_pb2.SourceNodeSet(name=name, **words)


def edge_set(name: str = "e", **words: Any) -> source_graph_pb2.SourceEdgeSet:
    return source_graph_pb2.SourceEdgeSet(name=name, source="n", target="n", **words)


def graph_of(*nodes: source_graph_pb2.SourceNodeSet, edges: Any = ()) -> source_graph_pb2.SourceGraphSchema:
    return source_graph_pb2.SourceGraphSchema(node_sets=nodes or [node_set()], edge_sets=edges)


def columns_of(count: int) -> list[source_graph_pb2.SourceColumn]:
    return [column(f"c{i}") for i in range(count)]


@dataclasses.dataclass(frozen=True)
class Row:
    """A bound, and the call that meets it with a value."""

    key: str
    at: Any
    beyond: Any
    call: Callable[[World, Any], Answer]
    # How the call at the bound may end: of what is behind the bound, too.
    accepted: tuple[grpc.StatusCode, ...] = (OK,)
    refused: grpc.StatusCode = REFUSED
    # What the refusal says of the bound; by default its number.
    says: str = ""


ROWS: Final[list[Row]] = []


def row(
    key: str, at: Any, beyond: Any, *accepted: grpc.StatusCode, refused: grpc.StatusCode = REFUSED, says: str = ""
) -> Callable[..., None]:
    def add(call: Callable[[World, Any], Answer]) -> None:
        ROWS.append(Row(key, at, beyond, call, accepted or (OK,), refused, says))

    return add


def from_below(key: str, least: float, call: Callable[[World, float], Answer]) -> None:
    """A number that is at least as large."""
    row(key, least, math.nextafter(least, -math.inf))(call)


def letters(key: str, most: int, call: Callable[[World, str], Answer], *accepted: grpc.StatusCode) -> None:
    """A name."""
    row(key, "a" * most, "a" * (most + 1), *accepted)(call)


def number(key: str, most: int, call: Callable[[World, int], Answer], *accepted: grpc.StatusCode) -> None:
    """How many, or how much."""
    row(key, most, most + 1, *accepted)(call)


letters(
    "TakeSnapshotRequest.name: 63",
    63,
    lambda world, name: world.answer(
        lambda: list(world.stub("AdminService", "admin").TakeSnapshot(admin_pb2.TakeSnapshotRequest(name=name)))
    ),
)
letters("DatasetService: 128", 128, lambda world, name: world.create(name=name))
letters("FeedbackService: 128", 128, lambda world, name: world.report(model=name))
letters("FeedbackService: 64", 64, lambda world, name: world.report(device=name))
row("BatchFeedback.seconds: 10^6", 1e6, math.nextafter(1e6, math.inf), says="1e+06")(
    lambda world, seconds: world.report(batches=[feedback_pb2.BatchFeedback(capacities=LIMITS, seconds=seconds)])
)
number(
    "BatchFeedback.peak_bytes: 2^50",
    2**50,
    lambda world, n: world.report(batches=[feedback_pb2.BatchFeedback(capacities=LIMITS, peak_bytes=n)]),
)
number("ReportRequest.batches: 1024", 1024, lambda world, n: world.report(batches=[FEEDBACK] * n))
letters("TensorSpec.name: 128", 128, lambda world, name: world.create(tensors(tensor(name))))
number("TensorSpec.row_shape: 8", 8, lambda world, n: world.create(tensors(tensor(row_shape=[1] * n))))
number("TensorSpec.row_shape: 16 MiB", 2**24, lambda world, n: world.create(tensors(tensor(row_shape=[n]))))
number(
    "TensorSpec.layout: 16",
    16,
    lambda world, n: world.create(tensors(tensor(row_shape=[n], layout=graphs_pb2.LAYOUT_ROWS_LAST))),
)
number(
    "GraphSchema.components: 64",
    64,
    lambda world, n: world.create(graphs_pb2.GraphSchema(components=[f"c{i}" for i in range(n)])),
)
letters("GraphSchema.components: 128", 128, lambda world, name: world.create(graphs_pb2.GraphSchema(components=[name])))
number("GraphSchema.tensors: 256", 256, lambda world, n: world.create(tensors(*(tensor(f"t{i}") for i in range(n)))))
letters("HistogramService: 128", 128, lambda world, name: world.observe(histogram=name))
letters(
    "ProducerSequence.producer: 128",
    128,
    lambda world, name: world.observe(producer_sequence=histogram_pb2.ProducerSequence(producer=name, sequence=1)),
)


@row("ProducerSequence.forget_after: 30", 30 * 86400, 30 * 86400 + 1, says="720h")
def _forget_after(world: World, seconds: int) -> Answer:
    sequence = histogram_pb2.ProducerSequence(producer="p", sequence=1)
    sequence.forget_after.seconds = seconds
    return world.observe(producer_sequence=sequence)


number("ObserveRequest.requests_per_response: 1024", 1024, lambda world, n: world.observe(requests_per_response=n))


def _shapes(world: World, count: int) -> Answer:
    spec = world.spec()
    del spec.rank_groups[:]
    spec.rank_groups.add(shapes=[capacities(nodes=20 - i, edges=20, graphs=4) for i in range(count)])
    return world.epoch(spec)


number("RankGroup.shapes: 8", 8, _shapes)
# The server's memory is smaller.
row("Draw.num_graphs: 2^32", 2**32 - 1, 2**32, EXHAUSTED)(
    lambda world, n: world.epoch(world.spec(draw=loader_pb2.Draw(num_graphs=n, with_replacement=True)))
)
number(
    "Ranked.reader: 1024",
    1024,
    lambda world, n: world.load(ranked=loader_pb2.Ranked(num_ranks=1, num_readers=n)),
)
letters("Dynamic.worker: 128", 128, lambda world, name: world.load(dynamic=loader_pb2.Dynamic(worker=name)))


def _padding(world: World, length: int) -> Answer:
    """The padding value of one string a node."""
    lengths = graphs_pb2.TensorSpec(name="nodes.t.bytes.d1", dtype=graphs_pb2.DATA_TYPE_INT32, component="nodes")
    text = graphs_pb2.TensorSpec(
        name="nodes.t.bytes", dtype=graphs_pb2.DATA_TYPE_UINT8, component="nodes.t.bytes", padding_value=b"a" * length
    )
    return world.create(graphs_pb2.GraphSchema(components=["nodes", "nodes.t.bytes"], tensors=[lengths, text]))


number("TensorSpec.padding_value: 4096", 4096, _padding)


def _field(number: int, value: bytes) -> bytes:
    """A field of bytes, of fewer than 128, as protobuf has it."""
    return bytes((number << 3 | 2, len(value))) + value


def _examples(world: World, count: int) -> Answer:
    """Each of one graph of one node, and large enough for the memory that a request of them may take."""
    name = world.name()
    schema = graphs_pb2.TfgnnSchema(text='node_sets { key: "n" value {} }')
    request = dataset_pb2.CreateDatasetRequest(name=name, tfgnn_schema=schema)
    datasets = world.stub("DatasetService", "dataset")
    datasets.CreateDataset(request)
    one = _field(3, _field(1, b"\x01"))
    sizes = _field(1, _field(1, b"nodes/n.#size") + _field(2, one))
    others = _field(1, _field(1, b"another") + _field(2, one))
    append = dataset_pb2.AppendRequest(dataset=name)
    append.examples.examples.extend([_field(1, sizes + others)] * count)
    return world.answer(lambda: datasets.Append(iter([append])))


number("Examples.examples: 2^20", 2**20, _examples)


def _sampled(world: World, **words: Any) -> Answer:
    spec = world.spec(samples=loader_pb2.SampleSpec(sub_graphs=sampling_pb2.SubGraphs(graph="source", text=SPEC), **words))
    spec.dataset = ""
    spec.rank_groups[0].CopyFrom(loader_pb2.RankGroup(shapes=[capacities(n=8, graphs=4)], num_ranks=1))
    return world.epoch(spec)


number("SampleSpec.window: 65536", 65536, lambda world, n: _sampled(world, window=n))
number(
    "Segments.tracks: 64", 64, lambda world, n: world.epoch(world.spec(segments=loader_pb2.Segments(tracks=n)))
)


def _job(world: World, name: str) -> Answer:
    spec = world.spec()
    spec.job = name
    return world.epoch(spec)


letters("EpochSpec.job: 128", 128, _job)
number("EpochSpec.rank_groups: 16", 16, lambda world, n: world.epoch(world.spec(rank_groups=[GROUP] * (n - 1))))
number("CostBalanced.terms: 64", 64, lambda world, n: world.epoch(world.spec(order=cost_order(n))))
number("EpochSpec.look_ahead: 16384", 16384, lambda world, n: world.epoch(world.spec(in_order=True, look_ahead=n)))
number("LoadRequest.max_in_flight: 1024", 1024, lambda world, n: world.load(max_in_flight=n))
letters("LoadRequest.attempt: 128", 128, lambda world, name: world.load(attempt=name))
number(
    "AcknowledgeRequest.batches: 65536",
    65536,
    lambda world, n: world.answer(
        lambda: world.stub("LoaderService", "loader").Acknowledge(
            loader_pb2.AcknowledgeRequest(job="unknown", batches=range(n))
        )
    ),
    NOT_FOUND,
)
number("PackOpen.look_ahead: 16384", 16384, lambda world, n: world.pack(look_ahead=n))
number(
    "DriftWatch.num_graphs: 65,536", 65536, lambda world, n: world.pack(drift=packing_pb2.DriftWatch(num_graphs=n))
)
number(
    "Calibration.num_graphs: 65,536",
    65536,
    lambda world, n: world.pack(calibration=packing_pb2.Calibration(num_graphs=n), device_profile=profile()),
)
letters("PartitioningService: 128", 128, lambda world, name: world.partition(name=name))
number("PartitionRequest.num_parts: 65536", 65536, lambda world, n: world.partition(num_parts=n))
number("PartitionRequest.num_hops: 16", 16, lambda world, n: world.partition(num_hops=n))
number(
    "PartitionRequest.trainers_per_machine: 65536", 65536, lambda world, n: world.partition(trainers_per_machine=n)
)
number("PlanRequest.heuristics: 256", 256, lambda world, n: world.plan(
    heuristics=[planning_pb2.PlanHeuristic(algorithm=planning_pb2.PLAN_ALGORITHM_NO_PACKING)] * n))


def _weight(world: World, weight: int) -> Answer:
    priority = planning_pb2.Priority(kind=planning_pb2.PRIORITY_KIND_PRODUCT, weights=[weight, 1])
    heuristic = planning_pb2.PlanHeuristic(algorithm=planning_pb2.PLAN_ALGORITHM_TUPLE_PACKING, priority=priority)
    return world.plan(heuristics=[heuristic])


number("Priority.weights: 16", 16, _weight)
number("PlanRequest.budget_steps: 10^11", 10**11, lambda world, n: world.plan(budget_steps=n))
row("DeviceProfile.Component.relative_cost: 10^200", 1e200, math.nextafter(1e200, math.inf), says="1e+200")(
    lambda world, cost: world.tune(profile(relative_cost=cost))
)
row("DeviceProfile.fixed_cost: 10^200", 1e200, math.nextafter(1e200, math.inf), says="1e+200")(lambda world, cost: world.tune(profile(fixed_cost=cost)))
number("DeviceProfile.max_distinct_shapes: 8", 8, lambda world, n: world.tune(profile(max_distinct_shapes=n)))
number("TuneRequest.budget_steps: 10^11", 10**11, lambda world, n: world.tune(profile(), budget_steps=n))
letters(
    "RebuildBatchesRequest.job: 128",
    128,
    lambda world, name: world.answer(
        lambda: world.stub("ReceiptService", "receipts").RebuildBatches(
            receipts_pb2.RebuildBatchesRequest(job=name, numbers=[0])
        )
    ),
    NOT_FOUND,
)
number(
    "RebuildBatchesRequest.numbers: 1024",
    1024,
    lambda world, n: world.answer(
        lambda: world.stub("ReceiptService", "receipts").RebuildBatches(
            receipts_pb2.RebuildBatchesRequest(job="known", numbers=[0] * n)
        )
    ),
)
row("SubGraphs.spec: 1 MiB", SPEC.ljust(2**20), SPEC.ljust(2**20 + 1))(
    lambda world, text: world.estimate(sub_graphs=sampling_pb2.SubGraphs(text=text))
)
number(
    "SubGraphs.seeds_per_graph: 65536",
    65536,
    lambda world, n: world.estimate(sub_graphs=sampling_pb2.SubGraphs(seeds_per_graph=n)),
)
number("EstimateSizesRequest.num_graphs: 65536", 65536, lambda world, n: world.estimate(num_graphs=n))
number(
    "SizeTable.num_graphs: 2^20",
    2**20,
    lambda world, n: world.observe_sizes(n),
)


def _seeds(world: World, count: int) -> Answer:
    opened = sampling_pb2.SampleOpen(sub_graphs=sampling_pb2.SubGraphs(graph="source", text=SPEC))
    seeds = sampling_pb2.SampleSeeds(seeds=sampling_pb2.Seeds(numbers=bytes(4 * count)))
    requests = [sampling_pb2.SampleRequest(open=opened), sampling_pb2.SampleRequest(seeds=seeds)]
    stub = world.stub("SamplingService", "sampling")
    # The refusal comes behind what opens the stream.
    return world.answer(lambda: list(itertools.islice(stub.Sample(iter(requests)), 2)))


number("SampleSeeds: 2^20", 2**20, _seeds)


def _classes(world: World, count: int) -> Answer:
    """So many nodes, each of another class."""
    name = world.name()
    klass = source_graph_pb2.SourceColumn(name="k", dtype=graphs_pb2.DATA_TYPE_INT32)
    assert world.create_graph(graph_of(node_set(columns=[klass]), edges=[edge_set()]), name) == (OK, "")
    numbers = source_graph_pb2.SourceColumnRows(name="k", data=struct.pack(f"<{count}i", *range(count)))
    ids = source_graph_pb2.NodeIds(integers=struct.pack(f"<{count}q", *range(count)))
    rows = source_graph_pb2.SourceNodeRows(node_set="n", ids=ids, columns=[numbers])
    assert world.append_nodes(name, rows) == (OK, "")
    sources = world.stub("SourceGraphService", "source_graph")
    list(sources.SealSourceGraph(source_graph_pb2.SealSourceGraphRequest(name=name)))
    classes = partitioning_pb2.PartitionClasses(node_set="n", columns=["k"])
    partitions = world.stub("PartitioningService", "partitioning")
    job = partitions.Partition(
        partitioning_pb2.PartitionRequest(graph=name, name="p", num_parts=1, balance_node_sets=[classes])
    )
    while job.state in (partitioning_pb2.PARTITION_STATE_WAITING, partitioning_pb2.PARTITION_STATE_RUNNING):
        job = partitions.GetPartition(partitioning_pb2.GetPartitionRequest(graph=name, name="p"))
    code = next(each for each in grpc.StatusCode if each.value[0] == job.error_code)
    return code, job.error_message


number("PartitionRequest.balance_node_sets: 256", 256, _classes)


def _tuples(count: int) -> bytes:
    return b"".join(struct.pack("<2I", i & 1023, i >> 10) for i in range(count))


def _warm_start(world: World, count: int) -> Answer:
    pattern = planning_pb2.Pattern(entries=[planning_pb2.PatternEntry(tuple=0, copies=1)], repeats=1)
    return world.plan(warm_start=planning_pb2.PackingPlan(tuples=_tuples(count), patterns=[pattern]))


number("PlanRequest.warm_start: 2^20", 2**20, _warm_start)


def _distinct(world: World, count: int) -> Answer:
    histogram = sizes_pb2.Histogram(
        components=["nodes", "edges"], tuples=_tuples(count), counts=struct.pack("<Q", 1) * count
    )
    request = planning_pb2.PlanRequest(
        histogram=histogram,
        limits=capacities(graphs=2),
        heuristics=[planning_pb2.PlanHeuristic(algorithm=planning_pb2.PLAN_ALGORITHM_NO_PACKING)],
        summaries_only=True,
    )
    return world.answer(lambda: world.stub("PlanningService", "planning").Plan(request))


# The server's memory may be smaller.
row("PlanningService.Plan: 2^20", 2**20, 2**20 + 1, OK, EXHAUSTED, refused=EXHAUSTED)(_distinct)


def _grid(world: World, cells: int) -> Answer:
    component = planning_pb2.DeviceProfile.Component
    edges = cells // 1024 if cells % 1024 == 0 else cells // 1024 + 1
    grid = planning_pb2.DeviceProfile(
        components=[
            component(component="nodes", min_rows=1, max_rows=1024),
            component(component="edges", min_rows=1, max_rows=edges),
        ]
    )
    request = planning_pb2.TuneRequest(histogram=HISTOGRAM, profile=grid, include_grid=True)
    return world.answer(lambda: world.stub("PlanningService", "planning").Tune(request))


row("TuneRequest.include_grid: 2^20", 2**20, 2**20 + 1, refused=EXHAUSTED)(_grid)


@row("SourceGraphSchema.node_sets: 4096", 4096, 4098)
def _arrays(world: World, arrays: int) -> Answer:
    """A set of nodes has two, and two for each column."""
    count = (arrays - 16) // 2
    sets = [node_set(f"n{i}", columns=columns_of(count // 8 + (count % 8 > i))) for i in range(8)]
    return world.create_graph(graph_of(*sets))


letters("SourceGraphService: 128", 128, lambda world, name: world.create_graph(graph_of(), name))
letters("SourceColumn.name: 128", 128, lambda world, name: world.create_graph(graph_of(node_set(columns=[column(name)]))))
number(
    "SourceColumn.row_shape: 8",
    8,
    lambda world, n: world.create_graph(graph_of(node_set(columns=[column(row_shape=[1] * n)]))),
)
number(
    "SourceColumn.row_shape: 16 MiB",
    2**24,
    lambda world, n: world.create_graph(graph_of(node_set(columns=[column(row_shape=[n])]))),
)
letters("SourceNodeSet.name: 128", 128, lambda world, name: world.create_graph(graph_of(node_set(name))))
number(
    "SourceNodeSet.columns: 256", 256, lambda world, n: world.create_graph(graph_of(node_set(columns=columns_of(n))))
)
letters("SourceEdgeSet.name: 128", 128, lambda world, name: world.create_graph(graph_of(edges=[edge_set(name)])))
number(
    "SourceEdgeSet.columns: 256",
    256,
    lambda world, n: world.create_graph(graph_of(edges=[edge_set(columns=columns_of(n))])),
)
number(
    "SourceGraphSchema.node_sets: 256",
    256,
    lambda world, n: world.create_graph(graph_of(*(node_set(f"n{i}") for i in range(n)))),
)


@row("NodeIdKind: 4096", 4096, 4097)
def _text_id(world: World, length: int) -> Answer:
    name = world.name()
    kind = source_graph_pb2.NODE_ID_KIND_TEXT
    assert world.create_graph(graph_of(node_set(id_kind=kind)), name) == (OK, "")
    text = source_graph_pb2.TextIds(data=b"a" * length, lengths=struct.pack("<I", length))
    return world.append_nodes(name, source_graph_pb2.SourceNodeRows(node_set="n", ids=source_graph_pb2.NodeIds(text=text)))


number(
    "ReadEdgesRequest.first_edge: 2^24",
    2**24,
    lambda world, n: world.answer(
        lambda: world.stub("SourceGraphService", "source_graph").ReadEdges(
            source_graph_pb2.ReadEdgesRequest(graph="source", edge_set="e", num_edges=n)
        )
    ),
)


for key, made in (
    ("TensorSpec.row_shape: >= 1", lambda world, n: world.create(tensors(tensor(row_shape=[n])))),
    (
        "SourceColumn.row_shape: >= 1",
        lambda world, n: world.create_graph(graph_of(node_set(columns=[column(row_shape=[n])]))),
    ),
):
    row(key, 1, 0)(made)
from_below("PartitionRequest.imbalance: >= 1", 1, lambda world, n: world.partition(imbalance=n))
from_below(
    "Mixing.most_company: >= 1",
    1,
    lambda world, n: world.epoch(world.spec(mixing=loader_pb2.Mixing(most_company=n))),
)
SMALLEST: Final = math.ulp(0.0)
row("DriftWatch.min_loss: > 0", SMALLEST, -SMALLEST, says="min_loss")(
    lambda world, loss: world.pack(drift=packing_pb2.DriftWatch(min_loss=loss))
)
row("DriftWatch.min_loss: < 1", math.nextafter(1, 0), 1, says="min_loss")(
    lambda world, loss: world.pack(drift=packing_pb2.DriftWatch(min_loss=loss))
)


@row("CostTerm.weight: > 0", SMALLEST, -SMALLEST, says="weight")
def _cost_weight(world: World, weight: float) -> Answer:
    order = cost_order(1)
    order.cost_balanced.terms[0].weight = weight
    return world.epoch(world.spec(order=order))


# Of a server that may have MOST of them: each call makes one.
MOST: Final = 2
COUNTED: Final[dict[str, Callable[[World], Answer]]] = {
    "memory.md, named histograms: --max-histograms": lambda world: world.observe(),
    "memory.md, source graphs on the disk: --max-source-graphs": lambda world: world.create_graph(graph_of()),
    "memory.md, epochs in the ledger: --max-epochs-per-client": lambda world: world.load(),
    "memory.md, measured models: --max-measured-models": lambda world: world.report(),
}


def bound_in(key: str) -> int:
    """The number of a bound as messages have it."""
    words = key.partition(": ")[2].removeprefix(">= ").replace(",", "").split()
    base, _, exponent = words[0].partition("^")
    unit = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}[words[1]] if len(words) == 2 else 1
    return int(base) ** int(exponent or "1") * unit


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    if "PACKHOUSED" not in os.environ:
        pytest.skip("PACKHOUSED does not name a server program")
    folder = tmp_path_factory.mktemp("bounds")
    (folder / "snapshots").mkdir()
    (folder / "policy").write_text(POLICY, encoding="ascii")
    arguments = ("--policy", str(folder / "policy"), "--snapshot-dir", str(folder / "snapshots"), "--memory-budget", "2GiB", "--max-waiting-partitions", "100")
    with LocalServer(data_dir=folder / "data", arguments=arguments) as server:
        made = World(server)
        made.make_dataset()
        assert made.create_graph(graph_of(edges=[edge_set()]), "source") == (OK, "")
        sources = made.stub("SourceGraphService", "source_graph")
        ids = source_graph_pb2.NodeIds(integers=struct.pack("<2q", 1, 2))
        one = source_graph_pb2.NodeIds(integers=struct.pack("<q", 1))
        rows = source_graph_pb2.AppendSourceGraphRequest(
            graph="source",
            nodes=[source_graph_pb2.SourceNodeRows(node_set="n", ids=ids)],
            edges=[source_graph_pb2.SourceEdgeRows(edge_set="e", sources=one, targets=one)],
        )
        list(sources.AppendSourceGraph(iter([rows])))
        list(sources.SealSourceGraph(source_graph_pb2.SealSourceGraphRequest(name="source")))
        spec = made.spec()
        spec.job = "known"
        assert made.load(epoch=spec) == (OK, "")
        yield made


@pytest.mark.parametrize("bound", ROWS, ids=lambda bound: bound.key)
def test_a_bound_is_taken_and_one_beyond_it_is_not(world: World, bound: Row) -> None:
    code, message = bound.call(world, bound.beyond)
    assert code is bound.refused, message
    says = bound.says or f"{bound_in(bound.key)}"
    assert says in message.replace(",", "")
    code, message = bound.call(world, bound.at)
    assert code in bound.accepted, message
    if code is EXHAUSTED:
        assert "--memory-budget" in message


@pytest.fixture(scope="module")
def small_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    if "PACKHOUSED" not in os.environ:
        pytest.skip("PACKHOUSED does not name a server program")
    arguments = [word for key in COUNTED for word in (key.rpartition(": ")[2], str(MOST))]
    with LocalServer(data_dir=tmp_path_factory.mktemp("small") / "data", arguments=arguments) as server:
        made = World(server)
        made.make_dataset()
        yield made


@pytest.mark.parametrize("key", COUNTED)
def test_there_are_as_many_as_a_flag_says_and_not_one_more(small_world: World, key: str) -> None:
    for _ in range(MOST):
        assert COUNTED[key](small_world) == (OK, "")
    for _ in range(2):
        code, message = COUNTED[key](small_world)
        assert code is EXHAUSTED, message
        assert re.search(rf"(?:at most|the bound is) {MOST}\b", message)


def test_every_bound_has_a_row() -> None:
    documented = all_documented_bounds(ROOT / "proto/packhouse/v1", ROOT / "docs")
    pages = {f"{thing}: {bound}": tried for thing, bounds in PAGES.items() for bound, tried in bounds.items()}
    tried = [*(each.key for each in ROWS), *COUNTED, *NOT_TRIED, *pages]
    assert len(set(tried)) == len(tried)
    missing = documented.keys() - set(tried)
    assert not missing, "\n".join(f"{key}: ...{documented[key]}..." for key in sorted(missing))
    assert not set(tried) - documented.keys(), "rows of bounds that nothing names"
    texts = (path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*_test.cc"))
    tests = {".".join(names) for text in texts for names in re.findall(r"^TEST(?:_[FP])?\((\w+),\s*(\w+)\)", text, re.M)}
    assert not {tried for tried in pages.values() if " " not in tried} - tests, "tests that are not there"


def test_bounds_are_found_where_they_stand() -> None:
    text = """
// A name is 1 to 128 characters.
service Things {
  // At
  // most 2^20, and up to 16 MiB.
  rpc Do(Request) returns (Answer) {
  }
}
message Request {
  message Inner {
    repeated uint32 many = 1;  // No more than 65,536.
  }
  // Nothing.
  string name = 2;
}
"""
    assert [each.key for each in documented_bounds(text)] == [
        "Things: 128",
        "Things.Do: 2^20",
        "Things.Do: 16 MiB",
        "Request.Inner.many: 65,536",
    ]
    words = "message M {\n  double d = 1;  // Above 0, below 1, and at least 2^3.\n}"
    assert [each.key for each in documented_bounds(words)] == ["M.d: > 0", "M.d: < 1", "M.d: >= 2^3"]
    page = """
| what | bound |
|---|---|
| [a](b.md#1), or c | `--max-d`: half of 4 KiB; some 9, about 8 (`x/7.h`), 2^20 and 4 KiB more |

| what | value |
|---|---|
| e | 6 |
"""
    assert [each.key for each in bounds_of_page("p.md", page)] == ["p.md, a: --max-d", "p.md, a: 4 KiB", "p.md, a: 2^20"]

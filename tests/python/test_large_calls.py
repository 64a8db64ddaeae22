"""Laws of what is asked of a server about large graphs and about itself, over a channel that notes it."""

from __future__ import annotations

import datetime
import pathlib
from typing import Any

import grpc
import numpy as np
import pytest

from packhouse import EdgeRows, NodeRows, PackhouseError, SourceColumn, SourceEdgeSet
from packhouse import SourceGraphSchema, SourceNodeSet
from packhouse.calls.retrying import UnaryCalls
from packhouse.calls.servers import JobCalls
from packhouse.large import partitions as partitions_module
from packhouse.large.partitions import Partitions, PartitionState, PartsProgress
from packhouse.large.source_graphs import SourceGraphs
from packhouse.stored import administration as administration_module
from packhouse.stored.administration import Administration
from packhouse.v1 import admin_pb2, dataset_pb2, partitioning_pb2 as cut, source_graph_pb2 as v1
from test_pack_stream import Failure
from test_stored_calls import AWAY, Channel

SCHEMA = SourceGraphSchema(
    [SourceNodeSet("n", [SourceColumn("x", "int32")])],
    [SourceEdgeSet("e", "n", "n", [SourceColumn("w", "int8")]), SourceEdgeSet("r", "n", "n", reverse_of="e")],
)
REFUSED = Failure(grpc.StatusCode.PERMISSION_DENIED, "not you")


def graph(state: int = v1.SOURCE_GRAPH_STATE_OPEN) -> Any:
    return v1.SourceGraph(
        name="g", id=7, schema=SCHEMA.to_proto(), state=state, num_nodes=[3], num_edges=[4, 4])


def graphs_of(**answers: list[Any]) -> tuple[SourceGraphs, Channel]:
    channel = Channel(**answers)
    return SourceGraphs(channel, UnaryCalls("a:1", 5.0)), channel


def fails(call: Any, *arguments: Any, **options: Any) -> tuple[str, str]:
    with pytest.raises(PackhouseError) as failed:
        call(*arguments, **options)
    return failed.value.code.name, failed.value.message


def test_a_graph_is_made_told_and_forgotten() -> None:
    pages = [v1.ListSourceGraphsResponse(graphs=[graph()] * 2, next_page_token="t"),
             v1.ListSourceGraphsResponse(graphs=[graph()])]
    graphs, channel = graphs_of(
        CreateSourceGraph=[graph()], GetSourceGraph=[graph(), REFUSED], ListSourceGraphs=pages,
        DeleteSourceGraph=[None])
    assert graphs.create("g", SCHEMA, max_bytes=9).name == "g"
    assert graphs.get("g").num_nodes == {"n": 3}
    listed = graphs.list(page_size=2)
    assert next(listed).name == "g" and len(channel.taken("ListSourceGraphs")) == 1
    assert len(list(listed)) == 2
    graphs.delete("g")
    assert channel.asked == [
        ("CreateSourceGraph", v1.CreateSourceGraphRequest(name="g", schema=SCHEMA.to_proto(), max_bytes=9)),
        ("GetSourceGraph", v1.GetSourceGraphRequest(name="g")),
        ("ListSourceGraphs", v1.ListSourceGraphsRequest(page_size=2)),
        ("ListSourceGraphs", v1.ListSourceGraphsRequest(page_size=2, page_token="t")),
        ("DeleteSourceGraph", v1.DeleteSourceGraphRequest(name="g")),
    ]
    assert fails(graphs.get, "g") == ("PERMISSION_DENIED", "not you")


def test_rows_are_appended_and_what_the_server_stored_is_told() -> None:
    def answer(sequence: int, **told: Any) -> Any:
        made = v1.AppendSourceGraphResponse(**told)
        made.producer_sequence.sequence = sequence
        return made

    state = answer(0)
    state.producer_state.next_sequence = 5
    state.producer_state.first_remembered_sequence = 1
    answers = [answer(5, num_nodes=2, total_nodes=5, total_edges=4),
               answer(6, num_edges=1, total_nodes=5, total_edges=5, is_repetition=True)]
    nodes, edges = NodeRows("n", [8, 9], {"x": [1, 2]}), EdgeRows("e", [8], [9], {"w": [3]})
    graphs, channel = graphs_of(GetSourceGraph=[graph()], AppendSourceGraph=[state, *answers])
    totals = graphs.append("g", [nodes, edges], producer="p")
    assert tuple(vars(totals).values()) == (2, 1, 1, 5, 5, "p", 7)
    asked, *sent = (getattr(each, "_message", each) for each in channel.taken("AppendSourceGraph"))
    assert (asked.graph, asked.graph_id) == ("g", 7)
    assert [(each.graph, each.graph_id) for each in sent] == [("g", 7)] * 2
    assert [len(each.nodes) for each in sent] == [1, 0] and [len(each.edges) for each in sent] == [0, 1]
    # Rows before those that are wrong are stored; and a graph without rows has what it had.
    graphs, channel = graphs_of(GetSourceGraph=[graph()], AppendSourceGraph=[state, answers[0]])
    with pytest.raises(ValueError, match="'none'"):
        graphs.append("g", [nodes, NodeRows("none", [1])], producer="p")
    assert not channel.answers["AppendSourceGraph"]
    graphs, channel = graphs_of(GetSourceGraph=[graph()], AppendSourceGraph=[state])
    totals = graphs.append("g", [], producer="p")
    assert tuple(vars(totals).values())[:5] == (0, 0, 0, 3, 8)
    graphs, _ = graphs_of(GetSourceGraph=[REFUSED])
    assert fails(graphs.append, "g", nodes, retry_timeout=0)[0] == "PERMISSION_DENIED"


def test_a_seal_and_a_verification_are_told_until_they_end() -> None:
    working = [v1.SealSourceGraphResponse(work_done=done, work_total=total) for done, total in ((0, 0), (1, 4))]
    sealed = v1.SealSourceGraphResponse(graph=graph(v1.SOURCE_GRAPH_STATE_SEALED), work_done=4, work_total=4)
    told: list[Any] = []
    graphs, channel = graphs_of(SealSourceGraph=[*working, sealed])
    assert graphs.seal("g", duplicates="last", on_progress=told.append).name == "g"
    assert told == [0.0, 0.25] and channel.streams[0].is_cancelled
    assert channel.taken("SealSourceGraph") == [
        v1.SealSourceGraphRequest(name="g", duplicates=v1.DUPLICATE_NODES_LAST)]
    graphs, channel = graphs_of(SealSourceGraph=list(working))
    assert fails(graphs.seal, "g") == ("INTERNAL", "the seal ended without a graph")
    assert channel.streams[0].is_cancelled
    graphs, channel = graphs_of(SealSourceGraph=[working[0], AWAY])
    assert fails(graphs.seal, "g") == ("UNAVAILABLE", "away") and channel.streams[0].is_cancelled

    reading = [v1.VerifySourceGraphResponse(num_bytes=5, num_bytes_total=9)]
    for damaged in ([], ["set 'n'"]):
        told.clear()
        end = v1.VerifySourceGraphResponse(
            finished=True, num_bytes=9, num_damaged=len(damaged), damaged=damaged)
        graphs, channel = graphs_of(VerifySourceGraph=[*reading, end])
        found = graphs.verify("g", lambda *now: told.append(now))
        assert (found.num_bytes, found.num_damaged, found.damaged) == (9, len(damaged), tuple(damaged))
        assert found.is_sound == (not damaged) and told == [(5, 9)] and channel.streams[0].is_cancelled
    graphs, channel = graphs_of(VerifySourceGraph=[*reading])
    assert fails(graphs.verify, "g") == ("INTERNAL", "the verification ended without a result")
    graphs, channel = graphs_of(VerifySourceGraph=[*reading, REFUSED])
    assert fails(graphs.verify, "g") == ("PERMISSION_DENIED", "not you") and channel.streams[0].is_cancelled


def test_nodes_and_edges_are_read_as_they_are_asked_for() -> None:
    answer = v1.LookupNodesResponse(
        numbers=np.array([2, 1], "<u4").tobytes(), rows=np.array([5, -1], "<i8").tobytes())
    answer.ids.integers = np.array([8, 9], "<i8").tobytes()
    answer.columns.add(name="x", data=np.array([3, 4], "<i4").tobytes())
    ways = (({"ids": [8, 9]}, {"ids": answer.ids}), ({"rows": [5, 6]}, {"rows": np.array([5, 6], "<u8").tobytes()}),
            ({"numbers": [2, 1]}, {"numbers": np.array([2, 1], "<u4").tobytes()}))
    for given, asked in ways:
        for columns, wanted in (((), {}), (["x"], {"columns": ["x"]}), (None, {"all_columns": True})):
            graphs, channel = graphs_of(GetSourceGraph=[graph()], LookupNodes=[answer])
            found = graphs.lookup_nodes("g", "n", columns=columns, **given)
            assert channel.taken("LookupNodes") == [
                v1.LookupNodesRequest(graph="g", node_set="n", with_rows=True, **asked, **wanted)]
            assert found.numbers.tolist() == [2, 1] and found.rows.tolist() == [5, -1]
            assert found.columns["x"].tolist() == [3, 4]
            assert (found.ids is None) == ("ids" in given)
            assert found.ids is None or list(found.ids) == [8, 9]
    for given in ({}, {"ids": [1], "rows": [1]}, {"ids": [1], "rows": [1], "numbers": [1]}):
        with pytest.raises(ValueError, match="either ids or numbers or rows are needed"):
            graphs_of()[0].lookup_nodes("g", "n", **given)

    read = v1.ReadEdgesResponse(
        sources=np.array([0], "<u4").tobytes(), targets=np.array([1], "<u4").tobytes(),
        rows=np.array([6], "<i8").tobytes())
    read.columns.add(name="w", data=b"\x05")
    # Of a reverse the columns are those of the edges that it reverses.
    for name in ("e", "r"):
        graphs, channel = graphs_of(GetSourceGraph=[graph()] * 2, ReadEdges=[read] * 2)
        edges = graphs.read_edges("g", name, 3, 4, columns=["w"], rows=True)
        assert (edges.sources.tolist(), edges.targets.tolist()) == ([0], [1])
        assert edges.columns["w"].tolist() == [5] and edges.rows is not None and edges.rows.tolist() == [6]
        assert graphs.read_edges("g", name, columns=None).rows is None
        assert channel.taken("ReadEdges") == [
            v1.ReadEdgesRequest(graph="g", edge_set=name, first_edge=3, num_edges=4, columns=["w"], with_rows=True),
            v1.ReadEdgesRequest(graph="g", edge_set=name, num_edges=1 << 20, all_columns=True)]


def partitions_of(**answers: list[Any]) -> tuple[Partitions, Channel]:
    channel = Channel(**answers)
    return Partitions(channel, UnaryCalls("a:1", 5.0)), channel


def job(state: int, files: dict[str, int] | None = None, **told: Any) -> Any:
    made = cut.PartitionJob(state=state, **told)
    made.request.graph, made.request.name, made.request.num_parts = "g", "p", 4
    for path, num_bytes in (files or {}).items():
        made.files.add(path=path, num_bytes=num_bytes)
    return made


def test_a_partition_is_asked_for_told_and_forgotten() -> None:
    running = job(cut.PARTITION_STATE_RUNNING, phase=2, share_done=0.5, estimated_seconds_left=3)
    partitions, channel = partitions_of(
        Partition=[running] * 2, GetPartition=[running], CancelPartition=[running], DeletePartition=[None],
        ListPartitions=[cut.ListPartitionsResponse(partitions=[running] * 2)])
    begun = partitions.begin(
        "g", "p", 4, method="metis", recursive=True, objective="volume", best_quality=True, num_hops=2,
        halo="in_edges", trainers_per_machine=3, balance_node_sets={"n": ["a", "b"]}, balance_edges=True,
        imbalance=1.5, seed=9, formats=["npy"], graph_forms=["coo"], mapping=True, assignment=True, files=False)
    assert (begun.graph, begun.name, begun.num_parts, begun.state) == ("g", "p", 4, PartitionState.RUNNING)
    assert (begun.share_done, begun.seconds_left, begun.error, begun.report) == (0.5, 3, None, None)
    assert begun.phase == cut.PartitionPhase.Name(2).replace("PARTITION_PHASE_", "").lower()
    partitions.begin("g", "p", 4)
    first, second = channel.taken("Partition")
    classes = cut.PartitionClasses(node_set="n", columns=["a", "b"])
    assert first == cut.PartitionRequest(
        graph="g", name="p", num_parts=4, method=first.method, recursive=True, objective=first.objective,
        best_quality=True, num_hops=2, halo=first.halo, trainers_per_machine=3, balance_node_sets=[classes],
        balance_edges=True, imbalance=1.5, seed=9, formats=first.formats, graph_forms=["coo"], mapping=True,
        assignment=True, without_files=True)
    assert (first.method, first.objective, first.halo, list(first.formats)) == (
        partitions_module.PartitionMethod.METIS, partitions_module.PartitionObjective.VOLUME,
        partitions_module.PartitionHalo.IN_EDGES, [partitions_module.PartitionFormat.NPY])
    assert second == cut.PartitionRequest(
        graph="g", name="p", num_parts=4, num_hops=1, trainers_per_machine=1, imbalance=1.03, seed=1,
        method=second.method, objective=second.objective, halo=second.halo)
    assert partitions.get("g", "p") == partitions.cancel("g", "p")
    assert [each.name for each in partitions.list("g")] == ["p", "p"]
    partitions.delete("g", "p")
    assert channel.asked[2:] == [
        ("GetPartition", cut.GetPartitionRequest(graph="g", name="p")),
        ("CancelPartition", cut.CancelPartitionRequest(graph="g", name="p")),
        ("ListPartitions", cut.ListPartitionsRequest(graph="g")),
        ("DeletePartition", cut.DeletePartitionRequest(graph="g", name="p"))]


def test_a_partition_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(partitions_module.time, "sleep", slept.append)
    running, done = job(cut.PARTITION_STATE_RUNNING), job(cut.PARTITION_STATE_DONE)
    told: list[Any] = []
    partitions, _ = partitions_of(GetPartition=[AWAY, running, AWAY, running, done])
    assert partitions.wait("g", "p", told.append).state is PartitionState.DONE
    assert [each.state.name for each in told] == ["RUNNING", "RUNNING", "DONE"]
    poll = partitions_module._POLL_SECONDS
    assert slept[1] == slept[3] == poll and len(slept) == 4
    for last, words in (
        (job(cut.PARTITION_STATE_CANCELLED), ("CANCELLED", "partition 'p' of 'g' was cancelled")),
        (job(cut.PARTITION_STATE_FAILED, error_code=8, error_message="too large"),
         ("RESOURCE_EXHAUSTED", "too large")),
        (job(cut.PARTITION_STATE_FAILED, error_code=99, error_message="odd"), ("UNKNOWN", "odd")),
        (REFUSED, ("PERMISSION_DENIED", "not you")),
    ):
        partitions, _ = partitions_of(GetPartition=[running, last])
        assert fails(partitions.wait, "g", "p") == words


def test_parts_become_a_data_set() -> None:
    working = [cut.PartitionDatasetResponse(num_graphs=done, num_graphs_total=4) for done in (1, 3)]
    made = cut.PartitionDatasetResponse(num_graphs=4, num_graphs_total=4, dataset=dataset_pb2.Dataset(name="d", state=1))
    told: list[Any] = []
    partitions, channel = partitions_of(PartitionDataset=[*working, made])
    found = partitions.make_dataset(
        "g", "p", "d", halo=True, features=False, ids=True, max_bytes=9, on_progress=told.append)
    assert found.name == "d" and channel.streams[0].is_cancelled
    assert told == [PartsProgress(1, 4), PartsProgress(3, 4), PartsProgress(4, 4)]
    assert channel.streams[0].how == {"wait_for_ready": True}
    partitions, other = partitions_of(PartitionDataset=[made])
    partitions.make_dataset("g", "p", "d")
    assert channel.taken("PartitionDataset") + other.taken("PartitionDataset") == [
        cut.PartitionDatasetRequest(graph="g", partition="p", dataset="d", halo=True, max_bytes=9,
                                    without_features=True, ids=True),
        cut.PartitionDatasetRequest(graph="g", partition="p", dataset="d")]
    partitions, _ = partitions_of(PartitionDataset=list(working))
    assert fails(partitions.make_dataset, "g", "p", "d") == (
        "INTERNAL", "the server did not say what it has made")
    partitions, channel = partitions_of(PartitionDataset=[working[0], REFUSED])
    assert fails(partitions.make_dataset, "g", "p", "d") == ("PERMISSION_DENIED", "not you")
    assert channel.streams[0].is_cancelled


def piece(data: bytes, num_bytes: int) -> Any:
    return cut.ReadPartitionFileResponse(data=data, num_bytes=num_bytes)


def test_a_folder_has_all_files_of_a_partition_or_is_not_there(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(partitions_module.time, "sleep", slept.append)
    to, partial = tmp_path / "to", tmp_path / "to.partial"
    (partial / "left").mkdir(parents=True)
    done = job(cut.PARTITION_STATE_DONE, {"a": 5, "empty": 0, "part0/b": 2})
    seen: list[Any] = []
    partitions, channel = partitions_of(
        GetPartition=[done], ReadPartitionFile=[piece(b"one", 5), AWAY, piece(b"23", 5), piece(b"xy", 2)])
    partitions.download("g", "p", to, lambda folder: seen.append((folder, to.exists())))
    assert seen == [(partial, False)] and not partial.exists() and len(slept) == 1
    found = {str(path.relative_to(to)): path.read_bytes() for path in to.rglob("*") if path.is_file()}
    assert found == {"a": b"one23", "empty": b"", "part0/b": b"xy"} and not (to / "left").exists()
    most = partitions_module._PIECE_BYTES
    assert channel.taken("ReadPartitionFile") == [
        cut.ReadPartitionFileRequest(graph="g", name="p", path=path, offset=offset, max_bytes=most)
        for path, offset in (("a", 0), ("a", 3), ("a", 3), ("part0/b", 0))]
    with pytest.raises(FileExistsError, match="to is there already"):
        partitions.download("g", "p", to)
    other = tmp_path / "other"
    running = job(cut.PARTITION_STATE_RUNNING)
    for answers, words in (
        ({"GetPartition": [running]}, ("FAILED_PRECONDITION", "partition 'p' of 'g' is running, not done")),
        ({"GetPartition": [done], "ReadPartitionFile": [piece(b"", 5)]},
         ("DATA_LOSS", "'a' has 5 bytes now, and had 5")),
        ({"GetPartition": [done], "ReadPartitionFile": [piece(b"one", 6)]},
         ("DATA_LOSS", "'a' has 6 bytes now, and had 5")),
        ({"GetPartition": [done], "ReadPartitionFile": [REFUSED]}, ("PERMISSION_DENIED", "not you")),
        *(({"GetPartition": [job(cut.PARTITION_STATE_DONE, {path: 1})]},
           ("INTERNAL", f"the server has a file {path!r} outside the folder"))
          for path in ("", "/tmp/x", "../x", "a/../b")),
    ):
        partitions, _ = partitions_of(**answers)
        assert fails(partitions.download, "g", "p", other) == words
        assert not other.exists()


def test_a_server_tells_all_of_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    noon = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.timezone.utc)
    told = admin_pb2.GetServerResponse(
        version="1", is_draining=True, log_level=3, num_connections=5, owned_jobs=["a"])
    told.started.FromDatetime(noon.replace(tzinfo=None))
    told.memory.add(name="pending", held_bytes=6, bound_bytes=7)
    told.files.add(name="policy", failure="bad", num_reloads=2)
    told.files.add(name="tokens", num_reloads=3).expires.FromDatetime(noon.replace(tzinfo=None))
    told.quotas.add(namespace="team", quota="epochs", used=0.25, limit=8)
    told.members.add(address="x:1", is_this=True)
    connected = admin_pb2.ListClientsResponse()
    connected.clients.add(client="me", is_principal=True, peers=["p"], num_streams=1, num_calls=2,
                          num_sessions=3, num_leases=4, num_lane_streams=5)
    for transport in (admin_pb2.TRANSPORT_LANE, admin_pb2.TRANSPORT_UNSPECIFIED):
        connected.calls.add(
            client="me", peer="p", method="Load", is_stream=True, resource="r", request_id="q", trace="t",
            transport=transport).started.FromDatetime(noon.replace(tzinfo=None))
    connected.workers.add(client="me", job="j", epoch=2, queue=3, worker="w", session=4, num_leases=5)
    channel = Channel(
        GetServer=[told], ListClients=[connected], SetLogLevel=[admin_pb2.SetLogLevelResponse(before=4)],
        Reload=[admin_pb2.ReloadResponse(files=told.files)],
        Drain=[admin_pb2.DrainResponse(was_draining=each) for each in (False, True)])

    jobs = JobCalls(channel, lambda _: channel)  # type: ignore
    admin = Administration(channel, UnaryCalls("a:1", 5.0), jobs)  # type: ignore[arg-type]
    files = (administration_module.ServerFile("policy", "bad", None, 2),
             administration_module.ServerFile("tokens", "", noon, 3))
    status = admin.status()
    assert vars(status) == {
        "version": "1", "started": noon, "is_draining": True, "log_level": administration_module.LogLevel(3),
        "num_connections": 5, "memory": {"pending": (6, 7)}, "files": files,
        "quotas": (administration_module.QuotaUse("team", "epochs", 0.25, 8),), "members": ("x:1",),
        "owned_jobs": ("a",)}
    found = admin.clients()
    assert tuple(vars(found.clients[0]).values()) == ("me", True, ("p",), 1, 2, 3, 4, 5)
    assert [tuple(vars(each).values()) for each in found.calls] == [
        ("me", "p", "Load", True, "r", "q", "t", noon, way) for way in ("lane", "bytes")]
    assert tuple(vars(found.workers[0]).values()) == ("me", "j", 2, 3, "w", 4, 5)
    assert admin.set_log_level("debug") == administration_module.LogLevel(4)
    assert tuple(admin.reload()) == files
    assert [admin.drain(), admin.drain()] == [False, True]
    assert channel.taken("SetLogLevel") == [
        admin_pb2.SetLogLevelRequest(level=administration_module.LogLevel.DEBUG.value)]

"""What the commands print of a server's answers, without a server."""

from __future__ import annotations

import dataclasses
import datetime
import json
import pathlib
import stat
from typing import Any

import click
import numpy as np
import pytest

from packhouse.command import (
    admin,
    batch,
    datasets,
    feedback,
    graph,
    histograms,
    jobs,
    partition,
    program,
    seeds,
    wings,
)
from packhouse.command.failures import Failure
from packhouse.data.histogram import Histogram
from packhouse.files.seed_rows import SeedRows, feature_array
from packhouse.large.partitions import (
    PartitionBalance,
    PartitionMethod,
    PartitionPart,
    PartitionReport,
)
from packhouse.large.source_graph import SourceGraph, column_bytes
from packhouse.large.source_graphs import SourceGraphVerification
from packhouse.stored.dataset import DamagedRecord, Dataset, DatasetDrift, Verification
from packhouse.stored.feedback import DeviceModel, MeasuredShape
from packhouse.stored.jobs import Job, JobEpoch
from packhouse.v1 import admin_pb2, dataset_pb2, graphs_pb2, loader_pb2, source_graph_pb2

NOON = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.timezone.utc)


def molecules(histogram: Histogram | None = None, drift: DatasetDrift | None = None) -> Dataset:
    message = dataset_pb2.Dataset(
        name="molhiv",
        state=dataset_pb2.DATASET_STATE_SEALED,
        version=0xABC,
        num_graphs=41127,
        num_records=30,
        num_bytes=3 << 20,
        max_bytes=1 << 30,
    )
    message.max_rows.add(component="nodes", rows=1000)
    message.schema.components.extend(["nodes", "edges"])
    message.schema.tensors.add(
        name="x",
        dtype=graphs_pb2.DATA_TYPE_INT16,
        row_shape=[9],
        component="nodes",
        padding_value=b"\xff\xff",
    )
    message.schema.tensors.add(
        name="edges/edge_index",
        dtype=graphs_pb2.DATA_TYPE_INT32,
        row_shape=[2],
        component="edges",
        index_into="nodes",
        layout=graphs_pb2.LAYOUT_ROWS_LAST,
    )
    return Dataset.from_proto(message, histogram, drift)


def two_sizes() -> Histogram:
    tuples = np.array([[2, 1], [222, 502]], np.uint32)
    return Histogram(("nodes", "edges"), tuples, np.array([41126, 1], np.uint64))


def test_data_sets_have_a_row_each() -> None:
    damaged = Dataset.from_proto(
        dataset_pb2.Dataset(name="torn", state=dataset_pb2.DATASET_STATE_DAMAGED)
    )
    assert datasets.table([molecules(), damaged]) == (
        "name      state  graphs     size           version\n"
        "molhiv   sealed  41,127  3.0 MiB  0000000000000abc\n"
        "torn    damaged\n"
    )


def test_all_there_is_of_a_data_set_is_told() -> None:
    assert datasets.text(molecules(two_sizes())) == (
        "molhiv: sealed, 41,127 graphs in 30 records, 3.0 MiB\n"
        "\n"
        "version     0000000000000abc\n"
        "bounds      at most 1.0 GiB, 1,000 nodes of a graph\n"
        "groups      none\n"
        "components  nodes, edges\n"
        "tensors     x: int16 [9] of nodes, padded with the bytes ffff\n"
        "            edges/edge_index: int32 [2] of edges, into nodes, rows last\n"
        "sizes       2 distinct\n"
        "\n"
        "component  total  mean  max\n"
        "nodes      82474  2.01  222\n"
        "edges      41628  1.01  502\n"
    )
    assert datasets.json(molecules(two_sizes())) == json.loads(
        '{"name": "molhiv", "state": "sealed", "version": "0000000000000abc", "graphs": 41127, '
        '"records": 30, "bytes": 3145728, "max_bytes": 1073741824, "max_rows": {"nodes": 1000}, '
        '"grouped": false, "components": ["nodes", "edges"], "tensors": [{"name": "x", '
        '"dtype": "int16", "row_shape": [9], "component": "nodes", "padding_value_hex": "ffff"}, '
        '{"name": "edges/edge_index", "dtype": "int32", "row_shape": [2], "component": "edges", '
        '"index_into": "nodes", "layout": "rows_last"}], "distinct_sizes": 2, '
        '"totals": {"nodes": 82474, "edges": 41628}, "maxima": {"nodes": 222, "edges": 502}}'
    )
    none = Histogram(("nodes",), np.zeros((0, 1), np.uint32), np.zeros(0, np.uint64))
    assert datasets.histogram_summary(none).splitlines()[1].split() == ["nodes", "0", "-", "0"]


def test_a_histogram_by_name_is_told_and_forgotten() -> None:
    found = dataclasses.replace(two_sizes(), revision=7)
    assert histograms.table(["a", "b"]) == "a\nb\n" and histograms.table([]) == ""
    assert histograms.text(found) == (
        "41,127 graphs of 2 sizes\n"
        "\n"
        "component  total  mean  max\n"
        "nodes      82474  2.01  222\n"
        "edges      41628  1.01  502\n"
    )
    assert histograms.json("a") == {"name": "a"}
    assert histograms.json(found) == {
        "num_graphs": 41127,
        "totals": {"nodes": 82474, "edges": 41628},
        "maxima": {"nodes": 222, "edges": 502},
        "revision": 7,
        "distinct_sizes": 2,
    }
    assert histograms.deed("h", found) == "forget the sizes of 41,127 graphs in histogram 'h'"
    assert histograms.deed("h", None) == "forget the sizes of all graphs in histogram 'h'"


def test_that_sizes_have_changed_is_told() -> None:
    drift = DatasetDrift(7582, 8104, {"nodes": 24.25}, {"nodes": 49.5}, 1)
    assert datasets.text(molecules(drift=drift)).endswith(
        "\nsizes changed at about graph 7,582 (found at 8,104)\n"
        "- nodes: 49.5 in the mean, before 24.25\n"
    )
    assert datasets.json(molecules(drift=drift))["drift"] == {
        "first_graph": 7582,
        "found_graph": 8104,
        "num_changes": 1,
        "components": {"nodes": {"reference_mean": 24.25, "mean": 49.5}},
    }


def test_damage_of_a_data_set_is_listed() -> None:
    sound = Verification(30, 2048, 0, (), ())
    assert datasets.verify_text("d", sound) == "d: 30 records, 2.0 KiB read: no damage\n"
    assert datasets.verify_json("d", sound)["undamaged"] is True
    record = DamagedRecord(7, 100, 20, "the columns fail their checksum")
    counts = "the histogram counts 9 graphs, the records 10"
    damaged = Verification(30, 0, 2, (record,), (counts,))
    assert datasets.verify_text("d", damaged) == (
        "record 7, graphs 100 to 119: the columns fail their checksum\n"
        "and 1 more damaged records\n"
        f"{counts}\n"
        "d: 30 records, 0 B read: 2 damaged records with more than 20 graphs, 1 disagreements\n"
    )
    assert datasets.verify_json("d", damaged)["damaged"][0]["first_graph"] == 100
    assert datasets.verify_json("d", Verification(1, 0, 0, (), (counts,)))["undamaged"] is False


def training(**changed: Any) -> Job:
    second = JobEpoch(1, 12, 30, 1234, "molhiv", 8, "10.0.0.7", NOON, **changed)
    first = JobEpoch(0, 11, 1234, 1234, "molhiv", 0, "", None)
    return Job("training", (second, first), 2, 8, NOON)


def test_jobs_have_a_row_each() -> None:
    old = Job("old", (), 300, 0, None)
    assert jobs.table([training(), old]) == (
        "job       epochs    finished  streams             last used\n"
        "training       2           1        8  2026-03-01 12:00 UTC\n"
        "old          300  at least 0        0\n"
    )


def test_servers_that_share_jobs_are_named() -> None:
    mine = training()
    owned = Job(mine.name, mine.epochs, mine.num_epochs, mine.num_sessions, NOON, "a:1")
    old = Job("old", (), 0, 0, None)
    assert jobs.table([owned, old]) == (
        "job       epochs  finished  streams             last used  owner\n"
        "training       2         1        8  2026-03-01 12:00 UTC    a:1\n"
        "old            0         0        0\n"
    )
    assert jobs.text(owned).startswith("training: 2 epochs, 8 streams, with a:1\n")
    assert jobs.json(owned)["owner"] == "a:1" and jobs.json(old)["owner"] is None


def test_epochs_of_a_job_have_a_row_each() -> None:
    text = jobs.text(training())
    assert text.startswith("training: 2 epochs, 8 streams\n")
    assert "10.0.0.7" in text and "1,234" in text and "segments" not in text
    many = training()
    many = Job(many.name, many.epochs, 20_002, 8, NOON)
    assert jobs.text(many).endswith("and 20,000 earlier ones\n")


def test_what_segments_cost_is_told() -> None:
    job = training(num_segments=1562, segmentation_loss=0.00052)
    text = jobs.text(job)
    assert "segments  lost to them\n" in text and "1,562       0.052 %\n" in text
    epochs = jobs.json(job)["epochs"]
    assert (epochs[0]["segments"], epochs[0]["segmentation_loss"]) == (1562, 0.00052)
    assert (epochs[1]["segments"], epochs[1]["segmentation_loss"]) == (None, None)


def test_what_is_not_known_of_a_job_is_null() -> None:
    told = jobs.json(training())
    assert (told["job"], told["last_used"]) == ("training", "2026-03-01T12:00:00Z")
    assert (told["epochs"][-1]["client"], told["epochs"][-1]["last_used"]) == (None, None)


def test_a_batch_tells_its_types_and_what_it_fills() -> None:
    loaded = loader_pb2.LoadedBatch(shape=1)
    made = loaded.batch
    made.id = 7
    made.graph_ids = np.array([3, 1 << 40], "<u8").tobytes()
    made.real_rows.extend([1200, 2])
    made.rows.extend([2048, 4])
    made.tensors.add(
        name="x",
        dtype=graphs_pb2.DATA_TYPE_UINT8,
        declared_dtype=graphs_pb2.DATA_TYPE_INT64,
        shape=[2048, 9],
        data=b"12",
    )
    schema = graphs_pb2.GraphSchema(components=["nodes"])
    assert batch.batch_text(loaded, schema) == (
        "batch 7: 2 graphs; rows: nodes 1,200 of 2,048, graphs 2 of 4\n"
        "graphs  3 1099511627776\n"
        "tensor            type     shape  bytes\n"
        "x       INT64 as UINT8  2048 x 9      2\n"
    )
    assert batch.batch_json(loaded) == {
        "number": 7,
        "graph_ids": [3, 1 << 40],
        "real_rows": [1200, 2],
        "rows": [2048, 4],
        "shape": 1,
        "tensors": [
            {
                "name": "x",
                "dtype": "UINT8",
                "shape": [2048, 9],
                "bytes": 2,
                "declared_dtype": "INT64",
            }
        ],
    }


def test_what_batches_cost_is_told_by_shape() -> None:
    shapes = (
        MeasuredShape({"nodes": 512}, 10, 0.5, 0.25, 1000, 0),
        MeasuredShape({"nodes": 1024}, 0, 0.0, 0.0, 0, 3),
    )
    model = DeviceModel(
        "gin", "h100", {"nodes": 0.001}, {"nodes": 80.5}, 0.01, 0.2, 0.015, 100.0, 5000, 1234, 3,
        shapes, NOON,
    )  # fmt: skip
    assert feedback.text(model) == (
        "gin/h100: 1,234 reports, 3 batches out of memory\n"
        "\n"
        "each batch: 0.01 s and 100 bytes\n"
        "each row of nodes: 0.001 s and 80.5 bytes\n"
        "at least 0.2 s\n"
        "no more than 5,000 bytes, since batches did not fit\n"
        "half of the shapes are within 1.5 % of the expected seconds\n"
        "\n"
        "nodes 512: 10 batches, 0.5 s (expected 0.25), 1,000 bytes\n"
        "nodes 1,024: 3 out of memory\n"
    )
    told = feedback.json(model)
    assert told["last_report_seconds"] == 1772366400
    assert told["components"] == [
        {"component": "nodes", "seconds_per_row": 0.001, "bytes_per_row": 80.5}
    ]
    assert told["shapes"][1]["capacities"] == {"nodes": 1024}


def test_a_server_tells_of_itself() -> None:
    answer = admin_pb2.GetServerResponse(version="1", log_level=3, owned_jobs=["a", "b"])
    answer.started.FromDatetime(NOON.replace(tzinfo=None))
    answer.memory.add(name="pending", held_bytes=5, bound_bytes=1 << 20)
    answer.files.add(name="policy", failure="bad", num_reloads=2)
    answer.quotas.add(namespace="team", quota="planning", used=0.25, limit=0.5)
    answer.quotas.add(namespace="team", quota="epochs", used=1000, limit=2000)
    answer.members.add(address="x:1", is_this=True)
    answer.members.add(address="y:1")
    assert admin.status_text(answer) == (
        "packhoused 1, since 2026-03-01 12:00:00 UTC\n"
        "log level: info\n"
        "connections: 0\n"
        "\n"
        "memory   held bytes    at most\n"
        "pending           5  1,048,576\n"
        "\n"
        "file    reloads  expires              in use\n"
        "policy        2        -  an earlier content\n"
        "policy: not in use: bad\n"
        "\n"
        "namespace     quota   used  limit\n"
        "team       planning   25 %   50 %\n"
        "team         epochs  1,000  2,000\n"
        "\n"
        "server    owns\n"
        "x:1       a, b\n"
        "y:1     ask it\n"
    )
    # As protobuf has it: 64 bits are texts, what is unset is there.
    told = admin.message_json(answer)
    assert told["memory"] == [{"name": "pending", "held_bytes": "5", "bound_bytes": "1048576"}]
    assert told["log_level"] == "LOG_LEVEL_INFO" and told["started"] == "2026-03-01T12:00:00Z"
    assert told["num_connections"] == "0" and told["is_draining"] is False
    assert admin.files_text([]) == "no files are read while the server runs\n"


def test_the_clients_of_a_server_have_a_row_each() -> None:
    answer = admin_pb2.ListClientsResponse()
    answer.clients.add(client="alice", peers=["a", "b", "c"], num_calls=1)
    answer.clients.add(client="bob")
    assert admin.clients_text(answer) == (
        "client  streams  calls  workers  leases            from\n"
        "alice         0      1        0       0  a and 2 others\n"
        "bob           0      0        0       0               -\n"
        "\n"
        "method  client  on  by  since  request id\n"
    )
    answer.workers.add(job="j", epoch=3, queue=2, num_leases=4)
    assert admin.clients_text(answer).endswith(
        "\njob  epoch  rank  client  leases\nj        3     2       -       4\n"
    )


def shop() -> SourceGraph:
    message = source_graph_pb2.SourceGraph(name="shop", state=1, num_bytes=2048)
    schema = message.schema
    item = schema.node_sets.add(name="item", id_kind=source_graph_pb2.NODE_ID_KIND_TEXT)
    item.columns.add(name="tags", dtype=graphs_pb2.DATA_TYPE_INT64, ragged=True)
    item.columns.add(name="title", dtype=graphs_pb2.DATA_TYPE_UINT8, ragged=True, text=True)
    buys = schema.edge_sets.add(name="buys", source="user", target="item")
    buys.lookup = source_graph_pb2.EDGE_LOOKUP_BY_SOURCE
    schema.edge_sets.add(name="bought", source="item", target="user", reverse_of="buys")
    message.num_nodes.extend([1500])
    message.num_edges.extend([7, 7])
    return SourceGraph.from_proto(message)


def test_a_source_graph_tells_its_sets() -> None:
    text = graph.text(shop())
    assert text.startswith("shop: open, 1,500 nodes, 7 edges, 2.0 KiB\nThese are rows: ")
    for line in (
        "version  none until the graph is sealed",
        "bounds   none of its own",
        "item: 1,500, text ids",
        "  tags: int64, ragged",
        "  title: text",
        "buys: 7 from user to item, looked up by source",
        "bought: 7 from item to user, the reverse of buys",
    ):
        assert f"\n{line}\n" in text
    told = graph.json(shop())
    assert (told["version"], told["edges"]) == ("", 7)
    assert told["edge_sets"][0]["lookup"] == "source"
    assert told["edge_sets"][1] == {
        "name": "bought", "edges": 7, "source": "item", "target": "user", "reverse_of": "buys",
    }  # fmt: skip
    damaged = SourceGraph.from_proto(source_graph_pb2.SourceGraph(name="torn", state=4))
    assert graph.json(damaged) == {"name": "torn", "state": "damaged"}
    assert graph.table([damaged]).splitlines()[1].split() == ["torn", "damaged"]
    found = SourceGraphVerification(2048, 3, ("x: bytes 0 to 9: checksum",))
    assert graph.verify_text("g", found) == (
        "x: bytes 0 to 9: checksum\nand 2 more damaged pieces\ng: 2.0 KiB read: 3 damaged pieces\n"
    )


def a_partition(parts: int) -> PartitionReport:
    return PartitionReport(
        method=PartitionMethod.METIS,
        reason="it fits",
        notes=("a note",),
        num_nodes=100 * parts,
        num_edges=1000 * parts,
        num_cut_edges=50 * parts,
        volume=7,
        balance=(PartitionBalance("nodes", 100, 60, 1.03, 1.2, False, ""),),
        parts=tuple(
            PartitionPart(100, 100, 1000 + number, 5, 500 + number // 2, 2_500_000)
            for number in range(parts)
        ),
    )


def test_a_partition_is_a_table_and_a_picture() -> None:
    table = partition.report_table(a_partition(2))
    assert table.startswith(
        "200 nodes and 2,000 edges in 2 parts by metis: it fits\ncut: 100 edges, 5.00 %; volume: 7\n\n"
    )
    assert "nodes     1.030    1.200  missed\n" in table and table.endswith("note: a note\n")
    row = next(line for line in table.splitlines() if line.startswith("1  "))
    assert row.split() == ["1", "100", "1,001", "100", "5", "49.95", "1.000", "1.001", "2.5"]
    picture = partition.report_picture(a_partition(2)).splitlines()
    assert picture[1] == "    0  " + "#" * 16 + "." * 16 + "  " + "=" * 16 + "x" * 16
    # Of very many, those with most and with fewest edges.
    shown = partition.report_picture(a_partition(100)).splitlines()[1:]
    assert [int(line.split()[0]) for line in shown] == [*range(32), *range(68, 100)]
    told = partition.report_json(a_partition(2))
    assert told["balance"][0]["met"] == 0 and told["edges_of_part"] == [1000, 1001]
    assert list(told["parts"][0]) == [
        "inner_nodes", "halo_nodes", "inner_edges", "halo_edges", "cut_edges", "bytes",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("source,time\n1,2\n", "has the columns source, time; needs either 'id' (--seeds-by) or"),
        ("id,source,target\n1,2,3\n", "needs either 'id'"),
        ("id,time\n1,2\n3\n", "line 3: has 1 fields, the header has 2"),
        ("id,time\n,2\n", "line 2: column 'id': is empty"),
        ("id,time\n1,2.5\n", "line 2: column 'time': '2.5' is no int64"),
        (f"id,time\n1,{1 << 63}\n", "is no int64"),
        ("id,label\n1,256\n", "line 2: column 'label': '256' is no uint8"),
        ("id,label\n1,+1\n", "'+1' is no uint8"),
        ("id,is\n1,yes\n", "'yes' is no bool"),
        ("id,price\n1,dear\n", "'dear' is no float32"),
        ("id,price\n1,1_0\n", "'1_0' is no float32"),
        ("id,price\n1,1e39\n", "'1e39' is no float32"),
    ],
)
def test_a_bad_file_of_seeds_is_named(tmp_path: pathlib.Path, text: str, says: str) -> None:
    path = tmp_path / "seeds.csv"
    path.write_text(text, encoding="utf-8")
    columns = seeds.readout_columns(["label=uint8", "is=bool", "price=float32"])
    with pytest.raises(ValueError) as told:
        SeedRows(str(path), "id", columns, "--seeds-by")
    assert str(told.value).startswith(f"{path}: ") and says in str(told.value)


def test_a_file_of_seeds_has_times_and_features(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "seeds.csv"
    path.write_text('id,is,time,price\r\n"a,b",True,-5,1e3\r\n\xe9,0,7,-0.5\r\n', encoding="utf-8")
    rows = SeedRows(str(path), "id", seeds.readout_columns(["is=bool", "price=float32", "x"]))
    assert not rows.are_links and len(rows) == 2
    assert (rows.nodes, rows.times) == ([["a,b", "\xe9"]], [-5, 7])
    assert rows.features == {"is": [True, False], "price": [1000.0, -0.5]}


def test_features_of_seeds_have_the_types_that_were_said() -> None:
    values = {
        "bool": ([True, False], b"\1\0"),
        "int8": ([-5], b"\xfb"),
        "uint64": ([(1 << 64) - 1, 1], b"\xff" * 8 + b"\1" + bytes(7)),
        "float16": ([0.1], b"\x66\x2e"),
        "bfloat16": ([0.1, 1.5], b"\xcd\x3d\xc0\x3f"),
        "float32": ([0.1], b"\xcd\xcc\xcc\x3d"),
    }
    for dtype, (given, data) in values.items():
        (column,) = seeds.readout_columns([f"x={dtype}"])
        assert column_bytes(feature_array(list(given), column), column, "x") == data, dtype


def test_words_for_the_program_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[tuple[str, list[str]]] = []

    def become(name: str, words: list[str], _what: str) -> None:
        begun.append((name, list(words)))
        raise click.exceptions.Exit(0)

    for module in (wings, graph, partition):
        monkeypatch.setattr(module, "become", become)
    for words, called in (
        (["graph", "import", "--seal", "x", "--help"], "packhouse graph"),
        (["graph", "generate", "mag", "--scale=1"], "packhouse graph"),
        (["partition", "--", "-x", "-n0"], "packhouse"),
        (["partition", "export", "--help"], "packhouse"),
        (["tfgnn", "print", "-n", "0", "--", "f", "--x"], "packhouse"),
    ):
        assert program.main(words) == 0
        assert begun.pop() == (called, words[1:] if called == "packhouse graph" else words)


def test_the_program_for_files_is_found_or_named(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("PACKHOUSE_GRAPH", "PACKHOUSED"):
        monkeypatch.delenv(variable, raising=False)
    folders = []
    for name in ("named", "beside", "path"):
        (tmp_path / name).mkdir()
        folders.append(tmp_path / name)
        for program in ("packhouse-graph", "packhoused"):
            file = tmp_path / name / program
            file.write_text("#!/bin/sh\necho \"packhouse: $2\" >&2\nexit 1\n", encoding="ascii")
            file.chmod(file.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(folders[2]))
    monkeypatch.setenv("PACKHOUSED", str(folders[1] / "packhoused"))
    monkeypatch.setenv("PACKHOUSE_GRAPH", str(folders[0] / "packhouse-graph"))
    for folder, variable in zip(folders, ("PACKHOUSE_GRAPH", "PACKHOUSED", "PATH")):
        (folders[2] / "packhoused").unlink(missing_ok=True)
        assert wings.find_program("graph import") == str(folder / "packhouse-graph")
        if variable != "PATH":
            monkeypatch.delenv(variable)
    with pytest.raises(RuntimeError, match="^x is bad$"):
        wings.run(["partition", "x is bad"], "partition")
    with pytest.raises(Failure, match="^x is away$") as told:
        wings.run(["partition", "x is away [NOT_FOUND]"], "partition")
    assert told.value.code == "NOT_FOUND"
    monkeypatch.setenv("PATH", str(tmp_path))
    for named, says in (("", "'graph import' needs the program packhouse-graph"), ("/no", "/no is no")):
        monkeypatch.setenv("PACKHOUSE_GRAPH", named)
        with pytest.raises(Failure, match=says):
            wings.find_program("graph import")

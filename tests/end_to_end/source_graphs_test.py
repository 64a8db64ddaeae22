"""packhouse graph: import, list, show, seal, verify, delete, against servers that are killed."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
import warm_command

from packhouse import (
    BatchFeedback,
    Client,
    Loader,
    LocalServer,
    SourceColumn,
    SourceEdgeSet,
    SourceGraphSchema,
    SourceNodeSet,
)
from packhouse.demo.sampling import guide_spec
from packhouse.large.source_graph import EdgeRows, NodeRows
from packhouse.sampling import SamplingSpecBuilder
from packhouse.v1 import histogram_pb2, histogram_pb2_grpc, source_graph_pb2, source_graph_pb2_grpc

# Small requests, each on the disk before the next is answered: time to be killed in between.
SLOWLY = ("--chunk-bytes", "4KiB")
# At scale 0.001, of each set.
NODES = {"paper": 736, "author": 1135, "institution": 9, "field_of_study": 60}
EDGES = {"cites": 5416, "writes": 7146, "affiliated_with": 1044, "has_topic": 7505}
ROWS = sum(NODES.values()) + sum(EDGES.values())

pytestmark = pytest.mark.skipif(
    "PACKHOUSE_CLI" not in os.environ, reason="PACKHOUSE_CLI does not name a program"
)


def start_cli(*arguments: object) -> subprocess.Popen[str]:
    """The command line, running."""
    return subprocess.Popen(
        [os.environ["PACKHOUSE_CLI"], *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_cli(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The command line, run to its end; without a terminal."""
    return warm_command.run(*arguments)


def succeed(*arguments: object) -> str:
    """The output of the command line, which must succeed."""
    done = run_cli(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(name="mag", scope="module")
def mag_fixture(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with a graph in the shape of OGBN-MAG."""
    folder = tmp_path_factory.mktemp("mag")
    succeed("graph", "generate", "mag", "--scale", 0.001, "--output", folder / "mag")
    return folder / "mag"


@pytest.fixture(name="address")
def address_fixture(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A socket whose path is short enough, so that a server can come back to it."""
    return f"unix:{tmp_path_factory.mktemp('s')}/socket"


@contextlib.contextmanager
def server_at(address: str, folder: pathlib.Path) -> Iterator[LocalServer]:
    """packhoused on this address; killed at the end."""
    if "PACKHOUSED" not in os.environ:
        pytest.skip("PACKHOUSED does not name a server program")
    server = LocalServer(listen=address, data_dir=folder, log=subprocess.DEVNULL)
    server.start()
    try:
        yield server
    finally:
        server.kill()


def import_graph(address: str, source: pathlib.Path, name: str, *options: object) -> str:
    return succeed("graph", "import", source, "--server", address, "--graph", name,
                   "--reverse", "written=writes", *options)


def show(address: str, name: str) -> dict[str, Any]:
    shown = json.loads(succeed("graph", "show", name, "--json", "--server", address))
    assert isinstance(shown, dict)
    return shown


def num_rows(address: str, name: str) -> int:
    """How many rows of its own a graph has; 0 if it is not there yet."""
    with grpc.insecure_channel(address) as channel:
        stub = source_graph_pb2_grpc.SourceGraphServiceStub(channel)
        try:
            graph = stub.GetSourceGraph(source_graph_pb2.GetSourceGraphRequest(name=name))
        except grpc.RpcError as error:
            assert error.code() is grpc.StatusCode.NOT_FOUND
            return 0
    edges = (count for each, count in zip(graph.schema.edge_sets, graph.num_edges)
             if not each.reverse_of)
    return int(sum(graph.num_nodes) + sum(edges))


def kill_at(
    rows: float, victim: LocalServer, command: subprocess.Popen[str], address: str, name: str
) -> bool:
    """Kills the server when the graph has so many rows; False if the import ended before."""
    while command.poll() is None:
        if num_rows(address, name) >= rows:
            victim.kill()
            return True
    return False


def assert_is_whole(address: str, name: str, source: pathlib.Path) -> None:
    """The sealed graph has exactly the rows of the folder."""
    with Client(address) as client:
        graphs = client.source_graphs
        graph = graphs.get(name)
        assert graph.num_nodes == NODES
        assert graph.num_edges == {**EDGES, "written": EDGES["writes"]}
        for node_set, count in NODES.items():
            found = graphs.lookup_nodes(name, node_set, ids=np.arange(count), columns=None)
            # The ids are the numbers.
            assert found.numbers.tolist() == list(range(count))
            for column in graph.schema.node_set(node_set).columns:
                wanted = np.load(source / "nodes" / node_set / f"{column.name}.npy")
                np.testing.assert_array_equal(found.columns[column.name], wanted)
        for edge_set in graph.schema.edge_sets:
            folder = edge_set.reverse_of or edge_set.name
            (arrays,) = (source / "edges").glob(f"*.{folder}.*")
            ends = [np.load(arrays / "source.npy"), np.load(arrays / "target.npy")]
            read = graphs.read_edges(name, edge_set.name)
            has = [read.sources, read.targets]
            if edge_set.reverse_of:
                has.reverse()
            for each in (ends, has):
                order = np.lexsort((each[1], each[0]))
                each[:] = [each[0][order], each[1][order]]
            np.testing.assert_array_equal(has, ends)
    assert "no damage" in succeed("graph", "verify", name, "--server", address)


def test_graphs_are_listed_shown_sealed_verified_and_deleted(
    address: str, tmp_path: pathlib.Path, mag: pathlib.Path
) -> None:
    with server_at(address, tmp_path / "data"):

        def graph(*arguments: str) -> subprocess.CompletedProcess[str]:
            return run_cli("graph", *arguments, "--server", address)

        assert json.loads(graph("list", "--json").stdout) == []
        for name in ("b", "a/1"):
            import_graph(address, mag, name, "--max-bytes", "1GiB")
        table = graph("list").stdout.splitlines()
        assert [line.split()[:4] for line in table] == [
            ["name", "state", "nodes", "edges"],
            ["a/1", "open", "1,940", "21,111"],
            ["b", "open", "1,940", "21,111"],
        ]
        shown = show(address, "b")
        assert (shown["state"], shown["version"], shown["max_bytes"]) == ("open", "", 1 << 30)
        assert json.loads(graph("list", "--json").stdout)[1] == shown
        text = graph("show", "b").stdout
        assert text.startswith("b: open, 1,940 nodes, 21,111 edges, ")
        for says in ("none until the graph is sealed", "at most 1.0 GiB", "feat: float32 [128]",
                     "paper: 736, integer ids", "cites: 5,416 from paper to paper, looked up by "
                     "both ends", "written: 7,146 from paper to author, the reverse of writes"):
            assert says in text
        # Rows of an open graph have checksums, too.
        assert "no damage" in graph("verify", "b").stdout

        for _ in range(2):
            # Sealing a sealed graph changes nothing.
            sealed = graph("seal", "b")
            assert sealed.stdout.startswith("b: sealed, 1,940 nodes, 21,111 edges, ")
            assert sealed.stderr == ""
        shown = show(address, "b")
        assert shown["state"] == "sealed"
        assert re.fullmatch("[0-9a-f]{16}", shown["version"])
        assert json.loads(graph("seal", "b", "--json").stdout) == shown
        assert shown["node_sets"][0] == {
            "name": "author", "nodes": 1135, "ids": "integer", "appended_only": False,
            "columns": []}
        assert_is_whole(address, "b", mag)
        verified = json.loads(graph("fsck", "b", "--json").stdout)
        assert verified.pop("bytes") > 0
        assert verified == {"name": "b", "undamaged": True, "damaged_pieces": 0, "damaged": []}

        # Where nobody can be asked, it is not done.
        refused = graph("delete", "b")
        assert refused.returncode == 2
        assert "delete source graph 'b' with 1,940 nodes, 21,111 edges, " in refused.stderr
        assert graph("delete", "b", "--yes").stdout == "b: deleted\n"
        assert [each["name"] for each in json.loads(graph("list", "--json").stdout)] == ["a/1"]
        for action in (("show",), ("seal",), ("verify",), ("delete",), ("delete", "--yes")):
            missing = graph(action[0], "b", *action[1:])
            assert missing.returncode == 1
            assert "NOT_FOUND" in missing.stderr


def test_a_server_that_is_killed_in_an_import_is_waited_for(
    address: str, tmp_path: pathlib.Path, mag: pathlib.Path
) -> None:
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(server_at(address, tmp_path / "data"))
        command = stack.enter_context(
            start_cli("graph", "import", mag, "--server", address, "--graph", "g",
                      "--reverse", "written=writes", "--seal", *SLOWLY)
        )
        kills = 0
        for share in (0.01, 0.2, 0.4, 0.6):
            if kill_at(ROWS * share, server, command, address, "g"):
                kills += 1
                server = stack.enter_context(server_at(address, tmp_path / "data"))
        _, errors = command.communicate(timeout=120)
        assert command.returncode == 0, errors
        assert kills > 0
        assert "trying again in" in errors
        assert_is_whole(address, "g", mag)


def test_an_import_that_failed_goes_on_when_it_is_run_again(
    address: str, tmp_path: pathlib.Path, mag: pathlib.Path
) -> None:
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(server_at(address, tmp_path / "data"))
        with start_cli("graph", "import", mag, "--server", address, "--graph", "g",
                       "--reverse", "written=writes", *SLOWLY) as command:
            assert kill_at(ROWS * 0.05, server, command, address, "g")
            command.kill()
        stack.enter_context(server_at(address, tmp_path / "data"))
        # What was counted had been answered to somebody: it is there.
        stored = num_rows(address, "g")
        assert ROWS * 0.05 <= stored < ROWS
        output = import_graph(address, mag, "g", *SLOWLY)
        assert f", {stored:,} of these rows had been there" in output
        assert succeed("graph", "seal", "g", "--server", address).startswith("g: sealed, ")
        assert_is_whole(address, "g", mag)


def test_damage_is_reported_and_fails_the_verification(
    address: str, tmp_path: pathlib.Path, mag: pathlib.Path
) -> None:
    folder = tmp_path / "data"
    with server_at(address, folder):
        import_graph(address, mag, "g", "--seal")
    marker = np.load(mag / "nodes/paper/feat.npy")[100].tobytes()
    hit = False
    for path in folder.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        place = content.find(marker)
        if place >= 0:
            path.write_bytes(content[: place + 5] + b"\xff\xfe" + content[place + 7 :])
            hit = True
    assert hit
    with server_at(address, folder):
        damaged = run_cli("graph", "verify", "g", "--server", address)
        assert damaged.returncode == 1
        assert "g: " in damaged.stdout
        assert "1 damaged pieces" in damaged.stdout
        listed = json.loads(run_cli("graph", "verify", "g", "--json", "--server", address).stdout)
        assert (listed["undamaged"], listed["damaged_pieces"], len(listed["damaged"])) == (
            False, 1, 1)
        assert succeed("graph", "delete", "g", "--yes", "--server", address) == "g: deleted\n"


def test_partitions_are_cancelled_waited_for_and_downloaded(
    address: str, tmp_path: pathlib.Path, mag: pathlib.Path
) -> None:
    with server_at(address, tmp_path / "data"):
        import_graph(address, mag, "mag", "--seal")

        def partition(*arguments: object) -> subprocess.CompletedProcess[str]:
            return run_cli("partition", "mag", "--server", address, *arguments)

        # Not METIS, which has a low priority: on a busy machine it takes long.
        many = ("--parts", 12, "--method", "random", "--name", "many")
        begun = partition(*many, "--detach")
        assert begun.returncode == 0 and "has begun" in begun.stdout
        # Ctrl-C cancels it, and the same command goes on.
        with start_cli("partition", "mag", "--server", address, *many) as waiting:
            assert waiting.stderr is not None
            says = waiting.stderr.readline()
            waiting.send_signal(signal.SIGINT)
            told = waiting.communicate()[1]
        with Client(address) as client:
            if client.partitions.get("mag", "many").state.name != "DONE":
                assert "Ctrl-C" in says and "goes on with it" in told
                assert waiting.returncode == 1
        done = partition(*many, "--json")
        assert done.returncode == 0, done.stderr
        assert len(json.loads(done.stdout)["parts"]) == 12

        table = partition("--parts", 2, "--method", "random", "--orig-ids", "--output",
                          tmp_path / "out")
        assert table.returncode == 0, table.stderr
        assert "####" in table.stdout
        assert (tmp_path / "out" / "graph.json").exists()
        assert (tmp_path / "out" / "part1" / "graph.dgl").exists()
        assert (tmp_path / "out" / "part1" / "orig_nids.dgl").exists()
        made = partition("--parts", 40, "--method", "streaming", "--name", "fine",
                         "--without-files", "--dataset", "clusters")
        assert made.returncode == 0, made.stderr
        with Client(address) as client:
            assert client.datasets.get("clusters").num_graphs == 40
        for arguments, words in (
            (("--parts", 4, "--name", "fine"), "'fine'"),
            (("--parts", 4, "--assignment", "x"), "--assignment: not with --server"),
            (("--parts", 4, "--memory", "1GiB"), "--memory-budget"),
            (("--parts", 4, "--time-limit", "1s"), "--time-limit: not with --server"),
            (("--parts", 4, "--orig-ids"), "--output"),
            ((), "--parts"),
        ):
            refused = partition(*arguments)
            assert refused.returncode != 0 and words in refused.stderr


def test_sub_graphs_are_estimated_and_stored(
    address: str, tmp_path: pathlib.Path, mag: pathlib.Path
) -> None:
    text = tmp_path / "spec.pbtxt"
    text.write_text(guide_spec().to_text())
    with server_at(address, tmp_path / "data"), Client(address) as client:
        import_graph(address, mag, "g", "--seal")

        def sample(action: str, *arguments: object) -> subprocess.CompletedProcess[str]:
            return run_cli("sample", action, "--server", address, "--graph", "g", *arguments)

        # All papers are fewer than 2000.
        whole = sample("estimate", "--spec", text).stdout
        assert whole.startswith("736 of 736 sub-graphs around 736 seeds, ")
        few = sample("estimate", "--spec", text, "--graphs", 50, "--histogram", "sizes")
        assert few.stdout.startswith("50 of 736 sub-graphs around 736 seeds, ")
        assert client.histograms.get("sizes").num_graphs == 50
        frontier = sample("estimate", "--spec", text, "--seeds-per-graph", 64)
        assert frontier.stdout.startswith("12 of 12 sub-graphs around 736 seeds, ")
        # Features are most of the bytes of a paper; ids come with rows and numbers.
        ids_only = sample("estimate", "--spec", text, "--ids-only").stdout
        sizes = [float(re.findall(r"seeds, ([\d.]+) bytes", each)[0])
                 for each in (ids_only, whole)]
        assert sizes[0] < 0.6 * sizes[1]

        arguments = ("--spec", text, "--dataset", "d", "--seed", 3, "--epoch", 1)
        for _ in range(2):
            # The second call finds it.
            done = sample("dataset", *arguments)
            assert done.returncode == 0, done.stderr
            assert done.stdout.startswith("data set 'd': 736 sub-graphs, ")
        assert "736 of 736 sub-graphs" in sample("dataset", *arguments[:2], "--dataset", "e").stderr
        largest = client.datasets.get("d", include_histogram=True).histogram
        assert largest is not None
        papers = int(largest.tuples[:, largest.components.index("paper")].max())
        limit = ("--limit", f"paper={papers - 1}")
        small = sample("dataset", *arguments[:2], *arguments[4:], "--dataset", "small", *limit)
        assert re.search(r"; [1-9]\d* drawn smaller by this call\n$", small.stdout)

        for wrong, says in (
            (("dataset", *arguments[:4], "--seed", 4), "[FAILED_PRECONDITION]"),
            (("dataset", *arguments[:2], *arguments[4:], "--dataset", "r", *limit, "--refuse"),
             "[OUT_OF_RANGE]"),
            (("dataset", *arguments, "--limit", "paper"), "'paper' is not COMPONENT=ROWS"),
            (("dataset", *arguments, "--limit", "papers=1"), "papers"),
            (("estimate", "--spec", tmp_path / "absent"), "absent: cannot open: No such file or directory"),
            (("estimate", "--spec", mag / "nodes/paper/year.npy"), "[INVALID_ARGUMENT]"),
        ):
            failed = sample(*map(str, wrong))
            assert failed.returncode == 1, wrong
            assert says in failed.stderr


def shop(address: str, client: Client) -> dict[str, np.ndarray[Any, Any]]:
    """A graph of users (integers) and items (texts), whose rows are not in the order of their ids."""
    random = np.random.default_rng(2)
    schema = SourceGraphSchema(
        (SourceNodeSet("user"), SourceNodeSet("item", text_ids=True)),
        (
            SourceEdgeSet("buys", "user", "item", (SourceColumn("at", "int64"),)),
            SourceEdgeSet("bought", "item", "user", reverse_of="buys"),
        ),
    )
    users, items = random.integers(0, 12, 90), random.integers(0, 9, 90)
    at = random.integers(0, 50, 90)
    client.source_graphs.create("shop", schema)
    client.source_graphs.append(
        "shop",
        [
            NodeRows("user", np.arange(12)[::-1]),
            NodeRows("item", [f"i{number}" for number in range(8, -1, -1)]),
            EdgeRows("buys", users, [f"i{item}" for item in items], {"at": at}),
        ],
        producer="one",
    )
    client.source_graphs.seal("shop")
    return {"users": users, "items": items, "at": at}


def write_csv(path: pathlib.Path, header: str, *columns: Any) -> pathlib.Path:
    rows = [",".join(map(str, row)) for row in zip(*columns)]
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def stored(address: str, dataset: str) -> list[dict[str, Any]]:
    """The graphs of a data set, in the order in which they are stored."""
    graphs: dict[int, dict[str, Any]] = {}
    limits = {"graphs": 1}
    with Loader(address, job=f"read-{dataset}", dataset=dataset, limits=limits) as loader:
        for batch in loader:
            graphs[int(batch.graph_ids[0])] = {name: batch[name].copy() for name in batch.tensors}
    return [graphs[number] for number in sorted(graphs)]


def test_sub_graphs_of_links_are_drawn_as_python_draws_them(
    address: str, tmp_path: pathlib.Path
) -> None:
    with server_at(address, tmp_path / "data"), Client(address) as client:
        graph = shop(address, client)
        users, items, at = graph["users"], graph["items"], graph["at"]
        builder = SamplingSpecBuilder(client.source_graphs.get("shop").schema, "random_uniform")
        from_users, from_items = builder.seed_link_ends("buys")
        from_users.sample(1000, "buys")
        from_items.sample(1000, "bought")
        spec = tmp_path / "links.pbtxt"
        spec.write_text(builder.build().to_text())
        common = ("--server", address, "--graph", "shop", "--spec", spec)
        links = ("--link-edge-set", "buys", "--ids-only")
        times = np.arange(20) + 20

        def draw(name: str, file: pathlib.Path, *options: object) -> list[dict[str, Any]]:
            succeed("sample", "dataset", *common, *links, "--dataset", name, "--seeds", file, *options)
            return stored(address, name)

        by_id = write_csv(tmp_path / "ids.csv", "source,target,time", users[:20],
                          [f"i{item}" for item in items[:20]], times)
        by_row = write_csv(tmp_path / "rows.csv", "target,source", 8 - items[:20], 11 - users[:20])
        by_number = write_csv(tmp_path / "numbers.csv", "source,target", users[:20], items[:20])
        timed = ("--edge-time-column", "at", "--time-window", 15)
        for name, file, options, exclude, early in (
            ("plain", by_row, ("--seeds-by", "row"), "", 0),
            ("self", by_number, ("--seeds-by", "number", "--exclude", "self"), "self", 0),
            ("types", by_id, (*timed, "--exclude", "reverse-types"), "reverse-types", 15),
        ):
            graphs = draw(name, file, *options)
            assert len(graphs) == 20
            for drawn, user, item, time in zip(graphs, users, items, times):
                is_link = (users == user) & (items == item)
                in_time = (time - early <= at) & (at <= time) if early else np.full(90, True)
                forth = in_time & (users == user) & ~(is_link & (exclude != ""))
                back = in_time & (items == item) & ~(is_link & (exclude == "reverse-types"))
                assert sorted(drawn["buys.#row"].tolist()) == np.flatnonzero(forth).tolist()
                assert sorted(drawn["bought.#row"].tolist()) == np.flatnonzero(back).tolist()
                end = int(drawn["_readout/source.source"][0])
                assert int(drawn["user.#id"][end]) == user

        # Negative links have the place, and the time, behind those of the file.
        pairs = set(zip(users.tolist(), items.tolist()))
        known = write_csv(tmp_path / "known.csv", "source,target", users,
                          [f"i{item}" for item in items])
        triplets = draw("triplets", by_id, *timed, "--negatives", "triplet", "--negatives-per-link", 2,
                        "--avoid", known)
        assert [int(drawn["_readout.label"][0]) for drawn in triplets] == [1] * 20 + [0] * 40
        for i, drawn in enumerate(triplets):
            source = int(drawn["user.#number"][drawn["_readout/source.source"][0]])
            target = int(drawn["item.#number"][drawn["_readout/target.source"][0]])
            positive = i if i < 20 else (i - 20) // 2
            assert source == users[positive]
            assert ((source, target) in pairs) == (i < 20)
            in_time = (times[positive] - 15 <= at) & (at <= times[positive])
            forth = np.flatnonzero(in_time & (users == source))
            assert sorted(drawn["buys.#row"].tolist()) == forth.tolist()
        binary = draw("binary", by_row, "--seeds-by", "row", "--negatives", "binary",
                      "--negatives-per-link", 0.7)
        assert [int(drawn["_readout.label"][0]) for drawn in binary] == [1] * 20 + [0] * 14
        assert "of 34 sub-graphs around " in succeed(
            "sample", "estimate", *common, *links, "--seeds", by_row, "--seeds-by", "row",
            "--negatives", "binary", "--negatives-per-link", 0.7)

        wrong_id = write_csv(tmp_path / "wrong.csv", "source,target", [1], ["i77"])
        no_ends = write_csv(tmp_path / "ends.csv", "source,time", [1], [2])
        no_number = write_csv(tmp_path / "no.csv", "source,target", [-1], [0])
        for arguments, code, says in (
            (("--seeds", wrong_id), 1, "no node of 'item' has the id 'i77' [NOT_FOUND]"),
            (("--seeds", no_number, "--seeds-by", "row"), 1, "'-1' is no row of a node"),
            (("--seeds", by_number, "--seeds-by", "number", "--readout-column", "price=float32"), 1,
             "numbers.csv has no column 'price'"),
            (("--seeds", by_id, "--seeds-per-graph", 2), 1, "--seeds-per-graph is 2"),
            (("--seeds", by_id, "--readout-column", "label=int65"), 1, "'label=int65'"),
            (("--seeds", by_id, "--negatives", "binary", "--readout-column", "price=int64"), 1,
             "'price' has no value of a negative link"),
            (("--seeds", by_id, "--negatives", "triplet", "--negatives-per-link", 0.5), 1,
             "0.5, a whole number"),
            (("--seeds", no_ends), 1, "needs either 'id' (--seeds-by) or 'source' and 'target'"),
            (("--negatives", "binary"), 2, "--negatives requires --seeds"),
            (("--exclude", "reverse_types"), 2, "--exclude"),
        ):
            failed = run_cli("sample", "estimate", *common, *links, *arguments)
            assert failed.returncode == code, (arguments, failed.stderr)
            assert says in failed.stderr, (arguments, failed.stderr)
        unknown = run_cli("sample", "estimate", *common, "--seeds", by_id)
        assert "give --link-edge-set or --link-node-set" in unknown.stderr


def test_seeds_of_a_file_are_nodes_with_times_and_features(
    address: str, tmp_path: pathlib.Path
) -> None:
    with server_at(address, tmp_path / "data"), Client(address) as client:
        graph = shop(address, client)
        builder = SamplingSpecBuilder(client.source_graphs.get("shop").schema, "random_uniform")
        builder.seed("user").sample(1000, "buys")
        spec = tmp_path / "users.pbtxt"
        spec.write_text(builder.build().to_text())
        chosen = np.array([3, 0, 11])
        times, prices = np.array([10, 30, 49]), np.array([0.5, 1.5, -2.0])
        file = write_csv(tmp_path / "seeds.csv", "price,row,time", prices, 11 - chosen, times)
        arguments = ("--server", address, "--graph", "shop", "--spec", spec, "--seeds", file)
        succeed("sample", "dataset", *arguments, "--seeds-by", "row", "--dataset", "d", "--ids-only",
                "--readout", "--readout-column", "price=float32", "--edge-time-column", "at")
        for drawn, user, time, price in zip(stored(address, "d"), chosen, times, prices):
            early = (graph["users"] == user) & (graph["at"] <= time)
            assert sorted(drawn["buys.#row"].tolist()) == np.flatnonzero(early).tolist()
            assert drawn["_readout.price"].tolist() == [price]
        refused = run_cli("sample", "estimate", *arguments, "--seeds-by", "id")
        assert "needs either 'id'" in refused.stderr
        ids = write_csv(tmp_path / "ids.csv", "id", chosen)
        refused = run_cli("sample", "estimate", *arguments[:-1], ids)
        assert refused.returncode == 1 and "give rows or numbers" in refused.stderr


def list_names(graphs: source_graph_pb2_grpc.SourceGraphServiceStub) -> list[str]:
    listed = graphs.ListSourceGraphs(source_graph_pb2.ListSourceGraphsRequest())
    return [graph.name for graph in listed.graphs]


def histograms_on_the_page(server: LocalServer) -> list[str]:
    """To be listed there is no use."""
    while True:
        with urllib.request.urlopen(
            f"http://{server.http_address}/api/sources?view=test", timeout=20
        ) as answer:
            if answer.status == 200:
                return [each["name"] for each in json.load(answer)["histograms"]]


def metrics_of(server: LocalServer) -> str:
    with urllib.request.urlopen(f"http://{server.http_address}/metrics", timeout=20) as page:
        text: str = page.read().decode()
        return text


def test_what_nobody_uses_expires(tmp_path: pathlib.Path) -> None:
    retentions = [f"--{kind}-retention=1s,kept=0s" for kind in ("source-graph", "histogram", "model")]
    with LocalServer(arguments=("--data-dir", str(tmp_path / "data"), *retentions)) as server:
        with grpc.insecure_channel(server.address) as channel, Client(server.address) as client:
            graphs = source_graph_pb2_grpc.SourceGraphServiceStub(channel)
            histograms = histogram_pb2_grpc.HistogramServiceStub(channel)
            schema = source_graph_pb2.SourceGraphSchema()
            schema.node_sets.add(name="paper")
            addend = histogram_pb2.MergeHistogramRequest().addend
            addend.tuples = np.array([[3, 4]], "<u4").tobytes()
            addend.counts = np.array([7], "<u8").tobytes()
            for name in ("drafts/mine", "kept/mine"):
                graphs.CreateSourceGraph(
                    source_graph_pb2.CreateSourceGraphRequest(name=name, schema=schema)
                )
                histograms.MergeHistogram(
                    histogram_pb2.MergeHistogramRequest(histogram=name, addend=addend)
                )
                client.feedback.report(f"{name}/h100", [BatchFeedback({"nodes": 8, "graphs": 1}, 1e-3)])
            expired = [
                f"\npackhouse_{kind}_expired_total 1\n"
                for kind in ("source_graphs", "histograms", "measured_models")
            ]
            while not all(line in metrics_of(server) for line in expired):
                pass
            assert list_names(graphs) == histograms_on_the_page(server) == ["kept/mine"]
            assert [model.model for model in client.feedback.list()] == ["kept/mine"]

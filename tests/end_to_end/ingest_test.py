"""packhouse ingest, packhouse datasets and packhouse jobs, against servers and clients that are killed."""

from __future__ import annotations

import contextlib
import gzip
import json
import math
import os
import pathlib
import pty
import re
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from server_process import ServerProcess

from packhouse import Batch, GraphSchema, GraphTable, LocalServer
from packhouse.files import npz
from packhouse.v1 import dataset_pb2, dataset_pb2_grpc, loader_pb2, loader_pb2_grpc

SHARED = pathlib.Path(os.environ.get("PACKHOUSE_SHARED_DATA") or "/nonexistent")
# Small chunks, each on the disk before the next is answered: time to be killed in between.
SLOWLY = ("--chunk-bytes", "16KiB")

pytestmark = pytest.mark.skipif(
    "PACKHOUSE_CLI" not in os.environ, reason="PACKHOUSE_CLI does not name a program"
)


def start_cli(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    """The command line, running."""
    return subprocess.Popen(
        [os.environ["PACKHOUSE_CLI"], *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def run_cli(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """The command line, run to its end; without a terminal, unless one is given as `stdin`."""
    options.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run(
        [os.environ["PACKHOUSE_CLI"], *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )


def succeed(*arguments: object, **options: Any) -> str:
    """The output of the command line, which must succeed."""
    done = run_cli(*arguments, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def write_rings(path: pathlib.Path, graphs: int) -> pathlib.Path:
    """Rings of 3 to 40 nodes with chords, always the same ones, as an .npz file."""
    generator = np.random.default_rng(4)
    nodes = generator.integers(3, 40, graphs)
    edges = generator.integers(0, 80, graphs)
    np.savez_compressed(
        path,
        node_offsets=np.concatenate([[0], np.cumsum(nodes)]),
        edge_offsets=np.concatenate([[0], np.cumsum(edges)]),
        x=generator.integers(-99, 99, (nodes.sum(), 3)).astype(np.int16),
        edge_index=generator.integers(0, np.repeat(nodes, edges), (2, edges.sum())),
        edge_attr=generator.random(edges.sum(), np.float32),
        y=generator.random(graphs),
    )
    return path


def write_libraries(path: pathlib.Path, graphs: int) -> pathlib.Path:
    """Papers, authors, who wrote and who cites; always the same, some with no row of a kind."""
    generator = np.random.default_rng(5)
    rows = {name: generator.integers(0, 9, graphs) for name in ("paper", "author")}
    arrays = {"y": generator.random((graphs, 2))}
    for source, relation, target in (("author", "writes", "paper"), ("paper", "cites", "paper")):
        name = f"{source}.{relation}.{target}"
        # No edges where there is nothing at one of their ends.
        rows[name] = generator.integers(0, 20, graphs) * (rows[source] * rows[target] > 0)
        arrays[f"{name}.edge_index"] = np.stack(
            [generator.integers(0, np.repeat(rows[end], rows[name])) for end in (source, target)]
        )
        arrays[f"{name}.weight"] = generator.random(rows[name].sum(), np.float32)
    arrays["paper.x"] = generator.integers(-99, 99, (rows["paper"].sum(), 3)).astype(np.int16)
    for name, counts in rows.items():
        arrays[f"{name}.offsets"] = np.concatenate([[0], np.cumsum(counts)])
    np.savez_compressed(path, **arrays)
    return path


@pytest.fixture(name="rings")
def rings_fixture(tmp_path: pathlib.Path) -> pathlib.Path:
    """Some megabytes of graphs."""
    return write_rings(tmp_path / "rings.npz", 8_000)


@pytest.fixture(name="molecules")
def molecules_fixture(tmp_path: pathlib.Path) -> pathlib.Path:
    """Real ones if there are any."""
    shared = SHARED / "graphs" / "tu_MUTAG.npz"
    return shared if shared.exists() else write_rings(tmp_path / "few.npz", 188)


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


def num_graphs(address: str, name: str) -> int:
    """How many graphs a data set has; 0 if it is not there yet."""
    with grpc.insecure_channel(address) as channel:
        stub = dataset_pb2_grpc.DatasetServiceStub(channel)
        try:
            response = stub.GetDataset(dataset_pb2.GetDatasetRequest(name=name))
        except grpc.RpcError as error:
            assert error.code() is grpc.StatusCode.NOT_FOUND
            return 0
        return int(response.dataset.num_graphs)


def kill_at(
    graphs: float, victim: subprocess.Popen[str] | LocalServer, ingest: subprocess.Popen[str], address: str
) -> bool:
    """Kills `victim` when data set `r` has so many graphs; False if the ingest ended before."""
    while ingest.poll() is None:
        if num_graphs(address, "r") >= graphs:
            victim.kill()
            if not isinstance(victim, LocalServer):
                victim.wait()
            return True
    return False


def load(address: str, dataset: str, total: int) -> tuple[GraphSchema, GraphTable]:
    """All graphs of a sealed data set, in its order, as a trainer gets them."""
    request = loader_pb2.LoadRequest(max_in_flight=1024)
    request.epoch.dataset = dataset
    request.epoch.job = "test"
    request.epoch.in_order = True
    request.epoch.rank_groups.add().shapes.add().capacities.add(component="graphs", rows=100)
    request.ranked.num_ranks = 1
    with grpc.insecure_channel(
        address, [("grpc.max_receive_message_length", 1 << 28)]
    ) as channel:
        responses = loader_pb2_grpc.LoaderServiceStub(channel).Load(request)
        schema = GraphSchema.from_proto(next(responses).opened.schema)
        tables: list[GraphTable] = []
        while sum(map(len, tables)) < total:
            tables.append(Batch.from_proto(next(responses).batch.batch, schema).unbatch())
        responses.cancel()
    graphs = GraphTable.concatenate(tables)
    return schema, graphs.take(np.argsort(graphs.graph_ids, kind="stable"))


def assert_stored_once(address: str, dataset: str, source: pathlib.Path) -> None:
    """The data set has exactly the graphs of the file, as the Python package reads them."""
    expected = npz.load(source)
    shown = json.loads(succeed("datasets", "show", dataset, "--json", "--server", address))
    assert shown["state"] == "sealed"
    assert shown["graphs"] == len(expected)
    assert shown["totals"] == {name: expected.rows(name) for name in expected.schema.components}
    assert "no damage" in succeed("datasets", "verify", dataset, "--server", address)
    schema, graphs = load(address, dataset, len(expected))
    assert schema == expected.schema
    assert graphs.graph_ids.tolist() == list(range(len(expected)))
    assert graphs.equals(expected)


def test_what_is_ingested_is_what_the_python_package_reads(
    address: str, tmp_path: pathlib.Path, molecules: pathlib.Path
) -> None:
    with server_at(address, tmp_path / "data"):
        output = succeed("ingest", "--server", address, "--dataset", "m", "--seal", molecules)
        graphs = len(npz.load(molecules))
        assert f"stored {graphs} graphs, 0 had been there" in output
        assert_stored_once(address, "m", molecules)
        again = succeed("ingest", "--server", address, "--dataset", "m", "--seal", molecules)
        assert f"stored 0 graphs, {graphs} had been there" in again


def test_several_kinds_of_nodes_and_edges_are_ingested(tmp_path: pathlib.Path) -> None:
    libraries = write_libraries(tmp_path / "libraries.npz", 500)
    with ServerProcess("--data-dir", str(tmp_path / "data")) as server:
        ingest = ("ingest", "--server", server.address, "--dataset", "r", "--seal")
        assert "stored 500 graphs" in succeed(*ingest, *SLOWLY, libraries)
        assert_stored_once(server.address, "r", libraries)


def test_an_ingest_that_is_killed_goes_on(
    address: str, tmp_path: pathlib.Path, rings: pathlib.Path
) -> None:
    command = ("ingest", "--server", address, "--dataset", "r", "--seal", *SLOWLY, rings)
    with server_at(address, tmp_path / "data"):
        kills = 0
        for share in (0.01, 0.2, 0.4, 0.6):
            with start_cli(*command) as ingest:
                kills += kill_at(8_000 * share, ingest, ingest, address)
        assert kills > 0
        output = succeed(*command)
        found = re.search(r"stored ([\d,]+) graphs, ([\d,]+) had been there", output)
        assert found is not None
        stored, present = (int(text.replace(",", "")) for text in found.groups())
        assert stored + present == 8_000
        assert present > 0
        assert_stored_once(address, "r", rings)


def test_a_server_that_is_killed_is_waited_for(
    address: str, tmp_path: pathlib.Path, rings: pathlib.Path
) -> None:
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(server_at(address, tmp_path / "data"))
        ingest = stack.enter_context(
            start_cli("ingest", "--server", address, "--dataset", "r", "--seal", *SLOWLY, rings)
        )
        kills = 0
        for share in (0.01, 0.2, 0.4, 0.6):
            if kill_at(8_000 * share, server, ingest, address):
                kills += 1
                server = stack.enter_context(server_at(address, tmp_path / "data"))
        output, errors = ingest.communicate(timeout=120)
        assert ingest.returncode == 0, errors
        assert kills > 0
        assert "trying again in" in errors
        assert "stored 8,000 graphs" in output
        assert_stored_once(address, "r", rings)


def test_sizes_come_from_files_and_from_stdin(tmp_path: pathlib.Path) -> None:
    sizes = b"num_nodes,num_edges\n" + b"".join(b"%d,%d\n" % (i, 2 * i) for i in range(1000))
    plain = tmp_path / "sizes.csv"
    plain.write_bytes(sizes)
    packed = tmp_path / "sizes.csv.gz"
    packed.write_bytes(gzip.compress(sizes))
    with ServerProcess("--data-dir", str(tmp_path / "data")) as server:
        ingest = ("ingest", "--server", server.address, "--dataset", "s")
        assert "stored 1,000 graphs" in succeed(*ingest, plain)
        # The same graphs, wherever they come from.
        assert "stored 0 graphs, 1,000 had" in succeed(*ingest, packed)
        with open(packed, "rb") as file:
            assert "stored 0 graphs, 1,000 had" in succeed(*ingest, "-", stdin=file)
        assert succeed(*ingest, "--quiet", plain) == ""
        # Another producer: other graphs.
        other = run_cli(*ingest, "--producer", "other", plain)
        assert "stored 1,000 graphs" in other.stdout
        assert "the data set had 1,000 graphs before" in other.stderr
        shown = succeed("datasets", "show", "s", "--server", server.address)
        assert "s: open, 2,000 graphs" in shown
        assert "none: sizes only" in shown


def test_data_sets_are_listed_shown_and_deleted(
    tmp_path: pathlib.Path, molecules: pathlib.Path
) -> None:
    with ServerProcess("--data-dir", str(tmp_path / "data")) as server:

        def datasets(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
            return run_cli("datasets", *arguments, "--server", server.address, **options)

        assert json.loads(datasets("list", "--json").stdout) == []
        for name in ("b", "a/1"):
            succeed("ingest", "--server", server.address, "--dataset", name, "--max-bytes", "1GiB",
                    molecules)
        table = datasets("list").stdout.splitlines()
        assert [line.split()[0] for line in table] == ["name", "a/1", "b"]
        assert [row["name"] for row in json.loads(datasets("list", "--json").stdout)] == ["a/1", "b"]
        assert "at most 1.0 GiB" in datasets("show", "b").stdout
        assert datasets("fsck", "b").returncode == 0

        assert datasets("delete", "b", "--yes").stdout == "b: deleted\n"
        for action in (("show",), ("verify",), ("delete",), ("delete", "--yes")):
            missing = datasets(action[0], "b", *action[1:])
            assert missing.returncode == 1
            assert "NOT_FOUND" in missing.stderr

        # Where nobody can be asked, it is not done.
        refused = datasets("delete", "a/1")
        assert refused.returncode == 2
        question = r"delete data set 'a/1' with [\d,]+ graphs, [^?]*"
        assert re.search(f"to {question} where nobody can be asked, add --yes", refused.stderr)
        # On a terminal it asks, and takes no answer for a no.
        for answer, code, says in (("\n", 1, ""), ("n\n", 1, ""), ("\x04", 1, ""),
                                   ("Yes\n", 0, "a/1: deleted\n")):
            terminal, inside = pty.openpty()
            os.write(terminal, answer.encode())
            asked = datasets("delete", "a/1", stdin=inside)
            os.close(inside)
            os.close(terminal)
            assert (asked.returncode, asked.stdout) == (code, says)
            assert re.search(rf"{question}\? \[y/N\]", asked.stderr)
            assert ("nothing was done" in asked.stderr) == (code == 1)
        assert json.loads(datasets("list", "--json").stdout) == []


def test_an_epoch_is_shown_before_it_is_loaded(tmp_path: pathlib.Path, rings: pathlib.Path) -> None:
    with ServerProcess("--data-dir", str(tmp_path / "data")) as server:
        succeed("ingest", "--server", server.address, "--dataset", "rings", "--seal", rings)

        def epoch(*arguments: object) -> subprocess.CompletedProcess[str]:
            limit = ("--limit", "graphs=8")
            return run_cli("epoch", "rings", *limit, "--server", server.address, *arguments)

        whole = json.loads(epoch("--json").stdout)
        assert whole["segments"] is None
        assert whole["batches"] == whole["lower_bound"] == math.ceil(whole["graphs"] / 8)
        company = whole["company"]
        assert company["ratio"] == company["chance"] / company["of_shuffle"]
        assert re.search(
            r"company      [\d.]+ % of the pairs of a batch meet again in the next epoch; [\d.]+ times",
            epoch().stdout,
        )
        assert "meet again in the epoch before" in epoch("--epoch", "1").stdout
        off = json.loads(epoch("--mixing", "off", "--json").stdout)
        assert off["batches"] == whole["batches"] and off["company"]["ratio"] >= company["ratio"]
        assert whole["steps"] is None
        order = ("--order", "sum(nodes^2) + edges", "--ranks", "3")
        steps = json.loads(epoch(*order, "--json").stdout)["steps"]
        assert steps["num_ranks"] == [3]
        assert 1 >= steps["efficiency"] >= steps["of_shuffle"] > 0
        assert re.search(
            r"steps        [\d.]+ % of the time of 3 ranks is spent on batches; [\d.]+ % in random order",
            epoch(*order).stdout,
        )
        # A data set of few chunks is one segment.
        parts = json.loads(epoch("--segments", "10", "--tracks", "2", "--json").stdout)
        assert parts["segments"] == {
            "segments": 1,
            "tracks": 2,
            "max_graphs": whole["graphs"],
            "loss": 0,
        }
        assert parts["batches"] == whole["batches"]
        text = epoch("--segments", "0").stdout
        assert f"{whole['graphs']:,} graphs in {whole['batches']:,} batches" in text
        assert "1 track; segmentation loses at most 0 % of the batches" in text
        # Graphs beyond the limits are left out, and told.
        few = json.loads(epoch("--limit", "nodes=20", "--json").stdout)
        assert few["left_out"] > 0 and few["graphs"] + few["left_out"] == whole["graphs"]
        left_out = f"left out     {few['left_out']:,} graphs beyond the limits\n"
        assert left_out in epoch("--limit", "nodes=20").stdout
        assert json.loads(run_cli("jobs", "list", "--server", server.address, "--json").stdout) == []
        for arguments, code, says in (
            (("--tracks", "2"), 2, "--tracks are of segments: it needs --segments"),
            (("--segments", "5", "--tracks", "65"), 1, "segments.tracks: 65, must be 1 to 64"),
            (("--limit", "rows=8"), 2, "rows"),
            (("--order", "edges"), 2, "--order and --ranks need each other"),
            (("--ranks", "8"), 2, "--order and --ranks need each other"),
            (("--order", "2*", "--ranks", "8"), 2, "--order: cost: '2*' in '2*' is no term"),
            (("--order", "rows", "--ranks", "8"), 1, "unknown component 'rows'"),
            (("--mixing", "0.5"), 2, "--mixing: '0.5' is neither off nor a finite number of at least 1"),
        ):
            refused = epoch(*arguments)
            assert refused.returncode == code
            assert says in refused.stderr


def test_jobs_are_listed_shown_and_deleted(tmp_path: pathlib.Path, rings: pathlib.Path) -> None:
    with ServerProcess("--data-dir", str(tmp_path / "data")) as server:

        def jobs(*arguments: object) -> subprocess.CompletedProcess[str]:
            return run_cli("jobs", *arguments, "--server", server.address)

        succeed("ingest", "--server", server.address, "--dataset", "rings", "--seal", rings)
        request = loader_pb2.LoadRequest(max_in_flight=4)
        request.epoch.dataset = "rings"
        request.epoch.job = "a/1"
        request.epoch.epoch = 3
        request.ranked.num_ranks = 1
        shape = request.epoch.rank_groups.add().shapes.add()
        shape.capacities.add(component="graphs", rows=8)
        with grpc.insecure_channel(server.address) as channel:
            stub = loader_pb2_grpc.LoaderServiceStub(channel)
            stream = stub.Load(request)
            opened = next(stream).opened
            stub.Acknowledge(
                loader_pb2.AcknowledgeRequest(
                    job="a/1",
                    epoch=3,
                    generation=opened.generation,
                    session=opened.session,
                    batches=[next(stream).batch.batch.id],
                )
            )
            shown = json.loads(jobs("show", "a/1", "--json").stdout)
            assert shown["streams"] == 1
            (epoch,) = shown["epochs"]
            assert (epoch["epoch"], epoch["done"], epoch["dataset"]) == (3, 1, "rings")
            assert epoch["batches"] == opened.epoch.num_batches
            assert epoch["client"] == "127.0.0.1"
            assert json.loads(jobs("list", "--json").stdout) == [shown]
            assert re.search(r"^a/1 +1 +0 +1 ", jobs("list").stdout, re.MULTILINE)
            assert "a/1: 1 epochs, 1 streams\n" in jobs("show", "a/1").stdout
            refused = jobs("delete", "a/1")
            assert refused.returncode == 2
            assert "delete job 'a/1' with 1 epochs, which 1 streams load" in refused.stderr
            assert jobs("delete", "a/1", "--yes").stdout == "a/1: deleted\n"
            with pytest.raises(grpc.RpcError) as ended:
                list(stream)
            assert ended.value.code() == grpc.StatusCode.NOT_FOUND
        for action in ("show", "delete"):
            failed = jobs(action, "a/1")
            assert failed.returncode == 1
            assert "a/1" in failed.stderr
        assert json.loads(jobs("list", "--json").stdout) == []


def test_damage_is_reported_and_fails_the_verification(
    address: str, tmp_path: pathlib.Path, molecules: pathlib.Path
) -> None:
    folder = tmp_path / "data"
    with server_at(address, folder):
        succeed("ingest", "--server", address, "--dataset", "m", *SLOWLY, molecules)
    # The first record's.
    marker = npz.load(molecules).tensors["receivers"][:100].tobytes()
    hit = False
    for path in folder.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        place = content.find(marker)
        if place >= 0:
            path.write_bytes(content[: place + 100] + b"\xff" + content[place + 101 :])
            hit = True
    assert hit
    with server_at(address, folder):
        damaged = run_cli("datasets", "verify", "m", "--server", address)
        assert damaged.returncode == 1
        assert "1 damaged records" in damaged.stdout
        listed = run_cli("datasets", "verify", "m", "--json", "--server", address)
        assert json.loads(listed.stdout)["damaged_records"] == 1


def test_failures_name_what_is_wrong(tmp_path: pathlib.Path, rings: pathlib.Path) -> None:
    cut = tmp_path / "cut.npz"
    cut.write_bytes(rings.read_bytes()[:-100])
    fortran = tmp_path / "fortran.npz"
    np.savez(fortran, node_offsets=[0, 2], edge_offsets=[0, 0], x=np.asfortranarray([[1, 2], [3, 4]]))
    with ServerProcess() as server:
        for source, says in [
            ("/nonexistent", "/nonexistent: cannot open"),
            (cut, "cut.npz"),
            (fortran, "array 'x': is in Fortran order"),
            (rings, "without a folder for data (--data-dir)"),
        ]:
            failed = run_cli("ingest", "--server", server.address, "--dataset", "d", source)
            assert failed.returncode == 1
            assert says in failed.stderr
        for option, says in [("--max-bytes", "--max-bytes 'x'"), ("--chunk-bytes", "--chunk-byt")]:
            misuse = run_cli("ingest", "--server", server.address, "--dataset", "d", option, "x",
                             rings)
            assert misuse.returncode == 2
            assert says in misuse.stderr


def test_an_ingest_may_be_interrupted(
    address: str, tmp_path: pathlib.Path, rings: pathlib.Path
) -> None:
    with server_at(address, tmp_path / "data"):
        with start_cli(
            "ingest", "--server", address, "--dataset", "r", *SLOWLY, rings
        ) as ingest:
            while ingest.poll() is None and num_graphs(address, "r") == 0:
                pass
            ingest.send_signal(signal.SIGINT)
            # Also if the signal came where it was dropped, or left a lock of a library taken.
            assert ingest.wait() in (0, -signal.SIGINT)

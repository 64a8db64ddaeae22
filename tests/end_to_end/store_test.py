"""`packhoused store`: snapshots and repair of a server's data folder, as an operator uses them."""

from __future__ import annotations

import collections
import contextlib
import json
import os
import pathlib
import re
import runpy
import shutil
import subprocess
import threading

import grpc
import numpy as np
import pytest
from data_folder_test import refused
from server_process import ServerProcess

from packhouse import (
    Client,
    DType,
    GraphSchema,
    GraphTable,
    Loader,
    PackhouseError,
    PartitionState,
    SourceGraphState,
    TensorSpec,
)
from packhouse.stored.administration import Snapshot

PACKHOUSED = os.environ.get("PACKHOUSED", "")
NUM_GRAPHS = 600
LIMITS = {"nodes": 64, "edges": 64, "graphs": 8}

pytestmark = pytest.mark.skipif(not PACKHOUSED, reason="PACKHOUSED names the program to test")


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PACKHOUSED, "store", *map(str, arguments)], capture_output=True, text=True, timeout=120,
        check=False,
    )


def succeed(*arguments: object) -> str:
    done = run(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def graphs(first_id: int, count: int = NUM_GRAPHS) -> GraphTable:
    schema = GraphSchema(tensors=(TensorSpec("x", DType.FLOAT32, "nodes", (64,)),))
    rng = np.random.default_rng(first_id)
    sizes = np.stack([rng.integers(1, 12, count), np.zeros(count, np.int64)], axis=1)
    rows = rng.random((int(sizes[:, 0].sum()), 64), np.float32)
    return GraphTable(schema, sizes.astype(np.uint32), {"x": rows},
                      graph_ids=np.arange(first_id, first_id + count, dtype=np.uint64))


def store(client: Client, name: str, table: GraphTable) -> None:
    client.datasets.create(name, table.schema)
    client.datasets.append(name, [table])
    client.datasets.seal(name)


def take(address: str, job: str, count: int) -> collections.Counter[int]:
    """Ids of the graphs in the next batches, all of them acknowledged."""
    seen: collections.Counter[int] = collections.Counter()
    with Loader(address, dataset="d", job=job, limits=LIMITS, worker="w",
                acknowledge="manual") as batches:
        for number, batch in enumerate(batches, 1):
            seen.update(map(int, batch.graph_ids))
            batches.acknowledge(batch)
            if number == count:
                break
    return seen


def rest(address: str, job: str) -> collections.Counter[int]:
    return take(address, job, 1 << 30)


def test_a_restored_folder_goes_on_where_the_snapshot_was_taken(tmp_path: pathlib.Path) -> None:
    data, snapshot, restored = tmp_path / "data", tmp_path / "snapshot", tmp_path / "restored"
    with ServerProcess("--data-dir", str(data)) as server:
        with Client(server.address) as client:
            store(client, "d", graphs(0))
            client.datasets.create("open", graphs(0).schema)
            client.datasets.append("open", [graphs(5000, 50)], producer="p")
        before = take(server.address, "train", 20)
        assert "in use by process" in run("snapshot", data, snapshot).stderr
        server.kill()
    assert "sound" in succeed("check", data)
    assert "files" in succeed("snapshot", data, snapshot)
    # The manifest is one that coreutils read, too.
    subprocess.run(["sha256sum", "--quiet", "-c", "manifest"], cwd=snapshot, check=True,
                   stderr=subprocess.DEVNULL)
    assert "sound" in succeed("check", snapshot)
    succeed("restore", snapshot, restored)
    assert json.loads(succeed("check", "--json", restored))["damages"] == []
    with ServerProcess("--data-dir", str(restored)) as server, Client(server.address) as client:
        assert client.datasets.verify("d").is_sound
        assert client.datasets.get("open").num_graphs == 50
        # Known as a repetition.
        again = client.datasets.append("open", [graphs(5000, 50)], producer="p", first_sequence=1)
        assert again.num_graphs == 50
        both = before + rest(server.address, "train")
        assert both == collections.Counter(range(NUM_GRAPHS))
    assert "not empty" in run("restore", snapshot, restored).stderr
    manifest = snapshot / "delivery" / "records"
    manifest.write_bytes(manifest.read_bytes()[:-1])
    result = run("restore", snapshot, tmp_path / "other")
    assert result.returncode == 1
    assert "delivery/records" in result.stderr
    assert not (tmp_path / "other").exists()


def files_below(folder: pathlib.Path) -> int:
    return sum(len(files) for _, _, files in os.walk(folder))


def test_a_snapshot_and_a_restore_that_are_killed_anywhere_go_on(tmp_path: pathlib.Path) -> None:
    data, snapshot, restored = tmp_path / "data", tmp_path / "snapshot", tmp_path / "restored"
    with ServerProcess("--data-dir", str(data)) as server, Client(server.address) as client:
        for each in range(30):
            store(client, f"d{each}", graphs(each, 300))
    for most in (1, 3, 10, 25):
        # Killed when so many files are there, or when it has ended.
        with subprocess.Popen([PACKHOUSED, "store", "snapshot", data, snapshot],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            while process.poll() is None and files_below(snapshot) < most:
                pass
            process.kill()
        assert not (snapshot / "manifest").exists() or process.returncode == 0
    if not (snapshot / "manifest").exists():
        succeed("snapshot", data, snapshot)
    for most in (1, 2, 3):
        with subprocess.Popen([PACKHOUSED, "store", "restore", snapshot, restored],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            while process.poll() is None and files_below(restored) < most:
                pass
            process.kill()
        if (restored / "RESTORING").exists():
            status, words = refused("--data-dir", str(restored))
            assert status == 1
            assert "packhoused store restore" in words
    if not restored.exists() or (restored / "RESTORING").exists():
        succeed("restore", snapshot, restored)
    assert "30 data sets" in succeed("check", restored)
    with ServerProcess("--data-dir", str(restored)) as server, Client(server.address) as client:
        assert all(client.datasets.verify(f"d{each}").is_sound for each in range(30))


def test_a_damaged_ledger_costs_its_job_and_not_the_start(tmp_path: pathlib.Path) -> None:
    data = tmp_path / "data"
    with ServerProcess("--data-dir", str(data)) as server:
        with Client(server.address) as client:
            store(client, "d", graphs(0))
        before = take(server.address, "sound-job", 20)
        take(server.address, "damaged-job", 5)
    file = data / "delivery" / "data.mdb"
    content = file.read_bytes()
    # Two bits behind the name in one record of the job; on a free page they would not matter, and
    # the head of the log can be made again.
    for found in re.finditer(b"damaged-job", content):
        place = found.end() + 3
        file.write_bytes(content[:place] + bytes([content[place] ^ 0x41]) + content[place + 1 :])
        checked = run("check", data)
        if checked.returncode == 1 and ", record " in checked.stdout:
            break
    assert "delivery/data.mdb, job 'damaged-job', record" in checked.stdout
    assert "sound-job" not in checked.stdout
    status, words = refused("--data-dir", str(data))
    assert status == 1
    assert f"packhoused store repair '{data}'" in words
    assert "lost: job 'damaged-job'" in succeed("repair", data)
    with ServerProcess("--data-dir", str(data)) as server:
        assert before + rest(server.address, "sound-job") == collections.Counter(range(NUM_GRAPHS))
        assert rest(server.address, "damaged-job") == collections.Counter(range(NUM_GRAPHS))


def test_space_of_deleted_data_goes_back_to_the_disk(tmp_path: pathlib.Path) -> None:
    with ServerProcess("--data-dir", str(tmp_path)) as server, Client(server.address) as client:
        store(client, "kept", graphs(0, 100))
        store(client, "large", graphs(1, 5000))
        client.datasets.delete("large")
    before = (tmp_path / "datasets" / "data.mdb").stat().st_size
    assert "datasets" in succeed("compact", tmp_path)
    assert (tmp_path / "datasets" / "data.mdb").stat().st_size < before / 4
    with ServerProcess("--data-dir", str(tmp_path)) as server, Client(server.address) as client:
        assert client.datasets.verify("kept").is_sound


def test_errors_name_what_is_wrong(tmp_path: pathlib.Path) -> None:
    for action in ("check", "repair", "compact"):
        result = run(action, tmp_path / "missing")
        assert result.returncode == 1
        assert f"there is no data folder '{tmp_path}/missing'" in result.stderr
    assert "is no snapshot" in run("restore", tmp_path, tmp_path / "new").stderr


def test_a_copy_has_all_that_is_sealed_or_named(tmp_path: pathlib.Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(FORMAT_2 / "data", data)

    def copy(to: str, *arguments: object) -> tuple[int, str, str]:
        done = run("copy", f"lmdb:{data}", f"lmdb:{tmp_path / to}", *arguments)
        return done.returncode, done.stdout, done.stderr

    left_out = "open/more: left out, since it is open\nopen: left out, since the source graph is open\n"
    molecules = "molecules: 90 graphs in 1 records, of which {} were there\n"
    graph = "g: a source graph of 11,434 bytes, of which {} were there\n"
    one_set = f"lmdb:{tmp_path}/{{}}: 1 data sets\n"
    one_graph = f"lmdb:{tmp_path}/{{}}: 1 source graphs\n"
    for sets_there, bytes_there in (("0", "0"), ("1", "11,434")):
        told = molecules.format(sets_there) + one_set + graph.format(bytes_there) + one_graph
        assert copy("all", "--all") == (0, told.format("all", "all"), left_out)
    assert succeed("check", tmp_path / "all").endswith(
        ": 1 data sets, 0 records of the ledger, 1 source graphs, 0 named histograms, sound\n"
    )
    # What is named, and nothing else.
    told = graph.format(0) + one_graph.format("graph")
    assert copy("graph", "--source-graph", "g") == (0, told, "")
    told = molecules.format(0) + one_set.format("set")
    assert copy("set", "molecules") == (0, told, "")
    for named, why in (
        (["open/more"], "data set 'open/more' is open; only sealed data sets are copied"),
        (["--source-graph", "open"], "source graph 'open' is not sealed"),
    ):
        status, _, words = copy("refused", *named)
        assert status == 1 and why in words, words
    for named in ([], ["--all", "molecules"], ["--all", "--source-graph", "g"]):
        status, _, words = copy("refused", *named)
        assert status == 2 and "names of data sets, --source-graph with" in words, words
    # Of what was copied, a copy may be made; of what was not, none.
    data = tmp_path / "set"
    assert copy("again", "--all") == (0, molecules.format(0) + one_set.format("again"), "")
    status, _, words = copy("again", "--source-graph", "g")
    assert status == 1 and "/set has no source graphs" in words, words
    status, _, words = copy("small", "--all", "--max-store-bytes", "4KiB")
    assert status == 1 and "of all data sets, at most 4096" in words, words


# What is lost with a file of a snapshot, by the beginning of its path.
COSTS = {
    "datasets/records/": "data sets' records in this file",
    "datasets/values": "all data sets of the snapshot",
    "delivery/": "all jobs and measured models of the snapshot",
    "source_graphs/": "a source graph or a partition of it",
    "files/histograms": "all named histograms",
    "files/signing.key": "this file",
}


def test_what_is_there_and_what_is_damaged_is_told_in_words_and_numbers(tmp_path: pathlib.Path) -> None:
    data, snapshot, restored = tmp_path / "data", tmp_path / "snapshot", tmp_path / "restored"
    shutil.copytree(FORMAT_2 / "data", data)
    (data / "signing.key").write_text("0" * 64)
    there = "2 data sets, 22 records of the ledger, 2 source graphs, 0 named histograms"
    assert succeed("check", data) == f"{data}: {there}, sound\n"
    assert succeed("repair", data) == f"{data}: nothing to repair in the ledger, and nothing is missing\n"
    (data / "histograms").write_text("of no server")
    told = succeed("snapshot", data, snapshot)
    files = {path: digest for digest, path in (
        line.split("  ", 1) for line in (snapshot / "manifest").read_text().splitlines() if line[0] != "#"
    )}  # fmt: skip
    sizes = {path: (snapshot / path).stat().st_size for path in files}
    assert {next(start for start in COSTS if path.startswith(start)) for path in files} == {*COSTS}
    assert told == f"{snapshot}: {len(files)} files, {sum(sizes.values()):,} bytes, of which 0 were there\n"
    checked = json.loads(succeed("check", "--json", snapshot))
    taken = checked.pop("taken")
    assert checked == {"files": len(files), "damages": []}
    assert succeed("check", snapshot) == f"{snapshot}: a snapshot of {taken}, {len(files)} files, sound\n"
    assert succeed("restore", snapshot, restored) == f"{restored}: restored\n"
    assert (restored / "signing.key").read_text() == "0" * 64
    (restored / "histograms").unlink()
    assert run("check", restored).stdout == (
        f"{restored}/histograms: is missing\n  costs all named histograms\n"
        f"{restored}: {there}, 1 damages\n"
    )
    assert run("repair", restored, "--accept-missing").stdout.endswith(f"{restored}: repaired\n")
    assert succeed("check", restored) == f"{restored}: {there}, sound\n"

    for path in files:
        with (snapshot / path).open("ab") as file:
            file.write(b"x")
    (snapshot / "datasets" / "values").unlink()
    done = run("check", "--json", snapshot)
    assert done.returncode == 1
    damages = {damage["file"]: damage for damage in json.loads(done.stdout)["damages"]}
    assert damages.keys() == {f"{snapshot}/{path}" for path in files}
    for path in files:
        damage = damages[f"{snapshot}/{path}"]
        assert damage["cost"] == next(cost for start, cost in COSTS.items() if path.startswith(start))
        assert damage["place"] == ""
        assert damage["what"] == "its checksum is not that of the manifest" or path == "datasets/values"
    done = run("check", snapshot)
    assert done.returncode == 1
    assert f"{snapshot}/delivery/records: its checksum is not that of the manifest\n" in done.stdout
    assert done.stdout.endswith(f"{len(files)} files, {len(files)} damages\n")


def test_a_copy_of_what_is_not_there_is_refused_by_name(tmp_path: pathlib.Path) -> None:
    with ServerProcess("--data-dir", str(tmp_path / "data")) as server, Client(server.address) as client:
        store(client, "there", graphs(0, 10))
    for named in (["missing"], ["there", "missing"], ["--source-graph", "missing"]):
        result = run("copy", f"lmdb:{tmp_path / 'data'}", f"lmdb:{tmp_path / 'copy'}", *named)
        assert result.returncode == 1 and "'missing'" in result.stderr, named


FORMAT_2 = pathlib.Path(__file__).parents[1] / "support" / "format_2_store"


@pytest.mark.parametrize("kept", ["data", "snapshot"])
def test_what_0_1_0_wrote_stays_readable(tmp_path: pathlib.Path, kept: str) -> None:
    data = tmp_path / "data"
    if kept == "snapshot":
        succeed("restore", FORMAT_2 / kept, data)
    else:
        shutil.copytree(FORMAT_2 / kept, data)
    assert json.loads(succeed("check", "--json", data)) == {
        "datasets": 2, "ledger_records": 22, "source_graphs": 2, "histograms": 0, "damages": []
    }
    made = runpy.run_path(str(FORMAT_2 / "make.py"))
    acknowledged = json.loads((FORMAT_2 / "acknowledged.json").read_text())
    with ServerProcess("--data-dir", str(data), "--epoch-retention", "0s") as server:
        with Client(server.address) as client:
            assert client.datasets.verify("molecules").is_sound
            assert client.datasets.get("open/more").num_graphs == 5
            assert client.source_graphs.verify("g").num_damaged == 0
            assert client.source_graphs.get("open").state is SourceGraphState.OPEN
            assert client.partitions.get("g", "parts").state is PartitionState.DONE
        for job, (arguments, _) in made["JOBS"].items():
            seen = collections.Counter(acknowledged[job])
            try:
                with Loader(
                    server.address, job=job, on_existing="resume", **arguments
                ) as batches:
                    for batch in batches:
                        seen.update(map(int, batch.graph_ids))
            except PackhouseError as error:
                # Windows of sub-graphs that another planner would pack otherwise cannot go on.
                assert "samples" in arguments, error
                assert error.code is grpc.StatusCode.FAILED_PRECONDITION
                continue
            everything = made["NUM_NODES"] if "samples" in arguments else made["NUM_GRAPHS"]
            assert seen == collections.Counter(range(everything)), job


def test_a_snapshot_of_a_running_server_goes_on_through_kills(tmp_path: pathlib.Path) -> None:
    data, snapshots = tmp_path / "data", tmp_path / "snapshots"
    socket = f"unix:{tmp_path}/admin.sock"
    with ServerProcess(
        *("--data-dir", str(data), "--snapshot-dir", str(snapshots), "--admin-listen", socket)
    ) as server:
        with Client(server.address) as client:
            store(client, "d", graphs(0))
            store(client, "large", graphs(1, 30_000))
            client.datasets.create("open", graphs(0).schema)

            def kill(now: Snapshot) -> None:
                if now.num_bytes > 4 << 20:
                    server.kill()

            # A server that is quicker than its killer has to do it again.
            for name in map("s{}".format, range(20)):
                with contextlib.suppress(PackhouseError), Client(socket) as administrator:
                    administrator.administration.snapshot(name, on_progress=kill)
                server.kill()
                if not (snapshots / name / "manifest").exists():
                    break
                server.start()
            else:
                pytest.skip("the server was always quicker")
        server.start()
        before = take(server.address, "train", 10)
        during: collections.Counter[int] = collections.Counter()
        appended: list[int] = []
        with Client(server.address) as client, Client(server.address) as appender:
            stop = threading.Event()

            def append() -> None:
                for sequence in range(1, 1000):
                    if stop.is_set():
                        return
                    appender.datasets.append(
                        "open", [graphs(sequence, 20)], producer="p", first_sequence=sequence
                    )
                    appended.append(sequence)

            def load() -> None:
                during.update(take(server.address, "train", 20))

            threads = [threading.Thread(target=append), threading.Thread(target=load)]
            for thread in threads:
                thread.start()
            while not appended and threads[0].is_alive():
                pass
            assert appended
            known = len(appended)
            with Client(socket) as administrator:
                done = administrator.administration.snapshot(name)
            stop.set()
            for thread in threads:
                thread.join()
            # What the killed one had copied is not written again.
            assert done.num_kept_bytes > 1 << 20
            client.datasets.delete("large")
    restored = tmp_path / "restored"
    succeed("restore", snapshots / name, restored)
    assert json.loads(succeed("check", "--json", restored))["damages"] == []
    with ServerProcess("--data-dir", str(restored)) as server, Client(server.address) as client:
        assert client.datasets.verify("d").is_sound
        assert client.datasets.verify("large").is_sound
        assert 20 * known <= client.datasets.get("open").num_graphs <= 20 * len(appended)
        after = rest(server.address, "train")
    # What was acknowledged before does not come again, and all else does, once; what was
    # acknowledged meanwhile may.
    assert not before & after
    assert set(after.values()) == {1}
    assert set(before) | set(during) | set(after) == set(range(NUM_GRAPHS))
    assert set(after) >= set(range(NUM_GRAPHS)) - set(before) - set(during)

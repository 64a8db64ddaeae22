"""packhouse-partition under the real mpirun, on 1, 2 and 4 ranks of this machine.

PACKHOUSE_PARTITION names the program; PACKHOUSE_SHARED_DATA a folder with the golden partitions of DGL,
whose checker of laws is used here. Without the program (there is no MPI) or mpirun the tests are skipped,
without the golden partitions those that need them.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from typing import Any, Final, Iterator, Sequence

import numpy as np
import pytest

CLI: Final = os.environ.get("PACKHOUSE_CLI", "")
PROGRAM: Final = os.environ.get("PACKHOUSE_PARTITION", "")
GOLDEN: Final = pathlib.Path(os.environ.get("PACKHOUSE_SHARED_DATA") or "/none") / "partition"
if not PROGRAM or shutil.which("mpirun") is None:
    pytest.skip("no packhouse-partition, or no mpirun", allow_module_level=True)
HAS_GOLDEN: Final = (GOLDEN / "laws.py").exists()
if HAS_GOLDEN:
    sys.path.insert(0, str(GOLDEN))
    import laws  # type: ignore[import]

needs_golden = pytest.mark.skipif(not HAS_GOLDEN, reason=f"no golden partitions in {GOLDEN}")

CHUNKED: Final = GOLDEN / "chunked"
SHARED_MEMORY: Final = pathlib.Path("/dev/shm")


@pytest.fixture(name="folder")
def _folder() -> Iterator[pathlib.Path]:
    """In memory where that can be: what a crash of the machine leaves is not tested here."""
    parent = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=parent, prefix="packhouse-") as path:
        yield pathlib.Path(path)


def mpirun(ranks: int, *arguments: object) -> list[str]:
    """The words of a command; more ranks than cores, and root, are allowed here."""
    words = ["mpirun", "--oversubscribe", "-np", str(ranks)]
    if os.geteuid() == 0:
        words.insert(1, "--allow-run-as-root")
    return [*words, PROGRAM, *map(str, arguments)]


def run(ranks: int, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        mpirun(ranks, *arguments), capture_output=True, text=True, timeout=120, check=False
    )


def succeed(ranks: int, *arguments: object) -> str:
    result = run(ranks, *arguments)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def files_of(folder: pathlib.Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def write_graph(
    folder: pathlib.Path,
    source: np.ndarray[Any, Any],
    target: np.ndarray[Any, Any],
    num_nodes: int,
    delimiter: str,
) -> pathlib.Path:
    """The graph in the chunked layout: edges as text in three files, a number for each edge."""
    folder.mkdir()
    files = []
    for chunk, rows in enumerate(np.array_split(np.stack([source, target], 1), 3)):
        files.append(f"edges{chunk}.csv")
        np.savetxt(folder / files[-1], rows, fmt="%d", delimiter=delimiter)
    np.save(folder / "number.npy", np.arange(len(source)))
    np.save(folder / "mask.npy", np.arange(num_nodes) % 10 == 0)
    numpy = {"name": "numpy"}
    meta = {
        "graph_name": "g",
        "node_type": ["_N"],
        "edge_type": ["_N:_E:_N"],
        "num_nodes_per_type": [num_nodes],
        "num_edges_per_type": [len(source)],
        "edges": {
            "_N:_E:_N": {"format": {"name": "csv", "delimiter": delimiter}, "data": files}
        },
        "node_data": {"_N": {"mask": {"format": numpy, "data": ["mask.npy"]}}},
        "edge_data": {"_N:_E:_N": {"number": {"format": numpy, "data": ["number.npy"]}}},
    }
    (folder / "metadata.json").write_text(json.dumps(meta), encoding="utf-8")
    return folder


def test_ranks_without_nodes_do_not_mind_duplicate_edges(folder: pathlib.Path) -> None:
    source, target = np.array([0, 0, 1, 1, 2]), np.array([1, 1, 2, 2, 0])
    graph = write_graph(folder / "graph", source, target, 3, " ")
    for ranks in (1, 2, 4):
        succeed(ranks, graph, "--parts", 2, "--output", folder / f"parts{ranks}")
        report = json.loads((folder / f"parts{ranks}/report.json").read_text())
        assert sum(part["inner_edges"] for part in report["parts"]) == 5


@needs_golden
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_laws_hold_and_parts_are_those_of_one_process(ranks: int, folder: pathlib.Path) -> None:
    """Three node types, features; the same assignment given to `packhouse partition`."""
    forms = ("--hops", 2, "--mapping", "--write-assignment", "--format", "npy",
             "--format", "safetensors", "--graph-formats", "coo", "--graph-formats", "csc",
             "--balance-ntypes", "user:label", "--balance-edges")
    # Messages so short that everything needs several.
    said = succeed(ranks, CHUNKED, "--parts", 3, "--output", folder / "a", *forms,
                   "--message-bytes", 64)
    assert "constraints on balance are met" in said
    meta, arrays = laws.from_files(str(folder / "a" / "graph.json"))
    graph = laws.Graph("hetero")
    graph.nfeat = {name: rows for name, rows in graph.nfeat.items() if f"0/nf/{name}" in arrays}
    graph.efeat = {}
    assert graph.nfeat
    laws.check("mpi", meta, arrays, graph)
    assert meta["part_method"] == "pt-scotch"

    succeed(ranks, CHUNKED, "--parts", 3, "--output", folder / "b", *forms)
    assert files_of(folder / "a") == files_of(folder / "b")

    given = ("--assignment", folder / "a" / "assignment", *forms)
    succeed(ranks, CHUNKED, "--output", folder / "many", *given)
    subprocess.run(
        [str(word) for word in (CLI, "partition", CHUNKED, "--output", folder / "one", *given)],
        check=True, timeout=120, capture_output=True,
    )
    assert files_of(folder / "many") == files_of(folder / "one")
    parts = files_of(folder / "a")
    for name, content in files_of(folder / "one").items():
        if name not in ("graph.json", "report.json"):
            assert parts[name] == content, name


@needs_golden
def test_edges_as_text_with_rows_of_edges_and_trainers(folder: pathlib.Path) -> None:
    """Duplicates, self loops, isolated nodes; each row of an edge goes where its edge does."""
    data = np.load(GOLDEN / "input" / "homo.npz")
    source, target = data["src"], data["dst"]
    graph = write_graph(folder / "graph", source, target, int(data["num_nodes"]), ",")
    for ranks, trainers in ((1, 1), (3, 2)):
        out = folder / f"out{ranks}"
        succeed(ranks, graph, "--parts", 4, "--trainers", trainers, "--balance-ntypes", "mask",
                "--output", out)
        meta, arrays = laws.from_files(str(out / "graph.json"))
        checked = laws.Graph("homo")
        checked.nfeat, checked.efeat = {}, {"_N:_E:_N/number": np.arange(len(source))}
        laws.check("homo", meta, arrays, checked)
        if trainers > 1:
            for part in range(4):
                trainer = arrays[f"{part}/nf/_N/trainer_id"]
                assert set(trainer // trainers) == {part}


def test_errors_are_said_once_and_leave_nothing(folder: pathlib.Path) -> None:
    rng = np.random.default_rng(0)
    source, target = rng.integers(0, 50, (2, 300))
    graph = write_graph(folder / "graph", source, target, 50, " ")
    lines = (graph / "edges2.csv").read_text(encoding="utf-8").splitlines()
    lines[70] = "7 50"
    (graph / "edges2.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    wrong = run(3, graph, "--parts", 2, "--output", folder / "out")
    assert wrong.returncode == 1
    assert len(re.findall("edges2.csv: line 71: target 50 is none of the 50 nodes", wrong.stderr)) == 1
    assert not (folder / "out").exists()
    misused = run(2, graph, "--output", folder / "out")
    assert misused.returncode == 2 and misused.stderr.count("--parts N is required") == 1
    (folder / "out").mkdir()
    there = run(2, graph, "--parts", 2, "--output", folder / "out")
    assert there.returncode == 1 and "is there already" in there.stderr


def write_small(folder: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """A graph of two triangles, an edge between them and a loop; and parts that are the triangles."""
    source = np.array([0, 1, 2, 0, 3, 4, 5, 3, 2, 5])
    target = np.array([1, 2, 0, 2, 4, 5, 3, 5, 3, 5])
    graph = write_graph(folder / "graph", source, target, 6, " ")
    np.save(graph / "mask.npy", np.arange(6) % 2 == 0)
    np.save(graph / "other.npy", np.arange(6) % 3 == 0)
    meta = json.loads((graph / "metadata.json").read_text(encoding="utf-8"))
    meta["node_data"]["_N"]["other"] = {"format": {"name": "numpy"}, "data": ["other.npy"]}
    (graph / "metadata.json").write_text(json.dumps(meta), encoding="utf-8")
    given = folder / "given"
    given.mkdir()
    (given / "_N.txt").write_text("0\n0\n0\n1\n1\n1\n", encoding="utf-8")
    (given / "partition_meta.json").write_text('{"num_parts": 2, "algo_name": "metis"}', encoding="utf-8")
    return graph, given


def test_what_is_printed_is_the_partition(folder: pathlib.Path) -> None:
    graph, given = write_small(folder)
    took = run(2, graph, "--assignment", given, "--output", folder / "a", "--balance-edges",
               "--balance-ntypes", "mask", "--name", "g_h", "--hops", 2)
    assert took.returncode == 0
    bytes_of = [
        sum(len(content) for content in files_of(folder / "a" / part).values())
        for part in ("part0", "part1")
    ]
    assert took.stdout == f"""\
6 nodes, 10 edges, 2 parts: 1 edges cut (10.00 %), volume 2
  part          nodes     halo nodes       in-edges   cut of these          bytes
     0              3              1              4              0 {bytes_of[0]:14}
     1              3              3              6              1 {bytes_of[1]:14}
balance of nodes of class 0 of "_N": largest part 1.333 of the mean, asked 1.030: met
balance of nodes of class 1 of "_N": largest part 1.333 of the mean, asked 1.030: met
balance of in-edges of nodes of class 0 of "_N": largest part 1.667 of the mean, asked 1.030: not met
balance of in-edges of nodes of class 1 of "_N": largest part 1.500 of the mean, asked 1.030: not met
"""
    said = took.stderr.splitlines()
    assert said[:-1] == ["reading", "numbering", "writing part 0 of 2", "publishing"]
    assert re.fullmatch("peak memory of each rank in KiB: [1-9][0-9]{3,} [1-9][0-9]{3,}", said[-1])
    assert sorted(files_of(folder / "a")) == ["g_h.json"] + [
        f"part{part}/{name}.dgl" for part in (0, 1) for name in ("edge_feat", "graph", "node_feat")
    ] + ["report.json"]
    assert json.loads((folder / "a/g_h.json").read_text())["halo_hops"] == 2

    quiet = run(1, graph, "--assignment", given, "--output", folder / "b", "--json", "--quiet",
                "--balance-ntypes", "_N:mask,other", "--halo", "in-edges", "--imbalance", 1.5,
                "--format", "npy", "--format", "safetensors", "--graph-formats", "csr", "--mapping",
                "--orig-ids", "--write-assignment")
    assert (quiet.returncode, quiet.stderr) == (0, "")
    assert quiet.stdout == (folder / "b/report.json").read_text(encoding="utf-8")
    report = json.loads(quiet.stdout)
    assert [balance["name"] for balance in report["balance"]] == [
        'nodes of class 0 of "_N"', 'nodes of class 1 of "_N"', 'nodes of class 2 of "_N"',
        'nodes in "mask" and "other" of "_N"']
    assert {balance["asked"] for balance in report["balance"]} == {1.5}
    # Of in-edges alone: the edge that is cut is where it ends.
    assert [part["halo_edges"] for part in report["parts"]] == [0, 0]
    names = set(files_of(folder / "b"))
    assert {"graph.json", "mapping/nodes/_N.npy", "assignment/_N.txt", "part1/orig_nids.dgl",
            "part1/graph.safetensors", "part1/graph/csr/offsets.npy"} <= names
    assert not {"part1/graph/sources.npy", "part1/graph/csc/offsets.npy"} & names
    assert (folder / "b/assignment/_N.txt").read_bytes() == (given / "_N.txt").read_bytes()


def test_the_engine_keeps_cliques_whole_and_repeats(folder: pathlib.Path) -> None:
    """A ring of eight cliques of six nodes, in four parts."""
    pairs = [
        (6 * clique + a, 6 * clique + b) for clique in range(8) for a in range(6) for b in range(a)
    ] + [(6 * clique, (6 * clique + 7) % 48) for clique in range(8)]
    source, target = np.array(pairs).T
    graph = write_graph(folder / "graph", source, target, 48, ",")
    options = ("--parts", 4, "--json", "--quiet", "--write-assignment", "--seed", 3)
    first = json.loads(succeed(3, graph, *options, "--output", folder / "a"))
    assert first["method"] == "pt-scotch" and first["reason"] == "asked for"
    assert first["cut_edges"] <= 8 and sorted(first["nodes_of_part"]) == [12, 12, 12, 12]
    # Also in messages so short that everything needs several.
    succeed(3, graph, *options, "--message-bytes", 64, "--output", folder / "b")
    assert files_of(folder / "a") == files_of(folder / "b")
    trainers = json.loads(succeed(2, graph, *options, "--trainers", 2, "--output", folder / "c"))
    assert sorted(trainers["nodes_of_part"]) == [12, 12, 12, 12]


def test_words_that_are_none_are_said_once(folder: pathlib.Path) -> None:
    graph, given = write_small(folder)
    told = run(2, "--help")
    assert told.returncode == 0 and told.stdout.count("--message-bytes") == 1
    for words, said in (
        (("--halo", "none"), "--halo"),
        (("--parts", 0), "--parts"),
        (("--message-bytes", 63), "--message-bytes"),
        (("--hops", 17), "--hops"),
    ):
        wrong = run(2, graph, "--output", folder / "out", *words)
        assert (wrong.returncode, wrong.stderr.count(said)) == (2, 1), wrong.stderr
    meta = json.loads((graph / "metadata.json").read_text(encoding="utf-8"))
    meta["node_type"].append("other")
    meta["num_nodes_per_type"].append(1)
    (graph / "metadata.json").write_text(json.dumps(meta), encoding="utf-8")
    for words, status, said in (
        (("--balance-ntypes", "mask"), 2,
         "INVALID_ARGUMENT: --balance-ntypes mask: the graph has several node types: give TYPE:mask"),
        (("--balance-ntypes", "_N:none"), 1,
         "NOT_FOUND: node set '_N' has no column 'none'"),
        (("--name", "g1"), 1,
         "INVALID_ARGUMENT: the name 'g1' must be 1 to 128 letters and underscores"),
        (("--assignment", given), 1, f"NOT_FOUND: {given}/other.txt: No such file or directory"),
    ):
        wrong = run(1, graph, "--parts", 2, "--quiet", "--output", folder / "out", *words)
        assert (wrong.returncode, wrong.stdout) == (status, "")
        assert wrong.stderr.splitlines()[0] == f"packhouse-partition: {said}"
    assert not (folder / "out").exists()


def ranks_of(process: subprocess.Popen[Any]) -> list[int]:
    """The process numbers of the ranks of an mpirun."""
    found = []
    for status in pathlib.Path("/proc").glob("[0-9]*/status"):
        try:
            text = status.read_text(encoding="utf-8")
        except OSError:  # It has ended.
            continue
        if f"\nPPid:\t{process.pid}\n" in text and "Name:\tpackhouse-part" in text:
            found.append(int(status.parent.name))
    return found


def kill_a_rank_once(command: Sequence[str], ready: Any, log: pathlib.Path) -> int | None:
    """Runs the command, kills one rank (-9) once it is ready; the exit status, None if it had ended
    before."""
    with log.open("w", encoding="utf-8") as stderr, subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=stderr
    ) as process:
        while process.poll() is None:
            ranks = ranks_of(process) if ready() else []
            if ranks:
                os.kill(ranks[-1], signal.SIGKILL)
                return process.wait(timeout=60)
            os.sched_yield()
    return None


def test_a_killed_rank_ends_all_and_the_run_goes_on(folder: pathlib.Path) -> None:
    rng = np.random.default_rng(0)
    nodes, edges = 20_000, 200_000
    source = rng.integers(0, nodes, edges)
    target = (source + rng.integers(0, 50, edges)) % nodes
    graph = write_graph(folder / "graph", source, target, nodes, " ")
    options = (graph, "--parts", 24, "--output")
    succeed(2, *options, folder / "whole")

    partial = folder / "out.partial"
    log = folder / "log"
    command = mpirun(2, *options, folder / "out")
    # While it assigns, and while it writes parts.
    first = kill_a_rank_once(command, lambda: (partial / "plan.json").exists(), log)
    assert first not in (None, 0)
    assert "signal 9" in log.read_text(encoding="utf-8")
    assert not (folder / "out").exists() and not (partial / "graph.json").exists()
    second = kill_a_rank_once(command, lambda: len(list(partial.glob("part*.json"))) >= 6, log)
    assert second not in (None, 0)
    assert not (folder / "out").exists() and not (partial / "graph.json").exists()
    kept = {
        path.stem: (partial / path.stem / "graph.dgl").stat().st_ino
        for path in partial.glob("part*.json")
    }
    assert len(kept) >= 6
    result = run(2, *options, folder / "out")
    assert result.returncode == 0, result.stderr
    assert "assigning" not in result.stderr
    assert files_of(folder / "out") == files_of(folder / "whole")
    assert not partial.exists()
    for part, inode in kept.items():
        assert (folder / "out" / part / "graph.dgl").stat().st_ino == inode, part

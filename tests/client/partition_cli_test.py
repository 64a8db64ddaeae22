"""`packhouse partition` and its subcommands, run as a user runs them.

Where PACKHOUSE_SHARED_DATA names a folder with the golden partitions of DGL (partition/), its checker of
laws and its numpy reference are used too; what needs them is skipped otherwise.
"""

from __future__ import annotations

import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import warm_command
from small_graphs import SmallGraph, check_parts

CLI = os.environ.get("PACKHOUSE_CLI", "")
GOLDEN = pathlib.Path(os.environ.get("PACKHOUSE_SHARED_DATA") or "/nonexistent") / "partition"
HAS_GOLDEN = (GOLDEN / "laws.py").exists()
if not CLI:
    pytest.skip("no program", allow_module_level=True)
if HAS_GOLDEN:
    sys.path.insert(0, str(GOLDEN))
    import dglfile  # type: ignore[import]
    import laws  # type: ignore[import]
    import reference_partition  # type: ignore[import]

needs_golden = pytest.mark.skipif(not HAS_GOLDEN, reason=f"no golden partitions in {GOLDEN}")
CASES = sorted(path.stem for path in (GOLDEN / "golden").glob("*.npz"))


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return warm_command.run("partition", *arguments)


def succeed(*arguments: object) -> str:
    result = run(*arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout


def write_chunked(graph: Any, folder: pathlib.Path) -> pathlib.Path:
    """The graph in the chunked layout, in one chunk."""
    folder.mkdir()
    meta: dict[str, Any] = {
        "graph_name": "g",
        "node_type": graph.ntypes,
        "edge_type": graph.etypes,
        "num_nodes_per_type": [int(n) for n in graph.count],
        "num_edges_per_type": [int(n) for n in graph.ecount],
        "edges": {},
        "node_data": {},
        "edge_data": {},
    }

    def save(array: Any) -> dict[str, Any]:
        name = f"{len(list(folder.iterdir()))}.npy"
        np.save(folder / name, array)
        return {"format": {"name": "numpy"}, "data": [name]}

    for t, name in enumerate(graph.etypes):
        source, _, target = name.split(":")
        begin, end = graph.estart[t], graph.estart[t + 1]
        offsets = [graph.nstart[graph.ntypes.index(end_type)] for end_type in (source, target)]
        pairs = np.stack([graph.src[begin:end], graph.dst[begin:end]], 1) - offsets
        meta["edges"][name] = save(pairs)
    for key, feats in (("node_data", graph.nfeat), ("edge_data", graph.efeat)):
        for name, values in feats.items():
            kind, feature = name.split("/")
            meta[key].setdefault(kind, {})[feature] = save(values)
    (folder / "metadata.json").write_text(json.dumps(meta), encoding="utf-8")
    return folder


def write_parts(graph: Any, part: Any, k: int, folder: pathlib.Path) -> pathlib.Path:
    folder.mkdir()
    for t, name in enumerate(graph.ntypes):
        np.savetxt(folder / f"{name}.txt", part[graph.nstart[t]:graph.nstart[t + 1]], fmt="%d")
    meta = {"version": "1.0.0", "num_parts": k, "algo_name": "metis"}
    (folder / "partition_meta.json").write_text(json.dumps(meta), encoding="utf-8")
    return folder


def files_of(folder: pathlib.Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("case", CASES)
def test_golden_parts_give_the_files_of_the_reference(case: str, tmp_path: pathlib.Path) -> None:
    graph = laws.Graph(case.split("_")[0])
    part, k, hops = reference_partition.parts_of(case, graph)
    chunked = write_chunked(graph, tmp_path / "chunked")
    parts = write_parts(graph, part, k, tmp_path / "parts")
    out = tmp_path / "out"
    said = succeed(chunked, "--assignment", parts, "--hops", hops, "--name", "g", "--output", out)
    assert "cut" in said and "#" in said
    laws.check(case, *laws.from_files(str(out / "g.json")), graph)
    if k == 1:  # The reference has no halo there, but sorts edges by their ends.
        return
    reference_partition.write("g", str(tmp_path / "want"), graph, part, k, hops)
    meta, arrays = laws.from_files(str(out / "g.json"))
    want_meta, want = laws.from_files(str(tmp_path / "want" / "g.json"))
    assert meta == want_meta
    assert arrays.keys() == want.keys()
    for name, values in want.items():
        assert arrays[name].dtype == values.dtype, name
        np.testing.assert_array_equal(arrays[name], values, err_msg=name)


@pytest.mark.parametrize("kind", ["homo", "hetero"])
@pytest.mark.parametrize("method", ["metis", "random", "streaming"])
def test_laws_hold_of_own_parts_and_runs_are_equal(
    kind: str, method: str, tmp_path: pathlib.Path
) -> None:
    graph = SmallGraph(kind)
    chunked = write_chunked(graph, tmp_path / "chunked")
    options = ("--method", method, "--parts", 3, "--hops", 2, "--balance-edges", "--mapping", "--format", "npy")
    for name in ("a", "b"):
        succeed(chunked, *options, "--name", "g", "--output", tmp_path / name)
    check_parts(tmp_path / "a", "g", graph, hops=2)
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")


@needs_golden
@pytest.mark.parametrize("kind", ["homo", "hetero"])
@pytest.mark.parametrize("method", ["metis", "random", "streaming"])
def test_laws_hold_of_the_files_that_dgl_reads(kind: str, method: str, tmp_path: pathlib.Path) -> None:
    graph = laws.Graph(kind)
    chunked = write_chunked(graph, tmp_path / "chunked")
    succeed(chunked, "--method", method, "--parts", 3, "--hops", 2, "--balance-edges", "--mapping",
            "--name", "g", "--output", tmp_path / "a")
    laws.check(kind, *laws.from_files(str(tmp_path / "a" / "g.json")), graph)


@needs_golden
def test_parmetis_is_converted_whole(tmp_path: pathlib.Path) -> None:
    folder = GOLDEN / "parmetis"
    succeed(
        "convert", "--schema", folder / "mini.json", "--input-dir", folder, "--graph-name", "mini",
        "--num-parts", 2, "--num-node-weights", 3, "--output", tmp_path / "out",
    )
    graph = laws.Graph("hetero")
    graph.nfeat, graph.efeat = {}, {}
    meta, arrays = laws.from_files(str(tmp_path / "out" / "mini.json"))
    assert meta["num_edges"] == 1321
    laws.check("mini", meta, arrays, graph)


def test_exported_text_files_are_cut_and_converted(tmp_path: pathlib.Path) -> None:
    graph = SmallGraph("hetero")
    chunked, texts = write_chunked(graph, tmp_path / "chunked"), tmp_path / "texts"
    succeed("export", chunked, "--format", "parmetis", "--name", "mini", "--output", texts)
    removed = len((texts / "mini_removed_edges.txt").read_text().splitlines())
    assert removed > 0
    cut = ("dglpart", "--input-dir", texts, "--graph-name", "mini", "--parts", 3)
    for name in ("a", "b"):
        said = succeed(*cut, "--output", tmp_path / name)
        assert re.fullmatch(rf"{tmp_path}/{name}: 3 parts by metis \(.+\), \d+ edges are cut\n", said)
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")
    stats = [(tmp_path / f"a/p00{p}-mini_stats.txt").read_text().split() for p in range(3)]
    sums = [sum(int(line[i]) for line in stats) for i in (0, 1)]
    assert sums == [graph.nstart[-1], graph.estart[-1] - removed]
    said = succeed(
        "convert", "--schema", texts / "mini.json", "--input-dir", tmp_path / "a", "--graph-name", "mini",
        "--num-parts", 3, "--num-node-weights", 3, "--removed-edges", texts / "mini_removed_edges.txt",
        "--output", tmp_path / "out",
    )
    assert said == f"{tmp_path}/out: 93 nodes and 410 edges in 3 parts\n"
    # Nothing is lost on the way: of each type all, in ranges that tile the new ids.
    meta = json.loads((tmp_path / "out" / "mini.json").read_text(encoding="utf-8"))
    for key, counts in (("node_map", graph.count), ("edge_map", graph.ecount)):
        of_types = list(meta[key].values())
        assert [sum(end - begin for begin, end in of) for of in of_types] == counts.tolist()
        ends = [each for part in zip(*of_types) for each in part]
        assert ends[0][0] == 0 and all(one[1] == next_[0] for one, next_ in zip(ends, ends[1:]))

    refused = run(*cut, "--output", tmp_path / "a")
    assert refused.returncode == 1 and "is there already" in refused.stderr
    for what, line, words in (
        ("stats", "2 1 1\n", "g_nodes.txt: has 1 nodes"),
        ("nodes", "0 2 0\n", "g_nodes.txt: line 1: a weight is above 1"),
        ("edges", "0 9 0 0\n", "g_edges.txt: line 1: joins 0 and 9"),
    ):
        text = {"stats": "1 1 1\n", "nodes": "0 1 0\n", "edges": "0 0 0 0\n", what: line}
        for name, lines in text.items():
            (tmp_path / f"g_{name}.txt").write_text(lines, encoding="utf-8")
        refused = run("dglpart", "--input-dir", tmp_path, "--graph-name", "g", "--parts", 2,
                      "--output", tmp_path / "none")
        assert refused.returncode == 1 and words in refused.stderr, refused.stderr


@needs_golden
def test_text_files_are_cut_and_converted(tmp_path: pathlib.Path) -> None:
    folder = GOLDEN / "parmetis"
    cut = ("dglpart", "--input-dir", folder, "--graph-name", "mini", "--parts", 3)
    for name in ("a", "b"):
        assert "3 parts by metis" in succeed(*cut, "--output", tmp_path / name)
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")
    stats = [(tmp_path / f"a/p00{p}-mini_stats.txt").read_text().split() for p in range(3)]
    whole = (folder / "mini_stats.txt").read_text(encoding="utf-8").split()
    assert [str(sum(int(line[i]) for line in stats)) for i in (0, 1)] == whole[:2]
    assert len((tmp_path / "a/mini_part.3").read_text().splitlines()) == int(whole[0])
    succeed(
        "convert", "--schema", folder / "mini.json", "--input-dir", tmp_path / "a",
        "--graph-name", "mini", "--num-parts", 3, "--num-node-weights", 3,
        "--removed-edges", folder / "mini_removed_edges.txt", "--output", tmp_path / "out",
    )
    graph = laws.Graph("hetero")
    graph.nfeat, graph.efeat = {}, {}
    meta, arrays = laws.from_files(str(tmp_path / "out" / "mini.json"))
    assert meta["num_edges"] == 1321
    laws.check("mini", meta, arrays, graph)


@needs_golden
def test_exports_are_those_of_the_pipeline(tmp_path: pathlib.Path) -> None:
    chunked = write_chunked(laws.Graph("hetero"), tmp_path / "chunked")
    succeed("export", chunked, "--format", "parmetis", "--name", "mini", "--output", tmp_path / "p")
    for name in ("nodes", "edges", "removed_edges", "stats"):
        text = (tmp_path / "p" / f"mini_{name}.txt").read_text(encoding="utf-8")
        want = (GOLDEN / "parmetis" / f"mini_{name}.txt").read_text(encoding="utf-8")
        assert text == want, name


def test_exports_are_what_the_readers_read(tmp_path: pathlib.Path) -> None:
    graph = SmallGraph("hetero")
    chunked = write_chunked(graph, tmp_path / "chunked")
    succeed("export", chunked, "--output", tmp_path / "g.graph")
    succeed(tmp_path / "g.graph", "--parts", 4, "--output", tmp_path / "out")
    meta = json.loads((tmp_path / "out" / "graph.json").read_text(encoding="utf-8"))
    pairs = {(min(e), max(e)) for e in zip(graph.src.tolist(), graph.dst.tolist()) if e[0] != e[1]}
    assert meta["num_edges"] == 2 * len(pairs)


def test_rows_are_restored(tmp_path: pathlib.Path) -> None:
    graph = SmallGraph("hetero")
    chunked = write_chunked(graph, tmp_path / "chunked")
    out = tmp_path / "out"
    succeed(chunked, "--parts", 3, "--name", "g", "--mapping", "--orig-ids", "--output", out)
    # Part after part, the ids of a type are its mapping.
    for of, file in (("nodes", "orig_nids.dgl"), ("edges", "orig_eids.dgl")):
        names = sorted(path.stem for path in (out / "mapping" / of).iterdir())
        assert names == (graph.ntypes if of == "nodes" else graph.etypes)
        assert all((out / f"part{p}" / file).exists() for p in range(3))
        if not HAS_GOLDEN:
            continue
        parts = [dglfile.read_tensors(str(out / f"part{p}" / file)) for p in range(3)]
        assert all(sorted(part) == names for part in parts)
        for name in names:
            np.testing.assert_array_equal(
                np.concatenate([part[name] for part in parts]),
                np.load(out / "mapping" / of / f"{name}.npy"),
            )
    mapping = np.load(out / "mapping" / "nodes" / "user.npy")
    rows = np.stack([mapping * 2, mapping * 3], 1).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    restore = ("--partition", out / "g.json", "--type", "user", "--output")
    said = succeed("restore", tmp_path / "rows.npy", *restore, tmp_path / "restored.npy")
    assert said == f"{tmp_path}/restored.npy: 40 rows\n"
    ids = np.arange(len(mapping))
    want = np.stack([ids * 2, ids * 3], 1).astype(np.float32)
    np.testing.assert_array_equal(np.load(tmp_path / "restored.npy"), want)
    # Those of each part by themselves.
    ends = np.cumsum([end - begin for begin, end in json.loads(
        (out / "g.json").read_text(encoding="utf-8"))["node_map"]["user"]])
    for part, of_part in enumerate(np.split(rows, ends[:-1])):
        np.save(tmp_path / "mine.npy", of_part)
        succeed("restore", tmp_path / "mine.npy", *restore, tmp_path / "parts.npy", "--part", part)
    np.testing.assert_array_equal(np.load(tmp_path / "parts.npy"), want)
    refused = run("restore", tmp_path / "rows.npy", "--partition", out / "g.json", "--type", "tag",
                  "--output", tmp_path / "none.npy")
    assert refused.returncode == 1 and "must have 3 rows" in refused.stderr


def tells_more(terminal: int) -> bool:
    """Waits for output on a terminal; False once its other end is closed."""
    try:
        return bool(os.read(terminal, 4096))
    except OSError:
        return False


def test_a_killed_run_leaves_no_partition_and_goes_on(tmp_path: pathlib.Path) -> None:
    rng = np.random.default_rng(0)
    graph = SmallGraph("homo")
    n, m = 60_000, 600_000
    graph.count, graph.nstart = np.array([n]), np.array([0, n])
    graph.ecount, graph.estart = np.array([m]), np.array([0, m])
    graph.src, graph.dst = rng.integers(0, n, m), rng.integers(0, n, m)
    graph.nfeat, graph.efeat = {}, {}
    chunked = write_chunked(graph, tmp_path / "chunked")
    options = ["--method", "random", "--parts", "24", "--name", "g", "--output"]
    succeed(chunked, *options, tmp_path / "whole")
    out = tmp_path / "out"
    killed = 0
    while not out.exists():
        # On a terminal it tells each hundredth of its work: that is what this waits for.
        terminal, its_end = pty.openpty()
        with subprocess.Popen([CLI, "partition", str(chunked), *options, str(out)],
                              stderr=its_end, stdout=subprocess.DEVNULL) as process:
            os.close(its_end)
            before = len(list(tmp_path.glob("out.partial/part*[0-9]")))
            while tells_more(terminal):
                done = len(list(tmp_path.glob("out.partial/part*[0-9]")))
                if done >= before + 5 and killed < 3:
                    process.send_signal(signal.SIGKILL)
                    killed += 1
                    break
        os.close(terminal)
        if process.returncode != 0:
            assert not out.exists()
            assert not list(tmp_path.glob("out.partial/g.json"))
    assert killed > 0
    assert files_of(out) == files_of(tmp_path / "whole")


def test_misuse_is_named(tmp_path: pathlib.Path) -> None:
    graph = SmallGraph("hetero")
    chunked = write_chunked(graph, tmp_path / "chunked")
    refused = run(chunked, "--parts", 2, "--balance-ntypes", "label", "--output", tmp_path / "out")
    assert refused.returncode == 2 and "several node sets" in refused.stderr
    refused = run(chunked, "--parts", 2, "--balance-ntypes", "user:no", "--output", tmp_path / "out")
    assert refused.returncode == 1 and "no" in refused.stderr
    refused = run(chunked, "--parts", 2, "--name", "a b", "--output", tmp_path / "out")
    assert refused.returncode == 1 and "'a b'" in refused.stderr
    for words, told in ((("--parts", 2), "GRAPH and --output DIR are required"),
                        ((chunked, "--parts", 2), "GRAPH and --output DIR are required"),
                        (("--parts", 2, "--output", tmp_path / "out"), "GRAPH and --output DIR are required"),
                        ((chunked, "--output", tmp_path / "out"), "--parts N is required")):
        refused = run(*words)
        assert refused.returncode == 2 and told in refused.stderr
    # Neither a graph that is none, nor a place that there cannot be.
    (tmp_path / "file").touch()
    for form in ("metis", "parmetis", "chunked"):
        refused = run("export", chunked, "--format", form, "--output", tmp_path / "file" / "x")
        assert refused.returncode == 1 and f"{tmp_path}/file" in refused.stderr
        refused = run("export", tmp_path / "no", "--format", form, "--output", tmp_path / "x")
        assert refused.returncode == 1 and f"{tmp_path}/no" in refused.stderr
    refused = run("orig-ids", tmp_path / "no")
    assert refused.returncode == 1 and f"{tmp_path}/no" in refused.stderr
    little = (chunked, "--parts", 2, "--memory", "1KiB", "--output", tmp_path / "out")
    refused = run(*little, "--method", "metis")
    assert refused.returncode == 1 and "beyond the bound of 1024" in refused.stderr
    for option, value in (("--memory", "much"), ("--time-limit", "0s")):
        refused = run(chunked, "--parts", 2, option, value, "--output", tmp_path / "out")
        assert refused.returncode == 2 and option in refused.stderr
    # An assignment has its own number of parts.
    parts = np.arange(sum(int(n) for n in graph.count)) % 4
    given = write_parts(graph, parts, 4, tmp_path / "parts")
    refused = run(chunked, "--parts", 7, "--assignment", given, "--output", tmp_path / "out")
    assert refused.returncode == 2 and "has 4 parts" in refused.stderr and "--parts 7" in refused.stderr
    assert not (tmp_path / "out").exists()
    for agreeing in ((), ("--parts", 4)):
        succeed(chunked, *agreeing, "--assignment", given, "--output", tmp_path / f"as{len(agreeing)}")
    succeed(*little)
    report = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    assert report["method"] == "streaming"
    assert "beyond the bound of 1024" in report["reason"]

"""The benchmarks in Python, only that they run: their figures are for quiet machines."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    "PACKHOUSE_CLI" not in os.environ or "PACKHOUSED" not in os.environ,
    reason="PACKHOUSE_CLI and PACKHOUSED do not name the programs",
)

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "benchmarks"


def run(
    script: str, *arguments: object, path: pathlib.Path | None = None
) -> subprocess.CompletedProcess[str]:
    paths = [str(path)] if path else []
    return subprocess.run(
        [sys.executable, "-B", FOLDER / script, "--packhoused", os.environ["PACKHOUSED"]]
        + [str(argument) for argument in ("--runs", 1, "--seconds", 0.01, *arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*paths, os.environ["PYTHONPATH"]])},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_frameworks_that_are_missing_are_left_out(tmp_path: pathlib.Path) -> None:
    # Also where they are installed.
    for framework in ("torch", "torch_geometric", "dgl"):
        (tmp_path / f"{framework}.py").write_text(f"raise ImportError('no {framework} here')\n")
    figures = tmp_path / "figures.json"
    table = tmp_path / "table.md"
    done = run(
        "frameworks.py",
        *("--graphs", 600, "--only", "0 workers", "--json", figures, "--markdown", table),
        path=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "PyG, 0 workers: left out: no torch_geometric here" in done.stderr
    assert "torch, 0 workers: left out: no torch here" in done.stderr
    assert "DGL, 0 workers: left out: no dgl here" in done.stderr
    assert "2 workers" not in done.stdout + done.stderr
    (packhouse,) = json.loads(figures.read_text(encoding="utf-8"))["contestants"]
    assert packhouse["contestant"] == "packhouse, Python"
    assert len(packhouse["graphs_per_second"]) == 1
    assert 0 <= packhouse["padded_share"] < 0.5
    assert table.read_text(encoding="utf-8") in done.stdout


def test_every_reader_is_in_table_and_json(tmp_path: pathlib.Path) -> None:
    figures = tmp_path / "figures.json"
    done = run(
        "python_client.py",
        *("--bench", os.environ["PACKHOUSE_BENCH"], "--settings", "--json", figures),
        *("--graphs", 600, "--copies", 2, "--kib", 64),
    )
    assert done.returncode == 0, done.stderr
    readers = json.loads(figures.read_text(encoding="utf-8"))["readers"]
    names = [entry["reader"] for entry in readers]
    # Rows of frameworks are there where these are installed.
    assert names[:2] == ["raw", "loader"] and len(set(names)) == len(names) >= 10
    assert all(name in done.stdout for name in names)
    assert all(entry["gb_per_second"][0] > 0 for entry in readers)


def test_copies_and_steps_are_in_table_and_json(tmp_path: pathlib.Path) -> None:
    torch = pytest.importorskip("torch")
    figures = tmp_path / "figures.json"
    few = ("--graphs", 300, "--batch-graphs", 8, "--json", figures)
    done = run("cuda_feeding.py", *few, "--device", "cpu")
    assert done.returncode == 0, done.stderr
    entries = json.loads(figures.read_text(encoding="utf-8"))["cuda_feeding"]
    assert [entry["unit"] for entry in entries] == ["GB/s"] * 4 + ["steps/s"] * 4
    assert all(entry["rates"][0] > 0 and entry["row"] in done.stdout for entry in entries)
    if not torch.cuda.is_available():
        done = run("cuda_feeding.py", *few)
        assert (done.returncode, done.stdout) == (0, "no CUDA device: nothing is measured\n")


def test_rows_in_memory_are_in_table_and_json(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("torch")
    figures = tmp_path / "figures.json"
    done = run("tensor_loader.py", "--rows", 3000, "--columns", 7, "--json", figures)
    assert done.returncode == 0, done.stderr
    entries = json.loads(figures.read_text(encoding="utf-8"))["tensor_loader"]
    assert len(entries) == 10
    assert all(entry["rows_per_second"][0] > 0 for entry in entries)
    assert all(done.stdout.count(f"| {entry['reader']} |") == 2 for entry in entries)


def test_observing_is_in_table_and_json(tmp_path: pathlib.Path) -> None:
    figures = tmp_path / "figures.json"
    done = run("observe.py", "--graphs", 600, "--tables", 1, "--json", figures)
    assert done.returncode == 0, done.stderr
    entries = json.loads(figures.read_text(encoding="utf-8"))["observe"]
    assert len(entries) == 8
    assert all(entry["tuples_per_second"][0] > 0 for entry in entries)
    assert all(f"| {entry['length']:,} |" in done.stdout for entry in entries)

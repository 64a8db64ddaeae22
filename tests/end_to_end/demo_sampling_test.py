"""The demo of sampling, on a hundredth of OGBN-MAG: every seed reaches the trainer once."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

SEEDS = 400


def run_demo(folder: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    if "PACKHOUSED" not in os.environ or "PACKHOUSE_CLI" not in os.environ:
        pytest.skip("PACKHOUSED and PACKHOUSE_CLI do not name the programs")
    command = [sys.executable, "-B", "-m", "packhouse.demo.sampling", "--scale", "0.01"]
    command += ["--cli", os.environ["PACKHOUSE_CLI"], "--output", str(folder)]
    return subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=400, check=False
    )


def test_every_seed_is_in_one_batch_of_whole_sub_graphs(tmp_path: pathlib.Path) -> None:
    done = run_demo(tmp_path, "--seeds", str(SEEDS), "--estimate", "200", "--trainer", "numpy")
    assert done.returncode == 0, done.stderr
    assert "19,397 nodes" in done.stdout
    assert f"every seed arrived exactly once: {SEEDS} of {SEEDS}" in done.stdout
    # Nothing but the log is left.
    assert [path.name for path in tmp_path.iterdir()] == ["sampling-packhoused.log"]


def test_a_network_trains_on_the_batches(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("torch")
    done = run_demo(
        tmp_path,
        *("--seeds", "60", "--graphs", "8", "--estimate", "100", "--trainer", "torch"),
    )
    assert done.returncode == 0, done.stderr
    assert "every seed arrived exactly once: 60 of 60" in done.stdout
    # A few steps from ln(349 venues) on: whether it learns is for the whole graph to show.
    losses = re.findall(r"loss ([\d.]+) at first, ([\d.]+) now", done.stdout)[-1]
    assert all(4 < float(loss) < 9 for loss in losses)


def test_a_missing_tool_is_named(tmp_path: pathlib.Path) -> None:
    done = run_demo(tmp_path, "--cli", str(tmp_path / "absent"))
    assert done.returncode == 1
    assert "absent" in done.stderr

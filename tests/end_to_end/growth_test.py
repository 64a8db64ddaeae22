"""The benchmark of growth, only that it runs: its figures are for larger numbers."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "benchmarks" / "growth.py"
STEPS = ["observe", "append", "plan", "epoch start", "next epoch", "load"]


@pytest.mark.skipif("PACKHOUSED" not in os.environ, reason="PACKHOUSED does not name a server")
def test_every_step_is_in_table_json_and_picture(tmp_path: pathlib.Path) -> None:
    figures = tmp_path / "growth.json"
    picture = tmp_path / "growth.svg"
    plot = ["--plot", str(picture)] if shutil.which("gnuplot") else []
    done = subprocess.run(
        [sys.executable, "-B", SCRIPT, "--packhoused", os.environ["PACKHOUSED"]]
        + ["--sizes", "1e3,1e4", "--runs", "1", "--json", figures, *plot],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    growths = json.loads(figures.read_text(encoding="utf-8"))
    assert [growth["num_graphs"] for growth in growths] == [1000, 10_000]
    for growth in growths:
        assert list(growth["costs"]) == STEPS
        assert all(cost["cpu_seconds"] > 0 for cost in growth["costs"].values())
        assert growth["stored_bytes"] > 0
    for step in STEPS:
        assert f"| {step}, CPU s |" in done.stdout
        assert not plot or f">{step}<" in picture.read_text(encoding="utf-8")
    assert sorted(tmp_path.iterdir()) == sorted([figures, picture] if plot else [figures])

"""Partitions that several ranks write under mpirun, loaded by DGL in the mode in which it verifies them.

PACKHOUSE_PARTITION names the program; without it, or without mpirun, the tests are skipped.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
from test_dgl_partition import SharedData, check_with_dgl, write_homogeneous

PROGRAM = os.environ.get("PACKHOUSE_PARTITION", "")
pytestmark = pytest.mark.skipif(
    not pathlib.Path(PROGRAM).is_file() or shutil.which("mpirun") is None,
    reason="PACKHOUSE_PARTITION does not name the program, or there is no mpirun",
)


def partition(
    ranks: int, graph: pathlib.Path, out: pathlib.Path, *options: object
) -> pathlib.Path:
    command = ["mpirun", "--oversubscribe", "-np", ranks, PROGRAM, graph, "--name", "g"]
    if os.geteuid() == 0:
        command.insert(1, "--allow-run-as-root")
    words = [str(word) for word in (*command, "--output", out, *options)]
    subprocess.run(words, check=True, timeout=600, capture_output=True)
    return out / "g.json"


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_types(shared_data: SharedData, tmp_path: pathlib.Path, ranks: int) -> None:
    """The chunked graph with three node types, one of them absent from most parts."""
    graph = shared_data("partition/chunked/metadata.json").parent
    path = partition(ranks, graph, tmp_path / "out", "--parts", 8, "--hops", 2)
    script = shared_data("partition/load_with_dgl.py")
    subprocess.run([sys.executable, str(script), str(path)], check=True, timeout=300)


@pytest.mark.parametrize("ranks", [1, 4])
def test_debian(shared_data: SharedData, tmp_path: pathlib.Path, ranks: int) -> None:
    data = np.load(shared_data("partition/bench/debian_depends.npz"))
    source, target = data["src"].astype(np.int64), data["dst"].astype(np.int64)
    graph = write_homogeneous(tmp_path / "graph", source, target, int(data["num_nodes"]))
    path = partition(
        ranks, graph, tmp_path / "out", "--parts", 16, "--balance-ntypes", "mask",
        "--graph-formats", "csc",
    )
    check_with_dgl(path, source, target)

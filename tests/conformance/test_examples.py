"""The training examples of this environment's framework, on a small part of the molecules."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
from typing import Callable

import pytest

EXAMPLES = pathlib.Path(__file__).parents[2] / "client" / "python" / "examples"


def run(program: str, graphs: pathlib.Path, *arguments: str) -> str:
    """Its output. Fails the test with all that it said."""
    if "PACKHOUSED" not in os.environ:
        pytest.skip("PACKHOUSED does not name a server program")
    ran = subprocess.run(
        [sys.executable, "-B", EXAMPLES / program, graphs, "--channels", "8", *arguments],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


if importlib.util.find_spec("torch_geometric"):
    import torch

    def weights(output: str) -> str:
        (number,) = re.findall(r"packhouse: test .* after (\d+ steps, weights \S+)", output)
        return str(number)

    def test_pyg_side_by_side_and_resumed_in_the_middle(
        shared_data: Callable[[str], pathlib.Path], tmp_path: pathlib.Path
    ) -> None:
        """Each graph once an epoch from either feed; what is resumed ends with the same weights."""
        graphs = shared_data("graphs/molhiv.npz")
        small = ("--most", "500", "--epochs", "2")
        whole = run("train_pyg.py", graphs, *small, "--plot", str(tmp_path / "curves.svg"))
        for feed in ("pyg", "packhouse"):
            for epoch in (1, 2):
                assert f"{feed} epoch {epoch}: 500 graphs on rank 0, valid ROC-AUC" in whole
            losses = [float(loss) for loss in re.findall(rf"{feed} epoch .* loss ([\d.]+),", whole)]
            assert 0 < losses[1] < losses[0], whole
        part = (*small, "--feed", "packhouse", "--checkpoint", str(tmp_path / "saved.pt"))
        part += ("--data-dir", str(tmp_path / "data"))
        assert "stopped after 5 steps" in run("train_pyg.py", graphs, *part, "--stop-after", "5")
        assert weights(run("train_pyg.py", graphs, *part, "--resume")) == weights(whole)

    def test_pyg_in_two_processes_padded(shared_data: Callable[[str], pathlib.Path]) -> None:
        arguments = ("--most", "300", "--epochs", "1", "--feed", "packhouse")
        output = run(
            "train_pyg.py", shared_data("graphs/molhiv.npz"), *arguments, "--ranks", "2", "--padded"
        )
        (graphs,) = re.findall(r"packhouse epoch 1: (\d+) graphs on rank 0", output)
        assert 0 < int(graphs) < 300
        (padded,) = re.findall(r"packhouse: ([\d,]+) of [\d,]+ node rows were padding", output)
        assert padded != "0"

    def test_pyg_compiled_learns_what_it_learns_eagerly(
        shared_data: Callable[[str], pathlib.Path],
    ) -> None:
        """And says what a mode needs."""
        graphs = shared_data("graphs/molhiv.npz")
        with pytest.raises(AssertionError, match="--mode compiled needs --feed packhouse --padded"):
            run("train_pyg.py", graphs, "--mode", "compiled")
        with pytest.raises(AssertionError, match="cuda-graphs needs --device cuda"):
            run("train_pyg.py", graphs, "--mode", "cuda-graphs", "--feed", "packhouse", "--padded")
        if not hasattr(torch, "compile"):
            pytest.skip(f"torch {torch.__version__} has no torch.compile: see [compile]")
        words = ("--most", "300", "--epochs", "2", "--feed", "packhouse", "--padded", "--mode")
        scores = []
        for mode in (("eager",), ("compiled", "--backend", "aot_eager")):
            output = run("train_pyg.py", graphs, *words, *mode)
            assert re.search(r"packhouse: [\d.]+ steps/s, [\d,]+ graphs/s; valid", output), output
            scores += [[float(each) for each in re.findall(r"valid ROC-AUC ([\d.]+),", output)]]
        assert len(scores[0]) == 2 and scores[1] == pytest.approx(scores[0], abs=2e-3)

    def test_pyg_clusters_side_by_side() -> None:
        """Both feeds have every node once an epoch, and what is learnt is as good."""
        output = subprocess.run(
            [sys.executable, "-B", EXAMPLES / "train_clusters.py", "--nodes", "3000"]
            + ["--parts", "100", "--epochs", "6"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        accuracy = {}
        for feed in ("packhouse", "pyg"):
            said = r" epoch 6: \d+ batches, 3000 nodes, \d+ edges, test accuracy ([\d.]+)"
            (last,) = re.findall(feed + said, output)
            accuracy[feed] = float(last)
        assert accuracy["packhouse"] > 0.8
        assert abs(accuracy["packhouse"] - accuracy["pyg"]) < 0.05


if importlib.util.find_spec("jraph"):

    def test_jraph_compiles_once(shared_data: Callable[[str], pathlib.Path]) -> None:
        output = run(
            "train_jraph.py", shared_data("graphs/molhiv.npz"), "--most", "400", "--epochs", "1"
        )
        assert "packhouse: compiled 1 times; 400 graphs" in output
        assert "dynamically_batch: compiled 1 times; 400 graphs" in output
        assert re.search(r"powers of two: compiled [2-9] times; 400 graphs", output), output


if importlib.util.find_spec("tensorflow_gnn"):

    def test_tfgnn_is_traced_once(shared_data: Callable[[str], pathlib.Path]) -> None:
        output = run(
            "train_tfgnn.py", shared_data("graphs/molhiv.npz"), "--most", "400", "--epochs", "2"
        )
        for epoch in (1, 2):
            assert re.search(f"epoch {epoch}: 400 graphs, valid .* traced 1 times", output), output

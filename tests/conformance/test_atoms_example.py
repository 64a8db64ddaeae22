"""examples/atoms.py, in short: all atoms each epoch, a loss that falls, one compilation."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest
import torch

EXAMPLE = pathlib.Path(__file__).parents[2] / "client" / "python" / "examples" / "atoms.py"
# Debian's torch 1.13 does not compile.
COMPILES = hasattr(torch, "compile")


@pytest.mark.parametrize("ranks", [1, 2])
def test_energies_and_forces_are_learnt(ranks: int) -> None:
    if "PACKHOUSED" not in os.environ:
        pytest.skip("PACKHOUSED does not name a server program")
    command = [sys.executable, "-B", EXAMPLE, "--structures", "30", "--epochs", "4"]
    command += ["--ranks", str(ranks), "--channels", "16"]
    command += ["--backend", "aot_eager" if COMPILES else "none"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    epochs = re.findall(r"epoch \d: (\d+) atoms, loss ([\d.]+), (\d+) %", ran.stdout)
    assert len(epochs) == 4, ran.stdout
    (atoms,) = {int(atoms) for atoms, _, _ in epochs}
    # Of 15 whole cells and 15 clusters.
    assert 15 * (32 + 8) < atoms < 15 * (32 + 24)
    assert float(epochs[-1][1]) < float(epochs[0][1])
    compiled = re.findall(r"rank \d: compiled (\d+) times", ran.stdout)
    assert compiled == (["1"] * ranks if COMPILES else [])

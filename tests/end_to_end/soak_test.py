"""The short form of the soak (soak.py): the same laws, fewer graphs, workers and kills."""

from __future__ import annotations

import os

import pytest
import soak


@pytest.mark.parametrize("seed", [0, 1])
def test_every_graph_arrives_once_whoever_is_killed(
    seed: int, capfd: pytest.CaptureFixture[str]
) -> None:
    if "PACKHOUSED" not in os.environ:
        pytest.skip("PACKHOUSED does not name a server program")
    options = ["--graphs", "1500", "--workers", "3", "--kills", "10", "--seed", str(seed)]
    assert soak.run(soak.parse(options)) == 0
    assert "graphs lost: 0, duplicated: 0" in capfd.readouterr().out.splitlines()[-1]

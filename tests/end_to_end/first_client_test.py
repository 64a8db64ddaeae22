"""The two first clients of docs/first-client.md do the same job and see the same batches."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
from server_process import ServerProcess

ROOT = pathlib.Path(__file__).parents[2]


def test_first_clients_agree() -> None:
    if "PACKHOUSE_FIRST_CLIENT" not in os.environ:
        pytest.skip("PACKHOUSE_FIRST_CLIENT does not name the C++ example")
    with ServerProcess() as server:
        outputs = [
            subprocess.run(
                [*command, server.address], capture_output=True, text=True, timeout=60, check=True
            ).stdout
            for command in (
                [os.environ["PACKHOUSE_FIRST_CLIENT"]],
                [sys.executable, "-B", str(ROOT / "client/python/examples/first_client.py")],
            )
        ]
    lines = outputs[0].splitlines()
    # 1000 rings of 3 to 42 nodes, mean 22.5, in batches of 511 nodes at the most.
    assert len(lines) >= -(-1000 * 45 // 2 // 511)
    assert outputs[0] == outputs[1]


def test_the_page_shows_them_as_they_are() -> None:
    page = (ROOT / "docs/first-client.md").read_text(encoding="utf-8")
    python = (ROOT / "client/python/examples/first_client.py").read_text(encoding="utf-8")
    assert python.split('"""')[2].strip() in page
    assert "client/cpp/examples/first_client.cc" in page

"""The page's own script: its types, and what it does without a browser."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).parent
WEB = HERE.parent.parent / "service" / "wings" / "page" / "web"


def run(*words: str | pathlib.Path) -> None:
    done = subprocess.run(
        words, env={**os.environ, "NODE_PATH": "/usr/share/nodejs"}, capture_output=True,
        text=True, check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("tsc") is None, reason="node-typescript is not installed")
def test_types() -> None:
    run("tsc", "-p", WEB / "tsconfig.json")


@pytest.mark.skipif(shutil.which("node") is None, reason="nodejs is not installed")
def test_without_a_browser(tmp_path: pathlib.Path) -> None:
    bundle = tmp_path / "script_test.mjs"
    run(
        "esbuild", HERE / "script_test.ts", "--bundle", "--platform=node", "--format=esm",
        "--log-level=warning", f"--outfile={bundle}",
    )
    run("node", "--test", bundle)

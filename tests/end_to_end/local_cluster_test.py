"""`packhouse cluster try`: a cluster on this machine, with a real etcd and S3 server."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import pytest

from replica_process import DATASET, fill

from packhouse import Client, Loader

_COMMAND = (sys.executable, "-m", "packhouse", "cluster", "try")


def _trial(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*_COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
        close_fds=False,
    )


@pytest.fixture(autouse=True)
def programs() -> None:
    if shutil.which("etcd") is None:
        pytest.skip("there is no etcd: Debian's etcd-server")
    if not os.access(os.environ.get("PACKHOUSE_S3_SERVER", ""), os.X_OK):
        pytest.skip("there is no S3 server: tests/objects/install_s3_server.sh could not build it")


def _running(folder: pathlib.Path) -> list[str]:
    """Command lines that name the folder."""
    lines = []
    for process in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = process.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(folder) in words:
            lines.append(words)
    return lines


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_all_that_is_started_serves_and_ends_with_the_command(
    tmp_path: pathlib.Path, end: signal.Signals
) -> None:
    with _trial(environment={"TMPDIR": str(tmp_path)}) as trial:
        assert trial.stdout is not None
        lines = []
        for line in trial.stdout:
            lines.append(line)
            if line.startswith("Ctrl-C"):
                break
        text = "".join(lines)
        addresses = re.findall(r"^packhoused  (\S+),", text, re.MULTILINE)
        assert len(addresses) == 2, text
        with Client(addresses[0]) as client:
            fill(client, 40)
        with Loader(
            ",".join(addresses), dataset=DATASET, job="try", rank=0, num_ranks=1,
            limits={"nodes": 64, "edges": 64},
        ) as loader:
            given = sorted(int(each) for batch in loader for each in batch.graph_ids)
        assert given == list(range(40))
        assert _running(tmp_path)
        trial.send_signal(end)
        _, errors = trial.communicate()
    assert (trial.returncode, errors) == (0, "")
    assert _running(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_what_was_stored_in_a_folder_is_there_again(tmp_path: pathlib.Path) -> None:
    for start in range(2):
        with _trial("--servers=1", f"--folder={tmp_path / 'kept'}") as trial:
            assert trial.stdout is not None
            address = ""
            for line in trial.stdout:
                if line.startswith("packhoused"):
                    address = line.split()[1].rstrip(",")
                if line.startswith("Ctrl-C"):
                    break
            with Client(address) as client:
                if start == 0:
                    fill(client, 10)
                assert client.datasets.get(DATASET).num_graphs == 10
            trial.send_signal(signal.SIGINT)
            trial.communicate()
        assert trial.returncode == 0


@pytest.mark.parametrize(
    ("variable", "origin"),
    [
        ("PACKHOUSE_ETCD", "etcd-server"),
        ("PACKHOUSE_S3_SERVER", "versitygw"),
        ("PACKHOUSED", "packhouse[server]"),
    ],
)
def test_a_missing_program_is_named(variable: str, origin: str) -> None:
    before = set(os.listdir(tempfile.gettempdir()))
    with _trial(environment={variable: "no-such-program"}) as trial:
        output, errors = trial.communicate()
    assert trial.returncode == 1
    assert output == ""
    assert "no program 'no-such-program'" in errors and origin in errors and variable in errors
    left = {each for each in os.listdir(tempfile.gettempdir()) if "packhouse-cluster-" in each}
    assert left <= before


def test_a_program_that_ends_ends_the_command(tmp_path: pathlib.Path) -> None:
    broken = tmp_path / "etcd"
    broken.write_text("#!/bin/sh\necho 'no disk'\nexit 3\n", encoding="ascii")
    broken.chmod(0o755)
    with _trial(environment={"PACKHOUSE_ETCD": str(broken)}) as trial:
        _, errors = trial.communicate()
    assert trial.returncode == 1
    assert "does not start" in errors and "no disk" in errors

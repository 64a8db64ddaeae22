"""The command line as a process: its own server, signals, closed files."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys

import pytest

COMMAND = [sys.executable, "-m", "packhouse"]
# Takes minutes, if it is left alone.
LONG = ["tune", "--max", "nodes=5000", "--max", "edges=9000", "--shapes", "8"]
LONG += ["--budget-steps", "90000000000"]


@pytest.fixture(name="sizes")
def sizes_fixture(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "sizes.csv"
    rows = [f"{n},{n * k % 97 + n}" for n in range(1, 200) for k in range(1, 12)]
    path.write_text("\n".join(["num_nodes,num_edges", *rows]) + "\n")
    return path


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_own_server_too(
    number: signal.Signals, sizes: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    if "PACKHOUSED" not in os.environ:
        pytest.skip("PACKHOUSED does not name a server program")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    with subprocess.Popen(
        [*COMMAND, *LONG, "--sizes", str(sizes)],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while process.poll() is None and not list(temporary.glob("*/socket")):
            pass
        process.send_signal(number)
        _, errors = process.communicate()
    # As if nothing had caught it: shells see that.
    assert (process.returncode, errors) == (-number, "")
    assert not list(temporary.iterdir())


# A server that never gets ready, and makes files beside its socket as long as it lives.
_NEVER_READY = """#!/bin/sh
while [ "$1" != --listen ]; do shift; done
folder=$(dirname "${2#unix:}")
i=0
while :; do
  : > "$folder/$i" || exit
  i=$((i + 1))
done
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_server_that_is_not_ready_yet(
    number: signal.Signals, sizes: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    server = tmp_path / "packhoused"
    server.write_text(_NEVER_READY)
    server.chmod(0o755)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    with subprocess.Popen(
        [*COMMAND, *LONG, "--sizes", str(sizes)],
        env={**os.environ, "TMPDIR": str(temporary), "PACKHOUSED": str(server)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while process.poll() is None and not list(temporary.glob("*/100")):
            pass
        process.send_signal(number)
        _, errors = process.communicate()
    assert (process.returncode, errors) == (-number, "")
    assert not list(temporary.iterdir())


_STUBBORN = """
import contextlib, sys, threading
from packhouse.command import failures, program

def waits():
    print(flush=True)
    while True:
        threading.Event().wait(0.1)

def locked():
    lock = threading.Lock()
    try:
        with lock:
            waits()
    finally:
        with lock, lock:
            pass

def deaf():
    try:
        waits()
    except KeyboardInterrupt:
        waits()

def renamed():
    try:
        waits()
    except KeyboardInterrupt:
        raise RuntimeError("cannot release un-acquired lock") from None

def run(arguments):
    with failures.signals_raised() if sys.argv[2] == "owning" else contextlib.nullcontext():
        globals()[sys.argv[1]]()

failures.SECONDS_TO_END = 0.1
program._parsed_and_run = run
sys.exit(program.main())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("how", ["locked", "deaf", "renamed"])
@pytest.mark.parametrize("what", ["owning", "free"])
def test_a_signal_ends_it_whatever_a_library_makes_of_the_exception(
    number: signal.Signals, how: str, what: str
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _STUBBORN, how, what],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(number)
        _, errors = process.communicate()
    assert (process.returncode, errors) == (-number, "")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_files_are_not_those_that_are_written(
    closed: str, sizes: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """The next file that is opened would have their numbers."""
    written = tmp_path / "written.csv"
    words = [*COMMAND, "histogram", "--sizes", str(sizes), "--csv", str(written)]
    done = subprocess.run(
        ["/bin/sh", "-c", f'"$@" {closed}', "sh", *words], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = written.read_text().splitlines()
    assert lines[0] == "num_nodes,num_edges,count"
    assert sum(int(line.rpartition(",")[2]) for line in lines[1:]) == 199 * 11


def test_completion_offers_commands_and_options() -> None:
    def offered(words: str) -> list[str]:
        number = len(words.split(" ")) - 1
        variables = {
            "_PACKHOUSE_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(number)
        }  # fmt: skip
        done = subprocess.run(
            COMMAND, env={**os.environ, **variables}, capture_output=True, text=True, check=False
        )
        return [line.partition(",")[2] for line in done.stdout.splitlines()]

    assert offered("packhouse p") == ["plan", "pack", "partition"]
    assert "--limit" in offered("packhouse plan --")
    assert offered("packhouse plan --compare ") == ["quick", "all", "none"]

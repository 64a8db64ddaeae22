"""What importing the package does to its process, and what it leaves alone."""

from __future__ import annotations

import os
import subprocess
import sys

import grpc
import pytest

_KNOWS_READ_CHUNKS = grpc.__version__.startswith(("1.51.", "1.52."))


def experiments_after(program: str, **environment: str) -> str:
    """GRPC_EXPERIMENTS after a program in a process of its own; what it says fails the test."""
    inherited = {name: text for name, text in os.environ.items() if name != "GRPC_EXPERIMENTS"}
    ran = subprocess.run(
        [sys.executable, "-c", f"{program}\nprint(os.environ.get('GRPC_EXPERIMENTS'))"],
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    # Python 3.9 forks, and newer versions of gRPC then say this of this process's open connections,
    # before the program begins.
    said = [line for line in ran.stderr.splitlines() if "FD from fork parent" not in line]
    assert said == []
    return ran.stdout.strip()


@pytest.mark.parametrize(
    "imports",
    ["import packhouse.calls.channel", "import packhouse.epochs.loader", "from packhouse import Client"],
)
def test_what_makes_channels_has_grpc_read_whole_messages(imports: str) -> None:
    expected = "-tcp_read_chunks" if _KNOWS_READ_CHUNKS else "None"
    program = f"{imports}; import grpc, os; grpc.insecure_channel('localhost:1').close()"
    assert experiments_after(program) == expected


def test_the_variable_is_left_alone_if_it_is_set() -> None:
    assert experiments_after("import os, packhouse.calls.channel", GRPC_EXPERIMENTS="") == ""


def test_forks_share_nothing_to_poll() -> None:
    program = "import os, {}; print(os.environ['GRPC_POLL_STRATEGY'])"
    assert experiments_after(program.format("packhouse")).splitlines()[0] == "poll"
    mine = {"GRPC_POLL_STRATEGY": "epoll1"}
    assert experiments_after(program.format("packhouse"), **mine).splitlines()[0] == "epoll1"


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/self/fd is Linux's")
def test_grpc_heeds_it_in_every_version() -> None:
    """Newer ones look at it when they are imported."""
    program = """
import os, packhouse, grpc
channel = grpc.insecure_channel("localhost:1")
try:
    channel.unary_unary("/any")(b"", timeout=5)
except grpc.RpcError:
    pass
links = []
for number in os.listdir("/proc/self/fd"):
    try:
        links.append(os.readlink(f"/proc/self/fd/{number}"))
    except FileNotFoundError:
        pass
assert not any("eventpoll" in link for link in links), links
"""
    environment = {name: word for name, word in os.environ.items() if name != "GRPC_POLL_STRATEGY"}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


@pytest.mark.skipif(sys.platform != "linux", reason="mallopt is glibc's")
def test_memory_that_was_freed_is_not_given_back_once_that_was_asked_for() -> None:
    program = """
import os, resource, packhouse
assert packhouse.tune_process_for_batches()

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def work():
    # Together more than glibc keeps by itself; zeros would have no pages.
    return len([b"x" * (20 << 20) for _ in range(5)])

work()  # Has its pages from now on.
before = faults()
for _ in range(3):
    work()
assert faults() - before < 3 * 5 * 20 * 256 / 2
"""
    experiments_after(program)

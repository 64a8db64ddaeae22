"""What a process has of lanes, by what the system says; and what long tests of kills tell."""

from __future__ import annotations

import contextlib
import os
from typing import Any


def lane_descriptors(pid: int | str) -> int:
    """How many memories and connections of lanes it has open; a server's socket that listens counts,
    too.
    """
    with open("/proc/net/unix", encoding="utf-8") as sockets:
        fields = [line.split() for line in sockets][1:]
    # Of type SOCK_SEQPACKET.
    lanes = {f"socket:[{each[6]}]" for each in fields if each[4] == "0005"}
    count = 0
    for number in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            name = os.readlink(f"/proc/{pid}/fd/{number}")
            count += "memfd:" in name or name in lanes
    return count


def has_left_all(pid: int) -> bool:
    """Whether no lane is left of a server but its socket."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        return "memfd:" not in maps.read() and lane_descriptors(pid) == 1


def tell(capsys: Any, what: str) -> None:
    """Prints it, if all cases are tried."""
    if os.environ.get("PACKHOUSE_ALL_CASES"):
        with capsys.disabled():
            print(f"\n{what}")

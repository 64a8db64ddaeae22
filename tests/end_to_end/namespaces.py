"""Machines of a network of their own, on this one: network namespaces with a switch between them.

    with network() as net:            # this process is in it from now on, at net.host
        machine = net.machine()       # another one, at machine.host
        machine.command(program)      # a program that starts `program` there
        with machine.cut(): ...       # nothing reaches it, and nothing leaves it
        with machine.cut_from([other]): ...

Needs root and Debian's iproute2; why_no_network() says so.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import shutil
import subprocess
import sys
from typing import Final, Iterable, Iterator

_CLONE_NEWNS: Final = 0x00020000
_CLONE_NEWNET: Final = 0x40000000
# A card that nobody has.
_NOBODY: Final = "02:00:00:00:00:01"


def why_no_network() -> str:
    """Why there can be none here; empty if there can be one."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "there is no ip: Debian's iproute2"
    tried = subprocess.run(
        ["unshare", "--net", "--mount", "ip", "link", "add", "type", "bridge"],
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if tried.returncode == 0 else f"no network namespaces: {tried.stderr.strip()}"


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


class Machine:
    """A namespace at the switch."""

    def __init__(self, name: str, host: str, folder: pathlib.Path) -> None:
        self.name = name
        self.host = host
        self._folder = folder
        self._port = f"to-{name}"
        _ip("netns", "add", name)
        _ip("link", "add", self._port, "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("link", "set", self._port, "master", "switch", "up")
        _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", name, "address", "add", f"{host}/16", "dev", "eth0")
        _ip("-n", name, "link", "set", "eth0", "up")

    def command(self, program: str) -> str:
        """A program that is `program`, there."""
        script = self._folder / f"{self.name}-{os.path.basename(program)}"
        script.write_text(
            f'#!/bin/sh\nexec ip netns exec {self.name} "{program}" "$@"\n', encoding="ascii"
        )
        script.chmod(0o755)
        return str(script)

    def cut(self, is_cut: bool = True) -> None:
        """Pulls the cable, or plugs it in."""
        _ip("link", "set", self._port, "down" if is_cut else "up")

    def cut_from(self, others: Iterable[Machine], is_cut: bool = True) -> None:
        """Lets what is for the others vanish on its way, or no longer."""
        for other in others:
            words = ("neigh", "replace" if is_cut else "del", other.host, "dev", "eth0")
            _ip("-n", self.name, *words, *(("lladdr", _NOBODY, "nud", "permanent") if is_cut else ()))


class Network:
    """The switch, and who is at it."""

    host = "10.19.0.1"

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self._count = 0

    def machine(self) -> Machine:
        """One more."""
        self._count += 1
        return Machine(f"m{self._count}", f"10.19.1.{self._count}", self._folder)


@contextlib.contextmanager
def network(folder: pathlib.Path) -> Iterator[Network]:
    """This process, which has one thread and no connection yet, is in it for good."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS | _CLONE_NEWNET) != 0:
        sys.exit(f"no namespaces: {os.strerror(ctypes.get_errno())}")
    # What is mounted from now on is mounted for this process and its children.
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    os.makedirs("/run/netns", exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run/netns"], check=True)
    _ip("link", "set", "lo", "up")
    _ip("link", "add", "switch", "type", "bridge")
    _ip("address", "add", f"{Network.host}/16", "dev", "switch")
    _ip("link", "set", "switch", "up")
    yield Network(folder)

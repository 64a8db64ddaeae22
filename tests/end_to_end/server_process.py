"""packhoused as a process of its own, with what tests want to know of it."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import urllib.error
import urllib.request
from types import TracebackType
from typing import IO

import pytest


class ServerProcess:
    """Runs packhoused on free ports; killed at the end of a `with` block if it still runs."""

    # `log`: a file, or a descriptor, for what it writes to stderr.
    def __init__(self, *arguments: str, log: IO[str] | int = subprocess.DEVNULL) -> None:
        if "PACKHOUSED" not in os.environ:
            pytest.skip("PACKHOUSED does not name a server program")
        self.process = subprocess.Popen(
            [
                os.environ["PACKHOUSED"],
                *("--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"),
                *(() if "--lame-duck" in arguments else ("--lame-duck", "0s")),
                *arguments,
            ],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        assert self.process.stdout is not None
        ready = re.fullmatch(
            r"listening grpc=(\S+) http=(\S+)\n", self.process.stdout.readline()
        )
        assert ready is not None
        self.address, self.http_address = ready.groups()

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of an HTTP page."""
        try:
            with urllib.request.urlopen(f"http://{self.http_address}{path}", timeout=20) as page:
                return page.status, page.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def await_draining(self) -> None:
        """Returns once /readyz says that the server drains."""
        while self.get("/readyz")[0] != 503:
            pass

    def peak_memory_bytes(self) -> int:
        """The most physical memory it ever had."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert found is not None
        return int(found.group(1)) * 1024

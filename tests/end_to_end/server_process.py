"""packhoused as a process of its own, with what tests want to know of it."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import urllib.error
import urllib.request
from typing import IO

import pytest

from packhouse import LocalServer


class ServerProcess(LocalServer):
    """Runs packhoused on free ports from now on; killed at the end of a `with` block if it still runs."""

    # `log`: a file, or a descriptor, for what it writes to stderr.
    def __init__(self, *arguments: str, log: IO[str] | int = subprocess.DEVNULL) -> None:
        if "PACKHOUSED" not in os.environ:
            pytest.skip("PACKHOUSED does not name a server program")
        super().__init__(arguments=arguments, log=log)
        self.start()

    def start(self) -> None:
        """As LocalServer's."""
        super().start()
        assert self._process is not None
        # Stays when it has ended.
        self.process: subprocess.Popen[bytes] = self._process

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.kill()

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

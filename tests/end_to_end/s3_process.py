"""A real S3 server, versitygw over a folder, as a process of its own on loopback."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
from typing import Final, Iterator

import pytest

from etcd_process import free_port

BUCKET: Final = "bucket"
_ACCESS_KEY: Final = "packhouse"
_SECRET_KEY: Final = "of the tests"


class S3Process:
    """Runs from now on, with one bucket; killed at the end of a `with` block.

    Skips the test where there is none: tests/objects/install_s3_server.sh builds it, and the
    variable PACKHOUSE_S3_SERVER names it.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        self._program = os.environ.get("PACKHOUSE_S3_SERVER", "")
        if not os.access(self._program, os.X_OK):
            pytest.skip("there is no S3 server: tests/objects/install_s3_server.sh could not build it")
        if os.environ.get("PACKHOUSE_SANITIZE") == "thread":
            pytest.skip("libcurl is not built for ThreadSanitizer")
        self._folder = folder
        # To this server a folder is a bucket.
        (folder / "buckets" / BUCKET).mkdir(parents=True)
        (folder / "metadata").mkdir()
        self.credentials = folder / "credentials"
        self.credentials.write_text(
            f"[default]\naws_access_key_id = {_ACCESS_KEY}\n"
            f"aws_secret_access_key = {_SECRET_KEY}\n",
            encoding="ascii",
        )
        self._port = 0
        # Another process may take a port that was free.
        for _ in range(5):
            self._port = free_port()
            if self.start():
                return
        pytest.fail("the S3 server does not start")

    def __enter__(self) -> S3Process:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.kill()

    @property
    def address(self) -> str:
        """HOST:PORT of the endpoint."""
        return f"127.0.0.1:{self._port}"

    @property
    def endpoint(self) -> str:
        """The same after it was killed and started."""
        return f"http://127.0.0.1:{self._port}"

    def objects(self) -> list[pathlib.Path]:
        """The files of all objects in the bucket."""
        bucket = self._folder / "buckets" / BUCKET
        return sorted(path for path in bucket.rglob("*") if path.is_file())

    def start(self) -> bool:
        """Whether it answers now."""
        root = self._folder / "buckets"
        self._process = subprocess.Popen(
            [
                *(self._program, "--port", f"127.0.0.1:{self._port}", "--keep-alive", "--quiet"),
                # Metadata beside the files, since not every file system has attributes for them.
                *("posix", "--sidecar", self._folder / "metadata", root),
            ],
            env={
                **os.environ,
                "ROOT_ACCESS_KEY": _ACCESS_KEY,
                "ROOT_SECRET_KEY": _SECRET_KEY,
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while self._process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self._port), timeout=5).close()
                return True
            except OSError:
                pass
        return False

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """Connections are taken, and nothing is answered."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """At once, as by SIGKILL."""
        self._process.kill()
        self._process.wait()

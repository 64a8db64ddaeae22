"""A server of one's own, for tests, notebooks and the demo."""

from __future__ import annotations

import os
import re
import selectors
import shutil
import subprocess
import time
from typing import IO, Any, Final, Sequence

_READY_LINE: Final = re.compile(r"listening grpc=(\S+) http=(\S+)")


class LocalServer:
    """Runs `packhoused` for the length of a `with` block, on ports of the system's choice.

    `address` is the gRPC address, `http_address` that of metrics and health. The program's log goes
    to this process's stderr, or to `log`. Leaving the block drains it, or kills it after
    `stop_timeout` seconds; `returncode` is its exit status then. Started again, it listens at the
    same gRPC address.
    """

    def __init__(
        self,
        binary: str | os.PathLike[str] | None = None,
        *,
        listen: str = "127.0.0.1:0",
        data_dir: str | os.PathLike[str] | None = None,
        arguments: Sequence[str] = (),
        log: IO[Any] | int | None = None,
        start_timeout: float = 20.0,
        stop_timeout: float = 40.0,
    ) -> None:
        """Without `binary`, it is the path in the variable PACKHOUSED, else `packhoused` on PATH.

        `log` is a file or a descriptor. `listen` is HOST:PORT or unix:PATH; without `data_dir` the
        server has no data sets. Raises FileNotFoundError if there is no such program.
        """
        self._binary = find_server(binary)
        self._listen = listen
        self._arguments = tuple(arguments)
        if not any(argument.startswith("--lame-duck") for argument in self._arguments):
            # Nobody needs to notice its end.
            self._arguments += ("--lame-duck", "0s")
        if data_dir is not None:
            self._arguments += ("--data-dir", os.fspath(data_dir))
        self._log = log
        self._start_timeout = start_timeout
        self._stop_timeout = stop_timeout
        self._process: subprocess.Popen[bytes] | None = None
        self.address = ""
        self.http_address = ""
        self.returncode: int | None = None

    def __enter__(self) -> LocalServer:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Of the program. Raises ValueError if it does not run."""
        if self._process is None:
            raise ValueError("the server does not run")
        return self._process.pid

    def start(self) -> None:
        """Starts the program and waits until it serves. Raises RuntimeError if it does not."""
        self._process = subprocess.Popen(
            [
                self._binary,
                *("--listen", self.address or self._listen),
                *("--http-listen", "127.0.0.1:0"),
                *self._arguments,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log,
            # Then Python does not fork to start it: gRPC's fork handlers may end the child.
            close_fds=False,
        )
        line = self._read_line()
        ready = _READY_LINE.fullmatch(line)
        if ready is None:
            self.stop()
            raise RuntimeError(f"{self._binary} did not get ready: it said {line!r}")
        self.address, self.http_address = ready.groups()

    def stop(self) -> None:
        """Asks the program to drain and waits for its end. Idempotent."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(self._stop_timeout)
        except subprocess.TimeoutExpired:
            process.kill()
        self._reap(process)

    def kill(self) -> None:
        """Ends the program at once, as a crash would (SIGKILL). Idempotent."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            self._reap(process)

    def _reap(self, process: subprocess.Popen[bytes]) -> None:
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
        self.returncode = process.returncode

    def _read_line(self) -> str:
        """The first line of output, or the part that is there at the deadline or at the end."""
        assert self._process is not None and self._process.stdout is not None
        deadline = time.monotonic() + self._start_timeout
        output = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in output:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    break
                received = os.read(self._process.stdout.fileno(), 4096)
                if not received:
                    break
                output += received
        return output.decode(errors="replace").partition("\n")[0].strip()


def find_server(binary: str | os.PathLike[str] | None = None) -> str:
    """The path of packhoused: the argument, else $PACKHOUSED, else PATH.

    Raises FileNotFoundError.
    """
    wanted = os.fspath(binary) if binary else os.environ.get("PACKHOUSED", "packhoused")
    found = shutil.which(wanted)
    if found is None:
        raise FileNotFoundError(f"no program {wanted!r}: build packhouse, or set PACKHOUSED")
    return found

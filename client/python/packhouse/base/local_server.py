"""A server of one's own, for tests, notebooks and the demo."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import subprocess
import tempfile
import time
from typing import IO, Any, Final, Sequence

from packhouse.base.arguments import names_init_arguments
from packhouse.base.processes import in_session_of_its_own

_MOMENT: Final = 0.5
# Of the address of a Unix socket, with the zero at its end.
MOST_PATH_BYTES: Final = 107
# The socket of lanes, in a folder of its own.
_LANE: Final = "socket"
# Ends a server, $1, if its standard input ends without a line: then the process that started both is
# gone, however that was. $2 is how many seconds the server has for it. $3 is the folder of its lanes'
# socket, "": none.
_GUARD: Final = """
trap '' INT QUIT HUP TERM
end() {
  if [ -n "$3" ]; then rm -f "$3/socket"; rmdir "$3"; fi
  exit
}
read -r line && exit
kill -TERM "$1" || end "$@"
i=0
while [ "$i" -lt "$2" ]; do
  sleep 1
  kill -0 "$1" || end "$@"
  i=$((i + 1))
done
kill -KILL "$1"
end "$@"
"""


@names_init_arguments
class LocalServer:
    """Runs `packhoused` for the length of a `with` block, on ports of the system's choice.

    `address` is the gRPC address, `http_address` that of metrics and health. The program's log goes
    to this process's stderr, or to `log`. Leaving the block drains it, or kills it after
    `stop_timeout` seconds; `returncode` is its exit status then. Started again, it listens at the
    same gRPC address.

    The server has a session of its own: Ctrl-C and other signals to this process's group do not
    reach it. It ends with this process, also if that is killed: a shell waits for that end.
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
        """Without `binary`, it is the path in the variable PACKHOUSED, else the program of the package
        packhouse-server (`pip install packhouse[server]`), else `packhoused` on PATH.

        `log` is a file or a descriptor. `listen` is HOST:PORT or unix:PATH; without `data_dir` the
        server has no data sets. With it, it offers loaders a lane by a socket in a temporary folder,
        unless `arguments` say `--lane` (an empty one: none). Raises FileNotFoundError if there is no
        such program.
        """
        self._binary = find_server(binary)
        self._listen = listen
        self._arguments = tuple(arguments)
        if not any(argument.startswith("--lame-duck") for argument in self._arguments):
            # Nobody needs to notice its end.
            self._arguments += ("--lame-duck", "0s")
        if data_dir is not None:
            self._arguments += ("--data-dir", os.fspath(data_dir))
        self._has_lane = data_dir is not None and not any(
            argument == "--lane" or argument.startswith("--lane=") for argument in self._arguments
        )
        self._lane_folder = ""
        self._log = log
        self._start_timeout = start_timeout
        self._stop_timeout = stop_timeout
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self.address = ""
        self.http_address = ""
        self.returncode: int | None = None

    def __repr__(self) -> str:
        if self._process is not None:
            return f"LocalServer({self.address or 'starting'}, pid {self._process.pid})"
        ended = "not started" if self.returncode is None else f"ended with {self.returncode}"
        return f"LocalServer({ended})"

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
        """Starts the program and waits until it serves. Raises RuntimeError if it does not.

        An exception that a signal handler raises meanwhile ends the program.
        """
        try:
            self._start()
        except BaseException:
            self.kill()
            # Also of a program that did not begin.
            self._remove_lane()
            raise

    def _start(self) -> None:
        command, arguments = in_session_of_its_own(
            [
                self._binary,
                *("--listen", self.address or self._listen),
                *("--http-listen", "127.0.0.1:0"),
                *self._arguments,
                *self._lane(),
            ]
        )
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log,
            **arguments,
        )
        self._guard = _guard_of(self._process.pid, self._stop_timeout, self._lane_folder)
        line = self._read_line()
        try:
            ready = json.loads(line)
            self.address, self.http_address = ready["grpc"], ready["http"]
        except (ValueError, KeyError, TypeError):
            has_ended = self._has_ended()
            self.stop()
            what = "ended before it was ready" if has_ended else "did not get ready"
            raise RuntimeError(f"{self._binary} {what}: it said {line!r}") from None

    def _lane(self) -> tuple[str, ...]:
        """The arguments for lanes, whose socket no other server has."""
        self._remove_lane()
        if not self._has_lane:
            return ()
        self._lane_folder = tempfile.mkdtemp(prefix="packhouse-lane-")
        path = os.path.join(self._lane_folder, _LANE)
        if len(os.fsencode(path)) <= MOST_PATH_BYTES:
            return ("--lane", f"unix:{path}")
        self._remove_lane()
        return ()

    def _remove_lane(self) -> None:
        folder, self._lane_folder = self._lane_folder, ""
        if folder:
            shutil.rmtree(folder, ignore_errors=True)

    def stop(self) -> None:
        """Asks the program to drain and waits for its end. Idempotent."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(self._stop_timeout)
        except BaseException as error:  # A second Ctrl-C, too.
            process.kill()
            self._reap(process)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
        else:
            self._reap(process)

    def kill(self) -> None:
        """Ends the program at once, as a crash would (SIGKILL). Idempotent."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            self._reap(process)

    def _has_ended(self) -> bool:
        """Its output may have ended a moment before it."""
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_MOMENT)
        return self._process.returncode is not None

    def _reap(self, process: subprocess.Popen[bytes]) -> None:
        guard, self._guard = self._guard, None
        if guard is not None:
            # Before the number of the process can be another's.
            with contextlib.suppress(OSError):
                guard.communicate(b"ended\n")
        process.wait()
        self._remove_lane()
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


def _guard_of(pid: int, seconds: float, lane_folder: str) -> subprocess.Popen[bytes] | None:
    """None where there is no shell."""
    of_server = (str(pid), str(max(1, round(seconds))), lane_folder)
    command, arguments = in_session_of_its_own(
        ["/bin/sh", "-c", _GUARD, "packhouse-guard", *of_server]
    )
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **arguments,
        )
    except OSError:
        return None


def find_server(binary: str | os.PathLike[str] | None = None) -> str:
    """The path of packhoused: the argument, else $PACKHOUSED, else packhouse-server's, else PATH.

    packhouse-server is what `pip install packhouse[server]` brings. Raises FileNotFoundError.
    """
    told = os.fspath(binary) if binary else os.environ.get("PACKHOUSED")
    if told is None:
        with contextlib.suppress(ImportError):
            import packhouse_server

            return str(packhouse_server.program())
    wanted = "packhoused" if told is None else told
    found = shutil.which(wanted)
    if found is None:
        raise FileNotFoundError(
            f"no program {wanted!r}: pip install packhouse[server] brings one; "
            "or build packhouse, or set PACKHOUSED"
        )
    return found

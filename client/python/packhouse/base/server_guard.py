"""The program behind `packhouse.base.shared_server`: runs a server as long as anybody holds a lock.

    python3 -I -S server_guard.py FOLDER SECONDS START GUARD ALIVE COMMAND...

FOLDER has the files of locks (see `shared_server.py`), START, GUARD and ALIVE are descriptors of
open ones, which are locked. The first line that COMMAND prints goes to the standard output; then
START is let go. After the last user the server is asked to end, and killed after SECONDS. A server
that crashes before is started again, as long as it gets ready.

Run as a file, so that it starts in some milliseconds: it imports nothing of packhouse.
"""

from __future__ import annotations

import _thread
import ctypes
import fcntl
import os
import signal
import sys
import time

PR_SET_PDEATHSIG = 1
IGNORED = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
# What lies in the folder, and goes with the server.
FILES = ("users", "guard", "alive", "socket", "lane", "log", "start")


class Guard:
    """One server after another, until nobody uses them."""

    def __init__(self, folder: str, seconds: float, start: int, alive: int) -> None:
        self._folder = folder
        self._seconds = seconds
        self._start = start
        self._alive = alive
        # The server that runs, and whether it is being ended.
        self._pid = 0
        self._is_ending = False
        # The same file by a descriptor of its own: START's lock is shared with who gave it.
        self._own_start = self._open("start")
        self._users = self._open("users")

    def run(self, command: list[str]) -> None:
        """Returns when there is no server any more."""
        is_first = True
        while True:
            line = self._spawn(command)
            if line.endswith(b"\n"):
                if is_first:
                    os.write(1, line)
                    os.close(1)
                    os.close(self._start)
                    _thread.start_new_thread(self._await_last, ())
                is_first = False
            if self._is_ending:
                # Decided while there was none.
                self._signal(signal.SIGTERM)
            _, status = os.waitpid(self._pid, 0)
            self._pid = 0
            # Somebody may have asked it to end: then it has, with 0.
            if self._is_ending or status == 0 or not line.endswith(b"\n"):
                break
        if self._is_ending or is_first:
            self._remove()

    def _open(self, name: str) -> int:
        return os.open(os.path.join(self._folder, name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _spawn(self, command: list[str]) -> bytes:
        """Starts the server; its first line, which ends with a line break if the server is ready."""
        reading, writing = os.pipe()
        guard = os.getpid()
        prctl = ctypes.CDLL(None).prctl
        pid = os.fork()
        if pid == 0:
            try:
                for number in IGNORED:
                    signal.signal(number, signal.SIG_DFL)
                # It ends with this process, however that ends.
                prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
                if os.getppid() == guard:
                    os.dup2(writing, 1)
                    # Until the server has ended, too, another one must not take its folder.
                    os.set_inheritable(self._alive, True)
                    os.execv(command[0], command)
            finally:
                os._exit(127)
        self._pid = pid
        os.close(writing)
        line = b""
        while not line.endswith(b"\n"):
            byte = os.read(reading, 4096)
            if not byte:
                break
            line += byte
        # Nothing more is printed.
        os.close(reading)
        return line

    def _await_last(self) -> None:
        """Ends the server when nobody uses it. Whoever starts to use it holds the lock of `start`."""
        while True:
            fcntl.flock(self._users, fcntl.LOCK_EX)
            fcntl.flock(self._users, fcntl.LOCK_UN)
            fcntl.flock(self._own_start, fcntl.LOCK_EX)
            try:
                fcntl.flock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                fcntl.flock(self._own_start, fcntl.LOCK_UN)
        self._is_ending = True
        self._signal(signal.SIGTERM)
        time.sleep(self._seconds)
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        pid = self._pid
        try:
            if pid:
                os.kill(pid, number)
        except OSError:
            pass

    def _remove(self) -> None:
        """Removes the folder, unless somebody has made another one at its place."""
        try:
            here = os.stat(os.path.join(self._folder, "start"))
        except OSError:
            return
        if not os.path.samestat(here, os.fstat(self._own_start)):
            return
        for name in FILES:
            try:
                os.unlink(os.path.join(self._folder, name))
            except OSError:
                pass
        try:
            os.rmdir(self._folder)
        except OSError:
            pass


def main() -> None:
    folder, seconds, start, guard, alive = sys.argv[1:6]
    for descriptor in (start, guard, alive):
        os.set_inheritable(int(descriptor), False)
    # An orphan: nobody has to wait for its end.
    if os.fork():
        os._exit(0)
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    Guard(folder, float(seconds), int(start), int(alive)).run(sys.argv[6:])
    # Not by the end of the interpreter, which would wait for what the other thread does.
    os._exit(0)


if __name__ == "__main__":
    main()

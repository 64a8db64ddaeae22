"""One server for all processes of a user: it comes with the first, and goes with the last."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import pickle
import signal
import socket
import stat
import struct
from typing import Callable, Iterator

import pytest

from packhouse import SharedServer
from packhouse.base.shared_server import cache_folder

pytestmark = pytest.mark.skipif(
    "PACKHOUSED" not in os.environ, reason="PACKHOUSED does not name a program"
)


@pytest.fixture(autouse=True)
def cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setenv("PACKHOUSE_CACHE", str(tmp_path))
    return tmp_path


def path_of(server: SharedServer) -> pathlib.Path:
    return pathlib.Path(server.address[len("unix:") :])


def pid_at(path: pathlib.Path) -> int:
    """Of the process that listens there."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        words = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return struct.unpack("3i", words)[0]


def parent_of(pid: int) -> int:
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(status.split("PPid:")[1].split()[0])


class Lock:
    """One of a running server's locks, to wait for its end; opened while the server runs."""

    def __init__(self, server: SharedServer, name: str) -> None:
        self._file = open(path_of(server).with_name(name), "rb")

    def is_held(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(self._file, fcntl.LOCK_UN)
        return False

    def wait(self) -> None:
        """Until nobody holds it."""
        with self._file:
            fcntl.flock(self._file, fcntl.LOCK_EX)


class Process:
    """A forked process that joins, tells the server's pid, and stays until it is killed."""

    def __init__(self, make: Callable[[], SharedServer]) -> None:
        self._reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                server = make()
                server.join()
                os.write(writing, struct.pack("i", pid_at(path_of(server))))
                signal.pause()
            finally:
                os._exit(1)
        os.close(writing)

    def server_pid(self) -> int:
        return struct.unpack("i", os.read(self._reading, 4))[0]

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._reading)


@pytest.fixture
def joined() -> Iterator[SharedServer]:
    with SharedServer() as server:
        end = Lock(server, "guard")
        yield server
    end.wait()
    assert not path_of(server).parent.exists()


def test_processes_that_come_at_once_share_a_server_that_ends_with_the_last() -> None:
    processes = [Process(SharedServer) for _ in range(8)]
    pids = {process.server_pid() for process in processes}
    assert len(pids) == 1
    server = SharedServer()
    end = Lock(server, "guard")
    for process in processes[1:]:
        process.kill()
        assert pid_at(path_of(server)) in pids and end.is_held()
    processes[0].kill()
    end.wait()
    assert not path_of(server).parent.exists()
    assert server.data_folder.exists()


def test_who_comes_while_the_last_one_goes_has_a_server() -> None:
    for _ in range(5):
        with SharedServer() as server:
            end = Lock(server, "guard")
            pid_at(path_of(server))
    end.wait()


def test_forked_and_unpickled_ones_are_users_of_their_own() -> None:
    server = SharedServer()
    assert repr(server) == f"SharedServer({server.address!r}, not joined)"
    assert repr(pickle.loads(pickle.dumps(server))) == repr(server)
    server.join()
    server.join()
    assert repr(server) == f"SharedServer({server.address!r})"
    end = Lock(server, "guard")
    forked = Process(lambda: server)
    pid = forked.server_pid()
    copy = pickle.loads(pickle.dumps(server))
    server.leave()
    server.leave()
    assert pid_at(path_of(copy)) == pid
    copy.leave()
    assert pid_at(path_of(copy)) == pid
    forked.kill()
    end.wait()


def test_a_server_that_crashes_comes_again_at_its_address(joined: SharedServer) -> None:
    pid = pid_at(path_of(joined))
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path_of(joined)))
        os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ConnectionResetError):
            while connection.recv(4096):
                pass
    # The dying one closes its sockets one by one: it may take a connection yet.
    again = pid
    while again == pid:
        with contextlib.suppress(ConnectionRefusedError, ConnectionResetError, FileNotFoundError):
            again = pid_at(path_of(joined))


def test_a_server_ends_with_its_guard_and_the_next_user_starts_another(
    joined: SharedServer,
) -> None:
    pid = pid_at(path_of(joined))
    guard = Lock(joined, "guard")
    os.kill(parent_of(pid), signal.SIGKILL)
    guard.wait()
    with SharedServer() as other:
        again = pid_at(path_of(other))
        assert again != pid
    joined.join()
    assert pid_at(path_of(joined)) == again
    guard = Lock(joined, "guard")
    os.kill(parent_of(again), signal.SIGKILL)
    guard.wait()
    joined.join()
    assert pid_at(path_of(joined)) != again


def test_what_a_crash_of_the_machine_leaves_is_no_obstacle() -> None:
    server = SharedServer()
    folder = path_of(server).parent
    folder.mkdir()
    for name in ("start", "users", "guard", "alive", "log"):
        (folder / name).touch()
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(folder / "socket"))
        stale.listen()
    with server:
        end = Lock(server, "guard")
        assert pid_at(path_of(server)) != os.getpid()
    end.wait()
    assert not folder.exists()


def test_a_program_that_does_not_get_ready_says_why_and_leaves_nothing(
    tmp_path: pathlib.Path, cache: pathlib.Path
) -> None:
    program = tmp_path / "odd"
    program.write_text("#!/bin/sh\necho this machine is too small >&2\nexit 3\n")
    program.chmod(0o755)
    server = SharedServer(program)
    with pytest.raises(RuntimeError, match="this machine is too small"):
        server.join()
    assert not path_of(server).parent.exists()
    with pytest.raises(FileNotFoundError, match="nothing-here"):
        SharedServer(tmp_path / "nothing-here")


def test_other_flags_are_another_server(joined: SharedServer) -> None:
    with SharedServer(arguments=("--log-level", "debug")) as other:
        end = Lock(other, "guard")
        assert other.address != joined.address
        assert other.data_folder != joined.data_folder
        assert pid_at(path_of(other)) != pid_at(path_of(joined))
    end.wait()


def test_nobody_else_may_open_the_folder(
    cache: pathlib.Path, joined: SharedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (cache, path_of(joined).parent, joined.data_folder):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    cache.chmod(0o755)
    SharedServer()
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    monkeypatch.setenv("PACKHOUSE_CACHE", str(cache / "link"))
    (cache / "link").symlink_to(cache)
    with pytest.raises(PermissionError, match="PACKHOUSE_CACHE"):
        SharedServer()
    if os.geteuid() == 0:
        others = cache / "others"
        others.mkdir()
        os.chown(others, 12345, 12345)
        monkeypatch.setenv("PACKHOUSE_CACHE", str(others))
        with pytest.raises(PermissionError, match="not this user's own"):
            SharedServer()


def test_the_folder_is_where_caches_are_unless_a_socket_cannot_be_there(
    cache: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PACKHOUSE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    assert cache_folder() == cache / "packhouse"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache / ("long" * 30)))
    monkeypatch.setattr("tempfile.tempdir", str(cache))
    assert cache_folder() == cache / f"packhouse-{os.geteuid()}"


def test_what_no_server_was_started_on_for_long_is_deleted(cache: pathlib.Path) -> None:
    for name, days in (("data-0", 70), ("data-1", 50)):
        (cache / name).mkdir()
        now = (cache / name).stat().st_mtime
        os.utime(cache / name, (now - days * 86400,) * 2)
    with SharedServer() as server:
        end = Lock(server, "guard")
    end.wait()
    assert not (cache / "data-0").exists()
    assert (cache / "data-1").exists()

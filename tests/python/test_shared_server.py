"""Laws of the folders, locks and ends of shared servers, without a server."""

from __future__ import annotations

import fcntl
import os
import pathlib
import pickle
import signal
import time
from typing import Any, Callable

import pytest

from packhouse import SharedServer
from packhouse.base import server_guard, shared_server
from packhouse.base.server_guard import FILES, Guard
from packhouse.base.shared_server import cache_folder


@pytest.fixture(autouse=True)
def cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setenv("PACKHOUSE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def program(tmp_path: pathlib.Path) -> pathlib.Path:
    made = tmp_path / "packhoused"
    made.write_text("#!/bin/sh\n")
    made.chmod(0o700)
    return made


def test_the_file_system_of_a_path_is_that_of_the_longest_mount_above_it(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "a / ext4 rw 0 0\nb /home nfs4 rw 0 0\nc /home/my\\040own xfs rw 0 0\nd /home tmpfs rw 0 0\n"
    )
    real_open = open
    monkeypatch.setattr("builtins.open", lambda name, *how, **more: real_open(mounts, *how, **more))
    for path, kind in (
        ("/etc/x", "ext4"),
        ("/home/x", "tmpfs"),
        ("/home/my own/x", "xfs"),
        ("/homes/x", "ext4"),
    ):
        assert shared_server._file_system(path) == kind
    mounts.write_text("b /home nfs4 rw 0 0\n")
    assert shared_server._file_system("/etc") == ""
    assert not shared_server._is_suitable(pathlib.Path("/home/x"))
    assert shared_server._is_suitable(pathlib.Path("/etc/x"))
    # With "/run-0123456789abcdef/socket" behind it, a socket's address ends at 107 bytes.
    most = shared_server.MOST_PATH_BYTES - len("/run-0123456789abcdef/socket")
    assert shared_server._is_suitable(pathlib.Path("/" + "x" * (most - 1)))
    assert not shared_server._is_suitable(pathlib.Path("/" + "x" * most))
    mounts.unlink()
    assert shared_server._file_system("/etc") == ""


def test_the_folder_is_the_users_own(
    tmp_path: pathlib.Path, cache: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cache_folder() == cache and cache.stat().st_mode & 0o777 == 0o700
    cache.chmod(0o755)
    assert cache_folder().stat().st_mode & 0o777 == 0o700
    link = tmp_path / "link"
    link.symlink_to(cache)
    monkeypatch.setenv("PACKHOUSE_CACHE", str(link))
    with pytest.raises(
        PermissionError, match="is not this user's own folder: set PACKHOUSE_CACHE to one"
    ):
        cache_folder()
    monkeypatch.setenv("PACKHOUSE_CACHE", str(cache))
    user = os.geteuid()
    with monkeypatch.context() as patched:
        patched.setattr(shared_server.os, "geteuid", lambda: user + 1)
        with pytest.raises(PermissionError):
            cache_folder()
    # Without that variable it is where caches are, or in the folder for temporary files.
    monkeypatch.delenv("PACKHOUSE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr(shared_server.tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))
    temporary = tmp_path / "temporary" / f"packhouse-{user}"
    with monkeypatch.context() as patched:
        patched.setattr(shared_server, "_is_suitable", lambda path: True)
        assert cache_folder() == tmp_path / "xdg" / "packhouse"
        patched.delenv("XDG_CACHE_HOME")
        patched.setenv("HOME", str(tmp_path / "home"))
        assert cache_folder() == tmp_path / "home" / ".cache" / "packhouse"
        (tmp_path / "file").write_text("")
        patched.setenv("HOME", str(tmp_path / "file"))
        assert cache_folder() == temporary
    monkeypatch.setattr(shared_server, "_is_suitable", lambda path: False)
    assert cache_folder() == temporary


def test_a_first_line_is_waited_for_until_the_deadline() -> None:
    def line_of(*parts: bytes, ends: bool = False) -> bytes:
        reading, writing = os.pipe()
        for part in parts:
            os.write(writing, part)
        if ends:
            os.close(writing)
        try:
            return shared_server._first_line(
                reading, time.monotonic() + (20 if ends or b"\n" in parts[-1] else 0.01)
            )
        finally:
            os.close(reading)
            if not ends:
                os.close(writing)

    assert line_of(b"ab", b"c\nrest") == b"abc"
    assert line_of(b"abc") == b"abc"
    assert line_of(b"abc", ends=True) == b"abc"
    assert line_of(b"", ends=True) == b""
    # What is there is read also after the deadline.
    reading, writing = os.pipe()
    os.write(writing, b"x\n")
    assert shared_server._first_line(reading, time.monotonic() - 5) == b"x"


def test_what_nobody_started_for_sixty_days_is_removed(tmp_path: pathlib.Path) -> None:
    day = 86400
    for name, days in (
        ("data-old", 60.1),
        ("data-young", 59.9),
        ("data-runs", 99),
        ("other-old", 99),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
        then = time.time() - days * day
        os.utime(tmp_path / name, (then, then))
    (tmp_path / "run-runs").mkdir()
    shared_server._remove_old(tmp_path)
    assert {each.name for each in tmp_path.iterdir()} == {
        "data-young",
        "data-runs",
        "other-old",
        "run-runs",
    }


def test_a_server_is_that_of_its_program_and_flags(
    tmp_path: pathlib.Path, cache: pathlib.Path
) -> None:
    made = program(tmp_path)
    server = SharedServer(made)
    folder = pathlib.Path(server.address[len("unix:") :]).parent
    assert folder.parent == server.data_folder.parent == cache
    assert folder.name.replace("run-", "data-") == server.data_folder.name
    assert not folder.exists() and not server.data_folder.exists()
    assert SharedServer(made).address == server.address
    assert SharedServer(made, arguments=["--x"]).address != server.address
    assert repr(server) == f"SharedServer({server.address!r}, not joined)"
    made.write_text("#!/bin/sh\n\n")
    assert SharedServer(made).address != server.address


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def test_who_joins_is_a_user_until_it_leaves(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[int] = []

    def join(_: SharedServer) -> int:
        held.append(os.open(tmp_path, os.O_RDONLY))
        return held[-1]

    monkeypatch.setattr(SharedServer, "_join", join)
    server = SharedServer(program(tmp_path))
    with server as given:
        assert given is server and is_open(held[0])
        assert repr(server) == f"SharedServer({server.address!r})"
        server.join()
        assert len(held) == 2 and held[0] != held[1] and is_open(held[1]) and not is_open(held[0])
        copy = pickle.loads(pickle.dumps(server))
        assert copy.address == server.address and len(held) == 3
    assert not is_open(held[1]) and is_open(held[2])
    server.leave()
    del copy
    assert not is_open(held[2])
    pickle.loads(pickle.dumps(server))
    assert len(held) == 3


def test_who_is_first_starts_the_server_and_others_find_it(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[int, int, int]] = []

    def start(self: SharedServer, start: int, guard: int, alive: int, deadline: float) -> None:
        assert 0 < deadline - time.monotonic() <= 3.0
        # As the guard does, which has them from now on.
        started.append((os.dup(start), os.dup(guard), os.dup(alive)))
        os.close(started[-1][0])

    monkeypatch.setattr(SharedServer, "_start", start)
    server = SharedServer(program(tmp_path), start_timeout=3.0)
    before = len(os.listdir("/proc/self/fd"))
    server.join()
    folder = pathlib.Path(server.address[len("unix:") :]).parent
    assert folder.stat().st_mode & 0o777 == 0o700
    other = SharedServer(program(tmp_path), start_timeout=0.0)
    os.utime(server._binary, ns=(1, 1))
    other._folder, other._data = server._folder, server._data
    other.join()
    assert len(started) == 1
    # Two users, and what the guard has.
    assert len(os.listdir("/proc/self/fd")) == before + 4
    users = os.open(folder / "users", os.O_RDWR)
    for leaves in (server, other):
        assert not shared_server._is_free(users)
        leaves.leave()
    assert shared_server._is_free(users)
    os.close(users)
    # The guard is gone, and its server is not.
    os.close(started[0][1])
    with pytest.raises(
        RuntimeError, match=f"^an earlier server of {server.data_folder} does not end$"
    ):
        other.join()
    os.close(started[0][2])
    assert len(os.listdir("/proc/self/fd")) == before
    server.join()
    assert len(started) == 2
    server.leave()
    for each in started[1][1:]:
        os.close(each)


def guard_in(folder: pathlib.Path) -> Guard:
    folder.mkdir(exist_ok=True)
    (folder / "start").touch()
    return Guard(str(folder), 9.0, os.open(folder / "start", os.O_RDWR), 0)


def test_a_guard_starts_a_server_again_until_it_is_to_end(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Any] = []
    closed: list[int] = []
    threads: list[Any] = []
    monkeypatch.setattr(server_guard.os, "write", lambda *what: written.append(what))
    monkeypatch.setattr(
        server_guard._thread, "start_new_thread", lambda *what: threads.append(what)
    )

    def run(*servers: tuple[bytes, int], ends_after: int = 99) -> tuple[int, bool, list[int]]:
        """How many were started, whether the folder is removed, and which signals were sent."""
        guard = guard_in(tmp_path / "folder")
        left, count, signals = list(servers), 0, []

        def spawn(command: list[str]) -> bytes:
            nonlocal count
            count += 1
            assert command == ["packhoused"]
            guard._pid = 70 + count
            guard._is_ending = count >= ends_after
            return left[0][0]

        def wait(pid: int, options: int) -> tuple[int, int]:
            assert pid == 70 + count and options == 0
            return pid, left.pop(0)[1]

        removed: list[bool] = []
        with monkeypatch.context() as patched:
            patched.setattr(guard, "_spawn", spawn)
            patched.setattr(guard, "_signal", signals.append)
            patched.setattr(guard, "_remove", lambda: removed.append(True))
            patched.setattr(server_guard.os, "waitpid", wait)
            patched.setattr(server_guard.os, "close", closed.append)
            guard.run(["packhoused"])
        assert left == [] and guard._pid == 0
        assert (len(written), len(threads)) == ((1, 1) if servers[0][0].endswith(b"\n") else (0, 0))
        assert closed == ([1, guard._start] if written else [])
        assert written == ([(1, servers[0][0])] if written else [])
        del written[:], threads[:], closed[:]
        return count, bool(removed), signals

    ready = b'{"grpc": "x"}\n'
    # It crashes, and then ends because somebody asked it to; it does not get ready at all, or anew.
    assert run((ready, 9), (ready, 11), (ready, 0)) == (3, False, [])
    assert run((b"", 1)) == (1, True, [])
    assert run((b"half a line", 0)) == (1, True, [])
    assert run((ready, 9), (b"", 1)) == (2, False, [])
    # The last user has gone while there was none: the new one is asked to end.
    assert run((ready, 9), (ready, 15), ends_after=2) == (2, True, [signal.SIGTERM])


def test_a_guards_server_has_a_terminals_signals_and_the_lock_that_says_it_lives(
    tmp_path: pathlib.Path,
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    alive = os.open(folder / "alive", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    start = os.open(folder / "start", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    guard = Guard(str(folder), 9.0, start, alive)
    assert not guard._is_ending
    ignored = {each: signal.signal(each, signal.SIG_IGN) for each in server_guard.IGNORED}
    try:
        script = (
            f"grep SigIgn /proc/self/status; readlink /proc/self/fd/{alive} >&2 || exit 4; exit 3"
        )
        line = guard._spawn(["/bin/sh", "-c", script])
        _, status = os.waitpid(guard._pid, 0)
        assert os.waitstatus_to_exitcode(status) == 3
        name, mask = line.split()
        assert name == b"SigIgn:"
        assert not any(int(mask, 16) >> (each - 1) & 1 for each in server_guard.IGNORED)
        # One that cannot be started has no line, and ends as a shell says it.
        assert guard._spawn([str(tmp_path / "nowhere")]) == b""
        _, status = os.waitpid(guard._pid, 0)
        assert os.waitstatus_to_exitcode(status) == 127
    finally:
        for each, before in ignored.items():
            signal.signal(each, before)
        os.close(alive)


def test_a_guard_ends_its_server_after_the_last_user_and_kills_it_at_last(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = guard_in(tmp_path / "folder")
    sent: list[Any] = []
    monkeypatch.setattr(server_guard.os, "kill", lambda *what: sent.append(what))
    guard._signal(signal.SIGTERM)
    assert sent == []
    guard._pid = 77
    monkeypatch.setattr(server_guard.time, "sleep", lambda seconds: sent.append(seconds))
    locks: list[Any] = []

    def lock(descriptor: int, how: int) -> None:
        locks.append((descriptor, how))
        # Somebody has come between, once.
        if how == fcntl.LOCK_EX | fcntl.LOCK_NB and len(locks) < 5:
            raise BlockingIOError

    monkeypatch.setattr(server_guard.fcntl, "flock", lock)
    guard._await_last()
    users, start = guard._users, guard._own_start
    turn = [
        (users, fcntl.LOCK_EX),
        (users, fcntl.LOCK_UN),
        (start, fcntl.LOCK_EX),
        (users, fcntl.LOCK_EX | fcntl.LOCK_NB),
    ]
    assert locks == [*turn, (start, fcntl.LOCK_UN), *turn]
    assert guard._is_ending
    assert sent == [(77, signal.SIGTERM), 9.0, (77, signal.SIGKILL)]

    def gone(*_: Any) -> None:
        raise ProcessLookupError

    monkeypatch.setattr(server_guard.os, "kill", gone)
    guard._signal(signal.SIGTERM)


def test_a_guard_removes_its_folder_and_no_other(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "folder"

    def fill(names: Any) -> None:
        folder.mkdir(exist_ok=True)
        for name in names:
            (folder / name).touch()

    changes: list[tuple[Callable[[], Any], bool]] = [
        (lambda: None, False),
        (lambda: (folder / "log").unlink(), False),
        # Of somebody else, or one that is not known.
        (lambda: (folder / "start").unlink() or (folder / "start").touch(), True),
        (lambda: (folder / "unknown").touch(), True),
    ]
    for change, stays in changes:
        guard = guard_in(folder)
        fill(FILES)
        change()
        guard._remove()
        assert folder.exists() is stays
        guard._remove()
    assert [each.name for each in folder.iterdir()] == ["unknown"]

"""One server for all processes of one user on one machine. See `SharedServer`."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import selectors
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from typing import Any, Final, Sequence

from packhouse._version import __version__
from packhouse.base import server_guard
from packhouse.base.arguments import names_init_arguments
from packhouse.base.local_server import MOST_PATH_BYTES, find_server
from packhouse.base.processes import in_session_of_its_own

# How long data sets and jobs that nobody uses are kept; and what servers of before have stored.
_RETENTION: Final = "720h"
_DATA_SECONDS: Final = 60 * 86400.0
_FLAGS: Final = (
    *("--http-listen", ""),
    *("--admin-listen", ""),
    *("--lame-duck", "0s"),
    *("--dataset-retention", _RETENTION),
    *("--epoch-retention", _RETENTION),
    # All clients are one user's.
    *("--max-epochs", "65536", "--max-epochs-per-client", "65536"),
    *("--max-streams-per-client", "1024", "--max-calls-per-client", "256"),
)
# Of the file systems of several machines: neither locks nor stores are for them.
_SHARED_FILE_SYSTEMS: Final = frozenset(
    "9p afs beegfs ceph cifs fuse.ceph fuse.glusterfs fuse.sshfs gpfs lustre nfs nfs4 smb3".split()
)


@names_init_arguments
class SharedServer:
    """The server that all processes of one user on one machine share.

        with SharedServer() as server:
            client = Client(server.address)

    The first process that joins starts it, and it ends with the last one, also if that is killed:
    what counts is a lock, which the kernel lets go. Forked processes are users by themselves, as
    are processes that unpickle it. If the server crashes it is started again, at the same address.

    It listens at a Unix socket in a folder that nobody else may open. Servers of another version,
    another program or other `arguments` are others, with data of their own. Data sets and jobs
    are kept from run to run; what nobody has used for 30 days is deleted.

    All of it lies in the folder PACKHOUSE_CACHE if that variable is set, else in `packhouse` of
    XDG_CACHE_HOME or ~/.cache, or, if that is on another machine's disk or cannot be written to, in
    a folder of the user's own for temporary files. Thread-safe.
    """

    def __init__(
        self,
        binary: str | os.PathLike[str] | None = None,
        *,
        arguments: Sequence[str] = (),
        start_timeout: float = 20.0,
        stop_timeout: float = 40.0,
    ) -> None:
        """Starts nothing yet. `binary` is as LocalServer's, `arguments` are flags of packhoused.

        Raises FileNotFoundError if there is no such program, PermissionError if the folder belongs
        to another user.
        """
        self._binary = os.path.realpath(find_server(binary))
        self._arguments = (*_FLAGS, *arguments)
        self._start_timeout = start_timeout
        self._stop_timeout = stop_timeout
        program = os.stat(self._binary)
        words = [__version__, self._binary, str(program.st_size), str(program.st_mtime_ns)]
        key = hashlib.blake2b("\0".join([*words, *self._arguments]).encode(), digest_size=8)
        root = cache_folder()
        # Of one server: locks and the socket while it runs; and what it stores.
        self._folder = root / f"run-{key.hexdigest()}"
        self._data = root / f"data-{key.hexdigest()}"
        self._begin()

    def _begin(self) -> None:
        self._mutex = threading.Lock()
        self._membership: Any = None

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["_membership"] = self._membership is not None
        del state["_mutex"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        was_joined = state.pop("_membership")
        self.__dict__.update(state)
        self._begin()
        if was_joined:
            self.join()

    def __repr__(self) -> str:
        joined = "" if self._membership is not None else ", not joined"
        return f"SharedServer({self.address!r}{joined})"

    @property
    def address(self) -> str:
        """Of gRPC; served from `join` on."""
        return f"unix:{self._folder / 'socket'}"

    @property
    def data_folder(self) -> pathlib.Path:
        """Where it keeps data sets and jobs."""
        return self._data

    def __enter__(self) -> SharedServer:
        self.join()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.leave()

    def join(self) -> None:
        """From now on this process uses the server, which is started if need be. Idempotent.

        Called again, it starts another server if somebody has killed it and its guard. Raises
        RuntimeError with the server's own words if it does not get ready.
        """
        with self._mutex:
            users = self._join()
            before = self._membership
            # Ends with this object, or with the process.
            self._membership = weakref.finalize(self, os.close, users)
            if before is not None:
                before()

    def leave(self) -> None:
        """This object uses the server no longer; the last one's leaving ends it. Idempotent."""
        with self._mutex:
            membership, self._membership = self._membership, None
            if membership is not None:
                membership()

    def _join(self) -> int:
        """A descriptor that holds the lock of those who use the server."""
        deadline = time.monotonic() + self._start_timeout
        with contextlib.ExitStack() as files:
            start = self._locked_start()
            files.callback(os.close, start)
            users = self._open("users")
            fcntl.flock(users, fcntl.LOCK_SH)
            try:
                guard, alive = self._open("guard"), self._open("alive")
                files.callback(os.close, guard)
                files.callback(os.close, alive)
                if _is_free(guard):
                    while not _is_free(alive):
                        # A server whose guard was killed: it is ending.
                        if time.monotonic() > deadline:
                            raise RuntimeError(f"an earlier server of {self._data} does not end")
                        time.sleep(0.01)
                    self._start(start, guard, alive, deadline)
            except BaseException:
                os.close(users)
                raise
        return users

    def _locked_start(self) -> int:
        """The file whose lock is held by who starts or ends the server."""
        while True:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            try:
                start = self._open("start")
            except FileNotFoundError:
                continue  # A server has just ended.
            try:
                fcntl.flock(start, fcntl.LOCK_EX)
                if os.path.samestat(os.fstat(start), os.stat(self._folder / "start")):
                    return start
            except FileNotFoundError:
                pass
            except BaseException:
                os.close(start)
                raise
            os.close(start)

    def _open(self, name: str) -> int:
        return os.open(self._folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _start(self, start: int, guard: int, alive: int, deadline: float) -> None:
        """Has the guard start a server, and waits until it serves. The locks are the guard's then."""
        self._data.mkdir(mode=0o700, exist_ok=True)
        os.utime(self._data)
        _remove_old(self._data.parent)
        with open(self._folder / "log", "w+b", buffering=0) as log:
            command, arguments = in_session_of_its_own(
                [
                    *(sys.executable, "-I", "-S", server_guard.__file__),
                    *(str(self._folder), str(self._stop_timeout)),
                    *map(str, (start, guard, alive)),
                    *(self._binary, "--listen", self.address, "--data-dir", str(self._data)),
                    *("--lane", f"unix:{self._folder / 'lane'}"),
                    *self._arguments,
                ]
            )
            arguments.update(close_fds=True, pass_fds=(start, guard, alive))
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                **arguments,
            )
            with process:
                assert process.stdout is not None
                line = _first_line(process.stdout.fileno(), deadline)
            try:
                json.loads(line)["grpc"]
            except (ValueError, KeyError, TypeError):
                log.seek(0)
                words = log.read()[-2000:].decode(errors="replace").strip()
                raise RuntimeError(
                    f"{self._binary} did not get ready: {words or f'it said {line!r}'}"
                ) from None


def _remove_old(root: pathlib.Path) -> None:
    """What servers have stored that were not started for long, such as those of earlier versions."""
    for data in root.glob("data-*"):
        with contextlib.suppress(OSError):
            is_old = time.time() - data.stat().st_mtime > _DATA_SECONDS
            if is_old and not data.with_name(data.name.replace("data-", "run-", 1)).exists():
                shutil.rmtree(data)


def _is_free(descriptor: int) -> bool:
    """Whether nobody held the lock; then it is held by this descriptor."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _first_line(descriptor: int, deadline: float) -> bytes:
    """Or the part that is there at the deadline or at the end."""
    output = b""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while b"\n" not in output:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                break
            received = os.read(descriptor, 4096)
            if not received:
                break
            output += received
    return output.partition(b"\n")[0]


def cache_folder() -> pathlib.Path:
    """The folder of this user for servers that are shared, and their data; made if need be.

    Not XDG_RUNTIME_DIR, which goes when the user logs out while a training goes on. Raises
    PermissionError if it is another user's.
    """
    given = os.environ.get("PACKHOUSE_CACHE")
    if given:
        return _own_folder(pathlib.Path(given).absolute())
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    usual = pathlib.Path(base).absolute() / "packhouse"
    if _is_suitable(usual):
        with contextlib.suppress(OSError):
            return _own_folder(usual)
    return _own_folder(pathlib.Path(tempfile.gettempdir()) / f"packhouse-{os.geteuid()}")


def _own_folder(path: pathlib.Path) -> pathlib.Path:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = os.lstat(path)
    if status.st_uid != os.geteuid() or path.is_symlink():
        raise PermissionError(f"{path} is not this user's own folder: set PACKHOUSE_CACHE to one")
    if status.st_mode & 0o077:
        path.chmod(0o700)
    return path


def _is_suitable(path: pathlib.Path) -> bool:
    """Whether a socket's address has room for it, and its disk is this machine's own."""
    if len(os.fsencode(path / "run-0123456789abcdef" / "socket")) > MOST_PATH_BYTES:
        return False
    return _file_system(os.path.realpath(path)) not in _SHARED_FILE_SYSTEMS


def _file_system(path: str) -> str:
    """The type of the file system that a path is in; "" if the system does not tell."""
    found, kind = "", ""
    with contextlib.suppress(OSError):
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as mounts:
            for line in mounts:
                _, place, its_kind = line.split(" ")[:3]
                place = place.replace("\\040", " ")
                if len(place) >= len(found) and os.path.commonpath([place, path]) == place:
                    found, kind = place, its_kind
    return kind

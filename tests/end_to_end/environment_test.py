"""What packhoused finds where it is started: files, descriptors, addresses, who waits for it."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from typing import Any, Iterator

import numpy as np
import pytest
from server_process import ServerProcess

import packhouse
from packhouse import Client

FLAGS = ("--listen", "127.0.0.1:0", "--http-listen", "", "--lame-duck", "0s")
PATIENCE = 30.0


def program(name: str) -> str:
    if name not in os.environ:
        pytest.skip(f"{name} does not name a program")
    return os.environ[name]


@contextlib.contextmanager
def running(*flags: str, of: str = "", **how: Any) -> Iterator[subprocess.Popen[str]]:
    """packhoused, killed at the end."""
    process = subprocess.Popen([of or program("PACKHOUSED"), *flags], text=True, **how)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def has_sockets(pid: int) -> bool:
    """Whether it has opened any."""
    found = False
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        # It may have closed it meanwhile.
        with contextlib.suppress(FileNotFoundError):
            found |= os.readlink(link).startswith("socket:")
    return found


def last_message(stderr: str) -> str:
    return str(json.loads(stderr.splitlines()[-1])["message"])


def test_closed_files_are_not_those_of_the_stores(tmp_path: pathlib.Path) -> None:
    data = tmp_path / "data"
    for closed in ((0, 1, 2), (2,), (1,)):
        with running(*FLAGS, "--data-dir", str(data), close_fds=False,
                     preexec_fn=lambda: [os.close(fd) for fd in closed]) as server:
            # It serves once it has the lock of its stores and has opened its sockets.
            while server.poll() is None and not has_sockets(server.pid):
                pass
            for fd in closed:
                # Libraries may have opened something before main() begins, but no file.
                opened = os.readlink(f"/proc/{server.pid}/fd/{fd}")
                assert opened == "/dev/null" or opened.startswith("anon_inode:"), opened
            server.send_signal(signal.SIGUSR1)
            server.send_signal(signal.SIGTERM)
            server.wait(PATIENCE)
        for file in data.rglob("*"):
            assert not file.is_file() or b'"event"' not in file.read_bytes(), file


@pytest.mark.parametrize("limit", [12, 16, 20, 32, 63])
def test_too_few_descriptors_are_refused(limit: int, tmp_path: pathlib.Path) -> None:
    with running(*FLAGS, "--data-dir", str(tmp_path / "data"), stderr=subprocess.PIPE,
                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)),
                 ) as server:
        _, stderr = server.communicate(timeout=PATIENCE)
        assert server.returncode == 1
        assert f"at most {limit} files may be open (ulimit -n), at least 64" in last_message(stderr)


@pytest.mark.skipif(os.getuid() != 0, reason="becomes a user that may have few threads")
def test_a_server_that_gets_too_few_threads_says_so_and_ends() -> None:
    user = 54321
    with tempfile.TemporaryDirectory() as name:
        # Where any user may go, unlike pytest's folders.
        folder = pathlib.Path(name)
        folder.chmod(0o777)
        copy = shutil.copy(program("PACKHOUSED"), folder)
        num_served = 0
        limits = iter(range(2, 120, 3))
        while num_served < 3:
            limit = next(limits)

            def become_limited(limit: int = limit) -> None:
                resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))
                os.setgid(user)
                os.setuid(user)

            with running(*FLAGS, "--data-dir", str(folder / f"{limit}"), of=copy, preexec_fn=become_limited,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE) as server:
                assert server.stdout is not None
                if server.stdout.readline():
                    num_served += 1
                    continue
                _, stderr = server.communicate(timeout=PATIENCE)
                assert server.returncode == 1
                assert "the system gives no more threads" in last_message(stderr), limit
                assert not num_served, limit


def test_with_the_least_descriptors_it_serves_and_ends(tmp_path: pathlib.Path) -> None:
    with running(*FLAGS, "--data-dir", str(tmp_path / "data"), stdout=subprocess.PIPE,
                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)),
                 ) as server:
        assert server.stdout is not None
        assert json.loads(server.stdout.readline())["event"] == "listening"
        server.terminate()
        assert server.wait(PATIENCE) == 0


@pytest.mark.parametrize("flag", ["--help", "--version", "--print-config"])
def test_what_cannot_be_printed_is_an_error(flag: str) -> None:
    with open("/dev/full", "w", encoding="ascii") as full:
        with running(flag, stdout=full, stderr=subprocess.PIPE) as server:
            _, stderr = server.communicate(timeout=PATIENCE)
    assert server.returncode == 1
    assert json.loads(stderr)["event"] == "cannot print"
    assert last_message(stderr) == "cannot write all of stdout: No space left on device"


def test_a_soft_limit_is_raised() -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with running(*FLAGS, stdout=subprocess.PIPE,
                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (32, most)),
                 ) as server:
        assert server.stdout is not None
        assert server.stdout.readline()
        assert resource.prlimit(server.pid, resource.RLIMIT_NOFILE) == (most, most)


def test_a_path_that_a_server_listens_at_is_not_taken(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "socket"
    address = f"unix:{path}"
    flags = ("--listen", address, "--http-listen", "", "--lame-duck", "0s")
    with running(*flags, stdout=subprocess.PIPE) as first:
        assert first.stdout is not None and first.stdout.readline()
        with running(*flags, stderr=subprocess.PIPE) as second:
            _, stderr = second.communicate(timeout=PATIENCE)
            assert second.returncode == 1
            assert last_message(stderr) == f"cannot listen on '{address}': another process listens there"
        with Client(address):
            pass
        # As a clean-up job would do it, and then another server comes.
        path.unlink()
        with running(*flags, stdout=subprocess.PIPE) as third:
            assert third.stdout is not None and third.stdout.readline()
            first.terminate()
            assert first.wait(PATIENCE) == 0
            assert path.is_socket()
            with Client(address):
                pass
            third.kill()
    # What a crash leaves behind is replaced.
    assert path.is_socket()
    with running(*flags, stdout=subprocess.PIPE) as fourth:
        assert fourth.stdout is not None and fourth.stdout.readline()
        fourth.terminate()
        assert fourth.wait(PATIENCE) == 0
    assert not path.exists()


@pytest.mark.parametrize("flag", ["--listen", "--http-listen"])
def test_a_name_with_two_addresses_has_both_or_none(flag: str) -> None:
    found = {info[4][0] for info in socket.getaddrinfo("localhost", 0, type=socket.SOCK_STREAM)}
    if len(found) < 2:
        pytest.skip("localhost has one address here")
    other = "--http-listen" if flag == "--listen" else "--listen"
    for host, family in (("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)):
        with socket.socket(family) as taken:
            if family == socket.AF_INET6:
                taken.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            taken.bind((host, 0))
            taken.listen()
            address = f"localhost:{taken.getsockname()[1]}"
            with running(flag, address, other, "127.0.0.1:0", stderr=subprocess.PIPE) as server:
                _, stderr = server.communicate(timeout=PATIENCE)
                assert server.returncode == 1
                assert f"cannot listen on '{address}': Address already in use" in stderr
    with running(flag, "localhost:0", other, "127.0.0.1:0", stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        listening = json.loads(server.stdout.readline())
        port = int(listening["grpc" if flag == "--listen" else "http"].rpartition(":")[2])
        for host in found:
            with socket.create_connection((host, port), timeout=PATIENCE) as connection:
                if flag == "--http-listen":
                    connection.sendall(b"GET /readyz HTTP/1.0\r\n\r\n")
                    assert b" 200 " in connection.recv(4096)


@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_hears_when_it_is_ready_and_when_it_ends(
    tmp_path: pathlib.Path, abstract: bool
) -> None:
    name = f"\0{tmp_path}/notify" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(name)
        manager.settimeout(PATIENCE)
        environment = {**os.environ, "NOTIFY_SOCKET": name.replace("\0", "@")}
        with running(*FLAGS, stdout=subprocess.PIPE, env=environment) as server:
            assert manager.recv(100) == b"READY=1"
            assert server.stdout is not None
            address = json.loads(server.stdout.readline())["grpc"]
            with Client(address):
                pass
            server.terminate()
            assert manager.recv(100) == b"STOPPING=1"
            assert server.wait(PATIENCE) == 0


def test_a_start_that_waits_can_be_ended(tmp_path: pathlib.Path) -> None:
    """For an etcd that takes connections and says nothing."""
    key = tmp_path / "key"
    key.write_text("ab" * 32)
    key.chmod(0o600)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        silent.settimeout(PATIENCE)
        with running(
            *FLAGS, "--data-dir", str(tmp_path / "data"), "--ledger-lease=1h",
            f"--ledger=etcd://127.0.0.1:{silent.getsockname()[1]}/x", "--advertise=127.0.0.1:1",
            f"--signing-key={key}", stderr=subprocess.PIPE,
        ) as server:
            connection, _ = silent.accept()
            with connection:
                server.terminate()
                _, stderr = server.communicate(timeout=PATIENCE)
                assert server.returncode == 128 + signal.SIGTERM
                assert json.loads(stderr.splitlines()[-1])["event"] == "ended while it started"


def test_histograms_that_cannot_be_saved_are_a_failure(tmp_path: pathlib.Path) -> None:
    data = tmp_path / "data"
    with ServerProcess("--data-dir", str(data)) as server:
        with Client(server.address) as client:
            client.histograms.observe("kept", np.array([[1, 2]]))
        # Where its file would be.
        (data / "histograms").unlink(missing_ok=True)
        (data / "histograms").mkdir()
        (data / "histograms" / "in the way").touch()
        server.process.terminate()
        assert server.process.wait(PATIENCE) == 1


COMMANDS = (
    ("plan", "--sizes", "S", "--limit", "nodes=60", "--limit", "edges=150"),
    ("plan", "--sizes", "S", "--limit", "nodes=60", "--limit", "edges=150", "--json"),
    ("tune", "--sizes", "S", "--max", "nodes=60", "--max", "edges=150", "--json"),
    ("histogram", "--sizes", "S"),
    ("--help",),
    ("--version",),
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_full_stdout_is_a_failure(command: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    sizes = tmp_path / "sizes.csv"
    sizes.write_text("num_nodes,num_edges\n24,50\n10,18\n13,30\n7,12\n")
    words = [str(sizes) if word == "S" else word for word in command]
    with open("/dev/full", "wb") as full:
        done = subprocess.run([program("PACKHOUSE_CLI"), *words], stdout=full,
                              stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stderr
    assert "cannot write all of stdout: No space left on device" in done.stderr


@pytest.mark.parametrize("flag", ["--print-config", "--help", "--version"])
def test_a_full_stdout_of_the_server_is_a_failure(flag: str) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([program("PACKHOUSED"), flag], stdout=full, stderr=subprocess.PIPE,
                              text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stderr
    assert "cannot write all of stdout: No space left on device" in last_message(done.stderr)


PYTHON_COMMANDS = (
    ("packhouse", "--help"),
    ("packhouse", "ingest", "--help"),
    ("packhouse", "cluster", "try", "--help"),
    ("packhouse.demo", "--help"),
    ("packhouse.demo.sampling", "--help"),
    ("packhouse", "ingest", "S", "--server", "A", "--dataset", "d"),
)


def test_a_full_stdout_is_a_failure_of_the_package_too(tmp_path: pathlib.Path) -> None:
    sizes = tmp_path / "sizes.csv"
    sizes.write_text("num_nodes,num_edges\n24,50\n10,18\n")
    with ServerProcess("--data-dir", str(tmp_path / "data")) as server:
        stands_for = {"S": str(sizes), "A": server.address}
        # Without a buffer printing fails itself, not only at the end.
        cases = [(each, "") for each in PYTHON_COMMANDS]
        cases += [(each, "1") for each in (PYTHON_COMMANDS[0], PYTHON_COMMANDS[-1])]
        for (module, *words), unbuffered in cases:
            command = [sys.executable, "-m", module, *(stands_for.get(w, w) for w in words)]
            with open("/dev/full", "wb") as full:
                done = subprocess.run(
                    command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60,
                    check=False, env={**os.environ, "PYTHONUNBUFFERED": unbuffered})
            assert done.returncode == 1, done.stderr
            (line,) = done.stderr.splitlines()
            assert line.endswith(": cannot write all of stdout: No space left on device")
        # What it was asked to do is done.
        with Client(server.address) as client:
            assert client.datasets.get("d").num_graphs == 2


def test_every_program_of_the_package_looks_after_its_stdout() -> None:
    package = pathlib.Path(packhouse.__file__).parent
    mains = [path.read_text(encoding="utf-8") for path in package.rglob("*.py")]
    # Those that a user calls, with arguments.
    mains = [text for text in mains if "\ndef main(" in text and "argparse" in text]
    assert len(mains) == 2
    assert all("sys.exit(run_whole(" in text for text in mains)


def test_the_command_reaches_this_machine_without_a_proxy_and_any_of_several_servers(
    tmp_path: pathlib.Path,
) -> None:
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "grpc_proxy"), "http://127.0.0.1:1")
    environment = {name: value for name, value in os.environ.items() if "no_proxy" not in name}

    def listed(address: str) -> subprocess.CompletedProcess[str]:
        command = [program("PACKHOUSE_CLI"), "datasets", "list", "--server", address]
        return subprocess.run(command, env=environment | proxies, text=True, timeout=60,
                              capture_output=True, check=False)

    with ServerProcess("--data-dir", str(tmp_path / "data")) as server:
        for address in (server.address, f"127.0.0.1:1,{server.address}"):
            done = listed(address)
            assert done.returncode == 0, done.stderr
    done = listed("192.0.2.1:1")
    assert done.returncode == 1
    assert "HTTP proxy of the variable grpc_proxy" in done.stderr

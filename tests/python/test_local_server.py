"""Starting and stopping a server of one's own; a client without one."""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile
import types
import urllib.request

import grpc
import pytest

from packhouse import Client, Loader, LocalServer, PackhouseError, Samples, SubGraphs
from packhouse.base import local_server
from packhouse.base.local_server import find_server


def script(path: pathlib.Path, text: str) -> pathlib.Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_missing_program_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError, match="nothing-here"):
        LocalServer(tmp_path / "nothing-here")


def test_the_program_is_what_was_told_else_that_of_its_package_else_on_path(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, variable, packaged, on_path = (
        script(tmp_path / name, "exit 0") for name in ("told", "variable", "packaged", "packhoused")
    )
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "packhouse_server", None)  # type: ignore[arg-type]
    monkeypatch.delenv("PACKHOUSED", raising=False)
    assert find_server() == str(on_path)
    module = types.ModuleType("packhouse_server")
    setattr(module, "program", lambda: packaged)
    monkeypatch.setitem(sys.modules, "packhouse_server", module)
    assert find_server() == str(packaged)
    monkeypatch.setenv("PACKHOUSED", str(variable))
    assert find_server() == str(variable)
    assert find_server(told) == str(told)


def test_without_a_program_it_is_said_where_one_comes_from(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "packhouse_server", None)  # type: ignore[arg-type]
    monkeypatch.delenv("PACKHOUSED", raising=False)
    with pytest.raises(FileNotFoundError, match=r"'packhoused': pip install packhouse\[server\]"):
        LocalServer()


def test_a_program_that_does_not_get_ready_is_an_error(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = script(tmp_path / "odd", "echo hello; exec cat")
    with pytest.raises(RuntimeError, match="odd ended before it was ready: it said 'hello'"):
        with LocalServer(program):
            pass
    program = script(tmp_path / "gone", "exit 3")
    server = LocalServer(program)
    with pytest.raises(RuntimeError, match="gone ended before it was ready: it said ''"):
        server.start()
    assert server.returncode == 3
    with pytest.raises(ValueError, match="the server does not run"):
        server.pid
    monkeypatch.setattr(local_server, "_MOMENT", 0.01)
    program = script(tmp_path / "slow", "echo '[]'; exec sleep 1000")
    with pytest.raises(RuntimeError, match=r"slow did not get ready: it said '\[\]'"):
        LocalServer(program).start()
    program = script(tmp_path / "mute", "printf half; exec sleep 1000")
    with pytest.raises(RuntimeError, match="mute did not get ready: it said 'half'"):
        LocalServer(program, start_timeout=0.05).start()


def test_a_program_that_ignores_the_signal_is_killed(tmp_path: pathlib.Path) -> None:
    program = script(
        tmp_path / "stubborn",
        # An ignored signal stays ignored across exec.
        "trap '' TERM\n"
        """echo '{"event":"listening","grpc":"127.0.0.1:1","http":"-"}'\nexec sleep 1000""",
    )
    with LocalServer(program, stop_timeout=0.2) as server:
        assert (server.address, server.http_address) == ("127.0.0.1:1", "-")
        assert repr(server) == f"LocalServer(127.0.0.1:1, pid {server.pid})"
    assert server.returncode == -9
    assert repr(server) == "LocalServer(ended with -9)"
    assert repr(LocalServer(program)) == "LocalServer(not started)"


def test_a_loader_says_in_one_line_what_it_loads_and_asks_no_server() -> None:
    loader = Loader("127.0.0.1:1", dataset="molecules", job="night", limits={"nodes": 9})
    assert repr(loader) == "Loader('127.0.0.1:1', job='night', dataset='molecules', epoch=0)"
    samples = Samples(SubGraphs("papers", ""), range(9))
    loader = Loader("127.0.0.1:1", samples=samples, job="night", limits={"nodes": 9})
    assert repr(loader) == "Loader('127.0.0.1:1', job='night', graph='papers', epoch=0)"


@pytest.mark.skipif("PACKHOUSED" not in os.environ, reason="PACKHOUSED does not name a program")
def test_a_server_serves_until_the_block_is_left() -> None:
    with LocalServer() as server:
        address = server.address
        with Client(address) as client:
            assert repr(client) == f"Client({address!r})"
        with urllib.request.urlopen(f"http://{server.http_address}/healthz", timeout=60) as page:
            assert page.status == 200
    assert server.returncode == 0
    with pytest.raises(PackhouseError) as raised:
        Client(address, connect_timeout=0.2)
    assert raised.value.code is grpc.StatusCode.UNAVAILABLE


def test_a_program_that_does_not_begin_leaves_no_folder(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    program = tmp_path / "packhoused"
    program.write_text("#!/nothing/there\n")
    program.chmod(0o755)
    with pytest.raises(OSError, match="packhoused"):
        LocalServer(program, data_dir=tmp_path / "data").start()
    assert [path.name for path in tmp_path.iterdir()] == ["packhoused"]


def test_a_program_is_told_where_to_listen_and_what_was_said(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard, folders, data = tmp_path / "heard", tmp_path / "t", tmp_path / "data"
    folders.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folders))
    program = script(
        tmp_path / "listens",
        f"""printf '%s\\n' "$@" > {heard}\necho '{{"grpc":"there:5","http":"-"}}'\nexec sleep 1000""",
    )

    def told(server: LocalServer, listen: str = "127.0.0.1:0") -> list[str]:
        with server:
            words = heard.read_text().splitlines()
            assert words[:4] == ["--listen", listen, "--http-listen", "127.0.0.1:0"]
            if "--lane" in words and words[-2] == "--lane" and words[-1]:
                (folder,) = folders.iterdir()
                assert words.pop() == f"unix:{folder}/socket"
        assert server.returncode == -15 and list(folders.iterdir()) == []
        return words[4:]

    stays = ["--lame-duck", "0s"]
    server = LocalServer(program)
    assert told(server) == stays
    # Started again, it is where it was.
    assert told(server, "there:5") == stays
    lame = LocalServer(program, listen="unix:/s", arguments=("--lame-duck=3s", "-x"))
    assert told(lame, "unix:/s") == ["--lame-duck=3s", "-x"]
    with_data = [*stays, "--data-dir", str(data)]
    assert told(LocalServer(program, data_dir=data)) == [*with_data, "--lane"]
    for lane in (("--lane", ""), ("--lane=",)):
        without = LocalServer(program, data_dir=data, arguments=lane)
        assert told(without) == [*lane, *with_data]
    # A path that no socket takes.
    folders = folders / ("x" * 100)
    folders.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folders))
    assert told(LocalServer(program, data_dir=data)) == with_data
    killed = LocalServer(program)
    killed.start()
    for _ in range(2):
        killed.kill()
        killed.stop()
    assert killed.returncode == -9

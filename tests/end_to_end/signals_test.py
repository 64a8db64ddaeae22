"""What ends the process, and how; what it says when it cannot start."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import time

import grpc
import numpy as np
import pytest
from server_process import ServerProcess

from packhouse import Client, GraphSchema, GraphTable, PackhouseError, PackOptions

SCHEMA = GraphSchema(("nodes", "edges"), ())
LIMITS = PackOptions({"nodes": 10})


def three_graphs() -> GraphTable:
    return GraphTable(SCHEMA, np.array([[1, 0], [2, 0], [3, 0]]))


def test_without_streams_it_ends_cleanly() -> None:
    with ServerProcess() as server:
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(20) == 0


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_an_open_stream_finishes_and_new_ones_are_refused(sent: signal.Signals) -> None:
    with ServerProcess() as server, Client(server.address) as client:
        stream = client.open_pack(SCHEMA, LIMITS)
        stream.send(three_graphs())
        assert stream.opened.look_ahead == 64
        assert server.get("/readyz")[0] == 200
        server.process.send_signal(sent)
        server.await_draining()
        assert server.get("/healthz")[0] == 200
        # What a client begins before it hears of the end is served.
        with pytest.raises(PackhouseError) as refused:
            while True:
                list(client.pack_sizes([np.array([[1, 0]])], LIMITS))
        assert refused.value.code is grpc.StatusCode.UNAVAILABLE
        stream.finish()
        assert [len(batch) for batch in stream] == [3]
        assert server.process.wait(20) == 0


def test_a_lame_duck_says_so_and_serves() -> None:
    with ServerProcess("--lame-duck", "1h") as server, Client(server.address) as client:
        server.process.send_signal(signal.SIGTERM)
        server.await_draining()
        assert [len(b) for b in client.pack_sizes([np.array([[1, 0]])], LIMITS)] == [1]
        with Client(server.address) as another:
            assert [len(b) for b in another.pack_sizes([np.array([[1, 0]])], LIMITS)] == [1]
        assert server.process.poll() is None


def test_at_the_deadline_open_streams_get_unavailable() -> None:
    with ServerProcess("--drain-timeout", "0s") as server, Client(server.address) as client:
        stream = client.open_pack(SCHEMA, LIMITS)
        stream.send(three_graphs())
        assert stream.opened.look_ahead == 64
        server.process.send_signal(signal.SIGTERM)
        with pytest.raises(PackhouseError) as ended:
            list(stream)
        assert ended.value.code is grpc.StatusCode.UNAVAILABLE
        assert "draining" in str(ended.value)
        assert server.process.wait(20) == 0


# Supervisors send some signals twice. A repeated signal means "at once" only after a second.
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGQUIT])
def test_a_later_signal_ends_it_at_once(sent: signal.Signals, tmp_path: pathlib.Path) -> None:
    log = tmp_path / "log"
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(log.open("w"))
        server = stack.enter_context(ServerProcess("--drain-timeout", "1h", log=file))
        client = stack.enter_context(Client(server.address))
        stream = client.open_pack(SCHEMA, LIMITS)
        assert stream.opened.look_ahead == 64
        first = time.monotonic()
        code = None
        while code is None:
            server.process.send_signal(sent)
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = server.process.wait(0.05)
        assert code == 128 + sent
        assert time.monotonic() - first >= 1
        stream.close()
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    told = [(line["event"], line.get("signal")) for line in lines]
    assert told[:2] == [("listening", None), ("draining", sent.name)]
    assert set(told[2:-1]) == {("signal repeated", sent.name)}
    assert told[-1] == ("ended at once", sent.name)


def test_signals_that_mean_nothing_end_nothing(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "log"
    ignored = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE)
    with log.open("w") as file, ServerProcess(log=file) as server:
        with Client(server.address) as client:
            stream = client.open_pack(SCHEMA, LIMITS)
            stream.send(three_graphs())
            assert stream.opened.look_ahead == 64
            for sent in ignored:
                server.process.send_signal(sent)
            assert server.get("/readyz")[0] == 200
            server.process.send_signal(signal.SIGTERM)
            server.await_draining()
            for sent in ignored:
                server.process.send_signal(sent)
            stream.finish()
            assert [len(batch) for batch in stream] == [3]
            assert server.process.wait(20) == 0
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    of_signals = [line["signal"] for line in lines if line["event"] == "signal ignored"]
    assert set(of_signals) == {"SIGUSR1", "SIGUSR2"}
    events = [line["event"] for line in lines if line["event"] != "signal ignored"]
    assert [event for event in events if event != "reloading"] == [
        *("listening", "draining", "drained")
    ]
    assert "reloading" in events


def refused(*arguments: str) -> tuple[int, str]:
    """Exit code and message of a server that cannot start: one line of the log is all it says."""
    if "PACKHOUSED" not in os.environ:
        pytest.skip("PACKHOUSED does not name a server program")
    ended = subprocess.run(
        [os.environ["PACKHOUSED"], *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.stdout == ""
    (line,) = ended.stderr.splitlines()
    said = json.loads(line)
    assert said["level"] == "error"
    assert said["event"] in ("bad flag", "cannot start")
    return ended.returncode, said["message"]


@pytest.mark.parametrize(
    ("flag", "value", "missing"),
    [
        ("--listen", "127.0.0.1", "the port is missing"),
        ("--listen", "", "it is empty"),
        ("--listen", ":50051", "the host is missing"),
        ("--listen", "unix:", "has no path"),
        ("--listen", "0.0.0.0:50051", "needs --tls-cert and --tls-key, or --insecure"),
        ("--listen", "[::]:0", "other machines may reach it"),
        ("--tls-cert", "/none", "needs --tls-key"),
        ("--tls-client-ca", "/none", "needs --tls-cert"),
        ("--jwt-keys", "/none", "needs --jwt-audience"),
        ("--http-listen", "0.0.0.0:9464", "needs --http-tls, or --insecure for plain text"),
        ("--http-listen", "127.0.0.1", "the port is missing"),
        ("--http-listen", "127.0.0.1:http", "the port is not a number"),
        ("--worker-threads", "0", "0"),
        ("--drain-timeout", "soon", "'soon' is not a duration"),
        ("--no-such-flag", "x", "--no-such-flag"),
    ],
)
def test_a_bad_flag_is_one_line_that_says_what_is_missing(
    flag: str, value: str, missing: str
) -> None:
    code, message = refused(flag, value)
    assert code == 2
    assert flag in message
    assert missing in message
    assert "--help lists the flags" in message


def test_a_port_in_use_is_an_error_that_names_it() -> None:
    with ServerProcess() as server:
        code, message = refused("--listen", server.address, "--http-listen", "")
        assert code == 1
        assert message == f"cannot listen on '{server.address}': Address already in use"
        code, message = refused("--listen", "127.0.0.1:0", "--http-listen", server.http_address)
        assert code == 1
        assert message == (
            f"HTTP: cannot listen on '{server.http_address}': Address already in use"
        )


def test_other_errors_at_the_start_are_one_line_too(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "file"
    file.touch()
    addresses = ("--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0")
    code, message = refused(*addresses, "--data-dir", str(file))
    assert code == 1
    assert message.startswith("--data-dir: ")
    code, message = refused(*addresses, "--memory-budget", "2000000")
    assert code == 1
    assert "memory_budget" in message or "--memory-budget" in message
    code, message = refused("--listen", f"unix:{tmp_path}/none/socket", "--http-listen", "")
    assert code == 1
    assert "cannot listen on" in message

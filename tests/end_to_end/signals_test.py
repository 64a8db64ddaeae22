"""SIGTERM drains; a second one ends the process at once."""

from __future__ import annotations

import signal
import subprocess

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
                list(client.pack_sizes(np.array([[1, 0]]), LIMITS))
        assert refused.value.code is grpc.StatusCode.UNAVAILABLE
        stream.finish()
        assert [len(batch) for batch in stream] == [3]
        assert server.process.wait(20) == 0


def test_a_lame_duck_says_so_and_serves() -> None:
    with ServerProcess("--lame-duck", "1h") as server, Client(server.address) as client:
        server.process.send_signal(signal.SIGTERM)
        server.await_draining()
        assert [len(b) for b in client.pack_sizes(np.array([[1, 0]]), LIMITS)] == [1]
        with Client(server.address) as another:
            assert [len(b) for b in another.pack_sizes(np.array([[1, 0]]), LIMITS)] == [1]
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


def test_a_second_signal_ends_it_at_once() -> None:
    with ServerProcess("--drain-timeout", "1h") as server, Client(server.address) as client:
        stream = client.open_pack(SCHEMA, LIMITS)
        assert stream.opened.look_ahead == 64
        server.process.send_signal(signal.SIGTERM)
        server.await_draining()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(20) == 128 + signal.SIGTERM
        stream.close()


def test_a_port_in_use_is_an_error_that_names_it() -> None:
    with ServerProcess() as server:
        second = subprocess.run(
            [
                server.process.args[0],
                *("--listen", server.address, "--http-listen", ""),
            ],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        assert second.returncode == 1
        assert f"cannot listen on '{server.address}'" in second.stderr

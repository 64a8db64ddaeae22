"""What counts as away, and which addresses are this machine's own."""

from __future__ import annotations

import logging
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from typing import Any, Callable, Iterator

import grpc
import pytest

from packhouse import Client, GraphSchema, GraphTable, Loader, LocalServer, PackhouseError
from packhouse.base.errors import meaning_of_end, passes
from packhouse.calls.channel import is_own, proxy_variable
from packhouse.calls.retrying import Backoff, UnaryCalls
from packhouse.epochs.settings import nobody_else_loads
from packhouse.files.graph_import import import_graph
from packhouse.v1 import loader_pb2, source_graph_pb2

_ALWAYS = {"UNAVAILABLE", "CANCELLED", "DEADLINE_EXCEEDED"}


@pytest.mark.parametrize("code", [each.name for each in grpc.StatusCode if each.value[0]])
def test_what_passes_is_the_tables_and_nothing_else(code: str) -> None:
    always = code in _ALWAYS
    assert passes(code, "the quota of namespace 'a'") is always
    full = always or code == "RESOURCE_EXHAUSTED"
    assert passes(code, "cannot commit: No space left on device") is full
    assert passes(code, "etcdserver: mvcc: database space exceeded") is full
    cut = always or code == "INTERNAL"
    assert passes(code, "Received RST_STREAM with error code 2") is cut
    calm = full or code == "INTERNAL"
    assert passes(code, "Received RST_STREAM with error code 11") is calm


def test_the_page_says_what_passes() -> None:
    page = pathlib.Path(__file__).parents[2] / "docs" / "operations.md"
    table = page.read_text().partition("## What passes")[2].partition("\n\n\"Yes\"")[0]
    seen = []
    for row in table.splitlines():
        cells = [each.strip() for each in row.strip("|").split("|")]
        if len(cells) != 3 or not cells[2].startswith(("yes", "no:")):
            continue
        ends = re.findall(r"`([A-Z_]+)(?:: ([^`]*))?`", cells[1])
        seen.append((cells[2][:2], len(ends)))
        for code, words in ends:
            assert passes(code, words) is cells[2].startswith("yes"), row
    assert [verdict for verdict, ends in seen if ends] == ["ye"] * 8 + ["no"], seen


def test_an_error_says_its_code_and_its_words() -> None:
    error = PackhouseError(grpc.StatusCode.NOT_FOUND, "data set 'd' is not there")
    assert str(error) == "NOT_FOUND: data set 'd' is not there"
    assert (error.code, error.message) == (grpc.StatusCode.NOT_FOUND, "data set 'd' is not there")


_LEFT = """
import numpy as np
from packhouse import *
for _ in range(3):
    with LocalServer() as server:
        client = Client(server.address)
    try:
        {call}
        raise SystemExit("it has ended well")
    except PackhouseError as error:
        assert error.code.name == "UNAVAILABLE", error
"""


@pytest.mark.parametrize(
    "call",
    [
        "client.administration.snapshot('s')",
        "list(client.receipts.batches('j', 0, [1]))",
        "client.histograms.observe('h', np.array([[1]]), ['nodes'])",
        "client.histograms.observe('h', np.array([[1]]), ['nodes'], producer='p', retry_timeout=1)",
        "list(client.samples.tables(SubGraphs('g', ''), [1]))",
        "list(client.pack_sizes(np.array([[3]]), PackOptions({'nodes': 4}), ['nodes']))",
    ],
)
def test_a_call_that_streams_from_a_server_that_has_left_ends(call: str) -> None:
    subprocess.run([sys.executable, "-c", _LEFT.format(call=call)], check=True, timeout=60)


_EACH_METHOD = """
import importlib, pathlib
import grpc, packhouse.v1
from packhouse import LocalServer
from packhouse.calls.channel import await_server, make_channel

calls, channels = [], []
with LocalServer() as server:
    for path in sorted(pathlib.Path(packhouse.v1.__file__).parent.glob("*_pb2.py")):
        file = importlib.import_module(f"packhouse.v1.{path.stem}").DESCRIPTOR
        for service in file.services_by_name.values():
            stubs = importlib.import_module(f"packhouse.v1.{path.stem}_grpc")
            for method in service.methods:
                if not (method.client_streaming or method.server_streaming):
                    continue
                channels.append(make_channel(server.address))
                await_server(channels[-1], server.address, 10)
                call = getattr(getattr(stubs, service.name + "Stub")(channels[-1]), method.name)
                first = method.input_type._concrete_class()
                calls.append((method.name, call, [first], method.client_streaming))
for name, call, requests, client_streams in calls:
    print(name, flush=True)
    try:
        list(call(iter(requests) if client_streams else requests[0]))
        raise SystemExit("it has ended well")
    except grpc.RpcError as error:
        assert error.code() is grpc.StatusCode.UNAVAILABLE, error
"""


def test_no_stream_waits_for_a_server_that_has_left() -> None:
    """gRPC hears of the server's leaving in the very call, which it begins again, and forgets: each
    method has a channel of its own, so that each is the one that hears it.
    """
    try:
        ended = subprocess.run(
            [sys.executable, "-c", _EACH_METHOD], capture_output=True, text=True, timeout=120
        )
    except subprocess.TimeoutExpired as expired:
        raise AssertionError(f"the last of these hangs: {expired.stdout!r}") from None
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert {"TakeSnapshot", "Append", "Observe", "Load", "Pack"} <= set(ended.stdout.split())


def test_channels_are_made_in_one_place() -> None:
    """Where streams look for the server first."""
    package = pathlib.Path(__file__).parents[2] / "client" / "python" / "packhouse"
    makers = [
        str(path.relative_to(package))
        for path in sorted(package.rglob("*.py"))
        if re.search(r"\b(in)?secure_channel\b|\baio\b", path.read_text())
    ]
    assert makers == ["calls/channel.py"]


_NOWHERE: dict[str, Callable[[Client, Any], Any]] = {
    "append": lambda client, one: client.datasets.append("d", one, retry_timeout=1),
    "append_examples": lambda client, one: client.datasets.append_examples("d", [b""], retry_timeout=1),
    "append again": lambda client, one: client.datasets.append(
        "d", one, retry_timeout=1, producer="p", first_sequence=1
    ),
    "rows": lambda client, one: client.source_graphs.append("g", [], retry_timeout=1),
    "observe": lambda client, one: client.histograms.observe(
        "h", [[[1, 1]]], producer="p", retry_timeout=1
    ),
    "import": lambda client, one: import_graph(client.to, "g", _NoRows(), retry_timeout=1),  # type: ignore
}


def _stop(pid: int) -> None:
    """Until none of its threads works: on a busy machine one may still answer after the signal."""
    os.kill(pid, signal.SIGSTOP)
    threads = pathlib.Path(f"/proc/{pid}/task")
    while any(
        (each / "stat").read_text().rpartition(") ")[2][0] != "T" for each in threads.iterdir()
    ):
        pass


@pytest.mark.parametrize("is_still", [False, True], ids=["away", "still"])
@pytest.mark.parametrize("call", [each for each in _NOWHERE])
def test_all_that_a_call_does_lies_within_its_retry_timeout(call: str, is_still: bool) -> None:
    """Also what it asks before it appends. (A stream to a server that stands still: after 80 s.)"""
    if is_still and call == "observe":
        pytest.skip("streams alone")
    table = GraphTable(GraphSchema(["nodes"]), [[1]])
    with LocalServer() as server, Client(server.address) as client:
        client.to = server.address  # type: ignore[attr-defined]
        if is_still:
            _stop(server.pid)
        else:
            os.kill(server.pid, signal.SIGKILL)
        began = time.monotonic()
        try:
            with pytest.raises(PackhouseError) as raised:
                _NOWHERE[call](client, table)
            seconds = time.monotonic() - began
        finally:
            if is_still:
                os.kill(server.pid, signal.SIGKILL)
    assert raised.value.passes, raised.value
    # A busy machine takes some time for the rest.
    assert seconds < 15, raised.value


def test_the_first_try_is_part_of_the_failing(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("packhouse.calls.retrying.time.monotonic", lambda: now[0])
    monkeypatch.setattr("packhouse.calls.retrying.time.sleep", lambda delay: None)
    deadlines: list[float] = []

    class Silent(grpc.RpcError):  # type: ignore[misc]
        def code(self) -> grpc.StatusCode:
            return grpc.StatusCode.DEADLINE_EXCEEDED

        def details(self) -> str:
            return "silent"

    def method(request: object, *, timeout: float, wait_for_ready: bool) -> None:
        assert not wait_for_ready, "an away server is told at once"
        deadlines.append(timeout)
        now[0] += timeout
        raise Silent

    for retry_timeout, expected in ((0, [2]), (5, [5]), (70, [60, 10]), (61, [60, 2])):
        deadlines.clear()
        with pytest.raises(PackhouseError, match="Get at host:1 was tried again"):
            UnaryCalls("host:1", 60).again(method, None, retry_timeout, "Get")
        assert deadlines == expected


def test_a_deletion_that_was_tried_before_may_find_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("packhouse.calls.retrying.time.sleep", lambda delay: None)

    class Failure(grpc.RpcError):  # type: ignore[misc]
        def __init__(self, code: grpc.StatusCode) -> None:
            self._code = code

        def code(self) -> grpc.StatusCode:
            return self._code

        def details(self) -> str:
            return "why"

    def delete(*codes: grpc.StatusCode) -> int:
        failures = list(codes)
        tries = 0

        def method(request: object, *, timeout: float, wait_for_ready: bool) -> None:
            nonlocal tries
            tries += 1
            if failures:
                raise Failure(failures.pop(0))

        UnaryCalls("host:1", 60).delete(method, None)
        return tries

    away, gone = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.NOT_FOUND
    assert delete() == 1
    assert delete(away) == 2
    # The first try may have worked, and its answer is lost.
    assert delete(away, gone) == 2
    for codes in ((gone,), (away, grpc.StatusCode.PERMISSION_DENIED)):
        with pytest.raises(PackhouseError) as raised:
            delete(*codes)
        assert raised.value.code is codes[-1]


def test_what_a_proxy_did_is_said() -> None:
    assert "a proxy has ended" in meaning_of_end("Received RST_STREAM with error code 2")
    assert "--memory-budget" in meaning_of_end("Received RST_STREAM with error code 11")
    assert "a proxy answered" in meaning_of_end("Received http2 header with status: 502")
    assert "--max-connection-age" in meaning_of_end("enter idle")
    assert meaning_of_end("data set 'd' is not there") == ""


def test_a_failing_that_lasts_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [1000.0]
    monkeypatch.setattr("packhouse.calls.retrying.time.monotonic", lambda: now[0])
    backoff = Backoff(10, call="Load at host:1")
    away = PackhouseError(grpc.StatusCode.UNAVAILABLE, "away")
    with caplog.at_level(logging.WARNING, logger="packhouse"):
        for _ in range(5):
            backoff.delay_after(away)
            now[0] += 0.1
        assert not caplog.messages
        for _ in range(4):
            now[0] += 1
            backoff.delay_after(away)
        assert caplog.messages == [
            "Load at host:1 fails, and is tried again for 8 s: UNAVAILABLE: away"
        ]
        now[0] += 10
        with pytest.raises(PackhouseError, match="away; Load at host:1 was tried again for 1[45] s"):
            backoff.delay_after(away)
        backoff.succeeded()
        # It has waited for an answer already.
        backoff.delay_after(PackhouseError(grpc.StatusCode.DEADLINE_EXCEEDED, "silent"))
        assert len(caplog.messages) == 2


@pytest.mark.parametrize("before", [",", " 127.0.0.1:1 , ,"])
def test_a_client_goes_to_the_first_server_that_answers(server: LocalServer, before: str) -> None:
    with Client(before + server.address, connect_timeout=20) as client:
        client.jobs.list()
        assert server.address in repr(client)


@pytest.mark.parametrize("address", ["", " ", ",", " , "])
def test_an_address_that_names_no_server_is_refused_by_name(address: str) -> None:
    def load() -> None:
        with Loader(address, dataset="set", job="j", limits={"graphs": 1}) as loader:
            next(iter(loader))

    for call in (lambda: Client(address), load):
        with pytest.raises(PackhouseError, match=r"address .* names no server") as refused:
            call()
        assert refused.value.code is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1:1", "127.8.9.1:1", "localhost:1", "LOCALHOST", "[::1]:1", "ipv4:127.0.0.1:1",
     "dns:///localhost:1", "unix:/s"],
)  # fmt: skip
def test_addresses_of_this_machine_need_no_proxy(address: str) -> None:
    assert is_own(address)
    assert proxy_variable(address, {"http_proxy": "http://proxy:1"}) is None


@pytest.mark.parametrize(
    "address",
    ["192.0.2.1:1", "example.org:1", "dns:///example.org:1", "[2001:db8::1]:1", "local.host:1"],
)
def test_those_of_others_may_go_by_one(address: str) -> None:
    assert not is_own(address)
    variables = {"http_proxy": "http://a:1", "https_proxy": "http://b:1"}
    assert proxy_variable(address, variables) == "https_proxy"
    assert proxy_variable(address, {}) is None


def test_a_proxy_of_the_environment_is_not_for_this_machine(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(variable, "http://127.0.0.1:1")
    for variable in ("no_proxy", "no_grpc_proxy"):
        monkeypatch.delenv(variable, raising=False)
    with LocalServer() as server:
        with Client(server.address) as client:
            assert client.histograms.observe("h", [[[1, 1]]]).num_counted == 1
    with pytest.raises(PackhouseError, match="HTTP proxy of the variable grpc_proxy") as raised:
        Client("192.0.2.1:1", connect_timeout=0.6)
    assert raised.value.code is grpc.StatusCode.UNAVAILABLE


class _NoRows:
    """Files of a graph as `import_graph` reads them."""

    fingerprint = "none"
    schema = source_graph_pb2.SourceGraphSchema(
        node_sets=[{"name": "n", "id_kind": source_graph_pb2.NODE_ID_KIND_INTEGER}]
    )

    def requests(self, request_bytes: int) -> Iterator[Any]:
        yield from ()


def test_of_several_servers_the_first_that_answers_is_taken(tmp_path: pathlib.Path) -> None:
    with LocalServer(arguments=("--data-dir", str(tmp_path))) as server:
        several = f"127.0.0.1:1, {server.address}"
        with Client(several) as client:
            assert client.histograms.observe("h", [[[1, 1]]]).num_counted == 1
            assert list(client.source_graphs.list()) == []
        made = import_graph(several, "g", _NoRows(), seal=True)  # type: ignore[arg-type]
        assert made.name == "g" and made.version
    for nothing in ("", " , "):
        for connect in (Client, lambda address: import_graph(address, "g", _NoRows())):  # type: ignore
            with pytest.raises(PackhouseError, match="names no server"):
                connect(nothing)


def test_who_cannot_ask_does_not_say_that_nobody_else_loads() -> None:
    def fails() -> Any:
        raise PackhouseError(grpc.StatusCode.UNAVAILABLE, "it is away")

    assert not nobody_else_loads(loader_pb2.Epoch(epoch=1), fails, num_own=0)

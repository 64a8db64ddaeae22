"""Connections, and what is retried on them, against servers that fail as they are told to."""

from __future__ import annotations

import concurrent.futures
import importlib
import inspect
import json
import pathlib
import re
import socket
import threading
from collections import Counter
from typing import Any, Iterator

import grpc
import grpc.experimental
import numpy as np
import pytest
from random_graphs import molecules

from packhouse import Client, Evaluation, Histogram, Loader, LocalServer, PackhouseError
from packhouse.base.errors import meaning_of
from packhouse.calls import channel as channel_module
from packhouse.calls.channel import HEALTH_CHECK, await_server, make_channel, service_config
from packhouse.calls.credentials import Credentials
from packhouse.epochs.load_connection import LoadConnection
from packhouse.epochs.request import Connecting
from packhouse.v1 import batch_pb2, dataset_pb2, graphs_pb2, loader_pb2
from test_pack_stream import Failure

Code = grpc.StatusCode
HISTOGRAM = Histogram.from_sizes(np.ones((3, 2), np.int64))


class FailingServer(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Fails each method so many times, with what comes first in `failures`; then answers."""

    def __init__(self) -> None:
        self.failures: list[grpc.StatusCode] = []
        self.calls: Counter[str] = Counter()
        self.answers: dict[str, Any] = {}
        # Of all jobs; None: this server.
        self.owner: str | None = None
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
        self._server.add_generic_rpc_handlers((self,))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def stop(self) -> None:
        self._server.stop(None).wait()

    def service(self, details: Any) -> Any:
        method = details.method.rpartition("/")[2]

        def count(context: Any) -> None:
            self.calls[method] += 1
            if self.owner is not None:
                # As service/server/services/job_place.cc.
                context.set_trailing_metadata(
                    (("packhouse-owner", self.owner), ("grpc-retry-pushback-ms", "-1"))
                )
                context.abort(Code.UNAVAILABLE, f"the job is with {self.owner}")
            if self.failures:
                context.abort(self.failures.pop(0), "as it was told to")

        def unary(request: bytes, context: Any) -> bytes:
            count(context)
            answer = self.answers.get(method)
            return b"" if answer is None else bytes(answer.SerializeToString())

        def stream(request: bytes, context: Any) -> Iterator[bytes]:
            parsed = loader_pb2.LoadRequest.FromString(request)
            steps = self.answers[method](parsed)
            for response in steps:
                if response is None:
                    count(context)
                else:
                    yield response.SerializeToString()

        if method == "Load":
            return grpc.unary_stream_rpc_method_handler(stream)
        return grpc.unary_unary_rpc_method_handler(unary)


@pytest.fixture
def failing() -> Iterator[FailingServer]:
    server = FailingServer()
    yield server
    server.stop()


def test_only_methods_that_are_there_are_configured() -> None:
    """gRPC says nothing of others."""
    (config,) = service_config()["methodConfig"]
    modules = [
        importlib.import_module(f"packhouse.v1.{name}_pb2")
        for name in (
            *("admin", "dataset", "feedback", "histogram", "loader", "packing", "partitioning"),
            *("planning", "receipts", "sampling", "source_graph"),
        )
    ]
    there = {
        (service.full_name, method.name)
        for module in modules
        for service in module.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }
    configured = {(name["service"], name["method"]) for name in config["name"]}
    assert configured <= there
    # What would count, store or create twice, or is a stream that goes on by itself.
    assert {method for _, method in there - configured} <= {
        *("Append", "CreateDataset", "DeleteDataset", "DeleteHistogram", "DeleteJob"),
        "DeleteModel",
        *("MergeHistogram", "Observe", "Pack", "AppendSourceGraph", "CreateSourceGraph"),
        *("DeleteSourceGraph", "Sample", "CancelPartition", "DeletePartition", "Partition"),
            "TakeSnapshot",
    }


@pytest.mark.parametrize("code", [Code.UNAVAILABLE, Code.CANCELLED])
def test_what_is_safe_is_tried_again(failing: FailingServer, code: grpc.StatusCode) -> None:
    sealed = dataset_pb2.Dataset(state="DATASET_STATE_SEALED")
    failing.answers["SealDataset"] = sealed
    failing.answers["GetDataset"] = dataset_pb2.GetDatasetResponse(dataset=sealed)
    with Client(failing.address) as client:
        failing.failures = [code, code]
        client.datasets.get("any")
        assert failing.calls["GetDataset"] == 3
        failing.failures = [code]
        client.datasets.seal("any")
        # The first try may have done it.
        failing.failures = [code, Code.NOT_FOUND]
        client.jobs.delete("any")
        assert failing.calls["DeleteJob"] == 2
        failing.failures = [Code.NOT_FOUND]
        with pytest.raises(PackhouseError, match="NOT_FOUND"):
            client.jobs.delete("any")
        # It might count twice.
        for fail in (
            lambda: client.datasets.create("any"),
            lambda: client.histograms.merge("any", HISTOGRAM),
        ):
            failing.failures = [code]
            with pytest.raises(PackhouseError, match=code.name):
                fail()
            assert failing.failures == []
    assert failing.calls["CreateDataset"] == failing.calls["MergeHistogram"] == 1


def test_a_call_about_a_job_goes_on_to_its_owner(failing: FailingServer) -> None:
    """Once, whichever server the client was given; the others say who that is at the first try."""
    failing.answers["GetJob"] = loader_pb2.Job(job="any")
    asked = FailingServer()
    try:
        with Client(asked.address) as client:
            asked.owner = failing.address
            assert client.jobs.get("any").name == "any"
            client.jobs.delete("any")
            assert asked.calls["GetJob"] == failing.calls["GetJob"] == 1
            assert asked.calls["DeleteJob"] == failing.calls["DeleteJob"] == 1
            # It has changed hands.
            asked.owner = None
            client.jobs.get("any")
            assert asked.calls["GetJob"] == 2 and failing.calls["GetJob"] == 1
            # Each says that it is with the other.
            asked.owner, failing.owner = failing.address, asked.address
            with pytest.raises(PackhouseError, match="UNAVAILABLE: the job is with"):
                client.jobs.get("any")
            assert asked.calls["GetJob"] + failing.calls["GetJob"] == 3 + 3
    finally:
        asked.stop()


def batch(step: int) -> Any:
    message = batch_pb2.Batch(id=step, step=step, rows=[0], real_rows=[0])
    loaded = loader_pb2.LoadedBatch(batch=message)
    return loader_pb2.LoadResponse(batch=loaded)


@pytest.mark.parametrize("code", [Code.UNAVAILABLE, Code.CANCELLED])
def test_streams_that_the_server_ends_are_gone_on_with(
    failing: FailingServer, code: grpc.StatusCode
) -> None:
    """Whether it goes away, or only lets go of this one."""
    opened = loader_pb2.LoadOpened(
        generation=4,
        num_steps=6,
        epoch=loader_pb2.Epoch(num_batches=6, num_done=0),
        schema=graphs_pb2.GraphSchema(),
    )
    requests = []

    def steps(request: Any) -> Iterator[Any]:
        requests.append(request)
        yield loader_pb2.LoadResponse(opened=opened)
        first = request.evaluation.first_step
        for step in range(first, min(first + 2, 6)):
            yield batch(step)
        yield None  # Fails, or nothing happens.
        for step in range(first + 2, 6):
            yield batch(step)
        yield loader_pb2.LoadResponse(end_of_epoch=loader_pb2.EndOfEpoch(num_steps=6))

    failing.answers["Load"] = steps
    failing.failures = [code] * 2
    evaluation = Evaluation(failing.address, dataset="d", limits={"nodes": 1})
    assert [each.step for each in evaluation] == [0, 1, 2, 3, 4, 5]
    assert [request.evaluation.first_step for request in requests] == [0, 2, 4]

    requests.clear()
    failing.failures = [code] * 2
    with Loader(failing.address, dataset="d", job="j", limits={"nodes": 1}) as loader:
        failing.answers["Acknowledge"] = loader_pb2.AcknowledgeResponse(cursor="c")
        received = []
        for each in loader:
            received.append(each.step)
            if len(received) == 2:
                # As acknowledgements take of the failures, too.
                loader.flush()
        assert received == [0, 1, 2, 3, 4, 5]
    assert not failing.failures
    assert all(request.generation == 4 for request in requests[1:])


def test_length_waits_for_a_server_that_comes_up(mortal_server: LocalServer) -> None:
    table = molecules(np.random.default_rng(0), 50)
    with Client(mortal_server.address) as client:
        client.datasets.create("d", table.schema)
        client.datasets.append("d", [table])
        client.datasets.seal("d")
    mortal_server.kill()
    words = {"dataset": "d", "limits": {"nodes": 200}}
    asked = threading.Event()

    class Asking(Loader):
        def _connect(self) -> Any:
            asked.set()
            return super()._connect()

    loader = Asking(mortal_server.address, job="j", **words)
    evaluation = Evaluation(mortal_server.address, **words)
    starting = threading.Thread(target=lambda: asked.wait() and mortal_server.start())
    starting.start()
    with loader:
        assert len(loader) == len(list(loader)) == len(evaluation)
    starting.join()


def test_options_replace_what_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, Any]] = []
    monkeypatch.setattr(
        grpc, "insecure_channel", lambda address, options: given.append(dict(options))
    )
    make_channel("localhost:1", max_message_bytes=123, credentials=Credentials())
    mine = {"loadBalancingConfig": [{"round_robin": {}}]}
    make_channel(
        "dns:///localhost:1",
        options=[("grpc.keepalive_time_ms", 5), ("grpc.service_config", json.dumps(mine))],
    )
    plain = {
        "grpc.max_receive_message_length": 123,
        "grpc.max_send_message_length": 123,
        "grpc.use_local_subchannel_pool": 1,
        "grpc.initial_reconnect_backoff_ms": 100,
        "grpc.max_reconnect_backoff_ms": 1000,
        "grpc.keepalive_time_ms": 60_000,
        "grpc.keepalive_timeout_ms": 20_000,
        "grpc.enable_http_proxy": 0,
        "grpc.service_config": json.dumps(service_config()),
    }
    assert given[0] == plain
    assert given[1]["grpc.keepalive_time_ms"] == 5
    assert json.loads(given[1]["grpc.service_config"]) == service_config() | mine
    with pytest.raises(ValueError, match="no JSON object"):
        make_channel("localhost:1", options=[("grpc.service_config", "[]")])
    make_channel("192.0.2.1:1", reads_on_callers_thread=True, credentials=Credentials())
    alone = grpc.experimental.ChannelOptions.SingleThreadedUnaryStream
    whole = plain | {
        "grpc.max_receive_message_length": 64 << 20, "grpc.max_send_message_length": 64 << 20
    }  # fmt: skip
    del whole["grpc.enable_http_proxy"]
    assert given[2] == whole | {alone: 1}


def test_a_secure_channel_knows_the_name_of_its_server(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    monkeypatch.setattr(
        grpc,
        "secure_channel",
        lambda address, made, options: given.append((address, made, dict(options))),
    )
    monkeypatch.setattr(Credentials, "to_grpc", lambda credentials: credentials.tls_ca)
    name = "grpc.ssl_target_name_override"
    make_channel("a:1", credentials=Credentials(tls_ca="ca", tls_server_name="there"))
    mine = Credentials(tls_ca="ca", tls_server_name="there")
    make_channel("a:1", credentials=mine, options=[(name, "here")])
    make_channel("a:1", credentials=Credentials(tls_ca="ca"))
    assert [each[:2] for each in given] == [("a:1", "ca")] * 3
    assert [each[2].get(name) for each in given] == ["there", "here", None]
    assert all(list(each[2]) == sorted(each[2]) for each in given)


def test_calls_are_spread_over_servers_if_asked_to(server: LocalServer) -> None:
    port = server.address.rpartition(":")[2]
    address = f"ipv4:127.0.0.1:{port}"
    with Client(address, options=[("grpc.lb_policy_name", "round_robin")]) as client:
        assert list(client.datasets.list()) is not None


def test_a_channel_is_not_closed_under_a_call_of_another_thread(failing: FailingServer) -> None:
    class Answer:
        """Comes when it is let go."""

        def __init__(self) -> None:
            self.is_asked, self.may_come = threading.Event(), threading.Event()

        def SerializeToString(self) -> bytes:
            self.is_asked.set()
            assert self.may_come.wait(30)
            return b""

    slow = failing.answers["GetEpoch"] = Answer()
    connection = LoadConnection(Connecting(failing.address))
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        asked = thread.submit(connection.call, "GetEpoch", loader_pb2.GetEpochRequest())
        assert slow.is_asked.wait(30)
        # Has a channel of its own from the second try on.
        failing.failures = [Code.UNAVAILABLE]
        connection.call("ReportStep", loader_pb2.ReportStepRequest())
        assert failing.calls["ReportStep"] == 2
        slow.may_come.set()
        asked.result(30)
    assert failing.calls["GetEpoch"] == 1
    connection.close()


def told(address: str) -> str:
    with pytest.raises(PackhouseError) as raised:
        Client(address, connect_timeout=0.1)
    assert raised.value.code is Code.UNAVAILABLE
    return raised.value.message


def test_who_cannot_connect_is_told_why(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as bound:
        # Nobody else gets the port, and nobody listens.
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        assert told(f"127.0.0.1:{port}").endswith(": the connection is refused: no server listens there")
        bound.listen()
        assert told(f"127.0.0.1:{port}").endswith(": what listens there does not answer as gRPC")
    assert told(f"unix:{tmp_path}/none").endswith(": there is no such socket")

    def unknown(*arguments: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr("socket.create_connection", unknown)
    assert told(f"127.0.0.1:{port}").endswith(": the name '127.0.0.1' is not resolved")


def test_every_argument_is_shown() -> None:
    for function in (Loader, Evaluation):
        shown = inspect.signature(function).parameters
        assert {"address", "dataset", "limits", "seed", "padding", "retry_timeout"} <= set(shown)
        assert not any(each.kind is each.VAR_KEYWORD for each in shown.values())
    assert "job" in inspect.signature(Loader).parameters


class Noting:
    """A channel that notes what is done with it."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        self.failure: Exception | None = None

    def __getattr__(self, kind: str) -> Any:
        def method(name: str, **how: Any) -> Any:
            def call(request: Any, **words: Any) -> Any:
                self.done.append((kind, name, how, request, words))
                if name == HEALTH_CHECK and self.failure is not None:
                    raise self.failure
                return kind

            return call

        return method

    def subscribe(self, callback: Any, try_to_connect: bool | None = False) -> None:
        self.done.append(("subscribe", callback, try_to_connect))

    def unsubscribe(self, callback: Any) -> None:
        self.done.append(("unsubscribe", callback))

    def close(self) -> None:
        self.done.append("close")


def test_a_stream_looks_for_its_server_before_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = Noting()
    monkeypatch.setattr(grpc, "insecure_channel", lambda address, options: inner)
    look = ("unary_unary", HEALTH_CHECK, {}, b"", {"timeout": 1.0})
    with make_channel("a:1", credentials=Credentials()) as channel:
        for failure in (None, Failure(Code.UNAVAILABLE, "away")):
            inner.failure = failure
            for kind in ("unary_unary", "unary_stream", "stream_unary", "stream_stream"):
                begin = getattr(channel, kind)("/m", request_serializer=3)
                assert inner.done == [] and begin("r", timeout=2) == kind
                looks = [] if kind == "unary_unary" else [look]
                assert inner.done == [*looks, (kind, "/m", {"request_serializer": 3}, "r", {"timeout": 2})]
                inner.done.clear()
        channel.subscribe(1, True)
        channel.unsubscribe(1)
        assert inner.done == [("subscribe", 1, True), ("unsubscribe", 1)]
    assert inner.done[2:] == ["close"]
    # Where gRPC begins no stream anew.
    bare = make_channel("a:1", options=[("grpc.enable_retries", 0)], credentials=Credentials())
    assert bare is inner


SILENT = Failure(Code.DEADLINE_EXCEEDED, "")


def awaited(address: str, *answers: Any) -> str:
    """Of a server that answers so; what is said of one that does not come within no time."""
    left = list(answers)
    how: list[Any] = []

    class Channel:
        def unary_unary(self, method: str) -> Any:
            assert method == HEALTH_CHECK

            def check(request: bytes, **words: Any) -> bytes:
                how.append(words)
                each = left.pop(0)
                if each is not None:
                    raise each
                return b""

            return check

    try:
        await_server(Channel(), address, 0.0)
    except PackhouseError as error:
        assert error.code is Code.UNAVAILABLE
        said = error.message
    else:
        said = ""
    assert not left and how[0] == {"timeout": 0.0, "wait_for_ready": True}
    assert how[1:] in ([], [{"timeout": 2}])
    return said


def test_any_answer_is_one_and_who_refuses_a_certificate_is_told_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("grpc_proxy", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    away = "unix:/nothing/there"
    assert awaited(away, None) == ""
    assert awaited(away, Failure(Code.UNIMPLEMENTED, "no health")) == ""
    assert awaited(away, SILENT, None) == awaited(away, SILENT, Failure(Code.UNKNOWN, "")) == ""
    within = f"no server at {away} within 0 s"
    for code in (Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED):
        assert awaited(away, SILENT, Failure(code, "")) == f"{within}: there is no such socket"
    for words in ("Socket closed", "Connection reset by peer"):
        told = awaited(away, SILENT, Failure(Code.UNAVAILABLE, words))
        assert told.startswith(f"{within}: the server closes the connection: it may want TLS (tls_ca)")
    refused = "Ssl handshake failed: CERTIFICATE_VERIFY_FAILED"
    told = awaited(away, SILENT, Failure(Code.UNAVAILABLE, refused))
    assert told == f"no server at {away}{meaning_of(refused)}" and "refuses" in told
    monkeypatch.setenv("https_proxy", "http://proxy:1")
    told = awaited("192.0.2.1:1", SILENT, Failure(Code.UNAVAILABLE, ""))
    assert told == (
        "no server at 192.0.2.1:1 within 0 s; the call goes by the HTTP proxy of the variable "
        "https_proxy: no_proxy excepts servers from it"
    )


@pytest.mark.parametrize(
    ("words", "meaning"),
    [
        ("error:0A:CERTIFICATE_VERIFY_FAILED", ": this client refuses .* none of its CAs"),
        ("Hostname there IS NOT IN PEER CERTIFICATE", ": this client refuses .* for another name"),
        ("SSL routines:WRONG_VERSION_NUMBER", ": this client wants TLS, and the server speaks plain"),
        ("ALERT_CERTIFICATE_REQUIRED", ": the server refuses this client's certificate, or wants"),
        ("tlsv1 alert BAD_CERTIFICATE", ": the server refuses this client's certificate, or wants"),
        ("tlsv1 alert unknown CA", ": the server refuses this client's certificate, or wants"),
        ("failed to connect", "$"),
    ],
)
def test_words_about_certificates_say_which_side_refused(words: str, meaning: str) -> None:
    assert re.match(meaning, meaning_of(words))
    told = PackhouseError.of(Failure(Code.UNAVAILABLE, words)).message
    assert told == words + meaning_of(words)
    # Only of a server that cannot be reached.
    assert PackhouseError.of(Failure(Code.INTERNAL, words)).message == words


def test_an_error_says_what_its_end_means() -> None:
    ended = PackhouseError.of(Failure(Code.UNAVAILABLE, "Received RST_STREAM with error code 2"))
    assert ended.message.startswith("Received RST_STREAM with error code 2: a proxy has ended the call")
    assert ended.passes and not PackhouseError.of(Failure(Code.NOT_FOUND, "none")).passes
    assert PackhouseError.of(Failure(Code.NOT_FOUND, None)).message == ""  # type: ignore[arg-type]


def test_what_a_plain_connection_meets_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def fails(error: Exception) -> Any:
        def connect(place: Any, timeout: float) -> Any:
            asked.append((place, timeout))
            raise error

        return connect

    for error, says in (
        (socket.timeout(), ": nothing answers there, as behind a firewall"),
        (ConnectionRefusedError(), ": the connection is refused: no server listens there"),
        (OSError(113, "No route to host"), ": No route to host"),
        (OverflowError("port must be 0-65535"), ": port must be 0-65535"),
    ):
        monkeypatch.setattr(socket, "create_connection", fails(error))
        assert channel_module._why_unreachable("[::1]:7") == says
    assert asked == [(("::1", 7), 0.5)] * 4
    for address in ("dns:///here:7", "here", "here:", ":7", "here:x"):
        assert channel_module._why_unreachable(address) == ""
    assert len(asked) == 4

"""One client does not take the others' turns, places or threads."""

from __future__ import annotations

import contextlib
import pathlib
import subprocess
import sys
import threading
import time
from typing import Callable, Final, Iterator

import grpc
from abuse import Abuse, Row, figure, law, scenario
from hostile import (
    Forwarder,
    median,
    milliseconds,
    num_threads,
    STREAMS_OF_CONNECTION,
    own_channel,
    percentile,
    raw_unary,
    time_calls,
)
from hostile_load import pack_requests, plan_request
from packhouse.v1 import (
    dataset_pb2,
    dataset_pb2_grpc,
    loader_pb2,
    loader_pb2_grpc,
    packing_pb2,
    packing_pb2_grpc,
    planning_pb2_grpc,
)

_HOSTILE_LOAD: Final = pathlib.Path(__file__).resolve().parents[1] / "hostile_load.py"
# A quick call may take so many times as long as on an idle server.
_MOST_TIMES_IDLE: Final = 5
# And a stream so many times as long as on its share of the machine.
_MOST_TIMES_SHARE: Final = 3


@contextlib.contextmanager
def _hostile(address: str, *arguments: str) -> Iterator[None]:
    """Another client that takes what it can get, at 127.0.0.1."""
    process = subprocess.Popen(
        [sys.executable, str(_HOSTILE_LOAD), address, *arguments], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "going\n"
        yield
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _seal_dataset(channel: grpc.Channel) -> None:
    stub = dataset_pb2_grpc.DatasetServiceStub(channel)
    stub.CreateDataset(dataset_pb2.CreateDatasetRequest(name="small"))
    request = dataset_pb2.AppendRequest(dataset="small")
    request.graphs.sizes.num_graphs = 64
    request.graphs.sizes.counts = bytes(64 * 8)
    for _ in stub.Append(iter([request])):
        pass
    stub.SealDataset(dataset_pb2.SealDatasetRequest(name="small"))


def _load_call(channel: grpc.Channel, numbers: Iterator[int]) -> Callable[[], object]:
    """Begins a load of an epoch that is ready, as another worker each time."""
    stub = loader_pb2_grpc.LoaderServiceStub(channel)

    def load() -> object:
        request = loader_pb2.LoadRequest(max_in_flight=1)
        request.epoch.dataset = "small"
        request.epoch.job = "job"
        shape = request.epoch.rank_groups.add().shapes.add()
        shape.capacities.add(component="graphs", rows=8)
        request.dynamic.worker = f"worker {next(numbers)}"
        stream = stub.Load(request)
        opened = next(stream)
        stream.cancel()
        return opened

    return load


@scenario
def planning(abuse: Abuse) -> Iterator[Row]:
    """Endless plans of one client, and quick calls and a plan of another."""
    calls = 20 if abuse.is_short else 400
    tunes, plans = ("1", "4") if abuse.is_short else ("2", "60")
    steps = 10**6 if abuse.is_short else 2 * 10**8
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(abuse.server("--plan-threads", "2", data=True))
        other = stack.enter_context(Forwarder(server.address, 2))
        channel = stack.enter_context(own_channel(other.address))
        _seal_dataset(channel)
        delete = raw_unary(channel, "packhouse.v1.HistogramService/DeleteHistogram")

        def delete_nothing() -> None:
            with contextlib.suppress(grpc.RpcError):
                delete(b"\n\x01h", timeout=30)

        listing = raw_unary(channel, "packhouse.v1.DatasetService/ListDatasets")
        quick: dict[str, Callable[[], object]] = {
            "DeleteHistogram": delete_nothing,
            "ListDatasets": lambda: listing(b"", timeout=30),
            "Load": _load_call(channel, iter(range(10**9))),
        }
        request = plan_request(2_000, steps)
        plan = planning_pb2_grpc.PlanningServiceStub(channel).Plan
        for call in quick.values():
            time_calls(call, 10)
        idle = {name: time_calls(call, calls) for name, call in quick.items()}
        alone = median(time_calls(lambda: plan(request), 3))
        with _hostile(server.address, "plan", "--tunes", tunes, "--plans", plans):
            busy = {name: time_calls(call, calls) for name, call in quick.items()}
            beside = median(time_calls(lambda: plan(request), 3))
            threads = num_threads(server.process.pid)
        for name in quick:
            least, most = percentile(idle[name], 0.99), percentile(busy[name], 0.99)
            yield figure(
                f"p99 of {name} beside {tunes} Tune and {plans} Plan",
                f"{milliseconds(most)}, idle {milliseconds(least)}: {most / least:.1f} times",
                f"{_MOST_TIMES_IDLE} times",
                most <= _MOST_TIMES_IDLE * least,
            )
        yield figure(
            "Plan of another client",
            f"{beside:.2f} s, alone {alone:.2f} s: {alone / beside:.2f} of a thread",
            "1/2 of the planning threads, of which it can use one",
            alone / beside >= 0.5,
        )
        yield law("threads", str(threads), "at most 150", threads <= 150)


@scenario
def packing(abuse: Abuse) -> Iterator[Row]:
    """Streams of one client that are as slow as can be, and a short one of another."""
    rounds = 1 if abuse.is_short else 9
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(abuse.server("--worker-threads", "2"))
        other = stack.enter_context(Forwarder(server.address, 2))
        channel = stack.enter_context(own_channel(other.address))
        stub = packing_pb2_grpc.PackingServiceStub(channel)
        requests = list(pack_requests(look_ahead=64, nodes=8192, chunks=1))

        def pack() -> int:
            graphs = 0
            for response in stub.Pack(iter(requests)):
                graphs += len(response.batch.graph_ids) // 8
            assert graphs == requests[1].sizes.num_graphs
            return graphs

        alone = median(time_calls(pack, max(3, rounds)))
        with _hostile(server.address, "pack"):
            taken = time_calls(pack, rounds)
        share = 2 * alone
        yield figure(
            "a stream beside three hostile ones",
            f"{median(taken):.3f} s, at most {max(taken):.3f} s, alone {alone:.3f} s: "
            f"{median(taken) / share:.1f} times its share",
            f"{_MOST_TIMES_SHARE} times",
            median(taken) <= _MOST_TIMES_SHARE * share,
        )


@scenario
def idle_streams(abuse: Abuse) -> Iterator[Row]:
    """A client that opens every stream it can and says nothing."""
    most, timeout = (64, 4) if abuse.is_short else (1024, 15)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(
            abuse.server("--max-streams", str(most), "--stream-idle-timeout", f"{timeout}s")
        )
        hostile = [
            packing_pb2_grpc.PackingServiceStub(
                stack.enter_context(own_channel(server.address, number))
            )
            for number in range(most // STREAMS_OF_CONNECTION + 1)
        ]
        other = stack.enter_context(Forwarder(server.address, 2))
        channel = stack.enter_context(own_channel(other.address))
        threads = num_threads(server.process.pid)
        opening = next(pack_requests(look_ahead=64, nodes=8192, chunks=0))
        silent = threading.Event()
        stack.callback(silent.set)

        def only_open() -> Iterator[packing_pb2.PackRequest]:
            yield opening
            silent.wait()

        opened = []
        refusal: grpc.RpcError | None = None
        while refusal is None and len(opened) < most:
            stream = hostile[len(opened) // STREAMS_OF_CONNECTION].Pack(only_open())
            try:
                next(stream)
                opened.append(stream)
            except grpc.RpcError as error:
                refusal = error
        yield law(
            "streams of one client", f"{len(opened)} of {most}", "half", len(opened) == most // 2
        )
        named = refusal is not None and "client '127.0.0.1'" in (refusal.details() or "")
        yield law(
            "the next one", str(refusal and refusal.details()), "names client and bound", named
        )
        graphs = 0
        requests = list(pack_requests(look_ahead=64, nodes=8192, chunks=1))
        for response in packing_pb2_grpc.PackingServiceStub(channel).Pack(iter(requests)):
            graphs += len(response.batch.graph_ids) // 8
        expected = requests[1].sizes.num_graphs
        yield law("another client's stream", f"{graphs} graphs", str(expected), graphs == expected)
        more = num_threads(server.process.pid) - threads
        yield law("threads of idle streams", str(more), "at most 16", more <= 16)
        started = time.monotonic()
        codes = set()
        for stream in opened:
            try:
                next(stream)
            except grpc.RpcError as error:
                codes.add(error.code())
        yield law(
            "idle streams end", str(codes), "UNAVAILABLE", codes == {grpc.StatusCode.UNAVAILABLE}
        )
        taken = time.monotonic() - started
        bound = 1.25 * timeout + 2
        yield figure("and soon", f"{taken:.1f} s", f"{bound:.1f} s", taken <= bound)

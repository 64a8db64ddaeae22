"""Plans, epochs and named histograms: bytes of the budget, whatever clients ask for."""

from __future__ import annotations

import contextlib
import functools
import random
import threading
import time
from typing import Callable, Final, Iterator

import grpc
from abuse import Abuse, Row, figure, law, scenario
from hostile import MemorySampler, anonymous_bytes, own_channel
from packhouse.v1 import (
    dataset_pb2,
    dataset_pb2_grpc,
    histogram_pb2,
    histogram_pb2_grpc,
    loader_pb2,
    loader_pb2_grpc,
)

_MEBIBYTE: Final = 1 << 20
# The least that goes with messages of 64 MiB.
_BUDGET: Final = 512 * _MEBIBYTE
# What a process may take: the budget, 15 % of it, and what it needs besides.
_BOUND: Final = _BUDGET * 115 // 100 + 128 * _MEBIBYTE
# What nobody uses may stay: an eighth of the quarter that work is done with; and some for the
# allocator.
_LEFT: Final = _BUDGET // 32 + 64 * _MEBIBYTE
_NAME: Final = "graphs"
_NUM_GRAPHS: Final = 1000


def _mebibytes(count: int) -> str:
    return f"{count / _MEBIBYTE:.0f} MiB"


def _fill(address: str) -> None:
    """A sealed data set of graphs of some sizes."""
    with own_channel(address) as channel:
        stub = dataset_pb2_grpc.DatasetServiceStub(channel)
        stub.CreateDataset(dataset_pb2.CreateDatasetRequest(name=_NAME))
        request = dataset_pb2.AppendRequest(dataset=_NAME)
        request.graphs.sizes.num_graphs = _NUM_GRAPHS
        sizes = random.Random(1)
        request.graphs.sizes.counts = b"".join(
            sizes.randrange(1, 40).to_bytes(4, "little") for _ in range(2 * _NUM_GRAPHS)
        )
        list(stub.Append(iter([request])))
        stub.SealDataset(dataset_pb2.SealDatasetRequest(name=_NAME))


def _draw(job: str, epoch: int, num_graphs: int) -> loader_pb2.GetEpochRequest:
    request = loader_pb2.GetEpochRequest()
    spec = request.epoch
    spec.dataset = _NAME
    spec.job = job
    spec.epoch = epoch
    limits = spec.rank_groups.add().shapes.add()
    for component, rows in (("nodes", 200), ("edges", 200), ("graphs", 32)):
        limits.capacities.add(component=component, rows=rows)
    spec.draw.num_graphs = num_graphs
    spec.draw.with_replacement = True
    return request


def _code_of(call: Callable[[], object]) -> grpc.StatusCode:
    try:
        call()
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


def _attack(clients: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=client) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _memory_rows(abuse: Abuse, pid: int, sampler: MemorySampler, what: str) -> Iterator[Row]:
    """While it lasted, and 30 s later."""
    seen = _mebibytes(sampler.peak)
    yield law(f"memory while {what}", seen, _mebibytes(_BOUND), sampler.peak <= _BOUND)
    until = time.monotonic() + (2 if abuse.is_short else 30)
    while (left := anonymous_bytes(pid) - sampler.first) > _LEFT and time.monotonic() < until:
        time.sleep(0.2)
    yield figure(
        "memory afterwards, above what it was", _mebibytes(left), _mebibytes(_LEFT), left <= _LEFT
    )


@scenario
def huge_draws(abuse: Abuse) -> Iterator[Row]:
    """Epochs of more graphs than there is memory for, and of as many as there is."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(abuse.server(f"--memory-budget={_BUDGET}", data=True))
        _fill(server.address)
        until = time.monotonic() + abuse.seconds
        codes: list[grpc.StatusCode] = []
        largest: list[grpc.StatusCode] = []

        def client(number: int) -> None:
            with own_channel(server.address, number) as channel:
                get_epoch = loader_pb2_grpc.LoaderServiceStub(channel).GetEpoch
                epoch = 0
                while epoch == 0 or time.monotonic() < until:
                    request = _draw(f"job-{number}", epoch, (1 << 32) - 1)
                    largest.append(_code_of(lambda: get_epoch(request, timeout=240)))
                    # Some fit together, all do not.
                    request = _draw(f"job-{number}", epoch, 500_000 * (1 + epoch % 12))
                    codes.append(_code_of(lambda: get_epoch(request, timeout=240)))
                    epoch += 1

        sampler = MemorySampler(server.process.pid)
        with sampler:
            _attack([functools.partial(client, number) for number in range(4)])
        yield law(
            "a draw of 2^32 - 1 graphs",
            ", ".join(sorted({code.name for code in largest})),
            "RESOURCE_EXHAUSTED",
            set(largest) == {grpc.StatusCode.RESOURCE_EXHAUSTED},
        )
        expected = {grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED}
        yield law(
            f"{len(codes)} draws of up to 6,000,000 graphs",
            ", ".join(f"{codes.count(code)} {code.name}" for code in set(codes)),
            "made or refused, some made",
            set(codes) <= expected and grpc.StatusCode.OK in codes,
        )
        yield from _memory_rows(abuse, server.process.pid, sampler, "epochs are drawn")


@scenario
def many_histograms(abuse: Abuse) -> Iterator[Row]:
    """Named histograms from several clients, of sizes that are all different."""
    components = [f"c{k}" for k in range(16)]
    graphs = 1 << (13 if abuse.is_short else 16)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(abuse.server(f"--memory-budget={_BUDGET}"))
        until = time.monotonic() + abuse.seconds
        codes: list[grpc.StatusCode] = []

        def client(number: int) -> None:
            sizes = random.Random(number)
            with own_channel(server.address, number) as channel:
                observe = histogram_pb2_grpc.HistogramServiceStub(channel).Observe
                name = 0
                while name == 0 or time.monotonic() < until:
                    request = histogram_pb2.ObserveRequest(
                        histogram=f"h-{number}-{name}", components=components
                    )
                    request.sizes.num_graphs = graphs
                    request.sizes.counts = sizes.randbytes(4 * 16 * graphs)
                    requests = [request] * (1 if abuse.is_short else 2)
                    codes.append(_code_of(lambda: list(observe(iter(requests), timeout=60))))
                    name += 1
                    if codes[-1] is not grpc.StatusCode.OK and abuse.is_short:
                        break

        sampler = MemorySampler(server.process.pid)
        with sampler:
            _attack([functools.partial(client, number) for number in range(4)])
        expected = {grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED}
        yield law(
            f"{len(codes)} histograms of {graphs} sizes of 16 components",
            ", ".join(f"{codes.count(code)} {code.name}" for code in set(codes)),
            "made or refused, some made",
            set(codes) <= expected and grpc.StatusCode.OK in codes,
        )
        with own_channel(server.address) as channel:
            delete = histogram_pb2_grpc.HistogramServiceStub(channel).DeleteHistogram
            for number in range(4):
                for name in range(len(codes)):
                    request = histogram_pb2.DeleteHistogramRequest(histogram=f"h-{number}-{name}")
                    if _code_of(lambda: delete(request, timeout=60)) is not grpc.StatusCode.OK:
                        break
        yield from _memory_rows(abuse, server.process.pid, sampler, "histograms are observed")

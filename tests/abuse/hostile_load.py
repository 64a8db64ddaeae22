"""A client that takes what it can get, as a process of its own.

    python3 hostile_load.py ADDRESS pack --streams 3
    python3 hostile_load.py ADDRESS plan --tunes 2 --plans 60

Writes "going" once every stream or call has begun, and goes on until it is killed.
"""

from __future__ import annotations

import argparse
import itertools
import random
import struct
import threading
from typing import Final, Iterator

import grpc
from hostile import own_channel
from packhouse.v1 import (
    packing_pb2,
    packing_pb2_grpc,
    planning_pb2,
    planning_pb2_grpc,
    sizes_pb2,
)

_LOOK_AHEAD: Final = 16384
_BATCH_GRAPHS: Final = 65536
_CHUNK_GRAPHS: Final = 65536
_ENDLESS_STEPS: Final = 10**11
# Some seconds of one core.
_PLAN_STEPS: Final = 10**9


def histogram(distinct: int, seed: int) -> sizes_pb2.Histogram:
    """Sizes that are hard to fit together."""
    numbers = random.Random(seed)
    tuples = sorted(
        {(numbers.randrange(1, 2000), numbers.randrange(1, 4000)) for _ in range(distinct)}
    )
    counts = [numbers.randrange(1, 50) for _ in tuples]
    return sizes_pb2.Histogram(
        components=["nodes", "edges"],
        tuples=struct.pack(f"<{2 * len(tuples)}I", *itertools.chain.from_iterable(tuples)),
        counts=struct.pack(f"<{len(counts)}Q", *counts),
        num_graphs=sum(counts),
    )


def plan_request(distinct: int, steps: int) -> planning_pb2.PlanRequest:
    """Asks for a plan that takes so many steps, or as many as are of use."""
    request = planning_pb2.PlanRequest(
        histogram=histogram(distinct, 1), budget_steps=steps, summaries_only=True
    )
    request.limits.capacities.add(component="nodes", rows=4096)
    request.limits.capacities.add(component="edges", rows=8192)
    return request


def pack_requests(
    look_ahead: int, nodes: int, chunks: int | None, edges: int = 0
) -> Iterator[packing_pb2.PackRequest]:
    """A stream of sizes; endless without `chunks`. Harder to pack with a limit on edges."""
    opening = packing_pb2.PackRequest()
    opening.open.limits.capacities.add(component="nodes", rows=nodes)
    if edges:
        opening.open.limits.capacities.add(component="edges", rows=edges)
    opening.open.limits.capacities.add(component="graphs", rows=_BATCH_GRAPHS)
    opening.open.look_ahead = look_ahead
    yield opening
    numbers = random.Random(7)
    drawn = [numbers.randrange(1, 256) for _ in range(2 * _CHUNK_GRAPHS)]
    counts = struct.pack(f"<{2 * _CHUNK_GRAPHS}I", *drawn)
    for chunk in itertools.count() if chunks is None else range(chunks):
        request = packing_pb2.PackRequest()
        request.sizes.num_graphs = _CHUNK_GRAPHS
        request.sizes.counts = counts
        request.sizes.first_id = chunk * _CHUNK_GRAPHS
        yield request


def _pack(address: str, number: int, going: threading.Semaphore) -> None:
    with own_channel(address, number) as channel:
        # Batches as large as can be, or as hard to fill.
        nodes, edges = ((256 * _BATCH_GRAPHS, 0), (1024, 1024), (65536, 65536))[number % 3]
        stub = packing_pb2_grpc.PackingServiceStub(channel)
        for count, _ in enumerate(stub.Pack(pack_requests(_LOOK_AHEAD, nodes, None, edges))):
            if count == 1:
                going.release()


def _tune(address: str, number: int, going: threading.Semaphore) -> None:
    request = planning_pb2.TuneRequest(histogram=histogram(2000, 2), budget_steps=_ENDLESS_STEPS)
    for component in ("nodes", "edges"):
        request.profile.components.add(
            component=component, min_rows=4000, max_rows=65536, relative_cost=1
        )
    with own_channel(address, number) as channel:
        for count, _ in enumerate(planning_pb2_grpc.PlanningServiceStub(channel).Tune(request)):
            if count == 0:
                going.release()


def _plan(address: str, number: int, going: threading.Semaphore) -> None:
    request = plan_request(20_000, _PLAN_STEPS)
    with own_channel(address, number) as channel:
        stub = planning_pb2_grpc.PlanningServiceStub(channel)
        for count in itertools.count():
            call = stub.Plan.future(request)
            if count == 0:
                going.release()
            try:
                call.result()
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                    raise


def main() -> None:
    """Begins all, then waits to be killed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("address")
    parser.add_argument("what", choices=["pack", "plan"])
    parser.add_argument("--streams", type=int, default=3)
    parser.add_argument("--tunes", type=int, default=2)
    parser.add_argument("--plans", type=int, default=60)
    options = parser.parse_args()
    going = threading.Semaphore(0)
    if options.what == "pack":
        targets = [_pack] * options.streams
    else:
        targets = [_tune] * options.tunes + [_plan] * options.plans
    for number, target in enumerate(targets):
        threading.Thread(target=target, args=(options.address, number, going), daemon=True).start()
    for _ in targets:
        going.acquire()
    print("going", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()

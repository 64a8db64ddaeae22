"""What a batch, an epoch, an append and an idle minute cost in calls of etcd and S3.

    cluster_costs.py [--batches 400] [--appends 50] [--workers 8] [--step 0] [--seconds 10]

One packhoused over a real etcd and a real S3 server on loopback. etcd counts its calls itself; a
front counts the requests to S3. Counts do not depend on the machine; nothing is timed.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from typing import Final, Iterable

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "end_to_end"))
# pylint: disable=wrong-import-position
from etcd_process import EtcdProcess, free_port
from s3_front import S3Front
from s3_process import BUCKET, S3Process

from packhouse import Client, GraphSchema, GraphTable, Loader, LocalServer, TensorSpec

_SCHEMA: Final = GraphSchema(("nodes",), (TensorSpec("x", "float32", "nodes"),))
_HANDLED: Final = re.compile(r'^grpc_server_handled_total\{grpc_code="OK",grpc_method="(\w+)".* (\d+)')


def etcd_calls(address: str) -> collections.Counter[str]:
    """How often each method was called, of those that packhouse calls; and the keys put."""
    with urllib.request.urlopen(f"http://{address}/metrics") as page:
        lines = page.read().decode().splitlines()
    calls: collections.Counter[str] = collections.Counter()
    for line in lines:
        if (match := _HANDLED.match(line)) and match[1] in ("Range", "Txn"):
            calls[match[1]] += int(match[2])
        elif line.startswith("etcd_server_proposals_committed_total"):
            calls["writes to its log"] = int(float(line.split()[1]))
        elif line.startswith("etcd_mvcc_db_total_size_in_use_in_bytes"):
            calls["bytes"] = int(float(line.split()[1]))
    return calls


class Costs:
    """Counts requests to etcd and to the object store, and prints them."""

    def __init__(self, etcd: EtcdProcess, front: S3Front) -> None:
        self._etcd = etcd
        self._front = front
        self._then = self._now()

    def begin(self) -> None:
        """Counts from now on."""
        self._then = self._now()

    def tell(self, what: str, count: int) -> None:
        """What there was since `begin`, for each of so many."""
        etcd_now, s3_now = self._now()
        etcd_then, s3_then = self._then
        words = [
            f"{(etcd_now[name] - etcd_then[name]) / count:8.2f} {name}" for name in sorted(etcd_now)
        ] + [
            f"{(s3_now[name] - s3_then.get(name, 0)) / count:8.2f} {name}"
            for name in sorted(s3_now)
            if s3_now[name] != s3_then.get(name, 0)
        ]
        print(f"{what}: {', '.join(words)}", flush=True)

    def _now(self) -> tuple[collections.Counter[str], dict[str, int]]:
        return etcd_calls(self._etcd.address), dict(self._front.requests)


def steps(batches: Iterable[object], seconds: float) -> int:
    """A worker that needs so long for each batch; how many there were."""
    count = 0
    for _ in batches:
        count += 1
        time.sleep(seconds)
    return count


def measure_data_set(costs: Costs, address: str, options: argparse.Namespace) -> None:
    """A data set is made of appends."""
    table = GraphTable(
        _SCHEMA,
        np.full((2 * options.batches // options.appends, 1), 100),
        {"x": np.zeros(200 * options.batches // options.appends, np.float32)},
    )
    with Client(address) as client:
        costs.begin()
        client.datasets.create("set", _SCHEMA)
        costs.tell("a data set made", 1)
        costs.begin()
        for number in range(options.appends):
            client.datasets.append("set", [table], producer="p", first_sequence=number + 1)
        costs.tell("an append by one producer", options.appends)
        client.datasets.seal("set")
        costs.begin()
        client.datasets.get("set")
        costs.tell("GetDataset", 1)


def measure_epochs(costs: Costs, address: str, options: argparse.Namespace) -> None:
    """One worker loads two epochs of it."""
    with Loader(
        address, dataset="set", job="job", seed=1, limits={"graphs": 2}, max_in_flight=8
    ) as loader:
        for epoch, where in enumerate(("not in the cache", "in the cache")):
            loader.set_epoch(epoch)
            costs.begin()
            batches = iter(loader)
            next(batches)
            costs.tell(f"an epoch begun, the data set {where}", 1)
            costs.begin()
            count = steps(batches, options.step)
            costs.tell(f"a batch of {count}, by one worker", count)


def measure_workers(costs: Costs, address: str, options: argparse.Namespace) -> None:
    """Several workers share an epoch of it."""
    counts: list[int] = []

    def load(worker: int) -> None:
        with Loader(
            address, dataset="set", job="shared", seed=1, limits={"graphs": 2}, worker=f"w{worker}"
        ) as shared:
            counts.append(steps(shared, options.step))

    costs.begin()
    workers = [threading.Thread(target=load, args=(i,)) for i in range(options.workers)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    count = sum(counts)
    costs.tell(f"a batch of {count}, by {options.workers} workers of a job", count)


def main() -> int:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--packhoused", help="default: $PACKHOUSED, then PATH")
    parser.add_argument("--batches", type=int, default=400)
    parser.add_argument("--appends", type=int, default=50)
    parser.add_argument("--workers", type=int, default=8, help="of a job")
    parser.add_argument("--step", type=float, default=0.0, help="seconds that a worker needs for a batch")
    parser.add_argument("--seconds", type=float, default=10.0, help="of rest")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        s3 = stack.enter_context(S3Process(folder / "s3"))
        front = stack.enter_context(S3Front(s3.address))
        etcd = stack.enter_context(EtcdProcess(folder / "etcd", compacting=False))
        address = f"127.0.0.1:{free_port()}"
        server = stack.enter_context(
            LocalServer(
                options.packhoused,
                listen=address,
                arguments=[
                    *(f"--ledger=etcd://{etcd.address}/test", f"--advertise={address}"),
                    *(f"--store=s3://{BUCKET}", f"--s3-endpoint=http://{front.address}"),
                    *(f"--s3-credentials={s3.credentials}", f"--cache-dir={folder / 'cache'}"),
                    *(f"--signing-key={folder / 'key'}",),
                ],
                log=subprocess.DEVNULL,
            )
        )
        costs = Costs(etcd, front)
        time.sleep(options.seconds)
        costs.tell("a second of rest", int(options.seconds))
        measure_data_set(costs, server.address, options)
        measure_epochs(costs, server.address, options)
        measure_workers(costs, server.address, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())

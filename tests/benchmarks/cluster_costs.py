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

        def measured(what: str, count: int, begun: tuple[collections.Counter[str], dict[str, int]]) -> None:
            etcd_now, s3_now = etcd_calls(etcd.address), dict(front.requests)
            etcd_then, s3_then = begun
            words = [
                f"{(etcd_now[name] - etcd_then[name]) / count:8.2f} {name}" for name in sorted(etcd_now)
            ] + [
                f"{(s3_now[name] - s3_then.get(name, 0)) / count:8.2f} {name}"
                for name in sorted(s3_now)
                if s3_now[name] != s3_then.get(name, 0)
            ]
            print(f"{what}: {', '.join(words)}", flush=True)

        def steps(batches: Iterable[object]) -> int:
            count = 0
            for _ in batches:
                count += 1
                time.sleep(options.step)
            return count

        def now() -> tuple[collections.Counter[str], dict[str, int]]:
            return etcd_calls(etcd.address), dict(front.requests)

        begun = now()
        time.sleep(options.seconds)
        measured("a second of rest", int(options.seconds), begun)
        table = GraphTable(
            _SCHEMA,
            np.full((2 * options.batches // options.appends, 1), 100),
            {"x": np.zeros(200 * options.batches // options.appends, np.float32)},
        )
        with Client(server.address) as client:
            begun = now()
            client.datasets.create("set", _SCHEMA)
            measured("a data set made", 1, begun)
            begun = now()
            for number in range(options.appends):
                client.datasets.append("set", [table], producer="p", first_sequence=number + 1)
            measured("an append by one producer", options.appends, begun)
            client.datasets.seal("set")
            begun = now()
            client.datasets.get("set")
            measured("GetDataset", 1, begun)
        with Loader(
            server.address, dataset="set", job="job", seed=1, limits={"graphs": 2}, max_in_flight=8
        ) as loader:
            for epoch in range(2):
                loader.set_epoch(epoch)
                begun = now()
                batches = iter(loader)
                next(batches)
                measured(
                    "an epoch begun, the data set not in the cache" if epoch == 0
                    else "an epoch begun, the data set in the cache",
                    1,
                    begun,
                )
                begun = now()
                count = steps(batches)
                measured(f"a batch of {count}, by one worker", count, begun)
        begun = now()
        counts: list[int] = []

        def load(worker: int) -> None:
            with Loader(
                server.address,
                dataset="set",
                job="shared",
                seed=1,
                limits={"graphs": 2},
                worker=f"w{worker}",
            ) as shared:
                counts.append(steps(shared))

        workers = [threading.Thread(target=load, args=(i,)) for i in range(options.workers)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        count = sum(counts)
        measured(f"a batch of {count}, by {options.workers} workers of a job", count, begun)
    return 0


if __name__ == "__main__":
    sys.exit(main())

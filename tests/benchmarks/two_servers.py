"""Two servers that share jobs and data sets beside one of them, each with half of a core.

    two_servers.py [--packhoused BINARY] [--share 0.5] [--seconds 8] [--rounds 3] [--jobs 4]

Real servers, a real etcd and a real S3 server on loopback. Each job has one worker, a process that
loads epoch after epoch from caches that are full. Rounds of one server and of two take turns; the
ratio of their batches is what matters, 1.7 at least. A server's share of a core is bounded by the
kernel (a cgroup), so root is needed; exits with status 77 where there is none, and with 1 if the
ratio is missed. Workers need the rest of the machine: their use of it is printed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Final, Iterator

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "end_to_end"))
# pylint: disable=wrong-import-position
from etcd_process import EtcdProcess
from replica_process import Replica, cluster, owner_of
from s3_process import BUCKET, S3Process

from packhouse import Client, GraphSchema, GraphTable, Loader, TensorSpec

_NEEDED: Final = 1.7
_SCHEMA: Final = GraphSchema(tensors=(TensorSpec("x", "float32", "nodes", (16,)),))
_LIMITS: Final = {"nodes": 4096, "edges": 4096, "graphs": 512}
_GRAPHS: Final = 20_000
_PERIOD_US: Final = 20_000
_CGROUPS: Final = pathlib.Path("/sys/fs/cgroup")


class Bounded:
    """A group of processes that together get a share of one core."""

    def __init__(self, name: str, share: float) -> None:
        quota = int(share * _PERIOD_US)
        old = _CGROUPS / "cpu" / "cpu.cfs_quota_us"
        self.folder = (_CGROUPS / "cpu" if old.exists() else _CGROUPS) / name
        self.folder.mkdir()
        if old.exists():
            (self.folder / "cpu.cfs_period_us").write_text(str(_PERIOD_US), encoding="ascii")
            (self.folder / "cpu.cfs_quota_us").write_text(str(quota), encoding="ascii")
        else:
            (self.folder / "cpu.max").write_text(f"{quota} {_PERIOD_US}", encoding="ascii")

    def add(self, pid: int) -> None:
        """With all its threads."""
        (self.folder / "cgroup.procs").write_text(str(pid), encoding="ascii")

    def remove(self) -> None:
        """When its processes have ended."""
        for _ in range(50):
            with contextlib.suppress(OSError):
                self.folder.rmdir()
                return
            time.sleep(0.1)


def fill_large(client: Client) -> None:
    """Some 2 KiB a graph."""
    random = np.random.default_rng(19)
    sizes = np.stack([random.integers(8, 56, _GRAPHS), np.zeros(_GRAPHS, np.int64)], axis=1)
    rows = random.random((int(sizes[:, 0].sum()), 16), np.float32)
    client.datasets.create("large", _SCHEMA)
    client.datasets.append("large", [GraphTable(_SCHEMA, sizes.astype(np.uint32), {"x": rows})])
    client.datasets.seal("large")


def work(options: argparse.Namespace) -> int:
    """A worker: says the time of each batch's arrival, a line for each tenth of a second."""
    with Loader(
        options.address,
        dataset="large",
        job=options.job,
        seed=5,
        limits=_LIMITS,
        max_in_flight=16,
        worker="only",
    ) as loader:
        said, count, num_bytes = time.monotonic(), 0, 0
        for epoch in range(1_000_000):
            loader.set_epoch(epoch)
            for batch in loader:
                count += 1
                num_bytes += batch["x"].nbytes
                if (now := time.monotonic()) - said < 0.1:
                    continue
                usage = resource.getrusage(resource.RUSAGE_SELF)
                used = usage.ru_utime + usage.ru_stime
                try:
                    print(now, count, num_bytes, used, flush=True)
                except BrokenPipeError:
                    os._exit(0)
                said, count, num_bytes = now, 0, 0
    return 0


def measure(options: argparse.Namespace, replicas: list[Replica], label: str) -> tuple[float, float]:
    """Batches a second of all jobs, and the cores that the workers use."""
    address = ",".join(replica.advertised for replica in replicas)
    workers = [
        subprocess.Popen(
            [
                *(sys.executable, "-B", os.path.abspath(__file__), "--work", "--address", address),
                *("--job", f"{label}-{i}"),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        for i in range(options.jobs)
    ]
    try:
        # All have begun, and the first epochs have filled what is to be filled.
        begun = time.monotonic() + options.seconds / 2
        ended = begun + options.seconds
        counts = used = 0.0
        for worker in workers:
            assert worker.stdout is not None
            first = last = 0.0
            for line in worker.stdout:
                now, count, _, cpu = map(float, line.split())
                if now < begun:
                    first = cpu
                    continue
                if now > ended:
                    break
                counts += count
                last = cpu
            used += last - first
        return counts / options.seconds, used / options.seconds
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


@contextlib.contextmanager
def servers(options: argparse.Namespace, folder: pathlib.Path) -> Iterator[list[Replica]]:
    """Two, each with its share of a core."""
    with contextlib.ExitStack() as stack:
        s3 = stack.enter_context(S3Process(folder / "s3"))
        etcd = stack.enter_context(EtcdProcess(folder / "etcd", compacting=False))
        bounds = [Bounded(f"packhouse-{os.getpid()}-{i}", options.share) for i in range(2)]
        for bound in bounds:
            stack.callback(bound.remove)
        store = (
            f"--store=s3://{BUCKET}/two",
            f"--s3-endpoint={s3.endpoint}",
            f"--s3-credentials={s3.credentials}",
        )
        folders = [folder / f"cache{i}" for i in range(2)]
        replicas = stack.enter_context(
            cluster(etcd, folders, folder / "key", 10, options.packhoused, shared_store=store)
        )
        with Client(replicas[0].advertised) as client:
            fill_large(client)
        for replica, bound in zip(replicas, bounds, strict=True):
            bound.add(replica.pid)
        yield replicas


def spread(replicas: list[Replica], jobs: int, label: str) -> str:
    """A label with which each server has as many of the jobs."""
    for attempt in range(200):
        named = f"{label}{attempt}"
        first = sum(owner_of(replicas, f"{named}-{i}") is replicas[0] for i in range(jobs))
        if 2 * first == jobs:
            return named
    raise RuntimeError("the jobs cannot be spread evenly")


def main() -> int:
    """Prints what each round gave, and the ratio of the medians."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--packhoused", help="default: $PACKHOUSED, then PATH")
    parser.add_argument("--share", type=float, default=0.5, help="of a core, for each server")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        return work(options)
    if os.geteuid() != 0:
        print("two_servers: skipped: a server's share of a core needs root", file=sys.stderr)
        return 77
    rates: dict[int, list[float]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.rounds):
            for count in (1, 2):
                with servers(options, pathlib.Path(folder) / f"{number}-{count}") as replicas:
                    # The other one is there, and has nothing to do.
                    label = spread(replicas, options.jobs, "job") if count == 2 else "job"
                    if count == 1:
                        replicas[1].stop()
                    rate, used = measure(options, replicas[:count], label)
                rates[count].append(rate)
                print(f"{count} server(s): {rate:,.0f} batches/s, workers {used:.2f} cores", flush=True)
    one, two = statistics.median(rates[1]), statistics.median(rates[2])
    print(f"two servers serve {two / one:.2f} times one ({_NEEDED} at least)")
    return 0 if two >= _NEEDED * one else 1


if __name__ == "__main__":
    sys.exit(main())

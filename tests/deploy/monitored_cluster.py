"""Two servers that share jobs and data sets, to which all happens that an alert on clusters tells of."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Final, Iterator

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "end_to_end"))
# pylint: disable=wrong-import-position
from etcd_process import EtcdProcess, free_port
from s3_process import BUCKET, S3Process

from packhouse import Client, Evaluation, GraphSchema, GraphTable, Loader, LocalServer, TensorSpec

if TYPE_CHECKING:
    from monitored_world import World

_MIB: Final = 1 << 20
_FLOATS: Final = GraphSchema(("nodes",), (TensorSpec("x", "float32", "nodes"),))
_NUM_ORPHANS: Final = 300


def why_no_cluster() -> str:
    """Why there can be none here; empty if there can be one."""
    if shutil.which("etcd") is None:
        return "there is no etcd: Debian's etcd-server"
    if not os.access(os.environ.get("PACKHOUSE_S3_SERVER", ""), os.X_OK):
        return "there is no S3 server: tests/objects/install_s3_server.sh could not build it"
    return ""


class Cluster:
    """The servers, with the engines that they share."""

    def __init__(
        self, etcd: EtcdProcess, s3: S3Process, folder: pathlib.Path, caches: pathlib.Path
    ) -> None:
        self._caches = caches
        self.etcd = etcd
        self.s3 = s3
        self.objects = folder / "s3" / "buckets" / BUCKET
        self.servers = [self._server(folder, name) for name in ("c", "d")]
        self._is_over = threading.Event()

    def _server(self, folder: pathlib.Path, name: str) -> LocalServer:
        address = f"127.0.0.1:{free_port()}"
        return LocalServer(
            listen=address,
            arguments=[
                *(f"--ledger=etcd://{self.etcd.address}/test", f"--advertise={address}"),
                *("--ledger-lease=3s", f"--signing-key={folder / 'cursors.key'}"),
                *(f"--store=s3://{BUCKET}", f"--s3-endpoint={self.s3.endpoint}"),
                *(f"--s3-credentials={self.s3.credentials}", "--sweep-period=1s"),
                *(f"--cache-dir={self._caches / name}", f"--cache-bytes={_MIB}"),
            ],
            log=subprocess.DEVNULL,
            start_timeout=60.0,
        )

    def live(self, world: World) -> None:
        """All scenes, one after the other."""
        training = threading.Thread(target=self._train)
        self._fill()
        training.start()
        try:
            self._caches_are_small(world)
            self._objects_are_left(world)
            self._s3_is_gone(world)
            self._etcd_stops(world)
        finally:
            self._is_over.set()
            training.join()

    def _fill(self) -> None:
        with Client(self.servers[0].address) as client:
            # Two that do not fit into a cache together; and one that fills nearly all of it.
            for name, share in (("one", 0.6), ("two", 0.6), ("large", 0.95), ("small", 0.01)):
                sizes = np.full((1000, 1), int(share * _MIB / 4000))
                rows = {"x": np.zeros(int(sizes.sum()), np.float32)}
                client.datasets.create(name, _FLOATS)
                client.datasets.append(name, [GraphTable(_FLOATS, sizes, rows)])
                client.datasets.seal(name)

    def _train(self) -> None:
        """Epoch after epoch of a job whose data set is in the cache as long as it is loaded."""
        with Loader(
            ",".join(server.address for server in self.servers),
            dataset="small",
            job="shared",
            seed=1,
            limits={"graphs": 2},
            retry_timeout=60,
        ) as loader:
            epoch = 0
            while not self._is_over.is_set():
                loader.set_epoch(epoch)
                for _ in loader:
                    if self._is_over.wait(0.01):
                        break
                epoch += 1

    def _load(self, name: str) -> None:
        address = self.servers[0].address
        assert len(list(Evaluation(address, dataset=name, limits={"graphs": 100}))) == 10

    def _caches_are_small(self, world: World) -> None:
        def load() -> None:
            self._load("one")
            self._load("two")

        world.until("PackhouseCacheTooSmall", act=load)
        world.until("PackhouseCacheFull", act=lambda: self._load("large"))

    def _objects_are_left(self, world: World) -> None:
        """As by servers that ended between an object and its transaction, two hours ago."""
        then = time.time() - 7200

        def leave() -> None:
            for number in range(_NUM_ORPHANS):
                path = self.objects / "d" / f"{number + 1:016x}" / "c" / f"{number:016x}"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(b"orphan")
                os.utime(path, (then, then))
            while any((self.objects / "d").glob("000000000000*/c/*")):
                if "PackhouseObjectsOrphaned" in world.firing():
                    return

        world.until("PackhouseObjectsOrphaned", act=leave)

    def _s3_is_gone(self, world: World) -> None:
        self.s3.kill()
        world.until("PackhouseObjectStoreFailing", "PackhouseSweepFailing")
        assert self.s3.start()

    def _etcd_stops(self, world: World) -> None:
        self.etcd.pause(0)
        world.until("PackhouseNoLease", "PackhouseLedgerFailing")
        self.etcd.resume(0)
        world.until("PackhouseLedgerSlow", "PackhouseJobsMoving")


@contextlib.contextmanager
def monitored_cluster(folder: pathlib.Path, caches: pathlib.Path) -> Iterator[Cluster]:
    """The servers run, with caches in a folder of their own. There must be what they need (why_no_cluster())."""
    with contextlib.ExitStack() as stack:
        s3 = stack.enter_context(S3Process(folder / "s3"))
        etcd = stack.enter_context(EtcdProcess(folder / "etcd"))
        cluster = Cluster(etcd, s3, folder, caches)
        for server in cluster.servers:
            stack.enter_context(server)
        yield cluster

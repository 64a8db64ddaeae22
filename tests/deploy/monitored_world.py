"""Two servers to which everything happens that an alert tells of, and a real Prometheus that watches.

    monitored_world.py --write    writes docs/metrics.md anew from what the servers say

Server `a` has a small disk, small bounds and a policy with quotas; server `b` has a certificate that
expires soon, and a disk that can be made slow; a third target does not exist. Servers `c` and `d` share
jobs and data sets (monitored_cluster.py), where there are etcd and an S3 server.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import math
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from typing import Any, Callable, Final, Iterator

import grpc
import numpy as np
import pytest
import yaml
from deployed import METRICS_PAGE, documented
from monitored_cluster import monitored_cluster, why_no_cluster
from certificates import Authority  # Beside the tests that monitored_cluster finds.
from prometheus_process import PrometheusProcess

from packhouse import (
    BatchFeedback,
    Client,
    Credentials,
    DriftWatch,
    GraphSchema,
    GraphTable,
    LocalServer,
    OversizePolicy,
    PackhouseError,
    PackOptions,
    SizesDriftedWarning,
    TensorSpec,
)
from packhouse.v1 import loader_pb2, loader_pb2_grpc

HERE: Final = pathlib.Path(__file__).parent
PROMETHEUS: Final = HERE.parents[1] / "deploy" / "prometheus"
MIB: Final = 1 << 20
SIZES: Final = GraphSchema(("nodes", "edges"), ())
FLOATS: Final = GraphSchema(("nodes",), (TensorSpec("x", "float32", "nodes"),))
MARK: Final = 1234.5
TRACE: Final = "0af7651916cd43dd8448eb211c80319c"
POLICY: Final = """
version: 1
roles:
- {role: owner, principals: [anonymous], namespaces: ["*"]}
namespaces:
  team: {quotas: {datasets: 1}}
"""
# From the beginning: the target that is not there, and the certificate.
AT_ONCE: Final = {"PackhouseTargetDown", "PackhouseCertificateExpires"}


def hurried(rules: dict[str, Any]) -> dict[str, Any]:
    """The rules with the same expressions, over seconds instead of minutes and hours."""
    for group in rules["groups"]:
        for rule in group["rules"]:
            rule["expr"] = re.sub(r"\[\d+[mh]\]", "[3s]", rule["expr"])
            if "alert" in rule:
                rule["for"] = "0s"
    return rules


@contextlib.contextmanager
def small_disk(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """A file system of 32 MiB."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={32 * MIB}", "tmpfs", str(folder)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a tmpfs: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def certificate(folder: pathlib.Path) -> tuple[str, str]:
    """Paths of a certificate of which five days of 45 are left, and of its key."""
    made = Authority(folder / "ca").sign(
        "tls", "DNS:localhost", begins_in_hours=-40 * 24, ends_in_hours=5 * 24
    )
    return str(made.certificate), str(made.key)


def metrics_page(server: LocalServer, accept: str = "*/*") -> str:
    """What a server says; what Prometheus reads, if it asks for OpenMetrics."""
    request = urllib.request.Request(
        f"http://{server.http_address}/metrics", headers={"Accept": accept}
    )
    with urllib.request.urlopen(request) as response:
        text: str = response.read().decode()
    return text


def load(
    channel: grpc.Channel,
    dataset: str,
    job: str,
    max_in_flight: int,
    in_segments: bool = False,
    balanced: bool = False,
) -> Any:
    """A stream of batches of two graphs, of one rank."""
    request = loader_pb2.LoadRequest(max_in_flight=max_in_flight)
    request.epoch.dataset, request.epoch.job = dataset, job
    request.epoch.rank_groups.add().shapes.add().capacities.add(component="graphs", rows=2)
    request.ranked.num_ranks = 1
    if in_segments:
        request.epoch.segments.tracks = 1
    if balanced:
        request.epoch.order.cost_balanced.terms.add(component="nodes")
    return loader_pb2_grpc.LoaderServiceStub(channel).Load(request)


@dataclasses.dataclass
class World:
    """What has happened, for tests to ask about."""

    prometheus: PrometheusProcess
    begin: float
    end: float = 0.0
    # The alerts of servers that are well.
    when_healthy: set[str] = dataclasses.field(default_factory=set)
    # What the servers' pages of metrics said at some time; one of them as OpenMetrics right after.
    pages: list[str] = dataclasses.field(default_factory=list)
    # Why there are no servers that share anything; empty: there are.
    why_no_cluster: str = ""
    open_metrics: str = ""

    def ever(self, selector: str) -> list[dict[str, Any]]:
        """The series that there were at any time until now."""
        during = math.ceil(time.time() - self.begin)
        return self.prometheus.query(f"max_over_time({selector}[{during}s])")

    def shows(self, query: str) -> bool:
        """Whether a graph of the query, from the beginning until now, would have a point."""
        end = self.end or time.time()
        series = self.prometheus.query_range(query, self.begin, end, step=0.5)
        values = (float(value) for one in series for _, value in one["values"])
        return any(math.isfinite(value) for value in values)

    def firing(self) -> set[str]:
        """The alerts that fire now."""
        found = self.prometheus.query('ALERTS{alertstate="firing"}')
        return {one["metric"]["alertname"] for one in found}

    def until(self, *alerts: str, act: Callable[[], object] = lambda: None) -> None:
        """Acts until each of the alerts has fired."""
        left = set(alerts)
        deadline = time.monotonic() + 40
        while left:
            assert time.monotonic() < deadline, f"{left} did not fire: {self.prometheus.log()}"
            act()
            left -= self.firing()


class Scenes:
    """One function for each thing that happens; they come one after the other."""

    def __init__(self, world: World, a: LocalServer, b: LocalServer, folder: pathlib.Path) -> None:
        self._world = world
        self._a = a
        self._b = b
        self._folder = folder
        self._disk = folder / "disk"
        self._client = Client(a.address)
        self._channel = grpc.insecure_channel(a.address)
        port = b.address.rpartition(":")[2]
        self._b_client = Client(
            f"localhost:{port}", credentials=Credentials(tls_ca=str(folder / "ca" / "ca.crt"))
        )
        self._b_channel = grpc.secure_channel(
            f"localhost:{port}",
            grpc.ssl_channel_credentials((folder / "ca" / "ca.crt").read_bytes()),
        )

    def close(self) -> None:
        """At the end."""
        for one in (self._client, self._b_client, self._channel, self._b_channel):
            one.close()

    def all_is_well(self) -> None:
        """Full batches, and data sets that grow little."""
        full = np.full((8, 2), 5)
        for client in (self._client, self._b_client):
            client.datasets.create("d", SIZES)
            client.datasets.append("d", [GraphTable(SIZES, np.full((8, 2), 1))])
            client.datasets.seal("d")
            assert list(client.pack_sizes([full], PackOptions({"nodes": 10, "edges": 10})))
        # Enough batches for a worker that waits a second for each.
        self._b_client.datasets.create("long", SIZES)
        self._b_client.datasets.append("long", [GraphTable(SIZES, np.full((1000, 2), 1))])
        self._b_client.datasets.seal("long")
        sizes = self._client.datasets.get("d", include_histogram=True).histogram
        assert sizes is not None
        self._world.prometheus.await_samples('packhouse:efficiency:ratio_rate5m{component="nodes"}')
        self._client.plan(sizes, limits={"nodes": 10, "edges": 10})
        loader_pb2_grpc.LoaderServiceStub(self._channel).ListJobs(
            loader_pb2.ListJobsRequest(),
            metadata=(("traceparent", f"00-{TRACE}-b7ad6b7169203331-01"),),
        )
        rows = {"nodes": 10, "edges": 10, "graphs": 2}
        self._client.feedback.report("gin/cpu", [BatchFeedback(rows, 0.1, 1_000_000)])
        self._world.until(*AT_ONCE)
        self._world.when_healthy = self._world.firing()

    def graphs_that_do_not_fit(self) -> None:
        """Batches six tenths full, and graphs that are refused."""
        sizes = np.array([[6, 6], [20, 20]] * 10)
        options = PackOptions({"nodes": 10, "edges": 10}, oversize=OversizePolicy.REJECT)

        def pack() -> None:
            assert list(self._client.pack_sizes([sizes], options, on_rejected=lambda _: None))

        self._world.until("PackhouseLowEfficiency", "PackhouseGraphsRejected", act=pack)

    def sizes_change(self) -> None:
        """Graphs with as many edges as nodes, then with none."""
        options = PackOptions({"nodes": 64, "edges": 64}, drift=DriftWatch(num_graphs=500))
        sizes = np.full((3000, 2), 4)
        sizes[1500:, 1] = 0

        def pack() -> None:
            with pytest.warns(SizesDriftedWarning):
                assert list(self._client.pack_sizes([sizes], options))

        self._world.until("PackhouseSizesDrifted", act=pack)

    def a_quota_is_used_up(self) -> None:
        """A second data set where one is allowed; then the policy becomes unreadable."""
        self._client.datasets.create("team/a", SIZES)

        def create() -> None:
            with pytest.raises(PackhouseError, match="the quota 'datasets' is 1"):
                self._client.datasets.create("team/b", SIZES)

        self._world.until("PackhouseQuotaNear", "PackhouseRefusing", act=create)
        (self._folder / "policy").write_text("version: none", encoding="ascii")
        self._world.until("PackhouseFileBroken")

    def graphs_wait(self) -> None:
        """Nine tenths of what may wait."""
        with self._client.open_pack(
            FLOATS, PackOptions({"nodes": 1 << 20}, look_ahead=16384)
        ) as stream:
            table = GraphTable(
                FLOATS, np.full((9, 1), MIB // 40), {"x": np.zeros(9 * (MIB // 40), np.float32)}
            )
            stream.send(table)
            self._world.until("PackhousePendingBytesHigh")

    def workers_come_and_go(self) -> None:
        """A worker that never acknowledges: it leaves, comes back, and stays."""

        def come_and_go() -> None:
            stream = load(self._channel, "d", "train", max_in_flight=2, in_segments=True)
            for _ in range(3):
                next(stream)
            stream.cancel()

        self._world.until("PackhouseRedelivering", act=come_and_go)
        stream = load(self._channel, "d", "train", max_in_flight=2, in_segments=True)
        next(stream)
        self._world.until("PackhouseServerIdle", "PackhouseEpochStalled")
        # The alerts may have fired of the workers before, that were here for a moment only.
        # Once its next epoch is ready, its company is known.
        balanced = load(self._channel, "d", "balanced", max_in_flight=2, balanced=True)
        next(balanced)
        for name in ("segmentation_loss", "step_efficiency", "company"):
            while not self._world.shows(f"packhouse_epoch_{name}_ratio"):
                pass
        self._world.pages.append(metrics_page(self._a))
        self._world.open_metrics = metrics_page(self._a, "application/openmetrics-text")
        stream.cancel()
        balanced.cancel()

    def a_disk_is_slow(self) -> None:
        """A worker that waits for its acknowledgements, and so for batches."""
        slow = self._folder / "slow"
        slow.touch()
        stub = loader_pb2_grpc.LoaderServiceStub(self._b_channel)
        stream = load(self._b_channel, "long", "train", max_in_flight=1)
        opened = next(stream).opened

        def step() -> None:
            batch = next(stream).batch
            stub.Acknowledge(
                loader_pb2.AcknowledgeRequest(
                    job="train",
                    generation=opened.generation,
                    session=opened.session,
                    batches=[batch.batch.id],
                )
            )

        self._world.until("PackhouseCommitsSlow", "PackhouseLoaderStarved", act=step)
        slow.unlink()
        # Now the epoch goes on, and the time that is left can be told.
        left = 'packhouse_epoch_batches_left{dataset="long"}'
        while not self._world.shows(f"{left} / -(deriv({left}[3s]) < 0)"):
            step()
        stream.cancel()

    def a_record_is_damaged(self) -> None:
        """By whatever happens to disks."""
        self._client.datasets.create("broken", FLOATS)
        rows = np.full(4096, MARK, np.float32)
        self._client.datasets.append("broken", [GraphTable(FLOATS, np.full((4, 1), 1024), {"x": rows})])
        self._client.datasets.seal("broken")
        mark = rows[:16].tobytes()
        damaged = 0
        for path in (self._disk / "data" / "datasets").iterdir():
            content = path.read_bytes()
            at = content.find(mark)
            while at != -1:
                with path.open("r+b") as file:
                    file.seek(at + 5)
                    file.write(b"\xff")
                damaged += 1
                at = content.find(mark, at + len(rows) * 4)
        assert damaged

        def read() -> None:
            with pytest.raises(grpc.RpcError) as failed:
                list(load(self._channel, "broken", "eager", max_in_flight=2))
            assert failed.value.code() is grpc.StatusCode.DATA_LOSS

        self._world.until("PackhouseFailing", act=read)

    def a_disk_fills(self) -> None:
        """Up to the last byte; then there is room again, and the store comes to its bound."""
        self._client.datasets.create("growing", FLOATS)
        table = GraphTable(FLOATS, np.full((1, 1), 16384), {"x": np.zeros(16384, np.float32)})

        def append() -> None:
            self._client.datasets.append("growing", [table])

        while self._client.datasets.get("growing").num_bytes < 9 * MIB:
            append()
        self._world.until("PackhouseStoreFullInADay", act=append)
        other = self._disk / "other"
        with other.open("wb") as file:
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(MIB))
                    file.flush()
        with pytest.raises(PackhouseError, match="(?i)no space left"):
            while True:
                self._client.datasets.append("growing", [table], retry_timeout=0)
        self._world.until(
            *("PackhouseDiskFullInADay", "PackhouseDiskFilling"),
            *("PackhouseCommitsFailing", "PackhouseNotReady"),
        )
        other.unlink()
        with pytest.raises(PackhouseError) as full:
            while True:
                self._client.datasets.append("growing", [table])
        assert full.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        self._world.until("PackhouseStoreFilling")

    def a_server_drains(self) -> None:
        """For longer than anybody watches."""
        os.kill(self._b.pid, signal.SIGTERM)
        self._world.until("PackhouseDraining")


@contextlib.contextmanager
def monitored_world(folder: pathlib.Path) -> Iterator[World]:
    """After everything has happened; Prometheus can still be asked."""
    crt, key = certificate(folder)
    (folder / "policy").write_text(POLICY, encoding="ascii")
    shim = folder / "slow_disk.so"
    compiler = os.environ.get("CC", "cc")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", str(shim), str(HERE / "slow_disk.c")], check=True
    )
    with contextlib.ExitStack() as stack:
        why_not = why_no_cluster()
        cluster = None
        if not why_not:
            caches = stack.enter_context(small_disk(folder / "caches"))
            cluster = stack.enter_context(monitored_cluster(folder / "cluster", caches))
        sharing = [] if cluster is None else cluster.servers
        disk = stack.enter_context(small_disk(folder / "disk"))
        # Of its own too: what others do to the machine's disk is no alert here.
        other_disk = stack.enter_context(small_disk(folder / "other_disk"))
        a = stack.enter_context(
            LocalServer(
                data_dir=disk / "data",
                arguments=[
                    *("--policy", str(folder / "policy")),
                    *("--max-store-bytes", str(16 * MIB)),
                    *("--max-total-pending-bytes", str(MIB)),
                    *("--max-pending-bytes", str(MIB)),
                    *("--lane", f"unix:{folder}/lane"),
                ],
                log=subprocess.DEVNULL,
            )
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LD_PRELOAD", str(shim))
            patch.setenv("SLOW_DISK", str(folder / "slow"))
            b = stack.enter_context(
                LocalServer(
                    data_dir=other_disk / "data",
                    arguments=["--tls-cert", crt, "--tls-key", key, "--lame-duck", "1h"],
                    log=subprocess.DEVNULL,
                )
            )
        with socket.socket() as nobody:
            # Bound and not listening: nobody answers.
            nobody.bind(("127.0.0.1", 0))
            down = f"127.0.0.1:{nobody.getsockname()[1]}"
            config = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())
            config["global"] = {"scrape_interval": "200ms", "evaluation_interval": "200ms"}
            config["rule_files"] = ["rules.yml"]
            targets = [each.http_address for each in (a, b, *sharing)] + [down]
            config["scrape_configs"][0]["static_configs"] = [{"targets": targets}]
            (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
            rules = hurried(yaml.safe_load((PROMETHEUS / "rules.yml").read_text()))
            (folder / "rules.yml").write_text(yaml.safe_dump(rules))
            prometheus = stack.enter_context(PrometheusProcess(folder))
            world = World(prometheus, begin=time.time(), why_no_cluster=why_not)
            scenes = Scenes(world, a, b, folder)
            # They wait most of the time: the others' scenes go on meanwhile.
            with concurrent.futures.ThreadPoolExecutor(1) as beside, contextlib.closing(scenes):
                scenes.all_is_well()
                shared = None if cluster is None else beside.submit(cluster.live, world)
                scenes.graphs_that_do_not_fit()
                scenes.sizes_change()
                scenes.a_quota_is_used_up()
                scenes.graphs_wait()
                scenes.workers_come_and_go()
                scenes.a_disk_is_slow()
                scenes.a_record_is_damaged()
                scenes.a_disk_fills()
                if shared is not None:
                    shared.result()
            world.pages += [metrics_page(each) for each in (a, b, *sharing)]
            scenes.a_server_drains()
            world.end = time.time()
            yield world


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as scratch, monitored_world(pathlib.Path(scratch)) as seen:
        METRICS_PAGE.write_text(documented(seen.pages), encoding="utf-8")

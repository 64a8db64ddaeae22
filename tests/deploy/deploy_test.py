"""What deploy/ and the Dockerfile say must be true of the server that was built."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Final, Iterator, NamedTuple

import grpc
import numpy as np
import pytest
import yaml

from packhouse import Client, LocalServer, PackOptions
from packhouse.v1 import dataset_pb2, dataset_pb2_grpc, loader_pb2, loader_pb2_grpc

ROOT: Final = Path(__file__).resolve().parents[2]
DEPLOY: Final = ROOT / "deploy"
YAML_FILES: Final = sorted(DEPLOY.rglob("*.yaml")) + sorted(DEPLOY.rglob("*.yml"))
KUBERNETES: Final = DEPLOY / "kubernetes"
RULES: Final = DEPLOY / "prometheus" / "rules.yml"
DASHBOARD: Final = DEPLOY / "grafana" / "packing-efficiency.json"

# What Grafana puts in place of its variables.
GRAFANA_VALUES: Final = {
    "$__rate_interval": "1m",
    "$__range": "1h",
    "$job": ".+",
    "$component": ".+",
}
# In the same texts: of docker, cmake, kubectl, prometheus and the packhouse command.
FLAGS_OF_OTHER_PROGRAMS: Final = {
    *("--build-arg", "--detach", "--from", "--health-cmd", "--interval", "--mount", "--name"),
    *("--publish", "--read-only", "--rm", "--start-period", "--stop-timeout", "--tag", "--timeout"),
    *("--build", "--config.file", "--limit", "--preset", "--server", "--sizes"),
    *("--storage.tsdb.path", "--target"),
}
# Labels that Prometheus adds to every series that it scrapes.
TARGET_LABELS: Final = {"job", "instance"}

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool (Debian package prometheus) is missing"
)


def promtool(*arguments: str | Path, text: str = "") -> None:
    """Runs promtool and asserts that it has no complaint."""
    done = subprocess.run(
        ["promtool", *arguments], input=text, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


class Workload(NamedTuple):
    """One folder of deploy/kubernetes: what it is applied with, and the kind that runs the pods."""

    folder: Path
    kind: str

    def manifest(self, kind: str) -> Any:
        """The one Kubernetes object of this kind."""
        objects = [
            document
            for path in self.folder.glob("*.yaml")
            for document in yaml.safe_load_all(path.read_text())
        ]
        (found,) = (one for one in objects if one["kind"] == kind)
        return found

    def pod(self) -> Any:
        """The pod template."""
        return self.manifest(self.kind)["spec"]["template"]

    def container(self) -> Any:
        (only,) = self.pod()["spec"]["containers"]
        return only

    def argument(self, flag: str) -> str:
        """The value that the pods give a flag."""
        given: list[str] = self.container()["args"]
        (value,) = (text.partition("=")[2] for text in given if text.partition("=")[0] == flag)
        return value


STATELESS: Final = Workload(KUBERNETES, "Deployment")
DATASETS: Final = Workload(KUBERNETES / "datasets", "StatefulSet")
each_workload = pytest.mark.parametrize("workload", [STATELESS, DATASETS], ids=lambda w: w.kind)


def bytes_of(quantity: str) -> int:
    """Of a Kubernetes quantity such as 8Gi."""
    found = re.fullmatch(r"(\d+)Gi", quantity)
    assert found is not None, quantity
    return int(found[1]) << 30


def seconds(duration: str) -> int:
    parts = re.fullmatch(r"(?:(\d+)m)?(?:(\d+)s)?", duration)
    assert parts is not None, duration
    minutes, rest = (int(part or 0) for part in parts.groups())
    return 60 * minutes + rest


def packhoused_help() -> str:
    return subprocess.run(
        [os.environ["PACKHOUSED"], "--help"], capture_output=True, text=True, check=True
    ).stdout


def instructions(name: str) -> list[str]:
    """The arguments of each such instruction of the Dockerfile, continuation lines joined."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    return re.findall(rf"^{name} (.*)$", text, re.MULTILINE)


def version() -> str:
    text = (ROOT / "CMakeLists.txt").read_text()
    found = re.search(r"^project\(packhouse VERSION (\S+)", text, re.MULTILINE)
    assert found is not None
    return found[1]


class MetricsPage(NamedTuple):
    """A page of /metrics: its text, every sample's name, and every label's name."""

    text: str
    samples: set[str]
    labels: set[str]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    with LocalServer(arguments=["--data-dir", str(tmp_path_factory.mktemp("data"))]) as running:
        yield running


def fetch(server: LocalServer, path: str) -> str:
    """A page of the HTTP port; raises HTTPError unless its status is 200."""
    with urllib.request.urlopen(f"http://{server.http_address}{path}") as response:
        text: str = response.read().decode()
    return text


def load_requests(job: str) -> tuple[list[dataset_pb2.AppendRequest], loader_pb2.LoadRequest]:
    """What stores eight graphs of one node as data set `d`, and what loads them two by two."""
    append = dataset_pb2.AppendRequest(dataset="d")
    append.graphs.sizes.num_graphs = 8
    append.graphs.sizes.counts = np.tile(np.array([1, 0], "<u4"), 8).tobytes()
    load = loader_pb2.LoadRequest(max_in_flight=2)
    load.epoch.dataset, load.epoch.job = "d", job
    load.epoch.rank_groups.add().shapes.add().capacities.add(component="graphs", rows=2)
    load.ranked.num_ranks = 1
    return [append], load


@pytest.fixture(scope="module")
def page(server: LocalServer) -> MetricsPage:
    """The page of a server in the midst of an epoch, and after a stream, so that every family has
    samples."""
    with Client(server.address) as client:
        sizes = np.array([[3, 4], [5, 6]])
        assert list(client.pack_sizes([sizes], PackOptions({"nodes": 10, "edges": 10})))
    with grpc.insecure_channel(server.address) as channel:
        datasets = dataset_pb2_grpc.DatasetServiceStub(channel)
        appends, load = load_requests(job="train")
        datasets.CreateDataset(dataset_pb2.CreateDatasetRequest(name="d"))
        assert [answer.num_graphs for answer in datasets.Append(iter(appends))] == [8]
        datasets.SealDataset(dataset_pb2.SealDatasetRequest(name="d"))
        responses = loader_pb2_grpc.LoaderServiceStub(channel).Load(load)
        opened, batch = next(responses).opened, next(responses).batch
        loader_pb2_grpc.LoaderServiceStub(channel).Acknowledge(
            loader_pb2.AcknowledgeRequest(
                job="train",
                generation=opened.generation,
                session=opened.session,
                batches=[batch.batch.id],
            )
        )
        text = fetch(server, "/metrics")
        responses.cancel()
    series = [line for line in text.splitlines() if line and not line.startswith("#")]
    return MetricsPage(
        text,
        {re.split(r"[{ ]", line, maxsplit=1)[0] for line in series},
        {label for line in series for label in re.findall(r'[{,](\w+)="', line)},
    )


class PrometheusProcess:
    """A Prometheus with the configuration `prometheus.yml` of a folder, for a `with` block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> PrometheusProcess:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._address = f"127.0.0.1:{free.getsockname()[1]}"
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={self._folder / 'prometheus.yml'}",
                    f"--storage.tsdb.path={self._folder / 'tsdb'}",
                    f"--web.listen-address={self._address}",
                ],
                stdout=log,
                stderr=log,
            )
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._process.kill()
        self._process.wait()

    def await_samples(self, query: str, within: float = 30.0) -> list[dict[str, Any]]:
        """What an instant query gives, once it gives anything."""
        url = f"http://{self._address}/api/v1/query?query={urllib.parse.quote(query)}"
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            assert self._process.poll() is None, (self._folder / "log").read_text()
            try:
                with urllib.request.urlopen(url) as response:
                    samples: list[dict[str, Any]] = json.load(response)["data"]["result"]
            except OSError:  # It does not listen yet.
                samples = []
            if samples:
                return samples
        raise AssertionError(f"no samples of {query}: {(self._folder / 'log').read_text()}")


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return loaded


def dashboard_queries() -> list[str]:
    """All PromQL of the dashboard, as Grafana would send it."""
    queries = [
        target["expr"] for panel in dashboard()["panels"] for target in panel.get("targets", [])
    ]
    for name, value in GRAFANA_VALUES.items():
        queries = [query.replace(name, value) for query in queries]
    return queries


def expect_served(query: str, page: MetricsPage, recorded: set[str]) -> None:
    """Every metric and label in `query` is one that the server, Prometheus or a rule makes."""
    names = set(re.findall(r"\bpackhouse[_:][\w:]*", query))
    assert names, query
    assert names <= page.samples | recorded, query
    matched: set[str] = set(re.findall(r'(\w+)\s*(?:=~|!=|!~|=)\s*"', query))
    grouped = re.findall(r"\b(?:by|without)\s*\(([^)]*)\)", query)
    matched |= {label.strip() for labels in grouped for label in labels.split(",")}
    assert matched <= page.labels | TARGET_LABELS, query


@pytest.mark.parametrize("path", YAML_FILES, ids=[path.name for path in YAML_FILES])
def test_yaml_parses(path: Path) -> None:
    documents = list(yaml.safe_load_all(path.read_text()))
    assert documents and all(isinstance(document, dict) for document in documents)


@each_workload
def test_kustomization_lists_every_manifest(workload: Workload) -> None:
    files = {path.name for path in workload.folder.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(workload.manifest("Kustomization")["resources"]) == files


def test_both_workloads_can_be_applied_together() -> None:
    """No object of one replaces one of the other, and neither takes the other's pods."""
    objects = [
        (document["kind"], document["metadata"]["name"])
        for path in KUBERNETES.rglob("*.yaml")
        for document in yaml.safe_load_all(path.read_text())
        if document["kind"] != "Kustomization"
    ]
    assert len(set(objects)) == len(objects)
    for one, other in itertools.permutations((STATELESS, DATASETS)):
        selected = one.manifest("Service")["spec"]["selector"].items()
        assert not selected <= other.pod()["metadata"]["labels"].items()


@each_workload
def test_the_server_starts_with_the_arguments_of_the_pods(
    workload: Workload, tmp_path: Path
) -> None:
    arguments = [
        text.replace("--data-dir=/data", f"--data-dir={tmp_path}")
        for text in workload.container()["args"]
    ]
    with LocalServer(arguments=arguments) as server:
        assert server.address
    assert server.returncode == 0
    assert any(tmp_path.iterdir()) == (workload is DATASETS)


def test_every_flag_that_is_named_exists() -> None:
    known = set(re.findall(r"--[a-z][a-z-]*", packhoused_help()))
    named_anywhere: set[str] = set()
    for path in [ROOT / "Dockerfile", DEPLOY / "README.md", *YAML_FILES]:
        named = set(re.findall(r"(?<![\w-])--[a-z][a-z.-]*[a-z]", path.read_text()))
        assert named <= known | FLAGS_OF_OTHER_PROGRAMS, path
        named_anywhere |= named
    assert "--drain-timeout" in named_anywhere


def test_ports_agree() -> None:
    defaults = dict(re.findall(r"--((?:http-)?listen) TEXT=\S+?:(\d+)", packhoused_help()))
    grpc_port, http = int(defaults["listen"]), int(defaults["http-listen"])

    (exposed,) = instructions("EXPOSE")
    assert [int(port) for port in exposed.split()] == [grpc_port, http]
    (entry,) = instructions("ENTRYPOINT")
    assert f'"--listen=0.0.0.0:{grpc_port}"' in entry
    (check,) = instructions("HEALTHCHECK")
    assert f"/dev/tcp/127.0.0.1/{http} " in check

    for workload in (STATELESS, DATASETS):
        container = workload.container()
        assert not any(re.match("--(http-)?listen", text) for text in container["args"])
        assert {"--insecure", "--tls-cert"} & {text.partition("=")[0] for text in container["args"]}
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        assert ports == {"grpc": grpc_port, "http": http}
        service = {port["name"]: port for port in workload.manifest("Service")["spec"]["ports"]}
        assert {name: port["port"] for name, port in service.items()} == ports
        assert all(port["targetPort"] == name for name, port in service.items())
        assert workload.pod()["metadata"]["annotations"]["prometheus.io/port"] == str(http)

    (scrape,) = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())["scrape_configs"]
    assert scrape["static_configs"][0]["targets"] == [f"localhost:{http}"]


def test_health_check_of_the_image_tells_a_live_server_from_a_dead_one() -> None:
    (check,) = instructions("HEALTHCHECK")
    command = json.loads(check[check.index("[") :])
    with LocalServer() as server:
        port = server.http_address.rpartition(":")[2]
        command = [part.replace("127.0.0.1/9464", f"127.0.0.1/{port}") for part in command]
        assert subprocess.run(command, check=False).returncode == 0
    dead = subprocess.run(command, stderr=subprocess.DEVNULL, check=False)
    assert dead.returncode != 0


@each_workload
@pytest.mark.parametrize("probe", ["startupProbe", "readinessProbe", "livenessProbe"])
def test_probes_ask_pages_that_are_served(
    server: LocalServer, workload: Workload, probe: str
) -> None:
    get = workload.container()[probe]["httpGet"]
    assert get["port"] == "http"
    assert fetch(server, get["path"])


@each_workload
def test_pods_are_given_longer_to_end_than_the_server_drains(workload: Workload) -> None:
    grace = workload.pod()["spec"]["terminationGracePeriodSeconds"]
    needed = sum(seconds(workload.argument(flag)) for flag in ("--lame-duck", "--drain-timeout"))
    # What is cut off at the deadline needs a moment to end, too.
    assert grace >= needed + 5


@each_workload
def test_streams_cannot_outgrow_the_memory_of_a_pod(workload: Workload) -> None:
    budget, streams, pending, message = (
        int(workload.argument(f"--{flag}"))
        for flag in ("memory-budget", "max-streams", "max-pending-bytes", "max-message-bytes")
    )
    # A tenth more is the allocator's, and a quarter of a gigabyte the server's own.
    needed = budget * 1.1 + (256 << 20)
    assert needed < bytes_of(workload.container()["resources"]["limits"]["memory"])
    # Its shares: each stream may have its graphs, a message on its way in and one on its way out.
    assert streams * pending <= budget * 3 / 8
    assert streams * message <= budget / 4

    (alert,) = (rule for rule in rules() if rule.get("alert") == "PackhousePendingBytesHigh")
    assert 0 < int(alert["expr"].rpartition(">")[2]) < streams * pending


def test_data_sets_have_one_writer_with_a_volume_that_it_can_write() -> None:
    stateful = DATASETS.manifest("StatefulSet")["spec"]
    assert stateful["replicas"] == 1
    assert stateful["serviceName"] == DATASETS.manifest("Service")["metadata"]["name"]
    (claim,) = stateful["volumeClaimTemplates"]
    (mount,) = DATASETS.container()["volumeMounts"]
    assert mount == {"name": claim["metadata"]["name"], "mountPath": DATASETS.argument("--data-dir")}
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    # What both stores map, at most: see LmdbDatasetStore::Options and LmdbRecordLog::Options.
    datasets = int(DATASETS.argument("--max-store-bytes")) * 5 // 4 + (256 << 20)
    ledger = 4 * (1 << 30) + (256 << 20)
    assert datasets + ledger < bytes_of(claim["spec"]["resources"]["requests"]["storage"])

    # The image's user, and a folder that is there and belongs to it.
    (user,) = instructions("USER")
    rights = DATASETS.pod()["spec"]["securityContext"]
    assert user == f"{rights['runAsUser']}:{rights['runAsGroup']}"
    assert rights["fsGroup"] == rights["runAsGroup"]
    (made,) = (text for text in instructions("RUN") if text.startswith("install -d"))
    uid, gid = user.split(":")
    assert made == f"install -d -o {uid} -g {gid} {mount['mountPath']}"
    assert not instructions("VOLUME")


def test_the_stateless_pods_keep_nothing() -> None:
    assert not any(text.startswith("--data-dir") for text in STATELESS.container()["args"])
    assert "volumes" not in STATELESS.pod()["spec"]


def test_defaults_that_the_pods_spell_out_are_the_defaults() -> None:
    """So that who changes a default sees that it is also here."""
    for flag in (
        "--lease-duration",
        "--max-epochs",
        "--max-epochs-per-client",
        "--epoch-retention",
        "--append-threads",
        "--max-store-bytes",
    ):
        default = re.search(rf"{flag} [^\n=]*=(\w+)", packhoused_help())
        assert default is not None, flag
        assert DATASETS.argument(flag) == default[1]


@each_workload
def test_selectors_select_the_pods(workload: Workload) -> None:
    labels = workload.pod()["metadata"]["labels"].items()
    selectors = [
        workload.manifest("Service")["spec"]["selector"],
        workload.manifest(workload.kind)["spec"]["selector"]["matchLabels"],
    ]
    if workload is STATELESS:
        (spread,) = workload.pod()["spec"]["topologySpreadConstraints"]
        selectors.append(workload.manifest("PodDisruptionBudget")["spec"]["selector"]["matchLabels"])
        selectors.append(spread["labelSelector"]["matchLabels"])
    for selector in selectors:
        assert selector and selector.items() <= labels
    account = workload.manifest("ServiceAccount")["metadata"]["name"]
    assert workload.pod()["spec"]["serviceAccountName"] == account


@each_workload
def test_the_image_runs_without_rights(workload: Workload) -> None:
    (user,) = instructions("USER")
    uid, _, gid = user.partition(":")
    assert int(uid) > 0 and int(gid) > 0
    assert workload.pod()["spec"]["securityContext"]["runAsNonRoot"] is True
    rights = workload.container()["securityContext"]
    assert rights["readOnlyRootFilesystem"] is True
    assert rights["allowPrivilegeEscalation"] is False
    assert rights["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is missing")
@each_workload
def test_kustomize_builds(workload: Workload) -> None:
    done = subprocess.run(
        ["kubectl", "kustomize", workload.folder], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert {one["kind"] for one in yaml.safe_load_all(done.stdout)} >= {workload.kind, "Service"}


def test_versions_agree() -> None:
    for workload in (STATELESS, DATASETS):
        assert workload.container()["image"] == f"packhouse:{version()}"
    (label,) = (text for text in instructions("LABEL") if "image.version" in text)
    assert f'org.opencontainers.image.version="{version()}"' in label
    for path in (ROOT / "Dockerfile", DEPLOY / "README.md"):
        assert set(re.findall(r"packhouse:(\d+\.[\w.]+)", path.read_text())) == {version()}
    releases = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert releases[0] == version()


def test_rules_use_metrics_that_are_served(page: MetricsPage) -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    for rule in rules():
        expect_served(rule["expr"], page, recorded)


def test_dashboard_uses_metrics_that_are_served(page: MetricsPage) -> None:
    for query in dashboard_queries():
        expect_served(query, page, recorded=set())
    for variable in dashboard()["templating"]["list"]:
        if variable["type"] == "query":
            values = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["definition"])
            assert values is not None and variable["query"]["query"] == variable["definition"]
            assert values[2] in page.labels | TARGET_LABELS
            expect_served(values[1], page, recorded=set())


def test_dashboard_is_well_formed() -> None:
    panels = dashboard()["panels"]
    ids = [panel["id"] for panel in panels]
    assert len(set(ids)) == len(ids)
    variables = {variable["name"] for variable in dashboard()["templating"]["list"]}
    text = DASHBOARD.read_text()
    assert set(re.findall(r"\$\{?([a-z]\w*)", text)) == variables
    sources = [panel for panel in panels if panel["type"] != "row"]
    sources += [target for panel in sources for target in panel["targets"]]
    for source in sources:
        assert source["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    # No panel covers another.
    squares = [
        square
        for panel in panels
        for square in itertools.product(
            range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"]),
            range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"]),
        )
    ]
    assert len(set(squares)) == len(squares)
    assert max(x for x, _ in squares) < 24


@needs_promtool
def test_promtool_accepts_the_configuration_and_its_rules() -> None:
    promtool("check", "config", DEPLOY / "prometheus" / "prometheus.yml")


@needs_promtool
def test_rules_compute_what_they_should() -> None:
    promtool("test", "rules", Path(__file__).with_name("rules_test.yml"))


@needs_promtool
def test_promtool_parses_the_queries_of_the_dashboard(tmp_path: Path) -> None:
    recordings = [
        {"record": f"query:{number}", "expr": query}
        for number, query in enumerate(dashboard_queries())
    ]
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": recordings}]}))
    promtool("check", "rules", file)


@needs_promtool
def test_promtool_accepts_the_metrics_page(page: MetricsPage) -> None:
    promtool("check", "metrics", text=page.text)


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is missing")
def test_prometheus_scrapes_the_server(
    server: LocalServer, page: MetricsPage, tmp_path: Path
) -> None:
    """A real one, with the rules: it takes every sample, and keeps the label of the job."""
    assert 'training_job="train"' in page.text
    config = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())
    config["rule_files"] = [str(RULES)]
    config["global"] = {"scrape_interval": "200ms", "evaluation_interval": "200ms"}
    config["scrape_configs"][0]["static_configs"] = [{"targets": [server.http_address]}]
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    with PrometheusProcess(tmp_path) as prometheus, grpc.insecure_channel(server.address) as channel:
        # The worker comes back and holds its batches.
        _, load = load_requests(job="train")
        responses = loader_pb2_grpc.LoaderServiceStub(channel).Load(load)
        assert next(responses).opened.num_steps == 4
        (left,) = prometheus.await_samples('packhouse_epoch_batches_left{training_job="train"}')
        assert left["metric"]["job"] == "packhouse"
        assert left["value"][1] == "3"
        (ratio,) = prometheus.await_samples("packhouse_epoch_progress_ratio")
        assert ratio["value"][1] == "0.25"
        (durable,) = prometheus.await_samples(
            'packhouse_commits_total{store="datasets", result="durable"} > 0'
        )
        assert int(durable["value"][1]) >= 3
        (filled,) = prometheus.await_samples(
            'packhouse_store_bytes{store="delivery"} / packhouse_store_max_bytes'
        )
        assert 0 < float(filled["value"][1]) < 0.001
        responses.cancel()

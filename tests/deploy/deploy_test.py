"""What deploy/ and the Dockerfile say must be true of the server that was built."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import urllib.request
from pathlib import Path
from typing import Any, Final, Iterator, NamedTuple

import numpy as np
import pytest
import yaml

from packhouse import Client, GraphSchema, GraphTable, Loader, LocalServer, TensorSpec

ROOT: Final = Path(__file__).resolve().parents[2]
DEPLOY: Final = ROOT / "deploy"
YAML_FILES: Final = sorted(DEPLOY.rglob("*.yaml")) + sorted(DEPLOY.rglob("*.yml"))
KUBERNETES: Final = DEPLOY / "kubernetes"

# In the same texts: of docker, cmake, kubectl, prometheus and the packhouse command.
FLAGS_OF_OTHER_PROGRAMS: Final = {
    *("--build-arg", "--detach", "--from", "--health-cmd", "--interval", "--mount", "--name"),
    *("--publish", "--read-only", "--rm", "--start-period", "--stop-timeout", "--tag", "--timeout"),
    *("--build", "--config.file", "--limit", "--preset", "--server", "--sizes"),
    *("--auto-compaction-mode", "--auto-compaction-retention", "--quota-backend-bytes"),
    *("--storage.tsdb.path", "--target", "--raw", "--from-file", "--list"),
    "--from-literal",
}


class Workload(NamedTuple):
    """One folder of deploy/kubernetes: what it is applied with, and the kind that runs the pods."""

    folder: Path
    kind: str

    def manifest(self, kind: str) -> Any:
        """The one Kubernetes object of this kind; of services, the one for clients."""
        objects = [
            document
            for path in self.folder.glob("*.yaml")
            for document in yaml.safe_load_all(path.read_text())
        ]
        (found,) = (
            one
            for one in objects
            if one["kind"] == kind and one.get("spec", {}).get("clusterIP") != "None"
        )
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


STATELESS: Final = Workload(KUBERNETES / "stateless", "Deployment")
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


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    with LocalServer(arguments=["--data-dir", str(tmp_path_factory.mktemp("data"))]) as running:
        yield running


def fetch(server: LocalServer, path: str) -> str:
    """A page of the HTTP port; raises HTTPError unless its status is 200."""
    with urllib.request.urlopen(f"http://{server.http_address}{path}") as response:
        text: str = response.read().decode()
    return text


@pytest.mark.parametrize("path", YAML_FILES, ids=[path.name for path in YAML_FILES])
def test_yaml_parses(path: Path) -> None:
    documents = list(yaml.safe_load_all(path.read_text()))
    assert documents and all(isinstance(document, dict) for document in documents)


@each_workload
def test_kustomization_lists_every_manifest(workload: Workload) -> None:
    files = {path.name for path in workload.folder.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(workload.manifest("Kustomization")["resources"]) == files


def test_both_workloads_can_be_applied_together() -> None:
    """No object of one replaces one of the other, and neither takes the other's pods. `cluster` is
    meant to take the place of `datasets`."""
    objects = [
        (document["kind"], document["metadata"]["name"])
        for path in KUBERNETES.rglob("*.yaml")
        if path.parent.name != "cluster"
        for document in yaml.safe_load_all(path.read_text())
        if "metadata" in document
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
        if path.parent.name == "partition":  # Of another program: partition_job_test.py.
            continue
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
    assert f'"--listen=0.0.0.0:{grpc_port}", "--http-listen=0.0.0.0:{http}"' in entry
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


def test_data_sets_have_one_writer_with_a_volume_that_it_can_write() -> None:
    stateful = DATASETS.manifest("StatefulSet")["spec"]
    assert stateful["replicas"] == 1
    headless = yaml.safe_load((DATASETS.folder / "pods.yaml").read_text())
    assert stateful["serviceName"] == headless["metadata"]["name"]
    assert headless["spec"]["clusterIP"] == "None"
    (claim,) = stateful["volumeClaimTemplates"]
    (mount,) = DATASETS.container()["volumeMounts"]
    assert mount == {"name": claim["metadata"]["name"], "mountPath": DATASETS.argument("--data-dir")}
    assert claim["spec"]["accessModes"] == ["ReadWriteOncePod"]
    # What both stores map, at most: see LmdbDatasetStore::Options and LmdbJobLogs::Options.
    datasets = int(DATASETS.argument("--max-store-bytes")) * 5 // 4 + (256 << 20)
    ledger = 4 * (1 << 30) + (256 << 20)
    assert datasets + ledger < bytes_of(claim["spec"]["resources"]["requests"]["storage"])

    # The image's user, and a folder that is there and belongs to it.
    (user,) = instructions("USER")
    rights = DATASETS.pod()["spec"]["securityContext"]
    assert user == f"{rights['runAsUser']}:{rights['runAsGroup']}"
    assert rights["fsGroup"] == rights["runAsGroup"]
    (made,) = (text for text in instructions("RUN") if text.startswith("install -d"))
    made = made.partition(" && ")[0].strip()
    uid, gid = user.split(":")
    assert made == f"install -d -o {uid} -g {gid} /image{mount['mountPath']}"
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


def test_versions_agree() -> None:
    for workload in (STATELESS, DATASETS):
        assert workload.container()["image"] == f"packhouse:{version()}"
    (label,) = (text for text in instructions("LABEL") if "image.version" in text)
    assert f'org.opencontainers.image.version="{version()}"' in label
    for path in (ROOT / "Dockerfile", DEPLOY / "README.md"):
        assert set(re.findall(r"packhouse:(\d+\.[\w.]+)", path.read_text())) == {version()}
    releases = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert releases[0] == version()


def test_a_trainer_loads_by_the_lane_of_its_pod(tmp_path: Path) -> None:
    if "PACKHOUSED" not in os.environ:
        pytest.skip("PACKHOUSED does not name a server program")
    trainer = Workload(KUBERNETES / "trainer", "Job")
    pod = trainer.pod()["spec"]
    (server,) = pod["initContainers"]
    # What the containers share.
    (shared,) = (mount["mountPath"] for mount in trainer.container()["volumeMounts"])
    (address,) = (text.partition("=")[2] for text in server["args"] if "--listen" in text)
    assert address in (KUBERNETES / "trainer" / "job.yaml").read_text().split("spec:")[0]
    places = {shared: f"{tmp_path}/run", "/data": f"{tmp_path}/data"}
    assert {mount["mountPath"] for mount in server["volumeMounts"]} == places.keys()
    for place in places.values():
        Path(place).mkdir()

    def placed(text: str) -> str:
        for there, here in places.items():
            text = re.sub(rf"(?<=[=:]){there}\b", here, text)
        return text

    arguments = [placed(text) for text in server["args"]]
    process = subprocess.Popen(
        [os.environ["PACKHOUSED"], *arguments, "--http-listen=127.0.0.1:0"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )
    try:
        assert process.stdout is not None and "listening" in process.stdout.readline()
        with Client(placed(address)) as client:
            schema = GraphSchema(("nodes",), (TensorSpec("x", "float32", "nodes"),))
            graphs = [{"x": np.full(5, number, np.float32)} for number in range(40)]
            client.datasets.create("set", schema)
            client.datasets.append("set", GraphTable.from_graphs(schema, graphs))
            client.datasets.seal("set")
        with Loader(
            placed(address), dataset="set", job="job", limits={"nodes": 10}, lane="required"
        ) as loader:
            assert sorted(int(each) for batch in loader for each in batch.graph_ids) == list(range(40))
            assert loader.transport == "lane"
    finally:
        process.terminate()
        assert process.wait() == 0

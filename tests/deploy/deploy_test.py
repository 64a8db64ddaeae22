"""What deploy/ and the Dockerfile say must be true of the server that was built."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import urllib.request
from pathlib import Path
from typing import Any, Final, Iterator, NamedTuple

import numpy as np
import pytest
import yaml

from packhouse import Client, LocalServer, PackOptions

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
    *("--publish", "--rm", "--start-period", "--stop-timeout", "--tag", "--timeout"),
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


def manifest(kind: str) -> Any:
    """The one Kubernetes object of this kind."""
    objects = [
        document
        for path in KUBERNETES.glob("*.yaml")
        for document in yaml.safe_load_all(path.read_text())
    ]
    (found,) = (one for one in objects if one["kind"] == kind)
    return found


def pod() -> Any:
    """The Deployment's pod template."""
    return manifest("Deployment")["spec"]["template"]


def container() -> Any:
    (only,) = pod()["spec"]["containers"]
    return only


def argument(flag: str) -> str:
    """The value that the Deployment gives a flag."""
    given: list[str] = container()["args"]
    (value,) = (text.partition("=")[2] for text in given if text.partition("=")[0] == flag)
    return value


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
def server() -> Iterator[LocalServer]:
    with LocalServer() as running:
        yield running


def fetch(server: LocalServer, path: str) -> str:
    """A page of the HTTP port; raises HTTPError unless its status is 200."""
    with urllib.request.urlopen(f"http://{server.http_address}{path}") as response:
        text: str = response.read().decode()
    return text


@pytest.fixture(scope="module")
def page(server: LocalServer) -> MetricsPage:
    """The page of a server that has packed a stream, so that every family has samples."""
    with Client(server.address) as client:
        sizes = np.array([[3, 4], [5, 6]])
        assert list(client.pack_sizes([sizes], PackOptions({"nodes": 10, "edges": 10})))
    text = fetch(server, "/metrics")
    series = [line for line in text.splitlines() if line and not line.startswith("#")]
    return MetricsPage(
        text,
        {re.split(r"[{ ]", line, maxsplit=1)[0] for line in series},
        {label for line in series for label in re.findall(r'[{,](\w+)="', line)},
    )


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


def test_kustomization_lists_every_manifest() -> None:
    files = {path.name for path in KUBERNETES.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(manifest("Kustomization")["resources"]) == files


def test_the_server_starts_with_the_arguments_of_the_deployment() -> None:
    with LocalServer(arguments=container()["args"]) as server:
        assert server.address
    assert server.returncode == 0


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
    grpc, http = int(defaults["listen"]), int(defaults["http-listen"])
    assert not any(re.match("--(http-)?listen", text) for text in container()["args"])

    (exposed,) = instructions("EXPOSE")
    assert [int(port) for port in exposed.split()] == [grpc, http]
    (check,) = instructions("HEALTHCHECK")
    assert f"/dev/tcp/127.0.0.1/{http} " in check

    ports = {port["name"]: port["containerPort"] for port in container()["ports"]}
    assert ports == {"grpc": grpc, "http": http}
    service = {port["name"]: port for port in manifest("Service")["spec"]["ports"]}
    assert {name: port["port"] for name, port in service.items()} == ports
    assert all(port["targetPort"] == name for name, port in service.items())
    assert pod()["metadata"]["annotations"]["prometheus.io/port"] == str(http)

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


@pytest.mark.parametrize("probe", ["startupProbe", "readinessProbe", "livenessProbe"])
def test_probes_ask_pages_that_are_served(server: LocalServer, probe: str) -> None:
    get = container()[probe]["httpGet"]
    assert get["port"] == "http"
    assert fetch(server, get["path"])


def test_pods_are_given_longer_to_end_than_the_server_drains() -> None:
    grace = pod()["spec"]["terminationGracePeriodSeconds"]
    assert grace > seconds(argument("--drain-timeout"))


def test_streams_cannot_outgrow_the_memory_of_a_pod() -> None:
    streams, pending, message = (
        int(argument(flag))
        for flag in ("--max-streams", "--max-pending-bytes", "--max-message-bytes")
    )
    limit = re.fullmatch(r"(\d+)Gi", container()["resources"]["limits"]["memory"])
    assert limit is not None
    # Two chunks in, two batches out.
    assert streams * (pending + 4 * message) < int(limit[1]) << 30

    (alert,) = (rule for rule in rules() if rule.get("alert") == "PackhousePendingBytesHigh")
    assert 0 < int(alert["expr"].rpartition(">")[2]) < streams * pending


def test_selectors_select_the_pods() -> None:
    labels = pod()["metadata"]["labels"].items()
    (spread,) = pod()["spec"]["topologySpreadConstraints"]
    for selector in (
        manifest("Service")["spec"]["selector"],
        manifest("Deployment")["spec"]["selector"]["matchLabels"],
        manifest("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        spread["labelSelector"]["matchLabels"],
    ):
        assert selector and selector.items() <= labels
    assert pod()["spec"]["serviceAccountName"] == manifest("ServiceAccount")["metadata"]["name"]


def test_the_image_runs_without_rights() -> None:
    (user,) = instructions("USER")
    uid, _, gid = user.partition(":")
    assert int(uid) > 0 and int(gid) > 0
    assert pod()["spec"]["securityContext"]["runAsNonRoot"] is True
    rights = container()["securityContext"]
    assert rights["readOnlyRootFilesystem"] is True
    assert rights["allowPrivilegeEscalation"] is False
    assert rights["capabilities"] == {"drop": ["ALL"]}


def test_versions_agree() -> None:
    assert container()["image"] == f"packhouse:{version()}"
    (label,) = (text for text in instructions("LABEL") if "image.version" in text)
    assert f'org.opencontainers.image.version="{version()}"' in label


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

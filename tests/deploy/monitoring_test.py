"""Alerts fire and dashboards show something, in a real Prometheus that watches real servers."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Iterator

import pytest
import yaml
from deployed import (
    DASHBOARDS,
    DEPLOY,
    METRICS_PAGE,
    RULES,
    dashboard,
    documented,
    families_of,
    in_grafana,
    queries,
)
from monitored_world import AT_ONCE, TRACE, World, monitored_world

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool (Debian package prometheus) is missing"
)
each_dashboard = pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)


def promtool(*arguments: str | Path, text: str = "") -> None:
    """Runs promtool and asserts that it has no complaint."""
    done = subprocess.run(
        ["promtool", *arguments], input=text, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is missing")
    with monitored_world(tmp_path_factory.mktemp("world")) as lived:
        yield lived


def alerts(of_clusters: bool) -> set[str]:
    """Those of servers that share something, or the others."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return {
        rule["alert"]
        for group in groups
        for rule in group["rules"]
        if "alert" in rule and (group["name"] == "packhouse-cluster-alerts") == of_clusters
    }


def needs_cluster(world: World) -> None:
    """Skips the test where there is none."""
    if world.why_no_cluster:
        pytest.skip(world.why_no_cluster)


# There are targets: rules_test.yml has it.
NOT_HERE = {"PackhouseNothingScraped"}


def test_every_alert_fires(world: World) -> None:
    fired = {one["metric"]["alertname"] for one in world.ever('ALERTS{alertstate="firing"}')}
    assert fired - alerts(of_clusters=True) - NOT_HERE == alerts(of_clusters=False) - NOT_HERE


def test_every_alert_of_a_cluster_fires(world: World) -> None:
    needs_cluster(world)
    fired = {one["metric"]["alertname"] for one in world.ever('ALERTS{alertstate="firing"}')}
    assert fired >= alerts(of_clusters=True), alerts(of_clusters=True) - fired


def test_servers_that_are_well_raise_no_alert(world: World) -> None:
    assert world.when_healthy == AT_ONCE


def test_every_recording_has_a_value(world: World) -> None:
    for rule in rules():
        assert "record" not in rule or world.shows(rule["record"]), rule


@each_dashboard
def test_every_query_of_a_dashboard_shows_something(world: World, path: Path) -> None:
    if path.stem == "cluster":
        needs_cluster(world)
    assert [query for query in queries(path) if not world.shows(query)] == []


@pytest.mark.parametrize("stem", ["epochs", "packing-efficiency"])
def test_data_sets_can_be_chosen(world: World, stem: str) -> None:
    (path,) = (path for path in DASHBOARDS if path.stem == stem)
    chosen = queries(path, namespace="default", dataset="(d|long)")
    of_dataset = [query for query in chosen if 'dataset=~"(d|long)"' in query]
    assert of_dataset
    assert [query for query in of_dataset if not world.shows(query)] == []
    for nobody in (queries(path, dataset="nobody"), queries(path, namespace="nobody")):
        of_nobody = [query for query in nobody if '=~"nobody"' in query]
        assert of_nobody
        assert [query for query in of_nobody if world.shows(query)] == []


@each_dashboard
def test_every_variable_of_a_dashboard_has_values(world: World, path: Path) -> None:
    if path.stem == "cluster":
        needs_cluster(world)
    for variable in dashboard(path)["templating"]["list"]:
        if variable["type"] != "query":
            continue
        values = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["definition"])
        assert values is not None and variable["query"]["query"] == variable["definition"]
        series = world.prometheus.query_range(
            in_grafana(path, values[1]), world.begin, world.end, step=0.5
        )
        assert any(one["metric"].get(values[2]) for one in series), variable["name"]


def test_prometheus_keeps_the_labels(world: World) -> None:
    series = world.ever("packhouse_epoch_batches_left")
    assert {
        (one["metric"]["job"], one["metric"]["training_job"], one["metric"]["dataset"])
        for one in series
    } >= {("packhouse", "train", "d"), ("packhouse", "train", "long")}
    assert {one["metric"]["namespace"] for one in series} == {"default"}


def test_every_metric_is_documented(world: World) -> None:
    needs_cluster(world)
    assert METRICS_PAGE.read_text() == documented(
        world.pages
    ), "run python3 tests/deploy/monitored_world.py --write"
    assert [family.name for family in families_of(world.pages) if not family.text] == []


@needs_promtool
def test_promtool_accepts_the_pages_of_metrics(world: World) -> None:
    for page in world.pages:
        promtool("check", "metrics", text=page)


def samples_of(families: Any) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
    """Names and labels; bounds as numbers, since the formats write them otherwise."""
    return {
        (
            sample.name,
            tuple(sorted(
                (name, str(float(value)) if name in ("le", "quantile") else value)
                for name, value in sample.labels.items()
            )),
        )
        for family in families
        for sample in family.samples
    }


def test_open_metrics_has_the_same_samples(world: World) -> None:
    classic = pytest.importorskip("prometheus_client.parser")
    strict = pytest.importorskip("prometheus_client.openmetrics.parser")
    families = list(strict.text_string_to_metric_families(world.open_metrics))
    page = classic.text_string_to_metric_families(world.pages[0])
    assert samples_of(families) == samples_of(page)
    assert any(sample.exemplar for family in families for sample in family.samples)


def test_prometheus_keeps_the_traces_of_calls(world: World) -> None:
    found = world.prometheus.exemplars(
        'packhouse_rpc_duration_seconds_bucket{method="ListJobs"}', world.begin, time.time()
    )
    assert {each["labels"]["trace_id"] for each in found} == {TRACE}


@needs_promtool
def test_promtool_accepts_the_configuration_and_its_rules() -> None:
    promtool("check", "config", DEPLOY / "prometheus" / "prometheus.yml")


@needs_promtool
def test_rules_compute_what_they_should() -> None:
    promtool("test", "rules", Path(__file__).with_name("rules_test.yml"))


def test_the_operator_gets_the_same_rules() -> None:
    script = DEPLOY / "prometheus" / "prometheus_rule.py"
    done = subprocess.run([sys.executable, "-B", script, "--check"], check=False)
    assert done.returncode == 0, f"run python3 {script.relative_to(DEPLOY.parent)}"


@each_dashboard
def test_a_dashboard_is_well_formed(path: Path) -> None:
    panels = dashboard(path)["panels"]
    ids = [panel["id"] for panel in panels]
    assert len(set(ids)) == len(ids)
    variables = {variable["name"] for variable in dashboard(path)["templating"]["list"]}
    assert set(re.findall(r"\$\{?([a-z]\w*)", path.read_text())) == variables
    assert {"job", "instance"} <= variables
    sources = [panel for panel in panels if panel["type"] != "row"]
    sources += [target for panel in sources for target in panel["targets"]]
    for source in sources:
        assert source["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert "expr" not in source or 'instance=~"$instance"' in source["expr"]
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


def test_every_alert_is_explained() -> None:
    table = re.search(r"\| alert \|.*?\n\n", (DEPLOY / "README.md").read_text(), re.DOTALL)
    assert table is not None
    alerts = {rule["alert"] for rule in rules() if "alert" in rule}
    assert set(re.findall(r"`(Packhouse\w+)`", table[0])) == alerts


def test_each_dashboard_is_another() -> None:
    assert len({dashboard(path)["uid"] for path in DASHBOARDS}) == len(DASHBOARDS) == 3

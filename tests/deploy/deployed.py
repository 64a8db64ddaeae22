"""What deploy/ has for the eyes of operators: rules, dashboards, the page of metrics."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
DEPLOY: Final = ROOT / "deploy"
RULES: Final = DEPLOY / "prometheus" / "rules.yml"
DASHBOARDS: Final = sorted((DEPLOY / "grafana").glob("*.json"))
METRICS_PAGE: Final = ROOT / "docs" / "metrics.md"

# What Grafana puts in place of its own variables, here.
TIMES: Final = {"$__rate_interval": "3s", "$__range": "10s"}
METRICS_HEAD: Final = """\
# Metrics

`/metrics` has them in Prometheus' text format or, for those who ask, in that of OpenMetrics, with
[exemplars](security.md#the-http-port). It says of each its type and what it means:

```sh
curl -s localhost:9464/metrics | grep HELP
```

Times are in seconds, sizes in bytes. Labels that clients choose (components, jobs, data sets, namespaces)
are bounded: further values share the label `other`. A histogram `NAME` has the series `NAME_bucket`,
`NAME_sum` and `NAME_count`. Metrics of a feature that is not in use, such as certificates, are left out.

[`deploy`](../deploy/README.md#prometheus-and-grafana) has alerts and dashboards.
`make test` holds this list against real servers; `tests/deploy/monitored_world.py --write` writes it anew.

"""


def in_grafana(path: Path, query: str, **chosen: str) -> str:
    """A query of a dashboard as Grafana would send it; all values of a variable that is not chosen."""
    all_values = {
        variable["name"]: variable["allValue"]
        for variable in dashboard(path)["templating"]["list"]
        if variable["type"] == "query"
    }
    for name, value in {**all_values, **chosen}.items():
        query = query.replace(f"${name}", value)
    for name, value in TIMES.items():
        query = query.replace(name, value)
    return query


def dashboard(path: Path) -> dict[str, Any]:
    """A dashboard as Grafana imports it."""
    loaded: dict[str, Any] = json.loads(path.read_text())
    return loaded


def queries(path: Path, **chosen: str) -> list[str]:
    """All PromQL of a dashboard's panels, as Grafana would send it."""
    return [
        in_grafana(path, target["expr"], **chosen)
        for panel in dashboard(path)["panels"]
        for target in panel.get("targets", [])
    ]


class Family(NamedTuple):
    """A metric: its labels, and what the server says that it means."""

    name: str
    labels: str
    text: str


def families_of(pages: list[str]) -> list[Family]:
    """Those of all pages together, by name; each label that any sample has."""
    kinds: dict[str, str] = {}
    texts: dict[str, str] = {}
    labels: dict[str, set[str]] = {}
    for page in pages:
        texts.update(re.findall(r"^# HELP (\S+) (.*)$", page, re.MULTILINE))
        kinds.update(re.findall(r"^# TYPE (\S+) (\S+)$", page, re.MULTILINE))
        for name, given in re.findall(r"^([a-z]\w*)\{(.*)\} \S+$", page, re.MULTILINE):
            family = name if name in kinds else re.sub(r"_(bucket|sum|count)$", "", name)
            labels.setdefault(family, set()).update(re.findall(r'(\w+)="', given))
    return [
        Family(name, ", ".join(sorted(labels.get(name, set()) - {"le"})), texts.get(name, ""))
        for name in sorted(kinds)
    ]


def documented(pages: list[str]) -> str:
    """The page of the documentation."""
    lines = ["| metric | labels |", "|---|---|"]
    for family in families_of(pages):
        lines.append(f"| `{family.name}` | {family.labels} |")
    return METRICS_HEAD + "\n".join(lines) + "\n"

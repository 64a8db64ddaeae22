"""Writes rules.yml as the Prometheus operator wants it, into kubernetes/components/monitoring.

    python3 deploy/prometheus/prometheus_rule.py [--check]

With --check it writes nothing; exit status 1 if the file is not what it would write.
"""

from __future__ import annotations

import pathlib
import sys
from typing import Final

HERE: Final = pathlib.Path(__file__).resolve().parent
TARGET: Final = HERE.parent / "kubernetes/components/monitoring/prometheus-rule.yaml"
HEAD: Final = """\
# Written by deploy/prometheus/prometheus_rule.py, from rules.yml beside it.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: packhouse
  labels:
    app.kubernetes.io/name: packhouse
spec:
"""


def main() -> int:
    lines = (HERE / "rules.yml").read_text().splitlines(keepends=True)
    text = HEAD + "".join("  " + line if line.strip() else line for line in lines)
    if "--check" in sys.argv[1:]:
        return 0 if TARGET.exists() and TARGET.read_text() == text else 1
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

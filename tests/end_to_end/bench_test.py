"""packhouse-bench, only that it runs: its figures are for quiet machines and longer runs."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess

import pytest

pytestmark = pytest.mark.skipif(
    "PACKHOUSE_BENCH" not in os.environ or "PACKHOUSED" not in os.environ,
    reason="PACKHOUSE_BENCH and PACKHOUSED do not name the programs",
)


def bench(
    folder: pathlib.Path, *arguments: object
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [os.environ["PACKHOUSE_BENCH"], *map(str, arguments)],
        env={**os.environ, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_every_measure_is_in_table_and_json_and_nothing_stays(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    figures = tmp_path / "figures.json"
    done = bench(
        folder,
        *("--packhoused", os.environ["PACKHOUSED"], "--seconds", 0.05, "--runs", 1),
        *("--streams", "1,4", "--payloads", "16KiB,256KiB", "--json", figures),
    )
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(figures.read_text(encoding="utf-8"))
    assert report["machine"]["tcp_congestion"] == "reno"
    delivered = {
        (m["measure"], m["streams"], m["payload_bytes"])
        for m in report["measures"]
        if "payload_bytes" in m and "fairness" not in m["measure"]
    }
    assert delivered == {
        (measure, streams, payload)
        for measure in ("download", "exchange", "lane", "load", "loader", "pack", "pack lane")
        for streams in (1, 4)
        for payload in (16 << 10, 256 << 10)
    }
    others = [m["measure"] for m in report["measures"] if "payload_bytes" not in m]
    assert others == ["tcp", *["observe"] * 6, "plan", "plan"]
    for word in ("load", "pack", "observe", "plan", "64 streams"):
        assert word in done.stdout
    assert not list(folder.iterdir())


def test_the_first_epochs_are_measured_one_by_one(tmp_path: pathlib.Path) -> None:
    figures = tmp_path / "figures.json"
    done = bench(
        tmp_path,
        *("--packhoused", os.environ["PACKHOUSED"], "--seconds", 0.05, "--runs", 1),
        *("--only", "epochs", "--payloads", "256KiB", "--json", figures),
    )
    assert (done.returncode, done.stderr) == (0, "")
    measures = json.loads(figures.read_text(encoding="utf-8"))["measures"]
    assert [(m["measure"], m["epoch"]) for m in measures] == [
        (f"epoch by {transport}", epoch) for transport in ("loader", "lane") for epoch in (1, 2, 3, 4)
    ]
    assert all(m["graphs_per_second"]["median"] > 0 for m in measures)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--payloads", "7"), 2, "packhouse-bench: --payloads '7': must be a number of bytes from"),
        (("--only", "fame"), 2, "--only"),
        (("--data", "/nonexistent.npz"), 1, "packhouse-bench: /nonexistent.npz: "),
        (("--packhoused", "/nonexistent"), 1, "packhouse-bench: /nonexistent ended before it was ready"),
        (("--tcp-congestion", "fame"), 1, "'fame'"),
    ],
)
def test_errors_name_what_is_wrong(
    arguments: tuple[str, ...], code: int, message: str, tmp_path: pathlib.Path
) -> None:
    done = bench(tmp_path, "--seconds", 0.01, "--runs", 1, *arguments)
    assert done.returncode == code
    assert message in done.stderr
    assert not list(tmp_path.iterdir())

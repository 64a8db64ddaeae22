"""All figures of lanes, and the same by TCP, in one go, with their goals beside: some 12 minutes.

Runs `packhouse-bench`, python_client.py, tensor_loader.py and frameworks.py one after the other, each of
which compares what takes turns. `make bench-lane` makes the environment `benchmarks` first, which has
PyG, torch and jraph. Exit status 1 if a goal is missed.

    PYTHONPATH=build/release/python python3 tests/benchmarks/lane_figures.py \\
        --packhoused build/release/service/packhoused --bench build/release/client/bench/packhouse-bench \\
        --environments build/environments --data ../shared/data/graphs/molhiv.npz [--quick]
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from typing import Any, Callable, Final

from measuring import markdown

_FOLDER: Final = pathlib.Path(__file__).resolve().parent
_PAYLOAD: Final = 256 << 10


@dataclasses.dataclass(frozen=True)
class Figure:
    """A row of the table."""

    name: str
    # Of what the programs have said.
    value: Callable[[Figures], float]
    goal: float
    unit: str
    is_at_most: bool = False

    def is_met(self, value: float) -> bool:
        return value <= self.goal if self.is_at_most else value >= self.goal


@dataclasses.dataclass(frozen=True)
class Figures:
    """What the programs have said. Methods raise StopIteration for what they have left out."""

    measures: list[dict[str, Any]]
    readers: list[dict[str, Any]]
    rows: list[dict[str, Any]]
    contestants: list[dict[str, Any]]

    def measure(self, name: str, streams: int, field: str) -> float:
        (found,) = (
            entry
            for entry in self.measures
            if (entry["measure"], entry["streams"], entry["payload_bytes"])
            == (name, streams, _PAYLOAD)
        )
        return float(found[field]["median"])

    def reader(self, name: str, field: str) -> float:
        value = next(entry for entry in self.readers if entry["reader"] == name)[field]
        return float(statistics.median(value) if isinstance(value, list) else value)

    def tensor_loader(self, batch_size: int) -> float:
        return next(
            float(entry["of_DataLoader"])
            for entry in self.rows
            if (entry["reader"], entry["batch_size"]) == ("TensorLoader", batch_size)
        )

    def contestant(self, name: str, field: str) -> float:
        found = next(entry for entry in self.contestants if entry["contestant"] == name)
        return float(statistics.median(found[field]))


def _share(measure: str, streams: int, of: str, goal: float) -> Figure:
    return Figure(
        f"{measure}, {streams} stream{'s' * (streams > 1)}, of {of}",
        lambda figures: 100 * figures.measure(measure, streams, f"ratio_to_{of}"),
        goal,
        "%",
    )


def _cpu(figures: Figures) -> float:
    return sum(
        figures.measure("lane", 1, f"{side}_cpu_seconds_per_gigabyte")
        for side in ("client", "server")
    )


def _of_raw(framework: str) -> Figure:
    return Figure(
        f"{framework} by lane, client's CPU of opaque bytes'",
        lambda figures: figures.reader(f"{framework}, by lane", "client_cpu_of_raw"),
        1.3,
        "",
        is_at_most=True,
    )


FIGURES: Final = (
    _share("lane", 1, "download", 100),
    _share("lane", 4, "download", 120),
    Figure("lane, CPU of both sides", _cpu, 0.22, "s/GB", is_at_most=True),
    *(_share("pack lane", streams, "exchange", 100) for streams in (1, 4)),
    _share("load", 1, "download", 50),
    _share("load", 4, "download", 65),
    _share("pack", 1, "exchange", 60),
    Figure(
        "Loader in Python by lane, its thread, a batch",
        lambda figures: figures.reader("loader, by lane", "thread_microseconds_per_message"),
        12,
        "us",
        is_at_most=True,
    ),
    *map(_of_raw, ("pyg", "jraph", "torch")),
    *(
        Figure(
            f"TensorLoader, batches of {size:,}, of DataLoader",
            lambda figures, size=size: figures.tensor_loader(size),  # type: ignore[misc]
            10,
            "times",
        )
        for size in (64, 1024)
    ),
    Figure(
        "graphs a second of PyG's DataLoader without workers",
        lambda figures: figures.contestant("packhouse, Python", "ratio_to_baseline"),
        40,
        "times",
    ),
)


def said(folder: pathlib.Path, command: list[Any]) -> dict[str, Any]:
    """What a program writes to --json. It may end with status 1 for goals of its own."""
    path = folder / "figures.json"
    path.unlink(missing_ok=True)
    print(f"$ {' '.join(map(str, command))}", file=sys.stderr, flush=True)
    subprocess.run([*map(str, command), "--json", str(path)], check=False)
    figures: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return figures


def measure(options: argparse.Namespace, folder: pathlib.Path) -> Figures:
    """Runs all programs."""
    quick = options.quick
    runs, few, seconds = (1, 1, 0.1) if quick else (5, 3, 1.0)
    server = ("--packhoused", options.packhoused)
    graphs = (*server, "--bench", options.bench, "--data", options.data)
    python = options.environments / "benchmarks" / "bin" / "python"
    bench = [options.bench, *server, "--data", options.data, "--only", "load,pack"]
    bench += ["--streams", "1,4", "--payloads", "256KiB", "--patience", 0 if quick else 4]
    readers = [python, "-B", _FOLDER / "python_client.py", *graphs, "--kib", "256"]
    readers += ["--copies", 1 if quick else 8, "--seconds", 0.05 if quick else 0.4]
    rows = [sys.executable, "-B", _FOLDER / "tensor_loader.py", *server]
    rows += ["--rows", 20_000 if quick else 150_000, "--seconds", 2 * seconds]
    frameworks = [sys.executable, "-B", _FOLDER / "frameworks.py", *graphs, "--seconds", seconds]
    frameworks += ["--environments", options.environments]
    return Figures(
        said(folder, [*bench, "--runs", runs, "--seconds", seconds])["measures"],
        said(folder, [*readers, "--runs", few])["readers"],
        said(folder, [*rows, "--runs", few])["tensor_loader"],
        said(folder, [*frameworks, "--runs", few])["contestants"],
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("packhoused", "bench"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("environments", "data"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--quick", action="store_true", help="only that it runs: figures say nothing")
    options = parser.parse_args()
    os.environ.setdefault("PYTHONPATH", "build/release/python")
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(options, pathlib.Path(folder))
    lines = []
    missed = 0
    for figure in FIGURES:
        bound = f"{'at most' if figure.is_at_most else 'at least'} {figure.goal:g} {figure.unit}"
        try:
            value = figure.value(figures)
        except StopIteration:
            lines.append([figure.name, "left out", bound, ""])
            continue
        missed += not figure.is_met(value)
        shown = f"{value:.0f}" if figure.unit in ("%", "us") else f"{value:.2f}"
        lines.append(
            [figure.name, f"{shown} {figure.unit}", bound, "met" if figure.is_met(value) else "missed"]
        )
    print(markdown(("256 KiB", "reached", "goal", ""), lines))
    others = max(entry["cpu_share_of_others"]["median"] for entry in figures.measures)
    print(f"At most {100 * others:.0f} % of the machine were others'.")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

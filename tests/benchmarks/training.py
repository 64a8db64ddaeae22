"""Trains the GIN of train_pyg.py by each feed with several seeds, and writes a table and a plot.

    PYTHONPATH=build/release/python PACKHOUSED=build/release/service/packhoused \
        python3 tests/benchmarks/training.py molhiv.npz [--seeds 3] [--epochs 5] [--channels 32] \
        [--feeds pyg unmixed packhouse balanced padded compiled graphed] [--device cuda] [--logs DIR] [--plot training.svg]

`compiled` needs torch 2, `graphed` (CUDA graphs) a GPU. The runs' outputs are kept in --logs, and a run whose output is there is not made again. Runs come
one after the other, those of a seed together: each has the machine for itself. Python is one with torch and torch_geometric;
the plot needs gnuplot.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import re
import statistics
import subprocess
import sys
from typing import Final, Sequence

from gallery import shortened

EXAMPLE: Final = pathlib.Path(__file__).parents[2] / "client/python/examples/train_pyg.py"
# What a run is called, and what it is told.
RUNS: Final = {
    "pyg": ("--feed", "pyg"),
    "packhouse": ("--feed", "packhouse"),
    "padded": ("--feed", "packhouse", "--padded"),
    "unmixed": ("--feed", "packhouse", "--unmixed"),
    "balanced": ("--feed", "packhouse", "--ranks", "2", "--cost", "edges"),
    "compiled": ("--feed", "packhouse", "--padded", "--mode", "compiled"),
    "graphed": ("--feed", "packhouse", "--padded", "--mode", "cuda-graphs"),
}
DEFAULT_RUNS: Final = ("pyg", "unmixed", "packhouse", "balanced")
TITLES: Final = {
    "pyg": "PyG's DataLoader",
    "packhouse": "packhouse",
    "padded": "packhouse, padded",
    "unmixed": "packhouse, unmixed",
    "balanced": "packhouse, two ranks, steps of like cost",
    "compiled": "packhouse, padded, compiled",
    "graphed": "packhouse, padded, CUDA graphs",
}
_COLOURS: Final = ("#d1495b", "#1b6ca8", "#3c8d5a", "#8a5a9e", "#c98a1b", "#5f6b73", "#2a9d8f")

_EPOCH = re.compile(
    r"epoch \d+: .*ROC-AUC ([\d.]+), loss ([\d.]+), waiting ([\d.]+) s, training ([\d.]+) s"
)
_TEST = re.compile(r"test ROC-AUC ([\d.]+) after (\d+) steps")
_RATES = re.compile(r"([\d.]+) steps/s, ([\d,]+) graphs/s; valid ROC-AUC of ([\d.]+) (?:after ([\d.]+) s)?")
_PADDED = re.compile(r"([\d,]+) of ([\d,]+) node rows were padding")


@dataclasses.dataclass(frozen=True)
class Run:
    """What a run printed; ROC-AUC, loss and seconds by epoch."""

    valid: list[float]
    loss: list[float]
    waiting: list[float]
    training: list[float]
    test: float
    steps: int
    padded: int
    rows: int
    # Without the first epoch, which compiles; and the seconds of training until the score.
    steps_per_second: float
    graphs_per_second: float
    seconds_to_score: float | None

    @staticmethod
    def of(output: str) -> Run:
        """Raises ValueError if the run did not come to its end."""
        epochs = _EPOCH.findall(output)
        test = _TEST.search(output)
        rates = _RATES.search(output)
        if test is None or rates is None or not epochs:
            raise ValueError(f"no result in:\n{output}")
        rows = _PADDED.search(output)
        padded, all_rows = rows.groups() if rows else ("0", "0")
        return Run(
            *([float(epoch[i]) for epoch in epochs] for i in range(4)),
            float(test[1]),
            int(test[2]),
            int(padded.replace(",", "")),
            int(all_rows.replace(",", "")),
            float(rates[1]),
            float(rates[2].replace(",", "")),
            float(rates[4]) if rates[4] else None,
        )


def run(name: str, seed: int, options: argparse.Namespace) -> Run:
    """The run's result, from the folder of outputs if it is there."""
    log: pathlib.Path = options.logs / f"{name}-{seed}.log"
    if not log.exists():
        command = [sys.executable, "-B", EXAMPLE, options.graphs, *RUNS[name]]
        command += ["--seed", seed, "--epochs", options.epochs, "--channels", options.channels]
        command += ["--device", options.device, "--most", options.most, "--score", options.score]
        ran = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        if ran.returncode:
            raise RuntimeError(ran.stdout + ran.stderr)
        log.write_text(ran.stdout)
    return Run.of(log.read_text())


def table_of(runs: dict[str, list[Run]]) -> str:
    """In Markdown, one row for each feed."""
    lines = [
        "| feed | valid ROC-AUC, best epoch | test ROC-AUC | steps | waiting | padded rows "
        "| steps/s | graphs/s | seconds to the score |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, made in runs.items():
        waiting = sum(sum(one.waiting) for one in made)
        training = sum(sum(one.training) for one in made)
        padded, rows = sum(one.padded for one in made), sum(one.rows for one in made)
        lines.append(
            f"| {TITLES[name]} | {spread([max(one.valid) for one in made])} "
            f"| {spread([one.test for one in made])} | {made[0].steps:,} "
            f"| {100 * waiting / (waiting + training):.1f} % of the time "
            f"| {f'{100 * padded / rows:.2f} %' if padded else 'none'} "
            f"| {between([one.steps_per_second for one in made])} "
            f"| {between([one.graphs_per_second for one in made])} | {times_of(made)} |"
        )
    return "\n".join(lines)


def spread(values: Sequence[float]) -> str:
    return f"{statistics.mean(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def between(values: Sequence[float]) -> str:
    """The least and the most: of seconds on a machine that does other work, a mean says little."""
    least, most = f"{min(values):,.0f}", f"{max(values):,.0f}"
    return least if least == most else f"{least} to {most}"


def times_of(made: Sequence[Run]) -> str:
    reached = [one.seconds_to_score for one in made if one.seconds_to_score is not None]
    missed = f", {len(made) - len(reached)} not" if reached and len(reached) < len(made) else ""
    return between(reached) + missed if reached else "not reached"


def draw(path: pathlib.Path, runs: dict[str, list[Run]]) -> None:
    """Each feed's mean over the seeds, and a bar from the least to the most."""
    script = [
        "set terminal svg size 1000,400 dynamic background '#ffffff' font 'sans,14' noenhanced",
        f"set output '{path}'",
        "set multiplot layout 1,2",
        "set border 3 linecolor rgb '#555555'",
        "set tics nomirror out",
        "set grid linecolor rgb '#e4e4e4' linetype 1",
        f"set xrange [0.7:{len(next(iter(runs.values()))[0].valid) + 0.3}]",
        "set xtics 1",
        "set xlabel 'epoch'",
    ]
    panels = (
        ("ROC-AUC (validation)", ["set key bottom right"]),
        ("loss (training)", ["unset key"]),
    )
    for panel, (title, words) in enumerate(panels):
        curves = []
        for number, (name, made) in enumerate(runs.items()):
            shift = 0.06 * (number - (len(runs) - 1) / 2)
            script.append(f"${name}{panel} << END")
            by_epoch = zip(*((one.valid, one.loss)[panel] for one in made))
            for epoch, values in enumerate(by_epoch, start=1):
                mean = statistics.mean(values)
                script.append(f"{epoch + shift:.2f} {mean:.4f} {min(values)} {max(values)}")
            script.append("END")
            look = f"linecolor rgb '{_COLOURS[number]}' linewidth 2"
            curves.append(f"${name}{panel} with yerrorbars pointtype 7 {look} title \"{TITLES[name]}\"")
            curves.append(f"${name}{panel} using 1:2 with lines {look} notitle")
        script += [*words, f"set ylabel '{title}'", "plot " + ", ".join(curves)]
    script += ["unset multiplot", ""]
    subprocess.run(["gnuplot"], input="\n".join(script), text=True, check=True)
    path.write_bytes(shortened(path.read_bytes()))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("graphs", type=pathlib.Path, help="NAME.npz; NAME_split.npz is beside it")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--channels", type=int, default=32)
    parser.add_argument("--feeds", nargs="*", choices=list(RUNS), default=list(DEFAULT_RUNS))
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--most", type=int, default=0, help="graphs of each part; 0: all")
    parser.add_argument("--score", type=float, default=0.72, help="valid ROC-AUC to be reached")
    parser.add_argument("--logs", type=pathlib.Path, default=pathlib.Path("build/training"))
    parser.add_argument("--plot", type=pathlib.Path, help="an .svg; needs gnuplot")
    options = parser.parse_args()
    options.logs.mkdir(parents=True, exist_ok=True)
    runs: dict[str, list[Run]] = {name: [] for name in options.feeds}
    for seed in range(options.seeds):
        for name in options.feeds:
            runs[name].append(run(name, seed, options))
    print(table_of(runs))
    if options.plot:
        draw(options.plot, runs)
    return 0


if __name__ == "__main__":
    sys.exit(main())

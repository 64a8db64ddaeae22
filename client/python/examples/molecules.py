"""Shared by the training examples: molecules from a file, the figure of merit, the clock."""

from __future__ import annotations

import dataclasses
import pathlib
import shutil
import subprocess
import time
from typing import Iterable, Iterator, Mapping, Sequence, TypeVar

import numpy as np
import numpy.typing as npt

from packhouse import GraphTable
from packhouse.files import npz

Item = TypeVar("Item")

# Values of each categorical feature of ogbg-molhiv: its largest one, and one for good measure.
NODE_VALUES = (120, 5, 12, 12, 10, 6, 6, 2, 2)


def read(path: pathlib.Path, most: int = 0) -> dict[str, GraphTable]:
    """The parts train, valid and test; of the split's first `most` graphs each, 0: all.

    `path` is NAME.npz (see packhouse.files.npz); beside it is NAME_split.npz.
    """
    table = npz.load(path)
    with np.load(path.with_name(f"{path.stem}_split.npz")) as split:
        parts = {name: split[name] for name in ("train", "valid", "test")}
    if most:
        # Spread over the part, as few molecules are of the rarer class.
        parts = {
            name: part[np.linspace(0, len(part) - 1, min(most, len(part))).astype(int)]
            for name, part in parts.items()
        }
    return {name: renumbered(table.take(part)) for name, part in parts.items()}


def renumbered(table: GraphTable) -> GraphTable:
    """The same graphs, numbered from 0."""
    return GraphTable(table.schema, table.sizes, table.tensors)


def roc_auc(labels: npt.ArrayLike, scores: npt.ArrayLike) -> float:
    """The chance that a positive has a higher score than a negative; a tie counts half."""
    positive = np.asarray(labels).astype(bool)
    _, ranks, counts = np.unique(scores, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - (counts - 1) / 2
    wins = middle[ranks][positive].sum() - positive.sum() * (positive.sum() + 1) / 2
    pairs = positive.sum() * (~positive).sum()
    return float(wins / pairs) if pairs else float("nan")


@dataclasses.dataclass
class Clock:
    """Seconds a trainer waits for batches, and seconds it works on them."""

    waiting: float = 0.0
    training: float = 0.0

    def over(self, batches: Iterable[Item]) -> Iterator[Item]:
        """The batches: until each comes is waiting, until the next is asked for is training."""
        iterator = iter(batches)
        while True:
            start = time.perf_counter()
            try:
                batch = next(iterator)
            except StopIteration:
                self.waiting += time.perf_counter() - start
                return
            come = time.perf_counter()
            self.waiting += come - start
            yield batch
            self.training += time.perf_counter() - come


def plot(path: pathlib.Path, curves: Mapping[str, Sequence[float]], label: str) -> None:
    """Draws a figure an epoch of each curve as SVG, if gnuplot is there."""
    gnuplot = shutil.which("gnuplot")
    if gnuplot is None:
        print(f"no plot: gnuplot is not installed ({path})")
        return
    blocks = [
        "\n".join(f"{epoch} {value}" for epoch, value in enumerate(values, start=1)) + "\ne"
        for values in curves.values()
    ]
    drawn = ", ".join(f"'-' with linespoints title '{name}'" for name in curves)
    script = (
        f"set terminal svg size 640,400\nset output '{path}'\nset xlabel 'epoch'\n"
        f"set ylabel '{label}'\nset key bottom right\nset xtics 1\nplot {drawn}\n"
    )
    subprocess.run([gnuplot], input=script + "\n".join(blocks) + "\n", text=True, check=True)
    print(f"plot: {path}")

"""Next-fit in arrival order: the batching of jraph, PyG and TF-GNN, as a baseline.

Graphs are added to the open batch until one does not fit; that one opens the next batch.
"""

from __future__ import annotations

import dataclasses
from typing import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from packhouse.data.schema import GRAPHS


@dataclasses.dataclass(frozen=True, eq=False)
class NextFit:
    """Batch b holds graphs `order[starts[b]:starts[b + 1]]`; `too_large` fit no batch."""

    order: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]  # [batches + 1]
    too_large: npt.NDArray[np.int64]
    totals: dict[str, int]  # Real rows of the graphs in `order`, per component and of `graphs`.

    @property
    def num_batches(self) -> int:
        """Batches made."""
        return len(self.starts) - 1

    def efficiency(self, capacities: Mapping[str, int]) -> dict[str, float]:
        """Real rows / (batches * capacity), for the components that have a capacity."""
        return {
            name: self.totals[name] / (self.num_batches * rows) if self.num_batches else 1.0
            for name, rows in capacities.items()
            if rows
        }


def next_fit(
    sizes: npt.ArrayLike,
    usable: Mapping[str, int],
    components: Sequence[str] = ("nodes", "edges"),
) -> NextFit:
    """Batches the graphs of an [n, l] table of sizes in their order.

    `usable` is the most real rows of a batch per component and of `graphs` (absent or 0: no limit):
    subtract what padding keeps free first. Cost: O(n l + batches l log n).
    """
    table = np.asarray(sizes).astype(np.int64)
    table = table.reshape(len(table), len(components))
    columns = {name: table[:, k] for k, name in enumerate(components)}
    columns[GRAPHS] = np.ones(len(table), np.int64)
    for name in usable:
        if name not in columns:
            raise ValueError(f"no component {name!r}")
    bounds = {name: rows for name, rows in usable.items() if rows}

    fits = np.ones(len(table), bool)
    for name, rows in bounds.items():
        fits &= columns[name] <= rows
    order = np.flatnonzero(fits)
    ends = {name: np.cumsum(columns[name][order]) for name in columns}
    starts = [0]
    while starts[-1] < len(order):
        start = starts[-1]
        stop = len(order)
        for name, rows in bounds.items():
            before = int(ends[name][start - 1]) if start else 0
            stop = min(stop, int(np.searchsorted(ends[name], before + rows, side="right")))
        starts.append(stop)
    return NextFit(
        order=order,
        starts=np.array(starts, np.int64),
        too_large=np.flatnonzero(~fits),
        totals={name: int(end[-1]) if len(order) else 0 for name, end in ends.items()},
    )

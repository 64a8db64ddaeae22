"""Batches of so many graphs each that are made in this process, of a table that it holds."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from packhouse.data.batch import Batch
from packhouse.data.graphs import Array, GraphTable
from packhouse.data.schema import GRAPHS, Layout

Positions = npt.NDArray[np.int64]


class FixedSteps:
    """Which graphs are in which step of an epoch: `batch_size` for each rank.

    Shuffled, each order of the graphs is as likely as any other, and the same for the same seed and
    epoch; else they come in their own order. Ranks share what is left for the last step, so that no
    graph is left out or repeated and all have as many steps; `drop_last` leaves it out instead.
    """

    def __init__(
        self,
        num_graphs: int,
        batch_size: int,
        *,
        shuffle: bool,
        seed: int,
        drop_last: bool,
        rank: int = 0,
        num_ranks: int = 1,
    ) -> None:
        self._num_graphs = num_graphs
        self._batch_size = batch_size
        self._shuffle = shuffle
        self._seed = seed
        self._rank = rank
        self._num_ranks = num_ranks
        whole, rest = divmod(num_graphs, batch_size * num_ranks)
        self._num_steps = whole + (rest > 0 and not drop_last)

    def __len__(self) -> int:
        return self._num_steps

    def of_epoch(self, epoch: int) -> list[Positions]:
        """The graphs of each step of this rank."""
        if self._shuffle:
            generator = np.random.Generator(np.random.PCG64([self._seed, epoch]))
            order = generator.permutation(self._num_graphs)
        else:
            order = np.arange(self._num_graphs)
        of_all = self._batch_size * self._num_ranks
        return [
            np.array_split(order[start : start + of_all], self._num_ranks)[self._rank]
            if start + of_all > self._num_graphs
            else order[start : start + of_all][self._rank * self._batch_size :][: self._batch_size]
            for start in range(0, self._num_steps * of_all, of_all)
        ]


class LocalBatches:
    """Joins graphs of a table as the service does; the arrays of a batch are its own."""

    def __init__(self, table: GraphTable) -> None:
        self._table = table
        self._offsets = {name: table.offsets(name) for name in table.schema.all_components}
        self._counts = {name: np.diff(offsets) for name, offsets in self._offsets.items()}

    def batch(self, positions: Positions, step: int, epoch: int) -> Batch:
        """The graphs at these positions, in this order. Cost: O(rows copied)."""
        table = self._table
        counts = {name: of_all[positions] for name, of_all in self._counts.items()}
        ends = {name: each.cumsum() for name, each in counts.items()}
        rows: dict[str, Positions] = {}
        tensors: dict[str, Array] = {}
        for spec in table.schema.tensors:
            component = spec.component
            if component == GRAPHS:
                rows[component] = positions
            elif component not in rows:
                # Row r of the batch is as far behind its graph's start as in the table.
                starts = ends[component] - counts[component]
                shift = np.repeat(self._offsets[component][positions] - starts, counts[component])
                shift += np.arange(len(shift))
                rows[component] = shift
            column = table.tensors[spec.name]
            taken = column.take(rows[component], axis=spec.rows_axis)
            if spec.index_into is not None:
                into = spec.index_into
                add = np.repeat(ends[into] - counts[into], counts[component]).astype(taken.dtype)
                if spec.layout is not Layout.ROWS_LAST:
                    add = add.reshape(-1, *(1 for _ in spec.row_shape))
                taken += add
            tensors[spec.name] = taken
        real_rows = {name: int(each[-1]) if len(each) else 0 for name, each in ends.items()}
        return Batch(
            table.schema,
            step,
            epoch,
            step,
            table.graph_ids[positions],
            table.sizes[positions],
            real_rows,
            dict(real_rows),
            tensors,
        )

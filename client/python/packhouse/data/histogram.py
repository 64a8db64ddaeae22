"""Size histograms: how many graphs have which size tuple."""

from __future__ import annotations

import dataclasses
from typing import Any, Sequence

import numpy as np
import numpy.typing as npt

from packhouse.base.arguments import names_arguments
from packhouse.data.graphs import convert_exactly
from packhouse.v1 import sizes_pb2


@names_arguments
@dataclasses.dataclass(frozen=True, eq=False)
class Histogram:
    """`tuples` is uint32 [d, l] in component order, `counts` uint64 [d].

    Raises ValueError or TypeError naming the field.

    `revision`: of a named histogram that several servers share, grows with each change. Otherwise 0.
    """

    _hint = "for a table of sizes: Histogram.from_sizes(sizes, components)"

    components: tuple[str, ...]
    tuples: npt.NDArray[np.uint32]
    counts: npt.NDArray[np.uint64]
    revision: int = 0

    def __post_init__(self) -> None:
        components = tuple(self.components)
        tuples = convert_exactly(self.tuples, np.dtype("<u4"), "tuples")
        counts = convert_exactly(self.counts, np.dtype("<u8"), "counts")
        if tuples.size == 0:
            tuples = tuples.reshape(-1 if components else 0, len(components))
        if tuples.ndim != 2 or tuples.shape[1] != len(components):
            raise ValueError(f"tuples: shape {tuples.shape}, needs (d, {len(components)})")
        if counts.shape != (len(tuples),):
            raise ValueError(f"counts: shape {counts.shape}, needs ({len(tuples)},)")
        object.__setattr__(self, "components", components)
        object.__setattr__(self, "tuples", tuples)
        object.__setattr__(self, "counts", counts)

    @staticmethod
    def from_sizes(
        sizes: npt.ArrayLike,
        components: Sequence[str] = ("nodes", "edges"),
        counts: npt.NDArray[np.uint64] | None = None,
    ) -> Histogram:
        """Counts the rows of an [n, l] table of sizes, each once or as often as `counts` says; tuples
        are ascending. Raises OverflowError for more than 2^64 - 1 graphs. Cost: O(n log n).
        """
        table = convert_exactly(sizes, np.dtype("<u4"), "sizes")
        table = table.reshape(len(table), len(components))
        order = np.lexsort(table.T[::-1])
        table = table[order]
        is_first = np.ones(len(table), bool)
        is_first[1:] = (table[1:] != table[:-1]).any(axis=1)
        firsts = np.flatnonzero(is_first)
        if counts is None:
            summed = np.diff(np.append(firsts, len(table)))
        else:
            if sum(counts.tolist()) >= 1 << 64:
                raise OverflowError("the counts add up to more than 2^64 graphs")
            summed = np.add.reduceat(counts[order], firsts) if len(firsts) else counts
        return Histogram(tuple(components), table[firsts], summed.astype("<u8"))

    @property
    def num_graphs(self) -> int:
        """Graphs counted."""
        return int(self.counts.sum())

    @property
    def totals(self) -> dict[str, int]:
        """Rows of all graphs, per component."""
        sums = (self.tuples.astype(np.uint64) * self.counts[:, None]).sum(axis=0)
        return {name: int(total) for name, total in zip(self.components, sums)}

    @property
    def maxima(self) -> dict[str, int]:
        """The most rows of a graph, per component; 0 without graphs."""
        largest = self.tuples.max(axis=0, initial=0)
        return {name: int(rows) for name, rows in zip(self.components, largest)}

    def to_proto(self) -> Any:
        """This histogram as a `packhouse.v1.Histogram`."""
        return sizes_pb2.Histogram(
            components=self.components,
            tuples=np.ascontiguousarray(self.tuples, "<u4").tobytes(),
            counts=np.ascontiguousarray(self.counts, "<u8").tobytes(),
        )

    @staticmethod
    def from_proto(message: Any) -> Histogram:
        """The reverse of `to_proto`; arrays are read-only. Raises ValueError if malformed."""
        components = tuple(message.components)
        counts = np.frombuffer(message.counts, "<u8")
        tuples = np.frombuffer(message.tuples, "<u4").reshape(len(counts), len(components))
        return Histogram(components, tuples, counts)

"""Holds what came back against what was sent."""

from __future__ import annotations

from typing import Mapping, Sequence

import numpy as np

from packhouse.data.batch import Batch
from packhouse.data.graphs import GraphTable
from packhouse.data.schema import GRAPHS
from packhouse.planning.pack_options import Rejection


class Verifier:
    """Takes every batch and every rejection of one stream; graph ids are positions in `sent`."""

    def __init__(self, sent: GraphTable, limits: Mapping[str, int]) -> None:
        self._sent = sent
        self._limits = dict(limits)
        self._seen = np.zeros(len(sent), np.int64)
        self._rejected = np.zeros(len(sent), np.int64)
        self._intact = np.zeros(len(sent), bool)
        # What was wrong, in words; empty if all is well.
        self.faults: list[str] = []

    def check(self, batch: Batch) -> None:
        """Un-batches and compares. Cost: O(batch)."""
        if batch.rows != self._limits:
            self.faults.append(f"batch {batch.id} has rows {batch.rows}, not {self._limits}")
        unknown = batch.graph_ids >= len(self._sent)
        if unknown.any():
            self.faults.append(f"batch {batch.id} has unknown graph {batch.graph_ids[unknown][0]}")
            return
        positions = batch.graph_ids.astype(np.int64)
        np.add.at(self._seen, positions, 1)
        received = batch.unbatch()
        differing = received.differing(self._sent.take(positions))
        self._intact[positions[~differing]] = True
        for position in positions[differing]:
            self.faults.append(f"graph {position} came back changed, in batch {batch.id}")
        self._check_derived(batch)

    def check_rejections(self, rejections: Sequence[Rejection], usable: Mapping[str, int]) -> None:
        """A rejection is right if its graph is really too large for the usable limits."""
        for rejection in rejections:
            position = rejection.graph_id
            if position >= len(self._sent):
                self.faults.append(f"unknown graph {position} was rejected")
                continue
            self._rejected[position] += 1
            if int(self._sent.counts(rejection.component)[position]) <= usable[rejection.component]:
                self.faults.append(f"graph {position} was rejected although it fits")

    def finish(self) -> None:
        """Looks for graphs that never came back, or more than once."""
        times = self._seen + self._rejected
        for problem, positions in (
            ("lost", np.flatnonzero(times == 0)),
            ("seen more than once", np.flatnonzero(times > 1)),
        ):
            if len(positions):
                self.faults.append(f"{len(positions):,} graphs {problem}, first {positions[0]}")

    @property
    def num_intact(self) -> int:
        """Graphs that came back once and unchanged."""
        return int(np.count_nonzero(self._intact & (self._seen == 1)))

    @property
    def num_rejected(self) -> int:
        """Graphs named in rejections."""
        return int(np.count_nonzero(self._rejected))

    def _check_derived(self, batch: Batch) -> None:
        for name in (*batch.schema.components, GRAPHS):
            mask = batch.tensors.get(f"{name}/mask")
            real = np.arange(batch.rows[name]) < batch.real_rows[name]
            if mask is not None and not np.array_equal(mask, real):
                self.faults.append(f"batch {batch.id}: mask of {name} is wrong")
            counts = batch.tensors.get(f"{name}/counts")
            if counts is not None:
                column = list(batch.schema.components).index(name)
                if not np.array_equal(counts[: len(batch)], batch.sizes[:, column]):
                    self.faults.append(f"batch {batch.id}: row counts of {name} are wrong")

"""The demo's stream: limits from its data, all graphs there and back, each held against the sent.

Limits are such that no graph is rejected and batches hold about 16 graphs.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Final, Mapping, Sequence

import numpy as np

from packhouse.base.output import Progress
from packhouse.client.facade import Client
from packhouse.data.batch import Batch, DerivedTensor, Padding
from packhouse.data.graphs import GraphTable
from packhouse.data.schema import GRAPHS
from packhouse.planning.pack_options import OversizePolicy, PackOpened, PackOptions, Rejection

_GRAPHS_A_BATCH: Final = 16
# Rows of a multiple of this many suit vector units.
_MULTIPLE: Final = 8

EXPLANATION: Final = (
    "first component: the largest graph and a row of padding, or 16 mean graphs if that is more",
    "other components: in proportion, at least the largest graph and a row",
    "graphs: twice what the mean graph fills; all rounded up to a multiple of 8",
)


def choose_limits(table: GraphTable, given: Mapping[str, int]) -> dict[str, int]:
    """Capacities for PADDING_GRAPH; those in `given` are kept as they are."""
    if not len(table):
        raise ValueError("no graphs")
    components = table.schema.components
    totals = {name: max(1, table.rows(name)) for name in components}
    largest = {name: int(table.counts(name).max()) for name in components}
    limits: dict[str, int] = {}
    for name in components:
        if not limits:
            rows = max(largest[name] + 1, _ceil(_GRAPHS_A_BATCH * totals[name], len(table)))
        else:
            first = components[0]
            rows = max(largest[name] + 1, _ceil(limits[first] * totals[name], totals[first]))
        limits[name] = given.get(name, _round_up(rows))
    graphs = 2 * _GRAPHS_A_BATCH
    if components:
        first = components[0]
        graphs = _ceil(2 * limits[first] * len(table), totals[first])
    limits[GRAPHS] = given.get(GRAPHS, _round_up(graphs + 1))
    return limits


def _ceil(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)


def _round_up(rows: int) -> int:
    return _ceil(rows, _MULTIPLE) * _MULTIPLE


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


# Received batches wait in memory up to this size and are then checked with the stopwatch halted.
# Meanwhile the stream stands still; only the few messages that are under way move, far less than
# this.
_BACKLOG_BYTES: Final = 256 << 20

HISTOGRAM: Final = "demo"


@dataclasses.dataclass
class Streamed:
    """What one run gave; rows are sums over batches."""

    opened: PackOpened
    num_batches: int
    bytes_sent: int
    bytes_received: int
    seconds: float  # From the opening to the last batch, without checking.
    checking_seconds: float
    real_rows: dict[str, int]
    rows: dict[str, int]

    @property
    def efficiency(self) -> dict[str, float]:
        """Real rows / rows over all batches, per component."""
        return {
            name: self.real_rows[name] / rows if rows else 1.0 for name, rows in self.rows.items()
        }


def stream(
    client: Client, table: GraphTable, limits: Mapping[str, int], look_ahead: int
) -> tuple[Streamed, Verifier]:
    """Sends all graphs, receives all batches, checks each of them."""
    has_tensors = bool(table.schema.tensors)
    options = PackOptions(
        limits=limits,
        padding=Padding.GRAPH,
        look_ahead=look_ahead,
        derived=(DerivedTensor.ROW_COUNTS, DerivedTensor.MASKS) if has_tensors else (),
        oversize=OversizePolicy.REJECT,
        histogram=HISTOGRAM,
    )
    rejections: list[Rejection] = []
    progress = Progress()
    components = table.schema.all_components
    real_rows = dict.fromkeys(components, 0)
    rows = dict.fromkeys(components, 0)
    backlog: list[Batch] = []
    backlog_bytes = num_batches = num_graphs = bytes_received = 0
    seconds = checking_seconds = 0.0

    started = time.perf_counter()
    with client.pack([table], options, on_rejected=rejections.extend) as batches:
        opened = batches.opened
        verifier = Verifier(table, opened.limits)
        for batch in batches:
            num_batches += 1
            num_graphs += len(batch)
            bytes_received += batch.nbytes
            backlog_bytes += batch.nbytes
            for name in components:
                real_rows[name] += batch.real_rows[name]
                rows[name] += batch.rows[name]
            backlog.append(batch)
            if backlog_bytes > _BACKLOG_BYTES:
                seconds += time.perf_counter() - started
                checking_seconds += _check(verifier, backlog)
                backlog_bytes = 0
                started = time.perf_counter()
            progress.show(
                f"  packing: {num_graphs:,} of {len(table):,} graphs in {num_batches:,} batches"
            )
    seconds += time.perf_counter() - started
    progress.done(f"  packed {num_graphs:,} of {len(table):,} graphs in {num_batches:,} batches")
    checking_seconds += _check(verifier, backlog)
    verifier.check_rejections(rejections, opened.usable)
    verifier.finish()
    streamed = Streamed(
        opened=opened,
        num_batches=num_batches,
        bytes_sent=table.nbytes,
        bytes_received=bytes_received,
        seconds=seconds,
        checking_seconds=checking_seconds,
        real_rows=real_rows,
        rows=rows,
    )
    return streamed, verifier


def _check(verifier: Verifier, backlog: list[Batch]) -> float:
    started = time.perf_counter()
    for batch in backlog:
        verifier.check(batch)
    backlog.clear()
    return time.perf_counter() - started

"""Runs the stream of the demo and keeps its books."""

from __future__ import annotations

import dataclasses
import time
from typing import Final, Mapping

from packhouse.base.output import Progress
from packhouse.client.facade import Client
from packhouse.data.batch import Batch, DerivedTensor, Padding
from packhouse.data.graphs import GraphTable
from packhouse.demo.verification import Verifier
from packhouse.planning.pack_options import OversizePolicy, PackOpened, PackOptions, Rejection

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

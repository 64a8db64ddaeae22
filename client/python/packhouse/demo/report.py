"""The figures of a run, in words and a table."""

from __future__ import annotations

from typing import Mapping, Sequence

from packhouse import next_fit
from packhouse.data.graphs import GraphTable
from packhouse.data.schema import GRAPHS
from packhouse.demo.epoch import LoadedEpoch
from packhouse.demo.streaming import Streamed


def efficiency_table(table: GraphTable, streamed: Streamed) -> str:
    """packhouse, next-fit under the same limits, and one graph a batch."""
    components = table.schema.all_components
    opened = streamed.opened
    baseline = next_fit(table.sizes, opened.usable, table.schema.components)
    largest = {name: int(table.counts(name).max()) for name in components}
    alone = {
        name: table.rows(name) / (len(table) * rows) if rows else 1.0
        for name, rows in largest.items()
    }
    heading = ["", "batches", *components]
    lines: list[tuple[str, int, dict[str, float]]] = [
        (f"packhouse, look-ahead {opened.look_ahead:,}", streamed.num_batches, streamed.efficiency),
        ("next-fit in arrival order", baseline.num_batches, baseline.efficiency(opened.limits)),
        ("no packing, padded to the largest graph", len(table), alone),
    ]
    rows = [
        [name, f"{batches:,}", *(f"{shares[c]:.1%}" if c in shares else "-" for c in components)]
        for name, batches, shares in lines
    ]
    return _align([heading, *rows])


def epoch_table(epoch: LoadedEpoch) -> str:
    """Who received what; batches that came again count once."""
    heading = ["", "steps", "graphs", "received again", "killed"]
    rows = [
        [
            f"rank {number}",
            f"{rank.steps:,}",
            f"{sum(map(len, rank.batches.values())):,}",
            f"{rank.redelivered:,}",
            "yes, came back" if rank.kills else "no",
        ]
        for number, rank in enumerate(epoch.ranks)
    ]
    return _align([heading, *rows])


def describe_epoch(epoch: LoadedEpoch) -> str:
    """Batches, bound, efficiency, time."""
    shares = ", ".join(f"{name} {share:.1%}" for name, share in epoch.efficiency.items())
    return (
        f"{epoch.num_batches:,} batches (no plan has fewer than {epoch.lower_bound:,}); efficiency: "
        f"{shares}\n"
        f"stored and sealed in {epoch.ingest_seconds:.2f} s, loaded in {epoch.load_seconds:.2f} s, "
        "starting the processes included"
    )


def describe_limits(limits: Mapping[str, int]) -> str:
    """e.g. `nodes 512, edges 1,096, graphs 48`."""
    return ", ".join(f"{name} {rows:,}" for name, rows in limits.items())


def describe_speed(table: GraphTable, streamed: Streamed) -> str:
    """Throughput of the stream."""
    seconds = max(streamed.seconds, 1e-9)
    return (
        f"{streamed.seconds:.2f} s from the first graph sent to the last batch received: "
        f"{len(table) / seconds:,.0f} graphs/s, "
        f"{streamed.bytes_sent / seconds / 1e6:,.0f} MB/s in + "
        f"{streamed.bytes_received / seconds / 1e6:,.0f} MB/s out\n"
        f"  (payload; un-batching and comparing took another {streamed.checking_seconds:.2f} s, "
        "with the stopwatch halted)"
    )


def describe_graphs(table: GraphTable) -> str:
    """Rows and mean per component."""
    parts = []
    for name in table.schema.components:
        counts = table.counts(name)
        parts.append(
            f"{table.rows(name):,} {name} (mean {counts.mean():.1f}, largest {counts.max():,})"
        )
    return f"{table.rows(GRAPHS):,} graphs, {', '.join(parts)}, {table.nbytes / 1e6:,.1f} MB"


def _align(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  "
        + "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths))
        )
        for row in rows
    )

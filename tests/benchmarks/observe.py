"""How fast the Python client has sizes counted, by the length of the tables that it is given.

Each length runs twice: `Client.histograms.observe` as it is, which gathers small tables, and with
gather_bytes=0, where each table is a request. Figures are whole calls, from the first table to the
answer. To run it, after `make build`:

    PYTHONPATH=build/release/python python3 tests/benchmarks/observe.py \\
        --packhoused build/release/service/packhoused --data ../shared/data/graphs/molhiv.npz

Without --data: the sizes of the syntax trees of this machine's Python library.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any, Final, Sequence

import numpy as np
from measuring import (
    Contestant,
    Run,
    Runner,
    Spread,
    benchmark_parser,
    load_graphs,
    markdown,
    pin,
    publish,
)

from packhouse import Client, LocalServer

LENGTHS: Final = (64, 1024, 8192, 131072)
_HISTOGRAM: Final = "observed"


def make_observer(address: str, sizes: Any, length: int, gather: bool) -> Runner:
    """Gives all sizes, again and again, in tables of `length` graphs."""
    tables = np.split(sizes, range(length, len(sizes), length))
    options = {} if gather else {"gather_bytes": 0}
    client = Client(address)

    def run(seconds: float) -> Run:
        graphs = 0
        started = time.perf_counter()
        while time.perf_counter() - started < seconds:
            graphs += client.histograms.observe(_HISTOGRAM, tables, **options).num_counted
        return Run(time.perf_counter() - started, graphs=graphs)

    return run


def measure(options: argparse.Namespace, sizes: Any) -> list[dict[str, Any]]:
    """An entry for each length and way; they take turns."""
    flags = ("--tcp-congestion", options.tcp_congestion) if options.tcp_congestion else ()
    ways = [(length, gather) for length in LENGTHS for gather in (True, False)]
    with LocalServer(options.packhoused, arguments=(*flags, "--log-level", "error")) as server:
        figures: dict[tuple[int, bool], list[float]] = {way: [] for way in ways}
        for turn in range(options.runs + 1):
            for way in ways:
                with Contestant(make_observer, server.address, sizes, *way) as contestant:
                    done = contestant.run(options.seconds)
                # The first turn warms up.
                if turn > 0:
                    figures[way].append(done.graphs / done.seconds)
    return [
        {"length": length, "gathers": gather, "tuples_per_second": figures[length, gather]}
        for length, gather in ways
    ]


def describe(figures: Sequence[dict[str, Any]]) -> str:
    """A table: a row for each length."""
    cells: dict[int, list[str]] = {}
    for entry in figures:
        millions = [each / 1e6 for each in entry["tuples_per_second"]]
        cells.setdefault(entry["length"], []).append(Spread.of(millions).show(1))
    rows = [[f"{length:,}", *row] for length, row in cells.items()]
    return markdown(["tables of", "million tuples/s", "each by itself"], rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table."""
    parser = benchmark_parser(__doc__, seconds=0.5)
    parser.add_argument("--tables", type=int, default=16, help="of the longest, in a call")
    options = parser.parse_args(arguments)
    pin(2)
    table, title = load_graphs(options.data, options.graphs)
    # A call has many tables of any length.
    copies = -(-options.tables * max(LENGTHS) // len(table))
    figures = measure(options, np.tile(table.sizes, (copies, 1)))
    publish(options, title, describe(figures), observe=figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Chooses limits from the data, so that no graph is rejected and batches hold about 16 graphs."""

from __future__ import annotations

from typing import Final, Mapping

from packhouse.data.graphs import GraphTable
from packhouse.data.schema import GRAPHS

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

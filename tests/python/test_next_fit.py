"""The baseline, against a loop that reads like its definition."""

from __future__ import annotations

import numpy as np
import pytest

from packhouse import next_fit


@pytest.mark.parametrize("seed", range(100))
def test_it_is_the_loop_that_defines_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 12, (int(rng.integers(0, 60)), 2))
    usable = {"nodes": 20, "edges": int(rng.integers(9, 30)), "graphs": int(rng.integers(0, 6))}
    batches: list[list[int]] = []
    room = np.zeros(3)
    most = np.array([usable["nodes"], usable["edges"], usable["graphs"] or np.inf])
    too_large = []
    for graph, size in enumerate(sizes):
        need = np.array([*size, 1])
        if (need > most).any():
            too_large.append(graph)
            continue
        if not batches or (need > room).any():
            batches.append([])
            room = most.copy()
        batches[-1].append(graph)
        room = room - need

    result = next_fit(sizes, usable)
    assert result.num_batches == len(batches)
    assert result.too_large.tolist() == too_large
    assert [
        result.order[start:stop].tolist()
        for start, stop in zip(result.starts[:-1], result.starts[1:])
    ] == batches


def test_efficiency_counts_the_declared_capacity() -> None:
    result = next_fit([[3, 4], [2, 1], [6, 1]], {"nodes": 7, "edges": 9, "graphs": 4})
    assert result.num_batches == 2
    assert result.efficiency({"nodes": 8, "edges": 9, "graphs": 5}) == {
        "nodes": 11 / 16,
        "edges": 6 / 18,
        "graphs": 3 / 10,
    }
    # One without a limit has none.
    assert result.efficiency({"nodes": 8, "edges": 0}) == {"nodes": 11 / 16}
    assert result.totals == {"nodes": 11, "edges": 6, "graphs": 3}


def test_no_graphs_make_no_batches() -> None:
    result = next_fit(np.empty((0, 2), np.uint32), {"nodes": 1})
    assert result.num_batches == 0
    assert result.efficiency({"nodes": 1}) == {"nodes": 1.0}
    assert result.totals == {"nodes": 0, "edges": 0, "graphs": 0}


def test_an_unknown_component_is_refused() -> None:
    with pytest.raises(ValueError, match="'sets'"):
        next_fit([[1, 1]], {"sets": 3})

"""Limits chosen by a real server."""

from __future__ import annotations

import pathlib
from typing import Callable

import numpy as np
import pytest
from random_graphs import molecules

from packhouse import (
    Client,
    ComponentProfile,
    DeviceProfile,
    Histogram,
    PackOptions,
    Padding,
    TuneProgress,
)

SIZES = molecules(np.random.default_rng(0), 2000).sizes
HISTOGRAM = Histogram.from_sizes(SIZES)
LARGEST = {"nodes": int(SIZES[:, 0].max()), "edges": int(SIZES[:, 1].max())}


def profile(**arguments: int) -> DeviceProfile:
    """Room for at least the largest graph; 8 by 6 limits."""
    nodes = -(-LARGEST["nodes"] // 16) * 16
    edges = -(-LARGEST["edges"] // 32) * 32
    return DeviceProfile(
        {
            "nodes": ComponentProfile(nodes + 7 * 16, nodes, 16),
            "edges": ComponentProfile(edges + 5 * 32, edges, 32, relative_cost=0.5),
        },
        **arguments,
    )


def test_the_recommended_limits_are_allowed_and_pack_everything(client: Client) -> None:
    reports: list[TuneProgress] = []
    tuning = client.tune(HISTOGRAM, profile(), on_progress=reports.append)
    (shape,) = tuning.shapes
    assert shape.limits["nodes"] % 16 == 0
    assert shape.limits["edges"] % 32 == 0
    assert shape.limits["graphs"] == 0
    cost = shape.limits["nodes"] + 0.5 * shape.limits["edges"]
    assert shape.epoch_cost == pytest.approx(shape.packs * cost)
    assert tuning.epoch_cost == shape.epoch_cost >= tuning.least_cost
    assert tuning.single_shape == shape
    assert tuning.oversize is None
    assert tuning.reasons
    assert tuning.cells == ()
    assert [point.epoch_cost for point in tuning.frontier] == sorted(
        (point.epoch_cost for point in tuning.frontier), reverse=True
    )
    for earlier, later in zip(reports, reports[1:]):
        assert earlier.planned <= later.planned
        assert earlier.excluded <= later.excluded

    # What it recommends is what `plan` and `pack` take.
    assert client.plan(HISTOGRAM, shape.limits).best.lower_bound <= shape.packs
    with client.pack_sizes([SIZES], PackOptions(shape.limits)) as stream:
        assert sum(len(batch) for batch in stream) == len(SIZES)
        assert not stream.rejections


DEVICES = sorted((pathlib.Path(__file__).parents[2] / "docs" / "devices").glob("*.json"))


@pytest.mark.parametrize("device", DEVICES, ids=lambda path: path.stem)
@pytest.mark.parametrize(
    ("number", "least", "most", "degree"),
    [
        *((20_000, 12, 12, 2.0), (20_000, 11, 13, 2.0), (20_000, 30, 34, 12.0)),
        *((2372, 49, 53, 4.1), (1500, 60, 64, 3.3), (200, 20, 28, 2.0)),
    ],
)
def test_sizes_that_vary_little_give_no_device_small_batches(
    client: Client, device: pathlib.Path, number: int, least: int, most: int, degree: float
) -> None:
    """Small shapes fit such graphs as well as large ones do, but for the cost of each batch."""
    device_profile = DeviceProfile.load(device)
    nodes = np.random.default_rng(number + most).integers(least, most + 1, number)
    sizes = np.stack([nodes, (degree * nodes).astype(int)], axis=1)
    (shape, *_) = client.tune(Histogram.from_sizes(sizes), device_profile).shapes
    full = max(
        shape.limits[name] / component.max_rows
        for name, component in device_profile.components.items()
    )
    assert full > 0.75 or shape.packs <= 3, (shape.limits, shape.packs)


def test_the_grid_has_every_cell_once(client: Client) -> None:
    tuning = client.tune(HISTOGRAM, profile(), include_grid=True)
    assert len({cell.capacities for cell in tuning.cells}) == len(tuning.cells) == 8 * 6
    for cell in tuning.cells:
        assert cell.epoch_cost >= tuning.epoch_cost or not cell.planned
    # Who does not ask for it gets none.
    assert not client.tune(HISTOGRAM, profile()).cells


def test_a_named_histogram_will_do(client: Client) -> None:
    client.histograms.observe("tests/tuning", [SIZES])
    named = client.tune("tests/tuning", profile())
    assert named.shapes == client.tune(HISTOGRAM, profile()).shapes


def test_what_progress_raises_ends_the_search(client: Client) -> None:
    def stop(_progress: TuneProgress) -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        client.tune(HISTOGRAM, profile(), on_progress=stop)


def test_a_plan_with_padding_keeps_what_padding_needs_free(client: Client) -> None:
    histogram = Histogram.from_sizes(np.full((12, 2), 5))
    limits = {"nodes": 20, "edges": 20, "graphs": 8}
    assert client.plan(histogram, limits).best.packs == 3
    # One node and one graph of each batch are the padding's.
    padded = client.plan(histogram, limits, padding="graph")
    assert padded.best.packs == 4
    assert padded.best.components["nodes"].capacity == 20
    # With both components index targets, as in a graph whose edges are pointed at, too.
    both = client.plan(
        histogram, limits, padding=Padding.GRAPH, index_targets=["nodes", "edges"]
    )
    assert both.best.packs == 4


DEVICE = profile()


@pytest.mark.parametrize(
    ("ask", "error", "words"),
    [
        (lambda c: c.plan(SIZES, LARGEST), TypeError, "source: a ndarray is no Histogram or str"),
        (lambda c: c.tune(SIZES, DEVICE), TypeError, r"Histogram.from_sizes\(sizes, components\)"),
        (lambda c: c.tune(HISTOGRAM, {}), TypeError, "profile: a dict is no DeviceProfile"),
        (lambda c: c.plan(HISTOGRAM, [3, 4]), ValueError, "limits: .* is no mapping"),
        (lambda c: c.plan(HISTOGRAM, {"nodes": 2.5}), ValueError, "limits: 2.5 is no number"),
        (
            lambda c: c.plan(HISTOGRAM, LARGEST, heuristics=["optimized"]),
            TypeError,
            r"heuristics\[0\]: a str is no PlanHeuristic",
        ),
        (
            lambda c: c.plan(HISTOGRAM, LARGEST, heuristics=7),
            TypeError,
            "heuristics: a int is no sequence of PlanHeuristic",
        ),
        (
            lambda c: c.plan(HISTOGRAM, LARGEST, warm_start="plan.pb"),
            TypeError,
            "warm_start: a str is no Plan",
        ),
        (
            lambda c: c.plan(HISTOGRAM, LARGEST, budget_steps=1e9),
            TypeError,
            "budget_steps: 1000000000.0 is no whole number",
        ),
        (lambda c: c.tune(HISTOGRAM, DEVICE, seed=-1), ValueError, "seed: -1 is not from 0"),
        (
            lambda c: c.tune(HISTOGRAM, DEVICE, objective="speed"),
            ValueError,
            "objective: 'speed' is none of",
        ),
        (
            lambda c: c.plan(HISTOGRAM, LARGEST, padding="jraph"),
            ValueError,
            "padding: 'jraph' is none of",
        ),
        (
            lambda c: c.tune(HISTOGRAM, DEVICE, index_targets=["nodes"]),
            ValueError,
            "index_targets: .* without `padding`",
        ),
        (
            lambda c: c.plan(HISTOGRAM, LARGEST, padding="graph", index_targets="nodes"),
            TypeError,
            "index_targets: 'nodes' is one name",
        ),
    ],
)
def test_a_wrong_argument_is_named(
    client: Client, ask: Callable[[Client], object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        ask(client)

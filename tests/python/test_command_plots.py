"""Pictures of `packhouse histogram`, `plan` and `tune`: what is drawn where."""

from __future__ import annotations

import pathlib
import random
from typing import Any

import numpy as np
import pytest

from packhouse.command.failures import Failure, Misuse
from packhouse.command.plots import figure as figures
from packhouse.command.plots import histogram_plot, plan_plot, tune_plot
from packhouse.data.histogram import Histogram
from packhouse.v1 import planning_pb2

COMPONENTS = ("nodes", "edges")


def histogram(*rows: tuple[int, ...], counts: Any = None) -> Histogram:
    tuples = np.array(rows, np.uint32)
    given = np.ones(len(rows)) if counts is None else counts
    return Histogram(("nodes", "edges", "faces")[: tuples.shape[1]], tuples, np.array(given, "<u8"))


# Axes


def test_linear_tics_are_few_and_round() -> None:
    generator = random.Random(1)
    for _ in range(500):
        low = generator.choice([0.0, generator.uniform(0, 1000)])
        high = low + 10 ** generator.uniform(0, 15)
        tics = figures.linear_tics(low, high)
        assert len(tics) <= 8
        assert all(low <= at <= high for at in tics)
        assert all(at == round(at) for at in tics)
    assert figures.linear_tics(0, 250) == [0, 50, 100, 150, 200, 250]
    assert figures.tic_text(32901) == "32,901"


def test_logarithmic_tics_are_denser_over_few_decades() -> None:
    assert figures.logarithmic_tics(1, 100) == [1, 2, 5, 10, 20, 50, 100]
    assert figures.logarithmic_tics(1, 100_000) == [1, 10, 100, 1000, 10_000, 100_000]
    small = figures.logarithmic_tics(0.01, 1)
    assert [figures.tic_text(at) for at in small] == [
        "0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1"
    ]  # fmt: skip


def test_a_picture_has_a_kind() -> None:
    for name in ("a.svg", "b.png", "c.pdf"):
        figures.check_name(name)
    with pytest.raises(Misuse, match="ends in .svg or .png"):
        figures.check_name("a.gif")


# Histograms


def test_bins_hold_every_size_once_and_their_places_ascend() -> None:
    generator = np.random.default_rng(3)
    for high in (1, 3, 90, 500, 100_000, 2**32 - 1):
        for step in (1, 2, 7):
            values = generator.integers(0, high // step + 1, 300) * step
            rows = [(int(value),) for value in np.unique(values)]
            limit = int(generator.integers(0, 2 * high + 1))
            (axis,) = histogram_plot.view_of(
                histogram(*rows), ["nodes"], [{"nodes": limit}]
            ).axes
            bins = axis.bins(np.array(rows)[:, 0])
            assert bins.min() >= 0 and bins.max() < len(axis.edges) - 1
            assert len(axis.edges) <= 222
            places = axis.places()
            assert (np.diff(places) > 0).all()
            low, end = axis.range()
            assert low <= places[0] and places[-1] < end and limit < end


def test_axes_are_logarithmic_where_nearly_all_graphs_would_crowd() -> None:
    few = [(n, 2 * n) for n in range(1, 50)]
    plain = histogram_plot.view_of(histogram(*few), COMPONENTS, [])
    assert not any(axis.is_logarithmic for axis in plain.axes)
    counts = [10_000] * len(few) + [1]
    huge = histogram(*few, (4000, 90), counts=counts)
    # Both, or neither: a distorted cloud would mislead.
    assert all(a.is_logarithmic for a in histogram_plot.view_of(huge, COMPONENTS, []).axes)
    far = histogram_plot.view_of(histogram(*few), ["nodes"], [{"nodes": 5000}])
    assert far.axes[0].is_logarithmic and far.axes[0].limit == 5000


def test_even_numbers_have_no_stripes() -> None:
    (axis,) = histogram_plot.view_of(
        histogram(*[(2 * n,) for n in range(0, 1000)]), ["nodes"], []
    ).axes
    assert axis.stride == 2
    assert (np.diff(axis.edges) % 2 == 0).all()


@pytest.mark.parametrize(
    ("components", "told"),
    [
        (["faces"], "has no component 'faces', it has nodes, edges"),
        (["nodes", "edges", "nodes"], "one component or two, not 3"),
        ([], "one component or two, not 0"),
    ],
)
def test_what_cannot_be_drawn_is_refused(components: list[str], told: str) -> None:
    with pytest.raises(Misuse, match=told):
        histogram_plot.view_of(histogram((1, 2)), components, [])
    with pytest.raises(Misuse, match="no graphs to draw"):
        histogram_plot.view_of(histogram((1, 2), counts=[0]), ["nodes"], [])


# Plans


def random_plan(generator: random.Random) -> Any:
    """Patterns of sizes up to (20, 40), five graphs a pack."""
    response = planning_pb2.PlanResponse()
    tuples = [(generator.randrange(21), generator.randrange(41)) for _ in range(12)]
    response.plan.tuples = np.array(tuples, "<u4").tobytes()
    for _ in range(30):
        pattern = response.plan.patterns.add(repeats=generator.randint(1, 100))
        for _ in range(5):
            pattern.entries.add(tuple=generator.randrange(12), copies=1)
    response.best.packs = sum(pattern.repeats for pattern in response.plan.patterns)
    for name, capacity in (("nodes", 100), ("edges", 200_000), ("graphs", 5)):
        response.best.components.add(component=name, capacity=capacity, efficiency=0.5)
    return response


def test_every_pack_is_in_each_curve_once_and_brings_its_rows() -> None:
    generator = random.Random(1)
    for _ in range(50):
        response = random_plan(generator)
        tuples = np.frombuffer(response.plan.tuples, "<u4").reshape(-1, 2)
        rows = np.zeros(3, np.int64)
        for pattern in response.plan.patterns:
            for entry in pattern.entries:
                rows[:2] += pattern.repeats * entry.copies * tuples[entry.tuple].astype(np.int64)
                rows[2] += pattern.repeats * entry.copies
        curves = plan_plot.fill_curves(response, COMPONENTS)
        assert [curve.component for curve in curves] == ["nodes", "edges", "graphs"]
        for curve, total in zip(curves, rows):
            assert (np.diff(curve.rows) > 0).all()
            assert curve.packs.sum() == response.best.packs
            assert (curve.rows * curve.packs).sum() == total
            # What is drawn goes from the first pack to the last, and never falls.
            places, fill = curve.steps()
            assert places[0] == 0.5 and places[-1] == response.best.packs + 0.5
            assert (np.diff(places) > 0).all()
            assert (np.diff(fill[:-1]) > 0).all() and fill[-1] == fill[-2]


def test_a_curve_of_very_many_fills_is_thinned_out() -> None:
    rows = np.arange(0, 1_000_000, 10)
    curve = plan_plot.FillCurve("edges", 1_000_000, 0.5, rows, np.ones(len(rows), np.int64))
    places, fill = curve.steps()
    assert len(places) < 1100
    assert places[-1] == 100_000.5
    # The pack at place p has 10 (p - 1) rows of 1,000,000.
    assert np.abs(fill[:-1] - (places[:-1] - 0.5) / 1000).max() < 0.102


def test_components_without_a_limit_have_no_curve_and_unknown_tuples_are_an_error() -> None:
    response = planning_pb2.PlanResponse()
    for name, capacity in (("nodes", 0), ("edges", 10), ("graphs", 0)):
        response.best.components.add(component=name, capacity=capacity)
    (curve,) = plan_plot.fill_curves(response, COMPONENTS)
    assert curve.component == "edges"
    response.plan.patterns.add().entries.add(tuple=7)
    with pytest.raises(Failure, match="the server's plan has no tuple 7, only 0"):
        plan_plot.fill_curves(response, COMPONENTS)


# Grids of limits


def part(name: str, least: int, most: int, step: int) -> Any:
    return planning_pb2.DeviceProfile.Component(
        component=name, min_rows=least, max_rows=most, multiple_of=step
    )


def request(*parts: Any) -> Any:
    return planning_pb2.TuneRequest(
        profile=planning_pb2.DeviceProfile(components=parts, max_distinct_shapes=4), seed=5
    )


def test_capacities_are_the_multiples_in_the_range() -> None:
    for least in range(12):
        for most in range(1, 12):
            for step in range(5):
                expected = [r for r in range(1, most + 1) if r >= least and r % max(1, step) == 0]
                counted = tune_plot.count_capacities(part("nodes", least, most, step))
                assert counted == len(expected), (least, most, step)


def test_a_small_grid_is_asked_for_as_it_is() -> None:
    asked = request(part("nodes", 0, 100, 1), part("edges", 50, 200, 2))
    grid = tune_plot.grid_request(
        asked, histogram((10, 20)), COMPONENTS, planning_pb2.TunedShape()
    )
    expected = request(part("nodes", 10, 100, 1), part("edges", 50, 200, 2))
    expected.include_grid = True
    expected.profile.max_distinct_shapes = 1
    assert grid == expected


def test_a_large_grid_is_thinned_out() -> None:
    """Whatever the ranges: one capacity at least along both axes, all of them the profile's, and not
    more cells than can be drawn.
    """
    generator = random.Random(1)
    for _ in range(300):
        parts = []
        for name in COMPONENTS:
            step = generator.randint(1, 64)
            most = step * generator.randint(2, 3001) + 1000
            parts.append(part(name, generator.randrange(500), most, step))
        asked = request(*parts)
        grid = tune_plot.grid_request(
            asked, histogram((10, 20)), COMPONENTS, planning_pb2.TunedShape()
        )
        assert grid is not None
        cells = 1
        for wanted, allowed in zip(grid.profile.components, asked.profile.components):
            assert wanted.multiple_of % allowed.multiple_of == 0
            assert wanted.min_rows >= allowed.min_rows and wanted.max_rows == allowed.max_rows
            assert tune_plot.count_capacities(wanted) >= 1
            cells *= tune_plot.count_capacities(wanted)
        assert cells <= tune_plot.MOST_CELLS


def test_other_components_stay_where_the_shape_has_them() -> None:
    shape = planning_pb2.TunedShape()
    for name, capacity in (("nodes", 24), ("edges", 32), ("faces", 40), ("graphs", 0)):
        shape.components.add(component=name, capacity=capacity)
    names = ("nodes", "edges", "faces", "graphs")
    grid = tune_plot.grid_request(
        request(*(part(name, 0, 64, 8) for name in names)), histogram((9, 9)), ["faces", "nodes"],
        shape,
    )  # fmt: skip
    assert grid is not None
    nodes, edges, faces, graphs = grid.profile.components
    assert edges == part("edges", 32, 32, 1)
    assert graphs == part("graphs", 0, 0, 0)
    assert tune_plot.count_capacities(nodes) == 7 and tune_plot.count_capacities(faces) == 8


def test_the_largest_graph_that_fits_sets_the_least() -> None:
    # The second is too large for any limits, the third is not there.
    sizes = histogram((7, 9), (40, 51), (30, 30), counts=[1, 1, 0])
    asked = request(part("nodes", 0, 50, 1), part("edges", 0, 50, 1))
    grid = tune_plot.grid_request(asked, sizes, COMPONENTS, planning_pb2.TunedShape())
    assert grid is not None
    assert [each.min_rows for each in grid.profile.components] == [7, 9]
    flat = request(part("nodes", 0, 50, 1), part("edges", 40, 40, 1))
    for axes in (COMPONENTS, ["nodes"], ["nodes", "faces"]):
        assert tune_plot.grid_request(flat, sizes, axes, planning_pb2.TunedShape()) is None


def cells(nodes: list[int], edges: list[int], is_planned: bool = True) -> list[Any]:
    return [
        planning_pb2.TuneCell(
            capacities=[x, y, 0, 256], harmonic_mean=x / (x + y), planned=is_planned
        )
        for x in nodes
        for y in edges
    ]


def test_each_cell_is_at_its_place_and_they_touch() -> None:
    names = ("nodes", "edges", "faces")
    given = cells([8, 16, 24, 40], [100, 110, 120])
    random.Random(1).shuffle(given)
    grid = tune_plot.grid_of(given, names, COMPONENTS)
    assert grid is not None
    assert grid.x.tolist() == [8, 16, 24, 40] and grid.y.tolist() == [100, 110, 120]
    assert grid.efficiency.tolist() == [[x / (x + y) for x in grid.x] for y in grid.y]
    assert tune_plot.cell_edges(grid.x).tolist() == [4, 12, 20, 32, 48]
    # All were planned: there is nothing to go around.
    assert tune_plot.outline(grid) == []
    # The best of those in one place, and a plan says more than a bound.
    better = planning_pb2.TuneCell(capacities=[8, 100, 1, 256], harmonic_mean=0.9, planned=True)
    bound = planning_pb2.TuneCell(capacities=[8, 100, 2, 256], harmonic_mean=1.0)
    grid = tune_plot.grid_of([*given, bound, better], names, COMPONENTS)
    assert grid is not None and grid.efficiency[0, 0] == 0.9
    for few in (cells([8], [100, 110]), []):
        assert tune_plot.grid_of(few, names, COMPONENTS) is None
    assert tune_plot.grid_of(given, names, ["nodes"]) is None


def test_a_line_goes_around_what_was_planned() -> None:
    given = cells([10, 20, 30], [10, 20, 30], is_planned=False)
    given[4].planned = True
    grid = tune_plot.grid_of(given, COMPONENTS, COMPONENTS)
    assert grid is not None
    sides = {frozenset(side) for side in map(tuple, tune_plot.outline(grid))}
    corners = [(15.0, 15.0), (25.0, 15.0), (25.0, 25.0), (15.0, 25.0)]
    assert sides == {frozenset(pair) for pair in zip(corners, corners[1:] + corners[:1])}


def test_what_costs_nothing_is_not_in_the_cost_of_a_batch() -> None:
    profile = planning_pb2.DeviceProfile()
    profile.components.add(component="nodes")
    profile.components.add(component="edges", relative_cost=0.5)
    profile.components.add(component="faces", relative_cost=0)
    profile.components.add(component="graphs")
    assert tune_plot.batch_cost_text(profile) == "nodes + 0.5 edges"
    profile.fixed_cost = 100
    assert tune_plot.batch_cost_text(profile) == "nodes + 0.5 edges + 100"


# Drawing


def test_titles_and_names_are_no_formulas(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "a picture.svg"
    view = histogram_plot.view_of(histogram((1, 2), (0, 9)), COMPONENTS, [{"nodes": 5}])
    histogram_plot.draw(str(picture), "costs $5 & <b> _x^2", view)
    text = picture.read_text(encoding="utf-8")
    assert "costs $5 &amp; &lt;b&gt; _x^2: 2 graphs" in text
    assert "limit 5" in text


def test_equal_pictures_are_equal_files_and_extreme_sizes_are_drawn(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("matplotlib")
    for rows in ([(2**32 - 1, 0)], [(0, 0)], [(0, 1), (2**32 - 1, 2**32 - 1)]):
        view = histogram_plot.view_of(histogram(*rows), COMPONENTS, [{"nodes": 2**63}])
        for name in ("a.svg", "b.svg"):
            histogram_plot.draw(str(tmp_path / name), "t", view)
        assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_a_file_that_cannot_be_written_is_named() -> None:
    pytest.importorskip("matplotlib")
    view = histogram_plot.view_of(histogram((1, 2)), COMPONENTS, [])
    with pytest.raises(OSError, match="/nonexistent/a.png"):
        histogram_plot.draw("/nonexistent/a.png", "t", view)

"""Draws the result of Tune: the histogram with the recommended limits, the efficiency over the grid of
limits, and the frontier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Sequence

import numpy as np
import numpy.typing as npt

from packhouse.command.output import small_percent
from packhouse.command.plots import figure as figures
from packhouse.command.plots.histogram_plot import draw_panel, view_of
from packhouse.command.tune_report import Outcome, padding_overhead, shape_text
from packhouse.data.histogram import Histogram

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# More cells than this are too small to see, and make a large file.
MOST_CELLS: Final = 10_000
# Cells along an axis of a grid that would have too many. They are planned for the picture alone.
_COARSE: Final = 64
# The axis of the frontier is logarithmic if its end is this many times its beginning.
_WIDE: Final = 20
# The place of an epoch without padding, relative to the least padding above 0.
_NO_PADDING: Final = 0.5


def count_capacities(part: Any) -> int:
    """How many capacities a profile allows in this component: multiples of multiple_of within
    [min_rows, max_rows].
    """
    step = max(1, part.multiple_of)
    return max(0, int(part.max_rows // step - (max(1, part.min_rows) - 1) // step))


def grid_request(request: Any, histogram: Histogram, axes: Sequence[str], shape: Any) -> Any | None:
    """The TuneRequest whose cells `draw` draws for the two `axes`; other components stay at the
    capacities of `shape`. The axes have every capacity that the profile allows and that takes the
    graphs; if these were more than MOST_CELLS cells, every n-th capacity, for about 4,000 cells. None
    if an axis is not in the profile or has only one capacity.
    """
    if len(axes) != 2:
        return None
    largest = _largest_fitting(request.profile, histogram)
    grid = type(request)()
    grid.CopyFrom(request)
    grid.include_grid = True
    grid.profile.max_distinct_shapes = 1
    along = []
    for part in grid.profile.components:
        if part.component in axes:
            part.min_rows = max(part.min_rows, largest.get(part.component, 0))
            if count_capacities(part) < 2:
                return None
            along.append(part)
        else:
            capacity = _capacity(shape, part.component)
            part.min_rows = part.max_rows = capacity
            part.multiple_of = 1 if capacity else 0
    if len(along) != 2:
        return None
    along.sort(key=count_capacities)
    if count_capacities(along[0]) * count_capacities(along[1]) <= MOST_CELLS:
        return grid
    # A short axis may leave the longer axis more than half of the cells.
    room = _COARSE
    for part in along:
        if count_capacities(part) > room:
            part.multiple_of = max(1, part.multiple_of) * -(-count_capacities(part) // room)
        room = _COARSE * _COARSE // max(1, count_capacities(part))
    return grid


def _largest_fitting(profile: Any, histogram: Histogram) -> dict[str, int]:
    """By component, of the graphs that fit the profile's largest limits: others are left out of every
    plan.
    """
    fits = histogram.counts > 0
    names = list(histogram.components)
    for part in profile.components:
        if part.component in names:
            step = max(1, part.multiple_of)
            column = histogram.tuples[:, names.index(part.component)]
            fits &= column <= part.max_rows // step * step
    if not fits.any():
        return {}
    return {name: int(rows) for name, rows in zip(names, histogram.tuples[fits].max(axis=0))}


def _capacity(shape: Any, component: str) -> int:
    found = [part.capacity for part in shape.components if part.component == component]
    return int(found[0]) if found else 0


class Grid(NamedTuple):
    """Ascending capacities along both axes; by row of y, then x: the best efficiency, NaN where no
    cell is, and whether it was planned or is an upper bound.
    """

    x: npt.NDArray[np.float64]
    y: npt.NDArray[np.float64]
    efficiency: npt.NDArray[np.float64]
    is_planned: npt.NDArray[np.bool_]


def grid_of(cells: Sequence[Any], components: Sequence[str], axes: Sequence[str]) -> Grid | None:
    """None without two capacities along both axes. If several cells lie on one point of the two axes,
    the best is drawn, and a plan says more than a bound.
    """
    if len(axes) != 2 or not cells:
        return None
    columns = [list(components).index(name) for name in axes]
    places = np.array([[cell.capacities[k] for k in columns] for cell in cells], np.float64)
    x, x_at = np.unique(places[:, 0], return_inverse=True)
    y, y_at = np.unique(places[:, 1], return_inverse=True)
    if len(x) < 2 or len(y) < 2:
        return None
    grid = Grid(x, y, np.full((len(y), len(x)), np.nan), np.zeros((len(y), len(x)), bool))
    for i, j, cell in sorted(
        zip(y_at.tolist(), x_at.tolist(), cells),
        key=lambda each: (each[2].planned, each[2].harmonic_mean),
    ):
        grid.efficiency[i, j] = cell.harmonic_mean
        grid.is_planned[i, j] = cell.planned
    return grid


def cell_edges(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Of the cells around ascending values: half-way to their neighbours."""
    middle = (values[1:] + values[:-1]) / 2
    ends = 2 * values[[0, -1]] - middle[[0, -1]]
    return np.concatenate([ends[:1], middle, ends[1:]])


def batch_cost_text(profile: Any) -> str:
    """`nodes + 0.5 edges`: what the profile charges a batch."""
    terms = []
    for part in profile.components:
        usual = 0.0 if part.component == "graphs" else 1.0
        cost = part.relative_cost if part.HasField("relative_cost") else usual
        if cost:
            terms.append(part.component if cost == 1 else f"{cost:.6g} {part.component}")
    if profile.fixed_cost:
        terms.append(f"{profile.fixed_cost:.6g}")
    return " + ".join(terms)


def draw(
    path: str, name: str, histogram: Histogram, axes: Sequence[str], profile: Any, outcome: Outcome,
    cells: Sequence[Any],
) -> None:
    """The whole picture, with the grid if `cells` make one. Raises as `figure.picture`."""
    told = outcome.recommendation
    limits = [
        {capacity.component: capacity.rows for capacity in shape.limits.capacities}
        for shape in told.shapes
    ]
    view = view_of(histogram, axes, limits)
    grid = grid_of(cells, histogram.components, axes)
    overhead = small_percent(padding_overhead(told.epoch_cost, told.least_cost))
    title = f"{name}: {overhead} padding"
    with figures.picture(path, title, 13.5, 11.3 if grid is not None else 6.1) as figure:
        if grid is None:
            left, bottom = figure.subplots(1, 2)
            figure.subplots_adjust(left=0.07, right=0.98, bottom=0.11, top=0.8, wspace=0.24)
        else:
            spec = figure.add_gridspec(
                2, 2, left=0.08, right=0.96, bottom=0.06, top=0.88, wspace=0.28, hspace=0.34
            )
            left, bottom = figure.add_subplot(spec[0, 0]), figure.add_subplot(spec[1, :])
            _draw_grid(figure, figure.add_subplot(spec[0, 1]), grid, axes, outcome.single_shape)
        what = "limits" if len(limits) == 1 else "shapes"
        names = [shape_text(shape) for shape in told.shapes]
        draw_panel(figure, left, view, f"sizes, and the recommended {what}", names)
        _draw_frontier(bottom, outcome, batch_cost_text(profile))


def _draw_grid(figure: Figure, axes: Axes, grid: Grid, names: Sequence[str], shape: Any) -> None:
    """As Figure 5 of Krell et al. 2022, with the recommendation marked."""
    x, y = cell_edges(grid.x), cell_edges(grid.y)
    least, most = 100 * np.nanmin(grid.efficiency), 100 * np.nanmax(grid.efficiency)
    # The scale spans at least a percent, since equal ends make no scale.
    top = min(100.0, float(np.ceil(most)))
    mesh = axes.pcolormesh(
        x, y, 100 * grid.efficiency, cmap=figures.PALETTE, vmin=min(top - 1, float(np.floor(least))),
        vmax=top, rasterized=True,
    )
    figures.set_axis(axes, "x", f"limit of {names[0]}", x[0], x[-1])
    figures.set_axis(axes, "y", f"limit of {names[1]}", y[0], y[-1])
    figures.colour_bar(figure, axes, mesh, "harmonic mean of efficiencies, %")
    axes.set_title("efficiency of one shape over the grid of limits", pad=44)
    lines = outline(grid)
    if lines:
        from matplotlib.collections import LineCollection

        text = "around what was planned; the rest are upper bounds"
        axes.add_collection(LineCollection(lines, colors="black", linewidths=1.1, label=text))
    _mark(axes, _capacity(shape, names[0]), _capacity(shape, names[1]), shape_text(shape))
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), borderaxespad=0.2)


def outline(grid: Grid) -> list[list[tuple[float, float]]]:
    """The lines between cells that were planned and others; none along the end of the grid."""
    x, y, is_planned = cell_edges(grid.x), cell_edges(grid.y), grid.is_planned
    upright = [
        [(float(x[j + 1]), float(y[i])), (float(x[j + 1]), float(y[i + 1]))]
        for i, j in zip(*np.nonzero(is_planned[:, 1:] != is_planned[:, :-1]))
    ]
    return upright + [
        [(float(x[j]), float(y[i + 1])), (float(x[j + 1]), float(y[i + 1]))]
        for i, j in zip(*np.nonzero(is_planned[1:] != is_planned[:-1]))
    ]


def _mark(axes: Axes, x: float, y: float, label: str) -> None:
    axes.plot([x], [y], "o", markersize=11, markerfacecolor="none", markeredgewidth=2,
              markeredgecolor=figures.MARK, label=figures.plain(label), zorder=5)  # fmt: skip


def _draw_frontier(axes: Axes, outcome: Outcome, batch_cost: str) -> None:
    """The cost that padding adds to an epoch, against the cost of one batch."""
    told = outcome.recommendation

    def point_of(shape: Any) -> tuple[float, float]:
        size = shape.epoch_cost / shape.packs if shape.packs else 0.0
        return size, 100 * padding_overhead(shape.epoch_cost, told.least_cost)

    single = outcome.single_shape
    chosen = point_of(single)
    points = [point_of(shape) for shape in outcome.frontier]
    together = 100 * padding_overhead(told.epoch_cost, told.least_cost)
    sizes = [chosen[0], *(size for size, _ in points)]
    overheads = [chosen[1], together, *(overhead for _, overhead in points)]
    left, right = min(sizes), max(sizes)
    # Points without padding need a place on a logarithmic axis.
    least = min([100.0, *(overhead for overhead in overheads if overhead > 0)])
    floor = least * _NO_PADDING
    is_wide = right > _WIDE * left > 0
    margin = 0.05 * (right - left if right > left else right) or 1.0
    low, high = (left / 1.3, right * 1.3) if is_wide else (max(0.0, left - margin), right + margin)
    bottom = floor / 1.5
    # Room for the key above the first point.
    top = max(max(overheads), least * 10) * 1.5 * max(max(overheads) / bottom, 10.0) ** 0.2
    label = f"cost of a batch: {batch_cost}"
    figures.set_axis(axes, "x", label, low, high, logarithmic=is_wide)
    figures.set_axis(axes, "y", "padding / real rows by cost, %", bottom, top, logarithmic=True)
    axes.set_title("frontier: padding against the size of a batch", pad=10)
    if points:
        x, y = zip(*((size, max(overhead, floor)) for size, overhead in points))
        axes.step(x, y, where="post", color=figures.PLAIN, linewidth=1.2)
        axes.plot(x, y, ".", color=figures.PLAIN, label="the best of its size or smaller")
    is_several = len(told.shapes) > 1
    what = "the best single shape" if is_several else "recommended"
    padding = small_percent(chosen[1] / 100)
    _mark(axes, chosen[0], max(chosen[1], floor), f"{what}: {shape_text(single)}, padding {padding}")
    if is_several:
        text = f"recommended: {len(told.shapes)} shapes together, padding {small_percent(together / 100)}"
        axes.axhline(
            max(together, floor), color=figures.MARK, linestyle=(0, (6, 4)), linewidth=1.6,
            label=figures.plain(text),
        )
    axes.legend(loc="upper right")

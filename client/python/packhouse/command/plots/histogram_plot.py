"""Draws size histograms: bars for one component, a heat map for two, with limits."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, Final, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from packhouse.command.failures import Misuse
from packhouse.command.plots import figure as figures
from packhouse.data.histogram import Histogram

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# More cells than this along an axis are too small to see.
_MOST_BINS: Final = 110
# An axis is logarithmic if it is this many times as long as the part that holds 99.9 % of the graphs.
_CROWDING: Final = 5
_CROWDED_SHARE: Final = 0.999
# Where a size of 0 is drawn on a logarithmic axis, and where that axis begins.
_ZERO_LOW: Final = 0.36
_ZERO_HIGH: Final = 0.5
_DASHES: Final = (0, (6, 4))


@dataclasses.dataclass(frozen=True)
class Axis:
    """One component as a range of the picture. Bin b holds the sizes in [edges[b], edges[b + 1]).

    All sizes are the least plus a multiple of `stride`, and bins are whole strides: otherwise even
    numbers, as of directed edges, would show stripes.
    """

    name: str
    # The largest of the shapes'; 0: none.
    limit: int
    is_logarithmic: bool
    least: int
    most: int
    stride: int
    edges: npt.NDArray[np.int64]

    def bins(self, values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """The bin of each size."""
        found: npt.NDArray[np.int64] = np.searchsorted(self.edges, values, side="right") - 1
        return found

    def places(self) -> npt.NDArray[np.float64]:
        """Of the edges in the picture: sizes are in the middle of their strides."""
        places = self.edges - self.stride / 2
        if self.is_logarithmic:
            zero = np.where(self.edges == 0, _ZERO_LOW, _ZERO_HIGH)
            places = np.where(places >= _ZERO_HIGH, places, zero)
        return places

    def range(self) -> tuple[float, float]:
        """From where to where it is drawn."""
        places = self.places()
        high = max(float(places[-1]), float(self.limit))
        first = float(places[0])
        if self.is_logarithmic:
            low = _ZERO_LOW * 0.85 if self.least == 0 else max(_ZERO_HIGH, 0.8 * first)
            return low, high * 1.3
        if self.least * 3 < self.most:
            low = min(0.0, first)
        else:
            low = first - 0.03 * (self.most - self.least + 1)
        return low, high + 0.06 * (high - low)


@dataclasses.dataclass(frozen=True)
class View:
    """What is drawn: one component or two (horizontal, then vertical), and capacities in their order,
    0 where there is none. A single shape is lines across the panel, several are corners.
    """

    histogram: Histogram
    axes: tuple[Axis, ...]
    shapes: tuple[tuple[int, ...], ...]


def view_of(
    histogram: Histogram, components: Sequence[str], shapes: Sequence[Mapping[str, int]]
) -> View:
    """Raises Misuse for an unknown component, a wrong number of them, or no graphs."""
    names = list(histogram.components)
    if not 1 <= len(components) <= 2:
        raise Misuse(
            f"--plot, --axes: a picture shows one component or two, not {len(components)} "
            f"({', '.join(components)})"
        )
    for name in components:
        if name not in names:
            raise Misuse(
                f"--plot, --axes: the histogram has no component '{name}', it has {', '.join(names)}"
            )
    is_there = histogram.counts > 0
    if not is_there.any():
        raise Misuse("--plot, --axes: the histogram has no graphs to draw")
    drawn = Histogram(
        tuple(components), histogram.tuples[is_there][:, [names.index(name) for name in components]],
        histogram.counts[is_there],
    )
    capacities = tuple(tuple(shape.get(name, 0) for name in components) for shape in shapes)
    limits = [max((shape[k] for shape in capacities), default=0) for k in range(len(components))]
    # Both axes or neither: a distorted cloud would mislead.
    is_logarithmic = any(
        _crowds(drawn.tuples[:, k], drawn.counts, limit) for k, limit in enumerate(limits)
    )
    axes = [
        _axis(name, drawn.tuples[:, k], limit, is_logarithmic)
        for k, (name, limit) in enumerate(zip(components, limits))
    ]
    return View(drawn, tuple(axes), capacities)


def _crowds(values: npt.NDArray[Any], counts: npt.NDArray[Any], limit: int) -> bool:
    """Whether nearly all graphs would crowd into a corner of a linear axis."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(counts[order].astype(float))
    place = min(int(np.searchsorted(below, _CROWDED_SHARE * below[-1])), len(order) - 1)
    crowded = float(values[order][place])
    return max(float(values.max()), float(limit)) > _CROWDING * max(1.0, crowded)


def _axis(name: str, values: npt.NDArray[Any], limit: int, is_logarithmic: bool) -> Axis:
    least, most = int(values.min()), int(values.max())
    stride = max(1, int(np.gcd.reduce(values.astype(np.int64) - least)))
    strides = (most - least) // stride + 1
    if not is_logarithmic or strides <= _MOST_BINS // 4:
        # The length of the axis; the data may be a small part of it.
        width = -(-max(strides, limit // stride) // _MOST_BINS)
        edge_list = [least + stride * at for at in range(0, strides + width, width)]
    else:
        low = max(least, 1)
        ratio = ((most + 1) / low) ** (1 / _MOST_BINS)
        edge_list = [least]
        at = low * ratio
        while edge_list[-1] <= most:
            edge = least + stride * max(1, math.ceil((at - least) / stride))
            if edge > edge_list[-1]:
                edge_list.append(edge)
            at *= ratio
    return Axis(name, limit, is_logarithmic, least, most, stride, np.array(edge_list, np.int64))


def draw(path: str, title: str, view: View) -> None:
    """The picture with this panel alone. Raises as `figure.picture`."""
    sizes = f"{view.histogram.num_graphs:,} graphs"
    with figures.picture(path, f"{title}: {sizes}", 9, 6.8) as figure:
        axes = figure.add_subplot()
        draw_panel(figure, axes, view, "")
        figure.subplots_adjust(left=0.1, right=0.95, bottom=0.1, top=0.88)


def draw_panel(
    figure: Figure, axes: Axes, view: View, title: str, shape_names: Sequence[str] = ()
) -> None:
    """The histogram with its limits. The names are listed if there are several shapes."""
    counts = view.histogram.counts.astype(float)
    bins = [axis.bins(view.histogram.tuples[:, k]) for k, axis in enumerate(view.axes)]
    places = [axis.places() for axis in view.axes]
    _set_axis(axes, "x", view.axes[0])
    if len(view.axes) == 1:
        heights = np.bincount(bins[0], counts, len(places[0]) - 1)
        axes.bar(places[0][:-1], heights, np.diff(places[0]), align="edge", color=figures.PLAIN)
        figures.set_axis(axes, "y", "graphs", 0, float(heights.max()) * 1.06)
    else:
        _set_axis(axes, "y", view.axes[1])
        _draw_cells(figure, axes, bins, places, counts)
    axes.set_title(figures.plain(title), pad=22)
    if len(view.shapes) == 1:
        for k, limit in enumerate(view.shapes[0]):
            _draw_limit(axes, limit, "xy"[k])
    else:
        _draw_corners(axes, view.shapes, shape_names)


def _draw_cells(
    figure: Figure, axes: Axes, bins: Sequence[npt.NDArray[np.int64]],
    places: Sequence[npt.NDArray[np.float64]], counts: npt.NDArray[np.float64],
) -> None:
    from matplotlib.colors import LogNorm

    cells = np.zeros((len(places[1]) - 1, len(places[0]) - 1))
    np.add.at(cells, (bins[1], bins[0]), counts)
    # The scale spans at least a decade, since equal ends make no scale.
    highest = max(10.0, float(cells.max()))
    mesh = axes.pcolormesh(
        places[0], places[1], np.where(cells == 0, np.nan, cells), norm=LogNorm(1, highest),
        cmap=figures.PALETTE, rasterized=True,
    )
    axes.grid(True)
    bar = figures.colour_bar(figure, axes, mesh, "graphs per cell")
    tics = figures.logarithmic_tics(1, highest)
    bar.ax.yaxis.set_ticks([], minor=True)
    bar.set_ticks(tics, labels=[figures.tic_text(at) for at in tics])


def _set_axis(axes: Axes, letter: str, axis: Axis) -> None:
    low, high = axis.range()
    label = f"{axis.name} per graph"
    figures.set_axis(axes, letter, label, low, high, logarithmic=axis.is_logarithmic)
    if axis.is_logarithmic:
        tics = figures.logarithmic_tics(max(1.0, low), high)
        texts = [figures.tic_text(at) for at in tics]
        if axis.least == 0:
            tics.insert(0, math.sqrt(_ZERO_LOW * _ZERO_HIGH))
            texts.insert(0, "0")
        figures.set_tics(axes, letter, tics, texts)


def _draw_limit(axes: Axes, limit: int, letter: str) -> None:
    """A line across the panel."""
    if not limit:
        return
    style = {"color": figures.MARK, "linestyle": _DASHES, "linewidth": 1.4}
    text = f"limit {limit:,}"
    if letter == "x":
        axes.axvline(limit, **style)
        where: dict[str, Any] = {"xycoords": axes.get_xaxis_transform(), "xy": (limit, 1.0)}
        axes.annotate(text, xytext=(0, 4), textcoords="offset points", ha="center",
                      color=figures.MARK, **where)  # fmt: skip
    else:
        axes.axhline(limit, **style)
        where = {"xycoords": axes.get_yaxis_transform(), "xy": (0.0, limit)}
        axes.annotate(text, xytext=(6, 3), textcoords="offset points", color=figures.MARK, **where)


def _draw_corners(axes: Axes, shapes: Sequence[tuple[int, ...]], shape_names: Sequence[str]) -> None:
    """The corner that each shape cuts out of the panel, up to its end where it has no limit; a number
    stands at its foot.
    """
    style: dict[str, Any] = {"color": figures.MARK, "linestyle": _DASHES, "linewidth": 1.4}
    right, top = axes.get_xlim()[1], axes.get_ylim()[1]
    for number, shape in enumerate(shapes, 1):
        x = shape[0] or right
        y = shape[1] if len(shape) == 2 and shape[1] else top
        if shape[0]:
            axes.plot([x, x], [axes.get_ylim()[0], y], **style)
            axes.annotate(str(number), (x, 0.02), (3, 0), color=figures.MARK,
                          xycoords=axes.get_xaxis_transform(), textcoords="offset points")  # fmt: skip
        if y != top:
            axes.plot([axes.get_xlim()[0], x], [y, y], **style)
            if not shape[0]:
                axes.annotate(str(number), (0.02, y), (0, 3), color=figures.MARK,
                              xycoords=axes.get_yaxis_transform(), textcoords="offset points")  # fmt: skip
        if number <= len(shape_names):
            axes.text(0.03, 0.93 - 0.05 * number, figures.plain(f"{number}: {shape_names[number - 1]}"),
                      transform=axes.transAxes, color=figures.MARK, fontsize=9)  # fmt: skip

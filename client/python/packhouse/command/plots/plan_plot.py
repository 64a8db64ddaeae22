"""Draws a plan: the histogram with the limits, and how full the packs are."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final, Sequence

import numpy as np
import numpy.typing as npt

from packhouse.command.failures import Failure
from packhouse.command.output import percent
from packhouse.command.plots import figure as figures
from packhouse.command.plots.histogram_plot import View, draw_panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Smaller differences in fill cannot be seen.
_VISIBLE_SHARES: Final = 1000
# With more packs than this, the few that are not full are visible only on a logarithmic axis.
_MANY_PACKS: Final = 50


@dataclasses.dataclass(frozen=True)
class FillCurve:
    """How full the packs are in one component: `rows` is ascending and distinct, and `packs` says how
    many packs have each number.
    """

    component: str
    capacity: int
    efficiency: float
    rows: npt.NDArray[np.int64]
    packs: npt.NDArray[np.int64]

    def steps(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Where each visible step begins among the packs, and its fill in %; then the end, with the
        last fill again. Packs keep their place to within a step, rows to within 0.1 % of the capacity.
        """
        firsts = [0]
        for k, rows in enumerate(self.rows):
            if rows - self.rows[firsts[-1]] > self.capacity / _VISIBLE_SHARES:
                firsts.append(k)
        before = np.concatenate([[0], np.cumsum(self.packs)])
        # A step is drawn from half a pack before its first pack to half a pack after its last one.
        places = before[[*firsts, len(self.packs)]] + 0.5
        fill = 100 * self.rows[[*firsts, firsts[-1]]] / self.capacity
        return places, fill


def fill_curves(response: Any, components: Sequence[str]) -> list[FillCurve]:
    """One curve for each component that has a limit, in the order of the plan's summary; `components`
    are all of these except `graphs`.

    Raises Failure if a pattern names a tuple that the plan does not have. Cost: O(entries of
    patterns * components + packs' distinct rows).
    """
    width = len(components)
    tuples = np.frombuffer(response.plan.tuples, "<u4").reshape(-1, max(1, width))
    tuples = np.column_stack([tuples[:, :width], np.ones(len(tuples), np.int64)]).astype(np.int64)
    patterns = response.plan.patterns
    numbers = [len(pattern.entries) for pattern in patterns]
    entries = np.array(
        [(entry.tuple, entry.copies) for pattern in patterns for entry in pattern.entries], np.int64
    ).reshape(-1, 2)
    if len(entries) and entries[:, 0].max() >= len(tuples):
        told = f"the server's plan has no tuple {entries[:, 0].max()}, only {len(tuples)}"
        raise Failure("INTERNAL", told)
    rows = np.zeros((len(patterns), width + 1), np.int64)
    of_pattern = np.repeat(np.arange(len(patterns)), numbers)
    np.add.at(rows, of_pattern, tuples[entries[:, 0]] * entries[:, 1:])
    repeats = np.array([pattern.repeats for pattern in patterns], np.int64)
    curves = []
    for part in response.best.components:
        names = [*components, "graphs"]
        if not part.capacity or part.component not in names:
            continue
        values, places = np.unique(rows[:, names.index(part.component)], return_inverse=True)
        packs = np.zeros(len(values), np.int64)
        np.add.at(packs, places, repeats)
        curves.append(FillCurve(part.component, part.capacity, part.efficiency, values, packs))
    return curves


def draw(path: str, name: str, view: View, components: Sequence[str], response: Any) -> None:
    """The whole picture. `response` has the plan, not only summaries; `components` are the
    histogram's. Raises as `fill_curves` and `figure.picture`.
    """
    best = response.best
    proof = "proved optimal" if best.optimal else f"at least {best.lower_bound:,} are needed"
    title = f"{name}: {view.histogram.num_graphs:,} graphs in {best.packs:,} packs, {proof}"
    curves = fill_curves(response, components)
    with figures.picture(path, title, 13.5, 6.1) as figure:
        left, right = figure.subplots(1, 2)
        draw_panel(figure, left, view, "sizes")
        _draw_fill(right, curves)
        figure.subplots_adjust(left=0.07, right=0.98, bottom=0.11, top=0.79, wspace=0.3)


def _draw_fill(axes: Axes, curves: Sequence[FillCurve]) -> None:
    packs = 0
    for number, curve in enumerate(curves):
        places, fill = curve.steps()
        packs = max(packs, int(curve.packs.sum()))
        # Where curves coincide, the lower one stays visible.
        label = f"{curve.component} of {curve.capacity:,}: {percent(curve.efficiency, 3)} %"
        axes.step(
            places, fill, where="post", linewidth=max(1.2, 3.5 - number),
            color=figures.line_colour(number), label=figures.plain(label),
        )
    is_wide = packs > _MANY_PACKS
    figures.set_axis(axes, "x", "packs, the emptiest first", 0.5, packs + 0.5, logarithmic=is_wide)
    figures.set_axis(axes, "y", "rows / capacity, %", 0, 104)
    above_key = 22 + 16 * ((len(curves) + 1) // 2)
    axes.set_title("fill of the packs, each component sorted by itself", pad=above_key)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncol=2, borderaxespad=0.2)

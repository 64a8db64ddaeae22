"""The output of `packhouse pack`: the shapes, how full the batches are, what was left out."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from packhouse.command.arguments import limits_text, without_limit
from packhouse.command.output import Column, counted, percent, TextTable
from packhouse.command.sizes import name_of_file
from packhouse.planning.plans import next_fit

if TYPE_CHECKING:
    from packhouse.files.size_files import SizeTable

# Without a limit, row numbers of 32 bits are the limit.
_MOST_ROWS: Final = (1 << 31) - 1


@dataclasses.dataclass
class Totals:
    """Of the batches; rows by component, then graphs."""

    rows: npt.NDArray[np.int64]
    batches: int = 0
    graphs: int = 0
    rejected: int = 0
    # Padding included, of batches whose shapes the server chose.
    padded_rows: npt.NDArray[np.int64] | None = None


@dataclasses.dataclass
class Packed:
    """What came back. `batch_of` is -1 for graphs that are in no batch; the rest are messages."""

    totals: Totals
    batch_of: npt.NDArray[np.int64]
    opened: Any = None
    tuned: Any = None
    first_rejected: Any = None
    drifted: list[Any] = dataclasses.field(default_factory=list)
    seconds: float = 0.0


def report(given: Mapping[str, Any], table: SizeTable, opening: Any, packed: Packed) -> str:
    """The whole output. `given` has the options, `opening` the request."""
    components = [*table.components, "graphs"]
    limited = _limited(opening)
    limits, usable = _largest_shape(packed)
    bound = volume_bound(packed.totals.rows, [usable.get(name, 0) for name in components])
    seed = given["shuffle"]
    order = "the file's order" if seed is None else f"random order (seed {seed})"
    text = (
        f"{len(table.sizes)} graphs of {name_of_file(given['sizes'])} in {order}; limits "
        f"{_shape_text(packed.tuned.shapes[0]) if packed.tuned else limits_text(limits)}"
        f"{without_limit(table.components, limited)}; look-ahead {packed.opened.look_ahead}\n"
    )
    if not packed.tuned and usable != limits:
        text += f"usable beside the padding {limits_text(usable)}\n"
    text += "\n"
    if packed.tuned:
        text += _device_text(given["device"], packed.tuned) + "\n"
    text += _table(given, table, packed, limited, limits, usable, bound)
    if packed.first_rejected is not None:
        text += f"\nfirst rejected: {rejection_text(packed.first_rejected)}\n"
    if packed.drifted:
        text += "\n" + "".join(map(_drift_text, packed.drifted))
    speed = len(table.sizes) / packed.seconds if packed.seconds else 0.0
    return f"{text}\n{speed:.0f} graphs/s, {packed.seconds:.3f} s\n"


def volume_bound(rows: npt.NDArray[np.int64], capacities: Sequence[int]) -> int:
    """No fewer batches hold so many rows by component, then graphs; 0 is no limit."""
    # Graphs without rows take a batch, too.
    bound = 1 if rows[-1] else 0
    return max(
        [bound, *(-(-int(total) // capacity) for total, capacity in zip(rows, capacities) if capacity)]
    )


def rejection_text(rejection: Any) -> str:
    """`graph 0 has 9 nodes, at most 8 fit a batch`."""
    from packhouse.v1 import packing_pb2

    is_memory = rejection.reason == packing_pb2.REJECTION_REASON_TOO_MUCH_MEMORY
    if rejection.reason == packing_pb2.REJECTION_REASON_TOO_SMALL:
        bound = f", at least {rejection.bound} are needed"
    elif is_memory:
        bound = f", at most {rejection.bound} are the device's (memory_bytes)"
    else:
        bound = f", at most {rejection.bound} fit a batch"
    if rejection.component and rejection.bound == _MOST_ROWS:
        bound += ", whose rows are numbered in 32 bits"
    needs = "needs a batch of" if is_memory else "has"
    what = rejection.component or "bytes"
    return f"graph {rejection.graph_id} {needs} {rejection.value} {what}{bound}"


def _table(
    given: Mapping[str, Any],
    table: SizeTable,
    packed: Packed,
    limited: Sequence[str],
    limits: Mapping[str, int],
    usable: Mapping[str, int],
    bound: int,
) -> str:
    components = [*table.components, "graphs"]
    shown = [(k, name) for k, name in enumerate(components) if name in limited]
    text = TextTable(
        [*("", "graphs", "rejected", "batches", "gap %")]
        + [Column(f"{name} %", "efficiency") for _, name in shown]
    )
    is_padded = given["padding"] != "none"

    def add(name: str, totals: Totals) -> None:
        cells = []
        for k, component in shown:
            if totals.padded_rows is not None and is_padded:
                rows = float(totals.padded_rows[k])
            else:
                rows = float(totals.batches * limits.get(component, 0))
            cells.append(percent(float(totals.rows[k]) / rows) if rows else "-")
        gap = percent(totals.batches / bound - 1) if bound else "-"
        text.add_row(name, totals.graphs, totals.rejected, totals.batches, gap, *cells)

    add("packhouse", packed.totals)
    other = next_fit(table.sizes, usable, table.components)
    rows = np.array([other.totals[name] for name in components], np.int64)
    graphs, too_large = len(other.order), len(other.too_large)
    add("next-fit, in this order", Totals(rows, other.num_batches, graphs, too_large))
    totals = packed.totals
    add("no fewer batches than", Totals(totals.rows, bound, totals.graphs, totals.rejected))
    return text.render()


def _limited(opening: Any) -> list[str]:
    """The components for which the user named a limit. The server may give others one of its own,
    which says nothing about hardware.
    """
    if opening.HasField("device_profile"):
        return [part.component for part in opening.device_profile.components if part.max_rows]
    return [capacity.component for capacity in opening.limits.capacities]


def _largest_shape(packed: Packed) -> tuple[dict[str, int], dict[str, int]]:
    """The limits of the largest shape, and how much of it is usable."""
    if packed.tuned:
        capacities = packed.tuned.shapes[0].capacities
        usable = {part.component: part.usable_rows for part in capacities}
        return {part.component: part.rows for part in capacities}, usable
    limits = {part.component: part.rows for part in packed.opened.limits.capacities}
    return limits, {part.component: part.rows for part in packed.opened.usable.capacities}


def _shape_text(shape: Any) -> str:
    return " ".join(f"{part.component}={part.rows}" for part in shape.capacities if part.rows)


def _device_text(path: str, tuned: Any) -> str:
    """The shapes that were chosen, and why."""
    text = (
        f"{name_of_file(path)}: {counted(len(tuned.shapes), 'shape')} chosen from "
        f"{tuned.num_graphs} graphs\n"
    )
    for shape in tuned.shapes:
        share = shape.expected_share
        full = f"{100 * share:.1f} % of full batches" if share > 0 else "batches that are not full"
        text += f"  {_shape_text(shape)}: {full}\n"
    return text + "".join(f"- {reason}\n" for reason in tuned.reasons)


def _drift_text(drifted: Any) -> str:
    """A line for a change of sizes that was told, and its reasons."""
    better = ""
    if drifted.HasField("offered"):
        better = f"; better: {_shape_text(drifted.offered.shapes[0])}"
    return (
        f"drift: the sizes changed at about graph {drifted.first_graph} (found at "
        f"{drifted.found_graph}); the limits waste {100 * drifted.loss:.1f} %{better}\n"
    ) + "".join(f"- {reason}\n" for reason in drifted.reasons)

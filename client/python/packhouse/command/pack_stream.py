"""What `packhouse pack` does: streams sizes, and shows how full the batches are and what was left out."""

from __future__ import annotations

import collections
import dataclasses
import time
import warnings
from typing import Any, Final, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from packhouse.client.facade import Client
from packhouse.command.arguments import limits_of, limits_text, without_limit
from packhouse.command.connection import Server, connected
from packhouse.command.failures import Failure, Misuse
from packhouse.command.output import Column, TextTable, counted, percent
from packhouse.command.sizes import name_of_file, read_sizes
from packhouse.data.batch import Batch
from packhouse.data.graphs import GraphTable
from packhouse.data.schema import GraphSchema
from packhouse.files.size_files import SizeTable
from packhouse.planning.pack_options import (
    DriftWatch, PackDrifted, PackOpened, PackOptions, PackShape, PackTuned, Rejection
)  # fmt: skip
from packhouse.planning.plans import next_fit
from packhouse.planning.tuning import DeviceProfile

# Bounds the memory of an expanded histogram to some gigabytes.
_MOST_GRAPHS: Final = 1 << 28


@dataclasses.dataclass
class Totals:
    """Of the batches; rows by component, and of `graphs`."""

    rows: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    batches: int = 0
    graphs: int = 0
    rejected: int = 0
    # Padding included, of batches whose shapes the server chose.
    padded_rows: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)


@dataclasses.dataclass
class Packed:
    """What came back. `batch_of` is -1 for graphs that are in no batch."""

    totals: Totals
    batch_of: npt.NDArray[np.int64]
    opened: PackOpened | None = None
    tuned: PackTuned | None = None
    first_rejected: Rejection | None = None
    drifts: Sequence[PackDrifted] = ()
    seconds: float = 0.0


def run(server: Server, given: Mapping[str, Any]) -> None:
    """The command, of which `given` has the options."""
    table = read_sizes(given["sizes"])
    options = _options(given, table.components)
    graphs = _graphs(given, table)
    with connected(server) as client:
        packed = _pack(client, options, graphs)
    print(_report(given, graphs, options, packed), end="")
    if given["output"]:
        sent = np.flatnonzero(packed.batch_of >= 0)
        rows = np.column_stack([sent, packed.batch_of[sent]])
        np.savetxt(given["output"], rows, "%d", ",", header="graph_id,batch_id", comments="")
    totals = packed.totals
    # A stream that loses most of its graphs is not what anybody wants, though the server did as told.
    if totals.rejected > totals.graphs:
        what = "what the profile of --device allows (max_rows, memory_bytes)"
        raise Failure(
            "OUT_OF_RANGE",
            f"{totals.rejected} of {totals.graphs + totals.rejected} graphs, which is most of them, do "
            f"not fit the limits and are left out: raise {what if given['device'] else '--limit'}",
        )


def _options(given: Mapping[str, Any], components: tuple[str, ...]) -> PackOptions:
    """Raises Misuse."""
    if bool(given["device"]) == bool(given["limit"]):
        raise Misuse(
            "--limit or --device is needed: the limits, or the device to choose them for; not both"
        )
    if given["calibration_graphs"] and not given["device"]:
        raise Misuse("--calibration-graphs chooses limits: it needs --device")
    limits = limits_of(given["limit"], components)
    try:
        device = DeviceProfile.load(given["device"]) if given["device"] else None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else None
        raise Misuse(f"{given['device']}: {why}" if why else str(error)) from None
    drift = DriftWatch() if given["drift"] else None
    same = {name: given[name] for name in ("padding", "look_ahead", "max_age", "calibration_graphs")}
    return PackOptions(limits or None, device=device, oversize="reject", drift=drift, **same)


def _graphs(given: Mapping[str, Any], table: SizeTable) -> GraphTable:
    """One row for each graph, in the order in which they are sent; their ids are their places in the
    file.
    """
    sizes = table.sizes
    if table.counts is not None:
        if table.num_graphs > _MOST_GRAPHS:
            told = f"{given['sizes']}: {table.num_graphs} graphs, at most {_MOST_GRAPHS} are streamed"
            raise Failure("OUT_OF_RANGE", told)
        sizes = np.repeat(sizes, table.counts.astype(np.int64), axis=0)
    ids = None
    if given["shuffle"] is not None:
        ids = np.random.default_rng(given["shuffle"]).permutation(len(sizes))
        sizes = sizes[ids]
    return GraphTable(GraphSchema(table.components), sizes, graph_ids=ids)


def _pack(client: Client, options: PackOptions, graphs: GraphTable) -> Packed:
    """Raises PackhouseError."""
    packed = Packed(Totals(), np.full(len(graphs), -1, np.int64))
    totals = packed.totals

    def reject(rejections: Sequence[Rejection]) -> None:
        packed.first_rejected = packed.first_rejected or rejections[0]
        totals.rejected += len(rejections)

    begin = time.monotonic()
    with warnings.catch_warnings():
        # What these say is in the report.
        warnings.simplefilter("ignore")
        with client.pack(graphs, options, reject) as stream:
            packed.opened = stream.opened
            packed.tuned = stream.tuned if options.device is not None else None
            for batch in stream:
                _take(batch, packed)
            packed.drifts = stream.drifts
    packed.seconds = time.monotonic() - begin
    if totals.graphs + totals.rejected != len(graphs):
        told = f"{totals.graphs} graphs came back and {totals.rejected} were rejected of {len(graphs)}"
        raise Failure("INTERNAL", told)
    return packed


def _take(batch: Batch, packed: Packed) -> None:
    """Takes in one batch and checks what a user relies on: ids are the file's, none comes twice."""
    ids = batch.graph_ids
    known = ids < len(packed.batch_of)
    if not known.all() or (packed.batch_of[ids] >= 0).any() or len(np.unique(ids)) < len(ids):
        raise Failure(
            "INTERNAL", f"batch {batch.id} has a graph which was not sent or came in a batch before"
        )
    packed.batch_of[ids] = batch.id
    totals = packed.totals
    totals.batches += 1
    totals.graphs += len(ids)
    totals.rows.update(batch.real_rows)
    if packed.tuned:
        totals.padded_rows.update(batch.rows)


def _report(given: Mapping[str, Any], graphs: GraphTable, options: PackOptions, packed: Packed) -> str:
    """The whole output. `given` has the options of the command, `options` those of the stream."""
    assert packed.opened is not None
    shape: Any = packed.tuned.shapes[0] if packed.tuned else packed.opened
    components = graphs.schema.components
    # The server may give others a limit of its own, which says nothing about hardware.
    limited: Mapping[str, int] = options.limits or {}
    if options.device is not None:
        limited = {name: of.max_rows for name, of in options.device.components.items() if of.max_rows}
    seed = given["shuffle"]
    order = "the file's order" if seed is None else f"random order (seed {seed})"
    text = (
        f"{len(graphs)} graphs of {name_of_file(given['sizes'])} in {order}; limits "
        f"{_shape_text(shape) if packed.tuned else limits_text(shape.limits)}"
        f"{without_limit(components, limited)}; look-ahead {packed.opened.look_ahead}\n"
    )
    if not packed.tuned and shape.usable != shape.limits:
        text += f"usable beside the padding {limits_text(shape.usable)}\n"
    text += "\n"
    if packed.tuned:
        text += _device_text(given["device"], packed.tuned) + "\n"
    text += _table(graphs, packed, list(limited), shape, given["padding"] != "none")
    if packed.first_rejected is not None:
        text += f"\nfirst rejected: {packed.first_rejected.describe()}\n"
    if packed.drifts:
        text += "\n" + "".join(map(_drift_text, packed.drifts))
    speed = len(graphs) / packed.seconds if packed.seconds else 0.0
    return f"{text}\n{speed:.0f} graphs/s, {packed.seconds:.3f} s\n"


def volume_bound(rows: Mapping[str, int], capacities: Mapping[str, int]) -> int:
    """No fewer batches hold so many rows by component, and of `graphs`; 0 is no limit."""
    # Graphs without rows take a batch, too.
    bound = 1 if rows["graphs"] else 0
    return max([bound, *(-(-rows[name] // most) for name, most in capacities.items() if most)])


def _table(
    graphs: GraphTable, packed: Packed, limited: Sequence[str], shape: Any, is_padded: bool
) -> str:
    components = graphs.schema.components
    shown = [name for name in (*components, "graphs") if name in limited]
    totals = packed.totals
    bound = volume_bound(totals.rows, shape.usable)
    columns = ["", "graphs", "rejected", "batches", "gap %"]
    text = TextTable([*columns, *(Column(f"{name} %", "efficiency") for name in shown)])

    def add(name: str, of: Totals) -> None:
        cells = []
        for component in shown:
            rows = of.batches * shape.limits.get(component, 0)
            if of.padded_rows and is_padded:
                rows = of.padded_rows[component]
            cells.append(percent(of.rows[component] / rows) if rows else "-")
        gap = percent(of.batches / bound - 1) if bound else "-"
        text.add_row(name, of.graphs, of.rejected, of.batches, gap, *cells)

    add("packhouse", totals)
    other = next_fit(graphs.sizes, shape.usable, components)
    rows = collections.Counter(other.totals)
    add("next-fit, in this order", Totals(rows, other.num_batches, len(other.order), len(other.too_large)))
    add("no fewer batches than", Totals(totals.rows, bound, totals.graphs, totals.rejected))
    return text.render()


def _shape_text(shape: PackShape) -> str:
    return " ".join(f"{name}={rows}" for name, rows in shape.limits.items() if rows)


def _device_text(path: str, tuned: PackTuned) -> str:
    """The shapes that were chosen, and why."""
    shapes = counted(len(tuned.shapes), "shape")
    text = f"{name_of_file(path)}: {shapes} chosen from {tuned.num_graphs} graphs\n"
    for shape in tuned.shapes:
        share = shape.expected_share
        full = f"{100 * share:.1f} % of full batches" if share > 0 else "batches that are not full"
        text += f"  {_shape_text(shape)}: {full}\n"
    return text + "".join(f"- {reason}\n" for reason in tuned.reasons)


def _drift_text(drift: PackDrifted) -> str:
    """A line for a change of sizes that was told, and its reasons."""
    better = f"; better: {_shape_text(drift.offered.shapes[0])}" if drift.offered else ""
    return (
        f"drift: the sizes changed at about graph {drift.first_graph} (found at "
        f"{drift.found_graph}); the limits waste {100 * drift.loss:.1f} %{better}\n"
    ) + "".join(f"- {reason}\n" for reason in drift.reasons)

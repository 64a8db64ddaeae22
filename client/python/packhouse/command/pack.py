"""packhouse pack."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, Iterator, Mapping

import click

from packhouse.command.arguments import (
    NUMBER_32, flag, limit_option, limits_of, number, padding_choice, server_options,
    sizes_option, value,
)  # fmt: skip
from packhouse.command.connection import Connection, Server, connected
from packhouse.command.failures import Failure, Misuse

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from packhouse.command.pack_report import Packed
    from packhouse.files.size_files import SizeTable

# Bounds the memory of an expanded histogram to some gigabytes.
_MOST_GRAPHS: Final = 1 << 28
# With messages of this size, the cost of the message itself does not matter.
_GRAPHS_PER_CHUNK: Final = 8192


# fmt: off
@click.command()
@sizes_option()
@limit_option()
@value("--device", "FILE.json", "Instead of --limit: a device profile, for which the server chooses the "
       "limits; JSON with the fields of packhouse.v1.DeviceProfile")
@number("--calibration-graphs", "With --device: from how many of the first graphs; 0: 2,000",
        type=NUMBER_32)
@number("--look-ahead", "Graphs the packer may choose from; 0 is the server's default", type=NUMBER_32)
@number("--max-age", "Graphs after which a graph is in the next pack; 0: four look-aheads",
        type=NUMBER_32)
@padding_choice("none, masked, graph (keeps a graph and its first row free), or tfgnn (keeps a graph "
                "free)", default="none", metavar="KIND")
@number("--shuffle", "Send the graphs in a random order made from this seed. A histogram has them "
        "sorted, and no stream is sorted", None, metavar="SEED")
@flag("--drift", "Tell when the sizes change so that other limits would waste less. In an order by kind "
      "they change with each kind: see --shuffle")
@value("--output", "FILE.csv", "Write graph_id,batch_id (row numbers from 0)")
@server_options()
# fmt: on
def command(server: Server, **given: Any) -> None:
    """Stream graph sizes and see how full the batches are."""
    from packhouse.command.sizes import read_sizes

    table = read_sizes(given["sizes"])
    opening = _opening(given, table.components)
    table = _expanded(given["sizes"], table)
    ids = None
    if given["shuffle"] is not None:
        import numpy as np

        ids = np.random.default_rng(given["shuffle"]).permutation(len(table.sizes))
        table = table._replace(sizes=table.sizes[ids])
    with connected(server) as connection:
        packed = _pack(connection, opening, table, ids)
    from packhouse.command import pack_report

    print(pack_report.report(given, table, opening, packed), end="")
    if given["output"]:
        _write(given["output"], packed)
    totals = packed.totals
    # A stream that loses most of its graphs is not what anybody wants, though the server did as told.
    if totals.rejected > totals.graphs:
        what = "what the profile of --device allows (max_rows, memory_bytes)"
        raise Failure(
            "OUT_OF_RANGE",
            f"{totals.rejected} of {totals.graphs + totals.rejected} graphs, which is most of them, do "
            f"not fit the limits and are left out: raise {what if given['device'] else '--limit'}",
        )


def _opening(given: Mapping[str, Any], components: tuple[str, ...]) -> Any:
    """The `packhouse.v1.PackOpen`. Raises Misuse."""
    if bool(given["device"]) == bool(given["limit"]):
        raise Misuse(
            "--limit or --device is needed: the limits, or the device to choose them for; not both"
        )
    if given["calibration_graphs"] and not given["device"]:
        raise Misuse("--calibration-graphs chooses limits: it needs --device")
    limits = limits_of(given["limit"], components)
    from packhouse.data.schema import GraphSchema
    from packhouse.planning.pack_options import DriftWatch, PackOptions
    from packhouse.planning.tuning import DeviceProfile

    try:
        device = DeviceProfile.load(given["device"]) if given["device"] else None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else None
        raise Misuse(f"{given['device']}: {why}" if why else str(error)) from None
    same = ("padding", "look_ahead", "max_age", "calibration_graphs")
    options = PackOptions(
        limits=limits or None,
        device=device,
        oversize="reject",
        drift=DriftWatch() if given["drift"] else None,
        **{name: given[name] for name in same},
    )
    return options.to_proto(GraphSchema(components))


def _expanded(path: str, table: SizeTable) -> SizeTable:
    """One row for each graph, in the order of the file."""
    if table.counts is None:
        return table
    if table.num_graphs > _MOST_GRAPHS:
        raise Failure(
            "OUT_OF_RANGE", f"{path}: {table.num_graphs} graphs, at most {_MOST_GRAPHS} are streamed"
        )
    import numpy as np

    return table._replace(sizes=np.repeat(table.sizes, table.counts.astype(np.int64), axis=0))


def _requests(
    opening: Any, table: SizeTable, ids: npt.NDArray[np.int64] | None
) -> Iterator[Any]:
    from packhouse.v1 import packing_pb2

    yield packing_pb2.PackRequest(open=opening)
    for begin in range(0, len(table.sizes), _GRAPHS_PER_CHUNK):
        sizes = table.sizes[begin : begin + _GRAPHS_PER_CHUNK]
        request = packing_pb2.PackRequest()
        request.sizes.num_graphs = len(sizes)
        request.sizes.counts = sizes.astype("<u4").tobytes()
        if ids is None:
            request.sizes.first_id = begin
        else:
            request.sizes.graph_ids = ids[begin : begin + len(sizes)].astype("<u8").tobytes()
        yield request


def _pack(
    connection: Connection, opening: Any, table: SizeTable, ids: npt.NDArray[np.int64] | None
) -> Packed:
    """Raises PackhouseError."""
    import numpy as np

    from packhouse.command.pack_report import Packed, Totals

    width = len(table.components) + 1
    packed = Packed(Totals(np.zeros(width, np.int64)), np.full(len(table.sizes), -1, np.int64))
    begin = time.monotonic()
    for response in connection.stream("packing.Packing.Pack", _requests(opening, table, ids)):
        kind = response.WhichOneof("message")
        if kind == "batch":
            _take(response.batch, packed)
        elif kind == "rejected":
            rejections = response.rejected.rejections
            packed.first_rejected = packed.first_rejected or (rejections[0] if rejections else None)
            packed.totals.rejected += len(rejections)
        elif kind == "opened":
            packed.opened = response.opened
        elif kind == "tuned":
            packed.tuned = response.tuned
            packed.totals.padded_rows = np.zeros(width, np.int64)
        elif kind == "drifted":
            packed.drifted.append(response.drifted)
    packed.seconds = time.monotonic() - begin
    totals = packed.totals
    if totals.graphs + totals.rejected != len(table.sizes):
        raise Failure(
            "INTERNAL",
            f"{totals.graphs} graphs came back and {totals.rejected} were rejected of "
            f"{len(table.sizes)}",
        )
    return packed


def _take(batch: Any, packed: Packed) -> None:
    """Takes in one batch and checks what a user relies on: ids are the file's, none comes twice."""
    import numpy as np

    ids = np.frombuffer(batch.graph_ids, "<u8")
    totals = packed.totals
    if len(batch.real_rows) != len(totals.rows):
        raise Failure(
            "INTERNAL",
            f"batch {batch.id} has {len(batch.real_rows)} real_rows, expected {len(totals.rows)}",
        )
    known = ids < len(packed.batch_of)
    if not known.all() or (packed.batch_of[ids] >= 0).any() or len(np.unique(ids)) < len(ids):
        raise Failure(
            "INTERNAL",
            f"batch {batch.id} has a graph which was not sent or came in a batch before",
        )
    packed.batch_of[ids] = batch.id
    totals.batches += 1
    totals.graphs += len(ids)
    totals.rows += np.array(batch.real_rows, np.int64)
    if totals.padded_rows is not None:
        totals.padded_rows += np.array(batch.rows, np.int64)


def _write(path: str, packed: Packed) -> None:
    """Raises OSError."""
    import numpy as np

    graphs = np.flatnonzero(packed.batch_of >= 0)
    with open(path, "w", encoding="ascii", newline="\n") as file:
        file.write("graph_id,batch_id\n")
        rows = np.column_stack([graphs, packed.batch_of[graphs]])
        np.savetxt(file, rows, fmt="%d", delimiter=",")

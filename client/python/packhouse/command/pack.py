"""packhouse pack."""

from __future__ import annotations

from typing import Any

import click

from packhouse.command.arguments import (
    NUMBER_32, flag, limit_option, number, padding_choice, server_options, sizes_option, value
)  # fmt: skip
from packhouse.command.connection import Server


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
    from packhouse.command import pack_stream

    pack_stream.run(server, given)

"""packhouse export: a data set as TFRecord files of tf.Examples, which TF-GNN reads."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Iterator

import click

from packhouse.command.arguments import (
    flag, limit_option, limits_of, number, padding_choice, server_options, value
)  # fmt: skip
from packhouse.command.connection import Server, connected
from packhouse.command.failures import Misuse
from packhouse.command.output import bytes_text, grouped

if TYPE_CHECKING:
    from packhouse.client.facade import Client

_RETRY_SECONDS = 300.0


# fmt: off
@click.command("export")
@click.argument("dataset", metavar="NAME")
@server_options(required=True)
@value("--tfrecord", "FILE", "FILE, or FILE@N for N shards; .gz is compressed", required=True)
@value("--graph-schema", "FILE", "Also write TF-GNN's schema of the records, as text")
@number("--epoch", "Write the graphs in the order in which this epoch's batches have them; by default "
        "in the data set's", None, metavar="NUMBER")
@number("--seed", "The seed of the epochs", None, metavar="NUMBER")
@limit_option()
@padding_choice("The padding that the epoch is loaded with: none, masked, graph or tfgnn",
                metavar="KIND")
@flag("--grouped", "The epoch keeps groups together")
@number("--first-graph", "The place of the first graph", metavar="NUMBER")
@number("--num-graphs", "At most so many; 0: all", metavar="COUNT")
@flag("--quiet", "Print errors only")
# fmt: on
def command(
    dataset: str, server: Server, tfrecord: str, graph_schema: str, first_graph: int, num_graphs: int,
    quiet: bool, **of_epoch: Any,
) -> None:  # fmt: skip
    """Write the data set NAME as tf.Examples, which TF-GNN reads"""
    epoch, limit = of_epoch["epoch"], of_epoch["limit"]
    for name in ("seed", "limit", "padding", "grouped"):
        is_given = of_epoch[name] is not None and of_epoch[name] is not False and of_epoch[name] != ()
        if epoch is None and is_given:
            raise Misuse(f"--{name} requires --epoch")
    if epoch is not None and not limit:
        raise Misuse("--epoch requires --limit")
    from packhouse.files import tfrecords

    paths = tfrecords.files_to_write(tfrecord)
    begin = time.monotonic()
    with connected(server) as client:
        arguments: dict[str, Any] = {}
        if epoch is not None:
            components = client.datasets.get(dataset).schema.components
            try:
                limits = limits_of(limit, components)
            except Misuse as error:  # What the data set has is the server's word.
                raise ValueError(error.message) from None
            arguments = {"epoch": epoch, "seed": of_epoch["seed"] or 0, "limits": limits}
            arguments |= {"padding": of_epoch["padding"] or "none", "grouped": of_epoch["grouped"]}
            arguments["oversize"] = "reject"
        exported = _Exported(client, dataset, arguments)
        with tfrecords.Writer(paths) as writer:
            for example in exported.examples(first_graph, num_graphs):
                writer.write(example)
    if graph_schema:
        with open(graph_schema, "w", encoding="utf-8") as file:
            file.write(exported.schema)
    if quiet:
        return
    rate = exported.num_bytes / max(time.monotonic() - begin, 1e-9) / 1e6
    files = f"{len(paths)} file{'' if len(paths) == 1 else 's'}"
    print(
        f"{dataset}: wrote {exported.num_graphs:,} graphs to {files}; "
        f"{bytes_text(exported.num_bytes)}, {rate:.1f} MB/s"
    )


class _Exported:
    """The examples of a data set, also over a restart of the server, and what they came to."""

    def __init__(self, client: Client, dataset: str, arguments: dict[str, Any]) -> None:
        self._client = client
        self._dataset = dataset
        self._arguments = arguments
        self.num_graphs = self.num_bytes = 0
        self.schema = ""

    def examples(self, first_graph: int, num_graphs: int) -> Iterator[bytes]:
        """Raises PackhouseError."""
        from packhouse.base.errors import PackhouseError
        from packhouse.calls.retrying import Backoff

        backoff = Backoff(_RETRY_SECONDS, call=f"an export of '{self._dataset}'")
        while True:
            try:
                yield from self._rest(first_graph, num_graphs)
                return
            except PackhouseError as error:
                time.sleep(backoff.delay_after(error))
            if num_graphs and self.num_graphs == num_graphs:
                return

    def _rest(self, first_graph: int, num_graphs: int) -> Iterator[bytes]:
        stream = self._client.datasets.export_examples(
            self._dataset, first_graph=first_graph + self.num_graphs,
            num_graphs=num_graphs and num_graphs - self.num_graphs, **self._arguments,
        )
        with stream:
            if not self.schema:
                self.schema = str(stream.schema.data)
            for example in stream:
                self.num_graphs += 1
                self.num_bytes += len(example)
                yield example

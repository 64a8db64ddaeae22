"""packhouse export: a data set as TFRecord files of tf.Examples, which TF-GNN reads."""

from __future__ import annotations

import time
from typing import Any, Iterator

import click

from packhouse.command.arguments import (
    NUMBER,
    PADDINGS,
    limit_option,
    limits_of,
    option,
    server_options,
)
from packhouse.command.connection import Connection, Server, connected
from packhouse.command.failures import Misuse
from packhouse.command.readable import bytes_text, grouped

_RETRY_SECONDS = 300.0


@click.command("export")
@click.argument("dataset", metavar="NAME")
@server_options(required=True)
@option(
    "--tfrecord",
    required=True,
    metavar="FILE",
    help="FILE, or FILE@N for N shards; .gz is compressed",
)
@option(
    "--graph-schema", metavar="FILE", help="Also write TF-GNN's schema of the records, as text"
)
@option(
    "--epoch",
    type=NUMBER,
    default=None,
    metavar="NUMBER",
    help="Write the graphs in the order in which this epoch's batches have them; by default in the "
    "data set's",
)
@option("--seed", type=NUMBER, default=None, metavar="NUMBER", help="The seed of the epochs")
@limit_option()
@option(
    "--padding",
    type=click.Choice(PADDINGS),
    metavar="KIND",
    help="The padding that the epoch is loaded with: none, masked, graph or tfgnn",
)
@option("--grouped", "is_grouped", is_flag=True, help="The epoch keeps groups together")
@option("--first-graph", type=NUMBER, default=0, metavar="NUMBER", help="The place of the first graph")
@option("--num-graphs", type=NUMBER, default=0, metavar="COUNT", help="At most so many; 0: all")
@option("--quiet", is_flag=True, help="Print errors only")
def command(
    dataset: str,
    server: Server,
    tfrecord: str,
    graph_schema: str,
    epoch: int | None,
    seed: int | None,
    limit: tuple[str, ...],
    padding: str | None,
    is_grouped: bool,
    first_graph: int,
    num_graphs: int,
    quiet: bool,
) -> None:
    """Write the data set NAME as tf.Examples, which TF-GNN reads"""
    of_epoch = {"--seed": seed, "--limit": limit or None, "--padding": padding}
    of_epoch["--grouped"] = is_grouped or None
    for name, value in of_epoch.items():
        if epoch is None and value is not None:
            raise Misuse(f"{name} requires --epoch")
    if epoch is not None and not limit:
        raise Misuse("--epoch requires --limit")
    from packhouse.files import tfrecords

    paths = tfrecords.files_to_write(tfrecord)
    begin = time.monotonic()
    with connected(server) as connection:
        arguments: dict[str, Any] = {}
        if epoch is not None:
            components = connection.client.datasets.get(dataset).schema.components
            try:
                limits = limits_of(limit, components)
            except Misuse as error:  # What the data set has is the server's word.
                raise ValueError(error.message) from None
            arguments = {"epoch": epoch, "seed": seed or 0, "limits": limits}
            arguments |= {"padding": padding or "none", "grouped": is_grouped, "oversize": "reject"}
        exported = _Exported(connection, dataset, arguments)
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
        f"{dataset}: wrote {grouped(exported.num_graphs)} graphs to {files}; "
        f"{bytes_text(exported.num_bytes)}, {rate:.1f} MB/s"
    )


class _Exported:
    """The examples of a data set, also over a restart of the server, and what they came to."""

    def __init__(self, connection: Connection, dataset: str, arguments: dict[str, Any]) -> None:
        self._client = connection.client
        self._dataset = dataset
        self._arguments = arguments
        self.num_graphs = 0
        self.num_bytes = 0
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
            self._dataset,
            first_graph=first_graph + self.num_graphs,
            num_graphs=num_graphs and num_graphs - self.num_graphs,
            **self._arguments,
        )
        with stream:
            if not self.schema:
                self.schema = str(stream.schema.data)
            for example in stream:
                self.num_graphs += 1
                self.num_bytes += len(example)
                yield example

"""packhouse tfgnn: TF-GNN's schemas, and its TFRecords of tf.Examples. packhouse-graph does it."""

from __future__ import annotations

import click

from packhouse.command.group import Group
from packhouse.command.wings import forwarded


@click.group("tfgnn", cls=Group)
def command() -> None:
    """Work with TF-GNN's schemas and TFRecords of tf.Examples"""


for _name, _told in (
    ("validate", "Check a schema as TF-GNN does, and show which tensors packhouse makes of it"),
    ("print", "Show the graphs of TFRecord files"),
    ("generate", "Write random graphs that obey a schema"),
    ("stats", "Show sizes and features of TFRecord files"),
    ("size-constraints", "Show the shapes that TF-GNN would pad batches to, and how many packhouse needs"),
    ("convert-ogb", "Write a downloaded data set of OGB (one large graph) as a unigraph"),
):
    command.add_command(forwarded(_name, _told, ["tfgnn", _name]))

"""Where the sizes of graphs come from: a file, or what a server keeps."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np

from packhouse.command.connection import Server, connected
from packhouse.command.failures import Misuse
from packhouse.data.histogram import Histogram
from packhouse.files import npz, reading
from packhouse.files.size_files import SizeTable, read


class SizeSource(NamedTuple):
    """The one that is not empty."""

    file: str = ""
    dataset: str = ""
    histogram: str = ""

    def check(self, server: Server) -> None:
        """Raises Misuse unless there is one source, and a server if it has the sizes."""
        if sum(map(bool, self)) != 1:
            raise Misuse("one of --sizes, --dataset and --histogram is needed")
        if not self.file and not server.address:
            raise Misuse(
                f"{self.name}: needs --server: a server that is started for this command alone has none"
            )

    @property
    def name(self) -> str:
        """What messages call it: `molhiv_train`, `data set molhiv` or `histogram sizes`."""
        if self.file:
            return name_of_file(self.file)
        return f"data set {self.dataset}" if self.dataset else f"histogram {self.histogram}"

    def read(self, server: Server) -> Histogram:
        """The sizes, counted: tuples are distinct and ascending.

        Raises OSError, ValueError or OverflowError of a file, PackhouseError with NOT_FOUND of a
        server.
        """
        if self.file:
            table = read_sizes(self.file)
            return Histogram.from_sizes(table.sizes, table.components, table.counts)
        with connected(server) as client:
            if self.histogram:
                kept: Any = client.histograms.get(self.histogram)
            else:
                kept = client.datasets.get(self.dataset, include_histogram=True).histogram
            return Histogram.from_sizes(kept.tuples, kept.components, kept.counts)


def read_sizes(path: str) -> SizeTable:
    """The sizes of a list of sizes, or of the graphs of a file of any kind that has no pickles.

    Raises OSError, or ValueError naming file and place.
    """
    with open(path, "rb") as file:
        is_archive = file.read(4) == b"PK\3\4"
    if path.endswith((".csv", ".csv.gz", *reading.PICKLES)):
        return read(path)
    # By its content if it is an archive of numpy's arrays, otherwise by its name.
    if is_archive and npz.is_archive(path):
        with npz.NpzGraphs(path) as graphs:
            return SizeTable(tuple(graphs.schema.components), graphs.sizes, None)
    if not reading.is_known(path):
        return read(path)
    tables = [(table.schema.components, table.sizes) for table in reading.tables([path])]
    if not tables:
        raise ValueError(f"{path}: there is no graph")
    sizes = np.concatenate([sizes for _, sizes in tables])
    return SizeTable(tuple(tables[0][0]), sizes, None)


def name_of_file(path: str) -> str:
    """The last part of a path without `.csv` and `.gz`."""
    return os.path.basename(path).removesuffix(".gz").removesuffix(".csv")

"""Where the sizes of graphs come from: a file, or what a server keeps."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from packhouse.command.connection import Connection, Server, connected
from packhouse.command.failures import Failure, Misuse

if TYPE_CHECKING:
    from packhouse.files.size_files import SizeTable
    from packhouse.data.histogram import Histogram


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
                f"{self.name}: needs --server: a server that is started for this command alone has "
                "none"
            )

    @property
    def name(self) -> str:
        """What messages call it: `molhiv_train`, `data set molhiv` or `histogram sizes`."""
        if self.file:
            return name_of_file(self.file)
        return f"data set {self.dataset}" if self.dataset else f"histogram {self.histogram}"

    def read(self, server: Server) -> Histogram:
        """The sizes, counted: tuples are distinct and ascending.

        Raises Failure, OSError or ValueError of a file, PackhouseError with NOT_FOUND of a server.
        """
        if self.file:
            return counted(read_sizes(self.file))
        with connected(server) as connection:
            return histogram_of(stored_sizes(connection, self.dataset, self.histogram))


def read_sizes(path: str) -> SizeTable:
    """The sizes of a list of sizes, or of the graphs of a file of any kind that has no pickles.

    Raises OSError, or ValueError naming file and place.
    """
    from packhouse.files import size_files

    is_list = path.endswith((".csv", ".csv.gz")) or not _has_graphs(path)
    return size_files.read(path) if is_list else _sizes_of_graphs(path)


def _has_graphs(path: str) -> bool:
    """By its content if it is an archive of numpy's arrays, otherwise by its name."""
    with open(path, "rb") as file:
        is_archive = file.read(4) == b"PK\3\4"
    from packhouse.files import npz, reading

    if path.endswith(reading.PICKLES):
        return False
    return is_archive and npz.is_archive(path) or reading.is_known(path)


def _sizes_of_graphs(path: str) -> SizeTable:
    import numpy as np

    from packhouse.files import npz, reading
    from packhouse.files.size_files import SizeTable

    if npz.is_archive(path):
        with npz.NpzGraphs(path) as graphs:
            return SizeTable(tuple(graphs.schema.components), graphs.sizes, None)
    tables = [(table.schema.components, table.sizes) for table in reading.tables([path])]
    if not tables:
        raise ValueError(f"{path}: there is no graph")
    return SizeTable(
        tuple(tables[0][0]), np.concatenate([sizes for _, sizes in tables]), None
    )


def counted(table: SizeTable) -> Histogram:
    """Equal rows as one; tuples are ascending."""
    import numpy as np

    from packhouse.data.histogram import Histogram

    order = np.lexsort(table.sizes.T[::-1])
    sizes = table.sizes[order]
    is_first = np.ones(len(sizes), bool)
    is_first[1:] = (sizes[1:] != sizes[:-1]).any(axis=1)
    firsts = np.flatnonzero(is_first)
    if table.counts is None:
        counts = np.diff(np.append(firsts, len(sizes)))
    else:
        if table.num_graphs >= 1 << 64:
            raise Failure("OUT_OF_RANGE", "the counts add up to more than 2^64 graphs")
        counts = np.add.reduceat(table.counts[order], firsts)
    return Histogram(table.components, sizes[firsts], counts.astype("<u8"))


def stored_sizes(connection: Connection, dataset: str, histogram: str) -> Any:
    """The `packhouse.v1.Histogram` of a data set, or of a histogram. Raises PackhouseError."""
    from packhouse.v1 import dataset_pb2, dataset_pb2_grpc, histogram_pb2, histogram_pb2_grpc

    if dataset:
        datasets = connection.stub(dataset_pb2_grpc.DatasetServiceStub)
        request = dataset_pb2.GetDatasetRequest(name=dataset, include_histogram=True)
        return connection.call(datasets.GetDataset, request).histogram
    histograms = connection.stub(histogram_pb2_grpc.HistogramServiceStub)
    wanted = histogram_pb2.GetHistogramRequest(histogram=histogram)
    return connection.call(histograms.GetHistogram, wanted).histogram


def histogram_of(message: Any) -> Histogram:
    """A `packhouse.v1.Histogram`, tuples ascending. Raises ValueError if it is malformed."""
    import numpy as np

    from packhouse.data.histogram import Histogram

    read = Histogram.from_proto(message)
    order = np.lexsort(read.tuples.T[::-1])
    return dataclasses.replace(read, tuples=read.tuples[order], counts=read.counts[order])


def name_of_file(path: str) -> str:
    """The last part of a path without `.csv` and `.gz`."""
    return os.path.basename(path).removesuffix(".gz").removesuffix(".csv")

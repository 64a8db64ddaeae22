"""Storing TFRecord files: `packhouse ingest --graph-schema` beside a plain ingest of the same graphs.

The graphs have sets and features as OGBN-MAG's sub-graphs. A plain ingest reads them as columns of a
.npz archive, which the server stores as they are; tf.Examples it has to decode. Each goes into a new
data set of one server on one disk, in turns; the rates are bytes of the records, and of the columns,
by the wall clock of the ingest. Exit status 1 if the records come at less than --goal of the rate of
the columns.

    PYTHONPATH=build/release/python python3 -B tests/benchmarks/tfgnn_ingest.py --megabytes 1000
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, Final

import numpy as np

import packhouse.tfgnn
from packhouse import Client, GraphTable, LocalServer, TfgnnSchema

# As many sub-graphs as this are made; the files repeat them.
DISTINCT: Final = 64
SCHEMA: Final = """
node_sets { key: "paper" value {
  features { key: "feat" value { dtype: DT_FLOAT shape { dim { size: 128 } } } }
  features { key: "labels" value { dtype: DT_INT64 } }
  features { key: "year" value { dtype: DT_INT64 } } } }
node_sets { key: "author" value { features { key: "id" value { dtype: DT_INT64 } } } }
node_sets { key: "institution" value { features { key: "id" value { dtype: DT_INT64 } } } }
edge_sets { key: "author.writes.paper" value { source: "author" target: "paper" } }
edge_sets { key: "paper.cites.paper" value { source: "paper" target: "paper" } }
edge_sets { key: "author.at.institution" value { source: "author" target: "institution" } }
"""
_ROWS: Final = {
    "paper": 200,
    "author": 300,
    "institution": 60,
    "author.writes.paper": 900,
    "paper.cites.paper": 500,
    "author.at.institution": 300,
}


def graphs_of(schema: TfgnnSchema, count: int) -> GraphTable:
    """Sub-graphs whose sizes differ by a third either way, with seeded contents."""
    random = np.random.default_rng(1)
    made = packhouse.tfgnn.graph_schema(schema)
    most = np.array([_ROWS[name] for name in made.components])
    sizes = random.integers(most * 2 // 3, most * 4 // 3, (count, len(most)))
    table = GraphTable(type(made)(made.components), sizes)
    columns: dict[str, Any] = {}
    for spec in made.tensors:
        shape = (table.rows(spec.component), *spec.row_shape)
        if spec.index_into is not None:
            nodes = np.repeat(table.counts(spec.index_into), table.counts(spec.component))
            columns[spec.name] = (random.random(shape) * nodes).astype(spec.dtype.numpy)
        elif spec.dtype.numpy.kind == "f":
            columns[spec.name] = random.standard_normal(shape).astype(spec.dtype.numpy)
        else:
            columns[spec.name] = random.integers(0, 1 << 20, shape)
    return GraphTable(made, sizes, columns)


def write_npz(path: pathlib.Path, table: GraphTable) -> None:
    """As `packhouse ingest` reads it."""
    arrays: dict[str, Any] = {}
    for name in table.schema.components:
        arrays[f"{name}.offsets"] = table.offsets(name)
        if f"{name}.source" in table.tensors:
            ends = [table.tensors[f"{name}.{end}"] for end in ("source", "target")]
            arrays[f"{name}.edge_index"] = np.stack(ends)
    for spec in table.schema.tensors:
        if spec.index_into is None:
            arrays[spec.name] = table.tensors[spec.name]
    np.savez(path, **arrays)


class Ingest:
    """Runs `packhouse ingest`, each time into a data set that is gone afterwards."""

    def __init__(self, cli: pathlib.Path, client: Client, address: str) -> None:
        self._command = [str(cli), "ingest", "--server", address, "--dataset", "measured"]
        self._client = client

    def seconds(self, *arguments: str) -> float:
        """By the wall clock, with reading the files."""
        begin = time.monotonic()
        subprocess.run([*self._command, "--quiet", *arguments], check=True)
        seconds = time.monotonic() - begin
        self._client.datasets.delete("measured")
        return seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cli", type=pathlib.Path, default="build/release/bin/packhouse")
    parser.add_argument("--server", default="build/release/service/packhoused")
    parser.add_argument("--folder", help="where the files and the data sets are, on a disk")
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--goal", type=float, default=0.7)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = pathlib.Path(name)
        (folder / "schema.pbtxt").write_text(SCHEMA, encoding="utf-8")
        with LocalServer(arguments.server, data_dir=folder / "data") as server:
            with Client(server.address) as client:
                table = graphs_of(TfgnnSchema(SCHEMA), DISTINCT)
                client.datasets.create("made", table.schema)
                client.datasets.append("made", table)
                subprocess.run(
                    [arguments.cli, "export", "made", "--server", server.address, "--quiet",
                     "--tfrecord", folder / "one"],
                    check=True,
                )
                records = (folder / "one").read_bytes()
                copies = max(1, arguments.megabytes * 1_000_000 // len(records))
                with open(folder / "records", "wb") as file:
                    for _ in range(copies):
                        file.write(records)
                write_npz(folder / "columns.npz", GraphTable.concatenate([table] * copies))
                ingest = Ingest(arguments.cli, client, server.address)
                of_records, of_columns, ratios = [], [], []
                for _ in range(arguments.rounds):
                    schema = str(folder / "schema.pbtxt")
                    seconds = ingest.seconds(str(folder / "records"), "--graph-schema", schema)
                    of_records.append(copies * len(records) / seconds)
                    seconds = ingest.seconds(str(folder / "columns.npz"))
                    of_columns.append(copies * table.nbytes / seconds)
                    ratios.append(of_records[-1] / of_columns[-1])
    size = copies * len(records) / 1e6
    print(f"{size:.0f} MB of records; medians of {arguments.rounds} rounds in turns\n")
    print("| what is stored | MB/s |\n|---|---|")
    print(f"| tf.Examples of TFRecord files | {statistics.median(of_records) / 1e6:.0f} |")
    print(f"| the same graphs as columns | {statistics.median(of_columns) / 1e6:.0f} |")
    ratio = statistics.median(ratios)
    print(f"\nrecords come at {ratio:.2f} of the rate of columns")
    return 0 if ratio >= arguments.goal else 1


if __name__ == "__main__":
    sys.exit(main())

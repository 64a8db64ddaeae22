"""Reading tf.Examples: packhouse's decoder beside TF-GNN's own, on the same records, one core each.

The records are sub-graphs of OGBN-MAG's shape, about 150 kB each. packhouse's figure is that of
BM_TfgnnDecode. TF-GNN parses batches (`tfgnn.parse_example` in a `tf.data` map, as its guides have
it), in one thread of each of TensorFlow's pools; CPU time counts. Exit status 1 if packhouse reads
less than --goal times as many bytes a second.

    python3 -B tests/conformance/environments.py --program tests/benchmarks/tfgnn_parse.py tfgnn -- \\
        --benchmarks build/release/tests/benchmarks/packhouse_benchmarks
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Final

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf
import tensorflow_gnn as tfgnn

BATCH_SIZES: Final = (1, 16, 64)


def of_packhouse(benchmarks: pathlib.Path, folder: pathlib.Path) -> float:
    """Bytes of records a second; leaves the records and their schema in the folder."""
    done = subprocess.run(
        [benchmarks, "--benchmark_filter=TfgnnDecode", "--benchmark_format=json",
         "--benchmark_min_time=2"],
        env={**os.environ, "PACKHOUSE_TFGNN_RECORDS": str(folder)},
        stdout=subprocess.PIPE,
        check=True,
    )
    measured = json.loads(done.stdout)["benchmarks"][0]
    assert isinstance(measured["bytes_per_second"], float)
    return measured["bytes_per_second"]


def of_tfgnn(folder: pathlib.Path, batch_size: int, seconds: float) -> float:
    """Bytes of records a second of CPU time."""
    schema = tfgnn.read_schema(str(folder / "schema.pbtxt"))
    spec = tfgnn.create_graph_spec_from_schema_pb(schema)
    path = str(folder / "records.tfrecord")
    size = sum(len(record.numpy()) for record in tf.data.TFRecordDataset(path))
    # From memory: reading the file is no part of it.
    records = tf.data.TFRecordDataset(path).cache()
    graphs = records.batch(batch_size).map(lambda batch: tfgnn.parse_example(spec, batch))
    for _ in graphs:
        pass
    begin, done = time.process_time(), 0
    while time.process_time() - begin < seconds:
        for _ in graphs:
            pass
        done += size
    return done / (time.process_time() - begin)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--benchmarks", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--goal", type=float, default=10.0)
    arguments = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        ours = of_packhouse(arguments.benchmarks.resolve(), folder)
        theirs = {size: of_tfgnn(folder, size, arguments.seconds) for size in BATCH_SIZES}
    print(f"| who | MB/s a core |\n|---|---|\n| packhouse | {ours / 1e6:.0f} |")
    for size, rate in theirs.items():
        print(f"| tfgnn.parse_example, {size} a batch | {rate / 1e6:.0f} |")
    ratio = ours / max(theirs.values())
    print(f"\npackhouse reads {ratio:.1f} times as fast as TF-GNN at its best")
    return 0 if ratio >= arguments.goal else 1


if __name__ == "__main__":
    sys.exit(main())

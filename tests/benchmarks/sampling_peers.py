"""Epochs of sub-graphs beside the samplers of TF-GNN, DGL and PyG: same graph, same fan-outs.

The graph has the citations of OGBN-MAG's shape: papers with few references each, some of them
cited often. Around each seed up to 15 references are drawn, and up to 10 of each paper in the
sub-graph; structure only. The loaders take turns, epoch by epoch, in one process:

- packhouse, a graph a seed: what PyG calls disjoint.
- packhouse, a frontier: the seeds of a batch share a sub-graph, as in the loaders of DGL and PyG.
- TF-GNN's layers in memory (`create_sampling_model_from_spec`, the same spec): a graph a seed.
- DGL's DataLoader with NeighborSampler; with batches of one seed, too: a graph a seed.
- PyG's NeighborLoader, which needs pyg-lib or torch-sparse.

Whichever can be imported here takes part. CPU seconds are those of the reader, with one thread, and
of packhouse's server, which delivers its sub-graphs. Prints medians, and the ratio to each
framework, of the same kind; exit status 1 if packhouse takes more CPU time for an edge.

    PYTHONPATH=build/release/python python3 tests/conformance/environments.py \\
        --program tests/benchmarks/sampling_peers.py dgl -- \\
        --packhoused build/release/service/packhoused
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, Final, Iterator

import numpy as np
import numpy.typing as npt

from packhouse import (
    Client,
    Loader,
    LocalServer,
    Samples,
    SourceEdgeSet,
    SourceGraphSchema,
    SourceNodeSet,
    SubGraphs,
)
from packhouse.large.source_graph import EdgeRows, NodeRows

PAPERS: Final = 736_389
REFERENCES: Final = 5_416_271
FAN_OUTS: Final = (15, 10)
SPEC: Final = f"""
seed_op {{ op_name: "seed" node_set_name: "paper" }}
sampling_ops {{
  op_name: "a" input_op_names: "seed" edge_set_name: "cites" sample_size: {FAN_OUTS[0]}
  strategy: RANDOM_UNIFORM
}}
sampling_ops {{
  op_name: "b" input_op_names: "seed" input_op_names: "a" edge_set_name: "cites"
  sample_size: {FAN_OUTS[1]} strategy: RANDOM_UNIFORM
}}
"""

Ends = npt.NDArray[np.int64]
# The edges of each batch of an epoch.
Epoch = Callable[[int], Iterator[int]]


@dataclasses.dataclass
class Contestant:
    """`cpu` gives the CPU seconds of all that works for it so far; `shared`: a frontier."""

    name: str
    epoch: Epoch
    cpu: Callable[[], float]
    num_seeds: int
    shared: bool
    seconds: list[float] = dataclasses.field(default_factory=list)
    cpu_seconds: list[float] = dataclasses.field(default_factory=list)
    edges: int = 0
    batches: int = 0

    def run(self, number: int) -> None:
        """One epoch."""
        started, cpu = time.perf_counter(), self.cpu()
        of_batches = list(self.epoch(number))
        self.seconds.append((time.perf_counter() - started) / sum(of_batches))
        self.cpu_seconds.append((self.cpu() - cpu) / sum(of_batches))
        self.edges, self.batches = sum(of_batches), len(of_batches)

    def rate(self) -> float:
        """Edges a second."""
        return 1 / statistics.median(self.seconds)

    def cpu_rate(self) -> float:
        """Edges a CPU second."""
        return 1 / statistics.median(self.cpu_seconds)


def citations(scale: float) -> tuple[int, Ends, Ends]:
    """Papers, and the ends of the references: early papers are cited more often."""
    random = np.random.default_rng(5)
    papers = max(int(PAPERS * scale), 100)
    count = int(REFERENCES * scale)
    order = random.permutation(papers)
    cited = order[(random.random(count) ** (1 / 0.55) * papers).astype(np.int64)]
    return papers, random.integers(0, papers, count), cited


def into_server(client: Client, papers: int, sources: Ends, targets: Ends) -> None:
    """The source graph `peers`."""
    schema = SourceGraphSchema(
        (SourceNodeSet("paper"),), (SourceEdgeSet("cites", "paper", "paper"),)
    )
    client.source_graphs.create("peers", schema)
    rows: list[Any] = [NodeRows("paper", np.arange(papers), {})]
    rows += [
        EdgeRows("cites", sources[begin : begin + 100_000], targets[begin : begin + 100_000])
        for begin in range(0, len(sources), 100_000)
    ]
    client.source_graphs.append("peers", rows)
    client.source_graphs.seal("peers")


def cpu_of(pid: int) -> float:
    """User and system time of a process."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def of_packhouse(server: LocalServer, seeds: Ends, batch: int, shared: bool) -> Contestant:
    """Batches of as many seeds as the others': one sub-graph of all, or one of each."""
    sub_graphs = SubGraphs("peers", SPEC, seeds_per_graph=batch if shared else 1)
    name = "packhouse, a frontier" if shared else "packhouse, a graph a seed"
    loader = Loader(
        server.address,
        job=f"peers-{shared}",
        samples=Samples(sub_graphs, seeds=seeds),
        limits={"graphs": 1 if shared else batch},
        seed=1,
    )

    def epoch(number: int) -> Iterator[int]:
        loader.set_epoch(number)
        for made in loader:
            yield made.real_rows["cites"]

    return Contestant(
        name, epoch, lambda: time.process_time() + cpu_of(server.pid), len(seeds), shared
    )


def of_dgl(papers: int, sources: Ends, targets: Ends, seeds: Ends, batch: int) -> Contestant | None:
    """DGL follows edges against their direction, so it gets them reversed."""
    try:
        import dgl
        import torch
        from dgl.dataloading import DataLoader, NeighborSampler
    except ImportError as error:
        print(f"without DGL: {error}")
        return None
    graph = dgl.graph((torch.from_numpy(targets), torch.from_numpy(sources)), num_nodes=papers)
    graph.create_formats_()
    # From the outermost layer to that of the seeds.
    sampler = NeighborSampler(list(FAN_OUTS[::-1]))
    loader = DataLoader(
        graph, torch.from_numpy(seeds), sampler, batch_size=batch, shuffle=True, num_workers=0
    )

    def epoch(number: int) -> Iterator[int]:
        for _, _, blocks in loader:
            yield sum(block.num_edges() for block in blocks)

    name = f"DGL {dgl.__version__}" + (", a graph a seed" if batch == 1 else "")
    return Contestant(name, epoch, time.process_time, len(seeds), batch != 1)


def of_dgl_alone(
    papers: int, sources: Ends, targets: Ends, seeds: Ends, batch: int
) -> Contestant | None:
    """It is slow, so a part of the seeds is enough."""
    return of_dgl(papers, sources, targets, seeds[: max(len(seeds) // 20, 1)], 1)


def of_tfgnn(
    papers: int, sources: Ends, targets: Ends, seeds: Ends, batch: int
) -> Contestant | None:
    """Each seed of a batch has a sub-graph of its own."""
    try:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        import tensorflow as tf
        import tensorflow_gnn as tfgnn
        from google.protobuf import text_format
        from tensorflow_gnn.experimental import sampler
        from tensorflow_gnn.sampler import SamplingSpec
    except ImportError as error:
        print(f"without TF-GNN: {error}")
        return None
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    schema = tfgnn.GraphSchema()
    schema.node_sets["paper"].SetInParent()
    schema.edge_sets["cites"].source = schema.edge_sets["cites"].target = "paper"
    cites = tfgnn.Adjacency.from_indices(
        ("paper", tf.constant(sources, tf.int32)), ("paper", tf.constant(targets, tf.int32))
    )
    graph = tfgnn.GraphTensor.from_pieces(
        node_sets={"paper": tfgnn.NodeSet.from_fields(sizes=[papers], features={})},
        edge_sets={
            "cites": tfgnn.EdgeSet.from_fields(sizes=[len(sources)], features={}, adjacency=cites)
        },
    )

    def layer(op: Any) -> Any:
        return sampler.InMemUniformEdgesSampler.from_graph_tensor(
            graph, op.edge_set_name, sample_size=op.sample_size, name=op.op_name
        )

    draw = tf.function(
        sampler.create_sampling_model_from_spec(
            schema, text_format.Parse(SPEC, SamplingSpec()), layer, seed_node_dtype=tf.int32
        ),
        input_signature=[tf.RaggedTensorSpec([None, None], tf.int32, ragged_rank=1)],
    )

    def epoch(number: int) -> Iterator[int]:
        order = np.random.default_rng(number).permutation(seeds).astype(np.int32)
        for begin in range(0, len(order), batch):
            part = order[begin : begin + batch]
            drawn = draw(tf.RaggedTensor.from_row_lengths(part, np.ones(len(part), np.int64)))
            yield int(drawn.edge_sets["cites"].adjacency.source.flat_values.shape[0])

    for _ in epoch(0):  # Makes its function.
        break
    return Contestant(f"TF-GNN {tfgnn.__version__}", epoch, time.process_time, len(seeds), False)


def of_pyg(papers: int, sources: Ends, targets: Ends, seeds: Ends, batch: int) -> Contestant | None:
    """PyG follows edges against their direction, too."""
    try:
        import torch
        import torch_geometric
        from torch_geometric.data import Data
        from torch_geometric.loader import NeighborLoader

        data = Data(edge_index=torch.from_numpy(np.stack([targets, sources])), num_nodes=papers)
        loader = NeighborLoader(
            data,
            num_neighbors=list(FAN_OUTS),
            input_nodes=torch.from_numpy(seeds),
            batch_size=batch,
            shuffle=True,
        )
        next(iter(loader))
    except ImportError as error:
        print(f"without PyG: {error}")
        return None

    def epoch(number: int) -> Iterator[int]:
        for made in loader:
            yield made.num_edges

    name = f"PyG {torch_geometric.__version__}"
    return Contestant(name, epoch, time.process_time, len(seeds), True)


def main() -> int:
    """Exit status 1 if a goal was missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--packhoused", metavar="BINARY", help="the server (default: in PATH)")
    parser.add_argument("--scale", type=float, default=0.05, help="of OGBN-MAG's citations")
    parser.add_argument("--seeds", type=int, default=20_000, metavar="N", help="of an epoch")
    parser.add_argument("--batch", type=int, default=128, metavar="N", help="seeds of a batch")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="epochs of each")
    options = parser.parse_args()
    # Before a framework is imported: threads that spin would count as work.
    os.environ["OMP_NUM_THREADS"] = "1"
    papers, sources, targets = citations(options.scale)
    seeds = np.random.default_rng(0).permutation(papers)[: options.seeds]
    print(
        f"{papers:,} papers, {len(sources):,} references; epochs of {len(seeds):,} seeds, "
        f"{options.batch} a batch; fan-outs {FAN_OUTS}"
    )
    with tempfile.TemporaryDirectory() as folder:
        with LocalServer(options.packhoused, data_dir=folder, log=subprocess.DEVNULL) as server:
            with Client(server.address, timeout=600) as client:
                into_server(client, papers, sources, targets)
            ours = [of_packhouse(server, seeds, options.batch, shared) for shared in (True, False)]
            made = [
                make(papers, sources, targets, seeds, options.batch)
                for make in (of_tfgnn, of_dgl, of_dgl_alone, of_pyg)
            ]
            theirs = [contestant for contestant in made if contestant is not None]
            for number in range(options.rounds):
                for contestant in ours + theirs:
                    contestant.run(number)
    for contestant in ours + theirs:
        print(
            f"{contestant.name:27} {contestant.cpu_rate() / 1e6:8.2f} M edges a CPU second, "
            f"{contestant.rate() / 1e6:6.2f} M a second; "
            f"{contestant.edges / contestant.num_seeds:.1f} edges a seed, "
            f"{contestant.batches:,} batches"
        )
    met = True
    for their in theirs:
        ratio = ours[0 if their.shared else 1].cpu_rate() / their.cpu_rate()
        met &= ratio >= 1
        print(
            f"   as many times the edges a CPU second of {their.name}, of the same kind: {ratio:.2f} "
            f"(goal 1: {'met' if ratio >= 1 else 'NOT met'})"
        )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())

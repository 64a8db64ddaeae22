"""Trains on clusters of one large graph (Cluster-GCN), fed by packhouse and by PyG's ClusterLoader.

    train_clusters.py                               a generated graph of 20,000 nodes
    train_clusters.py --nodes 2000 --parts 50 --epochs 3

The graph has planted communities: a node's label is its community, its features tell little of it,
its neighbours more. The model is a linear one on features that were averaged over neighbours twice
within the batch (SGC), in numpy: what differs is the feed alone. Both feeds have the same clusters,
those of packhouse. PyG is left out where it is not installed. A server is started for the run;
--address names one that runs already (with --data-dir).
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import pathlib
import tempfile
import time
from typing import Any, Iterator, NamedTuple

import numpy as np
import numpy.typing as npt

from packhouse import (
    Client,
    EdgeRows,
    Loader,
    LocalServer,
    NodeRows,
    SourceColumn,
    SourceEdgeSet,
    SourceGraphSchema,
    SourceNodeSet,
)

Array = npt.NDArray[Any]
CLASSES = 8
CHANNELS = 32
NAME = "clusters-example"
SCHEMA = SourceGraphSchema(
    [
        SourceNodeSet(
            "node",
            [
                SourceColumn("x", "float32", (CHANNELS,)),
                SourceColumn("y", "int64"),
                SourceColumn("train", "bool"),
            ],
        )
    ],
    [SourceEdgeSet("edge", "node", "node")],
)


class Graph(NamedTuple):
    """Nodes, and edges of both directions."""

    x: Array
    y: Array
    train: Array
    sources: Array
    targets: Array


class SubGraph(NamedTuple):
    """What the model sees of a batch."""

    x: Array
    y: Array
    train: Array
    sources: Array
    targets: Array


def generate(nodes: int, degree: int, seed: int) -> Graph:
    """Four of five edges stay in a neighbourhood of 50 nodes, which are of one class mostly."""
    random = np.random.default_rng(seed)
    y = np.arange(nodes) // 50 * 7 % CLASSES
    noisy = random.random(nodes) < 0.1
    y[noisy] = random.integers(0, CLASSES, noisy.sum())
    sources = np.repeat(np.arange(nodes), degree // 2)
    near = sources // 50 * 50 + random.integers(0, 50, len(sources))
    far = random.integers(0, nodes, len(sources))
    targets = np.where(random.random(len(sources)) < 0.8, np.minimum(near, nodes - 1), far)
    centres = random.normal(size=(CLASSES, CHANNELS))
    x = 0.35 * centres[y] + random.normal(size=(nodes, CHANNELS))
    both = np.concatenate([sources, targets]), np.concatenate([targets, sources])
    return Graph(x.astype(np.float32), y, random.random(nodes) < 0.5, *both)


class Model:
    """Softmax regression on twice averaged features, by Adam."""

    def __init__(self) -> None:
        self.weights = np.zeros((CHANNELS + 1, CLASSES))
        self._mean = np.zeros_like(self.weights)
        self._square = np.zeros_like(self.weights)
        self._steps = 0

    def train(self, batch: SubGraph) -> None:
        """One step on the training nodes of a batch."""
        h = averaged(batch)[batch.train]
        if not len(h):
            return
        p = softmax(h @ self.weights)
        p[np.arange(len(h)), batch.y[batch.train]] -= 1
        gradient = h.T @ p / len(h)
        self._steps += 1
        self._mean = 0.9 * self._mean + 0.1 * gradient
        self._square = 0.999 * self._square + 0.001 * gradient**2
        mean = self._mean / (1 - 0.9**self._steps)
        square = self._square / (1 - 0.999**self._steps)
        self.weights -= 0.05 * mean / (np.sqrt(square) + 1e-8)

    def accuracy(self, graph: Graph) -> float:
        """Of the nodes that are not for training, in the whole graph."""
        whole = SubGraph(*graph)
        right = (averaged(whole) @ self.weights).argmax(axis=1) == whole.y
        return float(right[~whole.train].mean())


def averaged(batch: SubGraph) -> Array:
    """Features, each averaged over the node and its in-neighbours twice; and a one."""
    h = batch.x.astype(np.float64)
    degrees = 1 + np.bincount(batch.targets, minlength=len(h))[:, None]
    order = np.argsort(batch.targets, kind="stable")
    sources, targets = batch.sources[order], batch.targets[order]
    starts = np.flatnonzero(np.diff(targets, prepend=-1))
    for _ in range(2):
        sums = h.copy()
        if len(starts):
            sums[targets[starts]] += np.add.reduceat(h[sources], starts)
        h = sums / degrees
    return np.concatenate([h, np.ones((len(h), 1))], axis=1)


def softmax(values: Array) -> Array:
    powers = np.exp(values - values.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def prepare(client: Client, graph: Graph, parts: int) -> Array:
    """Stores the graph, cuts it and makes the parts a data set; gives the part of each node."""
    client.source_graphs.create(NAME, SCHEMA)
    columns = {"x": graph.x, "y": graph.y, "train": graph.train}
    client.source_graphs.append(
        NAME,
        [
            NodeRows("node", np.arange(len(graph.x)), columns),
            EdgeRows("edge", graph.sources, graph.targets),
        ],
    )
    client.source_graphs.seal(NAME)
    client.partitions.begin(NAME, "fine", parts, files=False)
    done = client.partitions.wait(NAME, "fine")
    assert done.report is not None
    cut = done.report.num_cut_edges / done.report.num_edges
    print(f"{parts} parts by {done.report.method.name.lower()}, cut {cut:.1%} of the edges")
    client.partitions.make_dataset(NAME, "fine", NAME)
    with tempfile.TemporaryDirectory() as folder:
        files = pathlib.Path(folder) / "files"
        client.partitions.download(NAME, "fine", files)
        return np.load(files / "parts.npy")


def packhouse_batches(address: str, options: argparse.Namespace) -> Iterator[list[SubGraph]]:
    """Epochs, each a list of batches."""
    per_part = options.nodes / options.parts
    limits = {
        "node": round(per_part * (options.joined + 1)),
        "edge": round(per_part * (options.joined + 1) * options.degree * 1.1),
        "graphs": 2 * options.joined,
    }
    with contextlib.closing(
        Loader(
            address,
            job=NAME,
            dataset=NAME,
            join_parts=True,
            limits=limits,
            seed=1,
            on_existing="restart",
        )
    ) as loader:
        for epoch in range(options.epochs):
            loader.set_epoch(epoch)
            yield [
                SubGraph(
                    batch["node.x"],
                    batch["node.y"],
                    batch["node.train"].astype(bool),
                    batch["edge.source"],
                    batch["edge.target"],
                )
                for batch in loader
            ]
        joined = loader.epoch_info().joined_parts
        assert joined is not None
        print(
            f"packhouse: {joined.num_restored_edges} of {joined.num_cut_edges} cut edges are in a "
            "batch again"
        )


def pyg_batches(graph: Graph, part: Array, options: argparse.Namespace) -> Iterator[list[SubGraph]]:
    """The same of PyG's ClusterLoader."""
    import torch
    from torch_geometric.data import Data
    from torch_geometric.loader import ClusterData, ClusterLoader

    class SameClusters(ClusterData):  # type: ignore[misc]
        """With packhouse's parts instead of METIS's, for which PyG needs a library of its own."""

        def _metis(self, *_: Any, **__: Any) -> Any:
            return torch.from_numpy(part.astype(np.int64))

    data = Data(
        x=torch.from_numpy(graph.x),
        y=torch.from_numpy(graph.y),
        train=torch.from_numpy(graph.train),
        edge_index=torch.from_numpy(np.stack([graph.sources, graph.targets])),
        num_nodes=len(graph.x),
    )
    clusters = SameClusters(data, num_parts=options.parts, log=False)
    torch.manual_seed(1)
    for _ in range(options.epochs):
        yield [
            SubGraph(
                batch.x.numpy(),
                batch.y.numpy(),
                batch.train.numpy(),
                batch.edge_index[0].numpy(),
                batch.edge_index[1].numpy(),
            )
            for batch in ClusterLoader(clusters, batch_size=options.joined, shuffle=True)
        ]


def train(name: str, epochs: Iterator[list[SubGraph]], graph: Graph) -> None:
    model = Model()
    for number, batches in enumerate(epochs, 1):
        began = time.perf_counter()
        for batch in batches:
            model.train(batch)
        nodes = sum(len(batch.x) for batch in batches)
        edges = sum(len(batch.sources) for batch in batches)
        seconds = time.perf_counter() - began
        print(
            f"{name} epoch {number}: {len(batches)} batches, {nodes} nodes, {edges} edges, test "
            f"accuracy {model.accuracy(graph):.3f}, trained in {seconds:.2f} s"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--address", help="a server that runs; otherwise one is started")
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--degree", type=int, default=12)
    parser.add_argument("--parts", type=int, default=400)
    parser.add_argument("--joined", type=int, default=10, help="parts of a batch, on average")
    parser.add_argument("--epochs", type=int, default=5)
    options = parser.parse_args()
    graph = generate(options.nodes, options.degree, seed=3)
    with contextlib.ExitStack() as stack:
        address = options.address
        if address is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            address = stack.enter_context(LocalServer(data_dir=pathlib.Path(folder))).address
        client = stack.enter_context(Client(address))
        part = prepare(client, graph, options.parts)
        train("packhouse", packhouse_batches(address, options), graph)
        if importlib.util.find_spec("torch_geometric"):
            train("pyg", pyg_batches(graph, part, options), graph)
        client.jobs.delete(NAME)
        client.datasets.delete(NAME)
        client.source_graphs.delete(NAME)


if __name__ == "__main__":
    main()

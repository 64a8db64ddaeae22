"""Trains a small GNN on ogbg-molhiv from TF-GNN's GraphTensors, padded to one shape.

    train_tfgnn.py molhiv.npz [--epochs 5] [--most 2000]

A server is started for the run; --address names one that runs already (with --data-dir).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import tempfile
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import molecules
import numpy as np
import tensorflow as tf
import tensorflow_gnn as tfgnn

import packhouse.tfgnn
from packhouse import Client, Evaluation, Loader, LocalServer, Padding

LIMITS = {"nodes": 3328, "edges": 7168, "graphs": 160}


class Net(tf.keras.Model):
    """Sums over neighbours, LayerNormalization, which padding does not touch, means over graphs."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.embeddings = [
            tf.keras.layers.Embedding(values, channels) for values in molecules.NODE_VALUES
        ]
        self.convs = [tf.keras.layers.Dense(channels, "relu") for _ in range(3)]
        self.norms = [tf.keras.layers.LayerNormalization() for _ in range(3)]
        self.head = tf.keras.layers.Dense(1)

    def call(self, graph: Any) -> Any:
        features = graph.node_sets["nodes"]["x"]
        x = tf.add_n([embed(features[:, k]) for k, embed in enumerate(self.embeddings)])
        for conv, norm in zip(self.convs, self.norms):
            sent = tfgnn.broadcast_node_to_edges(graph, "edges", tfgnn.SOURCE, feature_value=x)
            sums = tfgnn.pool_edges_to_node(graph, "edges", tfgnn.TARGET, "sum", feature_value=sent)
            x = norm(conv(x + sums))
        means = tfgnn.pool_nodes_to_context(graph, "nodes", "mean", feature_value=x)
        return tf.squeeze(self.head(means), -1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("graphs", type=pathlib.Path, help="NAME.npz; NAME_split.npz is beside it")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--most", type=int, default=0, help="graphs of each part; 0: all")
    parser.add_argument("--address", help="of a server; without, one is started")
    options = parser.parse_args()
    tf.keras.utils.set_random_seed(0)
    net = Net(options.channels)
    optimizer = tf.keras.optimizers.Adam(1e-3)
    num_traces = 0

    @tf.function
    def step(graph: Any, mask: Any) -> Any:
        nonlocal num_traces
        num_traces += 1
        with tf.GradientTape() as tape:
            labels = tf.cast(graph.context["y"], tf.float32)
            losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, net(graph))
            loss = tf.reduce_mean(tf.boolean_mask(losses, mask))
        optimizer.apply_gradients(
            zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables)
        )
        return loss

    with contextlib.ExitStack() as stack:
        address = options.address
        if not address:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            with open(os.devnull, "wb") as log:
                address = stack.enter_context(LocalServer(data_dir=folder, log=log)).address
        with Client(address) as client:
            for part, table in molecules.read(options.graphs, options.most).items():
                name = f"molhiv-tfgnn/{part}"
                # As it is: no GraphTensor of a single graph is ever made.
                client.datasets.create(name, table.schema)
                client.datasets.append(name, [table])
                schema = client.datasets.seal(name).schema
        spec = packhouse.tfgnn.graph_tensor_spec(schema, LIMITS)
        common: dict[str, Any] = {"limits": LIMITS, "padding": Padding.GRAPH}
        valid = Evaluation(address, dataset="molhiv-tfgnn/valid", **common)
        loader = stack.enter_context(
            Loader(
                address,
                dataset="molhiv-tfgnn/train",
                job="tfgnn",
                on_existing="restart",
                **common,
            )
        )
        batches = packhouse.tfgnn.to_dataset(lambda: loader, spec, with_mask=True)
        # keras makes variables at the first call, for which a step would be traced once more.
        net(packhouse.tfgnn.to_graph_tensor(next(iter(valid))))
        optimizer.build(net.trainable_variables)
        for epoch in range(options.epochs):
            if epoch:
                loader.set_epoch(epoch)
            clock, num_graphs = molecules.Clock(), 0
            for graph, mask in clock.over(batches):
                step(graph, mask)
                num_graphs += int(tf.reduce_sum(tf.cast(mask, tf.int32)))
            labels, scores = [], []
            for graph, mask in packhouse.tfgnn.to_dataset(lambda: valid, spec, with_mask=True):
                labels.append(graph.context["y"].numpy()[mask])
                scores.append(net(graph).numpy()[mask])
            auc = molecules.roc_auc(np.concatenate(labels), np.concatenate(scores))
            print(
                f"epoch {epoch + 1}: {num_graphs:,} graphs, valid ROC-AUC {auc:.4f}, waiting "
                f"{clock.waiting:.1f} s, training {clock.training:.1f} s, traced {num_traces} "
                "times",
                flush=True,
            )


if __name__ == "__main__":
    main()

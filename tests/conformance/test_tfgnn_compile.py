"""tf.function on batches of k shapes: k traces, and losses are those of plain batches."""

from __future__ import annotations

import os
import pathlib
from typing import Any, Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_gnn as tfgnn
from compiled_sets import CASES, SHAPES, graphs_of
from test_tfgnn import tensor_of

import packhouse.tfgnn
from packhouse import Client, Loader, LocalServer

_EPOCHS = 2


class Net(tf.Module):
    """A softmax over the edges of a node, moments over real nodes, means over graphs."""

    def __init__(self, features: int, channels: int = 8) -> None:
        super().__init__()
        random = np.random.default_rng(0)
        self.inward = tf.Variable(random.normal(size=(features, channels)).astype(np.float32))
        self.outward = tf.Variable(random.normal(size=(channels, 1)).astype(np.float32))

    def loss_of(self, graph: Any, graph_mask: Any, node_mask: Any) -> Any:
        x = graph.node_sets["nodes"]["x"] @ self.inward
        sent = tfgnn.broadcast_node_to_edges(graph, "edges", tfgnn.SOURCE, feature_value=x)
        here = tfgnn.broadcast_node_to_edges(graph, "edges", tfgnn.TARGET, feature_value=x)
        scores = tf.reduce_sum(sent * here, 1)
        shares = tfgnn.softmax(graph, tfgnn.TARGET, edge_set_name="edges", feature_value=scores)
        x += tfgnn.pool_edges_to_node(
            graph, "edges", tfgnn.TARGET, "sum", feature_value=shares[:, None] * sent
        )
        real = tf.cast(node_mask, tf.float32)[:, None]
        count = tf.maximum(tf.reduce_sum(real), 1.0)
        mean = tf.reduce_sum(x * real, 0) / count
        variance = tf.reduce_sum(tf.square(x - mean) * real, 0) / count
        x = tf.nn.relu((x - mean) * tf.math.rsqrt(variance + 1e-5))
        pooled = tfgnn.pool_nodes_to_context(graph, "nodes", "mean", feature_value=x)
        logits = tf.squeeze(pooled @ self.outward, -1)
        labels = tf.reshape(graph.context["y"], [-1])
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
        weights = tf.cast(graph_mask, tf.float32)
        return tf.reduce_sum(losses * weights) / tf.maximum(tf.reduce_sum(weights), 1.0)

    def step(self, graph: Any, graph_mask: Any, node_mask: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = self.loss_of(graph, graph_mask, node_mask)
        for variable, slope in zip(
            self.trainable_variables, tape.gradient(loss, self.trainable_variables)
        ):
            variable.assign_sub(0.05 * slope)
        return loss


@pytest.mark.parametrize("name, num_shapes", CASES)
def test_each_shape_is_traced_once_and_losses_are_those_of_plain_batches(
    server: LocalServer,
    client: Client,
    shared_data: Callable[[str], pathlib.Path],
    name: str,
    num_shapes: int,
) -> None:
    graphs = graphs_of(name, shared_data)
    packhouse.tfgnn.ingest(client, f"traced-{name}", [tensor_of(graph) for graph in graphs])
    features = graphs[0].nodes["x"].shape[1]
    traced, plain = Net(features), Net(features)
    step = tf.function(traced.step)
    used: set[int] = set()
    # One shape more takes the largest graph: TF-GNN's layout keeps a node free as well.
    settings: dict[str, Any] = {"shapes": SHAPES[name][:num_shapes], "padding": "tfgnn", "seed": 3}
    with Loader(
        server.address, dataset=f"traced-{name}", job=f"trace-{name}-{num_shapes}", **settings
    ) as loader:
        for epoch in range(_EPOCHS):
            loader.set_epoch(epoch)
            for batch in loader:
                used.add(batch.shape)
                graph = packhouse.tfgnn.to_graph_tensor(batch)
                masks = packhouse.tfgnn.mask(batch), packhouse.tfgnn.node_mask(batch, "nodes")
                loss = step(graph, *map(tf.constant, masks))
                bare = packhouse.tfgnn.to_graph_tensor(batch, padding=False)
                real = [np.ones(mask.sum(), bool) for mask in masks]
                np.testing.assert_allclose(loss, plain.step(bare, *real), rtol=1e-3)
                # Also none between: a shape is traced when it first comes.
                assert step.experimental_get_tracing_count() == len(used)
    assert len(used) == num_shapes

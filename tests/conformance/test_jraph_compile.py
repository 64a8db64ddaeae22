"""jax.jit on batches of k shapes: k compilations, and losses are those of plain batches."""

from __future__ import annotations

import pathlib
from typing import Any, Callable

import jax
import jax.numpy as jnp
import jraph
import numpy as np
import pytest
from compiled_sets import CASES, SHAPES, graphs_of

import packhouse.jraph
from packhouse import Client, Loader, LocalServer

_EPOCHS = 2


def tuples(name: str, find: Callable[[str], pathlib.Path]) -> list[jraph.GraphsTuple]:
    made = []
    for graph in graphs_of(name, find):
        senders, receivers = graph.edge_index.astype(np.int32)
        made.append(
            jraph.GraphsTuple(
                nodes=graph.nodes["x"],
                edges=None,
                globals=graph.whole["y"],
                senders=senders,
                receivers=receivers,
                n_node=np.array([graph.num_nodes], np.int32),
                n_edge=np.array([len(senders)], np.int32),
            )
        )
    return made


def loss_of(weights: Any, graph: jraph.GraphsTuple, masks: packhouse.jraph.Masks) -> Any:
    """With a softmax over the edges of a node, moments over nodes, means over graphs."""
    x = graph.nodes @ weights["in"]
    scores = (x[graph.senders] * x[graph.receivers]).sum(1)
    shares = jraph.segment_softmax(scores, graph.receivers, len(x))
    x = x + jraph.segment_sum(shares[:, None] * x[graph.senders], graph.receivers, len(x))
    mean, variance = packhouse.jraph.masked_mean_and_variance(x, masks.nodes)
    x = jax.nn.relu((x - mean) * jax.lax.rsqrt(variance + 1e-5))
    owner = jnp.repeat(jnp.arange(len(graph.n_node)), graph.n_node, total_repeat_length=len(x))
    logits = jraph.segment_mean(x, owner, len(graph.n_node)) @ weights["out"]
    losses = jnp.logaddexp(0, logits) - graph.globals * logits
    return jnp.where(masks.graphs, losses, 0).sum() / jnp.maximum(masks.graphs.sum(), 1)


@jax.jit
def follow(weights: Any, gradients: Any) -> Any:
    return jax.tree_util.tree_map(lambda w, g: w - 0.05 * g, weights, gradients)


@pytest.mark.parametrize("name, num_shapes", CASES)
def test_each_shape_is_compiled_once_and_losses_are_those_of_plain_batches(
    server: LocalServer,
    client: Client,
    shared_data: Callable[[str], pathlib.Path],
    name: str,
    num_shapes: int,
) -> None:
    graphs = tuples(name, shared_data)
    packhouse.jraph.ingest(client, f"jitted-{name}", graphs)
    keys = jax.random.split(jax.random.PRNGKey(0))
    features = graphs[0].nodes.shape[1]
    weights = {
        "in": jax.random.normal(keys[0], (features, 8)),
        "out": jax.random.normal(keys[1], (8,)),
    }
    traces = 0

    def counted(weights: Any, graph: jraph.GraphsTuple, masks: packhouse.jraph.Masks) -> Any:
        nonlocal traces
        traces += 1
        return jax.value_and_grad(loss_of)(weights, graph, masks)

    step = jax.jit(counted)
    used: set[int] = set()
    settings: dict[str, Any] = {"shapes": SHAPES[name][:num_shapes], "padding": "graph", "seed": 3}
    compared = 0
    with Loader(
        server.address, dataset=f"jitted-{name}", job=f"jit-{name}-{num_shapes}", **settings
    ) as loader:
        for epoch in range(_EPOCHS):
            loader.set_epoch(epoch)
            for batch in loader:
                is_new = batch.shape not in used
                used.add(batch.shape)
                masks = packhouse.jraph.masks(batch)
                loss, gradients = step(weights, packhouse.jraph.to_graphs_tuple(batch), masks)
                # Also none between: a shape is compiled when it first comes.
                assert step._cache_size() == traces == len(used)
                if is_new:
                    # Without jit each operation is compiled for each plain shape: some batches do.
                    plain = packhouse.jraph.to_graphs_tuple(batch, padding=False)
                    real = packhouse.jraph.Masks(
                        nodes=masks.nodes[: len(plain.nodes)],
                        edges=masks.edges[: len(plain.senders)],
                        graphs=masks.graphs[: len(plain.n_node)],
                    )
                    expected, slopes = jax.value_and_grad(loss_of)(weights, plain, real)
                    np.testing.assert_allclose(loss, expected, rtol=1e-3)
                    for key, slope in slopes.items():
                        np.testing.assert_allclose(gradients[key], slope, rtol=1e-2, atol=1e-4)
                    compared += 1
                weights = follow(weights, gradients)
    assert len(used) == compared == num_shapes


def test_plain_batches_are_compiled_again_and_again(
    server: LocalServer, client: Client, shared_data: Callable[[str], pathlib.Path]
) -> None:
    """What the other test would find if shapes were not fixed."""
    packhouse.jraph.ingest(client, "jitted-seeded", tuples("seeded", shared_data))
    step = jax.jit(lambda graph: graph.nodes.sum())
    limits = SHAPES["seeded"][0]
    with Loader(server.address, dataset="jitted-seeded", job="jit-plain", limits=limits) as loader:
        for batch, _ in zip(loader, range(3)):
            step(packhouse.jraph.to_graphs_tuple(batch))
    assert step._cache_size() > 1

"""Trains a small GNN on ogbg-molhiv with jraph, and counts how often it is compiled.

    train_jraph.py molhiv.npz [--epochs 5] [--most 2000]

The same function is jitted three times: for batches of packhouse, for jraph's dynamically_batch
with the same limits, and for batches of a fixed number of graphs padded to powers of two. Each new
shape is compiled. A server is started for the run; --address names one that runs already (with
--data-dir).
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import pathlib
import tempfile
import time
from typing import Any, Callable, Iterator

import jax
import jax.numpy as jnp
import jraph
import molecules
import numpy as np

import packhouse.jraph
from packhouse import Client, Evaluation, GraphTable, Loader, LocalServer, Padding

LIMITS = {"nodes": 3328, "edges": 7168, "graphs": 160}


def graphs_tuples(table: GraphTable) -> list[jraph.GraphsTuple]:
    """The graphs as a jraph user has them."""
    made = []
    for number in range(len(table)):
        graph = table.graph(number)
        made.append(
            jraph.GraphsTuple(
                nodes=graph["x"].astype(np.int32),
                edges=None,
                globals=graph["y"].astype(np.float32),
                senders=graph["senders"],
                receivers=graph["receivers"],
                n_node=np.array([len(graph["x"])], np.int32),
                n_edge=np.array([len(graph["senders"])], np.int32),
            )
        )
    return made


def parameters(channels: int, layers: int = 3) -> dict[str, Any]:
    keys = jax.random.split(jax.random.PRNGKey(0), len(molecules.NODE_VALUES) + layers + 1)
    scale = 1 / np.sqrt(channels)
    return {
        "embed": [
            scale * jax.random.normal(key, (values, channels))
            for key, values in zip(keys, molecules.NODE_VALUES)
        ],
        "layers": [scale * jax.random.normal(key, (channels, channels)) for key in keys[-layers:]],
        "head": jnp.zeros(channels),
    }


def logits_of(weights: dict[str, Any], graph: jraph.GraphsTuple) -> Any:
    """[graphs]: sums of neighbours, the moments of real nodes alone, the mean over each graph."""
    real = jraph.get_node_padding_mask(graph)
    x = sum(embed[graph.nodes[:, column]] for column, embed in enumerate(weights["embed"]))
    for layer in weights["layers"]:
        sums = x + jraph.segment_sum(x[graph.senders], graph.receivers, len(x))
        sums = sums @ layer
        mean, variance = packhouse.jraph.masked_mean_and_variance(sums, real)
        x = jax.nn.relu((sums - mean) * jax.lax.rsqrt(variance + 1e-5))
    owner = jnp.repeat(
        jnp.arange(len(graph.n_node)), graph.n_node, total_repeat_length=len(graph.nodes)
    )
    means = jraph.segment_mean(x, owner, len(graph.n_node))
    return means @ weights["head"]


def make_step() -> tuple[Callable[..., Any], list[int]]:
    """A jitted step of gradient descent, and a list with how often it was traced."""
    traces = [0]

    def loss_of(weights: Any, graph: jraph.GraphsTuple) -> Any:
        real = jraph.get_graph_padding_mask(graph)
        logits, labels = logits_of(weights, graph), graph.globals
        losses = jnp.logaddexp(0, logits) - labels * logits
        return jnp.where(real, losses, 0).sum() / jnp.maximum(real.sum(), 1)

    @jax.jit
    def step(weights: Any, graph: jraph.GraphsTuple) -> Any:
        traces[0] += 1
        gradients = jax.grad(loss_of)(weights, graph)
        return jax.tree_util.tree_map(lambda w, g: w - 0.1 * g, weights, gradients)

    return step, traces


def power_of_two(graph: jraph.GraphsTuple) -> jraph.GraphsTuple:
    """As jraph's own example pads."""

    def above(rows: Any) -> int:
        return 1 << int(rows).bit_length()

    nodes, edges = int(graph.n_node.sum()), int(graph.n_edge.sum())
    return jraph.pad_with_graphs(graph, above(nodes) + 1, above(edges), len(graph.n_node) + 1)


def dynamic(graphs: list[Any], epoch: int) -> Iterator[jraph.GraphsTuple]:
    order = np.random.default_rng(epoch).permutation(len(graphs))
    yield from jraph.dynamically_batch(
        (graphs[number] for number in order), LIMITS["nodes"], LIMITS["edges"], LIMITS["graphs"]
    )


def fixed_number(graphs: list[Any], epoch: int, size: int = 128) -> Iterator[jraph.GraphsTuple]:
    order = np.random.default_rng(epoch).permutation(len(graphs))
    for start in range(0, len(order), size):
        yield power_of_two(jraph.batch_np([graphs[k] for k in order[start : start + size]]))


def loaded(loader: Loader, epoch: int) -> Iterator[jraph.GraphsTuple]:
    if epoch != loader.epoch:
        loader.set_epoch(epoch)
    return map(packhouse.jraph.to_graphs_tuple, loader)


def train(
    name: str, batches: Callable[[int], Iterator[Any]], valid: Any, options: argparse.Namespace
) -> None:
    weights = parameters(options.channels)
    step, traces = make_step()
    clock, start = molecules.Clock(), time.perf_counter()
    num_graphs = rows = real_rows = 0
    for epoch in range(options.epochs):
        for graph in clock.over(batches(epoch)):
            weights = step(weights, graph)
            jax.block_until_ready(weights)
            real = len(graph.n_node) - int(jraph.get_number_of_padding_with_graphs_graphs(graph))
            num_graphs += real
            rows += len(graph.nodes)
            real_rows += int(graph.n_node[:real].sum())
    seconds = time.perf_counter() - start
    labels: list[Any] = []
    scores: list[Any] = []
    for batch in valid:
        graph = packhouse.jraph.to_graphs_tuple(batch)
        labels.append(graph.globals[: len(batch)])
        scores.append(logits_of(weights, graph)[: len(batch)])
    auc = molecules.roc_auc(np.concatenate(labels), np.concatenate(scores))
    print(
        f"{name}: compiled {traces[0]} times; {num_graphs:,} graphs in {seconds:.1f} s, waiting "
        f"{clock.waiting:.1f} s; {rows - real_rows:,} of {rows:,} node rows were padding; valid "
        f"ROC-AUC {auc:.4f}",
        flush=True,
    )


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
    parts = {
        part: graphs_tuples(table)
        for part, table in molecules.read(options.graphs, options.most).items()
    }
    with contextlib.ExitStack() as stack:
        address = options.address
        if not address:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            with open(os.devnull, "wb") as log:
                address = stack.enter_context(LocalServer(data_dir=folder, log=log)).address
        with Client(address) as client:
            for part in ("train", "valid"):
                packhouse.jraph.ingest(client, f"molhiv-jraph/{part}", parts[part])
        common: dict[str, Any] = {"limits": LIMITS, "padding": Padding.GRAPH}
        valid = Evaluation(address, dataset="molhiv-jraph/valid", **common)
        loader = stack.enter_context(
            Loader(address, dataset="molhiv-jraph/train", job="jraph", on_existing="restart", **common)
        )
        train("packhouse", functools.partial(loaded, loader), valid, options)
        train("dynamically_batch", functools.partial(dynamic, parts["train"]), valid, options)
        train("powers of two", functools.partial(fixed_number, parts["train"]), valid, options)


if __name__ == "__main__":
    main()

"""torch.compile on batches of k shapes: k compilations, and what is learnt is as on plain batches."""

from __future__ import annotations

import pathlib
from typing import Any, Callable, Iterator

import pytest
import torch
import torch._dynamo
from compiled_sets import CASES, SHAPES, graphs_of
from torch.nn.functional import binary_cross_entropy_with_logits
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, GINConv, global_mean_pool

import packhouse.pyg
from packhouse import Client, Loader, LocalServer

_EPOCHS = 2


@pytest.fixture(autouse=True)
def _own_counters() -> Iterator[None]:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    # Steps of a millisecond: threads would only wait for each other.
    torch.set_num_threads(1)
    yield
    torch._dynamo.reset()


class Net(torch.nn.Module):
    """All that padding could touch: BatchNorm, a softmax over edges, sums of messages, a pooling."""

    def __init__(self, features: int, channels: int = 8) -> None:
        super().__init__()
        self.gat = GATConv(features, channels, add_self_loops=False)
        self.gin = GINConv(torch.nn.Linear(channels, channels))
        self.norms = torch.nn.ModuleList(packhouse.pyg.MaskedBatchNorm(channels) for _ in range(2))
        self.head = torch.nn.Linear(channels, 1)

    def forward(self, x: Any, edge_index: Any, batch: Any, node_mask: Any, num_graphs: int) -> Any:
        x = self.norms[0](self.gat(x, edge_index), node_mask).relu()
        x = self.norms[1](self.gin(x, edge_index), node_mask).relu()
        return self.head(global_mean_pool(x, batch, num_graphs)).squeeze(-1)


class Training:
    """A model, its optimizer, and the loss of a step; the same initial weights each time."""

    def __init__(self, features: int, backend: str = "") -> None:
        torch.manual_seed(0)
        self._model = Net(features)
        self._optimizer = torch.optim.SGD(self._model.parameters(), 0.05)
        self._loss_of = self._loss
        if backend:
            self._loss_of = torch.compile(self._loss, backend=backend, dynamic=False)

    def _loss(
        self, x: Any, edge_index: Any, batch: Any, y: Any, node_mask: Any, graph_mask: Any
    ) -> Any:
        logits = self._model(x, edge_index, batch, node_mask, y.shape[0])
        losses = binary_cross_entropy_with_logits(logits, y, reduction="none")
        if graph_mask is None:
            return losses.mean()
        return packhouse.pyg.masked_mean(losses, graph_mask)

    def step(self, data: Any) -> float:
        self._optimizer.zero_grad()
        masks = data.get("node_mask"), data.get("graph_mask")
        loss = self._loss_of(data.x, data.edge_index, data.batch, data.y, *masks)
        loss.backward()
        self._optimizer.step()
        return float(loss)


def stored(client: Client, name: str, find: Callable[[str], pathlib.Path]) -> int:
    """The number of features of a node."""
    graphs = graphs_of(name, find)
    data = [
        Data(
            x=torch.from_numpy(graph.nodes["x"]),
            edge_index=torch.from_numpy(graph.edge_index),
            y=torch.from_numpy(graph.whole["y"]),
        )
        for graph in graphs
    ]
    packhouse.pyg.ingest(client, f"compiled-{name}", data)
    return int(data[0].x.shape[1])


def num_compiled() -> int:
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


@pytest.mark.parametrize("name, num_shapes", CASES)
def test_each_shape_is_compiled_once_and_losses_are_those_of_plain_batches(
    server: LocalServer,
    client: Client,
    shared_data: Callable[[str], pathlib.Path],
    name: str,
    num_shapes: int,
) -> None:
    features = stored(client, name, shared_data)
    # Both compile and differentiate; inductor would add half a minute of a C++ compiler.
    compiled, plain = Training(features, "aot_eager"), Training(features)
    shapes = SHAPES[name][:num_shapes]
    used: set[int] = set()
    settings: dict[str, Any] = {"shapes": shapes, "padding": "graph", "seed": 3}
    with Loader(
        server.address, dataset=f"compiled-{name}", job=f"compile-{name}-{num_shapes}", **settings
    ) as loader:
        for epoch in range(_EPOCHS):
            loader.set_epoch(epoch)
            for batch in loader:
                used.add(batch.shape)
                loss = compiled.step(packhouse.pyg.to_batch(batch, padding=True))
                expected = plain.step(packhouse.pyg.to_batch(batch))
                assert loss == pytest.approx(expected, rel=1e-3, abs=1e-4)
                # Also none between: a shape is compiled when it first comes.
                assert num_compiled() == len(used)
    assert num_compiled() == num_shapes
    assert not torch._dynamo.utils.counters["graph_break"]


def test_plain_batches_are_compiled_again_and_again(
    server: LocalServer, client: Client, shared_data: Callable[[str], pathlib.Path]
) -> None:
    """What the other test would find if shapes were not fixed."""
    features = stored(client, "seeded", shared_data)
    training = Training(features, "eager")
    limits = SHAPES["seeded"][0]
    with Loader(
        server.address, dataset="compiled-seeded", job="compile-plain", limits=limits
    ) as loader:
        for batch, _ in zip(loader, range(4)):
            training.step(packhouse.pyg.to_batch(batch))
    assert num_compiled() > 1

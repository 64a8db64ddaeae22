"""Who takes the batches of the sampling demo: a network of PyG or torch, or checks in numpy."""

from __future__ import annotations

import importlib.util
import os
from typing import Any, Final, Mapping, Protocol

import numpy as np
import numpy.typing as npt

import packhouse.pyg
from packhouse.loaded_batch import LoadedBatch

# Mean seeds in a batch.
SEEDS: Final = 64
_CLASSES: Final = 349
_CHANNELS: Final = 32
_LAYERS: Final = 2
_WITHOUT_FEATURES: Final = ("author", "field_of_study", "institution")
# OGB's split: papers to this year are trained on.
_LAST_YEAR: Final = 2017
# Edge sets as (name, source, target). Sampling walks to targets, so messages walk back to sources.
_EDGES: Final = (
    ("has_topic", "paper", "field_of_study"),
    ("affiliated_with", "author", "institution"),
    ("writes", "author", "paper"),
    ("written", "paper", "author"),
    ("cites", "paper", "paper"),
)


class Trainer(Protocol):
    """`faults` says in words what was wrong with batches."""

    name: str
    verb: str
    faults: list[str]

    def take(self, batch: LoadedBatch) -> None:
        """One step."""

    def words(self) -> str:
        """How it goes."""


def make_trainer(kind: str) -> Trainer:
    """Of `pyg`, `torch`, `numpy`; `auto` is the first of them that can be imported.

    Raises ValueError if what was asked for cannot.
    """
    has_torch = importlib.util.find_spec("torch") is not None
    has_pyg = has_torch and importlib.util.find_spec("torch_geometric") is not None
    if kind == "pyg" and not has_pyg:
        raise ValueError("there is no torch_geometric: --trainer auto takes what there is")
    if kind == "torch" and not has_torch:
        raise ValueError("there is no torch: --trainer numpy does without")
    if kind == "numpy" or not has_torch:
        return NumpyTrainer()
    return PygTrainer() if kind == "pyg" or (kind == "auto" and has_pyg) else TorchTrainer()


def seed_rows(batch: LoadedBatch) -> npt.NDArray[np.int64]:
    """The row of each real sub-graph's seed among the batch's papers: its first paper."""
    papers = batch.sizes[:, batch.schema.components.index("paper")].astype(np.int64)
    starts: npt.NDArray[np.int64] = np.cumsum(papers) - papers
    return starts


class NumpyTrainer:
    """Trains nothing: looks whether batches are what a network may rely on."""

    name = "checks in numpy"
    verb = "checked"

    def __init__(self) -> None:
        self.faults: list[str] = []
        self._edges = 0

    def take(self, batch: LoadedBatch) -> None:
        """Ends of edges lie in the same sub-graph; seeds are papers with a label."""
        graph_of = {
            name: np.repeat(np.arange(len(batch)), batch.sizes[:, column])
            for column, name in enumerate(batch.schema.components)
        }
        for name, source, target in _EDGES:
            real = batch.real_rows[name]
            self._edges += real
            sources, targets = (batch[f"{name}.{end}"] for end in ("source", "target"))
            for ends, component in ((sources, source), (targets, target)):
                if not np.array_equal(graph_of[component][ends[:real]], graph_of[name]):
                    self.faults.append(f"batch {batch.number}: {name} leaves its sub-graph")
                if np.any(ends[real:] < batch.real_rows[component]):
                    self.faults.append(f"batch {batch.number}: padding of {name} ends at a node")
        labels = batch["paper.labels"][seed_rows(batch)]
        if labels.shape != (len(batch), 1) or np.any((labels < 0) | (labels >= _CLASSES)):
            self.faults.append(f"batch {batch.number}: labels {labels.ravel()[:5]}")

    def words(self) -> str:
        """Edges so far."""
        return f"{self._edges:,} edges checked"


class TorchTrainer:
    """Two layers over all edge sets, mean messages; learns the venue of papers up to 2017.

    Papers of later years are predicted only: they tell how good it is.
    """

    name = "a heterogeneous network in torch"
    verb = "trained"

    def __init__(self) -> None:
        import torch

        torch.manual_seed(0)
        # The other cores are the server's.
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // 2))
        self.faults: list[str] = []
        self._torch = torch
        self._model = torch.nn.ModuleDict(
            {
                "paper": torch.nn.Linear(128, _CHANNELS),
                **{name: torch.nn.Embedding(1, _CHANNELS) for name in _WITHOUT_FEATURES},
                **{f"layer {layer}": self._make_layer() for layer in range(_LAYERS)},
                "head": torch.nn.Linear(_CHANNELS, _CLASSES),
            }
        )
        self._optimizer = torch.optim.Adam(self._model.parameters(), lr=3e-3)
        self._losses: list[float] = []
        self._right: list[int] = []
        self._held_out: list[int] = []

    def take(self, batch: LoadedBatch) -> None:
        """A step of Adam on the seeds up to 2017."""
        torch = self._torch
        rows = torch.from_numpy(seed_rows(batch))
        labels = torch.from_numpy(batch["paper.labels"])[rows, 0]
        is_trained = torch.from_numpy(batch["paper.year"])[rows, 0] <= _LAST_YEAR
        logits = self._logits(batch, rows)
        right = (logits.argmax(dim=1) == labels)[~is_trained]
        self._right.append(int(right.sum()))
        self._held_out.append(len(right))
        if not bool(is_trained.any()):
            return
        loss = torch.nn.functional.cross_entropy(logits[is_trained], labels[is_trained])
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
        self._losses.append(float(loss.detach()))
        if not np.isfinite(self._losses[-1]):
            self.faults.append(f"batch {batch.number}: the loss is {self._losses[-1]}")

    def words(self) -> str:
        """Loss and accuracy of the last tenth of the steps."""
        last = max(1, len(self._losses) // 10)
        loss = np.mean(self._losses[-last:]) if self._losses else float("nan")
        first = np.mean(self._losses[:last]) if self._losses else float("nan")
        seen = max(1, sum(self._held_out[-last:]))
        share = sum(self._right[-last:]) / seen
        return f"loss {first:.2f} at first, {loss:.2f} now, {share:.1%} of later papers right"

    def _make_layer(self) -> Any:
        linear = self._torch.nn.Linear
        return self._torch.nn.ModuleDict(
            {name: linear(_CHANNELS, _CHANNELS) for name, _, _ in _EDGES}
        )

    def _logits(self, batch: LoadedBatch, rows: Any) -> Any:
        torch, model = self._torch, self._model
        # Padding rows have no edge to real ones: they take no part in what seeds see.
        state = self._embed(torch.from_numpy(batch["paper.feat"]), batch.rows)
        ends = {
            name: [torch.from_numpy(batch[f"{name}.{end}"]).long() for end in ("source", "target")]
            for name, _, _ in _EDGES
        }
        for layer in range(_LAYERS):
            heard = {name: [values] for name, values in state.items()}
            for name, source, target in _EDGES:
                sources, targets = ends[name]
                messages = model[f"layer {layer}"][name](state[target])[targets]
                total = torch.zeros_like(state[source]).index_add(0, sources, messages)
                counts = torch.zeros(len(total)).index_add(0, sources, torch.ones(len(sources)))
                heard[source].append(total / counts.clamp(min=1)[:, None])
            state = {name: sum(values).relu() for name, values in heard.items()}
        return model["head"](state["paper"][rows])

    def _embed(self, features: Any, num_rows: Mapping[str, int]) -> dict[str, Any]:
        state = {"paper": self._model["paper"](features).relu()}
        for name in _WITHOUT_FEATURES:
            state[name] = self._model[name].weight.expand(num_rows[name], -1)
        return state


class PygTrainer(TorchTrainer):
    """The same with PyG's layers, on batches as its loaders give them."""

    name = "a heterogeneous network in PyG"

    def _make_layer(self) -> Any:
        from torch_geometric.nn import HeteroConv, SAGEConv

        return HeteroConv(
            {
                (target, name, source): SAGEConv(_CHANNELS, _CHANNELS)
                for name, source, target in _EDGES
            }
        )

    def _logits(self, batch: LoadedBatch, rows: Any) -> Any:
        data = packhouse.pyg.to_batch(batch)
        state = self._embed(data["paper"].feat, batch.real_rows)
        edges = {
            (target, name, source): data[source, name, target].edge_index.flip(0)
            for name, source, target in _EDGES
        }
        for layer in range(_LAYERS):
            heard = self._model[f"layer {layer}"](state, edges)
            # Nothing is sent to fields and institutions.
            state = {name: heard[name].relu() if name in heard else state[name] for name in state}
        return self._model["head"](state["paper"][rows])

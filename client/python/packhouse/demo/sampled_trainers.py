"""Who takes the batches of the sampling demo: a network of PyG or torch, or checks in numpy."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
from typing import Any, Final, Mapping, Protocol

import numpy as np
import numpy.typing as npt

import packhouse.pyg
from packhouse.epochs.batches import LoadedBatch

# Mean seeds in a batch.
SEEDS: Final = 64
_CLASSES: Final = 349
_CHANNELS: Final = 32
_LAYERS: Final = 2
# Of the first step. It falls with the root of the steps, so that a short epoch learns something and
# a long one settles.
_LEARNING_RATE: Final = 1e-2
_STEPS_OF_FIRST_RATE: Final = 100
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


@dataclasses.dataclass(frozen=True)
class Layer:
    """What one layer computes: new states of `rows`, from the states that the layer before made.

    - `rows`: of each node set, ascending.
    - `own`: where these rows are among those of the layer before.
    - `edges`: of each edge set, the place of the source in `rows`, and that of the target among the
      rows of the layer before.
    """

    rows: dict[str, npt.NDArray[np.int64]]
    own: dict[str, npt.NDArray[np.int64]]
    edges: dict[str, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]


def layers_towards(
    seeds: npt.NDArray[np.int64],
    num_rows: Mapping[str, int],
    edges: Mapping[str, tuple[npt.NDArray[Any], npt.NDArray[Any]]],
    num_layers: int,
) -> tuple[dict[str, npt.NDArray[np.int64]], list[Layer]]:
    """What `num_layers` layers have to compute for the papers `seeds`, and nothing else.

    Returns the rows whose inputs are needed, and the layers, the first one first. Most of a
    sub-graph is needed by the first layer only, so a step takes a fraction of the time that layers
    over all rows would. O(rows + edges).
    """
    wanted = {name: np.zeros(num_rows[name], bool) for name in ("paper", *_WITHOUT_FEATURES)}
    wanted["paper"][seeds] = True
    backwards = []
    for _ in range(num_layers):
        rows = {name: np.flatnonzero(mask) for name, mask in wanted.items()}
        place = {name: np.cumsum(mask) - 1 for name, mask in wanted.items()}
        before = {name: mask.copy() for name, mask in wanted.items()}
        kept = {}
        for name, source, target in _EDGES:
            sources, targets = edges[name]
            of_wanted = wanted[source][sources]
            kept[name] = sources[of_wanted], targets[of_wanted]
            before[target][kept[name][1]] = True
        place_before = {name: np.cumsum(mask) - 1 for name, mask in before.items()}
        backwards.append(
            Layer(
                rows,
                {name: place_before[name][rows[name]] for name in rows},
                {
                    name: (place[source][kept[name][0]], place_before[target][kept[name][1]])
                    for name, source, target in _EDGES
                },
            )
        )
        wanted = before
    inputs = {name: np.flatnonzero(mask) for name, mask in wanted.items()}
    return inputs, backwards[::-1]


class TorchTrainer:
    """Two layers of mean messages; learns the venue of papers up to 2017.

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
                **{
                    f"layer {layer}": torch.nn.ModuleDict(
                        {name: self._convolution() for name, _, _ in _EDGES}
                    )
                    for layer in range(_LAYERS)
                },
                "head": torch.nn.Linear(_CHANNELS, _CLASSES),
                # Features of the seed itself, past the layers.
                "features": torch.nn.Linear(128, _CLASSES, bias=False),
            }
        )
        self._optimizer = torch.optim.Adam(self._model.parameters(), lr=_LEARNING_RATE)
        self._losses: list[float] = []
        self._right: list[int] = []
        self._held_out: list[int] = []

    def take(self, batch: LoadedBatch) -> None:
        """A step of Adam on the seeds up to 2017."""
        torch = self._torch
        seeds = seed_rows(batch)
        rows = torch.from_numpy(seeds)
        labels = torch.from_numpy(batch["paper.labels"])[rows, 0]
        is_trained = torch.from_numpy(batch["paper.year"])[rows, 0] <= _LAST_YEAR
        logits = self._logits(batch, seeds)
        right = (logits.argmax(dim=1) == labels)[~is_trained]
        self._right.append(int(right.sum()))
        self._held_out.append(len(right))
        if not bool(is_trained.any()):
            return
        loss = torch.nn.functional.cross_entropy(logits[is_trained], labels[is_trained])
        decay = (1 + len(self._losses) / _STEPS_OF_FIRST_RATE) ** 0.5
        self._optimizer.param_groups[0]["lr"] = _LEARNING_RATE / decay
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
        self._losses.append(float(loss.detach()))
        if not np.isfinite(self._losses[-1]):
            self.faults.append(f"batch {batch.number}: the loss is {self._losses[-1]}")

    def words(self) -> str:
        """Loss of the first and the last tenth of the steps, and accuracy in the last."""
        last = max(1, len(self._losses) // 10)
        loss = np.mean(self._losses[-last:]) if self._losses else float("nan")
        first = np.mean(self._losses[:last]) if self._losses else float("nan")
        seen = max(1, sum(self._held_out[-last:]))
        share = sum(self._right[-last:]) / seen
        return f"loss {first:.2f} at first, {loss:.2f} now, {share:.1%} of later papers right"

    def _convolution(self) -> Any:
        """A module of (states of targets, states of sources) and edges: rows for the sources."""
        return _mean_convolution()

    def _read(self, batch: LoadedBatch) -> tuple[Any, dict[str, Any]]:
        """Features of papers, and the ends of all edges."""
        ends = {
            name: (batch[f"{name}.source"], batch[f"{name}.target"]) for name, _, _ in _EDGES
        }
        return self._torch.from_numpy(batch["paper.feat"]), ends

    def _logits(self, batch: LoadedBatch, seeds: npt.NDArray[np.int64]) -> Any:
        torch, model = self._torch, self._model
        features, edges = self._read(batch)
        # Padding rows have no edge to real ones: they take no part in what seeds see.
        inputs, layers = layers_towards(seeds, batch.rows, edges, _LAYERS)
        state = {"paper": model["paper"](features[torch.from_numpy(inputs["paper"])]).relu()}
        for name in _WITHOUT_FEATURES:
            state[name] = model[name].weight.expand(len(inputs[name]), -1)
        for number, layer in enumerate(layers):
            heard = {}
            for name, own in layer.own.items():
                heard[name] = state[name][torch.from_numpy(own)]
            summed = dict(heard)
            for name, source, target in _EDGES:
                sources, targets = (torch.from_numpy(ends) for ends in layer.edges[name])
                messages = model[f"layer {number}"][name](
                    (state[target], heard[source]), torch.stack([targets, sources])
                )
                summed[source] = summed[source] + messages
            state = {name: values.relu() for name, values in summed.items()}
        # Both in ascending order of rows.
        return model["head"](state["paper"]) + model["features"](features[torch.from_numpy(seeds)])


def _mean_convolution() -> Any:
    import torch

    class MeanConvolution(torch.nn.Module):  # type: ignore[misc]
        """A linear map of the mean of what a source's targets are."""

        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(_CHANNELS, _CHANNELS)

        def forward(self, states: tuple[Any, Any], edges: Any) -> Any:
            of_targets, of_sources = states
            targets, sources = edges
            total = torch.zeros_like(of_sources).index_add(0, sources, of_targets[targets])
            counts = torch.bincount(sources, minlength=len(total)).clamp(min=1)
            return self.linear(total / counts[:, None])

    return MeanConvolution()


class PygTrainer(TorchTrainer):
    """The same with PyG's layers, on batches as its loaders give them."""

    name = "a heterogeneous network in PyG"

    def _convolution(self) -> Any:
        from torch_geometric.nn import SAGEConv

        return SAGEConv((_CHANNELS, _CHANNELS), _CHANNELS)

    def _read(self, batch: LoadedBatch) -> tuple[Any, dict[str, Any]]:
        data = packhouse.pyg.to_batch(batch)
        ends = {
            name: tuple(data[source, name, target].edge_index.numpy())
            for name, source, target in _EDGES
        }
        return data["paper"].feat, ends

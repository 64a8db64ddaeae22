"""Trains a GIN on ogbg-molhiv, fed by PyG's DataLoader or by packhouse, side by side.

    train_pyg.py molhiv.npz                           both, five epochs each
    train_pyg.py molhiv.npz --feed packhouse --ranks 2
    train_pyg.py molhiv.npz --feed packhouse --stop-after 40 --checkpoint run.pt
    train_pyg.py molhiv.npz --feed packhouse --resume --checkpoint run.pt
    train_pyg.py molhiv.npz --feed packhouse --padded --mode compiled

--mode says how a step runs: eager; compiled by torch.compile, once, as padded batches have one shape;
or as CUDA graphs, one recorded for each shape, which needs a GPU (--device cuda). With --ranks, processes train together by DistributedDataParallel over gloo, on one sealed data set.
A server is started for the run; --address names one that runs already (with --data-dir).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import socket
import tempfile
import time
from typing import Any, Callable, Iterator

import molecules
import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.utils.data.distributed import DistributedSampler
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GINConv, global_mean_pool

import packhouse.pyg
from packhouse import Client, CostBalanced, Evaluation, GraphTable, Loader, LocalServer, Padding

# On average a batch has as many graphs as a batch of PyG; the limits are what a batch may hold.
BATCH_GRAPHS = 128
LIMITS = {"nodes": 3328, "edges": 7168, "graphs": 160}


class Gin(torch.nn.Module):
    """Three layers over the sum of the atoms' embedded features."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.embeddings = torch.nn.ModuleList(
            torch.nn.Embedding(values, channels) for values in molecules.NODE_VALUES
        )
        self.convs = torch.nn.ModuleList(
            GINConv(
                torch.nn.Sequential(
                    torch.nn.Linear(channels, channels),
                    torch.nn.ReLU(),
                    torch.nn.Linear(channels, channels),
                )
            )
            for _ in range(3)
        )
        # It ignores padding rows, which `--padded` batches have.
        self.norms = torch.nn.ModuleList(packhouse.pyg.MaskedBatchNorm(channels) for _ in range(3))
        self.head = torch.nn.Linear(channels, 1)

    def forward(self, x: Any, edge_index: Any, batch: Any, node_mask: Any, graphs: int) -> Any:
        """Takes tensors and a number: a compiler looks at their shapes, and at nothing else."""
        x = sum(embed(x[:, column]) for column, embed in enumerate(self.embeddings))
        for conv, norm in zip(self.convs, self.norms):
            x = norm(conv(x, edge_index), node_mask).relu()
        return self.head(global_mean_pool(x, batch, graphs)).squeeze(-1)


def data_list(table: GraphTable) -> list[Data]:
    """The graphs as a PyG user has them."""
    made = []
    for number in range(len(table)):
        graph = table.graph(number)
        made.append(
            Data(
                x=torch.from_numpy(graph["x"].astype(np.int64)),
                edge_index=torch.from_numpy(
                    np.stack([graph["senders"], graph["receivers"]]).astype(np.int64)
                ),
                y=torch.from_numpy(graph["y"].astype(np.float32)),
            )
        )
    return made


class PygFeed:
    """What such a loop has today."""

    def __init__(self, parts: dict[str, list[Data]], rank: int, ranks: int, seed: int) -> None:
        torch.manual_seed(seed)
        sampler = DistributedSampler(parts["train"], ranks, rank, seed=seed) if ranks > 1 else None
        size = BATCH_GRAPHS // ranks
        self._sampler = sampler
        self._train = DataLoader(parts["train"], size, shuffle=sampler is None, sampler=sampler)
        self._others = {name: DataLoader(parts[name], 512) for name in ("valid", "test")}

    def epoch(self, number: int) -> Iterator[Any]:
        if self._sampler is not None:
            self._sampler.set_epoch(number)
        return iter(self._train)

    def evaluation(self, part: str) -> Iterator[Any]:
        return iter(self._others[part])

    def state(self) -> Any:
        raise SystemExit(
            "a DataLoader cannot say where it is: --checkpoint is for --feed packhouse"
        )

    resume = state


class PackhouseFeed:
    """The five lines: a loader, an evaluation, and each batch as PyG's own."""

    def __init__(self, address: str, rank: int, options: argparse.Namespace) -> None:
        ranks, seed, padded = options.ranks, options.seed, options.padded
        limits = {name: rows // ranks for name, rows in LIMITS.items()}
        padding = Padding.GRAPH if padded else Padding.NONE
        self._padded = padded
        self._loader = Loader(
            address,
            dataset="molhiv/train",
            job=f"train-{seed}-{ranks}-{padded}-{options.unmixed}-{options.cost}",
            seed=seed,
            limits=limits,
            padding=padding,
            mixing=not options.unmixed,
            order=CostBalanced(options.cost) if options.cost else None,
            rank=rank,
            num_ranks=ranks,
            on_existing="restart",
            attempt=f"{os.getppid() if ranks > 1 else os.getpid()}",
        )
        self._others = {
            name: Evaluation(address, dataset=f"molhiv/{name}", limits=limits)
            for name in ("valid", "test")
        }
        self.rows = self.real_rows = 0

    def epoch(self, number: int) -> Iterator[Any]:
        if number != self._loader.epoch:
            self._loader.set_epoch(number)
        for batch in self._loader:
            self.rows += batch.rows["nodes"]
            self.real_rows += batch.real_rows["nodes"]
            yield packhouse.pyg.to_batch(batch, padding=self._padded)

    def evaluation(self, part: str) -> Iterator[Any]:
        return map(packhouse.pyg.to_batch, self._others[part])

    def state(self) -> Any:
        return self._loader.state_dict()

    def resume(self, state: Any) -> None:
        self._loader.load_state_dict(state)


def loss_of(model: Any, data: Any) -> Any:
    """The mean over real graphs; 0 where there is none, and the other ranks wait for this one."""
    node_mask, graph_mask = data.get("node_mask"), data.get("graph_mask")
    return _loss(model, data.x, data.edge_index, data.batch, data.y, node_mask, graph_mask)


def _loss(
    model: Any, x: Any, edge_index: Any, batch: Any, y: Any, node_mask: Any, graph_mask: Any
) -> Any:
    labels = y.float().flatten()
    logits = model(x, edge_index, batch, node_mask, labels.shape[0])
    losses = binary_cross_entropy_with_logits(logits, labels, reduction="none")
    if graph_mask is None:
        return losses.mean()
    return packhouse.pyg.masked_mean(losses, graph_mask)


class EagerStep:
    """A step of the optimizer on one batch; gives its loss, which the next step may overwrite."""

    def __init__(self, model: Any, optimizer: Any, ranks: int) -> None:
        self._model, self._optimizer, self._ranks = model, optimizer, ranks
        self._loss_of: Callable[[Any, Any], Any] = loss_of

    def __call__(self, data: Any) -> Any:
        self._optimizer.zero_grad()
        loss = self._loss_of(self._model, data)
        # The mean of the ranks' gradients is then that of the whole step.
        weight = self._ranks * getattr(data, "loss_weight", 1 / self._ranks)
        (loss * weight).backward()
        self._optimizer.step()
        return loss.detach()


class CompiledStep(EagerStep):
    """The same, with model and loss compiled: once for each shape, forward and backward."""

    def __init__(self, model: Any, optimizer: Any, backend: str) -> None:
        super().__init__(model, optimizer, 1)
        compiled = torch.compile(_loss, dynamic=False, backend=backend)
        self._loss_of = lambda model, data: compiled(
            model, data.x, data.edge_index, data.batch, data.y, data.node_mask, data.graph_mask
        )


class GraphedStep(EagerStep):
    """The same as one CUDA graph for each shape: forward, backward and optimizer in one launch.

    The first batches of a shape are trained on eagerly, as CUDA asks for before it records. The
    optimizer must be `capturable`. Afterwards a batch is copied to where the graph reads.
    """

    _EAGER = 3

    def __init__(self, model: Any, optimizer: Any) -> None:
        super().__init__(model, optimizer, 1)
        self._seen: dict[Any, int] = {}
        self._recorded: dict[Any, tuple[Any, Any, Any]] = {}
        self._stream = torch.cuda.Stream()

    def __call__(self, data: Any) -> Any:
        shape = tuple(data.x.shape), tuple(data.edge_index.shape), tuple(data.y.shape)
        if shape in self._recorded:
            graph, kept, loss = self._recorded[shape]
            for name, value in kept.to_dict().items():
                if torch.is_tensor(value):
                    value.copy_(data[name], non_blocking=True)
            graph.replay()
            return loss
        self._seen[shape] = self._seen.get(shape, 0) + 1
        if self._seen[shape] <= self._EAGER:
            self._stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._stream):
                loss = super().__call__(data)
            torch.cuda.current_stream().wait_stream(self._stream)
            return loss
        graph = torch.cuda.CUDAGraph()
        self._optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            loss = self._loss_of(self._model, data)
            loss.backward()
            self._optimizer.step()
        self._recorded[shape] = graph, data, loss.detach()
        graph.replay()  # Recording has done nothing.
        return loss.detach()


def step_of(model: Any, trained: Any, options: argparse.Namespace) -> tuple[EagerStep, Any]:
    """What --mode names, and its optimizer."""
    graphed = options.mode == "cuda-graphs"
    capturable = {"capturable": True} if graphed else {}
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, **capturable)
    if graphed:
        return GraphedStep(trained, optimizer), optimizer
    if options.mode == "compiled":
        return CompiledStep(trained, optimizer, options.backend), optimizer
    return EagerStep(trained, optimizer, options.ranks), optimizer


def score(model: torch.nn.Module, batches: Iterator[Any], device: str) -> float:
    model.eval()
    labels, scores = [], []
    with torch.no_grad():
        for data in batches:
            labels.append(data.y.flatten().numpy())
            data = data.to(device)
            logits = model(data.x, data.edge_index, data.batch, None, data.num_graphs)
            scores.append(logits.cpu().numpy())
    model.train()
    return molecules.roc_auc(np.concatenate(labels), np.concatenate(scores))


def train(rank: int, feed: Any, name: str, options: argparse.Namespace) -> list[float]:
    """The loop, the same for both feeds. Returns the validation's ROC-AUC an epoch."""
    torch.manual_seed(options.seed)
    model: Any = Gin(options.channels).to(options.device)
    trained = torch.nn.parallel.DistributedDataParallel(model) if options.ranks > 1 else model
    step, optimizer = step_of(model, trained, options)
    start, steps, curve, rates = 0, 0, [], []
    until_score, reached = 0.0, ""
    if options.resume:
        saved = torch.load(options.checkpoint)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        feed.resume(saved["feed"])
        start, steps = saved["epoch"], saved["steps"]
    for epoch in range(start, options.epochs):
        clock, num_graphs, before, begin = molecules.Clock(), 0, steps, time.perf_counter()
        losses = torch.zeros((), device=options.device)
        for data in clock.over(feed.epoch(epoch)):
            count = int(data.graph_mask.sum()) if "graph_mask" in data else data.num_graphs
            num_graphs += count
            on_device = data if options.device == "cpu" else data.to(options.device, non_blocking=True)
            losses += step(on_device) * count
            steps += 1
            if steps == options.stop_after:
                saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                saved.update(feed=feed.state(), epoch=epoch, steps=steps)
                torch.save(saved, options.checkpoint)
                print(f"stopped after {steps} steps: {options.checkpoint}")
                return curve
        if options.device != "cpu":
            torch.cuda.synchronize()
        seconds = time.perf_counter() - begin
        until_score += seconds
        rates.append(((steps - before) / seconds, num_graphs / seconds))
        if rank == 0:
            curve.append(score(model, feed.evaluation("valid"), options.device))
            if not reached and curve[-1] >= options.score:
                reached = f"{until_score:.1f} s"
            loss = float(losses) / max(num_graphs, 1)
            print(
                f"{name} epoch {epoch + 1}: {num_graphs:,} graphs on rank 0, valid ROC-AUC "
                f"{curve[-1]:.4f}, loss {loss:.4f}, waiting {clock.waiting:.1f} s, "
                f"training {clock.training:.1f} s",
                flush=True,
            )
    if rank == 0:
        test = score(model, feed.evaluation("test"), options.device)
        weight = sum(float(part.double().sum()) for part in model.state_dict().values())
        print(f"{name}: test ROC-AUC {test:.4f} after {steps} steps, weights {weight:.9f}")
        if rates:
            # The first epoch compiles or records.
            per_step, per_graph = np.mean(rates[1:] or rates, axis=0)
            print(
                f"{name}: {per_step:.1f} steps/s, {per_graph:,.0f} graphs/s; valid ROC-AUC of "
                f"{options.score} {'after ' + reached if reached else 'not reached'}"
            )
        if hasattr(feed, "rows"):
            padded = feed.rows - feed.real_rows
            print(f"{name}: {padded:,} of {feed.rows:,} node rows were padding")
    return curve


def run_rank(rank: int, name: str, address: str, options: argparse.Namespace) -> list[float]:
    """One process of --ranks, or the only one."""
    if options.ranks > 1:
        torch.set_num_threads(1)
        torch.distributed.init_process_group("gloo", rank=rank, world_size=options.ranks)
    feed: Any
    if name == "pyg":
        parts = molecules.read(options.graphs, options.most)
        lists = {part: data_list(table) for part, table in parts.items()}
        feed = PygFeed(lists, rank, options.ranks, options.seed)
    else:
        feed = PackhouseFeed(address, rank, options)
    curve = train(rank, feed, name, options)
    if options.ranks > 1:
        torch.distributed.destroy_process_group()
    return curve


def run(name: str, address: str, options: argparse.Namespace) -> list[float]:
    if options.ranks == 1:
        return run_rank(0, name, address, options)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    # Spawned, not forked: this process has used gRPC.
    torch.multiprocessing.spawn(run_rank, (name, address, options), options.ranks)
    return []


def store(address: str, options: argparse.Namespace) -> None:
    """Once for all runs: the parts, as PyG has them."""
    with Client(address) as client:
        for part, table in molecules.read(options.graphs, options.most).items():
            packhouse.pyg.ingest(client, f"molhiv/{part}", data_list(table))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("graphs", type=pathlib.Path, help="NAME.npz; NAME_split.npz is beside it")
    parser.add_argument("--feed", choices=["pyg", "packhouse", "both"], default="both")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--padded", action="store_true", help="batches of one shape, with masks")
    parser.add_argument("--unmixed", action="store_true", help="batches as the plan draws them")
    parser.add_argument("--cost", help="steps of like cost, such as edges: with --ranks")
    parser.add_argument("--mode", choices=["eager", "compiled", "cuda-graphs"], default="eager")
    parser.add_argument("--backend", default="inductor", help="of --mode compiled")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--score", type=float, default=0.72, help="ROC-AUC to tell the time of")
    parser.add_argument("--most", type=int, default=0, help="graphs of each part; 0: all")
    parser.add_argument("--address", help="of a server; without, one is started")
    parser.add_argument("--data-dir", help="of the server that is started; to resume, the same")
    parser.add_argument("--checkpoint", type=pathlib.Path, default=pathlib.Path("checkpoint.pt"))
    parser.add_argument("--stop-after", type=int, default=0, help="save a checkpoint and end")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    parser.add_argument("--plot", type=pathlib.Path, help="an SVG of the validation's ROC-AUC")
    options = parser.parse_args()
    if options.mode != "eager":
        if options.feed != "packhouse" or not options.padded or options.ranks > 1:
            parser.error(f"--mode {options.mode} needs --feed packhouse --padded, and one rank")
        if options.mode == "cuda-graphs" and not options.device.startswith("cuda"):
            parser.error("--mode cuda-graphs needs --device cuda")
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        parser.error(f"--device {options.device}: torch finds no GPU here")
    names = ["pyg", "packhouse"] if options.feed == "both" else [options.feed]
    with contextlib.ExitStack() as stack:
        address = options.address or ""
        if "packhouse" in names:
            if not address:
                folder = options.data_dir or stack.enter_context(tempfile.TemporaryDirectory())
                with open(os.devnull, "wb") as log:
                    address = stack.enter_context(LocalServer(data_dir=folder, log=log)).address
            store(address, options)
        curves = {name: run(name, address, options) for name in names}
    if options.plot and all(curves.values()):
        molecules.plot(options.plot, curves, "ROC-AUC (validation)")


if __name__ == "__main__":
    main()

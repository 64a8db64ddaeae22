"""Trains energies and forces of atoms on padded batches, whose edges are made on the device.

    atoms.py                                      200 structures, eight epochs
    atoms.py --ranks 2                            two processes, DistributedDataParallel over gloo
    atoms.py --backend aot_eager                  torch.compile without a C++ compiler

The structures are metals that ASE's EMT computes: periodic cells and clusters. They are stored once,
with their neighbours counted and not kept: limits bound nodes and edges together, so each batch's
own neighbour list fits one padded shape, and the model is compiled once. The model is small: SchNet's
continuous filters for the energy, and forces along the edges, so that they turn with the structure.
The loss is by atoms: a step weighs each atom of all processes alike.
"""

from __future__ import annotations

import argparse
import itertools
import os
import socket
import tempfile
from typing import Any

import ase.build
import numpy as np
import torch
from ase.calculators.emt import EMT

import packhouse.atoms
from packhouse import Client, Loader, LocalServer
from packhouse.torch import to_torch

CUTOFF = 4.5
LIMITS = {"nodes": 192, "edges": 3072, "graphs": 16}
METALS = ("Al", "Ni", "Cu", "Pd", "Ag", "Pt", "Au")
# Cells are at least as wide as the cutoff: the nearest images suffice.
IMAGES = torch.tensor(list(itertools.product((-1, 0, 1), repeat=3)), dtype=torch.float64)


def structures(number: int, seed: int) -> list[ase.Atoms]:
    """Alloys, half of them periodic, with EMT's energies and forces."""
    made = []
    rng = np.random.default_rng(seed)
    for position in range(number):
        atoms = ase.build.bulk("Cu", a=3.9, cubic=True) * (2, 2, 2)
        if position % 2:
            atoms.set_cell(None)
            atoms.pbc = False
            del atoms[rng.permutation(len(atoms))[: rng.integers(8, 24)]]
        atoms.symbols[:] = rng.choice(METALS[position % 5 : position % 5 + 3], len(atoms))
        atoms.rattle(0.1, rng=rng)
        atoms.calc = EMT()
        atoms.get_forces()
        made.append(atoms)
    return made


def neighbours(batch: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The batch's own neighbour list, brought to the rows that its limits give: sources and targets
    [2, edges], vectors [edges, 3] and which of them are real [edges]."""
    real = batch.real_rows["nodes"]
    pos, graph = batch["pos"][:real], batch["nodes/graph"][:real].long()
    target, source = (graph[:, None] == graph).nonzero().T
    is_free = ~batch["pbc"][graph[target]]
    allowed = ~((IMAGES != 0)[None] & is_free[:, None]).any(dim=2)
    shifts = torch.einsum("ka,pab->pkb", IMAGES, batch["cell"][graph[target]])
    vectors = (pos[source] - pos[target])[:, None] + shifts
    is_self = (source == target)[:, None] & (IMAGES == 0).all(dim=1)
    found = (vectors.norm(dim=2) < CUTOFF) & allowed & ~is_self
    pair, image = found.nonzero().T
    edges, rows = len(pair), batch.rows["edges"]
    if edges > batch.real_rows["edges"]:
        raise RuntimeError(f"{edges} edges, {batch.real_rows['edges']} were counted")
    ends = torch.full((2, rows), batch.rows["nodes"] - 1)  # The last node is padding.
    ends[:, :edges] = torch.stack([source[pair], target[pair]])
    padded = torch.ones((rows, 3))
    padded[:edges] = vectors[pair, image].float()
    return ends, padded, torch.arange(rows) < edges


class Potential(torch.nn.Module):
    """Energies of graphs and forces on atoms."""

    def __init__(self, channels: int, layers: int = 2) -> None:
        super().__init__()

        def mlp(inputs: int, outputs: int) -> torch.nn.Module:
            return torch.nn.Sequential(
                torch.nn.Linear(inputs, channels), torch.nn.SiLU(), torch.nn.Linear(channels, outputs)
            )

        self.register_buffer("centres", torch.linspace(0, CUTOFF, 16))
        self.embedding = torch.nn.Embedding(100, channels)
        self.filters = torch.nn.ModuleList(mlp(16, channels) for _ in range(layers))
        self.updates = torch.nn.ModuleList(mlp(channels, channels) for _ in range(layers))
        self.energy = mlp(channels, 1)
        self.force = mlp(channels + 16, 1)

    def forward(
        self, numbers: Any, graph: Any, ends: Any, vectors: Any, is_edge: Any, is_node: Any, out: Any
    ) -> tuple[Any, Any]:
        """`out` has a row for each graph."""
        source, target = ends[0], ends[1]
        length = vectors.norm(dim=1, keepdim=True)
        radial = torch.exp(-4 * (length - self.centres) ** 2)
        # Smooth at the cutoff, and 0 for edges of padding.
        near = 0.5 * (torch.cos(np.pi * length / CUTOFF) + 1) * is_edge[:, None]
        x = self.embedding(numbers)
        for filter_of, update in zip(self.filters, self.updates):
            messages = x[source] * filter_of(radial) * near
            x = x + update(torch.zeros_like(x).index_add(0, target, messages))
        energy = torch.zeros_like(out).index_add(0, graph, self.energy(x)[:, 0] * is_node)
        # The same for both directions of an edge, so that no force is left over.
        strength = self.force(torch.cat([x[source] + x[target], radial], dim=1)) * near
        pull = strength * vectors / length
        return energy, torch.zeros_like(vectors[: len(x)]).index_add(0, target, pull)


def train(rank: int, address: str, options: argparse.Namespace) -> None:
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    if options.ranks > 1:
        torch.distributed.init_process_group("gloo", rank=rank, world_size=options.ranks)
    model: Any = Potential(options.channels)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    if options.ranks > 1:
        model = torch.nn.parallel.DistributedDataParallel(model)
    step: Any = model
    if options.backend != "none":
        # Without DDP's splitting of the graph, which such a small model does not need.
        torch._dynamo.config.optimize_ddp = False
        step = torch.compile(model, dynamic=False, backend=options.backend)
    loader = Loader(
        address,
        dataset="emt",
        job=f"atoms-{options.ranks}",
        limits=LIMITS,
        padding="graph",
        derived="graph_index",
        seed=options.seed,
        rank=rank,
        num_ranks=options.ranks,
    )
    with loader:
        for epoch in range(options.epochs):
            loader.set_epoch(epoch)
            sums = torch.zeros(4, dtype=torch.float64)  # loss, atoms, edges, rows of edges
            for batch in map(to_torch, loader):
                loss, atoms = loss_of(step, batch, options.ranks)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                real, rows = batch.real_rows["edges"], batch.rows["edges"]
                sums += torch.tensor([float(loss) * atoms, atoms, 0, 0]) / options.ranks
                sums += torch.tensor([0, 0, real, rows])
            if options.ranks > 1:
                torch.distributed.all_reduce(sums)
            if rank == 0:
                loss, atoms, real, rows = sums.tolist()
                print(
                    f"epoch {epoch + 1}: {atoms:.0f} atoms, loss {loss / atoms:.5f}, "
                    f"{100 * real / rows:.0f} % of the rows of edges are real",
                    flush=True,
                )
    if options.backend != "none":
        print(f"rank {rank}: compiled {compilations()} times", flush=True)
    if options.ranks > 1:
        torch.distributed.destroy_process_group()


def loss_of(step: Any, batch: Any, ranks: int) -> tuple[Any, float]:
    """The sum over this batch's atoms, by all atoms of the step; and how many these are."""
    is_node, is_graph = batch.mask("nodes"), batch.mask("graphs")
    ends, vectors, is_edge = neighbours(batch)
    graph = batch["nodes/graph"].long()
    wanted = batch["energy"].float()
    numbers = batch["atomic_numbers"].long()
    energy, forces = step(numbers, graph, ends, vectors, is_edge, is_node, torch.zeros_like(wanted))
    counts = torch.zeros_like(wanted).index_add(0, graph, is_node.float()).clamp(min=1)
    # Of a structure by its atoms: an error of its energy weighs as much as it has atoms.
    of_energy = ((energy - wanted) / counts).square() * counts * is_graph
    of_forces = (forces - batch["forces"].float()).square().mean(dim=1) * is_node
    atoms = is_node.sum().float()
    if ranks > 1:
        torch.distributed.all_reduce(atoms)
    # Gradients are averaged over the processes, so that each counts as many times.
    return ranks * (of_energy.sum() + of_forces.sum()) / atoms, float(atoms)


def compilations() -> int:
    """How often torch.compile has made code, by its own counter."""
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--structures", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--channels", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument(
        "--backend",
        default="inductor" if hasattr(torch, "compile") else "none",
        help="of torch.compile; none: eager, as with torch 1.13",
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "wb") as log:
        with LocalServer(data_dir=folder, log=log) as server:
            with Client(server.address) as client:
                made = structures(options.structures, options.seed)
                # Clusters have no stress.
                dataset = packhouse.atoms.ingest(
                    client, "emt", made, cutoff=CUTOFF, exclude=["stress"]
                )
                print(f"{dataset.num_graphs} structures, {dataset.num_bytes:,} bytes")
            if options.ranks == 1:
                train(0, server.address, options)
                return
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
            # Spawned, not forked: this process has used gRPC.
            torch.multiprocessing.spawn(train, (server.address, options), options.ranks)


if __name__ == "__main__":
    main()

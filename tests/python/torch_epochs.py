"""A trainer that reads with torch's DataLoader: a program, as processes that are spawned import it.

    torch_epochs.py recipe ADDRESS DATASET EXPECTED.json fork|spawn|none ranked|dynamic
    torch_epochs.py trainer ADDRESS DATASET JOB WORKER
    torch_epochs.py evaluation|transforms|plain|ahead ADDRESS DATASET
    torch_epochs.py rank ADDRESS DATASET RENDEZVOUS RANK NUM_RANKS

Exits with 1 and all threads' stacks if it hangs.
"""

from __future__ import annotations

import faulthandler
import itertools
import json
import pathlib
import subprocess
import sys
from typing import Any, Iterator

import torch
from torch.utils.data import DataLoader

from packhouse import Evaluation, LoadedBatch, Loader
from packhouse.torch import EpochDataset, TorchBatch, prefetch_to

LIMITS = {"nodes": 128, "edges": 288, "graphs": 12}
PATIENCE = 250.0


def as_tensors(batch: TorchBatch) -> Any:
    """A collate function, which runs in the worker process."""

    made = Converted({"x": batch["x"]})
    made.lease, made.graph_ids = batch.lease, batch.graph_ids.tolist()
    return made


class Converted(dict[str, torch.Tensor]):
    """What a model takes."""

    lease: Any
    graph_ids: list[int]


def ids_of(batch: Any) -> list[int]:
    return [int(name) for name in batch.graph_ids]


def settings(start: str) -> Iterator[dict[str, Any]]:
    if start == "none":
        yield {"num_workers": 0}
        return
    for workers, persistent in itertools.product((1, 2, 4), (False, True)):
        if start == "spawn" and (workers, persistent) not in ((1, False), (4, True)):
            continue  # Each process takes two seconds to import torch.
        yield {
            "num_workers": workers,
            "persistent_workers": persistent,
            "multiprocessing_context": start,
        }


def make_loader(address: str, dataset: str, job: str, mode: str, **arguments: Any) -> Loader:
    sharing = {"worker": "trainer"} if mode == "dynamic" else {}
    return Loader(
        address, dataset=dataset, job=job, limits=LIMITS, seed=7, **sharing, **arguments
    )


def expect(is_so: bool, *what: Any) -> None:
    if not is_so:
        raise AssertionError(what)


def run_recipe(address: str, dataset: str, file: str, start: str, mode: str) -> None:
    """Two epochs of every kind; a state in the midst of the second is gone back to."""
    # Of each epoch the graphs of each batch, by another process: one that forks leaves gRPC alone.
    expected = json.loads(pathlib.Path(file).read_text())
    for number, setting in enumerate(settings(start)):
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        collate = {"collate_fn": as_tensors} if number % 2 else {}
        job = f"{start}-{mode}-{number}"
        # By hand is what the last epoch is read by.
        loader = make_loader(address, dataset, job, mode, acknowledge="manual")
        epochs = EpochDataset(loader)
        data_loader: Any = DataLoader(epochs, batch_size=None, **setting, **collate)
        for epoch in range(2):
            epochs.set_epoch(epoch)
            expect(len(epochs) == len(expected[epoch]), "len", setting)
            received, after_state = [], 0
            for batch in epochs.trained(data_loader):
                received.append(ids_of(batch))
                if epoch == 1 and len(received) == len(expected[1]) // 2:
                    state = epochs.state_dict()
                    after_state = len(received)
            if mode == "ranked":
                expect(received == expected[epoch], "order", setting, epoch)
            # Every graph exactly once.
            graphs = sorted(itertools.chain(*received))
            expect(graphs == sorted(itertools.chain(*expected[epoch])), setting, epoch, len(graphs))
            info = epochs.epoch_info()
            expect(info.num_done == info.num_batches, setting, info)
        epochs.load_state_dict(state, attempt="2")
        again = [ids_of(batch) for batch in epochs.trained(data_loader)]
        expect(
            sorted(again) == sorted(received[after_state:]), "state", setting, len(again), after_state
        )
        # By hand, and without looking ahead.
        epochs.set_epoch(2)
        graphs = []
        for batch in data_loader:
            graphs += ids_of(batch)
            epochs.acknowledge(batch.lease)
        epochs.flush()
        expect(sorted(graphs) == sorted(itertools.chain(*expected[0])), setting, len(graphs))
        print(f"{start} {mode} {setting}: ok", flush=True)
        del data_loader
        faulthandler.cancel_dump_traceback_later()


def run_trainer(address: str, dataset: str, job: str, worker: str) -> None:
    """One of several trainers that share an epoch: tells what it has been acknowledged."""
    faulthandler.dump_traceback_later(PATIENCE, exit=True)
    loader = Loader(
        address, dataset=dataset, job=job, limits=LIMITS, worker=worker, max_in_flight=3
    )
    epochs = EpochDataset(loader)
    data_loader: Any = DataLoader(
        epochs, batch_size=None, num_workers=2, multiprocessing_context="fork"
    )
    epochs.set_epoch(0)
    for batch in epochs.trained(data_loader):
        print(*ids_of(batch), flush=True)
        sys.stdin.readline()


def run_evaluation(address: str, dataset: str) -> None:
    """However many processes read it, a pass has the batches of the evaluation, in its order."""
    # By another process: one that forks leaves gRPC alone.
    reference = [sys.executable, __file__, "parts", address, dataset]
    parts = json.loads(subprocess.run(reference, capture_output=True, check=True).stdout)
    for part in parts:
        evaluation = Evaluation(address, dataset=dataset, limits=LIMITS, seed=7, **part["of"])
        # The parts of all ranks at once, then those of one rank with and without what is left over.
        for workers in (0, 1, 2, 3) if not part["of"] else (3,) if part["of"]["rank"] else ():
            faulthandler.dump_traceback_later(PATIENCE, exit=True)
            epochs = EpochDataset(evaluation)
            data_loader: Any = DataLoader(
                epochs, batch_size=None, num_workers=workers, persistent_workers=workers == 2
            )
            for _ in range(1 + (workers == 2)):
                read = [[batch.step, batch.id, batch.is_padding] for batch in data_loader]
                expect(read == part["batches"], part["of"], workers, read)
            # Trained from: the trainer alone knows where it is.
            state = None
            for number, batch in enumerate(epochs.trained(data_loader)):
                if number == 4:
                    state = epochs.state_dict()
            epochs.load_state_dict(state)
            rest = [[batch.step, batch.id, batch.is_padding] for batch in epochs.trained(data_loader)]
            expect(rest == part["batches"][5:], part["of"], workers, rest)
            epochs.set_epoch(1)
            other = [batch.id for batch in epochs.trained(data_loader)]
            expect(len(other) == len(part["batches"]), part["of"], workers, other)
            faulthandler.cancel_dump_traceback_later()
    print("ok")


def run_parts(address: str, dataset: str) -> None:
    """What an evaluation's parts should be."""
    parts: list[dict[str, Any]] = [{}]
    for drop_last in (False, True):
        parts += [{"rank": rank, "num_ranks": 3, "drop_last": drop_last} for rank in range(3)]
    told = []
    for part in parts:
        evaluation = Evaluation(address, dataset=dataset, limits=LIMITS, seed=7, **part)
        batches = [[batch.step, batch.id, batch.is_padding] for batch in evaluation]
        told.append({"of": part, "batches": batches})
    print(json.dumps(told))


def center(graph: dict[str, Any]) -> None:
    """Of each graph: what it is, is told by its own rows alone."""
    graph["x"] -= graph["x"][:1]
    expect(graph["senders"].max(initial=0) < len(graph["x"]), "senders are the graph's own")


def ids_and_first_rows(batch: LoadedBatch) -> Any:
    firsts = [int(graph["x"][0].sum()) for graph in map(batch.unbatch().graph, range(len(batch)))]
    return batch.graph_ids.tolist(), firsts


def run_transforms(address: str, dataset: str) -> None:
    """Of graphs, then of batches; what comes can carry no lease."""
    for workers in (0, 2):
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        job = f"transforms-{workers}"
        epochs = EpochDataset(
            make_loader(address, dataset, job, "ranked"),
            transform=ids_and_first_rows,
            graph_transform=center,
        )
        data_loader: Any = DataLoader(epochs, batch_size=None, num_workers=workers)
        epochs.set_epoch(0)
        graphs: list[int] = []
        for ids, firsts in epochs.trained(data_loader):
            expect(len(ids) == len(firsts) > 0 and not any(firsts), ids, firsts)
            graphs += ids
        expect(sorted(graphs) == list(range(len(graphs))), "graphs", graphs)
        info = epochs.epoch_info()
        expect(info.num_done == info.num_batches == len(epochs), info)
        faulthandler.cancel_dump_traceback_later()
    print("ok")


def run_plain(address: str, dataset: str) -> None:
    """A plain loop acknowledges where it can, and says so where it cannot."""
    faulthandler.dump_traceback_later(PATIENCE, exit=True)
    epochs = EpochDataset(make_loader(address, dataset, "plain-2", "ranked"))
    epochs.set_epoch(0)
    data_loader: Any = DataLoader(epochs, batch_size=None, num_workers=2)
    try:
        list(data_loader)
    except ValueError as error:
        expect("trained(data_loader)" in str(error), error)
    else:
        raise AssertionError("nothing said that the epoch would stop")
    epochs = EpochDataset(make_loader(address, dataset, "plain-0", "ranked"))
    epochs.set_epoch(0)
    for _ in DataLoader(epochs, batch_size=None):
        pass
    info = epochs.epoch_info()
    expect(info.num_done == info.num_batches, info)
    print("ok")


def run_ahead(address: str, dataset: str) -> None:
    """What is fetched ahead is acknowledged when it has been used."""
    for workers in (0, 2):
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        epochs = EpochDataset(make_loader(address, dataset, f"ahead-{workers}", "ranked"))
        epochs.set_epoch(0)
        data_loader: Any = DataLoader(epochs, batch_size=None, num_workers=workers)
        num_used = 0
        for batch in epochs.trained(prefetch_to(data_loader, "cpu", depth=3)):
            expect(isinstance(batch, TorchBatch), batch)
            if num_used < 5:
                epochs.flush()
                expect(epochs.epoch_info().num_done == num_used, num_used)
            num_used += 1
        info = epochs.epoch_info()
        expect(info.num_done == info.num_batches == num_used, info, num_used)
        faulthandler.cancel_dump_traceback_later()
    print("ok")


def run_rank(address: str, dataset: str, rendezvous: str, rank: str, num_ranks: str) -> None:
    """One of torch.distributed's ranks, which the loader is not told: prints its graphs."""
    faulthandler.dump_traceback_later(PATIENCE, exit=True)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{rendezvous}", rank=int(rank), world_size=int(num_ranks)
    )
    epochs = EpochDataset(make_loader(address, dataset, "ranks", "ranked"))
    epochs.set_epoch(0)
    data_loader: Any = DataLoader(epochs, batch_size=None, num_workers=2)
    batches = [ids_of(batch) for batch in epochs.trained(data_loader)]
    print(json.dumps(batches))


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    commands = {
        "recipe": run_recipe,
        "trainer": run_trainer,
        "evaluation": run_evaluation,
        "parts": run_parts,
        "transforms": run_transforms,
        "plain": run_plain,
        "ahead": run_ahead,
        "rank": run_rank,
    }
    commands[command](*arguments)

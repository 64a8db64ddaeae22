"""A trainer that reads with torch's DataLoader: a program, as processes that are spawned import it.

    torch_epochs.py recipe ADDRESS DATASET fork|spawn|none ranked|dynamic
    torch_epochs.py reference ADDRESS DATASET
    torch_epochs.py trainer ADDRESS DATASET JOB WORKER

Exits with 1 and all threads' stacks if it hangs.
"""

from __future__ import annotations

import faulthandler
import itertools
import json
import subprocess
import sys
from typing import Any, Iterator

import torch
from torch.utils.data import DataLoader

from packhouse import Evaluation, LoadedBatch, Loader
from packhouse.torch import EpochDataset

LIMITS = {"nodes": 128, "edges": 288, "graphs": 12}
PATIENCE = 60.0


def as_tensors(batch: LoadedBatch) -> Any:
    """A collate function, which runs in the worker process."""

    made = Converted({"x": torch.tensor(batch.tensors["x"])})
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
        if start == "spawn" and persistent == (workers == 2):
            continue  # Each process takes a second to start.
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


def run_recipe(address: str, dataset: str, start: str, mode: str) -> None:
    """Two epochs of every kind; a state in the midst of the second is gone back to."""
    # By another process: one that forks leaves gRPC alone.
    reference = [sys.executable, __file__, "reference", address, dataset]
    expected = json.loads(subprocess.run(reference, capture_output=True, check=True).stdout)
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


def run_reference(address: str, dataset: str) -> None:
    """What two epochs should be."""
    epochs = (
        Evaluation(address, dataset=dataset, limits=LIMITS, seed=7, epoch=epoch)
        for epoch in range(2)
    )
    print(json.dumps([[ids_of(batch) for batch in epoch] for epoch in epochs]))


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


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    commands = {"recipe": run_recipe, "reference": run_reference, "trainer": run_trainer}
    commands[command](*arguments)

"""The law by line (interrupting.py) of torch's data loaders: a program, as one that forks must not have
used gRPC.

    interrupted_epochs.py plain|trained|workers|stateful|stateful-workers ADDRESS DATASET PART

`plain`: a loop over a DataLoader; the others: `trained`; `stateful`: over a StatefulDataLoader. One in
PART of the lines is tried. Prints how many; exits with 1 and all threads' stacks if it hangs.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from typing import Any, Iterator

from interrupting import Interruption, expect_each_once, lines_to_try, read
from torch.utils.data import DataLoader

from packhouse import Loader
from packhouse.torch import EpochDataset

NUM_GRAPHS = 24
PATIENCE = 250.0


class Epoch:
    """One epoch of a job of its own."""

    def __init__(self, kind: str, address: str, dataset: str, number: int) -> None:
        job = f"{kind}-{os.getpid()}-{number}"
        self.epochs = EpochDataset(
            Loader(
                address,
                dataset=dataset,
                job=job,
                limits={"nodes": 12},
                max_in_flight=4,
                retry_timeout=20,
                on_existing="restart" if kind.startswith("stateful") else "error",
            )
        )
        make: Any = DataLoader
        if kind.startswith("stateful"):
            from torchdata.stateful_dataloader import StatefulDataLoader as make
        num_workers = 2 if kind.endswith("workers") else 0
        self.data_loader = make(self.epochs, batch_size=None, num_workers=num_workers)
        self.is_trained = kind != "plain"
        self.epochs.set_epoch(0)

    def loop(self) -> Iterator[list[int]]:
        items = self.epochs.trained(self.data_loader) if self.is_trained else self.data_loader
        # Not by a line of the package: the batch is the trainer's by then.
        return (batch.info.graph_ids.tolist() for batch in items)

    def run(self, interruption: Interruption, line: Any) -> None:
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        with self.epochs:
            expect_each_once(read(self.loop, interruption), NUM_GRAPHS, line)
            info = self.epochs.epoch_info()
            assert info.num_done == info.num_batches, (line, info)
        faulthandler.cancel_dump_traceback_later()


def main(kind: str, address: str, dataset: str, part: str) -> None:
    passing = Interruption()
    Epoch(kind, address, dataset, 0).run(passing, None)
    failures = []
    numbers = lines_to_try(passing.lines, int(part))
    for number, at in enumerate(numbers, 1):
        try:
            Epoch(kind, address, dataset, number).run(Interruption(at), passing.lines[at])
        except Exception as error:
            failures.append(f"{passing.lines[at]}: {type(error).__name__}: {error}")
            print(failures[-1], flush=True)
    if failures:
        sys.exit("\n".join(failures))
    print(f"{len(numbers)} lines")


if __name__ == "__main__":
    main(*sys.argv[1:])

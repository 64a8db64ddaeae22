"""A trainer that reads with torchdata's StatefulDataLoader.

    stateful_epochs.py first ADDRESS DATASET loader|evaluation JOB WORKERS STATE STEPS LAST
    stateful_epochs.py second ADDRESS DATASET loader|evaluation JOB WORKERS STATE

The first one keeps the state after STEPS steps and goes on to LAST; the second goes on from it to the
end. Prints the graphs of each batch.
"""

from __future__ import annotations

import faulthandler
import json
import pickle
import sys
from typing import Any

from torchdata.stateful_dataloader import StatefulDataLoader

from packhouse import Evaluation, Loader
from packhouse.torch import EpochDataset

LIMITS = {"nodes": 128, "graphs": 12}


def main(command: str, *arguments: str) -> None:
    faulthandler.dump_traceback_later(60, exit=True)
    address, name, source, job, workers, path, *steps = arguments
    common: dict[str, Any] = {"dataset": name, "limits": LIMITS, "seed": 3}
    dataset = EpochDataset(
        Evaluation(address, **common)
        if source == "evaluation"
        else Loader(address, job=job, on_existing="restart", **common)
    )
    data_loader = StatefulDataLoader(dataset, batch_size=None, num_workers=int(workers))
    received = []
    if command == "second":
        with open(path, "rb") as file:
            data_loader.load_state_dict(pickle.load(file))
    dataset.set_epoch(2)
    for batch in dataset.trained(data_loader):
        received.append(batch.graph_ids.tolist())
        if command == "first":
            if len(received) == int(steps[0]):
                with open(path, "wb") as file:
                    pickle.dump(data_loader.state_dict(), file)
            if len(received) == int(steps[1]):
                break
    print(json.dumps(received))


if __name__ == "__main__":
    main(*sys.argv[1:])

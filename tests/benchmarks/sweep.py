"""What jobs of a sweep that load the same epochs cost a server, beside what one job costs it.

In turns, by gRPC and through shared memory: one job, several at one pace, and several that have a
seed each and so share nothing. All train for `--step` seconds on a batch. The figures are the
server's processor time over that of the one job of the same turn. A target that is missed makes the
exit status 1.
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import sys
import tempfile
import threading
import time
from typing import Final

from measuring import DATASET, Spread, limits_for, load_graphs, markdown, store

from packhouse import Loader, LocalServer

_TARGET: Final = 1.5


class Sweep:
    """Jobs of one server."""

    def __init__(
        self, server: LocalServer, limits: dict[str, int], epochs: int, step: float, lane: str
    ) -> None:
        self._server = server
        self._limits = limits
        self._epochs = epochs
        self._step = step
        self._lane = lane
        self._num_runs = 0

    def cost(self, num_jobs: int, *, same: bool = True) -> float:
        """The server's processor seconds for a batch of one job."""
        self._num_runs += 1
        run = f"{self._lane}/{self._num_runs}"
        pace = threading.Barrier(num_jobs)
        counts = [0] * num_jobs
        errors: list[BaseException] = []

        def train(job: int) -> None:
            try:
                seed = 1000 * self._num_runs + (0 if same else job)
                with Loader(
                    self._server.address, dataset=DATASET, job=f"{run}/{job}", seed=seed,
                    limits=self._limits, lane=self._lane,
                ) as loader:  # fmt: skip
                    for epoch in range(self._epochs):
                        loader.set_epoch(epoch)
                        due = time.monotonic()
                        for _ in loader:
                            counts[job] += 1
                            due += self._step
                            time.sleep(max(due - time.monotonic(), 0))
                            pace.wait()
            except BaseException as error:  # For the main thread.
                errors.append(error)
                pace.abort()

        before = self._cpu()
        threads = [threading.Thread(target=train, args=(job,)) for job in range(num_jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        assert len(set(counts)) == 1
        return (self._cpu() - before) / counts[0]

    def _cpu(self) -> float:
        # clock_getcpuclockid(3), in nanoseconds.
        return time.clock_gettime((~self._server.pid << 3) | 2)


def main() -> int:
    """Prints a table; 1 if the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packhoused", required=True)
    parser.add_argument("--data", type=pathlib.Path, help="graphs, .npz; by default syntax trees")
    parser.add_argument("--graphs", type=int, default=41_127)
    parser.add_argument("--graphs-a-batch", type=float, default=256)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--step", type=float, default=0.005)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    table, title = load_graphs(options.data, options.graphs)
    rows = []
    missed = False
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalServer(options.packhoused, data_dir=folder) as server,
    ):
        store(server.address, table)
        limits = limits_for(table, options.graphs_a_batch)
        for lane in ("off", "required"):
            sweep = Sweep(server, limits, options.epochs, options.step, lane)
            sweep.cost(1)
            alone, shared, apart = [], [], []
            for _ in range(options.runs):
                alone.append(sweep.cost(1))
                shared.append(sweep.cost(options.jobs))
                apart.append(sweep.cost(options.jobs, same=False))
            ratios = [a / b for a, b in zip(shared, alone)]
            missed |= statistics.median(ratios) > _TARGET
            rows.append([
                "shared memory" if lane == "required" else "gRPC",
                f"{1e6 * statistics.median(alone):.0f}",
                Spread.of(ratios).show(2),
                Spread.of([a / b for a, b in zip(apart, alone)]).show(2),
            ])  # fmt: skip
    jobs = f"{options.jobs} jobs"
    print(f"{title}, in batches of about {options.graphs_a_batch:g}; target {_TARGET} for {jobs}\n")
    header = ["batches by", "one job, us a batch", f"{jobs}, times as much", f"{jobs} of other seeds"]
    print(markdown(header, rows))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

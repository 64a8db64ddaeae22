"""Batches to a CUDA device: copies from a lane's slots beside pinned memory, and steps of training.

Of copies, GB/s, each of as many bytes as a batch has:

- `pinned memory`: a batch in memory that is pinned, again and again: what the bus can do;
- `slot`: a batch of a lane, again and again from its slot;
- `prefetch_to, by lane` and `by bytes`: the batches of an epoch, one after the other, from their
  slots, or through memory that is pinned for each.

Of training, steps a second of a GIN as that of examples/train_pyg.py, here of torch alone:

- `on the device`: batches that are there already: as fast as it can be;
- `prefetch_to, by lane` and `by bytes`; `to(device)`: by bytes, and each batch copied when it is needed.

Where there is no CUDA device, it says so and ends with status 0. `--device cpu` shows that it runs.

    PYTHONPATH=build/release/python python3 tests/benchmarks/cuda_feeding.py \\
        --packhoused build/release/service/packhoused --data ../shared/data/graphs/molhiv.npz
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import tempfile
import time
from typing import Any, Callable, Final, Generator, Iterator

import torch
from measuring import DATASET, Spread, benchmark_parser, limits_for, load_graphs, markdown, publish, store

from packhouse import DerivedTensor, Evaluation, LocalServer, tune_process_for_batches
from packhouse.frameworks.torch.batch import _CudaPinning, in_pinned_slot
from packhouse.torch import prefetch_to, to_torch

_CHANNELS: Final = 256
# The batches of copies have so many times the graphs.
_MORE: Final = 8


def joined(batch: Any, features: list[str]) -> Any:
    """The features side by side."""
    columns = [batch[name] for name in features]
    return torch.cat([each.reshape(len(each), -1).float() for each in columns], 1)


class Gin(torch.nn.Module):
    """Three layers over all features of nodes; the loss is their outputs' mean."""

    def __init__(self, features: list[str], width: int) -> None:
        super().__init__()
        self._features = features
        self.embed = torch.nn.Linear(width, _CHANNELS)
        self.layers = torch.nn.ModuleList(
            torch.nn.Sequential(
                torch.nn.Linear(_CHANNELS, _CHANNELS),
                torch.nn.ReLU(),
                torch.nn.Linear(_CHANNELS, _CHANNELS),
                torch.nn.BatchNorm1d(_CHANNELS),
                torch.nn.ReLU(),
            )
            for _ in range(3)
        )

    def forward(self, batch: Any) -> Any:
        sources, targets = (batch[name].long() for name in ("senders", "receivers"))
        x = self.embed(joined(batch, self._features))
        for layer in self.layers:
            x = layer(x.index_add(0, targets, x[sources]))
        return x.mean()


def batches_of(address: str, limits: dict[str, int], lane: Any) -> Iterator[Any]:
    """Epoch after epoch."""
    words: Any = {"dataset": DATASET, "limits": limits, "padding": "graph", "lane": lane}
    for seed in itertools.count():
        yield from Evaluation(
            address, seed=seed, derived=(DerivedTensor.GRAPH_INDEX,), **words
        )


def bytes_of(batch: Any) -> int:
    return sum(tensor.element_size() * tensor.numel() for tensor in batch.tensors.values())


# Gives a generator.
Begin = Callable[[], Generator[int, None, None]]


class Bench:
    """What is measured, of a device."""

    def __init__(self, address: str, options: Any, table: Any) -> None:
        self._address = address
        self._device = torch.device(options.device)
        self._is_cuda = self._device.type == "cuda"
        self._seconds = options.seconds
        self._of_copies = limits_for(table, _MORE * options.batch_graphs)
        self._of_steps = limits_for(table, options.batch_graphs)
        (first,) = itertools.islice(self._batches("off", self._of_steps), 1)
        features = [
            spec.name
            for spec in table.schema.tensors
            if spec.component == "nodes" and spec.index_into is None
        ]
        width = joined(to_torch(first), features).shape[1]
        self._model = Gin(features, width).to(self._device)
        self._optimizer = torch.optim.Adam(self._model.parameters())

    def _batches(self, lane: str, limits: dict[str, int]) -> Iterator[Any]:
        return batches_of(self._address, limits, lane)

    def _rate(self, does: Iterator[int]) -> float:
        """The sum of what is given, a second, after the first few."""
        for _ in itertools.islice(does, 4):
            pass
        self._wait()
        total, start = 0, time.perf_counter()
        for done in does:
            total += done
            if time.perf_counter() - start >= self._seconds:
                break
        self._wait()
        return total / (time.perf_counter() - start)

    def _wait(self) -> None:
        if self._is_cuda:
            torch.cuda.synchronize(self._device)

    def _again(self, batch: Any) -> Generator[int, None, None]:
        while True:
            for _ in range(16):
                batch.to(self._device, non_blocking=True)
                yield bytes_of(batch)
            self._wait()

    def copies(self) -> dict[str, Begin]:
        """Bytes that each of them has copied, step by step."""

        def pinned_memory() -> Generator[int, None, None]:
            (batch,) = itertools.islice(self._batches("off", self._of_copies), 1)
            return self._again(to_torch(batch, pin_memory=self._is_cuda))

        def slot() -> Generator[int, None, None]:
            for batch in self._batches("required", self._of_copies):
                in_slot = (
                    in_pinned_slot(batch, _CudaPinning(self._device))
                    if self._is_cuda
                    else to_torch(batch)
                )
                # None for the first ones, which come before the lane.
                if in_slot is not None:
                    return self._again(in_slot)
            raise AssertionError

        def prefetching(lane: str) -> Begin:
            return lambda: (
                bytes_of(batch)
                for batch in prefetch_to(self._batches(lane, self._of_copies), self._device)
            )

        return {
            "pinned memory": pinned_memory,
            "slot": slot,
            "prefetch_to, by lane": prefetching("required"),
            "prefetch_to, by bytes": prefetching("off"),
        }

    def steps(self) -> dict[str, Begin]:
        """A 1 for each step."""

        def trained(batches: Iterator[Any]) -> Generator[int, None, None]:
            for batch in batches:
                self._optimizer.zero_grad()
                self._model(batch).backward()
                self._optimizer.step()
                yield 1

        def there() -> Iterator[Any]:
            made = itertools.islice(self._batches("off", self._of_steps), 16)
            return itertools.cycle([to_torch(batch).to(self._device) for batch in made])

        return {
            "on the device": lambda: trained(there()),
            "prefetch_to, by lane": lambda: trained(
                prefetch_to(self._batches("required", self._of_steps), self._device)
            ),
            "prefetch_to, by bytes": lambda: trained(
                prefetch_to(self._batches("off", self._of_steps), self._device)
            ),
            "to(device)": lambda: trained(
                to_torch(batch).to(self._device) for batch in self._batches("off", self._of_steps)
            ),
        }

    def by_turns(
        self, rows: dict[str, Begin], runs: int
    ) -> dict[str, list[float]]:
        rates: dict[str, list[float]] = {name: [] for name in rows}
        for _, (name, begin) in itertools.product(range(runs), rows.items()):
            with contextlib.closing(begin()) as does:
                rates[name].append(self._rate(does))
        return rates


def main() -> int:
    parser = benchmark_parser(__doc__, seconds=2.0)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--copies", type=int, default=16, help="of the graphs, for long epochs")
    parser.add_argument("--batch-graphs", type=int, default=512, help="about, of a step")
    options = parser.parse_args()
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        print("no CUDA device: nothing is measured")
        return 0
    tune_process_for_batches()
    table, title = load_graphs(options.data, options.graphs)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        log = stack.enter_context(open(os.devnull, "wb"))
        server = stack.enter_context(LocalServer(options.packhoused, data_dir=folder, log=log))
        store(server.address, table, options.copies)
        bench = Bench(server.address, options, table)
        figures = {
            "GB/s": bench.by_turns(bench.copies(), options.runs),
            "steps/s": bench.by_turns(bench.steps(), options.runs),
        }
    lines, entries = [], []
    for unit, rates in figures.items():
        scale, best = 1e9 if unit == "GB/s" else 1.0, next(iter(rates.values()))
        for name, found in rates.items():
            of_best = Spread.of([100 * mine / its for mine, its in zip(found, best)])
            in_unit = [each / scale for each in found]
            lines.append([name, f"{Spread.of(in_unit).show(2)} {unit}", f"{of_best.show()} %"])
            entries.append({"row": name, "unit": unit, "rates": in_unit})
    header = ("batches", "a second", "of the first")
    publish(options, f"{title}, to {options.device}", markdown(header, lines), cuda_feeding=entries)
    return 0


if __name__ == "__main__":
    sys.exit(main())

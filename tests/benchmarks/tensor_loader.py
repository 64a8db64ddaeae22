"""Batches of the rows of tensors in memory: packhouse.torch.TensorLoader beside what is used instead.

- `index_select`: the loop that one writes by hand: a permutation, then rows taken by index.
- `index_select, out`: the same into memory that the batch before had, which a loader cannot give: who
  keeps a batch would see the next one.
- `TensorLoader`: the same rows taken by indices that come from a packhoused of its own.
- `TensorLoader, groups`: groups of about ten rows that are never split; a message a batch.
- `DataLoader`: torch.utils.data.DataLoader over a TensorDataset, 0 workers.

All in one process, by turns, on the same tensors: --rows x --columns float32, and labels. A run goes
from epoch to epoch until it has lasted --seconds, so that the beginning of epochs is in it. Ratios are
of the runs of one turn; the goal is at least 10 times DataLoader, and index_select at most 1.2 times
as fast.

    PYTHONPATH=build/release/python python3 tests/benchmarks/tensor_loader.py \\
        --packhoused build/release/service/packhoused
"""

from __future__ import annotations

import itertools
import statistics
import sys
import tempfile
import time
from typing import Any, Callable, Final, Iterator

import torch
from measuring import Spread, benchmark_parser, markdown, publish
from torch.utils.data import DataLoader, TensorDataset

from packhouse import LocalServer, tune_process_for_batches
from packhouse.torch import TensorLoader

BATCH_SIZES: Final = (64, 1024)

Batches = Iterator[Any]


def index_select(x: torch.Tensor, y: torch.Tensor, batch_size: int) -> Callable[[int], Batches]:
    def read(epoch: int) -> Batches:
        rows = torch.randperm(len(x), generator=torch.Generator().manual_seed(epoch))
        for start in range(0, len(x), batch_size):
            chosen = rows[start : start + batch_size]
            yield x.index_select(0, chosen), y.index_select(0, chosen)

    return read


def index_select_out(x: torch.Tensor, y: torch.Tensor, batch_size: int) -> Callable[[int], Batches]:
    places = [(each, each.new_empty((batch_size, *each.shape[1:]))) for each in (x, y)]

    def read(epoch: int) -> Batches:
        rows = torch.randperm(len(x), generator=torch.Generator().manual_seed(epoch))
        for chosen in rows.split(batch_size):
            taken = [(each, place[: len(chosen)]) for each, place in places]
            yield tuple(torch.index_select(each, 0, chosen, out=place) for each, place in taken)

    return read


def tensor_loader(
    x: torch.Tensor, y: torch.Tensor, batch_size: int, address: str, group_id: Any = None
) -> Callable[[int], Batches]:
    loader = TensorLoader(x, y, batch_size=batch_size, address=address, group_id=group_id)

    def read(epoch: int) -> Batches:
        loader.load_state_dict({"epoch": epoch, "next_step": 0})
        return iter(loader)

    return read


def data_loader(x: torch.Tensor, y: torch.Tensor, batch_size: int) -> Callable[[int], Batches]:
    loader: Any = DataLoader(TensorDataset(x, y), batch_size=batch_size, shuffle=True)
    return lambda epoch: iter(loader)


def rows_per_second(read: Callable[[int], Batches], seconds: float) -> float:
    num_rows = 0
    started = time.perf_counter()
    for epoch in itertools.count():
        for _, labels in read(epoch):
            num_rows += len(labels)
            elapsed = time.perf_counter() - started
            if elapsed >= seconds:
                return num_rows / elapsed
    raise AssertionError


def main() -> int:
    parser = benchmark_parser(__doc__, seconds=2.0)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--columns", type=int, default=1000)
    options = parser.parse_args()
    tune_process_for_batches()
    x = torch.rand(options.rows, options.columns)
    y = torch.arange(options.rows)
    groups = (torch.rand(options.rows) * (options.rows / 10)).long().numpy()
    figures: list[dict[str, Any]] = []
    table: list[list[str]] = []
    with tempfile.TemporaryDirectory() as folder, LocalServer(
        options.packhoused, data_dir=folder
    ) as server:
        for batch_size in BATCH_SIZES:
            readers = {
                "index_select": index_select(x, y, batch_size),
                "index_select, out": index_select_out(x, y, batch_size),
                "TensorLoader": tensor_loader(x, y, batch_size, server.address),
                "TensorLoader, groups": tensor_loader(x, y, batch_size, server.address, groups),
                "DataLoader": data_loader(x, y, batch_size),
            }
            speeds: dict[str, list[float]] = {name: [] for name in readers}
            for _ in range(options.runs):
                for name, read in readers.items():
                    speeds[name].append(rows_per_second(read, options.seconds))
            for name, found in speeds.items():
                ratios = {
                    other: Spread.of([mine / its for mine, its in zip(found, speeds[other])])
                    for other in ("index_select", "DataLoader")
                }
                figures.append(
                    {
                        "reader": name,
                        "batch_size": batch_size,
                        "rows_per_second": found,
                        **{f"of_{other}": ratio.median for other, ratio in ratios.items()},
                    }
                )
                table.append(
                    [
                        f"{batch_size:,}",
                        name,
                        f"{statistics.median(found) / 1e3:,.0f}",
                        *(ratio.show(2) for ratio in ratios.values()),
                    ]
                )
    header = ("rows a batch", "reader", "1000 rows/s", "of index_select", "of DataLoader")
    title = f"{options.rows:,} rows of {options.columns:,} float32"
    publish(options, title, markdown(header, table), tensor_loader=figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())

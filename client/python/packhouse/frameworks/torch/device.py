"""A CUDA device: its memory, for `Client.feedback`, and batches on their way to it."""

from __future__ import annotations

from typing import Any, Iterable, Iterator

import torch

from packhouse.data.batch import Batch
from packhouse.epochs.epoch_readers import Leased
from packhouse.epochs.prefetching import prefetch
from packhouse.frameworks.torch.batch import to_torch
from packhouse.stored.feedback import ProcessMemory


class TorchMemory:
    """The most bytes that torch's allocator had in use on a device; on the CPU, the process's."""

    def __init__(self, device: Any = None) -> None:
        """`device`: as torch names it; None: the current CUDA device, or the CPU without one."""
        if device is None:
            device = "cuda" if torch.cuda.is_available() else "cpu"
        self._device = torch.device(device)
        self._process = ProcessMemory() if self._device.type != "cuda" else None

    def reset(self) -> None:
        """Before a step."""
        if self._process is not None:
            self._process.reset()
        else:
            torch.cuda.reset_peak_memory_stats(self._device)

    def peak_bytes(self) -> int:
        """After it."""
        if self._process is not None:
            return self._process.peak_bytes()
        return int(torch.cuda.max_memory_allocated(self._device))


def prefetch_to(batches: Iterable[Any], device: Any, depth: int = 2) -> Iterator[Any]:
    """Batches on the device, `depth` of them ahead of their use.

        for batch in prefetch_to(loader, "cuda"):
            train(batch["x"])

    `batches` are those of a Loader, an Evaluation or a DataLoader: packhouse's own, which become
    TorchBatches, or whatever has a method `to(device, non_blocking=...)`. To a CUDA device they are
    copied from pinned memory on a stream of their own, and the present stream waits for that stream
    when a batch is given out. `packhouse.prefetch` says when batches are acknowledged.
    """
    device = torch.device(device)
    if device.type != "cuda":
        return prefetch(batches, lambda batch: _as_tensors(batch, False).to(device), depth)
    return _prefetch_to_cuda(batches, device, depth)


def _prefetch_to_cuda(batches: Iterable[Any], device: Any, depth: int) -> Iterator[Any]:
    copying = torch.cuda.Stream(device)

    def move(batch: Any) -> _OnItsWay:
        pinned = _as_tensors(batch, True)
        with torch.cuda.stream(copying):
            moved = pinned.to(device, non_blocking=True)
            return _OnItsWay(moved, copying.record_event(), pinned)

    for item in prefetch(batches, move, depth):
        on_its_way = item.item if isinstance(item, Leased) else item
        present = torch.cuda.current_stream(device)
        present.wait_event(on_its_way.event)
        if hasattr(on_its_way.batch, "record_stream"):
            on_its_way.batch.record_stream(present)
        yield Leased(on_its_way.batch, item.lease) if isinstance(item, Leased) else on_its_way.batch


class _OnItsWay:
    """A batch that is being copied, and what must stay until it is."""

    def __init__(self, batch: Any, event: Any, pinned: Any) -> None:
        self.batch = batch
        self.event = event
        self.pinned = pinned


def _as_tensors(batch: Any, pin_memory: bool) -> Any:
    if isinstance(batch, Batch):
        return to_torch(batch, pin_memory)
    return batch.pin_memory() if pin_memory and hasattr(batch, "pin_memory") else batch

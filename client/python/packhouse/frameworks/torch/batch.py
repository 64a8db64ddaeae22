"""Batches as torch's tensors, on their way to a device, whose memory `Client.feedback` is told."""

from __future__ import annotations

import contextlib
from collections import deque
from typing import Any, Callable, Final, Iterable, Iterator, KeysView

import numpy as np
import torch
from torch.utils.data import get_worker_info

from packhouse.base.aligned import ALIGNMENT
from packhouse.calls.slot_memory import Pinning, SlotMemory
from packhouse.data.batch import Batch, sources_of
from packhouse.data.graphs import Array
from packhouse.data.schema import DType
from packhouse.epochs.epoch_readers import Leased
from packhouse.epochs.prefetching import prefetch
from packhouse.frameworks.tensors import may_be_shared
from packhouse.stored.feedback import ProcessMemory

# The types that replace those which torch lacks or cannot compute with.
_WIDER: Final[dict[np.dtype[Any], np.dtype[Any]]] = {
    np.dtype("<u2"): np.dtype("<i4"),
    np.dtype("<u4"): np.dtype("<i8"),
    np.dtype("<u8"): np.dtype("<i8"),
}

_TYPES: Final = {
    np.dtype("?"): torch.bool,
    np.dtype("u1"): torch.uint8,
    np.dtype("i1"): torch.int8,
    np.dtype("<i2"): torch.int16,
    np.dtype("<i4"): torch.int32,
    np.dtype("<i8"): torch.int64,
    np.dtype("<f2"): torch.float16,
    np.dtype("<f4"): torch.float32,
    np.dtype("<f8"): torch.float64,
}


class TorchBatch:
    """A batch whose `tensors` are torch's; all else is as in packhouse's batch.

    `batch["x"]` is the tensor x.
    """

    def __init__(self, tensors: dict[str, torch.Tensor], info: Batch) -> None:
        """`info` is packhouse's batch; its own tensors are not used."""
        self.tensors = tensors
        self.info = info

    def __getattr__(self, name: str) -> Any:
        # Asked for while one is copied or pickled, before there is an info.
        if name.startswith("__") or name == "info":
            raise AttributeError(name)
        return getattr(self.info, name)

    def __getitem__(self, name: str) -> torch.Tensor:
        """The tensor of that name. Raises KeyError, which says what there is."""
        try:
            return self.tensors[name]
        except KeyError:
            raise KeyError(f"no tensor {name!r} in the batch: it has {list(self.tensors)}") from None

    def __contains__(self, name: object) -> bool:
        return name in self.tensors

    def __len__(self) -> int:
        return len(self.info)

    __iter__ = None

    def keys(self) -> KeysView[str]:
        """The tensors' names; so `dict(batch)` and `f(**batch)` work."""
        return self.tensors.keys()

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{name}: {str(tensor.dtype)[6:]}{list(tensor.shape)}"
            for name, tensor in self.tensors.items()
        )
        return f"Torch{self.info!r}"[:-1] + f"; {shown})"

    @property
    def device(self) -> torch.device:
        """Where its tensors are."""
        for tensor in self.tensors.values():
            return tensor.device
        return torch.device("cpu")

    def mask(self, component: str) -> torch.Tensor:
        """bool [rows], where the tensors are: which rows of a component are real."""
        rows, real_rows = self.info.rows[component], self.info.real_rows[component]
        return torch.arange(rows, device=self.device) < real_rows

    def to(self, device: Any, non_blocking: bool = False) -> TorchBatch:
        """With tensors on that device."""
        moved = {
            name: tensor.to(device, non_blocking=non_blocking)
            for name, tensor in self.tensors.items()
        }
        return TorchBatch(moved, self.info)

    def pin_memory(self, device: Any = None) -> TorchBatch:
        """With tensors in page-locked memory, for a device; torch's DataLoader calls it."""
        pinned = {name: tensor.pin_memory() for name, tensor in self.tensors.items()}
        return TorchBatch(pinned, self.info)

    def record_stream(self, stream: Any) -> None:
        """Its memory is not used again before the work on the stream has ended."""
        for tensor in self.tensors.values():
            tensor.record_stream(stream)


def to_torch(
    batch: Batch, pin_memory: bool = False, change: Callable[[Batch], object] | None = None
) -> TorchBatch:
    """The batch with torch's tensors, each at a multiple of 64 bytes.

    They share the batch's memory if all of that may be written to, as with `writable=True` and by a
    lane: what is written to them is written to the batch, so that a second `to_torch` and `Loader.split`
    see it. Take `to_torch(batch.writable())` to keep the batch. Otherwise, and with `pin_memory`, with a
    change, of slots that `prefetch_to` has page-locked, and in a worker process of torch's DataLoader,
    they are copies in one piece of memory, which the worker hands to its trainer at once.

    Signed types replace unsigned ones that torch cannot compute with: int32 for uint16, int64 for
    uint32 and uint64; with one of these all are copies. `change` may write to the arrays of the batch that it
    gets, of the types that are stored; the tensors have what it wrote. Cost: a microsecond a tensor;
    if they are copies, one copy, and some microseconds a tensor; with a change and such an unsigned
    type two.
    """
    if not pin_memory and change is None and get_worker_info() is None:
        shared = _views_of(batch, _is_safe_to_share)
        if shared is not None:
            return shared
    halves = _halves_of(batch)
    sources = sources_of(batch.tensors)
    if change is not None and any(
        dtype in _WIDER for name, _, dtype in sources if name not in halves
    ):
        batch = batch.writable()
        change(batch)
        change = None
        sources = sources_of(batch.tensors)
    arrays = {}
    starts = []
    total = 0
    for name, array, dtype in sources:
        if name not in halves:
            dtype = _WIDER.get(dtype, dtype)
        arrays[name] = array, dtype
        starts.append(total)
        total += -(-array.size * dtype.itemsize // ALIGNMENT) * ALIGNMENT
    memory = torch.empty(total, dtype=torch.uint8, pin_memory=pin_memory)
    whole = memory.numpy()
    copies: dict[str, Array] = {}
    for start, (name, (array, dtype)) in zip(starts, arrays.items()):
        copies[name] = np.ndarray(array.shape, dtype, whole, start)
        # A uint64 beyond int64's range keeps its bits.
        np.copyto(copies[name], array, casting="unsafe")
    if change is not None:
        change(batch.with_tensors(copies))
    tensors = {}
    # One view of all memory for each type, and one of that for each tensor.
    of_kind: dict[torch.dtype, torch.Tensor] = {}
    for start, (name, made) in zip(starts, copies.items()):
        kind = torch.bfloat16 if name in halves else _TYPES[made.dtype]
        if kind not in of_kind:
            of_kind[kind] = memory.view(kind)
        size = made.itemsize
        strides = [stride // size for stride in made.strides]
        tensors[name] = of_kind[kind].as_strided(made.shape, strides, start // size)
    return TorchBatch(tensors, batch.without_tensors())


def _halves_of(batch: Batch) -> frozenset[str]:
    """The tensors of bfloat16, which numpy has as uint16."""
    names = [spec.name for spec in batch.schema.tensors if spec.dtype is DType.BFLOAT16]
    return frozenset(names)


def _views_of(batch: Batch, is_taken: Callable[[Array], bool]) -> TorchBatch | None:
    """The batch with torch's views of its arrays; None if one is not of torch's types, or not taken.
    """
    halves = _halves_of(batch)
    sources = sources_of(batch.tensors)
    for name, array, dtype in sources:
        if dtype != array.dtype or (dtype in _WIDER and name not in halves):
            return None
    tensors = {}
    for name, array, _ in sources:
        if not is_taken(array):
            return None
        tensor = torch.from_numpy(array.view("<i2") if name in halves else array)
        tensors[name] = tensor.view(torch.bfloat16) if name in halves else tensor
    return TorchBatch(tensors, batch.without_tensors())


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
    when a batch is given out. Batches of a lane are copied from their slots, which are pinned once a
    stream, without a copy between; types that torch lacks take one. `packhouse.prefetch` says when
    batches are acknowledged.
    """
    device = torch.device(device)
    if device.type != "cuda":
        return prefetch(batches, lambda batch: _as_tensors(batch, False).to(device), depth)
    return _prefetch_to_cuda(batches, device, depth)


def _prefetch_to_cuda(batches: Iterable[Any], device: Any, depth: int) -> Iterator[Any]:
    copying = torch.cuda.Stream(device)
    pinning = _CudaPinning(device)
    copies = Copies()

    def move(batch: Any) -> _OnItsWay:
        pinned = in_pinned_slot(batch, pinning) or _as_tensors(batch, True)
        with torch.cuda.stream(copying):
            moved = pinned.to(device, non_blocking=True)
            event = copying.record_event()
        copies.add(event, (batch, pinned))
        return _OnItsWay(moved, event)

    try:
        for item in prefetch(batches, move, depth):
            on_its_way = item.item if isinstance(item, Leased) else item
            present = torch.cuda.current_stream(device)
            present.wait_event(on_its_way.event)
            if hasattr(on_its_way.batch, "record_stream"):
                on_its_way.batch.record_stream(present)
            copies.let_go()
            yield Leased(on_its_way.batch, item.lease) if isinstance(item, Leased) else on_its_way.batch
    finally:
        copies.wait()


class _OnItsWay:
    """A batch that is being copied, and what tells when it has been."""

    def __init__(self, batch: Any, event: Any) -> None:
        self.batch = batch
        self.event = event


class Copies:
    """Keeps what is copied until the copy has ended: its slot would be written anew before."""

    def __init__(self) -> None:
        # In the order in which they were begun, which is that of a stream.
        self._begun: deque[tuple[Any, Any]] = deque()

    def add(self, event: Any, copied: Any) -> None:
        """Keeps `copied` until the event, as torch.cuda.Event, has happened."""
        self._begun.append((event, copied))

    def let_go(self) -> None:
        """What has been copied by now."""
        while self._begun and self._begun[0][0].query():
            self._begun.popleft()

    def wait(self) -> None:
        """Until all has been copied."""
        while self._begun:
            self._begun[0][0].synchronize()
            self._begun.popleft()


class _CudaPinning:
    """See Pinning."""

    # cudaHostRegisterPortable: for all devices.
    _PORTABLE: Final = 1

    def __init__(self, device: Any) -> None:
        self._device = device

    def register(self, address: int, num_bytes: int) -> bool:
        """See Pinning."""
        if int(torch.cuda.cudart().cudaHostRegister(address, num_bytes, self._PORTABLE)) == 0:
            return True
        # The refusal would be told as the error of the next kernel.
        with contextlib.suppress(RuntimeError):
            torch.zeros(1, device=self._device).add_(1)
        return False

    def unregister(self, address: int) -> None:
        """See Pinning."""
        torch.cuda.synchronize(self._device)
        torch.cuda.cudart().cudaHostUnregister(address)


def in_pinned_slot(batch: Any, library: Pinning) -> TorchBatch | None:
    """The batch with torch's views of its slot, which is pinned from now on; None if a tensor is not
    in one, or not of torch's types, or the library cannot. The views hold the slot.
    """
    if not isinstance(batch, Batch):
        return None

    def is_pinned(array: Array) -> bool:
        memory = _slots_of(array)
        return memory is not None and memory.pin(library)

    return _views_of(batch, is_pinned)


def _is_safe_to_share(array: Array) -> bool:
    # A device may still read page-locked memory when `to(non_blocking=True)` has returned and the
    # tensor has gone, and with it the slot.
    memory = _slots_of(array)
    return may_be_shared(array) and not (memory is not None and memory.is_pinned)


def _slots_of(array: Array) -> SlotMemory | None:
    base: Any = array
    while isinstance(base, (np.ndarray, memoryview)):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    memory = getattr(base, "memory", None)
    return memory if isinstance(memory, SlotMemory) else None


def _as_tensors(batch: Any, pin_memory: bool) -> Any:
    if isinstance(batch, Batch):
        return to_torch(batch, pin_memory)
    return batch.pin_memory() if pin_memory and hasattr(batch, "pin_memory") else batch

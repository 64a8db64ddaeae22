"""Worker processes of a data loader: the number of this one, and its trainer's orders."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
import tempfile
import weakref
from typing import Any, Callable


def is_worker_process() -> bool:
    """Whether this is a worker process of torch's DataLoader."""
    return _worker_info() is not None


def worker_process() -> tuple[int, int]:
    """The number of this process, and how many there are. (0, 1) in the trainer."""
    info = _worker_info()
    return (0, 1) if info is None else (info.id, info.num_workers)


def _worker_info() -> Any:
    torch_data: Any = sys.modules.get("torch.utils.data")
    get: Callable[[], Any] | None = getattr(torch_data, "get_worker_info", None)
    return None if get is None else get()


@dataclasses.dataclass(frozen=True)
class Orders:
    """The trainer's orders to its worker processes: what to read."""

    epoch: int
    cursor: str
    attempt: str
    # Names this pass, as an attempt for processes that go on from states of their own.
    common: str
    # The generation to go on in; 0: none yet.
    generation: int
    next_step: int
    # Only the first process reads what others leave, because that may wait.
    is_rest: bool
    # Whether the trainer acknowledges batches, by `trained` or by hand.
    is_acknowledged: bool


class OrdersFile:
    """A small file with the trainer's orders, for worker processes that live on. It is deleted with
    this object, but not with copies in other processes.
    """

    def __init__(self) -> None:
        handle, self._path = tempfile.mkstemp(prefix="packhouse-epoch-")
        os.close(handle)
        weakref.finalize(self, _remove, self._path, os.getpid())

    def __getstate__(self) -> dict[str, Any]:
        return {"_path": self._path}

    def write(self, orders: Orders) -> None:
        """A reader gets either these orders or the earlier ones, whole."""
        # One name for all tries: what an exception leaves behind, the next one writes over.
        path = f"{self._path}.new"
        with open(path, "w") as file:
            json.dump(dataclasses.asdict(orders), file)
        os.replace(path, self._path)

    def read(self) -> Orders | None:
        """None if none have been written."""
        with open(self._path) as file:
            text = file.read()
        return Orders(**json.loads(text)) if text else None


def _remove(path: str, owner: int) -> None:
    if os.getpid() == owner:
        for each in (path, f"{path}.new"):
            with contextlib.suppress(FileNotFoundError):
                os.remove(each)

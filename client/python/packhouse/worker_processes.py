"""Worker processes of a data loader: which one this is, and what its trainer has told it."""

from __future__ import annotations

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
    """The number of this process, and of how many. (0, 1) in the trainer."""
    info = _worker_info()
    return (0, 1) if info is None else (info.id, info.num_workers)


def _worker_info() -> Any:
    torch_data: Any = sys.modules.get("torch.utils.data")
    get: Callable[[], Any] | None = getattr(torch_data, "get_worker_info", None)
    return None if get is None else get()


@dataclasses.dataclass(frozen=True)
class Orders:
    """What the trainer tells its worker processes to read."""

    epoch: int
    cursor: str
    attempt: str
    # Names this pass, as an attempt for processes that go on from states of their own.
    common: str
    # What has been come to is gone on with; 0: nothing yet.
    generation: int
    next_step: int
    # What others leave, by the first process alone, as that may wait.
    is_rest: bool
    # Whether the trainer acknowledges what comes, in one way or the other.
    is_acknowledged: bool


class OrdersFile:
    """A small file with the trainer's orders, for worker processes that live on. It goes with this
    object; copies in other processes leave it."""

    def __init__(self) -> None:
        handle, self._path = tempfile.mkstemp(prefix="packhouse-epoch-")
        os.close(handle)
        weakref.finalize(self, _remove, self._path, os.getpid())

    def __getstate__(self) -> dict[str, Any]:
        return {"_path": self._path}

    def write(self, orders: Orders) -> None:
        """Whoever reads gets these or the ones before, whole."""
        with tempfile.NamedTemporaryFile(
            "w", dir=os.path.dirname(self._path), delete=False
        ) as file:
            json.dump(dataclasses.asdict(orders), file)
        os.replace(file.name, self._path)

    def read(self) -> Orders | None:
        """None if none have been written."""
        with open(self._path) as file:
            text = file.read()
        return Orders(**json.loads(text)) if text else None


def _remove(path: str, owner: int) -> None:
    if os.getpid() == owner:
        try:
            os.remove(path)
        except FileNotFoundError:
            pass

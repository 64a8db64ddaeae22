"""The part of an epoch that one worker process reads, as its trainer orders. See `EpochReaders`."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
import tempfile
import weakref
from typing import Any, Callable, Iterator

from packhouse.calls.lane import is_worth_asking
from packhouse.epochs.batches import LoadedBatch
from packhouse.epochs.loader import Loader
from packhouse.epochs.settings import Dynamic, LoaderSettings, LoaderStart, Ranked


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

    @property
    def calls(self) -> str:
        """The path of a socket where calls are made for the worker processes."""
        return f"{self._path}.calls"

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
        for each in (path, f"{path}.new", f"{path}.calls"):
            with contextlib.suppress(FileNotFoundError):
                os.remove(each)


class ReaderPass(Iterator[Any]):
    """This process's part of the epoch that the trainer has set; what `make` makes of its batches.

    Whatever `make` raises, its batch comes again, and fresh, when the next one is asked for.

    Opens a stream when it is first asked for a batch or a state. Its state is what torchdata's
    StatefulDataLoader keeps of a worker process: where the generation started, and the next step. A
    pass that goes on from a state starts the generation again. It acknowledges the batches before
    that step, which come once more, and does not give them out.
    """

    def __init__(
        self,
        settings: LoaderSettings,
        file: OrdersFile,
        number: int,
        count: int,
        make: Callable[[LoadedBatch], Any] | None = None,
    ) -> None:
        """Reader `number` of `count`."""
        self._make = make
        self._settings = settings
        self._file = file
        self._number = number
        self._count = count
        self._loader: Loader | None = None
        self._ended = False
        self._state: dict[str, Any] = {}
        # Steps before were done before the state that this goes on from.
        self._first_step = 0

    def __next__(self) -> Any:
        loader = self._open()
        while not self._ended and loader is not None:
            batch = loader.peek()
            if batch is None:
                loader.close()
                break
            if batch.step >= self._first_step:
                if self._make is None:
                    return loader.hand_over(batch, batch)
                try:
                    item = self._make(batch)
                except BaseException:
                    # It may have changed the batch.
                    loader.look_again()
                    raise
                return loader.hand_over(batch, item)
            loader.acknowledge(batch)
            loader.hand_over(batch, batch)
        self._ended = True
        raise StopIteration

    @property
    def handed(self) -> LoadedBatch | None:
        """Of which batch the last item was that was given out."""
        return None if self._loader is None else self._loader.handed

    @property
    def has_given_all(self) -> bool:
        """Whether it has given out all that it will give."""
        return self._ended or (self._loader is not None and self._loader.has_given_all)

    def close(self) -> None:
        """Disconnects; what was not given out is left to others. Idempotent."""
        self._ended = True
        if self._loader is not None:
            self._loader.close()

    def state_dict(self) -> dict[str, Any]:
        """Plain values. Waits for the server if nothing has been read yet."""
        loader = self._open()
        if loader is None or isinstance(self._settings.sharing, Dynamic):
            return {}
        return {
            "epoch": loader.epoch,
            "cursor": loader.generation_cursor,
            "next_step": self._next_step(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from there; before anything is read."""
        self._state = dict(state)

    def _open(self) -> Loader | None:
        """The loader; None if there is nothing to read for this process."""
        if self._loader is not None or self._ended:
            return self._loader
        orders = self._file.read()
        if orders is None:
            raise ValueError("no epoch is set: call set_epoch in the trainer before each epoch")
        if not orders.is_acknowledged and is_worker_process():
            raise ValueError(
                "nothing acknowledges these batches, and the epoch would stop soon: iterate over "
                "trained(data_loader) of this data set instead of data_loader, or give the loader "
                'acknowledge="manual" and call acknowledge'
            )
        if orders.is_rest and self._number > 0:
            self._ended = True
            return None
        self._loader = Loader.of_settings(self._settings_for(orders), self._start_for(orders))
        return self._loader

    def _settings_for(self, orders: Orders) -> LoaderSettings:
        sharing = self._settings.sharing
        if isinstance(sharing, Ranked):
            first = 0 if self._goes_on_from_state(orders) else orders.next_step
            sharing = sharing.of_reader(self._number, self._count, first)
        else:
            waits = orders.is_rest or not is_worker_process()
            sharing = sharing.of_reader(self._number, self._count, waits)
        connecting = self._settings.connecting
        if is_worker_process() and is_worth_asking(connecting.address, connecting.lane):
            connecting = connecting._replace(relay=self._file.calls)
        # The trainer has looked at the epoch, and acknowledges.
        return dataclasses.replace(
            self._settings,
            connecting=connecting,
            sharing=sharing,
            manual=True,
            looks_at_epoch=False,
        )

    def _start_for(self, orders: Orders) -> LoaderStart:
        if self._goes_on_from_state(orders):
            self._first_step = self._state["next_step"]
            attempt = orders.attempt or orders.common
            if isinstance(self._settings.sharing, Ranked) and self._settings.sharing.num_ranks > 1:
                attempt = orders.attempt
                if not attempt:
                    raise ValueError("several ranks need an attempt to go on from a state")
            return LoaderStart(orders.epoch, self._state["cursor"], attempt)
        return LoaderStart(
            orders.epoch, orders.cursor, orders.attempt, orders.generation or None
        )

    def _next_step(self) -> int:
        """The rank's step after the last one that was given out."""
        handed = self.handed
        return self._first_step if handed is None else max(self._first_step, handed.step + 1)

    def _goes_on_from_state(self, orders: Orders) -> bool:
        return self._state.get("epoch") == orders.epoch and isinstance(
            self._settings.sharing, Ranked
        )

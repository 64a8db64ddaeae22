"""What the data loaders that take the place of a framework's own have in common.

Batches come from a server, or are made in this process of a table that it holds; a thread makes
them before they are asked for.
"""

from __future__ import annotations

import os
import queue
import secrets
import threading
from typing import Any, Callable, Final, Iterable, Iterator, Mapping, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from packhouse.base.arguments import UINT64_MAX, shows_arguments_of, whole_number
from packhouse.base.waiting import HelperThread
from packhouse.base.shared_server import SharedServer
from packhouse.client.facade import Client
from packhouse.data.batch import Batch, Padding, PaddingLike
from packhouse.data.graphs import Array, GraphTable
from packhouse.data.schema import GRAPHS, Layout
from packhouse.epochs.evaluation import Evaluation
from packhouse.epochs.loader import Loader
from packhouse.epochs.prefetching import prefetch
from packhouse.epochs.request import LoadArguments
from packhouse.frameworks.ingest import MakeTables, Stored, store_once
from packhouse.planning.tuning import DeviceProfile
from packhouse.stored.dataset import DatasetState

Positions = npt.NDArray[np.int64]


class FixedSteps:
    """Which graphs are in which step of an epoch: `batch_size` for each rank.

    Shuffled, each order of the graphs is as likely as any other, and the same for the same seed and
    epoch; else they come in their own order. Ranks share what is left for the last step, so that no
    graph is left out or repeated and all have as many steps; `drop_last` leaves it out instead.
    """

    def __init__(
        self,
        num_graphs: int,
        batch_size: int,
        *,
        shuffle: bool,
        seed: int,
        drop_last: bool,
        rank: int = 0,
        num_ranks: int = 1,
    ) -> None:
        self._num_graphs = num_graphs
        self._batch_size = batch_size
        self._shuffle = shuffle
        self._seed = seed
        self._rank = rank
        self._num_ranks = num_ranks
        whole, rest = divmod(num_graphs, batch_size * num_ranks)
        self._num_steps = whole + (rest > 0 and not drop_last)

    def __len__(self) -> int:
        return self._num_steps

    def of_epoch(self, epoch: int) -> list[Positions]:
        """The graphs of each step of this rank."""
        if self._shuffle:
            generator = np.random.Generator(np.random.PCG64([self._seed, epoch]))
            order = generator.permutation(self._num_graphs)
        else:
            order = np.arange(self._num_graphs)
        of_all = self._batch_size * self._num_ranks
        return [
            np.array_split(order[start : start + of_all], self._num_ranks)[self._rank]
            if start + of_all > self._num_graphs
            else order[start : start + of_all][self._rank * self._batch_size :][: self._batch_size]
            for start in range(0, self._num_steps * of_all, of_all)
        ]


class LocalBatches:
    """Joins graphs of a table as the service does; the arrays of a batch are its own."""

    def __init__(self, table: GraphTable) -> None:
        self._table = table
        self._offsets = {name: table.offsets(name) for name in table.schema.all_components}
        self._counts = {name: np.diff(offsets) for name, offsets in self._offsets.items()}

    def batch(self, positions: Positions, step: int, epoch: int) -> Batch:
        """The graphs at these positions, in this order. Cost: O(rows copied)."""
        table = self._table
        counts = {name: of_all[positions] for name, of_all in self._counts.items()}
        ends = {name: each.cumsum() for name, each in counts.items()}
        rows: dict[str, Positions] = {}
        tensors: dict[str, Array] = {}
        for spec in table.schema.tensors:
            component = spec.component
            if component == GRAPHS:
                rows[component] = positions
            elif component not in rows:
                # Row r of the batch is as far behind its graph's start as in the table.
                starts = ends[component] - counts[component]
                shift = np.repeat(self._offsets[component][positions] - starts, counts[component])
                shift += np.arange(len(shift))
                rows[component] = shift
            column = table.tensors[spec.name]
            taken = column.take(rows[component], axis=spec.rows_axis)
            if spec.index_into is not None:
                into = spec.index_into
                add = np.repeat(ends[into] - counts[into], counts[component]).astype(taken.dtype)
                if spec.layout is not Layout.ROWS_LAST:
                    add = add.reshape(-1, *(1 for _ in spec.row_shape))
                taken += add
            tensors[spec.name] = taken
        real_rows = {name: int(each[-1]) if len(each) else 0 for name, each in ends.items()}
        return Batch(
            table.schema,
            step,
            epoch,
            step,
            table.graph_ids[positions],
            table.sizes[positions],
            real_rows,
            dict(real_rows),
            tensors,
        )


_END: Final = object()


class ReadAhead(Iterator[Any]):
    """The items of an iterator, up to `depth` of which a thread of its own has made in advance.

    An exception of the iterator is raised at its place. `close` ends the thread as soon as it has
    made the item that it is at; so does dropping this object.
    """

    def __init__(self, items: Iterator[Any], depth: int) -> None:
        """Starts."""
        self._queue: queue.Queue[Any] = queue.Queue(depth)
        self._stopped = threading.Event()
        self._has_ended = False
        # Neither knows this object, which ends the thread.
        filling = _Filling(items, self._queue, self._stopped)
        HelperThread("packhouse-ahead", filling.fill, filling.fail).start()

    def __next__(self) -> Any:
        if self._has_ended:
            raise StopIteration
        kind, item = self._queue.get()
        if kind is None:
            return item
        # A failed one may have been followed by another thread.
        self.close()
        if kind is _END:
            raise StopIteration
        try:
            raise kind
        finally:
            # Else the exception would keep itself alive, and this object.
            del kind

    def close(self) -> None:
        """Idempotent."""
        self._has_ended = True
        self._stopped.set()
        # The thread may wait for room.
        with self._queue.mutex:
            self._queue.queue.clear()
            self._queue.not_full.notify_all()

    def __del__(self) -> None:
        self.close()


class _Filling:
    """What the thread does."""

    def __init__(
        self, items: Iterator[Any], into: queue.Queue[Any], stopped: threading.Event
    ) -> None:
        self._items = items
        self._into = into
        self._stopped = stopped

    def fill(self) -> None:
        try:
            for item in self._items:
                if self._stopped.is_set():
                    return
                self._into.put((None, item))
                if self._stopped.is_set():
                    return
            self._into.put((_END, None))
        finally:
            close = getattr(self._items, "close", None)
            if close is not None:
                close()

    def fail(self, error: BaseException) -> None:
        """Whatever it is, it is raised where it is asked for."""
        self._into.put((error, None))


# Batches of one worker that are made in advance, as torch has it.
_PREFETCH_FACTOR: Final = 2
# Of a job's, below what a loader has in flight.
_MOST_AHEAD: Final = 8

Make = Callable[[Batch], Any]


class Pass(Protocol):
    """Where the batches of an epoch come from."""

    def __len__(self) -> int:
        """Steps of an epoch."""

    def items(self, epoch: int, first_step: int) -> Iterator[Any]:
        """What comes out of an epoch, from that step on."""


class Step(NamedTuple):
    """Which graphs are in a step of an epoch."""

    epoch: int
    step: int
    positions: Positions


class LocalPass:
    """Fixed numbers of graphs, of a data set in this process."""

    def __init__(self, steps: FixedSteps, item: Callable[[Step], Any]) -> None:
        """`item` makes what comes out of a step."""
        self.item = item
        self._steps = steps

    def __len__(self) -> int:
        return len(self._steps)

    def steps(self, epoch: int, first_step: int) -> Iterator[Step]:
        """Those of an epoch, from that one on."""
        of_epoch = self._steps.of_epoch(epoch)
        for step in range(first_step, len(of_epoch)):
            yield Step(epoch, step, of_epoch[step])

    def items(self, epoch: int, first_step: int) -> Iterator[Any]:
        """See Pass."""
        return map(self.item, self.steps(epoch, first_step))


class OfTable:
    """Joins graphs of a table."""

    def __init__(self, table: GraphTable, make: Make) -> None:
        self._batches = LocalBatches(table)
        self._make = make

    def __call__(self, step: Step) -> Any:
        return self._make(self._batches.batch(step.positions, step.step, step.epoch))


class ServedPass:
    """Packed by the server, which keeps nothing of it."""

    def __init__(self, evaluation: Evaluation, make: Make, only: int | None) -> None:
        """Leaves out batches that have not `only` graphs."""
        self.evaluation = evaluation
        self.make = make
        self._only = only
        self._num_steps: int | None = None

    def __len__(self) -> int:
        if self._num_steps is None:
            self._num_steps = len(self.evaluation)
            if self._only is not None:
                self._num_steps = self.evaluation.epoch_info().num_graphs // self._only
        return self._num_steps

    def items(self, epoch: int, first_step: int) -> Iterator[Any]:
        """See Pass."""
        of_epoch = self.evaluation.of(epoch, self.evaluation.sharing)
        for batch in of_epoch.from_step(first_step):
            if self._only is None or len(batch) == self._only:
                yield self.make(batch)


def _check_suit(
    make_tables: MakeTables | str, limits: Any, device: Any, padding: Padding, address: str | None
) -> None:
    if limits is not None and device is not None:
        raise ValueError("limits: given beside device; a batch is bounded by one of them")
    if isinstance(make_tables, str) and address is None:
        raise ValueError(f"data set {make_tables!r}: say at which server it is, by address")
    if limits is None and device is None and padding is not Padding.NONE:
        raise ValueError("padding: fixed shapes need limits of nodes and edges, or a device")


class PackedLoader:
    """Epochs of a data set's batches. A base: see `packhouse.pyg.DataLoader` and its like.

    Each pass is the next epoch, from 0 on, unless `set_epoch` says another.
    """

    @shows_arguments_of(LoadArguments)
    def __init__(
        self,
        make_tables: MakeTables | str,
        make: Make,
        *,
        batch_size: int | None = None,
        shuffle: bool = False,
        limits: Mapping[str, int] | None = None,
        device: DeviceProfile | str | os.PathLike[str] | None = None,
        padding: PaddingLike = Padding.NONE,
        drop_last: bool = False,
        seed: int | None = None,
        num_workers: int = 0,
        prefetch_factor: int | None = None,
        rank: int | None = None,
        num_ranks: int | None = None,
        job: str | None = None,
        address: str | None = None,
        name: str | None = None,
        num_graphs: int | None = None,
        progress: bool = True,
        **arguments: Any,
    ) -> None:
        """`make_tables` gives the graphs, each time that it is called, or is the name of a data set
        that the server at `address` has; `make` makes of a batch what comes out.

        Raises ValueError or TypeError naming the argument.
        """
        padding = Padding.of(padding, "padding")
        self.batch_size = None if batch_size is None else whole_number(batch_size, "batch_size")
        if self.batch_size == 0:
            raise ValueError("batch_size 0 is below 1")
        is_packed = limits is not None or device is not None
        is_stored = isinstance(make_tables, str)
        _check_suit(make_tables, limits, device, padding, address)
        if not is_packed and self.batch_size is None:
            self.batch_size = 1
        self.drop_last = drop_last
        self.num_workers = whole_number(num_workers, "num_workers")
        self.prefetch_factor = prefetch_factor or _PREFETCH_FACTOR
        self.seed = secrets.randbits(63) if seed is None else whole_number(seed, "seed", UINT64_MAX)
        self._make = make
        self._server: SharedServer | None = None
        self._loader: Loader | None = None
        # Of the pass that began last: its epoch, and the step that it gives next.
        self._epoch = 0
        self._next_step = 0
        # What the next pass begins with; None: the epoch after that of the last one.
        self._ordered: tuple[int, int] | None = (0, 0)
        if not (is_packed or is_stored or job or arguments):
            self._pass: Pass = self._local_pass(make_tables, shuffle, rank or 0, num_ranks or 1)
            return
        if not is_packed and shuffle:
            raise ValueError(
                "batch_size: a server packs shuffled graphs by limits, as limits="
                '{"nodes": 4096, "graphs": 32}; batches of a fixed number are made in the process '
                "that has the data set, without a job or a name"
            )
        if address is None:
            self._server = SharedServer()
            self._server.join()
            address = self._server.address
        stored = self._stored(address, make_tables, name, num_graphs, progress)
        if isinstance(device, (str, os.PathLike)):
            device = DeviceProfile.load(device)
        arguments.update(
            dataset=stored.name, limits=self._limits(limits, device), device_profile=device,
            padding=padding, seed=self.seed, rank=rank, num_ranks=num_ranks, drop_last=drop_last,
            writable=True,
        )  # fmt: skip
        if not shuffle:
            # One after the other where nothing is to be packed.
            arguments.update(in_order=True, look_ahead=0 if is_packed else 1)
        if job is None:
            only = None if is_packed or not drop_last or (num_ranks or 1) > 1 else self.batch_size
            self._pass = ServedPass(Evaluation(address, **arguments), make, only)
        else:
            self._loader = Loader(address, job=job, **arguments)

    def _local_pass(
        self, make_tables: MakeTables | str, shuffle: bool, rank: int, num_ranks: int
    ) -> LocalPass:
        assert not isinstance(make_tables, str)
        count, item = self._local(make_tables)
        steps = FixedSteps(
            count, self.batch_size or 1, shuffle=shuffle, seed=self.seed,
            drop_last=self.drop_last, rank=rank, num_ranks=num_ranks,
        )  # fmt: skip
        return LocalPass(steps, item)

    def _limits(
        self, limits: Mapping[str, int] | None, device: DeviceProfile | None
    ) -> Mapping[str, int] | None:
        """With the bound on graphs; a device has its own."""
        if self.batch_size is None or device is not None:
            return limits
        return {**(limits or {}), GRAPHS: self.batch_size}

    def _local(self, make_tables: MakeTables) -> tuple[int, Callable[[Step], Any]]:
        """How many graphs there are, and what makes batches of them in this process."""
        tables = list(make_tables())
        table = tables[0] if len(tables) == 1 else GraphTable.concatenate(tables)
        return len(table), OfTable(table, self._make)

    def _stored(
        self,
        address: str,
        make_tables: MakeTables | str,
        name: str | None,
        num_graphs: int | None,
        progress: bool,
    ) -> Stored:
        with Client(address) as client:
            if not isinstance(make_tables, str):
                return store_once(
                    client, make_tables, name=name, num_graphs=num_graphs, progress=progress
                )
            dataset = client.datasets.get(make_tables)
            if dataset.state is not DatasetState.SEALED:
                raise ValueError(f"data set {make_tables!r} is not sealed yet")
            return Stored(make_tables, dataset.num_graphs)

    @property
    def epoch(self) -> int:
        """The number of the epoch of the latest pass; before the first, that which it will have."""
        return self._epoch if self._ordered is None else self._ordered[0]

    def set_epoch(self, epoch: int) -> None:
        """The next pass gives that epoch, from its start."""
        epoch = whole_number(epoch, "epoch", UINT64_MAX)
        if self._loader is not None:
            self._loader.set_epoch(epoch)
        self._ordered = (epoch, 0)

    def __len__(self) -> int:
        """Batches of an epoch; where limits bound them, asks the server once."""
        return len(self._pass) if self._loader is None else len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        """The next epoch; with a `job`, what is left of the present one if there is something."""
        if self._loader is not None:
            return self._of_job(self._loader)
        epoch, step = (self._epoch + 1, 0) if self._ordered is None else self._ordered
        self._ordered = None
        self._epoch, self._next_step = epoch, step
        return self._counted(self._items(epoch, step), epoch, step)

    def _items(self, epoch: int, step: int) -> Iterator[Any]:
        items = self._pass.items(epoch, step)
        if not self.num_workers:
            return items
        return ReadAhead(items, self.num_workers * self.prefetch_factor)

    def _counted(self, items: Iterator[Any], epoch: int, step: int) -> Iterator[Any]:
        """Remembers for `state_dict` how far the latest pass is."""
        try:
            for item in items:
                step += 1
                if self._epoch == epoch and self._ordered is None:
                    self._next_step = step
                yield item
        finally:
            close = getattr(items, "close", None)
            if close is not None:
                close()

    def _of_job(self, loader: Loader) -> Iterator[Any]:
        if loader.has_ended:
            loader.set_epoch(loader.epoch + 1)
        self._ordered = None
        self._epoch = loader.epoch
        if self.num_workers:
            depth = min(self.num_workers * self.prefetch_factor, _MOST_AHEAD)
            yield from prefetch(loader, self._make, depth)
            return
        for batch in loader:
            yield self._make(batch)

    def state_dict(self) -> dict[str, Any]:
        """Where the latest pass is, for the checkpoint; what it gave last counts as done."""
        if self._loader is not None:
            return dict(self._loader.state_dict())
        if self._ordered is not None:
            epoch, step = self._ordered
        else:
            epoch, step = self._epoch, self._next_step
        return {"epoch": epoch, "next_step": step, "seed": self.seed}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next pass goes on there. Raises ValueError for a state of another seed."""
        if self._loader is not None:
            self._loader.load_state_dict(state)  # type: ignore[arg-type]
            return
        if state["seed"] != self.seed:
            raise ValueError(f"the state is of seed {state['seed']}: give seed={state['seed']}")
        self._ordered = (state["epoch"], state["next_step"])

    def close(self) -> None:
        """Ends what it has of a server, which others may go on to use. Idempotent."""
        if self._loader is not None:
            self._loader.close()
        if self._server is not None:
            self._server.leave()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def refuse(arguments: Mapping[str, Any], reasons: Mapping[str, str]) -> None:
    """Raises TypeError for arguments of the framework's own class that have no place here."""
    for name, reason in reasons.items():
        if arguments.get(name) is not None:
            raise TypeError(f"{name}: {reason}")


def length_of(dataset: Iterable[Any]) -> int | None:
    """How many graphs there are, if it says so."""
    try:
        return len(dataset)  # type: ignore[arg-type]
    except TypeError:
        return None

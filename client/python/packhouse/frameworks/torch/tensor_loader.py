"""Batches of rows of plain tensors: which rows come together, in which order.

The tensors stay where they are.
"""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
import threading
from typing import Any, Final, Iterable, Iterator

import grpc
import numpy as np
import numpy.typing as npt
import torch

from packhouse.base.arguments import names_init_arguments
from packhouse.base.errors import PackhouseError
from packhouse.base.local_server import LocalServer
from packhouse.client.facade import Client
from packhouse.data.graphs import GraphTable, array_of
from packhouse.data.schema import GRAPHS, GraphSchema
from packhouse.epochs.evaluation import Evaluation
from packhouse.frameworks.torch.batch import to_torch
from packhouse.stored.dataset import DatasetState

# A row is a graph of no nodes.
ROWS: Final = GraphSchema(())

# Bounds a message of row numbers: a message costs as much as some thousands of them.
_BLOCK_ROWS: Final = 1 << 14

# Bounds what is read ahead: 32 MiB of row numbers.
_MAX_ROWS_AHEAD: Final = 1 << 22

Indices = npt.NDArray[np.int64]


def store_rows(client: Client, num_rows: int, groups: npt.NDArray[np.uint64] | None) -> str:
    """The name of a sealed data set of this many rows; the server keeps only their sizes and
    groups.

    It is made if it does not exist: there is one data set for equal rows. Raises PackhouseError.
    """
    name = f"packhouse.rows/{num_rows}"
    if groups is not None:
        name += "-" + hashlib.blake2b(groups.tobytes(), digest_size=12).hexdigest()
    try:
        client.datasets.create(name, ROWS, grouped=groups is not None)
    except PackhouseError as error:
        if error.code is not grpc.StatusCode.ALREADY_EXISTS:
            raise
        if client.datasets.get(name).state is DatasetState.SEALED:
            return name
    table = GraphTable(ROWS, np.empty((num_rows, 0), np.uint32))
    # Others that make it at the same time append the same, and it is stored once.
    client.datasets.append(name, table, group_ids=groups, producer="rows", first_sequence=1)
    client.datasets.seal(name)
    return name


def group_ids_of(group_id: npt.ArrayLike) -> npt.NDArray[np.uint64]:
    """A number for each row, the same for equal values: an integer itself, of other values a hash.
    """
    values = array_of(group_id, "group_id")
    if values.dtype.kind in "iu":
        return values.astype(np.uint64)
    unique, positions = np.unique(values, return_inverse=True)
    hashes = [
        int.from_bytes(hashlib.blake2b(str(value).encode(), digest_size=8).digest(), "little")
        for value in unique
    ]
    numbers: npt.NDArray[np.uint64] = np.array(hashes, np.uint64)[positions.reshape(-1)]
    return numbers


class _NextEpoch:
    """The row numbers of an epoch, message by message, read on a thread of its own."""

    def __init__(self, epoch: int, evaluation: Evaluation) -> None:
        """Starts."""
        self.epoch = epoch
        self._evaluation = evaluation
        self._is_wanted = True
        # Below: the thread's until it has ended.
        self._messages: list[Indices] = []
        self._has_all = False
        self._thread = threading.Thread(target=self._run, name="packhouse-rows", daemon=True)
        self._thread.start()

    def wait(self) -> list[Indices] | None:
        """All messages; None if reading failed, which reading again will explain."""
        self._thread.join()
        return self._messages if self._has_all else None

    def drop(self) -> None:
        """Ends it soon."""
        self._is_wanted = False

    def _run(self) -> None:
        # Whatever is raised comes again when the epoch is asked for.
        with contextlib.suppress(BaseException):
            for message in self._evaluation:
                if not self._is_wanted:
                    return
                self._messages.append(message.graph_ids.view(np.int64))
            self._has_all = True


class RowEpochs:
    """The epochs of a data set of rows. `arguments` as those of Evaluation.

    While an epoch is read, so is the order of the next one, on another thread: the server needs
    time to shuffle. Nothing is left of a connection when an epoch has been read to its end.
    """

    def __init__(
        self,
        address: str,
        dataset: str,
        num_rows: int,
        batch_size: int,
        *,
        shuffle: bool,
        drop_last: bool,
        grouped: bool,
        seed: int,
        rank: int,
        num_ranks: int,
        **arguments: Any,
    ) -> None:
        """Connects when it is iterated over."""
        # Without groups, rows are cut into batches here: messages may be large then.
        self._is_cut = not grouped and num_ranks == 1
        self._num_rows = num_rows
        self._batch_size = batch_size
        self._drop_last = drop_last
        self._next: _NextEpoch | None = None
        blocks = max(1, _BLOCK_ROWS // batch_size) if self._is_cut else 1
        self._block_rows = blocks * batch_size
        if not shuffle and not grouped:
            arguments.update(in_order=True, look_ahead=1)
        self._evaluation = Evaluation(
            address,
            dataset=dataset,
            limits={GRAPHS: self._block_rows},
            seed=seed,
            sizes_only=True,
            grouped=grouped,
            rank=rank,
            num_ranks=num_ranks,
            drop_last=drop_last and num_ranks > 1,
            **arguments,
        )

    def __len__(self) -> int:
        """Batches of an epoch. Asks the server where rows have groups or ranks."""
        if not self._is_cut:
            return len(self._evaluation)
        whole, rest = divmod(self._num_rows, self._batch_size)
        return whole + (rest > 0 and not self._drop_last)

    def read(self, epoch: int, first_step: int = 0) -> Iterator[Indices]:
        """The row numbers of each batch of an epoch, from that step on."""
        if not self._is_cut:
            for batch in self._of(epoch).from_step(first_step):
                yield batch.graph_ids.view(np.int64)
            return
        num_read = first_step * self._batch_size
        for block in self._blocks(self._messages(epoch), first_step):
            num_read += len(block)
            if 2 * num_read >= self._num_rows:
                self._read_ahead(epoch + 1)
            for start in range(0, len(block), self._batch_size):
                indices = block[start : start + self._batch_size]
                if len(indices) == self._batch_size or not self._drop_last:
                    yield indices
        if self._next is not None:
            self._next.wait()

    def close(self) -> None:
        """Ends what is read ahead, soon; reading goes on to work. Idempotent."""
        ahead, self._next = self._next, None
        if ahead is not None:
            ahead.drop()

    def _of(self, epoch: int) -> Evaluation:
        return self._evaluation.of(epoch, self._evaluation.sharing)

    def _read_ahead(self, epoch: int) -> None:
        if self._num_rows <= _MAX_ROWS_AHEAD and (self._next is None or self._next.epoch != epoch):
            self.close()
            self._next = _NextEpoch(epoch, self._of(epoch))

    def _messages(self, epoch: int) -> Iterable[Indices]:
        """The epoch's row numbers, message by message."""
        ahead = self._next
        if ahead is not None and ahead.epoch == epoch:
            self._next = None
            messages = ahead.wait()
            if messages is not None:
                return messages
        return (message.graph_ids.view(np.int64) for message in self._of(epoch))

    def _blocks(self, messages: Iterable[Indices], first_step: int) -> Iterator[Indices]:
        """Blocks of rows that are whole batches, writable; the last one may be shorter."""
        skipped = first_step * self._batch_size
        held: list[Indices] = []
        num_held = 0
        for rows in messages:
            if skipped >= len(rows):
                skipped -= len(rows)
                continue
            held.append(rows[skipped:])
            num_held += len(rows) - skipped
            skipped = 0
            if num_held >= self._block_rows:
                # The one message that is not full may come at any place.
                joined = np.concatenate(held)
                yield joined[: self._block_rows]
                held = [joined[self._block_rows :]]
                num_held -= self._block_rows
        yield np.concatenate([*held, np.empty(0, np.int64)])


@names_init_arguments
class TensorLoader:
    """Batches of the rows of tensors with equal numbers of rows: shuffled, in whole groups if need
    be.

        loader = TensorLoader(X, y, batch_size=64, address="localhost:50051")
        for epoch in range(10):
            loader.set_epoch(epoch)
            for x, target in loader:
                train(x, target)

    The tensors stay where they are, in this process's memory. The service says which rows come
    together: the same rows for the same seed and epoch, on any machine. `len` is known. With
    `group_id` the rows of one group are always in one batch, which then has up to `batch_size`
    rows. A state is small, and exact: `state_dict` after a step, `load_state_dict` in another
    process.

    The first tensor may instead be the name of a data set whose tensors all grow along `graphs`:
    then the batches are TorchBatches, and the data need not fit into memory.

    Gives one epoch after the other, unless `set_epoch` sets one. Not thread-safe. Cost: beside
    indexing the tensors, some microseconds a batch (a message each with groups or ranks).
    """

    def __init__(
        self,
        *tensors: Any,
        batch_size: int = 64,
        shuffle: bool = True,
        drop_last: bool = False,
        group_id: Any = None,
        seed: int = 0,
        rank: int = 0,
        num_ranks: int = 1,
        address: str | None = None,
        **arguments: Any,
    ) -> None:
        """`tensors` are torch's, or arrays of numpy (also mapped files).

        `group_id` has a value a row, or is True for a data set that is grouped. `drop_last` leaves
        out the batch that is not full, or with several ranks the batches that are too few for a
        step of all; it cannot be used with groups. Without `address` it runs a server of its own,
        as long as this object lives (see LocalServer). `arguments` are those of Evaluation.

        Raises ValueError naming the tensor or the argument; PackhouseError.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size {batch_size} is below 1")
        if group_id is not None and drop_last and num_ranks == 1:
            raise ValueError("drop_last is not for groups: their batches need not be full")
        if not tensors:
            raise ValueError("a tensor is needed, or the name of a data set")
        self._server: LocalServer | None = None
        if address is None:
            self._folder = tempfile.TemporaryDirectory(prefix="packhouse-rows-")
            self._server = LocalServer(data_dir=self._folder.name)
            self._server.start()
            address = self._server.address
        self._epoch = 0
        self._step = 0
        self._is_over = False
        self._from_server: Evaluation | None = None
        grouped = group_id is not None and group_id is not False
        if isinstance(tensors[0], str):
            if len(tensors) > 1 or (grouped and group_id is not True):
                raise ValueError("a data set has its own tensors and groups: group_id=True or None")
            if not shuffle and not grouped:
                arguments.update(in_order=True, look_ahead=1)
            self._from_server = Evaluation(
                address,
                dataset=tensors[0],
                limits={GRAPHS: batch_size},
                seed=seed,
                grouped=grouped,
                rank=rank,
                num_ranks=num_ranks,
                drop_last=drop_last,
                **arguments,
            )
            return
        num_rows = len(tensors[0])
        for position, tensor in enumerate(tensors):
            if len(tensor) != num_rows:
                raise ValueError(
                    f"tensor {position} has {len(tensor)} rows, the first has {num_rows}"
                )
        self._tensors = tuple(
            tensor if isinstance(tensor, torch.Tensor) else array_of(tensor, f"tensor {position}")
            for position, tensor in enumerate(tensors)
        )
        groups = group_ids_of(group_id) if grouped else None
        if groups is not None and groups.shape != (num_rows,):
            raise ValueError(f"group_id has shape {groups.shape}, needs ({num_rows},)")
        with Client(address) as client:
            dataset = store_rows(client, num_rows, groups)
        self._rows = RowEpochs(
            address,
            dataset,
            num_rows,
            batch_size,
            shuffle=shuffle,
            drop_last=drop_last,
            grouped=grouped,
            seed=seed,
            rank=rank,
            num_ranks=num_ranks,
            **arguments,
        )

    @property
    def epoch(self) -> int:
        """The number of the epoch that iterating gives."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Iterating gives that epoch: from its start, unless a state of it was loaded."""
        if epoch != self._epoch or self._is_over:
            self._epoch, self._step, self._is_over = epoch, 0, False

    def __len__(self) -> int:
        """Batches of an epoch."""
        return len(self._rows) if self._from_server is None else len(self._from_server)

    def state_dict(self) -> dict[str, int]:
        """The step after the batch that was given out last, which counts as done."""
        return {"epoch": self._epoch, "next_step": self._step}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """The next iteration goes on there."""
        self._epoch, self._step, self._is_over = state["epoch"], state["next_step"], False

    def __iter__(self) -> Iterator[Any]:
        """Tuples of torch's tensors, or one if there is one; or TorchBatches of a data set."""
        if self._is_over:
            self.set_epoch(self._epoch + 1)
        for item in self._items():
            self._step += 1
            yield item
        self._is_over = True

    def _items(self) -> Iterator[Any]:
        if self._from_server is not None:
            evaluation = self._from_server.of(self._epoch, self._from_server.sharing)
            yield from map(to_torch, evaluation.from_step(self._step))
            return
        is_one = len(self._tensors) == 1
        for rows in self._rows.read(self._epoch, self._step):
            indices = torch.from_numpy(rows if rows.flags.writeable else rows.copy())
            taken = tuple(
                tensor.index_select(0, indices)
                if isinstance(tensor, torch.Tensor)
                else torch.from_numpy(tensor[rows])
                for tensor in self._tensors
            )
            yield taken[0] if is_one else taken

    def close(self) -> None:
        """Ends the server, if it is its own. Idempotent."""
        if self._from_server is None:
            self._rows.close()
        server, self._server = self._server, None
        if server is not None:
            server.stop()
            self._folder.cleanup()

    def __enter__(self) -> TensorLoader:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

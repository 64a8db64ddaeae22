"""Batches of rows of plain tensors."""

from __future__ import annotations

import tempfile
from typing import Any, Iterator

import numpy as np
import torch

from packhouse.base.local_server import LocalServer
from packhouse.client.facade import Client
from packhouse.data.schema import GRAPHS
from packhouse.epochs.evaluation import Evaluation
from packhouse.frameworks.torch.batch import to_torch
from packhouse.frameworks.torch.row_epochs import RowEpochs, group_ids_of, store_rows


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
            tensor if isinstance(tensor, torch.Tensor) else np.asanyarray(tensor)
            for tensor in tensors
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

"""Epochs of rows: which rows come together, in which order. The tensors stay where they are."""

from __future__ import annotations

import hashlib
from typing import Any, Final, Iterator

import grpc
import numpy as np
import numpy.typing as npt

from packhouse.client import Client
from packhouse.dataset import DatasetState
from packhouse.errors import PackhouseError
from packhouse.evaluation import Evaluation
from packhouse.graphs import GraphTable
from packhouse.schema import GRAPHS, GraphSchema

# A row is a graph of no nodes.
ROWS: Final = GraphSchema(())

# Bounds a message of row numbers: a message costs as much as some thousands of them.
_BLOCK_ROWS: Final = 1 << 14

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
        client.create_dataset(name, ROWS, grouped=groups is not None)
    except PackhouseError as error:
        if error.code is not grpc.StatusCode.ALREADY_EXISTS:
            raise
        if client.get_dataset(name).state is DatasetState.SEALED:
            return name
    table = GraphTable(ROWS, np.empty((num_rows, 0), np.uint32))
    # Others that make it at the same time append the same, and it is stored once.
    client.append(name, table, group_ids=groups, producer="rows")
    client.seal_dataset(name)
    return name


def group_ids_of(group_id: npt.ArrayLike) -> npt.NDArray[np.uint64]:
    """A number for each row, the same for equal values: an integer itself, of other values a hash.
    """
    values = np.asarray(group_id)
    if values.dtype.kind in "iu":
        return values.astype(np.uint64)
    unique, positions = np.unique(values, return_inverse=True)
    hashes = [
        int.from_bytes(hashlib.blake2b(str(value).encode(), digest_size=8).digest(), "little")
        for value in unique
    ]
    numbers: npt.NDArray[np.uint64] = np.array(hashes, np.uint64)[positions.reshape(-1)]
    return numbers


class RowEpochs:
    """The epochs of a data set of rows. `evaluation_arguments` as those of Evaluation."""

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
        evaluation = self._evaluation.of(epoch, self._evaluation.sharing)
        if not self._is_cut:
            for batch in evaluation.from_step(first_step):
                yield batch.graph_ids.view(np.int64)
            return
        for block in self._blocks(evaluation, first_step):
            for start in range(0, len(block), self._batch_size):
                indices = block[start : start + self._batch_size]
                if len(indices) == self._batch_size or not self._drop_last:
                    yield indices

    def _blocks(self, evaluation: Evaluation, first_step: int) -> Iterator[Indices]:
        """Blocks of rows that are whole batches; the last one may be shorter."""
        skipped = first_step * self._batch_size
        held: list[Indices] = []
        num_held = 0
        for message in evaluation:
            rows = message.graph_ids.view(np.int64)
            if skipped >= len(rows):
                skipped -= len(rows)
                continue
            held.append(rows[skipped:])
            num_held += len(rows) - skipped
            skipped = 0
            if num_held >= self._block_rows:
                # The one message that is not full may come at any place.
                joined = held[0] if len(held) == 1 else np.concatenate(held)
                yield joined[: self._block_rows]
                held = [joined[self._block_rows :]]
                num_held -= self._block_rows
        yield np.concatenate([*held, np.empty(0, np.int64)])

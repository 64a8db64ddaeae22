"""A data loader for rows and for sequences of tokens, in the place of torch's."""

from __future__ import annotations

import functools
import os
from typing import Any, Final, Iterator, Mapping, Sequence

import numpy as np
import torch

from packhouse.base.arguments import shows_arguments_of
from packhouse.data.batch import Batch, Padding, PaddingLike
from packhouse.data.graphs import Array, GraphTable
from packhouse.data.schema import GRAPHS, DType, GraphSchema, TensorSpec
from packhouse.frameworks.packed_loader import PackedLoader
from packhouse.frameworks.tensors import from_torch, to_torch
from packhouse.frameworks.torch.packed_loader import TorchPackedLoader
from packhouse.frameworks.torch.sequences import sequence_table, to_sequences
from packhouse.planning.tuning import DeviceProfile

_DOCUMENTS_PER_TABLE: Final = 1 << 14


class DataLoader(TorchPackedLoader):
    """In the place of `torch.utils.data.DataLoader`: batches are dictionaries of tensors.

        loader = packhouse.torch.DataLoader({"x": x, "y": y}, batch_size=64, shuffle=True)
        for batch in loader:
            train(batch["x"], batch["y"])

    Token sequences are packed, and none is cut; batches are `SequenceBatch`es, for kernels of
    variable length (see `to_sequences`):

        loader = packhouse.torch.DataLoader(documents, shuffle=True, limits={"tokens": 8192})
        for batch in loader:
            train(batch["input_ids"], batch.position_ids, batch.cu_seqlens)

    All else is as with `packhouse.pyg.DataLoader`.
    """

    @shows_arguments_of(TorchPackedLoader.__init__, PackedLoader.__init__)
    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = None,
        shuffle: bool = False,
        *,
        limits: Mapping[str, int] | None = None,
        device: DeviceProfile | str | os.PathLike[str] | None = None,
        padding: PaddingLike = Padding.NONE,
        tokens: str = "input_ids",
        **options: Any,
    ) -> None:
        """`dataset` is one of:

        - a dictionary of arrays or tensors with equal numbers of rows;
        - a list of documents, as `sequence_table` takes them: lists or arrays of token ids, or
          dictionaries of such of one length; `tokens` names that of the token ids.

        With padding batches of documents have one shape. `limits` bound `tokens` and `graphs`
        (documents). Other options: see `packhouse.pyg.DataLoader`.
        """
        self.dataset = dataset
        is_padded = Padding.of(padding, "padding") is not Padding.NONE
        make: Any = _rows_as_tensors
        if isinstance(dataset, Mapping):
            source: Any = functools.partial(_row_tables, dataset)
        elif isinstance(dataset, Sequence) and not isinstance(dataset, str):
            if not dataset:
                raise ValueError("dataset: there is no document")
            source = functools.partial(_document_tables, dataset)
            make = functools.partial(to_sequences, tokens=tokens, padding=is_padded)
        else:
            raise TypeError(
                f"dataset: a {type(dataset).__name__} is neither a dictionary of rows nor a list of "
                "documents"
            )
        super().__init__(
            source, make, batch_size=batch_size, shuffle=shuffle, limits=limits, device=device,
            padding=padding, **options,
        )  # fmt: skip


def _array_of(values: Any, name: str) -> tuple[Array, DType]:
    try:
        if isinstance(values, torch.Tensor):
            return from_torch(values)
        array = np.asarray(values)
        return array, DType.of(array.dtype)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name}: {error}") from None


def _row_tables(columns: Mapping[str, Any]) -> Iterator[GraphTable]:
    specs, arrays = [], {}
    num_rows = None
    for name, values in columns.items():
        array, dtype = _array_of(values, repr(name))
        if array.ndim == 0:
            raise ValueError(f"{name!r} is one number: it has no rows")
        num_rows = len(array) if num_rows is None else num_rows
        if len(array) != num_rows:
            first = next(iter(columns))
            raise ValueError(f"{name!r} has {len(array)} rows, {first!r} has {num_rows}")
        specs.append(TensorSpec(name, dtype, GRAPHS, array.shape[1:]))
        arrays[name] = array
    if not num_rows:
        raise ValueError("dataset: there is no row")
    yield GraphTable(GraphSchema((), specs), np.empty((num_rows, 0), np.uint32), arrays)


def _document_tables(documents: Sequence[Any]) -> Iterator[GraphTable]:
    for start in range(0, len(documents), _DOCUMENTS_PER_TABLE):
        stop = min(len(documents), start + _DOCUMENTS_PER_TABLE)
        part = (documents[number] for number in range(start, stop))
        yield sequence_table(part, first_id=start)


def _rows_as_tensors(batch: Batch) -> dict[str, torch.Tensor]:
    return {spec.name: to_torch(batch.tensors[spec.name], spec) for spec in batch.schema.tensors}

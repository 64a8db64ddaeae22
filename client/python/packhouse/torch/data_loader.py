"""A data loader for rows and for sequences of tokens, in the place of torch's."""

from __future__ import annotations

import functools
import os
from typing import Any, Final, Iterator, Mapping, Sequence

import numpy as np
import torch

from packhouse.batch import Batch, Padding, PaddingLike
from packhouse.dialects.packed_loader import length_of
from packhouse.dialects.tensors import from_torch, to_torch
from packhouse.dialects.torch_loader import TorchPackedLoader
from packhouse.graphs import Array, GraphTable
from packhouse.schema import GRAPHS, DType, GraphSchema, TensorSpec
from packhouse.tuning import DeviceProfile

TOKENS: Final = "tokens"
# What a batch of sequences has besides.
_DERIVED: Final = ("cu_seqlens", "position_ids", "segment_ids")
_SEQUENCES_PER_TABLE: Final = 1 << 14


class DataLoader(TorchPackedLoader):
    """In the place of `torch.utils.data.DataLoader`: batches are dictionaries of tensors.

        loader = packhouse.torch.DataLoader({"x": x, "y": y}, batch_size=64, shuffle=True)
        for batch in loader:
            train(batch["x"], batch["y"])

    Sequences of tokens are packed, and none is cut:

        loader = packhouse.torch.DataLoader(sequences, shuffle=True, limits={"tokens": 8192})
        for batch in loader:
            train(batch["tokens"], batch["cu_seqlens"], batch["position_ids"])

    All else is as with `packhouse.pyg.DataLoader`.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = None,
        shuffle: bool = False,
        *,
        limits: Mapping[str, int] | None = None,
        device: DeviceProfile | str | os.PathLike[str] | None = None,
        padding: PaddingLike = Padding.NONE,
        **options: Any,
    ) -> None:
        """`dataset` is one of:

        - a dictionary of arrays or tensors with equal numbers of rows;
        - a list of sequences: lists, arrays or tensors of tokens [length];
        - a list of dictionaries: what has the first one's length in each is along `tokens`, as
          `input_ids` and `labels`; numbers are of the whole sequence;
        - with an `address`, the name of a data set that the server has.

        A batch of sequences has all tokens one after the other, and `cu_seqlens` (int32 [n + 1]: where
        each begins, then the end), `position_ids` and `segment_ids` (int64: within its sequence, and
        of which it is). With padding all have one shape: spare tokens are of segment n, and
        `token_mask` is True for real ones. `limits` bound `tokens` and `graphs` (sequences). Other
        options: see `packhouse.pyg.DataLoader`.
        """
        self.dataset = dataset
        is_padded = Padding.of(padding, "padding") is not Padding.NONE
        source: Any = dataset
        if isinstance(dataset, Mapping):
            source = functools.partial(_row_tables, dataset)
        elif not isinstance(dataset, str):
            if length_of(dataset) == 0:
                raise ValueError("dataset: there is no sequence")
            source = functools.partial(_sequence_tables, dataset)
        super().__init__(
            source,
            functools.partial(_tensors_of, padding=is_padded),
            batch_size=batch_size,
            shuffle=shuffle,
            limits=limits,
            device=device,
            padding=padding,
            num_graphs=None if isinstance(dataset, Mapping) else length_of(dataset),
            **options,
        )


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


def _sequence_tables(sequences: Sequence[Any]) -> Iterator[GraphTable]:
    schema: GraphSchema | None = None
    for start in range(0, len(sequences), _SEQUENCES_PER_TABLE):
        stop = min(len(sequences), start + _SEQUENCES_PER_TABLE)
        table = _sequence_table([sequences[number] for number in range(start, stop)], start)
        if schema is not None and table.schema != schema:
            raise ValueError(f"the sequences from {start} on have other tensors than the first")
        schema = table.schema
        yield table


def _sequence_table(sequences: list[Any], first_id: int) -> GraphTable:
    first = sequences[0]
    names = list(first) if isinstance(first, Mapping) else [TOKENS]
    parts: dict[str, list[Array]] = {name: [] for name in names}
    lengths = []
    for number, sequence in enumerate(sequences, first_id):
        values = sequence if isinstance(sequence, Mapping) else {TOKENS: sequence}
        if list(values) != names:
            raise ValueError(f"sequence {number} has {list(values)}, sequence {first_id} {names}")
        length = None
        for name in names:
            array, _ = _array_of(values[name], f"sequence {number}: {name!r}")
            if array.ndim and length is None:
                length = len(array)
            if array.ndim and len(array) != length:
                raise ValueError(
                    f"sequence {number}: {name!r} has {len(array)} tokens, not {length}"
                )
            parts[name].append(array)
        if length is None:
            raise ValueError(f"sequence {number}: it is a number, no sequence of tokens")
        lengths.append(length)
    specs, columns = [], {}
    for name, arrays in parts.items():
        if name in _DERIVED:
            raise ValueError(f"{name!r}: batches have something else of this name: rename it")
        is_whole = arrays[0].ndim == 0
        column = np.stack(arrays) if is_whole else np.concatenate(arrays)
        specs.append(
            TensorSpec(name, DType.of(column.dtype), GRAPHS if is_whole else TOKENS, column.shape[1:])
        )
        columns[name] = column
    sizes = np.array(lengths, np.int64).reshape(-1, 1)
    return GraphTable(GraphSchema((TOKENS,), specs), sizes, columns, first_id=first_id)


def _tensors_of(batch: Batch, padding: bool) -> dict[str, Any]:
    rows = batch.rows if padding else batch.real_rows
    made = {
        spec.name: to_torch(batch.tensors[spec.name][: rows[spec.component]], spec)
        for spec in batch.schema.tensors
    }
    if batch.schema.components != (TOKENS,):
        return made
    lengths = batch.sizes[:, 0].astype(np.int64)
    ends = lengths.cumsum()
    spare = rows[TOKENS] - batch.real_rows[TOKENS]
    starts = np.repeat(ends - lengths, lengths)
    segments = np.repeat(np.arange(len(lengths)), lengths)
    if spare:
        starts = np.concatenate([starts, np.full(spare, batch.real_rows[TOKENS])])
        segments = np.concatenate([segments, np.full(spare, len(lengths))])
    # With padding one more, of the spare tokens; what follows are empty sequences, so that the
    # shape is the same in all batches.
    bounds = np.full((rows[GRAPHS] if padding else len(lengths)) + 1, rows[TOKENS], np.int32)
    bounds[0] = 0
    bounds[1 : len(lengths) + 1] = ends
    made["cu_seqlens"] = torch.from_numpy(bounds)
    made["position_ids"] = torch.from_numpy(np.arange(rows[TOKENS]) - starts)
    made["segment_ids"] = torch.from_numpy(segments)
    if padding:
        made["token_mask"] = torch.from_numpy(batch.mask(TOKENS))
    return made

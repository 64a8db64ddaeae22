"""A data loader for rows and for sequences of tokens, in the place of torch's.

Packed sequences come as kernels of variable length want them: see `to_sequences`.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from typing import Any, Final, Iterable, Iterator, Mapping, Sequence

import numpy as np
import torch

from packhouse.base.arguments import names_init_arguments, shows_arguments_of
from packhouse.data.batch import Batch, Padding, PaddingLike
from packhouse.data.graphs import Array, GraphTable, array_of
from packhouse.data.schema import GRAPHS, DType, GraphSchema, TensorSpec
from packhouse.epochs.acknowledging import Lease
from packhouse.frameworks.layout import Extents, notes_of
from packhouse.frameworks.packed_loader import PackedLoader
from packhouse.frameworks.tensors import from_torch, of_array, to_torch, to_torch as tensor_of
from packhouse.frameworks.torch.packed_loader import TorchPackedLoader
from packhouse.planning.tuning import DeviceProfile

TOKENS = "tokens"
# What losses leave out, in torch and in all that is built on it.
IGNORED = -100


@dataclasses.dataclass(frozen=True, eq=False)
class SequenceBatch:
    """Documents one after the other, and where each begins. `batch["input_ids"]` is a tensor.

    - `tensors`: those of the data set by name, each [rows, ...]; those of whole documents have
      [documents, ...].
    - `position_ids`: int64 [rows]: 0, 1, ... in each document.
    - `segment_ids`: int32 [rows]: 1, 2, ... for the documents, 0 for padding.
    - `cu_seqlens`: int32 [documents + 1]: the first row of each document, then the end; what
      FlashAttention's varlen kernels take. With padding, the padding rows are one document more,
      and those that are spare have no rows: its shape is that of every batch.
    - `max_seqlen`: the rows of the longest document (or what was given).
    - `labels`: int64 [rows], or None: `input_ids`, but -100 where a model that shifts labels by one
      must not predict: the first token of each document, and padding.
    - `num_documents`: the real ones. `lease`, `loss_weight`, `loss_weights`: those of a loaded batch,
      else None, 1.0 and empty; so `EpochDataset.trained` takes it.
    """

    tensors: Mapping[str, torch.Tensor]
    position_ids: torch.Tensor
    segment_ids: torch.Tensor
    cu_seqlens: torch.Tensor
    max_seqlen: int
    labels: torch.Tensor | None
    num_documents: int
    lease: Lease | None = None
    loss_weight: float = 1.0
    loss_weights: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def __getitem__(self, name: str) -> torch.Tensor:
        """The tensor of that name. Raises KeyError, which says what there is."""
        try:
            return self.tensors[name]
        except KeyError:
            raise KeyError(f"no tensor {name!r} in the batch: it has {list(self.tensors)}") from None

    def to(self, device: Any, non_blocking: bool = False) -> SequenceBatch:
        """With tensors on that device."""
        return self._with(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self, device: Any = None) -> SequenceBatch:
        """With tensors in page-locked memory; torch's DataLoader calls it."""
        return self._with(lambda tensor: tensor.pin_memory())

    def _with(self, change: Any) -> SequenceBatch:
        return dataclasses.replace(
            self,
            tensors={name: change(tensor) for name, tensor in self.tensors.items()},
            position_ids=change(self.position_ids),
            segment_ids=change(self.segment_ids),
            cu_seqlens=change(self.cu_seqlens),
            labels=None if self.labels is None else change(self.labels),
        )

    def for_transformers(self, tokens: str = "input_ids") -> dict[str, Any]:
        """The arguments of a model of Hugging Face transformers, with a batch dimension of 1.

        `cu_seq_lens_q` and its like are those of its FlashAttention 2; other attention takes
        `attention_mask()`, or documents see each other.
        """
        arguments: dict[str, Any] = {
            "input_ids": self[tokens].long()[None],
            "position_ids": self.position_ids[None],
            "cu_seq_lens_q": self.cu_seqlens,
            "cu_seq_lens_k": self.cu_seqlens,
            "max_length_q": self.max_seqlen,
            "max_length_k": self.max_seqlen,
        }
        if self.labels is not None:
            arguments["labels"] = self.labels[None]
        return arguments

    def attention_mask(self, causal: bool = True) -> torch.Tensor:
        """bool [rows, rows]: which token (first axis) sees which, for kernels that take a mask.

        Each sees those of its own document; with `causal`, those not after it. Cost: O(rows^2).
        """
        own = self.segment_ids[:, None] == self.segment_ids[None, :]
        return own.tril() if causal else own


def to_sequences(
    batch: Batch,
    *,
    tokens: str = "input_ids",
    padding: bool = False,
    labels: bool = True,
    max_seqlen: int | None = None,
) -> SequenceBatch:
    """The tensors of a packed batch of sequences, each graph of which is a document.

        limits = {"tokens": 8192, "graphs": 256}
        loader = Loader(address, dataset="corpus", job="run-1", limits=limits, padding="graph")
        epochs = EpochDataset(loader, transform=functools.partial(to_sequences, padding=True))

    `tokens` names the tensor of token ids; whatever has a row for each token goes along. Without
    `padding` the padding rows are left out. With it shapes are those of the limits: the padding rows
    are a document of their own in `cu_seqlens`, and `labels` leave them out. `max_seqlen` is then
    best given, as the same number for all batches (a compiler looks at it): the longest document,
    or the limit; None: of this batch. `labels=False`, or a data set that has a tensor `labels`,
    makes none.

    Raises KeyError if there is no such tensor; ValueError if it has no row for each token, if padding
    was asked for and no graph holds it (Padding.MASKED), or if a document is longer than
    `max_seqlen`. Cost: O(rows).
    """
    spec = next((each for each in batch.schema.tensors if each.name == tokens), None)
    if spec is None:
        names = [each.name for each in batch.schema.tensors]
        raise KeyError(f"no tensor {tokens!r} in the batch: it has {names}")
    if spec.component == GRAPHS or spec.row_shape:
        raise ValueError(f"tensor {tokens!r} has no single value for each token of a document")
    component = spec.component
    rows = (batch.rows if padding else batch.real_rows)[component]
    extents = Extents(batch, padded=padding)
    counts, offsets = extents.counts(component), extents.offsets(component)
    if offsets[-1] != rows:
        raise ValueError(
            f"batch {batch.id} has {rows - offsets[-1]} spare rows of {component!r} and no padding "
            "graph to hold them: ask for padding=Padding.GRAPH"
        )
    longest = int(counts.max(initial=0))
    if max_seqlen is not None and longest > max_seqlen:
        raise ValueError(
            f"max_seqlen is {max_seqlen}: batch {batch.id} has {longest} rows of {component!r} in a "
            "row, padding included"
        )
    starts = offsets[:-1].repeat(counts)
    segments = np.zeros(rows, np.int32)
    real_rows = batch.real_rows[component]
    segments[:real_rows] = np.arange(1, extents.num_real + 1).repeat(counts[: extents.num_real])
    tensors = {
        each.name: tensor_of(_rows_of(batch, each, padding), each)
        for each in batch.schema.tensors
        if each.component in (component, GRAPHS)
    }
    made = None
    if labels and "labels" not in tensors:
        made = tensors[tokens].to(torch.int64, copy=True)
        firsts = offsets[:-1][counts > 0]
        made[torch.from_numpy(firsts)] = IGNORED
        made[real_rows:] = IGNORED
    return SequenceBatch(
        tensors,
        of_array(np.arange(rows, dtype=np.int64) - starts),
        of_array(segments),
        of_array(offsets.astype(np.int32)),
        longest if max_seqlen is None else max_seqlen,
        made,
        extents.num_real,
        **notes_of(batch),
    )


def _rows_of(batch: Batch, spec: TensorSpec, padding: bool) -> Array:
    column = batch.tensors[spec.name]
    if spec.rows_axis:
        column = np.moveaxis(column, spec.rows_axis, 0)
    return column if padding else column[: batch.real_rows[spec.component]]


def sequence_table(documents: Iterable[Any], *, first_id: int = 0) -> GraphTable:
    """Documents as a table of graphs, to be stored: `client.datasets.append("corpus", [table])`.

    Each is a list or array of token ids, or a dict of such of one length (`input_ids`, `labels`,
    ...). Integers become int32, floating-point numbers float32. Raises ValueError naming the
    document and the key of what has another length, type or name than in the first one.
    """
    columns: dict[str, list[Array]] = {}
    lengths: list[int] = []
    for number, document in enumerate(documents):
        rows = document if isinstance(document, Mapping) else {"input_ids": document}
        arrays = {
            name: array_of(values, f"document {number}: {name!r}") for name, values in rows.items()
        }
        if not arrays or (lengths and arrays.keys() != columns.keys()):
            raise ValueError(
                f"document {number} has the keys {list(arrays)}, the first one {list(columns)}"
            )
        length = next(iter(arrays.values())).shape[:1]
        for name, array in arrays.items():
            if array.ndim != 1 or array.shape != length:
                raise ValueError(
                    f"document {number}: {name!r} has shape {array.shape}, needs {length or '[n]'}"
                )
            columns.setdefault(name, []).append(_narrowed(array, number, name))
        lengths.append(length[0])
    if not lengths:
        raise ValueError("there is no document")
    tensors = {name: np.concatenate(parts) for name, parts in columns.items()}
    schema = GraphSchema(
        (TOKENS,),
        [TensorSpec(name, DType.of(array.dtype), TOKENS) for name, array in tensors.items()],
    )
    return GraphTable(schema, np.array(lengths)[:, np.newaxis], tensors, first_id=first_id)


def _narrowed(array: Array, number: int, name: str) -> Array:
    if not array.size or array.dtype.kind in "iub":
        limits = np.iinfo(np.int32)
        if array.size and not limits.min <= array.min() <= array.max() <= limits.max:
            raise ValueError(f"document {number}: {name!r} has values beyond int32")
        return array.astype(np.int32)
    if array.dtype.kind == "f":
        return array.astype(np.float32)
    raise ValueError(f"document {number}: {name!r} has values of type {array.dtype}, needs numbers")


_DOCUMENTS_PER_TABLE: Final = 1 << 14


@names_init_arguments
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
        array = array_of(values, "the array")
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

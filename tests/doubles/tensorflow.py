"""As much of TensorFlow as the dialect of TF-GNN and its tests use, in arrays of numpy: for where it is not.

`make conformance` runs the same tests with TensorFlow itself.
"""

from __future__ import annotations

import dataclasses
import types
from typing import Any, Callable, Iterable, Iterator, Sequence

import numpy as np


@dataclasses.dataclass(frozen=True)
class _DType:
    name: str
    numpy: Any


_NUMBERS = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()
_TYPES = {name: _DType(name, np.dtype(name)) for name in _NUMBERS}
globals().update(_TYPES)
int32, float32 = _TYPES["int32"], _TYPES["float32"]
bfloat16 = _DType("bfloat16", np.dtype("uint16"))
string = _DType("string", np.dtype(object))


def _as_dtype(dtype: Any) -> _DType:
    return dtype if isinstance(dtype, _DType) else _TYPES[np.dtype(dtype).name]


dtypes = types.SimpleNamespace(as_dtype=_as_dtype)


class Tensor:
    """An array and its type."""

    def __init__(self, array: Any, dtype: _DType) -> None:
        self._array = array.astype(dtype.numpy)
        self.dtype = dtype
        self.shape = array.shape

    def numpy(self) -> Any:
        return self._array

    def __array__(self, dtype: Any = None) -> Any:
        return self._array

    def __int__(self) -> int:
        return int(self._array)

    def __len__(self) -> int:
        return len(self._array)


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    shape: Any
    dtype: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(self.shape))

    def takes(self, value: Any) -> bool:
        return isinstance(value, Tensor) and self._fits(value.shape, value.dtype)

    def _fits(self, shape: Any, dtype: Any) -> bool:
        same = (a is None or a == b for a, b in zip(self.shape, shape))
        return len(shape) == len(self.shape) and all(same) and dtype == self.dtype

    def flat(self) -> list[TensorSpec]:
        return [self]


@dataclasses.dataclass(frozen=True)
class RaggedTensorSpec(TensorSpec):
    ragged_rank: int
    row_splits_dtype: Any

    def takes(self, value: Any) -> bool:
        if not isinstance(value, RaggedTensor) or value.ragged_rank != self.ragged_rank:
            return False
        return self._fits(value.shape, value.dtype)

    def flat(self) -> list[TensorSpec]:
        inner = TensorSpec((None, *self.shape[self.ragged_rank + 1 :]), self.dtype)
        return [inner, *[TensorSpec([None], self.row_splits_dtype)] * self.ragged_rank]


class RaggedTensor:
    """Rows of values; all lengths are checked."""

    def __init__(self, values: Any, lengths: Any, uniform: int | None) -> None:
        if lengths.sum() != len(values) or (lengths < 0).any():
            raise ValueError(f"lengths {lengths} of {len(values)} values")
        self.values, self.dtype = values, values.dtype
        self.uniform_row_length = uniform
        self._lengths = Tensor(lengths, int32)

    @classmethod
    def from_row_lengths(cls, values: Any, lengths: Any, validate: bool = True) -> RaggedTensor:
        return cls(values, np.asarray(lengths), None)

    @classmethod
    def from_uniform_row_length(
        cls, values: Any, length: Any, nrows: Any, validate: bool = True
    ) -> RaggedTensor:
        return cls(values, np.full(int(nrows), int(length)), int(length))

    def row_lengths(self) -> Tensor:
        return self._lengths

    def nested_row_lengths(self) -> list[Tensor]:
        is_ragged = isinstance(self.values, RaggedTensor)
        return [self._lengths, *(self.values.nested_row_lengths() if is_ragged else [])]

    def uniform_lengths(self) -> list[int | None]:
        is_ragged = isinstance(self.values, RaggedTensor)
        return [self.uniform_row_length, *(self.values.uniform_lengths() if is_ragged else [])]

    @property
    def flat_values(self) -> Tensor:
        return self.values.flat_values if isinstance(self.values, RaggedTensor) else self.values

    ragged_rank = property(lambda self: len(self.nested_row_lengths()))
    shape = property(
        lambda self: (len(self), *self.uniform_lengths(), *self.flat_values.shape[1:])
    )

    def __len__(self) -> int:
        return len(self._lengths)


def ragged_of(flat: Tensor, lengths: Sequence[Any], uniform: Sequence[int | None]) -> Any:
    """The values in rows of those lengths, outermost first."""
    made: Any = flat
    for each, length in zip(reversed(lengths), reversed(uniform)):
        made = RaggedTensor(made, np.asarray(each), length)
    return made


def constant(value: Any, dtype: Any = None, shape: Any = None) -> Tensor:
    if isinstance(value, Tensor):
        value, dtype = value.numpy(), dtype or value.dtype
    if dtype is string:
        array = np.array(value, object)
    else:
        array = np.asarray(value)
        usual = {"float64": float32, "int64": int32}.get(array.dtype.name)
        made = not isinstance(value, (np.ndarray, np.generic))
        dtype = _as_dtype(dtype or (usual if made and usual else array.dtype))
    if shape is not None:
        array = array.reshape(shape)
    if dtype is string:
        coded = [each.encode() if isinstance(each, str) else each for each in array.reshape(-1)]
        array = np.array([*coded, None], object)[:-1].reshape(array.shape)
    return Tensor(array, dtype)


def convert_to_tensor(value: Any, dtype: Any) -> Tensor:
    dtype = _as_dtype(dtype)
    kinds = {"b": "b", "i": "iu", "u": "iu", "f": "iuf"}
    kind = "f" if dtype is bfloat16 else dtype.numpy.kind
    if np.asarray(value).dtype.kind not in kinds[kind]:
        raise TypeError(f"cannot convert {value!r} to {dtype.name}")
    if dtype is bfloat16:
        return Tensor((np.asarray(value, np.float32).view(np.uint32) >> 16), bfloat16)
    return Tensor(np.asarray(value), dtype)


def bitcast(value: Tensor, dtype: _DType) -> Tensor:
    return Tensor(value.numpy().view(dtype.numpy), dtype)


def _mapped(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if not isinstance(value, RaggedTensor):
        return change(value)
    return ragged_of(change(value.flat_values), value.nested_row_lengths(), value.uniform_lengths())


def cast(value: Any, dtype: _DType) -> Any:
    return _mapped(value, lambda flat: Tensor(flat.numpy(), dtype))


def reshape(value: Tensor, shape: Any) -> Tensor:
    return Tensor(value.numpy().reshape(tuple(shape)), value.dtype)


def ones(shape: Any, dtype: _DType = float32) -> Tensor:
    return Tensor(np.ones(shape), dtype)


def zeros(shape: Any, dtype: _DType = float32) -> Tensor:
    return Tensor(np.full(shape, b"", object) if dtype is string else np.zeros(shape), dtype)


def _ragged_constant(
    rows: Any, dtype: _DType, rank: int, inner: Any, row_splits_dtype: Any
) -> RaggedTensor:
    lengths = []
    for _ in range(rank):
        lengths.append(np.array([len(row) for row in rows], np.int32))
        rows = [each for row in rows for each in row]
    made: RaggedTensor = ragged_of(constant(rows, dtype, (len(rows), *inner)), lengths, [None] * rank)
    return made


ragged = types.SimpleNamespace(
    constant=_ragged_constant, map_flat_values=lambda change, value: _mapped(value, change)
)
strings = types.SimpleNamespace(
    length=lambda value: Tensor(np.frompyfunc(len, 1, 1)(value.numpy()), int32)
)


def _flatten(structure: Any, expand_composites: bool) -> list[Any]:
    flat: list[Any] = structure.flat()
    return flat


def _pack(structure: Any, parts: Sequence[Any], expand_composites: bool) -> Any:
    return structure.packed(iter(parts))


nest = types.SimpleNamespace(flatten=_flatten, pack_sequence_as=_pack)


class _Dataset:
    def __init__(self, make: Callable[[], Iterable[Any]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[Any]:
        return iter(self._make())

    @classmethod
    def from_generator(cls, generator: Any, output_signature: Any) -> _Dataset:
        def checked() -> Iterator[Any]:
            for parts in generator():
                made = tuple(each if isinstance(each, Tensor) else constant(each) for each in parts)
                if len(made) != len(output_signature):
                    raise TypeError(f"{len(made)} parts, not {len(output_signature)}")
                for part, spec in zip(made, output_signature):
                    if not spec.takes(part):
                        raise TypeError(f"{part.shape} of {part.dtype} is not {spec}")
                yield made

        return cls(checked)

    def map(self, change: Any) -> _Dataset:
        return _Dataset(lambda: (change(*parts) for parts in self))

    def batch(self, count: int) -> _Dataset:
        def batches() -> Iterator[Any]:
            items = list(self)
            for first in range(0, len(items), count):
                yield items[0].batch_of(items[first : first + count])

        return _Dataset(batches)


data = types.SimpleNamespace(Dataset=_Dataset)

"""Tensors that travel in a narrow type, in their own."""

from __future__ import annotations

from typing import Any, Final, Iterator, Mapping

import numpy as np

from packhouse.base.aligned import aligned_empty
from packhouse.data.graphs import Array
from packhouse.data.schema import DType

# In which integers may travel: packhouse.v1.INTEGER_WIDTH_COMPACT.
_NARROW: Final = (DType.UINT8, DType.INT16, DType.INT32)

def declared_type(name: str, dtype: int, declared: int) -> np.dtype[Any] | None:
    """The type in which a tensor is to be given, by numbers of `packhouse.v1.DataType`; None if it
    travels in its own. Raises ValueError if it cannot travel so.
    """
    if declared == 0:
        return None
    narrow, wide = DType(dtype), DType(declared)
    if (
        narrow not in _NARROW
        or not wide.is_integer
        or wide.numpy.itemsize <= narrow.numpy.itemsize
    ):
        raise ValueError(f"tensor {name!r} of {wide.name.lower()} comes as {narrow.name.lower()}")
    return wide.numpy


class WideTensors(Mapping[str, Array]):
    """Arrays by name, each made from a narrow one when it is first asked for.

    They are arrays of their own: writable, and at a multiple of 64 bytes. Tensors that travel in
    their own type are as they came. Not thread-safe.
    """

    def __init__(self, narrow: Mapping[str, Array], declared: Mapping[str, np.dtype[Any]]) -> None:
        """`declared` has the types of those that are to be widened."""
        self._narrow = narrow
        self._declared = declared
        self._wide: dict[str, Array] = {}

    def __getitem__(self, name: str) -> Array:
        wide = self._wide.get(name)
        if wide is not None:
            return wide
        narrow = self._narrow[name]
        declared = self._declared.get(name)
        if declared is None:
            return narrow
        wide = aligned_empty(narrow.shape, declared)
        # The server sends no value that the type lacks; int16 to uint64 is "unsafe" for numpy.
        np.copyto(wide, narrow, casting="unsafe")
        self._wide[name] = wide
        return wide

    def __iter__(self) -> Iterator[str]:
        return iter(self._narrow)

    def __len__(self) -> int:
        return len(self._narrow)

    def __contains__(self, name: object) -> bool:
        return name in self._narrow

    def sources(self) -> Iterator[tuple[str, Array, np.dtype[Any]]]:
        """Name, an array with the values, and the tensor's own type; nothing is widened."""
        for name, narrow in self._narrow.items():
            array = self._wide.get(name, narrow)
            yield name, array, self._declared.get(name, narrow.dtype)


def sources_of(tensors: Mapping[str, Array]) -> list[tuple[str, Array, np.dtype[Any]]]:
    """Of each tensor its name, an array with its values, and the type in which it is given.

    For those who copy all of them: one copy widens them, too.
    """
    if isinstance(tensors, WideTensors):
        return list(tensors.sources())
    return [(name, array, array.dtype) for name, array in tensors.items()]

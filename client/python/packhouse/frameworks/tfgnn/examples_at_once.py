"""Many tf.Examples at once, by numpy: loops go over keys and over places, never over graphs.

It takes records as every writer makes them: one list of features, each key once and before its
value, numbers packed, all as the schema wants it. For anything else it raises Unusual, and records
are read one by one (example_decoding.py), which takes what is allowed and names what is wrong.
"""

from __future__ import annotations

import math
from typing import Any, Final, Sequence

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from packhouse.data.graphs import Array
from packhouse.data.schema import GRAPHS, DType, TensorSpec

MAX_COUNT: Final = (1 << 32) - 1
MAX_LENGTH: Final = (1 << 31) - 1
# The most bytes of rows of one graph: a record of 20 bytes can declare four billion empty rows.
MAX_GRAPH_BYTES: Final = 1 << 30


def is_float(dtype: DType) -> bool:
    """Whether a tf.Example has it as floats."""
    return dtype.numpy.kind == "f" or dtype is DType.BFLOAT16


def range_of(dtype: DType) -> tuple[int, int] | None:
    """The least and the largest number that an int64 becomes in it; None where all do."""
    if dtype is DType.BOOL or dtype.numpy.itemsize == 8:
        return None
    bounds = np.iinfo(dtype.numpy)
    return int(bounds.min), int(bounds.max)


def converted(values: Array, dtype: DType) -> Array:
    """Floats, or int64s in the range of the type, as this type."""
    if dtype is DType.BOOL:
        flags: Array = values != 0
        return flags
    if dtype is not DType.BFLOAT16:
        # Beyond float16: infinity, as the service has it.
        with np.errstate(over="ignore", invalid="ignore"):
            return values.astype(dtype.numpy)
    # To the nearest, and among two to the even one; NaN stays NaN.
    bits = values.view("<u4")
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    halves: Array = np.where(np.isnan(values), (bits >> 16) | 0x40, rounded).astype("<u2")
    return halves


# Field 1 of a message: its number, and that it has a length. Fields 2 and 3 come after it.
_FIRST: Final = 0x0A
_STEP: Final = 0x08
_STRINGS, _FLOATS, _INT64S = 1, 2, 3
# A length of five bytes may begin in the last byte of a record.
_BEYOND: Final = 16
# Steps that go over the entries of each record, beyond twice the keys of the schema.
_SPARE_ENTRIES: Final = 64

_Places = npt.NDArray[np.int64]


class Unusual(Exception):
    """These records have to be read one by one."""


def _check(holds: Any) -> None:
    if not np.all(holds):
        raise Unusual


def _sums(values: Array, counts: _Places) -> _Places:
    """The sums of the first counts[0] values, of the next counts[1], and so on."""
    sums: _Places = np.concatenate([[0], np.cumsum(values, dtype=np.int64)])
    ends = np.cumsum(counts)
    of_each: _Places = sums[ends] - sums[ends - counts]
    return of_each


class _Lists:
    """The lists of these keys, by record. Raises Unusual."""

    def __init__(self, examples: Sequence[bytes], keys: Sequence[str]) -> None:
        self.num_records = len(examples)
        try:
            joined = b"".join(examples) + bytes(_BEYOND)
        except TypeError:
            raise Unusual from None
        self._bytes = np.frombuffer(joined, np.uint8)
        self._keys = {key: number for number, key in enumerate(keys)}
        sizes = np.fromiter(map(len, examples), np.int64, len(examples))
        ends = np.cumsum(sizes)
        shape = (len(keys), len(examples))
        # 0: no list.
        self._kinds = np.zeros(shape, np.uint8)
        # Places of packed numbers; of the first string, and of the end of the last.
        self._begins = np.zeros(shape, np.int64)
        self._ends = np.zeros(shape, np.int64)
        self._read(ends - sizes, ends)

    def has_values(self, key: str) -> npt.NDArray[np.bool_]:
        """Records where a list is there, of whatever kind, and not empty."""
        number = self._keys[key]
        there: npt.NDArray[np.bool_] = self._begins[number] < self._ends[number]
        return there

    def is_int64s(self, key: str) -> npt.NDArray[np.bool_]:
        """Records where a list of int64s is there, maybe an empty one."""
        is_there: npt.NDArray[np.bool_] = self._kinds[self._keys[key]] == _INT64S
        return is_there

    def int64s(self, key: str) -> tuple[_Places, _Places]:
        """How many each record has, and all of them."""
        return self._numbers(*self._wanted(key, _INT64S))

    def floats(self, key: str, row: int) -> tuple[_Places, Array]:
        """How many each record has, and all of them. Unusual if they are no rows of so many."""
        begins, ends = self._wanted(key, _FLOATS)
        sizes = ends - begins
        _check(sizes % (4 * row) == 0)
        rows = np.ascontiguousarray(self._gather(begins, ends, 4 * row))
        return sizes // 4, rows.reshape(-1).view("<f4")

    def strings(self, key: str) -> tuple[_Places, _Places, _Places, Array]:
        """How many strings each record has, and how many bytes; the lengths of all, their bytes."""
        owner, text, stop = self._strings(*self._wanted(key, _STRINGS))
        # By record, and as they come.
        order = np.argsort(owner, kind="stable")
        text, stop = text[order], stop[order]
        counts = np.bincount(owner, minlength=self.num_records)
        lengths = stop - text
        return counts, _sums(lengths, counts), lengths, self._gather(text, stop)

    def _wanted(self, key: str, kind: int) -> tuple[_Places, _Places]:
        number = self._keys[key]
        begins, ends = self._begins[number], self._ends[number]
        _check((self._kinds[number] == kind) | (begins == ends))
        return begins, ends

    def _fields(self, at: _Places, end: _Places) -> tuple[Array, _Places, _Places]:
        """The fields at these places, which are before `end`: tags, where they begin and stop."""
        tags = self._bytes[at]
        byte = self._bytes[at + 1].astype(np.int64)
        length, begin, shift = byte & 127, at + 2, 7
        going = byte > 127
        while going.any():
            if shift > 28:
                raise Unusual
            byte = np.where(going, self._bytes[begin], 0).astype(np.int64)
            length |= (byte & 127) << shift
            begin = begin + going
            shift += 7
            going = byte > 127
        stop = begin + length
        _check(stop <= end)
        return tags, begin, stop

    def _only_field(self, at: _Places, end: _Places) -> tuple[_Places, _Places, _Places]:
        """Of messages that are empty or have one field: its number, 0 without one; its place."""
        there = np.flatnonzero(at < end)
        tags, begin, stop = self._fields(at[there], end[there])
        _check((stop == end[there]) & (tags % _STEP == _FIRST % _STEP))
        numbers = np.zeros(len(at), np.int64)
        begins, ends = at.copy(), end.copy()
        numbers[there], begins[there], ends[there] = tags // _STEP, begin, stop
        return numbers, begins, ends

    def _gather(self, begins: _Places, ends: _Places, width: int = 1) -> Array:
        """What is at these places, joined, as rows of so many bytes."""
        rows = (ends - begins) // width
        total = int(rows.sum())
        if total == 0:
            return np.zeros((0, width), np.uint8)
        places = np.arange(total) * width
        places += np.repeat(begins - (np.cumsum(rows) - rows) * width, rows)
        gathered: Array = sliding_window_view(self._bytes, width)[places]
        return gathered

    def _numbers(self, begins: _Places, ends: _Places) -> tuple[_Places, _Places]:
        """Packed varints: how many are at each place, and all of them."""
        data = self._gather(begins, ends).reshape(-1)
        is_last = data < 128
        counts = _sums(is_last, ends - begins)
        last = np.flatnonzero(is_last)
        _check(len(data) == 0 or is_last[-1])
        first = np.concatenate([[0], last[:-1] + 1]) if len(last) else last
        longest = int((last - first).max(initial=0)) + 1
        if longest > 10:
            raise Unusual
        values = (data[first] & 127).astype(np.uint64)
        for place in range(1, longest):
            longer = np.flatnonzero(last - first >= place)
            part = (data[first[longer] + place] & 127).astype(np.uint64)
            values[longer] |= part << np.uint64(7 * place)
        return counts, values.view(np.int64)

    def _strings(self, begins: _Places, ends: _Places) -> tuple[_Places, _Places, _Places]:
        """As _repeated. Long lists in few records are read faster one by one."""
        return self._repeated(begins, ends, 16 + 4 * self.num_records)

    def _repeated(
        self, begins: _Places, ends: _Places, most: int
    ) -> tuple[_Places, _Places, _Places]:
        """Of all fields in messages that have nothing but the field 1: whose each is, its place."""
        owner = np.flatnonzero(begins < ends)
        at, end = begins[owner], ends[owner]
        none = np.zeros(0, np.int64)
        owners, starts, stops = [none], [none], [none]
        while len(owner):
            if len(owners) > most:
                raise Unusual
            tags, start, stop = self._fields(at, end)
            _check(tags == _FIRST)
            owners.append(owner)
            starts.append(start)
            stops.append(stop)
            going = stop < end
            owner, at, end = owner[going], stop[going], end[going]
        return np.concatenate(owners), np.concatenate(starts), np.concatenate(stops)

    def _read(self, begins: _Places, ends: _Places) -> None:
        numbers, begins, ends = self._only_field(begins, ends)
        _check(numbers <= 1)
        owner, keys, values = self._entries(begins, ends)
        number = self._key_numbers(*keys)
        known = number >= 0
        place = number[known] * self.num_records + owner[known]
        _check(np.bincount(place, minlength=1) <= 1)
        kinds, begins, ends = self._only_field(*values)
        _check(kinds <= _INT64S)
        packed = np.flatnonzero(kinds > _STRINGS)
        tags, begins[packed], ends[packed] = self._only_field(begins[packed], ends[packed])
        _check(tags <= 1)
        floats = kinds == _FLOATS
        _check((ends[floats] - begins[floats]) % 4 == 0)
        # A number ends in its list.
        is_list = (kinds == _INT64S) & (begins < ends)
        _check(self._bytes[ends[is_list] - 1] < 128)
        # What no one wants must be right all the same.
        for kind, read in ((_INT64S, self._numbers), (_STRINGS, self._strings)):
            others = ~known & (kinds == kind)
            read(begins[others], ends[others])
        self._kinds.reshape(-1)[place] = kinds[known]
        self._begins.reshape(-1)[place] = begins[known]
        self._ends.reshape(-1)[place] = ends[known]

    def _entries(
        self, begins: _Places, ends: _Places
    ) -> tuple[_Places, tuple[_Places, _Places], tuple[_Places, _Places]]:
        """The record, the key and the value of each entry."""
        owners, at, end = self._repeated(begins, ends, 2 * len(self._keys) + _SPARE_ENTRIES)
        _check(at < end)
        tags, key, key_end = self._fields(at, end)
        _check((tags == _FIRST) & (key_end < end))
        tags, value, value_end = self._fields(key_end, end)
        _check((tags == _FIRST + _STEP) & (value_end == end))
        return owners, (key, key_end), (value, value_end)

    def _key_numbers(self, begins: _Places, ends: _Places) -> _Places:
        """The number of each key; -1 for one that no one wants."""
        numbers = np.full(len(begins), -1)
        lengths = ends - begins
        by_length: dict[int, list[tuple[int, bytes]]] = {}
        for key, number in self._keys.items():
            by_length.setdefault(len(key.encode()), []).append((number, key.encode()))
        for length in np.unique(lengths[lengths > 0]).tolist():
            mine = np.flatnonzero(lengths == length)
            text = sliding_window_view(self._bytes, length)[begins[mine]]
            _check(text < 128)  # Else it might be no UTF-8.
            for number, name in by_length.get(length, ()):
                same = (text == np.frombuffer(name, np.uint8)).all(axis=1)
                numbers[mine[same]] = number
        return numbers


class Records:
    """Many records; the same calls as for one (example_decoding.py), with an array for a number.

    Raises Unusual. Cost: some hundred microseconds a key, and some nanoseconds a number.
    """

    def __init__(self, examples: Sequence[bytes], keys: Sequence[str]) -> None:
        # Rows of each record, by component.
        self.counts: dict[str, Any] = {}
        # Rows of all records, by tensor.
        self.columns: dict[str, Array] = {}
        self._lists = _Lists(examples, keys)
        self._bytes = np.zeros(len(examples), np.int64)

    def tuples(self, components: Sequence[str]) -> Array:
        """The sizes of each graph."""
        none = np.zeros(self._lists.num_records, np.int64)
        return np.stack([self.counts.get(name, none) for name in components], axis=1)

    def rows(self, component: str) -> Any:
        """Rows of a set; 1 of the context."""
        if component == GRAPHS:
            return np.ones(self._lists.num_records, np.int64)
        return self.counts[component]

    def size(self, key: str) -> _Places:
        """The values of a `#size`; 0 without one."""
        counts, values = self._lists.int64s(key)
        _check(counts == self._lists.is_int64s(key))
        _check((values >= 0) & (values <= MAX_COUNT))
        sizes = np.zeros(len(counts), np.int64)
        sizes[counts == 1] = values
        return sizes

    def has_nothing(self, keys: Sequence[str]) -> Any:
        """Whether none of the keys has a value."""
        return ~np.any([self._lists.has_values(key) for key in keys], axis=0)

    def append_ends(self, key: str, spec: TensorSpec) -> None:
        """The rows in which edges end."""
        counts, ends = self._lists.int64s(key)
        _check(counts == self.counts[spec.component])
        bound = np.minimum(self.counts[str(spec.index_into)], MAX_LENGTH + 1)
        _check((ends >= 0) & (ends < np.repeat(bound, counts)))
        self._append(spec, counts, ends.astype(np.int32))

    def append_lengths(self, key: str, spec: TensorSpec, rows: Any, nothing: Any) -> Any:
        """The lengths of a ragged dimension; returns their sums."""
        needed = rows * math.prod(spec.row_shape)
        counts, lengths = self._lists.int64s(key)
        _check(counts == np.where(nothing, 0, needed))
        _check((lengths >= 0) & (lengths <= MAX_LENGTH))
        sums = _sums(lengths, counts)
        _check(sums <= MAX_COUNT)
        self._grow(4 * needed)
        column = np.zeros(int(needed.sum()), np.int32)
        column[np.repeat(~nothing, needed)] = lengths
        self.columns[spec.name] = column.reshape(spec.array_shape(int(np.sum(rows))))
        return sums

    def append_text(self, key: str, lengths: TensorSpec, values: TensorSpec, rows: Any) -> None:
        """The strings of a feature, and the lengths of each."""
        counts, sizes, of_strings, text = self._lists.strings(key)
        _check(counts == rows * math.prod(lengths.row_shape))
        self._append(lengths, rows, of_strings.astype(np.int32))
        self.counts[values.component] = sizes
        self._append(values, sizes, text)

    def append_values(self, key: str, spec: TensorSpec, rows: Any, _: str) -> None:
        """The numbers of a feature."""
        row = math.prod(spec.row_shape)
        if is_float(spec.dtype):
            counts, values = self._lists.floats(key, row)
        else:
            counts, values = self._lists.int64s(key)
            bounds = range_of(spec.dtype)
            if bounds is not None:
                _check((values >= bounds[0]) & (values <= bounds[1]))
        _check(counts == rows * row)
        self._append(spec, rows, converted(values, spec.dtype))

    def _append(self, spec: TensorSpec, rows: Any, values: Array) -> None:
        self._grow(rows * (math.prod(spec.row_shape) * spec.dtype.numpy.itemsize))
        self.columns[spec.name] = values.reshape(spec.array_shape(int(np.sum(rows))))

    def _grow(self, nbytes: Any) -> None:
        self._bytes = self._bytes + nbytes
        _check(self._bytes <= MAX_GRAPH_BYTES)
        # Not for many that would take so much together, either.
        _check(self._bytes.sum() <= MAX_GRAPH_BYTES)

"""Graphs from MDS shards of MosaicML's streaming: `.mds` files, or a folder with their index.json.

Each sample is a graph, and its columns are the arrays (see `packhouse.files.frames`): `ndarray`,
whole numbers, floating-point numbers, `json`; text, bytes and images have to be left out by name,
and `pkl` needs `--trust-pickle`. The format is read here, since MosaicML's package brings the clients of
every cloud; shards that are compressed are read with gzip, or with zstandard if it is there.

A shard is: the number of samples, where each begins and the last ends (uint32, little-endian), JSON of
its columns, then the samples. A sample is: the sizes of its columns without a fixed one (uint32), then
the columns.
"""

from __future__ import annotations

import gzip
import json
import os
from typing import Any, BinaryIO, Final, Iterator, NamedTuple, Union

import numpy as np

from packhouse.files import frames, pickles
from packhouse.files.frames import Item, Malformed, Sample

ENDINGS: Final = (".mds", ".mds.gz", ".mds.zstd", "index.json")

_INDEX: Final = "index.json"
_SHAPE_TYPES: Final = ("<u1", "<u2", "<u4", "<u8")
# By the byte before an array whose type is its own.
_TYPES: Final = {
    8: "uint8", 9: "int8", 16: "uint16", 17: "int16", 18: "float16", 32: "uint32", 33: "int32",
    34: "float32", 64: "uint64", 65: "int64", 66: "float64",
}
_SCALARS: Final = frozenset(_TYPES.values())
_INT: Final = "int"


def is_folder(name: str) -> bool:
    """Whether it is a folder of such shards."""
    return os.path.isfile(os.path.join(name, _INDEX))


def items(name: str, trust_pickle: bool) -> Iterator[Item]:
    """The graphs of a shard or a folder. Raises OSError, ValueError naming the file, and
    PermissionError for a column of pickles unless `trust_pickle`."""
    return frames.of_samples(_samples(name, trust_pickle))


def _samples(name: str, trust_pickle: bool) -> Iterator[Union[Sample, Malformed]]:
    if is_folder(name):
        name = os.path.join(name, _INDEX)
    if os.path.basename(name) != _INDEX:
        yield from _of_shard(name, "", trust_pickle)
        return
    for shard in _shards(name):
        yield from _of_shard(shard, f"{os.path.basename(shard)}, ", trust_pickle)


def _shards(name: str) -> list[str]:
    folder = os.path.dirname(name)
    found = []
    try:
        with open(name, encoding="utf-8") as file:
            shards = json.load(file)["shards"]
        for shard in shards:
            if shard["format"] != "mds":
                raise ValueError(f"a shard has the format {shard['format']!r}, not 'mds'")
            files = [shard[key] for key in ("raw_data", "zip_data") if shard.get(key)]
            paths = [os.path.join(folder, file["basename"]) for file in files]
            if not paths:
                raise ValueError("a shard has neither raw_data nor zip_data")
            found.append(next((path for path in paths if os.path.exists(path)), paths[0]))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{name}: is no index of MDS shards: {error}") from error
    return found


def _opened(name: str) -> Any:
    if name.endswith(".gz"):
        return gzip.open(name, "rb")
    if name.endswith(".zstd"):
        try:
            import zstandard
        except ImportError as error:
            raise ImportError(f"{name}: zstandard is needed to read it") from error
        return zstandard.open(name, "rb")
    return open(name, "rb")


class _Columns(NamedTuple):
    names: list[str]
    encodings: list[str]
    sizes: list[int | None]


def _of_shard(name: str, before: str, trust_pickle: bool) -> Iterator[Union[Sample, Malformed]]:
    with _opened(name) as file:
        ends, columns = _header(name, file)
        if "pkl" in columns.encodings:
            pickles.check_trusted(name, trust_pickle)
        for number, size in enumerate(np.diff(ends).tolist()):
            where = f"{before}sample {number}"
            content = file.read(size)
            if len(content) < size:
                raise ValueError(f"{name}: {where}: the file ends within it")
            try:
                yield Sample(where, _decoded(content, columns))
            except (ValueError, KeyError, IndexError, TypeError) as error:
                yield Malformed(where, f"cannot be read: {error}")


def _header(name: str, file: BinaryIO) -> tuple[Any, _Columns]:
    try:
        (number,) = np.frombuffer(file.read(4), "<u4")
        # Of what is no shard, a number may be anything.
        ends = np.frombuffer(file.read(4 * (int(number) + 1)), "<u4").astype(np.int64)
        if len(ends) != number + 1 or (np.diff(ends) < 0).any():
            raise ValueError("its samples do not follow each other")
        made = json.loads(file.read(int(ends[0]) - 4 - 4 * len(ends)))
        columns = _Columns(
            *(list(made[f"column_{key}"]) for key in ("names", "encodings", "sizes"))
        )
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise ValueError(f"{name}: is no MDS shard: {error}") from error
    return ends, columns


def _decoded(content: bytes, columns: _Columns) -> dict[str, Any]:
    num_own = sum(size is None for size in columns.sizes)
    own = iter(np.frombuffer(content[: 4 * num_own], "<u4").tolist())
    at = 4 * num_own
    arrays: dict[str, Any] = {}
    for name, encoding, size in zip(*columns):
        size = next(own) if size is None else size
        part = content[at : at + size]
        at += size
        if encoding == "pkl":
            arrays.update(pickles.arrays_of(part))
            continue
        value = _value(part, encoding)
        if isinstance(value, dict):
            arrays.update({key: np.asarray(one) for key, one in value.items()})
        else:
            arrays[name] = np.asarray(value)
    return arrays


def _value(part: bytes, encoding: str) -> Any:
    if encoding == _INT:
        return np.frombuffer(part, "<i8")[0]
    if encoding in _SCALARS:
        return np.frombuffer(part, np.dtype(encoding).newbyteorder("<"))[0]
    if encoding == "json":
        return json.loads(part)
    if encoding in ("str_int", "str_float"):
        return (int if encoding == "str_int" else float)(part)
    if encoding.partition(":")[0] == "ndarray":
        return _array(part, encoding.split(":")[1:])
    return part


def _array(part: bytes, fixed: list[str]) -> Any:
    at = 0
    if fixed:
        dtype = fixed[0]
    else:
        dtype, at = _TYPES[part[0]], 1
    if len(fixed) > 1:
        shape = tuple(map(int, fixed[1].split(",")))
    else:
        extents, kind = part[at] >> 2, np.dtype(_SHAPE_TYPES[part[at] & 3])
        at += 1
        shape = tuple(np.frombuffer(part, kind, extents, at).tolist())
        at += extents * kind.itemsize
    return np.frombuffer(part[at:], np.dtype(dtype).newbyteorder("<")).reshape(shape)

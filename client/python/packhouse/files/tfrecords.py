"""TFRecord files, several as one, plain or compressed by gzip, without TensorFlow.

    for record in read(files_of("train-*.tfrecord")):
        decode(record.data)

    with Writer(files_to_write("out.tfrecord.gz@4")) as writer:
        writer.write(data)
"""

from __future__ import annotations

import contextlib
import glob
import gzip
import os
import struct
import zlib
from typing import IO, Any, Final, Iterable, Iterator, NamedTuple, Sequence

try:
    from packhouse._native import crc32c as _crc32c
except ImportError:
    _crc32c = None  # type: ignore[assignment]

_MAX_SHARDS: Final = 99_999
_MAX_RECORD_BYTES: Final = 1 << 31
_MASK_DELTA: Final = 0xA282EAD8
_HEADER: Final = struct.Struct("<QI")
_FOOTER: Final = struct.Struct("<I")
_BUFFER_BYTES: Final = 1 << 20
_GZIP: Final = b"\x1f\x8b"


class Record(NamedTuple):
    """One record, the file that it is in, and its number there."""

    path: str
    number: int
    data: bytes


def files_of(pattern: str | os.PathLike[str]) -> list[str]:
    """The files that a pattern means, by name: a file; a glob, as in `train-*.tfrecord`; or
    `train.tfrecord@10`, which is train.tfrecord-00000-of-00010 and the nine others.

    Raises FileNotFoundError naming the pattern if nothing matches, or the first shard that is
    missing; ValueError for a number of shards that is not in [1, 99999].
    """
    name = os.fspath(pattern)
    if os.path.exists(name):  # A file may be called anything.
        return [name]
    shards = _shards_of(name)
    for shard in shards:
        if not os.path.exists(shard):
            raise FileNotFoundError(f"'{name}': {shard} is not there")
    found = shards or sorted(glob.glob(name))
    if not found:
        raise FileNotFoundError(f"'{name}': no such file")
    return found


def files_to_write(name: str | os.PathLike[str]) -> list[str]:
    """`name` itself, or all shards of `name@N`. Raises ValueError as `files_of`."""
    return _shards_of(os.fspath(name)) or [os.fspath(name)]


def read(paths: Iterable[str | os.PathLike[str]]) -> Iterator[Record]:
    """The records of some files, one after the other. Holds one record, and a piece of a file.

    Raises OSError for a file that cannot be read; ValueError naming file, record and offset for
    damage: a checksum that does not match, a file that ends early, compressed data that is broken.
    """
    for path in paths:
        yield from _read_file(os.fspath(path))


class Writer:
    """Writes records to files in turn, so that shards differ by one record at most.

    Leaving the `with` block gives the files their names, which end in `.part` until then; an
    exception removes them. Files whose names end in `.gz`, before the number of the shard, are
    compressed. Raises OSError.
    """

    def __init__(self, paths: Sequence[str | os.PathLike[str]]) -> None:
        self._paths = [os.fspath(path) for path in paths]
        self._files: list[IO[bytes] | _Compressed] = []
        self._next = 0
        try:
            for path in self._paths:
                self._files.append(_create(path))
        except BaseException:
            self._discard()
            raise

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: object, *exc_info: object) -> None:
        if kind is not None:
            self._discard()
            return
        try:
            for file in self._files:
                file.close()
            for path in self._paths:
                os.replace(f"{path}.part", path)
        except BaseException:
            self._discard()
            raise

    def write(self, data: bytes) -> None:
        """One record."""
        file = self._files[self._next]
        self._next = (self._next + 1) % len(self._files)
        length = struct.pack("<Q", len(data))
        file.write(length + _FOOTER.pack(_masked_crc(length)))
        file.write(data)
        file.write(_FOOTER.pack(_masked_crc(data)))

    def _discard(self) -> None:
        for file, path in zip(self._files, self._paths):
            with contextlib.suppress(OSError):
                file.close()
            with contextlib.suppress(OSError):
                os.unlink(f"{path}.part")


def _shards_of(name: str) -> list[str]:
    """The shards of `base@N`; none if the name is not of that form."""
    base, at, number = name.rpartition("@")
    if not at or "/" in number:
        return []
    shards = int(number) if number.isascii() and number.isdecimal() else 0
    if not 1 <= shards <= _MAX_SHARDS:
        raise ValueError(
            f"'{name}': after the @ there must be the number of shards, from 1 to {_MAX_SHARDS}"
        )
    return [f"{base}-{shard:05}-of-{shards:05}" for shard in range(shards)]


def _create(path: str) -> IO[bytes] | _Compressed:
    part = f"{path}.part"
    if path.endswith(".gz") or ".gz-" in path:
        # Without the time and the name of the part: the same records give the same bytes.
        compressed = gzip.GzipFile("", "wb", 6, open(part, "wb"), mtime=0)
        return _Compressed(compressed)
    return open(part, "wb", buffering=_BUFFER_BYTES)


class _Compressed:
    """A compressed file, and the one that it writes into."""

    def __init__(self, file: gzip.GzipFile) -> None:
        self._file = file
        self._below: Any = file.fileobj

    def write(self, data: bytes) -> int:
        return self._file.write(data)

    def close(self) -> None:
        try:
            self._file.close()
        finally:
            self._below.close()


def _read_file(path: str) -> Iterator[Record]:
    number = offset = 0

    def damage(what: str, head: bytes = b"") -> ValueError:
        hint = ""
        # RFC 1950: deflate with a window of 32 KiB, and a checksum of both bytes.
        if offset == 0 and head[:1] == b"\x78" and int.from_bytes(head[:2], "big") % 31 == 0:
            hint = (
                "; it looks compressed by ZLIB: files that are plain, or compressed by GZIP, are read"
            )
        return ValueError(f"{path}: record {number} at offset {offset}: {what}{hint}")

    with open(path, "rb", buffering=_BUFFER_BYTES) as plain:
        is_gzip = plain.read(2) == _GZIP
        plain.seek(0)
        file: IO[bytes] = gzip.open(plain) if is_gzip else plain  # type: ignore[assignment]
        try:
            while header := _read(file, _HEADER.size):
                if len(header) < _HEADER.size:
                    raise damage(f"the file ends after {len(header)} bytes of it", header)
                length, crc = _HEADER.unpack(header)
                if crc != _masked_crc(header[:8]):
                    raise damage("the checksum of its length does not match", header)
                if length > _MAX_RECORD_BYTES:
                    raise damage(f"{length} bytes, at most {_MAX_RECORD_BYTES}")
                data = _read(file, length)
                footer = _read(file, _FOOTER.size) if len(data) == length else b""
                if len(footer) < _FOOTER.size:
                    whole = len(header) + len(data) + len(footer)
                    raise damage(f"the file ends after {whole} bytes of it")
                if _FOOTER.unpack(footer)[0] != _masked_crc(data):
                    raise damage(f"the checksum of its {length} bytes does not match")
                yield Record(path, number, data)
                number += 1
                offset += len(header) + length + len(footer)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{path}: {error}") from None


def _read(file: IO[bytes], size: int) -> bytes:
    """`size` bytes, or as many as there are: never much more memory than the file has bytes."""
    data = file.read(min(size, _BUFFER_BYTES))
    if len(data) == size:
        return data
    pieces = [data]
    left = size - len(data)
    while left and pieces[-1]:
        pieces.append(file.read(min(left, _BUFFER_BYTES)))
        left -= len(pieces[-1])
    return b"".join(pieces)


def _masked_crc(data: bytes) -> int:
    crc = _crc32c(data) if _crc32c is not None else _crc32c_in_python(data)
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


_table: list[int] = []


def _crc32c_in_python(data: bytes) -> int:
    """Where the C extension is missing: some megabytes a second."""
    if not _table:
        for byte in range(256):
            crc = byte
            for _ in range(8):
                crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
            _table.append(crc)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF

"""Arrays of .npz files, some rows at a time: mapped where they are stored as they are, otherwise read
in order. See `packhouse.files.npz` for what they mean.
"""

from __future__ import annotations

import math
import mmap
import os
import struct
import zipfile
import zlib
from typing import IO, Any, Final

import numpy as np

from packhouse.data.graphs import Array

_LOCAL_HEADER: Final = struct.Struct("<4s22x2H")
_SUFFIX: Final = ".npy"
_PIECE: Final = 4 << 20


class ArchivedArray:
    """One array; rows are read by `rows`."""

    def __init__(self, archive: NpzArchive, entry: zipfile.ZipInfo) -> None:
        self.name: Final = entry.filename[: -len(_SUFFIX)]
        self.crc: Final = entry.CRC
        self._archive = archive
        self._entry = entry
        with archive.open(entry) as file:
            version = np.lib.format.read_magic(file)  # type: ignore[no-untyped-call]
            read: Any = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }.get(version)
            if read is None:
                raise ValueError(f"array {self.name!r}: is of version {version} of .npy")
            shape, is_fortran, dtype = read(file)
            self._start = file.tell()
        self.shape: Final[tuple[int, ...]] = shape
        self.dtype: Final[np.dtype[Any]] = dtype
        if dtype.hasobject:
            raise ValueError(f"array {self.name!r}: has objects of Python, which are not read")
        if is_fortran and len(shape) > 1:
            raise ValueError(f"array {self.name!r}: is in Fortran order; save it in C order")
        self.nbytes: Final = math.prod(shape) * dtype.itemsize
        if entry.file_size - self._start != self.nbytes:
            raise ValueError(
                f"array {self.name!r}: has {entry.file_size - self._start} bytes, its header says "
                f"{self.nbytes}"
            )
        self._mapped = archive.mapped(entry, self._start, self.nbytes)

    def check(self) -> None:
        """Raises ValueError if it is mapped and damaged."""
        if self._mapped is None:
            return
        with self._archive.open(self._entry) as file:
            checksum = zlib.crc32(file.read(self._start))
        for begin in range(0, self.nbytes, _PIECE):
            checksum = zlib.crc32(self._mapped[begin : begin + _PIECE], checksum)
            self._archive.forget()
        if checksum != self.crc:
            raise ValueError(f"array {self.name!r}: is damaged: its checksum does not match")

    def whole(self) -> Array:
        """All of it."""
        elements = np.frombuffer(self._bytes(0, self.nbytes), self.dtype)
        return elements.reshape(self.shape)

    def row_reader(self, first_element: int = 0) -> RowReader:
        """Reads elements in order, from one on."""
        return RowReader(self, first_element)

    def _bytes(self, start: int, stop: int) -> Any:
        if self._mapped is not None:
            return self._mapped[start:stop]
        with self._archive.open(self._entry) as file:
            file.seek(self._start + start)
            return _exactly(file, stop - start, self.name)

    def open(self, start: int) -> IO[bytes] | None:
        """What is read in order, from a byte on; None if it is mapped."""
        if self._mapped is not None:
            return None
        file = self._archive.open(self._entry)
        file.seek(self._start + start)
        return file


class RowReader:
    """The elements of an array, in order."""

    def __init__(self, array: ArchivedArray, first_element: int) -> None:
        self._array = array
        self._at = first_element * array.dtype.itemsize
        self._file = array.open(self._at)

    def read(self, num_elements: int) -> Array:
        """The next so many, flat. Raises ValueError, or what zipfile does, for a damaged file."""
        num_bytes = num_elements * self._array.dtype.itemsize
        start, self._at = self._at, self._at + num_bytes
        data: Any
        if self._file is None:
            data = self._array._bytes(start, self._at)
        else:
            data = _exactly(self._file, num_bytes, self._array.name)
        return np.frombuffer(data, self._array.dtype)


class NpzArchive:
    """An open .npz file. Close it, or leave its `with` block; arrays of it that are mapped stay."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Raises OSError, ValueError, and zipfile.BadZipFile."""
        self._file = open(path, "rb")
        try:
            self._zip = zipfile.ZipFile(self._file)
            self._map: mmap.mmap | None = None
            if any(entry.compress_type == zipfile.ZIP_STORED for entry in self._zip.infolist()):
                self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
            self.arrays: Final = [self._array(entry) for entry in self._zip.infolist()]
        except BaseException:
            self._file.close()
            raise
        names = [array.name for array in self.arrays]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"array {name!r}: is there twice")

    def __enter__(self) -> NpzArchive:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Idempotent."""
        self._zip.close()
        self._file.close()

    def forget(self) -> None:
        """Lets go of the memory of what was read of a mapped file: it is read again when it is
        needed.
        """
        if self._map is not None and hasattr(self._map, "madvise"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def check(self) -> None:
        """Compares what is mapped with its checksums; what is compressed is compared as it is read.

        Raises ValueError naming the array.
        """
        for array in self.arrays:
            array.check()

    def open(self, entry: zipfile.ZipInfo) -> IO[bytes]:
        """What the entry has, decompressed and compared with its checksum at the end."""
        return self._zip.open(entry)

    def mapped(self, entry: zipfile.ZipInfo, start: int, num_bytes: int) -> memoryview | None:
        """The bytes of an entry that is stored as it is; otherwise None."""
        if self._map is None or entry.compress_type != zipfile.ZIP_STORED:
            return None
        header = self._map[entry.header_offset : entry.header_offset + _LOCAL_HEADER.size]
        _, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(header)
        begin = entry.header_offset + _LOCAL_HEADER.size + name_bytes + extra_bytes + start
        if begin + num_bytes > len(self._map):
            raise zipfile.BadZipFile("the archive is cut")
        return memoryview(self._map)[begin : begin + num_bytes]

    def _array(self, entry: zipfile.ZipInfo) -> ArchivedArray:
        if not entry.filename.endswith(_SUFFIX):
            raise ValueError(f"entry {entry.filename!r} is no .npy file")
        return ArchivedArray(self, entry)


def _exactly(file: IO[bytes], num_bytes: int, name: str) -> bytes:
    data = file.read(num_bytes)
    if len(data) != num_bytes:
        raise ValueError(f"array {name!r}: ends too soon")
    return data

"""TFRecord files, as TF-GNN's tools write and read them."""

from __future__ import annotations

import gzip
import os
import pathlib
import random
import zlib

import pytest

from packhouse.files import tfrecords

GOLDEN = pathlib.Path(os.environ.get("PACKHOUSE_SHARED_DATA") or "/nonexistent") / "tfgnn/examples"
# "123456789", as RFC 3720 and the catalogue of checksums have it.
CHECK = 0xE3069283


def write(path: pathlib.Path, records: list[bytes]) -> pathlib.Path:
    with tfrecords.Writer([path]) as writer:
        for record in records:
            writer.write(record)
    return path


def read(*paths: pathlib.Path) -> list[bytes]:
    return [record.data for record in tfrecords.read(paths)]


def some_records() -> list[bytes]:
    generator = random.Random(3)
    sizes = [0, 1, 7, 8, 9, 300, 3 << 20]
    return [generator.randbytes(size) for size in sizes]


def test_both_checksums_are_that_of_the_catalogue() -> None:
    for checksum in (tfrecords._crc32c, tfrecords._crc32c_in_python):
        if checksum is None:
            continue
        assert checksum(b"123456789") == CHECK
        assert checksum(b"") == 0
        for record in some_records()[:-1]:
            assert checksum(record) == tfrecords._crc32c_in_python(record)


def test_what_is_written_is_read(tmp_path: pathlib.Path) -> None:
    records = some_records()
    assert read(write(tmp_path / "plain", records)) == records
    packed = write(tmp_path / "packed.gz", records)
    with gzip.open(packed) as file:
        assert file.read() == (tmp_path / "plain").read_bytes()
    assert read(packed) == records
    # The same records: the same bytes.
    assert packed.read_bytes() == write(tmp_path / "again.gz", records).read_bytes()


def test_shards_take_turns_and_patterns_find_them(tmp_path: pathlib.Path) -> None:
    paths = tfrecords.files_to_write(tmp_path / "x.gz@3")
    records = [bytes([number]) for number in range(8)]
    with tfrecords.Writer(paths) as writer:
        for record in records:
            writer.write(record)
    assert [len(read(pathlib.Path(path))) for path in paths] == [3, 3, 2]
    for pattern in (f"{tmp_path}/x.gz@3", f"{tmp_path}/x.gz-*"):
        assert tfrecords.files_of(pattern) == paths
    told = [(record.path, record.number) for record in tfrecords.read(paths)]
    assert told[:4] == [(paths[0], 0), (paths[0], 1), (paths[0], 2), (paths[1], 0)]
    for wrong in ("x@0", "x@100000", "x@two", "x@"):
        with pytest.raises(ValueError, match="number of shards, from 1 to 99999"):
            tfrecords.files_of(str(tmp_path / wrong))
    with pytest.raises(FileNotFoundError, match="y-00000-of-00002 is not there"):
        tfrecords.files_of(f"{tmp_path}/y@2")
    with pytest.raises(FileNotFoundError, match="no such file"):
        tfrecords.files_of(f"{tmp_path}/y-*")
    # A file may be called anything.
    assert read(write(tmp_path / "y@2", [b"a"])) == [b"a"]
    assert tfrecords.files_of(tmp_path / "y@2") == [f"{tmp_path}/y@2"]


def test_nothing_is_left_of_a_failure(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "old", [b"before"])
    with pytest.raises(KeyError), tfrecords.Writer([tmp_path / "old", tmp_path / "new.gz"]) as writer:
        writer.write(b"after")
        raise KeyError
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert read(tmp_path / "old") == [b"before"]
    with pytest.raises(OSError):
        tfrecords.Writer([tmp_path / "a", tmp_path / "none" / "b"])
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def test_damage_names_record_and_offset(tmp_path: pathlib.Path) -> None:
    records = [b"first", b"second" * 9]
    whole = write(tmp_path / "whole", records).read_bytes()
    second = 16 + len(records[0])
    path = tmp_path / "damaged"
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        number, offset = (0, 0) if place < second else (1, second)
        with pytest.raises(ValueError) as told:
            read(path)
        assert f"{path}: record {number} at offset {offset}: the checksum" in str(told.value)
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        if size in (0, second):
            assert read(path) == records[: size // second]
            continue
        number, offset = (0, 0) if size < second else (1, second)
        with pytest.raises(ValueError) as told:
            read(path)
        words = f"record {number} at offset {offset}: the file ends after {size - offset} bytes of it"
        assert words in str(told.value)


def test_damaged_and_other_compression_is_named(tmp_path: pathlib.Path) -> None:
    packed = gzip.compress(write(tmp_path / "whole", [b"x" * 5000]).read_bytes())
    for data in (packed[:-3], packed[:10] + b"\xff" + packed[11:], packed[:12]):
        (tmp_path / "bad").write_bytes(data)
        with pytest.raises(ValueError, match="bad: "):
            read(tmp_path / "bad")
    (tmp_path / "bad").write_bytes(zlib.compress(b"x" * 5000))
    with pytest.raises(ValueError, match="it looks compressed by ZLIB"):
        read(tmp_path / "bad")


@pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"{GOLDEN} is missing")
def test_what_tensorflow_wrote_is_read_and_written_alike(tmp_path: pathlib.Path) -> None:
    found = sorted(GOLDEN.glob("*.tfrecord"))
    assert found
    for path in found:
        assert write(tmp_path / "again", read(path)).read_bytes() == path.read_bytes()

"""Rows of a partition in the order of the original graph."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

from packhouse.partition import file_name, restore


def test_names_of_files_are_those_of_the_server() -> None:
    # The table of tests/base/file_name_test.cc.
    for plain in ("item", "user:buys:item", "a.b", "x y", "#weight", "Größe", "日本", "-rf", "~"):
        assert file_name(plain) == plain
    assert file_name("x" * 200) == "x" * 200
    assert file_name("") == "%"
    assert file_name("..") == "%2E."
    assert file_name("../../x") == "%2E.%2F..%2Fx"
    assert file_name("entity:/film/film/genre:entity") == "entity:%2Ffilm%2Ffilm%2Fgenre:entity"
    assert file_name("100%") == "100%25"
    assert file_name("a\0b\n") == "a%00b%0A"
    assert file_name("*?[]\\@3") == "%2A%3F%5B%5D%5C%403"
    assert file_name("/" * 300) == "%2F" * 55 + "%-094f3ce33c025998d1d35158af98bf66"


def test_restore_undoes_the_mapping() -> None:
    rng = np.random.default_rng(1)
    for size in (0, 1, 2, 100):
        for shape in ((), (3,), (2, 2)):
            original = rng.normal(size=(size, *shape)).astype(np.float32)
            mapping = rng.permutation(size)
            rows = original[mapping]
            restored = restore(rows, mapping)
            assert restored.dtype == np.float32
            np.testing.assert_array_equal(restored, original)
            out = np.empty_like(original)
            assert restore(rows, mapping, out=out) is out
            np.testing.assert_array_equal(out, original)


def test_types_are_restored_each_by_its_own() -> None:
    mapping = {"item": np.array([1, 0]), "tag": np.array([0])}
    restored = restore({"item": [10, 0], "tag": [7]}, mapping)
    assert {name: rows.tolist() for name, rows in restored.items()} == {"item": [0, 10], "tag": [7]}
    assert restore({"tag": [7]}, mapping)["tag"].tolist() == [7]


def test_parts_come_in_any_order(tmp_path: pathlib.Path) -> None:
    mapping = np.array([4, 2, 0, 1, 3])
    out = np.memmap(tmp_path / "rows", np.int64, "w+", shape=(5,))
    restore([0, 10, 30], mapping, out=out, start=2)
    restore([40, 20], mapping, out=out)
    assert out.tolist() == [0, 10, 20, 30, 40]


def test_what_does_not_fit_is_named() -> None:
    mapping = np.array([1, 0])
    with pytest.raises(ValueError, match="rows: 1 rows, mapping has 2"):
        restore([1], mapping)
    with pytest.raises(ValueError, match="rows: 2 rows from 1 on, but mapping has 2"):
        restore([1, 2], mapping, out=np.zeros(2, np.int64), start=1)
    with pytest.raises(ValueError, match="mapping: a number is there twice"):
        restore([1, 2], [1, 1])
    with pytest.raises(ValueError, match="mapping: a number is not from 0 to 1"):
        restore([1, 2], [1, 2])
    with pytest.raises(TypeError, match="mapping: must have one dimension of whole numbers"):
        restore([1, 2], [0.0, 1.0])
    with pytest.raises(TypeError, match="rows: must have one array for each type"):
        restore([1, 2], {"a": mapping})
    with pytest.raises(ValueError, match="mapping has no type 'b'"):
        restore({"b": [1]}, {"a": mapping})
    out = np.zeros(2, np.float32)
    with pytest.raises(ValueError, match="out: float32 of shape"):
        restore(np.array([1, 2]), mapping, out=out)
    with pytest.raises(ValueError, match="start: -1"):
        restore([1], mapping, out=np.zeros(2, np.int64), start=-1)
    out = np.full(2, 5)
    with pytest.raises(ValueError):
        restore(np.array([1, 2]), [1, 1], out=out)
    assert out.tolist() == [5, 5]

"""Graphs in .npz files: mapped or decompressed, the same graphs; what is damaged or odd is named."""

from __future__ import annotations

import pathlib
import zipfile
from typing import Any

import numpy as np
import pytest

from packhouse import GraphTable
from packhouse.files import npz

NODES = np.array([3, 0, 2, 4])
EDGES = np.array([4, 0, 1, 6])


def arrays(**more: Any) -> dict[str, Any]:
    generator = np.random.default_rng(1)
    return {
        "node_offsets": np.concatenate([[0], np.cumsum(NODES)]),
        "edge_offsets": np.concatenate([[0], np.cumsum(EDGES)]),
        "x": generator.random((9, 3)).astype(np.float32),
        "edge_index": generator.integers(0, np.repeat(NODES, EDGES), (2, 11)),
        "edge_attr": generator.integers(0, 9, 11).astype(np.int16),
        "y": generator.random(4),
        **more,
    }


def test_compressed_graphs_are_the_mapped_ones_however_many_at_a_time(
    tmp_path: pathlib.Path,
) -> None:
    np.savez(tmp_path / "mapped.npz", **arrays())
    np.savez_compressed(tmp_path / "packed.npz", **arrays())
    whole = npz.load(tmp_path / "mapped.npz")
    assert len(whole) == 4
    assert whole.tensors["senders"].tolist() == arrays()["edge_index"][0].tolist()
    for name in ("mapped.npz", "packed.npz"):
        for max_bytes in (1, 150, 1 << 20):
            with npz.NpzGraphs(tmp_path / name) as graphs:
                parts = list(graphs.tables(max_bytes))
                assert graphs.num_graphs == 4
            assert (len(parts) == 4) == (max_bytes == 1)
            assert GraphTable.concatenate(parts).equals(whole)


def test_views_of_a_mapped_file_outlive_it(tmp_path: pathlib.Path) -> None:
    np.savez(tmp_path / "a.npz", **arrays())
    table = npz.load(tmp_path / "a.npz")
    (tmp_path / "a.npz").unlink()
    assert table.tensors["x"].tolist() == arrays()["x"].tolist()


def test_group_ids_are_an_array(tmp_path: pathlib.Path) -> None:
    np.savez(tmp_path / "a.npz", **arrays(fold=np.array([7, 7, 1, 2], np.int8)))
    with npz.NpzGraphs(tmp_path / "a.npz", "fold") as graphs:
        assert graphs.group_ids is not None and graphs.group_ids.tolist() == [7, 7, 1, 2]
        assert "fold" not in [spec.name for spec in graphs.schema.tensors]
    for groups, told in (("none", "no array 'none' for --groups"), ("x", "array 'x': must be whole")):
        with pytest.raises(ValueError, match=told):
            npz.NpzGraphs(tmp_path / "a.npz", groups)
    np.savez(tmp_path / "b.npz", **arrays(fold=np.arange(3)))
    with pytest.raises(ValueError, match="has 3 group ids for 4 graphs"):
        npz.NpzGraphs(tmp_path / "b.npz", "fold")


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"node_offsets": np.array([1, 3, 3, 5, 9])}, "array 'node_offsets': must begin with 0"),
        ({"node_offsets": np.array([0, 3, 2, 5, 9])}, "array 'node_offsets': must begin with 0"),
        ({"node_offsets": np.array([], np.int64)}, "array 'node_offsets': must be whole numbers"),
        ({"node_offsets": np.array([0.0, 3.0])}, "array 'node_offsets': must be whole numbers"),
        ({"node_offsets": np.array([0, 3, 9])}, "the offsets differ in length|'y' has shape"),
        ({"x": np.asfortranarray(np.zeros((9, 2)))}, "array 'x': is in Fortran order"),
        ({"x": np.zeros((8, 2))}, r"array 'x' has shape \(8, 2\), needs one row for each of the 9"),
        ({"edge_index": np.zeros((2, 11))}, "array 'edge_index' has shape .* needs whole numbers"),
        ({"edge_index": np.zeros((11, 2), int)}, "array 'edge_index' has shape"),
        ({"z": np.array([{}], object)}, "array 'z': has objects of Python"),
    ],
)
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_odd_arrays_are_named(
    tmp_path: pathlib.Path, changed: dict[str, Any], told: str, save: Any
) -> None:
    path = tmp_path / "odd.npz"
    save(path, **arrays(**changed))
    with pytest.raises(ValueError, match=f"odd.npz: .*({told})"):
        npz.load(path)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_damage_is_found_before_or_as_it_is_read(tmp_path: pathlib.Path, save: Any) -> None:
    """Each byte of a column, and the end of the file."""
    path = tmp_path / "damaged.npz"
    save(path, **arrays())
    content = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        entry = archive.getinfo("x.npy")
    end = entry.header_offset + entry.compress_size
    for place in range(end - 100, end - 4, 7):
        path.write_bytes(content[:place] + bytes([content[place] ^ 64]) + content[place + 1 :])
        with pytest.raises(ValueError, match="damaged.npz: "):
            npz.load(path)
    for length in (len(content) - 1, len(content) // 2, 10):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match="damaged.npz: "):
            npz.load(path)


def test_an_array_that_is_there_twice_and_other_entries_are_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "twice.npz"
    np.savez(path, **arrays())
    with zipfile.ZipFile(path, "a") as archive:
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("x.npy", archive.read("x.npy"))
    with pytest.raises(ValueError, match="twice.npz: array 'x': is there twice"):
        npz.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../../x", b"")
    with pytest.raises(ValueError, match="is no .npy file"):
        npz.load(path)
    assert not npz.is_archive(path)

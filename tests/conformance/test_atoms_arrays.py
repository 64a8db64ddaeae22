"""Graphs of named arrays in HDF5, LMDB, tars of WebDataset and MDS shards: the same from all of them."""

from __future__ import annotations

import io
import json
import pathlib
import pickle
import tarfile
from typing import Any, Callable

import ase.build
import h5py
import lmdb
import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData

import packhouse.atoms
from packhouse import Client, GraphTable, LocalServer
from packhouse.files import reading as files

Graph = dict[str, Any]


def graphs(number: int = 70) -> list[Graph]:
    """More than are looked at before the first is given on; of the first one all arrays fit."""
    made = []
    for seed in range(number):
        rng = np.random.default_rng(seed)
        nodes, edges = (3, 3) if not seed else (int(rng.integers(1, 9)), int(rng.integers(1, 9)))
        made.append(
            {
                "num_nodes": np.int64(nodes),
                "edge_index": rng.integers(0, nodes, (2, edges)),
                "x": rng.normal(size=(nodes, 2)).astype(np.float32),
                "bond": rng.normal(size=(edges, 3)),
                "charge": rng.normal(size=nodes),
                "dipole": rng.normal(size=3),
                "y": np.float64(rng.normal()),
            }
        )
    return made


COMPONENTS = {
    "edge_index": "edges", "x": "nodes", "bond": "edges", "charge": "nodes", "dipole": "graphs",
    "y": "graphs",
}


def write_hdf5(path: pathlib.Path, made: list[Graph]) -> None:
    with h5py.File(path, "w") as file:
        for number, graph in enumerate(made):
            group = file.create_group(f"part_{number // 20}/graph_{number}")
            for name, array in graph.items():
                folder = group.require_group("properties") if name == "y" else group
                folder[name] = array


def write_joined_hdf5(path: pathlib.Path, made: list[Graph]) -> None:
    with h5py.File(path, "w") as file:
        for offsets, counts in (
            ("node_offsets", [graph["num_nodes"] for graph in made]),
            ("edge_offsets", [graph["edge_index"].shape[1] for graph in made]),
        ):
            file[offsets] = np.concatenate([[0], np.cumsum(counts)])
        for name, component in COMPONENTS.items():
            columns = [graph[name] for graph in made]
            axis = 1 if name == "edge_index" else 0
            joined = np.stack if component == "graphs" else np.concatenate
            file[name] = joined(columns, axis=axis)


def data_of(graph: Graph) -> Data:
    return Data(**{name: torch.as_tensor(array) for name, array in graph.items()})


def write_lmdb(path: pathlib.Path, made: list[Graph]) -> None:
    with lmdb.open(str(path), subdir=False, map_size=1 << 28) as environment:
        with environment.begin(write=True) as transaction:
            for number, graph in enumerate(made):
                transaction.put(str(number).encode(), pickle.dumps(data_of(graph)))
            transaction.put(b"length", pickle.dumps(len(made)))


def add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def write_tar(path: pathlib.Path, made: list[Graph]) -> None:
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as archive:
        for number, graph in enumerate(made):
            for name in ("edge_index", "x", "bond"):
                add(archive, f"train/{number:05}.{name}.npy", npy(graph[name]))
            file = io.BytesIO()
            np.savez(file, charge=graph["charge"])
            add(archive, f"train/{number:05}.npz", file.getvalue())
            rest = {"dipole": graph["dipole"].tolist(), "num_nodes": int(graph["num_nodes"])}
            add(archive, f"train/{number:05}.json", json.dumps(rest).encode())
            add(archive, f"train/{number:05}.y.json", json.dumps(float(graph["y"])).encode())


MDS_TYPES = {8: "uint8", 65: "int64", 34: "float32", 66: "float64"}
MDS_COLUMNS = {
    "bond": "ndarray:float64", "charge": "ndarray", "dipole": "ndarray:float64:3",
    "edge_index": "ndarray", "num_nodes": "int", "x": "ndarray:float32", "y": "float64",
}


def mds_array(array: Any, encoding: str) -> bytes:
    if not encoding.startswith("ndarray"):
        return array.tobytes()
    fixed = encoding.split(":")[1:]
    codes = {name: code for code, name in MDS_TYPES.items()}
    content = b"" if fixed else bytes([codes[array.dtype.name]])
    if len(fixed) < 2:
        content += bytes([array.ndim << 2, *array.shape])
    return content + array.tobytes()


def mds_shard(made: list[Graph]) -> bytes:
    """As MosaicML's MDSWriter writes one; of all encodings those of arrays and numbers."""
    sizes = {
        name: 24 if encoding.count(":") == 2 else None if "ndarray" in encoding else 8
        for name, encoding in MDS_COLUMNS.items()
    }
    config = json.dumps(
        {
            "column_encodings": list(MDS_COLUMNS.values()),
            "column_names": list(MDS_COLUMNS),
            "column_sizes": list(sizes.values()),
            "compression": None, "format": "mds", "hashes": [], "size_limit": 1 << 26,
            "version": 2,
        }
    ).encode()
    samples = []
    for graph in made:
        columns = [mds_array(graph[name], encoding) for name, encoding in MDS_COLUMNS.items()]
        own = [len(one) for one, size in zip(columns, sizes.values()) if size is None]
        samples.append(np.array(own, "<u4").tobytes() + b"".join(columns))
    first = 4 + 4 * (len(made) + 1) + len(config)
    ends = first + np.cumsum([0, *map(len, samples)])
    head = np.array([len(made), *ends], "<u4").tobytes()
    return head + config + b"".join(samples)


def write_mds(path: pathlib.Path, made: list[Graph]) -> None:
    path.write_bytes(mds_shard(made))


def write_mds_folder(path: pathlib.Path, made: list[Graph]) -> None:
    path.mkdir()
    shards = []
    for number in range(3):
        part = made[number * len(made) // 3 : (number + 1) * len(made) // 3]
        content = mds_shard(part)
        name = f"shard.{number:05}.mds"
        (path / name).write_bytes(content)
        raw = {"basename": name, "bytes": len(content), "hashes": {}}
        shards.append({"format": "mds", "raw_data": raw, "samples": len(part), "zip_data": None})
    (path / "index.json").write_text(json.dumps({"version": 2, "shards": shards}))


WRITERS: dict[str, Callable[[pathlib.Path, list[Graph]], None]] = {
    "graphs.h5": write_hdf5,
    "joined.hdf5": write_joined_hdf5,
    "graphs.lmdb": write_lmdb,
    "graphs.tar": write_tar,
    "graphs.tar.gz": write_tar,
    "graphs.mds": write_mds,
    "folder": write_mds_folder,
}


def load(path: pathlib.Path, **options: Any) -> GraphTable:
    return GraphTable.concatenate(list(files.tables([path], trust_pickle=True, **options)))


def assert_same(table: GraphTable, made: list[Graph]) -> None:
    assert table.schema.components == ("nodes", "edges")
    assert {spec.name: spec.component for spec in table.schema.tensors} == COMPONENTS
    assert len(table) == len(made)
    for number, graph in enumerate(made):
        mine = table.graph(number)
        assert table.sizes[number].tolist() == [graph["num_nodes"], graph["edge_index"].shape[1]]
        for name, component in COMPONENTS.items():
            array = mine[name][0] if component == "graphs" else mine[name]
            np.testing.assert_array_equal(array, graph[name], err_msg=name)


@pytest.mark.parametrize("name", WRITERS)
def test_files_of_every_kind_have_the_same_graphs(tmp_path: pathlib.Path, name: str) -> None:
    made = graphs()
    WRITERS[name](tmp_path / name, made)
    assert_same(load(tmp_path / name), made)
    assert "bond" not in load(tmp_path / name, exclude=["bond"]).tensors


@pytest.mark.parametrize("name", WRITERS)
def test_a_malformed_graph_is_named_and_not_the_end(tmp_path: pathlib.Path, name: str) -> None:
    if name == "joined.hdf5":
        pytest.skip("has one array for all graphs")
    made = graphs()
    wrong = {5: "edge_index", 66: "x", 68: "dipole"}
    if "mds" in name or name == "folder":
        # There the shape of dipole is a column's.
        del wrong[68]
    made[5]["edge_index"] = made[5]["edge_index"] + 100
    made[66]["x"] = made[66]["x"][:, :1].copy()
    if 68 in wrong:
        made[68]["dipole"] = made[68]["dipole"][:2]
    WRITERS[name](tmp_path / name, made)
    told: list[str] = []
    table = load(tmp_path / name, on_malformed=told.append)
    assert_same(table, [graph for number, graph in enumerate(made) if number not in wrong])
    assert len(told) == len(wrong)
    for line, array in zip(told, wrong.values()):
        assert line.startswith(f"{tmp_path / name}: ") and repr(array) in line
    with pytest.raises(ValueError, match="'edge_index' has 10.*--skip-malformed"):
        load(tmp_path / name)


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_that_is_cut_or_no_such_file_is_named(tmp_path: pathlib.Path, name: str) -> None:
    if name == "folder":
        pytest.skip("is a folder")
    path = tmp_path / name
    with pytest.raises(OSError):
        load(path)
    WRITERS[name](path, graphs())
    whole = path.read_bytes()
    for content in (b"no such thing at all\n" * 200, whole[: len(whole) // 2]):
        path.unlink()
        path.write_bytes(content)
        told: list[str] = []
        try:
            load(path, on_malformed=told.append)
        except (ValueError, OSError) as error:
            told.append(str(error))
        # What is after the cut is an error, or graphs that are named.
        assert told and all(name in one for one in told), told


def test_pickles_are_not_read_unasked(tmp_path: pathlib.Path) -> None:
    ran = tmp_path / "ran"

    class Program:
        def __reduce__(self) -> Any:
            return pathlib.Path.touch, (ran,)

    with lmdb.open(str(tmp_path / "a.lmdb"), subdir=False, map_size=1 << 20) as environment:
        with environment.begin(write=True) as transaction:
            transaction.put(b"0", pickle.dumps(Program()))
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        add(archive, "0.x.npy", npy(np.zeros(3)))
        add(archive, "0.rest.pkl", pickle.dumps(Program()))
    for name in ("a.lmdb", "a.tar"):
        with pytest.raises(PermissionError, match="--trust-pickle"):
            list(files.tables([tmp_path / name]))
    assert not ran.exists()


def test_what_pyg_would_join_in_another_way_is_named(tmp_path: pathlib.Path) -> None:
    good = graphs(6)
    objects = [data_of(graph) for graph in good]
    objects[2] = HeteroData()
    objects[4].face_index = torch.zeros(3, 2, dtype=torch.int64)
    # What PyG was before its version 2, and a dict.
    objects[1] = good[1]
    with lmdb.open(str(tmp_path / "a.lmdb"), subdir=False, map_size=1 << 24) as environment:
        with environment.begin(write=True) as transaction:
            for number, made in enumerate(objects):
                transaction.put(str(number).encode(), pickle.dumps(made))
    told: list[str] = []
    table = load(tmp_path / "a.lmdb", on_malformed=told.append)
    assert_same(table, [good[number] for number in (0, 1, 3, 5)])
    assert "key 2: " in told[0] and "has types of nodes" in told[0]
    assert "key 4: " in told[1] and "'face_index' is shifted" in told[1]


def test_keys_are_in_the_order_of_numbers(tmp_path: pathlib.Path) -> None:
    made = graphs(12)
    with lmdb.open(str(tmp_path / "a.lmdb"), map_size=1 << 24) as environment:
        with environment.begin(write=True) as transaction:
            for number, graph in enumerate(made):
                transaction.put(str(number).encode(), pickle.dumps(data_of(graph)))
    # A folder, without its length.
    assert_same(load(tmp_path / "a.lmdb"), made)


def test_conformations_are_graphs_and_neighbours_are_counted(tmp_path: pathlib.Path) -> None:
    """As in ANI's, SPICE's and MACE's files; of one molecule there are as many as it has atoms."""
    rng = np.random.default_rng(0)
    frames, energies, forces = [], [], []
    with h5py.File(tmp_path / "ani.h5", "w") as file:
        for name, number in (("CH4", 5), ("H2O", 300), ("C6H6", 1)):
            molecule = ase.build.molecule(name)
            group = file.create_group(name)
            group["atomic_numbers"] = molecule.numbers
            shape = (number, len(molecule), 3)
            positions = molecule.positions + rng.normal(scale=0.05, size=shape)
            group["coordinates"] = positions
            group["energy"] = rng.normal(size=number)
            group["forces"] = rng.normal(size=shape)
            energies += group["energy"][()].tolist()
            forces.append(group["forces"][()].reshape(-1, 3))
            for one in positions:
                frames.append(molecule.copy())
                frames[-1].positions = one
        file["CH4"]["smiles"] = "C"
    table = load(tmp_path / "ani.h5", exclude=["smiles"])
    # Groups are gone through by name.
    order = [*range(305, 306), *range(5), *range(5, 305)]
    assert table.sizes[:, 0].tolist() == [len(frames[number]) for number in order]
    assert table.tensors["energy"].tolist() == [energies[number] for number in order]
    np.testing.assert_array_equal(table.tensors["pos"][:12], frames[305].positions)
    np.testing.assert_array_equal(table.tensors["forces"][:12], forces[2])
    counted = packhouse.atoms.with_neighbours(table, 2.0)
    expected = packhouse.atoms.tables([frames[number] for number in order], cutoff=2.0)
    assert counted.sizes.tolist() == GraphTable.concatenate(list(expected)).sizes.tolist()
    with pytest.raises(ValueError, match="--exclude smiles|smiles"):
        load(tmp_path / "ani.h5")


def test_they_are_stored(server: LocalServer, client: Client, tmp_path: pathlib.Path) -> None:
    made = graphs()
    for name in ("graphs.h5", "graphs.tar", "graphs.mds"):
        WRITERS[name](tmp_path / name, made)
        stored = packhouse.atoms.ingest(client, f"arrays-{name}", tmp_path / name)
        assert stored.num_graphs == len(made)

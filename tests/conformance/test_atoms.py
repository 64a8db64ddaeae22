"""Atoms: files that ASE writes as graphs, and their neighbours beside a search of all images."""

from __future__ import annotations

import itertools
import pathlib
import subprocess
import sys
from typing import Any, Callable

import ase
import ase.build
import ase.db
import ase.io
import numpy as np
import pytest
from ase.calculators.emt import EMT
from ase.calculators.singlepoint import SinglePointCalculator
from ase.constraints import FixAtoms

import packhouse.atoms
import packhouse.pyg
from packhouse import Client, GraphTable, Loader, LocalServer
from packhouse.files import atoms_files


def structures(number: int = 12) -> list[ase.Atoms]:
    """Molecules and cells of different sizes, with energies, forces and stress."""
    made = []
    for seed in range(number):
        rng = np.random.default_rng(seed)
        kind = seed % 3
        if kind == 0:
            atoms = ase.build.molecule("CH3CH2OH", vacuum=None)
        elif kind == 1:
            atoms = ase.build.bulk("Cu", cubic=True) * (1, 1, 1 + seed % 4)
        else:
            atoms = ase.build.fcc111("Al", (2, 2, 2 + seed % 2), vacuum=6.0)
        atoms.rattle(0.1, rng=rng)
        atoms.calc = SinglePointCalculator(
            atoms,
            energy=float(rng.normal()),
            forces=rng.normal(size=(len(atoms), 3)),
            stress=rng.normal(size=6),
        )
        made.append(atoms)
    return made


def write_db(path: pathlib.Path, frames: list[ase.Atoms]) -> None:
    with ase.db.connect(str(path)) as database:
        for number, atoms in enumerate(frames):
            database.write(atoms, gap=0.5 * number)


def write_xyz(path: pathlib.Path, frames: list[ase.Atoms]) -> None:
    for number, atoms in enumerate(frames):
        atoms.info["gap"] = 0.5 * number
    ase.io.write(path, frames, format="extxyz")


WRITERS: dict[str, Callable[[pathlib.Path, list[ase.Atoms]], None]] = {
    "atoms.db": write_db,
    "atoms.aselmdb": write_db,
    "atoms.extxyz": write_xyz,
    "atoms.xyz.gz": write_xyz,
}


def load(*arguments: Any, **options: Any) -> GraphTable:
    return GraphTable.concatenate(list(packhouse.atoms.tables(*arguments, **options)))


def assert_same(table: GraphTable, frames: list[ase.Atoms]) -> None:
    assert table.sizes[:, 0].tolist() == [len(atoms) for atoms in frames]
    assert table.graph_ids.tolist() == list(range(len(frames)))
    for number, atoms in enumerate(frames):
        graph = table.graph(number)
        np.testing.assert_array_equal(graph["atomic_numbers"], atoms.numbers)
        np.testing.assert_array_equal(graph["pbc"][0], atoms.pbc)
        # Text has eight digits.
        np.testing.assert_allclose(graph["pos"], atoms.positions, atol=1e-7)
        np.testing.assert_allclose(graph["cell"][0], atoms.cell.array, atol=1e-7)
        np.testing.assert_allclose(graph["forces"], atoms.get_forces(), atol=1e-7)
        np.testing.assert_allclose(graph["energy"][0], atoms.get_potential_energy(), atol=1e-7)
        np.testing.assert_allclose(graph["stress"][0], atoms.get_stress(), atol=1e-7)
        np.testing.assert_allclose(graph["gap"][0], 0.5 * number)


@pytest.mark.parametrize("name", WRITERS)
def test_files_of_every_kind(tmp_path: pathlib.Path, name: str) -> None:
    frames = structures()
    WRITERS[name](tmp_path / name, frames)
    table = load(tmp_path / name)
    assert table.schema.components == ("nodes",)
    assert_same(table, frames)
    assert "gap" not in load(tmp_path / name, exclude=["gap"]).tensors


def test_several_files_are_one_set(tmp_path: pathlib.Path) -> None:
    frames = structures()
    paths = [tmp_path / "first.extxyz", tmp_path / "second.extxyz"]
    write_xyz(tmp_path / "all.extxyz", frames)
    ase.io.write(paths[0], frames[:4])
    ase.io.write(paths[1], frames[4:])
    assert_same(load(paths), frames)
    assert load(paths).equals(load(tmp_path / "all.extxyz"))


def test_structures_in_memory_are_those_of_a_database(tmp_path: pathlib.Path) -> None:
    frames = structures()
    write_db(tmp_path / "atoms.db", frames)
    table = load(frames)
    stored = load(tmp_path / "atoms.db", exclude=["gap"])
    assert table.sizes.tolist() == stored.sizes.tolist()
    for name in table.tensors:
        np.testing.assert_array_equal(table.tensors[name], stored.tensors[name])


def test_constraints_and_whole_numbers(tmp_path: pathlib.Path) -> None:
    frames = structures(4)
    frames[2].set_constraint(FixAtoms([0, 3]))
    write_db(tmp_path / "atoms.db", frames)
    fixed = load(tmp_path / "atoms.db").tensors["fixed"]
    first = len(frames[0]) + len(frames[1])
    assert np.flatnonzero(fixed).tolist() == [first, first + 3]
    for number, atoms in enumerate(frames):
        # The first one is written as 1, the second as 1.5.
        atoms.info["charge"] = 1 + number / 2 if number else 1
    ase.io.write(tmp_path / "atoms.extxyz", frames)
    charge = load(tmp_path / "atoms.extxyz").tensors["charge"]
    assert charge.dtype == np.float64 and charge.tolist() == [1, 1.5, 2, 2.5]


def broken(path: pathlib.Path) -> tuple[list[ase.Atoms], list[int], list[str]]:
    """A file of which some frames are malformed: the good ones, the places and reasons of others."""
    frames = structures(12)
    write_xyz(path, frames)
    texts = []
    for atoms in frames:
        ase.io.write(path.with_suffix(".one.xyz"), atoms, format="extxyz")
        texts.append(path.with_suffix(".one.xyz").read_text())
    wrong = {
        1: ("".join(texts[1].splitlines(True)[:-1]), "has 7 lines of 8 atoms"),
        4: (texts[4].replace("energy=", "other="), "lacks 'energy', which most graphs before"),
        6: (texts[6].replace("\nO ", "\nXx "), "Xx"),
        7: (texts[7].replace(texts[7].split("\n")[0], "four", 1), "'four' is no number of atoms"),
        9: (_with_position(texts[9], "nan"), "the position of atom 0 is "),
        11: ("0\n\n", "has no atom"),
    }
    path.write_text("".join(wrong.get(n, (text, ""))[0] for n, text in enumerate(texts)))
    good = [atoms for number, atoms in enumerate(frames) if number not in wrong]
    return good, list(wrong), [reason for _, reason in wrong.values()]


def _with_position(text: str, value: str) -> str:
    lines = text.splitlines(True)
    words = lines[2].split()
    words[1] = value
    return "".join([*lines[:2], " ".join(words) + "\n", *lines[3:]])


def test_a_malformed_frame_is_named_and_not_the_end(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "broken.extxyz"
    good, places, reasons = broken(path)
    with pytest.raises(ValueError, match="broken.extxyz: frame 1: .*7 lines of 8.*--skip-malformed"):
        load(path)
    told: list[str] = []
    table = load(path, on_malformed=told.append)
    assert table.sizes[:, 0].tolist() == [len(atoms) for atoms in good]
    # One that cannot be read is told before one that differs from the others of its part.
    told.sort(key=lambda line: int(line.split("frame ")[1].split(":")[0]))
    for line, place, reason in zip(told, places, reasons):
        assert line.startswith(f"{path}: frame {place}: ") and reason in line
    assert len(told) == len(places)


def test_a_row_of_a_database_that_cannot_be_read(tmp_path: pathlib.Path) -> None:
    import sqlite3

    frames = structures(6)
    write_db(tmp_path / "atoms.db", frames)
    with sqlite3.connect(tmp_path / "atoms.db") as connection:
        connection.execute("UPDATE systems SET positions = x'00' WHERE id = 3")
        connection.execute("DELETE FROM systems WHERE id = 5")
    told: list[str] = []
    table = load(tmp_path / "atoms.db", on_malformed=told.append)
    expected = [len(frames[number]) for number in (0, 1, 3, 5)]
    assert table.sizes[:, 0].tolist() == expected
    assert len(told) == 1 and "atoms.db: row 3: " in told[0]


def test_text_is_named_before_anything_is_stored(tmp_path: pathlib.Path) -> None:
    frames = structures(4)
    for atoms in frames:
        atoms.info.update(config_type="train", source="here")
    ase.io.write(tmp_path / "text.extxyz", frames)
    for on_malformed in (None, [].append):
        with pytest.raises(ValueError, match="--exclude config_type --exclude source"):
            load(tmp_path / "text.extxyz", on_malformed=on_malformed)
    load(tmp_path / "text.extxyz", exclude=["config_type", "source"])


@pytest.mark.parametrize("name", ["atoms.db", "atoms.aselmdb", "atoms.extxyz"])
def test_what_is_no_such_file_is_named(tmp_path: pathlib.Path, name: str) -> None:
    with pytest.raises(OSError):
        load(tmp_path / name)
    (tmp_path / name).write_bytes(b"no such thing\n" * 500)
    with pytest.raises(ValueError, match=f"{name}: "):
        load(tmp_path / name)


def test_a_database_that_is_cut_is_named(tmp_path: pathlib.Path) -> None:
    """Of LMDB, reading beyond the end would end the process."""
    for name in ("atoms.db", "atoms.aselmdb"):
        write_db(tmp_path / name, structures(60))
        content = (tmp_path / name).read_bytes()
        (tmp_path / name).unlink()
        (tmp_path / name).write_bytes(content[: len(content) // 2])
        with pytest.raises(ValueError, match=f"{name}: "):
            load(tmp_path / name)


# Neighbours.


def all_images(positions: Any, cell: Any, pbc: Any, cutoff: float) -> list[Any]:
    """(distance, i, j, shift) of every pair, by looking at all images near enough."""
    reach = [0, 0, 0]
    for axis in np.flatnonzero(pbc):
        others = [cell[other] if pbc[other] else None for other in range(3) if other != axis]
        # The least distance that a step along the vector takes from the others' span.
        normal = cell[axis].copy()
        basis = [other for other in others if other is not None]
        if basis:
            solved, *_ = np.linalg.lstsq(np.array(basis).T, cell[axis], rcond=None)
            normal = cell[axis] - np.array(basis).T @ solved
        spread = np.ptp(positions @ (normal / np.linalg.norm(normal)))
        reach[axis] = int(np.ceil((cutoff + spread) / np.linalg.norm(normal))) + 1
    found = []
    for shift in itertools.product(*(range(-one, one + 1) for one in reach)):
        vectors = positions[np.newaxis] - positions[:, np.newaxis] + np.array(shift) @ cell
        distances = np.linalg.norm(vectors, axis=2)
        for i, j in zip(*np.nonzero(distances < cutoff)):
            if i != j or any(shift):
                found.append((float(distances[i, j]), int(i), int(j), shift))
    return found


def random_structure(seed: int) -> tuple[Any, Any, Any, float]:
    """Cells, slabs, wires and molecules; of some the cell is smaller than the cutoff."""
    rng = np.random.default_rng(seed)
    pbc = np.array([(seed >> bit) & 1 for bit in range(3)], bool)
    size = rng.uniform(2, 9)
    cell = size * (np.eye(3) + rng.uniform(-0.25, 0.25, (3, 3)))
    if seed % 5 == 0:
        cell[~pbc] = 0
    num_atoms = int(rng.integers(1, 12))
    # Also atoms that lie outside of their cell.
    positions = rng.uniform(-0.7, 1.7, (num_atoms, 3)) @ np.where(
        pbc[:, np.newaxis], cell, size * np.eye(3)
    )
    return positions, cell, pbc, float(rng.uniform(1.0, 6.0))


def table_of(positions: Any, cell: Any, pbc: Any) -> GraphTable:
    return load([ase.Atoms(f"H{len(positions)}", positions, cell=cell, pbc=pbc)])


@pytest.mark.parametrize("seed", range(40))
def test_neighbours_are_those_of_a_search_of_all_images(seed: int) -> None:
    positions, cell, pbc, cutoff = random_structure(seed)
    expected = all_images(positions, cell, pbc, cutoff)
    table = table_of(positions, cell, pbc)
    for find in (atoms_files.finder(), atoms_files.by_ase):
        i, j, distances, shifts = find(positions, cell, pbc, cutoff)
        found = sorted(zip(i.tolist(), j.tolist(), map(tuple, shifts.tolist())))
        assert found == sorted((one[1], one[2], tuple(one[3])) for one in expected)
    assert atoms_files.finder() is not atoms_files.by_ase
    counted = packhouse.atoms.with_neighbours(table, cutoff)
    assert counted.sizes.tolist() == [[len(positions), len(expected)]]
    assert counted.tensors.keys() == table.tensors.keys()
    most = 1 + seed % 7
    of_each = np.bincount([one[1] for one in expected], minlength=len(positions))
    limited = packhouse.atoms.with_neighbours(table, cutoff, max_neighbours=most)
    assert limited.sizes[0, 1] == np.minimum(of_each, most).sum()
    kept = packhouse.atoms.with_neighbours(table, cutoff, max_neighbours=most, keep_edges=True)
    assert kept.sizes.tolist() == limited.sizes.tolist()
    source, target = kept.tensors["edge_index"]
    offsets = kept.tensors["cell_offsets"] @ cell
    lengths = np.linalg.norm(positions[source] + offsets - positions[target], axis=1)
    for atom in range(len(positions)):
        nearest = sorted(one[0] for one in expected if one[1] == atom)[:most]
        np.testing.assert_allclose(np.sort(lengths[target == atom]), nearest, atol=1e-9)


def test_neighbours_are_matscipys_on_what_ase_builds() -> None:
    from matscipy.neighbours import neighbour_list

    frames = [
        ase.build.bulk("Cu"),
        ase.build.bulk("NaCl", "rocksalt", 5.6, cubic=True),
        ase.build.bulk("Ti") * (2, 1, 3),
        ase.build.fcc111("Pt", (3, 3, 4), vacuum=8.0),
        ase.build.graphene(size=(2, 2, 1), vacuum=5.0),
    ]
    for cutoff in (3.0, 6.0):
        table = load(frames, cutoff=cutoff)
        theirs = [len(neighbour_list("i", atoms, cutoff)) for atoms in frames]
        assert table.sizes[:, 1].tolist() == theirs


def test_arguments_that_make_no_sense_are_named() -> None:
    table = load(structures(3))
    for cutoff in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="cutoff.* is no (positive )?number"):
            packhouse.atoms.with_neighbours(table, cutoff)
    with pytest.raises(ValueError, match="max_neighbours: -1 is not from 0 to "):
        packhouse.atoms.with_neighbours(table, 3, max_neighbours=-1)
    with pytest.raises(ValueError, match="need a cutoff"):
        packhouse.atoms.tables(structures(3), keep_edges=True)
    counted = packhouse.atoms.with_neighbours(table, 3)
    with pytest.raises(ValueError, match="have 'edges' already"):
        packhouse.atoms.with_neighbours(counted, 3)
    with pytest.raises(ValueError, match="need a tensor 'pos'"):
        packhouse.atoms.with_neighbours(GraphTable.concatenate([_without(table, "pos")]), 3)


def _without(table: GraphTable, name: str) -> GraphTable:
    from packhouse import GraphSchema

    specs = [spec for spec in table.schema.tensors if spec.name != name]
    kept = {spec.name: table.tensors[spec.name] for spec in specs}
    return GraphTable(GraphSchema(table.schema.components, specs), table.sizes, kept)


def run(*arguments: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-B", "-m", "packhouse", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def test_counted_edges_bound_batches_and_do_not_travel(
    server: LocalServer, client: Client, tmp_path: pathlib.Path
) -> None:
    frames = structures(60)
    write_xyz(tmp_path / "atoms.extxyz", frames)
    ingest = ("ingest", "--server", server.address, "--dataset", "counted", "--seal")
    ran = run(*ingest, tmp_path / "atoms.extxyz", "--cutoff", 5.0, "--max-neighbours", 20)
    assert ran.returncode == 0, ran.stderr
    assert "components: nodes, edges" in ran.stdout and "edge_index" not in ran.stdout
    table = load(frames, cutoff=5.0, max_neighbours=20)
    most = int(table.sizes[:, 1].max())
    limits = {"nodes": 100, "edges": 2 * most, "graphs": 16}
    seen = []
    with Loader(
        server.address, dataset="counted", job="one", limits=limits, padding="graph"
    ) as loader:
        for batch in loader:
            assert batch.rows == {"nodes": 100, "edges": 2 * most, "graphs": 16}
            assert batch.real_rows["edges"] == batch.sizes[:, 1].sum() <= 2 * most
            assert "edge_index" not in batch.tensors
            data = packhouse.pyg.to_batch(batch, padding=True)
            assert type(data).__name__ == "DataBatch" and data.pos.shape == (100, 3)
            assert data.edge_counts.tolist()[: len(batch)] == batch.sizes[:, 1].tolist()
            assert int(data.edge_counts.sum()) == 2 * most
            real = packhouse.pyg.to_batch(batch)
            assert real.edge_counts.tolist() == batch.sizes[:, 1].tolist()
            for graph, number in zip(real.to_data_list(), batch.graph_ids.tolist()):
                np.testing.assert_allclose(graph.pos, frames[number].positions, atol=1e-7)
            for number, size in zip(batch.graph_ids.tolist(), batch.sizes):
                assert size.tolist() == table.sizes[number].tolist()
            seen += batch.graph_ids.tolist()
    assert sorted(seen) == list(range(60))


def test_the_command_names_what_it_leaves_out(
    server: LocalServer, client: Client, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "broken.extxyz"
    good, places, _ = broken(path)
    ingest = ("ingest", "--server", server.address, "--dataset", "broken", path)
    ran = run(*ingest)
    assert ran.returncode == 1 and "frame 1: " in ran.stderr
    assert "broken" not in [each.name for each in client.datasets.list()]
    # Twice: what is stored is not stored again.
    for _ in range(2):
        ran = run(*ingest, "--skip-malformed")
        assert ran.returncode == 0, ran.stderr
        for place in places:
            assert f"left out: {path}: frame {place}: " in ran.stderr
        assert f"left out {len(places)} malformed graphs" in ran.stderr
        assert client.datasets.get("broken").num_graphs == len(good)
    ran = run(*ingest, "--skip-malformed", "--keep-edges")
    assert ran.returncode == 1 and "need --cutoff" in ran.stderr


def test_emt_energies_come_as_they_are() -> None:
    atoms = ase.build.bulk("Cu", cubic=True)
    atoms.rattle(0.1, seed=0)
    atoms.calc = EMT()
    energy = atoms.get_potential_energy()
    table = load([atoms], cutoff=4.0, keep_edges=True)
    assert table.tensors["energy"].tolist() == [energy]
    assert table.schema.components == ("nodes", "edges")


def test_the_page_as_a_reader_types_it(
    server: LocalServer, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from test_docs import run_page

    monkeypatch.chdir(tmp_path)
    ase.io.write("train.extxyz", structures(30))
    trained: list[int] = []

    def step(data: Any, edges: int) -> None:
        assert data.pos.shape == (2048, 3) and edges == 65536 == int(data.edge_counts.sum())
        trained.append(int(data.graph_mask.sum()))

    run_page("../atoms.md", server, {"step": step})
    assert sum(trained) == 30

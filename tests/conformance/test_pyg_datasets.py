"""Data sets of PyTorch Geometric as tables of graphs, and batch samplers for its loaders."""

from __future__ import annotations

import copy
import pathlib
import subprocess
import sys
from typing import Any, Callable

import grpc
import numpy as np
import pytest
import torch
from graph_sources import of_npz, random_plain, random_typed
from test_pyg import data_of, hetero_data_of
from torch_geometric.data import Batch, Data, HeteroData, InMemoryDataset
from torch_geometric.loader import DataLoader

import packhouse.pyg
from packhouse import (
    Client,
    Evaluation,
    GraphSchema,
    GraphTable,
    Loader,
    LocalServer,
    OversizeWarning,
    PackhouseError,
    PackOptions,
    TensorSpec,
)
from packhouse.files import pickles
from packhouse.frameworks.batch_sampler import BatchSampler
from packhouse.frameworks.pyg import joining


class InMemory(InMemoryDataset):
    """A data set of such graphs, without files."""

    def __init__(self, graphs: list[Any], transform: Callable[[Any], Any] | None = None) -> None:
        super().__init__(None, transform)
        self.data, self.slices = self.collate(graphs)


def test_the_number_of_nodes_is_never_guessed(client: Client) -> None:
    """From edges, nodes without any would vanish; what is left out tells it all the same."""

    def molecule(i: int, **more: Any) -> Data:
        ends = torch.tensor([[0, 1], [1, 0]])
        return Data(edge_index=ends, z=torch.arange(5) + 10 * i, y=torch.tensor([1.0 * i]), **more)

    for saved in ([molecule(i) for i in range(3)], InMemory([molecule(i) for i in range(3)])):
        with pytest.raises(ValueError, match="nothing says how many nodes a graph has"):
            packhouse.pyg.table(saved)
    for more in ({"num_nodes": 5}, {"x": torch.zeros(5, 1)}):
        graphs = [molecule(i, **more) for i in range(3)]
        for dataset in (graphs, InMemory(graphs)):
            table = packhouse.pyg.table(
                dataset, exclude_keys=["x"], components={"z": "nodes"}
            )
            assert table.sizes.tolist() == [[5, 2]] * 3
            (batch,) = client.pack([table], PackOptions({"graphs": 32}))
            ours = packhouse.pyg.to_batch(batch)
            assert ours.z[ours.edge_index[0]].tolist() == [0, 1, 10, 11, 20, 21]


class Bipartite(Data):
    """As in PyG's own manual."""

    def __inc__(self, key: str, value: Any, *more: Any, **named: Any) -> Any:
        if key == "edge_index":
            return torch.tensor([[self.x_s.size(0)], [self.x_t.size(0)]])
        return super().__inc__(key, value, *more, **named)


class Shared(Data):
    """All graphs have the nodes of one network."""

    def __inc__(self, key: str, value: Any, *more: Any, **named: Any) -> Any:
        return 0 if key == "edge_index" else super().__inc__(key, value, *more, **named)


class Pair(Data):
    """x, edge_index of one molecule; x_t of another, and an atom of it."""

    def __inc__(self, key: str, value: Any, *more: Any, **named: Any) -> Any:
        if key == "atom_index_t":
            return self.x_t.size(0)
        return super().__inc__(key, value, *more, **named)


class Numbered(Data):
    """Numbers of atoms under a name that PyG does not know, and its own way to say it."""

    def __inc__(self, key: str, value: Any, *more: Any, **named: Any) -> Any:
        return self.num_nodes if key == "centre" else super().__inc__(key, value, *more, **named)


def bipartite(s: int, t: int, **more: Any) -> Data:
    ends = torch.tensor([[0, s - 1], [t - 1, 0]])
    return Bipartite(x_s=torch.randn(s, 1), x_t=torch.randn(t, 1), edge_index=ends, **more)


def pair(a: int, b: int) -> Data:
    return Pair(
        x=torch.randn(a, 1), edge_index=torch.tensor([[0], [1]]), x_t=torch.randn(b, 1),
        atom_index_t=torch.tensor([0]),
    )


@pytest.mark.parametrize(
    ("graphs", "says"),
    [
        ([bipartite(5, 3, num_nodes=8), bipartite(4, 6, num_nodes=10)],
         r"graph 0: attribute 'edge_index': PyG adds \[\[5\], \[3\]\]"),
        ([Shared(x=torch.randn(3, 1), edge_index=torch.tensor([[0], [2]]))] * 2,
         "graph 0: attribute 'edge_index': PyG adds nothing"),
        ([pair(5, 3), pair(4, 7)], "graph 0: attribute 'atom_index_t': PyG adds 3 .* nodes .5."),
        # The totals agree.
        ([pair(5, 3), pair(3, 5)], "graph 0: attribute 'atom_index_t': PyG adds 3"),
        ([pair(5, 5), pair(3, 4)], "graph 1: attribute 'atom_index_t': PyG adds 4"),
    ],
)
def test_what_pyg_adds_is_asked_graph_by_graph(graphs: list[Data], says: str) -> None:
    for dataset in (graphs, InMemory(graphs)):
        with pytest.raises(ValueError, match=says):
            packhouse.pyg.table(dataset)


def test_a_class_may_say_that_nodes_are_numbered(client: Client) -> None:
    graphs = [
        Numbered(x=torch.randn(n, 1), edge_index=torch.tensor([[0], [n - 1]]),
                 centre=torch.tensor([n // 2]))
        for n in (3, 5, 2)
    ]
    table = packhouse.pyg.table(graphs)
    (batch,) = client.pack([table], PackOptions({"graphs": 32}))
    ours = packhouse.pyg.to_batch(batch)
    theirs = Batch.from_data_list(graphs)
    assert ours.centre.tolist() == theirs.centre.tolist()
    assert ours.edge_index.tolist() == theirs.edge_index.tolist()


def library(venue: bool = True) -> HeteroData:
    data = HeteroData()
    data["paper"].x = torch.randn(2, 1)
    if venue:
        data["venue"].x = torch.randn(4, 3)
        data["paper", "in", "venue"].edge_index = torch.tensor([[0, 1], [3, 2]])
    return data


class _Numbered(Data):
    """Of a class with rules of its own."""

    def __inc__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        return self.num_nodes if key == "ends" else super().__inc__(key, value, *args, **kwargs)


def _perhaps_odd(graph: Any, random: np.random.Generator) -> Any:
    """The graph, or one in which something differs that joining may not change, or may."""
    stores = graph.stores
    store = stores[int(random.integers(len(stores)))]
    keys = [key for key in store.keys() if isinstance(store[key], torch.Tensor)]
    if not keys:
        return graph
    key = keys[int(random.integers(len(keys)))]
    value = store[key]
    change = int(random.integers(14))
    if change == 0:
        store[key] = value.to(torch.float16 if value.dtype != torch.float16 else torch.float64)
    elif change == 1:
        store[key] = value.unsqueeze(-1)
    elif change == 2 and value.dim() > 1:
        store[key] = torch.cat([value, value], 1)
    elif change == 3 and value.dim():
        store[key] = torch.cat([value, value], 0)
    elif change == 4:
        store[key] = value.to_sparse() if value.dim() else 1
    elif change == 5:
        store[key] = value.numpy()
    elif change == 6:
        store[key] = torch.nn.Parameter(value.float())
    elif change == 7:
        store[f"more_{key}"] = value
    elif change == 8:
        del store[key]
    elif change == 9:
        # The same attributes in another order.
        store[key] = store._mapping.pop(key)
    elif change == 10:
        store["num_nodes"] = 2.0
    elif change == 11:
        store["scale"] = bool(random.integers(2)) if "scale" in store else 1
    elif change == 12 and isinstance(graph, Data):
        return _Numbered(**{name: graph[name] for name in graph.keys()})
    return graph


@pytest.mark.parametrize("seed", range(300))
def test_graphs_that_are_as_the_first_need_no_other_look(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The quick look refuses what the slow one refuses, in the same words, and counts the same."""
    random = np.random.default_rng(seed)

    def plain() -> Data:
        nodes, edges = int(random.integers(1, 4)), int(random.integers(4))
        return Data(
            x=torch.zeros(nodes, 2),
            edge_index=torch.zeros((2, edges), dtype=torch.int64),
            face=torch.zeros((3, 2), dtype=torch.int32),
            y=torch.tensor(1.0),
            scale=2,
            note=torch.zeros(1, 4),
        )

    def typed() -> HeteroData:
        data = HeteroData(y=torch.zeros(1, 2))
        data["paper"].x = torch.zeros(int(random.integers(1, 4)), 2)
        data["author"].num_nodes = int(random.integers(1, 4))
        data["author", "writes", "paper"].edge_index = torch.zeros((2, 3), dtype=torch.int64)
        data["author", "writes", "paper"].weight = torch.zeros(3)
        return data

    graphs = [(plain, typed)[seed % 2]() for _ in range(6)]
    odd = int(random.integers(len(graphs) + 1))
    if odd < len(graphs):
        graphs[odd] = _perhaps_odd(graphs[odd], random)
    exclude_keys = ("note", "weight")[: int(random.integers(3))]

    def looked_at() -> tuple[Any, ...]:
        look = joining.GraphChecks(exclude_keys)
        look.rows = {} if seed % 3 else None
        try:
            for graph in graphs:
                look.check(graph)
        except Exception as error:
            return type(error), str(error)
        return look.rows, look.rules, look.num_nodes

    quick = looked_at()
    monkeypatch.setattr(joining._Likeness, "of", staticmethod(lambda *arguments: None))
    assert quick == looked_at()


def test_a_quick_look_suffices_for_graphs_of_one_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the first batch of a data set that is stored already would wait for the slow one."""
    looked_at = []
    slow = joining._type_of
    monkeypatch.setattr(joining, "_type_of", lambda *what: looked_at.append(what) or slow(*what))
    graphs = [data_of(graph) for graph in random_plain(1, 50)]
    packhouse.pyg.table(graphs)
    assert len(looked_at) == len(graphs[0].keys())


def test_the_first_graph_does_not_decide_what_the_others_have() -> None:
    def atoms(n: int, **more: Any) -> Data:
        return Data(z=torch.arange(n), pos=torch.randn(n, 3), energy=torch.randn(1), **more)

    virial = {"virial": torch.randn(1, 3, 3)}
    for graphs, says in (
        ([atoms(3), atoms(2, **virial)], "'virial': graph 1 has it, graph 0 lacks it"),
        ([atoms(3, **virial), atoms(2)], "'virial': graph 0 has it, graph 1 lacks it"),
        ([atoms(3, virial=None), atoms(2, **virial)], "'virial': graph 1 has it"),
        ([library(False), library()], "graph 1 has the type .*the first one has it not"),
        ([library(), library(False)], "graph 1 has not the type .*the first one has it"),
    ):
        with pytest.raises(ValueError, match=says):
            packhouse.pyg.table(graphs)
        if len(graphs[0].stores) == 1:
            packhouse.pyg.table(graphs, exclude_keys=["virial"])


def test_a_joined_data_set_of_unlike_graphs_names_what_some_lack() -> None:
    """PyG joins them, and takes the number of graphs from any one attribute."""

    def paper(**more: Any) -> HeteroData:
        data = HeteroData()
        for kind in ("extra", "paper") if more.get("extra_first") else ("paper", "extra"):
            if kind == "paper":
                data[kind].x = torch.zeros(2, 1)
            elif more:
                data[kind].pos = torch.zeros(2, 3)
        return data

    for extra_first in (True, False):
        joined = InMemory([paper(extra_first=extra_first), paper(), paper()])
        says = "graphs 0 to 2: attribute 'extra.pos' has rows of 1 graphs only; .* lack 'extra'"
        with pytest.raises(ValueError, match=says):
            packhouse.pyg.table(joined)
    # PyG counts what the first type has, whether it is wanted or not.
    joined = InMemory([paper(extra_first=True), paper(), paper()])
    with pytest.raises(ValueError, match="'paper.x' has rows of 3 graphs, of which PyG counts 1"):
        packhouse.pyg.table(joined, exclude_keys=["pos"])


def test_a_joined_data_set_in_which_pyg_counts_no_graph_is_refused() -> None:
    """It may have lost some of them."""

    def nodes(count: int) -> HeteroData:
        data = HeteroData()
        data["paper"].num_nodes = count
        return data

    graphs = [nodes(2), nodes(3)]
    assert packhouse.pyg.table(graphs).sizes.tolist() == [[2], [3]]
    assert len(InMemory(graphs)) == 0
    with pytest.raises(ValueError, match="PyG counts no graph in this data set"):
        packhouse.pyg.table(InMemory(graphs))
    with pytest.raises(ValueError, match="PyG counts no graph in this data set"):
        packhouse.frameworks.pyg.datasets.sizes_of(InMemory(graphs))


def test_one_graph_of_another_type_changes_no_values() -> None:
    def data(value: float, dtype: torch.dtype) -> Data:
        y = torch.tensor([value], dtype=dtype)
        return Data(x=torch.zeros(1, 1), edge_index=torch.zeros(2, 0, dtype=torch.long), y=y)

    for first, odd in (
        (data(16777217, torch.int64), data(0.5, torch.float32)),
        (data(70000, torch.int32), data(0.5, torch.float16)),
        (data(-1.0000000001, torch.float64), data(-2.0, torch.float32)),
    ):
        with pytest.raises(ValueError, match="'y': it is a tensor of .* in graph 0 and a tensor of"):
            packhouse.pyg.table([first, first, odd])


@pytest.mark.parametrize("name", ["loss_weight", "node_mask", "edge_mask", "graph_mask", "nodes"])
def test_names_of_batches_are_refused(name: str) -> None:
    graphs = [Data(x=torch.ones(n, 1), **{name: torch.ones(n, 1)}) for n in (2, 3)]
    for dataset in (graphs, InMemory(graphs)):
        with pytest.raises(ValueError, match=f"attribute '{name}': batches have something else"):
            packhouse.pyg.table(dataset)
        packhouse.pyg.table(dataset, exclude_keys=[name])


def test_no_coincidence_of_numbers_decides_what_an_attribute_belongs_to() -> None:
    def crystal(atoms: int) -> Data:
        return Data(pos=torch.randn(atoms, 3), cell=torch.eye(3), num_nodes=atoms)

    schema = packhouse.pyg.table([crystal(2), crystal(5)]).schema
    assert {spec.name: spec.component for spec in schema.tensors}["cell"] == "cell"
    with pytest.raises(ValueError, match="'cell' has as many rows as nodes, and 3 in each graph"):
        packhouse.pyg.table([crystal(3), crystal(3)])
    water = packhouse.pyg.table([crystal(3), crystal(3)], components={"cell": "cell"})
    assert water.schema == schema
    with pytest.raises(ValueError, match="said to be along 'nodes', of which graph 1 has 5, but has 3"):
        packhouse.pyg.table([crystal(3), crystal(5)], components={"cell": "nodes"})
    with pytest.raises(ValueError, match="cannot be along 'atoms', but nodes, "):
        packhouse.pyg.table([crystal(3), crystal(5)], components={"cell": "atoms"})


def test_sizes_are_by_name_and_checked(server: LocalServer) -> None:
    first, other = HeteroData(), HeteroData()
    first["paper"].x, first["author"].x = torch.ones(2, 1), torch.ones(100, 1)
    other["author"].x, other["paper"].x = torch.ones(100, 1), torch.ones(2, 1)
    sizes, components = packhouse.frameworks.pyg.datasets.sizes_of([first, other])
    assert dict(zip(components, sizes.T.tolist())) == {"paper": [2, 2], "author": [100, 100]}
    with pytest.raises(ValueError, match="graph 1 and the first one do not both have venue"):
        more = HeteroData()
        more["author"].x, more["paper"].x = other["author"].x, other["paper"].x
        more["venue"].x = torch.ones(1, 1)
        packhouse.frameworks.pyg.datasets.sizes_of([first, more])
    for odd in (float("nan"), 3.9, 2.0**32 + 1, -1):
        with pytest.raises(ValueError, match="sizes has"):
            BatchSampler(server.address, [[1, odd]], {"nodes": 8})
    for whole in (2**32 + 1, -1):
        with pytest.raises(ValueError, match="sizes has values from .* beyond uint32"):
            BatchSampler(server.address, [[1, whole]], {"nodes": 8})


def test_a_data_set_in_memory_is_read_without_a_loop(
    client: Client, shared_data: Callable[[str], pathlib.Path]
) -> None:
    """The same table as graph by graph, for all of it, a part of it, and with a transform."""
    graphs = [data_of(graph) for graph in of_npz(shared_data("graphs/molhiv.npz"), 200)]
    dataset = InMemory(graphs)
    assert packhouse.pyg.table(dataset).equals(packhouse.pyg.table(graphs))
    part = dataset[torch.tensor([7, 3, 150, 3])]
    chosen = [graphs[number] for number in (7, 3, 150, 3)]
    assert packhouse.pyg.table(part).equals(packhouse.pyg.table(chosen))

    def double(data: Data) -> Data:
        data = copy.copy(data)
        data.x = data.x * 2
        return data

    transformed = packhouse.pyg.table(InMemory(graphs, double))
    assert np.array_equal(transformed.tensors["x"], 2 * packhouse.pyg.table(graphs).tensors["x"])


def test_a_data_set_that_was_saved_is_read_as_before(tmp_path: pathlib.Path) -> None:
    """As PyG saves processed data sets, and as OGB does, whose graphs say their number of nodes."""
    graphs = [data_of(graph) for graph in random_plain(3, 40)]
    InMemory.save(graphs, str(tmp_path / "pyg.pt"))
    saved = InMemory(graphs[:2])
    saved.load(str(tmp_path / "pyg.pt"))
    torch.save(InMemory.collate(graphs), tmp_path / "ogb.pt")
    ogb = InMemory(graphs[:2])
    ogb.data, ogb.slices = torch.load(tmp_path / "ogb.pt")
    for dataset in (saved, ogb):
        assert len(dataset) == 40
        assert packhouse.pyg.table(dataset).equals(packhouse.pyg.table(graphs))


def test_saved_files_are_read_if_they_are_trusted(tmp_path: pathlib.Path) -> None:
    """Every way in which PyG has saved processed data sets."""
    graphs = [data_of(graph) for graph in random_plain(6, 40)]
    table = packhouse.pyg.table(graphs)
    data, slices = InMemory.collate(graphs)
    InMemory.save(graphs, str(tmp_path / "data.pt"))
    for number, saved in enumerate(
        [
            (data, slices),
            (data.to_dict(), slices, {"num_node_labels": 3}),
            (data.to_dict(), slices, {"num_node_labels": 3}, Data),
            graphs,
        ]
    ):
        torch.save(saved, tmp_path / f"{number}.pt")
    for path in sorted(tmp_path.iterdir()):
        (read,) = pickles.tables(path, trust_pickle=True)
        assert read.equals(table), path
        with pytest.raises(PermissionError, match="is a pickle"):
            pickles.tables(path)
    hetero = [hetero_data_of(graph) for graph in random_typed(6, 20)]
    InMemory.save(hetero, str(tmp_path / "hetero.pt"))
    (read,) = pickles.tables(tmp_path / "hetero.pt", trust_pickle=True)
    assert read.equals(packhouse.pyg.table(hetero))
    # A batch has the graphs that it was made of.
    for whole in (Batch.from_data_list(graphs), InMemory(graphs)):
        torch.save(whole, tmp_path / "whole.pt")
        (read,) = pickles.tables(tmp_path / "whole.pt", trust_pickle=True)
        assert read.equals(table)
    torch.save(graphs[0], tmp_path / "one.pt")
    (read,) = pickles.tables(tmp_path / "one.pt", trust_pickle=True)
    assert read.equals(packhouse.pyg.table(graphs[:1]))


@pytest.mark.parametrize("saved", [{"weights": 1}, (1, 2), [1, 2], "text"])
def test_other_saved_things_are_refused_by_name(tmp_path: pathlib.Path, saved: Any) -> None:
    torch.save(saved, tmp_path / "model.pt")
    with pytest.raises(ValueError, match="model.pt: no data set of PyG's"):
        list(pickles.tables(tmp_path / "model.pt", trust_pickle=True))
    (tmp_path / "broken.pt").write_bytes(b"PK\x03\x04broken")
    with pytest.raises(ValueError, match="broken.pt: torch cannot read it"):
        list(pickles.tables(tmp_path / "broken.pt", trust_pickle=True))


def test_what_pyg_refuses_is_one_line_with_the_file(
    server: LocalServer, tmp_path: pathlib.Path
) -> None:
    old = Data.__new__(Data)
    # What PyG 1 pickled has attributes and no store.
    old.__dict__.clear()
    old.__dict__.update(x=torch.ones(5, 2), edge_index=torch.tensor([[0], [1]]), y=None)
    torch.save((old, {"x": torch.tensor([0, 3, 5])}), tmp_path / "old.pt")
    command = [sys.executable, "-B", "-m", "packhouse", "ingest", str(tmp_path / "old.pt")]
    command += ["--server", server.address, "--dataset", "old", "--trust-pickle"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 1
    assert "old.pt: PyG cannot read it: RuntimeError: " in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_command_guesses_no_numbers_of_nodes(
    server: LocalServer, client: Client, tmp_path: pathlib.Path
) -> None:
    """Five atoms, of which edges join two, are five also in a file."""

    def ingest(name: str, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-B", "-m", "packhouse", "ingest", str(tmp_path / f"{name}.pt")]
        command += ["--server", server.address, "--dataset", f"guess-{name}", "--trust-pickle"]
        return subprocess.run([*command, "--seal", *words], capture_output=True, text=True)

    def molecule(**more: Any) -> Data:
        return Data(edge_index=torch.tensor([[0, 1], [1, 0]]), z=torch.arange(5), **more)

    torch.save([molecule() for _ in range(3)], tmp_path / "list.pt")
    InMemory.save([molecule() for _ in range(3)], str(tmp_path / "joined.pt"))
    torch.save([molecule(x=torch.zeros(5, 1)) for _ in range(3)], tmp_path / "left-out.pt")
    torch.save([molecule(num_nodes=5), molecule(num_nodes=5)], tmp_path / "told.pt")
    for name in ("list", "joined"):
        done = ingest(name)
        assert done.returncode == 1 and f"{name}.pt: " in done.stderr
        assert "nothing says how many nodes" in done.stderr and "Traceback" not in done.stderr
    for name, words in (("left-out", ("--exclude", "x")), ("told", ())):
        done = ingest(name, *words)
        assert done.returncode == 1
        assert "'z' has as many rows as nodes, and 5 in each" in done.stderr
    other = Data(edge_index=torch.zeros(2, 0).long(), z=torch.arange(2), num_nodes=2)
    torch.save([molecule(num_nodes=5), other], tmp_path / "sizes.pt")
    done = ingest("sizes")
    assert done.returncode == 0, done.stderr
    stored = client.datasets.get("guess-sizes", include_histogram=True).histogram
    assert stored is not None and sorted(stored.tuples.tolist()) == [[2, 0], [5, 2]]


def test_a_command_stores_a_saved_data_set(
    server: LocalServer, client: Client, tmp_path: pathlib.Path
) -> None:
    graphs = [data_of(graph) for graph in random_plain(7, 40)]
    for graph in graphs:
        graph.smiles = "C"
    InMemory.save(graphs, str(tmp_path / "data.pt"))
    command = [sys.executable, "-B", "-m", "packhouse", "ingest", str(tmp_path / "data.pt")]
    command += ["--server", server.address, "--dataset", "saved", "--seal"]
    assert subprocess.run(command, capture_output=True).returncode == 1
    command += ["--trust-pickle"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 1 and "'smiles': it is no dense tensor" in ran.stderr
    ran = subprocess.run(command + ["--exclude", "smiles"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert client.datasets.get("saved").num_graphs == 40


def test_parts_are_the_whole() -> None:
    graphs = [data_of(graph) for graph in random_plain(2, 50)]
    parts = list(packhouse.pyg.tables(graphs, graphs_per_table=16))
    assert [len(part) for part in parts] == [16, 16, 16, 2]
    assert GraphTable.concatenate(parts).equals(packhouse.pyg.table(iter(graphs)))


@pytest.mark.parametrize(
    "attribute, words",
    [
        ({"smiles": "CCO"}, "'smiles': it is no dense tensor but str"),
        ({"gaps": np.ma.masked_array([0.0, 1.0], [1, 0])}, "'gaps': it is no dense tensor but MaskedArray"),
        ({"x_batch": torch.tensor([0, 0, 1])}, "'x_batch': PyG adds its largest value"),
        ({"adj": torch.eye(3).to_sparse()}, "'adj': it is no dense tensor"),
    ],
)
def test_what_cannot_be_sent_is_named(attribute: dict[str, Any], words: str) -> None:
    graphs = [Data(x=torch.ones(3, 1), **attribute), Data(x=torch.ones(3, 1), **attribute)]
    with pytest.raises(ValueError, match=words):
        packhouse.pyg.table(graphs)
    table = packhouse.pyg.table(graphs, exclude_keys=attribute)
    assert [spec.name for spec in table.schema.tensors] == ["x"]


def test_a_later_part_that_differs_is_named() -> None:
    some = [Data(x=torch.ones(3, 1), z=torch.ones(3)), Data(x=torch.ones(3, 1))]
    with pytest.raises(ValueError, match="attribute 'z': graph 0 has it, graph 1 lacks it"):
        packhouse.pyg.table(some)
    with pytest.raises(ValueError, match="attribute 'z': graph 1 has it, graph 0 lacks it"):
        packhouse.pyg.table(some[::-1])
    graphs = [Data(x=torch.ones(3, 1))] * 4 + [Data(x=torch.ones(3, 1).double())]
    for graphs_per_table in (2, 4, 100):
        with pytest.raises(ValueError, match="attribute 'x': it is a tensor of torch.float32 .* in gr"):
            list(packhouse.pyg.tables(graphs, graphs_per_table=graphs_per_table))
    wide = [Data(x=torch.ones(3, 1))] * 4 + [Data(x=torch.ones(3, 2))]
    with pytest.raises(ValueError, match=r"attribute 'x': .*\(rows, 2\) in graph 4"):
        list(packhouse.pyg.tables(wide, graphs_per_table=4))


class Turning(Data):
    """Says of graphs of two nodes what it does not say of others."""

    def __cat_dim__(self, key: str, value: Any, *more: Any, **named: Any) -> Any:
        if key == "turned":
            return -1 if self.num_nodes == 2 else 1
        return super().__cat_dim__(key, value, *more, **named)

    def __inc__(self, key: str, value: Any, *more: Any, **named: Any) -> Any:
        if key == "perhaps":
            return 0 if self.num_nodes == 2 else self.num_nodes
        return super().__inc__(key, value, *more, **named)


def test_what_graphs_say_otherwise_than_those_before_is_named() -> None:
    def turning(key: str, *counts: int) -> list[Data]:
        shape = (2,) if key == "perhaps" else (2, 1)
        return [Turning(x=torch.ones(n, 1), **{key: torch.zeros(shape).long()}) for n in counts]

    def weighed(nodes: int, weights: int) -> Data:
        return Data(x=torch.ones(nodes, 1), w=torch.ones(weights))

    bare = HeteroData()
    bare["a"].x, bare["a", "to", "a"].edge_attr = torch.ones(2, 1), torch.ones(3, 1)
    for graphs, words in (
        (turning("turned", 2, 3), "graph 1: .*'turned': it is joined along 1, others along -1;"),
        (turning("perhaps", 2, 3), "graph 1: .*'perhaps': PyG adds 3 for it, to others 0;"),
        (turning("perhaps", 3, 2), "'perhaps': PyG adds 0 for it, to others their number of nodes;"),
        (
            [Data(x=torch.ones(3, 1), pos=torch.ones(2, 3))],
            "^graph 0: 'x' tells of 3 nodes, 'pos' of 2: set num_nodes, or rename one of them$",
        ),
        (
            [Data(x=torch.ones(2, 1), edge_index=torch.zeros(2, 1))],
            "^graph 0: attribute 'edge_index': edge_index has dtype FLOAT32; rename it, or name it",
        ),
        ([bare], r"^graph 0: edges of type \('a', 'to', 'a'\) have no 'edge_index'$"),
        (
            [weighed(2, 2), weighed(3, 3), weighed(4, 4), weighed(5, 6)],
            "^graph 3: attribute 'w' has 6 rows, not 5 as 'nodes', along which the graphs before have",
        ),
        (
            [weighed(2, 1), weighed(3, 1), weighed(4, 2)],
            "^graph 2: attribute 'w' has 2 rows, not 1 as 'graphs', along which the graphs before",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            list(packhouse.pyg.tables(iter(graphs), graphs_per_table=2))
    for take in (packhouse.pyg.table, lambda graph: next(packhouse.pyg.tables(graph))):
        with pytest.raises(TypeError, match=r"one graph, not a data set: give a list, as \[data\]$"):
            take(weighed(2, 2))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_the_sampler_goes_into_their_loader(server: LocalServer, num_workers: int) -> None:
    graphs = [data_of(graph) for graph in random_plain(8, 120)]
    limits = {"nodes": 60, "edges": 150, "graphs": 12}
    sampler = packhouse.pyg.batch_sampler(server.address, graphs, limits, seed=5)
    for number, data in enumerate(graphs):
        data.number = number
    loader = DataLoader(graphs, batch_sampler=sampler, num_workers=num_workers)
    in_memory = packhouse.pyg.batch_sampler(server.address, InMemory(graphs), limits, seed=5)
    assert list(in_memory) == list(sampler)
    epochs = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        batches = list(loader)
        assert len(batches) == len(loader)
        for batch in batches:
            assert batch.num_nodes <= 60 and batch.num_edges <= 150 and batch.num_graphs <= 12
        epochs.append([number for batch in batches for number in batch.number.tolist()])
        assert sorted(epochs[-1]) == list(range(120))
    assert epochs[0] != epochs[1]
    sampler.set_epoch(1, first_batch=3)
    assert list(sampler) == list(_of_epoch(sampler, 1))[3:]


def test_a_sampler_names_the_graph_that_is_too_large(server: LocalServer) -> None:
    """By its number in the data set, whatever the order in which the sizes were sent."""
    graphs = [data_of(graph) for graph in random_plain(8, 60)]
    graphs[41] = Data(x=torch.ones(500, 3), edge_index=torch.zeros(2, 0, dtype=torch.long))
    limits = {"nodes": 60, "edges": 150, "graphs": 12}
    with pytest.raises(PackhouseError, match="OUT_OF_RANGE: .*graph 41") as error:
        len(packhouse.pyg.batch_sampler(server.address, graphs, limits))
    assert error.value.code is grpc.StatusCode.OUT_OF_RANGE
    sampler = packhouse.pyg.batch_sampler(server.address, graphs, limits, oversize="reject")
    with pytest.warns(OversizeWarning, match="1 graphs .* graph 41 has 500 nodes"):
        numbers = [number for batch in sampler for number in batch]
    assert sorted(numbers) == [number for number in range(60) if number != 41]
    nowhere = packhouse.pyg.batch_sampler("127.0.0.1:1", graphs, limits, timeout=0.1)
    with pytest.raises(PackhouseError, match="UNAVAILABLE: no server at 127.0.0.1:1"):
        len(nowhere)


def _of_epoch(sampler: Any, epoch: int) -> Any:
    other = copy.copy(sampler)
    other.set_epoch(epoch)
    return other


def test_ranks_share_an_epoch(server: LocalServer) -> None:
    graphs = [hetero_data_of(graph) for graph in random_typed(4, 64)]
    limits = {"paper": 40, "author.writes.paper": 80, "graphs": 7}
    shares = [
        list(packhouse.pyg.batch_sampler(server.address, graphs, limits, rank=rank, num_ranks=3))
        for rank in range(3)
    ]
    assert len({len(share) for share in shares}) == 1
    assert {number for share in shares for batch in share for number in batch} == set(range(64))


def test_padding_values_keep_gradients_of_forces_finite(
    client: Client, server: LocalServer
) -> None:
    """Lengths of padding edges are 0, whose derivative is NaN, unless padding says otherwise."""

    def molecule(n: int) -> Data:
        ends = torch.combinations(torch.arange(n)).T
        return Data(
            z=torch.arange(n),
            pos=torch.randn(n, 3),
            edge_index=ends,
            shift=torch.zeros(ends.shape[1], 3),
            force=torch.randn(n, 3),
            num_nodes=n,
        )

    def gradient(data: Any, mask: Any) -> Any:
        pos = data.pos.clone().requires_grad_()
        source, target = data.edge_index
        weight = torch.ones(1, requires_grad=True)
        lengths = (pos[target] - pos[source] + data.shift).square().sum(dim=1).sqrt()
        (force,) = torch.autograd.grad((weight * lengths).sum(), pos, create_graph=True)
        packhouse.pyg.masked_mean((force - data.force).square(), mask).backward()
        return weight.grad

    graphs = [molecule(n) for n in (3, 1, 4, 2, 5, 1)]
    limits = {"nodes": 24, "edges": 64, "graphs": 8}
    real = gradient(Batch.from_data_list(graphs), torch.ones(16, dtype=torch.bool))
    found = {}
    for name, values in (("pyg/zeros", None), ("pyg/shifted", {"shift": 10.0})):
        packhouse.pyg.ingest(
            client,
            name,
            graphs,
            padding_values=values,
            components={"z": "nodes", "pos": "nodes", "force": "nodes", "shift": "edges"},
        )
        (batch,) = Evaluation(server.address, dataset=name, limits=limits, padding="graph")
        data = packhouse.pyg.to_batch(batch, padding=True)
        found[name] = gradient(data, data.node_mask)
    assert torch.isnan(found["pyg/zeros"]).all()
    torch.testing.assert_close(found["pyg/shifted"], real)


def test_names_of_a_table_that_batches_use_are_not_overwritten(
    client: Client, server: LocalServer
) -> None:
    """Tables that no dialect has made may have them."""
    schema = GraphSchema(
        ("nodes",),
        (
            TensorSpec("node_mask", "float32", "nodes"),
            TensorSpec("loss_weight", "float32", "graphs"),
        ),
    )
    columns = {"node_mask": [0.5, 0.25, 0.75], "loss_weight": [3.0, 3.0]}
    table = GraphTable(schema, [[1], [2]], columns)
    client.datasets.create("pyg/taken", schema)
    client.datasets.append("pyg/taken", table)
    client.datasets.seal("pyg/taken")
    settings: dict[str, Any] = {"limits": {"nodes": 8, "graphs": 4}, "padding": "graph"}
    with Loader(server.address, dataset="pyg/taken", job="taken", **settings) as loader:
        (batch,) = loader
        data = packhouse.pyg.to_batch(batch)
        assert sorted(data.node_mask.tolist()) == [0.25, 0.5, 0.75]
        assert data.loss_weight.tolist() == [3.0, 3.0] and data.lease == batch.lease
        with pytest.raises(ValueError, match="has a tensor 'node_mask', as the mask"):
            packhouse.pyg.to_batch(batch, padding=True)

"""The data sets: syntax trees are trees of the right functions; files are read as documented."""

from __future__ import annotations

import ast
import gzip
import inspect
import pathlib
import textwrap

import numpy as np
import pytest

from packhouse import GraphTable
from packhouse.files import npz, python_syntax_trees, size_files

SOURCE = """
import os
def outer(a, b=1, /, c=2, *args, d, **kwargs):
    def inner():
        return lambda: a
    class Local:
        async def method(self):
            await self
    return [inner for _ in range(3)]
if os:
    def conditional(x): pass
"""


def functions_by_walking(source: str) -> list[ast.AST]:
    """All functions in order of appearance."""
    found = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    return sorted(found, key=lambda node: (node.lineno, node.col_offset))


@pytest.mark.parametrize(
    "source",
    [SOURCE, inspect.getsource(ast), inspect.getsource(textwrap)],
    ids=["every kind", "ast", "textwrap"],
)
def test_every_function_is_its_own_tree(source: str) -> None:
    table = python_syntax_trees.functions_of(source, first_id=3)
    functions = functions_by_walking(source)
    assert len(table) == len(functions) > 0
    assert table.graph_ids.tolist() == list(range(3, 3 + len(functions)))
    for position, function in enumerate(functions):
        graph = table.graph(position)
        rows: list[tuple[str, int, int]] = []

        def visit(node: ast.AST, parent: int, depth: int) -> None:
            row = len(rows)
            rows.append((type(node).__name__, parent, depth))
            for child in ast.iter_child_nodes(node):
                visit(child, row, depth + 1)

        visit(function, -1, 0)
        names = [python_syntax_trees.NODE_TYPES[number] for number in graph["node_type"]]
        assert names == [name for name, _, _ in rows]
        assert graph["senders"].tolist() == [parent for _, parent, _ in rows[1:]]
        assert graph["receivers"].tolist() == list(range(1, len(rows)))
        assert graph["depth"].tolist() == [depth for _, _, depth in rows]


def test_parameters_of_every_kind_count() -> None:
    table = python_syntax_trees.functions_of(SOURCE)
    assert table.tensors["num_args"].tolist() == [6, 0, 1, 1]


@pytest.mark.parametrize(
    "source",
    ["def broken(:", "\0", "", "x = 1"],
    ids=["broken", "zero byte", "empty", "no function"],
)
def test_a_source_without_functions_gives_an_empty_table(source: str) -> None:
    table = python_syntax_trees.functions_of(source)
    assert len(table) == 0 and table.schema == python_syntax_trees.SCHEMA


def test_library_files_come_sorted_and_without_installed_packages(tmp_path: pathlib.Path) -> None:
    for name in ("b.py", "a/z.py", "a/b.txt", "site-packages/c.py", "dist-packages/d.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("def f(): pass")
    files = python_syntax_trees.source_files(tmp_path)
    assert [str(file.relative_to(tmp_path)) for file in files] == ["b.py", "a/z.py"]
    table = GraphTable.concatenate(list(python_syntax_trees.tables(files)))
    assert table.graph_ids.tolist() == [0, 1]


def test_this_machines_library_has_functions() -> None:
    files = python_syntax_trees.source_files()[:40]
    table = GraphTable.concatenate(list(python_syntax_trees.tables(files)))
    assert len(table) > 500
    assert (table.counts("edges") == table.counts("nodes") - 1).all()


def test_molecule_files_are_read(tmp_path: pathlib.Path) -> None:
    arrays = {
        "node_offsets": np.array([0, 2, 5]),
        "edge_offsets": np.array([0, 1, 3]),
        "edge_index": np.array([[0, 1, 2], [1, 0, 2]], np.int16),
        "x": np.arange(45, dtype=np.int16).reshape(5, 9),
        "edge_attr": np.arange(9, dtype=np.int8).reshape(3, 3),
        "y": np.array([0.5, -1], np.float32),
    }
    np.savez(tmp_path / "graphs.npz", **arrays)
    table = npz.load(tmp_path / "graphs.npz")
    assert table.sizes.tolist() == [[2, 1], [3, 2]]
    second = table.graph(1)
    assert second["senders"].tolist() == [1, 2] and second["receivers"].tolist() == [0, 2]
    assert second["x"].tolist() == arrays["x"][2:].tolist()
    assert second["y"].tolist() == [-1]

    # By its length, or its name.
    np.savez(tmp_path / "more.npz", **arrays, weights=np.zeros(2), edge_mask=np.ones(3, bool))
    schema = npz.load(tmp_path / "more.npz").schema
    assert [spec.component for spec in schema.tensors[-2:]] == ["graphs", "edges"]
    np.savez(tmp_path / "odd.npz", **arrays, weights=np.zeros(7))
    with pytest.raises(ValueError, match=r"odd.npz: array 'weights' has shape \(7,\); there are 5"):
        npz.load(tmp_path / "odd.npz")
    np.savez(tmp_path / "bare.npz", node_offsets=arrays["node_offsets"])
    with pytest.raises(ValueError, match="no array 'edge_offsets'"):
        npz.load(tmp_path / "bare.npz")


def test_several_kinds_of_nodes_and_edges_are_read(tmp_path: pathlib.Path) -> None:
    arrays = {
        "paper.offsets": np.array([0, 2, 3]),
        "author.offsets": np.array([0, 1, 3]),
        "author.writes.paper.offsets": np.array([0, 2, 3]),
        "author.writes.paper.edge_index": np.array([[0, 0, 1], [1, 0, 0]]),
        "paper.x": np.array([[1.5], [2.5], [3.5]], np.float32),
        "y": np.array([7, 8], np.int8),
    }
    np.savez(tmp_path / "graphs.npz", **arrays)
    table = npz.load(tmp_path / "graphs.npz")
    assert table.schema.components == ("paper", "author", "author.writes.paper")
    assert table.sizes.tolist() == [[2, 1, 2], [1, 2, 1]]
    source, target, x, y = table.schema.tensors
    assert (source.name, source.index_into) == ("author.writes.paper.source", "author")
    assert (target.name, target.index_into) == ("author.writes.paper.target", "paper")
    assert (x.component, y.component) == ("paper", "graphs")
    assert table.graph(1)[source.name].tolist() == [1]

    for name, array, says in (
        ("paper.edge_index", np.zeros((2, 3), int), "must be SOURCE.RELATION.TARGET"),
        ("paper.x", np.zeros(2), "needs one row for each of the 3 paper"),
        ("y", np.zeros(3), "needs one row for each of the 2 graphs"),
        ("author.offsets", np.array([0, 3]), "the offsets differ in length"),
    ):
        np.savez(tmp_path / "odd.npz", **{**arrays, name: array})
        with pytest.raises(ValueError, match=says):
            npz.load(tmp_path / "odd.npz")


def test_size_files_are_read_plain_and_gzipped(tmp_path: pathlib.Path) -> None:
    text = "num_nodes,num_edges\n3,4\n5,6\n"
    (tmp_path / "sizes.csv").write_text(text)
    with gzip.open(tmp_path / "sizes.csv.gz", "wt") as file:
        file.write(text)
    for name in ("sizes.csv", "sizes.csv.gz"):
        table = size_files.load(tmp_path / name)
        assert table.schema.components == ("nodes", "edges")
        assert table.sizes.tolist() == [[3, 4], [5, 6]]


def test_histograms_are_spread_out_in_an_order_of_the_seed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "hist.csv").write_text("num_nodes,num_edges,count\n3,4,5\n1,1,7\n")
    table = size_files.load(tmp_path / "hist.csv")
    assert sorted(table.sizes.tolist()) == [[1, 1]] * 7 + [[3, 4]] * 5
    assert table.equals(size_files.load(tmp_path / "hist.csv"))
    (tmp_path / "odd.csv").write_text("a b\n1\n")
    with pytest.raises(ValueError, match="'a b'"):
        size_files.load(tmp_path / "odd.csv")

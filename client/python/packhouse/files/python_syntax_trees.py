"""The functions of this machine's own Python standard library, each as its syntax tree.

A graph is one `def` or `async def`, nested ones too. Its nodes are the nodes of the function's
abstract syntax tree in preorder, its edges lead from parent to child. What there is depends on the
Python version and on which parts of its library are installed; the order is always the same.
"""

from __future__ import annotations

import ast
import gc
import os
import pathlib
import sysconfig
import warnings
from typing import Final, Iterator, NamedTuple

import numpy as np
import numpy.typing as npt

from packhouse.data.graphs import GraphTable
from packhouse.data.schema import DType, GraphSchema, TensorSpec

SCHEMA: Final = GraphSchema(
    components=("nodes", "edges"),
    tensors=(
        # Number of the node's class in NODE_TYPES.
        TensorSpec("node_type", DType.INT16, "nodes", padding_value=-1),
        # Edges between a node and the function's root, which has 0.
        TensorSpec("depth", DType.INT16, "nodes"),
        TensorSpec("senders", DType.INT32, "edges", index_into="nodes"),
        TensorSpec("receivers", DType.INT32, "edges", index_into="nodes"),
        # Parameters of the function, `*args` and `**kwargs` included.
        TensorSpec("num_args", DType.INT32, "graphs"),
    ),
)

NODE_TYPES: Final = tuple(
    sorted(
        name
        for name, kind in vars(ast).items()
        if isinstance(kind, type) and issubclass(kind, ast.AST)
    )
)
_TYPE_NUMBERS: Final = {getattr(ast, name): number for number, name in enumerate(NODE_TYPES)}
_NOT_THE_LIBRARY: Final = ("site-packages", "dist-packages", "__pycache__")


class _Tree(NamedTuple):
    """A file's nodes in preorder, so that every subtree is a range of rows."""

    node_type: npt.NDArray[np.int16]
    parent: npt.NDArray[np.int32]
    depth: npt.NDArray[np.int16]
    functions: list[tuple[int, int, int]]  # First row, end row, parameters.


def source_files(root: str | os.PathLike[str] | None = None) -> list[pathlib.Path]:
    """All .py files below `root` (default: the standard library), sorted, without packages that
    were installed beside it."""
    files = []
    for folder, folders, names in os.walk(root or sysconfig.get_path("stdlib")):
        folders[:] = sorted(name for name in folders if name not in _NOT_THE_LIBRARY)
        files += [pathlib.Path(folder, name) for name in sorted(names) if name.endswith(".py")]
    return files


def tables(files: list[pathlib.Path] | None = None) -> Iterator[GraphTable]:
    """One table a file, of all its functions in order of appearance; ids count from 0.

    Files that this Python cannot parse (the library has some on purpose) give an empty table.
    Cost: about a second per million nodes.
    """
    first_id = 0
    # The cycle collector would go through each file's tree again and again: four times as slow.
    collecting = gc.isenabled()
    gc.disable()
    try:
        for file in source_files() if files is None else files:
            table = functions_of(file.read_bytes(), first_id)
            first_id += len(table)
            yield table
    finally:
        if collecting:
            gc.enable()


def functions_of(source: bytes | str, first_id: int = 0) -> GraphTable:
    """The functions of one source text."""
    with warnings.catch_warnings():
        # Old test files have invalid escapes and the like.
        warnings.simplefilter("ignore")
        try:
            module = ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return GraphTable.from_graphs(SCHEMA, (), first_id=first_id)
    tree = _walk(module)
    ranges = [(start, end) for start, end, _ in tree.functions]
    sizes = [(end - start, end - start - 1) for start, end in ranges]
    parts = {
        "node_type": [tree.node_type[start:end] for start, end in ranges],
        "depth": [tree.depth[start:end] - tree.depth[start] for start, end in ranges],
        "senders": [tree.parent[start + 1 : end] - start for start, end in ranges],
        "receivers": [np.arange(1, nodes) for nodes, _ in sizes],
        "num_args": [[args] for _, _, args in tree.functions],
    }
    columns = {
        spec.name: np.concatenate(
            [np.empty(0, spec.dtype.numpy), *parts[spec.name]], dtype=spec.dtype.numpy
        )
        for spec in SCHEMA.tensors
    }
    return GraphTable(SCHEMA, np.reshape(sizes, (-1, 2)), columns, first_id=first_id)


def _walk(module: ast.Module) -> _Tree:
    node_type: list[int] = []
    parents: list[int] = []
    depths: list[int] = []
    functions: list[tuple[int, int, int]] = []
    open_functions: list[tuple[int, int, int]] = []  # First row, depth, parameters.
    stack: list[tuple[ast.AST, int, int]] = [(module, -1, 0)]
    while stack:
        node, parent, depth = stack.pop()
        row = len(node_type)
        while open_functions and depth <= open_functions[-1][1]:
            start, _, args = open_functions.pop()
            functions.append((start, row, args))
        node_type.append(_TYPE_NUMBERS[node.__class__])
        parents.append(parent)
        depths.append(depth)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            open_functions.append((row, depth, _count_parameters(node.args)))
        for field in reversed(node._fields):
            value = getattr(node, field, None)
            if isinstance(value, ast.AST):
                stack.append((value, row, depth + 1))
            elif isinstance(value, list):
                for child in reversed(value):
                    if isinstance(child, ast.AST):
                        stack.append((child, row, depth + 1))
    while open_functions:
        start, _, args = open_functions.pop()
        functions.append((start, len(node_type), args))
    functions.sort()
    return _Tree(
        np.array(node_type, np.int16),
        np.array(parents, np.int32),
        np.array(depths, np.int16),
        functions,
    )


def _count_parameters(arguments: ast.arguments) -> int:
    named = len(arguments.posonlyargs) + len(arguments.args) + len(arguments.kwonlyargs)
    return named + (arguments.vararg is not None) + (arguments.kwarg is not None)

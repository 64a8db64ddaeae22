"""The snippets of docs/frameworks, word for word: those of this environment's framework.

Of each page all snippets run one after the other, as a reader would type them. Names that a page
takes for granted, as `dataset` and `train`, are made here; the address and the number of epochs are
put in.
"""

from __future__ import annotations

import importlib.util
import pathlib
import re
import types
from typing import Any

import numpy as np
from graph_sources import random_plain, random_typed

from packhouse import Client, Loader, LocalServer
from packhouse.frameworks.packed_loader import PackedLoader

PAGES = pathlib.Path(__file__).parents[2] / "docs" / "frameworks"


def run_page(name: str, server: LocalServer, names: dict[str, Any]) -> dict[str, Any]:
    """The names that are there after all snippets."""
    page = PAGES / name
    snippets = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    assert snippets
    module = types.ModuleType("page")
    module.__dict__.update(names)
    for number, snippet in enumerate(snippets):
        snippet = snippet.replace("localhost:50051", server.address).replace(
            "range(10)", "range(2)"
        )
        exec(compile(snippet, f"{page}, snippet {number}", "exec"), module.__dict__)
    for value in list(module.__dict__.values()):
        if isinstance(value, (Loader, PackedLoader)):
            value.close()
    return module.__dict__


def test_every_page_is_linked() -> None:
    index = (PAGES / "README.md").read_text()
    for page in PAGES.glob("*.md"):
        assert page.name == "README.md" or f"({page.name})" in index, page.name


if importlib.util.find_spec("torch_geometric"):

    def test_pyg(server: LocalServer) -> None:
        import torch
        from test_pyg import data_of
        from torch_geometric.nn import GraphConv, global_add_pool

        import packhouse.pyg

        dataset = [data_of(graph) for graph in random_plain(11, 150) if graph.num_nodes]
        trained: list[int] = []
        run_page(
            "pyg.md",
            server,
            {
                "dataset": dataset,
                "train": lambda data: trained.append(data.num_graphs),
                "conv": GraphConv(3, 4),
                "norm": packhouse.pyg.MaskedBatchNorm(4),
                "loss_of": lambda x, batch, num: global_add_pool(x, batch, num).square().sum(dim=1),
            },
        )
        assert torch.is_tensor(dataset[0].x)
        # Two epochs each, of the loop as it was and of four others.
        assert sum(trained) == 2 * 5 * len(dataset)


    def test_the_readmes_two_lines() -> None:
        from test_pyg import data_of

        readme = (PAGES.parents[1] / "README.md").read_text()
        snippets = re.findall(r"^```python\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)
        dataset = [data_of(graph) for graph in random_plain(11, 150) if graph.num_nodes]
        names: dict[str, Any] = {"dataset": dataset}
        for snippet in snippets:
            exec(compile(snippet, "README.md", "exec"), names)
        with names["loader"] as loader:
            batches = list(loader)
        assert sum(batch.num_graphs for batch in batches) == len(dataset)
        assert all(type(batch).__name__ == "DataBatch" for batch in batches)


if importlib.util.find_spec("jraph"):

    def test_jraph(server: LocalServer) -> None:
        import jax
        import jraph
        from test_jraph import tuple_of

        import packhouse

        graphs = [tuple_of(graph, False) for graph in random_plain(12, 150) if graph.num_nodes]
        trained: list[int] = []

        @jax.jit
        def count(graph: Any) -> Any:
            return jraph.get_graph_padding_mask(graph).sum()

        def step(weights: Any, graph: Any) -> Any:
            assert graph.nodes.shape == (1024, 3)
            trained.append(int(count(graph)))
            return weights

        names = {"graphs": graphs, "step": step, "weights": None, "packhouse": packhouse}
        after = run_page("jraph.md", server, names)
        assert sum(trained) == 2 * 4 * len(graphs)
        assert after["mean"].shape == (3,)


if importlib.util.find_spec("dgl"):

    def test_dgl(server: LocalServer) -> None:
        from dgl import sum_nodes
        from dgl.nn import SAGEConv
        from test_dgl import graph_of

        import packhouse.dgl

        dataset = [graph_of(graph) for graph in random_plain(13, 150) if graph.num_nodes]
        trained: list[int] = []

        def loss_of(graph: Any, hidden: Any, labels: Any) -> Any:
            graph.ndata["h"] = hidden
            return sum_nodes(graph, "h").square().sum(dim=1) + labels

        def train(graph: Any, labels: Any) -> None:
            assert graph.batch_size == len(labels)
            trained.append(graph.batch_size)

        names = {"dataset": dataset, "train": train, "loss_of": loss_of}
        names.update(conv=SAGEConv(3, 4, "mean"), norm=packhouse.dgl.MaskedBatchNorm(4))
        run_page("dgl.md", server, names)
        assert sum(trained) == 2 * 4 * len(dataset)


if importlib.util.find_spec("tensorflow_gnn"):

    def test_tfgnn(server: LocalServer, client: Client, tmp_path: pathlib.Path) -> None:
        import tensorflow as tf
        import tensorflow_gnn as tfgnn
        from test_tfgnn import limits_of, merged, typed_tensor_of

        import packhouse.tfgnn

        graphs = [typed_tensor_of(graph) for graph in random_typed(14, 40)]
        spec = graphs[0].spec.relax(num_nodes=True, num_edges=True)
        parts = tf.nest.flatten(spec, expand_composites=True)
        graph_tensors = tf.data.Dataset.from_generator(
            lambda: (tuple(tf.nest.flatten(graph, expand_composites=True)) for graph in graphs),
            output_signature=tuple(tf.TensorSpec(part.shape, part.dtype) for part in parts),
        ).map(lambda *parts: tf.nest.pack_sequence_as(spec, parts, expand_composites=True))
        limits = limits_of(packhouse.tfgnn.table(graphs))
        packhouse.tfgnn.ingest(client, "papers-again", graphs)
        schema_file = tmp_path / "graph_schema.pbtxt"
        tfgnn.write_schema(tfgnn.create_schema_pb_from_graph_spec(spec), str(schema_file))
        serialized = [tfgnn.write_example(graph).SerializeToString() for graph in graphs]
        trained: list[int] = []

        def train(graph: Any, mask: Any = None) -> None:
            trained.append(int(graph.num_components if mask is None else np.sum(mask)))

        run_page(
            "tfgnn.md",
            server,
            {
                "graph_tensors": graph_tensors,
                "schema_file": schema_file,
                "serialized": serialized,
                "tfgnn": tfgnn,
                "limits": limits,
                "train": train,
                "merge": lambda graphs, numbers: merged([graphs[number] for number in numbers]),
                "loader_of_another_run": Loader(
                    server.address,
                    dataset="papers-again",
                    job="another",
                    limits=limits,
                    padding="graph",
                ),
            },
        )
        assert sum(trained) == (2 + 2 + 1) * len(graphs)

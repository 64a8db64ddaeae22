"""What is measured beside packhouse: each framework's own loader, with what it needs to be made.

A function makes a runner of whole epochs, in a process that may have an interpreter of its own.
"""

from __future__ import annotations

import dataclasses
import pathlib
import tempfile
import time
from typing import Any, Callable, Final, Iterable, Sequence

import numpy as np
from measuring import DATASET, Run, Runner, load_graphs

from packhouse import GRAPHS, DerivedTensor, Loader, Padding, tune_process_for_batches
from packhouse.data.graphs import Array

BATCH_SIZE: Final = 256


@dataclasses.dataclass(frozen=True)
class Source:
    """What graphs, for a contestant to load itself."""

    path: pathlib.Path | None
    count: int | None


@dataclasses.dataclass(frozen=True)
class Graph:
    """One graph's rows, by tensor; `edges` is [2, edges]."""

    tensors: dict[str, Array]
    components: dict[str, str]
    nodes: int
    edges: Array


def graphs_of(source: Source) -> list[Graph]:
    """Each graph by itself, as frameworks take them."""
    table, _ = load_graphs(source.path, source.count)
    components = {
        spec.name: spec.component
        for spec in table.schema.tensors
        if spec.name not in ("senders", "receivers")
    }
    ends = {name: np.cumsum(table.counts(name)) for name in (*table.schema.components, GRAPHS)}
    starts = {name: ends[name] - table.counts(name) for name in ends}
    edges = np.stack([table.tensors["senders"], table.tensors["receivers"]])

    def rows(component: str, graph: int) -> slice:
        return slice(int(starts[component][graph]), int(ends[component][graph]))

    return [
        Graph(
            {name: table.tensors[name][rows(components[name], i)] for name in components},
            components,
            int(table.sizes[i, 0]),
            edges[:, rows("edges", i)],
        )
        for i in range(len(table))
    ]


def epochs(run_epoch: Callable[[int], Run]) -> Runner:
    """Runs whole epochs."""
    number = 0

    def run(seconds: float) -> Run:
        nonlocal number
        total = Run(0.0)
        started = time.perf_counter()
        while total.seconds < seconds:
            one = run_epoch(number)
            number += 1
            total = Run(
                seconds=time.perf_counter() - started,
                graphs=total.graphs + one.graphs,
                batches=total.batches + one.batches,
                rows=total.rows + one.rows,
                real_rows=total.real_rows + one.real_rows,
            )
        return total

    return run


def make_packhouse(address: str, limits: dict[str, int]) -> Runner:
    """Loads from a server."""
    tune_process_for_batches()
    loader = Loader(
        address,
        dataset=DATASET,
        job="frameworks",
        limits=limits,
        padding=Padding.GRAPH,
        # What PyG has as `batch`.
        derived=(DerivedTensor.GRAPH_INDEX,),
        max_in_flight=64,
    )

    def run_epoch(epoch: int) -> Run:
        loader.set_epoch(epoch)
        graphs = batches = rows = real_rows = 0
        for batch in loader:
            for array in batch.tensors.values():
                assert isinstance(array, np.ndarray)
            graphs += len(batch)
            batches += 1
            rows += batch.rows["nodes"] + batch.rows["edges"]
            real_rows += batch.real_rows["nodes"] + batch.real_rows["edges"]
        return Run(0.0, graphs=graphs, batches=batches, rows=rows, real_rows=real_rows)

    return epochs(run_epoch)


def count_ragged(batches: Iterable[tuple[int, int]]) -> Run:
    """Of batches without padding: graphs, nodes and edges of each."""
    num_batches = num_graphs = rows = 0
    for graphs, batch_rows in batches:
        num_batches += 1
        num_graphs += graphs
        rows += batch_rows
    return Run(0.0, graphs=num_graphs, batches=num_batches, rows=rows, real_rows=rows)


def worker_arguments(workers: int) -> dict[str, Any]:
    """Of a DataLoader: workers that stay, and see the graphs without a copy."""
    if not workers:
        return {}
    # What is usual on Linux; this process was spawned, and would spawn.
    return {"persistent_workers": True, "multiprocessing_context": "fork"}


def pyg_data(source: Source) -> list[Any]:
    """The graphs as PyG's `Data`."""
    import torch
    from torch_geometric.data import Data

    return [
        Data(
            edge_index=torch.from_numpy(graph.edges.astype(np.int64)),
            num_nodes=graph.nodes,
            **{name: torch.from_numpy(np.array(rows)) for name, rows in graph.tensors.items()},
        )
        for graph in graphs_of(source)
    ]


def make_pyg(source: Source, workers: int) -> Runner:
    """PyG's own DataLoader."""
    from torch_geometric.loader import DataLoader

    tune_process_for_batches()
    loader = DataLoader(
        pyg_data(source),
        batch_size=BATCH_SIZE,
        shuffle=True,
        num_workers=workers,
        **worker_arguments(workers),
    )

    def run_epoch(_: int) -> Run:
        return count_ragged(
            (batch.num_graphs, batch.num_nodes + batch.num_edges) for batch in loader
        )

    return epochs(run_epoch)


def join(graphs: Sequence[Graph]) -> dict[str, Any]:
    """A batch as numpy arrays: what a plain collate function does."""
    nodes = np.array([graph.nodes for graph in graphs])
    edges = np.array([graph.edges.shape[1] for graph in graphs])
    shift = np.repeat(np.cumsum(nodes) - nodes, edges)
    return {
        **{
            name: np.concatenate([graph.tensors[name] for graph in graphs])
            for name in graphs[0].tensors
        },
        "edge_index": np.concatenate([graph.edges for graph in graphs], axis=1) + shift,
        "batch": np.repeat(np.arange(len(graphs)), nodes),
    }


def make_torch(source: Source, workers: int) -> Runner:
    """PyTorch's DataLoader without PyG."""
    import torch.utils.data

    tune_process_for_batches()
    loader: Any = torch.utils.data.DataLoader(
        graphs_of(source),  # type: ignore[arg-type]
        batch_size=BATCH_SIZE,
        shuffle=True,
        num_workers=workers,
        **worker_arguments(workers),
        collate_fn=join,
    )

    def run_epoch(_: int) -> Run:
        # The last graph's number tells how many there are.
        return count_ragged(
            (int(batch["batch"][-1]) + 1, len(batch["batch"]) + batch["edge_index"].shape[1])
            for batch in loader
        )

    return epochs(run_epoch)


def make_jraph(source: Source) -> Runner:
    """jraph's dynamic batching, without workers: it has none."""
    import jraph

    tune_process_for_batches()
    graphs = graphs_of(source)

    def features(graph: Graph, component: str) -> dict[str, Array]:
        return {
            name: rows
            for name, rows in graph.tensors.items()
            if graph.components[name] == component
        }

    tuples = [
        jraph.GraphsTuple(
            nodes=features(graph, "nodes"),
            edges=features(graph, "edges"),
            senders=graph.edges[0],
            receivers=graph.edges[1],
            globals=features(graph, GRAPHS),
            n_node=np.array([graph.nodes], np.int32),
            n_edge=np.array([graph.edges.shape[1]], np.int32),
        )
        for graph in graphs
    ]

    def budget(rows: Sequence[int]) -> int:
        # At least what the largest graph takes, with one more for the padding.
        return max(64 * (1 + int(np.mean(rows) * BATCH_SIZE) // 64), max(rows) + 1)

    n_node = budget([graph.nodes for graph in graphs])
    n_edge = budget([graph.edges.shape[1] for graph in graphs])
    rng = np.random.default_rng(0)

    def run_epoch(_: int) -> Run:
        num_graphs = batches = real_rows = 0
        shuffled = (tuples[i] for i in rng.permutation(len(tuples)))
        for batch in jraph.dynamically_batch(shuffled, n_node, n_edge, BATCH_SIZE):
            mask = jraph.get_graph_padding_mask(batch)
            num_graphs += int(mask.sum())
            batches += 1
            real_rows += int(batch.n_node[mask].sum() + batch.n_edge[mask].sum())
        rows = batches * (n_node + n_edge)
        return Run(0.0, graphs=num_graphs, batches=batches, rows=rows, real_rows=real_rows)

    return epochs(run_epoch)


def make_pyg_dynamic(source: Source) -> Runner:
    """PyG's DynamicBatchSampler: as many graphs as have the nodes of a batch of mean graphs."""
    from torch_geometric.loader import DataLoader, DynamicBatchSampler

    tune_process_for_batches()
    data = pyg_data(source)
    nodes = max(
        round(BATCH_SIZE * sum(graph.num_nodes for graph in data) / len(data)),
        max(graph.num_nodes for graph in data),
    )
    loader = DataLoader(
        data, batch_sampler=DynamicBatchSampler(data, max_num=nodes, mode="node", shuffle=True)
    )

    def run_epoch(_: int) -> Run:
        return count_ragged(
            (batch.num_graphs, batch.num_nodes + batch.num_edges) for batch in loader
        )

    return epochs(run_epoch)


def make_dgl(source: Source, workers: int) -> Runner:
    """DGL's GraphDataLoader, of graphs with what each graph has as a whole beside it."""
    import dgl  # type: ignore[import]
    import torch
    from dgl.dataloading import GraphDataLoader  # type: ignore[import]

    tune_process_for_batches()
    items = []
    for graph in graphs_of(source):
        senders, receivers = (torch.from_numpy(end.astype(np.int64)) for end in graph.edges)
        made = dgl.graph((senders, receivers), num_nodes=graph.nodes)
        whole = {}
        for name, rows in graph.tensors.items():
            place = {"nodes": made.ndata, "edges": made.edata}.get(graph.components[name], whole)
            place[name] = torch.from_numpy(np.array(rows))
        items.append((made, whole))
    loader = GraphDataLoader(
        items,
        batch_size=BATCH_SIZE,
        shuffle=True,
        num_workers=workers,
        **worker_arguments(workers),
    )

    def run_epoch(_: int) -> Run:
        return count_ragged(
            (batch.batch_size, batch.num_nodes() + batch.num_edges()) for batch, _ in loader
        )

    return epochs(run_epoch)


def make_tfgnn(source: Source) -> Runner:
    """What TF-GNN's guide does: tf.Examples from a file, parsed by the batch and merged."""
    import tensorflow as tf  # type: ignore[import]
    import tensorflow_gnn as tfgnn  # type: ignore[import]
    from google.protobuf import text_format

    tune_process_for_batches()
    graphs = graphs_of(source)
    spec = tfgnn.create_graph_spec_from_schema_pb(
        text_format.Parse(tfgnn_schema(graphs[0]), tfgnn.GraphSchema())
    )
    folder = tempfile.TemporaryDirectory()
    path = f"{folder.name}/graphs.tfrecord"
    with tf.io.TFRecordWriter(path) as writer:
        for graph in graphs:
            writer.write(tfgnn_example(graph, tf.train).SerializeToString())
    records = tf.data.TFRecordDataset(path).shuffle(len(graphs)).batch(BATCH_SIZE)
    batches = records.map(
        lambda examples: tfgnn.parse_example(spec, examples).merge_batch_to_components(),
        num_parallel_calls=tf.data.AUTOTUNE,
    ).prefetch(tf.data.AUTOTUNE)

    def run_epoch(_: int, _folder: object = folder) -> Run:
        return count_ragged(
            (
                int(batch.num_components),
                int(batch.node_sets["nodes"].total_size + batch.edge_sets["edges"].total_size),
            )
            for batch in batches
        )

    return epochs(run_epoch)


def tfgnn_schema(graph: Graph) -> str:
    """The schema of graphs like this one, as TF-GNN writes schemas."""
    features = {"nodes": "", "edges": "", GRAPHS: ""}
    for name, rows in graph.tensors.items():
        dtype = "DT_FLOAT" if rows.dtype.kind == "f" else "DT_INT64"
        shape = "".join(f" dim {{ size: {extent} }}" for extent in rows.shape[1:])
        features[graph.components[name]] += (
            f' features {{ key: "{name}" value {{ dtype: {dtype} shape {{{shape} }} }} }}'
        )
    return (
        f"context {{{features[GRAPHS]} }}"
        f' node_sets {{ key: "nodes" value {{{features["nodes"]} }} }}'
        ' edge_sets { key: "edges" value { source: "nodes" target: "nodes"'
        f"{features['edges']} }} }}"
    )


def tfgnn_example(graph: Graph, train: Any) -> Any:
    """The graph as a tf.Example; `train` is tf.train."""
    columns = {
        "nodes/nodes.#size": np.array([graph.nodes]),
        "edges/edges.#size": np.array([graph.edges.shape[1]]),
        "edges/edges.#source": graph.edges[0],
        "edges/edges.#target": graph.edges[1],
    }
    prefixes = {"nodes": "nodes/nodes.", "edges": "edges/edges.", GRAPHS: "context/"}
    for name, rows in graph.tensors.items():
        columns[prefixes[graph.components[name]] + name] = np.asarray(rows).reshape(-1)
    example = train.Example()
    for key, values in columns.items():
        feature = example.features.feature[key]
        place = feature.float_list if values.dtype.kind == "f" else feature.int64_list
        place.value.extend(values.tolist())
    return example

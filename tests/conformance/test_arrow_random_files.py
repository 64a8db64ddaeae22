"""Random tables, written as others write them: one truth, and all readers have it, or say why not."""

from __future__ import annotations

import collections
import csv
import gzip
import io
import os
import pathlib
import subprocess
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import random_sets
from graph_sources import PlainGraph
from random_sets import Oddities, Refused

from packhouse import Client, GraphTable, LocalServer
from packhouse.files import arrow, npz, size_files

COMMAND: Final = os.environ.get("PACKHOUSE_CLI")
SIZE_NAMES: Final = ("nodes", "edges", "triangles", "a.b")


def of_pandas(rng: np.random.Generator, frame: pd.DataFrame) -> bytes:
    """As to_csv writes it, with its defaults and with what is often asked of it."""
    text = frame.to_csv(
        index=bool(rng.random() < 0.5),
        sep=str(rng.choice([",", ";", "\t"])),
        quoting=int(rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])),
        lineterminator=str(rng.choice(["\n", "\r\n"])),
    )
    return text.encode(str(rng.choice(["utf-8", "utf-8-sig"])))


def of_r(rng: np.random.Generator, frame: pd.DataFrame) -> bytes:
    """As write.csv and write.csv2 do: names in quotes, and the rows' own."""
    sep = str(rng.choice([",", ";"]))
    has_row_names = rng.random() < 0.7
    lines = [sep.join([*(['""'] if has_row_names else []), *(f'"{name}"' for name in frame)])]
    for number, row in enumerate(frame.values.tolist(), 1):
        lines.append(sep.join([*([f'"{number}"'] if has_row_names else []), *map(str, row)]))
    return ("\n".join(lines) + "\n").encode()


def of_excel(rng: np.random.Generator, frame: pd.DataFrame) -> bytes:
    """As a spreadsheet saves it: lines of Windows, a byte order mark, a line of its own."""
    sep = str(rng.choice([",", ";", "\t"]))
    lines = [sep.join(frame), *(sep.join(map(str, row)) for row in frame.values.tolist())]
    if rng.random() < 0.4:
        lines.insert(0, f"sep={sep}")
    mark = "\ufeff" if rng.random() < 0.6 else ""
    return (mark + "\r\n".join(lines) + "\r\n" * int(rng.integers(1, 3))).encode()


def of_pyarrow(rng: np.random.Generator, frame: pd.DataFrame) -> bytes:
    out = io.BytesIO()
    options = pa.csv.WriteOptions(delimiter=str(rng.choice([",", ";", "\t"])))
    pa.csv.write_csv(pa.Table.from_pandas(frame, preserve_index=False), out, options)
    return out.getvalue()


def of_numpy(rng: np.random.Generator, frame: pd.DataFrame) -> bytes:
    out = io.StringIO()
    header = ",".join(frame)
    np.savetxt(out, frame.values, fmt="%d", delimiter=",", header=header, comments="")
    return out.getvalue().encode()


WRITERS: Final = (of_pandas, of_r, of_excel, of_pyarrow, of_numpy)


def make_sizes(seed: int) -> tuple[Any, Oddities]:
    """The bytes of a file, its name, and the sizes with how often each is there."""
    rng = np.random.default_rng([35, seed])
    oddities: Oddities = []
    count = int(rng.integers(1, 30))
    chosen = rng.choice(SIZE_NAMES, int(rng.integers(1, 4)), replace=False)
    names = [str(name) for name in chosen]
    frame = pd.DataFrame(
        {
            (f"num_{name}" if rng.random() < 0.5 else name): rng.integers(0, 1 << 16, count)
            for name in names
        }
    )
    if rng.random() < 0.1:
        frame.iloc[0, 0] = (1 << 32) - 1
    counts = np.ones(count, np.int64)
    if rng.random() < 0.3:
        counts = rng.integers(0, 4, count)
        counts[0] = 1
        frame.insert(int(rng.integers(0, len(names) + 1)), "count", counts)
    truth: collections.Counter[tuple[int, ...]] = collections.Counter()
    sizes = frame.drop(columns="count", errors="ignore").values.tolist()
    for row, times in zip(sizes, counts.tolist()):
        if times:
            truth[tuple(row)] += times
    kind = int(rng.integers(20))
    odd = next(name for name in frame if name != "count")
    if kind == 0:
        frame[odd] = frame[odd].astype(float) + 0.5
        oddities.append((odd, "a fraction"))
    elif kind == 1:
        frame[odd] = frame[odd].astype(object)
        frame.loc[count - 1, odd] = -1
        oddities.append((odd, "a negative size"))
    elif kind == 2:
        frame = frame.rename(columns={odd: "Count"})
        if len(frame.columns) == 1:
            names = ["Count"]
        else:
            oddities.append(("Count", "a column that may be the count"))
    elif kind == 3:
        frame = frame.rename(columns={odd: "the size"})
        oddities.append(("the size", "a name with a blank"))
    elif kind == 4:
        frame[odd] = frame[odd].astype(object)
        frame.loc[count - 1, odd] = 1 << 32
        oddities.append((odd, "a size beyond uint32"))
    elif kind == 5:
        frame[odd] = "1,234"
        oddities.append((odd, "a thousands separator"))
    if oddities:
        writer: Any = of_pandas
    else:
        writer = WRITERS[int(rng.integers(len(WRITERS)))]
    content = writer(rng, frame)
    if kind == 6:
        content = content.decode("utf-8-sig").encode("utf-16")
        oddities.append(("UTF-16", "another encoding"))
    name = "sizes.csv"
    if rng.random() < 0.3:
        content, name = gzip.compress(content), "sizes.csv.gz"
        if kind == 7:
            content = content[: len(content) // 2]
            oddities.append(("compressed", "a file that is cut"))
    return (content, name, tuple(names), truth), oddities


def counted(table: GraphTable) -> collections.Counter[tuple[int, ...]]:
    return collections.Counter(map(tuple, table.sizes.tolist()))


def compare_sizes(folder: pathlib.Path, made: Any) -> None:
    content, name, components, truth = made
    path = folder / name
    path.write_bytes(content)
    command = subprocess.run(
        [str(COMMAND), "histogram", "--sizes", str(path), "--csv", f"{path}.out"],
        capture_output=True,
        text=True,
        errors="replace",
    )
    assert "Traceback" not in command.stderr
    try:
        table = size_files.load(path)
    except ValueError as error:
        assert command.returncode, f"the package refuses it, the command does not: {error}"
        assert str(error).startswith(f"{path}:"), error
        # Of what is broken in compressed data zlib has words of its own.
        told = "after line" if "compressed" in str(error) else str(error).partition(": ")[2][:20]
        assert told in command.stderr, f"{error!s}; the command: {command.stderr}"
        raise Refused() from error
    assert command.returncode == 0, command.stderr
    assert table.schema.components == components and counted(table) == truth
    again = size_files.load(f"{path}.out")
    assert again.schema.components == components and counted(again) == truth


def test_random_lists_of_sizes(tmp_path: pathlib.Path) -> None:
    if COMMAND is None:
        pytest.skip("PACKHOUSE_CLI does not name the command line")
    random_sets.run(
        "lists of sizes",
        600,
        make_sizes,
        lambda made: compare_sizes(tmp_path, made),
        _fault_of_file,
    )


def _fault_of_file(words: str, oddities: Oddities) -> str | None:
    """A refusal names the file, and the column or what is wrong with it."""
    if not oddities:
        return "refused, but nothing is odd in it"
    if not any(str(name).removeprefix("num_") in words for name, _ in oddities):
        return f"refused without a name of {oddities}"
    return None


DTYPES: Final = tuple(
    np.dtype(name)
    for name in (
        *("float32", "float64", "int64", "int32", "int16", "int8"),
        *("uint8", "uint16", "uint32", "uint64", "bool"),
    )
)


def array(rng: np.random.Generator, dtype: Any, shape: tuple[int, ...]) -> Any:
    if dtype == np.bool_:
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        return rng.integers(bounds.min, bounds.max, shape, dtype, True)
    return rng.standard_normal(shape).astype(dtype)


def make_graphs(seed: int) -> tuple[Any, Oddities]:
    """Graphs, and the columns of a file of them."""
    rng = np.random.default_rng([36, seed])
    oddities: Oddities = []
    largest = int(rng.integers(1, 7))

    def columns(names: tuple[str, ...]) -> dict[str, Any]:
        chosen = rng.choice(names, int(rng.integers(0, len(names) + 1)), replace=False)
        return {
            str(name): (
                DTYPES[int(rng.integers(len(DTYPES)))],
                tuple(int(n) for n in rng.integers(1, 4, int(rng.integers(0, 3)))),
            )
            for name in chosen
        }

    of_nodes = columns(("x", "node_feat", "node_tag"))
    of_edges = columns(("edge_attr", "edge_weight"))
    of_graphs = columns(("y", "graph_label"))
    graphs = []
    for _ in range(int(rng.integers(1, 20))):
        nodes = int(rng.integers(0, largest + 1))
        edges = int(rng.integers(0, 2 * largest)) if nodes else 0
        graphs.append(
            PlainGraph(
                nodes,
                rng.integers(0, max(nodes, 1), (2, edges)),
                {name: array(rng, d, (nodes, *shape)) for name, (d, shape) in of_nodes.items()},
                {name: array(rng, d, (edges, *shape)) for name, (d, shape) in of_edges.items()},
                {name: array(rng, d, (1, *shape)) for name, (d, shape) in of_graphs.items()},
            )
        )
    for named, field in ((of_nodes, "nodes"), (of_edges, "edges")):
        for name, (_, shape) in named.items():
            if shape and not any(len(getattr(graph, field)[name]) for graph in graphs):
                oddities.append((name, "lists of which no graph has an entry"))
    ends_as = str(rng.choice(["lists", "pairs", "two columns"]))
    if ends_as != "two columns" and all(g.edge_index.shape[1] in (0, 2) for g in graphs):
        if any(graph.edge_index.shape[1] for graph in graphs):
            oddities.append(("edge_index", "two lists of two or two pairs"))
    made = (graphs, (of_nodes, of_edges, of_graphs), ends_as, int(rng.integers(1 << 30)))
    return made, oddities


def list_of(rng: np.random.Generator, values: list[Any], dtype: Any, shape: tuple[int, ...]) -> Any:
    """One list a graph, of lists for rows of several elements; of fixed size now and then."""
    kind = pa.from_numpy_dtype(dtype)
    for extent in reversed(shape):
        kind = pa.list_(kind, extent) if rng.random() < 0.3 else pa.list_(kind)
    return pa.array(
        [value.tolist() for value in values],
        pa.large_list(kind) if rng.random() < 0.2 else pa.list_(kind),
    )


def table_of(made: Any) -> Any:
    graphs, (of_nodes, of_edges, of_graphs), ends_as, seed = made
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {"num_nodes": pa.array([g.num_nodes for g in graphs], pa.int64())}
    ends = [graph.edge_index for graph in graphs]
    if ends_as == "two columns":
        for place, name in enumerate(("senders", "receivers")):
            columns[name] = list_of(rng, [each[place] for each in ends], np.dtype(np.int64), ())
    else:
        if ends_as == "pairs":
            ends = [each.T for each in ends]
        kind = pa.list_(pa.list_(pa.int64()))
        columns["edge_index"] = pa.array([each.tolist() for each in ends], kind)
    for named, field in ((of_nodes, "nodes"), (of_edges, "edges")):
        for name, (dtype, shape) in named.items():
            columns[name] = list_of(rng, [getattr(g, field)[name] for g in graphs], dtype, shape)
    for name, (dtype, shape) in of_graphs.items():
        values = [graph.whole[name][0] for graph in graphs]
        if shape:
            columns[name] = list_of(rng, values, dtype, shape[1:])
        else:
            columns[name] = pa.array([value.item() for value in values], pa.from_numpy_dtype(dtype))
    names = list(columns)
    return pa.table({names[i]: columns[names[i]] for i in rng.permutation(len(names))})


def write(rng: np.random.Generator, table: Any, folder: pathlib.Path) -> pathlib.Path:
    kind = int(rng.integers(6))
    path = folder / ("g.parquet", "p.parquet", "f.feather", "p.feather", "s.arrow", "f.ipc")[kind]
    if kind == 0:
        pq.write_table(
            table,
            path,
            row_group_size=int(rng.integers(1, 12)),
            compression=str(rng.choice(["none", "snappy", "zstd"])),
            use_dictionary=bool(rng.random() < 0.5),
        )
    elif kind == 1:
        table.to_pandas(types_mapper=pd.ArrowDtype).to_parquet(path)
    elif kind == 2:
        pyarrow.feather.write_feather(
            table, path, compression=str(rng.choice(["lz4", "uncompressed"]))
        )
    elif kind == 3:
        table.to_pandas(types_mapper=pd.ArrowDtype).to_feather(path)
    else:
        opened = pa.ipc.new_stream if kind == 4 else pa.ipc.new_file
        with opened(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=int(rng.integers(1, 12)))
    return path


def write_npz(made: Any, path: pathlib.Path) -> None:
    graphs, (of_nodes, of_edges, of_graphs), _, _ = made

    def offsets(counts: list[int]) -> Any:
        return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)

    arrays: dict[str, Any] = {
        "node_offsets": offsets([graph.num_nodes for graph in graphs]),
        "edge_offsets": offsets([graph.edge_index.shape[1] for graph in graphs]),
        "edge_index": np.concatenate([graph.edge_index for graph in graphs], axis=1),
    }
    for named, field in ((of_nodes, "nodes"), (of_edges, "edges"), (of_graphs, "whole")):
        for name in named:
            arrays[name] = np.concatenate([getattr(graph, field)[name] for graph in graphs])
    np.savez(path, **arrays)


def assert_truth(table: GraphTable, made: Any, reader: str) -> None:
    graphs, (of_nodes, of_edges, of_graphs), _, _ = made
    assert len(table) == len(graphs), reader
    sizes = [[graph.num_nodes, graph.edge_index.shape[1]] for graph in graphs]
    assert table.sizes.tolist() == sizes, reader
    wanted = {"senders", "receivers", *of_nodes, *of_edges, *of_graphs}
    assert set(table.tensors) == wanted, f"{reader}: {set(table.tensors)}, not {wanted}"
    for place, name in enumerate(("senders", "receivers")):
        ends = np.concatenate([graph.edge_index[place] for graph in graphs])
        assert table.tensors[name].tolist() == ends.tolist(), reader
    for named, field in ((of_nodes, "nodes"), (of_edges, "edges"), (of_graphs, "whole")):
        for name, (dtype, shape) in named.items():
            truth = np.concatenate([getattr(graph, field)[name] for graph in graphs])
            mine = table.tensors[name]
            assert mine.dtype == dtype, f"{reader}: {name} {mine.dtype}, not {dtype}"
            assert mine.shape == truth.shape, f"{reader}: {name} {mine.shape}, not {truth.shape}"
            assert mine.tobytes() == truth.tobytes(), f"{reader}: {name}"


def compare_graphs(client: Client, server: LocalServer, folder: pathlib.Path, made: Any) -> None:
    rng = np.random.default_rng(made[3] + 1)
    write_npz(made, folder / "graphs.npz")
    assert_truth(npz.load(folder / "graphs.npz"), made, "npz")
    if COMMAND is not None and rng.random() < 0.1:
        words = [COMMAND, "ingest", str(folder / "graphs.npz"), "--server", server.address]
        ran = subprocess.run(
            [*words, "--dataset", "random", "--seal"], capture_output=True, text=True
        )
        assert ran.returncode == 0, ran.stderr
        stored = client.datasets.get("random")
        assert stored.num_graphs == len(made[0]), "the command"
        assert stored.schema == npz.load(folder / "graphs.npz").schema, "the command"
        client.datasets.delete("random")
    path = write(rng, table_of(made), folder)
    try:
        whole = arrow.load(path)
        parts = list(arrow.tables(path, graphs_per_table=int(rng.integers(1, 8))))
    except ValueError as error:
        raise Refused() from error
    assert_truth(whole, made, path.name)
    assert_truth(GraphTable.concatenate(parts), made, f"{path.name} in parts")


def test_random_files_of_graphs(
    client: Client, server: LocalServer, tmp_path: pathlib.Path
) -> None:
    random_sets.run(
        "files of graphs",
        600,
        make_graphs,
        lambda made: compare_graphs(client, server, tmp_path, made),
        _fault_of_file,
    )

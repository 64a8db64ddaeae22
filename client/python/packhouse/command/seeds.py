"""Seeds that a file has: nodes or links, with their times and features."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np

from packhouse.client.facade import Client
from packhouse.command.failures import Failure
from packhouse.data.schema import DType
from packhouse.files.seed_rows import SeedRows, feature_array, int_of, quoted
from packhouse.large.source_graph import SourceColumn, SourceGraph
from packhouse.large.sub_graphs import Seeds, SubGraphs
from packhouse.sampling import negative_links

# The feature of links that tells which of them are negative: 1 for those of the file, 0 for others.
LABEL = "label"
_IDS_OF_REQUEST = 1 << 16
_NO_NODE = (1 << 32) - 1


def readout_columns(names: Sequence[str]) -> list[SourceColumn]:
    """Of `NAME`, int64, or `NAME=DTYPE`. Raises ValueError naming the value."""
    columns = []
    for said in names:
        name, equals, dtype = said.rpartition("=")
        if not equals:
            name, dtype = said, "int64"
        if dtype.upper() not in DType.__members__:
            raise ValueError(f"--readout-column: {quoted(said)} is not NAME=DTYPE, such as label=int64")
        columns.append(SourceColumn(name, dtype))
    return columns


def read_seeds(draw: Mapping[str, Any], sub_graphs: SubGraphs, client: Client) -> Seeds:
    """Those of `draw["seeds"]`, as the options of `packhouse sample` say: CSV with a header. Nodes: a
    column `id`, `row` or `number`; links: `source` and `target`; `time` of each seed or link; further
    columns are features if `SubGraphs.readout_columns` names them.

    Links are numbers; negative ones stand behind those of the file, and their feature is LABEL.

    Raises ValueError naming file, line, column and value, or the option that is missing; Failure
    naming a node that the graph does not have; PackhouseError.
    """
    path, by = draw["seeds"], draw["seeds_by"] or "id"
    rows = SeedRows(path, by, sub_graphs.readout_columns, "--seeds-by")
    if rows.times is not None and sub_graphs.seeds_per_graph > 1:
        raise ValueError(
            f"{path}: has a column 'time' for each seed, and --seeds-per-graph is "
            f"{sub_graphs.seeds_per_graph}: times are those of sub-graphs"
        )
    graph = client.source_graphs.get(sub_graphs.graph)
    times: Any = rows.times
    if rows.are_links:
        links = _Links(graph, sub_graphs, client)
        numbers = links.of(rows, by)
        if draw["negatives"]:
            negative = links.with_negatives(numbers, draw, by)
            rows.features = {LABEL: list(negative.labels)}
            if times is not None:
                count = len(rows)
                drawn = negative.positives
                # Negative links that are drawn for none have the times one after the other.
                beside = [k % count if at < 0 else at for k, at in enumerate(drawn)]
                times = [*times, *(times[at] for at in beside)]
            nodes: dict[str, Any] = {"numbers": negative.ends}
        else:
            nodes = {"numbers": numbers.T.ravel()}
    elif draw["negatives"]:
        raise ValueError(f"--negatives: {path} has nodes; links need columns 'source' and 'target'")
    else:
        nodes = {f"{by}s": _nodes(rows, by, graph)}
    for column in sub_graphs.readout_columns:
        if column.name in rows.features:
            continue
        if draw["negatives"]:
            raise ValueError(
                f"--readout-column: {quoted(column.name)} has no value of a negative link; only "
                f"'{LABEL}' is known of it"
            )
        if len(rows):
            raise ValueError(f"--readout-column: {path} has no column {quoted(column.name)}")
    columns = {column.name: column for column in sub_graphs.readout_columns}
    readout = {name: feature_array(values, columns[name]) for name, values in rows.features.items()}
    return Seeds(**nodes, times=times, readout=readout)


def _nodes(rows: SeedRows, by: str, graph: SourceGraph) -> Any:
    """Of seeds that are nodes: what they are called by."""
    kinds = {each.text_ids for each in graph.schema.node_sets}
    if by == "id" and len(kinds) > 1:
        raise ValueError(
            "--seeds-by id: some node sets of the graph have whole numbers as ids, others texts; give "
            "rows or numbers"
        )
    return _called(rows.path, by, rows.nodes[0], True in kinds)


def _called(path: str, by: str, texts: Sequence[str], are_texts: bool) -> Any:
    """What nodes are called by, as the server takes it; of ids `are_texts` says what they are."""
    if by == "id" and are_texts:
        return [text.encode("utf-8", "surrogateescape") for text in texts]
    dtype: Any = {"id": np.int64, "row": np.uint64, "number": np.uint32}[by]
    what = "int64, as the graph's ids are" if by == "id" else f"{by} of a node, a whole number from 0"
    for text in texts:
        number = int_of(text)
        is_signed = by != "id" and text[:1] == "-"
        if number is None or is_signed or not np.iinfo(dtype).min <= number <= np.iinfo(dtype).max:
            raise ValueError(f"{path}: {quoted(text)} is no {what}")
    return np.array([int(text) for text in texts], dtype)


class _Links:
    """The links of files as numbers of nodes of a graph."""

    def __init__(self, graph: SourceGraph, sub_graphs: SubGraphs, client: Client) -> None:
        """Raises ValueError if the options do not say which sets the links are between."""
        self._graph = graph
        self._client = client
        names = (sub_graphs.link_node_set, sub_graphs.link_node_set)
        for edges in graph.schema.edge_sets:
            if edges.name == sub_graphs.link_edge_set:
                names = (edges.source, edges.target)
        if not names[0]:
            raise ValueError(
                f"--link-edge-set: there is no edge set {quoted(sub_graphs.link_edge_set)}"
                if sub_graphs.link_edge_set
                else "which nodes the links are between is not known: give --link-edge-set or "
                "--link-node-set"
            )
        known = {each.name: each for each in graph.schema.node_sets}
        for name in names:
            if name not in known:
                raise ValueError(f"--link-node-set: there is no node set {quoted(name)}")
        self._sets = [known[name] for name in names]

    def of(self, rows: SeedRows, by: str) -> Any:
        """Numbers of sources and of targets, [2, links]."""
        ends = []
        for node_set, texts in zip(self._sets, rows.nodes):
            numbers = [np.zeros(0, np.int64)]
            for begin in range(0, len(texts), _IDS_OF_REQUEST):
                piece = texts[begin : begin + _IDS_OF_REQUEST]
                asked = _called(rows.path, by, piece, node_set.text_ids)
                found = self._client.source_graphs.lookup_nodes(
                    self._graph.name, node_set.name, **{f"{by}s": asked}
                ).numbers
                missing = np.flatnonzero(found == _NO_NODE)
                if len(missing):
                    raise Failure(
                        "NOT_FOUND",
                        f"{rows.path}: no node of {quoted(node_set.name)} has the {by} "
                        f"{quoted(piece[missing[0]])}",
                    )
                numbers.append(found.astype(np.int64))
            ends.append(np.concatenate(numbers))
        return np.stack(ends)

    def with_negatives(self, numbers: Any, draw: Mapping[str, Any], by: str) -> Any:
        """The links and negative ones behind them, as `packhouse.sampling.LinkSeeds`."""
        avoid = None
        if draw["avoid"]:
            known = SeedRows(draw["avoid"], by, ())
            if not known.are_links:
                raise ValueError(f"--avoid: {draw['avoid']}: has no columns 'source' and 'target'")
            avoid = self.of(known, by)
        sources, targets = (self._graph.num_nodes[each.name] for each in self._sets)
        amount = draw["negatives_per_link"]
        return negative_links(
            numbers, sources, targets, mode=draw["negatives"], amount=1.0 if amount is None else amount,
            seed=draw["seed"], avoid=avoid,
        )

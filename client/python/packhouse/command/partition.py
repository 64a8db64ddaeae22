"""packhouse partition: a large graph into parts for DGL's trainers.

One that a server keeps is cut there. Graphs in files, and files of partitions, are the work of
packhouse-graph, which is started for them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import signal
import sys
from typing import TYPE_CHECKING, Any, Iterator, Sequence

import click

from packhouse.command.arguments import (
    choice, flag, json_option, number, server_options, value, values, whole_number
)  # fmt: skip
from packhouse.command.connection import Server, connected
from packhouse.command.failures import Failure, Misuse
from packhouse.command.output import Column, fields, grouped, percent, Progress, tell, TextTable
from packhouse.command.wings import NESTED, Unparsed, become, run

if TYPE_CHECKING:
    from packhouse.client.facade import Client
    from packhouse.large.partitions import Partition, PartitionReport

_OF_FILES = ("restore", "convert", "export", "dglpart")
_HELP = ("-h", "--help")


@click.command("partition", cls=Unparsed)
def command(words: tuple[str, ...]) -> None:
    """Cut a large graph into parts for DGL's trainers"""
    is_of_server = any(word == "--server" or word.startswith("--server=") for word in words)
    is_help = any(word in _HELP for word in words)
    if words[:1] and words[0] in _OF_FILES or not (is_of_server or is_help):
        become("packhouse", ["partition", *words], "partition")
    _on_server.main([*words], prog_name="packhouse partition", standalone_mode=False)


_PARTS = whole_number(1, 65536)


@click.command(
    "partition",
    context_settings=NESTED,
    epilog="Without --server GRAPH is a folder with metadata.json (DGL's chunked layout), or a METIS "
    "graph file; there are also --assignment, --memory and --time-limit, and the commands restore, "
    "convert, export and dglpart, which work on files: the program packhouse-graph does this, and "
    "`packhouse partition export --help` and so on tell of it.",
)
@click.argument("graph", metavar="GRAPH", default="")
@server_options(otherwise="without it GRAPH is in files: see below")
# fmt: off
@value("--output", "DIR", "Download the partition into this new folder")
@number("--parts", "How many parts", None, type=_PARTS)
@value("--name", "NAME", "The name in DIR/NAME.json: letters, underscores", default="graph")
@choice("--method", ("automatic", "metis", "random", "streaming"), "metis, random, streaming, or "
        "automatic: METIS where it can take the graph", default="automatic")
@choice("--scheme", ("k-way", "recursive"), "METIS: k-way, or recursive, by halves", default="k-way")
@choice("--objtype", ("cut", "vol"), "cut or vol: few cut edges, or few copies of nodes", default="cut")
@choice("--quality", ("default", "best"), "best: several seeds, joined and refined", default="default")
@number("--hops", "Depth of the halo", 1, type=whole_number(1, 16))
@choice("--halo", ("all", "in-edges"), "all: as DGL's partition_graph; in-edges: as its converter of "
        "ParMETIS's output", default="all")
@number("--trainers", "Trainers on each machine", 1, type=_PARTS)
@values("--balance-ntypes", "SET:COLUMN[,COLUMN...]", "Spread the classes in a column evenly, or what "
        "several masks say; may be repeated")
@flag("--balance-edges", "Balance in-degrees too")
@value("--imbalance", "RATIO", "The largest part over the mean", type=float, default=1.03)
@number("--seed", "Seed", 1)
@choice("--format", ("dgl", "npy", "safetensors"), "Also write npy or safetensors; may be repeated",
        multiple=True)
@choice("--graph-formats", ("coo", "csr", "csc"), "Forms of the edges in graph.dgl: coo, csr, csc; may "
        "be repeated", multiple=True)
@flag("--mapping", "Also write new to original ids, as .npy")
@flag("--orig-ids", "Also write part<p>/orig_nids.dgl and orig_eids.dgl: the original ids of inner nodes "
      "and edges, by type")
@flag("--write-assignment", "Also write the part of each node, as the chunked layout has it")
@value("--dataset", "NAME", "Make the parts a data set of the server, for epochs that join parts")
@flag("--dataset-halo", "Parts of the data set have copies of the nodes at which their edges begin")
@flag("--without-files", "No files of parts: for --dataset with a fine partition")
@flag("--detach", "Begin, and do not wait for the end")
# fmt: on
@click.option("--assignment", hidden=True, default="")
@click.option("--memory", hidden=True, default="")
@click.option("--time-limit", hidden=True, default="")
@json_option("Print the report as JSON")
def _on_server(server: Server, as_json: bool, **words: Any) -> None:
    """Cut a large graph into parts for DGL's trainers. With --server GRAPH is a source graph of this
    server, which cuts it and keeps the result
    """
    _check(words)
    arguments = _arguments(words)
    graph, name = words["graph"], words["name"]
    with connected(server) as client:
        with _interrupts() as interrupted:
            job = client.partitions.begin(graph, name, words["parts"], **arguments)
            if words["detach"]:
                print(
                    f"partition '{name}' of '{graph}' has begun; the same command without --detach "
                    "waits for it"
                )
                return
            if job.state.name != "DONE":
                told = f"waiting for partition '{name}' of '{graph}'; Ctrl-C cancels it"
                print(told, file=sys.stderr, flush=True)
            job = _waited(client, graph, name, interrupted)
        # From here on Ctrl-C ends the program.
        if words["output"]:
            _download(client, words)
        if words["dataset"]:
            with Progress() as line:

                def show(done: Any) -> None:
                    line.show(f"{done.num_parts} of {done.num_parts_total} parts in the data set")

                client.partitions.make_dataset(
                    graph, name, words["dataset"], halo=words["dataset_halo"], on_progress=show
                )
    assert job.report is not None
    told = f"{report_table(job.report)}\n{report_picture(job.report)}"
    tell(as_json, report_json(job.report), told)


def _check(words: dict[str, Any]) -> None:
    output, dataset = words["output"], words["dataset"]
    for is_wrong, told in (
        (not words["graph"], "GRAPH, the name of a source graph, is required"),
        (words["parts"] is None, "--parts N is required"),
        (words["assignment"], "--assignment: not with --server, which takes no files; `packhouse "
         "partition` without it partitions graphs in files"),
        (words["memory"], "--memory: not with --server, whose --memory-budget bounds what its "
         "partitions take"),
        (words["time_limit"], "--time-limit: not with --server, where METIS works as long as it needs; "
         "Ctrl-C cancels the partition"),
        (words["orig_ids"] and not output, "--orig-ids: with --server they are made of the files that "
         "--output DIR downloads"),
        (words["dataset_halo"] and not dataset, "--dataset-halo requires --dataset"),
        (words["without_files"] and output, "--output: not with --without-files"),
        (words["detach"] and (output or dataset), "--detach: not with --output or --dataset"),
    ):  # fmt: skip
        if is_wrong:
            raise Misuse(told)


def _arguments(words: dict[str, Any]) -> dict[str, Any]:
    """For `Client.partitions.begin`."""
    node_sets: dict[str, Sequence[str]] = {}
    for given in words["balance_ntypes"]:
        node_set, colon, columns = given.partition(":")
        if not colon or not node_set:
            raise Misuse(f"--balance-ntypes {given}: the graph has several node sets: give SET:{given}")
        node_sets[node_set] = columns.split(",")
    same = ("method", "halo", "balance_edges", "imbalance", "seed", "mapping")
    return {name: words[name] for name in same} | {
        "recursive": words["scheme"] == "recursive",
        "objective": "volume" if words["objtype"] == "vol" else "cut",
        "best_quality": words["quality"] == "best",
        "num_hops": words["hops"],
        "trainers_per_machine": words["trainers"],
        "balance_node_sets": node_sets,
        "formats": [each for each in dict.fromkeys(words["format"]) if each != "dgl"],
        "graph_forms": list(dict.fromkeys(words["graph_formats"])),
        "assignment": words["write_assignment"],
        "files": not words["without_files"],
    }


@contextlib.contextmanager
def _interrupts() -> Iterator[list[int]]:
    """In this block the first SIGINT is noted, and does not end the program; the second one does."""
    counted: list[int] = []

    def count(number: int, _frame: object) -> None:
        if counted:
            signal.signal(number, before)
            signal.raise_signal(number)
        counted.append(number)

    before = signal.signal(signal.SIGINT, count)
    try:
        yield counted
    finally:
        signal.signal(signal.SIGINT, before)


class _Interrupted(Exception):
    """SIGINT came during the wait."""


def _waited(client: Client, graph: str, name: str, interrupted: list[int]) -> Partition:
    """The partition once it is done; after a SIGINT cancels it. Raises PackhouseError, Failure."""
    with Progress() as line:

        def on_progress(job: Partition) -> None:
            line.show(_line_of(job))
            if interrupted:
                raise _Interrupted

        try:
            return client.partitions.wait(graph, name, on_progress)
        except _Interrupted:
            job = client.partitions.cancel(graph, name)
    if job.state.name == "DONE":
        return job
    told = f"partition '{name}' of '{graph}' was cancelled; the same command goes on with it"
    raise Failure("CANCELLED", told)


def _line_of(job: Partition) -> str:
    if job.state.name == "WAITING":
        return "waiting for its turn"
    if job.state.name != "RUNNING":
        return ""
    left = f", about {job.seconds_left:.0f} s left" if job.seconds_left > 0 else ""
    return f"{100 * job.share_done:3.0f} %  {job.phase}{left}"


def _download(client: Client, words: dict[str, Any]) -> None:
    def add_original_ids(partial: pathlib.Path) -> None:
        run(["partition", "orig-ids", str(partial), "--name", words["name"]], "partition --orig-ids")

    finish = add_original_ids if words["orig_ids"] else None
    client.partitions.download(words["graph"], words["name"], words["output"], finish)


@click.command("convert-chunked")
@click.argument("folder")
@value("--output", "DIR", "The new folder", required=True)
def convert_chunked(folder: str, output: str) -> None:
    """Make numpy files of the Parquet files of a graph in DGL's chunked layout.

    They are for packhouse partition, packhouse-partition and packhouse graph import. Other files stay
    where they are. FOLDER has metadata.json.
    """
    from packhouse.files import chunked_parquet

    converted = chunked_parquet.convert(folder, output)
    print(f"{output}: {converted:,} Parquet files converted")


# What a partition came to. Texts end in a line feed.

_MOST_PARTS = 64
_BAR = 32


def report_table(report: PartitionReport) -> str:
    """Why this method; a row for each part with its sizes, its cut and how its nodes and edges compare
    with the mean; the balance that was asked for and reached; notes. Of more than 64 parts, the table
    has the 32 with most and the 32 with fewest inner edges.
    """
    reason = f": {report.reason}" if report.reason else ""
    text = (
        f"{report.num_nodes:,} nodes and {report.num_edges:,} edges in "
        f"{len(report.parts):,} parts by {report.method.name.lower()}{reason}\n"
        f"cut: {report.num_cut_edges:,} edges, "
        f"{percent(_share(report.num_cut_edges, report.num_edges))} %; volume: {report.volume:,}\n\n"
    )
    columns = [("part", ""), ("nodes", "inner"), ("edges", "inner"), ("nodes", "halo")]
    columns += [("edges", "halo"), ("cut %", ""), ("nodes", "over the mean")]
    columns += [("edges", "over the mean"), ("MB", "")]
    table = TextTable([Column(*each) for each in columns])
    count = len(report.parts)
    for number in _shown_parts(report):
        part = report.parts[number]
        table.add_row(
            number, grouped(part.num_inner_nodes), grouped(part.num_inner_edges),
            grouped(part.num_halo_nodes), grouped(part.num_halo_edges),
            percent(_share(part.num_cut_edges, part.num_inner_edges)),
            f"{_share(part.num_inner_nodes, report.num_nodes) * count:.3f}",
            f"{_share(part.num_inner_edges, report.num_edges) * count:.3f}",
            f"{part.num_bytes / 1e6:.1f}",
        )
    text += table.render()
    if report.balance:
        balance = TextTable(["balanced", "asked", "reached", ""])
        for of in report.balance:
            outcome = f"given up: {of.dropped}" if of.dropped else "met" if of.met else "missed"
            balance.add_row(of.name, f"{of.asked:.3f}", f"{of.achieved:.3f}", outcome)
        text += f"\n{balance.render()}"
    return text + "".join(f"note: {note}\n" for note in report.notes)


def report_picture(report: PartitionReport) -> str:
    """A bar for each part (of the same ones): inner nodes `#`, halo nodes `.`, to one scale; and one
    of its in-edges: inside `=`, from other parts `x`.
    """
    most_nodes = max([1, *(part.num_inner_nodes + part.num_halo_nodes for part in report.parts)])
    most_edges = max([1, *(part.num_inner_edges for part in report.parts)])
    lines = [f"{'part':>5}  {'nodes: # inner, . halo':{_BAR}}  in-edges: = inside, x cut"]
    for number in _shown_parts(report):
        part = report.parts[number]
        inside = part.num_inner_edges - min(part.num_cut_edges, part.num_inner_edges)
        nodes = _bar(part.num_inner_nodes, part.num_halo_nodes, most_nodes, "#.")
        edges = _bar(inside, part.num_cut_edges, most_edges, "=x")
        lines.append(f"{number:5}  {nodes:{_BAR}}  {edges}")
    return "".join(f"{line}\n" for line in lines)


def report_json(report: PartitionReport) -> dict[str, Any]:
    """As the file report.json of a partition has it."""
    return {
        "method": report.method.name.lower(),
        "notes": list(report.notes),
        "num_parts": len(report.parts),
        **fields(report, "reason num_nodes num_edges cut_edges=num_cut_edges volume"),
        "nodes_of_part": [part.num_inner_nodes for part in report.parts],
        "edges_of_part": [part.num_inner_edges for part in report.parts],
        "balance": [{**dataclasses.asdict(of), "met": int(of.met)} for of in report.balance],
        "parts": [
            {name.replace("num_", "", 1): number for name, number in vars(part).items()}
            for part in report.parts
        ],
    }


def _shown_parts(report: PartitionReport) -> list[int]:
    """Numbers of parts, in ascending order."""
    parts = list(range(len(report.parts)))
    if len(parts) <= _MOST_PARTS:
        return parts
    parts.sort(key=lambda number: -report.parts[number].num_inner_edges)
    return sorted(parts[: _MOST_PARTS // 2] + parts[-_MOST_PARTS // 2 :])


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _bar(a: int, b: int, most: int, letters: str) -> str:
    """Of `_BAR` letters in all, if `most` is all of them: the first letter of `a`, the second of `b`."""
    first, both = (int(_share(value, most) * _BAR + 0.5) for value in (a, a + b))
    return letters[0] * first + letters[1] * max(0, both - first)

"""packhouse partition: a large graph into parts for DGL's trainers.

One that a server keeps is cut there. Graphs in files, and files of partitions, are the work of
packhouse-graph, which is started for them.
"""

from __future__ import annotations

import contextlib
import pathlib
import signal
import sys
from typing import TYPE_CHECKING, Any, Iterator, Sequence

import click

from packhouse.command.arguments import (
    NUMBER,
    Decorator,
    WholeNumber,
    json_option,
    option,
    server_options,
)
from packhouse.command.connection import Server, connected
from packhouse.command.failures import Failure, Misuse
from packhouse.command.printing import print_json
from packhouse.command.progress import Progress
from packhouse.command.wings import NESTED, Unparsed, become, run

if TYPE_CHECKING:
    from packhouse.client.facade import Client
    from packhouse.large.partitions import Partition

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


_PARTS = WholeNumber(1, 65536)


def _choice(name: str, words: Sequence[str], told: str, multiple: bool = False) -> Decorator[Any]:
    """An option that is the first of the words by default."""
    default: dict[str, Any] = {} if multiple else {"default": words[0]}
    kind = click.Choice(words)
    return option(name, type=kind, multiple=multiple, metavar="NAME", help=told, **default)


@click.command(
    "partition",
    context_settings=NESTED,
    epilog="Without --server GRAPH is a folder with metadata.json (DGL's chunked layout), or a METIS "
    "graph file; there are also --assignment, --memory and --time-limit, and the commands restore, "
    "convert, export and dglpart, which work on files: the program packhouse-graph does this, and "
    "`packhouse partition export --help` and so on tell of it.",
)
@click.argument("graph", metavar="GRAPH", default="")
@server_options(required=True)
# fmt: off
@option("--output", metavar="DIR", help="Download the partition into this new folder")
@option("--parts", type=_PARTS, default=None, metavar="N", help="How many parts")
@option("--name", default="graph", metavar="NAME",
        help="The name in DIR/NAME.json: letters, underscores")
@_choice("--method", ("automatic", "metis", "random", "streaming"),
         "metis, random, streaming, or automatic: METIS where it can take the graph")
@_choice("--scheme", ("k-way", "recursive"), "METIS: k-way, or recursive, by halves")
@_choice("--objtype", ("cut", "vol"), "cut or vol: few cut edges, or few copies of nodes")
@_choice("--quality", ("default", "best"), "best: several seeds, joined and refined")
@option("--hops", type=WholeNumber(1, 16), default=1, metavar="N", help="Depth of the halo")
@_choice("--halo", ("all", "in-edges"),
         "all: as DGL's partition_graph; in-edges: as its converter of ParMETIS's output")
@option("--trainers", type=_PARTS, default=1, metavar="N", help="Trainers on each machine")
@option("--balance-ntypes", multiple=True, metavar="SET:COLUMN[,COLUMN...]",
        help="Spread the classes in a column evenly, or what several masks say; may be repeated")
@option("--balance-edges", is_flag=True, help="Balance in-degrees too")
@option("--imbalance", type=float, default=1.03, metavar="RATIO", help="The largest part over the mean")
@option("--seed", type=NUMBER, default=1, metavar="N", help="Seed")
@_choice("--format", ("dgl", "npy", "safetensors"), "Also write npy or safetensors; may be repeated",
         multiple=True)
@_choice("--graph-formats", ("coo", "csr", "csc"),
         "Forms of the edges in graph.dgl: coo, csr, csc; may be repeated", multiple=True)
@option("--mapping", is_flag=True, help="Also write new to original ids, as .npy")
@option("--orig-ids", is_flag=True, help="Also write part<p>/orig_nids.dgl and orig_eids.dgl: the "
        "original ids of inner nodes and edges, by type")
@option("--write-assignment", is_flag=True,
        help="Also write the part of each node, as the chunked layout has it")
@option("--dataset", metavar="NAME",
        help="Make the parts a data set of the server, for epochs that join parts")
@option("--dataset-halo", is_flag=True,
        help="Parts of the data set have copies of the nodes at which their edges begin")
@option("--without-files", is_flag=True,
        help="No files of parts: for --dataset with a fine partition")
@option("--detach", is_flag=True, help="Begin, and do not wait for the end")
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
    with connected(server) as connection:
        client = connection.client
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
                client.partitions.make_dataset(
                    graph,
                    name,
                    words["dataset"],
                    halo=words["dataset_halo"],
                    on_progress=lambda done: line.show(
                        f"{done.num_parts} of {done.num_parts_total} parts in the data set"
                    ),
                )
    from packhouse.command import partition_report as report

    assert job.report is not None
    if as_json:
        print_json(report.report_json(job.report))
    else:
        print(f"{report.report_table(job.report)}\n{report.report_picture(job.report)}", end="")


def _check(words: dict[str, Any]) -> None:
    if not words["graph"]:
        raise Misuse("GRAPH, the name of a source graph, is required")
    if words["parts"] is None:
        raise Misuse("--parts N is required")
    if words["assignment"]:
        raise Misuse(
            "--assignment: not with --server, which takes no files; `packhouse partition` without it "
            "partitions graphs in files"
        )
    if words["memory"]:
        raise Misuse(
            "--memory: not with --server, whose --memory-budget bounds what its partitions take"
        )
    if words["time_limit"]:
        raise Misuse(
            "--time-limit: not with --server, where METIS works as long as it needs; Ctrl-C cancels "
            "the partition"
        )
    if words["orig_ids"] and not words["output"]:
        raise Misuse(
            "--orig-ids: with --server they are made of the files that --output DIR downloads"
        )
    if words["dataset_halo"] and not words["dataset"]:
        raise Misuse("--dataset-halo requires --dataset")
    if words["without_files"] and words["output"]:
        raise Misuse("--output: not with --without-files")
    if words["detach"] and (words["output"] or words["dataset"]):
        raise Misuse("--detach: not with --output or --dataset")


def _arguments(words: dict[str, Any]) -> dict[str, Any]:
    """For `Client.partitions.begin`."""
    node_sets: dict[str, Sequence[str]] = {}
    for given in words["balance_ntypes"]:
        node_set, colon, columns = given.partition(":")
        if not colon or not node_set:
            raise Misuse(
                f"--balance-ntypes {given}: the graph has several node sets: give SET:{given}"
            )
        node_sets[node_set] = columns.split(",")
    return {
        "method": words["method"],
        "recursive": words["scheme"] == "recursive",
        "objective": "volume" if words["objtype"] == "vol" else "cut",
        "best_quality": words["quality"] == "best",
        "num_hops": words["hops"],
        "halo": words["halo"],
        "trainers_per_machine": words["trainers"],
        "balance_node_sets": node_sets,
        "balance_edges": words["balance_edges"],
        "imbalance": words["imbalance"],
        "seed": words["seed"],
        "formats": [each for each in dict.fromkeys(words["format"]) if each != "dgl"],
        "graph_forms": list(dict.fromkeys(words["graph_formats"])),
        "mapping": words["mapping"],
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
    raise Failure(
        "CANCELLED",
        f"partition '{name}' of '{graph}' was cancelled; the same command goes on with it",
    )


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

"""python3 -m packhouse.demo: see `--help`."""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Final, Sequence

import grpc

from packhouse.base.errors import PackhouseError
from packhouse.base.local_server import LocalServer
from packhouse.base.output import Progress, run_whole
from packhouse.client.facade import Client
from packhouse.data.graphs import GraphTable
from packhouse.data.schema import GRAPHS
from packhouse.demo import report
from packhouse.demo.epoch import forget, load_epoch
from packhouse.demo.streaming import EXPLANATION, HISTOGRAM, choose_limits, stream
from packhouse.files import npz, python_syntax_trees, size_files

_SHOWN_FAULTS: Final = 10


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0 if every graph came back once and unchanged, and the picture was drawn."""
    options = _parse(arguments)
    try:
        options.output.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            server: LocalServer | None = None
            if options.server is None:
                log = stack.enter_context(open(options.output / "packhoused.log", "wb"))
                # Made first, so that a missing program is told before the data is read.
                folder = stack.enter_context(tempfile.TemporaryDirectory(dir=options.output))
                server = LocalServer(options.packhoused, data_dir=folder, log=log)
            table, title = _load(options.dataset)
            limits = choose_limits(table, dict(options.limit))
            address: str = options.server or ""
            if server is not None:
                address = stack.enter_context(server).address
            client = stack.enter_context(Client(address))
            status = _run(client, address, table, title, limits, options)
        return status
    except (OSError, ValueError, RuntimeError, PackhouseError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1


def _run(
    client: Client,
    address: str,
    table: GraphTable,
    title: str,
    limits: dict[str, int],
    options: argparse.Namespace,
) -> int:
    print(f"{title}: {report.describe_graphs(table)}")
    print(f"limits of a batch: {report.describe_limits(limits)}")
    for line in EXPLANATION:
        print(f"  {line}")
    if options.limit:
        print(f"  as you asked: {report.describe_limits(dict(options.limit))}")
    payload = "whole graphs" if table.schema.tensors else "sizes only"
    print(f"Streaming {payload} through {address} and back:")
    _forget_histogram(client)
    streamed, verifier = stream(client, table, limits, options.look_ahead)

    print("\nEfficiency, real rows / rows of the batches:")
    print(report.efficiency_table(table, streamed))
    print(f"\n{report.describe_speed(table, streamed)}")

    accepted = len(table) - verifier.num_rejected
    counted = client.histograms.get(HISTOGRAM).num_graphs
    if counted != accepted:
        verifier.faults.append(f"histogram {HISTOGRAM!r} counts {counted:,}, not {accepted:,}")
    if verifier.num_rejected:
        print(f"\n{verifier.num_rejected:,} graphs are too large for the limits: rejected by name")
    for fault in verifier.faults[:_SHOWN_FAULTS]:
        print(f"demo: {fault}", file=sys.stderr)
    verdict = "every graph" if not verifier.faults else "NOT every graph"
    print(
        f"\n{verdict} came back exactly once, byte for byte: "
        f"{verifier.num_intact:,} of {accepted:,}"
    )
    drawn = _draw(options, address, limits)
    arrived = _load_epoch(client, address, table, limits)
    return 0 if drawn and arrived and not verifier.faults else 1


def _load_epoch(
    client: Client, address: str, table: GraphTable, limits: dict[str, int]
) -> bool:
    """A data set and an epoch of it. True if every graph arrived once."""
    print("\nThe same graphs as a data set; two workers load an epoch, one is killed (-9):")
    try:
        epoch = load_epoch(client, address, table, limits)
    except PackhouseError as error:
        if error.code is not grpc.StatusCode.FAILED_PRECONDITION:
            raise
        print(f"no epoch: {error}")
        return True
    print(report.describe_epoch(epoch))
    print(report.epoch_table(epoch))
    times = epoch.times_received(table)
    once = sum(count == 1 for count in times.values())
    expected = len(table) - epoch.num_rejected
    complete = once == expected == epoch.num_graphs
    if epoch.num_rejected:
        print(f"\n{epoch.num_rejected:,} graphs are too large for the limits: left out")
    print(
        f"\n{'every graph' if complete else 'NOT every graph'} arrived exactly once: "
        f"{once:,} of {expected:,}; the server's ledger has "
        f"{epoch.num_done:,} of {epoch.num_batches:,} batches acknowledged"
    )
    forget(client)
    return complete and epoch.num_done == epoch.num_batches


def _load(dataset: pathlib.Path | None) -> tuple[GraphTable, str]:
    if dataset is None:
        return _load_syntax_trees(), "Syntax trees of the functions of Python's standard library"
    loader = npz if dataset.suffix == ".npz" else size_files
    return loader.load(dataset), dataset.name


def _load_syntax_trees() -> GraphTable:
    progress = Progress()
    started = time.perf_counter()
    files = python_syntax_trees.source_files()
    tables = []
    graphs = 0
    print("Parsing the standard library of this machine's Python:")
    for table in python_syntax_trees.tables(files):
        tables.append(table)
        graphs += len(table)
        progress.show(f"  {len(tables):,} of {len(files):,} files, {graphs:,} functions")
    seconds = time.perf_counter() - started
    progress.done(f"  {len(files):,} files, {graphs:,} functions, {seconds:.1f} s")
    return GraphTable.concatenate(tables)


def _forget_histogram(client: Client) -> None:
    """So that a second run on the same server counts from zero."""
    try:
        client.histograms.delete(HISTOGRAM)
    except PackhouseError as error:
        if error.code is not grpc.StatusCode.NOT_FOUND:
            raise


def _draw(options: argparse.Namespace, address: str, limits: dict[str, int]) -> bool:
    """Has the command-line tool draw the size histogram. True unless one was asked for in vain."""
    tool = shutil.which(options.cli or "packhouse")
    if tool is None:
        print(f"no picture: there is no program {options.cli or 'packhouse'!r} (see --cli)")
        return options.cli is None
    picture = options.output / "histogram.svg"
    command = [tool, "histogram", "--server", address, "--name", HISTOGRAM, "--plot", str(picture)]
    for name, rows in limits.items():
        if name != GRAPHS:
            command += ["--limit", f"{name}={rows}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode or not picture.exists():
        words = done.stdout.decode(errors="replace").strip()
        print(f"no picture: {tool} ended with {done.returncode}: {words}")
        return options.cli is None
    print(f"picture of the sizes: {picture}")
    return True


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python3 -m packhouse.demo",
        description="Streams real graphs through a packhouse server, takes the batches apart again "
        "and compares every graph with what was sent. Without a data set: the syntax trees of the "
        "functions of this machine's Python standard library.",
    )
    parser.add_argument(
        "--dataset",
        type=pathlib.Path,
        metavar="PATH",
        help="graphs (.npz), sizes (.csv, .csv.gz: num_nodes,num_edges) or a histogram of sizes "
        "(.csv with a last column count)",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--server", metavar="HOST:PORT", help="a server that runs already")
    where.add_argument(
        "--packhoused",
        metavar="BINARY",
        help="the server to start otherwise (default: $PACKHOUSED, then PATH)",
    )
    parser.add_argument(
        "--cli", metavar="BINARY", help="the tool that draws the picture (default: packhouse)"
    )
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        default=pathlib.Path("demo-output"),
        metavar="DIR",
        help="where the picture and the server's log go (default: %(default)s)",
    )
    parser.add_argument(
        "--limit",
        type=_parse_limit,
        action="append",
        default=[],
        metavar="COMPONENT=ROWS",
        help="capacity of a batch, e.g. nodes=1024 (default: chosen from the data)",
    )
    parser.add_argument(
        "--look-ahead",
        type=int,
        default=1024,
        metavar="W",
        help="graphs the packer chooses from (default: %(default)s)",
    )
    return parser.parse_args(arguments)


def _parse_limit(text: str) -> tuple[str, int]:
    name, _, rows = text.partition("=")
    if not name or not rows.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not COMPONENT=ROWS")
    return name, int(rows)


if __name__ == "__main__":
    sys.exit(run_whole("demo", main))

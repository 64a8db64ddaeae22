"""python3 -m packhouse: see `--help`. What the command line `packhouse` does not read itself."""

from __future__ import annotations

import argparse
import difflib
import signal
import sys
import time
import warnings
from typing import TYPE_CHECKING, Final, Iterable, Iterator, NoReturn, Sequence

from packhouse.base.standard_output import run_whole

# What a command works with, it imports itself: --help and misspelt commands need not wait for it.
if TYPE_CHECKING:
    from packhouse.calls.credentials import Credentials
    from packhouse.data.graphs import GraphTable
    from packhouse.data.schema import TensorSpec
    from packhouse.files.neighbours import Neighbours


_COMMANDS: Final = ("ingest", "import-graph", "convert-chunked", "cluster")
_SECURITY: Final = ("tls", "tls_ca", "tls_cert", "tls_key", "tls_server_name", "token_file")


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0, or 1 after an error, which is told; 2 for arguments that make no sense."""
    options = _parse(arguments)
    from packhouse.base.errors import PackhouseError

    try:
        return int(options.run(options))
    except (OSError, ImportError, RuntimeError, ValueError, PackhouseError) as error:
        print(f"packhouse: {_readable(str(error))}", file=sys.stderr)
        return 1


def _readable(text: str) -> str:
    """As a terminal shows it and nothing more: messages may have pieces of files."""
    return "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text
    )


def _ingest(options: argparse.Namespace) -> int:
    from packhouse.client.facade import Client
    from packhouse.files import reading as files
    from packhouse.frameworks.ingest import ingest_tables

    malformed = _Malformed()
    tables = files.tables(
        options.source,
        trust_pickle=options.trust_pickle,
        exclude=options.exclude,
        on_malformed=malformed.add if options.skip_malformed else None,
        neighbours=_neighbours(options),
    )
    with Client(options.server, credentials=_credentials(options)) as client:
        dataset = ingest_tables(client, options.dataset, _told_of(tables), seal=options.seal)
    malformed.done()
    print(
        f"{dataset.name}: {dataset.num_graphs:,} graphs, {dataset.num_bytes:,} bytes; "
        f"{dataset.state.name.lower()}"
    )
    print(f"  components: {', '.join(dataset.schema.components)}")
    for spec in dataset.schema.tensors:
        print(f"  {_told(spec)}")
    return 0


def _neighbours(options: argparse.Namespace) -> Neighbours | None:
    if options.cutoff is None:
        if options.keep_edges or options.max_neighbours:
            raise ValueError("--keep-edges and --max-neighbours need --cutoff")
        return None
    from packhouse.files.neighbours import Neighbours

    return Neighbours(options.cutoff, options.max_neighbours, options.keep_edges)


class _Malformed:
    """Names the first graphs that are left out, and tells how many they are."""

    _MOST_NAMED: Final = 20

    def __init__(self) -> None:
        self._number = 0

    def add(self, told: str) -> None:
        self._number += 1
        if self._number <= self._MOST_NAMED:
            print(f"packhouse: left out: {_readable(told)}", file=sys.stderr)

    def done(self) -> None:
        if self._number:
            graphs = "graph was" if self._number == 1 else "graphs were"
            print(f"packhouse: {self._number:,} {graphs} left out", file=sys.stderr)


def _told_of(tables: Iterable[GraphTable]) -> Iterator[GraphTable]:
    """The tables; on a terminal a line tells how many graphs are read."""
    if not sys.stderr.isatty():
        yield from tables
        return
    from packhouse.base.progress import Progress

    progress = Progress(sys.stderr)
    num_graphs = 0
    for table in tables:
        yield table
        num_graphs += len(table)
        progress.show(f"{num_graphs:,} graphs")
    progress.done(f"{num_graphs:,} graphs")


def _told(spec: TensorSpec) -> str:
    """What was found out about a tensor: a reader sees whether it is what was meant."""
    shape = f" {list(spec.row_shape)}" if spec.row_shape else ""
    into = f", numbers of {spec.index_into}" if spec.index_into is not None else ""
    return f"{spec.name}: {spec.dtype.name.lower()}{shape} for each of {spec.component}{into}"


def _import_graph(options: argparse.Namespace) -> int:
    from packhouse.files import graph_tables
    from packhouse.files.graph_import import import_graph

    opened = graph_tables.open_files(options.folder)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", UserWarning)
        graph = import_graph(
            options.server,
            options.graph,
            opened,
            seal=options.seal,
            appended_only=options.appended_only,
            credentials=_credentials(options),
        )
    for each in told:
        print(f"packhouse: {_readable(str(each.message))}", file=sys.stderr)
    print(
        f"{graph.name}: {sum(graph.num_nodes):,} nodes, {sum(graph.num_edges):,} edges, "
        f"{graph.num_bytes:,} bytes; {'sealed' if graph.version else 'open'}"
    )
    return 0


def _convert_chunked(options: argparse.Namespace) -> int:
    from packhouse.files import chunked_parquet

    converted = chunked_parquet.convert(options.folder, options.output)
    print(f"{options.output}: {converted:,} Parquet files converted")
    return 0


def _try_cluster(options: argparse.Namespace) -> int:
    from packhouse.base.local_cluster import LocalCluster

    # As Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with LocalCluster(options.folder, num_servers=options.servers) as cluster:
            every = ",".join(cluster.addresses)
            print(f"etcd        {cluster.etcd_address}")
            print(f"S3          {cluster.s3_endpoint}, bucket and prefix {cluster.store}")
            for address, page in zip(cluster.addresses, cluster.http_addresses):
                print(f"packhoused  {address}, its page http://{page}/")
            print(f"logs        {cluster.folder}")
            print(f'Load from any of them: Loader("{every}", ...), or packhouse --server')
            print("Ctrl-C ends all" + (", and deletes it." if options.folder is None else "."))
            sys.stdout.flush()
            while not (ended := cluster.ended()):
                time.sleep(0.2)
            raise RuntimeError(ended)
    except KeyboardInterrupt:
        return 0


def _credentials(options: argparse.Namespace) -> Credentials:
    """The options, and what they leave open as the environment has it."""
    from packhouse.calls.credentials import Credentials

    return Credentials.from_environment(
        **{name: getattr(options, name) for name in _SECURITY if getattr(options, name)}
    )


def _add_server(command: argparse.ArgumentParser) -> None:
    command.add_argument("--server", default="localhost:50051", metavar="HOST:PORT")
    security = command.add_argument_group(
        "security", "the environment may say all this too: PACKHOUSE_TLS_CA and so on"
    )
    security.add_argument(
        "--tls", action="store_true", help="encrypt, and trust the CAs of the system"
    )
    for name, value, told in (
        ("tls_ca", "FILE", "the CAs of the server's certificate, PEM"),
        ("tls_cert", "FILE", "the client's certificate, PEM"),
        ("tls_key", "FILE", "its key, PEM"),
        ("tls_server_name", "NAME", "in the server's certificate, if not that of the address"),
        ("token_file", "FILE", "has a bearer token"),
    ):
        security.add_argument(
            f"--{name.replace('_', '-')}", default="", metavar=value, help=told
        )


class _Parser(argparse.ArgumentParser):
    """Asks whether another command was meant."""

    def error(self, message: str) -> NoReturn:
        if "invalid choice" in message:
            wrong = message.split("'")[1]
            near = difflib.get_close_matches(wrong, _COMMANDS, n=1)
            message = f"no command {wrong!r}" + (f": did you mean {near[0]!r}?" if near else "")
        super().error(message)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = _Parser(prog="python3 -m packhouse", description=(__doc__ or "").partition(": ")[2])
    commands = parser.add_subparsers(dest="command", required=True)
    ingest = commands.add_parser(
        "ingest",
        help="store the graphs of files as a data set",
        description="Stores the graphs of files as a data set. After a failure run it again with "
        "the same files: graphs that are stored are not stored twice.",
    )
    ingest.set_defaults(run=_ingest)
    ingest.add_argument(
        "source",
        nargs="+",
        help="processed data set of PyG (.pt), Parquet (.parquet), Arrow (.arrow, .feather, .ipc), "
        "graphs (.npz), sizes (.csv, .csv.gz), atoms (.db, .aselmdb, .extxyz, .xyz), arrays by name "
        "(.h5, .lmdb of pickles, .tar of WebDataset, .mds or its folder); several are one data set",
    )
    _add_server(ingest)
    ingest.add_argument("--dataset", required=True, metavar="NAME")
    ingest.add_argument("--seal", action="store_true", help="no graph can be added afterwards")
    ingest.add_argument(
        "--exclude",
        action="append",
        default=[],
        metavar="NAME",
        help="an attribute or a column that is left out, as one with text; may be repeated",
    )
    ingest.add_argument(
        "--trust-pickle",
        action="store_true",
        help="read .pt and .lmdb files and what else has pickles: they can run any program when they are read",
    )
    ingest.add_argument(
        "--skip-malformed",
        action="store_true",
        help="leave out graphs that cannot be read or differ from the others, and name them; "
        "otherwise the first of them ends it. For files that have graphs one by one, as of atoms",
    )
    atoms = ingest.add_argument_group("atoms", "graphs with pos, and cell and pbc if periodic")
    atoms.add_argument(
        "--cutoff",
        type=float,
        metavar="LENGTH",
        help="count the pairs of atoms within this distance as edges, in the unit of pos: limits "
        "bound them, and nothing of them is stored",
    )
    atoms.add_argument(
        "--max-neighbours",
        type=int,
        default=0,
        metavar="N",
        help="of each atom the nearest; all",
    )
    atoms.add_argument(
        "--keep-edges", action="store_true", help="store edge_index and cell_offsets too"
    )
    graph = commands.add_parser(
        "import-graph",
        help="store one large graph of Parquet or Arrow files as a source graph",
        description="Stores one large graph as a source graph. After a failure run it again with "
        "the same files: rows that are stored are not stored twice.",
    )
    graph.set_defaults(run=_import_graph)
    graph.add_argument(
        "folder",
        help="has nodes/SET.parquet with the column id, and edges/SOURCE.NAME.TARGET.parquet with "
        "source and target; or .arrow, .feather, .ipc",
    )
    _add_server(graph)
    graph.add_argument("--graph", required=True, metavar="NAME")
    graph.add_argument("--seal", action="store_true", help="no row can be added afterwards")
    graph.add_argument(
        "--appended-only",
        action="store_true",
        help="--seal refuses an edge that ends at a node without a row; otherwise such a node gets "
        "zeros in every column, and a line tells of it",
    )
    chunked = commands.add_parser(
        "convert-chunked",
        help="make numpy files of the Parquet files of a graph in DGL's chunked layout",
        description="Makes numpy files of the Parquet files of a graph in DGL's chunked layout, for "
        "`packhouse partition`, `packhouse-partition` and `packhouse graph import`. Other files stay "
        "where they are.",
    )
    chunked.set_defaults(run=_convert_chunked)
    chunked.add_argument("folder", help="has metadata.json")
    chunked.add_argument("--output", required=True, metavar="DIR", help="the new folder")
    cluster = commands.add_parser("cluster", help="several servers that share data sets and jobs")
    of_cluster = cluster.add_subparsers(dest="what", required=True)
    trial = of_cluster.add_parser(
        "try",
        help="start a cluster on this machine: etcd, an S3 server and two servers",
        description="Starts etcd, an S3 server (versitygw) and servers of packhouse on this machine, "
        "all on loopback, until Ctrl-C. The programs are found on PATH, or by the variables "
        "PACKHOUSE_ETCD, PACKHOUSE_S3_SERVER and PACKHOUSED.",
    )
    trial.set_defaults(run=_try_cluster)
    trial.add_argument(
        "--servers", type=int, default=2, choices=range(1, 17), metavar="N", help="of packhouse; 2"
    )
    trial.add_argument(
        "--folder", metavar="DIR", help="keeps what is stored; otherwise a temporary folder"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(run_whole("packhouse", main))

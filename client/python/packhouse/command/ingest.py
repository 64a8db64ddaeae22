"""packhouse ingest."""

from __future__ import annotations

import datetime
import time
from typing import TYPE_CHECKING, Any, Callable, Final, Mapping

import click

from packhouse.command.arguments import (
    bytes_of, choice, flag, limits_of, number, server_options, value, values
)  # fmt: skip
from packhouse.command.connection import Server
from packhouse.command.datasets import tensor_text
from packhouse.command.failures import Failure, Misuse
from packhouse.command.output import Progress, bytes_text, note

if TYPE_CHECKING:
    from packhouse.client.facade import Client
    from packhouse.command.ingest_sources import Chunk, Source
    from packhouse.stored.dataset import Dataset

_LEAST_CHUNK: Final = 4 << 10
# Below the bound that servers have for a message, unless they are told otherwise.
_MOST_CHUNK: Final = 32 << 20
_CHUNK: Final = 1 << 20
_SERVER: Final = "localhost:50051"
# For so long the same command may be run again after a crash. Then a data set that is filled from
# many files does not run out of producers.
_REMEMBERED_SECONDS: Final = 7 * 24 * 3600
_RETRY_SECONDS: Final = 300.0
_PIECES: Final = "#piece"


# fmt: off
@click.command()
@click.argument("source", nargs=-1, required=True)
@server_options(otherwise=f"{_SERVER} by default")
@value("--dataset", "NAME", "The data set. It is created if the server does not have it", required=True)
@flag("--seal", "Take no more graphs afterwards, so that epochs can be loaded")
@values("--exclude", "NAME", "An attribute or a column that is left out, as one with text; may be "
        "repeated")
@flag("--trust-pickle", "Read .pt and .lmdb files and what else has pickles: they can run any program "
      "when they are read")
@flag("--skip-malformed", "Leave out graphs that cannot be read or differ from the others, and name "
      "them; otherwise the first of them ends it. For files that have graphs one by one, as of atoms "
      "and records")
@value("--groups", "ARRAY", "Array of an .npz file with the group id of each graph, for groups that "
       "stay together")
@value("--graph-schema", "SCHEMA", "SOURCE is TFRecord files of tf.Examples: FILE, a glob, or FILE@N. "
       "TF-GNN's schema of them, as text or binary")
@value("--key-prefix", "TEXT", "Comes before every key of the records")
@value("--readout", "KEY=NODE_SET", "Give each graph of tf.Examples a read-out from the first node of "
       "a set")
@value("--cutoff", "LENGTH", "Of graphs with pos: count the pairs of atoms within this distance as "
       "edges, in the unit of pos: limits bound them, and nothing of them is stored", type=float)
@number("--max-neighbours", "Of each atom the nearest; 0: all", type=int)
@flag("--keep-edges", "Store edge_index and cell_offsets too")
@value("--max-bytes", "BYTES", "Most bytes the data set may take on the server's disk, as in 10GiB")
@values("--max-rows", "COMPONENT=ROWS", "Most rows of a component in one graph, as in nodes=4000; "
        "repeat it per component. A larger graph ends the ingest, unless --oversize says otherwise")
@choice("--oversize", ("error", "partition"), "Graphs beyond --max-rows: error, or partition: they are "
        "cut into pieces that fit, and the pieces are stored", default="error", metavar="POLICY")
@value("--chunk-bytes", "BYTES", "Bytes that are stored at once, 1MiB by default. An ingest that was "
       "interrupted goes on only with the same value")
@value("--producer", "NAME", "The name under which the server remembers how far this source is; made "
       "from its content by default, and remembered for a week")
@flag("--quiet", "Print errors only")
# fmt: on
def command(server: Server, **given: Any) -> None:
    """Store graphs in a data set.

    SOURCE is a processed data set of PyG (.pt), Parquet (.parquet), Arrow (.arrow, .feather, .ipc),
    graphs (.npz: node_offsets, edge_offsets, edge_index, x, ...; or, of several kinds of nodes and
    edges, paper.offsets, paper.x, author.writes.paper.offsets, author.writes.paper.edge_index, ...),
    sizes (.csv, .csv.gz; - reads them from stdin), atoms (.db, .aselmdb, .extxyz, .xyz), arrays by
    name (.h5, .lmdb of pickles, .tar of WebDataset, .mds or its folder); several are one data set.
    With --graph-schema it is TFRecord files.

    After a crash, run the same command again. It goes on and stores nothing twice.
    """
    max_bytes = bytes_of("--max-bytes", given["max_bytes"], "a number of bytes, as in 10GiB")
    chunk_bytes = _CHUNK
    if given["chunk_bytes"]:
        form = f"a number of bytes from {bytes_text(_LEAST_CHUNK)} to {bytes_text(_MOST_CHUNK)}"
        chunk_bytes = bytes_of("--chunk-bytes", given["chunk_bytes"], form)
        if not _LEAST_CHUNK <= chunk_bytes <= _MOST_CHUNK:
            raise Misuse(f"--chunk-bytes '{given['chunk_bytes']}': must be {form}")
    if given["oversize"] == "partition" and not given["max_rows"]:
        raise Misuse("--oversize needs --max-rows")
    from packhouse.command import ingest_sources

    opened = ingest_sources.Records if given["graph_schema"] else ingest_sources.open_files
    source = opened(given)
    wanted = {
        "max_bytes": max_bytes,
        "max_rows": limits_of(given["max_rows"], source.schema.components, "--max-rows"),
        "grouped": source.group_ids is not None,
        "oversize": given["oversize"],
    }
    from packhouse.client.facade import Client

    named = server if server.address else server._replace(address=_SERVER)
    with Client(named.address, credentials=named.credentials()) as client:
        ingest = _Ingest(client, named.address, given["dataset"], source, given["quiet"])
        ingest.run(wanted, given["producer"], chunk_bytes, given["seal"])
    source.done()


class _Ingest:
    """One run of the command, once all arguments are read."""

    def __init__(self, client: Client, address: str, name: str, source: Source, quiet: bool) -> None:
        self._client = client
        self._address = address
        self._name = name
        self._source = source
        self._quiet = quiet
        self._is_ours = False
        self._graphs_before = 0
        # Of the chunks under way.
        self._sent: list[Chunk] = []
        self._stored = self._present = self._pieces = self._bytes = 0

    def run(self, wanted: dict[str, Any], producer: str, chunk_bytes: int, seal: bool) -> None:
        """Raises PackhouseError, ValueError, OSError."""
        begin = time.monotonic()
        dataset = self._get_or_create(wanted)
        self._graphs_before = dataset.num_graphs
        with Progress(self._quiet, between_lines=10) as self._line:
            try:
                self._append(dataset, producer, chunk_bytes, begin)
            except Exception as error:
                self._give_up(error)
                raise
        of, name = self._client.datasets, self._name
        dataset = self._again(lambda: of.seal(name) if seal else of.get(name))
        if not self._quiet:
            self._report(dataset, time.monotonic() - begin)

    def _append(self, dataset: Dataset, producer: str, chunk_bytes: int, begin: float) -> None:
        from packhouse.stored.appending import ReliableAppend

        ingest = self

        class Append(ReliableAppend):
            """Tells of each answer."""

            def _take(self, request: Any, answer: Any) -> None:
                super()._take(request, answer)
                ingest._take(answer)
                ingest._line.show(ingest._state(time.monotonic() - begin))

        appending = Append(
            self._client.datasets.append_call, dataset,
            producer or f"ingest-{self._source.fingerprint}-{chunk_bytes}", 1, _RETRY_SECONDS,
            self._address, None if producer else _REMEMBERED_SECONDS, self._wait,
        )
        try:
            chunks = self._source.chunks(chunk_bytes)
            while True:
                try:
                    chunk = next(chunks, None)
                except Exception:
                    # What was read before is stored first.
                    appending.finish()
                    raise
                if chunk is None:
                    break
                self._sent.append(chunk)
                appending.send(chunk.content, chunk.group_ids)
            appending.finish()
        finally:
            appending.close()

    def _state(self, seconds: float) -> str:
        """How far it is, after so many seconds."""
        source, done = self._source, self._bytes
        of = f" of {source.num_graphs:,}" if source.num_graphs else ""
        graphs = self._stored + self._present
        text = f"{graphs:,}{of} graphs, {done / max(seconds, 1e-9) / 1e6:.1f} MB/s"
        if not source.num_bytes or not done:
            return text
        left = datetime.timedelta(seconds=round(seconds * max(0, source.num_bytes / done - 1)))
        # The bytes of chunks also name what is in them, those of the source may not.
        return f"{min(100.0, 100 * done / source.num_bytes):5.1f} %  {text}, {left} left"

    def _wait(self, error: Any, seconds: float) -> None:
        """A failure, and when it is tried again."""
        self._line.clear()
        if not self._quiet:
            note(f"{error.message} [{error.code.name}], trying again in {seconds:.2f} s")

    def _take(self, answer: Any) -> None:
        """Numbers ascend, so all chunks after a new chunk are new. A repetition after a new chunk is
        therefore of this run: its first answer was lost. So is one that would exceed the graphs that
        were there before.
        """
        chunk = self._sent.pop(0)
        was_there = chunk.num_graphs <= self._graphs_before - self._present
        if answer.is_repetition and not self._stored and was_there:
            self._present += chunk.num_graphs
        else:
            self._stored += chunk.num_graphs - answer.num_skipped
            self._pieces += chunk.num_graphs if answer.is_repetition else answer.num_appended
        self._bytes += chunk.num_bytes
        for number in range(answer.num_skipped):
            told = answer.skipped[number] if number < len(answer.skipped) else None
            self._source.skipped(told.graph_id if told else 0, told.message if told else "")

    def _give_up(self, error: Exception) -> None:
        """A data set that this run made goes with graphs that cannot be stored; what is refused is
        told with its place.
        """
        from packhouse.base.errors import PackhouseError

        is_refused = isinstance(error, PackhouseError) and error.code.name == "INVALID_ARGUMENT"
        is_read = not isinstance(error, (PackhouseError, OSError))
        if self._is_ours and (is_refused or is_read):
            self._client.datasets.delete(self._name)
        if is_refused and isinstance(error, PackhouseError):
            told = self._source.explained(error.message)
            raise PackhouseError(error.code, told) from None

    def _get_or_create(self, wanted: dict[str, Any]) -> Dataset:
        from packhouse.base.errors import PackhouseError

        def get() -> Dataset:
            return self._checked(self._again(lambda: self._client.datasets.get(self._name)), wanted)

        try:
            return get()
        except PackhouseError as error:
            if error.code.name != "NOT_FOUND":
                raise
        try:
            created = self._client.datasets.create(self._name, self._source.schema, **wanted)
            self._is_ours = True
            return created
        except PackhouseError as error:
            if error.code.name != "ALREADY_EXISTS":
                raise
        # Created by another client just now, or by a first try whose answer was lost.
        return get()

    def _checked(self, dataset: Dataset, wanted: Mapping[str, Any]) -> Dataset:
        """Raises ValueError for one that this run would have made otherwise."""
        from packhouse.frameworks.ingest import difference

        there, ours = dataset.appended_schema, self._source.schema
        if there.to_proto() != ours.to_proto():
            raise ValueError(
                f"data set {self._name!r} exists and has another schema: "
                f"{difference(there, ours, 'it', 'the first of these graphs')}"
            )
        cuts = any(spec.name == _PIECES for spec in dataset.schema.tensors)
        differs = ""
        if dataset.grouped and not wanted["grouped"]:
            differs = "is grouped, the source has no group ids (--groups)"
        elif wanted["grouped"] and not dataset.grouped:
            differs = "is not grouped, the source has group ids (--groups)"
        elif wanted["oversize"] == "partition" and not cuts:
            differs = "was created without cutting graphs (--oversize partition)"
        elif wanted["max_rows"] and dict(dataset.max_rows) != wanted["max_rows"]:
            has, needs = _rows_text(dataset.max_rows), _rows_text(wanted["max_rows"])
            differs = f"was created with max_rows {has}, wanted is {needs}"
        elif wanted["max_bytes"] and dataset.max_bytes != wanted["max_bytes"]:
            has, needs = str(dataset.max_bytes), str(wanted["max_bytes"])
            differs = f"was created with max_bytes {has}, wanted is {needs}"
        if differs:
            raise Failure("FAILED_PRECONDITION", f"data set '{self._name}' {differs}")
        return dataset

    def _again(self, call: Callable[[], Dataset]) -> Dataset:
        """The call, tried again while the server is away."""
        from packhouse.base.errors import PackhouseError
        from packhouse.calls.retrying import Backoff

        backoff = Backoff(_RETRY_SECONDS, call=f"a call at {self._address}")
        while True:
            try:
                return call()
            except PackhouseError as error:
                time.sleep(backoff.delay_after(error))

    def _report(self, dataset: Dataset, seconds: float) -> None:
        rate = self._bytes / seconds / 1e6 if seconds else 0.0
        print(
            f"{dataset.name}: {dataset.num_graphs:,} graphs, {dataset.num_bytes:,} bytes; "
            f"{dataset.state.name.lower()}\n"
            f"  stored {self._stored:,} graphs, {self._present:,} had been there; "
            f"{bytes_text(self._bytes)} in {seconds:.2f} s, {rate:.1f} MB/s"
        )
        if self._pieces > self._stored:
            print(
                f"  graphs beyond the bounds were cut: they are stored as {self._pieces:,} "
                "graphs with their pieces"
            )
        print(f"  components: {', '.join(dataset.schema.components)}")
        for spec in dataset.schema.tensors:
            print(f"  {tensor_text(spec)}")
        if self._graphs_before and not self._present and self._stored:
            note(
                f"the data set had {self._graphs_before:,} graphs before, which were not taken "
                "for these: they came from another source, or with another --chunk-bytes or --producer"
            )


def _rows_text(rows: Mapping[str, int]) -> str:
    return " ".join(f"{name}={rows[name]}" for name in sorted(rows)) or "none"

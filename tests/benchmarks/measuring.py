"""What the benchmarks in Python share: graphs, a server, contestants as processes, medians.

A contestant is a process of its own that has loaded what it needs and then runs when it is told to,
so that several take turns: what else happens on the machine meets all of them.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import platform
import resource
import statistics
import subprocess
import sys
import time
from typing import Any, Callable, Final, Mapping, Sequence

from packhouse import GRAPHS, Client, GraphTable
from packhouse.files import npz, python_syntax_trees

DATASET: Final = "graphs"


@dataclasses.dataclass(frozen=True)
class Run:
    """What one run has done, in `seconds`, of which the reading process was at work `cpu`."""

    seconds: float
    cpu: float = 0.0
    graphs: int = 0
    batches: int = 0
    # As received.
    bytes: int = 0
    # Of the thread that reads, where that is told.
    thread: float = 0.0
    # Rows of nodes and edges, with padding; then without.
    rows: int = 0
    real_rows: int = 0


# Runs for so many seconds or a little longer.
Runner = Callable[[float], Run]


class Contestant:
    """A process that runs what `make(*arguments)` returns. `missing` says why it cannot, or ""."""

    def __init__(
        self,
        make: Callable[..., Runner],
        *arguments: object,
        environment: Mapping[str, str | None] | None = None,
        python: pathlib.Path | None = None,
    ) -> None:
        """`make` is called in the process, whose environment differs by `environment`.

        With `python` that is its interpreter, and `make` must be a function of a module in this
        folder; if there is no such interpreter, the contestant is missing.
        """
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process: Any
        if python is not None:
            self._process = _OtherPython(python, theirs)
            theirs.close()
            if python.exists():
                self._pipe.send((make, arguments))
                self.missing: str = self._receive()
            else:
                self.missing = f"there is no {python}"
            return
        # No daemon, since a daemon may have no children, and a DataLoader has some.
        self._process = context.Process(target=_serve, args=(theirs, make, arguments))
        kept = {name: os.environ.get(name) for name in environment or ()}
        _set_environment(environment or {})
        try:
            self._process.start()
        finally:
            _set_environment(kept)
        theirs.close()
        self.missing = self._receive()

    @property
    def pid(self) -> int:
        """Of the process."""
        assert self._process.pid is not None
        return self._process.pid

    def run(self, seconds: float) -> Run:
        """One run. Raises RuntimeError with what the process raised."""
        self._pipe.send(seconds)
        answer = self._receive()
        if not isinstance(answer, Run):
            raise RuntimeError(answer)
        return answer

    def close(self) -> None:
        """Ends the process."""
        try:
            self._pipe.send(None)
        except OSError:
            pass
        self._pipe.close()
        self._process.join(20)
        self._process.kill()

    def __enter__(self) -> Contestant:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _receive(self) -> Any:
        try:
            return self._pipe.recv()
        except EOFError:
            raise RuntimeError(f"a contestant has ended: {self._process!r}") from None


class _OtherPython:
    """A process of another interpreter, used as multiprocessing's; none if that is not there."""

    def __init__(self, python: pathlib.Path, pipe: Any) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        if python.exists():
            self._process = subprocess.Popen(
                [python, "-B", __file__, str(pipe.fileno())], pass_fds=[pipe.fileno()]
            )

    @property
    def pid(self) -> int | None:
        """Of the process."""
        return self._process.pid if self._process else None

    def join(self, timeout: float) -> None:
        """Waits for its end."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            if self._process:
                self._process.wait(timeout)

    def kill(self) -> None:
        """Ends it."""
        if self._process:
            self._process.kill()
            self._process.wait()


def serve(descriptor: int) -> None:
    """What a process of another interpreter does: it is told what to make, and to run it."""
    pipe = multiprocessing.connection.Connection(descriptor)
    _serve(pipe, *pipe.recv())


def _serve(pipe: Any, make: Callable[..., Runner], arguments: tuple[object, ...]) -> None:
    try:
        run = make(*arguments)
    except ImportError as error:
        pipe.send(str(error) or "it cannot be imported")
        return
    pipe.send("")
    try:
        while (seconds := pipe.recv()) is not None:
            before = _own_cpu_seconds()
            done = run(seconds)
            pipe.send(dataclasses.replace(done, cpu=_own_cpu_seconds() - before))
    except EOFError:
        pass
    except Exception as error:  # Whatever it is, the parent is to tell.
        pipe.send(f"{type(error).__name__}: {error}")


def _own_cpu_seconds() -> float:
    """Of this process, and of its children, whether they have ended or not."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    ended = sum(usage.ru_utime + usage.ru_stime for usage in usages)
    children = (child.pid for child in multiprocessing.active_children())
    return ended + sum(cpu_seconds_of(pid) for pid in children if pid is not None)


def _set_environment(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def cpu_seconds_of(pid: int) -> float:
    """That a running process has used until now."""
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    # The fields after the program's name, which may contain blanks.
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def pin(count: int) -> list[int]:
    """Binds this process, and those that it starts, to so many processors; says to which."""
    chosen = sorted(os.sched_getaffinity(0))[:count]
    os.sched_setaffinity(0, chosen)
    return chosen


def load_graphs(path: pathlib.Path | None, count: int | None) -> tuple[GraphTable, str]:
    """The first `count` graphs of a .npz file, or else of Python's library; and what they are."""
    if path is not None:
        table, title = npz.load(path), path.stem
    else:
        tables: list[GraphTable] = []
        for each in python_syntax_trees.tables():
            tables.append(each)
            if count is not None and sum(map(len, tables)) >= count:
                break
        table, title = GraphTable.concatenate(tables), "Python syntax trees"
    if count is not None and count < len(table):
        table = table.take(range(count))
    return table, f"{title}: {len(table):,} graphs"


def store(address: str, table: GraphTable, copies: int = 1) -> None:
    """Makes the data set DATASET of `copies` times these graphs, and seals it."""
    with Client(address) as client:
        client.datasets.create(DATASET, table.schema)
        for copy in range(copies):
            numbered = GraphTable(
                table.schema, table.sizes, table.tensors, first_id=copy * len(table)
            )
            client.datasets.append(DATASET, [numbered])
        client.datasets.seal(DATASET)


def limits_for(table: GraphTable, graphs: float) -> dict[str, int]:
    """Limits under which a padded batch has room for so many mean graphs, and for any one."""
    limits = {
        component: max(
            int(table.counts(component).max(initial=0)) + 1,
            -(-round(graphs * table.rows(component) / len(table)) // 8) * 8,
        )
        for component in table.schema.components
    }
    # Components are what fills a batch, not the number of graphs: these vary in size.
    return {**limits, GRAPHS: max(2, round(1.2 * graphs))}


@dataclasses.dataclass(frozen=True)
class Spread:
    """Median, least and most of some figures."""

    median: float
    least: float
    most: float

    @staticmethod
    def of(figures: Sequence[float]) -> Spread:
        """Of one figure or more."""
        return Spread(statistics.median(figures), min(figures), max(figures))

    def show(self, places: int = 0) -> str:
        """As in a table: median (least-most)."""
        return f"{self.median:,.{places}f} ({self.least:,.{places}f}-{self.most:,.{places}f})"


def benchmark_parser(description: str | None, seconds: float) -> argparse.ArgumentParser:
    """What programs that measure servers of their own are all told."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--packhoused", required=True, help="the server program")
    parser.add_argument("--bench", help="the program packhouse-bench; without it its figures are missing")
    parser.add_argument("--data", type=pathlib.Path, help="graphs in a .npz file")
    parser.add_argument("--graphs", type=int, help="only the first so many")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=seconds, help="of a run, at least")
    parser.add_argument("--tcp-congestion", default="reno", help='"" for the system\'s')
    parser.add_argument("--json", type=pathlib.Path, help="where figures go")
    return parser


def publish(
    options: argparse.Namespace, title: str, table: str, **figures: Sequence[dict[str, Any]]
) -> str:
    """Prints a table, and writes the figures to --json. Returns what was printed."""
    text = f"{title}; median (least-most) of {options.runs} runs\n\n{table}"
    print(text)
    if options.json:
        report = {"machine": machine(), "graphs": title, **figures}
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return text


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def machine() -> dict[str, object]:
    """What figures depend on."""
    model = platform.processor() or platform.machine()
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return {
        "processor": model,
        "processors": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"),
    }


if __name__ == "__main__":
    # Contestants know this module by its name. Under the name `__main__` it would exist twice.
    import measuring

    measuring.serve(int(sys.argv[1]))

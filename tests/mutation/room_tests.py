"""Which tests say whether a room is as it was, and what they say of a mutant.

A room's own tests are the programs of tests/ROOM. Those next up link the room: the fewer other rooms they
link, the nearer. What is further up, in other processes, stands in further_tests.txt.
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Final

# A mutant that waits for ever, or takes all memory, is seen too.
SLOWER: Final = 4
SECONDS: Final = 40
MEMORY_BYTES: Final = 6 << 30
NEXT_UP: Final = 5
NEXT_UP_SECONDS: Final = 30
FURTHER_SECONDS: Final = 120
# Of an environment variable; a longer one is left out.
LONGEST_FILTER: Final = 100_000
_SUBREAPER: Final = 36
# Runs pytest with packages that Debian does not have.
ENVIRONMENTS: Final = "environments.py"


def _is_test_file(word: str) -> bool:
    return word.endswith(".py") and pathlib.Path(word).name != ENVIRONMENTS


@dataclasses.dataclass(frozen=True)
class Test:
    """A test of CTest's list."""

    name: str
    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    folder: str
    skips_with: int | None

    @property
    def is_one_program(self) -> bool:
        """Of this build; others run several, with time between them."""
        return len(self.command) == 1

    def programs(self, build: pathlib.Path) -> list[str]:
        """What it runs of the build, as paths in there."""
        words = [*self.command, *(value for _, value in self.environment)]
        return [word[len(str(build)) + 1 :] for word in words if word.startswith(f"{build}/") and os.path.isfile(word)]

    @property
    def is_pytest(self) -> bool:
        """By itself, or in an environment of packages."""
        return "pytest" in self.command or any(word.endswith(f"/{ENVIRONMENTS}") for word in self.command)

    def by_file(self) -> list[Test]:
        """One test for each file of a test by pytest: what modules do as they are read is tried by
        the files that read them, and not by all."""
        files = list(filter(_is_test_file, self.command)) if self.is_pytest else []
        if len(files) < 2:
            return [self]
        command = tuple(word for word in self.command if word not in files)
        return [
            dataclasses.replace(self, name=f"{self.name}/{pathlib.Path(file).stem}", command=(*command, file))
            for file in files
        ]

    def sources(self, root: pathlib.Path, build: pathlib.Path) -> str:
        """The folder of tests/ that it is of, `base` or so."""
        for word in self.command:
            for above in (build, root):
                path = pathlib.Path(word)
                if path.is_relative_to(above / "tests"):
                    return path.relative_to(above / "tests").parts[0]
        return ""


def all_tests(build: pathlib.Path) -> list[Test]:
    """As CTest knows them."""
    told = subprocess.run(["ctest", "--show-only=json-v1"], cwd=build, check=True, capture_output=True, text=True)
    tests = []
    for each in json.loads(told.stdout)["tests"]:
        of = {field["name"]: field["value"] for field in each.get("properties", [])}
        if "command" not in each or "_NOT_BUILT" in each["name"]:
            continue
        variables = tuple(tuple(word.split("=", 1)) for word in of.get("ENVIRONMENT", []))
        skips = of.get("SKIP_RETURN_CODE")
        tests.append(
            Test(each["name"], tuple(each["command"]), variables, of.get("WORKING_DIRECTORY", str(build)), skips)
        )
    return tests


# Of a folder of service/ the folder of tests/ with its tests, where that has another name than its last one.
TESTS_OF: Final = {
    "access": "admission",
    "algorithms/planning/baselines": "planning",
    "algorithms/planning/feedback": "planning",
    "algorithms/planning/optimizer": "planning",
    "algorithms/planning/tuning": "planning",
    "algorithms/pieces": "partitioning",
    "stores/keys": "cluster",
    "stores/limits": "admission",
    "stores/lmdb": "datasets",
    "stores/logs": "ledger",
    "engine/jobs": "delivery",
    "server/calls": "wire",
    "server/calls_grpc": "rpc",
    "server/services": "rpc",
    "server/listen": "rpc",
    "wings/graphs/stored": "source_graphs",
    "wings/graphs/files": "graph_files",
    "wings/graphs/services": "wire",
    "wings/partition/cutting": "partitioning",
    "wings/partition/engines": "partitioning",
    "wings/partition/files": "partition_files",
    "wings/partition/jobs": "partition_jobs",
    "wings/partition/services": "rpc",
    "wings/partition_mpi/shares": "partitioning",
    "wings/partition_mpi/runs": "partition_jobs",
    "wings/cluster/etcd": "cluster",
    "wings/cluster/s3": "objects",
    "wings/cluster/graphs": "source_graphs",
    "wings/cluster/jobs": "ledger",
    "wings/cluster/shared": "shared_datasets",
    "program/commands": "program",
}


def room_of(path: str) -> str:
    """The room of a source, by the name of its tests: `epochs`, `source_graphs`, `client/cpp`."""
    parts = pathlib.Path(path).parts
    if parts[0] != "service":
        return "/".join(parts[:2])
    return TESTS_OF.get("/".join(parts[1:-1]), parts[-2])


def further_tests(text: str) -> dict[str, list[str]]:
    """The table of further_tests.txt: of each room the names of tests."""
    table = {}
    for line in text.splitlines():
        line = line.partition("#")[0].strip()
        if line:
            room, _, names = line.partition(":")
            table[room] = names.split()
    return table


def further_of(table: dict[str, list[str]], room: str) -> list[str]:
    """What stands for a room or what it lies in."""
    for name in (room, room.partition("/")[0], "*"):
        if name in table:
            return table[name]
    return []


def further_of_file(table: dict[str, list[str]], path: str) -> list[str]:
    """What stands for the folders that a file lies in, the inner ones first, and for its room."""
    room = room_of(path)
    folders = [str(each) for each in pathlib.Path(path).parents]
    return [
        *(name for folder in folders if folder != room for name in table.get(folder, [])),
        *further_of(table, room),
    ]


@dataclasses.dataclass(frozen=True)
class Reached:
    """What a test does with no mutant switched on."""

    seconds: float
    names: dict[int, frozenset[str]]  # Of each mutant that it reaches, the tests in it that do.
    outside: frozenset[int]  # What is reached outside of tests too: as modules are read, or by fixtures.
    took: dict[str, float]  # Seconds of each test in it.

    def seconds_of(self, mutant: int) -> float:
        """Of its begin and of those tests in it that reach a mutant; of all where it is reached outside of them."""
        begin = max(0, self.seconds - sum(self.took.values()))
        of_tests = sum(self.took.get(name, 0) for name in self.names[mutant])
        return begin + of_tests + self.seconds * (mutant in self.outside)


class TestRuns:
    """Runs tests with programs in the place of others. For one thread."""

    def __init__(self, build: pathlib.Path, work: pathlib.Path, kept: pathlib.Path) -> None:
        self._build = build
        self._work = work
        self._kept = kept
        self._seconds: dict[str, float] = json.loads(kept.read_text()) if kept.exists() else {}
        # Whatever a test leaves behind is our child then, and ended.
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
        in_memory = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=4g none /dev/shm && exec "$@"', "sh"]
        can = subprocess.run([*in_memory, "true"], capture_output=True, check=False).returncode == 0
        self._before = in_memory if can else []

    def seconds_of(self, test: Test) -> float:
        """How long it took when it ran last; 0 if it never did."""
        return self._seconds.get(test.name, 0)

    def reaches(
        self, test: Test, replaced: Callable[[str], str], most_seconds: float, lines: str = "", once: bool = False
    ) -> Reached | None:
        """Which mutants a test reaches, with none switched on. None if it fails, is skipped or takes too long.

        `lines` is where each mutant of Python is, as in sitecustomize.py. With `once`, which is faster, a mutant
        has only the first test that reaches it.
        """
        self._work.mkdir(parents=True, exist_ok=True)
        (self._work / "lines").write_text(lines)
        told = self._work / "reached"
        told.write_text("")
        pathlib.Path(f"{told}.test").write_bytes(bytes(4))
        variables = {"PACKHOUSE_MUTANT_REACHED": str(told), **({"PACKHOUSE_MUTANT_ONCE": "1"} if once else {})}
        if lines:
            variables["PACKHOUSE_MUTANT_LINES"] = str(self._work / "lines")
        begin = time.monotonic()
        says = self._run(test, replaced, 3 * most_seconds, variables)
        seconds = time.monotonic() - begin
        self._seconds[test.name] = seconds
        self._kept.write_text(json.dumps(self._seconds, indent=0))
        return Reached(seconds, *_read_reached(told.read_text())) if says == "passed" else None

    def says(self, test: Test, replaced: Callable[[str], str], reached: Reached, mutant: int, switched: int) -> str:
        """`passed`, `failed` or `hangs`: what the tests say that reach a mutant, with `switched` on."""
        seconds = SECONDS + SLOWER * reached.seconds_of(mutant)
        variables = {"PACKHOUSE_MUTANT": str(switched)}
        says = "passed"
        if reached.names[mutant]:
            says = self._run(test, replaced, seconds, variables, reached.names[mutant])
        if says == "passed" and mutant in reached.outside:
            says = self._run(test, replaced, seconds, variables)
        return says

    def _run(
        self,
        test: Test,
        replaced: Callable[[str], str],
        seconds: float,
        variables: dict[str, str],
        names: frozenset[str] = frozenset(),
    ) -> str:
        temporary = self._work / "temporary"
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        environment = {**os.environ, "GTEST_FAIL_FAST": "1", "PYTEST_ADDOPTS": "-x", "TMPDIR": str(temporary)}
        environment.update({name: replaced(value) for name, value in test.environment})
        environment.update(variables)
        command = list(map(replaced, test.command))
        if test.is_pytest:
            # Which a test would find beside the server.
            environment.setdefault("PACKHOUSE_GRAPH", replaced(f"{self._build}/service/packhouse-graph"))
            environment["PYTEST_ADDOPTS"] = "-x -p mutant_plugin"
            environment["PYTHONPATH"] = f"{environment.get('PYTHONPATH', '')}:{pathlib.Path(__file__).parent}"
        if names and test.is_pytest:
            (self._work / "names").write_text("\n".join(names))
            environment["PACKHOUSE_MUTANT_TESTS"] = str(self._work / "names")
            files = {name.partition("::")[0].rpartition("/")[2] for name in names}
            command = [each for each in command if not _is_test_file(each) or pathlib.Path(each).name in files]
        elif test.is_one_program and 0 < len(":".join(names)) < LONGEST_FILTER:
            environment["GTEST_FILTER"] = ":".join(sorted(names))
            for name in ("GTEST_TOTAL_SHARDS", "GTEST_SHARD_INDEX"):
                environment.pop(name, None)
        with (self._work / "output").open("w") as output:
            process = subprocess.Popen(
                [*self._before, *command],
                cwd=test.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: _limit(seconds),
            )
            try:
                status = process.wait(seconds)
                says = "passed" if status == 0 else "skipped" if status == test.skips_with else "failed"
            except subprocess.TimeoutExpired:
                says = "hangs"
            finally:
                _end_children(process)
        shutil.rmtree(temporary, ignore_errors=True)
        return says


def _read_reached(text: str) -> tuple[dict[int, frozenset[str]], frozenset[int], dict[str, float]]:
    tests: dict[int, str] = {}
    took: dict[str, float] = {}
    found: dict[int, set[int]] = {}
    for line in text.splitlines():
        what, number, rest = line.split(" ", 2)
        if what == "test":
            tests[int(number)] = rest
        elif what == "took":
            took[tests[int(number)]] = int(rest) / 1000
        else:
            found.setdefault(int(rest), set()).add(int(number))
    names = {mutant: frozenset(tests[each] for each in of if each in tests) for mutant, of in found.items()}
    return names, frozenset(mutant for mutant, of in found.items() if not of <= tests.keys()), took


def _limit(seconds: float) -> None:
    # A run in the background ignores it, and so would programs that a test interrupts.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 1))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))


def _end_children(process: subprocess.Popen[bytes]) -> None:
    """The test, what it started, and what that left behind."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    listed = pathlib.Path(f"/proc/self/task/{os.getpid()}/children")
    while listed.exists() and (children := listed.read_text().split()):
        for child in children:
            os.kill(int(child), signal.SIGKILL)
            os.waitpid(int(child), 0)

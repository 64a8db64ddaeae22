"""A mutation test: puts small mistakes into lines drawn at random, and says which no test sees.

    mutants.py --build build/release --minutes 40 --seed 7       goes on where it stopped
    mutants.py --build build/release --seed 7 --table            what was found so far
    mutants.py --build build/release --only service/a/b.cc:12    every mistake of one line
    mutants.py --build build/release --unreached --paths 'service/stores/*'    those that no test can see

The mutants of a room are compiled at once, each behind a switch (mutant_switch.h). For each it runs the
tests of the room, then the nearest programs that link the room, then those that further_tests.txt names,
until one fails. The seed draws the order of all lines, so a run with the same seed goes on with the next
ones, also after lines have changed: those are tried again. Several runs of a seed may work side by side:
each takes rooms that no other has.
docs/development.md says how to read a survivor. Exit status 0, also with survivors.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import fcntl
import fnmatch
import itertools
import json
import math
import pathlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Final

import mutant_builds
import mutations
import room_tests

ROOT: Final = pathlib.Path(__file__).resolve().parents[2]
FURTHER: Final = pathlib.Path(__file__).with_name("further_tests.txt")
# Examples and demonstrations have no laws; benchmarks are no tests of theirs; the page's script is no C++.
LEFT_OUT: Final = ("*/examples/*", "*/demo/*", "client/bench/*", "client/python/setup.py")

CAUGHT: Final = "caught"  # By a test of the room.
NEXT_UP: Final = "next up"  # By one that links the room.
FURTHER_UP: Final = "further up"
SURVIVED: Final = "survived"
NO_SWITCH: Final = "no switch"  # What is computed as it is compiled, say.
NO_TESTS: Final = "no tests"
OUTCOMES: Final = (CAUGHT, NEXT_UP, FURTHER_UP, SURVIVED)


@dataclasses.dataclass(frozen=True)
class Result:
    """What became of a mutant."""

    path: str
    line: int
    kind: str
    before: str
    after: str
    nth: int
    outcome: str
    by: str = ""
    seconds: float = 0

    def key(self) -> tuple[str, str, str, int]:
        """Of the mutant, wherever the line is now."""
        return (self.path, self.before, self.after, self.nth)


def sources(root: pathlib.Path) -> list[str]:
    """All files of the repository that can be mutated."""
    found = []
    for folder in ("service", "client"):
        for path in sorted((root / folder).rglob("*")):
            name = str(path.relative_to(root))
            if path.suffix in (".cc", ".h", ".py") and not any(fnmatch.fnmatch(name, each) for each in LEFT_OUT):
                found.append(name)
    return found


Numbered = list[tuple[mutations.Mutation, int]]
Stages = list[tuple[list[room_tests.Test], str, float]]


class MutationTest:
    """Tries mutants against one build. For one thread."""

    def __init__(
        self,
        root: pathlib.Path,
        build: pathlib.Path,
        folder: pathlib.Path,
        tests: list[room_tests.Test],
        further_seconds: float = room_tests.FURTHER_SECONDS,
    ) -> None:
        self._root = root
        self._build = build
        self._builds = mutant_builds.MutantBuilds(root, build, folder / "work")
        self._runs = room_tests.TestRuns(build, folder / "run", folder / "seconds.json")
        self._tests = tests
        self._further_seconds = further_seconds
        self._begin = 0.0
        self._further = room_tests.further_tests(FURTHER.read_text())

    def is_built(self, path: str) -> bool:
        """Whether the build has that file."""
        return self._builds.is_built(path)

    def tries(self, room: str, of_room: list[mutations.Mutation], end: float = math.inf) -> Iterator[Result]:
        """Builds a room once with all its mutants, and says of each what sees it; what is undecided at the end, nothing."""
        numbered, placed, stages = self._built(room, of_room)
        self._begin = time.monotonic()
        for mutation, number in numbered:
            if (mutation, number) not in placed:
                yield self._result(mutation, NO_SWITCH)
        if not any(tests for tests, _, _ in stages):
            yield from (self._result(mutation, NO_TESTS) for mutation, _ in placed)
            return
        for tests, outcome, most_seconds in stages:
            for test in sorted(tests, key=self._runs.seconds_of):
                if not placed or self._runs.seconds_of(test) > 2 * most_seconds:
                    continue
                reached = self._runs.reaches(test, self._replaced(), most_seconds, self._lines(placed))
                if reached is None:
                    continue
                seen = [each for each in placed if each[1] in reached.names]
                for mutation, number in sorted(seen, key=lambda each: reached.seconds_of(each[1])):
                    if time.monotonic() > end:
                        return
                    says = self._says(test, reached, mutation, number)
                    if says != "passed":
                        placed.remove((mutation, number))
                        yield self._result(mutation, outcome, f"{test.name} {says}" if says == "hangs" else test.name)
        for mutation, _ in placed:
            yield self._result(mutation, SURVIVED)

    def unreached(self, room: str, of_room: list[mutations.Mutation]) -> list[mutations.Mutation]:
        """Those that no test meets where they would make a difference: they survive without a try."""
        _, placed, stages = self._built(room, of_room)
        for tests, _, most_seconds in stages:
            for test in sorted(tests, key=self._runs.seconds_of):
                if not placed or self._runs.seconds_of(test) > 2 * most_seconds:
                    continue
                reached = self._runs.reaches(test, self._replaced(), most_seconds, self._lines(placed), once=True)
                if reached is not None:
                    placed = [each for each in placed if each[1] not in reached.names]
                print(f"{test.name}: {'not run' if reached is None else f'{len(placed)} left'}", file=sys.stderr, flush=True)
        return [mutation for mutation, _ in placed]

    def _built(self, room: str, of_room: list[mutations.Mutation]) -> tuple[Numbered, Numbered, Stages]:
        """All with their numbers, those that are in what was built, and the tests."""
        numbered = list(zip(of_room, range(1, len(of_room) + 1), strict=False))
        self._builds.clear()
        of = self._python_stages(numbered) if room == "client/python" else self._cpp_stages(room, numbered)
        return numbered, *of

    def _result(self, mutation: mutations.Mutation, outcome: str, by: str = "") -> Result:
        begin, self._begin = self._begin, time.monotonic()
        return Result(**dataclasses.asdict(mutation), outcome=outcome, by=by, seconds=round(self._begin - begin, 1))

    def _says(self, test: room_tests.Test, reached: room_tests.Reached, mutation: mutations.Mutation, number: int) -> str:
        """What a test says of a mutant; what it says without it as well counts for nothing."""
        text = mutation.applied_to((self._root / mutation.path).read_text())
        is_python = mutation.path.endswith(".py")
        with self._builds.changed_module(mutation.path, text) if is_python else contextlib.nullcontext():
            says = self._runs.says(test, self._replaced(), reached, number, number)
        if says != "passed" and self._runs.says(test, self._replaced(), reached, number, 0) != "passed":
            return "passed"
        return says

    def _python_stages(self, numbered: Numbered) -> tuple[Numbered, Stages]:
        placed = []
        tree = self._builds.python_tree()
        for mutation, number in numbered:
            try:
                compile(mutation.applied_to((self._root / mutation.path).read_text()), mutation.path, "exec")
            except SyntaxError:
                continue
            if (tree / pathlib.Path(mutation.path).relative_to("client/python")).exists():
                placed.append((mutation, number))
        self._objects: list[str] = []
        own = [file for each in self._tests if each.name.startswith("python_tests.") for file in each.by_file()]
        return placed, self._stages(own, [], [mutation.path for mutation, _ in placed])

    def _cpp_stages(self, room: str, numbered: Numbered) -> tuple[Numbered, Stages]:
        placed, self._objects = self._builds.compile(numbered, f"tests/{room.partition('/')[0]}/")
        own, nearer = self._nearest("client" if room.startswith("client/") else room, self._objects)
        return placed, self._stages(own, nearer, [mutation.path for mutation, _ in placed])

    def _stages(self, own: list[room_tests.Test], nearer: list[room_tests.Test], paths: list[str]) -> Stages:
        names = dict.fromkeys(name for path in paths for name in room_tests.further_of_file(self._further, path))
        further = [file for name in names for each in self._tests if each.name == name for file in each.by_file()]
        return [
            (own, CAUGHT, 2 * room_tests.FURTHER_SECONDS),
            (nearer, NEXT_UP, room_tests.NEXT_UP_SECONDS),
            (further, FURTHER_UP, self._further_seconds),
        ]

    def _lines(self, placed: Numbered) -> str:
        """Where the mutants of Python are in the copy of the package."""
        return "".join(
            f"{self._builds.python_tree() / pathlib.Path(mutation.path).relative_to('client/python')}:{mutation.line} {number}\n"
            for mutation, number in placed
            if mutation.path.endswith(".py")
        )

    def _replaced(self) -> Callable[[str], str]:
        """What stands for a word of a command: the room's own programs and modules."""

        def replaced(word: str) -> str:
            if not self._objects:
                tree = self._builds.python_tree()
                word = word.replace(f"{self._build}/bin/packhouse", f"{tree.parent}/bin/packhouse")
                return word.replace(f"{self._build}/python", str(tree))
            if not word.startswith(f"{self._build}/") or not pathlib.Path(word).is_file():
                return word
            program = word[len(str(self._build)) + 1 :]
            if self._builds.distance(program, self._objects) is None:
                return word
            return str(self._builds.link(program, self._objects))

        return replaced

    def _nearest(self, folder: str, objects: list[str]) -> tuple[list[room_tests.Test], list[room_tests.Test]]:
        """The room's own tests, and those next up."""
        own = []
        nearer = []
        for test in self._tests:
            if not test.command[0].startswith(f"{self._build}/tests/"):
                continue
            distances = [self._builds.distance(each, objects) for each in test.programs(self._build)]
            told = [each for each in distances if each is not None]
            if not told or "smoke" in test.name:
                continue
            if test.sources(self._root, self._build) == folder:
                own.append(test)
            else:
                nearer.append((min(told), test.name, test))
        return own, [test for _, _, test in sorted(nearer, key=lambda each: each[:2])][: room_tests.NEXT_UP]


def table(results: list[Result]) -> str:
    """Counts by kind and by room, and the survivors."""
    tried = [each for each in results if each.outcome in OUTCOMES]
    lines = []
    for title, of in (("kind", lambda each: each.kind), ("room", lambda each: room_tests.room_of(each.path))):
        lines.append(f"{title:32}" + "".join(f"{outcome:>12}" for outcome in OUTCOMES) + f"{'of':>8}")
        rows: dict[str, collections.Counter[str]] = {}
        for each in tried:
            rows.setdefault(of(each), collections.Counter())[each.outcome] += 1
        for name in [*sorted(rows), "all"]:
            counts = rows[name] if name != "all" else collections.Counter(each.outcome for each in tried)
            lines.append(
                f"{name:32}" + "".join(f"{counts[outcome]:12}" for outcome in OUTCOMES) + f"{counts.total():8}"
            )
        lines.append("")
    thrown = collections.Counter(each.outcome for each in results if each.outcome not in OUTCOMES)
    lines.append("not counted: " + (", ".join(f"{count} {name}" for name, count in sorted(thrown.items())) or "none"))
    for each in tried:
        if each.outcome == SURVIVED:
            lines += ["", f"{each.path}:{each.line}: {each.kind}", f"-{each.before}", f"+{each.after}"]
    return "\n".join(lines)


def building_of(path: str) -> str:
    """What is built at once: the outer room, or a client."""
    room = room_tests.room_of(path)
    return room if room.startswith("client/") else room.partition("/")[0]


def tries_or_not(
    test: MutationTest, room: str, of_room: list[mutations.Mutation], end: float, undecided: set[str]
) -> Iterator[Result]:
    """As `tries`; of a room that cannot be built the rest is undecided, and others are tried."""
    try:
        yield from test.tries(room, of_room, end)
    except mutant_builds.DoesNotCompile as error:
        undecided.add(room)
        print(f"undecided: {room}, which cannot be built\n{str(error)[:2000]}", flush=True)


def read_results(path: pathlib.Path) -> list[Result]:
    """What a run has written; a line that was cut off is left out."""
    results = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            results.append(Result(**json.loads(line)))
        except (json.JSONDecodeError, TypeError):
            continue
    return results


@contextlib.contextmanager
def held(name: str | pathlib.Path) -> Iterator[bool]:
    """Whether this run alone has what is named so, while it lasts."""
    with pathlib.Path(f"{name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def left_to_do(drawn: list[mutations.Mutation], kept: pathlib.Path, mutants: int) -> dict[str, list[mutations.Mutation]]:
    """By room, what no run of the seed has decided, until so many are."""
    results = {each.key(): each for each in read_results(kept)}
    wanted = mutants - sum(each.outcome in OUTCOMES for each in results.values())
    todo = [each for each in drawn if (each.path, each.before, each.after, each.nth) not in results]
    rooms: dict[str, list[mutations.Mutation]] = {}
    for each in todo[: max(wanted, 0)]:
        rooms.setdefault(building_of(each.path), []).append(each)
    return rooms


@contextlib.contextmanager
def next_room(
    drawn: list[mutations.Mutation], kept: pathlib.Path, mutants: int, left_out: set[str]
) -> Iterator[tuple[str, list[mutations.Mutation]]]:
    """A room that no other run has meanwhile, with what is left to do there; an empty name if there is none."""
    for room in left_to_do(drawn, kept, mutants):
        if room in left_out:
            continue
        with held(kept.with_name(f"{kept.stem}-{room.replace('/', '-')}")) as is_own:
            # Read again: another run may just have ended it.
            of_room = left_to_do(drawn, kept, mutants).get(room, [])
            if is_own and of_room:
                yield room, of_room
                return
    yield "", []


def own_folder(folder: pathlib.Path, locks: contextlib.ExitStack) -> pathlib.Path:
    """One for what this run makes and no other run has."""
    numbered = (folder / f"run-{number}" for number in itertools.count(1))
    own = next(each for each in numbered if locks.enter_context(held(each)))
    own.mkdir(exist_ok=True)
    return own


def print_unreached(test: MutationTest, pattern: str, kind: str | None) -> None:
    """A line for each mistake that no test meets, by file."""
    paths = [each for each in sources(ROOT) if fnmatch.fnmatch(each, pattern) and test.is_built(each)]
    for room, of_room in itertools.groupby(sorted(paths, key=lambda each: (building_of(each), each)), building_of):
        found = [each for path in of_room for each in mutations.of_each_line(ROOT, path) if kind in (None, each.kind)]
        for each in test.unreached(room, found):
            print(f"{each.path}:{each.line} {each.kind}: {each.before.strip()}", flush=True)


def main() -> int:
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release", help="whole and up to date")
    parser.add_argument("--minutes", type=float, default=40, help="no new mutant is begun afterwards")
    parser.add_argument("--mutants", type=int, default=300, help="so many, counted over all runs of this seed")
    parser.add_argument(
        "--further-seconds", type=float, default=room_tests.FURTHER_SECONDS, help="the longest test further up"
    )
    parser.add_argument("--seed", default="", help="draws lines and mistakes; today's date if there is none")
    parser.add_argument("--paths", default="*", help="only of files whose names match, as in 'service/engine/epochs/*'")
    parser.add_argument("--kind", choices=mutations.KINDS, help="only mistakes of one kind")
    parser.add_argument("--only", metavar="PATH:LINE", help="every mistake of one line; nothing is written down")
    parser.add_argument("--unreached", action="store_true", help="every mistake that no test meets; nothing is tried")
    parser.add_argument("--table", action="store_true", help="says what was found so far, and tries nothing")
    options = parser.parse_args()
    seed = options.seed or time.strftime("%Y-%m-%d")
    build = options.build.resolve()
    folder = build.parent / "mutants"
    folder.mkdir(exist_ok=True)
    kept = folder / f"seed-{seed}.jsonl"
    if options.table:
        print(table(read_results(kept)))
        return 0
    with contextlib.ExitStack() as locks:
        test = MutationTest(ROOT, build, own_folder(folder, locks), room_tests.all_tests(build), options.further_seconds)
        if options.only:
            path, _, line = options.only.rpartition(":")
            for mutation in mutations.mutations_of_line(ROOT, path, int(line)):
                for result in test.tries(building_of(path), [mutation]):
                    print(f"{result.outcome:18}{result.by:32}{result.kind}: {result.after.strip()}", flush=True)
            return 0
        if options.unreached:
            print_unreached(test, options.paths, options.kind)
            return 0
        end = time.monotonic() + 60 * options.minutes
        undecided: set[str] = set()
        paths = [each for each in sources(ROOT) if fnmatch.fnmatch(each, options.paths) and test.is_built(each)]
        print(f"seed {seed}, of {len(paths)} files; results in {kept}", flush=True)
        drawn = [each for each in mutations.drawn(ROOT, paths, seed) if options.kind in (None, each.kind)]
        while time.monotonic() < end:
            with next_room(drawn, kept, options.mutants, undecided) as (room, of_room):
                if not room:
                    break
                for result in tries_or_not(test, room, of_room, end, undecided):
                    with kept.open("a") as out:
                        out.write(json.dumps(dataclasses.asdict(result)) + "\n")
                    print(
                        f"{result.outcome:18}{result.seconds:6.1f} s  {result.by:32}"
                        f"{result.path}:{result.line} {result.kind}",
                        flush=True,
                    )
        print("\n" + table(read_results(kept)))
        if undecided:
            print(f"undecided, as they cannot be built: {', '.join(sorted(undecided))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

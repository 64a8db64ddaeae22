"""A mutation test: puts small mistakes into lines drawn at random, and says which no test sees.

    mutants.py --build build/release --minutes 40 --seed 7       goes on where it stopped
    mutants.py --build build/release --seed 7 --table            what was found so far
    mutants.py --build build/release --only service/a/b.cc:12    every mistake of one line

For each mutant it compiles one object, links the programs that hold it, and runs the tests of the room,
then those next up, then those further up, until one fails. The seed draws the order of all lines, so a
run with the same seed goes on with the next ones, also after lines have changed: those are tried again.
docs/development.md says how to read a survivor. Exit status 0, also with survivors.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import fcntl
import fnmatch
import json
import pathlib
import sys
import time
from collections.abc import Callable, Iterable
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
NOT_COMPILED: Final = "does not compile"
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


class MutationTest:
    """Tries mutants against one build. For one thread."""

    def __init__(
        self, root: pathlib.Path, build: pathlib.Path, folder: pathlib.Path, tests: list[room_tests.Test]
    ) -> None:
        self._root = root
        self._build = build
        self._builds = mutant_builds.MutantBuilds(root, build, folder / "work")
        self._runs = room_tests.TestRuns(build, folder / "run", folder / "seconds.json")
        self._tests = tests
        self._further = room_tests.further_tests(FURTHER.read_text())

    def is_built(self, path: str) -> bool:
        """Whether the build has that file."""
        return self._builds.is_built(path)

    def tries(self, mutation: mutations.Mutation) -> Result:
        """Compiles, links and tests one mutant."""
        begin = time.monotonic()
        try:
            outcome, by = self._outcome(mutation)
        except mutant_builds.DoesNotCompile:
            outcome, by = NOT_COMPILED, ""
        return Result(**dataclasses.asdict(mutation), outcome=outcome, by=by, seconds=round(time.monotonic() - begin, 1))

    def _outcome(self, mutation: mutations.Mutation) -> tuple[str, str]:
        text = mutation.applied_to((self._root / mutation.path).read_text())
        room = room_tests.room_of(mutation.path)
        self._builds.clear()
        if mutation.path.endswith(".py"):
            try:
                compile(text, mutation.path, "exec")
            except SyntaxError as error:
                raise mutant_builds.DoesNotCompile(str(error)) from error
            tree = self._builds.python_tree(mutation.path, text)
            own = [each for each in self._tests if each.name == "python_tests"]
            nearer: list[room_tests.Test] = []

            def replaced(word: str) -> str:
                return word.replace(f"{self._build}/python", str(tree))

        else:
            folder = "client" if room.startswith("client/") else room.partition("/")[0]
            objects = self._builds.objects_of(mutation.path, f"tests/{folder}/")
            if not objects:
                return NO_TESTS, ""
            own, nearer = self._nearest(folder, objects)
            if not own and not nearer and not room_tests.further_of(self._further, room):
                return NO_TESTS, ""
            self._builds.compile(mutation.path, text, objects)

            def replaced(word: str) -> str:
                if not word.startswith(f"{self._build}/") or not pathlib.Path(word).is_file():
                    return word
                program = word[len(str(self._build)) + 1 :]
                if self._builds.distance(program, objects) is None:
                    return word
                return str(self._builds.link(program, objects))

        names = room_tests.further_of(self._further, room)
        further = [each for name in names for each in self._tests if each.name == name]
        for tests, outcome, seconds in (
            (own, CAUGHT, 2 * room_tests.FURTHER_SECONDS),
            (nearer, NEXT_UP, room_tests.NEXT_UP_SECONDS),
            (further, FURTHER_UP, room_tests.FURTHER_SECONDS),
        ):
            by = self._first_that_fails(tests, replaced, seconds)
            if by:
                return outcome, by
        return SURVIVED, ""

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

    def _first_that_fails(
        self, tests: Iterable[room_tests.Test], replaced: Callable[[str], str], most_seconds: float
    ) -> str:
        """The name of a test that sees the mutant, the quick ones first; "" if none does."""
        timed = [(seconds, test) for test in tests if (seconds := self._runs.seconds_of(test)) is not None]
        for seconds, test in sorted(timed, key=lambda each: each[0]):
            if seconds > most_seconds:
                continue
            says = self._runs.says(test, replaced)
            # On a busy machine, servers may come late: what they see is seen twice.
            if says == "failed" and not test.is_one_program and self._runs.says(test, replaced) == "passed":
                continue
            if says in ("failed", "hangs"):
                return f"{test.name} {says}" if says == "hangs" else test.name
        return ""


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


def read_results(path: pathlib.Path) -> list[Result]:
    """What a run has written; a line that was cut off is left out."""
    results = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            results.append(Result(**json.loads(line)))
        except (json.JSONDecodeError, TypeError):
            continue
    return results


def main() -> int:
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release", help="whole and up to date")
    parser.add_argument("--minutes", type=float, default=40, help="no new mutant is begun afterwards")
    parser.add_argument("--mutants", type=int, default=10**9, help="so many, counted over all runs of this seed")
    parser.add_argument("--seed", default="", help="draws lines and mistakes; today's date if there is none")
    parser.add_argument("--paths", default="*", help="only of files whose names match, as in 'service/epochs/*'")
    parser.add_argument("--kind", choices=mutations.KINDS, help="only mistakes of one kind")
    parser.add_argument("--only", metavar="PATH:LINE", help="every mistake of one line; nothing is written down")
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
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        test = MutationTest(ROOT, build, folder, room_tests.all_tests(build))
        if options.only:
            path, _, line = options.only.rpartition(":")
            for mutation in mutations.mutations_of_line(ROOT, path, int(line)):
                result = test.tries(mutation)
                print(f"{result.outcome:18}{result.by:32}{result.kind}: {result.after.strip()}", flush=True)
            return 0
        end = time.monotonic() + 60 * options.minutes
        results = {each.key(): each for each in read_results(kept)}
        paths = [each for each in sources(ROOT) if fnmatch.fnmatch(each, options.paths) and test.is_built(each)]
        print(f"seed {seed}, of {len(paths)} files; results in {kept}", flush=True)
        for mutation in mutations.drawn(ROOT, paths, seed):
            counted = sum(each.outcome in OUTCOMES for each in results.values())
            if time.monotonic() > end or counted >= options.mutants:
                break
            key = (mutation.path, mutation.before, mutation.after, mutation.nth)
            if key in results or options.kind not in (None, mutation.kind):
                continue
            result = test.tries(mutation)
            results[key] = result
            with kept.open("a") as out:
                out.write(json.dumps(dataclasses.asdict(result)) + "\n")
            print(
                f"{result.outcome:18}{result.seconds:6.1f} s  {result.by:32}{result.path}:{result.line} {result.kind}",
                flush=True,
            )
        print("\n" + table(list(results.values())))
    return 0


if __name__ == "__main__":
    sys.exit(main())

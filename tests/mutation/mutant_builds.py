"""Makes programs with many mutations in them, each behind a switch, out of a build that is there.

All mutants of a room cost one compilation of each object that holds some, and one link a program. An object
is what the build compiles together with a changed file (a unity of some files), compiled again by the build's
own command, with less optimisation and the test programs' compiled headers; it takes the place of the build's
in a copy of its library, so that no program can get both. Nothing of the build is changed.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from typing import Final

import mutations

# Compiled headers of the service, and those of tests that hold as much and compile faster.
FASTER: Final = {
    "packhouse_domain_headers": ("tests/CMakeFiles/packhouse_optimised_test_headers.dir", ["-O1"]),
    "packhouse_grpc_headers": ("tests/CMakeFiles/packhouse_grpc_test_headers.dir", ["-O0"]),
}
# A header is in many objects. So many see the mutation, those of its own room and tests first.
MOST_OBJECTS: Final = 3
_INCLUDE = re.compile(r'#include "([^"]+)"')


HERE: Final = pathlib.Path(__file__).resolve().parent
Numbered = list[tuple[mutations.Mutation, int]]


class DoesNotCompile(Exception):
    """A source does not, whatever is switched."""


class MutantBuilds:
    """The mutants of one room at a time, of the build in `build`, in the folder `work`. For one thread."""

    def __init__(self, root: pathlib.Path, build: pathlib.Path, work: pathlib.Path) -> None:
        self._root = root
        self._build = build
        self._work = work
        self._commands: dict[str, list[str]] = {}
        self._compiled: dict[str, str] = {}  # What the compiler gets for an object.
        self._objects_of: dict[str, list[str]] = {}
        self._links: dict[str, list[str]] = {}
        self._dependants: dict[str, list[str]] | None = None
        for entry in json.loads((build / "compile_commands.json").read_text()):
            command = shlex.split(entry["command"])
            if "-o" not in command or not command[command.index("-o") + 1].endswith(".o"):
                continue
            name = command[command.index("-o") + 1]
            self._commands[name] = command
            self._compiled[name] = entry["file"]
            file = pathlib.Path(entry["file"])
            together = _INCLUDE.findall(file.read_text()) if "/Unity/unity_" in entry["file"] else [entry["file"]]
            for source in together:
                if pathlib.Path(source).is_relative_to(root):
                    self._objects_of.setdefault(str(pathlib.Path(source).relative_to(root)), []).append(name)

    def is_built(self, path: str) -> bool:
        """Whether the build has a file: not where a package that it needs is missing."""
        return path.endswith((".h", ".py")) or path in self._objects_of

    def objects_of(self, path: str, tests: str) -> list[str]:
        """The object that holds a source; of a header some, those of its own folder, then those of `tests`, first."""
        if path in self._objects_of:
            return self._objects_of[path][:1]
        if self._dependants is None:
            self._dependants = self._read_dependants()
        folder = pathlib.Path(path).parent
        beside = {
            name
            for source, names in self._objects_of.items()
            if pathlib.Path(source).parent == folder
            for name in names
        }
        found = self._dependants.get(path, [])
        return sorted(found, key=lambda each: (each not in beside, not each.startswith(tests)))[:MOST_OBJECTS]

    def _read_dependants(self) -> dict[str, list[str]]:
        told = subprocess.run(["ninja", "-t", "deps"], cwd=self._build, check=True, capture_output=True, text=True)
        dependants: dict[str, list[str]] = {}
        name = ""
        for line in told.stdout.splitlines():
            if line and not line.startswith(" "):
                name = line.partition(":")[0]
            elif line.startswith(f"    {self._root}/") and name in self._commands:
                dependants.setdefault(line.strip()[len(str(self._root)) + 1 :], []).append(name)
        return dependants

    def _link_of(self, program: str) -> list[str]:
        if program not in self._links:
            told = subprocess.run(
                ["ninja", "-t", "commands", "-s", program], cwd=self._build, capture_output=True, text=True, check=False
            )
            words = shlex.split(told.stdout) if told.returncode == 0 else []
            is_link = words[:2] == [":", "&&"] and "-o" in words
            # Between `: &&` and the next `&&` stands the link itself.
            self._links[program] = words[2 : words.index("&&", 2)] if is_link else []
        return self._links[program]

    @staticmethod
    def _library_of(name: str) -> str:
        folder, _, target = name.partition("/CMakeFiles/")
        return f"{folder}/lib{target.partition('.dir/')[0]}.a"

    def distance(self, program: str, objects: list[str]) -> int | None:
        """How many libraries of ours a program that holds one of the objects has; None if it holds none."""
        link = self._link_of(program)
        if not any(each in link or self._library_of(each) in link for each in objects):
            return None
        return len({word for word in link if "libpackhouse_" in word})

    def clear(self) -> None:
        """Nothing is left of the room before."""
        shutil.rmtree(self._work, ignore_errors=True)
        self._work.mkdir(parents=True)

    def compile(self, numbered: Numbered, tests: str) -> tuple[Numbered, list[str]]:
        """Compiles the objects that hold mutations of C++: which of them are in, and the objects.

        Those where no switch can stand (what is computed as it is compiled) are left out.
        """
        placed: Numbered = []
        for path in dict.fromkeys(mutation.path for mutation, _ in numbered):
            placed += self._write(path, [each for each in numbered if each[0].path == path])
        objects: list[str] = []
        while True:
            wanted = {name: path for path in {each.path for each, _ in placed} for name in self.objects_of(path, tests)}
            todo = [name for name in sorted(wanted) if name not in objects]
            if not todo:
                return placed, objects
            told = self._compile(len(objects), todo[0])
            if told is None:
                objects.append(todo[0])
                continue
            wrong = self._blamed(told, placed)
            if not wrong:
                raise DoesNotCompile(told)
            placed = [each for each in placed if each[1] not in wrong]
            for path in {each.path for each, _ in numbered}:
                self._write(path, [each for each in placed if each[0].path == path])

    def _write(self, path: str, numbered: Numbered) -> Numbered:
        changed = self._work / "changed" / path
        changed.parent.mkdir(parents=True, exist_ok=True)
        text, placed = mutations.with_switches((self._root / path).read_text(), numbered)
        changed.write_text(f'#include "{HERE}/mutant_switch.h"\n#line 1\n{text}')
        return placed

    def _blamed(self, told: str, placed: Numbered) -> set[int]:
        """The mutants that a compiler complains of: at their line, else as near as can be."""
        places = [(found[1], int(found[2])) for found in re.finditer(r"changed/([\w./]+):(\d+)", told)]
        for wide in (0, 3, 10**9):
            wrong = {
                number
                for mutation, number in placed
                if any(path == mutation.path and abs(line - mutation.line) <= wide for path, line in places)
            }
            if wrong:
                return wrong
        return set()

    def _compile(self, number: int, name: str) -> str | None:
        """Compiles an object; what the compiler says if it does not."""
        command = list(self._commands[name])
        original = self._compiled[name]
        source = self._work / f"object_{number}.cc"
        # Whatever else is compiled with it is where it was.
        together = pathlib.Path(original).read_text()
        if "/Unity/unity_" not in original:
            together = f'#include "{original}"\n'
        for path in _INCLUDE.findall(together):
            changed = self._work / "changed" / path.removeprefix(f"{self._root}/")
            if path.startswith(f"{self._root}/") and changed.exists():
                together = together.replace(f'"{path}"', f'"{changed}"')
        source.write_text(together)
        command[command.index("-o") + 1] = str(self._work / f"object_{number}.o")
        command[command.index("-c") + 1] = str(source)
        command = self._faster(command)
        command[1:1] = ["-I", str(self._work / "changed")]
        ended = subprocess.run(command, cwd=self._build, capture_output=True, text=True, check=False)
        return None if ended.returncode == 0 else ended.stderr

    def _switch_objects(self, has_gtest: bool) -> list[str]:
        """What is linked into each program: they are kept."""
        objects = []
        for name in ["mutant_switch", *(["mutant_listener"] if has_gtest else [])]:
            source = HERE / f"{name}.cc"
            made = self._work.parent / f"{name}.o"
            if not made.exists() or made.stat().st_mtime < max(each.stat().st_mtime for each in HERE.glob("mutant_*.[ch]*")):
                subprocess.run(["c++", "-std=c++20", "-O1", "-fPIC", "-c", str(source), "-o", str(made)], check=True)
            objects.append(str(made))
        return objects

    def _faster(self, command: list[str]) -> list[str]:
        # What is mutated may be unused.
        # Both forms of an operator are computed, and one of them may overflow.
        command = [*(each for each in command if each not in ("-Werror", "-Winvalid-pch")), "-w", "-fwrapv"]
        if "-include" not in command:
            return command
        at = command.index("-include") + 1
        for slow, (fast, options) in FASTER.items():
            header = self._build / fast / "cmake_pch.hxx"
            if f"/{slow}.dir/" in command[at] and pathlib.Path(f"{header}.gch").exists():
                command[at] = str(header)
                return [*command, "-DGTEST_HAS_PTHREAD=1", *options]
        return command

    def changed_library(self, library: str, objects: list[str]) -> pathlib.Path:
        """A copy of a library of the build, with those of the objects that are of it."""
        copy = self._work / "libraries" / library
        if copy.exists():
            return copy
        copy.parent.mkdir(parents=True, exist_ok=True)
        members = copy.with_suffix(".members")
        members.mkdir()
        for number, name in enumerate(objects):
            if self._library_of(name) == library:
                (members / pathlib.Path(name).name).symlink_to(self._work / f"object_{number}.o")
        partial = copy.with_suffix(".partial")
        shutil.copy(self._build / library, partial)
        subprocess.run(["ar", "r", partial, *sorted(members.iterdir())], check=True, capture_output=True)
        return partial.rename(copy)

    def link(self, program: str, objects: list[str]) -> pathlib.Path:
        """A program with the objects that were compiled."""
        linked = self._work / "programs" / program
        if linked.exists() and not linked.is_symlink():
            return linked
        linked.parent.mkdir(parents=True, exist_ok=True)
        # Programs find others beside themselves.
        for beside in (self._build / program).parent.iterdir():
            there = linked.parent / beside.name
            if beside.is_file() and beside.stat().st_mode & 0o100 and beside.name != linked.name and not there.exists():
                there.symlink_to(beside)
        linked.unlink(missing_ok=True)
        link = list(self._link_of(program))
        link[link.index("-o") + 1] = str(linked)
        changed = {self._library_of(name) for name in objects}
        for at, word in enumerate(link):
            if word in objects:
                link[at] = str(self._work / f"object_{objects.index(word)}.o")
            elif word in changed:
                link[at] = str(self.changed_library(word, objects))
        at = next(i for i, word in enumerate(link) if word.endswith(".o"))
        link[at:at] = self._switch_objects(any("libgtest" in word for word in link))
        ended = subprocess.run(link, cwd=self._build, capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            raise DoesNotCompile(ended.stderr)
        return linked

    def python_tree(self) -> pathlib.Path:
        """A copy of the built Python package."""
        tree = self._work / "python"
        if not tree.exists():
            shutil.copytree(self._build / "python", tree, ignore=shutil.ignore_patterns("__pycache__"))
            shutil.copy(HERE / "sitecustomize.py", tree)
            (self._work / "bin").mkdir()
            shutil.copy(self._build / "bin" / "packhouse", self._work / "bin")
        return tree

    @contextlib.contextmanager
    def changed_module(self, path: str, text: str) -> Iterator[None]:
        """While it lasts, a file of client/python is in that copy as it is in `text`."""
        module = self.python_tree() / pathlib.Path(path).relative_to("client/python")
        built = module.read_text()
        module.write_text(text)
        try:
            yield
        finally:
            module.write_text(built)

"""Runs clang-tidy on the sources of service/ and client/, several at once.

    clang_tidy.py [--since COMMIT] [--jobs N] BUILD_FOLDER

Nearly all of its time goes into the headers of gRPC and the standard library. So it looks at what is
compiled in one go, as the build groups it (CMAKE_UNITY_BUILD): many sources for the time of two.
With --since only the groups in which a source differs from that commit. Exit status 1 if clang-tidy
complains.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).parents[2]
FOLDERS = ("service", "client")
# The sources of a group are included: headers, for clang-tidy.
HEADERS = r"(service|client|tests)/.*\.(h|cc)$"
INCLUDED = re.compile(r'^#include "(.*\.cc)"$', re.MULTILINE)


def sources_of(unit: pathlib.Path) -> set[pathlib.Path]:
    """The repository's sources that a compiled file consists of."""
    if unit.suffix == ".cxx":
        return {pathlib.Path(path).resolve() for path in INCLUDED.findall(unit.read_text())}
    return {unit.resolve()}


def units(build: pathlib.Path, changed: set[pathlib.Path] | None) -> list[pathlib.Path]:
    """The compiled files to look at, each once."""
    found = set()
    for command in json.loads((build / "compile_commands.json").read_text()):
        unit = pathlib.Path(command["directory"], command["file"])
        sources = {
            source
            for source in sources_of(unit)
            if any(source.is_relative_to(REPOSITORY / folder) for folder in FOLDERS)
        }
        if sources and (changed is None or sources & changed):
            found.add(unit)
    return sorted(found)


def complaints(unit: pathlib.Path, build: pathlib.Path) -> str:
    """What clang-tidy says of one unit; empty if nothing."""
    done = subprocess.run(
        [
            "clang-tidy",
            "--quiet",
            f"-p={build}",
            f"--header-filter={HEADERS}",
            "--checks=-bugprone-suspicious-include",
            unit,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    return (done.stdout or done.stderr) if done.returncode else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--since", help="a commit")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    changed = None
    if arguments.since:
        names = subprocess.run(
            ["git", "diff", "--diff-filter=d", "--name-only", arguments.since, "--"],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        changed = {(REPOSITORY / name).resolve() for name in names}
    looked_at = units(arguments.build.resolve(), changed)
    # A header is in many units: each complaint is told once.
    told: set[str] = set()
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for text in pool.map(lambda unit: complaints(unit, arguments.build.resolve()), looked_at):
            for complaint in re.split(r"(?m)^(?=/\S+:\d+:\d+: (?:error|warning):)", text):
                if complaint.strip() and complaint not in told:
                    told.add(complaint)
                    print(complaint, end="", flush=True)
    print(f"clang-tidy: {len(looked_at)} units, {len(told)} complaints")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())

"""Lints the protos, and refuses a change that breaks clients of the last release.

    buf_test.py [--folder build/environments] [--write-released] REPOSITORY

`proto/buf.yaml` has the rules. `proto/released.json` has the protos of the last release, if there
was one; it is written instead if --write-released is given. Exit status 1 if something is wrong, or if the check
fails to find what it is given; 77, which CTest counts as skipped, if the tool can neither be fetched
nor found.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "conformance"))

import environments  # noqa: E402  (from the folder above)

BROKEN_FIELD = "uint64 epoch = "


class Buf:
    """The tool. It gets a cache of its own: its test leaves nothing behind."""

    def __init__(self, program: str, cache: pathlib.Path) -> None:
        self._program = program
        self._environment = {**os.environ, "BUF_CACHE_DIR": str(cache)}

    def run(self, *arguments: object) -> list[str]:
        """What the tool complains of."""
        done = subprocess.run(
            [self._program, *map(str, arguments)],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            return []
        return (done.stdout + done.stderr).splitlines() or [f"exit status {done.returncode}"]


def check_itself(buf: Buf, protos: pathlib.Path, folder: pathlib.Path) -> list[str]:
    """A rule that is never broken is none: a bad name and a renumbered field must be refused."""
    image = folder / "image.json"
    copy = folder / "broken"
    if found := buf.run("build", protos, "--exclude-source-info", "--output", image):
        return found
    shutil.copytree(protos, copy)
    file = copy / "packhouse/v1/loader.proto"
    text = file.read_text(encoding="utf-8")
    problems = []
    file.write_text(text + "\nmessage not_camel_case {}\n", encoding="utf-8")
    if not any("PascalCase" in line for line in buf.run("lint", copy)):
        problems.append("lint does not refuse a message `not_camel_case`")
    if BROKEN_FIELD not in text:
        problems.append(f"loader.proto has no `{BROKEN_FIELD}` to renumber")
    file.write_text(text.replace(BROKEN_FIELD, BROKEN_FIELD + "100", 1), encoding="utf-8")
    if not any("epoch" in line for line in buf.run("breaking", copy, "--against", image)):
        problems.append("breaking does not refuse a renumbered field `epoch`")
    return problems


def check_release(buf: Buf, protos: pathlib.Path, released: pathlib.Path) -> list[str]:
    """What of the last release is broken."""
    if not released.exists():
        print("no release yet: nothing to break")
        return []
    broken = buf.run("breaking", protos, "--against", released)
    problems = [f"breaks the last release: {line}" for line in broken]
    if problems:
        problems.append("if no release has had it: make released-protos")
    return problems


def find_buf(folder: pathlib.Path) -> str | None:
    """The pinned tool, fetched if need be; else the one on PATH; None if there is neither."""
    try:
        return str(environments.environment("buf", folder).with_name("buf"))
    except subprocess.CalledProcessError as error:
        print(f"the environment 'buf' could not be made: {error}")
        return shutil.which("buf")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repository", type=pathlib.Path)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("build/environments"))
    parser.add_argument("--write-released", action="store_true")
    arguments = parser.parse_args()
    protos = arguments.repository / "proto"
    released = protos / "released.json"
    program = find_buf(arguments.folder)
    if program is None:
        print("skipped: buf is missing")
        return int(environments.SKIPPED)
    with tempfile.TemporaryDirectory() as folder:
        buf = Buf(program, pathlib.Path(folder, "cache"))
        if arguments.write_released:
            image = ("--exclude-source-info", "--path", protos / "packhouse", "--output", released)
            problems = buf.run("build", protos, *image)
        else:
            problems = buf.run("lint", protos)
            problems += check_release(buf, protos, released)
            problems += check_itself(buf, protos, pathlib.Path(folder))
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

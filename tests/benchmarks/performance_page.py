"""Runs a benchmark and writes what it prints into a section of a machine's page in docs/performance.

    python3 tests/benchmarks/performance_page.py PAGE SECTION -- COMMAND...

PAGE is created if it is missing. Its section with the heading `## SECTION` is replaced as a whole, or
appended. Lines appear on stdout too, as they come. Exit status: the command's; the page changes only
if that is 0.
"""

from __future__ import annotations

import os
import pathlib
import platform
import re
import subprocess
import sys
import time
from typing import Final, Sequence

USAGE: Final = "usage: performance_page.py PAGE SECTION -- COMMAND..."


def printed(command: Sequence[str]) -> str:
    """What the command prints. Raises subprocess.CalledProcessError if it fails."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    return "".join(lines)


def as_markdown(text: str) -> str:
    """Tables of Markdown as they are; a program's own columns as a block of code."""
    if any(line.startswith("|") for line in text.splitlines()):
        return text
    return f"```\n{text}```\n"


def heading() -> str:
    """Of a new page: this machine."""
    cpuinfo = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    model = re.search(r"^model name\s*: (.*)$", cpuinfo, re.MULTILINE)
    processor = model[1] if model else platform.machine()
    return f"# {processor}, {len(os.sched_getaffinity(0))} cores\n"


def section(title: str, command: Sequence[str], body: str) -> str:
    program = [pathlib.Path(word).name if "/" in word else word for word in command]
    measured = f"{time.strftime('%Y-%m-%d')}, Linux {platform.release()}: `{' '.join(program)}`"
    return f"## {title}\n\n{measured}\n\n{body}"


def with_section(page: str, title: str, new: str) -> str:
    """`page` with its section of that title replaced by `new`, or with `new` at the end."""
    parts = page.split("\n## ")
    for i, part in enumerate(parts[1:], start=1):
        if part.splitlines()[0] == title:
            parts[i] = new.removeprefix("## ")
            if i + 1 == len(parts):
                parts[i] = parts[i].rstrip("\n") + "\n"
            return "\n## ".join(parts)
    return page.rstrip("\n") + "\n\n" + new.rstrip("\n") + "\n"


def main(arguments: Sequence[str]) -> int:
    if len(arguments) < 4 or arguments[2] != "--":
        print(USAGE, file=sys.stderr)
        return 2
    path, title, command = pathlib.Path(arguments[0]), arguments[1], arguments[3:]
    try:
        body = as_markdown(printed(command))
    except subprocess.CalledProcessError as error:
        return error.returncode if error.returncode > 0 else 1
    page = path.read_text(encoding="utf-8") if path.exists() else heading()
    path.write_text(with_section(page, title, section(title, command, body)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Runs a command that links a program, with archives in the place of shared libraries.

    link_archives.py /usr/bin/c++ ... -o PROGRAM ...

PROGRAM.archives lists those that were taken. The licences of these libraries allow it without
conditions. Those under the LGPL stay shared, so that they can be replaced, and so does what other
shared libraries link, so that it is there once: OpenSSL, zlib.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
from typing import Final

ARCHIVED: Final = re.compile(
    r"absl_\w+|address_sorting|cares|gpr|grpc|grpc\+\+|grpcpp_channelz|lmdb|protobuf|re2|upb|yaml-cpp"
)


def archive_of(word: str, folders: list[pathlib.Path]) -> pathlib.Path | None:
    """What takes the place of a word of the command; None if nothing does."""
    shared = re.fullmatch(r"(/.*)/lib([^/]+?)\.so[0-9.]*", word)
    if shared is not None:
        name, folders = shared[2], [pathlib.Path(shared[1])]
    elif word.startswith("-l"):
        name = word[2:]
    else:
        return None
    if ARCHIVED.fullmatch(name) is None:
        return None
    found = (folder / f"lib{name}.a" for folder in folders)
    return next((archive for archive in found if archive.is_file()), None)


def main(command: list[str]) -> int:
    program = command.index("-o") + 1
    folders = [pathlib.Path(word[2:]) for word in command if word.startswith("-L")]
    archives = []
    for place, word in enumerate(command):
        archive = archive_of(word, folders)
        if archive is not None:
            archives.append(archive)
            command[place] = str(archive)
    pathlib.Path(command[program] + ".archives").write_text(
        "".join(f"{archive}\n" for archive in dict.fromkeys(archives)), encoding="utf-8"
    )
    # Archives need each other in circles.
    command[program + 1 : program + 1] = ["-Wl,--start-group"]
    return subprocess.run([*command, "-Wl,--end-group"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

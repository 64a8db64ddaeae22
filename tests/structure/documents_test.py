"""Rejects links between documents that lead nowhere, and names of what is not there.

A relative link names a file or folder that is there; behind `#` stands a heading of that page, written
as GitHub writes it. Another page links to each page of docs/. A file of code that a page names is there,
by the end of its path, and so is a command of `packhouse`.

Usage: documents_test.py REPOSITORY. Exit status 1 if something is not there, or if the check fails to
find what it is given.
"""

from __future__ import annotations

import os
import pathlib
import re
import sys

FOLDERS = ("docs", "client", "deploy", "service", "proto", "tests")
LINK = re.compile(r"!?\[(?:[^\]`]|`[^`]*`)*\]\(([^)\s]+)(?: \"[^\"]*\")?\)")
HEADING = re.compile(r"^#+ (.*?)\s*$", re.MULTILINE)
SOURCE = re.compile(r"`([\w./-]+\.(?:h|cc|py|proto))`")
COMMAND = re.compile(r"(?:`|^(?:\$ )?)packhouse ([a-z][a-z-]*)", re.MULTILINE)
BLOCK = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)


def anchors(page: str) -> set[str]:
    """Of its headings; a second one of the same words ends in -1, a third one in -2."""
    found: list[str] = []
    for heading in HEADING.findall(BLOCK.sub("", page)):
        heading = LINK.sub(lambda link: re.sub(r"\]\(.*", "", link[0]), heading)
        found.append(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-"))
    return {
        f"{word}-{found[:place].count(word)}" if word in found[:place] else word
        for place, word in enumerate(found)
    }


def problems(pages: dict[str, str], others: set[str]) -> list[str]:
    """Of pages by path, where `others` are files and folders that are there besides."""
    found = []
    linked: set[str] = set()
    for path, text in pages.items():
        for link in LINK.findall(BLOCK.sub("", text)):
            if re.match(r"[a-z]+:", link):
                continue
            name, _, anchor = link.partition("#")
            target = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
            if target != path:
                linked.add(target)
            if target not in pages and target not in others:
                found.append(f"{path}: {link} is not there")
            elif anchor and anchor not in anchors(pages.get(target, "")):
                found.append(f"{path}: {link}: there is no such heading")
    found += [
        f"{path}: no page links to it"
        for path in pages
        if path.startswith("docs/") and path not in linked
    ]
    return sorted(found)


def names_of_nothing(path: str, text: str, files: set[str], commands: set[str]) -> list[str]:
    """What the page names and is not there; `files` are the ends of paths, from any folder on."""
    code = "\n".join(found[0] for found in BLOCK.finditer(text))
    used = {*COMMAND.findall(code), *re.findall(r"`packhouse ([a-z][a-z-]*)", text)}
    found = [f"{path}: there is no command `packhouse {word}`" for word in used - commands]
    found += [f"{path}: there is no file {name}" for name in set(SOURCE.findall(text)) - files]
    return sorted(found)


def ends_of(path: str) -> set[str]:
    parts = path.split("/")
    return {"/".join(parts[first:]) for first in range(len(parts))}


def check_the_check() -> None:
    pages = {
        "README.md": "[a](docs/a.md#two-words-1) [b](https://c.d) [e](docs)\n```\n[x](y)\n```\n",
        "docs/a.md": "# `Two` words\n## Two words\n[up](../README.md) [here](#two-words) ![p](p.svg)",
    }
    assert problems(pages, {"docs", "docs/p.svg"}) == []
    pages["docs/b.md"] = "[a](a.md#three) [`x[0]`](gone.md)"
    assert problems(pages, {"docs"}) == [
        "docs/a.md: p.svg is not there",
        "docs/b.md: a.md#three: there is no such heading",
        "docs/b.md: gone.md is not there",
        "docs/b.md: no page links to it",
    ]
    page = "`b/c.h`, `d.cc`, `packhouse plan --x`, packhouse does\n```\n$ packhouse plam\n```\n"
    assert names_of_nothing("p", page, ends_of("a/b/c.h"), {"plan"}) == [
        "p: there is no command `packhouse plam`",
        "p: there is no file d.cc",
    ]


def main() -> int:
    check_the_check()
    root = pathlib.Path(sys.argv[1])
    paths = list(root.glob("*.md"))
    others = {path.name for path in root.iterdir()}
    for folder in FOLDERS:
        for path in (root / folder).rglob("*"):
            if path.suffix == ".md":
                paths.append(path)
            else:
                others.add(path.relative_to(root).as_posix())
    pages = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    found = problems(pages, others | set(FOLDERS))
    files = set().union(*map(ends_of, others))
    program = (root / "client/python/packhouse/command/program.py").read_text(encoding="utf-8")
    listed = re.search(r"^COMMANDS.*?^}", program, re.MULTILINE | re.DOTALL)
    commands = set(re.findall(r'^    "([a-z-]+)":', listed[0], re.MULTILINE)) if listed else set()
    for page, text in pages.items():
        if page.startswith("docs/"):
            found += names_of_nothing(page, text, files, commands)
    if len(pages) < 20 or len(commands) < 10:
        found.append(f"only {len(pages)} pages and {len(commands)} commands found below {root}")
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

"""Rejects links between documents that lead nowhere, and pages that no other page links to.

A relative link names a file or folder that is there; behind `#` stands a heading of that page, written
as GitHub writes it.

Usage: documents_test.py REPOSITORY. Exit status 1 if a link leads nowhere, if a page of docs/ is not
linked, or if the check fails to find what it is given.
"""

from __future__ import annotations

import os
import pathlib
import re
import sys

FOLDERS = ("docs", "client", "deploy", "service", "proto", "tests")
LINK = re.compile(r"!?\[(?:[^\]`]|`[^`]*`)*\]\(([^)\s]+)(?: \"[^\"]*\")?\)")
HEADING = re.compile(r"^#+ (.*?)\s*$", re.MULTILINE)
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
    if len(pages) < 20:
        found.append(f"only {len(pages)} pages found below {root}")
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

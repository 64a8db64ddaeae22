"""The README is short, and what it names is there. Its Python runs in tests/conformance/test_docs.py."""

from __future__ import annotations

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = ("README.md", "docs/first-client.md", "docs/command-line.md")


def slugs(page: str) -> set[str]:
    """As GitHub names headings."""
    headings = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings
    }


def test_it_has_at_most_900_words_and_begins_with_two_lines() -> None:
    assert len(README.split()) <= 900
    first = re.search(r"^```\w*\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    assert first is not None
    lines = [line for line in first[1].splitlines() if line]
    assert len(lines) == 2 and "DataLoader" in lines[1]


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert links
    for link in links:
        if link.startswith("http"):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.exists(), link
        if anchor:
            assert anchor in slugs(target.read_text(encoding="utf-8")), link


def test_its_commands_are_there() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    targets = re.findall(r"\bmake ([a-z-]+)", "\n".join(blocks) + README)
    assert {"demo", "test", "wheel", "build"} <= set(targets)
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    assert "build/wheels" in makefile
    commands = [line.partition("#")[0].split() for line in "\n".join(blocks).splitlines()]
    known = ("make", "pip", "export")
    assert all(words[0] in known for words in commands if words), commands

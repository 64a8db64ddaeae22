"""The messages of the troubleshooting page are those of the programs."""

from __future__ import annotations

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
PAGE = ROOT / "docs" / "frameworks" / "troubleshooting.md"

# Messages of torch, word for word.
FOREIGN = ("is not writable", "more than 1 value per channel", "convert np.ndarray of type")

# What is not the same each time, and what Python and gRPC put before.
VARIABLE = r"\.\.\.|'[^']*'|\[[^]]*\]|\(\d,\)|\b\d[\d.]*|\bN\b|localhost:|[A-Z_]{6,}:|\w+Error:|\w+Warning:"


def sources() -> str:
    """Those of the client and of the service, string literals joined."""
    files = [
        path
        for folder in ("client/python/packhouse", "service")
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in (".py", ".cc", ".h")
    ]
    text = "\n".join(path.read_text() for path in files)
    return re.sub(r"\"\s*\n?\s*f?\"", "", text)


def test_each_message_is_in_the_sources() -> None:
    """Its longest run of words without a number, a name or a dot that stands for something."""
    told = sources()
    rows = re.findall(r"^\| `([^|]+?)`[^|]*\| ", PAGE.read_text(), re.MULTILINE)
    assert len(rows) > 25
    for message in rows:
        words = re.split(VARIABLE, message)
        fragment = max((part.strip(" :;,") for part in words), key=len)
        assert len(fragment) >= 8 or fragment in ("FAILED_PRECONDITION", "OUT_OF_RANGE"), message
        if not any(part in message for part in FOREIGN):
            assert fragment in told, f"{fragment!r} of {message!r}"

"""Laws of what a program prints: all of it or an error, and progress when it is time."""

from __future__ import annotations

import io
import os
import sys
from typing import Any

import pytest

from packhouse.base import output
from packhouse.base.output import OutputError, Progress, run_whole


class Full(io.StringIO):
    """A file whose disk is full: says so when it is flushed, or at once."""

    def __init__(self, at_once: bool) -> None:
        super().__init__()
        self.at_once = at_once
        self.descriptor = os.open(os.devnull, os.O_WRONLY)

    def write(self, text: str) -> int:
        if self.at_once:
            raise OSError(28, "no space")
        return super().write(text)

    def flush(self) -> None:
        raise OSError("broken")

    def fileno(self) -> int:
        return self.descriptor


@pytest.mark.parametrize("at_once", [False, True])
def test_what_could_not_be_printed_is_an_error(
    at_once: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def says() -> int:
        print("something")
        return 0

    def helps() -> int:
        print("help")
        raise SystemExit(0)

    for main in (says, helps):
        file = Full(at_once)
        reading, writing = os.pipe()
        os.dup2(writing, file.descriptor)
        monkeypatch.setattr(sys, "stdout", file)
        assert run_whole("prog", main) == 1
        monkeypatch.undo()
        words = "no space" if at_once else "broken"
        assert capsys.readouterr().err == f"prog: cannot write all of stdout: {words}\n"
        # From now on it leads nowhere.
        os.write(file.descriptor, b"x")
        os.close(writing)
        assert os.read(reading, 1) == b""
        os.close(reading)
        os.close(file.descriptor)


def test_what_was_printed_comes_whole_with_its_status(monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[str] = []

    class File(io.StringIO):
        def flush(self) -> None:
            flushed.append(self.getvalue())

        def fileno(self) -> int:
            return 77

        def isatty(self) -> bool:
            return True

    file = File()
    monkeypatch.setattr(sys, "stdout", file)

    def main() -> int:
        assert sys.stdout.isatty() and sys.stdout.fileno() == 77
        assert sys.stdout.encoding == file.encoding
        assert sys.stdout.write("one ") == 4
        sys.stdout.writelines(["two ", "three"])
        return 5

    assert run_whole("prog", main) == 5
    assert flushed[-1] == "one two three" and sys.stdout is file

    def leaves() -> int:
        print("help")
        raise SystemExit(3)

    with pytest.raises(SystemExit) as left:
        run_whole("prog", leaves)
    assert left.value.code == 3 and flushed[-1].endswith("help\n")

    def fails() -> int:
        raise OSError("other")

    with pytest.raises(OSError, match="other"):
        run_whole("prog", fails)
    assert not issubclass(OutputError, OSError)
    monkeypatch.setattr(sys, "stdout", None)
    assert run_whole("prog", lambda: 4) == 4


@pytest.mark.parametrize("is_terminal, seconds", [(True, 0.1), (False, 1.0)])
def test_progress_is_written_when_it_is_time(
    is_terminal: bool, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    class File(io.StringIO):
        def isatty(self) -> bool:
            return is_terminal

    now = [50.0]
    monkeypatch.setattr(output.time, "monotonic", lambda: now[0])
    file: Any = File()
    progress = Progress(file)
    progress.show("a")
    now[0] += 0.9 * seconds
    progress.show("b")
    now[0] += 0.2 * seconds
    progress.show("c")
    progress.show("d")
    now[0] += 0.9 * seconds
    progress.show("e")
    now[0] += 0.2 * seconds
    progress.show("f")
    progress.done("g")
    expected = "\rc\033[K\rf\033[K\rg\033[K\n" if is_terminal else "c\nf\ng\n"
    assert file.getvalue() == expected
    monkeypatch.setattr(sys, "stdout", file)
    Progress().done("h")
    assert file.getvalue() != expected

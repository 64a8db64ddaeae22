"""packhouse-graph: the program for files of large graphs and of TF-GNN, which is started for them; and
packhouse tfgnn, all of which it does.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from typing import Any, Final, NoReturn, Sequence

import click

from packhouse.command.failures import Failure
from packhouse.command.group import Group

_PROGRAM: Final = "packhouse-graph"
_VARIABLE: Final = "PACKHOUSE_GRAPH"
# Of a command behind one whose words are not parsed.
NESTED: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def find_program(what: str) -> str:
    """Raises Failure if it is not there; `what` is the command that needs it."""
    from packhouse.base.local_server import find_server

    named = os.environ.get(_VARIABLE, "")
    beside = ""
    with contextlib.suppress(FileNotFoundError):
        server = find_server(None)
        beside = os.path.join(os.path.dirname(shutil.which(server) or server), _PROGRAM)
    found = shutil.which(named or beside) or shutil.which(named or _PROGRAM)
    if found is None and named:
        raise Failure("NOT_FOUND", f"{_VARIABLE}: {named} is no program")
    if found is None:
        raise Failure(
            "NOT_FOUND",
            f"'{what}' needs the program {_PROGRAM}, which is not beside packhoused and not on PATH: "
            f"pip install packhouse[server] brings it, and so do make build and the image; {_VARIABLE} may "
            "name it (docs/command-line.md)",
        )
    return found


def become(name: str, words: Sequence[str], what: str) -> NoReturn:
    """Turns this process into the program, which calls itself `name` in what it prints.

    Signals, pipes and the exit status are then its own. Raises Failure as `find_program`.
    """
    program = find_program(what)
    sys.stdout.flush()
    # Python ignores these, and what is executed would, too.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.execv(program, [name, *words])


def run(words: Sequence[str], what: str) -> None:
    """Runs the program to its end. Raises Failure as `find_program`, and with the program's own words;
    RuntimeError if these name no status.
    """
    done = subprocess.run(
        ["packhouse", *words], executable=find_program(what), stdin=subprocess.DEVNULL,
        capture_output=True, check=False,
    )
    if done.returncode != 0:
        told = done.stderr.decode(errors="replace").strip().removeprefix("packhouse: ")
        said = re.fullmatch(r"(.*) \[([A-Z_]+)\]", told, re.DOTALL)
        if said is not None:
            raise Failure(said[2], said[1])
        raise RuntimeError(told or f"{_PROGRAM} ended with status {done.returncode}")


class Unparsed(click.Command):
    """Its callback gets `words` as they are, --help too."""

    def __init__(self, *arguments: Any, **attributes: Any) -> None:
        attributes["add_help_option"] = False
        super().__init__(*arguments, **attributes)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Takes them all."""
        ctx.params["words"] = tuple(args)
        return []


def forwarded(name: str, told: str, before: Sequence[str], called: str = "packhouse") -> click.Command:
    """A command `name` that the program does: `before` comes before its words."""

    def command(words: tuple[str, ...]) -> None:
        become(called, [*before, *words], " ".join(before))

    return Unparsed(name, callback=command, help=told)


@click.group("tfgnn", cls=Group)
def tfgnn() -> None:
    """Work with TF-GNN's schemas and TFRecords of tf.Examples"""


for _name, _told in (
    ("validate", "Check a schema as TF-GNN does, and show which tensors packhouse makes of it"),
    ("print", "Show the graphs of TFRecord files"),
    ("generate", "Write random graphs that obey a schema"),
    ("stats", "Show sizes and features of TFRecord files"),
    ("size-constraints", "Show the shapes that TF-GNN would pad batches to, and how many packhouse needs"),
    ("convert-ogb", "Write a downloaded data set of OGB (one large graph) as a unigraph"),
):
    tfgnn.add_command(forwarded(_name, _told, ["tfgnn", _name]))

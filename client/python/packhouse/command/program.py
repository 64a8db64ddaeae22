"""`packhouse`: its commands, and how it ends.

`--help` and misspelt commands import nothing but Click: a command's module is imported when the
command is used.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Final, Sequence

import click

from packhouse._version import __version__
from packhouse.base.output import run_whole
from packhouse.command.failures import (
    FAILURE, MISUSE, OK, Misuse, die_of_signal, end_at_once, text_of
)  # fmt: skip
from packhouse.command.group import Group
from packhouse.command.output import readable

# Of each command, the line of `packhouse --help`; the module of its name has `command`, or it is in
# `_ELSEWHERE`.
COMMANDS: Final = {
    "plan": "Plan as few packs as possible for a whole histogram, with a proof and a comparison",
    "tune": "Choose the limits under which an epoch costs a device the least",
    "pack": "Stream graph sizes and see how full the batches are",
    "histogram": "Sum up the sizes of graphs, write or draw their histogram",
    "ingest": "Store graphs in a data set",
    "export": "Write the data set NAME as tf.Examples, which TF-GNN reads",
    "datasets": "List, show, delete or verify the data sets of a server",
    "epoch": "Show what an epoch of the data set NAME, which must be sealed, would "
    "be: batches, efficiency, segments",
    "histograms": "List, show or delete the histograms of sizes that a server keeps by name",
    "jobs": "List, show or delete what a server keeps of jobs",
    "batch": "Make batches of an epoch again, with the bytes that its trainer got",
    "feedback": "List, show or delete what batches cost on devices, as trainers measured it",
    "sample": "Draw sub-graphs around nodes of a large graph",
    "graph": "Work with source graphs: large graphs from which many small ones are drawn",
    "partition": "Cut a large graph into parts for DGL's trainers",
    "tfgnn": "Work with TF-GNN's schemas and TFRecords of tf.Examples",
    "admin": "Run a server: what it does, its log, its files, its end (docs/security.md)",
    "cluster": "Try several servers that share data sets and jobs",
    "convert-chunked": "Make numpy files of the Parquet files of a graph in DGL's chunked layout",
}
# What works on the disk without a server.
_OF_THE_SERVER: Final = ("store", "policy")
_MODULES: Final = "packhouse.command."
_ELSEWHERE: Final = {"convert-chunked": "partition", "tfgnn": "wings"}


class Program(Group):
    """The outermost one, whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Also of those whose modules are not there."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports it."""
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        module = importlib.import_module(_MODULES + _ELSEWHERE.get(cmd_name, name))
        command: click.Command = getattr(module, name if cmd_name in _ELSEWHERE else "command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Raises Misuse for a command that there is not, or that the server's program has."""
        if args and args[0] in _OF_THE_SERVER:
            raise Misuse(f"'{args[0]}' is of the server's program: packhoused {' '.join(args)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    "packhouse", cls=Program,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="packhouse %(version)s")
def program() -> None:
    """Packs graphs of varying size into full, fixed-shape batches."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0; 1 after a failure, which is told; 2 for arguments that make no sense."""
    _open_standard_files()
    return run_whole("packhouse", lambda: _run(list(sys.argv[1:] if arguments is None else arguments)))


def _run(arguments: list[str]) -> int:
    end_at_once()
    try:
        return _parsed_and_run(arguments)
    except KeyboardInterrupt:
        die_of_signal()
        raise
    except Exception as error:
        die_of_signal()
        told = text_of(error)
        if told is None:
            raise
        print(f"packhouse: {readable(told)}", file=sys.stderr)
        return FAILURE


def _parsed_and_run(arguments: list[str]) -> int:
    if "_PACKHOUSE_COMPLETE" in os.environ:
        from click.shell_completion import shell_complete

        instruction = os.environ["_PACKHOUSE_COMPLETE"]
        return shell_complete(program, {}, "packhouse", "_PACKHOUSE_COMPLETE", instruction)
    try:
        with program.make_context("packhouse", arguments) as context:
            result = program.invoke(context)
        return result if isinstance(result, int) else OK
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.UsageError as error:
        print(f"packhouse: {readable(misuse_text(error))}", file=sys.stderr)
        print("Run with --help for the options.", file=sys.stderr)
        return MISUSE


def misuse_text(error: click.UsageError) -> str:
    """What is printed of words that make no sense."""
    if isinstance(error, click.NoSuchOption):
        near = f"; did you mean '{error.possibilities[0]}'?" if error.possibilities else ""
        return f"there is no option '{error.option_name}'{near}"
    if isinstance(error, click.MissingParameter):
        return f"{_name_of(error.param)} is required"
    if isinstance(error, click.BadParameter):
        return f"{_name_of(error.param)}: {error.message}"
    if isinstance(error, click.BadOptionUsage):
        return f"{error.option_name}: {error.message}"
    return error.message


def _name_of(parameter: click.Parameter | None) -> str:
    if parameter is None:
        return "an argument"
    if isinstance(parameter, click.Option):
        return max(parameter.opts, key=len)
    return (parameter.metavar or parameter.name or "").upper()


def _open_standard_files() -> None:
    """Closed ones become /dev/null: the next file that is opened would have their numbers."""
    for file in (0, 1, 2):
        try:
            os.fstat(file)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


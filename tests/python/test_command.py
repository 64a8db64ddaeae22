"""The command line's own parts: words, numbers, tables. What commands do, tests/client and
tests/end_to_end say.
"""

from __future__ import annotations

import errno
import importlib.util
import itertools
import os
import signal
from typing import Any

import click
import grpc
import pytest

from packhouse.command import arguments, program
from packhouse.command.arguments import NUMBER, Option, option, parse_bytes, parse_rows
from packhouse.base.errors import PackhouseError
from packhouse.command.failures import Failure, Misuse, signals_raised, text_of
from packhouse.command.group import Group, nearest
from packhouse.command.output import (
    bytes_text, Column, grouped, percent, readable, small_percent, TextTable
)  # fmt: skip


@click.group(cls=Group)
def outer() -> None:
    """Commands with options of every kind."""


@outer.command()
@option("--text")
@option("--number", type=NUMBER, default=0)
@option("--many", multiple=True)
@option("--on", is_flag=True)
@option("--other/--no-other")
def do(**taken: Any) -> dict[str, Any]:
    """Gives back what it has taken."""
    return taken


@outer.command()
@option("--dataset", required=True)
@option("--seal", is_flag=True)
def needs(**taken: Any) -> dict[str, Any]:
    """The same."""
    return taken


@outer.group(cls=Group)
def datasets() -> None:
    """With sub-commands."""


@datasets.command("list")
def list_() -> None:
    """Nothing."""


@datasets.command()
def delete() -> None:
    """Nothing."""


def taken(*words: str) -> dict[str, Any]:
    with outer.make_context("packhouse", list(words)) as context:
        result: dict[str, Any] = outer.invoke(context)
    return result


def refused(*words: str) -> str:
    with pytest.raises(click.UsageError) as raised:
        taken(*words)
    return program.misuse_text(raised.value)


def test_the_nearest_command_is_suggested() -> None:
    assert refused("d") == "there is no command 'd'; did you mean 'do'?"
    assert refused("need", "--x") == "there is no command 'need'; did you mean 'needs'?"
    assert refused("dataset") == "there is no command 'dataset'; did you mean 'datasets'?"
    meant = "there is no command 'datasets lst'; did you mean 'datasets list'?"
    assert refused("datasets", "lst") == meant
    assert refused("x").endswith("; there are datasets, do, needs")
    assert refused("datasets", "x") == "there is no command 'datasets x'; there are delete, list"
    assert nearest("hist", ["plan", "histogram"]) == "histogram"
    assert nearest("pakc", ["plan", "pack"]) == "pack"


def test_the_nearest_option_is_suggested() -> None:
    assert refused("do", "--txt", "5") == "there is no option '--txt'; did you mean '--text'?"
    assert refused("do", "--texts=5") == "there is no option '--texts'; did you mean '--text'?"
    assert refused("do", "--colour") == "there is no option '--colour'"
    assert refused().startswith("a subcommand is needed: ")
    assert refused("datasets").startswith("a subcommand is needed: ")
    assert refused("needs") == "--dataset is required"


def test_what_works_on_the_disk_is_of_the_servers_program(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert program.main(["store", "check", "DIR"]) == 2
    told = "packhouse: 'store' is of the server's program: packhoused store check DIR\n"
    assert capsys.readouterr().err.startswith(told)


def test_an_empty_value_takes_no_other_word() -> None:
    words = ("--text=", "--number=7", "--on=", "--other")
    for order in itertools.permutations(words):
        assert taken("do", *order) == {
            "text": "", "number": 7, "many": (), "on": False, "other": True
        }  # fmt: skip
    assert taken("do", "--many=", "--on")["many"] == ("",)
    assert taken("do", "--text", "--other=")["text"] == "--other="
    assert taken("do", "--text=a=b")["text"] == "a=b"
    assert refused("needs", "--dataset=", "--seal") == "--dataset: must not be empty"
    assert taken("needs", "--dataset=x", "--seal") == {"dataset": "x", "seal": True}


def test_an_option_is_given_once() -> None:
    assert refused("do", "--text", "a", "--text", "b") == "--text: is there twice"
    assert taken("do", "--many", "a", "--many", "b")["many"] == ("a", "b")
    assert taken("do", "--on", "--on")["on"]


@pytest.mark.parametrize("word", ["-1", "-0", "18446744073709551616", "1e3", "", " 7"])
def test_numbers_have_no_sign_and_64_bits(word: str) -> None:
    told = f"--number: '{word}' must be a whole number from 0 to 18446744073709551615"
    assert refused("do", f"--number={word}") == told
    assert taken("do", "--number", "18446744073709551615")["number"] == (1 << 64) - 1


def test_every_command_is_described_as_the_program_says() -> None:
    for name, told in program.COMMANDS.items():
        if importlib.util.find_spec(f"packhouse.command.{name}") is None:
            continue
        command = importlib.import_module(f"packhouse.command.{name}").command
        assert command.name in (name, "command")
        assert command.get_short_help_str(200).rstrip(".") == told
        assert all(isinstance(each, (Option, click.Argument)) for each in command.params)


def test_bytes_are_of_units_of_1024_and_1000() -> None:
    for text, number in {
        "0": 0, "400": 400, "7B": 7, "3KiB": 3072, "3kB": 3000, "2MiB": 2 << 20,
        "16GiB": 16 << 30, "2TB": 2 * 10**12, "18446744073709551615": (1 << 64) - 1,
    }.items():  # fmt: skip
        assert parse_bytes(text) == number
    for text in ("", "B", "-1", "1.5GiB", "4 KiB", "18446744073709551616", "16777216TiB", "1K"):
        assert parse_bytes(text) is None


def test_rows_are_whole_numbers_above_0() -> None:
    assert parse_rows("222") == 222
    assert parse_rows("007") == 7
    for text in ("", "0", "-1", "+1", "1.0", " 1", "1e3", "18446744073709551616", "\u0663"):
        assert parse_rows(text) is None


def test_values_of_components_name_what_is_wrong() -> None:
    def of(*values: str) -> dict[str, int]:
        return arguments.limits_of(values, ["nodes", "a=b"])

    assert of("nodes=5", "graphs=2", "a=b=3") == {"nodes": 5, "graphs": 2, "a=b": 3}
    for values, told in (
        (["nodes"], "--limit 'nodes': must be COMPONENT=ROWS with a whole number of at least 1"),
        (["nodes=0"], "--limit 'nodes=0': must be COMPONENT=ROWS"),
        (["faces=1"], "--limit 'faces=1': the components are nodes, a=b and graphs"),
        (["nodes=1", "nodes=2"], "--limit 'nodes=2': 'nodes' has a value already"),
    ):
        with pytest.raises(Misuse, match="^" + told.replace("(", r"\(")):
            of(*values)


def test_texts_show_what_a_terminal_would_obey() -> None:
    assert readable("a\tb\nc \u00e9 \u4e2d") == "a\tb\nc \u00e9 \u4e2d"
    assert readable("\x1b[31mred\r\x00\x7f") == r"\x1b[31mred\x0d\x00\x7f"
    assert readable("\x85\udcff") == r"\xc2\x85\xff"


def test_numbers_are_shown_as_people_read_them() -> None:
    assert [grouped(n) for n in (0, 999, 1000, (1 << 64) - 1)] == [
        "0", "999", "1,000", "18,446,744,073,709,551,615"
    ]  # fmt: skip
    assert [percent(0.98776), percent(1), percent(0), percent(0.99996, 3)] == [
        "98.78", "100.00", "0.00", "99.996"
    ]  # fmt: skip
    for ratio, text in (
        (0, "0 %"), (0.000015, "0.0015 %"), (0.00000044, "0.000044 %"), (0.0053, "0.53 %"),
        (0.0999, "10 %"), (6.84, "684 %"), (-0.0227, "-2.3 %"),
    ):  # fmt: skip
        assert small_percent(ratio) == text
    assert [bytes_text(n) for n in (0, 1023, 1024, 16 << 30, (1 << 64) - 1)] == [
        "0 B", "1023 B", "1.0 KiB", "16.0 GiB", "16.0 EiB"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (PackhouseError(grpc.StatusCode.ABORTED, "no"), "no [ABORTED]"),
        (Failure("CANCELLED", "nothing was done"), "nothing was done [CANCELLED]"),
        (
            FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "a.csv"),
            "a.csv: cannot open: No such file or directory [NOT_FOUND]",
        ),
        (FileNotFoundError("'a@2': no such file"), "'a@2': no such file [NOT_FOUND]"),
        (OSError(errno.ENOENT, "--tls-ca: is away", "ca"), "ca: --tls-ca: is away [NOT_FOUND]"),
        (FileExistsError("out is there already"), "out is there already [ALREADY_EXISTS]"),
        (OSError(errno.EACCES, "Denied", "a"), "a: Denied [PERMISSION_DENIED]"),
        (OSError(errno.EISDIR, "Is a directory", "a"), "a: Is a directory [FAILED_PRECONDITION]"),
        (OSError(errno.ENOSPC, "Full", "a"), "a: Full [RESOURCE_EXHAUSTED]"),
        (OSError(errno.EIO, "Broken", "a"), "a: Broken [UNKNOWN]"),
        (MemoryError("too large"), "too large [RESOURCE_EXHAUSTED]"),
        (ImportError("there is no module"), "there is no module [FAILED_PRECONDITION]"),
        (ValueError("a.csv:3: is empty"), "a.csv:3: is empty [INVALID_ARGUMENT]"),
        (RuntimeError("it does not start"), "it does not start [UNAVAILABLE]"),
        (KeyError("a mistake of ours"), None),
    ],
)
def test_each_failure_ends_in_the_name_of_its_status(error: Exception, told: str | None) -> None:
    assert text_of(error) == told


def test_columns_are_flush() -> None:
    table = TextTable(["name", "packs", "%"])
    table.add_row("a longer name", 7, "98.78")
    table.add_row("b", 123456)
    assert table.render() == (
        "name            packs      %\n"
        "a longer name       7  98.78\n"
        "b              123456\n"
    )


def test_a_group_stands_over_its_columns_and_widens_them() -> None:
    table = TextTable(["", Column("n", "efficiency"), Column("e", "efficiency"), "x"])
    table.add_row("r", 1, 2, 3)
    assert table.render() == (
        "   efficiency\n"
        "         n  e  x\n"
        "r        1  2  3\n"
    )


def test_headings_span_a_table_and_characters_have_widths() -> None:
    table = TextTable(["a"])
    table.add_heading("a heading that is long")
    table.add_row(1)
    assert table.render() == "a\na heading that is long\n1\n"
    assert table.render(has_head=False) == "a heading that is long\n1\n"
    wide = TextTable(["\u4e2d", "b"])
    wide.add_row("1", "2")
    assert wide.render() == "\u4e2d  b\n1   2\n"


@pytest.mark.parametrize("before", ["", "epoch 3 of job 'j': "])
def test_the_servers_flag_for_more_memory_is_said_to_be_the_servers(before: str) -> None:
    said = f"{before}--memory-budget: a plan of 8 bytes beside the 0 that are held, at most 4"
    told = text_of(PackhouseError(grpc.StatusCode.RESOURCE_EXHAUSTED, said))
    advice = "--memory-budget is a flag of packhoused: start one with more, and name it with --server"
    assert told == f"{said}; {advice} [RESOURCE_EXHAUSTED]"
    other = text_of(PackhouseError(grpc.StatusCode.RESOURCE_EXHAUSTED, "the disk is full"))
    assert other == "the disk is full [RESOURCE_EXHAUSTED]"


def test_after_a_block_signals_are_what_they_were() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with signals_raised():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before is signal.SIG_DFL

"""What commands have in common: options, and the types of their values.

Imports nothing but Click, as the head of every module here: `packhouse --help` does not wait for
gRPC or numpy.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Final, Mapping, Sequence, TypeVar

import click

from packhouse.command.connection import Server
from packhouse.command.failures import Misuse

_MOST: Final = (1 << 64) - 1
_SECURITY: Final = ("tls", "tls_ca", "tls_cert", "tls_key", "tls_server_name", "token_file")
_UNITS: Final = {
    "": 1, "B": 1,
    "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
    "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
}  # fmt: skip
PADDINGS: Final = ("none", "masked", "graph", "tfgnn")
BYTES_FORM: Final = "a whole number of bytes, as in 400, 64KiB or 16GiB"
ROWS_FORM: Final = "COMPONENT=ROWS with a whole number of at least 1"

Function = Callable[..., Any]
F = TypeVar("F", bound=Function)
Decorator = Callable[[F], F]


class Option(click.Option):
    """One that may be given once, unless it is `multiple` or a flag; if it is required, its value
    is not empty. `--flag=` is a flag that is off.
    """

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Makes Click's parser refuse a repetition, and take a flag that is off."""
        super().add_to_parser(parser, ctx)
        if self.is_flag and not hasattr(parser, "takes_flags_off"):
            parser.takes_flags_off = True
            parser._match_long_opt = functools.partial(_match, parser, parser._match_long_opt)
        if self.multiple or self.is_flag:
            return
        for name in (*self.opts, *self.secondary_opts):
            made = parser._long_opt.get(name) or parser._short_opt.get(name)
            if made is None or hasattr(made, "is_once"):
                continue
            made.is_once = True
            made.process = functools.partial(self._process_once, made.process)

    def _process_once(self, process: Function, value: str, state: Any) -> None:
        if self.name in state.opts:
            raise Misuse(f"{self.opts[0]}: is there twice")
        process(value, state)

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """As Click's, for a value that is not empty."""
        if self.required and value == "":
            raise click.BadParameter("must not be empty", ctx, self)
        return super().type_cast_value(ctx, value)


def _match(parser: Any, match: Function, name: str, value: str | None, state: Any) -> None:
    known = parser._long_opt.get(name)
    if value != "" or known is None or known.takes_value:
        match(name, value, state)


def option(*declarations: str, **attributes: Any) -> Decorator[Any]:
    """An option of a command. `metavar`, `help`, `multiple`, `required`, `type`, `is_flag` as
    Click has them; without a type, a text, "" by default.
    """
    has_none = {"default", "is_flag", "multiple", "required", "type"} & attributes.keys()
    if not has_none and not any("/" in name for name in declarations):
        attributes["default"] = ""
        attributes.setdefault("show_default", False)
    return click.option(*declarations, cls=Option, **attributes)


class WholeNumber(click.ParamType):
    """A whole number from `least` to `most`."""

    name = "number"

    def __init__(self, least: int = 0, most: int = _MOST) -> None:
        self._least = least
        self._most = most

    def convert(self, value: Any, param: Any, ctx: click.Context | None) -> int:
        """Raises BadParameter."""
        if isinstance(value, int):
            return value
        number = int(value) if value.isascii() and value.isdecimal() and len(value) < 30 else -1
        if not self._least <= number <= self._most:
            self.fail(
                f"'{value}' must be a whole number from {self._least} to {self._most}", param, ctx
            )
        return number


NUMBER: Final = WholeNumber()
NUMBER_32: Final = WholeNumber(most=(1 << 32) - 1)


class Amount(click.ParamType):
    """A number of bytes, with a unit if one is given."""

    name = "bytes"

    def convert(self, value: Any, param: Any, ctx: click.Context | None) -> int:
        """Raises BadParameter."""
        if isinstance(value, int):
            return value
        number = parse_bytes(value)
        if number is None:
            # With the option's name, as other options' errors.
            self.fail(f"'{value}' must be {BYTES_FORM}", param, ctx)
        return number


BYTES: Final = Amount()


def parse_bytes(text: str) -> int | None:
    """`400`, `64KiB`, `16GiB`, `16GB`. None if it is malformed or above 2^64 - 1."""
    digits = len(text) - len(text.lstrip("0123456789"))
    factor = _UNITS.get(text[digits:])
    if not digits or digits > 20 or factor is None:
        return None
    number = int(text[:digits]) * factor
    return number if number <= _MOST else None


def parse_rows(text: str) -> int | None:
    """A whole number of at least 1, without sign, exponent or spaces; else None."""
    is_number = text.isascii() and text.isdecimal() and len(text.lstrip("0")) <= 20
    return int(text) if is_number and 0 < int(text) <= _MOST else None


# The server.


def server_options(required: bool = False) -> Decorator[Any]:
    """Adds `--server` and the options of certificates and tokens. The command gets `server`, a
    `Server`.
    """

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def with_server(*arguments: Any, **options: Any) -> Any:
            security = {name: options.pop(name) for name in _SECURITY}
            given = {name: value for name, value in security.items() if value}
            server = Server(options.pop("server") or "", given)
            return function(*arguments, server=server, **options)

        of_server = "HOST:PORT or unix:PATH of a packhoused, or several of a cluster with commas between them"
        if not required:
            of_server += "; without it one is started for this command alone"
        added = [
            option("--server", required=required, metavar="ADDRESS", help=of_server)
            if required
            else option("--server", metavar="ADDRESS", help=of_server),
            option(
                "--tls",
                is_flag=True,
                help="TLS with the system's CAs. The environment may say all this too: "
                "PACKHOUSE_TLS_CA ...",
            ),
        ]
        for name, metavar, told in (
            ("--tls-ca", "FILE", "PEM file of the CAs of the server's certificate"),
            ("--tls-cert", "FILE", "PEM file of the client's certificate"),
            ("--tls-key", "FILE", "PEM file of its key"),
            ("--tls-server-name", "NAME", "the name in the server's certificate, if it is not the address's"),
            ("--token-file", "FILE", "file with a bearer token"),
        ):
            added.append(option(name, metavar=metavar, help=told))
        return _all(added, with_server)

    return decorate


def json_option(told: str = "Print JSON") -> Decorator[Any]:
    """Adds `--json`; the command gets `as_json`."""
    return option("--json", "as_json", is_flag=True, help=told)


def yes_option() -> Decorator[Any]:
    """Adds `--yes`: see `confirm`."""
    return option("--yes", is_flag=True, help="Do it without asking")


# Sizes, limits, padding, search.


def sizes_option(required: bool = True) -> Decorator[Any]:
    """Adds `--sizes FILE`."""
    told = (
        "CSV of graph sizes (num_nodes,num_edges,...), one graph a row or with a column `count`, .gz is "
        "fine; or a file of graphs (.npz, .parquet, .arrow, .extxyz and so on)"
    )
    if required:
        return option("--sizes", required=True, metavar="FILE", help=told)
    return option("--sizes", metavar="FILE", help=told)


def size_source_options(function: Function) -> Function:
    """Adds `--sizes`, `--dataset` and `--histogram`, of which one is needed: see `sizes.SizeSource`."""
    return _all(
        [
            sizes_option(required=False),
            option("--dataset", metavar="NAME", help="The sizes of a data set of the server"),
            option("--histogram", metavar="NAME", help="The sizes of a histogram of the server"),
        ],
        function,
    )


def limit_option(required: bool = False) -> Decorator[Any]:
    """Adds `--limit COMPONENT=ROWS`; the command gets `limit`, the texts, for `limits_of`."""
    return option(
        "--limit",
        multiple=True,
        required=required,
        metavar="COMPONENT=ROWS",
        help="Most rows of a component in a batch, as in nodes=222; repeat it per component, `graphs` "
        "is one",
    )


def budget_options(told: str) -> Decorator[Any]:
    """Adds `--budget-steps N`, which are for what is told, and `--seed N`."""
    of_seed = (
        "Seed of the search. It changes the result only if the budget ends before the best is proved"
    )
    return lambda function: _all(
        [
            option("--budget-steps", type=NUMBER, default=0, metavar="N", help=told),
            option("--seed", type=NUMBER, default=0, metavar="N", help=of_seed),
        ],
        function,
    )


def axes_option(otherwise: str) -> Decorator[Any]:
    """Adds `--axes A[,B]`; the command gets `axes`, a list; `otherwise` says what is drawn without."""
    return option(
        "--axes",
        metavar="A[,B]",
        help=f"The one or two components to draw, as in nodes,edges; {otherwise}",
        callback=lambda _context, _option, value: value.split(",") if value else [],
    )


def padding_option(function: Function) -> Function:
    """Adds `--padding`, `--index-into` and `--ragged`; for `Padding.of`, as `**padding`."""
    return _all(
        [
            option(
                "--padding",
                type=click.Choice(PADDINGS),
                metavar="NAME",
                help="The padding that batches will be loaded with: none, masked, graph or tfgnn "
                "(which keep one graph, and one row of what indices point into, free); limits are "
                "then those that a load takes",
            ),
            option(
                "--index-into",
                multiple=True,
                metavar="COMPONENT",
                help="For --padding graph or tfgnn: a component that index tensors point into; may be "
                "repeated; else the first component, or with tfgnn none",
            ),
            option(
                "--ragged",
                multiple=True,
                metavar="COMPONENT",
                help="For --padding tfgnn: the component of a ragged feature, which needs no limit; "
                "may be repeated",
            ),
        ],
        function,
    )


def padding_text(padding: str | None) -> str:
    """`, padding graph`; empty if padding is left open."""
    return f", padding {padding}" if padding else ""


def set_padding(
    request: Any,
    padding: str | None,
    index_into: Sequence[str],
    ragged: Sequence[str],
    components: Sequence[str],
) -> None:
    """Fills in a PlanRequest or a TuneRequest. Raises Misuse naming the value; other checks are the
    server's.
    """
    if index_into and padding not in ("graph", "tfgnn"):
        raise Misuse(
            "--index-into says what padding keeps free: it needs --padding graph or tfgnn"
        )
    if ragged and padding != "tfgnn":
        raise Misuse("--ragged says what padding leaves as it is: it needs --padding tfgnn")
    for name, values in (("--index-into", index_into), ("--ragged", ragged)):
        for value in values:
            if value not in components:
                raise Misuse(f"{name} '{value}': there is only {', '.join(components)}")
    if padding:
        request.padding = padding_number(padding)
    request.index_targets.extend(index_into)
    request.ragged_components.extend(ragged)


def padding_number(padding: str) -> int:
    """As a `packhouse.v1.Padding`."""
    from packhouse.data.batch import Padding

    return int(Padding.of(padding, "padding"))


def each_component(
    name: str,
    form: str,
    values: Sequence[str],
    components: Sequence[str],
    read: Callable[[str], Any],
) -> dict[str, Any]:
    """The values of an option as in `--limit nodes=222`, by component; `read` gives None for a
    malformed one, and `form` says what it must be.

    Raises Misuse naming option and value: each component is one of `components` or `graphs`, and
    comes once.
    """
    found: dict[str, Any] = {}
    for text in values:
        # A component's name may have one too.
        component, equals, value = text.rpartition("=")
        taken = read(value) if equals else None
        if taken is None:
            raise Misuse(f"{name} '{text}': must be {form}")
        if component != "graphs" and component not in components:
            raise Misuse(f"{name} '{text}': the components are {', '.join(components)} and graphs")
        if component in found:
            raise Misuse(f"{name} '{text}': '{component}' has a value already")
        found[component] = taken
    return found


def limits_of(
    values: Sequence[str], components: Sequence[str], name: str = "--limit"
) -> dict[str, int]:
    """The values of `--limit`, or of another option, in their order."""
    return each_component(name, ROWS_FORM, values, components, parse_rows)


def limits_text(limits: Mapping[str, int]) -> str:
    """`nodes=222, edges=502`; 0 is `unlimited`."""
    return ", ".join(f"{name}={rows or 'unlimited'}" for name, rows in limits.items())


def without_limit(components: Sequence[str], limited: Sequence[str] | Mapping[str, int]) -> str:
    """`; edges without a limit`: what a batch may have any number of; empty if all have a limit."""
    free = [name for name in components if name not in limited]
    return f"; {', '.join(free)} without a limit" if free else ""


def _all(options: Sequence[Decorator[Any]], function: Function) -> Function:
    for each in reversed(options):
        function = each(function)
    return function

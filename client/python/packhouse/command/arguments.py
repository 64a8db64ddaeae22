"""What commands have in common: options, and the types of their values.

Imports nothing but Click, as the head of every module here: `packhouse --help` does not wait for
gRPC or numpy.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Container, Final, Iterable, Mapping, Sequence, TypeVar

import click

from packhouse.command.connection import Server
from packhouse.command.failures import Misuse

_MOST: Final = (1 << 64) - 1
_SECURITY_NAMES: Final = ("tls", "tls_ca", "tls_cert", "tls_key", "tls_server_name", "token_file")
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
    is_other = any(attributes.get(name) for name in ("is_flag", "multiple", "required", "type"))
    if not is_other and not any("/" in name for name in declarations):
        attributes.setdefault("default", "")
    return click.option(*declarations, cls=Option, **attributes)


def value(name: str, metavar: str | None, told: str, **attributes: Any) -> Decorator[Any]:
    """An option with a value, a text without a `type`."""
    return option(name, metavar=metavar, help=told, **attributes)


def values(name: str, metavar: str, told: str, **attributes: Any) -> Decorator[Any]:
    """An option that may be repeated."""
    return value(name, metavar, told, multiple=True, **attributes)


def flag(name: str, told: str) -> Decorator[Any]:
    """An option without a value."""
    return option(name, is_flag=True, help=told)


def choice(name: str, words: Iterable[str], told: str, **attributes: Any) -> Decorator[Any]:
    """An option that is one of the words; None by default."""
    metavar = attributes.pop("metavar", "NAME")
    return value(name, metavar, told, type=click.Choice(list(words)), **attributes)


def all_of(*options: Decorator[Any]) -> Decorator[Any]:
    """Several options at once, in their order."""

    def decorate(function: Function) -> Function:
        for each in reversed(options):
            function = each(function)
        return function

    return decorate


class Parsed(click.ParamType):
    """What `read` makes of a text, None if that is not of the `form`."""

    def __init__(self, name: str, form: str, read: Callable[[str], int | None]) -> None:
        self.name = name
        self._form = form
        self._read = read

    def convert(self, value: Any, param: Any, ctx: click.Context | None) -> int:
        """Raises BadParameter."""
        taken = self._read(value) if isinstance(value, str) else value
        if taken is None:
            self.fail(f"'{value}' must be {self._form}", param, ctx)
        return int(taken)


def whole_number(least: int = 0, most: int = _MOST) -> Parsed:
    """A whole number from `least` to `most`."""

    def read(text: str) -> int | None:
        number = int(text) if text.isascii() and text.isdecimal() and len(text) < 30 else -1
        return number if least <= number <= most else None

    return Parsed("number", f"a whole number from {least} to {most}", read)


NUMBER: Final = whole_number()
NUMBER_32: Final = whole_number(most=(1 << 32) - 1)


def parse_bytes(text: str) -> int | None:
    """`400`, `64KiB`, `16GiB`, `16GB`. None if it is malformed or above 2^64 - 1."""
    digits = len(text) - len(text.lstrip("0123456789"))
    factor = _UNITS.get(text[digits:])
    if not digits or digits > 20 or factor is None:
        return None
    number = int(text[:digits]) * factor
    return number if number <= _MOST else None


# A number of bytes, with a unit if one is given.
BYTES: Final = Parsed("bytes", BYTES_FORM, parse_bytes)


def bytes_of(name: str, text: str, form: str = BYTES_FORM) -> int:
    """That of an option, 0 for "". Raises Misuse naming it."""
    number = parse_bytes(text) if text else 0
    if number is None:
        raise Misuse(f"{name} '{text}': must be {form}")
    return number


def parse_rows(text: str) -> int | None:
    """A whole number of at least 1, without sign, exponent or spaces; else None."""
    is_number = text.isascii() and text.isdecimal() and len(text.lstrip("0")) <= 20
    return int(text) if is_number and 0 < int(text) <= _MOST else None


def number(name: str, told: str, default: int | None = 0, **attributes: Any) -> Decorator[Any]:
    """An option that is a whole number, of 64 bits without a `type`."""
    attributes = {"metavar": "N", "type": NUMBER, "default": default, **attributes}
    return option(name, help=told, **attributes)


# The server.


# fmt: off
_SERVER: Final = ("HOST:PORT or unix:PATH of a packhoused, or several of a cluster with commas "
                  "between them")
_SECURITY: Final = all_of(
    flag("--tls", "TLS with the system's CAs. The environment may say all this too: PACKHOUSE_TLS_CA "
         "..."),
    value("--tls-ca", "FILE", "PEM file of the CAs of the server's certificate"),
    value("--tls-cert", "FILE", "PEM file of the client's certificate"),
    value("--tls-key", "FILE", "PEM file of its key"),
    value("--tls-server-name", "NAME", "the name in the server's certificate, if it is not the "
          "address's"),
    value("--token-file", "FILE", "file with a bearer token"),
)
# fmt: on


def server_options(
    required: bool = False, otherwise: str = "without it one is started for this command alone"
) -> Decorator[Any]:
    """Adds `--server` and the options of certificates and tokens. The command gets `server`, a
    `Server`. `otherwise` says what is done without an address, where none is required.
    """

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def with_server(*arguments: Any, **options: Any) -> Any:
            security = {name: options.pop(name) for name in _SECURITY_NAMES}
            given = {name: value for name, value in security.items() if value}
            server = Server(options.pop("server") or "", given)
            return function(*arguments, server=server, **options)

        told = _SERVER if required else f"{_SERVER}; {otherwise}"
        named = value("--server", "ADDRESS", told, required=required)
        added: Function = all_of(named, _SECURITY)(with_server)
        return added

    return decorate


def json_option(told: str = "Print JSON") -> Decorator[Any]:
    """Adds `--json`; the command gets `as_json`."""
    return option("--json", "as_json", is_flag=True, help=told)


def yes_option() -> Decorator[Any]:
    """Adds `--yes`: see `confirm`."""
    return flag("--yes", "Do it without asking")


# Sizes, limits, padding, search.


# fmt: off
def sizes_option(required: bool = True) -> Decorator[Any]:
    """Adds `--sizes FILE`."""
    return value("--sizes", "FILE", "CSV of graph sizes (num_nodes,num_edges,...), one graph a row or "
                 "with a column `count`, .gz is fine; or a file of graphs (.npz, .parquet, .arrow, "
                 ".extxyz and so on)", required=required)


# Of which one is needed: see `sizes.SizeSource`.
size_source_options: Final = all_of(
    sizes_option(required=False),
    value("--dataset", "NAME", "The sizes of a data set of the server"),
    value("--histogram", "NAME", "The sizes of a histogram of the server"),
)


def limit_option(required: bool = False) -> Decorator[Any]:
    """Adds `--limit COMPONENT=ROWS`; the command gets `limit`, the texts, for `limits_of`."""
    return values("--limit", "COMPONENT=ROWS", "Most rows of a component in a batch, as in nodes=222; "
                  "repeat it per component, `graphs` is one", required=required)


def budget_options(told: str) -> Decorator[Any]:
    """Adds `--budget-steps N`, which are for what is told, and `--seed N`."""
    return all_of(
        number("--budget-steps", told),
        number("--seed", "Seed of the search. It changes the result only if the budget ends before the "
               "best is proved"),
    )


def axes_option(otherwise: str) -> Decorator[Any]:
    """Adds `--axes A[,B]`; the command gets `axes`, a list; `otherwise` says what is drawn without."""
    return value("--axes", "A[,B]", f"The one or two components to draw, as in nodes,edges; {otherwise}",
                 callback=lambda _context, _option, text: text.split(",") if text else [])


def axes_of(given: Mapping[str, Any], components: Sequence[str], limited: Container[str]) -> list[str]:
    """Of a picture: as `--axes` names them, otherwise the first two with a limit."""
    # Only `graphs` may have one.
    return given["axes"] or [name for name in components if name in limited][:2] or [components[0]]


def padding_choice(told: str = "The padding of its batches", **attributes: Any) -> Decorator[Any]:
    """Adds `--padding` alone."""
    return choice("--padding", PADDINGS, told, **attributes)


# For `set_padding`.
padding_option: Final = all_of(
    padding_choice("The padding that batches will be loaded with: none, masked, graph or tfgnn (which "
                   "keep one graph, and one row of what indices point into, free); limits are then "
                   "those that a load takes"),
    values("--index-into", "COMPONENT", "For --padding graph or tfgnn: a component that index tensors "
           "point into; may be repeated; else the first component, or with tfgnn none"),
    values("--ragged", "COMPONENT", "For --padding tfgnn: the component of a ragged feature, which "
           "needs no limit; may be repeated"),
)
# fmt: on


def padding_text(padding: str | None) -> str:
    """`, padding graph`; empty if padding is left open."""
    return f", padding {padding}" if padding else ""


def check_plot(plot: str, axes: Sequence[str]) -> None:
    """Of `--plot` and `--axes`, before anything is read. Raises Misuse."""
    if axes and not plot:
        raise Misuse("--axes chooses what is drawn: it needs --plot")
    if plot:
        from packhouse.command.plots import figure

        figure.check_name(plot)


def set_padding(request: Any, given: Mapping[str, Any], components: Sequence[str]) -> None:
    """Fills in a PlanRequest or a TuneRequest from the values of `padding_option`. Raises Misuse
    naming the value; other checks are the server's.
    """
    padding, index_into, ragged = given["padding"], given["index_into"], given["ragged"]
    if index_into and padding not in ("graph", "tfgnn"):
        raise Misuse("--index-into says what padding keeps free: it needs --padding graph or tfgnn")
    if ragged and padding != "tfgnn":
        raise Misuse("--ragged says what padding leaves as it is: it needs --padding tfgnn")
    for name, named in (("--index-into", index_into), ("--ragged", ragged)):
        for each in named:
            if each not in components:
                raise Misuse(f"{name} '{each}': there is only {', '.join(components)}")
    if padding:
        request.padding = padding_number(padding)
    request.index_targets.extend(index_into)
    request.ragged_components.extend(ragged)


def padding_number(padding: str) -> int:
    """As a `packhouse.v1.Padding`."""
    from packhouse.data.batch import Padding

    return int(Padding.of(padding, "padding"))


def each_component(
    name: str, form: str, values: Sequence[str], components: Sequence[str], read: Callable[[str], Any],
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


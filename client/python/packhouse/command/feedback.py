"""packhouse feedback: what batches cost on devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from packhouse.command.arguments import json_option, server_options, yes_option
from packhouse.command.confirm import confirm
from packhouse.command.connection import Server, connected
from packhouse.command.failures import Misuse
from packhouse.command.printing import print_json
from packhouse.command.group import Group
from packhouse.command.readable import grouped

if TYPE_CHECKING:
    from packhouse.stored.feedback import DeviceModel


@click.group("feedback", cls=Group)
def command() -> None:
    """List, show or delete what batches cost on devices, as trainers measured it"""


def _checked(_context: click.Context, _argument: click.Parameter, name: str) -> str:
    if "/" not in name:
        raise Misuse(f"'{name}' is not MODEL/DEVICE")
    return name


_model = click.argument("model", metavar="MODEL/DEVICE", callback=_checked)


@command.command("list")
@server_options(required=True)
@json_option()
def show_all(server: Server, as_json: bool) -> None:
    """All models and devices"""
    with connected(server) as connection:
        models = connection.client.feedback.list()
    if as_json:
        print_json([model_json(model) for model in models])
        return
    for model in models:
        rows = [
            f", {seconds:.3g} s a row of {name}" for name, seconds in model.seconds_per_row.items()
        ]
        print(f"{_reports(model)}, {model.fixed_seconds:.4g} s a batch{''.join(rows)}")


@command.command("show")
@_model
@server_options(required=True)
@json_option()
def show(model: str, server: Server, as_json: bool) -> None:
    """What a batch and a row cost, and the shapes that were seen"""
    with connected(server) as connection:
        found = connection.client.feedback.get(model)
    if as_json:
        print_json(model_json(found))
    else:
        print(model_text(found), end="")


@command.command("delete")
@_model
@server_options(required=True)
@yes_option()
def delete(model: str, server: Server, yes: bool) -> None:
    """Forget what was measured"""
    with connected(server) as connection:
        if not yes:
            found = connection.client.feedback.get(model)
            confirm(f"forget {grouped(found.num_reports)} reports of '{model}'", yes)
        connection.client.feedback.delete(model)
    print(f"{model}: deleted")


def _reports(model: DeviceModel) -> str:
    return (
        f"{model.model}/{model.device}: {grouped(model.num_reports)} reports, "
        f"{grouped(model.num_out_of_memory)} batches out of memory"
    )


def model_text(model: DeviceModel) -> str:
    """All that is known of one."""
    lines = [
        _reports(model),
        "",
        f"each batch: {model.fixed_seconds:.4g} s and {model.fixed_bytes:.0f} bytes",
    ]
    for name, seconds in model.seconds_per_row.items():
        lines.append(
            f"each row of {name}: {seconds:.4g} s and {model.bytes_per_row[name]:.1f} bytes"
        )
    if model.least_seconds > 0:
        lines.append(f"at least {model.least_seconds:.4g} s")
    if model.most_bytes > 0:
        most = grouped(model.most_bytes)
        lines.append(f"no more than {most} bytes, since batches did not fit")
    lines += [
        f"half of the shapes are within {100 * model.spread:.2g} % of the expected seconds",
        "",
    ]
    for shape in model.shapes:
        rows = ", ".join(f"{name} {grouped(count)}" for name, count in shape.rows.items())
        if shape.num_out_of_memory:
            lines.append(f"{rows}: {grouped(shape.num_out_of_memory)} out of memory")
            continue
        lines.append(
            f"{rows}: {grouped(shape.num_batches)} batches, {shape.seconds:.4g} s (expected "
            f"{shape.expected_seconds:.4g}), {grouped(shape.peak_bytes)} bytes"
        )
    return "".join(f"{line}\n" for line in lines)


def model_json(model: DeviceModel) -> dict[str, Any]:
    """The same as an object."""
    return {
        "model": model.model,
        "device": model.device,
        "num_reports": model.num_reports,
        "num_out_of_memory": model.num_out_of_memory,
        "last_report_seconds": 0 if model.last_report is None else int(model.last_report.timestamp()),
        "fixed_seconds": model.fixed_seconds,
        "least_seconds": model.least_seconds,
        "spread": model.spread,
        "fixed_bytes": model.fixed_bytes,
        "most_bytes": model.most_bytes,
        "components": [
            {
                "component": name,
                "seconds_per_row": seconds,
                "bytes_per_row": model.bytes_per_row[name],
            }
            for name, seconds in model.seconds_per_row.items()
        ],
        "shapes": [
            {
                "capacities": shape.rows,
                "num_batches": shape.num_batches,
                "seconds": shape.seconds,
                "expected_seconds": shape.expected_seconds,
                "peak_bytes": shape.peak_bytes,
                "num_out_of_memory": shape.num_out_of_memory,
            }
            for shape in model.shapes
        ],
    }

"""packhouse feedback: what batches cost on devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Sequence

import click

from packhouse.command.failures import Misuse
from packhouse.command.group import Group
from packhouse.command.output import fields, grouped
from packhouse.command.stored import Stored, add_commands

if TYPE_CHECKING:
    from packhouse.stored.feedback import DeviceModel


_OF_SHAPE = "capacities=rows num_batches seconds expected_seconds peak_bytes num_out_of_memory"


@click.group("feedback", cls=Group)
def command() -> None:
    """List, show or delete what batches cost on devices, as trainers measured it"""


def _check(name: str) -> None:
    if "/" not in name:
        raise Misuse(f"'{name}' is not MODEL/DEVICE")


_MODELS = Stored(
    "feedback", "MODEL/DEVICE", "feedback", "All models and devices",
    "What a batch and a row cost, and the shapes that were seen", "Forget what was measured",
    check=_check,
)
add_commands(command, _MODELS)


def deed(name: str, model: DeviceModel | None) -> str:
    """What its deletion does; None: it cannot be described."""
    reports = f"{model.num_reports:,} reports" if model is not None else "all reports"
    return f"forget {reports} of '{name}'"


def table(models: Sequence[DeviceModel]) -> str:
    """A line each."""
    text = ""
    for model in models:
        rows = [f", {seconds:.3g} s a row of {name}" for name, seconds in model.seconds_per_row.items()]
        text += f"{_reports(model)}, {model.fixed_seconds:.4g} s a batch{''.join(rows)}\n"
    return text


def _reports(model: DeviceModel) -> str:
    return (
        f"{model.model}/{model.device}: {model.num_reports:,} reports, "
        f"{model.num_out_of_memory:,} batches out of memory"
    )


def text(model: DeviceModel) -> str:
    """All that is known of one."""
    lines = [
        _reports(model),
        "",
        f"each batch: {model.fixed_seconds:.4g} s and {model.fixed_bytes:.0f} bytes",
    ]
    for name, seconds in model.seconds_per_row.items():
        lines.append(f"each row of {name}: {seconds:.4g} s and {model.bytes_per_row[name]:.1f} bytes")
    if model.least_seconds > 0:
        lines.append(f"at least {model.least_seconds:.4g} s")
    if model.most_bytes > 0:
        most = grouped(model.most_bytes)
        lines.append(f"no more than {most} bytes, since batches did not fit")
    lines += [f"half of the shapes are within {100 * model.spread:.2g} % of the expected seconds", ""]
    for shape in model.shapes:
        rows = ", ".join(f"{name} {count:,}" for name, count in shape.rows.items())
        if shape.num_out_of_memory:
            lines.append(f"{rows}: {shape.num_out_of_memory:,} out of memory")
            continue
        lines.append(
            f"{rows}: {shape.num_batches:,} batches, {shape.seconds:.4g} s (expected "
            f"{shape.expected_seconds:.4g}), {shape.peak_bytes:,} bytes"
        )
    return "".join(f"{line}\n" for line in lines)


def json(model: DeviceModel) -> dict[str, Any]:
    """The same as an object."""
    last = model.last_report
    return fields(model, "model device num_reports num_out_of_memory") | {
        "last_report_seconds": 0 if last is None else int(last.timestamp()),
        **fields(model, "fixed_seconds least_seconds spread fixed_bytes most_bytes"),
        "components": [
            {"component": name, "seconds_per_row": cost, "bytes_per_row": model.bytes_per_row[name]}
            for name, cost in model.seconds_per_row.items()
        ],
        "shapes": [fields(shape, _OF_SHAPE) for shape in model.shapes],
    }

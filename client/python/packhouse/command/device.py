"""The device that `packhouse tune` chooses limits for: its options."""

from __future__ import annotations

import math
from typing import Any, Callable, Final, Mapping, Sequence

import click

from packhouse.command.arguments import (
    BYTES_FORM, NUMBER_32, ROWS_FORM, all_of, bytes_of, each_component, number, parse_bytes, parse_rows,
    value, values,
)  # fmt: skip
from packhouse.command.failures import Misuse


def _cost(text: str) -> float | None:
    try:
        cost = float(text)
    except ValueError:
        return None
    return cost if math.isfinite(cost) and cost >= 0 else None


# Option, field, form, how it is read.
_PARTS: Final[Sequence[tuple[str, str, str, Callable[[str], Any]]]] = (
    ("--min", "min_rows", ROWS_FORM, parse_rows),
    ("--multiple-of", "multiple_of", ROWS_FORM, parse_rows),
    ("--cost", "relative_cost", "COMPONENT=COST with a number of at least 0", _cost),
    ("--bytes-per", "bytes_per_row", f"COMPONENT=BYTES with {BYTES_FORM}", parse_bytes),
)


# fmt: off
# For `profile_of`.
device_options: Final = all_of(
    values("--max", "COMPONENT=ROWS", "Most rows of a component that a batch may have, as in nodes=512; "
           "repeat it per component, `graphs` is one", required=True),
    values("--min", "COMPONENT=ROWS", "Fewest rows to consider; 1 by default"),
    values("--multiple-of", "COMPONENT=ROWS", "Consider only multiples of this number, which the "
           "hardware prefers; 1 by default"),
    values("--cost", "COMPONENT=COST", "Cost of a row, padding included, in any unit; 1 by default, and "
           "0 for graphs"),
    value("--fixed-cost", "COST", "Cost of a batch besides its rows, in the unit of --cost: what a step "
          "costs the device however small its batch is; 0 by default. docs/devices has figures",
          type=click.FloatRange(0, 1e200), default=0.0),
    values("--bytes-per", "COMPONENT=BYTES", "Memory of a row of a batch, as in nodes=400 or "
           "edges=2KiB"),
    value("--memory", "BYTES", "Most memory of a batch, as in 16GiB"),
    value("--fixed-bytes", "BYTES", "The part of --memory that is used with any batch"),
    number("--shapes", "Most shapes that the client compiles for. What is left over may use a smaller "
           "one", type=NUMBER_32),
)
# fmt: on


def profile_of(given: Mapping[str, Any], components: Sequence[str]) -> Any:
    """A `packhouse.v1.DeviceProfile` of the options, its components in the histogram's order.

    Raises Misuse naming option and value.
    """
    from packhouse.v1 import planning_pb2

    most = each_component("--max", ROWS_FORM, given["max"], components, parse_rows)
    fields: dict[str, dict[str, Any]] = {name: {"max_rows": rows} for name, rows in most.items()}
    for name, field, form, read in _PARTS:
        named = given[name.removeprefix("--").replace("-", "_")]
        for component, number_ in each_component(name, form, named, components, read).items():
            # Without a capacity to choose it would be ignored.
            if component not in fields:
                raise Misuse(
                    f"{name} of '{component}': it has no --max, and so no capacity to choose"
                )
            fields[component][field] = number_
    profile = planning_pb2.DeviceProfile(
        memory_bytes=bytes_of("--memory", given["memory"]),
        fixed_bytes=bytes_of("--fixed-bytes", given["fixed_bytes"]),
        fixed_cost=given["fixed_cost"],
        max_distinct_shapes=given["shapes"],
    )
    for component in (*components, "graphs"):
        if component in fields:
            profile.components.add(component=component, **fields[component])
    if given["memory"] and not profile.memory_bytes:
        raise Misuse("--memory '0': no batch fits into it")
    return profile


"""Every argument of every call of a client, given something of a wrong type, is refused by its name."""

from __future__ import annotations

import inspect
import re
from typing import Any, Iterator

import numpy as np
import pytest

from packhouse import (
    Client,
    DeviceProfile,
    GraphSchema,
    Histogram,
    PackOptions,
    SourceGraphSchema,
    SourceNodeSet,
    SubGraphs,
)

NOUNS = (
    "administration",
    "datasets",
    "feedback",
    "histograms",
    "jobs",
    "partitions",
    "receipts",
    "samples",
    "source_graphs",
)
HISTOGRAM = Histogram.from_sizes(np.array([[3, 4]]))
# Right values of arguments without a default. The server has nothing of these names.
RIGHT: dict[str, Any] = {
    "addend": HISTOGRAM,
    "address": "127.0.0.1:1",
    "batches": [],
    "dataset": "nothing/there",
    "edge_set": "edges",
    "epoch": 0,
    "examples": [],
    "folder": "/nothing/there",
    "graph": "nothing/there",
    "histogram": "nothing/there",
    "job": "nothing/there",
    "level": "info",
    "limits": {"nodes": 8},
    "measured_as": "nothing/there",
    "name": "nothing/there",
    "node_set": "nodes",
    "num_parts": 2,
    "numbers": [],
    "options": PackOptions({"nodes": 8}),
    "partition": "nothing/there",
    "profile": DeviceProfile({}),
    "receipt": "none",
    "rows": [],
    "schema": GraphSchema(("nodes", "edges")),
    "seeds": [0],
    "shares": {"nothing/there": 1.0},
    "sizes": [np.array([[3, 4]])],
    "source": HISTOGRAM,
    "sub_graphs": SubGraphs("nothing/there", b""),
    "tables": [],
}
SOURCE_SCHEMA = SourceGraphSchema([SourceNodeSet("nodes")])


class Odd:
    """No text, number, sequence, function or anything else that a call could take."""


def calls(client: Client) -> Iterator[tuple[str, Any]]:
    for noun in ("", *NOUNS):
        thing = getattr(client, noun) if noun else client
        for name, method in inspect.getmembers(thing, inspect.ismethod):
            if not name.startswith("_"):
                yield f"{noun}.{name}" if noun else name, method


def right_arguments(name: str, method: Any) -> dict[str, Any]:
    given = {
        parameter.name: RIGHT[parameter.name]
        for parameter in inspect.signature(method).parameters.values()
        if parameter.default is inspect.Parameter.empty
        and parameter.kind is not inspect.Parameter.VAR_KEYWORD
    }
    if "options" in inspect.signature(method).parameters:
        given["options"] = RIGHT["options"]
    if name == "source_graphs.create":
        given["schema"] = SOURCE_SCHEMA
    return given


# Values that some argument takes are no wrong ones for it.
@pytest.mark.parametrize("wrong", [Odd(), -1, 2.5, 1 << 64], ids=repr)
def test_an_argument_of_a_wrong_type_is_named(client: Client, wrong: Any) -> None:
    amiss = []
    seen = 0
    for name, method in calls(client):
        for parameter in inspect.signature(method).parameters.values():
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                continue
            if not isinstance(wrong, Odd) and "int" not in str(parameter.annotation).split(" | "):
                continue
            seen += 1
            arguments = {**right_arguments(name, method), parameter.name: wrong}
            try:
                result = method(**arguments)
                if inspect.isgenerator(result) or hasattr(result, "__next__"):
                    next(result)
            except (TypeError, ValueError) as error:
                if re.match(rf"{parameter.name}\b", str(error)):
                    continue
                amiss.append(f"{name}({parameter.name}: {parameter.annotation}): {error!r}"[:300])
            except Exception as error:
                amiss.append(f"{name}({parameter.name}: {parameter.annotation}): {error!r}"[:300])
            else:
                amiss.append(f"{name}({parameter.name}: {parameter.annotation}): taken")
    assert not amiss, "\n".join(amiss)
    assert seen > 30

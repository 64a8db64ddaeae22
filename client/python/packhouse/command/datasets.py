"""packhouse datasets: what a server stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Sequence

import click

from packhouse.command.group import Group
from packhouse.command.output import bytes_text, fields, grouped, Progress, TextTable
from packhouse.command.stored import Stored, add_commands, add_verify

if TYPE_CHECKING:
    from packhouse.data.histogram import Histogram
    from packhouse.data.schema import TensorSpec
    from packhouse.stored.dataset import Dataset, DatasetDrift, Verification, VerifyProgress


@click.group("datasets", cls=Group)
def command() -> None:
    """List, show, delete or verify the data sets of a server"""


_DATASETS = Stored(
    "datasets", "NAME", "datasets", "All data sets", "Schema, bounds and sizes of a data set",
    "Delete a data set and its graphs", {"include_histogram": True},
)
add_commands(command, _DATASETS)


def _verified(client: Any, name: str, line: Progress) -> Verification:
    found: Verification = client.datasets.verify(name, lambda done: line.show(verify_progress(done)))
    return found


add_verify(
    command,
    _DATASETS,
    "Read all of a data set: checksums, indices, counts; exit status 1 if it is damaged",
    _verified,
)


# What is printed. Texts end in a line feed unless they are parts of a line.


def table(datasets: Sequence[Dataset]) -> str:
    """One row each. Only the name of a damaged one is known."""
    rows = TextTable(["name", "state", "graphs", "size", "version"])
    for dataset in datasets:
        cells = [dataset.name, dataset.state.name.lower()]
        if dataset.state.name != "DAMAGED":
            size = bytes_text(dataset.num_bytes)
            cells += [grouped(dataset.num_graphs), size, version_text(dataset.version)]
        rows.add_row(*cells)
    return rows.render()


def text(dataset: Dataset) -> str:
    """Everything about one; with the sizes if it has its histogram."""
    graphs, records = grouped(dataset.num_graphs), grouped(dataset.num_records)
    lines = [
        f"{dataset.name}: {dataset.state.name.lower()}, {graphs} graphs in {records} records, "
        f"{bytes_text(dataset.num_bytes)}",
        "",
        f"version     {version_text(dataset.version)}",
        f"bounds      {_bounds(dataset)}",
        f"groups      {'each graph has a group id' if dataset.grouped else 'none'}",
        f"components  {', '.join(dataset.schema.components)}",
    ]
    tensors = [tensor_text(spec) for spec in dataset.schema.tensors] or ["none: sizes only"]
    lines += [f"{'tensors' if k == 0 else '':12}{tensor}" for k, tensor in enumerate(tensors)]
    told = "".join(f"{line}\n" for line in lines)
    if dataset.histogram is not None:
        told += f"sizes       {len(dataset.histogram.counts):,} distinct\n\n"
        told += histogram_summary(dataset.histogram)
    if dataset.drift is not None:
        told += "\n" + _drift(dataset.drift)
    return told


def json(dataset: Dataset) -> dict[str, Any]:
    """The same as an object. A version is a text: JSON's numbers do not hold 64 bits."""
    told: dict[str, Any] = {
        "name": dataset.name,
        "state": dataset.state.name.lower(),
        "version": version_text(dataset.version),
        **fields(dataset, "graphs=num_graphs records=num_records bytes=num_bytes max_bytes grouped"),
        "max_rows": dict(dataset.max_rows),
        "components": list(dataset.schema.components),
        "tensors": [_tensor_json(spec) for spec in dataset.schema.tensors],
    }
    if dataset.drift is not None:
        drift = dataset.drift
        told["drift"] = fields(drift, "first_graph found_graph num_changes") | {
            "components": {
                name: {"reference_mean": drift.reference_means[name], "mean": mean}
                for name, mean in drift.means.items()
            },
        }
    if dataset.histogram is not None:
        told["distinct_sizes"] = len(dataset.histogram.counts)
        told |= fields(dataset.histogram, "totals maxima")
    return told


def deed(name: str, dataset: Dataset | None) -> str:
    """What its deletion does; None: it cannot be described."""
    if dataset is None:
        return f"delete data set '{name}'"
    graphs, size = grouped(dataset.num_graphs), bytes_text(dataset.num_bytes)
    return f"delete data set '{name}' with {graphs} graphs, {size}"


def histogram_summary(histogram: Histogram) -> str:
    """A row for each component: total, mean and largest."""
    table = TextTable(["component", "total", "mean", "max"])
    graphs = histogram.num_graphs
    for name, total in histogram.totals.items():
        mean = f"{total / graphs:.2f}" if graphs else "-"
        table.add_row(name, total, mean, histogram.maxima[name])
    return table.render()


def verify_progress(done: VerifyProgress) -> str:
    """A part of a line."""
    return (
        f"{done.num_records:,} of {done.num_records_total:,} records, "
        f"{bytes_text(done.num_bytes)} of {bytes_text(done.num_bytes_total)}"
    )


def verify_text(name: str, found: Verification) -> str:
    """What was found, and a line that sums it up."""
    lines = []
    for damaged in found.damaged:
        last = max(0, damaged.first_graph + damaged.num_graphs - 1)
        lines.append(
            f"record {damaged.record}, graphs {damaged.first_graph} to {last}: {damaged.message}"
        )
    more = found.num_damaged - len(found.damaged)
    if more > 0:
        lines.append(f"and {more:,} more damaged records")
    lines += found.disagreements
    told = "no damage"
    if not found.is_sound:
        lost = sum(damaged.num_graphs for damaged in found.damaged)
        told = (
            f"{found.num_damaged:,} damaged records with {'more than ' if more > 0 else ''}"
            f"{lost:,} graphs, {len(found.disagreements)} disagreements"
        )
    size = bytes_text(found.num_bytes)
    lines.append(f"{name}: {found.num_records:,} records, {size} read: {told}")
    return "".join(f"{line}\n" for line in lines)


def verify_json(name: str, found: Verification) -> dict[str, Any]:
    """The same as an object."""
    return {
        "name": name,
        **fields(found, "undamaged=is_sound records=num_records bytes=num_bytes"),
        "damaged_records": found.num_damaged,
        "damaged": [fields(each, "record first_graph graphs=num_graphs message") for each in found.damaged],
        "disagreements": list(found.disagreements),
    }


def version_text(version: int) -> str:
    """Sixteen digits; "" for none."""
    return f"{version:016x}" if version else ""


def tensor_text(spec: TensorSpec) -> str:
    """`x: int16 [9] of nodes`: a part of a line."""
    text = f"{spec.name}: {spec.dtype.name.lower()}"
    if spec.row_shape:
        text += f" {list(spec.row_shape)}"
    text += f" of {spec.component}"
    if spec.index_into is not None:
        text += f", into {spec.index_into}"
    if spec.layout.name == "ROWS_LAST":
        text += ", rows last"
    if padding := spec.to_proto().padding_value.hex():
        text += f", padded with the bytes {padding}"
    return text


def _tensor_json(spec: TensorSpec) -> dict[str, Any]:
    told = fields(spec, "name component") | {"dtype": spec.dtype.name.lower()}
    told["row_shape"] = list(spec.row_shape)
    if spec.index_into is not None:
        told["index_into"] = spec.index_into
    if spec.layout.name == "ROWS_LAST":
        told["layout"] = "rows_last"
    if padding := spec.to_proto().padding_value.hex():
        told["padding_value_hex"] = padding
    return told


def _bounds(dataset: Dataset) -> str:
    bounds = [bytes_text(dataset.max_bytes)] if dataset.max_bytes else []
    bounds += [f"{rows:,} {name} of a graph" for name, rows in dataset.max_rows.items()]
    return f"at most {', '.join(bounds)}" if bounds else "none of its own"


def _drift(drift: DatasetDrift) -> str:
    text = f"sizes changed at about graph {drift.first_graph:,} (found at {drift.found_graph:,})\n"
    for name, mean in drift.means.items():
        text += f"- {name}: {mean:.4g} in the mean, before {drift.reference_means[name]:.4g}\n"
    return text

"""What a partition came to: a table of its parts and a picture. Texts end in a line feed."""

from __future__ import annotations

import dataclasses
from typing import Any

from packhouse.command.readable import grouped, percent
from packhouse.command.tables import Column, TextTable
from packhouse.large.partitions import PartitionReport

_MOST_PARTS = 64
_BAR = 32


def report_table(report: PartitionReport) -> str:
    """Why this method; a row for each part with its sizes, its cut and how its nodes and edges compare
    with the mean; the balance that was asked for and reached; notes. Of more than 64 parts, the table
    has the 32 with most and the 32 with fewest inner edges.
    """
    reason = f": {report.reason}" if report.reason else ""
    text = (
        f"{grouped(report.num_nodes)} nodes and {grouped(report.num_edges)} edges in "
        f"{grouped(len(report.parts))} parts by {report.method.name.lower()}{reason}\n"
        f"cut: {grouped(report.num_cut_edges)} edges, "
        f"{percent(_share(report.num_cut_edges, report.num_edges))} %; volume: "
        f"{grouped(report.volume)}\n\n"
    )
    table = TextTable(
        [
            Column("part"),
            Column("nodes", "inner"),
            Column("edges", "inner"),
            Column("nodes", "halo"),
            Column("edges", "halo"),
            Column("cut %"),
            Column("nodes", "over the mean"),
            Column("edges", "over the mean"),
            Column("MB"),
        ]
    )
    count = len(report.parts)
    for number in _shown_parts(report):
        part = report.parts[number]
        table.add_row(
            number,
            grouped(part.num_inner_nodes),
            grouped(part.num_inner_edges),
            grouped(part.num_halo_nodes),
            grouped(part.num_halo_edges),
            percent(_share(part.num_cut_edges, part.num_inner_edges)),
            f"{_share(part.num_inner_nodes, report.num_nodes) * count:.3f}",
            f"{_share(part.num_inner_edges, report.num_edges) * count:.3f}",
            f"{part.num_bytes / 1e6:.1f}",
        )
    text += table.render()
    if report.balance:
        balance = TextTable(["balanced", "asked", "reached", ""])
        for of in report.balance:
            outcome = "met" if of.met else "missed"
            if of.dropped:
                outcome = f"given up: {of.dropped}"
            balance.add_row(of.name, f"{of.asked:.3f}", f"{of.achieved:.3f}", outcome)
        text += f"\n{balance.render()}"
    return text + "".join(f"note: {note}\n" for note in report.notes)


def report_picture(report: PartitionReport) -> str:
    """A bar for each part (of the same ones): inner nodes `#`, halo nodes `.`, to one scale; and one
    of its in-edges: inside `=`, from other parts `x`.
    """
    most_nodes = max([1, *(part.num_inner_nodes + part.num_halo_nodes for part in report.parts)])
    most_edges = max([1, *(part.num_inner_edges for part in report.parts)])
    lines = [f"{'part':>5}  {'nodes: # inner, . halo':{_BAR}}  in-edges: = inside, x cut"]
    for number in _shown_parts(report):
        part = report.parts[number]
        inside = part.num_inner_edges - min(part.num_cut_edges, part.num_inner_edges)
        nodes = _bar(part.num_inner_nodes, part.num_halo_nodes, most_nodes, "#.")
        edges = _bar(inside, part.num_cut_edges, most_edges, "=x")
        lines.append(f"{number:5}  {nodes:{_BAR}}  {edges}")
    return "".join(f"{line}\n" for line in lines)


def report_json(report: PartitionReport) -> dict[str, Any]:
    """As the file report.json of a partition has it."""
    return {
        "method": report.method.name.lower(),
        "reason": report.reason,
        "notes": list(report.notes),
        "num_parts": len(report.parts),
        "num_nodes": report.num_nodes,
        "num_edges": report.num_edges,
        "cut_edges": report.num_cut_edges,
        "volume": report.volume,
        "nodes_of_part": [part.num_inner_nodes for part in report.parts],
        "edges_of_part": [part.num_inner_edges for part in report.parts],
        "balance": [
            {**dataclasses.asdict(of), "met": int(of.met)} for of in report.balance
        ],
        "parts": [
            {name.replace("num_", "", 1): number for name, number in vars(part).items()}
            for part in report.parts
        ],
    }


def _shown_parts(report: PartitionReport) -> list[int]:
    """Numbers of parts, in ascending order."""
    parts = list(range(len(report.parts)))
    if len(parts) <= _MOST_PARTS:
        return parts
    parts.sort(key=lambda number: -report.parts[number].num_inner_edges)
    return sorted(parts[: _MOST_PARTS // 2] + parts[-_MOST_PARTS // 2 :])


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _bar(a: int, b: int, most: int, letters: str) -> str:
    """Of `_BAR` letters in all, if `most` is all of them: the first letter of `a`, the second of `b`."""
    first, both = (int(_share(value, most) * _BAR + 0.5) for value in (a, a + b))
    return letters[0] * first + letters[1] * max(0, both - first)

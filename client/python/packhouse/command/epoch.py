"""packhouse epoch: what an epoch would be."""

from __future__ import annotations

from typing import Any

import click

from packhouse.command.arguments import (
    NUMBER,
    NUMBER_32,
    PADDINGS,
    json_option,
    limit_option,
    limits_of,
    limits_text,
    option,
    server_options,
)
from packhouse.command.connection import Server, connected
from packhouse.command.failures import Misuse
from packhouse.command.printing import print_json
from packhouse.command.readable import grouped, percent, small_percent

# Counting the segments of 10^10 graphs takes minutes.
_SECONDS = 3600.0


@click.command("epoch")
@click.argument("dataset", metavar="NAME")
@server_options(required=True)
@limit_option(required=True)
@option("--padding", type=click.Choice(PADDINGS), metavar="NAME", help="The padding of its batches")
@option("--seed", type=NUMBER, default=0, metavar="SEED", help="That of the job")
@option(
    "--segments",
    type=NUMBER,
    default=None,
    metavar="N",
    help="Plan it in segments of about so many graphs, for a data set that is larger than memory; "
    "0: 2^20",
)
@option("--tracks", type=NUMBER_32, default=0, metavar="N", help="Tracks of segments, at most 64; 0: 1")
@json_option()
def command(
    dataset: str,
    server: Server,
    limit: tuple[str, ...],
    padding: str | None,
    seed: int,
    segments: int | None,
    tracks: int,
    as_json: bool,
) -> None:
    """Show what an epoch of the data set NAME, which must be sealed, would be: batches, efficiency,
    segments
    """
    if tracks and segments is None:
        raise Misuse("--tracks are of segments: it needs --segments")
    from packhouse.epochs.info import EpochInfo
    from packhouse.epochs.request import EpochRequest, Segments
    from packhouse.v1 import loader_pb2, loader_pb2_grpc

    with connected(server) as connection:
        components = connection.client.datasets.get(dataset).schema.components
        arguments: dict[str, Any] = {
            "dataset": dataset,
            "limits": limits_of(limit, components),
            "seed": seed,
            "padding": padding or "none",
            "segments": None if segments is None else Segments(segments, tracks),
            # Graphs beyond the limits are left out, and told.
            "oversize": "reject",
        }
        spec = EpochRequest(arguments, job="").of_epoch(0)
        stub = connection.stub(loader_pb2_grpc.LoaderServiceStub)
        answer = connection.call(stub.GetEpoch, loader_pb2.GetEpochRequest(epoch=spec), _SECONDS)
    epoch = EpochInfo.from_proto(answer)
    if as_json:
        print_json(epoch_json(epoch))
    else:
        print(epoch_text(epoch), end="")


def epoch_text(epoch: Any) -> str:
    """Batches and their bound, shapes and efficiencies, segments and what they cost, of an
    `EpochInfo`.
    """
    text = f"{epoch.dataset}: {grouped(epoch.num_graphs)} graphs in {grouped(epoch.num_batches)} batches"
    if epoch.lower_bound:
        text += f"; at least {grouped(epoch.lower_bound)} are needed"
    text += "\n"
    if epoch.num_rejected:
        text += f"left out     {grouped(epoch.num_rejected)} graphs beyond the limits\n"
    for shape in (shape for group in epoch.rank_groups for shape in group.shapes):
        efficiencies = [
            f"{name} {percent(each.efficiency)} %"
            for name, each in shape.components.items()
            if each.capacity
        ]
        text += f"limits       {limits_text(shape.limits)}\nefficiency   {', '.join(efficiencies)}\n"
    if epoch.segments is not None:
        of = epoch.segments
        text += (
            f"segments     {grouped(of.num_segments)} of at most {grouped(of.max_graphs)} graphs, in "
            f"{of.num_tracks} {'track' if of.num_tracks == 1 else 'tracks'}"
        )
        if epoch.lower_bound:
            text += f"; segmentation loses at most {small_percent(of.loss)} of the batches"
        text += "\n"
    return text + (f"receipt      {epoch.receipt}\n" if epoch.receipt else "")


def epoch_json(epoch: Any) -> dict[str, Any]:
    """The same as an object. `segments` is null for an epoch that is planned as a whole, and
    `lower_bound` if none is known.
    """
    of = epoch.segments
    return {
        "dataset": epoch.dataset,
        "graphs": epoch.num_graphs,
        "left_out": epoch.num_rejected,
        "batches": epoch.num_batches,
        "lower_bound": epoch.lower_bound or None,
        "shapes": [
            {
                "limits": limits_text(shape.limits),
                "batches": shape.num_batches,
                "components": [
                    {"component": name, **vars(each)} for name, each in shape.components.items()
                ],
            }
            for group in epoch.rank_groups
            for shape in group.shapes
        ],
        "segments": None
        if of is None
        else {
            "segments": of.num_segments,
            "tracks": of.num_tracks,
            "max_graphs": of.max_graphs,
            "loss": of.loss,
        },
        "receipt": epoch.receipt,
    }

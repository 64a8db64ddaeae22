"""packhouse epoch: what an epoch would be."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import click

from packhouse.command.arguments import (
    NUMBER_32, json_option, limit_option, limits_of, limits_text, number, option, padding_choice,
    server_options,
)  # fmt: skip
from packhouse.command.connection import Server, ask, connected
from packhouse.command.failures import Misuse
from packhouse.command.output import fields, percent, small_percent, tell

# Counting the segments of 10^10 graphs takes minutes.
_SECONDS = 3600.0


# fmt: off
@click.command("epoch")
@click.argument("dataset", metavar="NAME")
@server_options(required=True)
@limit_option(required=True)
@padding_choice()
@number("--seed", "That of the job", metavar="SEED")
@number("--segments", "Plan it in segments of about so many graphs, for a data set that is larger than "
        "memory; 0: 2^20", None)
@number("--tracks", "Tracks of segments, at most 64; 0: 1", type=NUMBER_32)
@number("--epoch", "Its number")
@option("--mixing", metavar="off|RATIO", help="How often graphs that share a batch may be "
        "together in the next epoch again, beside a shuffle: at least 1, or off for batches as the plan "
        "draws them; by default 1.1")
@option("--order", metavar="COST", help="Batches of like cost share a step: a sum such as "
        "'edges + 0.1*sum(nodes^2)'; by default all orders are equally likely")
@number("--ranks", "With --order: how many batches share a step", type=NUMBER_32)
@json_option()
# fmt: on
def command(
    dataset: str, server: Server, limit: tuple[str, ...], padding: str | None, seed: int,
    segments: int | None, tracks: int, epoch: int, mixing: str, order: str, ranks: int,
    as_json: bool,
) -> None:  # fmt: skip
    """Show what an epoch of the data set NAME, which must be sealed, would be: batches, efficiency,
    segments
    """
    if tracks and segments is None:
        raise Misuse("--tracks are of segments: it needs --segments")
    if bool(order) != bool(ranks):
        raise Misuse("--order and --ranks need each other: as many batches of like cost share a step")
    from packhouse.epochs.info import EpochInfo
    from packhouse.epochs.order import CostBalanced, terms_of
    from packhouse.epochs.request import EpochRequest, Segments
    from packhouse.v1 import loader_pb2

    balanced = None
    if order:
        try:
            balanced = CostBalanced(terms_of(order), ranks)
        except ValueError as error:
            raise Misuse(f"--order: {error}") from None
    with connected(server) as client:
        components = client.datasets.get(dataset).schema.components
        # Graphs beyond the limits are left out, and told.
        arguments: dict[str, Any] = {"dataset": dataset, "seed": seed, "oversize": "reject"}
        arguments |= {"limits": limits_of(limit, components), "padding": padding or "none"}
        arguments["segments"] = None if segments is None else Segments(segments, tracks)
        arguments["mixing"] = _mixing_of(mixing)
        arguments["order"] = balanced
        spec = EpochRequest(arguments, job="").of_epoch(epoch)
        request = loader_pb2.GetEpochRequest(epoch=spec, company=True)
        answer = ask(client, "loader.Loader.GetEpoch", request, _SECONDS)
    info = EpochInfo.from_proto(answer)
    tell(as_json, epoch_json(info), epoch_text(info))


def _mixing_of(text: str) -> float | bool | None:
    if text in ("", "off"):
        return False if text else None
    try:
        ratio = float(text)
    except ValueError:
        ratio = math.nan
    if not (math.isfinite(ratio) and ratio >= 1):
        raise Misuse(f"--mixing: {text!r} is neither off nor a finite number of at least 1")
    return ratio


def epoch_text(epoch: Any) -> str:
    """Batches and their bound, shapes and efficiencies, segments and what they cost, of an
    `EpochInfo`.
    """
    text = f"{epoch.dataset}: {epoch.num_graphs:,} graphs in {epoch.num_batches:,} batches"
    if epoch.lower_bound:
        text += f"; at least {epoch.lower_bound:,} are needed"
    text += "\n"
    if epoch.num_rejected:
        text += f"left out     {epoch.num_rejected:,} graphs beyond the limits\n"
    for shape in (shape for group in epoch.rank_groups for shape in group.shapes):
        efficiencies = [
            f"{name} {percent(each.efficiency)} %"
            for name, each in shape.components.items()
            if each.capacity
        ]
        text += f"limits       {limits_text(shape.limits)}\nefficiency   {', '.join(efficiencies)}\n"
    for mixed in epoch.mixture:
        shares = ", ".join(f"{name} {percent(each)} %" for name, each in mixed.efficiency.items())
        left = f", {mixed.num_rejected:,} left out" if mixed.num_rejected else ""
        text += f"of which     {mixed.dataset}: {mixed.num_graphs:,} graphs, {shares}{left}\n"
    if epoch.segments is not None:
        of = epoch.segments
        text += (
            f"segments     {of.num_segments:,} of at most {of.max_graphs:,} graphs, in "
            f"{of.num_tracks} {'track' if of.num_tracks == 1 else 'tracks'}"
        )
        if epoch.lower_bound:
            text += f"; segmentation loses at most {small_percent(of.loss)} of the batches"
        text += "\n"
    if epoch.company is not None:
        of_company = epoch.company
        text += (
            f"company      {small_percent(of_company.chance)} of the pairs of a batch meet again in the "
            f"{'next epoch' if epoch.epoch == 0 else 'epoch before'}; {of_company.ratio:.2f} times as many "
            "as in a shuffle\n"
        )
    if epoch.steps is not None:
        steps = epoch.steps
        text += (
            f"steps        {percent(steps.efficiency)} % of the time of {sum(steps.num_ranks):,} ranks is spent "
            f"on batches; {percent(steps.of_shuffle)} % in random order\n"
        )
    return text + (f"receipt      {epoch.receipt}\n" if epoch.receipt else "")


def epoch_json(epoch: Any) -> dict[str, Any]:
    """The same as an object. `segments` is null for an epoch that is planned as a whole, and
    `lower_bound` if none is known.
    """
    of = epoch.segments
    return {
        **fields(epoch, "dataset graphs=num_graphs left_out=num_rejected batches=num_batches"),
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
        "segments": of and fields(of, "segments=num_segments tracks=num_tracks max_graphs loss"),
        "company": epoch.company and fields(epoch.company, "chance of_shuffle ratio"),
        "mixture": [dataclasses.asdict(mixed) for mixed in epoch.mixture],
        "steps": epoch.steps and fields(epoch.steps, "efficiency of_shuffle num_ranks"),
        "receipt": epoch.receipt,
    }

"""packhouse batch: batches of an epoch, made again."""

from __future__ import annotations

import os
from typing import Any

import click

from packhouse.command.arguments import json_option, number, server_options, value
from packhouse.command.connection import Server, connected
from packhouse.command.failures import Failure
from packhouse.command.output import fields, print_json, TextTable


@click.command("batch")
# fmt: off
@value("--job", "JOB", "The job", required=True)
@number("--epoch", "The epoch's number", None, required=True)
@number("--number", "The batch's number in the epoch (Batch.id); may be repeated", None, multiple=True,
        required=True)
@value("--save", "FOLDER", "Write each batch to FOLDER/batch-NUMBER.pb (a serialized "
       "packhouse.v1.Batch); the folder is made if it is not there")
@json_option("Print JSON, without the tensors' data")
@server_options(required=True)
# fmt: on
def command(
    job: str, epoch: int, number: tuple[int, ...], save: str, as_json: bool, server: Server
) -> None:
    """Make batches of an epoch again, with the bytes that its trainer got"""
    head: dict[str, Any] = {}
    batches = []
    schema: Any = None
    with connected(server) as client:
        if save:
            try:
                os.makedirs(save, exist_ok=True)
            except OSError as error:
                raise Failure("FAILED_PRECONDITION", f"--save {save}: {error.strerror}") from None
        for response in client.receipts.responses(job, epoch, number):
            if response.HasField("opened"):
                schema = response.opened.schema
                head = _head(job, epoch, response)
                if not as_json:
                    print(_head_text(head))
                continue
            if as_json:
                batches.append(batch_json(response.batch))
            else:
                print(f"\n{batch_text(response.batch, schema)}", end="", flush=True)
            if save:
                made = response.batch.batch
                with open(os.path.join(save, f"batch-{made.id}.pb"), "wb") as file:
                    file.write(made.SerializeToString())
    if as_json:
        print_json({**head, "batches": batches})


def _head(job: str, epoch: int, response: Any) -> dict[str, Any]:
    head = {"job": job, "epoch": epoch}
    head |= fields(response.opened.epoch, "dataset dataset_version receipt")
    if response.HasField("words_of_epoch"):
        head["words_of_epoch"] = response.words_of_epoch
    return head


def _head_text(head: dict[str, Any]) -> str:
    text = f"epoch {head['epoch']} of job {head['job']}, of {head['dataset']}, plan {head['receipt']}"
    if "words_of_epoch" in head:
        text += (
            "\nthe server does not remember this epoch; made with the words of epoch "
            f"{head['words_of_epoch']}"
        )
    return text


def batch_text(loaded: Any, schema: Any) -> str:
    """The graphs of a `packhouse.v1.LoadedBatch`, what they fill, and its tensors."""
    batch = loaded.batch
    components = [*schema.components, "graphs"]
    rows = [
        f"{name} {real:,} of {all_:,}"
        for name, real, all_ in zip(components, batch.real_rows, batch.rows)
    ]
    ids = _ids(batch)
    text = (
        f"batch {batch.id}: {len(ids):,} graphs; rows: {', '.join(rows)}\n"
        f"graphs  {' '.join(map(str, ids))}\n"
    )
    if loaded.drawn_smaller:
        text += f"{len(loaded.drawn_smaller)} graphs were drawn smaller\n"
    if not batch.tensors:
        return text
    table = TextTable(["tensor", "type", "shape", "bytes"])
    for tensor in batch.tensors:
        dtype = _dtype(tensor.dtype)
        if tensor.declared_dtype:
            # It travels in a narrower type.
            dtype = f"{_dtype(tensor.declared_dtype)} as {dtype}"
        shape = " x ".join(map(str, tensor.shape))
        table.add_row(tensor.name, dtype, shape, len(tensor.data))
    return text + table.render()


def batch_json(loaded: Any) -> dict[str, Any]:
    """The same as an object, without the tensors' data."""
    batch = loaded.batch
    tensors = []
    for tensor in batch.tensors:
        of = {"name": tensor.name, "dtype": _dtype(tensor.dtype)}
        of |= {"shape": list(tensor.shape), "bytes": len(tensor.data)}
        if tensor.declared_dtype:
            of["declared_dtype"] = _dtype(tensor.declared_dtype)
        tensors.append(of)
    rows = {"real_rows": list(batch.real_rows), "rows": list(batch.rows)}
    told = {"number": batch.id, "graph_ids": _ids(batch), **rows}
    return told | {"shape": loaded.shape, "tensors": tensors}


def _ids(batch: Any) -> list[int]:
    import numpy as np

    ids: list[int] = np.frombuffer(batch.graph_ids, "<u8").tolist()
    return ids


def _dtype(number: int) -> str:
    from packhouse.v1 import graphs_pb2

    return str(graphs_pb2.DataType.Name(number)).replace("DATA_TYPE_", "", 1)

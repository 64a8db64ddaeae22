"""DGL's chunked layout with Parquet files, as the same graph with numpy files. Needs pyarrow.

`packhouse partition`, `packhouse-partition` and `packhouse graph import` read edges and features from
numpy files. `convert` writes a folder that they read. A Parquet file has, as DGL's own reader has it:

- of edges: two columns of whole numbers, the ids of source and target, which become int64 if they
  have fewer than 32 bits;
- of features: a column for each number of a row, all of one type, or one column of lists of one
  length. If the file's metadata has `shape`, rows have that shape; otherwise they have two
  dimensions.
"""

from __future__ import annotations

import ast
import json
import math
import os
import pathlib
import shutil
from typing import Any, Final, Iterator

import numpy as np
import numpy.typing as npt

_ROWS_READ: Final = 1 << 16
_FEATURES: Final = ("node_data", "edge_data")


def convert(folder: str | os.PathLike[str], output: str | os.PathLike[str]) -> int:
    """Writes `output` with metadata.json and a numpy file for each Parquet file; tells how many.

    Files of other formats stay where they are, and `output` names them there. The folder appears when
    it is whole; until then there is `output`.partial. Memory: some rows of one file.

    Raises OSError, among them FileExistsError if `output` is there, ImportError without pyarrow, and
    ValueError naming the file, and the column, for what is not as above: nulls, text, rows or types
    that differ.
    """
    source = pathlib.Path(folder)
    target = pathlib.Path(output)
    if target.exists():
        raise FileExistsError(f"{target} is there already")
    path = source / "metadata.json"
    try:
        metadata = json.loads(path.read_text(encoding="utf-8"))
        tables = list(_tables(metadata))
    except (json.JSONDecodeError, AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: is no metadata of DGL's chunked layout: {error}") from error
    partial = target.with_name(target.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    converted = 0
    for number, (of_edges, table) in enumerate(tables):
        files = []
        for chunk, name in enumerate(table["data"]):
            file = source / name
            if table["format"]["name"] != "parquet":
                files.append(os.path.relpath(file, target))
                continue
            files.append(f"{number}-{chunk}.npy")
            _convert_file(str(file), partial / files[-1], of_edges)
            converted += 1
        table["data"] = files
        if table["format"]["name"] == "parquet":
            table["format"] = {"name": "numpy"}
    (partial / "metadata.json").write_text(json.dumps(metadata, indent=4), encoding="utf-8")
    partial.rename(target)
    return converted


def _tables(metadata: Any) -> Iterator[tuple[bool, Any]]:
    """Whether a table has edges, and the table; `format.name` and `data` are there."""
    found = [(True, table) for table in metadata["edges"].values()]
    for key in _FEATURES:
        for features in metadata.get(key, {}).values():
            found += [(False, table) for table in features.values()]
    for each in found:
        str(each[1]["format"]["name"])
        list(each[1]["data"])
        yield each


def _convert_file(name: str, to: pathlib.Path, of_edges: bool) -> None:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(f"{name}: pyarrow is needed to read it (pip install pyarrow)") from error
    try:
        with pyarrow.parquet.ParquetFile(name) as file:
            rows = file.metadata.num_rows
            shape = _shape_of(file.schema_arrow.metadata, rows)
            if of_edges and len(file.schema_arrow) != 2:
                raise ValueError(
                    f"has {len(file.schema_arrow)} columns; edges have two, source and target"
                )
            array: npt.NDArray[Any] | None = None
            dtype: Any = None  # Of the file's first rows.
            begin = 0
            for batch in file.iter_batches(batch_size=_ROWS_READ):
                read = _rows_of(batch)
                if array is None:
                    shape = (rows, *read.shape[1:]) if shape is None else shape
                    if math.prod(shape[1:]) != read.shape[1]:
                        raise ValueError(f"has {read.shape[1]} numbers a row, its shape is {shape}")
                    if of_edges and read.dtype.kind not in "iu":
                        raise ValueError(f"has ids of type {read.dtype}; they are whole numbers")
                    array = _new_file(to, _id_type(read.dtype) if of_edges else read.dtype, shape)
                    dtype = read.dtype
                elif (read.dtype, read.shape[1]) != (dtype, math.prod(array.shape[1:])):
                    raise ValueError(f"rows from {begin} on have lists of another length")
                array[begin : begin + len(read)] = read.reshape((-1, *array.shape[1:]))
                begin += len(read)
            if array is None:
                np.save(to, _no_rows(file.schema_arrow, shape))
    except pyarrow.ArrowInvalid as error:
        raise ValueError(f"{name}: {error}") from error
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _id_type(dtype: Any) -> Any:
    """`packhouse partition` takes ids of 32 and 64 bits."""
    return dtype if dtype.itemsize >= 4 else np.dtype(np.int64)


def _new_file(path: pathlib.Path, dtype: Any, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    if math.prod(shape) == 0:
        raise ValueError("has rows without numbers")
    array: npt.NDArray[Any] = np.lib.format.open_memmap(  # type: ignore[no-untyped-call]
        path, "w+", dtype, shape
    )
    return array


def _shape_of(metadata: Any, rows: int) -> tuple[int, ...] | None:
    text = (metadata or {}).get(b"shape")
    if text is None:
        return None
    try:
        shape = tuple(int(extent) for extent in ast.literal_eval(text.decode()))
    except (ValueError, SyntaxError, TypeError) as error:
        raise ValueError(f"its shape {text!r} is no tuple of numbers") from error
    if not shape or shape[0] != rows or min(shape) < 0:
        raise ValueError(f"its shape {shape} does not fit its {rows} rows")
    return shape


def _rows_of(batch: Any) -> npt.NDArray[Any]:
    """Two dimensions, one type."""
    import pyarrow

    columns = []
    for name, column in zip(batch.schema.names, batch.columns):
        lists = False
        while pyarrow.types.is_nested(column.type) and hasattr(column, "flatten"):
            if column.null_count or not hasattr(column.type, "value_type"):
                raise ValueError(f"column {name!r} has a null, or a type that is no list")
            column = column.flatten()
            lists = True
        if column.null_count:
            raise ValueError(f"column {name!r} has a null")
        if not _is_number(column.type):
            raise ValueError(f"column {name!r} has type {column.type}; needs numbers")
        values = column.to_numpy(zero_copy_only=False)
        if not lists:
            columns.append(values)
            continue
        if batch.num_columns > 1:
            raise ValueError(f"column {name!r} has lists; then there is no other column")
        if batch.num_rows == 0 or len(values) % batch.num_rows or not _even(batch.column(0)):
            raise ValueError(f"column {name!r} has lists of different lengths")
        return np.asarray(values).reshape(batch.num_rows, -1)
    if not columns:
        raise ValueError("has no columns")
    for name, values in zip(batch.schema.names, columns):
        if values.dtype != columns[0].dtype:
            raise ValueError(
                f"column {name!r} has type {values.dtype}, the first one {columns[0].dtype}"
            )
    return np.stack(columns, axis=1)


def _even(column: Any) -> bool:
    """Whether all lists have one length, at every depth."""
    import pyarrow

    while pyarrow.types.is_nested(column.type):
        if not pyarrow.types.is_fixed_size_list(column.type):
            lengths = np.diff(np.asarray(column.offsets, np.int64))
            if len(lengths) and (lengths != lengths[0]).any():
                return False
        column = column.flatten()
    return True


def _is_number(kind: Any) -> bool:
    import pyarrow

    types = pyarrow.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _no_rows(schema: Any, shape: tuple[int, ...] | None) -> npt.NDArray[Any]:
    kind = schema.types[0]
    while hasattr(kind, "value_type"):
        kind = kind.value_type
    if not _is_number(kind):
        raise ValueError(f"column {schema.names[0]!r} has type {kind}; needs numbers")
    return np.zeros(shape or (0, len(schema)), kind.to_pandas_dtype())

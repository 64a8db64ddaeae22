"""Rows that trainers of a partitioned graph made, back in the order of the original graph.

A partition gives nodes and edges new ids. Trainers write embeddings and predictions in that order.
`mapping/nodes/SET.npy` and `mapping/edges/SOURCE:SET:TARGET.npy` of a partition that was made with
`--mapping`, or DGL's `orig_ids`, say which original each new id is; `restore` undoes it. Names of sets in names of files are as `file_name`
gives them: plain names are their own.
"""

from __future__ import annotations

import hashlib
from typing import Any, Mapping, TypeVar, overload

import numpy as np
import numpy.typing as npt

from packhouse.base.arguments import UINT64_MAX, whole_number
from packhouse.data.graphs import array_of

_Key = TypeVar("_Key")

_ESCAPED = frozenset(bytes(range(32)) + b"\x7f/\\%*?[]@")
_MAX_FILE_NAME = 200
_DIGEST_DIGITS = 32


def file_name(name: str) -> str:
    """The name that files of a partition have for a set, relation or column, without their ending.

    Different names have different ones. A plain name is its own; slashes, control characters and
    `\\ % * ? [ ] @` become %XX, and so does a point at the beginning; of a name that is then longer
    than 200 bytes its beginning is left, "%-", and 32 digits of its SHA-256.
    `mapping/edges/{file_name("user:buys/rents:item")}.npy` is `user:buys%2Frents:item.npy`.
    """
    encoded = name.encode()
    if not encoded:
        return "%"
    file = bytearray()
    begin = 0
    for at, byte in enumerate(encoded):
        if len(file) <= _MAX_FILE_NAME - _DIGEST_DIGITS - 2 and byte & 0xC0 != 0x80:
            begin = len(file)
        if byte in _ESCAPED or (at == 0 and byte == ord(".")):
            file += b"%%%02X" % byte
        else:
            file.append(byte)
    if len(file) > _MAX_FILE_NAME:
        digest = hashlib.sha256(encoded).hexdigest()[:_DIGEST_DIGITS]
        file = file[:begin] + b"%-" + digest.encode()
    return file.decode()


def _rows_of_type(
    rows: Any, mapping: Any, out: npt.NDArray[Any] | None, start: int, of: str
) -> npt.NDArray[Any]:
    made = array_of(rows, f"rows{of}")
    originals = array_of(mapping, f"mapping{of}")
    if originals.ndim != 1 or originals.dtype.kind not in "iu":
        raise TypeError(f"mapping{of}: must have one dimension of whole numbers")
    if made.ndim == 0:
        raise TypeError(f"rows{of}: must have rows")
    end = start + len(made)
    if end > len(originals):
        raise ValueError(
            f"rows{of}: {len(made)} rows from {start} on, but mapping has {len(originals)}"
        )
    if out is None and end - start != len(originals):
        raise ValueError(
            f"rows{of}: {len(made)} rows, mapping has {len(originals)}; for a part give `out` and `start`"
        )
    shape = (len(originals), *made.shape[1:])
    if out is None:
        # Each place is written only if the mapping is a permutation.
        out = np.empty(shape, made.dtype)
    elif out.shape != shape or out.dtype != made.dtype:
        raise ValueError(
            f"out{of}: {out.dtype} of shape {out.shape}, must be {made.dtype} of shape {shape}"
        )
    here = originals[start:end]
    seen = np.zeros(len(originals), bool)
    if len(here) and not 0 <= int(here.min()) <= int(here.max()) < len(originals):
        raise ValueError(f"mapping{of}: a number is not from 0 to {len(originals) - 1}")
    seen[here] = True
    if int(np.count_nonzero(seen)) != len(here):
        raise ValueError(f"mapping{of}: a number is there twice")
    out[here] = made
    return out


@overload
def restore(  # type: ignore[misc]
    rows: Mapping[_Key, Any],
    mapping: Mapping[_Key, Any],
    *,
    out: Mapping[_Key, npt.NDArray[Any]] | None = None,
) -> dict[_Key, npt.NDArray[Any]]: ...


@overload
def restore(
    rows: Any, mapping: Any, *, out: npt.NDArray[Any] | None = None, start: int = 0
) -> npt.NDArray[Any]: ...


def restore(rows: Any, mapping: Any, *, out: Any = None, start: int = 0) -> Any:
    """The rows in the original order: row `mapping[i]` of the result is row i of `rows`.

    Args:
      rows: in the order of new ids: an array with as many rows as `mapping`, or one for each node or
        edge type, by its name. Anything that numpy makes an array of.
      mapping: new to original ids, as `orig_ids` of a partition; for each type likewise.
      out: the array to write into, such as a `numpy.memmap`, and to return; otherwise a new one.
      start: `rows` are those of the new ids from `start` on, as for one part at a time. Needs `out`
        unless they are all.

    Raises TypeError or ValueError naming the argument, and the type: rows and mapping that do not fit,
    a mapping that is no permutation. Then `out` is as it was. Cost: O(rows), and a byte for each
    number of `mapping`.
    """
    start = whole_number(start, "start", UINT64_MAX)
    if not isinstance(mapping, Mapping):
        return _rows_of_type(rows, mapping, out, start, "")
    if not isinstance(rows, Mapping):
        raise TypeError("rows: must have one array for each type, as mapping has")
    unknown = [key for key in rows if key not in mapping]
    if unknown:
        raise ValueError(f"rows: mapping has no type {unknown[0]!r}")
    if start:
        raise ValueError("start: types begin at different ids; give one type at a time")
    return {
        key: _rows_of_type(
            of_type, mapping[key], None if out is None else out[key], 0, f"[{key!r}]"
        )
        for key, of_type in rows.items()
    }

"""What a file is that packhouse does not read, or not under its name, by its first bytes."""

from __future__ import annotations

import os
import zipfile
from typing import Final

_LOADED: Final = "load it in Python, and give its graphs to packhouse.{pyg,dgl,jraph}.ingest"
_ARRAYS: Final = "write its graphs' arrays as .npz or Parquet"
_MAGIC: Final = (
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file", "name it .h5"),
    (b"PAR1", "a Parquet file", "name it .parquet"),
    (b"ARROW1", "an Arrow file", "name it .arrow"),
    (b"SQLite format 3\0", "an SQLite database", "name it .db if ASE wrote it, else " + _ARRAYS),
    (b"\x93NUMPY", "one array of numpy", "save all arrays of the graphs in one .npz"),
    (b"\x1f\x8b", "a gzipped file", "name it .csv.gz if it is a list of sizes, else unpack it"),
    (b"<?xml", "an XML file, as GraphML is one", _LOADED),
    (b"<graphml", "a GraphML file", _LOADED),
    (b"graph [", "a GML file", _LOADED),
    (b"{", "JSON", _ARRAYS),
)
# Protocols 2 to 5 begin with this byte and their number.
_PICKLE: Final = b"\x80"


def kind_of(path: str | os.PathLike[str]) -> tuple[str, str] | None:
    """What is there, and what to do with it; None for what could be text of any kind.

    Raises OSError if it cannot be read.
    """
    if os.path.isdir(path):
        return "a folder", "name the files in it; `packhouse graph import` takes one large graph"
    with open(path, "rb") as file:
        first = file.read(64)
    for magic, what, advice in _MAGIC:
        if first.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(magic) or first.startswith(magic):
            return what, advice
    if first[:1] == _PICKLE and first[1:2] in (b"\2", b"\3", b"\4", b"\5"):
        return "a pickle", _LOADED
    if zipfile.is_zipfile(path):
        return _of_archive(path)
    if b"\0" in first or any(byte < 9 for byte in first):
        return "no text", "packhouse reads lists of sizes, .npz, Parquet, Arrow, and .pt of PyG"
    return None


def _of_archive(path: str | os.PathLike[str]) -> tuple[str, str]:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile:
        return "a damaged zip archive", "write it anew"
    if any(name.endswith("data.pkl") for name in names):
        return "a file of torch.save", "name it .pt"
    if names and all(name.endswith(".npy") for name in names):
        return "an archive of numpy's arrays", "name it .npz"
    return "a zip archive", "unpack it"

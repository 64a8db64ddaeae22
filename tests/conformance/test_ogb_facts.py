"""What is known here of OGB's data sets, beside the tables of the package `ogb` itself (master.csv).

Of each data set a small folder with the files that OGB's loader reads is made and converted: edges are
doubled where OGB doubles them, and every file is read, or its lack told.
"""

from __future__ import annotations

import csv
import gzip
import importlib.util
import os
import pathlib
import re
import subprocess
from typing import Final

import pytest

CLI: Final = os.environ.get("PACKHOUSE_CLI", "")
_OGB = importlib.util.find_spec("ogb")

pytestmark = [
    pytest.mark.skipif(not CLI, reason="PACKHOUSE_CLI names the program to test"),
    pytest.mark.skipif(_OGB is None, reason="there is no package ogb"),
]


def master(kind: str) -> dict[str, dict[str, str]]:
    """By data set, what the table of `kind` says of it."""
    assert _OGB is not None and _OGB.submodule_search_locations
    path = pathlib.Path(_OGB.submodule_search_locations[0], kind, "master.csv")
    with open(path, encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    names = header[1:]
    facts: dict[str, dict[str, str]] = {name: {} for name in names}
    for key, *values in rows:
        for name, value in zip(names, values):
            facts[name][key] = value
    return facts


def files_of(facts: dict[str, str], end: str) -> list[str]:
    said = facts[f"additional {end} files"]
    return [] if said == "None" else said.split(",")


SETS: Final = {} if _OGB is None else {**master("nodeproppred"), **master("linkproppred")}
TEXTS: Final = sorted(name for name, facts in SETS.items() if facts["binary"] == "False")


def write(folder: pathlib.Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        path = folder / f"{name}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(content.encode()))


def download(folder: pathlib.Path, facts: dict[str, str]) -> tuple[pathlib.Path, list[str]]:
    """A graph of 3 nodes and 2 edges as OGB has it; and the files beside features and labels."""
    nodes = raw = edges = folder / "raw"
    files = {"num-node-list": "3\n"}
    if facts["is hetero"] == "True":
        nodes, edges = raw / "node-feat" / "a", raw / "relations" / "a___r___b"
        files = {"num-node-dict": "a,b\n3,3\n", "triplet-type-list": "a,r,b\n"}
    write(raw, files)
    write(edges, {"edge": "0,1\n1,2\n", "num-edge-list": "2\n"})
    of_nodes, of_edges = files_of(facts, "node"), files_of(facts, "edge")
    write(nodes, {"node-feat": "0.5\n1\n2\n", **{name: "1\n2\n3\n" for name in of_nodes}})
    write(edges, {"edge-feat": "0.5\n1\n", **{name: "1\n2\n" for name in of_edges}})
    paths = [*(nodes / name for name in of_nodes), *(edges / name for name in of_edges)]
    return raw, [f"{path}.csv.gz" for path in paths]


def convert(folder: pathlib.Path, output: pathlib.Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [CLI, "tfgnn", "convert-ogb", folder, "--output", output],
        capture_output=True, text=True, timeout=300, check=False,
    )


@pytest.mark.parametrize("name", TEXTS)
def test_a_data_set_is_read_as_its_facts_say(name: str, tmp_path: pathlib.Path) -> None:
    facts = SETS[name]
    folder = tmp_path / name.replace("-", "_")
    _, further = download(folder, facts)
    whole = convert(folder, tmp_path / "whole")
    assert whole.returncode == 0, whole.stderr
    assert "is not read" not in whole.stderr and "there is none" not in whole.stderr
    doubled = facts["add_inverse_edge"] == "True"
    assert ("the other way" in whole.stderr) == doubled
    assert f" and {4 if doubled else 2} edges" in whole.stdout
    schema = (tmp_path / "whole" / "graph_schema.pbtxt").read_text()
    for path in further:
        stem = pathlib.Path(path).name.partition(".")[0]
        assert f'key: "{stem.partition("_")[2]}"' in schema
    # Without one of them it is another data set.
    for path in further:
        content = pathlib.Path(path).read_bytes()
        pathlib.Path(path).unlink()
        lacking = convert(folder, tmp_path / "lacking")
        stem = pathlib.Path(path).name.partition(".")[0]
        assert stem in lacking.stderr
        assert lacking.returncode == (0 if facts["is hetero"] == "True" else 1)
        pathlib.Path(path).write_bytes(content)


def test_exactly_these_are_known(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "ogbn_unknown"
    download(folder, SETS["ogbn-arxiv"])
    refused = convert(folder, tmp_path / "out")
    assert refused.returncode == 1
    (listed,) = re.findall(r"known here \(([^)]*)\)", refused.stderr)
    assert sorted(listed.split(", ")) == TEXTS
    # Those of many graphs are none of them.
    assert not set(TEXTS) & set(master("graphproppred"))


@pytest.mark.parametrize("name", sorted(set(SETS) - set(TEXTS)))
def test_arrays_are_refused(name: str, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / name.replace("-", "_")
    (folder / "raw").mkdir(parents=True)
    (folder / "raw" / "data.npz").write_bytes(b"")
    refused = convert(folder, tmp_path / "out")
    assert refused.returncode == 1
    assert "data.npz: OGB's arrays are not read" in refused.stderr

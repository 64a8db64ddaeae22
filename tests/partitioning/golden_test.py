"""The golden cases of DGL's partition_graph, and the checker of laws that comes with them.

Given the parts of a golden case, new ids and parts are as DGL has them, as sets of original nodes and edges: DGL leaves
the order inside a range open. PACKHOUSE_PARTITION_PROBE is the program that partitions.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

GOLDEN = pathlib.Path(os.environ.get("PACKHOUSE_SHARED_DATA", "")) / "partition"
if not (GOLDEN / "laws.py").exists():
    pytest.skip(f"no golden partitions in {GOLDEN}", allow_module_level=True)
sys.path.insert(0, str(GOLDEN))

import laws  # type: ignore[import]  # noqa: E402
import reference_partition  # type: ignore[import]  # noqa: E402

CASES = sorted(path.stem for path in (GOLDEN / "golden").glob("*.npz"))


def probe(graph: Any, num_parts: int, hops: int, in_edges: bool, parts: str) -> dict[str, Any]:
    """What the program says, by name."""
    lines = [str(len(graph.ntypes))]
    lines += [f"{name} {size}" for name, size in zip(graph.ntypes, graph.count)]
    lines.append(str(len(graph.etypes)))
    for t, name in enumerate(graph.etypes):
        source, relation, target = name.split(":")
        begin, end = graph.estart[t], graph.estart[t + 1]
        pairs = np.stack([graph.src[begin:end] - graph.nstart[graph.ntypes.index(source)],
                          graph.dst[begin:end] - graph.nstart[graph.ntypes.index(target)]], 1)
        lines.append(f"{source} {relation} {target} {end - begin}")
        lines.append(" ".join(map(str, pairs.ravel())))
    lines.append(f"{num_parts} {hops} {int(in_edges)} {parts}")
    program = os.environ["PACKHOUSE_PARTITION_PROBE"]
    metis = pathlib.Path(program).parents[2] / "service" / "packhouse-metis"
    out = subprocess.run([program, str(metis)], input="\n".join(lines), capture_output=True,
                         text=True, check=True).stdout
    words = (line.split(" ") for line in out.splitlines())
    return {name: np.array([int(n) for n in numbers], np.int64) for name, *numbers in words}


def as_partition(graph: Any, case: str, num_parts: int, hops: int,
                 told: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The form that laws.check takes: metadata and arrays."""
    meta: dict[str, Any] = {
        "graph_name": case, "num_nodes": graph.n, "num_edges": graph.m, "num_parts": num_parts,
        "halo_hops": hops,
        "ntypes": {name: t for t, name in enumerate(graph.ntypes)},
        "etypes": {name: t for t, name in enumerate(graph.etypes)}}
    for key in ("node_map", "edge_map"):
        meta[key] = {name.removeprefix(key + "/"): values.reshape(-1, 2).tolist()
                     for name, values in told.items() if name.startswith(key + "/")}
    ends = np.cumsum([told[f"{p}/inner"][0] for p in range(num_parts)])
    arrays: dict[str, Any] = {}
    for p in range(num_parts):
        nodes, edges = told[f"{p}/inner"]
        nid, eid = told[f"{p}/nid"], told[f"{p}/eid"]
        original_nodes, original_edges = told[f"{p}/orig_nid"], told[f"{p}/orig_eid"]
        ntype = np.searchsorted(graph.nstart[1:], original_nodes, side="right")
        etype = np.searchsorted(graph.estart[1:], original_edges, side="right")
        arrays |= {
            f"{p}/nid": nid, f"{p}/eid": eid, f"{p}/src": told[f"{p}/src"],
            f"{p}/dst": told[f"{p}/dst"],
            f"{p}/inner_node": np.arange(len(nid)) < nodes,
            f"{p}/inner_edge": np.arange(len(eid)) < edges,
            f"{p}/part_id": np.searchsorted(ends, nid, side="right"),
            f"{p}/ntype": ntype, f"{p}/etype": etype,
            f"{p}/orig_nid": original_nodes - graph.nstart[ntype],
            f"{p}/orig_eid": original_edges - graph.estart[etype]}
        for features, kind, names, types, originals, inner in (
                (graph.nfeat, "nf", graph.ntypes, ntype, f"{p}/orig_nid", nodes),
                (graph.efeat, "ef", graph.etypes, etype, f"{p}/orig_eid", edges)):
            for name, values in features.items():
                mine = (types == names.index(name.split("/")[0]))[:inner]
                arrays[f"{p}/{kind}/{name}"] = values[arrays[originals][:inner][mine]]
    return meta, arrays


def parts_of(case: str, graph: Any) -> tuple[str, int, int]:
    parts, num_parts, hops = reference_partition.parts_of(case, graph)
    return " ".join(map(str, parts)), num_parts, hops


@pytest.mark.parametrize("case", CASES)
def test_parts_of_a_golden_case_hold_what_dgls_hold(case: str) -> None:
    graph = laws.Graph(case.split("_")[0])
    text, num_parts, hops = parts_of(case, graph)
    told = probe(graph, num_parts, hops, False, text)
    laws.check(case, *as_partition(graph, case, num_parts, hops, told), graph)
    meta, golden = laws.from_golden(case)
    assert {name: told[f"node_map/{name}"].reshape(-1, 2).tolist() for name in graph.ntypes} == \
        meta["node_map"]
    assert {name: told[f"edge_map/{name}"].reshape(-1, 2).tolist() for name in graph.etypes} == \
        meta["edge_map"]
    # Golden ids, new to original, over all types.
    original = {}
    for letter, key, names, start in (("n", "node_map", graph.ntypes, graph.nstart),
                                      ("e", "edge_map", graph.etypes, graph.estart)):
        original[letter] = np.empty(start[-1], np.int64)
        for t, name in enumerate(names):
            of_type = f"map/{letter}" if f"map/{letter}" in golden else f"map/{letter}/{name}"
            new = np.concatenate([np.arange(a, b) for a, b in meta[key][name]])
            original[letter][new] = golden[of_type] + start[t]
    for p in range(num_parts):
        for letter, ours in (("n", "orig_nid"), ("e", "orig_eid")):
            want = original[letter][golden[f"{p}/{letter}id"]]
            assert set(told[f"{p}/{ours}"].tolist()) == set(want.tolist())


@pytest.mark.parametrize("case", [case for case in CASES if "_h1" in case])
def test_a_halo_of_in_edges_keeps_the_laws(case: str) -> None:
    graph = laws.Graph(case.split("_")[0])
    text, num_parts, hops = parts_of(case, graph)
    told = probe(graph, num_parts, hops, True, text)
    laws.check(case, *as_partition(graph, case, num_parts, hops, told), graph)


@pytest.mark.parametrize("kind", ["homo", "hetero"])
@pytest.mark.parametrize("num_parts", [1, 2, 3, 7])
def test_parts_of_metis_keep_the_laws(kind: str, num_parts: int) -> None:
    graph = laws.Graph(kind)
    told = probe(graph, num_parts, 2, False, "metis")
    laws.check(kind, *as_partition(graph, kind, num_parts, 2, told), graph)

"""Tries the wheels for another kind of machine on this one, by qemu: programs, and a server beside this machine's.

    python3 foreign_wheel_check.py --root build/sysroot/aarch64 --packhoused PROGRAM build/wheels-aarch64

PROGRAM is of this machine. Around the wheel's programs there is nothing but what every system of its platform has.
This machine's Python is the client. Both servers get the same graphs; their plans and batches must have the same
bytes, since a plan does not depend on the machine that made it.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from typing import Any, Final, Iterator

import numpy as np

import packhouse

REPOSITORY: Final = pathlib.Path(__file__).parents[2]
sys.path.append(str(REPOSITORY / "deploy" / "wheel"))

from notices import SYSTEM_PACKAGES  # noqa: E402  (from the folder above)

SCHEMA: Final = packhouse.GraphSchema(
    components=("nodes", "edges"),
    tensors=(
        packhouse.TensorSpec("x", "float32", "nodes", 4),
        packhouse.TensorSpec("edge_index", "int32", "edges", 2, index_into="nodes"),
    ),
)
LIMITS: Final = {"nodes": 256, "edges": 512, "graphs": 32}


def run(*command: Any, **options: Any) -> str:
    ran = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **options)
    assert ran.returncode == 0, f"{command}: {ran.stderr}"
    return str(ran.stdout)


def make_root(root: pathlib.Path, debian: pathlib.Path) -> None:
    """The libraries of SYSTEM_PACKAGES."""
    query = ("dpkg-query", f"--admindir={debian}/var/lib/dpkg", "-L")
    # A package lists its files in /lib or in /usr/lib, which are the same.
    paths = re.findall(r"^/(?:usr/)?(lib/.*\.so.*)$", run(*query, *sorted(SYSTEM_PACKAGES)), re.MULTILINE)
    for path in paths:
        if (debian / path).is_file():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(debian / path, root / path)


def unpack(wheels: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """The folder of the programs. The package's own wheel has a native reader, for that machine, too."""
    (client,) = wheels.glob("packhouse-*.whl")
    assert [name for name in zipfile.ZipFile(client).namelist() if "/_native." in name and name.endswith(".so")]
    (server,) = wheels.glob("packhouse_server-*.whl")
    zipfile.ZipFile(server).extractall(folder)
    programs = folder / "packhouse_server" / "bin"
    for program in programs.iterdir():
        program.chmod(0o755)
    return programs


def cut_in_files(command: list[str]) -> None:
    """By packhouse-graph: a ring of 16 nodes in two parts."""
    with tempfile.TemporaryDirectory() as folder:
        graph = pathlib.Path(folder, "ring.graph")
        ends = [f"{(node - 1) % 16 + 1} {(node + 1) % 16 + 1}\n" for node in range(16)]
        graph.write_text("16 16\n" + "".join(ends), encoding="ascii")
        said = run(*command, "partition", graph, "--parts", "2", "--output", f"{folder}/parts")
        assert "in 2 parts" in said, said


def graphs() -> packhouse.GraphTable:
    random = np.random.default_rng(7)

    def graph() -> dict[str, np.ndarray[Any, Any]]:
        nodes, edges = int(random.integers(1, 60)), int(random.integers(0, 120))
        return {
            "x": random.random((nodes, 4), np.float32),
            "edge_index": random.integers(0, nodes, (edges, 2)).astype(np.int32),
        }

    return packhouse.GraphTable.from_graphs(SCHEMA, [graph() for _ in range(1000)])


def batch_bytes(batch: packhouse.Batch) -> Iterator[bytes]:
    yield batch.graph_ids.tobytes()
    yield batch.sizes.tobytes()
    for name, tensor in batch.tensors.items():
        yield name.encode() + str(tensor.dtype).encode() + tensor.tobytes()


def answers(binary: pathlib.Path, lane: str) -> dict[str, list[bytes]]:
    """What a server says of the same graphs: plans, batches of a stream, and of an epoch."""
    table = graphs()
    histogram = packhouse.Histogram.from_sizes(table.sizes, SCHEMA.components)
    with tempfile.TemporaryDirectory() as folder, packhouse.LocalServer(
        # qemu has less room for the map of a store than a machine has.
        binary, data_dir=folder, start_timeout=120, stop_timeout=120, arguments=("--max-store-bytes=1GiB",)
    ) as server:
        with packhouse.Client(server.address) as client:
            plans = [client.plan(histogram, LIMITS), client.plan(histogram, LIMITS, padding="graph", seed=3)]
            packed = list(client.pack(table, packhouse.PackOptions(LIMITS, "graph")))
            client.datasets.create("random", SCHEMA)
            client.datasets.append("random", table)
            client.datasets.seal("random")
        with packhouse.Loader(
            server.address, dataset="random", job="first", seed=1, limits=LIMITS, padding="graph", lane=lane
        ) as loader:
            loaded = [part for batch in loader for part in batch_bytes(batch)]
    assert server.returncode == 0, server.returncode
    return {
        "plans": [plan.to_proto().SerializeToString(deterministic=True) for plan in plans],
        "packed": [part for batch in packed for part in batch_bytes(batch)],
        "loaded": loaded,
    }


def check(wheels: pathlib.Path, debian: pathlib.Path, packhoused: pathlib.Path) -> str:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_root(folder / "root", debian)
        programs = unpack(wheels, folder / "wheel")
        (interpreter,) = (folder / "root/lib").glob("ld-linux-*.so.*")
        machine = interpreter.name.removeprefix("ld-linux-").partition(".")[0]
        qemu = [f"qemu-{machine}-static", "-L", str(folder / "root")]
        version = run(*qemu, programs / "packhoused", "--version").strip()
        assert version == packhouse.__version__, version
        metis = subprocess.run([*qemu, programs / "packhouse-metis"], stderr=subprocess.PIPE, text=True, check=False)
        assert "packhoused" in metis.stderr, metis
        cut_in_files([*qemu, str(programs / "packhouse-graph")])
        server = folder / "packhoused"
        server.write_text(f'#!/bin/sh\nexec {shlex.join(qemu)} {programs}/packhoused "$@"\n', encoding="utf-8")
        server.chmod(0o755)
        theirs, ours = answers(server, "required"), answers(packhoused, "required")
        for kind, parts in ours.items():
            assert theirs[kind] == parts, f"{kind} of {machine} are not those of {os.uname().machine}"
    num_bytes = {kind: sum(map(len, parts)) for kind, parts in ours.items()}
    told = ", ".join(f"{count:,} bytes of {kind}" for kind, count in num_bytes.items())
    return f"packhoused {version} for {machine}: as on {os.uname().machine}, {told}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("wheels", type=pathlib.Path)
    parser.add_argument("--root", type=pathlib.Path, required=True, help="where sysroot.sh unpacked its Debian")
    parser.add_argument("--packhoused", type=pathlib.Path, required=True)
    options = parser.parse_args()
    print(check(options.wheels.resolve(), options.root.resolve(), options.packhoused.resolve()))
    return 0


if __name__ == "__main__":
    sys.exit(main())

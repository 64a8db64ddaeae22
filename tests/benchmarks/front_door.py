"""What a user of PyTorch Geometric waits for: PyG's loader and packhouse's in one line, in turns.

    PYTHONPATH=build/release/python PACKHOUSED=build/release/service/packhoused \
        build/environments/pyg/bin/python tests/benchmarks/front_door.py [--graphs 5000] [--runs 5]

Each run is a process of its own for each contestant, in turns. Said is the median of the runs:
seconds by the clock, and of processor time, of the process and, where there is one, of the server.
"first": the graphs are not stored yet; "again": a second process, which finds them.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, Final

BATCH_SIZE: Final = 32
LIMITS: Final = {"nodes": 1024, "edges": 2304}
CONTESTANTS: Final = ("pyg", "fixed", "first", "again")


def graphs(count: int) -> list[Any]:
    """As large as those of molecules, with as many features."""
    import numpy as np
    import torch
    from torch_geometric.data import Data

    rng = np.random.default_rng(0)
    made = []
    for number in range(count):
        nodes = int(rng.integers(5, 47))
        ends = rng.integers(0, nodes, (2, 2 * nodes))
        made.append(
            Data(
                x=torch.from_numpy(rng.integers(0, 9, (nodes, 9))),
                edge_index=torch.from_numpy(ends),
                edge_attr=torch.from_numpy(rng.integers(0, 4, (2 * nodes, 3))),
                y=torch.tensor([[float(number)]]),
            )
        )
    return made


class Clock:
    """Seconds by the clock, and of processor time of this process and of the server."""

    def __init__(self, server: Callable[[], int | None]) -> None:
        self._server = server
        self._start = self._now()

    def _now(self) -> tuple[float, float]:
        used = time.process_time()
        pid = self._server()
        if pid is not None:
            words = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            used += (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
        return time.perf_counter(), used

    def read(self) -> tuple[float, float]:
        wall, used = self._now()
        return wall - self._start[0], used - self._start[1]


def work(name: str, count: int, folder: str) -> None:
    """One contestant's run: says its times."""
    os.environ["PACKHOUSE_CACHE"] = folder
    begun = time.perf_counter(), time.process_time()
    import packhouse

    imported = time.perf_counter() - begun[0], time.process_time() - begun[1]
    import packhouse.pyg
    from torch_geometric.loader import DataLoader

    data = graphs(count)
    made: Any = None

    def server() -> int | None:
        address = getattr(getattr(made, "_server", None), "address", "")
        if not address:
            return None
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(address[len("unix:") :])
            words = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        return int(struct.unpack("3i", words)[0])

    # A server that this run starts has used nothing before.
    clock = Clock(server)
    if name == "pyg":
        made = DataLoader(data, BATCH_SIZE, shuffle=True)
    elif name == "fixed":
        made = packhouse.pyg.DataLoader(data, BATCH_SIZE, shuffle=True)
    else:
        made = packhouse.pyg.DataLoader(data, shuffle=True, limits=LIMITS)
    next(iter(made))
    first = clock.read()
    clock = Clock(server)
    seen = sum(batch.num_graphs for batch in made)
    if seen != count:
        raise RuntimeError(f"{name}: {seen} graphs of {count} came")
    epoch = clock.read()
    print(json.dumps({"import": imported, "first batch": first, "epoch": epoch}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", type=int, default=5000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--contestant", choices=CONTESTANTS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contestant:
        work(options.contestant, options.graphs, options.folder)
        return
    times: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for _ in range(options.runs):
        with tempfile.TemporaryDirectory() as folder:
            for name in CONTESTANTS:
                words = ["--graphs", str(options.graphs), "--contestant", name, "--folder", folder]
                command = [sys.executable, "-B", __file__, *words]
                said = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
                for what, pair in json.loads(said).items():
                    times.setdefault((what, name), []).append(tuple(pair))
            # The server that has just lost its last user may still write into the folder.
            while list(pathlib.Path(folder).glob("run-*")):
                time.sleep(0.01)
    print(f"{'':12} {'':8} {'seconds':>10} {'least':>10} {'processor':>10}")
    for what in ("import", "first batch", "epoch"):
        for name in CONTESTANTS:
            walls, used = zip(*times[what, name])
            print(
                f"{what:12} {name:8} {statistics.median(walls):10.3f} {min(walls):10.3f} "
                f"{statistics.median(used):10.3f}"
            )


if __name__ == "__main__":
    main()

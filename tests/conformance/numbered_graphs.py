"""Graphs that have their number as a feature, and two ranks that train on them: what tests of
trainers share.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from typing import Any

import numpy as np

from packhouse import Client, GraphSchema, GraphTable, TensorSpec

NUM_GRAPHS = 20
# Four graphs: five steps an epoch.
LIMITS = {"nodes": 8, "graphs": 4}


def store(client: Client, name: str) -> None:
    """Two nodes each, which have the number of their graph."""
    schema = GraphSchema(("nodes",), [TensorSpec("x", "float32", "nodes", (1,))])
    x = np.repeat(np.arange(NUM_GRAPHS, dtype=np.float32), 2)[:, np.newaxis]
    client.datasets.create(name, schema)
    client.datasets.append(name, GraphTable(schema, np.full((NUM_GRAPHS, 1), 2), {"x": x}))
    client.datasets.seal(name)


def run_ranks(program: str, *words: str) -> list[subprocess.CompletedProcess[str]]:
    """Runs the program as two ranks, by the variables of torchrun, Lightning and accelerate."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = []
    for rank in range(2):
        places = {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "NODE_RANK": "0",
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": "2",
            "LOCAL_WORLD_SIZE": "2",
            "ACCELERATE_USE_CPU": "true",
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, "-B", program, *words]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        ranks.append(subprocess.Popen(command, env={**os.environ, **places}, text=True, **pipes))
    done = []
    for process in ranks:
        try:
            out, errors = process.communicate(timeout=250)
        except subprocess.TimeoutExpired:
            process.kill()
            out, errors = process.communicate()
        done.append(subprocess.CompletedProcess(process.args, process.returncode, out, errors))
    return done


def told(ranks: list[subprocess.CompletedProcess[str]], word: str) -> list[int]:
    """The numbers in all lines that begin with the word, of ranks that have ended well."""
    assert [rank.returncode for rank in ranks] == [0, 0], "".join(rank.stderr for rank in ranks)
    lines = [line.split() for rank in ranks for line in rank.stdout.splitlines()]
    return [int(number) for line in lines if line[:1] == [word] for number in line[1:]]

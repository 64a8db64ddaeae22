"""Clients of lanes that lie, write where they like, and never release."""

from __future__ import annotations

import collections
import contextlib
import pathlib
import random
import re
import tempfile
import threading
import time
from typing import Final, Iterator

import numpy as np
from abuse import Abuse, Row, law, scenario
from hostile import own_channel
from hostile_lanes import DEEDS, LIES, HostileLane, connected, knock
from packhouse import Client, Evaluation, GraphSchema, GraphTable, TensorSpec
from packhouse.v1 import loader_pb2
from server_process import ServerProcess

# So large that few batches are made before a lane is open.
_WIDTH: Final = 16384
_GRAPHS: Final = 120
_LIMITS: Final = {"graphs": 4}
_HOSTILE_THREADS: Final = 3


def _fill(address: str) -> None:
    schema = GraphSchema(("nodes",), (TensorSpec("x", "float32", "nodes", (_WIDTH,)),))
    graphs = [{"x": np.full((3, _WIDTH), number, np.float32)} for number in range(_GRAPHS)]
    with Client(address) as client:
        client.datasets.create("set", schema)
        client.datasets.append("set", GraphTable.from_graphs(schema, graphs))
        client.datasets.seal("set")


def _request() -> loader_pb2.LoadRequest:
    request = loader_pb2.LoadRequest()
    request.epoch.dataset = "set"
    shape = request.epoch.rank_groups.add().shapes.add()
    shape.capacities.add(component="graphs", rows=4)
    request.evaluation.ranked.num_ranks = 1
    return request


def _is_as_stored(evaluation: Evaluation) -> bool:
    """Whether a pass has each graph once, with its values, also after others have come."""
    kept = list(evaluation)
    ids = sorted(int(each) for batch in kept for each in batch.graph_ids)
    return ids == list(range(_GRAPHS)) and all(
        (batch["x"] == np.repeat(batch.graph_ids, 3)[:, np.newaxis]).all() for batch in kept
    )


def _left(server: ServerProcess) -> tuple[int, int, int]:
    """Descriptors, mappings of lanes, and slots that clients have or streams that have lanes."""
    process = pathlib.Path(f"/proc/{server.process.pid}")
    metrics = server.get("/metrics")[1]
    return (
        len(list((process / "fd").iterdir())),
        (process / "maps").read_text(encoding="utf-8").count("packhouse-lane"),
        sum(map(int, re.findall(r"^packhouse_lane_(?:streams|slots)\S* (\d+)", metrics, re.M))),
    )


def _settled(server: ServerProcess, most_descriptors: int) -> tuple[int, int, int]:
    """What is left of clients that have gone: soon, or after a minute."""
    end = time.monotonic() + 60
    while True:
        left = _left(server)
        if (left[0] <= most_descriptors and left[1:] == (0, 0)) or time.monotonic() > end:
            return left


@scenario
def hostile_lanes(abuse: Abuse) -> Iterator[Row]:
    """Whatever some clients do with their lanes, another one has its batches."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        server = stack.enter_context(abuse.server("--lane", f"unix:{folder}/lane", data=True))
        _fill(server.address)
        honest = Evaluation(server.address, dataset="set", limits=_LIMITS, lane="auto")
        assert _is_as_stored(honest)
        before = _settled(server, 10**6)[0]
        end = time.monotonic() + (2 if abuse.is_short else abuse.seconds)
        endings: collections.Counter[str] = collections.Counter()
        failures: list[BaseException] = []

        def attack(seed: int) -> None:
            draws = random.Random(seed)
            rounds = 0
            with own_channel(server.address) as channel:
                while time.monotonic() < end or rounds < len(DEEDS):
                    deed = DEEDS[rounds % len(DEEDS)]
                    rounds += 1
                    knock(f"{folder}/lane", draws)
                    # Errors: the server has ended it.
                    with contextlib.suppress(OSError, StopIteration):
                        with HostileLane(channel, _request()) as lane:
                            deed(lane, draws)
                            if deed in LIES:
                                endings[lane.ends()] += 1

        def attacking(seed: int) -> None:
            try:
                attack(seed)
            except BaseException as error:
                failures.append(error)
                raise

        hostile = [
            threading.Thread(target=attacking, args=(seed,)) for seed in range(_HOSTILE_THREADS)
        ]
        for thread in hostile:
            thread.start()
        passes = [_is_as_stored(honest)]
        while any(thread.is_alive() for thread in hostile):
            passes.append(_is_as_stored(honest))
        for thread in hostile:
            thread.join()
        yield law(
            f"passes beside {sum(endings.values())} streams that lied",
            f"{passes.count(True)} of {len(passes)} as stored, by {honest.transport}",
            "all",
            all(passes) and not failures,
        )
        yield law(
            "how streams end whose clients lie",
            str(dict(endings)),
            "INVALID_ARGUMENT, or OK if all was sent before",
            endings["INVALID_ARGUMENT"] > endings["OK"] and endings.total() == sum(
                endings[code] for code in ("INVALID_ARGUMENT", "OK")
            ),
        )
        descriptors, mappings, streams = _settled(server, before + 2)
        yield law(
            "descriptors, mappings, streams and slots left",
            f"{descriptors}, {mappings}, {streams}",
            f"{before + 2}, 0, 0",
            descriptors <= before + 2 and (mappings, streams) == (0, 0),
        )
        with connected(f"{folder}/lane"):
            alive = server.process.poll() is None
        yield law("the server", "lives" if alive else "has ended", "lives", alive)

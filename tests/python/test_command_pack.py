"""What `packhouse pack` makes of a stream, with a server that only says what it is told to say."""

from __future__ import annotations

import contextlib
import pathlib
import types
from typing import Any, Iterator

import numpy as np
import pytest

from packhouse.command import pack_stream, program
from packhouse.data.batch import Padding
from packhouse.planning.pack_options import Rejection
from packhouse.v1 import packing_pb2


def batch(number: int, graph_ids: list[int], rows: tuple[int, int], padded: tuple[int, int]) -> Any:
    def by_name(of: tuple[int, int], graphs: int) -> dict[str, int]:
        return {"nodes": of[0], "edges": of[1], "graphs": graphs}

    real_rows, with_padding = by_name(rows, len(graph_ids)), by_name(padded, 4)
    return types.SimpleNamespace(
        id=number, graph_ids=np.array(graph_ids, np.uint64), real_rows=real_rows, rows=with_padding
    )


def shape(nodes: int, edges: int, share: float = 0) -> Any:
    limits = {"nodes": nodes, "edges": edges, "graphs": 0}
    usable = {"nodes": max(nodes - 1, 0), "edges": edges, "graphs": 0}
    return types.SimpleNamespace(limits=limits, usable=usable, expected_share=share)


class Streamed:
    """Stands for a client: the batches, and what is told before and after them."""

    def __init__(self) -> None:
        self.batches = [batch(0, [0, 2], (8, 3), (10, 6)), batch(1, [1], (4, 0), (6, 6))]
        self.rejected: list[list[int]] = [[3], [4]]
        usable = {"nodes": 9, "edges": 6, "graphs": 3}
        limits = {"nodes": 10, "edges": 6, "graphs": 4}
        self.opened = types.SimpleNamespace(limits=limits, usable=usable, look_ahead=64)
        self.tuned: Any = None
        self.drifts: list[Any] = []
        self.asked: list[Any] = []

    @contextlib.contextmanager
    def pack(self, graphs: Any, options: Any, reject: Any) -> Iterator[Any]:
        self.asked.append((graphs, options))
        stream = types.SimpleNamespace(opened=self.opened, tuned=self.tuned, drifts=[])

        class Batches(types.SimpleNamespace):
            def __iter__(inner) -> Iterator[Any]:  # noqa: N805
                yield from self.batches
                inner.drifts = self.drifts

        stream = Batches(**vars(stream))
        for numbers in self.rejected:
            reject([self._rejection(number) for number in numbers])
        yield stream

    @staticmethod
    def _rejection(number: int) -> Rejection:
        reason = packing_pb2.REJECTION_REASON_TOO_LARGE
        message = packing_pb2.Rejection(
            graph_id=number, reason=reason, component="nodes", value=11 + number, bound=9
        )
        return Rejection.from_proto(message)


@pytest.fixture
def streamed(monkeypatch: pytest.MonkeyPatch) -> Streamed:
    made = Streamed()

    @contextlib.contextmanager
    def connected(_: Any) -> Iterator[Any]:
        yield made

    now = iter([10.0, 12.5] * 9)
    monkeypatch.setattr(pack_stream, "connected", connected)
    monkeypatch.setattr(pack_stream, "time", types.SimpleNamespace(monotonic=lambda: next(now)))
    return made


@pytest.fixture
def sizes(tmp_path: pathlib.Path) -> str:
    path = tmp_path / "sizes.csv"
    path.write_text("nodes,edges\n3,2\n4,0\n5,1\n14,1\n15,1\n")
    return str(path)


LIMITS = ("--limit", "nodes=10", "--limit", "graphs=4")


def test_all_that_came_back_is_told(
    streamed: Streamed, sizes: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.csv"
    words = ("--padding", "graph", "--look-ahead", "7", "--max-age", "9", "--output", str(out))
    assert program.main(["pack", "--sizes", sizes, *LIMITS, *words]) == 0
    assert capsys.readouterr().out == (
        "5 graphs of sizes in the file's order; limits nodes=10, edges=6, graphs=4; edges without a "
        "limit; look-ahead 64\n"
        "usable beside the padding nodes=9, edges=6, graphs=3\n"
        "\n"
        "                                                           -- efficiency ---\n"
        "                         graphs  rejected  batches  gap %  nodes %  graphs %\n"
        "packhouse                     3         2        2   0.00    60.00     37.50\n"
        "next-fit, in this order       3         2        2   0.00    60.00     37.50\n"
        "no fewer batches than         3         2        2   0.00    60.00     37.50\n"
        "\n"
        "first rejected: graph 3 has 14 nodes, at most 9 fit a batch\n"
        "\n"
        "2 graphs/s, 2.500 s\n"
    )
    assert out.read_text() == "graph_id,batch_id\n0,0\n1,1\n2,0\n"
    ((graphs, options),) = streamed.asked
    assert graphs.sizes.tolist() == [[3, 2], [4, 0], [5, 1], [14, 1], [15, 1]]
    assert graphs.graph_ids.tolist() == [0, 1, 2, 3, 4]
    assert options.limits == {"nodes": 10, "graphs": 4} and options.padding is Padding.GRAPH
    assert (options.look_ahead, options.max_age) == (7, 9)
    assert options.drift is None and options.device is None and options.oversize.name == "REJECT"


def test_graphs_may_be_shuffled_and_a_histogram_is_spread_out(
    streamed: Streamed, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    path = tmp_path / "sizes.csv"
    path.write_text("nodes,edges,count\n3,2,30\n4,0,20\n")
    words = ["pack", "--sizes", str(path), *LIMITS, "--drift"]
    streamed.opened.usable = streamed.opened.limits
    streamed.batches, streamed.rejected = [batch(0, list(range(50)), (170, 60), (0, 0))], []
    assert program.main([*words, "--shuffle", "4"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("50 graphs of sizes in random order (seed 4); limits ")
    assert "rejected:" not in told and "usable beside" not in told
    ((graphs, options),) = streamed.asked
    order = graphs.graph_ids.tolist()
    assert sorted(order) == list(range(50)) != order and options.drift is not None
    assert graphs.sizes[:, 0].tolist() == [3 if number < 30 else 4 for number in order]
    assert program.main(words) == 0
    assert streamed.asked[1][0].graph_ids.tolist() == list(range(50))
    for most, status in ((50, 0), (49, 1)):
        monkeypatch.setattr(pack_stream, "_MOST_GRAPHS", most)
        assert program.main(words) == status
    told = f"packhouse: {path}: 50 graphs, at most 49 are streamed [OUT_OF_RANGE]\n"
    assert capsys.readouterr().err == told


def test_shapes_of_a_device_and_drifts_are_told(
    streamed: Streamed, sizes: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    device = tmp_path / "device.json"
    device.write_text('{"components": [{"component": "nodes", "max_rows": 20}]}')
    streamed.tuned = types.SimpleNamespace(
        shapes=[shape(10, 6, 0.75), shape(5, 0)], num_graphs=3, reasons=["because"]
    )
    offered = types.SimpleNamespace(shapes=[shape(7, 3)])
    streamed.drifts = [
        types.SimpleNamespace(first_graph=1, found_graph=2, loss=0.125, offered=offered, reasons=["so"]),
        types.SimpleNamespace(first_graph=3, found_graph=4, loss=0.5, offered=None, reasons=[]),
    ]
    for padding, filled in (("masked", "75.00"), ("none", "60.00")):
        words = ("--device", str(device), "--calibration-graphs", "3", "--padding", padding)
        assert program.main(["pack", "--sizes", sizes, *words]) == 0
        head, _, rest = capsys.readouterr().out.partition("\n\n")
        assert head == (
            "5 graphs of sizes in the file's order; limits nodes=10 edges=6; edges without a limit; "
            "look-ahead 64"
        )
        assert rest.startswith(
            "device.json: 2 shapes chosen from 3 graphs\n"
            "  nodes=10 edges=6: 75.0 % of full batches\n"
            "  nodes=5: batches that are not full\n"
            "- because\n"
            "\n"
        )
        (ours,) = [line.split() for line in rest.splitlines() if line.startswith("packhouse ")]
        assert ours == ["packhouse", "3", "2", "2", "0.00", filled]
        assert (
            "drift: the sizes changed at about graph 1 (found at 2); the limits waste 12.5 %; better: "
            "nodes=7 edges=3\n- so\n"
            "drift: the sizes changed at about graph 3 (found at 4); the limits waste 50.0 %\n"
        ) in rest
    assert streamed.asked[0][1].calibration_graphs == 3


@pytest.mark.parametrize(
    "batches, rejected, words",
    [
        ([batch(0, [0, 5], (1, 1), (1, 1))], [], "batch 0 has a graph which was not sent or came"),
        ([batch(2, [0, 0], (1, 1), (1, 1))], [], "batch 2 has a graph which was not sent or came"),
        (
            [batch(0, [0], (1, 1), (1, 1)), batch(1, [1, 0], (1, 1), (1, 1))], [],
            "batch 1 has a graph which was not sent or came",
        ),
        ([batch(0, [0, 1, 2], (1, 1), (1, 1))], [[3]], "3 graphs came back and 1 were rejected of 5"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_an_error_of_the_servers(
    streamed: Streamed, sizes: str, capsys: pytest.CaptureFixture[str],
    batches: list[Any], rejected: list[list[int]], words: str,
) -> None:  # fmt: skip
    streamed.batches, streamed.rejected = batches, rejected
    assert program.main(["pack", "--sizes", sizes, *LIMITS]) == 1
    told = capsys.readouterr()
    assert words in told.err and told.err.endswith("[INTERNAL]\n") and not told.out


@pytest.mark.parametrize("rejected, status", [([[3, 4]], 0), ([[2, 3], [4]], 1)])
def test_a_stream_that_loses_most_of_its_graphs_fails(
    streamed: Streamed, sizes: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str],
    rejected: list[list[int]], status: int,
) -> None:  # fmt: skip
    """After all has been told and written."""
    if status:
        streamed.batches[0] = batch(0, [0], (3, 2), (10, 6))
    streamed.rejected = rejected
    device = tmp_path / "device.json"
    device.write_text('{"components": [{"component": "nodes", "max_rows": 20}]}')
    for words, advice in ((LIMITS, "raise --limit"), (("--device", str(device)), "of --device allows")):
        streamed.tuned = types.SimpleNamespace(shapes=[shape(10, 6)], num_graphs=3, reasons=[])
        assert program.main(["pack", "--sizes", sizes, *words]) == status
        told = capsys.readouterr()
        assert "graphs/s" in told.out
        assert not told.err or "3 of 5 graphs, which is most of them" in told.err and advice in told.err

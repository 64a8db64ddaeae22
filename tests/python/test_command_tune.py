"""What `packhouse tune` asks a server, and what it makes of a stream of answers."""

from __future__ import annotations

import contextlib
import json
import pathlib
from typing import Any, Iterator

import pytest

from packhouse.command import program, tune
from packhouse.data.batch import Padding
from packhouse.planning.tuning import TuneObjective
from packhouse.v1 import planning_pb2


class Asked:
    """Stands for the server: notes each request, and gives these events of each."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.has_recommendation = True

    def answers(self, client: Any, method: str, request: Any) -> Iterator[Any]:
        assert method == "planning.Planning.Tune"
        self.requests.append(request)
        progress = planning_pb2.TuneProgress(candidates=100, planned=2, excluded=98)
        yield planning_pb2.TuneResponse(progress=progress)
        yield planning_pb2.TuneResponse(frontier=self.shape(5, 700))
        yield planning_pb2.TuneResponse(frontier=self.shape(9, 400))
        told = planning_pb2.TuneRecommendation(epoch_cost=3600, least_cost=3000, exact=True)
        told.reasons.append("Because.")
        if self.has_recommendation:
            told.shapes.append(self.shape(9, 400))
            told.single_shape.CopyFrom(self.shape(9, 400))
        yield planning_pb2.TuneResponse(recommendation=told)

    @staticmethod
    def shape(nodes: int, packs: int) -> Any:
        made = planning_pb2.TunedShape(packs=packs, lower_bound=packs, epoch_cost=nodes * packs)
        made.components.add(component="nodes", capacity=nodes, efficiency=0.5)
        made.components.add(component="edges", efficiency=1)
        made.components.add(component="graphs", efficiency=1)
        return made


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    made = Asked()

    @contextlib.contextmanager
    def connected(_: Any) -> Iterator[str]:
        yield "client"

    monkeypatch.setattr(tune, "connected", connected)
    monkeypatch.setattr(tune, "answers", made.answers)
    return made


@pytest.fixture
def sizes(tmp_path: pathlib.Path) -> str:
    path = tmp_path / "sizes.csv"
    path.write_text("nodes,edges\n2,1\n3,0\n3,0\n")
    return str(path)


def test_every_option_is_in_the_request(asked: Asked, sizes: str) -> None:
    words = (
        *("--max", "nodes=20", "--min", "nodes=2", "--memory", "1KiB", "--shapes", "3"),
        *("--fixed-cost", "2.5", "--padding", "tfgnn", "--index-into", "edges", "--ragged", "edges"),
        *("--objective", "harmonic-mean", "--budget-steps", "77", "--seed", "5"),
    )
    assert program.main(["tune", "--sizes", sizes, *words]) == 0
    (request,) = asked.requests
    expected = planning_pb2.TuneRequest(
        objective=int(TuneObjective.HARMONIC_MEAN),
        budget_steps=77,
        seed=5,
        padding=int(Padding.TFGNN),
        index_targets=["edges"],
        ragged_components=["edges"],
    )
    expected.histogram.CopyFrom(request.histogram)
    profile = expected.profile
    profile.memory_bytes, profile.max_distinct_shapes, profile.fixed_cost = 1024, 3, 2.5
    profile.components.add(component="nodes", max_rows=20, min_rows=2)
    assert request == expected and list(request.histogram.components) == ["nodes", "edges"]
    assert program.main(["tune", "--sizes", sizes, "--max", "nodes=20"]) == 0
    assert asked.requests[1].objective == int(TuneObjective.EPOCH_COST)


def test_what_is_recommended_is_told(
    asked: Asked, sizes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["tune", "--sizes", sizes, "--max", "nodes=20"]
    assert program.main([*words, "--memory", "1KiB", "--shapes", "2", "--padding", "masked"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(
        "3 graphs of 2 sizes in sizes; at most nodes=20, 1.0 KiB, 2 shapes; edges without a limit, "
        "padding masked\n\nrecommended  nodes=9: 400 packs"
    )
    assert "(100 candidates: 2 planned, 98 excluded by their bounds)" in text
    assert "\nwhy\n- Because.\n\nfrontier: " in text
    assert [line.split()[2] for line in text.splitlines()[-2:]] == ["5", "9"]
    assert program.main([*words, "--shapes", "1"]) == 0
    assert capsys.readouterr().out.startswith(
        "3 graphs of 2 sizes in sizes; at most nodes=20; edges without a limit\n\n"
    )
    assert program.main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [each["packs"] for each in told["frontier"]] == [700, 400]
    assert [each["packs"] for each in told["shapes"]] == [400] and told["reasons"] == ["Because."]


def test_an_answer_without_a_recommendation_is_an_error(
    asked: Asked, sizes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked.has_recommendation = False
    assert program.main(["tune", "--sizes", sizes, "--max", "nodes=20"]) == 1
    told = "packhouse: the server's answer ended without a recommendation [INTERNAL]\n"
    assert capsys.readouterr().err == told


@pytest.mark.parametrize(
    "words, told",
    [
        (("--sizes", "s", "--dataset", "d"), "one of --sizes, --dataset and --histogram is needed"),
        (("--dataset", "d"), "data set d: needs --server"),
        (("--sizes", "s", "--axes", "nodes"), "--axes chooses what is drawn: it needs --plot"),
    ],
)
def test_what_contradicts_itself_is_named_before_anything_is_read(
    asked: Asked, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: str
) -> None:
    assert program.main(["tune", "--max", "nodes=20", *words]) == 2
    assert capsys.readouterr().err.startswith(f"packhouse: {told}") and not asked.requests

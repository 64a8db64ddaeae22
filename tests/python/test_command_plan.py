"""What `packhouse plan` asks a server, call by call, and what it makes of the answers."""

from __future__ import annotations

import contextlib
import json
import math
import pathlib
from typing import Any, Iterator

import grpc
import pytest

from packhouse.base.errors import PackhouseError
from packhouse.command import plan_calls, program
from packhouse.command.connection import CALL_SECONDS
from packhouse.data.batch import Padding
from packhouse.planning.plans import PlanAlgorithm, PriorityKind
from packhouse.v1 import planning_pb2, receipts_pb2

LIMITS = ("--limit", "nodes=9", "--limit", "graphs=4")


class Asked:
    """Stands for the server: notes each request, and answers with the summary that was asked for."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any, float]] = []
        self.failing: dict[int, str] = {}
        self.kept = False

    def ask(self, client: Any, method: str, request: Any, seconds: float = CALL_SECONDS) -> Any:
        kept = type(request)()
        kept.CopyFrom(request)
        self.calls.append((method, kept, seconds))
        code = self.failing.get(len(self.calls))
        if code:
            raise PackhouseError(grpc.StatusCode[code], "said so")
        response = planning_pb2.PlanResponse()
        response.best.name, response.best.packs, response.best.lower_bound = "optimized", 8, 8
        response.best.lower_bound_name, response.best.receipt = "volume", "v1-1"
        response.best.lower_bound_kind = planning_pb2.LOWER_BOUND_KIND_VOLUME
        response.best.elapsed.seconds = 3
        for component in ("nodes", "edges", "graphs"):
            response.best.components.add(component=component)
        response.plan.patterns.add(repeats=7)
        for heuristic in request.heuristics if method.endswith("Plan") else ():
            made = response.summaries.add(packs=10, keeps_limits=True)
            made.heuristic.CopyFrom(heuristic)
            made.name = f"planner {heuristic.algorithm}"
        if method.endswith("Replan"):
            told = receipts_pb2.ReplanResponse(plan=response)
            if self.kept:
                told.job, told.epoch, told.dataset = "run", 3, "molhiv"
            return told
        return response


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    made = Asked()

    @contextlib.contextmanager
    def connected(_: Any) -> Iterator[str]:
        yield "client"

    monkeypatch.setattr(plan_calls, "connected", connected)
    monkeypatch.setattr(plan_calls, "ask", made.ask)
    return made


@pytest.fixture
def sizes(tmp_path: pathlib.Path) -> str:
    path = tmp_path / "sizes.csv"
    path.write_text("nodes,edges\n2,1\n3,0\n3,0\n")
    return str(path)


def plan(*words: str) -> None:
    assert program.main(["plan", *words]) == 0


def test_every_option_is_in_the_request(asked: Asked, sizes: str, tmp_path: pathlib.Path) -> None:
    start = str(tmp_path / "start.plan")
    plan("--sizes", sizes, *LIMITS, "--save-plan", start, "--compare", "none")
    plan(
        *("--sizes", sizes, *LIMITS, "--padding", "tfgnn", "--index-into", "edges"),
        *("--ragged", "edges", "--budget-steps", "77", "--seed", "5", "--warm-start", start),
        *("--heuristic", "optimized", "--heuristic", "best-fit:nodes"),
    )
    expected = planning_pb2.PlanRequest(
        budget_steps=77,
        seed=5,
        padding=int(Padding.TFGNN),
        index_targets=["edges"],
        ragged_components=["edges"],
        summaries_only=True,
    )
    expected.histogram.CopyFrom(asked.calls[0][1].histogram)
    expected.limits.capacities.add(component="nodes", rows=9)
    expected.limits.capacities.add(component="graphs", rows=4)
    for text in ("optimized", "best-fit:nodes"):
        made = plan_calls.heuristic_of(text, ["nodes", "edges"])
        expected.heuristics.add().CopyFrom(made.to_proto())
    expected.warm_start.patterns.add(repeats=7)
    # With heuristics, nothing else is asked for.
    assert [call[1] for call in asked.calls[1:]] == [expected]
    assert list(asked.calls[0][1].histogram.components) == ["nodes", "edges"]
    kept = planning_pb2.PlanResponse.FromString(pathlib.Path(start).read_bytes())
    assert kept.best.packs == 8 and not kept.best.HasField("elapsed") and not kept.summaries


@pytest.mark.parametrize(
    "words, whole", [((), False), (("--patterns", "1"), True), (("--save-plan", "FILE"), True)]
)
def test_a_whole_plan_is_asked_for_where_it_is_shown_or_kept(
    asked: Asked, sizes: str, tmp_path: pathlib.Path, words: tuple[str, ...], whole: bool
) -> None:
    words = tuple(str(tmp_path / "a.plan") if word == "FILE" else word for word in words)
    plan("--sizes", sizes, *LIMITS, "--compare", "none", *words)
    plan("--sizes", sizes, "--receipt", "v1-1", *words)
    assert [call[1].summaries_only for call in asked.calls] == [not whole] * 2


@pytest.mark.parametrize("compare, seconds", [("all", CALL_SECONDS), ("quick", 30.0)])
def test_each_planner_is_a_call_of_its_own(
    asked: Asked, sizes: str, capsys: pytest.CaptureFixture[str], compare: str, seconds: float
) -> None:
    asked.failing = {3: "DEADLINE_EXCEEDED", 5: "RESOURCE_EXHAUSTED"}
    plan("--sizes", sizes, *LIMITS, "--compare", compare, "--compare-seconds", "30", "--json")
    told = json.loads(capsys.readouterr().out)
    compared = plan_calls.Compared(True, True, True)
    wanted = plan_calls.summaries_to_fill({"nodes": 9, "graphs": 4}, ["nodes", "edges"], compared)
    calls = asked.calls[1:]
    assert len(calls) == len(wanted) == len(told["summaries"])
    alone = planning_pb2.PlanHeuristic(algorithm=int(PlanAlgorithm.NO_PACKING))
    for (method, request, within), summary in zip(calls, wanted):
        assert method == "planning.Planning.Plan" and request.summaries_only
        assert 0.9 * seconds < within <= seconds
        is_single = summary.heuristic.algorithm == PlanAlgorithm.SINGLE_COMPONENT
        assert list(request.heuristics) == [alone] * is_single + [summary.heuristic]
    names = [each["name"] for each in told["summaries"]]
    for number in (3, 5):
        assert names[number - 2] == wanted[number - 2].name
    unfinished = [place + 2 for place, each in enumerate(told["summaries"]) if each["unfinished"]]
    assert unfinished == [3, 5]
    done = told["summaries"][0]
    assert (done["packs"], done["lower_bound"], done["lower_bound_name"]) == (10, 8, "volume")
    assert done["gap"] == 0.25 and not done["optimal"]


def test_planners_that_are_left_out_are_not_asked_for(asked: Asked, sizes: str) -> None:
    def num_calls(*words: str, compare: str = "all") -> int:
        asked.calls.clear()
        plan("--sizes", sizes, *LIMITS, "--limit", "edges=9", "--compare", compare, *words)
        return len(asked.calls) - 1

    left_out = ("--no-tuple-packing", "--no-notebook", "--no-baselines")
    whole, *others = (num_calls(*words) for words in ((), *((word,) for word in left_out)))
    # First-fit decreasing, and four rules of six priorities; those of the notebook; no packing, two alone.
    assert [whole - each for each in others] == [1 + 4 * 6, 6, 3]
    assert num_calls(*left_out) == num_calls(compare="none") == 0


def test_other_failures_of_the_comparison_end_it(
    asked: Asked, sizes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked.failing = {2: "INVALID_ARGUMENT"}
    assert program.main(["plan", "--sizes", sizes, *LIMITS]) == 1
    assert capsys.readouterr().err == "packhouse: said so [INVALID_ARGUMENT]\n"
    assert len(asked.calls) == 2


def test_plans_are_measured_by_the_bound_of_the_best(asked: Asked) -> None:
    best = planning_pb2.PlanSummary(
        lower_bound=8, lower_bound_name="volume", lower_bound_kind=planning_pb2.LOWER_BOUND_KIND_VOLUME
    )
    for packs, keeps, bound, expected in (
        (8, True, 8, (True, 0.0)),
        (8, False, 8, (False, 0.0)),
        (10, True, 8, (False, 0.25)),
        (10, True, 0, (False, 7.0)),
    ):
        best.lower_bound = bound
        summary = planning_pb2.PlanSummary(packs=packs, keeps_limits=keeps, gap=7)
        plan_calls._measure(summary, best)
        assert (summary.optimal, summary.gap) == expected
        assert summary.lower_bound == bound and summary.lower_bound_name == "volume"
        assert summary.lower_bound_kind == best.lower_bound_kind
    # No time is left for any; and what starts from a plan is not what the others start from.
    shown: list[Any] = []
    request = planning_pb2.PlanRequest(seed=4)
    request.warm_start.patterns.add(repeats=1)
    made = plan_calls.summaries_to_fill({"nodes": 9}, ["nodes"], plan_calls.Compared())
    plan_calls.fill("client", request, best, 0, shown.append, made)  # type: ignore[arg-type]
    assert not asked.calls and not shown
    plan_calls.fill("client", request, best, math.inf, shown.append, made[:1])  # type: ignore[arg-type]
    ((_, sent, _),) = asked.calls
    assert sent.seed == 4 and not sent.HasField("warm_start") and request.HasField("warm_start")
    assert shown == made[:1] and made[0].packs == 10


def test_a_receipt_is_of_sizes_or_of_what_a_server_has(
    asked: Asked, sizes: str, capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    start = str(tmp_path / "start.plan")
    plan("--sizes", sizes, *LIMITS, "--save-plan", start, "--compare", "none")
    histogram = asked.calls.pop()[1].histogram
    capsys.readouterr()
    asked.kept = True
    here = ("--receipt", "v1-1", "--server", "s")
    for words in (
        (*here, "--sizes", sizes),
        (*here, "--sizes", sizes, "--warm-start", start),
        (*here, "--dataset", "molhiv"),
        (*here, "--histogram", "kept"),
        here,
    ):
        plan(*words)
    assert capsys.readouterr().out == 5 * (
        "packs        8\n"
        "lower bound  8\n"
        "kept for     epoch 3 of job run, of molhiv\n"
        "receipt      v1-1\n"
    )
    expected = [receipts_pb2.ReplanRequest(receipt="v1-1", summaries_only=True) for _ in range(5)]
    for each in expected[:2]:
        each.histogram.CopyFrom(histogram)
    expected[1].warm_start.patterns.add(repeats=7)
    expected[2].dataset, expected[3].histogram_name = "molhiv", "kept"
    assert [call[:2] for call in asked.calls] == [("receipts.Receipt.Replan", e) for e in expected]
    asked.kept = False
    plan(*here, "--json", "--patterns", "1")
    told = json.loads(capsys.readouterr().out)
    assert told["best"]["packs"] == 8 and len(told["patterns"]) == 1
    plan(*here, "--save-plan", start, "--patterns", "1")
    out = capsys.readouterr().out
    assert out.startswith("packs        8, proved optimal" if "proved" in out else "packs        8, ")
    assert "\n\nfirst 1 of the 1 patterns of optimized, graphs as (nodes, edges)\n" in out
    assert planning_pb2.PlanResponse.FromString(pathlib.Path(start).read_bytes()).best.packs == 8


@pytest.mark.parametrize(
    "words, told",
    [
        ((), "one of --sizes, --dataset and --histogram is needed"),
        (("--dataset", "d", *LIMITS), "data set d: needs --server: a server that is started"),
        (("--histogram", "h", *LIMITS), "histogram h: needs --server: a server that is started"),
        (("--sizes", "s"), "--limit is required without --receipt"),
        (("--receipt", "r"), "--server: needed with --receipt, unless --sizes says"),
        (("--receipt", "r", "--sizes", "s", "--dataset", "d"), "--sizes, --dataset, --histogram: the"),
        (("--receipt", "r", "--server", "s", "--warm-start", "w"), "--warm-start with --receipt needs"),
        *(
            (("--receipt", "r", f"--{name}", value), f"--{name}: not with --receipt, which says")
            for name, value in (
                ("limit", "nodes=1"),
                ("heuristic", "optimized"),
                ("budget-steps", "1"),
                ("seed", "1"),
                ("plot", "a.svg"),
            )
        ),
        *(
            (
                ("--sizes", "s", *LIMITS, "--heuristic", "no-packing", f"--{name}", "1"),
                f"--{name} is for the heuristic 'optimized', which is not among those",
            )
            for name in ("budget-steps", "seed", "warm-start")
        ),
    ],
)
def test_what_contradicts_itself_is_named_before_anything_is_read(
    asked: Asked, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: str
) -> None:
    assert program.main(["plan", *words]) == 2
    assert capsys.readouterr().err.startswith(f"packhouse: {told}")
    assert not asked.calls


@pytest.mark.parametrize(
    "text, told",
    [
        ("best-fit:width", "'width' is none of product, sum, max, min, nodes, edges"),
        ("single-component:sum", "'sum' is none of nodes, edges"),
        ("best-fit", "'' is none of product, sum, max, min, nodes, edges"),
        ("worst-fit:sum", "must be optimized, first-fit-decreasing, "),
    ],
)
def test_a_heuristic_that_there_is_not_is_named(text: str, told: str) -> None:
    with pytest.raises(plan_calls.Misuse) as raised:
        plan_calls.heuristic_of(text, ["nodes", "edges"])
    assert raised.value.message.startswith(f"--heuristic '{text}': {told}")


def test_a_priority_hides_a_component_of_its_name() -> None:
    made = plan_calls.heuristic_of("filling-first-fit:sum", ["sum", "nodes"])
    assert made.priority is PriorityKind.SUM and not made.component
    made = plan_calls.heuristic_of("notebook:nodes", ["sum", "nodes"])
    assert made.priority is PriorityKind.COMPONENT and made.component == "nodes"
    assert made.algorithm is PlanAlgorithm.NOTEBOOK

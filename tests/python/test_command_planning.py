"""What `packhouse plan`, `tune` and `pack` print: pure functions of the server's answers."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest

from packhouse.command import pack_stream, plan_calls, plan_report, tune_report
from packhouse.command.tune import profile_of
from packhouse.command.failures import Failure, Misuse
from packhouse.command.sizes import read_sizes
from packhouse.data.histogram import Histogram
from packhouse.planning.pack_options import Rejection
from packhouse.planning.plans import PlanAlgorithm
from packhouse.v1 import packing_pb2, planning_pb2

COMPONENTS = ["nodes", "edges"]
MANY = (1 << 64) - 1


def summary(name: str, algorithm: PlanAlgorithm, packs: int, **fields: Any) -> Any:
    message = planning_pb2.PlanSummary(
        name=name, packs=packs, lower_bound=1000, lower_bound_name="lifted volume of nodes",
        gap=packs / 1000 - 1, optimal=packs == 1000, keeps_limits=True, **fields,
    )  # fmt: skip
    message.heuristic.algorithm = int(algorithm)
    message.components.add(
        component="nodes", capacity=222, efficiency=0.99975, fullest_pack=222,
        efficiency_of_fullest=0.99975,
    )  # fmt: skip
    message.components.add(component="graphs", efficiency=1)
    return message


def optimized(packs: int) -> Any:
    made = summary(
        "optimized", PlanAlgorithm.OPTIMIZED, packs, winner="mixing", steps=1234567,
        receipt="v1-0123",
    )  # fmt: skip
    made.elapsed.nanos = 500_000_000
    return made


def others() -> list[Any]:
    return [
        summary("no packing", PlanAlgorithm.NO_PACKING, 32901),
        summary("best-fit sum", PlanAlgorithm.TUPLE_PACKING, 1010),
        summary("filling best-fit sum", PlanAlgorithm.TUPLE_PACKING, 0, unfinished=True),
    ]


def test_a_certificate_says_how_far_from_the_best_a_plan_may_be() -> None:
    assert plan_report.certificate(optimized(1000)) == (
        "packs        1,000, proved optimal: no plan has fewer\n"
        "lower bound  1,000, by lifted volume of nodes\n"
        "efficiency   nodes 99.975 %\n"
        "found by     mixing, 1,234,567 steps, 500.0 ms\n"
        "receipt      v1-0123\n"
    )
    other = summary("best-fit sum", PlanAlgorithm.TUPLE_PACKING, 1003)
    other.elapsed.seconds = 61
    text = plan_report.certificate(other)
    assert text.startswith(
        "packs        1,003, at most 3 (0.3 %) more than the fewest possible\n"
    )
    assert text.endswith("found by     best-fit sum, 61.00 s\n")


def test_summaries_come_in_sections_and_the_best_has_a_star() -> None:
    response = planning_pb2.PlanResponse(best=optimized(1000))
    for each in (
        summary("no packing", PlanAlgorithm.NO_PACKING, 32901),
        summary("notebook sum", PlanAlgorithm.NOTEBOOK, 1025),
        summary("best-fit sum", PlanAlgorithm.TUPLE_PACKING, 1010),
        optimized(1000),
        summary("first-fit decreasing", PlanAlgorithm.FIRST_FIT_DECREASING, 0, unfinished=True),
    ):
        response.summaries.add().CopyFrom(each)
    lines = plan_report.summary_table(response).splitlines()
    assert [line.split("  ")[0] or line[2:].split("  ")[0] for line in lines[2:]] == [
        "* optimized", "first-fit decreasing", "", "the paper's tuple packing", "best-fit sum", "",
        "as the paper's companion notebook computes it", "notebook sum", "",
        "baselines (a single component ignores the other limits)", "no packing",
        "* the fewest packs",
    ]  # fmt: skip
    assert lines[2].split() == ["*", "optimized", "1000", "1000", "0.00", "99.98", "99.98"]


def test_rows_of_a_comparison_come_one_by_one_in_columns() -> None:
    table = plan_report.ComparisonTable(optimized(1000), others())
    text = table.head() + "".join(map(table.row, others()))
    assert text == (
        "                                                             efficiency %  "
        "of the fullest pack %\n"
        "  planner                    packs  lower bound       gap %         nodes  "
        "                nodes\n"
        "* optimized                   1000         1000        0.00         99.98  "
        "                99.98\n"
        "\n"
        "baselines (a single component ignores the other limits)\n"
        "  no packing                 32901         1000     3190.10         99.98  "
        "                99.98\n"
        "\n"
        "the paper's tuple packing\n"
        "  best-fit sum                1010         1000        1.00         99.98  "
        "                99.98\n"
        "  filling best-fit sum  unfinished\n"
    )
    end = plan_report.comparison_end(optimized(1000), others(), False)
    assert end.endswith("unfinished: filling best-fit sum; --compare all waits for them\n")
    end = plan_report.comparison_end(optimized(1011), others()[:2], True)
    assert end == "fewer packs than * have: best-fit sum (1010)\n"


def with_patterns() -> Any:
    response = planning_pb2.PlanResponse(best=optimized(1000))
    response.plan.tuples = np.array([20, 44, 7, 8], "<u4").tobytes()
    for repeats in (990, 10):
        pattern = response.plan.patterns.add(repeats=repeats)
        for number in (1, 0):
            pattern.entries.add(tuple=number, copies=number + 3)
    return response


def test_patterns_are_listed_and_in_the_json() -> None:
    response = with_patterns()
    assert plan_report.pattern_list(response, COMPONENTS, 1) == (
        "first 1 of the 2 patterns of optimized, graphs as (nodes, edges)\n"
        "    990 packs of  4 x (7, 8) + 3 x (20, 44)\n"
    )
    told = plan_report.plan_json(response, COMPONENTS, 1)
    assert told["patterns"] == [
        {
            "repeats": 990,
            "graphs": [
                {"nodes": 7, "edges": 8, "copies": 4},
                {"nodes": 20, "edges": 44, "copies": 3},
            ],
        }
    ]
    assert told["best"] | {"components": None} == {
        "name": "optimized", "section": "planner", "unfinished": False, "packs": 1000,
        "lower_bound": 1000, "lower_bound_name": "lifted volume of nodes", "gap": 0,
        "optimal": True, "keeps_limits": True, "num_patterns": 0, "elapsed_seconds": 0.5,
        "winner": "mixing", "steps": 1234567, "receipt": "v1-0123", "components": None,
    }  # fmt: skip
    assert "patterns" not in plan_report.plan_json(response, COMPONENTS, 0)


def test_planners_that_suit_the_limits_are_compared() -> None:
    def names(limits: dict[str, int], *left_out: str) -> list[str]:
        compared = plan_calls.Compared(**{name: False for name in left_out})
        made = plan_calls.summaries_to_fill(limits, COMPONENTS, compared)
        assert all(one.unfinished for one in made)
        return [one.name for one in made]

    both = names({"nodes": 100, "edges": 200, "graphs": 7})
    assert len(both) == len(set(both)) == 1 + 3 + 4 * 8 + 6
    assert both[:4] == ["first-fit decreasing", "no packing", "nodes alone", "edges alone"]
    assert "filling first-fit max weighted 32,16" in both
    # Equal weights change nothing.
    assert not any("weighted" in name for name in names({"nodes": 9, "edges": 9}))
    # The notebook wants a limit of each component.
    assert not any("notebook" in name for name in names({"nodes": 9}))
    assert names({"nodes": 9}, "tuple_packing", "notebook") == ["no packing", "nodes alone"]
    assert names({"nodes": 9}, "tuple_packing", "notebook", "baselines") == []


def test_a_plan_file_comes_back_without_times(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "a.plan")
    plan_calls._save(path, with_patterns())
    read = plan_calls._read_plan(path, ["nodes"])
    assert read == with_patterns().plan
    for components, content, told in (
        (COMPONENTS, None, "is a plan of nodes, but the sizes have nodes, edges"),
        (["nodes"], b"\x80\x04garbage", "is no plan that `packhouse plan --save-plan` wrote"),
        (["nodes"], b"", "is no plan"),
    ):
        if content is not None:
            (tmp_path / "a.plan").write_bytes(content)
        with pytest.raises(Failure, match=told):
            plan_calls._read_plan(path, components)


# tune


def shape(nodes: int, edges: int, packs: int) -> Any:
    made = planning_pb2.TunedShape(
        packs=packs, lower_bound=packs - 1, epoch_cost=packs * (nodes + edges),
        harmonic_mean=0.99996,
    )  # fmt: skip
    for name, capacity in (("nodes", nodes), ("edges", edges), ("graphs", 0)):
        made.components.add(
            component=name, capacity=capacity, efficiency=0.99996 if capacity else 1
        )
    return made


def one_shape() -> tune_report.Outcome:
    told = planning_pb2.TuneRecommendation(
        shapes=[shape(381, 816, 2181)], single_shape=shape(381, 816, 2181),
        epoch_cost=2181 * (381 + 816), least_cost=2610542, harmonic_mean=0.99996, exact=True,
        reasons=["Because."],
    )  # fmt: skip
    progress = planning_pb2.TuneProgress(candidates=589824, planned=2, excluded=589822)
    return tune_report.Outcome(
        progress, told, [shape(233, 502, 3567), shape(381, 816, 2181)]
    )


def profile() -> Any:
    made = planning_pb2.DeviceProfile()
    for name in COMPONENTS:
        made.components.add(component=name, max_rows=1024)
    return made


def recommendation(outcome: tune_report.Outcome) -> str:
    return tune_report.recommendation_text(outcome, profile(), COMPONENTS)


def test_one_shape_is_recommended_with_its_reasons() -> None:
    assert recommendation(one_shape()) == (
        "recommended  nodes=381, edges=816: 2,181 packs, harmonic mean of efficiencies 99.996 %\n"
        "cost         2,610,657 an epoch; padding adds 0.0044 % to the 2,610,542 of real rows\n"
        "search       exact: no other allowed limits are better (589,824 candidates: 2 planned, "
        "589,822 excluded by their bounds)\n"
        "\n"
        "       -- limit ---   efficiency %\n"
        "shape  nodes  edges   nodes   edges  packs  lower bound  of the cost %\n"
        "1        381    816  99.996  99.996   2181         2180         100.00\n"
        "\n"
        "why\n"
        "- Because.\n"
    )


def test_the_cheapest_and_the_cost_of_a_step_are_told_beside_it() -> None:
    outcome = one_shape()
    outcome.recommendation.cheapest_shape.CopyFrom(shape(100, 200, 9000))
    text = recommendation(outcome)
    assert "search       exact: no allowed limits cost less than nodes=100, edges=200 (" in text
    assert "\ncheapest     nodes=100, edges=200: 9,000 packs, " in text
    assert " an epoch; the recommended limits cost hardly more in fewer steps\n" in text
    costly = profile()
    costly.fixed_cost = 1000
    told = tune_report.recommendation_text(outcome, costly, COMPONENTS)
    assert "padding and the cost of a step add " in told and "padding adds" not in told
    outcome.recommendation.least_cost = 0
    assert " an epoch; the real rows cost nothing\n" in recommendation(outcome)


def test_several_shapes_show_their_gain_and_memory() -> None:
    outcome = one_shape()
    told = outcome.recommendation
    told.shapes.add().CopyFrom(shape(100, 200, 50))
    told.shapes[0].batch_bytes = 1 << 20
    told.shapes[1].batch_bytes = 1 << 10
    told.epoch_cost = 0.5 * told.single_shape.epoch_cost
    told.exact = False
    text = recommendation(outcome)
    assert "recommended  2 shapes: 2,231 packs" in text
    assert "search       the best set of shapes found; not every set was tried" in text
    assert (
        "gain         50 % of the cost of the best single shape: nodes=381, edges=816 with 2,181 "
        "packs costs 2,610,657\n"
    ) in text
    assert "1.0 MiB" in text and "1.0 KiB" in text


def test_an_ended_budget_is_said() -> None:
    outcome = one_shape()
    outcome.recommendation.exact = False
    outcome.progress.excluded = 17
    outcome.progress.candidates = MANY
    assert (
        "search       the best found; the budget ended before all others were excluded (more than "
        "2^64 candidates: 2 planned, 17 excluded by their bounds)\n"
    ) in recommendation(outcome)


def test_graphs_that_are_left_out_come_with_what_would_take_them() -> None:
    outcome = one_shape()
    over = outcome.recommendation.oversize
    over.num_graphs = 1
    over.largest.extend([47175, 47174])
    over.needed_rows.extend([47176, 0])
    assert (
        "too large    1 graph that no allowed limits take, left out; the largest has nodes=47175, "
        "edges=47174; to take all: --max nodes=47176\n"
    ) in recommendation(outcome)
    assert tune_report.tune_json(outcome, COMPONENTS)["oversize"] == {
        "num_graphs": 1, "largest": {"nodes": 47175, "edges": 47174}, "num_apart": 0,
        "needed_rows": {"nodes": 47176}, "needed_bytes": 0, "num_shapes": 0,
    }  # fmt: skip
    # Only what the profile lacks is advised: rows that max_rows allows do not help where the memory
    # is short.
    over.num_graphs = over.num_apart = 2
    over.largest[:] = [10, 999]
    over.needed_rows[:] = [1000, 999]
    over.needed_bytes = 1999
    assert (
        "too large    2 graphs that do not fit one shape together with the others, left out; the "
        "largest has nodes=10, edges=999; to take all: --memory 1999\n"
    ) in recommendation(outcome)
    over.num_graphs = 3
    over.needed_rows[1] = 2000
    assert (
        "too large    1 graph that no allowed limits take and 2 graphs that do not fit one shape "
        "together with the others, left out; the largest has nodes=10, edges=999; to take all: "
        "--max edges=2000 --memory 1999\n"
    ) in recommendation(outcome)
    over.num_shapes = 4
    assert "2 graphs that do not fit 4 shapes together with the others" in recommendation(outcome)


def test_groups_of_graphs_take_the_place_of_the_gain() -> None:
    """One shape does not take what the groups take, so their costs are not compared."""
    outcome = one_shape()
    outcome.recommendation.shapes.add().CopyFrom(outcome.recommendation.shapes[0])
    assert "\ngain  " in recommendation(outcome)
    outcome.recommendation.group_graphs.extend([7000, 30])
    assert (
        "\ngroups       no one shape takes all graphs: 2 groups, of 7,000, 30 graphs, have shapes of "
        "their own\n"
    ) in recommendation(outcome)
    assert "\ngain  " not in recommendation(outcome)
    assert tune_report.tune_json(outcome, COMPONENTS)["group_graphs"] == [7000, 30]


def test_a_frontier_is_a_table_of_few_points() -> None:
    outcome = one_shape()
    assert tune_report.frontier_table(outcome) == (
        "frontier: the smallest limits for so much padding\n"
        "          -- limit ---   efficiency %\n"
        "padding   nodes  edges   nodes   edges  packs  lower bound  cost of a batch\n"
        "0.43 %      233    502  99.996  99.996   3567         3566              735\n"
        "0.0044 %    381    816  99.996  99.996   2181         2180             1197\n"
    )
    outcome.frontier = [shape(100 + i, 200 + i, 10) for i in range(1000)]
    for i, each in enumerate(outcome.frontier):
        each.epoch_cost = 2610542 * (1 + 1 / (i + 1))
    steps = tune_report.frontier_steps(outcome.frontier, 2610542)
    assert 6 <= len(steps) <= 12
    assert steps[0] == outcome.frontier[0] and steps[-1] == outcome.frontier[-1]
    costs = [each.epoch_cost for each in steps]
    assert costs == sorted(set(costs), reverse=True)
    assert " of 1,000 points)\n" in tune_report.frontier_table(outcome)
    outcome.frontier = []
    assert tune_report.frontier_table(outcome) == ""


def test_progress_says_how_far_and_the_best() -> None:
    progress = planning_pb2.TuneProgress(candidates=1000, planned=3)
    assert tune_report.progress_line(progress) == "planned 3, excluded 0 of 1,000"
    progress.incumbent.CopyFrom(shape(381, 816, 2181))
    progress.candidates = MANY
    assert tune_report.progress_line(progress) == (
        "planned 3, excluded 0 of more than 2^64; best so far nodes=381, edges=816, 99.996 %"
    )
    assert tune_report.padding_overhead(3, 2) == 0.5
    assert tune_report.padding_overhead(0, 0) == 0


GIVEN: dict[str, Any] = {
    "max": ["nodes=512"], "min": [], "multiple_of": [], "cost": [], "bytes_per": [], "memory": "",
    "fixed_bytes": "", "fixed_cost": 0.0, "shapes": 0,
}  # fmt: skip


def test_options_make_a_profile_in_the_histograms_order() -> None:
    made = profile_of(
        GIVEN
        | {
            "max": ["graphs=256", "edges=1152", "nodes=512"],
            "min": ["edges=100"],
            "multiple_of": ["nodes=8"],
            "cost": ["edges=0.5", "graphs=0"],
            "fixed_cost": 2500.0,
            "bytes_per": ["nodes=400", "edges=2KiB"],
            "memory": "16GiB",
            "fixed_bytes": "1MB",
            "shapes": 3,
        },
        COMPONENTS,
    )
    part = planning_pb2.DeviceProfile.Component
    assert made == planning_pb2.DeviceProfile(
        components=[
            part(component="nodes", max_rows=512, multiple_of=8, bytes_per_row=400),
            part(
                component="edges", min_rows=100, max_rows=1152, bytes_per_row=2048,
                relative_cost=0.5,
            ),
            part(component="graphs", max_rows=256, relative_cost=0),
        ],
        memory_bytes=16 << 30, fixed_bytes=10**6, max_distinct_shapes=3, fixed_cost=2500,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"max": ["nodes"]}, "--max 'nodes': must be COMPONENT=ROWS with a whole number"),
        ({"max": ["faces=3"]}, "--max 'faces=3': the components are nodes, edges and graphs"),
        ({"min": ["nodes=x"]}, "--min 'nodes=x': must be COMPONENT=ROWS"),
        ({"multiple_of": ["nodes=-8"]}, "--multiple-of 'nodes=-8': must be COMPONENT=ROWS"),
        ({"cost": ["nodes=-1"]}, "--cost 'nodes=-1': must be COMPONENT=COST with a number of at"),
        ({"cost": ["nodes=inf"]}, "--cost 'nodes=inf': must be COMPONENT=COST"),
        ({"bytes_per": ["nodes=4 KiB"]}, "--bytes-per 'nodes=4 KiB': must be COMPONENT=BYTES with"),
        ({"memory": "much"}, "--memory 'much': must be a whole number of bytes, as in 400"),
        ({"memory": "0"}, "--memory '0': no batch fits into it"),
        ({"fixed_bytes": "-1"}, "--fixed-bytes '-1': must be a whole number of bytes"),
        # Without a capacity to choose it would be ignored.
        ({"min": ["edges=1"]}, "--min of 'edges': it has no --max, and so no capacity to choose"),
        ({"multiple_of": ["nodes=8", "graphs=8"]}, "--multiple-of of 'graphs': it has no --max"),
        ({"cost": ["edges=1"]}, "--cost of 'edges': it has no --max"),
        ({"bytes_per": ["edges=1"]}, "--bytes-per of 'edges': it has no --max"),
    ],
)
def test_each_error_of_a_device_names_option_and_value(given: dict[str, Any], told: str) -> None:
    with pytest.raises(Misuse) as raised:
        profile_of({**GIVEN, **given}, COMPONENTS)
    assert str(raised.value.message).startswith(told)


# pack


def test_the_volume_bound_is_the_tightest_component_rounded_up() -> None:
    def bound(rows: tuple[int, ...], capacities: tuple[int, ...]) -> int:
        names = ("nodes", "edges", "graphs")
        return pack_stream.volume_bound(dict(zip(names, rows)), dict(zip(names, capacities)))

    assert bound((10, 7, 4), (5, 3, 0)) == 3
    assert bound((10, 7, 4), (0, 0, 3)) == 2
    # Graphs without rows take a batch, too; nothing takes none.
    assert bound((0, 0, 4), (5, 3, 0)) == 1
    assert bound((0, 0, 0), (5, 3, 1)) == 0


def test_a_rejection_is_told_with_its_bound() -> None:
    def told(reason: int, component: str, bound: int) -> str:
        message = packing_pb2.Rejection(
            graph_id=3, reason=reason, component=component, value=9, bound=bound
        )
        return Rejection.from_proto(message).describe()

    many = packing_pb2.REJECTION_REASON_TOO_LARGE
    assert told(many, "nodes", 8) == "graph 3 has 9 nodes, at most 8 fit a batch"
    assert told(many, "nodes", 2**31 - 1).endswith("fit a batch, whose rows are numbered in 32 bits")
    few = packing_pb2.REJECTION_REASON_TOO_SMALL
    assert told(few, "nodes", 10) == "graph 3 has 9 nodes, at least 10 are needed"
    memory = packing_pb2.REJECTION_REASON_TOO_MUCH_MEMORY
    assert told(memory, "", 8) == (
        "graph 3 needs a batch of 9 bytes, at most 8 are the device's (memory_bytes)"
    )


def test_sizes_are_counted_in_ascending_order() -> None:
    generator = np.random.default_rng(1)
    sizes = generator.integers(0, 5, (500, 2)).astype(np.uint32)
    of_rows = Histogram.from_sizes(sizes)
    expected, counts = np.unique(sizes, axis=0, return_counts=True)
    assert of_rows.tuples.tolist() == expected.tolist()
    assert of_rows.counts.tolist() == counts.tolist()
    again = Histogram.from_sizes(of_rows.tuples[::-1], counts=of_rows.counts[::-1])
    assert again.tuples.tolist() == expected.tolist() and again.counts.tolist() == counts.tolist()
    assert len(Histogram.from_sizes(np.zeros((0, 2), np.uint32)).counts) == 0
    with pytest.raises(OverflowError, match="more than 2\\^64 graphs"):
        Histogram.from_sizes([[1], [2]], ("nodes",), np.array([MANY, 1], np.uint64))
    most = Histogram.from_sizes([[1], [2]], ("nodes",), np.array([MANY - 1, 1], np.uint64))
    assert most.num_graphs == MANY
    counted = Histogram(("nodes", "edges"), [[2, 7], [3, 1]], [5, 4])
    assert (counted.num_graphs, counted.totals, counted.maxima) == (
        9, {"nodes": 22, "edges": 39}, {"nodes": 3, "edges": 7}
    )  # fmt: skip
    for components in ((), ("nodes", "edges")):
        none = Histogram(components, [], [])
        assert none.tuples.shape == (0, len(components)) and none.num_graphs == 0
        assert none.totals == none.maxima == dict.fromkeys(components, 0)


def test_sizes_of_a_file_of_graphs_are_read_by_its_content(tmp_path: pathlib.Path) -> None:
    arrays = {"node_offsets": np.array([0, 2, 5]), "edge_offsets": np.array([0, 1, 1])}
    np.savez(tmp_path / "graphs.npz", **arrays)
    (tmp_path / "graphs.npz").rename(tmp_path / "graphs")
    (tmp_path / "sizes").write_text("nodes,edges\n2,1\n3,0\n")
    for name in ("graphs", "sizes"):
        table = read_sizes(str(tmp_path / name))
        assert table.components == ("nodes", "edges")
        assert table.sizes.tolist() == [[2, 1], [3, 0]] and table.counts is None
    with pytest.raises(FileNotFoundError, match="none"):
        read_sizes(str(tmp_path / "none"))
    (tmp_path / "a.npz").write_bytes((tmp_path / "graphs").read_bytes()[:-20])
    with pytest.raises(ValueError, match="a.npz: "):
        read_sizes(str(tmp_path / "a.npz"))

"""packhouse sample: what its options ask for, of seeds in a file too, with a server that only notes it."""

from __future__ import annotations

import contextlib
import pathlib
import types
from typing import Any, Iterator

import numpy as np
import pytest

from packhouse import Histogram, Seeds, SourceColumn, SourceEdgeSet, SourceGraphSchema, SourceNodeSet, SubGraphs
from packhouse.command import program, sample, seeds as seeds_module
from packhouse.sampling import negative_links

INTEGERS = SourceGraphSchema(
    [SourceNodeSet("user"), SourceNodeSet("item")], [SourceEdgeSet("buys", "user", "item")])
TEXTS = SourceGraphSchema([SourceNodeSet("word", text_ids=True)], [SourceEdgeSet("near", "word", "word")])
BOTH = SourceGraphSchema(
    [SourceNodeSet("user"), SourceNodeSet("word", text_ids=True)], [SourceEdgeSet("says", "user", "word")])
NO_NODE = (1 << 32) - 1


class Drawn:
    """A client of a graph whose nodes have the numbers 100 below what they are called by."""

    def __init__(self) -> None:
        self.schema = INTEGERS
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.progress: list[Any] = []
        self.source_graphs = self.samples = self

    def get(self, name: str) -> Any:
        nodes = {each.name: 8 for each in self.schema.node_sets}
        return types.SimpleNamespace(name=name, schema=self.schema, num_nodes=nodes)

    def lookup_nodes(self, graph: str, node_set: str, **by: Any) -> Any:
        ((kind, asked),) = by.items()
        self.calls.append(("lookup", (graph, node_set), {kind: list(asked)}))
        numbers = [int(each) - 100 for each in asked]
        found = np.array([each if 0 <= each < 8 else NO_NODE for each in numbers], np.uint32)
        return types.SimpleNamespace(numbers=found)

    def estimate_sizes(self, *arguments: Any, **options: Any) -> Any:
        self.calls.append(("estimate", arguments, options))
        histogram = Histogram(("nodes",), [[2], [5]], [1, 2])
        return types.SimpleNamespace(
            histogram=histogram, num_graphs=40, num_seeds=80, bytes_per_graph=12.6)

    def make_dataset(self, *arguments: Any, on_progress: Any, **options: Any) -> Any:
        self.calls.append(("dataset", arguments, options))
        for each in self.progress:
            on_progress(each)
        return types.SimpleNamespace(name="d", num_graphs=9, num_bytes=77)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> Drawn:
    made = Drawn()

    @contextlib.contextmanager
    def connected(_: Any) -> Iterator[Any]:
        yield made

    monkeypatch.setattr(sample, "connected", connected)
    monkeypatch.chdir(tmp_path)
    pathlib.Path("spec").write_bytes(b"the spec")
    return made


def run(verb: str, *words: str) -> int:
    return program.main(["sample", verb, "--server", "s", "--graph", "g", "--spec", "spec", *words])


def asked(drawn: Drawn, *words: str) -> tuple[Any, Any]:
    """The sub-graphs and the seeds."""
    drawn.calls.clear()
    assert run("estimate", *words) == 0
    _, (sub_graphs, seeds), _ = drawn.calls[-1]
    return sub_graphs, seeds


def test_options_say_what_is_drawn(drawn: Drawn) -> None:
    plain = {"graph": "g", "spec": b"the spec", "readout_columns": [], "untimed_sets": (), "induced_edge_sets": (),
             "reverse_edge_sets": ()}
    ways: list[tuple[list[str], dict[str, Any]]] = [
        ([], {}), (["--seeds-per-graph", "3"], {"seeds_per_graph": 3}), (["--ids-only"], {"payload": "ids"}),
        (["--readout"], {"readout": True}), (["--link-edge-set", "e"], {"link_edge_set": "e"}),
        (["--link-node-set", "n"], {"link_node_set": "n"}), (["--exclude", "self"], {"exclude": "self"}),
        (["--exclude", "reverse-types", "--reverse-edge-set", "r", "--reverse-edge-set", "q"],
         {"exclude": "reverse_types", "reverse_edge_sets": ("r", "q")}),
        (["--node-time-column", "t"], {"node_time_column": "t"}), (["--edge-time-column", "t"], {"edge_time_column": "t"}),
        (["--untimed-set", "u"], {"untimed_sets": ("u",)}), (["--time-window", "9"], {"time_window": 9}),
        (["--latest"], {"latest": True}), (["--weight-column", "w"], {"weight_column": "w"}),
        (["--induced"], {"induced": True}), (["--induced-edge-set", "i"], {"induced": True, "induced_edge_sets": ("i",)}),
        (["--merge-parallel"], {"merge_parallel": True}),
    ]  # fmt: skip
    for words, said in ways:
        sub_graphs, seeds = asked(drawn, *words)
        assert sub_graphs.to_proto() == SubGraphs(**{**plain, **said}).to_proto(), words
        assert seeds is None


def test_an_estimate_tells_of_all_and_shows_the_sizes(drawn: Drawn, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("estimate", "--graphs", "3", "--seed", "4", "--epoch", "5", "--histogram", "h") == 0
    options = {"num_graphs": 3, "seed": 4, "epoch": 5, "histogram": "h"}
    assert drawn.calls[-1][0] == "estimate" and drawn.calls[-1][2] == options
    told = capsys.readouterr().out
    assert told.startswith("3 of 40 sub-graphs around 80 seeds, 13 bytes each\n\n") and "nodes" in told
    assert run("estimate") == 0
    assert drawn.calls[-1][2] == {"num_graphs": 0, "seed": 0, "epoch": 0, "histogram": ""}


def test_a_data_set_is_made_of_them(
    drawn: Drawn, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    monkeypatch.setattr(sample.Progress, "show", lambda _, text: shown.append(text))
    drawn.progress = [
        types.SimpleNamespace(num_graphs=done, num_graphs_total=9, num_drawn_smaller=done // 4) for done in (4, 9)
    ]
    limits = ["--limit", "nodes=5", "--limit", "a=b=2"]
    assert run("dataset", "--dataset", "d", "--max-bytes", "2KiB", *limits, "--seed", "3", "--epoch", "2", "--refuse") == 0
    assert capsys.readouterr().out == "data set 'd': 9 sub-graphs, 77 bytes; 2 drawn smaller by this call\n"
    assert shown == ["4 of 9 sub-graphs", "9 of 9 sub-graphs"]
    (_, (sub_graphs, *others), options), = drawn.calls
    assert sub_graphs.graph == "g" and others == ["d", None]
    assert options == {"seed": 3, "epoch": 2, "max_bytes": 2048, "max_rows": {"nodes": 5, "a=b": 2}, "draw_smaller": False}
    drawn.progress = []
    assert run("dataset", "--dataset", "d") == 0
    assert drawn.calls[-1][2] == {"seed": 0, "epoch": 0, "max_bytes": 0, "max_rows": {}, "draw_smaller": True}
    assert capsys.readouterr().out.endswith("; 0 drawn smaller by this call\n")
    for bad in ("nodes", "nodes=0", "nodes=x"):
        assert run("dataset", "--dataset", "d", "--limit", bad) == 1
        assert capsys.readouterr().err == f"packhouse: --limit: '{bad}' is not COMPONENT=ROWS [INVALID_ARGUMENT]\n"


LINKS = ["--seeds", "links", "--link-edge-set", "buys"]


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["--seeds-by", "row"], 2, "--seeds-by requires --seeds"),
        (["--negatives", "binary"], 2, "--negatives requires --seeds"),
        (["--readout-column", "y"], 2, "--readout-column requires --seeds"),
        (["--seeds", "nodes", "--negatives-per-link", "0"], 2, "--negatives-per-link requires --negatives"),
        (["--seeds", "nodes", "--avoid", "links"], 2, "--avoid requires --negatives"),
        (["--edge-time-column", "a", "--node-time-column", "b"], 2, "--edge-time-column excludes --node-time-column"),
        ([*LINKS, "--negatives", "binary", "--negatives-per-link", "-0.5"], 1,
         "--negatives-per-link: -0.5, from 0 to 1000000 is possible [INVALID_ARGUMENT]"),
        ([*LINKS, "--negatives", "binary", "--negatives-per-link", "1000000.5"], 1,
         "--negatives-per-link: 1000000.5, from 0 to 1000000 is possible [INVALID_ARGUMENT]"),
        ([*LINKS, "--negatives", "triplet", "--negatives-per-link", "1.5"], 1,
         "--negatives-per-link: 1.5, a whole number is needed where each has the source of a link [INVALID_ARGUMENT]"),
        (["--seeds", "nodes", "--readout-column", "y=int7"], 1,
         "--readout-column: 'y=int7' is not NAME=DTYPE, such as label=int64 [INVALID_ARGUMENT]"),
        (["--seeds", "nodes", "--negatives", "binary"], 1,
         "--negatives: nodes has nodes; links need columns 'source' and 'target' [INVALID_ARGUMENT]"),
        (["--seeds", "nodes", "--readout-column", "z"], 1,
         "--readout-column: nodes has no column 'z' [INVALID_ARGUMENT]"),
        (["--seeds", "timed", "--seeds-per-graph", "2"], 1,
         "timed: has a column 'time' for each seed, and --seeds-per-graph is 2: times are those of sub-graphs "
         "[INVALID_ARGUMENT]"),
        ([*LINKS, "--negatives", "binary", "--readout-column", "label", "--readout-column", "y"], 1,
         "--readout-column: 'y' has no value of a negative link; only 'label' is known of it [INVALID_ARGUMENT]"),
        ([*LINKS, "--negatives", "binary", "--avoid", "nodes"], 1,
         "--avoid: nodes: has no columns 'source' and 'target' [INVALID_ARGUMENT]"),
        (["--seeds", "links"], 1,
         "which nodes the links are between is not known: give --link-edge-set or --link-node-set [INVALID_ARGUMENT]"),
        (["--seeds", "links", "--link-edge-set", "x"], 1, "--link-edge-set: there is no edge set 'x' [INVALID_ARGUMENT]"),
        (["--seeds", "links", "--link-node-set", "x"], 1, "--link-node-set: there is no node set 'x' [INVALID_ARGUMENT]"),
        (["--seeds", "bad", "--link-edge-set", "buys"], 1,
         "bad: no node of 'item' has the id '108' [NOT_FOUND]"),
    ],
)  # fmt: skip
def test_options_that_do_not_go_together_are_named(
    drawn: Drawn, capsys: pytest.CaptureFixture[str], words: list[str], status: int, says: str
) -> None:
    pathlib.Path("nodes").write_text("id,y\n103,1\n")
    pathlib.Path("timed").write_text("id,time\n103,1\n")
    pathlib.Path("links").write_text("source,target,y\n103,104,1\n")
    pathlib.Path("bad").write_text("source,target\n103,104\n107,108\n")
    for verb in (["estimate"], ["dataset", "--dataset", "d"]):
        assert run(*verb, *words) == status
        assert capsys.readouterr().err.splitlines()[0] == f"packhouse: {says}"
    assert not [each for each in drawn.calls if each[0] != "lookup"]


def test_amounts_at_their_bounds_are_drawn(drawn: Drawn) -> None:
    pathlib.Path("links").write_text("source,target\n")
    for kind, amount in (("binary", "0"), ("binary", "1000000"), ("binary", "1.5"), ("triplet", "2.0")):
        assert run("estimate", *LINKS, "--negatives", kind, "--negatives-per-link", amount) == 0


def same(found: Seeds, **wanted: Any) -> bool:
    """Whether these are the seeds, in values and in types."""
    return bool(found.to_proto() == Seeds(**wanted).to_proto())


def test_nodes_are_called_as_the_file_says(drawn: Drawn) -> None:
    for by, most in (("id", (1 << 63) - 1), ("row", (1 << 64) - 1), ("number", (1 << 32) - 1)):
        pathlib.Path("nodes").write_text(f"time,{by},y,h\n-5,7,1,0.5\n6,{most},-2,1\n")
        words = ["--seeds", "nodes", *(["--seeds-by", by] if by != "id" else [])]
        sub_graphs, seeds = asked(drawn, *words, "--readout-column", "y", "--readout-column", "h=float16")
        assert [each.to_proto() for each in sub_graphs.readout_columns] == [
            SourceColumn("y", "int64").to_proto(), SourceColumn("h", "float16").to_proto()]
        readout = {"y": np.array([1, -2], np.int64), "h": np.array([0.5, 1], np.float16)}
        assert same(seeds, **{f"{by}s": np.array([7, most], np.uint64)}, times=[-5, 6], readout=readout)
    # Ids may be below 0, and no others; and none of a file is a seed, whose features are not missing.
    pathlib.Path("nodes").write_text(f"id\n-{1 << 63}\n")
    assert same(asked(drawn, "--seeds", "nodes")[1], ids=[-(1 << 63)])
    pathlib.Path("nodes").write_text("id\n")
    assert same(asked(drawn, "--seeds", "nodes", "--readout-column", "y")[1], ids=np.zeros(0, np.int64))
    drawn.schema = TEXTS
    pathlib.Path("nodes").write_bytes(b"id\na\xff\n12\n")
    assert same(asked(drawn, "--seeds", "nodes")[1], ids=[b"a\xff", b"12"])
    drawn.schema = BOTH
    pathlib.Path("nodes").write_text("row\n3\n")
    assert same(asked(drawn, "--seeds", "nodes", "--seeds-by", "row")[1], rows=[3])


@pytest.mark.parametrize(
    ("by", "text", "what"),
    [
        ("id", "a", "int64, as the graph's ids are"),
        ("id", str(1 << 63), "int64, as the graph's ids are"),
        ("id", str(-(1 << 63) - 1), "int64, as the graph's ids are"),
        ("row", "-0", "row of a node, a whole number from 0"),
        ("row", str(1 << 64), "row of a node, a whole number from 0"),
        ("number", str(1 << 32), "number of a node, a whole number from 0"),
    ],
)
def test_what_is_no_name_of_a_node_is_named(
    drawn: Drawn, capsys: pytest.CaptureFixture[str], by: str, text: str, what: str
) -> None:
    pathlib.Path("nodes").write_text(f"{by}\n1\n{text}\n")
    assert run("estimate", "--seeds", "nodes", "--seeds-by", by) == 1
    assert capsys.readouterr().err == f"packhouse: nodes: '{text}' is no {what} [INVALID_ARGUMENT]\n"
    drawn.schema = BOTH
    pathlib.Path("nodes").write_text("id\n1\n")
    assert run("estimate", "--seeds", "nodes") == 1
    assert capsys.readouterr().err == (
        "packhouse: --seeds-by id: some node sets of the graph have whole numbers as ids, others texts; give rows or "
        "numbers [INVALID_ARGUMENT]\n")


def test_links_are_looked_up_and_stand_end_by_end(drawn: Drawn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeds_module, "_IDS_OF_REQUEST", 2)
    pathlib.Path("links").write_text("y,source,time,target\n5,100,-1,103\n6,101,-2,104\n7,102,-3,105\n")
    _, seeds = asked(drawn, *LINKS, "--readout-column", "y=int8")
    assert same(seeds, numbers=[0, 3, 1, 4, 2, 5], times=[-1, -2, -3], readout={"y": np.array([5, 6, 7], np.int8)})
    assert [call[1:] for call in drawn.calls[:-1]] == [
        (("g", name), {"ids": ids}) for name, ids in (
            ("user", [100, 101]), ("user", [102]), ("item", [103, 104]), ("item", [105]))]
    _, seeds = asked(drawn, "--seeds", "links", "--seeds-by", "row", "--link-node-set", "item")
    assert same(seeds, numbers=[0, 3, 1, 4, 2, 5], times=[-1, -2, -3])
    assert [call[1:] for call in drawn.calls[:2]] == [
        (("g", "item"), {"rows": rows}) for rows in ([100, 101], [102])]
    drawn.schema = TEXTS
    asked(drawn, "--seeds", "links", "--link-edge-set", "near")
    assert drawn.calls[0][1:] == (("g", "word"), {"ids": [b"100", b"101"]})
    pathlib.Path("links").write_text("source,target\n")
    assert same(asked(drawn, *LINKS[:2], "--link-node-set", "word")[1], numbers=np.zeros(0, np.int64))


def test_negative_links_stand_behind_the_others(drawn: Drawn) -> None:
    pathlib.Path("links").write_text("source,target,time\n100,103,-1\n101,104,-2\n102,105,-3\n")
    pathlib.Path("known").write_text("source,target\n" + "".join(f"10{s},10{t}\n" for s in range(8) for t in range(7)))
    links = [[0, 1, 2], [3, 4, 5]]
    known = [[s for s in range(8) for _ in range(7)], [t for _ in range(8) for t in range(7)]]
    for mode, amount, times in (
        ("binary", None, [-1, -2, -3] * 2), ("binary", 1.5, [-1, -2, -3, -1, -2, -3, -1, -2]),
        ("triplet", 2, [-1, -2, -3, -1, -1, -2, -2, -3, -3]),
    ):  # fmt: skip
        for avoid in (None, known):
            words = ["--negatives", mode, "--seed", "9", *(["--avoid", "known"] if avoid else [])]
            words += [] if amount is None else ["--negatives-per-link", str(amount)]
            sub_graphs, seeds = asked(drawn, *LINKS, *words)
            wanted = negative_links(
                links, 8, 8, mode=mode, amount=1 if amount is None else amount, seed=9, avoid=avoid)
            readout = {"label": np.array(wanted.labels, np.int64)}
            assert same(seeds, numbers=wanted.ends, times=times, readout=readout), words
            assert [each.name for each in sub_graphs.readout_columns] == ["label"]
            if avoid:
                assert set(np.asarray(seeds.numbers).reshape(-1, 2)[3:, 1].tolist()) == {7}
    _, seeds = asked(drawn, *LINKS, "--negatives", "binary", "--readout-column", "label=int8")
    assert seeds.to_proto().readout[0].data == bytes([1, 1, 1, 0, 0, 0])

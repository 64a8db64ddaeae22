"""The builder of sampling specs: names, order, refusals, text."""

from __future__ import annotations

import numpy as np
import pytest

from packhouse import SourceEdgeSet, SourceGraphSchema, SourceNodeSet
from packhouse.sampling import (
    SamplingOp,
    SamplingSpec,
    SamplingSpecBuilder,
    SamplingStrategy,
    SourceSets,
    make_sampling_spec_tree,
)

MAG = SourceSets.of(
    {
        "cites": ("paper", "paper"),
        "writes": ("author", "paper"),
        "written": ("paper", "author"),
        "affiliated_with": ("author", "institution"),
        "has_topic": ("paper", "field_of_study"),
    }
)
UNIFORM = SamplingStrategy.RANDOM_UNIFORM


def guide_spec() -> SamplingSpec:
    seed = SamplingSpecBuilder(MAG, "random_uniform").seed("paper", op_name="seed")
    cited = seed.sample(32, "cites", op_name="seed->paper")
    authors = seed.join([cited]).sample(8, "written", op_name="paper->author")
    theirs = authors.sample(16, "writes")
    authors.sample(16, "affiliated_with")
    seed.join([cited, theirs]).sample(16, "has_topic", op_name="paper->field_of_study")
    return seed.build()


def test_the_guides_spec() -> None:
    spec = guide_spec()
    assert (spec.seed_op, spec.seed_node_set) == ("seed", "paper")
    assert {op.name: (op.inputs, op.edge_set, op.sample_size) for op in spec.ops} == {
        "seed->paper": (("seed",), "cites", 32),
        "paper->author": (("seed", "seed->paper"), "written", 8),
        "author->paper": (("paper->author",), "writes", 16),
        "author->institution": (("paper->author",), "affiliated_with", 16),
        "paper->field_of_study": (("seed", "seed->paper", "author->paper"), "has_topic", 16),
    }
    assert {op.strategy for op in spec.ops} == {UNIFORM}
    given = {spec.seed_op}
    for op in spec.ops:
        assert given.issuperset(op.inputs)
        given.add(op.name)


def test_names_of_ops_without_a_name() -> None:
    spec = SamplingSpecBuilder(MAG).seed("paper").sample([3, 2, 1], "cites").build()
    assert [op.name for op in spec.ops] == ["paper->paper", "paper->paper.2", "paper->paper.3"]
    assert spec.seed_op == "SEED->paper"
    seed = SamplingSpecBuilder(MAG).seed("paper")
    spec = seed.join([seed.sample(3, "cites")]).sample(2, "written").build()
    assert spec.ops[1].name == "(SEED->paper|paper->paper)->author"
    assert spec.ops[0].strategy == SamplingStrategy.TOP_K


def test_one_set_need_not_be_named() -> None:
    spec = SamplingSpecBuilder(SourceSets.of({"e": ("a", "a")})).seed().sample([10, 5]).build()
    assert [(op.edge_set, op.sample_size) for op in spec.ops] == [("e", 10), ("e", 5)]
    with pytest.raises(ValueError, match=r"node_set_name: not given.*author.*paper"):
        SamplingSpecBuilder(MAG).seed()
    with pytest.raises(ValueError, match=r"edge_set_name: not given"):
        SamplingSpecBuilder(MAG).seed("paper").sample(3)


def test_a_tree_has_every_edge_set_of_every_hop() -> None:
    schema = SourceSets.of({**{
        name: (ends.source, ends.target) for name, ends in MAG.edge_sets.items()
    }, "_readout/seed": ("paper", "_readout")})
    spec = make_sampling_spec_tree(schema, "author", sample_sizes=[4, 3])
    # Hop 1: two edge sets leave authors. Hop 2: three leave papers, none leaves institutions.
    assert sorted((op.edge_set, op.sample_size) for op in spec.ops) == [
        ("affiliated_with", 4), ("cites", 3), ("has_topic", 3), ("writes", 4), ("written", 3),
    ]
    assert make_sampling_spec_tree(schema, "author", sample_sizes=[]).ops == ()


def test_the_schema_of_a_graph_on_a_server_will_do() -> None:
    schema = SourceGraphSchema(
        [SourceNodeSet("paper"), SourceNodeSet("author")],
        [
            SourceEdgeSet("writes", "author", "paper"),
            SourceEdgeSet("written", "paper", "author", reverse_of="writes"),
        ],
    )
    step = SamplingSpecBuilder(schema, UNIFORM).seed("paper")
    assert step.sample(np.int64(3), "written").build().ops[0].sample_size == 3
    assert len(make_sampling_spec_tree(schema, "paper", sample_sizes=np.array([3, 2])).ops) == 2
    with pytest.raises(ValueError, match="'book' is none of"):
        SamplingSpecBuilder(schema).seed("book")


def test_what_is_wrong_is_refused() -> None:
    builder = SamplingSpecBuilder(MAG)
    with pytest.raises(ValueError, match="one seed, not 0"):
        builder.build()
    seed = builder.seed("paper")
    with pytest.raises(ValueError, match="'book' is none of"):
        builder.seed("book")
    with pytest.raises(ValueError, match="'books' is none of"):
        seed.sample(3, "books")
    with pytest.raises(ValueError, match="'writes' begins at 'author', but this step is at 'paper'"):
        seed.sample(3, "writes")
    for sizes in (0, -1, [], [3, 0], 2**31, 2.5, [2.5], "3"):
        with pytest.raises(ValueError, match="sample_size"):
            seed.sample(sizes, "cites")
    with pytest.raises(ValueError, match="op_name: 'h' is one name for 2 hops"):
        seed.sample([3, 2], "cites", op_name="h")
    with pytest.raises(ValueError, match="strategy: 'best' is none of"):
        seed.sample(3, "cites", "best")
    with pytest.raises(ValueError, match="of different sets, 'paper' and 'author'"):
        seed.join([seed.sample(3, "written")])
    with pytest.raises(ValueError, match="different builders"):
        seed.join([SamplingSpecBuilder(MAG).seed("paper")])
    with pytest.raises(ValueError, match="no step"):
        builder.join([])
    builder = SamplingSpecBuilder(MAG)
    seed = builder.seed("paper")
    seed.sample(3, "cites", op_name="h")
    seed.sample(3, "written", op_name="h")
    with pytest.raises(ValueError, match="two ops are called 'h'"):
        seed.build()
    builder.seed("paper")
    with pytest.raises(ValueError, match="one seed, not 2"):
        builder.build()


def test_text_is_escaped() -> None:
    op = SamplingOp('h"\\\n', ("sé",), "e", 7, UNIFORM)
    assert SamplingSpec("sé", "a", (op,)).to_text() == (
        'seed_op { op_name: "s\\303\\251" node_set_name: "a" }\n'
        'sampling_ops { op_name: "h\\"\\\\\\012" input_op_names: "s\\303\\251" edge_set_name: "e"'
        " sample_size: 7 strategy: RANDOM_UNIFORM }\n"
    )
    seed = SamplingSpecBuilder(MAG).seed_links("paper", op_name="seed")
    assert seed.build().to_text() == 'symmetric_link_seed_op { op_name: "seed" }\n'


def test_links_may_join_two_sets() -> None:
    sets = SourceSets.of({"buys": ("user", "item"), "bought": ("item", "user")})
    builder = SamplingSpecBuilder(sets, "random_uniform")
    users, items = builder.seed_link_ends("buys", op_name="links")
    users.sample(3, "buys", op_name="a")
    items.sample(2, "bought", op_name="b")
    spec = builder.build()
    assert spec.link_seeds and spec.seed_op == "links" and spec.seed_node_set == ""
    assert sorted((op.name, op.inputs, op.edge_set) for op in spec.ops) == [
        ("a", ("links",), "buys"),
        ("b", ("links",), "bought"),
    ]
    with pytest.raises(ValueError, match="begins at 'item'"):
        users.sample(1, "bought")

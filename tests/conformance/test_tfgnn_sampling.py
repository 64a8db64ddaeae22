"""The builder of sampling specs beside TF-GNN's: the same specs, op by op."""

from __future__ import annotations

import os
import random
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import pytest
import tensorflow_gnn as tfgnn
from google.protobuf import text_format
from tensorflow_gnn.sampler import sampling_spec_builder as theirs
from tensorflow_gnn.sampler import sampling_spec_pb2

import packhouse.sampling as ours

SETS = {
    "AA": ("A", "A"),
    "AB": ("A", "B"),
    "BA": ("B", "A"),
    "AC": ("A", "C"),
    "BC": ("B", "C"),
    "CD": ("C", "D"),
    "_readout/seed": ("A", "_readout"),
}


def schema() -> Any:
    made = tfgnn.proto.GraphSchema()
    for name, (source, target) in SETS.items():
        made.edge_sets[name].source = source
        made.edge_sets[name].target = target
        made.node_sets[source].description = source
        made.node_sets[target].description = target
    return made


def parsed(spec: ours.SamplingSpec) -> Any:
    return text_format.Parse(spec.to_text(), sampling_spec_pb2.SamplingSpec())


def walk(builder: Any, rng: random.Random) -> Any:
    """Random steps, the same for both builders if the numbers are."""
    steps = [builder.seed("A")]
    for number in range(rng.randrange(9)):
        step = rng.choice(steps)
        leaving = [
            name
            for name, (source, _) in SETS.items()
            if source == step.node_set_name and name[0] != "_"
        ]
        if not leaving:
            continue
        name = rng.choice(leaving)
        others = [other for other in steps if other.node_set_name == step.node_set_name]
        others = [other for other in others if other is not step and rng.random() < 0.3]
        start = step.join(others) if others else step
        sizes: Any = rng.randrange(1, 9)
        # After a join, TF-GNN's gives the joined nodes to the last hop alone.
        if name == "AA" and not others and rng.random() < 0.5:
            sizes = [rng.randrange(1, 9) for _ in range(rng.randrange(1, 4))]
        op_name = f"op{number}" if isinstance(sizes, int) and rng.random() < 0.3 else ""
        arguments = {"op_name": op_name} if op_name else {}
        if rng.random() < 0.3:
            arguments["strategy"] = rng.choice([1, 2])
        steps.append(start.sample(sizes, name, **arguments))
    return builder.build()


@pytest.mark.parametrize("number", range(200))
def test_random_steps_give_the_same_spec(number: int) -> None:
    strategy = number % 3
    mine = walk(ours.SamplingSpecBuilder(schema(), strategy), random.Random(number))
    other = walk(theirs.SamplingSpecBuilder(schema(), strategy), random.Random(number))
    assert parsed(mine) == other


@pytest.mark.parametrize("sizes", [[], [3], [3, 2], [4, 3, 2]])
@pytest.mark.parametrize("seeds", ["A", "B", "D"])
def test_trees_are_the_same(sizes: list[int], seeds: str) -> None:
    mine = ours.make_sampling_spec_tree(schema(), seeds, sample_sizes=sizes)
    assert parsed(mine) == theirs.make_sampling_spec_tree(schema(), seeds, sample_sizes=sizes)
    by_hand = ours.make_sampling_spec_tree(
        ours.SourceSets.of(SETS), seeds, sample_sizes=sizes, sampling_strategy="top_k"
    )
    top_k = theirs.make_sampling_spec_tree(
        schema(), seeds, sample_sizes=sizes, sampling_strategy=sampling_spec_pb2.TOP_K
    )
    assert parsed(by_hand) == top_k

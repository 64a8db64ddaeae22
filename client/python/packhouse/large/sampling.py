"""What is drawn around seeds: TF-GNN's SamplingSpec, without TensorFlow, and links not there.

Such links are for training on links; they are drawn here, by the type of link.
"""

from __future__ import annotations

import dataclasses
import operator
from typing import Any, Final, Iterable, Mapping, Protocol, Sequence, Union

import numpy as np
import numpy.typing as npt

from packhouse.base.arguments import UINT64_MAX, Choice, names_arguments, whole_number
from packhouse.data.graphs import array_of
from packhouse.large.source_graph import SourceGraphSchema

_MOST_EDGES: Final = 2**31 - 1


class SamplingStrategy(Choice):
    """Which edges of a node are drawn; numbers are TF-GNN's.

    RANDOM_WEIGHTED and TOP_K need a column of weights.
    """

    TOP_K = 0
    RANDOM_UNIFORM = 1
    RANDOM_WEIGHTED = 2


@dataclasses.dataclass(frozen=True)
class SamplingOp:
    """For each node that `inputs` give, up to `sample_size` of the edges that leave it.

    Gives the targets of these edges. A node that several inputs give is drawn for once.
    """

    name: str
    inputs: tuple[str, ...]
    edge_set: str
    sample_size: int
    strategy: SamplingStrategy


@dataclasses.dataclass(frozen=True)
class SamplingSpec:
    """Ops in an order in which each stands after its inputs. `SamplingSpecBuilder` makes it.

    The server checks it against a source graph; what it refuses, it names.
    """

    seed_op: str
    seed_node_set: str  # Empty for link seeds.
    ops: tuple[SamplingOp, ...] = ()
    link_seeds: bool = False  # Whether seeds are the two ends of a link.

    def to_text(self) -> str:
        """A `tensorflow_gnn.sampler.SamplingSpec` in protobuf's text format."""
        if self.link_seeds:
            lines = [f"symmetric_link_seed_op {{ op_name: {_quoted(self.seed_op)} }}"]
        else:
            lines = [
                f"seed_op {{ op_name: {_quoted(self.seed_op)}"
                f" node_set_name: {_quoted(self.seed_node_set)} }}"
            ]
        for op in self.ops:
            inputs = "".join(f" input_op_names: {_quoted(name)}" for name in op.inputs)
            lines.append(
                f"sampling_ops {{ op_name: {_quoted(op.name)}{inputs}"
                f" edge_set_name: {_quoted(op.edge_set)} sample_size: {op.sample_size}"
                f" strategy: {op.strategy.name} }}"
            )
        return "".join(line + "\n" for line in lines)


class SetEnds(Protocol):
    """An edge set of a schema: the names of the two node sets."""

    @property
    def source(self) -> str:
        """Where its edges begin."""

    @property
    def target(self) -> str:
        """Where its edges end."""


class GraphSchemaSets(Protocol):
    """What a builder reads of a schema; a `tensorflow_gnn.GraphSchema` is one."""

    @property
    def node_sets(self) -> Mapping[str, Any]:
        """By their names."""

    @property
    def edge_sets(self) -> Mapping[str, SetEnds]:
        """By their names."""


@names_arguments
@dataclasses.dataclass(frozen=True)
class EdgeEnds:
    """The node sets of an edge set."""

    source: str
    target: str


@dataclasses.dataclass(frozen=True)
class SourceSets:
    """The sets of a graph, by hand: `SourceSets.of({"cites": ("paper", "paper")})`."""

    node_sets: Mapping[str, Any]
    edge_sets: Mapping[str, EdgeEnds]

    @staticmethod
    def of(
        edge_sets: Mapping[str, tuple[str, str]], node_sets: Iterable[str] = ()
    ) -> SourceSets:
        """Edge sets with source and target; `node_sets` that no edge touches, if there are any."""
        names = dict.fromkeys(node_sets)
        for ends in edge_sets.values():
            names.update(dict.fromkeys(ends))
        return SourceSets(names, {name: EdgeEnds(*ends) for name, ends in edge_sets.items()})


# One size, or one for each of several hops over the same edge set.
SampleSizes = Union[int, Sequence[int]]
# Also that of a graph on a server: `Client.source_graphs.get(name).schema`.
SchemaLike = Union[GraphSchemaSets, SourceGraphSchema]


@names_arguments
class SamplingSpecBuilder:
    """Writes a spec step by step, with the names and rules of TF-GNN's builder.

        builder = SamplingSpecBuilder(schema, SamplingStrategy.RANDOM_UNIFORM)
        papers = builder.seed("paper")
        cited = papers.sample(32, "cites")
        authors = papers.join([cited]).sample(8, "written")
        papers.join([cited, authors.sample(16, "writes")]).sample(16, "has_topic")
        spec = builder.build()

    Ops that are given no name are called `SEED->SET`, `PARENTSET->SET`, or `(OP|OP)->SET` where
    steps were joined; `.2`, `.3` follow where a name repeats. Differences to TF-GNN's: a strategy
    given to `sample` always counts (there TOP_K gives way to the default), several hops after a join
    all begin at the joined nodes (there the last hop does), and names that repeat are refused.
    """

    def __init__(
        self,
        graph_schema: SchemaLike,
        default_strategy: SamplingStrategy | str | int = SamplingStrategy.TOP_K,
    ) -> None:
        """`graph_schema`: a `tensorflow_gnn.GraphSchema`, `SourceSets`, or the schema of a graph
        that a server has (`Client.source_graphs.get(name).schema`)."""
        self._schema = _sets_of(graph_schema)
        self._default_strategy = SamplingStrategy.of(default_strategy, "default_strategy")
        self._seeds: list[SamplingStep] = []

    @staticmethod
    def join(steps: Sequence[SamplingStep]) -> SamplingJoin:
        """The nodes that several steps give, each once; `sample` from these."""
        return SamplingJoin(steps)

    def seed(self, node_set_name: str | None = None, *, op_name: str = "") -> SamplingStep:
        """Begins at nodes of a set; the graph's one set need not be named.

        Raises ValueError for a set that the schema does not have.
        """
        step = SamplingStep(self, _the_one(self._schema.node_sets, node_set_name, "node_set_name"))
        step.op_name = op_name
        self._seeds.append(step)
        return step

    def seed_links(self, node_set_name: str | None = None, *, op_name: str = "") -> SamplingStep:
        """Begins at both ends of links between nodes of a set (`symmetric_link_seed_op`)."""
        step = self.seed(node_set_name, op_name=op_name)
        step.is_link = True
        return step

    def seed_link_ends(
        self, edge_set_name: str | None = None, *, op_name: str = ""
    ) -> tuple[SamplingStep, SamplingStep]:
        """Begins at the sources and at the targets of links, which are of an edge set's two node sets.

        Follow either or both. `SubGraphs.link_edge_set` is then the edge set, too.
        """
        name = _the_one(self._schema.edge_sets, edge_set_name, "edge_set_name")
        ends = self._schema.edge_sets[name]
        sources = self.seed_links(ends.source, op_name=op_name)
        targets = SamplingStep(self, ends.target)
        sources.other_end = targets
        return sources, targets

    def build(self) -> SamplingSpec:
        """The spec of all steps so far. Raises ValueError without a seed, for several, or for two
        ops of one name."""
        if len(self._seeds) != 1:
            raise ValueError(f"a spec has one seed, not {len(self._seeds)}")
        seed = self._seeds[0]
        # The step that became ready last goes first, as TF-GNN does it: names depend on the order.
        ready = [seed] if seed.other_end is None else [seed.other_end, seed]
        waiting: dict[SamplingStep, int] = {}
        repeats: dict[str, int] = {}
        names: dict[SamplingStep, str] = {}
        ops: list[SamplingOp] = []
        while ready:
            step = ready.pop()
            is_other_end = step is seed.other_end
            names[step] = (
                names[seed]
                if is_other_end
                else step.op_name or _numbered(_name(step, names), repeats)
            )
            if step.parents:
                inputs = tuple(names[parent] for parent in step.parents)
                ops.append(
                    SamplingOp(
                        names[step], inputs, step.edge_set_name, step.sample_size, step.strategy
                    )
                )
            for child in step.children:
                left = waiting.setdefault(child, len(child.parents)) - 1
                waiting[child] = left
                if left == 0:
                    ready.append(child)
        seen: set[str] = set()
        for step, name in names.items():
            if step is seed.other_end:
                continue
            if name in seen:
                raise ValueError(f"op_name: two ops are called {name!r}")
            seen.add(name)
        return SamplingSpec(
            names[seed], "" if seed.is_link else seed.node_set_name, tuple(ops), seed.is_link
        )

    to_sampling_spec = build


@names_arguments
class SamplingStep:
    """Nodes that a spec has reached. `SamplingSpecBuilder.seed` and `sample` make it."""

    def __init__(self, builder: SamplingSpecBuilder, node_set_name: str) -> None:
        self.builder = builder
        self.node_set_name = node_set_name
        self.edge_set_name = ""
        self.sample_size = 0
        self.strategy = builder._default_strategy
        self.op_name = ""  # Empty: build() names it.
        self.is_link = False
        self.other_end: SamplingStep | None = None  # Of links between two sets: the same op.
        self.parents: list[SamplingStep] = []
        self.children: list[SamplingStep] = []

    def sample(
        self,
        sample_size: SampleSizes,
        edge_set_name: str | None = None,
        strategy: SamplingStrategy | str | int | None = None,
        op_name: str = "",
    ) -> SamplingStep:
        """Follows up to `sample_size` edges of each node; several sizes: as many hops.

        The graph's one edge set need not be named. Raises ValueError for an edge set that the
        schema does not have or that begins at another node set, a size below 1, no size, or one
        name for several hops.
        """
        return SamplingJoin([self]).sample(sample_size, edge_set_name, strategy, op_name)

    def join(self, other_steps: Iterable[SamplingStep]) -> SamplingJoin:
        """The nodes of this step and others, each once; `sample` from these."""
        return SamplingJoin([self, *other_steps])

    def build(self) -> SamplingSpec:
        """The spec of all steps of the builder."""
        return self.builder.build()

    to_sampling_spec = build


@names_arguments
class SamplingJoin:
    """Nodes that several steps give. `SamplingStep.join` makes it.

    Raises ValueError for no step, steps of different builders, or of different node sets.
    """

    def __init__(self, steps: Sequence[SamplingStep]) -> None:
        if not steps:
            raise ValueError("join: there is no step")
        for step in steps:
            if step.builder is not steps[0].builder:
                raise ValueError("join: the steps are of different builders")
            if step.node_set_name != steps[0].node_set_name:
                raise ValueError(
                    f"join: the steps give nodes of different sets, {steps[0].node_set_name!r}"
                    f" and {step.node_set_name!r}"
                )
        self._steps = list(dict.fromkeys(steps))

    def sample(
        self,
        sample_size: SampleSizes,
        edge_set_name: str | None = None,
        strategy: SamplingStrategy | str | int | None = None,
        op_name: str = "",
    ) -> SamplingStep:
        """As `SamplingStep.sample`."""
        first = self._steps[0]
        builder = first.builder
        sizes = _sizes_of(sample_size, "sample_size")
        if not sizes:
            raise ValueError("sample_size: there is none")
        if op_name and len(sizes) > 1:
            raise ValueError(f"op_name: {op_name!r} is one name for {len(sizes)} hops")
        edge_sets = builder._schema.edge_sets
        name = _the_one(edge_sets, edge_set_name, "edge_set_name")
        if edge_sets[name].source != first.node_set_name:
            raise ValueError(
                f"edge_set_name: {name!r} begins at {edge_sets[name].source!r}, but this step is at"
                f" {first.node_set_name!r}"
            )
        step = SamplingStep(builder, edge_sets[name].target)
        step.edge_set_name = name
        step.sample_size = sizes[0]
        if strategy is not None:
            step.strategy = SamplingStrategy.of(strategy, "strategy")
        step.op_name = op_name
        step.parents = self._steps
        for parent in self._steps:
            parent.children.append(step)
        return step.sample(sizes[1:], name, strategy) if len(sizes) > 1 else step


def make_sampling_spec_tree(
    graph_schema: SchemaLike,
    seed_nodeset: str,
    *,
    sample_sizes: Sequence[int],
    sampling_strategy: SamplingStrategy | str | int = SamplingStrategy.RANDOM_UNIFORM,
) -> SamplingSpec:
    """Every edge set from every set that is reached, in the order of their names, hop by hop.

    `sample_sizes[0]` edges a node in the first hop, and so on. Auxiliary edge sets, such as
    `_readout/source`, are left out. The number of ops grows as the edge sets' number to the power
    of the hops. Raises ValueError as `SamplingSpecBuilder` does.
    """
    builder = SamplingSpecBuilder(graph_schema, sampling_strategy)
    edge_sets = _sets_of(graph_schema).edge_sets

    def follow(step: SamplingStep, sizes: Sequence[int]) -> None:
        if not sizes:
            return
        for name in sorted(edge_sets):
            is_auxiliary = name[0] in "_#!%.^~"
            if not is_auxiliary and edge_sets[name].source == step.node_set_name:
                follow(step.sample(sizes[0], name), sizes[1:])

    follow(builder.seed(seed_nodeset), _sizes_of(sample_sizes, "sample_sizes"))
    return builder.build()


def _sets_of(schema: SchemaLike) -> GraphSchemaSets:
    if not isinstance(schema, SourceGraphSchema):
        if not (hasattr(schema, "node_sets") and hasattr(schema, "edge_sets")):
            raise TypeError(f"graph_schema: a {type(schema).__name__} has no node_sets and edge_sets")
        return schema
    return SourceSets(
        dict.fromkeys(each.name for each in schema.node_sets),
        {each.name: EdgeEnds(each.source, each.target) for each in schema.edge_sets},
    )


def _sizes_of(given: Any, argument: str) -> list[int]:
    """One size, or several, also of numpy's types."""
    try:
        sizes = [operator.index(given)]
    except TypeError:
        try:
            sizes = [operator.index(size) for size in given]
        except TypeError:
            raise ValueError(f"{argument}: {given!r} is no size, and no list of sizes") from None
    if not all(1 <= size <= _MOST_EDGES for size in sizes):
        raise ValueError(f"{argument}: {given!r} is not one or more sizes from 1 to {_MOST_EDGES}")
    return sizes


def _name(step: SamplingStep, names: Mapping[SamplingStep, str]) -> str:
    if not step.parents:
        return f"SEED->{step.node_set_name}"
    if len(step.parents) == 1:
        return f"{step.parents[0].node_set_name}->{step.node_set_name}"
    joined = "|".join(names[parent] for parent in step.parents)
    return f"({joined})->{step.node_set_name}"


def _numbered(name: str, repeats: dict[str, int]) -> str:
    repeats[name] = repeats.get(name, 0) + 1
    return name if repeats[name] == 1 else f"{name}.{repeats[name]}"


def _the_one(sets: Mapping[str, Any], name: str | None, argument: str) -> str:
    if name is None:
        if len(sets) != 1:
            raise ValueError(f"{argument}: not given, but the schema has {sorted(sets)}")
        return next(iter(sets))
    if name not in sets:
        raise ValueError(f"{argument}: {name!r} is none of the schema's {sorted(sets)}")
    return name


def _quoted(text: str) -> str:
    """As a string of protobuf's text format."""
    plain = {ord("\\"): "\\\\", ord('"'): '\\"'}
    escaped = "".join(
        plain.get(byte, chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}")
        for byte in text.encode()
    )
    return f'"{escaped}"'


_MOST_ROUNDS: Final = 100


@dataclasses.dataclass(frozen=True, eq=False)
class LinkSeeds:
    """Links for `Seeds`, positive ones first.

    - `ends`: source, target, source, ...: `Seeds(numbers=links.ends)`, or `rows=` if rows were given.
    - `labels`: 1 for each link that was given, 0 for each negative one, int64: a feature of
      `_readout`, or the target of the loss.
    - `positives`: of each negative link the place of the one that it was drawn for; -1 where it was
      drawn for none ("binary").
    """

    ends: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int64]
    positives: npt.NDArray[np.int64]


def negative_links(
    links: npt.ArrayLike,
    num_sources: int,
    num_targets: int,
    *,
    mode: str = "binary",
    amount: float = 1.0,
    seed: int = 0,
    source_weights: npt.ArrayLike | None = None,
    target_weights: npt.ArrayLike | None = None,
    avoid: npt.ArrayLike | None = None,
) -> LinkSeeds:
    """Links of one type and negative ones beside them, as PyG's `NegativeSampling` has it.

    Args:
      links: sources and targets, [2, links]. Of several types: one call for each.
      num_sources: how many nodes the set of the sources has; negative sources are below it.
      num_targets: likewise of the targets.
      mode: "binary": both ends of a negative link are drawn; "triplet": each link gets `amount`
        negative ones with its own source and a target that is drawn.
      amount: negative links for each link. With "triplet" a whole number.
      seed: decides the draw.
      source_weights, target_weights: how likely each node is, in proportion; otherwise all are alike.
      avoid: links that a negative one must not be, [2, any number], such as all known ones. Otherwise
        a negative link may be there by chance, as with PyG.

    Raises ValueError naming the argument; also if hardly any other links are left to draw.
    Cost: O((links + avoid) * log avoid).
    """
    pairs = _pairs(links, num_sources, num_targets, "links")
    if mode not in ("binary", "triplet"):
        raise ValueError(f"mode: {mode!r} is neither 'binary' nor 'triplet'")
    if not 0 <= amount < float("inf"):
        raise ValueError(f"amount: {amount!r} is no number of negative links")
    if mode == "triplet" and amount != int(amount):
        raise ValueError(f"amount: {amount!r}, with mode='triplet' a whole number is needed")
    random = np.random.default_rng(whole_number(seed, "seed", UINT64_MAX))
    from_source = _Chooser(num_sources, source_weights, "source_weights")
    from_target = _Chooser(num_targets, target_weights, "target_weights")
    count = pairs.shape[1]
    if mode == "triplet":
        positives = np.repeat(np.arange(count), int(amount))
    else:
        positives = np.full(int(np.ceil(count * amount)), -1)
    sources = pairs[0][positives] if mode == "triplet" else from_source.draw(random, len(positives))
    targets = from_target.draw(random, len(positives))
    if avoid is not None:
        if num_sources * num_targets >= 2**63:
            raise ValueError(f"avoid: not for {num_sources} times {num_targets} nodes")
        known = np.unique(_keys(_pairs(avoid, num_sources, num_targets, "avoid"), num_targets))
        for _ in range(_MOST_ROUNDS):
            bad = np.flatnonzero(np.isin(sources * num_targets + targets, known))
            if not len(bad):
                break
            if mode == "binary":
                sources[bad] = from_source.draw(random, len(bad))
            targets[bad] = from_target.draw(random, len(bad))
        else:
            raise ValueError(
                f"avoid: after {_MOST_ROUNDS} draws, {len(bad)} negative links are still among those "
                f"to avoid, one of them {sources[bad[0]]} to {targets[bad[0]]}"
            )
    ends = np.concatenate([pairs, np.stack([sources, targets])], axis=1)
    labels = np.zeros(ends.shape[1], np.int64)
    labels[:count] = 1
    return LinkSeeds(ends.T.reshape(-1), labels, positives)


def _pairs(links: Any, num_sources: int, num_targets: int, name: str) -> npt.NDArray[np.int64]:
    pairs = array_of(links, name)
    if pairs.ndim != 2 or pairs.shape[0] != 2 or pairs.dtype.kind not in "iu":
        raise ValueError(
            f"{name}: {pairs.dtype} of shape {pairs.shape}, whole numbers of shape [2, links] are needed"
        )
    for row, most, end in ((pairs[0], num_sources, "source"), (pairs[1], num_targets, "target")):
        if len(row) and not 0 <= int(row.min()) <= int(row.max()) < most:
            raise ValueError(f"{name}: a {end} is not from 0 to {most - 1}")
    return pairs.astype(np.int64)


def _keys(pairs: npt.NDArray[np.int64], num_targets: int) -> npt.NDArray[np.int64]:
    keys: npt.NDArray[np.int64] = pairs[0] * num_targets + pairs[1]
    return keys


class _Chooser:
    def __init__(self, count: int, weights: Any, name: str) -> None:
        self._count = whole_number(count, name.replace("_weights", "s"), UINT64_MAX)
        self._sums: npt.NDArray[np.float64] | None = None
        if weights is None:
            return
        given = array_of(weights, name).astype(np.float64)
        if given.shape != (count,) or not np.isfinite(given).all() or (given < 0).any():
            raise ValueError(f"{name}: {count} finite numbers that are not below 0 are needed")
        self._sums = np.cumsum(given)
        if count and not self._sums[-1] > 0:
            raise ValueError(f"{name}: all are 0")

    def draw(self, random: np.random.Generator, size: int) -> npt.NDArray[np.int64]:
        if size and not self._count:
            raise ValueError("links: there are no nodes to draw negative ones from")
        if self._sums is None:
            return random.integers(0, max(self._count, 1), size, np.int64)
        drawn = random.random(size) * self._sums[-1]
        # Rounding may give the sum itself.
        most = int(np.flatnonzero(np.diff(self._sums, prepend=0.0))[-1]) if size else 0
        chosen: npt.NDArray[np.int64] = np.searchsorted(self._sums, drawn, side="right")
        return np.minimum(chosen, most)

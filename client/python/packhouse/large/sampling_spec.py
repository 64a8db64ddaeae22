"""How sub-graphs are drawn around seeds: TF-GNN's SamplingSpec, without TensorFlow."""

from __future__ import annotations

import dataclasses
import operator
from typing import Any, Final, Iterable, Mapping, Protocol, Sequence, Union

from packhouse.base.arguments import Choice
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

"""Epochs delivered by a real server, across deaths of workers and of the server."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import itertools
import multiprocessing
import os
import pathlib
import pickle
import subprocess
import sys
import threading
import warnings
from typing import Any, Callable, Iterator, Sequence

import grpc
import numpy as np
import pytest
from pairs import pairs
from random_graphs import molecules, random_schema, random_table, with_few_bits
from reference_collation import collate

from packhouse import (
    GRAPHS,
    ByScore,
    Client,
    ComponentProfile,
    CostBalanced,
    CostTerm,
    DerivedTensor,
    DeviceProfile,
    Draw,
    DType,
    EpochBegunError,
    EpochBegunWarning,
    EpochFinishedError,
    EpochReaders,
    Evaluation,
    GraphSchema,
    GraphTable,
    Histogram,
    LoadedBatch,
    Loader,
    LocalServer,
    OversizePolicy,
    OversizeWarning,
    PackhouseError,
    PackOptions,
    Padding,
    RankGroup,
    Rejection,
    Segments,
    TensorSpec,
)
from packhouse.v1 import batch_pb2

MOLECULES = molecules(np.random.default_rng(0), 400)
GROUPS = np.random.default_rng(1).integers(0, 150, 400)
LIMITS = {"nodes": 128, "edges": 288, "graphs": 12}
DATASET = "loader/molecules"
# Nearly all sizes are distinct: where graphs would meet again and again.
DISTINCT_LIMITS = {"nodes": 1000, "edges": 3000}

_jobs = itertools.count()


def store(client: Client, name: str, table: GraphTable, groups: Any = None) -> None:
    client.datasets.create(name, table.schema, grouped=groups is not None)
    client.datasets.append(name, [table], group_ids=None if groups is None else [groups])
    client.datasets.seal(name)


Make = Callable[..., Loader]


@pytest.fixture(scope="session", autouse=True)
def datasets(client: Client) -> None:
    store(client, DATASET, MOLECULES)
    store(client, "loader/groups", MOLECULES, GROUPS)
    rng = np.random.default_rng(5)
    nodes = rng.integers(20, 200, 300)
    rows = np.stack([nodes, nodes + rng.integers(0, 3 * nodes)], axis=1)
    store(client, "loader/distinct", GraphTable(GraphSchema(), rows))


@pytest.fixture
def make(server: LocalServer) -> Iterator[Make]:
    """Makes loaders of one job, of the molecules unless said otherwise; closes them at the end."""
    job = f"job-{next(_jobs)}"
    made: list[Loader] = []

    def loader(**arguments: Any) -> Loader:
        ways = {"limits", "shapes", "device_profile", "rank_groups"}
        if not ways & set(arguments):
            arguments["limits"] = LIMITS
        made.append(Loader(server.address, **{"dataset": DATASET, "job": job} | arguments))
        return made[-1]

    yield loader
    for each in made:
        each.close()


def ids_of(batches: Sequence[LoadedBatch]) -> list[int]:
    return [int(name) for batch in batches for name in batch.graph_ids]


def numbers_of(batches: Sequence[LoadedBatch]) -> list[int]:
    return [batch.number for batch in batches]


def same_bytes(one: Sequence[LoadedBatch], other: Sequence[LoadedBatch]) -> bool:
    def content(batch: LoadedBatch) -> list[Any]:
        tensors = [(name, tensor.tobytes()) for name, tensor in batch.tensors.items()]
        return [batch.number, batch.graph_ids.tobytes(), batch.sizes.tobytes(), *tensors]

    return list(map(content, one)) == list(map(content, other))


def expect_every_graph_once(
    batches: Sequence[LoadedBatch], sent: GraphTable = MOLECULES, *, among: Any = None
) -> None:
    """Byte for byte as it was sent; `among` are positions of the graphs that should come."""
    expected = sent if among is None else sent.take(among)
    received = GraphTable.concatenate([batch.unbatch() for batch in batches])
    in_order = np.argsort(expected.graph_ids)
    assert received.take(np.argsort(received.graph_ids)).equals(expected.take(in_order))


def expect(code: grpc.StatusCode, *words: str) -> pytest.RaisesContext[PackhouseError]:
    pattern = "".join(f"(?=.*{word})" for word in words)
    return pytest.raises(PackhouseError, match=f"(?s)^{code.name}: {pattern}")


def in_parallel(*tasks: Callable[[], Any]) -> list[Any]:
    """Runs each on a thread of its own; what one raises is raised here."""
    results: list[Any] = [None] * len(tasks)

    def run(number: int) -> None:
        try:
            results[number] = tasks[number]()
        except BaseException as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(tasks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


# What comes.


@pytest.mark.parametrize("padding", list(Padding))
@pytest.mark.parametrize("seed", range(5))
def test_batches_of_any_schema_equal_the_reference(
    server: LocalServer, client: Client, make: Make, seed: int, padding: Padding
) -> None:
    rng = np.random.default_rng(seed)
    schema = random_schema(rng)
    while not schema.tensors:
        schema = random_schema(rng)
    sent = random_table(rng, schema, 60)
    name = f"loader/any-{seed}-{padding.name}"
    store(client, name, sent)
    limits = {component: int(rng.integers(11, 60)) for component in schema.components}
    limits[GRAPHS] = int(rng.integers(2, 9))
    derived = tuple(DerivedTensor)
    ranks = [
        make(dataset=name, limits=limits, padding=padding, derived=derived, rank=rank, num_ranks=2)
        for rank in range(2)
    ]
    batches = [batch for loader in ranks for batch in loader]
    expect_every_graph_once([batch for batch in batches if not batch.is_padding], sent)
    position_of = {int(name): position for position, name in enumerate(sent.graph_ids)}
    for batch in batches:
        assert batch.is_padding == (len(batch) == 0)
        graphs = sent.take([position_of[int(name)] for name in batch.graph_ids])
        expected = collate(graphs, limits, padding, derived)
        assert set(batch.tensors) == set(expected)
        for tensor, column in expected.items():
            received = batch.tensors[tensor]
            assert received.dtype == column.dtype and received.shape == column.shape, tensor
            assert received.tobytes() == column.tobytes(), tensor


ALL_WORDS: list[dict[str, Any]] = [
    {"padding": Padding.GRAPH, "seed": 5},
    {"shapes": [LIMITS, {"nodes": 64, "edges": 160, "graphs": 6}], "padding": Padding.MASKED},
    {"draw": Draw(np.arange(400.0), num_graphs=300, with_replacement=True)},
    {"in_order": True, "sizes_only": True},
    {"dataset": "loader/groups", "grouped": True, "oversize": OversizePolicy.REJECT},
    {"subset": range(10, 200), "derived": tuple(DerivedTensor)},
]
MIXED_WORDS: list[dict[str, Any]] = [
    {"dataset": "loader/distinct", "limits": DISTINCT_LIMITS, "mixing": mixing}
    for mixing in (1.5, False)
]


BALANCED_WORDS: list[dict[str, Any]] = [
    {"order": CostBalanced("sum(nodes^2)", num_ranks=3)},
    {"order": CostBalanced([CostTerm("edges")]), "padding": "masked"},
    {"order": ByScore(component="nodes", buckets=3)},
]


@pytest.mark.parametrize("words", ALL_WORDS + MIXED_WORDS + BALANCED_WORDS)
def test_batches_are_made_again_as_they_were(
    client: Client, make: Make, words: dict[str, Any]
) -> None:
    job = f"again-{next(_jobs)}"
    loader = make(job=job, **words)
    delivered = []
    for epoch in range(2):
        loader.set_epoch(epoch)
        batches = iter(loader)
        delivered.append([next(batches)])
        # Of an epoch that is under way, and of one that is finished.
        first = list(client.receipts.batches(job, epoch, numbers_of(delivered[epoch])))
        assert same_bytes(delivered[epoch], first)
        delivered[epoch] += batches
        backwards = delivered[epoch][::-1]
        again = list(client.receipts.batches(job, epoch, numbers_of(backwards)))
        assert same_bytes(backwards, again)
        assert [(b.rows, b.shape) for b in again] == [(b.rows, b.shape) for b in backwards]
    # An epoch that nobody has loaded is made with the words of the others, or with those given.
    later = list(client.receipts.batches(job, 7, [0]))
    fresh = make(job=f"{job}-later", **words)
    fresh.set_epoch(7)
    assert same_bytes(later, [batch for batch in fresh if batch.number == 0])
    given = {"dataset": DATASET} | ({} if "shapes" in words else {"limits": LIMITS}) | words
    assert same_bytes(later, list(client.receipts.batches(job, 7, [0], given)))


NARROW_WORDS: list[dict[str, Any]] = [
    *(words for words in ALL_WORDS if "sizes_only" not in words),
    {"padding": Padding.TFGNN, "derived": tuple(DerivedTensor)},
    {"segments": Segments(graphs=100, tracks=2), "derived": tuple(DerivedTensor)},
]


@pytest.mark.parametrize("words", NARROW_WORDS)
def test_narrow_integers_are_the_same_batches(
    client: Client, make: Make, evaluate: Callable[..., Evaluation], words: dict[str, Any]
) -> None:
    if "loader/few-bits" not in [dataset.name for dataset in client.datasets.list()]:
        rng = np.random.default_rng(4)
        specs = [TensorSpec(f"v{n}", dtype, "nodes") for n, dtype in enumerate(
            dtype for dtype in DType if dtype.is_integer for _ in range(4)
        )]
        schema = GraphSchema(MOLECULES.schema.components, [*MOLECULES.schema.tensors, *specs])
        drawn = {spec.name: np.zeros(MOLECULES.rows("nodes"), spec.dtype.numpy) for spec in specs}
        table = GraphTable(schema, MOLECULES.sizes, MOLECULES.tensors | drawn)
        store(client, "loader/few-bits", with_few_bits(rng, table))
    if "dataset" not in words:
        words = words | {"dataset": "loader/few-bits"}
    job = f"narrow-{next(_jobs)}"
    plain = list(make(job=job, **words))
    for batch in list(make(job=f"{job}-wide", compact=True, **words)):
        assert same_bytes([batch], [each for each in plain if each.number == batch.number])
        assert all(batch[name].dtype == array.dtype for name, array in plain[0].tensors.items())
    narrow = make(job=f"{job}-narrow", compact=True, widen=False, **words)
    batches = iter(narrow)
    delivered = [next(batches) for _ in range(3)]
    # What was not acknowledged comes again as it was, and so does what is made again.
    narrow.close()
    narrow = make(
        job=f"{job}-narrow", compact=True, widen=False, on_existing="resume", **words
    )
    delivered = delivered[:2] + list(narrow)
    assert numbers_of(delivered) == numbers_of(plain)
    again = list(make(job=f"{job}-again", compact=True, widen=False, **words))
    assert same_bytes(delivered, again)
    assert sum(batch.nbytes for batch in delivered) < sum(batch.nbytes for batch in plain)
    for batch, wide in pairs(delivered, plain):
        for name, array in wide.tensors.items():
            assert batch[name].astype(array.dtype).tobytes() == array.tobytes()
    numbers = numbers_of(plain)
    assert same_bytes(plain, list(client.receipts.batches(f"{job}-narrow", 0, numbers)))
    if "segments" not in words:
        given = words | ({"limits": None} if "shapes" in words else {})
        passed = [*evaluate(**given, compact=True, widen=False)]
        assert same_bytes(delivered, passed)


@pytest.mark.skipif("PACKHOUSE_CLI" not in os.environ, reason="PACKHOUSE_CLI names no program")
def test_the_command_line_saves_batches_that_were_made_again(
    server: LocalServer, make: Make, tmp_path: pathlib.Path
) -> None:
    first, second = itertools.islice(make(job="again/cli", padding=Padding.MASKED), 2)
    numbers = [word for b in (second, first) for word in ("--number", str(b.number))]
    output = subprocess.run(
        [os.environ["PACKHOUSE_CLI"], "batch", "--server", server.address, "--job", "again/cli",
         "--epoch", "0", *numbers, "--save", str(tmp_path / "a" / "b")],
        check=True, capture_output=True, text=True, timeout=60,
    ).stdout
    assert output.startswith(f"epoch 0 of job again/cli, of {DATASET}, plan v")
    for batch in (first, second):
        assert f"\nbatch {batch.number}: {len(batch)} graphs; rows: nodes " in output
        saved = batch_pb2.Batch()
        saved.ParseFromString((tmp_path / "a" / "b" / f"batch-{batch.number}.pb").read_bytes())
        assert saved.graph_ids == batch.graph_ids.tobytes()
        tensors = {tensor.name: tensor.data for tensor in saved.tensors}
        assert tensors == {name: tensor.tobytes() for name, tensor in batch.tensors.items()}


def test_what_cannot_be_made_again_says_why(client: Client, make: Make) -> None:
    with expect(grpc.StatusCode.NOT_FOUND, "nobody", "has no epochs"):
        list(client.receipts.batches("nobody", 0, [0]))
    count = len(list(make(job="again/seed", seed=3)))
    with expect(grpc.StatusCode.OUT_OF_RANGE, f"batch {count}", f"has {count}"):
        list(client.receipts.batches("again/seed", 0, [0, count]))
    other = {"dataset": DATASET, "limits": LIMITS, "seed": 4}
    with expect(grpc.StatusCode.FAILED_PRECONDITION, "seed 4", "seed 3"):
        list(client.receipts.batches("again/seed", 0, [0], other))
    with expect(grpc.StatusCode.INVALID_ARGUMENT, "numbers: 0"):
        list(client.receipts.batches("again/seed", 0, []))
    # Words that are too long to be kept.
    table = random_table(np.random.default_rng(3), MOLECULES.schema, 9000)
    store(client, "again/many", table)
    words = {"dataset": "again/many", "limits": {"nodes": 512, "edges": 2048, "graphs": 64},
             "draw": Draw(np.arange(9000.0), num_graphs=50)}
    drawn = list(make(job="again/long", **words))
    with expect(grpc.StatusCode.FAILED_PRECONDITION, "words are not kept", "65536"):
        list(client.receipts.batches("again/long", 0, [0]))
    again = list(client.receipts.batches("again/long", 0, numbers_of(drawn), words))
    assert same_bytes(drawn, again)


def test_an_epochs_plan_is_found_by_its_receipt(client: Client, make: Make) -> None:
    loader = make(seed=11)
    info = loader.epoch_info()
    with expect(grpc.StatusCode.NOT_FOUND, "no epoch that is remembered"):
        client.receipts.plan(info.receipt + "x")
    next(iter(loader))
    kept = client.receipts.plan(info.receipt)
    made = client.receipts.plan(info.receipt, dataset=DATASET)
    assert made.best.receipt == kept.best.receipt == info.receipt
    assert made.best.packs == kept.best.packs == info.num_batches
    assert made.patterns == kept.patterns
    assert (made.tuples == kept.tuples).all()
    with expect(grpc.StatusCode.FAILED_PRECONDITION, "for other sizes"):
        client.receipts.plan(info.receipt, Histogram.from_sizes([[1, 2], [3, 4]]))


@pytest.mark.parametrize("padding", list(Padding))
def test_no_batch_needs_protobuf(
    client: Client, make: Make, padding: Padding, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the server writes is read without copies."""

    def refuse(message: Any, *_: Any) -> Any:
        raise AssertionError("a batch was read by protobuf")

    monkeypatch.setattr("packhouse.epochs.load_connection.received_by_protobuf", refuse)
    monkeypatch.setattr("packhouse.planning.packing.received_by_protobuf", refuse)
    derived = tuple(DerivedTensor)
    expect_every_graph_once(list(make(job=f"lane/{padding.name}", padding=padding, derived=derived)))
    batches = list(make(padding=padding, derived=derived, lane="off"))
    expect_every_graph_once(batches)
    views = [tensor for batch in batches for tensor in batch.tensors.values()]
    assert not any(tensor.flags.owndata or tensor.flags.writeable for tensor in views)
    options = PackOptions(LIMITS, padding, derived=derived)
    packed = GraphTable.concatenate([b.unbatch() for b in client.pack([MOLECULES], options)])
    assert packed.take(np.argsort(packed.graph_ids)).equals(MOLECULES)
    expect_every_graph_once(list(make(job=f"no/{padding.name}", padding=padding, compact=True)))


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 7])
@pytest.mark.parametrize("drop_last", [False, True])
def test_ranks_share_an_epoch_in_equal_steps(make: Make, num_ranks: int, drop_last: bool) -> None:
    def loader(rank: int) -> Loader:
        return make(
            rank=rank, num_ranks=num_ranks, drop_last=drop_last, padding=Padding.GRAPH, seed=4
        )

    ranks = [loader(rank) for rank in range(num_ranks)]
    expected_steps = len(ranks[0])
    info = ranks[0].epoch_info()
    assert (info.num_graphs, info.num_rejected, info.num_done, info.generation) == (400, 0, 0, 0)
    received = in_parallel(*(lambda each=each: list(each) for each in ranks))
    assert [len(batches) for batches in received] == [expected_steps] * num_ranks
    assert [len(each) for each in ranks] == [expected_steps] * num_ranks
    whole, rest = divmod(info.num_batches, num_ranks)
    assert expected_steps == (whole if drop_last or not rest else whole + 1)

    for step, batches in enumerate(zip(*received)):
        assert {batch.step for batch in batches} == {step}
        assert {batch.graphs_of_step for batch in batches} == {sum(map(len, batches))}
        assert sum(batch.loss_weight for batch in batches) == pytest.approx(1)
        for batch in batches:
            assert batch.rows == LIMITS
            assert batch.is_padding == (len(batch) == 0)
            assert not batch.is_redelivered
    everything = [batch for batches in received for batch in batches]
    assert sum(batch.is_padding for batch in everything) == (
        0 if drop_last or not rest else num_ranks - rest
    )
    assert len(set(numbers_of(everything))) == len(everything)
    real = [batch for batch in everything if not batch.is_padding]
    if drop_last:
        assert len(real) == whole * num_ranks
        assert len(set(ids_of(real))) == len(ids_of(real))
    else:
        expect_every_graph_once(real)
        assert ranks[0].epoch_info().num_done == info.num_batches


def test_epoch_info_tells_what_will_come(make: Make) -> None:
    loader = make(padding=Padding.GRAPH)
    info = loader.epoch_info()
    assert (info.dataset, info.epoch) == (DATASET, 0)
    (group,) = info.rank_groups
    (shape,) = group.shapes
    assert shape.limits == LIMITS
    assert shape.usable == {"nodes": 127, "edges": 288, "graphs": 11}
    assert 0 < info.lower_bound <= info.num_batches == group.num_batches == shape.num_batches
    batches = list(loader)
    assert len(batches) == info.num_batches
    assert all(batch.nbytes > shape.batch_bytes > 0 for batch in batches)
    for name, efficiency in info.efficiency.items():
        real = sum(batch.real_rows[name] for batch in batches)
        assert efficiency == pytest.approx(real / (LIMITS[name] * len(batches)))
    assert info.efficiency["nodes"] > 0.9


def test_mixing_and_orders_that_mean_nothing_are_refused_at_once(make: Make) -> None:
    for mixing in (0, 0.5, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="mixing: .* must be a finite number of at least 1"):
            make(mixing=mixing)
    with pytest.raises(TypeError, match="mixing: a str is no bool or number"):
        make(mixing="fresh")
    with pytest.raises(TypeError, match="order: a str is no CostBalanced or ByScore"):
        make(order="edges")
    for none in (ByScore(), ByScore("difficulty", "nodes")):
        with pytest.raises(ValueError, match="order: tensor .* and component .*, must be one of them"):
            make(order=none)
    with pytest.raises(TypeError, match="no Segments"):
        make(segments=200)


def efficiency_of(steps: Sequence[Sequence[LoadedBatch]]) -> float:
    """Of whole steps, by sums of squared nodes."""
    costs = [[np.square(batch.sizes[:, 0].astype(float)).sum() for batch in step] for step in steps]
    return float(np.mean([np.mean(step) / np.max(step) for step in costs]))


def whole_steps_of(ranks: Sequence[Sequence[LoadedBatch]]) -> list[list[LoadedBatch]]:
    steps = [list(step) for step in zip(*ranks)]
    return [step for step in steps if not any(batch.is_padding for batch in step)]


def test_batches_of_like_cost_share_a_step(server: LocalServer, make: Make) -> None:
    balanced = CostBalanced("sum(nodes^2)")

    def load(job: str, **words: Any) -> list[list[LoadedBatch]]:
        return [list(make(job=job, rank=rank, num_ranks=4, **words)) for rank in range(4)]

    shuffled = load("steps/shuffled")
    ranks = load("steps/balanced", order=balanced)
    expect_every_graph_once(list(itertools.chain(*ranks)))
    # The same batches, in another order.
    sets = [
        sorted(sorted(batch.graph_ids.tolist()) for batch in itertools.chain(*each))
        for each in (shuffled, ranks)
    ]
    assert sets[0] == sets[1]
    info = make(job="steps/balanced", rank=0, num_ranks=4, order=balanced).epoch_info()
    assert info.steps is not None and info.steps.num_ranks == (4,)
    assert info.step_efficiency == info.steps.efficiency
    assert info.step_efficiency == pytest.approx(efficiency_of(whole_steps_of(ranks)))
    assert info.step_efficiency > info.steps.of_shuffle
    assert info.step_efficiency > efficiency_of(whole_steps_of(shuffled)) + 0.02
    plain = make(job="steps/shuffled", rank=0, num_ranks=4).epoch_info()
    assert plain.steps is None and plain.step_efficiency is None
    # The same of an evaluation, and before anything is loaded; also in the steps of readers.
    common: dict[str, Any] = {"dataset": DATASET, "limits": LIMITS, "order": balanced}
    evaluation = Evaluation(server.address, rank=1, num_ranks=4, **common)
    assert evaluation.epoch_info().steps == info.steps
    assert ids_of(list(evaluation)) == ids_of(ranks[1])
    fresh = make(job="steps/fresh", rank=0, num_ranks=4, order=balanced)
    assert fresh.epoch_info().steps == info.steps
    # Dynamic workers say how many batches share a step.
    dynamic = make(job="steps/workers", worker="a", order=CostBalanced("edges", num_ranks=4))
    assert dynamic.epoch_info().steps.num_ranks == (4,)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("subset", "among"),
    [
        (np.arange(399, 0, -7), range(7, 400, 7)),
        ([5, 3, 3 + 300], [3, 5, 303]),
        (range(100, 150), range(100, 150)),
        ([range(0, 10), range(390, 400)], [*range(10), *range(390, 400)]),
    ],
    ids=["array", "list", "range", "ranges"],
)
def test_a_subset_is_loaded_alone(make: Make, subset: Any, among: Sequence[int]) -> None:
    loader = make(subset=subset)
    assert loader.epoch_info().num_graphs == len(among)
    expect_every_graph_once(list(loader), among=sorted(among))


def test_a_subset_must_be_ids_or_plain_ranges(make: Make) -> None:
    with pytest.raises(ValueError, match="steps of 1"):
        make(subset=range(0, 10, 2))
    with pytest.raises(ValueError, match="subset has values from -1"):
        make(subset=[-1, 3])
    with expect(grpc.StatusCode.INVALID_ARGUMENT, "400"):
        next(make(subset=[3, 400]))


def test_sizes_alone_say_which_graphs_belong_together(make: Make) -> None:
    batches = list(make(sizes_only=True))
    assert sorted(ids_of(batches)) == list(range(400))
    for batch in batches:
        assert batch.tensors == {}
        assert (batch.sizes == MOLECULES.sizes[batch.graph_ids.astype(np.int64)]).all()


def test_graphs_beyond_the_limits_are_named(make: Make) -> None:
    bound = int(np.median(MOLECULES.sizes[:, 0]))
    too_large = np.flatnonzero(MOLECULES.sizes[:, 0] > bound)
    loader = make(limits={"nodes": bound}, oversize=OversizePolicy.REJECT)
    info = loader.epoch_info()
    assert (info.num_rejected, info.num_graphs) == (len(too_large), 400 - len(too_large))
    first = int(too_large[0])
    assert info.rejections[0] == Rejection(
        first, "REJECTION_REASON_TOO_LARGE", "nodes", int(MOLECULES.sizes[first, 0]), bound
    )
    assert len(info.rejections) == min(100, len(too_large))
    words = f"epoch 0 of job .*: {len(too_large)} graphs .*; the first: graph {first} has .* {bound} fit"
    with pytest.warns(OversizeWarning, match=words) as warned:
        expect_every_graph_once(list(loader), among=np.setdiff1d(np.arange(400), too_large))
    assert [each.filename for each in warned] == [__file__]
    with expect(grpc.StatusCode.OUT_OF_RANGE, f"graph {first}", "nodes", f"at most {bound} "):
        next(make(job="oversize", limits={"nodes": bound}))


# Acknowledgements.


@pytest.mark.parametrize("left", [0, 1])
def test_closing_acknowledges_the_last_step_if_all_were_given_out(make: Make, left: int) -> None:
    """Else the one in hand comes again."""
    loader = make()
    steps = len(loader)
    for _ in range(steps - left):
        next(loader)
    loader.close()
    assert make().epoch_info().num_done == (steps if left == 0 else steps - left - 1)


@pytest.mark.parametrize("left", [0, 1])
@pytest.mark.parametrize("sharing", [{}, {"worker": "w"}])
def test_closing_a_trainer_acknowledges_what_its_readers_gave_last(
    make: Make, sharing: dict[str, Any], left: int
) -> None:
    job = f"readers/last/{left}/{len(sharing)}"
    with EpochReaders(make(job=job, **sharing)) as epochs:
        epochs.set_epoch(0)
        steps = epochs.epoch_info().num_batches
        items = epochs.trained(epochs)
        for _ in range(steps - left):
            next(items)
    assert make(job=job, **sharing).epoch_info().num_done == steps - (0 if left == 0 else 2)


def test_a_closed_loader_is_read_by_any_thread(make: Make) -> None:
    loader = make()
    next(loader)
    loader.close()
    numbers: list[int] = []
    reader = threading.Thread(target=lambda: numbers.extend(numbers_of(list(loader))), daemon=True)
    reader.start()
    reader.join(60)
    # Asking for the next one says that the first is done.
    assert len(numbers) == len(loader) - 1


def test_closing_ends_the_watch_for_silence(server: LocalServer) -> None:
    """Which there is where there are several servers."""

    def watches() -> list[str]:
        names = [each.name for each in threading.enumerate()]
        return [name for name in names if name == "packhouse-silence"]

    before = watches()
    loader = Loader(f"{server.address},127.0.0.1:1", dataset=DATASET, job="watched", limits=LIMITS)
    next(loader)
    assert len(watches()) == len(before) + 1
    loader.close()
    assert watches() == before


def test_the_batch_in_hand_is_not_acknowledged(make: Make) -> None:
    loader = make()
    for count, _ in enumerate(loader):
        loader.flush()
        assert loader.epoch_info().num_done == count
        if count == 5:
            break
    loader.close()
    assert make().epoch_info().num_done == 5
    # Asking for the next one says that the one before is done, whatever lies between.
    numbers = numbers_of(list(loader))
    assert loader.epoch_info().num_done == len(loader) == 6 + len(numbers)


def test_manual_acknowledgements_may_come_late_and_from_elsewhere(make: Make) -> None:
    loader = make(acknowledge="manual", max_in_flight=3)
    waiting: list[LoadedBatch] = []
    numbers = []
    for batch in loader:
        numbers.append(batch.number)
        waiting.append(batch)
        if len(waiting) == 3:
            # Where another process would.
            other = make(acknowledge="manual")
            other.acknowledge(pickle.loads(pickle.dumps(waiting.pop(1))))
            other.close()
    assert len(set(numbers)) == len(numbers) == len(loader)
    assert loader.epoch_info().num_done == len(numbers) - len(waiting)
    for batch in waiting:
        loader.acknowledge(batch)
    loader.flush()
    assert loader.epoch_info().num_done == len(numbers)


def test_what_was_not_acknowledged_comes_again(make: Make) -> None:
    loader = make(acknowledge="manual")
    first = list(itertools.islice(loader, 4))
    loader.acknowledge(first[0])
    loader.acknowledge(first[2])
    with pytest.raises(ValueError, match="step 2 is acknowledged, step 1 before it is not"):
        loader.state_dict()
    loader.flush()
    loader.close()
    with pytest.raises(EpochBegunError):
        len(make())
    again = make(on_existing="resume")
    rest = list(again)
    assert again.num_steps_done == 2 and len(again) == len(rest)
    assert numbers_of(rest[:2]) == [first[1].number, first[3].number]
    assert same_bytes(rest[:2], [first[1], first[3]])
    assert all(batch.is_redelivered for batch in rest[:2])
    assert not rest[-1].is_redelivered
    expect_every_graph_once([first[0], first[2], *rest])


def test_an_epoch_that_has_ended_must_be_left(make: Make) -> None:
    loader = make()
    assert len(list(loader)) == len(loader)
    assert next(loader, None) is None
    with pytest.raises(ValueError, match="epoch 0 has ended: call set_epoch"):
        iter(loader)
    loader.set_epoch(0)
    with pytest.raises(EpochFinishedError, match="epoch 0 of job 'job-.* was finished before"):
        list(loader)
    loader.set_epoch(1)
    assert len(list(loader)) == len(loader) == loader.epoch_info().num_batches


@pytest.mark.parametrize("sharing", [{}, {"num_ranks": 1, "drop_last": True}, {"worker": "w"}])
def test_a_job_that_is_run_again_says_so(make: Make, sharing: dict[str, Any]) -> None:
    run = functools.partial(make, job="again/" + "-".join(sharing), **sharing)
    first = list(run())
    with pytest.raises(EpochFinishedError, match="job name.*load a state.*restart.*resume.*Evaluation"):
        list(run())
    # The same one, asked again, does not go on as if nothing had been.
    again = run()
    for _ in range(2):
        with pytest.raises(EpochFinishedError):
            next(again)
    assert list(run(on_existing="resume")) == []
    with pytest.raises(ValueError, match="on_existing 'never'"):
        run(on_existing="never")

    attempt = {"attempt": "2"} if "worker" in sharing else {}
    anew = run(on_existing="restart", **attempt)
    assert same_bytes(list(anew), first)
    if attempt:
        with pytest.raises(EpochFinishedError, match="need an attempt"):
            next(run(on_existing="restart"))
        with pytest.raises(EpochFinishedError, match="by attempt '2' too"):
            next(run(on_existing="restart", **attempt))
    # What is not finished is gone on with, exactly.
    anew.set_epoch(1)
    done = list(itertools.islice(anew, 7))[:-1]
    anew.close()
    resumed = run(on_existing="resume", **attempt)
    resumed.set_epoch(1)
    expect_every_graph_once([*done, *resumed])


@pytest.mark.parametrize("sharing", [{}, {"rank": 1, "num_ranks": 2}])
def test_a_begun_epoch_says_so(make: Make, sharing: dict[str, Any]) -> None:
    run = functools.partial(make, job=f"begun/{len(sharing)}", **sharing)
    first = run()
    num_steps = len(first)
    taken = list(itertools.islice(first, 7))
    first.close()
    again = run()
    for ask in (next, len, next):
        with pytest.raises(
            EpochBegunError, match="6 of its steps are done.*state.*resume.*restart.*another job"
        ):
            ask(again)
    resumed = run(on_existing="resume")
    assert len(resumed) == num_steps - 6
    rest = list(itertools.islice(resumed, 3))
    assert rest[0].number == taken[6].number and resumed.num_steps_done == 6
    # The loader that has begun it goes on with it, though its stream breaks.
    resumed.look_again()
    assert len(resumed) == num_steps - 6
    rest += itertools.islice(resumed, 2)
    resumed.close()
    anew = run(on_existing="restart")
    assert len(anew) == num_steps
    assert same_bytes(list(itertools.islice(anew, 7)), taken)


def test_a_trainer_comes_to_a_begun_epoch(make: Make) -> None:
    epochs = EpochReaders(make(job="readers/begun"))
    num_steps = len(epochs)
    epochs.set_epoch(0)
    taken = list(itertools.islice(epochs.trained(epochs), 4))
    epochs.flush()
    # That which has begun it goes on.
    epochs.set_epoch(0)
    assert len(epochs) == num_steps
    epochs.close()
    with pytest.raises(EpochBegunError, match="before this trainer came to it: 3 of its steps"):
        EpochReaders(make(job="readers/begun")).set_epoch(0)
    resumed = EpochReaders(make(job="readers/begun", on_existing="resume"))
    resumed.set_epoch(0)
    assert len(resumed) == num_steps - 3
    expect_every_graph_once([*taken[:3], *resumed.trained(resumed)])
    anew = EpochReaders(make(job="readers/begun", on_existing="restart"))
    anew.set_epoch(0)
    expect_every_graph_once(list(anew.trained(anew)))


@pytest.fixture(params=[False, True], ids=["loader", "readers"])
def share(request: pytest.FixtureRequest, make: Make) -> Callable[..., Any]:
    """What one rank trains with."""

    def one(rank: int, num_ranks: int, **arguments: Any) -> Any:
        loader = make(rank=rank, num_ranks=num_ranks, **arguments)
        return EpochReaders(loader) if request.param else loader

    return one


def steps_of(trainer: Any) -> Iterator[LoadedBatch]:
    return iter(trainer.trained(trainer) if isinstance(trainer, EpochReaders) else trainer)


def graphs_in(batches: Sequence[LoadedBatch]) -> list[LoadedBatch]:
    return [batch for batch in batches if not batch.is_padding]


def test_len_is_what_comes_to_each_rank(share: Callable[..., Any]) -> None:
    first = [share(rank, 3) for rank in range(3)]
    (whole,) = {len(each) for each in first}
    taken: list[LoadedBatch] = []
    for rank, each in enumerate(first):
        assert len(each) == whole
        batches = list(itertools.islice(steps_of(each), rank + 2))
        # The last one is in hand.
        taken += batches[:-1]
        each.flush()
        assert len(each) == whole
        each.close()
    for rank in range(3):
        resumed = share(rank, 3, on_existing="resume")
        num_left = len(resumed)
        assert num_left == whole - (rank + 1)
        received = list(steps_of(resumed))
        assert len(received) == num_left == len(resumed)
        taken += received
    expect_every_graph_once(graphs_in(taken))


def test_len_is_what_a_state_leaves_to_each_rank(share: Callable[..., Any]) -> None:
    """Whoever has gone on meanwhile, and with ranks of any number."""
    for num_ranks in (1, 2, 3):
        job = f"state-of-{num_ranks}-{next(_jobs)}"
        taken: list[LoadedBatch] = []
        trainers = [share(rank, 2, job=job) for rank in range(2)]
        for each in trainers:
            items = steps_of(each)
            taken += itertools.islice(items, 4)
            state = each.state_dict()
            list(itertools.islice(items, 3))
            each.close()
        num_left = trainers[0].epoch_info().num_batches - 8
        trainers = [share(rank, num_ranks, job=job, attempt="2") for rank in range(num_ranks)]
        for each in trainers:
            each.load_state_dict(state)
            assert len(each) == -(-num_left // num_ranks)
        for each in trainers:
            received = list(steps_of(each))
            assert len(received) == len(each) == -(-num_left // num_ranks)
            taken += received
        expect_every_graph_once(graphs_in(taken))


def test_ranks_of_another_number_say_that_an_epoch_was_begun(share: Callable[..., Any]) -> None:
    """None of its steps is done: but some are in nobody's steps any more."""
    taken: list[LoadedBatch] = []
    for rank in range(2):
        one = share(rank, 2)
        taken += list(itertools.islice(steps_of(one), 4))[:-1]
        one.close()
    words = "before this .*6 of its .* 6 of them by ranks of another .*resume.*restart.*another job"
    for rank in range(3):
        with pytest.raises(EpochBegunError, match=words):
            next(steps_of(share(rank, 3)))
    resumed = [share(rank, 3, on_existing="resume") for rank in range(3)]
    num_left = len(resumed[0])
    for each in resumed:
        received = list(steps_of(each))
        assert len(received) == len(each) == num_left
        taken += received
    expect_every_graph_once(graphs_in(taken))
    anew = share(0, 1, on_existing="restart")
    info = anew.epoch_info()
    assert info.num_done == info.num_batches
    received = list(steps_of(anew))
    assert len(received) == len(anew) == info.num_batches


def _what_is_kept(client: Client, job: str) -> list[tuple[int, int, int, int]]:
    epochs = client.jobs.get(job).epochs
    return [(each.epoch, each.generation, each.num_done, each.num_sessions) for each in epochs]


def test_who_is_refused_changes_nothing(share: Callable[..., Any], client: Client) -> None:
    """Those who load go on: they are not of a generation that somebody ended who then left."""
    job = f"refused/{next(_jobs)}"
    first = [share(rank, 2, job=job) for rank in range(2)]
    loops = [steps_of(each) for each in first]
    taken: list[LoadedBatch] = []
    for each, loop in zip(first, loops):
        taken += itertools.islice(loop, 4)
        each.flush()
    before = _what_is_kept(client, job)
    others: list[dict[str, Any]] = [
        dict(rank=0, num_ranks=1),
        dict(rank=0, num_ranks=2),
        dict(rank=1, num_ranks=2, attempt="2"),
        dict(rank=2, num_ranks=3),
    ]
    for other in others:
        one = share(**other, job=job)
        for _ in range(2):
            with pytest.raises(EpochBegunError):
                next(steps_of(one))
            assert _what_is_kept(client, job) == before, other
        one.close()
    for loop in loops:
        taken += loop
    expect_every_graph_once(graphs_in(taken))
    before = _what_is_kept(client, job)
    for other in others:
        with pytest.raises(EpochFinishedError):
            next(steps_of(share(**other, job=job)))
        assert _what_is_kept(client, job) == before, other


def test_dynamic_workers_have_len_of_their_own_rank_group(make: Make) -> None:
    """What is done of another group does not count."""
    groups = [RankGroup(shapes=[LIMITS]), RankGroup(shapes=[LIMITS])]
    first = make(rank_groups=groups, worker="a", rank_group=1)
    (before, other) = (len(make(rank_groups=groups, worker="b", rank_group=k)) for k in (1, 0))
    assert len(first) == before > 5
    list(itertools.islice(first, 4))
    first.flush()
    for of_group, num_left in ((1, before - 3), (0, other)):
        worker = make(rank_groups=groups, worker="c", rank_group=of_group)
        assert len(worker) == len(EpochReaders(worker)) == num_left


def test_ranks_restart_a_finished_epoch_together(make: Make) -> None:
    ranks = [make(rank=rank, num_ranks=2) for rank in range(2)]
    first = [list(loader) for loader in ranks]
    for attempt in (None, "a", "b"):
        again = [
            make(rank=rank, num_ranks=2, on_existing="restart", attempt=attempt) for rank in range(2)
        ]
        received = in_parallel(*(lambda each=each: list(each) for each in again))
        assert all(same_bytes(*pair) for pair in pairs(received, first))


def test_a_dynamic_worker_that_comes_late_to_the_next_epoch_goes_on(make: Make) -> None:
    fast, slow = make(worker="fast"), make(worker="slow")
    in_parallel(lambda: list(fast), lambda: list(slow))
    for epoch in (1, 2):
        fast.set_epoch(epoch)
        expect_every_graph_once(list(fast))
        slow.set_epoch(epoch)
        assert list(slow) == []


# Evaluation.


@pytest.fixture
def evaluate(server: LocalServer) -> Callable[..., Evaluation]:
    return functools.partial(Evaluation, server.address, dataset=DATASET, limits=LIMITS)


def test_an_evaluation_is_the_same_as_often_as_it_is_read(
    make: Make, evaluate: Callable[..., Evaluation]
) -> None:
    evaluation = evaluate(seed=3, padding=Padding.GRAPH)
    first = list(evaluation)
    expect_every_graph_once(first)
    assert len(first) == len(evaluation) == evaluation.epoch_info().num_batches
    next(iter(evaluation))
    for one, other in pairs(evaluation, evaluation):
        assert same_bytes([one], [other])
    assert same_bytes(list(pickle.loads(pickle.dumps(evaluation))), first)
    # As a job's first epoch; of which nothing was kept.
    assert same_bytes(list(make(seed=3, padding=Padding.GRAPH)), first)
    assert evaluation.epoch_info().generation == 0


@pytest.mark.parametrize("num_ranks", [1, 2, 3])
def test_an_evaluation_can_be_shared(evaluate: Callable[..., Evaluation], num_ranks: int) -> None:
    ranks = [evaluate(rank=rank, num_ranks=num_ranks) for rank in range(num_ranks)]
    received = [list(rank) for rank in ranks]
    assert {len(batches) for batches in received} == {len(ranks[0])}
    expect_every_graph_once([b for batches in received for b in batches if not b.is_padding])


def test_an_evaluation_survives_a_server_that_is_killed(mortal_server: LocalServer) -> None:
    with Client(mortal_server.address) as client:
        store(client, "molecules", MOLECULES)
    batches = []
    for batch in Evaluation(mortal_server.address, dataset="molecules", limits=LIMITS):
        batches.append(batch)
        if len(batches) in (3, 4, 20):
            mortal_server.kill()
            mortal_server.start()
    expect_every_graph_once(batches)


# Readers for a trainer: with torch's data loader in test_torch.py.


def test_a_trainers_state_opens_no_stream(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which would take the stream away from its worker process."""
    for sharing in ({}, {"rank": 1, "num_ranks": 2}, {"worker": "w", "attempt": "1"}):
        job = f"state/{len(sharing)}-{'worker' in sharing}"
        epochs = EpochReaders(make(job=job, acknowledge="manual", **sharing))
        with pytest.raises(ValueError, match="call set_epoch"):
            next(iter(epochs))
        epochs.set_epoch(0)
        start = epochs.state_dict()
        reader = iter(epochs)
        received = list(itertools.islice(reader, 5))
        for batch in received[:3]:
            epochs.acknowledge(batch)
        state = epochs.state_dict()
        assert epochs.epoch_info().num_done == 3
        if "rank" not in sharing:
            others = make(job=job, on_existing="resume", **sharing)
            assert len(epochs) == len(others) + 3
        # The reader has noticed nothing.
        received.append(next(reader))
        assert len(set(numbers_of(received))) == 6
        for batch in received[3:]:
            epochs.acknowledge(batch.lease)
        epochs.flush()
        epochs.load_state_dict(state, attempt="2")
        assert epochs.state_dict() == state
        again = list(itertools.islice(epochs.trained(epochs), 3))
        if "rank" not in sharing:
            assert same_bytes(again, received[3:])
        epochs.load_state_dict(start, attempt="3")
        epochs.set_epoch(0)
        assert numbers_of([next(iter(epochs))]) == numbers_of(received[:1])


def test_a_trainers_epochs_end_and_say_so(make: Make) -> None:
    epochs = EpochReaders(make(job="readers/ends"))
    for epoch in range(2):
        epochs.set_epoch(epoch)
        expect_every_graph_once(list(epochs.trained(epochs)))
    for again in (epochs, EpochReaders(make(job="readers/ends"))):
        with pytest.raises(EpochFinishedError, match="epoch 0 .*readers/ends.*restart.*resume"):
            again.set_epoch(0)
    epochs = EpochReaders(make(job="readers/ends", on_existing="restart"))
    epochs.set_epoch(0)
    expect_every_graph_once(list(epochs.trained(epochs)))
    epochs = EpochReaders(make(job="readers/ends", on_existing="resume"))
    assert list(epochs.trained(epochs)) == []


# Workers that die.


def dynamic_worker(loader: Loader, received: Any) -> None:
    """Takes seven batches and hangs on the last, as a trainer that has got stuck."""
    for batch in itertools.islice(loader, 7):
        received.put(batch.number)
    loader.flush()
    received.put(None)
    threading.Event().wait()


def left_alone(client: Client, loader: Loader) -> None:
    """Waits until the server has noticed that nobody loads the loader's epoch any more."""
    job = loader.settings.request.job
    while client.jobs.get(job).num_sessions:
        pass


def test_a_dynamic_worker_says_that_an_epoch_was_begun_which_nobody_loads(
    client: Client, make: Make
) -> None:
    """Only the rest comes: of an earlier run, whose job's name was taken again."""
    first = make(worker="a")
    list(itertools.islice(first, 6))
    first.close()
    left_alone(client, first)
    words = "before this loader .*5 of its .* batches are done.*state.*resume.*another job"
    with pytest.warns(EpochBegunWarning, match=words) as warned:
        loader = make(worker="b")
        next(loader)
    begun = [each for each in warned if each.category is EpochBegunWarning]
    # Of the line that asked for a batch.
    assert [each.filename for each in begun] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error", EpochBegunWarning)
        # Somebody loads it now.
        other = make(worker="c")
        next(other)
        loader.close()
        other.close()
        left_alone(client, first)
        next(make(worker="d", on_existing="resume"))


def test_a_dynamic_trainer_says_that_an_epoch_was_begun_which_nobody_loads(
    client: Client, make: Make
) -> None:
    first = make(worker="a")
    list(itertools.islice(first, 6))
    first.close()
    left_alone(client, first)
    with EpochReaders(make(worker="b")) as epochs:
        with pytest.warns(EpochBegunWarning, match="before this trainer .*5 of its .* batches"):
            epochs.set_epoch(0)
        with warnings.catch_warnings():
            warnings.simplefilter("error", EpochBegunWarning)
            epochs.set_epoch(0)
            with EpochReaders(make(worker="c", on_existing="resume")) as others:
                others.set_epoch(0)


def test_a_dynamic_worker_that_is_killed_leaves_its_batches_to_others(make: Make) -> None:
    context = multiprocessing.get_context("spawn")
    received = context.Queue()
    process = context.Process(
        target=dynamic_worker, args=(make(worker="doomed", max_in_flight=3), received)
    )
    process.start()
    of_dead = list(iter(received.get, None))
    workers = [make(worker=name) for name in ("b", "c")]
    results: list[list[LoadedBatch]] = [[], []]

    def work(number: int) -> None:
        for batch in workers[number]:
            results[number].append(batch)
            if len(results[0]) + len(results[1]) == 20:
                process.kill()

    in_parallel(lambda: work(0), lambda: work(1))
    process.join()
    # The last one was in hand; the two behind it were on the way.
    done = of_dead[:-1]
    alive = [batch for batches in results for batch in batches]
    num_batches = workers[0].num_steps_done + len(workers[0])
    assert sorted(numbers_of(alive) + done) == list(range(num_batches))
    assert [batch.number for batch in alive if batch.is_redelivered].count(of_dead[-1]) == 1
    assert workers[0].epoch_info().num_done == num_batches
    assert {batch.loss_weight for batch in alive} == {1.0}


def test_a_rank_that_returns_gets_what_it_had_not_acknowledged(make: Make) -> None:
    steady, first = make(rank=0, num_ranks=2), make(rank=1, num_ranks=2, max_in_flight=2)
    taken = list(itertools.islice(first, 10))
    first.close()
    again = make(rank=1, num_ranks=2, on_existing="resume")
    # The other rank has done nothing of its own.
    num_steps = len(steady)
    assert (again.num_steps_done, len(again)) == (9, num_steps - 9)
    rest = list(again)
    assert rest[0].number == taken[-1].number and rest[0].is_redelivered
    assert [batch.step for batch in rest] == list(range(9, num_steps))
    batches = [*taken[:-1], *rest, *steady]
    expect_every_graph_once([batch for batch in batches if not batch.is_padding])


# Checkpoints.


def test_a_state_goes_on_exactly_where_it_was_taken(make: Make) -> None:
    loader = make(padding=Padding.GRAPH)
    before = list(itertools.islice(loader, 10))
    state = pickle.loads(pickle.dumps(loader.state_dict()))
    after = list(loader)
    expect_every_graph_once(before + after)
    for _ in range(2):
        loader.load_state_dict(state)
        assert len(loader) == len(after)
        assert same_bytes(list(loader), after)
    elsewhere = pickle.loads(pickle.dumps(make(padding=Padding.GRAPH)))
    elsewhere.load_state_dict(state)
    elsewhere = pickle.loads(pickle.dumps(elsewhere))
    assert same_bytes(list(elsewhere), after)
    elsewhere.close()


def test_states_at_the_ends_of_an_epoch(make: Make) -> None:
    loader = make()
    start = loader.state_dict()
    assert start["epoch"] == 0
    batches = list(loader)
    end = loader.state_dict()
    loader.load_state_dict(start)
    assert loader.state_dict()["epoch"] == 0
    assert same_bytes(list(loader), batches)
    loader.load_state_dict(end)
    assert len(loader) == 0
    assert list(loader) == []
    loader.set_epoch(1)
    expect_every_graph_once(list(loader))
    # The usual loop sets the epoch that the state is in.
    loader.load_state_dict(start)
    loader.set_epoch(0)
    assert same_bytes(list(loader), batches)


@pytest.mark.parametrize("num_ranks", [1, 3])
def test_another_number_of_ranks_goes_on_from_a_state(make: Make, num_ranks: int) -> None:
    ranks = [make(rank=rank, num_ranks=2) for rank in range(2)]
    done = [batch for loader in ranks for batch in itertools.islice(loader, 5)]
    # Either rank's state will do, though neither knows how far the other is.
    state = ranks[1].state_dict()
    # They go on a little before they die.
    for loader in ranks:
        list(itertools.islice(loader, 4))
    new = [make(rank=rank, num_ranks=num_ranks, attempt="2") for rank in range(num_ranks)]
    for loader in new:
        loader.load_state_dict(state)
    steps = len(new[0])
    received = in_parallel(*(lambda each=each: list(each) for each in new))
    assert [len(batches) for batches in received] == [steps] * num_ranks
    rest = [batch for batches in received for batch in batches if not batch.is_padding]
    expect_every_graph_once(done + rest)
    # What the old ones do is refused.
    for loader in ranks:
        with expect(grpc.StatusCode.FAILED_PRECONDITION):
            list(loader)
    with expect(grpc.StatusCode.FAILED_PRECONDITION, "generation"):
        ranks[0].cursor_at_step(3)


def test_a_dropped_loader_gives_its_batches_back(make: Make, server: LocalServer) -> None:
    other = make(worker="other")
    loader = Loader(
        server.address, dataset=DATASET, job=other.epoch_info().job, limits=LIMITS, worker="dropped"
    )
    done = list(itertools.islice(loader, 3))[:-1]
    del loader
    expect_every_graph_once([*done, *other])


def test_a_cursor_by_steps_is_that_of_all_ranks(make: Make) -> None:
    ranks = [make(rank=rank, num_ranks=2) for rank in range(2)]
    received = [list(loader) for loader in ranks]
    cursor = ranks[0].cursor_at_step(7)
    with expect(grpc.StatusCode.OUT_OF_RANGE, str(len(ranks[0]) + 1)):
        ranks[0].cursor_at_step(len(ranks[0]) + 1)
    single = make(attempt="2")
    single.load_state_dict({"epoch": 0, "cursor": cursor})
    left = [b.number for batches in received for b in batches[7:] if not b.is_padding]
    assert sorted(numbers_of(list(single))) == sorted(left)


def test_dynamic_workers_load_a_state_by_an_attempt(make: Make) -> None:
    loader = make(worker="a", attempt="1")
    done = list(itertools.islice(loader, 10))
    state = loader.state_dict()
    list(itertools.islice(loader, 10))
    with pytest.raises(ValueError, match="attempt '1' has loaded already"):
        loader.load_state_dict(state)
    with pytest.raises(ValueError, match="need an attempt"):
        make(worker="b").load_state_dict(state)
    with expect(grpc.StatusCode.FAILED_PRECONDITION, "no steps in common"):
        loader.cursor_at_step(3)
    workers = [make(worker=name, attempt="2") for name in "bcd"]
    for worker in workers:
        worker.load_state_dict(state)
    received = in_parallel(*(lambda each=each: list(each) for each in workers))
    expect_every_graph_once(done + [batch for batches in received for batch in batches])
    with expect(grpc.StatusCode.FAILED_PRECONDITION):
        list(loader)


# Servers that die.


@pytest.mark.parametrize("workers", ["ranks", "dynamic"])
def test_an_epoch_survives_a_server_that_is_killed(
    mortal_server: LocalServer, workers: str
) -> None:
    with Client(mortal_server.address) as client:
        store(client, "molecules", MOLECULES)

    def loader(number: int) -> Loader:
        sharing: dict[str, Any] = {"rank": number, "num_ranks": 3}
        if workers == "dynamic":
            # On a slow machine one may come when the others have done all.
            sharing = {"worker": f"worker {number}", "on_existing": "resume"}
        return Loader(
            mortal_server.address, dataset="molecules", job="job", limits=LIMITS, **sharing
        )

    loaders = [loader(number) for number in range(3)]
    received: list[list[LoadedBatch]] = [[], [], []]

    def work(number: int) -> None:
        for batch in loaders[number]:
            received[number].append(batch)
            if number == 0 and len(received[0]) % 5 == 4:
                mortal_server.kill()
                mortal_server.start()

    in_parallel(*(lambda number=number: work(number) for number in range(3)))
    # No worker saw a batch twice, though many were sent twice.
    for batches in received:
        assert len(set(numbers_of(batches))) == len(batches)
    everything = [batch for batches in received for batch in batches if not batch.is_padding]
    info = loaders[0].epoch_info()
    assert info.num_done == info.num_batches
    if workers == "ranks":
        assert [len(batches) for batches in received] == [len(loaders[0])] * 3
        expect_every_graph_once(everything)
    else:
        # A batch that one worker had when the server died may have gone to a second worker too.
        once = {batch.number: batch for batch in everything}
        assert len(once) == info.num_batches
        expect_every_graph_once(list(once.values()))
    for each in loaders:
        each.close()


def test_states_survive_a_server_that_is_killed(mortal_server: LocalServer) -> None:
    with Client(mortal_server.address) as client:
        store(client, "molecules", MOLECULES)
    with Loader(mortal_server.address, dataset="molecules", job="job", limits=LIMITS) as loader:
        done = list(itertools.islice(loader, 10))
        state = loader.state_dict()
        rest = list(loader)
        mortal_server.kill()
        mortal_server.start()
        loader.load_state_dict(state)
        assert same_bytes(list(loader), rest)
        expect_every_graph_once(done + rest)


def test_epochs_share_connections_until_one_breaks(
    mortal_server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client(mortal_server.address) as client:
        store(client, "molecules", MOLECULES)
    channels = 0
    make_channel = grpc.insecure_channel

    def counting(*arguments: Any, **options: Any) -> grpc.Channel:
        nonlocal channels
        channels += 1
        return make_channel(*arguments, **options)

    monkeypatch.setattr(grpc, "insecure_channel", counting)
    with Loader(mortal_server.address, dataset="molecules", job="job", limits=LIMITS) as loader:
        made = []
        for epoch in range(6):
            if epoch in (2, 4):
                mortal_server.kill()
                mortal_server.start()
            loader.set_epoch(epoch)
            expect_every_graph_once(list(loader))
            made.append(channels)
    assert made[0::2] == made[1::2]


def test_a_server_that_stays_away_is_given_up(mortal_server: LocalServer) -> None:
    with Client(mortal_server.address) as client:
        store(client, "molecules", MOLECULES)
    with Loader(
        mortal_server.address, dataset="molecules", job="job", limits=LIMITS, retry_timeout=0.3
    ) as loader:
        batches = [next(loader)]
        mortal_server.kill()
        with expect(grpc.StatusCode.UNAVAILABLE):
            # Those that had arrived still come.
            for batch in loader:
                batches.append(batch)
        with expect(grpc.StatusCode.UNAVAILABLE):
            loader.epoch_info()
        with expect(grpc.StatusCode.UNAVAILABLE):
            loader.flush()
        mortal_server.start()
        # Nothing is lost by asking again. That it was away may be told once more.
        ended = False
        while not ended:
            try:
                for batch in loader:
                    batches.append(batch)
                ended = True
            except PackhouseError as error:
                assert error.code is grpc.StatusCode.UNAVAILABLE
        expect_every_graph_once(batches)
        assert loader.epoch_info().num_done == len(loader)


# What is refused.


SMALL = {"nodes": 64, "edges": 144, "graphs": 8}
GROUPED = {"dataset": "loader/groups", "limits": {"nodes": 512, "edges": 1200, "graphs": 40}}
NODES = ByScore(component="nodes")
DEVICE = DeviceProfile(
    {name: ComponentProfile(max_rows=512, multiple_of=64) for name in ("nodes", "edges")}
)


@pytest.mark.parametrize(
    ("words", "others"),
    [
        (
            {"seed": 7},
            [
                {"seed": 8},
                {"limits": LIMITS | {"nodes": 130}},
                {"padding": Padding.MASKED},
                {"dataset": "loader/groups"},
                {"subset": range(10)},
                {"sizes_only": True},
                {"compact": True},
                {"in_order": True},
                {"mixing": 30.0},
                {"mixing": False},
                {"draw": Draw()},
                {"order": NODES},
                {"order": CostBalanced("edges")},
                {"segments": Segments(graphs=100)},
                {"derived": [DerivedTensor.MASKS]},
                {"shapes": [LIMITS, SMALL]},
                {"rank_groups": [RankGroup([LIMITS]), RankGroup([SMALL])]},
                {"device_profile": DEVICE},
            ],
        ),
        ({"in_order": True}, [{"in_order": True, "look_ahead": 1}]),
        (GROUPED, [GROUPED | {"grouped": True}]),
        ({"draw": Draw(num_graphs=50)}, [
            {"draw": Draw(num_graphs=51)},
            {"draw": Draw([1.0] * 399 + [2.0], num_graphs=50)},
            {"draw": Draw(num_graphs=50, with_replacement=True)},
        ]),
        ({"order": NODES}, [
            {"order": ByScore(component="edges")},
            {"order": ByScore(component="nodes", descending=True)},
            {"order": ByScore(component="nodes", buckets=2)},
        ]),
        ({"order": CostBalanced("edges")}, [{"order": CostBalanced("nodes")}]),
        ({"segments": Segments(graphs=100)}, [
            {"segments": Segments(graphs=90)}, {"segments": Segments(graphs=100, tracks=2)}
        ]),
        ({"device_profile": DEVICE}, [
            {"device_profile": dataclasses.replace(DEVICE, memory_bytes=1 << 20, fixed_bytes=1)}
        ]),
    ],
    ids=lambda words: "" if isinstance(words, list) else " ".join(words),
)  # fmt: skip
def test_an_epoch_is_loaded_in_the_same_words_by_all(
    make: Make, words: dict[str, Any], others: list[dict[str, Any]]
) -> None:
    """So each word reaches the server."""
    begun = make(**words)
    next(begun)
    for other in others:
        different = ({"seed": 7} if "seed" in words else {}) | other
        for call in (next, Loader.epoch_info):
            with expect(grpc.StatusCode.FAILED_PRECONDITION):
                call(make(on_existing="resume", **different))


def test_what_is_not_there_or_not_sealed_cannot_be_loaded(client: Client, make: Make) -> None:
    client.datasets.create("loader/open", MOLECULES.schema)
    for dataset, code in (
        ("loader/open", grpc.StatusCode.FAILED_PRECONDITION),
        ("loader/none", grpc.StatusCode.NOT_FOUND),
    ):
        for call in (next, len, Loader.epoch_info, Loader.state_dict):
            with expect(code, dataset):
                call(make(dataset=dataset))
    with expect(grpc.StatusCode.NOT_FOUND, "job"):
        client.jobs.delete("loader/no-such-job")


def test_arguments_that_exclude_each_other_are_refused_at_once(make: Make) -> None:
    with pytest.raises(ValueError, match="given: none"):
        Loader("localhost:1", dataset="d", job="j")
    with pytest.raises(ValueError, match="given: .*'limits', 'shapes'"):
        make(limits=LIMITS, shapes=[LIMITS])
    with pytest.raises(ValueError, match="worker is for dynamic workers"):
        make(worker="w", rank=0)
    with pytest.raises(ValueError, match="acknowledge 'never'"):
        make(acknowledge="never")


def test_a_deleted_job_ends_its_loaders(client: Client, make: Make) -> None:
    loader = make(job="loader/deleted")
    taken = list(itertools.islice(loader, 3))
    client.jobs.delete("loader/deleted")
    with expect(grpc.StatusCode.NOT_FOUND):
        list(loader)
    assert same_bytes(list(itertools.islice(make(job="loader/deleted"), 3)), taken)


# Processes.


def test_a_loader_that_was_connected_before_a_fork_says_so(make: Make) -> None:
    loader = make()
    next(loader)
    child = os.fork()
    if child == 0:
        try:
            next(loader)
        except RuntimeError as error:
            os._exit(17 if "before a fork" in str(error) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17
    assert len(list(loader)) == len(loader) - 1


def test_the_example_runs(mortal_server: LocalServer) -> None:
    tree = pathlib.Path(__file__).resolve().parents[2]
    ran = subprocess.run(
        [sys.executable, tree / "client/python/examples/load_epochs.py", mortal_server.address],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    assert "epoch 0: 1000 graphs" in ran.stdout and "epoch 1: 1000 graphs" in ran.stdout


def test_a_trainer_that_iterates_itself_acknowledges_when_it_asks_for_the_next(make: Make) -> None:
    epochs = EpochReaders(make(job="readers/alone"))
    epochs.set_epoch(0)
    num_given = 0
    for _ in epochs:
        epochs.flush()
        assert epochs.epoch_info().num_done == num_given
        num_given += 1
    info = epochs.epoch_info()
    assert info.num_done == info.num_batches == num_given
    # More than a loader gives out before something is acknowledged.
    assert num_given > 16
    epochs.set_epoch(1)
    expect_every_graph_once(list(epochs))


@pytest.mark.parametrize("argument", ["profile", "batch_size", "datasets"])
def test_an_argument_that_is_none_is_refused_by_name(argument: str) -> None:
    with pytest.raises(TypeError, match=f"there is no argument '{argument}'"):
        Loader("nowhere:1", dataset="d", job="j", limits=LIMITS, **{argument: 1})
    with pytest.raises(TypeError, match=f"there is no argument '{argument}'"):
        Evaluation("nowhere:1", dataset="d", limits=LIMITS, **{argument: 1})


def test_a_data_set_is_needed() -> None:
    with pytest.raises(TypeError, match="the argument 'dataset' is missing"):
        Loader("nowhere:1", job="j", limits=LIMITS)


def test_batches_of_loaders_may_be_asked_for_as_writable_ones(
    make: Make, server: LocalServer
) -> None:
    evaluation = Evaluation(server.address, dataset=DATASET, limits=LIMITS, writable=True)
    for batch in (next(make(writable=True)), next(iter(evaluation))):
        assert all(array.flags.writeable for array in batch.tensors.values())
    assert not next(make(job="not-writable", lane="off"))["x"].flags.writeable


def test_an_event_loop_goes_on_while_batches_are_waited_for(
    make: Make, server: LocalServer, client: Client
) -> None:
    evaluation = Evaluation(server.address, dataset=DATASET, limits=LIMITS)
    table = molecules(np.random.default_rng(3), 60)
    options = PackOptions(LIMITS, "masked")

    async def read(batches: Any) -> list[Any]:
        return [batch async for batch in batches]

    async def read_together() -> list[list[Any]]:
        return await asyncio.gather(
            read(make(job="async")), read(evaluation), read(client.pack(table, options))
        )

    loaded, evaluated, packed = asyncio.run(read_together())
    expect_every_graph_once(loaded)
    assert numbers_of(evaluated) == numbers_of(list(evaluation))
    assert sum(map(len, packed)) == 60


def test_an_evaluation_goes_on_from_any_step(server: LocalServer) -> None:
    evaluation = Evaluation(server.address, dataset=DATASET, limits=LIMITS)
    batches = list(evaluation)
    for step in (0, 1, len(batches) - 1, len(batches)):
        rest = list(evaluation.from_step(step))
        assert same_bytes(rest, batches[step:])
        assert [batch.step for batch in rest] == list(range(step, len(batches)))
    with expect(grpc.StatusCode.OUT_OF_RANGE, "first_step"):
        next(evaluation.from_step(len(batches) + 1))

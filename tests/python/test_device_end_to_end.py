"""Streams that declare their hardware: the server chooses the shapes of their batches."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import pathlib

import grpc
import numpy as np
import pytest
from random_graphs import molecules
from tfgnn_goldens import records, shared

from packhouse import (
    GRAPHS,
    Batch,
    CapacityTerm,
    Client,
    ComponentProfile,
    DeviceProfile,
    DriftWatch,
    GraphSchema,
    GraphTable,
    PackhouseError,
    PackOptions,
    PackTuned,
    SizesDriftedWarning,
    TfgnnSchema,
)

DEVICES = pathlib.Path(__file__).parents[2] / "docs/devices"
PROFILE = DeviceProfile(
    {
        "nodes": ComponentProfile(max_rows=512, multiple_of=8),
        "edges": ComponentProfile(max_rows=1536, multiple_of=8),
    },
    max_distinct_shapes=3,
)


def sizes(num_graphs: int, seed: int = 1) -> np.ndarray:
    """Graphs of 4 to 60 nodes with about twice as many edges."""
    generator = np.random.default_rng(seed)
    nodes = generator.integers(4, 60, num_graphs)
    return np.stack([nodes, 2 * nodes + generator.integers(-3, 8, num_graphs)], axis=1)


def expect_smallest_shapes(batches: list[Batch], tuned: PackTuned) -> None:
    """Each batch has the last shape that takes it."""
    assert batches
    for batch in batches:
        fitting = [
            shape
            for shape in tuned.shapes
            if all(batch.real_rows[name] <= rows for name, rows in shape.usable.items())
        ]
        assert batch.rows == fitting[-1].limits


def test_whole_graphs_come_back_in_the_smallest_shape(client: Client) -> None:
    sent = molecules(np.random.default_rng(3), 700)
    options = PackOptions(padding="graph", device=PROFILE, calibration_graphs=300)
    with client.pack(sent, options) as stream:
        assert stream.opened.limits == {} and stream.opened.batch_bytes == 0
        tuned = stream.tuned
        assert tuned is not None and tuned is stream.tuned
        batches = list(stream)
    received = GraphTable.concatenate([batch.unbatch() for batch in batches])
    assert received.take(np.argsort(received.graph_ids)).equals(sent)
    assert tuned.num_graphs == 300 and len(tuned.shapes) == 3
    expect_smallest_shapes(batches, tuned)
    largest = tuned.shapes[0]
    assert largest.limits["nodes"] % 8 == 0 and largest.limits["nodes"] <= 512
    assert largest.usable[GRAPHS] == largest.limits[GRAPHS] - 1
    assert largest.batch_bytes == sum(tensor.nbytes for tensor in batches[0].tensors.values())
    assert set(tuned.components) == {"nodes", "edges", GRAPHS}
    assert all(0 < of.expected_efficiency <= 1 for of in tuned.components.values())
    assert CapacityTerm.NONE not in {of.term for of in tuned.components.values()}
    assert 0 <= tuned.expected_overhead < 0.1 and tuned.reasons and tuned.oversize is None


def test_sizes_and_the_device_as_an_argument(client: Client) -> None:
    with client.pack_sizes([sizes(500)], PackOptions(padding="masked", device=PROFILE)) as stream:
        batches = list(stream)  # The shapes need not be asked for.
        tuned = stream.tuned
    assert tuned is not None and tuned.num_graphs == 500
    expect_smallest_shapes(batches, tuned)
    with client.pack_sizes([sizes(50)], device=PROFILE) as stream:
        assert sum(len(batch.graph_ids) for batch in stream) == 50
        assert len(stream.tuned.shapes) == 1  # type: ignore[union-attr]


def test_a_stream_may_wait_for_its_shapes_before_it_sends(client: Client) -> None:
    client.histograms.observe("device", [sizes(2500)])
    options = PackOptions(padding="masked", device=PROFILE, calibration_histogram="device")
    with client.open_pack(GraphSchema(), options) as stream:
        tuned = stream.tuned
        assert tuned is not None and tuned.num_graphs == 2500
        stream.send(GraphTable(GraphSchema(), sizes(100, seed=2)))
        stream.finish()
        expect_smallest_shapes(list(stream), tuned)


@pytest.mark.parametrize("padding", ("masked", "tfgnn"))
def test_examples_are_calibrated_too(client: Client, padding: str) -> None:
    schema = TfgnnSchema.read(shared("schemas/molecules.pbtxt"))
    examples = list(records("examples/molecules.tfrecord"))
    with client.pack_examples(schema, examples, PackOptions({GRAPHS: 9})) as stream:
        components = stream.opened.schema.components
        num_graphs = sum(len(batch.graph_ids) for batch in stream)
    profile = DeviceProfile({name: ComponentProfile(max_rows=4000) for name in components})
    options = PackOptions(padding=padding, device=profile, calibration_graphs=5)
    with client.pack_examples(schema, examples, options) as stream:
        tuned = stream.tuned
        batches = list(stream)
    assert tuned is not None and tuned.num_graphs == min(5, num_graphs)
    assert sorted(int(i) for batch in batches for i in batch.graph_ids) == list(range(num_graphs))
    expect_smallest_shapes(batches, tuned)


def test_async(client: Client) -> None:
    async def graphs() -> int:
        stream = client.pack_sizes([sizes(400)], PackOptions(padding="masked", device=PROFILE))
        return sum([len(batch.graph_ids) async for batch in stream])

    assert asyncio.run(graphs()) == 400


def test_a_stream_without_graphs_has_no_shapes(client: Client) -> None:
    with client.pack([], device=PROFILE) as stream:
        assert stream.tuned is None
        assert list(stream) == []


def test_options_that_exclude_each_other_are_named(client: Client) -> None:
    with pytest.raises(ValueError, match="limits: given beside device"):
        PackOptions({"nodes": 5}, device=PROFILE)
    with pytest.raises(ValueError, match="calibration: it chooses limits for a device"):
        PackOptions({"nodes": 5}, calibration_graphs=3)
    with pytest.raises(TypeError, match="device: a dict is no DeviceProfile"):
        PackOptions(device={})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="limits: None is no mapping"):
        client.pack_sizes([sizes(3)])
    with client.pack_sizes([sizes(3)], PackOptions({"nodes": 500})) as stream:
        with pytest.raises(ValueError, match="no device"):
            stream.tuned
    options = PackOptions(device=PROFILE, calibration_histogram="missing")
    with client.pack_sizes([sizes(3)], options) as stream, pytest.raises(PackhouseError) as raised:
        stream.opened
    assert raised.value.code is grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize("file", sorted(DEVICES.glob("*.json")), ids=lambda file: file.stem)
def test_each_device_of_the_docs_runs(client: Client, file: pathlib.Path) -> None:
    profile = DeviceProfile.load(file)
    assert json.loads(file.read_text())["components"][0]["component"] == "nodes"
    assert DeviceProfile.from_proto(profile.to_proto()) == profile
    sent = molecules(np.random.default_rng(5), 400)
    with client.pack(sent, PackOptions(padding="masked", device=profile)) as stream:
        tuned = stream.tuned
        batches = list(stream)
    assert tuned is not None and len(tuned.shapes) <= profile.max_distinct_shapes
    assert sum(len(batch.graph_ids) for batch in batches) == 400
    expect_smallest_shapes(batches, tuned)
    for shape in tuned.shapes:
        for name, component in profile.components.items():
            assert shape.limits[name] % component.multiple_of == 0
        if profile.memory_bytes:
            assert shape.memory_bytes <= profile.memory_bytes


def test_a_file_with_something_else_is_named(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "device.json"
    file.write_text('{"memory": 5}')
    with pytest.raises(ValueError, match="device.json: no device profile.*memory"):
        DeviceProfile.load(file)


def test_a_stream_tells_when_sizes_change(client: Client) -> None:
    """Graphs lose their edges: half of each batch is empty, and smaller limits are offered."""
    rng = np.random.default_rng(5)
    nodes = rng.integers(10, 31, 4000)
    edges = np.where(np.arange(4000) < 2000, 2 * nodes, nodes // 2)
    sent = np.stack([nodes, edges], axis=1)
    options = PackOptions({"nodes": 512, "edges": 1024, GRAPHS: 64}, padding="masked")
    with client.pack_sizes([sent], options) as stream:
        unwatched = [list(batch.graph_ids) for batch in stream]
        assert stream.drift is None
    watched = dataclasses.replace(options, drift=DriftWatch(num_graphs=500, min_loss=0.1))
    with client.pack_sizes([sent], watched) as stream:
        with pytest.warns(SizesDriftedWarning, match="the limits waste"):
            assert [list(batch.graph_ids) for batch in stream] == unwatched
        drift = stream.drift
    assert drift is not None and 2000 <= drift.found_graph <= 2300
    assert drift.end_graph == drift.found_graph + 501 and drift.first_graph <= drift.found_graph
    assert drift.loss > 0.3 and drift.reasons
    assert drift.components["edges"].mean < 12 < 35 < drift.components["edges"].reference_mean
    assert drift.components["edges"].present_efficiency < 0.4
    assert drift.limits is not None and drift.limits["nodes"] <= 512
    assert drift.limits["edges"] < 512
    # The next stream takes them.
    next_options = PackOptions(drift.limits, padding="masked", look_ahead=drift.look_ahead)
    with client.pack_sizes([sent[2000:]], next_options) as stream:
        assert sum(len(batch.graph_ids) for batch in stream) == 2000

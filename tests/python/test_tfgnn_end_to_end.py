"""TF-GNN's examples through the whole service: what its own library reads comes back to clients.

Without TensorFlow; tests/conformance/test_tfgnn.py has the library itself.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
from typing import Any, Iterator, Sequence

import grpc
import numpy as np
import pytest
from tfgnn_goldens import assert_graph, golden, records, shared

import packhouse.tfgnn
from packhouse import (
    Client,
    Evaluation,
    GraphSchema,
    GraphTable,
    Loader,
    LocalServer,
    OversizePolicy,
    PackhouseError,
    PackOptions,
    Padding,
    TensorSpec,
    TfgnnSchema,
)
from packhouse.data.batch import Batch
from packhouse.frameworks.layout import Joined
from packhouse.frameworks.tfgnn import example_decoding, examples_at_once

KINDS = ("molecules", "mag", "ragged", "readout", "dtypes")
_names = itertools.count()

SCHEMA = TfgnnSchema(
    """
    node_sets {
      key: "n"
      value {
        features { key: "x" value { dtype: DT_FLOAT } }
        features { key: "text" value { dtype: DT_STRING } }
      }
    }
    edge_sets { key: "e" value { source: "n" target: "n" } }
    """
)


def name_of(kind: str) -> str:
    return f"tfgnn-{kind}-{next(_names)}"


def schema_of(kind: str) -> TfgnnSchema:
    return TfgnnSchema.read(shared(f"schemas/{kind}.pbtxt"))


def graphs_of(batch: Batch) -> Iterator[tuple[int, dict[str, Any], dict[str, list[int]]]]:
    """Each graph's id, tensors and counts."""
    table = batch.unbatch()
    for i, graph_id in enumerate(table.graph_ids.tolist()):
        counts = {name: [int(table.counts(name)[i])] for name in table.schema.components}
        yield graph_id, table.graph(i), counts


def stored(client: Client, kind: str, **options: Any) -> str:
    name = name_of(kind)
    client.datasets.create(name, schema_of(kind))
    totals = client.datasets.append_examples(name, records(f"examples/{kind}.tfrecord"), **options)
    assert totals.num_skipped == 0
    client.datasets.seal(name)
    return name


@pytest.mark.parametrize("kind", KINDS)
def test_goldens_through_a_data_set(client: Client, server: LocalServer, kind: str) -> None:
    """Append, seal, load, un-batch."""
    goldens = golden(f"examples/{kind}.json")["graphs"]
    name = stored(client, kind)
    seen = set()
    for batch in Evaluation(server.address, dataset=name, limits={"graphs": 5}):
        for graph_id, tensors, counts in graphs_of(batch):
            assert_graph(tensors, counts, goldens[graph_id]["graph"])
            seen.add(graph_id)
    assert seen == set(range(len(goldens)))


@pytest.mark.parametrize("kind", KINDS)
def test_goldens_through_a_stream(client: Client, kind: str) -> None:
    goldens = golden(f"examples/{kind}.json")["graphs"]
    stream = client.pack_examples(
        schema_of(kind), records(f"examples/{kind}.tfrecord"), PackOptions({"graphs": 3})
    )
    seen = []
    for batch in stream:
        for graph_id, tensors, counts in graphs_of(batch):
            assert_graph(tensors, counts, goldens[graph_id]["graph"])
            seen.append(graph_id)
    assert sorted(seen) == list(range(len(goldens)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chunk_bytes", (1, 1 << 20))
def test_what_is_exported_is_stored_as_the_same_graphs(
    client: Client, kind: str, chunk_bytes: int
) -> None:
    name = stored(client, kind, chunk_bytes=chunk_bytes)
    with client.datasets.export_examples(name) as stream:
        schema = stream.schema
        exported = list(stream)
        assert stream.num_graphs == len(exported)
    again = name_of(kind)
    assert client.datasets.create(again, schema).schema == client.datasets.get(name).schema
    client.datasets.append_examples(again, exported)
    assert list(client.datasets.export_examples(again)) == exported
    # Any part, from any place.
    assert list(client.datasets.export_examples(again, first_graph=1, num_graphs=3)) == exported[1:4]
    assert list(client.datasets.export_examples(again, first_graph=len(exported))) == []
    with pytest.raises(PackhouseError, match=f"first_graph: {len(exported) + 1}"):
        list(client.datasets.export_examples(again, first_graph=len(exported) + 1))


def test_an_epoch_is_exported_in_its_order(client: Client, server: LocalServer) -> None:
    name = stored(client, "mag")
    in_order = list(client.datasets.export_examples(name))
    orders = []
    for epoch, seed in ((0, 0), (1, 0), (0, 7)):
        evaluation = Evaluation(
            server.address, dataset=name, limits={"graphs": 3}, epoch=epoch, seed=seed
        )
        ids = [graph_id for batch in evaluation for graph_id in batch.graph_ids.tolist()]
        stream = client.datasets.export_examples(name, epoch=epoch, seed=seed, limits={"graphs": 3})
        assert stream.num_graphs == len(in_order)
        assert list(stream) == [in_order[graph_id] for graph_id in ids]
        rest = client.datasets.export_examples(
            name, first_graph=2, num_graphs=3, epoch=epoch, seed=seed, limits={"graphs": 3}
        )
        assert list(rest) == [in_order[graph_id] for graph_id in ids[2:5]]
        orders.append(ids)
    assert orders[0] != orders[1] and orders[0] != orders[2]
    with pytest.raises(PackhouseError, match="at most 1 fit a batch"):
        list(client.datasets.export_examples(name, epoch=0, limits={"paper": 1}))
    with pytest.raises(TypeError, match="'seed' is for an epoch"):
        client.datasets.export_examples(name, seed=3)
    with pytest.raises(ValueError, match="one of limits"):
        client.datasets.export_examples(name, epoch=0)


def test_async_export(client: Client) -> None:
    name = stored(client, "mag")

    async def collect() -> list[bytes]:
        return [example async for example in client.datasets.export_examples(name)]

    assert asyncio.run(collect()) == list(client.datasets.export_examples(name))


def padding_cases() -> list[Any]:
    cases = []
    for kind in ("molecules", "mag", "ragged", "readout"):
        try:
            found = golden(f"padding/{kind}.json")["cases"]
        except pytest.skip.Exception:
            return [pytest.param("", {}, id="missing")]
        cases += [pytest.param(kind, case, id=f"{kind}: {case['name']}") for case in found]
    return cases


def counts_of(kind: str, numbers: list[int]) -> tuple[dict[str, int], set[str]]:
    """The rows of some records together, by set; and the sets that edges end in."""
    rows: dict[str, int] = {"graphs": len(numbers)}
    ends: set[str] = set()
    for number in numbers:
        graph = golden(f"examples/{kind}.json")["graphs"][number]["graph"]
        for name, each in {**graph["node_sets"], **graph["edge_sets"]}.items():
            rows[name] = rows.get(name, 0) + each["sizes"][0]
        for edges in graph["edge_sets"].values():
            ends |= {edges["source_set"], edges["target_set"]}
    return rows, ends


def with_padding_values(schema: GraphSchema, values: Any) -> GraphSchema:
    """Ragged features, of text or not, have none: their padding rows are empty."""
    names = {spec.name for spec in schema.tensors}
    padding = {}
    for kind, sets in values.items():
        for set_name, features in {"context": {"": sets}}.get(kind, sets).items():
            for name, value in features.items():
                tensor = name if kind == "context" else f"{set_name}.{name}"
                if isinstance(value, str):
                    if f"{tensor}.bytes.d2" not in names:
                        padding[f"{tensor}.bytes"] = value
                elif f"{tensor}.d1" not in names:
                    padding[tensor] = value
    return schema.with_padding_values(padding)


@pytest.mark.parametrize("kind, case", padding_cases())
def test_golden_padding(client: Client, kind: str, case: dict[str, Any]) -> None:
    """As pad_to_total_sizes: the records in their order, with the constraints as limits."""
    if not case:
        golden("padding/molecules.json")
    constraints, padded = case["constraints"], case["padded"].get("graph")
    schema: TfgnnSchema | GraphSchema = schema_of(kind)
    if case["padding_values"]:
        try:
            schema = with_padding_values(packhouse.tfgnn.graph_schema(schema), case["padding_values"])
        except ValueError:
            assert padded is None
            return
    minimums = constraints["min_nodes_per_component"]
    limits = {**constraints["total_num_nodes"], **constraints["total_num_edges"]}
    limits.pop("zzz", None)  # The library ignores unknown sets; the service refuses them.
    limits["graphs"] = constraints["total_num_components"]
    options = PackOptions(
        limits,
        Padding.TFGNN,
        look_ahead=1,  # Keeps the order.
        derived="row_counts",
        oversize=OversizePolicy.REJECT,
        min_rows=minimums,
    )
    all_records = records(f"examples/{kind}.tfrecord")
    examples = [all_records[number] for number in case["records"]]
    try:
        made = list(client.pack_examples(schema, examples, options, lambda rejected: None))
    except PackhouseError as error:
        assert error.code is grpc.StatusCode.INVALID_ARGUMENT
        made = []
    is_whole = len(made) == 1 and len(made[0]) == len(examples)
    rows, ends = counts_of(kind, case["records"])
    # Always, where the library does so only if there is something to pad; and there must be room
    # for a real row.
    keeps_free = rows["graphs"] < limits["graphs"] and all(
        name in minimums or max(rows[name], 1) < limits.get(name, 0) for name in ends
    )
    assert is_whole == (padded is not None and keeps_free)
    if not is_whole:
        return
    (batch,) = made
    assert batch.graph_ids.tolist() == list(range(len(examples)))
    joined = Joined(batch, padded=True)
    assert joined.mask("graphs").tolist() == case["padded"]["mask"]
    assert_graph(
        batch.tensors, {name: joined.counts(name) for name in batch.schema.components}, padded
    )
    again = graphs_of(batch)
    goldens = golden(f"examples/{kind}.json")["graphs"]
    for number, (_, tensors, counts) in zip(case["records"], again):
        assert_graph(tensors, counts, goldens[number]["graph"])


@pytest.mark.filterwarnings("ignore::packhouse.OversizeWarning")
def test_golden_padding_of_epochs(client: Client, server: LocalServer) -> None:
    """Epochs pack by the same rules, with minimums too, and every batch keeps them."""
    name = stored(client, "mag")
    goldens = golden("examples/mag.json")["graphs"]
    rows, _ = counts_of("mag", list(range(len(goldens))))
    limits = {set_name: 40 + total // 3 for set_name, total in rows.items()}
    for min_rows in ({}, {"paper": 2, "author": 1}):
        limits["graphs"] = 6
        seen: list[int] = []
        with Loader(
            server.address,
            dataset=name,
            job=name_of("job"),
            limits=limits,
            padding="tfgnn",
            derived="row_counts",
            oversize="reject",
            min_rows=min_rows,
        ) as loader:
            rejected = {each.graph_id: each for each in loader.epoch_info().rejections}
            for batch in loader:
                joined = Joined(batch, padded=True)
                for set_name in limits:
                    assert batch.rows[set_name] == limits[set_name]
                for set_name, least in min_rows.items():
                    assert joined.counts(set_name).min() >= least
                for graph_id, tensors, counts in graphs_of(batch):
                    assert_graph(tensors, counts, goldens[graph_id]["graph"])
                    seen.append(graph_id)
        for graph_id, rejection in rejected.items():
            assert rejection.reason == "REJECTION_REASON_TOO_SMALL"
            sizes = goldens[graph_id]["graph"]["node_sets"][rejection.component]["sizes"]
            assert sizes == [rejection.value] and rejection.value < rejection.bound
        assert sorted([*seen, *rejected]) == list(range(len(goldens)))
        if not min_rows:
            assert not rejected


def test_limits_may_bound_ragged_features(client: Client) -> None:
    """With a capacity for every component batches have one shape, and the same graphs."""
    examples = records("examples/ragged.tfrecord")
    goldens = golden("examples/ragged.json")["graphs"]
    opened = client.datasets.create(name_of("ragged"), schema_of("ragged"))
    limits = {name: 400 for name in opened.schema.components}
    limits["graphs"] = 6
    shapes = set()
    for batch in client.pack_examples(
        opened.schema, examples, PackOptions(limits, Padding.TFGNN, max_age=64)
    ):
        shapes.add(tuple((name, array.shape) for name, array in batch.tensors.items()))
        for graph_id, tensors, counts in graphs_of(batch):
            assert_graph(tensors, counts, goldens[graph_id]["graph"])
    assert len(shapes) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_tables_are_made_of_examples_without_a_server(client: Client, kind: str) -> None:
    """The same schema, the same tables as the server makes."""
    goldens = golden(f"examples/{kind}.json")["graphs"]
    examples = records(f"examples/{kind}.tfrecord")
    table = packhouse.tfgnn.table_from_examples(schema_of(kind), examples, first_id=5)
    assert table.graph_ids.tolist() == list(range(5, 5 + len(examples)))
    for i, graph in enumerate(goldens):
        counts = {name: [int(table.counts(name)[i])] for name in table.schema.components}
        assert_graph(table.graph(i), counts, graph["graph"])
    assert table.schema == client.datasets.get(stored(client, kind)).schema
    options = PackOptions({"graphs": len(examples)}, look_ahead=1)
    (batch,) = client.pack_examples(schema_of(kind), examples, options)
    made = batch.unbatch()
    assert made.equals(packhouse.tfgnn.table_from_examples(made.schema, examples))
    # What a table has can be stored beside examples.
    name = name_of(kind)
    client.datasets.create(name, table.schema)
    client.datasets.append(name, table)
    assert list(client.datasets.export_examples(name)) == list(client.datasets.export_examples(stored(client, kind)))
    assert len(packhouse.tfgnn.table_from_examples(schema_of(kind), [])) == 0
    for schema, wrong, says in (
        (schema_of(kind), examples[0], "examples: a single bytes"),
        (schema_of(kind), "records.tfrecord", "examples: a single str"),
        ("schema.pbtxt", examples, "schema: a str"),
    ):
        with pytest.raises(TypeError, match=says):
            packhouse.tfgnn.table_from_examples(schema, wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="examples: a bytes is no sequence"):
        client.datasets.append_examples(name, examples[0])  # type: ignore[arg-type]


def test_odd_examples_are_taken_or_refused_as_by_the_server(client: Client) -> None:
    options = PackOptions({"graphs": 1})
    for case in golden("examples/parse_edge_cases.json")["cases"]:
        schema = TfgnnSchema(case["schema"])
        examples = [base64.b64decode(case["example_b64"])]
        try:
            (batch,) = client.pack_examples(schema, examples, options)
        except PackhouseError as error:
            with pytest.raises(ValueError) as raised:
                packhouse.tfgnn.table_from_examples(schema, examples)
            assert str(raised.value) in str(error), case["name"]
        else:
            assert batch.unbatch().equals(packhouse.tfgnn.table_from_examples(schema, examples)), case["name"]


class NeverAtOnce(examples_at_once.Records):
    """As if all records were unusual."""

    def __init__(self, examples: Sequence[bytes], keys: Sequence[str]) -> None:
        raise examples_at_once.Unusual


def table_or_error(schema: GraphSchema, examples: list[bytes]) -> GraphTable | str:
    try:
        return packhouse.tfgnn.table_from_examples(schema, examples)
    except ValueError as error:
        return str(error)


def damaged(example: bytes, random: np.random.Generator) -> bytes:
    """With another byte, one more, or some fewer."""
    place = int(random.integers(len(example)))
    byte = bytes([int(random.choice([0, 1, 127, 128, 255, random.integers(256)]))])
    if random.random() < 0.6:
        return example[:place] + byte + example[place + 1 :]
    if random.random() < 0.5:
        return example[:place] + byte + example[place:]
    return example[:place] + example[place + int(random.integers(1, 4)) :]


@pytest.mark.parametrize("kind", KINDS)
def test_records_at_once_are_what_they_are_one_by_one(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same tables, and the same errors."""
    random = np.random.default_rng(3)
    schema, whole = packhouse.tfgnn.graph_schema(schema_of(kind)), records(f"examples/{kind}.tfrecord")
    lists = [whole, whole * 3]
    for _ in range(50):
        chosen = [whole[i] for i in random.integers(len(whole), size=random.integers(1, 4))]
        for _ in range(random.integers(3)):
            i = int(random.integers(len(chosen)))
            chosen[i] = damaged(chosen[i], random)
        lists.append(chosen)
    at_once = [table_or_error(schema, examples) for examples in lists]
    with monkeypatch.context() as context:
        # What the library wrote is not unusual.
        context.delattr(example_decoding, "_Record")
        table_or_error(schema, whole)
    expect_one_by_one(schema, lists, at_once, monkeypatch)


def expect_one_by_one(
    schema: GraphSchema,
    lists: list[list[bytes]],
    at_once: list[GraphTable | str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(example_decoding, "Records", NeverAtOnce)
    for examples, taken in zip(lists, at_once):
        expected = table_or_error(schema, examples)
        if isinstance(expected, GraphTable):
            assert isinstance(taken, GraphTable) and taken.equals(expected)
        else:
            assert taken == expected


def test_texts_at_once_are_what_they_are_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = packhouse.tfgnn.graph_schema(SCHEMA)
    texts = (b"", b"a", b"graph", b"\xff" * 50)
    lists = [[good_example(number, [text]) for number, text in enumerate(texts)]]
    lists += [[good_example(0), good_example(1, wrong)] for wrong in ((), (b"a", b"b"))]
    at_once = [table_or_error(schema, examples) for examples in lists]
    assert [isinstance(each, str) for each in at_once] == [False, True, True]
    expect_one_by_one(schema, lists, at_once, monkeypatch)


def test_schemas_are_read_as_by_the_server(client: Client) -> None:
    """What the server takes; it refuses more."""
    seen = 0
    for case in golden("schemas/validation_cases.json")["cases"]:
        schema = TfgnnSchema(case["schema"])
        try:
            wanted = client.datasets.create(name_of("schema"), schema).schema
        except PackhouseError:
            continue
        assert packhouse.tfgnn.graph_schema(schema) == wanted, case["name"]
        seen += 1
    assert seen > 10


def test_random_numbers_survive_every_narrow_type(client: Client) -> None:
    """As the server converts them: halves and bfloat16 to the nearest, bool from anything."""
    text = "".join(
        f'features {{ key: "{name}" value {{ dtype: DT_{name.upper()} }} }}'
        for name in ("half", "bfloat16", "double", "float")
    )
    schema = TfgnnSchema(f'node_sets {{ key: "n" value {{ {text} }} }}')
    random = np.random.default_rng(7)
    values = random.standard_normal(4000).astype("<f4") * 10.0 ** random.integers(-9, 7, 4000)
    values = np.concatenate([values, [0.0, -0.0, np.inf, -np.inf, np.nan, 65519.9, 1e-8]])
    packed = values.astype("<f4").tobytes()
    example = example_of(
        {f"nodes/n.{name}": packed for name in ("half", "bfloat16", "double", "float")},
        {"nodes/n.#size": len(values)},
    )
    (batch,) = client.pack_examples(schema, [example], PackOptions({"graphs": 1}))
    assert batch.unbatch().equals(packhouse.tfgnn.table_from_examples(schema, [example]))


def varint(number: int) -> bytes:
    data = b""
    while number > 127:
        data += bytes([number & 127 | 128])
        number >>= 7
    return data + bytes([number])


def field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2]) + varint(len(data)) + data


def example_of(floats: dict[str, bytes], sizes: dict[str, int]) -> bytes:
    """With lists of floats, and lists of one int64; as protobuf's wire format has it."""
    entries = b""
    for key, data in floats.items():
        entries += field(1, field(1, key.encode()) + field(2, field(2, field(1, data))))
    for key, size in sizes.items():
        feature = field(3, field(1, varint(size)))
        entries += field(1, field(1, key.encode()) + field(2, feature))
    return field(1, entries)


def good_example(x: float, texts: Sequence[bytes] = (b"ab",)) -> bytes:
    """One node with a feature x and a text; as protobuf's wire format has it."""

    def field(number: int, data: bytes) -> bytes:
        return bytes([number << 3 | 2, len(data)]) + data

    def entry(key: str, feature: bytes) -> bytes:
        return field(1, field(1, key.encode()) + field(2, feature))

    size = field(3, field(1, b"\x01"))
    values = field(2, field(1, np.array([x], "<f4").tobytes()))
    text = field(1, b"".join(field(1, each) for each in texts))
    return field(
        1, entry("nodes/n.#size", size) + entry("nodes/n.x", values) + entry("nodes/n.text", text)
    )


MALFORMED = b"\x0a\x02\xff\xff"
BAD_SIZE = good_example(1.0).replace(b"#size", b"#sizf")


def test_a_malformed_example_is_named_and_refused_with_its_chunk(client: Client) -> None:
    name = name_of("malformed")
    client.datasets.create(name, SCHEMA)
    client.datasets.append_examples(name, [good_example(0.0)])
    with pytest.raises(PackhouseError, match="record 1: .*nodes/n") as raised:
        client.datasets.append_examples(name, [good_example(1.0), BAD_SIZE, good_example(2.0)])
    assert raised.value.code is grpc.StatusCode.INVALID_ARGUMENT
    with pytest.raises(PackhouseError, match="record 0"):
        client.datasets.append_examples(name, [MALFORMED])
    assert client.datasets.get(name).num_graphs == 1

    options = PackOptions({"graphs": 2})
    with pytest.raises(PackhouseError, match="record 1"):
        list(client.pack_examples(SCHEMA, [good_example(1.0), MALFORMED], options))


def test_malformed_examples_may_be_skipped_and_are_named(client: Client) -> None:
    """Conservation: each example is stored, or named."""
    name = name_of("skipped")
    client.datasets.create(name, SCHEMA)
    examples = [
        BAD_SIZE if number % 3 == 1 else MALFORMED if number % 7 == 2 else good_example(number)
        for number in range(50)
    ]
    bad = [number for number, each in enumerate(examples) if each in (BAD_SIZE, MALFORMED)]
    for chunk_bytes in (1, 200, 1 << 20):
        totals = client.datasets.append_examples(
            name,
            examples,
            skip_malformed=True,
            first_id=100,
            producer=f"p{chunk_bytes}",
            chunk_bytes=chunk_bytes,
        )
        assert totals.num_appended == len(examples) - len(bad)
        assert totals.num_skipped == len(bad)
        assert [each.example for each in totals.skipped] == bad
        assert [each.graph_id for each in totals.skipped] == [100 + number for number in bad]
        assert all(each.message for each in totals.skipped)
    with client.datasets.export_examples(name) as stream:
        exported = list(stream)
    good = [each for each in examples if each not in (BAD_SIZE, MALFORMED)]
    assert len(exported) == 3 * len(good)

    rejected: list[Any] = []
    options = PackOptions({"graphs": 4}, oversize=OversizePolicy.REJECT)
    batches = list(
        client.pack_examples(SCHEMA, examples, options, rejected.extend, skip_malformed=True)
    )
    packed = [graph_id for batch in batches for graph_id in batch.graph_ids.tolist()]
    assert sorted(packed + [each.graph_id for each in rejected]) == list(range(50))
    assert [each.graph_id for each in rejected] == bad
    assert all("malformed" in each.describe() for each in rejected)
    for batch in batches:
        for graph_id, x in zip(batch.graph_ids.tolist(), batch["n.x"].tolist()):
            assert graph_id == x


def test_an_append_of_examples_is_stored_once(client: Client) -> None:
    name = name_of("once")
    client.datasets.create(name, SCHEMA)
    examples = [good_example(0.0), MALFORMED, good_example(2.0)]
    for repeated in (0, 1):
        totals = client.datasets.append_examples(
            name, examples, producer="p", first_sequence=1, skip_malformed=True
        )
        assert (totals.num_repeated, totals.num_skipped) == (repeated, 1)
    assert client.datasets.get(name).num_graphs == 2


def test_schemas_and_requests_that_cannot_be(client: Client) -> None:
    with pytest.raises(PackhouseError, match="tfgnn_schema.*nobody"):
        bad = 'edge_sets { key: "e" value { source: "nobody" target: "nobody" } }'
        client.datasets.create(name_of("bad"), TfgnnSchema(bad))
    with pytest.raises(PackhouseError, match="tfgnn_schema"):
        client.datasets.create(name_of("bad"), TfgnnSchema("node_sets {"))
    # A schema without a form in TF-GNN takes no examples and gives none.
    name = name_of("triangles")
    index = TensorSpec("triangle", "int32", "triangles", (3,), "nodes")
    client.datasets.create(name, GraphSchema(("nodes", "triangles"), [index]))
    with pytest.raises(PackhouseError, match="triangle") as raised:
        client.datasets.append_examples(name, [b""])
    assert raised.value.code is grpc.StatusCode.INVALID_ARGUMENT
    with pytest.raises(PackhouseError) as raised:
        list(client.datasets.export_examples("no-such-data-set"))
    assert raised.value.code is grpc.StatusCode.NOT_FOUND
    with pytest.raises(PackhouseError, match="min_rows"):
        limits = {"n": 9, "e": 9, "n.text.bytes": 99, "graphs": 3}
        options = PackOptions(limits, "graph", min_rows={"n": 1})
        list(client.pack_examples(SCHEMA, [], options))
    with pytest.raises(PackhouseError, match="below 3 graphs of at least 4 rows"):
        options = PackOptions({"n": 9, "e": 9, "graphs": 3}, "tfgnn", min_rows={"n": 4})
        list(client.pack_examples(SCHEMA, [], options))


def test_graphs_and_examples_share_a_data_set(client: Client) -> None:
    """Rows and examples are two ways to say the same graphs."""
    name = name_of("both")
    dataset = client.datasets.create(name, SCHEMA)
    client.datasets.append_examples(name, [good_example(1.5)])
    exported = list(client.datasets.export_examples(name))
    (batch,) = client.pack_examples(dataset.schema, exported, PackOptions({"graphs": 1}))
    client.datasets.append(name, batch.unbatch())
    assert list(client.datasets.export_examples(name)) == exported * 2

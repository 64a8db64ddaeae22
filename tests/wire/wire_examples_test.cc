#include "service/wings/tfgnn/wire_examples.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/epoch_catalog.h"
#include "service/engine/epochs/loadable_epoch.h"
#include "service/engine/jobs/evaluation.h"
#include "service/server/calls/wire_sizes.h"
#include "service/server/services/append_handler.h"
#include "service/server/wire/wire_loader.h"
#include "service/stores/datasets/forwarding_dataset_store.h"
#include "service/wings/tfgnn/example_encoder.h"
#include "service/wings/tfgnn/export_source.h"
#include "service/wings/tfgnn/graph_schema_file.h"
#include "service/wings/tfgnn/tfgnn_format.h"
#include "tests/datasets/memory_dataset_store.h"
#include "tests/support/random.h"
#include "tests/support/random_graphs.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kText[] = R"(
  node_sets { key: 'n' value { features { key: 'x' value { dtype: DT_INT32 } }
                               features { key: 'r' value { dtype: DT_INT64 shape { dim { size: -1 } } } }
                               features { key: 't' value { dtype: DT_STRING } } } }
  edge_sets { key: 'e' value { source: 'n' target: 'n' } })";

GraphSchema Schema() {
  v1::TfgnnSchema wire;
  wire.set_text(kText);
  return TfgnnSchemaFromWire(wire).value();
}

// `n` graphs of the schema, and each as an example.
class Graphs {
 public:
  Graphs(const GraphSchema& schema, uint64_t seed, size_t n) : schema_(schema) {
    Random random(seed);
    const tfgnn::GraphSets sets = tfgnn::GraphSets::FromSchema(schema).value();
    tfgnn::ExampleEncoder encoder(sets);
    const size_t l = schema_.num_components();
    std::vector<uint32_t> counts;
    columns_.resize(schema_.tensors().size());
    for (size_t i = 0; i < n; ++i) {
      std::vector<uint32_t> tuple(l, 0);
      tuple[0] = random.Below(4);
      tuple[1] = tuple[0] == 0 ? 0 : random.Below(4);
      // Lengths come before what they are of.
      for (size_t t = 0; t < schema_.tensors().size(); ++t) {
        const TensorSpec& spec = schema_.tensors()[t];
        const bool is_length = spec.name.ends_with(".d1");
        for (uint32_t row = 0; row < tuple[spec.component]; ++row) {
          uint64_t value = random.Below(200);
          if (spec.index_into) value = random.Below(tuple[*spec.index_into]);
          if (is_length) {
            value = random.Below(3);
            tuple[*schema_.sizes().IndexOf(spec.name.substr(0, spec.name.size() - 3))] += value;
          }
          columns_[t].append(reinterpret_cast<const char*>(&value), schema_.row_bytes(t));
        }
      }
      counts.insert(counts.end(), tuple.begin(), tuple.end());
    }
    std::vector<absl::string_view> views(columns_.begin(), columns_.end());
    chunk_ = std::make_unique<GraphChunk>(
        GraphChunk::Create(&schema_, SizeTable::WithConsecutiveIds(n, l, counts, 0).value(),
                           std::move(views), nullptr)
            .value());
    for (size_t i = 0; i < n; ++i) {
      EXPECT_THAT(encoder.Append(*chunk_, i, &examples_.emplace_back()), IsOk());
    }
  }

  const GraphChunk& chunk() const { return *chunk_; }
  const std::vector<std::string>& examples() const { return examples_; }

 private:
  const GraphSchema schema_;
  std::vector<std::string> columns_;
  std::unique_ptr<GraphChunk> chunk_;
  std::vector<std::string> examples_;
};

constexpr char kMalformed[] = "\x0a\x02\xff\xff";

// Conservation: each example is a graph, as it was, or left out and named.
TEST(WireExamplesTest, EachExampleIsAGraphOrIsNamed) {
  const GraphSchema schema = Schema();
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const Graphs graphs(schema, seed, random.Below(20));
    MemoryBudget working(uint64_t{1} << 30);
    PH_ASSERT_OK_AND_ASSIGN(TfgnnReader reader, TfgnnReader::Create(&schema, &working));
    v1::Examples wire;
    wire.set_skip_malformed(true);
    std::vector<size_t> kept;
    std::vector<uint32_t> bad;
    std::vector<uint64_t> ids;
    for (size_t i = 0; i < graphs.examples().size(); ++i) {
      if (random.Below(4) == 0) {
        bad.push_back(wire.examples_size());
        wire.add_examples(kMalformed);
        ids.push_back(1000 + 3 * ids.size());
      }
      kept.push_back(wire.examples_size());
      wire.add_examples(graphs.examples()[i]);
      ids.push_back(1000 + 3 * ids.size());
    }
    const uint64_t form = random.Below(3);
    if (form == 1) wire.set_graph_ids(Uint64sToWire(ids));
    if (form == 2) wire.set_first_id(5);
    const auto id_of = [&](size_t number) {
      return form == 1 ? ids[number] : (form == 2 ? 5 : 70) + number;
    };
    {
      PH_ASSERT_OK_AND_ASSIGN(const DecodedExamples decoded, reader.Read(wire, 70));
      EXPECT_GE(decoded.memory.bytes(), decoded.chunk.num_bytes());
      ASSERT_EQ(decoded.chunk.num_graphs(), kept.size());
      for (size_t i = 0; i < kept.size(); ++i) {
        EXPECT_TRUE(SameRows(decoded.chunk, i, graphs.chunk(), i)) << i;
        EXPECT_EQ(decoded.chunk.sizes().graph_id(i), id_of(kept[i]));
      }
      ASSERT_EQ(decoded.left_out.size(), bad.size());
      for (size_t i = 0; i < bad.size(); ++i) {
        EXPECT_EQ(decoded.left_out[i].example, bad[i]);
        EXPECT_EQ(decoded.left_out[i].graph_id, id_of(bad[i]));
        EXPECT_THAT(decoded.left_out[i].message, HasSubstr(absl::StrCat("record ", bad[i])));
      }
    }
    EXPECT_EQ(working.held(), 0U);
    wire.set_skip_malformed(false);
    const auto strict = reader.Read(wire, 70);
    if (bad.empty()) {
      EXPECT_THAT(strict, IsOk());
    } else {
      EXPECT_THAT(strict, StatusIs(absl::StatusCode::kInvalidArgument,
                                   absl::StrCat("examples: record ", bad[0],
                                                ": its 4 bytes are no tf.Example")));
    }
  }
}

// What OnMalformedExamples() was told.
class MalformedCounter final : public RpcObserver {
 public:
  void OnStarted(Method /*method*/) override {}
  void OnFinished(Method /*method*/, absl::StatusCode /*code*/,
                  absl::Duration /*elapsed*/) override {}
  void OnPlanned(absl::Duration /*elapsed*/, double /*gap*/) override {}
  void OnMalformedExamples(Method method, uint64_t skipped, uint64_t refused) override {
    EXPECT_EQ(method, Method::kPack);
    num_skipped += skipped;
    num_refused += refused;
  }

  uint64_t num_skipped = 0;
  uint64_t num_refused = 0;
};

TEST(WireExamplesTest, MalformedExamplesAreCounted) {
  const GraphSchema schema = Schema();
  MalformedCounter counter;
  MemoryBudget working(uint64_t{1} << 30);
  PH_ASSERT_OK_AND_ASSIGN(TfgnnReader reader,
                          TfgnnReader::Create(&schema, &working, {&counter, Method::kPack}));
  v1::Examples wire;
  wire.add_examples("");
  EXPECT_THAT(reader.Read(wire, 0), IsOk());
  EXPECT_EQ(counter.num_skipped + counter.num_refused, 0U);
  wire.add_examples(kMalformed);
  wire.add_examples(kMalformed);
  EXPECT_THAT(reader.Read(wire, 0), StatusIs(absl::StatusCode::kInvalidArgument, testing::_));
  EXPECT_EQ(counter.num_refused, 1U);
  wire.set_skip_malformed(true);
  EXPECT_THAT(reader.Read(wire, 0), IsOk());
  EXPECT_EQ(counter.num_skipped, 2U);
  EXPECT_EQ(counter.num_refused, 1U);
}

TEST(WireExamplesTest, RefusesIdsThatCannotBe) {
  const GraphSchema schema = Schema();
  PH_ASSERT_OK_AND_ASSIGN(TfgnnReader reader, TfgnnReader::Create(&schema, nullptr));
  v1::Examples wire;
  wire.add_examples("");
  wire.add_examples("");
  wire.set_graph_ids("1234567");
  EXPECT_THAT(reader.Read(wire, 0), StatusIs(absl::StatusCode::kInvalidArgument,
                                             HasSubstr("7 bytes, 2 examples take 16")));
  wire.set_graph_ids(std::string(16, 'x'));
  EXPECT_THAT(reader.Read(wire, 0),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("twice")));
  wire.set_first_id(UINT64_MAX);
  EXPECT_THAT(reader.Read(wire, 0),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("exceed 2^64 - 1")));
  wire.set_first_id(UINT64_MAX - 2);
  PH_ASSERT_OK_AND_ASSIGN(const DecodedExamples last, reader.Read(wire, 0));
  EXPECT_EQ(last.chunk.sizes().graph_id(1), UINT64_MAX - 1);
}

TEST(WireExamplesTest, TheFirstThatAreLeftOutAreExplained) {
  const GraphSchema schema = Schema();
  PH_ASSERT_OK_AND_ASSIGN(TfgnnReader reader, TfgnnReader::Create(&schema, nullptr));
  v1::Examples wire;
  wire.set_skip_malformed(true);
  for (size_t i = 0; i <= LeftOut::kMaxTold; ++i) wire.add_examples(kMalformed);
  PH_ASSERT_OK_AND_ASSIGN(const DecodedExamples decoded, reader.Read(wire, 0));
  ASSERT_EQ(decoded.left_out.size(), LeftOut::kMaxTold + 1);
  EXPECT_NE(decoded.left_out[LeftOut::kMaxTold - 1].message, "");
  EXPECT_EQ(decoded.left_out[LeftOut::kMaxTold].message, "");
}

TEST(WireExamplesTest, SchemasThatNoExampleCanFillAreRefused) {
  const auto refused = [](std::vector<TensorSpec> tensors, const char* why) {
    const GraphSchema schema =
        GraphSchema::Create(SizeSchema::NodesAndEdges(), std::move(tensors)).value();
    EXPECT_THAT(TfgnnReader::Create(&schema, nullptr).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  refused({{"edge_index", DType::kInt64, {2}, 1, 0, ""}}, "'edge_index': the ends of edges");
  refused({{"edges", DType::kInt64, {}, 1, {}, ""}}, "'edges': its rows belong to no node set");
}

// A few bytes can declare billions of empty ragged rows.
TEST(WireExamplesTest, RowsAreReservedBeforeTheyAreMade) {
  const GraphSchema schema = Schema();
  v1::TfgnnSchema text;
  text.set_text(
      "node_sets { key: 'n' value { features { key: 'r' value { dtype: DT_INT64 shape { dim { "
      "size: "
      "-1 } } } } } }");
  PH_ASSERT_OK_AND_ASSIGN(const GraphSchema ragged, TfgnnSchemaFromWire(text));
  MemoryBudget working(uint64_t{16} << 20);
  PH_ASSERT_OK_AND_ASSIGN(TfgnnReader reader, TfgnnReader::Create(&ragged, &working));
  v1::Examples wire;
  // 2^32 - 1 rows of no values, each with a length of four bytes.
  const std::string example = std::string("\x0a\x1c\x0a\x1a", 4) +
                              std::string("\x0a\x0dnodes/n.#size", 15) +
                              std::string("\x12\x09\x1a\x07\x0a\x05\xff\xff\xff\xff\x0f", 11);
  wire.add_examples(example);
  EXPECT_THAT(reader.Read(wire, 0), StatusIs(absl::StatusCode::kInvalidArgument,
                                             AllOf(HasSubstr("record 0"), HasSubstr("bytes"))));
  // Many that are each within the bound are bounded by the budget.
  MemoryBudget small(uint64_t{1} << 20);
  PH_ASSERT_OK_AND_ASSIGN(TfgnnReader narrow, TfgnnReader::Create(&schema, &small));
  v1::Examples few;
  few.add_examples("");
  EXPECT_THAT(narrow.Read(few, 0),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("the rows of examples")));
  EXPECT_EQ(small.held(), 0U);
  // What is reserved: see MostRowBytes() and kGrowth. What is kept: twice the rows.
  MemoryBudget enough(uint64_t{1} << 30);
  PH_ASSERT_OK_AND_ASSIGN(TfgnnReader wide, TfgnnReader::Create(&schema, &enough));
  *few.mutable_examples(0) = Graphs(schema, 1, 3).examples()[2];
  PH_ASSERT_OK_AND_ASSIGN(const DecodedExamples decoded, wide.Read(few, 0));
  EXPECT_EQ(decoded.memory.bytes(), 3 * (16 * few.examples(0).size() + (uint64_t{1} << 20)));
  uint64_t bytes = sizeof(uint32_t) * schema.num_components();
  for (size_t t = 0; t < schema.tensors().size(); ++t) bytes += decoded.chunk.column(t).size();
  EXPECT_EQ(decoded.bytes, 2 * bytes);
}

// An append of examples and an export are each other's inverse, in parts of any size.
TEST(WireExamplesTest, WhatIsAppendedIsExported) {
  const GraphSchema schema = Schema();
  const Graphs graphs(schema, 3, 40);
  MemoryDatasetStore store(uint64_t{1} << 30);
  DatasetOptions options;
  options.grouped = true;
  ASSERT_THAT(store.Create("d", schema, options), IsOk());
  MemoryBudget working(uint64_t{1} << 30);
  AppendHandler handler(&store, &working, nullptr, nullptr, nullptr, TfgnnFormat());
  std::vector<uint64_t> groups;
  for (size_t begin = 0; begin < 40; begin += 7) {
    auto request = std::make_unique<v1::AppendRequest>();
    request->set_dataset("d");
    request->mutable_examples()->set_skip_malformed(true);
    std::vector<uint64_t> sent;
    for (size_t i = begin; i < std::min<size_t>(begin + 7, 40); ++i) {
      request->mutable_examples()->add_examples(graphs.examples()[i]);
      request->mutable_examples()->add_examples(kMalformed);
      sent.insert(sent.end(), {i / 3, 1000 + i});
      groups.push_back(i / 3);
    }
    request->set_group_ids(Uint64sToWire(sent));
    ASSERT_THAT(handler.Accept(std::move(request)), IsOk());
    PH_ASSERT_OK_AND_ASSIGN(const auto response, handler.Next());
    EXPECT_EQ(response->num_appended(), response->num_skipped());
  }
  EXPECT_EQ(working.held(), 0U);
  EXPECT_THAT(store.OpenReader("d").value()->group_ids(), testing::ElementsAreArray(groups));
  v1::ExportDatasetRequest request;
  request.set_name("d");
  for (uint64_t first = 0; first <= 40; first += 8) {
    request.set_first_graph(first);
    PH_ASSERT_OK_AND_ASSIGN(const auto source,
                            ExportSource::Open(request, store, size_t{64} << 20, &working));
    std::vector<std::string> exported;
    for (;;) {
      PH_ASSERT_OK_AND_ASSIGN(const auto response, source->Next());
      if (!response) break;
      EXPECT_EQ(response->has_tfgnn_schema(), exported.empty());
      EXPECT_EQ(response->first_graph(), first + exported.size());
      const std::vector<uint64_t> ids = Uint64sFromWire(response->graph_ids());
      for (const std::string& example : response->examples()) {
        // Skipped examples have numbers, too.
        EXPECT_EQ(ids[exported.size()], 2 * (first + exported.size()));
        exported.push_back(example);
      }
    }
    EXPECT_EQ(exported,
              std::vector<std::string>(graphs.examples().begin() + first, graphs.examples().end()));
  }
  request.set_first_graph(41);
  EXPECT_THAT(ExportSource::Open(request, store, size_t{64} << 20, &working),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("first_graph: 41")));
  request.set_first_graph(0);
  PH_ASSERT_OK_AND_ASSIGN(const auto narrow, ExportSource::Open(request, store, 10, &working));
  EXPECT_THAT(narrow->Next(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("graph 0 of the data set")));
}

// A response has as many examples as it has room for beside its ids and the schema.
TEST(WireExamplesTest, AnExportIsCutWhereAResponseIsFull) {
  constexpr size_t kBesides = size_t{64} << 10;
  constexpr size_t kGraphs = 40;
  const GraphSchema schema = Schema();
  const Graphs graphs(schema, 3, kGraphs);
  MemoryDatasetStore store(uint64_t{1} << 30);
  ASSERT_THAT(store.Create("d", schema, DatasetOptions()), IsOk());
  ASSERT_THAT(store.Append("d", graphs.chunk(), {}, std::nullopt).status(), IsOk());
  size_t largest = 0;
  for (const std::string& example : graphs.examples()) largest = std::max(largest, example.size());
  MemoryBudget working(uint64_t{1} << 30);
  v1::ExportDatasetRequest request;
  request.set_name("d");
  request.set_first_graph(5);
  for (const size_t room : {largest, 3 * largest, size_t{1} << 19}) {
    for (const uint64_t most : {0, 1, 7, 100}) {
      request.set_num_graphs(most);
      PH_ASSERT_OK_AND_ASSIGN(const auto source,
                              ExportSource::Open(request, store, kBesides + room, &working));
      EXPECT_EQ(working.held(), kGraphs * (16 * schema.num_components() + 40));
      const size_t end = most == 0 ? kGraphs : std::min<size_t>(kGraphs, 5 + most);
      size_t place = 5;
      for (bool is_first = true;; is_first = false) {
        PH_ASSERT_OK_AND_ASSIGN(const auto response, source->Next());
        if (!response) break;
        EXPECT_EQ(response->num_graphs(), is_first ? kGraphs : 0);
        size_t bytes = 0;
        for (const std::string& example : response->examples()) {
          EXPECT_EQ(example, graphs.examples()[place++]);
          bytes += example.size();
        }
        EXPECT_GT(bytes, 0U);
        EXPECT_LE(bytes, room);
        if (place < end) {
          EXPECT_GT(bytes + graphs.examples()[place].size(), room);
        }
      }
      EXPECT_EQ(place, end);
    }
  }
  EXPECT_EQ(working.held(), 0U);
  request.clear_num_graphs();
  PH_ASSERT_OK_AND_ASSIGN(const auto narrow,
                          ExportSource::Open(request, store, kBesides + largest - 1, nullptr));
  absl::Status status;
  for (size_t i = 0; i < kGraphs && status.ok(); ++i) status = narrow->Next().status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                               HasSubstr(absl::StrCat("of ", largest,
                                                      " bytes, a response has at "
                                                      "most ",
                                                      kBesides + largest - 1))));
}

TEST(WireExamplesTest, WhatCannotBeExportedIsNamed) {
  const GraphSchema schema = Schema();
  MemoryDatasetStore store(uint64_t{1} << 30);
  ASSERT_THAT(store.Create("d", schema, DatasetOptions()), IsOk());
  // A string of 600 000 bytes each: two of them are a response.
  constexpr uint32_t kBytes = 600'000;
  const auto append = [&](const std::vector<int32_t>& lengths, uint64_t first_id) {
    const size_t n = lengths.size();
    std::vector<uint32_t> counts;
    for (size_t i = 0; i < n; ++i) counts.insert(counts.end(), {1, 0, 0, kBytes});
    std::map<std::string, std::string> rows = {
        {"n.x", std::string(4 * n, '\0')},
        {"n.r.d1", std::string(4 * n, '\0')},
        {"n.t.bytes", std::string(n * kBytes, 't')},
        {"n.t.bytes.d1", std::string(reinterpret_cast<const char*>(lengths.data()), 4 * n)}};
    std::vector<absl::string_view> columns;
    for (const TensorSpec& tensor : schema.tensors()) columns.push_back(rows[tensor.name]);
    const GraphChunk chunk =
        GraphChunk::Create(&schema, SizeTable::WithConsecutiveIds(n, 4, counts, first_id).value(),
                           columns, nullptr)
            .value();
    EXPECT_THAT(store.Append("d", chunk, {}, std::nullopt).status(), IsOk());
  };
  append(std::vector<int32_t>(3, kBytes), 0);
  v1::ExportDatasetRequest request;
  request.set_name("d");
  PH_ASSERT_OK_AND_ASSIGN(const auto large,
                          ExportSource::Open(request, store, size_t{64} << 20, nullptr));
  for (const int examples : {2, 1}) {
    EXPECT_EQ(large->Next().value()->examples_size(), examples);
  }
  EXPECT_FALSE(large->Next().value().has_value());
  append({3}, 3);
  request.set_first_graph(3);
  PH_ASSERT_OK_AND_ASSIGN(const auto wrong,
                          ExportSource::Open(request, store, size_t{64} << 20, nullptr));
  EXPECT_THAT(wrong->Next().status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("tensor 'n.t.bytes.d1': its lengths are not the 600000 rows")));
  MemoryBudget small(100);
  EXPECT_THAT(
      ExportSource::Open(request, store, size_t{64} << 20, &small).status(),
      StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("data set 'd', which is exported")));
  const GraphSchema odd = GraphSchema::Create(SizeSchema::Create({"tri"}).value(),
                                              {{"tri", DType::kInt8, {}, 0, {}, ""}})
                              .value();
  ASSERT_THAT(store.Create("odd", odd, DatasetOptions()), IsOk());
  request.set_name("odd");
  EXPECT_THAT(ExportSource::Open(request, store, size_t{64} << 20, nullptr).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("data set 'odd': schema: tensor 'tri': its rows belong to no")));
  request.set_name("none");
  EXPECT_THAT(ExportSource::Open(request, store, size_t{64} << 20, nullptr).status(),
              StatusIs(absl::StatusCode::kNotFound, testing::_));
}

// The ids of an epoch's graphs, as all ranks together load them step by step.
std::vector<uint64_t> LoadedIds(const std::shared_ptr<const PreparedEpoch>& epoch,
                                const Sharing& sharing) {
  std::vector<std::unique_ptr<Evaluation>> ranks;
  for (uint32_t rank = 0; rank < sharing.rank_group_of_rank.size(); ++rank) {
    ranks.push_back(Evaluation::Open(epoch, {sharing, rank, 0}, nullptr).value());
  }
  std::vector<uint64_t> ids;
  for (uint64_t step = 0; step < ranks[0]->num_steps(); ++step) {
    for (const auto& rank : ranks) {
      const LoadEvent event = rank->Next().value();
      for (const uint64_t id : event.built.batch.graph_ids) ids.push_back(id);
    }
  }
  return ids;
}

// An epoch's export has the graphs that its batches have, in their order, from any place on.
TEST(WireExamplesTest, AnEpochIsExportedAsItIsLoaded) {
  const GraphSchema schema = Schema();
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const size_t n = random.Between(1, 60);
    const Graphs graphs(schema, seed, n);
    MemoryDatasetStore store(uint64_t{1} << 30);
    DatasetOptions options;
    options.grouped = random.Below(2) == 0;
    ASSERT_THAT(store.Create("d", schema, options), IsOk());
    std::vector<uint64_t> groups;
    for (size_t i = 0; options.grouped && i < n; ++i) groups.push_back(random.Below(n));
    ASSERT_THAT(store.Append("d", graphs.chunk(), groups, std::nullopt).status(), IsOk());
    MemoryBudget working(uint64_t{1} << 30);
    EpochCatalog catalog(&store, EpochBounds(), &working);
    v1::ExportEpochRequest request;
    v1::EpochSpec& spec = *request.mutable_epoch();
    spec.set_dataset("d");
    spec.set_epoch(random.Below(3));
    spec.set_seed(random.Below(3));
    const size_t rank_groups = options.grouped ? 1 : random.Between(1, 2);
    for (size_t j = 0; j < rank_groups; ++j) {
      v1::RankGroup& rank_group = *spec.add_rank_groups();
      rank_group.set_num_ranks(static_cast<uint32_t>(random.Between(1, 3)));
      v1::Limits& limits = *rank_group.add_shapes();
      v1::Capacity& capacity = *limits.add_capacities();
      capacity.set_component("graphs");
      capacity.set_rows(options.grouped ? n : random.Between(1, 9));
    }
    if (options.grouped) spec.set_grouped(true);
    ASSERT_THAT(store.Seal("d").status(), IsOk());
    PH_ASSERT_OK_AND_ASSIGN(const EpochRequest epoch, EpochRequestFromWire(spec, schema));
    PH_ASSERT_OK_AND_ASSIGN(const Sharing sharing, AllRanksOf(epoch));
    PH_ASSERT_OK_AND_ASSIGN(const auto prepared, catalog.Prepare(epoch));
    const std::vector<uint64_t> expected = LoadedIds(prepared, sharing);
    ASSERT_EQ(expected.size(), n);
    request.set_first_graph(random.Between(0, n));
    request.set_num_graphs(random.Below(2) * random.Between(1, n));
    const auto open = [&](size_t max_response_bytes = size_t{64} << 20) {
      const EvaluationRequest all = {sharing, 0, 0, /*is_of_all_ranks=*/true};
      return ExportSource::OpenEpoch(request, Evaluation::Open(prepared, all, &working).value(),
                                     max_response_bytes);
    };
    PH_ASSERT_OK_AND_ASSIGN(const auto source, open());
    uint64_t place = request.first_graph();
    for (bool is_first = true;; is_first = false) {
      PH_ASSERT_OK_AND_ASSIGN(const auto response, source->Next());
      if (!response) break;
      EXPECT_EQ(response->num_graphs(), is_first ? n : 0);
      EXPECT_EQ(response->first_graph(), place);
      const std::vector<uint64_t> ids = Uint64sFromWire(response->graph_ids());
      ASSERT_EQ(ids.size(), static_cast<size_t>(response->examples_size()));
      for (size_t i = 0; i < ids.size(); ++i, ++place) {
        ASSERT_EQ(ids[i], expected[place]) << place;
        EXPECT_EQ(response->examples(static_cast<int>(i)), graphs.examples()[ids[i]]);
      }
    }
    const uint64_t most = request.num_graphs() == 0 ? n : request.num_graphs();
    EXPECT_EQ(place, std::min<uint64_t>(request.first_graph() + most, n));

    request.set_first_graph(n - 1);
    PH_ASSERT_OK_AND_ASSIGN(const auto narrow, open(10));
    EXPECT_THAT(narrow->Next().status(),
                StatusIs(absl::StatusCode::kResourceExhausted,
                         HasSubstr(absl::StrCat("graph with id ", expected[n - 1], " of the"))));
    request.set_first_graph(n + 1);
    EXPECT_THAT(open().status(),
                StatusIs(absl::StatusCode::kOutOfRange,
                         HasSubstr(absl::StrCat("the epoch of data set 'd' has ", n, " graphs"))));
  }
}

// An epoch one of whose batches has no memory, as where its window has to be planned anew; whose
// graphs are more than its batches have, or come from other readers.
class WithoutOneBatch final : public LoadableEpoch {
 public:
  WithoutOneBatch(std::shared_ptr<const LoadableEpoch> whole, uint64_t missing)
      : whole_(std::move(whole)), missing_(missing) {}

  const EpochIdentity& identity() const override { return whole_->identity(); }
  const GraphSchema& schema() const override { return whole_->schema(); }
  absl::Span<const BatchShape> shapes(size_t rank_group) const override {
    return whole_->shapes(rank_group);
  }
  uint64_t num_graphs() const override { return whole_->num_graphs() + num_more; }
  uint64_t NumGraphs(uint64_t number) const override {
    return number == missing_ ? 0 : whole_->NumGraphs(number);
  }
  absl::StatusOr<GraphsOfBatch> GraphsOf(uint64_t number) const override {
    if (number == missing_) return absl::ResourceExhaustedError("no memory for a window");
    PH_ASSIGN_OR_RETURN(GraphsOfBatch graphs, whole_->GraphsOf(number));
    if (number < readers.size()) graphs.reader = readers[number];
    return graphs;
  }
  absl::StatusOr<BuiltBatch> Build(uint64_t number) const override { return whole_->Build(number); }
  absl::StatusOr<BuiltBatch> BuildPadding(size_t rank_group) const override {
    return whole_->BuildPadding(rank_group);
  }

  uint64_t num_more = 0;
  std::vector<std::shared_ptr<const DatasetReader>> readers;

 private:
  const std::shared_ptr<const LoadableEpoch> whole_;
  const uint64_t missing_;
};

// Neither those that are asked for nor those before them are left out unsaid.
TEST(WireExamplesTest, AnExportTellsWhyABatchIsNotThere) {
  constexpr size_t kGraphs = 12;
  const GraphSchema schema = Schema();
  const Graphs graphs(schema, 3, kGraphs);
  MemoryDatasetStore store(uint64_t{1} << 30);
  ASSERT_THAT(store.Create("d", schema, DatasetOptions()), IsOk());
  ASSERT_THAT(store.Append("d", graphs.chunk(), {}, std::nullopt).status(), IsOk());
  ASSERT_THAT(store.Seal("d").status(), IsOk());
  MemoryBudget working(uint64_t{1} << 30);
  EpochCatalog catalog(&store, EpochBounds(), &working);
  v1::ExportEpochRequest request;
  request.mutable_epoch()->set_dataset("d");
  v1::Capacity& capacity =
      *request.mutable_epoch()->add_rank_groups()->add_shapes()->add_capacities();
  capacity.set_component("graphs");
  capacity.set_rows(3);
  PH_ASSERT_OK_AND_ASSIGN(const EpochRequest epoch, EpochRequestFromWire(request.epoch(), schema));
  PH_ASSERT_OK_AND_ASSIGN(const Sharing sharing, AllRanksOf(epoch));
  PH_ASSERT_OK_AND_ASSIGN(const auto prepared, catalog.Prepare(epoch));
  for (const uint64_t missing : {0, 1}) {
    for (const uint64_t first : {0, 1, 4, 5}) {
      request.set_first_graph(first);
      request.set_num_graphs(6);
      const EvaluationRequest all = {sharing, 0, 0, /*is_of_all_ranks=*/true};
      auto pass =
          Evaluation::Open(std::make_shared<WithoutOneBatch>(prepared, missing), all, &working);
      ASSERT_THAT(pass, IsOk());
      PH_ASSERT_OK_AND_ASSIGN(const auto source,
                              ExportSource::OpenEpoch(request, *std::move(pass), size_t{64} << 20));
      EXPECT_THAT(source->Next().status(),
                  StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("for a window")))
          << first;
    }
  }
}

// Serves the graphs of another reader until one cannot be read.
class FailingReader final : public DatasetReader {
 public:
  explicit FailingReader(std::shared_ptr<const DatasetReader> reader)
      : reader_(std::move(reader)) {}

  size_t away = SIZE_MAX;
  absl::Status intact;

  const DatasetInfo& info() const override { return reader_->info(); }
  const SizeHistogram& histogram() const override { return reader_->histogram(); }
  absl::Span<const uint32_t> counts() const override { return reader_->counts(); }
  absl::Span<const uint64_t> graph_ids() const override { return reader_->graph_ids(); }
  absl::Span<const uint64_t> group_ids() const override { return reader_->group_ids(); }
  absl::Span<const DamagedRecord> unreadable() const override { return {}; }
  absl::StatusOr<StoredGraph> Graph(size_t i) const override {
    if (i == away) return absl::UnavailableError(absl::StrCat("graph ", i, " is away"));
    return reader_->Graph(i);
  }
  absl::Status CheckIntact() const override { return intact; }

 private:
  const std::shared_ptr<const DatasetReader> reader_;
};

class OneReaderStore final : public ForwardingDatasetStore {
 public:
  using ForwardingDatasetStore::ForwardingDatasetStore;
  absl::StatusOr<std::shared_ptr<const DatasetReader>> OpenReader(
      absl::string_view /*name*/) const override {
    return reader;
  }
  absl::StatusOr<std::shared_ptr<const DatasetReader>> reader = absl::AbortedError("not opened");
};

TEST(WireExamplesTest, AnExportTellsWhatCannotBeRead) {
  constexpr size_t kGraphs = 12;
  const GraphSchema schema = Schema();
  const Graphs graphs(schema, 3, kGraphs);
  MemoryDatasetStore memory(uint64_t{1} << 30);
  ASSERT_THAT(memory.Create("d", schema, DatasetOptions()), IsOk());
  ASSERT_THAT(memory.Append("d", graphs.chunk(), {}, std::nullopt).status(), IsOk());
  ASSERT_THAT(memory.Seal("d").status(), IsOk());
  OneReaderStore store(&memory);
  v1::ExportDatasetRequest of_dataset;
  of_dataset.set_name("d");
  const auto next = [&]() -> absl::Status {
    PH_ASSIGN_OR_RETURN(const auto source,
                        ExportSource::Open(of_dataset, store, size_t{64} << 20, nullptr));
    EXPECT_FALSE(source->IsWaiting());
    return source->Next().status();
  };
  EXPECT_EQ(next(), absl::AbortedError("not opened"));
  const auto make_reader = [&] {
    return std::make_shared<FailingReader>(memory.OpenReader("d").value());
  };
  const auto reader = make_reader();
  store.reader = reader;
  EXPECT_EQ(next(), absl::OkStatus());
  for (const size_t away : {0, 5, 11}) {
    reader->away = away;
    EXPECT_EQ(next(), absl::UnavailableError(absl::StrCat("graph ", away, " is away")));
  }
  reader->away = SIZE_MAX;
  reader->intact = absl::DataLossError("the file was cut off");
  EXPECT_EQ(next(), reader->intact);

  EpochCatalog catalog(&memory, EpochBounds(), nullptr);
  v1::ExportEpochRequest request;
  request.mutable_epoch()->set_dataset("d");
  v1::Capacity& capacity =
      *request.mutable_epoch()->add_rank_groups()->add_shapes()->add_capacities();
  capacity.set_component("graphs");
  capacity.set_rows(3);
  PH_ASSERT_OK_AND_ASSIGN(const EpochRequest epoch, EpochRequestFromWire(request.epoch(), schema));
  PH_ASSERT_OK_AND_ASSIGN(const Sharing sharing, AllRanksOf(epoch));
  PH_ASSERT_OK_AND_ASSIGN(const auto prepared, catalog.Prepare(epoch));
  const auto next_of_epoch = [&](const std::shared_ptr<const LoadableEpoch>& of) -> absl::Status {
    const EvaluationRequest all = {sharing, 0, 0, /*is_of_all_ranks=*/true};
    PH_ASSIGN_OR_RETURN(auto pass, Evaluation::Open(of, all, nullptr));
    PH_ASSIGN_OR_RETURN(const auto source,
                        ExportSource::OpenEpoch(request, std::move(pass), size_t{64} << 20));
    return source->Next().status();
  };
  const auto changed = std::make_shared<WithoutOneBatch>(prepared, /*missing=*/UINT64_MAX);
  changed->num_more = 1;
  EXPECT_EQ(next_of_epoch(changed),
            absl::InternalError("export: the epoch has fewer graphs than were counted"));
  changed->num_more = 0;
  EXPECT_EQ(next_of_epoch(changed), absl::OkStatus());
  // Each batch from a reader of its own: any of them may have been lost.
  for (size_t lost = 0; lost < kGraphs / 3; ++lost) {
    changed->readers.clear();
    for (size_t b = 0; b < kGraphs / 3; ++b) {
      const auto of_batch = make_reader();
      if (b == lost) of_batch->intact = absl::DataLossError(absl::StrCat("batch ", b, " is lost"));
      changed->readers.push_back(of_batch);
    }
    EXPECT_EQ(next_of_epoch(changed),
              absl::DataLossError(absl::StrCat("batch ", lost, " is lost")));
  }
}

TEST(WireExamplesTest, GroupIdsGoWithTheirExamples) {
  const GraphSchema schema = Schema();
  const Graphs graphs(schema, 5, 3);
  MemoryDatasetStore store(uint64_t{1} << 30);
  DatasetOptions options;
  options.grouped = true;
  ASSERT_THAT(store.Create("d", schema, options), IsOk());
  AppendHandler handler(&store, nullptr, nullptr, nullptr, nullptr, TfgnnFormat());
  auto request = std::make_unique<v1::AppendRequest>();
  request->set_dataset("d");
  v1::Examples& examples = *request->mutable_examples();
  examples.set_skip_malformed(true);
  for (const std::string& example :
       {graphs.examples()[0], std::string(kMalformed), graphs.examples()[1],
        std::string(kMalformed), graphs.examples()[2]}) {
    examples.add_examples(example);
  }
  request->set_group_ids(Uint64sToWire({10, 11, 12, 13, 14}));
  ASSERT_THAT(handler.Accept(std::move(request)), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const auto reader, store.OpenReader("d"));
  EXPECT_THAT(reader->group_ids(), ElementsAre(10, 12, 14));
  EXPECT_THAT(reader->graph_ids(), ElementsAre(0, 2, 4));
}

TEST(WireExamplesTest, ASchemaIsTextOrBinary) {
  v1::TfgnnSchema wire;
  wire.set_binary(tfgnn::ParseGraphSchema(kText).value().SerializeAsString());
  PH_ASSERT_OK_AND_ASSIGN(const GraphSchema schema, TfgnnSchemaFromWire(wire));
  EXPECT_EQ(schema.sizes(), Schema().sizes());
  EXPECT_EQ(schema.tensors().size(), Schema().tensors().size());
  wire.set_text("node_sets { key: 'graphs' value { } }");
  EXPECT_THAT(TfgnnSchemaFromWire(wire),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "tfgnn_schema: schema: component 'graphs' is implied and must not be "
                       "listed"));
}

TEST(WireExamplesTest, ASchemaComesOnce) {
  v1::CreateDatasetRequest request;
  request.mutable_tfgnn_schema()->set_text(kText);
  PH_ASSERT_OK_AND_ASSIGN(const GraphSchema schema, SchemaOf(request, TfgnnFormat()));
  EXPECT_THAT(schema.sizes().components(), ElementsAre("n", "e", "n.r", "n.t.bytes"));
  request.mutable_schema();
  EXPECT_THAT(SchemaOf(request, TfgnnFormat()), StatusIs(absl::StatusCode::kInvalidArgument,
                                                         HasSubstr("there is a schema beside it")));
  request.clear_schema();
  request.mutable_tfgnn_schema()->clear_text();
  EXPECT_THAT(SchemaOf(request, TfgnnFormat()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("neither text nor binary")));
}

}  // namespace
}  // namespace packhouse

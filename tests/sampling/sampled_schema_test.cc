#include "service/wings/graphs/sampling/sampled_schema.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/checksum.h"
#include "service/wings/graphs/sampling/sampled_chunk.h"
#include "service/wings/tfgnn/graph_sets.h"
#include "tests/sampling/sampling_worlds.h"
#include "tests/support/status_matchers.h"
#include "tests/support/unreadable_graph.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
std::vector<T> RowsOfTensor(const GraphChunk& chunk, size_t graph, const std::string& name) {
  const auto tensor = chunk.schema().TensorIndex(name);
  EXPECT_TRUE(tensor.has_value()) << name;
  if (!tensor) return {};
  const absl::string_view bytes = chunk.rows(graph, *tensor);
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// Papers with a vector, a title and a list of pairs; authors with text ids and nothing else.
// "written" is "writes" backwards. The edges of "writes" have a share, and a feature `source`.
class SampledSchemaTest : public testing::Test {
 protected:
  SampledSchemaTest() {
    const SourceColumnSpec feat{"feat", DType::kFloat32, {3}, false, false};
    const SourceColumnSpec title{"title", DType::kUint8, {}, true, true};
    const SourceColumnSpec pairs{"pairs", DType::kInt16, {2}, true, false};
    const SourceColumnSpec share{"share", DType::kFloat64, {}, false, false};
    const SourceColumnSpec year{"source", DType::kInt8, {}, false, false};
    MemoryNodeSet papers;
    papers.num_nodes = 4;
    papers.integer_ids = {100, 101, 102, 103};
    std::vector<float> feats;
    for (int i = 0; i < 12; ++i) feats.push_back(static_cast<float>(i));
    MemoryColumn pair_column = ColumnOf<int16_t>({1, 2, 3, 4, 5, 6});
    pair_column.offsets = {0, 1, 1, 3, 3};
    papers.columns = {ColumnOf(feats), TextColumnOf({"zero", "", "two", "three"}), pair_column};
    MemoryNodeSet authors;
    authors.num_nodes = 3;
    authors.text_ids = {"ann", "b", "cecil"};
    MemoryEdgeSet writes;
    writes.sources = {0, 1, 2, 1};
    writes.targets = {0, 0, 2, 2};
    writes.columns = {ColumnOf<double>({0.5, 0.25, 1, 2}), ColumnOf<int8_t>({9, 8, 7, 6})};
    MemoryEdgeSet cites;
    cites.sources = {0, 2};
    cites.targets = {2, 3};
    graph_ = MakeGraph({{"paper", {feat, title, pairs}}, {"author", {}}},
                       {{"writes", 1, 0, {share, year}, std::nullopt},
                        {"written", 0, 1, {}, 0},
                        {"cites", 0, 0, {}, std::nullopt}},
                       {papers, authors}, {writes, {}, cites});
  }

  static tfgnn::SamplingSpec Spec() {
    return SpecOf("paper", {UniformOp("c", {"seed"}, "cites", 10),
                            UniformOp("w", {"seed", "c"}, "written", 10)});
  }

  GraphChunk ChunkOf(const SampledSchema& schema, const Sampler& sampler,
                     const std::vector<std::vector<uint32_t>>& seeds, ReadoutRows readout = {}) {
    SampledChunk chunk(&schema);
    for (const std::vector<uint32_t>& each : seeds) {
      DrawRequest request;
      request.seeds = each;
      const absl::Status status = chunk.Append(Draw(sampler, request), readout);
      EXPECT_TRUE(status.ok()) << status;
    }
    auto graphs = chunk.Finish(7);
    EXPECT_TRUE(graphs.ok()) << graphs.status();
    return *std::move(graphs);
  }

  std::unique_ptr<const SourceGraph> graph_;
};

TEST_F(SampledSchemaTest, FeaturesAreGatheredUnderTfgnnsNames) {
  const Sampler sampler = SamplerOf(*graph_, Spec());
  PH_ASSERT_OK_AND_ASSIGN(const SampledSchema schema,
                          SampledSchema::Create(sampler.plan(), *graph_,
                                                {.numbers = true, .rows = false, .ids = true}));
  EXPECT_THAT(schema.schema().sizes().components(),
              ElementsAre("author", "paper", "cites", "written", "author.#id.bytes",
                          "paper.title.bytes", "paper.pairs"));
  const GraphChunk chunk = ChunkOf(schema, sampler, {{0}, {3}, {1}});
  ASSERT_EQ(chunk.num_graphs(), 3U);
  EXPECT_EQ(chunk.sizes().graph_id(0), 7U);
  // Paper 0 cites 2, which cites 3, too far away. Written: 0 by 0 and 1, 2 by 2 and 1.
  EXPECT_THAT(chunk.sizes().tuple(0), ElementsAre(3, 2, 1, 4, 9, 7, 3));
  EXPECT_THAT(chunk.sizes().tuple(1), ElementsAre(0, 1, 0, 0, 0, 5, 0));
  EXPECT_THAT(chunk.sizes().tuple(2), ElementsAre(0, 1, 0, 0, 0, 0, 0));
  EXPECT_THAT(RowsOfTensor<int64_t>(chunk, 0, "paper.#id"), ElementsAre(100, 102));
  EXPECT_THAT(RowsOfTensor<int64_t>(chunk, 0, "paper.#number"), ElementsAre(0, 2));
  EXPECT_THAT(RowsOfTensor<float>(chunk, 0, "paper.feat"), ElementsAre(0, 1, 2, 6, 7, 8));
  EXPECT_THAT(RowsOfTensor<int32_t>(chunk, 0, "paper.title.bytes.d1"), ElementsAre(4, 3));
  EXPECT_THAT(RowsOfTensor<char>(chunk, 0, "paper.title.bytes"),
              ElementsAre('z', 'e', 'r', 'o', 't', 'w', 'o'));
  EXPECT_THAT(RowsOfTensor<int32_t>(chunk, 0, "paper.pairs.d1"), ElementsAre(1, 2));
  EXPECT_THAT(RowsOfTensor<int16_t>(chunk, 0, "paper.pairs"), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(RowsOfTensor<int32_t>(chunk, 0, "author.#id.bytes.d1"), ElementsAre(3, 1, 5));
  EXPECT_THAT(RowsOfTensor<int32_t>(chunk, 0, "cites.source"), ElementsAre(0));
  EXPECT_THAT(RowsOfTensor<int32_t>(chunk, 0, "cites.target"), ElementsAre(1));
  EXPECT_THAT(RowsOfTensor<int32_t>(chunk, 0, "written.#source"), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(RowsOfTensor<int32_t>(chunk, 0, "written.#target"), ElementsAre(0, 1, 2, 1));
  EXPECT_THAT(RowsOfTensor<int64_t>(chunk, 0, "written.#number"), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(RowsOfTensor<double>(chunk, 0, "written.share"), ElementsAre(0.5, 0.25, 1, 2));
  EXPECT_THAT(RowsOfTensor<int8_t>(chunk, 0, "written.source"), ElementsAre(9, 8, 7, 6));
  EXPECT_EQ(schema.Bytes(chunk.sizes().tuple(0)) + schema.Bytes(chunk.sizes().tuple(1)) +
                schema.Bytes(chunk.sizes().tuple(2)),
            chunk.num_bytes());
  // Whoever reads the names finds the sets, the ends and the features again.
  PH_ASSERT_OK_AND_ASSIGN(const tfgnn::GraphSets sets,
                          tfgnn::GraphSets::FromSchema(schema.schema()));
  ASSERT_EQ(sets.node_sets().size(), 2U);
  ASSERT_EQ(sets.edge_sets().size(), 2U);
  EXPECT_EQ(sets.node_sets()[1].features.size(), 5U);
  EXPECT_EQ(sets.edge_sets()[1].features.size(), 3U);
  EXPECT_EQ(sets.edge_sets()[1].target_set, 0U);
}

TEST_F(SampledSchemaTest, IdsOnly) {
  const Sampler sampler = SamplerOf(*graph_, Spec());
  PH_ASSERT_OK_AND_ASSIGN(const SampledSchema schema,
                          SampledSchema::Create(sampler.plan(), *graph_, {false, true, false}));
  std::vector<std::string> names;
  for (const TensorSpec& tensor : schema.schema().tensors()) names.push_back(tensor.name);
  EXPECT_THAT(names,
              ElementsAre("author.#number", "paper.#number", "cites.source", "cites.target",
                          "cites.#number", "written.source", "written.target", "written.#number"));
  const GraphChunk chunk = ChunkOf(schema, sampler, {{0}});
  EXPECT_THAT(RowsOfTensor<int64_t>(chunk, 0, "author.#number"), ElementsAre(0, 1, 2));
}

TEST_F(SampledSchemaTest, StructureAlone) {
  const Sampler sampler = SamplerOf(*graph_, Spec());
  PH_ASSERT_OK_AND_ASSIGN(const SampledSchema schema,
                          SampledSchema::Create(sampler.plan(), *graph_, {false, false, false}));
  EXPECT_FALSE(schema.needs_edge_numbers());
  EXPECT_EQ(schema.schema().tensors().size(), 4U);
  const GraphChunk chunk = ChunkOf(schema, sampler, {{0}});
  EXPECT_THAT(chunk.sizes().tuple(0), ElementsAre(3, 2, 1, 4));
}

TEST_F(SampledSchemaTest, ReadoutsSayWhichNodesAreSeeds) {
  SamplingOptions options;
  options.readout = true;
  options.readout_columns = {{"label", DType::kInt32, {2}, false, false}};
  const Sampler sampler = SamplerOf(*graph_, Spec(), options);
  PH_ASSERT_OK_AND_ASSIGN(const SampledSchema schema,
                          SampledSchema::Create(sampler.plan(), *graph_, {false, false, false}));
  EXPECT_THAT(schema.schema().sizes().components(),
              ElementsAre("_readout", "author", "paper", "_readout/seed", "cites", "written"));
  const std::string labels(3 * 2 * sizeof(int32_t), 'x');
  const GraphChunk chunk = ChunkOf(schema, sampler, {{3, 1, 3}}, {labels});
  EXPECT_THAT(chunk.sizes().tuple(0), ElementsAre(3, 0, 2, 3, 0, 0));
  EXPECT_THAT(RowsOfTensor<int32_t>(chunk, 0, "_readout/seed.source"), ElementsAre(0, 1, 0));
  EXPECT_THAT(RowsOfTensor<int32_t>(chunk, 0, "_readout/seed.target"), ElementsAre(0, 1, 2));
  EXPECT_EQ(chunk.rows(0, *schema.schema().TensorIndex("_readout.label")), labels);

  SampledChunk wrong(&schema);
  DrawRequest request;
  const std::vector<uint32_t> seeds = {1};
  request.seeds = seeds;
  const SampledGraph sampled = Draw(sampler, request);
  EXPECT_THAT(wrong.Append(sampled).message(), HasSubstr("rows of 0 columns of `_readout`"));
  const std::vector<absl::string_view> too_long = {labels};
  EXPECT_THAT(wrong.Append(sampled, too_long).message(),
              HasSubstr("'_readout.label' have 24 bytes, but 8 are needed for 1 rows"));
  EXPECT_EQ(wrong.num_graphs(), 0U);
}

TEST_F(SampledSchemaTest, LinksHaveBothEnds) {
  tfgnn::SamplingSpec spec = Spec();
  spec.link_seeds = true;
  spec.seed_node_set = "";
  SamplingOptions options;
  options.link_node_set = "paper";
  const Sampler sampler = SamplerOf(*graph_, spec, options);
  PH_ASSERT_OK_AND_ASSIGN(const SampledSchema schema,
                          SampledSchema::Create(sampler.plan(), *graph_, {}));
  const GraphChunk chunk = ChunkOf(schema, sampler, {{3, 0}, {1, 1, 2, 3}});
  EXPECT_THAT(RowsOfTensor<int32_t>(chunk, 0, "_readout/source.source"), ElementsAre(0));
  EXPECT_THAT(RowsOfTensor<int32_t>(chunk, 0, "_readout/target.source"), ElementsAre(1));
  EXPECT_THAT(RowsOfTensor<int32_t>(chunk, 1, "_readout/source.source"), ElementsAre(0, 1));
  EXPECT_THAT(RowsOfTensor<int32_t>(chunk, 1, "_readout/target.source"), ElementsAre(0, 2));
  EXPECT_THAT(RowsOfTensor<int32_t>(chunk, 1, "_readout/target.target"), ElementsAre(0, 1));
}

TEST_F(SampledSchemaTest, ADrawWithoutEdgeNumbersHasNoEdgeFeatures) {
  const Sampler sampler = SamplerOf(*graph_, Spec());
  PH_ASSERT_OK_AND_ASSIGN(const SampledSchema schema,
                          SampledSchema::Create(sampler.plan(), *graph_, {}));
  EXPECT_TRUE(schema.needs_edge_numbers());
  const std::vector<uint32_t> seeds = {0};
  DrawRequest request;
  request.seeds = seeds;
  request.edge_numbers = false;
  SampledChunk chunk(&schema);
  const absl::Status status = chunk.Append(Draw(sampler, request));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("without edge numbers"));
}

// A title too long for the limits makes the sub-graph smaller, as too many nodes would.
TEST_F(SampledSchemaTest, LimitsCountRaggedFeatures) {
  const Sampler sampler = SamplerOf(*graph_, Spec());
  PH_ASSERT_OK_AND_ASSIGN(const SampledSchema schema,
                          SampledSchema::Create(sampler.plan(), *graph_, {}));
  const std::vector<uint32_t> seeds = {0};
  DrawRequest request;
  request.seeds = seeds;
  SamplerScratch scratch;
  SampledGraph sampled;
  std::vector<uint32_t> tuple;
  std::vector<uint32_t> limits(schema.schema().num_components(), 100);
  ASSERT_TRUE(schema.DrawWithin(sampler, request, limits, scratch, sampled, tuple).ok());
  EXPECT_EQ(sampled.level, 0U);
  const size_t title = *schema.schema().sizes().IndexOf("paper.title.bytes");
  EXPECT_EQ(tuple[title], 7U);
  // Exactly what it has is enough, and one less of any component is not.
  const std::vector<uint32_t> full = tuple;
  ASSERT_TRUE(schema.DrawWithin(sampler, request, full, scratch, sampled, tuple).ok());
  EXPECT_EQ(sampled.level, 0U);
  EXPECT_EQ(tuple, full);
  for (size_t k = 0; k < full.size(); ++k) {
    if (full[k] == 0) continue;
    std::vector<uint32_t> less = full;
    --less[k];
    const absl::Status drawn = schema.DrawWithin(sampler, request, less, scratch, sampled, tuple);
    EXPECT_TRUE(!drawn.ok() || sampled.level > 0) << schema.schema().sizes().name(k);
  }
  limits[title] = 6;
  ASSERT_TRUE(schema.DrawWithin(sampler, request, limits, scratch, sampled, tuple).ok());
  EXPECT_GT(sampled.level, 0U);
  EXPECT_EQ(tuple[title], 4U);
  limits[title] = 3;
  const absl::Status status = schema.DrawWithin(sampler, request, limits, scratch, sampled, tuple);
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(status.message(), HasSubstr("4 of 'paper.title.bytes', the limit is 3"));
}

// A graph of which one array is checked, and is not what was sealed.
class DamagedArray final : public SourceGraph {
 public:
  enum class Array { kNodeData, kNodeOffsets, kEdgeData };
  DamagedArray(const SourceGraph* graph, Array array, size_t column, bool is_sound)
      : graph_(*graph), array_(array), column_(column) {
    const SourceColumn of =
        array == Array::kEdgeData ? graph->EdgeColumn(0, column) : graph->NodeColumn(0, column);
    const uint64_t steps = of.offsets.empty() ? 4 : of.offsets.back();
    bytes_ = array == Array::kNodeOffsets
                 ? absl::string_view(reinterpret_cast<const char*>(of.offsets.data()),
                                     of.offsets.size() * sizeof(uint64_t))
                 : absl::string_view(of.data, steps * of.row_bytes);
    checks_.emplace("x", std::vector<uint32_t>{Crc32c(bytes_) + (is_sound ? 0 : 1)}, &of_graph_);
  }
  std::string why() const {
    return absl::StrCat("graph is damaged: array x: bytes 0 to ", bytes_.size(),
                        " fail their checksum; nothing of it is served until it is deleted, or "
                        "comes from a snapshot");
  }

  const SourceGraphSchema& schema() const override { return graph_.schema(); }
  uint64_t version() const override { return graph_.version(); }
  uint64_t num_nodes(size_t set) const override { return graph_.num_nodes(set); }
  uint64_t num_edges(size_t set) const override { return graph_.num_edges(set); }
  absl::StatusOr<Adjacency> BySource(size_t set) const override { return graph_.BySource(set); }
  absl::StatusOr<Adjacency> ByTarget(size_t set) const override { return graph_.ByTarget(set); }
  SourceColumn NodeColumn(size_t set, size_t column) const override {
    SourceColumn of = graph_.NodeColumn(set, column);
    if (set != 0 || column != column_ || array_ == Array::kEdgeData) return of;
    (array_ == Array::kNodeOffsets ? of.checked_offsets : of.checked_data) =
        CheckedArray(bytes_, &*checks_);
    return of;
  }
  SourceColumn EdgeColumn(size_t set, size_t column) const override {
    SourceColumn of = graph_.EdgeColumn(set, column);
    if (column == column_ && array_ == Array::kEdgeData) {
      of.checked_data = CheckedArray(bytes_, &*checks_);
    }
    return of;
  }
  SourceColumn NodeIds(size_t set) const override { return graph_.NodeIds(set); }
  bool integer_ids(size_t set) const override { return graph_.integer_ids(set); }

 private:
  const SourceGraph& graph_;
  const Array array_;
  const size_t column_;
  absl::string_view bytes_;
  GraphChecks of_graph_{"graph"};
  std::optional<ArrayChecks> checks_;
};

// Whichever array is damaged, nothing of it comes into a chunk.
TEST_F(SampledSchemaTest, RowsAreCheckedBeforeTheyAreTaken) {
  using Array = DamagedArray::Array;
  const std::vector<std::pair<Array, size_t>> arrays = {
      {Array::kNodeData, 0},    {Array::kNodeData, 1}, {Array::kNodeData, 2},
      {Array::kNodeOffsets, 1}, {Array::kEdgeData, 0}, {Array::kEdgeData, 1}};
  for (const auto& [array, column] : arrays) {
    for (const bool is_sound : {true, false}) {
      SCOPED_TRACE(absl::StrCat(static_cast<int>(array), " ", column));
      const DamagedArray graph(graph_.get(), array, column, is_sound);
      const Sampler sampler = SamplerOf(graph, Spec());
      PH_ASSERT_OK_AND_ASSIGN(const SampledSchema schema,
                              SampledSchema::Create(sampler.plan(), graph, {}));
      const std::vector<uint32_t> seeds = {0};
      DrawRequest request;
      request.seeds = seeds;
      const SampledGraph sampled = Draw(sampler, request);
      SampledChunk chunk(&schema);
      const absl::Status appended = chunk.Append(sampled);
      std::vector<uint32_t> tuple;
      const absl::Status sizes = schema.Sizes(sampled, tuple);
      if (is_sound) {
        EXPECT_THAT(appended, IsOk());
        EXPECT_EQ(chunk.num_graphs(), 1U);
        EXPECT_EQ(chunk.num_bytes(), schema.Bytes(tuple));
        EXPECT_THAT(chunk.Finish(0), IsOk());
        EXPECT_EQ(chunk.num_bytes(), 0U);
        EXPECT_EQ(chunk.num_graphs(), 0U);
        continue;
      }
      const auto damaged = StatusIs(absl::StatusCode::kDataLoss, graph.why());
      EXPECT_THAT(appended, damaged);
      EXPECT_EQ(chunk.num_graphs(), 0U);
      EXPECT_EQ(chunk.num_bytes(), 0U);
      if (array == Array::kNodeOffsets) {
        EXPECT_THAT(sizes, damaged);
        SamplerScratch scratch;
        SampledGraph result;
        EXPECT_THAT(schema.DrawWithin(sampler, request, {}, scratch, result, tuple), damaged);
      } else {
        EXPECT_THAT(sizes, IsOk());
      }
    }
  }
}

TEST_F(SampledSchemaTest, NamesThatClashAreRefused) {
  MemoryNodeSet nodes;
  nodes.num_nodes = 1;
  nodes.columns = {ColumnOf<int64_t>({5})};
  const auto graph =
      MakeGraph({{"a", {{"#number", DType::kInt64, {}, false, false}}}}, {}, {nodes}, {});
  const Sampler sampler = SamplerOf(*graph, SpecOf("a", {}));
  EXPECT_TRUE(SampledSchema::Create(sampler.plan(), *graph, {}).ok());
  EXPECT_THAT(SampledSchema::Create(sampler.plan(), *graph, {true, true, false}).status().message(),
              HasSubstr("'a.#number': is listed twice"));
  // Steps of a ragged feature are rows of their own.
  MemoryNodeSet ragged;
  ragged.num_nodes = 1;
  ragged.columns = {{"x", {0, 1}}};
  MemoryNodeSet other;
  other.num_nodes = 1;
  const auto steps = MakeGraph({{"a", {{"x", DType::kInt8, {}, true, false}}}, {"a.x", {}}},
                               {{"e", 0, 1, {}, std::nullopt}}, {ragged, other}, {{{0}, {0}, {}}});
  const Sampler of_both = SamplerOf(*steps, SpecOf("a", {UniformOp("h", {"seed"}, "e", 1)}));
  EXPECT_THAT(SampledSchema::Create(of_both.plan(), *steps, {}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'a.x'")));
}

TEST_F(SampledSchemaTest, FeaturesMayHaveTheNamesOfIdsAndOfEnds) {
  MemoryNodeSet nodes;
  nodes.num_nodes = 1;
  nodes.integer_ids = {70};
  nodes.columns = {ColumnOf<int8_t>({5})};
  const auto graph = MakeGraph({{"a", {{"#id", DType::kInt8, {}, false, false}}}},
                               {{"e", 0, 0, {{"target", DType::kInt8, {}, false, false}}, {}}},
                               {nodes}, {{{0}, {0}, {ColumnOf<int8_t>({3})}}});
  const Sampler sampler = SamplerOf(*graph, SpecOf("a", {UniformOp("h", {"seed"}, "e", 1)}));
  const auto names = [&](SampledPayload payload) {
    std::vector<std::pair<std::string, DType>> all;
    const SampledSchema schema = SampledSchema::Create(sampler.plan(), *graph, payload).value();
    for (const TensorSpec& tensor : schema.schema().tensors()) {
      all.emplace_back(tensor.name, tensor.dtype);
    }
    return all;
  };
  using Names = std::vector<std::pair<std::string, DType>>;
  SampledPayload payload;
  payload.ids = true;
  EXPECT_EQ(names(payload), Names({{"a.#id", DType::kInt8},
                                   {"e.#source", DType::kInt32},
                                   {"e.#target", DType::kInt32},
                                   {"e.target", DType::kInt8}}));
  payload.features = false;
  EXPECT_EQ(
      names(payload),
      Names({{"a.#id", DType::kInt64}, {"e.source", DType::kInt32}, {"e.target", DType::kInt32}}));
}

TEST_F(SampledSchemaTest, LimitsAreOfAllComponents) {
  const Sampler sampler = SamplerOf(*graph_, Spec());
  PH_ASSERT_OK_AND_ASSIGN(const SampledSchema schema,
                          SampledSchema::Create(sampler.plan(), *graph_, {}));
  const size_t count = schema.schema().num_components();
  const std::vector<uint32_t> seeds = {0};
  DrawRequest request;
  request.seeds = seeds;
  SamplerScratch scratch;
  SampledGraph result;
  std::vector<uint32_t> tuple;
  for (const size_t size : {size_t{1}, count - 1, count, count + 1}) {
    const std::vector<uint32_t> limits(size, 100);
    const absl::Status drawn = schema.DrawWithin(sampler, request, limits, scratch, result, tuple);
    if (size == count) {
      EXPECT_THAT(drawn, IsOk());
    } else {
      EXPECT_THAT(drawn, StatusIs(absl::StatusCode::kInvalidArgument,
                                  absl::StrCat("limits of ", size,
                                               " components, but sub-graphs have ", count)));
    }
  }
}

// Numbers of rows that came with the graph are looked at before they are taken.
TEST_F(SampledSchemaTest, DamagedRowsOfImportsAreNotTaken) {
  for (const bool of_edges : {false, true}) {
    UnreadableGraph graph(GraphOf(3, {{0, 1}, {0, 2}}));
    if (of_edges) {
      graph.DamageEdgeRows(0);
    } else {
      graph.DamageNodeRows(0);
    }
    const Sampler sampler = SamplerOf(graph, SpecOf("a", {UniformOp("h", {"seed"}, "e", 2)}));
    SampledPayload payload;
    payload.rows = true;
    PH_ASSERT_OK_AND_ASSIGN(const SampledSchema schema,
                            SampledSchema::Create(sampler.plan(), graph, payload));
    const std::vector<uint32_t> seeds = {0};
    DrawRequest request;
    request.seeds = seeds;
    SampledChunk chunk(&schema);
    EXPECT_THAT(chunk.Append(Draw(sampler, request)),
                StatusIs(absl::StatusCode::kDataLoss,
                         of_edges ? UnreadableGraph::DamageOf("edge rows 0", 16)
                                  : UnreadableGraph::DamageOf("node rows 0", 24)));
    EXPECT_EQ(chunk.num_graphs(), 0U);
  }
}

}  // namespace
}  // namespace packhouse

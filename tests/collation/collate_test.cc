#include "service/algorithms/collation/collate.h"

#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/algorithms/collation/gathered_graph.h"
#include "service/algorithms/collation/uncollate.h"
#include "service/base/checksum.h"
#include "tests/support/fingerprint.h"
#include "tests/support/random_graphs.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kNoBound = UINT64_MAX;
constexpr DerivedTensors kAllDerived = {true, true, true, true};

template <typename T>
std::vector<T> Values(const BatchTensor& tensor) {
  std::vector<T> values;
  for (size_t at = 0; at < tensor.data.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, tensor.data.data() + at, sizeof(T));
    values.push_back(value);
  }
  return values;
}

const BatchTensor& Named(const Batch& batch, const std::string& name) {
  for (const BatchTensor& tensor : batch.tensors) {
    if (tensor.name == name) return tensor;
  }
  ADD_FAILURE() << "no tensor " << name;
  return batch.tensors.front();
}

// Each of the graphs in one run of bytes.
class Gathered {
 public:
  explicit Gathered(const std::vector<GraphRef>& graphs) {
    uint64_t words = 0;
    for (const GraphRef& graph : graphs) words += BytesOf(graph) / sizeof(uint64_t);
    words_.resize(words);
    char* next = reinterpret_cast<char*>(words_.data());
    for (const GraphRef& graph : graphs) {
      GatherGraph(*graph.chunk, graph.index, next);
      views_.emplace_back(next, BytesOf(graph));
      next += BytesOf(graph);
    }
  }

  const std::vector<absl::string_view>& graphs() const { return views_; }

 private:
  static uint64_t BytesOf(const GraphRef& graph) {
    return GatheredGraph::BytesOf(graph.chunk->schema(), graph.chunk->sizes().tuple(graph.index));
  }

  std::vector<uint64_t> words_;
  std::vector<absl::string_view> views_;
};

std::vector<GraphRef> AllGraphs(const GraphChunk& chunk) {
  std::vector<GraphRef> graphs;
  for (size_t i = 0; i < chunk.num_graphs(); ++i) graphs.push_back({&chunk, i});
  return graphs;
}

// The example of jraph.pad_with_graphs: graphs of 3 and 2 nodes, 4 and 1 edges, padded to (8, 9,
// 5).
class JraphExampleTest : public ::testing::Test {
 protected:
  JraphExampleTest() {
    const auto bytes = [](const auto& values) {
      return absl::string_view(reinterpret_cast<const char*>(values.data()),
                               values.size() * sizeof(values[0]));
    };
    chunk_ = std::make_unique<GraphChunk>(
        GraphChunk::Create(&schema_, SizeTable::WithIds(2, 2, {3, 4, 2, 1}, {7, 9}).value(),
                           {bytes(x_), bytes(senders_), bytes(y_)}, nullptr)
            .value());
  }

  Batch CollateAs(Padding padding) {
    const BatchLayout layout =
        BatchLayout::Create(&schema_, {8, 9, 5}, padding, kAllDerived).value();
    return Collate(layout, AllGraphs(*chunk_), kNoBound).value();
  }

  const std::vector<float> x_ = {1, 2, 3, 4, 5};
  const std::vector<int32_t> senders_ = {0, 0, 0, 0, 0};
  const std::vector<int8_t> y_ = {1, 0};
  GraphSchema schema_ =
      GraphSchema::Create(SizeSchema::NodesAndEdges(),
                          {{"x", DType::kFloat32, {}, 0, {}, {}},
                           {"senders", DType::kInt32, {}, 1, 0, {}},
                           {"y", DType::kInt8, {}, 2, {}, std::string(1, '\x7f')}})
          .value();
  std::unique_ptr<GraphChunk> chunk_;
};

TEST_F(JraphExampleTest, GraphPaddingEqualsPadWithGraphs) {
  const Batch batch = CollateAs(Padding::kGraph);
  EXPECT_THAT(Values<int32_t>(Named(batch, "nodes/counts")), ElementsAre(3, 2, 3, 0, 0));
  EXPECT_THAT(Values<int32_t>(Named(batch, "edges/counts")), ElementsAre(4, 1, 4, 0, 0));
  EXPECT_THAT(Values<int32_t>(Named(batch, "senders")), ElementsAre(0, 0, 0, 0, 3, 5, 5, 5, 5));
  EXPECT_THAT(Values<float>(Named(batch, "x")), ElementsAre(1, 2, 3, 4, 5, 0, 0, 0));
  EXPECT_THAT(Values<int32_t>(Named(batch, "nodes/graph")), ElementsAre(0, 0, 0, 1, 1, 2, 2, 2));
  EXPECT_THAT(Values<int32_t>(Named(batch, "nodes/offsets")), ElementsAre(0, 3, 5, 8, 8, 8));
  EXPECT_THAT(Values<bool>(Named(batch, "nodes/mask")),
              ElementsAre(true, true, true, true, true, false, false, false));
  EXPECT_THAT(Values<bool>(Named(batch, "graphs/mask")),
              ElementsAre(true, true, false, false, false));
  EXPECT_THAT(Values<int8_t>(Named(batch, "y")), ElementsAre(1, 0, 127, 127, 127));
  EXPECT_THAT(batch.graph_ids, ElementsAre(7, 9));
  EXPECT_THAT(batch.real_rows, ElementsAre(5, 5, 2));
  EXPECT_THAT(batch.rows, ElementsAre(8, 9, 5));
}

TEST_F(JraphExampleTest, MaskedPaddingBelongsToNoGraph) {
  const Batch batch = CollateAs(Padding::kMasked);
  EXPECT_THAT(Values<int32_t>(Named(batch, "nodes/counts")), ElementsAre(3, 2, 0, 0, 0));
  EXPECT_THAT(Values<int32_t>(Named(batch, "nodes/offsets")), ElementsAre(0, 3, 5, 5, 5, 5));
  EXPECT_THAT(Values<int32_t>(Named(batch, "nodes/graph")), ElementsAre(0, 0, 0, 1, 1, 2, 2, 2));
  EXPECT_THAT(Values<int32_t>(Named(batch, "senders")), ElementsAre(0, 0, 0, 0, 3, 5, 5, 5, 5));
}

TEST_F(JraphExampleTest, WithoutPaddingNothingIsAdded) {
  const Batch batch = CollateAs(Padding::kNone);
  EXPECT_THAT(Values<float>(Named(batch, "x")), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(Values<int32_t>(Named(batch, "senders")), ElementsAre(0, 0, 0, 0, 3));
  EXPECT_THAT(Values<int32_t>(Named(batch, "nodes/offsets")), ElementsAre(0, 3, 5));
  EXPECT_THAT(batch.rows, ElementsAre(5, 5, 2));
}

TEST_F(JraphExampleTest, MaskedIndicesStayInRangeWhenTheTargetIsFull) {
  const BatchLayout layout =
      BatchLayout::Create(&schema_, {5, 9, 2}, Padding::kMasked, kAllDerived).value();
  PH_ASSERT_OK_AND_ASSIGN(const Batch batch, Collate(layout, AllGraphs(*chunk_), kNoBound));
  EXPECT_THAT(Values<int32_t>(Named(batch, "senders")), ElementsAre(0, 0, 0, 0, 3, 4, 4, 4, 4));
}

TEST_F(JraphExampleTest, RefusesWhatExceedsTheLayoutOrTheBytes) {
  const BatchLayout layout = BatchLayout::Create(&schema_, {4, 9, 5}, Padding::kMasked, {}).value();
  EXPECT_THAT(
      Collate(layout, AllGraphs(*chunk_), kNoBound),
      StatusIs(absl::StatusCode::kInternal, HasSubstr("5 rows of component 'nodes', capacity 4")));
  const BatchLayout ragged = BatchLayout::Create(&schema_, {8, 9, 5}, Padding::kNone, {}).value();
  EXPECT_THAT(
      Collate(ragged, AllGraphs(*chunk_), 41),
      StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("would take 42 bytes, at most 41")));
  EXPECT_THAT(Collate(ragged, AllGraphs(*chunk_), 42), IsOk());
  const Gathered gathered(AllGraphs(*chunk_));
  EXPECT_THAT(
      CollateGathered(layout, gathered.graphs(), kNoBound),
      StatusIs(absl::StatusCode::kInternal, HasSubstr("5 rows of component 'nodes', capacity 4")));
  EXPECT_THAT(
      CollateGathered(ragged, gathered.graphs(), 41),
      StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("would take 42 bytes, at most 41")));
}

// A padding graph is in every batch with kGraph, and where something is padded with kTfgnn; each
// has its least rows.
TEST_F(JraphExampleTest, RefusesWhatLeavesNothingForPadding) {
  const auto collate = [this](std::vector<uint64_t> capacities, Padding padding,
                              MinRows least = {}) {
    const BatchLayout layout =
        BatchLayout::Create(&schema_, std::move(capacities), padding, {}, std::move(least)).value();
    return Collate(layout, AllGraphs(*chunk_), kNoBound).status();
  };
  const auto is_bug = [](const char* message) {
    return StatusIs(absl::StatusCode::kInternal, message);
  };
  EXPECT_THAT(collate({5, 5, 2}, Padding::kTfgnn), IsOk());
  EXPECT_THAT(collate({5, 5, 2}, Padding::kGraph), is_bug("batch: no graph is left for padding"));
  EXPECT_THAT(collate({5, 5, 2}, Padding::kMasked), IsOk());
  EXPECT_THAT(collate({6, 5, 2}, Padding::kTfgnn), is_bug("batch: no graph is left for padding"));
  EXPECT_THAT(collate({7, 9, 3}, Padding::kTfgnn, MinRows({2, 0})), IsOk());
  EXPECT_THAT(collate({6, 9, 3}, Padding::kTfgnn, MinRows({2, 0})),
              is_bug("batch: 5 rows of 'nodes' leave fewer than the 2 of its padding graphs"));
}

// The law of the room: un-batching gives back what was batched, whatever the schema, the padding
// and the sizes.
TEST(CollateTest, UncollateIsTheInverse) {
  Fingerprint batches;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const GraphSchema schema = RandomSchema(random);
    const size_t l = schema.num_components();
    const GraphChunk first = RandomChunk(random, &schema, random.Below(6), 6, 100);
    const GraphChunk second = RandomChunk(random, &schema, random.Below(6), 6, 900);
    std::vector<GraphRef> graphs = AllGraphs(second);
    for (const GraphRef& graph : AllGraphs(first)) graphs.push_back(graph);
    for (size_t i = graphs.size(); i > 1; --i) std::swap(graphs[i - 1], graphs[random.Below(i)]);

    const auto padding = static_cast<Padding>(random.Below(4));
    std::vector<uint64_t> capacities = ReservedRows(schema, padding);
    for (size_t k = 0; k <= l; ++k) {
      uint64_t real = 0;
      for (const GraphRef& graph : graphs) real += graph.chunk->count(graph.index, k);
      // Often exactly full; never 0, which no layout accepts.
      capacities[k] += std::max<uint64_t>(real + random.Below(2) * random.Below(9), 1);
    }
    PH_ASSERT_OK_AND_ASSIGN(const BatchLayout layout,
                            BatchLayout::Create(&schema, capacities, padding, kAllDerived));
    PH_ASSERT_OK_AND_ASSIGN(const Batch batch, Collate(layout, graphs, kNoBound));

    // Shapes and lengths agree, and are the capacities where there is padding.
    uint64_t bytes = 0;
    for (const BatchTensor& tensor : batch.tensors) {
      uint64_t expected = ElementBytes(tensor.dtype);
      for (const uint64_t extent : tensor.shape) expected *= extent;
      EXPECT_EQ(tensor.data.size(), expected) << tensor.name;
      bytes += expected;
      batches.AddAll(tensor.name);
      batches.AddAll(tensor.shape);
      batches.Add(Crc32c(tensor.data));
    }
    EXPECT_EQ(layout.BatchBytes(batch.rows), bytes);
    if (padding != Padding::kNone) {
      EXPECT_EQ(batch.rows, capacities);
    }

    // Every index is a row of its target, if that has any; and a padding index a padding row, with
    // kGraph and kTfgnn.
    for (size_t t = 0; t < schema.tensors().size(); ++t) {
      const TensorSpec& spec = schema.tensors()[t];
      if (!spec.index_into) continue;
      const uint64_t target_rows = batch.rows[*spec.index_into];
      EXPECT_EQ(FindIndexOutOfRange(spec.dtype, batch.tensors[t].data, target_rows),
                absl::string_view::npos);
      if (!HasPaddingGraph(padding)) continue;
      const size_t row_bytes = schema.plane_row_bytes(t);
      for (size_t plane = 0; plane < schema.num_planes(t); ++plane) {
        const absl::string_view padding_data =
            batch.tensors[t]
                .data.substr(0, (plane + 1) * batch.rows[spec.component] * row_bytes)
                .substr((plane * batch.rows[spec.component] + batch.real_rows[spec.component]) *
                        row_bytes);
        for (size_t i = 0; i < padding_data.size() / ElementBytes(spec.dtype); ++i) {
          EXPECT_GE(IndexValueAt(spec.dtype, padding_data, i),
                    static_cast<int64_t>(batch.real_rows[*spec.index_into]));
        }
      }
    }

    // The same of graphs that lie together.
    const Gathered gathered(graphs);
    PH_ASSERT_OK_AND_ASSIGN(const Batch same, CollateGathered(layout, gathered.graphs(), kNoBound));
    EXPECT_EQ(same.graph_ids, batch.graph_ids);
    EXPECT_EQ(same.sizes, batch.sizes);
    EXPECT_EQ(same.rows, batch.rows);
    EXPECT_EQ(same.real_rows, batch.real_rows);
    ASSERT_EQ(same.tensors.size(), batch.tensors.size());
    for (size_t i = 0; i < batch.tensors.size(); ++i) {
      EXPECT_EQ(same.tensors[i].data, batch.tensors[i].data) << batch.tensors[i].name;
    }

    PH_ASSERT_OK_AND_ASSIGN(const GraphChunk back, Uncollate(&schema, batch));
    ASSERT_EQ(back.num_graphs(), graphs.size());
    for (size_t i = 0; i < graphs.size(); ++i) {
      EXPECT_TRUE(SameGraph(back, i, *graphs[i].chunk, graphs[i].index)) << "graph " << i;
    }
  }
  // Every byte, of padding and of derived tensors too.
  EXPECT_EQ(batches.value(), 10797643391387818851U);
}

// What PyG's Batch has: edge_index (2, E), sources of all edges, then targets, each with its
// padding.
TEST(CollateTest, RowsLastArePaddedPlaneByPlane) {
  TensorSpec edge_index = {"edge_index", DType::kInt64, {2}, 1, 0, {}, Layout::kRowsLast};
  TensorSpec weight = {"weight", DType::kInt8, {3}, 1, {}, "\x07", Layout::kRowsLast};
  const GraphSchema schema =
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {edge_index, weight}).value();
  // Graphs of 2 nodes with edges 0-1, 1-0, and of 3 nodes with the edge 2-1.
  const std::vector<int64_t> edges = {0, 1, 2, /*targets*/ 1, 0, 1};
  const std::string weights =
      "abc"
      "def"
      "ghi";
  PH_ASSERT_OK_AND_ASSIGN(
      const GraphChunk chunk,
      GraphChunk::Create(&schema, SizeTable::WithConsecutiveIds(2, 2, {2, 2, 3, 1}, 0).value(),
                         {absl::string_view(reinterpret_cast<const char*>(edges.data()),
                                            edges.size() * sizeof(edges[0])),
                          weights},
                         nullptr));
  const BatchLayout layout = BatchLayout::Create(&schema, {6, 4, 3}, Padding::kGraph, {}).value();
  // The other way round.
  const std::vector<GraphRef> graphs = {{&chunk, 1}, {&chunk, 0}};
  PH_ASSERT_OK_AND_ASSIGN(const Batch batch, Collate(layout, graphs, kNoBound));
  EXPECT_THAT(batch.tensors[0].shape, ElementsAre(2, 4));
  EXPECT_THAT(Values<int64_t>(batch.tensors[0]), ElementsAre(2, 3, 4, 5, /*targets*/ 1, 4, 3, 5));
  EXPECT_THAT(batch.tensors[1].shape, ElementsAre(3, 4));
  EXPECT_EQ(batch.tensors[1].data,
            "cab\x07"
            "fde\x07"
            "igh\x07");
  const BatchLayout ragged = BatchLayout::Create(&schema, {6, 4, 3}, Padding::kNone, {}).value();
  PH_ASSERT_OK_AND_ASSIGN(const Batch unpadded, Collate(ragged, graphs, kNoBound));
  EXPECT_THAT(Values<int64_t>(unpadded.tensors[0]), ElementsAre(2, 3, 4, /*targets*/ 1, 4, 3));
}

TEST(CollateTest, SameGraphsGiveTheSameBytes) {
  Random random(1);
  const GraphSchema schema = RandomSchema(random);
  const GraphChunk chunk = RandomChunk(random, &schema, 8, 6, 0);
  const std::vector<uint64_t> capacities(schema.num_components() + 1, 100);
  const BatchLayout layout =
      BatchLayout::Create(&schema, capacities, Padding::kGraph, kAllDerived).value();
  const Batch a = Collate(layout, AllGraphs(chunk), kNoBound).value();
  const Batch b = Collate(layout, AllGraphs(chunk), kNoBound).value();
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (size_t t = 0; t < a.tensors.size(); ++t) EXPECT_EQ(a.tensors[t].data, b.tensors[t].data);
}

// Frames of any length, so that tensors begin anywhere.
class NameFraming final : public TensorFraming {
 public:
  void AppendFrame(const BatchTensor& tensor, uint64_t data_bytes,
                   std::optional<uint64_t> /*aligned_from*/, std::string& frames) const override {
    absl::StrAppend(&frames, tensor.name, "[", absl::StrJoin(tensor.shape, ","), "]", data_bytes);
  }
};

TEST(CollateTest, FramesStandBeforeTheSameData) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Random random(seed);
    const GraphSchema schema = RandomSchema(random);
    const GraphChunk chunk = RandomChunk(random, &schema, random.Below(9), 6, seed);
    const std::vector<uint64_t> capacities(schema.num_components() + 1, 100);
    const BatchLayout layout =
        BatchLayout::Create(&schema, capacities, Padding::kGraph, kAllDerived).value();
    const Batch plain = Collate(layout, AllGraphs(chunk), kNoBound).value();
    const NameFraming framing;
    const Batch framed = Collate(layout, AllGraphs(chunk), kNoBound, &framing).value();
    const Gathered gathered(AllGraphs(chunk));
    EXPECT_EQ(CollateGathered(layout, gathered.graphs(), kNoBound, &framing).value().framed,
              framed.framed);
    EXPECT_TRUE(plain.framed.empty());
    std::string expected;
    for (const BatchTensor& tensor : plain.tensors) {
      framing.AppendFrame(tensor, tensor.data.size(), std::nullopt, expected);
      expected.append(tensor.data.data(), tensor.data.size());
    }
    EXPECT_EQ(framed.framed, expected) << "seed " << seed;
    ASSERT_EQ(framed.tensors.size(), plain.tensors.size());
    for (size_t t = 0; t < plain.tensors.size(); ++t) {
      EXPECT_EQ(framed.tensors[t].data, plain.tensors[t].data);
    }
  }
}

TEST(CollateTest, AnUnlimitedComponentBeyondItsIndexIsRefused) {
  const GraphSchema schema =
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"e", DType::kInt8, {}, 1, 0, {}}}).value();
  PH_ASSERT_OK_AND_ASSIGN(
      const GraphChunk chunk,
      GraphChunk::Create(&schema, SizeTable::WithConsecutiveIds(1, 2, {129, 0}, 0).value(), {""},
                         nullptr));
  const BatchLayout layout =
      BatchLayout::Create(&schema, {BatchLayout::kRagged, 9, 9}, Padding::kNone, {}).value();
  EXPECT_THAT(Collate(layout, AllGraphs(chunk), kNoBound),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("129 rows of component 'nodes', which has no limit")));
  PH_ASSERT_OK_AND_ASSIGN(
      const GraphChunk most,
      GraphChunk::Create(&schema, SizeTable::WithConsecutiveIds(1, 2, {128, 0}, 0).value(), {""},
                         nullptr));
  EXPECT_THAT(Collate(layout, AllGraphs(most), kNoBound), IsOk());
}

// Whether or not anything numbers them: more rows than 2^31 - 1 are in no batch.
TEST(CollateTest, RowsAreCountedIn31Bits) {
  const GraphSchema schema = GraphSchema::Create(SizeSchema::NodesAndEdges(), {}).value();
  const BatchLayout layout =
      BatchLayout::Create(&schema, {9, BatchLayout::kRagged, 9}, Padding::kNone, {}).value();
  constexpr uint32_t kHalf = uint32_t{1} << 30;
  for (const uint32_t rows : {kHalf - 1, kHalf}) {
    PH_ASSERT_OK_AND_ASSIGN(
        const GraphChunk chunk,
        GraphChunk::Create(&schema,
                           SizeTable::WithConsecutiveIds(2, 2, {0, kHalf, 0, rows}, 0).value(), {},
                           nullptr));
    const auto batch = Collate(layout, AllGraphs(chunk), kNoBound);
    if (rows < kHalf) {
      EXPECT_THAT(batch, IsOk());
    } else {
      EXPECT_THAT(batch, StatusIs(absl::StatusCode::kResourceExhausted,
                                  "batch: 2147483648 rows of component 'edges', which has no "
                                  "limit, exceed 2^31 - 1"));
    }
  }
}

// Of a chunk whose indices nobody checked: what does not fit a narrow type is not cut to it.
TEST(CollateTest, AnIndexBeyondTheBatchIsNotNarrowed) {
  const GraphSchema schema =
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"e", DType::kInt32, {}, 1, 0, {}}})
          .value();
  const BatchLayout layout =
      BatchLayout::Create(&schema, {200, 9, 9}, Padding::kMasked, {}, {}, IntegerWidth::kCompact)
          .value();
  for (const int32_t index : {255, 256, -1}) {
    PH_ASSERT_OK_AND_ASSIGN(
        const GraphChunk chunk,
        GraphChunk::CreateTrusted(
            &schema, SizeTable::WithConsecutiveIds(1, 2, {2, 1}, 0).value(),
            {absl::string_view(reinterpret_cast<const char*>(&index), sizeof(index))}, nullptr));
    const Gathered gathered(AllGraphs(chunk));
    for (const absl::Status& status :
         {Collate(layout, AllGraphs(chunk), kNoBound).status(),
          CollateGathered(layout, gathered.graphs(), kNoBound).status()}) {
      if (index == 255) {
        EXPECT_THAT(status, IsOk());
      } else {
        EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal,
                                     "batch: an index of tensor 'e' is beyond the batch's rows"));
      }
    }
  }
}

// Hostile batches are refused, not read past their ends.
TEST(UncollateTest, RefusesWhatDisagrees) {
  const GraphSchema schema =
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"e", DType::kInt32, {}, 1, 0, {}}})
          .value();
  Batch batch;
  batch.graph_ids = {1, 2};
  batch.sizes = {2, 1, 2, 1};
  EXPECT_THAT(Uncollate(&schema, batch),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0 tensors")));
  const std::string zeros(8, '\0');
  batch.tensors.push_back({"e", DType::kInt32, {1}, absl::string_view(zeros).substr(0, 4)});
  EXPECT_THAT(Uncollate(&schema, batch),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("4 bytes for 2 real rows")));
  // An index of the second graph that points into the first.
  batch.tensors[0].data = zeros;
  EXPECT_THAT(Uncollate(&schema, batch),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("index -2")));
  batch.sizes.pop_back();
  EXPECT_THAT(Uncollate(&schema, batch),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("3 counts for 2 graphs")));
}

}  // namespace
}  // namespace packhouse

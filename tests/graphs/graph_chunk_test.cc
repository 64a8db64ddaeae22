#include "service/algorithms/graphs/graph_chunk.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/algorithms/graphs/index_check.h"
#include "service/algorithms/graphs/index_values.h"
#include "tests/planning/vector_levels.h"
#include "tests/support/random_graphs.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

// Two graphs, 2 and 1 nodes, 1 and 2 edges: x int16 [nodes], edge_index int32 [edges, 2].
class GraphChunkTest : public ::testing::Test {
 protected:
  absl::StatusOr<GraphChunk> Create(const std::vector<int16_t>& x,
                                    const std::vector<int32_t>& edges) {
    const auto bytes = [](const auto& values) {
      return absl::string_view(reinterpret_cast<const char*>(values.data()),
                               values.size() * sizeof(values[0]));
    };
    return GraphChunk::Create(&schema_, sizes_, {bytes(x), bytes(edges)}, nullptr);
  }

  GraphSchema schema_ = GraphSchema::Create(SizeSchema::NodesAndEdges(),
                                            {{"x", DType::kInt16, {}, 0, {}, {}},
                                             {"edge_index", DType::kInt32, {2}, 1, 0, {}}})
                            .value();
  SizeTable sizes_ = SizeTable::WithIds(2, 2, {2, 1, 1, 2}, {70, 71}).value();
};

TEST_F(GraphChunkTest, ViewsEachGraphsRowsInPlace) {
  const std::vector<int16_t> x = {1, 2, 3};
  const std::vector<int32_t> edges = {0, 1, 0, 0, 0, 0};
  PH_ASSERT_OK_AND_ASSIGN(const GraphChunk chunk, Create(x, edges));
  EXPECT_EQ(chunk.rows(0, 0).size(), 4U);
  EXPECT_EQ(chunk.rows(1, 0).data(), reinterpret_cast<const char*>(&x[2]));
  EXPECT_EQ(chunk.rows(1, 1).size(), 16U);
  EXPECT_EQ(chunk.count(1, 2), 1U);
  EXPECT_EQ(chunk.num_bytes(), 6U + 24U);
}

TEST_F(GraphChunkTest, RefusesLengthsThatDisagree) {
  EXPECT_THAT(Create({1, 2}, {0, 1, 0, 0, 0, 0}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("tensor 'x' has 4 bytes, its 2 graphs have 3 rows of 2 bytes")));
  EXPECT_THAT(GraphChunk::Create(&schema_, sizes_, {}, nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0 tensors")));
  EXPECT_THAT(
      GraphChunk::Create(&schema_, SizeTable::WithConsecutiveIds(1, 3, {1, 1, 1}, 0).value(),
                         {"", ""}, nullptr),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("3 components")));
}

TEST_F(GraphChunkTest, RefusesIndicesOutsideTheirGraph) {
  EXPECT_THAT(Create({1, 2, 3}, {0, 1, 0, 1, 0, 0}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("graph 71: tensor 'edge_index': index 1 at position 1 is not in "
                                 "[0, 1)")));
  EXPECT_THAT(
      Create({1, 2, 3}, {0, -1, 0, 0, 0, 0}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("graph 70: tensor 'edge_index': "
                                                             "index -1 at position 1")));
}

TEST_F(GraphChunkTest, TrustSkipsTheValuesOfIndicesButNotTheLengths) {
  const std::vector<int16_t> x = {1, 2, 3};
  const std::vector<int32_t> edges = {0, 1, 0, 7, 0, 0};
  const auto bytes = [](const auto& values) {
    return absl::string_view(reinterpret_cast<const char*>(values.data()),
                             values.size() * sizeof(values[0]));
  };
  EXPECT_THAT(Create(x, edges), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("index 7")));
  PH_ASSERT_OK_AND_ASSIGN(
      const GraphChunk chunk,
      GraphChunk::CreateTrusted(&schema_, sizes_, {bytes(x), bytes(edges)}, nullptr));
  EXPECT_EQ(chunk.rows(1, 1).data(), reinterpret_cast<const char*>(&edges[2]));
  EXPECT_EQ(chunk.column(1), bytes(edges));
  EXPECT_EQ(chunk.num_columns(), 2U);
  EXPECT_THAT(GraphChunk::CreateTrusted(&schema_, sizes_, {bytes(x), ""}, nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'edge_index' has 0 bytes")));
}

// The same graphs with edge_index [2, edges]: sources of all edges, then targets of all edges.
TEST_F(GraphChunkTest, RowsLastLieInPlanes) {
  const GraphSchema schema =
      GraphSchema::Create(SizeSchema::NodesAndEdges(),
                          {{"edge_index", DType::kInt32, {2}, 1, 0, {}, Layout::kRowsLast}})
          .value();
  const auto create = [&](const std::vector<int32_t>& edges) {
    return GraphChunk::Create(
        &schema, sizes_,
        {absl::string_view(reinterpret_cast<const char*>(edges.data()), edges.size() * 4)},
        nullptr);
  };
  const std::vector<int32_t> edges = {0, 0, 0, /*targets*/ 1, 0, 0};
  PH_ASSERT_OK_AND_ASSIGN(const GraphChunk chunk, create(edges));
  EXPECT_EQ(chunk.rows(0, 0, 0).data(), reinterpret_cast<const char*>(&edges[0]));
  EXPECT_EQ(chunk.rows(0, 0, 1).data(), reinterpret_cast<const char*>(&edges[3]));
  EXPECT_EQ(chunk.rows(1, 0, 0).data(), reinterpret_cast<const char*>(&edges[1]));
  EXPECT_EQ(chunk.rows(1, 0, 1).data(), reinterpret_cast<const char*>(&edges[4]));
  EXPECT_EQ(chunk.rows(1, 0, 1).size(), 8U);
  // Positions are those of the graph's own [2, 2].
  EXPECT_THAT(create({0, 0, 0, 1, 0, 1}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("graph 71: tensor 'edge_index': index 1 at position 3 is not in "
                                 "[0, 1)")));
  EXPECT_THAT(create({0, 0, 0, 1, 0}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has 20 bytes")));
}

TEST_F(GraphChunkTest, AnEmptyChunkIsFine) {
  EXPECT_THAT(GraphChunk::Create(&schema_, SizeTable(), {"", ""}, nullptr), IsOk());
}

TEST(IndexValuesTest, EveryIntegerDTypeShiftsAndIsChecked) {
  for (const DType dtype : {DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64,
                            DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64}) {
    SCOPED_TRACE(std::string(DTypeName(dtype)));
    const size_t bytes = ElementBytes(dtype);
    std::string data(3 * bytes, '\0');
    ShiftIndices(dtype, data.data() + bytes, 2 * bytes, 100);
    EXPECT_EQ(IndexValueAt(dtype, data, 0), 0);
    EXPECT_EQ(IndexValueAt(dtype, data, 2), 100);
    EXPECT_EQ(FindIndexOutOfRange(dtype, data, 101), absl::string_view::npos);
    EXPECT_EQ(FindIndexOutOfRange(dtype, data, 100), 1U);
    EXPECT_EQ(FindIndexOutOfRange(dtype, data, 0), 0U);
    ShiftIndices(dtype, data.data(), data.size(), -uint64_t{100});
    ShiftIndices(dtype, data.data(), bytes, 100);
    EXPECT_EQ(data, std::string(3 * bytes, '\0'));
  }
}

// A whole graph is checked by vectors, and its first bad index found one by one.
TEST(IndexCheckTest, AllLevelsFindWhatIsOutOfRange) {
  for (const DType dtype : {DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64,
                            DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64}) {
    const size_t width = ElementBytes(dtype);
    for (uint64_t seed = 0; seed < 400; ++seed) {
      Random random(seed);
      const size_t n = random.Below(200);
      const uint64_t bound = seed % 8 == 0
                                 ? random.Below(3)
                                 : uint64_t{1} << random.Below(8 * std::min<size_t>(width, 5));
      // At an odd place.
      std::string data(1 + n * width, '\0');
      for (size_t i = 0; i < n; ++i) {
        const uint64_t value = bound == 0 ? 0 : random.Below(bound);
        std::memcpy(&data[1 + i * width], &value, width);
      }
      if (n != 0 && seed % 2 == 0) {
        const uint64_t value = seed % 4 == 0 ? bound : -uint64_t{1};
        std::memcpy(&data[1 + random.Below(n) * width], &value, width);
      }
      const absl::string_view view = absl::string_view(data).substr(1);
      const bool expected = FindIndexOutOfRange(dtype, view, bound) == absl::string_view::npos;
      for (const VectorLevel level : VectorLevelsHere()) {
        EXPECT_EQ(IndexCheck(dtype, level).AllInRange(view, bound), expected)
            << DTypeName(dtype) << ", seed " << seed << ", " << VectorLevelName(level);
      }
    }
  }
}

// Beyond what the type can number, a negative index is still none, though as an unsigned number it
// would be one.
TEST(IndexCheckTest, ANegativeIndexIsOutOfRangeOfAnyNumberOfRows) {
  for (const DType dtype : {DType::kInt8, DType::kInt16, DType::kInt32}) {
    const size_t width = ElementBytes(dtype);
    for (const VectorLevel level : VectorLevelsHere()) {
      const IndexCheck check(dtype, level);
      for (const size_t n : {1, 100}) {
        std::string data(n * width, '\0');
        EXPECT_TRUE(check.AllInRange(data, UINT64_MAX));
        data.replace(data.size() - width, width, width, '\xff');
        EXPECT_FALSE(check.AllInRange(data, UINT64_MAX));
        EXPECT_EQ(FindIndexOutOfRange(dtype, data, UINT64_MAX - 1), n - 1);
      }
    }
  }
}

TEST(GraphChunkRandomTest, RandomChunksAreValid) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const GraphSchema schema = RandomSchema(random);
    const GraphChunk chunk = RandomChunk(random, &schema, random.Below(10), 5, 0);
    size_t bytes = 0;
    for (size_t i = 0; i < chunk.num_graphs(); ++i) {
      for (size_t t = 0; t < schema.tensors().size(); ++t) {
        bytes += schema.num_planes(t) * chunk.rows(i, t).size();
      }
    }
    EXPECT_EQ(bytes, chunk.num_bytes()) << "seed=" << seed;
  }
}

}  // namespace
}  // namespace packhouse

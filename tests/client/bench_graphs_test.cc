#include "client/bench/bench_graphs.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "client/cpp/batch_slices.h"
#include "client/cpp/little_endian.h"
#include "client/cpp/schema_layout.h"
#include "gtest/gtest.h"
#include "packhouse/v1/packing.pb.h"

namespace packhouse::client {
namespace {

TEST(BenchGraphsTest, MadeGraphsAreMuchLikeMolhiv) {
  const absl::StatusOr<BenchGraphs> graphs = ReadBenchGraphs("");
  ASSERT_TRUE(graphs.ok()) << graphs.status();
  ASSERT_TRUE(ResolveSchema(graphs->schema).ok());
  EXPECT_EQ(graphs->num_graphs, 41127);
  const auto mean = [&](std::size_t k) {
    return static_cast<double>(graphs->totals[k]) / static_cast<double>(graphs->num_graphs);
  };
  EXPECT_NEAR(mean(0), 25.5, 1.5);
  EXPECT_NEAR(mean(1), 54.9, 3);
  EXPECT_GT(graphs->maxima[0], 150);
  EXPECT_LT(graphs->maxima[0], 222);
}

// What is sent is every graph once, whatever the size of the chunks.
TEST(BenchGraphsTest, RequestsHaveAllGraphsAndAllRows) {
  const absl::StatusOr<BenchGraphs> graphs = ReadBenchGraphs("");
  ASSERT_TRUE(graphs.ok()) << graphs.status();
  const SchemaLayout layout = ResolveSchema(graphs->schema).value();
  for (const std::vector<grpc::ByteBuffer>& requests : graphs->requests) {
    std::string sizes;
    std::map<std::string, uint64_t> bytes;
    for (const grpc::ByteBuffer& buffer : requests) {
      v1::PackRequest request;
      ASSERT_TRUE(ParseMessage(buffer, request).ok());
      EXPECT_EQ(request.graphs().sizes().ids_case(), v1::SizeTable::IDS_NOT_SET);
      sizes += request.graphs().sizes().counts();
      for (const v1::TensorData& tensor : request.graphs().tensors()) {
        bytes[tensor.name()] += tensor.data().size();
      }
    }
    EXPECT_EQ(sizes, graphs->sizes);
    for (const TensorLayout& tensor : layout.tensors) {
      const uint64_t rows = tensor.component == layout.components.size()
                                ? graphs->num_graphs
                                : graphs->totals[tensor.component];
      EXPECT_EQ(bytes[tensor.name], rows * tensor.row_bytes) << tensor.name;
    }
  }
}

TEST(BenchGraphsTest, LimitsTakeEveryGraphAndFillThePayload) {
  const absl::StatusOr<BenchGraphs> graphs = ReadBenchGraphs("");
  ASSERT_TRUE(graphs.ok()) << graphs.status();
  for (uint64_t payload = 16 << 10; payload <= 4 << 20; payload *= 4) {
    SCOPED_TRACE(testing::Message() << "payload=" << payload);
    const v1::Limits limits = LimitsForPayload(*graphs, payload);
    ASSERT_EQ(limits.capacities_size(), 3);
    EXPECT_GE(limits.capacities(0).rows(), graphs->maxima[0]);
    EXPECT_GE(limits.capacities(1).rows(), graphs->maxima[1]);
    // x, senders, receivers, edge_attr, y; graph index and masks; id and sizes of a graph.
    const uint64_t bytes = limits.capacities(0).rows() * (18 + 5) +
                           limits.capacities(1).rows() * (11 + 5) +
                           limits.capacities(2).rows() * (1 + 1 + 8 + 8);
    EXPECT_LE(bytes, payload);
    EXPECT_GE(bytes, payload - payload / 8);
  }
}

}  // namespace
}  // namespace packhouse::client

// A sealed data set in memory, and what was put into it.
#ifndef PACKHOUSE_TESTS_EPOCHS_DATASET_WORLDS_H_
#define PACKHOUSE_TESTS_EPOCHS_DATASET_WORLDS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "service/algorithms/graphs/graph_chunk.h"
#include "service/algorithms/graphs/graph_schema.h"
#include "service/algorithms/planning/limits.h"
#include "service/base/checksum.h"
#include "service/engine/epochs/epoch_request.h"
#include "service/engine/epochs/loadable_epoch.h"
#include "tests/datasets/memory_dataset_store.h"
#include "tests/support/random.h"
#include "tests/support/random_graphs.h"
#include "tests/support/status_matchers.h"

namespace packhouse {

// What takes one shape of given limits refuses several, several rank groups and a device.
inline void ExpectOneShapeOnly(const std::string& what, EpochRequest& request,
                               const std::function<absl::Status()>& prepare) {
  EXPECT_THAT(prepare(), IsOk());
  const RankGroupRequest one = request.rank_groups.at(0);
  RankGroupRequest two_shapes = one;
  two_shapes.shapes.push_back(one.shapes[0]);
  for (uint64_t& capacity : two_shapes.shapes.front()) ++capacity;
  RankGroupRequest device;
  device.device.emplace();
  device.num_ranks = one.num_ranks;
  for (const std::vector<RankGroupRequest>& other :
       {std::vector<RankGroupRequest>{}, {two_shapes}, {one, one}, {device}}) {
    request.rank_groups = other;
    EXPECT_THAT(prepare(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         what + ": only with one rank group, and one shape of given limits"));
  }
  request.rank_groups = {one};
}

// Of the graphs of each batch, in their order.
inline uint32_t ChecksumOfGraphs(const LoadableEpoch& epoch) {
  std::string ids;
  for (uint64_t b = 0; b < epoch.identity().num_batches(); ++b) {
    const BuiltBatch built = epoch.Build(b).value();
    for (const uint64_t id : built.batch.graph_ids) ids += std::to_string(id) + " ";
    ids += "\n";
  }
  return Crc32c(ids);
}

// Nodes and edges; `x` a byte a node, `edge_index` of edges into nodes, `y` a number a graph.
inline std::shared_ptr<const GraphSchema> SmallSchema() {
  TensorSpec x;
  x.name = "x";
  x.dtype = DType::kUint8;
  x.component = 0;
  TensorSpec edge_index;
  edge_index.name = "edge_index";
  edge_index.dtype = DType::kInt32;
  edge_index.row_shape = {2};
  edge_index.component = 1;
  edge_index.index_into = 0;
  TensorSpec y;
  y.name = "y";
  y.dtype = DType::kInt64;
  y.component = 2;
  return std::make_shared<const GraphSchema>(
      GraphSchema::Create(SizeSchema::Create({"nodes", "edges"}).value(), {x, edge_index, y})
          .value());
}

// The data set "graphs": ids are consecutive from 1000, chunks have up to 7 graphs with counts up
// to `max_count`. With `num_groups` above 0, group ids are drawn from as many.
class DatasetWorld {
 public:
  explicit DatasetWorld(size_t num_graphs, uint64_t seed = 1, uint32_t max_count = 9,
                        uint64_t num_groups = 0)
      : schema_(SmallSchema()) {
    Random random(seed);
    DatasetOptions options;
    options.grouped = num_groups != 0;
    EXPECT_TRUE(store_.Create("graphs", *schema_, options).ok());
    while (graphs_.size() < num_graphs) {
      const size_t n = std::min<size_t>(random.Between(1, 7), num_graphs - graphs_.size());
      chunks_.push_back(std::make_unique<GraphChunk>(
          RandomChunk(random, schema_.get(), n, max_count, 1000 + graphs_.size())));
      std::vector<uint64_t> group_ids;
      for (size_t i = 0; i < n; ++i) {
        graphs_.emplace_back(chunks_.back().get(), i);
        if (num_groups != 0) group_ids.push_back(500 + random.Below(num_groups));
      }
      group_ids_.insert(group_ids_.end(), group_ids.begin(), group_ids.end());
      EXPECT_TRUE(store_.Append("graphs", *chunks_.back(), group_ids, std::nullopt).ok());
    }
  }

  DatasetWorld& Seal() {
    EXPECT_TRUE(store_.Seal("graphs").ok());
    return *this;
  }

  MemoryDatasetStore& store() { return store_; }
  const GraphSchema& schema() const { return *schema_; }
  size_t num_graphs() const { return graphs_.size(); }
  const std::vector<uint64_t>& group_ids() const { return group_ids_; }
  // Whether graph i of `chunk` is, byte for byte, the one that was appended as `id`.
  bool IsAsAppended(uint64_t id, const GraphChunk& chunk, size_t i) const {
    if (id < 1000 || id - 1000 >= graphs_.size()) return false;
    const auto& [own, index] = graphs_[id - 1000];
    return SameRows(*own, index, chunk, i);
  }

  // Shuffled, padded with masks, whole graphs.
  static EpochRequest Request(std::vector<uint64_t> capacities = {24, 30, 6}, uint64_t epoch = 0) {
    EpochRequest request;
    request.dataset = "graphs";
    request.key = {"job", epoch};
    request.seed = 3;
    request.rank_groups.push_back({{std::move(capacities)}, std::nullopt, 1});
    request.padding = Padding::kMasked;
    return request;
  }

 private:
  const std::shared_ptr<const GraphSchema> schema_;
  MemoryDatasetStore store_{uint64_t{1} << 30};
  std::vector<std::unique_ptr<GraphChunk>> chunks_;
  std::vector<std::pair<const GraphChunk*, size_t>> graphs_;
  std::vector<uint64_t> group_ids_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_EPOCHS_DATASET_WORLDS_H_

#include "service/partitioning/symmetric_graph.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

class HeapArray final : public EngineArray {
 public:
  absl::Status Reserve(uint64_t capacity) override {
    // Not initialised: what is never written is never touched.
    auto grown = std::unique_ptr<uint32_t[]>(new uint32_t[std::max<uint64_t>(capacity, 1)]);
    if (numbers_ != nullptr)
      std::copy_n(numbers_.get(), std::min(capacity, capacity_), grown.get());
    numbers_ = std::move(grown);
    capacity_ = capacity;
    return absl::OkStatus();
  }
  uint32_t* data() override { return numbers_.get(); }

 private:
  std::unique_ptr<uint32_t[]> numbers_;
  uint64_t capacity_ = 0;
};

absl::StatusOr<std::unique_ptr<EngineArray>> NewArrayOf(AssignmentEngine* engine,
                                                        uint64_t capacity) {
  std::unique_ptr<EngineArray> array;
  if (engine == nullptr) {
    array = NewHeapArray();
  } else {
    PH_ASSIGN_OR_RETURN(array, engine->NewArray());
  }
  PH_RETURN_IF_ERROR(array->Reserve(capacity));
  return array;
}

}  // namespace

std::unique_ptr<EngineArray> NewHeapArray() { return std::make_unique<HeapArray>(); }

absl::StatusOr<SymmetricGraph> Symmetrize(const HomogeneousGraph& graph, AssignmentEngine* engine,
                                          const PartitionWatch& watch) {
  constexpr uint32_t kNodesBetweenLooks = 1 << 14;
  SymmetricGraph result;
  const uint32_t nodes = graph.num_nodes();
  const uint64_t most_entries = 2 * graph.num_edges();
  result.offsets.reserve(uint64_t{nodes} + 1);
  result.offsets.push_back(0);
  PH_ASSIGN_OR_RETURN(result.neighbours, NewArrayOf(engine, most_entries));
  uint32_t* neighbours = result.neighbours->data();
  uint32_t* weights = nullptr;
  uint64_t at = 0;
  std::vector<uint32_t> row;
  size_t first_weight = 0;
  bool all_equal = true;  // So far.
  for (uint32_t node = 0; node < nodes; ++node) {
    if (node % kNodesBetweenLooks == 0) {
      if (watch.IsCancelled()) return absl::CancelledError("partitioning was cancelled");
      watch.Tell(PartitionPhase::kReading, static_cast<double>(node) / nodes);
    }
    row.clear();
    graph.ForEachNeighbour(node, [&row, node](uint32_t other) {
      if (other != node) row.push_back(other);
    });
    std::sort(row.begin(), row.end());
    for (size_t i = 0; i < row.size();) {
      size_t end = i + 1;
      while (end < row.size() && row[end] == row[i]) ++end;
      if (end - i > 1 && weights == nullptr) {
        PH_ASSIGN_OR_RETURN(result.weights, NewArrayOf(engine, most_entries));
        weights = result.weights->data();
        std::fill_n(weights, at, 1);
      }
      if (weights != nullptr) weights[at] = static_cast<uint32_t>(end - i);
      if (at == 0) first_weight = end - i;
      all_equal = all_equal && end - i == first_weight;
      neighbours[at++] = row[i];
      i = end;
    }
    result.offsets.push_back(at);
  }
  // As in a graph that has each edge in both directions. Without weights METIS makes of it what it
  // makes of the graph with each edge once, and takes less memory.
  if (all_equal) result.weights = nullptr;
  watch.Tell(PartitionPhase::kReading, 1);
  return result;
}

}  // namespace packhouse

#include "service/wings/partition/cutting/symmetric_graph.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
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

// The neighbours of a node, ascending, each once with the sum of the weights of its edges.
class MergedRow {
 public:
  using Entry = std::pair<uint32_t, uint64_t>;

  absl::Span<const Entry> Of(const HomogeneousGraph& graph, uint32_t node,
                             absl::Span<const std::vector<uint64_t>> edge_weights) {
    row_.clear();
    if (edge_weights.empty()) return Counted(graph, node);
    graph.ForEachWeighted(node, edge_weights, [this, node](uint32_t other, uint64_t weight) {
      if (other != node) row_.emplace_back(other, weight);
    });
    std::sort(row_.begin(), row_.end());
    size_t merged = 0;
    for (const Entry& entry : row_) {
      if (merged > 0 && row_[merged - 1].first == entry.first) {
        row_[merged - 1].second += entry.second;
      } else {
        row_[merged++] = entry;
      }
    }
    row_.resize(merged);
    return row_;
  }

 private:
  absl::Span<const Entry> Counted(const HomogeneousGraph& graph, uint32_t node) {
    others_.clear();
    graph.ForEachNeighbour(node, [this, node](uint32_t other) {
      if (other != node) others_.push_back(other);
    });
    std::sort(others_.begin(), others_.end());
    for (const uint32_t other : others_) {
      if (!row_.empty() && row_.back().first == other) {
        ++row_.back().second;
      } else {
        row_.emplace_back(other, 1);
      }
    }
    return row_;
  }

  std::vector<Entry> row_;
  std::vector<uint32_t> others_;
};

// How sums of weights become numbers of METIS's.
struct WeightScale {
  uint64_t divisor = 1;
  int shift = 0;

  uint32_t Of(uint64_t sum) const {
    const uint64_t divided = sum / divisor;
    return static_cast<uint32_t>(shift == 0 ? divided : ((divided - 1) >> shift) + 1);
  }
};

// Four times the sum of the weights must be below 2^64.
WeightScale ScaleOf(const HomogeneousGraph& graph,
                    absl::Span<const std::vector<uint64_t>> edge_weights) {
  WeightScale scale;
  if (edge_weights.empty()) return scale;
  // Each edge is counted at both ends.
  uint64_t total = 0;
  for (const std::vector<uint64_t>& of_type : edge_weights) {
    for (const uint64_t weight : of_type) total += 2 * weight;
  }
  uint64_t divisor = 0;
  uint64_t entries = 0;
  MergedRow row;
  for (uint32_t node = 0; node < graph.num_nodes(); ++node) {
    for (const auto& [other, sum] : row.Of(graph, node, edge_weights)) {
      divisor = std::gcd(divisor, sum);
      ++entries;
    }
  }
  scale.divisor = std::max<uint64_t>(divisor, 1);
  while (((total / scale.divisor) >> scale.shift) + entries > INT32_MAX) ++scale.shift;
  return scale;
}

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
                                          const PartitionWatch& watch,
                                          absl::Span<const std::vector<uint64_t>> edge_weights) {
  constexpr uint32_t kNodesBetweenLooks = 1 << 14;
  SymmetricGraph result;
  const uint32_t nodes = graph.num_nodes();
  const uint64_t most_entries = 2 * graph.num_edges();
  const WeightScale scale = ScaleOf(graph, edge_weights);
  result.rounded_by = uint64_t{1} << scale.shift;
  result.offsets.reserve(uint64_t{nodes} + 1);
  result.offsets.push_back(0);
  PH_ASSIGN_OR_RETURN(result.neighbours, NewArrayOf(engine, most_entries));
  uint32_t* neighbours = result.neighbours->data();
  uint32_t* weights = nullptr;
  uint64_t at = 0;
  MergedRow row;
  uint32_t first_weight = 0;
  bool all_equal = true;  // So far.
  for (uint32_t node = 0; node < nodes; ++node) {
    if (node % kNodesBetweenLooks == 0) {
      if (watch.IsCancelled()) return absl::CancelledError("partitioning was cancelled");
      watch.Tell(PartitionPhase::kReading, static_cast<double>(node) / nodes);
    }
    for (const auto& [other, sum] : row.Of(graph, node, edge_weights)) {
      const uint32_t weight = scale.Of(sum);
      if (at == 0) first_weight = weight;
      all_equal = all_equal && weight == first_weight;
      if (weight != 1 && weights == nullptr) {
        PH_ASSIGN_OR_RETURN(result.weights, NewArrayOf(engine, most_entries));
        weights = result.weights->data();
        std::fill_n(weights, at, 1);
      }
      if (weights != nullptr) weights[at] = weight;
      neighbours[at++] = other;
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

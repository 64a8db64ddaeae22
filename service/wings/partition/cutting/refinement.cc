#include "service/wings/partition/cutting/refinement.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace packhouse {

PartLoads::PartLoads(const WeightedGraph* graph, const PartLimits* limits,
                     absl::Span<const uint32_t> part)
    : graph_(graph),
      limits_(limits),
      load_(size_t{limits->num_parts} * graph->num_constraints),
      nodes_(limits->num_parts) {
  for (uint32_t node = 0; node < graph->num_nodes(); ++node) {
    for (size_t c = 0; c < graph->num_constraints; ++c) {
      load_[part[node] * graph->num_constraints + c] += graph->node_weight(node, c);
    }
    ++nodes_[part[node]];
  }
}

double PartLoads::Excess(size_t constraint) const {
  uint64_t largest = 0;
  for (uint32_t p = 0; p < limits_->num_parts; ++p)
    largest = std::max(largest, load(p, constraint));
  if (largest == 0) return 0;
  return static_cast<double>(largest) / static_cast<double>(limits_->limit[constraint]);
}

double PartLoads::Excess() const {
  double excess = 0;
  for (size_t c = 0; c < graph_->num_constraints; ++c) excess = std::max(excess, Excess(c));
  return excess;
}

uint32_t PartLoads::num_empty() const {
  return static_cast<uint32_t>(std::count(nodes_.begin(), nodes_.end(), 0));
}

uint64_t CutOf(const WeightedGraph& graph, absl::Span<const uint32_t> part) {
  uint64_t twice = 0;
  for (uint32_t node = 0; node < graph.num_nodes(); ++node) {
    for (uint64_t at = graph.offsets[node]; at < graph.offsets[node + 1]; ++at) {
      if (part[graph.neighbours[at]] != part[node]) twice += graph.edge_weight(at);
    }
  }
  return twice / 2;
}

uint64_t VolumeOf(const WeightedGraph& graph, absl::Span<const uint32_t> part, uint32_t num_parts) {
  std::vector<uint32_t> seen_by(num_parts, UINT32_MAX);
  uint64_t volume = 0;
  for (uint32_t node = 0; node < graph.num_nodes(); ++node) {
    seen_by[part[node]] = node;
    const uint64_t size = graph.node_sizes.empty() ? 1 : graph.node_sizes[node];
    for (uint64_t at = graph.offsets[node]; at < graph.offsets[node + 1]; ++at) {
      volume += std::exchange(seen_by[part[graph.neighbours[at]]], node) != node ? size : 0;
    }
  }
  return volume;
}

namespace {

// One repair of a partition.
class BalanceRepair {
 public:
  BalanceRepair(const WeightedGraph& graph, const PartLimits& limits, absl::Span<uint32_t> part)
      : graph_(graph),
        limits_(limits),
        part_(part),
        loads_(&graph, &limits, part),
        connection_(limits.num_parts) {}

  bool Run() {
    constexpr int kRounds = 8;
    FillEmptyParts();
    for (int round = 0; round < kRounds && loads_.Excess() > 1; ++round) {
      bool moved = false;
      for (size_t c = 0; c < graph_.num_constraints; ++c) moved |= Relieve(c);
      if (!moved) break;
    }
    FillEmptyParts();
    return loads_.Excess() <= 1 &&
           (loads_.num_empty() == 0 || graph_.num_nodes() < limits_.num_parts);
  }

 private:
  struct Candidate {
    double rank;  // What a unit of weight costs, negative.
    uint32_t node;
  };

  // The weight of edges from `node` to each part is in connection_, for the parts in touched_.
  void Connect(uint32_t node) {
    for (const uint32_t p : touched_) connection_[p] = 0;
    touched_.clear();
    for (uint64_t at = graph_.offsets[node]; at < graph_.offsets[node + 1]; ++at) {
      const uint32_t p = part_[graph_.neighbours[at]];
      if (connection_[p] == 0) touched_.push_back(p);
      connection_[p] += graph_.edge_weight(at);
    }
  }

  // Sets the part that would take the node at the least cost, its own if there is none; by how much
  // the cut would be lower.
  int64_t Best(uint32_t node, size_t constraint, uint32_t& target) {
    Connect(node);
    const uint32_t own = part_[node];
    target = own;
    int64_t best = INT64_MIN;
    const auto offer = [&](uint32_t p) {
      if (p == own || !loads_.Takes(p, node)) return;
      const int64_t gain = static_cast<int64_t>(connection_[p]);
      if (gain > best ||
          (gain == best && loads_.load(p, constraint) < loads_.load(target, constraint))) {
        best = gain;
        target = p;
      }
    };
    for (const uint32_t p : touched_) offer(p);
    if (target == own) {
      for (uint32_t p = 0; p < limits_.num_parts; ++p) offer(p);
    }
    if (target == own) target = LeastHarm(node);
    if (target == own) return 0;
    best = static_cast<int64_t>(connection_[target]);
    return best - static_cast<int64_t>(connection_[own]);
  }

  // Where no part has room in every respect: the part that gets over a limit by less than the
  // node's own part gets under it, and by the least; the node's own if there is none.
  uint32_t LeastHarm(uint32_t node) const {
    const uint32_t own = part_[node];
    double relief = 0;
    for (size_t c = 0; c < graph_.num_constraints; ++c) {
      relief += Over(own, c, 0) - Over(own, c, -int64_t{graph_.node_weight(node, c)});
    }
    uint32_t target = own;
    double least = relief * (1 - 1e-9);
    for (uint32_t p = 0; p < limits_.num_parts; ++p) {
      if (p == own) continue;
      double harm = 0;
      for (size_t c = 0; c < graph_.num_constraints; ++c) {
        harm += Over(p, c, graph_.node_weight(node, c)) - Over(p, c, 0);
      }
      if (harm < least) {
        least = harm;
        target = p;
      }
    }
    return target;
  }
  // How far the part would be over a limit with this much more, as a share of it.
  double Over(uint32_t p, size_t constraint, int64_t more) const {
    const auto limit = static_cast<int64_t>(limits_.limit[constraint]);
    const int64_t load = static_cast<int64_t>(loads_.load(p, constraint)) + more;
    return load <= limit ? 0 : static_cast<double>(load - limit) / static_cast<double>(limit);
  }

  bool IsOver(uint32_t p, size_t constraint) const {
    return loads_.load(p, constraint) > limits_.limit[constraint];
  }

  // Moves nodes out of all parts that are over one limit; whether any moved.
  bool Relieve(size_t constraint) {
    if (loads_.Excess(constraint) <= 1) return false;
    std::vector<Candidate> candidates;
    uint32_t target = 0;
    for (uint32_t node = 0; node < graph_.num_nodes(); ++node) {
      const uint32_t weight = graph_.node_weight(node, constraint);
      if (weight == 0 || !IsOver(part_[node], constraint)) continue;
      const auto gain = static_cast<double>(Best(node, constraint, target));
      if (target == part_[node]) continue;
      candidates.push_back({gain > 0 ? gain * weight : gain / weight, node});
    }
    std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
      return a.rank != b.rank ? a.rank > b.rank : a.node < b.node;
    });
    bool moved = false;
    for (const Candidate& candidate : candidates) {
      const uint32_t from = part_[candidate.node];
      if (!IsOver(from, constraint)) continue;
      Best(candidate.node, constraint, target);
      if (target == from) continue;
      loads_.Move(candidate.node, from, target);
      part_[candidate.node] = target;
      moved = true;
    }
    return moved;
  }

  void FillEmptyParts() {
    if (graph_.num_nodes() < limits_.num_parts) return;
    std::vector<uint32_t> empty;
    for (uint32_t p = 0; p < limits_.num_parts; ++p) {
      if (loads_.nodes(p) == 0) empty.push_back(p);
    }
    // Nodes with few edges first.
    std::vector<uint32_t> nodes;
    if (!empty.empty()) {
      nodes.resize(graph_.num_nodes());
      for (uint32_t node = 0; node < nodes.size(); ++node) nodes[node] = node;
      std::sort(nodes.begin(), nodes.end(), [this](uint32_t a, uint32_t b) {
        const uint64_t of_a = graph_.offsets[a + 1] - graph_.offsets[a];
        const uint64_t of_b = graph_.offsets[b + 1] - graph_.offsets[b];
        return of_a != of_b ? of_a < of_b : a < b;
      });
    }
    const uint64_t mean = graph_.num_nodes() / limits_.num_parts;
    size_t next = 0;
    for (const uint32_t p : empty) {
      // From a part that is larger than the mean, or at least has another node left.
      const auto take = [&](uint64_t more_than) {
        for (; next < nodes.size(); ++next) {
          const uint32_t from = part_[nodes[next]];
          if (loads_.nodes(from) <= more_than) continue;
          loads_.Move(nodes[next], from, p);
          part_[nodes[next++]] = p;
          return true;
        }
        next = 0;
        return false;
      };
      if (!take(std::max<uint64_t>(mean, 1))) take(1);
    }
  }

  const WeightedGraph& graph_;
  const PartLimits& limits_;
  absl::Span<uint32_t> part_;
  PartLoads loads_;
  std::vector<uint64_t> connection_;
  std::vector<uint32_t> touched_;
};

}  // namespace

bool RepairBalance(const WeightedGraph& graph, const PartLimits& limits,
                   absl::Span<uint32_t> part) {
  return BalanceRepair(graph, limits, part).Run();
}

}  // namespace packhouse

#include "service/partitioning/simple_parts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/base/seeded_random.h"
#include "service/base/status_macros.h"

namespace packhouse {

std::vector<uint32_t> RandomParts(uint32_t num_nodes, uint32_t num_parts, uint64_t seed) {
  SeededRandom random(seed);
  std::vector<uint32_t> part(num_nodes);
  for (uint32_t& p : part) p = static_cast<uint32_t>(random.Below(num_parts));
  return part;
}

namespace {

constexpr uint32_t kNoPart = UINT32_MAX;

// How the neighbours in a part are weighed against its room.
enum class StreamScore {
  kLinear,  // Linear deterministic greedy: best on graphs with clusters.
  kRoot,    // Fennel (Tsourakakis et al. 2014), exponent 3/2: best on graphs of hubs.
};

class Streaming {
 public:
  Streaming(const HomogeneousGraph& graph, const BalanceTerms& terms,
            absl::Span<const std::string> dropped, double imbalance, uint32_t num_parts,
            StreamScore score, const PartitionWatch& watch)
      : graph_(graph),
        terms_(terms),
        score_(score),
        edges_of_node_(static_cast<double>(graph.num_edges()) / std::max(graph.num_nodes(), 1U)),
        num_parts_(num_parts),
        watch_(watch),
        part_(graph.num_nodes(), kNoPart),
        connection_(num_parts) {
    bool any = false;
    for (size_t c = 0; c < terms.constraints().size(); ++c) {
      const BalanceConstraint& constraint = terms.constraints()[c];
      const bool kept = dropped.empty() || dropped[c].empty();
      any |= kept;
      rooms_.push_back({kept ? constraint.Limit(imbalance, num_parts) : 0,
                        std::vector<uint64_t>(kept ? num_parts : 0)});
    }
    if (!any) {
      BalanceConstraint nodes;
      nodes.total = graph.num_nodes();
      all_nodes_ = {nodes.Limit(imbalance, num_parts), std::vector<uint64_t>(num_parts)};
    }
  }

  absl::StatusOr<std::vector<uint32_t>> Run() {
    constexpr int kStreams = 12;
    constexpr int kPasses = 16;
    for (int pass = 0; pass < kPasses; ++pass) {
      uint64_t moves = 0;
      for (uint32_t node = 0; node < graph_.num_nodes(); ++node) {
        if (node % kNodesBetweenLooks == 0) {
          if (watch_.IsCancelled()) return absl::CancelledError("partitioning was cancelled");
          const double done = (pass + static_cast<double>(node) / graph_.num_nodes()) / kPasses;
          watch_.Tell(PartitionPhase::kAssigning,
                      score_ == StreamScore::kLinear ? done / 2 : (1 + done) / 2);
        }
        moves += Place(node, pass < kStreams) ? 1 : 0;
      }
      if (moves == 0) break;
    }
    return std::move(part_);
  }

 private:
  static constexpr uint32_t kNodesBetweenLooks = 1 << 14;

  struct Room {
    uint64_t limit = 0;          // 0: not kept.
    std::vector<uint64_t> load;  // By part.
  };
  struct Demand {
    Room* room;
    uint64_t weight;
  };

  // What `node` needs, of at most two rooms.
  size_t DemandsOf(uint32_t node, std::array<Demand, 2>& demands) {
    if (all_nodes_.limit > 0) {
      demands[0] = {&all_nodes_, 1};
      return 1;
    }
    size_t count = 0;
    for (const size_t c : {terms_.CountConstraint(node), terms_.DegreeConstraint(node)}) {
      if (c == BalanceTerms::kNone || rooms_[c].limit == 0) continue;
      const uint64_t weight = terms_.Weight(node, c);
      if (weight > 0) demands[count++] = {&rooms_[c], weight};
    }
    return count;
  }

  // Whether the node moved.
  bool Place(uint32_t node, bool by_room) {
    std::array<Demand, 2> demands;
    const size_t count = DemandsOf(node, demands);
    const uint32_t before = part_[node];
    if (before != kNoPart) {
      for (size_t d = 0; d < count; ++d) demands[d].room->load[before] -= demands[d].weight;
    }
    for (const uint32_t p : touched_) connection_[p] = 0;
    touched_.clear();
    graph_.ForEachNeighbour(node, [this, node](uint32_t other) {
      const uint32_t p = part_[other];
      if (p == kNoPart || other == node) return;
      if (connection_[p]++ == 0) touched_.push_back(p);
    });
    // The share of the room that is used up with the node in the part.
    const auto used = [&](uint32_t p) {
      double most = 0;
      for (size_t d = 0; d < count; ++d) {
        most = std::max(most, static_cast<double>(demands[d].room->load[p] + demands[d].weight) /
                                  static_cast<double>(demands[d].room->limit));
      }
      return most;
    };
    uint32_t best = kNoPart;
    double best_score = 0;
    double best_used = 0;
    for (const uint32_t p : touched_) {
      const double share = used(p);
      if (share > 1) continue;
      const double score = by_room ? Score(p, share) : static_cast<double>(connection_[p]);
      if (best == kNoPart || score > best_score ||
          (score == best_score && (p == before || (best != before && share < best_used)))) {
        best = p;
        best_score = score;
        best_used = share;
      }
    }
    if (best == kNoPart) best = Emptiest(used);
    for (size_t d = 0; d < count; ++d) demands[d].room->load[best] += demands[d].weight;
    part_[node] = best;
    return best != before;
  }

  double Score(uint32_t p, double share) const {
    const auto neighbours = static_cast<double>(connection_[p]);
    if (score_ == StreamScore::kLinear) return neighbours * (1 - share);
    // Fennel's a * x^(1/2) with a = sqrt(k) * m / n^(3/2), for a part that is to have n / k nodes.
    constexpr double kExponent = 1.5;
    return neighbours - kExponent * edges_of_node_ * std::sqrt(share);
  }

  template <typename Used>
  uint32_t Emptiest(const Used& used) const {
    uint32_t best = 0;
    double least = used(0);
    for (uint32_t p = 1; p < num_parts_; ++p) {
      const double share = used(p);
      if (share < least) {
        best = p;
        least = share;
      }
    }
    return best;
  }

  const HomogeneousGraph& graph_;
  const BalanceTerms& terms_;
  const StreamScore score_;
  const double edges_of_node_;
  const uint32_t num_parts_;
  const PartitionWatch& watch_;
  std::vector<Room> rooms_;  // By constraint.
  Room all_nodes_;           // If no constraint is kept.
  std::vector<uint32_t> part_;
  std::vector<uint64_t> connection_;
  std::vector<uint32_t> touched_;
};

uint64_t CutEnds(const HomogeneousGraph& graph, absl::Span<const uint32_t> part) {
  uint64_t ends = 0;
  for (uint32_t node = 0; node < graph.num_nodes(); ++node) {
    graph.ForEachNeighbour(node,
                           [&](uint32_t other) { ends += part[other] != part[node] ? 1 : 0; });
  }
  return ends;
}

}  // namespace

absl::StatusOr<std::vector<uint32_t>> StreamParts(const HomogeneousGraph& graph,
                                                  const BalanceTerms& terms,
                                                  absl::Span<const std::string> dropped,
                                                  double imbalance, uint32_t num_parts,
                                                  const PartitionWatch& watch) {
  const auto stream = [&](StreamScore score) {
    return Streaming(graph, terms, dropped, imbalance, num_parts, score, watch).Run();
  };
  PH_ASSIGN_OR_RETURN(std::vector<uint32_t> linear, stream(StreamScore::kLinear));
  PH_ASSIGN_OR_RETURN(std::vector<uint32_t> root, stream(StreamScore::kRoot));
  watch.Tell(PartitionPhase::kAssigning, 1);
  return CutEnds(graph, linear) <= CutEnds(graph, root) ? linear : root;
}

}  // namespace packhouse

#include "service/wings/partition/cutting/simple_parts.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
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

// Passes that are alike.
struct StreamPhase {
  int end;        // The first pass after it.
  bool by_edges;  // From the node with the most edges to that with the fewest, not in their order.
  bool by_room;   // Weighs room; otherwise a node goes wherever it has more neighbours.
};

// One way to go through the nodes.
struct StreamPlan {
  StreamScore score;
  absl::Span<const StreamPhase> phases;
};

// Clusters often lie together in the order of nodes. Where nodes with many edges are placed first,
// those with few follow them, and the order of nodes then mends the clusters. On a graph of hubs it
// would take the hubs apart again.
constexpr StreamPhase kInOrder[] = {{12, false, true}, {16, false, false}};
constexpr StreamPhase kByEdgesThenInOrder[] = {
    {6, true, true}, {12, false, true}, {16, false, false}};
constexpr StreamPhase kByEdges[] = {{4, true, true}, {8, true, false}};
constexpr StreamPlan kStreams[] = {{StreamScore::kLinear, kInOrder},
                                   {StreamScore::kLinear, kByEdgesThenInOrder},
                                   {StreamScore::kRoot, kByEdges}};

// The node number `at` from `first` on, where the first one follows the last.
uint32_t NodeFrom(uint32_t first, uint32_t at, uint32_t num_nodes) {
  return static_cast<uint32_t>((uint64_t{first} + at) % num_nodes);
}

// All nodes, those with the most edges first; of equal ones in order from `first` on. O(nodes * log
// nodes).
std::vector<uint32_t> OrderByEdges(const HomogeneousGraph& graph, uint32_t first) {
  std::vector<uint64_t> keys(graph.num_nodes());
  for (uint32_t at = 0; at < graph.num_nodes(); ++at) {
    const uint64_t degree =
        std::min<uint64_t>(graph.Degree(NodeFrom(first, at, graph.num_nodes())), UINT32_MAX);
    keys[at] = (UINT32_MAX - degree) << 32 | at;
  }
  std::sort(keys.begin(), keys.end());
  std::vector<uint32_t> order;
  for (const uint64_t key : keys) {
    order.push_back(NodeFrom(first, static_cast<uint32_t>(key), graph.num_nodes()));
  }
  return order;
}

double WeightOfEdges(const HomogeneousGraph& graph,
                     absl::Span<const std::vector<uint64_t>> edge_weights) {
  if (edge_weights.empty()) return static_cast<double>(graph.num_edges());
  double sum = 0;
  for (const std::vector<uint64_t>& of_type : edge_weights) {
    for (const uint64_t weight : of_type) sum += static_cast<double>(weight);
  }
  return sum;
}

class Streaming {
 public:
  Streaming(const HomogeneousGraph& graph, const BalanceTerms& terms,
            absl::Span<const std::vector<uint64_t>> edge_weights,
            absl::Span<const std::string> dropped, double imbalance, uint32_t num_parts,
            uint32_t first, absl::Span<const uint32_t> by_edges, const StreamPlan& plan,
            const PartitionWatch& watch)
      : graph_(graph),
        terms_(terms),
        edge_weights_(edge_weights),
        first_(first),
        by_edges_(by_edges),
        plan_(plan),
        edges_of_node_(WeightOfEdges(graph, edge_weights) / std::max(graph.num_nodes(), 1U)),
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
    int pass = 0;
    for (const StreamPhase& phase : plan_.phases) {
      for (uint64_t moves = 1; moves > 0 && pass < phase.end; ++pass) {
        moves = 0;
        for (uint32_t at = 0; at < graph_.num_nodes(); ++at) {
          if (at % kNodesBetweenLooks == 0) {
            if (watch_.IsCancelled()) return absl::CancelledError("partitioning was cancelled");
            const double passes = pass + static_cast<double>(at) / graph_.num_nodes();
            watch_.Tell(PartitionPhase::kAssigning, passes / plan_.phases.back().end);
          }
          const uint32_t node =
              phase.by_edges ? by_edges_[at] : NodeFrom(first_, at, graph_.num_nodes());
          moves += Place(node, phase.by_room) ? 1 : 0;
        }
      }
      pass = phase.end;
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

  // What `node` needs.
  void FindDemands(uint32_t node) {
    demands_.clear();
    if (all_nodes_.limit > 0) {
      demands_.push_back({&all_nodes_, 1});
      return;
    }
    terms_.ForEachConstraint(node, [this, node](size_t c) {
      const uint64_t weight = rooms_[c].limit == 0 ? 0 : terms_.Weight(node, c);
      if (weight > 0) demands_.push_back({&rooms_[c], weight});
    });
  }

  // Whether the node moved.
  bool Place(uint32_t node, bool by_room) {
    FindDemands(node);
    const uint32_t before = part_[node];
    if (before != kNoPart) {
      for (const Demand& demand : demands_) demand.room->load[before] -= demand.weight;
    }
    for (const uint32_t p : touched_) connection_[p] = 0;
    touched_.clear();
    graph_.ForEachWeighted(node, edge_weights_, [this, node](uint32_t other, uint64_t weight) {
      const uint32_t p = part_[other];
      if (p == kNoPart || other == node) return;
      if (connection_[p] == 0) touched_.push_back(p);
      connection_[p] += weight;
    });
    // The share of the room that is used up with the node in the part.
    const auto used = [&](uint32_t p) {
      double most = 0;
      for (const Demand& demand : demands_) {
        most = std::max(most, static_cast<double>(demand.room->load[p] + demand.weight) /
                                  static_cast<double>(demand.room->limit));
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
    for (const Demand& demand : demands_) demand.room->load[best] += demand.weight;
    part_[node] = best;
    return best != before;
  }

  double Score(uint32_t p, double share) const {
    const auto neighbours = static_cast<double>(connection_[p]);
    if (plan_.score == StreamScore::kLinear) return neighbours * (1 - share);
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
  const absl::Span<const std::vector<uint64_t>> edge_weights_;
  const uint32_t first_;  // Where passes in the order of nodes begin.
  const absl::Span<const uint32_t> by_edges_;
  const StreamPlan plan_;
  const double edges_of_node_;
  const uint32_t num_parts_;
  const PartitionWatch& watch_;
  std::vector<Room> rooms_;  // By constraint.
  Room all_nodes_;           // If no constraint is kept.
  std::vector<uint32_t> part_;
  std::vector<uint64_t> connection_;
  std::vector<uint32_t> touched_;
  std::vector<Demand> demands_;  // Of the node that is placed.
};

// Gives each empty part a node of a part that has several: those with the fewest neighbours in
// their own part. O(edges + nodes * log nodes) if a part is empty, otherwise O(nodes).
void FillEmptyParts(const HomogeneousGraph& graph, uint32_t num_parts,
                    std::vector<uint32_t>& part) {
  std::vector<uint32_t> size(num_parts);
  for (const uint32_t p : part) ++size[p];
  if (std::find(size.begin(), size.end(), 0U) == size.end()) return;
  std::vector<std::pair<uint64_t, uint32_t>> by_loss;
  for (uint32_t node = 0; node < graph.num_nodes(); ++node) {
    if (size[part[node]] < 2) continue;
    uint64_t loss = 0;
    graph.ForEachNeighbour(
        node, [&](uint32_t other) { loss += other != node && part[other] == part[node] ? 1 : 0; });
    by_loss.emplace_back(loss, node);
  }
  std::sort(by_loss.begin(), by_loss.end());
  auto next = by_loss.begin();
  for (uint32_t p = 0; p < num_parts; ++p) {
    if (size[p] != 0) continue;
    while (next != by_loss.end() && size[part[next->second]] < 2) ++next;
    if (next == by_loss.end()) return;
    --size[part[next->second]];
    part[next->second] = p;
    ++size[p];
    ++next;
  }
}

uint64_t CutEnds(const HomogeneousGraph& graph,
                 absl::Span<const std::vector<uint64_t>> edge_weights,
                 absl::Span<const uint32_t> part) {
  uint64_t ends = 0;
  for (uint32_t node = 0; node < graph.num_nodes(); ++node) {
    graph.ForEachWeighted(node, edge_weights, [&](uint32_t other, uint64_t weight) {
      ends += part[other] != part[node] ? weight : 0;
    });
  }
  return ends;
}

}  // namespace

absl::StatusOr<std::vector<uint32_t>> StreamParts(
    const HomogeneousGraph& graph, const BalanceTerms& terms,
    absl::Span<const std::vector<uint64_t>> edge_weights, absl::Span<const std::string> dropped,
    double imbalance, uint32_t num_parts, uint64_t seed, const PartitionWatch& watch) {
  const uint32_t first = graph.num_nodes() == 0
                             ? 0
                             : static_cast<uint32_t>(SeededRandom(seed).Below(graph.num_nodes()));
  const std::vector<uint32_t> by_edges = OrderByEdges(graph, first);
  std::vector<uint32_t> best;
  uint64_t least = 0;
  for (size_t stream = 0; stream < std::size(kStreams); ++stream) {
    const PartitionWatch of_stream{
        watch.cancelled, [&](PartitionPhase phase, double share) {
          watch.Tell(phase, (static_cast<double>(stream) + share) / std::size(kStreams));
        }};
    PH_ASSIGN_OR_RETURN(std::vector<uint32_t> part,
                        Streaming(graph, terms, edge_weights, dropped, imbalance, num_parts, first,
                                  by_edges, kStreams[stream], of_stream)
                            .Run());
    FillEmptyParts(graph, num_parts, part);
    const uint64_t cut = CutEnds(graph, edge_weights, part);
    if (!best.empty() && cut >= least) continue;
    best = std::move(part);
    least = cut;
  }
  watch.Tell(PartitionPhase::kAssigning, 1);
  return best;
}

}  // namespace packhouse

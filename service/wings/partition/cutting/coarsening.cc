#include "service/wings/partition/cutting/coarsening.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"

namespace packhouse {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

// Clusters of one graph, each named by one of its nodes.
class Clusters {
 public:
  Clusters(const WeightedGraph& graph, absl::Span<const uint64_t> block,
           absl::Span<const uint64_t> most, SeededRandom& random)
      : graph_(graph),
        block_(block),
        most_(most),
        random_(random),
        cluster_(graph.num_nodes()),
        weight_(graph.node_weights.begin(), graph.node_weights.end()),
        size_(graph.num_nodes(), 1),
        volume_(graph.num_nodes()),
        connection_(graph.num_nodes()) {
    std::iota(cluster_.begin(), cluster_.end(), 0);
    for (uint32_t node = 0; node < graph.num_nodes(); ++node) volume_[node] = VolumeOf(node);
  }

  std::vector<uint32_t> Find() {
    const std::vector<uint32_t> order = RandomOrder(graph_.num_nodes(), random_);
    for (const uint32_t node : order) {
      if (size_[cluster_[node]] == 1) JoinNeighbour(node);
    }
    JoinLeftOver(order);
    return std::move(cluster_);
  }

 private:
  bool Takes(uint32_t c, uint32_t node) const {
    for (size_t w = 0; w < graph_.num_constraints; ++w) {
      const uint64_t more = graph_.node_weight(node, w);
      if (more > 0 && weight_[c * graph_.num_constraints + w] + more > most_[w]) return false;
    }
    return true;
  }

  // The weights of edges from `node` to clusters of its block are in connection_, for those in
  // touched_.
  void Connect(uint32_t node) {
    for (const uint32_t c : touched_) connection_[c] = 0;
    touched_.clear();
    for (uint64_t at = graph_.offsets[node]; at < graph_.offsets[node + 1]; ++at) {
      const uint32_t other = graph_.neighbours[at];
      if (block_[other] != block_[node]) continue;
      const uint32_t c = cluster_[other];
      if (connection_[c] == 0) touched_.push_back(c);
      connection_[c] += graph_.edge_weight(at);
    }
  }

  void Move(uint32_t node, uint32_t to) {
    const uint32_t from = cluster_[node];
    for (size_t w = 0; w < graph_.num_constraints; ++w) {
      weight_[from * graph_.num_constraints + w] -= graph_.node_weight(node, w);
      weight_[to * graph_.num_constraints + w] += graph_.node_weight(node, w);
    }
    const uint64_t volume = VolumeOf(node);
    volume_[from] -= volume;
    volume_[to] += volume;
    --size_[from];
    ++size_[to];
    cluster_[node] = to;
  }

  // The weight of all edges at a node.
  uint64_t VolumeOf(uint32_t node) const {
    uint64_t volume = 0;
    for (uint64_t at = graph_.offsets[node]; at < graph_.offsets[node + 1]; ++at) {
      volume += graph_.edge_weight(at);
    }
    return volume;
  }

  void JoinNeighbour(uint32_t node) {
    Connect(node);
    uint32_t best = cluster_[node];
    double best_rating = 0;
    for (const uint32_t c : touched_) {
      // Hubs have an edge to everything: it says little.
      const double rating = connection_[c] / static_cast<double>(volume_[c]);
      if (c == cluster_[node] || rating < best_rating || !Takes(c, node)) continue;
      if (rating > best_rating || (random_.Next() & 1) != 0) {
        best = c;
        best_rating = rating;
      }
    }
    if (best != cluster_[node]) Move(node, best);
  }

  // Nodes that hang on a cluster without room, usually that of a hub, join one another if they hang
  // on the same one; nodes without neighbours join one another.
  void JoinLeftOver(const std::vector<uint32_t>& order) {
    std::vector<uint32_t> waiting(graph_.num_nodes(), kNone);
    absl::flat_hash_map<uint64_t, uint32_t> waiting_alone;  // By block.
    for (const uint32_t node : order) {
      if (size_[cluster_[node]] > 1) continue;
      Connect(node);
      uint32_t hub = kNone;
      for (const uint32_t c : touched_) {
        if (c != cluster_[node] && (hub == kNone || connection_[c] > connection_[hub])) hub = c;
      }
      uint32_t& with = hub == kNone ? waiting_alone.try_emplace(block_[node], kNone).first->second
                                    : waiting[hub];
      if (with != kNone && Takes(with, node)) {
        Move(node, with);
      } else {
        with = cluster_[node];
      }
    }
  }

  const WeightedGraph& graph_;
  const absl::Span<const uint64_t> block_;
  const absl::Span<const uint64_t> most_;
  SeededRandom& random_;
  std::vector<uint32_t> cluster_;
  std::vector<uint32_t> weight_;  // Of clusters.
  std::vector<uint32_t> size_;
  std::vector<uint64_t> volume_;  // Of clusters: the weight of the edges of their nodes.
  std::vector<uint32_t> connection_;
  std::vector<uint32_t> touched_;
};

}  // namespace

std::vector<uint32_t> RandomOrder(uint32_t count, SeededRandom& random) {
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  for (uint32_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
  return order;
}

CoarseGraph Coarsen(const WeightedGraph& graph, absl::Span<const uint64_t> block,
                    absl::Span<const uint64_t> most, SeededRandom& random) {
  const size_t columns = graph.num_constraints;
  CoarseGraph coarse;
  coarse.num_constraints = columns;
  coarse.coarse_of = Clusters(graph, block, most, random).Find();
  // Clusters are numbered in the order of their first nodes, so that neighbours stay near.
  std::vector<uint32_t> number(graph.num_nodes(), kNone);
  uint32_t count = 0;
  for (uint32_t& c : coarse.coarse_of) {
    if (number[c] == kNone) number[c] = count++;
    c = number[c];
  }
  // The nodes of each cluster.
  std::vector<uint32_t> begin(count + 1, 0);
  for (const uint32_t c : coarse.coarse_of) ++begin[c + 1];
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  std::vector<uint32_t> members(graph.num_nodes());
  std::vector<uint32_t> next(begin.begin(), begin.end() - 1);
  for (uint32_t node = 0; node < graph.num_nodes(); ++node) {
    members[next[coarse.coarse_of[node]]++] = node;
  }
  coarse.node_weights.assign(count * columns, 0);
  coarse.offsets.reserve(uint64_t{count} + 1);
  coarse.offsets.push_back(0);
  std::vector<uint32_t>& connection = number;
  connection.assign(count, 0);
  std::vector<uint32_t> touched;
  for (uint32_t c = 0; c < count; ++c) {
    for (uint32_t m = begin[c]; m < begin[c + 1]; ++m) {
      const uint32_t node = members[m];
      for (size_t w = 0; w < columns; ++w) {
        coarse.node_weights[c * columns + w] += graph.node_weight(node, w);
      }
      for (uint64_t at = graph.offsets[node]; at < graph.offsets[node + 1]; ++at) {
        const uint32_t other = coarse.coarse_of[graph.neighbours[at]];
        if (other == c) continue;
        if (connection[other] == 0) touched.push_back(other);
        connection[other] += graph.edge_weight(at);
      }
    }
    for (const uint32_t other : touched) {
      coarse.neighbours.push_back(other);
      coarse.edge_weights.push_back(std::exchange(connection[other], 0));
    }
    touched.clear();
    coarse.offsets.push_back(coarse.neighbours.size());
  }
  return coarse;
}

}  // namespace packhouse

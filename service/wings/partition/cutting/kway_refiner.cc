#include "service/wings/partition/cutting/kway_refiner.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "service/wings/partition/cutting/coarsening.h"

namespace packhouse {
namespace {

constexpr int64_t kNotOffered = INT64_MIN;
// Searches end after this many moves without a better cut.
constexpr size_t kFruitlessMoves = 60;
// Neighbours of a node with more edges are not looked at when it moves: they are too many.
constexpr uint64_t kHubDegree = 2000;

}  // namespace

KWayRefiner::KWayRefiner(const WeightedGraph* graph, const PartLimits* limits,
                         absl::Span<uint32_t> part, uint64_t most_table, SeededRandom* random)
    : graph_(*graph),
      limits_(*limits),
      part_(part),
      random_(*random),
      loads_(graph, limits, part),
      connection_(limits->num_parts),
      moved_(graph->num_nodes()),
      offered_(graph->num_nodes(), kNotOffered) {
  const uint64_t entries = uint64_t{graph->num_nodes()} * limits->num_parts;
  if (entries * sizeof(uint32_t) > most_table) return;
  table_.resize(entries);
  for (uint32_t node = 0; node < graph_.num_nodes(); ++node) {
    uint32_t* row = table_.data() + uint64_t{node} * limits_.num_parts;
    for (uint64_t at = graph_.offsets[node]; at < graph_.offsets[node + 1]; ++at) {
      row[part_[graph_.neighbours[at]]] += graph_.edge_weight(at);
    }
  }
}

void KWayRefiner::SetPrices() {
  prices_.assign(size_t{limits_.num_parts} * graph_.num_constraints, {});
  std::vector<uint32_t> touched;
  std::vector<uint32_t> connection(limits_.num_parts);
  for (uint32_t node = 0; node < graph_.num_nodes(); ++node) {
    const uint32_t own = part_[node];
    for (uint64_t at = graph_.offsets[node]; at < graph_.offsets[node + 1]; ++at) {
      const uint32_t p = part_[graph_.neighbours[at]];
      if (connection[p] == 0) touched.push_back(p);
      connection[p] += graph_.edge_weight(at);
    }
    uint32_t elsewhere = 0;
    for (const uint32_t p : touched) {
      if (p != own) elsewhere = std::max(elsewhere, connection[p]);
    }
    const double loss = connection[own] > elsewhere ? connection[own] - elsewhere : 0;
    for (const uint32_t p : touched) connection[p] = 0;
    touched.clear();
    for (size_t c = 0; c < graph_.num_constraints; ++c) {
      const uint32_t weight = graph_.node_weight(node, c);
      if (weight == 0) continue;
      size_t step = 0;
      while (step + 1 < Prices::kSteps && Prices::Price(step) < loss / weight) ++step;
      prices_[own * graph_.num_constraints + c].weight[step] += weight;
    }
  }
}

// What it costs to bring the part back to its limits after the node has come (sign 1), or what is
// saved when the node goes (-1).
int64_t KWayRefiner::Penalty(uint32_t p, uint32_t node, int sign) const {
  double penalty = 0;
  for (size_t c = 0; c < graph_.num_constraints; ++c) {
    const uint64_t weight = graph_.node_weight(node, c);
    const uint64_t load = loads_.load(p, c) + (sign > 0 ? weight : 0);
    if (weight == 0 || load <= limits_.limit[c]) continue;
    const uint64_t over = load - limits_.limit[c];
    penalty += static_cast<double>(std::min(over, weight)) *
               prices_[p * graph_.num_constraints + c].Of(over);
  }
  return std::llround(penalty);
}

void KWayRefiner::PassOverLimits(const PartitionWatch& watch) {
  SetPrices();
  Pass(watch);
  prices_.clear();
}

bool KWayRefiner::IsBoundary(uint32_t node) const {
  for (uint64_t at = graph_.offsets[node]; at < graph_.offsets[node + 1]; ++at) {
    if (part_[graph_.neighbours[at]] != part_[node]) return true;
  }
  return false;
}

KWayRefiner::Best KWayRefiner::BestMove(uint32_t node) {
  const uint32_t own = part_[node];
  Best best{kNotOffered, own};
  if (loads_.nodes(own) == 1) return best;  // The part would be empty.
  const auto offer = [&](uint32_t p, int64_t connection) {
    if (p == own || connection < best.gain) return;
    if (!prices_.empty()) {
      connection -= Penalty(p, node, 1);
      if (connection > best.gain) best = {connection, p};
      return;
    }
    if ((connection > best.gain || loads_.load(p, 0) < loads_.load(best.target, 0)) &&
        loads_.Takes(p, node)) {
      best = {connection, p};
    }
  };
  int64_t inside = 0;
  if (!table_.empty()) {
    const uint32_t* row = table_.data() + uint64_t{node} * limits_.num_parts;
    for (uint32_t p = 0; p < limits_.num_parts; ++p) {
      if (row[p] > 0) offer(p, row[p]);
    }
    inside = row[own];
  } else {
    for (uint64_t at = graph_.offsets[node]; at < graph_.offsets[node + 1]; ++at) {
      const uint32_t p = part_[graph_.neighbours[at]];
      if (connection_[p] == 0) touched_.push_back(p);
      connection_[p] += graph_.edge_weight(at);
    }
    for (const uint32_t p : touched_) offer(p, connection_[p]);
    inside = connection_[own];
    for (const uint32_t p : touched_) connection_[p] = 0;
    touched_.clear();
  }
  if (best.target != own) best.gain -= inside;
  if (best.target != own && !prices_.empty()) best.gain += Penalty(own, node, -1);
  return best;
}

void KWayRefiner::Offer(uint32_t node) {
  const Best best = BestMove(node);
  if (best.target == part_[node] || best.gain == offered_[node]) return;
  if (offered_[node] == kNotOffered) in_heap_.push_back(node);
  offered_[node] = best.gain;
  heap_.push_back({best.gain, static_cast<uint32_t>(random_.Next()), node});
  std::push_heap(heap_.begin(), heap_.end());
}

void KWayRefiner::Move(uint32_t node, uint32_t to) {
  const uint32_t from = part_[node];
  loads_.Move(node, from, to);
  part_[node] = to;
  if (table_.empty()) return;
  for (uint64_t at = graph_.offsets[node]; at < graph_.offsets[node + 1]; ++at) {
    uint32_t* row = table_.data() + uint64_t{graph_.neighbours[at]} * limits_.num_parts;
    const uint32_t weight = graph_.edge_weight(at);
    row[from] -= weight;
    row[to] += weight;
  }
}

uint64_t KWayRefiner::SearchFrom(uint32_t start) {
  steps_.clear();
  heap_.clear();
  int64_t gain = 0;
  int64_t best_gain = 0;
  size_t best_steps = 0;
  Offer(start);
  while (!heap_.empty() && steps_.size() < best_steps + kFruitlessMoves) {
    std::pop_heap(heap_.begin(), heap_.end());
    const Entry entry = heap_.back();
    heap_.pop_back();
    if (moved_[entry.node] != 0 || offered_[entry.node] != entry.gain) continue;
    const Best best = BestMove(entry.node);
    if (best.target == part_[entry.node]) {
      offered_[entry.node] = kNotOffered + 1;
      continue;
    }
    if (best.gain < entry.gain) {
      Offer(entry.node);
      continue;
    }
    steps_.push_back({entry.node, part_[entry.node]});
    moved_[entry.node] = 1;
    Move(entry.node, best.target);
    gain += best.gain;
    if (gain > best_gain) {
      best_gain = gain;
      best_steps = steps_.size();
    }
    if (graph_.offsets[entry.node + 1] - graph_.offsets[entry.node] > kHubDegree) continue;
    for (uint64_t at = graph_.offsets[entry.node]; at < graph_.offsets[entry.node + 1]; ++at) {
      if (moved_[graph_.neighbours[at]] == 0) Offer(graph_.neighbours[at]);
    }
  }
  while (steps_.size() > best_steps) {
    Move(steps_.back().node, steps_.back().from);
    steps_.pop_back();
  }
  for (const uint32_t node : in_heap_) offered_[node] = kNotOffered;
  in_heap_.clear();
  return static_cast<uint64_t>(best_gain);
}

uint64_t KWayRefiner::Pass(const PartitionWatch& watch) {
  constexpr size_t kSearchesBetweenLooks = 256;
  std::fill(moved_.begin(), moved_.end(), 0);
  uint64_t gain = 0;
  size_t searches = 0;
  for (const uint32_t node : RandomOrder(graph_.num_nodes(), random_)) {
    if (moved_[node] != 0 || !IsBoundary(node)) continue;
    if (searches++ % kSearchesBetweenLooks == 0 && watch.IsCancelled()) break;
    gain += SearchFrom(node);
  }
  return gain;
}

}  // namespace packhouse

#include "service/wings/partition/cutting/best_parts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "service/base/seeded_random.h"
#include "service/wings/partition/cutting/coarsening.h"
#include "service/wings/partition/cutting/partition_options.h"
#include "service/wings/partition/cutting/refinement.h"

namespace packhouse {
namespace {

// Local searches in the manner of Fiduccia and Mattheyses (1982), each from one node of the
// boundary (Sanders and Schulz 2011): nodes move to the part of the largest gain, also at a loss,
// and the moves after the best state are taken back. No move breaks a limit that was kept, and the
// cut never grows. Thread-compatible.
class KWayRefiner {
 public:
  // `part` is changed in place. 4 bytes for each node and part if they are at most `most_table`
  // bytes in all, otherwise connections are counted again for each look at a node.
  KWayRefiner(const WeightedGraph* graph, const PartLimits* limits, absl::Span<uint32_t> part,
              uint64_t most_table, SeededRandom* random);

  // One search from each node of the boundary, in a random order; each node moves once at most.
  // By how much the cut is lower now.
  uint64_t Pass(const PartitionWatch& watch);

  // The same, but parts may get over their limits: a node pays what it would cost to move as much
  // weight out of the part again, estimated before the pass. Where parts are full, this finds what
  // single moves cannot. Limits must be repaired afterwards, and the cut may have grown by then.
  void PassOverLimits(const PartitionWatch& watch);

 private:
  struct Entry {
    int64_t gain;
    uint32_t tie;
    uint32_t node;

    friend bool operator<(const Entry& a, const Entry& b) {
      return a.gain != b.gain ? a.gain < b.gain : a.tie < b.tie;
    }
  };
  struct Step {
    uint32_t node;
    uint32_t from;
  };
  struct Best {
    int64_t gain;
    uint32_t target;  // The node's own part if there is none.
  };

  // Of one part and constraint: what weight can leave at what price.
  struct Prices {
    static constexpr size_t kSteps = 24;
    static double Price(size_t step) { return step == 0 ? 0 : 0.25 * std::pow(1.5, step); }
    std::array<uint64_t, kSteps> weight = {};
    double Of(uint64_t excess) const {
      uint64_t sum = 0;
      for (size_t step = 0; step < kSteps; ++step) {
        sum += weight[step];
        if (sum >= excess) return Price(step);
      }
      return 2 * Price(kSteps);
    }
  };

  void SetPrices();
  int64_t Penalty(uint32_t p, uint32_t node, int sign) const;
  bool IsBoundary(uint32_t node) const;
  Best BestMove(uint32_t node);
  void Offer(uint32_t node);
  void Move(uint32_t node, uint32_t to);
  uint64_t SearchFrom(uint32_t start);

  const WeightedGraph& graph_;
  const PartLimits& limits_;
  absl::Span<uint32_t> part_;
  SeededRandom& random_;
  PartLoads loads_;
  std::vector<uint32_t> table_;       // By node and part; empty if it would be too large.
  std::vector<uint32_t> connection_;  // By part, of one node.
  std::vector<uint32_t> touched_;
  std::vector<Prices> prices_;    // By part and constraint; empty while limits are kept.
  std::vector<char> moved_;       // In this pass.
  std::vector<int64_t> offered_;  // The gain of the node's entry that counts.
  std::vector<Entry> heap_;
  std::vector<uint32_t> in_heap_;
  std::vector<Step> steps_;
};

constexpr int64_t kNotOffered = INT64_MIN;
// Searches end after this many moves without a better cut.
constexpr size_t kFruitlessMoves = 60;
// Neighbours of a node with more edges are not looked at when it moves: they are too many.
constexpr uint64_t kHubDegree = 2000;

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

constexpr uint32_t kUndecided = UINT32_MAX;

class PartsJoin {
 public:
  PartsJoin(const WeightedGraph& graph, const PartLimits& limits, uint64_t seed,
            const PartitionWatch& watch)
      : graph_(graph),
        limits_(limits),
        most_table_(graph.offsets.back() * kTableBytesOfEntry),
        random_(seed),
        watch_(watch) {}

  // Lowers the cut of `part`. Nodes are joined only where both partitions have them together.
  void Cycle(std::vector<uint32_t>& part, absl::Span<const uint32_t> other) {
    std::vector<uint64_t> block(part.size());
    for (size_t node = 0; node < part.size(); ++node) {
      block[node] = uint64_t{part[node]} << 32 | other[node];
    }
    Level(graph_, part, std::move(block), 0, false);
  }

  // A partition of its own.
  std::vector<uint32_t> Fresh() {
    std::vector<uint32_t> part(graph_.num_nodes());
    Level(graph_, part, std::vector<uint64_t>(graph_.num_nodes()), 0, true);
    return part;
  }

 private:
  static constexpr uint64_t kTableBytesOfEntry = 16;

  // `fresh`: the parts are not read.
  void Level(const WeightedGraph& graph, std::vector<uint32_t>& part, std::vector<uint64_t> block,
             int depth, bool fresh) {
    constexpr uint32_t kNodesOfPart = 30;
    constexpr int kDeepest = 30;
    if (graph.num_nodes() > uint64_t{kNodesOfPart} * limits_.num_parts && depth < kDeepest &&
        !watch_.IsCancelled()) {
      const CoarseGraph coarse = Coarsen(graph, block, MostOf(graph), random_);
      if (coarse.num_nodes() < graph.num_nodes() - graph.num_nodes() / 20) {
        std::vector<uint32_t> coarse_part(coarse.num_nodes());
        std::vector<uint64_t> coarse_block(coarse.num_nodes());
        for (uint32_t node = 0; node < graph.num_nodes(); ++node) {
          coarse_part[coarse.coarse_of[node]] = part[node];
          coarse_block[coarse.coarse_of[node]] = block[node];
        }
        block = {};
        Level(coarse.view(), coarse_part, std::move(coarse_block), depth + 1, fresh);
        fresh = false;
        for (uint32_t node = 0; node < graph.num_nodes(); ++node) {
          part[node] = coarse_part[coarse.coarse_of[node]];
        }
      }
    }
    if (fresh) {
      part = FirstParts(graph);
    } else {
      Refine(graph, part);
    }
  }

  // The best of several partitions of a small graph, each begun by a stream in random order.
  std::vector<uint32_t> FirstParts(const WeightedGraph& graph) {
    constexpr int kTries = 5;
    std::vector<uint32_t> best;
    uint64_t best_cut = 0;
    double best_excess = 0;
    for (int t = 0; t < kTries; ++t) {
      std::vector<uint32_t> part = Stream(graph);
      RepairBalance(graph, limits_, absl::MakeSpan(part));
      Refine(graph, part);
      const double excess = std::max(PartLoads(&graph, &limits_, part).Excess(), 1.0);
      const uint64_t cut = CutOf(graph, part);
      if (best.empty() || excess < best_excess || (excess == best_excess && cut < best_cut)) {
        best = std::move(part);
        best_cut = cut;
        best_excess = excess;
      }
    }
    return best;
  }

  std::vector<uint32_t> Stream(const WeightedGraph& graph) {
    constexpr int kPasses = 4;
    std::vector<uint32_t> part(graph.num_nodes(), kUndecided);
    std::vector<double> load(size_t{limits_.num_parts} * graph.num_constraints);
    for (int pass = 0; pass < kPasses; ++pass) {
      for (const uint32_t node : RandomOrder(graph.num_nodes(), random_)) {
        if (part[node] != kUndecided)
          AddLoad(graph, node, -1, &load[part[node] * graph.num_constraints]);
        part[node] = StreamTo(graph, part, load, node);
        AddLoad(graph, node, 1, &load[part[node] * graph.num_constraints]);
      }
    }
    return part;
  }

  static void AddLoad(const WeightedGraph& graph, uint32_t node, int sign, double* load) {
    for (size_t c = 0; c < graph.num_constraints; ++c) load[c] += sign * graph.node_weight(node, c);
  }

  // The part with most edges to the node, weighed by the room that is left there.
  uint32_t StreamTo(const WeightedGraph& graph, const std::vector<uint32_t>& part,
                    const std::vector<double>& load, uint32_t node) const {
    std::vector<double> connection(limits_.num_parts);
    for (uint64_t at = graph.offsets[node]; at < graph.offsets[node + 1]; ++at) {
      const uint32_t p = part[graph.neighbours[at]];
      if (p != kUndecided) connection[p] += graph.edge_weight(at);
    }
    uint32_t best = 0;
    double best_score = -std::numeric_limits<double>::infinity();
    for (uint32_t p = 0; p < limits_.num_parts; ++p) {
      double used = 0;
      for (size_t c = 0; c < graph.num_constraints; ++c) {
        used = std::max(used, (load[p * graph.num_constraints + c] + graph.node_weight(node, c)) /
                                  static_cast<double>(limits_.limit[c]));
      }
      const double score = used > 1 ? -used : connection[p] * (1 - used) - 1e-9 * used;
      if (score > best_score) {
        best = p;
        best_score = score;
      }
    }
    return best;
  }

  // The weight of clusters: at most four times the mean of nodes, so that a graph shrinks slowly,
  // and at most a part of a part.
  std::vector<uint64_t> MostOf(const WeightedGraph& graph) const {
    constexpr uint64_t kGrowth = 4;
    constexpr uint64_t kShareOfPart = 16;
    std::vector<uint64_t> most;
    for (size_t c = 0; c < graph.num_constraints; ++c) {
      uint64_t total = 0;
      for (uint32_t node = 0; node < graph.num_nodes(); ++node) total += graph.node_weight(node, c);
      most.push_back(std::max<uint64_t>(
          std::min(total / graph.num_nodes() * kGrowth + kGrowth, limits_.limit[c] / kShareOfPart),
          2));
    }
    return most;
  }

  // Never a higher cut, and no limit broken that was kept.
  void Refine(const WeightedGraph& graph, std::vector<uint32_t>& part) {
    constexpr int kPasses = 4;
    constexpr int kRoundsOverLimits = 2;
    Pass(graph, part, kPasses);
    for (int round = 0; round < kRoundsOverLimits && !watch_.IsCancelled(); ++round) {
      std::vector<uint32_t> trial = part;
      KWayRefiner(&graph, &limits_, absl::MakeSpan(trial), most_table_, &random_)
          .PassOverLimits(watch_);
      const bool kept = RepairBalance(graph, limits_, absl::MakeSpan(trial));
      if (!kept && PartLoads(&graph, &limits_, part).Excess() <= 1) break;
      Pass(graph, trial, kPasses / 2);
      if (CutOf(graph, trial) >= CutOf(graph, part)) break;
      part = std::move(trial);
    }
  }

  // Passes within the limits, as long as they are worth it.
  void Pass(const WeightedGraph& graph, std::vector<uint32_t>& part, int passes) {
    KWayRefiner refiner(&graph, &limits_, absl::MakeSpan(part), most_table_, &random_);
    const uint64_t little = CutOf(graph, part) / 1000;
    for (int pass = 0; pass < passes && !watch_.IsCancelled(); ++pass) {
      if (refiner.Pass(watch_) <= little) break;
    }
  }

  const WeightedGraph& graph_;
  const PartLimits& limits_;
  const uint64_t most_table_;
  SeededRandom random_;
  const PartitionWatch& watch_;
};

}  // namespace

std::vector<uint32_t> JoinParts(const WeightedGraph& graph, const PartLimits& limits,
                                std::vector<std::vector<uint32_t>> found, uint64_t seed,
                                const PartitionWatch& watch) {
  struct Member {
    bool kept;
    uint64_t cut;
    std::vector<uint32_t> part;
  };
  std::vector<Member> members;
  PartsJoin join(graph, limits, seed, watch);
  found.push_back(join.Fresh());
  for (std::vector<uint32_t>& part : found) {
    const PartLoads loads(&graph, &limits, part);
    members.push_back(
        {loads.Excess() <= 1 && loads.num_empty() == 0, CutOf(graph, part), std::move(part)});
  }
  std::stable_sort(members.begin(), members.end(), [](const Member& a, const Member& b) {
    return a.kept != b.kept ? a.kept : a.cut < b.cut;
  });
  std::vector<uint32_t> best = std::move(members.front().part);
  constexpr int kCyclesAlone = 2;
  const size_t cycles = kCyclesAlone + members.size() - 1;
  size_t done = 0;
  const auto tell = [&] {
    watch.Tell(PartitionPhase::kRefining,
               static_cast<double>(done++) / static_cast<double>(cycles));
  };
  for (size_t m = 1; m < members.size(); ++m) {
    tell();
    join.Cycle(best, members[m].part);
  }
  for (int cycle = 0; cycle < kCyclesAlone; ++cycle) {
    tell();
    const std::vector<uint32_t> alone = best;
    join.Cycle(best, alone);
  }
  watch.Tell(PartitionPhase::kRefining, 1);
  return best;
}

}  // namespace packhouse

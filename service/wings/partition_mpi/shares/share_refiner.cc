#include "service/wings/partition_mpi/shares/share_refiner.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace packhouse {
namespace {

// The neighbours that are not own.
GhostNodes GhostsOf(Ranks& ranks, const Blocks& blocks, const SymmetricShare& graph) {
  // Ids are not negative: the same bits as unsigned numbers.
  const absl::Span<const uint64_t> ids(reinterpret_cast<const uint64_t*>(graph.neighbours.data()),
                                       graph.neighbours.size());
  return GhostNodes(ranks, blocks, RemoteOnes(blocks, ranks.rank(), ids));
}

}  // namespace

ShareRefiner::ShareRefiner(Ranks* ranks, const Blocks& blocks, SymmetricShare graph,
                           const NodeNeeds* needs, absl::Span<const std::string> dropped,
                           uint32_t num_parts, double imbalance, std::vector<uint32_t> part)
    : ranks_(ranks),
      graph_(std::move(graph)),
      needs_(needs),
      num_parts_(num_parts),
      ghosts_(GhostsOf(*ranks, blocks, graph_)),
      part_(std::move(part)),
      connection_(num_parts) {
  for (int64_t& neighbour : graph_.neighbours) {
    neighbour = static_cast<int64_t>(ghosts_.PlaceOf(static_cast<uint64_t>(neighbour)));
  }
  part_.resize(ghosts_.num_places());
  limit_of_constraint_.assign(needs->constraints().size(), kNodes);
  for (size_t c = 0; c < needs->constraints().size(); ++c) {
    if (!dropped[c].empty()) continue;
    limit_of_constraint_[c] = limits_.size();
    limits_.push_back({c, needs->constraints()[c].Limit(imbalance, num_parts)});
  }
  if (limits_.empty()) {
    BalanceConstraint nodes;
    nodes.total = blocks.total();
    nodes.heaviest = 1;
    limits_.push_back({kNodes, nodes.Limit(imbalance, num_parts)});
  }
  delta_.resize(limits_.size() * num_parts_);
  room_.resize(delta_.size());
  ghosts_.Refresh(*ranks_, absl::MakeSpan(part_));
  CountLoads();
}

ShareRefiner::Burdens ShareRefiner::BurdensOf(uint64_t own) const {
  Burdens burdens;
  if (limits_[0].constraint == kNodes) {
    burdens.items[burdens.count++] = {0, 1};
    return burdens;
  }
  const NodeNeeds::Pair& pair = needs_->ConstraintsOf(own);
  for (size_t i = 0; i < pair.count; ++i) {
    const size_t limit = limit_of_constraint_[pair.constraint[i]];
    if (limit == kNodes) continue;
    const uint64_t weight = needs_->Weight(own, pair.constraint[i]);
    if (weight > 0) burdens.items[burdens.count++] = {limit, weight};
  }
  return burdens;
}

void ShareRefiner::CountLoads() {
  load_.assign(limits_.size() * num_parts_, 0);
  for (uint64_t own = 0; own < ghosts_.num_own(); ++own) {
    for (const auto [limit, weight] : BurdensOf(own)) Load(limit, part_[own]) += weight;
  }
  ranks_->Sum(absl::MakeSpan(load_));
}

void ShareRefiner::DealRoom(uint32_t round) {
  const uint32_t ranks = ranks_->size();
  // Two rounds of shares, one of a single rank.
  const bool single = round % 3 == 2;
  const bool mine = round / 3 % ranks == ranks_->rank();
  for (size_t l = 0; l < limits_.size(); ++l) {
    for (uint32_t p = 0; p < num_parts_; ++p) {
      const uint64_t load = Load(l, p);
      const uint64_t room = load < limits_[l].most ? limits_[l].most - load : 0;
      if (single) {
        Room(l, p) = mine ? room : 0;
      } else {
        const uint64_t turn = (uint64_t{ranks_->rank()} + round + p) % ranks;
        Room(l, p) = room / ranks + (turn < room % ranks ? 1 : 0);
      }
    }
  }
}

bool ShareRefiner::HasRoom(const Burdens& burdens, uint32_t part) const {
  for (const auto [limit, weight] : burdens) {
    if (weight > room_[limit * num_parts_ + part]) return false;
  }
  return true;
}

void ShareRefiner::Move(uint64_t own, uint32_t to) {
  const uint32_t from = part_[own];
  for (const auto [limit, weight] : BurdensOf(own)) {
    Room(limit, to) -= std::min(weight, Room(limit, to));
    delta_[limit * num_parts_ + from] -= weight;
    delta_[limit * num_parts_ + to] += weight;
  }
  part_[own] = to;
}

void ShareRefiner::Connect(uint64_t own) {
  for (const uint32_t p : touched_) connection_[p] = 0;
  touched_.clear();
  for (int64_t at = graph_.offsets[own]; at < graph_.offsets[own + 1]; ++at) {
    const auto entry = static_cast<size_t>(at);
    const uint32_t p = part_[static_cast<size_t>(graph_.neighbours[entry])];
    if (connection_[p] == 0) touched_.push_back(p);
    connection_[p] += graph_.weight(entry);
  }
}

std::optional<uint32_t> ShareRefiner::BestTarget(uint64_t own, const Burdens& burdens,
                                                 int64_t& gain) {
  Connect(own);
  const uint32_t from = part_[own];
  std::optional<uint32_t> best;
  for (const uint32_t p : touched_) {
    if (p == from || !HasRoom(burdens, p)) continue;
    if (!best || connection_[p] > connection_[*best] ||
        (connection_[p] == connection_[*best] && p < *best)) {
      best = p;
    }
  }
  gain =
      static_cast<int64_t>(best ? connection_[*best] : 0) - static_cast<int64_t>(connection_[from]);
  return best;
}

void ShareRefiner::LowerCutOnce(bool upwards) {
  for (uint64_t own = 0; own < ghosts_.num_own(); ++own) {
    int64_t gain = 0;
    const std::optional<uint32_t> target = BestTarget(own, BurdensOf(own), gain);
    // In one direction only: neighbours on two ranks do not change places for ever.
    if (!target || gain <= 0 || (*target > part_[own]) != upwards) continue;
    Move(own, *target);
  }
}

void ShareRefiner::EndRound() {
  ranks_->Sum(absl::MakeSpan(delta_));
  for (size_t i = 0; i < load_.size(); ++i) load_[i] += delta_[i];
  std::fill(delta_.begin(), delta_.end(), 0);
  ghosts_.Refresh(*ranks_, absl::MakeSpan(part_));
}

void ShareRefiner::LowerCut() {
  constexpr uint32_t kPasses = 12;
  constexpr double kWorthIt = 0.999;
  uint64_t best = Cut();
  for (uint32_t pass = 0; pass < kPasses; ++pass) {
    const std::vector<uint32_t> before = part_;
    const std::vector<uint64_t> load_before = load_;
    for (const bool upwards : {true, false}) {
      DealRoom(3 * pass + (upwards ? 0 : 1));
      LowerCutOnce(upwards);
      EndRound();
    }
    const uint64_t now = Cut();
    if (now > best) {
      part_ = before;
      load_ = load_before;
      return;
    }
    const bool worth_it = static_cast<double>(now) < kWorthIt * static_cast<double>(best);
    best = now;
    if (!worth_it) return;
  }
}

uint64_t ShareRefiner::Cut() const {
  uint64_t ends = 0;
  for (uint64_t own = 0; own < ghosts_.num_own(); ++own) {
    for (int64_t at = graph_.offsets[own]; at < graph_.offsets[own + 1]; ++at) {
      const auto entry = static_cast<size_t>(at);
      if (part_[static_cast<size_t>(graph_.neighbours[entry])] != part_[own]) {
        ends += graph_.weight(entry);
      }
    }
  }
  return SumOfRanks(*ranks_, ends) / 2;
}

PartFigures ShareRefiner::Measure(absl::Span<const uint64_t> in_degrees, uint32_t group) const {
  const uint32_t num_groups = num_parts_ / group;
  PartFigures figures;
  std::vector<uint64_t> sums(2 * size_t{num_groups} + 2);
  std::vector<uint64_t> seen_by(num_groups, UINT64_MAX);
  for (uint64_t own = 0; own < ghosts_.num_own(); ++own) {
    const uint32_t p = part_[own] / group;
    ++sums[p];
    sums[num_groups + p] += in_degrees[own];
    for (int64_t at = graph_.offsets[own]; at < graph_.offsets[own + 1]; ++at) {
      const auto entry = static_cast<size_t>(at);
      const uint32_t other = part_[static_cast<size_t>(graph_.neighbours[entry])] / group;
      if (other == p) continue;
      sums[2 * size_t{num_groups}] += graph_.weight(entry);
      sums.back() += std::exchange(seen_by[other], own) != own ? 1 : 0;
    }
  }
  ranks_->Sum(absl::MakeSpan(sums));
  figures.nodes_of_part.assign(sums.begin(), sums.begin() + num_groups);
  figures.edges_of_part.assign(sums.begin() + num_groups, sums.begin() + 2 * num_groups);
  figures.cut_edges = sums[2 * size_t{num_groups}] / 2;
  figures.volume = sums.back();
  return figures;
}

}  // namespace packhouse

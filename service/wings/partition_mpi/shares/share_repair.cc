// The moves of ShareRefiner that mend balance.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>

#include "service/wings/partition_mpi/shares/share_refiner.h"

namespace packhouse {

double ShareRefiner::Excess() const {
  double excess = 0;
  for (size_t l = 0; l < limits_.size(); ++l) {
    const auto most = static_cast<double>(std::max<uint64_t>(limits_[l].most, 1));
    for (uint32_t p = 0; p < num_parts_; ++p) {
      if (Load(l, p) > limits_[l].most) {
        excess += static_cast<double>(Load(l, p) - limits_[l].most) / most;
      }
    }
  }
  return excess;
}

std::vector<std::vector<uint32_t>> ShareRefiner::EmptiestParts() const {
  std::vector<std::vector<uint32_t>> by_limit;
  for (size_t l = 0; l < limits_.size(); ++l) {
    std::vector<uint32_t> parts(num_parts_);
    std::iota(parts.begin(), parts.end(), 0);
    std::sort(parts.begin(), parts.end(), [this, l](uint32_t a, uint32_t b) {
      return Load(l, a) != Load(l, b) ? Load(l, a) < Load(l, b) : a < b;
    });
    by_limit.push_back(std::move(parts));
  }
  return by_limit;
}

std::vector<uint64_t> ShareRefiner::WantedOut() const {
  const auto excess = [this](size_t limit, uint32_t part) {
    const uint64_t load = Load(limit, part);
    return load > limits_[limit].most ? load - limits_[limit].most : 0;
  };
  // A hub that weighs more than what is too much stays; the others share what has to go.
  std::vector<uint64_t> own_load(load_.size());
  for (uint64_t own = 0; own < ghosts_.num_own(); ++own) {
    for (const auto [limit, weight] : BurdensOf(own)) {
      if (weight <= excess(limit, part_[own])) own_load[limit * num_parts_ + part_[own]] += weight;
    }
  }
  std::vector<uint64_t> all_load = own_load;
  ranks_->Sum(absl::MakeSpan(all_load));
  std::vector<uint64_t> wanted(load_.size());
  for (size_t l = 0; l < limits_.size(); ++l) {
    for (uint32_t p = 0; p < num_parts_; ++p) {
      const size_t at = l * num_parts_ + p;
      if (excess(l, p) == 0) continue;
      // Where all of them are hubs, each rank tries.
      const double share =
          all_load[at] == 0 ? 1
                            : static_cast<double>(own_load[at]) / static_cast<double>(all_load[at]);
      wanted[at] = static_cast<uint64_t>(std::ceil(share * static_cast<double>(excess(l, p))));
    }
  }
  return wanted;
}

void ShareRefiner::MoveOutOfFullParts(std::vector<uint64_t>& wanted) {
  // A node looks at this many parts that it has no edges to.
  constexpr size_t kStrangers = 64;
  struct Candidate {
    double rank;  // What a unit of weight costs, negative.
    uint64_t own;
    size_t limit;
  };
  const std::vector<std::vector<uint32_t>> emptiest = EmptiestParts();
  const auto target_of = [&](uint64_t own, size_t limit, int64_t& gain) {
    const Burdens burdens = BurdensOf(own);
    std::optional<uint32_t> target = BestTarget(own, burdens, gain);
    if (target) return target;
    const size_t looks = std::min<size_t>(kStrangers, num_parts_);
    for (size_t i = 0; i < looks; ++i) {
      const uint32_t p = emptiest[limit][i];
      if (p == part_[own] || !HasRoom(burdens, p)) continue;
      target = p;
      break;
    }
    return target;
  };
  std::vector<Candidate> candidates;
  for (uint64_t own = 0; own < ghosts_.num_own(); ++own) {
    for (const auto [limit, weight] : BurdensOf(own)) {
      if (wanted[limit * num_parts_ + part_[own]] == 0) continue;
      int64_t gain = 0;
      if (!target_of(own, limit, gain)) continue;
      const auto value = static_cast<double>(gain);
      const auto by = static_cast<double>(weight);
      candidates.push_back({gain > 0 ? value * by : value / by, own, limit});
    }
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    if (a.rank != b.rank) return a.rank > b.rank;
    return a.own != b.own ? a.own < b.own : a.limit < b.limit;
  });
  for (const Candidate& candidate : candidates) {
    const uint32_t from = part_[candidate.own];
    if (wanted[candidate.limit * num_parts_ + from] == 0) continue;
    int64_t gain = 0;
    const std::optional<uint32_t> target = target_of(candidate.own, candidate.limit, gain);
    if (!target) continue;
    for (const auto [limit, weight] : BurdensOf(candidate.own)) {
      uint64_t& left = wanted[limit * num_parts_ + from];
      left -= std::min(left, weight);
    }
    Move(candidate.own, *target);
  }
}

void ShareRefiner::MoveLightNodesOut(std::vector<uint64_t>& wanted) {
  struct Light {
    uint64_t edges;
    uint64_t own;
    size_t limit;

    bool operator<(const Light& other) const {
      return std::tie(edges, own) < std::tie(other.edges, other.own);
    }
  };
  std::vector<Light> nodes;
  for (uint64_t own = 0; own < ghosts_.num_own(); ++own) {
    const Burdens burdens = BurdensOf(own);
    // Numbers come first. A node that bears nothing else has found room where there is any.
    if (burdens.count != 2) continue;
    const size_t limit = burdens.items[0].limit;
    if (wanted[limit * num_parts_ + part_[own]] > 0) {
      nodes.push_back({burdens.items[1].weight, own, limit});
    }
  }
  if (nodes.empty()) return;
  std::sort(nodes.begin(), nodes.end());
  const std::vector<std::vector<uint32_t>> emptiest = EmptiestParts();
  for (const Light& node : nodes) {
    uint64_t& left = wanted[node.limit * num_parts_ + part_[node.own]];
    if (left == 0) continue;
    for (const uint32_t to : emptiest[node.limit]) {
      if (to == part_[node.own] || Room(node.limit, to) == 0) continue;
      --left;
      Move(node.own, to);
      break;
    }
  }
}

void ShareRefiner::SwapOutOfFullParts(std::vector<uint64_t>& wanted) {
  if (limits_[0].constraint == kNodes) return;
  for (size_t l = 0; l < limits_.size(); ++l) {
    const auto first = wanted.begin() + static_cast<ptrdiff_t>(l * num_parts_);
    const bool any = std::any_of(first, first + num_parts_, [](uint64_t out) { return out > 0; });
    if (any && needs_->constraints()[limits_[l].constraint].degree) SwapOfClass(l, wanted);
  }
}

void ShareRefiner::SwapOfClass(size_t limit, std::vector<uint64_t>& wanted) {
  struct Member {
    uint32_t part;
    uint64_t weight;
    uint64_t own;

    bool operator<(const Member& other) const {
      return std::tie(part, weight, own) < std::tie(other.part, other.weight, other.own);
    }
  };
  const size_t constraint = limits_[limit].constraint;
  std::vector<Member> members;
  for (uint64_t own = 0; own < ghosts_.num_own(); ++own) {
    const NodeNeeds::Pair& pair = needs_->ConstraintsOf(own);
    if (pair.count != 2 || pair.constraint[1] != constraint) continue;
    members.push_back({part_[own], needs_->Weight(own, constraint), own});
  }
  std::sort(members.begin(), members.end());
  std::vector<bool> moved(members.size());
  const std::vector<uint32_t> emptiest = EmptiestParts()[limit];
  // One of the class in part `to`, lighter than `weight` by no more than there is room for and by
  // as much as it can be.
  const auto partner_of = [&](uint64_t weight, uint32_t to) {
    const uint64_t room = Room(limit, to);
    const uint64_t least = weight - std::min(room, weight);
    auto at = std::lower_bound(members.begin(), members.end(), Member{to, least, 0});
    for (; at != members.end() && at->part == to && at->weight < weight; ++at) {
      if (!moved[static_cast<size_t>(at - members.begin())]) return at;
    }
    return members.end();
  };
  // The heaviest first.
  for (size_t i = members.size(); i-- > 0;) {
    const Member& leaving = members[i];
    uint64_t& left = wanted[limit * num_parts_ + leaving.part];
    if (left == 0 || moved[i] || leaving.weight == 0) continue;
    Connect(leaving.own);
    std::vector<uint32_t> targets(touched_.begin(), touched_.end());
    std::sort(targets.begin(), targets.end(), [this](uint32_t a, uint32_t b) {
      return connection_[a] != connection_[b] ? connection_[a] > connection_[b] : a < b;
    });
    constexpr size_t kStrangers = 4;
    targets.insert(
        targets.end(), emptiest.begin(),
        emptiest.begin() + static_cast<ptrdiff_t>(std::min<size_t>(kStrangers, emptiest.size())));
    for (const uint32_t to : targets) {
      if (to == leaving.part || Room(limit, to) == 0) continue;
      const auto coming = partner_of(leaving.weight, to);
      if (coming == members.end()) continue;
      const uint64_t less = leaving.weight - coming->weight;
      moved[i] = moved[static_cast<size_t>(coming - members.begin())] = true;
      std::swap(part_[leaving.own], part_[coming->own]);
      Room(limit, to) -= less;
      delta_[limit * num_parts_ + leaving.part] -= less;
      delta_[limit * num_parts_ + to] += less;
      left -= std::min(left, less);
      break;
    }
  }
}

bool ShareRefiner::RepairBalance() {
  constexpr uint32_t kRounds = 24;
  constexpr uint32_t kFruitless = 6;
  double best = Excess();
  std::vector<uint32_t> kept = part_;
  uint32_t fruitless = 0;
  for (uint32_t round = 0; round < kRounds && best > 0 && fruitless < kFruitless; ++round) {
    DealRoom(round);
    std::vector<uint64_t> wanted = WantedOut();
    MoveOutOfFullParts(wanted);
    MoveLightNodesOut(wanted);
    SwapOutOfFullParts(wanted);
    EndRound();
    const double now = Excess();
    ++fruitless;
    if (now >= best) continue;
    fruitless = 0;
    best = now;
    kept = part_;
  }
  part_ = std::move(kept);
  CountLoads();
  return best <= 0;
}

void ShareRefiner::FillEmptyParts() {
  if (SumOfRanks(*ranks_, ghosts_.num_own()) < num_parts_) return;
  std::vector<uint64_t> own_nodes(num_parts_);
  for (uint64_t own = 0; own < ghosts_.num_own(); ++own) ++own_nodes[part_[own]];
  std::vector<uint64_t> nodes = own_nodes;
  ranks_->Sum(absl::MakeSpan(nodes));
  if (std::count(nodes.begin(), nodes.end(), uint64_t{0}) == 0) return;
  for (uint32_t empty = 0; empty < num_parts_; ++empty) {
    if (nodes[empty] > 0) continue;
    const auto donor =
        static_cast<uint32_t>(std::max_element(nodes.begin(), nodes.end()) - nodes.begin());
    // The rank with most of the donor's nodes, the first of several, gives one with fewest edges.
    const uint64_t most = MaxOfRanks(*ranks_, own_nodes[donor]);
    const bool may = own_nodes[donor] == most;
    const uint64_t first =
        MaxOfRanks(*ranks_, may ? uint64_t{ranks_->size()} - ranks_->rank() : uint64_t{0});
    if (may && first == uint64_t{ranks_->size()} - ranks_->rank()) {
      std::optional<uint64_t> given;
      const auto degree = [this](uint64_t own) {
        return graph_.offsets[own + 1] - graph_.offsets[own];
      };
      for (uint64_t own = 0; own < ghosts_.num_own(); ++own) {
        if (part_[own] == donor && (!given || degree(own) < degree(*given))) given = own;
      }
      Move(*given, empty);
      --own_nodes[donor];
      ++own_nodes[empty];
    }
    --nodes[donor];
    ++nodes[empty];
  }
  EndRound();
}

}  // namespace packhouse

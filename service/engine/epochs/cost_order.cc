#include "service/engine/epochs/cost_order.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/numeric/bits.h"
#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "service/algorithms/planning/device_profile.h"
#include "service/algorithms/planning/limits.h"
#include "service/algorithms/planning/step_order.h"
#include "service/base/checked_arithmetic.h"
#include "service/base/seeded_random.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/dealing.h"
#include "service/engine/epochs/item_sizes.h"

namespace packhouse {
namespace {

constexpr absl::string_view kCosts = "; costs ";
constexpr absl::string_view kOfNextGroup = " | ";

bool IsOfDevices(const EpochRequest& request) {
  return request.cost_balanced && !request.cost_balanced->cost;
}

absl::StatusOr<BatchCost> CostOfDevice(const DeviceProfile& device) {
  std::vector<CostTerm> terms;
  for (size_t k = 0; k < device.components.size(); ++k) {
    const ComponentProfile& component = device.components[k];
    if (component.max_rows == 0 || component.relative_cost == 0) continue;
    terms.push_back({CostForm::kRows, k, component.relative_cost});
  }
  if (device.fixed_cost > 0) terms.push_back({CostForm::kBatch, 0, device.fixed_cost});
  return BatchCost::Create(std::move(terms), device.components.size() - 1);
}

// By rank group, as they were when the epoch was begun, or are now.
absl::StatusOr<std::vector<BatchCost>> CostsOfDevices(const EpochRequest& request) {
  if (!request.cost_balanced->begun.empty()) return request.cost_balanced->begun;
  std::vector<BatchCost> costs;
  for (size_t i = 0; i < request.rank_groups.size(); ++i) {
    const RankGroupRequest& rank_group = request.rank_groups[i];
    if (!rank_group.device) {
      return absl::InvalidArgumentError(absl::StrCat(
          "order.cost_balanced: without terms, costs are those of devices, and rank group ", i,
          " has no device profile"));
    }
    PH_ASSIGN_OR_RETURN(BatchCost cost, CostOfDevice(rank_group.measured ? *rank_group.measured
                                                                         : *rank_group.device));
    costs.push_back(std::move(cost));
  }
  return costs;
}

// The batches of rank groups that follow each other.
template <typename Cost>
std::vector<BatchesOfRanks<Cost>> ByRankGroup(const std::vector<Cost>& costs,
                                              const std::vector<uint64_t>& first_batches,
                                              const std::vector<uint32_t>& num_ranks,
                                              const std::vector<uint32_t>& num_first = {}) {
  std::vector<BatchesOfRanks<Cost>> groups;
  for (size_t i = 0; i < num_ranks.size(); ++i) {
    groups.push_back({absl::MakeConstSpan(costs).subspan(first_batches[i],
                                                         first_batches[i + 1] - first_batches[i]),
                      num_ranks[i], num_first.empty() ? 0 : num_first[i]});
  }
  return groups;
}

}  // namespace

absl::Status CheckCostOrder(const EpochRequest& request) {
  if (!request.cost_balanced) return absl::OkStatus();
  for (size_t i = 0; i < request.rank_groups.size(); ++i) {
    const uint32_t num_ranks = request.rank_groups[i].num_ranks;
    if (num_ranks != 0 && num_ranks <= Sharing::kMaxRanks) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "order.cost_balanced: rank group ", i, " has ", num_ranks, " ranks, must be 1 to ",
        Sharing::kMaxRanks, ": so many batches of like cost share a step (num_ranks)"));
  }
  return IsOfDevices(request) ? CostsOfDevices(request).status() : absl::OkStatus();
}

std::string DeviceCostWords(const EpochRequest& request) {
  if (!IsOfDevices(request)) return "";
  const auto costs = CostsOfDevices(request);
  if (!costs.ok()) return "";  // CheckCostOrder() says why.
  return absl::StrCat(
      kCosts, absl::StrJoin(*costs, kOfNextGroup, [](std::string* out, const BatchCost& cost) {
        absl::StrAppend(out, cost.Words());
      }));
}

void KeepCosts(const EpochIdentity& begun, EpochRequest& request) {
  if (!IsOfDevices(request)) return;
  const absl::string_view options = begun.options;
  const size_t found = options.find(kCosts);
  if (found == absl::string_view::npos) return;
  absl::string_view words = options.substr(found + kCosts.size());
  words = words.substr(0, words.find(';'));
  std::vector<BatchCost> costs;
  for (const absl::string_view each : absl::StrSplit(words, kOfNextGroup)) {
    const size_t i = costs.size();
    if (i == request.rank_groups.size() || !request.rank_groups[i].device) return;
    std::optional<BatchCost> cost =
        BatchCost::FromWords(each, request.rank_groups[i].device->components.size() - 1);
    if (!cost) return;
    costs.push_back(*std::move(cost));
  }
  if (costs.size() == request.rank_groups.size()) request.cost_balanced->begun = std::move(costs);
}

void BeginAt(absl::Span<const uint64_t> first_batches, EpochRequest& request) {
  if (!request.cost_balanced) return;
  // Rank groups may come to the part at different steps: at this one all are there.
  uint64_t first_step = 0;
  for (size_t i = 0; i < first_batches.size(); ++i) {
    const uint32_t num_ranks = request.rank_groups[i].num_ranks;
    first_step = std::max(first_step, (first_batches[i] + num_ranks - 1) / num_ranks);
  }
  for (size_t i = 0; i < first_batches.size(); ++i) {
    const uint64_t before = first_step * request.rank_groups[i].num_ranks - first_batches[i];
    request.cost_balanced->num_first.push_back(
        static_cast<uint32_t>(std::min<uint64_t>(before, UINT32_MAX)));
  }
}

void AddGraph(absl::Span<const uint32_t> sizes, absl::Span<uint64_t> rows,
              absl::Span<uint64_t> squares) {
  AddRows(sizes, 1, rows);
  for (size_t k = 0; k < squares.size(); ++k) {
    squares[k] = CheckedAdd(squares[k], uint64_t{sizes[k]} * sizes[k]).value_or(UINT64_MAX);
  }
}

CostOrder::CostOrder(const EpochRequest& request)
    : num_ranks_(request.NumRanks()),
      num_first_(request.cost_balanced->num_first),
      counts_padding_(IsOfDevices(request)) {
  costs_ = counts_padding_
               ? CostsOfDevices(request).value()
               : std::vector<BatchCost>(num_ranks_.size(), *request.cost_balanced->cost);
}

absl::StatusOr<std::vector<uint64_t>> CostOrder::CostsOf(const EpochShapes& shapes, AddItem add,
                                                         const Making& making,
                                                         const EpochBatches& batches) const {
  const size_t num_components = shapes.rank_group(0)[0].capacities.size();
  std::vector<uint64_t> rows(num_components);
  std::vector<uint64_t> squares(costs_[0].has_squares() ? num_components - 1 : 0);
  std::vector<absl::uint128> exact(batches.num_batches());
  absl::uint128 largest = 0;
  size_t num_items = 0;
  size_t rank_group = 0;
  for (size_t b = 0; b < exact.size(); ++b) {
    while (b >= batches.first_batches()[rank_group + 1]) ++rank_group;
    std::fill(rows.begin(), rows.end(), 0);
    std::fill(squares.begin(), squares.end(), 0);
    for (const uint32_t item : batches.batch(b)) {
      PH_RETURN_IF_ERROR(making.StillWantedAt(num_items++));
      add(item, absl::MakeSpan(rows), absl::MakeSpan(squares));
    }
    if (counts_padding_) {
      const BatchShape& shape = shapes.rank_group(rank_group)[shapes.ShapeFor(rank_group, rows)];
      for (size_t k = 0; k < num_components && shape.layout.is_fixed(); ++k) {
        if (shape.capacities[k] != kUnlimited) rows[k] = shape.capacities[k];
      }
    }
    exact[b] = costs_[rank_group].Of(rows, squares);
    largest = std::max(largest, exact[b]);
  }
  // To 64 bits.
  const uint64_t high = absl::Uint128High64(largest);
  const int shift = high == 0 ? 0 : 64 - absl::countl_zero(high);
  std::vector<uint64_t> costs;
  costs.reserve(exact.size());
  for (const absl::uint128 cost : exact) costs.push_back(static_cast<uint64_t>(cost >> shift));
  return costs;
}

absl::Status CostOrder::Order(const EpochShapes& shapes, AddItem add, const EpochSeed& seed,
                              const Making& making, EpochBatches& batches) const {
  const size_t n = batches.num_batches();
  constexpr uint64_t kBytesOfBatch = sizeof(absl::uint128) + 2 * sizeof(uint64_t) + 8;
  PH_ASSIGN_OR_RETURN(const MemoryHold memory,
                      making.Hold(absl::StrCat("steps of like cost of ", n, " batches"),
                                  sizeof(uint32_t) * batches.num_items() + kBytesOfBatch * n));
  PH_ASSIGN_OR_RETURN(const std::vector<uint64_t> costs, CostsOf(shapes, add, making, batches));
  SeededRandom random(SequenceStart(seed, DrawPurpose::kSteps));
  const auto orders =
      OrderByCost(ByRankGroup(costs, batches.first_batches(), num_ranks_, num_first_), random);
  std::vector<uint32_t> items;
  items.reserve(batches.num_items());
  std::vector<uint32_t> starts = {0};
  starts.reserve(n + 1);
  for (size_t i = 0; i < orders.size(); ++i) {
    for (const uint32_t number : orders[i]) {
      PH_RETURN_IF_ERROR(making.StillWantedAt(starts.size()));
      const auto batch = batches.batch(batches.first_batches()[i] + number);
      items.insert(items.end(), batch.begin(), batch.end());
      starts.push_back(static_cast<uint32_t>(items.size()));
    }
  }
  batches.SetItems([&](size_t b) {
    return absl::MakeConstSpan(items).subspan(starts[b], starts[b + 1] - starts[b]);
  });
  return absl::OkStatus();
}

absl::StatusOr<StepFigures> CostOrder::Figures(const EpochShapes& shapes, AddItem add,
                                               const EpochSeed& seed, const Making& making,
                                               const EpochBatches& batches) const {
  const size_t n = batches.num_batches();
  PH_ASSIGN_OR_RETURN(const MemoryHold memory,
                      making.Hold(absl::StrCat("efficiency of steps of ", n, " batches"),
                                  (sizeof(absl::uint128) + 2 * sizeof(uint64_t)) * n));
  PH_ASSIGN_OR_RETURN(const std::vector<uint64_t> costs, CostsOf(shapes, add, making, batches));
  std::vector<double> shares;
  shares.reserve(n);
  for (const auto& group : ByRankGroup(costs, batches.first_batches(), num_ranks_)) {
    const double sum = std::accumulate(group.costs.begin(), group.costs.end(), 0.0);
    const double mean = sum > 0 ? sum / static_cast<double>(group.costs.size()) : 1;
    for (const uint64_t cost : group.costs) shares.push_back(static_cast<double>(cost) / mean);
  }
  StepFigures figures;
  figures.num_ranks = num_ranks_;
  const auto efficiency = [&] {
    return StepEfficiency(ByRankGroup(shares, batches.first_batches(), num_ranks_));
  };
  figures.efficiency = efficiency();
  SeededRandom random(SequenceStart(seed, DrawPurpose::kShuffledSteps));
  for (size_t i = 0; i < num_ranks_.size(); ++i) {
    const uint64_t first = batches.first_batches()[i];
    const auto group =
        absl::MakeSpan(shares).subspan(first, batches.first_batches()[i + 1] - first);
    PH_RETURN_IF_ERROR(Shuffle(group, random, making));
  }
  figures.of_shuffle = efficiency();
  return figures;
}

}  // namespace packhouse

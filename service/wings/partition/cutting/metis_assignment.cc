#include "service/wings/partition/cutting/metis_assignment.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "service/base/status_macros.h"
#include "service/wings/partition/cutting/best_parts.h"
#include "service/wings/partition/cutting/refinement.h"
#include "service/wings/partition/cutting/simple_parts.h"
#include "service/wings/partition/cutting/symmetric_graph.h"

namespace packhouse {
namespace {

constexpr uint32_t kBestCalls = 6;
constexpr uint64_t kMetisMost = INT32_MAX;  // Debian's METIS counts in 32 bits.

// A result of one call, and how good it is.
struct Rated {
  std::vector<uint32_t> part;
  bool met = false;
  double excess = 0;
  uint64_t objective = 0;
  std::vector<double> excess_of;  // By active constraint.

  bool IsBetterThan(const Rated& other) const {
    if (met != other.met) return met;
    if (!met && excess != other.excess) return excess < other.excess;
    return objective < other.objective;
  }
};

class MetisRun {
 public:
  MetisRun(const HomogeneousGraph& graph, const BalanceTerms& terms,
           const PartitionOptions& options, uint32_t num_parts, AssignmentEngine& engine,
           const PartitionWatch& watch)
      : graph_(graph),
        terms_(terms),
        options_(options),
        num_parts_(num_parts),
        engine_(engine),
        watch_(watch) {}

  absl::StatusOr<MetisParts> Run() {
    PH_ASSIGN_OR_RETURN(symmetric_, Symmetrize(graph_, &engine_, watch_, options_.weights.edges));
    if (symmetric_.rounded_by > 1) {
      notes_.push_back(absl::StrCat("weights of edges were divided by ", symmetric_.rounded_by,
                                    " and rounded up: METIS adds up to 2^31"));
    }
    PrepareSizes();
    for (const BalanceConstraint& constraint : terms_.constraints()) {
      dropped_.push_back(WhyHopeless(constraint, num_parts_));
    }
    while (true) {
      PrepareWeights();
      PH_ASSIGN_OR_RETURN(Rated best, Attempt(FirstAttempts()));
      if (!best.met) {
        notes_.push_back(absl::StrCat("METIS's parts missed the balance of ", WorstName(best),
                                      " by a factor of ", best.excess, "; it was called again"));
        const absl::StatusOr<Rated> again = Attempt(LaterAttempts());
        if (absl::IsCancelled(again.status())) return again.status();
        if (again.ok() && again->IsBetterThan(best)) best = *again;
      }
      if (best.met || active_.size() <= 1) {
        return MetisParts{std::move(best.part), std::move(dropped_), std::move(notes_)};
      }
      const size_t worst = WorstOf(best);
      dropped_[active_[worst]] = absl::StrCat(
          "no attempt met it: the best exceeds it by a factor of ", best.excess_of[worst]);
    }
  }

 private:
  // METIS adds them up for each part, and so stays below their sum.
  void PrepareSizes() {
    const std::vector<uint64_t>& sizes = options_.weights.sizes;
    uint64_t largest = 1;
    for (const uint64_t size : sizes) largest = std::max(largest, size);
    // A node has at most one copy for each end of an edge.
    const uint64_t most = kMetisMost / std::max<uint64_t>(symmetric_.num_entries(), 1);
    int shift = 0;
    while (shift < 63 && (largest >> shift) >= std::max<uint64_t>(most, 2)) ++shift;
    for (const uint64_t size : sizes) {
      sizes_.push_back(size == 0 ? 0 : static_cast<uint32_t>(((size - 1) >> shift) + 1));
    }
    if (shift > 0) {
      notes_.push_back(absl::StrCat("sizes of nodes were divided by ", uint64_t{1} << shift,
                                    " and rounded up: METIS adds up to 2^31"));
    }
  }

  // The columns of weights of the constraints that are still asked for; without any, each node
  // weighs 1.
  void PrepareWeights() {
    active_.clear();
    for (size_t c = 0; c < dropped_.size(); ++c) {
      if (dropped_[c].empty()) active_.push_back(c);
    }
    const size_t columns = std::max<size_t>(active_.size(), 1);
    weights_.assign(graph_.num_nodes() * columns, active_.empty() ? 1 : 0);
    limits_ = {num_parts_, {}};
    imbalance_.clear();
    if (active_.empty()) {
      BalanceConstraint nodes;
      nodes.total = graph_.num_nodes();
      nodes.heaviest = 1;
      AddLimit(nodes, 0);
    }
    for (size_t column = 0; column < active_.size(); ++column) {
      const BalanceConstraint& constraint = terms_.constraints()[active_[column]];
      // Sums must stay in METIS's range.
      int shift = 0;
      while (((constraint.total >> shift) + constraint.bearers) > kMetisMost) ++shift;
      for (uint32_t node = 0; node < graph_.num_nodes(); ++node) {
        const uint64_t weight = terms_.Weight(node, active_[column]);
        if (weight > 0) {
          weights_[node * columns + column] = static_cast<uint32_t>(((weight - 1) >> shift) + 1);
        }
      }
      AddLimit(constraint, shift);
    }
    view_ = {symmetric_.offsets,
             symmetric_.neighbours_view(),
             symmetric_.weights_view(),
             weights_,
             columns,
             sizes_};
  }

  void AddLimit(const BalanceConstraint& constraint, int shift) {
    const uint64_t limit = constraint.Limit(options_.imbalance, num_parts_);
    limits_.limit.push_back(std::max<uint64_t>(limit >> shift, 1));
    imbalance_.push_back(std::max(options_.imbalance, static_cast<double>(limit) * num_parts_ /
                                                          static_cast<double>(constraint.total)));
  }

  std::vector<EngineAttempt> FirstAttempts() const {
    const uint32_t seed = EngineSeed(options_.seed);
    std::vector<EngineAttempt> attempts = {{options_.scheme, PartObjective::kCut, seed}};
    if (options_.quality == PartQuality::kBest) {
      for (uint32_t more = 1; more < kBestCalls; ++more) {
        attempts.push_back({more % 3 == 0 ? PartScheme::kRecursive : PartScheme::kKWay,
                            PartObjective::kCut, seed + more});
      }
    }
    if (options_.objective == PartObjective::kVolume) {
      attempts.push_back({PartScheme::kKWay, PartObjective::kVolume, seed});
    }
    return attempts;
  }

  std::vector<EngineAttempt> LaterAttempts() const {
    const uint32_t seed = EngineSeed(options_.seed);
    return {{PartScheme::kKWay, PartObjective::kCut, seed + 1},
            {PartScheme::kRecursive, PartObjective::kCut, seed},
            {PartScheme::kRecursive, PartObjective::kCut, seed + 1}};
  }

  // The best of the attempts; the first error if all of them fail.
  absl::StatusOr<Rated> Attempt(const std::vector<EngineAttempt>& attempts) {
    watch_.Tell(PartitionPhase::kAssigning, 0);
    const EngineProblem problem{.num_nodes = graph_.num_nodes(),
                                .offsets = symmetric_.offsets,
                                .neighbours = symmetric_.neighbours.get(),
                                .weights = symmetric_.weights.get(),
                                .node_weights = weights_,
                                .num_constraints = static_cast<uint32_t>(view_.num_constraints),
                                .num_parts = num_parts_,
                                .node_sizes = sizes_,
                                .imbalance = imbalance_};
    const auto parallel = std::min<uint32_t>(std::max<uint32_t>(options_.parallel, 1),
                                             static_cast<uint32_t>(attempts.size()));
    std::vector<absl::StatusOr<std::vector<uint32_t>>> results =
        engine_.Run(problem, attempts,
                    {.memory_bytes = options_.memory_bytes / parallel,
                     .time_limit = options_.time_limit,
                     .parallel = parallel},
                    watch_.cancelled);
    watch_.Tell(PartitionPhase::kAssigning, 1);
    std::optional<Rated> best;
    std::vector<std::vector<uint32_t>> found;
    for (absl::StatusOr<std::vector<uint32_t>>& result : results) {
      if (absl::IsCancelled(result.status())) return result.status();
      if (!result.ok()) {
        notes_.push_back(absl::StrCat("one of METIS's calls failed: ", result.status().message()));
        continue;
      }
      Rated rated = Rate(*std::move(result));
      if (options_.quality == PartQuality::kBest) found.push_back(rated.part);
      if (!best.has_value() || rated.IsBetterThan(*best)) best = std::move(rated);
    }
    if (!best.has_value()) return results.front().status();
    if (options_.quality == PartQuality::kBest) {
      // On graphs of hubs a stream may cut far less than METIS.
      PH_ASSIGN_OR_RETURN(
          std::vector<uint32_t> streamed,
          StreamParts(graph_, terms_, options_.weights.edges, dropped_, options_.imbalance,
                      num_parts_, options_.seed, {watch_.cancelled, nullptr}));
      Rated stream = Rate(std::move(streamed));
      found.push_back(stream.part);
      if (stream.IsBetterThan(*best)) best = std::move(stream);
      Rated joined = Rate(JoinParts(view_, limits_, std::move(found), options_.seed, watch_));
      if (watch_.IsCancelled()) return absl::CancelledError("partitioning was cancelled");
      if (joined.IsBetterThan(*best)) return joined;
    }
    return *std::move(best);
  }

  Rated Rate(std::vector<uint32_t> part) {
    Rated rated;
    rated.met = IsMet(part) || RepairBalance(view_, limits_, absl::MakeSpan(part));
    const PartLoads loads(&view_, &limits_, part);
    rated.excess = loads.Excess();
    for (size_t c = 0; c < active_.size(); ++c) rated.excess_of.push_back(loads.Excess(c));
    rated.objective = options_.objective == PartObjective::kCut ? CutOf(view_, part)
                                                                : VolumeOf(view_, part, num_parts_);
    rated.part = std::move(part);
    return rated;
  }

  bool IsMet(absl::Span<const uint32_t> part) const {
    const PartLoads loads(&view_, &limits_, part);
    return loads.num_empty() == 0 && loads.Excess() <= 1;
  }

  static size_t WorstOf(const Rated& rated) {
    return static_cast<size_t>(std::max_element(rated.excess_of.begin(), rated.excess_of.end()) -
                               rated.excess_of.begin());
  }
  std::string WorstName(const Rated& rated) const {
    return active_.empty() ? "nodes" : terms_.constraints()[active_[WorstOf(rated)]].name;
  }

  const HomogeneousGraph& graph_;
  const BalanceTerms& terms_;
  const PartitionOptions& options_;
  const uint32_t num_parts_;
  AssignmentEngine& engine_;
  const PartitionWatch& watch_;

  SymmetricGraph symmetric_;
  std::vector<std::string> dropped_;  // By constraint: why, or empty.
  std::vector<std::string> notes_;
  std::vector<size_t> active_;  // Constraints that are asked for.
  std::vector<uint32_t> weights_;
  std::vector<uint32_t> sizes_;  // Empty: 1 each.
  std::vector<double> imbalance_;
  PartLimits limits_;
  WeightedGraph view_;
};

}  // namespace

uint64_t MetisBytes(const HomogeneousGraph& graph, size_t num_constraints) {
  constexpr uint64_t kEntry = 60;
  const uint64_t node = 160 + 24 * std::max<uint64_t>(num_constraints, 1);
  return 2 * graph.num_edges() * kEntry + graph.num_nodes() * node + (uint64_t{1} << 20);
}

absl::Status CheckMetisTakes(const HomogeneousGraph& graph, size_t num_constraints,
                             uint64_t memory_bytes) {
  if (2 * graph.num_edges() > kMetisMost) {
    return absl::OutOfRangeError(absl::StrCat("METIS counts an edge in both directions, up to ",
                                              kMetisMost, "; the graph has ", graph.num_edges(),
                                              " edges"));
  }
  if (graph.num_nodes() * std::max<uint64_t>(num_constraints, 1) > kMetisMost) {
    return absl::OutOfRangeError(absl::StrCat("METIS takes up to ", kMetisMost, " weights; ",
                                              graph.num_nodes(), " nodes with ", num_constraints,
                                              " constraints have more"));
  }
  const uint64_t bytes = MetisBytes(graph, num_constraints);
  if (memory_bytes != 0 && bytes > memory_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "METIS needs about ", bytes, " bytes for this graph, beyond the bound of ", memory_bytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<MetisParts> AssignByMetis(const HomogeneousGraph& graph, const BalanceTerms& terms,
                                         const PartitionOptions& options, uint32_t num_parts,
                                         AssignmentEngine& engine, const PartitionWatch& watch) {
  return MetisRun(graph, terms, options, num_parts, engine, watch).Run();
}

}  // namespace packhouse

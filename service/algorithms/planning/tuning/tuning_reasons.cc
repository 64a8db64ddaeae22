#include "service/algorithms/planning/tuning/tuning_reasons.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "service/algorithms/planning/limits.h"

namespace packhouse {
namespace {

std::string Percent(double share) { return absl::StrFormat("%.3g %%", 100 * share); }
// For shares near 1, where the distance from 1 counts.
std::string PercentOfWhole(double share) { return absl::StrFormat("%.3f %%", 100 * share); }
std::string Cost(double cost) {
  return cost < 1e15 ? absl::StrFormat("%.0f", cost) : absl::StrFormat("%.6g", cost);
}

class ReasonWriter {
 public:
  ReasonWriter(const TuneResult& result, const DeviceProfile& profile, const SizeSchema& schema,
               const SizeHistogram& graphs, const TuneOptions& options, const TuningFacts& facts)
      : result_(result),
        best_(result.single_shape),
        profile_(profile),
        schema_(schema),
        graphs_(graphs),
        options_(options),
        facts_(facts) {}

  std::vector<std::string> Write() {
    SayShapes();
    SaySingleShape();
    SayCheapest();
    SayProof();
    SayForced();
    SayMeasured();
    SayMemory();
    SaySmaller();
    SayOversize();
    return std::move(reasons_);
  }

 private:
  template <typename... Parts>
  void Say(const Parts&... parts) {
    reasons_.push_back(absl::StrCat(parts...));
  }

  bool ByMean() const { return options_.objective == TuneObjective::kHarmonicMean; }
  bool HasCost(size_t k) const {
    return profile_.components[k].max_rows != 0 && profile_.components[k].relative_cost > 0;
  }

  // The search's capacities are of real rows.
  uint64_t LaidOut(size_t k, uint64_t capacity) const {
    return capacity + profile_.components[k].reserved_rows;
  }

  // "nodes 353, edges 756, graphs 256".
  std::string Names(absl::Span<const uint64_t> capacities) const {
    std::vector<std::string> names;
    for (size_t k = 0; k < capacities.size(); ++k) {
      if (capacities[k] == kUnlimited) continue;
      names.push_back(absl::StrCat(schema_.name(k), " ", LaidOut(k, capacities[k])));
    }
    return absl::StrJoin(names, ", ");
  }

  void SayShapes() {
    if (profile_.max_distinct_shapes == 1) return;
    if (result_.shapes.size() == 1) {
      Say("No set of up to ", profile_.max_distinct_shapes,
          " shapes was found that costs noticeably less than one shape.");
      return;
    }
    Say(result_.shapes.size(), " shapes cost ", Cost(result_.epoch_cost), " an epoch, one shape ",
        Cost(best_.epoch_cost), ": ", Percent(1 - result_.epoch_cost / best_.epoch_cost), " less. ",
        result_.least_cost > 0
            ? absl::StrCat(Percent(result_.epoch_cost / result_.least_cost - 1),
                           " of that is more than the real rows, which no limits can undercut.")
            : "The real rows cost nothing.");
    uint64_t packs = 0;
    for (const TunedShape& shape : result_.shapes) packs += shape.packs;
    uint64_t forced = 0;
    for (size_t row = 0; row < graphs_.num_distinct(); ++row) {
      const auto tuple = graphs_.tuple(row);
      for (size_t k = 0; k < tuple.size(); ++k) {
        if (tuple[k] <= result_.shapes[1].capacities[k]) continue;
        forced += graphs_.count(row);
        break;
      }
    }
    Say(result_.shapes[0].packs, " of ", packs, " packs use the largest shape, ",
        Names(result_.shapes[0].capacities), "; graphs that fit no smaller one: ", forced, ".");
  }

  void SaySingleShape() {
    const std::string subject = result_.shapes.size() == 1 ? "" : "The best single shape: ";
    if (ByMean()) {
      Say(subject, best_.packs, " packs of ", Names(best_.capacities),
          " have a harmonic mean of efficiencies of ", PercentOfWhole(best_.harmonic_mean), ".");
    } else {
      const double least = result_.shapes.size() == 1
                               ? result_.least_cost
                               : std::min(result_.least_cost, best_.epoch_cost);
      Say(subject, best_.packs, " packs of ", Names(best_.capacities), " cost ",
          Cost(best_.epoch_cost), " an epoch, ", MoreThanRows(best_.epoch_cost, least));
    }
    if (best_.packs == best_.lower_bound) {
      Say("No plan for this shape has fewer packs: that is its bound by the ", facts_.bound_name,
          ".");
    } else {
      Say("A plan for this shape needs at least ", best_.lower_bound, " packs by the ",
          facts_.bound_name, "; ", best_.packs, " were found.");
    }
    SayWhatBinds();
  }

  // What comes after a cost; graphs may have no rows that cost anything.
  static std::string MoreThanRows(double cost, double of_rows) {
    if (of_rows <= 0) return "and the real rows cost nothing.";
    return absl::StrCat(Percent(cost / of_rows - 1),
                        " more than the real rows, which no limits can undercut.");
  }

  // Why the recommended shape is larger than the cheapest.
  void SayCheapest() {
    const TunedShape& cheapest = result_.cheapest_shape;
    if (cheapest.packs == best_.packs || ByMean()) return;
    const double saved = best_.epoch_cost > 0 ? 1 - cheapest.epoch_cost / best_.epoch_cost : 0;
    Say("Shapes that cost at most ", Percent(options_.equal_cost),
        " more than the cheapest count as equal, and of these one with the fewest packs is "
        "recommended, since a step costs a device something whatever its batch holds: the "
        "cheapest, ",
        Names(cheapest.capacities), ", needs ", cheapest.packs, " packs and saves ",
        saved > 0 ? Percent(saved) : "nothing",
        ". The profile's fixed_cost says what a step costs.");
  }

  // Packs that are needed only because of a component without a cost.
  void SayWhatBinds() {
    uint64_t costed = 1;
    for (size_t k = 0; k < best_.capacities.size(); ++k) {
      if (HasCost(k)) costed = std::max(costed, LeastPacks(k));
    }
    for (size_t k = 0; k < best_.capacities.size(); ++k) {
      if (HasCost(k) || best_.capacities[k] == kUnlimited || LeastPacks(k) <= costed) continue;
      if (profile_.components[k].fits_packs) continue;
      Say(schema_.name(k), " ", LaidOut(k, best_.capacities[k]), " forces ", LeastPacks(k),
          " packs, where the components that have a cost need ", costed, ": a larger max_rows of ",
          schema_.name(k), " would cost less.");
    }
  }
  uint64_t LeastPacks(size_t k) const {
    const uint64_t total = k < graphs_.num_components() ? graphs_.total(k) : graphs_.num_graphs();
    return total / best_.capacities[k] + (total % best_.capacities[k] != 0 ? 1 : 0);
  }

  void SayProof() {
    if (facts_.all_looked_at) {
      Say(facts_.planned, " of ",
          facts_.candidates == UINT64_MAX ? "more than 2^64" : absl::StrCat(facts_.candidates),
          " candidates were planned; bounds exclude the others.");
    } else if (facts_.possible_gain) {
      Say("The budget of ", options_.steps, " steps ended after ", facts_.planned,
          " plans: another single shape may be better, by ", Percent(*facts_.possible_gain),
          " at most.");
    } else {
      Say("The budget of ", options_.steps, " steps does not suffice to look at all of ",
          facts_.candidates == UINT64_MAX ? "more than 2^64" : absl::StrCat(facts_.candidates),
          " candidates.");
    }
  }

  // Names capacities that could not be chosen freely.
  void SayForced() {
    for (size_t k = 0; k < best_.capacities.size(); ++k) {
      if (!HasCost(k)) continue;
      const ComponentProfile& component = profile_.components[k];
      const uint64_t capacity = best_.capacities[k];
      const uint64_t largest = k < graphs_.num_components() ? graphs_.maximum(k) : 1;
      const uint64_t laid_out = LaidOut(k, capacity);
      if (capacity == SmallestCapacity(component)) {
        Say(schema_.name(k), " ", laid_out, " is the least that min_rows allows.");
      } else if (capacity < largest + component.multiple_of) {
        Say(schema_.name(k), " ", laid_out, " is the least that takes the largest graph, of ",
            largest, ".");
      } else if (capacity == LargestCapacity(component)) {
        Say(schema_.name(k), " ", laid_out, " is the most that max_rows allows.");
      }
      if (component.multiple_of > 1) {
        Say(schema_.name(k), " must be a multiple of ", component.multiple_of, ".");
      }
    }
    SayReserved();
  }

  void SayReserved() {
    std::vector<std::string> reserved;
    for (size_t k = 0; k < best_.capacities.size(); ++k) {
      const uint64_t rows = profile_.components[k].reserved_rows;
      if (rows == 0 || best_.capacities[k] == kUnlimited) continue;
      reserved.push_back(absl::StrCat(rows, " of ", schema_.name(k)));
    }
    if (!reserved.empty()) {
      Say("Padding keeps ", absl::StrJoin(reserved, " and "), " free in each batch.");
    }
    for (size_t k = 0; k < best_.capacities.size(); ++k) {
      if (!profile_.components[k].fits_packs || HasCost(k)) continue;
      Say(schema_.name(k), " ", LaidOut(k, best_.capacities[k]),
          " is what the fullest pack needs.");
    }
  }

  void SayMeasured() {
    if (profile_.measured_as.empty()) return;
    if (profile_.measured_bytes == nullptr && !profile_.has_measured_costs) {
      Say("There are no reports of ", profile_.measured_as, ": the profile's own figures hold.");
      return;
    }
    if (!profile_.has_measured_costs) return;
    Say("Costs are seconds, as ", profile_.measured_as,
        " was measured: ", absl::StrFormat("%.3g", profile_.fixed_cost), " for each batch, ",
        absl::StrFormat("%.3g", CostOfShape(profile_, best_.capacities)),
        " for one of this shape.");
  }

  void SayMemory() {
    if (!HasMemoryBound(profile_)) return;
    const uint64_t bound = profile_.measured_bytes != nullptr ? profile_.measured_bytes->most_bytes
                                                              : profile_.memory_bytes;
    std::vector<std::string> bounded;
    for (size_t k = 0; k < best_.capacities.size(); ++k) {
      if (best_.capacities[k] == kUnlimited) continue;
      std::vector<uint64_t> larger = best_.capacities;
      if (larger[k] == LargestCapacity(profile_.components[k])) continue;
      larger[k] += profile_.components[k].multiple_of;
      if (!FitsMemory(profile_, larger)) bounded.push_back(std::string(schema_.name(k)));
    }
    Say("A batch takes ", best_.batch_bytes, " ",
        bound == UINT64_MAX ? "" : absl::StrCat("of ", bound, " "), "bytes",
        bounded.empty()
            ? "."
            : absl::StrCat(", which leave no room for more ", absl::StrJoin(bounded, " or "), "."));
  }

  void SayOversize() {
    if (!result_.oversize) return;
    for (std::string& reason : OversizeReasons(*result_.oversize, profile_, schema_)) {
      reasons_.push_back(std::move(reason));
      // The mean is for one shape.
      if (ByMean()) break;
    }
  }

  // Says what smaller limits would cost.
  void SaySmaller() {
    if (result_.frontier.size() < 2) return;
    const TunedShape& smallest = result_.frontier.front();
    SayMore("The smallest of the shapes tried", smallest);
    const double half = CostOfShape(profile_, best_.capacities) / 2;
    const TunedShape* middle = nullptr;
    for (const TunedShape& shape : result_.frontier) {
      if (CostOfShape(profile_, shape.capacities) <= half) middle = &shape;
    }
    if (middle != nullptr && middle != &smallest) SayMore("A shape half as large", *middle);
  }

  void SayMore(absl::string_view subject, const TunedShape& shape) {
    if (ByMean()) {
      Say(subject, ", ", Names(shape.capacities), ", has a harmonic mean of ",
          PercentOfWhole(shape.harmonic_mean), ".");
    } else {
      const double more = shape.epoch_cost / best_.epoch_cost - 1;
      Say(subject, ", ", Names(shape.capacities), ", costs ", Percent(std::abs(more)),
          more < 0 ? " less" : " more", " an epoch.");
    }
  }

  const TuneResult& result_;
  const TunedShape& best_;
  const DeviceProfile& profile_;
  const SizeSchema& schema_;
  const SizeHistogram& graphs_;
  const TuneOptions& options_;
  const TuningFacts& facts_;
  std::vector<std::string> reasons_;
};

}  // namespace

std::vector<std::string> TuningReasons(const TuneResult& result, const DeviceProfile& profile,
                                       const SizeSchema& schema, const SizeHistogram& graphs,
                                       const TuneOptions& options, const TuningFacts& facts) {
  return ReasonWriter(result, profile, schema, graphs, options, facts).Write();
}

std::vector<std::string> GroupReasons(const TuneResult& result, const SizeSchema& schema) {
  uint64_t kept = 0;
  for (const uint64_t count : result.group_graphs) kept += count;
  std::vector<std::string> shapes;
  uint64_t packs = 0;
  for (const TunedShape& shape : result.shapes) {
    std::vector<std::string> names;
    for (size_t k = 0; k < shape.capacities.size(); ++k) {
      if (shape.capacities[k] == kUnlimited) continue;
      names.push_back(absl::StrCat(schema.name(k), " ", shape.capacities[k]));
    }
    shapes.push_back(absl::StrCat(absl::StrJoin(names, ", "), " (", shape.packs,
                                  shape.packs == 1 ? " pack)" : " packs)"));
    packs += shape.packs;
  }
  std::vector<std::string> reasons;
  reasons.push_back(absl::StrCat(
      "No one shape within the memory takes all graphs that fit alone, so there are ",
      result.group_graphs.size(), " groups of them, of ", absl::StrJoin(result.group_graphs, ", "),
      " graphs, with shapes of their own: ", absl::StrJoin(shapes, "; "), "."));
  reasons.push_back(absl::StrCat(
      "All ", packs, " packs of the ", kept, " graphs cost ", Cost(result.epoch_cost), " an epoch",
      result.least_cost > 0
          ? absl::StrCat(", ", Percent(result.epoch_cost / result.least_cost - 1),
                         " more than the real rows, which no limits can undercut.")
          : ".",
      " What follows is about the first group by itself."));
  return reasons;
}

std::vector<std::string> OversizeReasons(const OversizeGraphs& oversize,
                                         const DeviceProfile& profile, const SizeSchema& schema) {
  std::vector<std::string> reasons = {OversizeReason(oversize, profile, schema)};
  if (oversize.num_apart != 0 && oversize.num_shapes < DeviceProfile::kMaxDistinctShapes) {
    reasons.push_back(absl::StrCat("More shapes (max_distinct_shapes, at present ",
                                   oversize.num_shapes, ") would take more graphs."));
  }
  return reasons;
}

std::string OversizeReason(const OversizeGraphs& oversize, const DeviceProfile& profile,
                           const SizeSchema& schema) {
  std::vector<std::string> sizes;
  for (size_t k = 0; k < oversize.largest.size(); ++k) {
    sizes.push_back(absl::StrCat(schema.name(k), " ", oversize.largest[k]));
  }
  std::vector<std::string> needed;
  for (size_t k = 0; k < oversize.needed_rows.size(); ++k) {
    if (oversize.needed_rows[k] > profile.components[k].max_rows) {
      needed.push_back(absl::StrCat("max_rows ", oversize.needed_rows[k], " of ", schema.name(k)));
    }
  }
  if (oversize.needed_bytes != 0) {
    needed.push_back(absl::StrCat("memory_bytes ", oversize.needed_bytes));
  }
  if (needed.empty()) {
    needed.emplace_back(profile.measured_bytes != nullptr
                            ? "more memory than the device was measured to have"
                            : "larger batches than the server makes");
  }
  const auto graphs = [](uint64_t number, absl::string_view one, absl::string_view many) {
    return absl::StrCat(number, number == 1 ? " graph " : " graphs ", number == 1 ? one : many);
  };
  const std::string apart = absl::StrCat(
      " not fit ",
      oversize.num_shapes == 1 ? "one shape" : absl::StrCat(oversize.num_shapes, " shapes"),
      " together with the others, though each fits allowed limits of its own");
  const uint64_t alone = oversize.num_graphs - oversize.num_apart;
  std::vector<std::string> kinds;
  if (alone != 0) {
    kinds.push_back(absl::StrCat(graphs(alone, "is", "are"), " too large for any allowed limits"));
  }
  if (oversize.num_apart != 0) {
    kinds.push_back(absl::StrCat(graphs(oversize.num_apart, "does", "do"), apart));
  }
  return absl::StrCat(absl::StrJoin(kinds, ", and "), "; the largest has ",
                      absl::StrJoin(sizes, ", "), ". ", absl::StrJoin(needed, " and "),
                      " would take all.");
}

}  // namespace packhouse

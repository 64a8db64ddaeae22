#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "service/server/calls/wire_sizes.h"
#include "service/wings/page/page_json.h"

namespace packhouse::page {
namespace {

constexpr size_t kFillBins = 21;

Json ComponentsJson(const google::protobuf::RepeatedPtrField<v1::ComponentEfficiency>& components) {
  Json all = Json::array();
  for (const v1::ComponentEfficiency& each : components) {
    all.push_back({{"component", each.component()},
                   {"capacity", each.capacity() == 0 ? Json() : Json(each.capacity())},
                   {"efficiency", each.efficiency()},
                   {"fullest_pack", each.fullest_pack()},
                   {"efficiency_of_fullest", each.efficiency_of_fullest()}});
  }
  return all;
}

}  // namespace

Json PlanSummaryJson(const v1::PlanSummary& summary) {
  if (summary.unfinished()) return {{"name", summary.name()}, {"unfinished", true}};
  return {{"name", summary.name()},
          {"packs", summary.packs()},
          {"lower_bound", summary.lower_bound()},
          {"lower_bound_name", summary.lower_bound_name()},
          {"gap", summary.gap()},
          {"optimal", summary.optimal()},
          {"keeps_limits", summary.keeps_limits()},
          {"num_patterns", summary.num_patterns()},
          {"winner", summary.winner()},
          {"steps", summary.steps()},
          {"receipt", summary.receipt()},
          {"milliseconds", 1e3 * static_cast<double>(summary.elapsed().seconds()) +
                               1e-6 * static_cast<double>(summary.elapsed().nanos())},
          {"components", ComponentsJson(summary.components())}};
}

Json PatternsJson(const v1::PlanResponse& response, size_t most) {
  const auto& components = response.best().components();
  // `graphs` is the last of the components, and no part of a size.
  const auto num_sizes = static_cast<size_t>(std::max(components.size(), 1)) - 1;
  const std::vector<uint32_t> tuples = Uint32sFromWire(response.plan().tuples());
  const auto size_of = [&](uint32_t tuple) {
    return absl::MakeConstSpan(tuples).subspan(tuple * num_sizes, num_sizes);
  };
  std::vector<const v1::Pattern*> patterns;
  for (const v1::Pattern& pattern : response.plan().patterns()) patterns.push_back(&pattern);
  std::stable_sort(patterns.begin(), patterns.end(),
                   [](const auto* a, const auto* b) { return a->repeats() > b->repeats(); });

  std::vector<std::vector<uint64_t>> fills(num_sizes + 1, std::vector<uint64_t>(kFillBins, 0));
  std::vector<uint64_t> binds(num_sizes + 1, 0);
  Json listed = Json::array();
  std::vector<uint64_t> rows(num_sizes + 1);
  for (size_t p = 0; p < patterns.size(); ++p) {
    const v1::Pattern& pattern = *patterns[p];
    std::fill(rows.begin(), rows.end(), 0);
    for (const v1::PatternEntry& entry : pattern.entries()) {
      const auto size = size_of(entry.tuple());
      for (size_t k = 0; k < num_sizes; ++k) rows[k] += uint64_t{size[k]} * entry.copies();
      rows.back() += entry.copies();
    }
    Json fill = Json::array();
    size_t fullest = num_sizes;
    double fullest_share = -1;
    for (size_t k = 0; k <= num_sizes; ++k) {
      const uint64_t capacity = components[static_cast<int>(k)].capacity();
      if (capacity == 0) {
        fill.push_back(nullptr);
        continue;
      }
      const double share = static_cast<double>(rows[k]) / static_cast<double>(capacity);
      fill.push_back(share);
      const size_t bin = std::min<uint64_t>(kFillBins - 1, rows[k] * (kFillBins - 1) / capacity);
      fills[k][bin] += pattern.repeats();
      if (share > fullest_share) {
        fullest_share = share;
        fullest = k;
      }
    }
    binds[fullest] += pattern.repeats();
    if (p >= most) continue;
    Json graphs = Json::array();
    for (const v1::PatternEntry& entry : pattern.entries()) {
      if (graphs.size() == kMostEntries) break;
      const auto size = size_of(entry.tuple());
      graphs.push_back(
          {{"size", std::vector<uint32_t>(size.begin(), size.end())}, {"copies", entry.copies()}});
    }
    listed.push_back({{"repeats", pattern.repeats()},
                      {"rows", rows},
                      {"fill", std::move(fill)},
                      {"binds", components[static_cast<int>(fullest)].component()},
                      {"num_sizes", pattern.entries_size()},
                      {"graphs", std::move(graphs)}});
  }
  Json binds_json = Json::object();
  Json fills_json = Json::object();
  for (size_t k = 0; k <= num_sizes && k < static_cast<size_t>(components.size()); ++k) {
    const v1::ComponentEfficiency& component = components[static_cast<int>(k)];
    if (component.capacity() == 0) continue;
    binds_json[component.component()] = binds[k];
    fills_json[component.component()] = fills[k];
  }
  return {{"num_patterns", patterns.size()},
          {"patterns", std::move(listed)},
          {"binds", std::move(binds_json)},
          {"fill", std::move(fills_json)}};
}

Json TunedShapeJson(const v1::TunedShape& shape) {
  Json capacities = Json::object();
  for (const v1::Capacity& each : shape.limits().capacities()) {
    capacities[each.component()] = each.rows();
  }
  return {{"capacities", std::move(capacities)},
          {"packs", shape.packs()},
          {"lower_bound", shape.lower_bound()},
          {"epoch_cost", shape.epoch_cost()},
          {"harmonic_mean", shape.harmonic_mean()},
          {"batch_bytes", shape.batch_bytes()},
          {"components", ComponentsJson(shape.components())}};
}

}  // namespace packhouse::page

#include "client/cli/reports/pack_report.h"

#include <algorithm>
#include <cstddef>
#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/arguments.h"
#include "client/cli/next_fit.h"
#include "service/command_line/table.h"

namespace packhouse::client {
namespace {

// The totals of next-fit for the same graphs.
PackingTotals NextFitTotals(const GraphSizes& sizes, const std::vector<uint64_t>& capacities) {
  const std::size_t width = sizes.components.size();
  const std::vector<uint64_t> batches = NextFit(sizes.values, capacities);
  PackingTotals totals;
  totals.rows.resize(width + 1);
  for (std::size_t row = 0; row < sizes.num_rows; ++row) {
    if (batches[row] == kNoBatch) {
      ++totals.rejected;
      continue;
    }
    totals.batches = batches[row] + 1;
    ++totals.graphs;
    for (std::size_t k = 0; k < width; ++k) totals.rows[k] += sizes.Row(row)[k];
  }
  totals.rows[width] = totals.graphs;
  return totals;
}

// The components for which the user named a limit. The server may give others one of its own, which
// says nothing about hardware.
std::vector<std::string> LimitedOf(const PackTarget& target) {
  std::vector<std::string> limited;
  if (target.device) {
    for (const v1::DeviceProfile::Component& component : target.device->components()) {
      if (component.max_rows() != 0) limited.push_back(component.component());
    }
  } else {
    for (const v1::Capacity& capacity : target.limits.capacities()) {
      limited.push_back(capacity.component());
    }
  }
  return limited;
}

// Capacities of the largest shape by component, then graphs; 0 for no limit.
struct LargestShape {
  std::vector<uint64_t> capacities;
  std::vector<uint64_t> usable;
};
LargestShape LargestShapeOf(const PackResult& result, const std::vector<std::string>& components) {
  if (!result.tuned) {
    return {CapacitiesOf(result.opened.limits(), components),
            CapacitiesOf(result.opened.usable(), components)};
  }
  LargestShape shape;
  for (const v1::TunedCapacity& capacity : result.tuned->shapes(0).capacities()) {
    shape.capacities.push_back(capacity.rows());
    shape.usable.push_back(capacity.usable_rows());
  }
  return shape;
}

std::string Describe(const v1::PackShape& shape) {
  std::vector<std::string> parts;
  for (const v1::TunedCapacity& capacity : shape.capacities()) {
    if (capacity.rows() == 0) continue;
    parts.push_back(absl::StrCat(capacity.component(), "=", capacity.rows()));
  }
  return absl::StrJoin(parts, " ");
}

// The shapes that were chosen, and why.
void PrintDevice(const PackReport& report, const v1::PackTuned& tuned) {
  std::cout << absl::StrFormat("%s: %d shape%s chosen from %d graphs\n", NameOfFile(report.device),
                               tuned.shapes_size(), tuned.shapes_size() == 1 ? "" : "s",
                               tuned.num_graphs());
  for (const v1::PackShape& shape : tuned.shapes()) {
    std::cout << "  " << Describe(shape) << ": "
              << (shape.expected_share() > 0
                      ? absl::StrFormat("%.1f %% of full batches", 100 * shape.expected_share())
                      : "batches that are not full")
              << '\n';
  }
  for (const std::string& reason : tuned.reasons()) std::cout << "- " << reason << '\n';
  std::cout << '\n';
}

// A line for each change of sizes that was told, and its reasons.
void PrintDrift(const v1::PackDrifted& drifted) {
  std::cout << absl::StrFormat(
      "drift: the sizes changed at about graph %d (found at %d); the "
      "limits waste %.1f %%",
      drifted.first_graph(), drifted.found_graph(), 100 * drifted.loss());
  if (drifted.has_offered()) {
    std::cout << "; better: " << Describe(drifted.offered().shapes(0));
  }
  std::cout << '\n';
  for (const std::string& reason : drifted.reasons()) std::cout << "- " << reason << '\n';
}

}  // namespace

std::string RejectionText(const v1::Rejection& rejection) {
  // Without a limit, row numbers of 32 bits are the limit.
  constexpr uint64_t kMostRows = (uint64_t{1} << 31) - 1;
  const bool is_too_small = rejection.reason() == v1::REJECTION_REASON_TOO_SMALL;
  const bool is_memory = rejection.reason() == v1::REJECTION_REASON_TOO_MUCH_MEMORY;
  return absl::StrCat("graph ", rejection.graph_id(), is_memory ? " needs a batch of " : " has ",
                      rejection.value(), " ",
                      rejection.component().empty() ? "bytes" : rejection.component(),
                      is_too_small ? ", at least " : ", at most ", rejection.bound(),
                      is_too_small ? " are needed"
                      : is_memory  ? " are the device's (memory_bytes)"
                                   : " fit a batch",
                      rejection.bound() == kMostRows && !rejection.component().empty()
                          ? ", whose rows are numbered in 32 bits"
                          : "");
}

void PrintPackReport(const PackReport& report, const PackTarget& target, const GraphSizes& sizes,
                     const PackResult& result) {
  std::vector<std::string> components = sizes.components;
  components.emplace_back("graphs");
  const LargestShape shape = LargestShapeOf(result, sizes.components);
  const uint64_t bound = VolumeBound(result.totals.rows, shape.usable);

  std::cout << absl::StrFormat(
      "%d graphs of %s in %s; limits %s%s; look-ahead %d\n", sizes.num_rows,
      NameOfFile(report.sizes),
      report.shuffle_seed.has_value()
          ? absl::StrCat("random order (seed ", *report.shuffle_seed, ")")
          : "the file's order",
      result.tuned ? Describe(result.tuned->shapes(0)) : Describe(result.opened.limits()),
      WithoutLimit(sizes.components, LimitedOf(target)), result.opened.look_ahead());
  if (!result.tuned && Describe(result.opened.usable()) != Describe(result.opened.limits())) {
    std::cout << "usable beside the padding " << Describe(result.opened.usable()) << '\n';
  }
  std::cout << '\n';
  if (result.tuned) PrintDevice(report, *result.tuned);

  std::vector<TextTable::Column> columns = {
      {"", ""}, {"graphs", ""}, {"rejected", ""}, {"batches", ""}, {"gap %", ""}};
  const std::vector<std::string> limited = LimitedOf(target);
  const auto is_limited = [&](std::size_t k) {
    return std::find(limited.begin(), limited.end(), components[k]) != limited.end();
  };
  for (std::size_t k = 0; k < components.size(); ++k) {
    if (is_limited(k)) columns.push_back({components[k] + " %", "efficiency"});
  }
  TextTable table(columns);
  const auto add = [&](const std::string& name, const PackingTotals& totals) {
    std::vector<std::string> cells = {
        name, absl::StrCat(totals.graphs), absl::StrCat(totals.rejected),
        absl::StrCat(totals.batches),
        bound == 0 ? "-"
                   : Percent(static_cast<double>(totals.batches) / static_cast<double>(bound) - 1)};
    for (std::size_t k = 0; k < components.size(); ++k) {
      if (!is_limited(k)) continue;
      const double rows =
          !totals.padded_rows.empty() && report.is_padded
              ? static_cast<double>(totals.padded_rows[k])
              : static_cast<double>(totals.batches) * static_cast<double>(shape.capacities[k]);
      cells.push_back(totals.batches == 0 ? "-"
                                          : Percent(static_cast<double>(totals.rows[k]) / rows));
    }
    table.AddRow(std::move(cells));
  };
  add("packhouse", result.totals);
  add("next-fit, in this order", NextFitTotals(sizes, shape.usable));
  add("no fewer batches than", {.batches = bound,
                                .graphs = result.totals.graphs,
                                .rejected = result.totals.rejected,
                                .rows = result.totals.rows});
  std::cout << table.Render();
  if (result.first_rejected) {
    std::cout << "\nfirst rejected: " << RejectionText(*result.first_rejected) << '\n';
  }
  if (!result.drifted.empty()) std::cout << '\n';
  for (const v1::PackDrifted& drifted : result.drifted) PrintDrift(drifted);
  std::cout << absl::StrFormat("\n%.0f graphs/s, %.3f s\n",
                               static_cast<double>(sizes.num_rows) / result.elapsed.count(),
                               result.elapsed.count());
}

}  // namespace packhouse::client

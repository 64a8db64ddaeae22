// How often a plan is proved optimal, and how large the gaps are otherwise: real histograms of
// nodes and edges, with many limits each. The limits are multiples of the largest graph.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "service/algorithms/planning/optimizer/plan_optimizer.h"
#include "tests/support/shared_data.h"
#include "tests/support/sizes_csv.h"

namespace packhouse {
namespace {

constexpr double kFactors[] = {1, 1.1, 1.25, 1.5, 1.75, 2, 2.5, 3, 4};

// Targets: the share of plans that are proved, and the largest gap of the others.
constexpr double kLeastProved = 0.97;
constexpr double kMostGapPercent = 0.5;

struct Certificate {
  std::string set;
  std::string limits;
  uint64_t packs = 0;
  uint64_t bound = 0;
  std::string by;
  double milliseconds = 0;  // Of the processor.

  double gap_percent() const {
    return 100 * static_cast<double>(packs - bound) / static_cast<double>(bound);
  }
};

uint64_t Times(uint64_t largest, double factor) {
  return static_cast<uint64_t>(static_cast<double>(largest) * factor);
}

// Both together and each alone with every factor, and all pairs of factors.
std::vector<std::pair<uint64_t, uint64_t>> LimitsFor(const SizeHistogram& histogram) {
  std::vector<std::pair<uint64_t, uint64_t>> limits;
  for (const double nodes : kFactors) {
    limits.emplace_back(Times(histogram.maximum(0), nodes), kUnlimited);
    limits.emplace_back(kUnlimited, Times(histogram.maximum(1), nodes));
    for (const double edges : kFactors) {
      limits.emplace_back(Times(histogram.maximum(0), nodes), Times(histogram.maximum(1), edges));
    }
  }
  return limits;
}

std::string CapacityText(uint64_t capacity) {
  return capacity == kUnlimited ? "-" : absl::StrCat(capacity);
}

Certificate Measure(const std::string& set, const SizeHistogram& histogram, uint64_t nodes,
                    uint64_t edges) {
  Certificate certificate;
  certificate.set = set;
  certificate.limits = absl::StrCat(CapacityText(nodes), ", ", CapacityText(edges));
  const Limits limits = Limits::Create({nodes, edges, kUnlimited}).value();
  OptimizerOptions options;
  options.steps = OptimizerOptions::StepsFor(histogram.num_distinct());
  const std::clock_t start = std::clock();
  const CertifiedPlan plan = OptimizePlan(histogram, limits, options).value();
  certificate.milliseconds = 1000.0 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  certificate.packs = plan.packs;
  certificate.bound = plan.bound.packs;
  certificate.by = LowerBoundName(plan.bound, SizeSchema::NodesAndEdges());
  return certificate;
}

int Run(const std::string& only, size_t num_worst) {
  const std::string folder = absl::StrCat(SharedData(), "/hist");
  std::vector<std::string> sets;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".csv" &&
        absl::StrContains(entry.path().stem().string(), only)) {
      sets.push_back(entry.path().stem().string());
    }
  }
  if (sets.empty()) {
    std::printf("no histogram in \"%s\"\n", folder.c_str());
    return 0;
  }
  std::sort(sets.begin(), sets.end());
  std::vector<Certificate> all;
  for (const std::string& set : sets) {
    const std::optional<SizeHistogram> histogram = ReadHistogram(set);
    if (!histogram) continue;
    const size_t first = all.size();
    for (const auto& [nodes, edges] : LimitsFor(*histogram)) {
      all.push_back(Measure(set, *histogram, nodes, edges));
    }
    size_t proved = 0;
    double most = 0;
    for (size_t i = first; i < all.size(); ++i) {
      proved += all[i].packs == all[i].bound;
      most = std::max(most, all[i].gap_percent());
    }
    std::printf("%-32s %4zu of %4zu proved, largest gap %.2f %%\n", set.c_str(), proved,
                all.size() - first, most);
    std::fflush(stdout);
  }
  std::sort(all.begin(), all.end(), [](const Certificate& a, const Certificate& b) {
    return a.milliseconds < b.milliseconds;
  });
  const double median = all[all.size() / 2].milliseconds;
  const double longest = all.back().milliseconds;
  std::stable_sort(all.begin(), all.end(), [](const Certificate& a, const Certificate& b) {
    return a.gap_percent() > b.gap_percent();
  });
  const auto proved = std::count_if(all.begin(), all.end(),
                                    [](const Certificate& c) { return c.packs == c.bound; });
  std::printf("\n%zd of %zu proved (%.1f %%); median %.1f ms, longest %.0f ms\n\n", proved,
              all.size(), 100.0 * static_cast<double>(proved) / static_cast<double>(all.size()),
              median, longest);
  for (size_t i = 0; i < std::min(num_worst, all.size()) && all[i].gap_percent() > 0; ++i) {
    std::printf("%-32s (%s): %u packs, bound %u by %s, gap %.2f %%, %.0f ms\n", all[i].set.c_str(),
                all[i].limits.c_str(), static_cast<unsigned>(all[i].packs),
                static_cast<unsigned>(all[i].bound), all[i].by.c_str(), all[i].gap_percent(),
                all[i].milliseconds);
  }
  const bool met = static_cast<double>(proved) >= kLeastProved * static_cast<double>(all.size()) &&
                   all.front().gap_percent() <= kMostGapPercent;
  std::printf("\ntarget %.0f %% proved, gaps at most %.1f %%: %s\n", 100 * kLeastProved,
              kMostGapPercent, met ? "met" : "missed");
  return met ? 0 : 1;
}

}  // namespace
}  // namespace packhouse

int main(int argc, char** argv) {
  std::string only;
  size_t worst = 30;
  CLI::App app("How often plans are proved optimal; exit status 1 if the target is missed.");
  app.add_option("--only", only, "Histograms whose names contain this");
  app.add_option("--worst", worst, "The largest gaps are listed, this many")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return packhouse::Run(only, worst);
}

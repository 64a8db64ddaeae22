// How fresh the batches of epochs are, as a table: the chance that two graphs of a batch are
// together again in the next epoch, beside that of a shuffle, as a plan draws them and after
// exchanges (fresh_batches.h), with the processor time that these take.
//
// With --splits also how many pairs of batches are rigid: no other split of their graphs into two
// batches fits, up to graphs of equal size.
//
// Exit status 1 if a target is missed: at most 1.2 times a shuffle, or 1.5 where batches are over
// 97 % full in two components; never because of time.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "service/algorithms/planning/optimizer/plan_optimizer.h"
#include "service/engine/epochs/fresh_batches.h"
#include "tests/benchmarks/planning_sets.h"

namespace packhouse {
namespace {

double ProcessorSeconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Log-normal numbers of atoms, and 40 edges an atom.
SizeTuple DrawAtoms(Random& random) {
  double sum = 0;
  for (int i = 0; i < 12; ++i) sum += static_cast<double>(random.Below(1 << 20)) / (1 << 20);
  const auto atoms = static_cast<uint64_t>(std::clamp(40 * std::exp(0.6 * (sum - 6)), 2.0, 500.0));
  return TupleOf({atoms, 40 * atoms + random.Below(atoms)});
}

// All sizes are distinct.
SizeTuple DrawDistinct(Random& random) {
  return TupleOf({random.Between(1, 200'000), random.Between(1, 400'000)});
}

std::vector<PlanningSet> Sets() {
  std::vector<PlanningSet> sets = PlanningSets();
  sets.push_back(RealSet("molhiv_all", 444, 1004, kUnlimited));
  sets.push_back(RealSet("tu_PROTEINS", 1024, 3840, kUnlimited));
  sets.push_back(
      MadeSet("made_atoms", {"nodes", "edges"}, 20'000, {1024, 42'000, kUnlimited}, DrawAtoms));
  sets.push_back(MadeSet("made_distinct", {"nodes", "edges"}, 10'000,
                         {1'000'000, 2'200'000, kUnlimited}, DrawDistinct));
  sets.push_back(MadeSet("made_distinct_wide", {"nodes", "edges"}, 10'000,
                         {4'000'000, 8'400'000, kUnlimited}, DrawDistinct));
  return sets;
}

// The items of a histogram, tuple by tuple.
std::vector<uint32_t> CountsOf(const SizeHistogram& histogram) {
  std::vector<uint32_t> counts;
  for (const uint32_t row : histogram.SortedRows()) {
    const auto tuple = histogram.tuple(row);
    for (uint64_t i = 0; i < histogram.count(row); ++i) {
      counts.insert(counts.end(), tuple.begin(), tuple.end());
    }
  }
  return counts;
}

struct Row {
  double drawn = 0;
  double fresh = 0;
  double microseconds = 0;
};

// Means over `epochs` pairs of consecutive epochs.
Row Measure(const SizeClasses& classes, const ItemSizes& sizes, const PackingPlan& plan,
            const Limits& limits, uint64_t epochs) {
  const auto patterns = absl::MakeConstSpan(&plan.patterns, 1);
  const ShapeLimits shapes = {{limits}};
  Row row;
  double of_shuffle = 0;
  double seconds = 0;
  EpochBatches last_drawn = DrawEpoch(classes, patterns, {1, 0}).value();
  EpochBatches last = DrawFreshEpoch(classes, patterns, sizes, shapes, {1, 0}).value();
  for (uint64_t epoch = 1; epoch <= epochs; ++epoch) {
    double begin = ProcessorSeconds();
    EpochBatches drawn = DrawEpoch(classes, patterns, {1, epoch}).value();
    seconds -= ProcessorSeconds() - begin;
    begin = ProcessorSeconds();
    EpochBatches fresh = DrawFreshEpoch(classes, patterns, sizes, shapes, {1, epoch}).value();
    seconds += ProcessorSeconds() - begin;
    const Company before = CompanyOf(drawn, last_drawn);
    const Company after = CompanyOf(fresh, last);
    row.drawn += before.chance;
    row.fresh += after.chance;
    of_shuffle += after.of_shuffle;
    last_drawn = std::move(drawn);
    last = std::move(fresh);
  }
  row.drawn /= of_shuffle;
  row.fresh /= of_shuffle;
  row.microseconds =
      1e6 * seconds / static_cast<double>(epochs) / static_cast<double>(sizes.num_items());
  return row;
}

// Whether no other split fits. Tries all: O(2^items).
bool IsRigid(const ItemSizes& sizes, const Limits& limits, const std::vector<uint32_t>& items,
             size_t num_first) {
  const size_t num = limits.num_components() + 1;
  // What items and sides have, with a sum of random numbers by size instead of a list of sizes.
  std::vector<std::vector<uint64_t>> rows(items.size(), std::vector<uint64_t>(num + 1));
  std::vector<uint64_t> all(num + 1);
  std::vector<uint64_t> now(num + 1);
  uint64_t present = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    AddRows(sizes.tuple(items[i]), 1, absl::MakeSpan(rows[i]).first(num));
    uint64_t name = 1;
    for (const uint64_t each : rows[i]) name = Random(name ^ each).Next();
    rows[i][num] = name;
    for (size_t k = 0; k <= num; ++k) all[k] += rows[i][k];
    if (i < num_first) present += name;
  }
  now = rows[0];
  // Each split once: the first item stays, the others change sides as bits of a Gray code do.
  for (uint64_t split = 0;;) {
    bool fits = true;
    for (size_t k = 0; k < num && fits; ++k) {
      fits = !limits.has_limit(k) ||
             (now[k] <= limits.capacity(k) && all[k] - now[k] <= limits.capacity(k));
    }
    if (fits && now[num] != present && now[num] != all[num] - present) return false;
    if (++split == uint64_t{1} << (items.size() - 1)) return true;
    const int bit = std::countr_zero(split);
    const bool joins = ((split ^ (split >> 1)) >> bit & 1) != 0;
    const std::vector<uint64_t>& of = rows[static_cast<size_t>(bit) + 1];
    for (size_t k = 0; k <= num; ++k) now[k] += joins ? of[k] : -of[k];
  }
}

// Of pairs of batches, which are drawn, with few enough items.
std::string RigidPairs(const ItemSizes& sizes, const Limits& limits, const EpochBatches& epoch) {
  constexpr size_t kMostItems = 24;
  Random random(1);
  int tried = 0;
  int rigid = 0;
  for (int i = 0; i < 200; ++i) {
    const auto one = epoch.batch(random.Below(epoch.num_batches()));
    const auto two = epoch.batch(random.Below(epoch.num_batches()));
    if (one.data() == two.data() || one.size() + two.size() > kMostItems) continue;
    std::vector<uint32_t> items(one.begin(), one.end());
    items.insert(items.end(), two.begin(), two.end());
    ++tried;
    rigid += IsRigid(sizes, limits, items, one.size()) ? 1 : 0;
  }
  return absl::StrFormat("  %d of %d pairs are rigid", rigid, tried);
}

int Run(int argc, char** argv) {
  CLI::App app("How fresh the batches of epochs are.");
  std::vector<std::string> only;
  uint64_t most_graphs = 2'000'000;
  app.add_option("--only", only, "sets whose names begin so")->delimiter(',');
  bool splits = false;
  app.add_flag("--splits", splits, "count pairs of batches that fit in no other way");
  app.add_option("--most-graphs", most_graphs, "leave larger sets out");
  CLI11_PARSE(app, argc, argv);
  int missed = 0;
  std::printf("%-28s %9s %8s %9s  %-16s %8s %8s %10s\n", "set", "graphs", "batches", "a batch",
              "full %", "drawn", "fresh", "us a graph");
  for (const PlanningSet& set : Sets()) {
    if (!only.empty() && std::none_of(only.begin(), only.end(), [&](const std::string& name) {
          return absl::StartsWith(set.name, name);
        })) {
      continue;
    }
    const std::optional<SizeHistogram> histogram = set.read();
    if (!histogram || histogram->num_graphs() > most_graphs) continue;
    const std::vector<uint32_t> counts = CountsOf(*histogram);
    const size_t l = set.limits.num_components();
    const ItemSizes sizes = ItemSizes::Create(counts.size() / l, l, counts).value();
    const SizeClasses classes = SizeClasses::Create(sizes).value();
    const CertifiedPlan plan = OptimizePlan(*histogram, set.limits, {}).value();
    std::vector<uint64_t> rows(l + 1);
    for (size_t i = 0; i < sizes.num_items(); ++i) {
      AddRows(sizes.tuple(i), 1, absl::MakeSpan(rows));
    }
    std::string full;
    int nearly_full = 0;
    for (size_t k = 0; k <= l; ++k) {
      if (!set.limits.has_limit(k)) continue;
      const double share = static_cast<double>(rows[k]) / static_cast<double>(plan.packs) /
                           static_cast<double>(set.limits.capacity(k));
      nearly_full += share > 0.97 ? 1 : 0;
      if (k < 2) absl::StrAppendFormat(&full, "%s%.1f", full.empty() ? "" : " ", 100 * share);
    }
    const double items = static_cast<double>(sizes.num_items());
    const double a_batch = items / static_cast<double>(plan.packs);
    // Some thousand pairs that chance alone would bring together.
    const double expected = std::max(1.0, a_batch * a_batch / 2);
    const auto epochs =
        static_cast<uint64_t>(std::clamp(4000 / expected, 1.0, std::max(2.0, 1'000'000 / items)));
    const Row row = Measure(classes, sizes, plan.plan, set.limits, epochs);
    const double goal = nearly_full > 1 ? 1.5 : 1.2;
    const bool is_missed = a_batch >= 8 && row.fresh > goal;
    missed += is_missed ? 1 : 0;
    std::string rigid;
    if (splits) {
      const auto patterns = absl::MakeConstSpan(&plan.plan.patterns, 1);
      rigid = RigidPairs(sizes, set.limits, DrawEpoch(classes, patterns, {1, 0}).value());
    }
    std::printf("%-28s %9zu %8llu %9.1f  %-16s %8.2f %8.2f %10.2f%s%s\n", set.name.c_str(),
                sizes.num_items(), static_cast<unsigned long long>(plan.packs), a_batch,
                full.c_str(), row.drawn, row.fresh, row.microseconds,
                is_missed ? absl::StrFormat("  MISSED: goal %.1f", goal).c_str() : "",
                rigid.c_str());
    std::fflush(stdout);
  }
  return missed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace packhouse

int main(int argc, char** argv) { return packhouse::Run(argc, argv); }

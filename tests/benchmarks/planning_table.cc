// What the planner reaches, as tables: packs beside their lower bound and beside other planners, on
// real size distributions and made ones (planning_sets.h), with the processor time it takes; the
// same at each vector level, with other seeds, with larger and smaller budgets, and after a
// histogram changed.
//
// Every plan is verified here, too, and not only by the planner. Exit status 1 if one is wrong, if
// a target is missed or if what must give the same plan does not; never because of time.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "service/algorithms/planning/baselines/planner.h"
#include "service/algorithms/planning/optimizer/plan_optimizer.h"
#include "service/base/vector_level.h"
#include "tests/benchmarks/planning_sets.h"
#include "tests/packing/next_fit.h"

namespace packhouse {
namespace {

struct TableOptions {
  int repetitions = 21;
  uint64_t seeds = 10;
  // Histogram changes of each size that a row of the re-planning table is the mean of.
  uint64_t changes = 5;
  std::vector<std::string> only;
  std::vector<std::string> tables = {"sets", "plans", "levels", "seeds", "replanning", "budget"};
  bool markdown = false;
};

constexpr uint64_t kBudgets[] = {1'000'000, 10'000'000, 100'000'000, 1'000'000'000};
constexpr uint64_t kChangedPerMille[] = {1, 10};

// Cells in aligned columns, for a terminal or as Markdown. Flush left are the first column and
// those whose names are given with a '<' in front.
class Table {
 public:
  Table(std::string title, std::vector<std::string> columns) : title_(std::move(title)) {
    for (std::string& column : columns) {
      left_.push_back(left_.empty() || column[0] == '<');
      if (column[0] == '<') column.erase(0, 1);
    }
    rows_.push_back(std::move(columns));
  }

  void AddRow(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  void Print(bool markdown) const {
    if (rows_.size() == 1) return;
    std::printf(markdown ? "\n### %s\n\n" : "\n%s\n", title_.c_str());
    std::vector<size_t> widths(rows_[0].size(), 3);
    for (const auto& row : rows_) {
      for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
    }
    for (size_t r = 0; r < rows_.size(); ++r) {
      PrintRow(rows_[r], widths, markdown);
      if (r == 0 && markdown) {
        std::vector<std::string> rule;
        for (size_t c = 0; c < widths.size(); ++c) {
          rule.push_back(std::string(widths[c] - 1, '-') + (left_[c] ? "-" : ":"));
        }
        PrintRow(rule, widths, markdown);
      }
    }
    std::fflush(stdout);
  }

 private:
  void PrintRow(const std::vector<std::string>& row, const std::vector<size_t>& widths,
                bool markdown) const {
    std::string line = markdown ? "| " : "";
    for (size_t c = 0; c < widths.size(); ++c) {
      const std::string cell = c < row.size() ? row[c] : "";
      const std::string blanks(widths[c] - cell.size(), ' ');
      if (c != 0) absl::StrAppend(&line, markdown ? " | " : "  ");
      absl::StrAppend(&line, left_[c] ? cell + blanks : blanks + cell);
    }
    if (markdown) line += " |";
    absl::StripTrailingAsciiWhitespace(&line);
    std::printf("%s\n", line.c_str());
  }

  std::string title_;
  std::vector<bool> left_;  // [column]
  std::vector<std::vector<std::string>> rows_;
};

// A set that was read, and what has been found about it.
struct LoadedSet {
  const PlanningSet* set;
  SizeHistogram histogram;
  // By default options.
  CertifiedPlan plan;

  const Limits& limits() const { return set->limits; }
  // "(222, 502; 256)"; "-": no limit.
  std::string LimitsText() const {
    std::vector<std::string> capacities;
    for (const uint64_t capacity : limits().capacities()) {
      capacities.push_back(capacity == kUnlimited ? "-" : absl::StrCat(capacity));
    }
    const std::string graphs = std::move(capacities.back());
    capacities.pop_back();
    return absl::StrCat("(", absl::StrJoin(capacities, ", "), "; ", graphs, ")");
  }
  std::string Label() const { return absl::StrCat(set->name, " ", LimitsText()); }
};

// Problems, which decide the exit status.
class Findings {
 public:
  void Add(const std::string& problem) {
    std::fprintf(stderr, "FAILED: %s\n", problem.c_str());
    ++count_;
  }
  int count() const { return count_; }

 private:
  int count_ = 0;
};

// A second opinion beside VerifyPlan, on purpose without any of its code: adds up what each pattern
// holds, graph size by graph size, in 128 bits, which cannot wrap around here.
absl::Status CheckByExpansion(const PackingPlan& plan, const SizeHistogram& histogram,
                              const Limits& limits) {
  const size_t l = histogram.num_components();
  std::map<std::vector<uint32_t>, absl::uint128> graphs_of;
  for (const Pattern& pattern : plan.patterns) {
    std::vector<absl::uint128> rows(l + 1, 0);
    for (const PatternEntry& entry : pattern.entries) {
      const auto first = plan.tuples.begin() + static_cast<std::ptrdiff_t>(entry.tuple * l);
      const std::vector<uint32_t> tuple(first, first + static_cast<std::ptrdiff_t>(l));
      for (size_t k = 0; k < l; ++k) rows[k] += absl::uint128{tuple[k]} * entry.copies;
      rows[l] += entry.copies;
      graphs_of[tuple] += absl::uint128{entry.copies} * pattern.repeats;
    }
    for (size_t k = 0; k <= l; ++k) {
      if (limits.has_limit(k) && rows[k] > limits.capacity(k)) {
        return absl::InternalError("a pack exceeds its limits");
      }
    }
    if (rows[l] == 0 || pattern.repeats == 0) return absl::InternalError("a pack is empty");
  }
  for (size_t row = 0; row < histogram.num_distinct(); ++row) {
    const auto tuple = histogram.tuple(row);
    const auto it = graphs_of.find({tuple.begin(), tuple.end()});
    if (it == graphs_of.end() || it->second != histogram.count(row)) {
      return absl::InternalError("a size is packed too often or too rarely");
    }
  }
  if (graphs_of.size() != histogram.num_distinct()) {
    return absl::InternalError("graphs are packed that are not there");
  }
  return absl::OkStatus();
}

// Both checks, and that no valid plan has fewer packs than the bound says.
void Check(absl::string_view what, const PackingPlan& plan, const SizeHistogram& histogram,
           const Limits& limits, uint64_t bound, Findings& findings) {
  if (const absl::Status status = VerifyPlan(plan, histogram, limits); !status.ok()) {
    findings.Add(absl::StrCat(what, ": ", status.message()));
  }
  if (const absl::Status status = CheckByExpansion(plan, histogram, limits); !status.ok()) {
    findings.Add(absl::StrCat(what, ": ", status.message()));
  }
  if (plan.num_packs() < bound) {
    findings.Add(
        absl::StrCat(what, ": ", plan.num_packs(), " packs, fewer than the bound of ", bound));
  }
}

struct TimedPlan {
  CertifiedPlan plan;
  std::vector<double> milliseconds;  // Ascending.

  double median() const { return milliseconds[milliseconds.size() / 2]; }
};

bool SamePlan(const PackingPlan& a, const PackingPlan& b) {
  return a.num_components == b.num_components && a.tuples == b.tuples && a.patterns == b.patterns;
}

// The processor time of this thread, which does all the work. It is nearly the same on an idle and
// on a busy core.
double ProcessorMilliseconds() {
  timespec time = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
}

// With the steps that the server takes unless told otherwise.
OptimizerOptions DefaultOptions(const SizeHistogram& histogram, const Limits& limits) {
  OptimizerOptions options;
  options.steps = OptimizerOptions::StepsFor(histogram, limits);
  return options;
}

// Plans, checks, and times what a caller waits for, `repetitions` times.
TimedPlan TimePlan(const std::string& what, const SizeHistogram& histogram, const Limits& limits,
                   const OptimizerOptions& options, int repetitions, Findings& findings) {
  TimedPlan timed;
  for (int i = 0; i < repetitions; ++i) {
    const double start = ProcessorMilliseconds();
    absl::StatusOr<CertifiedPlan> plan = OptimizePlan(histogram, limits, options);
    timed.milliseconds.push_back(ProcessorMilliseconds() - start);
    if (!plan.ok()) {
      findings.Add(absl::StrCat(what, ": ", plan.status().ToString()));
      continue;
    }
    if (i != 0 && !SamePlan(plan->plan, timed.plan.plan)) {
      findings.Add(absl::StrCat(what, ": another plan the second time"));
    }
    timed.plan = *std::move(plan);
  }
  std::sort(timed.milliseconds.begin(), timed.milliseconds.end());
  if (timed.plan.packs != timed.plan.plan.num_packs()) {
    findings.Add(absl::StrCat(what, ": ", timed.plan.packs, " packs claimed, ",
                              timed.plan.plan.num_packs(), " there"));
  }
  Check(what, timed.plan.plan, histogram, limits, timed.plan.bound.packs, findings);
  return timed;
}

bool Meets(const PlanningTarget& target, const CertifiedPlan& plan) {
  if (target.most_packs && plan.packs > *target.most_packs) return false;
  return !target.most_percent ||
         plan.packs * 100 <= plan.bound.packs * (100 + *target.most_percent);
}

std::string TargetText(const PlanningTarget& target, bool met) {
  std::string text = target.most_packs ? absl::StrCat(*target.most_packs) : "";
  if (target.most_percent == 0) {
    absl::StrAppend(&text, text.empty() ? "" : " ", "proved");
  } else if (target.most_percent) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", "gap <= ", *target.most_percent, " %");
  }
  if (text.empty()) return "-";
  return absl::StrCat(text, met ? ": met" : ": MISSED");
}

std::string Milliseconds(double milliseconds) {
  const int decimals = milliseconds >= 100 ? 0 : milliseconds >= 10 ? 1 : 2;
  return absl::StrFormat("%.*f", decimals, milliseconds);
}

std::string GapText(const CertifiedPlan& plan) {
  if (plan.optimal()) return "0";
  const auto bound = static_cast<double>(plan.bound.packs);
  return absl::StrFormat("%.3f", 100 * (static_cast<double>(plan.packs) - bound) / bound);
}

// "+0.53 %" above the bound, in brackets beside the packs.
std::string PacksText(uint64_t packs, uint64_t bound) {
  const double above = 100.0 * (static_cast<double>(packs) / static_cast<double>(bound) - 1);
  if (packs == bound) return absl::StrCat(packs);
  return absl::StrFormat("%d (+%.2f %%)", packs, above);
}

// What jraph, PyG and TF-GNN do, on the graphs in a random order.
uint64_t PlanByNextFit(const LoadedSet& loaded, Findings& findings) {
  const PlanItems items = ItemsOf(loaded.histogram);
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < items.counts.size(); ++i) order.insert(order.end(), items.counts[i], i);
  Random random(0);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
  std::vector<uint32_t> sizes;
  for (const uint32_t i : order) {
    const auto tuple = items.empty_plan.tuple(i);
    sizes.insert(sizes.end(), tuple.begin(), tuple.end());
  }
  PackingPlan plan = items.empty_plan;
  for (const std::vector<uint64_t>& pack : NextFit(sizes, loaded.limits())) {
    Pattern& pattern = plan.patterns.emplace_back();
    pattern.repeats = 1;
    for (const uint64_t position : pack) pattern.entries.push_back({order[position], 1});
  }
  Check(loaded.Label() + ", next-fit", plan, loaded.histogram, loaded.limits(),
        loaded.plan.bound.packs, findings);
  return plan.num_packs();
}

// The best of the paper's heuristics with its rule for opening packs; nothing where none of them
// ends within its budget.
std::optional<uint64_t> PlanAsThePaper(const LoadedSet& loaded, Findings& findings) {
  std::vector<PlanHeuristic> heuristics = TuplePackingHeuristics(loaded.limits());
  std::erase_if(heuristics, [](const PlanHeuristic& heuristic) {
    return heuristic.opening != OpeningRule::kOneGraph;
  });
  const absl::StatusOr<PlanComparison> comparison =
      ComparePlans(loaded.histogram, loaded.limits(), loaded.set->schema, heuristics);
  if (absl::IsResourceExhausted(comparison.status())) return std::nullopt;
  if (!comparison.ok()) {
    findings.Add(absl::StrCat(loaded.Label(), ", tuple packing: ", comparison.status().message()));
    return std::nullopt;
  }
  Check(loaded.Label() + ", tuple packing", comparison->best_plan, loaded.histogram,
        loaded.limits(), loaded.plan.bound.packs, findings);
  return comparison->best_plan.num_packs();
}

uint64_t PlanFirstFitDecreasing(const LoadedSet& loaded, Findings& findings) {
  OptimizerOptions options;
  options.steps = 0;
  const TimedPlan timed = TimePlan(loaded.Label() + ", first-fit decreasing", loaded.histogram,
                                   loaded.limits(), options, 1, findings);
  return timed.plan.packs;
}

void PrintSets(absl::Span<const LoadedSet> sets, const TableOptions& options) {
  Table table("The sets (means and largest counts by component)",
              {"set", "graphs", "distinct", "<components", "<mean", "<largest"});
  absl::string_view before;
  for (const LoadedSet& loaded : sets) {
    if (loaded.set->name == before) continue;
    before = loaded.set->name;
    const SizeHistogram& histogram = loaded.histogram;
    std::vector<std::string> means;
    std::vector<std::string> largest;
    for (size_t k = 0; k < histogram.num_components(); ++k) {
      means.push_back(absl::StrFormat("%.1f", static_cast<double>(histogram.total(k)) /
                                                  static_cast<double>(histogram.num_graphs())));
      largest.push_back(absl::StrCat(histogram.maximum(k)));
    }
    table.AddRow({loaded.set->name, absl::StrCat(histogram.num_graphs()),
                  absl::StrCat(histogram.num_distinct()),
                  absl::StrJoin(loaded.set->schema.components(), ", "), absl::StrJoin(means, ", "),
                  absl::StrJoin(largest, ", ")});
  }
  table.Print(options.markdown);
}

void PrintPlans(absl::Span<LoadedSet> sets, const TableOptions& options, Findings& findings) {
  Table table("Packs (in brackets: above the bound) and the milliseconds that packhouse takes",
              {"set (limits; most graphs)", "graphs", "distinct", "components", "bound",
               "<which bound", "next-fit", "the paper's", "first-fit decreasing", "packhouse",
               "gap %", "<proved", "<winner", "ms", "min-max", "<target", "<reference, ms"});
  for (LoadedSet& loaded : sets) {
    const std::string label = loaded.Label();
    TimedPlan timed =
        TimePlan(label, loaded.histogram, loaded.limits(),
                 DefaultOptions(loaded.histogram, loaded.limits()), options.repetitions, findings);
    loaded.plan = timed.plan;
    const CertifiedPlan& plan = loaded.plan;
    const uint64_t bound = plan.bound.packs;
    const bool met = Meets(loaded.set->target, plan);
    if (!met) {
      findings.Add(
          absl::StrCat(label, ": target missed with ", plan.packs, " packs, bound ", bound));
    }
    const std::optional<uint64_t> paper = PlanAsThePaper(loaded, findings);
    const auto& reference = loaded.set->reference;
    const SizeHistogram& histogram = loaded.histogram;
    table.AddRow({label, absl::StrCat(histogram.num_graphs()),
                  absl::StrCat(histogram.num_distinct()), absl::StrCat(histogram.num_components()),
                  absl::StrCat(bound), LowerBoundName(plan.bound, loaded.set->schema),
                  PacksText(PlanByNextFit(loaded, findings), bound),
                  paper ? PacksText(*paper, bound) : "-",
                  PacksText(PlanFirstFitDecreasing(loaded, findings), bound),
                  absl::StrCat(plan.packs), GapText(plan), plan.optimal() ? "yes" : "no",
                  std::string(PlanMethodName(plan.method)), Milliseconds(timed.median()),
                  absl::StrCat(Milliseconds(timed.milliseconds.front()), "-",
                               Milliseconds(timed.milliseconds.back())),
                  TargetText(loaded.set->target, met),
                  reference ? absl::StrCat(reference->packs, ", ", reference->milliseconds) : "-"});
  }
  table.Print(options.markdown);
}

std::vector<VectorLevel> LevelsOfThisMachine() {
  std::vector<VectorLevel> levels;
  for (const VectorLevel level : {VectorLevel::kPlain, VectorLevel::kAvx2, VectorLevel::kAvx512}) {
    if (level <= BestVectorLevel()) levels.push_back(level);
  }
  return levels;
}

void PrintLevels(absl::Span<const LoadedSet> sets, const TableOptions& options,
                 Findings& findings) {
  const std::vector<VectorLevel> levels = LevelsOfThisMachine();
  std::vector<std::string> columns = {"set (limits; most graphs)", "<same plan"};
  for (const VectorLevel level : levels) {
    columns.push_back(absl::StrCat(VectorLevelName(level), ", ms"));
  }
  Table table("Vector levels", std::move(columns));
  for (const LoadedSet& loaded : sets) {
    if (!loaded.set->on_each_level) continue;
    std::vector<std::string> times;
    std::optional<CertifiedPlan> first;
    bool same = true;
    for (const VectorLevel level : levels) {
      OptimizerOptions at_level = DefaultOptions(loaded.histogram, loaded.limits());
      at_level.vector_level = level;
      TimedPlan timed = TimePlan(loaded.Label(), loaded.histogram, loaded.limits(), at_level,
                                 options.repetitions, findings);
      times.push_back(Milliseconds(timed.median()));
      if (!first) {
        first = std::move(timed.plan);
      } else {
        same = same && SamePlan(first->plan, timed.plan.plan) &&
               first->bound.packs == timed.plan.bound.packs && first->steps == timed.plan.steps;
      }
    }
    if (!same) findings.Add(absl::StrCat(loaded.Label(), ": vector levels give different plans"));
    std::vector<std::string> row = {loaded.Label(), same ? "yes" : "NO"};
    row.insert(row.end(), times.begin(), times.end());
    table.AddRow(std::move(row));
  }
  table.Print(options.markdown);
}

void PrintSeeds(absl::Span<const LoadedSet> sets, const TableOptions& options, Findings& findings) {
  Table table(absl::StrCat("Seeds 0 to ", options.seeds - 1),
              {"set (limits; most graphs)", "bound", "fewest packs", "most packs", "proved",
               "<miss the target", "ms", "min-max"});
  for (const LoadedSet& loaded : sets) {
    uint64_t least_bound = UINT64_MAX;
    uint64_t bound = 0;
    uint64_t fewest = UINT64_MAX;
    uint64_t most = 0;
    uint64_t proved = 0;
    std::vector<uint64_t> missed;
    std::vector<double> milliseconds;
    for (uint64_t seed = 0; seed < options.seeds; ++seed) {
      OptimizerOptions seeded = DefaultOptions(loaded.histogram, loaded.limits());
      seeded.seed = seed;
      const TimedPlan timed = TimePlan(absl::StrCat(loaded.Label(), ", seed ", seed),
                                       loaded.histogram, loaded.limits(), seeded, 1, findings);
      least_bound = std::min(least_bound, timed.plan.bound.packs);
      bound = std::max(bound, timed.plan.bound.packs);
      fewest = std::min(fewest, timed.plan.packs);
      most = std::max(most, timed.plan.packs);
      proved += timed.plan.optimal();
      if (!Meets(loaded.set->target, timed.plan)) missed.push_back(seed);
      milliseconds.push_back(timed.median());
    }
    std::sort(milliseconds.begin(), milliseconds.end());
    // A bound that one seed proves holds for all.
    if (fewest < bound) findings.Add(absl::StrCat(loaded.Label(), ": bounds contradict plans"));
    table.AddRow(
        {loaded.Label(),
         least_bound == bound ? absl::StrCat(bound) : absl::StrCat(least_bound, "-", bound),
         absl::StrCat(fewest), absl::StrCat(most), absl::StrCat(proved, " of ", options.seeds),
         missed.empty() ? "none" : absl::StrJoin(missed, ", "),
         Milliseconds(milliseconds[milliseconds.size() / 2]),
         absl::StrCat(Milliseconds(milliseconds.front()), "-", Milliseconds(milliseconds.back()))});
  }
  table.Print(options.markdown);
}

// Draws the sizes of graphs in proportion to how many there are of each.
class SizeDraws {
 public:
  explicit SizeDraws(const SizeHistogram& histogram) : items_(ItemsOf(histogram)) {
    uint64_t graphs = 0;
    for (const uint64_t count : items_.counts) ends_.push_back(graphs += count);
  }

  SizeTuple Draw(Random& random) const {
    const auto it = std::upper_bound(ends_.begin(), ends_.end(), random.Below(ends_.back()));
    const auto tuple = items_.empty_plan.tuple(static_cast<size_t>(it - ends_.begin()));
    return SizeTuple(tuple.begin(), tuple.end());
  }

 private:
  PlanItems items_;
  std::vector<uint64_t> ends_;
};

// `per_mille` thousandths of the graphs change. Half of them leave, and as many new ones come.
SizeHistogram ChangeHistogram(const LoadedSet& loaded, uint64_t per_mille, uint64_t seed) {
  SizeHistogram changed = loaded.histogram;
  const SizeDraws draws(loaded.histogram);
  Random random(seed);
  const uint64_t changes =
      std::max<uint64_t>(1, loaded.histogram.num_graphs() * per_mille / 1000 / 2);
  for (uint64_t removed = 0; removed < changes;) {
    // Fails if all graphs of that size have left. Then another size is drawn.
    if (changed.Remove(draws.Draw(random)).ok()) ++removed;
  }
  for (uint64_t added = 0; added < changes; ++added) {
    const auto& draw = loaded.set->draw;
    changed.Add(draw ? draw(random) : draws.Draw(random)).IgnoreError();
  }
  return changed;
}

double Mean(absl::Span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void PrintReplanning(absl::Span<const LoadedSet> sets, const TableOptions& options,
                     Findings& findings) {
  Table table(absl::StrCat("Planning again, anew and from the old plan (means of ", options.changes,
                           " changes; ms: medians)"),
              {"set (limits; most graphs)", "changed", "bound", "anew, above", "warm, above",
               "anew, ms", "warm, ms", "anew / warm"});
  for (const LoadedSet& loaded : sets) {
    if (!loaded.set->replanned) continue;
    for (const uint64_t per_mille : kChangedPerMille) {
      std::vector<double> bounds, anew_above, warm_above, anew_ms, warm_ms;
      for (uint64_t change = 0; change < options.changes; ++change) {
        const SizeHistogram changed = ChangeHistogram(loaded, per_mille, change);
        const std::string what =
            absl::StrCat(loaded.Label(), ", ", per_mille, " per mille changed");
        const int repetitions = std::min(options.repetitions, 3);
        const TimedPlan anew =
            TimePlan(what, changed, loaded.limits(), DefaultOptions(changed, loaded.limits()),
                     repetitions, findings);
        OptimizerOptions from_old = DefaultOptions(changed, loaded.limits());
        from_old.warm_start = &loaded.plan.plan;
        const TimedPlan warm =
            TimePlan(what + ", warm", changed, loaded.limits(), from_old, repetitions, findings);
        // A bound that one of them proves holds for both.
        const uint64_t bound = std::max(anew.plan.bound.packs, warm.plan.bound.packs);
        bounds.push_back(static_cast<double>(bound));
        anew_above.push_back(static_cast<double>(anew.plan.packs - bound));
        warm_above.push_back(static_cast<double>(warm.plan.packs - bound));
        anew_ms.push_back(anew.median());
        warm_ms.push_back(warm.median());
      }
      table.AddRow(
          {loaded.Label(), absl::StrFormat("%.1f %%", 0.1 * static_cast<double>(per_mille)),
           absl::StrFormat("%.0f", Mean(bounds)), absl::StrFormat("%.1f", Mean(anew_above)),
           absl::StrFormat("%.1f", Mean(warm_above)), Milliseconds(Median(anew_ms)),
           Milliseconds(Median(warm_ms)),
           absl::StrFormat("%.1f", Median(anew_ms) / Median(warm_ms))});
    }
  }
  table.Print(options.markdown);
}

void PrintBudgets(absl::Span<const LoadedSet> sets, const TableOptions& options,
                  Findings& findings) {
  std::vector<std::string> columns = {"set (limits; most graphs)", "bound"};
  for (const uint64_t steps : kBudgets) {
    columns.push_back(absl::StrCat("10^", absl::StrCat(steps).size() - 1, " steps, ms"));
  }
  Table table("Packs by budget, of what the default does not prove optimal", std::move(columns));
  for (const LoadedSet& loaded : sets) {
    if (loaded.plan.optimal()) continue;
    uint64_t bound = 0;
    std::vector<std::string> cells;
    for (const uint64_t steps : kBudgets) {
      OptimizerOptions budgeted;
      budgeted.steps = steps;
      const TimedPlan timed =
          TimePlan(absl::StrCat(loaded.Label(), ", ", steps, " steps"), loaded.histogram,
                   loaded.limits(), budgeted, std::min(options.repetitions, 3), findings);
      bound = std::max(bound, timed.plan.bound.packs);
      cells.push_back(absl::StrCat(timed.plan.packs, timed.plan.optimal() ? " proved" : "", ", ",
                                   Milliseconds(timed.median())));
    }
    std::vector<std::string> row = {loaded.Label(), absl::StrCat(bound)};
    row.insert(row.end(), cells.begin(), cells.end());
    table.AddRow(std::move(row));
  }
  table.Print(options.markdown);
}

std::string ProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (absl::StartsWith(line, "model name") && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "unknown processor";
}

void PrintCircumstances(const TableOptions& options) {
  double load = 0;
  ::getloadavg(&load, 1);
  std::printf("%s; one core of %s (%s); load average %.2f when it began; %d repetitions%s\n",
              absl::FormatTime("%Y-%m-%d", absl::Now(), absl::UTCTimeZone()).c_str(),
              ProcessorName().c_str(), std::string(VectorLevelName(BestVectorLevel())).c_str(),
              load, options.repetitions,
#ifdef NDEBUG
              ""
#else
              "; NOT A RELEASE BUILD"
#endif
  );
  if (load > 1) std::printf("Preliminary: something else was running.\n");
  std::fflush(stdout);
}

bool Wanted(const std::vector<std::string>& only, const std::string& name) {
  return only.empty() || std::any_of(only.begin(), only.end(), [&](const std::string& part) {
           return absl::StrContains(name, part);
         });
}

int Run(const TableOptions& options) {
  const std::vector<PlanningSet> sets = PlanningSets();
  Findings findings;
  std::vector<LoadedSet> loaded_sets;
  PrintCircumstances(options);
  if (std::none_of(sets.begin(), sets.end(),
                   [&](const PlanningSet& set) { return Wanted(options.only, set.name); })) {
    findings.Add(
        absl::StrCat("--only: no set's name contains ", absl::StrJoin(options.only, ", ")));
  }
  for (const PlanningSet& set : sets) {
    if (!Wanted(options.only, set.name)) continue;
    std::optional<SizeHistogram> histogram = set.read();
    if (!histogram) {
      std::printf("skipped, its data is not at hand: %s\n", set.name.c_str());
      continue;
    }
    if (const auto status = CheckEachGraphFits(*histogram, set.limits, set.schema); !status.ok()) {
      findings.Add(absl::StrCat(set.name, ": ", status.message()));
      continue;
    }
    loaded_sets.push_back({&set, *std::move(histogram), {}});
  }
  const auto shown = [&](absl::string_view name) {
    return std::find(options.tables.begin(), options.tables.end(), name) != options.tables.end();
  };
  if (shown("sets")) PrintSets(loaded_sets, options);
  if (shown("plans")) {
    PrintPlans(absl::MakeSpan(loaded_sets), options, findings);
  } else {
    for (LoadedSet& loaded : loaded_sets) {
      loaded.plan = TimePlan(loaded.Label(), loaded.histogram, loaded.limits(),
                             DefaultOptions(loaded.histogram, loaded.limits()), 1, findings)
                        .plan;
    }
  }
  if (shown("levels")) PrintLevels(loaded_sets, options, findings);
  if (shown("seeds")) PrintSeeds(loaded_sets, options, findings);
  if (shown("replanning")) PrintReplanning(loaded_sets, options, findings);
  if (shown("budget")) PrintBudgets(loaded_sets, options, findings);
  if (findings.count() == 0) return 0;
  std::printf("\n%d FAILURES, named on standard error\n", findings.count());
  return 1;
}

}  // namespace
}  // namespace packhouse

int main(int argc, char** argv) {
  packhouse::TableOptions options;
  CLI::App app(
      "Tables of what the planner reaches; exit status 1 if a plan is wrong or a target is "
      "missed.");
  app.add_option("--repetitions", options.repetitions, "Runs that a time is the median of")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seeds", options.seeds, "Seeds tried in the table of seeds")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--changes", options.changes, "Changes tried for each row on planning again")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--only", options.only, "Sets whose names contain one of these; all by default")
      ->delimiter(',');
  app.add_option("--tables", options.tables, "Tables to print")
      ->delimiter(',')
      ->check(CLI::IsMember({"sets", "plans", "levels", "seeds", "replanning", "budget"}))
      ->capture_default_str();
  app.add_flag("--markdown", options.markdown, "Tables as Markdown");
  CLI11_PARSE(app, argc, argv);
  return packhouse::Run(options);
}

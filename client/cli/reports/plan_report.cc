#include "client/cli/reports/plan_report.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "client/cpp/little_endian.h"
#include "service/command_line/table.h"

namespace packhouse::client {
namespace {

// The sections of the report, in order.
enum class Section { kPlanners, kHeuristics, kNotebook, kBaselines };

Section SectionOf(const v1::PlanSummary& summary) {
  switch (summary.heuristic().algorithm()) {
    case v1::PLAN_ALGORITHM_OPTIMIZED:
    case v1::PLAN_ALGORITHM_FIRST_FIT_DECREASING:
      return Section::kPlanners;
    case v1::PLAN_ALGORITHM_NOTEBOOK:
      return Section::kNotebook;
    case v1::PLAN_ALGORITHM_NO_PACKING:
    case v1::PLAN_ALGORITHM_SINGLE_COMPONENT:
      return Section::kBaselines;
    default:
      return Section::kHeuristics;
  }
}

std::string SectionName(Section section) {
  switch (section) {
    case Section::kPlanners:
      return "planner";
    case Section::kHeuristics:
      return "heuristic";
    case Section::kNotebook:
      return "notebook";
    case Section::kBaselines:
      break;
  }
  return "baseline";
}

// Above the section's rows.
std::string HeadingOf(Section section) {
  switch (section) {
    case Section::kPlanners:
      return "planners";
    case Section::kHeuristics:
      return "the paper's tuple packing";
    case Section::kNotebook:
      return "as the paper's companion notebook computes it";
    case Section::kBaselines:
      break;
  }
  return "baselines (a single component ignores the other limits)";
}

std::vector<TextTable::Column> ColumnsFor(const v1::PlanSummary& best) {
  std::vector<TextTable::Column> columns = {
      {"  planner", ""}, {"packs", ""}, {"lower bound", ""}, {"gap %", ""}};
  for (const char* const group : {"efficiency %", "of the fullest pack %"}) {
    for (const v1::ComponentEfficiency& component : best.components()) {
      if (component.capacity() != 0) columns.push_back({component.component(), group});
    }
  }
  return columns;
}

std::vector<std::string> CellsOf(const v1::PlanSummary& summary, bool is_best) {
  std::vector<std::string> cells = {absl::StrCat(is_best ? "* " : "  ", summary.name())};
  if (summary.unfinished()) {
    cells.emplace_back("unfinished");
    return cells;
  }
  cells.push_back(absl::StrCat(summary.packs()));
  cells.push_back(absl::StrCat(summary.lower_bound()));
  cells.push_back(Percent(summary.gap()));
  for (const v1::ComponentEfficiency& component : summary.components()) {
    if (component.capacity() != 0) cells.push_back(Percent(component.efficiency()));
  }
  for (const v1::ComponentEfficiency& component : summary.components()) {
    if (component.capacity() != 0) cells.push_back(Percent(component.efficiency_of_fullest()));
  }
  return cells;
}

double Seconds(const v1::PlanSummary& summary) {
  return static_cast<double>(summary.elapsed().seconds()) + 1e-9 * summary.elapsed().nanos();
}

std::string Elapsed(const v1::PlanSummary& summary) {
  const double seconds = Seconds(summary);
  return seconds < 1 ? absl::StrFormat("%.1f ms", 1e3 * seconds)
                     : absl::StrFormat("%.2f s", seconds);
}

// A size tuple of a plan; zeros if the plan does not have it.
std::vector<uint32_t> TupleAt(const v1::PackingPlan& plan, std::size_t width, uint32_t index) {
  const LittleEndianView<uint32_t> values(plan.tuples());
  std::vector<uint32_t> tuple(width);
  for (std::size_t k = 0; k < width; ++k) {
    const std::size_t i = index * width + k;
    if (i < values.size()) tuple[k] = values[i];
  }
  return tuple;
}

Json SummaryJson(const v1::PlanSummary& summary) {
  Json json = {{"name", summary.name()},
               {"section", SectionName(SectionOf(summary))},
               {"unfinished", summary.unfinished()}};
  if (summary.unfinished()) return json;
  json["packs"] = summary.packs();
  json["lower_bound"] = summary.lower_bound();
  json["lower_bound_name"] = summary.lower_bound_name();
  json["gap"] = summary.gap();
  json["optimal"] = summary.optimal();
  json["keeps_limits"] = summary.keeps_limits();
  json["num_patterns"] = summary.num_patterns();
  json["elapsed_seconds"] = Seconds(summary);
  if (summary.heuristic().algorithm() == v1::PLAN_ALGORITHM_OPTIMIZED) {
    json["winner"] = summary.winner();
    json["steps"] = summary.steps();
    json["receipt"] = summary.receipt();
  }
  json["components"] = EfficienciesJson(summary.components());
  return json;
}

}  // namespace

std::string PlanCertificate(const v1::PlanSummary& best) {
  const std::string packs = Grouped(best.packs());
  std::vector<std::string> efficiencies;
  for (const v1::ComponentEfficiency& component : best.components()) {
    if (component.capacity() == 0) continue;
    efficiencies.push_back(
        absl::StrCat(component.component(), " ", Percent(component.efficiency(), 3), " %"));
  }
  std::string found_by = best.winner().empty() ? best.name() : best.winner();
  if (best.steps() > 0) absl::StrAppend(&found_by, ", ", Grouped(best.steps()), " steps");
  absl::StrAppend(&found_by, ", ", Elapsed(best));

  std::string text = absl::StrCat(
      "packs        ", packs,
      best.optimal() ? ", proved optimal: no plan has fewer"
                     : absl::StrCat(", at most ", Grouped(best.packs() - best.lower_bound()), " (",
                                    SmallPercent(best.gap()), ") more than the fewest possible"),
      "\nlower bound  ", Grouped(best.lower_bound()), ", by ", best.lower_bound_name(),
      "\nefficiency   ", absl::StrJoin(efficiencies, ", "), "\nfound by     ", found_by, "\n");
  if (!best.receipt().empty()) absl::StrAppend(&text, "receipt      ", best.receipt(), "\n");
  return text;
}

ComparisonTable::ComparisonTable(const v1::PlanSummary& best,
                                 const std::vector<v1::PlanSummary>& others)
    : best_(best), columns_(ColumnsFor(best)) {
  // As wide as what may follow.
  constexpr std::size_t kWidth = 10;
  for (std::size_t i = 1; i < columns_.size(); ++i) columns_[i].min_width = i < 2 ? kWidth : 6;
  columns_[3].min_width = kWidth;
  std::size_t longest = best.name().size();
  for (const v1::PlanSummary& other : others) longest = std::max(longest, other.name().size());
  columns_[0].min_width = longest + 2;
}

std::string ComparisonTable::Head() {
  TextTable table(columns_);
  table.AddRow(CellsOf(best_, true));
  return table.Render();
}

std::string ComparisonTable::Row(const v1::PlanSummary& summary) {
  TextTable table(columns_);
  const Section section = SectionOf(summary);
  if (const int number = static_cast<int>(section); number != section_) {
    section_ = number;
    table.AddHeading("");
    table.AddHeading(HeadingOf(section));
  }
  table.AddRow(CellsOf(summary, false));
  return table.RenderBody();
}

std::string ComparisonEnd(const v1::PlanSummary& best,
                          const std::vector<v1::PlanSummary>& summaries, bool all) {
  std::vector<std::string> better;
  std::vector<std::string> unfinished;
  for (const v1::PlanSummary& summary : summaries) {
    if (summary.unfinished()) {
      unfinished.push_back(summary.name());
    } else if (summary.keeps_limits() && summary.packs() < best.packs()) {
      better.push_back(absl::StrCat(summary.name(), " (", summary.packs(), ")"));
    }
  }
  std::string text =
      better.empty() ? "* the fewest packs\n"
                     : absl::StrCat("fewer packs than * have: ", absl::StrJoin(better, ", "), "\n");
  if (!unfinished.empty()) {
    absl::StrAppend(&text, "unfinished: ", absl::StrJoin(unfinished, ", "),
                    all ? "" : "; --compare all waits for them", "\n");
  }
  return text;
}

std::string SummaryTable(const v1::PlanResponse& response) {
  TextTable table(ColumnsFor(response.best()));
  bool best_shown = false;
  const auto add = [&](const v1::PlanSummary& summary) {
    const bool is_best = !best_shown && summary.name() == response.best().name();
    best_shown = best_shown || is_best;
    table.AddRow(CellsOf(summary, is_best));
  };
  bool any_row = false;
  const auto add_section = [&](Section section) {
    bool headed = false;
    for (const v1::PlanSummary& summary : response.summaries()) {
      if (SectionOf(summary) != section) continue;
      // The first section of the table needs no heading.
      if (!headed && any_row) {
        table.AddHeading("");
        table.AddHeading(HeadingOf(section));
      }
      headed = true;
      any_row = true;
      add(summary);
    }
  };
  add_section(Section::kPlanners);
  add_section(Section::kHeuristics);
  add_section(Section::kNotebook);
  add_section(Section::kBaselines);
  return table.Render() + "* the fewest packs\n";
}

std::string PatternList(const v1::PlanResponse& response,
                        const std::vector<std::string>& components, uint64_t count) {
  const auto shown = static_cast<int>(
      std::min<uint64_t>(count, static_cast<uint64_t>(response.plan().patterns_size())));
  std::string text =
      absl::StrCat("first ", shown, " of the ", response.plan().patterns_size(), " patterns of ",
                   response.best().name(), ", graphs as (", absl::StrJoin(components, ", "), ")\n");
  for (int i = 0; i < shown; ++i) {
    const v1::Pattern& pattern = response.plan().patterns(i);
    std::vector<std::string> entries;
    for (const v1::PatternEntry& entry : pattern.entries()) {
      entries.push_back(absl::StrCat(
          entry.copies(), " x (",
          absl::StrJoin(TupleAt(response.plan(), components.size(), entry.tuple()), ", "), ")"));
    }
    absl::StrAppendFormat(&text, "%7d packs of  %s\n", pattern.repeats(),
                          absl::StrJoin(entries, " + "));
  }
  return text;
}

Json PlanJson(const v1::PlanResponse& response, const std::vector<std::string>& components,
              uint64_t count) {
  Json summaries = Json::array();
  for (const v1::PlanSummary& summary : response.summaries()) {
    summaries.push_back(SummaryJson(summary));
  }
  Json json = {{"best", SummaryJson(response.best())}, {"summaries", std::move(summaries)}};
  if (count == 0) return json;
  Json patterns = Json::array();
  for (const v1::Pattern& pattern : response.plan().patterns()) {
    if (patterns.size() == count) break;
    Json graphs = Json::array();
    for (const v1::PatternEntry& entry : pattern.entries()) {
      const std::vector<uint32_t> tuple =
          TupleAt(response.plan(), components.size(), entry.tuple());
      Json graph = Json::object();
      for (std::size_t k = 0; k < components.size(); ++k) graph[components[k]] = tuple[k];
      graph["copies"] = entry.copies();
      graphs.push_back(std::move(graph));
    }
    patterns.push_back({{"repeats", pattern.repeats()}, {"graphs", std::move(graphs)}});
  }
  json["patterns"] = std::move(patterns);
  return json;
}

Json EfficienciesJson(
    const google::protobuf::RepeatedPtrField<v1::ComponentEfficiency>& components) {
  Json efficiencies = Json::array();
  for (const v1::ComponentEfficiency& component : components) {
    efficiencies.push_back({{"component", component.component()},
                            {"capacity", component.capacity()},
                            {"efficiency", component.efficiency()},
                            {"fullest_pack", component.fullest_pack()},
                            {"efficiency_of_fullest", component.efficiency_of_fullest()}});
  }
  return efficiencies;
}

}  // namespace packhouse::client

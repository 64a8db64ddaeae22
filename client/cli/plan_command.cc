#include "client/cli/plan_command.h"

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/cli/sizes_file.h"
#include "client/cli/table.h"
#include "client/cpp/little_endian.h"
#include "client/cpp/status.h"
#include "grpcpp/client_context.h"
#include "packhouse/v1/planning.grpc.pb.h"

namespace packhouse::client {
namespace {

struct PlanArguments {
  std::string server;
  std::string sizes;
  std::vector<std::string> limits;
  std::vector<std::string> heuristics;
  bool no_baselines = false;
  bool no_notebook = false;
  bool json = false;
  uint32_t patterns = 0;
};

// The sections of the report, in order.
enum class Section { kHeuristics, kNotebook, kBaselines };

Section SectionOf(const v1::PlanSummary& summary) {
  switch (summary.heuristic().algorithm()) {
    case v1::PLAN_ALGORITHM_NOTEBOOK:
      return Section::kNotebook;
    case v1::PLAN_ALGORITHM_NO_PACKING:
    case v1::PLAN_ALGORITHM_SINGLE_COMPONENT:
      return Section::kBaselines;
    default:
      return Section::kHeuristics;
  }
}

// Parses `best-fit:PRIORITY`, `first-fit:PRIORITY`, either with `filling-` before it,
// `notebook:PRIORITY`, `no-packing` and `single-component:COMPONENT`, where PRIORITY is product,
// sum, max, min or a component.
absl::StatusOr<v1::PlanHeuristic> ParseHeuristic(const std::string& text,
                                                 const std::vector<std::string>& components) {
  std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
  const std::string priority = parts.size() == 2 ? parts[1] : "";
  v1::PlanHeuristic heuristic;
  heuristic.set_algorithm(v1::PLAN_ALGORITHM_TUPLE_PACKING);
  heuristic.set_placement(v1::PLACEMENT_RULE_BEST_FIT);
  if (parts[0] == "filling-best-fit" || parts[0] == "filling-first-fit") {
    parts[0].erase(0, sizeof("filling-") - 1);
    heuristic.set_opening(v1::OPENING_RULE_FILL);
  }
  if (parts[0] == "first-fit") {
    heuristic.set_placement(v1::PLACEMENT_RULE_FIRST_FIT);
  } else if (parts[0] == "notebook") {
    heuristic.set_algorithm(v1::PLAN_ALGORITHM_NOTEBOOK);
  } else if (text == "no-packing") {
    heuristic.Clear();
    heuristic.set_algorithm(v1::PLAN_ALGORITHM_NO_PACKING);
    return heuristic;
  } else if (parts[0] == "single-component") {
    heuristic.set_algorithm(v1::PLAN_ALGORITHM_SINGLE_COMPONENT);
  } else if (parts[0] != "best-fit") {
    return absl::InvalidArgumentError(
        absl::StrCat("--heuristic '", text,
                     "': must be [filling-]best-fit:PRIORITY, [filling-]first-fit:PRIORITY, "
                     "notebook:PRIORITY, no-packing or single-component:COMPONENT"));
  }
  v1::Priority& wanted = *heuristic.mutable_priority();
  const bool kind_allowed = heuristic.algorithm() != v1::PLAN_ALGORITHM_SINGLE_COMPONENT;
  if (kind_allowed && priority == "product") {
    wanted.set_kind(v1::PRIORITY_KIND_PRODUCT);
  } else if (kind_allowed && priority == "sum") {
    wanted.set_kind(v1::PRIORITY_KIND_SUM);
  } else if (kind_allowed && priority == "max") {
    wanted.set_kind(v1::PRIORITY_KIND_MAX);
  } else if (kind_allowed && priority == "min") {
    wanted.set_kind(v1::PRIORITY_KIND_MIN);
  } else if (std::find(components.begin(), components.end(), priority) != components.end()) {
    wanted.set_kind(v1::PRIORITY_KIND_COMPONENT);
    wanted.set_component(priority);
  } else {
    return absl::InvalidArgumentError(absl::StrCat(
        "--heuristic '", text, "': '", priority, "' is none of ",
        kind_allowed ? "product, sum, max, min, " : "", absl::StrJoin(components, ", ")));
  }
  return heuristic;
}

absl::StatusOr<v1::PlanResponse> RequestPlan(const std::string& server,
                                             const v1::PlanRequest& request) {
  const absl::StatusOr<ServerConnection> connection = ConnectToServer(server);
  if (!connection.ok()) return connection.status();
  const auto stub = v1::PlanningService::NewStub(connection->channel);
  grpc::ClientContext context;
  context.set_deadline(CallDeadline());
  v1::PlanResponse response;
  const grpc::Status status = stub->Plan(&context, request, &response);
  if (!status.ok()) return ToAbslStatus(status);
  return response;
}

TextTable SummaryTable(const v1::PlanResponse& response) {
  std::vector<TextTable::Column> columns = {
      {"  heuristic", ""}, {"packs", ""}, {"lower bound", ""}, {"gap %", ""}};
  for (const char* const group : {"efficiency %", "of the fullest pack %"}) {
    for (const v1::ComponentEfficiency& component : response.best().components()) {
      if (component.capacity() != 0) columns.push_back({component.component(), group});
    }
  }
  TextTable table(columns);
  bool best_shown = false;
  const auto add = [&](const v1::PlanSummary& summary) {
    const bool best = !best_shown && summary.name() == response.best().name();
    best_shown = best_shown || best;
    std::vector<std::string> cells = {absl::StrCat(best ? "* " : "  ", summary.name())};
    if (summary.unfinished()) {
      cells.emplace_back("unfinished");
    } else {
      cells.push_back(absl::StrCat(summary.packs()));
      cells.push_back(absl::StrCat(summary.lower_bound(), " (", summary.lower_bound_name(), ")"));
      cells.push_back(Percent(summary.gap()));
      for (const v1::ComponentEfficiency& component : summary.components()) {
        if (component.capacity() != 0) cells.push_back(Percent(component.efficiency()));
      }
      for (const v1::ComponentEfficiency& component : summary.components()) {
        if (component.capacity() != 0) cells.push_back(Percent(component.efficiency_of_fullest()));
      }
    }
    cells.resize(columns.size());
    table.AddRow(std::move(cells));
  };
  const auto add_section = [&](Section section, const std::string& heading) {
    bool headed = heading.empty();
    for (const v1::PlanSummary& summary : response.summaries()) {
      if (SectionOf(summary) != section) continue;
      if (!headed) {
        table.AddHeading("");
        table.AddHeading(heading);
        headed = true;
      }
      add(summary);
    }
  };
  add_section(Section::kHeuristics, "");
  add_section(Section::kNotebook, "as the paper's companion notebook computes them");
  add_section(Section::kBaselines, "baselines (a single component ignores the other limits)");
  return table;
}

// Size tuples of a plan, each as `(20, 44)`.
std::vector<std::string> TupleNames(const v1::PackingPlan& plan, std::size_t num_components) {
  const LittleEndianView<uint32_t> values(plan.tuples());
  std::vector<std::string> names;
  for (std::size_t i = 0; num_components > 0 && i + num_components <= values.size();
       i += num_components) {
    std::vector<uint32_t> tuple;
    for (std::size_t k = 0; k < num_components; ++k) tuple.push_back(values[i + k]);
    names.push_back(absl::StrCat("(", absl::StrJoin(tuple, ", "), ")"));
  }
  return names;
}

void PrintPatterns(const PlanArguments& arguments, const std::vector<std::string>& components,
                   const v1::PlanResponse& response) {
  const std::vector<std::string> tuples = TupleNames(response.plan(), components.size());
  const int shown = static_cast<int>(std::min<uint64_t>(
      arguments.patterns, static_cast<uint64_t>(response.plan().patterns_size())));
  std::cout << "\nfirst " << shown << " of the " << response.plan().patterns_size()
            << " patterns of " << response.best().name() << ", graphs as ("
            << absl::StrJoin(components, ", ") << ")\n";
  for (int i = 0; i < shown; ++i) {
    const v1::Pattern& pattern = response.plan().patterns(i);
    std::vector<std::string> entries;
    for (const v1::PatternEntry& entry : pattern.entries()) {
      entries.push_back(
          absl::StrCat(entry.copies(), " x ",
                       entry.tuple() < tuples.size() ? tuples[entry.tuple()] : std::string("?")));
    }
    std::cout << absl::StrFormat("%7d packs of  %s\n", pattern.repeats(),
                                 absl::StrJoin(entries, " + "));
  }
}

std::string Quoted(absl::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      absl::StrAppend(&quoted, "\\", absl::string_view(&c, 1));
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&quoted, "\\u%04x", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string SummaryAsJson(const v1::PlanSummary& summary) {
  std::string json =
      absl::StrFormat(R"({"name": %s, "section": "%s", "unfinished": %s)", Quoted(summary.name()),
                      SectionOf(summary) == Section::kNotebook    ? "notebook"
                      : SectionOf(summary) == Section::kBaselines ? "baseline"
                                                                  : "heuristic",
                      summary.unfinished() ? "true" : "false");
  if (summary.unfinished()) return json + "}";
  absl::StrAppendFormat(
      &json,
      R"(, "packs": %d, "lower_bound": %d, "lower_bound_name": %s, "gap": %.17g, )"
      R"("keeps_limits": %s, "num_patterns": %d, "elapsed_seconds": %.9g, "components": [)",
      summary.packs(), summary.lower_bound(), Quoted(summary.lower_bound_name()), summary.gap(),
      summary.keeps_limits() ? "true" : "false", summary.num_patterns(),
      static_cast<double>(summary.elapsed().seconds()) + 1e-9 * summary.elapsed().nanos());
  absl::StrAppend(&json,
                  absl::StrJoin(summary.components(), ", ",
                                [](std::string* text, const v1::ComponentEfficiency& component) {
                                  absl::StrAppendFormat(
                                      text,
                                      R"({"component": %s, "capacity": %d, "efficiency": %.17g, )"
                                      R"("fullest_pack": %d, "efficiency_of_fullest": %.17g})",
                                      Quoted(component.component()), component.capacity(),
                                      component.efficiency(), component.fullest_pack(),
                                      component.efficiency_of_fullest());
                                }),
                  "]}");
  return json;
}

void PrintJson(const PlanArguments& arguments, const std::vector<std::string>& components,
               const v1::PlanResponse& response) {
  std::vector<std::string> summaries;
  for (const v1::PlanSummary& summary : response.summaries()) {
    summaries.push_back(SummaryAsJson(summary));
  }
  std::cout << "{\"best\": " << SummaryAsJson(response.best()) << ",\n \"summaries\": [\n  "
            << absl::StrJoin(summaries, ",\n  ") << "]";
  if (arguments.patterns > 0) {
    const LittleEndianView<uint32_t> values(response.plan().tuples());
    std::vector<std::string> patterns;
    for (const v1::Pattern& pattern : response.plan().patterns()) {
      if (patterns.size() == arguments.patterns) break;
      std::vector<std::string> entries;
      for (const v1::PatternEntry& entry : pattern.entries()) {
        std::vector<std::string> fields;
        for (std::size_t k = 0; k < components.size(); ++k) {
          const std::size_t i = entry.tuple() * components.size() + k;
          const uint32_t value = i < values.size() ? values[i] : 0;
          fields.push_back(absl::StrCat(Quoted(components[k]), ": ", value));
        }
        fields.push_back(absl::StrCat("\"copies\": ", entry.copies()));
        entries.push_back(absl::StrCat("{", absl::StrJoin(fields, ", "), "}"));
      }
      patterns.push_back(absl::StrCat(R"({"repeats": )", pattern.repeats(), R"(, "graphs": [)",
                                      absl::StrJoin(entries, ", "), "]}"));
    }
    std::cout << ",\n \"patterns\": [\n  " << absl::StrJoin(patterns, ",\n  ") << "]";
  }
  std::cout << "}\n";
}

ExitCode RunPlan(const PlanArguments& arguments) {
  const absl::StatusOr<GraphSizes> sizes = ReadSizesFile(arguments.sizes);
  if (!sizes.ok()) return Fail(sizes.status());
  v1::PlanRequest request;
  absl::StatusOr<v1::Limits> limits = ParseLimits(arguments.limits, sizes->components);
  if (!limits.ok()) return Misuse(limits.status());
  *request.mutable_limits() = *std::move(limits);
  for (const std::string& text : arguments.heuristics) {
    absl::StatusOr<v1::PlanHeuristic> heuristic = ParseHeuristic(text, sizes->components);
    if (!heuristic.ok()) return Misuse(heuristic.status());
    *request.add_heuristics() = *std::move(heuristic);
  }
  absl::StatusOr<v1::Histogram> histogram = MakeHistogram(*sizes);
  if (!histogram.ok()) return Fail(histogram.status());
  *request.mutable_histogram() = *std::move(histogram);
  // Who names heuristics wants to see those.
  request.set_include_baselines(!arguments.no_baselines && arguments.heuristics.empty());
  request.set_include_notebook(!arguments.no_notebook && arguments.heuristics.empty());
  request.set_summaries_only(arguments.patterns == 0);

  const absl::StatusOr<v1::PlanResponse> response = RequestPlan(arguments.server, request);
  if (!response.ok()) return Fail(response.status());
  if (arguments.json) {
    PrintJson(arguments, sizes->components, *response);
    return kExitOk;
  }
  uint64_t graphs = 0;
  const LittleEndianView<uint64_t> counts(request.histogram().counts());
  for (std::size_t i = 0; i < counts.size(); ++i) graphs += counts[i];
  std::cout << graphs << " graphs of " << counts.size() << " sizes in "
            << NameOfFile(arguments.sizes) << "; limits " << Describe(request.limits()) << "\n\n"
            << SummaryTable(*response).Render() << "* the fewest packs\n";
  if (arguments.patterns > 0) PrintPatterns(arguments, sizes->components, *response);
  return kExitOk;
}

}  // namespace

void AddPlanCommand(CLI::App& app, ExitCode& code) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* const command =
      app.add_subcommand("plan", "Plan packs for a whole histogram and compare the heuristics");
  AddSizesOption(arguments->sizes, *command);
  AddLimitOption(arguments->limits, *command);
  command->get_option("--limit")->required();
  command
      ->add_option(
          "--heuristic", arguments->heuristics,
          "Try only this: best-fit:P, first-fit:P, filling-best-fit:P, filling-first-fit:P "
          "or notebook:P with P product, sum, max, min or a component; no-packing; "
          "single-component:COMPONENT; may be repeated")
      ->type_name("HEURISTIC")
      ->allow_extra_args(false);
  command->add_flag("--no-baselines", arguments->no_baselines, "Leave out the paper's baselines");
  command->add_flag("--no-notebook", arguments->no_notebook,
                    "Leave out the companion notebook's variant");
  command
      ->add_option("--patterns", arguments->patterns, "Print the first N patterns of the best plan")
      ->type_name("N");
  command->add_flag("--json", arguments->json, "Print JSON: ratios in [0, 1], times in seconds");
  AddServerOption(arguments->server, *command);
  command->callback([arguments, &code] { code = RunPlan(*arguments); });
}

}  // namespace packhouse::client

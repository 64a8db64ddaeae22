#include "client/cli/commands/plan_command.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/commands/plan_comparison.h"
#include "client/cli/commands/receipt_plan.h"
#include "client/cli/files/plan_file.h"
#include "client/cli/plots/gnuplot.h"
#include "client/cli/plots/plan_plot.h"
#include "client/cli/reports/plan_report.h"
#include "client/cli/size_source.h"
#include "client/cpp/little_endian.h"
#include "client/cpp/status.h"
#include "client/graph/files/sizes_file.h"
#include "grpcpp/client_context.h"
#include "packhouse/v1/planning.grpc.pb.h"
#include "service/command_line/table.h"

namespace packhouse::client {
namespace {

struct PlanArguments {
  std::string server;
  SizeSource source;
  std::string receipt;
  std::vector<std::string> limits;
  PaddingArguments padding;
  std::vector<std::string> heuristics;
  bool no_tuple_packing = false;
  bool no_baselines = false;
  bool no_notebook = false;
  std::string compare = "quick";
  // How long `quick` compares.
  double compare_seconds = 2;
  uint64_t budget_steps = 0;
  uint64_t seed = 0;
  std::string warm_start;
  std::string save_plan;
  std::string plot;
  std::vector<std::string> axes;
  bool json = false;
  uint32_t patterns = 0;
};

// Parses `optimized`, `first-fit-decreasing`, `best-fit:PRIORITY`, `first-fit:PRIORITY`, either of
// these with `filling-` before it, `notebook:PRIORITY`, `no-packing` and
// `single-component:COMPONENT`, where PRIORITY is product, sum, max, min or a component.
absl::StatusOr<v1::PlanHeuristic> ParseHeuristic(const std::string& text,
                                                 const std::vector<std::string>& components) {
  std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
  const std::string priority = parts.size() == 2 ? parts[1] : "";
  v1::PlanHeuristic heuristic;
  for (const auto& [name, algorithm] : {
           std::pair("optimized", v1::PLAN_ALGORITHM_OPTIMIZED),
           std::pair("first-fit-decreasing", v1::PLAN_ALGORITHM_FIRST_FIT_DECREASING),
           std::pair("no-packing", v1::PLAN_ALGORITHM_NO_PACKING),
       }) {
    if (text != name) continue;
    heuristic.set_algorithm(algorithm);
    return heuristic;
  }
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
  } else if (parts[0] == "single-component") {
    heuristic.set_algorithm(v1::PLAN_ALGORITHM_SINGLE_COMPONENT);
  } else if (parts[0] != "best-fit") {
    return absl::InvalidArgumentError(
        absl::StrCat("--heuristic '", text,
                     "': must be optimized, first-fit-decreasing, [filling-]best-fit:PRIORITY, "
                     "[filling-]first-fit:PRIORITY, notebook:PRIORITY, no-packing or "
                     "single-component:COMPONENT"));
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

absl::StatusOr<v1::PlanResponse> RequestPlan(v1::PlanningService::Stub& stub,
                                             const v1::PlanRequest& request) {
  grpc::ClientContext context;
  context.set_deadline(CallDeadline());
  v1::PlanResponse response;
  const grpc::Status status = stub.Plan(&context, request, &response);
  if (!status.ok()) return ToAbslStatus(status);
  return response;
}

// The components of a picture: those that were named, otherwise the first two with a limit.
std::vector<std::string> AxesOf(const PlanArguments& arguments, const GraphSizes& sizes,
                                const v1::Limits& limits) {
  if (!arguments.axes.empty()) return arguments.axes;
  const std::vector<uint64_t> capacities = CapacitiesOf(limits, sizes.components);
  std::vector<std::string> axes;
  for (std::size_t k = 0; k < sizes.components.size() && axes.size() < 2; ++k) {
    if (capacities[k] != 0) axes.push_back(sizes.components[k]);
  }
  // Only `graphs` has a limit.
  if (axes.empty()) axes.push_back(sizes.components.front());
  return axes;
}

absl::Status Draw(const PlanArguments& arguments, const HistogramView& view,
                  const GraphSizes& histogram, const v1::PlanResponse& response) {
  uint64_t graphs = 0;
  for (const uint64_t count : histogram.counts) graphs += count;
  const absl::StatusOr<std::string> script = PlanPicture(
      arguments.plot,
      absl::StrCat(
          NameOfSizes(arguments.source), ": ", Grouped(graphs), " graphs in ",
          Grouped(response.best().packs()), " packs, ",
          response.best().optimal()
              ? "proved optimal"
              : absl::StrCat("at least ", Grouped(response.best().lower_bound()), " are needed")),
      view, histogram, response);
  if (!script.ok()) return script.status();
  return DrawWithGnuplot(*script, arguments.plot);
}

// Finds contradictions before anything is read.
absl::Status CheckArguments(const PlanArguments& arguments) {
  if (!arguments.axes.empty() && arguments.plot.empty()) {
    return absl::InvalidArgumentError("--axes chooses what is drawn: it needs --plot");
  }
  if (!arguments.plot.empty()) {
    if (const auto head = BeginPicture({.path = arguments.plot, .title = {}}); !head.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--plot ", head.status().message()));
    }
  }
  const auto& heuristics = arguments.heuristics;
  if (!heuristics.empty() &&
      std::find(heuristics.begin(), heuristics.end(), "optimized") == heuristics.end()) {
    for (const auto& [option, is_set] : {
             std::pair("--budget-steps", arguments.budget_steps != 0),
             std::pair("--seed", arguments.seed != 0),
             std::pair("--warm-start", !arguments.warm_start.empty()),
         }) {
      if (is_set) {
        return absl::InvalidArgumentError(
            absl::StrCat(option,
                         " is for the heuristic 'optimized', which is not among those of "
                         "--heuristic"));
      }
    }
  }
  return absl::OkStatus();
}

// Compares the plan with others, unless heuristics are named: then only these are shown.
absl::Status Compare(const PlanArguments& arguments, const std::vector<std::string>& components,
                     v1::PlanningService::Stub& stub, const v1::PlanRequest& request,
                     v1::PlanResponse& response) {
  if (!arguments.heuristics.empty()) {
    if (!arguments.json) std::cout << SummaryTable(response);
    return absl::OkStatus();
  }
  ComparedPlanners planners;
  if (arguments.compare == "none") planners = {false, false, false};
  if (arguments.no_tuple_packing) planners.tuple_packing = false;
  if (arguments.no_notebook) planners.notebook = false;
  if (arguments.no_baselines) planners.baselines = false;
  std::vector<v1::PlanSummary> summaries = SummariesToFill(request.limits(), components, planners);
  const bool all = arguments.compare == "all";
  const auto deadline = all ? std::chrono::system_clock::time_point::max()
                            : std::chrono::system_clock::now() +
                                  std::chrono::duration_cast<std::chrono::system_clock::duration>(
                                      std::chrono::duration<double>(arguments.compare_seconds));
  ComparisonTable table(response.best(), summaries);
  if (!arguments.json) std::cout << table.Head() << std::flush;
  absl::Status status = FillSummaries(
      stub, request, response.best(), deadline,
      [&](const v1::PlanSummary& summary) {
        if (!arguments.json && !summary.unfinished()) {
          std::cout << table.Row(summary) << std::flush;
        }
      },
      summaries);
  if (!status.ok()) return status;
  if (!arguments.json) std::cout << ComparisonEnd(response.best(), summaries, all);
  for (v1::PlanSummary& summary : summaries) *response.add_summaries() = std::move(summary);
  return absl::OkStatus();
}

// Of options that exclude each other, and of those that are needed.
absl::Status CheckReceiptArguments(const PlanArguments& arguments) {
  for (const auto& [option, is_set] : {
           std::pair("--limit", !arguments.limits.empty()),
           std::pair("--heuristic", !arguments.heuristics.empty()),
           std::pair("--budget-steps", arguments.budget_steps != 0),
           std::pair("--seed", arguments.seed != 0),
           std::pair("--plot", !arguments.plot.empty()),
       }) {
    if (is_set && !arguments.receipt.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(option, ": not with --receipt, which says what the plan is made of"));
    }
  }
  if (!arguments.receipt.empty()) return absl::OkStatus();
  absl::Status source = CheckSizeSource(arguments.source, arguments.server);
  if (!source.ok() || !arguments.limits.empty()) return source;
  return absl::InvalidArgumentError("--limit is required without --receipt");
}

ExitCode RunPlan(const PlanArguments& arguments) {
  if (absl::Status status = CheckReceiptArguments(arguments); !status.ok()) return Misuse(status);
  if (!arguments.receipt.empty()) {
    const SizeSource& source = arguments.source;
    return RunReceiptPlan({arguments.server, arguments.receipt, source.file, source.dataset,
                           source.histogram, arguments.warm_start, arguments.save_plan,
                           arguments.json, arguments.patterns});
  }
  if (absl::Status status = CheckArguments(arguments); !status.ok()) return Misuse(status);
  const absl::StatusOr<GraphSizes> sizes = ReadSizes(arguments.source, arguments.server);
  if (!sizes.ok()) return Fail(sizes.status());
  v1::PlanRequest request;
  absl::StatusOr<v1::Limits> limits = ParseLimits(arguments.limits, sizes->components);
  if (!limits.ok()) return Misuse(limits.status());
  *request.mutable_limits() = *std::move(limits);
  if (absl::Status status = CheckPadding(arguments.padding, sizes->components); !status.ok()) {
    return Misuse(status);
  }
  SetPadding(arguments.padding, request);
  for (const std::string& text : arguments.heuristics) {
    absl::StatusOr<v1::PlanHeuristic> heuristic = ParseHeuristic(text, sizes->components);
    if (!heuristic.ok()) return Misuse(heuristic.status());
    *request.add_heuristics() = *std::move(heuristic);
  }
  request.set_budget_steps(arguments.budget_steps);
  request.set_seed(arguments.seed);
  if (!arguments.warm_start.empty()) {
    absl::StatusOr<v1::PackingPlan> plan = ReadPlanFile(arguments.warm_start, sizes->components);
    if (!plan.ok()) return Fail(plan.status());
    *request.mutable_warm_start() = *std::move(plan);
  }
  absl::StatusOr<v1::Histogram> histogram = MakeHistogram(*sizes);
  if (!histogram.ok()) return Fail(histogram.status());
  *request.mutable_histogram() = *std::move(histogram);
  request.set_summaries_only(arguments.patterns == 0 && arguments.plot.empty() &&
                             arguments.save_plan.empty());

  HistogramView view;
  absl::StatusOr<GraphSizes> counted = GraphSizes{};
  if (!arguments.plot.empty()) {
    view.components = AxesOf(arguments, *sizes, request.limits());
    view.shapes = {CapacitiesAlong(view.components, request.limits())};
    counted = SizesOf(request.histogram());
    if (!counted.ok()) return Fail(counted.status());
    // Checked before a long plan: whether the picture can be drawn.
    if (const auto panel = HistogramPanel(view, *counted, Frame{}, ""); !panel.ok()) {
      return Misuse(
          absl::InvalidArgumentError(absl::StrCat("--plot, --axes: ", panel.status().message())));
    }
  }

  const absl::StatusOr<ServerConnection> connection = ConnectToServer(arguments.server);
  if (!connection.ok()) return Fail(connection.status());
  const auto stub = v1::PlanningService::NewStub(connection->channel);
  absl::StatusOr<v1::PlanResponse> response = RequestPlan(*stub, request);
  if (!response.ok()) return Fail(response.status());
  if (!arguments.json) {
    uint64_t graphs = 0;
    const LittleEndianView<uint64_t> counts(request.histogram().counts());
    for (std::size_t i = 0; i < counts.size(); ++i) graphs += counts[i];
    std::vector<std::string> limited;
    for (const v1::Capacity& capacity : request.limits().capacities()) {
      limited.push_back(capacity.component());
    }
    std::cout << Grouped(graphs) << " graphs of " << Grouped(counts.size()) << " sizes in "
              << NameOfSizes(arguments.source) << "; limits " << Describe(request.limits())
              << WithoutLimit(sizes->components, limited) << Describe(arguments.padding) << "\n\n"
              << PlanCertificate(response->best()) << std::endl;
    if (arguments.patterns > 0) {
      std::cout << PatternList(*response, sizes->components, arguments.patterns) << std::endl;
    }
  }
  if (!arguments.save_plan.empty()) {
    if (absl::Status status = WritePlanFile(arguments.save_plan, *response); !status.ok()) {
      return Fail(status);
    }
  }
  // A picture that cannot be drawn does not keep the comparison back.
  absl::Status drawn;
  if (!arguments.plot.empty()) drawn = Draw(arguments, view, *counted, *response);
  if (absl::Status status = Compare(arguments, sizes->components, *stub, request, *response);
      !status.ok()) {
    return Fail(status);
  }
  if (arguments.json) {
    std::cout << JsonText(PlanJson(*response, sizes->components, arguments.patterns));
  }
  return drawn.ok() ? kExitOk : Fail(drawn);
}

}  // namespace

void AddPlanCommand(CLI::App& app, ExitCode& code) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* const command = app.add_subcommand(
      "plan", "Plan as few packs as possible for a whole histogram, with a proof and a comparison");
  AddSizeSourceOptions(arguments->source, *command);
  AddLimitOption(arguments->limits, *command);
  command
      ->add_option("--receipt", arguments->receipt,
                   "Make the plan of this receipt again, of the sizes of --sizes, --dataset or "
                   "--histogram; without these, give that of an epoch which the server remembers")
      ->type_name("RECEIPT");
  AddPaddingOptions(arguments->padding, *command);
  AddBudgetOptions(arguments->budget_steps, arguments->seed,
                   "Work for the optimized plan. 10^9 steps take about a second; 0 means 10^8",
                   *command);
  command
      ->add_option(
          "--heuristic", arguments->heuristics,
          "Try only this heuristic: optimized; first-fit-decreasing; best-fit:P, first-fit:P, "
          "filling-best-fit:P, filling-first-fit:P or notebook:P with P product, sum, max, min or "
          "a component; no-packing; single-component:COMPONENT; may be repeated")
      ->type_name("HEURISTIC")
      ->allow_extra_args(false);
  command
      ->add_option("--compare", arguments->compare,
                   "How long the plan, which is printed at once, is compared with those of other "
                   "planners: quick: for --compare-seconds; all: until the last has ended; none: "
                   "not at all")
      ->check(CLI::IsMember({"quick", "all", "none"}))
      ->capture_default_str();
  command
      ->add_option("--compare-seconds", arguments->compare_seconds,
                   "With --compare quick: what has not ended by then is named as unfinished")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  command->add_flag("--no-tuple-packing", arguments->no_tuple_packing,
                    "Leave out first-fit decreasing and the paper's heuristics");
  command->add_flag("--no-baselines", arguments->no_baselines, "Leave out the paper's baselines");
  command->add_flag("--no-notebook", arguments->no_notebook,
                    "Leave out the companion notebook's variant");
  command->add_option("--patterns", arguments->patterns, "Print the first N patterns of the plan")
      ->type_name("N");
  command
      ->add_option("--save-plan", arguments->save_plan,
                   "Write the plan (a serialized packhouse.v1.PlanResponse)")
      ->type_name("FILE");
  command
      ->add_option("--warm-start", arguments->warm_start,
                   "Start from a plan that --save-plan wrote for similar sizes")
      ->type_name("FILE");
  command
      ->add_option("--plot", arguments->plot,
                   "Draw the histogram and the fill of the packs (with gnuplot): FILE.svg or "
                   "FILE.png")
      ->type_name("FILE");
  AddAxesOption(arguments->axes, "else the first two that have a limit", *command);
  command->add_flag("--json", arguments->json, "Print JSON: ratios in [0, 1], times in seconds");
  AddServerOption(arguments->server, *command);
  command->callback([arguments, &code] { code = RunPlan(*arguments); });
}

}  // namespace packhouse::client

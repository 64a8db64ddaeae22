#include "client/cli/commands/tune_command.h"

#include <unistd.h>

#include <cstdint>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/device_arguments.h"
#include "client/cli/plots/gnuplot.h"
#include "client/cli/plots/tune_plot.h"
#include "client/cli/reports/tune_report.h"
#include "client/cli/size_source.h"
#include "client/cli/tune_stream.h"
#include "client/cpp/little_endian.h"
#include "client/graph/files/sizes_file.h"
#include "packhouse/v1/planning.grpc.pb.h"
#include "service/command_line/table.h"

namespace packhouse::client {
namespace {

struct TuneArguments {
  std::string server;
  SizeSource source;
  DeviceArguments device;
  PaddingArguments padding;
  v1::TuneObjective objective = v1::TUNE_OBJECTIVE_EPOCH_COST;
  uint64_t budget_steps = 0;
  uint64_t seed = 0;
  std::string plot;
  std::vector<std::string> axes;
  bool json = false;
};

// Shows progress on one line of a terminal, and takes it away at the end; elsewhere does nothing.
class TuneProgressDisplay {
 public:
  TuneProgressDisplay() : shown_(isatty(STDERR_FILENO) != 0) {}
  TuneProgressDisplay(const TuneProgressDisplay&) = delete;
  TuneProgressDisplay& operator=(const TuneProgressDisplay&) = delete;
  ~TuneProgressDisplay() {
    if (shown_) std::cerr << "\r\x1b[K" << std::flush;
  }

  void Show(const v1::TuneProgress& progress) const {
    if (shown_) std::cerr << "\r\x1b[K" << ProgressLine(progress) << std::flush;
  }

 private:
  const bool shown_;
};

// The components of a picture: those that were named, otherwise the first two with a `--max`.
std::vector<std::string> AxesOf(const TuneArguments& arguments, const GraphSizes& sizes,
                                const v1::DeviceProfile& profile) {
  if (!arguments.axes.empty()) return arguments.axes;
  std::vector<std::string> axes;
  for (const v1::DeviceProfile::Component& component : profile.components()) {
    if (component.component() != "graphs" && axes.size() < 2) axes.push_back(component.component());
  }
  if (axes.empty()) axes.push_back(sizes.components.front());
  return axes;
}

std::string ProfileText(const v1::DeviceProfile& profile) {
  std::vector<std::string> texts;
  for (const v1::DeviceProfile::Component& component : profile.components()) {
    texts.push_back(absl::StrCat(component.component(), "=", component.max_rows()));
  }
  std::string text = absl::StrCat("at most ", absl::StrJoin(texts, ", "));
  if (profile.memory_bytes() != 0) {
    absl::StrAppend(&text, ", ", BytesText(profile.memory_bytes()));
  }
  if (profile.max_distinct_shapes() > 1) {
    absl::StrAppend(&text, ", ", profile.max_distinct_shapes(), " shapes");
  }
  return text;
}

absl::Status CheckArguments(const TuneArguments& arguments) {
  absl::Status source = CheckSizeSource(arguments.source, arguments.server);
  if (!source.ok()) return source;
  if (!arguments.axes.empty() && arguments.plot.empty()) {
    return absl::InvalidArgumentError("--axes chooses what is drawn: it needs --plot");
  }
  if (!arguments.plot.empty()) {
    if (const auto head = BeginPicture({.path = arguments.plot, .title = {}}); !head.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--plot ", head.status().message()));
    }
  }
  return absl::OkStatus();
}

// The results to print and draw.
struct TuneFindings {
  TuneOutcome outcome;
  // For the picture; may be empty.
  std::vector<v1::TuneCell> cells;
};

absl::StatusOr<TuneFindings> FindLimits(const TuneArguments& arguments,
                                        const v1::TuneRequest& request, const GraphSizes& histogram,
                                        const std::vector<std::string>& axes) {
  const absl::StatusOr<ServerConnection> connection = ConnectToServer(arguments.server);
  if (!connection.ok()) return connection.status();
  const auto stub = v1::PlanningService::NewStub(connection->channel);
  const TuneProgressDisplay display;
  const auto show = [&](const v1::TuneProgress& progress) { display.Show(progress); };
  absl::StatusOr<TuneOutcome> outcome = RequestTune(*stub, request, show);
  if (!outcome.ok()) return outcome.status();
  TuneFindings findings{.outcome = *std::move(outcome), .cells = {}};
  if (arguments.plot.empty()) return findings;
  const std::optional<v1::TuneRequest> grid =
      GridRequest(request, histogram, axes, findings.outcome.recommendation.shapes(0));
  if (!grid.has_value()) return findings;
  absl::StatusOr<TuneOutcome> of_grid = RequestTune(*stub, *grid, show);
  if (!of_grid.ok()) return of_grid.status();
  findings.cells = std::move(of_grid->cells);
  return findings;
}

ExitCode RunTune(const TuneArguments& arguments) {
  if (absl::Status status = CheckArguments(arguments); !status.ok()) return Misuse(status);
  const absl::StatusOr<GraphSizes> sizes = ReadSizes(arguments.source, arguments.server);
  if (!sizes.ok()) return Fail(sizes.status());
  v1::TuneRequest request;
  absl::StatusOr<v1::DeviceProfile> profile = ParseDevice(arguments.device, sizes->components);
  if (!profile.ok()) return Misuse(profile.status());
  *request.mutable_profile() = *std::move(profile);
  if (absl::Status status = CheckPadding(arguments.padding, sizes->components); !status.ok()) {
    return Misuse(status);
  }
  SetPadding(arguments.padding, request);
  request.set_objective(arguments.objective);
  request.set_budget_steps(arguments.budget_steps);
  request.set_seed(arguments.seed);
  absl::StatusOr<v1::Histogram> histogram = MakeHistogram(*sizes);
  if (!histogram.ok()) return Fail(histogram.status());
  *request.mutable_histogram() = *std::move(histogram);
  const absl::StatusOr<GraphSizes> counted = SizesOf(request.histogram());
  if (!counted.ok()) return Fail(counted.status());

  HistogramView view;
  if (!arguments.plot.empty()) {
    view.components = AxesOf(arguments, *sizes, request.profile());
    // Checked before a long search: whether the picture can be drawn.
    if (const auto panel = HistogramPanel(view, *counted, Frame{}, ""); !panel.ok()) {
      return Misuse(
          absl::InvalidArgumentError(absl::StrCat("--plot, --axes: ", panel.status().message())));
    }
  }
  const absl::StatusOr<TuneFindings> findings =
      FindLimits(arguments, request, *counted, view.components);
  if (!findings.ok()) return Fail(findings.status());
  const TuneOutcome& outcome = findings->outcome;

  if (arguments.json) {
    std::cout << JsonText(TuneJson(outcome, sizes->components));
  } else {
    uint64_t graphs = 0;
    for (const uint64_t count : counted->counts) graphs += count;
    std::vector<std::string> limited;
    for (const v1::DeviceProfile::Component& component : request.profile().components()) {
      limited.push_back(component.component());
    }
    std::cout << Grouped(graphs) << " graphs of " << Grouped(counted->num_rows) << " sizes in "
              << NameOfSizes(arguments.source) << "; " << ProfileText(request.profile())
              << WithoutLimit(sizes->components, limited) << Describe(arguments.padding) << "\n\n"
              << RecommendationText(outcome, request.profile(), sizes->components) << '\n'
              << FrontierTable(outcome);
  }
  if (!arguments.plot.empty()) {
    for (const v1::TunedShape& shape : outcome.recommendation.shapes()) {
      view.shapes.push_back(CapacitiesAlong(view.components, shape.limits()));
      view.shape_names.push_back(ShapeText(shape));
    }

    const absl::StatusOr<std::string> script = TunePicture(
        arguments.plot,
        absl::StrCat(NameOfSizes(arguments.source), ", ", ProfileText(request.profile()), ": ",
                     SmallPercent(PaddingOverhead(outcome.recommendation.epoch_cost(),
                                                  outcome.recommendation.least_cost())),
                     " padding"),
        view, *counted, request.profile(), outcome, findings->cells);
    if (!script.ok()) return Fail(script.status());
    if (absl::Status status = DrawWithGnuplot(*script, arguments.plot); !status.ok()) {
      return Fail(status);
    }
  }
  return kExitOk;
}

}  // namespace

void AddTuneCommand(CLI::App& app, ExitCode& code) {
  auto arguments = std::make_shared<TuneArguments>();
  CLI::App* const command =
      app.add_subcommand("tune", "Choose the limits under which an epoch costs a device the least");
  AddSizeSourceOptions(arguments->source, *command);
  AddDeviceOptions(arguments->device, *command);
  AddPaddingOptions(arguments->padding, *command);
  const std::map<std::string, v1::TuneObjective> objectives = {
      {"epoch-cost", v1::TUNE_OBJECTIVE_EPOCH_COST},
      {"harmonic-mean", v1::TUNE_OBJECTIVE_HARMONIC_MEAN}};
  command
      ->add_option("--objective", arguments->objective,
                   "epoch-cost (the default), or harmonic-mean of the efficiencies as in the paper")
      ->type_name("NAME")
      ->transform(CLI::CheckedTransformer(objectives).description(""));
  AddBudgetOptions(arguments->budget_steps, arguments->seed,
                   "Work for the whole search. 10^9 steps take about a second; 0 means 2 * 10^9",
                   *command);
  command
      ->add_option("--plot", arguments->plot,
                   "Draw the histogram with the limits, efficiency over the grid of limits, and "
                   "the frontier (with gnuplot): FILE.svg or FILE.png")
      ->type_name("FILE");
  AddAxesOption(arguments->axes, "else the first two that have a --max", *command);
  command->add_flag("--json", arguments->json, "Print JSON: ratios in [0, 1]");
  AddServerOption(arguments->server, *command);
  command->callback([arguments, &code] { code = RunTune(*arguments); });
}

}  // namespace packhouse::client

#include "client/bench/bench_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/bench/bench_report.h"
#include "client/bench/bench_setup.h"
#include "client/bench/bench_sockets.h"
#include "client/bench/measures/delivery.h"
#include "client/bench/measures/epochs.h"
#include "client/bench/measures/observe.h"
#include "client/bench/measures/plan.h"
#include "client/bench/measures/tcp.h"
#include "client/graph/byte_words.h"
#include "service/base/command_line/json.h"

namespace packhouse::client {
namespace {

constexpr uint64_t kMinPayload = uint64_t{1} << 10;
// Below the server's bound for a batch.
constexpr uint64_t kMaxPayload = uint64_t{32} << 20;
constexpr std::size_t kFairStreams = 64;
constexpr uint64_t kFairPayload = uint64_t{16} << 10;
constexpr uint64_t kObservedChunks[] = {64, 1024, 8192};
constexpr uint32_t kChunksPerAnswer[] = {1, 32};

struct BenchArguments {
  BenchSettings settings;
  double seconds = 1;
  double patience = 0;
  std::vector<std::string> only = {"pack", "load", "observe", "plan", "ceiling"};
  std::vector<std::string> payloads = {"16KiB", "64KiB", "256KiB", "1MiB", "4MiB"};
  std::string json;
};

absl::Status Measure(const BenchArguments& arguments, const BenchSetup& setup,
                     BenchReport& report) {
  const BenchSettings& settings = setup.settings();
  const auto wants = [&](const char* name) {
    return std::find(arguments.only.begin(), arguments.only.end(), name) != arguments.only.end();
  };
  if (wants("ceiling")) {
    const absl::StatusOr<Runs> tcp = MeasureTcp(setup);
    if (!tcp.ok()) return tcp.status();
    std::cout << report.AddTcp(*tcp) << std::flush;
  }
  if (wants("pack") || wants("load") || wants("ceiling")) {
    for (const uint64_t streams : settings.streams) {
      for (const uint64_t payload : settings.payloads) {
        const absl::StatusOr<DeliveryFigures> delivery = MeasureDelivery(
            setup, payload, streams,
            {.load = wants("load"), .pack = wants("pack"), .narrow = wants("compact")});
        if (!delivery.ok()) return delivery.status();
        std::cout << report.AddDelivery(*delivery) << std::flush;
      }
    }
  }
  if (wants("pack")) {
    const absl::StatusOr<DeliveryFigures> delivery =
        MeasureDelivery(setup, kFairPayload, kFairStreams, {.load = false, .pack = true});
    if (!delivery.ok()) return delivery.status();
    std::cout << report.AddFairness(*delivery) << std::flush;
  }
  if (wants("epochs")) {
    for (const uint64_t payload : settings.payloads) {
      const absl::StatusOr<EpochFigures> epochs = MeasureEpochs(setup, payload);
      if (!epochs.ok()) return epochs.status();
      std::cout << report.AddEpochs(*epochs) << std::flush;
    }
  }
  if (wants("observe")) {
    for (const uint64_t tuples : kObservedChunks) {
      for (const uint32_t chunks : kChunksPerAnswer) {
        const absl::StatusOr<ObserveFigures> observation = MeasureObserve(setup, tuples, chunks);
        if (!observation.ok()) return observation.status();
        std::cout << report.AddObservation(*observation) << std::flush;
      }
    }
  }
  if (wants("plan")) {
    const absl::StatusOr<std::vector<PlanFigures>> plans = MeasurePlan(setup);
    if (!plans.ok()) return plans.status();
    std::cout << report.AddPlanning(*plans) << std::flush;
  }
  return absl::OkStatus();
}

ExitCode RunBench(BenchArguments& arguments) {
  BenchSettings& settings = arguments.settings;
  settings.seconds = absl::Seconds(arguments.seconds);
  settings.patience = absl::Seconds(arguments.patience);
  for (const std::string& text : arguments.payloads) {
    uint64_t bytes = 0;
    if (!ParseBytes(text, bytes) || bytes < kMinPayload || bytes > kMaxPayload) {
      return Misuse(absl::InvalidArgumentError(
          absl::StrCat("--payloads '", text, "': must be a number of bytes from ",
                       BytesText(kMinPayload), " to ", BytesText(kMaxPayload))));
    }
    settings.payloads.push_back(bytes);
  }
  absl::StatusOr<std::unique_ptr<BenchSetup>> setup = BenchSetup::Create(settings);
  if (!setup.ok()) return Fail(setup.status());
  const BenchMachine machine =
      ThisMachine(settings.congestion.empty() ? DefaultCongestionControl() : settings.congestion);
  const BenchGraphs& graphs = (*setup)->graphs();
  BenchReport report(machine, settings, graphs, (*setup)->dataset_graphs());
  std::cout << Describe(machine) << '\n'
            << absl::StrCat(graphs.num_graphs, " graphs of ", graphs.num_bytes / graphs.num_graphs,
                            " bytes; data set of ", (*setup)->dataset_graphs(),
                            "; median (min-max) of ", settings.runs, " runs of ",
                            absl::FormatDuration(settings.seconds), "\n")
            << std::flush;
  const absl::Status status = Measure(arguments, **setup, report);
  // What was measured before an error is not lost.
  if (!arguments.json.empty()) {
    std::ofstream file(arguments.json);
    file << JsonText(report.ToJson());
    file.close();
    if (!file) {
      return Fail(absl::UnavailableError(
          absl::StrCat(arguments.json, ": cannot write: ", std::strerror(errno))));
    }
  }
  return status.ok() ? kExitOk : Fail(status);
}

}  // namespace

void AddBenchOptions(CLI::App& app, ExitCode& code) {
  auto arguments = std::make_shared<BenchArguments>();
  BenchSettings& settings = arguments->settings;
  settings.congestion = "reno";
  settings.streams = {1, 4, 16};
  app.add_option("--packhoused", settings.packhoused,
                 "The server program; by default it is found as other commands find it");
  app.add_option("--data", settings.data,
                 "FILE.npz of graphs; by default generated graphs that resemble ogbg-molhiv")
      ->type_name("FILE.npz");
  app.add_option("--runs", settings.runs, "Runs of each measurement")->check(CLI::Range(1, 1000));
  app.add_option("--seconds", arguments->seconds, "Length of a run")
      ->check(CLI::Range(0.001, 3600.0));
  app.add_option(
         "--only", arguments->only,
         "pack, load, observe, plan, ceiling; not by default: epochs, each of the first ones "
         "by itself, and compact, pack and load with narrow integers, too")
      ->delimiter(',')
      ->check(CLI::IsMember({"pack", "load", "compact", "epochs", "observe", "plan", "ceiling"}));
  app.add_option("--payloads", arguments->payloads, "Sizes of batches, as in 64KiB,1MiB")
      ->delimiter(',');
  app.add_option("--streams", settings.streams, "Numbers of streams, as in 1,4")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024));
  app.add_option("--tcp-congestion", settings.congestion,
                 "TCP congestion control of both ends, reno by default. \"\" takes the system's. "
                 "If that is bbr, loopback may lose half of its throughput");
  app.add_option("--patience", arguments->patience,
                 "Seconds, for each measurement, to repeat runs during which other processes "
                 "used more than 5 % of the machine")
      ->check(CLI::Range(0.0, 3600.0));
  app.add_option("--json", arguments->json, "Write the figures")->type_name("FILE");
  app.callback([arguments, &app, &code] {
    if (app.get_subcommands().empty()) code = RunBench(*arguments);
  });
}

}  // namespace packhouse::client

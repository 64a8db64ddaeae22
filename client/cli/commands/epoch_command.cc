#include "client/cli/commands/epoch_command.h"

#include <cstdint>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/reports/epoch_report.h"
#include "client/cpp/dataset_client.h"
#include "client/cpp/job_client.h"

namespace packhouse::client {
namespace {

// Counting the segments of 10^10 graphs takes minutes.
constexpr absl::Duration kEpochTimeout = absl::Hours(1);

struct EpochArguments {
  std::string server;
  std::string dataset;
  std::vector<std::string> limits;
  PaddingArguments padding;
  uint64_t seed = 0;
  // Graphs of a segment; 0: the server's choice.
  std::optional<uint64_t> segments;
  uint32_t tracks = 0;
  bool json = false;
};

ExitCode RunEpoch(const EpochArguments& arguments) {
  if (arguments.tracks != 0 && !arguments.segments) {
    return Misuse(absl::InvalidArgumentError("--tracks are of segments: it needs --segments"));
  }
  const absl::StatusOr<ServerConnection> connection = ConnectToServer(arguments.server);
  if (!connection.ok()) return Fail(connection.status());
  const DatasetClient datasets(connection->servers);
  const auto found = datasets.Get(arguments.dataset, /*include_histogram=*/false);
  if (!found.ok()) return Fail(found.status());
  const auto& components = found->dataset().schema().components();
  absl::StatusOr<v1::Limits> limits =
      ParseLimits(arguments.limits, {components.begin(), components.end()});
  if (!limits.ok()) return Misuse(limits.status());
  v1::EpochSpec spec;
  spec.set_dataset(arguments.dataset);
  spec.set_seed(arguments.seed);
  *spec.add_rank_groups()->add_shapes() = *std::move(limits);
  spec.set_padding(arguments.padding.padding);
  if (arguments.segments) {
    spec.mutable_segments()->set_graphs(*arguments.segments);
    spec.mutable_segments()->set_tracks(arguments.tracks);
  }
  const JobClient jobs(connection->servers, kEpochTimeout);
  const absl::StatusOr<v1::Epoch> epoch = jobs.GetEpoch(spec);
  if (!epoch.ok()) return Fail(epoch.status());
  std::cout << (arguments.json ? JsonText(EpochJson(*epoch)) : EpochText(*epoch));
  return kExitOk;
}

}  // namespace

void AddEpochCommand(CLI::App& app, ExitCode& code) {
  auto arguments = std::make_shared<EpochArguments>();
  CLI::App* const command = app.add_subcommand(
      "epoch", "Show what an epoch of a data set would be: batches, efficiency, segments");
  command->add_option("dataset", arguments->dataset, "The data set, which must be sealed")
      ->required()
      ->type_name("NAME");
  AddServerOption(arguments->server, *command);
  command->get_option("--server")->required()->description("HOST:PORT or unix:PATH");
  AddLimitOption(arguments->limits, *command);
  command->get_option("--limit")->required();
  AddPaddingOptions(arguments->padding, *command);
  command->remove_option(command->get_option("--index-into"));
  command->remove_option(command->get_option("--ragged"));
  command->add_option("--seed", arguments->seed, "That of the job")->type_name("SEED");
  command
      ->add_option(
          "--segments", arguments->segments,
          "Plan it in segments of about so many graphs, for a data set that is larger than "
          "memory; 0: 2^20")
      ->type_name("N");
  command->add_option("--tracks", arguments->tracks, "Tracks of segments, at most 64; 0: 1")
      ->type_name("N");
  command->add_flag("--json", arguments->json, "Print JSON");
  command->callback([arguments, &code] { code = RunEpoch(*arguments); });
}

}  // namespace packhouse::client

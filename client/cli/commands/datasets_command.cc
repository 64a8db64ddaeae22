#include "client/cli/commands/datasets_command.h"

#include <unistd.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/confirm.h"
#include "client/cli/device_arguments.h"
#include "client/cli/reports/dataset_report.h"
#include "client/cpp/dataset_client.h"
#include "service/command_line/table.h"

namespace packhouse::client {
namespace {

struct DatasetsArguments {
  std::string server;
  std::string name;
  bool json = false;
  bool yes = false;
};

ExitCode RunList(const DatasetsArguments& arguments, const DatasetClient& client) {
  const absl::StatusOr<std::vector<v1::Dataset>> datasets = client.List();
  if (!datasets.ok()) return Fail(datasets.status());
  if (!arguments.json) {
    std::cout << DatasetTable(*datasets);
    return kExitOk;
  }
  Json objects = Json::array();
  for (const v1::Dataset& dataset : *datasets) objects.push_back(DatasetJson(dataset));
  std::cout << JsonText(objects);
  return kExitOk;
}

ExitCode RunShow(const DatasetsArguments& arguments, const DatasetClient& client) {
  const absl::StatusOr<v1::GetDatasetResponse> response = client.Get(arguments.name, true);
  if (!response.ok()) return Fail(response.status());
  if (arguments.json) {
    std::cout << JsonText(DatasetJson(*response));
    return kExitOk;
  }
  const absl::StatusOr<std::string> text = DatasetText(*response);
  if (!text.ok()) return Fail(text.status());
  std::cout << *text;
  return kExitOk;
}

ExitCode RunDelete(const DatasetsArguments& arguments, const DatasetClient& client) {
  const std::optional<ExitCode> refusal =
      RefusalToDo(arguments.yes, [&]() -> absl::StatusOr<std::string> {
        const absl::StatusOr<v1::GetDatasetResponse> response = client.Get(arguments.name, false);
        if (absl::IsNotFound(response.status())) return response.status();
        // A damaged data set can be deleted, although only its name is known.
        if (!response.ok()) return absl::StrCat("delete data set '", arguments.name, "'");
        const v1::Dataset& dataset = response->dataset();
        return absl::StrCat("delete data set '", arguments.name, "' with ",
                            Grouped(dataset.num_graphs()), " graphs, ",
                            BytesText(dataset.num_bytes()));
      });
  if (refusal.has_value()) return *refusal;
  if (absl::Status status = client.Delete(arguments.name); !status.ok()) return Fail(status);
  std::cout << arguments.name << ": deleted\n";
  return kExitOk;
}

ExitCode RunVerify(const DatasetsArguments& arguments, const DatasetClient& client) {
  const bool on_terminal = isatty(STDERR_FILENO) != 0;
  const absl::StatusOr<v1::VerifyDatasetResponse> result =
      client.Verify(arguments.name, [&](const v1::VerifyDatasetResponse& progress) {
        if (on_terminal) std::cerr << "\r\x1b[K" << VerifyProgressLine(progress) << std::flush;
      });
  if (on_terminal) std::cerr << "\r\x1b[K" << std::flush;
  if (!result.ok()) return Fail(result.status());
  if (arguments.json) {
    std::cout << JsonText(VerifyJson(arguments.name, *result));
  } else {
    std::cout << VerifyText(arguments.name, *result);
  }
  return IsUndamaged(*result) ? kExitOk : kExitFailure;
}

// Adds one of the subcommands; those for one data set take its name.
CLI::App* AddAction(CLI::App& command, const std::shared_ptr<DatasetsArguments>& arguments,
                    ExitCode& code, const std::string& name, const std::string& description,
                    ExitCode (*run)(const DatasetsArguments&, const DatasetClient&)) {
  CLI::App* const action = command.add_subcommand(name, description);
  AddServerOption(arguments->server, *action);
  action->get_option("--server")->required()->description("HOST:PORT or unix:PATH");
  action->callback([arguments, &code, run] {
    const absl::StatusOr<ServerConnection> connection = ConnectToServer(arguments->server);
    // A missing server is an error; the command does not wait for it.
    DatasetClientOptions options;
    options.retry.patience = absl::ZeroDuration();
    code = connection.ok() ? run(*arguments, DatasetClient(connection->servers, options))
                           : Fail(connection.status());
  });
  return action;
}

void AddName(const std::shared_ptr<DatasetsArguments>& arguments, CLI::App& action) {
  action.add_option("name", arguments->name, "The data set")->required()->type_name("NAME");
}

void AddJson(const std::shared_ptr<DatasetsArguments>& arguments, CLI::App& action) {
  action.add_flag("--json", arguments->json, "Print JSON");
}

}  // namespace

void AddDatasetsCommand(CLI::App& app, ExitCode& code) {
  auto arguments = std::make_shared<DatasetsArguments>();
  CLI::App* const command =
      app.add_subcommand("datasets", "List, show, delete or verify the data sets of a server");
  command->require_subcommand(1);

  CLI::App* const list = AddAction(*command, arguments, code, "list", "All data sets", RunList);
  AddJson(arguments, *list);

  CLI::App* const show = AddAction(*command, arguments, code, "show",
                                   "Schema, bounds and sizes of a data set", RunShow);
  AddName(arguments, *show);
  AddJson(arguments, *show);

  CLI::App* const remove =
      AddAction(*command, arguments, code, "delete", "Delete a data set and its graphs", RunDelete);
  AddName(arguments, *remove);
  remove->add_flag("--yes", arguments->yes, "Do not ask; needed where stdin is no terminal");

  CLI::App* const verify = AddAction(
      *command, arguments, code, "verify",
      "Read all of a data set: checksums, indices, counts; exit status 1 if it is damaged",
      RunVerify);
  verify->alias("fsck");
  AddName(arguments, *verify);
  AddJson(arguments, *verify);
}

}  // namespace packhouse::client

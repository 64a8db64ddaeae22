#include "client/cli/commands/admin_command.h"

#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/confirm.h"
#include "client/cli/reports/admin_report.h"
#include "client/cpp/admin_client.h"
#include "service/command_line/json.h"

namespace packhouse::client {
namespace {

struct AdminArguments {
  std::string server;
  std::string level;
  std::string name;
  std::string job;
  std::string address;
  bool json = false;
  bool yes = false;
};

constexpr const char* kLevels[] = {"trace", "debug", "info", "warning", "error", "off"};

ExitCode RunStatus(const AdminArguments& arguments, const AdminClient& client) {
  const absl::StatusOr<v1::GetServerResponse> status = client.GetServer();
  if (!status.ok()) return Fail(status.status());
  std::cout << (arguments.json ? JsonText(MessageJson(*status)) : StatusText(*status));
  return kExitOk;
}

ExitCode RunClients(const AdminArguments& arguments, const AdminClient& client) {
  const absl::StatusOr<v1::ListClientsResponse> clients = client.ListClients();
  if (!clients.ok()) return Fail(clients.status());
  std::cout << (arguments.json ? JsonText(MessageJson(*clients)) : ClientsText(*clients));
  return kExitOk;
}

ExitCode RunLogLevel(const AdminArguments& arguments, const AdminClient& client) {
  int level = 0;
  for (size_t i = 0; i < std::size(kLevels); ++i) {
    if (arguments.level == kLevels[i]) level = static_cast<int>(i) + 1;
  }
  const absl::StatusOr<v1::LogLevel> before = client.SetLogLevel(static_cast<v1::LogLevel>(level));
  if (!before.ok()) return Fail(before.status());
  const int old = static_cast<int>(*before);
  std::cout << "log level: " << arguments.level;
  if (old > 0 && old <= static_cast<int>(std::size(kLevels))) {
    std::cout << ", before: " << kLevels[old - 1];
  }
  std::cout << "\n";
  return kExitOk;
}

ExitCode RunReload(const AdminArguments& arguments, const AdminClient& client) {
  const absl::StatusOr<std::vector<v1::ServerFile>> files = client.Reload();
  if (!files.ok()) return Fail(files.status());
  bool is_good = true;
  Json objects = Json::array();
  for (const v1::ServerFile& file : *files) {
    is_good &= file.failure().empty();
    objects.push_back(MessageJson(file));
  }
  std::cout << (arguments.json ? JsonText(objects) : FilesText(*files));
  // What is broken is not in use; whoever reloads wants to know.
  return is_good ? kExitOk : kExitFailure;
}

ExitCode RunDrain(const AdminArguments& arguments, const AdminClient& client) {
  const std::optional<ExitCode> refusal =
      RefusalToDo(arguments.yes, [&]() -> absl::StatusOr<std::string> {
        return absl::StrCat("end the server at ", arguments.server);
      });
  if (refusal.has_value()) return *refusal;
  const absl::StatusOr<bool> before = client.Drain();
  if (!before.ok()) return Fail(before.status());
  std::cout << (*before ? "is draining already\n" : "drains\n");
  return kExitOk;
}

ExitCode RunSnapshot(const AdminArguments& arguments, const AdminClient& client) {
  const absl::StatusOr<v1::TakeSnapshotResponse> taken = client.TakeSnapshot(arguments.name);
  if (!taken.ok()) return Fail(taken.status());
  std::cout << (arguments.json ? JsonText(MessageJson(*taken)) : SnapshotText(*taken));
  return kExitOk;
}

ExitCode RunMoveJob(const AdminArguments& arguments, const AdminClient& client) {
  const absl::Status moved = client.MoveJob(arguments.job, arguments.address);
  if (!moved.ok()) return Fail(moved);
  std::cout << arguments.job << ": moved to " << arguments.address << "\n";
  return kExitOk;
}

CLI::App* AddAction(CLI::App& command, const std::shared_ptr<AdminArguments>& arguments,
                    ExitCode& code, const std::string& name, const std::string& description,
                    ExitCode (*run)(const AdminArguments&, const AdminClient&)) {
  CLI::App* const action = command.add_subcommand(name, description);
  AddServerOption(arguments->server, *action);
  action->get_option("--server")->required()->description("HOST:PORT or unix:PATH");
  action->callback([arguments, &code, run] {
    const absl::StatusOr<ServerConnection> connection = ConnectToServer(arguments->server);
    code = connection.ok() ? run(*arguments, AdminClient(connection->channel))
                           : Fail(connection.status());
  });
  return action;
}

void AddJson(const std::shared_ptr<AdminArguments>& arguments, CLI::App& action) {
  action.add_flag("--json", arguments->json, "Print JSON");
}

}  // namespace

void AddAdminCommand(CLI::App& app, ExitCode& code) {
  const auto arguments = std::make_shared<AdminArguments>();
  CLI::App* const command = app.add_subcommand(
      "admin", "Run a server: what it does, its log, its files, its end (docs/security.md)");
  command->require_subcommand(1);
  AddJson(arguments, *AddAction(*command, arguments, code, "status",
                                "Version, memory, files, quotas, servers, jobs", RunStatus));
  AddJson(arguments,
          *AddAction(*command, arguments, code, "clients",
                     "Who is connected: calls, streams and leases by principal", RunClients));
  CLI::App* const level = AddAction(*command, arguments, code, "log-level",
                                    "Set the lowest level that is logged", RunLogLevel);
  level->add_option("level", arguments->level, "trace, debug, info, warning, error or off")
      ->required()
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(kLevels), std::end(kLevels))));
  AddJson(arguments, *AddAction(*command, arguments, code, "reload",
                                "Read certificates, tokens and the policy again", RunReload));
  CLI::App* const drain =
      AddAction(*command, arguments, code, "drain",
                "End the server as SIGTERM does: what is open may end first", RunDrain);
  drain->add_flag("--yes", arguments->yes, "Do not ask; needed where stdin is no terminal");
  CLI::App* const move =
      AddAction(*command, arguments, code, "move-job",
                "Move a job to another server of the cluster; its workers go on there", RunMoveJob);
  move->add_option("job", arguments->job, "The job")->required()->type_name("JOB");
  move->add_option("--to", arguments->address, "The server's --advertise, as `status` lists it")
      ->required()
      ->type_name("HOST:PORT");
  CLI::App* const snapshot =
      AddAction(*command, arguments, code, "snapshot",
                "Copy what is stored into a folder of the server's --snapshot-dir", RunSnapshot);
  snapshot->add_option("name", arguments->name, "The folder's name")->required()->type_name("NAME");
  AddJson(arguments, *snapshot);
}

}  // namespace packhouse::client

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "client/command/server_options.h"
#include "client/cpp/admin_client.h"
#include "client/cpp/channel.h"
#include "google/protobuf/message.h"
#include "google/protobuf/timestamp.pb.h"
#include "google/protobuf/util/json_util.h"
#include "packhouse/v1/admin.pb.h"
#include "service/base/command_line/json.h"
#include "service/base/command_line/readable.h"
#include "service/base/command_line/table.h"
#include "service/program/commands/subcommands.h"

namespace packhouse {
namespace {

std::string TimeText(const google::protobuf::Timestamp& time) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", absl::FromUnixSeconds(time.seconds()),
                          absl::UTCTimeZone());
}

// As in `debug`.
std::string LevelText(v1::LogLevel level) {
  return absl::AsciiStrToLower(absl::StripPrefix(v1::LogLevel_Name(level), "LOG_LEVEL_"));
}

std::string FilesText(const std::vector<v1::ServerFile>& files) {
  if (files.empty()) return "no files are read while the server runs\n";
  TextTable table({{"file", ""}, {"reloads", ""}, {"expires", ""}, {"in use", ""}});
  for (const v1::ServerFile& file : files) {
    table.AddRow({file.name(), Grouped(file.num_reloads()),
                  file.has_expires() ? TimeText(file.expires()) : "-",
                  file.failure().empty() ? "yes" : "an earlier content"});
  }
  std::string text = table.Render();
  for (const v1::ServerFile& file : files) {
    if (!file.failure().empty()) {
      absl::StrAppend(&text, file.name(), ": not in use: ", file.failure(), "\n");
    }
  }
  return text;
}

std::string StatusText(const v1::GetServerResponse& status) {
  std::string text = absl::StrCat(
      "packhoused ", status.version(), ", since ", TimeText(status.started()),
      status.is_draining() ? ", drains" : "", "\nlog level: ", LevelText(status.log_level()),
      "\nconnections: ", Grouped(status.num_connections()), "\n\n");
  TextTable memory({{"memory", ""}, {"held bytes", ""}, {"at most", ""}});
  for (const v1::MemoryShare& share : status.memory()) {
    memory.AddRow({share.name(), Grouped(share.held_bytes()), Grouped(share.bound_bytes())});
  }
  absl::StrAppend(&text, memory.Render());
  if (!status.files().empty()) {
    absl::StrAppend(&text, "\n", FilesText({status.files().begin(), status.files().end()}));
  }
  if (!status.quotas().empty()) {
    TextTable quotas({{"namespace", ""}, {"quota", ""}, {"used", ""}, {"limit", ""}});
    for (const v1::QuotaUse& quota : status.quotas()) {
      const bool is_share = quota.quota() == "planning";
      const auto number = [is_share](double value) {
        return is_share ? absl::StrCat(Percent(value, 0), " %")
                        : Grouped(static_cast<uint64_t>(value));
      };
      quotas.AddRow(
          {quota.namespace_(), quota.quota(), number(quota.used()), number(quota.limit())});
    }
    absl::StrAppend(&text, "\n", quotas.Render());
  }
  if (!status.members().empty()) {
    TextTable members({{"server", ""}, {"owns", ""}});
    for (const v1::ClusterMember& member : status.members()) {
      members.AddRow({member.address(), !member.is_this() ? "ask it"
                                        : status.owned_jobs().empty()
                                            ? "no job"
                                            : absl::StrJoin(status.owned_jobs(), ", ")});
    }
    absl::StrAppend(&text, "\n", members.Render());
  }
  return text;
}

std::string ClientsText(const v1::ListClientsResponse& clients) {
  TextTable table({{"client", ""},
                   {"streams", ""},
                   {"calls", ""},
                   {"workers", ""},
                   {"leases", ""},
                   {"from", ""}});
  for (const v1::ConnectedClient& client : clients.clients()) {
    table.AddRow({client.client(), Grouped(client.num_streams()), Grouped(client.num_calls()),
                  Grouped(client.num_sessions()), Grouped(client.num_leases()),
                  client.peers().empty()
                      ? "-"
                      : absl::StrCat(client.peers(0),
                                     client.peers_size() > 1
                                         ? absl::StrCat(" and ", client.peers_size() - 1, " others")
                                         : "")});
  }
  std::string text = table.Render();
  TextTable calls(
      {{"method", ""}, {"client", ""}, {"on", ""}, {"by", ""}, {"since", ""}, {"request id", ""}});
  for (const v1::OpenCall& call : clients.calls()) {
    calls.AddRow({call.method(), call.client(), call.resource().empty() ? "-" : call.resource(),
                  call.transport() == v1::TRANSPORT_LANE ? "lane" : "grpc",
                  TimeText(call.started()), call.request_id().empty() ? "-" : call.request_id()});
  }
  absl::StrAppend(&text, "\n", calls.Render());
  if (clients.workers().empty()) return text;
  TextTable workers({{"job", ""}, {"epoch", ""}, {"rank", ""}, {"client", ""}, {"leases", ""}});
  for (const v1::LoadingWorker& worker : clients.workers()) {
    workers.AddRow({worker.job(), absl::StrCat(worker.epoch()),
                    worker.worker().empty() ? absl::StrCat(worker.queue()) : worker.worker(),
                    worker.client().empty() ? "-" : worker.client(), Grouped(worker.num_leases())});
  }
  absl::StrAppend(&text, "\n", workers.Render());
  return text;
}

std::string SnapshotText(const v1::TakeSnapshotResponse& snapshot) {
  return absl::StrCat(snapshot.folder(), ": ", Grouped(snapshot.num_files()), " files, ",
                      Grouped(snapshot.num_bytes()), " bytes; of these ",
                      Grouped(snapshot.num_kept_files()), " files, ",
                      Grouped(snapshot.num_kept_bytes()), " bytes were there already\n");
}

// The message as protobuf writes it in JSON, with the names of its proto; unset fields too.
Json MessageJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  // A message without Any can always be written.
  if (!google::protobuf::util::MessageToJsonString(message, &text, options).ok()) return Json();
  return Json::parse(text);
}

using client::AdminClient;
using client::Fail;

// So that a server that hangs is an error.
constexpr absl::Duration kCallTimeout = absl::Minutes(10);

struct AdminArguments {
  std::string server;
  std::string level;
  std::string name;
  std::string job;
  std::string address;
  bool json = false;
  bool yes = false;
};

// In the order of v1::LogLevel, of which 0 is none.
const std::vector<std::string>& Levels() {
  static const auto& levels =
      *new std::vector<std::string>{"trace", "debug", "info", "warning", "error", "off"};
  return levels;
}

ExitCode RunStatus(const AdminArguments& arguments, const AdminClient& admin) {
  const absl::StatusOr<v1::GetServerResponse> status = admin.GetServer();
  if (!status.ok()) return Fail(status.status());
  std::cout << (arguments.json ? JsonText(MessageJson(*status)) : StatusText(*status));
  return kExitOk;
}

ExitCode RunClients(const AdminArguments& arguments, const AdminClient& admin) {
  const absl::StatusOr<v1::ListClientsResponse> clients = admin.ListClients();
  if (!clients.ok()) return Fail(clients.status());
  std::cout << (arguments.json ? JsonText(MessageJson(*clients)) : ClientsText(*clients));
  return kExitOk;
}

ExitCode RunLogLevel(const AdminArguments& arguments, const AdminClient& admin) {
  const auto level = absl::c_find(Levels(), arguments.level) - Levels().begin() + 1;
  const absl::StatusOr<v1::LogLevel> before = admin.SetLogLevel(static_cast<v1::LogLevel>(level));
  if (!before.ok()) return Fail(before.status());
  std::cout << "log level: " << arguments.level << ", before: " << LevelText(*before) << "\n";
  return kExitOk;
}

ExitCode RunReload(const AdminArguments& arguments, const AdminClient& admin) {
  const absl::StatusOr<std::vector<v1::ServerFile>> files = admin.Reload();
  if (!files.ok()) return Fail(files.status());
  Json objects = Json::array();
  for (const v1::ServerFile& file : *files) objects.push_back(MessageJson(file));
  std::cout << (arguments.json ? JsonText(objects) : FilesText(*files));
  // What is broken is not in use; whoever reloads wants to know.
  const bool all_good =
      absl::c_all_of(*files, [](const v1::ServerFile& file) { return file.failure().empty(); });
  return all_good ? kExitOk : kExitFailure;
}

// Whether a person at a terminal, or `yes`, says that it may be done; else why not.
absl::Status Confirm(const std::string& deed, bool yes) {
  if (yes) return absl::OkStatus();
  if (isatty(STDIN_FILENO) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("to ", deed, " where nobody can be asked, add --yes"));
  }
  std::cerr << Readable(deed) << "? [y/N] " << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  answer = absl::AsciiStrToLower(absl::StripAsciiWhitespace(answer));
  if (answer == "y" || answer == "yes") return absl::OkStatus();
  return absl::CancelledError("nothing was done");
}

ExitCode RunDrain(const AdminArguments& arguments, const AdminClient& admin) {
  const absl::Status may = Confirm("end the server at " + arguments.server, arguments.yes);
  if (absl::IsInvalidArgument(may)) return Misuse(may);
  if (!may.ok()) return Fail(may);
  const absl::StatusOr<bool> before = admin.Drain();
  if (!before.ok()) return Fail(before.status());
  std::cout << (*before ? "is draining already\n" : "drains\n");
  return kExitOk;
}

ExitCode RunSnapshot(const AdminArguments& arguments, const AdminClient& admin) {
  const absl::StatusOr<v1::TakeSnapshotResponse> taken = admin.TakeSnapshot(arguments.name);
  if (!taken.ok()) return Fail(taken.status());
  std::cout << (arguments.json ? JsonText(MessageJson(*taken)) : SnapshotText(*taken));
  return kExitOk;
}

ExitCode RunMoveJob(const AdminArguments& arguments, const AdminClient& admin) {
  const absl::Status moved = admin.MoveJob(arguments.job, arguments.address);
  if (!moved.ok()) return Fail(moved);
  std::cout << Readable(absl::StrCat(arguments.job, ": moved to ", arguments.address)) << "\n";
  return kExitOk;
}

using Action = ExitCode (*)(const AdminArguments&, const AdminClient&);

ExitCode RunAction(const AdminArguments& arguments, Action action) {
  const absl::StatusOr<client::Credentials> credentials = client::CredentialsToUse();
  if (!credentials.ok()) return Fail(credentials.status());
  const auto servers = client::ConnectAsCommand(arguments.server, *credentials);
  if (!servers.ok()) return Fail(servers.status());
  const auto connect = [&credentials](const std::string& owner) {
    client::ChannelOptions options;
    options.secured_by = *credentials;
    return client::MakeChannel(owner, options);
  };
  return action(arguments, AdminClient(servers->current(), kCallTimeout, connect));
}

}  // namespace

void AddAdminCommand(CLI::App& app, ExitCode& code) {
  const auto arguments = std::make_shared<AdminArguments>();
  CLI::App* const command = app.add_subcommand(
      "admin", "Run a server: what it does, its log, its files, its end (docs/security.md)");
  command->require_subcommand(1);
  const auto add = [&](const std::string& name, const std::string& description, Action action) {
    CLI::App* const added = command->add_subcommand(name, description);
    client::AddServerOption(arguments->server, /*otherwise=*/"", *added);
    added->callback([arguments, &code, action] { code = RunAction(*arguments, action); });
    return added;
  };
  const auto add_json = [&](CLI::App* added) {
    added->add_flag("--json", arguments->json, "Print JSON");
  };
  add_json(add("status", "Version, memory, files, quotas, servers, jobs", RunStatus));
  add_json(add("clients", "Who is connected: calls, streams and leases by principal", RunClients));
  CLI::App* const level = add(
      "log-level", "Set the lowest level that is logged: trace, debug, info, warning, error or off",
      RunLogLevel);
  level->add_option("level", arguments->level)
      ->required()
      ->type_name("LEVEL")
      ->check(CLI::IsMember(Levels()).description(""));
  add_json(add("reload", "Read certificates, tokens and the policy again", RunReload));
  add("drain", "End the server as SIGTERM does: what is open may end first", RunDrain)
      ->add_flag("--yes", arguments->yes, "Do it without asking");
  CLI::App* const move =
      add("move-job", "Move a job to another server of the cluster; its workers go on there",
          RunMoveJob);
  move->add_option("job", arguments->job)->required()->type_name("JOB");
  move->add_option("--to", arguments->address, "The server's --advertise, as `status` lists it")
      ->required()
      ->type_name("HOST:PORT");
  CLI::App* const snapshot = add(
      "snapshot", "Copy what is stored into a folder of the server's --snapshot-dir", RunSnapshot);
  snapshot->add_option("name", arguments->name)->required()->type_name("NAME");
  add_json(snapshot);
}

}  // namespace packhouse

#include "service/program/commands/admin_report.h"

#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "google/protobuf/timestamp.pb.h"
#include "google/protobuf/util/json_util.h"
#include "service/base/command_line/table.h"

namespace packhouse {
namespace {

std::string TimeText(const google::protobuf::Timestamp& time) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", absl::FromUnixSeconds(time.seconds()),
                          absl::UTCTimeZone());
}

}  // namespace

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
                    worker.worker().empty() ? absl::StrCat(worker.lane()) : worker.worker(),
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

Json MessageJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  // A message without Any can always be written.
  if (!google::protobuf::util::MessageToJsonString(message, &text, options).ok()) return Json();
  return Json::parse(text);
}

}  // namespace packhouse

// packhoused: the order in which it starts and stops.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "service/access/security/hmac_signer.h"
#include "service/access/security/security_files.h"
#include "service/base/clock.h"
#include "service/base/execution.h"
#include "service/base/limited_log.h"
#include "service/base/log_line.h"
#include "service/base/out_of_memory.h"
#include "service/base/standard_files.h"
#include "service/base/status_macros.h"
#include "service/engine/feedback/feedback_store.h"
#include "service/program/background_work.h"
#include "service/program/commands/commands.h"
#include "service/program/commit.h"
#include "service/program/data_folder/folder_contents.h"
#include "service/program/data_folder/snapshot.h"
#include "service/program/folder_stores.h"
#include "service/program/http_port.h"
#include "service/program/journal_files.h"
#include "service/program/membership.h"
#include "service/program/options.h"
#include "service/program/process.h"
#include "service/program/served_stores.h"
#include "service/program/server_readings.h"
#include "service/program/server_security.h"
#include "service/program/signals.h"
#include "service/program/spdlog_log.h"
#include "service/program/version.h"
#include "service/program/wing.h"
#include "service/server/calls/readiness.h"
#include "service/server/listen/library_logs.h"
#include "service/server/listen/server.h"
#include "service/server/listen/tcp_congestion.h"
#include "service/server/metrics/metrics.h"
#include "service/stores/limits/data_folder.h"

namespace packhouse {
namespace {

// Time for the reader of the log to take the last lines.
constexpr absl::Duration kLastLines = absl::Seconds(1);
// Time for calls that are under way when the cluster was restored.
constexpr absl::Duration kLastCalls = absl::Seconds(2);
// Time between two reports of left-out log lines.
constexpr absl::Duration kReportInterval = absl::Seconds(10);

// The log, and what bounds the lines that clients can cause at will.
struct Logs {
  explicit Logs(const std::string& level, Clock& clock)
      : all(level),
        limited(&all, [&clock] { return clock.Now(); }),
        deletions(
            &all, [&clock] { return clock.Now(); }, BoundsOfDeletions()) {}

  // What was left out since the last report.
  void Report() {
    if (const uint64_t count = NumOutOfMemory(); count != num_out_of_memory) {
      limited.Log("out of memory", LogLevel::kError, "out of memory",
                  {{"count", count - std::exchange(num_out_of_memory, count)}});
    }
    limited.LogSuppressed();
    deletions.LogSuppressed();
  }

  SpdlogLog all;
  LimitedLog limited;
  LimitedLog deletions;
  uint64_t num_out_of_memory = 0;
};

// What the server is asked for by administrators: the state of the process, and snapshots where the
// options have a folder for them. The references must outlive the result.
rpc::AdminActions AdminActionsWithSnapshots(const Options& options, const FolderStores& folder,
                                            security::SecurityFiles* files, SpdlogLog* log,
                                            Clock& clock) {
  rpc::AdminActions actions = AdminActionsOf(files, log, clock.Now());
  if (options.snapshot_dir.empty()) return actions;
  actions.snapshot =
      [opened = OpenedFolder{options.data_dir, folder.datasets.store.get(),
                             folder.ledger.store.get(), OpenedGraphsOf(options.wings)},
       parent = options.snapshot_dir,
       &clock](absl::string_view name, FileGiver histograms, SnapshotProgress progress) {
        OpenedFolder with_histograms = opened;
        with_histograms.histograms = histograms;
        return TakeNamedSnapshot(with_histograms, parent, name, clock.Now(), progress);
      };
  return actions;
}

absl::StatusOr<std::unique_ptr<FeedbackStore>> OpenFeedback(const Options& options,
                                                            const FolderStores& folder,
                                                            const ServedStores& stores,
                                                            Membership* member, Clock& clock) {
  FeedbackStore::Options feedback;
  feedback.max_models = options.max_measured_models;
  feedback.now = [&clock] { return clock.Now(); };
  feedback.sleep = Pause;
  feedback.is_alone = member == nullptr;
  // A folder that is only read stays as it is.
  if (!feedback.is_alone || options.data_dir.empty() || stores.may_save()) {
    feedback.retention = options.model_retention;
  }
  feedback.replica =
      feedback.is_alone ? absl::StrCat(absl::ToUnixNanos(clock.Now())) : member->replica();
  KeyStore* keys = folder.keys.get();
  if (member != nullptr) keys = member->keys();
  return FeedbackStore::Open(keys, std::move(feedback));
}

// Serves until a signal says that it is enough, then drains. A second signal ends the process.
void ServeUntilSignal(const Options& options, rpc::Server& server, security::SecurityFiles& files,
                      Logs& logs) {
  const Signals signals(&logs.limited, [&files] { files.Reload(); });
  const int signal = signals.AwaitDrain(kReportInterval, [&logs] { logs.Report(); });
  logs.all.Log(LogLevel::kInfo, "draining",
               {{"signal", Signals::NameOf(signal)},
                {"lame_duck_ms", options.lame_duck},
                {"timeout_ms", options.drain_timeout}});
  TellServiceManager("STOPPING=1");
  // A copy: the thread may still wait when this function has returned.
  Thread([signals, &logs] {
    const int second = signals.AwaitEnd();
    logs.all.Log(LogLevel::kWarning, "ended at once", {{"signal", Signals::NameOf(second)}});
    logs.all.Close(kLastLines);
    std::_Exit(128 + second);
  }).Detach();
  server.Drain({options.lame_duck, options.drain_timeout});
}

// From now on the folder must have what it has, so that nobody takes what was lost for what never
// was.
void NoteContents(const Options& options, const FolderStores& folder, const ServedStores& stores,
                  LimitedLog& log) {
  if (!stores.may_save()) return;
  const absl::Status noted = NoteFolderContents(options.data_dir, folder.identities());
  if (noted.ok()) return;
  log.Log("contents", LogLevel::kWarning, "the contents of the data folder are not noted",
          {LogField::Message(noted.message())});
}

// The cluster's store was restored: nothing that this server remembers holds, and it can change
// nothing. Its clients go elsewhere, and are told.
void EndFormerLife(rpc::Server& server, Logs& logs, const absl::Status& why) {
  logs.all.Log(LogLevel::kError, "this server is no longer of the cluster",
               {LogField::Message(why.message())});
  // Another thread: draining waits for the threads that serve.
  Thread([&server, &logs] {
    server.Drain({absl::ZeroDuration(), kLastCalls});
    logs.all.Close(kLastLines);
    std::_Exit(1);
  }).Detach();
}

// What the servers of a cluster have in common.
MemberSettings SettingsOf(const Options& options, const security::HmacSigner& signer) {
  MemberSettings settings;
  // Not the key, and nothing that it signs.
  settings.must_be_equal = {{"--signing-key", signer.Sign("member of a cluster", "")}};
  settings.should_be_equal = {{"--max-measured-models", absl::StrCat(options.max_measured_models)}};
  return settings;
}

// Tells who started the process that it serves, and at which ports.
void Announce(const rpc::Server& server, const std::string& http_address, EventLog& log) {
  std::printf(
      "{%s}\n",
      JsonMembers("listening", {{"grpc", server.address()}, {"http", http_address}}).c_str());
  std::fflush(stdout);
  log.Log(LogLevel::kInfo, "listening",
          {{"grpc", server.address()},
           {"http", http_address},
           {"admin", server.admin_address()},
           {"lane", server.lane_address()},
           {"version", kVersion},
           {"commit", kCommit},
           {"max_connections", server.bounds().connections.most},
           {"max_connections_per_client", server.bounds().connections.most_of_client},
           {"max_streams_per_connection", server.bounds().calls_of_connection}});
}

absl::Status SetTcpCongestion(const Options& options, const rpc::Server& server) {
  if (options.tcp_congestion.empty()) return absl::OkStatus();
  const absl::Status set = rpc::SetTcpCongestion(server.address(), options.tcp_congestion);
  return set.ok() ? set
                  : absl::Status(set.code(), absl::StrCat("--tcp-congestion: ", set.message()));
}

// `server` and `logs` must outlive it.
void StartMembership(Membership& membership, rpc::Server& server, Logs& logs) {
  membership.Start(
      [&server, &logs] {
        if (const absl::Status swept = server.SweepJobs(); !swept.ok()) {
          logs.limited.Log("jobs", LogLevel::kWarning, "the directory of jobs is not up to date",
                           {LogField::Message(swept.message())});
        }
      },
      [&server, &logs](const absl::Status& why) { EndFormerLife(server, logs, why); });
}

[[noreturn]] void ServeAndEnd(const Options& options, const FolderStores& folder,
                              rpc::Server& server, security::SecurityFiles& files,
                              ServedStores& stores, FeedbackStore& feedback, Logs& logs) {
  ServeUntilSignal(options, server, files, logs);
  stores.SaveUses();
  for (const auto& wing : options.wings) wing->SaveUses();
  feedback.SaveUses().IgnoreError();
  // They are in memory alone until then: what is not written now is lost.
  const bool all_saved = !stores.may_save() || SaveHistograms(server, logs.limited);
  // With the file of histograms, if it is new.
  NoteContents(options, folder, stores, logs.limited);
  logs.Report();
  logs.all.Log(LogLevel::kInfo, "drained", {});
  logs.all.Close(kLastLines);
  // All calls have ended, and what they were answered is on the disk. Only threads of libraries can
  // still log.
  std::_Exit(all_saved ? 0 : 1);
}

// Returns only if the service could not start, with the reason.
absl::Status Run(const Options& options, Clock& clock, Logs& logs) {
  metrics::Metrics metrics(kVersion, kCommit);
  // While the server starts, complaints of the libraries are debug lines: the final error says what
  // failed.
  rpc::RouteLibraryLogs(&logs.limited, LogLevel::kDebug);
  WarnOfMemoryLimit(options.server.memory_budget, options.memory_limit, logs.all);
  PH_RETURN_IF_ERROR(RaiseFileLimit());

  // What is on the disk, and whom the server knows.
  PH_ASSIGN_OR_RETURN(const FolderStores folder,
                      FolderStores::Open(options, metrics, logs.limited, clock));
  // What keeps the server from work. Each label of packhouse_ready is added in this function.
  Readiness readiness;
  if (folder.datasets.store != nullptr) {
    readiness.Add("datasets", [&folder] { return folder.datasets.why_not_ready(); });
  }
  if (folder.ledger.store != nullptr) {
    readiness.Add("delivery", [&folder] { return folder.ledger.why_not_ready(); });
  }
  PH_ASSIGN_OR_RETURN(const auto files,
                      security::SecurityFiles::Open(
                          options.security, [&clock] { return clock.Now(); }, &logs.all));
  PH_ASSIGN_OR_RETURN(const security::HmacSigner signer, OpenSigner(options, logs.all));
  std::unique_ptr<Membership> membership;
  if (!options.membership.ledger.empty()) {
    for (const auto& wing : options.wings) {
      PH_ASSIGN_OR_RETURN(membership,
                          wing->Join(options, SettingsOf(options, signer), &logs.limited));
      if (membership != nullptr) break;
    }
    readiness.Add("lease", [member = membership.get()] { return member->why_not_ready(); });
    readiness.Add("ledger", [member = membership.get()] { return member->why_full(); });
  }
  PH_ASSIGN_OR_RETURN(const auto stores,
                      ServedStores::Open(options, folder, membership.get(), clock));
  if (stores->shared() != nullptr) {
    readiness.Add("objects", [shared = stores->shared()] { return shared->why_not_ready(); });
  }
  PH_ASSIGN_OR_RETURN(const auto journal, JournalFiles::Open(options.audit_log, options.access_log,
                                                             options.access_log_every,
                                                             [&clock] { return clock.Now(); }));
  PH_ASSIGN_OR_RETURN(const auto feedback,
                      OpenFeedback(options, folder, *stores, membership.get(), clock));
  if (stores->shared() != nullptr) files->Add("S3 credentials", stores->shared()->credentials());
  if (journal != nullptr) journal->AddTo(*files);

  // The server.
  rpc::ServerOptions server_options = options.server;
  if (membership != nullptr) {
    server_options.job_logs = membership->logs();
    server_options.leave_cluster = [&membership] { membership->Leave(); };
    server_options.share_histograms = [&membership](HistogramStore::Bounds bounds,
                                                    MemoryBudget* memory) {
      return membership->ShareHistograms(std::move(bounds), memory);
    };
  } else {
    server_options.job_logs = folder.ledger.store.get();
    server_options.histograms_folder = options.data_dir;
  }
  server_options.log = {&logs.limited, &logs.deletions, metrics.CountCalls(journal.get())};
  server_options.sampling_observer = &metrics;
  server_options.feedback = feedback.get();
  // The page shows them, and nothing else.
  server_options.keeps_stream_sizes = !options.http_address.empty();
  ServedSources served{
      .options = &options, .stores = stores.get(), .clock = &clock, .log = &logs.all};
  for (const auto& wing : options.wings) {
    PH_ASSIGN_OR_RETURN(auto serve, wing->Serve(served));
    if (serve != nullptr) server_options.wings.push_back(std::move(serve));
  }
  server_options.absent_services = AbsentServicesOfWings();
  server_options.absent_kinds = AbsentKindsOfWings();
  server_options.why_no_examples = WhyNoExamples();
  server_options.credentials = CredentialsOf(*files, options);
  server_options.authenticator = files->authenticator();
  server_options.authorizer = files->authorizer();
  server_options.signer = &signer;
  server_options.readiness = &readiness;
  server_options.admin = AdminActionsWithSnapshots(options, folder, files.get(), &logs.all, clock);
  PH_ASSIGN_OR_RETURN(const auto server, rpc::Server::Start(server_options, &clock, &metrics,
                                                            &metrics, stores->datasets()));
  PH_RETURN_IF_ERROR(SetTcpCongestion(options, *server));

  NoteContents(options, folder, *stores, logs.limited);
  readiness.Add("draining", [server = server.get()] {
    return std::string(server->is_draining() ? "draining" : "");
  });

  // What shows it.
  ServerReadings readings({.server = server.get(),
                           .wings = &options.wings,
                           .stores = stores.get(),
                           .files = files.get(),
                           .membership = membership.get(),
                           .readiness = &readiness},
                          &clock);
  readings.ShowIn(metrics);
  PH_ASSIGN_OR_RETURN(const HttpPort http, HttpPort::Open(options, *server, folder, *files,
                                                          readiness, readings, metrics, clock));

  // What goes on beside it. Nothing below fails: these threads need what is above.
  StartMemoryReturn(server.get(), &logs.all);
  StartBackgroundWork(options, *server, *stores, membership.get(), logs.all, logs.limited);
  files->Watch();
  if (membership != nullptr) StartMembership(*membership, *server, logs);
  rpc::RouteLibraryLogs(&logs.limited);
  Signals::Started();
  Announce(*server, http.address(), logs.all);
  TellServiceManager("READY=1");

  ServeAndEnd(options, folder, *server, *files, *stores, *feedback, logs);
}

// Writes one line in the log's form, for every error at the start and at every --log-level.
int EndWith(absl::string_view event, const absl::Status& status, int exit_code) {
  SpdlogLog log("error");
  log.Log(LogLevel::kError, event, {LogField::Message(status.message())});
  log.Close(kLastLines);
  std::_Exit(exit_code);
}

}  // namespace
}  // namespace packhouse

int main(int argc, char** argv) {
  if (const auto exit_code = packhouse::RunCommand(argc, argv, packhouse::PartsOfCommands()))
    return *exit_code;
  packhouse::OpenStandardFiles();
  packhouse::ExplainWantOfThreads();
  packhouse::Signals::Block();
  const auto parsed = packhouse::ParseOptions(argc, argv);
  if (const int* exit_code = std::get_if<int>(&parsed)) {
    const absl::Status printed = packhouse::FlushStandardOutput();
    return printed.ok() ? *exit_code : packhouse::EndWith("cannot print", printed, 1);
  }
  if (const auto* refused = std::get_if<absl::Status>(&parsed)) {
    return packhouse::EndWith("bad flag", *refused, 2);
  }
  const auto& options = std::get<packhouse::Options>(parsed);

  packhouse::TuneAllocator();
  // Debian's abseil checks lock order at every lock, in release builds too.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // These outlive the libraries' threads.
  packhouse::SystemClock clock;
  packhouse::Logs logs(options.log_level, clock);
  packhouse::Signals::EndAtOnceWhileStarting([&logs](int signal) {
    logs.all.Log(packhouse::LogLevel::kWarning, "ended while it started",
                 {{"signal", packhouse::Signals::NameOf(signal)}});
    logs.all.Close(packhouse::kLastLines);
    std::_Exit(128 + signal);
  });
  const absl::Status refused = packhouse::Run(options, clock, logs);
  logs.all.Close(packhouse::kLastLines);
  return packhouse::EndWith("cannot start", packhouse::WithRemedy(options.data_dir, refused), 1);
}

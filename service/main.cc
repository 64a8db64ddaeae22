// packhoused: wiring, signals, the order of shutdown.
#include <malloc.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "service/admission/limited_log.h"
#include "service/admission/memory_return.h"
#include "service/base/clock.h"
#include "service/base/out_of_memory.h"
#include "service/base/status_macros.h"
#include "service/datasets/lmdb/lmdb_dataset_store.h"
#include "service/datasets/store_prober.h"
#include "service/datasets/store_watch.h"
#include "service/http/watching_pages.h"
#include "service/journal_files.h"
#include "service/ledger/format_1_events.h"
#include "service/ledger/lmdb/lmdb_record_log.h"
#include "service/metrics/metrics.h"
#include "service/options.h"
#include "service/partitioning/engines/metis_engine.h"
#include "service/rpc/library_logs.h"
#include "service/rpc/server.h"
#include "service/rpc/tcp_congestion.h"
#include "service/rpc/tls_server_credentials.h"
#include "service/security/security_files.h"
#include "service/signals.h"
#include "service/source_graphs/stored/file_source_graph_store.h"
#include "service/spdlog_log.h"
#include "service/version.h"

namespace packhouse {
namespace {

// Batches are large buffers that come and go: keep them in the process instead of giving them back
// to the kernel and faulting them in again, and share one arena between gRPC's threads and ours.
void TuneAllocator() {
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TOP_PAD, 16 << 20);
}

// What the kernel reports of this process.
MemoryReturn::Reading ReadProcess(const rpc::Server& server) {
  MemoryReturn::Reading reading;
  uint64_t pages = 0;
  uint64_t of_files = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages >> of_files;
  reading.resident_bytes = (pages - of_files) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  reading.held_bytes = server.held_bytes();
  timespec worked = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &worked);
  reading.cpu_time = absl::DurationFromTimespec(worked);
  return reading;
}

// Gives memory back when it is idle, on a thread of its own until the process ends.
void StartMemoryReturn(const rpc::Server* server, EventLog* log) {
  auto memory = std::make_unique<MemoryReturn>([server] { return ReadProcess(*server); },
                                               [] { malloc_trim(0); });
  memory->Tick(absl::Now());
  std::thread([memory = std::move(memory), log] {
    for (;;) {
      absl::SleepFor(MemoryReturn::kInterval);
      const absl::Time start = absl::Now();
      HasMemoryFor([&] {
        if (const auto bytes = memory->Tick(start)) {
          log->Log(LogLevel::kDebug, "memory given back",
                   {{"bytes", *bytes}, {"ms", absl::Now() - start}});
        }
      });
    }
  }).detach();
}

// Time for the reader of the log to take the last lines.
constexpr absl::Duration kLastLines = absl::Seconds(1);
// Time between two reports of left-out log lines.
constexpr absl::Duration kReportInterval = absl::Seconds(10);

// A store, with what watches it. Without --data-dir there is none.
template <typename Store>
struct Kept {
  std::unique_ptr<StoreWatch> watch;
  std::unique_ptr<Store> store;
  std::unique_ptr<StoreProber> prober;

  // A store that is only read is not expected to commit.
  std::string why_not_ready() const {
    if (store == nullptr) return "";
    if (const absl::Status health = store->health(); !health.ok()) {
      return std::string(health.message());
    }
    if (store->is_read_only()) return "";
    const absl::Status failure = watch->failure();
    return failure.ok() ? "" : absl::StrCat("commits fail: ", failure.message());
  }
};

template <typename Store>
absl::StatusOr<Kept<Store>> Open(const char* name, typename Store::Options options,
                                 CommitObserver* observer, LimitedLog& log) {
  Kept<Store> kept;
  kept.watch = std::make_unique<StoreWatch>(name, observer, &log);
  options.observer = kept.watch.get();
  auto store = Store::Open(options);
  if (!store.ok()) {
    return absl::Status(store.status().code(),
                        absl::StrCat("--data-dir: ", store.status().message()));
  }
  kept.store = *std::move(store);
  kept.prober = std::make_unique<StoreProber>(
      [watch = kept.watch.get(), tried = kept.store.get()] {
        return !tried->is_read_only() && !watch->failure().ok();
      },
      // The watch is told of the result.
      [watch = kept.watch.get(), tried = kept.store.get()] {
        tried->TryCommit(watch->failed_bytes()).IgnoreError();
      });
  return kept;
}

LmdbDatasetStore::Options DatasetsOf(const Options& options) {
  LmdbDatasetStore::Options store;
  store.folder = options.data_dir + "/datasets";
  store.max_bytes = options.max_store_bytes;
  return store;
}

LmdbRecordLog::Options LedgerOf(const Options& options) {
  LmdbRecordLog::Options ledger;
  ledger.folder = options.data_dir + "/delivery";
  return ledger;
}

absl::StatusOr<Kept<LmdbDatasetStore>> OpenDatasets(const Options& options,
                                                    metrics::Metrics& metrics, LimitedLog& log) {
  if (options.data_dir.empty()) return Kept<LmdbDatasetStore>();
  const LmdbDatasetStore::Options store = DatasetsOf(options);
  auto kept =
      Open<LmdbDatasetStore>("datasets", store, metrics.AddStore("datasets", store.max_bytes), log);
  if (kept.ok() && kept->store->is_read_only()) {
    log.Log("read-only", LogLevel::kWarning, "data sets are read-only", {{"folder", store.folder}});
  }
  return kept;
}

absl::StatusOr<Kept<LmdbRecordLog>> OpenLedger(const Options& options, metrics::Metrics& metrics,
                                               LimitedLog& log) {
  if (options.data_dir.empty()) return Kept<LmdbRecordLog>();
  const LmdbRecordLog::Options ledger = LedgerOf(options);
  return Open<LmdbRecordLog>("delivery", ledger, metrics.AddStore("delivery", ledger.max_bytes),
                             log);
}

// Null without --data-dir.
absl::StatusOr<std::unique_ptr<FileSourceGraphStore>> OpenSourceGraphs(const Options& options) {
  if (options.data_dir.empty()) return nullptr;
  FileSourceGraphStore::Options graphs;
  graphs.folder = options.data_dir + "/source_graphs";
  graphs.max_bytes = options.max_source_graph_bytes;
  graphs.max_graphs = options.max_source_graphs;
  auto store = FileSourceGraphStore::Open(graphs);
  if (!store.ok()) {
    return absl::Status(store.status().code(),
                        absl::StrCat("--data-dir: ", store.status().message()));
  }
  return store;
}

std::optional<metrics::SourceGraphReading> ReadSourceGraphs(const FileSourceGraphStore* graphs) {
  if (graphs == nullptr) return std::nullopt;
  const SourceGraphStoreCounts counts = graphs->counts();
  return metrics::SourceGraphReading{.num_graphs = counts.num_graphs,
                                     .num_bytes = counts.num_bytes,
                                     .max_bytes = counts.max_bytes,
                                     .appended_nodes = counts.appended_nodes,
                                     .appended_edges = counts.appended_edges};
}

// Prints on stdout what became of each store. Each store is converted as a whole or not at all.
// After an error or a crash, another run converts the rest.
absl::Status UpgradeStores(const Options& options) {
  const auto tell = [](const std::string& folder, bool converted) {
    std::printf("%s: %s\n", folder.c_str(), converted ? "converted" : "nothing to convert");
  };
  const LmdbDatasetStore::Options datasets = DatasetsOf(options);
  PH_ASSIGN_OR_RETURN(const bool of_datasets, LmdbDatasetStore::Upgrade(datasets));
  tell(datasets.folder, of_datasets);
  const LmdbRecordLog::Options ledger = LedgerOf(options);
  PH_ASSIGN_OR_RETURN(const bool of_ledger, LmdbRecordLog::Upgrade(ledger, EventFromFormat1));
  tell(ledger.folder, of_ledger);
  return absl::OkStatus();
}

// Null: plain text.
std::shared_ptr<grpc::ServerCredentials> CredentialsOf(const security::SecurityFiles& files,
                                                       const Options& options) {
  if (files.tls() == nullptr) return nullptr;
  auto clients = rpc::ClientCertificates::kNone;
  if (!options.security.tls.client_ca.empty()) {
    clients = options.security.callers.has_token_sources() ? rpc::ClientCertificates::kOptional
                                                           : rpc::ClientCertificates::kRequired;
  }
  return rpc::TlsServerCredentials(files.tls()->identity_path(), files.tls()->roots_path(),
                                   clients);
}

// Null without a path.
absl::StatusOr<std::unique_ptr<AppendedFile>> OpenJournal(const char* flag,
                                                          const std::string& path) {
  if (path.empty()) return nullptr;
  auto file = AppendedFile::Open(path);
  if (file.ok()) return file;
  return absl::Status(file.status().code(), absl::StrCat(flag, ": ", file.status().message()));
}

std::vector<metrics::FileReading> FilesOf(const security::SecurityFiles& files) {
  std::vector<metrics::FileReading> read;
  for (const security::Reloader::Reading& each : files.readings()) {
    read.push_back({each.name, each.is_broken, each.num_reloads, each.num_failures, each.expires});
  }
  return read;
}

// Returns only if the service could not start, with the reason.
absl::Status Run(const Options& options, Clock& clock, LimitedLog& limited_log,
                 LimitedLog& deletions, SpdlogLog& log) {
  metrics::Metrics metrics(kVersion);
  // While the server starts, complaints of the libraries are debug lines: the final error says what
  // failed.
  rpc::RouteLibraryLogs(&limited_log, LogLevel::kDebug);
  PH_ASSIGN_OR_RETURN(const auto datasets, OpenDatasets(options, metrics, limited_log));
  PH_ASSIGN_OR_RETURN(const auto ledger, OpenLedger(options, metrics, limited_log));
  PH_ASSIGN_OR_RETURN(const auto source_graphs, OpenSourceGraphs(options));
  PH_ASSIGN_OR_RETURN(const auto files,
                      security::SecurityFiles::Open(
                          options.security, [&clock] { return clock.Now(); }, &log));
  rpc::ServerOptions server_options = options.server;
  PH_ASSIGN_OR_RETURN(const auto audit, OpenJournal("--audit-log", options.audit_log));
  PH_ASSIGN_OR_RETURN(const auto access, OpenJournal("--access-log", options.access_log));
  if (audit != nullptr) files->Add("audit log", audit.get());
  if (access != nullptr) files->Add("access log", access.get());
  JournalFiles journal(audit.get(), access.get(), options.access_log_every,
                       [&clock] { return clock.Now(); });
  const bool has_journal = audit != nullptr || access != nullptr;
  server_options.log = {&limited_log, &deletions, has_journal ? &journal : nullptr};
  server_options.sampling_observer = &metrics;
  server_options.credentials = CredentialsOf(*files, options);
  // Without the program, METIS is asked for in vain, and automatic streams.
  const auto metis = MakeMetisEngine(MetisProgramHere());
  if (metis.ok()) {
    server_options.partition_engine = metis->get();
  } else if (!options.data_dir.empty()) {
    log.Log(LogLevel::kWarning, "METIS cannot be called",
            {LogField::Message(metis.status().message())});
  }
  server_options.authenticator = files->authenticator();
  server_options.authorizer = files->authorizer();
  PH_ASSIGN_OR_RETURN(
      const auto server,
      rpc::Server::Start(server_options, &clock, &metrics, &metrics, datasets.store.get(),
                         ledger.store.get(), source_graphs.get()));
  if (!options.tcp_congestion.empty()) {
    const absl::Status set = rpc::SetTcpCongestion(server->address(), options.tcp_congestion);
    if (!set.ok()) {
      return absl::Status(set.code(), absl::StrCat("--tcp-congestion: ", set.message()));
    }
  }
  StartMemoryReturn(server.get(), &log);
  metrics.SetDelivery([&server] { return server->recent_delivery(); });
  metrics.SetServer([&server, &files, &source_graphs] {
    return metrics::ServerReading{
        .pending = {server->pending_bytes(), server->max_pending_bytes()},
        .unsent = {server->unsent_bytes(), server->max_unsent_bytes()},
        .working = {server->working_bytes(), server->max_working_bytes()},
        .num_connections = server->num_connections(),
        .max_connections = server->bounds().connections.most,
        .num_out_of_memory = NumOutOfMemory(),
        .files = FilesOf(*files),
        .source_graphs = ReadSourceGraphs(source_graphs.get()),
    };
  });
  files->Watch();

  std::unique_ptr<http::HttpServer> http;
  if (!options.http_address.empty()) {
    http::Watched watched;
    watched.exposition = [&metrics] { return metrics.Exposition(); };
    watched.why_not_healthy = [&ledger]() -> std::string {
      return ledger.store == nullptr ? "" : std::string(ledger.store->failure().message());
    };
    watched.why_not_ready = [&server, &datasets, &ledger]() -> std::string {
      if (server->is_draining()) return "draining";
      const std::string why_not = datasets.why_not_ready();
      return why_not.empty() ? ledger.why_not_ready() : why_not;
    };
    PH_ASSIGN_OR_RETURN(http, http::HttpServer::Start(options.http_address,
                                                      http::WatchingPages(std::move(watched))));
  }
  rpc::RouteLibraryLogs(&limited_log);
  const std::string http_address = http == nullptr ? "-" : http->address();
  std::printf("listening grpc=%s http=%s\n", server->address().c_str(), http_address.c_str());
  std::fflush(stdout);
  log.Log(LogLevel::kInfo, "listening",
          {{"grpc", server->address()},
           {"http", http_address},
           {"version", kVersion},
           {"max_connections", server->bounds().connections.most},
           {"max_connections_per_client", server->bounds().connections.most_of_client},
           {"max_streams_per_connection", server->bounds().calls_of_connection}});

  const Signals signals(&limited_log, [&files] { files->Reload(); });
  auto report = [&limited_log, &deletions, reported = uint64_t{0}]() mutable {
    if (const uint64_t count = NumOutOfMemory(); count != reported) {
      limited_log.Log("out of memory", LogLevel::kError, "out of memory",
                      {{"count", count - std::exchange(reported, count)}});
    }
    limited_log.LogSuppressed();
    deletions.LogSuppressed();
  };
  const int signal = signals.AwaitDrain(kReportInterval, report);
  log.Log(LogLevel::kInfo, "draining",
          {{"signal", Signals::NameOf(signal)},
           {"lame_duck_ms", options.lame_duck},
           {"timeout_ms", options.drain_timeout}});
  std::thread([&signals, &log] {
    const int second = signals.AwaitEnd();
    log.Log(LogLevel::kWarning, "ended at once", {{"signal", Signals::NameOf(second)}});
    log.Close(kLastLines);
    std::_Exit(128 + second);
  }).detach();
  server->Drain({options.lame_duck, options.drain_timeout});
  report();
  log.Log(LogLevel::kInfo, "drained", {});
  log.Close(kLastLines);
  // All calls have ended, and what they were answered is on the disk. Only threads of libraries can
  // still log.
  std::_Exit(0);
}

// Writes one line in the log's form, for every error at the start and at every --log-level.
int Fail(absl::string_view event, const absl::Status& status, int exit_code) {
  SpdlogLog log("error");
  log.Log(LogLevel::kError, event, {LogField::Message(status.message())});
  log.Close(kLastLines);
  std::_Exit(exit_code);
}

}  // namespace
}  // namespace packhouse

int main(int argc, char** argv) {
  packhouse::Signals::Block();
  const auto parsed = packhouse::ParseOptions(argc, argv);
  if (const int* exit_code = std::get_if<int>(&parsed)) return *exit_code;
  if (const auto* refused = std::get_if<absl::Status>(&parsed)) {
    return packhouse::Fail("bad flag", *refused, 2);
  }
  const auto& options = std::get<packhouse::Options>(parsed);

  packhouse::TuneAllocator();
  // Debian's abseil checks lock order at every lock, in release builds too.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  if (options.upgrade_store) {
    const absl::Status upgraded = packhouse::UpgradeStores(options);
    return upgraded.ok() ? 0 : packhouse::Fail("cannot convert", upgraded, 1);
  }
  // These outlive the libraries' threads.
  packhouse::SpdlogLog log(options.log_level);
  packhouse::SystemClock clock;
  const auto now = [&clock] { return clock.Now(); };
  packhouse::LimitedLog limited_log(&log, now);
  packhouse::LimitedLog deletions(&log, now, packhouse::BoundsOfDeletions());
  const absl::Status refused = packhouse::Run(options, clock, limited_log, deletions, log);
  log.Close(packhouse::kLastLines);
  return packhouse::Fail("cannot start", refused, 1);
}

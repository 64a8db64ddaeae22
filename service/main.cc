// packhoused: wiring, signals, the order of shutdown.
#include <malloc.h>
#include <signal.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
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
#include "service/admission/recent_value.h"
#include "service/admission/worker_pool.h"
#include "service/base/clock.h"
#include "service/base/out_of_memory.h"
#include "service/base/status_macros.h"
#include "service/commit.h"
#include "service/data_folder/data_folder.h"
#include "service/data_folder/maintenance.h"
#include "service/data_folder/snapshot.h"
#include "service/datasets/fixed_dataset_store.h"
#include "service/datasets/lmdb/lmdb_dataset_store.h"
#include "service/datasets/retained_datasets.h"
#include "service/datasets/store_prober.h"
#include "service/datasets/store_watch.h"
#include "service/http/watching_pages.h"
#include "service/http_admission.h"
#include "service/journal_files.h"
#include "service/ledger/lmdb/lmdb_record_log.h"
#include "service/membership.h"
#include "service/metrics/metrics.h"
#include "service/options.h"
#include "service/page/page_api.h"
#include "service/page_routes.h"
#include "service/partitioning/engines/metis_engine.h"
#include "service/rpc/library_logs.h"
#include "service/rpc/server.h"
#include "service/rpc/tcp_congestion.h"
#include "service/rpc/tls_server_credentials.h"
#include "service/security/hmac_signer.h"
#include "service/security/security_files.h"
#include "service/shared_datasets/shared_datasets.h"
#include "service/signals.h"
#include "service/source_graphs/retained_source_graphs.h"
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

// Deletes what nobody uses any more, on a thread of its own until the process ends. `kind`:
// "dataset".
void StartSweeping(const char* kind, absl::Duration period,
                   std::function<absl::Status(std::vector<Expired>& expired)> sweep,
                   EventLog* log) {
  std::thread([kind, period, sweep = std::move(sweep), log] {
    for (;;) {
      absl::SleepFor(period);
      HasMemoryFor([&] {
        std::vector<Expired> expired;
        const absl::Status swept = sweep(expired);
        for (const Expired& each : expired) {
          log->Log(LogLevel::kInfo, "expired",
                   {{kind, each.name}, {"unused_ms", each.unused}, {"bytes", each.num_bytes}});
        }
        if (!swept.ok()) {
          log->Log(LogLevel::kWarning, "cannot expire",
                   {{"kind", kind}, LogField::Message(swept.message())});
        }
      });
    }
  }).detach();
}

// The store of which a retention deletes what nobody uses; null if nothing is to expire.
template <typename Retained, typename Store>
absl::StatusOr<std::unique_ptr<Retained>> Retain(Store* store, const std::string& file,
                                                 const Retention& retention, Clock& clock) {
  if (store == nullptr) return nullptr;
  // Uses are not noted now. What was noted before would be too old when they are noted again.
  if (retention.is_for_ever()) {
    PH_RETURN_IF_ERROR(RemoveAll(file));
    return nullptr;
  }
  return std::make_unique<Retained>(store, file, retention, [&clock] { return clock.Now(); });
}

// If memory or the disk refuse, the next time may be better.
void SaveHistograms(rpc::Server& server, LimitedLog& log) {
  HasMemoryFor([&] {
    const absl::Status saved = server.SaveHistograms();
    if (!saved.ok()) {
      log.Log("histograms", LogLevel::kWarning, "cannot save named histograms",
              {LogField::Message(saved.message())});
    }
  });
}

// Saves named histograms that have changed, on a thread of its own until the process ends: each
// minute, or if that takes long, less than a twentieth of the time.
void StartSavingHistograms(rpc::Server& server, LimitedLog& log) {
  std::thread([&server, &log] {
    for (absl::Duration pause = absl::Minutes(1);;) {
      absl::SleepFor(pause);
      const absl::Time start = absl::Now();
      SaveHistograms(server, log);
      pause = std::max(absl::Minutes(1), 20 * (absl::Now() - start));
    }
  }).detach();
}

LmdbDatasetStore::Options DatasetsOf(const Options& options) {
  LmdbDatasetStore::Options store;
  store.folder = DatasetsFolder(options.data_dir);
  store.max_bytes = options.max_store_bytes;
  return store;
}

LmdbRecordLog::Options LedgerOf(const Options& options) {
  LmdbRecordLog::Options ledger;
  ledger.folder = DeliveryFolder(options.data_dir);
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

// None if the jobs are shared.
absl::StatusOr<Kept<LmdbRecordLog>> OpenLedger(const Options& options, metrics::Metrics& metrics,
                                               LimitedLog& log) {
  if (options.data_dir.empty() || !options.membership.ledger.empty()) return Kept<LmdbRecordLog>();
  const LmdbRecordLog::Options ledger = LedgerOf(options);
  return Open<LmdbRecordLog>("delivery", ledger, metrics.AddStore("delivery", ledger.max_bytes),
                             log);
}

// Null without --data-dir, and where servers share the jobs: a source graph would be of one server.
absl::StatusOr<std::unique_ptr<FileSourceGraphStore>> OpenSourceGraphs(const Options& options) {
  if (options.data_dir.empty() || !options.membership.ledger.empty()) return nullptr;
  FileSourceGraphStore::Options graphs;
  graphs.folder = SourceGraphsFolder(options.data_dir);
  graphs.max_bytes = options.max_source_graph_bytes;
  graphs.max_graphs = options.max_source_graphs;
  auto store = FileSourceGraphStore::Open(graphs);
  if (!store.ok()) {
    return absl::Status(store.status().code(),
                        absl::StrCat("--data-dir: ", store.status().message()));
  }
  return store;
}

std::optional<metrics::SharedDatasetsReading> ReadSharedDatasets(const SharedDatasets* shared) {
  if (shared == nullptr) return std::nullopt;
  const SharedDatasets::Counts counts = shared->counts();
  return metrics::SharedDatasetsReading{.cached_bytes = counts.cache.num_bytes,
                                        .in_use_bytes = counts.cache.in_use,
                                        .max_cached_bytes = counts.max_cache_bytes,
                                        .hits = counts.cache.hits,
                                        .misses = counts.cache.misses,
                                        .evictions = counts.cache.evictions,
                                        .num_retries = counts.num_retries,
                                        .swept_objects = counts.swept_objects,
                                        .swept_bytes = counts.swept_bytes};
}

// Deletes objects in S3 that no data set has, on a thread of its own until the process ends. Every
// server does; at random times, so that they seldom do it together.
void StartSweepingObjects(SharedDatasets* shared, EventLog* log) {
  std::thread([shared, log] {
    constexpr absl::Duration kPeriod = absl::Minutes(10);
    absl::SleepFor(kPeriod * (static_cast<double>(DrawUniqueNumber() >> 11) * 0x1p-53));
    for (;;) {
      HasMemoryFor([&] {
        const auto step = shared->Sweep();
        if (!step.ok()) {
          log->Log(LogLevel::kWarning, "cannot sweep objects",
                   {LogField::Message(step.status().message())});
        } else if (step->num_deleted != 0) {
          log->Log(LogLevel::kInfo, "swept objects",
                   {{"count", step->num_deleted}, {"bytes", step->num_bytes}});
        }
      });
      absl::SleepFor(kPeriod);
    }
  }).detach();
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

std::optional<metrics::ClusterReading> ReadCluster(const rpc::Server& server,
                                                   const Membership* membership) {
  const auto jobs = server.shared_jobs();
  if (membership == nullptr || !jobs) return std::nullopt;
  const EtcdJobLogs::Commits commits = membership->logs()->commits();
  return metrics::ClusterReading{.num_members = membership->num_members(),
                                 .has_lease = membership->why_not_ready().empty(),
                                 .num_jobs = jobs->num_owned,
                                 .num_opened = jobs->counts.num_opened,
                                 .num_taken_over = jobs->counts.num_taken_over,
                                 .num_commits = commits.num_done,
                                 .num_failed_commits = commits.num_failed,
                                 .commit_time = commits.time};
}

// Prints on stdout what became of each store. After an error or a crash, another run converts the
// rest.
absl::Status UpgradeStores(const Options& options) {
  PH_ASSIGN_OR_RETURN(const auto stores, UpgradeDataFolder(options.data_dir));
  for (const UpgradedStore& store : stores) {
    std::printf("%s: %s\n", store.folder.c_str(),
                store.is_converted ? "converted" : "nothing to convert");
  }
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

// `files` must outlive the result.
http::HttpSecurity HttpSecurityOf(const security::SecurityFiles& files, const Options& options) {
  http::HttpSecurity http;
  if (options.http_tls) {
    http.tls = [tls = files.tls()] {
      security::TlsMaterial now = tls->material();
      return http::TlsIdentity{std::move(now.certificate), std::move(now.key),
                               std::move(now.client_ca)};
    };
  }
  http.admit = [admission =
                    HttpAdmission{files.authenticator(), files.authorizer(), options.http_auth}](
                   const http::Caller& caller, const http::Request& request) {
    return Admit(admission, caller, request);
  };
  http.names = options.http_names;
  return http;
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

// The data sets of a store, and the disk that it, or its cache, lies on. O(data sets).
metrics::StoreReading ReadStore(const DatasetStore& store, const std::string& folder) {
  metrics::StoreReading reading;
  struct statvfs disk = {};
  if (statvfs(folder.c_str(), &disk) == 0) {
    reading.disk = {.free_bytes = uint64_t{disk.f_bavail} * disk.f_frsize,
                    .all_bytes = uint64_t{disk.f_blocks} * disk.f_frsize};
  }
  std::string page;
  do {
    const auto list = store.List(/*page_size=*/1000, page);
    if (!list.ok()) break;
    for (const DatasetInfo& info : list->datasets) {
      reading.datasets.push_back(
          {info.name, info.state == DatasetState::kSealed, info.num_graphs, info.num_bytes});
    }
    page = list->next_page_token;
  } while (!page.empty());
  return reading;
}

// A page of metrics does not wait for the disk for longer than this: it then has what was read
// last.
constexpr absl::Duration kLongestStoreReading = absl::Milliseconds(100);
// What administrators may ask for. The pointees must outlive the result.
rpc::AdminActions ActionsOf(security::SecurityFiles* files, SpdlogLog* log, absl::Time started) {
  rpc::AdminActions actions;
  actions.version = kVersion;
  actions.started = started;
  actions.log_level = [log] { return log->level(); };
  actions.set_log_level = [log](const std::string& level) {
    log->Log(LogLevel::kInfo, "log level", {{"from", log->level()}, {"to", level}});
    log->set_level(level);
  };
  actions.files = [files] {
    std::vector<FileState> states;
    for (const security::Reloader::Reading& each : files->readings()) {
      states.push_back({each.name, each.failure, each.expires, each.num_reloads});
    }
    return states;
  };
  actions.reload = [files] { files->Reload(); };
  // As whoever runs the process ends it.
  actions.drain = [] { ::kill(::getpid(), SIGTERM); };
  return actions;
}

absl::StatusOr<security::HmacSigner> OpenSigner(const Options& options, EventLog& log) {
  if (options.signing_key.empty() && options.data_dir.empty()) {
    return security::HmacSigner::Temporary();
  }
  auto signer = security::HmacSigner::OpenOrMake(
      options.signing_key.empty() ? absl::StrCat(options.data_dir, "/signing.key")
                                  : options.signing_key);
  if (signer.ok()) return signer;
  if (options.signing_key.empty() && !absl::IsInvalidArgument(signer.status())) {
    // Such as a data folder that can only be read.
    log.Log(LogLevel::kWarning, "no key for cursors",
            {LogField::Message(absl::StrCat(signer.status().message(),
                                            "; cursors are good until the server ends"))});
    return security::HmacSigner::Temporary();
  }
  return absl::Status(signer.status().code(),
                      absl::StrCat("--signing-key: ", signer.status().message()));
}

std::vector<metrics::QuotaUseReading> QuotaUseOf(rpc::Server& server) {
  std::vector<metrics::QuotaUseReading> read;
  for (QuotaReading& each : server.recent_quotas()) {
    read.push_back({std::move(each.where), std::move(each.quota), each.used, each.limit});
  }
  return read;
}

// Returns only if the service could not start, with the reason.
absl::Status Run(const Options& options, Clock& clock, LimitedLog& limited_log,
                 LimitedLog& deletions, SpdlogLog& log) {
  metrics::Metrics metrics(kVersion, kCommit);
  // While the server starts, complaints of the libraries are debug lines: the final error says what
  // failed.
  rpc::RouteLibraryLogs(&limited_log, LogLevel::kDebug);
  if (!options.data_dir.empty()) PH_RETURN_IF_ERROR(CheckRestored(options.data_dir));
  PH_ASSIGN_OR_RETURN(const auto datasets, OpenDatasets(options, metrics, limited_log));
  PH_ASSIGN_OR_RETURN(const auto ledger, OpenLedger(options, metrics, limited_log));
  PH_ASSIGN_OR_RETURN(const auto source_graphs, OpenSourceGraphs(options));
  PH_ASSIGN_OR_RETURN(const auto files,
                      security::SecurityFiles::Open(
                          options.security, [&clock] { return clock.Now(); }, &log));
  rpc::ServerOptions server_options = options.server;
  std::unique_ptr<Membership> membership;
  if (!options.membership.ledger.empty()) {
    PH_ASSIGN_OR_RETURN(membership, Membership::Join(options.membership, &limited_log));
    server_options.job_logs = membership->logs();
    server_options.leave_cluster = [&membership] { membership->Leave(); };
    // Each server would count for itself.
    server_options.histograms.max_histograms = 0;
  }
  std::unique_ptr<SharedDatasets> shared;
  if (options.store.is_shared()) {
    auto opened = SharedDatasets::Open(options.store.shared, membership->keys(), &clock);
    if (!opened.ok()) {
      return absl::Status(opened.status().code(), absl::StrCat("--store ", options.store.uri, ": ",
                                                               opened.status().message()));
    }
    shared = *std::move(opened);
    files->Add("S3 credentials", shared->credentials());
  }
  PH_ASSIGN_OR_RETURN(const auto audit, OpenJournal("--audit-log", options.audit_log));
  PH_ASSIGN_OR_RETURN(const auto access, OpenJournal("--access-log", options.access_log));
  if (audit != nullptr) files->Add("audit log", audit.get());
  if (access != nullptr) files->Add("access log", access.get());
  JournalFiles journal(audit.get(), access.get(), options.access_log_every,
                       [&clock] { return clock.Now(); });
  const bool has_journal = audit != nullptr || access != nullptr;
  server_options.log = {&limited_log, &deletions,
                        metrics.CountCalls(has_journal ? &journal : nullptr)};
  server_options.sampling_observer = &metrics;
  // Servers that share jobs choose the same limits for a device: those of its profile.
  PH_ASSIGN_OR_RETURN(
      const auto feedback,
      FeedbackStore::Open({membership != nullptr ? "" : options.data_dir, kMeasuredModelsFile,
                           membership != nullptr ? 0 : options.max_measured_models}));
  server_options.feedback = feedback.get();
  server_options.loader.log = &limited_log;
  if (membership == nullptr) server_options.histograms_folder = options.data_dir;
  // A folder that is only read stays as it is, and so does a copy.
  const bool may_save =
      datasets.store != nullptr && membership == nullptr && !datasets.store->is_read_only();
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
  PH_ASSIGN_OR_RETURN(const security::HmacSigner signer, OpenSigner(options, log));
  server_options.signer = &signer;
  server_options.admin = ActionsOf(files.get(), &log, clock.Now());
  if (!options.snapshot_dir.empty()) {
    server_options.admin.snapshot = [opened = OpenedFolder{options.data_dir, datasets.store.get(),
                                                           ledger.store.get(), source_graphs.get()},
                                     parent = options.snapshot_dir,
                                     &clock](absl::string_view name, FileGiver histograms,
                                             SnapshotProgress progress) {
      OpenedFolder with_histograms = opened;
      with_histograms.histograms = histograms;
      return TakeNamedSnapshot(with_histograms, parent, name, clock.Now(), progress);
    };
  }
  DatasetStore* served = datasets.store.get();
  SourceGraphStore* served_graphs = source_graphs.get();
  std::unique_ptr<FixedDatasetStore> copied;
  if (membership != nullptr && served != nullptr) {
    copied = std::make_unique<FixedDatasetStore>(
        served,
        "this server has a copy of the data sets, and shares its jobs with others (--ledger)");
    served = copied.get();
  }
  if (shared != nullptr) served = shared->store();
  PH_ASSIGN_OR_RETURN(
      const auto retained,
      Retain<RetainedDatasets>(may_save ? served : nullptr, LastUsesFile(options.data_dir),
                               options.dataset_retention, clock));
  PH_ASSIGN_OR_RETURN(const auto retained_graphs,
                      Retain<RetainedSourceGraphs>(may_save ? served_graphs : nullptr,
                                                   SourceGraphUsesFile(options.data_dir),
                                                   options.source_graph_retention, clock));
  if (retained != nullptr) served = retained.get();
  if (retained_graphs != nullptr) served_graphs = retained_graphs.get();
  server_options.partitions.unused_graphs = source_graphs.get();
  PH_ASSIGN_OR_RETURN(const auto server,
                      rpc::Server::Start(server_options, &clock, &metrics, &metrics, served,
                                         ledger.store.get(), served_graphs));
  if (!options.tcp_congestion.empty()) {
    const absl::Status set = rpc::SetTcpCongestion(server->address(), options.tcp_congestion);
    if (!set.ok()) {
      return absl::Status(set.code(), absl::StrCat("--tcp-congestion: ", set.message()));
    }
  }
  StartMemoryReturn(server.get(), &log);
  if (shared != nullptr) StartSweepingObjects(shared.get(), &log);
  if (retained != nullptr) {
    StartSweeping(
        "dataset", options.dataset_retention.Period(),
        [&retained](std::vector<Expired>& expired) { return retained->Sweep(expired); }, &log);
  }
  if (retained_graphs != nullptr) {
    StartSweeping(
        "source_graph", options.source_graph_retention.Period(),
        [&retained_graphs, &server](std::vector<Expired>& expired) {
          const absl::Status swept = retained_graphs->Sweep(expired);
          for (const Expired& each : expired) server->ForgetSourceGraph(each.name);
          return swept;
        },
        &log);
  }
  if (!options.histogram_retention.is_for_ever()) {
    StartSweeping(
        "histogram", options.histogram_retention.Period(),
        [&server, &options](std::vector<Expired>& expired) {
          expired = server->DeleteUnusedHistograms(options.histogram_retention);
          return absl::OkStatus();
        },
        &log);
  }
  if (may_save) StartSavingHistograms(*server, limited_log);
  metrics.SetDelivery([&server] { return server->recent_delivery(); });
  metrics.SetServer([&server, &files, &source_graphs, &shared, &retained, &membership] {
    return metrics::ServerReading{
        .pending = {server->pending_bytes(), server->max_pending_bytes()},
        .unsent = {server->unsent_bytes(), server->max_unsent_bytes()},
        .working = {server->working_bytes(), server->max_working_bytes()},
        .num_connections = server->num_connections(),
        .max_connections = server->bounds().connections.most,
        .num_out_of_memory = NumOutOfMemory(),
        .num_expired_datasets = retained == nullptr ? 0 : retained->num_expired(),
        .files = FilesOf(*files),
        .source_graphs = ReadSourceGraphs(source_graphs.get()),
        .cluster = ReadCluster(*server, membership.get()),
        .shared_datasets = ReadSharedDatasets(shared.get()),
        .quotas = QuotaUseOf(*server),
        .feedback = server->feedback(),
    };
  });
  files->Watch();
  WorkerPool store_reader(&clock, 1);
  const DatasetStore* const stored = shared != nullptr ? shared->store() : datasets.store.get();
  // What is on this machine: the folder, or the cache.
  const std::string& disk =
      shared != nullptr ? options.store.shared.cache_folder : options.data_dir;
  RecentValue<metrics::StoreReading> recent_store(
      [&stored, &disk] { return ReadStore(*stored, disk); },
      [&store_reader](std::function<void()> read) {
        store_reader.Submit(/*client=*/"", std::move(read));
      },
      kLongestStoreReading);
  if (stored != nullptr) metrics.SetStores([&recent_store] { return recent_store.Get(); });
  RecentValue<std::optional<uint64_t>> recent_free_bytes(
      [&disk] { return FreeBytes(disk); },
      [&store_reader](std::function<void()> read) {
        store_reader.Submit(/*client=*/"", std::move(read));
      },
      kLongestStoreReading);

  std::unique_ptr<page::PageApi> page;
  std::unique_ptr<http::HttpServer> http;
  if (!options.http_address.empty()) {
    page = std::make_unique<page::PageApi>(page::PageSources{
        .clock = &clock,
        .calls = server->MakePageCalls(),
        .memory = server->working(),
        .authorizer = files->authorizer(),
        .reading =
            [&server, &metrics, &source_graphs, &recent_free_bytes] {
              return ReadServer(*server, metrics, source_graphs.get(), recent_free_bytes.Get(),
                                kVersion);
            },
        .histogram_names = [&server] { return server->histogram_names(); },
        .quotas = [&server] { return server->recent_quotas(); },
        .watch_job = [&server](const std::string& job) { return server->WatchJob(job); }});
    http::Watched watched;
    watched.exposition = [&metrics] { return metrics.Exposition(); };
    watched.open_metrics = [&metrics] { return metrics.OpenMetrics(); };
    watched.why_not_healthy = [&ledger]() -> std::string {
      return ledger.store == nullptr ? "" : std::string(ledger.store->failure().message());
    };
    watched.why_not_ready = [&server, &datasets, &ledger, &membership]() -> std::string {
      if (server->is_draining()) return "draining";
      if (membership != nullptr) {
        if (std::string why_not = membership->why_not_ready(); !why_not.empty()) return why_not;
      }
      const std::string why_not = datasets.why_not_ready();
      return why_not.empty() ? ledger.why_not_ready() : why_not;
    };
    std::vector<http::Route> routes = http::WatchingPages(std::move(watched));
    for (http::Route& route : PageRoutes(page.get())) routes.push_back(std::move(route));
    PH_ASSIGN_OR_RETURN(
        http, http::HttpServer::Start(options.http_address, std::move(routes), http::HttpBounds(),
                                      HttpSecurityOf(*files, options)));
  }
  // Nothing below fails: the thread needs the server.
  if (membership != nullptr) membership->Start([&server] { server->SweepJobs(); });
  rpc::RouteLibraryLogs(&limited_log);
  const std::string http_address = http == nullptr ? "-" : http->address();
  std::printf("listening grpc=%s http=%s\n", server->address().c_str(), http_address.c_str());
  std::fflush(stdout);
  log.Log(LogLevel::kInfo, "listening",
          {{"grpc", server->address()},
           {"http", http_address},
           {"version", kVersion},
           {"commit", kCommit},
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
  // Without it, some uses count as a little later than they were.
  if (retained != nullptr) retained->Save().IgnoreError();
  if (retained_graphs != nullptr) retained_graphs->Save().IgnoreError();
  if (may_save) SaveHistograms(*server, limited_log);
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
  return packhouse::Fail("cannot start", packhouse::WithRemedy(options.data_dir, refused), 1);
}

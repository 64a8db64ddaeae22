// packhoused: wiring, signals, the order of shutdown.
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "service/admission/memory_return.h"
#include "service/datasets/lmdb_dataset_store.h"
#include "service/datasets/lmdb_record_log.h"
#include "service/metrics/http_endpoint.h"
#include "service/metrics/metrics.h"
#include "service/options.h"
#include "service/rpc/clock.h"
#include "service/rpc/server.h"
#include "service/rpc/tcp_congestion.h"
#include "service/version.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

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

// What the kernel says of this process.
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
void StartMemoryReturn(const rpc::Server* server) {
  std::thread([server] {
    MemoryReturn memory([server] { return ReadProcess(*server); }, [] { malloc_trim(0); });
    for (;;) {
      absl::SleepFor(MemoryReturn::kInterval);
      const absl::Time start = absl::Now();
      if (const auto bytes = memory.Tick(start)) {
        spdlog::debug(R"("event":"memory given back","bytes":{},"milliseconds":{:.1f})", *bytes,
                      absl::ToDoubleMilliseconds(absl::Now() - start));
      }
    }
  }).detach();
}

// One JSON object a line, to stderr.
void StartLog(const std::string& level) {
  auto logger = spdlog::stderr_logger_mt("packhouse");
  logger->set_pattern(R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",%v})");
  logger->set_level(spdlog::level::from_str(level));
  spdlog::set_default_logger(logger);
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "packhoused: %s\n", std::string(status.message()).c_str());
  return 1;
}

// Null without --data-dir.
absl::StatusOr<std::unique_ptr<LmdbDatasetStore>> OpenDatasets(const Options& options,
                                                               metrics::Metrics& metrics) {
  if (options.data_dir.empty()) return nullptr;
  LmdbDatasetStore::Options store;
  store.folder = options.data_dir + "/datasets";
  store.max_bytes = options.max_store_bytes;
  store.observer = metrics.AddStore("datasets", store.max_bytes);
  auto datasets = LmdbDatasetStore::Open(store);
  if (!datasets.ok()) {
    return absl::Status(datasets.status().code(),
                        absl::StrCat("--data-dir: ", datasets.status().message()));
  }
  if ((*datasets)->is_read_only()) {
    spdlog::warn(R"("event":"data sets are read-only","folder":"{}")", store.folder);
  }
  return datasets;
}

// Null without --data-dir.
absl::StatusOr<std::unique_ptr<LmdbRecordLog>> OpenLedger(const Options& options,
                                                          metrics::Metrics& metrics) {
  if (options.data_dir.empty()) return nullptr;
  LmdbRecordLog::Options log;
  log.folder = options.data_dir + "/delivery";
  log.observer = metrics.AddStore("delivery", log.max_bytes);
  auto ledger = LmdbRecordLog::Open(log);
  if (!ledger.ok()) {
    return absl::Status(ledger.status().code(),
                        absl::StrCat("--data-dir: ", ledger.status().message()));
  }
  return ledger;
}

int Run(const Options& options, const sigset_t& signals) {
  metrics::Metrics metrics(kVersion);
  rpc::SystemClock clock;
  auto datasets = OpenDatasets(options, metrics);
  if (!datasets.ok()) return Fail(datasets.status());
  auto ledger = OpenLedger(options, metrics);
  if (!ledger.ok()) return Fail(ledger.status());
  auto server = rpc::Server::Start(options.server, &clock, &metrics, &metrics, datasets->get(),
                                   ledger->get());
  if (!server.ok()) return Fail(server.status());
  if (!options.tcp_congestion.empty()) {
    const absl::Status set = rpc::SetTcpCongestion((*server)->address(), options.tcp_congestion);
    if (!set.ok()) {
      return Fail(absl::Status(set.code(), absl::StrCat("--tcp-congestion: ", set.message())));
    }
  }
  StartMemoryReturn(server->get());
  metrics.SetDelivery([&server] { return (*server)->delivery(); });

  std::unique_ptr<metrics::HttpEndpoint> http;
  if (!options.http_address.empty()) {
    auto started = metrics::HttpEndpoint::Start(options.http_address,
                                                {[&metrics] { return metrics.Exposition(); },
                                                 [&server] { return !(*server)->is_draining(); }});
    if (!started.ok()) return Fail(started.status());
    http = *std::move(started);
  }
  const std::string http_address = http == nullptr ? "-" : http->address();
  std::printf("listening grpc=%s http=%s\n", (*server)->address().c_str(), http_address.c_str());
  std::fflush(stdout);
  spdlog::info(R"("event":"listening","grpc":"{}","http":"{}","version":"{}")",
               (*server)->address(), http_address, kVersion);

  int signal = 0;
  sigwait(&signals, &signal);
  spdlog::info(R"("event":"draining","signal":{},"timeout":"{}")", signal,
               absl::FormatDuration(options.drain_timeout));
  // A second signal ends the process at once, whatever is still open.
  std::thread([signals] {
    int second = 0;
    sigwait(&signals, &second);
    spdlog::warn(R"("event":"ended at once","signal":{})", second);
    std::_Exit(128 + second);
  }).detach();
  (*server)->Drain({options.lame_duck, options.drain_timeout});
  spdlog::info(R"("event":"drained")");
  spdlog::shutdown();
  // All calls have ended, and what they were answered is on the disk; stopping the HTTP server in
  // good order would wait up to two seconds for its next poll.
  std::_Exit(0);
}

}  // namespace
}  // namespace packhouse

int main(int argc, char** argv) {
  const auto parsed = packhouse::ParseOptions(argc, argv);
  if (const int* exit_code = std::get_if<int>(&parsed)) return *exit_code;
  const auto& options = std::get<packhouse::Options>(parsed);

  packhouse::TuneAllocator();
  packhouse::StartLog(options.log_level);
  // Debian's abseil checks lock order at every lock, in release builds too.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // Before any thread, so that all inherit it: signals are waited for, not handled.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return packhouse::Run(options, signals);
}

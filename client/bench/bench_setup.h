// Everything that the measures of a benchmark share: settings, graphs, a data set of them, servers.
#ifndef PACKHOUSE_CLIENT_BENCH_BENCH_SETUP_H_
#define PACKHOUSE_CLIENT_BENCH_BENCH_SETUP_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/bench/bench_graphs.h"
#include "client/bench/bench_sample.h"
#include "client/bench/bench_server.h"

namespace packhouse::client {

struct BenchSettings {
  // Program of the server; empty: FindServerProgram.
  std::string packhoused;
  // As OpenBenchGraphs.
  std::string data;
  int runs = 5;
  absl::Duration seconds = absl::Seconds(1);
  std::vector<uint64_t> payloads;
  std::vector<uint64_t> streams;
  // The congestion control of all sockets on both ends; empty: the system's.
  std::string congestion;
  // A run during which other processes used more than this share of the machine is repeated, until
  // all runs of a measurement have taken this much longer. The least disturbed run counts.
  double max_others = 0.05;
  absl::Duration patience = absl::ZeroDuration();
};

// Not thread-safe.
class BenchSetup {
 public:
  // The name of the data set.
  static constexpr char kDataset[] = "bench";

  // Reads the graphs and stores them in a data set in a temporary folder, often enough for epochs
  // of some length. The folder is removed with this object.
  //
  // Errors: those of the graphs, of the server and of storing; UNAVAILABLE if there is no folder.
  static absl::StatusOr<std::unique_ptr<BenchSetup>> Create(const BenchSettings& settings);
  BenchSetup(const BenchSetup&) = delete;
  BenchSetup& operator=(const BenchSetup&) = delete;
  ~BenchSetup();

  const BenchSettings& settings() const { return settings_; }
  const BenchGraphs& graphs() const { return graphs_; }
  uint64_t dataset_graphs() const { return dataset_graphs_; }

  // packhoused with the data set; and the server of opaque bytes with which it is compared
  // (bench_ceiling.h). Errors: as BenchServer::Start.
  absl::StatusOr<std::unique_ptr<BenchServer>> StartPackhoused(std::size_t num_channels) const;
  absl::StatusOr<std::unique_ptr<BenchServer>> StartCeiling(std::size_t num_channels) const;

  // RunQuietly as the settings say; the sample is added to `runs`. Errors: those of `run`.
  absl::Status AddRun(Runs& runs, absl::FunctionRef<absl::StatusOr<RunSample>()> run) const;

 private:
  explicit BenchSetup(const BenchSettings& settings) : settings_(settings) {}
  absl::Status FillDataset();

  const BenchSettings settings_;
  std::string server_program_;
  std::string folder_;
  BenchGraphs graphs_;
  uint64_t dataset_graphs_ = 0;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_BENCH_BENCH_SETUP_H_

// Runs measurements: servers, streams, windows of time.
#ifndef PACKHOUSE_CLIENT_BENCH_BENCH_RUN_H_
#define PACKHOUSE_CLIENT_BENCH_BENCH_RUN_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/bench/bench_graphs.h"
#include "client/bench/bench_process.h"
#include "client/bench/bench_sample.h"
#include "client/bench/bench_stream.h"
#include "grpcpp/channel.h"

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
  // Of all sockets, both ends; empty: the system's.
  std::string congestion;
  // A run during which other processes used more than this share of the machine is made again,
  // until all runs of a measurement have taken this much longer; the least disturbed one counts.
  double max_others = 0.05;
  absl::Duration patience = absl::ZeroDuration();
};

// A server with as many connections as the widest measurement needs.
class BenchServer {
 public:
  static absl::StatusOr<std::unique_ptr<BenchServer>> Start(std::vector<std::string> command,
                                                            std::size_t num_channels,
                                                            const std::string& congestion);

  const BenchProcess& process() const { return *process_; }
  const std::shared_ptr<grpc::Channel>& channel(std::size_t i) const { return channels_[i]; }

 private:
  std::unique_ptr<BenchProcess> process_;
  std::vector<std::shared_ptr<grpc::Channel>> channels_;
};

using MakeStream = absl::FunctionRef<std::unique_ptr<BenchStream>(std::size_t number)>;

// Starts the streams, waits until each has begun, counts what comes in a window of `seconds` a
// little later, and ends them.
//
// Errors: those of a stream that ended by itself; DEADLINE_EXCEEDED if one has not begun after a
// minute.
absl::StatusOr<RunSample> RunStreams(const BenchProcess& server, std::size_t num_streams,
                                     absl::Duration seconds, MakeStream make);

// What a benchmark has beside its settings. Not thread-safe.
class BenchRunner {
 public:
  // Reads the graphs and stores them in a data set in a temporary folder, often enough for epochs
  // of some length.
  static absl::StatusOr<std::unique_ptr<BenchRunner>> Create(const BenchSettings& settings);
  ~BenchRunner();

  const BenchSettings& settings() const { return settings_; }
  const BenchGraphs& graphs() const { return graphs_; }
  uint64_t dataset_graphs() const { return dataset_graphs_; }

  absl::StatusOr<std::unique_ptr<BenchServer>> StartPackhoused(std::size_t num_channels) const;
  absl::StatusOr<std::unique_ptr<BenchServer>> StartCeiling(std::size_t num_channels) const;

  // Batches of one shape over `streams` connections.
  struct Delivery {
    uint64_t payload_bytes = 0;
    std::size_t streams = 0;
    // As many bytes as a batch has, opaque: down alone, and up and down as Pack has them.
    Runs download;
    Runs exchange;
    Runs load;
    Runs pack;
  };
  absl::StatusOr<Delivery> MeasureDelivery(uint64_t payload_bytes, std::size_t streams, bool load,
                                           bool pack);

  // Size tuples up in chunks, and as many opaque bytes, answered alike. A message is an answer.
  struct Observation {
    uint64_t chunk_tuples = 0;
    uint32_t chunks_per_answer = 1;
    Runs observe;
    Runs upload;
  };
  absl::StatusOr<Observation> MeasureObserve(uint64_t chunk_tuples, uint32_t chunks_per_answer);

  // Milliseconds of each call.
  struct Planning {
    std::string name;
    std::vector<double> milliseconds;
  };
  absl::StatusOr<std::vector<Planning>> MeasurePlan();

  // Plain TCP between two processes.
  absl::StatusOr<Runs> MeasureTcp();

 private:
  explicit BenchRunner(const BenchSettings& settings) : settings_(settings) {}
  absl::Status FillDataset();
  // The first quiet one of the samples that `run` gives, or the quietest while patience lasts.
  absl::StatusOr<RunSample> RunQuietly(absl::FunctionRef<absl::StatusOr<RunSample>()> run) const;
  absl::StatusOr<RunSample> RunLoad(const BenchServer& server, std::size_t streams,
                                    const v1::Limits& limits);
  absl::StatusOr<RunSample> RunPack(const BenchServer& server, std::size_t streams,
                                    const v1::Limits& limits, uint64_t payload_bytes);

  const BenchSettings settings_;
  std::string server_program_;
  std::string folder_;
  BenchGraphs graphs_;
  uint64_t dataset_graphs_ = 0;
  // Every load has a job of its own.
  uint64_t num_jobs_ = 0;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_BENCH_BENCH_RUN_H_

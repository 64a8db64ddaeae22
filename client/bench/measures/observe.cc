#include "client/bench/measures/observe.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/bench/bench_ceiling.h"
#include "client/bench/bench_window.h"
#include "client/cpp/batch_slices.h"
#include "packhouse/v1/histogram.pb.h"

namespace packhouse::client {
namespace {

constexpr char kObserveMethod[] = "/packhouse.v1.HistogramService/Observe";
constexpr std::size_t kObserveRequests = 64;
// The answer to an observation has about this many bytes.
constexpr uint64_t kAnswerBytes = 8;

// Requests of `chunk_tuples` tuples each: those of the graphs, again and again.
std::vector<grpc::ByteBuffer> MakeChunks(const BenchGraphs& graphs, uint64_t chunk_tuples) {
  const std::size_t chunk_bytes = chunk_tuples * graphs.totals.size() * sizeof(uint32_t);
  std::vector<grpc::ByteBuffer> chunks;
  std::size_t at = 0;
  for (std::size_t i = 0; i < kObserveRequests; ++i) {
    v1::ObserveRequest request;
    request.mutable_sizes()->set_num_graphs(chunk_tuples);
    std::string& counts = *request.mutable_sizes()->mutable_counts();
    while (counts.size() < chunk_bytes) {
      if (at == graphs.sizes.size()) at = 0;
      const std::size_t more = std::min(graphs.sizes.size() - at, chunk_bytes - counts.size());
      counts.append(graphs.sizes, at, more);
      at += more;
    }
    chunks.push_back(ToByteBuffer(request));
  }
  return chunks;
}

}  // namespace

absl::StatusOr<ObserveFigures> MeasureObserve(const BenchSetup& setup, uint64_t chunk_tuples,
                                              uint32_t chunks_per_answer) {
  ObserveFigures figures;
  figures.chunk_tuples = chunk_tuples;
  figures.chunks_per_answer = chunks_per_answer;
  const absl::StatusOr<std::unique_ptr<BenchServer>> server = setup.StartPackhoused(1);
  if (!server.ok()) return server.status();
  const absl::StatusOr<std::unique_ptr<BenchServer>> ceiling = setup.StartCeiling(1);
  if (!ceiling.ok()) return ceiling.status();

  const std::vector<grpc::ByteBuffer> chunks = MakeChunks(setup.graphs(), chunk_tuples);
  const uint64_t answered_bytes = chunks_per_answer * chunks.front().Length();
  v1::ObserveRequest open;
  open.set_histogram("bench");
  *open.mutable_components() = setup.graphs().schema.components();
  open.set_requests_per_response(chunks_per_answer);
  const grpc::ByteBuffer observe = ToByteBuffer(open);
  const grpc::ByteBuffer upload = ToByteBuffer(CeilingRequest{kAnswerBytes, answered_bytes});

  const auto measure = [&](const BenchServer& peer, const char* method,
                           const grpc::ByteBuffer& first, Runs& runs) {
    absl::Status status = setup.AddRun(runs, [&] {
      return RunStreams(peer.pid(), 1, setup.settings().seconds, [&](std::size_t) {
        return std::make_unique<CycleStream>(peer.channel(0), method, first, &chunks, 0,
                                             CountNothing);
      });
    });
    if (!status.ok()) return status;
    runs.back().bytes = runs.back().messages * answered_bytes;
    runs.back().graphs = runs.back().messages * chunks_per_answer * chunk_tuples;
    return status;
  };
  for (int run = 0; run < setup.settings().runs; ++run) {
    absl::Status status = measure(**ceiling, kCeilingMethod, upload, figures.upload);
    if (!status.ok()) return status;
    status = measure(**server, kObserveMethod, observe, figures.observe);
    if (!status.ok()) return status;
  }
  return figures;
}

}  // namespace packhouse::client

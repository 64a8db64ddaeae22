#include "client/bench/measures/delivery.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/bench/bench_ceiling.h"
#include "client/bench/bench_window.h"
#include "client/bench/load_stream.h"
#include "client/bench/loader_stream.h"
#include "client/bench/packer_stream.h"
#include "client/cpp/batch_slices.h"
#include "client/cpp/job_client.h"
#include "packhouse/v1/loader.pb.h"
#include "packhouse/v1/packing.pb.h"

namespace packhouse::client {
namespace {

constexpr uint32_t kMaxInFlight = 1024;
constexpr v1::IntegerWidth kDeclared = v1::INTEGER_WIDTH_DECLARED;
constexpr v1::IntegerWidth kNarrow = v1::INTEGER_WIDTH_COMPACT;

absl::StatusOr<std::optional<uint64_t>> CountPacked(const grpc::ByteBuffer& message) {
  const absl::StatusOr<std::optional<BatchView>> batch = ViewPackResponse(message);
  if (!batch.ok()) return batch.status();
  if (!batch->has_value()) return std::nullopt;
  return (*batch)->num_graphs();
}

// Servers and limits for batches of one shape; each function makes one run.
class DeliveryRuns {
 public:
  DeliveryRuns(const BenchSetup& setup, const BenchServer& server, const BenchServer& ceiling,
               uint64_t payload_bytes, std::size_t streams)
      : setup_(setup),
        server_(server),
        ceiling_(ceiling),
        streams_(streams),
        limits_(LimitsForPayload(setup.graphs(), payload_bytes)),
        cycle_(setup.graphs().requests[ChunkSizeFor(payload_bytes)]) {}

  absl::StatusOr<RunSample> Download(const CeilingRequest& request) const {
    return Cycle(ceiling_, kCeilingMethod, ToByteBuffer(request), nullptr, CountNothing);
  }

  absl::StatusOr<RunSample> Exchange(const CeilingRequest& request) const {
    return Cycle(ceiling_, kCeilingMethod, ToByteBuffer(request), &cycle_, CountNothing);
  }

  absl::StatusOr<RunSample> Pack(v1::IntegerWidth width) const {
    v1::PackRequest request;
    *request.mutable_open() = Opening(width);
    return Cycle(server_, kPackMethod, ToByteBuffer(request), &cycle_, CountPacked);
  }

  absl::StatusOr<RunSample> PackByLane() const {
    return RunStreams(server_.pid(), streams_, setup_.settings().seconds, [&](std::size_t i) {
      return std::make_unique<PackerStream>(server_.channel(i), Opening(kDeclared), cycle_,
                                            i * cycle_.size() / streams_);
    });
  }

  absl::StatusOr<RunSample> Load(v1::IntegerWidth width) {
    return RunJob(width, [&](std::size_t i, const LoaderOptions& options) {
      v1::LoadRequest request;
      *request.mutable_epoch() = options.spec;
      *request.mutable_ranked() = options.ranked;
      request.set_max_in_flight(options.max_in_flight);
      return std::make_unique<LoadStream>(server_.channel(i), std::move(request));
    });
  }

  absl::StatusOr<RunSample> LoadByLoader(LaneUse lane) {
    return RunJob(kDeclared, [&](std::size_t i, LoaderOptions options) {
      options.lane = lane;
      return std::make_unique<LoaderStream>(server_.channel(i), std::move(options));
    });
  }

 private:
  using MakeWorker = absl::FunctionRef<std::unique_ptr<BenchStream>(std::size_t rank,
                                                                    const LoaderOptions& options)>;

  v1::PackOpen Opening(v1::IntegerWidth width) const {
    v1::PackOpen open;
    *open.mutable_schema() = setup_.graphs().schema;
    *open.mutable_limits() = limits_;
    open.set_padding(v1::PADDING_MASKED);
    for (const v1::DerivedTensor derived : kBenchDerived) open.add_derived(derived);
    open.set_integer_width(width);
    return open;
  }

  // The workers get a job of their own. It is deleted afterwards.
  absl::StatusOr<RunSample> RunJob(v1::IntegerWidth width, MakeWorker make) {
    LoaderOptions options = BenchLoaderOptions(absl::StrCat("job-", ++num_jobs_), limits_, width);
    options.ranked.set_num_ranks(static_cast<uint32_t>(streams_));
    absl::StatusOr<RunSample> sample =
        RunStreams(server_.pid(), streams_, setup_.settings().seconds, [&](std::size_t i) {
          options.ranked.set_rank(static_cast<uint32_t>(i));
          return make(i, options);
        });
    const absl::Status deleted = JobClient(server_.channel(0)).Delete(options.spec.job());
    if (sample.ok() && !deleted.ok()) return deleted;
    return sample;
  }

  absl::StatusOr<RunSample> Cycle(const BenchServer& peer, const char* method,
                                  const grpc::ByteBuffer& first,
                                  const std::vector<grpc::ByteBuffer>* cycle,
                                  const MessageReader& reader) const {
    return RunStreams(peer.pid(), streams_, setup_.settings().seconds, [&](std::size_t i) {
      return std::make_unique<CycleStream>(peer.channel(i), method, first, cycle,
                                           cycle == nullptr ? 0 : i * cycle->size() / streams_,
                                           reader);
    });
  }

  const BenchSetup& setup_;
  const BenchServer& server_;
  const BenchServer& ceiling_;
  const std::size_t streams_;
  const v1::Limits limits_;
  const std::vector<grpc::ByteBuffer>& cycle_;
  int num_jobs_ = 0;
};

// The bytes that Pack sends up for a batch, as measured before.
uint64_t UploadBytes(const BenchGraphs& graphs, const RunSample& packed) {
  const double graphs_per_batch = packed.messages == 0 ? 1
                                                       : static_cast<double>(packed.graphs) /
                                                             static_cast<double>(packed.messages);
  return std::max<uint64_t>(
      1, static_cast<uint64_t>(graphs_per_batch * graphs.request_bytes_per_graph));
}

}  // namespace

LoaderOptions BenchLoaderOptions(const std::string& job, const v1::Limits& limits,
                                 v1::IntegerWidth width) {
  LoaderOptions options;
  options.spec.set_dataset(BenchSetup::kDataset);
  options.spec.set_job(job);
  options.spec.set_seed(1);
  *options.spec.add_rank_groups()->add_shapes() = limits;
  options.spec.set_padding(v1::PADDING_MASKED);
  for (const v1::DerivedTensor derived : kBenchDerived) options.spec.add_derived(derived);
  options.spec.set_integer_width(width);
  options.max_in_flight = kMaxInFlight;
  return options;
}

absl::StatusOr<DeliveryFigures> MeasureDelivery(const BenchSetup& setup, uint64_t payload_bytes,
                                                std::size_t streams, DeliveryWishes wishes) {
  const absl::StatusOr<std::unique_ptr<BenchServer>> server = setup.StartPackhoused(streams);
  if (!server.ok()) return server.status();
  const absl::StatusOr<std::unique_ptr<BenchServer>> ceiling = setup.StartCeiling(streams);
  if (!ceiling.ok()) return ceiling.status();
  DeliveryRuns runs(setup, **server, **ceiling, payload_bytes, streams);
  DeliveryFigures figures;
  figures.payload_bytes = payload_bytes;
  figures.streams = streams;
  // Run by run, each beside the others: what disturbs one also disturbs its neighbours.
  for (int run = 0; run < setup.settings().runs; ++run) {
    absl::Status status = setup.AddRun(figures.download, [&] {
      return runs.Download({payload_bytes, 0});
    });
    if (!status.ok()) return status;
    if (wishes.load) {
      status = setup.AddRun(figures.load, [&] { return runs.Load(kDeclared); });
      if (!status.ok()) return status;
      if (wishes.narrow) {
        status = setup.AddRun(figures.narrow_load, [&] { return runs.Load(kNarrow); });
        if (!status.ok()) return status;
      }
      status = setup.AddRun(figures.loader, [&] { return runs.LoadByLoader(LaneUse::kOff); });
      if (!status.ok()) return status;
      status = setup.AddRun(figures.lane, [&] { return runs.LoadByLoader(LaneUse::kRequired); });
      if (!status.ok()) return status;
    }
    if (!wishes.pack) continue;
    status = setup.AddRun(figures.pack, [&] { return runs.Pack(kDeclared); });
    if (!status.ok()) return status;
    status = setup.AddRun(figures.pack_lane, [&] { return runs.PackByLane(); });
    if (!status.ok()) return status;
    if (wishes.narrow) {
      status = setup.AddRun(figures.narrow_pack, [&] { return runs.Pack(kNarrow); });
      if (!status.ok()) return status;
    }
    const uint64_t upload_bytes = UploadBytes(setup.graphs(), figures.pack.back());
    status = setup.AddRun(figures.exchange, [&] {
      return runs.Exchange({payload_bytes, upload_bytes});
    });
    if (!status.ok()) return status;
  }
  return figures;
}

}  // namespace packhouse::client

// What the way from a finished batch to the client costs: batches that were built before, by the
// calls and messages of packhoused (ServerStreamingCall, BatchReply), beside opaque bytes of the
// same size through gRPC alone (`packhouse-bench ceiling`), run by run.
//
//   build/release/tests/benchmarks/packhouse_delivery_table --seconds 0.5 --runs 9
#include <malloc.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/bench/bench_ceiling.h"
#include "client/bench/bench_sample.h"
#include "client/bench/bench_server.h"
#include "client/bench/bench_sockets.h"
#include "client/bench/bench_stream.h"
#include "client/bench/bench_window.h"
#include "client/cpp/batch_slices.h"
#include "client/cpp/process_tuning.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "packhouse/v1/loader.grpc.pb.h"
#include "service/access/worker_pool.h"
#include "service/algorithms/collation/collate.h"
#include "service/server/calls/batch_reply.h"
#include "service/server/calls_grpc/early_service.h"

namespace packhouse {
namespace {

using client::BenchServer;
using client::Runs;
using client::RunSample;
using LoadReply = BatchReply<v1::LoadResponse>;

constexpr char kServeCommand[] = "serve";
constexpr char kLoadMethod[] = "/packhouse.v1.LoaderService/Load";
constexpr size_t kRowBytes = 36;

// A batch whose message has about so many bytes: rows of nodes and what is derived from them.
absl::StatusOr<Batch> BatchOf(const GraphSchema& schema, uint64_t message_bytes) {
  const uint64_t rows = message_bytes / (kRowBytes + sizeof(int32_t) + sizeof(bool));
  absl::StatusOr<BatchLayout> layout = BatchLayout::Create(&schema, {rows, 8}, Padding::kMasked,
                                                           {.graph_index = true, .masks = true});
  if (!layout.ok()) return layout.status();
  return Collate(*layout, {}, UINT64_MAX, &WireFraming());
}

// The same batch without end.
class PrebuiltSource final : public ResponseSource<LoadReply> {
 public:
  explicit PrebuiltSource(Batch batch) {
    reply_.message.mutable_batch()->mutable_batch()->set_id(1);
    reply_.TakeTensors(std::move(batch));
  }
  absl::StatusOr<std::optional<LoadReply>> Next() override { return reply_; }

 private:
  LoadReply reply_;
};

class PrebuiltService final : public rpc::EarlyService {
 public:
  PrebuiltService(const CallContext& context, const GraphSchema* schema)
      : EarlyService(v1::LoaderService::service_full_name(), context) {
    // `seed` is the number of bytes.
    Serve({Row(Method::kLoad, Waits::kPlans,
               [schema](const v1::LoadRequest& request, ProgressSink<LoadReply>& /*sink*/)
                   -> absl::StatusOr<std::unique_ptr<ResponseSource<LoadReply>>> {
                 absl::StatusOr<Batch> batch = BatchOf(*schema, request.epoch().seed());
                 if (!batch.ok()) return batch.status();
                 return std::make_unique<PrebuiltSource>(*std::move(batch));
               })});
  }
};

class NoObserver final : public RpcObserver {
 public:
  void OnStarted(Method) override {}
  void OnFinished(Method, absl::StatusCode, absl::Duration) override {}
  void OnPlanned(absl::Duration, double) override {}
};

// Sends as packhoused does, and does nothing else.
ExitCode Serve(const std::string& congestion) {
  const absl::StatusOr<SizeSchema> sizes = SizeSchema::Create({"nodes"});
  if (!sizes.ok()) return Fail(sizes.status());
  const absl::StatusOr<GraphSchema> schema = GraphSchema::Create(
      *sizes, {{"x", DType::kUint8, {static_cast<uint32_t>(kRowBytes)}, 0, {}, ""}});
  if (!schema.ok()) return Fail(schema.status());
  SystemClock clock;
  WorkerPool stream_pool(&clock, 2);
  WorkerPool call_pool(&clock, 1);
  PlanningPool planning_pool(&clock, 1);
  Gate gate({});
  NoObserver observer;
  const PeerAddressIdentity identity;
  CallContext context;
  context.clock = &clock;
  context.stream_pool = &stream_pool;
  context.call_pool = &call_pool;
  context.planning_pool = &planning_pool;
  context.append_pool = &call_pool;
  context.gate = &gate;
  context.max_response_bytes = size_t{64} << 20;
  context.observer = &observer;
  context.identity = &identity;
  PrebuiltService service(context, &*schema);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.SetMaxSendMessageSize(64 << 20);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return Fail(absl::UnavailableError("cannot listen"));
  if (!congestion.empty()) {
    if (absl::Status status = client::SetCongestionControl(port, congestion); !status.ok()) {
      return Fail(status);
    }
  }
  std::printf(R"({"event":"listening","grpc":"127.0.0.1:%d"})"
              "\n",
              port);
  std::fflush(stdout);
  server->Wait();
  return kExitOk;
}

struct Settings {
  int runs = 5;
  double seconds = 0.5;
  std::vector<uint64_t> kibibytes = {16, 64, 256, 1024, 4096};
  std::vector<uint64_t> streams = {1, 4};
  std::string congestion;
};

absl::Status MeasureRow(const Settings& settings, const std::string& self, uint64_t bytes,
                        size_t streams) {
  const auto start = [&](const char* command) {
    return BenchServer::Start({self, command, "--tcp-congestion", settings.congestion}, streams,
                              settings.congestion);
  };
  absl::StatusOr<std::unique_ptr<BenchServer>> opaque = start(client::kCeilingCommand);
  if (!opaque.ok()) return opaque.status();
  absl::StatusOr<std::unique_ptr<BenchServer>> prebuilt = start(kServeCommand);
  if (!prebuilt.ok()) return prebuilt.status();

  v1::LoadRequest request;
  request.mutable_epoch()->set_seed(bytes);
  std::string request_bytes = request.SerializeAsString();
  const grpc::Slice slice(request_bytes);
  const grpc::ByteBuffer load(&slice, 1);
  const grpc::ByteBuffer download = ToByteBuffer(client::CeilingRequest{bytes, 0});
  Runs opaque_runs;
  Runs prebuilt_runs;
  for (int run = 0; run < settings.runs; ++run) {
    const auto measure = [&](const BenchServer& server, const char* method,
                             const grpc::ByteBuffer& first, Runs& runs) {
      absl::StatusOr<RunSample> sample =
          client::RunStreams(server.pid(), streams, absl::Seconds(settings.seconds), [&](size_t i) {
            return std::make_unique<client::CycleStream>(server.channel(i), method, first, nullptr,
                                                         0, client::CountNothing);
          });
      if (sample.ok()) runs.push_back(*std::move(sample));
      return sample.status();
    };
    absl::Status status = measure(**opaque, client::kCeilingMethod, download, opaque_runs);
    if (!status.ok()) return status;
    status = measure(**prebuilt, kLoadMethod, load, prebuilt_runs);
    if (!status.ok()) return status;
  }
  const auto rate = [](const Runs& runs) {
    return SpreadOf(runs, &RunSample::gigabytes_per_second).median;
  };
  const auto cpu = [](const Runs& runs, double (RunSample::*figure)() const) {
    return SpreadOf(runs, figure).median;
  };
  const client::Spread ratio =
      RatioOf(prebuilt_runs, opaque_runs, &RunSample::gigabytes_per_second);
  absl::PrintF("%6d %8d %8.2f %9.2f   %3.0f %% (%.0f-%.0f)   %.3f / %.3f   %.3f / %.3f   %.0f\n",
               bytes >> 10, streams, rate(opaque_runs), rate(prebuilt_runs), 100 * ratio.median,
               100 * ratio.low, 100 * ratio.high,
               cpu(opaque_runs, &RunSample::client_cpu_per_gigabyte),
               cpu(opaque_runs, &RunSample::server_cpu_per_gigabyte),
               cpu(prebuilt_runs, &RunSample::client_cpu_per_gigabyte),
               cpu(prebuilt_runs, &RunSample::server_cpu_per_gigabyte),
               100 * SpreadOf(prebuilt_runs, &RunSample::others).median);
  std::fflush(stdout);
  return absl::OkStatus();
}

ExitCode Measure(const Settings& settings) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  absl::PrintF(
      "   KiB  streams   opaque  prebuilt   share           client / server CPU s/GB: opaque, "
      "prebuilt   others %%\n");
  for (const uint64_t streams : settings.streams) {
    for (const uint64_t kibibytes : settings.kibibytes) {
      const absl::Status status = MeasureRow(settings, self, kibibytes << 10, streams);
      if (!status.ok()) return Fail(status);
    }
  }
  return kExitOk;
}

}  // namespace
}  // namespace packhouse

int main(int argc, char** argv) {
  packhouse::client::TuneProcessForBatches();
  CLI::App app("How fast finished batches are delivered, beside gRPC alone.");
  packhouse::Settings settings;
  app.add_option("--runs", settings.runs, "of each, by turns")->capture_default_str();
  app.add_option("--seconds", settings.seconds, "of a run")->capture_default_str();
  app.add_option("--kibibytes", settings.kibibytes, "of a batch")->capture_default_str();
  app.add_option("--streams", settings.streams, "at once")->capture_default_str();
  app.add_option("--tcp-congestion", settings.congestion, "of all sockets; empty: the system's");
  packhouse::ExitCode code = packhouse::kExitOk;
  packhouse::client::AddBenchCeilingCommand(app, code);
  std::string congestion;
  CLI::App* const serve = app.add_subcommand(packhouse::kServeCommand)->group("");
  serve->add_option("--tcp-congestion", congestion);
  serve->callback([&] { code = packhouse::Serve(congestion); });
  CLI11_PARSE(app, argc, argv);
  if (app.get_subcommands().empty()) code = packhouse::Measure(settings);
  return code;
}

#include "client/bench/bench_run.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/bench/bench_ceiling.h"
#include "client/bench/bench_load.h"
#include "client/bench/bench_sockets.h"
#include "client/cli/ingest.h"
#include "client/cli/local_server.h"
#include "client/cpp/batch_slices.h"
#include "client/cpp/channel.h"
#include "client/cpp/status.h"
#include "grpcpp/client_context.h"
#include "packhouse/v1/histogram.pb.h"
#include "packhouse/v1/loader.grpc.pb.h"
#include "packhouse/v1/packing.pb.h"
#include "packhouse/v1/planning.grpc.pb.h"

namespace packhouse::client {
namespace {

constexpr char kObserveMethod[] = "/packhouse.v1.HistogramService/Observe";
constexpr char kDataset[] = "bench";
constexpr absl::Duration kBeginTimeout = absl::Minutes(1);
constexpr absl::Duration kPoll = absl::Milliseconds(1);
constexpr absl::Duration kCallTimeout = absl::Minutes(2);
constexpr uint32_t kMaxInFlight = 1024;
// Of the data set, if a run lasts a second; less if it is shorter.
constexpr double kDatasetBytes = 256 << 20;
constexpr std::size_t kObserveRequests = 64;
constexpr int kLeastPlans = 3;
constexpr double kNanosPerMillisecond = 1e6;

std::optional<uint64_t> GraphsOf(const BatchView& batch) {
  return batch.graph_ids().size() / sizeof(uint64_t);
}

absl::StatusOr<std::optional<uint64_t>> ReadOpaque(const grpc::ByteBuffer&) { return 0; }

absl::StatusOr<std::optional<uint64_t>> ReadPacked(const grpc::ByteBuffer& message) {
  const absl::StatusOr<std::optional<BatchView>> batch = ViewPackResponse(message);
  if (!batch.ok()) return batch.status();
  if (!batch->has_value()) return std::nullopt;
  return GraphsOf(**batch);
}

// The window is ended by the clock, not by a count: slow and fast things take the same time.
void CountWindow(const BenchStream& stream, int64_t begin, int64_t end, RunSample& sample) {
  const int64_t* before = nullptr;
  double bytes = 0;
  for (const Arrival& arrival : stream.arrivals()) {
    if (arrival.nanos >= end) break;
    if (arrival.nanos >= begin) {
      ++sample.messages;
      sample.bytes += arrival.bytes;
      sample.graphs += arrival.graphs;
      bytes += arrival.bytes;
      if (before != nullptr) {
        sample.gap_milliseconds.push_back(static_cast<double>(arrival.nanos - *before) /
                                          kNanosPerMillisecond);
      }
    }
    before = &arrival.nanos;
  }
  sample.stream_bytes.push_back(bytes);
}

// What both processes and all others used between its making and End.
class Window {
 public:
  explicit Window(const BenchProcess& server)
      : server_(server),
        machine_cpu_(MachineCpuTime()),
        server_cpu_(server.CpuTime()),
        own_cpu_(OwnCpuTime()),
        begin_(MonotonicNanos()) {}

  int64_t begin() const { return begin_; }

  // Returns when that was.
  int64_t End(RunSample& sample) const {
    const int64_t end = MonotonicNanos();
    sample.seconds = static_cast<double>(end - begin_) / 1e9;
    sample.client_cpu_seconds = absl::ToDoubleSeconds(OwnCpuTime() - own_cpu_);
    sample.server_cpu_seconds = absl::ToDoubleSeconds(server_.CpuTime() - server_cpu_);
    sample.server_peak_bytes = server_.PeakMemoryBytes();
    const double others = absl::ToDoubleSeconds(MachineCpuTime() - machine_cpu_) -
                          sample.client_cpu_seconds - sample.server_cpu_seconds;
    const double cores = std::max(1U, std::thread::hardware_concurrency());
    sample.others_share = std::max(0.0, others / cores / sample.seconds);
    return end;
  }

 private:
  const BenchProcess& server_;
  const absl::Duration machine_cpu_;
  const absl::Duration server_cpu_;
  const absl::Duration own_cpu_;
  const int64_t begin_;
};

// Reads plain bytes for `seconds`.
absl::StatusOr<RunSample> RunTcp(const BenchProcess& server, const std::string& congestion,
                                 absl::Duration seconds) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return absl::UnavailableError("cannot make a socket");
  if (!congestion.empty()) {
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, congestion.data(),
                     static_cast<socklen_t>(congestion.size()));
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(PortOf(server.Listening("tcp"))));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    const int error = errno;
    close(fd);
    return absl::UnavailableError(absl::StrCat("cannot connect: ", std::strerror(error)));
  }
  std::vector<char> piece(std::size_t{1} << 20);
  RunSample sample;
  const Window window(server);
  const absl::Time end = absl::Now() + seconds;
  while (absl::Now() < end) {
    const ssize_t count = recv(fd, piece.data(), piece.size(), 0);
    if (count <= 0) break;
    ++sample.messages;
    sample.bytes += static_cast<uint64_t>(count);
  }
  window.End(sample);
  close(fd);
  return sample;
}

}  // namespace

absl::StatusOr<std::unique_ptr<BenchServer>> BenchServer::Start(std::vector<std::string> command,
                                                                std::size_t num_channels,
                                                                const std::string& congestion) {
  auto process = BenchProcess::Start(std::move(command));
  if (!process.ok()) return process.status();
  auto server = std::make_unique<BenchServer>();
  server->process_ = *std::move(process);
  const std::string address = server->process_->Listening("grpc");
  for (std::size_t i = 0; i < num_channels; ++i) {
    absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = Connect(address, absl::Seconds(10));
    if (!channel.ok()) return channel.status();
    server->channels_.push_back(*std::move(channel));
  }
  if (!congestion.empty()) {
    if (absl::Status status = SetCongestionControl(PortOf(address), congestion); !status.ok()) {
      return status;
    }
  }
  return server;
}

absl::StatusOr<RunSample> RunStreams(const BenchProcess& server, std::size_t num_streams,
                                     absl::Duration seconds, MakeStream make) {
  std::vector<std::unique_ptr<BenchStream>> streams;
  for (std::size_t i = 0; i < num_streams; ++i) streams.push_back(make(i));
  server.ResetPeakMemory();
  for (const auto& stream : streams) stream->Start();
  const absl::Time deadline = absl::Now() + kBeginTimeout;
  bool is_late = false;
  for (const auto& stream : streams) {
    while (!is_late && !stream->has_begun() && !stream->has_ended()) {
      absl::SleepFor(kPoll);
      is_late = absl::Now() > deadline;
    }
  }
  // Buffers and windows grow at first.
  absl::SleepFor(std::min(seconds / 4, absl::Milliseconds(200)));

  RunSample sample;
  const Window window(server);
  absl::SleepFor(seconds);
  const int64_t end = window.End(sample);

  for (const auto& stream : streams) stream->Cancel();
  absl::Status failure;
  for (const auto& stream : streams) failure.Update(stream->Wait());
  if (!failure.ok()) return failure;
  if (is_late) {
    return absl::DeadlineExceededError(
        absl::StrCat("a stream had not begun after ", absl::FormatDuration(kBeginTimeout)));
  }
  for (const auto& stream : streams) {
    CountWindow(*stream, window.begin(), end, sample);
    if (const auto* const load = dynamic_cast<const LoadStream*>(stream.get())) {
      for (const int64_t nanos : load->opening_nanos()) {
        sample.opening_milliseconds.push_back(static_cast<double>(nanos) / kNanosPerMillisecond);
      }
    }
  }
  return sample;
}

absl::StatusOr<std::unique_ptr<BenchRunner>> BenchRunner::Create(const BenchSettings& settings) {
  std::unique_ptr<BenchRunner> runner(new BenchRunner(settings));
  runner->server_program_ = settings.packhoused;
  if (runner->server_program_.empty()) {
    absl::StatusOr<std::string> found = FindServerProgram();
    if (!found.ok()) return found.status();
    runner->server_program_ = *std::move(found);
  }
  absl::StatusOr<BenchGraphs> graphs = ReadBenchGraphs(settings.data);
  if (!graphs.ok()) return graphs.status();
  runner->graphs_ = *std::move(graphs);
  const char* const base = std::getenv("TMPDIR");
  std::string pattern = absl::StrCat(base != nullptr ? base : "/tmp", "/packhouse-bench-XXXXXX");
  if (mkdtemp(pattern.data()) == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("cannot create ", pattern, ": ", std::strerror(errno)));
  }
  runner->folder_ = pattern;
  if (absl::Status status = runner->FillDataset(); !status.ok()) return status;
  return runner;
}

BenchRunner::~BenchRunner() {
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

absl::StatusOr<std::unique_ptr<BenchServer>> BenchRunner::StartPackhoused(
    std::size_t num_channels) const {
  std::vector<std::string> command = {
      server_program_, "--listen", "127.0.0.1:0", "--http-listen", "",
      "--data-dir",    folder_,    "--log-level", "error"};
  if (!settings_.congestion.empty()) {
    command.insert(command.end(), {"--tcp-congestion", settings_.congestion});
  }
  return BenchServer::Start(std::move(command), num_channels, settings_.congestion);
}

absl::StatusOr<std::unique_ptr<BenchServer>> BenchRunner::StartCeiling(
    std::size_t num_channels) const {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return absl::UnavailableError("cannot find this program");
  return BenchServer::Start(
      {self.string(), kCeilingCommand, "--tcp-congestion", settings_.congestion}, num_channels,
      settings_.congestion);
}

absl::Status BenchRunner::FillDataset() {
  const absl::StatusOr<std::unique_ptr<BenchServer>> server = StartPackhoused(1);
  if (!server.ok()) return server.status();
  const double wanted = kDatasetBytes * std::min(1.0, absl::ToDoubleSeconds(settings_.seconds));
  const int copies =
      std::max(1, static_cast<int>(std::lround(wanted / static_cast<double>(graphs_.num_bytes))));
  for (int copy = 0; copy < copies; ++copy) {
    absl::StatusOr<std::unique_ptr<GraphSource>> source = OpenBenchGraphs(settings_.data);
    if (!source.ok()) return source.status();
    IngestOptions options;
    options.dataset = kDataset;
    options.producer = absl::StrCat("copy-", copy);
    options.seal = copy == copies - 1;
    const absl::StatusOr<IngestResult> result = Ingest(options, (*server)->channel(0), **source);
    if (!result.ok()) return result.status();
    dataset_graphs_ = result->dataset.num_graphs();
  }
  return absl::OkStatus();
}

absl::StatusOr<RunSample> BenchRunner::RunQuietly(
    absl::FunctionRef<absl::StatusOr<RunSample>()> run) const {
  const absl::Time end = absl::Now() + settings_.patience / settings_.runs;
  absl::StatusOr<RunSample> best = run();
  while (best.ok() && best->others_share > settings_.max_others && absl::Now() < end) {
    absl::StatusOr<RunSample> again = run();
    if (!again.ok() || again->others_share < best->others_share) best = std::move(again);
  }
  return best;
}

absl::StatusOr<RunSample> BenchRunner::RunLoad(const BenchServer& server, std::size_t streams,
                                               const v1::Limits& limits) {
  v1::LoadRequest request;
  v1::EpochSpec& epoch = *request.mutable_epoch();
  epoch.set_dataset(kDataset);
  epoch.set_job(absl::StrCat("job-", ++num_jobs_));
  epoch.set_seed(1);
  *epoch.add_rank_groups()->add_shapes() = limits;
  epoch.set_padding(v1::PADDING_MASKED);
  for (const v1::DerivedTensor derived : kBenchDerived) epoch.add_derived(derived);
  request.set_max_in_flight(kMaxInFlight);
  request.mutable_ranked()->set_num_ranks(static_cast<uint32_t>(streams));
  absl::StatusOr<RunSample> sample =
      RunStreams(server.process(), streams, settings_.seconds, [&](std::size_t i) {
        request.mutable_ranked()->set_rank(static_cast<uint32_t>(i));
        return std::make_unique<LoadStream>(server.channel(i), request);
      });
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kCallTimeout));
  v1::DeleteJobRequest job;
  job.set_job(epoch.job());
  v1::DeleteJobResponse response;
  const grpc::Status status =
      v1::LoaderService::NewStub(server.channel(0))->DeleteJob(&context, job, &response);
  if (sample.ok() && !status.ok()) return ToAbslStatus(status);
  return sample;
}

absl::StatusOr<RunSample> BenchRunner::RunPack(const BenchServer& server, std::size_t streams,
                                               const v1::Limits& limits, uint64_t payload_bytes) {
  v1::PackRequest request;
  v1::PackOpen& open = *request.mutable_open();
  *open.mutable_schema() = graphs_.schema;
  *open.mutable_limits() = limits;
  open.set_padding(v1::PADDING_MASKED);
  for (const v1::DerivedTensor derived : kBenchDerived) open.add_derived(derived);
  const grpc::ByteBuffer first = ToByteBuffer(request);
  const std::vector<grpc::ByteBuffer>& cycle = graphs_.requests[ChunkSizeFor(payload_bytes)];
  return RunStreams(server.process(), streams, settings_.seconds, [&](std::size_t i) {
    return std::make_unique<CycleStream>(server.channel(i), kPackMethod, first, &cycle,
                                         i * cycle.size() / streams, ReadPacked);
  });
}

absl::StatusOr<BenchRunner::Delivery> BenchRunner::MeasureDelivery(uint64_t payload_bytes,
                                                                   std::size_t streams, bool load,
                                                                   bool pack) {
  Delivery delivery;
  delivery.payload_bytes = payload_bytes;
  delivery.streams = streams;
  const v1::Limits limits = LimitsForPayload(graphs_, payload_bytes);
  const absl::StatusOr<std::unique_ptr<BenchServer>> server = StartPackhoused(streams);
  if (!server.ok()) return server.status();
  const absl::StatusOr<std::unique_ptr<BenchServer>> ceiling = StartCeiling(streams);
  if (!ceiling.ok()) return ceiling.status();
  const auto add = [&](Runs& runs, absl::FunctionRef<absl::StatusOr<RunSample>()> measure) {
    absl::StatusOr<RunSample> sample = RunQuietly(measure);
    if (!sample.ok()) return sample.status();
    runs.push_back(*std::move(sample));
    return absl::OkStatus();
  };
  const auto run_opaque = [&](const CeilingRequest& request,
                              const std::vector<grpc::ByteBuffer>* cycle) {
    return RunStreams((*ceiling)->process(), streams, settings_.seconds, [&](std::size_t i) {
      return std::make_unique<CycleStream>(
          (*ceiling)->channel(i), kCeilingMethod, ToByteBuffer(request), cycle,
          cycle == nullptr ? 0 : i * cycle->size() / streams, ReadOpaque);
    });
  };
  const std::vector<grpc::ByteBuffer>& cycle = graphs_.requests[ChunkSizeFor(payload_bytes)];
  // Until Pack has told how many bytes come up for one batch.
  double graphs_per_batch = 1;
  for (int run = 0; run < settings_.runs; ++run) {
    absl::Status status = add(delivery.download, [&] {
      return run_opaque({payload_bytes, 0}, nullptr);
    });
    if (!status.ok()) return status;
    if (load) {
      status = add(delivery.load, [&] { return RunLoad(**server, streams, limits); });
      if (!status.ok()) return status;
    }
    if (!pack) continue;
    status = add(delivery.pack, [&] { return RunPack(**server, streams, limits, payload_bytes); });
    if (!status.ok()) return status;
    const RunSample& packed = delivery.pack.back();
    if (packed.messages > 0) {
      graphs_per_batch = static_cast<double>(packed.graphs) / static_cast<double>(packed.messages);
    }
    const CeilingRequest exchange{
        payload_bytes,
        std::max<uint64_t>(
            1, static_cast<uint64_t>(graphs_per_batch * graphs_.request_bytes_per_graph))};
    status = add(delivery.exchange, [&] { return run_opaque(exchange, &cycle); });
    if (!status.ok()) return status;
  }
  return delivery;
}

absl::StatusOr<BenchRunner::Observation> BenchRunner::MeasureObserve(uint64_t chunk_tuples,
                                                                     uint32_t chunks_per_answer) {
  Observation observation;
  observation.chunk_tuples = chunk_tuples;
  observation.chunks_per_answer = chunks_per_answer;
  const absl::StatusOr<std::unique_ptr<BenchServer>> server = StartPackhoused(1);
  if (!server.ok()) return server.status();
  const absl::StatusOr<std::unique_ptr<BenchServer>> ceiling = StartCeiling(1);
  if (!ceiling.ok()) return ceiling.status();

  const std::size_t tuple_bytes = graphs_.totals.size() * sizeof(uint32_t);
  std::vector<grpc::ByteBuffer> cycle;
  std::size_t at = 0;
  for (std::size_t i = 0; i < kObserveRequests; ++i) {
    v1::ObserveRequest request;
    request.mutable_sizes()->set_num_graphs(chunk_tuples);
    std::string& counts = *request.mutable_sizes()->mutable_counts();
    while (counts.size() < chunk_tuples * tuple_bytes) {
      if (at == graphs_.sizes.size()) at = 0;
      const std::size_t more =
          std::min(graphs_.sizes.size() - at, chunk_tuples * tuple_bytes - counts.size());
      counts.append(graphs_.sizes, at, more);
      at += more;
    }
    cycle.push_back(ToByteBuffer(request));
  }
  v1::ObserveRequest open;
  open.set_histogram("bench");
  *open.mutable_components() = graphs_.schema.components();
  open.set_requests_per_response(chunks_per_answer);
  const grpc::ByteBuffer first = ToByteBuffer(open);
  // The answer to an observation has about so many bytes.
  const grpc::ByteBuffer upload =
      ToByteBuffer(CeilingRequest{8, chunks_per_answer * cycle.front().Length()});

  for (int run = 0; run < settings_.runs; ++run) {
    const auto measure = [&](const BenchServer& peer, const char* method,
                             const grpc::ByteBuffer& opening, Runs& runs) {
      absl::StatusOr<RunSample> sample = RunQuietly([&] {
        return RunStreams(peer.process(), 1, settings_.seconds, [&](std::size_t) {
          return std::make_unique<CycleStream>(peer.channel(0), method, opening, &cycle, 0,
                                               ReadOpaque);
        });
      });
      if (!sample.ok()) return sample.status();
      // What went up for what was answered.
      sample->bytes = sample->messages * chunks_per_answer * cycle.front().Length();
      sample->graphs = sample->messages * chunks_per_answer * chunk_tuples;
      runs.push_back(*std::move(sample));
      return absl::OkStatus();
    };
    absl::Status status = measure(**ceiling, kCeilingMethod, upload, observation.upload);
    if (!status.ok()) return status;
    status = measure(**server, kObserveMethod, first, observation.observe);
    if (!status.ok()) return status;
  }
  return observation;
}

absl::StatusOr<std::vector<BenchRunner::Planning>> BenchRunner::MeasurePlan() {
  const absl::StatusOr<std::unique_ptr<BenchServer>> server = StartPackhoused(1);
  if (!server.ok()) return server.status();
  const auto stub = v1::PlanningService::NewStub((*server)->channel(0));
  v1::PlanRequest request;
  *request.mutable_histogram() = graphs_.histogram;
  // One batch takes the largest graph: the limits of the paper.
  for (std::size_t k = 0; k < graphs_.maxima.size(); ++k) {
    v1::Capacity* const capacity = request.mutable_limits()->add_capacities();
    capacity->set_component(graphs_.schema.components(static_cast<int>(k)));
    capacity->set_rows(graphs_.maxima[k]);
  }
  std::vector<Planning> plans;
  for (const auto& [name, algorithm] :
       {std::pair("first-fit decreasing", v1::PLAN_ALGORITHM_FIRST_FIT_DECREASING),
        std::pair("optimized", v1::PLAN_ALGORITHM_OPTIMIZED)}) {
    Planning& plan = plans.emplace_back();
    plan.name = name;
    request.clear_heuristics();
    request.add_heuristics()->set_algorithm(algorithm);
    const absl::Time end = absl::Now() + settings_.runs * settings_.seconds;
    for (int call = 0; call < kLeastPlans || absl::Now() < end; ++call) {
      grpc::ClientContext context;
      context.set_deadline(absl::ToChronoTime(absl::Now() + kCallTimeout));
      v1::PlanResponse response;
      const int64_t begin = MonotonicNanos();
      const grpc::Status status = stub->Plan(&context, request, &response);
      if (!status.ok()) return ToAbslStatus(status);
      plan.milliseconds.push_back(static_cast<double>(MonotonicNanos() - begin) /
                                  kNanosPerMillisecond);
    }
  }
  return plans;
}

absl::StatusOr<Runs> BenchRunner::MeasureTcp() {
  const absl::StatusOr<std::unique_ptr<BenchServer>> ceiling = StartCeiling(0);
  if (!ceiling.ok()) return ceiling.status();
  const BenchProcess& process = (*ceiling)->process();
  Runs runs;
  for (int run = 0; run < settings_.runs; ++run) {
    absl::StatusOr<RunSample> sample =
        RunQuietly([&] { return RunTcp(process, settings_.congestion, settings_.seconds); });
    if (!sample.ok()) return sample.status();
    runs.push_back(*std::move(sample));
  }
  return runs;
}

}  // namespace packhouse::client

#include "service/rpc/server.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "packhouse/v1/dataset.grpc.pb.h"
#include "packhouse/v1/histogram.grpc.pb.h"
#include "packhouse/v1/loader.grpc.pb.h"
#include "packhouse/v1/packing.grpc.pb.h"
#include "packhouse/v1/planning.grpc.pb.h"
#include "service/base/status_macros.h"
#include "service/collation/batch_shape.h"
#include "service/rpc/goaway.h"
#include "service/rpc/listening_sockets.h"
#include "service/wire/batch_reply.h"

namespace packhouse::rpc {
namespace {

// At most the bytes of a batch's tensor names, dtypes and shapes.
constexpr int kBatchHeaderBytes = 1 << 20;
// At most the bytes of a graph's id and size tuple; MostGraphs() counts those with more components.
constexpr uint64_t kGraphBytes = sizeof(uint64_t) + kUsualComponents * sizeof(uint32_t);
// Time for clients without calls to receive a GOAWAY and to close their connections.
constexpr absl::Duration kGoawayGrace = absl::Seconds(1);
constexpr absl::Duration kConnectionPoll = absl::Milliseconds(2);
// Open calls besides those that the gate and health let in: calls that wait for their requests,
// that were refused, or whose answers are not read.
constexpr size_t kSpareCalls = 256;
// On one connection, this many calls beyond the bound are refused, instead of waiting at the
// client.
constexpr size_t kRefusedStreams = 64;
// A connection that sends no HTTP/2 preface in this time is closed.
constexpr int kHandshakeMs = 20'000;
// gRPC's bytes for one connection, measured by tests/abuse, rounded up.
constexpr uint64_t kConnectionBytes = uint64_t{20} << 10;
constexpr uint64_t kCallBytes = uint64_t{18} << 10;
// Monitoring does not wait longer than this for locks.
constexpr absl::Duration kLongestSample = absl::Milliseconds(100);
// Time for statuses to be sent before remaining calls are cancelled.
constexpr absl::Duration kCancelGrace = absl::Milliseconds(40);

// A message must hold a batch: an eighth is for ids and sizes, the rest for tensors.
StreamBounds StreamBoundsOf(const ServerOptions& options, ByteQuota* quota) {
  StreamBounds bounds = options.streams;
  bounds.quota = quota;
  const uint64_t message_bytes = options.max_message_bytes;
  bounds.max_graphs_per_batch =
      std::min(bounds.max_graphs_per_batch, message_bytes / 8 / kGraphBytes);
  bounds.max_batch_bytes = message_bytes / 8 * 7 - kBatchHeaderBytes;
  return bounds;
}

size_t HalfOf(size_t bound) { return std::max<size_t>(1, bound / 2); }

FairBound::Bounds ConnectionsOf(const ServerOptions& options) {
  return {options.max_connections,
          options.max_connections_per_client.value_or(HalfOf(options.max_connections))};
}

FairBound::Bounds WatchesOf(const ServerOptions& options) {
  return {options.max_health_watches, HalfOf(options.max_health_watches)};
}

FairBound::Bounds OpenCallsOf(const ServerOptions& options) {
  const Gate::Bounds& gate = options.admission;
  return {gate.max_streams + gate.max_calls + options.max_health_watches + kSpareCalls,
          gate.max_streams_per_client.value_or(HalfOf(gate.max_streams)) +
              gate.max_calls_per_client.value_or(HalfOf(gate.max_calls)) +
              HalfOf(options.max_health_watches) + kSpareCalls / 2};
}

// The services as server reflection lists them.
std::vector<std::string> ServiceNames() {
  return {grpc::health::v1::Health::service_full_name(),
          v1::DatasetService::service_full_name(),
          v1::HistogramService::service_full_name(),
          v1::LoaderService::service_full_name(),
          v1::PackingService::service_full_name(),
          v1::PlanningService::service_full_name(),
          grpc::reflection::v1::ServerReflection::service_full_name(),
          grpc::reflection::v1alpha::ServerReflection::service_full_name()};
}

// The services, and whether they can do anything.
absl::flat_hash_map<std::string, bool> ServedServices(bool has_data) {
  absl::flat_hash_map<std::string, bool> served;
  for (std::string& name : ServiceNames()) served.emplace(std::move(name), true);
  served[v1::DatasetService::service_full_name()] = has_data;
  served[v1::LoaderService::service_full_name()] = has_data;
  return served;
}

// Session ids of this run of the server are above those of earlier ones.
SessionId FirstSession(const Clock& clock) {
  return static_cast<SessionId>(absl::ToUnixNanos(clock.Now()));
}

}  // namespace

Server::Server(const ServerOptions& options, const MemoryShares& shares, Clock* clock,
               RpcObserver* rpc_observer, PackObserverFactory* pack_observers,
               DatasetStore* datasets, std::unique_ptr<MemoryBudget> working,
               std::unique_ptr<EpochCatalog> catalog, std::unique_ptr<Loader> loader)
    : clock_(clock),
      working_(std::move(working)),
      gate_(options.admission),
      histograms_(options.histograms, working_.get()),
      unsent_(shares.unsent_bytes),
      open_calls_("calls", "all that are open, whatever comes of them", OpenCallsOf(options)),
      stream_pool_(clock, options.stream_threads),
      call_pool_(clock, options.call_threads),
      planning_pool_(clock, options.plan_threads),
      append_pool_(clock, options.append_threads),
      context_({clock,
                &stream_pool_,
                &call_pool_,
                &planning_pool_,
                &append_pool_,
                &gate_,
                static_cast<size_t>(options.max_message_bytes),
                rpc_observer,
                &unsent_,
                &identity_,
                options.log,
                {},
                working_.get(),
                &open_calls_}),
      quota_(options.max_total_pending_bytes.value_or(shares.pending_bytes)),
      packing_(context_, StreamBoundsOf(options, &quota_), &histograms_, pack_observers),
      histogram_service_(context_, &histograms_),
      planning_(context_, &histograms_, &quota_,
                StreamBoundsOf(options, &quota_).max_graphs_per_batch),
      catalog_(std::move(catalog)),
      loader_(std::move(loader)),
      recent_delivery_([this] { return delivery(); },
                       [this](std::function<void()> read) {
                         append_pool_.Submit(/*client=*/"", std::move(read));
                       },
                       kLongestSample),
      dataset_service_(context_, datasets, catalog_.get()),
      loader_service_(context_, datasets, loader_.get(), pack_observers),
      idle_timer_(std::make_shared<IdleTimer>(clock, &gate_, options.stream_idle_timeout)),
      reflection_(context_, ServiceNames()),
      reflection_v1alpha_(context_, ServiceNames()),
      health_(context_, ServedServices(loader_ != nullptr), WatchesOf(options)) {
  if (loader_ == nullptr) return;
  loader_->RunInBackground(
      [this](std::function<void()> work) { append_pool_.Submit(/*client=*/"", std::move(work)); });
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options, Clock* clock,
                                                      RpcObserver* rpc_observer,
                                                      PackObserverFactory* pack_observers,
                                                      DatasetStore* datasets, RecordLog* ledger) {
  if (options.max_message_bytes <= 2 * kBatchHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat("max_message_bytes: ", options.max_message_bytes,
                                                   ", must be above ", 2 * kBatchHeaderBytes));
  }
  PH_ASSIGN_OR_RETURN(
      const MemoryShares shares,
      DivideMemory(
          options.memory_budget, static_cast<size_t>(options.max_message_bytes),
          options.admission.max_streams,
          OpenCallsOf(options).most * kCallBytes + options.max_connections * kConnectionBytes));
  auto working = std::make_unique<MemoryBudget>(shares.working_bytes);
  std::unique_ptr<EpochCatalog> catalog;
  std::unique_ptr<Loader> loader;
  if (datasets != nullptr && ledger != nullptr) {
    const StreamBounds bounds = StreamBoundsOf(options, nullptr);
    catalog = std::make_unique<EpochCatalog>(
        datasets,
        EpochBounds{.max_graphs_per_batch = bounds.max_graphs_per_batch,
                    .max_batch_bytes = bounds.max_batch_bytes,
                    .framing = &WireFraming()},
        working.get());
    PH_ASSIGN_OR_RETURN(loader, Loader::Open(catalog.get(), ledger, options.loader,
                                             FirstSession(*clock), working.get()));
  }
  auto server = std::unique_ptr<Server>(new Server(options, shares, clock, rpc_observer,
                                                   pack_observers, datasets, std::move(working),
                                                   std::move(catalog), std::move(loader)));

  if (!options.address.empty()) {
    PH_ASSIGN_OR_RETURN(ListeningSockets sockets, ListeningSockets::Open(options.address));
    server->connections_ = std::make_unique<ConnectionAcceptor>(
        std::move(sockets), ConnectionsOf(options), &server->identity_, options.log.failures);
    server->address_ = server->connections_->address();
  }
  grpc::ServerBuilder builder;
  // gRPC's own health service does not count its calls.
  grpc::EnableDefaultHealthCheckService(false);
  auto acceptor = options.address.empty()
                      ? nullptr
                      : builder.experimental().AddExternalConnectionAcceptor(
                            grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
                            grpc::InsecureServerCredentials());
  builder.SetMaxReceiveMessageSize(options.max_message_bytes);
  builder.SetMaxSendMessageSize(options.max_message_bytes);
  // A small compressed message may become huge before its size is checked.
  for (const auto algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    builder.SetCompressionAlgorithmSupportStatus(algorithm, false);
  }
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  // Notices within two minutes that a client has vanished, and lets clients ping every ten seconds.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 60'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  for (const auto& [argument, duration] :
       {std::pair(GRPC_ARG_MAX_CONNECTION_AGE_MS, options.max_connection_age),
        std::pair(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, options.max_connection_age_grace),
        std::pair(GRPC_ARG_MAX_CONNECTION_IDLE_MS, options.connection_idle_timeout)}) {
    if (duration == absl::InfiniteDuration()) continue;
    builder.AddChannelArgument(argument, static_cast<int>(absl::ToInt64Milliseconds(duration)));
  }
  builder.AddChannelArgument(
      GRPC_ARG_MAX_CONCURRENT_STREAMS,
      static_cast<int>(OpenCallsOf(options).most_of_client + kRefusedStreams));
  grpc::ResourceQuota received("received");
  received.Resize(shares.received_bytes);
  builder.SetResourceQuota(received);
  // Otherwise gRPC would let the window of each stream grow with the connection's speed.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, shares.receive_window_bytes);
  builder.RegisterService(&server->packing_);
  builder.RegisterService(&server->histogram_service_);
  builder.RegisterService(&server->planning_);
  builder.RegisterService(&server->dataset_service_);
  builder.RegisterService(&server->loader_service_);
  builder.RegisterService(&server->health_);
  if (options.reflection) {
    builder.RegisterService(&server->reflection_);
    builder.RegisterService(&server->reflection_v1alpha_);
  }
  server->idle_timer_->Arm();
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr) {
    return absl::UnavailableError("gRPC cannot start a server, for a reason of its own");
  }
  if (server->connections_ != nullptr) server->connections_->Start(std::move(acceptor));
  return server;
}

Server::~Server() {
  recent_delivery_.Stop();
  idle_timer_->Stop();
  if (server_ != nullptr) Drain(absl::ZeroDuration());
}

void Server::Drain(const DrainOptions& options) {
  is_draining_ = true;
  health_.StopServing();
  if (options.lame_duck > absl::ZeroDuration()) {
    // The clock keeps it if the callback comes late.
    const auto over = std::make_shared<absl::Notification>();
    clock_->CallAt(clock_->Now() + options.lame_duck, [over] { over->Notify(); });
    over->WaitForNotification();
  }
  const absl::Time deadline = absl::Now() + options.timeout;
  if (connections_ == nullptr) {
    gate_.Close();
  } else {
    connections_->Stop();
    // First, so that clients whose streams end do not come back on the same connection.
    SendGoaway(*server_);
  }
  health_.EndWatches(absl::UnavailableError("the server is draining: watch another"));
  loader_service_.EndLoads(absl::UnavailableError(
      "the server is draining: load again, from another or when it is back; what was not "
      "acknowledged comes again"));
  const bool all_left = WaitUntilLeft(deadline);
  gate_.Close();
  // gRPC's own shutdown comes only now: earlier, it would answer calls with CANCELLED that clients
  // had begun before they received the GOAWAY.
  if (!all_left && !gate_.WaitUntilEmpty(deadline)) {
    gate_.AbortStreams(absl::UnavailableError(
        absl::StrCat("the server is draining and the stream did not end within ",
                     absl::FormatDuration(options.timeout), "; try another")));
    gate_.WaitUntilEmpty(absl::Now() + kCancelGrace);
  }
  // Cancels what still cannot end.
  server_->Shutdown(absl::ToChronoTime(absl::Now() + kCancelGrace));
  // Calls that were cancelled have left when this returns: nobody is on the pools.
  gate_.WaitUntilEmpty(absl::InfiniteFuture());
  server_.reset();
}

bool Server::WaitUntilLeft(absl::Time deadline) {
  if (!gate_.WaitUntilEmpty(deadline)) return false;
  if (connections_ == nullptr) return true;
  // Calls that were on their way may still arrive. gRPC does not report when a connection closes.
  const absl::Time enough = std::min(deadline, absl::Now() + kGoawayGrace);
  while (HasConnections(*server_) && absl::Now() < enough) {
    absl::SleepFor(kConnectionPoll);
    if (!gate_.WaitUntilEmpty(deadline)) return false;
  }
  return true;
}

}  // namespace packhouse::rpc

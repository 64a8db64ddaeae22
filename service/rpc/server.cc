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
#include "packhouse/v1/partitioning.grpc.pb.h"
#include "packhouse/v1/planning.grpc.pb.h"
#include "packhouse/v1/sampling.grpc.pb.h"
#include "packhouse/v1/source_graph.grpc.pb.h"
#include "service/base/status_macros.h"
#include "service/collation/batch_shape.h"
#include "service/datasets/quota_dataset_store.h"
#include "service/rpc/goaway.h"
#include "service/rpc/listening_sockets.h"
#include "service/wire/batch_reply.h"

namespace packhouse::rpc {
namespace {

// Time for clients without calls to receive a GOAWAY and to close their connections.
constexpr absl::Duration kGoawayGrace = absl::Seconds(1);
constexpr absl::Duration kConnectionPoll = absl::Milliseconds(2);
// A connection that sends no HTTP/2 preface in this time is closed.
constexpr int kHandshakeMs = 20'000;
// Monitoring does not wait longer than this for locks.
constexpr absl::Duration kLongestSample = absl::Milliseconds(100);
// Time for statuses to be sent before remaining calls are cancelled.
constexpr absl::Duration kCancelGrace = absl::Milliseconds(40);

// The services as server reflection lists them.
std::vector<std::string> ServiceNames() {
  return {grpc::health::v1::Health::service_full_name(),
          v1::DatasetService::service_full_name(),
          v1::HistogramService::service_full_name(),
          v1::LoaderService::service_full_name(),
          v1::PackingService::service_full_name(),
          v1::PartitioningService::service_full_name(),
          v1::PlanningService::service_full_name(),
          v1::SamplingService::service_full_name(),
          v1::SourceGraphService::service_full_name(),
          grpc::reflection::v1::ServerReflection::service_full_name(),
          grpc::reflection::v1alpha::ServerReflection::service_full_name()};
}

// The services, and whether they can do anything.
absl::flat_hash_map<std::string, bool> ServedServices(bool has_data, bool has_source_graphs) {
  absl::flat_hash_map<std::string, bool> served;
  for (std::string& name : ServiceNames()) served.emplace(std::move(name), true);
  served[v1::DatasetService::service_full_name()] = has_data;
  served[v1::LoaderService::service_full_name()] = has_data;
  served[v1::PartitioningService::service_full_name()] = has_source_graphs;
  served[v1::SamplingService::service_full_name()] = has_source_graphs;
  served[v1::SourceGraphService::service_full_name()] = has_source_graphs;
  return served;
}

// Null if there is nothing to bound.
std::unique_ptr<DatasetStore> WithQuotas(DatasetStore* datasets, const Authorizer* authorizer) {
  if (datasets == nullptr || authorizer == nullptr) return nullptr;
  return std::make_unique<QuotaDatasetStore>(datasets, [authorizer](absl::string_view where) {
    return authorizer->policy()->QuotasOf(where);
  });
}

// Session ids of this run of the server are above those of earlier ones.
SessionId FirstSession(const Clock& clock) {
  return static_cast<SessionId>(absl::ToUnixNanos(clock.Now()));
}

}  // namespace

Server::Server(const ServerOptions& options, const ServerBounds& bounds, Clock* clock,
               RpcObserver* rpc_observer, PackObserverFactory* pack_observers,
               DatasetStore* datasets, std::unique_ptr<MemoryBudget> working,
               std::unique_ptr<EpochCatalog> catalog, std::unique_ptr<Loader> loader,
               SourceGraphStore* source_graphs)
    : bounds_(bounds),
      clock_(clock),
      working_(std::move(working)),
      gate_(options.admission),
      histograms_(options.histograms, working_.get()),
      unsent_(bounds.shares.unsent_bytes),
      open_calls_("calls", "all that are open, whatever comes of them", bounds.open_calls),
      connection_calls_(clock, bounds.connection_calls,
                        [this](const std::string& connection, const absl::Status& why) {
                          if (connections_ != nullptr) connections_->End(connection, why);
                        }),
      stream_pool_(clock, options.stream_threads),
      call_pool_(clock, options.call_threads, WorkerPool::Jobs::kQuick),
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
                &open_calls_,
                &connection_calls_,
                nullptr,
                options.authenticator,
                options.authorizer}),
      quota_(options.max_total_pending_bytes.value_or(bounds.shares.pending_bytes)),
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
      quota_datasets_(WithQuotas(datasets, options.authorizer)),
      dataset_service_(context_, quota_datasets_ != nullptr ? quota_datasets_.get() : datasets,
                       catalog_.get()),
      partitions_(source_graphs == nullptr
                      ? nullptr
                      : std::make_unique<PartitionJobs>(source_graphs, options.partition_engine,
                                                        clock, working_.get(), options.partitions)),
      source_graph_service_(context_, source_graphs, partitions_.get()),
      partitioning_service_(context_, partitions_.get()),
      loader_service_(context_, datasets, source_graphs, loader_.get(), pack_observers),
      sampling_service_(
          context_, StreamBoundsOf(options, &quota_), &histograms_, pack_observers, source_graphs,
          quota_datasets_ != nullptr ? quota_datasets_.get() : datasets, options.sampling_observer),
      idle_timer_(std::make_shared<IdleTimer>(clock, &gate_, options.stream_idle_timeout)),
      reflection_(context_, ServiceNames()),
      reflection_v1alpha_(context_, ServiceNames()),
      health_(context_, ServedServices(loader_ != nullptr, source_graphs != nullptr),
              bounds.watches),
      unknown_methods_(context_) {
  if (loader_ == nullptr) return;
  loader_->RunInBackground(
      [this](std::function<void()> work) { append_pool_.Submit(/*client=*/"", std::move(work)); });
  loader_->PlanInBackground([this](const ClientId& client, Loader::Planning work) {
    const auto turn = std::make_shared<PlanningTurn>(&planning_pool_, client);
    planning_pool_.Submit(
        turn, [turn, work = std::move(work)] { work([&turn] { return turn->GivenUp(); }); });
  });
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options, Clock* clock,
                                                      RpcObserver* rpc_observer,
                                                      PackObserverFactory* pack_observers,
                                                      DatasetStore* datasets, RecordLog* ledger,
                                                      SourceGraphStore* source_graphs) {
  PH_ASSIGN_OR_RETURN(const ServerBounds bounds, ServerBounds::Of(options));
  auto working = std::make_unique<MemoryBudget>(bounds.shares.working_bytes);
  std::unique_ptr<EpochCatalog> catalog;
  std::unique_ptr<Loader> loader;
  if (datasets != nullptr && ledger != nullptr) {
    const StreamBounds streams = StreamBoundsOf(options, nullptr);
    catalog = std::make_unique<EpochCatalog>(
        datasets,
        EpochBounds{.max_graphs_per_batch = streams.max_graphs_per_batch,
                    .max_batch_bytes = streams.max_batch_bytes,
                    .framing = &WireFraming()},
        working.get());
    catalog->SetSamplingObserver(options.sampling_observer);
    PH_ASSIGN_OR_RETURN(loader, Loader::Open(catalog.get(), ledger, options.loader,
                                             FirstSession(*clock), working.get()));
  }
  auto server = std::unique_ptr<Server>(
      new Server(options, bounds, clock, rpc_observer, pack_observers, datasets, std::move(working),
                 std::move(catalog), std::move(loader), source_graphs));

  if (!options.address.empty()) {
    PH_ASSIGN_OR_RETURN(ListeningSockets sockets, ListeningSockets::Open(options.address));
    server->connections_ = std::make_unique<ConnectionAcceptor>(
        std::move(sockets), bounds.connections, &server->identity_, options.log.failures);
    server->address_ = server->connections_->address();
  }
  grpc::ServerBuilder builder;
  // gRPC's own health service does not count its calls.
  grpc::EnableDefaultHealthCheckService(false);
  auto acceptor = options.address.empty()
                      ? nullptr
                      : builder.experimental().AddExternalConnectionAcceptor(
                            grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
                            options.credentials != nullptr ? options.credentials
                                                           : grpc::InsecureServerCredentials());
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
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             static_cast<int>(bounds.calls_of_connection));
  grpc::ResourceQuota received("received");
  received.Resize(bounds.shares.received_bytes);
  builder.SetResourceQuota(received);
  // Otherwise gRPC would let the window of each stream grow with the connection's speed.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES,
                             bounds.shares.receive_window_bytes);
  builder.RegisterService(&server->packing_);
  builder.RegisterService(&server->histogram_service_);
  builder.RegisterService(&server->planning_);
  builder.RegisterService(&server->dataset_service_);
  builder.RegisterService(&server->source_graph_service_);
  builder.RegisterService(&server->partitioning_service_);
  builder.RegisterService(&server->loader_service_);
  builder.RegisterService(&server->sampling_service_);
  builder.RegisterService(&server->health_);
  builder.RegisterCallbackGenericService(&server->unknown_methods_);
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

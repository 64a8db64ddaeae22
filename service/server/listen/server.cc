#include "service/server/listen/server.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/server_builder.h"
#include "service/algorithms/collation/batch_shape.h"
#include "service/base/listening_sockets.h"
#include "service/base/status_macros.h"
#include "service/engine/feedback/feedback_store.h"
#include "service/engine/histograms/histogram_file.h"
#include "service/server/listen/fixed_windows.h"
#include "service/server/services/server_bounds.h"
#include "service/server/services/server_options.h"

namespace packhouse::rpc {
namespace {

// A connection that sends no HTTP/2 preface in this time is closed.
constexpr int kHandshakeMs = 20'000;

// Messages, memory, streams and windows, the age of connections, and when a client counts as gone.
void SetUpGrpc(grpc::ServerBuilder& builder, const ServerOptions& options,
               const ServerBounds& bounds) {
  builder.SetMaxReceiveMessageSize(options.max_message_bytes);
  builder.SetMaxSendMessageSize(options.max_message_bytes);
  // A small compressed message may become huge before its size is checked.
  for (const auto algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    builder.SetCompressionAlgorithmSupportStatus(algorithm, false);
  }
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  // Notices within two minutes that a client has vanished, and lets clients ping every second:
  // those of a cluster want to notice a server that is stopped before others take its jobs.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 60'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 900);
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
  // Those who probe get windows that grow with their connection's speed, unless they are fixed.
  const int window = bounds.shares.receive_window_bytes;
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, FixWindows(window) ? 1 : 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, window);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, options.channelz ? 1 : 0);
}

// Monitoring does not wait longer than this for locks.
constexpr absl::Duration kLongestSample = absl::Milliseconds(100);

HistogramStore::Bounds BoundsOfHistograms(const ServerOptions& options) {
  HistogramStore::Bounds bounds = options.histograms;
  bounds.quotas_of = QuotasOfPolicy(options.authorizer);
  return bounds;
}

std::unique_ptr<HistogramStore> MakeHistograms(const ServerOptions& options, MemoryBudget* memory) {
  HistogramStore::Bounds bounds = BoundsOfHistograms(options);
  if (options.share_histograms) return options.share_histograms(std::move(bounds), memory);
  return std::make_unique<HistogramStore>(std::move(bounds), memory);
}

// Null if there is nothing to bound.
std::unique_ptr<QuotaDatasetStore> WithQuotas(DatasetStore* store, const QuotasOf& quotas_of,
                                              DiskQuota* disk) {
  if (store == nullptr || !quotas_of) return nullptr;
  return std::make_unique<QuotaDatasetStore>(store, quotas_of, disk);
}

}  // namespace

Server::Server(const ServerOptions& options, const ServerBounds& bounds, Clock* clock,
               RpcObserver* rpc_observer, PackObserverFactory* pack_observers,
               std::unique_ptr<MemoryBudget> working, std::unique_ptr<MixedDatasets> datasets,
               std::unique_ptr<LaneDoor> lanes, std::unique_ptr<ServedJobs> jobs)
    : bounds_(bounds),
      quotas_of_(QuotasOfPolicy(options.authorizer)),
      clock_(clock),
      working_(std::move(working)),
      datasets_(std::move(datasets)),
      lanes_(std::move(lanes)),
      gate_(options.admission),
      histograms_(MakeHistograms(options, working_.get())),
      histograms_folder_(options.histograms_folder),
      own_feedback_(options.feedback == nullptr
                        ? FeedbackStore::InMemory([clock] { return clock->Now(); })
                        : nullptr),
      feedback_(options.feedback == nullptr ? own_feedback_.get() : options.feedback),
      unsent_(bounds.shares.unsent_bytes),
      open_calls_("calls", "all that are open, whatever comes of them", bounds.open_calls),
      connection_calls_(clock, bounds.connection_calls,
                        [this](const std::string& connection, const absl::Status& why) {
                          if (connections_ != nullptr) connections_->End(connection, why);
                        }),
      pools_(options, quotas_of_, clock),
      quota_(options.max_total_pending_bytes.value_or(bounds.shares.pending_bytes)),
      namespace_bytes_(&quota_, quotas_of_),
      live_streams_(working_.get()),
      jobs_(std::move(jobs)),
      leave_cluster_(options.leave_cluster),
      recent_delivery_([this] { return delivery(); },
                       [this](std::function<void()> read) { pools_.RunOnAppends(std::move(read)); },
                       kLongestSample),
      disk_quota_(quotas_of_),
      quota_datasets_(WithQuotas(datasets_.get(), quotas_of_, &disk_quota_)),
      no_examples_(options.why_no_examples),
      recent_quotas_([sources =
                          QuotaSources{
                              .authorizer = options.authorizer,
                              .datasets = quota_datasets_.get(),
                              .wings = &wings_,
                              .histograms = histograms_.get(),
                              .jobs = jobs_.get(),
                              .pending = &namespace_bytes_,
                              .planning = &pools_.planning,
                          }] { return ReadQuotas(sources); },
                     [this](std::function<void()> read) { pools_.RunOnAppends(std::move(read)); },
                     kLongestSample),
      idle_timer_(std::make_shared<IdleTimer>(clock, &gate_, options.stream_idle_timeout)) {
  jobs_->StartOn(pools_);
  const WingSources common{
      .context = ContextOfCalls(options, rpc_observer),
      .streams = BoundsOfStreams(options),
      .pack_observers = pack_observers,
      .live = options.keeps_stream_sizes ? &live_streams_ : nullptr,
      .histograms = histograms_.get(),
      .sampled = options.sampling_observer,
      .quotas_of = quotas_of_,
      .disk_quota = quotas_of_ ? &disk_quota_ : nullptr,
      .datasets = quota_datasets_ != nullptr ? static_cast<DatasetStore*>(quota_datasets_.get())
                                             : datasets_.get(),
      .catalog = jobs_->catalog(),
      .pools = &pools_,
      .wings = &wings_,
      .shares_jobs = options.shares_jobs(),
  };
  ServiceSources sources{
      .quota = &quota_,
      .feedback = feedback_,
      .datasets = datasets_.get(),
      .kinds = &kinds_,
      .examples = &no_examples_,
      .jobs = jobs_.get(),
      .lanes = lanes_.get(),
      .admin_view = ViewForAdmins(),
  };
  for (const MakeServerWing& make : options.wings) {
    ServerWing& wing = *wings_.emplace_back(make(common));
    for (ServerWing::Service& each : wing.services()) sources.of_wings.push_back(std::move(each));
    if (wing.epoch_kind() != nullptr) kinds_.readers.push_back(wing.epoch_kind());
    if (wing.example_format() != nullptr) sources.examples = wing.example_format();
  }
  kinds_.absent = options.absent_kinds;
  services_ = std::make_unique<Services>(sources, common, options, bounds);
}

void Server::ForgetGone() {
  EpochCatalog* const catalog = jobs_->catalog();
  if (catalog == nullptr) return;
  catalog->ForgetGone([this](absl::string_view thing) {
    absl::StatusOr<uint64_t> version = absl::NotFoundError("it is of no wing");
    for (const EpochKindReader* const kind : kinds_.readers) {
      if (absl::IsNotFound(version.status())) version = kind->VersionOf(thing);
    }
    return version;
  });
}

CallContext Server::ContextOfCalls(const ServerOptions& options, RpcObserver* rpc_observer) {
  CallContext context;
  context.clock = clock_;
  context.stream_pool = &pools_.streams;
  context.call_pool = &pools_.calls;
  context.planning_pool = &pools_.planning;
  context.append_pool = &pools_.appends;
  context.gate = &gate_;
  context.max_response_bytes = static_cast<size_t>(options.max_message_bytes);
  context.observer = rpc_observer;
  context.unsent_budget = &unsent_;
  context.identity = &identity_;
  context.log = options.log;
  context.working = working_.get();
  context.open_calls = &open_calls_;
  context.connections = &connection_calls_;
  context.authenticator = options.authenticator;
  context.authorizer = options.authorizer;
  context.signer = options.signer;
  context.call_table = &call_table_;
  return context;
}

StreamBounds Server::BoundsOfStreams(const ServerOptions& options) {
  StreamBounds bounds = StreamBoundsOf(options, &quota_);
  bounds.measured = feedback_;
  if (quotas_of_) {
    bounds.quota_of = [this](absl::string_view where) { return namespace_bytes_.Of(where); };
  }
  return bounds;
}

AdminView Server::ViewForAdmins() {
  AdminView view;
  view.is_draining = [this] { return is_draining(); };
  view.num_connections = [this] { return num_connections(); };
  view.memory = [this] {
    return std::vector<AdminView::Share>{{"pending", pending_bytes(), max_pending_bytes()},
                                         {"unsent", unsent_bytes(), max_unsent_bytes()},
                                         {"working", working_bytes(), max_working_bytes()}};
  };
  view.sessions = [this] {
    return jobs_->jobs() == nullptr ? std::vector<SessionSummary>() : jobs_->jobs()->Sessions();
  };
  view.quotas = [this] { return recent_quotas(); };
  view.jobs = jobs_->are_shared() ? jobs_->jobs() : nullptr;
  view.histograms = [this](absl::FunctionRef<absl::Status(absl::string_view)> append) {
    return WriteHistograms(*histograms_, clock_->Now(), append);
  };
  return view;
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options, Clock* clock,
                                                      RpcObserver* rpc_observer,
                                                      PackObserverFactory* pack_observers,
                                                      DatasetStore* datasets) {
  PH_ASSIGN_OR_RETURN(const ServerBounds bounds, ServerBounds::Of(options));
  auto working = std::make_unique<MemoryBudget>(bounds.shares.working_bytes);
  std::unique_ptr<LaneDoor> lanes;
  if (!options.lane_address.empty()) {
    PH_ASSIGN_OR_RETURN(lanes, LaneDoor::Open(options.lane_address, working.get()));
  }
  std::unique_ptr<MixedDatasets> mixed;
  if (datasets != nullptr) mixed = std::make_unique<MixedDatasets>(datasets, working.get());
  PH_ASSIGN_OR_RETURN(auto jobs, ServedJobs::Open(options, clock, mixed.get(), working.get()));
  auto server = std::unique_ptr<Server>(
      new Server(options, bounds, clock, rpc_observer, pack_observers, std::move(working),
                 std::move(mixed), std::move(lanes), std::move(jobs)));
  if (!options.histograms_folder.empty()) {
    PH_RETURN_IF_ERROR(LoadHistogramFile(options.histograms_folder, clock->Now(),
                                         server->working_.get(), *server->histograms_));
  }
  PH_RETURN_IF_ERROR(server->Listen(options));
  PH_RETURN_IF_ERROR(server->ListenForAdministrators(options));
  return server;
}

absl::Status Server::Listen(const ServerOptions& options) {
  grpc::ServerBuilder builder;
  // gRPC's own health service does not count its calls.
  grpc::EnableDefaultHealthCheckService(false);
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor;
  if (!options.address.empty()) {
    PH_ASSIGN_OR_RETURN(ListeningSockets sockets, ListeningSockets::Open(options.address));
    connections_ = std::make_unique<ConnectionAcceptor>(std::move(sockets), bounds_.connections,
                                                        &identity_, options.log.failures);
    address_ = connections_->address();
    acceptor = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        options.credentials != nullptr ? options.credentials : grpc::InsecureServerCredentials());
  }
  SetUpGrpc(builder, options, bounds_);
  services_->RegisterAt(builder, options);
  idle_timer_->Arm();
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) {
    return absl::UnavailableError("gRPC cannot start a server, for a reason of its own");
  }
  if (connections_ != nullptr) connections_->Start(std::move(acceptor));
  return absl::OkStatus();
}

absl::Status Server::ListenForAdministrators(const ServerOptions& options) {
  if (options.admin_address.empty()) return absl::OkStatus();
  auto sockets = ListeningSockets::Open(options.admin_address, SocketAccess::kOwner);
  if (!sockets.ok()) {
    if (!options.may_lack_admin_address) return sockets.status();
    if (options.log.failures != nullptr) {
      options.log.failures->Log("no admin socket", LogLevel::kWarning,
                                "no socket for administrators",
                                {LogField::Message(sockets.status().message())});
    }
    return absl::OkStatus();
  }
  // Few are needed; they take nothing from those of clients.
  constexpr FairBound::Bounds kConnections = {.most = 64, .most_of_client = 64};
  admin_connections_ = std::make_unique<ConnectionAcceptor>(*std::move(sockets), kConnections,
                                                            &identity_, options.log.failures);
  admin_address_ = admin_connections_->address();
  grpc::ServerBuilder builder;
  auto acceptor = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      grpc::InsecureServerCredentials());
  SetUpGrpc(builder, options, bounds_);
  services_->RegisterForAdministratorsAt(builder, options);
  admin_server_ = builder.BuildAndStart();
  if (admin_server_ == nullptr) {
    return absl::UnavailableError("gRPC cannot start a server, for a reason of its own");
  }
  admin_connections_->Start(std::move(acceptor));
  return absl::OkStatus();
}

Server::~Server() {
  recent_delivery_.Stop();
  recent_quotas_.Stop();
  idle_timer_->Stop();
  if (server_ != nullptr) Drain(absl::ZeroDuration());
}

void Server::Drain(const DrainOptions& options) {
  is_draining_ = true;
  DrainServer({.clock = clock_,
               .gate = &gate_,
               .health = &services_->health(),
               .loads = &services_->loads(),
               .page_calls = page_calls_.get(),
               .connections = connections_.get(),
               .admin_connections = admin_connections_.get(),
               .server = server_.get(),
               .admin_server = admin_server_.get(),
               .leave_cluster = leave_cluster_},
              options);
  server_.reset();
  admin_server_.reset();
  if (lanes_ != nullptr) lanes_->Stop();
  // What streams have counted last.
  histograms_->Flush().IgnoreError();
}

page::PageCalls* Server::MakePageCalls() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMostAnswerBytes);
  page_calls_ = std::make_unique<InProcessCalls>(InProcessChannel(arguments));
  return page_calls_.get();
}

absl::Status Server::SaveHistograms() {
  if (histograms_folder_.empty()) return absl::OkStatus();
  absl::MutexLock lock(&saving_histograms_);
  const uint64_t changes = histograms_->num_changes();
  if (changes == num_saved_changes_) return absl::OkStatus();
  PH_RETURN_IF_ERROR(SaveHistogramFile(*histograms_, histograms_folder_, clock_->Now()));
  num_saved_changes_ = changes;
  return absl::OkStatus();
}

}  // namespace packhouse::rpc

#include "service/rpc/server.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "packhouse/v1/admin.grpc.pb.h"
#include "packhouse/v1/dataset.grpc.pb.h"
#include "packhouse/v1/feedback.grpc.pb.h"
#include "packhouse/v1/histogram.grpc.pb.h"
#include "packhouse/v1/loader.grpc.pb.h"
#include "packhouse/v1/packing.grpc.pb.h"
#include "packhouse/v1/partitioning.grpc.pb.h"
#include "packhouse/v1/planning.grpc.pb.h"
#include "packhouse/v1/receipts.grpc.pb.h"
#include "packhouse/v1/sampling.grpc.pb.h"
#include "packhouse/v1/source_graph.grpc.pb.h"
#include "service/base/status_macros.h"
#include "service/collation/batch_shape.h"
#include "service/histograms/histogram_file.h"
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
          v1::AdminService::service_full_name(),
          v1::DatasetService::service_full_name(),
          v1::FeedbackService::service_full_name(),
          v1::HistogramService::service_full_name(),
          v1::LoaderService::service_full_name(),
          v1::PackingService::service_full_name(),
          v1::PartitioningService::service_full_name(),
          v1::PlanningService::service_full_name(),
          v1::ReceiptService::service_full_name(),
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

// Null without an authorizer.
QuotasOf QuotasOfPolicy(const Authorizer* authorizer) {
  if (authorizer == nullptr) return nullptr;
  return [authorizer](absl::string_view where) { return authorizer->policy()->QuotasOf(where); };
}

HistogramStore::Bounds BoundsOfHistograms(const ServerOptions& options) {
  HistogramStore::Bounds bounds = options.histograms;
  bounds.quotas_of = QuotasOfPolicy(options.authorizer);
  return bounds;
}

// Null if there is nothing to bound.
template <typename QuotaStore, typename Store>
std::unique_ptr<QuotaStore> WithQuotas(Store* store, const QuotasOf& quotas_of, DiskQuota* disk) {
  if (store == nullptr || !quotas_of) return nullptr;
  return std::make_unique<QuotaStore>(store, quotas_of, disk);
}

// `used` for the namespaces of the policy that have such a quota.
template <typename Used>
void AddQuota(const std::string& where, absl::string_view quota, const auto& limit, Used used,
              std::vector<QuotaReading>& readings) {
  if (!limit) return;
  readings.push_back(
      {where, std::string(quota), static_cast<double>(used()), static_cast<double>(*limit)});
}

template <typename Uses>
auto UseIn(const Uses& uses, const std::string& where) -> typename Uses::mapped_type {
  const auto found = uses.find(where);
  return found == uses.end() ? typename Uses::mapped_type() : found->second;
}

LoaderOptions LoaderOptionsOf(const ServerOptions& options) {
  LoaderOptions loader = options.loader;
  loader.quotas_of = QuotasOfPolicy(options.authorizer);
  return loader;
}

// The timers of a job's own loader.
class JobTimers final : public JobCompany {
 public:
  JobTimers(Clock* clock, JobPool* leases, JobPool* retention, Loader& loader)
      : leases_(std::make_shared<LeaseTimer>(clock, leases, &loader)),
        retention_(
            std::make_shared<RetentionTimer>(clock, retention, &loader, loader.epoch_retention())) {
    retention_->Start();
  }
  ~JobTimers() override {
    leases_->Stop();
    retention_->Stop();
  }
  JobTimers(const JobTimers&) = delete;
  JobTimers& operator=(const JobTimers&) = delete;

  void OnLeased(absl::Time until) override { leases_->Arm(until); }

 private:
  const std::shared_ptr<LeaseTimer> leases_;
  const std::shared_ptr<RetentionTimer> retention_;
};

// All that waits, and begins, is on the pool; as it is without one.
CallContext WaitingOn(WorkerPool* pool, CallContext context) {
  if (pool != nullptr) {
    context.call_pool = pool;
    context.append_pool = pool;
  }
  return context;
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
      quotas_of_(QuotasOfPolicy(options.authorizer)),
      authorizer_(options.authorizer),
      clock_(clock),
      working_(std::move(working)),
      gate_(options.admission),
      histograms_(BoundsOfHistograms(options), working_.get()),
      histograms_folder_(options.histograms_folder),
      own_feedback_(options.feedback == nullptr ? FeedbackStore::InMemory() : nullptr),
      feedback_(options.feedback == nullptr ? own_feedback_.get() : options.feedback),
      unsent_(bounds.shares.unsent_bytes),
      open_calls_("calls", "all that are open, whatever comes of them", bounds.open_calls),
      connection_calls_(clock, bounds.connection_calls,
                        [this](const std::string& connection, const absl::Status& why) {
                          if (connections_ != nullptr) connections_->End(connection, why);
                        }),
      stream_pool_(clock, options.stream_threads),
      call_pool_(clock, options.call_threads, WorkerPool::Jobs::kQuick),
      planning_pool_(clock, options.plan_threads, quotas_of_),
      window_pool_(clock, options.plan_threads),
      append_pool_(clock, options.append_threads),
      dataset_pool_(options.job_logs == nullptr
                        ? nullptr
                        : std::make_unique<WorkerPool>(clock, options.append_threads)),
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
                options.authorizer,
                options.signer,
                options.authorizer == nullptr || options.unsigned_cursors,
                &call_table_}),
      quota_(options.max_total_pending_bytes.value_or(bounds.shares.pending_bytes)),
      namespace_bytes_(&quota_, quotas_of_),
      packing_(context_, BoundsOfStreams(options), &histograms_, pack_observers),
      histogram_service_(context_, &histograms_),
      feedback_service_(context_, feedback_),
      planning_(context_, &histograms_, &quota_,
                StreamBoundsOf(options, &quota_).max_graphs_per_batch, feedback_),
      catalog_(std::move(catalog)),
      loader_(std::move(loader)),
      owned_jobs_(
          options.job_logs == nullptr
              ? nullptr
              : std::make_unique<OwnedJobs>(
                    catalog_.get(), options.job_logs, LoaderOptionsOf(options), working_.get(),
                    [this](Loader& job) -> std::unique_ptr<JobCompany> {
                      RunInBackground(job);
                      return std::make_unique<JobTimers>(clock_, &stream_pool_, &append_pool_, job);
                    })),
      leave_cluster_(options.leave_cluster),
      recent_delivery_([this] { return delivery(); },
                       [this](std::function<void()> read) {
                         append_pool_.Submit(/*client=*/"", std::move(read));
                       },
                       kLongestSample),
      disk_quota_(quotas_of_),
      quota_datasets_(WithQuotas<QuotaDatasetStore>(datasets, quotas_of_, &disk_quota_)),
      quota_graphs_(WithQuotas<QuotaSourceGraphStore>(source_graphs, quotas_of_, &disk_quota_)),
      recent_quotas_([this] { return ReadQuotas(); },
                     [this](std::function<void()> read) {
                       append_pool_.Submit(/*client=*/"", std::move(read));
                     },
                     kLongestSample),
      dataset_service_(WaitingOn(dataset_pool_.get(), context_),
                       quota_datasets_ != nullptr ? quota_datasets_.get() : datasets,
                       catalog_.get()),
      partitions_(source_graphs == nullptr
                      ? nullptr
                      : std::make_unique<PartitionJobs>(source_graphs, options.partition_engine,
                                                        clock, working_.get(), options.partitions)),
      source_graph_service_(context_,
                            quota_graphs_ != nullptr ? quota_graphs_.get() : source_graphs,
                            partitions_.get()),
      partitioning_service_(context_, partitions_.get(),
                            quota_datasets_ != nullptr ? quota_datasets_.get() : datasets),
      // Its calls may have to open a job in etcd.
      loader_service_(WaitingOn(options.job_logs == nullptr ? nullptr : &append_pool_, context_),
                      datasets, source_graphs, loader_.get(), owned_jobs_.get(), pack_observers,
                      feedback_),
      sampling_service_(
          context_, BoundsOfStreams(options), &histograms_, pack_observers, source_graphs,
          quota_datasets_ != nullptr ? quota_datasets_.get() : datasets, options.sampling_observer),
      receipt_service_(context_, &histograms_, datasets, source_graphs, loader_.get(),
                       owned_jobs_.get()),
      idle_timer_(std::make_shared<IdleTimer>(clock, &gate_, options.stream_idle_timeout)),
      admin_service_(context_, options.admin, ViewForAdmins()),
      channelz_(context_),
      reflection_(context_, ServiceNames()),
      reflection_v1alpha_(context_, ServiceNames()),
      health_(context_, ServedServices(loader_ != nullptr, source_graphs != nullptr),
              bounds.watches),
      unknown_methods_(context_) {
  if (loader_ != nullptr) RunInBackground(*loader_);
}

void Server::RunInBackground(Loader& loader) {
  loader.RunInBackground(
      [this](std::function<void()> work) { append_pool_.Submit(/*client=*/"", std::move(work)); });
  // A window that has begun is planned to its end, which takes a second or so.
  loader.PlanInBackground(
      [this](const ClientId& client, Loader::WindowOrder order, Loader::Planning work) {
        auto job = [work = std::move(work)] { work([] { return false; }); };
        if (order == Loader::WindowOrder::kFirst) {
          window_pool_.SubmitFirst(client, std::move(job));
        } else {
          window_pool_.Submit(client, std::move(job));
        }
      });
}

std::vector<std::shared_ptr<const Loader>> Server::Loaders() const {
  std::vector<std::shared_ptr<const Loader>> loaders;
  if (owned_jobs_ != nullptr) {
    for (const auto& job : owned_jobs_->Jobs()) loaders.emplace_back(job, &job->loader());
  } else if (loader_ != nullptr) {
    loaders.emplace_back(std::shared_ptr<void>(), loader_.get());
  }
  return loaders;
}

DeliverySnapshot Server::delivery() const {
  DeliverySnapshot sum;
  for (const auto& loader : Loaders()) {
    DeliverySnapshot one = loader->Snapshot();
    sum.totals = sum.totals + one.totals;
    sum.num_generations += one.num_generations;
    sum.num_in_flight += one.num_in_flight;
    sum.num_sessions += one.num_sessions;
    sum.num_starved += one.num_starved;
    sum.num_awaited += one.num_awaited;
    sum.num_epochs += one.num_epochs;
    std::move(one.progress.begin(), one.progress.end(), std::back_inserter(sum.progress));
  }
  return sum;
}

std::vector<EpochWatch> Server::WatchJob(const std::string& job) const {
  for (const auto& loader : Loaders()) {
    std::vector<EpochWatch> watched = loader->WatchJob(job);
    if (!watched.empty()) return watched;
  }
  return {};
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
    std::vector<SessionSummary> all;
    for (const auto& loader : Loaders()) {
      std::vector<SessionSummary> some = loader->Sessions();
      std::move(some.begin(), some.end(), std::back_inserter(all));
    }
    return all;
  };
  view.quotas = [this] { return recent_quotas(); };
  view.histograms = [this](absl::FunctionRef<absl::Status(absl::string_view)> append) {
    return WriteHistograms(histograms_, clock_->Now(), append);
  };
  return view;
}

absl::Status Server::SaveHistograms() {
  if (histograms_folder_.empty()) return absl::OkStatus();
  absl::MutexLock lock(&saving_histograms_);
  const uint64_t changes = histograms_.num_changes();
  if (changes == num_saved_changes_) return absl::OkStatus();
  PH_RETURN_IF_ERROR(SaveHistogramFile(histograms_, histograms_folder_, clock_->Now()));
  num_saved_changes_ = changes;
  return absl::OkStatus();
}

std::vector<QuotaReading> Server::ReadQuotas() const {
  if (authorizer_ == nullptr) return {};
  const std::shared_ptr<const Policy> policy = authorizer_->policy();
  // A store that cannot be read has other alarms; here it counts for nothing.
  std::map<std::string, QuotaDatasetStore::Use> datasets;
  if (quota_datasets_ != nullptr) datasets = quota_datasets_->CountAll().value_or(datasets);
  std::map<std::string, QuotaSourceGraphStore::Use> graphs;
  if (quota_graphs_ != nullptr) graphs = quota_graphs_->CountAll().value_or(graphs);
  const std::map<std::string, uint64_t> histograms = histograms_.CountByNamespace();
  std::map<std::string, uint64_t> epochs;
  for (const auto& loader : Loaders()) {
    for (const auto& [name, count] : loader->EpochsByNamespace()) epochs[name] += count;
  }
  std::vector<QuotaReading> readings;
  const std::map<std::string, Quotas> by_name(policy->quotas().begin(), policy->quotas().end());
  for (const auto& [where, quotas] : by_name) {
    const auto& name = where;
    AddQuota(
        name, "disk_bytes", quotas.disk_bytes,
        [&] { return UseIn(datasets, name).bytes + UseIn(graphs, name).bytes; }, readings);
    AddQuota(
        name, "datasets", quotas.datasets, [&] { return UseIn(datasets, name).datasets; },
        readings);
    AddQuota(
        name, "source_graphs", quotas.source_graphs, [&] { return UseIn(graphs, name).graphs; },
        readings);
    AddQuota(
        name, "histograms", quotas.histograms, [&] { return UseIn(histograms, name); }, readings);
    AddQuota(
        name, "epochs", quotas.epochs, [&] { return UseIn(epochs, name); }, readings);
    AddQuota(
        name, "streams", quotas.streams, [&] { return authorizer_->StreamsIn(name); }, readings);
    AddQuota(
        name, "pending_bytes", quotas.pending_bytes, [&] { return namespace_bytes_.HeldIn(name); },
        readings);
    AddQuota(
        name, "planning", quotas.planning, [&] { return planning_pool_.ShareOf(name); }, readings);
    if (readings.size() >= kMostQuotaReadings) break;
  }
  readings.resize(std::min(readings.size(), kMostQuotaReadings));
  return readings;
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
  static NoLog no_log;
  if (options.job_logs != nullptr) ledger = &no_log;
  if (datasets != nullptr && ledger != nullptr) {
    const StreamBounds streams = StreamBoundsOf(options, nullptr);
    catalog = std::make_unique<EpochCatalog>(
        datasets,
        EpochBounds{.max_graphs_per_batch = streams.max_graphs_per_batch,
                    .max_batch_bytes = streams.max_batch_bytes,
                    .framing = &WireFraming()},
        working.get());
    catalog->SetSamplingObserver(options.sampling_observer);
    PH_ASSIGN_OR_RETURN(loader, Loader::Open(catalog.get(), ledger, LoaderOptionsOf(options),
                                             FirstSession(*clock), working.get()));
  }
  auto server = std::unique_ptr<Server>(
      new Server(options, bounds, clock, rpc_observer, pack_observers, datasets, std::move(working),
                 std::move(catalog), std::move(loader), source_graphs));
  if (!options.histograms_folder.empty()) {
    PH_RETURN_IF_ERROR(LoadHistogramFile(options.histograms_folder, clock->Now(),
                                         server->working_.get(), server->histograms_));
  }

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
  // Notices within two minutes that a client has vanished, and lets clients ping every five
  // seconds: those of a cluster want to notice a server that is stopped before others take its
  // jobs.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 60'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 4'000);
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
  builder.RegisterService(&server->feedback_service_);
  builder.RegisterService(&server->planning_);
  builder.RegisterService(&server->dataset_service_);
  builder.RegisterService(&server->source_graph_service_);
  builder.RegisterService(&server->partitioning_service_);
  builder.RegisterService(&server->loader_service_);
  builder.RegisterService(&server->sampling_service_);
  builder.RegisterService(&server->admin_service_);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, options.channelz ? 1 : 0);
  if (options.channelz) builder.RegisterService(&server->channelz_);
  builder.RegisterService(&server->receipt_service_);
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
  recent_quotas_.Stop();
  idle_timer_->Stop();
  if (server_ != nullptr) Drain(absl::ZeroDuration());
}

page::PageCalls* Server::MakePageCalls() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMostAnswerBytes);
  page_calls_ = std::make_unique<InProcessCalls>(InProcessChannel(arguments));
  return page_calls_.get();
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
  if (page_calls_ != nullptr) page_calls_->Close();
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
  if (leave_cluster_) leave_cluster_();
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

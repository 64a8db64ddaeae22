// The gRPC server: services, admission, drain.
#ifndef PACKHOUSE_SERVICE_RPC_SERVER_H_
#define PACKHOUSE_SERVICE_RPC_SERVER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"
#include "service/admission/authorizer.h"
#include "service/admission/call_context.h"
#include "service/admission/call_log.h"
#include "service/admission/client_identity.h"
#include "service/admission/connection_calls.h"
#include "service/admission/disk_quota.h"
#include "service/admission/fair_bound.h"
#include "service/admission/gate.h"
#include "service/admission/idle_timer.h"
#include "service/admission/memory_budget.h"
#include "service/admission/memory_shares.h"
#include "service/admission/open_calls.h"
#include "service/admission/planning_pool.h"
#include "service/admission/policy.h"
#include "service/admission/principal.h"
#include "service/admission/recent_value.h"
#include "service/admission/rpc_observer.h"
#include "service/admission/text_signer.h"
#include "service/admission/unsent_budget.h"
#include "service/admission/worker_pool.h"
#include "service/base/clock.h"
#include "service/datasets/dataset_store.h"
#include "service/datasets/quota_dataset_store.h"
#include "service/delivery/loader.h"
#include "service/delivery/owned_jobs.h"
#include "service/epochs/epoch_catalog.h"
#include "service/feedback/feedback_store.h"
#include "service/histograms/histogram_store.h"
#include "service/ledger/record_log.h"
#include "service/page/page_calls.h"
#include "service/partition_jobs/partition_jobs.h"
#include "service/partitioning/assignment_engine.h"
#include "service/rpc/admin_actions.h"
#include "service/rpc/admin_service.h"
#include "service/rpc/channelz_service.h"
#include "service/rpc/connection_acceptor.h"
#include "service/rpc/dataset_service.h"
#include "service/rpc/feedback_service.h"
#include "service/rpc/health_service.h"
#include "service/rpc/histogram_service.h"
#include "service/rpc/in_process_calls.h"
#include "service/rpc/loader_service.h"
#include "service/rpc/packing_service.h"
#include "service/rpc/partitioning_service.h"
#include "service/rpc/planning_service.h"
#include "service/rpc/receipt_service.h"
#include "service/rpc/reflection_service.h"
#include "service/rpc/sampling_service.h"
#include "service/rpc/server_bounds.h"
#include "service/rpc/source_graph_service.h"
#include "service/rpc/unknown_methods.h"
#include "service/source_graphs/quota_source_graph_store.h"
#include "service/source_graphs/source_graph_store.h"
#include "service/streams/byte_quota.h"
#include "service/streams/namespace_bytes.h"
#include "service/streams/pack_observer.h"
#include "service/streams/stream_packer.h"

namespace packhouse::rpc {

struct ServerOptions {
  // "host:port" (port 0: any free one) or "unix:/path". Empty: in-process only.
  std::string address;
  // The largest message in both directions. The tensors of a batch take at most 7/8 of it, less 1
  // MiB.
  int max_message_bytes = 64 << 20;
  size_t stream_threads = 2;
  // Threads for quick calls, and for beginning other calls.
  size_t call_threads = 2;
  // Calls that plan at the same time; each begun call has a thread (planning_pool.h).
  size_t plan_threads = 2;
  // Threads that wait for the disk: at most this many appends share one flush. They hold up neither
  // streams nor other calls, and wait more than they work.
  size_t append_threads = 8;
  Gate::Bounds admission;
  // The most calls and streams of one connection. Clients are told, and keep further ones at their
  // side until others are over.
  size_t max_streams_per_connection = 64;
  // The most connections, of all clients and of one. Unset: as many as memory is put by for
  // (server_bounds.h), and half of all. In-process there are none.
  std::optional<size_t> max_connections;
  std::optional<size_t> max_connections_per_client;
  // Connections without an open call are closed after about this long.
  absl::Duration connection_idle_timeout = absl::InfiniteDuration();
  // The most streams of Health.Watch; one client may have half of them. The gate does not count
  // them, and they may be idle for any time.
  size_t max_health_watches = 512;
  // A stream on which nothing has gone either way for this long, or up to a quarter longer, ends;
  // infinite: none does.
  absl::Duration stream_idle_timeout = absl::InfiniteDuration();
  // max_batch_bytes is derived from max_message_bytes; max_graphs_per_batch may be lowered by it.
  StreamBounds streams;
  // The memory that all calls may hold together; memory_shares.h says for what. At least eight
  // times max_message_bytes.
  uint64_t memory_budget = uint64_t{4} << 30;
  // The most bytes of pending graphs, and of grids of limits that are being sent, in all streams
  // together. Unset: the budget's share for them.
  std::optional<uint64_t> max_total_pending_bytes;
  HistogramStore::Bounds histograms;
  // Where named histograms are kept (histogram_file.h): read at the start, written by
  // SaveHistograms(). Empty: they end with the server.
  std::string histograms_folder;
  LoaderOptions loader;
  // The logs of jobs, if several servers share the jobs: then there is no ledger. Null: this server
  // has all jobs. Must outlive the server.
  JobLogs* job_logs = nullptr;
  // Called when the server drains and its Load streams have been told so: others may take the jobs.
  // May be null.
  std::function<void()> leave_cluster;
  PartitionJobs::Options partitions;
  // Calls METIS for partitions; must outlive the server. Null: METIS cannot be called.
  AssignmentEngine* partition_engine = nullptr;
  // After this time, up to a tenth more or less, a connection gets GOAWAY, and its client opens
  // another one for its next calls. So clients reach servers that were added. Calls of the old
  // connection may go on for the grace, and are then cancelled.
  absl::Duration max_connection_age = absl::InfiniteDuration();
  absl::Duration max_connection_age_grace = absl::InfiniteDuration();
  // Whether clients may ask for the services and their messages (gRPC server reflection).
  bool reflection = true;
  // Its pointees must outlive the server.
  CallLog log;
  // Told of sub-graphs that are drawn; must outlive the server. May be null.
  SamplingObserver* sampling_observer = nullptr;
  // What batches cost on devices; must outlive the server. Null: kept in memory.
  FeedbackStore* feedback = nullptr;
  // Null: plain text.
  std::shared_ptr<grpc::ServerCredentials> credentials;
  // Who callers are; null: nobody asks. What they may do; null: everything. Both outlive the
  // server.
  const Authenticator* authenticator = nullptr;
  const Authorizer* authorizer = nullptr;
  // Signs cursors and page tokens; null: they are not signed. It outlives the server.
  const TextSigner* signer = nullptr;
  // Whether cursors without a signature, of releases up to 0.1, are taken although there is a
  // policy. Without one they always are.
  bool unsigned_cursors = false;
  // Whether those who may administer the server see what gRPC knows of its connections.
  bool channelz = false;
  AdminActions admin;
};

struct DrainOptions {
  // How long everything is still served, new calls and connections too, while health says that they
  // should go elsewhere. Load balancers need this time to notice. Zero if there is none.
  absl::Duration lame_duck = absl::ZeroDuration();
  // How long calls and streams that are then open may go on.
  absl::Duration timeout = absl::ZeroDuration();
};

// Serves from Start() until it is drained or destroyed.
//
// The order of the end:
// 1. Lame duck: health says NOT_SERVING and is_draining() is true. Everything is served.
// 2. No connection is taken any more, and streams of Health.Watch end. GOAWAY on each that there is
// (goaway.h): the next call of a
//    client goes to another server; calls that had been begun are served. At the same time Load
//    streams end where they are, with UNAVAILABLE after what was made for them: their workers go on
//    with another server, or with this one when it is back. Acknowledgements are taken until the
//    last connection has closed.
// 3. Other streams and calls go on until they have ended, or until the timeout.
// 4. The gate closes. Streams that are open even now end with UNAVAILABLE; what cannot end, because
//    its client does not read, is cancelled.
// A server without an address has no connections: there the gate closes in step 2.
class Server {
 public:
  // The pointees must outlive the server. `datasets` and `ledger`, which must be thread-safe, may
  // be null together: then every call about data sets and epochs is FAILED_PRECONDITION. Without
  // `source_graphs`, which must be thread-safe, so is every call about source graphs.
  // INVALID_ARGUMENT for options that do not fit together; UNAVAILABLE if the address cannot be
  // listened on; DATA_LOSS if the ledger, or the file of histograms, cannot be read.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options, Clock* clock,
                                                       RpcObserver* rpc_observer,
                                                       PackObserverFactory* pack_observers,
                                                       DatasetStore* datasets,
                                                       RecordLog* ledger = nullptr,
                                                       SourceGraphStore* source_graphs = nullptr);
  // Ends at once.
  ~Server();

  // "host:port" with the port resolved, or "unix:/path".
  const std::string& address() const { return address_; }
  std::shared_ptr<grpc::Channel> InProcessChannel(const grpc::ChannelArguments& arguments) {
    return server_->InProcessChannel(arguments);
  }

  // Ends within both times and a little more; may be called once. Blocks. The lame-duck time is
  // measured by the clock.
  void Drain(const DrainOptions& options);
  void Drain(absl::Duration timeout) { Drain(DrainOptions{.timeout = timeout}); }

  // True from the beginning of the drain.
  bool is_draining() const { return is_draining_; }

  const ServerBounds& bounds() const { return bounds_; }

  // Connections that are open now; none in-process.
  size_t num_connections() const {
    return connections_ == nullptr ? 0 : connections_->num_connections();
  }

  // The bytes of the budget that calls hold now, without requests that are not completely received.
  uint64_t held_bytes() const { return quota_.held() + unsent_.taken() + working_->held(); }

  // Bytes that are held of the working share of the budget (memory_shares.h), and its bound.
  uint64_t working_bytes() const { return working_->held(); }
  uint64_t max_working_bytes() const { return working_->bound(); }

  // Bytes that are held of the shares for waiting graphs and for responses, and their bounds.
  uint64_t pending_bytes() const { return quota_.held(); }
  uint64_t max_pending_bytes() const { return quota_.bound(); }
  uint64_t unsent_bytes() const { return unsent_.taken(); }
  uint64_t max_unsent_bytes() const { return unsent_.bound(); }

  // What the namespaces that the policy names use of their quotas, at most kMostQuotaReadings, by
  // namespace. Does not wait for long: if it takes long to count, the last known ones.
  static constexpr size_t kMostQuotaReadings = 1000;
  std::vector<QuotaReading> recent_quotas() { return recent_quotas_.Get(); }

  // Ends what is left of jobs that other servers have taken. To be called now and then, by one
  // thread; does nothing without job_logs.
  void SweepJobs() {
    if (owned_jobs_ != nullptr) owned_jobs_->Sweep();
  }

  // Of the jobs that are here now, and of all that were; nullopt without job_logs.
  struct SharedJobs {
    uint64_t num_owned = 0;
    OwnedJobs::Counts counts;
  };
  std::optional<SharedJobs> shared_jobs() const {
    if (owned_jobs_ == nullptr) return std::nullopt;
    return SharedJobs{owned_jobs_->Jobs().size(), owned_jobs_->counts()};
  }

  // Empty without a ledger. Of the jobs that are here, if several servers share the jobs.
  DeliverySnapshot delivery() const;
  // The same without waiting for long for the loader's locks: if they take too long, the last known
  // snapshot.
  DeliverySnapshot recent_delivery() { return recent_delivery_.Get(); }

  // For the page, which shows them to those who may see them. Names of histograms ascend; an epoch
  // is shown as long as somebody loads it.
  std::vector<std::string> histogram_names() const { return histograms_.Names(); }
  std::vector<EpochWatch> WatchJob(const std::string& job) const;
  std::vector<FeedbackReading> feedback() const { return feedback_->Readings(); }
  // Of a source graph that was deleted without a call: PartitionJobs::ForgetGraph().
  void ForgetSourceGraph(absl::string_view name) {
    if (partitions_ != nullptr) partitions_->ForgetGraph(name);
  }
  std::vector<Expired> DeleteUnusedHistograms(const Retention& retention) {
    return histograms_.DeleteUnused(retention, clock_->Now());
  }
  // Writes the file of histograms, if they have changed since it was written. Blocks.
  absl::Status SaveHistograms();
  // The page's questions reserve from it; it lives as long as the server.
  MemoryBudget* working() { return working_.get(); }
  // For the page's calls, which end before the drain's second step. To be called once; valid as
  // long as the server.
  page::PageCalls* MakePageCalls();

 private:
  // Whether all calls have ended and all clients have disconnected by `deadline`, or a moment after
  // the last call.
  bool WaitUntilLeft(absl::Time deadline);

  Server(const ServerOptions& options, const ServerBounds& bounds, Clock* clock,
         RpcObserver* rpc_observer, PackObserverFactory* pack_observers, DatasetStore* datasets,
         std::unique_ptr<MemoryBudget> working, std::unique_ptr<EpochCatalog> catalog,
         std::unique_ptr<Loader> loader, SourceGraphStore* source_graphs);

  StreamBounds BoundsOfStreams(const ServerOptions& options);
  AdminView ViewForAdmins();
  std::vector<QuotaReading> ReadQuotas() const;
  // The loaders of all jobs that are here, kept by the results.
  std::vector<std::shared_ptr<const Loader>> Loaders() const;
  void RunInBackground(Loader& loader);

  const ServerBounds bounds_;
  const QuotasOf quotas_of_;  // Null without a policy.
  const Authorizer* const authorizer_;
  Clock* const clock_;
  std::atomic<bool> is_draining_ = false;
  // Plans, epochs and histograms reserve from it, so it outlives them.
  const std::unique_ptr<MemoryBudget> working_;
  Gate gate_;
  HistogramStore histograms_;
  const std::string histograms_folder_;
  absl::Mutex saving_histograms_;
  uint64_t num_saved_changes_ ABSL_GUARDED_BY(saving_histograms_) = 0;
  // Null if the options have a store.
  const std::unique_ptr<FeedbackStore> own_feedback_;
  FeedbackStore* const feedback_;
  // Calls hold from it. It outlives the pools, whose jobs may have calls that are over.
  UnsentBudget unsent_;
  const PeerAddressIdentity identity_;
  FairBound open_calls_;
  OpenCalls call_table_;
  ConnectionCalls connection_calls_;
  WorkerPool stream_pool_;
  WorkerPool call_pool_;
  PlanningPool planning_pool_;
  // Windows of epochs of sub-graphs. Streams wait for them, so its threads have the priority of
  // those that deliver: with the planning pool's, a busy machine would keep streams waiting for
  // minutes.
  WorkerPool window_pool_;
  WorkerPool append_pool_;
  // Where data sets are beyond this machine, those who wait for them must not hold up joins and
  // acknowledgements. Null otherwise.
  const std::unique_ptr<WorkerPool> dataset_pool_;
  const CallContext context_;
  ByteQuota quota_;
  NamespaceBytes namespace_bytes_;
  PackingService packing_;
  HistogramService histogram_service_;
  FeedbackService feedback_service_;
  PlanningService planning_;
  const std::unique_ptr<EpochCatalog> catalog_;
  const std::unique_ptr<Loader> loader_;
  const std::unique_ptr<OwnedJobs> owned_jobs_;  // Null: loader_ has all jobs.
  const std::function<void()> leave_cluster_;
  RecentValue<DeliverySnapshot> recent_delivery_;
  DiskQuota disk_quota_;
  // Null without data sets, or source graphs, or a policy.
  const std::unique_ptr<QuotaDatasetStore> quota_datasets_;
  const std::unique_ptr<QuotaSourceGraphStore> quota_graphs_;
  RecentValue<std::vector<QuotaReading>> recent_quotas_;
  DatasetService dataset_service_;
  const std::unique_ptr<PartitionJobs> partitions_;
  SourceGraphService source_graph_service_;
  PartitioningService partitioning_service_;
  LoaderService loader_service_;
  SamplingService sampling_service_;
  ReceiptService receipt_service_;
  const std::shared_ptr<IdleTimer> idle_timer_;
  AdminService admin_service_;
  ChannelzService channelz_;
  ReflectionService reflection_;
  ReflectionServiceV1Alpha reflection_v1alpha_;
  HealthService health_;
  UnknownMethods unknown_methods_;
  std::string address_;                              // Empty: in-process only.
  std::unique_ptr<ConnectionAcceptor> connections_;  // Null without an address.
  std::unique_ptr<grpc::Server> server_;             // Destroyed before the services.
  std::unique_ptr<InProcessCalls> page_calls_;       // Null: there is no page.
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_RPC_SERVER_H_

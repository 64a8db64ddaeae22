// The gRPC server: services, admission, drain.
#ifndef PACKHOUSE_SERVICE_SERVER_LISTEN_SERVER_H_
#define PACKHOUSE_SERVICE_SERVER_LISTEN_SERVER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"
#include "service/access/client_identity.h"
#include "service/access/fair_bound.h"
#include "service/access/policy.h"
#include "service/base/clock.h"
#include "service/base/memory_budget.h"
#include "service/base/recent_value.h"
#include "service/base/unsent_budget.h"
#include "service/engine/feedback/feedback_store.h"
#include "service/engine/histograms/histogram_store.h"
#include "service/engine/streams/byte_quota.h"
#include "service/engine/streams/live_streams.h"
#include "service/engine/streams/namespace_bytes.h"
#include "service/engine/streams/pack_observer.h"
#include "service/engine/streams/stream_packer.h"
#include "service/server/calls/call_context.h"
#include "service/server/calls/connection_calls.h"
#include "service/server/calls/gate.h"
#include "service/server/calls/idle_timer.h"
#include "service/server/calls/open_calls.h"
#include "service/server/calls/page_calls.h"
#include "service/server/calls/rpc_observer.h"
#include "service/server/calls_grpc/in_process_calls.h"
#include "service/server/lanes/lane_door.h"
#include "service/server/listen/connection_acceptor.h"
#include "service/server/listen/server_drain.h"
#include "service/server/services/quota_use.h"
#include "service/server/services/served_jobs.h"
#include "service/server/services/server_bounds.h"
#include "service/server/services/server_options.h"
#include "service/server/services/server_pools.h"
#include "service/server/services/server_wing.h"
#include "service/server/services/services.h"
#include "service/stores/datasets/dataset_store.h"
#include "service/stores/datasets/mixed_datasets.h"
#include "service/stores/datasets/quota_dataset_store.h"
#include "service/stores/limits/disk_quota.h"

namespace packhouse::rpc {

// Serves from Start() until it is drained (server_drain.h) or destroyed.
class Server {
 public:
  // The pointees must outlive the server. `datasets`, which must be thread-safe, and
  // options.job_logs may be null together: then every call about data sets and epochs is
  // FAILED_PRECONDITION.
  // INVALID_ARGUMENT for options that do not fit together; UNAVAILABLE if the address cannot be
  // listened on; DATA_LOSS if a ledger, or the file of histograms, cannot be read.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options, Clock* clock,
                                                       RpcObserver* rpc_observer,
                                                       PackObserverFactory* pack_observers,
                                                       DatasetStore* datasets);
  // Ends at once.
  ~Server();

  // "host:port" with the port resolved, or "unix:/path".
  const std::string& address() const { return address_; }
  // "unix:/path" of the administrators' socket; empty: there is none.
  const std::string& admin_address() const { return admin_address_; }
  // "unix:/path" where lanes are opened, and what has come of them; empty and null: there are none.
  std::string lane_address() const { return lanes_ == nullptr ? "" : lanes_->address(); }
  const LaneCounts* lane_counts() const { return lanes_ == nullptr ? nullptr : &lanes_->counts(); }
  std::shared_ptr<grpc::Channel> InProcessChannel(const grpc::ChannelArguments& arguments) {
    return server_->InProcessChannel(arguments);
  }

  // As DrainServer(). Blocks.
  void Drain(const DrainOptions& options);
  void Drain(absl::Duration timeout) { Drain(DrainOptions{.timeout = timeout}); }

  // True from the beginning of the drain.
  bool is_draining() const { return is_draining_; }

  // Tells clients that watch its health if it has become ready, or is not any more. To be called
  // now and then.
  void RefreshHealth() { services_->health().Refresh(); }

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

  // ReadQuotas(). Does not wait for long: if it takes long to count, the last known ones.
  std::vector<QuotaReading> recent_quotas() { return recent_quotas_.Get(); }

  // Ends what is left of jobs that other servers have taken, and counts those of all
  // (ServedJobs::Sweep()). To be called now and then, by one thread; does nothing on a server that
  // is alone.
  absl::Status SweepJobs() { return jobs_->Sweep(); }

  // Of the jobs that are here now, and of all that were; nullopt if it is alone.
  struct SharedJobs {
    uint64_t num_owned = 0;
    Jobs::Counts counts;
  };
  std::optional<SharedJobs> shared_jobs() const {
    if (!jobs_->are_shared()) return std::nullopt;
    return SharedJobs{jobs_->jobs()->num_here(), jobs_->jobs()->counts()};
  }

  // Empty without a ledger. Of the jobs that are here, if several servers share the jobs.
  DeliverySnapshot delivery() const {
    if (jobs_->jobs() == nullptr) return DeliverySnapshot();
    DeliverySnapshot snapshot = jobs_->jobs()->Snapshot();
    snapshot.num_shared_batches = jobs_->catalog()->shared_batches().num_taken();
    return snapshot;
  }
  // The same without waiting for long for the loader's locks: if they take too long, the last known
  // snapshot.
  DeliverySnapshot recent_delivery() { return recent_delivery_.Get(); }

  // For the page, which shows them to those who may see them. An epoch is shown as long as somebody
  // loads it.
  const LiveStreams& live_streams() const { return live_streams_; }
  std::vector<EpochWatch> WatchJob(const std::string& job) const {
    const auto here = jobs_->jobs() == nullptr ? nullptr : jobs_->jobs()->Find(job);
    return here == nullptr ? std::vector<EpochWatch>() : here->Watch();
  }
  std::vector<FeedbackReading> feedback() const { return feedback_->Readings(); }
  // Of a source graph that was deleted without a call.
  void ForgetSourceGraph(absl::string_view name) {
    for (const auto& wing : wings_) wing->ForgetSourceGraph(name);
  }
  // EpochCatalog's: what was deleted by other servers, or without a call, is let go.
  void ForgetGone();
  void ForgetIdleThings() {
    if (EpochCatalog* const catalog = jobs_->catalog()) catalog->ForgetIdleThings();
  }
  std::vector<Expired> DeleteUnusedHistograms(const Retention& retention) {
    std::vector<Expired> expired = histograms_->DeleteUnused(retention, clock_->Now());
    num_expired_histograms_ += expired.size();
    return expired;
  }
  uint64_t num_expired_histograms() const { return num_expired_histograms_; }
  // FeedbackStore::DeleteUnused(), if the store notes uses.
  bool models_expire() const { return feedback_->notes_uses(); }
  absl::Status DeleteUnusedModels(std::vector<Expired>& expired) {
    return feedback_->DeleteUnused(expired);
  }
  uint64_t num_expired_models() const { return feedback_->num_expired(); }
  // Writes the file of histograms, if they have changed since it was written. Blocks.
  absl::Status SaveHistograms();
  // The page's questions reserve from it; it lives as long as the server.
  MemoryBudget* working() { return working_.get(); }
  // For the page's calls, which end before the drain's second step. To be called once; valid as
  // long as the server.
  page::PageCalls* MakePageCalls();

 private:
  Server(const ServerOptions& options, const ServerBounds& bounds, Clock* clock,
         RpcObserver* rpc_observer, PackObserverFactory* pack_observers,
         std::unique_ptr<MemoryBudget> working, std::unique_ptr<MixedDatasets> datasets,
         std::unique_ptr<LaneDoor> lanes, std::unique_ptr<ServedJobs> jobs);

  CallContext ContextOfCalls(const ServerOptions& options, RpcObserver* rpc_observer);
  StreamBounds BoundsOfStreams(const ServerOptions& options);
  AdminView ViewForAdmins();
  // Opens the address, if there is one, and begins to serve.
  absl::Status Listen(const ServerOptions& options);
  absl::Status ListenForAdministrators(const ServerOptions& options);

  const ServerBounds bounds_;
  const QuotasOf quotas_of_;  // Null without a policy.
  Clock* const clock_;
  std::atomic<bool> is_draining_ = false;
  // Plans, epochs and histograms reserve from it, so it outlives them.
  const std::unique_ptr<MemoryBudget> working_;
  // Epochs are of these. Null: there are none.
  const std::unique_ptr<MixedDatasets> datasets_;
  // Streams have lanes of it. Null: there are none.
  const std::unique_ptr<LaneDoor> lanes_;
  Gate gate_;
  const std::unique_ptr<HistogramStore> histograms_;
  std::atomic<uint64_t> num_expired_histograms_ = 0;
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
  ServerPools pools_;
  ByteQuota quota_;
  NamespaceBytes namespace_bytes_;
  LiveStreams live_streams_;
  const std::unique_ptr<ServedJobs> jobs_;
  const std::function<void()> leave_cluster_;
  RecentValue<DeliverySnapshot> recent_delivery_;
  DiskQuota disk_quota_;
  // Null without data sets or a policy.
  const std::unique_ptr<QuotaDatasetStore> quota_datasets_;
  // Constant after construction.
  std::vector<std::unique_ptr<ServerWing>> wings_;
  EpochKinds kinds_;
  const NoExampleFormat no_examples_;
  RecentValue<std::vector<QuotaReading>> recent_quotas_;
  const std::shared_ptr<IdleTimer> idle_timer_;
  std::unique_ptr<Services> services_;
  std::string address_;                              // Empty: in-process only.
  std::unique_ptr<ConnectionAcceptor> connections_;  // Null without an address.
  std::unique_ptr<grpc::Server> server_;             // Destroyed before the services.
  // By themselves, so that it shows where a call came in. Null without an address.
  std::string admin_address_;
  std::unique_ptr<ConnectionAcceptor> admin_connections_;
  std::unique_ptr<grpc::Server> admin_server_;
  std::unique_ptr<InProcessCalls> page_calls_;  // Null: there is no page.
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_LISTEN_SERVER_H_

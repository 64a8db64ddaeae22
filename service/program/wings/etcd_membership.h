// Membership by etcd: a lease, and the threads that keep it.
#ifndef PACKHOUSE_SERVICE_PROGRAM_WINGS_ETCD_MEMBERSHIP_H_
#define PACKHOUSE_SERVICE_PROGRAM_WINGS_ETCD_MEMBERSHIP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/base/execution.h"
#include "service/base/limited_log.h"
#include "service/program/membership.h"
#include "service/stores/keys/cluster_life.h"
#include "service/stores/keys/key_value_store.h"
#include "service/stores/keys/replica_lease.h"
#include "service/stores/limits/retention.h"
#include "service/wings/cluster/histograms/shared_histogram_store.h"
#include "service/wings/cluster/jobs/etcd_job_logs.h"
#include "service/wings/cluster/shared/shared_datasets.h"

namespace packhouse {

class EtcdMembership final : public Membership {
 public:
  // options.membership.ledger is etcd://HOST[:PORT],.../PREFIX (etcd_options.h). `shared` says
  // where data sets are. Connects and gets the lease. Errors of ConnectLedger(); UNAVAILABLE if
  // etcd does not answer; FAILED_PRECONDITION if another server that lives has the same address, or
  // other settings of those that must be equal.
  static absl::StatusOr<std::unique_ptr<Membership>> Join(const Options& options,
                                                          const SharedDatasetsOptions& shared,
                                                          const MemberSettings& settings,
                                                          LimitedLog* log);
  ~EtcdMembership() override;

  JobLogs* logs() const override { return logs_.get(); }
  std::unique_ptr<HistogramStore> ShareHistograms(HistogramStore::Bounds bounds,
                                                  MemoryBudget* memory) override;
  absl::Status SweepHistograms(std::vector<Expired>& expired) override {
    return histograms_->SweepUnused(expired);
  }
  uint64_t num_expired_histograms() const override;
  KeyStore* keys() const override { return store_.get(); }
  const std::string& replica() const override { return replica_; }
  absl::StatusOr<std::unique_ptr<SharedStores>> OpenStores(const Options& options,
                                                           Clock& clock) const override;
  void Start(std::function<void()> sweep,
             std::function<void(const absl::Status& why)> is_over) override;
  void Leave() override;
  std::string why_not_ready() const override;
  std::string why_full() const override;
  metrics::ClusterReading Read() const override;

 private:
  explicit EtcdMembership(const SharedDatasetsOptions& shared) : shared_(shared) {}
  absl::Status CheckSettings(const MemberSettings& settings);
  // OK if all servers that are members now have that value of that setting.
  absl::Status AllHave(const std::string& setting, const std::string& value) const;
  // Whether etcd takes what is put into it.
  void Probe();
  // Works at every period until the end.
  std::unique_ptr<Repeating> AtEveryPeriod(std::function<void()> work) const;

  const SharedDatasetsOptions shared_;
  LimitedLog* log_ = nullptr;
  std::string replica_;
  Retention histogram_retention_;
  std::unique_ptr<LivingStore> store_;
  std::unique_ptr<ReplicaLease> lease_;
  std::unique_ptr<EtcdJobLogs> logs_;
  // Of ShareHistograms(); null before.
  SharedHistogramStore* histograms_ = nullptr;

  std::unique_ptr<Repeating> keeper_;
  std::unique_ptr<Repeating> sweeper_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_WINGS_ETCD_MEMBERSHIP_H_

#include "service/wings/cluster/jobs/etcd_job_logs.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/cluster/jobs/etcd_record_log.h"
#include "service/wings/cluster/jobs/job_keys.h"

namespace packhouse {

class EtcdJobLogs::LeasedLog final : public RecordLog {
 public:
  LeasedLog(EtcdJobLogs* logs, std::unique_ptr<EtcdRecordLog> log, std::string job, LeaseId lease)
      : logs_(logs), log_(std::move(log)), job_(std::move(job)), lease_(lease) {}

  absl::Status Append(absl::Span<const std::string> records) override {
    if (!logs_->now_) return log_->Append(records);
    const absl::Time begun = logs_->now_();
    absl::Status status = log_->Append(records);
    logs_->nanoseconds_ += absl::ToInt64Nanoseconds(logs_->now_() - begun);
    ++(status.ok() ? logs_->num_done_ : logs_->num_failed_);
    return status;
  }
  absl::StatusOr<std::vector<std::string>> ReadAll() override { return log_->ReadAll(); }
  absl::Status Replace(absl::Span<const std::string> records) override {
    return log_->Replace(records);
  }
  absl::Status ownership() const override {
    PH_RETURN_IF_ERROR(log_->failure());
    if (logs_->lease_->Lasts(lease_)) return absl::OkStatus();
    return absl::UnavailableError("this server's lease has ended: load again, from any server");
  }
  bool is_lost() const override {
    return !log_->failure().ok() || !logs_->lease_->IsCurrent(lease_);
  }
  absl::Status Release() override { return log_->Release(); }
  absl::Status MoveTo(const std::string& address) override {
    if (address == logs_->address()) return absl::OkStatus();
    PH_ASSIGN_OR_RETURN(const std::vector<ClusterMember> members, logs_->lease_->ReadMembers());
    std::vector<std::string> addresses;
    const ClusterMember* to = nullptr;
    for (const ClusterMember& member : members) {
      addresses.push_back(member.address);
      if (member.address == address && (to == nullptr || to->joined < member.joined)) to = &member;
    }
    // Under its lease: so it is no longer said when that server has gone.
    if (to != nullptr) {
      return log_->Release({Operation::Put(JobKeys(job_).place(), address, to->lease)});
    }
    return absl::NotFoundError(absl::StrCat("address: no server of the cluster has ",
                                            Quoted(address), ", they are ",
                                            absl::StrJoin(addresses, ", ")));
  }
  uint64_t owner_revision() const override { return log_->owner_revision(); }
  absl::Status Erase(uint64_t mark) override { return log_->Erase(mark); }
  absl::StatusOr<uint64_t> mark() const override { return log_->mark(); }

 private:
  EtcdJobLogs* const logs_;
  const std::unique_ptr<EtcdRecordLog> log_;
  const std::string job_;
  const LeaseId lease_;
};

absl::StatusOr<JobPlace> EtcdJobLogs::Open(const std::string& job) {
  const std::optional<LeaseId> lease = lease_->lease();
  if (!lease) {
    return absl::UnavailableError("this server has no lease in its cluster: ask another, or later");
  }
  JobPlace place;
  PH_ASSIGN_OR_RETURN(std::optional<EtcdRecordLog::Owner> owner,
                      EtcdRecordLog::OwnerOf(*store_, job));
  const bool was_here = owner && owner->address == lease_->address();
  if (was_here && owner->lease != *lease) {
    // This server serves there, so the owner is an earlier process, which was killed. Its lease may
    // last for long: whoever leads etcd anew grants it its whole length again.
    PH_RETURN_IF_ERROR(store_->RevokeLease(owner->lease));
    owner = std::nullopt;
  }
  if (owner && owner->lease != *lease) {
    place.owner = {owner->address, owner->revision};
    return place;
  }
  if (!owner && !was_here) {
    // Those of the last turn may still have the owner that has just gone.
    PH_ASSIGN_OR_RETURN(const std::vector<ClusterMember> members, lease_->ReadMembers());
    PH_ASSIGN_OR_RETURN(const std::optional<KeyValue> moved, store_->Get(JobKeys(job).place()));
    const ClusterMember* const best = RendezvousOwner(job, members);
    const std::string address = moved             ? moved->value
                                : best != nullptr ? best->address
                                                  : lease_->address();
    if (address != lease_->address()) {
      place.owner = {address, 0};
      return place;
    }
  }
  auto acquired = EtcdRecordLog::Acquire(
      store_,
      {job, lease_->address(), absl::StrCat(replica_, "-", ++num_attempts_), *lease, max_bytes_});
  if (absl::IsNotFound(acquired.status())) {
    return absl::UnavailableError("this server's lease has ended: ask another, or later");
  }
  PH_RETURN_IF_ERROR(acquired.status());
  if (acquired->log == nullptr) {
    place.owner = {acquired->owner->address, acquired->owner->revision};
  } else {
    place.log = std::make_unique<LeasedLog>(this, std::move(acquired->log), job, *lease);
  }
  return place;
}

std::vector<std::string> EtcdJobLogs::members() const {
  std::vector<std::string> addresses;
  for (const ClusterMember& member : lease_->members()) addresses.push_back(member.address);
  return addresses;
}

EtcdJobLogs::Commits EtcdJobLogs::commits() const {
  return {num_done_, num_failed_, absl::Nanoseconds(nanoseconds_.load())};
}

absl::StatusOr<JobOwner> EtcdJobLogs::OwnerOf(const std::string& job) {
  PH_ASSIGN_OR_RETURN(const std::optional<EtcdRecordLog::Owner> owner,
                      EtcdRecordLog::OwnerOf(*store_, job));
  if (!owner) return absl::NotFoundError(absl::StrCat("job ", Quoted(job), ": no server owns it"));
  return JobOwner{owner->address, owner->revision};
}

}  // namespace packhouse

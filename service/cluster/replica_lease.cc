#include "service/cluster/replica_lease.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/digest.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr absl::string_view kMembers = "member/";

std::string WeightOf(absl::string_view job, absl::string_view address) {
  constexpr size_t kBytes = 16;
  Digest digest;
  digest.Add(job);
  digest.Add(address);
  return digest.Hex(kBytes);
}

}  // namespace

const ClusterMember* RendezvousOwner(absl::string_view job,
                                     const std::vector<ClusterMember>& members) {
  const ClusterMember* best = nullptr;
  std::string most;
  for (const ClusterMember& member : members) {
    std::string weight = WeightOf(job, member.address);
    if (best != nullptr && weight <= most) continue;
    best = &member;
    most = std::move(weight);
  }
  return best;
}

ReplicaLease::ReplicaLease(KeyValueStore* store, const Options& options,
                           std::function<absl::Time()> now)
    : store_(store), options_(options), now_(std::move(now)) {}

absl::Duration ReplicaLease::Period() const {
  return std::min(absl::Seconds(1), options_.length / 4);
}

absl::Status ReplicaLease::Tick() {
  const absl::Status kept = KeepOrGet();
  const absl::Status read = ReadMembers().status();
  return kept.ok() ? read : kept;
}

absl::Status ReplicaLease::KeepOrGet() {
  LeaseId lease = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (has_left_) return absl::OkStatus();
    lease = lease_;
  }
  if (lease == 0) return Get();
  const absl::Time sent = now_();
  const auto length = store_->KeepAlive(lease);
  if (absl::IsNotFound(length.status())) {
    {
      absl::MutexLock lock(&mutex_);
      lease_ = 0;
      until_ = absl::InfinitePast();
    }
    return Get();
  }
  PH_RETURN_IF_ERROR(length.status());
  absl::MutexLock lock(&mutex_);
  if (lease_ == lease) until_ = sent + *length - options_.margin;
  return absl::OkStatus();
}

absl::Status ReplicaLease::Get() {
  const std::string key = absl::StrCat(kMembers, options_.replica);
  PH_ASSIGN_OR_RETURN(const std::optional<KeyValue> before, store_->Get(key));
  const absl::Time sent = now_();
  PH_ASSIGN_OR_RETURN(const StoreLease lease, store_->GrantLease(options_.length));
  Transaction join;
  // The request of an earlier try, whose outcome was unknown, may still come. It must not put the
  // key under an older lease then, with which the key would go.
  join.compares = {Compare::ModRevision(key, before ? before->mod_revision : 0)};
  join.then = {Operation::Put(key, options_.address, lease.id)};
  const auto done = store_->Commit(join);
  absl::Status joined = done.status();
  if (done.ok() && !done->succeeded) {
    joined = absl::UnavailableError(
        absl::StrCat("replica '", options_.replica, "': an earlier request has joined it late"));
  }
  bool has_left = false;
  {
    absl::MutexLock lock(&mutex_);
    has_left = has_left_;
    if (joined.ok() && !has_left) {
      lease_ = lease.id;
      until_ = sent + lease.length - options_.margin;
    }
  }
  if (!joined.ok() || has_left) store_->RevokeLease(lease.id).IgnoreError();
  return joined;
}

absl::StatusOr<std::vector<ClusterMember>> ReplicaLease::ReadMembers() {
  PH_ASSIGN_OR_RETURN(const RangeResult read, store_->Range(KeyRange::Prefix(kMembers)));
  std::vector<ClusterMember> members;
  for (const KeyValue& each : read.values) {
    members.push_back({each.key.substr(kMembers.size()), each.value});
  }
  absl::MutexLock lock(&mutex_);
  members_ = members;
  return members;
}

absl::Status ReplicaLease::Leave() {
  LeaseId lease = 0;
  {
    absl::MutexLock lock(&mutex_);
    has_left_ = true;
    lease = std::exchange(lease_, 0);
    until_ = absl::InfinitePast();
  }
  return lease == 0 ? absl::OkStatus() : store_->RevokeLease(lease);
}

std::optional<LeaseId> ReplicaLease::lease() const {
  absl::MutexLock lock(&mutex_);
  if (lease_ == 0 || now_() >= until_) return std::nullopt;
  return lease_;
}

bool ReplicaLease::Lasts(LeaseId lease) const {
  absl::MutexLock lock(&mutex_);
  return lease != 0 && lease_ == lease && now_() < until_;
}

bool ReplicaLease::IsCurrent(LeaseId lease) const {
  absl::MutexLock lock(&mutex_);
  return lease != 0 && lease_ == lease;
}

std::vector<ClusterMember> ReplicaLease::members() const {
  absl::MutexLock lock(&mutex_);
  return members_;
}

}  // namespace packhouse

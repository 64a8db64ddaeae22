#include "service/stores/keys/replica_lease.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "service/base/digest.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

// Under it, the replicas that are asked whether they live. Each takes its own key away.
constexpr absl::string_view kAsked = "member-asked/";
// Under it, the replica that has an address, under its lease.
constexpr absl::string_view kClaims = "member-address/";

// "HOST:PORT", and a line "NAME VALUE" for each setting.
std::string EncodeMember(const std::string& address,
                         const std::map<std::string, std::string>& settings) {
  std::string value = address;
  for (const auto& [name, setting] : settings) absl::StrAppend(&value, "\n", name, " ", setting);
  return value;
}

ClusterMember DecodeMember(const KeyValue& stored) {
  ClusterMember member;
  member.replica = stored.key.substr(kMembers.size());
  member.lease = stored.lease;
  member.joined = stored.create_revision;
  for (const absl::string_view line : absl::StrSplit(stored.value, '\n')) {
    if (member.address.empty()) {
      member.address = std::string(line);
      continue;
    }
    const std::pair<std::string, std::string> words = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    member.settings.insert(words);
  }
  return member;
}

std::vector<ClusterMember> DecodeMembers(const std::vector<KeyValue>& stored) {
  std::vector<ClusterMember> members;
  for (const KeyValue& each : stored) members.push_back(DecodeMember(each));
  return members;
}

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
  const absl::Status read = LookAround();
  return kept.ok() ? read : kept;
}

std::string ReplicaLease::ClaimKey() const { return absl::StrCat(kClaims, options_.address); }

bool ReplicaLease::IsOfAnother(const std::optional<KeyValue>& claim) const {
  return claim && claim->value != options_.replica;
}

absl::Status ReplicaLease::IsTaken() const {
  return absl::FailedPreconditionError(absl::StrCat("another server has the address ",
                                                    options_.address,
                                                    ", and lives: each server needs its own"));
}

absl::Status ReplicaLease::LookAround() {
  const std::string own = absl::StrCat(kAsked, options_.replica);
  Transaction look;
  look.then = {Operation::Read(KeyRange::Prefix(kMembers)), Operation::Read(KeyRange::Of(own)),
               Operation::Read(KeyRange::Of(ClaimKey()))};
  PH_ASSIGN_OR_RETURN(const TransactionResult read, store_->Commit(look));
  const std::vector<KeyValue>& claims = read.reads[2].values;
  {
    absl::MutexLock lock(&mutex_);
    members_ = DecodeMembers(read.reads[0].values);
    if (has_claimed_ && !claims.empty() && IsOfAnother(claims[0])) is_replaced_ = true;
    // It gives no sign of life: the other one may go on.
    if (is_replaced_) return IsTaken();
  }
  if (read.reads[1].values.empty()) return absl::OkStatus();
  // Somebody asks whether this replica lives.
  return store_->Commit({{}, {Operation::Delete(KeyRange::Of(own))}, {}}).status();
}

absl::Status ReplicaLease::CheckIsAlone(
    const std::function<bool(const std::string& address)>& listens,
    const std::function<void(absl::Duration)>& sleep) {
  // Each further turn is because another replica came first.
  for (;;) {
    PH_ASSIGN_OR_RETURN(const std::optional<KeyValue> claim, store_->Get(ClaimKey()));
    const std::optional<LeaseId> own = lease();
    if (!own) {
      return absl::UnavailableError(
          absl::StrCat("the lease has ended before the address ", options_.address, " was had"));
    }
    if (!claim || IsOfAnother(claim)) {
      if (claim && listens(options_.address)) {
        PH_RETURN_IF_ERROR(CheckIsSilent(claim->value, *own, sleep));
      }
      Transaction take;
      take.compares = {Compare::ModRevision(ClaimKey(), claim ? claim->mod_revision : 0)};
      take.then = {Operation::Put(ClaimKey(), options_.replica, *own)};
      const auto taken = store_->Commit(take);
      if (!taken.ok() && !OutcomeIsUnknown(taken.status())) return taken.status();
      if (!taken.ok() || !taken->succeeded) continue;
    }
    absl::MutexLock lock(&mutex_);
    has_claimed_ = true;
    return absl::OkStatus();
  }
}

absl::Status ReplicaLease::CheckIsSilent(const std::string& other, LeaseId own,
                                         const std::function<void(absl::Duration)>& sleep) {
  const std::string asked = absl::StrCat(kAsked, other);
  // Under the own lease: nothing stays behind.
  PH_RETURN_IF_ERROR(
      store_->Commit({{}, {Operation::Put(asked, options_.replica, own)}, {}}).status());
  for (int period = 0; period < kLongestSilence; ++period) {
    sleep(Period());
    PH_RETURN_IF_ERROR(Tick());
    PH_ASSIGN_OR_RETURN(const std::optional<KeyValue> unanswered, store_->Get(asked));
    if (!unanswered) return IsTaken();
  }
  return store_->Commit({{}, {Operation::Delete(KeyRange::Of(asked))}, {}}).status();
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
  PH_ASSIGN_OR_RETURN(const std::optional<KeyValue> claim, store_->Get(ClaimKey()));
  bool has_claimed = false;
  {
    absl::MutexLock lock(&mutex_);
    has_claimed = has_claimed_;
    // While this replica had no lease, anybody could have the address.
    if (has_claimed && IsOfAnother(claim)) is_replaced_ = true;
    if (is_replaced_) return IsTaken();
  }
  const absl::Time sent = now_();
  PH_ASSIGN_OR_RETURN(const StoreLease lease, store_->GrantLease(options_.length));
  Transaction join;
  // The request of an earlier try, whose outcome was unknown, may still come. It must not put the
  // key under an older lease then, with which the key would go.
  join.compares = {Compare::ModRevision(key, before ? before->mod_revision : 0)};
  join.then = {Operation::Put(key, EncodeMember(options_.address, options_.settings), lease.id)};
  // The address has come back with the lease, unless somebody else was first.
  if (has_claimed) {
    join.compares.push_back(Compare::ModRevision(ClaimKey(), claim ? claim->mod_revision : 0));
    join.then.push_back(Operation::Put(ClaimKey(), options_.replica, lease.id));
  }
  const auto done = store_->Commit(join);
  absl::Status joined = done.status();
  if (done.ok() && !done->succeeded) {
    joined = absl::UnavailableError(
        absl::StrCat("replica '", options_.replica,
                     "': an earlier request has joined it late, or another server "
                     "has its address"));
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
  std::vector<ClusterMember> members = DecodeMembers(read.values);
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

bool ReplicaLease::is_replaced() const {
  absl::MutexLock lock(&mutex_);
  return is_replaced_;
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

#include "service/wings/cluster/check/cluster_repair.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "service/base/status_macros.h"
#include "service/stores/keys/replica_lease.h"
#include "service/wings/cluster/check/key_damages.h"
#include "service/wings/cluster/datasets/object_values.h"
#include "service/wings/cluster/datasets/store_identity.h"
#include "service/wings/cluster/jobs/job_keys.h"

namespace packhouse {
namespace {

// A name that is given up leaves keys that belong to nothing, and these leave totals that are too
// large.
constexpr int kMaxRounds = 5;

class ClusterRepair {
 public:
  ClusterRepair(const CheckedCluster& cluster, const RepairOptions& options, RepairReport& report)
      : cluster_(cluster),
        engines_(cluster_.engines),
        options_(options),
        keys_(engines_, cluster_.keys_name, counts_),
        report_(report) {}

  absl::Status Run() {
    PH_RETURN_IF_ERROR(CheckNobodyServes());
    if (engines_.objects != nullptr) PH_RETURN_IF_ERROR(MendIdentity());
    bool is_sound = false;
    for (int round = 0; !is_sound && round < kMaxRounds; ++round) {
      PH_ASSIGN_OR_RETURN(const KeyDamages::Found found, Find());
      PH_RETURN_IF_ERROR(CheckMayBeGivenUp(found));
      // Jobs last: each raises the mark, which may have to be put right itself.
      for (const bool is_job : {false, true}) {
        for (const auto& [place, damage] : found) {
          if (damage.job.empty() != is_job) PH_RETURN_IF_ERROR(Mend(damage));
        }
      }
      is_sound = found.empty();
    }
    if (!is_sound) {
      return absl::AbortedError(absl::StrCat("after ", kMaxRounds, " repairs, ", cluster_.keys_name,
                                             " is still damaged"));
    }
    std::sort(report_.lost_jobs.begin(), report_.lost_jobs.end());
    return absl::OkStatus();
  }

 private:
  absl::Status CheckNobodyServes() const {
    PH_ASSIGN_OR_RETURN(const std::vector<KeyValue> members, keys_.All(kMembers));
    if (members.empty()) return absl::OkStatus();
    const absl::string_view member = members[0].value;
    return absl::FailedPreconditionError(
        absl::StrCat("the server ", member.substr(0, member.find('\n')), " uses ",
                     cluster_.keys_name, ": stop all servers first"));
  }

  absl::StatusOr<KeyDamages::Found> Find() {
    PH_RETURN_IF_ERROR(keys_.FindStrays());
    PH_RETURN_IF_ERROR(keys_.FindUnreadable());
    if (engines_.objects != nullptr) PH_RETURN_IF_ERROR(keys_.FindUnreadableNames());
    return keys_.Take();
  }

  // Names the first damage, and what all of them cost.
  absl::Status CheckMayBeGivenUp(const KeyDamages::Found& found) const {
    if (options_.accept_missing) return absl::OkStatus();
    const StoredDamage* first = nullptr;
    std::set<std::string> costs;
    for (const auto& [place, damage] : found) {
      if (damage.is_free || !damage.job.empty()) continue;
      if (first == nullptr) first = &damage.damage;
      costs.insert(damage.damage.cost);
    }
    return first == nullptr ? absl::OkStatus() : NotAccepted(*first, absl::StrJoin(costs, ", "));
  }
  static absl::Status NotAccepted(const StoredDamage& damage, absl::string_view cost) {
    return absl::FailedPreconditionError(absl::StrCat(
        damage.file, ", ", damage.place, ": ", damage.what, "; --accept-missing costs ", cost));
  }

  // A number that only one of the two stores has is given to the other one.
  absl::Status MendIdentity() {
    PH_ASSIGN_OR_RETURN(const auto key, keys_.First(KeyRange::Of(kStoreIdentityKey)));
    const auto object =
        ReadObject(*engines_.objects, kStoreIdentityObject, {}, 64, engines_.Deadline());
    if (!object.ok() && !absl::IsNotFound(object.status())) return AsUnavailable(object.status());
    if (!key.empty() && object.ok()) return CheckStoresAreBound(engines_);
    if (key.empty() && !object.ok()) {
      return absl::NotFoundError(
          absl::StrCat("no server has used ", cluster_.objects_name, " with ", cluster_.keys_name));
    }
    StoredDamage damage = {cluster_.keys_name, std::string(kStoreIdentityKey), "is missing",
                           "all, if the two are not of one cluster"};
    if (!object.ok()) {
      damage.file = cluster_.objects_name;
      damage.place = absl::StrCat("object '", kStoreIdentityObject, "'");
    }
    if (!options_.accept_missing) return NotAccepted(damage, damage.cost);
    if (object.ok()) {
      PH_RETURN_IF_ERROR(Commit(damage.place, {{Compare::Absent(kStoreIdentityKey)},
                                               {Operation::Put(kStoreIdentityKey, *object)},
                                               {}}));
    } else {
      PH_RETURN_IF_ERROR(AsUnavailable(
          engines_.objects->Put(kStoreIdentityObject, key[0].value, engines_.Deadline())));
    }
    Done(damage, "it was written anew");
    return absl::OkStatus();
  }

  absl::Status Mend(const KeyDamage& damage) {
    if (damage.job.empty()) {
      PH_RETURN_IF_ERROR(Commit(damage.damage.place, damage.mend));
      Done(damage.damage, damage.is_free ? "it was put right, nothing is lost"
                                         : absl::StrCat("it costs ", damage.damage.cost));
      return absl::OkStatus();
    }
    std::vector<std::string>& lost = report_.lost_jobs;
    // Otherwise it is another record of the same log.
    if (std::find(lost.begin(), lost.end(), damage.job) == lost.end()) {
      PH_RETURN_IF_ERROR(GiveUp(damage.job));
      lost.push_back(damage.job);
    }
    Done(damage.damage, absl::StrCat("it costs ", damage.damage.cost));
    return absl::OkStatus();
  }

  absl::Status GiveUp(const std::string& job) {
    PH_ASSIGN_OR_RETURN(const auto stored, keys_.First(KeyRange::Of(JobKeys::kMark)));
    uint64_t mark = 0;
    // One that is damaged is put right besides, by what is known of all jobs.
    if (!stored.empty() && !absl::SimpleAtoi(stored[0].value, &mark)) mark = 0;
    mark = std::max(mark, keys_.last_generation()) + kLostGenerations;
    return Commit(
        job, {{Compare::Absent(JobKeys(job).owner()),
               Compare::ModRevision(JobKeys::kMark, stored.empty() ? 0 : stored[0].mod_revision)},
              JobGivenUp(job, mark),
              {}});
  }

  absl::Status Commit(absl::string_view place, const Transaction& change) const {
    // What was done after all, and is sent again, is refused: the next repair finds it sound.
    for (int failures = 0;; ++failures) {
      const auto done = engines_.keys->Commit(change);
      if (absl::IsUnavailable(done.status()) && failures < engines_.max_attempts) {
        engines_.BackOff(failures);
        continue;
      }
      PH_RETURN_IF_ERROR(AsUnavailable(done.status()));
      if (done->succeeded) return absl::OkStatus();
      return absl::AbortedError(absl::StrCat(cluster_.keys_name, ", ", place,
                                             ": somebody has changed it meanwhile; repair again"));
    }
  }

  void Done(const StoredDamage& damage, absl::string_view how) {
    report_.is_changed = true;
    report_.done.push_back(
        absl::StrCat(damage.file, ", ", damage.place, ": ", damage.what, "; ", how));
  }

  const CheckedCluster cluster_;
  const ObjectEngines& engines_;
  const RepairOptions options_;
  StoredCounts counts_;
  KeyDamages keys_;
  RepairReport& report_;
};

}  // namespace

absl::Status RepairCluster(const CheckedCluster& cluster, const RepairOptions& options,
                           RepairReport& report) {
  return ClusterRepair(cluster, options, report).Run();
}

}  // namespace packhouse

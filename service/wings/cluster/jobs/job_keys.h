// Where a job's ledger is in the store of a cluster.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_JOBS_JOB_KEYS_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_JOBS_JOB_KEYS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/stores/logs/shared_log.h"

namespace packhouse {

// The keys of one job: job/<name>/owner, job/<name>/place, job/<name>/head, job/<name>/log/<16 hex
// digits>. In the name, '/' is %2F and '%' is %25, so that no job's keys begin like those of
// another.
class JobKeys {
 public:
  // Of all jobs: the largest mark of logs that were erased, in decimal digits.
  static constexpr absl::string_view kMark = "job-mark";

  // All keys of jobs begin with it.
  static constexpr absl::string_view kJobs = "job/";

  explicit JobKeys(absl::string_view job);
  // The job whose keys have this between kJobs and the next '/'.
  static std::string JobIn(absl::string_view part);

  const std::string& owner() const { return owner_; }
  // The address of the server that the job was moved to, under that server's lease.
  const std::string& place() const { return place_; }
  const SharedLogKeys& log() const { return log_; }

 private:
  std::string owner_;
  std::string place_;
  SharedLogKeys log_;
};

// The value of the owner's key: "ADDRESS ATTEMPT". The attempt is another one each time that a
// replica tries to become the owner of anything.
struct OwnerValue {
  std::string address;
  std::string attempt;

  std::string Encode() const;
  // DATA_LOSS for other text.
  static absl::StatusOr<OwnerValue> Decode(absl::string_view text);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_JOBS_JOB_KEYS_H_

// Where a job's ledger is in the store of a cluster, and what its head says.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_JOBS_JOB_KEYS_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_JOBS_JOB_KEYS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/stores/keys/key_value_store.h"

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
  const std::string& head() const { return head_; }
  std::string Entry(uint64_t number) const;
  KeyRange Entries(uint64_t begin, uint64_t end) const { return {Entry(begin), Entry(end)}; }
  KeyRange EntriesFrom(uint64_t begin) const { return {Entry(begin), log_end_}; }
  // The number of an entry's key. DATA_LOSS if it is none.
  absl::StatusOr<uint64_t> NumberOf(absl::string_view key) const;

 private:
  std::string owner_;
  std::string place_;
  std::string head_;
  std::string log_;
  std::string log_end_;
};

// Which entries are the log. Each change writes another head than any before it.
struct LogHead {
  // The create_revision of the owner that wrote it, and how many it had written before.
  Revision owner = 0;
  uint64_t serial = 0;
  // The log is the entries from `begin` to before `end`. Others are left over from changes that
  // did not happen.
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t num_records = 0;
  // Of the entries' values.
  uint64_t num_bytes = 0;

  // "1 OWNER SERIAL BEGIN END RECORDS BYTES" in decimal digits; 1 is the version of the format.
  std::string Encode() const;
  // DATA_LOSS for other text; FAILED_PRECONDITION naming the version if it is another.
  static absl::StatusOr<LogHead> Decode(absl::string_view text);
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

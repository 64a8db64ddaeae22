// The directory of jobs in the store of a cluster.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_JOBS_ETCD_JOB_DIRECTORY_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_JOBS_ETCD_JOB_DIRECTORY_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/stores/keys/key_value_store.h"
#include "service/stores/logs/job_directory.h"

namespace packhouse {

// A key for each job: jobs/<name>, with "1 EPOCHS OLDEST LATEST" in decimal digits; 1 is the
// version of the format. The name is not escaped, so that the order of the keys is that of the
// names.
class EtcdJobDirectory final : public JobDirectory {
 public:
  // `store` must outlive it.
  explicit EtcdJobDirectory(KeyValueStore* store) : store_(store) {}

  static std::string KeyOf(absl::string_view job);

  absl::Status Put(const ListedJob& job) override;
  absl::Status Remove(const std::string& job) override;
  absl::StatusOr<bool> RemoveUnowned(const std::string& job) override;
  // Leaves out what later versions may have written otherwise.
  absl::StatusOr<JobPage> List(const std::string& after, size_t limit) override;
  // A round trip for each 100 jobs.
  absl::StatusOr<std::vector<std::string>> Owners(absl::Span<const std::string> jobs) override;

 private:
  KeyValueStore* const store_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_JOBS_ETCD_JOB_DIRECTORY_H_

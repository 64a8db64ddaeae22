// Which jobs there are, where several servers share the jobs, and how many epochs each has.
#ifndef PACKHOUSE_SERVICE_STORES_LOGS_JOB_DIRECTORY_H_
#define PACKHOUSE_SERVICE_STORES_LOGS_JOB_DIRECTORY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace packhouse {

// What a job's owner has last said of it.
struct ListedJob {
  std::string name;
  uint64_t num_epochs = 0;
  // When the epoch that was not used for longest, and the one used last, were used; seconds since
  // the Unix epoch. 0: not known.
  uint64_t oldest_use = 0;
  uint64_t latest_use = 0;

  friend bool operator==(const ListedJob&, const ListedJob&) = default;
};

struct JobPage {
  std::vector<ListedJob> jobs;
  // To be given to List() for the next page; "": there is none. The page may be short, or empty,
  // and yet have a next one.
  std::string next;
};

// For people, quotas and retention: it is some seconds behind the ledgers. Thread-safe; every call
// waits for the store, and is UNAVAILABLE if that cannot be reached.
class JobDirectory {
 public:
  virtual ~JobDirectory() = default;

  virtual absl::Status Put(const ListedJob& job) = 0;
  // For the job's owner. A job that is not there is no error.
  virtual absl::Status Remove(const std::string& job) = 0;
  // For who had the job. False if a server owns it, which will say what there is of it: nothing is
  // done then.
  virtual absl::StatusOr<bool> RemoveUnowned(const std::string& job) = 0;
  // The first jobs after this name, which need not be one of a job; "": from the first on. By name,
  // at most `limit`, which is positive.
  virtual absl::StatusOr<JobPage> List(const std::string& after, size_t limit) = 0;
  // The address of the server that owns each of these jobs; "": none does now.
  virtual absl::StatusOr<std::vector<std::string>> Owners(absl::Span<const std::string> jobs) = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_LOGS_JOB_DIRECTORY_H_

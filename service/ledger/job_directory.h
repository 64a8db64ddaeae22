// Which jobs there are, where several servers share the jobs, and how many epochs each has.
#ifndef PACKHOUSE_SERVICE_LEDGER_JOB_DIRECTORY_H_
#define PACKHOUSE_SERVICE_LEDGER_JOB_DIRECTORY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

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

// For people, quotas and retention: it is some seconds behind the ledgers. Thread-safe; every call
// waits for the store, and is UNAVAILABLE if that cannot be reached.
class JobDirectory {
 public:
  virtual ~JobDirectory() = default;

  virtual absl::Status Put(const ListedJob& job) = 0;
  virtual absl::Status Remove(const std::string& job) = 0;
  // The first `limit` jobs after the one of this name, which need not exist; "": from the first on.
  // In an order of its own.
  virtual absl::StatusOr<std::vector<ListedJob>> List(const std::string& after, size_t limit) = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_LEDGER_JOB_DIRECTORY_H_

// A durable log of small records: what one job of the engine must remember.
#ifndef PACKHOUSE_SERVICE_STORES_LOGS_RECORD_LOG_H_
#define PACKHOUSE_SERVICE_STORES_LOGS_RECORD_LOG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace packhouse {

// Implementations say which threads may call it.
class RecordLog {
 public:
  virtual ~RecordLog() = default;

  // Appends all of the records, in this order, or with an error none; durable when it returns OK.
  // If the disk fails while they are made durable, the log cannot know whether they are stored.
  // Then it returns an error and refuses all calls until it is opened anew. The log is then read
  // again, with or without the records.
  virtual absl::Status Append(absl::Span<const std::string> records) = 0;

  // All records in the order in which they were appended.
  virtual absl::StatusOr<std::vector<std::string>> ReadAll() = 0;

  // Replaces all records by `records`; with an error everything stays. Must not be called while a
  // record is being appended that is not reflected in `records`.
  virtual absl::Status Replace(absl::Span<const std::string> records) = 0;

  // What follows is for logs that another server may take. By default none does.

  // OK as long as this server surely owns the job, and may send what it has for the job's workers.
  // Otherwise UNAVAILABLE, saying why. Without I/O, and quick. It may become OK again, unless
  // is_lost().
  virtual absl::Status ownership() const { return absl::OkStatus(); }
  // The log will never again take anything.
  virtual bool is_lost() const { return false; }
  // Gives the job back, so that any server may take it; the log is lost then. Nobody uses it
  // meanwhile. If this fails, the job stays this server's until its lease ends.
  virtual absl::Status Release() { return absl::OkStatus(); }
  // As Release(), to the server at `address`: it is the one that should own the job, for as long as
  // it lives. OK and nothing else if that is this server. NOT_FOUND if no server has the address:
  // then the log is not lost.
  virtual absl::Status MoveTo(const std::string& /*address*/) {
    return absl::NotFoundError("address: this server shares its jobs with no other");
  }
  // Larger for each later owner of the job, and each time that it is opened.
  virtual uint64_t owner_revision() const { return 1; }

  // Nothing is left of the job: its log goes, and no log of a job that is begun later has a smaller
  // mark() than this one. Nobody uses the log meanwhile, nor afterwards. A log in memory may stay.
  virtual absl::Status Erase(uint64_t /*mark*/) { return absl::OkStatus(); }
  // The largest mark of logs that were erased; 0: there is none.
  virtual absl::StatusOr<uint64_t> mark() const { return 0; }
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_LOGS_RECORD_LOG_H_

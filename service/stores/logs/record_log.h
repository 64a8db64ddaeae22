// A durable log of small records: what the engine's jobs must remember.
#ifndef PACKHOUSE_SERVICE_STORES_LOGS_RECORD_LOG_H_
#define PACKHOUSE_SERVICE_STORES_LOGS_RECORD_LOG_H_

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
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_LOGS_RECORD_LOG_H_

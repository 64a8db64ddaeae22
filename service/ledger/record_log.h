// A log of small records that lasts: what the delivery room must not forget.
#ifndef PACKHOUSE_SERVICE_LEDGER_RECORD_LOG_H_
#define PACKHOUSE_SERVICE_LEDGER_RECORD_LOG_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace packhouse {

// Implementations say which threads may call.
class RecordLog {
 public:
  virtual ~RecordLog() = default;

  // All of the records, in this order, or with an error none; durable when it returns OK. If it
  // cannot tell whether they are there (the disk fails as they are made durable), it returns an
  // error, and refuses everything until it is opened anew: then the log is read again, and either
  // is fine.
  virtual absl::Status Append(absl::Span<const std::string> records) = 0;

  // All records in the order in which they were appended.
  virtual absl::StatusOr<std::vector<std::string>> ReadAll() = 0;

  // Puts `records` in the place of all there are; with an error everything stays. Must not be
  // called while a record is appended of which `records` does not know.
  virtual absl::Status Replace(absl::Span<const std::string> records) = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_LEDGER_RECORD_LOG_H_

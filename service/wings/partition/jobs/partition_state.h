// What a partition of a server is, in words that can be kept in a file.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_STATE_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_STATE_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/access/client_identity.h"
#include "service/wings/partition/jobs/partition_plan.h"

namespace packhouse {

struct PartitionState {
  PartitionPlan plan;
  // Who asked for it.
  ClientId owner;
  // How work at it ended: OK if it was whole. Empty as long as somebody has to work at it.
  std::optional<absl::Status> end;
};

// A text of checked_lines.h: "plan " and PlanText(); "owner " and the owner with C's escapes; if
// work has ended, "ended ", the number of a code and the message with C's escapes.
std::string StateText(const PartitionState& state);
// DATA_LOSS unless StateText() made the text.
absl::StatusOr<PartitionState> StateOfText(absl::string_view text);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_STATE_H_

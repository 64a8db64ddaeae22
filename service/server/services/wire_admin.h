// Between the messages of AdminService and the domain.
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_WIRE_ADMIN_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_WIRE_ADMIN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "google/protobuf/timestamp.pb.h"
#include "packhouse/v1/admin.pb.h"
#include "service/access/policy.h"
#include "service/base/file_state.h"
#include "service/engine/jobs/job_session.h"
#include "service/server/calls/open_calls.h"

namespace packhouse {

void TimeToWire(absl::Time time, google::protobuf::Timestamp& wire);

// "info". INVALID_ARGUMENT for an unspecified or unknown level.
absl::StatusOr<std::string> LogLevelFromWire(v1::LogLevel level);
v1::LogLevel LogLevelToWire(absl::string_view name);

void FileToWire(const FileState& file, v1::ServerFile& wire);
void QuotaToWire(const QuotaReading& reading, v1::QuotaUse& wire);

// The calls and workers, and who they belong to.
void ClientsToWire(absl::Span<const OpenCallInfo> calls, absl::Span<const SessionSummary> sessions,
                   v1::ListClientsResponse& wire);

// 1 to 63 characters of [A-Za-z0-9_.-], not beginning with a dot. INVALID_ARGUMENT naming it.
absl::Status CheckSnapshotName(absl::string_view name);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_WIRE_ADMIN_H_

// AdminService (proto/packhouse/v1/admin.proto).
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_ADMIN_SERVICE_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_ADMIN_SERVICE_H_

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "packhouse/v1/admin.pb.h"
#include "service/access/policy.h"
#include "service/engine/jobs/job_session.h"
#include "service/engine/jobs/jobs.h"
#include "service/server/calls/call_context.h"
#include "service/server/calls_grpc/early_service.h"
#include "service/server/services/admin_actions.h"

namespace packhouse::rpc {

// What the server knows of itself. Thread-safe functions, none of which is null.
struct AdminView {
  std::function<bool()> is_draining;
  std::function<size_t()> num_connections;
  struct Share {
    std::string name;
    uint64_t held_bytes = 0;
    uint64_t bound_bytes = 0;
  };
  std::function<std::vector<Share>()> memory;
  std::function<std::vector<SessionSummary>()> sessions;
  std::function<std::vector<QuotaReading>()> quotas;
  // Null: this server shares its jobs with no other.
  Jobs* jobs = nullptr;
  // The bytes of the file of named histograms, as they are now (histogram_file.h).
  std::function<absl::Status(absl::FunctionRef<absl::Status(absl::string_view)> append)> histograms;
};

// Thread-safe.
class AdminService final : public EarlyService {
 public:
  // The pointees of the context must outlive the service.
  AdminService(const CallContext& context, AdminActions actions, AdminView view);

 private:
  v1::GetServerResponse ServerNow() const;

  const AdminActions actions_;
  const AdminView view_;
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_ADMIN_SERVICE_H_

#include "service/server/services/job_lists.h"

#include <string>
#include <utility>

#include "service/access/policy.h"
#include "service/base/status_macros.h"
#include "service/server/wire/wire_cursor.h"
#include "service/server/wire/wire_loader.h"

namespace packhouse {
namespace {

constexpr absl::string_view kList = "ListJobs";

// The token is the name of a job.
absl::Status CheckPageToken(const std::string& token) {
  if (token.empty() || CheckJobName(token).ok()) return absl::OkStatus();
  return absl::InvalidArgumentError("page_token: is not one that ListJobs has given");
}

}  // namespace

absl::StatusOr<v1::ListJobsResponse> PageOfJobs(const v1::ListJobsRequest& request,
                                                const CallContext& context, const Jobs& jobs) {
  v1::ListJobsResponse listed;
  PH_ASSIGN_OR_RETURN(std::string after, PageTokenFromClient(context, kList, request.page_token()));
  PH_RETURN_IF_ERROR(CheckPageToken(after));
  const auto may_see = [&](const std::string& job) {
    return context.authorizer == nullptr || context.authorizer->MaySee(context.principal(), job);
  };
  do {
    PH_ASSIGN_OR_RETURN(JobList list, jobs.List(request.page_size(), after, may_see));
    after = std::move(list.next_page_token);
    for (const JobSummary& job : list.jobs) JobToWire(job, *listed.add_jobs());
  } while (listed.jobs().empty() && !after.empty());
  if (!after.empty()) {
    listed.set_next_page_token(
        PageTokenToClient(context, kList, listed.jobs(listed.jobs_size() - 1).job()));
  }
  return listed;
}

}  // namespace packhouse

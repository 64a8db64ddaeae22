#include "service/server/services/job_lists.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

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
                                                const CallContext& context, const Loader& loader) {
  v1::ListJobsResponse listed;
  PH_ASSIGN_OR_RETURN(std::string after, PageTokenFromClient(context, kList, request.page_token()));
  PH_RETURN_IF_ERROR(CheckPageToken(after));
  do {
    const JobList list = loader.ListJobs(request.page_size(), after);
    after = list.next_page_token;
    for (const JobSummary& job : list.jobs) {
      if (context.authorizer != nullptr &&
          !context.authorizer->MaySee(context.principal(), job.name)) {
        continue;
      }
      JobToWire(job, *listed.add_jobs());
    }
  } while (listed.jobs().empty() && !after.empty());
  if (!after.empty()) {
    listed.set_next_page_token(PageTokenToClient(
        context, kList,
        context.authorizer == nullptr ? after : listed.jobs(listed.jobs_size() - 1).job()));
  }
  return listed;
}

absl::StatusOr<v1::ListJobsResponse> PageOfAllJobs(const v1::ListJobsRequest& request,
                                                   const CallContext& context,
                                                   JobDirectory* directory) {
  if (directory == nullptr) {
    return absl::UnimplementedError("there is no list of all jobs: ask for one by its name");
  }
  v1::ListJobsResponse listed;
  PH_ASSIGN_OR_RETURN(std::string after, PageTokenFromClient(context, kList, request.page_token()));
  PH_RETURN_IF_ERROR(CheckPageToken(after));
  const size_t limit =
      std::min<size_t>(request.page_size() == 0 ? 100 : request.page_size(), Loader::kMaxPageSize);
  do {
    PH_ASSIGN_OR_RETURN(JobPage page, directory->List(after, limit));
    after = std::move(page.next);
    std::vector<std::string> names;
    for (const ListedJob& job : page.jobs) {
      if (context.authorizer != nullptr &&
          !context.authorizer->MaySee(context.principal(), job.name)) {
        continue;
      }
      JobSummary summary;
      summary.name = job.name;
      summary.num_epochs = job.num_epochs;
      summary.used_seconds = job.latest_use;
      JobToWire(summary, *listed.add_jobs());
      names.push_back(job.name);
    }
    PH_ASSIGN_OR_RETURN(const std::vector<std::string> owners, directory->Owners(names));
    for (size_t i = 0; i < owners.size(); ++i) {
      listed.mutable_jobs(static_cast<int>(i))->set_owner(owners[i]);
    }
  } while (listed.jobs().empty() && !after.empty());
  if (!after.empty()) {
    listed.set_next_page_token(
        PageTokenToClient(context, kList, listed.jobs(listed.jobs_size() - 1).job()));
  }
  return listed;
}

}  // namespace packhouse

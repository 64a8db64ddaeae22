#include "client/cli/files/plan_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace packhouse::client {

absl::Status WritePlanFile(const std::string& path, const v1::PlanResponse& response) {
  v1::PlanResponse kept;
  *kept.mutable_best() = response.best();
  *kept.mutable_plan() = response.plan();
  // Only the elapsed time differs from run to run.
  kept.mutable_best()->clear_elapsed();
  std::ofstream file(path, std::ios::binary);
  kept.SerializeToOstream(&file);
  file.close();
  if (!file) {
    return absl::UnavailableError(absl::StrCat(path, ": cannot write: ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::PackingPlan> ReadPlanFile(const std::string& path,
                                             const std::vector<std::string>& components) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::NotFoundError(absl::StrCat(path, ": cannot open: ", std::strerror(errno)));
  }
  v1::PlanResponse response;
  if (!response.ParseFromIstream(&file) || !response.has_plan()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is no plan that `packhouse plan --save-plan` wrote"));
  }
  std::vector<std::string> of_plan;
  for (const v1::ComponentEfficiency& component : response.best().components()) {
    of_plan.push_back(component.component());
  }
  if (!of_plan.empty() && of_plan.back() == "graphs") of_plan.pop_back();
  if (of_plan != components) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is a plan of ", absl::StrJoin(of_plan, ", "), ", but the sizes have ",
                     absl::StrJoin(components, ", ")));
  }
  return std::move(*response.mutable_plan());
}

}  // namespace packhouse::client

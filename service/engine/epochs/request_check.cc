#include "service/engine/epochs/request_check.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/cost_order.h"
#include "service/engine/epochs/item_sizes.h"
#include "service/engine/epochs/option_rules.h"
#include "service/engine/epochs/round_plan.h"

namespace packhouse {
namespace {

absl::Status CheckDataset(const EpochRequest& request, const DatasetInfo& info) {
  if (info.state != DatasetState::kSealed) {
    return absl::FailedPreconditionError(absl::StrCat(
        "data set '", info.name, "' is not sealed: epochs are loaded from sealed ones"));
  }
  if (request.grouped && !info.options.grouped) {
    return absl::FailedPreconditionError(
        absl::StrCat("grouped: the graphs of data set '", info.name, "' have no group ids"));
  }
  if (!request.segments && info.num_graphs > ItemSizes::kMaxItems) {
    return absl::FailedPreconditionError(absl::StrCat("data set '", info.name,
                                                      "': ", info.num_graphs,
                                                      " graphs, an epoch takes at "
                                                      "most ",
                                                      ItemSizes::kMaxItems));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckRankGroups(const EpochRequest& request) {
  const size_t rank_groups = request.rank_groups.size();
  if (rank_groups == 0 || rank_groups > RoundPlan::kMaxRankGroups) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank_groups: ", rank_groups, ", must be 1 to ", RoundPlan::kMaxRankGroups));
  }
  for (size_t i = 0; i < rank_groups; ++i) {
    const RankGroupRequest& rank_group = request.rank_groups[i];
    if (rank_group.device.has_value() == !rank_group.shapes.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("rank_groups: number ", i, " must have either shapes or a device profile"));
    }
    const size_t most_shapes = rank_groups > 1 ? 1 : RankGroupRequest::kMaxShapes;
    if (rank_group.shapes.size() > most_shapes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "rank_groups: number ", i, " has ", rank_group.shapes.size(), " shapes, at most ",
          most_shapes, rank_groups > 1 ? " if there are several rank groups" : ""));
    }
    if (rank_groups > 1 && rank_group.num_ranks == 0) {
      return absl::InvalidArgumentError(absl::StrCat("rank_groups: number ", i, " has 0 ranks"));
    }
  }
  return CheckCostOrder(request);
}

absl::Status CheckRequest(const EpochRequest& request, const DatasetInfo& dataset) {
  PH_RETURN_IF_ERROR(CheckTogether(EngineRules(), request));
  PH_RETURN_IF_ERROR(CheckDataset(request, dataset));
  return CheckRankGroups(request);
}

}  // namespace packhouse

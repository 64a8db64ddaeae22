#include "service/engine/epochs/request_check.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/cost_order.h"
#include "service/engine/epochs/item_sizes.h"
#include "service/engine/epochs/mixing.h"
#include "service/engine/epochs/round_plan.h"

namespace packhouse {
namespace {

absl::Status Exclude(bool both, absl::string_view a, absl::string_view b) {
  if (!both) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(a, ": not together with ", b));
}

absl::Status CheckDataset(const EpochRequest& request, const DatasetInfo& info) {
  if (info.state != DatasetState::kSealed) {
    return absl::FailedPreconditionError(absl::StrCat(
        "data set '", info.name, "' is not sealed: epochs are loaded from sealed ones"));
  }
  if (request.grouped && !info.options.grouped) {
    return absl::FailedPreconditionError(
        absl::StrCat("grouped: the graphs of data set '", info.name, "' have no group ids"));
  }
  if (info.num_graphs > ItemSizes::kMaxItems) {
    return absl::FailedPreconditionError(absl::StrCat("data set '", info.name,
                                                      "': ", info.num_graphs,
                                                      " graphs, an epoch takes at "
                                                      "most ",
                                                      ItemSizes::kMaxItems));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckRequest(const EpochRequest& request, const DatasetInfo& dataset) {
  PH_RETURN_IF_ERROR(CheckDataset(request, dataset));
  const size_t rank_groups = request.rank_groups.size();
  if (rank_groups == 0 || rank_groups > RoundPlan::kMaxRankGroups) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank_groups: ", rank_groups, ", must be 1 to ", RoundPlan::kMaxRankGroups));
  }
  bool several_shapes = rank_groups > 1;
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
    several_shapes |= rank_group.shapes.size() > 1 ||
                      (rank_group.device && rank_group.device->max_distinct_shapes > 1);
    PH_RETURN_IF_ERROR(Exclude(request.grouped && rank_group.device.has_value(), "grouped",
                               "a device profile: name the limits"));
  }
  for (const RankGroupRequest& rank_group : request.rank_groups) {
    PH_RETURN_IF_ERROR(Exclude(!request.min_rows.empty() && rank_group.device.has_value(),
                               "min_rows", "a device profile: name the limits"));
  }
  PH_RETURN_IF_ERROR(Exclude(!request.min_rows.empty() && request.grouped, "min_rows", "grouped"));
  if (request.cuts_oversize) {
    constexpr absl::string_view kCut = "OVERSIZE_POLICY_PARTITION";
    PH_RETURN_IF_ERROR(Exclude(request.grouped, kCut, "grouped"));
    PH_RETURN_IF_ERROR(Exclude(request.draw.has_value(), kCut, "draw"));
    PH_RETURN_IF_ERROR(Exclude(!request.min_rows.empty(), kCut, "min_rows"));
    PH_RETURN_IF_ERROR(Exclude(!request.whole_graphs, kCut, "a payload of sizes"));
    PH_RETURN_IF_ERROR(Exclude(several_shapes, kCut, "several shapes"));
    PH_RETURN_IF_ERROR(Exclude(request.rank_groups[0].device.has_value(), kCut,
                               "a device profile: name the limits"));
  }
  PH_RETURN_IF_ERROR(CheckMixing(request));
  PH_RETURN_IF_ERROR(CheckCostOrder(request));
  PH_RETURN_IF_ERROR(Exclude(request.in_order && several_shapes, "in_order", "several shapes"));
  PH_RETURN_IF_ERROR(Exclude(request.grouped && several_shapes, "grouped", "several shapes"));
  PH_RETURN_IF_ERROR(Exclude(request.in_order && request.grouped, "in_order", "grouped"));
  PH_RETURN_IF_ERROR(Exclude(request.in_order && request.draw.has_value(), "in_order", "draw"));
  return Exclude(request.grouped && request.draw.has_value(), "grouped", "draw");
}

}  // namespace packhouse

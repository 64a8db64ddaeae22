#include "service/engine/epochs/planning_room.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/planning/optimizer/planner_bytes.h"
#include "service/algorithms/planning/tuning/limit_tuner.h"
#include "service/base/status_macros.h"

namespace packhouse {

PlanningRoom::PlanningRoom(const Making& making, uint64_t num_distinct, size_t num_components)
    : making_(making),
      num_distinct_(num_distinct),
      num_components_(num_components),
      patterns_([this](uint64_t bytes) {
        refusal_ = Grow("patterns of a plan for", bytes);
        return refusal_.ok();
      }) {}

absl::Status PlanningRoom::Grow(absl::string_view what, uint64_t bytes) {
  if (held_.bytes() != 0) {
    return making_.Grow(absl::StrCat(what, " ", num_distinct_, " sizes"), bytes, held_);
  }
  PH_ASSIGN_OR_RETURN(held_, making_.Hold(absl::StrCat(what, " ", num_distinct_, " sizes"), bytes));
  return absl::OkStatus();
}

absl::Status PlanningRoom::HoldHistogram() {
  return Grow("a histogram of", SizeHistogram::BytesFor(num_distinct_, num_components_));
}

absl::Status PlanningRoom::HoldPlans(size_t planners) {
  const uint64_t parts =
      planners < 2 ? 0 : planners * SizeHistogram::BytesFor(num_distinct_, num_components_);
  return Grow("a plan for", parts + PlannerBytes(num_distinct_, num_components_));
}

absl::Status PlanningRoom::HoldTuning() {
  return Grow("limits for", TunerBytes(num_distinct_, num_components_));
}

absl::StatusOr<MemoryHold> PlanningRoom::Keep(uint64_t bytes) {
  if (held_.bytes() < bytes) PH_RETURN_IF_ERROR(Grow("the plan for", bytes - held_.bytes()));
  held_.ShrinkTo(bytes);
  return std::move(held_);
}

}  // namespace packhouse

#include "service/engine/epochs/option_rules.h"

namespace packhouse {
namespace options {
namespace {

constexpr EpochRule kEngineRules[] = {
    {&kAdaptive, &kNoJob, "epoch.adaptive: needs a job, whose limits move"},
    {&kAdaptive, &kNothingMeasured,
     "epoch.adaptive: needs a rank group whose device_profile says what it is measured_as"},
    {&kDerived, &kSizes, "derived: only for whole graphs"},
    {&kCompactIntegers, &kSizes, "integer_width: only for whole graphs"},
    {&kLookAhead, &kNotInOrder, "look_ahead: only with in_order"},
    {&kShuffledOrder, &kInOrder, "order.shuffled: not together with in_order"},
    {&kCut, &kExport, "epoch.oversize_policy: pieces are not exported"},
    {&kSeveralTracks, &kInOrder,
     "segments.tracks: not together with in_order, which has one segment after the other"},
    {&kSegments, &kGrouped,
     "segments: not together with grouped, since the graphs of a group may lie in several"},
    {&kSeveralTracks, &kCostBalanced,
     "segments.tracks: not together with order.cost_balanced, whose steps are of one segment"},
    {&kGrouped, &kMixture, "grouped: not together with a mixture of data sets"},
    {&kGrouped, &kDevice, "grouped: not together with a device profile: name the limits"},
    {&kMinRows, &kDevice, "min_rows: not together with a device profile: name the limits"},
    {&kMinRows, &kGrouped, "min_rows: not together with grouped"},
    {&kCut, &kGrouped, "OVERSIZE_POLICY_PARTITION: not together with grouped"},
    {&kCut, &kDraw, "OVERSIZE_POLICY_PARTITION: not together with draw"},
    {&kCut, &kMinRows, "OVERSIZE_POLICY_PARTITION: not together with min_rows"},
    {&kCut, &kSizes, "OVERSIZE_POLICY_PARTITION: not together with a payload of sizes"},
    {&kCut, &kSeveralShapes, "OVERSIZE_POLICY_PARTITION: not together with several shapes"},
    {&kCut, &kDevice,
     "OVERSIZE_POLICY_PARTITION: not together with a device profile: name the limits"},
    {&kMixing, &kInOrder, "mixing: not together with in_order, whose order is fixed"},
    {&kCostBalanced, &kInOrder,
     "order.cost_balanced: not together with in_order, whose order is fixed"},
    {&kByScore, &kInOrder, "order.by_score: not together with in_order, whose order is fixed"},
    {&kInOrder, &kSeveralShapes, "in_order: not together with several shapes"},
    {&kGrouped, &kSeveralShapes, "grouped: not together with several shapes"},
    {&kInOrder, &kGrouped, "in_order: not together with grouped"},
    {&kInOrder, &kDraw, "in_order: not together with draw"},
    {&kGrouped, &kDraw, "grouped: not together with draw"},
};

}  // namespace
}  // namespace options

absl::Span<const EpochRule> EngineRules() { return options::kEngineRules; }

absl::Status CheckTogether(absl::Span<const EpochRule> rules, const EpochRequest& request) {
  for (const EpochRule& rule : rules) {
    if (rule.option->is_set(request) && rule.other->is_set(request)) {
      return absl::InvalidArgumentError(rule.refusal);
    }
  }
  return absl::OkStatus();
}

}  // namespace packhouse

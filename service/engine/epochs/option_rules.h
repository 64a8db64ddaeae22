// What of an epoch's options cannot be combined, as a table of rows.
//
// The engine has the rows of its own options here. A kind of epoch that a wing brings has more of
// them (SampledEpoch::Rules(), JoinedEpoch::Rules()). Every kind of epoch consults its rows before
// it reads anything. docs/epoch-options.md shows all of them; a test compares the page with the
// rows, and tries every pair of options.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_OPTION_RULES_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_OPTION_RULES_H_

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/base/mixture_name.h"
#include "service/engine/epochs/epoch_request.h"

namespace packhouse {

// What a request may ask for, or lack.
struct EpochOption {
  // As the page names it.
  absl::string_view name;
  bool (*is_set)(const EpochRequest& request);
};

// No request may have both.
struct EpochRule {
  const EpochOption* option = nullptr;
  const EpochOption* other = nullptr;
  // The message of the error, which is INVALID_ARGUMENT.
  absl::string_view refusal;
};

// Options that rows name. Each begins as the field of EpochSpec does.
namespace options {

inline constexpr EpochOption kMixture = {
    "a mixture of data sets", [](const EpochRequest& r) { return IsMixture(r.dataset); }};
inline constexpr EpochOption kInOrder = {"in_order",
                                         [](const EpochRequest& r) { return r.in_order; }};
inline constexpr EpochOption kNotInOrder = {"no in_order",
                                            [](const EpochRequest& r) { return !r.in_order; }};
inline constexpr EpochOption kLookAhead = {"look_ahead",
                                           [](const EpochRequest& r) { return r.said.look_ahead; }};
inline constexpr EpochOption kGrouped = {"grouped",
                                         [](const EpochRequest& r) { return r.grouped; }};
inline constexpr EpochOption kSubset = {"subset",
                                        [](const EpochRequest& r) { return r.subset.has_value(); }};
inline constexpr EpochOption kDraw = {"draw",
                                      [](const EpochRequest& r) { return r.draw.has_value(); }};
inline constexpr EpochOption kMinRows = {"min_rows",
                                         [](const EpochRequest& r) { return !r.min_rows.empty(); }};
inline constexpr EpochOption kCut = {"OVERSIZE_POLICY_PARTITION",
                                     [](const EpochRequest& r) { return r.cuts_oversize; }};
inline constexpr EpochOption kSizes = {"a payload of sizes",
                                       [](const EpochRequest& r) { return !r.whole_graphs; }};
inline constexpr EpochOption kDerived = {"derived", [](const EpochRequest& r) {
                                           const DerivedTensors& d = r.derived;
                                           return d.row_counts || d.graph_index || d.row_offsets ||
                                                  d.masks;
                                         }};
inline constexpr EpochOption kCompactIntegers = {"compact integers", [](const EpochRequest& r) {
                                                   return r.integer_width == IntegerWidth::kCompact;
                                                 }};
inline constexpr EpochOption kMixing = {
    "mixing", [](const EpochRequest& r) { return r.mixing.most_company.has_value(); }};
inline constexpr EpochOption kShuffledOrder = {
    "order.shuffled", [](const EpochRequest& r) { return r.said.shuffled; }};
inline constexpr EpochOption kCostBalanced = {
    "order.cost_balanced", [](const EpochRequest& r) { return r.cost_balanced.has_value(); }};
inline constexpr EpochOption kByScore = {
    "order.by_score", [](const EpochRequest& r) { return r.by_score.has_value(); }};
inline constexpr EpochOption kSegments = {
    "segments", [](const EpochRequest& r) { return r.segments.has_value(); }};
inline constexpr EpochOption kSeveralTracks = {
    "segments in several tracks",
    [](const EpochRequest& r) { return r.segments && r.segments->tracks > 1; }};
inline constexpr EpochOption kAdaptive = {"adaptive",
                                          [](const EpochRequest& r) { return r.adaptive; }};
inline constexpr EpochOption kNothingMeasured = {
    "no measured_as", [](const EpochRequest& r) {
      return std::none_of(r.rank_groups.begin(), r.rank_groups.end(), [](const auto& group) {
        return group.device && !group.device->measured_as.empty();
      });
    }};
inline constexpr EpochOption kDevice = {
    "a device profile", [](const EpochRequest& r) {
      return std::any_of(r.rank_groups.begin(), r.rank_groups.end(),
                         [](const auto& group) { return group.device.has_value(); });
    }};
// A rank group may have its own.
inline constexpr EpochOption kSeveralShapes = {
    "several shapes", [](const EpochRequest& r) {
      return r.rank_groups.size() > 1 ||
             std::any_of(r.rank_groups.begin(), r.rank_groups.end(), [](const auto& group) {
               return group.shapes.size() > 1 ||
                      (group.device && group.device->max_distinct_shapes > 1);
             });
    }};
inline constexpr EpochOption kNotOneShape = {
    "other than one rank group with one shape of given limits", [](const EpochRequest& r) {
      return r.rank_groups.size() != 1 || r.rank_groups[0].device ||
             r.rank_groups[0].shapes.size() != 1;
    }};
inline constexpr EpochOption kNoJob = {"no job",
                                       [](const EpochRequest& r) { return r.key.job.empty(); }};
inline constexpr EpochOption kExport = {
    "an export", [](const EpochRequest& r) { return r.use == EpochUse::kExport; }};

}  // namespace options

// Constant.
absl::Span<const EpochRule> EngineRules();

// INVALID_ARGUMENT with the refusal of the first row of which the request has both. O(rows).
absl::Status CheckTogether(absl::Span<const EpochRule> rules, const EpochRequest& request);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_OPTION_RULES_H_

// What a job asks for when it loads an epoch.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_EPOCH_REQUEST_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_EPOCH_REQUEST_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "service/algorithms/collation/batch_layout.h"
#include "service/algorithms/collation/min_rows.h"
#include "service/algorithms/collation/tensor_framing.h"
#include "service/algorithms/planning/batch_cost.h"
#include "service/algorithms/planning/device_profile.h"
#include "service/engine/epochs/epoch_identity.h"
#include "service/engine/epochs/item_kind.h"

namespace packhouse {

// The limits of some of the ranks: either shapes, or a device for which shapes are chosen.
struct RankGroupRequest {
  // For a single rank group; if there are several groups, each has one shape.
  static constexpr size_t kMaxShapes = 8;

  // Capacities, `graphs` last, kUnlimited where there is no limit. A larger shape comes
  // before a smaller one.
  std::vector<std::vector<uint64_t>> shapes;
  std::optional<DeviceProfile> device;
  // With one rank group, read only if batches come in steps of like cost.
  uint32_t num_ranks = 1;
  // `device` with what was measured of it, if that was asked for (DeviceProfile::measured_as) and
  // there is a measurement: shapes are chosen for this. It is no part of the request's words, since
  // workers that come later find other measurements, and must get the epoch that there is.
  std::optional<DeviceProfile> measured = std::nullopt;
  // With measured_as: the shapes of the job's epoch before, which stay unless others are better
  // (EpochRequest::adaptive). Empty: there is none.
  std::vector<std::vector<uint64_t>> present = {};
};

// Graphs by their ids: all graphs that have one of the ids.
struct SubsetRequest {
  std::vector<uint64_t> ids;
  // First id and how many.
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  // For a segment, instead of both: the subset of the whole data set, its ids ascending and each
  // once. Those that the segment does not have are of other segments.
  std::shared_ptr<const SubsetRequest> of_whole = nullptr;
};

struct WeightedDraw {
  // One for each graph of the data set or of the subset, in the data set's order. Empty: all are
  // equal.
  std::vector<double> weights;
  // 0: as many as there are to draw from.
  uint64_t num_graphs = 0;
  bool with_replacement = false;
  // For a segment, instead of num_graphs: its share, which may be 0.
  std::optional<uint64_t> of_segment = std::nullopt;
};

// An epoch that is planned in segments (segmented_plan.h).
struct SegmentsRequest {
  static constexpr uint64_t kDefaultGraphs = uint64_t{1} << 20;
  static constexpr uint32_t kMaxTracks = 64;

  // About how many a segment has; at least 1.
  uint64_t graphs = kDefaultGraphs;
  uint32_t tracks = 1;
};

// How fresh the batches of an epoch are (fresh_batches.h). Unset: mixed to kMostCompany, unless the
// batches are in order, or of a kind that is not mixed; and an epoch that was begun without goes on
// without.
struct MixingRequest {
  static constexpr double kMostCompany = 1.1;

  // Graphs meet again about so many times as often as in a shuffle; at least 1.
  std::optional<double> most_company = std::nullopt;
  // As the plan draws them. Not with `most_company`.
  bool is_off = false;
};

// Batches come in steps of like cost (cost_order.h): of each rank group, as many batches share a
// step as it has ranks.
struct CostBalancedRequest {
  // Unset: what the devices of the rank groups cost.
  std::optional<BatchCost> cost = std::nullopt;
  // Without `cost`: by rank group, what its device cost when the epoch was begun; empty if it was
  // not. No part of the request's words, as RankGroupRequest::measured.
  std::vector<BatchCost> begun = {};
  // Of a part of an epoch, by rank group: as many of its batches fill steps that batches before
  // have begun (BeginAt()). Empty for others. No part of the words.
  std::vector<uint32_t> num_first = {};
};

// Batches come by a score of their graphs (score_order.h).
struct ByScoreRequest {
  // A tensor of one number for each graph. Unset: the score is the graph's rows of `component`.
  std::optional<size_t> tensor = std::nullopt;
  size_t component = 0;
  // High scores come first.
  bool descending = false;
  // 0: each batch is a bucket.
  uint32_t num_buckets = 0;
};

// What a request is for. It changes no batch.
enum class EpochUse {
  kJob,  // Or to describe the epoch.
  kEvaluation,
  kExport,
};

// What a client has said although, where it may be said, it changes nothing (option_rules.h).
struct SaidByClient {
  bool look_ahead = false;
  // An order that is shuffled.
  bool shuffled = false;
  // Any rule for what exceeds the limits.
  bool oversize = false;
};

struct EpochRequest {
  std::string dataset;
  EpochKey key;
  uint64_t seed = 0;
  std::vector<RankGroupRequest> rank_groups;
  Padding padding = Padding::kNone;
  DerivedTensors derived;
  IntegerWidth integer_width = IntegerWidth::kDeclared;
  // False: batches carry ids and sizes only.
  bool whole_graphs = true;
  // A graph that exceeds the limits is an error; it is not left out.
  bool oversize_is_error = false;
  // It is cut into pieces (graph_pieces.h); the schema of batches is then that of pieces.
  bool cuts_oversize = false;
  // Not shuffled: packed in the data set's order within the look-ahead.
  bool in_order = false;
  size_t look_ahead = 64;
  bool grouped = false;
  std::optional<SubsetRequest> subset;
  std::optional<WeightedDraw> draw;
  MinRows min_rows;
  // What the items are, if not graphs of the data set. More than one are refused by the rules of
  // the last, which makes the epoch.
  std::vector<std::shared_ptr<const ItemKind>> kinds;
  std::optional<SegmentsRequest> segments;
  // Limits may move from epoch to epoch, by what is measured. Without it `present` shapes stay.
  bool adaptive = false;
  MixingRequest mixing;
  // At most one of both. Unset: all orders of the batches are equally likely.
  std::optional<CostBalancedRequest> cost_balanced;
  std::optional<ByScoreRequest> by_score;
  EpochUse use = EpochUse::kJob;
  SaidByClient said;

  // Null: it is not of this kind. `Kind` has its name in kName.
  template <typename Kind>
  const Kind* Find() const {
    for (const auto& kind : kinds) {
      if (kind->name() == Kind::kName) return static_cast<const Kind*>(kind.get());
    }
    return nullptr;
  }

  // Of each rank group.
  std::vector<uint32_t> NumRanks() const;
  // To how much company the epoch is mixed; nullopt: it is not.
  std::optional<double> MostCompany() const;

  // What decides the batches besides data set, seed, epoch and limits, as a text for people. It is
  // the same for two requests if and only if they mean the same. Subsets and weights are in it as
  // hashes.
  std::string Words() const;
};

// What the request's shapes are chosen by besides its words: measurements, and the shapes before.
// Empty if it names shapes, or devices that are not measured.
std::string MeasuredWords(const EpochRequest& request);

// A server's bounds for batches of epochs.
struct EpochBounds {
  uint64_t max_graphs_per_batch = 65536;
  // Bytes of a batch's tensors.
  uint64_t max_batch_bytes = uint64_t{48} << 20;
  // Steps of the planner; by default as many as the sizes need (OptimizerOptions::StepsFor()).
  // Another number gives other plans, with other receipts.
  std::optional<uint64_t> planner_steps = std::nullopt;
  // The framing of batches; none if null. Must outlive the epochs.
  const TensorFraming* framing = nullptr;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_EPOCH_REQUEST_H_

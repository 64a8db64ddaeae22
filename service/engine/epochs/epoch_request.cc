#include "service/engine/epochs/epoch_request.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/algorithms/pieces/graph_cutting.h"
#include "service/algorithms/planning/limits.h"
#include "service/base/digest.h"
#include "service/engine/epochs/mixing.h"

namespace packhouse {
namespace {

// Bytes of a hash that identifies a subset, weights or a device.
constexpr size_t kHashBytes = 8;

// With the version of the rules by which batches are ordered. Raise it when the same words would
// give another order: another release then refuses such an epoch.
constexpr absl::string_view kInSteps = "in steps of like cost by v1";
constexpr absl::string_view kByScore = "by score by v1";

uint64_t BitsOf(double value) {
  uint64_t bits;
  static_assert(sizeof(bits) == sizeof(value));
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

std::string SubsetWords(const SubsetRequest& subset) {
  std::vector<uint64_t> ids = subset.ids;
  std::sort(ids.begin(), ids.end());
  auto ranges = subset.ranges;
  std::sort(ranges.begin(), ranges.end());
  Digest digest;
  for (const uint64_t id : ids) digest.Add(id);
  digest.Add(uint64_t{ids.size()});
  for (const auto& [first, count] : ranges) {
    digest.Add(first);
    digest.Add(count);
  }
  return absl::StrCat("subset of ", ids.size(), " ids and ", ranges.size(), " ranges (",
                      digest.Hex(kHashBytes), ")");
}

std::string DrawWords(const WeightedDraw& draw) {
  Digest digest;
  for (const double weight : draw.weights) digest.Add(BitsOf(weight));
  return absl::StrCat(
      "sample of ", draw.num_graphs == 0 ? "all" : absl::StrCat(draw.num_graphs),
      draw.with_replacement ? " with" : " without", " replacement",
      draw.weights.empty() ? "" : absl::StrCat(", weights ", digest.Hex(kHashBytes)));
}

std::string DeviceWords(const DeviceProfile& device) {
  Digest digest;
  for (const ComponentProfile& component : device.components) {
    for (const uint64_t number : {component.min_rows, component.max_rows, component.multiple_of,
                                  component.bytes_per_row, BitsOf(component.relative_cost)}) {
      digest.Add(number);
    }
  }
  digest.Add(device.memory_bytes);
  digest.Add(device.fixed_bytes);
  digest.Add(uint64_t{device.max_distinct_shapes});
  // Older requests have neither, and keep their words.
  if (device.fixed_cost != 0) digest.Add(BitsOf(device.fixed_cost));
  if (!device.measured_as.empty()) {
    digest.Add(absl::string_view(device.measured_as));
    return absl::StrCat("for device ", digest.Hex(kHashBytes), " as ", device.measured_as);
  }
  return absl::StrCat("for device ", digest.Hex(kHashBytes));
}

std::string ShapeWords(const std::vector<uint64_t>& capacities) {
  return absl::StrCat(
      "(",
      absl::StrJoin(capacities, ", ",
                    [](std::string* out, uint64_t capacity) {
                      absl::StrAppend(out, capacity == kUnlimited ? "-" : absl::StrCat(capacity));
                    }),
      ")");
}

std::string RankGroupWords(const RankGroupRequest& rank_group) {
  if (rank_group.device) return DeviceWords(*rank_group.device);
  return absl::StrJoin(rank_group.shapes, " ",
                       [](std::string* out, const std::vector<uint64_t>& capacities) {
                         absl::StrAppend(out, ShapeWords(capacities));
                       });
}

std::string DerivedWords(const DerivedTensors& derived) {
  return absl::StrCat(derived.row_counts ? " counts" : "", derived.graph_index ? " graph" : "",
                      derived.row_offsets ? " offsets" : "", derived.masks ? " masks" : "");
}

}  // namespace

std::vector<uint32_t> EpochRequest::NumRanks() const {
  std::vector<uint32_t> num_ranks;
  for (const RankGroupRequest& rank_group : rank_groups) num_ranks.push_back(rank_group.num_ranks);
  return num_ranks;
}

std::optional<double> EpochRequest::MostCompany() const {
  if (mixing.is_off || in_order) return std::nullopt;
  for (const auto& kind : kinds) {
    if (!kind->mixes()) return std::nullopt;
  }
  return mixing.most_company.value_or(MixingRequest::kMostCompany);
}

std::string EpochRequest::Words() const {
  std::vector<std::string> words;
  for (const RankGroupRequest& rank_group : rank_groups)
    words.push_back(RankGroupWords(rank_group));
  words.push_back(in_order ? absl::StrCat("in order within ", look_ahead) : "shuffled");
  if (grouped) words.emplace_back("grouped");
  if (adaptive) words.emplace_back("adaptive");
  if (subset) words.push_back(SubsetWords(*subset));
  if (draw) words.push_back(DrawWords(*draw));
  for (const auto& kind : kinds) words.push_back(kind->Words());
  if (segments) {
    words.push_back(
        absl::StrCat("segments of ", segments->graphs, " graphs in ", segments->tracks, " tracks"));
  }
  if (cuts_oversize) words.push_back(absl::StrCat("oversize graphs cut by ", kCuttingRules));
  if (!min_rows.empty()) {
    words.push_back(absl::StrCat("at least (", absl::StrJoin(min_rows.rows(), ", "), ") rows"));
  }
  words.emplace_back(padding == Padding::kNone     ? "ragged"
                     : padding == Padding::kMasked ? "padded with masks"
                     : padding == Padding::kGraph  ? "padded with a graph"
                                                   : "padded as by TF-GNN");
  words.emplace_back(whole_graphs ? absl::StrCat("whole graphs", DerivedWords(derived)) : "sizes");
  if (integer_width == IntegerWidth::kCompact) words.emplace_back("compact integers");
  if (const auto most_company = MostCompany()) words.push_back(MixingWords(*most_company));
  if (cost_balanced) {
    words.push_back(absl::StrCat(kInSteps, cost_balanced->cost
                                               ? absl::StrCat(": ", cost_balanced->cost->Words())
                                               : " of devices"));
  }
  if (by_score) {
    words.push_back(absl::StrCat(
        kByScore, by_score->tensor ? ": t" : ": c", by_score->tensor.value_or(by_score->component),
        by_score->descending ? " descending" : "",
        by_score->num_buckets == 0 ? "" : absl::StrCat(" in ", by_score->num_buckets, " buckets")));
  }
  return absl::StrJoin(words, "; ");
}

std::string MeasuredWords(const EpochRequest& request) {
  std::string words;
  for (const RankGroupRequest& rank_group : request.rank_groups) {
    if (!rank_group.device || rank_group.device->measured_as.empty()) continue;
    Digest digest;
    digest.Add(uint64_t{rank_group.present.size()});
    for (const std::vector<uint64_t>& shape : rank_group.present) {
      digest.Add(absl::string_view(ShapeWords(shape)));
    }
    if (rank_group.measured) {
      const DeviceProfile& measured = *rank_group.measured;
      digest.Add(absl::string_view(DeviceWords(measured)));
      for (const ComponentProfile& component : measured.components) {
        digest.Add(component.reserved_rows);
        digest.Add(uint64_t{component.fits_packs});
      }
      digest.Add(BitsOf(measured.least_cost));
      if (measured.measured_bytes != nullptr) {
        const MeasuredBytes& bytes = *measured.measured_bytes;
        digest.Add(uint64_t{bytes.fitted.size()});
        for (const MeasuredBytes::Seen& seen : bytes.fitted) {
          digest.Add(absl::string_view(ShapeWords(seen.capacities)));
          digest.Add(seen.bytes);
        }
        for (const auto& shape : bytes.too_large) digest.Add(absl::string_view(ShapeWords(shape)));
        digest.Add(bytes.fixed_bytes);
        digest.Add(bytes.most_bytes);
      }
    }
    absl::StrAppend(&words, " measured ", digest.Hex(16));
  }
  return words;
}

}  // namespace packhouse

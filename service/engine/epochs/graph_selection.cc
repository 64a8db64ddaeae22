#include "service/engine/epochs/graph_selection.h"

#include <algorithm>
#include <limits>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

// Ranges of ids that do not overlap.
class IdRanges {
 public:
  static absl::StatusOr<IdRanges> Create(std::vector<std::pair<uint64_t, uint64_t>> ranges) {
    // Ascending; each range must end before the next begins.
    std::sort(ranges.begin(), ranges.end());
    for (size_t i = 0; i < ranges.size(); ++i) {
      const auto [first, count] = ranges[i];
      if (count == 0 || count - 1 > std::numeric_limits<uint64_t>::max() - first ||
          (i > 0 && ranges[i - 1].first + (ranges[i - 1].second - 1) >= first)) {
        return absl::InvalidArgumentError(
            absl::StrCat("subset: range of ", count, " ids from ", first,
                         " is empty, exceeds 64 bits or overlaps another"));
      }
    }
    return IdRanges(std::move(ranges));
  }

  bool Contains(uint64_t id) const {
    const auto after = std::upper_bound(ranges_.begin(), ranges_.end(),
                                        std::make_pair(id, std::numeric_limits<uint64_t>::max()));
    return after != ranges_.begin() && id - (after - 1)->first < (after - 1)->second;
  }

 private:
  explicit IdRanges(std::vector<std::pair<uint64_t, uint64_t>> ranges)
      : ranges_(std::move(ranges)) {}

  std::vector<std::pair<uint64_t, uint64_t>> ranges_;
};

// The places of a subset's graphs in a segment, ascending.
absl::StatusOr<std::vector<uint32_t>> PositionsInSegment(const SubsetRequest& whole,
                                                         const DatasetReader& reader,
                                                         const Making& making) {
  PH_ASSIGN_OR_RETURN(const MemoryHold searching,
                      making.Hold(absl::StrCat("a subset of ", whole.ranges.size(), " ranges"),
                                  2 * sizeof(uint64_t) * whole.ranges.size()));
  PH_ASSIGN_OR_RETURN(const IdRanges ranges, IdRanges::Create(whole.ranges));
  const absl::Span<const uint64_t> all = reader.graph_ids();
  std::vector<uint32_t> positions;
  positions.reserve(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    PH_RETURN_IF_ERROR(making.StillWantedAt(i));
    if (std::binary_search(whole.ids.begin(), whole.ids.end(), all[i]) || ranges.Contains(all[i])) {
      positions.push_back(static_cast<uint32_t>(i));
    }
  }
  return positions;
}

// The places of a subset's graphs in the data set, ascending.
absl::StatusOr<std::vector<uint32_t>> PositionsOf(const SubsetRequest& subset,
                                                  const DatasetReader& reader,
                                                  const Making& making) {
  if (subset.of_whole != nullptr) return PositionsInSegment(*subset.of_whole, reader, making);
  // Two sets of ids, of which at least an eighth is free, and a copy of the ranges.
  constexpr uint64_t kBytesOfId = 2 * 3 * (sizeof(uint64_t) + 1);
  PH_ASSIGN_OR_RETURN(
      const MemoryHold searching,
      making.Hold(absl::StrCat("a subset of ", subset.ids.size(), " ids and ", subset.ranges.size(),
                               " ranges"),
                  kBytesOfId * subset.ids.size() + 2 * sizeof(uint64_t) * subset.ranges.size()));
  absl::flat_hash_set<uint64_t> ids;
  ids.reserve(subset.ids.size());
  for (size_t i = 0; i < subset.ids.size(); ++i) {
    PH_RETURN_IF_ERROR(making.StillWantedAt(i));
    const uint64_t id = subset.ids[i];
    if (ids.insert(id).second) continue;
    return absl::InvalidArgumentError(absl::StrCat("subset: graph id ", id, " is listed twice"));
  }
  PH_ASSIGN_OR_RETURN(const IdRanges ranges, IdRanges::Create(subset.ranges));
  const absl::Span<const uint64_t> all = reader.graph_ids();
  std::vector<uint32_t> positions;
  positions.reserve(all.size());
  absl::flat_hash_set<uint64_t> found;
  found.reserve(ids.size());
  for (size_t i = 0; i < all.size(); ++i) {
    PH_RETURN_IF_ERROR(making.StillWantedAt(i));
    const bool listed = ids.contains(all[i]);
    if (listed) found.insert(all[i]);
    if (listed || ranges.Contains(all[i])) positions.push_back(static_cast<uint32_t>(i));
  }
  if (found.size() == ids.size()) return positions;
  for (const uint64_t id : subset.ids) {
    if (found.contains(id)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("subset: data set '", reader.info().name, "' has no graph with id ", id));
  }
  return absl::InternalError("subset: an id is neither found nor missing");
}

absl::Status CheckReadable(absl::Span<const DamagedRecord> unreadable,
                           const std::optional<std::vector<uint32_t>>& positions) {
  for (const DamagedRecord& damaged : unreadable) {
    bool needed = true;
    if (positions) {
      const auto first =
          std::lower_bound(positions->begin(), positions->end(), damaged.first_graph);
      needed = first != positions->end() && *first < damaged.first_graph + damaged.num_graphs;
    }
    if (needed) return damaged.status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GraphSelection> GraphSelection::Create(const DatasetReader& reader,
                                                      const std::optional<SubsetRequest>& subset,
                                                      const Making& making) {
  const size_t n = reader.num_graphs();
  GraphSelection selection(n);
  if (subset) {
    PH_ASSIGN_OR_RETURN(selection.memory_, making.Hold(absl::StrCat("a subset of ", n, " graphs"),
                                                       sizeof(uint32_t) * n));
    PH_ASSIGN_OR_RETURN(selection.positions_, PositionsOf(*subset, reader, making));
  }
  PH_RETURN_IF_ERROR(CheckReadable(reader.unreadable(), selection.positions_));
  return selection;
}

absl::StatusOr<std::shared_ptr<const SubsetRequest>> SubsetOfWhole(SubsetRequest subset) {
  std::sort(subset.ids.begin(), subset.ids.end());
  const auto twice = std::adjacent_find(subset.ids.begin(), subset.ids.end());
  if (twice != subset.ids.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("subset: graph id ", *twice, " is listed twice"));
  }
  PH_RETURN_IF_ERROR(IdRanges::Create(subset.ranges).status());
  return std::make_shared<const SubsetRequest>(std::move(subset));
}

}  // namespace packhouse

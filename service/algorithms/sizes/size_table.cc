#include "service/algorithms/sizes/size_table.h"

#include <algorithm>
#include <functional>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/base/checked_arithmetic.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

absl::Status CheckLength(size_t num_graphs, size_t num_components, size_t num_counts) {
  const auto expected = CheckedMultiply(num_graphs, num_components);
  if (!expected || *expected != num_counts) {
    return absl::InvalidArgumentError(absl::StrCat("sizes: ", num_counts, " counts for ",
                                                   num_graphs, " graphs of ", num_components,
                                                   " components"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SizeTable> SizeTable::WithConsecutiveIds(size_t num_graphs, size_t num_components,
                                                        std::vector<uint32_t> counts,
                                                        uint64_t first_id) {
  PH_RETURN_IF_ERROR(CheckLength(num_graphs, num_components, counts.size()));
  if (!CheckedAdd(first_id, num_graphs)) {
    return absl::InvalidArgumentError(
        absl::StrCat("sizes: first_id ", first_id, " + ", num_graphs, " graphs exceeds 2^64 - 1"));
  }
  return SizeTable(num_graphs, num_components, std::move(counts), first_id, {});
}

absl::StatusOr<SizeTable> SizeTable::WithAnyIds(size_t num_graphs, size_t num_components,
                                                std::vector<uint32_t> counts,
                                                std::vector<uint64_t> graph_ids) {
  PH_RETURN_IF_ERROR(CheckLength(num_graphs, num_components, counts.size()));
  if (graph_ids.size() != num_graphs) {
    return absl::InvalidArgumentError(
        absl::StrCat("sizes: ", graph_ids.size(), " graph ids for ", num_graphs, " graphs"));
  }
  return SizeTable(num_graphs, num_components, std::move(counts), 0, std::move(graph_ids));
}

absl::StatusOr<SizeTable> SizeTable::WithIds(size_t num_graphs, size_t num_components,
                                             std::vector<uint32_t> counts,
                                             std::vector<uint64_t> graph_ids) {
  PH_RETURN_IF_ERROR(CheckLength(num_graphs, num_components, counts.size()));
  if (graph_ids.size() != num_graphs) {
    return absl::InvalidArgumentError(
        absl::StrCat("sizes: ", graph_ids.size(), " graph ids for ", num_graphs, " graphs"));
  }
  // Ids usually ascend; then one pass shows that they differ.
  const auto not_ascending =
      std::adjacent_find(graph_ids.begin(), graph_ids.end(), std::greater_equal<uint64_t>());
  if (not_ascending == graph_ids.end()) {
    return SizeTable(num_graphs, num_components, std::move(counts), 0, std::move(graph_ids));
  }
  absl::flat_hash_set<uint64_t> seen;
  seen.reserve(num_graphs);
  for (const uint64_t id : graph_ids) {
    if (!seen.insert(id).second) {
      return absl::InvalidArgumentError(absl::StrCat("sizes: graph id ", id, " occurs twice"));
    }
  }
  return SizeTable(num_graphs, num_components, std::move(counts), 0, std::move(graph_ids));
}

absl::StatusOr<SizesView> SizesView::Create(size_t num_graphs, size_t num_components,
                                            absl::Span<const uint32_t> counts) {
  PH_RETURN_IF_ERROR(CheckLength(num_graphs, num_components, counts.size()));
  return SizesView(num_graphs, num_components, counts);
}

}  // namespace packhouse

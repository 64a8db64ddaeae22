#include "service/source_graphs/source_graph.h"

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"

namespace packhouse {

absl::Status SourceColumn::CheckStoredRow(uint64_t row, bool with_data) const {
  uint64_t begin = row;
  uint64_t end = row + 1;
  if (!offsets.empty()) {
    // A number of a row comes from an array that was checked when it was read.
    if (row + 1 >= offsets.size()) return OutOfPlace(row);
    PH_RETURN_IF_ERROR(checked_offsets.Check(row * sizeof(uint64_t), (row + 2) * sizeof(uint64_t)));
    begin = offsets[row];
    end = offsets[row + 1];
  }
  if (!with_data) return begin <= end ? absl::OkStatus() : OutOfPlace(row);
  if (row_bytes == 0) return absl::OkStatus();
  if (begin > end || end > checked_data.size() / row_bytes) return OutOfPlace(row);
  return checked_data.Check(begin * row_bytes, end * row_bytes);
}

absl::Status SourceGraph::Damaged(absl::string_view why) const {
  return absl::DataLossError(absl::StrCat("the source graph is damaged: ", why));
}

absl::Status SourceColumn::OutOfPlace(uint64_t row) const {
  return checked_data.Damaged(absl::StrCat("row ", row, " lies outside of it"));
}

}  // namespace packhouse

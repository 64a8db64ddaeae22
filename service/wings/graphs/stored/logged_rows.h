// All rows of a log, by their sets, where they lie in the mapped file.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_LOGGED_ROWS_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_LOGGED_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/base/memory_budget.h"
#include "service/wings/graphs/stored/array_file.h"
#include "service/wings/graphs/stored/graph_files.h"
#include "service/wings/graphs/stored/row_records.h"
#include "service/wings/graphs/stored/seal_work.h"

namespace packhouse {

// A row of a list of parts: the number of the part, and of the row in it.
struct RowPlace {
  static constexpr int kRowBits = 25;  // A part has at most 2^24 rows.

  static uint64_t Of(uint64_t part, uint64_t row) { return part << kRowBits | row; }
  static uint64_t PartOf(uint64_t place) { return place >> kRowBits; }
  static uint64_t RowOf(uint64_t place) { return place & ((uint64_t{1} << kRowBits) - 1); }
};

// The bytes of one row. `step_bytes` is not used where there are offsets of bytes.
inline absl::string_view RowBytes(const StoredRows::Array& array, uint64_t step_bytes,
                                  uint64_t row) {
  if (array.offsets == nullptr) return {array.data + row * step_bytes, step_bytes};
  return {array.data + array.offsets[row] * step_bytes,
          (array.offsets[row + 1] - array.offsets[row]) * step_bytes};
}

// Immutable; thread-safe.
class LoggedRows {
 public:
  // Maps the log and checks all its checksums: DATA_LOSS naming the file and the place. Reserves
  // its memory, some 100 bytes a record and array, from `memory` (null: it is not counted).
  static absl::StatusOr<LoggedRows> Open(const std::string& path, const GraphDefinition& definition,
                                         MemoryBudget* memory, SealWork& work);

  // In ascending order of (producer, sequence, place in the log).
  absl::Span<const StoredRows> nodes(size_t set) const { return nodes_[set]; }
  absl::Span<const StoredRows> edges(size_t set) const { return edges_[set]; }
  static uint64_t CountRows(absl::Span<const StoredRows> parts);

 private:
  FileMap map_;
  MemoryHold hold_;
  std::vector<std::vector<StoredRows>> nodes_;
  std::vector<std::vector<StoredRows>> edges_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_LOGGED_ROWS_H_

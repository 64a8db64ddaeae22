// Rows of tables to rows of a set: records of CSV, and tf.Examples.
//
// A table of nodes has the column `id`, one of edges `source` and `target`; each may be called with
// a `#` before it. Ids are texts. Every other column that the set's spec has is read, further ones
// are left out.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_FILES_TABLE_ROWS_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_FILES_TABLE_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/wings/graphs/files/source_rows.h"
#include "service/wings/graphs/source_graphs/source_graph_schema.h"
#include "service/wings/tfgnn/example_fields.h"

namespace packhouse::graph_files {

// What the rows of a table are.
struct RowsSpec {
  bool is_edges = false;
  bool is_swapped = false;
  std::vector<SourceColumnSpec> columns;
};

// The spec of a set of a schema.
RowsSpec RowsSpecOf(const SourceGraphSchema& schema, bool is_edges, size_t set, bool is_swapped);

// Makes `*rows` empty rows of that spec. `set` is kept.
void ClearRows(const RowsSpec& spec, SourceRows* rows);

// Rows from the records of one CSV file. Thread-compatible.
class CsvRows {
 public:
  // INVALID_ARGUMENT naming the column, for one that is missing or is there twice, and for one of
  // the spec that is no scalar: CSV has one value a field.
  static absl::StatusOr<CsvRows> Create(RowsSpec spec, absl::Span<const absl::string_view> header);

  // Appends one record as a row. INVALID_ARGUMENT naming the column and the value, or the number of
  // fields if it is not that of the header; then nothing is appended. O(bytes).
  absl::Status Append(absl::Span<const absl::string_view> fields, SourceRows* rows) const;

 private:
  explicit CsvRows(RowsSpec spec) : spec_(std::move(spec)) {}
  absl::Status AppendColumns(absl::Span<const absl::string_view> fields, SourceRows* rows) const;

  RowsSpec spec_;
  size_t num_fields_ = 0;
  // Places of `id`, or of `source` and `target` as the set has them.
  size_t first_id_ = 0;
  size_t second_id_ = 0;
  // Of each column of the spec.
  std::vector<size_t> places_;
};

// Rows from serialized tf.Examples. Ids are the first string of their list. A ragged column may
// have its length under `NAME.d1` too. Not thread-safe.
class ExampleRows {
 public:
  explicit ExampleRows(RowsSpec spec);

  // Appends one record as a row. INVALID_ARGUMENT naming the feature and the value, for a record
  // that is no tf.Example, a feature that is missing, of another kind, of another number of values,
  // and a number that its dtype does not have; then nothing is appended. O(bytes).
  absl::Status Append(absl::string_view record, SourceRows* rows);

 private:
  absl::Status AppendId(size_t key, size_t other_key, IdRows* ids);
  absl::Status AppendColumn(size_t column, ColumnRows* rows);

  RowsSpec spec_;
  tfgnn::ExampleFields fields_;
  // Of `id` and `#id`, or `source`, `#source`, `target`, `#target`.
  std::vector<size_t> id_keys_;
  std::vector<size_t> column_keys_;
  std::vector<size_t> length_keys_;
};

// Calls `take` with each row as a serialized tf.Example: `#id`, or `#source` and `#target`, then
// its columns as the spec has them. Ids that are numbers become decimals; floats become float32. An
// error of `take` ends it. O(bytes).
absl::Status ForEachExample(const RowsSpec& spec, const SourceRows& rows,
                            absl::FunctionRef<absl::Status(absl::string_view record)> take);

}  // namespace packhouse::graph_files

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_FILES_TABLE_ROWS_H_

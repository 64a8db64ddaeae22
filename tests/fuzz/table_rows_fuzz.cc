// Any bytes as a row of a table: a tf.Example, and after the first byte the fields of a record.
// Whatever comes in: no crash, a row that is refused leaves nothing, and one that is taken is the
// same when it is written and read again.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "service/wings/graphs/files/table_rows.h"

namespace {

namespace files = packhouse::graph_files;
using packhouse::DType;

files::RowsSpec Spec(bool is_edges) {
  files::RowsSpec spec;
  spec.is_edges = is_edges;
  spec.columns = {{"a", DType::kFloat32, {}, false, false},
                  {"b", DType::kInt16, {}, false, false},
                  {"c", DType::kUint8, {}, true, true}};
  if (!is_edges) {
    spec.columns.push_back({"d", DType::kFloat16, {2}, true, false});
    spec.columns.push_back({"e", DType::kBool, {3}, false, false});
  }
  return spec;
}

bool Same(const files::SourceRows& a, const files::SourceRows& b) {
  if (a.count != b.count || a.ids.bytes != b.ids.bytes || a.sources.bytes != b.sources.bytes ||
      a.targets.bytes != b.targets.bytes) {
    return false;
  }
  for (size_t c = 0; c < a.columns.size(); ++c) {
    if (a.columns[c].bytes != b.columns[c].bytes || a.columns[c].lengths != b.columns[c].lengths) {
      return false;
    }
  }
  return true;
}

void Check(const files::RowsSpec& spec, const absl::Status& status, const files::SourceRows& rows) {
  if (!status.ok()) {
    if (rows.count == 0 && rows.bytes() == 0) return;
    std::fprintf(stderr, "a row that was refused is there\n");
    std::abort();
  }
  files::SourceRows again;
  files::ClearRows(spec, &again);
  files::ExampleRows reader(spec);
  const absl::Status read = files::ForEachExample(
      spec, rows, [&](absl::string_view record) { return reader.Append(record, &again); });
  if (read.ok() && Same(rows, again)) return;
  std::fprintf(stderr, "not the same: %s\n", read.ToString().c_str());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const files::RowsSpec spec = Spec((data[0] & 1) != 0);
  files::SourceRows rows;
  files::ClearRows(spec, &rows);
  files::ExampleRows examples(spec);
  Check(spec, examples.Append(bytes, &rows), rows);

  const files::RowsSpec flat = Spec(true);
  files::ClearRows(flat, &rows);
  const std::vector<absl::string_view> header = {"b", "#source", "c", "target", "a"};
  const auto csv = files::CsvRows::Create(flat, header);
  if (!csv.ok()) std::abort();
  const std::vector<absl::string_view> fields = absl::StrSplit(bytes, ',');
  Check(flat, csv->Append(fields, &rows), rows);
  return 0;
}

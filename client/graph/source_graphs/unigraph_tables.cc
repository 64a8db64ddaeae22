#include "client/graph/source_graphs/unigraph_tables.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/graph/files/input_file.h"
#include "client/graph/source_graphs/csv_file.h"
#include "client/graph/tfgnn/tfrecord_files.h"
#include "service/base/status_macros.h"
#include "service/wings/graphs/files/table_rows.h"
#include "service/wings/graphs/files/unigraph.h"

namespace packhouse::client {
namespace {

using graph_files::CsvRows;
using graph_files::ExampleRows;
using graph_files::RowsSpec;
using graph_files::SourceRows;

class CsvTable final : public TableReader {
 public:
  CsvTable(RowsSpec spec, size_t set, std::vector<std::string> paths)
      : spec_(std::move(spec)), set_(set), paths_(std::move(paths)) {}

  absl::StatusOr<bool> Read(size_t max_bytes, SourceRows* rows) override {
    rows->set = set_;
    ClearRows(spec_, rows);
    while (rows->count == 0 || rows->bytes() < max_bytes) {
      if (file_ == nullptr) {
        if (next_ == paths_.size()) break;
        PH_RETURN_IF_ERROR(Open(paths_[next_]));
        ++next_;
      }
      PH_ASSIGN_OR_RETURN(const bool has_record, file_->Next());
      if (!has_record) {
        file_ = nullptr;
        continue;
      }
      const absl::Status status = table_->Append(file_->fields(), rows);
      if (!status.ok()) return file_->InLine(status);
    }
    return rows->count != 0;
  }

 private:
  absl::Status Open(const std::string& path) {
    PH_ASSIGN_OR_RETURN(file_, CsvFile::Open(path));
    PH_ASSIGN_OR_RETURN(const bool has_header, file_->Next());
    if (!has_header) return absl::InvalidArgumentError(absl::StrCat(path, ": has no header"));
    absl::StatusOr<CsvRows> table = CsvRows::Create(spec_, file_->fields());
    if (!table.ok()) return file_->InLine(table.status());
    table_ = *std::move(table);
    return absl::OkStatus();
  }

  const RowsSpec spec_;
  const size_t set_;
  const std::vector<std::string> paths_;
  size_t next_ = 0;
  std::unique_ptr<CsvFile> file_;
  std::optional<CsvRows> table_;
};

class TfrecordTable final : public TableReader {
 public:
  TfrecordTable(RowsSpec spec, size_t set, std::vector<std::string> paths)
      : spec_(spec), set_(set), reader_(std::move(paths)), table_(std::move(spec)) {}

  absl::StatusOr<bool> Read(size_t max_bytes, SourceRows* rows) override {
    rows->set = set_;
    ClearRows(spec_, rows);
    while (rows->count == 0 || rows->bytes() < max_bytes) {
      PH_ASSIGN_OR_RETURN(const std::optional<absl::string_view> record, reader_.Next());
      if (!record) break;
      const absl::Status status = table_.Append(*record, rows);
      if (!status.ok()) {
        return absl::Status(
            status.code(), absl::StrCat(reader_.file(), ": record ", reader_.record_of_file(), ": ",
                                        status.message()));
      }
    }
    return rows->count != 0;
  }

 private:
  const RowsSpec spec_;
  const size_t set_;
  TfrecordReader reader_;
  ExampleRows table_;
};

}  // namespace

absl::StatusOr<SourceTables> OpenUnigraphTables(const std::string& schema_path) {
  PH_ASSIGN_OR_RETURN(const std::string bytes, ReadInputFile(schema_path));
  absl::StatusOr<graph_files::Unigraph> unigraph = graph_files::ParseUnigraph(bytes);
  if (!unigraph.ok()) {
    return absl::Status(unigraph.status().code(),
                        absl::StrCat(schema_path, ": ", unigraph.status().message()));
  }
  const std::filesystem::path folder = std::filesystem::path(schema_path).parent_path();
  std::vector<std::string> all_paths = {schema_path};
  std::vector<OpenTable> tables;
  for (const graph_files::SetTable& table : unigraph->tables) {
    if (absl::StrContains(table.filename, "://")) {
      return absl::InvalidArgumentError(absl::StrCat(schema_path, ": the table '", table.filename,
                                                     "' is in no local file system"));
    }
    PH_ASSIGN_OR_RETURN(const std::vector<std::string> paths,
                        FilesOf((folder / table.filename).string()));
    all_paths.insert(all_paths.end(), paths.begin(), paths.end());
    RowsSpec spec =
        graph_files::RowsSpecOf(unigraph->schema, table.is_edges, table.set, table.is_swapped);
    const bool is_csv = table.format == graph_files::TableFormat::kCsv;
    tables.emplace_back([spec = std::move(spec), set = table.set, paths,
                         is_csv]() -> absl::StatusOr<std::unique_ptr<TableReader>> {
      if (is_csv) return std::make_unique<CsvTable>(spec, set, paths);
      return std::make_unique<TfrecordTable>(spec, set, paths);
    });
  }
  return SourceTables{std::move(unigraph->schema), /*has_text_ids=*/true, std::move(tables),
                      FingerprintOfFiles(all_paths)};
}

}  // namespace packhouse::client

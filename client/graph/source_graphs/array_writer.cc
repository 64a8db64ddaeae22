#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/graph/source_graphs/table_writers.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/graphs/files/npy_header.h"

namespace packhouse::client {
namespace {

using graph_files::SourceRows;

// A .npy file whose number of rows is known at the end.
class NpyFile {
 public:
  NpyFile(std::string path, DType dtype, std::vector<uint32_t> row_shape)
      : path_(std::move(path)),
        dtype_(dtype),
        row_shape_(std::move(row_shape)),
        // Room for any number of rows.
        header_bytes_(HeaderOf(std::numeric_limits<uint64_t>::max(), 0).size()),
        file_(path_, std::ios::binary) {
    file_ << std::string(header_bytes_, ' ');
  }

  void Append(absl::string_view bytes) {
    file_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

  absl::Status Finish(uint64_t rows) {
    file_.seekp(0);
    Append(HeaderOf(rows, header_bytes_));
    file_.close();
    if (file_) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat(path_, ": ", std::strerror(errno)));
  }

 private:
  std::string HeaderOf(uint64_t rows, size_t least_bytes) const {
    std::vector<uint64_t> shape = {rows};
    shape.insert(shape.end(), row_shape_.begin(), row_shape_.end());
    return MakeNpyHeader(dtype_, shape, least_bytes);
  }

  const std::string path_;
  const DType dtype_;
  const std::vector<uint32_t> row_shape_;
  const size_t header_bytes_;
  std::ofstream file_;
};

template <typename T>
absl::string_view BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// The arrays of one set.
class SetWriter {
 public:
  static absl::StatusOr<std::unique_ptr<SetWriter>> Begin(const SourceGraphSchema& schema,
                                                          bool is_edges, size_t set,
                                                          const std::filesystem::path& folder) {
    std::string name;
    if (is_edges) {
      const SourceEdgeSetSpec& spec = schema.edge_sets()[set];
      name = absl::StrCat("edges/", schema.node_sets()[spec.source].name, ".", spec.name, ".",
                          schema.node_sets()[spec.target].name);
    } else {
      name = absl::StrCat("nodes/", schema.node_sets()[set].name);
    }
    const auto path = [of_set = folder / name](const std::string& array) {
      return (of_set / (array + ".npy")).string();
    };
    PH_RETURN_IF_ERROR(MakeFolder((folder / name).string()));
    std::unique_ptr<SetWriter> writer(new SetWriter(std::move(name), is_edges));
    const std::vector<SourceColumnSpec>& columns =
        is_edges ? schema.edge_sets()[set].columns : schema.node_sets()[set].columns;
    for (const SourceColumnSpec& column : columns) {
      if (column.ragged || column.dtype == DType::kBfloat16) {
        return absl::InvalidArgumentError(absl::StrCat(
            writer->name_, ": column ", Quoted(column.name), " is no array of numpy's types"));
      }
      writer->columns_.push_back(
          std::make_unique<NpyFile>(path(column.name), column.dtype, column.row_shape));
    }
    if (is_edges) {
      for (const char* end : {"source", "target"}) {
        writer->ids_.push_back(
            std::make_unique<NpyFile>(path(end), DType::kInt64, std::vector<uint32_t>()));
      }
    } else if (columns.empty()) {
      writer->ids_.push_back(
          std::make_unique<NpyFile>(path("#size"), DType::kInt64, std::vector<uint32_t>()));
    }
    return writer;
  }

  absl::Status Append(const SourceRows& rows) {
    for (size_t c = 0; c < columns_.size(); ++c) columns_[c]->Append(rows.columns[c].bytes);
    if (is_edges_) {
      ids_[0]->Append(BytesOf(rows.sources.numbers));
      ids_[1]->Append(BytesOf(rows.targets.numbers));
    } else {
      for (uint64_t i = 0; i < rows.count; ++i) {
        if (!rows.ids.is_text && rows.ids.numbers[i] == static_cast<int64_t>(count_ + i)) continue;
        return absl::InvalidArgumentError(
            absl::StrCat(name_, ": ids must be the numbers of the rows, from 0"));
      }
    }
    count_ += rows.count;
    return absl::OkStatus();
  }

  absl::Status Finish() {
    for (const std::unique_ptr<NpyFile>& column : columns_) {
      PH_RETURN_IF_ERROR(column->Finish(count_));
    }
    if (!is_edges_ && !ids_.empty()) {
      ids_[0]->Append(BytesOf(std::vector<int64_t>{static_cast<int64_t>(count_)}));
      return ids_[0]->Finish(1);
    }
    for (const std::unique_ptr<NpyFile>& ids : ids_) PH_RETURN_IF_ERROR(ids->Finish(count_));
    return absl::OkStatus();
  }

 private:
  SetWriter(std::string name, bool is_edges) : name_(std::move(name)), is_edges_(is_edges) {}

  const std::string name_;
  const bool is_edges_;
  std::vector<std::unique_ptr<NpyFile>> columns_;
  std::vector<std::unique_ptr<NpyFile>> ids_;
  uint64_t count_ = 0;
};

}  // namespace

absl::StatusOr<WrittenTables> WriteArrays(const SourceTables& tables, const std::string& folder) {
  SourceTablesReader reader(tables);
  SourceRows rows;
  WrittenTables written;
  std::unique_ptr<SetWriter> writer;
  bool is_edges = false;
  size_t set = 0;
  while (true) {
    PH_ASSIGN_OR_RETURN(const bool has_rows, reader.Read(size_t{4} << 20, &rows));
    if (!has_rows || writer == nullptr || rows.is_edges != is_edges || rows.set != set) {
      if (writer != nullptr) PH_RETURN_IF_ERROR(writer->Finish());
      if (!has_rows) return written;
      is_edges = rows.is_edges;
      set = rows.set;
      PH_ASSIGN_OR_RETURN(writer, SetWriter::Begin(tables.schema, is_edges, set, folder));
    }
    PH_RETURN_IF_ERROR(writer->Append(rows));
    (is_edges ? written.num_edges : written.num_nodes) += rows.count;
  }
}

}  // namespace packhouse::client

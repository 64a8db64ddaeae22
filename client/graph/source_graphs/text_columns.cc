#include "client/graph/source_graphs/text_columns.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/graphs/files/field_values.h"
#include "service/wings/partition/files/number_lines.h"

namespace packhouse::client {
namespace {

using graph_files::SourceRows;

bool IsWholeNumber(absl::string_view text) {
  if (absl::StartsWith(text, "-")) text.remove_prefix(1);
  return !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

uint64_t ElementsOf(const SourceColumnSpec& spec) {
  uint64_t elements = 1;
  for (const uint32_t extent : spec.row_shape) elements *= extent;
  return elements;
}

// The records of some files, one after the other.
class TextRows {
 public:
  explicit TextRows(TextFiles files) : files_(std::move(files)) {}

  absl::StatusOr<bool> Next() {
    while (true) {
      if (file_ == nullptr) {
        if (next_ == files_.paths.size()) return false;
        PH_ASSIGN_OR_RETURN(file_, NumberFile::Open(files_.paths[next_], files_.delimiter));
        ++next_;
      }
      PH_ASSIGN_OR_RETURN(const bool has_record, file_->Next());
      if (has_record) return true;
      file_ = nullptr;
    }
  }
  absl::Span<const absl::string_view> fields() const { return file_->fields(); }

  // About the present record.
  absl::Status Bad(const std::string& what) const {
    return file_->InLine(absl::InvalidArgumentError(what));
  }
  absl::Status BadField(size_t field, const absl::string_view what) const {
    return Bad(absl::StrCat("field ", field + 1, ": ", what));
  }
  absl::Status CheckFields(uint64_t wanted) const {
    if (fields().size() == wanted) return absl::OkStatus();
    return Bad(absl::StrCat("has ", fields().size(), " fields, ", wanted, " are needed"));
  }
  std::string name() const { return files_.paths.empty() ? "no files" : files_.paths.back(); }

 private:
  const TextFiles files_;
  size_t next_ = 0;
  std::unique_ptr<NumberFile> file_;
};

// The rows of one column, of either kind.
class ColumnReader {
 public:
  explicit ColumnReader(RowColumn column)
      : spec_(std::move(column.spec)), elements_(ElementsOf(spec_)), has_gaps_(column.has_gaps) {
    if (column.arrays.empty()) {
      texts_.emplace(std::move(column.texts));
    } else {
      arrays_.emplace(std::move(column.arrays));
    }
  }

  // Each of `rows` rows `copies` times; of arrays once, since OGB's inverse edges have texts.
  absl::Status Append(uint64_t rows, size_t copies, graph_files::ColumnRows* out) {
    if (arrays_) return arrays_->Append(rows * elements_, &out->bytes);
    for (uint64_t row = 0; row < rows; ++row) {
      PH_ASSIGN_OR_RETURN(const bool has_record, texts_->Next());
      if (!has_record) {
        return absl::InvalidArgumentError(absl::StrCat(
            texts_->name(), ": column ", Quoted(spec_.name), " has fewer rows than its set"));
      }
      PH_RETURN_IF_ERROR(texts_->CheckFields(elements_));
      const size_t begin = out->bytes.size();
      for (size_t i = 0; i < elements_; ++i) {
        absl::string_view field = texts_->fields()[i];
        if (has_gaps_ && field.empty()) field = "nan";
        const absl::Status status = graph_files::AppendElement(field, spec_.dtype, &out->bytes);
        if (!status.ok()) return texts_->BadField(i, status.message());
      }
      const std::string element = out->bytes.substr(begin);
      for (size_t copy = 1; copy < copies; ++copy) out->bytes += element;
    }
    return absl::OkStatus();
  }

  absl::Status CheckEnd() {
    if (arrays_) return absl::OkStatus();
    PH_ASSIGN_OR_RETURN(const bool has_record, texts_->Next());
    if (!has_record) return absl::OkStatus();
    return texts_->Bad(absl::StrCat("column ", Quoted(spec_.name), " has more rows than its set"));
  }

  uint64_t row_bytes() const { return elements_ * ElementBytes(spec_.dtype); }

 private:
  const SourceColumnSpec spec_;
  const uint64_t elements_;
  const bool has_gaps_;
  std::optional<TextRows> texts_;
  std::optional<NpyStream> arrays_;
};

class ColumnReaders {
 public:
  explicit ColumnReaders(const std::vector<RowColumn>& columns) {
    for (const RowColumn& column : columns) readers_.emplace_back(column);
  }
  absl::Status Append(uint64_t rows, size_t copies, SourceRows* out) {
    out->columns.resize(readers_.size());
    for (size_t c = 0; c < readers_.size(); ++c) {
      PH_RETURN_IF_ERROR(readers_[c].Append(rows, copies, &out->columns[c]));
    }
    return absl::OkStatus();
  }
  absl::Status CheckEnd() {
    for (ColumnReader& reader : readers_) PH_RETURN_IF_ERROR(reader.CheckEnd());
    return absl::OkStatus();
  }
  uint64_t row_bytes() const {
    uint64_t bytes = 0;
    for (const ColumnReader& reader : readers_) bytes += reader.row_bytes();
    return bytes;
  }

 private:
  std::vector<ColumnReader> readers_;
};

class NumberedNodes final : public TableReader {
 public:
  NumberedNodes(size_t set, uint64_t num_nodes, const std::vector<RowColumn>& columns)
      : set_(set), num_nodes_(num_nodes), columns_(columns) {}

  absl::StatusOr<bool> Read(size_t max_bytes, SourceRows* rows) override {
    *rows = {};
    rows->set = set_;
    const uint64_t row_bytes = sizeof(int64_t) + columns_.row_bytes();
    rows->count = std::min(num_nodes_ - next_, std::max<uint64_t>(1, max_bytes / row_bytes));
    if (rows->count == 0) {
      PH_RETURN_IF_ERROR(columns_.CheckEnd());
      return false;
    }
    for (uint64_t i = 0; i < rows->count; ++i) {
      rows->ids.numbers.push_back(static_cast<int64_t>(next_++));
    }
    PH_RETURN_IF_ERROR(columns_.Append(rows->count, /*copies=*/1, rows));
    return true;
  }

 private:
  const size_t set_;
  const uint64_t num_nodes_;
  ColumnReaders columns_;
  uint64_t next_ = 0;
};

class EdgeLines final : public TableReader {
 public:
  explicit EdgeLines(const PairedEdges& edges)
      : edges_(edges), lines_(edges.files), columns_(edges.columns) {}

  absl::StatusOr<bool> Read(size_t max_bytes, SourceRows* rows) override {
    *rows = {};
    rows->is_edges = true;
    rows->set = edges_.set;
    const size_t copies = edges_.has_inverses ? 2 : 1;
    const uint64_t row_bytes = copies * (2 * sizeof(int64_t) + columns_.row_bytes());
    const uint64_t most = std::max<uint64_t>(1, max_bytes / row_bytes);
    while (rows->count < most) {
      PH_ASSIGN_OR_RETURN(const bool has_record, lines_.Next());
      if (!has_record) break;
      PH_RETURN_IF_ERROR(lines_.CheckFields(2));
      PH_RETURN_IF_ERROR(AppendEnd(0, edges_.num_sources, &rows->sources));
      PH_RETURN_IF_ERROR(AppendEnd(1, edges_.num_targets, &rows->targets));
      if (edges_.has_inverses) {
        rows->sources.numbers.push_back(rows->targets.numbers.back());
        rows->targets.numbers.push_back(rows->sources.numbers.end()[-2]);
      }
      ++rows->count;
    }
    next_ += rows->count;
    const bool is_end = rows->count < most;
    if (next_ > edges_.num_edges || (is_end && next_ < edges_.num_edges)) {
      return absl::InvalidArgumentError(absl::StrCat(lines_.name(), ": there are ",
                                                     is_end ? "" : "at least ", next_, " edges, ",
                                                     edges_.num_edges, " were said to be"));
    }
    PH_RETURN_IF_ERROR(columns_.Append(rows->count, copies, rows));
    if (is_end) PH_RETURN_IF_ERROR(columns_.CheckEnd());
    rows->count *= copies;
    return rows->count != 0;
  }

 private:
  absl::Status AppendEnd(size_t field, uint64_t num_nodes, graph_files::IdRows* ids) const {
    const absl::StatusOr<uint64_t> node =
        NodeOfField(lines_.fields()[field], field == 0 ? "source" : "target", num_nodes);
    if (!node.ok()) return lines_.BadField(field, node.status().message());
    ids->numbers.push_back(static_cast<int64_t>(*node));
    return absl::OkStatus();
  }

  const PairedEdges edges_;
  TextRows lines_;
  ColumnReaders columns_;
  uint64_t next_ = 0;
};

class EdgePairs final : public TableReader {
 public:
  explicit EdgePairs(const PairedEdges& edges)
      : edges_(edges), pairs_(edges.arrays), columns_(edges.columns) {}

  absl::StatusOr<bool> Read(size_t max_bytes, SourceRows* rows) override {
    *rows = {};
    rows->is_edges = true;
    rows->set = edges_.set;
    const uint64_t row_bytes = 2 * sizeof(int64_t) + columns_.row_bytes();
    rows->count = std::min(edges_.num_edges - next_, std::max<uint64_t>(1, max_bytes / row_bytes));
    if (rows->count == 0) {
      PH_RETURN_IF_ERROR(columns_.CheckEnd());
      return false;
    }
    std::vector<int64_t> ends;
    PH_RETURN_IF_ERROR(pairs_.AppendNumbers(2 * rows->count, &ends));
    for (uint64_t i = 0; i < rows->count; ++i, ++next_) {
      PH_RETURN_IF_ERROR(AppendEnd("source", ends[2 * i], edges_.num_sources, &rows->sources));
      PH_RETURN_IF_ERROR(AppendEnd("target", ends[2 * i + 1], edges_.num_targets, &rows->targets));
    }
    PH_RETURN_IF_ERROR(columns_.Append(rows->count, /*copies=*/1, rows));
    return true;
  }

 private:
  // Of edge next_.
  absl::Status AppendEnd(const char* end, int64_t id, uint64_t num_nodes,
                         graph_files::IdRows* ids) const {
    if (id >= 0 && static_cast<uint64_t>(id) < num_nodes) {
      ids->numbers.push_back(id);
      return absl::OkStatus();
    }
    uint64_t row = next_;
    size_t file = 0;
    while (row >= edges_.arrays[file].rows()) row -= edges_.arrays[file++].rows();
    return absl::InvalidArgumentError(absl::StrCat(edges_.arrays[file].place, ": row ", row, ": ",
                                                   end, " ", id, " is none of the ", num_nodes,
                                                   " nodes"));
  }

  const PairedEdges edges_;
  NpyStream pairs_;
  ColumnReaders columns_;
  uint64_t next_ = 0;
};

}  // namespace

absl::StatusOr<TextKind> KindOfTexts(const TextFiles& files) {
  TextRows rows(files);
  TextKind kind;
  bool is_bool = true;
  while (kind.is_whole || is_bool) {
    PH_ASSIGN_OR_RETURN(const bool has_record, rows.Next());
    if (!has_record) {
      kind.is_bool = is_bool && kind.fields > 0;
      break;
    }
    if (kind.fields == 0) kind.fields = rows.fields().size();
    for (const absl::string_view field : rows.fields()) {
      kind.is_whole = kind.is_whole && IsWholeNumber(field);
      is_bool = is_bool &&
                (absl::EqualsIgnoreCase(field, "true") || absl::EqualsIgnoreCase(field, "false"));
    }
  }
  return kind;
}

OpenTable ReadNumberedNodes(size_t set, uint64_t num_nodes, std::vector<RowColumn> columns) {
  return [set, num_nodes,
          columns = std::move(columns)]() -> absl::StatusOr<std::unique_ptr<TableReader>> {
    return std::make_unique<NumberedNodes>(set, num_nodes, columns);
  };
}

OpenTable ReadPairedEdges(PairedEdges edges) {
  return [edges = std::move(edges)]() -> absl::StatusOr<std::unique_ptr<TableReader>> {
    if (!edges.arrays.empty()) return std::make_unique<EdgePairs>(edges);
    return std::make_unique<EdgeLines>(edges);
  };
}

}  // namespace packhouse::client

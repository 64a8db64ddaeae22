#include "client/graph/source_graphs/array_readers.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"

namespace packhouse::client {
namespace {

using graph_files::SourceRows;

// The rows of all columns; they must be as many.
class ColumnStreams {
 public:
  explicit ColumnStreams(std::vector<ArrayColumn> columns) : columns_(std::move(columns)) {
    for (const ArrayColumn& column : columns_) streams_.emplace_back(column.arrays);
  }

  absl::Status Append(uint64_t rows, SourceRows* out) {
    out->columns.resize(columns_.size());
    for (size_t c = 0; c < columns_.size(); ++c) {
      PH_RETURN_IF_ERROR(
          streams_[c].Append(rows * columns_[c].row_elements, &out->columns[c].bytes));
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<ArrayColumn> columns_;
  std::vector<NpyStream> streams_;
};

// How many of `left` rows of `row_bytes` make about `max_bytes`.
uint64_t RowsOf(size_t max_bytes, uint64_t row_bytes, uint64_t left) {
  constexpr uint64_t kMostRows = uint64_t{1} << 24;
  return std::min({left, kMostRows, std::max<uint64_t>(1, max_bytes / row_bytes)});
}

class NodeArrays final : public TableReader {
 public:
  NodeArrays(size_t set, uint64_t num_nodes, std::vector<NpyArray> ids,
             std::vector<ArrayColumn> columns)
      : set_(set),
        num_nodes_(num_nodes),
        row_bytes_(sizeof(int64_t) + RowBytes(columns)),
        columns_(std::move(columns)) {
    if (!ids.empty()) ids_.emplace(std::move(ids));
  }

  absl::StatusOr<bool> Read(size_t max_bytes, SourceRows* rows) override {
    *rows = {};
    rows->set = set_;
    rows->count = RowsOf(max_bytes, row_bytes_, num_nodes_ - next_);
    if (rows->count == 0) return false;
    if (ids_) {
      PH_RETURN_IF_ERROR(ids_->AppendNumbers(rows->count, &rows->ids.numbers));
    } else {
      for (uint64_t i = 0; i < rows->count; ++i) {
        rows->ids.numbers.push_back(static_cast<int64_t>(next_ + i));
      }
    }
    PH_RETURN_IF_ERROR(columns_.Append(rows->count, rows));
    next_ += rows->count;
    return true;
  }

 private:
  const size_t set_;
  const uint64_t num_nodes_;
  const uint64_t row_bytes_;
  std::optional<NpyStream> ids_;
  ColumnStreams columns_;
  uint64_t next_ = 0;
};

class EdgeArrays final : public TableReader {
 public:
  EdgeArrays(size_t set, uint64_t num_edges, EdgeEnds sources, EdgeEnds targets,
             std::vector<ArrayColumn> columns)
      : set_(set),
        num_edges_(num_edges),
        row_bytes_(2 * sizeof(int64_t) + RowBytes(columns)),
        is_one_array_(sources.ids.header.shape.size() == 2),
        source_ends_(std::move(sources)),
        target_ends_(std::move(targets)),
        sources_({source_ends_.ids}),
        targets_({target_ends_.ids}),
        columns_(std::move(columns)) {}

  absl::StatusOr<bool> Read(size_t max_bytes, SourceRows* rows) override {
    *rows = {};
    rows->is_edges = true;
    rows->set = set_;
    rows->count = RowsOf(max_bytes, row_bytes_, num_edges_ - next_);
    if (rows->count == 0) return false;
    if (next_ == 0 && is_one_array_) PH_RETURN_IF_ERROR(targets_.Skip(num_edges_));
    PH_RETURN_IF_ERROR(sources_.AppendNumbers(rows->count, &rows->sources.numbers));
    PH_RETURN_IF_ERROR(targets_.AppendNumbers(rows->count, &rows->targets.numbers));
    PH_RETURN_IF_ERROR(CheckEnds("source", source_ends_, rows->sources.numbers));
    PH_RETURN_IF_ERROR(CheckEnds("target", target_ends_, rows->targets.numbers));
    PH_RETURN_IF_ERROR(columns_.Append(rows->count, rows));
    next_ += rows->count;
    return true;
  }

 private:
  // Of the edges from next_ on.
  absl::Status CheckEnds(const char* end, const EdgeEnds& ends,
                         const std::vector<int64_t>& ids) const {
    if (!ends.num_nodes) return absl::OkStatus();
    // Negative ones are large.
    const auto wrong = std::find_if(ids.begin(), ids.end(), [&](int64_t id) {
      return static_cast<uint64_t>(id) >= *ends.num_nodes;
    });
    if (wrong == ids.end()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        ends.ids.place, ": edge ", next_ + static_cast<uint64_t>(wrong - ids.begin()), ": ", end,
        " ", *wrong, " is none of the ", *ends.num_nodes, " nodes of ", Quoted(ends.node_set),
        ", whose ids count from 0 unless an array '#id' says them"));
  }

  const size_t set_;
  const uint64_t num_edges_;
  const uint64_t row_bytes_;
  const bool is_one_array_;
  const EdgeEnds source_ends_;
  const EdgeEnds target_ends_;
  NpyStream sources_;
  NpyStream targets_;
  ColumnStreams columns_;
  uint64_t next_ = 0;
};

}  // namespace

uint64_t RowBytes(const std::vector<ArrayColumn>& columns) {
  uint64_t bytes = 0;
  for (const ArrayColumn& column : columns) {
    bytes += column.row_elements * ElementBytes(column.arrays[0].header.dtype);
  }
  return bytes;
}

std::unique_ptr<TableReader> ReadNodeArrays(size_t set, uint64_t num_nodes,
                                            std::vector<NpyArray> ids,
                                            std::vector<ArrayColumn> columns) {
  return std::make_unique<NodeArrays>(set, num_nodes, std::move(ids), std::move(columns));
}

std::unique_ptr<TableReader> ReadEdgeArrays(size_t set, uint64_t num_edges, EdgeEnds sources,
                                            EdgeEnds targets, std::vector<ArrayColumn> columns) {
  return std::make_unique<EdgeArrays>(set, num_edges, std::move(sources), std::move(targets),
                                      std::move(columns));
}

}  // namespace packhouse::client

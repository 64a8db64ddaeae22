#include "service/wings/graphs/sampling/sampled_chunk.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/wings/graphs/sampling/tensor_source.h"

namespace packhouse {
namespace {

// How many rows ahead memory is asked for.
constexpr size_t kRowsAheadInColumn = 8;
constexpr uint64_t kCacheLine = 64;
constexpr uint64_t kMostPrefetched = 1024;

// As SourceColumn::CheckRows(), quick where rows have one length: most blocks are known.
template <typename Numbers>
absl::Status CheckRowsOf(const SourceColumn& column, const Numbers& numbers) {
  const CheckedArray& data = column.checked_data;
  if (!column.offsets.empty() || !data.has_checks() || column.row_bytes == 0) {
    return column.CheckRows(numbers);
  }
  const uint64_t bytes = column.row_bytes;
  const uint64_t num_rows = data.size() / bytes;
  for (const uint64_t row : numbers) {
    if (row >= num_rows) return column.CheckRow(row);
    PH_RETURN_IF_ERROR(data.Check(row * bytes, (row + 1) * bytes));
  }
  return absl::OkStatus();
}

template <uint64_t kBytes, typename Numbers>
void CopySmallRows(const char* from, const Numbers& numbers, char* to) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (i + kRowsAheadInColumn < numbers.size()) {
      __builtin_prefetch(from + numbers[i + kRowsAheadInColumn] * kBytes);
    }
    std::memcpy(to + i * kBytes, from + numbers[i] * kBytes, kBytes);
  }
}

template <typename Numbers>
void CopyRows(const SourceColumn& column, const Numbers& numbers, char* to) {
  const uint64_t bytes = column.row_bytes;
  if (bytes == 4) return CopySmallRows<4>(column.data, numbers, to);
  if (bytes == 8) return CopySmallRows<8>(column.data, numbers, to);
  const uint64_t prefetched = std::min(bytes, kMostPrefetched);
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (i + kRowsAheadInColumn < numbers.size()) {
      const char* const ahead = column.data + numbers[i + kRowsAheadInColumn] * bytes;
      for (uint64_t at = 0; at < prefetched; at += kCacheLine) __builtin_prefetch(ahead + at);
    }
    std::memcpy(to + i * bytes, column.data + numbers[i] * bytes, bytes);
  }
}

template <typename Numbers>
void WriteLengths(const SourceColumn& column, const Numbers& numbers, char* to) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    const uint64_t row = numbers[i];
    const auto length = static_cast<int32_t>(column.offsets[row + 1] - column.offsets[row]);
    std::memcpy(to + i * sizeof(length), &length, sizeof(length));
  }
}

template <typename Numbers>
void CopySteps(const SourceColumn& column, const Numbers& numbers, char* to) {
  for (const uint64_t row : numbers) {
    const uint64_t bytes = (column.offsets[row + 1] - column.offsets[row]) * column.row_bytes;
    if (bytes == 0) continue;
    std::memcpy(to, column.data + column.offsets[row] * column.row_bytes, bytes);
    to += bytes;
  }
}

template <typename Numbers>
void WriteNumbers(const Numbers& numbers, char* to) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto number = static_cast<int64_t>(numbers[i]);
    std::memcpy(to + i * sizeof(number), &number, sizeof(number));
  }
}

template <typename Numbers>
void WriteImportedRows(const ImportedRows& rows, const Numbers& numbers, char* to) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto row = static_cast<int64_t>(rows.row(numbers[i]));
    std::memcpy(to + i * sizeof(row), &row, sizeof(row));
  }
}

}  // namespace

char* SampledChunk::Column::Extend(uint64_t bytes) {
  if (capacity_ - size_ < bytes) Reserve(std::max(bytes, capacity_));
  char* const begin = bytes_.get() + size_;
  size_ += bytes;
  return begin;
}

void SampledChunk::Column::Reserve(uint64_t bytes) {
  if (capacity_ - size_ >= bytes) return;
  auto grown = std::make_unique_for_overwrite<char[]>(size_ + bytes);
  if (size_ > 0) std::memcpy(grown.get(), bytes_.get(), size_);
  bytes_ = std::move(grown);
  capacity_ = size_ + bytes;
}

SampledChunk::SampledChunk(const SampledSchema* schema)
    : schema_(schema),
      columns_(std::make_shared<std::vector<Column>>(schema->schema().tensors().size())) {}

void SampledChunk::Reserve(absl::Span<const uint64_t> counts) {
  const GraphSchema& schema = schema_->schema();
  for (size_t t = 0; t < columns_->size(); ++t) {
    (*columns_)[t].Reserve(counts[schema.tensors()[t].component] * schema.row_bytes(t));
  }
}

void SampledChunk::Write(const SampledGraph& sampled, const TensorSource& source, uint64_t bytes,
                         char* to) {
  switch (source.kind) {
    case TensorSource::Kind::kRows:
      VisitNumbers(sampled, source.rows,
                   [&](const auto& numbers) { CopyRows(source.column, numbers, to); });
      return;
    case TensorSource::Kind::kLengths:
      VisitNumbers(sampled, source.rows,
                   [&](const auto& numbers) { WriteLengths(source.column, numbers, to); });
      return;
    case TensorSource::Kind::kSteps:
      VisitNumbers(sampled, source.rows,
                   [&](const auto& numbers) { CopySteps(source.column, numbers, to); });
      return;
    case TensorSource::Kind::kNumbers:
      VisitNumbers(sampled, source.rows, [&](const auto& numbers) { WriteNumbers(numbers, to); });
      return;
    case TensorSource::Kind::kImportedRows:
      VisitNumbers(sampled, source.rows, [&](const auto& numbers) {
        WriteImportedRows(ImportedRows(source.column), numbers, to);
      });
      return;
    case TensorSource::Kind::kInner: {
      const SampledNodes& nodes = sampled.node_sets[source.rows.position];
      const size_t inner = std::min<size_t>(nodes.num_inner, nodes.numbers.size());
      std::memset(to, 1, inner);
      std::memset(to + inner, 0, nodes.numbers.size() - inner);
      return;
    }
    case TensorSource::Kind::kSources:
    case TensorSource::Kind::kTargets: {
      const bool sources = source.kind == TensorSource::Kind::kSources;
      if (source.rows.kind == RowsOf::Kind::kEdges) {
        const SampledEdges& edges = sampled.edge_sets[source.rows.position];
        std::memcpy(to, sources ? edges.sources.data() : edges.targets.data(), bytes);
        return;
      }
      // Of `_readout`: from the seeds to its rows.
      const size_t rows = bytes / sizeof(int32_t);
      const size_t per_row = rows == 0 ? 1 : sampled.seeds.size() / rows;
      for (size_t row = 0; row < rows; ++row) {
        const uint32_t end = sources ? sampled.seeds[row * per_row + source.rows.position]
                                     : static_cast<uint32_t>(row);
        std::memcpy(to + row * sizeof(end), &end, sizeof(end));
      }
      return;
    }
    case TensorSource::Kind::kReadout:
      return;  // Append() has copied it.
  }
}

absl::Status SampledChunk::Append(const SampledGraph& sampled, ReadoutRows readout) {
  const SampledTensors& tensors = *schema_->tensors_;
  if (readout.size() != tensors.num_readout_columns) {
    return absl::InvalidArgumentError(absl::StrCat("rows of ", readout.size(),
                                                   " columns of `_readout`, but it has ",
                                                   tensors.num_readout_columns));
  }
  PH_RETURN_IF_ERROR(schema_->CheckEdgeNumbers(sampled));
  PH_RETURN_IF_ERROR(schema_->Sizes(sampled, tuple_));
  const GraphSchema& schema = schema_->schema();
  for (size_t t = 0; t < tensors.sources.size(); ++t) {
    const TensorSource& source = tensors.sources[t];
    if (source.kind != TensorSource::Kind::kReadout) continue;
    const uint64_t bytes = tuple_[schema.tensors()[t].component] * source.row_bytes;
    if (readout[source.readout_column].size() == bytes) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the rows of '", schema.tensors()[t].name, "' have ", readout[source.readout_column].size(),
        " bytes, but ", bytes, " are needed for ", tuple_[schema.tensors()[t].component], " rows"));
  }
  for (const TensorSource& source : tensors.sources) {
    const bool reads_rows = source.kind == TensorSource::Kind::kRows ||
                            source.kind == TensorSource::Kind::kImportedRows;
    if (!reads_rows && source.kind != TensorSource::Kind::kSteps) continue;
    absl::Status sound;
    VisitNumbers(sampled, source.rows,
                 [&](const auto& numbers) { sound = CheckRowsOf(source.column, numbers); });
    PH_RETURN_IF_ERROR(sound);
  }
  for (size_t t = 0; t < tensors.sources.size(); ++t) {
    const TensorSource& source = tensors.sources[t];
    const uint64_t bytes = tuple_[schema.tensors()[t].component] * source.row_bytes;
    if (bytes == 0) continue;
    char* const to = (*columns_)[t].Extend(bytes);
    if (source.kind == TensorSource::Kind::kReadout) {
      std::memcpy(to, readout[source.readout_column].data(), bytes);
    }
    Write(sampled, source, bytes, to);
    num_bytes_ += bytes;
  }
  counts_.insert(counts_.end(), tuple_.begin(), tuple_.end());
  ++num_graphs_;
  return absl::OkStatus();
}

absl::StatusOr<GraphChunk> SampledChunk::Finish(uint64_t first_id) {
  PH_ASSIGN_OR_RETURN(SizeTable sizes,
                      SizeTable::WithConsecutiveIds(num_graphs_, schema_->schema().num_components(),
                                                    std::exchange(counts_, {}), first_id));
  auto columns = std::exchange(
      columns_, std::make_shared<std::vector<Column>>(schema_->schema().tensors().size()));
  num_graphs_ = 0;
  num_bytes_ = 0;
  std::vector<absl::string_view> views;
  for (const Column& column : *columns) views.push_back(column.view());
  return GraphChunk::CreateTrusted(&schema_->schema(), std::move(sizes), std::move(views),
                                   std::move(columns));
}

}  // namespace packhouse

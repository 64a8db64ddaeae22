#include "client/bench/npz_graphs.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "client/cpp/little_endian.h"
#include "client/cpp/schema_layout.h"
#include "client/graph/files/fingerprint.h"
#include "client/graph/files/npz_numbers.h"

namespace packhouse::client {
namespace {

// Rows that are read at once when a whole array is read.
constexpr uint64_t kRowsPerPiece = uint64_t{1} << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<GraphSource>> NpzGraphs::Open(const std::string& path,
                                                             const std::string& groups) {
  absl::StatusOr<std::unique_ptr<NpzArchive>> archive = NpzArchive::Open(path);
  if (!archive.ok()) return archive.status();
  if (absl::Status status = (*archive)->CheckArrays(); !status.ok()) return status;

  std::unique_ptr<NpzGraphs> graphs(new NpzGraphs(*std::move(archive)));
  absl::StatusOr<NpzLayout> layout = ReadNpzLayout(*graphs->archive_, groups);
  if (!layout.ok()) return layout.status();
  graphs->layout_ = *std::move(layout);
  absl::Status status;
  if (!groups.empty()) {
    if (status = graphs->ReadGroups(groups); !status.ok()) return status;
  }
  if (status = graphs->CheckIndices(); !status.ok()) return status;
  if (status = graphs->Rewind(); !status.ok()) return status;
  return graphs;
}

absl::Status NpzGraphs::ReadGroups(const std::string& name) {
  const NpzArray* const array = archive_->Find(name);
  if (array == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(archive_->path(), ": has no array '", name, "' for --groups"));
  }
  absl::StatusOr<std::vector<uint64_t>> ids = ReadWholeNumbers(*archive_, *array);
  if (!ids.ok()) return ids.status();
  if (ids->size() != num_graphs()) {
    return absl::InvalidArgumentError(absl::StrCat(archive_->Place(*array), ": has ", ids->size(),
                                                   " group ids for ", num_graphs(), " graphs"));
  }
  groups_ = Groups{.name = name, .ids = *std::move(ids)};
  return absl::OkStatus();
}

uint64_t NpzGraphs::GraphBytes(uint64_t graph) const {
  uint64_t bytes =
      layout_.offsets.size() * sizeof(uint32_t) + (groups_.has_value() ? sizeof(uint64_t) : 0);
  for (const NpzColumn& column : layout_.columns) {
    bytes += (layout_.FirstRow(column.component, graph + 1) -
              layout_.FirstRow(column.component, graph)) *
             column.row_bytes;
  }
  return bytes;
}

std::string NpzGraphs::fingerprint() const {
  // The archive's checksums stand for the arrays' elements.
  Fingerprint fingerprint;
  for (const NpzArray& array : archive_->arrays()) {
    fingerprint.Add(array.name);
    fingerprint.Add(array.header.data_bytes);
    fingerprint.Add(array.crc);
  }
  fingerprint.Add(groups_.has_value() ? groups_->name : "");
  return fingerprint.Hex();
}

absl::Status NpzGraphs::Rewind() {
  streams_.clear();
  for (const NpzColumn& column : layout_.columns) {
    absl::StatusOr<NpzStream> stream = archive_->OpenStream(*column.array);
    if (!stream.ok()) return stream.status();
    absl::Status status =
        stream->Skip(column.first_element * ElementBytes(column.array->header.dtype));
    if (!status.ok()) return status;
    streams_.push_back(*std::move(stream));
  }
  next_ = 0;
  return absl::OkStatus();
}

absl::Status NpzGraphs::CheckIndices() {
  if (absl::Status status = Rewind(); !status.ok()) return status;
  for (std::size_t i = 0; i < layout_.columns.size(); ++i) {
    const NpzColumn& column = layout_.columns[i];
    if (!column.index_into.has_value()) continue;
    const std::vector<uint64_t>& offsets = layout_.offsets[column.component];
    uint64_t begin = 0;
    while (begin < num_graphs()) {
      uint64_t end = begin + 1;
      while (end < num_graphs() && offsets[end] - offsets[begin] < kRowsPerPiece) ++end;
      std::string ignored;
      absl::Status status = AppendIndices(begin, end, i, ignored);
      if (!status.ok()) return status;
      begin = end;
    }
  }
  return absl::OkStatus();
}

absl::Status NpzGraphs::AppendIndices(uint64_t begin, uint64_t end, std::size_t i,
                                      std::string& data) {
  const NpzColumn& column = layout_.columns[i];
  const std::vector<uint64_t>& edge_offsets = layout_.offsets[column.component];
  const std::vector<uint64_t>& row_offsets = layout_.offsets[*column.index_into];
  const uint64_t first_edge = edge_offsets[begin];
  const uint64_t edges = edge_offsets[end] - first_edge;
  const DType dtype = column.array->header.dtype;
  std::string bytes;
  absl::Status status = streams_[i].Append(edges * ElementBytes(dtype), bytes);
  if (!status.ok()) return status;
  std::vector<int32_t> indices;
  indices.reserve(edges);
  uint64_t graph = begin;
  ForEachWholeNumber(dtype, bytes, [&](auto value) {
    while (first_edge + indices.size() >= edge_offsets[graph + 1]) ++graph;
    const uint64_t rows = row_offsets[graph + 1] - row_offsets[graph];
    // A negative one becomes huge.
    if (static_cast<uint64_t>(value) >= rows ||
        static_cast<uint64_t>(value) > uint64_t{std::numeric_limits<int32_t>::max()}) {
      status = absl::OutOfRangeError(
          absl::StrCat(archive_->Place(*column.array), ": edge ",
                       first_edge + indices.size() - edge_offsets[graph], " of graph ", graph,
                       " has the end ", value, ", the graph has ", rows, " ",
                       layout_.schema.components(static_cast<int>(*column.index_into))));
      return false;
    }
    indices.push_back(static_cast<int32_t>(value));
    return true;
  });
  AppendLittleEndian(absl::MakeConstSpan(indices), data);
  return status;
}

absl::Status NpzGraphs::AppendRows(uint64_t begin, uint64_t end, std::size_t i, std::string& data) {
  const NpzColumn& column = layout_.columns[i];
  if (column.index_into.has_value()) return AppendIndices(begin, end, i, data);
  const uint64_t rows =
      layout_.FirstRow(column.component, end) - layout_.FirstRow(column.component, begin);
  return streams_[i].Append(rows * column.row_bytes, data);
}

absl::StatusOr<SourceChunk> NpzGraphs::Next(uint64_t count) {
  const uint64_t end = next_ + count;
  SourceChunk chunk;
  v1::SizeTable& table = *chunk.graphs.mutable_sizes();
  table.set_num_graphs(count);
  table.set_first_id(next_);
  std::vector<uint32_t> counts;
  counts.reserve(layout_.offsets.size() * count);
  for (uint64_t graph = next_; graph < end; ++graph) {
    for (const std::vector<uint64_t>& offsets : layout_.offsets) {
      counts.push_back(static_cast<uint32_t>(offsets[graph + 1] - offsets[graph]));
    }
  }
  AppendLittleEndian(absl::MakeConstSpan(counts), *table.mutable_counts());
  for (std::size_t i = 0; i < layout_.columns.size(); ++i) {
    v1::TensorData& tensor = *chunk.graphs.add_tensors();
    tensor.set_name(layout_.schema.tensors(static_cast<int>(i)).name());
    absl::Status status = AppendRows(next_, end, i, *tensor.mutable_data());
    if (!status.ok()) return status;
  }
  if (groups_.has_value()) {
    AppendLittleEndian(absl::MakeConstSpan(groups_->ids).subspan(next_, count), chunk.group_ids);
  }
  next_ = end;
  return chunk;
}

}  // namespace packhouse::client

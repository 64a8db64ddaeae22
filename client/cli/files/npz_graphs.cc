#include "client/cli/files/npz_graphs.h"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cpp/little_endian.h"
#include "client/cpp/schema_layout.h"

namespace packhouse::client {
namespace {

constexpr absl::string_view kNodeOffsets = "node_offsets";
constexpr absl::string_view kEdgeOffsets = "edge_offsets";
constexpr absl::string_view kEdgeIndex = "edge_index";
constexpr absl::string_view kComponentNames[] = {"nodes", "edges", "graphs"};
// Read at once where all of an array is read.
constexpr uint64_t kRowsPerPiece = uint64_t{1} << 20;

// Hands each element of whole numbers to `take`, as an int64_t or uint64_t, which returns whether
// to go on. False if `dtype` is not of whole numbers.
template <typename T, typename Take>
void ForEachElement(const std::string& bytes, Take& take) {
  const LittleEndianView<T> elements(bytes);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (!take(static_cast<std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>(elements[i])))
      return;
  }
}

template <typename Take>
void ForEachWholeNumber(v1::DataType dtype, const std::string& bytes, Take take) {
  switch (dtype) {
    case v1::DATA_TYPE_INT8:
      return ForEachElement<int8_t>(bytes, take);
    case v1::DATA_TYPE_INT16:
      return ForEachElement<int16_t>(bytes, take);
    case v1::DATA_TYPE_INT32:
      return ForEachElement<int32_t>(bytes, take);
    case v1::DATA_TYPE_INT64:
      return ForEachElement<int64_t>(bytes, take);
    case v1::DATA_TYPE_UINT8:
      return ForEachElement<uint8_t>(bytes, take);
    case v1::DATA_TYPE_UINT16:
      return ForEachElement<uint16_t>(bytes, take);
    case v1::DATA_TYPE_UINT32:
      return ForEachElement<uint32_t>(bytes, take);
    case v1::DATA_TYPE_UINT64:
      return ForEachElement<uint64_t>(bytes, take);
    default:
      return;
  }
}

bool IsWholeNumbers(v1::DataType dtype) {
  return dtype >= v1::DATA_TYPE_INT8 && dtype <= v1::DATA_TYPE_UINT64;
}

std::string ShapeText(const NpyHeader& header) {
  return absl::StrCat("[", absl::StrJoin(header.shape, ", "), "]");
}

}  // namespace

absl::StatusOr<std::unique_ptr<GraphSource>> NpzGraphs::Open(const std::string& path,
                                                             const std::string& groups) {
  absl::StatusOr<std::unique_ptr<NpzArchive>> archive = NpzArchive::Open(path);
  if (!archive.ok()) return archive.status();
  if (absl::Status status = (*archive)->CheckArrays(); !status.ok()) return status;

  std::unique_ptr<NpzGraphs> graphs(new NpzGraphs(*std::move(archive)));
  for (const auto& [name, offsets] : {std::pair(kNodeOffsets, &graphs->node_offsets_),
                                      std::pair(kEdgeOffsets, &graphs->edge_offsets_)}) {
    absl::StatusOr<std::vector<uint64_t>> read = graphs->ReadOffsets(std::string(name));
    if (!read.ok()) return read.status();
    *offsets = *std::move(read);
  }
  if (graphs->node_offsets_.size() != graphs->edge_offsets_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": node_offsets has ", graphs->node_offsets_.size(),
                     " elements, edge_offsets ", graphs->edge_offsets_.size()));
  }
  graphs->num_graphs_ = graphs->node_offsets_.size() - 1;
  absl::Status status;
  if (!groups.empty()) {
    if (status = graphs->ReadGroups(groups); !status.ok()) return status;
  }
  if (status = graphs->AddColumns(); !status.ok()) return status;
  if (status = graphs->CheckIndices(); !status.ok()) return status;
  if (status = graphs->Rewind(); !status.ok()) return status;
  return graphs;
}

absl::StatusOr<std::vector<uint64_t>> NpzGraphs::ReadWholeNumbers(const NpzArray& array) const {
  if (array.header.shape.size() != 1 || !IsWholeNumbers(array.header.dtype)) {
    return absl::InvalidArgumentError(absl::StrCat(archive_->Place(array), ": has the shape ",
                                                   ShapeText(array.header),
                                                   "; must be one row of whole numbers"));
  }
  absl::StatusOr<NpzStream> stream = archive_->OpenStream(array);
  if (!stream.ok()) return stream.status();
  std::string bytes;
  absl::Status status = stream->Append(array.header.data_bytes, bytes);
  if (!status.ok()) return status;
  std::vector<uint64_t> numbers;
  numbers.reserve(array.header.num_elements);
  ForEachWholeNumber(array.header.dtype, bytes, [&](auto value) {
    if (value < 0) {
      status = absl::InvalidArgumentError(absl::StrCat(archive_->Place(array), ": element ",
                                                       numbers.size(), " is ", value,
                                                       ", must not be negative"));
      return false;
    }
    numbers.push_back(static_cast<uint64_t>(value));
    return true;
  });
  if (!status.ok()) return status;
  return numbers;
}

absl::StatusOr<std::vector<uint64_t>> NpzGraphs::ReadOffsets(const std::string& name) const {
  const NpzArray* const array = archive_->Find(name);
  if (array == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(archive_->path(), ": has no array '", name, "', which graphs need"));
  }
  absl::StatusOr<std::vector<uint64_t>> offsets = ReadWholeNumbers(*array);
  if (!offsets.ok()) return offsets;
  const auto fail = [&](const auto&... what) {
    return absl::InvalidArgumentError(absl::StrCat(archive_->Place(*array), ": ", what...));
  };
  if (offsets->empty()) return fail("is empty, must have one element more than there are graphs");
  if (offsets->front() != 0) return fail("begins with ", offsets->front(), ", must with 0");
  for (std::size_t i = 1; i < offsets->size(); ++i) {
    const uint64_t before = (*offsets)[i - 1];
    if ((*offsets)[i] < before) {
      return fail("element ", i, " is ", (*offsets)[i], ", less than ", before, " before it");
    }
    if ((*offsets)[i] - before > std::numeric_limits<uint32_t>::max()) {
      return fail("graph ", i - 1, " has ", (*offsets)[i] - before,
                  " rows, at most 2^32 - 1 are supported");
    }
  }
  return offsets;
}

absl::Status NpzGraphs::ReadGroups(const std::string& name) {
  const NpzArray* const array = archive_->Find(name);
  if (array == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(archive_->path(), ": has no array '", name, "' for --groups"));
  }
  absl::StatusOr<std::vector<uint64_t>> ids = ReadWholeNumbers(*array);
  if (!ids.ok()) return ids.status();
  if (ids->size() != num_graphs_) {
    return absl::InvalidArgumentError(absl::StrCat(archive_->Place(*array), ": has ", ids->size(),
                                                   " group ids for ", num_graphs_, " graphs"));
  }
  groups_ = Groups{.name = name, .ids = *std::move(ids)};
  return absl::OkStatus();
}

absl::Status NpzGraphs::AddColumns() {
  schema_.add_components("nodes");
  schema_.add_components("edges");
  for (const NpzArray& array : archive_->arrays()) {
    if (array.name == kNodeOffsets || array.name == kEdgeOffsets) continue;
    if (groups_.has_value() && array.name == groups_->name) continue;
    absl::Status status = array.name == kEdgeIndex ? AddEdgeIndex(array) : AddTensor(array);
    if (!status.ok()) return status;
  }
  absl::Status resolved = ResolveSchema(schema_).status();
  if (resolved.ok()) return resolved;
  return absl::Status(resolved.code(), absl::StrCat(archive_->path(), ": ", resolved.message()));
}

absl::Status NpzGraphs::AddEdgeIndex(const NpzArray& array) {
  const uint64_t edges = edge_offsets_.back();
  if (array.header.shape.size() != 2 || array.header.shape[0] != 2 ||
      array.header.shape[1] != edges || !IsWholeNumbers(array.header.dtype)) {
    return absl::InvalidArgumentError(absl::StrCat(archive_->Place(array), ": has the shape ",
                                                   ShapeText(array.header),
                                                   "; must be whole numbers [2, ", edges, "]"));
  }
  for (const auto& [name, first] : {std::pair("senders", uint64_t{0}), {"receivers", edges}}) {
    v1::TensorSpec& spec = *schema_.add_tensors();
    spec.set_name(name);
    spec.set_dtype(v1::DATA_TYPE_INT32);
    spec.set_component("edges");
    spec.set_index_into("nodes");
    Column& column = columns_.emplace_back();
    column.array = &array;
    column.component = kEdges;
    column.row_bytes = sizeof(int32_t);
    column.first_index = first;
  }
  return absl::OkStatus();
}

absl::StatusOr<NpzGraphs::Component> NpzGraphs::ComponentOf(const NpzArray& array) const {
  const uint64_t rows[] = {FirstRow(kNodes, num_graphs_), FirstRow(kEdges, num_graphs_),
                           num_graphs_};
  const auto fail = [&](const auto&... what) {
    return absl::InvalidArgumentError(
        absl::StrCat(archive_->Place(array), ": has the shape ", ShapeText(array.header), what...));
  };
  if (array.header.shape.empty()) return fail(", a single value; a tensor needs rows");
  const uint64_t extent = array.header.shape[0];
  for (const auto& [name, component] :
       {std::pair("x", kNodes), {"node_tag", kNodes}, {"edge_attr", kEdges}, {"y", kGraphs}}) {
    if (array.name != name) continue;
    if (extent == rows[component]) return component;
    return fail("; must have one row for each of the ", rows[component], " ",
                kComponentNames[component]);
  }
  std::optional<Component> fitting;
  bool several = false;
  for (const auto& [prefix, component] :
       {std::pair("node_", kNodes), {"edge_", kEdges}, {"graph_", kGraphs}}) {
    if (extent != rows[component]) continue;
    if (absl::StartsWith(array.name, prefix)) return component;
    several = fitting.has_value();
    fitting = component;
  }
  if (!fitting.has_value()) {
    return fail("; there are ", rows[kNodes], " nodes, ", rows[kEdges], " edges and ",
                rows[kGraphs], " graphs");
  }
  if (several) {
    return fail("; there are ", rows[kNodes], " nodes, ", rows[kEdges], " edges and ",
                rows[kGraphs],
                " graphs: say which by a name that begins with node_, edge_ or graph_");
  }
  return *fitting;
}

absl::Status NpzGraphs::AddTensor(const NpzArray& array) {
  const absl::StatusOr<Component> component = ComponentOf(array);
  if (!component.ok()) return component.status();
  v1::TensorSpec& spec = *schema_.add_tensors();
  spec.set_name(array.name);
  spec.set_dtype(array.header.dtype);
  spec.set_component(std::string(kComponentNames[*component]));
  for (std::size_t i = 1; i < array.header.shape.size(); ++i) {
    if (array.header.shape[i] > std::numeric_limits<uint32_t>::max()) {
      return absl::InvalidArgumentError(absl::StrCat(archive_->Place(array), ": has the shape ",
                                                     ShapeText(array.header),
                                                     ", whose rows are too large"));
    }
    spec.add_row_shape(static_cast<uint32_t>(array.header.shape[i]));
  }
  Column& column = columns_.emplace_back();
  column.array = &array;
  column.component = *component;
  column.row_bytes = array.header.RowElements() * ElementBytes(array.header.dtype);
  return absl::OkStatus();
}

uint64_t NpzGraphs::FirstRow(Component component, uint64_t graph) const {
  switch (component) {
    case kNodes:
      return node_offsets_[graph];
    case kEdges:
      return edge_offsets_[graph];
    case kGraphs:
      break;
  }
  return graph;
}

uint64_t NpzGraphs::GraphBytes(uint64_t graph) const {
  uint64_t bytes = 2 * sizeof(uint32_t) + (groups_.has_value() ? sizeof(uint64_t) : 0);
  for (const Column& column : columns_) {
    bytes += (FirstRow(column.component, graph + 1) - FirstRow(column.component, graph)) *
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
  for (Column& column : columns_) {
    absl::StatusOr<NpzStream> stream = archive_->OpenStream(*column.array);
    if (!stream.ok()) return stream.status();
    absl::Status status =
        stream->Skip(column.first_index.value_or(0) * ElementBytes(column.array->header.dtype));
    if (!status.ok()) return status;
    column.stream.emplace(*std::move(stream));
  }
  next_ = 0;
  return absl::OkStatus();
}

absl::Status NpzGraphs::CheckIndices() {
  if (absl::Status status = Rewind(); !status.ok()) return status;
  for (Column& column : columns_) {
    if (!column.first_index.has_value()) continue;
    uint64_t begin = 0;
    while (begin < num_graphs_) {
      uint64_t end = begin + 1;
      while (end < num_graphs_ && edge_offsets_[end] - edge_offsets_[begin] < kRowsPerPiece) ++end;
      std::string ignored;
      absl::Status status = AppendIndices(begin, end, column, ignored);
      if (!status.ok()) return status;
      begin = end;
    }
  }
  return absl::OkStatus();
}

absl::Status NpzGraphs::AppendIndices(uint64_t begin, uint64_t end, Column& column,
                                      std::string& data) const {
  const uint64_t first_edge = edge_offsets_[begin];
  const uint64_t edges = edge_offsets_[end] - first_edge;
  std::string bytes;
  absl::Status status =
      column.stream->Append(edges * ElementBytes(column.array->header.dtype), bytes);
  if (!status.ok()) return status;
  std::vector<int32_t> indices;
  indices.reserve(edges);
  uint64_t graph = begin;
  ForEachWholeNumber(column.array->header.dtype, bytes, [&](auto value) {
    while (first_edge + indices.size() >= edge_offsets_[graph + 1]) ++graph;
    const uint64_t nodes = node_offsets_[graph + 1] - node_offsets_[graph];
    // A negative one becomes huge.
    if (static_cast<uint64_t>(value) >= nodes ||
        static_cast<uint64_t>(value) > uint64_t{std::numeric_limits<int32_t>::max()}) {
      status = absl::OutOfRangeError(
          absl::StrCat(archive_->Place(*column.array), ": edge ",
                       first_edge + indices.size() - edge_offsets_[graph], " of graph ", graph,
                       " has the end ", value, ", the graph has ", nodes, " nodes"));
      return false;
    }
    indices.push_back(static_cast<int32_t>(value));
    return true;
  });
  AppendLittleEndian(absl::MakeConstSpan(indices), data);
  return status;
}

absl::Status NpzGraphs::AppendRows(uint64_t begin, uint64_t end, Column& column,
                                   std::string& data) const {
  if (column.first_index.has_value()) return AppendIndices(begin, end, column, data);
  const uint64_t rows = FirstRow(column.component, end) - FirstRow(column.component, begin);
  return column.stream->Append(rows * column.row_bytes, data);
}

absl::StatusOr<SourceChunk> NpzGraphs::Next(uint64_t count) {
  const uint64_t end = next_ + count;
  SourceChunk chunk;
  v1::SizeTable& table = *chunk.graphs.mutable_sizes();
  table.set_num_graphs(count);
  table.set_first_id(next_);
  std::vector<uint32_t> counts;
  counts.reserve(2 * count);
  for (uint64_t graph = next_; graph < end; ++graph) {
    counts.push_back(static_cast<uint32_t>(node_offsets_[graph + 1] - node_offsets_[graph]));
    counts.push_back(static_cast<uint32_t>(edge_offsets_[graph + 1] - edge_offsets_[graph]));
  }
  AppendLittleEndian(absl::MakeConstSpan(counts), *table.mutable_counts());
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    v1::TensorData& tensor = *chunk.graphs.add_tensors();
    tensor.set_name(schema_.tensors(static_cast<int>(i)).name());
    absl::Status status = AppendRows(next_, end, columns_[i], *tensor.mutable_data());
    if (!status.ok()) return status;
  }
  if (groups_.has_value()) {
    AppendLittleEndian(absl::MakeConstSpan(groups_->ids).subspan(next_, count), chunk.group_ids);
  }
  next_ = end;
  return chunk;
}

}  // namespace packhouse::client

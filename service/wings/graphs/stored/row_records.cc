#include "service/wings/graphs/stored/row_records.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/checksum.h"
#include "service/base/quoted.h"

namespace packhouse {
namespace {

constexpr absl::string_view kRowMagic = "PHROWS\n\0";
constexpr uint64_t kArrayAlignment = 8;
constexpr uint64_t kMaxRecordBytes = uint64_t{1} << 32;

constexpr uint64_t RoundUp(uint64_t bytes, uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

void Pad(std::string& bytes, uint64_t unit) { bytes.resize(RoundUp(bytes.size(), unit), '\0'); }

template <typename T>
void Add(T value, std::string& bytes) {
  char raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  bytes.append(raw, sizeof(T));
}

template <typename T>
T At(absl::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

// Reads numbers one after the other; `ok` is false once there were too few.
class IndexReader {
 public:
  explicit IndexReader(absl::string_view bytes) : bytes_(bytes) {}
  template <typename T>
  T Next() {
    if (bytes_.size() < sizeof(T)) {
      ok_ = false;
      return T{};
    }
    const T value = At<T>(bytes_, 0);
    bytes_.remove_prefix(sizeof(T));
    return value;
  }
  absl::string_view NextBytes(uint64_t bytes) {
    if (bytes_.size() < RoundUp(bytes, kArrayAlignment)) {
      ok_ = false;
      return {};
    }
    const absl::string_view text = bytes_.substr(0, bytes);
    bytes_.remove_prefix(RoundUp(bytes, kArrayAlignment));
    return text;
  }
  bool ok() const { return ok_; }
  size_t left() const { return bytes_.size(); }

 private:
  absl::string_view bytes_;
  bool ok_ = true;
};

// An array as it is given: lengths become offsets.
struct GivenArray {
  absl::string_view data;
  absl::string_view lengths;
  bool ragged = false;

  uint64_t offset_bytes() const { return ragged ? lengths.size() + sizeof(uint32_t) : 0; }
};

struct GivenPart {
  bool is_edges;
  size_t set;
  uint64_t num_rows;
  std::vector<GivenArray> arrays;
};

GivenArray Given(const SourceIdRows& ids) { return {ids.data, ids.lengths, !ids.integers}; }

std::vector<GivenPart> PartsOf(const SourceGraphChunk& chunk) {
  std::vector<GivenPart> parts;
  const auto add_columns = [&parts](const std::vector<SourceColumnRows>& columns) {
    for (const SourceColumnRows& column : columns) {
      parts.back().arrays.push_back({column.data, column.lengths, !column.lengths.empty()});
    }
  };
  for (const SourceNodeRows& rows : chunk.nodes) {
    if (rows.num_rows == 0) continue;
    parts.push_back({false, rows.node_set, rows.num_rows, {Given(rows.ids)}});
    add_columns(rows.columns);
  }
  for (const SourceEdgeRows& rows : chunk.edges) {
    if (rows.num_rows == 0) continue;
    parts.push_back(
        {true, rows.edge_set, rows.num_rows, {Given(rows.sources), Given(rows.targets)}});
    add_columns(rows.columns);
  }
  return parts;
}

void AddOffsets(absl::string_view lengths, std::string& record) {
  uint32_t offset = 0;
  Add(offset, record);
  for (size_t at = 0; at < lengths.size(); at += sizeof(uint32_t)) {
    offset += At<uint32_t>(lengths, at);
    Add(offset, record);
  }
}

}  // namespace

std::string RowHeader::Encode() const {
  std::string bytes(kRowMagic.data(), 8);
  Add(kVersion, bytes);
  Add(index_bytes, bytes);
  Add(record_bytes, bytes);
  Add(durable_bytes, bytes);
  Add(sequence, bytes);
  Add(graph, bytes);
  Add(index_crc, bytes);
  Add(data_crc, bytes);
  Add(forget_seconds, bytes);
  Add(Crc32c(bytes), bytes);
  return bytes;
}

std::optional<RowHeader> RowHeader::Decode(absl::string_view bytes) {
  if (bytes.size() < kBytes) return std::nullopt;
  bytes = bytes.substr(0, kBytes);
  if (std::memcmp(bytes.data(), kRowMagic.data(), 8) != 0 || At<uint32_t>(bytes, 8) != kVersion ||
      At<uint32_t>(bytes, 60) != Crc32c(bytes.substr(0, 60))) {
    return std::nullopt;
  }
  RowHeader header;
  header.index_bytes = At<uint32_t>(bytes, 12);
  header.record_bytes = At<uint64_t>(bytes, 16);
  header.durable_bytes = At<uint64_t>(bytes, 24);
  header.sequence = At<uint64_t>(bytes, 32);
  header.graph = At<uint64_t>(bytes, 40);
  header.index_crc = At<uint32_t>(bytes, 48);
  header.data_crc = At<uint32_t>(bytes, 52);
  header.forget_seconds = At<uint32_t>(bytes, 56);
  if (header.record_bytes > kMaxRecordBytes || header.record_bytes % kAlignment != 0 ||
      kBytes + uint64_t{header.index_bytes} > header.record_bytes) {
    return std::nullopt;
  }
  return header;
}

uint32_t RowHeader::Digest() const {
  std::string both;
  Add(index_crc, both);
  Add(data_crc, both);
  return Crc32c(both);
}

uint64_t RowIndex::num_nodes() const {
  uint64_t sum = 0;
  for (const Part& part : parts) sum += part.is_edges ? 0 : part.num_rows;
  return sum;
}

uint64_t RowIndex::num_edges() const {
  uint64_t sum = 0;
  for (const Part& part : parts) sum += part.is_edges ? part.num_rows : 0;
  return sum;
}

std::string EncodeRows(const SourceGraphChunk& chunk,
                       const std::optional<ProducerSequence>& producer, uint64_t graph,
                       uint64_t durable_bytes) {
  const std::vector<GivenPart> parts = PartsOf(chunk);
  const std::string name = producer ? producer->producer : "";
  std::string index;
  Add(static_cast<uint32_t>(name.size()), index);
  Add(static_cast<uint32_t>(parts.size()), index);
  index += name;
  Pad(index, kArrayAlignment);
  uint64_t data_bytes = 0;
  for (const GivenPart& part : parts) {
    Add(static_cast<uint32_t>(part.is_edges ? 1 : 0), index);
    Add(static_cast<uint32_t>(part.set), index);
    Add(part.num_rows, index);
    Add(uint64_t{part.arrays.size()}, index);
    for (const GivenArray& array : part.arrays) {
      Add(uint64_t{array.data.size()}, index);
      Add(array.offset_bytes(), index);
      data_bytes += RoundUp(array.data.size(), kArrayAlignment) +
                    RoundUp(array.offset_bytes(), kArrayAlignment);
    }
  }
  RowHeader header;
  header.index_bytes = static_cast<uint32_t>(index.size());
  header.record_bytes =
      RoundUp(RowHeader::kBytes + index.size() + data_bytes, RowHeader::kAlignment);
  header.durable_bytes = durable_bytes;
  header.sequence = producer ? producer->sequence : 0;
  if (producer) {
    ProducerHistory after;
    after.Add(*producer, 0, 1);
    header.forget_seconds =
        static_cast<uint32_t>(std::min<uint64_t>(after.forget_seconds(), UINT32_MAX));
  }
  header.graph = graph;
  header.index_crc = Crc32c(index);

  std::string record;
  record.reserve(header.record_bytes);
  record.append(RowHeader::kBytes, '\0');
  record += index;
  for (const GivenPart& part : parts) {
    for (const GivenArray& array : part.arrays) {
      record.append(array.data.data(), array.data.size());
      Pad(record, kArrayAlignment);
      if (array.ragged) AddOffsets(array.lengths, record);
      Pad(record, kArrayAlignment);
    }
  }
  Pad(record, RowHeader::kAlignment);
  header.data_crc =
      Crc32c(absl::string_view(record).substr(RowHeader::kBytes + header.index_bytes));
  record.replace(0, RowHeader::kBytes, header.Encode());
  return record;
}

absl::StatusOr<bool> RepeatsRows(absl::string_view graph_name, uint64_t graph,
                                 const SourceGraphChunk& chunk, const ProducerSequence& producer,
                                 const ProducerHistory& history) {
  uint32_t digest = 0;
  if (producer.sequence <= history.last()) {
    digest = RowHeader::Decode(EncodeRows(chunk, producer, graph, 0))->Digest();
  }
  return history.IsRepetition(absl::StrCat("source graph ", Quoted(graph_name)), producer, digest);
}

std::optional<RowIndex> DecodeIndex(const RowHeader& header, absl::string_view bytes) {
  if (bytes.size() < header.index_bytes) return std::nullopt;
  bytes = bytes.substr(0, header.index_bytes);
  if (Crc32c(bytes) != header.index_crc) return std::nullopt;
  IndexReader reader(bytes);
  RowIndex index;
  const auto name_bytes = reader.Next<uint32_t>();
  const auto num_parts = reader.Next<uint32_t>();
  index.producer = std::string(reader.NextBytes(name_bytes));
  for (uint32_t p = 0; p < num_parts && reader.ok(); ++p) {
    RowIndex::Part part;
    part.is_edges = reader.Next<uint32_t>() != 0;
    part.set = reader.Next<uint32_t>();
    part.num_rows = reader.Next<uint64_t>();
    const auto num_arrays = reader.Next<uint64_t>();
    if (num_arrays > reader.left() / (2 * sizeof(uint64_t))) return std::nullopt;
    for (uint64_t a = 0; a < 2 * num_arrays; ++a) part.lengths.push_back(reader.Next<uint64_t>());
    index.parts.push_back(std::move(part));
  }
  if (!reader.ok()) return std::nullopt;
  return index;
}

absl::StatusOr<std::vector<StoredRows>> ViewRows(const SourceGraphSchema& schema,
                                                 const SourceGraphOptions& options,
                                                 const RowHeader& header, const RowIndex& index,
                                                 absl::string_view record) {
  std::vector<StoredRows> views;
  uint64_t at = RowHeader::kBytes + header.index_bytes;
  for (const RowIndex::Part& part : index.parts) {
    StoredRows rows;
    rows.is_edges = part.is_edges;
    rows.set = part.set;
    rows.num_rows = part.num_rows;
    const size_t num_sets = part.is_edges ? schema.edge_sets().size() : schema.node_sets().size();
    if (part.set >= num_sets || part.num_rows > SourceGraphStore::kMaxChunkRows) {
      return absl::DataLossError(absl::StrCat("rows of a set number ", part.set));
    }
    const std::vector<SourceColumnSpec>& columns =
        part.is_edges ? schema.edge_sets()[part.set].columns : schema.node_sets()[part.set].columns;
    const std::string& name =
        part.is_edges ? schema.edge_sets()[part.set].name : schema.node_sets()[part.set].name;
    const auto lost = [&name] {
      return absl::DataLossError(
          absl::StrCat("rows of ", Quoted(name), ": an array has a wrong length"));
    };
    const size_t num_ids = part.is_edges ? 2 : 1;
    if (part.lengths.size() != 2 * (num_ids + columns.size())) return lost();
    for (size_t a = 0; a < num_ids + columns.size(); ++a) {
      uint64_t step_bytes = 1;
      bool ragged = true;
      if (a < num_ids) {
        const size_t node_set = !part.is_edges ? part.set
                                : a == 0       ? schema.edge_sets()[part.set].source
                                               : schema.edge_sets()[part.set].target;
        if (options.node_sets[node_set].integer_ids) {
          step_bytes = sizeof(int64_t);
          ragged = false;
        }
      } else {
        step_bytes = SourceStepBytes(columns[a - num_ids]);
        ragged = columns[a - num_ids].ragged;
      }
      StoredRows::Array array;
      array.bytes = part.lengths[2 * a];
      const uint64_t offset_bytes = part.lengths[2 * a + 1];
      const uint64_t offsets_at = at + RoundUp(array.bytes, kArrayAlignment);
      const uint64_t end = offsets_at + RoundUp(offset_bytes, kArrayAlignment);
      if (array.bytes > record.size() || offset_bytes > record.size() || end > record.size()) {
        return lost();
      }
      array.data = record.data() + at;
      uint64_t steps = part.num_rows;
      if (ragged) {
        if (offset_bytes != (part.num_rows + 1) * sizeof(uint32_t)) return lost();
        array.offsets = reinterpret_cast<const uint32_t*>(record.data() + offsets_at);
        for (uint64_t r = 0; r < part.num_rows; ++r) {
          if (array.offsets[r] > array.offsets[r + 1]) return lost();
        }
        if (array.offsets[0] != 0) return lost();
        steps = array.offsets[part.num_rows];
      } else if (offset_bytes != 0) {
        return lost();
      }
      if (array.bytes != steps * step_bytes) return lost();
      rows.arrays.push_back(array);
      at = end;
    }
    views.push_back(std::move(rows));
  }
  return views;
}

}  // namespace packhouse

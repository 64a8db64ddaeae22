#include "service/stores/datasets/chunk_record.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/checksum.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

static_assert(std::endian::native == std::endian::little,
              "records are little-endian and are read by memcpy");

constexpr uint32_t kExplicitIds = 1;
constexpr uint32_t kGroupIds = 2;

// The header as it is stored. Version and checksum keep their places in all future versions.
struct Header {
  char magic[8];
  uint32_t version;
  uint32_t flags;
  uint64_t dataset;
  uint64_t first_graph;
  uint64_t num_graphs;
  uint32_t num_components;
  uint32_t num_columns;
  uint64_t first_id;
  uint64_t index_bytes;
  uint64_t record_bytes;
  uint32_t index_crc;
  uint32_t columns_crc;
  char reserved[28];
  uint32_t header_crc;
};
static_assert(sizeof(Header) == kChunkRecordHeaderBytes && alignof(Header) == 8);
constexpr size_t kHeaderCrcBytes = offsetof(Header, header_crc);

// Sections of 8-byte integers follow counts of 4 bytes.
uint64_t RoundUpTo8(uint64_t bytes) { return (bytes + 7) / 8 * 8; }

uint64_t NextColumnOffset(uint64_t offset) {
  const uint64_t in_page = offset + kRecordOffsetInPage;
  return (in_page + kColumnAlignment - 1) / kColumnAlignment * kColumnAlignment -
         kRecordOffsetInPage;
}

template <typename T>
void AppendValues(absl::Span<const T> values, std::string& out) {
  out.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

template <typename T>
void ReadValues(absl::string_view bytes, std::vector<T>& out) {
  if (bytes.empty()) return;
  const size_t begin = out.size();
  out.resize(begin + bytes.size() / sizeof(T));
  std::memcpy(out.data() + begin, bytes.data(), bytes.size());
}

template <typename... Parts>
absl::Status Damaged(const Parts&... parts) {
  return absl::DataLossError(absl::StrCat("stored chunk: ", parts...));
}

}  // namespace

absl::StatusOr<EncodedChunk> EncodedChunk::Create(const GraphChunk* chunk,
                                                  absl::Span<const uint64_t> group_ids) {
  EncodedChunk encoded;
  encoded.chunk_ = chunk;
  const size_t n = chunk->num_graphs();
  if (n > kMaxChunkRecordGraphs) {
    return absl::InvalidArgumentError(
        absl::StrCat("chunk: ", n, " graphs, at most ", kMaxChunkRecordGraphs));
  }
  const SizeTable& sizes = chunk->sizes();
  // The most bytes, with both kinds of ids.
  encoded.index_.reserve(RoundUpTo8(sizes.counts().size() * sizeof(uint32_t)) +
                         (2 * n + chunk->num_columns()) * sizeof(uint64_t));
  AppendValues(sizes.counts(), encoded.index_);
  encoded.index_.resize(RoundUpTo8(encoded.index_.size()), '\0');
  bool consecutive = true;
  for (size_t i = 1; i < n && consecutive; ++i) {
    const uint64_t previous = sizes.graph_id(i - 1);
    consecutive = previous != UINT64_MAX && sizes.graph_id(i) == previous + 1;
  }
  if (!consecutive) {
    encoded.flags_ |= kExplicitIds;
    for (size_t i = 0; i < n; ++i) {
      const uint64_t id = sizes.graph_id(i);
      AppendValues(absl::MakeConstSpan(&id, 1), encoded.index_);
    }
  }
  if (!group_ids.empty()) {
    encoded.flags_ |= kGroupIds;
    AppendValues(group_ids, encoded.index_);
  }
  for (size_t t = 0; t < chunk->num_columns(); ++t) {
    const uint64_t length = chunk->column(t).size();
    AppendValues(absl::MakeConstSpan(&length, 1), encoded.index_);
  }

  uint64_t end = kChunkRecordHeaderBytes + encoded.index_.size();
  for (size_t t = 0; t < chunk->num_columns(); ++t) {
    const uint64_t offset = NextColumnOffset(end);
    encoded.column_offsets_.push_back(offset);
    end = offset + chunk->column(t).size();
  }
  if (end > kMaxChunkRecordBytes) {
    return absl::InvalidArgumentError(absl::StrCat("chunk: ", n, " graphs would be a record of ",
                                                   end, " bytes, at most ", kMaxChunkRecordBytes));
  }
  encoded.num_bytes_ = end;
  encoded.index_crc_ = Crc32c(encoded.index_);
  for (size_t t = 0; t < chunk->num_columns(); ++t) {
    encoded.columns_crc_ = Crc32c(chunk->column(t), encoded.columns_crc_);
  }
  return encoded;
}

uint32_t EncodedChunk::Digest(bool with_first_id) const {
  const bool has_first_id =
      with_first_id && (flags_ & kExplicitIds) == 0 && chunk_->num_graphs() != 0;
  const uint64_t numbers[] = {index_crc_, columns_crc_, chunk_->num_graphs(),
                              has_first_id ? chunk_->sizes().graph_id(0) : 0};
  return Crc32c(absl::string_view(reinterpret_cast<const char*>(numbers), sizeof(numbers)));
}

void EncodedChunk::WriteTo(char* out, const ChunkRecordPlace& place) const {
  Header header = {};
  std::memcpy(header.magic, kChunkRecordMagic.data(), sizeof(header.magic));
  header.version = kChunkRecordVersion;
  header.flags = flags_;
  header.dataset = place.dataset;
  header.first_graph = place.first_graph;
  header.num_graphs = chunk_->num_graphs();
  header.num_components = chunk_->schema().num_components();
  header.num_columns = chunk_->num_columns();
  const bool has_first_id = (flags_ & kExplicitIds) == 0 && chunk_->num_graphs() != 0;
  header.first_id = has_first_id ? chunk_->sizes().graph_id(0) : 0;
  header.index_bytes = index_.size();
  header.record_bytes = num_bytes_;
  header.index_crc = index_crc_;
  header.columns_crc = columns_crc_;
  std::memcpy(out, &header, sizeof(header));
  header.header_crc = Crc32c(absl::string_view(out, kHeaderCrcBytes));
  std::memcpy(out + kHeaderCrcBytes, &header.header_crc, sizeof(header.header_crc));

  std::memcpy(out + sizeof(header), index_.data(), index_.size());
  size_t end = sizeof(header) + index_.size();
  for (size_t t = 0; t < column_offsets_.size(); ++t) {
    std::memset(out + end, 0, column_offsets_[t] - end);
    const absl::string_view column = chunk_->column(t);
    if (!column.empty()) std::memcpy(out + column_offsets_[t], column.data(), column.size());
    end = column_offsets_[t] + column.size();
  }
}

absl::StatusOr<ChunkRecordView> ChunkRecordView::Parse(absl::string_view bytes) {
  Header header;
  if (bytes.size() < sizeof(header)) {
    return Damaged(bytes.size(), " bytes, the header alone has ", sizeof(header));
  }
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (absl::string_view(header.magic, sizeof(header.magic)) != kChunkRecordMagic) {
    return Damaged("does not begin with the magic number");
  }
  const uint32_t header_crc = Crc32c(bytes.substr(0, kHeaderCrcBytes));
  if (header_crc != header.header_crc) {
    return Damaged("the header has checksum ", header_crc, ", stored is ", header.header_crc);
  }
  if (header.version != kChunkRecordVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("stored chunk: format version ", header.version,
                     ", this packhoused reads version ", kChunkRecordVersion));
  }
  const uint64_t n = header.num_graphs;
  const uint64_t l = header.num_components;
  if (header.record_bytes > bytes.size() || header.record_bytes > kMaxChunkRecordBytes ||
      header.index_bytes >
          header.record_bytes - std::min<uint64_t>(header.record_bytes, sizeof(header))) {
    return Damaged("a record of ", header.record_bytes, " bytes with an index of ",
                   header.index_bytes, ", there are ", bytes.size());
  }
  const absl::string_view index = bytes.substr(sizeof(header), header.index_bytes);
  const uint32_t index_crc = Crc32c(index);
  if (index_crc != header.index_crc) {
    return Damaged("the sizes have checksum ", index_crc, ", stored is ", header.index_crc);
  }
  const bool explicit_ids = (header.flags & kExplicitIds) != 0;
  const bool has_groups = (header.flags & kGroupIds) != 0;
  // No product wraps around: l and n are compared with the index's size before they are multiplied.
  const bool plausible = l <= kMaxComponents && header.num_columns <= GraphSchema::kMaxTensors &&
                         n <= kMaxChunkRecordGraphs;
  const uint64_t expected =
      !plausible ? 0
                 : RoundUpTo8(n * l * sizeof(uint32_t)) +
                       n * sizeof(uint64_t) * ((explicit_ids ? 1 : 0) + (has_groups ? 1 : 0)) +
                       header.num_columns * sizeof(uint64_t);
  if (!plausible || expected != header.index_bytes) {
    return Damaged("an index of ", header.index_bytes, " bytes for ", n, " graphs, ", l,
                   " components and ", header.num_columns, " tensors");
  }
  if (!explicit_ids && n != 0 && header.first_id > UINT64_MAX - (n - 1)) {
    return Damaged(n, " graphs numbered from ", header.first_id);
  }

  ChunkRecordView view;
  view.place_ = {header.dataset, header.first_graph};
  view.num_graphs_ = n;
  view.num_components_ = l;
  view.num_bytes_ = header.record_bytes;
  view.first_id_ = header.first_id;
  view.columns_crc_ = header.columns_crc;
  size_t at = 0;
  const auto section = [&](uint64_t length) {
    const absl::string_view part = index.substr(at, length);
    at += length;
    return part;
  };
  view.counts_ = section(n * l * sizeof(uint32_t));
  at = RoundUpTo8(at);
  if (explicit_ids) view.graph_ids_ = section(n * sizeof(uint64_t));
  if (has_groups) view.group_ids_ = section(n * sizeof(uint64_t));
  uint64_t end = sizeof(header) + header.index_bytes;
  for (size_t t = 0; t < header.num_columns; ++t) {
    uint64_t length;
    std::memcpy(&length, section(sizeof(length)).data(), sizeof(length));
    const uint64_t offset = NextColumnOffset(end);
    if (offset > header.record_bytes || length > header.record_bytes - offset) {
      return Damaged("column ", t, " of ", length, " bytes does not fit the record's ",
                     header.record_bytes);
    }
    view.columns_.push_back(bytes.substr(offset, length));
    end = offset + length;
  }
  if (end != header.record_bytes) {
    return Damaged("its columns end at ", end, ", the record at ", header.record_bytes);
  }
  return view;
}

void ChunkRecordView::AppendCounts(std::vector<uint32_t>& out) const { ReadValues(counts_, out); }

void ChunkRecordView::AppendGraphIds(std::vector<uint64_t>& out) const {
  if (!graph_ids_.empty()) return ReadValues(graph_ids_, out);
  const size_t begin = out.size();
  out.resize(begin + num_graphs_);
  std::iota(out.begin() + begin, out.end(), first_id_);
}

void ChunkRecordView::AppendGroupIds(std::vector<uint64_t>& out) const {
  ReadValues(group_ids_, out);
}

absl::Status ChunkRecordView::CheckColumns() const {
  uint32_t crc = 0;
  for (const absl::string_view column : columns_) crc = Crc32c(column, crc);
  if (crc == columns_crc_) return absl::OkStatus();
  return Damaged("the tensors have checksum ", crc, ", stored is ", columns_crc_);
}

absl::StatusOr<GraphChunk> ChunkRecordView::ToChunk(const GraphSchema* schema,
                                                    std::shared_ptr<const void> owner) const {
  if (num_components_ != schema->num_components()) {
    return Damaged(num_components_, " components, the data set has ", schema->num_components());
  }
  std::vector<uint32_t> counts;
  AppendCounts(counts);
  absl::StatusOr<SizeTable> sizes;
  // Consecutive ids may end at the largest, which has none after it.
  if (graph_ids_.empty() && first_id_ <= UINT64_MAX - num_graphs_) {
    sizes =
        SizeTable::WithConsecutiveIds(num_graphs_, num_components_, std::move(counts), first_id_);
  } else {
    std::vector<uint64_t> ids;
    AppendGraphIds(ids);
    sizes = SizeTable::WithAnyIds(num_graphs_, num_components_, std::move(counts), std::move(ids));
  }
  // A refused argument came from the record.
  if (!sizes.ok()) return Damaged(sizes.status().message());
  auto chunk = GraphChunk::CreateTrusted(schema, *std::move(sizes), columns_, std::move(owner));
  if (!chunk.ok()) return Damaged(chunk.status().message());
  return chunk;
}

}  // namespace packhouse

#include "service/wings/cluster/datasets/chunk_builder.h"

#include <utility>

#include "service/algorithms/histograms/size_histogram.h"
#include "service/base/checksum.h"
#include "service/base/status_macros.h"
#include "service/stores/datasets/chunk_record.h"
#include "service/stores/datasets/stored_values.h"

namespace packhouse {
namespace {

constexpr uint64_t kHeadBytes = 16;
static_assert(kHeadBytes == kRecordOffsetInPage);
// A run up to this size is in the manifest's entry too.
constexpr size_t kSmallRun = 1024;

}  // namespace

uint64_t BytesInObject(uint64_t record_bytes) {
  return (record_bytes + kColumnAlignment - 1) / kColumnAlignment * kColumnAlignment;
}

uint64_t BytesOfObject(absl::Span<const PreparedAppend* const> appends) {
  uint64_t bytes = kHeadBytes;
  for (const PreparedAppend* const append : appends) {
    bytes += BytesInObject(append->record.num_bytes()) +
             append->sizes.num_distinct() *
                 (append->sizes.num_components() * sizeof(uint32_t) + sizeof(uint64_t)) +
             kColumnAlignment;
  }
  return bytes;
}

absl::StatusOr<BuiltChunk> BuildChunk(uint64_t id, uint64_t object,
                                      absl::Span<const PreparedAppend* const> appends) {
  BuiltChunk built;
  built.chunk.object = object;
  std::string& bytes = built.bytes;
  bytes.reserve(BytesOfObject(appends));
  bytes.append(kChunkObjectMagic.data(), kChunkObjectMagic.size());
  for (size_t i = 0; i < sizeof(kChunkObjectVersion); ++i) {
    bytes.push_back(static_cast<char>(kChunkObjectVersion >> (8 * i)));
  }
  SizeHistogram sizes(appends.front()->sizes.num_components());
  for (const PreparedAppend* const append : appends) {
    ObjectChunk::Record record;
    record.offset = bytes.size();
    record.num_bytes = append->record.num_bytes();
    record.num_graphs = append->chunk->num_graphs();
    bytes.resize(bytes.size() + BytesInObject(record.num_bytes), '\0');
    append->record.WriteTo(bytes.data() + record.offset, {id, built.chunk.TagOf(record)});
    PH_RETURN_IF_ERROR(sizes.Merge(append->sizes));
    built.chunk.records.push_back(record);
  }
  std::string run = EncodeRun(sizes);
  built.chunk.run_offset = bytes.size();
  built.chunk.run_bytes = run.size();
  built.chunk.run_crc = Crc32c(run);
  bytes.append(run);
  if (run.size() <= kSmallRun) built.chunk.run = std::move(run);
  built.chunk.num_bytes = bytes.size();
  built.chunk.crc = Crc32c(bytes);
  return built;
}

}  // namespace packhouse

// Any bytes as a stored record. The first byte says which checksums are made to fit, so that what
// lies behind them is reached. Whatever comes in: no crash, and what is accepted is consistent.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "service/algorithms/graphs/graph_schema.h"
#include "service/base/checksum.h"
#include "service/stores/datasets/chunk_record.h"

namespace {

// Where docs/storage-format.md says they are.
constexpr size_t kIndexBytesAt = 56;
constexpr size_t kIndexCrcAt = 72;
constexpr size_t kHeaderCrcAt = 108;

void FixChecksums(std::string& record, bool index, bool header) {
  if (record.size() < packhouse::kChunkRecordHeaderBytes) return;
  const auto put = [&record](size_t at, uint32_t crc) {
    std::memcpy(record.data() + at, &crc, sizeof(crc));
  };
  uint64_t index_bytes;
  std::memcpy(&index_bytes, record.data() + kIndexBytesAt, sizeof(index_bytes));
  const absl::string_view view = record;
  if (index) {
    put(kIndexCrcAt,
        packhouse::Crc32c(view.substr(packhouse::kChunkRecordHeaderBytes, index_bytes)));
  }
  if (header) put(kHeaderCrcAt, packhouse::Crc32c(view.substr(0, kHeaderCrcAt)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto* const schema = new packhouse::GraphSchema(
      packhouse::GraphSchema::Create(packhouse::SizeSchema::NodesAndEdges(),
                                     {{"x", packhouse::DType::kInt16, {}, 0, {}, {}},
                                      {"e", packhouse::DType::kInt32, {2}, 1, 0, {}}})
          .value());
  if (size == 0) return 0;
  std::string record(reinterpret_cast<const char*>(data) + 1, size - 1);
  FixChecksums(record, (data[0] & 1) != 0, (data[0] & 2) != 0);
  const auto view = packhouse::ChunkRecordView::Parse(record);
  if (!view.ok()) {
    if (view.status().code() == absl::StatusCode::kInternal) std::abort();
    return 0;
  }
  std::vector<uint32_t> counts;
  std::vector<uint64_t> ids;
  std::vector<uint64_t> groups;
  view->AppendCounts(counts);
  view->AppendGraphIds(ids);
  view->AppendGroupIds(groups);
  if (counts.size() != view->num_graphs() * view->num_components() ||
      ids.size() != view->num_graphs() || (!groups.empty() && groups.size() != ids.size()) ||
      view->num_bytes() > record.size()) {
    std::abort();
  }
  view->CheckColumns().IgnoreError();
  const auto chunk = view->ToChunk(schema, nullptr);
  if (!chunk.ok()) return 0;
  // Every row lies in the record.
  uint64_t sum = 0;
  for (size_t i = 0; i < chunk->num_graphs(); ++i) {
    for (size_t t = 0; t < 2; ++t) {
      for (const char byte : chunk->rows(i, t)) sum += static_cast<unsigned char>(byte);
    }
  }
  volatile uint64_t read = sum;
  (void)read;
  return 0;
}

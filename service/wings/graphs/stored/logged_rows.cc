#include "service/wings/graphs/stored/logged_rows.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/checksum.h"
#include "service/base/disk_file.h"
#include "service/base/status_macros.h"
#include "service/wings/graphs/stored/row_log.h"

namespace packhouse {
namespace {

// Bytes between two calls of the work's progress.
constexpr uint64_t kCheckedAtOnce = uint64_t{4} << 20;

absl::StatusOr<uint32_t> CrcOf(absl::string_view bytes, SealWork& work) {
  uint32_t crc = 0;
  while (!bytes.empty()) {
    const absl::string_view piece = bytes.substr(0, kCheckedAtOnce);
    crc = Crc32c(piece, crc);
    bytes.remove_prefix(piece.size());
    PH_RETURN_IF_ERROR(work.Tick());
  }
  return crc;
}

uint64_t MemoryOf(const RowRecord& record) {
  uint64_t bytes = sizeof(RowRecord) + record.index.producer.size();
  for (const RowIndex::Part& part : record.index.parts) {
    bytes += sizeof(part) + sizeof(StoredRows) +
             part.lengths.size() * (sizeof(uint64_t) + sizeof(StoredRows::Array));
  }
  return bytes;
}

}  // namespace

uint64_t LoggedRows::CountRows(absl::Span<const StoredRows> parts) {
  uint64_t rows = 0;
  for (const StoredRows& part : parts) rows += part.num_rows;
  return rows;
}

absl::StatusOr<LoggedRows> LoggedRows::Open(const std::string& path,
                                            const GraphDefinition& definition, MemoryBudget* memory,
                                            SealWork& work) {
  LoggedRows rows;
  rows.nodes_.resize(definition.schema->node_sets().size());
  rows.edges_.resize(definition.schema->edge_sets().size());
  const auto file = DiskFile::Open(path, DiskFile::Mode::kRead);
  if (absl::IsNotFound(file.status())) {
    return absl::DataLossError(absl::StrCat(path, ": is missing"));
  }
  if (!file.ok()) return file.status();
  if (memory != nullptr) {
    PH_ASSIGN_OR_RETURN(rows.hold_, memory->Hold("records of a source graph", 0));
  }
  std::vector<RowRecord> records;
  const auto add = [&](const RowRecord& record) -> absl::Status {
    if (memory != nullptr) {
      PH_RETURN_IF_ERROR(rows.hold_.Grow("records of a source graph", MemoryOf(record)));
    }
    records.push_back(record);
    return work.Tick();
  };
  PH_ASSIGN_OR_RETURN(const uint64_t end, ScanRowLog(*file, definition.id, add));
  PH_ASSIGN_OR_RETURN(rows.map_, FileMap::Open(path));
  if (rows.map_.bytes().size() < end) {
    return absl::DataLossError(absl::StrCat(path, ": was cut off while it was read"));
  }
  std::stable_sort(records.begin(), records.end(), [](const RowRecord& a, const RowRecord& b) {
    return std::tie(a.index.producer, a.header.sequence) <
           std::tie(b.index.producer, b.header.sequence);
  });
  for (const RowRecord& record : records) {
    const absl::string_view bytes =
        rows.map_.bytes().substr(record.offset, record.header.record_bytes);
    PH_ASSIGN_OR_RETURN(const uint32_t crc,
                        CrcOf(bytes.substr(RowHeader::kBytes + record.header.index_bytes), work));
    const auto lost = [&](absl::string_view why) {
      return absl::DataLossError(
          absl::StrCat(path, ": the record at byte ", record.offset, ": ", why));
    };
    if (crc != record.header.data_crc) return lost("its rows fail their checksum");
    auto parts =
        ViewRows(*definition.schema, definition.options, record.header, record.index, bytes);
    if (!parts.ok()) return lost(parts.status().message());
    for (StoredRows& part : *parts) {
      auto& of_set = part.is_edges ? rows.edges_[part.set] : rows.nodes_[part.set];
      of_set.push_back(std::move(part));
    }
  }
  return rows;
}

}  // namespace packhouse

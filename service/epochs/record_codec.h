// The bytes of what delivery keeps: cursors and the records of the ledger.
//
// Grammar of a sealed record:
//   record  = version kind payload checksum
//   version = 1 byte, kRecordVersion
//   kind    = 1 byte, a RecordKind
//   payload = numbers and texts, as the kind has them
//   number  = 1 to 10 bytes of 7 bits each, the lowest first; all but the last have the high bit
//             set (as in protobuf); the shortest form only
//   text    = number of bytes, then the bytes
//   checksum = 8 bytes, little-endian: FNV-1a of 64 bits (Fowler, Noll, Vo) over all before it
// The number 300 is ac 02, the text "ab" is 02 61 62.
#ifndef PACKHOUSE_SERVICE_EPOCHS_RECORD_CODEC_H_
#define PACKHOUSE_SERVICE_EPOCHS_RECORD_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/epochs/batch_set.h"

namespace packhouse {

inline constexpr uint8_t kRecordVersion = 1;

// Stored; never change or reuse a number.
enum class RecordKind : uint8_t {
  kCursor = 1,
  kEpochOpened = 2,
  kGenerationStarted = 3,
  kWorkerJoined = 4,
  kBatchesAcknowledged = 5,
  kEpochForgotten = 6,
  kGenerationsUsed = 7,
  kEpochOwned = 8,
  kEpochUsed = 9,
  kEpochExpired = 10,
};

class RecordWriter {
 public:
  explicit RecordWriter(RecordKind kind)
      : bytes_{static_cast<char>(kRecordVersion), static_cast<char>(kind)} {}

  void Number(uint64_t number);
  void Text(absl::string_view text);
  // O(runs).
  void Batches(const BatchSet& batches);

  // The record, with its checksum.
  std::string Seal() &&;

 private:
  std::string bytes_;
};

// Reads what a RecordWriter wrote, from any bytes: after the first violation everything reads as 0
// or empty, and Finish() says so. What is read takes no more memory than a small multiple of the
// bytes. The bytes must outlive the reader.
class RecordReader {
 public:
  // INVALID_ARGUMENT, saying why, for bytes that are too short, of another version, or whose
  // checksum is wrong. O(bytes).
  static absl::StatusOr<RecordReader> Open(absl::string_view bytes);

  uint8_t kind() const { return kind_; }

  uint64_t Number();
  // At most `bound`.
  uint64_t NumberUpTo(uint64_t bound);
  std::string Text();
  BatchSet Batches();
  // Number of entries that follow, of at least a byte each.
  size_t Count();

  // INVALID_ARGUMENT if something read was malformed or if there is more. To be called last.
  absl::Status Finish() const;

 private:
  RecordReader(uint8_t kind, absl::string_view payload) : kind_(kind), rest_(payload) {}

  void Fail() {
    failed_ = true;
    rest_ = {};
  }

  uint8_t kind_;
  absl::string_view rest_;
  bool failed_ = false;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_EPOCHS_RECORD_CODEC_H_

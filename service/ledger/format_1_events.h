// Records of servers before format 2. They are read when a log is converted, and in cursors that
// trainers have kept.
//
// Grammar of a record:
//   record  = version kind payload checksum
//   version = 1 byte, 1
//   kind    = 1 byte, a Format1Kind
//   payload = numbers and texts, as the kind has them
//   number  = 1 to 10 bytes of 7 bits each, the lowest first; all but the last have the high bit
//             set (as in protobuf); the shortest form only
//   text    = number of bytes, then the bytes
//   checksum = 8 bytes, little-endian: FNV-1a of 64 bits (Fowler, Noll, Vo) over all before it
#ifndef PACKHOUSE_SERVICE_LEDGER_FORMAT_1_EVENTS_H_
#define PACKHOUSE_SERVICE_LEDGER_FORMAT_1_EVENTS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/epochs/batch_set.h"
#include "service/epochs/epoch_identity.h"

namespace packhouse {

inline constexpr char kFormat1Version = 1;

enum class Format1Kind : uint8_t {
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

// Reads any bytes: after the first violation everything reads as 0 or empty, and Finish() says so.
// The result takes no more memory than a small multiple of the bytes. The bytes must outlive the
// reader.
class Format1Reader {
 public:
  // INVALID_ARGUMENT, saying why, for bytes that are too short, of another version, or whose
  // checksum is wrong. O(bytes).
  static absl::StatusOr<Format1Reader> Open(absl::string_view bytes);

  Format1Kind kind() const { return kind_; }

  uint64_t Number();
  // At most `bound`.
  uint64_t NumberUpTo(uint64_t bound);
  std::string Text();
  BatchSet Batches();
  EpochIdentity Identity();
  // Number of entries that follow, of at least a byte each.
  size_t Count();

  // INVALID_ARGUMENT if something read was malformed or if there is more. To be called last.
  absl::Status Finish() const;

 private:
  Format1Reader(Format1Kind kind, absl::string_view payload) : kind_(kind), rest_(payload) {}

  void Fail() {
    failed_ = true;
    rest_ = {};
  }

  Format1Kind kind_;
  absl::string_view rest_;
  bool failed_ = false;
};

// The event as this release writes it (event_codec.h). INVALID_ARGUMENT, saying why, if the record
// is no event.
absl::StatusOr<std::string> EventFromFormat1(absl::string_view record);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_LEDGER_FORMAT_1_EVENTS_H_

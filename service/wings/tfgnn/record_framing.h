// TFRecord: how records lie in a file.
//
// Each record is: its length as uint64, little-endian; the masked CRC32C of these eight bytes; its
// bytes; the masked CRC32C of them. Whole files may be compressed by gzip, which is not known here.
#ifndef PACKHOUSE_SERVICE_WINGS_TFGNN_RECORD_FRAMING_H_
#define PACKHOUSE_SERVICE_WINGS_TFGNN_RECORD_FRAMING_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace packhouse::tfgnn {

// A CRC32C as TFRecord stores it: rotated to the right by 15 bits, plus a constant.
uint32_t MaskedCrc32c(absl::string_view bytes);

// Appends one record to `*out`.
void AppendRecord(absl::string_view record, std::string* out);

inline constexpr size_t kRecordHeaderBytes = 12;
inline constexpr size_t kRecordFooterBytes = 4;

// Takes a file's bytes apart, as they come. Use: Feed, then Next until it has nothing, and so on;
// then Finish. Not thread-safe.
class RecordReader {
 public:
  // `name` is for messages. Longer records are refused, before memory is taken for them.
  explicit RecordReader(std::string name, uint64_t max_record_bytes = uint64_t{1} << 31);

  // The bytes that follow those that were fed before. They are copied.
  void Feed(absl::string_view bytes);

  // The next record, valid until the next call of Feed; nullopt if its bytes have not all been fed.
  //
  // DATA_LOSS naming the file and the offset for a CRC that does not match, and INVALID_ARGUMENT
  // for a record that is too long. Then every call fails: nothing after the damage can be trusted.
  absl::StatusOr<std::optional<absl::string_view>> Next();

  // Call it when all bytes were fed and Next had nothing. DATA_LOSS naming the file and the offset
  // if it ends within a record.
  absl::Status Finish() const;

  // Where the next record begins.
  uint64_t offset() const { return offset_; }
  uint64_t num_records() const { return num_records_; }

 private:
  absl::Status Damage(uint64_t offset, absl::string_view what) const;

  std::string name_;
  uint64_t max_record_bytes_;
  std::string buffer_;
  // Of the next record, in the buffer.
  size_t at_ = 0;
  uint64_t offset_ = 0;
  uint64_t num_records_ = 0;
  absl::Status status_;
};

}  // namespace packhouse::tfgnn

#endif  // PACKHOUSE_SERVICE_WINGS_TFGNN_RECORD_FRAMING_H_

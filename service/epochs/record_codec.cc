#include "service/epochs/record_codec.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/base/checked_arithmetic.h"

namespace packhouse {
namespace {

constexpr size_t kHeaderBytes = 2;
constexpr size_t kChecksumBytes = 8;

uint64_t Checksum(absl::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : bytes) {
    hash ^= static_cast<uint8_t>(byte);
    hash *= 0x100000001b3;
  }
  return hash;
}

}  // namespace

void RecordWriter::Number(uint64_t number) {
  for (; number >= 0x80; number >>= 7) bytes_.push_back(static_cast<char>(number | 0x80));
  bytes_.push_back(static_cast<char>(number));
}

void RecordWriter::Text(absl::string_view text) {
  Number(text.size());
  absl::StrAppend(&bytes_, text);
}

void RecordWriter::Batches(const BatchSet& batches) {
  Number(batches.num_runs());
  // Each run by its distance from the last one and its length.
  uint64_t last = 0;
  for (const auto& [begin, end] : batches.Runs()) {
    Number(begin - last);
    Number(end - begin);
    last = end;
  }
}

std::string RecordWriter::Seal() && {
  const uint64_t checksum = Checksum(bytes_);
  for (size_t i = 0; i < kChecksumBytes; ++i) {
    bytes_.push_back(static_cast<char>(checksum >> (8 * i)));
  }
  return std::move(bytes_);
}

absl::StatusOr<RecordReader> RecordReader::Open(absl::string_view bytes) {
  if (bytes.size() < kHeaderBytes + kChecksumBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "record: ", bytes.size(), " bytes, must have at least ", kHeaderBytes + kChecksumBytes));
  }
  const absl::string_view content = bytes.substr(0, bytes.size() - kChecksumBytes);
  uint64_t checksum = 0;
  for (size_t i = 0; i < kChecksumBytes; ++i) {
    checksum |= uint64_t{static_cast<uint8_t>(bytes[content.size() + i])} << (8 * i);
  }
  if (checksum != Checksum(content)) {
    return absl::InvalidArgumentError("record: its checksum is wrong; the bytes were changed");
  }
  const auto version = static_cast<uint8_t>(content[0]);
  if (version != kRecordVersion) {
    return absl::InvalidArgumentError(absl::StrCat("record: of format version ", version,
                                                   ", this server reads ", kRecordVersion));
  }
  return RecordReader(static_cast<uint8_t>(content[1]), content.substr(kHeaderBytes));
}

uint64_t RecordReader::Number() {
  uint64_t number = 0;
  for (size_t i = 0; i < rest_.size() && i < 10; ++i) {
    const auto byte = static_cast<uint8_t>(rest_[i]);
    // The tenth byte has the highest of 64 bits; a last byte of 0 would not be the shortest form.
    if ((i == 9 && byte > 1) || (i > 0 && byte == 0)) break;
    number |= uint64_t{byte & 0x7fU} << (7 * i);
    if (byte < 0x80) {
      rest_.remove_prefix(i + 1);
      return number;
    }
  }
  Fail();
  return 0;
}

uint64_t RecordReader::NumberUpTo(uint64_t bound) {
  const uint64_t number = Number();
  if (number <= bound) return number;
  Fail();
  return 0;
}

std::string RecordReader::Text() {
  const uint64_t size = Number();
  if (size > rest_.size()) {
    Fail();
    return "";
  }
  std::string text(rest_.substr(0, size));
  rest_.remove_prefix(size);
  return text;
}

size_t RecordReader::Count() { return NumberUpTo(rest_.size()); }

BatchSet RecordReader::Batches() {
  BatchSet batches;
  uint64_t last = 0;
  for (size_t left = Count(); left != 0 && !failed_; --left) {
    const uint64_t gap = Number();
    const uint64_t length = Number();
    const auto begin = CheckedAdd(last, gap);
    const auto end = begin ? CheckedAdd(*begin, length) : std::nullopt;
    // One form for each set: runs neither empty nor touching.
    if (!end || length == 0 || (gap == 0 && !batches.empty())) {
      Fail();
      break;
    }
    batches.InsertRun({*begin, *end});
    last = *end;
  }
  return failed_ ? BatchSet() : batches;
}

absl::Status RecordReader::Finish() const {
  if (failed_) return absl::InvalidArgumentError("record: malformed");
  if (!rest_.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("record: ", rest_.size(), " bytes after its end"));
  }
  return absl::OkStatus();
}

}  // namespace packhouse

#include "service/wings/tfgnn/record_framing.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/checksum.h"
#include "service/base/status_macros.h"

namespace packhouse::tfgnn {
namespace {

constexpr uint32_t kMaskDelta = 0xa282ead8;

template <typename T>
T LittleEndianAt(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

template <typename T>
void AppendLittleEndian(T value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// RFC 1950: deflate with a window of 32 KiB, and a checksum of both bytes.
bool IsZlib(absl::string_view bytes) {
  constexpr unsigned kDeflate = 0x78;
  if (bytes.size() < 2) return false;
  const unsigned head = static_cast<unsigned char>(bytes[0]);
  return head == kDeflate && (head << 8 | static_cast<unsigned char>(bytes[1])) % 31 == 0;
}

}  // namespace

uint32_t MaskedCrc32c(absl::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  return (crc >> 15 | crc << 17) + kMaskDelta;
}

void AppendRecord(absl::string_view record, std::string* out) {
  const size_t begin = out->size();
  AppendLittleEndian(static_cast<uint64_t>(record.size()), out);
  const uint32_t crc = MaskedCrc32c(absl::string_view(*out).substr(begin));
  AppendLittleEndian(crc, out);
  out->append(record.data(), record.size());
  AppendLittleEndian(MaskedCrc32c(record), out);
}

RecordReader::RecordReader(std::string name, uint64_t max_record_bytes)
    : name_(std::move(name)), max_record_bytes_(max_record_bytes) {}

void RecordReader::Feed(absl::string_view bytes) {
  // What was taken goes before the buffer grows, so that it holds one record and one feed at most.
  buffer_.erase(0, at_);
  at_ = 0;
  buffer_.append(bytes.data(), bytes.size());
}

absl::Status RecordReader::Damage(uint64_t offset, absl::string_view what) const {
  const bool is_zlib = offset == 0 && IsZlib(absl::string_view(buffer_).substr(at_));
  return absl::DataLossError(absl::StrCat(
      name_, ": record ", num_records_, " at offset ", offset, ": ", what,
      is_zlib ? "; it looks compressed by ZLIB: files that are plain, or compressed by "
                "GZIP, are read"
              : ""));
}

absl::StatusOr<std::optional<absl::string_view>> RecordReader::Next() {
  PH_RETURN_IF_ERROR(status_);
  const absl::string_view rest = absl::string_view(buffer_).substr(at_);
  if (rest.size() < kRecordHeaderBytes) return std::nullopt;
  const uint64_t length = LittleEndianAt<uint64_t>(rest.data());
  if (LittleEndianAt<uint32_t>(rest.data() + sizeof(length)) !=
      MaskedCrc32c(rest.substr(0, sizeof(length)))) {
    return status_ = Damage(offset_, "the checksum of its length does not match");
  }
  if (length > max_record_bytes_) {
    return status_ = absl::InvalidArgumentError(
               absl::StrCat(name_, ": record ", num_records_, " at offset ", offset_, ": ", length,
                            " bytes, at most ", max_record_bytes_));
  }
  const uint64_t whole = kRecordHeaderBytes + length + kRecordFooterBytes;
  if (rest.size() < whole) return std::nullopt;
  const absl::string_view record = rest.substr(kRecordHeaderBytes, length);
  if (LittleEndianAt<uint32_t>(record.data() + length) != MaskedCrc32c(record)) {
    return status_ = Damage(offset_,
                            absl::StrCat("the checksum of its ", length, " bytes does not match"));
  }
  at_ += whole;
  offset_ += whole;
  ++num_records_;
  return record;
}

absl::Status RecordReader::Finish() const {
  PH_RETURN_IF_ERROR(status_);
  if (at_ == buffer_.size()) return absl::OkStatus();
  return Damage(offset_,
                absl::StrCat("the file ends after ", buffer_.size() - at_, " bytes of it"));
}

}  // namespace packhouse::tfgnn

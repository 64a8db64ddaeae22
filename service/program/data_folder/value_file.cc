#include "service/program/data_folder/value_file.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr size_t kLengthBytes = sizeof(uint32_t) + sizeof(uint64_t);

}  // namespace

absl::Status ValueWriter::Add(absl::string_view key, absl::string_view value) {
  char lengths[kLengthBytes];
  const auto key_bytes = static_cast<uint32_t>(key.size());
  const uint64_t value_bytes = value.size();
  std::memcpy(lengths, &key_bytes, sizeof(key_bytes));
  std::memcpy(lengths + sizeof(key_bytes), &value_bytes, sizeof(value_bytes));
  buffer_.append(lengths, kLengthBytes);
  absl::StrAppend(&buffer_, key);
  if (value.size() >= kBufferBytes) {
    PH_RETURN_IF_ERROR(Flush());
    return file_->Append(value);
  }
  absl::StrAppend(&buffer_, value);
  return buffer_.size() < kBufferBytes ? absl::OkStatus() : Flush();
}

absl::Status ValueWriter::Flush() {
  PH_RETURN_IF_ERROR(file_->Append(buffer_));
  buffer_.clear();
  return absl::OkStatus();
}

absl::StatusOr<ValueReader> ValueReader::Open(const std::string& path, std::string checksum) {
  PH_ASSIGN_OR_RETURN(DiskFile file, DiskFile::Open(path, DiskFile::Mode::kRead));
  PH_ASSIGN_OR_RETURN(const uint64_t num_bytes, file.Size());
  return ValueReader(std::move(file), num_bytes, std::move(checksum));
}

absl::Status ValueReader::Fill(uint64_t bytes) {
  const uint64_t have = buffer_.size() - place_;
  if (have >= bytes) return absl::OkStatus();
  if (bytes - have > num_bytes_ - read_) {
    return absl::DataLossError(absl::StrCat(file_.path(), ": ends within a value"));
  }
  buffer_.erase(0, place_);
  place_ = 0;
  const uint64_t more =
      std::min(std::max<uint64_t>(bytes - have, kBufferBytes), num_bytes_ - read_);
  buffer_.resize(have + more);
  PH_ASSIGN_OR_RETURN(const size_t got, file_.ReadAt(read_, buffer_.data() + have, more));
  read_ += got;
  if (got != more) return absl::DataLossError(absl::StrCat(file_.path(), ": was cut off"));
  digest_->AddBytes(absl::string_view(buffer_).substr(have));
  return absl::OkStatus();
}

absl::StatusOr<bool> ValueReader::Next(absl::string_view& key, absl::string_view& value) {
  if (place_ == buffer_.size() && read_ == num_bytes_) {
    is_good_ = is_good_ || digest_->Hex(32) == checksum_;
    if (is_good_) return false;
    return absl::DataLossError(
        absl::StrCat(file_.path(), ": its checksum is not that of the manifest"));
  }
  PH_RETURN_IF_ERROR(Fill(kLengthBytes));
  uint32_t key_bytes = 0;
  uint64_t value_bytes = 0;
  std::memcpy(&key_bytes, buffer_.data() + place_, sizeof(key_bytes));
  std::memcpy(&value_bytes, buffer_.data() + place_ + sizeof(key_bytes), sizeof(value_bytes));
  if (value_bytes > num_bytes_) {
    return absl::DataLossError(absl::StrCat(file_.path(), ": a value of ", value_bytes, " bytes"));
  }
  PH_RETURN_IF_ERROR(Fill(kLengthBytes + key_bytes + value_bytes));
  const absl::string_view bytes = absl::string_view(buffer_).substr(place_ + kLengthBytes);
  key = bytes.substr(0, key_bytes);
  value = bytes.substr(key_bytes, value_bytes);
  place_ += kLengthBytes + key_bytes + value_bytes;
  return true;
}

}  // namespace packhouse

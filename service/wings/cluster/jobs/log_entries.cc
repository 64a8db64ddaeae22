#include "service/wings/cluster/jobs/log_entries.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/checksum.h"

namespace packhouse {
namespace {

constexpr size_t kNumberBytes = 4;

void AppendNumber(uint32_t number, std::string& bytes) {
  for (size_t i = 0; i < kNumberBytes; ++i) {
    bytes.push_back(static_cast<char>(number >> (8 * i)));
  }
}

uint32_t NumberAt(absl::string_view bytes) {
  uint32_t number = 0;
  for (size_t i = 0; i < kNumberBytes; ++i) {
    number |= uint32_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return number;
}

}  // namespace

void AddFramed(absl::string_view record, std::string& contents) {
  AppendNumber(static_cast<uint32_t>(record.size()), contents);
  contents.append(record.data(), record.size());
}

std::vector<std::string> CutIntoEntries(absl::string_view contents) {
  std::vector<std::string> entries;
  while (!contents.empty()) {
    const absl::string_view part = contents.substr(0, kMaxContentBytes);
    std::string entry;
    entry.reserve(part.size() + kNumberBytes);
    AppendNumber(Crc32c(part), entry);
    entry.append(part.data(), part.size());
    entries.push_back(std::move(entry));
    contents.remove_prefix(part.size());
  }
  return entries;
}

absl::Status EntryReader::Add(absl::string_view value) {
  if (value.size() <= kNumberBytes || NumberAt(value) != Crc32c(value.substr(kNumberBytes))) {
    return absl::DataLossError("its checksum is wrong");
  }
  value.remove_prefix(kNumberBytes);
  rest_.append(value.data(), value.size());
  absl::string_view left = rest_;
  while (left.size() >= kNumberBytes) {
    const size_t bytes = NumberAt(left);
    if (left.size() - kNumberBytes < bytes) break;
    records_.emplace_back(left.substr(kNumberBytes, bytes));
    left.remove_prefix(kNumberBytes + bytes);
  }
  rest_.erase(0, rest_.size() - left.size());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> EntryReader::Finish() {
  if (!rest_.empty()) return absl::DataLossError("the last record is cut off");
  return std::move(records_);
}

}  // namespace packhouse

#include "service/wings/graphs/source_graphs/checked_array.h"

#include "absl/strings/str_cat.h"
#include "service/base/checksum.h"

namespace packhouse {

absl::Status GraphChecks::damage() const {
  absl::MutexLock lock(&mutex_);
  return damage_;
}

absl::Status GraphChecks::Add(absl::string_view why) {
  const absl::Status damage =
      absl::DataLossError(absl::StrCat(what_, " is damaged: ", why,
                                       "; nothing of it is served until it is deleted, or comes "
                                       "from a snapshot"));
  absl::MutexLock lock(&mutex_);
  if (damage_.ok()) damage_ = damage;
  return damage;
}

absl::Status ArrayChecks::CheckBlock(absl::string_view array, uint64_t block) const {
  const uint64_t begin = block * kBlockBytes;
  const uint64_t end = std::min<uint64_t>(begin + kBlockBytes, array.size());
  if (block < block_crcs_.size() && begin < end &&
      Crc32c(array.substr(begin, end - begin)) == block_crcs_[block]) {
    is_sound_[block].store(true, std::memory_order_relaxed);
    return absl::OkStatus();
  }
  return Damaged(absl::StrCat("bytes ", begin, " to ", end, " fail their checksum"));
}

absl::Status ArrayChecks::Damaged(absl::string_view why) const {
  return graph_->Add(absl::StrCat("array ", name_, ": ", why));
}

}  // namespace packhouse

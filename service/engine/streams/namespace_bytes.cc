#include "service/engine/streams/namespace_bytes.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"

namespace packhouse {

std::shared_ptr<ByteQuota> NamespaceBytes::Of(absl::string_view where) {
  const std::optional<uint64_t> most = quotas_of_(where).pending_bytes;
  if (!most) return nullptr;
  absl::MutexLock lock(&mutex_);
  std::weak_ptr<ByteQuota>& known = by_namespace_[where];
  std::shared_ptr<ByteQuota> quota = known.lock();
  if (quota != nullptr) {
    quota->set_bound(*most);
    return quota;
  }
  quota = std::make_shared<ByteQuota>(
      *most, all_,
      absl::StrCat("pending in the streams of namespace '", where, "', its quota 'pending_bytes'"));
  known = quota;
  if (by_namespace_.size() >= next_cleaning_) {
    absl::erase_if(by_namespace_, [](const auto& each) { return each.second.expired(); });
    next_cleaning_ = std::max<size_t>(64, 2 * by_namespace_.size());
  }
  return quota;
}

uint64_t NamespaceBytes::HeldIn(absl::string_view where) const {
  absl::MutexLock lock(&mutex_);
  const auto found = by_namespace_.find(where);
  const std::shared_ptr<ByteQuota> quota =
      found == by_namespace_.end() ? nullptr : found->second.lock();
  return quota == nullptr ? 0 : quota->held();
}

}  // namespace packhouse

// Bounds the bytes of each namespace on the disk, over all stores.
#ifndef PACKHOUSE_SERVICE_STORES_LIMITS_DISK_QUOTA_H_
#define PACKHOUSE_SERVICE_STORES_LIMITS_DISK_QUOTA_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "service/access/policy.h"

namespace packhouse {

// Bytes are counted by the stores when they are first asked for; after that what is appended is
// added to them. So a repeated append may be counted twice. Before an append is refused they are
// counted anew, and appends that are under way, which the stores may not have counted yet, are
// added. What has been stored stays, even if a quota is lowered. Thread-safe.
class DiskQuota {
 public:
  // The bytes of a namespace in one store.
  using Count = std::function<absl::StatusOr<uint64_t>(absl::string_view where)>;

  explicit DiskQuota(QuotasOf quotas_of) : quotas_of_(std::move(quotas_of)) {}
  DiskQuota(const DiskQuota&) = delete;
  DiskQuota& operator=(const DiskQuota&) = delete;

  // Before Take(). What the function refers to must outlive every call of Take().
  void Add(Count count) { counts_.push_back(std::move(count)); }

  // To be held while what was taken is stored. Movable; must not outlive the quota.
  class Hold {
   public:
    Hold() = default;
    Hold(Hold&& other) noexcept { *this = std::move(other); }
    Hold& operator=(Hold&& other) noexcept {
      std::swap(quota_, other.quota_);
      std::swap(where_, other.where_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Hold() {
      if (quota_ != nullptr) quota_->End(where_, bytes_);
    }

   private:
    friend class DiskQuota;
    Hold(std::string where, uint64_t bytes) : where_(std::move(where)), bytes_(bytes) {}
    Hold For(DiskQuota* quota) && {
      quota_ = quota;
      return std::move(*this);
    }

    DiskQuota* quota_ = nullptr;
    std::string where_;
    uint64_t bytes_ = 0;
  };

  // Room for as many bytes, which count from now on. RESOURCE_EXHAUSTED as BeyondQuota(), and the
  // errors of counting. O(1), and the time to count if there seems to be no room. If there is room
  // unless other appends take it, waits for one of these to end.
  absl::StatusOr<Hold> Take(absl::string_view where, uint64_t bytes);

 private:
  struct Bytes {
    // As counted, and taken since.
    std::optional<uint64_t> all;
    // Of these or beside them: taken for appends that have not ended.
    uint64_t under_way = 0;
    uint64_t num_ended = 0;
  };

  // There may be room for `bytes` more: they are taken.
  bool TryTake(Bytes& of, uint64_t bytes, uint64_t most) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void End(const std::string& where, uint64_t bytes);
  absl::StatusOr<uint64_t> CountAll(absl::string_view where) const;

  const QuotasOf quotas_of_;
  std::vector<Count> counts_;  // Constant once Take() was called.
  absl::Mutex mutex_;
  absl::node_hash_map<std::string, Bytes> bytes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_LIMITS_DISK_QUOTA_H_

// The bytes that may wait in the streams of each namespace.
#ifndef PACKHOUSE_SERVICE_ENGINE_STREAMS_NAMESPACE_BYTES_H_
#define PACKHOUSE_SERVICE_ENGINE_STREAMS_NAMESPACE_BYTES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "service/access/policy.h"
#include "service/engine/streams/byte_quota.h"

namespace packhouse {

// Namespaces without streams leave nothing behind. Thread-safe.
class NamespaceBytes {
 public:
  // `all` must outlive this and every result of Of().
  NamespaceBytes(ByteQuota* all, QuotasOf quotas_of)
      : all_(all), quotas_of_(std::move(quotas_of)) {}
  NamespaceBytes(const NamespaceBytes&) = delete;
  NamespaceBytes& operator=(const NamespaceBytes&) = delete;

  // What the streams of a namespace share, to be kept by each of them; null if it has no such
  // quota. Open streams get a new bound when the next one asks. O(1) amortised.
  std::shared_ptr<ByteQuota> Of(absl::string_view where);

  // 0 for a namespace without streams.
  uint64_t HeldIn(absl::string_view where) const;

 private:
  ByteQuota* const all_;
  const QuotasOf quotas_of_;
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<std::string, std::weak_ptr<ByteQuota>> by_namespace_ ABSL_GUARDED_BY(mutex_);
  size_t next_cleaning_ ABSL_GUARDED_BY(mutex_) = 64;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_STREAMS_NAMESPACE_BYTES_H_

// Decides what a principal may do. The one place that does.
#ifndef PACKHOUSE_SERVICE_ACCESS_AUTHORIZER_H_
#define PACKHOUSE_SERVICE_ACCESS_AUTHORIZER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "service/access/policy.h"
#include "service/access/principal.h"

namespace packhouse {

// What one request asks for. server/calls/request_rights.h knows what each request demands.
struct Demand {
  enum class Where {
    kNamed,      // In the namespace of `name`.
    kSomewhere,  // In any namespace: the request works on what it carries itself.
    kServer,     // In all namespaces.
  };
  Right right = Right::kView;
  Where where = Where::kNamed;
  // For kNamed: what it is ("data set"), and its whole name.
  absl::string_view kind;
  std::string name;
};

// Holds the policy, which may be replaced at any time. What has begun goes on under the policy
// under which it began. Thread-safe.
class Authorizer {
 public:
  explicit Authorizer(std::shared_ptr<const Policy> policy) : policy_(std::move(policy)) {}

  void Set(std::shared_ptr<const Policy> policy) {
    absl::MutexLock lock(&mutex_);
    policy_ = std::move(policy);
  }
  std::shared_ptr<const Policy> policy() const {
    absl::MutexLock lock(&mutex_);
    return policy_;
  }

  // PERMISSION_DENIED naming the principal, the right and the resource. The message is the same
  // whether there is such a thing or not.
  absl::Status Check(const Principal& principal, const Demand& demand) const;

  // A stream that names something in a namespace, until the result is gone. Null without a quota of
  // streams. RESOURCE_EXHAUSTED naming the namespace, the quota, its bound and the value. The
  // authorizer must outlive the result.
  absl::StatusOr<std::shared_ptr<const void>> EnterStream(absl::string_view where) const;

  // Streams that have entered a namespace and not left.
  uint64_t StreamsIn(absl::string_view where) const;

  // Whether a list may show `name` to `principal`.
  bool MaySee(const Principal& principal, absl::string_view name) const {
    return policy()->Allows(principal, Right::kView, NamespaceOf(name));
  }

 private:
  class StreamPlace;

  mutable absl::Mutex mutex_;
  // Of namespaces that have any.
  mutable absl::flat_hash_map<std::string, uint64_t> streams_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const Policy> policy_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ACCESS_AUTHORIZER_H_

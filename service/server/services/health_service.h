// grpc.health.v1.Health (proto/grpc/health/v1/health.proto).
//
// gRPC's own health service answers any number of calls, and each Watch takes some 17 KB for as
// long as its client likes. Here Watch has bounds of its own, besides the gate's: watching clients
// are idle by nature, and must not take streams away from others.
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_HEALTH_SERVICE_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_HEALTH_SERVICE_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "grpc/health/v1/health.pb.h"
#include "service/access/fair_bound.h"
#include "service/server/calls/call_context.h"
#include "service/server/calls/readiness.h"
#include "service/server/calls_grpc/early_service.h"

namespace packhouse::rpc {

class HealthWatch;

// Answers at once, on gRPC's thread. Thread-safe.
class HealthService final : public EarlyService {
 public:
  using Status = grpc::health::v1::HealthCheckResponse::ServingStatus;

  // Longest name that may be asked for.
  static constexpr size_t kMaxNameLength = 1024;

  // `services`: the services by their full names, and whether they can do anything. While
  // `readiness` (null: always ready) is not ready, none of them can: the answers are those of
  // /readyz. The pointees must outlive the service.
  HealthService(const CallContext& context, absl::flat_hash_map<std::string, bool> services,
                const FairBound::Bounds& watches, const Readiness* readiness);

  // For "", the status of the whole server; nullopt for an unknown name.
  std::optional<Status> StatusOf(absl::string_view service) const;

  // Tells watching clients if the server has become ready, or is not any more. To be called now and
  // then.
  void Refresh();

  // From now on the status is NOT_SERVING for all, and watching clients are told. May be called
  // once.
  void StopServing();

  // Every Watch ends with `status`, new ones at once. Check is answered as usual. May be called
  // once.
  void EndWatches(const absl::Status& status);

 private:
  friend class HealthWatch;

  // The status with which a new Watch must end; OK if it may go on: then it is told of changes.
  absl::Status AddWatch(const std::shared_ptr<HealthWatch>& watch);
  void RemoveWatch(const std::shared_ptr<HealthWatch>& watch);
  absl::flat_hash_set<std::shared_ptr<HealthWatch>> watching() const;

  const absl::flat_hash_map<std::string, bool> services_;
  const Readiness* const readiness_;  // May be null.
  FairBound watches_;

  mutable absl::Mutex mutex_;
  bool is_serving_ ABSL_GUARDED_BY(mutex_) = true;
  absl::Status end_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<std::shared_ptr<HealthWatch>> watching_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_HEALTH_SERVICE_H_

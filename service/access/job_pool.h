// The interface of a pool that runs jobs of clients.
#ifndef PACKHOUSE_SERVICE_ACCESS_JOB_POOL_H_
#define PACKHOUSE_SERVICE_ACCESS_JOB_POOL_H_

#include <functional>

#include "service/access/client_identity.h"

namespace packhouse {

// Thread-safe.
class JobPool {
 public:
  virtual ~JobPool() = default;

  // Runs `job` once, soon, on a thread of the pool, never on the calling thread. Never blocks.
  virtual void Submit(const ClientId& client, std::function<void()> job) = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ACCESS_JOB_POOL_H_

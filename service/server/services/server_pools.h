// The threads of a server, by what they may wait for.
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_SERVER_POOLS_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_SERVER_POOLS_H_

#include <functional>
#include <memory>
#include <utility>

#include "service/access/planning_pool.h"
#include "service/access/policy.h"
#include "service/access/worker_pool.h"
#include "service/base/clock.h"
#include "service/server/calls/call_context.h"
#include "service/server/services/server_options.h"

namespace packhouse::rpc {

struct ServerPools {
  ServerPools(const ServerOptions& options, const QuotasOf& quotas_of, Clock* clock)
      : streams(clock, options.stream_threads),
        calls(clock, options.call_threads, WorkerPool::Jobs::kQuick),
        planning(clock, options.plan_threads, quotas_of),
        windows(clock, options.plan_threads),
        appends(clock, options.append_threads),
        distant(options.shares_jobs() ? std::make_unique<WorkerPool>(clock, options.append_threads)
                                      : nullptr),
        lookups(options.shares_jobs() ? std::make_unique<WorkerPool>(clock, options.append_threads)
                                      : nullptr),
        reports(options.shares_jobs() ? std::make_unique<WorkerPool>(clock, options.append_threads)
                                      : nullptr) {}

  // Runs nobody's job where it may wait for the disk.
  void RunOnAppends(std::function<void()> work) { appends.Submit(/*client=*/"", std::move(work)); }

  WorkerPool streams;
  WorkerPool calls;
  PlanningPool planning;
  // Windows of epochs of sub-graphs. Streams wait for them, so its threads have the priority of
  // those that deliver: with the planning pool's, a busy machine would keep streams waiting for
  // minutes.
  WorkerPool windows;
  WorkerPool appends;
  // Where data sets are beyond this machine, appends, which wait for S3, must hold up neither joins
  // and acknowledgements nor calls about data sets that wait for etcd only. Null otherwise.
  const std::unique_ptr<WorkerPool> distant;
  const std::unique_ptr<WorkerPool> lookups;
  // Reports of one model wait for each other, and many trainers report the same: they hold up
  // nothing else. Null where lookups is.
  const std::unique_ptr<WorkerPool> reports;
};

// A context of which all that begins is on one pool, and what waits for long on the other; as it is
// without them.
inline CallContext WaitingOn(WorkerPool* begins, WorkerPool* waits, CallContext context) {
  if (begins != nullptr) context.call_pool = begins;
  if (waits != nullptr) context.append_pool = waits;
  return context;
}

// A context of which streams that wait for another machine to open do so on the pool; all else of
// them is as it is without it.
inline CallContext OpeningOn(WorkerPool* pool, CallContext context) {
  context.opening_pool = pool;
  return context;
}

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_SERVER_POOLS_H_

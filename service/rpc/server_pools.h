// The threads of a server, by what they may wait for.
#ifndef PACKHOUSE_SERVICE_RPC_SERVER_POOLS_H_
#define PACKHOUSE_SERVICE_RPC_SERVER_POOLS_H_

#include <functional>
#include <memory>
#include <utility>

#include "service/admission/call_context.h"
#include "service/admission/planning_pool.h"
#include "service/admission/policy.h"
#include "service/admission/worker_pool.h"
#include "service/base/clock.h"
#include "service/rpc/server_options.h"

namespace packhouse::rpc {

struct ServerPools {
  ServerPools(const ServerOptions& options, const QuotasOf& quotas_of, Clock* clock)
      : streams(clock, options.stream_threads),
        calls(clock, options.call_threads, WorkerPool::Jobs::kQuick),
        planning(clock, options.plan_threads, quotas_of),
        windows(clock, options.plan_threads),
        appends(clock, options.append_threads),
        distant(options.job_logs == nullptr
                    ? nullptr
                    : std::make_unique<WorkerPool>(clock, options.append_threads)) {}

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
  // Where data sets are beyond this machine, those who wait for them must not hold up joins and
  // acknowledgements. Null otherwise.
  const std::unique_ptr<WorkerPool> distant;
};

// A context of which all that waits, and begins, is on `pool`; the same one without a pool.
inline CallContext WaitingOn(WorkerPool* pool, CallContext context) {
  if (pool != nullptr) {
    context.call_pool = pool;
    context.append_pool = pool;
  }
  return context;
}

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_RPC_SERVER_POOLS_H_

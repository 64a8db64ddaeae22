// What every call needs of the server.
#ifndef PACKHOUSE_SERVICE_RPC_CALL_CONTEXT_H_
#define PACKHOUSE_SERVICE_RPC_CALL_CONTEXT_H_

#include <cstddef>

#include "service/rpc/clock.h"
#include "service/rpc/gate.h"
#include "service/rpc/rpc_observer.h"
#include "service/rpc/worker_pool.h"

namespace packhouse::rpc {

// The pointees are thread-safe and outlive all calls.
struct CallContext {
  Clock* clock = nullptr;
  WorkerPool* stream_pool = nullptr;
  WorkerPool* call_pool = nullptr;  // Apart, so that a long plan does not hold up streams.
  Gate* gate = nullptr;
  size_t max_response_bytes = 0;
  RpcObserver* observer = nullptr;
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_RPC_CALL_CONTEXT_H_

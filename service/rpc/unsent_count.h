// What a call holds of responses that the connection has not taken yet.
#ifndef PACKHOUSE_SERVICE_RPC_UNSENT_COUNT_H_
#define PACKHOUSE_SERVICE_RPC_UNSENT_COUNT_H_

#include <cstddef>
#include <cstdint>

#include "service/rpc/rpc_observer.h"

namespace packhouse::rpc {

// Tells the observer, and takes back what is left when the call has ended. Thread-compatible; the
// observer must outlive it.
class UnsentCount {
 public:
  UnsentCount(RpcObserver* observer, Method method) : observer_(observer), method_(method) {}
  UnsentCount(const UnsentCount&) = delete;
  UnsentCount& operator=(const UnsentCount&) = delete;

  void Add(size_t bytes) { Change(1, static_cast<int64_t>(bytes)); }
  void Remove(size_t bytes) { Change(-1, -static_cast<int64_t>(bytes)); }
  void RemoveAll() {
    if (responses_ != 0) Change(-responses_, -bytes_);
  }

 private:
  void Change(int64_t responses, int64_t bytes) {
    responses_ += responses;
    bytes_ += bytes;
    observer_->OnUnsent(method_, responses, bytes);
  }

  RpcObserver* const observer_;
  const Method method_;
  int64_t responses_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_RPC_UNSENT_COUNT_H_

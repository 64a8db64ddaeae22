// The calls that are open, for people who look at a server.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_OPEN_CALLS_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_OPEN_CALLS_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/access/client_identity.h"
#include "service/server/calls/rpc_observer.h"

namespace packhouse {

struct OpenCallInfo {
  Method method = Method::kPack;
  bool is_stream = false;
  ClientId client;
  bool is_principal = false;  // Otherwise `client` is an address.
  std::string peer;           // As gRPC gives it.
  std::string request_id;
  std::string trace;
  absl::Time started;
  std::string resource;  // What its first request names; empty before that.
  // Whether batches go by a lane; null: never.
  std::shared_ptr<const std::atomic<bool>> uses_lane = nullptr;
};

// Bounded by its users: each entry is a call. Thread-safe; O(log calls).
class OpenCalls {
 public:
  // One call, until it is destroyed. The table must outlive it.
  class Entry {
   public:
    Entry(OpenCalls* all, uint64_t number) : all_(all), number_(number) {}
    ~Entry() {
      absl::MutexLock lock(&all_->mutex_);
      all_->calls_.erase(number_);
    }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

    void SetResource(std::string resource) {
      absl::MutexLock lock(&all_->mutex_);
      const auto found = all_->calls_.find(number_);
      if (found != all_->calls_.end()) found->second.resource = std::move(resource);
    }
    void SetLane(std::shared_ptr<const std::atomic<bool>> uses_lane) {
      absl::MutexLock lock(&all_->mutex_);
      const auto found = all_->calls_.find(number_);
      if (found != all_->calls_.end()) found->second.uses_lane = std::move(uses_lane);
    }

   private:
    OpenCalls* const all_;
    const uint64_t number_;
  };

  OpenCalls() = default;
  OpenCalls(const OpenCalls&) = delete;
  OpenCalls& operator=(const OpenCalls&) = delete;

  std::shared_ptr<Entry> Enter(OpenCallInfo call) {
    uint64_t number = 0;
    {
      absl::MutexLock lock(&mutex_);
      number = ++last_;
      calls_.emplace(number, std::move(call));
    }
    return std::make_shared<Entry>(this, number);
  }

  // The longest open first.
  std::vector<OpenCallInfo> List() const {
    absl::MutexLock lock(&mutex_);
    std::vector<OpenCallInfo> calls;
    calls.reserve(calls_.size());
    for (const auto& [_, call] : calls_) calls.push_back(call);
    return calls;
  }

 private:
  mutable absl::Mutex mutex_;
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, OpenCallInfo> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_OPEN_CALLS_H_

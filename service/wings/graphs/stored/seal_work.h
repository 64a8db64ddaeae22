// How far a long piece of work is, and whether it shall go on.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_SEAL_WORK_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_SEAL_WORK_H_

#include <algorithm>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "service/wings/graphs/source_graphs/source_graph_store.h"

namespace packhouse {

// Thread-compatible.
class SealWork {
 public:
  using Progress = absl::FunctionRef<bool(const SourceGraphProgress&)>;
  // Units between two calls of `progress`: far less than a millisecond of rows.
  static constexpr uint64_t kStep = 2048;

  SealWork(uint64_t total, Progress progress) : now_{0, total}, progress_(progress) {}

  void AddTotal(uint64_t units) { now_.total += units; }
  // `units` more are done. CANCELLED if the work shall not go on.
  absl::Status Advance(uint64_t units) {
    now_.done = std::min(now_.done + units, now_.total);
    since_ += units;
    return since_ < kStep ? absl::OkStatus() : Tick();
  }
  // The same, for work that counts no units.
  absl::Status Tick() {
    since_ = 0;
    return progress_(now_) ? absl::OkStatus() : absl::CancelledError("given up");
  }

 private:
  SourceGraphProgress now_;
  uint64_t since_ = 0;
  Progress progress_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_SEAL_WORK_H_

// A server that the benchmark starts, and what it uses.
#ifndef PACKHOUSE_CLIENT_BENCH_BENCH_PROCESS_H_
#define PACKHOUSE_CLIENT_BENCH_BENCH_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace packhouse::client {

// CPU time of this process, all threads.
absl::Duration OwnCpuTime();

// CPU time of all processes since the machine started, in ticks of some milliseconds; 0 where the
// kernel does not say.
absl::Duration MachineCpuTime();

// A child process, killed with this object, or when the thread that started it ends. Not
// thread-safe.
class BenchProcess {
 public:
  // Runs `command` and waits for its line `listening NAME=VALUE ...`. Its stderr is this process's.
  //
  // Errors: UNAVAILABLE if it cannot be run, ends, or is silent for twenty seconds.
  static absl::StatusOr<std::unique_ptr<BenchProcess>> Start(std::vector<std::string> command);

  BenchProcess(const BenchProcess&) = delete;
  BenchProcess& operator=(const BenchProcess&) = delete;
  ~BenchProcess();

  // The VALUE of NAME; empty if there was none.
  std::string Listening(absl::string_view name) const;

  absl::Duration CpuTime() const;
  // The most physical memory since the last ResetPeakMemory; 0 where the kernel does not say.
  uint64_t PeakMemoryBytes() const;
  void ResetPeakMemory() const;

 private:
  BenchProcess(pid_t pid, int output) : pid_(pid), output_(output) {}

  const pid_t pid_;
  const int output_;
  std::string line_;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_BENCH_BENCH_PROCESS_H_

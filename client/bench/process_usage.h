// CPU time and memory of processes, as the kernel counts them.
#ifndef PACKHOUSE_CLIENT_BENCH_PROCESS_USAGE_H_
#define PACKHOUSE_CLIENT_BENCH_PROCESS_USAGE_H_

#include <sys/types.h>

#include <cstdint>

#include "absl/time/time.h"

namespace packhouse::client {

// CPU time of all threads of this process, and of another one; 0 if there is no such process.
absl::Duration OwnCpuTime();
absl::Duration CpuTimeOf(pid_t process);

// CPU time of all processes since the machine started, in ticks of some milliseconds; 0 if the
// kernel does not report it.
absl::Duration MachineCpuTime();

// The most physical memory of a process since its last ResetPeakMemory; 0 if the kernel does not
// report it.
uint64_t PeakMemoryOf(pid_t process);
void ResetPeakMemory(pid_t process);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_BENCH_PROCESS_USAGE_H_

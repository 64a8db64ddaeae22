// What the cgroup of this process may use: what a container has, and not the whole machine.
#ifndef PACKHOUSE_SERVICE_BASE_CGROUP_LIMITS_H_
#define PACKHOUSE_SERVICE_BASE_CGROUP_LIMITS_H_

#include <cstdint>
#include <optional>
#include <string>

namespace packhouse {

struct CgroupLimits {
  // Processors, such as 1.5; unset: no limit.
  std::optional<double> processors;
  // Unset: no limit.
  std::optional<uint64_t> memory_bytes;
};

// The least of the cgroup and of those above it, as far as they are visible; of cgroup version 2,
// and of version 1. What cannot be read is no limit. `root`: the folder that has proc/ and sys/;
// tests have one of their own.
CgroupLimits ReadCgroupLimits(const std::string& root = "");

// Threads that have a processor each: those of the machine that the process may use, and no more
// than the limit, rounded up; at least 1.
unsigned NumProcessors(const CgroupLimits& limits);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_CGROUP_LIMITS_H_

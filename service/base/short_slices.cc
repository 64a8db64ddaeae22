#include "service/base/short_slices.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace packhouse {
namespace {

// The kernel's struct sched_attr; glibc has none.
struct SchedulingAttributes {
  uint32_t size = sizeof(SchedulingAttributes);
  uint32_t policy = 0;  // SCHED_OTHER.
  uint64_t flags = 0;
  int32_t niceness = 0;
  uint32_t priority = 0;
  uint64_t runtime_ns = 0;
  uint64_t deadline_ns = 0;
  uint64_t period_ns = 0;
  uint32_t least_utilisation = 0;
  uint32_t most_utilisation = 0;
};

// The least that the kernel takes.
constexpr uint64_t kSliceNs = 100'000;

}  // namespace

void AskForShortSlices() {
  thread_local bool has_asked = false;
  if (has_asked) return;
  has_asked = true;
  SchedulingAttributes attributes;
  attributes.niceness = getpriority(PRIO_PROCESS, 0);
  attributes.runtime_ns = kSliceNs;
  ::syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace packhouse

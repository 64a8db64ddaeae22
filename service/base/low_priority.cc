#include "service/base/low_priority.h"

#include <sys/resource.h>

namespace packhouse {

void LowerPriority() {
  constexpr int kNicer = 10;
  // Linux applies it to this thread alone, and takes at most 19.
  setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + kNicer);
}

}  // namespace packhouse

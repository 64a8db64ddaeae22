#include "service/engine/streams/calibration.h"

#include <algorithm>
#include <cstddef>

#include "service/base/status_macros.h"

namespace packhouse {

absl::Status Calibration::Count(const GraphChunk& chunk) {
  const SizeTable& sizes = chunk.sizes();
  for (size_t i = 0; i < sizes.num_graphs() && sizes_.num_graphs() < wanted_; ++i) {
    if (ExcessOf(sizes.tuple(i))) continue;
    PH_RETURN_IF_ERROR(sizes_.Add(sizes.tuple(i)));
  }
  return absl::OkStatus();
}

void Calibration::Pass(absl::Time now, absl::Duration max_delay) {
  if (sizes_.num_graphs() == 0) return;
  first_came_ = std::min(first_came_, now);
  if (now >= first_came_ + max_delay) End();
}

}  // namespace packhouse

#include "service/base/out_of_memory.h"

#include <atomic>

namespace packhouse {
namespace {

std::atomic<uint64_t> num_out_of_memory = 0;

// Makes it at the start, so that it exists when there is no memory.
[[maybe_unused]] const absl::Status& made_at_the_start = OutOfMemory();

}  // namespace

const absl::Status& OutOfMemory() {
  static const auto* const status =
      new absl::Status(absl::ResourceExhaustedError("there is no memory left; try again later"));
  return *status;
}

uint64_t NumOutOfMemory() { return num_out_of_memory.load(std::memory_order_relaxed); }

void CountOutOfMemory() { num_out_of_memory.fetch_add(1, std::memory_order_relaxed); }

}  // namespace packhouse

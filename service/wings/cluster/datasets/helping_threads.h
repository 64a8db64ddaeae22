// Several threads at one work that waits for other machines.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_HELPING_THREADS_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_HELPING_THREADS_H_

#include <cstddef>

#include "absl/functional/function_ref.h"

namespace packhouse {

// Calls `work` on this thread and on `num_threads` - 1 others, or fewer if there are no more, which
// work for the same caller (base/caller.h). Returns when all calls have. `work` must not throw.
void WorkTogether(size_t num_threads, absl::FunctionRef<void()> work);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_HELPING_THREADS_H_

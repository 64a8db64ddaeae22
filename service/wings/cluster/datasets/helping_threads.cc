#include "service/wings/cluster/datasets/helping_threads.h"

#include <new>
#include <system_error>
#include <vector>

#include "service/base/caller.h"
#include "service/base/execution.h"

namespace packhouse {

void WorkTogether(size_t num_threads, absl::FunctionRef<void()> work) {
  std::vector<Thread> threads;
  const auto help = [&work, caller = CurrentCaller()] {
    HelpedCaller helped(caller);
    const CallerScope scope(&helped);
    work();
  };
  try {
    for (size_t i = 1; i < num_threads; ++i) threads.emplace_back(help);
  } catch (const std::system_error&) {
    // Fewer do it.
  } catch (const std::bad_alloc&) {
  }
  work();
}

}  // namespace packhouse

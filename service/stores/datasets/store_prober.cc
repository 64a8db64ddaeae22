#include "service/stores/datasets/store_prober.h"

#include <utility>

#include "service/base/out_of_memory.h"

namespace packhouse {

StoreProber::StoreProber(std::function<bool()> is_failing, std::function<void()> try_commit,
                         absl::Duration interval)
    : thread_(
          [this, is_failing = std::move(is_failing), try_commit = std::move(try_commit), interval] {
            while (!stop_.WaitForNotificationWithTimeout(interval)) {
              HasMemoryFor([&] {
                if (is_failing()) try_commit();
              });
            }
          }) {}

StoreProber::~StoreProber() {
  stop_.Notify();
  thread_.join();
}

}  // namespace packhouse

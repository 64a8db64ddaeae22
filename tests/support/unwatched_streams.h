// Pack observers that look away.
#ifndef PACKHOUSE_TESTS_SUPPORT_UNWATCHED_STREAMS_H_
#define PACKHOUSE_TESTS_SUPPORT_UNWATCHED_STREAMS_H_

#include <memory>

#include "service/engine/streams/pack_observer.h"

namespace packhouse {

class UnwatchedStreams final : public PackObserverFactory {
 public:
  std::unique_ptr<PackObserver> ForStream(const SizeSchema& /*schema*/,
                                          const PackedFor& /*packed_for*/) override {
    class Nobody final : public PackObserver {
      void OnBatch(const Batch&, absl::Span<const uint64_t>) override {}
      void OnRejectedTooLarge(uint64_t) override {}
      void OnPending(uint64_t, uint64_t) override {}
    };
    return std::make_unique<Nobody>();
  }
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_SUPPORT_UNWATCHED_STREAMS_H_

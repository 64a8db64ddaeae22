// Where the next batch is to be built, if not in memory of its own.
//
// Who makes a batch says so on its thread (BatchPlaceScope), as who works for a call does
// (base/caller.h): epochs of all kinds, between that and the collator, need not know of it.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_BATCH_PLACE_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_BATCH_PLACE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace packhouse {

class BatchPlace {
 public:
  virtual ~BatchPlace() = default;

  // Room for the frames and tensors of a batch, at a multiple of 64; null if there is none: then it
  // gets memory of its own. Others may write there, so nothing that matters is read back.
  virtual std::shared_ptr<char[]> RoomFor(uint64_t bytes, size_t num_graphs) = 0;
};

namespace batch_place_internal {
inline constinit thread_local BatchPlace* current = nullptr;
}  // namespace batch_place_internal

inline BatchPlace* CurrentBatchPlace() { return batch_place_internal::current; }

// Until its end, batches with framing that this thread collates are built at `place`, which must
// outlive it, or, with null, in memory of their own.
class BatchPlaceScope {
 public:
  explicit BatchPlaceScope(BatchPlace* place)
      : before_(std::exchange(batch_place_internal::current, place)) {}
  ~BatchPlaceScope() { batch_place_internal::current = before_; }
  BatchPlaceScope(const BatchPlaceScope&) = delete;
  BatchPlaceScope& operator=(const BatchPlaceScope&) = delete;

 private:
  BatchPlace* const before_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_BATCH_PLACE_H_
